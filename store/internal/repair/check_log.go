package repair

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/index"
)

// saysPhyOffset is the physical offset that the record at the start of b has stored.
func saysPhyOffset(b []byte) (int64, bool) {
	const posPhyOffset = 28
	if len(b) < posPhyOffset+8 {
		return 0, false
	}
	if m := binary.BigEndian.Uint32(b[4:]); m != record.MagicV1 && m != record.MagicV2 {
		return 0, false
	}
	says := int64(binary.BigEndian.Uint64(b[posPhyOffset:]))
	return says, says >= 0
}

// walker reads the log once, in order.
type walker struct {
	*check
	files   *Files
	again   int64 // a place that was read twice; -1 none
	r       *LogReader
	scanned *scanned
	known   record.Known
	pending []pending // what is wrong since the last whole record: damage if one follows, else the log's torn tail
	total   int64
	ticks   int
	lastOK  int64 // store time of the last whole record
	holeEnd int64 // where the last damage ends; -1 none
}

// pending is a place that is wrong, as long as it may be the torn tail.
type pending struct {
	Finding
	span
	crc     bool
	zeros   bool // up to the next segment: nothing, if nothing follows
	missing bool
	known   bool // told by layout
}

const maxPending = 1000

// walk reads the log, tells what is wrong with it, and hands its records on.
func (c *check) walk() error {
	files := &Files{root: c.root, log: c.log, segments: c.segments}
	w := &walker{check: c, files: files, holeEnd: -1, again: -1}
	w.r = &LogReader{files: files, sumsOnly: true, tick: w.tick}
	defer func() { w.r.Close() }()
	if !w.o.plain && len(w.order) <= maxScannedFor {
		w.scanned = w.scan()
		defer w.scanned.close()
		if !w.o.Live { // whose zeros may be written to meanwhile
			w.r.survey = w.scanned.zerosFrom
		}
	}
	for _, s := range c.segments {
		w.total += s.Size
	}
	if len(c.segments) > 0 {
		c.end = c.segments[0].Start
	}
	var rec Record // one for all: its address goes where the compiler cannot follow
	for {
		if w.scanned != nil && len(w.pending) == 0 {
			at := w.r.Offset()
			if s := w.scanned.from(at); s != nil && w.r.advance(s.from, s.to) {
				if err := w.stretch(s); err != nil {
					return err
				}
				continue
			} else if s != nil {
				w.scanned.refuse(at)
			}
		}
		if w.ticks++; w.ticks&0x3ff == 0 {
			if err := w.tick(); err != nil {
				return err
			}
		}
		var err error
		rec, err = w.r.Next()
		var d *Damage
		if from := rec.Meta.PhyOffset; c.o.Live && (err == nil && rec.CRC != nil || errors.As(err, &d)) {
			if d != nil {
				from = d.From
			}
			if again, err := w.readAgain(from); err != nil {
				return err
			} else if again {
				continue
			}
		}
		switch {
		case err == nil:
			stop, err := w.record(&rec)
			if err != nil {
				return err
			}
			if stop {
				w.tail()
				return c.units.handOn()
			}
		case err == io.EOF:
			w.tail()
			c.progress("log", w.total, w.total)
			return c.units.handOn()
		case errors.As(err, &d):
			w.damaged(d)
		case errors.Is(err, fs.ErrNotExist) && c.o.Live:
			return c.units.handOn()
		default:
			return err
		}
	}
}

func (w *walker) tick() error {
	if w.o.Progress != nil && len(w.segments) > 0 {
		w.progress("log", w.r.Offset()-w.segments[0].Start, w.total)
	}
	return w.ctx.Err()
}

// record takes a record that adds up. stop: what is here and behind is left over from before an earlier truncation.
func (w *walker) record(rec *Record) (stop bool, err error) {
	m := &rec.Meta
	if rec.CRC != nil {
		p := pending{Finding: at(BadCRC, w.logFile(m.PhyOffset), m.PhyOffset, MendSalvage, ""), span: span{m.PhyOffset, m.PhyOffset + int64(m.Size)}, crc: true}
		p.Topic, p.QueueID, p.QueueOffset = m.Topic, m.QueueID, m.QueueOffset
		p.Detail = fmt.Sprintf("%v: bytes of this message changed after it was written, and RocketMQ gives consumers the changed ones; salvage leaves it out, recover would cut the log here", rec.CRC)
		w.hold(p)
	} else {
		if w.gapped() && m.StoreTimestamp < w.lastOK {
			if live, err := w.liveBehind(m.PhyOffset); err != nil || !live {
				w.pending[len(w.pending)-1].Detail += "; what lies behind is older than what lies before: left over from an earlier truncation, unless the clock was set back"
				return true, err
			}
		}
		w.settle()
		w.lastOK = m.StoreTimestamp
	}
	return false, w.take(m, rec.CRC == nil)
}

// take hands a record on to what is compared with it.
func (w *walker) take(m *record.Meta, whole bool) error {
	c := w.check
	c.sum.Records++
	c.sum.Bytes += int64(m.Size)
	c.minPhy = min(c.minPhy, m.PhyOffset)
	c.maxTime = max(c.maxTime, m.StoreTimestamp)
	if whole {
		c.end = m.PhyOffset + int64(m.Size)
		c.last = lastRecord{m.PhyOffset, int64(m.Size), m.StoreTimestamp, m.BodyCRC}
	}
	w.known = m.Properties.Known()
	for _, x := range c.indexes {
		x.record(m, &w.known)
	}
	if len(c.indexes) == 0 && c.keyed < 0 && index.HasKeys(m) {
		c.keyed = m.PhyOffset
	}
	return c.units.record(m, &w.known, w.holeEnd)
}

// stretch takes whole records that follow a whole one: nothing is pending.
func (w *walker) stretch(s *stretch) error {
	if s.records == 0 {
		return w.tick()
	}
	c := w.check
	w.lastOK = s.last.storeTime
	c.sum.Records += s.records
	c.sum.Bytes += s.bytes
	c.minPhy = min(c.minPhy, s.from)
	c.maxTime = max(c.maxTime, s.maxTime)
	c.end, c.last = s.end, s.last
	for _, t := range s.indexes {
		t.x.merge(t)
	}
	if c.keyed < 0 {
		c.keyed = s.keyed
	}
	if err := c.units.add(s.units, w.holeEnd); err != nil {
		return err
	}
	return w.tick()
}

// gapped reports whether bytes that are no record lie since the last whole one.
func (w *walker) gapped() bool {
	for _, p := range w.pending {
		if !p.crc {
			return true
		}
	}
	return false
}

// readAgain goes back to a place that is wrong, once: the running process may have been writing there.
func (w *walker) readAgain(phyOffset int64) (bool, error) {
	if w.again == phyOffset {
		return false, nil
	}
	w.again = phyOffset
	r, err := w.files.from(phyOffset)
	if err != nil || r == nil {
		return false, err
	}
	r.sumsOnly, r.tick = true, w.tick
	w.r.Close()
	w.r = r
	return true, nil
}

// from is a reader that stands at phyOffset, where a record must begin; nil if no file holds that.
func (f *Files) from(phyOffset int64) (*LogReader, error) {
	r := &LogReader{files: f}
	for r.next < len(f.segments) && f.segments[r.next].End() <= phyOffset {
		r.next++
	}
	if r.next == len(f.segments) || f.segments[r.next].Start > phyOffset {
		return nil, nil
	}
	if err := r.open(); err != nil || r.f == nil {
		return nil, err
	}
	r.pos = phyOffset - r.seg.Start
	return r, nil
}

// liveBehind reports whether a record from phyOffset on is newer than the last one in front: the original cuts a log by moving its write position, and leaves the old bytes.
func (w *walker) liveBehind(phyOffset int64) (bool, error) {
	r, err := w.files.from(phyOffset)
	if err != nil || r == nil {
		return false, err
	}
	defer r.Close()
	r.sumsOnly, r.tick = true, w.ctx.Err
	for {
		rec, err := r.Next()
		var d *Damage
		switch {
		case err == io.EOF:
			return false, nil
		case errors.As(err, &d):
		case err != nil:
			return false, err
		case rec.CRC == nil && rec.Meta.StoreTimestamp >= w.lastOK:
			return true, nil
		}
	}
}

// damaged takes a range without records.
func (w *walker) damaged(d *Damage) {
	to := d.To
	if to < 0 {
		to = w.lastFile
	}
	p := pending{Finding: at(BadMagic, commitLogDir+"/"+d.Path, d.From, MendSalvage, ""), span: span{d.From, to}}
	n := plural(to-d.From, "byte", "bytes")
	var format *record.FormatError
	switch {
	case errors.Is(d.Err, errMissing):
		p.Kind, p.missing = MissingSegment, true
		p.known = w.listed[d.From] || w.oddLength[d.From-d.From%w.segmentSize]
		p.Detail = fmt.Sprintf("%s of the log missing, [%d, %d), between others: its messages are gone unless the files are found again; salvage takes what lies around",
			plural((to-d.From+w.segmentSize-1)/w.segmentSize, "file", "files"), d.From, to)
	case isInputError(d.Err):
		p.Kind = Unreadable
		p.Detail = fmt.Sprintf("%v: the disk or the file system does not give %s here back; salvage takes what lies around", d.Err, n)
	case errors.Is(d.Err, record.ErrPhyOffset):
		p.Kind = WrongPhyOffset
		p.Detail = fmt.Sprintf("%v", d.Err)
		if errors.As(d.Err, &format) {
			p.Detail = fmt.Sprintf("the record here says that it lies at %d", format.Value)
			if d.From%w.segmentSize == 0 && format.Value >= 0 && format.Value%w.segmentSize == 0 {
				p.Detail += fmt.Sprintf(": this file is %s, renamed or copied", segmentName(format.Value))
			}
		}
		p.Detail += fmt.Sprintf("; %s up to %d are no record of this place", n, to)
	case errors.Is(d.Err, errNothing), errors.Is(d.Err, errZeros):
		p.zeros = errors.Is(d.Err, errNothing)
		p.Detail = fmt.Sprintf("%s of the log up to %d are missing: %v", n, to, d.Err)
	case errors.Is(d.Err, record.ErrMagic):
		p.Detail = fmt.Sprintf("%v; %s up to %d are no record", d.Err, n, to)
	default:
		p.Kind = BadSize
		p.Detail = fmt.Sprintf("%v; %s up to %d are no record", d.Err, n, to)
	}
	w.hold(p)
}

func isInputError(err error) bool {
	var p *fs.PathError
	return errors.As(err, &p) || errors.Is(err, io.ErrUnexpectedEOF)
}

func (w *walker) hold(p pending) {
	if !p.crc && p.to > p.from {
		w.holeEnd = p.to
		if len(w.damage) < maxSpans {
			w.check.damage = append(w.check.damage, p.span)
		}
	}
	if len(w.pending) == maxPending { // no tail is that long
		w.tellMiddle(w.pending[0])
		w.pending = append(w.pending[:0], w.pending[1:]...)
	}
	w.pending = append(w.pending, p)
}

// settle tells what was held: a whole record follows.
func (w *walker) settle() {
	for _, p := range w.pending {
		w.tellMiddle(p)
	}
	w.pending = w.pending[:0]
}

func (w *walker) tellMiddle(p pending) {
	if p.known {
		return
	}
	if p.Kind == BadMagic || p.Kind == BadSize {
		p.Detail += "; whole records follow: salvage keeps them, recover would cut them off"
	}
	w.report(p.Finding)
}

// tail tells what was held: no whole record follows.
func (w *walker) tail() {
	for i := 1; i < len(w.segments) && !w.o.Live; i++ { // between files that hold nothing yet
		from, to := w.segments[i-1].End(), w.segments[i].Start
		known := func(p pending) bool { return p.missing && p.from == from }
		if from < to && w.end <= from && from%w.segmentSize == 0 && !w.listed[from] && !slices.ContainsFunc(w.pending, known) {
			w.report(at(MissingSegment, w.logFile(from), from, MendRecover, fmt.Sprintf("behind the log's end, %d, files are missing between others, [%d, %d): what follows there is no part of the log; recover sets it aside", w.end, from, to)))
		}
	}
	torn := false
	for _, p := range w.pending {
		switch {
		case p.known || w.o.Live:
		case p.missing:
			p.Mend = MendRecover
			w.report(p.Finding)
		case p.zeros:
		case p.Kind == Unreadable:
			w.report(p.Finding)
		case p.Kind == WrongPhyOffset && p.from%w.segmentSize == 0:
			p.Mend = MendRecover
			p.Detail += "; the log ends before it: recover sets the file aside"
			w.report(p.Finding)
		case !torn:
			torn = true
			what := p.Detail
			if p.crc {
				what = "the last record's checksum does not match"
			}
			p.Finding.Kind, p.Mend = TornTail, MendRecover
			p.Detail = fmt.Sprintf("the log ends at %d in bytes that are no whole record, as a crash leaves them: recover cuts them off and keeps them in quarantine/ (%s)", p.from, what)
			w.report(p.Finding)
		}
	}
	w.pending = w.pending[:0]
}
