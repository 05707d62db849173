package consumequeue_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/consumequeue"
)

// TestReport20ManyQueuesAreCheap (apache/rocketmq#472, #1258, #5091): ten thousand queues of one message each, with files of the production size, open within bounds of memory, and each takes a small window of disk. How fast is BenchmarkOpen.
func TestReport20ManyQueuesAreCheap(t *testing.T) {
	queues := effort.N(10000, 20000)
	dir := filepath.Join(t.TempDir(), "consumequeue")
	const size = 300000 * consumequeue.UnitSize
	f := newFeed(queues)
	b := make([]byte, consumequeue.UnitSize)
	for range queues { // as files that were there, without a sync for each
		m := f.meta()
		d := filepath.Join(dir, m.Topic, fmt.Sprint(m.QueueID))
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		p := filepath.Join(d, fmt.Sprintf("%020d", 0))
		consumequeue.PutUnit(b, unit{PhyOffset: m.PhyOffset, Size: int32(m.Size), TagsCode: m.TagsCode})
		if err := os.WriteFile(p, b, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(p, size); err != nil {
			t.Fatal(err)
		}
	}
	debug.FreeOSMemory() // garbage is resident, too
	rss, heap := residentBytes(t), heapBytes()
	s := open(t, consumequeue.Options{Dir: dir, Clean: true})
	debug.FreeOSMemory()
	rss, heap = (residentBytes(t)-rss)/int64(queues), (heapBytes()-heap)/int64(queues)
	if n := len(s.Snapshot()); n != queues {
		t.Fatalf("%d queues, want %d", n, queues)
	}
	if s.MaxPhyOffset() != f.next {
		t.Errorf("the set ends at %d, want %d", s.MaxPhyOffset(), f.next)
	}
	const most = 300 << 20 / 10000
	if rss > most && effort.Current() != effort.Race || heap > most { // a race run has the detector's memory, too
		t.Errorf("a queue takes %d bytes of memory, %d of them heap; at most %d", rss, heap, most)
	}
	// A part is enough to see what a unit more costs on disk, blocks ahead included.
	for range 200 {
		if err := s.Dispatch(f.meta()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if perQueue := diskBytes(t, filepath.Join(dir, "order-service-topic-00000")) / 8; perQueue > 1<<30/10000 {
		t.Errorf("a queue takes %d bytes of disk; at most %d", perQueue, 1<<30/10000)
	} else {
		t.Logf("a queue takes %d bytes of memory, %d of them heap, and %d of disk", rss, heap, perQueue)
	}
}
