package store_test

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mqstore/mqstore/store"
)

// BenchmarkSyncedPutBesidePebble puts with synchronous flush, and in the same run sets as many values of the same size in Pebble, each synced: a log with a group commit to be measured by.
// It reports puts a second and their ratio to Pebble's ("xpebble"). ns/op is the store's.
func BenchmarkSyncedPutBesidePebble(b *testing.B) {
	for _, body := range []int{128, 1024} {
		for _, producers := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("body=%s/producers=%d", size(body), producers), func(b *testing.B) {
				peer := perSecond(b, producers, pebbleSetter(b, body))
				s := benchOpen(b, store.Options{FlushMode: store.SyncFlush, Index: store.IndexOptions{Off: true}})
				text := strings.Repeat("b", body)
				put(b, s, message("T", 0, text))
				settle(b, s, "T", 0, 1)
				b.SetBytes(int64(body))
				b.ResetTimer()
				ours := perSecond(b, producers, func(producer int) func() error {
					m := message("T", int32(producer), text)
					return func() error {
						_, err := s.Put(bg, m)
						return err
					}
				})
				b.StopTimer()
				b.ReportMetric(ours, "puts/s")
				b.ReportMetric(ours/peer, "xpebble")
			})
		}
	}
}

// pebbleSetter returns what makes a producer's synced Set, of ascending keys and values of a body's size.
func pebbleSetter(b *testing.B, body int) func(producer int) func() error {
	db, err := pebble.Open(filepath.Join(b.TempDir(), "pebble"), &pebble.Options{Logger: quiet{}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	var next atomic.Uint64
	value := []byte(strings.Repeat("b", body))
	return func(int) func() error {
		key := make([]byte, 8)
		return func() error {
			binary.BigEndian.PutUint64(key, next.Add(1))
			return db.Set(key, value, pebble.Sync)
		}
	}
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(f string, a ...any) {
	panic(fmt.Sprintf(f, a...))
}

// perSecond runs b.N operations by so many producers side by side and returns their rate.
func perSecond(b *testing.B, producers int, maker func(producer int) func() error) float64 {
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	begin := time.Now()
	for i := range producers {
		op := maker(i)
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := op(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return float64(b.N) / time.Since(begin).Seconds()
}
