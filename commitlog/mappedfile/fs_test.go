package mappedfile_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
)

func TestFileSystemsKeepTheContract(t *testing.T) { onEach(t, testFS) }

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got error %v, want %v", what, err, want)
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// testFS is the contract of mappedfile.FS.
func testFS(t *testing.T, fsys mappedfile.FS, root string) {
	const size = 10000 // no multiple of a page
	sub := func(name string, test func(t *testing.T, dir string)) {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(root, name, "deep")
			ok(t, fsys.MkdirAll(dir))
			ok(t, fsys.MkdirAll(dir))
			test(t, dir)
		})
	}
	for mode, name := range map[mappedfile.MapMode]string{mappedfile.MapCreate: "create", mappedfile.MapCreateSparse: "createsparse"} {
		sub(name, func(t *testing.T, dir string) {
			path := filepath.Join(dir, "f")
			m, err := fsys.Map(path, size, mode)
			ok(t, err)
			if len(m.Bytes()) != size || !bytes.Equal(m.Bytes(), make([]byte, size)) {
				t.Fatalf("a new file is not %d zeros", size)
			}
			ok(t, m.Allocate(4096, size-4096))
			copy(m.Bytes()[size-3:], "abc")
			ok(t, m.Populate(4096, size-4096))
			ok(t, m.Prewrite(0, size))
			ok(t, m.Sync(4096, size-4096))
			for a := range mappedfile.AdviceDontNeed + 1 {
				ok(t, m.Advise(a, 0, size))
			}
			if got := string(m.Bytes()[size-3:]); got != "abc" {
				t.Errorf("after advice: %q", got)
			}
			_, err = fsys.Map(path, size, mode)
			wantErr(t, "create twice", err, fs.ErrExist)
			for _, r := range [][2]int64{{-1, 1}, {0, size + 1}, {size, 1}, {0, -1}, {1, 1<<63 - 1}} {
				wantErr(t, "sync outside", m.Sync(r[0], r[1]), mappedfile.ErrNotFound)
				wantErr(t, "allocate outside", m.Allocate(r[0], r[1]), mappedfile.ErrNotFound)
				wantErr(t, "populate outside", m.Populate(r[0], r[1]), mappedfile.ErrNotFound)
			}
			ok(t, m.Sync(size, 0))
			ok(t, m.Close())
			wantErr(t, "sync closed", m.Sync(0, 1), mappedfile.ErrClosed)
			wantErr(t, "allocate closed", m.Allocate(0, 1), mappedfile.ErrClosed)
			wantErr(t, "close twice", m.Close(), mappedfile.ErrClosed)
			if m.Bytes() != nil {
				t.Error("a closed mapping still has bytes")
			}
			b, err := fsys.ReadFile(path)
			ok(t, err)
			if len(b) != size || string(b[size-3:]) != "abc" {
				t.Errorf("read back %d bytes ending in %q", len(b), b[len(b)-3:])
			}
		})
	}
	sub("existing", func(t *testing.T, dir string) {
		path := filepath.Join(dir, "f")
		want := bytes.Repeat([]byte("0123456789"), size/10)
		ok(t, fsys.WriteFileDurable(path, want))
		_, err := fsys.Map(path, size+1, mappedfile.MapExisting)
		wantErr(t, "other length", err, mappedfile.ErrWrongSize)
		_, err = fsys.Map(filepath.Join(dir, "g"), 0, mappedfile.MapExisting)
		wantErr(t, "missing", err, fs.ErrNotExist)
		_, err = fsys.Map(dir, 0, mappedfile.MapReadOnly)
		wantErr(t, "directory", err, mappedfile.ErrNotRegular)
		_, err = fsys.Map(filepath.Join(dir, "no", "g"), 1, mappedfile.MapCreate)
		wantErr(t, "missing directory", err, fs.ErrNotExist)
		ok(t, fsys.WriteFileDurable(filepath.Join(dir, "empty"), nil))
		_, err = fsys.Map(filepath.Join(dir, "empty"), 0, mappedfile.MapExisting)
		wantErr(t, "empty", err, mappedfile.ErrWrongSize)
		for _, mode := range []mappedfile.MapMode{mappedfile.MapExisting, mappedfile.MapReadOnly} {
			m, err := fsys.Map(path, 0, mode)
			ok(t, err)
			if !bytes.Equal(m.Bytes(), want) {
				t.Error("other bytes than were written")
			}
			ok(t, m.Allocate(0, 0))
			if mode == mappedfile.MapExisting {
				ok(t, m.Allocate(0, size))
				if !bytes.Equal(m.Bytes(), want) {
					t.Error("allocating changed bytes")
				}
			} else {
				wantErr(t, "allocate read-only", m.Allocate(0, 1), mappedfile.ErrReadOnly)
			}
			ok(t, m.Close())
		}
	})
	sub("writefile", func(t *testing.T, dir string) {
		path := filepath.Join(dir, "f")
		for _, s := range []string{"one", "", "three"} {
			ok(t, fsys.WriteFileDurable(path, []byte(s)))
			b, err := fsys.ReadFile(path)
			ok(t, err)
			if string(b) != s {
				t.Errorf("read %q, want %q", b, s)
			}
		}
		infos, err := fsys.ReadDir(dir)
		ok(t, err)
		if len(infos) != 1 {
			t.Errorf("left behind: %v", infos)
		}
		if err := fsys.WriteFileDurable(dir, nil); err == nil {
			t.Error("wrote over a directory")
		}
		wantErr(t, "missing directory", fsys.WriteFileDurable(filepath.Join(dir, "no", "f"), nil), fs.ErrNotExist)
		_, err = fsys.ReadFile(filepath.Join(dir, "g"))
		wantErr(t, "read missing", err, fs.ErrNotExist)
	})
	sub("directory", func(t *testing.T, dir string) {
		_, err := fsys.ReadDir(filepath.Join(dir, "no"))
		wantErr(t, "list missing", err, fs.ErrNotExist)
		_, err = fsys.Stat(filepath.Join(dir, "no"))
		wantErr(t, "stat missing", err, fs.ErrNotExist)
		wantErr(t, "remove missing", fsys.Remove(filepath.Join(dir, "no")), fs.ErrNotExist)
		wantErr(t, "sync missing", fsys.SyncDir(filepath.Join(dir, "no")), fs.ErrNotExist)
		ok(t, fsys.MkdirAll(filepath.Join(dir, "b", "c")))
		ok(t, fsys.WriteFileDurable(filepath.Join(dir, "c"), []byte("cc")))
		ok(t, fsys.WriteFileDurable(filepath.Join(dir, "a"), []byte("a")))
		if fsys.MkdirAll(filepath.Join(dir, "a", "x")) == nil {
			t.Error("made a directory below a file")
		}
		infos, err := fsys.ReadDir(dir)
		ok(t, err)
		type entry struct {
			Name       string
			Dir, File  bool
			SizeIfFile int64
		}
		var got []entry
		for _, i := range infos {
			e := entry{i.Name, i.IsDir, i.Regular, 0}
			if i.Regular {
				e.SizeIfFile = i.Size
			}
			got = append(got, e)
			st, err := fsys.Stat(filepath.Join(dir, i.Name))
			ok(t, err)
			if st.Name != i.Name || st.IsDir != i.IsDir || st.Regular != i.Regular {
				t.Errorf("stat says %+v, the listing %+v", st, i)
			}
		}
		if d := cmp.Diff([]entry{{"a", false, true, 1}, {"b", true, false, 0}, {"c", false, true, 2}}, got); d != "" {
			t.Error(d)
		}
		if fsys.RemoveDir(filepath.Join(dir, "b")) == nil {
			t.Error("removed a directory that is not empty")
		}
		if fsys.Remove(filepath.Join(dir, "b", "c")) == nil || fsys.RemoveDir(filepath.Join(dir, "a")) == nil {
			t.Error("Remove took a directory, or RemoveDir a file")
		}
		ok(t, fsys.RemoveDir(filepath.Join(dir, "b", "c")))
		ok(t, fsys.RemoveDir(filepath.Join(dir, "b")))
		ok(t, fsys.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "c")))
		ok(t, fsys.SyncDir(dir))
		b, err := fsys.ReadFile(filepath.Join(dir, "c"))
		ok(t, err)
		if string(b) != "a" {
			t.Errorf("renamed file holds %q", b)
		}
		wantErr(t, "rename missing", fsys.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "z")), fs.ErrNotExist)
		ok(t, fsys.MkdirAll(filepath.Join(dir, "d")))
		ok(t, fsys.WriteFileDurable(filepath.Join(dir, "d", "f"), []byte("f")))
		ok(t, fsys.Rename(filepath.Join(dir, "d"), filepath.Join(dir, "e")))
		if b, err := fsys.ReadFile(filepath.Join(dir, "e", "f")); err != nil || string(b) != "f" {
			t.Errorf("in a renamed directory: %q, %v", b, err)
		}
	})
	sub("removed", func(t *testing.T, dir string) {
		path := filepath.Join(dir, "f")
		m, err := fsys.Map(path, size, mappedfile.MapCreate)
		ok(t, err)
		copy(m.Bytes(), "still here")
		ok(t, fsys.Remove(path))
		ok(t, fsys.SyncDir(dir))
		ok(t, m.Sync(0, 10))
		if got := string(m.Bytes()[:10]); got != "still here" {
			t.Errorf("a removed file that is mapped holds %q", got)
		}
		ok(t, m.Close())
	})
	sub("lock", func(t *testing.T, dir string) {
		path := filepath.Join(dir, "lock")
		l, err := fsys.Lock(path)
		ok(t, err)
		_, err = fsys.Lock(filepath.Join(dir, ".", "lock"))
		wantErr(t, "second lock", err, mappedfile.ErrLocked)
		var le *mappedfile.LockedError
		if !errors.As(err, &le) || le.PID != os.Getpid() {
			t.Errorf("the second lock says %v, want this process %d", err, os.Getpid())
		}
		b, err := fsys.ReadFile(path)
		ok(t, err)
		if string(b) != "lock" {
			t.Errorf("the lock file holds %q", b)
		}
		_, err = fsys.Lock(path)
		wantErr(t, "lock after reading the file", err, mappedfile.ErrLocked)
		ok(t, l.Close())
		if l.Close() == nil {
			t.Error("unlocked twice")
		}
		l, err = fsys.Lock(path)
		ok(t, err)
		ok(t, l.Close())
	})
	sub("free", func(t *testing.T, dir string) {
		free, total, err := fsys.Free(dir)
		ok(t, err)
		if free < 0 || total <= 0 || free > total {
			t.Errorf("%d bytes free of %d", free, total)
		}
	})
}
