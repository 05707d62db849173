package mappedfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
)

// One byte that the device has otherwise is found wherever it lies in the range, and nothing else is: here the device is that of another file.
func TestRenewComparesEachByteWithTheDevice(t *testing.T) {
	const size = 5*4096 + 700
	mine, theirs := filepath.Join(t.TempDir(), "mine"), filepath.Join(t.TempDir(), "theirs")
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i % 251)
	}
	ok(t, os.WriteFile(mine, b, 0o600))
	m, err := mappedfile.OS().Map(mine, 0, mappedfile.MapExisting)
	ok(t, err)
	defer m.Close()
	holds := func(off, n int64) bool {
		t.Helper()
		other, err := mappedfile.OS().Map(theirs, 0, mappedfile.MapExisting)
		ok(t, err)
		defer other.Close()
		ok(t, other.Sync(0, int64(len(other.Bytes()))))
		held, err := mappedfile.OnDevice(other, off, m.Bytes()[off:off+n])
		if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, unix.EINVAL) {
			t.Skip("this file system has no reads past the page cache, where Renew writes everything again: ", err)
		}
		ok(t, err)
		return held
	}
	ok(t, os.WriteFile(theirs, b, 0o600))
	for _, r := range [][2]int64{{0, size}, {0, 1}, {1, 4096}, {4096, 4096}, {size - 700, 700}, {5000, size - 5000}} {
		if !holds(r[0], r[1]) {
			t.Errorf("%v is on the device", r)
		}
	}
	const from, to = 3000, size - 100
	for _, at := range []int64{0, from - 1, from, from + 1, 4095, 4096, 12345, to - 1, to, size - 1} {
		b[at] ^= 1
		ok(t, os.WriteFile(theirs, b, 0o600))
		b[at] ^= 1
		if inside := at >= from && at < to; holds(from, to-from) == inside {
			t.Errorf("byte %d differs: range [%d, %d)", at, from, to)
		}
	}
	ok(t, os.WriteFile(theirs, b[:to-1], 0o600))
	if holds(from, to-from) {
		t.Error("a file that is too short has it")
	}
}

// What is written again is dirty in every page, though no byte changes.
func TestRewriteMakesEveryPageDirty(t *testing.T) {
	const pages = 40
	page := int64(os.Getpagesize())
	path := filepath.Join(t.TempDir(), "file")
	m, err := mappedfile.OS().Map(path, pages*page-1, mappedfile.MapCreate)
	ok(t, err)
	defer m.Close()
	f, err := os.Open(path)
	ok(t, err)
	defer f.Close()
	dirty := func() int {
		var st unix.Cachestat_t
		err := unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{Off: 0, Len: 0}, &st, 0)
		if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPERM) {
			t.Skip("this kernel does not say which pages are dirty (cachestat, Linux 6.5): ", err)
		}
		ok(t, err)
		return int(st.Dirty + st.Writeback)
	}
	ok(t, m.Sync(0, pages*page-1))
	if n := dirty(); n != 0 {
		t.Skip("on this file system pages are dirty after a sync: ", n)
	}
	mappedfile.Touch(m, 3*page+5, 30*page)
	if n := dirty(); n < 30 {
		t.Errorf("%d pages are dirty", n)
	}
}
