package repair

import (
	"context"
	"math"
	"slices"
	"sync/atomic"
)

// earlyCount is the sums of an index, made while the log is read. They hold if all entries lie between the log's first record and its end, which nobody knows before.
type earlyCount struct {
	cancel  context.CancelFunc
	done    chan struct{} // nil: nobody counts
	last    atomic.Bool   // there is nothing left to do but to wait for it
	n       int64
	lowest  int64
	highest int64
	err     error
}

// countEarly begins to count, if there is a processor for it.
func (c *check) countEarly() {
	if c.parallel() < 2 || len(c.segments) == 0 {
		return
	}
	for _, x := range c.indexes {
		ctx, cancel := context.WithCancel(c.ctx)
		e := &x.early
		e.cancel, e.done = cancel, make(chan struct{})
		e.lowest, e.highest = math.MaxInt64, -1
		go func() {
			defer close(e.done)
			e.err = x.countTo(ctx, e)
		}()
	}
}

func (x *indexCheck) countTo(ctx context.Context, e *earlyCount) error {
	start := x.segments[0].Start
	told := int64(0)
	return x.source.unordered(func(entries []indexEntry) error {
		if e.n += int64(len(entries)); e.n-told >= 1<<16 {
			told = e.n
			if e.last.Load() {
				x.progress("index", e.n, max(e.n, x.keys))
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		for _, i := range entries {
			if i.phyOffset < start { // expired
				continue
			}
			e.lowest, e.highest = min(e.lowest, i.phyOffset), max(e.highest, i.phyOffset)
			if r := x.region(i.phyOffset); r >= 0 {
				x.have[r] += i.sum()
			}
		}
		return nil
	})
}

// stop ends the counting.
func (e *earlyCount) stop() {
	if e.done != nil {
		e.cancel()
		<-e.done
		e.done = nil
	}
}

// counted waits for what was counted early, and reports whether it holds. It can be asked once.
func (x *indexCheck) counted() bool {
	e := &x.early
	if e.done == nil {
		return false
	}
	e.last.Store(true)
	<-e.done
	e.cancel()
	e.done = nil
	if e.err != nil || e.highest >= 0 && (e.lowest < x.minPhy || e.highest >= x.end) || !slices.Equal(x.want, x.have) {
		return false
	}
	x.sum.Keys += e.n
	return true
}
