package workload

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// Store is the least that a workload runs on.
type Store interface {
	store.Putter
	store.Getter
	store.OffsetReader
	io.Closer
}

// Reopener can be closed and opened again. The same value goes on.
type Reopener interface{ Reopen() error }

// Crasher can lose its process or its machine, and is open again afterwards. Power: of what was not durable, seed decides what survives.
type Crasher interface {
	Crash(how Ending, seed uint64) error
}

// Clock is a store whose time is what it was last told; StartTime before that.
type Clock interface{ SetNow(t time.Time) }

// Settler is a store that answers reads from what it derives of its log. Settle makes everything put so far visible to them.
type Settler interface {
	Settle(ctx context.Context) error
}

// Expirer deletes from the log's head.
type Expirer interface {
	DeleteExpired(o store.ExpireOptions) (store.ExpireReport, error)
}

// RawAppender takes the bytes of a master's log.
type RawAppender interface {
	AppendToCommitLog(phyOffset int64, p []byte) error
}

// StartTime is the clock at a workload's beginning, in ms.
const StartTime = 1_700_000_000_000

// Runner drives a store, one operation at a time. It keeps what references need: what was stored where, and the clock.
type Runner struct {
	s       Store
	setup   Setup
	now     int64
	placed  []placed // messages stored, in order
	pending []pending
	rest    []byte // of a raw append that was cut
	resting placed // what it is when it is whole
	durable int64  // no power loss may take what ends at or below,
	told    int64  // and no kill this: what was answered

	// HideTimes leaves store times out of answers and of the checksums of records, for stores whose clock cannot be set.
	HideTimes bool
}

type placed struct {
	phy, end, at, time int64
	host               record.Host
}

type pending struct {
	f    *store.Future
	m    *record.Message
	wait bool
}

// NewRunner is for a store that was just opened for setup, and is empty.
func NewRunner(s Store, setup Setup) *Runner {
	r := &Runner{s: s, setup: setup, now: StartTime}
	r.tellTime()
	return r
}

func (r *Runner) tellTime() {
	if c, ok := r.s.(Clock); ok {
		c.SetNow(time.UnixMilli(r.now))
	}
}

// Abilities is the kinds of operations that s can do.
func Abilities(s Store) []Kind {
	return slices.DeleteFunc(Kinds(), func(k Kind) bool { return !able(s, k) })
}

func able(s Store, k Kind) (ok bool) {
	switch k {
	case Async, Await:
		_, ok = s.(store.AsyncPutter)
	case Batch:
		_, ok = s.(store.BatchPutter)
	case Append:
		_, ok = s.(RawAppender)
	case Lookup, LookupID:
		_, ok = s.(store.Looker)
	case Query:
		_, ok = s.(store.Querier)
	case Scan, Log, Whole:
		_, ok = s.(store.Scanner)
	case Flush:
		_, ok = s.(store.Admin)
	case Expire:
		_, ok = s.(Expirer)
	case Reopen:
		_, ok = s.(Reopener)
	case Crash:
		_, ok = s.(Crasher)
	case SetClock:
		_, ok = s.(Clock)
	default:
		ok = true
	}
	return ok
}

// Do does one operation and tells what the store answered. A panic is an answer, too.
func (r *Runner) Do(ctx context.Context, o Op) (a Answer) {
	defer func() {
		if p := recover(); p != nil {
			a = Answer{Status: Panic, Note: fmt.Sprintf("%v: %s", p, debug.Stack())}
		}
	}()
	if !able(r.s, o.Kind) {
		return unable("the store cannot " + string(o.Kind))
	}
	switch o.Kind {
	case Put:
		m := o.Message.record(o.Topic, o.Queue)
		res, err := r.s.Put(ctx, m)
		return r.put(m, res, err)
	case Async:
		m := o.Message.record(o.Topic, o.Queue)
		f := r.s.(store.AsyncPutter).PutAsync(m)
		r.pending = append(r.pending, pending{f: f, m: m, wait: waits(m)})
		a := Answer{Status: OK}
		if m.Size > 0 && m.StoreTimestamp != 0 { // appended; the answer comes later
			r.place(m, m.PhyOffset, m.Size, m.QueueOffset, m.StoreTimestamp)
			a.add("phy", m.PhyOffset)
			select {
			case <-f.Done():
				r.told = max(r.told, m.PhyOffset+int64(m.Size))
			default:
			}
		}
		return a
	case Await:
		return r.await(ctx)
	case Batch:
		return r.batch(ctx, &o)
	case Flush:
		return r.flush()
	case Reopen, Crash:
		return r.restart(ctx, &o)
	case SetClock:
		if r.now += o.Add; o.Set != 0 {
			r.now = o.Set
		}
		r.tellTime()
		return Answer{Status: OK}
	}
	if s, ok := r.s.(Settler); ok {
		if err := s.Settle(ctx); err != nil {
			return failed(fmt.Errorf("settle: %w", err))
		}
	}
	return r.ask(ctx, &o)
}

// waits reports whether a put of m is answered when it is durable.
func waits(m *record.Message) bool {
	v, ok := m.Properties.Get(record.PropertyWait)
	return !ok || strings.EqualFold(v, "true")
}

func (r *Runner) place(m *record.Message, phy int64, size int, at, ms int64) {
	r.placed = append(r.placed, placed{phy, phy + int64(size), at, ms, m.StoreHost})
}

// acked notes what a put's answer promises.
func (r *Runner) acked(res store.PutResult, wait bool) {
	r.told = max(r.told, res.PhyOffset+int64(res.Size))
	if r.setup.Flush == store.SyncFlush && wait && res.Status != store.FlushDiskTimeout {
		r.durable = max(r.durable, res.PhyOffset+int64(res.Size))
	}
}

func (r *Runner) refused(err error) Answer {
	a := failed(err)
	a.add("name", store.StatusName(err))
	return a
}

func (r *Runner) put(m *record.Message, res store.PutResult, err error) Answer {
	if err != nil {
		return r.refused(err)
	}
	r.place(m, res.PhyOffset, res.Size, res.QueueOffset, res.StoreTimestamp)
	r.acked(res, waits(m))
	return r.stored(m, res)
}

// stored is a single put's answer, and what the store wrote into the message.
func (r *Runner) stored(m *record.Message, res store.PutResult) Answer {
	a := Answer{Status: res.Status.String()}
	a.add("phy", res.PhyOffset)
	a.add("size", res.Size)
	a.add("at", res.QueueOffset)
	r.addTime(&a, "time", res.StoreTimestamp)
	a.add("n", res.Messages)
	a.add("id", res.MessageID())
	a.add("crc", fmt.Sprintf("%08x", m.BodyCRC))
	a.add("sys", fmt.Sprintf("%#x", int32(m.SysFlag)))
	if m.PhyOffset != res.PhyOffset || m.QueueOffset != res.QueueOffset || m.StoreTimestamp != res.StoreTimestamp || m.Size != res.Size {
		a.add("message", fmt.Sprintf("%d+%d@%d", m.PhyOffset, m.Size, m.QueueOffset))
	}
	return a
}

func (r *Runner) addTime(a *Answer, name string, ms int64) {
	if !r.HideTimes {
		a.add(name, ms)
	}
}

func (r *Runner) batch(ctx context.Context, o *Op) Answer {
	m, items := o.Message.record(o.Topic, o.Queue), o.items()
	m.Body = nil
	res, err := r.s.(store.BatchPutter).PutBatch(ctx, m, items)
	if err != nil {
		return r.refused(err)
	}
	for i, phy := range res.Offsets {
		end, at := res.PhyOffset+int64(res.Size), res.QueueOffset
		if i+1 < len(res.Offsets) {
			end = res.Offsets[i+1]
		}
		if m.SysFlag.Transaction().HasUnit() {
			at += int64(i)
		}
		r.place(m, phy, int(end-phy), at, res.StoreTimestamp)
	}
	r.acked(res, waits(m))
	a := Answer{Status: res.Status.String()}
	a.add("phy", res.PhyOffset)
	a.add("size", res.Size)
	a.add("at", res.QueueOffset)
	r.addTime(&a, "time", res.StoreTimestamp)
	a.add("n", res.Messages)
	a.add("offsets", strings.Trim(strings.ReplaceAll(fmt.Sprint(res.Offsets), " ", ","), "[]"))
	a.add("ids", fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(res.MessageID()))))
	return a
}

// awaitTimeout is for stores that never answer: a fault to be found, and not to be waited for.
const awaitTimeout = 30 * time.Second

// await collects the answers of async puts.
func (r *Runner) await(ctx context.Context) Answer {
	if s, ok := r.s.(Settler); ok { // a store without goroutines flushes when it is told
		if err := s.Settle(ctx); err != nil {
			return failed(fmt.Errorf("settle: %w", err))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, awaitTimeout)
	defer cancel()
	a := Answer{Status: OK}
	for _, p := range r.pending {
		res, err := p.f.Wait(ctx)
		if err != nil {
			a.add("put", ErrorName(err)+":"+store.StatusName(err))
			a.Note += err.Error() + " "
			continue
		}
		r.acked(res, p.wait)
		one := r.stored(p.m, res)
		a.add("put", one.String())
	}
	r.pending = nil
	return a
}

func (r *Runner) flush() Answer {
	flushed, err := r.s.(store.Admin).Flush()
	if err != nil {
		return failed(err)
	}
	r.durable = max(r.durable, flushed)
	a := Answer{Status: OK}
	a.add("flushed", flushed)
	return a
}

// restart closes or crashes, opens again, and holds the store to what it has acknowledged.
func (r *Runner) restart(ctx context.Context, o *Op) Answer {
	before := r.wholeEnd()
	if d, ok := r.s.(interface{ FlushedPhyOffset() int64 }); ok {
		r.durable = max(r.durable, min(before, d.FlushedPhyOffset()))
	}
	must := before
	var err error
	switch {
	case o.Kind == Reopen:
		err = r.s.(Reopener).Reopen()
	default:
		if must = max(r.told, r.durable); o.How == Power {
			must = r.durable
		}
		r.pending = nil
		err = r.s.(Crasher).Crash(o.How, o.Seed)
	}
	if err != nil {
		return failed(err)
	}
	end := r.s.MaxPhyOffset()
	a := Answer{Status: OK}
	if o.Kind == Reopen {
		if len(r.pending) > 0 {
			a.Fields = append(a.Fields, r.await(ctx).Fields...)
		}
		must = max(must, r.durable)
	}
	if _, follows := r.s.(Follower); !follows && (end < must || end > before) { // who follows loses what the other has lost
		a.Status = Lost
		a.Note = fmt.Sprintf("the log ended at %d, and had to end at %d at least", before, must)
	}
	a.add("end", end)
	if o.Kind == Crash {
		r.addEmpty(&a)
	}
	r.rest = nil
	r.durable, r.told = min(r.durable, end), min(r.told, end)
	r.placed = slices.DeleteFunc(r.placed, func(p placed) bool { return p.phy >= end })
	return a
}

// addEmpty adds where queues go on that a crash left without a message: at any offset up to the one that was next.
func (r *Runner) addEmpty(a *Answer) {
	if s, ok := r.s.(store.Scanner); ok {
		for _, q := range s.Queues() {
			if q.Units == 0 && q.MaxOffset > 0 {
				a.add("empty", fmt.Sprintf("%s/%d@%d", q.Topic, q.QueueID, q.MaxOffset))
			}
		}
	}
}

// wholeEnd is where the log's last whole record ends.
func (r *Runner) wholeEnd() int64 {
	if d, ok := r.s.(store.Admin); ok {
		return d.Stats().MaxPhyOffset
	}
	return r.s.MaxPhyOffset()
}

// back is the n-th last message stored.
func (r *Runner) back(n int) placed {
	if n < 1 || n > len(r.placed) {
		return placed{}
	}
	return r.placed[len(r.placed)-n]
}

// sum is a checksum of a record's bytes.
func (r *Runner) sum(b []byte) string {
	if r.HideTimes {
		if m, err := record.Decode(b); err == nil {
			b = slices.Clone(b)
			record.Patch(b, m.QueueOffset, m.PhyOffset, 0)
		}
	}
	return fmt.Sprintf("%08x", crc32.ChecksumIEEE(b))
}

// messageSum is a checksum of all that a message says, with the names that it gives itself.
func (r *Runner) messageSum(m *record.Message) string {
	ms := m.StoreTimestamp
	if r.HideTimes {
		ms = 0
	}
	h := crc32.NewIEEE()
	fmt.Fprintf(h, "%q %d %d %d %d %d %s %s %d %d %d %d %08x %q %q", m.Topic, m.QueueID, m.QueueOffset, m.Flag, m.SysFlag, m.BornTimestamp, m.BornHost, m.StoreHost, m.ReconsumeTimes, m.PreparedTransactionOffset, ms, m.Size, m.BodyCRC, m.Body, m.Properties)
	return fmt.Sprintf("%08x", h.Sum32())
}

func (r *Runner) expire(o *Op) Answer {
	if o.Segments <= 0 {
		return Answer{Status: OK, Note: "nothing to delete"}
	}
	rep, err := r.s.(Expirer).DeleteExpired(store.ExpireOptions{Manual: true, Max: o.Segments})
	a, bad := r.errAnswer(err)
	if bad {
		return a
	}
	a.add("min", rep.MinPhyOffset)
	return a
}
