package recovery_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mqstore/mqstore/checkpoint"
	"github.com/mqstore/mqstore/commitlog"
	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/consumequeue"
	"github.com/mqstore/mqstore/store/internal/recovery"
)

const (
	root        = "/store"
	segmentSize = 4096
	unitsPer    = 10
)

// world is a small store made of the same parts as the real one, driven by hand, on a file system in memory.
type world struct {
	t        testing.TB
	fs       *faultfs.FS
	o        recovery.Options
	now      time.Time
	rng      *rand.Rand
	op       *recovery.Opened
	counters map[recovery.QueueKey]*commitlog.Counter
	at       int64 // dispatched up to here
}

func newWorld(t testing.TB, seed uint64) *world {
	t.Helper()
	w := &world{t: t, fs: faultfs.New(), now: time.UnixMilli(1_700_000_000_000), rng: rand.New(rand.NewPCG(seed, 1))}
	w.o = recovery.Options{
		FS: w.fs, Root: root,
		CommitLog: commitlog.Options{SegmentSize: segmentSize, NoBackground: true, Now: func() time.Time { return w.now }},
		Queues:    consumequeue.Options{FileSize: unitsPer * consumequeue.UnitSize, NoBackground: true},
	}
	if err := w.fs.MkdirAll(root); err != nil {
		t.Fatal(err)
	}
	return w
}

// open recovers, and marks the store as being in use.
func (w *world) open() recovery.Report {
	w.t.Helper()
	op, err := recovery.Open(w.o)
	if err != nil {
		w.t.Fatalf("open: %v", err)
	}
	w.use(op)
	if !w.o.ReadOnly {
		if err := checkpoint.CreateAbort(w.fs, root); err != nil {
			w.t.Fatal(err)
		}
	}
	return op.Report
}

func (w *world) use(op *recovery.Opened) {
	w.op, w.at, w.counters = op, op.Dispatched, map[recovery.QueueKey]*commitlog.Counter{}
}

func (w *world) counter(topic string, id int32) *commitlog.Counter {
	k := recovery.QueueKey{Topic: topic, QueueID: id}
	c := w.counters[k]
	if c == nil {
		c = new(commitlog.Counter)
		next := w.op.NextOffsets[k]
		if q := w.op.Queues.Queue(topic, id); q != nil {
			next = max(next, q.MaxOffset())
		}
		c.Set(next)
		w.counters[k] = c
	}
	return c
}

var host = record.HostFrom(netip.MustParseAddrPort("10.0.0.1:10911"))

// put appends n messages of about size bytes.
func (w *world) put(topic string, id int32, n, size int) (last commitlog.AppendResult) {
	w.t.Helper()
	for range n {
		w.now = w.now.Add(time.Millisecond)
		m := &record.Message{Topic: topic, QueueID: id, BornHost: host, StoreHost: host, Body: bytes.Repeat([]byte{'a' + byte(w.rng.IntN(26))}, size)}
		r, err := w.op.Log.Append(m, w.counter(topic, id))
		if err != nil {
			w.t.Fatalf("put: %v", err)
		}
		last = r
	}
	return last
}

// dispatch gives up to n records their units; n < 0: all.
func (w *world) dispatch(n int) {
	w.t.Helper()
	c := w.op.Log.NewCursor(w.at)
	defer c.Close()
	for ; n != 0; n-- {
		var m record.Meta
		err := c.Next(&m, w.op.Log.MaxPhyOffset())
		if errors.Is(err, commitlog.ErrNotYet) {
			return
		}
		if err == nil {
			err = w.op.Queues.Dispatch(&m)
		}
		if err != nil {
			w.t.Fatalf("dispatch at %d: %v", c.Offset(), err)
		}
		w.at = c.Offset()
	}
}

func (w *world) flush() {
	w.t.Helper()
	if _, err := w.op.Log.Flush(); err != nil {
		w.t.Fatal(err)
	}
}

// checkpoint makes everything durable that is appended and dispatched, and says so.
func (w *world) checkpoint(clean bool) {
	w.t.Helper()
	known, at := w.op.Queues.Snapshot(), w.at
	w.flush()
	if err := w.op.Queues.Flush(); err != nil {
		w.t.Fatal(err)
	}
	ms := w.op.Log.LastStoreTimestamp()
	if err := checkpoint.Write(w.fs, checkpoint.Path(root), checkpoint.Page{PhysicMsgTimestamp: ms, LogicsMsgTimestamp: ms}); err != nil {
		w.t.Fatal(err)
	}
	s, err := recovery.Summarize(w.op.Log, known, at, clean)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := checkpoint.WriteSummary(w.fs, root, s); err != nil {
		w.t.Fatal(err)
	}
}

// close is a clean exit.
func (w *world) close() {
	w.t.Helper()
	w.dispatch(-1)
	w.checkpoint(true)
	w.shut()
	if err := checkpoint.RemoveAbort(w.fs, root); err != nil {
		w.t.Fatal(err)
	}
}

// shut closes log and queues, nothing else.
func (w *world) shut() {
	w.t.Helper()
	if err := errors.Join(w.op.Queues.Close(), w.op.Log.Close()); err != nil {
		w.t.Fatal(err)
	}
	w.op = nil
}

// kill ends the process: memory goes, the page cache stays.
func (w *world) kill() { w.on(w.fs.Kill()) }

// crash ends the machine: of what was not synced, some survives.
func (w *world) crash() { w.on(w.fs.Crash(w.rng)) }

func (w *world) on(f *faultfs.FS) { w.fs, w.o.FS, w.op = f, f, nil }

func (w *world) forgetSummary() {
	w.t.Helper()
	if err := checkpoint.RemoveSummary(w.fs, root); err != nil {
		w.t.Fatal(err)
	}
}

// files lists the files below dir of the store.
func (w *world) files(dir string) (paths []string) {
	w.t.Helper()
	infos, err := w.fs.ReadDir(filepath.Join(root, dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.t.Fatal(err)
	}
	for _, i := range infos {
		p := filepath.Join(dir, i.Name)
		if i.IsDir {
			paths = append(paths, w.files(p)...)
		} else {
			paths = append(paths, p)
		}
	}
	return paths
}

func (w *world) remove(prefix string) {
	w.t.Helper()
	for _, p := range w.files(".") {
		if strings.HasPrefix(p, prefix) {
			path := filepath.Join(root, p)
			if err := errors.Join(w.fs.Remove(path), w.fs.SyncDir(filepath.Dir(path))); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// edit changes bytes of a file durably.
func (w *world) edit(path string, fn func(b []byte)) {
	w.t.Helper()
	m, err := w.fs.Map(filepath.Join(root, path), 0, mappedfile.MapExisting)
	if err != nil {
		w.t.Fatal(err)
	}
	fn(m.Bytes())
	if err := errors.Join(m.Sync(0, int64(len(m.Bytes()))), m.Close()); err != nil {
		w.t.Fatal(err)
	}
}

// editLog changes bytes of the log at a physical offset.
func (w *world) editLog(phyOffset int64, fn func(b []byte)) {
	w.t.Helper()
	base := phyOffset - phyOffset%segmentSize
	w.edit(fmt.Sprintf("commitlog/%020d", base), func(b []byte) { fn(b[phyOffset-base:]) })
}

// dump is everything that a reader can see: per queue its bounds and the place of each unit, and the log's end.
func dump(op *recovery.Opened) string {
	var b strings.Builder
	fmt.Fprintf(&b, "log [%d, %d)\n", op.Log.MinPhyOffset(), op.Log.MaxPhyOffset())
	for q := range op.Queues.All() {
		if q.MinOffset() == q.MaxOffset() {
			continue
		}
		fmt.Fprintf(&b, "%s-%d [%d, %d)", q.Topic(), q.ID(), q.MinOffset(), q.MaxOffset())
		for i := q.MinOffset(); i < q.MaxOffset(); i++ {
			u, err := q.Unit(i)
			if err != nil {
				fmt.Fprintf(&b, " %v", err)
				continue
			}
			fmt.Fprintf(&b, " %d:%d", u.PhyOffset, u.Size)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (w *world) dump() string { return dump(w.op) }

// check compares the queues with the log, without any code of recovery: each unit points at a whole record of its queue and place, each record has its unit
// (but for reused offsets, see the tests that use them), and the log's records of a queue have consecutive offsets.
func check(t testing.TB, op *recovery.Opened) {
	t.Helper()
	units := 0
	for q := range op.Queues.All() {
		last := int64(-1)
		for i := q.MinOffset(); i < q.MaxOffset(); i++ {
			units++
			u, err := q.Unit(i)
			if err != nil {
				t.Fatalf("queue %s-%d unit %d: %v", q.Topic(), q.ID(), i, err)
			}
			m, v, err := op.Log.Message(u.PhyOffset)
			if err != nil {
				t.Fatalf("queue %s-%d unit %d points at %d: %v", q.Topic(), q.ID(), i, u.PhyOffset, err)
			}
			if m.Topic != q.Topic() || m.QueueID != q.ID() || m.QueueOffset != i || m.Size != int(u.Size) || m.TagsCode() != u.TagsCode || u.PhyOffset <= last {
				t.Fatalf("queue %s-%d unit %d %+v points at %s-%d@%d of %d bytes", q.Topic(), q.ID(), i, u, m.Topic, m.QueueID, m.QueueOffset, m.Size)
			}
			last = u.PhyOffset
			v.Release()
		}
	}
	records := 0
	next := map[recovery.QueueKey]int64{}
	c := op.Log.NewCursor(max(0, op.Log.MinPhyOffset()))
	defer c.Close()
	for {
		var m record.Meta
		err := c.Next(&m, op.Log.MaxPhyOffset())
		if errors.Is(err, commitlog.ErrNotYet) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if !m.HasUnit() {
			continue
		}
		records++
		k := recovery.QueueKey{Topic: m.Topic, QueueID: m.QueueID}
		if n, ok := next[k]; ok && n != m.QueueOffset {
			t.Fatalf("record at %d has queue offset %d of %v, want %d", m.PhyOffset, m.QueueOffset, k, n)
		}
		next[k] = m.QueueOffset + 1
	}
	if units != records {
		t.Fatalf("%d units for %d records:\n%s", units, records, dump(op))
	}
}

// opensTheSame reopens, by a kill and by a clean exit, and wants nothing to change.
func (w *world) opensTheSame() {
	w.t.Helper()
	check(w.t, w.op)
	want := w.dump()
	w.kill()
	if r := w.open(); w.dump() != want {
		w.t.Fatalf("a second open changed\n%sto\n%s%+v", want, w.dump(), r)
	}
	w.close()
	if r := w.open(); w.dump() != want || !r.Clean || r.RebuiltUnits != 0 || r.DroppedBytes != 0 {
		w.t.Fatalf("an open after a clean exit changed\n%sto\n%s%+v", want, w.dump(), r)
	}
}

func digest(b []byte) [sha256.Size]byte { return sha256.Sum256(b) }
