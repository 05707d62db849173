package conformance_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// The ways in which puts go wrong. They count for PutAsync, too.

// refuse makes puts of some messages fail with err.
func refuse(f *faulty, err error, some func(m *record.Message) bool) {
	f.put = func(ctx context.Context, m *record.Message, next putFunc) (store.PutResult, error) {
		if m != nil && some(m) {
			return store.PutResult{}, err
		}
		return next(ctx, m)
	}
}

// accept makes puts of some messages succeed that are refused; nothing is stored.
func accept(f *faulty, some func(m *record.Message) bool) {
	f.put = func(ctx context.Context, m *record.Message, next putFunc) (store.PutResult, error) {
		r, err := next(ctx, m)
		if err != nil && some(m) {
			return store.PutResult{Messages: 1}, nil
		}
		return r, err
	}
}

// swap makes puts answer to where the error is from, for some messages (nil: all).
func swap(f *faulty, from, to error, some func(m *record.Message) bool) {
	f.put = func(ctx context.Context, m *record.Message, next putFunc) (store.PutResult, error) {
		r, err := next(ctx, m)
		if errors.Is(err, from) && (some == nil || some(m)) {
			err = fmt.Errorf("%w: mutant", to)
		}
		return r, err
	}
}

// change makes the store keep another message than the one that it is given.
func change(f *faulty, how func(m *record.Message)) {
	f.put = func(ctx context.Context, m *record.Message, next putFunc) (store.PutResult, error) {
		if m == nil {
			return next(ctx, m)
		}
		c := *m
		c.Body, c.Properties = bytes.Clone(m.Body), bytes.Clone(m.Properties)
		how(&c)
		r, err := next(ctx, &c)
		m.SysFlag, m.BodyCRC, m.Size, m.StoreTimestamp, m.QueueOffset, m.PhyOffset = c.SysFlag, c.BodyCRC, c.Size, c.StoreTimestamp, c.QueueOffset, c.PhyOffset
		return r, err
	}
}

// answer makes puts that succeed return something else.
func answer(f *faulty, how func(m *record.Message, r *store.PutResult)) {
	f.put = func(ctx context.Context, m *record.Message, next putFunc) (store.PutResult, error) {
		r, err := next(ctx, m)
		if err == nil {
			how(m, &r)
		}
		return r, err
	}
}

// failed is called with messages that were refused, and may leave something behind.
func failed(f *faulty, what func(ctx context.Context, m *record.Message, next putFunc)) {
	f.put = func(ctx context.Context, m *record.Message, next putFunc) (store.PutResult, error) {
		r, err := next(ctx, m)
		if err != nil && m != nil {
			what(ctx, m, next)
		}
		return r, err
	}
}

// small is a message that any store accepts.
func small(topic string, queueID int32) *record.Message {
	return &record.Message{Topic: topic, QueueID: queueID, Body: []byte("mutant"), BornTimestamp: 1}
}

// The same of batches and asynchronous puts.

// refuseBatch makes some batches fail with err.
func refuseBatch(f *faulty, err error, some func(m *record.Message, items []record.BatchItem) bool) {
	f.putBatch = func(ctx context.Context, m *record.Message, items []record.BatchItem, next batchFunc) (store.PutResult, error) {
		if m != nil && some(m, items) {
			return store.PutResult{}, err
		}
		return next(ctx, m, items)
	}
}

// acceptBatch makes some batches succeed that are refused; nothing is stored.
func acceptBatch(f *faulty, some func(m *record.Message, items []record.BatchItem) bool) {
	f.putBatch = func(ctx context.Context, m *record.Message, items []record.BatchItem, next batchFunc) (store.PutResult, error) {
		r, err := next(ctx, m, items)
		if err != nil && m != nil && some(m, items) {
			return store.PutResult{Messages: len(items), Offsets: make([]int64, len(items))}, nil
		}
		return r, err
	}
}

// changeBatch makes the store keep other items than those that it is given.
func changeBatch(f *faulty, how func(m *record.Message, items []record.BatchItem) []record.BatchItem) {
	f.putBatch = func(ctx context.Context, m *record.Message, items []record.BatchItem, next batchFunc) (store.PutResult, error) {
		if m != nil {
			items = how(m, append([]record.BatchItem(nil), items...))
		}
		return next(ctx, m, items)
	}
}

// answerBatch makes batches that succeed return something else.
func answerBatch(f *faulty, how func(m *record.Message, r *store.PutResult)) {
	f.putBatch = func(ctx context.Context, m *record.Message, items []record.BatchItem, next batchFunc) (store.PutResult, error) {
		r, err := next(ctx, m, items)
		if err == nil {
			how(m, &r)
		}
		return r, err
	}
}

// answerAsync changes what futures answer.
func answerAsync(f *faulty, how func(m *record.Message, r *store.PutResult, err error) error) {
	f.putAsync = func(m *record.Message, next func(m *record.Message) *store.Future) *store.Future {
		r, err := next(m).Wait(context.Background())
		future, resolve := store.NewFuture()
		err = how(m, &r, err)
		resolve(r, err)
		return future
	}
}

// forgetLast cuts the last record off the log.
func forgetLast(f *faulty) {
	last := int64(-1)
	for m := range f.m.ScanLog(context.Background(), 0, f.m.MaxPhyOffset()) {
		last = m.PhyOffset
	}
	if last >= 0 {
		_ = f.m.TruncateTo(last)
	}
}

// rewrite makes gets give some records with other contents; how returns nil for those that stay.
func rewrite(f *faulty, how func(m *record.Message) []byte) {
	f.get = func(ctx context.Context, r store.GetRequest, next getFunc) (*store.GetResult, error) {
		g, err := next(ctx, r)
		if err != nil {
			return g, err
		}
		for i, v := range g.Records {
			m, err := record.Decode(bytes.Clone(v.Bytes))
			if err != nil {
				return g, err
			}
			if b := how(m); b != nil {
				g.Records[i] = store.NewView(b, v.PhyOffset, nil)
			}
		}
		return g, err
	}
}

// encoded is m's record, as a store writes it.
func encoded(m *record.Message) []byte {
	b, err := record.AppendRecord(nil, m, record.Limits{AllowV2: true})
	if err != nil {
		panic(err)
	}
	return b
}
