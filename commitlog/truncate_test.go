package commitlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
)

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x10666)) }

// apache/rocketmq#10666: what a truncation cut does not come back after a crash.
func TestTruncatedBytesNeverComeBack(t *testing.T) {
	for seed := range uint64(20) {
		r := newRig(t)
		r.open(Recovery{})
		all := r.appendN(100, 400)
		r.flush()
		if err := r.log.TruncateTo(all[60].PhyOffset); err != nil {
			t.Fatal(err)
		}
		r.crash(newRand(seed))
		r.open(Recovery{FlushedTo: all[60].PhyOffset})
		if r.tail.Records != 60 || r.tail.End != all[60].PhyOffset || r.tail.DroppedBytes != 0 {
			t.Fatalf("seed %d: %+v, want 60 records", seed, r.tail)
		}
		r.append(400) // of the same size: the old 61st would line up behind it
		r.flush()
		r.crash(newRand(seed))
		r.open(Recovery{FlushedTo: -1})
		if r.tail.Records != 61 {
			t.Fatalf("seed %d: %+v, want 61 records", seed, r.tail)
		}
		if len(r.quarantine()) != 3 {
			t.Errorf("seed %d: quarantine holds %d files, want one per segment", seed, len(r.quarantine()))
		}
		r.close()
	}
}

// crash cuts the power.
func (r *rig) crash(rng *rand.Rand) {
	r.fs = r.fs.Crash(rng)
	if r.log != nil {
		_ = r.log.Close()
		r.log = nil
	}
}

// A truncation that the power interrupts at any operation is finished by the next Open, or was not begun.
func TestInterruptedTruncationIsFinished(t *testing.T) {
	for n := int64(1); ; n++ {
		r := newRig(t)
		r.open(Recovery{})
		all := r.appendN(100, 400)
		r.flush()
		before := r.snapshot()
		r.fs.FailFrom(r.fs.Ops()+n, nil)
		err := r.log.TruncateTo(all[30].PhyOffset)
		r.crash(newRand(uint64(n)))
		r.open(Recovery{FlushedTo: all[99].End()}) // the mark of before
		switch {
		case err == nil && r.tail.End != all[30].PhyOffset:
			t.Fatalf("operation %d: truncated, but reopened to %+v", n, r.tail)
		case r.tail.End != all[30].PhyOffset && r.tail.End != all[99].End():
			t.Fatalf("operation %d: half a truncation, %+v", n, r.tail)
		}
		if r.tail.End == all[30].PhyOffset {
			// Nothing is lost: every cut byte is in some quarantine file.
			for off := all[30].PhyOffset; off < all[99].End(); off += 100 {
				seg := off - off%testSegment
				if !r.keptByte(off, before[fmt.Sprintf("%s/%s", testDir, segmentName(seg))][off-seg]) {
					t.Fatalf("operation %d: the byte at %d is nowhere", n, off)
				}
			}
		}
		r.append(10)
		r.flush()
		r.close()
		r.open(Recovery{Clean: true, FlushedTo: -1})
		r.close()
		if err == nil {
			t.Logf("%d operations", n-1)
			return
		}
	}
}

// keptByte reports whether some quarantine file holds c for off. Zeros behind a file's end count.
func (r *rig) keptByte(off int64, c byte) bool {
	for path, b := range r.quarantine() {
		var from int64
		if _, err := fmt.Sscanf(path[len(quarantined)+1:], "commitlog-%d-", &from); err != nil {
			continue
		}
		if off >= from && off/testSegment == from/testSegment && (off-from < int64(len(b)) && b[off-from] == c || off-from >= int64(len(b)) && c == 0) {
			return true
		}
	}
	return false
}

func TestTruncationOnlyAtBoundaries(t *testing.T) {
	r := newRig(t)
	l := r.open(Recovery{})
	all := r.appendN(60, 400)
	for _, off := range []int64{1, all[5].PhyOffset + 1, all[5].PhyOffset + bodyAt, all[59].End() - 1} {
		if err := l.TruncateTo(off); !errors.Is(err, ErrNotARecord) {
			t.Errorf("truncate to %d: %v, want ErrNotARecord", off, err)
		}
	}
	for _, off := range []int64{-1, all[59].End() + 1, 1 << 60} {
		if err := l.TruncateTo(off); !errors.Is(err, mappedfile.ErrNotFound) {
			t.Errorf("truncate to %d: %v, want ErrNotFound", off, err)
		}
	}
	if err := l.TruncateTo(all[59].End()); err != nil {
		t.Errorf("truncate to the end: %v", err)
	}
	waiting := make(chan error)
	go func() { waiting <- l.WaitFlushed(context.Background(), all[59].End()) }()
	for l.flush.waitingN() == 0 {
		runtime.Gosched()
	}
	for _, off := range []int64{all[58].PhyOffset, testSegment, 0} {
		if err := l.TruncateTo(off); err != nil {
			t.Errorf("truncate to %d: %v", off, err)
		}
		if l.MaxPhyOffset() != off || l.FlushedPhyOffset() > off || l.WholePhyOffset() != off {
			t.Errorf("truncated to %d: end %d, flushed %d", off, l.MaxPhyOffset(), l.FlushedPhyOffset())
		}
	}
	if err := <-waiting; !errors.Is(err, ErrTruncated) {
		t.Errorf("waiter: %v", err)
	}
	if res := r.append(10); res.PhyOffset != 0 {
		t.Errorf("appended at %d", res.PhyOffset)
	}
}

// waitingN is how many wait.
func (f *flusher) waitingN() int {
	f.waits.Lock()
	defer f.waits.Unlock()
	return len(f.waits.list)
}

func TestViewsOutliveTruncationAndExpiry(t *testing.T) {
	r := newRig(t)
	l := r.open(Recovery{})
	all := r.appendN(100, 400)
	r.flush()
	v, err := l.View(all[0].PhyOffset, all[0].Size)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Release()
	want := bytes.Clone(v.Bytes)
	if removed, err := l.Expire(ExpireOptions{Force: true, Max: 1}); err != nil || len(removed) != 1 {
		t.Fatal(removed, err)
	}
	if !bytes.Equal(v.Bytes, want) {
		t.Error("the view changed when its segment expired")
	}
}

func TestMarkerThatIsNoOffsetIsRefused(t *testing.T) {
	r := newRig(t)
	r.open(Recovery{})
	r.append(10)
	r.close()
	r.fs.Plant(markerPath(&Options{QuarantineDir: quarantined}), []byte("soon"))
	if err := r.tryOpen(Recovery{}); !errors.Is(err, mappedfile.ErrCorrupt) {
		t.Errorf("open: %v", err)
	}
}

func TestInterruptedTruncationHidesNoDamageInFrontOfIt(t *testing.T) {
	r := newRig(t)
	r.open(Recovery{})
	all := r.appendN(20, 400)
	r.close()
	if err := writeMarker(&Options{FS: r.fs, QuarantineDir: quarantined}, all[15].PhyOffset); err != nil {
		t.Fatal(err)
	}
	r.edit(all[10].PhyOffset+bodyAt, flip)
	d := wantDamage(t, r.tryOpen(Recovery{FlushedTo: all[19].End()}))
	if d.Off != all[10].PhyOffset || d.RecordsBehind != 4 {
		t.Errorf("%+v", d)
	}
	r.edit(all[10].PhyOffset+bodyAt, flip)
	r.open(Recovery{FlushedTo: all[19].End()})
	if r.tail.End != all[15].PhyOffset || r.tail.BelowFlushed != 0 || r.tail.DroppedRecords != 5 {
		t.Errorf("%+v", r.tail)
	}
}

func TestQuarantineNeitherDoublesNorClobbers(t *testing.T) {
	r := newRig(t)
	o := &Options{FS: r.fs, QuarantineDir: quarantined}
	b := []byte("what was cut")
	first, err := quarantine(o, 4711, b)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := quarantine(o, 4711, b); err != nil || again != first || len(r.quarantine()) != 1 {
		t.Errorf("again: %s, %v, %d files", again, err, len(r.quarantine()))
	}
	for _, other := range []string{"of the same length", "shorter"} {
		r.fs.Plant(first, []byte(other)[:min(len(other), len(b))])
		beside, err := quarantine(o, 4711, b)
		if err != nil || beside == first {
			t.Errorf("other bytes under the name: %s, %v", beside, err)
		}
		if files := r.quarantine(); string(files[first]) != other[:min(len(other), len(b))] || string(files[beside]) != string(b) {
			t.Errorf("%v", files)
		}
	}
	// No room: nothing may be cut.
	r.fs.SetReadOnly(true)
	if _, err := quarantine(o, 99, b); err == nil {
		t.Error("kept on a device that takes nothing")
	}
}

// A full quarantine device refuses the open, and the log is as it was.
func TestNothingIsCutThatCanNotBeKept(t *testing.T) {
	r := newRig(t)
	r.open(Recovery{})
	all := r.appendN(10, 400)
	r.close()
	r.edit(all[9].PhyOffset+bodyAt, flip)
	before := r.snapshot()
	r.fs.SetHook(func(op faultfs.Op) error {
		if op.Kind == faultfs.OpWriteFile {
			return mappedfile.ErrDiskFull
		}
		return nil
	})
	if err := r.tryOpen(Recovery{FlushedTo: -1}); !errors.Is(err, mappedfile.ErrDiskFull) {
		t.Fatalf("open: %v", err)
	}
	r.fs.SetHook(nil)
	after := r.snapshot()
	for p, b := range before {
		if after[p] != b {
			t.Errorf("%s changed", p)
		}
	}
	r.open(Recovery{FlushedTo: -1})
	if len(r.tail.Quarantine) != 1 || r.tail.End != all[9].PhyOffset {
		t.Errorf("%+v", r.tail)
	}
}
