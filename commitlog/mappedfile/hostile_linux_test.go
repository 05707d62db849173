package mappedfile_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
)

// Whatever lies where a file is made before it takes its name is neither waited for nor written through.
func TestADurableFileGoesThroughNoPipeOrLink(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	ok(t, os.WriteFile(victim, []byte("mine"), 0o644))
	pipe, link, old := filepath.Join(dir, "pipe"), filepath.Join(dir, "link"), filepath.Join(dir, "old")
	ok(t, unix.Mkfifo(pipe+".tmp", 0o644))
	ok(t, os.Symlink(victim, link+".tmp"))
	ok(t, os.WriteFile(old+".tmp", []byte("longer than what comes"), 0o600))
	for _, path := range []string{pipe, link, old} {
		ok(t, mappedfile.OS().WriteFileDurable(path, []byte("new")))
		if b, err := os.ReadFile(path); err != nil || string(b) != "new" {
			t.Errorf("%s: %q, %v", path, b, err)
		}
		if fi, err := os.Lstat(path); err != nil || !fi.Mode().IsRegular() {
			t.Errorf("%s: %v, %v", path, fi, err)
		}
	}
	if b, err := os.ReadFile(victim); err != nil || string(b) != "mine" {
		t.Errorf("%q, %v", b, err)
	}
}
