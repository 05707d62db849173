package repair

import (
	"cmp"
	"math"
	"slices"
)

// numbering finds the queue offsets of one queue's records, so that they become dense and none becomes smaller than it was: the i-th of n records gets
// end-n+i, where end is at least each record's offset, plus one, plus the records that follow it.
type numbering struct {
	n, end  int64
	lastEnd int64 // physical: behind the last record
	other   int64 // end, should the next record show that the last one's own offset is damaged, or is not
	pending bool

	given int64 // in the second pass: records numbered so far
	moved int64
}

// see takes the next record of the queue, in log order. No checksum covers its offset, so one that jumps further than lost records explain, or than the
// next one agrees with, is not believed.
func (q *numbering) see(queueOffset, phyOffset, size int64) {
	if q.pending && queueOffset == q.other && queueOffset != q.end {
		q.end = q.other
	}
	first := q.n == 1 && queueOffset < q.end-1
	q.pending = false
	switch {
	case queueOffset < 0 || queueOffset >= maxNumber:
		q.end++
	case q.n == 0:
		q.end = queueOffset + 1
	case queueOffset == q.end:
		q.end++
	case first && queueOffset > 0:
		q.end = max(queueOffset+1, q.n+1) // it was the first one's that is wrong
	case queueOffset < q.end:
		q.end++ // used twice
	case queueOffset-q.end <= (phyOffset-q.lastEnd)/leastRecord:
		q.pending, q.other, q.end = true, q.end+1, queueOffset+1
	default:
		q.pending, q.other, q.end = true, queueOffset+1, q.end+1
	}
	q.n++
	q.lastEnd = phyOffset + size
}

const maxNumber = 1 << 58

// next is the offset of the next record, in the second pass.
func (q *numbering) next(was int64) int64 {
	at := q.end - q.n + q.given
	q.given++
	if at != was {
		q.moved++
	}
	return at
}

// trustQueues takes the end of a queue from its own files where its last records are lost: else their offsets would be given again, and consumers skip messages.
func (s *salvage) trustQueues() error {
	if s.To != math.MaxInt64 { // left out on purpose
		return nil
	}
	queues, err := s.files.Queues()
	if err != nil {
		return err
	}
	for _, name := range queues {
		q := s.numbers[name]
		if q == nil {
			continue
		}
		u, err := s.files.lastUnit(name)
		if err != nil {
			return err
		}
		if u != nil && u.PhyOffset >= q.lastEnd && u.QueueOffset >= q.end && u.QueueOffset+1-q.end <= (u.PhyOffset+int64(u.Size)-q.lastEnd)/leastRecord {
			q.end = u.QueueOffset + 1
		}
	}
	return nil
}

// shifts lists the queues whose records will not all keep their offsets. Which ones, the second pass counts.
func (s *salvage) shifts() {
	for name, q := range s.numbers {
		s.res.Shifts = append(s.res.Shifts, Shift{Topic: name.Topic, QueueID: name.QueueID, Records: q.n, Min: q.end - q.n, Max: q.end})
	}
	slices.SortFunc(s.res.Shifts, func(a, b Shift) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.QueueID, b.QueueID))
	})
}
