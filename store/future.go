package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mqstore/mqstore/commitlog"
)

// maxFutures bounds the puts that wait at a time.
const maxFutures = 1 << 16

// futures completes asynchronous puts. Those that wait for the disk are in one queue, those that wait for slaves in another, so that neither waits for the other's.
type futures struct {
	s             *DefaultMessageStore
	room          chan struct{} // one token for each future under way
	flush, slaves flights
}

// flight is a put under way. It is complete when nothing is left that it waits for.
type flight struct {
	Future
	end    int64
	left   atomic.Int32 // queues it is in
	late   bool         // set by the flush queue only
	slaves PutStatus    // set by the slaves queue only
}

// flights are puts that wait for one thing, which happens to them in log order.
type flights struct {
	wake chan struct{}
	mu   struct {
		sync.Mutex
		queue []pending // by end
	}
}

type pending struct {
	f        *flight
	deadline time.Time
}

func (q *futures) init(s *DefaultMessageStore) {
	q.s = s
	q.flush.wake, q.slaves.wake = make(chan struct{}, 1), make(chan struct{}, 1)
	if !s.o.NoBackground { // without a goroutine, to wait for room would be for ever
		q.room = make(chan struct{}, maxFutures)
	}
}

// now is the clock of the deadlines. Options.Now decides only where nobody else waits: whatever it jumps by, a put that waits for goroutines waits as long as it was promised.
func (q *futures) now() time.Time {
	if q.s.o.NoBackground {
		return q.s.o.Now()
	}
	return time.Now()
}

// start completes futures in the background until ctx is done.
func (q *futures) start(ctx context.Context) {
	q.s.background.Go(func() { q.run(ctx, &q.flush, q.s.log.WaitFlushed) })
	if m := q.s.replication.master; m != nil {
		q.s.background.Go(func() { q.run(ctx, &q.slaves, m.WaitAcked) })
	}
}

// add makes the future of a put whose record is in the log.
func (q *futures) add(r PutResult, w waiting) *Future {
	if q.room != nil {
		q.room <- struct{}{}
	}
	f := &flight{Future: Future{done: make(chan struct{}), res: r}, end: r.end(), slaves: r.Status}
	now := q.now()
	if w.flush {
		f.left.Add(1)
	}
	if w.slaves {
		f.left.Add(1)
		q.slaves.add(f, now.Add(q.s.o.HA.SlaveTimeout))
	}
	if w.flush {
		q.flush.add(f, now.Add(q.s.o.SyncFlushTimeout))
	}
	return &f.Future
}

func (q *flights) add(f *flight, deadline time.Time) {
	p := pending{f, deadline}
	q.mu.Lock()
	// Producers come here in another order than they appended: keep the queue sorted, from the back, where it nearly is.
	q.mu.queue = append(q.mu.queue, p)
	for i := len(q.mu.queue) - 1; i > 0 && q.mu.queue[i-1].f.end > f.end; i-- {
		q.mu.queue[i], q.mu.queue[i-1] = q.mu.queue[i-1], p
	}
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// run settles the flights of w until ctx is done.
func (q *futures) run(ctx context.Context, w *flights, wait func(ctx context.Context, phyOffset int64) error) {
	for {
		p, ok := w.first()
		if !ok {
			select {
			case <-ctx.Done():
				return
			case <-w.wake:
			}
			continue
		}
		timed, cancel := context.WithDeadline(ctx, p.deadline)
		err := wait(timed, p.f.end)
		cancel()
		if ctx.Err() != nil {
			return // Close completes the rest
		}
		if w == &q.flush && err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, commitlog.ErrClosed) {
			q.s.flushFailed(err)
		}
		q.step(q.now())
	}
}

func (q *flights) first() (pending, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.mu.queue) == 0 {
		return pending{}, false
	}
	return q.mu.queue[0], true
}

// take removes the first flight if it is settled, or all is.
func (q *flights) take(settled func(p pending) bool) (f *flight) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.mu.queue) == 0 || !settled(q.mu.queue[0]) {
		return nil
	}
	f = q.mu.queue[0].f
	q.mu.queue[0] = pending{}
	q.mu.queue = q.mu.queue[1:]
	return f
}

// step settles what is flushed or acknowledged, what a failed flush has lost, and what is late.
func (q *futures) step(now time.Time) {
	flushed, failed := q.s.log.FlushedPhyOffset(), q.s.log.Err()
	for {
		f := q.flush.take(func(p pending) bool { return p.f.end <= flushed || failed != nil || !now.Before(p.deadline) })
		if f == nil {
			break
		}
		switch {
		case f.end <= flushed:
		case failed != nil:
			f.late, f.err = true, q.s.putFlushFailed(&f.res, failed)
		default:
			f.late = true
		}
		q.done(f)
	}
	m := q.s.replication.master
	for {
		f := q.slaves.take(func(p pending) bool { return m.Acked(p.f.end) || !now.Before(p.deadline) })
		if f == nil {
			return
		}
		if !m.Acked(f.end) {
			f.slaves = FlushSlaveTimeout
		}
		q.done(f)
	}
}

// done notes that f left a queue, and completes it if that was the last one.
func (q *futures) done(f *flight) {
	if f.left.Add(-1) > 0 {
		return
	}
	if f.res.Status = f.slaves; f.slaves == FlushSlaveTimeout && q.s.replication.master.Acked(f.end) {
		f.res.Status = PutOK // it came while the disk was waited for
	}
	if f.late {
		f.res.late()
	}
	close(f.done)
	if q.room != nil {
		<-q.room
	}
}

// finish completes all, when the last flush is over and the slaves had their time.
func (q *futures) finish() {
	q.step(q.now())
	always := func(pending) bool { return true }
	for f := q.flush.take(always); f != nil; f = q.flush.take(always) {
		f.late = true
		f.err = fmt.Errorf("%w before the message at %d was flushed", ErrClosed, f.res.PhyOffset)
		q.done(f)
	}
	for f := q.slaves.take(always); f != nil; f = q.slaves.take(always) {
		f.slaves = FlushSlaveTimeout
		q.done(f)
	}
}
