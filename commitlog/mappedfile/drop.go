package mappedfile

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
)

// discard removes a file that was made and never used.
func (s *Sequence) discard(f *file) error {
	err := s.unlink(f.path)
	f.release()
	return err
}

// unlink is durable when it returns, so that of several never a later one survives an earlier one.
func (s *Sequence) unlink(path string) error {
	if err := s.o.FS.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return s.o.FS.SyncDir(s.o.Dir)
}

// Reset moves an empty sequence: the next file is the one containing start, and Max = Flushed = start (a slave; a queue after its head expired). Files that hold nothing are removed, durably.
func (s *Sequence) Reset(start int64) error {
	l := s.files.Load()
	switch {
	case l == nil:
		return fmt.Errorf("reset %s: %w", s.o.Dir, ErrClosed)
	case s.o.ReadOnly:
		return fmt.Errorf("reset %s: %w", s.o.Dir, ErrReadOnly)
	case len(*l) > 0 && s.max.Load() != (*l)[0].start:
		return fmt.Errorf("reset %s to %d: it holds [%d, %d)", s.o.Dir, start, (*l)[0].start, s.max.Load())
	case start < 0 || start > math.MaxInt64-s.o.FileSize:
		return fmt.Errorf("reset %s to %d: %w", s.o.Dir, start, ErrNotFound)
	}
	s.cutting.Lock()
	defer s.cutting.Unlock()
	s.flushing.Lock()
	defer s.flushing.Unlock()
	if files := s.list(); len(files) > 0 {
		if err := s.setCurrent(nil); err != nil {
			return s.fail(fmt.Errorf("reset %s to %d: %w", s.o.Dir, start, err))
		}
		for _, f := range slices.Backward(files) {
			if err := s.unlink(f.path); err != nil {
				return s.fail(fmt.Errorf("reset %s to %d: %w", s.o.Dir, start, err))
			}
			s.drop(f)
		}
	}
	s.unstage(start)
	s.flushed.Store(start)
	s.doubt.Store(0)
	return nil
}

// DropHead removes the first n files (never the last one), oldest first: each is unlinked, durably, and unmapped when its last View is released.
func (s *Sequence) DropHead(n int) (dropped int, err error) {
	if s.o.ReadOnly {
		return 0, fmt.Errorf("drop files of %s: %w", s.o.Dir, ErrReadOnly)
	}
	s.cutting.Lock()
	defer s.cutting.Unlock()
	for dropped < n {
		files := s.list()
		if len(files) < 2 || files[0].end > s.max.Load() {
			return dropped, nil
		}
		if err := s.unlink(files[0].path); err != nil {
			return dropped, fmt.Errorf("drop file: %w", err)
		}
		s.drop(files[0])
		dropped++
	}
	return dropped, nil
}

// drop takes one file off the list.
func (s *Sequence) drop(f *file) {
	s.swap.Lock()
	files := slices.DeleteFunc(slices.Clone(s.list()), func(g *file) bool { return g == f })
	s.files.Store(&files)
	s.swap.Unlock()
	f.release()
}

// Remove deletes all files, the last one first, and the directory unless strays lie in it, and closes the sequence. Views stay valid.
func (s *Sequence) Remove() error {
	if s.o.ReadOnly {
		return fmt.Errorf("remove %s: %w", s.o.Dir, ErrReadOnly)
	}
	if s.files.Load() == nil {
		return fmt.Errorf("remove %s: %w", s.o.Dir, ErrClosed)
	}
	files := s.list()
	if err := s.Close(); err != nil {
		return err
	}
	if err := s.clearLeft(); err != nil {
		return fmt.Errorf("remove what a crash left: %w", err)
	}
	for _, f := range slices.Backward(files) {
		if err := s.unlink(f.path); err != nil {
			return fmt.Errorf("remove file: %w", err)
		}
	}
	left, err := s.o.FS.ReadDir(s.o.Dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(left) > 0 {
		return nil
	}
	if err == nil {
		err = s.o.FS.RemoveDir(s.o.Dir)
	}
	if err == nil {
		err = s.o.FS.SyncDir(filepath.Dir(s.o.Dir))
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", s.o.Dir, err)
	}
	return nil
}

// Close stops the goroutine and unmaps what no View holds. It does not flush. A file that was made ahead and never used is removed.
func (s *Sequence) Close() error {
	var err error
	if s.pipe != nil && s.files.Load() != nil {
		err = s.setCurrent(nil)
		s.pipe.stop()
	}
	s.cutting.Lock()
	defer s.cutting.Unlock()
	s.flushing.Lock()
	defer s.flushing.Unlock()
	if s.files.Load() != nil && s.Err() == nil {
		err = errors.Join(err, s.WriteOut())
	}
	s.swap.Lock()
	l := s.files.Swap(nil)
	s.swap.Unlock()
	if l == nil {
		return fmt.Errorf("close %s: %w", s.o.Dir, ErrClosed)
	}
	s.cur = nil
	for _, f := range *l {
		f.release()
	}
	return err
}
