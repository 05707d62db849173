package mappedfile_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
)

func init() {
	children["fill"] = childFill
	children["lock"] = childLock
}

func child(t *testing.T, part string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), childEnv+"="+part)
	return cmd
}

// smallDisk mounts a file system of so many bytes.
func smallDisk(t *testing.T, bytes int) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		t.Skipf("a small file system has to be mounted, which needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

func TestDiskFullIsAnErrorAtCreation(t *testing.T) {
	dir := smallDisk(t, 1<<20)
	fsys := mappedfile.OS()
	path := filepath.Join(dir, "f")
	_, err := fsys.Map(path, 8<<20, mappedfile.MapCreate)
	wantErr(t, "create", err, mappedfile.ErrDiskFull)
	wantErr(t, "create", err, unix.ENOSPC)
	if s := fmt.Sprint(err); !strings.Contains(s, path) || !strings.Contains(s, fmt.Sprint(8<<20)) {
		t.Errorf("the error does not say where and how much: %s", s)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("the file is still there")
	}
	m, err := fsys.Map(path, 8<<20, mappedfile.MapCreateSparse)
	ok(t, err)
	wantErr(t, "allocate", m.Allocate(0, 8<<20), mappedfile.ErrDiskFull)
	if err := m.Populate(0, 8<<20); err == nil {
		t.Error("populated more than the disk holds")
	}
	ok(t, m.Close())
	wantErr(t, "write file", fsys.WriteFileDurable(filepath.Join(dir, "g"), make([]byte, 2<<20)), mappedfile.ErrDiskFull)
	if infos, err := fsys.ReadDir(dir); err != nil || len(infos) != 1 {
		t.Errorf("left behind: %v, %v", infos, err)
	}
}

// childFill appends until the disk is full, with every option, also into a sparse file that lay there. No signal may end it.
func childFill(args []string) error {
	debug.SetPanicOnFault(false)
	for _, o := range []mappedfile.SequenceOptions{
		{FileSize: 256 << 10}, {FileSize: 256 << 10, Ahead: true, Lay: true}, {FileSize: 256 << 10, Ahead: true, Prewrite: true}, {FileSize: 6000, Sparse: true}, {FileSize: 8 << 20, Sparse: true, AllocWindow: 4096, Ahead: true},
	} {
		o.Dir = filepath.Join(args[0], "q")
		if o.FileSize == 8<<20 { // as the original leaves it
			if err := os.Mkdir(o.Dir, 0o755); err != nil {
				return err
			}
			name := filepath.Join(o.Dir, fmt.Sprintf("%020d", 0))
			if err := os.WriteFile(name, nil, 0o644); err != nil {
				return err
			}
			if err := os.Truncate(name, o.FileSize); err != nil {
				return err
			}
			o.Sparse = false // the whole rest has to be allocated first
		}
		s, err := mappedfile.OpenSequence(o)
		if err != nil {
			return err
		}
		n := 0
		for ; err == nil; n++ {
			_, err = put(s, block('x', 1000))
		}
		if !errors.Is(err, mappedfile.ErrDiskFull) {
			return fmt.Errorf("%+v: after %d puts: %w", o, n, err)
		}
		if _, err := s.Flush(); err != nil {
			return err
		}
		if v, err := s.ViewRest(0); err == nil {
			if v.Bytes[0] != 'x' {
				return fmt.Errorf("%+v: other bytes", o)
			}
			v.Release()
		} else if n > 1 {
			return err
		}
		if err := s.Remove(); err != nil {
			return err
		}
	}
	fmt.Println("alive")
	return nil
}

func TestDiskFullNeverKillsTheProcess(t *testing.T) {
	out, err := child(t, "fill", smallDisk(t, 1<<20)).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "alive" {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestAppendGoesOnAfterSpaceWasFreed(t *testing.T) {
	dir := smallDisk(t, 1<<20)
	s := open(t, mappedfile.SequenceOptions{Dir: filepath.Join(dir, "q"), FileSize: 256 << 10, Ahead: true})
	ballast := filepath.Join(dir, "ballast")
	ok(t, os.WriteFile(ballast, make([]byte, 400<<10), 0o644))
	var err error
	for err == nil {
		_, err = put(s, block('x', 1000))
	}
	wantErr(t, "put", err, mappedfile.ErrDiskFull)
	ok(t, os.Remove(ballast))
	mustPut(t, s, block('y', 1000))
	ok(t, s.Close())
}

// childLock tries to take the lock, says what came of it, and holds it until its input ends.
func childLock(args []string) error {
	l, err := mappedfile.OS().Lock(args[0])
	var le *mappedfile.LockedError
	switch {
	case errors.As(err, &le):
		fmt.Println("held by", le.PID)
		return nil
	case err != nil:
		return err
	}
	fmt.Println("locked")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return l.Close()
}

func TestLockExcludesOtherProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	fsys := mappedfile.OS()
	l, err := fsys.Lock(path)
	ok(t, err)
	// None of these may drop the lock, as closing a descriptor of the file would.
	if b, err := fsys.ReadFile(path); err != nil || string(b) != "lock" {
		t.Errorf("lock file: %q, %v", b, err)
	}
	if _, err := fsys.Map(path, 0, mappedfile.MapReadOnly); err == nil {
		t.Error("mapped the lock file")
	}
	if fsys.WriteFileDurable(path, nil) == nil {
		t.Error("replaced the lock file")
	}
	_, err = fsys.Lock(path)
	wantErr(t, "second lock", err, mappedfile.ErrLocked)
	out, err := child(t, "lock", path).CombinedOutput()
	if want := fmt.Sprintf("held by %d\n", os.Getpid()); err != nil || string(out) != want {
		t.Errorf("another process: %v\n%s", err, out)
	}
	ok(t, l.Close())

	cmd := child(t, "lock", path)
	in, err := cmd.StdinPipe()
	ok(t, err)
	stdout, err := cmd.StdoutPipe()
	ok(t, err)
	ok(t, cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || line != "locked\n" {
		t.Errorf("the child said %q, %v", line, err)
	}
	var le *mappedfile.LockedError
	if _, err := fsys.Lock(path); !errors.As(err, &le) || le.PID != cmd.Process.Pid || le.Path != path {
		t.Errorf("the child %d holds it, but: %v", cmd.Process.Pid, err)
	}
	ok(t, in.Close())
	ok(t, cmd.Wait())
	l, err = fsys.Lock(path)
	ok(t, err)
	ok(t, l.Close())
}

// The original takes its lock by fcntl on the first byte, through the same kernel interface as here.
func TestLockIsTheOriginalsLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	l, err := mappedfile.OS().Lock(path)
	ok(t, err)
	defer func() { ok(t, l.Close()) }()
	// Open-file-description locks conflict with POSIX locks also within a process, so that one serves as the other process.
	f, err := os.OpenFile("/proc/self/fd/"+fdOf(t, path), os.O_RDWR, 0)
	ok(t, err)
	for _, c := range []struct {
		start, n int64
		free     bool
	}{{0, 1, false}, {1, 0, true}} {
		lk := unix.Flock_t{Type: unix.F_WRLCK, Start: c.start, Len: c.n}
		err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lk)
		if (err == nil) != c.free {
			t.Errorf("lock of [%d, +%d): %v", c.start, c.n, err)
		}
	}
	ok(t, f.Close()) // this drops ours too, as POSIX says; the test is over
}

func fds(t *testing.T, under string) (n []string) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	ok(t, err)
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(to, under) {
			n = append(n, e.Name())
		}
	}
	return n
}

func fdOf(t *testing.T, path string) string {
	t.Helper()
	n := fds(t, path)
	if len(n) != 1 {
		t.Fatalf("%d descriptors of %s", len(n), path)
	}
	return n[0]
}

func mapped(t *testing.T, under string) (n int) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	ok(t, err)
	for line := range bytes.Lines(b) {
		if bytes.Contains(line, []byte(under)) {
			n++
		}
	}
	return n
}

func TestNothingLeaks(t *testing.T) {
	dir := t.TempDir()
	for _, o := range []mappedfile.SequenceOptions{{}, {Sparse: true}, {Ahead: true, Lay: true}, {Ahead: true, Prewrite: true}} {
		o.Dir, o.FileSize = filepath.Join(dir, "q"), 1<<16
		s := open(t, o)
		for range 20 {
			mustPut(t, s, block('x', 1<<15))
		}
		if n := len(fds(t, dir)); n != 0 && !o.Ahead { // the goroutine may be making a file
			t.Errorf("%d descriptors are open beside the mappings", n)
		}
		if n := mapped(t, dir); n < 10 {
			t.Errorf("%d mappings; the count itself does not work", n)
		}
		v, err := s.View(0, 1)
		ok(t, err)
		_, err = s.DropHead(3)
		ok(t, err)
		ok(t, s.TruncateTo(5<<16, nil))
		mustPut(t, s, block('x', 1<<15))
		ok(t, s.Close())
		if n := mapped(t, dir); n != 1 {
			t.Errorf("%d mappings while one view is held", n)
		}
		v.Release()
		if n, m := len(fds(t, dir)), mapped(t, dir); n != 0 || m != 0 {
			t.Errorf("%d descriptors and %d mappings are left", n, m)
		}
		s = open(t, o)
		ok(t, s.Remove())
		// A refused open leaves nothing either.
		ok(t, os.MkdirAll(o.Dir, 0o755))
		ok(t, os.WriteFile(filepath.Join(o.Dir, fmt.Sprintf("%020d", 0)), make([]byte, 1<<16), 0o644))
		ok(t, os.WriteFile(filepath.Join(o.Dir, fmt.Sprintf("%020d", 3<<16)), make([]byte, 1<<16), 0o644))
		_, err = mappedfile.OpenSequence(o)
		wantErr(t, "open", err, mappedfile.ErrCorrupt)
		if n, m := len(fds(t, dir)), mapped(t, dir); n != 0 || m != 0 {
			t.Errorf("a refused open leaves %d descriptors and %d mappings", n, m)
		}
		ok(t, os.RemoveAll(o.Dir))
	}
}

func blocks(t *testing.T, path string) int64 {
	t.Helper()
	var st unix.Stat_t
	ok(t, unix.Stat(path, &st))
	return st.Blocks * 512
}

func TestSparseQueueFilesStaySmall(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "q")
	s := open(t, mappedfile.SequenceOptions{Dir: dir, FileSize: 6_000_000, Sparse: true})
	for range 100 {
		mustPut(t, s, block('u', 20))
	}
	_, err := s.Flush()
	ok(t, err)
	path := s.Files()[0].Path
	if n := blocks(t, path); n == 0 || n > 80<<10 {
		t.Errorf("2,000 bytes take %d bytes of disk", n)
	}
	for range 10_000 {
		mustPut(t, s, block('u', 20))
	}
	if n := blocks(t, path); n < 202_000 || n > 400<<10 {
		t.Errorf("202,000 bytes take %d bytes of disk", n)
	}
}

func TestFileOfTheOriginalIsAllocatedBeforeItIsWritten(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, fmt.Sprintf("%020d", 0))
	ok(t, os.WriteFile(path, block('r', 10_000), 0o644))
	ok(t, os.Truncate(path, 1<<20))
	s := open(t, mappedfile.SequenceOptions{Dir: dir, FileSize: 1 << 20})
	ok(t, s.SetMax(10_000))
	if n := blocks(t, path); n > 16<<10 {
		t.Fatalf("no sparse files here: %d bytes", n)
	}
	_, _, err := s.Reserve(1)
	ok(t, err)
	if n := blocks(t, path); n < 1<<20 {
		t.Errorf("%d bytes are allocated", n)
	}
}

func TestTruncationLeavesHolesAlone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, fmt.Sprintf("%020d", 0))
	ok(t, os.WriteFile(path, block('r', 100_000), 0o644))
	ok(t, os.Truncate(path, 64<<20))
	s := open(t, mappedfile.SequenceOptions{Dir: dir, FileSize: 64 << 20})
	before := blocks(t, path)
	var kept int
	ok(t, s.TruncateTo(5000, func(_ int64, b []byte) error { kept = len(b); return nil }))
	if kept != 95_000 {
		t.Errorf("kept %d bytes", kept)
	}
	if after := blocks(t, path); after > before {
		t.Errorf("truncation took blocks: %d, were %d", after, before)
	}
}

func TestZerosAreWrittenWhereBlocksCannotBeAllocated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	f, err := os.Create(path)
	ok(t, err)
	defer func() { ok(t, f.Close()) }()
	const size = 1<<20 + 100
	_, err = f.WriteAt([]byte("data"), 500_000)
	ok(t, err)
	ok(t, f.Truncate(size))
	ok(t, mappedfile.FillHoles(f, 0, size))
	ok(t, f.Sync())
	b, err := os.ReadFile(path)
	ok(t, err)
	if n := blocks(t, path); len(b) != size || n < size || string(b[500_000:500_004]) != "data" {
		t.Errorf("%d bytes in %d bytes of disk", len(b), n)
	}
	ok(t, f.Truncate(0))
	ok(t, mappedfile.WriteZeros(f, 0, size))
	ok(t, f.Sync())
	if fi, err := f.Stat(); err != nil || fi.Size() != size || blocks(t, path) < size {
		t.Errorf("%v, %v, %d bytes of disk", fi.Size(), err, blocks(t, path))
	}
}

// ioBytes is what this process had the kernel write to devices: pages are counted when they are dirtied.
func ioBytes(t testing.TB) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Skipf("the kernel does not count I/O: %v", err)
	}
	for line := range strings.Lines(string(b)) {
		var n int64
		if _, err := fmt.Sscanf(line, "write_bytes: %d", &n); err == nil {
			return n
		}
	}
	t.Skip("the kernel does not count written bytes")
	return 0
}

// deviceBytes is what was written to the device that holds dir.
func deviceBytes(t testing.TB, dir string) int64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/stat", unix.Major(st.Dev), unix.Minor(st.Dev)))
	if err != nil {
		t.Skipf("no block device: %v", err)
	}
	var sectors int64
	if _, err := fmt.Sscan(strings.Fields(string(b))[6], &sectors); err != nil {
		t.Fatal(err)
	}
	return sectors * 512
}

// Also into a file that was copied here by large writes.
func TestSmallSyncsWriteLittle(t *testing.T) {
	for _, c := range []struct {
		name     string
		copied   bool
		prewrite bool
	}{{"new", false, true}, {"new,async", false, false}, {"copied", true, true}} {
		t.Run(c.name, func(t *testing.T) {
			const size = 32 << 20
			dir := filepath.Join(t.TempDir(), "q")
			if c.copied {
				ok(t, os.MkdirAll(dir, 0o755))
				f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%020d", 0)))
				ok(t, err)
				for range size >> 20 {
					_, err := f.Write(make([]byte, 1<<20))
					ok(t, err)
				}
				ok(t, f.Sync())
				ok(t, f.Close())
			}
			s := open(t, mappedfile.SequenceOptions{Dir: dir, FileSize: size, Ahead: true, Prewrite: c.prewrite})
			var each []int64
			for range 300 {
				mustPut(t, s, block('x', 256))
				before := deviceBytes(t, dir)
				_, err := s.Flush()
				ok(t, err)
				each = append(each, deviceBytes(t, dir)-before)
			}
			least := int64(math.MaxInt64) // others write to the device too: the lower quartile of the quietest twenty is ours
			for some := range slices.Chunk(each, 20) {
				slices.Sort(some)
				least = min(least, some[len(some)/4])
			}
			if least >= 64<<10 {
				t.Errorf("a sync of 256 bytes writes %d bytes", least)
			}
		})
	}
}

func TestAsynchronousModeWritesEachByteOnce(t *testing.T) {
	dir := t.TempDir()
	const total = 96 << 20
	before := ioBytes(t)
	s := open(t, mappedfile.SequenceOptions{Dir: filepath.Join(dir, "q"), FileSize: 32 << 20, Ahead: true, Lay: true})
	for range total / 1024 {
		mustPut(t, s, block('x', 1024))
		if s.Max()%(8<<20) == 0 {
			_, err := s.Flush()
			ok(t, err)
		}
	}
	_, err := s.Flush()
	ok(t, err)
	if n := ioBytes(t) - before; float64(n) > 1.2*total+16<<20 {
		t.Errorf("%d bytes written for %d stored", n, total)
	}
}
