package mappedfile

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Reserve returns n bytes of the current file at the write position, without publishing them, and their offset, which is Max; ErrEndOfFile if they do not fit (then fill Rest and Roll).
// An empty sequence creates the file that contains Max. The bytes are in allocated blocks: storing into them cannot fail. ErrDiskFull leaves everything as it was.
// A second Reserve before Publish returns the same position.
func (s *Sequence) Reserve(n int) (dst []byte, off int64, err error) {
	off = s.max.Load()
	if f := s.cur; f != nil && n >= 0 {
		pos := off - f.start
		end := pos + int64(n)
		if end <= f.ready {
			return f.b[pos:end:end], off, nil
		}
		if end > int64(len(f.b)) && n <= len(f.b) {
			return nil, off, ErrEndOfFile
		}
	}
	return s.reserveSlow(n, off)
}

func (s *Sequence) reserveSlow(n int, off int64) ([]byte, int64, error) {
	if n < 0 || int64(n) > s.o.FileSize {
		return nil, off, fmt.Errorf("reserve %d bytes: a file of %s has %d", n, s.o.Dir, s.o.FileSize)
	}
	f := s.cur
	if f == nil {
		var err error
		if f, err = s.locate(off); err != nil {
			return nil, off, err
		}
	}
	pos := off - f.start
	end := pos + int64(n)
	if end > int64(len(f.b)) {
		return nil, off, ErrEndOfFile
	}
	if err := s.allocate(f, pos, end); err != nil {
		return nil, off, err
	}
	s.lay(f, pos, end)
	if s.cur != f {
		if err := s.setCurrent(f); err != nil {
			return nil, off, err
		}
	}
	return f.b[pos:end:end], off, nil
}

// locate finds or makes the file that contains Max.
func (s *Sequence) locate(off int64) (*file, error) {
	l := s.files.Load()
	if l == nil {
		return nil, fmt.Errorf("append to %s: %w", s.o.Dir, ErrClosed)
	}
	if s.o.ReadOnly {
		return nil, fmt.Errorf("append to %s: %w", s.o.Dir, ErrReadOnly)
	}
	files := *l
	if len(files) == 0 {
		f, err := s.create(off - off%s.o.FileSize)
		if err != nil {
			return nil, err
		}
		s.append(f)
		return f, nil
	}
	last := files[len(files)-1]
	if off < last.start {
		return nil, fmt.Errorf("append to %s at %d: files lie beyond, up to %s: TruncateTo first", s.o.Dir, off, last.path)
	}
	return last, nil
}

// allocate makes sure that [pos, end) of f, and what the options want beyond, has blocks.
func (s *Sequence) allocate(f *file, pos, end int64) error {
	have := f.allocated.Load()
	if end <= have {
		return nil
	}
	size := int64(len(f.b))
	from := have
	if have == 0 {
		from = pos &^ (pageSize - 1) // an existing file of which nothing is known, or a new sparse one
	}
	to := size
	if s.o.Sparse {
		to = min(size, (end+s.o.AllocWindow+pageSize-1)&^(pageSize-1))
	}
	if from < to {
		if err := f.m.Allocate(from, to-from); err != nil {
			return fmt.Errorf("append to %s: %w", s.o.Dir, err)
		}
	}
	if have == 0 && s.o.Prewrite {
		_ = f.m.Advise(AdviceDontNeed, pos, size-pos) // read or written by large calls before, the file lies in large folios: each small sync would write a whole one
	}
	f.allocated.Store(to)
	return nil
}

// create makes and maps the file at start, and its directory. The writer calls it, or the pipeline in its stead.
func (s *Sequence) create(start int64) (*file, error) {
	if start > math.MaxInt64-s.o.FileSize {
		return nil, fmt.Errorf("append to %s: offsets are used up: %w", s.o.Dir, ErrEndOfFile)
	}
	if !s.dirMade.Load() {
		makeDir := s.o.MakeDir
		if makeDir == nil {
			makeDir = func() error { return s.o.FS.MkdirAll(s.o.Dir) }
		}
		if err := makeDir(); err != nil {
			return nil, err
		}
		s.dirMade.Store(true)
	}
	if err := s.clearLeft(); err != nil {
		return nil, fmt.Errorf("remove what a crash left: %w", err)
	}
	mode := MapCreate
	if s.o.Sparse {
		mode = MapCreateSparse
	}
	path := s.path(start)
	m, err := s.o.FS.Map(path, s.o.FileSize, mode)
	if err != nil {
		return nil, fmt.Errorf("next file: %w", err)
	}
	s.made.Add(1)
	f := newFile(m, path, start)
	if !s.o.Sparse {
		f.allocated.Store(s.o.FileSize)
	}
	if st, err := s.o.FS.Stat(path); err == nil {
		f.modTime = st.ModTime
	}
	return f, nil
}

func (s *Sequence) append(f *file) {
	s.swap.Lock()
	defer s.swap.Unlock()
	files := append(slices.Clip(s.list()), f)
	s.files.Store(&files)
}

// Rest is how many bytes are left in the current file; 0 when there is none or it is full.
func (s *Sequence) Rest() int64 {
	off := s.max.Load()
	if f := find(s.list(), off); f != nil {
		return f.end - off
	}
	return 0
}

// Publish says that the bytes before end are complete: readers may see them. Max <= end <= the end of the current file.
func (s *Sequence) Publish(end int64) {
	f := s.cur
	if f == nil || end > f.end || end < s.max.Load() {
		if end == s.max.Load() {
			return
		}
		panic(fmt.Sprintf("mappedfile: publish %d: nothing reserved there", end))
	}
	s.max.Store(end)
	if p := s.pipe; p != nil {
		p.advance(f, end)
	}
}

// Roll makes the next file current: Max jumps to its start, past whatever was not published of the old one. ErrDiskFull leaves everything as it was and can be retried.
func (s *Sequence) Roll() error {
	f := s.cur
	if f == nil {
		var err error
		if f, err = s.locate(s.max.Load()); err != nil {
			return err
		}
	}
	var next *file
	var err error
	if s.pipe != nil {
		next = s.pipe.take(f.end)
	}
	if next == nil {
		if next, err = s.create(f.end); err != nil {
			return err
		}
	}
	if err := s.WriteOut(); err != nil {
		return errors.Join(err, s.discard(next))
	}
	s.leave(f)
	s.append(next)
	s.max.Store(next.start)
	return s.setCurrent(next)
}

// setCurrent is the only place where cur changes. A nil f also discards what the pipeline made for the old one.
func (s *Sequence) setCurrent(f *file) error {
	if s.cur != nil && f == nil {
		s.cur.allocated.Store(0) // the next write may be before the place where ours began
	}
	s.cur = f
	if s.pipe == nil {
		return nil
	}
	if f == nil {
		if next := s.pipe.take(-1); next != nil {
			return s.discard(next)
		}
		return nil
	}
	s.pipe.follow(f)
	return nil
}
