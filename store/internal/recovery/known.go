package recovery

import (
	"errors"
	"fmt"

	"github.com/mqstore/mqstore/checkpoint"
	"github.com/mqstore/mqstore/commitlog"
	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/consumequeue"
)

// Summarize makes the summary that says: the log is durable and the queues hold (durably) every record below end. known is Set.Snapshot taken while the
// dispatcher stood at end, so the order is: snapshot and end together, flush the log, flush the queues, then write it (a queue that went on meanwhile does no harm).
func Summarize(l *commitlog.Log, known []consumequeue.Known, end int64, clean bool) (*checkpoint.Summary, error) {
	s := &checkpoint.Summary{Clean: clean, MinPhyOffset: l.MinPhyOffset(), EndPhyOffset: end, LastPhyOffset: -1}
	for _, k := range known {
		if k.LastPhy < end {
			s.LastPhyOffset = max(s.LastPhyOffset, k.LastPhy)
		}
		s.Queues = append(s.Queues, checkpoint.QueueBounds(k))
	}
	if s.LastPhyOffset < max(s.MinPhyOffset, 0) {
		s.LastPhyOffset = -1
		return s, nil
	}
	m, v, err := l.Message(s.LastPhyOffset)
	if err != nil {
		return nil, fmt.Errorf("summary: read the last record: %w", err)
	}
	s.LastSize, s.LastStoreTime, s.LastBodyCRC = m.Size, m.StoreTimestamp, m.BodyCRC
	v.Release()
	return s, nil
}

// KeepNumbers adds to s what is known of queues that have lost everything, while the log has lost their records too: the next queue offset, so that it is not given twice.
func KeepNumbers(s *checkpoint.Summary, next map[QueueKey]int64) {
	have := make(map[QueueKey]bool, len(s.Queues))
	for i := range s.Queues {
		q := &s.Queues[i]
		k := QueueKey{q.Topic, q.QueueID}
		if have[k] = true; q.Max == 0 {
			q.Min, q.Max = next[k], next[k]
		}
	}
	for k, n := range next {
		if !have[k] && n > 0 {
			s.Queues = append(s.Queues, checkpoint.QueueBounds{Topic: k.Topic, QueueID: k.QueueID, Min: n, Max: n, LastPhy: -1})
		}
	}
}

// compareKnown judges each queue by what the summary knew of it. It returns the queues that must be built again, with the reason, and where the comparison
// with the log must begin so that queues that only lack their tail are completed: at most from.
func compareKnown(set *consumequeue.Set, sum *checkpoint.Summary, minPhy, from int64) (faults map[QueueKey]string, checkFrom int64, err error) {
	faults = map[QueueKey]string{}
	known := map[QueueKey]bool{}
	for _, k := range sum.Queues {
		known[QueueKey{k.Topic, k.QueueID}] = true
		q := set.Queue(k.Topic, k.QueueID)
		if k.LastPhy < minPhy { // everything that was known of it has expired
			if q != nil && q.MaxOffset() > 0 && q.MaxOffset() < k.Max {
				faults[QueueKey{k.Topic, k.QueueID}] = "ends before its known end"
			}
			continue
		}
		if q == nil || q.MinOffset() == q.MaxOffset() {
			faults[QueueKey{k.Topic, k.QueueID}] = "is missing"
			continue
		}
		why, lacksTail, err := judgeKnown(q, k, sum, minPhy)
		switch {
		case err != nil:
			return nil, 0, err
		case why != "":
			faults[QueueKey{k.Topic, k.QueueID}] = why
		case lacksTail:
			from = min(from, q.MaxPhyOffset())
		}
	}
	for q := range set.All() {
		k := QueueKey{q.Topic(), q.ID()}
		if known[k] || q.MinOffset() == q.MaxOffset() {
			continue
		}
		first, err := phyOf(q, q.MinOffset())
		if err != nil {
			return nil, 0, err
		}
		if first < sum.EndPhyOffset {
			faults[k] = "was not there"
		}
	}
	return faults, from, nil
}

func judgeKnown(q *consumequeue.Queue, k checkpoint.QueueBounds, sum *checkpoint.Summary, minPhy int64) (fault string, lacksTail bool, err error) {
	if q.MinOffset() > k.Min && !headExpired(q, sum, minPhy) {
		return "lacks its head", false, nil
	}
	if q.MaxOffset() < k.Max {
		return "", true, nil
	}
	if k.LastPhy >= sum.EndPhyOffset {
		return "", false, nil // dispatched while the summary was made: compared with the log anyway
	}
	last, err := phyOf(q, k.Max-1)
	if err != nil {
		return "", false, err
	}
	if last != k.LastPhy {
		return "has another last unit than was known", false, nil
	}
	if q.MaxOffset() > k.Max {
		next, err := phyOf(q, k.Max)
		if err != nil {
			return "", false, err
		}
		if next < sum.EndPhyOffset {
			return "has units that were cut before", false, nil
		}
	}
	return "", false, nil
}

// phyOf is the physical offset of a unit, -2 if it is malformed or not held.
func phyOf(q *consumequeue.Queue, queueOffset int64) (int64, error) {
	u, err := q.Unit(queueOffset)
	switch {
	case errors.Is(err, mappedfile.ErrCorrupt), errors.Is(err, consumequeue.ErrNoUnit):
		return -2, nil
	case err != nil:
		return 0, err
	}
	return u.PhyOffset, nil
}

// headExpired reports whether a queue begins later than it did because the log's head was deleted since: units below the minimum are still in its first file
// (it follows the log's minimum there), or none could be.
func headExpired(q *consumequeue.Queue, sum *checkpoint.Summary, minPhy int64) bool {
	if minPhy <= sum.MinPhyOffset {
		return false
	}
	files := q.Files()
	return len(files) > 0 && files[0].Start/consumequeue.UnitSize < q.MinOffset()
}

// lastUnitAgrees reports whether the last unit of a queue points at a whole record of that queue with that queue offset: all that can be said of a queue without reading the log.
func lastUnitAgrees(l *commitlog.Log, q *consumequeue.Queue, p *record.Parser) (bool, error) {
	if q.MinOffset() == q.MaxOffset() {
		return true, nil
	}
	at := q.MaxOffset() - 1
	u, err := q.Unit(at)
	if errors.Is(err, mappedfile.ErrCorrupt) || err == nil && !u.Valid() {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	v, err := l.View(u.PhyOffset, int(u.Size))
	if errors.Is(err, mappedfile.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer v.Release()
	var m record.Meta
	if err := p.Parse(v.Bytes, u.PhyOffset, &m); err != nil || m.IsBlank() {
		return false, nil
	}
	for s := range consumequeue.Slots(&m, true) {
		if s.Topic == q.Topic() && s.QueueID == q.ID() && s.QueueOffset == at && pointsAt(u, s, &m) {
			return true, nil
		}
	}
	return false, nil
}
