package recovery_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mqstore/mqstore/checkpoint"
	"github.com/mqstore/mqstore/commitlog"
	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/consumequeue"
	"github.com/mqstore/mqstore/store/internal/recovery"
)

// fill puts some of everything: two topics, three queues, about six segments, several queue files.
func (w *world) fill(rounds int) {
	w.t.Helper()
	for range rounds {
		w.put("A", 0, 2, 100)
		w.put("B", 0, 1, 300)
		w.put("B", 1, 1, 20)
		w.dispatch(-1)
	}
}

func TestEmptyDirectoryOpens(t *testing.T) {
	w := newWorld(t, 1)
	if r := w.open(); !r.Clean || r.End != 0 {
		t.Fatalf("%+v", r)
	}
	w.fill(20)
	w.opensTheSame()
}

func TestCleanOpenReadsOnlyTheTail(t *testing.T) {
	w := newWorld(t, 1)
	w.open()
	w.fill(40)
	want := w.dump()
	w.close()
	r := w.open()
	if w.dump() != want {
		t.Fatalf("changed\n%sto\n%s", want, w.dump())
	}
	if !r.Clean || !r.SummaryUsed || r.CheckedRecords != 0 || r.End-r.Start > segmentSize || r.RebuiltUnits != 0 {
		t.Fatalf("a clean open looked at too much: %+v", r)
	}
}

// Defect 17: without a summary a clean open is bounded too, and after it there is one.
func TestCleanOpenWithoutSummaryLeavesOne(t *testing.T) {
	w := newWorld(t, 1)
	w.open()
	w.fill(40)
	want := w.dump()
	w.close()
	w.forgetSummary()
	r := w.open()
	if w.dump() != want || r.SummaryUsed || r.RebuiltUnits != 0 || r.End-r.Start > 3*segmentSize || r.CheckedRecords != 160 {
		t.Fatalf("%s%+v", w.dump(), r)
	}
	w.kill()
	if r := w.open(); !r.SummaryUsed || r.ScannedRecords > 1 || r.CheckedRecords != 0 {
		t.Fatalf("%+v", r)
	}
}

// Report 6, report 28: the dispatcher goes on where it was, whatever older checkpoint there is.
func TestUndispatchedMessagesAreDispatchedAfterKill(t *testing.T) {
	for _, summary := range []bool{true, false} {
		w := newWorld(t, 1)
		w.open()
		w.fill(10)
		w.checkpoint(false)
		w.put("A", 0, 100, 50)
		w.kill()
		if !summary {
			w.forgetSummary()
		}
		r := w.open()
		if q := w.op.Queues.Queue("A", 0); q.MaxOffset() != 120 {
			t.Fatalf("summary %v: max %d, want 120: %+v", summary, q.MaxOffset(), r)
		}
		if len(r.RebuiltQueues) != 0 {
			t.Fatalf("summary %v: a queue that was only behind counts as rebuilt: %v", summary, r.RebuiltQueues)
		}
		w.opensTheSame()
	}
}

// Defects 2, 3: queues that are gone are rebuilt from the log's start after any exit, and their numbering goes on.
func TestLostQueuesAreRebuilt(t *testing.T) {
	for _, clean := range []bool{true, false} {
		for _, summary := range []bool{true, false} {
			for _, lost := range []string{"consumequeue", "consumequeue/B", "consumequeue/B/1"} {
				t.Run(fmt.Sprintf("clean=%v/summary=%v/%s", clean, summary, strings.ReplaceAll(lost, "/", "-")), func(t *testing.T) {
					w := newWorld(t, 1)
					w.open()
					w.fill(40)
					w.now = w.now.Add(time.Minute)
					w.put("C", 0, 1, 10)
					w.dispatch(-1)
					want := w.dump()
					if clean {
						w.close()
					} else {
						w.checkpoint(false)
						w.kill()
					}
					if !summary {
						w.forgetSummary()
					}
					w.remove(lost)
					r := w.open()
					if w.dump() != want {
						t.Fatalf("got\n%swant\n%s%+v", w.dump(), want, r)
					}
					if len(r.RebuiltQueues) == 0 || r.RebuiltUnits == 0 {
						t.Fatalf("not reported: %+v", r)
					}
					if got := w.put("B", 1, 1, 10).QueueOffset; got != 40 {
						t.Fatalf("the next queue offset is %d, want 40", got)
					}
					w.dispatch(-1)
					w.opensTheSame()
				})
			}
		}
	}
}

// Defect 4, report 5: units missing at the end or at the head of a queue.
func TestQueueThatLacksUnitsIsCompleted(t *testing.T) {
	cases := map[string]func(w *world){
		"zeroed end":       func(w *world) { w.edit("consumequeue/A/0/00000000000000001400", func(b []byte) { clear(b[100:]) }) },
		"newest file gone": func(w *world) { w.remove("consumequeue/A/0/00000000000000001400") },
		"oldest file gone": func(w *world) { w.remove("consumequeue/A/0/00000000000000000000") },
		"middle file gone": func(w *world) { w.remove("consumequeue/A/0/00000000000000000800") },
		"file cut":         func(w *world) { w.cut("consumequeue/A/0/00000000000000000800", 70) },
		"last file cut":    func(w *world) { w.cut("consumequeue/A/0/00000000000000001400", 60) },
		"last file empty":  func(w *world) { w.cut("consumequeue/A/0/00000000000000001400", 0) },
		"two heads gone": func(w *world) {
			w.remove("consumequeue/A/0/00000000000000000000")
			w.remove("consumequeue/A/0/00000000000000000200")
			w.remove("consumequeue/B/1/00000000000000000000")
		},
	}
	for name, damage := range cases {
		for _, clean := range []bool{true, false} {
			for _, summary := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/clean=%v/summary=%v", name, clean, summary), func(t *testing.T) {
					w := newWorld(t, 1)
					w.open()
					w.fill(40)
					w.now = w.now.Add(time.Minute)
					w.put("C", 0, 1, 10)
					w.dispatch(-1)
					want := w.dump()
					if clean {
						w.close()
					} else {
						w.checkpoint(false)
						w.kill()
					}
					if !summary {
						w.forgetSummary()
					}
					damage(w)
					r := w.open()
					if w.dump() != want {
						t.Fatalf("got\n%swant\n%s%+v", w.dump(), want, r)
					}
					if !slices.Contains(r.RebuiltQueues, "A-0") {
						t.Fatalf("not reported: %+v", r)
					}
					w.opensTheSame()
				})
			}
		}
	}
}

// Without a summary everything is compared, so that damage inside a queue is found too.
func TestUnitThatPointsElsewhereRebuildsItsQueue(t *testing.T) {
	cases := map[string]func(b []byte){
		"other offset":    func(b []byte) { b[67] ^= 1 },
		"other size":      func(b []byte) { b[71] ^= 1 },
		"other tags":      func(b []byte) { b[79] ^= 1 },
		"zeros":           func(b []byte) { clear(b[60:80]) },
		"swapped":         func(b []byte) { u := slices.Clone(b[60:80]); copy(b[60:80], b[80:100]); copy(b[80:100], u) },
		"points at other": func(b []byte) { copy(b[60:80], b[40:60]) },
	}
	for name, damage := range cases {
		for _, clean := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/clean=%v", name, clean), func(t *testing.T) {
				w := newWorld(t, 1)
				w.open()
				w.fill(40)
				want := w.dump()
				if clean {
					w.close()
				} else {
					w.checkpoint(false)
					w.kill()
				}
				w.forgetSummary()
				w.edit("consumequeue/A/0/00000000000000000600", damage)
				if r := w.open(); w.dump() != want {
					t.Fatalf("got\n%swant\n%s%+v", w.dump(), want, r)
				}
				w.opensTheSame()
			})
		}
	}
}

// Report 2: units left over from before a first crash do not come back after a second one.
func TestStaleUnitsNeverPointAtNewRecords(t *testing.T) {
	for _, summary := range []bool{true, false} {
		w := newWorld(t, 1)
		w.open()
		w.put("A", 0, 100, 100)
		w.dispatch(-1)
		w.checkpoint(false)
		w.kill()
		// The log loses its second half, the queue does not.
		u, err := func() (int64, error) {
			w.open()
			u, err := w.op.Queues.Queue("A", 0).Unit(50)
			return u.PhyOffset, err
		}()
		if err != nil {
			t.Fatal(err)
		}
		w.kill()
		for _, p := range w.files("commitlog") {
			var start int64
			fmt.Sscanf(p, "commitlog/%d", &start)
			if start > u {
				w.remove(p)
			}
		}
		w.editLog(u, func(b []byte) { clear(b) })
		if !summary {
			w.forgetSummary()
		}
		r := w.open()
		if got := w.op.Queues.Queue("A", 0).MaxOffset(); got != 50 || r.End != u {
			t.Fatalf("summary %v: %d units, log ends at %d, want 50 and %d: %+v", summary, got, r.End, u, r)
		}
		w.put("A", 0, 30, 200)
		w.dispatch(-1)
		w.kill()
		w.open()
		check(t, w.op)
		if got := w.op.Queues.Queue("A", 0).MaxOffset(); got != 80 {
			t.Fatalf("summary %v: %d units, want 80", summary, got)
		}
		w.opensTheSame()
	}
}

// Report 3 (with OnDamage = Cut), golden clean-torntail: the first bad record ends the log, and queues follow.
func TestFirstBadRecordEndsTheLog(t *testing.T) {
	for _, clean := range []bool{true, false} {
		w := newWorld(t, 1)
		w.o.CommitLog.OnDamage = commitlog.DamageCut
		w.open()
		w.fill(20)
		last := w.put("A", 0, 1, 500)
		bad := w.put("A", 0, 1, 500)
		w.put("A", 0, 1, 500)
		if clean {
			w.close()
		} else {
			w.checkpoint(false)
			w.kill()
		}
		w.editLog(bad.PhyOffset+200, func(b []byte) { b[0] ^= 0x40 })
		r := w.open()
		if r.End != bad.PhyOffset && r.End != last.End() || r.DroppedRecords != 1 || len(r.Quarantine) == 0 || r.DroppedReason == nil {
			t.Fatalf("clean %v: %+v, want an end at %d", clean, r, bad.PhyOffset)
		}
		if clean != (r.LostBytes > 0) {
			t.Fatalf("clean %v: %d bytes of durable data lost", clean, r.LostBytes)
		}
		if got := w.put("A", 0, 1, 10).QueueOffset; got != bad.QueueOffset {
			t.Fatalf("clean %v: next queue offset %d, want %d", clean, got, bad.QueueOffset)
		}
		w.dispatch(-1)
		w.opensTheSame()
	}
}

// Reports 24, 25, defect 5: damage of durable data with whole records behind it is an error with a place, and nothing is changed.
func TestDamageOfDurableDataRefusesToOpen(t *testing.T) {
	for _, summary := range []bool{true, false} {
		w := newWorld(t, 1)
		w.open()
		w.fill(20)
		bad := w.put("A", 0, 1, 500)
		w.put("A", 0, 3, 100)
		w.close()
		if !summary {
			w.forgetSummary()
		}
		w.editLog(bad.PhyOffset+200, func(b []byte) { b[0] ^= 0x40 })
		before := w.image()
		_, err := recovery.Open(w.o)
		var damage *commitlog.DamageError
		if !errors.As(err, &damage) || !errors.Is(err, mappedfile.ErrCorrupt) || damage.Off != bad.PhyOffset || damage.RecordsBehind != 3 {
			t.Fatalf("summary %v: got %v, want damage at %d with 3 records behind", summary, err, bad.PhyOffset)
		}
		if w.image() != before {
			t.Fatalf("summary %v: a refused open changed the directory", summary)
		}
	}
}

// With neither checkpoint nor summary nothing says what was durable; but what lies so deep that a process would have synced it long before is not given up
// for an unsynced tail. Damage nearer to the end is one.
func TestDeepDamageIsNoUnsyncedTail(t *testing.T) {
	for _, deep := range []bool{true, false} {
		w := newWorld(t, 1)
		w.o.UnsyncedMost = 1 // so that two segments count
		w.open()
		bad := w.put("A", 0, 1, 500)
		w.fill(40)
		if !deep {
			bad = w.put("A", 0, 1, 500)
		}
		w.put("A", 0, 3, 100)
		w.dispatch(-1)
		w.flush()
		w.kill()
		w.forgetSummary()
		w.editLog(bad.PhyOffset+200, func(b []byte) { b[0] ^= 0x40 })
		if segs := w.files("commitlog"); len(segs) < 4 {
			t.Fatalf("%d segments", len(segs))
		}
		before := w.image()
		op, err := recovery.Open(w.o)
		var damage *commitlog.DamageError
		switch {
		case deep && (!errors.As(err, &damage) || damage.Off != bad.PhyOffset || w.image() != before):
			t.Fatalf("deep: %v, want damage at %d and nothing changed", err, bad.PhyOffset)
		case !deep && err != nil:
			t.Fatal(err)
		case !deep:
			if op.Report.End != bad.PhyOffset || op.Report.DroppedRecords != 3 || op.Report.LostBytes != 0 {
				t.Fatalf("%+v", op.Report)
			}
			if err := op.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Damage deep in the log is met only when the queues are compared: the same law holds for it.
func TestDamageMetByTheComparisonIsJudgedByTheLog(t *testing.T) {
	for _, clean := range []bool{true, false} {
		for _, cut := range []bool{true, false} {
			w := newWorld(t, 1)
			if cut {
				w.o.CommitLog.OnDamage = commitlog.DamageCut
			}
			w.open()
			w.fill(5)
			bad := w.put("A", 0, 1, 500)
			w.fill(40)
			if clean {
				w.close()
			} else {
				w.checkpoint(false)
				w.kill()
			}
			w.forgetSummary()
			w.editLog(bad.PhyOffset, func(b []byte) { b[7] ^= 1 }) // the magic
			op, err := recovery.Open(w.o)
			var damage *commitlog.DamageError
			switch {
			case cut && err == nil:
				w.use(op)
				if r := op.Report; r.End > bad.PhyOffset || r.DroppedRecords != 160 {
					t.Fatalf("clean %v: %+v", clean, r)
				}
				w.opensTheSame()
			case !cut && errors.As(err, &damage) && damage.Off == bad.PhyOffset && damage.RecordsBehind == 160:
			default:
				t.Fatalf("clean %v, cut %v: %v", clean, cut, err)
			}
		}
	}
}

// Report 7: a power loss takes any unsynced page of log and queues; what is left is completed.
func TestUnsyncedQueuePagesAreCompletedAfterPowerLoss(t *testing.T) {
	for seed := range uint64(30) {
		w := newWorld(t, seed)
		w.open()
		w.fill(10)
		w.checkpoint(false)
		w.fill(60)
		end := w.put("A", 0, 1, 10).End()
		w.flush()
		w.dispatch(-1)
		want := w.dump()
		w.crash()
		if r := w.open(); w.dump() != want {
			t.Fatalf("seed %d: log to %d\n%swant\n%s%+v", seed, end, w.dump(), want, r)
		}
		w.opensTheSame()
	}
}

// Report 8: a segment with another one's name holds no record.
func TestRecycledSegmentIsNotAccepted(t *testing.T) {
	w := newWorld(t, 1)
	w.open()
	w.fill(40)
	w.kill()
	for _, p := range w.files("commitlog") {
		if p > "commitlog/00000000000000004096" {
			w.remove(p)
		}
	}
	var first []byte
	w.edit("commitlog/00000000000000000000", func(b []byte) { first = slices.Clone(b) })
	w.edit("commitlog/00000000000000004096", func(b []byte) { copy(b, first) })
	if r := w.open(); r.End != segmentSize {
		t.Fatalf("the log ends at %d, want %d: %+v", r.End, segmentSize, r)
	}
	w.opensTheSame()
}

// Report 21: what bounds recovery is the checkpoint, written for a slave's appends too.
func TestUncleanOpenIsBoundedByTheCheckpoint(t *testing.T) {
	for _, summary := range []bool{true, false} {
		w := newWorld(t, 1)
		w.open()
		w.fill(60)
		w.now = w.now.Add(10_000_000_000)
		w.fill(20)
		w.now = w.now.Add(10_000_000_000)
		w.checkpoint(false)
		w.fill(2)
		w.kill()
		if !summary {
			w.forgetSummary()
		}
		r := w.open()
		if r.End-r.Start > 6*segmentSize {
			t.Fatalf("summary %v: scanned %d bytes: %+v", summary, r.End-r.Start, r)
		}
		w.opensTheSame()
	}
}

// Report 27: whatever a derived file holds, Open does not fail and the contents are the same.
func TestDamagedDerivedFilesChangeNothing(t *testing.T) {
	for _, clean := range []bool{true, false} {
		w := newWorld(t, 1)
		w.open()
		w.fill(20)
		want := w.dump()
		if clean {
			w.close()
		} else {
			w.checkpoint(false)
			w.kill()
		}
		for _, name := range []string{"checkpoint", "mqstore.summary"} {
			good, err := w.fs.ReadFile(root + "/" + name)
			if err != nil {
				t.Fatal(err)
			}
			try := func(what string, b []byte) {
				t.Helper()
				if err := w.fs.WriteFileDurable(root+"/"+name, b); err != nil {
					t.Fatal(err)
				}
				op, err := recovery.Open(w.o)
				if err != nil {
					t.Fatalf("clean %v, %s %s: %v", clean, name, what, err)
				}
				if dump(op) != want {
					t.Fatalf("clean %v, %s %s: got\n%swant\n%s%+v", clean, name, what, dump(op), want, op.Report)
				}
				if err := errors.Join(op.Queues.Close(), op.Log.Close(), w.fs.WriteFileDurable(root+"/"+name, good)); err != nil {
					t.Fatal(err)
				}
			}
			for n := 0; n < len(good); n += max(1, len(good)/40) {
				try(fmt.Sprintf("cut to %d", n), good[:n])
				b := slices.Clone(good)
				b[n] ^= 0x10
				try(fmt.Sprintf("byte %d flipped", n), b)
			}
		}
	}
}

// Report 27 for queue files, where nothing but the log tells: whatever byte is changed, whatever length is left, the queue is the same again.
func TestDamagedQueueFilesAreRebuilt(t *testing.T) {
	w := newWorld(t, 1)
	w.open()
	w.put("A", 0, 25, 30)
	w.put("B", 0, 3, 30)
	w.dispatch(-1)
	want := w.dump()
	w.close()
	w.o.IgnoreSummary = true
	for _, name := range []string{"consumequeue/A/0/00000000000000000200", "consumequeue/A/0/00000000000000000400"} {
		good, err := w.fs.ReadFile(root + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		try := func(what string, b []byte) {
			t.Helper()
			if err := w.fs.WriteFileDurable(root+"/"+name, b); err != nil {
				t.Fatal(err)
			}
			w.open()
			if w.dump() != want {
				t.Fatalf("%s %s: got\n%swant\n%s", name, what, w.dump(), want)
			}
			w.close()
		}
		for n := range good {
			b := slices.Clone(good)
			b[n] ^= 1 << (n % 8)
			try(fmt.Sprintf("byte %d flipped", n), b)
			if n%7 == 0 {
				try(fmt.Sprintf("cut to %d", n), good[:n])
			}
		}
	}
}

// A summary of another life of the directory is noticed.
func TestSummaryOfAnotherLogIsNotBelieved(t *testing.T) {
	w := newWorld(t, 1)
	w.open()
	w.fill(20)
	w.checkpoint(false)
	sum, err := checkpoint.ReadSummary(w.fs, root)
	if err != nil {
		t.Fatal(err)
	}
	w.close()
	want := ""
	for name, change := range map[string]func(s *checkpoint.Summary){
		"end in a record": func(s *checkpoint.Summary) { s.EndPhyOffset += 10 },
		"other time":      func(s *checkpoint.Summary) { s.LastStoreTime++ },
		"other crc":       func(s *checkpoint.Summary) { s.LastBodyCRC ^= 1 },
		"other size":      func(s *checkpoint.Summary) { s.LastSize++ },
		"no boundary":     func(s *checkpoint.Summary) { s.LastPhyOffset++ },
		"beyond the log":  func(s *checkpoint.Summary) { s.LastPhyOffset, s.EndPhyOffset = 1<<40, 1<<40+100 },
		"another log":     func(s *checkpoint.Summary) { s.MinPhyOffset = segmentSize },
		"negative":        func(s *checkpoint.Summary) { s.LastPhyOffset, s.EndPhyOffset = -1, -1 },
	} {
		s := *sum
		change(&s)
		if err := checkpoint.WriteSummary(w.fs, root, &s); err != nil {
			continue // refused where it is made
		}
		r := w.open()
		if r.SummaryUsed || r.SummaryDoubt == "" {
			t.Errorf("%s: believed: %+v", name, r)
		}
		if want == "" {
			want = w.dump()
		}
		if w.dump() != want {
			t.Errorf("%s: got\n%swant\n%s", name, w.dump(), want)
		}
		w.close()
	}
}

// The original's numbering that began again at 0 (a queue lost, or a topic deleted and made again) is kept as it was served last; other offsets used twice stay with the first record.
func TestReusedOffsetsAreDecidedOnce(t *testing.T) {
	reuse := func(w *world, topic string, next int64) { w.counter(topic, 0).Set(next) }
	t.Run("began again at 0", func(t *testing.T) {
		for _, queue := range []string{"lost", "as the original left it"} {
			w := newWorld(t, 1)
			w.open()
			w.put("A", 0, 30, 50)
			w.put("B", 0, 5, 50)
			w.dispatch(-1)
			w.close()
			w.open()
			reuse(w, "A", 0)
			first := w.put("A", 0, 1, 50)
			w.put("A", 0, 7, 50)
			w.put("B", 0, 5, 50)
			if queue != "lost" {
				if _, err := w.op.Queues.ResetQueue("A", 0); err != nil {
					t.Fatal(err)
				}
				w.dispatchFrom(first.PhyOffset)
			}
			w.shut()
			w.forgetSummary()
			if queue == "lost" {
				w.remove("consumequeue/A")
			}
			r := w.open()
			q := w.op.Queues.Queue("A", 0)
			if u, err := q.Unit(0); err != nil || u.PhyOffset != first.PhyOffset || q.MaxOffset() != 8 {
				t.Fatalf("%s: %s%v %+v", queue, w.dump(), err, r)
			}
			if !slices.Equal(r.ReusedOffsets, []string{"A-0"}) {
				t.Fatalf("%s: not reported: %+v", queue, r)
			}
			if rebuilt := len(r.RebuiltQueues) > 0; rebuilt != (queue == "lost") {
				t.Fatalf("%s: rebuilt %v", queue, r.RebuiltQueues)
			}
			want := w.dump()
			w.kill()
			w.forgetSummary()
			if r := w.open(); w.dump() != want || r.RebuiltUnits != 0 {
				t.Fatalf("%s: the next open changed it to\n%s%+v", queue, w.dump(), r)
			}
			if got := w.put("A", 0, 1, 50).QueueOffset; got != 8 {
				t.Fatalf("%s: next %d", queue, got)
			}
			w.dispatch(-1)
			w.kill()
			w.open()
			if got := w.op.Queues.Queue("A", 0).MaxOffset(); got != 9 {
				t.Fatalf("%s: max %d", queue, got)
			}
		}
	})
	t.Run("used twice", func(t *testing.T) {
		for _, lost := range []bool{true, false} {
			w := newWorld(t, 1)
			w.open()
			w.put("A", 0, 30, 50)
			w.dispatch(-1)
			reuse(w, "A", 25)
			w.put("A", 0, 10, 50)
			w.dispatch(-1) // the first of each stays: 25..29 are conflicts
			w.shut()
			w.forgetSummary()
			if lost {
				w.remove("consumequeue/A")
			}
			r := w.open()
			want := w.dump()
			if got := w.op.Queues.Queue("A", 0).MaxOffset(); got != 35 || !slices.Equal(r.ReusedOffsets, []string{"A-0"}) {
				t.Fatalf("lost %v: max %d: %+v", lost, got, r)
			}
			w.kill()
			w.forgetSummary()
			if r := w.open(); w.dump() != want || r.RebuiltUnits != 0 {
				t.Fatalf("lost %v: the next open changed it to\n%s%+v", lost, w.dump(), r)
			}
		}
	})
}

// A log that lacks records of a queue does not stop an open; the queue holds what follows, and the next open finds nothing to do.
func TestGapInTheLogIsReportedAndKept(t *testing.T) {
	w := newWorld(t, 1)
	w.open()
	w.put("A", 0, 10, 50)
	w.counter("A", 0).Set(15)
	w.put("A", 0, 10, 50)
	w.put("B", 0, 3, 50)
	w.shut()
	r := w.open()
	q := w.op.Queues.Queue("A", 0)
	if q.MinOffset() != 15 || q.MaxOffset() != 25 || !slices.Equal(r.LogGaps, []string{"A-0"}) {
		t.Fatalf("%s%+v", w.dump(), r)
	}
	want := w.dump()
	for range 2 {
		w.kill()
		w.forgetSummary()
		if r := w.open(); w.dump() != want || r.RebuiltUnits != 0 {
			t.Fatalf("the next open changed it to\n%s%+v", w.dump(), r)
		}
	}
}

// The log's head expires: queues follow, and lost ones begin where the log does.
func TestExpiredHeadIsNotMistakenForALostOne(t *testing.T) {
	for _, summary := range []bool{true, false} {
		for _, clean := range []bool{true, false} {
			w := newWorld(t, 1)
			w.open()
			w.put("Old", 0, 3, 50)
			w.fill(60)
			w.checkpoint(false)
			if _, err := w.op.Log.Expire(commitlog.ExpireOptions{Below: 5 * segmentSize}); err != nil {
				t.Fatal(err)
			}
			if _, err := w.op.Queues.Expire(w.op.Log.MinPhyOffset()); err != nil {
				t.Fatal(err)
			}
			want := w.dump()
			if clean {
				w.close()
			} else {
				w.kill()
			}
			if !summary {
				w.forgetSummary()
			}
			r := w.open()
			if w.dump() != want || len(r.RebuiltQueues) != 0 || w.op.Log.MinPhyOffset() != 5*segmentSize {
				t.Fatalf("summary %v, clean %v: got\n%swant\n%s%+v", summary, clean, w.dump(), want, r)
			}
			if summary && r.CheckedRecords > 0 {
				t.Fatalf("summary %v, clean %v: compared %d records", summary, clean, r.CheckedRecords)
			}
			if q := w.op.Queues.Queue("Old", 0); q.MinOffset() != 3 || q.MaxOffset() != 3 {
				t.Fatalf("an expired queue lost its numbering: [%d, %d)", q.MinOffset(), q.MaxOffset())
			}
			w.opensTheSame()
			w.kill()
			w.remove("consumequeue")
			w.open()
			if w.dump() != want {
				t.Fatalf("summary %v, clean %v: rebuilt\n%swant\n%s", summary, clean, w.dump(), want)
			}
			if got := w.put("Old", 0, 1, 10).QueueOffset; got != 3 {
				t.Fatalf("the numbering of an expired and lost queue goes on at %d, want 3", got)
			}
			w.dispatch(-1)
			w.opensTheSame()
		}
	}
}

// A log that is not there at all (an unmounted volume) must not take the queues with it.
func TestMissingLogIsRefusedAndQueuesAreKept(t *testing.T) {
	w := newWorld(t, 1)
	w.open()
	w.fill(5)
	w.close()
	w.remove("commitlog")
	before := w.image()
	if _, err := recovery.Open(w.o); !errors.Is(err, recovery.ErrNoLog) {
		t.Fatalf("got %v", err)
	}
	if w.image() != before {
		t.Fatal("a refused open changed the directory")
	}
	w.o.CommitLog.OnDamage = commitlog.DamageCut
	w.open()
	w.fill(5)
	w.opensTheSame()
}

// A wrong file size in the options is no damage: nothing is deleted for it.
func TestWrongQueueFileSizeIsRefusedAndQueuesAreKept(t *testing.T) {
	w := newWorld(t, 1)
	w.open()
	w.fill(5)
	w.close()
	before := w.image()
	w.o.Queues.FileSize *= 2
	if _, err := recovery.Open(w.o); !errors.Is(err, mappedfile.ErrWrongSize) {
		t.Fatalf("got %v", err)
	}
	if w.image() != before {
		t.Fatal("a refused open changed the directory")
	}
}

// SkipQueueCheck trades completeness for time, and never vouches for what it did not look at.
func TestSkippedCheckLeavesNoSummary(t *testing.T) {
	w := newWorld(t, 1)
	w.open()
	w.fill(40)
	want := w.dump()
	w.close()
	w.forgetSummary()
	w.remove("consumequeue/B")
	w.o.SkipQueueCheck = true
	r := w.open()
	if !r.QueuesUnchecked || r.CheckedRecords > 80 {
		t.Fatalf("%+v", r)
	}
	if s, err := checkpoint.ReadSummary(w.fs, root); s != nil || err != nil {
		t.Fatalf("summary %+v, %v", s, err)
	}
	w.shut()
	w.o.SkipQueueCheck = false
	if r := w.open(); w.dump() != want {
		t.Fatalf("got\n%swant\n%s%+v", w.dump(), want, r)
	}
	w.opensTheSame()
}

// Looking changes nothing, and sees the ends that a real open would find.
func TestReadOnlyOpenWritesNothing(t *testing.T) {
	w := newWorld(t, 1)
	w.open()
	w.fill(30)
	w.checkpoint(false)
	w.put("A", 0, 5, 50)
	w.dispatch(3)
	w.kill()
	last := w.files("commitlog")
	w.edit(last[len(last)-1], func(b []byte) { b[len(b)-1] = 1 })
	before := w.image()
	w.o.ReadOnly = true
	r := w.open()
	if w.image() != before {
		t.Fatal("the directory changed")
	}
	if !slices.Equal(r.LackingQueues, []string{"A-0"}) || w.op.Queues.Queue("A", 0).MaxOffset() != 63 {
		t.Fatalf("%s%+v", w.dump(), r)
	}
	w.shut()
	w.remove("consumequeue/B")
	if r := w.open(); !slices.Equal(r.LackingQueues, []string{"A-0", "B-0", "B-1"}) {
		t.Fatalf("%+v", r)
	}
	w.shut()
	w.o.ReadOnly = false
	if r := w.open(); r.End != r.Start && w.op.Queues.Queue("A", 0).MaxOffset() != 65 {
		t.Fatalf("%+v", r)
	}
}

// Hostile records in the log (a topic that is no directory, an absurd queue offset) stop nothing.
func TestRecordsThatNoQueueCanHoldAreLeftInTheLog(t *testing.T) {
	w := newWorld(t, 1)
	w.open()
	w.put("A", 0, 3, 50)
	w.counter("A", 1).Set(1 << 62)
	w.put("A", 1, 1, 50)
	w.put("A", 0, 3, 50)
	w.put("..", 0, 1, 50)
	w.put("A", 0, 3, 50)
	w.shut()
	r := w.open()
	if r.UnqueuedRecords != 2 || w.op.Queues.Queue("A", 0).MaxOffset() != 9 {
		t.Fatalf("%s%+v", w.dump(), r)
	}
}

// Sinks of the caller go on at least at the last durable checkpoint after an unclean exit, and at the end after a clean one.
func TestDispatchGoesOnWhereSinksMayHaveStopped(t *testing.T) {
	w := newWorld(t, 1)
	w.open()
	w.fill(10)
	w.checkpoint(false)
	mark := w.at
	w.fill(10)
	end := w.at
	w.kill()
	w.open()
	if w.op.DispatchFrom > mark || w.op.Dispatched != end {
		t.Fatalf("from %d, want at most %d; dispatched %d, want %d", w.op.DispatchFrom, mark, w.op.Dispatched, end)
	}
	w.close()
	w.open()
	if w.op.DispatchFrom != end {
		t.Fatalf("from %d, want %d", w.op.DispatchFrom, end)
	}
}

// Progress is told for long passes and ends at the total.
func TestProgressIsReported(t *testing.T) {
	w := newWorld(t, 1)
	w.open()
	w.fill(40)
	w.close()
	w.forgetSummary()
	w.edit("consumequeue/A/0/00000000000000000600", func(b []byte) { copy(b[60:80], b[40:60]) })
	ended := map[string]bool{}
	w.o.Progress = func(stage string, done, total int64) {
		if done < 0 || done > total {
			t.Errorf("%s: %d of %d", stage, done, total)
		}
		ended[stage] = done == total
	}
	w.open()
	for _, stage := range []string{"log", "queues", "rebuild"} {
		if !ended[stage] {
			t.Errorf("stage %s: not ended", stage)
		}
	}
}

// cut shortens a file.
func (w *world) cut(path string, n int) {
	w.t.Helper()
	b, err := w.fs.ReadFile(root + "/" + path)
	if err == nil {
		err = w.fs.WriteFileDurable(root+"/"+path, b[:n])
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// dispatchFrom gives records from phyOffset on their units, as the original would have after it forgot the queue.
func (w *world) dispatchFrom(phyOffset int64) { w.at = phyOffset; w.dispatch(-1) }

// image is every byte of the directory.
func (w *world) image() string {
	w.t.Helper()
	var b strings.Builder
	for _, p := range w.files(".") {
		c, err := w.fs.ReadFile(root + "/" + p)
		if err != nil {
			w.t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %d ", p, len(c))
		b.Write(c)
	}
	return b.String()
}

// Units that a good log knows nothing of: whichever way one of them got there, its queue is rebuilt.
func TestUnitsWithoutARecordAreNotServed(t *testing.T) {
	unit := func(phy int64, size int32) []byte {
		b := make([]byte, consumequeue.UnitSize)
		consumequeue.PutUnit(b, consumequeue.Unit{PhyOffset: phy, Size: size})
		return b
	}
	cases := map[string]func(w *world, at int64){
		// Left from before a truncation, in the place behind the last unit: it points at the start of another queue's record.
		"one more": func(w *world, at int64) {
			w.edit("consumequeue/A/0/00000000000000000600", func(b []byte) { copy(b[100:], unit(at, 10)) })
		},
		"last one elsewhere": func(w *world, at int64) {
			w.edit("consumequeue/A/0/00000000000000000600", func(b []byte) { copy(b[80:], unit(at, 10)) })
		},
		"queue of no record":  func(w *world, at int64) { w.plant("consumequeue/Z/7/00000000000000000000", unit(at, 10)) },
		"topic's other queue": func(w *world, at int64) { w.plant("consumequeue/A/9/00000000000000000000", unit(at, 10)) },
	}
	for name, damage := range cases {
		for _, clean := range []bool{true, false} {
			for _, summary := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/clean=%v/summary=%v", name, clean, summary), func(t *testing.T) {
					w := newWorld(t, 1)
					w.open()
					w.put("A", 0, 35, 100)
					at := w.put("B", 0, 2, 100).PhyOffset
					w.put("B", 0, 1, 100)
					w.dispatch(-1)
					want := w.dump()
					if clean {
						w.close()
					} else {
						w.checkpoint(false)
						w.kill()
					}
					if !summary {
						w.forgetSummary()
					}
					damage(w, at)
					r := w.open()
					if w.dump() != want {
						t.Fatalf("got\n%swant\n%s%+v", w.dump(), want, r)
					}
					w.opensTheSame()
				})
			}
		}
	}
}

// plant makes a queue file that holds b and zeros.
func (w *world) plant(path string, b []byte) {
	w.fs.Plant(root+"/"+path, append(b, make([]byte, unitsPer*consumequeue.UnitSize-len(b))...))
}
