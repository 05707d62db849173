package repair

import (
	"fmt"
	"sort"
	"strings"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/consumequeue"
)

const (
	firstBatch = 1 << 14 // units and queues; then more and more
	mostBatch  = 1 << 18
)

// queueState is what is known of one queue. It lives as long as the check; there may be a hundred thousand.
type queueState struct {
	QueueName
	width int64
	files []queueFile // ascending

	// The walker's.
	lastPhy int64      // the last record handed on; -1 none
	last    *queuePart // the last share of this queue in the batch that fills

	// The joiner's.
	next    int64 // units below are accounted for
	want    int64 // the number of the queue's next record; -1 none yet
	odd     *expected
	run     *run // of missing units; nil: the last one has its unit
	bad     *run // of units that nothing claims, or that are wrong; nil: the last one is right
	records int64
	multi   int64 // records that came by multi-dispatch only and found no unit
	first   int64 // physical offset of the queue's first record; -1 none
}

// queueFile is a file of a queue: the bytes [start, start+size) of its stream.
type queueFile struct{ start, size int64 }

// run is several neighbours with the same fault, told as one.
type run struct {
	Finding
	n     int64
	class string // what makes neighbours alike
	last  int64  // queue offset
	cont  string // how more of them are said: "%d more"
}

// batch is units of several parts, queue by queue.
type batch struct {
	touched []*queueState
	shares  []*queuePart // of touched, the first of each
	weight  int          // of its parts
	seen    seen         // of the log, when the batch was full
}

// seen is what the walker knows of the log at some moment.
type seen struct {
	minPhy int64 // the first record; math.MaxInt64: none
	upTo   int64 // the log was read up to here
	over   bool  // and ends there
	damage []span
}

// lost is the damage that phyOffset lies in; to 0: none.
func (l *seen) lost(phyOffset int64) span {
	i := sort.Search(len(l.damage), func(i int) bool { return l.damage[i].to > phyOffset })
	if i < len(l.damage) && l.damage[i].from <= phyOffset {
		return l.damage[i]
	}
	return span{}
}

// unitCheck joins records and units.
type unitCheck struct {
	*check
	alone   *collector                // of the records that come one by one
	strange map[QueueName]*queueState // queues that the log names and nobody lists; the first maxStrange
	others  int64                     // records of more such queues than that
	filling *batch
	limit   int // weight of a batch
	free    chan *batch
	full    chan *batch
	done    chan struct{}
	err     error // of the joiner, once done

	// The joiner's.
	log     seen
	file    unitFile
	probe   prober
	ext     extFile
	matched int64 // units of multi-dispatch that are there
	newest  int64 // the last record in the log whose unit was seen: dispatch, which goes in log order, has come so far
	broken  map[string]bool
}

func (u *unitCheck) init(c *check) {
	u.check, u.limit = c, firstBatch
	u.free, u.full, u.done = make(chan *batch, 2), make(chan *batch), make(chan struct{})
	u.free <- &batch{}
	u.free <- &batch{}
	u.probe = prober{c: c}
	u.file.fsys, u.ext.fsys = c.root, c.root
	for _, s := range c.order {
		s.start()
	}
	u.alone, u.strange = newCollector(c.queues, nil), map[QueueName]*queueState{}
	go u.join()
}

func (s *queueState) start() {
	s.lastPhy, s.want, s.first = -1, -1, -1
	if len(s.files) > 0 {
		s.next = s.files[0].start / s.width
	}
}

// maxStrange bounds the queues that are taken from the log alone.
const maxStrange = 200_000

// record takes the next record of the log, where records come one by one.
func (u *unitCheck) record(m *record.Meta, k *record.Known, holeEnd int64) error {
	u.alone.record(m, k, holeEnd)
	if n := u.alone.part.weight(); n >= u.limit || u.filling != nil && n+u.filling.weight >= u.limit {
		return u.closePart()
	}
	return nil
}

// closePart hands on what came one by one.
func (u *unitCheck) closePart() error {
	if u.alone.part.n == 0 {
		return nil
	}
	return u.fill(u.alone.handOver())
}

// add takes the units of the log's next stretch, in which there is no damage; holeEnd is where the last one before it ends.
func (u *unitCheck) add(p *part, holeEnd int64) error {
	if err := u.closePart(); err != nil || p.n == 0 {
		return err
	}
	for i := range p.queues {
		p.queues[i].holeEnd = holeEnd
	}
	return u.fill(p)
}

// fill puts a part into the batch.
func (u *unitCheck) fill(p *part) error {
	b := u.filling
	if b == nil {
		select {
		case b = <-u.free:
		case <-u.done:
			return u.failure()
		}
		u.filling = b
	}
	for i := range p.queues {
		q := &p.queues[i]
		if q.s == nil {
			if q.s = u.stranger(p.names[q.name]); q.s == nil {
				u.others += int64(q.n)
				continue
			}
		}
		s := q.s
		p.expected[q.head-1].afterHole = s.lastPhy >= 0 && s.lastPhy < q.holeEnd
		s.lastPhy = q.lastPhy
		if s.last == nil {
			b.touched, b.shares = append(b.touched, s), append(b.shares, q)
		} else {
			s.last.next = q
		}
		s.last = q
	}
	if b.weight += p.weight(); b.weight >= u.limit {
		u.limit = min(2*u.limit, mostBatch)
		return u.flush()
	}
	return nil
}

// stranger is a queue without a directory; nil if there are too many.
func (u *unitCheck) stranger(name QueueName) *queueState {
	s := u.strange[name]
	if s == nil && len(u.strange) < maxStrange {
		s = &queueState{QueueName: QueueName{strings.Clone(name.Topic), name.QueueID}, width: consumequeue.UnitSize}
		s.start()
		u.strange[s.QueueName] = s
		u.order = append(u.order, s)
	}
	return s
}

// flush hands the batch to the joiner.
func (u *unitCheck) flush() error {
	b := u.filling
	if b == nil {
		return nil
	}
	for _, s := range b.touched {
		s.last = nil
	}
	u.filling = nil
	b.seen = seen{minPhy: u.minPhy, upTo: u.end, damage: u.damage}
	select {
	case u.full <- b:
		return nil
	case <-u.done:
		return u.failure()
	}
}

func (u *unitCheck) failure() error {
	if u.err != nil {
		return u.err
	}
	return u.ctx.Err()
}

// join compares batches with units until there are no more.
func (u *unitCheck) join() {
	defer close(u.done)
	for {
		var b *batch
		select {
		case b = <-u.full:
		case <-u.ctx.Done():
			return
		}
		if b == nil {
			return
		}
		u.log, u.probe.log = b.seen, b.seen
		for i, s := range b.touched {
			for q := b.shares[i]; q != nil; q = q.next {
				if u.ctx.Err() != nil {
					return
				}
				u.share(s, q)
			}
		}
		clear(b.shares)
		b.touched, b.shares, b.weight = b.touched[:0], b.shares[:0], 0
		u.free <- b
	}
}

// handOn hands the joiner all that there is.
func (u *unitCheck) handOn() error {
	if err := u.closePart(); err != nil {
		return err
	}
	return u.flush()
}

// finish waits for the joiner, and looks at what no record claims.
func (u *unitCheck) finish() error {
	if err := u.handOn(); err != nil {
		return err
	}
	close(u.full)
	<-u.done
	defer u.close()
	if err := u.failure(); err != nil {
		return err
	}
	u.log = seen{minPhy: u.minPhy, upTo: u.end, over: true, damage: u.damage}
	u.probe.log = u.log
	beyond := int64(-1) // the furthest record that a unit behind the log's end points at
	for i, s := range u.order {
		if err := u.ctx.Err(); err != nil {
			return err
		}
		if i&0xff == 0 {
			u.progress("queues", int64(i), int64(len(u.order)))
		}
		beyond = max(beyond, u.rest(s))
	}
	u.progress("queues", int64(len(u.order)), int64(len(u.order)))
	if beyond >= u.lastFile && beyond >= 0 && !u.o.Live {
		mend, detail := MendRecover, fmt.Sprintf("queues point at records up to %d, the log's last file ends at %d: the files behind are gone, and so are their messages unless they are found again; recover cuts the queues to what is there", beyond, u.lastFile)
		if len(u.segments) == 0 {
			mend, detail = MendByHand, fmt.Sprintf("queues point at records up to %d, but there is no file of the log: is commitlog/ the right directory, and mounted? (--commitlog, if it lies elsewhere)", beyond)
		}
		u.report(at(MissingSegment, u.logFile(max(u.lastFile, 0)), max(u.lastFile, 0), mend, detail))
	}
	if u.others > 0 {
		u.report(inFile(MissingQueue, queueDir, MendRecover, fmt.Sprintf("%s of still other queues that have no files", plural(u.others, "record", "records"))))
	}
	return nil
}

func (u *unitCheck) close() {
	u.file.shut()
	u.probe.shut()
	u.ext.shut()
}
