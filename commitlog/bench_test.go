package commitlog

import (
	"context"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/record"
)

const benchSegment = 1 << 30

func benchMessage(size int) *record.Message {
	body := make([]byte, size)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range body {
		body[i] = byte(r.Uint32())
	}
	host := record.HostFrom(netip.MustParseAddrPort("10.0.0.1:10911"))
	return &record.Message{Topic: "TopicBenchmark", QueueID: 3, BornTimestamp: 1700000000000, BornHost: host, StoreHost: host, Body: body,
		Properties: record.NewProperties(record.PropertyTags, "TagA", record.PropertyUniqKey, "7F0000010000000000000000000000AB")}
}

func benchDir(b *testing.B) string {
	b.Helper()
	return filepath.Join(b.TempDir(), "commitlog")
}

func openBench(b *testing.B, dir string, o Options) *Log {
	b.Helper()
	o.Dir = dir
	if o.SegmentSize == 0 {
		o.SegmentSize = benchSegment
	}
	l, _, err := Open(o, Recovery{FlushedTo: -1})
	if err != nil {
		b.Fatal(err)
	}
	return l
}

// memcpyLimit copies pieces of size bytes into a freshly allocated mapping and returns how many a second.
// The file goes at once, so that what is measured next gets the same memory: pages that a virtual machine's host has to find first cost several times as much as the copy.
func memcpyLimit(b *testing.B, size int) float64 {
	b.Helper()
	const total = 512 << 20
	path := filepath.Join(b.TempDir(), "limit")
	m, err := mappedfile.OS().Map(path, total, mappedfile.MapCreate)
	if err != nil {
		b.Fatal(err)
	}
	src, dst := make([]byte, size), m.Bytes()
	n := total / size
	start := time.Now()
	for i := range n {
		copy(dst[i*size:], src)
	}
	rate := float64(n) / time.Since(start).Seconds()
	if err := m.Close(); err != nil {
		b.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		b.Fatal(err)
	}
	return rate
}

// syncLimit writes 4 KiB and syncs them, in a file zeroed by 4 KiB writes before, and returns how often a second.
func syncLimit(b *testing.B) float64 {
	b.Helper()
	f, err := os.Create(filepath.Join(b.TempDir(), "limit"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	const blocks = 4096
	page := make([]byte, 4096)
	for i := range blocks {
		if _, err := f.WriteAt(page, int64(i)*4096); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	took := make([]time.Duration, 0, 2048)
	for i := range 2048 {
		page[i]++
		start := time.Now()
		if _, err := f.WriteAt(page, int64(i)*4096); err != nil {
			b.Fatal(err)
		}
		if err := fdatasync(f); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	var sum time.Duration
	for _, d := range took {
		sum += d
	}
	return float64(len(took)) / sum.Seconds()
}

func sizeName(n int) string {
	if n >= 1024 {
		return fmt.Sprintf("%dk", n/1024)
	}
	return fmt.Sprint(n)
}

func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{128, 1024} {
		for _, c := range []struct {
			mode      FlushMode
			name      string
			producers int
		}{{AsyncFlush, "async", 1}, {AsyncFlush, "async", 4}, {SyncFlush, "sync", 1}, {SyncFlush, "sync", 8}, {SyncFlush, "sync", 64}} {
			b.Run(fmt.Sprintf("body=%s/flush=%s/producers=%d", sizeName(size), c.name, c.producers), func(b *testing.B) {
				benchAppend(b, size, c.mode, c.producers)
			})
		}
	}
}

func benchAppend(b *testing.B, size int, mode FlushMode, producers int) {
	record := benchMessage(size)
	n, err := record.EncodedSize(Options{}.Limits)
	if err != nil {
		b.Fatal(err)
	}
	var limit float64
	if mode == SyncFlush {
		limit = syncLimit(b)
	} else {
		limit = memcpyLimit(b, n)
	}
	l := openBench(b, benchDir(b), Options{FlushMode: mode})
	defer l.Close()
	if _, err := l.Append(benchMessage(size), new(Counter)); err != nil { // makes the first segment
		b.Fatal(err)
	}
	if err := l.WaitFlushed(context.Background(), 1); err != nil {
		b.Fatal(err)
	}
	syncAll() // what the cells before left dirty is not this one's
	b.SetBytes(int64(n))
	b.ReportAllocs()
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ResetTimer()
	for range producers {
		wg.Go(func() {
			m, c := benchMessage(size), new(Counter)
			for left.Add(-1) >= 0 {
				r, err := l.Append(m, c)
				if err == nil && mode == SyncFlush {
					err = l.WaitFlushed(context.Background(), r.End())
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	rate := float64(b.N) / b.Elapsed().Seconds()
	b.ReportMetric(rate, "msg/s")
	b.ReportMetric(rate/limit, "xlimit")
}

func fill(b *testing.B, dir string, size int, total int64) (records int64) {
	b.Helper()
	l := openBench(b, dir, Options{SegmentSize: 256 << 20})
	m, c := benchMessage(size), new(Counter)
	for l.MaxPhyOffset() < total {
		if _, err := l.Append(m, c); err != nil {
			b.Fatal(err)
		}
		records++
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	return records
}

// crcLimit is the CRCs of as many pieces of size bytes as the log in dir has records, read from its mapped files, and nothing else: how many a second.
func crcLimit(b *testing.B, dir string, size int) float64 {
	b.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		b.Fatal(err)
	}
	step, err := benchMessage(size).EncodedSize(record.Limits{})
	if err != nil {
		b.Fatal(err)
	}
	n, sum := 0, uint32(0)
	start := time.Now()
	for _, e := range entries {
		m, err := mappedfile.OS().Map(filepath.Join(dir, e.Name()), 0, mappedfile.MapReadOnly)
		if err != nil {
			b.Fatal(err)
		}
		_ = m.Advise(mappedfile.AdviceSequential, 0, int64(len(m.Bytes())))
		for p := m.Bytes(); len(p) > step; p = p[step:] {
			sum ^= crc32.ChecksumIEEE(p[:size])
			n++
		}
		if err := m.Close(); err != nil {
			b.Fatal(err)
		}
	}
	if sum == 0 {
		b.Log("unlikely")
	}
	return float64(n) / time.Since(start).Seconds()
}

func BenchmarkRecoveryScan(b *testing.B) {
	for _, size := range []int{128, 1024} {
		b.Run("body="+sizeName(size), func(b *testing.B) {
			dir := benchDir(b)
			const total = 512 << 20
			fill(b, dir, size, total)
			limit := crcLimit(b, dir, size)
			b.SetBytes(total)
			b.ResetTimer()
			records := int64(0)
			for range b.N {
				l, tail, err := Open(Options{Dir: dir, ReadOnly: true}, Recovery{FlushedTo: -1})
				if err != nil {
					b.Fatal(err)
				}
				records += tail.Records
				if err := l.Close(); err != nil {
					b.Fatal(err)
				}
			}
			rate := float64(records) / b.Elapsed().Seconds()
			b.ReportMetric(rate, "rec/s")
			b.ReportMetric(rate/limit, "xlimit")
		})
	}
}

func BenchmarkCursor(b *testing.B) {
	for _, size := range []int{128, 1024} {
		b.Run("body="+sizeName(size), func(b *testing.B) {
			dir := benchDir(b)
			fill(b, dir, size, 256<<20)
			l, _, err := Open(Options{Dir: dir}, Recovery{Clean: true, FlushedTo: -1})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			c := l.NewCursor(0)
			defer c.Close()
			var m record.Meta
			end := l.MaxPhyOffset()
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				if err := c.Next(&m, end); err == ErrNotYet {
					c.SeekTo(0)
				} else if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rec/s")
		})
	}
}
