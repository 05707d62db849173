package consumequeue

import (
	"bytes"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/mqstore/mqstore/commitlog/record"
)

// Slot is the place of one unit: which queue, at which queue offset, with which tags code.
type Slot struct {
	Topic       string
	QueueID     int32
	QueueOffset int64
	TagsCode    int64
}

const lightQueuePrefix = "%LMQ%"

// Slots yields the places of a record's units: in its own queue (NONE and COMMIT; PREPARED and ROLLBACK have none), and, with multiDispatch, in the queues that
// INNER_MULTI_DISPATCH and INNER_MULTI_QUEUE_OFFSET name (spec/consumequeue-format.md 2.7). Names that cannot be a directory and offsets that are no number are left out.
// multiDispatch is the original's enableMultiDispatch: without it the two properties are a producer's and mean nothing.
func Slots(m *record.Meta, multiDispatch bool) iter.Seq[Slot] {
	return func(yield func(Slot) bool) {
		if !m.HasUnit() {
			return
		}
		if !yield(Slot{m.Topic, m.QueueID, m.QueueOffset, m.TagsCode}) || !multiDispatch {
			return
		}
		names, ok := m.Properties.View(record.PropertyMultiDispatch)
		if !ok {
			return
		}
		offsets, ok := m.Properties.View(record.PropertyMultiQueueOffset)
		if !ok {
			return
		}
		names, offsets = bytes.TrimRight(names, ","), bytes.TrimRight(offsets, ",")
		if bytes.Count(names, comma) != bytes.Count(offsets, comma) {
			return
		}
		for len(names) > 0 {
			var name, offset []byte
			name, names, _ = bytes.Cut(names, comma)
			offset, offsets, _ = bytes.Cut(offsets, comma)
			n, err := strconv.ParseInt(string(offset), 10, 64)
			if err != nil || n < 0 {
				continue
			}
			s := Slot{string(name), m.QueueID, n, m.TagsCode}
			if strings.HasPrefix(s.Topic, lightQueuePrefix) {
				s.QueueID = 0
			}
			if CheckName(s.Topic, s.QueueID) != nil {
				continue
			}
			if !yield(s) {
				return
			}
		}
	}
}

var comma = []byte{','}

// Append does for one of Slots(m) what Dispatch does for the record's own queue, with the same guards and errors: recovery completes and rebuilds single queues with it.
func (s *Set) Append(at Slot, m *record.Meta) error {
	u := Unit{PhyOffset: m.PhyOffset, Size: int32(m.Size), TagsCode: at.TagsCode}
	if !u.Valid() || int(u.Size) != m.Size {
		return fmt.Errorf("dispatch record at %d of %d bytes to %s-%d: %w", m.PhyOffset, m.Size, at.Topic, at.QueueID, ErrMalformed)
	}
	for {
		q, err := s.Ensure(at.Topic, at.QueueID)
		if err == nil {
			err = q.append(at.QueueOffset, u)
		}
		switch {
		case err == nil:
			return nil
		case err == errRemoved: // between Ensure and append: there is a new one to make
		default:
			return fmt.Errorf("dispatch record at %d: %w", m.PhyOffset, err)
		}
	}
}

// Append is Set.Append for a place in q, without the search for it.
func (q *Queue) Append(at Slot, m *record.Meta) error {
	u := Unit{PhyOffset: m.PhyOffset, Size: int32(m.Size), TagsCode: at.TagsCode}
	if !u.Valid() || int(u.Size) != m.Size || at.QueueID != q.id || at.Topic != q.topic {
		return fmt.Errorf("dispatch record at %d of %d bytes to %s, for %s-%d: %w", m.PhyOffset, m.Size, q, at.Topic, at.QueueID, ErrMalformed)
	}
	switch err := q.append(at.QueueOffset, u); err {
	case nil:
		return nil
	case errRemoved:
		return q.set.Append(at, m)
	default:
		return fmt.Errorf("dispatch record at %d: %w", m.PhyOffset, err)
	}
}

// Harden tells that what Open found of units of records at or beyond phyOffset, below which everything was on disk before, may be in the page cache of a killed
// process only, which may have failed to sync it: the next Flush makes it durable. For recovery: nothing is dispatched meanwhile.
func (s *Set) Harden(phyOffset int64) error {
	for _, q := range s.sorted() {
		if err := q.harden(phyOffset); err != nil {
			return fmt.Errorf("harden %s: %w", q, err)
		}
	}
	return nil
}

func (q *Queue) harden(phyOffset int64) error {
	q.writer.Lock()
	defer q.writer.Unlock()
	if q.maxPhy.Load() <= phyOffset {
		return nil
	}
	from, err := q.firstAt(q.min.Load(), q.max.Load(), phyOffset)
	if err != nil {
		return err
	}
	seq := q.seq.Load()
	if from == q.min.Load() {
		from = seq.Min() / UnitSize // the fillers too
	}
	seq.Doubt(from * UnitSize)
	q.set.markDirty(q)
	return nil
}

// Hide is TruncateTo for a read-only set: units of records that end beyond phyOffset are not seen any more, and nothing is written.
func (s *Set) Hide(phyOffset int64) error {
	for _, q := range s.sorted() {
		if err := q.hide(phyOffset); err != nil {
			return fmt.Errorf("hide the units of %s from physical offset %d: %w", q, phyOffset, err)
		}
	}
	return nil
}

func (q *Queue) hide(phyOffset int64) error {
	q.writer.Lock()
	defer q.writer.Unlock()
	if q.maxPhy.Load() <= phyOffset {
		return nil
	}
	cut, err := search(q.min.Load(), q.max.Load(), func(i int64) (bool, error) {
		u, err := q.read(i)
		return u.Valid() && u.end() > phyOffset, err
	})
	if err != nil {
		return err
	}
	last := tail{-1, -1}
	if cut > q.min.Load() {
		u, err := q.read(cut - 1)
		if err != nil {
			return err
		}
		if u.Valid() {
			last = tail{u.PhyOffset, u.end()}
		}
	}
	q.max.Store(cut)
	q.lastPhy.Store(last.phy)
	q.maxPhy.Store(last.end)
	return q.seq.Load().SetMax(cut * UnitSize)
}
