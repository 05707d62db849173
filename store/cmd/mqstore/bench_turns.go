package main

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// turn is what one part of a measurement did in one round.
type turn struct {
	n     int64 // operations, messages or bytes, as the part counts
	bytes int64 // moved by them
	took  time.Duration
}

// perSecond is its rate.
func (t turn) perSecond() float64 { return float64(t.n) / max(t.took, 1).Seconds() }

// worker is work, or a limit of the machine that the work cannot pass.
type worker func(d time.Duration) (turn, error)

// measured is what a part did in all rounds.
type measured []turn

// median is the middle of v, which must not be empty; of two in the middle it is the lower one.
func median[T cmp.Ordered](v []T) T {
	v = slices.Clone(v)
	slices.Sort(v)
	return v[(len(v)-1)/2]
}

func (m measured) rates() []float64 {
	v := make([]float64, len(m))
	for i, t := range m {
		v[i] = t.perSecond()
	}
	return v
}

func (m measured) rate() float64 { return median(m.rates()) }

// sum is everything that was done, in the time that it took.
func (m measured) sum() (s turn) {
	for _, t := range m {
		s.n, s.bytes, s.took = s.n+t.n, s.bytes+t.bytes, s.took+t.took
	}
	return s
}

// turns lets the parts work one after the other, again and again: what the machine does beside them meets them all alike.
// Every other round is the other way round, so that none always comes first. All of it takes about d.
func (b *bench) turns(d time.Duration, rounds int, parts ...worker) ([]measured, error) {
	all := make([]measured, len(parts))
	each := d / time.Duration(rounds*len(parts))
	for round := range rounds {
		for i := range parts {
			if round%2 == 1 {
				i = len(parts) - 1 - i
			}
			t, err := parts[i](each)
			if err == nil {
				err = b.e.ctx.Err()
			}
			if err != nil {
				return nil, err
			}
			all[i] = append(all[i], t)
			b.bar.add(each)
		}
	}
	return all, nil
}

// together lets n goroutines work for d: each calls step once at least, and again until the time is over, the run is interrupted, or step says that there is no more to do. step returns what it counted.
func (b *bench) together(n int, d time.Duration, step func(id int) (counted int64, more bool, err error)) (turn, error) {
	var (
		over  atomic.Bool
		total atomic.Int64
		group sync.WaitGroup
		first struct {
			sync.Once
			error
		}
	)
	stop := func() { over.Store(true) }
	timer := time.AfterFunc(d, stop)
	defer timer.Stop()
	defer context.AfterFunc(b.e.ctx, stop)()
	begin := time.Now()
	for id := range n {
		group.Go(func() {
			sum := int64(0)
			defer func() { total.Add(sum) }()
			for more := true; more; more = more && !over.Load() {
				var (
					k   int64
					err error
				)
				if k, more, err = step(id); err != nil {
					first.Do(func() { first.error = err })
					stop()
					return
				}
				sum += k
			}
		})
	}
	group.Wait()
	return turn{n: total.Load(), took: time.Since(begin)}, first.error
}
