package repair

import (
	"errors"
	"io"
	"io/fs"
	"sort"
	"syscall"
)

// blockFS reads files in aligned blocks and keeps the last few, so that readers of one log that stand near each other read nothing twice. For one goroutine.
type blockFS struct {
	fs.FS
	blocks []block // the latest used last
}

type block struct {
	path string
	n    int64
	data []byte
}

const (
	blockSize  = 1 << 20
	blocksKept = 6
)

func (c *blockFS) Open(name string) (fs.File, error) {
	f, err := c.FS.Open(name)
	if err != nil {
		return nil, err
	}
	at, ok := f.(io.ReaderAt)
	if !ok {
		return f, nil
	}
	return &blockFile{File: f, at: at, c: c, path: name}, nil
}

// blockFile is a file that is read through the blocks.
type blockFile struct {
	fs.File
	at   io.ReaderAt
	c    *blockFS
	path string
	pos  int64 // of Read
}

func (f *blockFile) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p, f.pos)
	f.pos += int64(n)
	return n, err
}

func (f *blockFile) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) {
		b, err := f.c.block(f, (off+int64(n))/blockSize)
		if err != nil {
			return n, err
		}
		in := (off + int64(n)) % blockSize
		if in >= int64(len(b)) {
			return n, io.EOF
		}
		n += copy(p[n:], b[in:])
	}
	return n, nil
}

// Seek is the file's own, if it has one.
func (f *blockFile) Seek(offset int64, whence int) (int64, error) {
	if s, ok := f.File.(io.Seeker); ok {
		return s.Seek(offset, whence)
	}
	return 0, errors.ErrUnsupported
}

func (c *blockFS) block(f *blockFile, n int64) ([]byte, error) {
	for i, b := range c.blocks {
		if b.n == n && b.path == f.path {
			copy(c.blocks[i:], c.blocks[i+1:])
			c.blocks[len(c.blocks)-1] = b
			return b.data, nil
		}
	}
	var data []byte
	if len(c.blocks) == blocksKept {
		data = c.blocks[0].data[:blockSize]
		copy(c.blocks, c.blocks[1:])
		c.blocks = c.blocks[:blocksKept-1]
	} else {
		data = make([]byte, blockSize)
	}
	got, err := f.at.ReadAt(data, n*blockSize)
	if err != nil && err != io.EOF {
		return nil, err
	}
	c.blocks = append(c.blocks, block{f.path, n, data[:got]})
	return data[:got], nil
}

// rawLog reads the bytes of a log's files by physical offset, whatever they mean. What no file holds reads as zeros.
type rawLog struct {
	files *Files
	path  string
	f     fs.File

	holes            bool  // of the open file: they can be asked for
	dataFrom, dataTo int64 // physical offsets of the data that was found last
}

// segment is the file that holds off, and otherwise where the next one begins.
func (r *rawLog) segment(off int64) (s Segment, next int64, ok bool) {
	segs := r.files.segments
	i := sort.Search(len(segs), func(i int) bool { return segs[i].End() > off })
	switch {
	case i == len(segs):
		return Segment{}, endOfLog, false
	case segs[i].Start > off:
		return Segment{}, segs[i].Start, false
	}
	return segs[i], 0, true
}

// open opens the file of s; false if it is not there any more.
func (r *rawLog) open(s Segment) (bool, error) {
	if r.path == s.Path && r.f != nil {
		return true, nil
	}
	r.close()
	f, err := r.files.log.Open(s.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	r.f, r.path = f, s.Path
	r.dataFrom, r.dataTo = 0, 0
	r.holes = seekData != 0
	return true, nil
}

func (r *rawLog) close() {
	if r.f != nil {
		r.f.Close()
		r.f = nil
	}
}

// hole tells whether there are surely only zeros at off, and up to where its answer holds.
func (r *rawLog) hole(off int64) (until int64, zeros bool, err error) {
	s, next, ok := r.segment(off)
	if !ok {
		return next, true, nil
	}
	there, err := r.open(s)
	if err != nil || !there {
		return s.End(), true, err
	}
	if !r.holes {
		return s.End(), false, nil
	}
	if r.dataFrom <= off && off < r.dataTo {
		return r.dataTo, false, nil
	}
	seeker, ok := r.f.(io.Seeker)
	if !ok {
		r.holes = false
		return s.End(), false, nil
	}
	at, err := seeker.Seek(off-s.Start, seekData)
	switch {
	case errors.Is(err, syscall.ENXIO):
		return s.End(), true, nil
	case err != nil:
		r.holes = false
		return s.End(), false, nil
	case s.Start+at > off:
		return min(s.Start+at, s.End()), true, nil
	}
	end, err := seeker.Seek(off-s.Start, seekHole)
	if err != nil || end <= off-s.Start {
		r.holes = false
		return s.End(), false, nil
	}
	r.dataFrom, r.dataTo = off, min(s.Start+end, s.End())
	return r.dataTo, false, nil
}

// fill reads b at off, or knows that it is zeros.
func (r *rawLog) fill(b []byte, off int64, zeros bool) error {
	if zeros {
		clear(b)
		return nil
	}
	return r.read(b, off)
}

// read reads b at off.
func (r *rawLog) read(b []byte, off int64) error {
	for len(b) > 0 {
		s, next, ok := r.segment(off)
		n := int(min(int64(len(b)), next-off))
		if ok {
			n = int(min(int64(len(b)), s.End()-off))
			there, err := r.open(s)
			if err != nil {
				return err
			}
			ok = there
		}
		got := 0
		if ok {
			at, isAt := r.f.(io.ReaderAt)
			if !isAt {
				return errors.New(s.Path + ": this file system cannot read at an offset")
			}
			var err error
			if got, err = at.ReadAt(b[:n], off-s.Start); err != nil && err != io.EOF {
				return err
			}
		}
		clear(b[got:n])
		b, off = b[n:], off+int64(n)
	}
	return nil
}
