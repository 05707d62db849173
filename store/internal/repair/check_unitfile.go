package repair

import (
	"errors"
	"io"
	"io/fs"
	"math"

	"github.com/mqstore/mqstore/consumequeue"
)

const (
	minUnitBuffer = 4 << 10
	maxUnitBuffer = 64 << 10
)

// read reads one unit. ok is false if no file holds it, or it cannot be read, which is told once a file.
func (u *unitCheck) read(s *queueState, queueOffset int64) (unit consumequeue.Unit, ok bool) {
	b, err := u.file.at(s, queueOffset)
	if err != nil && !(u.o.Live && errors.Is(err, fs.ErrNotExist)) {
		name := u.unitName(s, queueOffset)
		if u.broken == nil {
			u.broken = map[string]bool{}
		}
		if !u.broken[name] && len(u.broken) < maxSpans {
			u.broken[name] = true
			u.unreadable(name, err)
		}
	}
	if len(b) < consumequeue.UnitSize {
		return unit, false
	}
	unit, err = consumequeue.ParseUnit(b)
	return unit, err == nil
}

// unitFile reads units of one queue after the other.
type unitFile struct {
	fsys fs.FS
	of   *queueState
	i    int // file of the queue
	f    fs.File
	in   io.ReaderAt
	buf  []byte
	base int64 // in the file
	n    int   // bytes of buf
	want int64 // to read next: more and more while it goes on
}

// at is the bytes of a unit; none where no file has it.
func (r *unitFile) at(s *queueState, queueOffset int64) ([]byte, error) {
	b, err := r.run(s, queueOffset, 0)
	if int64(len(b)) < s.width {
		return nil, err
	}
	return b[:s.width], nil
}

// run is the bytes of a unit and of those behind it that are at hand; none where no file has it. most is how many there is use for; 0: nobody knows.
func (r *unitFile) run(s *queueState, queueOffset, most int64) ([]byte, error) {
	if queueOffset < 0 || queueOffset > math.MaxInt64/s.width-1 {
		return nil, nil
	}
	off := queueOffset * s.width
	if r.of == s && r.f != nil {
		if f := s.files[r.i]; off >= f.start+r.base && off+s.width <= f.start+r.base+int64(r.n) {
			return r.buf[off-f.start-r.base : r.n], nil
		}
	}
	if err := r.open(s, off); err != nil || r.f == nil {
		return nil, err
	}
	f := s.files[r.i]
	pos := off - f.start
	if r.buf == nil {
		r.buf = make([]byte, maxUnitBuffer)
	}
	want := r.want
	if most > 0 {
		want = min(most*s.width, maxUnitBuffer)
	}
	n, err := r.in.ReadAt(r.buf[:min(want, f.size-pos)], pos)
	r.base, r.n = pos, n
	r.want = min(2*r.want, maxUnitBuffer)
	if int64(n) < s.width {
		if err == nil || err == io.EOF {
			return nil, nil // shorter than it was
		}
		return nil, err
	}
	return r.buf[:n], nil
}

// open opens the file that holds off of the queue's stream; r.f is nil if none does.
func (r *unitFile) open(s *queueState, off int64) error {
	if r.of == s && r.f != nil {
		if f := s.files[r.i]; off >= f.start && off+s.width <= f.start+f.size {
			return nil
		}
	}
	r.shut()
	lo, hi := 0, len(s.files)
	for lo < hi {
		if mid := (lo + hi) / 2; s.files[mid].start+s.files[mid].size < off+s.width {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == len(s.files) || s.files[lo].start > off {
		return nil
	}
	f, err := r.fsys.Open(s.dir() + "/" + segmentName(s.files[lo].start))
	if err != nil {
		return err
	}
	at, ok := f.(io.ReaderAt)
	if !ok {
		f.Close()
		return errors.New("this file system cannot read at an offset")
	}
	r.of, r.i, r.f, r.in, r.n, r.base, r.want = s, lo, f, at, 0, 0, minUnitBuffer
	return nil
}

// skipHole is the first queue offset from queueOffset on, of the same queue, where anything may be written.
func (r *unitFile) skipHole(s *queueState, queueOffset int64) int64 {
	for {
		off := queueOffset * s.width
		if r.of == s && r.f != nil {
			if f := s.files[r.i]; off >= f.start+r.base && off+s.width <= f.start+r.base+int64(r.n) {
				return queueOffset
			}
		}
		if err := r.open(s, off); err != nil || r.f == nil {
			return queueOffset
		}
		f := s.files[r.i]
		at := dataFrom(r.f, off-f.start, f.size)
		if at < f.size {
			return max(queueOffset, (f.start+at)/s.width)
		}
		queueOffset = s.nextUnit((f.start + f.size) / s.width)
		if queueOffset == math.MaxInt64 {
			return queueOffset
		}
	}
}

func (r *unitFile) shut() {
	if r.f != nil {
		r.f.Close()
	}
	r.f, r.of, r.n = nil, nil, 0
}
