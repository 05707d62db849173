package repair

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"syscall"

	"github.com/mqstore/mqstore/commitlog/record"
)

// zeros finds out what lies behind a place where nothing was written: the log's end, or damage.
func (r *LogReader) zeros() error {
	from := r.pos
	at, err := r.nonZero(from)
	r.pos = from
	if err != nil {
		return err
	}
	if at < 0 {
		more, err := r.written(r.next)
		if err != nil {
			return err
		}
		if more < 0 {
			r.done = true
			return io.EOF
		}
		return r.skipTo(more, errNothing)
	}
	const sizeField = 4 // may begin with zeros
	return r.resync(errZeros, max(from+1, at-sizeField))
}

// nonZero is the first position from pos on of a byte that is not zero; -1 if there is none.
func (r *LogReader) nonZero(pos int64) (int64, error) {
	for pos < r.seg.Size {
		if err := r.ask(); err != nil {
			return -1, err
		}
		if r.survey != nil {
			if to := r.survey(r.seg.Start+pos) - r.seg.Start; to > pos {
				pos = min(to, r.seg.Size)
				continue
			}
		}
		pos = dataFrom(r.f, pos, r.seg.Size)
		r.pos = pos
		b, err := r.some(readWindow)
		if err != nil {
			return pos, nil // what cannot be read is not nothing
		}
		if len(b) == 0 {
			break
		}
		if i := firstNonZero(b); i < len(b) {
			return pos + int64(i), nil
		}
		pos += int64(len(b))
	}
	return -1, nil
}

var zeroPage [4096]byte

// firstNonZero is where the zeros at the beginning of b end.
func firstNonZero(b []byte) int {
	i := 0
	for len(b)-i >= len(zeroPage) && bytes.Equal(b[i:i+len(zeroPage)], zeroPage[:]) {
		i += len(zeroPage)
	}
	for i < len(b) && b[i] == 0 {
		i++
	}
	return i
}

// dataFrom is the first position from pos on that may hold anything but zeros, as far as the file system tells without reading.
func dataFrom(f any, pos, size int64) int64 {
	if s, ok := f.(io.Seeker); ok && whenceData != 0 {
		switch at, err := s.Seek(pos, whenceData); {
		case err == nil && at >= pos:
			return min(at, size)
		case errors.Is(err, syscall.ENXIO):
			return size
		}
	}
	return pos
}

// resync finds the next record, from a position of the segment on, behind the damage at the reader's position, and moves there.
func (r *LogReader) resync(cause error, pos int64) error {
	from := r.pos
	effort := r.seg.Size // bytes of records that add up but do not match their checksums: made for it, a file could hold very many long ones
	for {
		at, err := r.find(pos)
		if err != nil {
			return err
		}
		if at < 0 {
			break
		}
		rec, err := r.at(at)
		if err == nil && effort > 0 {
			if rec.CRC == nil && !r.sumsOnly && rec.Bytes != nil {
				p := record.Parser{VerifyCRC: true}
				rec.CRC = p.Parse(rec.Bytes, r.seg.Start+at, &rec.Meta)
			}
			if err = rec.CRC; err != nil {
				effort -= int64(rec.Meta.Size)
			}
		}
		if err == nil {
			r.pos = at
			return &Damage{Path: r.seg.Path, From: r.seg.Start + from, To: r.seg.Start + at, Err: cause}
		}
		pos = at + 1 // a record that cannot be read whole is none either
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

// find is the first position from pos on where a record's magic code stands in its place; -1 if there is none. What cannot be read
// is passed over, in ever longer steps.
func (r *LogReader) find(pos int64) (int64, error) {
	magic := binary.BigEndian.AppendUint32(nil, record.MagicV1)[:3] // the fourth byte tells the versions apart
	const firstStep = 4 << 10
	step := int64(firstStep)
	for {
		if err := r.ask(); err != nil {
			return -1, err
		}
		r.pos = pos + 4
		rest := r.seg.Size - r.pos
		if rest < 4 {
			return -1, nil
		}
		b, err := r.some(readWindow)
		if err != nil || len(b) < len(magic) {
			pos += step - (pos+4)%firstStep
			step = min(2*step, readWindow)
			continue
		}
		step = firstStep
		if i := bytes.Index(b, magic); i >= 0 {
			return pos + int64(i), nil
		}
		pos += int64(len(b) - len(magic) + 1)
	}
}

// some is at most n bytes at the reader's position, as many as can be read.
func (r *LogReader) some(n int) ([]byte, error) {
	n = int(min(int64(n), r.seg.Size-r.pos))
	b, err := r.peek(n)
	if err == nil {
		return b, nil
	}
	if have := r.base + int64(len(r.buf)) - r.pos; r.pos >= r.base && have > 0 {
		return r.buf[r.pos-r.base:], nil
	}
	return nil, err
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
