package consumequeue_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/consumequeue"
)

// world is a log as a slice, the queues that are derived from it, and a disk that fails and loses power.
type world struct {
	t    testing.TB
	rng  *rand.Rand
	fs   *faultfs.FS
	s    *consumequeue.Set
	size int64 // of a queue file

	log        []*record.Meta
	first      map[string]int64 // queue offset that each queue began at
	next       map[string]int64 // and the one that comes next
	end        int64            // of the log
	minPhy     int64
	checkpoint int // log[:checkpoint] is flushed: in the queues and on the device
}

func keyOf(m *record.Meta) string { return fmt.Sprintf("%s-%d", m.Topic, m.QueueID) }

// put appends a record to the log and dispatches it.
func (w *world) put() error {
	m := &record.Meta{Magic: record.MagicV1, Topic: string(rune('A' + w.rng.IntN(2))), QueueID: w.rng.Int32N(2), PhyOffset: w.end, Size: 91 + w.rng.IntN(300), TagsCode: int64(int32(w.rng.Uint32()))}
	k := keyOf(m)
	if _, ok := w.next[k]; !ok {
		w.first[k] = max(0, w.rng.Int64N(40)-20)
		w.next[k] = w.first[k]
	}
	m.QueueOffset = w.next[k]
	w.next[k]++
	w.end += int64(m.Size)
	w.log = append(w.log, m)
	return w.s.Dispatch(m)
}

func (w *world) flush() error {
	n := len(w.log)
	if err := w.s.Flush(); err != nil {
		return err
	}
	w.checkpoint = n
	return nil
}

// cut drops log[n:].
func (w *world) cut(n int) {
	for _, m := range w.log[n:] {
		k := keyOf(m)
		w.next[k] = min(w.next[k], m.QueueOffset)
		w.end = min(w.end, m.PhyOffset)
	}
	w.log = w.log[:n]
	w.checkpoint = min(w.checkpoint, n)
}

// above is the index of the first record that is not expired.
func (w *world) above() int {
	i, _ := slices.BinarySearchFunc(w.log, w.minPhy, func(m *record.Meta, phy int64) int { return int(m.PhyOffset - phy) })
	return i
}

// expire moves the log's minimum, but not beyond what is flushed of the queues: else records to dispatch again would be gone.
func (w *world) expire() error {
	if lo, hi := w.above(), min(w.checkpoint+1, len(w.log)); lo < hi {
		w.minPhy = w.log[lo+w.rng.IntN(hi-lo)].PhyOffset
	}
	_, err := w.s.Expire(w.minPhy)
	return err
}

func (w *world) truncate() error {
	lo := w.above()
	w.cut(lo + w.rng.IntN(len(w.log)-lo+1))
	return w.s.TruncateTo(w.end)
}

func (w *world) options() consumequeue.Options {
	return consumequeue.Options{FS: w.fs, Dir: cqDir, FileSize: w.size, NoBackground: true}
}

// recover is what a store does after an unclean exit.
func (w *world) recover() error {
	var err error
	if w.s, err = consumequeue.Open(w.options()); err != nil {
		return err
	}
	if err := w.s.TruncateTo(w.end); err != nil {
		return err
	}
	if err := w.s.CorrectMin(w.minPhy); err != nil {
		return err
	}
	for _, m := range w.log[w.checkpoint:] {
		if err := w.s.Dispatch(m); err != nil {
			return err
		}
	}
	return w.restoreHeads()
}

// restoreHeads makes queues again that begin too late: of files made since the last flush, a crash may have taken the first ones only.
func (w *world) restoreHeads() error {
	seen, lacking := make(map[string]bool), make(map[string]bool)
	for _, m := range w.log[w.above():] {
		k := keyOf(m)
		if q := w.s.Queue(m.Topic, m.QueueID); !seen[k] && q.MinOffset() > m.QueueOffset {
			lacking[k] = true
			if _, err := w.s.ResetQueue(m.Topic, m.QueueID); err != nil {
				return err
			}
		}
		if seen[k] = true; lacking[k] {
			if err := w.s.Dispatch(m); err != nil {
				return err
			}
		}
	}
	return nil
}

// crash kills the process or cuts the power. After a failed sync it is the power: what a process that is only killed then
// leaves in the page cache looks whole, but nothing writes it any more, and no check of ours can tell.
func (w *world) crash(failed bool) {
	if !failed && w.rng.IntN(3) == 0 {
		w.fs = w.fs.Kill()
	} else {
		w.fs = w.fs.Crash(w.rng)
	}
	if lost := len(w.log) - max(w.checkpoint, w.above()); lost > 0 && w.rng.IntN(2) == 0 {
		w.cut(len(w.log) - w.rng.IntN(lost+1)) // the log lost its unsynced tail as well
	}
}

// restart exits cleanly.
func (w *world) restart() error {
	if err := w.s.Close(); err != nil {
		return err
	}
	w.checkpoint = len(w.log)
	o := w.options()
	if w.rng.IntN(2) == 0 {
		o.Clean, o.Known = true, w.s.Snapshot()
	}
	var err error
	if w.s, err = consumequeue.Open(o); err != nil {
		return err
	}
	return w.s.CorrectMin(w.minPhy)
}

// check compares every queue with the log.
func (w *world) check() {
	w.t.Helper()
	want := make(map[string][]unit)
	for _, m := range w.log[w.above():] {
		want[keyOf(m)] = append(want[keyOf(m)], unit{PhyOffset: m.PhyOffset, Size: int32(m.Size), TagsCode: m.TagsCode})
	}
	got := make(map[string][]unit)
	for q := range w.s.All() {
		k := q.String()
		if us := held(w.t, q); us != nil {
			got[k] = us
		}
		if q.MaxPhyOffset() >= 0 && q.MaxOffset() != w.next[k] {
			w.t.Fatalf("%s ends at %d, want %d", q, q.MaxOffset(), w.next[k])
		}
		if q.Conflicts() > 0 {
			w.t.Fatalf("%s: %d conflicts", q, q.Conflicts())
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		w.t.Fatalf("queues (-log +queues):\n%s", d)
	}
}

// step does one thing.
func (w *world) step() error {
	switch n := w.rng.IntN(100); {
	case n < 80:
		return w.put()
	case n < 88:
		return w.flush()
	case n < 90:
		_, err := w.s.FlushStep(1)
		return err
	case n < 94:
		return w.expire()
	case n < 96:
		return w.truncate()
	case n < 98:
		return w.restart()
	}
	w.crash(false)
	return w.recover()
}

// TestQueuesFollowTheLogThroughCrashes: whatever fails and whenever the power goes, after recovery the queues hold exactly what the log says.
func TestQueuesFollowTheLogThroughCrashes(t *testing.T) {
	for seed := range effort.Seeds(t, 100, 3000) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			w := &world{
				t: t, rng: rand.New(rand.NewPCG(seed, 46)), fs: faultfs.New(), first: make(map[string]int64), next: make(map[string]int64),
				size: consumequeue.UnitSize * []int64{1, 3, 10, 300}[seed%4],
			}
			if err := w.recover(); err != nil {
				t.Fatal(err)
			}
			faults := 0
			for range 300 {
				if w.rng.IntN(40) == 0 {
					w.fs.FailFrom(w.fs.Ops()+1+w.rng.Int64N(12), nil)
				}
				if err := w.step(); err != nil {
					faults++
					w.crash(true)
					if err := w.recover(); err != nil {
						t.Fatalf("recovery: %v", err)
					}
				}
				w.check()
			}
			w.fs.FailFrom(0, nil)
			if err := w.s.Close(); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d records, %d faults", len(w.log), faults)
		})
	}
}
