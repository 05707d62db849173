package recovery

import (
	"errors"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/consumequeue"
)

// plan is a queue as it would be, while nothing is written: the units that it holds, and behind them so many that would be appended.
type plan struct {
	min, max, maxPhy int64 // as of consumequeue.Queue
	held             int64 // queue offsets from here on are not on disk
	units            int64 // that would be appended, of the current numbering
	mended           int64 // the last torn unit that would be mended; -1 none
}

// planOf begins with what q holds; nil is an empty queue.
func planOf(q *consumequeue.Queue) *plan {
	if q == nil {
		return &plan{maxPhy: -1, mended: -1}
	}
	return &plan{min: q.MinOffset(), max: q.MaxOffset(), maxPhy: q.MaxPhyOffset(), held: q.MaxOffset(), mended: -1}
}

// planned is append with the guards of consumequeue.Set.Append, and nothing written.
func (c *checker) planned(t *track, u consumequeue.Slot, m *record.Meta) error {
	p, end := t.plan, m.PhyOffset+int64(m.Size)
	switch {
	case p.maxPhy < 0:
		if u.QueueOffset != p.max { // begins anew, in a file of its own
			p.held = u.QueueOffset
		}
		p.min = u.QueueOffset
	case u.QueueOffset < p.max && u.QueueOffset < p.held:
		ok, err := p.mends(t.q, u.QueueOffset, m.PhyOffset)
		if err != nil || !ok {
			return err
		}
		p.mended = u.QueueOffset
		c.counted(t, m)
		return nil
	case u.QueueOffset < p.max, end <= p.maxPhy:
		return nil
	case u.QueueOffset > p.max:
		t.blame(false, "lacks units")
		return nil
	}
	p.max, p.maxPhy = u.QueueOffset+1, end
	p.units++
	c.counted(t, m)
	return nil
}

func (c *checker) counted(t *track, m *record.Meta) {
	t.matched++
	c.appended++
	t.filled = t.filled || m.PhyOffset < c.dispatched || m.StoreTimestamp <= c.dispatchedTime
}

// mends reports whether the torn unit at queueOffset would be mended: only the record that fits behind the unit before may fill it.
func (p *plan) mends(q *consumequeue.Queue, queueOffset, phyOffset int64) (bool, error) {
	if queueOffset <= p.min || queueOffset-1 == p.mended {
		return true, nil
	}
	before, err := q.Unit(queueOffset - 1)
	switch {
	case errors.Is(err, mappedfile.ErrCorrupt), errors.Is(err, consumequeue.ErrNoUnit):
		return false, nil
	case err != nil:
		return false, err
	}
	return before.IsFiller() || before.PhyOffset+int64(before.Size) <= phyOffset, nil
}
