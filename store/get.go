package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mqstore/mqstore/commitlog"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/consumequeue"
)

// reader is what a store that is open for writing and one that is only looked at have in common.
type reader struct {
	o          Options
	log        *commitlog.Log
	queues     *consumequeue.Set
	gets, miss atomic.Int64
	readClosed atomic.Bool
	role       atomic.Uint32 // a Role
}

const (
	defaultMaxMessages = 32
	minScanBytes       = 16000 // of units, in one Get: spec/dispatch-and-read.md 5.3
)

// Get reads up to r.MaxMessages messages of a queue from r.Offset on that the filter lets through, as RocketMQ 4.9.8 does (spec/dispatch-and-read.md 5.3): the first match is always returned, then at most 256 KiB or 32 messages
// (64 KiB or 8 when they are so old that they are likely not in memory); at most max(800, MaxMessages) units of one queue file are looked at. Call Release on the result. An error is damage (*CorruptError), I/O, or ErrClosed.
func (s *reader) Get(ctx context.Context, r GetRequest) (*GetResult, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.readClosed.Load() {
		return nil, ErrClosed
	}
	s.gets.Add(1)
	res, err := s.get(r)
	if err != nil {
		return nil, fmt.Errorf("get %s/%d at %d: %w", r.Topic, r.QueueID, r.Offset, fromBelow(err))
	}
	if res.Status != Found {
		s.miss.Add(1)
	}
	return res, nil
}

func (s *reader) get(r GetRequest) (*GetResult, error) {
	corrected := func(offset int64) int64 {
		if s.Role() == Slave && !s.o.OffsetCheckInSlave {
			return r.Offset
		}
		return offset
	}
	maxPhy := s.log.MaxPhyOffset() // before the queue's end: no unit read below points beyond it
	q := s.queues.Queue(r.Topic, r.QueueID)
	if q == nil {
		return &GetResult{Status: NoMessageInQueue, NextBeginOffset: corrected(0)}, nil
	}
	for {
		first, end := q.MinOffset(), q.MaxOffset()
		res := GetResult{MinOffset: first, MaxOffset: end}
		switch {
		case end == 0:
			res.Status, res.NextBeginOffset = NoMessageInQueue, corrected(0)
		case r.Offset < first:
			res.Status, res.NextBeginOffset = OffsetTooSmall, corrected(first)
		case r.Offset == end:
			res.Status, res.NextBeginOffset = OffsetOverflowOne, corrected(r.Offset)
		case r.Offset > end:
			res.Status, res.NextBeginOffset = OffsetOverflowBadly, corrected(end)
		default:
			units, err := q.View(r.Offset)
			if errors.Is(err, consumequeue.ErrNoUnit) {
				if q.MinOffset() > r.Offset {
					continue // expired since
				}
				perFile := q.UnitsPerFile()
				res.Status, res.NextBeginOffset = OffsetFoundNull, corrected(r.Offset+perFile-r.Offset%perFile)
				break
			} else if err != nil {
				return nil, err
			}
			return s.scanUnits(&r, q, units, maxPhy, first, end)
		}
		answer := res // a get that finds something must not allocate for this
		return &answer, nil
	}
}

// MinOffset is the first queue offset held; 0 for an unknown queue.
func (s *reader) MinOffset(topic string, queueID int32) int64 {
	if q := s.queues.Queue(topic, queueID); q != nil {
		return q.MinOffset()
	}
	return 0
}

// MaxOffset is one past the last queue offset that Get can return; 0 for an unknown queue.
func (s *reader) MaxOffset(topic string, queueID int32) int64 {
	if q := s.queues.Queue(topic, queueID); q != nil {
		return q.MaxOffset()
	}
	return 0
}

// MessagesInQueue is MaxOffset - MinOffset; 0 for an unknown queue.
func (s *reader) MessagesInQueue(topic string, queueID int32) int64 {
	if q := s.queues.Queue(topic, queueID); q != nil {
		first := q.MinOffset() // before the end, which it may follow
		return q.MaxOffset() - first
	}
	return 0
}

// OffsetByTime finds the queue offset of the message stored at t by the rule; 0 for an unknown or empty queue.
func (s *reader) OffsetByTime(topic string, queueID int32, t time.Time, r TimeRule) (int64, error) {
	q := s.queues.Queue(topic, queueID)
	if q == nil {
		return 0, nil
	}
	rule := consumequeue.Nearest
	switch r {
	case Lower:
		rule = consumequeue.Lower
	case Upper:
		rule = consumequeue.Upper
	}
	for {
		minPhyOffset, minOffset := max(s.log.MinPhyOffset(), 0), q.MinOffset()
		queueOffset, err := q.OffsetByTime(t.UnixMilli(), rule, minPhyOffset)
		switch {
		case err == nil:
			return queueOffset, nil
		case s.log.MinPhyOffset() > minPhyOffset || q.MinOffset() > minOffset: // a deletion took what the search looked at
		default:
			return 0, fmt.Errorf("offset of %s/%d by time: %w", topic, queueID, fromBelow(err))
		}
	}
}

func (s *reader) unit(topic string, queueID int32, queueOffset int64) (consumequeue.Unit, error) {
	q := s.queues.Queue(topic, queueID)
	if q == nil {
		return consumequeue.Unit{}, fmt.Errorf("queue %s/%d: %w", topic, queueID, ErrNotFound)
	}
	u, err := q.Unit(queueOffset)
	if err != nil {
		return u, fmt.Errorf("queue %s/%d at %d: %w", topic, queueID, queueOffset, fromBelow(err))
	}
	return u, nil
}

// StoreTime is when the message at queueOffset was stored. ErrNotFound: no such message, or its record was deleted.
func (s *reader) StoreTime(topic string, queueID int32, queueOffset int64) (time.Time, error) {
	u, err := s.unit(topic, queueID, queueOffset)
	if err != nil {
		return time.Time{}, err
	}
	ms, err := s.log.StoreTime(u.PhyOffset, int(u.Size))
	if err != nil {
		return time.Time{}, fmt.Errorf("store time of %s/%d at %d: %w", topic, queueID, queueOffset, fromBelow(err))
	}
	return time.UnixMilli(ms), nil
}

// PhyOffset is where the record of the message at queueOffset lies. ErrNotFound: no such message.
func (s *reader) PhyOffset(topic string, queueID int32, queueOffset int64) (int64, error) {
	u, err := s.unit(topic, queueID, queueOffset)
	return u.PhyOffset, err
}

// EarliestStoreTime is when the first message held by the queue was stored. ErrNotFound: the queue is empty or unknown.
func (s *reader) EarliestStoreTime(topic string, queueID int32) (time.Time, error) {
	return s.StoreTime(topic, queueID, s.MinOffset(topic, queueID))
}

// FirstStoreTime is when the first record of the log was stored. ErrNotFound: the log is empty.
func (s *reader) FirstStoreTime() (time.Time, error) {
	c := s.log.NewCursor(max(s.log.MinPhyOffset(), 0))
	defer c.Close()
	var m record.Meta
	switch err := c.Next(&m, s.log.MaxPhyOffset()); {
	case errors.Is(err, commitlog.ErrNotYet):
		return time.Time{}, ErrNotFound
	case err != nil:
		return time.Time{}, fromBelow(err)
	}
	return time.UnixMilli(m.StoreTimestamp), nil
}

// MinPhyOffset is where the log begins; -1 if it is empty.
func (s *reader) MinPhyOffset() int64 { return s.log.MinPhyOffset() }

// MaxPhyOffset is where the log ends: one past its last byte.
func (s *reader) MaxPhyOffset() int64 { return s.log.MaxPhyOffset() }

// SegmentSize is the size of a commit log file.
func (s *reader) SegmentSize() int64 { return s.log.SegmentSize() }

// fallback is the original's rule for reads at 0: the first segment that there is.
func (s *reader) fallback(phyOffset int64) int64 {
	if phyOffset == 0 {
		return max(s.log.MinPhyOffset(), 0)
	}
	return phyOffset
}

// Lookup reads and checks (sizes, position, CRC) the record at phyOffset; 0 finds the first record of the log, whatever its offset. The message is a copy.
// Errors: ErrNotFound outside the log, ErrNotARecord inside a record or at an end-of-file blank, *CorruptError for a damaged record.
func (s *reader) Lookup(phyOffset int64) (*record.Message, error) {
	if s.readClosed.Load() {
		return nil, ErrClosed
	}
	phyOffset = s.fallback(phyOffset)
	m, v, err := s.log.Message(phyOffset)
	if err != nil {
		return nil, fmt.Errorf("look up %d: %w", phyOffset, fromBelow(err))
	}
	defer v.Release()
	return clone(m), nil
}

// LookupID is Lookup by offset message id (PutResult.MessageID). A malformed id is ErrNotFound; so is one of another store's address if there is no record at its offset.
func (s *reader) LookupID(messageID string) (*record.Message, error) {
	_, phyOffset, err := record.ParseOffsetMessageID(messageID)
	if err != nil {
		return nil, fmt.Errorf("look up message id %q: %w: %w", messageID, ErrNotFound, err)
	}
	m, err := s.Lookup(phyOffset)
	if err == nil && !strings.EqualFold(m.OffsetMessageID(), messageID) {
		return nil, fmt.Errorf("look up message id %q: %w: the message at %d is %s", messageID, ErrNotFound, phyOffset, m.OffsetMessageID())
	}
	return m, err
}

// clone is m with bytes of its own.
func clone(m *record.Message) *record.Message {
	c := *m
	c.Body = append([]byte(nil), m.Body...)
	c.Properties = append(record.Properties(nil), m.Properties...)
	return &c
}

// CommitLogData is the log's bytes from phyOffset on, to the readable end of that segment and at most max bytes (0: no bound): what replication sends. Offset 0 finds the log's beginning; the view's PhyOffset tells.
// ErrNotFound outside the log.
func (s *reader) CommitLogData(phyOffset int64, max int) (View, error) {
	if s.readClosed.Load() {
		return View{}, ErrClosed
	}
	phyOffset = s.fallback(phyOffset)
	v, err := s.log.ViewRest(phyOffset)
	if err != nil {
		return View{}, fmt.Errorf("log data at %d: %w", phyOffset, fromBelow(err))
	}
	b := v.Bytes
	if max > 0 && len(b) > max {
		b = b[:max:max]
	}
	return NewView(b, phyOffset, v.Release), nil
}

// Queues lists all queues, sorted by topic and queue id.
func (s *reader) Queues() []QueueInfo {
	var infos []QueueInfo
	for q := range s.queues.All() {
		i := QueueInfo{Topic: q.Topic(), QueueID: q.ID(), MinOffset: q.MinOffset(), MaxOffset: q.MaxOffset(), MinPhyOffset: -1, MaxPhyOffset: q.MaxPhyOffset()}
		i.Units = i.MaxOffset - i.MinOffset
		if u, err := q.Unit(i.MinOffset); err == nil {
			i.MinPhyOffset = u.PhyOffset
		}
		infos = append(infos, i)
	}
	return infos
}
