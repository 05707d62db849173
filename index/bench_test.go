package index_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/index"
)

// generator makes up records of 1 KiB, each with a unique key and one more; it answers for any of them without keeping them.
type generator struct {
	size int64
	m    record.Meta
	p    []byte
}

func (g *generator) at(i int64) *record.Meta {
	const head = record.PropertyUniqKey + "\x01"
	const middle = "\x02" + record.PropertyKeys + "\x01"
	g.p = append(g.p[:0], head...)
	g.p = appendName(g.p, 'u', i)
	g.p = append(g.p, middle...)
	g.p = appendName(g.p, 'k', i)
	g.m = record.Meta{Magic: record.MagicV1, Topic: "TopicOfTheBenchmark", Size: int(g.size), PhyOffset: i * g.size, StoreTimestamp: 1_700_000_000_000 + i/150, Properties: g.p}
	return &g.m
}

// appendName appends a name as long as a client's unique key, which is 32 hexadecimal digits.
func appendName(b []byte, kind byte, i int64) []byte {
	const digits = "0123456789ABCDEF"
	b = append(b, kind)
	var n [16]byte
	binary.BigEndian.PutUint64(n[8:], uint64(i)*0x9e3779b97f4a7c15)
	binary.BigEndian.PutUint64(n[:8], uint64(i))
	for _, c := range n {
		b = append(b, digits[c>>4], digits[c&15])
	}
	return b
}

func name(kind byte, i int64) string { return string(appendName(nil, kind, i)) }

func (g *generator) record(phyOffset int64, look func(m *record.Meta)) (bool, error) {
	if phyOffset%g.size != 0 {
		return false, nil
	}
	own := generator{size: g.size}
	look(own.at(phyOffset / g.size))
	return true, nil
}

func (g *generator) options(dir string, bucket int64) index.Options {
	return index.Options{Dir: dir, Record: g.record, MaxPhyOffset: math.MaxInt64, BucketSize: bucket, NoBackground: true}
}

// BenchmarkDispatch is the index alone over a log that is there: parsing aside, hashing, sorting, writing, compacting. One iteration is a record with 2 keys.
func BenchmarkDispatch(b *testing.B) {
	for _, size := range []int64{200, 1 << 10} {
		b.Run(fmt.Sprintf("record=%d/keys=2", size), func(b *testing.B) {
			g := &generator{size: size}
			x := open(b, g.options(b.TempDir(), 1<<30))
			b.ReportAllocs()
			b.ResetTimer()
			used := processorTime()
			for i := range int64(b.N) {
				if err := x.Dispatch(g.at(i)); err != nil {
					b.Fatal(err)
				}
			}
			if err := x.Flush(); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			used = processorTime() - used
			s := x.Stats()
			b.ReportMetric(2*float64(b.N)/used.Seconds(), "keys/cpu-s")
			b.ReportMetric(2*float64(b.N)/b.Elapsed().Seconds(), "keys/s")
			b.ReportMetric(float64(s.DiskBytes)/float64(2*b.N), "diskB/key")
			b.ReportMetric(float64(s.CompactedBytes)/float64(2*b.N), "compactedB/key")
		})
	}
}

// filled is an index of that many buckets of that many records of 2 keys.
func filled(b *testing.B, buckets, records int64) (*index.Index, *generator) {
	g := &generator{size: 1 << 10}
	o := g.options(b.TempDir(), records*g.size)
	o.CacheSize = 256 << 20
	x := open(b, o)
	for i := range buckets * records {
		if err := x.Dispatch(g.at(i)); err != nil {
			b.Fatal(err)
		}
	}
	if err := x.Flush(); err != nil {
		b.Fatal(err)
	}
	s := x.Stats()
	b.Logf("%d keys in %d buckets, %d MiB", s.Entries, s.Buckets, s.DiskBytes>>20)
	return x, g
}

// BenchmarkQuery asks 1,000 buckets: for a key that is in one of them (all are asked, as the cap is not reached; or the newest match is enough), and for one that is in none.
func BenchmarkQuery(b *testing.B) {
	for _, records := range []int64{1 << 10, 10 << 10} {
		x, _ := filled(b, 1000, records)
		total := 1000 * records
		for _, q := range []struct {
			name string
			key  func(i int64) string
			max  int
			hits int
		}{
			{"present", func(i int64) string { return name('k', i*7919%total) }, 0, 1},
			{"present-first", func(i int64) string { return name('k', i*7919%total) }, 1, 1},
			{"absent", func(i int64) string { return name('a', i) }, 0, 0},
		} {
			b.Run(fmt.Sprintf("buckets=1000/keys=%d/%s", 2*total, q.name), func(b *testing.B) {
				used := processorTime()
				defer func() {
					b.ReportMetric(float64((processorTime()-used).Nanoseconds())/float64(b.N), "cpu-ns/op")
				}()
				for i := range int64(b.N) {
					r, err := x.Query("TopicOfTheBenchmark", q.key(i), math.MinInt64, math.MaxInt64, q.max)
					if err != nil || len(r.Hits) != q.hits {
						b.Fatal(len(r.Hits), err)
					}
				}
			})
		}
	}
}

// BenchmarkExpire drops a bucket of 1 M keys from an index of several.
func BenchmarkExpire(b *testing.B) {
	const records = 500_000
	g := &generator{size: 1 << 10}
	x := open(b, g.options(b.TempDir(), records*g.size))
	next := int64(0)
	var worst time.Duration
	b.ResetTimer()
	for i := range int64(b.N) {
		b.StopTimer()
		for ; next < (i+3)*records; next++ {
			if err := x.Dispatch(g.at(next)); err != nil {
				b.Fatal(err)
			}
		}
		if err := x.Flush(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		begin := time.Now()
		n, err := x.Expire((i + 1) * records * g.size)
		worst = max(worst, time.Since(begin))
		if n != 1 || err != nil {
			b.Fatal(n, err)
		}
	}
	b.ReportMetric(float64(worst.Microseconds()), "worst-µs")
}
