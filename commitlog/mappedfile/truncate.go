package mappedfile

import "fmt"

const zeroChunk = 1 << 20

// TruncateTo makes end the new Max; Min <= end <= the end of the last file (ErrNotFound). keep (may be nil) is given what is cut, per file and without the zeros at its end, before anything is changed;
// its error ends TruncateTo with everything as it was. Durable when it returns: a crash never brings back what was cut.
//
// From the back to the front: later files are unlinked from the last one down, each durably, then the bytes from end on are zeroed and synced, so that a crash in between leaves a shorter
// tail and not a hole before whole records, except within the last chunk of 1 MiB. Whoever keeps a mark of what is durable lowers it before.
// Views of cut files stay valid. A failure is final, as of Flush.
func (s *Sequence) TruncateTo(end int64, keep func(off int64, b []byte) error) error {
	if s.o.ReadOnly {
		return fmt.Errorf("truncate %s: %w", s.o.Dir, ErrReadOnly)
	}
	s.cutting.Lock()
	defer s.cutting.Unlock()
	l := s.files.Load()
	if l == nil {
		return fmt.Errorf("truncate %s: %w", s.o.Dir, ErrClosed)
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("truncate %s: %w", s.o.Dir, err)
	}
	if err := s.WriteOut(); err != nil {
		return fmt.Errorf("truncate %s: %w", s.o.Dir, err)
	}
	files := *l
	if len(files) == 0 && end == s.max.Load() {
		return s.clearLeft()
	}
	if len(files) == 0 || end < files[0].start || end > files[len(files)-1].end {
		return fmt.Errorf("truncate %s to %d: outside its files: %w", s.o.Dir, end, ErrNotFound)
	}
	// What lies behind end, file by file, up to the last byte that is not zero.
	first := int((end - files[0].start) / s.o.FileSize)
	cut := make([]int64, len(files)) // in-file end of what is cut
	for i := first; i < len(files); i++ {
		f := files[i]
		pos := max(end-f.start, 0)
		cut[i] = pos + int64(lastNonZero(f.b[pos:DataEnd(f.m, pos)]))
		if cut[i] > pos && keep != nil {
			if err := keep(f.start+pos, f.b[pos:cut[i]]); err != nil {
				return fmt.Errorf("truncate %s to %d: keep what is cut of %s: %w", s.o.Dir, end, f.path, err)
			}
		}
	}
	s.flushing.Lock()
	defer s.flushing.Unlock()
	if err := s.setCurrent(nil); err != nil {
		return s.fail(fmt.Errorf("truncate %s to %d: %w", s.o.Dir, end, err))
	}
	s.unstage(end)
	s.flushed.Store(min(s.flushed.Load(), end))
	s.doubt.Store(min(s.doubt.Load(), end))
	if err := s.clearLeft(); err != nil {
		return s.fail(fmt.Errorf("truncate %s to %d: %w", s.o.Dir, end, err))
	}
	for i := len(files) - 1; i > first; i-- {
		if err := s.unlink(files[i].path); err != nil {
			return s.fail(fmt.Errorf("truncate %s to %d: %w", s.o.Dir, end, err))
		}
		s.drop(files[i])
	}
	if first == len(files) {
		return nil // end is the end of the last file
	}
	files[first].allocated.Store(0)
	if err := zero(files[first], end-files[first].start, cut[first]); err != nil {
		return s.fail(fmt.Errorf("truncate %s to %d: %w", s.o.Dir, end, err))
	}
	return nil
}

// zero clears [pos, end) of f, chunk by chunk from the back, durably, and syncs the rest of the file too: zeros that an earlier process left in the page cache count only on disk.
// Bytes that are zero already are not stored to: they may be in no block.
func zero(f *file, pos, end int64) error {
	synced := int64(len(f.b))
	for at := (end - 1) &^ (zeroChunk - 1); at > pos; at -= zeroChunk {
		clearNonZero(f.b[at:end])
		if err := f.m.Sync(at, synced-at); err != nil {
			return err
		}
		synced, end = at, at
	}
	clearNonZero(f.b[pos:max(end, pos)])
	return f.m.Sync(pos, synced-pos)
}

func clearNonZero(b []byte) {
	for len(b) > 0 {
		n := min(len(b), len(zeroPage))
		if p := b[:n]; lastNonZero(p) > 0 {
			clear(p)
		}
		b = b[n:]
	}
}
