package store

import (
	"context"
	"sync"
	"sync/atomic"
)

// arrivals wakes who waits for messages.
type arrivals struct {
	waiting atomic.Int64 // so that dispatch need not lock for nobody
	poked   chan struct{}
	closed  chan struct{}

	mu struct {
		sync.Mutex
		waiters map[queueKey]*waiter
	}
}

func (a *arrivals) init() {
	a.poked = make(chan struct{}, 1)
	a.closed = make(chan struct{})
	a.mu.waiters = make(map[queueKey]*waiter)
}

// waiter is all that wait for the next message of one queue.
type waiter struct {
	n int
	c chan struct{} // closed at that message
}

// poke makes a dispatch that is held up try again now.
func (a *arrivals) poke() {
	select {
	case a.poked <- struct{}{}:
	default:
	}
}

func (a *arrivals) close() { close(a.closed) }

func (a *arrivals) notify(topic string, queueID int32) {
	if a.waiting.Load() == 0 {
		return
	}
	k := queueKey{topic, queueID}
	a.mu.Lock()
	w := a.mu.waiters[k]
	delete(a.mu.waiters, k)
	a.mu.Unlock()
	if w != nil {
		close(w.c)
	}
}

func (a *arrivals) join(k queueKey) *waiter {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.mu.waiters[k]
	if w == nil {
		w = &waiter{c: make(chan struct{})}
		a.mu.waiters[k] = w
	}
	w.n++
	return w
}

// leave forgets w when nobody is left: who polls many queues that never get a message leaves nothing behind.
func (a *arrivals) leave(k queueKey, w *waiter) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w.n--; w.n == 0 && a.mu.waiters[k] == w {
		delete(a.mu.waiters, k)
	}
}

// WaitForMessages waits until the queue holds a message at offset or beyond (long polling). It returns nil, ErrClosed, or ctx's error. An unknown queue is waited for like an empty one.
func (s *DefaultMessageStore) WaitForMessages(ctx context.Context, topic string, queueID int32, offset int64) error {
	if s.MaxOffset(topic, queueID) > offset {
		return nil
	}
	s.arrivals.waiting.Add(1)
	defer s.arrivals.waiting.Add(-1)
	for {
		if done, err := s.waitOnce(ctx, queueKey{topic, queueID}, offset); done {
			return err
		}
	}
}

// waitOnce waits for the next message of the queue; done when that, or what is there already, answers the question.
func (s *DefaultMessageStore) waitOnce(ctx context.Context, k queueKey, offset int64) (done bool, err error) {
	// Join first, then look: a message that comes between the two closes the channel.
	w := s.arrivals.join(k)
	defer s.arrivals.leave(k, w)
	if s.MaxOffset(k.topic, k.queueID) > offset {
		return true, nil
	}
	select {
	case <-w.c:
		return false, nil
	case <-ctx.Done():
		return true, ctx.Err()
	case <-s.arrivals.closed:
		return true, ErrClosed
	}
}
