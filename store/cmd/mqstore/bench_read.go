package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// get measures consumers, one for each producer's queue: 32 messages a call, copied out as a broker copies them to its consumers, from the queue's start to its end, again and again.
func (b *bench) get(s *store.DefaultMessageStore) error {
	b.stage("get")
	n := b.c.Producers
	at, to := make([]int64, n), make([][]byte, n)
	for id := range n {
		end := s.MaxOffset(benchTopic, int32(id))
		if end == 0 {
			return fmt.Errorf("queue %d is empty although there were puts", id)
		}
		if err := s.WaitForMessages(b.e.ctx, benchTopic, int32(id), end-1); err != nil {
			return err
		}
		to[id] = make([]byte, b.p.record)
	}
	consume := func(d time.Duration) (turn, error) {
		var bytes atomic.Int64
		t, err := b.together(n, d, func(id int) (int64, bool, error) {
			r, err := s.Get(b.e.ctx, store.GetRequest{Topic: benchTopic, QueueID: int32(id), Offset: at[id]})
			if err != nil {
				return 0, false, fmt.Errorf("get: %w", err)
			}
			for _, v := range r.Records {
				copy(to[id], v.Bytes)
			}
			found := int64(len(r.Records))
			bytes.Add(int64(r.Bytes))
			if at[id] = r.NextBeginOffset; found == 0 {
				at[id] = 0
			}
			r.Release()
			return found, true, nil
		})
		t.bytes = bytes.Load()
		runtime.KeepAlive(to)
		return t, err
	}
	if _, err := consume(b.c.Duration / 20); err != nil { // its pages are there, then
		return err
	}
	m, err := b.turns(b.c.Duration, benchRounds, consume, b.memcpy(fromLog, n))
	if err != nil {
		return err
	}
	b.result.Get = &benchGetJSON{
		Messages: m[0].sum().n, Seconds: figures(m[0].sum().took.Seconds()),
		MessagesPerSecond: figures(m[0].rate()), BytesPerSecond: figures(m[0].rate() * float64(b.p.record)),
		benchMemcpyJSON: b.memcpyJSON(m[0], m[1]),
	}
	return nil
}

// query measures questions for one message by a key that it alone has. The store was closed and opened before, so that the index is read from where it lies for good.
func (b *bench) query() (err error) {
	b.stage("query")
	dir, o := b.path("query"), b.options(store.AsyncFlush)
	keys, err := b.fillKeys(dir, o)
	if err != nil {
		return err
	}
	s, err := store.Open(dir, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.WaitIndexed(b.e.ctx, s.MaxPhyOffset()); err != nil {
		return err
	}
	n := b.c.Producers
	rngs, to, took := make([]*rand.Rand, n), make([][]byte, n), make([]latencies, n)
	for id := range n {
		rngs[id], to[id] = rand.New(rand.NewPCG(uint64(id), 3)), make([]byte, 2*b.p.record+64)
	}
	ask := func(d time.Duration) (turn, error) {
		t, err := b.together(n, d, func(id int) (int64, bool, error) {
			key := benchKey(rngs[id].Int64N(keys))
			begin := time.Now()
			r, err := s.Query(b.e.ctx, store.QueryRequest{Topic: benchTopic, Key: key, Max: 1})
			if err != nil {
				return 0, false, fmt.Errorf("query: %w", err)
			}
			defer r.Release()
			if len(r.Records) != 1 {
				return 0, false, fmt.Errorf("query: %d messages have the key %s, not 1", len(r.Records), key)
			}
			copy(to[id], r.Records[0].Bytes)
			took[id].add(time.Since(begin))
			return 1, true, nil
		})
		t.bytes = t.n * b.p.record
		runtime.KeepAlive(to)
		return t, err
	}
	m, err := b.turns(b.c.Duration*3/4, benchRounds, ask, b.memcpy(fromRandom, n))
	if err != nil {
		return err
	}
	all := &took[0]
	for id := range n - 1 {
		all.merge(&took[id+1])
	}
	b.result.Query = &benchQueryJSON{
		Queries: m[0].sum().n, Seconds: figures(m[0].sum().took.Seconds()), QueriesPerSecond: figures(m[0].rate()), Keys: keys,
		P50Micros: figures(micros(all.quantile(0.5))), P99Micros: figures(micros(all.quantile(0.99))),
		benchMemcpyJSON: b.memcpyJSON(m[0], m[1]),
	}
	return nil
}

func benchKey(i int64) string { return fmt.Sprintf("key-%d", i) }

// fillKeys puts messages with a key each, for a quarter of the time of a kind of work, and closes the store.
func (b *bench) fillKeys(dir string, o store.Options) (keys int64, err error) {
	s, err := store.Open(dir, o)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	var next atomic.Int64
	n := b.c.Producers
	messages := make([]*record.Message, n)
	for id := range messages {
		messages[id] = b.c.message(id)
	}
	most := b.p.query / (b.p.record + 32)
	_, err = b.together(n, b.c.Duration/4, func(id int) (int64, bool, error) {
		i := next.Add(1) - 1
		messages[id].Properties = record.NewProperties(record.PropertyTags, "bench", record.PropertyKeys, benchKey(i))
		if _, err := s.Put(b.e.ctx, messages[id]); err != nil {
			return 0, false, fmt.Errorf("put: %w", err)
		}
		return 1, i < most, nil
	})
	b.bar.add(b.c.Duration / 4)
	if err != nil {
		return 0, err
	}
	return next.Load(), nil
}

// recovery measures how long a store takes to open whose process was killed: it reads and checks the whole log. closed is the store's directory.
func (b *bench) recovery(dir string, o store.Options) error {
	b.stage("recovery")
	var records, bytes int64
	open := func(time.Duration) (t turn, err error) {
		if err := asKilled(dir); err != nil {
			return t, err
		}
		begin := time.Now()
		s, err := store.Open(dir, o)
		if err != nil {
			return t, err
		}
		t.took = time.Since(begin)
		r := s.Stats().Recovery
		t.n, t.bytes = r.End-r.Start, r.End-r.Start
		if records, bytes = r.ScannedRecords, t.n; r.Clean || r.Start != 0 {
			err = fmt.Errorf("recovery began at physical offset %d (clean exit: %v), not at 0", r.Start, r.Clean)
		}
		return t, errors.Join(err, s.Close())
	}
	if _, err := open(0); err != nil { // to know how much there is to read
		return err
	}
	m, err := b.turns(b.c.Duration, benchRecoveries, open, b.readCRC(filepath.Join(dir, "commitlog"), bytes))
	if err != nil {
		return err
	}
	b.result.Recovery = &benchRecoveryJSON{
		Bytes: bytes, Messages: records, Seconds: figures(float64(bytes) / m[0].rate()),
		BytesPerSecond: figures(m[0].rate()), MessagesPerSecond: figures(m[0].rate() / float64(bytes) * float64(records)),
		ReadCRCBytesPerSecond: figures(m[1].rate()), RatioToReadCRC: ratio(m[0].rate(), m[1].rate()),
	}
	return nil
}

// asKilled makes of a closed store one whose process was killed before it wrote any checkpoint.
func asKilled(dir string) error {
	for _, name := range []string{"checkpoint", "mqstore.summary"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "abort"), nil, 0o644)
}
