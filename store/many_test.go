package store_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/store"
)

// manyQueues puts one message into each of n queues, eight to a topic, of a store with files of the production size, and closes it. It reports what took how long.
func manyQueues(t testing.TB, dir string, n int) {
	t.Helper()
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	took := func() time.Duration {
		d := time.Since(begin).Round(time.Millisecond)
		begin = time.Now()
		return d
	}
	for i := range n {
		put(t, s, message(fmt.Sprintf("order-service-topic-%05d", i/8), int32(i%8), "body"))
	}
	puts := took()
	settle(t, s, fmt.Sprintf("order-service-topic-%05d", (n-1)/8), int32((n-1)%8), 1)
	dispatch := took()
	if err := s.CheckpointStep(); err != nil {
		t.Fatal(err)
	}
	checkpoint := took()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d messages to as many new queues: put %v, dispatch %v, checkpoint %v, close %v", n, puts, dispatch, checkpoint, took())
}

// openMany opens what manyQueues left, and checks that all of it is there.
func openMany(t testing.TB, dir string, n int) *store.DefaultMessageStore {
	t.Helper()
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, n / 2, n - 1} {
		topic, id := fmt.Sprintf("order-service-topic-%05d", i/8), int32(i%8)
		if max := s.MaxOffset(topic, id); max != 1 {
			t.Errorf("%s-%d ends at %d", topic, id, max)
		}
	}
	return s
}

// TestTenThousandQueuesAreCheap: with one message each they open within 300 MiB of memory and take less than 1 GiB of disk. How long they take is reported, here and by BenchmarkOpenManyQueues.
func TestTenThousandQueuesAreCheap(t *testing.T) {
	n := effort.N(10000, 10000) // a race run makes do with fewer
	dir := t.TempDir()
	manyQueues(t, dir, n)
	disk := diskBytes(t, filepath.Join(dir, "consumequeue"))
	debug.FreeOSMemory() // garbage is resident, too
	rss, heap := residentBytes(t), heapBytes()
	begin := time.Now()
	s := openMany(t, dir, n)
	took := time.Since(begin)
	debug.FreeOSMemory()
	rss, heap = residentBytes(t)-rss, heapBytes()-heap
	t.Logf("%d queues open in %v, with %.1f MB of memory, %.1f MB of them heap; they take %.1f MB of disk", n, took.Round(time.Millisecond), float64(rss)/1e6, float64(heap)/1e6, float64(disk)/1e6)
	if most := int64(300<<20) * int64(n) / 10000; rss > most && effort.Current() != effort.Race || heap > most { // a race run has the detector's memory, too
		t.Errorf("%d bytes of memory, %d of them heap; at most %d", rss, heap, most)
	}
	if most := int64(1<<30) * int64(n) / 10000; disk > most {
		t.Errorf("%d bytes of disk, at most %d", disk, most)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func BenchmarkOpenManyQueues(b *testing.B) {
	const n = 10000
	dir := b.TempDir()
	manyQueues(b, dir, n)
	b.ReportAllocs()
	for b.Loop() {
		s := openMany(b, dir, n)
		b.StopTimer()
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

func heapBytes() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// residentBytes is this process's resident memory, as the kernel counts it; 0 where it does not say.
func residentBytes(t testing.TB) int64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		var kb int64
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kb); n == 1 {
			return kb << 10
		}
	}
	t.Fatal("no VmRSS")
	return 0
}

// diskBytes is what the files below dir occupy, directories included.
func diskBytes(t testing.TB, dir string) (n int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := e.Info()
		if err != nil {
			return err
		}
		n += occupied(fi)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestAQueueMadeSinceTheCheckpointMayVanish: recovery makes it again from the log, and finds whole what the checkpoint vouched for.
func TestAQueueMadeSinceTheCheckpointMayVanish(t *testing.T) {
	rebuilt := int64(0)
	for seed := range effort.Seeds(t, 30, 500) {
		f := faultfs.New()
		o := store.Options{FS: f, SegmentSize: 64 << 10, QueueFileSize: 200, FlushMode: store.SyncFlush, NoBackground: true, Index: store.IndexOptions{Off: true}}
		s, err := store.Open("/store", o)
		if err != nil {
			t.Fatal(err)
		}
		total := 0
		fill := func(queues int) {
			for i := range queues {
				for range 1 + i%25 { // some begin more than one file
					s.PutAsync(message(fmt.Sprint("T", i/3), int32(i%3), "body"))
					total++
				}
			}
			if _, err := s.FlushStep(); err != nil {
				t.Fatal(err)
			}
			if _, err := s.DispatchStep(1 << 20); err != nil {
				t.Fatal(err)
			}
		}
		fill(30)
		if err := s.CheckpointStep(); err != nil {
			t.Fatal(err)
		}
		known := total
		fill(60)
		f = f.Crash(rand.New(rand.NewPCG(seed, 5)))
		o.FS = f
		if s, err = store.Open("/store", o); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		r := s.Stats().Recovery
		if r.RebuiltUnits > int64(total-known) {
			t.Errorf("seed %d: %d units were made again, %d were dispatched since the checkpoint: %v", seed, r.RebuiltUnits, total-known, r.RebuiltQueues)
		}
		rebuilt += r.RebuiltUnits
		held := int64(0)
		for i := range 60 {
			held += s.MaxOffset(fmt.Sprint("T", i/3), int32(i%3))
		}
		if held != int64(total) {
			t.Errorf("seed %d: the queues hold %d messages of %d", seed, held, total)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if rebuilt == 0 {
		t.Error("no unit was ever lost: the crash is too kind")
	}
}
