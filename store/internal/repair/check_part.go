package repair

import (
	"slices"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/consumequeue"
)

// part is the units that a stretch of the log must have.
type part struct {
	expected []expected
	queues   []queuePart // in the order in which the stretch names them
	names    []QueueName // of queues without a directory
	n        int         // units, those of proved queues included
}

// queuePart is one queue's share of a part, or half of it: what is proved comes before what is not.
type queuePart struct {
	of         *part
	s          *queueState // nil until it is known: a queue without a directory
	name       int32       // its name then, in of.names
	head, tail int32       // first and last place in of.expected, from 1
	n          int32       // units
	proved     bool        // the numbers follow one another, each unit is as it must be, and of.expected holds the first toldOfProved only
	lastPhy    int64       // the last record
	holeEnd    int64       // where the last damage of the log before the first record ends; -1 none
	next       *queuePart  // the queue's share of the batch's next part
}

// expected is the unit that a record must have.
type expected struct {
	queueOffset int64
	phyOffset   int64
	tagsCode    int64
	storeTime   int64
	size        int32
	next        int32 // in the queue's chain, from 1; 0 none
	afterHole   bool  // damage of the log lies between this record and the one before in its queue
	multi       bool  // by INNER_MULTI_DISPATCH, which counts only where the broker had that enabled
}

// collector makes parts of records. For one goroutine.
type collector struct {
	known   map[QueueName]*queueState // the queues that have a directory; nobody changes it while the log is read
	match   *matcher                  // nil: nothing is proved
	part    *part
	cursors []*cursor           // of part.queues; nil: the share is not proved
	slots   map[QueueName]int32 // of part.queues
	units   int                 // of the part before
	queues  int                 // of the part before
	recent  [64]struct {
		name QueueName
		slot int32
	}
}

// toldOfProved is how many of a proved queue's units are looked at one by one where its numbers do not go on from the part before.
const toldOfProved = 2

func newCollector(known map[QueueName]*queueState, match *matcher) *collector {
	return &collector{known: known, match: match, slots: map[QueueName]int32{}, part: &part{}}
}

// reset begins another part, for which it uses the memory of the last one again.
func (c *collector) reset() {
	*c.part = part{expected: c.part.expected[:0], queues: c.part.queues[:0]}
	clear(c.cursors)
	c.cursors = c.cursors[:0]
	clear(c.slots)
	clear(c.recent[:])
}

// handOver is the part that was collected. What is collected next begins with memory of its own, which it takes when it begins: until then somebody may have to wait for memory to be free.
func (c *collector) handOver() *part {
	p := c.part
	c.units, c.queues = len(p.expected), len(p.queues)
	c.part = &part{}
	c.reset()
	return p
}

// copy is the part that was collected, which does not change any more.
func (c *collector) copy() *part {
	p := *c.part
	p.expected, p.queues = slices.Clone(p.expected), slices.Clone(p.queues)
	for i := range p.queues {
		p.queues[i].of = &p
		if cur := c.cursors[i]; cur != nil {
			cur.likely(p.queues[i].n)
		}
	}
	return &p
}

// weight is how much memory a part takes, in units and queues of about as much.
func (p *part) weight() int { return len(p.expected) + len(p.queues) }

// record takes the next record of the log.
func (c *collector) record(m *record.Meta, k *record.Known, holeEnd int64) {
	if !m.HasUnit() {
		return
	}
	c.expect(m.Topic, m.QueueID, m.QueueOffset, m, holeEnd, false)
	if k.MultiDispatch == nil {
		return
	}
	own := true
	for at := range consumequeue.Slots(m, true) {
		if own {
			own = false
			continue
		}
		c.expect(at.Topic, at.QueueID, at.QueueOffset, m, holeEnd, true)
	}
}

func (c *collector) expect(topic string, queueID int32, queueOffset int64, m *record.Meta, holeEnd int64, multi bool) {
	p := c.part
	if p.expected == nil {
		p.expected, p.queues = make([]expected, 0, c.units), make([]queuePart, 0, c.queues)
	}
	slot := c.slot(topic, queueID)
	q := &p.queues[slot]
	if multi && q.lastPhy == m.PhyOffset {
		return // a record that names a queue twice has one unit in it
	}
	if q.proved && (multi || !c.match.next(c.cursors[slot], queueOffset, m)) {
		q = c.doubt(slot)
	}
	p.n++
	if q.n++; q.proved && q.n > toldOfProved {
		q.lastPhy = m.PhyOffset
		return
	}
	p.expected = append(p.expected, expected{queueOffset: queueOffset, phyOffset: m.PhyOffset, tagsCode: m.TagsCode, storeTime: m.StoreTimestamp, size: int32(m.Size),
		afterHole: q.lastPhy >= 0 && q.lastPhy < holeEnd, multi: multi})
	at := int32(len(p.expected))
	if q.head == 0 {
		q.head, q.holeEnd = at, holeEnd
	} else {
		p.expected[q.tail-1].next = at
	}
	q.tail, q.lastPhy = at, m.PhyOffset
}

// doubt is the share of a queue from here on, whose next unit is not as it must be, or not known to be.
func (c *collector) doubt(slot int32) *queuePart {
	p := c.part
	q := &p.queues[slot]
	if q.n == 0 {
		q.proved = false
		return q
	}
	name, rest := q.s.QueueName, int32(len(p.queues))
	p.queues = append(p.queues, queuePart{of: p, s: q.s, lastPhy: -1})
	c.cursors = append(c.cursors, nil)
	c.slots[name] = rest
	for i := range c.recent {
		if r := &c.recent[i]; r.slot == slot && r.name == name {
			r.slot = rest
		}
	}
	return &p.queues[rest]
}

// slot is the place of a queue in part.queues, which it makes.
func (c *collector) slot(topic string, queueID int32) int32 {
	h := uint32(queueID)
	if n := len(topic); n > 0 {
		h = 5*h + 31*uint32(n) + 7*uint32(topic[n-1]) + uint32(topic[n/2])
	}
	r := &c.recent[h%uint32(len(c.recent))]
	if r.name.QueueID == queueID && r.name.Topic == topic && topic != "" {
		return r.slot
	}
	name := QueueName{topic, queueID}
	slot, ok := c.slots[name]
	if !ok {
		slot = int32(len(c.part.queues))
		q := queuePart{of: c.part, s: c.known[name], lastPhy: -1}
		if q.s == nil {
			q.name = int32(len(c.part.names))
			c.part.names = append(c.part.names, name)
		}
		cur := c.match.cursor(q.s)
		q.proved = cur != nil
		c.part.queues, c.cursors = append(c.part.queues, q), append(c.cursors, cur)
		c.slots[name] = slot
	}
	r.name, r.slot = name, slot
	return slot
}
