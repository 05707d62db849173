package conformance_test

import (
	"context"
	"sync"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// serialize makes the hooks that share what a mutant remembers run one after the other, so that a mutant need not think of laws that have many callers. Mutants that are about concurrent callers are left as they are.
func (f *faulty) serialize() {
	var mu sync.Mutex
	if next := f.put; next != nil {
		f.put = func(ctx context.Context, m *record.Message, put putFunc) (store.PutResult, error) {
			mu.Lock()
			defer mu.Unlock()
			return next(ctx, m, put)
		}
	}
	if next := f.putBatch; next != nil {
		f.putBatch = func(ctx context.Context, m *record.Message, items []record.BatchItem, put batchFunc) (store.PutResult, error) {
			mu.Lock()
			defer mu.Unlock()
			return next(ctx, m, items, put)
		}
	}
	if next := f.get; next != nil {
		f.get = func(ctx context.Context, r store.GetRequest, get getFunc) (*store.GetResult, error) {
			mu.Lock()
			defer mu.Unlock()
			return next(ctx, r, get)
		}
	}
	if next := f.lookup; next != nil {
		f.lookup = func(phyOffset int64, look func(int64) (*record.Message, error)) (*record.Message, error) {
			mu.Lock()
			defer mu.Unlock()
			return next(phyOffset, look)
		}
	}
	if next := f.maxOffset; next != nil {
		f.maxOffset = func(topic string, queueID int32, bound boundFunc) int64 {
			mu.Lock()
			defer mu.Unlock()
			return next(topic, queueID, bound)
		}
	}
	if next := f.minOffset; next != nil {
		f.minOffset = func(topic string, queueID int32, bound boundFunc) int64 {
			mu.Lock()
			defer mu.Unlock()
			return next(topic, queueID, bound)
		}
	}
	if next := f.earliest; next != nil {
		f.earliest = func(topic string, queueID int32, at earliestFunc) (time.Time, error) {
			mu.Lock()
			defer mu.Unlock()
			return next(topic, queueID, at)
		}
	}
	if next := f.queues; next != nil {
		f.queues = func(queues func() []store.QueueInfo) []store.QueueInfo {
			mu.Lock()
			defer mu.Unlock()
			return next(queues)
		}
	}
}
