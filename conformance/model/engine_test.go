package model_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/conformance/model"
	"github.com/mqstore/mqstore/store"
)

// pair is an engine and the model of it. Both see the same clock, which stands still now and then.
type pair struct {
	t      *testing.T
	rng    *rand.Rand
	fs     *faultfs.FS
	o      store.Options
	engine *store.DefaultMessageStore
	model  *model.Store
	now    int64
	keys   bool // messages have keys, and queries are compared too
	trace  []string
}

func (p *pair) logf(format string, args ...any) {
	p.trace = append(p.trace, fmt.Sprintf(format, args...))
}

func (p *pair) fatalf(format string, args ...any) {
	p.t.Helper()
	p.t.Fatalf("%s\nafter %s", fmt.Sprintf(format, args...), p.trace[max(0, len(p.trace)-20):])
}

// sameErr compares errors by sentinel.
func sameErr(a, b error) bool {
	if (a == nil) != (b == nil) {
		return false
	}
	for _, s := range []error{store.ErrMessageIllegal, store.ErrPropertiesTooLarge, store.ErrServiceNotAvailable, store.ErrUnsupported, store.ErrNotFound, store.ErrNotARecord, store.ErrClosed, store.ErrCorrupt, store.ErrOffsetMismatch} {
		if errors.Is(a, s) != errors.Is(b, s) {
			return false
		}
	}
	return store.StatusName(a) == store.StatusName(b)
}

func (p *pair) open() {
	p.t.Helper()
	o := p.o
	o.FS = p.fs
	var err error
	if p.engine, err = store.Open("/store", o); err != nil {
		p.fatalf("open: %v", err)
	}
}

// settle lets the engine catch up with its log.
func (p *pair) settle() {
	p.t.Helper()
	for {
		n, err := p.engine.DispatchStep(1000)
		if err != nil {
			p.fatalf("dispatch: %v", err)
		}
		if n == 0 {
			return
		}
	}
}

func (p *pair) topic() string { return string(rune('A' + p.rng.IntN(3))) }

func (p *pair) message() *record.Message {
	rng := p.rng
	m := &record.Message{
		Topic: p.topic(), QueueID: rng.Int32N(2), Flag: rng.Int32(), BornTimestamp: rng.Int64N(1 << 40), ReconsumeTimes: rng.Int32N(3),
		Body: make([]byte, rng.IntN(700)),
	}
	for i := range m.Body {
		m.Body[i] = byte(rng.Uint32())
	}
	if rng.IntN(2) == 0 {
		m.Properties = m.Properties.With(record.PropertyTags, fmt.Sprint("tag", rng.IntN(3)))
	}
	if rng.IntN(4) == 0 {
		m.StoreHost, _ = record.ParseHost("[2001:db8::1]:10911")
	}
	switch rng.IntN(20) {
	case 0:
		m.SysFlag = record.SysFlag(record.TransactionPrepared)
	case 1:
		m.SysFlag = record.SysFlag(record.TransactionRollback)
	case 2:
		m.SysFlag = record.SysFlag(record.TransactionCommit)
	case 3:
		m.Body = make([]byte, 3000+rng.IntN(1500)) // around the segment's size
	case 4:
		m.Topic = string(bytes.Repeat([]byte("t"), 120+rng.IntN(16)))
	case 5:
		m.Properties = m.Properties.With(record.PropertyDelay, fmt.Sprint(rng.IntN(3)))
	case 6:
		m.QueueID = -1
	case 7:
		m.Properties = append(m.Properties, bytes.Repeat([]byte("x"), 32700+rng.IntN(140))...)
	}
	if p.keys {
		if rng.IntN(3) > 0 {
			m.Properties = m.Properties.With(record.PropertyKeys, fmt.Sprintf("k%d k%d", rng.IntN(5), rng.IntN(5)))
		}
		if rng.IntN(3) > 0 {
			m.Properties = m.Properties.With(record.PropertyUniqKey, fmt.Sprint("u", rng.IntN(40)))
		}
	}
	return m
}

// query compares one query. The index has caught up.
func (p *pair) query() {
	p.t.Helper()
	for {
		n, err := p.engine.IndexStep(1000)
		if err != nil {
			p.fatalf("index: %v", err)
		}
		if n == 0 {
			break
		}
	}
	q := store.QueryRequest{Topic: p.topic(), Key: fmt.Sprint([]string{"k", "u"}[p.rng.IntN(2)], p.rng.IntN(6)), Max: p.rng.IntN(80)}
	if p.rng.IntN(2) == 0 {
		q.Begin = time.UnixMilli(p.now - p.rng.Int64N(2000))
	}
	if p.rng.IntN(2) == 0 {
		q.End = time.UnixMilli(p.now - p.rng.Int64N(1000))
	}
	got, err := p.engine.Query(ctx, q)
	want, err2 := p.model.Query(ctx, q)
	if err != nil || err2 != nil {
		p.fatalf("query %+v: %v; %v", q, err, err2)
	}
	defer got.Release()
	same := len(got.Records) == len(want.Records) && got.Complete
	for i := range min(len(got.Records), len(want.Records)) {
		same = same && got.Records[i].PhyOffset == want.Records[i].PhyOffset && bytes.Equal(got.Records[i].Bytes, want.Records[i].Bytes)
	}
	if !same || got.IndexLastUpdatePhyOffset != want.IndexLastUpdatePhyOffset || got.IndexLastUpdateTime != want.IndexLastUpdateTime {
		p.fatalf("query %+v: %d messages, index ends at %d; want %d, %d", q, len(got.Records), got.IndexLastUpdatePhyOffset, len(want.Records), want.IndexLastUpdatePhyOffset)
	}
}

func clone(m *record.Message) *record.Message {
	c := *m
	c.Body, c.Properties = slices.Clone(m.Body), slices.Clone(m.Properties)
	return &c
}

func (p *pair) put() {
	p.t.Helper()
	m := p.message()
	a, b := clone(m), clone(m)
	got, err := p.engine.Put(ctx, a)
	want, err2 := p.model.Put(ctx, b)
	p.logf("put %s/%d %d bytes: %v", m.Topic, m.QueueID, len(m.Body), err2)
	p.samePut(got, err, want, err2)
	if err == nil && (a.PhyOffset != b.PhyOffset || a.QueueOffset != b.QueueOffset || a.StoreTimestamp != b.StoreTimestamp || a.Size != b.Size || a.BodyCRC != b.BodyCRC || a.SysFlag != b.SysFlag) {
		p.fatalf("message %+v; want %+v", a, b)
	}
}

func (p *pair) putBatch() {
	p.t.Helper()
	m := p.message()
	var items []record.BatchItem
	for range p.rng.IntN(6) {
		i := p.message()
		items = append(items, record.BatchItem{Flag: i.Flag, Body: i.Body, Properties: i.Properties})
	}
	got, err := p.engine.PutBatch(ctx, clone(m), items)
	want, err2 := p.model.PutBatch(ctx, clone(m), items)
	p.logf("batch %s/%d of %d: %v", m.Topic, m.QueueID, len(items), err2)
	p.samePut(got, err, want, err2)
}

func (p *pair) samePut(got store.PutResult, err error, want store.PutResult, err2 error) {
	p.t.Helper()
	if !sameErr(err, err2) || err == nil && (got.Status != want.Status || got.PhyOffset != want.PhyOffset || got.Size != want.Size || got.QueueOffset != want.QueueOffset ||
		got.StoreTimestamp != want.StoreTimestamp || got.Messages != want.Messages || got.MessageID() != want.MessageID()) {
		p.fatalf("put: %+v, %v; want %+v, %v", got, err, want, err2)
	}
}

func (p *pair) get() {
	p.t.Helper()
	r := store.GetRequest{Topic: p.topic(), QueueID: p.rng.Int32N(2)}
	r.Offset = p.rng.Int64N(p.model.MaxOffset(r.Topic, r.QueueID)+4) - 1
	r.MaxMessages = []int{0, -1, 1, 5, 40, 1000}[p.rng.IntN(6)]
	if expr := []string{"", "*", "tag0", "tag1 || tag2", "none"}[p.rng.IntN(5)]; expr != "" {
		r.Filter = store.TagFilter(expr)
	}
	got, err := p.engine.Get(ctx, r)
	want, err2 := p.model.Get(ctx, r)
	if err != nil || err2 != nil {
		p.fatalf("get %+v: %v, %v", r, err, err2)
	}
	defer got.Release()
	if got.Status != want.Status || got.NextBeginOffset != want.NextBeginOffset || got.MinOffset != want.MinOffset || got.MaxOffset != want.MaxOffset || got.Bytes != want.Bytes ||
		got.SuggestSlave != want.SuggestSlave || !slices.Equal(got.QueueOffsets, want.QueueOffsets) || len(got.Records) != len(want.Records) {
		p.fatalf("get %+v: %+v\nwant %+v", r, got, want)
	}
	for i, v := range got.Records {
		if v.PhyOffset != want.Records[i].PhyOffset || !bytes.Equal(v.Bytes, want.Records[i].Bytes) {
			p.fatalf("get %+v: record %d at %d: %x\nwant at %d: %x", r, i, v.PhyOffset, v.Bytes, want.Records[i].PhyOffset, want.Records[i].Bytes)
		}
	}
}

// ask asks one question about offsets.
func (p *pair) ask() {
	p.t.Helper()
	topic, id := p.topic(), p.rng.Int32N(2)
	i := p.rng.Int64N(p.model.MaxOffset(topic, id)+3) - 1
	at, err := p.engine.StoreTime(topic, id, i)
	at2, err2 := p.model.StoreTime(topic, id, i)
	if !sameErr(err, err2) || !at.Equal(at2) {
		p.fatalf("store time of %s/%d at %d: %v, %v; want %v, %v", topic, id, i, at, err, at2, err2)
	}
	phy, err := p.engine.PhyOffset(topic, id, i)
	phy2, err2 := p.model.PhyOffset(topic, id, i)
	if !sameErr(err, err2) || err == nil && phy != phy2 {
		p.fatalf("place of %s/%d at %d: %d, %v; want %d, %v", topic, id, i, phy, err, phy2, err2)
	}
	ms := p.now - p.rng.Int64N(200)
	if p.rng.IntN(2) == 0 && err == nil {
		ms = at.UnixMilli() + p.rng.Int64N(3) - 1
	}
	for _, rule := range []store.TimeRule{store.Nearest, store.Lower, store.Upper} {
		got, err := p.engine.OffsetByTime(topic, id, time.UnixMilli(ms), rule)
		want, err2 := p.model.OffsetByTime(topic, id, time.UnixMilli(ms), rule)
		if got != want || !sameErr(err, err2) {
			p.fatalf("%s/%d at time %d by rule %d: %d, %v; want %d, %v", topic, id, ms, rule, got, err, want, err2)
		}
	}
	o := p.rng.Int64N(p.model.MaxPhyOffset()+100) - 10
	if p.rng.IntN(2) == 0 && err == nil {
		o = phy
	}
	m, err := p.engine.Lookup(o)
	m2, err2 := p.model.Lookup(o)
	if !sameErr(err, err2) || err == nil && (m.PhyOffset != m2.PhyOffset || !bytes.Equal(m.Body, m2.Body) || m.OffsetMessageID() != m2.OffsetMessageID()) {
		p.fatalf("lookup %d: %+v, %v; want %+v, %v", o, m, err, m2, err2)
	}
}

// whole compares everything at rest.
func (p *pair) whole() {
	p.t.Helper()
	if p.engine.MinPhyOffset() != p.model.MinPhyOffset() || p.engine.MaxPhyOffset() != p.model.MaxPhyOffset() {
		p.fatalf("log [%d, %d), want [%d, %d)", p.engine.MinPhyOffset(), p.engine.MaxPhyOffset(), p.model.MinPhyOffset(), p.model.MaxPhyOffset())
	}
	if got, want := p.engine.Queues(), p.model.Queues(); !slices.Equal(got, want) {
		p.fatalf("queues %+v\nwant %+v", got, want)
	}
	var want []*record.Message
	for m, err := range p.model.ScanLog(ctx, 0, p.model.MaxPhyOffset()) {
		if err != nil {
			p.fatalf("scan model: %v", err)
		}
		want = append(want, m)
	}
	i := 0
	for m, err := range p.engine.ScanLog(ctx, max(p.engine.MinPhyOffset(), 0), p.engine.MaxPhyOffset()) {
		if err != nil || i == len(want) || m.PhyOffset != want[i].PhyOffset || m.Size != want[i].Size || !bytes.Equal(m.Body, want[i].Body) {
			p.fatalf("record %d: %+v, %v", i, m, err)
		}
		i++
	}
	if i != len(want) {
		p.fatalf("%d records, want %d", i, len(want))
	}
}

// Whatever is put, asked, expired and closed in between: DefaultMessageStore answers as the model.
func TestTheEngineAnswersAsTheModel(t *testing.T) {
	for seed := range effort.Seeds(t, 40, 3000) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { differential(t, seed, false) })
	}
}

// The same of messages with keys, and queries by them.
func TestTheEngineFindsKeysAsTheModel(t *testing.T) {
	for seed := range effort.Seeds(t, 20, 1000) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { differential(t, seed, true) })
	}
}

// Seeds that once failed.
func TestTheEngineAnswersAsTheModelAgain(t *testing.T) {
	for seed, what := range map[uint64]string{
		45:  "a batch of which one item is too big for a segment and a later one has too long properties",
		113: "lookup in the last bytes of the log's last record",
	} {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { t.Log(what); differential(t, seed, false) })
	}
}

func differential(t *testing.T, seed uint64, keys bool) {
	p := &pair{t: t, rng: rand.New(rand.NewPCG(seed, 0)), fs: faultfs.New(), now: 1_700_000_000_000, keys: keys}
	p.o = store.Options{
		SegmentSize: 4096, QueueFileSize: 200, NoBackground: true, Now: func() time.Time { return time.UnixMilli(p.now) },
		MemorySize: 10_000, MaxTransferBytesInMemory: 3000, MaxTransferBytesInDisk: 1500, MaxMessageSize: 5000, AllowV2: seed%2 == 0, Role: []store.Role{store.AsyncMaster, store.AsyncMaster, store.SyncMaster}[seed%3],
	}
	p.open()
	p.model = model.New(p.o)
	for range 300 {
		if p.rng.IntN(3) == 0 {
			p.now += p.rng.Int64N(30)
		}
		switch k := p.rng.IntN(100); {
		case k < 40:
			p.put()
		case k < 50:
			p.putBatch()
		case k < 70:
			p.settle()
			p.get()
		case k < 95:
			p.settle()
			p.ask()
			if p.keys {
				p.query()
			}
		case k < 97:
			p.settle()
			r, err := p.engine.DeleteExpired(store.ExpireOptions{Manual: true, Max: 1 + p.rng.IntN(3)})
			p.logf("expired to %d", r.MinPhyOffset)
			if err != nil {
				p.fatalf("expire: %v", err)
			}
			p.model.Expire(r.MinPhyOffset)
		default:
			p.settle()
			p.logf("reopened")
			if err := p.engine.Close(); err != nil {
				p.fatalf("close: %v", err)
			}
			p.open()
		}
	}
	p.settle()
	p.whole()
	if err := p.engine.Close(); err != nil {
		t.Error(err)
	}
	p.open()
	p.whole()
	if err := p.engine.Close(); err != nil {
		t.Error(err)
	}
}
