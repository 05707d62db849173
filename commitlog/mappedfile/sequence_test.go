package mappedfile_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
)

const fileSize = 8192

func open(t *testing.T, o mappedfile.SequenceOptions) *mappedfile.Sequence {
	t.Helper()
	if o.FileSize == 0 {
		o.FileSize = fileSize
	}
	s, err := mappedfile.OpenSequence(o)
	ok(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, mappedfile.ErrClosed) {
			t.Error(err)
		}
	})
	return s
}

// put appends b, rolling when it does not fit.
func put(s *mappedfile.Sequence, b []byte) (off int64, err error) {
	for {
		dst, off, err := s.Reserve(len(b))
		if errors.Is(err, mappedfile.ErrEndOfFile) {
			if rest := s.Rest(); rest > 0 {
				dst, off, err := s.Reserve(int(rest))
				if err != nil {
					return 0, err
				}
				for i := range dst {
					dst[i] = 0xEE
				}
				s.Publish(off + rest)
			}
			if err := s.Roll(); err != nil {
				return 0, err
			}
			continue
		}
		if err != nil {
			return 0, err
		}
		copy(dst, b)
		s.Publish(off + int64(len(b)))
		return off, nil
	}
}

func mustPut(t *testing.T, s *mappedfile.Sequence, b []byte) int64 {
	t.Helper()
	off, err := put(s, b)
	ok(t, err)
	return off
}

func block(c byte, n int) []byte { return bytes.Repeat([]byte{c}, n) }

func TestReadersSeeWhatIsPublishedAndNothingElse(t *testing.T) {
	onEach(t, func(t *testing.T, fsys mappedfile.FS, root string) {
		for _, o := range []mappedfile.SequenceOptions{{}, {Sparse: true, AllocWindow: 100}, {Ahead: true, Lay: true}, {Ahead: true, Prewrite: true}, {Sparse: true, Ahead: true}} {
			o.FS, o.Dir = fsys, filepath.Join(root, fmt.Sprintf("s%v%v%v", o.Sparse, o.Ahead, o.Prewrite))
			s := open(t, o)
			if s.Min() != 0 || s.Max() != 0 || s.Rest() != 0 || len(s.Files()) != 0 {
				t.Fatal("a new sequence is not empty")
			}
			dst, off, err := s.Reserve(1000)
			ok(t, err)
			if off != 0 || len(dst) != 1000 || cap(dst) != 1000 {
				t.Fatalf("reserved %d bytes (%d) at %d", len(dst), cap(dst), off)
			}
			_, err = s.View(0, 1)
			wantErr(t, "view of unpublished bytes", err, mappedfile.ErrNotFound)
			if dst2, off2, err := s.Reserve(2000); err != nil || off2 != 0 || &dst2[0] != &dst[0] {
				t.Errorf("a second Reserve is at %d, %v", off2, err)
			}
			copy(dst, block('a', 1000))
			s.Publish(1000)
			v, err := s.View(0, 1000)
			ok(t, err)
			if !bytes.Equal(v.Bytes, block('a', 1000)) || v.Off != 0 {
				t.Error("other bytes than were put")
			}
			v.Release()
			mustPut(t, s, block('b', 4000))
			if got := s.Rest(); got != fileSize-5000 {
				t.Errorf("rest %d", got)
			}
			if _, _, err := s.Reserve(fileSize - 4999); !errors.Is(err, mappedfile.ErrEndOfFile) {
				t.Errorf("reserve more than the rest: %v", err)
			}
			if _, _, err := s.Reserve(fileSize + 1); err == nil || errors.Is(err, mappedfile.ErrEndOfFile) {
				t.Errorf("reserve more than a file: %v", err)
			}
			ok(t, s.Roll())
			if s.Max() != fileSize || s.Rest() != fileSize || len(s.Files()) != 2 {
				t.Errorf("after Roll: max %d, rest %d, files %v", s.Max(), s.Rest(), s.Files())
			}
			mustPut(t, s, block('c', fileSize))
			if s.Rest() != 0 {
				t.Errorf("a full file has rest %d", s.Rest())
			}
			for _, c := range []struct {
				off  int64
				n    int
				want error
			}{
				{fileSize, fileSize, nil}, {fileSize, fileSize + 1, mappedfile.ErrNotFound}, {fileSize - 1, 2, mappedfile.ErrNotFound}, {4999, 1, nil},
				{-1, 1, mappedfile.ErrNotFound}, {2 * fileSize, 0, mappedfile.ErrNotFound}, {0, -1, mappedfile.ErrNotFound}, {1<<63 - 1, 1, mappedfile.ErrNotFound}, {0, 0, nil},
			} {
				v, err := s.View(c.off, c.n)
				if !errors.Is(err, c.want) || err == nil && len(v.Bytes) != c.n {
					t.Errorf("view %d bytes at %d: %d bytes, %v", c.n, c.off, len(v.Bytes), err)
				}
				v.Release()
			}
			v, err = s.ViewRest(fileSize + 10)
			ok(t, err)
			if len(v.Bytes) != fileSize-10 {
				t.Errorf("the rest of a full file is %d bytes", len(v.Bytes))
			}
			v.Release()
			_, err = s.ViewRest(2 * fileSize)
			wantErr(t, "rest at max", err, mappedfile.ErrNotFound)
			v, err = s.ViewRaw(100)
			ok(t, err)
			if len(v.Bytes) != fileSize-100 {
				t.Errorf("raw view of %d bytes", len(v.Bytes))
			}
			v.Release()
			if s.Flushed() != 0 {
				t.Errorf("flushed %d before the first flush", s.Flushed())
			}
			flushed, err := s.Flush()
			ok(t, err)
			if flushed != 2*fileSize || s.Flushed() != flushed {
				t.Errorf("flushed %d", flushed)
			}
			ok(t, s.Close())
			_, err = s.View(0, 1)
			wantErr(t, "view after close", err, mappedfile.ErrClosed)
			_, _, err = s.Reserve(1)
			wantErr(t, "reserve after close", err, mappedfile.ErrClosed)
			_, err = s.Flush()
			wantErr(t, "flush after close", err, mappedfile.ErrClosed)
			wantErr(t, "close twice", s.Close(), mappedfile.ErrClosed)
			infos, err := fsys.ReadDir(o.Dir)
			ok(t, err)
			if len(infos) != 2 {
				t.Errorf("after close: %v", infos)
			}
		}
	})
}

// A crash can leave a file of a sequence that never held a byte.
func TestResetRemovesFilesThatHoldNothing(t *testing.T) {
	onEach(t, func(t *testing.T, fsys mappedfile.FS, root string) {
		o := mappedfile.SequenceOptions{FS: fsys, Dir: filepath.Join(root, "q"), Ahead: true}
		s := open(t, o)
		mustPut(t, s, block('a', 50))
		ok(t, s.TruncateTo(0, nil))
		ok(t, s.Reset(5*fileSize))
		if off := mustPut(t, s, block('b', 50)); off != 5*fileSize || s.Min() != 5*fileSize || len(s.Files()) != 1 {
			t.Errorf("first put at %d, min %d, files %v", off, s.Min(), s.Files())
		}
		ok(t, s.Close())
		s = open(t, o)
		if s.Min() != 5*fileSize || len(s.Files()) != 1 {
			t.Errorf("reopened: min %d, files %v", s.Min(), s.Files())
		}
		ok(t, s.Close())
	})
}

func TestReopenedSequenceGoesOnWhereItEnded(t *testing.T) {
	onEach(t, func(t *testing.T, fsys mappedfile.FS, root string) {
		o := mappedfile.SequenceOptions{FS: fsys, Dir: filepath.Join(root, "q"), Ahead: true}
		s := open(t, o)
		ok(t, s.Reset(5*fileSize+100))
		if off := mustPut(t, s, block('a', 50)); off != 5*fileSize+100 || s.Min() != 5*fileSize {
			t.Errorf("first put at %d, min %d", off, s.Min())
		}
		for range 5 {
			mustPut(t, s, block('b', 5000))
		}
		if s.Reset(0) == nil {
			t.Error("reset of a sequence with files")
		}
		end := s.Max()
		_, err := s.Flush()
		ok(t, err)
		ok(t, s.Close())

		s = open(t, o)
		if s.Min() != 5*fileSize || s.Max() != s.Min() || s.Flushed() != s.Min() {
			t.Errorf("reopened: min %d, max %d, flushed %d", s.Min(), s.Max(), s.Flushed())
		}
		if _, _, err := s.Reserve(1); err == nil {
			t.Error("appending in front of later files")
		}
		wantErr(t, "end beyond the files", s.SetMax(11*fileSize+1), mappedfile.ErrNotFound)
		wantErr(t, "end before the files", s.SetMax(0), mappedfile.ErrNotFound)
		ok(t, s.SetMax(end))
		if s.Max() != end || s.Flushed() != end {
			t.Errorf("max %d, flushed %d, want %d", s.Max(), s.Flushed(), end)
		}
		if off := mustPut(t, s, block('c', 10)); off != end {
			t.Errorf("put at %d, want %d", off, end)
		}
		s.SetFlushed(6 * fileSize)
		if s.Flushed() != 6*fileSize {
			t.Errorf("flushed %d after it was lowered", s.Flushed())
		}
		ok(t, s.Close())

		ro := o
		ro.ReadOnly = true
		s = open(t, ro)
		ok(t, s.SetMax(end+10))
		v, err := s.View(end, 10)
		ok(t, err)
		if !bytes.Equal(v.Bytes, block('c', 10)) {
			t.Error("read-only: other bytes")
		}
		v.Release()
		_, _, err = s.Reserve(1)
		wantErr(t, "reserve", err, mappedfile.ErrReadOnly)
		wantErr(t, "truncate", s.TruncateTo(end, nil), mappedfile.ErrReadOnly)
		wantErr(t, "overwrite", s.Overwrite(end, []byte{1}), mappedfile.ErrReadOnly)
		wantErr(t, "remove", s.Remove(), mappedfile.ErrReadOnly)
		_, err = s.DropHead(1)
		wantErr(t, "drop", err, mappedfile.ErrReadOnly)
	})
}

func TestOpenRefusesWhatIsNoSequenceAndNamesIt(t *testing.T) {
	dir := filepath.FromSlash("/q")
	full := make([]byte, fileSize)
	name := func(start int64) string { return fmt.Sprintf("%020d", start) }
	for _, c := range []struct {
		name string
		make map[string][]byte
		want error
		path string
	}{
		{"short file", map[string][]byte{name(0): full[:100], name(fileSize): full}, mappedfile.ErrWrongSize, name(0)},
		{"long file", map[string][]byte{name(0): make([]byte, fileSize+1)}, mappedfile.ErrWrongSize, name(0)},
		{"empty file in the middle", map[string][]byte{name(0): {}, name(fileSize): full}, mappedfile.ErrWrongSize, name(0)},
		{"hole", map[string][]byte{name(0): full, name(2 * fileSize): full}, mappedfile.ErrCorrupt, name(fileSize)},
		{"directory", map[string][]byte{name(0) + "/x": full}, mappedfile.ErrNotRegular, name(0)},
		{"start between files", map[string][]byte{name(100): full}, mappedfile.ErrMisplaced, name(100)},
		{"start beyond 63 bits", map[string][]byte{"99999999999999999999": full}, mappedfile.ErrMisplaced, "99999999999999999999"},
		{"end beyond 63 bits", map[string][]byte{name(1<<63 - fileSize): full}, mappedfile.ErrMisplaced, name(1<<63 - fileSize)},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := faultfs.New()
			for n, b := range c.make {
				fsys.Plant(filepath.Join(dir, n), b)
			}
			_, err := mappedfile.OpenSequence(mappedfile.SequenceOptions{FS: fsys, Dir: dir, FileSize: fileSize})
			wantErr(t, "open", err, c.want)
			if err != nil && !bytes.Contains([]byte(err.Error()), []byte(c.path)) {
				t.Errorf("the error does not name %s: %v", c.path, err)
			}
		})
	}
	t.Run("symlink", func(t *testing.T) {
		dir := t.TempDir()
		ok(t, os.WriteFile(filepath.Join(dir, "real"), full, 0o644))
		if err := os.Symlink("real", filepath.Join(dir, name(0))); err != nil {
			t.Skipf("no symbolic links here: %v", err)
		}
		_, err := mappedfile.OpenSequence(mappedfile.SequenceOptions{Dir: dir, FileSize: fileSize})
		wantErr(t, "open", err, mappedfile.ErrNotRegular)
	})
}

func TestStraysAreIgnoredAndReported(t *testing.T) {
	fsys, dir := faultfs.New(), filepath.FromSlash("/q")
	full := make([]byte, fileSize)
	for _, n := range []string{"00000000000000000000", "notes.txt", "000", "0000000000000000000x", ".DS_Store"} {
		fsys.Plant(filepath.Join(dir, n), full)
	}
	s := open(t, mappedfile.SequenceOptions{FS: fsys, Dir: dir})
	if got := s.Strays(); len(got) != 4 || len(s.Files()) != 1 {
		t.Errorf("strays %q, files %v", got, s.Files())
	}
	ok(t, s.Remove())
	if got := fsys.Paths(); len(got) != 4 {
		t.Errorf("after Remove: %q", got)
	}
}

func TestFileLeftEmptyByACrashIsRemoved(t *testing.T) {
	onEach(t, func(t *testing.T, fsys mappedfile.FS, root string) {
		dir := filepath.Join(root, "q")
		ok(t, fsys.MkdirAll(dir))
		ok(t, fsys.WriteFileDurable(filepath.Join(dir, "00000000000000000000"), make([]byte, fileSize)))
		ok(t, fsys.WriteFileDurable(filepath.Join(dir, "00000000000000008192"), nil))
		s := open(t, mappedfile.SequenceOptions{FS: fsys, Dir: dir, ReadOnly: true})
		if len(s.Files()) != 1 {
			t.Errorf("files %v", s.Files())
		}
		if infos, _ := fsys.ReadDir(dir); len(infos) != 2 {
			t.Errorf("opening read-only changed the directory: %v", infos)
		}
		ok(t, s.Close())
		s = open(t, mappedfile.SequenceOptions{FS: fsys, Dir: dir})
		if infos, _ := fsys.ReadDir(dir); len(infos) != 1 || len(s.Files()) != 1 {
			t.Errorf("left: %v", infos)
		}
		ok(t, s.Close())
	})
}

func TestDeletedFileStaysReadableForItsHolder(t *testing.T) {
	onEach(t, func(t *testing.T, fsys mappedfile.FS, root string) {
		dir := filepath.Join(root, "q")
		s := open(t, mappedfile.SequenceOptions{FS: fsys, Dir: dir})
		for _, c := range []byte("abcd") {
			mustPut(t, s, block(c, fileSize))
		}
		views := map[byte]mappedfile.View{}
		for i, c := range []byte("abcd") {
			v, err := s.View(int64(i)*fileSize, fileSize)
			ok(t, err)
			views[c] = v
		}
		n, err := s.DropHead(2)
		if n != 2 || err != nil || s.Min() != 2*fileSize {
			t.Errorf("dropped %d, %v; min %d", n, err, s.Min())
		}
		_, err = s.View(0, 1)
		wantErr(t, "view of a dropped file", err, mappedfile.ErrNotFound)
		if n, err := s.DropHead(9); n != 1 || err != nil {
			t.Errorf("dropped %d, %v: the last file has to stay", n, err)
		}
		if flushed, err := s.Flush(); err != nil || flushed != 4*fileSize {
			t.Errorf("flush behind dropped files: %d, %v", flushed, err)
		}
		ok(t, s.Remove())
		if _, err := fsys.ReadDir(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the directory is still there: %v", err)
		}
		for c, v := range views {
			if !bytes.Equal(v.Bytes, block(c, fileSize)) {
				t.Errorf("the view of %c changed", c)
			}
			v.Release()
		}
		mappedfile.View{}.Release()
	})
}

func TestDropHeadLeavesWhatTheWriterHasNotPassed(t *testing.T) {
	s := open(t, mappedfile.SequenceOptions{FS: faultfs.New(), Dir: filepath.FromSlash("/q")})
	for range 4 {
		mustPut(t, s, block('a', fileSize))
	}
	ok(t, s.SetMax(2*fileSize+1))
	if n, err := s.DropHead(4); n != 2 || err != nil || s.Min() != 2*fileSize {
		t.Errorf("dropped %d, %v; min %d", n, err, s.Min())
	}
}

func TestDropHeadRunsBesideReadersAndWriter(t *testing.T) {
	onEach(t, func(t *testing.T, fsys mappedfile.FS, root string) {
		s := open(t, mappedfile.SequenceOptions{FS: fsys, Dir: filepath.Join(root, "q"), Ahead: true})
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					off := s.Min()
					v, err := s.ViewRest(off)
					if errors.Is(err, mappedfile.ErrNotFound) {
						continue
					}
					if err != nil {
						t.Error(err)
						return
					}
					if c := v.Bytes[0]; c != byte(off/fileSize)+1 || v.Bytes[len(v.Bytes)-1] != c && v.Bytes[len(v.Bytes)-1] != 0xEE {
						t.Errorf("at %d: %d", off, c)
					}
					v.Release()
				}
			})
		}
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := s.DropHead(1); err != nil {
					t.Error(err)
				}
				if _, err := s.Flush(); err != nil {
					t.Error(err)
				}
			}
		})
		for i := range 100 {
			mustPut(t, s, block(byte(i)+1, fileSize-100))
		}
		close(stop)
		wg.Wait()
	})
}

func TestFailedSyncIsFinal(t *testing.T) {
	fsys := faultfs.New()
	s := open(t, mappedfile.SequenceOptions{FS: fsys, Dir: filepath.FromSlash("/q")})
	mustPut(t, s, block('a', 100))
	fsys.FailOnce(fsys.Ops()+1, nil)
	_, err := s.Flush()
	wantErr(t, "flush", err, faultfs.ErrInjected)
	_, again := s.Flush()
	if again != err || s.Err() != err || s.Flushed() != 0 {
		t.Errorf("the next flush: %v, flushed %d", again, s.Flushed())
	}
	if fsys.Ops() == 0 {
		t.Fatal("nothing was counted")
	}
	wantErr(t, "truncate", s.TruncateTo(0, nil), faultfs.ErrInjected)
}

func TestDiskFullAtRollChangesNothingAndCanBeRetried(t *testing.T) {
	for _, ahead := range []bool{false, true} {
		for _, sparse := range []bool{false, true} {
			fsys := faultfs.New()
			s := open(t, mappedfile.SequenceOptions{FS: fsys, Dir: filepath.FromSlash("/q"), Ahead: ahead, Sparse: sparse, AllocWindow: 4096})
			mustPut(t, s, block('a', fileSize/4))
			fsys.SetLimit(fsys.Used())
			var err error
			for range 3 {
				if _, err = put(s, block('b', fileSize/2+1)); err != nil {
					break
				}
			}
			wantErr(t, "put", err, mappedfile.ErrDiskFull)
			max := s.Max()
			for range 3 {
				if _, err := put(s, block('b', fileSize/2+1)); !errors.Is(err, mappedfile.ErrDiskFull) || s.Max() != max {
					t.Errorf("retry on a full disk: %v, max %d, was %d", err, s.Max(), max)
				}
			}
			v, err := s.View(0, fileSize/4)
			ok(t, err)
			if !bytes.Equal(v.Bytes, block('a', fileSize/4)) {
				t.Error("other bytes on a full disk")
			}
			v.Release()
			fsys.SetLimit(0)
			mustPut(t, s, block('b', fileSize/2+1))
			_, err = s.Flush()
			ok(t, err)
		}
	}
}

func TestOverwriteIsDurable(t *testing.T) {
	fsys, dir := faultfs.New(), filepath.FromSlash("/q")
	s := open(t, mappedfile.SequenceOptions{FS: fsys, Dir: dir, Sparse: true, AllocWindow: 1})
	mustPut(t, s, block('a', 100))
	ok(t, s.Overwrite(6000, []byte("xyz")))
	wantErr(t, "beyond the file", s.Overwrite(fileSize-1, []byte("xy")), mappedfile.ErrNotFound)
	ok(t, fsys.SyncDir(dir))
	b, err := fsys.Crash(seeded(t, 1)).ReadFile(filepath.Join(dir, "00000000000000000000"))
	ok(t, err)
	if string(b[6000:6003]) != "xyz" {
		t.Errorf("after a crash: %q", b[6000:6003])
	}
}

func TestViewIsReleasedOnce(t *testing.T) {
	s := open(t, mappedfile.SequenceOptions{FS: faultfs.New(), Dir: filepath.FromSlash("/q")})
	mustPut(t, s, block('a', 100))
	v, err := s.View(0, 100)
	ok(t, err)
	v.Release()
	defer func() {
		if recover() == nil {
			t.Error("a second release went unnoticed")
		}
	}()
	ok(t, s.Close())
	v.Release()
}
