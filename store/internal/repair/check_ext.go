package repair

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"sort"
	"strconv"

	"github.com/mqstore/mqstore/consumequeue"
)

// extFile reads extension units (spec/consumequeue-format.md 2.6) of one queue after the other, mostly in rising order.
type extFile struct {
	fsys fs.FS
	of   *queueState
	segs []Segment
	cur  int // the open one
	f    fs.File
	in   io.ReaderAt
	buf  []byte
	base int64 // in the file
	n    int
}

const extBuffer = 256 << 10

// at is the unit at an address. Its bitmap is a view, valid until the next call.
func (r *extFile) at(s *queueState, address int64) (consumequeue.ExtUnit, error) {
	none := consumequeue.ExtUnit{}
	if r.of != s {
		r.shut()
		segs, err := segments(r.fsys, path.Join(extDir, s.Topic, strconv.Itoa(int(s.QueueID))))
		if err != nil {
			return none, err
		}
		r.of, r.segs = s, segs
	}
	off, _ := consumequeue.ExtOffset(address)
	i := sort.Search(len(r.segs), func(i int) bool { return r.segs[i].End() > off })
	if off == 0 && len(r.segs) > 0 {
		i, off = 0, r.segs[0].Start // as the original reads
	}
	if i == len(r.segs) || r.segs[i].Start > off {
		return none, fmt.Errorf("no file of consumequeue_ext holds offset %d", off)
	}
	if r.f == nil || r.cur != i {
		r.shutFile()
		f, err := r.fsys.Open(r.segs[i].Path)
		if err != nil {
			return none, err
		}
		in, ok := f.(io.ReaderAt)
		if !ok {
			f.Close()
			return none, errors.New("this file system cannot read at an offset")
		}
		r.f, r.in, r.cur, r.n = f, in, i, 0
	}
	pos := off - r.segs[i].Start
	size := min(maxExtSize, r.segs[i].Size-pos)
	if pos < r.base || pos+size > r.base+int64(r.n) {
		if r.buf == nil {
			r.buf = make([]byte, extBuffer)
		}
		n, err := r.in.ReadAt(r.buf[:min(extBuffer, r.segs[i].Size-pos)], pos)
		if r.base, r.n = pos, n; int64(n) < size && err != nil && err != io.EOF {
			return none, err
		}
	}
	u, err := consumequeue.ParseExtUnit(r.buf[pos-r.base : r.n])
	if err != nil {
		return none, fmt.Errorf("%s at %d: %w", r.segs[i].Path, pos, err)
	}
	return u, nil
}

func (r *extFile) shutFile() {
	if r.f != nil {
		r.f.Close()
	}
	r.f, r.n = nil, 0
}

func (r *extFile) shut() {
	r.shutFile()
	r.of, r.segs = nil, nil
}
