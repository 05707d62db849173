package repair

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/mqstore/mqstore/commitlog"
	"github.com/mqstore/mqstore/commitlog/record"
)

// Hole is a range of the log without a whole record.
type Hole struct {
	From  int64  `json:"from"` // physical offsets
	To    int64  `json:"to"`   // where the next whole record begins, or the last byte that is not zero ends
	File  string `json:"file"` // below the store's root, where it begins
	Cause string `json:"cause"`
}

// holeReader reads the records of a log that verify (sizes, CRCs, and the stored physical offset is their place), over everything else. Unlike
// [LogReader] it searches behind zeros and behind a record whose CRC is wrong, bounds each file by the next one's start, and takes a file's first record at
// its word where its name says something else.
type holeReader struct {
	log    fs.FS
	segs   []Segment
	size   int64 // of a segment
	next   int
	seg    Segment
	f      io.ReaderAt
	close  func() error
	pos    int64 // in the file
	buf    []byte
	base   int64
	data   int64 // physical: behind the last byte that is not zero, of what was searched
	effort int64 // bytes of records that may still be checked in vain
	parser record.Parser
	meta   record.Meta
}

const (
	maxRecord     = 64 << 20 // bigger ones are no records: memory is bounded
	leastRecord   = 91       // bytes of a record with nothing in it
	posPhyOffset  = 28
	leastWindow   = 4 << 10
	cheapRecord   = 64 << 10 // still checked when the effort is spent
	effortPerByte = 16       // of the log
)

// holes opens the log for reading around its damage. segmentSize 0 is that of most files.
func (f *Files) holes(segmentSize int64) (*holeReader, error) {
	r := &holeReader{log: f.log, size: segmentSize, data: -1}
	r.parser.VerifyCRC = true
	if r.size == 0 {
		r.size = f.likelySegmentSize()
	}
	if err := r.place(); err != nil {
		return nil, err
	}
	for _, s := range r.segs {
		r.effort += effortPerByte * s.Size
	}
	return r, nil
}

// likelySegmentSize is the length of a file that most files begin at a multiple of; of several such the one that most files have, then the longest.
func (f *Files) likelySegmentSize() int64 {
	type score struct {
		aligned, same int
		size          int64
	}
	var best score
	for _, s := range f.segments {
		if s.Size < record.BlankHeaderSize || s.Size == best.size {
			continue
		}
		c := score{size: s.Size}
		for _, o := range f.segments {
			if o.Start%s.Size == 0 {
				c.aligned++
			}
			if o.Size == s.Size {
				c.same++
			}
		}
		if cmp.Or(cmp.Compare(c.aligned, best.aligned), cmp.Compare(c.same, best.same), cmp.Compare(c.size, best.size)) > 0 {
			best = c
		}
	}
	return best.size
}

// place lists the files of the log's directory where they belong: by their first record, if that is whole, else by their name.
func (r *holeReader) place() error {
	list, err := fs.ReadDir(r.log, ".")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	type placed struct {
		Segment
		sure bool // the name and the first record agree, or nothing speaks against the name
	}
	var all []placed
	for _, d := range list {
		if !d.Type().IsRegular() {
			continue
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		p := placed{Segment: Segment{Path: d.Name(), Size: info.Size()}}
		start, named := segmentStart(d.Name())
		says, ok := r.firstRecord(p.Segment)
		switch {
		case ok && r.size > 0 && says%r.size == 0:
			p.Start, p.sure = says, named && says == start
		case named && (r.size == 0 || start%r.size == 0):
			p.Start, p.sure = start, true
		default:
			continue
		}
		all = append(all, p)
	}
	slices.SortStableFunc(all, func(a, b placed) int {
		switch {
		case a.Start != b.Start:
			return cmp.Compare(a.Start, b.Start)
		case a.sure != b.sure && a.sure:
			return -1
		case a.sure != b.sure:
			return 1
		}
		return cmp.Compare(b.Size, a.Size)
	})
	for _, p := range all {
		if n := len(r.segs); n > 0 && r.segs[n-1].Start == p.Start {
			continue // a copy
		}
		if n := len(r.segs); n > 0 && r.segs[n-1].End() > p.Start {
			r.segs[n-1].Size = p.Start - r.segs[n-1].Start
		}
		if r.size > 0 {
			p.Size = min(p.Size, r.size)
		}
		r.segs = append(r.segs, p.Segment)
	}
	return nil
}

// firstRecord is where the record at a file's beginning says that it lies, if it is whole.
func (r *holeReader) firstRecord(s Segment) (phyOffset int64, ok bool) {
	f, err := r.log.Open(s.Path)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	head := make([]byte, posPhyOffset+8)
	if _, err := io.ReadFull(f, head); err != nil {
		return 0, false
	}
	size, magic := int64(int32(binary.BigEndian.Uint32(head))), binary.BigEndian.Uint32(head[4:])
	if magic != record.MagicV1 && magic != record.MagicV2 || size < leastRecord || size > min(s.Size, maxRecord) {
		return 0, false
	}
	b := make([]byte, size)
	copy(b, head)
	if _, err := io.ReadFull(f, b[len(head):]); err != nil {
		return 0, false
	}
	var m record.Meta
	says := int64(binary.BigEndian.Uint64(head[posPhyOffset:]))
	return says, says >= 0 && r.parser.Parse(b, says, &m) == nil
}

// read is the next whole record, with its bytes: both valid until the next call. hole is what lies before it, if anything. At the log's end it is
// io.EOF, with the hole there.
func (r *holeReader) read() (m *record.Meta, b []byte, hole *Hole, err error) {
	var (
		from  = r.offset()
		where string
		cause error
	)
	blame := func(err error) {
		if cause == nil {
			where, cause = r.seg.Path, err
		}
	}
	found := func(b []byte) (*record.Meta, []byte, *Hole, error) {
		r.pos += int64(len(b))
		if r.meta.PhyOffset == from {
			return &r.meta, b, nil, nil
		}
		return &r.meta, b, r.hole(from, r.meta.PhyOffset, where, cause), nil
	}
	for {
		if r.f == nil {
			end := r.seg.Start + r.pos
			ok, err := r.open()
			if err != nil {
				return nil, nil, nil, err
			}
			if !ok {
				if cause == nil || r.data <= from {
					return nil, nil, nil, io.EOF
				}
				return nil, nil, r.hole(from, r.data, where, cause), io.EOF
			}
			if cause == nil && end == from && r.seg.Start != from && r.next > 1 {
				where, cause = fmt.Sprintf("%0*d", fileNameDigits, from), errMissing
			} else if cause == nil && r.next == 1 {
				from = r.seg.Start
			}
		}
		if r.seg.Size-r.pos < record.BlankHeaderSize {
			if r.seg.Size < r.size {
				blame(errShort)
			}
			if err := r.leave(cause == nil, &from); err != nil {
				return nil, nil, nil, err
			}
			continue
		}
		b, err := r.whole(r.pos)
		if err == nil {
			return found(b)
		}
		if !isNoRecord(err) {
			return nil, nil, nil, err
		}
		if errors.Is(err, errBlank) {
			if err := r.leave(cause == nil, &from); err != nil {
				return nil, nil, nil, err
			}
			continue
		}
		blame(err)
		switch ok, err := r.search(); {
		case err != nil:
			return nil, nil, nil, err
		case ok:
			b, err := r.peek(r.meta.Size)
			if err != nil {
				return nil, nil, nil, err
			}
			return found(b)
		}
		if err := r.leave(false, &from); err != nil {
			return nil, nil, nil, err
		}
	}
}

func (r *holeReader) hole(from, to int64, where string, cause error) *Hole {
	h := &Hole{From: from, To: to, File: commitLogDir + "/" + where}
	if cause != nil {
		h.Cause = cause.Error()
	}
	return h
}

// offset is where the reader stands.
func (r *holeReader) offset() int64 {
	if r.f == nil && r.next == 0 && len(r.segs) > 0 {
		return r.segs[0].Start
	}
	return r.seg.Start + r.pos
}

var errBlank = errors.New("a blank")

func isNoRecord(err error) bool {
	e := (*notARecord)(nil)
	return errors.As(err, &e)
}

// whole is the record at pos, if it verifies; the reader moves there. A blank that fits is errBlank.
func (r *holeReader) whole(pos int64) ([]byte, error) {
	r.pos = pos
	rest := r.seg.Size - pos
	head, err := r.peek(int(min(rest, posPhyOffset+8)))
	if err != nil {
		return nil, err
	}
	if n := dataLen(head); n > 0 {
		r.data = max(r.data, r.seg.Start+pos+int64(n))
	}
	size, magic := int64(int32(binary.BigEndian.Uint32(head))), binary.BigEndian.Uint32(head[4:])
	switch {
	case magic == record.MagicBlank && size == r.size-pos:
		return nil, &notARecord{errBlank}
	case size == 0 && magic == 0:
		return nil, &notARecord{errZeros}
	case magic != record.MagicV1 && magic != record.MagicV2:
		return nil, &notARecord{fmt.Errorf("no record: magic 0x%08x", magic)}
	case size < leastRecord || size > rest || size > maxRecord || len(head) < posPhyOffset+8:
		return nil, &notARecord{fmt.Errorf("the record claims %d bytes, the file has %d left", size, rest)}
	}
	if says := int64(binary.BigEndian.Uint64(head[posPhyOffset:])); says != r.seg.Start+pos {
		return nil, &notARecord{fmt.Errorf("the record says that it lies at %d", says)}
	}
	if r.effort <= 0 && size > cheapRecord {
		return nil, &notARecord{errors.New("too many beginnings of records that are none")}
	}
	const sector = 512
	b, err := r.peek(int(min(rest, size+sector)))
	if err != nil {
		return nil, err
	}
	err = r.parser.Parse(b, r.seg.Start+pos, &r.meta)
	if err == nil {
		err = commitlog.Torn(b, pos, &r.meta)
	}
	if err != nil {
		r.effort -= size
		return nil, &notARecord{err}
	}
	return b[:size], nil
}

// search finds the next whole record behind the reader's position in this file, and moves there.
func (r *holeReader) search() (bool, error) {
	magic := binary.BigEndian.AppendUint32(nil, record.MagicV1)[:3] // the fourth byte tells the versions apart
	for pos := r.pos + 1; ; {
		r.pos = pos + 4
		rest := r.seg.Size - r.pos
		if rest < int64(len(magic)) {
			return false, nil
		}
		n := r.base + int64(len(r.buf)) - r.pos // what is at hand, unless that is little
		if r.pos < r.base || n < min(rest, leastWindow) {
			n = min(rest, readWindow)
		}
		b, err := r.peek(int(n))
		if err != nil {
			return false, err
		}
		i := bytes.Index(b, magic)
		if i < 0 {
			i = len(b) - len(magic) + 1
			if n := dataLen(b); n > 0 {
				r.data = max(r.data, r.seg.Start+r.pos+int64(n))
			}
			pos += int64(i)
			continue
		}
		r.data = max(r.data, r.seg.Start+r.pos+int64(i+len(magic)))
		pos += int64(i)
		_, err = r.whole(pos)
		if err == nil {
			return true, nil
		}
		if !isNoRecord(err) {
			return false, err
		}
		pos++
	}
}

// dataLen is the length of b without the zeros at its end.
func dataLen(b []byte) int {
	var zeros [4096]byte
	for len(b) >= len(zeros) && bytes.Equal(b[len(b)-len(zeros):], zeros[:]) {
		b = b[:len(b)-len(zeros)]
	}
	for len(b) > 0 && b[len(b)-1] == 0 {
		b = b[:len(b)-1]
	}
	return len(b)
}

// leave goes to the end of the file. whole: up to here nothing was wrong, so that the log goes on behind the segment.
func (r *holeReader) leave(whole bool, from *int64) error {
	r.pos = max(r.seg.Size, min(r.size, r.segEnd()))
	if whole {
		*from = r.seg.Start + r.pos
	}
	f := r.close
	r.f, r.close = nil, nil
	return f()
}

// segEnd is where the next file begins, seen from this one.
func (r *holeReader) segEnd() int64 {
	if r.next < len(r.segs) {
		return min(r.size, r.segs[r.next].Start-r.seg.Start)
	}
	return r.size
}

func (r *holeReader) open() (bool, error) {
	if r.next == len(r.segs) {
		return false, nil
	}
	seg := r.segs[r.next]
	f, err := r.log.Open(seg.Path)
	if err != nil {
		return false, err
	}
	at, ok := f.(io.ReaderAt)
	if !ok {
		return false, errors.Join(fmt.Errorf("%s: this file system cannot read at an offset", seg.Path), f.Close())
	}
	r.next++
	r.seg, r.f, r.close = seg, at, f.Close
	r.pos, r.base, r.buf = 0, 0, r.buf[:0]
	return true, nil
}

// shut frees the open file.
func (r *holeReader) shut() error {
	if r.f == nil {
		return nil
	}
	f := r.close
	r.f, r.close = nil, nil
	return f()
}

// peek is the n bytes at the reader's position, which the segment has.
func (r *holeReader) peek(n int) ([]byte, error) {
	if have := r.base + int64(len(r.buf)) - r.pos; r.pos >= r.base && have >= int64(n) {
		at := int(r.pos - r.base)
		return r.buf[at : at+n], nil
	}
	want := max(n, int(min(readWindow, r.seg.Size-r.pos)))
	if cap(r.buf) < want {
		r.buf = make([]byte, want)
	}
	got, err := r.f.ReadAt(r.buf[:want], r.pos)
	r.buf, r.base = r.buf[:got], r.pos
	if got >= n {
		return r.buf[:n], nil
	}
	if err == io.EOF || err == nil {
		err = io.ErrUnexpectedEOF
	}
	return nil, fmt.Errorf("read %s at %d: %w", r.seg.Path, r.pos, err)
}
