package main

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
	"github.com/mqstore/mqstore/store/internal/repair"
)

// BenchmarkVerify verifies a store of 256 MiB in the page cache, and beside it reads the same log and sums it up: limit-MB/s is what the machine gives, ratio what verify makes of it.
// cpu-ratio is the same of the time that processors worked, which others on the machine change less; verify uses several, so that on n of them ratio is at best n times as much.
func BenchmarkVerify(b *testing.B) {
	for _, size := range []int{100, 1024, 4096} {
		for _, keys := range []bool{false, true} {
			b.Run(fmt.Sprintf("body=%d/keys=%v", size, keys), func(b *testing.B) {
				benchmarkVerify(b, size, keys)
			})
		}
	}
}

func benchmarkVerify(b *testing.B, size int, keys bool) {
	dir := filepath.Join(b.TempDir(), "store")
	s, err := store.Open(dir, store.Options{SegmentSize: 64 << 20})
	if err != nil {
		b.Fatal(err)
	}
	const total = 256 << 20
	ctx := context.Background()
	body := bytes.Repeat([]byte("x"), size)
	for i := 0; s.MaxPhyOffset() < total; i++ {
		m := &record.Message{Topic: fmt.Sprintf("Topic%d", i%8), QueueID: int32(i % 32 / 8), Body: body}
		if keys {
			m.Properties = record.NewProperties(record.PropertyTags, "tag", record.PropertyUniqKey, fmt.Sprintf("C0A8000100002A9F%016X", i), record.PropertyKeys, fmt.Sprint("order", i))
		}
		if _, err := s.Put(ctx, m); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.WaitIndexed(ctx, s.MaxPhyOffset()); err != nil {
		b.Fatal(err)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	segs, err := filepath.Glob(filepath.Join(dir, "commitlog", "*"))
	if err != nil {
		b.Fatal(err)
	}
	bytes := int64(0)
	var limit, limitWorked, worked time.Duration
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		begin, before := time.Now(), processorTime()
		n := int64(0)
		sum := crc32.NewIEEE()
		buf := make([]byte, 1<<20)
		for _, g := range segs {
			f, err := os.Open(g)
			if err != nil {
				b.Fatal(err)
			}
			k, err := io.CopyBuffer(onlyWriter{sum}, onlyReader{f}, buf)
			if err != nil {
				b.Fatal(err)
			}
			n += k
			f.Close()
		}
		limit += time.Since(begin)
		limitWorked += processorTime() - before
		b.StartTimer()
		before = processorTime()
		found, _ := checkStore(b, dir, repair.CheckOptions{})
		if len(found) > 0 {
			b.Fatal(found[0])
		}
		worked += processorTime() - before
		bytes += n
	}
	b.SetBytes(bytes / int64(b.N))
	limitRate := float64(bytes) / limit.Seconds()
	rate := float64(bytes) / b.Elapsed().Seconds()
	b.ReportMetric(limitRate/1e6, "limit-MB/s")
	b.ReportMetric(rate/limitRate, "ratio")
	if worked > 0 {
		b.ReportMetric(limitWorked.Seconds()/worked.Seconds(), "cpu-ratio")
	}
}

type (
	onlyWriter struct{ io.Writer }
	onlyReader struct{ io.Reader }
)
