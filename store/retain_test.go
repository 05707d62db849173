package store_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/store"
)

// Report 43: a deletion that deletes nothing says why.
func TestDeletionExplainsWhatItKeeps(t *testing.T) {
	fsys := faultfs.New()
	clock := time.UnixMilli(1_000_000_000)
	s := open(t, "/store", store.Options{FS: fsys, NoBackground: true, Now: func() time.Time { return clock }})
	expire := func(o store.ExpireOptions, segments int, says string) store.ExpireReport {
		t.Helper()
		r, err := s.DeleteExpired(o)
		if err != nil || len(r.Segments) != segments || !strings.Contains(r.Kept, says) || r.MinPhyOffset != s.MinPhyOffset() {
			t.Fatalf("%+v: %+v, %v; want %d segments and %q", o, r, err, segments, says)
		}
		return r
	}
	manual := store.ExpireOptions{Manual: true}
	expire(manual, 0, "empty")
	for range 250 { // one segment an hour: 62 messages fit
		put(t, s, message("T", 0, strings.Repeat("b", 950)))
		put(t, s, message("T", 1, "x"))
		clock = clock.Add(time.Minute)
	}
	expire(manual, 0, "not in the queues yet")
	dispatchAll(t, s)
	expire(manual, 0, "not on disk yet")
	if _, err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	expire(store.ExpireOptions{}, 0, "no condition")
	expire(store.ExpireOptions{OlderThan: 72 * time.Hour}, 0, "not older than 72h")
	expire(store.ExpireOptions{DiskRatio: 0.9}, 0, "not more than 90.0 %")
	if r := expire(store.ExpireOptions{OlderThan: 3 * time.Hour}, 1, "not older than 3h"); r.MinPhyOffset != 64<<10 || r.Bytes != 64<<10 {
		t.Fatalf("%+v", r)
	}
	first := s.MinOffset("T", 0)
	if u, err := s.PhyOffset("T", 0, first); err != nil || u < 64<<10 || first == 0 {
		t.Fatal(first, u, err)
	}
	if _, err := s.PhyOffset("T", 0, first-1); err == nil {
		t.Fatal("a queue offset below the minimum")
	}
	fsys.SetLimit(fsys.Used() + 1000)
	if r := expire(store.ExpireOptions{DiskRatio: 0.75, Max: 1}, 1, "enough for one call"); r.DiskUsed < 0.5 {
		t.Fatalf("%+v", r)
	}
	expire(manual, s.Stats().Segments-1, "being written")
	expire(manual, 0, "being written")
	if _, err := s.DeleteExpired(store.ExpireOptions{DiskRatio: 75}); err == nil {
		t.Fatal("a ratio of 75")
	}
	if s.MaxOffset("T", 0) != 250 || s.Stats().Segments != 1 {
		t.Fatal(s.Stats())
	}
	g := get(t, s, "T", 0, s.MinOffset("T", 0))
	if g.Status != store.Found {
		t.Fatal(g.Status)
	}
}

// Defect 11: a queue whose messages have all expired is empty, with its numbering kept.
func TestAnExpiredQueueKeepsItsNumbering(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, store.Options{})
	put(t, s, message("old", 0, "x"))
	put(t, s, message("old", 0, "x"))
	fill(t, s, 200, 1000)
	if _, err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if r, err := s.DeleteExpired(store.ExpireOptions{Manual: true, Max: 1}); err != nil || len(r.Segments) != 1 {
		t.Fatal(r, err)
	}
	for range 2 {
		for offset, want := range map[int64]store.GetStatus{0: store.OffsetTooSmall, 1: store.OffsetTooSmall, 2: store.OffsetOverflowOne, 3: store.OffsetOverflowBadly} {
			if g := get(t, s, "old", 0, offset); g.Status != want || g.NextBeginOffset != 2 || g.MinOffset != 2 || g.MaxOffset != 2 {
				t.Errorf("get at %d: %v %+v, want %v", offset, g.Status, g, want)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, dir, store.Options{})
	}
	if r := put(t, s, message("old", 0, "y")); r.QueueOffset != 2 {
		t.Fatal(r)
	}
	settle(t, s, "old", 0, 3)
	if g := get(t, s, "old", 0, 2); g.Status != store.Found {
		t.Fatal(g.Status)
	}
}

// hours is a store of which n segments, with 62 messages each, may be deleted. Its queue has several files.
func hours(t *testing.T, fsys *faultfs.FS, n int) *store.DefaultMessageStore {
	t.Helper()
	s := open(t, "/store", store.Options{FS: fsys, NoBackground: true, QueueFileSize: 50 * 20})
	for range 62*n + 1 {
		put(t, s, message("T", 0, strings.Repeat("b", 950)))
	}
	dispatchAll(t, s)
	if _, err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	return s
}

// onRemoval calls f once, before the n-th segment of the log is removed.
func onRemoval(fsys *faultfs.FS, n int, f func()) {
	fsys.SetHook(func(op faultfs.Op) error {
		if op.Kind == faultfs.OpRemove && filepath.Base(filepath.Dir(op.Path)) == "commitlog" {
			if n--; n == 0 {
				f()
			}
		}
		return nil
	})
}

// What a deletion has taken from the log and not yet from the queues is passed over by who walks a queue.
func TestAScanBesideADeletionPassesOverWhatIsGone(t *testing.T) {
	fsys := faultfs.New()
	s := hours(t, fsys, 4)
	var seen []int64
	onRemoval(fsys, 3, func() {
		for m, err := range s.Scan(bg, "T", 0, 0) {
			if err != nil {
				t.Error(err)
				return
			}
			seen = append(seen, m.QueueOffset)
		}
	})
	if r, err := s.DeleteExpired(store.ExpireOptions{Manual: true}); err != nil || len(r.Segments) != 4 {
		t.Fatal(r, err)
	}
	if len(seen) != 62*2+1 || seen[0] != 62*2 {
		t.Fatalf("%d messages, from %v", len(seen), seen[:min(1, len(seen))])
	}
}

// A checkpoint beside a deletion vouches for nothing that the deletion takes: after a crash no queue is taken for one that lost its head.
func TestACheckpointBesideADeletionKnowsWhatIsThere(t *testing.T) {
	fsys := faultfs.New()
	s := hours(t, fsys, 3)
	put(t, s, message("T", 0, "not flushed yet"))
	deleted, checkpointed := make(chan struct{}), make(chan error, 1)
	standing := make(chan struct{})
	onRemoval(fsys, 1, func() {
		put(t, s, message("T", 0, "nor this"))
		fsys.SetHook(func(op faultfs.Op) error {
			if op.Kind == faultfs.OpSync && strings.Contains(op.Path, "commitlog") {
				close(standing)
				<-deleted
			}
			return nil
		})
		go func() { checkpointed <- s.CheckpointStep() }()
		<-standing
		fsys.SetHook(nil)
	})
	if r, err := s.DeleteExpired(store.ExpireOptions{Manual: true}); err != nil || len(r.Segments) != 3 {
		t.Fatal(r, err)
	}
	close(deleted)
	if err := <-checkpointed; err != nil {
		t.Fatal(err)
	}
	dispatchAll(t, s)
	s = open(t, "/store", store.Options{FS: fsys.Kill(), NoBackground: true, QueueFileSize: 50 * 20})
	if r := s.Stats(); len(r.Recovery.RebuiltQueues) != 0 || len(r.Warnings) != 0 || s.MinOffset("T", 0) != 62*3 || s.MaxOffset("T", 0) != 62*3+3 {
		t.Error(fmt.Sprintf("%+v", r.Recovery), r.Warnings)
	}
}

// A search by time that a deletion overtakes begins again, and answers with what is there.
func TestASearchByTimeBesideADeletionIsAnswered(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{QueueFileSize: 50 * 20})
	begin := put(t, s, message("T", 0, "first")).StoreTimestamp
	done := make(chan struct{})
	searching := make(chan struct{})
	go func() {
		defer close(searching)
		for at := int64(0); ; at++ {
			select {
			case <-done:
				return
			default:
			}
			for _, rule := range []store.TimeRule{store.Nearest, store.Lower, store.Upper} {
				if _, err := s.OffsetByTime("T", 0, time.UnixMilli(begin+at%100), rule); err != nil {
					t.Errorf("%v: %v", rule, err)
					return
				}
			}
		}
	}()
	for range effort.N(50, 300) {
		var last store.PutResult
		for range 62 * 2 {
			last = put(t, s, message("T", 0, strings.Repeat("b", 950)))
		}
		settle(t, s, "T", 0, last.QueueOffset+1)
		if _, err := s.Flush(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.DeleteExpired(store.ExpireOptions{Manual: true}); err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	<-searching
}
