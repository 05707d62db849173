package consumequeue_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/consumequeue"
)

// TestReport46AQueueMayGoUnderItsUsers (apache/rocketmq#8405): dispatch, readers, flush, retention and removal at the same time, on real mappings. Readers see what was written or are told that it is gone.
func TestReport46AQueueMayGoUnderItsUsers(t *testing.T) {
	const queues = 4
	removals := int64(effort.N(24, 1000))
	dir := filepath.Join(t.TempDir(), "consumequeue")
	s := open(t, consumequeue.Options{Dir: dir, FileSize: 50 * consumequeue.UnitSize, StoreTime: func(phy int64, _ int) (int64, error) { return phy, nil }})
	var logEnd atomic.Int64
	var done atomic.Bool
	var wg sync.WaitGroup
	loop := func(what string, f func(i int64) error) {
		wg.Go(func() {
			for i := int64(0); !done.Load(); i++ {
				if err := f(i); err != nil {
					t.Errorf("%s: %v", what, err)
					return
				}
			}
		})
	}
	gone := func(err error) error {
		if errors.Is(err, consumequeue.ErrNoUnit) || errors.Is(err, mappedfile.ErrClosed) {
			return nil
		}
		return err
	}
	for r := range int64(2) {
		loop("read", func(i int64) error {
			q := s.Queue("T", int32((i+r)%queues))
			if q == nil {
				return nil
			}
			at := max(q.MinOffset(), q.MaxOffset()-i%200)
			v, err := q.View(at)
			if err != nil {
				return gone(err)
			}
			defer v.Release()
			last := int64(-1)
			for j := range v.Len() {
				u := v.At(j)
				if u.IsFiller() {
					continue
				}
				if !u.Valid() || u.PhyOffset <= last || u.TagsCode != int64(q.ID()) {
					return fmt.Errorf("%s unit %d of a view from %d: %+v behind %d", q, j, at, u, last)
				}
				last = u.PhyOffset
			}
			if _, err := q.Unit(at); gone(err) != nil {
				return err
			}
			if i%16 == 0 {
				_, err = q.OffsetByTime(logEnd.Load()-500, consumequeue.TimeRule(i%3), 0)
			}
			return gone(err)
		})
	}
	loop("flush", func(int64) error { return s.Flush() })
	loop("expire", func(int64) error {
		_, err := s.Expire(logEnd.Load() - 100*400)
		return err
	})
	progress := make(chan struct{}) // closed by the remover
	wg.Go(func() {
		defer close(progress)
		for i := range removals {
			for range 3 {
				progress <- struct{}{} // some records lie between two removals
			}
			err := s.Remove("T", int32(i/2%queues))
			if i%2 == 1 {
				_, err = s.ResetQueue("T", int32(i/2%queues))
			}
			if err != nil {
				t.Errorf("remove: %v", err)
			}
		}
	})
	m := record.Meta{Magic: record.MagicV1, Topic: "T", Size: 100}
	var next [queues]int64
	for i := int64(0); ; i++ {
		if i%100 == 0 {
			if _, more := <-progress; !more {
				break
			}
		}
		q := i % queues
		m.QueueID, m.QueueOffset, m.PhyOffset, m.TagsCode = int32(q), next[q], 100*i, q
		next[q]++
		if err := s.Dispatch(&m); err != nil {
			t.Errorf("dispatch: %v", err)
		}
		logEnd.Store(100 * (i + 1))
	}
	done.Store(true)
	wg.Wait()
}
