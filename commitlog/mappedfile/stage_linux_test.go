package mappedfile_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
)

// opened lists which files below dir this process has open.
func opened(t *testing.T, dir string) (paths []string) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	ok(t, err)
	for _, fd := range fds {
		if p, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(p, dir) {
			paths = append(paths, filepath.Base(p))
		}
	}
	return paths
}

// A log of thousands of segments must not need thousands of descriptors.
func TestOnlyTheFileThatIsWrittenIsOpen(t *testing.T) {
	dir := t.TempDir()
	s, err := mappedfile.OpenSequence(mappedfile.SequenceOptions{Dir: dir, FileSize: fileSize, Staged: true})
	ok(t, err)
	for range 4 {
		write(t, s, bytes.Repeat([]byte{1}, fileSize))
		ok(t, s.Roll())
	}
	write(t, s, []byte("x"))
	ok(t, s.WriteOut())
	if got := opened(t, dir); len(got) != 1 || got[0] != name(4*fileSize) {
		t.Errorf("open: %v, want the last file alone", got)
	}
	ok(t, s.TruncateTo(5, nil)) // and back, into one that was left
	write(t, s, []byte("again"))
	if v, err := s.View(4, 6); err != nil || string(v.Bytes) != "\x01again" {
		t.Errorf("%v %q", err, v.Bytes)
	} else {
		v.Release()
	}
	ok(t, s.Close())
	if got := opened(t, dir); len(got) != 0 {
		t.Errorf("open after Close: %v", got)
	}
}

// That no descriptor is left for the file, or that its name was taken, must not end a log: its mapping can be written.
func TestAWriteNeedsNoDescriptor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	m, err := mappedfile.OS().Map(path, fileSize, mappedfile.MapCreate)
	ok(t, err)
	ok(t, os.Rename(path, path+".moved"))
	ok(t, m.Write(3, []byte("bytes")))
	ok(t, m.Sync(0, fileSize))
	ok(t, m.Close())
	b, err := os.ReadFile(path + ".moved")
	if err != nil || string(b[:9]) != "\x00\x00\x00bytes\x00" {
		t.Errorf("%v %q", err, b[:9])
	}
}
