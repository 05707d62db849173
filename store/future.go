package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mqstore/mqstore/commitlog"
)

// maxFutures bounds the puts that wait for a flush at a time.
const maxFutures = 1 << 16

// futures completes asynchronous puts of a SyncFlush store in log order.
type futures struct {
	s    *DefaultMessageStore
	room chan struct{} // one token for each future under way
	wake chan struct{}

	mu struct {
		sync.Mutex
		queue []pending // by end
	}
}

type pending struct {
	f        *Future
	end      int64
	deadline time.Time
}

func (q *futures) init(s *DefaultMessageStore) {
	q.s = s
	q.wake = make(chan struct{}, 1)
	if !s.o.NoBackground { // without a goroutine, to wait for room would be for ever
		q.room = make(chan struct{}, maxFutures)
	}
}

// add makes the future of a put whose record is in the log.
func (q *futures) add(r PutResult, deadline time.Time) *Future {
	if q.room != nil {
		q.room <- struct{}{}
	}
	p := pending{f: &Future{done: make(chan struct{}), res: r}, end: r.PhyOffset + int64(r.Size), deadline: deadline}
	q.mu.Lock()
	// Producers come here in another order than they appended: keep the queue sorted, from the back, where it nearly is.
	q.mu.queue = append(q.mu.queue, p)
	for i := len(q.mu.queue) - 1; i > 0 && q.mu.queue[i-1].end > p.end; i-- {
		q.mu.queue[i], q.mu.queue[i-1] = q.mu.queue[i-1], p
	}
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return p.f
}

// run completes futures until ctx is done.
func (q *futures) run(ctx context.Context) {
	for {
		p, ok := q.first()
		if !ok {
			select {
			case <-ctx.Done():
				return
			case <-q.wake:
			}
			continue
		}
		timed, cancel := context.WithDeadline(ctx, time.Now().Add(p.deadline.Sub(q.s.o.Now())))
		err := q.s.log.WaitFlushed(timed, p.end)
		cancel()
		if ctx.Err() != nil {
			return // Close completes the rest
		}
		if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, commitlog.ErrClosed) {
			q.s.flushFailed(err)
		}
		q.step(q.s.o.Now())
	}
}

func (q *futures) first() (pending, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.mu.queue) == 0 {
		return pending{}, false
	}
	return q.mu.queue[0], true
}

// step completes what is flushed, what a failed flush has lost, and what is late.
func (q *futures) step(now time.Time) {
	flushed, err := q.s.log.FlushedPhyOffset(), q.s.log.Err()
	for {
		q.mu.Lock()
		var p pending
		take := false
		if len(q.mu.queue) > 0 {
			p = q.mu.queue[0]
			if take = p.end <= flushed || err != nil || !now.Before(p.deadline); take {
				q.mu.queue[0] = pending{}
				q.mu.queue = q.mu.queue[1:]
			}
		}
		q.mu.Unlock()
		if !take {
			return
		}
		switch {
		case p.end <= flushed:
		case err != nil:
			p.f.err = q.s.putFlushFailed(&p.f.res, err)
		default:
			p.f.res.late()
		}
		close(p.f.done)
		if q.room != nil {
			<-q.room
		}
	}
}

// finish completes all, when the last flush is over.
func (q *futures) finish() {
	q.step(q.s.o.Now())
	q.mu.Lock()
	rest := q.mu.queue
	q.mu.queue = nil
	q.mu.Unlock()
	for _, p := range rest {
		p.f.res.late()
		p.f.err = fmt.Errorf("%w before the message at %d was flushed", ErrClosed, p.f.res.PhyOffset)
		close(p.f.done)
		if q.room != nil {
			<-q.room
		}
	}
}
