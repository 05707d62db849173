package consumequeue_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/consumequeue"
)

// metas makes one record after the other for n queues of topics with names of an ordinary length.
type feed struct {
	m    []record.Meta
	next int64
	i    int
}

func newFeed(queues int) *feed {
	f := &feed{m: make([]record.Meta, queues)}
	for i := range f.m {
		f.m[i] = record.Meta{Magic: record.MagicV1, Size: 300, Topic: fmt.Sprintf("order-service-topic-%05d", i/8), QueueID: int32(i % 8), TagsCode: 2598919, QueueOffset: -1}
	}
	return f
}

func (f *feed) meta() *record.Meta {
	m := &f.m[f.i]
	m.QueueOffset++
	m.PhyOffset = f.next
	f.next += int64(m.Size)
	if f.i++; f.i == len(f.m) {
		f.i = 0
	}
	return m
}

func BenchmarkDispatch(b *testing.B) {
	for _, queues := range []int{1, 8, 1000} {
		b.Run(fmt.Sprintf("queues=%d", queues), func(b *testing.B) {
			s := open(b, consumequeue.Options{Dir: b.TempDir()})
			f := newFeed(queues)
			for range queues {
				if err := s.Dispatch(f.meta()); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(consumequeue.UnitSize)
			b.ReportAllocs()
			for b.Loop() {
				if err := s.Dispatch(f.meta()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Munits/s")
		})
	}
}

func BenchmarkView(b *testing.B) {
	s := open(b, consumequeue.Options{Dir: b.TempDir()})
	f := newFeed(1)
	const n = 600000
	for range n {
		if err := s.Dispatch(f.meta()); err != nil {
			b.Fatal(err)
		}
	}
	q := s.Queue("order-service-topic-00000", 0)
	for _, batch := range []int64{1, 32, 300000} {
		b.Run(fmt.Sprintf("sequential/batch=%d", batch), func(b *testing.B) {
			b.SetBytes(consumequeue.UnitSize)
			b.ReportAllocs()
			var at, sum int64
			for i := int64(0); i < int64(b.N); {
				v, err := q.View(at)
				if err != nil {
					b.Fatal(err)
				}
				k := min(batch, int64(v.Len()), int64(b.N)-i)
				for j := range k {
					sum += v.At(int(j)).PhyOffset
				}
				v.Release()
				i += k
				at = (at + k) % n
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Munits/s")
		})
	}
}

// BenchmarkOpen opens many queues of one message each: time, memory, and what they take on disk.
func BenchmarkOpen(b *testing.B) {
	for _, queues := range []int{1000, 10000} {
		b.Run(fmt.Sprintf("queues=%d", queues), func(b *testing.B) {
			dir := b.TempDir()
			made := makeQueues(b, dir, queues)
			b.ReportAllocs()
			var rss, heap int64
			for b.Loop() {
				runtime.GC()
				r, h := residentBytes(b), heapBytes()
				s, err := consumequeue.Open(consumequeue.Options{Dir: dir, Clean: true})
				if err != nil {
					b.Fatal(err)
				}
				runtime.GC()
				rss, heap = residentBytes(b)-r, heapBytes()-h
				b.StopTimer()
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(rss)/1e6, "MB-resident")
			b.ReportMetric(float64(heap)/1e6, "MB-heap")
			b.ReportMetric(float64(diskBytes(b, dir))/1e6, "MB-disk")
			b.ReportMetric(made.Seconds(), "s-made")
		})
	}
}

// makeQueues leaves a directory with queues of one unit each.
func makeQueues(t testing.TB, dir string, queues int) time.Duration {
	t.Helper()
	start := time.Now()
	s, err := consumequeue.Open(consumequeue.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	f := newFeed(queues)
	for range queues {
		if err := s.Dispatch(f.meta()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return time.Since(start)
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

// diskBytes is what the files below dir occupy.
func diskBytes(t testing.TB, dir string) int64 {
	t.Helper()
	var n int64
	for _, e := range walkFiles(t, dir) {
		n += occupied(e)
	}
	return n
}
