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
		waiters map[queueKey]chan struct{} // closed at the next message of the queue
	}
}

func (a *arrivals) init() {
	a.poked = make(chan struct{}, 1)
	a.closed = make(chan struct{})
	a.mu.waiters = make(map[queueKey]chan struct{})
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
	c := a.mu.waiters[k]
	delete(a.mu.waiters, k)
	a.mu.Unlock()
	if c != nil {
		close(c)
	}
}

func (a *arrivals) wait(k queueKey) <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.mu.waiters[k]
	if c == nil {
		c = make(chan struct{})
		a.mu.waiters[k] = c
	}
	return c
}

// WaitForMessages waits until the queue holds a message at offset or beyond (long polling). It returns nil, ErrClosed, or ctx's error. An unknown queue is waited for like an empty one.
func (s *DefaultMessageStore) WaitForMessages(ctx context.Context, topic string, queueID int32, offset int64) error {
	if s.MaxOffset(topic, queueID) > offset {
		return nil
	}
	s.arrivals.waiting.Add(1)
	defer s.arrivals.waiting.Add(-1)
	for {
		// The channel first, then the offset: a message that comes between the two closes the channel.
		c := s.arrivals.wait(queueKey{topic, queueID})
		if s.MaxOffset(topic, queueID) > offset {
			return nil
		}
		select {
		case <-c:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.arrivals.closed:
			return ErrClosed
		}
	}
}
