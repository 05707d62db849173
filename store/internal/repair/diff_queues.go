package repair

import (
	"errors"
	"io"
	"io/fs"
)

// QueueDifference is a queue whose units for records of both logs are not the same in A and B.
type QueueDifference struct {
	Topic   string
	QueueID int32
	First   int64 // the lowest queue offset at which the units differ
	Differ  int64 // units, where both have one
	OnlyInA int64 // units
	OnlyInB int64
}

// queues compares the units of the records that both logs hold: the others differ with their records.
func (d *differ) queues() error {
	qa, err := d.a.files.Queues()
	if err != nil {
		return err
	}
	qb, err := d.b.files.Queues()
	if err != nil {
		return err
	}
	from, to := max(d.out.A.Min, d.out.B.Min), min(d.out.A.Max, d.out.B.Max)
	total := int64(len(qa) + len(qb))
	for len(qa)+len(qb) > 0 {
		if err := d.ctx.Err(); err != nil {
			return err
		}
		d.o.Progress("queues", total-int64(len(qa)+len(qb)), total)
		var q QueueName
		switch {
		case len(qb) == 0 || len(qa) > 0 && qa[0].less(qb[0]):
			q, qa = qa[0], qa[1:]
		case len(qa) == 0 || qb[0].less(qa[0]):
			q, qb = qb[0], qb[1:]
		default:
			q, qa, qb = qa[0], qa[1:], qb[1:]
		}
		d.out.Compared++
		if from < to {
			if err := d.queue(q, from, to); err != nil {
				return err
			}
		}
	}
	return nil
}

func (q QueueName) less(r QueueName) bool {
	if q.Topic != r.Topic {
		return q.Topic < r.Topic
	}
	return q.QueueID < r.QueueID
}

// queue compares one queue's units of records in [from, to).
func (d *differ) queue(q QueueName, from, to int64) error {
	a, err := openUnits(d.a.files, q, from, to)
	if err != nil {
		return err
	}
	defer a.close()
	b, err := openUnits(d.b.files, q, from, to)
	if err != nil {
		return err
	}
	defer b.close()
	diff := QueueDifference{Topic: q.Topic, QueueID: q.QueueID, First: -1}
	note := func(n *int64, at int64) {
		*n++
		if diff.First < 0 {
			diff.First = at
		}
	}
	for i := 0; ; i++ {
		if i%4096 == 0 {
			if err := d.ctx.Err(); err != nil {
				return err
			}
		}
		if err := errors.Join(a.peek(), b.peek()); err != nil {
			return err
		}
		switch {
		case a.u == nil && b.u == nil:
			if diff.First < 0 {
				return nil
			}
			if len(d.out.Queues) == MaxDiffRanges {
				d.out.MoreQueues++
				return nil
			}
			d.out.Queues = append(d.out.Queues, diff)
			return nil
		case b.u == nil || a.u != nil && a.u.QueueOffset < b.u.QueueOffset:
			if !(b.u == nil && d.b.live) { // B's queues follow its log
				note(&diff.OnlyInA, a.u.QueueOffset)
			}
			a.u = nil
		case a.u == nil || b.u.QueueOffset < a.u.QueueOffset:
			if !(a.u == nil && d.a.live) {
				note(&diff.OnlyInB, b.u.QueueOffset)
			}
			b.u = nil
		default:
			if !sameUnit(a.u, b.u) {
				note(&diff.Differ, a.u.QueueOffset)
			}
			a.u, b.u = nil, nil
		}
	}
}

// sameUnit compares what units mean: an extension address is as good as the tags code that it leads to.
func sameUnit(a, b *Unit) bool {
	if a.PhyOffset != b.PhyOffset || a.Size != b.Size {
		return false
	}
	tags := func(u *Unit) (int64, bool) {
		if u.Ext != nil {
			return u.Ext.TagsCode, true
		}
		return u.TagsCode, u.ExtErr == nil
	}
	x, okX := tags(a)
	y, okY := tags(b)
	return okX == okY && x == y
}

// unitStream is the units of a queue whose records lie in [from, to).
type unitStream struct {
	r        *UnitReader // nil: there is no such queue
	from, to int64
	u        *Unit
	done     bool
}

func openUnits(f *Files, q QueueName, from, to int64) (*unitStream, error) {
	r, err := f.ReadUnits(q.Topic, q.QueueID, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return &unitStream{done: true}, nil
	}
	return &unitStream{r: r, from: from, to: to}, err
}

func (s *unitStream) peek() error {
	for s.u == nil && !s.done {
		u, err := s.r.Next()
		if err == io.EOF {
			s.done = true
			return nil
		}
		if err != nil {
			return err
		}
		if u.PhyOffset < s.from || u.PhyOffset >= s.to {
			continue
		}
		s.u = &u
	}
	return nil
}

func (s *unitStream) close() {
	if s.r != nil {
		s.r.Close()
	}
}
