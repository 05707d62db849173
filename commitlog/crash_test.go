package commitlog

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/effort"
)

// world is a log beside what it should hold.
type world struct {
	*rig
	rng     *rand.Rand
	records []AppendResult // of the log from its start on
	bodies  map[int64][]byte
	durable int64 // bytes below were announced as durable
	marks   []Recovery
	failed  bool // a flush failed: the log is read-only
	trace   []string
}

func (w *world) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

func (w *world) fatalf(format string, args ...any) {
	w.t.Helper()
	for _, s := range w.trace {
		w.t.Log(s)
	}
	w.t.Fatalf(format, args...)
}

// TestDurableRecordsSurviveAnyCrash appends, flushes, truncates, expires, fails and crashes at random. What was announced as durable
// is there afterwards, what is there is a prefix of what was appended, and no crash is taken for damage.
func TestDurableRecordsSurviveAnyCrash(t *testing.T) {
	for seed := range effort.Seeds(t, 100, 5000) {
		if !t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { crashRun(t, seed) }) {
			return
		}
	}
}

func crashRun(t *testing.T, seed uint64) {
	t.Logf("seed %d", seed)
	w := &world{rig: newRig(t), rng: newRand(seed), bodies: map[int64][]byte{}}
	w.clock.step = 0
	w.open(Recovery{})
	for range 80 + w.rng.IntN(80) {
		w.clock.now = w.clock.now.Add(time.Duration(w.rng.IntN(3)) * time.Millisecond)
		switch k := w.rng.IntN(100); {
		case k < 50:
			w.appendOne()
		case k < 60:
			w.appendBatch()
		case k < 76:
			w.flushOnce()
		case k < 80:
			w.truncate()
		case k < 83:
			w.expire()
		case k < 86:
			w.failFlush()
		case k < 92:
			w.note("kill")
			w.reopen(func() { w.kill() }, true)
		case k < 95 && !w.failed:
			end := w.log.MaxPhyOffset()
			w.note("close at %d", end)
			w.close()
			w.durable = end
			w.marks = []Recovery{{Clean: true, FlushedTo: end, From: w.boundary(end)}, {Clean: true, FlushedTo: -1}}
			w.reopen(func() {}, true)
		default:
			w.note("crash, durable to %d", w.durable)
			w.reopen(func() { w.crash(w.rng) }, false)
		}
	}
	w.note("last crash")
	w.reopen(func() { w.crash(w.rng) }, false)
}

func (w *world) boundary(upTo int64) int64 {
	at := max(w.log0(), 0)
	for _, r := range w.records {
		if r.End() <= upTo && w.rng.IntN(4) > 0 {
			at = r.End()
		}
	}
	return at
}

// log0 is where the log starts.
func (w *world) log0() int64 {
	if len(w.records) == 0 {
		return 0
	}
	return w.records[0].PhyOffset
}

func (w *world) add(r AppendResult, body []byte) {
	w.records = append(w.records, r)
	w.bodies[r.PhyOffset] = body
}

func (w *world) appendOne() {
	size := w.rng.IntN(300)
	if w.rng.IntN(4) == 0 {
		size = w.rng.IntN(7000)
	}
	m := w.message(size)
	r, err := w.log.Append(m, &w.count)
	if w.failed {
		if !errors.Is(err, ErrReadOnly) {
			w.fatalf("append after a failed flush: %v", err)
		}
		return
	}
	if err != nil {
		w.fatalf("append: %v", err)
	}
	w.note("append %d bytes at %d", r.Size, r.PhyOffset)
	w.add(r, m.Body)
}

func (w *world) appendBatch() {
	if w.failed {
		return
	}
	ms := make([]record.Message, 1+w.rng.IntN(5))
	for i := range ms {
		ms[i] = *w.message(w.rng.IntN(900))
	}
	r, err := w.log.AppendBatch(ms, &w.count)
	if err != nil {
		w.fatalf("batch: %v", err)
	}
	w.note("batch of %d at %d", len(ms), r.PhyOffset)
	for _, m := range ms {
		w.add(AppendResult{PhyOffset: m.PhyOffset, Size: m.Size}, m.Body)
	}
}

func (w *world) mark() {
	w.durable = max(w.durable, w.log.FlushedPhyOffset())
	w.marks = append(w.marks,
		Recovery{FlushedTo: w.durable, From: w.boundary(w.durable)},
		Recovery{FlushedTo: -1, DurableTime: w.log.LastStoreTimestamp()})
}

func (w *world) flushOnce() {
	if w.failed {
		return
	}
	if _, err := w.log.FlushStep(); err != nil {
		w.fatalf("flush: %v", err)
	}
	w.note("flush to %d", w.log.FlushedPhyOffset())
	w.mark()
}

func (w *world) failFlush() {
	if w.failed || w.log.MaxPhyOffset() == w.log.FlushedPhyOffset() {
		return
	}
	w.fs.FailOnce(w.fs.Ops()+1, nil)
	_, err := w.log.FlushStep()
	w.note("failing flush: %v", err)
	w.failed = err != nil
	w.durable = max(w.durable, w.log.FlushedPhyOffset())
}

// cut forgets what lies at or beyond end.
func (w *world) cut(end int64) {
	for len(w.records) > 0 && w.records[len(w.records)-1].PhyOffset >= end {
		w.records = w.records[:len(w.records)-1]
	}
}

func (w *world) truncate() {
	if w.failed || len(w.records) == 0 {
		return
	}
	to := w.records[w.rng.IntN(len(w.records))].PhyOffset
	for i := range w.marks { // before, as TruncateTo asks for
		w.marks[i].FlushedTo = min(w.marks[i].FlushedTo, to)
		w.marks[i].From = min(w.marks[i].From, to)
	}
	if w.rng.IntN(2) == 0 {
		w.fs.FailFrom(w.fs.Ops()+1+w.rng.Int64N(12), nil)
	}
	err := w.log.TruncateTo(to)
	w.fs.FailFrom(0, nil)
	w.note("truncate to %d: %v", to, err)
	w.durable = min(w.durable, to)
	if err != nil {
		// Begun or not: the next open tells. Nothing but a crash helps.
		w.crash(w.rng)
		for i := range w.marks {
			w.marks[i].From = 0
		}
		w.openChecked(w.pickMark())
		w.settle(false)
		return
	}
	w.cut(to)
}

func (w *world) expire() {
	if w.failed {
		return
	}
	removed, err := w.log.Expire(ExpireOptions{Force: true, Max: 1})
	if err != nil {
		w.fatalf("expire: %v", err)
	}
	for _, s := range removed {
		w.note("expire %d", s.Start)
		for len(w.records) > 0 && w.records[0].PhyOffset < s.End {
			w.records = w.records[1:]
		}
	}
}

func (w *world) pickMark() Recovery {
	if len(w.marks) == 0 {
		return Recovery{FlushedTo: -1}
	}
	return w.marks[w.rng.IntN(len(w.marks))]
}

// openChecked opens, now and then with a fault and another crash in between.
func (w *world) openChecked(rec Recovery) (crashed bool) {
	for range 3 {
		if w.rng.IntN(3) > 0 {
			break
		}
		n := 1 + w.rng.Int64N(25)
		w.fs.FailFrom(w.fs.Ops()+n, nil)
		err := w.tryOpen(rec)
		w.note("open with a fault from operation %d on: %v", n, err)
		w.fs.FailFrom(0, nil)
		rec.Clean = false
		if w.rng.IntN(2) == 0 {
			w.kill()
		} else {
			w.crash(w.rng)
			crashed = true
		}
	}
	if err := w.tryOpen(rec); err != nil {
		w.fatalf("open %+v: %v", rec, err)
	}
	w.note("opened %+v: %+v", rec, w.tail)
	return crashed
}

func (w *world) reopen(stop func(), all bool) {
	stop()
	crashed := w.openChecked(w.pickMark())
	w.settle(all && !crashed)
}

// settle compares the opened log with the model, and makes what it holds the model. all: nothing may be missing.
func (w *world) settle(all bool) {
	end := w.tail.End
	if end < w.durable {
		w.fatalf("log ends at %d, %d was durable", end, w.durable)
	}
	got := offsets(w.t, w.log)
	want := w.records
	if len(got) > len(want) || all && len(got) < len(want) {
		w.fatalf("%d records, appended %d", len(got), len(want))
	}
	for i, off := range got {
		if off != want[i].PhyOffset {
			w.fatalf("record %d at %d, appended at %d", i, off, want[i].PhyOffset)
		}
		m, v, err := w.log.Message(off)
		if err != nil {
			w.fatalf("record at %d: %v", off, err)
		}
		if !bytes.Equal(m.Body, w.bodies[off]) {
			w.fatalf("record at %d has another body", off)
		}
		v.Release()
	}
	w.records = want[:len(got)]
	w.failed = false
	w.durable = w.log.FlushedPhyOffset()
	w.marks = nil
	w.mark()
}
