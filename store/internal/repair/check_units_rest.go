package repair

import (
	"fmt"
	"math"

	"github.com/mqstore/mqstore/consumequeue"
)

// unclaimed tells the units in [s.next, until) that point into the log, and that no record claims. It returns how far they point.
func (u *unitCheck) unclaimed(s *queueState, until int64) (furthest int64) {
	furthest = -1
	for q := s.next; q < until; q++ {
		q = s.nextUnit(q)
		if q >= until {
			break
		}
		have, ok := u.read(s, q)
		if !ok {
			break
		}
		if !have.Valid() {
			continue
		}
		u.sum.Units++
		if have.PhyOffset < u.log.minPhy {
			continue // expired
		}
		furthest = max(furthest, have.PhyOffset+int64(have.Size))
		u.judge(s, q, have, nil)
	}
	s.next = max(s.next, until)
	return furthest
}

// nextUnit is the first queue offset from q on that a file holds; math.MaxInt64 if none does.
func (s *queueState) nextUnit(q int64) int64 {
	if q > math.MaxInt64/s.width {
		return math.MaxInt64
	}
	for _, f := range s.files {
		if end := (f.start + f.size) / s.width; q < end {
			return max(q, f.start/s.width)
		}
	}
	return math.MaxInt64
}

// judge says what is at the place that a unit points at, which is not its own record's. e is the record that belongs to its number; nil: none.
func (u *unitCheck) judge(s *queueState, q int64, have consumequeue.Unit, e *expected) {
	own := "no record of the log belongs to its number"
	if e != nil {
		own = fmt.Sprintf("the record of its number is at %d", e.phyOffset)
	}
	if s.bad != nil && s.bad.n >= probesPerRun && s.bad.last+1 == q {
		s.bad.n++
		s.bad.last = q
		return
	}
	there := u.probe.at(have.PhyOffset)
	switch {
	case there.expired:
		if e != nil {
			u.wrong(s, q, have, WrongUnit, "expired", MendRebuild, fmt.Sprintf("points at %d, in front of the log's first record: consumers skip it; %s", have.PhyOffset, own))
		}
	case there.behind:
		if u.o.Live {
			return
		}
		mend := MendRecover
		if e != nil {
			mend = MendRebuild
		}
		u.wrong(s, q, have, DanglingUnit, "behind", mend, fmt.Sprintf("points at %d, behind the log's end: consumers get nothing for it; %s", have.PhyOffset, own))
	case there.lost.to > 0:
		u.wrong(s, q, have, DanglingUnit, "lost", MendSalvage, fmt.Sprintf("points at %d, into the damage of the log from %d to %d: its message is lost; %s", have.PhyOffset, there.lost.from, there.lost.to, own))
	case there.record && !there.hasUnit:
		u.wrong(s, q, have, WrongUnit, "prepared", MendRebuild, fmt.Sprintf("points at the record at %d, which has no place in a queue: a prepared message, or one that was rolled back; %s", have.PhyOffset, own))
	case there.record && there.topic == s.Topic && there.queueID == s.QueueID && there.queueOffset == q && int32(there.size) == have.Size:
		if e == nil && u.o.Live {
			return
		}
		if e == nil {
			u.wrong(s, q, have, DanglingUnit, "same", MendRebuild, fmt.Sprintf("points at the record at %d, whose number is used twice", have.PhyOffset))
		} // else the number was used twice, which is told
	case there.record:
		u.wrong(s, q, have, WrongUnit, "record "+there.topic, MendRebuild, fmt.Sprintf("points at the record at %d, which is number %d of %s queue %d: consumers get a message of another place; %s", have.PhyOffset, there.queueOffset, there.topic, there.queueID, own))
	case there.within >= 0:
		u.wrong(s, q, have, WrongUnit, "middle", MendRebuild, fmt.Sprintf("points at %d, into the middle of the record at %d: reads of it fail; %s", have.PhyOffset, there.within, own))
	default:
		u.wrong(s, q, have, DanglingUnit, "nothing", MendRebuild, fmt.Sprintf("points at %d, where no record begins: reads of it fail; %s", have.PhyOffset, own))
	}
}

const probesPerRun = 16

// rest finishes a queue: what no record claimed up to its end. It returns how far units behind the log's end point.
func (u *unitCheck) rest(s *queueState) (beyond int64) {
	beyond = -1
	if s.odd != nil {
		o := s.odd
		s.odd = nil
		u.moved(s, o)
	}
	if s.multi > 0 && u.matched > 0 || s.records > 0 && len(s.files) == 0 {
		n := s.records
		if u.matched > 0 {
			n += s.multi
		}
		if len(s.files) == 0 && n > 0 && !u.justMade(s) {
			f := s.about(MissingQueue, s.dir(), MendRecover, fmt.Sprintf("the log has %s of this queue, the first at %d, and the queue has no files: consumers get none of them, unless the topic was deleted on purpose", plural(n, "record", "records"), s.first))
			if consumequeue.CheckName(s.Topic, s.QueueID) != nil {
				f.Mend, f.File = MendByHand, queueDir
				f.Detail = fmt.Sprintf("the log has %s, the first at %d, of a topic and queue that cannot be a directory: they are in the log only, and no consumer gets them", plural(n, "record", "records"), s.first)
			}
			f.PhyOffset = s.first
			u.report(f)
		} else if s.multi > 0 && u.matched > 0 && !u.o.Live {
			f := s.about(MissingUnit, s.dir(), MendRecover, fmt.Sprintf("%s that name this queue for multi-dispatch, the first at %d, have no unit in it: consumers do not get them", plural(s.multi, "record", "records"), s.first))
			f.PhyOffset = s.first
			u.report(f)
		}
	}
	if s.width == consumequeue.UnitSize {
		beyond = u.trailing(s)
	}
	u.endRun(s, &s.run)
	u.endRun(s, &s.bad)
	return beyond
}

// refresh lists the files of a queue again, and forgets what was read of it.
func (u *unitCheck) refresh(s *queueState) {
	u.file.shut()
	segs, err := segments(u.root, s.dir())
	if err != nil {
		return
	}
	s.files = s.files[:0]
	for _, g := range segs {
		s.files = append(s.files, queueFile{g.Start, g.Size})
	}
}

// underWay reports whether units that a running process had not written when they were looked for are there now, or are still to come: dispatch goes in log order.
func (u *unitCheck) underWay(s *queueState, r *run) bool {
	u.refresh(s)
	have, ok := u.read(s, r.QueueOffset)
	return ok && have.PhyOffset == r.PhyOffset || r.PhyOffset >= u.newest
}

// justMade reports whether the running process has made the queue since it was listed, or is going to.
func (u *unitCheck) justMade(s *queueState) bool {
	if !u.o.Live {
		return false
	}
	u.refresh(s)
	return len(s.files) > 0 || s.first >= u.newest
}

// trailing tells what is written behind the last unit that a record claims.
func (u *unitCheck) trailing(s *queueState) (beyond int64) {
	beyond = -1
	for q := s.next; ; q++ {
		if q = s.nextUnit(q); q == math.MaxInt64 {
			return beyond
		}
		if q = u.file.skipHole(s, q); q == math.MaxInt64 {
			return beyond
		}
		have, ok := u.read(s, q)
		if !ok {
			return beyond
		}
		switch {
		case have == consumequeue.Unit{}, have.IsFiller():
			continue
		case !have.Valid():
			if !u.o.Live {
				u.wrong(s, q, have, DanglingUnit, "garbage", MendRecover, "is none: bytes behind the queue's end that nobody wrote there, as a crash leaves them")
			}
			continue
		}
		u.sum.Units++
		if have.PhyOffset < u.log.minPhy && u.log.minPhy != math.MaxInt64 {
			continue
		}
		if have.PhyOffset >= u.log.upTo {
			beyond = max(beyond, have.PhyOffset+int64(have.Size))
		}
		u.judge(s, q, have, nil)
		if u.ctx.Err() != nil {
			return beyond
		}
	}
}
