package mappedfile_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
)

// A blank that got into the file before its roll failed must not make the record that takes its place pass for written: it would be read as the blank, and never flushed.
func TestWhatReplacesUnpublishedBytesIsReadAndFlushed(t *testing.T) {
	for _, c := range []struct {
		name string
		look func(t *testing.T, s *mappedfile.Sequence, off int64) []byte
	}{
		{"View", func(t *testing.T, s *mappedfile.Sequence, off int64) []byte {
			v, err := s.View(off, 5)
			ok(t, err)
			defer v.Release()
			return bytes.Clone(v.Bytes)
		}},
		{"ViewRest", func(t *testing.T, s *mappedfile.Sequence, off int64) []byte {
			v, err := s.ViewRest(off)
			ok(t, err)
			defer v.Release()
			return bytes.Clone(v.Bytes)
		}},
		{"a power loss after Flush", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := faultfs.New()
			s, _ := staged(t, fsys)
			write(t, s, []byte("a"))
			_, off, err := s.Reserve(8)
			ok(t, err)
			ok(t, s.Write(off, []byte("BLANKBLK")))
			ok(t, s.WriteOut())
			write(t, s, []byte("small"))
			var got []byte
			if c.look != nil {
				got = c.look(t, s, off)
			} else {
				_, err := s.Flush()
				ok(t, err)
				b, err := fsys.Crash(rand.New(rand.NewPCG(1, 1))).ReadFile("/log/" + name(0))
				ok(t, err)
				got = b[off : off+5]
			}
			if string(got) != "small" {
				t.Errorf("%q, want %q", got, "small")
			}
		})
	}
}

// A write out that comes between Write and Publish has written what is published then.
func TestWhatWasWrittenOutBeforeItsPublishIsReadable(t *testing.T) {
	s, calls := staged(t, faultfs.New())
	_, off, err := s.Reserve(4)
	ok(t, err)
	ok(t, s.Write(off, []byte("data")))
	ok(t, s.WriteOut())
	s.Publish(off + 4)
	v, err := s.ViewRest(off)
	ok(t, err)
	if string(v.Bytes) != "data" {
		t.Errorf("%q", v.Bytes)
	}
	v.Release()
	if len(*calls) != 1 {
		t.Errorf("calls: %v, want 1", *calls)
	}
}

// Readers run beside a truncation: they find nothing, or what was there, and do not fail otherwise.
func TestReadersBesideATruncationOfStagedBytes(t *testing.T) {
	if raceEnabled {
		t.Skip("the race build checks views by copying them, which would race with the zeroing that is meant to run beside them")
	}
	s, _ := staged(t, faultfs.New())
	done, errs := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-done:
				errs <- nil
				return
			default:
			}
			v, err := s.ViewRest(1)
			if err != nil && !errors.Is(err, mappedfile.ErrNotFound) {
				errs <- err
				return
			}
			v.Release()
		}
	}()
	for range 3000 {
		write(t, s, []byte("0123456789"))
		ok(t, s.WriteOut())
		ok(t, s.TruncateTo(0, nil))
	}
	close(done)
	ok(t, <-errs)
}

// What is written through is readable in one piece as soon as it is published, also when somebody else wrote out in between.
func TestWhatIsWrittenThroughIsReadInOnePiece(t *testing.T) {
	s, _ := staged(t, faultfs.New())
	write(t, s, []byte("half a rec"))
	ok(t, s.WriteOut())
	_, off, err := s.Reserve(3)
	ok(t, err)
	ok(t, s.WriteThrough(off, []byte("ord")))
	ok(t, s.WriteOut())
	s.Publish(off + 3)
	v, err := s.ViewRest(0)
	ok(t, err)
	if string(v.Bytes) != "half a record" {
		t.Errorf("%q", v.Bytes)
	}
	v.Release()
}
