//go:build invariants || race

package mappedfile_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
)

func TestReleasedViewReadsJunk(t *testing.T) {
	s := open(t, mappedfile.SequenceOptions{FS: faultfs.New(), Dir: filepath.FromSlash("/q")})
	mustPut(t, s, block('a', 100))
	v, err := s.View(0, 100)
	ok(t, err)
	v.Release()
	if bytes.Contains(v.Bytes, []byte("a")) {
		t.Error("a released view still reads as before")
	}
	v, err = s.View(0, 100)
	ok(t, err)
	if !bytes.Equal(v.Bytes, block('a', 100)) {
		t.Error("the file changed")
	}
	v.Release()
}

func TestWhatAReleasedHoldGaveReadsJunk(t *testing.T) {
	s := open(t, mappedfile.SequenceOptions{FS: faultfs.New(), Dir: filepath.FromSlash("/q")})
	mustPut(t, s, block('a', 100))
	h, err := s.Hold(0, 100)
	ok(t, err)
	p, _ := h.Bytes(10, 20)
	if !bytes.Equal(p, block('a', 20)) {
		t.Errorf("%q", p)
	}
	h.Release()
	if bytes.Contains(p, []byte("a")) {
		t.Error("bytes of a released hold still read as before")
	}
}
