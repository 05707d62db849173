package commitlog

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/commitlog/record"
)

func TestAppendedRecordsReadBackInOrder(t *testing.T) {
	r := newRig(t)
	l := r.open(Recovery{})
	if min, max := l.MinPhyOffset(), l.MaxPhyOffset(); min != -1 || max != 0 {
		t.Fatalf("empty log: [%d, %d), want [-1, 0)", min, max)
	}
	results := r.appendN(200, 300)
	all := offsets(t, l)
	if len(all) != len(results) {
		t.Fatalf("%d records, want %d", len(all), len(results))
	}
	for i, res := range results {
		if all[i] != res.PhyOffset || res.QueueOffset != int64(i) {
			t.Fatalf("record %d: at %d with queue offset %d, appended at %d", i, all[i], res.QueueOffset, res.PhyOffset)
		}
		m, v, err := l.Message(res.PhyOffset)
		if err != nil {
			t.Fatal(err)
		}
		if m.Size != res.Size || m.QueueOffset != res.QueueOffset || m.StoreTimestamp != res.StoreTimestamp || !bytes.Equal(m.Body, testBody(i+1, 300)) {
			t.Errorf("record %d reads back as %+v, appended as %+v", i, m, res)
		}
		v.Release()
		if st, err := l.StoreTime(res.PhyOffset, res.Size); err != nil || st != res.StoreTimestamp {
			t.Errorf("store time of record %d: %d, %v, want %d", i, st, err, res.StoreTimestamp)
		}
	}
	if n := len(l.Segments()); n != 5 {
		t.Errorf("%d segments, want 5", n)
	}
}

// A segment always ends with a blank of at least 8 bytes, whatever the sizes.
func TestSegmentEndsInABlank(t *testing.T) {
	for slack := range 20 {
		r := newRig(t)
		l := r.open(Recovery{})
		first := r.append(8000)
		rest := testSegment - first.Size
		overhead := first.Size - 8000
		res := r.append(rest - overhead - slack)
		fits := slack >= record.BlankHeaderSize
		if got := res.PhyOffset < testSegment; got != fits {
			t.Errorf("a record that leaves %d bytes lies at %d", slack, res.PhyOffset)
		}
		next := r.append(8000)
		blank := int64(first.Size)
		if fits {
			blank = res.End()
		}
		v, err := l.View(blank, record.BlankHeaderSize)
		if err != nil {
			t.Fatal(err)
		}
		if size, magic := peekSize(v.Bytes); magic != record.MagicBlank || int64(size) != testSegment-blank {
			t.Errorf("slack %d: at %d lies a header of %d bytes, magic %x", slack, blank, size, magic)
		}
		v.Release()
		if fits && next.PhyOffset != testSegment {
			t.Errorf("next record at %d", next.PhyOffset)
		}
		r.close()
	}
}

// Defect 1 of the original: a message bigger than a segment is answered PUT_OK, lost, and blanks two files.
func TestRecordBiggerThanASegmentIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	r := newRig(t)
	l := r.open(Recovery{})
	first := r.append(100)
	before := r.snapshot()
	overhead := first.Size - 100
	for _, size := range []int{testSegment - overhead - record.BlankHeaderSize + 1, testSegment, 3 * testSegment} {
		if _, err := l.Append(r.message(size), &r.count); !errors.Is(err, ErrTooBig) {
			t.Errorf("body of %d bytes: %v, want ErrTooBig", size, err)
		}
	}
	batch := []record.Message{*r.message(testSegment / 2), *r.message(testSegment / 2)}
	if _, err := l.AppendBatch(batch, &r.count); !errors.Is(err, ErrTooBig) {
		t.Errorf("batch: %v, want ErrTooBig", err)
	}
	if l.MaxPhyOffset() != first.End() || r.count.Next() != 1 {
		t.Errorf("the refusals moved the log's end to %d and the queue to %d", l.MaxPhyOffset(), r.count.Next())
	}
	for p, b := range r.snapshot() {
		if before[p] != b {
			t.Errorf("%s changed", p)
		}
	}
	if res := r.append(testSegment - overhead - record.BlankHeaderSize); res.PhyOffset != testSegment {
		t.Errorf("the biggest record lies at %d, want %d", res.PhyOffset, testSegment)
	}
}

// Defect 14: a topic that overflows its length byte corrupts the record.
func TestTopicThatOverflowsItsLengthIsRefused(t *testing.T) {
	r := newRig(t)
	l := r.open(Recovery{})
	m := r.message(10)
	m.Topic = strings.Repeat("主", 64) // 64 characters, 192 bytes
	if _, err := l.Append(m, &r.count); !errors.Is(err, record.ErrTopicTooLong) {
		t.Errorf("append: %v, want ErrTopicTooLong", err)
	}
	if l.MaxPhyOffset() != 0 || r.count.Next() != 0 {
		t.Errorf("the refusal moved the log to %d, the queue to %d", l.MaxPhyOffset(), r.count.Next())
	}
}

// Defect 18, golang/go#36109: a full disk is an error of the append that needs a new segment, and uses nothing up.
func TestFullDiskRefusesAndUsesNothingUp(t *testing.T) {
	r := newRig(t)
	r.fs.SetLimit(testSegment + 4096)
	l := r.open(Recovery{})
	for {
		before, queue := l.MaxPhyOffset(), r.count.Next()
		_, err := l.Append(r.message(1000), &r.count)
		if err == nil {
			continue
		}
		if !errors.Is(err, mappedfile.ErrDiskFull) {
			t.Fatalf("append: %v, want ErrDiskFull", err)
		}
		if l.MaxPhyOffset() != before || r.count.Next() != queue {
			t.Fatalf("the refusal moved the log from %d to %d, the queue from %d to %d", before, l.MaxPhyOffset(), queue, r.count.Next())
		}
		break
	}
	n := len(offsets(t, l))
	small := r.append(10) // goes where the blank would have been
	if small.PhyOffset >= testSegment {
		t.Errorf("a record that fits lies at %d", small.PhyOffset)
	}
	r.flush()
	r.fs.SetLimit(0)
	if res := r.append(1000); res.PhyOffset != testSegment || res.QueueOffset != int64(n+1) {
		t.Errorf("once there is room: %+v", res)
	}
	if got := len(offsets(t, l)); got != n+2 {
		t.Errorf("%d records, want %d", got, n+2)
	}
}

func TestBatchIsOneStretchWithOneStoreTimeOrNothing(t *testing.T) {
	r := newRig(t)
	l := r.open(Recovery{})
	r.append(9000)
	batch := make([]record.Message, 8)
	for i := range batch {
		batch[i] = *r.message(900)
	}
	res, err := l.AppendBatch(batch, &r.count)
	if err != nil {
		t.Fatal(err)
	}
	if res.PhyOffset != testSegment || res.Messages != 8 || res.QueueOffset != 1 || r.count.Next() != 9 {
		t.Errorf("%+v, next queue offset %d: a batch that does not fit goes to the next segment as a whole", res, r.count.Next())
	}
	for i, off := range offsets(t, l)[1:] {
		m, v, err := l.Message(off)
		if err != nil {
			t.Fatal(err)
		}
		if m.StoreTimestamp != res.StoreTimestamp || m.QueueOffset != int64(1+i) || batch[i].PhyOffset != off {
			t.Errorf("item %d at %d: %+v", i, off, m)
		}
		v.Release()
	}
	bad := []record.Message{*r.message(10), *r.message(10)}
	bad[1].Topic = ""
	if _, err := l.AppendBatch(bad, &r.count); !errors.Is(err, record.ErrTopicEmpty) {
		t.Errorf("batch with a bad item: %v", err)
	}
	if _, err := l.AppendBatch(nil, &r.count); !errors.Is(err, record.ErrBatch) {
		t.Errorf("empty batch: %v", err)
	}
	if l.MaxPhyOffset() != res.End() || r.count.Next() != 9 {
		t.Errorf("refusals moved the log to %d, the queue to %d", l.MaxPhyOffset(), r.count.Next())
	}
}

func TestOnlyNoneAndCommitAreCounted(t *testing.T) {
	r := newRig(t)
	l := r.open(Recovery{})
	r.count.Set(7)
	for _, c := range []struct {
		tx            record.Transaction
		stored, after int64
	}{{record.TransactionNone, 7, 8}, {record.TransactionPrepared, 0, 8}, {record.TransactionRollback, 0, 8}, {record.TransactionCommit, 8, 9}} {
		m := r.message(10)
		m.SysFlag |= record.SysFlag(c.tx)
		res, err := l.Append(m, &r.count)
		if err != nil {
			t.Fatal(err)
		}
		v, err := l.View(res.PhyOffset, res.Size)
		if err != nil {
			t.Fatal(err)
		}
		if got := storedQueueOffset(v.Bytes); got != c.stored || r.count.Next() != c.after {
			t.Errorf("transaction %x: stored %d, next %d, want %d, %d", c.tx, got, r.count.Next(), c.stored, c.after)
		}
		v.Release()
	}
}

func TestStoreTimeNeverGoesBackwards(t *testing.T) {
	r := newRig(t)
	r.open(Recovery{})
	before := r.append(10).StoreTimestamp
	r.clock.now = r.clock.now.Add(-time.Hour)
	if got := r.append(10).StoreTimestamp; got < before {
		t.Errorf("store time went from %d back to %d with the clock", before, got)
	}
	r.close()
	r.clock.now = r.clock.now.Add(-time.Hour)
	r.open(Recovery{Clean: true, From: math.MaxInt64, FlushedTo: -1})
	if got := r.append(10).StoreTimestamp; got < before {
		t.Errorf("store time went from %d back to %d over a restart", before, got)
	}
}

func TestAppendAndCursorDoNotAllocate(t *testing.T) {
	o := Options{Dir: t.TempDir() + "/commitlog", SegmentSize: 64 << 20, NoBackground: true}
	l, _, err := Open(o, Recovery{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	m, c := benchMessage(1024), new(Counter)
	if _, err := l.Append(m, c); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(1000, func() { _, err = l.Append(m, c) }); n != 0 || err != nil {
		t.Errorf("append: %v allocations, %v", n, err)
	}
	batch := []record.Message{*m, *m, *m}
	if n := testing.AllocsPerRun(1000, func() { _, err = l.AppendBatch(batch, c) }); n != 0 || err != nil {
		t.Errorf("batch: %v allocations, %v", n, err)
	}
	cur := l.NewCursor(0)
	defer cur.Close()
	var meta record.Meta
	end := l.MaxPhyOffset()
	if n := testing.AllocsPerRun(1000, func() { err = cur.Next(&meta, end) }); n != 0 || err != nil {
		t.Errorf("cursor: %v allocations, %v", n, err)
	}
	if _, err := l.FlushStep(); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if n := testing.AllocsPerRun(1000, func() { err = l.WaitFlushed(ctx, end) }); n != 0 || err != nil {
		t.Errorf("wait: %v allocations, %v", n, err)
	}
}

// apache/rocketmq#2709: how long the append lock is held can be seen while it is.
func TestLockedForShowsAStuckAppend(t *testing.T) {
	r := newRig(t)
	var now sync.Mutex
	clock := time.UnixMilli(1_700_000_000_000)
	r.o.Now = func() time.Time { now.Lock(); defer now.Unlock(); return clock }
	l := r.open(Recovery{})
	if d := l.LockedFor(); d != 0 {
		t.Fatalf("free, but locked for %v", d)
	}
	reached, goOn := make(chan struct{}), make(chan struct{})
	r.fs.SetHook(func(op faultfs.Op) error {
		if op.Kind == faultfs.OpMap {
			close(reached)
			<-goOn
		}
		return nil
	})
	done := make(chan error)
	go func() {
		_, err := l.Append(r.message(10), &r.count)
		done <- err
	}()
	<-reached
	now.Lock()
	clock = clock.Add(1083 * time.Millisecond)
	now.Unlock()
	if d := l.LockedFor(); d != 1083*time.Millisecond {
		t.Errorf("locked for %v, want 1.083s", d)
	}
	close(goOn)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if d := l.LockedFor(); d != 0 {
		t.Errorf("free again, but locked for %v", d)
	}
}

func TestReadOnlyAndClosedLogsRefuse(t *testing.T) {
	r := newRig(t)
	l := r.open(Recovery{})
	res := r.append(10)
	v, err := l.View(res.PhyOffset, res.Size)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Release()
	r.close()
	check := func(l *Log, want error) {
		t.Helper()
		_, err := l.Append(r.message(10), &r.count)
		_, berr := l.AppendBatch([]record.Message{*r.message(10)}, &r.count)
		_, eerr := l.Expire(ExpireOptions{Force: true})
		for what, err := range map[string]error{"append": err, "batch": berr, "raw": l.AppendRaw(l.MaxPhyOffset(), []byte("x")), "truncate": l.TruncateTo(0), "expire": eerr} {
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
		}
	}
	check(l, ErrClosed)
	if _, err := l.View(0, 1); !errors.Is(err, ErrClosed) {
		t.Errorf("view of a closed log: %v", err)
	}
	if err := l.Close(); !errors.Is(err, ErrClosed) {
		t.Errorf("second close: %v", err)
	}
	if !bytes.Contains(v.Bytes, []byte("00000001")) {
		t.Errorf("the view that outlives the log holds %q", v.Bytes)
	}
	before := r.snapshot()
	r.o.ReadOnly = true
	l = r.open(Recovery{})
	check(l, ErrReadOnly)
	if got := offsets(t, l); len(got) != 1 {
		t.Errorf("read-only log has records %v", got)
	}
	r.close()
	for p, b := range r.snapshot() {
		if before[p] != b {
			t.Errorf("opening read-only changed %s", p)
		}
	}
}
