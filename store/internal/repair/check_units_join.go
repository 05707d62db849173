package repair

import (
	"fmt"
	"math"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/consumequeue"
)

// share takes a queue's records of one part.
func (u *unitCheck) share(s *queueState, q *queuePart) {
	if !q.proved {
		for at := q.head; at > 0; {
			e := &q.of.expected[at-1]
			u.one(s, e)
			at = e.next
		}
		return
	}
	first := q.of.expected[q.head-1]
	n := int64(q.n)
	if s.odd != nil || s.want >= 0 && s.want != first.queueOffset {
		// The second one settles where the numbers go on, since it follows the first.
		for at := q.head; at > 0; {
			e := &q.of.expected[at-1]
			u.one(s, e)
			at = e.next
			n--
			first.queueOffset++
		}
	}
	if n == 0 {
		return
	}
	s.records += n
	if s.first < 0 {
		s.first = first.phyOffset
	}
	if first.queueOffset > s.next {
		u.unclaimed(s, first.queueOffset)
	}
	end := first.queueOffset + n
	u.sum.Units += max(0, end-max(s.next, first.queueOffset))
	s.next, s.want = max(s.next, end), end
	u.newest = max(u.newest, q.lastPhy)
}

// one takes the next record of a queue: first its number, then its unit.
func (u *unitCheck) one(s *queueState, e *expected) {
	if s.width == batchUnitSize {
		u.batchUnit(s, e)
		return
	}
	if e.multi {
		if !u.isAt(s, e.queueOffset, e) {
			s.multi++
			if s.first < 0 {
				s.first = e.phyOffset
			}
			return
		}
		u.matched++
	}
	s.records++
	if s.first < 0 {
		s.first = e.phyOffset
	}
	if o := s.odd; o != nil {
		s.odd = nil
		switch {
		case e.queueOffset == s.want+1:
			u.wrongNumber(s, o, fmt.Sprintf("its place between the records around it is %d", s.want))
			u.unit(s, s.want, o)
			s.want++
		case e.queueOffset == s.want:
			u.wrongNumber(s, o, "the records around it are numbered without it")
		case e.queueOffset == o.queueOffset+1, o.queueOffset > s.want:
			u.moved(s, o)
		default:
			u.wrongNumber(s, o, fmt.Sprintf("%d comes next", s.want))
		}
	}
	if s.want >= 0 && e.queueOffset != s.want {
		c := *e
		s.odd = &c
		return
	}
	s.want = e.queueOffset + 1
	u.unit(s, e.queueOffset, e)
}

func (u *unitCheck) wrongNumber(s *queueState, o *expected, why string) {
	f := s.about(WrongQueueOffset, u.logFile(o.phyOffset), MendSalvage, fmt.Sprintf("the record says that it is number %d of its queue, but %s: consumers may get it twice, or never", o.queueOffset, why))
	f.PhyOffset, f.QueueOffset = o.phyOffset, o.queueOffset
	u.report(f)
}

// moved takes records that go on elsewhere in the numbering.
func (u *unitCheck) moved(s *queueState, o *expected) {
	switch {
	case o.queueOffset > s.want && o.afterHole: // what is missing is told as damage
	case o.queueOffset > s.want:
		f := s.about(WrongQueueOffset, u.logFile(o.phyOffset), MendSalvage, fmt.Sprintf("the queue's numbers go from %d to %d: the log lacks what is between, without a trace of damage; consumers skip it", s.want-1, o.queueOffset))
		f.PhyOffset, f.QueueOffset = o.phyOffset, o.queueOffset
		u.report(f)
	case o.queueOffset == 0:
		f := s.about(WrongQueueOffset, u.logFile(o.phyOffset), MendSalvage, fmt.Sprintf("the queue's numbers begin again at 0 behind %d: the topic was deleted and made again, or RocketMQ had lost the queue's files; consumers get the later records, those before can be read from the log only", s.want-1))
		f.PhyOffset, f.QueueOffset = o.phyOffset, o.queueOffset
		u.report(f)
	default:
		f := s.about(WrongQueueOffset, u.logFile(o.phyOffset), MendSalvage, fmt.Sprintf("the queue's numbers go back from %d to %d: the numbers from there on were used twice, and consumers get only one record of each", s.want-1, o.queueOffset))
		f.PhyOffset, f.QueueOffset = o.phyOffset, o.queueOffset
		u.report(f)
	}
	u.unit(s, o.queueOffset, o)
	s.want = o.queueOffset + 1
}

// isAt reports whether the unit at queueOffset is e's.
func (u *unitCheck) isAt(s *queueState, queueOffset int64, e *expected) bool {
	have, ok := u.read(s, queueOffset)
	return ok && have.PhyOffset == e.phyOffset && have.Size == e.size
}

// unit compares the unit at queueOffset with the record that must be there, and tells units before it that no record claims.
func (u *unitCheck) unit(s *queueState, queueOffset int64, e *expected) {
	if len(s.files) == 0 {
		return // told as a whole
	}
	if queueOffset > s.next {
		u.unclaimed(s, queueOffset)
	}
	first := queueOffset >= s.next
	s.next = max(s.next, queueOffset+1)
	have, ok := u.read(s, queueOffset)
	if waits := s.run != nil && s.run.last+1 == queueOffset; u.o.Live && !waits && (have.PhyOffset != e.phyOffset || have.Size != e.size) {
		u.refresh(s) // its process may have written it since
		have, ok = u.read(s, queueOffset)
	}
	if ok && have.Valid() && first {
		u.sum.Units++
	}
	switch {
	case !ok || !have.Valid():
		u.missing(s, queueOffset, e, have, ok)
		return
	case have.PhyOffset == e.phyOffset && have.Size == e.size:
		u.newest = max(u.newest, e.phyOffset)
		u.tags(s, queueOffset, have, e)
		return
	}
	if have.PhyOffset == e.phyOffset {
		u.wrong(s, queueOffset, have, WrongUnit, "size", MendRebuild, fmt.Sprintf("says that the record at %d has %s, it has %d: reads of it fail, or give half of it", e.phyOffset, plural(int64(have.Size), "byte", "bytes"), e.size))
		return
	}
	if !first {
		return // its number was used twice, which is told
	}
	u.judge(s, queueOffset, have, e)
}

// missing tells a record without unit.
func (u *unitCheck) missing(s *queueState, queueOffset int64, e *expected, have consumequeue.Unit, ok bool) {
	const class = "missing"
	if s.run != nil && s.run.last+1 == queueOffset {
		s.run.n++
		s.run.last = queueOffset
		return
	}
	u.endRun(s, &s.run)
	why := "nothing is written there"
	switch {
	case !ok:
		why = "no file of the queue reaches there"
	case have.IsFiller():
		why = "its place is filled up as if there had been no record"
	case have != consumequeue.Unit{}:
		why = "what is written there is no unit"
	}
	f := s.about(MissingUnit, u.unitName(s, queueOffset), MendRecover, fmt.Sprintf("consumers do not get the record at %d: its queue has no unit for it (%s)", e.phyOffset, why))
	f.PhyOffset, f.QueueOffset = e.phyOffset, queueOffset
	s.run = &run{Finding: f, n: 1, class: class, last: queueOffset, cont: "and so for the next %d of the queue"}
}

// unitName is the file that a unit lies in, or would.
func (u *unitCheck) unitName(s *queueState, queueOffset int64) string {
	at := queueOffset * s.width
	size := int64(0)
	for i := len(s.files) - 1; i >= 0; i-- {
		f := s.files[i]
		if at >= f.start && at < f.start+f.size {
			return s.dir() + "/" + segmentName(f.start)
		}
		size = max(size, f.size)
	}
	if size <= 0 || queueOffset > math.MaxInt64/s.width {
		return s.dir()
	}
	return s.dir() + "/" + segmentName(at-at%size)
}

// tags compares the unit's tags code with the record's.
func (u *unitCheck) tags(s *queueState, queueOffset int64, have consumequeue.Unit, e *expected) {
	if have.TagsCode == e.tagsCode {
		return
	}
	if s.Topic == record.TopicSchedule && e.tagsCode >= e.storeTime && !have.IsExtAddress() {
		// The time when it is due follows from a table that may have been changed, but always of whole seconds.
		if late := have.TagsCode - e.storeTime; late < 0 || late%1000 != 0 {
			u.wrong(s, queueOffset, have, WrongTagsCode, "due", MendRebuild, fmt.Sprintf("says that the delayed message at %d, stored at %d, is due at %d: it is delivered at the wrong time, or never", e.phyOffset, e.storeTime, have.TagsCode))
		}
		return
	}
	if have.IsExtAddress() {
		u.extension(s, queueOffset, have, e)
		return
	}
	u.wrong(s, queueOffset, have, WrongTagsCode, "tags", MendRebuild, fmt.Sprintf("has tags code %d, the tags of the record at %d have %d: consumers that filter by tags miss it, or get it wrongly", have.TagsCode, e.phyOffset, e.tagsCode))
}

// extension compares the extension unit that the unit leads to.
func (u *unitCheck) extension(s *queueState, queueOffset int64, have consumequeue.Unit, e *expected) {
	x, err := u.ext.at(s, have.TagsCode)
	switch {
	case err != nil:
		u.wrong(s, queueOffset, have, BadExtAddress, "nowhere", MendRebuild, fmt.Sprintf("leads to an extension unit that is not there (%v): filters cannot decide, and let the message through", err))
	case x.StoreTime != e.storeTime:
		u.wrong(s, queueOffset, have, BadExtAddress, "other", MendRebuild, fmt.Sprintf("leads to the extension unit of a message stored at %d, its own was stored at %d: filters decide by another message", x.StoreTime, e.storeTime))
	case x.TagsCode != e.tagsCode && s.Topic != record.TopicSchedule:
		u.wrong(s, queueOffset, have, WrongTagsCode, "exttags", MendRebuild, fmt.Sprintf("leads to an extension unit with tags code %d, the tags of the record have %d: consumers that filter by tags miss it, or get it wrongly", x.TagsCode, e.tagsCode))
	}
}

// wrong tells a unit that is wrong. Neighbours of one class are one finding.
func (u *unitCheck) wrong(s *queueState, queueOffset int64, have consumequeue.Unit, k Kind, class, mend, detail string) {
	if s.bad != nil && s.bad.Kind == k && s.bad.class == class && s.bad.last+1 == queueOffset {
		s.bad.n++
		s.bad.last = queueOffset
		return
	}
	u.endRun(s, &s.bad)
	f := s.about(k, u.unitName(s, queueOffset), mend, "unit "+fmt.Sprint(queueOffset)+" "+detail)
	f.PhyOffset, f.QueueOffset = have.PhyOffset, queueOffset
	s.bad = &run{Finding: f, n: 1, class: class, last: queueOffset, cont: "and so the next %d of the queue"}
}

func (u *unitCheck) endRun(s *queueState, of **run) {
	r := *of
	if r == nil {
		return
	}
	*of = nil
	if r.Kind == MissingUnit && u.o.Live && u.underWay(s, r) {
		return
	}
	if r.n > 1 {
		r.Detail += "; " + fmt.Sprintf(r.cont, r.n-1)
	}
	u.report(r.Finding)
}

// batchUnit takes the next record of a queue of RocketMQ 5 whose units stand for several messages each: units and records come in the same order.
func (u *unitCheck) batchUnit(s *queueState, e *expected) {
	s.records++
	if s.first < 0 {
		s.first = e.phyOffset
	}
	for len(s.files) > 0 {
		have, ok := u.read(s, s.next)
		if ok && have.Valid() && have.PhyOffset < e.phyOffset {
			if u.sum.Units++; have.PhyOffset >= u.log.minPhy {
				u.judge(s, s.next, have, nil)
			}
			s.next++
			continue
		}
		switch {
		case !ok || !have.Valid() || have.PhyOffset > e.phyOffset:
			u.missing(s, s.next, e, have, ok)
		case have.Size != e.size:
			u.wrong(s, s.next, have, WrongUnit, "size", MendRebuild, fmt.Sprintf("says that the record at %d has %s, it has %d", e.phyOffset, plural(int64(have.Size), "byte", "bytes"), e.size))
			fallthrough
		default:
			u.sum.Units++
			s.next++
			if have.Size == e.size && have.TagsCode != e.tagsCode {
				u.wrong(s, s.next-1, have, WrongTagsCode, "tags", MendRebuild, fmt.Sprintf("has tags code %d, the tags of the record at %d have %d", have.TagsCode, e.phyOffset, e.tagsCode))
			}
		}
		return
	}
}
