package commitlog

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/commitlog/record"
)

func TestReopenFindsEverything(t *testing.T) {
	for _, clean := range []bool{true, false} {
		r := newRig(t)
		r.open(Recovery{})
		all := r.appendN(150, 400)
		end := r.log.MaxPhyOffset()
		r.close()
		var each []int64
		var done, total int64
		r.open(Recovery{Clean: clean, FlushedTo: -1, Each: func(m *record.Meta) error { each = append(each, m.PhyOffset); return nil },
			Progress: func(d, n int64) { done, total = d, n }})
		want := Tail{End: end, Records: 150, LastStoreTime: all[149].StoreTimestamp}
		if fmt.Sprint(r.tail) != fmt.Sprint(want) {
			t.Errorf("clean %v: %+v, want %+v", clean, r.tail, want)
		}
		if len(each) != 150 || each[149] != all[149].PhyOffset {
			t.Errorf("clean %v: %d records handed over", clean, len(each))
		}
		if done != total || total == 0 {
			t.Errorf("progress ended at %d of %d", done, total)
		}
		if r.log.FlushedPhyOffset() != end {
			t.Errorf("flushed %d, want %d", r.log.FlushedPhyOffset(), end)
		}
		if res := r.append(10); res.PhyOffset != end {
			t.Errorf("appended at %d, want %d", res.PhyOffset, end)
		}
	}
}

// Defect 17: the scan is bounded by where the caller says that it may start.
func TestScanStartsWhereItIsTold(t *testing.T) {
	r := newRig(t)
	r.open(Recovery{})
	all := r.appendN(150, 400)
	end := r.log.MaxPhyOffset()
	r.close()
	for _, c := range []struct {
		from, records int64
	}{{all[100].PhyOffset, 50}, {end, 0}, {0, 150}, {-5, 150}, {math.MaxInt64, -1}, {all[100].PhyOffset + 7, 49}} {
		n := int64(0)
		r.open(Recovery{From: c.from, Clean: true, FlushedTo: end, Each: func(m *record.Meta) error {
			n++
			if m.PhyOffset < c.from {
				t.Errorf("from %d: handed over the record at %d", c.from, m.PhyOffset)
			}
			return nil
		}})
		if r.tail.End != end || r.tail.DroppedBytes != 0 || c.records >= 0 && n != c.records {
			t.Errorf("from %d: %d records, %+v, want %d and end %d", c.from, n, r.tail, c.records, end)
		}
		r.close()
	}
}

func TestOpeningTwiceChangesNothing(t *testing.T) {
	r := newRig(t)
	r.open(Recovery{})
	all := r.appendN(60, 400)
	r.flush()
	r.kill()
	r.edit(all[59].PhyOffset+bodyAt, flip)
	r.open(Recovery{FlushedTo: all[58].End()})
	first := r.tail
	if first.End != all[59].PhyOffset || first.DroppedBytes == 0 {
		t.Fatalf("%+v", first)
	}
	r.close()
	before := r.snapshot()
	for range 2 {
		r.open(Recovery{FlushedTo: all[58].End()})
		if r.tail.End != first.End || r.tail.DroppedBytes != 0 || r.tail.Reason != nil {
			t.Errorf("opened again: %+v", r.tail)
		}
		r.close()
		after := r.snapshot()
		for p, b := range before {
			if after[p] != b {
				t.Errorf("opening again changed %s", p)
			}
		}
		if len(after) != len(before) {
			t.Errorf("opening again made files: %d, were %d", len(after), len(before))
		}
	}
}

// apache/rocketmq#467, with OnDamage Cut: the first bad record ends the log, and what is dropped is said.
func TestFirstBadRecordEndsTheLogWhenToldToCut(t *testing.T) {
	r := newRig(t)
	r.open(Recovery{})
	all := r.appendN(20, 400)
	r.close()
	r.edit(all[18].PhyOffset+bodyAt, flip)
	r.o.OnDamage = DamageCut
	r.open(Recovery{Clean: true, FlushedTo: -1})
	want := all[18].PhyOffset
	if r.tail.End != want || r.tail.DroppedRecords != 1 || r.tail.DroppedBytes != all[19].End()-want || r.tail.Reason == nil {
		t.Errorf("%+v, want end %d, 1 record and %d bytes dropped", r.tail, want, all[19].End()-want)
	}
	r.count.Set(18)
	if res := r.append(100); res.PhyOffset != want || res.QueueOffset != 18 {
		t.Errorf("next put: %+v", res)
	}
	if got := offsets(t, r.log); len(got) != 19 || got[18] != want {
		t.Errorf("records at %v", got)
	}
}

// apache/rocketmq#10017: records of a renamed file pass every check but that of their place.
func TestRecordsInTheWrongPlaceAreNotAccepted(t *testing.T) {
	r := newRig(t)
	r.open(Recovery{})
	r.appendN(60, 400)
	r.flush()
	first, _ := r.file(0)
	second, third := filepath.Join(testDir, segmentName(testSegment)), filepath.Join(testDir, segmentName(2*testSegment))
	r.close()
	_, b := r.file(0)
	fs := faultfs.New()
	fs.Plant(second, b) // the only file, with the old bytes
	r.fs = fs
	r.open(Recovery{FlushedTo: -1})
	if r.tail.Records != 0 || r.tail.End != testSegment || r.tail.DroppedRecords != 0 {
		t.Errorf("renamed alone: %+v", r.tail)
	}
	r.close()
	fs = faultfs.New()
	fs.Plant(first, b)
	fs.Plant(second, b)
	r.fs = fs
	r.open(Recovery{Clean: true, FlushedTo: -1})
	if r.tail.End != testSegment || r.tail.DroppedRecords != 0 || !errors.Is(r.tail.Reason, record.ErrPhyOffset) {
		t.Errorf("recycled behind the first: %+v", r.tail)
	}
	r.close()
	_ = third
}

// pmcfadin/cqlite#1390: what is appended behind a torn tail is there at the next recovery, and what was cut is kept.
func TestAppendBehindATornTailStaysReachable(t *testing.T) {
	r := newRig(t)
	r.open(Recovery{})
	all := r.appendN(10, 400)
	r.flush()
	r.kill()
	end := all[9].End()
	r.edit(end-20, zeroN(20))
	_, old := r.file(0)
	r.open(Recovery{FlushedTo: -1})
	if r.tail.End != all[9].PhyOffset || r.tail.DroppedRecords != 0 {
		t.Fatalf("%+v", r.tail)
	}
	kept := r.quarantine()
	if len(kept) != 1 || len(r.tail.Quarantine) != 1 {
		t.Fatalf("quarantine %v, reported %v", kept, r.tail.Quarantine)
	}
	if got := kept[r.tail.Quarantine[0]]; !bytes.Equal(got, old[all[9].PhyOffset:all[9].PhyOffset+int64(len(got))]) || int64(len(got)) != r.tail.DroppedBytes {
		t.Errorf("kept %d bytes, dropped %d", len(got), r.tail.DroppedBytes)
	}
	if !strings.HasPrefix(filepath.Base(r.tail.Quarantine[0]), "commitlog-"+segmentName(all[9].PhyOffset)+"-") {
		t.Errorf("quarantine file %s is not named by its offset %d", r.tail.Quarantine[0], all[9].PhyOffset)
	}
	res := r.append(50)
	r.flush()
	r.kill()
	r.open(Recovery{FlushedTo: -1})
	if got := offsets(t, r.log); len(got) != 10 || got[9] != res.PhyOffset || r.tail.DroppedBytes != 0 {
		t.Errorf("records at %v, want the last at %d; %+v", got, res.PhyOffset, r.tail)
	}
}

// etcd-io/etcd#6515: a torn write inside an allocated file is not the end of the file. Its last sector is lost: cut. A bit in the middle: said where.
func TestTornTailIsCutAndDamageInTheMiddleIsReported(t *testing.T) {
	r := newRig(t)
	r.open(Recovery{})
	all := r.appendN(10, 1500)
	r.close()
	end := all[9].End()
	sector := (end - 1) &^ 511
	r.edit(sector, zeroN(int(end-sector)))
	r.open(Recovery{Clean: true, FlushedTo: end})
	if r.tail.End != all[9].PhyOffset || r.tail.BelowFlushed != end-all[9].PhyOffset {
		t.Errorf("last sector zeroed: %+v", r.tail)
	}
	r.close()
	r.edit(all[5].PhyOffset+bodyAt+3, flip)
	d := wantDamage(t, r.tryOpen(Recovery{Clean: true, FlushedTo: -1}))
	if d.Off != all[5].PhyOffset || d.RecordsBehind != 3 || d.NextWhole != all[6].PhyOffset || d.Path != filepath.Join(testDir, segmentName(0)) || !errors.Is(d, record.ErrCRC) {
		t.Errorf("%+v", d)
	}
	for _, part := range []string{d.Path, fmt.Sprint(d.Off), "3 whole records", "mqstore dump", "mqstore salvage", fmt.Sprintf("mqstore truncate --to %d", d.Off), "mqstore recover", "DamageCut"} {
		if !strings.Contains(d.Error(), part) {
			t.Errorf("%q does not say %q", d.Error(), part)
		}
	}
}

// cockroachdb/pebble#453, nats-io/nats-server#7549, defect 5: 1000 synced records, one bit of body 500.
func TestDamageOfDurableRecordsIsNeverCutInSilence(t *testing.T) {
	r := newRig(t)
	r.open(Recovery{})
	all := r.appendN(1000, 128)
	r.flush()
	flushed, lastTime := r.log.FlushedPhyOffset(), all[999].StoreTimestamp
	r.kill()
	r.edit(all[500].PhyOffset+bodyAt, flip)
	before := r.snapshot()
	for _, rec := range []Recovery{{Clean: true, FlushedTo: -1}, {FlushedTo: flushed}, {FlushedTo: -1, DurableTime: lastTime}} {
		d := wantDamage(t, r.tryOpen(rec))
		if d.Off != all[500].PhyOffset || d.RecordsBehind != 499 || d.NextWhole != all[501].PhyOffset {
			t.Errorf("%+v: %+v", rec, d)
		}
	}
	for p, b := range r.snapshot() {
		if before[p] != b {
			t.Errorf("the refusal changed %s", p)
		}
	}
	// Beyond the mark it is an unsynced tail.
	for _, rec := range []Recovery{{FlushedTo: all[500].PhyOffset}, {FlushedTo: -1, DurableTime: all[500].StoreTimestamp}} {
		fs := r.fs.Kill()
		r.fs = fs
		r.o.ReadOnly = true
		r.open(rec)
		if r.tail.End != all[500].PhyOffset || r.tail.DroppedRecords != 499 {
			t.Errorf("%+v: %+v", rec, r.tail)
		}
		r.close()
	}
	r.o.ReadOnly, r.o.OnDamage = false, DamageCut
	r.open(Recovery{Clean: true, FlushedTo: -1})
	if r.tail.End != all[500].PhyOffset || r.tail.DroppedRecords != 499 {
		t.Errorf("told to cut: %+v", r.tail)
	}
	// All that was cut is kept, segment by segment.
	kept := int64(0)
	for path, b := range r.quarantine() {
		var off int64
		if _, err := fmt.Sscanf(filepath.Base(path), "commitlog-%d-", &off); err != nil {
			t.Fatal(err)
		}
		seg := off - off%testSegment
		if want := before[filepath.Join(testDir, segmentName(seg))][off-seg:]; want[:len(b)] != string(b) || strings.Trim(want[len(b):], "\x00") != "" {
			t.Errorf("%s holds other bytes than were cut", path)
		}
		kept += int64(len(b))
	}
	if kept != r.tail.DroppedBytes {
		t.Errorf("kept %d bytes, dropped %d", kept, r.tail.DroppedBytes)
	}
}

func TestDamageAnywhereIsReportedWithItsPlace(t *testing.T) {
	r := newRig(t)
	r.open(Recovery{})
	all := r.appendN(100, 500)
	r.close()
	whole := r.snapshot()
	check := func(name string, off int64, change func([]byte), want int64) {
		t.Run(name, func(t *testing.T) {
			r.fs = faultfs.New()
			for p, b := range whole {
				r.fs.Plant(p, []byte(b))
			}
			r.edit(off, change)
			d := wantDamage(t, r.tryOpen(Recovery{Clean: true, FlushedTo: -1}))
			if d.Off != want {
				t.Errorf("damage reported at %d, want %d: %v", d.Off, want, d)
			}
		})
	}
	at := all[50].PhyOffset
	check("first record", 0, flip, 0)
	check("first page lost", 0, zeroN(4096), 0)
	check("size", at+1, flip, at)
	check("magic", at+posMagic, flip, at)
	check("place", at+posPhyOffset+7, flip, at)
	check("body length", at+84, func(b []byte) { copy(b, "\x7f\xff\xff\xff") }, at)
	check("negative size", at, func(b []byte) { copy(b, "\xff\xff\xff\xff") }, at)
	check("lost sector", at&^511, zeroN(512), all[firstBehind(all, at&^511)].PhyOffset)
	lastOfFirst := 0
	for all[lastOfFirst+1].PhyOffset < testSegment {
		lastOfFirst++
	}
	blank := all[lastOfFirst].End()
	check("blank's size", blank+3, flip, blank)
	check("blank lost", blank, zeroN(8), blank)
	check("a whole segment zeroed", testSegment, zeroN(testSegment), testSegment)
}

// firstBehind is the first record that ends behind off.
func firstBehind(all []AppendResult, off int64) int {
	for i, r := range all {
		if r.End() > off {
			return i
		}
	}
	return -1
}

func TestMissingSegmentIsDamage(t *testing.T) {
	r := newRig(t)
	r.open(Recovery{})
	all := r.appendN(100, 500)
	r.close()
	missing := filepath.Join(testDir, segmentName(testSegment))
	if err := r.fs.Remove(missing); err != nil {
		t.Fatal(err)
	}
	before := r.snapshot()
	for _, rec := range []Recovery{{Clean: true, FlushedTo: -1}, {FlushedTo: all[99].End()}, {Clean: true, FlushedTo: -1, From: all[99].PhyOffset}} {
		d := wantDamage(t, r.tryOpen(rec))
		if d.Off != testSegment || d.Path != missing || d.NextWhole != 2*testSegment || d.RecordsBehind == 0 {
			t.Errorf("%+v: %+v", rec, d)
		}
	}
	// It is an unsynced tail if that is what the marks say, also to a reader.
	r.o.ReadOnly = true
	r.open(Recovery{FlushedTo: testSegment})
	if r.tail.End != testSegment || len(offsets(t, r.log)) == 0 {
		t.Errorf("read-only: %+v", r.tail)
	}
	r.close()
	for p, b := range r.snapshot() {
		if before[p] != b {
			t.Errorf("looking changed %s", p)
		}
	}
	r.o.ReadOnly = false
	r.open(Recovery{FlushedTo: testSegment})
	if r.tail.End != testSegment || r.tail.DroppedRecords == 0 || len(r.quarantine()) != 2 || len(r.tail.Quarantine) != 2 {
		t.Errorf("%+v, quarantine holds %d files", r.tail, len(r.quarantine()))
	}
	if res := r.append(100); res.PhyOffset != testSegment {
		t.Errorf("appended at %d", res.PhyOffset)
	}
	r.flush()
	r.kill()
	r.open(Recovery{FlushedTo: -1})
	if r.tail.DroppedBytes != 0 {
		t.Errorf("opened again: %+v", r.tail)
	}
}

// An older checkpoint beside newer data overwrites nothing: nsqio/go-diskqueue#28.
func TestOldMarksOverwriteNothing(t *testing.T) {
	r := newRig(t)
	r.open(Recovery{})
	old := r.append(300)
	r.appendN(60, 300)
	end := r.log.MaxPhyOffset()
	r.close()
	r.open(Recovery{From: old.PhyOffset, FlushedTo: old.End(), DurableTime: old.StoreTimestamp})
	if r.tail.End != end || r.tail.Records != 61 {
		t.Errorf("%+v, want end %d", r.tail, end)
	}
}

func TestFilesMadeAheadAreNotReportedAsDropped(t *testing.T) {
	r := newRig(t)
	r.open(Recovery{})
	all := r.appendN(5, 500)
	r.close()
	for _, start := range []int64{testSegment, 2 * testSegment} {
		m, err := r.fs.Map(filepath.Join(testDir, segmentName(start)), testSegment, mappedfile.MapCreate)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
	r.fs.Plant(filepath.Join(testDir, segmentName(3*testSegment)), make([]byte, 512)) // interrupted while it was made
	r.o.ReadOnly = true
	r.open(Recovery{FlushedTo: -1})
	if r.tail.End != all[4].End() || r.tail.DroppedBytes != 0 || r.tail.Reason != nil {
		t.Errorf("read-only: %+v", r.tail)
	}
	r.close()
	r.o.ReadOnly = false
	r.open(Recovery{Clean: true, FlushedTo: all[4].End()})
	if r.tail.End != all[4].End() || r.tail.DroppedBytes != 0 || len(r.quarantine()) != 0 || r.tail.Reason != nil {
		t.Errorf("%+v, quarantine %v", r.tail, r.quarantine())
	}
	r.appendN(100, 500) // over the places of those files
	r.flush()
	r.kill()
	r.open(Recovery{FlushedTo: -1})
	if r.tail.Records != 105 {
		t.Errorf("%+v, want 105 records", r.tail)
	}
}

func TestLogThatEndsAtASegmentsEnd(t *testing.T) {
	r := newRig(t)
	r.open(Recovery{})
	r.appendN(40, 400)
	r.close()
	for start := int64(testSegment); start < 3*testSegment; start += testSegment {
		_ = r.fs.Remove(filepath.Join(testDir, segmentName(start)))
	}
	for range 2 {
		r.open(Recovery{FlushedTo: -1})
		if r.tail.End != testSegment {
			t.Fatalf("%+v", r.tail)
		}
		r.close()
	}
	r.open(Recovery{Clean: true, FlushedTo: testSegment, From: testSegment})
	if res := r.append(10); res.PhyOffset != testSegment {
		t.Errorf("appended at %d", res.PhyOffset)
	}
}

// The original cuts by moving its write position: whole records of before stay behind, older than what was written since.
func TestLeftoversOfAnOldTruncationAreNoDamage(t *testing.T) {
	r := newRig(t)
	r.open(Recovery{})
	all := r.appendN(20, 400)
	r.close()
	_, stale := r.file(0)
	if err := r.fs.Remove(filepath.Join(testDir, segmentName(0))); err != nil {
		t.Fatal(err)
	}
	r.open(Recovery{})
	r.appendN(5, 400)
	last := r.append(333) // written later, of another size: behind it the old records do not line up
	r.close()
	r.edit(last.End(), func(b []byte) { copy(b, stale[last.End():]) })
	r.open(Recovery{Clean: true, FlushedTo: -1})
	if r.tail.End != last.End() || r.tail.DroppedRecords != 14 {
		t.Errorf("%+v, want end %d; old records up to %d", r.tail, last.End(), all[19].End())
	}
}

func TestErrorOfEachEndsOpen(t *testing.T) {
	r := newRig(t)
	r.open(Recovery{})
	r.appendN(3, 10)
	r.close()
	stop := errors.New("stop")
	if err := r.tryOpen(Recovery{Each: func(*record.Meta) error { return stop }}); !errors.Is(err, stop) {
		t.Errorf("open: %v", err)
	}
}

func TestSegmentSizeComesFromTheFiles(t *testing.T) {
	r := newRig(t)
	r.open(Recovery{})
	r.appendN(60, 500)
	r.close()
	r.o.SegmentSize = 0
	if l := r.open(Recovery{}); l.SegmentSize() != testSegment || r.tail.Records != 60 {
		t.Errorf("segment size %d, %+v", l.SegmentSize(), r.tail)
	}
	r.close()
	r.o.SegmentSize = 2 * testSegment
	var size *SegmentSizeError
	if err := r.tryOpen(Recovery{}); !errors.As(err, &size) || size.Want != 2*testSegment || size.Have != testSegment {
		t.Errorf("open with another size: %v", err)
	}
	for _, bad := range []int64{-1, 1, math.MaxInt32 + 1} {
		r.o.SegmentSize = bad
		if err := r.tryOpen(Recovery{}); err == nil {
			t.Errorf("opened with segment size %d", bad)
		}
	}
	r.o.SegmentSize = 0
	r.fs.Plant(filepath.Join(testDir, segmentName(9*testSegment)), []byte("not zeros"))
	var file *mappedfile.FileError
	if err := r.tryOpen(Recovery{}); !errors.As(err, &file) {
		t.Errorf("a short file with something in it: %v", err)
	}
}

// A killed process's records are in the page cache: recovery makes durable what it accepts.
func TestWhatRecoveryAcceptsSurvivesThePower(t *testing.T) {
	r := newRig(t)
	r.open(Recovery{})
	all := r.appendN(60, 400)
	r.kill()
	r.open(Recovery{FlushedTo: 0})
	if got := r.log.FlushedPhyOffset(); got != all[59].End() {
		t.Fatalf("flushed %d, want %d", got, all[59].End())
	}
	r.fs = r.fs.Crash(newRand(1))
	_ = r.log.Close()
	r.open(Recovery{FlushedTo: all[59].End()})
	if r.tail.Records != 60 {
		t.Errorf("%+v", r.tail)
	}
}
