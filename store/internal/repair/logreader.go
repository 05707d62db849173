package repair

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/mqstore/mqstore/commitlog/record"
)

// Record is one record of the log as it lies.
type Record struct {
	// Meta is a view of the reader's buffer, valid until the next call of the reader.
	Meta record.Meta
	// Message is a view as well; nil from a reader that is MetaOnly.
	Message *record.Message
	// Bytes is the record, a view as well.
	Bytes []byte
	// CRC is nil if the record's checksums verify; its fields add up in any case.
	CRC error
}

// Damage is a range of the log that holds no readable record. It does not end the reading.
type Damage struct {
	Path string // the file, within the log's directory
	From int64  // physical offset
	To   int64  // where the next record begins; -1: none does, so that this is the log's torn tail
	Err  error  // what is wrong at From
}

func (d *Damage) Error() string {
	if d.To < 0 {
		return fmt.Sprintf("at physical offset %d (%s): %v; no record behind it", d.From, d.Path, d.Err)
	}
	return fmt.Sprintf("at physical offset %d (%s): %v; the next record is at %d", d.From, d.Path, d.Err, d.To)
}

func (d *Damage) Unwrap() error { return d.Err }

var (
	errZeros   = errors.New("nothing was written here, yet records follow")
	errMissing = errors.New("the segment is missing")
	errShort   = errors.New("the file ends within the record")
)

// LogReader reads the records of a log in physical order, blanks left out, over damage and missing segments. It reads
// files as they are: the log ends where nothing more is written. For one goroutine; Close it.
type LogReader struct {
	// MetaOnly leaves bodies undecoded and checksums unchecked: Record.Message and Record.CRC are nil.
	MetaOnly bool

	files *Files
	next  int // the segment after the current one
	seg   Segment
	f     io.ReaderAt // nil: no segment is open
	close func() error
	pos   int64  // in the file
	buf   []byte // the file's bytes from base
	base  int64
	done  bool

	parser record.Parser
}

const readWindow = 1 << 20

// ReadLog reads from the first record at or behind phyOffset; 0 is the log's start.
func (f *Files) ReadLog(phyOffset int64) (*LogReader, error) {
	r := &LogReader{files: f}
	for r.next < len(f.segments) && f.segments[r.next].End() <= phyOffset {
		r.next++
	}
	if r.next == len(f.segments) {
		r.done = true
		return r, nil
	}
	if phyOffset <= f.segments[r.next].Start {
		return r, nil
	}
	// A record's start is known only from the one before it: walk from the segment's.
	if err := r.open(); err != nil {
		return nil, err
	}
	r.MetaOnly = true
	for r.Offset() < phyOffset {
		_, err := r.Next()
		if d := (*Damage)(nil); err == io.EOF || err != nil && !errors.As(err, &d) {
			break // Next says it again
		}
	}
	r.MetaOnly = false
	return r, nil
}

// Offset is the physical offset at which the reader stands: where the next record begins or, behind the last one, where the log ends.
func (r *LogReader) Offset() int64 {
	switch {
	case r.f != nil || r.done:
		return r.seg.Start + r.pos
	case r.next < len(r.files.segments):
		return r.files.segments[r.next].Start
	}
	return r.seg.Start + r.pos
}

// Next is the next record; io.EOF at the log's end; *Damage for a range without one, after which reading goes on; any other
// error is one of input and final.
func (r *LogReader) Next() (Record, error) {
	for {
		if r.done {
			return Record{}, io.EOF
		}
		if r.f == nil {
			if err := r.open(); err != nil {
				return Record{}, err
			}
			continue
		}
		rest := r.seg.Size - r.pos
		if rest < record.BlankHeaderSize {
			if err := r.leave(); err != nil {
				return Record{}, err
			}
			continue
		}
		head, err := r.peek(record.BlankHeaderSize)
		if err != nil {
			return Record{}, err
		}
		size, magic := int64(int32(binary.BigEndian.Uint32(head))), binary.BigEndian.Uint32(head[4:])
		switch {
		case size == 0 && magic == 0:
			more, err := r.written(r.next)
			if err != nil {
				return Record{}, err
			}
			if more < 0 {
				r.done = true
				return Record{}, io.EOF
			}
			return Record{}, r.skipTo(more, errZeros)
		case magic == record.MagicBlank:
			if err := r.leave(); err != nil {
				return Record{}, err
			}
			continue
		}
		rec, err := r.at(r.pos)
		if err == nil {
			r.pos += int64(len(rec.Bytes))
			return rec, nil
		}
		if e := (*notARecord)(nil); !errors.As(err, &e) {
			return Record{}, err
		}
		return Record{}, r.resync(err)
	}
}

// notARecord marks what the bytes did wrong, beside errors of reading them.
type notARecord struct{ err error }

func (e *notARecord) Error() string { return e.err.Error() }
func (e *notARecord) Unwrap() error { return e.err }

// at reads the record at pos of the open segment.
func (r *LogReader) at(pos int64) (Record, error) {
	rest := r.seg.Size - pos
	if rest < record.BlankHeaderSize {
		return Record{}, &notARecord{errShort}
	}
	r.pos = pos
	head, err := r.peek(record.BlankHeaderSize)
	if err != nil {
		return Record{}, err
	}
	size, magic := int64(int32(binary.BigEndian.Uint32(head))), binary.BigEndian.Uint32(head[4:])
	if magic != record.MagicV1 && magic != record.MagicV2 {
		return Record{}, &notARecord{fmt.Errorf("no record: magic 0x%08x", magic)}
	}
	if size <= record.BlankHeaderSize || size > rest {
		return Record{}, &notARecord{fmt.Errorf("the record claims %d bytes, the file has %d left", size, rest)}
	}
	b, err := r.peek(int(size))
	if err != nil {
		return Record{}, err
	}
	rec := Record{Bytes: b}
	if err := r.parser.Parse(b, r.seg.Start+pos, &rec.Meta); err != nil {
		return Record{}, &notARecord{err}
	}
	if r.MetaOnly {
		return rec, nil
	}
	rec.Message, err = record.Decode(b)
	if errors.Is(err, record.ErrCRC) {
		rec.CRC, err = err, nil
	}
	if err != nil {
		return Record{}, &notARecord{err}
	}
	return rec, nil
}

// resync finds the next record behind the damage at the reader's position and moves there.
func (r *LogReader) resync(cause error) error {
	from := r.pos
	for pos := from + 1; ; {
		at, err := r.find(pos)
		if err != nil {
			return err
		}
		if at < 0 {
			break
		}
		_, err = r.at(at)
		if err == nil {
			r.pos = at
			return &Damage{Path: r.seg.Path, From: r.seg.Start + from, To: r.seg.Start + at, Err: cause}
		}
		if e := (*notARecord)(nil); !errors.As(err, &e) {
			return err
		}
		pos = at + 1
	}
	r.pos = from
	more, err := r.written(r.next)
	if err != nil {
		return err
	}
	if more < 0 {
		r.done = true
		return &Damage{Path: r.seg.Path, From: r.seg.Start + from, To: -1, Err: cause}
	}
	return r.skipTo(more, cause)
}

// find is the first position from pos on where a record's magic code stands in its place; -1 if there is none.
func (r *LogReader) find(pos int64) (int64, error) {
	magic := binary.BigEndian.AppendUint32(nil, record.MagicV1)[:3] // the fourth byte tells the versions apart
	for {
		r.pos = pos + 4
		rest := r.seg.Size - r.pos
		if rest < 4 {
			return -1, nil
		}
		b, err := r.peek(int(min(rest, readWindow)))
		if err != nil {
			return -1, err
		}
		if i := bytes.Index(b, magic); i >= 0 {
			return pos + int64(i), nil
		}
		pos += int64(len(b) - len(magic) + 1)
	}
}

// written is the number of the first segment from i on whose first bytes are not zeros; -1 if there is none.
func (r *LogReader) written(i int) (int, error) {
	for ; i < len(r.files.segments); i++ {
		if r.files.segments[i].Size < record.BlankHeaderSize {
			continue
		}
		b, err := readHead(r.files.log, r.files.segments[i].Path, record.BlankHeaderSize)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return -1, err
		}
		if binary.BigEndian.Uint64(b) != 0 {
			return i, nil
		}
	}
	return -1, nil
}

// skipTo goes on with segment i and says what was left out before it.
func (r *LogReader) skipTo(i int, cause error) error {
	d := &Damage{Path: r.seg.Path, From: r.seg.Start + r.pos, To: r.files.segments[i].Start, Err: cause}
	if err := r.shut(); err != nil {
		return err
	}
	r.next = i
	return d
}

// leave closes the segment that was read to its end. A hole before the next one is damage.
func (r *LogReader) leave() error {
	end := r.seg.End()
	if err := r.shut(); err != nil {
		return err
	}
	r.pos = r.seg.Size
	if r.next == len(r.files.segments) {
		r.done = true
		return nil
	}
	if start := r.files.segments[r.next].Start; start != end {
		return &Damage{Path: path.Join(path.Dir(r.seg.Path), fmt.Sprintf("%0*d", fileNameDigits, end)), From: end, To: start, Err: errMissing}
	}
	return nil
}

// open opens the next segment.
func (r *LogReader) open() error {
	if r.next == len(r.files.segments) {
		r.done = true
		return nil
	}
	seg := r.files.segments[r.next]
	f, err := r.files.log.Open(seg.Path)
	if errors.Is(err, fs.ErrNotExist) { // expired since it was listed
		r.next++
		return nil
	}
	if err != nil {
		return err
	}
	at, ok := f.(io.ReaderAt)
	if !ok {
		f.Close()
		return fmt.Errorf("%s: this file system cannot read at an offset", seg.Path)
	}
	r.next++
	r.seg, r.f, r.close = seg, at, f.Close
	r.pos, r.base, r.buf = 0, 0, r.buf[:0]
	return nil
}

func (r *LogReader) shut() error {
	if r.f == nil {
		return nil
	}
	r.f = nil
	return r.close()
}

// Close frees the open file. The reader's records are no longer valid.
func (r *LogReader) Close() error {
	r.done = true
	return r.shut()
}

// peek is the n bytes at the reader's position, which the segment has.
func (r *LogReader) peek(n int) ([]byte, error) {
	if have := r.base + int64(len(r.buf)) - r.pos; r.pos >= r.base && have >= int64(n) {
		at := int(r.pos - r.base)
		return r.buf[at : at+n], nil
	}
	keep := 0
	if end := r.base + int64(len(r.buf)); r.pos >= r.base && r.pos < end {
		keep = copy(r.buf, r.buf[r.pos-r.base:])
	}
	want := max(n, int(min(readWindow, r.seg.Size-r.pos)))
	if cap(r.buf) < want {
		b := make([]byte, want)
		copy(b, r.buf[:keep])
		r.buf = b
	}
	r.buf, r.base = r.buf[:want], r.pos
	got, err := r.f.ReadAt(r.buf[keep:], r.pos+int64(keep))
	r.buf = r.buf[:keep+got]
	if len(r.buf) >= n {
		return r.buf[:n], nil
	}
	if err == io.EOF || err == nil {
		err = io.ErrUnexpectedEOF // it was longer when it was listed
	}
	return nil, fmt.Errorf("read %s at %d: %w", r.seg.Path, r.pos, err)
}

// ErrNoRecord: no record begins at an offset.
var ErrNoRecord = errors.New("no record begins here")

// At is the record at phyOffset, which keeps its own bytes. Where none begins the error is ErrNoRecord, with what is there instead.
func (f *Files) At(phyOffset int64) (Record, error) {
	r := &LogReader{files: f}
	defer r.Close()
	for i, s := range f.segments {
		if phyOffset < s.Start || phyOffset >= s.End() {
			continue
		}
		r.next = i
		if err := r.open(); err != nil {
			return Record{}, err
		}
		if r.f == nil {
			break
		}
		rec, err := r.at(phyOffset - s.Start)
		if e := (*notARecord)(nil); errors.As(err, &e) {
			return Record{}, fmt.Errorf("%w: %w", ErrNoRecord, err)
		}
		return rec, err // the reader's buffer goes with the record: nobody reads on
	}
	return Record{}, fmt.Errorf("%w: no file of the log holds %d", ErrNoRecord, phyOffset)
}

// Around is the record that phyOffset lies in; size 0: it lies in none.
func (f *Files) Around(ctx context.Context, phyOffset int64) (start int64, size int, err error) {
	r := &LogReader{files: f, MetaOnly: true}
	defer r.Close()
	for r.next < len(f.segments) && f.segments[r.next].End() <= phyOffset {
		r.next++
	}
	for {
		if err := ctx.Err(); err != nil {
			return 0, 0, err
		}
		rec, err := r.Next()
		if d := (*Damage)(nil); errors.As(err, &d) {
			continue
		}
		if err == io.EOF {
			return 0, 0, nil
		}
		if err != nil {
			return 0, 0, err
		}
		if rec.Meta.PhyOffset > phyOffset {
			return 0, 0, nil
		}
		if end := rec.Meta.PhyOffset + int64(len(rec.Bytes)); phyOffset < end {
			return rec.Meta.PhyOffset, len(rec.Bytes), nil
		}
	}
}
