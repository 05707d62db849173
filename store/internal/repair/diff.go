package repair

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/mqstore/mqstore/commitlog/record"
)

// DiffOptions say how two stores are compared. The zero value compares everything.
type DiffOptions struct {
	// LiveA and LiveB: a process has the store open. A record that is being written at its log's end is not read, and its queues may follow its log with a delay.
	LiveA, LiveB bool
	// Progress reports bytes of both logs (stage "log") and queues (stage "queues"). May be nil.
	Progress func(stage string, done, total int64)
}

// Difference is what distinguishes two stores A and B.
//
// A log is its records and what damage left between them, byte for byte and each at its physical offset. What has no meaning is not compared: the rest of a
// segment behind its last record (a blank) and whatever lies behind the log's end. Only if neither log has a record are the bytes themselves compared.
type Difference struct {
	A, B LogExtent

	First    int64 // the lowest physical offset, from where both logs have begun, at which one has a byte that the other has not; -1 none
	OnlyInA  int64 // bytes of A's log where B's has none: before B begins, behind its end, or in a hole of it
	OnlyInB  int64
	Differ   int64       // bytes from the first to the last different one of each record, where both have one
	Ranges   []DiffRange // the log from its lowest to its highest offset, the first MaxDiffRanges
	More     int64       // ranges beyond those
	FirstInA *DiffPlace  // what lies at First; nil: nothing
	FirstInB *DiffPlace

	// Behind is the first offset without meaning, in a blank or behind the logs' ends, at which the bytes of the files differ; -1 none. It makes no difference.
	Behind int64

	Queues     []QueueDifference // of records that both logs hold, the first MaxDiffRanges
	MoreQueues int64
	Compared   int64 // queues
}

// Equal reports whether nothing distinguishes them.
func (d *Difference) Equal() bool {
	return d.First < 0 && d.OnlyInA == 0 && d.OnlyInB == 0 && len(d.Queues) == 0
}

// MaxDiffRanges is how many ranges, and how many queues, a Difference lists.
const MaxDiffRanges = 1000

// LogExtent is what a log spans.
type LogExtent struct {
	Min, Max int64 // physical offsets of its first record and behind its last one; 0 and 0 without any
	Records  int64
	Damaged  int64 // ranges without a readable record; their bytes are compared as they are
	Torn     bool  // something that is no record follows at Max
}

// DiffKind says how two logs relate in a range.
type DiffKind string

// The kinds of a range.
const (
	DiffSame    DiffKind = "same"
	DiffBytes   DiffKind = "differs"
	DiffOnlyInA DiffKind = "only in A"
	DiffOnlyInB DiffKind = "only in B"
)

// DiffRange is the range [From, To) of both logs.
type DiffRange struct {
	From, To int64
	Kind     DiffKind
}

// DiffPlace is the record that holds an offset.
type DiffPlace struct {
	PhyOffset   int64 // where the record begins
	Size        int
	Topic       string
	QueueID     int32
	QueueOffset int64
	Field       string // the part of the record at the offset
	Damaged     bool   // no record: the rest is not known
}

// Diff compares two stores. It reads each byte of a log at most once, except around damage, and none of the holes of sparse files where the operating system shows them. An error is one of input.
func Diff(ctx context.Context, a, b *Files, o DiffOptions) (*Difference, error) {
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	d := &differ{ctx: ctx, o: o, out: &Difference{First: -1, Behind: -1}}
	d.a.init(a, o.LiveA)
	d.b.init(b, o.LiveB)
	defer d.a.close()
	defer d.b.close()
	if err := d.logs(); err != nil {
		return nil, err
	}
	if err := d.queues(); err != nil {
		return nil, err
	}
	return d.out, nil
}

type differ struct {
	ctx  context.Context
	o    DiffOptions
	a, b diffSide
	out  *Difference
	both int64 // from here on both logs have begun
	bufA []byte
	bufB []byte
}

// diffSide reads one log as pieces: records, and damage that has bytes.
type diffSide struct {
	files *Files // over a cache of blocks
	raw   rawLog
	live  bool
	r     *LogReader
	ext   LogExtent

	from, to int64  // the piece; from is endOfLog when there is none
	bytes    []byte // of a record; nil: damage
	meta     record.Meta
}

const endOfLog = 1<<63 - 1

func (s *diffSide) init(f *Files, live bool) {
	c := *f
	c.log = &blockFS{FS: f.log}
	s.files, s.live = &c, live
	s.raw = rawLog{files: &c}
	s.r = &LogReader{files: &c, MetaOnly: true}
	s.from, s.to = 0, 0
}

func (s *diffSide) close() {
	s.r.Close()
	s.raw.close()
}

// next goes to the next piece.
func (s *diffSide) next() error {
	for {
		rec, err := s.r.Next()
		if d := (*Damage)(nil); errors.As(err, &d) {
			switch {
			case d.To < 0:
				s.ext.Torn = !s.live
				continue
			case errors.Is(d.Err, errMissing), errors.Is(d.Err, errZeros):
				s.ext.Damaged++
				continue // there are no bytes to compare
			}
			s.ext.Damaged++
			s.from, s.to, s.bytes = d.From, d.To, nil
			return nil
		}
		if err == io.EOF {
			s.from, s.to, s.bytes = endOfLog, endOfLog, nil
			return nil
		}
		if err != nil {
			return err
		}
		s.from, s.to, s.bytes, s.meta = rec.Meta.PhyOffset, rec.Meta.PhyOffset+int64(len(rec.Bytes)), rec.Bytes, rec.Meta
		if s.ext.Records == 0 {
			s.ext.Min = s.from
		}
		s.ext.Max = s.to
		s.ext.Records++
		return nil
	}
}

// view is the bytes [from, to) of the piece; at most len(buf) of damage.
func (s *diffSide) view(from, to int64, buf []byte) ([]byte, error) {
	if s.bytes != nil {
		return s.bytes[from-s.from : to-s.from], nil
	}
	buf = buf[:to-from]
	return buf, s.raw.read(buf, from)
}

// place says what of the piece lies at off.
func (s *diffSide) place(off int64) *DiffPlace {
	switch {
	case off < s.from || off >= s.to:
		return nil
	case s.bytes == nil:
		return &DiffPlace{PhyOffset: s.from, Size: int(min(s.to-s.from, 1<<31-1)), Damaged: true}
	}
	return &DiffPlace{PhyOffset: s.from, Size: len(s.bytes), Topic: s.meta.Topic, QueueID: s.meta.QueueID, QueueOffset: s.meta.QueueOffset,
		Field: fieldAt(s.bytes, int(off-s.from))}
}

// logs sweeps over both logs, from one boundary of a piece to the next.
func (d *differ) logs() error {
	a, b := &d.a, &d.b
	if err := errors.Join(a.next(), b.next()); err != nil {
		return err
	}
	if a.from != endOfLog && b.from != endOfLog {
		d.both = max(a.from, b.from)
	} else {
		d.both = min(a.from, b.from)
	}
	total := a.span() + b.span()
	startA, startB := a.r.Offset()-(a.to-a.from), b.r.Offset()-(b.to-b.from)
	pos := d.start()
	for steps := 0; a.from != endOfLog || b.from != endOfLog; steps++ {
		if steps%256 == 0 {
			if err := d.ctx.Err(); err != nil {
				return err
			}
			d.o.Progress("log", a.r.Offset()-startA+b.r.Offset()-startB, total)
		}
		if begin := min(max(a.from, pos), max(b.from, pos)); begin > pos {
			if err := d.meaningless(pos, begin); err != nil {
				return err
			}
			pos = begin
		}
		inA, inB := a.from <= pos, b.from <= pos // each piece ends behind pos
		next := min(a.end(pos), b.end(pos))
		switch {
		case inA && inB:
			if a.bytes == nil || b.bytes == nil {
				next = min(next, pos+blockSize)
			}
			if err := d.compare(pos, next); err != nil {
				return err
			}
		case inA:
			d.add(pos, next, DiffOnlyInA)
		default:
			d.add(pos, next, DiffOnlyInB)
		}
		pos = next
		if pos >= a.to && a.from != endOfLog {
			if err := a.next(); err != nil {
				return err
			}
		}
		if pos >= b.to && b.from != endOfLog {
			if err := b.next(); err != nil {
				return err
			}
		}
	}
	end := max(lastEnd(a.files), lastEnd(b.files))
	if err := d.meaningless(pos, end); err != nil {
		return err
	}
	d.out.A, d.out.B = a.ext, b.ext
	if d.out.A.Records+d.out.B.Records == 0 && d.out.Behind >= 0 {
		d.out.First, d.out.Behind = d.out.Behind, -1
		d.out.Differ++
		d.out.Ranges = append(d.out.Ranges, DiffRange{d.out.First, d.out.First + 1, DiffBytes})
	}
	return nil
}

// end is the next boundary of the piece behind pos.
func (s *diffSide) end(pos int64) int64 {
	if s.from > pos {
		return s.from
	}
	return s.to
}

func (s *diffSide) span() int64 {
	if len(s.files.segments) == 0 {
		return 0
	}
	return lastEnd(s.files) - s.files.segments[0].Start
}

func lastEnd(f *Files) int64 {
	if n := len(f.segments); n > 0 {
		return f.segments[n-1].End()
	}
	return 0
}

// start is the lowest offset of both stores' files.
func (d *differ) start() int64 {
	start := int64(endOfLog)
	for _, f := range []*Files{d.a.files, d.b.files} {
		if len(f.segments) > 0 {
			start = min(start, f.segments[0].Start)
		}
	}
	if start == endOfLog {
		return 0
	}
	return start
}

// compare compares [from, to), which both logs have.
func (d *differ) compare(from, to int64) error {
	if d.bufA == nil && (d.a.bytes == nil || d.b.bytes == nil) {
		d.bufA, d.bufB = make([]byte, blockSize), make([]byte, blockSize)
	}
	x, err := d.a.view(from, to, d.bufA)
	if err != nil {
		return err
	}
	y, err := d.b.view(from, to, d.bufB)
	if err != nil {
		return err
	}
	first := firstDifferent(x, y)
	if first < 0 {
		d.add(from, to, DiffSame)
		return nil
	}
	last := len(x) - 1
	for x[last] == y[last] {
		last--
	}
	d.add(from, from+int64(first), DiffSame)
	d.add(from+int64(first), from+int64(last)+1, DiffBytes)
	d.add(from+int64(last)+1, to, DiffSame)
	return nil
}

// add notes how [from, to) relates.
func (d *differ) add(from, to int64, kind DiffKind) {
	if from >= to {
		return
	}
	o := d.out
	switch kind {
	case DiffBytes:
		o.Differ += to - from
	case DiffOnlyInA:
		o.OnlyInA += to - from
	case DiffOnlyInB:
		o.OnlyInB += to - from
	}
	if kind != DiffSame && o.First < 0 && to > d.both {
		o.First = max(from, d.both)
		o.FirstInA, o.FirstInB = d.a.place(o.First), d.b.place(o.First)
	}
	if n := len(o.Ranges); n > 0 && o.More == 0 && o.Ranges[n-1].Kind == kind && (o.Ranges[n-1].To == from || kind == DiffSame || kind == DiffOnlyInA || kind == DiffOnlyInB) {
		o.Ranges[n-1].To = to // what lies between is meaningless in both
		return
	}
	if len(o.Ranges) == MaxDiffRanges {
		o.More++
		return
	}
	o.Ranges = append(o.Ranges, DiffRange{from, to, kind})
}

// meaningless compares the bytes of the files in [from, to), which belong to neither log.
func (d *differ) meaningless(from, to int64) error {
	if d.out.Behind >= 0 {
		return nil
	}
	if d.bufA == nil {
		d.bufA, d.bufB = make([]byte, blockSize), make([]byte, blockSize)
	}
	pos := from
	if d.a.ext.Records+d.b.ext.Records > 0 { // the header of a blank says where the log goes on, and that was compared
		pos += record.BlankHeaderSize
	}
	for pos < to {
		if err := d.ctx.Err(); err != nil {
			return err
		}
		ua, za, err := d.a.raw.hole(pos)
		if err != nil {
			return err
		}
		ub, zb, err := d.b.raw.hole(pos)
		if err != nil {
			return err
		}
		end := min(ua, ub, to)
		if za && zb {
			pos = end
			continue
		}
		end = min(end, pos+blockSize)
		x, y := d.bufA[:end-pos], d.bufB[:end-pos]
		if err := errors.Join(d.a.raw.fill(x, pos, za), d.b.raw.fill(y, pos, zb)); err != nil {
			return err
		}
		if i := firstDifferent(x, y); i >= 0 {
			d.out.Behind = pos + int64(i)
			return nil
		}
		pos = end
	}
	return nil
}

// firstDifferent is the first index at which x and y, of one length, differ; -1 if none.
func firstDifferent(x, y []byte) int {
	const step = 4096
	for i := 0; i < len(x); i += step {
		n := min(i+step, len(x))
		if string(x[i:n]) == string(y[i:n]) {
			continue
		}
		for ; i < n; i++ {
			if x[i] != y[i] {
				return i
			}
		}
	}
	return -1
}

// fieldAt names the part of a record at byte i (spec/commitlog-format.md 1.4).
func fieldAt(b []byte, i int) string {
	fixed := []struct {
		end  int
		name string
	}{{4, "total size"}, {8, "magic code"}, {12, "body CRC"}, {16, "queue id"}, {20, "flag"}, {28, "queue offset"}, {36, "physical offset"}, {40, "system flag"}, {48, "born time"}}
	for _, f := range fixed {
		if i < f.end {
			return f.name
		}
	}
	m, err := record.Decode(b)
	if err != nil && !errors.Is(err, record.ErrCRC) {
		return "record"
	}
	properties := len(b) - len(m.Properties)
	topic := properties - 2 - len(m.Topic)
	body := topic - 1 - len(m.Body)
	if m.Version == record.V2 {
		body--
	}
	switch {
	case i >= properties:
		return "properties"
	case i >= properties-2:
		return "properties length"
	case i >= topic:
		return "topic"
	case i >= body+len(m.Body):
		return "topic length"
	case i >= body:
		return fmt.Sprintf("body, its byte %d", i-body)
	case i >= body-4:
		return "body length"
	case i >= body-12:
		return "prepared transaction offset"
	case i >= body-16:
		return "reconsume times"
	}
	born, store := 8, 8
	if m.SysFlag&record.FlagBornHostV6 != 0 {
		born = 20
	}
	if m.SysFlag&record.FlagStoreHostV6 != 0 {
		store = 20
	}
	switch {
	case i < 48+born:
		return "born host"
	case i < body-16-store:
		return "store time"
	}
	return "store host"
}

// Unlike is the ranges in which the logs are not the same.
func (d *Difference) Unlike() []DiffRange {
	return slices.DeleteFunc(slices.Clone(d.Ranges), func(r DiffRange) bool { return r.Kind == DiffSame })
}
