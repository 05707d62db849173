package commitlog

import (
	"fmt"
	"testing"
)

// A truncation that was announced ends the log at the announced offset, wherever a mark of the clean exit before lets the scan begin, and whatever it
// calls durable; one that failed before it was announced leaves the log's end where it was.
func TestAnnouncedTruncationIsFinishedAtItsOffset(t *testing.T) {
	for _, cut := range []int{0, 5, 39, 40, 70} { // of three segments with 40 records each
		for _, readOnly := range []bool{false, true} {
			t.Run(fmt.Sprintf("record=%d,readOnly=%v", cut, readOnly), func(t *testing.T) {
				for n := int64(1); ; n++ {
					if interruptTruncation(t, cut, n, readOnly) {
						t.Logf("%d operations", n-1)
						return
					}
				}
			})
		}
	}
}

// interruptTruncation fails a truncation at operation n, and reopens as after a clean exit. done: there was no such operation.
func interruptTruncation(t *testing.T, cut int, n int64, readOnly bool) (done bool) {
	t.Helper()
	const records = 120
	for from := range 4 {
		r := newRig(t)
		r.open(Recovery{})
		all := r.appendN(records, 300)
		r.close()
		end, to := all[records-1].End(), all[cut].PhyOffset
		before := r.snapshot()
		scanFrom := min(int64(from)*testSegment, all[records-1].PhyOffset)

		r.open(Recovery{Clean: true, FlushedTo: end})
		r.fs.FailFrom(r.fs.Ops()+n, nil)
		err := r.log.TruncateTo(to)
		if n%2 == 0 {
			r.crash(newRand(uint64(n)))
		} else {
			r.kill()
		}
		_, absent := r.fs.Stat(markerPath(&Options{QuarantineDir: quarantined}))
		announced := absent == nil
		if !announced {
			scanFrom = 0 // done or not begun: no mark may be beyond the end
		}
		r.o.ReadOnly = readOnly
		r.open(Recovery{Clean: true, From: scanFrom, FlushedTo: end})
		where := fmt.Sprintf("operation %d, scanned from %d: %+v", n, scanFrom, r.tail)
		switch {
		case r.tail.End != to && (r.tail.End != end || announced):
			t.Fatalf("%s: want the end at %d (announced: %v)", where, to, announced)
		case r.tail.End != to && err == nil:
			t.Fatalf("%s: the truncation was done", where)
		case announced && r.tail.BelowFlushed != 0:
			t.Fatalf("%s: what was given up is reported as lost", where)
		}
		if got := offsets(t, r.log); int64(len(got)) != map[bool]int64{true: int64(cut), false: records}[r.tail.End == to] {
			t.Fatalf("%s: %d records", where, len(got))
		}
		for off := to; off < end && r.tail.End == to && !readOnly; off += 100 {
			seg := off - off%testSegment
			if !r.keptByte(off, before[fmt.Sprintf("%s/%s", testDir, segmentName(seg))][off-seg]) {
				t.Fatalf("%s: the byte at %d is nowhere", where, off)
			}
		}
		done = err == nil
		r.close()
	}
	return done
}
