package mappedfile

import "fmt"

// SetFlushed lowers Flushed, so that the next Flush syncs from off. Raising it is not possible.
func (s *Sequence) SetFlushed(off int64) {
	s.flushing.Lock()
	defer s.flushing.Unlock()
	s.flushed.Store(min(s.flushed.Load(), max(off, s.Min())))
}

// Doubt says that what lies in [off, Max) came from an earlier process, whose syncs may have failed: Flushed is off at most, and the Flush that covers it makes sure that the device has
// what readers see (Mapping.Renew). For recovery, after SetMax.
func (s *Sequence) Doubt(off int64) {
	s.flushing.Lock()
	defer s.flushing.Unlock()
	s.flushed.Store(min(s.flushed.Load(), max(off, s.Min())))
	s.doubt.Store(s.max.Load())
}

// Flush syncs [Flushed, Max), over as many files as that takes, and returns the new Flushed. It runs beside the writer.
// A failed sync is final: the kernel may have dropped the pages, so every later Flush returns the same error.
func (s *Sequence) Flush() (flushed int64, err error) {
	s.flushing.Lock()
	defer s.flushing.Unlock()
	if err := s.Err(); err != nil {
		return s.flushed.Load(), err
	}
	if s.files.Load() == nil {
		return s.flushed.Load(), fmt.Errorf("flush %s: %w", s.o.Dir, ErrClosed)
	}
	to := s.max.Load() // before the list: every file below it is there, or was dropped
	if err := s.readable(to); err != nil {
		return s.flushed.Load(), err
	}
	from := s.flushed.Load()
	for _, f := range s.list() {
		if f.end <= from || f.start >= to || from >= to {
			continue
		}
		if !f.acquire() {
			continue // dropped meanwhile
		}
		a, b := max(from, f.start), min(to, f.end)
		err := s.sync(f, a, b)
		f.release()
		if err != nil {
			return s.flushed.Load(), s.fail(fmt.Errorf("flush %s: %w", s.o.Dir, err))
		}
		s.flushed.Store(b)
	}
	if s.flushed.Load() < to {
		s.flushed.Store(to) // the rest was dropped from the head
	}
	if err := s.Err(); err != nil { // the pipeline's sync failed beside ours, and may have taken the report of our pages
		return from, err
	}
	return to, nil
}

// sync makes [from, to) of f durable.
func (s *Sequence) sync(f *file, from, to int64) error {
	if known := min(s.doubt.Load(), to); from < known {
		if err := f.m.Renew(from-f.start, known-from); err != nil {
			return err
		}
		from = known
	}
	if from == to {
		return nil
	}
	return f.m.Sync(from-f.start, to-from)
}

// Overwrite replaces bytes of one existing file, whatever Max says, and syncs them: recovery only.
func (s *Sequence) Overwrite(off int64, b []byte) error {
	if s.o.ReadOnly {
		return fmt.Errorf("overwrite %s at %d: %w", s.o.Dir, off, ErrReadOnly)
	}
	f := find(s.list(), off)
	if f == nil || int64(len(b)) > f.end-off {
		return fmt.Errorf("overwrite %s at %d, %d bytes: %w", s.o.Dir, off, len(b), ErrNotFound)
	}
	pos, n := off-f.start, int64(len(b))
	if err := f.m.Allocate(pos, n); err != nil {
		return fmt.Errorf("overwrite %s at %d: %w", s.o.Dir, off, err)
	}
	copy(f.b[pos:], b)
	if m, ok := f.m.(interface{ Stored(off, n int64) }); ok {
		m.Stored(pos, n) // a kernel sees by itself that a page was stored to, also with the bytes that it had
	}
	if err := f.m.Sync(pos, n); err != nil {
		return s.fail(fmt.Errorf("overwrite %s at %d: %w", s.o.Dir, off, err))
	}
	return nil
}
