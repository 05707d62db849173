package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

const benchTopic = "bench"

// message is one of producer id, for its own queue.
func (c *benchCmd) message(id int) *record.Message {
	rng := rand.New(rand.NewPCG(uint64(id), 2))
	body := make([]byte, c.Body)
	for i := range body {
		body[i] = byte(rng.Uint32())
	}
	host := record.HostFrom(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 10911))
	return &record.Message{Topic: benchTopic, QueueID: int32(id), BornTimestamp: time.Now().UnixMilli(), BornHost: host, StoreHost: host, Body: body, Properties: record.NewProperties(record.PropertyTags, "bench")}
}

// benchPatience is how long a put waits for the disk, a slave or its turn: what took long is to be measured, and no error.
const benchPatience = 5 * time.Minute

// options are those of a store that is measured: production's, but for the sizes of files, and for patience.
func (b *bench) options(m store.FlushMode) store.Options {
	return store.Options{FlushMode: m, SegmentSize: b.p.segment, SyncFlushTimeout: benchPatience, PutBusyAfter: benchPatience}
}

// puts is producers that put, each message with its own timing; it stops early when a round has written its share of most bytes of log.
// A put that was answered with less than PUT_OK is counted in short, and not in the turn.
type puts struct {
	b     *bench
	s     *store.DefaultMessageStore
	most  int64 // bytes of log a round
	took  latencies
	short atomic.Int64
	full  bool // a round ended early
}

func (b *bench) puts(s *store.DefaultMessageStore, most int64) *puts {
	return &puts{b: b, s: s, most: most / benchRounds}
}

func (p *puts) part() worker {
	n := p.b.c.Producers
	messages := make([]*record.Message, n)
	for id := range messages {
		messages[id] = p.b.c.message(id)
	}
	return func(d time.Duration) (turn, error) {
		var written atomic.Int64
		took := make([]latencies, n)
		t, err := p.b.together(n, d, func(id int) (int64, bool, error) {
			begin := time.Now()
			r, err := p.s.Put(p.b.e.ctx, messages[id])
			if err != nil {
				return 0, false, fmt.Errorf("put: %w", err)
			}
			took[id].add(time.Since(begin))
			more := written.Add(p.b.p.record) < p.most
			if r.Status != store.PutOK {
				p.short.Add(1)
				return 0, more, nil
			}
			return 1, more, nil
		})
		for id := range took {
			p.took.merge(&took[id])
		}
		p.full = p.full || written.Load() >= p.most
		t.bytes = t.n * p.b.p.record
		return t, err
	}
}

// warm puts a little, so that files are made and pages are there.
func (p *puts) warm() error {
	most := p.most
	p.most /= 20
	_, err := p.part()(p.b.c.Duration / 20)
	p.most, p.took, p.full = most, latencies{}, false
	p.short.Store(0)
	return err
}

// putAsync measures puts that return once they are in memory, and leaves the store open.
func (b *bench) putAsync(s *store.DefaultMessageStore) error {
	b.stage("put async")
	p := b.puts(s, b.p.async)
	if err := p.warm(); err != nil {
		return err
	}
	begin, from := time.Now(), s.MaxPhyOffset()
	m, err := b.turns(b.c.Duration, benchRounds, p.part(), b.memcpy(toLog, b.c.Producers))
	if err != nil {
		return err
	}
	if _, err := s.Flush(); err != nil {
		return err
	}
	r := &benchPutAsyncJSON{benchPutJSON: b.putJSON(p, m[0]), benchMemcpyJSON: b.memcpyJSON(m[0], m[1])}
	r.OnDiskBytesPerSecond = figures(float64(s.MaxPhyOffset()-from) / time.Since(begin).Seconds())
	b.result.PutAsync = r
	return nil
}

// putSync measures puts that return once they are on the disk, beside fdatasyncs that each carry one message of every producer.
func (b *bench) putSync(s *store.DefaultMessageStore, f *syncFile) error {
	b.stage("put sync")
	p := b.puts(s, b.p.sync)
	if err := p.warm(); err != nil {
		return err
	}
	var took latencies
	m, err := b.turns(b.c.Duration, benchRounds, p.part(), b.fdatasync(f, b.p.group*b.p.record, &took))
	if err != nil {
		return err
	}
	limit := m[1].rate() * float64(b.p.group)
	b.result.PutSync = &benchPutSyncJSON{
		benchPutJSON:           b.putJSON(p, m[0]),
		FdatasyncsPerSecond:    figures(m[1].rate()),
		FdatasyncBytes:         b.p.group * b.p.record,
		FdatasyncP50Micros:     figures(micros(took.quantile(0.5))),
		FdatasyncP99Micros:     figures(micros(took.quantile(0.99))),
		MessagesPerFdatasync:   b.p.group,
		LimitMessagesPerSecond: figures(limit),
		RatioToFdatasync:       ratio(m[0].rate(), limit),
	}
	return nil
}

// pair is a master whose puts wait for its slave, both in this process, over loopback.
type pair struct{ master, slave *store.DefaultMessageStore }

func (p *pair) close() error {
	var err error
	for _, s := range []*store.DefaultMessageStore{p.slave, p.master} {
		if s != nil {
			err = errors.Join(err, s.Close())
		}
	}
	return err
}

func (b *bench) openPair() (_ *pair, err error) {
	p := &pair{}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	o := b.options(store.AsyncFlush)
	o.Role, o.HA = store.SyncMaster, store.HAOptions{ListenAddress: "127.0.0.1:0", SlaveTimeout: benchPatience, FallBehindMax: 1 << 40}
	if p.master, err = store.Open(b.path("master"), o); err != nil {
		return nil, err
	}
	o.Role, o.HA = store.Slave, store.HAOptions{MasterAddress: p.master.Stats().HA.ListenAddress}
	if p.slave, err = store.Open(b.path("slave"), o); err != nil {
		return nil, err
	}
	return p, (&demo{e: b.e}).until("the slave", func() bool {
		slaves := p.master.Stats().HA.Slaves
		return len(slaves) > 0 && slaves[0].Reported
	})
}

// putHA measures puts that return once a slave has them, beside the round trip of one message of every producer, and an answer, over loopback.
func (b *bench) putHA() (err error) {
	b.stage("put with a slave")
	pair, err := b.openPair()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pair.close()) }()
	x, err := newEcho(b.p.group * b.p.record)
	if err != nil {
		return err
	}
	defer x.close()
	p := b.puts(pair.master, b.p.pair)
	if err := p.warm(); err != nil {
		return err
	}
	var took latencies
	m, err := b.turns(b.c.Duration, benchRounds, p.part(), b.roundTrip(x, b.p.group*b.p.record, &took))
	if err != nil {
		return err
	}
	limit := m[1].rate() * float64(b.p.group)
	b.result.PutHA = &benchPutHAJSON{
		benchPutJSON:           b.putJSON(p, m[0]),
		RoundTripsPerSecond:    figures(m[1].rate()),
		RoundTripBytes:         b.p.group * b.p.record,
		RoundTripP50Micros:     figures(micros(took.quantile(0.5))),
		RoundTripP99Micros:     figures(micros(took.quantile(0.99))),
		MessagesPerRoundTrip:   b.p.group,
		LimitMessagesPerSecond: figures(limit),
		RatioToRoundTrip:       ratio(m[0].rate(), limit),
	}
	return nil
}
