package commitlog

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
)

func isSegmentSync(op faultfs.Op) bool {
	return op.Kind == faultfs.OpSync && strings.HasPrefix(op.Path, testDir)
}

// nats-io/nats-server#7564: how far the log is durable is visible, and can be waited for.
func TestAsyncAppendIsVisiblyNotDurableUntilFlushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.o.NoBackground, r.o.Now = false, nil
		r.o.FlushEvery = time.Minute
		l := r.open(Recovery{})
		res := r.append(100)
		if f := l.FlushedPhyOffset(); f >= res.End() {
			t.Errorf("flushed %d at once", f)
		}
		start := time.Now()
		if err := l.WaitFlushed(t.Context(), res.End()); err != nil {
			t.Fatal(err)
		}
		if f := l.FlushedPhyOffset(); f < res.End() {
			t.Errorf("waited, flushed %d, want %d", f, res.End())
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("whoever waits should not have to wait for the interval, waited %v", d)
		}
		res = r.append(100)
		<-l.FlushedPast(res.End() - 1)
		if d := time.Since(start); d != time.Minute {
			t.Errorf("flushed after %v, want the interval", d)
		}
		r.close()
	})
}

func TestSyncFlushServesWhoWatchesWithoutTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.o.NoBackground, r.o.Now = false, nil
		r.o.FlushMode, r.o.FlushEvery = SyncFlush, time.Hour
		l := r.open(Recovery{})
		start := time.Now()
		ch := l.FlushedPast(0)
		r.append(100)
		<-ch
		if d := time.Since(start); d != 0 {
			t.Errorf("waited %v", d)
		}
		r.close()
	})
}

// apache/rocketmq#1102: n waiting requests cost one or two syncs.
func TestOneSyncServesAllWhoWait(t *testing.T) {
	r := newRig(t)
	r.o.NoBackground, r.o.Now = false, nil
	r.o.FlushMode, r.o.FlushEvery = SyncFlush, time.Hour
	l := r.open(Recovery{})
	r.append(100)
	r.flush()
	var syncs atomic.Int64
	first, held := make(chan struct{}), make(chan struct{})
	r.fs.SetHook(func(op faultfs.Op) error {
		if isSegmentSync(op) && syncs.Add(1) == 1 {
			close(first)
			<-held
		}
		return nil
	})
	const n = 64
	var wg sync.WaitGroup
	wait := func(end int64) {
		wg.Go(func() {
			if err := l.WaitFlushed(t.Context(), end); err != nil {
				t.Error(err)
			}
		})
	}
	wait(r.append(100).End())
	<-first
	for range n - 1 {
		wait(r.append(100).End())
	}
	close(held)
	wg.Wait()
	if got := syncs.Load(); got > 2 {
		t.Errorf("%d requests cost %d syncs, want at most 2", n, got)
	}
	r.fs.SetHook(nil)
	// What is flushed already costs none.
	before := r.fs.Ops()
	if err := l.WaitFlushed(t.Context(), l.MaxPhyOffset()); err != nil {
		t.Fatal(err)
	}
	if got := r.fs.Ops(); got != before {
		t.Errorf("waiting for what is flushed cost %d operations", got-before)
	}
}

// apache/rocketmq#2706, #5235, #7016, #9713; defect 19: a flush that failed is never reported as success, then or later.
func TestOneFailedFlushIsFinal(t *testing.T) {
	r := newRig(t)
	l := r.open(Recovery{})
	durable := r.append(100)
	r.flush()
	lost := r.append(100)
	waiting := make(chan error)
	go func() { waiting <- l.WaitFlushed(context.Background(), lost.End()) }()
	r.fs.FailOnce(r.fs.Ops()+1, syscall.EIO)
	if _, err := l.FlushStep(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("flush: %v, want EIO", err)
	}
	if err := <-waiting; !errors.Is(err, syscall.EIO) {
		t.Errorf("waiter got %v, want EIO", err)
	}
	for i := range 3 {
		if _, err := l.FlushStep(); !errors.Is(err, syscall.EIO) {
			t.Errorf("flush %d after the failed one: %v", i, err)
		}
		if _, err := l.Append(r.message(10), &r.count); !errors.Is(err, syscall.EIO) || !errors.Is(err, ErrReadOnly) {
			t.Errorf("append %d: %v, want ErrReadOnly for EIO", i, err)
		}
		if err := l.WaitFlushed(t.Context(), lost.End()); !errors.Is(err, syscall.EIO) {
			t.Errorf("wait %d: %v", i, err)
		}
	}
	if err := l.WaitFlushed(t.Context(), durable.End()); err != nil {
		t.Errorf("what was durable before: %v", err)
	}
	if !errors.Is(l.Err(), syscall.EIO) {
		t.Errorf("Err: %v", l.Err())
	}
	if got := len(offsets(t, l)); got != 2 {
		t.Errorf("%d records readable, want 2", got)
	}
	if err := l.Close(); !errors.Is(err, syscall.EIO) {
		t.Errorf("close: %v, want EIO", err)
	}
	flushed := durable.End()
	r.kill()
	r.open(Recovery{FlushedTo: flushed})
	if r.tail.End < flushed {
		t.Errorf("reopened to %d, %d was durable", r.tail.End, flushed)
	}
	if r.log.Err() != nil {
		t.Errorf("reopened with %v", r.log.Err())
	}
	r.append(10)
	r.flush()
}

// apache/rocketmq#574: a put that races with Close is refused or kept.
func TestWhatIsAcknowledgedDuringCloseIsThereAfterReopen(t *testing.T) {
	for _, mode := range []FlushMode{AsyncFlush, SyncFlush} {
		r := newRig(t)
		r.o.NoBackground, r.o.Now, r.o.FlushMode = false, nil, mode
		l := r.open(Recovery{})
		var acked sync.Map
		var wg sync.WaitGroup
		var started atomic.Int64
		enough := make(chan struct{})
		for p := range 64 {
			wg.Go(func() {
				c := new(Counter)
				for {
					m := benchMessage(100)
					m.QueueID = int32(p)
					res, err := l.Append(m, c)
					if err == nil {
						if started.Add(1) == 500 {
							close(enough)
						}
						err = l.WaitFlushed(context.Background(), res.End())
					}
					if err != nil {
						if !errors.Is(err, ErrClosed) {
							t.Error(err)
						}
						return
					}
					acked.Store(res.PhyOffset, fmt.Sprint(p, "/", res.QueueOffset))
				}
			})
		}
		<-enough
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		end := l.MaxPhyOffset()
		wg.Wait()
		r.fs = r.fs.Crash(newRand(1))
		l = r.open(Recovery{Clean: true, FlushedTo: end})
		if r.tail.End != end || r.tail.DroppedBytes != 0 {
			t.Errorf("closed at %d, reopened to %+v", end, r.tail)
		}
		n := 0
		acked.Range(func(off, id any) bool {
			n++
			m, v, err := l.Message(off.(int64))
			if err != nil {
				t.Errorf("acknowledged record at %d: %v", off, err)
				return true
			}
			if got := fmt.Sprint(m.QueueID, "/", m.QueueOffset); got != id {
				t.Errorf("record at %d is %s, want %s", off, got, id)
			}
			v.Release()
			return true
		})
		t.Logf("%d acknowledged", n)
		r.close()
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	r := newRig(t)
	l := r.open(Recovery{})
	res := r.append(10)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("client gone")
	cancel(gone)
	if err := l.WaitFlushed(ctx, res.End()); !errors.Is(err, gone) {
		t.Errorf("wait: %v", err)
	}
	if n := len(l.flush.waits.list); n != 0 {
		t.Errorf("%d waiters are left", n)
	}
	r.flush()
	if err := l.WaitFlushed(ctx, res.End()); err != nil {
		t.Errorf("what is flushed needs no waiting: %v", err)
	}
}

func TestGrownClosesExactlyWhenPassed(t *testing.T) {
	r := newRig(t)
	l := r.open(Recovery{})
	open := func(ch <-chan struct{}) bool {
		select {
		case <-ch:
			return false
		default:
			return true
		}
	}
	here, far := l.Grown(0), l.Grown(1000)
	if !open(here) || !open(far) {
		t.Fatal("closed before anything was appended")
	}
	res := r.append(100)
	if open(here) || !open(far) {
		t.Errorf("log ends at %d: Grown(0) open %v, Grown(1000) open %v", res.End(), open(here), open(far))
	}
	if open(l.Grown(res.End()-1)) || !open(l.Grown(res.End())) {
		t.Errorf("Grown at the end %d", res.End())
	}
	fl := l.FlushedPast(0)
	r.append(1000)
	if open(far) || !open(fl) {
		t.Errorf("Grown(1000) open %v, FlushedPast(0) open %v", open(far), open(fl))
	}
	r.flush()
	if open(fl) {
		t.Error("FlushedPast(0) still open after the flush")
	}
}

// The checkpoint's physical time must not cover a record that is not durable, also when many share one millisecond.
func TestLastStoreTimestampCoversOnlyDurableRecords(t *testing.T) {
	r := newRig(t)
	r.clock.step = 0
	l := r.open(Recovery{})
	if got := l.LastStoreTimestamp(); got != 0 {
		t.Errorf("empty log: %d", got)
	}
	first := r.append(10)
	r.flush()
	if got := l.LastStoreTimestamp(); got >= first.StoreTimestamp {
		t.Errorf("%d, but a record of %d can follow", got, first.StoreTimestamp)
	}
	r.clock.now = r.clock.now.Add(time.Second)
	if got := l.LastStoreTimestamp(); got != first.StoreTimestamp {
		t.Errorf("%d, want %d", got, first.StoreTimestamp)
	}
	second := r.append(10)
	if got := l.LastStoreTimestamp(); got >= second.StoreTimestamp {
		t.Errorf("%d, but the record of %d is not flushed", got, second.StoreTimestamp)
	}
}

func TestCloseWakesWhoWaitsForWhatNeverComes(t *testing.T) {
	r := newRig(t)
	l := r.open(Recovery{})
	done := make(chan error)
	go func() { done <- l.WaitFlushed(context.Background(), 1<<40) }()
	r.close()
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Errorf("wait: %v", err)
	}
}

func TestSegmentPathIsTheOffset(t *testing.T) {
	r := newRig(t)
	l := r.open(Recovery{})
	r.append(10)
	if got, want := l.pathOf(5), filepath.Join(testDir, "00000000000000000000"); got != want || l.Segments()[0].Path != want {
		t.Errorf("%s, %s, want %s", got, l.Segments()[0].Path, want)
	}
}
