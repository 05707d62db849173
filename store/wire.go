package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"sync"
	"time"

	"github.com/mqstore/mqstore/checkpoint"
	"github.com/mqstore/mqstore/commitlog"
	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/consumequeue"
	"github.com/mqstore/mqstore/dispatch"
	"github.com/mqstore/mqstore/ha"
	"github.com/mqstore/mqstore/store/internal/recovery"
)

// visibleLog is the log as the dispatcher may see it.
type visibleLog struct {
	*commitlog.Cursor
	log *commitlog.Log
	s   *DefaultMessageStore
}

func (l visibleLog) NotYet(err error) bool { return errors.Is(err, commitlog.ErrNotYet) }

// Next goes on where the log begins, if that is beyond the cursor: an empty slave's log begins where its master says.
func (l visibleLog) Next(m *record.Meta, end int64) error {
	max := l.log.MaxPhyOffset() // before the beginning, which may come in between
	first := l.log.MinPhyOffset()
	if first < 0 {
		first = max // it has begun there, and holds nothing yet
	}
	if l.Offset() < first {
		l.SeekTo(first)
	}
	return l.Cursor.Next(m, end)
}

// VisibleEnd can fall when a slave connects that holds less than the log: what was dispatched before stays so.
func (l visibleLog) VisibleEnd() int64 {
	end := l.log.MaxPhyOffset()
	if l.s.flushedOnly() {
		end = min(end, l.log.FlushedPhyOffset())
	}
	if m := l.s.confirming(); m != nil {
		end = min(end, m.ConfirmPhyOffset(l.s.o.HA.RequiredAcks))
	}
	return end
}

// VisiblePast waits for what is missing first. Whoever waits looks again.
func (l visibleLog) VisiblePast(past int64) <-chan struct{} {
	if l.s.flushedOnly() && l.log.FlushedPhyOffset() <= past {
		return l.log.FlushedPast(past)
	}
	if m := l.s.confirming(); m != nil {
		confirmed := m.ConfirmedPast(l.s.o.HA.RequiredAcks, past)
		if l.s.confirming() == nil {
			return closedChan // another role since: its wake-up may have come before we waited
		}
		return confirmed
	}
	return l.log.Grown(past)
}

// flushedOnly: consumers see only what is on this disk.
func (s *DefaultMessageStore) flushedOnly() bool {
	return s.o.FlushMode == SyncFlush && !s.o.ReadUncommitted
}

// confirming is the master whose slaves decide what consumers see; nil if none do.
func (s *DefaultMessageStore) confirming() *ha.Master {
	if s.o.ReadUncommitted || s.Role() != SyncMaster {
		return nil
	}
	return s.replication.master
}

// VisibleEnd is the physical offset up to which consumers may see messages: the log's end; in SyncFlush mode what is flushed; of a SyncMaster what as many slaves as a put waits for have acknowledged, unless there is none near enough
// (HAOptions.FallBehindMax) to be waited for. Options.ReadUncommitted lifts both.
func (s *DefaultMessageStore) VisibleEnd() int64 {
	return max(s.dispatcher.Offset(), s.visible().VisibleEnd())
}

func (s *DefaultMessageStore) visible() visibleLog { return visibleLog{s.cursor, s.log, s} }

// progress is the last record whose unit is in its queue. mu makes it agree with the queues' ends.
type progress struct {
	mu struct {
		sync.Mutex
		last record.Meta // without views; Size 0 = none
		end  int64       // queues hold every record that starts below
	}
}

type progressAt struct {
	last   record.Meta
	end    int64
	queues []consumequeue.Known
}

func (p *progress) snapshot(queues *consumequeue.Set) progressAt {
	p.mu.Lock()
	defer p.mu.Unlock()
	return progressAt{p.mu.last, p.mu.end, queues.Snapshot()}
}

func (at progressAt) summary(minPhyOffset int64, clean bool) *checkpoint.Summary {
	s := &checkpoint.Summary{Clean: clean, MinPhyOffset: minPhyOffset, EndPhyOffset: at.end, LastPhyOffset: -1}
	if at.last.Size > 0 && at.last.PhyOffset >= minPhyOffset { // else it expired, with all records
		s.LastPhyOffset, s.LastSize, s.LastStoreTime, s.LastBodyCRC = at.last.PhyOffset, at.last.Size, at.last.StoreTimestamp, at.last.BodyCRC
	}
	s.Queues = make([]checkpoint.QueueBounds, len(at.queues))
	for i, k := range at.queues {
		s.Queues[i] = checkpoint.QueueBounds{Topic: k.Topic, QueueID: k.QueueID, Min: k.Min, Max: k.Max, LastPhy: k.LastPhy}
	}
	return s
}

// startDispatch builds the dispatcher and dispatches what recovery left to the sinks.
func (s *DefaultMessageStore) startDispatch(opened *recovery.Opened) error {
	s.arrivals.init()
	s.dispatching.mu.end = opened.Dispatched
	s.findLast(opened.Dispatched)
	from := opened.Dispatched
	if len(s.o.Sinks) > 0 || s.o.Arrival != nil {
		from = opened.DispatchFrom
	}
	s.cursor = s.log.NewCursor(from)
	sinks := make([]dispatch.Sink, 0, len(s.o.Sinks)+1)
	for _, sink := range s.o.Sinks {
		sinks = append(sinks, sink)
	}
	s.dispatcher = dispatch.New(s.visible(), append(sinks, dispatch.SinkFunc(s.dispatchRecord))...)
	if err := s.dispatchRest(); err != nil {
		// Not a reason to stay closed: what is dispatched can be read, and dispatch is tried again. But offsets of what is not must be known.
		s.dispatchFailed(err)
		if s.trouble.final.Load() == nil {
			return s.raiseCounters()
		}
	}
	return nil
}

// findLast looks for the last record that starts below end: what a summary names. If the way there does not lead through (queues that nobody checked), the next summary names none.
func (s *DefaultMessageStore) findLast(end int64) {
	from := s.log.MinPhyOffset()
	if from < 0 {
		return
	}
	for _, k := range s.queues.Snapshot() {
		if k.LastPhy < end {
			from = max(from, k.LastPhy)
		}
	}
	c := s.log.NewCursor(from)
	defer c.Close()
	var m record.Meta
	for c.Offset() < end {
		err := c.Next(&m, end)
		if errors.Is(err, commitlog.ErrNotYet) {
			return
		} else if err != nil {
			s.o.Logger.Warn("last dispatched record not found", "dir", s.dir, "from", from, "err", err)
			s.dispatching.mu.last = record.Meta{}
			return
		}
		s.dispatching.mu.last = withoutViews(&m)
	}
}

// raiseCounters makes sure that no offset of a record that is not dispatched yet is given again.
func (s *DefaultMessageStore) raiseCounters() error {
	c := s.log.NewCursor(s.dispatcher.Offset())
	defer c.Close()
	var m record.Meta
	for {
		err := c.Next(&m, math.MaxInt64)
		if errors.Is(err, commitlog.ErrNotYet) {
			return nil
		} else if err != nil {
			return err
		}
		s.raiseCounter(&m, m.Topic, m.QueueID, m.QueueOffset)
		if s.o.MultiDispatch {
			for at := range multiSlots(&m) {
				s.raiseCounter(&m, at.Topic, at.QueueID, at.QueueOffset)
			}
		}
	}
}

// raiseCounter makes the next offset of a queue lie beyond m's.
func (s *DefaultMessageStore) raiseCounter(m *record.Meta, topic string, queueID int32, queueOffset int64) {
	if !m.HasUnit() || queueOffset > recovery.MaxQueueOffset {
		return
	}
	s.counters.get(topic, queueID).Raise(queueOffset + 1)
}

func withoutViews(m *record.Meta) record.Meta {
	last := *m
	last.Properties, last.Bitmap = nil, nil
	return last
}

// dispatchRecord is the dispatcher's last sink, behind the caller's: the queue, then whoever waits.
func (s *DefaultMessageStore) dispatchRecord(m *record.Meta) error {
	switch err := s.dispatchUnit(m); {
	case noQueue(err): // from a master without our checks: it has no place in any queue, now or ever
		s.o.Logger.Warn("record without a queue", "dir", s.dir, "err", err)
		s.o.Events.DispatchFailed(err)
	case err != nil:
		return err
	}
	if s.trouble.dispatch.Load() != nil {
		s.trouble.dispatch.Store(nil)
		s.o.Logger.Info("dispatch goes on", "dir", s.dir, "phyOffset", m.PhyOffset)
	}
	s.arrived(m, m.Topic, m.QueueID, m.QueueOffset)
	if s.o.MultiDispatch {
		for at := range multiSlots(m) {
			s.arrived(m, at.Topic, at.QueueID, at.QueueOffset)
		}
	}
	return nil
}

// arrived tells of m in one queue.
func (s *DefaultMessageStore) arrived(m *record.Meta, topic string, queueID int32, queueOffset int64) {
	if s.Role() == Slave || m.PhyOffset < s.rawBegun.Load() {
		s.raiseCounter(m, topic, queueID, queueOffset)
	}
	s.arrivals.notify(topic, queueID)
	if s.o.Arrival != nil {
		s.o.Arrival(Arrival{Topic: topic, QueueID: queueID, NextOffset: queueOffset + 1, TagsCode: m.TagsCode, StoreTimestamp: m.StoreTimestamp, Properties: m.Properties})
	}
}

// noQueue reports whether err says that no queue can ever hold the record: its topic is no name, its queue offset no number of a unit. Recovery passes over the same ones.
func noQueue(err error) bool {
	return errors.Is(err, consumequeue.ErrName) || errors.Is(err, consumequeue.ErrMalformed) && !errors.Is(err, mappedfile.ErrCorrupt)
}

// multiSlots yields the places of m's units in other queues than its own (INNER_MULTI_DISPATCH).
func multiSlots(m *record.Meta) iter.Seq[consumequeue.Slot] {
	return func(yield func(consumequeue.Slot) bool) {
		own := true
		for at := range consumequeue.Slots(m, true) {
			if !own && !yield(at) {
				return
			}
			own = false
		}
	}
}

func (s *DefaultMessageStore) dispatchUnit(m *record.Meta) error {
	s.dispatching.mu.Lock()
	defer s.dispatching.mu.Unlock()
	var homeless error
	if m.PhyOffset >= s.recovered {
		if err := s.appendUnits(m); noQueue(err) {
			homeless = err
		} else if err != nil {
			return err
		}
	}
	if end := m.PhyOffset + int64(m.Size); end > s.dispatching.mu.end || s.dispatching.mu.last.Size == 0 {
		s.dispatching.mu.end = max(end, s.dispatching.mu.end)
		s.dispatching.mu.last = withoutViews(m)
	}
	return homeless
}

// appendUnits gives m its units, all of them although some cannot be.
func (s *DefaultMessageStore) appendUnits(m *record.Meta) error {
	var homeless error
	switch {
	case m.HasUnit() && m.QueueOffset > recovery.MaxQueueOffset:
		homeless = fmt.Errorf("dispatch record at %d to %s-%d: queue offset %d: %w", m.PhyOffset, m.Topic, m.QueueID, m.QueueOffset, consumequeue.ErrMalformed)
	default:
		if homeless = s.queues.Dispatch(m); homeless != nil && !noQueue(homeless) {
			return homeless
		}
	}
	if !s.o.MultiDispatch {
		return homeless
	}
	for at := range multiSlots(m) {
		if at.QueueOffset > recovery.MaxQueueOffset {
			continue
		}
		if err := s.queues.Append(at, m); err != nil && !noQueue(err) {
			return err
		}
	}
	return homeless
}

// DispatchStep dispatches at most max records and returns how many; 0 and nil when there is nothing more yet. It is for stores without background goroutines; sinks run within it and must not call it.
func (s *DefaultMessageStore) DispatchStep(max int) (n int, err error) {
	if s.closing.Load() {
		return 0, ErrClosed
	}
	if !s.o.NoBackground {
		return 0, errors.New("store: DispatchStep is for stores that were opened with Options.NoBackground: this one dispatches by itself")
	}
	if n, err = s.stepUnlessClosing(max); err != nil && !errors.Is(err, ErrClosed) {
		err = s.dispatchFailed(err)
	}
	return n, err
}

func (s *DefaultMessageStore) stepUnlessClosing(max int) (n int, err error) {
	s.stepMu.queues.Lock()
	defer s.stepMu.queues.Unlock()
	if s.closing.Load() { // Close finishes what is left, and takes the cursor away
		return 0, ErrClosed
	}
	return s.dispatcher.Step(max)
}

// stepDispatch is for the store itself, while no goroutine of it dispatches.
func (s *DefaultMessageStore) stepDispatch(max int) (n int, err error) {
	s.stepMu.queues.Lock()
	defer s.stepMu.queues.Unlock()
	return s.dispatcher.Step(max)
}

// dispatchRest dispatches all that is visible.
func (s *DefaultMessageStore) dispatchRest() error {
	for {
		n, err := s.stepDispatch(dispatchBatch)
		if err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
	}
}

const (
	dispatchBatch    = 1024 // records between two looks at the context
	dispatchRetryMin = 10 * time.Millisecond
	dispatchRetryMax = time.Second
)

// pauseDispatch ends the goroutine that dispatches, if there is one; the caller holds roleMu, or closes. resumeDispatch starts it again.
func (s *DefaultMessageStore) pauseDispatch() {
	if s.dispatchLoop.stop != nil {
		s.dispatchLoop.stop()
		s.dispatchLoop.Wait()
		s.dispatchLoop.stop = nil
	}
}

func (s *DefaultMessageStore) resumeDispatch() {
	if s.o.NoBackground {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	s.dispatchLoop.stop = stop
	s.dispatchLoop.Go(func() { s.runDispatch(ctx) })
}

// runDispatch dispatches until ctx is done, or damage or a hole ends it. Whatever else holds it up is tried again.
func (s *DefaultMessageStore) runDispatch(ctx context.Context) {
	wait := dispatchRetryMin
	for {
		before := s.dispatcher.Offset()
		err := s.dispatcher.Run(ctx)
		if ctx.Err() != nil || err == nil {
			return
		}
		s.dispatchFailed(err)
		if !passing(err) {
			return
		}
		if s.dispatcher.Offset() > before {
			wait = dispatchRetryMin
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-s.arrivals.poked:
			timer.Stop()
		case <-timer.C:
		}
		wait = min(2*wait, dispatchRetryMax)
	}
}

// passing reports whether what held dispatch up can go away while the store is open.
func passing(err error) bool {
	return !errors.Is(err, mappedfile.ErrCorrupt) && !errors.Is(err, consumequeue.ErrGap) && !errors.Is(err, commitlog.ErrClosed)
}

// dispatchFailed notes and reports why dispatch stands still, once per reason.
func (s *DefaultMessageStore) dispatchFailed(err error) error {
	err = fmt.Errorf("dispatch stands at %d: %w", s.dispatcher.Offset(), fromBelow(err))
	if !passing(err) || errors.Is(err, ErrCorrupt) {
		if s.trouble.fail(err) {
			s.o.Logger.Error("dispatch stopped", "dir", s.dir, "err", err)
			s.o.Events.Damage(err)
		}
		return err
	}
	before := s.trouble.dispatch.Swap(&err)
	if before != nil && (*before).Error() == err.Error() {
		return err
	}
	s.o.Logger.Warn("dispatch held up", "dir", s.dir, "err", err)
	if errors.Is(err, ErrDiskFull) {
		if before == nil {
			s.o.Events.DiskFull(err)
		}
		return err
	}
	s.o.Events.DispatchFailed(err)
	return err
}

// AppendToCommitLog appends bytes of a master's log, which must start at MaxPhyOffset (*OffsetMismatchError otherwise; an empty log begins there) and not cross a segment's end. It is a slave's way in and wakes the same dispatcher as puts do.
// The bytes may end inside a record: that beginning is received, and gets into the log when the rest has come with later calls. On a master, later puts wait until what was appended so is dispatched; puts at the same time are not for this.
func (s *DefaultMessageStore) AppendToCommitLog(phyOffset int64, p []byte) error {
	if !s.gate.enter() {
		if !s.closing.Load() {
			return fmt.Errorf("%w: %w", ErrServiceNotAvailable, errChangingRole)
		}
		return ErrClosed
	}
	defer s.gate.leave()
	if s.closing.Load() {
		return ErrClosed
	}
	if err := s.healthy(); err != nil {
		return err
	}
	s.rawMu.Lock()
	defer s.rawMu.Unlock()
	if err := s.appendRaw(phyOffset, p); err != nil {
		if flushErr := s.log.Err(); flushErr != nil {
			s.flushFailed(flushErr)
			return fmt.Errorf("%w: %w", ErrFlushFailed, flushErr)
		}
		if errors.Is(err, mappedfile.ErrDiskFull) {
			err = refused(err)
			s.diskFull(err)
			return err
		}
		return refused(err)
	}
	if s.trouble.full.Load() != nil {
		s.trouble.full.Store(nil)
	}
	return nil
}

// awaitRaw holds a put back until the raw bytes before it are dispatched, since they may have used offsets of its queue.
func (s *DefaultMessageStore) awaitRaw(ctx context.Context, end int64) error {
	if s.o.NoBackground {
		if err := s.dispatchRest(); err != nil {
			return s.dispatchFailed(err)
		}
		if s.dispatcher.Offset() >= end {
			return nil
		}
		return fmt.Errorf("%w: the raw bytes before %d are not dispatched yet (flush them, or append the rest of their last record)", ErrServiceNotAvailable, end)
	}
	timer := time.NewTimer(s.o.SyncFlushTimeout)
	defer timer.Stop()
	select {
	case <-s.dispatcher.Past(end):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return fmt.Errorf("%w: the raw bytes before %d are not dispatched yet; do they end inside a record?", ErrServiceNotAvailable, end)
	}
}

// FlushedPhyOffset is how far the log is on disk.
func (s *DefaultMessageStore) FlushedPhyOffset() int64 { return s.log.FlushedPhyOffset() }

// DispatchedPhyOffset is how far the log is dispatched.
func (s *DefaultMessageStore) DispatchedPhyOffset() int64 { return s.dispatcher.Offset() }

// Grown is closed once MaxPhyOffset is beyond past.
func (s *DefaultMessageStore) Grown(past int64) <-chan struct{} { return s.log.Grown(past) }
