package conformance

import (
	"sync"
	"time"
)

// Clock is the time of a store whose maker can set it. It stands still until a law moves it.
type Clock struct {
	mu struct {
		sync.Mutex
		now time.Time
	}
}

func newClock() *Clock {
	c := &Clock{}
	c.mu.now = time.UnixMilli(1_700_000_000_000)
	return c
}

// Now is the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.now
}

// Advance moves the clock by d, which may be negative.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.now = c.mu.now.Add(d)
}
