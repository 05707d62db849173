package store_test

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/store"
)

// TestASyncedPutWritesLittle: large folios in the page cache can make the kernel write a megabyte for each synced put of a few bytes. Here it is about two blocks; the test fails above 64 KiB.
func TestASyncedPutWritesLittle(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(dir, store.Options{FlushMode: store.SyncFlush, SegmentSize: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m := message("T", 0, strings.Repeat("b", 256))
	each := make([]int64, effort.N(300, 1000))
	for i := range each {
		before := writtenToDevice(t, dir)
		put(t, s, m)
		each[i] = writtenToDevice(t, dir) - before
	}
	least := int64(math.MaxInt64) // others write to the device too: the lower quartile of the quietest twenty is ours
	for some := range slices.Chunk(each, 20) {
		slices.Sort(some)
		least = min(least, some[len(some)/4])
	}
	slices.Sort(each)
	t.Logf("bytes written to the device for a synced put of 256 bytes: lower quartile of the quietest twenty %d, of all %d, median %d", least, each[len(each)/4], each[len(each)/2])
	if least > 64<<10 {
		t.Errorf("a synced put of 256 bytes writes %d bytes to the device", least)
	}
}

// writtenToDevice is what was ever written to the block device under path. Without one there is nothing to be counted, and the test is left out.
func writtenToDevice(t testing.TB, path string) int64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/stat", unix.Major(st.Dev), unix.Minor(st.Dev)))
	if err != nil {
		t.Skipf("the temporary directory is on no block device, so there is no counter to read: %v", err)
	}
	var sectors int64
	if _, err := fmt.Sscan(strings.Fields(string(b))[6], &sectors); err != nil {
		t.Fatal(err)
	}
	return sectors * 512
}
