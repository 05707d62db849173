package repair

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
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
	errNothing = &wrong{record.ErrMagic, "nothing was written here, yet records follow"}
	errZeros   = &wrong{record.ErrMagic, "nothing was written here, yet something follows"}
	errMissing = errors.New("the segment is missing")
	errShort   = &wrong{record.ErrSize, "the file ends within the record"}
)

// wrong is a reason that has a kind (record.ErrMagic …) and words of its own.
type wrong struct {
	kind error
	text string
}

func (w *wrong) Error() string { return w.text }

func (w *wrong) Unwrap() error { return w.kind }

func wrongf(kind error, format string, args ...any) error {
	return &wrong{kind, fmt.Sprintf(format, args...)}
}

// LogReader reads the records of a log in physical order, blanks left out, over damage, what cannot be read, and missing segments. It reads
// files as they are: the log ends where nothing more is written. For one goroutine; Close it.
type LogReader struct {
	// MetaOnly leaves bodies undecoded and checksums unchecked: Record.Message and Record.CRC are nil.
	MetaOnly bool

	sumsOnly  bool                             // checksums are verified, bodies left undecoded: Record.Message is nil
	longAside bool                             // records of more than mostHeld bytes are not held: Record.Message and Record.Bytes are nil
	window    int                              // bytes that are read at a time; 0 = readWindow
	survey    func(phyOffset int64) (to int64) // up to where somebody has seen nothing but zeros. May be nil
	tick      func() error                     // called now and then where nothing is found for long; its error ends the reading. May be nil

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

const (
	readWindow = 1 << 20
	mostHeld   = 32 << 20 // bytes of a record, where longer ones need not be held
)

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
	r.MetaOnly, r.longAside = true, true
	for r.Offset() < phyOffset {
		_, err := r.Next()
		if d := (*Damage)(nil); err == io.EOF || err != nil && !errors.As(err, &d) {
			break // Next says it again
		}
	}
	r.MetaOnly, r.longAside = false, false
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
// error is that of opening a file, and final. Behind damage only a record whose checksums verify is believed.
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
			return Record{}, r.unreadable(err)
		}
		size, magic := int64(int32(binary.BigEndian.Uint32(head))), binary.BigEndian.Uint32(head[4:])
		switch {
		case size == 0 && magic == 0:
			return Record{}, r.zeros()
		case magic == record.MagicBlank:
			if size != rest { // what it hides may be records
				return Record{}, r.resync(wrongf(record.ErrSize, "a blank of %d bytes where %d are left of the file", size, rest), r.pos+1)
			}
			if err := r.leave(); err != nil {
				return Record{}, err
			}
			continue
		}
		rec, err := r.at(r.pos)
		if err == nil {
			r.pos += int64(rec.Meta.Size)
			return rec, nil
		}
		if e := (*notARecord)(nil); !errors.As(err, &e) {
			return Record{}, r.unreadable(err)
		}
		return Record{}, r.resync(err, r.pos+1)
	}
}

func (r *LogReader) ask() error {
	if r.tick == nil {
		return nil
	}
	return r.tick()
}

// unreadable goes on behind a place of the open segment that cannot be read.
func (r *LogReader) unreadable(cause error) error {
	return r.resync(cause, r.pos+1)
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
		return Record{}, &notARecord{wrongf(record.ErrMagic, "no record: magic 0x%08x", magic)}
	}
	if size <= record.BlankHeaderSize || size > rest {
		return Record{}, &notARecord{wrongf(record.ErrSize, "the record claims %d bytes, the file has %d left", size, rest)}
	}
	const mostBelieved = 1 << 20 // what is longer is read only if it at least says where it lies
	if size > mostBelieved {
		const posPhyOffset = 28
		if head, err = r.peek(posPhyOffset + 8); err != nil {
			return Record{}, err
		}
		if says := int64(binary.BigEndian.Uint64(head[posPhyOffset:])); says != r.seg.Start+pos {
			return Record{}, &notARecord{&record.FormatError{Kind: record.ErrPhyOffset, Field: "physical offset", Value: says, Want: r.seg.Start + pos}}
		}
	}
	if (r.sumsOnly || r.longAside) && size > mostHeld {
		return r.long(pos, size)
	}
	b, err := r.peek(int(size))
	if err != nil {
		return Record{}, err
	}
	rec := Record{Bytes: b}
	r.parser.VerifyCRC = r.sumsOnly
	err = r.parser.Parse(b, r.seg.Start+pos, &rec.Meta)
	if r.sumsOnly && errors.Is(err, record.ErrCRC) {
		rec.CRC = err
		r.parser.VerifyCRC = false
		err = r.parser.Parse(b, r.seg.Start+pos, &rec.Meta)
	}
	if err != nil {
		return Record{}, &notARecord{err}
	}
	if r.MetaOnly || r.sumsOnly {
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

// quick reads the record at the reader's position into m and k, and stays there. ok is false where the next record is not whole and of an ordinary length; size is -1
// then if the segment ends here as it should, else the length of the record that does not verify, 0 if there is none.
func (r *LogReader) quick(m *record.Meta, k *record.Known) (size int64, ok bool) {
	if at := r.pos - r.base; at >= 0 && at+record.BlankHeaderSize <= int64(len(r.buf)) {
		if b := r.buf[at:]; isMessage(b) {
			if size = int64(binary.BigEndian.Uint32(b)); size <= min(int64(len(b)), ordinary) { // at hand: the most frequent case
				return r.verified(b[:size], m, k)
			}
		}
	}
	rest := r.seg.Size - r.pos
	if rest < record.BlankHeaderSize {
		return -1, false
	}
	b, err := r.peek(record.BlankHeaderSize)
	if err != nil {
		return 0, false
	}
	size = int64(int32(binary.BigEndian.Uint32(b)))
	if !isMessage(b) {
		if binary.BigEndian.Uint32(b[4:]) == record.MagicBlank && size == rest {
			return -1, false
		}
		return 0, false
	}
	if size <= record.BlankHeaderSize || size > min(rest, ordinary) {
		return 0, false
	}
	const posPhyOffset = 28
	if have := r.base + int64(len(r.buf)) - r.pos; have < size && size > posPhyOffset+8 { // what is read because of what it says, says first where it lies
		if b, err = r.peek(posPhyOffset + 8); err != nil || int64(binary.BigEndian.Uint64(b[posPhyOffset:])) != r.seg.Start+r.pos {
			return 0, false
		}
	}
	if b, err = r.peek(int(size)); err != nil {
		return 0, false
	}
	return r.verified(b, m, k)
}

const ordinary = 8 << 20 // bytes of a record that quick reads

// isMessage reports whether b, of 8 bytes or more, begins as a message does.
func isMessage(b []byte) bool {
	magic := binary.BigEndian.Uint32(b[4:])
	return magic == record.MagicV1 || magic == record.MagicV2
}

// verified parses b, the record at the reader's position, for quick.
func (r *LogReader) verified(b []byte, m *record.Meta, k *record.Known) (size int64, ok bool) {
	r.parser.VerifyCRC = true
	if err := r.parser.ParseKnown(b, r.seg.Start+r.pos, m, k); err != nil {
		if errors.Is(err, record.ErrCRC) {
			return int64(len(b)), false
		}
		return 0, false
	}
	return int64(len(b)), true
}

// advance moves over whole records that somebody else has read: from the record at from, where the reader must stand, to the end of one in the same segment, or of that
// segment. It reports whether the reader did stand there.
func (r *LogReader) advance(from, to int64) bool {
	segs := r.files.segments
	if r.done || r.Offset() != from {
		return false
	}
	if r.f == nil || from == r.seg.End() {
		if r.next == len(segs) || segs[r.next].Start != from {
			return false
		}
		if r.shut() != nil || r.open() != nil || r.f == nil {
			return false
		}
	}
	if to > r.seg.End() {
		return false
	}
	r.pos = to - r.seg.Start
	return true
}

// long reads a record that is too long to be held: its body through a window, for the checksum, and the rest as that of a record without one. Its Bytes are nil.
func (r *LogReader) long(pos, size int64) (Record, error) {
	const (
		posBodyCRC = 8
		posSysFlag = 36
		shortest   = 72 + 2*8 // up to the body, with two IPv4 hosts
		longer     = 12       // an IPv6 host
		mostTail   = 1 << 17  // topic and properties
	)
	r.pos = pos
	head, err := r.peek(shortest + 2*longer)
	if err != nil {
		return Record{}, err
	}
	flag := record.SysFlag(binary.BigEndian.Uint32(head[posSysFlag:]))
	fixed := int64(shortest)
	for _, bit := range []record.SysFlag{record.FlagBornHostV6, record.FlagStoreHostV6} {
		if flag&bit != 0 {
			fixed += longer
		}
	}
	sum := binary.BigEndian.Uint32(head[posBodyCRC:])
	body := int64(int32(binary.BigEndian.Uint32(head[fixed-4:])))
	tail := size - fixed - body
	if body < 0 || tail < 0 || tail > mostTail {
		return Record{}, &notARecord{wrongf(record.ErrSize, "the record of %d bytes claims a body of %d", size, body)}
	}
	short := bytes.Clone(head[:fixed])
	crc := uint32(0)
	for at, end := pos+fixed, pos+fixed+body; at < end; {
		if err := r.ask(); err != nil {
			return Record{}, err
		}
		r.pos = at
		b, err := r.peek(int(min(end-at, readWindow)))
		if err != nil {
			r.pos = pos
			return Record{}, err
		}
		crc = crc32.Update(crc, crc32.IEEETable, b)
		at += int64(len(b))
	}
	r.pos = pos + fixed + body
	b, err := r.peek(int(tail))
	r.pos = pos
	if err != nil {
		return Record{}, err
	}
	short = append(short, b...)
	binary.BigEndian.PutUint32(short, uint32(fixed+tail))
	binary.BigEndian.PutUint32(short[posBodyCRC:], 0)
	binary.BigEndian.PutUint32(short[fixed-4:], 0)
	var rec Record
	r.parser.VerifyCRC = false
	if err := r.parser.Parse(short, r.seg.Start+pos, &rec.Meta); err != nil {
		return Record{}, &notARecord{err}
	}
	rec.Meta.Size, rec.Meta.BodyCRC = int(size), sum
	if crc &= math.MaxInt32; crc != sum {
		rec.CRC = &record.FormatError{Kind: record.ErrCRC, Field: "body CRC", Value: int64(sum), Want: int64(crc)}
	}
	return rec, nil
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
		return &Damage{Path: path.Join(path.Dir(r.seg.Path), segmentName(end)), From: end, To: start, Err: errMissing}
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
	window := r.window
	if window == 0 {
		window = readWindow
	}
	want := max(n, int(min(int64(window), r.seg.Size-r.pos)))
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
