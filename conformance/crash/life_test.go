package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/store"
)

const root = "/data/store"

var (
	ctx  = context.Background()
	host = record.HostFrom(netip.MustParseAddrPort("192.0.2.1:10911"))
)

type queueKey struct {
	topic string
	id    int32
}

// sent is one message that the store said it has, or may have.
type sent struct {
	phyOffset, end int64
	queue          queueKey
	queueOffset    int64
	inQueue        bool // no PREPARED, no ROLLBACK
	body           []byte
	properties     string
}

// life is a store from its first open to the end of the test, with all that is known of it.
type life struct {
	t    *testing.T
	seed uint64
	rng  *rand.Rand
	fs   *faultfs.FS
	o    store.Options
	now  time.Time
	s    *store.DefaultMessageStore

	log     []sent             // everything in the log, by physical offset
	durable int64              // no power loss may take what ends at or below,
	outlive int64              // and no kill this: with SyncFlush what was answered, whether or not a flush was waited for, else all that is in the log
	visible map[queueKey]int64 // SyncFlush: consumers saw the queue up to here
	next    map[queueKey]int64 // the queue offset that the next message gets
	minPhy  int64
	pending []pendingPut
	kept    map[string][]byte // derived files as they were at some time
	failing bool              // the disk fails
	refused bool              // the store said that a flush failed: it takes nothing more
	story   []string
}

type pendingPut struct {
	f *store.Future
	m sent
}

func newLife(t *testing.T, seed uint64) *life {
	l := &life{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 0x6d71)), fs: faultfs.New(), now: time.UnixMilli(1_700_000_000_000),
		visible: map[queueKey]int64{}, next: map[queueKey]int64{}}
	l.o = store.Options{
		SegmentSize: int64(2048 << l.rng.IntN(3)), QueueFileSize: int64(100 << l.rng.IntN(3)), FlushMode: store.FlushMode(l.rng.IntN(2)),
		NoBackground: true, Now: func() time.Time { return l.now }, MemorySize: 1 << 30,
		SyncFlushTimeout: time.Hour, PutBusyAfter: time.Hour, // whatever becomes of a put, it is not because this process stood still
		Index: store.IndexOptions{Off: true}, // its crashes are package index's; an abandoned store would leave Pebble's goroutines behind
	}
	l.tell("segments of %d, queue files of %d, %v", l.o.SegmentSize, l.o.QueueFileSize, l.o.FlushMode)
	if err := l.fs.MkdirAll("/data"); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *life) tell(format string, args ...any) {
	l.story = append(l.story, fmt.Sprintf(format, args...))
}

func (l *life) fatal(format string, args ...any) {
	l.t.Helper()
	l.t.Logf("story:\n  %s", strings.Join(l.story, "\n  "))
	l.t.Fatalf("seed %d: "+format+"\nagain: MQSTORE_SEED=%d go test ./conformance/crash -run '^%s$'", slices.Concat([]any{l.seed}, args, []any{l.seed, l.t.Name()})...)
}

func (l *life) open() error {
	o := l.o
	o.FS = l.fs
	s, err := store.Open(root, o)
	l.s = s
	return err
}

func (l *life) mustOpen() {
	l.t.Helper()
	if err := l.open(); err != nil {
		l.fatal("open: %v", err)
	}
}

var queues = []queueKey{{"A", 0}, {"A", 1}, {"B", 0}, {"topic-with-a-longer-name", 3}}

func (l *life) message() *record.Message {
	m := &record.Message{Topic: "A", BornTimestamp: l.now.UnixMilli(), BornHost: host, StoreHost: host}
	q := queues[l.rng.IntN(len(queues))]
	m.Topic, m.QueueID = q.topic, q.id
	m.Body = l.body()
	if l.rng.IntN(2) == 0 {
		m.Properties = record.NewProperties("KEYS", fmt.Sprintf("k%d", l.rng.IntN(1000)), "TAGS", []string{"red", "green"}[l.rng.IntN(2)])
	}
	if l.rng.IntN(8) == 0 {
		m.Properties = append(m.Properties, record.NewProperties("WAIT", "false")...)
	}
	if l.rng.IntN(12) == 0 {
		m.SysFlag = m.SysFlag.WithTransaction([]record.Transaction{record.TransactionPrepared, record.TransactionCommit, record.TransactionRollback}[l.rng.IntN(3)])
	}
	return m
}

func (l *life) body() []byte {
	b := make([]byte, l.rng.IntN(60))
	if l.rng.IntN(4) == 0 {
		b = make([]byte, l.rng.IntN(1400))
	}
	for i := range b {
		b[i] = byte('a' + l.rng.IntN(26))
	}
	return b
}

// step does one thing that users or the store's loops do.
func (l *life) step() {
	l.now = l.now.Add(time.Duration(1+l.rng.IntN(20)) * time.Millisecond)
	switch n := l.rng.IntN(100); {
	case n < 40:
		l.put(false)
	case n < 52:
		l.put(true)
	case n < 60:
		l.putBatch()
	case n < 72:
		n, err := l.s.DispatchStep(1 + l.rng.IntN(20))
		l.tell("dispatch %d", n)
		l.expect(err)
	case n < 82:
		flushed, err := l.s.FlushStep()
		l.tell("flush to %d: %v", flushed, err)
		l.expect(err)
		l.refused = l.refused || err != nil
		l.flushed()
		l.settleFutures()
	case n < 87:
		l.now = l.now.Add(time.Duration(l.rng.IntN(5000)) * time.Millisecond)
		l.tell("checkpoint")
		l.expect(l.s.CheckpointStep())
		l.flushed()
	case n < 89:
		l.expire()
	default:
		l.look()
	}
}

// expect wants no error unless the disk fails.
func (l *life) expect(err error) {
	l.t.Helper()
	if err == nil {
		return
	}
	if !l.failing {
		l.fatal("%v", err)
	}
	l.refused = l.refused || errors.Is(err, store.ErrFlushFailed)
}

func (l *life) flushed() { l.durable = max(l.durable, l.s.FlushedPhyOffset()) }

func (l *life) put(async bool) {
	m := l.message()
	if async {
		f := l.s.PutAsync(m)
		if m.StoreTimestamp != 0 {
			// The offsets are there at once; the answer comes later.
			e := l.sent(m, m.PhyOffset, m.Size, m.QueueOffset)
			l.note(e)
			l.pending = append(l.pending, pendingPut{f, e})
		}
		l.tell("put async to %s-%d: at %d", m.Topic, m.QueueID, m.PhyOffset)
		l.settleFutures()
		return
	}
	r, err := l.s.Put(ctx, m)
	l.tell("put %d bytes to %s-%d: at %d+%d, queue offset %d, %v %v", len(m.Body), m.Topic, m.QueueID, r.PhyOffset, r.Size, r.QueueOffset, r.Status, err)
	l.answered(m, r, err)
	if r.Size > 0 {
		l.note(l.sent(m, r.PhyOffset, r.Size, r.QueueOffset))
	} else if err == nil || m.StoreTimestamp != 0 {
		l.fatal("appended at %d, but the result does not say so", m.PhyOffset)
	}
}

func (l *life) putBatch() {
	m := l.message()
	m.SysFlag = m.SysFlag.WithTransaction(record.TransactionNone)
	m.Body, m.Properties = nil, nil
	var items []record.BatchItem
	for range 1 + l.rng.IntN(4) {
		items = append(items, record.BatchItem{Body: append([]byte{'b'}, l.body()[:]...)})
		if len(items[len(items)-1].Body) > 300 {
			items[len(items)-1].Body = items[len(items)-1].Body[:300]
		}
	}
	r, err := l.s.PutBatch(ctx, m, items)
	l.tell("put batch of %d to %s-%d: at %d+%d, queue offset %d, %v %v", len(items), m.Topic, m.QueueID, r.PhyOffset, r.Size, r.QueueOffset, r.Status, err)
	l.answered(m, r, err)
	if r.Size == 0 {
		return
	}
	for i, it := range items {
		end := r.PhyOffset + int64(r.Size)
		if i+1 < len(items) {
			end = r.Offsets[i+1]
		}
		l.note(sent{phyOffset: r.Offsets[i], end: end, queue: queueKey{m.Topic, m.QueueID}, queueOffset: r.QueueOffset + int64(i), inQueue: true, body: it.Body})
	}
}

func (l *life) sent(m *record.Message, phyOffset int64, size int, queueOffset int64) sent {
	tx := m.SysFlag.Transaction()
	return sent{phyOffset: phyOffset, end: phyOffset + int64(size), queue: queueKey{m.Topic, m.QueueID}, queueOffset: queueOffset,
		inQueue: tx == record.TransactionNone || tx == record.TransactionCommit, body: bytes.Clone(m.Body), properties: string(m.Properties)}
}

// note takes a message into the list, and checks that it got the offset that comes next.
func (l *life) note(m sent) {
	l.t.Helper()
	if n := len(l.log); n > 0 && m.phyOffset < l.log[n-1].end {
		l.fatal("a message at %d, but the last one ends at %d", m.phyOffset, l.log[n-1].end)
	}
	l.log = append(l.log, m)
	if l.o.FlushMode == store.AsyncFlush {
		l.outlive = max(l.outlive, m.end)
	}
	if !m.inQueue {
		return
	}
	if want := l.next[m.queue]; m.queueOffset != want {
		l.fatal("queue offset %d in %v, want %d", m.queueOffset, m.queue, want)
	}
	l.next[m.queue]++
}

// answered checks a put's answer.
func (l *life) answered(m *record.Message, r store.PutResult, err error) {
	l.t.Helper()
	if err == nil && l.refused {
		l.fatal("a put was accepted after a flush had failed")
	}
	l.expect(err)
	if err == nil {
		l.promised(string(m.Properties), r, r.PhyOffset+int64(r.Size))
	}
	if err == nil && r.Status != store.PutOK {
		l.fatal("status %v without slaves or clock", r.Status)
	}
}

// promised notes what an answer without an error means.
func (l *life) promised(properties string, r store.PutResult, end int64) {
	l.outlive = max(l.outlive, end)
	if r.Status == store.PutOK && l.o.FlushMode == store.SyncFlush && !strings.Contains(properties, "WAIT") {
		l.durable = max(l.durable, end)
	}
}

func (l *life) settleFutures() {
	l.pending = slices.DeleteFunc(l.pending, func(p pendingPut) bool {
		select {
		case <-p.f.Done():
		default:
			return false
		}
		r, err := p.f.Wait(ctx)
		if err == nil {
			l.promised(p.m.properties, r, p.m.end)
		}
		if err != nil {
			l.expect(err)
		}
		return true
	})
}

func (l *life) expire() {
	r, err := l.s.DeleteExpired(store.ExpireOptions{Manual: true, Max: 1})
	l.tell("expire: %+v %v", r, err)
	l.expect(err)
	if l.failing {
		return
	}
	l.minPhy = max(0, l.s.MinPhyOffset())
	l.log = slices.DeleteFunc(l.log, func(m sent) bool { return m.phyOffset < l.minPhy })
}

// look reads as a consumer does.
func (l *life) look() {
	q := queues[l.rng.IntN(len(queues))]
	minOffset, maxOffset := l.s.MinOffset(q.topic, q.id), l.s.MaxOffset(q.topic, q.id)
	if minOffset > maxOffset || maxOffset > l.next[q] {
		l.fatal("queue %v is [%d, %d), the next offset is %d", q, minOffset, maxOffset, l.next[q])
	}
	if l.o.FlushMode == store.SyncFlush {
		l.visible[q] = max(l.visible[q], maxOffset)
	}
	if minOffset == maxOffset {
		return
	}
	at := minOffset + l.rng.Int64N(maxOffset-minOffset)
	r, err := l.s.Get(ctx, store.GetRequest{Topic: q.topic, QueueID: q.id, Offset: at, MaxMessages: 3})
	if err != nil {
		l.fatal("get %v at %d of [%d, %d): %v", q, at, minOffset, maxOffset, err)
	}
	defer r.Release()
	if r.Status != store.Found {
		l.fatal("get %v at %d of [%d, %d): %v", q, at, minOffset, maxOffset, r.Status)
	}
	for i, v := range r.Records {
		l.same(v.Bytes, q, r.QueueOffsets[i])
	}
}

// same checks a record that a consumer got.
func (l *life) same(b []byte, q queueKey, queueOffset int64) {
	l.t.Helper()
	m, err := record.Decode(b)
	if err != nil {
		l.fatal("queue %v offset %d: %v", q, queueOffset, err)
	}
	i, ok := slices.BinarySearchFunc(l.log, m.PhyOffset, func(s sent, at int64) int { return int(s.phyOffset - at) })
	if !ok {
		l.fatal("queue %v offset %d: a record at %d that nobody put", q, queueOffset, m.PhyOffset)
	}
	if s := l.log[i]; s.queue != q || s.queueOffset != queueOffset || !bytes.Equal(s.body, m.Body) || s.properties != string(m.Properties) || s.end != m.PhyOffset+int64(m.Size) {
		l.fatal("queue %v offset %d: the record at %d is not what was put: %+v", q, queueOffset, m.PhyOffset, m)
	}
}

// end is how a process ends.
func (l *life) end() {
	l.flushed()
	kept := l.durable
	switch n := l.rng.IntN(10); {
	case n < 2 && !l.failing:
		l.tell("close")
		if err := l.s.Close(); err != nil {
			l.fatal("close: %v", err)
		}
		kept = 1 << 62
		if l.rng.IntN(2) == 0 {
			l.tell("power lost after it")
			l.fs = l.fs.Crash(l.rng)
			l.durable = 1 << 62
		}
	case n < 5:
		l.tell("kill")
		l.fs = l.fs.Kill()
		kept = max(l.outlive, l.durable)
	default:
		l.tell("power lost, durable to %d", l.durable)
		l.fs = l.fs.Crash(l.rng)
	}
	l.pending, l.s = nil, nil
	if l.rng.IntN(5) == 0 {
		// Another crash, in the middle of the recovery.
		l.fs.FailFrom(1+int64(l.rng.IntN(60)), nil)
		err := l.open()
		l.tell("open on a failing disk: %v", err)
		switch {
		case err != nil && !errors.Is(err, faultfs.ErrInjected):
			l.fatal("open on a failing disk: %v", err)
		case l.rng.IntN(2) == 0:
			l.fs = l.fs.Kill()
		default:
			l.fs, kept = l.fs.Crash(l.rng), min(kept, l.durable)
		}
	}
	l.failing, l.refused = false, false
	l.tamper()
	l.mustOpen()
	l.recovered(kept)
}

// tamper does to derived files what restores from backups and careless hands do: an older version comes back, or one is gone.
func (l *life) tamper() {
	n := l.rng.IntN(12)
	if n == 11 {
		var files []string
		for _, p := range l.fs.Paths() {
			for _, q := range queues {
				dir := fmt.Sprintf("%s/consumequeue/%s/%d/", root, q.topic, q.id)
				// A queue without a message in the log has its numbering in its files alone.
				if strings.HasPrefix(p, dir) && slices.ContainsFunc(l.log, func(m sent) bool { return m.inQueue && m.queue == q && m.end <= l.durable }) {
					files = append(files, p)
				}
			}
		}
		if len(files) > 0 {
			p := files[l.rng.IntN(len(files))]
			l.tell("%s removed", p)
			if err := l.fs.Remove(p); err != nil {
				l.fatal("%v", err)
			}
		}
	}
	for _, name := range []string{"checkpoint", "mqstore.summary"} {
		path := root + "/" + name
		b, err := l.fs.ReadFile(path)
		switch {
		case n == 0 && err == nil:
			l.tell("%s removed", name)
			if err := l.fs.Remove(path); err != nil {
				l.fatal("%v", err)
			}
		case n == 1 && l.kept[name] != nil:
			l.tell("an older %s is back", name)
			if err := l.fs.WriteFileDurable(path, l.kept[name]); err != nil {
				l.fatal("%v", err)
			}
		case n < 6 && err == nil:
			if l.kept == nil {
				l.kept = map[string][]byte{}
			}
			l.kept[name] = b
		}
	}
}

// recovered checks what is there against what must be.
func (l *life) recovered(kept int64) {
	l.t.Helper()
	end := l.s.MaxPhyOffset()
	if minPhy := max(0, l.s.MinPhyOffset()); minPhy != l.minPhy {
		if minPhy < l.minPhy {
			l.fatal("the log begins at %d again, it began at %d", minPhy, l.minPhy)
		}
		l.minPhy = minPhy // an expiry that failed half-way
		l.log = slices.DeleteFunc(l.log, func(m sent) bool { return m.phyOffset < minPhy })
	}
	l.tell("reopened: log [%d, %d), recovery %+v", l.minPhy, end, l.s.Stats().Recovery)
	// The log is a prefix of what was put; what was durable is there.
	i := 0
	for m, err := range l.s.ScanLog(ctx, l.minPhy, end) {
		if err != nil {
			l.fatal("scan the log: %v", err)
		}
		if i == len(l.log) || l.log[i].phyOffset != m.PhyOffset {
			l.fatal("a record at %d that nobody put, or one before it is gone", m.PhyOffset)
		}
		s := l.log[i]
		if s.queue != (queueKey{m.Topic, m.QueueID}) || s.end != m.PhyOffset+int64(m.Size) || !bytes.Equal(s.body, m.Body) || s.properties != string(m.Properties) || s.inQueue && s.queueOffset != m.QueueOffset {
			l.fatal("the record at %d is not what was put: %+v", m.PhyOffset, m)
		}
		i++
	}
	for _, m := range l.log[i:] {
		if m.end <= kept {
			l.fatal("lost: %v offset %d at [%d, %d), to be kept to %d, the log ends at %d", m.queue, m.queueOffset, m.phyOffset, m.end, kept, end)
		}
	}
	for _, m := range l.log[i:] {
		if m.inQueue && m.queueOffset < l.next[m.queue] {
			l.next[m.queue] = m.queueOffset
		}
	}
	l.log = l.log[:i]
	l.durable, l.outlive = min(l.durable, end), end
	l.flushed()
	l.queuesAgree()
	for q, seen := range l.visible {
		if l.next[q] < seen {
			l.fatal("consumers of %v saw offset %d, now the next one is %d", q, seen-1, l.next[q])
		}
	}
	if l.rng.IntN(3) == 0 {
		l.opensTheSame()
	}
}

// queuesAgree reads every queue whole: no gap, no double, nothing that is not in the log, nothing missing.
func (l *life) queuesAgree() {
	l.t.Helper()
	want := map[queueKey][]sent{}
	for _, m := range l.log {
		if m.inQueue {
			want[m.queue] = append(want[m.queue], m)
		}
	}
	for _, q := range queues {
		minOffset, maxOffset := l.s.MinOffset(q.topic, q.id), l.s.MaxOffset(q.topic, q.id)
		if maxOffset != l.next[q] && !(len(want[q]) == 0 && maxOffset == 0) {
			l.fatal("queue %v is [%d, %d), want an end of %d", q, minOffset, maxOffset, l.next[q])
		}
		if n := int64(len(want[q])); maxOffset-minOffset != n {
			l.fatal("queue %v is [%d, %d), the log has %d messages of it", q, minOffset, maxOffset, n)
		}
		for at := minOffset; at < maxOffset; {
			r, err := l.s.Get(ctx, store.GetRequest{Topic: q.topic, QueueID: q.id, Offset: at})
			if err != nil || r.Status != store.Found || len(r.Records) == 0 {
				l.fatal("get %v at %d of [%d, %d): %+v %v", q, at, minOffset, maxOffset, r, err)
			}
			for i, v := range r.Records {
				if r.QueueOffsets[i] != at {
					l.fatal("queue %v: offset %d where %d comes next", q, r.QueueOffsets[i], at)
				}
				l.same(v.Bytes, q, at)
				at++
			}
			r.Release()
		}
	}
}

// opensTheSame kills the store that nobody has touched since it was opened, and opens it again.
func (l *life) opensTheSame() {
	l.t.Helper()
	before := l.picture()
	if l.rng.IntN(2) == 0 {
		l.fs = l.fs.Kill()
	} else {
		l.fs = l.fs.Crash(l.rng)
	}
	l.tell("opened twice")
	l.mustOpen()
	if after := l.picture(); after != before {
		l.fatal("a second open changed\n%s\nto\n%s", before, after)
	}
	l.queuesAgree()
}

func (l *life) picture() string {
	return fmt.Sprintf("log [%d, %d) %+v", l.s.MinPhyOffset(), l.s.MaxPhyOffset(), l.s.Queues())
}

// TestLives: any mix of puts, steps, and ends of the process or the machine, and the store keeps every promise it made.
func TestLives(t *testing.T) {
	for seed := range effort.Seeds(t, 150, 2000) {
		l := newLife(t, seed)
		l.mustOpen()
		for range 2 + l.rng.IntN(5) {
			for range l.rng.IntN(80) {
				l.step()
			}
			if l.rng.IntN(4) == 0 {
				l.disturb()
			}
			l.end()
		}
		if err := l.s.Close(); err != nil {
			l.fatal("close: %v", err)
		}
	}
}

// disturb lets the disk fail from some operation on, and goes on using the store.
func (l *life) disturb() {
	n := l.fs.Ops() + 1 + int64(l.rng.IntN(12))
	l.tell("the disk fails from operation %d on, now at %d", n, l.fs.Ops())
	l.flushed()
	l.fs.FailFrom(n, nil)
	l.failing = true
	for range 5 + l.rng.IntN(25) {
		l.step()
	}
}
