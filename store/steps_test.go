package store_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/store"
)

// Callers who drive a store themselves may do so from several goroutines, and close it meanwhile: nothing that was answered lacks its unit afterwards.
func TestStepsBesideCloseLoseNoUnit(t *testing.T) {
	for range effort.N(20, 500) {
		fsys := faultfs.New()
		s := open(t, "/store", store.Options{FS: fsys, NoBackground: true, FlushMode: store.SyncFlush, SegmentSize: 32 << 10, QueueFileSize: 2000})
		const producers = 6
		var (
			wg      sync.WaitGroup
			running sync.WaitGroup
			answers [producers]int64
		)
		running.Add(producers)
		for p := range producers {
			wg.Go(func() {
				for n := 0; ; n++ {
					if _, err := s.Put(bg, message("T", int32(p), "x")); err != nil {
						if !errors.Is(err, store.ErrClosed) {
							t.Errorf("put: %v", err)
						}
						return
					}
					answers[p]++
					if n == 3 {
						running.Done()
					}
					for _, step := range []func(int) (int, error){s.DispatchStep, s.IndexStep} {
						if _, err := step(10); err != nil && !errors.Is(err, store.ErrClosed) {
							t.Errorf("step: %v", err)
						}
					}
				}
			})
		}
		running.Wait()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		s = open(t, "/store", store.Options{FS: fsys, NoBackground: true, SegmentSize: 32 << 10, QueueFileSize: 2000})
		for p, n := range answers {
			if got := s.MaxOffset("T", int32(p)); got != n {
				t.Errorf("queue %d ends at %d, answered were %d puts", p, got, n)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A flush that comes after a close says so: it did not fail, and nobody is told that one did.
func TestAFlushAfterACloseIsNoFailedFlush(t *testing.T) {
	s := open(t, "/store", store.Options{FS: faultfs.New(), NoBackground: true, Events: store.Events{FlushFailed: func(err error) { t.Error(err) }}})
	put(t, s, message("T", 0, "x"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, stepErr := s.FlushStep()
	_, flushErr := s.Flush()
	for _, err := range []error{stepErr, flushErr, s.CheckpointStep(), s.WaitFlushed(bg, 1<<40)} {
		if !errors.Is(err, store.ErrClosed) || errors.Is(err, store.ErrFlushFailed) {
			t.Error(err)
		}
	}
}
