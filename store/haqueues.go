package store

import (
	"context"
	"fmt"

	"github.com/mqstore/mqstore/ha"
	"github.com/mqstore/mqstore/store/internal/recovery"
)

// queuesAt says where queues go on that have no record at or beyond phyOffset, as far as the log is dispatched.
func (s *DefaultMessageStore) queuesAt(phyOffset int64) (queues []ha.QueueNext, upTo int64) {
	upTo = s.dispatcher.Offset() // before the queues, which may get on meanwhile
	for _, k := range s.queues.Snapshot() {
		if k.Max > 0 && k.LastPhy < phyOffset {
			queues = append(queues, ha.QueueNext{Topic: k.Topic, QueueID: k.QueueID, QueueOffset: k.Max})
		}
	}
	return queues, upTo
}

// lacksBeginning reports whether the log does not begin at physical offset 0, or not yet.
func (s *DefaultMessageStore) lacksBeginning() bool { return s.log.MinPhyOffset() != 0 }

// beginQueues makes queues without a record go on where the master says, on disk before the log gets a byte: with that the slave may have to take over, after a power loss of its own.
func (s *DefaultMessageStore) beginQueues(ctx context.Context, queues []ha.QueueNext) error {
	for _, q := range queues {
		if err := ctx.Err(); err != nil {
			return err
		}
		if q.QueueOffset > recovery.MaxQueueOffset {
			return fmt.Errorf("%w: the master's queue %s-%d goes on at %d", ha.ErrMalformed, q.Topic, q.QueueID, q.QueueOffset)
		}
		if err := s.beginQueue(q); err != nil {
			return fromBelow(err)
		}
	}
	if err := s.queues.Flush(); err != nil {
		return fromBelow(err)
	}
	return nil
}

func (s *DefaultMessageStore) beginQueue(q ha.QueueNext) error {
	s.dispatching.mu.Lock() // a snapshot sees a queue as it was, or as it is
	defer s.dispatching.mu.Unlock()
	return s.queues.Begin(q.Topic, q.QueueID, q.QueueOffset)
}
