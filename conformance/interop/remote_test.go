package interop

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// remote is an engine behind a Peer as this module's interfaces have it. Any goroutine may use it.
type remote struct {
	t       testing.TB
	version string
	dir     string
	set     settings
	now     func() time.Time // nil: the machine's clock
	keep    func() error     // nil; called before the directory goes

	mu struct {
		sync.Mutex
		p      *Peer
		told   int64 // the time that p was last told, ms
		closed bool
	}
}

// newRemote opens an empty store in a directory of its own, which is gone when it is closed.
func newRemote(t testing.TB, version string, s settings, now func() time.Time) (*remote, error) {
	dir, err := os.MkdirTemp(t.TempDir(), "store")
	if err != nil {
		return nil, err
	}
	r := &remote{t: t, version: version, dir: dir, set: s, now: now}
	return r, r.start()
}

// start begins a process that has the store open. The caller holds the lock, or is alone.
func (r *remote) start() error {
	r.mu.p = startPeer(r.t, r.version)
	r.mu.told = 0
	return r.openLocked()
}

func (r *remote) openLocked() error {
	if err := r.tellTimeLocked(); err != nil {
		return err
	}
	return r.mu.p.try("open", r.mu.p.openArgs(r.dir, r.set), nil)
}

func (r *remote) tellTimeLocked() error {
	if r.now == nil {
		return nil
	}
	ms := r.now().UnixMilli()
	if ms == r.mu.told {
		return nil
	}
	r.mu.told = ms
	return r.mu.p.try("clock", map[string]int64{"now": ms}, nil)
}

func (r *remote) ask(op string, q, a any) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.closed { // the process is gone. The original answers SERVICE_NOT_AVAILABLE to puts, and nothing to gets (dispatch-and-read.md 5.3, 5.5)
		return fmt.Errorf("%s: %w: %w", op, store.ErrClosed, store.ErrServiceNotAvailable)
	}
	if err := r.tellTimeLocked(); err != nil {
		return err
	}
	return r.mu.p.try(op, q, a)
}

// must is ask where the interface has no room for an error.
func (r *remote) must(op string, q, a any) {
	if err := r.ask(op, q, a); err != nil && !errors.Is(err, store.ErrClosed) {
		r.t.Errorf("%v", err)
	}
}

func (r *remote) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.closed {
		return nil
	}
	r.mu.closed = true
	err := r.mu.p.try("close", nil, nil)
	r.mu.p.kill()
	if r.keep != nil {
		err = errors.Join(err, r.keep())
	}
	return errors.Join(err, os.RemoveAll(r.dir))
}

// reopen closes and opens in the same process.
func (r *remote) reopen() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.mu.p.try("close", nil, nil); err != nil {
		return err
	}
	return r.openLocked()
}

// crash kills the process and opens the store in another one.
func (r *remote) crash() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.p.kill()
	return r.start()
}

// refusals are what the original's statuses are here.
var refusals = map[string]error{
	"MESSAGE_ILLEGAL": store.ErrMessageIllegal, "PROPERTIES_SIZE_EXCEEDED": store.ErrPropertiesTooLarge, "SERVICE_NOT_AVAILABLE": store.ErrServiceNotAvailable,
	"OS_PAGECACHE_BUSY": store.ErrOSPageCacheBusy, "CREATE_MAPEDFILE_FAILED": store.ErrDiskFull,
}

var accepted = map[string]store.PutStatus{"PUT_OK": store.PutOK, "FLUSH_DISK_TIMEOUT": store.FlushDiskTimeout, "FLUSH_SLAVE_TIMEOUT": store.FlushSlaveTimeout, "SLAVE_NOT_AVAILABLE": store.SlaveNotAvailable}

func (r *remote) putResult(m *record.Message, a putAnswer, err error) (store.PutResult, error) {
	if err != nil {
		return store.PutResult{}, err
	}
	status, ok := accepted[a.Status]
	if !ok {
		if sentinel := refusals[a.Status]; sentinel != nil {
			return store.PutResult{}, fmt.Errorf("%s answers %s: %w", r.version, a.Status, sentinel)
		}
		return store.PutResult{}, fmt.Errorf("%s answers %s", r.version, a.Status)
	}
	if m.BornHost.Addr.Is6() {
		m.SysFlag |= record.FlagBornHostV6
	}
	if m.StoreHost.Addr.Is6() {
		m.SysFlag |= record.FlagStoreHostV6
	}
	m.StoreTimestamp, m.QueueOffset, m.PhyOffset, m.Size, m.BodyCRC = a.StoreTimestamp, a.QueueOffset, a.PhyOffset, a.Size, record.BodyCRC(m.Body)
	res := store.PutResult{Status: status, PhyOffset: a.PhyOffset, Size: a.Size, QueueOffset: a.QueueOffset, StoreTimestamp: a.StoreTimestamp, Messages: a.Messages, StoreHost: m.StoreHost}
	if a.Messages > 1 || strings.Contains(a.MsgID, ",") {
		for id := range strings.SplitSeq(a.MsgID, ",") {
			_, at, err := record.ParseOffsetMessageID(id)
			if err != nil {
				return res, err
			}
			res.Offsets = append(res.Offsets, at)
		}
	}
	return res, nil
}

func (r *remote) Put(ctx context.Context, m *record.Message) (store.PutResult, error) {
	if m == nil {
		return store.PutResult{}, store.ErrMessageIllegal
	}
	if err := ctx.Err(); err != nil {
		return store.PutResult{}, err
	}
	var a putAnswer
	err := r.ask("put", toWire(m, m.Body), &a)
	return r.putResult(m, a, err)
}

func (r *remote) PutBatch(ctx context.Context, m *record.Message, items []record.BatchItem) (store.PutResult, error) {
	if m == nil {
		return store.PutResult{}, store.ErrMessageIllegal
	}
	if err := ctx.Err(); err != nil {
		return store.PutResult{}, err
	}
	var a putAnswer
	err := r.ask("putBatch", toWire(m, batchBody(items)), &a)
	res, err := r.putResult(m, a, err)
	if err == nil && res.Offsets == nil {
		res.Offsets = []int64{res.PhyOffset}
	}
	return res, err
}

var getStatuses = func() map[string]store.GetStatus {
	m := map[string]store.GetStatus{}
	for s := store.Found; s <= store.NoMessageInQueue; s++ {
		m[s.String()] = s
	}
	return m
}()

func (r *remote) Get(ctx context.Context, q store.GetRequest) (*store.GetResult, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	most := min(q.MaxMessages, math.MaxInt32)
	switch {
	case most == 0:
		most = 32
	case most < 0:
		most = 0
	}
	var a getAnswer
	r.mu.Lock()
	if r.mu.closed {
		r.mu.Unlock()
		return nil, fmt.Errorf("get: %w", store.ErrClosed)
	}
	err := r.tellTimeLocked()
	if err == nil {
		a, err = r.mu.p.tryGet(q.Topic, q.QueueID, q.Offset, most, q.Filter)
	}
	r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	status, ok := getStatuses[a.Status]
	if !ok {
		return nil, fmt.Errorf("%s answers %s to a get", r.version, a.Status)
	}
	g := &store.GetResult{Status: status, NextBeginOffset: a.Next, MinOffset: a.Min, MaxOffset: a.Max, Bytes: a.Bytes, SuggestSlave: a.SuggestSlave}
	for _, rec := range a.Records {
		m, err := record.Decode(rec.Bytes)
		if err != nil {
			return nil, &store.CorruptError{Offset: rec.PhyOffset, Err: err}
		}
		g.Records = append(g.Records, store.NewView(rec.Bytes, rec.PhyOffset, nil))
		g.QueueOffsets = append(g.QueueOffsets, offsetIn(m, q.Topic, q.QueueID))
	}
	return g, nil
}

// offsetIn is the queue offset of m in a queue, which may be one of several that it is in.
func offsetIn(m *record.Message, topic string, queueID int32) int64 {
	names, _ := m.Properties.Get(record.PropertyMultiDispatch)
	offsets, _ := m.Properties.Get(record.PropertyMultiQueueOffset)
	if m.Topic == topic && m.QueueID == queueID || offsets == "" {
		return m.QueueOffset
	}
	at := strings.Split(offsets, ",")
	for i, name := range strings.Split(names, ",") {
		if name == topic && i < len(at) {
			var o int64
			if _, err := fmt.Sscan(at[i], &o); err == nil {
				return o
			}
		}
	}
	return -1
}

func (r *remote) queue(topic string, queueID int32) (a queueAnswer) {
	r.must("queue", at{Topic: topic, QueueID: queueID}, &a)
	return a
}

func (r *remote) MinOffset(topic string, queueID int32) int64 { return r.queue(topic, queueID).Min }
func (r *remote) MaxOffset(topic string, queueID int32) int64 { return r.queue(topic, queueID).Max }

func (r *remote) EarliestStoreTime(topic string, queueID int32) (time.Time, error) {
	var a queueAnswer
	if err := r.ask("queue", at{Topic: topic, QueueID: queueID}, &a); err != nil {
		return time.Time{}, err
	}
	if a.Earliest < 0 {
		return time.Time{}, store.ErrNotFound
	}
	return time.UnixMilli(a.Earliest), nil
}

// OffsetByTime has the original's own rule, Nearest. Lower and Upper came with 5.x: they are searched for here, by the store times that the engine tells.
func (r *remote) OffsetByTime(topic string, queueID int32, t time.Time, rule store.TimeRule) (int64, error) {
	if rule != store.Nearest {
		return r.searchByTime(topic, queueID, t, rule)
	}
	var a struct{ Offset int64 }
	err := r.ask("time", at{Topic: topic, QueueID: queueID, Time: milliseconds(t)}, &a)
	return a.Offset, err
}

func (r *remote) searchByTime(topic string, queueID int32, t time.Time, rule store.TimeRule) (int64, error) {
	q := r.queue(topic, queueID)
	var failed error
	after := q.Min + int64(sort.Search(int(q.Max-q.Min), func(i int) bool { // the first message of t or later; of Upper the first later than t
		stored, err := r.StoreTime(topic, queueID, q.Min+int64(i))
		failed = errors.Join(failed, err)
		return stored.After(t) || rule == store.Lower && stored.Equal(t)
	}))
	if rule == store.Upper {
		after = max(after-1, q.Min)
	}
	return after, failed
}

func (r *remote) StoreTime(topic string, queueID int32, queueOffset int64) (time.Time, error) {
	var a struct{ Time int64 }
	if err := r.ask("storeTime", at{Topic: topic, QueueID: queueID, Offset: queueOffset}, &a); err != nil {
		return time.Time{}, err
	}
	if a.Time < 0 {
		return time.Time{}, store.ErrNotFound
	}
	return time.UnixMilli(a.Time), nil
}

// PhyOffset: the original answers 0 to what it does not know; the log's first record is there, too.
func (r *remote) PhyOffset(topic string, queueID int32, queueOffset int64) (int64, error) {
	var a struct{ Offset int64 }
	if err := r.ask("phyOffset", at{Topic: topic, QueueID: queueID, Offset: queueOffset}, &a); err != nil {
		return 0, err
	}
	if a.Offset == 0 {
		if _, err := r.StoreTime(topic, queueID, queueOffset); err != nil {
			return 0, err
		}
	}
	return a.Offset, nil
}

func (r *remote) logEnds() (a logAnswer) {
	r.must("log", nil, &a)
	return a
}

func (r *remote) MinPhyOffset() int64 {
	if a := r.logEnds(); a.Max > a.Min {
		return a.Min
	}
	return -1 // the original makes its first file before the first message
}

func (r *remote) MaxPhyOffset() int64 { return r.logEnds().Max }

func (r *remote) Lookup(phyOffset int64) (*record.Message, error) {
	var a struct {
		Found     bool
		PhyOffset int64
	}
	if err := r.ask("look", at{Offset: phyOffset}, &a); err != nil {
		return nil, err
	}
	if !a.Found {
		return nil, store.ErrNotFound
	}
	var raw rawRecord
	if err := r.ask("lookup", at{Offset: phyOffset}, &raw); err != nil {
		return nil, err
	}
	m, err := record.Decode(raw.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s makes a message of what is none: %w", r.version, err)
	}
	return m.Clone(), nil
}

func (r *remote) LookupID(id string) (*record.Message, error) {
	_, at, err := record.ParseOffsetMessageID(id)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", store.ErrNotFound, err)
	}
	return r.Lookup(at)
}

// milliseconds is t as the wire has it; what lies beyond is at its ends.
func milliseconds(t time.Time) int64 {
	const end = 1 << 60
	switch {
	case t.Before(time.UnixMilli(-end)):
		return -end
	case t.After(time.UnixMilli(end)):
		return end
	}
	return t.UnixMilli()
}

func (r *remote) Query(ctx context.Context, q store.QueryRequest) (*store.QueryResult, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := queryArgs{q.Topic, q.Key, min(q.Max, math.MaxInt32), 0, 1 << 60}
	if w.Max == 0 {
		w.Max = 64
	}
	if !q.Begin.IsZero() {
		w.Begin = milliseconds(q.Begin)
	}
	if !q.End.IsZero() {
		w.End = milliseconds(q.End)
	}
	var a struct {
		Records              [][]byte
		LastTime, LastOffset int64
	}
	if err := r.ask("query", w, &a); err != nil {
		return nil, err
	}
	res := &store.QueryResult{IndexLastUpdateTime: a.LastTime, IndexLastUpdatePhyOffset: a.LastOffset, Complete: true, Source: store.IndexFile}
	for _, b := range a.Records {
		m, err := record.Decode(b)
		if err != nil {
			return nil, &store.CorruptError{Err: err}
		}
		res.Records = append(res.Records, store.NewView(b, m.PhyOffset, nil))
	}
	return res, nil
}

// dispatched waits until queues and index have what the log has.
func (r *remote) dispatched() error {
	var a struct{ Behind int64 }
	if err := r.ask("dispatched", map[string]any{"ms": 20_000}, &a); err != nil {
		return err
	}
	if a.Behind != 0 {
		return fmt.Errorf("%s is %d bytes behind", r.version, a.Behind)
	}
	return nil
}

func (r *remote) WaitIndexed(context.Context, int64) error { return r.dispatched() }

func (r *remote) CommitLogData(phyOffset int64, most int) (store.View, error) {
	var a rawRecord
	if err := r.ask("logData", at{Offset: phyOffset}, &a); err != nil {
		return store.View{}, err
	}
	if len(a.Bytes) == 0 {
		return store.View{}, store.ErrNotFound
	}
	if most > 0 && len(a.Bytes) > most {
		a.Bytes = a.Bytes[:most]
	}
	return store.NewView(a.Bytes, a.PhyOffset, nil), nil
}

func (r *remote) AppendToCommitLog(phyOffset int64, p []byte) error {
	var a struct{ OK bool }
	if err := r.ask("append", map[string]any{"offset": phyOffset, "bytes": p}, &a); err != nil {
		return err
	}
	if !a.OK {
		return fmt.Errorf("%s refuses %d bytes at %d", r.version, len(p), phyOffset)
	}
	return nil
}

// expire deletes the segments that end at or below phyOffset. The original goes by the age of files: they are made old. One that another of its threads holds just then, to flush it, is no part of its log
// any more, but stays on the disk, and would be part of it again after the next start: it is asked again.
func (r *remote) expire(phyOffset int64) (int64, error) {
	segment, ok := r.set["mappedFileSizeCommitLog"].(int64)
	if !ok {
		return 0, errors.New("the segments have no size")
	}
	if err := r.ask("flush", nil, nil); err != nil {
		return 0, err
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	stays := (r.logEnds().Max - 1) / segment * segment
	for late := time.Now().Add(10 * time.Second); ; <-tick.C {
		if _, err := r.age(segment, phyOffset); err != nil {
			return 0, err
		}
		var a struct{ Min int64 }
		if err := r.ask("deleteExpired", map[string]any{"below": phyOffset, "olderThan": 24 * time.Hour.Milliseconds()}, &a); err != nil {
			return 0, err
		}
		first, err := r.age(segment, phyOffset)
		if err != nil || first >= min(stays, phyOffset/segment*segment) || time.Now().After(late) {
			return a.Min, err
		}
	}
}

// age makes the segments that end at or below phyOffset old, and tells where the first one of all begins.
func (r *remote) age(segment, phyOffset int64) (first int64, err error) {
	names, err := filepath.Glob(filepath.Join(r.dir, "commitlog", "*"))
	if err != nil {
		return 0, err
	}
	first = math.MaxInt64
	for _, name := range names {
		var begin int64
		if _, err := fmt.Sscanf(filepath.Base(name), "%d", &begin); err != nil {
			return 0, err
		}
		first = min(first, begin)
		changed := time.Now()
		if begin+segment <= phyOffset {
			changed = changed.Add(-48 * time.Hour)
		}
		if err := os.Chtimes(name, changed, changed); err != nil {
			return 0, err
		}
	}
	return first, nil
}

// Queues is what the original knows of, in no order.
func (r *remote) Queues() (qs []store.QueueInfo) {
	var a struct{ Queues []queueAnswer }
	r.must("queues", nil, &a)
	for _, q := range a.Queues {
		qs = append(qs, store.QueueInfo{Topic: q.Topic, QueueID: q.QueueID, MinOffset: q.Min, MaxOffset: q.Max, Units: q.Max - q.Min})
	}
	return qs
}

// ScanLog walks the log by the bytes that replication sends.
func (r *remote) ScanLog(_ context.Context, from, to int64) iter.Seq2[*record.Message, error] {
	return func(yield func(*record.Message, error) bool) {
		end := min(to, r.MaxPhyOffset())
		var parser record.Parser
		for at := from; at < end; {
			v, err := r.CommitLogData(at, 0)
			if err != nil {
				yield(nil, err)
				return
			}
			at = v.PhyOffset
			for b := v.Bytes; len(b) > 0 && at < end; {
				var meta record.Meta
				if err := parser.Parse(b, at, &meta); err != nil {
					yield(nil, err)
					return
				}
				if meta.IsBlank() {
					at += int64(meta.Size)
					break
				}
				m, err := record.Decode(b[:meta.Size])
				if !yield(m, err) || err != nil {
					return
				}
				b, at = b[meta.Size:], at+int64(meta.Size)
			}
		}
	}
}
