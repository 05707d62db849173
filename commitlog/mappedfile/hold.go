package mappedfile

import "fmt"

// Hold is a hold on one file and on those of its bytes that were readable when it was taken: any number of records for the price of one View. What Bytes returned is valid until Release, also after the file was deleted or the
// sequence closed, and is otherwise as the bytes of a View. The zero Hold has no bytes and is released already.
type Hold struct {
	b     []byte // of the file, from its start to its readable end
	start int64  // of b in the stream
	f     *file
	holdCheck
}

// Hold takes hold of the file of the n bytes from off on: all below Max and in one file, else ErrNotFound. Bytes has at least these; the rest of a file up to Max, if the sequence is not staged.
func (s *Sequence) Hold(off int64, n int) (Hold, error) {
	f, err := s.hold(off)
	if err != nil {
		return Hold{}, fmt.Errorf("%d bytes at %d: %w", n, off, err)
	}
	end := min(s.max.Load(), f.end)
	if n < 0 || int64(n) > end-off {
		f.release()
		return Hold{}, fmt.Errorf("%d bytes at %d: %w", n, off, ErrNotFound)
	}
	if s.o.Staged {
		if err := s.readable(off + int64(n)); err != nil {
			f.release()
			return Hold{}, fmt.Errorf("%d bytes at %d: %w", n, off, err)
		}
		if end = min(end, s.written.Load()); int64(n) > end-off { // TruncateTo came between
			f.release()
			return Hold{}, fmt.Errorf("%d bytes at %d: %w", n, off, ErrNotFound)
		}
	}
	return Hold{b: f.b[:end-f.start], start: f.start, f: f, holdCheck: newHoldCheck()}, nil
}

// Bytes are the n bytes from off of the stream on; false if they are not all among those that are held.
func (h *Hold) Bytes(off int64, n int) ([]byte, bool) {
	pos := uint64(off - h.start)
	if end := pos + uint64(n); pos <= end && end <= uint64(len(h.b)) {
		return h.checkBytes(h.b[pos:end:end]), true
	}
	return nil, false
}

// Release gives the hold up. Each Hold that was handed out is released exactly once.
func (h *Hold) Release() {
	if h.f == nil {
		return
	}
	h.checkReleased()
	h.f.release()
}
