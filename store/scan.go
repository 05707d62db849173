package store

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/mqstore/mqstore/commitlog"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/consumequeue"
)

// Scan walks a queue from queue offset from (below the minimum: from the minimum) to the end that it has when the walk gets there. Each message is read and checked like Lookup's, and is a copy. An unknown queue is empty.
// What retention deletes during the walk is passed over. An error (damage, ctx's) is the last thing yielded.
func (s *reader) Scan(ctx context.Context, topic string, queueID int32, from int64) iter.Seq2[*record.Message, error] {
	return func(yield func(*record.Message, error) bool) {
		q := s.queues.Queue(topic, queueID)
		if q == nil {
			return
		}
		for at := max(from, q.MinOffset()); at < q.MaxOffset(); at++ {
			err := ctx.Err()
			var m *record.Message
			if err == nil {
				m, err = s.messageAt(topic, queueID, at)
			}
			if errors.Is(err, ErrNotFound) && s.expired(q, at) {
				at = max(at, q.MinOffset()-1)
				continue
			}
			if err != nil {
				yield(nil, fmt.Errorf("scan %s/%d at %d: %w", topic, queueID, at, err))
				return
			}
			if !yield(m, nil) {
				return
			}
		}
	}
}

// expired reports whether the message at queueOffset was deleted with the head of the log, which the queue's minimum follows a moment behind.
func (s *reader) expired(q *consumequeue.Queue, queueOffset int64) bool {
	u, err := q.Unit(queueOffset)
	if err != nil {
		return queueOffset < q.MinOffset()
	}
	return u.PhyOffset < s.log.MinPhyOffset()
}

func (s *reader) messageAt(topic string, queueID int32, queueOffset int64) (*record.Message, error) {
	u, err := s.unit(topic, queueID, queueOffset)
	if err != nil {
		return nil, err
	}
	return s.lookup(u.PhyOffset)
}

// lookup is Lookup without the rule for offset 0.
func (s *reader) lookup(phyOffset int64) (*record.Message, error) {
	if s.readClosed.Load() {
		return nil, ErrClosed
	}
	m, v, err := s.log.Message(phyOffset)
	if err != nil {
		return nil, fromBelow(err)
	}
	defer v.Release()
	return clone(m), nil
}

// ScanLog walks the log in physical order: the records that start in [fromPhy, toPhy), toPhy at most the log's end; blanks are passed over. fromPhy must be a record's start, or at most the log's first offset. Each message is checked and a copy.
// An error (damage, ctx's) is the last thing yielded.
func (s *reader) ScanLog(ctx context.Context, fromPhy, toPhy int64) iter.Seq2[*record.Message, error] {
	return func(yield func(*record.Message, error) bool) {
		c := s.log.NewCursor(max(fromPhy, s.log.MinPhyOffset(), 0))
		defer c.Close()
		var meta record.Meta
		for c.Offset() < toPhy {
			at := c.Offset()
			err := ctx.Err()
			if err == nil {
				err = c.Next(&meta, s.log.MaxPhyOffset())
			}
			if errors.Is(err, commitlog.ErrNotYet) || (err == nil && meta.PhyOffset >= toPhy) {
				return
			}
			var m *record.Message
			if err == nil {
				at = meta.PhyOffset
				m, err = s.lookup(at)
			}
			if err != nil {
				yield(nil, fmt.Errorf("scan log at %d: %w", at, fromBelow(err)))
				return
			}
			if !yield(m, nil) {
				return
			}
		}
	}
}
