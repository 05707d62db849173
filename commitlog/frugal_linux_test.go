package commitlog

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/mqstore/mqstore/commitlog/record"
)

// fileMemory is how much of mapped files is resident in this process, in bytes (proc(5): RssFile and, for the tmpfs that a test may run on, RssShmem).
func fileMemory(t *testing.T) (n int64) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("this system does not say what is resident (/proc): ", err)
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) > 1 && (f[0] == "RssFile:" || f[0] == "RssShmem:") {
			kb, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			n += kb << 10
		}
	}
	return n
}

// A tool that goes through a log once, of whatever size, does not need memory of its size.
func TestAFrugalLogDoesNotStayInMemory(t *testing.T) {
	const total, segment, few = 192 << 20, 64 << 20, 48 << 20
	dir := t.TempDir()
	o := Options{Dir: dir, SegmentSize: segment, NoBackground: true, Frugal: true}
	before := fileMemory(t)
	check := func(what string) {
		t.Helper()
		if n := fileMemory(t) - before; n > few {
			t.Errorf("%s: %d MiB of files are in memory, of %d MiB", what, n>>20, total>>20)
		}
	}
	l, _, err := Open(o, Recovery{})
	if err != nil {
		t.Fatal(err)
	}
	m, c := benchMessage(64<<10), new(Counter)
	for l.MaxPhyOffset() < total {
		if _, err := l.Append(m, c); err != nil {
			t.Fatal(err)
		}
	}
	check("appended")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if l, _, err = Open(o, Recovery{FlushedTo: -1}); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	check("recovered, and made durable")
	cur := l.NewCursor(0)
	defer cur.Close()
	cur.VerifyCRC(true)
	var meta record.Meta
	for cur.Offset() < l.MaxPhyOffset() {
		if err := cur.Next(&meta, l.MaxPhyOffset()); err != nil {
			t.Fatal(err)
		}
	}
	check("read")
	if _, err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := l.WaitFlushed(context.Background(), l.MaxPhyOffset()); err != nil {
		t.Fatal(err)
	}
}
