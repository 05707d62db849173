package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance"
	"github.com/mqstore/mqstore/store"
)

// disk is what a model's disk is like, and what is wrong with how the model takes it.
type disk struct {
	mu      sync.Mutex
	stalled chan struct{} // closed when the disk gets on; nil: it does
	full    bool
	failing bool // the next flush fails
	failed  bool
	hidden  map[string]int64 // ends of queues that have more messages than are on disk

	lateIsOK, lateFutureIsOK, lateBatchIsOK bool // PUT_OK instead of FLUSH_DISK_TIMEOUT
	showsAll                                bool // consumers see what is not on disk
	forgetsOffsets                          bool // when a context ends the wait
	alwaysWaits                             bool // WAIT=false does not count
	fullReadsFail                           bool
	staysFull                               bool
	failureIsForgotten                      bool // later puts are taken
	failureEndsReads                        bool
}

// frailModel is a model with a disk. The three conditions of the disk only count where a put waits for it or needs a segment.
type frailModel struct{ *faulty }

var (
	_ conformance.DiskStaller = frailModel{}
	_ conformance.DiskFiller  = frailModel{}
	_ conformance.SyncFailer  = frailModel{}
)

func (f frailModel) StallDisk() (resume func()) {
	d := f.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	gate := make(chan struct{})
	d.stalled = gate
	return sync.OnceFunc(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.stalled, d.hidden = nil, nil
		close(gate)
	})
}

func (f frailModel) FillDisk() (free func()) {
	f.disk.full = true
	return func() { f.disk.full = f.disk.staysFull }
}

func (f frailModel) FailSync() { f.disk.failing = true }

// before refuses m if the disk does; n is the size of its records.
func (f frailModel) before(n int) error {
	d := f.disk
	switch seg := f.c.SegmentSize; {
	case d.failed && !d.failureIsForgotten:
		return fmt.Errorf("%w: %w", store.ErrServiceNotAvailable, store.ErrFlushFailed)
	case d.full && seg > 0 && int64(n)+8 > seg-f.m.MaxPhyOffset()%seg:
		return store.ErrDiskFull
	}
	return nil
}

// after waits for the disk as r's put must, and hides what is not there yet: the queue ended at visible.
func (f frailModel) after(m *record.Message, r store.PutResult, visible int64) (wait func(ctx context.Context, ok bool) (store.PutResult, error)) {
	d := f.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	answered := func(context.Context, bool) (store.PutResult, error) { return r, nil }
	if !f.c.SyncFlush || !d.failing && d.stalled == nil {
		return answered
	}
	if _, ok := d.hidden[queueName(m.Topic, m.QueueID)]; !ok {
		if d.hidden == nil {
			d.hidden = map[string]int64{}
		}
		d.hidden[queueName(m.Topic, m.QueueID)] = visible
	}
	if d.failing {
		d.failing, d.failed = false, true
		return func(context.Context, bool) (store.PutResult, error) { return r, store.ErrFlushFailed }
	}
	if w, ok := m.Properties.Get(record.PropertyWait); ok && w == "false" && !d.alwaysWaits {
		return answered
	}
	stalled, timeout := d.stalled, f.c.SyncFlushTimeout
	return func(ctx context.Context, lateIsOK bool) (store.PutResult, error) {
		var err error
		select {
		case <-stalled:
			return r, nil
		case <-time.After(timeout):
		case <-ctx.Done():
			if err = ctx.Err(); d.forgetsOffsets {
				return store.PutResult{}, err
			}
		}
		if !lateIsOK {
			r.Status = store.FlushDiskTimeout
		}
		return r, err
	}
}

func queueName(topic string, queueID int32) string { return fmt.Sprint(topic, "/", queueID) }

func sizeOf(m *record.Message) int {
	if m == nil {
		return 0
	}
	n, _ := m.EncodedSize(record.Limits{MaxMessageSize: 1 << 30})
	return n
}

func (f frailModel) Put(ctx context.Context, m *record.Message) (store.PutResult, error) {
	if err := f.before(sizeOf(m)); err != nil {
		return store.PutResult{}, err
	}
	visible := int64(0)
	if m != nil {
		visible = f.m.MaxOffset(m.Topic, m.QueueID)
	}
	r, err := f.faulty.Put(ctx, m)
	if err != nil || m == nil {
		return r, err
	}
	return f.after(m, r, visible)(ctx, f.disk.lateIsOK)
}

func (f frailModel) PutBatch(ctx context.Context, m *record.Message, items []record.BatchItem) (store.PutResult, error) {
	if m == nil {
		return f.faulty.PutBatch(ctx, m, items)
	}
	if err := f.before(0); err != nil {
		return store.PutResult{}, err
	}
	visible := f.m.MaxOffset(m.Topic, m.QueueID)
	r, err := f.faulty.PutBatch(ctx, m, items)
	if err != nil {
		return r, err
	}
	return f.after(m, r, visible)(ctx, f.disk.lateBatchIsOK)
}

func (f frailModel) PutAsync(m *record.Message) *store.Future {
	future, resolve := store.NewFuture()
	if err := f.before(sizeOf(m)); err != nil {
		resolve(store.PutResult{}, err)
		return future
	}
	if m == nil || f.disk.stalled == nil && !f.disk.failing {
		return f.faulty.PutAsync(m)
	}
	visible := f.m.MaxOffset(m.Topic, m.QueueID)
	r, err := f.faulty.PutAsync(m).Wait(context.Background())
	if err != nil {
		resolve(r, err)
		return future
	}
	wait := f.after(m, r, visible)
	go func() { resolve(wait(context.Background(), f.disk.lateFutureIsOK)) }()
	return future
}

// shown is where the queue ends for consumers.
func (f frailModel) shown(topic string, queueID int32) (int64, bool) {
	d := f.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	end, ok := d.hidden[queueName(topic, queueID)]
	return end, ok && !d.showsAll
}

func (f frailModel) MaxOffset(topic string, queueID int32) int64 {
	if end, ok := f.shown(topic, queueID); ok {
		return end
	}
	return f.faulty.MaxOffset(topic, queueID)
}

func (f frailModel) Get(ctx context.Context, r store.GetRequest) (*store.GetResult, error) {
	if f.disk.full && f.disk.fullReadsFail || f.disk.failed && f.disk.failureEndsReads {
		return nil, errors.New("mutant: the disk is not well")
	}
	g, err := f.faulty.Get(ctx, r)
	end, ok := f.shown(r.Topic, r.QueueID)
	if err != nil || !ok {
		return g, err
	}
	for len(g.QueueOffsets) > 0 && g.QueueOffsets[len(g.QueueOffsets)-1] >= end {
		g.QueueOffsets, g.Records = g.QueueOffsets[:len(g.QueueOffsets)-1], g.Records[:len(g.Records)-1]
	}
	if g.MaxOffset, g.NextBeginOffset = end, min(g.NextBeginOffset, end); len(g.Records) == 0 && r.Offset == end {
		g.Status = store.OffsetOverflowOne
	}
	return g, nil
}

func (f frailModel) Close() error {
	err := f.faulty.Close()
	if f.disk.failed {
		return store.ErrFlushFailed
	}
	return err
}
