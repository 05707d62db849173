package index_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/index"
)

// One dispatches, Run writes, others ask, expire and close: answers are whole, in order, and never of expired records.
func TestQueriesBesideDispatchAndExpiry(t *testing.T) {
	g := &generator{size: 1 << 10}
	o := g.options(t.TempDir(), 64<<10)
	o.NoBackground, o.TailEntries, o.FlushEvery = false, 500, 5*time.Millisecond
	x := open(t, o)
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := x.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	total := int64(effort.N(6_000, 200_000))
	var next, first, gone atomic.Int64 // dispatched; about to expire; expired
	for seed := range uint64(3) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 0))
			for ctx.Err() == nil {
				low := gone.Load()
				high := next.Load()
				if high == 0 {
					continue
				}
				i := rng.Int64N(high)
				r, err := x.Query("TopicOfTheBenchmark", name('k', i), math.MinInt64, math.MaxInt64, 0)
				if err != nil {
					t.Error(err)
					return
				}
				may := i < first.Load()
				switch {
				case len(r.Hits) > 1, len(r.Hits) == 1 && (r.Hits[0].PhyOffset != i*g.size || i < low), len(r.Hits) == 0 && !may:
					t.Errorf("record %d of [%d, %d): %v", i, low, high, r.Hits)
					return
				}
				x.Stats()
			}
		})
	}
	for i := range total {
		if err := x.Dispatch(g.at(i)); err != nil {
			t.Fatal(err)
		}
		next.Store(i + 1)
		if i%2000 == 1999 {
			low := i - 1000
			first.Store(low) // a query may find it or not until gone says otherwise
			if _, err := x.Expire(low * g.size); err != nil {
				t.Fatal(err)
			}
			gone.Store(low)
		}
	}
	stop()
	wg.Wait()
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if p := x.Progress(); p.DurablePhyOffset != total*g.size {
		t.Errorf("durable up to %d, want %d", p.DurablePhyOffset, total*g.size)
	}
}

// Close may come while queries, Dispatch and Flush are under way: they end with ErrClosed or whole.
func TestCloseBesideEverything(t *testing.T) {
	for n := range effort.N(5, 50) {
		var l fakeLog
		for i := range 300 {
			l.put(meta("T", int64(i), fmt.Sprint("u", i), "k"), 100)
		}
		o := l.options(t.TempDir())
		o.TailEntries = 50
		x := open(t, o)
		var wg sync.WaitGroup
		may := func(err error) {
			if err != nil && !errors.Is(err, index.ErrClosed) {
				t.Errorf("run %d: %v", n, err)
			}
		}
		at, there := rand.IntN(len(l.records)), make(chan struct{})
		wg.Go(func() {
			for i := range l.records {
				if i == at {
					close(there)
				}
				may(x.Dispatch(&l.records[i]))
			}
		})
		wg.Go(func() {
			for range 20 {
				may(x.Flush())
			}
		})
		wg.Go(func() {
			for range 50 {
				_, err := x.Query("T", "k", 0, math.MaxInt64, 0)
				may(err)
			}
		})
		<-there
		may(x.Close())
		wg.Wait()
		x = open(t, o)
		l.holdsExactly(t, x, x.Next())
		x.Close()
	}
}

// A record's keys are hashed and put into the tail without allocating.
func TestDispatchAllocatesNothing(t *testing.T) {
	g := &generator{size: 1 << 10}
	x := open(t, g.options("", 1<<30))
	metas := make([]record.Meta, 2000)
	for i := range metas {
		own := generator{size: g.size}
		metas[i] = *own.at(int64(i))
	}
	i := 0
	if n := testing.AllocsPerRun(1000, func() {
		if err := x.Dispatch(&metas[i]); err != nil {
			t.Fatal(err)
		}
		i++
	}); n >= 1 { // the tail grows now and then
		t.Errorf("%v allocations a record", n)
	}
}
