package store_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mqstore/mqstore/store"
)

// benchOpen opens a store of production sizes in a temporary directory.
func benchOpen(b *testing.B, o store.Options) *store.DefaultMessageStore {
	b.Helper()
	if o.SegmentSize == 0 {
		o.SegmentSize = 1 << 30
	}
	s, err := store.Open(b.TempDir(), o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}

func size(n int) string {
	if n%1024 == 0 {
		return fmt.Sprintf("%dk", n/1024)
	}
	return fmt.Sprint(n)
}

// BenchmarkPut puts with dispatch on: what a broker does. The store keeps at most a few segments, as retention would.
func BenchmarkPut(b *testing.B) {
	for _, mode := range []struct {
		name      string
		flush     store.FlushMode
		producers []int
	}{{"async", store.AsyncFlush, []int{1, 4}}, {"sync", store.SyncFlush, []int{1, 8, 64}}} {
		for _, body := range []int{128, 1024} {
			for _, producers := range mode.producers {
				b.Run(fmt.Sprintf("body=%s/flush=%s/producers=%d", size(body), mode.name, producers), func(b *testing.B) {
					s := benchOpen(b, store.Options{FlushMode: mode.flush})
					text := strings.Repeat("b", body)
					put(b, s, message("T", 0, text))
					settle(b, s, "T", 0, 1)
					b.SetBytes(int64(body))
					b.ReportAllocs()
					b.ResetTimer()
					var next atomic.Int64
					var wg sync.WaitGroup
					for i := range producers {
						wg.Go(func() {
							m := message("T", int32(i), text, "TAGS", "a")
							for next.Add(1) <= int64(b.N) {
								if _, err := s.Put(bg, m); err != nil {
									b.Error(err)
									return
								}
							}
						})
					}
					wg.Wait()
					b.StopTimer()
					if st := s.Stats(); st.DispatchBehindBytes > 0 {
						b.ReportMetric(float64(st.DispatchBehindBytes)/1024, "KiB-behind")
					}
				})
			}
		}
	}
}

// BenchmarkGet reads a queue from its start to its end, 32 messages a get, again and again: views of them, or copies; all of them, or those with a tag that all have. A log of 2,000 messages stays in a processor's caches, the other one does not.
func BenchmarkGet(b *testing.B) {
	for _, body := range []int{128, 1024} {
		for _, n := range []int64{2_000, 400_000} {
			s := benchOpen(b, store.Options{SegmentSize: 256 << 20, Index: store.IndexOptions{Off: true}})
			m := message("T", 0, strings.Repeat("b", body), "TAGS", "a")
			for range n {
				put(b, s, m)
			}
			settle(b, s, "T", 0, n)
			to, sum := make([]byte, 4<<20), 0
			for _, c := range []struct {
				name   string
				filter store.Filter
				copies bool
			}{{"views", nil, false}, {"copies", nil, true}, {"tag", store.TagFilter("a || b"), false}} {
				b.Run(fmt.Sprintf("body=%s/max=32/messages=%d/%s", size(body), n, c.name), func(b *testing.B) {
					b.SetBytes(int64(body))
					b.ReportAllocs()
					at := int64(0)
					for i := 0; i < b.N; {
						g, err := s.Get(bg, store.GetRequest{Topic: "T", Offset: at, Filter: c.filter})
						if err != nil {
							b.Fatal(err)
						}
						if c.copies {
							for _, v := range g.Records {
								sum += copy(to, v.Bytes)
							}
						}
						i += len(g.Records)
						if at = g.NextBeginOffset; at >= n {
							at = 0
						}
						g.Release()
					}
				})
			}
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
			runtime.KeepAlive(sum)
		}
	}
}

// BenchmarkPutToVisible is the time from a put until a waiting consumer has the message.
func BenchmarkPutToVisible(b *testing.B) {
	for _, mode := range []struct {
		name  string
		flush store.FlushMode
	}{{"async", store.AsyncFlush}, {"sync", store.SyncFlush}} {
		b.Run("body=1k/flush="+mode.name, func(b *testing.B) {
			s := benchOpen(b, store.Options{FlushMode: mode.flush})
			m := message("T", 0, strings.Repeat("b", 1024))
			put(b, s, m)
			settle(b, s, "T", 0, 1)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				r := put(b, s, m)
				if err := s.WaitForMessages(bg, "T", 0, r.QueueOffset); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkMemcpy is the ceiling of an append: the same bytes into memory, nothing else.
func BenchmarkMemcpy(b *testing.B) {
	for _, body := range []int{128, 1024} {
		b.Run("body="+size(body), func(b *testing.B) {
			src, dst := make([]byte, body), make([]byte, 64<<20)
			b.SetBytes(int64(body))
			at := 0
			for range b.N {
				copy(dst[at:], src)
				if at += body; at+body > len(dst) {
					at = 0
				}
			}
			runtime.KeepAlive(dst)
		})
	}
}
