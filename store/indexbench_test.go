package store_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/store"
)

// BenchmarkSustainedPutsWithIndex puts messages with 2 keys for some seconds (60 with MQSTORE_EFFORT=full; one iteration): as fast as one producer can, then at fixed rates. It reports the rate of puts and of keys, how far the index is behind at the half and at the
// end, and how long it then takes to catch up. The oldest segments are deleted meanwhile, so that the disk keeps its room.
func BenchmarkSustainedPutsWithIndex(b *testing.B) {
	seconds := time.Duration(effort.N(3, 60)) * time.Second
	for _, perSecond := range []int{0, 50_000, 100_000, 150_000, 200_000, 250_000, 300_000} {
		name := fmt.Sprintf("body=1k/keys=2/rate=%d", perSecond)
		if perSecond == 0 {
			name = "body=1k/keys=2/rate=max"
		}
		b.Run(name, func(b *testing.B) {
			s, err := store.Open(b.TempDir(), store.Options{SegmentSize: 256 << 20})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			ctx, stop := context.WithCancel(bg)
			var expiring sync.WaitGroup
			expiring.Go(func() {
				for ctx.Err() == nil {
					if s.MaxPhyOffset()-s.MinPhyOffset() > 4<<30 {
						s.DeleteExpired(store.ExpireOptions{Manual: true, Max: 4})
					}
					select {
					case <-ctx.Done():
					case <-time.After(200 * time.Millisecond):
					}
				}
			})
			const burst = 100
			limit := rate.NewLimiter(rate.Inf, 0)
			if perSecond > 0 {
				limit = rate.NewLimiter(rate.Limit(perSecond), 10*burst)
			}
			body := make([]byte, 1024)
			rng := rand.New(rand.NewPCG(1, 2))
			for i := range body {
				body[i] = byte(rng.Uint32())
			}
			var keys [16]byte
			n := 0
			var half int64
			b.ResetTimer()
			begin := time.Now()
			for end := begin.Add(seconds); ; {
				now := time.Now()
				if now.After(end) {
					break
				}
				if half == 0 && end.Sub(now) < seconds/2 {
					half = s.Stats().Index.BehindBytes + 1
				}
				if err := limit.WaitN(bg, burst); err != nil {
					b.Fatal(err)
				}
				for range burst {
					for i := range keys {
						keys[i] = byte(rng.Uint32())
					}
					text := hex.EncodeToString(keys[:])
					m := &record.Message{
						Topic: "bench", QueueID: int32(n % 8), Body: body, BornHost: producer, StoreHost: broker, BornTimestamp: 1,
						Properties: record.NewProperties(record.PropertyUniqKey, text, record.PropertyKeys, text[:20]),
					}
					if _, err := s.Put(bg, m); err != nil {
						b.Fatal(err)
					}
					n++
				}
			}
			took := time.Since(begin)
			st := s.Stats().Index
			behind := st.BehindBytes
			catchUp := time.Now()
			if err := s.WaitIndexed(bg, s.MaxPhyOffset()); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			b.ReportMetric(float64(n)/took.Seconds(), "puts/s")
			per := float64(s.MaxPhyOffset()) / float64(n)
			b.ReportMetric(2*(float64(n)-float64(behind)/per)/took.Seconds(), "keys/s")
			b.ReportMetric(float64(half)/per, "behind-half-msgs")
			b.ReportMetric(float64(behind)/per, "behind-end-msgs")
			b.ReportMetric(float64(time.Since(catchUp).Milliseconds()), "catchup-ms")
			b.ReportMetric(float64(s.Stats().DispatchBehindBytes)/per, "queues-behind-msgs")
			stop()
			expiring.Wait()
		})
	}
}

// BenchmarkIndexAlone builds the index of a log that is there, from its bytes: reading, parsing, hashing, sorting, writing. One iteration is the whole log.
func BenchmarkIndexAlone(b *testing.B) {
	messages := effort.N(200_000, 2_000_000)
	for _, size := range []int{100, 1024} {
		b.Run(fmt.Sprintf("body=%d/keys=2", size), func(b *testing.B) {
			dir := b.TempDir()
			s, err := store.Open(dir, store.Options{Index: store.IndexOptions{Off: true}})
			if err != nil {
				b.Fatal(err)
			}
			body := make([]byte, size)
			rng := rand.New(rand.NewPCG(1, 2))
			var keys [16]byte
			for n := range messages {
				for i := range keys {
					keys[i] = byte(rng.Uint32())
				}
				text := hex.EncodeToString(keys[:])
				if _, err := s.Put(bg, &record.Message{
					Topic: "bench", QueueID: int32(n % 8), Body: body, BornHost: producer, StoreHost: broker, BornTimestamp: 1,
					Properties: record.NewProperties(record.PropertyUniqKey, text, record.PropertyKeys, text[:20]),
				}); err != nil {
					b.Fatal(err)
				}
			}
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			for range b.N {
				b.StopTimer()
				if err := os.RemoveAll(filepath.Join(dir, "index_pebble")); err != nil {
					b.Fatal(err)
				}
				s, err := store.Open(dir, store.Options{NoBackground: true})
				if err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				for {
					n, err := s.IndexStep(1 << 14)
					if err != nil {
						b.Fatal(err)
					}
					if n == 0 {
						break
					}
				}
				if err := s.FlushIndex(); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(2*messages*b.N)/b.Elapsed().Seconds(), "keys/s")
		})
	}
}
