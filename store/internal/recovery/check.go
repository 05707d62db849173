package recovery

import (
	"errors"
	"fmt"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/consumequeue"
)

// MaxQueueOffset bounds what is taken for a queue offset: the units' bytes must be countable.
const MaxQueueOffset = 1 << 58

// checker compares records, in log order, with the units that should point at them, and appends the units that are missing at a queue's end.
type checker struct {
	set      *consumequeue.Set
	from     int64              // the first record seen is the first at or beyond from
	whole    bool               // from is the log's start
	trusting bool               // a queue that holds nothing may begin anywhere, also in a pass that is not whole
	expected map[QueueKey]int64 // or here
	multi    bool               // Options.MultiDispatch
	readOnly bool               // nothing is appended
	plan     bool               // nothing is appended either, but counted as if
	only     map[QueueKey]bool  // nil = all queues; else only these, and they are being built: a numbering that begins anew empties them
	tracks   map[QueueKey]*track
	recent   [recentTracks]recent // of the last records
	skip     map[QueueKey]string  // queues that are not looked at
	records  int64
	appended int64
	unqueued int64 // records whose topic or queue offset no queue can have

	// Records below dispatched, or stored no later than dispatchedTime (ms), had their units before: a queue that lacks them lost them.
	dispatched, dispatchedTime int64
}

// track is what the log says about one queue, and how far its units agree.
type track struct {
	q           *consumequeue.Queue
	start       int64 // physical offset from which records count: of the pass, or where the numbering began anew
	last        int64 // physical offset of the last record seen; -1: none yet
	first, next int64 // queue offsets [first, next) were seen in the log; next -1: none yet
	matched     int64 // of them, with a unit that points exactly at the record
	fault       string
	reused, gap bool
	filled      bool // got back units that it had lost
	plan        *plan
	impossible  bool // cannot be a directory
	ignored     bool // not one of those that are looked at; in no map of tracks

	units consumequeue.Units // of q, held while its records come
}

// recent is a track that was asked for lately.
type recent struct {
	key QueueKey
	t   *track
}

const recentTracks = 1 << 10

// recentSlot is where a queue lies among the recent ones.
func recentSlot(k QueueKey) int {
	n := len(k.Topic)
	h := uint(k.QueueID) + 31*uint(n)
	if n > 0 {
		h += 7*uint(k.Topic[n-1]) + 131*uint(k.Topic[n/2])
	}
	return int(h % recentTracks)
}

// unit is q.Unit for who asks for one after the other.
func (t *track) unit(queueOffset int64) (consumequeue.Unit, error) {
	i := queueOffset - t.units.First
	if i < 0 || i >= int64(t.units.Len()) {
		t.letGo()
		var err error
		if t.units, err = t.q.View(queueOffset); err != nil {
			return t.q.Unit(queueOffset)
		}
		i = 0
	}
	if u := t.units.At(int(i)); u.Valid() || u.IsFiller() {
		return u, nil
	}
	return t.q.Unit(queueOffset) // which says what is wrong
}

func (t *track) letGo() {
	t.units.Release()
	t.units = consumequeue.Units{}
}

// letGo gives up what is held of queues.
func (c *checker) letGo() {
	for _, t := range c.tracks {
		t.letGo()
	}
}

func newChecker(set *consumequeue.Set, from int64) *checker {
	return &checker{set: set, from: from, tracks: map[QueueKey]*track{}}
}

func (c *checker) track(k QueueKey) *track {
	r := &c.recent[recentSlot(k)]
	if r.t == nil || r.key != k {
		r.key, r.t = k, c.find(k)
	}
	return r.t
}

func (c *checker) find(k QueueKey) *track {
	if c.only != nil && !c.only[k] || c.skip[k] != "" {
		return &track{ignored: true}
	}
	t := c.tracks[k]
	if t == nil {
		t = &track{q: c.set.Queue(k.Topic, k.QueueID), start: c.from, last: -1, next: -1, impossible: consumequeue.CheckName(k.Topic, k.QueueID) != nil}
		if c.plan && c.only != nil {
			t.q = nil
		}
		if c.plan {
			t.plan = planOf(t.q)
		}
		c.tracks[k] = t
	}
	return t
}

// see compares one record.
func (c *checker) see(m *record.Meta) error {
	c.records++
	if !c.multi {
		if !m.HasUnit() {
			return nil
		}
		return c.slot(consumequeue.Slot{Topic: m.Topic, QueueID: m.QueueID, QueueOffset: m.QueueOffset, TagsCode: m.TagsCode}, m)
	}
	for u := range consumequeue.Slots(m, true) {
		if err := c.slot(u, m); err != nil {
			return err
		}
	}
	return nil
}

// slot compares one of the places of a record's units.
func (c *checker) slot(u consumequeue.Slot, m *record.Meta) error {
	k := QueueKey{u.Topic, u.QueueID}
	t := c.track(k)
	switch {
	case t.ignored:
		return nil
	case t.impossible || u.QueueOffset < 0 || u.QueueOffset > MaxQueueOffset:
		c.unqueued++
		return nil
	case t.last == m.PhyOffset:
		return nil // a record that names a queue twice has one unit in it
	}
	t.last = m.PhyOffset
	missing, err := c.compare(k, t, u, m)
	if err != nil || !missing {
		return err
	}
	return c.append(k, t, u, m)
}

// compare reports whether u is missing at the end of its queue and may be appended.
func (c *checker) compare(k QueueKey, t *track, u consumequeue.Slot, m *record.Meta) (missing bool, err error) {
	again := t.next >= 0 && u.QueueOffset < t.next
	switch {
	case t.next < 0:
		t.first = u.QueueOffset
	case again && u.QueueOffset != 0:
		t.reused = true // the first record keeps its place, unless the queue has it otherwise
	case again, u.QueueOffset > t.next:
		t.reused, t.gap = t.reused || again, t.gap || !again
		t.start, t.first, t.next, t.matched, t.fault = m.PhyOffset, u.QueueOffset, -1, 0, ""
		again = false
		if c.plan {
			t.plan.units = 0
			if c.only != nil {
				t.plan = planOf(nil)
			}
		} else if c.only != nil {
			t.letGo()
			if t.q, err = c.set.ResetQueue(k.Topic, k.QueueID); err != nil {
				return false, fmt.Errorf("empty queue %s-%d: %w", k.Topic, k.QueueID, err)
			}
		}
	}
	t.next = max(t.next, u.QueueOffset+1)

	var minOffset, maxOffset, maxPhy int64 = 0, 0, -1
	if t.q != nil {
		minOffset, maxOffset, maxPhy = t.q.MinOffset(), t.q.MaxOffset(), t.q.MaxPhyOffset()
	}
	if c.plan {
		minOffset, maxOffset, maxPhy = t.plan.min, t.plan.max, t.plan.maxPhy
	}
	switch {
	case u.QueueOffset < minOffset:
		t.blame(again, "lacks its head")
	case c.plan && u.QueueOffset >= t.plan.held && u.QueueOffset < maxOffset: // another record would have got its unit
	case u.QueueOffset < maxOffset:
		have, err := t.unit(u.QueueOffset)
		switch {
		case err == nil && pointsAt(have, u, m):
			t.matched++
		case errors.Is(err, mappedfile.ErrCorrupt):
			return !c.readOnly, nil // a torn or lost unit, which appending mends
		case err != nil:
			return false, err
		} // else matched stays behind, see verdict
	case again:
	case m.PhyOffset < maxPhy:
		t.blame(false, "its last unit points beyond records that it lacks")
	case maxPhy >= 0 && u.QueueOffset > maxOffset:
		t.blame(false, "lacks units")
	case maxPhy < 0 && u.QueueOffset > 0 && !c.whole && !c.trusting && u.QueueOffset != c.expected[k]:
		t.blame(false, "lacks its head")
	case c.readOnly:
		t.blame(false, "lacks its tail")
	default:
		return true, nil
	}
	return false, nil
}

func (t *track) blame(again bool, fault string) {
	if !again && t.fault == "" {
		t.fault = fault
	}
}

func (c *checker) append(k QueueKey, t *track, u consumequeue.Slot, m *record.Meta) error {
	if c.plan {
		return c.planned(t, u, m)
	}
	t.letGo()
	var err error
	end := int64(-1)
	if t.q == nil {
		err = c.set.Append(u, m)
	} else {
		end = t.q.MaxOffset()
		err = t.q.Append(u, m)
	}
	if err == nil && end == u.QueueOffset && t.q.MaxOffset() == end+1 {
		c.counted(t, m)
		return nil
	}
	var gap *consumequeue.GapError // behind the ordinary case, since it costs an allocation
	switch {
	case errors.As(err, &gap):
		t.blame(false, "lacks units")
		return nil
	case err != nil:
		return fmt.Errorf("append unit %d of queue %s-%d for the record at %d: %w", u.QueueOffset, k.Topic, k.QueueID, m.PhyOffset, err)
	}
	if t.q == nil {
		t.q = c.set.Queue(k.Topic, k.QueueID)
	}
	// What Append takes for a duplicate it accepts without a word.
	have, err := t.q.Unit(u.QueueOffset)
	switch {
	case errors.Is(err, mappedfile.ErrCorrupt), errors.Is(err, consumequeue.ErrNoUnit), err == nil && !pointsAt(have, u, m):
		return nil
	case err != nil:
		return err
	}
	c.counted(t, m)
	return nil
}

// pointsAt reports whether the unit is the one that belongs to the record. An address of an extension unit stands for the tags code; the time of a delayed
// record follows from a table that may have been changed since.
func pointsAt(have consumequeue.Unit, want consumequeue.Slot, m *record.Meta) bool {
	return have.PhyOffset == m.PhyOffset && int(have.Size) == m.Size &&
		(have.TagsCode == want.TagsCode || have.IsExtAddress() || want.Topic == record.TopicSchedule)
}

// verdict says what is wrong with a queue after the last record was seen; "" = nothing.
func (c *checker) verdict(q *consumequeue.Queue, t *track) (string, error) {
	from := c.from
	if t != nil {
		if t.fault != "" {
			return t.fault, nil
		}
		if t.next >= 0 && t.matched != t.next-t.first {
			return "has units that point elsewhere", nil
		}
		from = t.start
	}
	if q == nil {
		return "", nil
	}
	n, err := unitsFrom(q, from)
	if t != nil && t.plan != nil {
		n += t.plan.units
		if t.plan.mended >= 0 && errors.Is(err, mappedfile.ErrCorrupt) {
			n, err = t.matched, nil
		}
	}
	switch {
	case errors.Is(err, mappedfile.ErrCorrupt):
		return "has a malformed unit", nil
	case err != nil:
		return "", err
	case t == nil && n != 0, t != nil && n != t.matched:
		return "has units that no record belongs to", nil
	}
	return "", nil
}

// unitsFrom counts the units that point at phyOffset or beyond. Units ascend; fillers lie at the head.
func unitsFrom(q *consumequeue.Queue, phyOffset int64) (int64, error) {
	lo, hi := q.MinOffset(), q.MaxOffset()
	end := hi
	for lo < hi {
		mid := lo + (hi-lo)/2
		u, err := q.Unit(mid)
		if err != nil {
			return 0, err
		}
		if u.IsFiller() || u.PhyOffset < phyOffset {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return end - lo, nil
}
