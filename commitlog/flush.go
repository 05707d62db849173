package commitlog

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
)

// flusher is the one place from which the log is made durable. Its mutex is the flush lock: one flush at a time.
type flusher struct {
	sync.Mutex
	kick    chan struct{} // somebody waits
	quit    chan struct{}
	done    chan struct{} // closed when the loop has ended; running says whether there is one
	running bool
	crowd   int // how many the last flush served or left waiting

	marks sync.Mutex
	mark  flushMark

	waits struct {
		sync.Mutex
		list []*flushWaiter
		err  error // sticky
	}
	waiters sync.Pool // *flushWaiter
}

// flushMark is the last flush: everything below end is durable, and nothing beyond was stored before storeTime.
type flushMark struct{ end, storeTime int64 }

type flushWaiter struct {
	end int64
	ch  chan error // capacity 1: who wakes never waits
}

func (f *flusher) init() {
	f.kick = make(chan struct{}, 1)
	f.quit = make(chan struct{})
	f.done = make(chan struct{})
	f.waiters.New = func() any { return &flushWaiter{ch: make(chan error, 1)} }
}

func (f *flusher) kickOff() {
	select {
	case f.kick <- struct{}{}:
	default:
	}
}

func (f *flusher) lastMark() flushMark {
	f.marks.Lock()
	defer f.marks.Unlock()
	return f.mark
}

func (f *flusher) setMark(m flushMark) {
	f.marks.Lock()
	defer f.marks.Unlock()
	f.mark = m
}

// stop ends the loop.
func (f *flusher) stop() {
	if f.running {
		close(f.quit)
		<-f.done
	}
}

// fail keeps the first error for ever and wakes all waiters with it.
func (f *flusher) fail(err error) {
	f.waits.Lock()
	if f.waits.err == nil {
		f.waits.err = err
	}
	err = f.waits.err
	woken := f.waits.list
	f.waits.list = nil
	f.waits.Unlock()
	for _, w := range woken {
		w.ch <- err
	}
}

// serve wakes who waits for no more than flushed.
func (f *flusher) serve(flushed int64) {
	f.wake(nil, func(w *flushWaiter) bool { return w.end <= flushed })
}

// truncated follows a truncation to end.
func (f *flusher) truncated(end, storeTime int64) {
	m := f.lastMark()
	f.setMark(flushMark{min(m.end, end), storeTime})
	f.wake(ErrTruncated, func(w *flushWaiter) bool { return w.end > end })
}

func (f *flusher) wake(err error, who func(*flushWaiter) bool) {
	f.waits.Lock()
	defer f.waits.Unlock()
	f.crowd = len(f.waits.list)
	keep := f.waits.list[:0]
	for _, w := range f.waits.list {
		if !who(w) {
			keep = append(keep, w)
			continue
		}
		w.ch <- err // never blocks: one answer per waiter
	}
	clear(f.waits.list[len(keep):])
	f.waits.list = keep
}

// gathered reports whether as many wait as the last flush met.
func (f *flusher) gathered() bool {
	f.waits.Lock()
	defer f.waits.Unlock()
	return len(f.waits.list) >= f.crowd
}

// Err is the error that made the log read-only: that of the first failed flush; nil if none failed. It stays until the log is opened again.
func (l *Log) Err() error {
	l.flush.waits.Lock()
	defer l.flush.waits.Unlock()
	if errors.Is(l.flush.waits.err, ErrClosed) {
		return nil
	}
	return l.flush.waits.err
}

// WaitFlushed returns nil once FlushedPhyOffset >= phyOffset, which it makes the flusher see to. Else it returns the error of the
// flush that failed, ctx's error, ErrTruncated, or ErrClosed. No allocation. With NoBackground the caller's FlushStep is what it waits for.
func (l *Log) WaitFlushed(ctx context.Context, phyOffset int64) error {
	if l.seq.Flushed() >= phyOffset {
		return nil
	}
	f := &l.flush
	w := f.waiters.Get().(*flushWaiter)
	w.end = phyOffset
	f.waits.Lock()
	if err := f.waits.err; err != nil || l.seq.Flushed() >= phyOffset {
		f.waits.Unlock()
		f.waiters.Put(w)
		if l.seq.Flushed() >= phyOffset {
			return nil
		}
		return err
	}
	f.waits.list = append(f.waits.list, w)
	f.waits.Unlock()
	f.kickOff()
	select {
	case err := <-w.ch:
		f.waiters.Put(w)
		return err
	case <-ctx.Done():
	}
	f.waits.Lock()
	i := slices.Index(f.waits.list, w)
	if i >= 0 {
		f.waits.list = slices.Delete(f.waits.list, i, i+1)
	}
	f.waits.Unlock()
	if i < 0 {
		err := <-w.ch // it was served meanwhile
		f.waiters.Put(w)
		return err
	}
	f.waiters.Put(w)
	return context.Cause(ctx)
}

// Flush makes durable what was appended before the call, and returns how far the log is durable now.
func (l *Log) Flush() (flushed int64, err error) { return l.FlushStep() }

// FlushStep is one flush of all that is appended: what the background loop does, for callers who drive it themselves (NoBackground).
func (l *Log) FlushStep() (flushed int64, err error) {
	l.flush.Lock()
	defer l.flush.Unlock()
	if l.closed.Load() {
		return l.seq.Flushed(), ErrClosed
	}
	return l.flushLocked()
}

// flushLocked holds the flush lock.
func (l *Log) flushLocked() (flushed int64, err error) {
	if err := l.Err(); err != nil {
		return l.seq.Flushed(), err
	}
	l.mu.Lock()
	m := flushMark{l.seq.Max(), l.mu.storeTime}
	l.mu.Unlock()
	if m.end == l.seq.Flushed() {
		l.flush.setMark(m)
		l.flush.serve(m.end)
		return m.end, nil
	}
	flushed, err = l.seq.Flush()
	if err != nil {
		return flushed, l.flushFailed(err)
	}
	l.flush.setMark(m)
	l.flushed.advanced(flushed)
	l.flush.serve(flushed)
	return flushed, nil
}

// flushFailed makes the log read-only and wakes everybody with err.
func (l *Log) flushFailed(err error) error {
	err = fmt.Errorf("flush commit log %s: %w", l.o.Dir, err)
	l.mu.Lock()
	l.readOnlyLocked(err)
	l.mu.Unlock()
	l.flush.fail(err)
	return err
}

// failLocked is flushFailed for who appends and came upon err, which is that of a write. It returns what every append gets from now on.
func (l *Log) failLocked(err error) error {
	err = fmt.Errorf("write commit log %s: %w", l.o.Dir, err)
	l.readOnlyLocked(err)
	l.flush.fail(err)
	return l.mu.refuse
}

func (l *Log) readOnlyLocked(err error) {
	if l.mu.refuse == nil {
		l.mu.refuse = fmt.Errorf("%w since a flush failed, open the log again: %w", ErrReadOnly, err)
	}
}

// maxStragglerYields bounds how long the flusher waits, by giving way, for those whom the last flush woke.
const maxStragglerYields = 64

func (l *Log) flushLoop() {
	defer close(l.flush.done)
	tick := time.NewTicker(l.o.FlushEvery)
	defer tick.Stop()
	for {
		select {
		case <-l.flush.quit:
			return
		case <-l.flush.kick:
			l.gather()
		case <-tick.C:
		}
		_, _ = l.FlushStep() // sticky: Err, and whoever waits, has it
	}
}

// gather waits for stragglers: those whom the last flush woke come back with their next records within microseconds, and a sync
// that starts without them makes them wait for two.
func (l *Log) gather() {
	for range maxStragglerYields {
		if l.flush.gathered() {
			return
		}
		runtime.Gosched()
	}
}
