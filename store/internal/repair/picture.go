package repair

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sort"

	"github.com/mqstore/mqstore/consumequeue"
)

// PictureOptions say what a picture of a store is to know. The zero value is what production wants.
type PictureOptions struct {
	Name     string // what the store is called in it
	Live     bool   // a process has the store open
	Dir      string // passed on to Check
	Progress func(stage string, done, total int64)
}

// Picture is a store as it is drawn: see [Picture.SVG] and [Picture.HTML]. Its size does not grow with the store but for some hundred bytes a queue.
type Picture struct {
	Name     string
	Live     bool
	Clean    bool
	Segments []Segment
	Records  int64
	LogEnd   int64 // physical offset behind the last record; 0 without one
	Torn     bool  // something that is no record follows

	columns columns
	times   timeBins
	Queues  []PictureQueue // those that lack units first, then the largest
	Topics  int

	Findings []Finding      // the first maxPictureFindings
	Counts   map[Kind]int64 // all of them
	Total    int64

	axis axis
}

// PictureQueue is one queue in a picture.
type PictureQueue struct {
	QueueName
	Records, Bytes int64 // in the log
	Min, Max       int64 // queue offsets of its units
	FirstPhy       int64 // of its first record in the log; -1 none
	EndPhy         int64 // behind its last one
	Waiting        int64 // records of the log without a unit, at its end
	Dead           int64 // and below its first unit: nobody can get them any more
	dense          []uint32
}

const maxPictureFindings = 2000

// The classes of the log's bytes, from the bottom of a column upwards.
const (
	classLive    = iota // a queue gives the record
	classAside          // a prepared or rolled back message: in no queue
	classWaiting        // not in its queue yet
	classDead           // its queue has let go of it
	classDamaged        // no record can be read
	classBlank          // the rest of a segment
	classes
)

// columnCount is how many columns there are at most. The log fills more than half of them.
const (
	columnCount = 640
	denseCount  = 64
)

// columns are sums over pieces of the log, each width bytes of its files. They become twice as wide when the log turns out to be longer.
type columns struct {
	width int64
	bytes [classes][columnCount]float64
	first [columnCount]int64 // store time of the first record, ms
}

func (c *columns) double() {
	c.width *= 2
	for k := range c.bytes {
		for i := range columnCount {
			c.bytes[k][i] = pair(&c.bytes[k], i)
		}
	}
	for i := range columnCount {
		a, b := int64(0), int64(0)
		if 2*i < columnCount {
			a, b = c.first[2*i], c.first[2*i+1]
		}
		if c.first[i] = a; a == 0 {
			c.first[i] = b
		}
	}
}

func pair(b *[columnCount]float64, i int) float64 {
	if 2*i >= columnCount {
		return 0
	}
	return b[2*i] + b[2*i+1]
}

// timeBins are bytes by store time.
type timeBins struct {
	first, last int64 // ms; 0 none
	begin       int64 // of bin 0
	width       int64 // ms
	bytes       [240]float64
	odd         int64 // records with a time that no clock of a broker shows
}

const (
	saneFrom = 946684800000  // 2000
	saneTo   = 4102444800000 // 2100
)

func (t *timeBins) add(ms int64, size float64) {
	if ms < saneFrom || ms >= saneTo {
		t.odd++
		return
	}
	n := int64(len(t.bytes))
	if t.first == 0 {
		t.first, t.last, t.begin, t.width = ms, ms, ms, 1
	}
	t.first, t.last = min(t.first, ms), max(t.last, ms)
	for ms < t.begin || ms >= t.begin+n*t.width {
		wide := t.bytes
		clear(t.bytes[:])
		shift := int64(0)
		if ms < t.begin { // the bins there become the later half
			shift = n / 2
			t.begin -= n * t.width
		}
		t.width *= 2
		for i, b := range wide {
			t.bytes[shift+int64(i)/2] += b
		}
	}
	t.bytes[(ms-t.begin)/t.width] += size
}

// Draw looks at a store for a picture of it: once over its log for what lies where, and once as Check does for what is wrong.
func Draw(ctx context.Context, f *Files, o PictureOptions) (*Picture, error) {
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	p := &Picture{Name: o.Name, Live: o.Live, Segments: f.segments, Counts: map[Kind]int64{}}
	p.columns.width = 64
	p.axis = newAxis(f.segments)
	var err error
	if p.Clean, err = f.CleanExit(); err != nil {
		p.Clean = false // a finding of Check
	}
	d := &drawer{p: p, ctx: ctx, o: o, f: f, queues: map[QueueName]*PictureQueue{}}
	if err := d.bounds(); err != nil {
		return nil, err
	}
	if err := d.log(); err != nil {
		return nil, err
	}
	_, err = Check(ctx, f.root, f.log, CheckOptions{Live: o.Live, Dir: o.Dir, Progress: o.Progress}, func(x Finding) error {
		p.Counts[x.Kind]++
		p.Total++
		if len(p.Findings) < maxPictureFindings {
			p.Findings = append(p.Findings, x)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	topics := map[string]bool{}
	for _, q := range d.queues {
		topics[q.Topic] = true
		p.Queues = append(p.Queues, *q)
	}
	p.Topics = len(topics)
	sort.Slice(p.Queues, func(i, j int) bool {
		a, b := &p.Queues[i], &p.Queues[j]
		switch {
		case a.Waiting != b.Waiting:
			return a.Waiting > b.Waiting
		case a.Bytes != b.Bytes:
			return a.Bytes > b.Bytes
		}
		return a.less(b.QueueName)
	})
	return p, nil
}

type drawer struct {
	ctx    context.Context
	o      PictureOptions
	f      *Files
	p      *Picture
	queues map[QueueName]*PictureQueue
}

// bounds reads where each queue begins and ends.
func (d *drawer) bounds() error {
	names, err := d.f.Queues()
	if err != nil {
		return nil // what cannot be listed is a finding of Check
	}
	for i, n := range names {
		if i%256 == 0 {
			if err := d.ctx.Err(); err != nil {
				return err
			}
			d.o.Progress("queues", int64(i), int64(len(names)))
		}
		q := &PictureQueue{QueueName: n, FirstPhy: -1}
		d.queues[n] = q
		if err := d.bound(q); err != nil && !errors.Is(err, fs.ErrNotExist) {
			continue // a finding, too
		}
	}
	return nil
}

// bound finds a queue's first unit and the end of its units, by halves in its last file that has some.
func (d *drawer) bound(q *PictureQueue) error {
	r, err := d.f.ReadUnits(q.Topic, q.QueueID, 0)
	if err != nil {
		return err
	}
	defer r.Close()
	u, err := r.Next()
	if err != nil {
		return err
	}
	q.Min, q.Max = u.QueueOffset, u.QueueOffset+1
	for i := len(r.segs) - 1; i >= 0; i-- {
		s := r.segs[i]
		n, err := d.unitsIn(s)
		if err != nil {
			return err
		}
		if n > 0 {
			q.Max = max(q.Max, s.Start/consumequeue.UnitSize+n)
			return nil
		}
	}
	return nil
}

// unitsIn is how many units a queue file begins with.
func (d *drawer) unitsIn(s Segment) (int64, error) {
	f, err := d.f.root.Open(s.Path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	at, ok := f.(io.ReaderAt)
	if !ok {
		return 0, fmt.Errorf("%s: this file system cannot read at an offset", s.Path)
	}
	var failed error
	n := sort.Search(int(s.Size/consumequeue.UnitSize), func(i int) bool {
		var b [consumequeue.UnitSize]byte
		if _, err := at.ReadAt(b[:], int64(i)*consumequeue.UnitSize); err != nil {
			failed = err
			return true
		}
		u, err := consumequeue.ParseUnit(b[:])
		return err != nil || !u.Valid() && !u.IsFiller()
	})
	return int64(n), failed
}

// log reads the records.
func (d *drawer) log() error {
	r, err := d.f.ReadLog(0)
	if err != nil {
		return err
	}
	defer r.Close()
	r.sumsOnly = true
	begin, total := r.Offset(), lastEnd(d.f)
	end := begin                            // of what was seen
	badFrom, badEnd := int64(-1), int64(-1) // damage, whose meaning is known when a record follows
	bad := func(from, to int64) {
		if badFrom < 0 {
			badFrom = from
		}
		badEnd = to
	}
	for n := 0; ; n++ {
		if n%1024 == 0 {
			if err := d.ctx.Err(); err != nil {
				return err
			}
			d.o.Progress("look", r.Offset()-begin, total-begin)
		}
		rec, err := r.Next()
		if x := (*Damage)(nil); errors.As(err, &x) {
			if x.To < 0 {
				d.p.Torn = !d.o.Live
				continue
			}
			bad(x.From, x.To)
			continue
		}
		if err == io.EOF {
			d.p.Torn = d.p.Torn || badFrom >= 0 && !d.o.Live
			return nil
		}
		if err != nil {
			return err
		}
		m := &rec.Meta
		if rec.CRC != nil {
			bad(m.PhyOffset, m.PhyOffset+int64(m.Size))
			continue
		}
		if badFrom >= 0 {
			d.range_(classBlank, end, badFrom)
			d.range_(classDamaged, badFrom, badEnd)
			end, badFrom = badEnd, -1
		}
		d.range_(classBlank, end, m.PhyOffset)
		end = m.PhyOffset + int64(m.Size)
		d.p.Records++
		d.p.LogEnd = end
		class := classAside
		if m.HasUnit() {
			class = d.queue(QueueName{m.Topic, m.QueueID}, m.QueueOffset, m.PhyOffset, int64(m.Size))
		}
		d.range_(class, m.PhyOffset, end)
		i := d.p.axis.used(m.PhyOffset) / d.p.columns.width
		if d.p.columns.first[i] == 0 && m.StoreTimestamp >= saneFrom && m.StoreTimestamp < saneTo {
			d.p.columns.first[i] = m.StoreTimestamp
		}
		d.p.times.add(m.StoreTimestamp, float64(m.Size))
	}
}

// maxDense bounds the queues of which it is known where in the log their records lie.
const maxDense = 50_000

// queue counts a record of a queue, and says what class it is of.
func (d *drawer) queue(name QueueName, queueOffset, phyOffset, size int64) int {
	q := d.queues[name]
	if q == nil {
		q = &PictureQueue{QueueName: name, FirstPhy: -1}
		d.queues[name] = q
	}
	if q.dense == nil && len(d.queues) <= maxDense {
		q.dense = make([]uint32, denseCount)
	}
	q.Records++
	q.Bytes += size
	if q.FirstPhy < 0 {
		q.FirstPhy = phyOffset
	}
	q.EndPhy = phyOffset + size
	if d.grow(phyOffset); q.dense != nil {
		q.dense[d.p.axis.used(phyOffset)/d.p.columns.width*denseCount/columnCount]++
	}
	switch {
	case queueOffset >= q.Max:
		q.Waiting++
		return classWaiting
	case queueOffset < q.Min:
		q.Dead++
		return classDead
	}
	return classLive
}

// grow makes the columns reach phyOffset.
func (d *drawer) grow(phyOffset int64) {
	for d.p.axis.used(phyOffset) >= d.p.columns.width*columnCount {
		d.p.columns.double()
		for _, q := range d.queues {
			for i := range q.dense {
				a := uint32(0)
				if 2*i < denseCount {
					a = q.dense[2*i] + q.dense[2*i+1]
				}
				q.dense[i] = a
			}
		}
	}
}

// range_ adds the bytes of the files in [from, to) to a class.
func (d *drawer) range_(class int, from, to int64) {
	if to <= from {
		return
	}
	d.grow(to)
	c := &d.p.columns
	for u, end := d.p.axis.used(from), d.p.axis.used(to); u < end; {
		i := u / c.width
		n := min(end, (i+1)*c.width) - u
		c.bytes[class][i] += float64(n)
		u += n
	}
}

// axis maps physical offsets to a place in the files that are there, one behind the other: what is missing takes no room.
type axis struct {
	segs   []Segment
	before []int64 // bytes of the segments before each
	holes  []int   // missing ranges before each
}

func newAxis(segs []Segment) axis {
	a := axis{segs: segs, before: make([]int64, len(segs)), holes: make([]int, len(segs))}
	for i := 1; i < len(segs); i++ {
		a.before[i] = a.before[i-1] + segs[i-1].Size
		a.holes[i] = a.holes[i-1]
		if segs[i].Start != segs[i-1].End() {
			a.holes[i]++
		}
	}
	return a
}

// at is the segment that holds phyOffset, or the last one before it; -1 before the first.
func (a *axis) at(phyOffset int64) int {
	return sort.Search(len(a.segs), func(i int) bool { return a.segs[i].Start > phyOffset }) - 1
}

// used is how many bytes of files lie before phyOffset.
func (a *axis) used(phyOffset int64) int64 {
	i := a.at(phyOffset)
	if i < 0 {
		return 0
	}
	return a.before[i] + min(phyOffset-a.segs[i].Start, a.segs[i].Size)
}

// gaps is how many missing ranges lie before phyOffset.
func (a *axis) gaps(phyOffset int64) int {
	if i := a.at(phyOffset); i > 0 {
		return a.holes[i]
	}
	return 0
}
