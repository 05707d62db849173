package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mqstore/mqstore/commitlog"
	"github.com/mqstore/mqstore/commitlog/mappedfile"
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
		res := &GetResult{MinOffset: first, MaxOffset: end}
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
				return res, nil
			} else if err != nil {
				return nil, err
			}
			defer units.Release()
			if err := s.scanUnits(r, q, units, max(maxPhy, s.log.MaxPhyOffset()), res); err != nil {
				res.Release()
				return nil, err
			}
		}
		return res, nil
	}
}

// scanUnits fills res from units, which start at r.Offset.
func (s *reader) scanUnits(r GetRequest, q *consumequeue.Queue, units consumequeue.Units, maxPhy int64, res *GetResult) error {
	maxMessages := r.MaxMessages
	if maxMessages == 0 {
		maxMessages = defaultMaxMessages
	}
	memory, ratio := s.o.MemorySize, int64(s.o.AccessInMemoryMaxRatio)
	inMemory := memory/100*ratio + memory%100*ratio/100 // memory*ratio/100 that cannot overflow
	scan := min(units.Len(), (max(minScanBytes, min(maxMessages, units.Len())*consumequeue.UnitSize)+consumequeue.UnitSize-1)/consumequeue.UnitSize)
	expected := min(scan, max(maxMessages, 1), s.o.MaxTransferMessagesInMemory)
	held := make([]mappedfile.View, 0, expected)
	res.Records, res.QueueOffsets = make([]View, 0, expected), make([]int64, 0, expected)
	release := func() {
		for _, v := range held {
			v.Release()
		}
	}
	res.Status = NoMatchedMessage
	var lastPhy int64
	skipUntil := int64(-1)
	i := 0
	for ; i < scan; i++ {
		u := units.At(i)
		lastPhy = u.PhyOffset
		if !u.Valid() && !u.IsFiller() { // not to be taken for one of a deleted record
			release()
			return s.malformedUnit(q, r.Offset+int64(i), u)
		}
		if u.PhyOffset < skipUntil {
			continue
		}
		if s.full(res, maxMessages, int(u.Size), maxPhy-u.PhyOffset > inMemory) {
			break
		}
		tagsCode, known, ext := u.TagsCode, true, (*ExtUnit)(nil)
		if u.IsExtAddress() {
			switch x, err := q.Ext(u.TagsCode); {
			case err == nil:
				tagsCode, ext = x.TagsCode, &ExtUnit{TagsCode: x.TagsCode, StoreTimestamp: x.StoreTime, Bitmap: x.Bitmap}
			default:
				tagsCode, known = 0, false
			}
		}
		if r.Filter != nil && !r.Filter.MatchUnit(tagsCode, known, ext) {
			if len(res.Records) == 0 {
				res.Status = NoMatchedMessage
			}
			continue
		}
		v, err := s.view(q, u)
		if errors.Is(err, ErrNotFound) {
			if len(res.Records) == 0 {
				res.Status = MessageWasRemoving
			}
			skipUntil = rollNext(u.PhyOffset, s.log.SegmentSize())
			continue
		} else if err != nil {
			release()
			return err
		}
		if r.Filter != nil && !r.Filter.MatchRecord(v.Bytes) {
			v.Release()
			if len(res.Records) == 0 {
				res.Status = NoMatchedMessage
			}
			continue
		}
		held = append(held, v)
		res.Records = append(res.Records, View{Bytes: v.Bytes, PhyOffset: u.PhyOffset})
		res.QueueOffsets = append(res.QueueOffsets, r.Offset+int64(i))
		res.Bytes += int(u.Size)
		res.Status = Found
		skipUntil = -1
	}
	res.NextBeginOffset = r.Offset + int64(i)
	res.SuggestSlave = maxPhy-lastPhy > inMemory
	if len(held) > 0 {
		res.release = release
	}
	return nil
}

// malformedUnit is damage of a queue's file.
func (s *reader) malformedUnit(q *consumequeue.Queue, queueOffset int64, u consumequeue.Unit) error {
	return &CorruptError{Path: q.Dir(), Offset: queueOffset * consumequeue.UnitSize, Err: fmt.Errorf("unit %d of %s/%d is none (physical offset %d, %d bytes); "+
		"the log may be whole: open the store with Options.IgnoreSummary to have the queue compared with it and built again", queueOffset, q.Topic(), q.ID(), u.PhyOffset, u.Size)}
}

// full reports whether a batch that holds something already has no room for one more record of size bytes.
func (s *reader) full(res *GetResult, maxMessages, size int, inDisk bool) bool {
	n := len(res.Records)
	switch {
	case n == 0:
		return false
	case n >= maxMessages:
		return true
	case inDisk:
		return res.Bytes+size > s.o.MaxTransferBytesInDisk || n >= s.o.MaxTransferMessagesInDisk
	}
	return res.Bytes+size > s.o.MaxTransferBytesInMemory || n >= s.o.MaxTransferMessagesInMemory
}

// rollNext is the start of the segment behind the one that holds phyOffset.
func rollNext(phyOffset, segmentSize int64) int64 {
	return phyOffset + segmentSize - phyOffset%segmentSize
}

// Field positions of a record that tell whether it is the one a unit points at (spec/commitlog-format.md 1.3).
const (
	posTotalSize = 0
	posMagic     = 4
	posPhyOffset = 28
	minRecord    = 91
)

// view is the record that u points at: ErrNotFound if retention removed it, damage if it is not there.
func (s *reader) view(q *consumequeue.Queue, u consumequeue.Unit) (mappedfile.View, error) {
	damage := func(why string) error {
		return &CorruptError{Path: s.o.CommitLogDir, Offset: u.PhyOffset, Err: fmt.Errorf("a unit of %s/%d points here, at %d bytes, but %s", q.Topic(), q.ID(), u.Size, why)}
	}
	if u.Size < minRecord {
		if u.IsFiller() || u.PhyOffset < s.log.MinPhyOffset() {
			return mappedfile.View{}, ErrNotFound
		}
		return mappedfile.View{}, damage("no record is that small")
	}
	v, err := s.log.View(u.PhyOffset, int(u.Size))
	switch {
	case errors.Is(err, mappedfile.ErrNotFound):
		if u.IsFiller() || u.PhyOffset < s.log.MinPhyOffset() {
			return v, ErrNotFound
		}
		return v, damage(fmt.Sprintf("the log holds [%d, %d)", s.log.MinPhyOffset(), s.log.MaxPhyOffset()))
	case err != nil:
		return v, err
	}
	b := v.Bytes
	magic := binary.BigEndian.Uint32(b[posMagic:])
	switch {
	case magic != record.MagicV1 && magic != record.MagicV2:
		err = damage(fmt.Sprintf("there is no record (magic %#x)", magic))
	case binary.BigEndian.Uint32(b[posTotalSize:]) != uint32(u.Size):
		err = damage(fmt.Sprintf("the record there has %d bytes", binary.BigEndian.Uint32(b[posTotalSize:])))
	case binary.BigEndian.Uint64(b[posPhyOffset:]) != uint64(u.PhyOffset):
		err = damage(fmt.Sprintf("the record there says that it lies at %d", binary.BigEndian.Uint64(b[posPhyOffset:])))
	case s.o.VerifyReads:
		if _, derr := record.Decode(b); derr != nil {
			err = damage("it is damaged: " + derr.Error())
		}
	}
	if err != nil {
		v.Release()
		return mappedfile.View{}, err
	}
	return v, nil
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
		return q.MaxOffset() - q.MinOffset()
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
	queueOffset, err := q.OffsetByTime(t.UnixMilli(), rule, max(s.log.MinPhyOffset(), 0))
	if err != nil {
		return 0, fmt.Errorf("offset of %s/%d by time: %w", topic, queueID, fromBelow(err))
	}
	return queueOffset, nil
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
