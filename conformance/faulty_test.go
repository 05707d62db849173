package conformance_test

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance"
	"github.com/mqstore/mqstore/conformance/model"
	"github.com/mqstore/mqstore/store"
)

// faulty is the model, with a hook in each method: a hook that is nil changes nothing. What a hook is given as next is the model's own method.
type faulty struct {
	m    *model.Store
	c    conformance.Config
	gone *atomic.Bool // reopened: this one is closed
	disk *disk

	able bool // this one is wrapped in an able, which has hooks of its own

	delayed   func(m *record.Message, level int) int    // the level that counts
	real      func(wait *record.Message)                // before it is stored to wait
	delivered func(m *record.Message)                   // before it is put when it is due
	early     time.Duration                             // by which messages are due before they are
	multi     func(m *record.Message, offsets []string) // before it is stored

	put          func(ctx context.Context, m *record.Message, next putFunc) (store.PutResult, error)
	putBatch     func(ctx context.Context, m *record.Message, items []record.BatchItem, next batchFunc) (store.PutResult, error)
	putAsync     func(m *record.Message, next func(m *record.Message) *store.Future) *store.Future // next is put, resolved at once, if put is hooked
	get          func(ctx context.Context, r store.GetRequest, next getFunc) (*store.GetResult, error)
	query        func(ctx context.Context, r store.QueryRequest, next queryFunc) (*store.QueryResult, error)
	lookup       func(phyOffset int64, next func(int64) (*record.Message, error)) (*record.Message, error)
	lookupID     func(id string, next func(string) (*record.Message, error)) (*record.Message, error)
	minOffset    func(topic string, queueID int32, next boundFunc) int64
	maxOffset    func(topic string, queueID int32, next boundFunc) int64
	offsetByTime func(topic string, queueID int32, t time.Time, r store.TimeRule, next byTimeFunc) (int64, error)
	storeTime    func(topic string, queueID int32, queueOffset int64, next storeTimeFunc) (time.Time, error)
	phyOffset    func(topic string, queueID int32, queueOffset int64, next phyOffsetFunc) (int64, error)
	earliest     func(topic string, queueID int32, next earliestFunc) (time.Time, error)
	minPhy       func(next func() int64) int64
	maxPhy       func(next func() int64) int64
	flush        func(next func() (int64, error)) (int64, error)
	stats        func(next func() store.Stats) store.Stats
	expire       func(phyOffset int64, next func(int64)) // of the model
	appendRaw    func(phyOffset int64, p []byte, next func(int64, []byte) error) error
	reopen       func()
	late         func() (store.PutResult, error) // put of a handle that is closed
	crash        func()                          // the process is killed; the model loses nothing
	losePower    func()                          // nor here
	logData      func(phyOffset int64, max int, next func(int64, int) (store.View, error)) (store.View, error)
	replicate    func(slave *faulty, phyOffset int64, p []byte) error // instead of slave.AppendToCommitLog
	promote      func(next func())                                    // of a slave
	slaveOf      func(slave *faulty)                                  // what is wrong with the slaves of this master

	master  *faulty // of a slave
	slaves  []*faulty
	close   func(next func() error) error
	scan    func(ctx context.Context, topic string, queueID int32, from int64, next scanFunc) iter.Seq2[*record.Message, error]
	scanLog func(ctx context.Context, from, to int64, next scanLogFunc) iter.Seq2[*record.Message, error]
	queues  func(next func() []store.QueueInfo) []store.QueueInfo
}

type (
	putFunc       = func(ctx context.Context, m *record.Message) (store.PutResult, error)
	batchFunc     = func(ctx context.Context, m *record.Message, items []record.BatchItem) (store.PutResult, error)
	getFunc       = func(ctx context.Context, r store.GetRequest) (*store.GetResult, error)
	queryFunc     = func(ctx context.Context, r store.QueryRequest) (*store.QueryResult, error)
	boundFunc     = func(topic string, queueID int32) int64
	byTimeFunc    = func(topic string, queueID int32, t time.Time, r store.TimeRule) (int64, error)
	storeTimeFunc = func(topic string, queueID int32, queueOffset int64) (time.Time, error)
	phyOffsetFunc = func(topic string, queueID int32, queueOffset int64) (int64, error)
	earliestFunc  = func(topic string, queueID int32) (time.Time, error)
	scanFunc      = func(ctx context.Context, topic string, queueID int32, from int64) iter.Seq2[*record.Message, error]
	scanLogFunc   = func(ctx context.Context, from, to int64) iter.Seq2[*record.Message, error]
)

var (
	_ conformance.Store    = (*faulty)(nil)
	_ conformance.Reopener = (*faulty)(nil)
	_ conformance.Expirer  = (*faulty)(nil)
	_ store.BatchPutter    = (*faulty)(nil)
	_ store.AsyncPutter    = (*faulty)(nil)
	_ store.Looker         = (*faulty)(nil)
	_ store.Querier        = (*faulty)(nil)
	_ store.Admin          = (*faulty)(nil)
	_ store.Scanner        = (*faulty)(nil)
)

func newFaulty(c conformance.Config) *faulty {
	return &faulty{m: model.New(c.TinyOptions()), c: c, gone: new(atomic.Bool), disk: new(disk)}
}

// modelMaker makes models that nothing is wrong with.
func modelMaker(_ context.Context, c conformance.Config) (conformance.Store, error) {
	return frailModel{newFaulty(c)}, nil
}

var errGone = fmt.Errorf("%w: %w", store.ErrServiceNotAvailable, store.ErrClosed)

func (f *faulty) Put(ctx context.Context, m *record.Message) (store.PutResult, error) {
	if f.gone.Load() {
		if f.late != nil {
			return f.late()
		}
		return store.PutResult{}, errGone
	}
	next := func(ctx context.Context, m *record.Message) (store.PutResult, error) {
		r, err := f.m.Put(ctx, m)
		return f.replicated(m, r, err)
	}
	if f.put != nil {
		return f.put(ctx, m, next)
	}
	return next(ctx, m)
}

func (f *faulty) PutBatch(ctx context.Context, m *record.Message, items []record.BatchItem) (store.PutResult, error) {
	next := func(ctx context.Context, m *record.Message, items []record.BatchItem) (store.PutResult, error) {
		r, err := f.m.PutBatch(ctx, m, items)
		return f.replicated(m, r, err)
	}
	if f.putBatch != nil {
		return f.putBatch(ctx, m, items, next)
	}
	return next(ctx, m, items)
}

func (f *faulty) PutAsync(m *record.Message) *store.Future {
	next := f.m.PutAsync
	if f.put != nil {
		next = func(m *record.Message) *store.Future {
			future, resolve := store.NewFuture()
			resolve(f.put(context.Background(), m, f.m.Put))
			return future
		}
	}
	if f.putAsync != nil {
		return f.putAsync(m, next)
	}
	return next(m)
}

func (f *faulty) Get(ctx context.Context, r store.GetRequest) (*store.GetResult, error) {
	if f.get != nil {
		return f.get(ctx, r, f.m.Get)
	}
	return f.m.Get(ctx, r)
}

func (f *faulty) Query(ctx context.Context, r store.QueryRequest) (*store.QueryResult, error) {
	if f.query != nil {
		return f.query(ctx, r, f.m.Query)
	}
	return f.m.Query(ctx, r)
}

func (f *faulty) Lookup(phyOffset int64) (*record.Message, error) {
	if f.lookup != nil {
		return f.lookup(phyOffset, f.m.Lookup)
	}
	return f.m.Lookup(phyOffset)
}

func (f *faulty) LookupID(id string) (*record.Message, error) {
	if f.lookupID != nil {
		return f.lookupID(id, f.m.LookupID)
	}
	return f.m.LookupID(id)
}

func (f *faulty) MinOffset(topic string, queueID int32) int64 {
	if f.minOffset != nil {
		return f.minOffset(topic, queueID, f.m.MinOffset)
	}
	return f.m.MinOffset(topic, queueID)
}

func (f *faulty) MaxOffset(topic string, queueID int32) int64 {
	if f.maxOffset != nil {
		return f.maxOffset(topic, queueID, f.m.MaxOffset)
	}
	return f.m.MaxOffset(topic, queueID)
}

func (f *faulty) OffsetByTime(topic string, queueID int32, t time.Time, r store.TimeRule) (int64, error) {
	if f.offsetByTime != nil {
		return f.offsetByTime(topic, queueID, t, r, f.m.OffsetByTime)
	}
	return f.m.OffsetByTime(topic, queueID, t, r)
}

func (f *faulty) StoreTime(topic string, queueID int32, queueOffset int64) (time.Time, error) {
	if f.storeTime != nil {
		return f.storeTime(topic, queueID, queueOffset, f.m.StoreTime)
	}
	return f.m.StoreTime(topic, queueID, queueOffset)
}

func (f *faulty) PhyOffset(topic string, queueID int32, queueOffset int64) (int64, error) {
	if f.phyOffset != nil {
		return f.phyOffset(topic, queueID, queueOffset, f.m.PhyOffset)
	}
	return f.m.PhyOffset(topic, queueID, queueOffset)
}

func (f *faulty) EarliestStoreTime(topic string, queueID int32) (time.Time, error) {
	if f.earliest != nil {
		return f.earliest(topic, queueID, f.m.EarliestStoreTime)
	}
	return f.m.EarliestStoreTime(topic, queueID)
}

func (f *faulty) MinPhyOffset() int64 {
	if f.minPhy != nil {
		return f.minPhy(f.m.MinPhyOffset)
	}
	return f.m.MinPhyOffset()
}

func (f *faulty) MaxPhyOffset() int64 {
	if f.maxPhy != nil {
		return f.maxPhy(f.m.MaxPhyOffset)
	}
	return f.m.MaxPhyOffset()
}

func (f *faulty) Flush() (int64, error) {
	if f.flush != nil {
		return f.flush(f.m.Flush)
	}
	return f.m.Flush()
}

func (f *faulty) Stats() store.Stats {
	if f.stats != nil {
		return f.stats(f.m.Stats)
	}
	return f.m.Stats()
}

func (f *faulty) Expire(_ context.Context, phyOffset int64) (int64, error) {
	if f.expire != nil {
		f.expire(phyOffset, f.m.Expire)
	} else {
		f.m.Expire(phyOffset)
	}
	return f.m.MinPhyOffset(), nil
}

func (f *faulty) AppendToCommitLog(phyOffset int64, p []byte) error {
	if f.appendRaw != nil {
		return f.appendRaw(phyOffset, p, f.m.AppendToCommitLog)
	}
	return f.m.AppendToCommitLog(phyOffset, p)
}

func (f *faulty) CommitLogData(phyOffset int64, max int) (store.View, error) {
	if f.logData != nil {
		return f.logData(phyOffset, max, f.m.CommitLogData)
	}
	return f.m.CommitLogData(phyOffset, max)
}

// Reopen answers with another handle of the same model, and lets the old one refuse puts.
func (f *faulty) Reopen(context.Context) (conformance.Store, error) {
	f.gone.Store(true)
	if f.reopen != nil {
		f.reopen()
	}
	again := *f
	again.gone = new(atomic.Bool)
	return &again, nil
}

func (f *faulty) Scan(ctx context.Context, topic string, queueID int32, from int64) iter.Seq2[*record.Message, error] {
	if f.scan != nil {
		return f.scan(ctx, topic, queueID, from, f.m.Scan)
	}
	return f.m.Scan(ctx, topic, queueID, from)
}

func (f *faulty) ScanLog(ctx context.Context, from, to int64) iter.Seq2[*record.Message, error] {
	if f.scanLog != nil {
		return f.scanLog(ctx, from, to, f.m.ScanLog)
	}
	return f.m.ScanLog(ctx, from, to)
}

func (f *faulty) Queues() []store.QueueInfo {
	if f.queues != nil {
		return f.queues(f.m.Queues)
	}
	return f.m.Queues()
}

func (f *faulty) Close() error {
	if f.master != nil {
		f.master.unfollow(f)
	}
	if f.close != nil {
		return f.close(f.m.Close)
	}
	return f.m.Close()
}
