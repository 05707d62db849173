package workload_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/workload"
	"github.com/mqstore/mqstore/store"
)

// Engines with a bug each. What they do not change is the engine's.

type nextAfterFilter struct{ *engine } // a filtered get that found something goes on one too far

func (e nextAfterFilter) Get(ctx context.Context, r store.GetRequest) (*store.GetResult, error) {
	res, err := e.engine.Get(ctx, r)
	if err == nil && r.Filter != nil && res.Status == store.Found && res.NextBeginOffset < res.MaxOffset {
		res.NextBeginOffset++
	}
	return res, err
}

type upperTie struct{ *engine } // of several messages of one time the first is the last

func (e upperTie) OffsetByTime(topic string, queueID int32, t time.Time, r store.TimeRule) (int64, error) {
	at, err := e.engine.OffsetByTime(topic, queueID, t, r)
	for r == store.Upper && at > e.MinOffset(topic, queueID) {
		a, err1 := e.StoreTime(topic, queueID, at)
		b, err2 := e.StoreTime(topic, queueID, at-1)
		if err1 != nil || err2 != nil || !a.Equal(b) {
			break
		}
		at--
	}
	return at, err
}

type lostAtKill struct{ *engine } // a kill takes what was not flushed

func (e lostAtKill) Crash(_ workload.Ending, seed uint64) error {
	return e.engine.Crash(workload.Power, seed)
}

type reusedOffset struct{ *engine } // the answer to a batch after a rollback names the offset before

func (e *reusedOffset) PutBatch(ctx context.Context, m *record.Message, items []record.BatchItem) (store.PutResult, error) {
	res, err := e.engine.PutBatch(ctx, m, items)
	if err == nil && len(items) >= 3 && res.QueueOffset > 0 {
		res.QueueOffset--
	}
	return res, err
}

type forgetsKeys struct{ *engine } // a query by unique key misses the newest message when there are several

func (e forgetsKeys) Query(ctx context.Context, r store.QueryRequest) (*store.QueryResult, error) {
	res, err := e.engine.Query(ctx, r)
	if err == nil && strings.HasPrefix(r.Key, "u") && len(res.Records) > 1 {
		res.Records = res.Records[:len(res.Records)-1]
	}
	return res, err
}

type panics struct{ *engine } // a lookup inside an IPv6 record

func (e panics) Lookup(phyOffset int64) (*record.Message, error) {
	m, err := e.engine.Lookup(phyOffset)
	if err == nil && m.StoreHost.Addr.Is6() {
		var b []byte
		_ = b[len(m.Body)]
	}
	return m, err
}

type minBehind struct{ *engine } // after messages expired, the minimum lags by one

func (e minBehind) MinOffset(topic string, queueID int32) int64 {
	return max(e.engine.MinOffset(topic, queueID)-1, 0)
}

type staleAfterReopen struct { // after it was opened again, async puts are answered with the wrong size
	*engine
	reopened bool
}

func (e *staleAfterReopen) Reopen() error { e.reopened = true; return e.engine.Reopen() }

func (e *staleAfterReopen) PutAsync(m *record.Message) *store.Future {
	f := e.engine.PutAsync(m)
	if e.reopened {
		bad, resolve := store.NewFuture()
		r, err := f.Wait(context.Background())
		r.Size++
		resolve(r, err)
		return bad
	}
	return f
}

// A bug that is planted is found soon, and what is shown of it is a handful of operations, with the command to see it again.
func TestPlantedBugsAreFoundAndMadeSmall(t *testing.T) {
	for _, p := range []struct {
		name  string
		plant func(*engine) workload.Store
		most  int    // operations
		last  string // how the last operation begins
		only  []workload.Kind
	}{
		{"next offset of a filtered get", func(e *engine) workload.Store { return nextAfterFilter{e} }, 3, "get", nil},
		{"tie of times", func(e *engine) workload.Store { return upperTie{e} }, 3, "bytime", nil},
		{"lost at a kill", func(e *engine) workload.Store { return lostAtKill{e} }, 3, "crash", nil},
		{"offset of a batch", func(e *engine) workload.Store { return &reusedOffset{e} }, 2, "batch", nil},
		{"query by unique key", func(e *engine) workload.Store { return forgetsKeys{e} }, 3, "query", nil},
		{"panic", func(e *engine) workload.Store { return panics{e} }, 2, "lookup", nil},
		{"bounds after expiry", func(e *engine) workload.Store { return minBehind{e} }, 7, "", nil},
		{"async put after opening again", func(e *engine) workload.Store { return &staleAfterReopen{engine: e} }, 3, "", []workload.Kind{workload.Put, workload.Async, workload.Await, workload.Reopen}},
	} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			c := workload.Comparison{
				Subject: func(s workload.Setup) (workload.Store, error) {
					e, err := newEngine(s)
					if err != nil {
						return nil, err
					}
					return p.plant(e), nil
				},
				Reference: openModel,
				Runs:      2000,
			}
			for seed := range uint64(100) {
				w := workload.Generate(seed, workload.Options{Ops: 300, Only: p.only})
				d, err := c.Run(ctx, w)
				if err != nil {
					t.Fatal(err)
				}
				if d == nil {
					continue
				}
				small, last := c.Shrink(ctx, w)
				t.Logf("seed %d, from %d operations to %d:\n%v\n%s", seed, d.Index+1, len(small.Ops), last, small)
				if len(small.Ops) > p.most {
					t.Errorf("%d operations, want at most %d", len(small.Ops), p.most)
				}
				if op := small.Ops[len(small.Ops)-1].String(); !strings.HasPrefix(op, p.last) {
					t.Errorf("the last operation is %q, want a %s", op, p.last)
				}
				// What is written to a file fails the same way, and not without the bug.
				again, err := workload.Parse([]byte(small.String()))
				if err != nil {
					t.Fatal(err)
				}
				if d, err := c.Run(ctx, again); err != nil || d == nil || d.Error() != last.Error() && d.Subject.Status != workload.Panic {
					t.Errorf("the text fails with %v, %v", d, err)
				}
				if d, err := engineAsModel.Run(ctx, again); err != nil || d != nil {
					t.Errorf("without the bug: %v, %v", d, err)
				}
				return
			}
			t.Error("not found in 100 seeds")
		})
	}
}
