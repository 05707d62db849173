package commitlog

import (
	"math"
	"sync"
	"sync/atomic"
)

// notifier closes channels when a value that only its owner advances passes what they wait for. Advancing costs one load while nobody waits.
type notifier struct {
	value func() int64
	next  atomic.Int64 // the lowest value waited for; MaxInt64 = nobody waits
	mu    struct {
		sync.Mutex
		waits []pastWait
	}
}

type pastWait struct {
	past int64
	ch   chan struct{}
}

var closedChan = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func (n *notifier) init(value func() int64) {
	n.value = value
	n.next.Store(math.MaxInt64)
}

// past returns a channel that is closed once value() > past. Those who wait for the same value share one.
func (n *notifier) past(past int64) <-chan struct{} {
	if n.value() > past {
		return closedChan
	}
	ch := n.register(past)
	// The value may have advanced before it could see us: both sides store first and then look, so one of the two sees the other.
	n.advanced(n.value())
	return ch
}

func (n *notifier) register(past int64) chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range n.mu.waits {
		if w.past == past {
			return w.ch
		}
	}
	ch := make(chan struct{})
	n.mu.waits = append(n.mu.waits, pastWait{past, ch})
	n.next.Store(min(n.next.Load(), past))
	return ch
}

// advanced is called after the value became v.
func (n *notifier) advanced(v int64) {
	if v <= n.next.Load() {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	keep, next := n.mu.waits[:0], int64(math.MaxInt64)
	for _, w := range n.mu.waits {
		if v > w.past {
			close(w.ch)
			continue
		}
		keep, next = append(keep, w), min(next, w.past)
	}
	clear(n.mu.waits[len(keep):])
	n.mu.waits = keep
	n.next.Store(next)
}

// waited reports whether somebody waits for less than v.
func (n *notifier) waited(v int64) bool { return v > n.next.Load() }
