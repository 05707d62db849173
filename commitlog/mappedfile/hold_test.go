package mappedfile_test

import (
	"errors"
	"math"
	"path/filepath"
	"testing"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
)

// A Hold gives what a View of the same range would, and nothing that a View would refuse, but for what came after it was taken.
func TestAHoldGivesWhatAViewWould(t *testing.T) {
	onEach(t, func(t *testing.T, fsys mappedfile.FS, root string) {
		s := open(t, mappedfile.SequenceOptions{FS: fsys, Dir: filepath.Join(root, "q")})
		for i := range 3 {
			mustPut(t, s, block(byte('a'+i), fileSize))
		}
		mustPut(t, s, block('d', 100))
		max := int64(3*fileSize + 100)
		offs := []int64{math.MinInt64, -1, 0, 1, fileSize - 1, fileSize, fileSize + 7, 2 * fileSize, max - 1, max, max + 1, 4 * fileSize, math.MaxInt64}
		lens := []int{math.MinInt, -1, 0, 1, 7, 100, 101, fileSize - 7, fileSize, fileSize + 1, math.MaxInt}
		for _, from := range []int64{0, fileSize + 3, max - 1} {
			h, err := s.Hold(from, 1)
			ok(t, err)
			for _, off := range offs {
				for _, n := range lens {
					b, held := h.Bytes(off, n)
					v, err := s.View(off, n)
					if want := err == nil && off/fileSize == from/fileSize; want && (!held || string(b) != string(v.Bytes)) {
						t.Errorf("hold of %d: %d bytes at %d: %v, %d bytes; a view has %d", from, n, off, held, len(b), len(v.Bytes))
					} else if !want && held && n != 0 {
						t.Errorf("hold of %d gives %d bytes at %d: a view: %v", from, n, off, err)
					}
					v.Release()
				}
			}
			h.Release()
		}
		for _, c := range []struct {
			off int64
			n   int
		}{{-1, 1}, {0, -1}, {fileSize - 1, 2}, {max - 1, 2}, {max, 1}, {4 * fileSize, 1}, {math.MaxInt64, math.MaxInt}} {
			if h, err := s.Hold(c.off, c.n); !errors.Is(err, mappedfile.ErrNotFound) {
				t.Errorf("hold of %d bytes at %d: %v", c.n, c.off, err)
				h.Release()
			}
		}
		var none mappedfile.Hold
		if b, held := none.Bytes(0, 1); held {
			t.Errorf("no hold gives %q", b)
		}
		none.Release()
	})
}

// What a Hold gave is valid until Release: also after the file was deleted and the sequence closed.
func TestAHoldOutlivesItsFileAndTheSequence(t *testing.T) {
	onEach(t, func(t *testing.T, fsys mappedfile.FS, root string) {
		s := open(t, mappedfile.SequenceOptions{FS: fsys, Dir: filepath.Join(root, "q")})
		mustPut(t, s, block('a', fileSize))
		mustPut(t, s, block('b', fileSize))
		h, err := s.Hold(3, 10)
		ok(t, err)
		early, _ := h.Bytes(3, 10)
		if n, err := s.DropHead(1); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		ok(t, s.Close())
		late, held := h.Bytes(fileSize-5, 5)
		if string(early) != "aaaaaaaaaa" || string(late) != "aaaaa" || !held {
			t.Errorf("%q, %q", early, late)
		}
		h.Release()
		if _, err := s.Hold(fileSize, 1); !errors.Is(err, mappedfile.ErrClosed) {
			t.Error(err)
		}
	})
}

// A Hold of a staged sequence has the bytes that it was taken for, and of the others no more than the mapping has.
func TestAHoldShowsNothingThatIsStillStaged(t *testing.T) {
	s, _ := staged(t, faultfs.New())
	a := write(t, s, []byte("first"))
	h, err := s.Hold(a, 5)
	ok(t, err)
	defer h.Release()
	if b, held := h.Bytes(a, 5); !held || string(b) != "first" {
		t.Errorf("%q, %v", b, held)
	}
	b := write(t, s, []byte("second"))
	early, err := s.Hold(a, 5)
	ok(t, err)
	defer early.Release()
	for name, h := range map[string]*mappedfile.Hold{"taken before": &h, "taken for what lies before": &early} {
		if p, held := h.Bytes(b, 6); held {
			t.Errorf("a hold %s it gives %q", name, p)
		}
	}
	late, err := s.Hold(b, 6)
	ok(t, err)
	defer late.Release()
	if p, held := late.Bytes(b, 6); !held || string(p) != "second" {
		t.Errorf("%q, %v", p, held)
	}
}

func TestHoldIsReleasedOnce(t *testing.T) {
	s := open(t, mappedfile.SequenceOptions{FS: faultfs.New(), Dir: filepath.FromSlash("/q")})
	mustPut(t, s, block('a', 100))
	h, err := s.Hold(0, 100)
	ok(t, err)
	ok(t, s.Close())
	h.Release()
	defer func() {
		if recover() == nil {
			t.Error("a second Release went unnoticed")
		}
	}()
	h.Release()
}
