package mappedfile

import "fmt"

// View is bytes of one file and a hold on it: valid until Release, also after the file was deleted or the sequence closed. The zero View is released already.
// Bytes are read only, and are not to be touched after Release: in builds with the tag invariants or race they are then overwritten with junk where the view is small.
// Bytes cut off by TruncateTo read as zeros, or as what was appended there since.
type View struct {
	Bytes []byte
	Off   int64 // of Bytes[0] in the stream
	f     *file
	viewCheck
}

// Release gives the hold up. Each View that was handed out is released exactly once.
func (v View) Release() {
	if v.f == nil {
		return
	}
	v.checkReleased()
	v.f.release()
}

// hold finds the file of off and takes a reference.
func (s *Sequence) hold(off int64) (*file, error) {
	l := s.files.Load()
	if l == nil {
		return nil, ErrClosed
	}
	f := find(*l, off)
	if f == nil || !f.acquire() {
		return nil, ErrNotFound
	}
	return f, nil
}

// View returns exactly the n bytes from off on: all below Max and in one file, else ErrNotFound.
func (s *Sequence) View(off int64, n int) (View, error) {
	f, err := s.hold(off)
	if err != nil {
		return View{}, fmt.Errorf("%d bytes at %d: %w", n, off, err)
	}
	if n < 0 || int64(n) > min(s.max.Load(), f.end)-off {
		f.release()
		return View{}, fmt.Errorf("%d bytes at %d: %w", n, off, ErrNotFound)
	}
	if err := s.readable(off + int64(n)); err != nil {
		f.release()
		return View{}, fmt.Errorf("%d bytes at %d: %w", n, off, err)
	}
	pos := off - f.start
	return newView(f, f.b[pos:pos+int64(n):pos+int64(n)], off), nil
}

// ViewRest returns the bytes from off to the readable end of its file; ErrNotFound outside [Min, Max). Of a staged sequence it may end earlier, at what Write was given later than the byte at off.
func (s *Sequence) ViewRest(off int64) (View, error) {
	f, err := s.hold(off)
	if err != nil {
		return View{}, fmt.Errorf("bytes at %d: %w", off, err)
	}
	end := min(s.max.Load(), f.end)
	if off >= end {
		f.release()
		return View{}, fmt.Errorf("bytes at %d: %w", off, ErrNotFound)
	}
	if s.o.Staged {
		if err := s.readable(off + 1); err != nil {
			f.release()
			return View{}, fmt.Errorf("bytes at %d: %w", off, err)
		}
		if end = min(end, s.written.Load()); off >= end { // what is staged behind it can wait; that it is gone is TruncateTo's, meanwhile
			f.release()
			return View{}, fmt.Errorf("bytes at %d: %w", off, ErrNotFound)
		}
	}
	return newView(f, f.b[off-f.start:end-f.start:end-f.start], off), nil
}

// ViewRaw returns the bytes from off to the end of its file whatever Max says: for recovery.
func (s *Sequence) ViewRaw(off int64) (View, error) {
	f, err := s.hold(off)
	if err != nil {
		return View{}, fmt.Errorf("bytes at %d: %w", off, err)
	}
	return newView(f, f.b[off-f.start:], off), nil
}
