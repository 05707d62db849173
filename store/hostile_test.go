package store_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/store"
)

// An event is told within the put that met it. A callback that puts there must get an answer also while Close waits for that first put.
func TestACallbackWithinAPutMayPutWhileTheStoreCloses(t *testing.T) {
	var s *store.DefaultMessageStore
	inCallback, closed := make(chan struct{}), make(chan error)
	fsys := faultfs.New()
	s = open(t, "/store", store.Options{FS: fsys, FlushMode: store.SyncFlush, Events: store.Events{FlushFailed: func(error) {
		close(inCallback)
		for {
			if _, err := s.Put(bg, message("T", 0, "again")); errors.Is(err, store.ErrClosed) {
				return
			}
		}
	}}})
	put(t, s, message("T", 0, "x"))
	fsys.FailFrom(fsys.Ops()+1, nil)
	go func() {
		<-inCallback
		closed <- s.Close()
	}()
	if _, err := s.Put(bg, message("T", 0, "x")); !errors.Is(err, store.ErrFlushFailed) {
		t.Error(err)
	}
	if err := <-closed; !errors.Is(err, store.ErrFlushFailed) {
		t.Error(err)
	}
}

// Zeroed units amid a queue of a log whose head has expired point, if one believes them, at a deleted record. They are damage all the same: no consumer may pass over messages
// that are in the log. The error says how to get the queue back, and that is true.
func TestAHoleInAQueueIsNotTakenForDeletedMessages(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, store.Options{})
	fill(t, s, 700, 100)
	if _, err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if r, err := s.DeleteExpired(store.ExpireOptions{Manual: true, Max: 1}); err != nil || len(r.Segments) != 1 {
		t.Fatal(r, err)
	}
	first := s.MinOffset("T", 0)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	hole := first + 40
	zeros, err := os.OpenFile(filepath.Join(dir, "consumequeue", "T", "0", fmt.Sprintf("%020d", 0)), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := zeros.WriteAt(make([]byte, 10*20), hole*20); err != nil {
		t.Fatal(err)
	}
	if err := zeros.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, store.Options{})
	g, err := s.Get(bg, store.GetRequest{Topic: "T", Offset: hole - 20})
	var damage *store.CorruptError
	if !errors.As(err, &damage) || damage.Offset != hole*20 || !strings.Contains(err.Error(), "IgnoreSummary") {
		t.Errorf("%+v, %v", g, err)
	}
	g.Release()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, store.Options{IgnoreSummary: true})
	if g := get(t, s, "T", 0, hole-20); g.Status != store.Found || len(g.Records) != 32 {
		t.Errorf("%+v", g)
	}
}

// No checksum covers the store time in a record. One that is damaged is believed by nobody who writes a checkpoint: the store opens, after a kill too, takes puts and closes.
func TestAnImpossibleStoreTimeHarmsNobodyElse(t *testing.T) {
	for _, clean := range []bool{true, false} {
		for _, which := range []int{50, 99} {
			t.Run(fmt.Sprintf("clean %v, record %d of 100", clean, which), func(t *testing.T) {
				dir := t.TempDir()
				s := open(t, dir, store.Options{})
				rs := fill(t, s, 100, 10)
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				flip(t, filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", 0)), rs[which].PhyOffset+56)
				if !clean {
					if err := os.WriteFile(filepath.Join(dir, "abort"), nil, 0o644); err != nil {
						t.Fatal(err)
					}
				}
				for i := range 2 {
					s := open(t, dir, store.Options{})
					if n := s.MaxOffset("T", 0); n != int64(100+i) {
						t.Errorf("%d messages", n)
					}
					put(t, s, message("T", 0, "x"))
					settle(t, s, "T", 0, int64(101+i))
					if err := s.CheckpointStep(); err != nil {
						t.Error(err)
					}
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
}

// Refusals leave nothing behind, however many there are and however long the topics.
func TestRefusedTopicsKeepNoMemory(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{})
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	for i := range 3000 {
		m := message(fmt.Sprint(i, strings.Repeat("t", 5000)), 0, "x")
		if _, err := s.Put(bg, m); !errors.Is(err, store.ErrMessageIllegal) {
			t.Fatal(err)
		}
		if _, err := s.PutBatch(bg, m, []record.BatchItem{{Body: []byte("x")}}); !errors.Is(err, store.ErrMessageIllegal) {
			t.Fatal(err)
		}
	}
	if kept := heap() - before; kept > 3<<20 {
		t.Errorf("%d bytes are kept of 6,000 refused puts", kept)
	}
}

// raw is the log bytes of messages as a master would send them from the log's start.
func raw(t testing.TB, ms ...*record.Message) (b []byte) {
	t.Helper()
	for _, m := range ms {
		m.PhyOffset, m.StoreTimestamp = int64(len(b)), 1_700_000_000_000
		var err error
		if b, err = record.AppendRecord(b, m, record.Limits{}); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func at(m *record.Message, queueOffset int64) *record.Message {
	m.QueueOffset = queueOffset
	return m
}

// A record whose queue offset no unit can have has no place in a queue, now or ever: dispatch passes over it and says so, as recovery does.
func TestARecordThatFitsNoQueueDoesNotHoldUpTheOthers(t *testing.T) {
	for _, bad := range []int64{-1, 1<<58 + 5, 1 << 62} {
		t.Run(fmt.Sprint(bad), func(t *testing.T) {
			told := make(chan error, 10)
			dir := t.TempDir()
			o := store.Options{Role: store.Slave, Events: store.Events{DispatchFailed: func(err error) { told <- err }}}
			s := open(t, dir, o)
			if err := s.AppendToCommitLog(0, raw(t, at(message("T", 0, "a"), 0), at(message("U", 0, "b"), bad), at(message("T", 0, "c"), 1))); err != nil {
				t.Fatal(err)
			}
			settle(t, s, "T", 0, 2)
			if err := <-told; !strings.Contains(err.Error(), fmt.Sprint(bad)) {
				t.Error(err)
			}
			for _, o := range []store.Options{{}, {IgnoreSummary: true}} {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				s = open(t, dir, o)
				if n, u := s.MaxOffset("T", 0), s.MaxOffset("U", 0); n != 2 || u != 0 {
					t.Errorf("%d messages, and %d in the queue that none can have", n, u)
				}
			}
		})
	}
}

// A slave of a master with light queues keeps them as the master does, and wakes who waits for them.
func TestASlavesMultiDispatchQueuesFollow(t *testing.T) {
	dir := t.TempDir()
	o := store.Options{Role: store.Slave, MultiDispatch: true}
	s := open(t, dir, o)
	var ms []*record.Message
	for i := range int64(3) {
		ms = append(ms, at(message("T", 1, "x", "INNER_MULTI_DISPATCH", "%LMQ%a,U", "INNER_MULTI_QUEUE_OFFSET", fmt.Sprintf("%d,%d", i, 10+i)), i))
	}
	if err := s.AppendToCommitLog(0, raw(t, ms...)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		settle(t, s, "T", 1, 3)
		settle(t, s, "%LMQ%a", 0, 3)
		settle(t, s, "U", 1, 13)
		if g := get(t, s, "%LMQ%a", 0, 0); len(g.Records) != 3 {
			t.Errorf("%+v", g)
		}
		if g := get(t, s, "U", 1, 10); len(g.Records) != 3 || g.MinOffset != 10 {
			t.Errorf("%+v", g)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, dir, o)
		if r := s.Stats().Recovery; r.RebuiltUnits != 0 {
			t.Errorf("%+v", r)
		}
	}
}

// The end of the log can vanish without a trace in the log itself (a file not restored, zeros). After a clean exit the queues know better, also without a summary of ours: it is said aloud.
func TestALostEndOfTheLogIsReportedAfterACleanExit(t *testing.T) {
	for _, summary := range []bool{true, false} {
		dir := t.TempDir()
		s := open(t, dir, store.Options{})
		fill(t, s, 1000, 100)
		end := s.MaxPhyOffset()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if !summary {
			if err := os.Remove(filepath.Join(dir, "mqstore.summary")); err != nil {
				t.Fatal(err)
			}
		}
		last := end - end%(64<<10)
		if err := os.Remove(filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", last))); err != nil {
			t.Fatal(err)
		}
		s = open(t, dir, store.Options{})
		if w := strings.Join(s.Stats().Warnings, "\n"); !strings.Contains(w, fmt.Sprintf("%d bytes of the log that had been on disk are lost", end-last)) || !strings.Contains(w, fmt.Sprint(1000-s.MaxOffset("T", 0), " queue units")) {
			t.Errorf("with summary %v: %s", summary, w)
		}
	}
}

// A queue all of whose messages have expired lives on in its files and in our summary alone. When the files are lost, no later life gives its offsets again.
func TestALostExpiredQueueKeepsItsNumbering(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, store.Options{})
	for range 5 {
		put(t, s, message("gone", 0, "x"))
	}
	fill(t, s, 600, 100)
	if _, err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if r, err := s.DeleteExpired(store.ExpireOptions{Manual: true, Max: 1}); err != nil || len(r.Segments) != 1 {
		t.Fatal(r, err)
	}
	for range 3 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(dir, "consumequeue", "gone")); err != nil {
			t.Fatal(err)
		}
		s = open(t, dir, store.Options{})
	}
	if r := put(t, s, message("gone", 0, "x")); r.QueueOffset != 5 {
		t.Errorf("queue offset %d is given again", r.QueueOffset)
	}
	settle(t, s, "gone", 0, 6)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s = open(t, dir, store.Options{}); s.MinOffset("gone", 0) != 5 || s.MaxOffset("gone", 0) != 6 || len(s.Stats().Warnings) != 0 {
		t.Error(s.MinOffset("gone", 0), s.MaxOffset("gone", 0), s.Stats().Warnings)
	}
}

// A store, or its log or queues, that were moved to another disk and linked are where they were.
func TestLinkedDirectoriesAreDirectories(t *testing.T) {
	home := t.TempDir()
	dir := filepath.Join(home, "store")
	s := open(t, dir, store.Options{})
	fill(t, s, 10, 10)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	move := func(path, to string) {
		t.Helper()
		if err := os.Rename(path, to); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, path); err != nil {
			t.Skipf("no symbolic links here: %v", err)
		}
	}
	move(filepath.Join(dir, "commitlog"), filepath.Join(home, "disk1"))
	move(filepath.Join(dir, "consumequeue"), filepath.Join(home, "disk2"))
	move(dir, filepath.Join(home, "disk3"))
	r, err := store.OpenReadOnly(dir, store.Options{})
	if err != nil || r.MaxOffset("T", 0) != 10 {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	s = open(t, dir, store.Options{})
	put(t, s, message("T", 0, "x"))
	settle(t, s, "T", 0, 11)
	if w := s.Stats().Warnings; len(w) > 0 {
		t.Error(w)
	}
}

// vanishing is a file system on which the next n files that are looked for have just gone, as in a store whose owner deletes segments.
type vanishing struct {
	mappedfile.FS
	n int
}

func (v *vanishing) Map(path string, size int64, mode mappedfile.MapMode) (mappedfile.Mapping, error) {
	if v.n > 0 {
		v.n--
		return nil, fmt.Errorf("map %s: %w", path, fs.ErrNotExist)
	}
	return v.FS.Map(path, size, mode)
}

// Files come and go while a live store is looked at: that is no finding.
func TestLookingAtALiveStoreBearsFilesThatGo(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, store.Options{})
	fill(t, s, 10, 10)
	r, err := store.OpenReadOnly(dir, store.Options{FS: &vanishing{mappedfile.OS(), 2}})
	if err != nil {
		t.Fatal(err)
	}
	if n := r.MaxOffset("T", 0); n != 10 {
		t.Error(n)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := store.OpenReadOnly(dir, store.Options{FS: &vanishing{mappedfile.OS(), 1000}}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// Segments that fill while others are deleted may go in the same call. What their queues number by must be on disk before, also then.
func TestQueuesAreOnDiskBeforeAnySegmentOfACallIsDeleted(t *testing.T) {
	for seed := range effort.Seeds(t, 5, 20) {
		fsys := faultfs.New()
		s := open(t, "/store", store.Options{FS: fsys, SegmentSize: 4096, FlushMode: store.SyncFlush, NoBackground: true})
		fillSome := func(topic string) {
			for range 8 {
				put(t, s, message(topic, 0, strings.Repeat("b", 900)))
			}
			dispatchAll(t, s)
		}
		fillSome("T")
		once := false
		fsys.SetHook(func(op faultfs.Op) error {
			if op.Kind == faultfs.OpRemove && !once {
				once = true
				fillSome("young")
				fillSome("T")
			}
			return nil
		})
		r, err := s.DeleteExpired(store.ExpireOptions{Manual: true})
		if err != nil || len(r.Segments) < 4 || s.MinOffset("young", 0) != 8 {
			t.Fatal(r, err, s.MinOffset("young", 0))
		}
		fsys = fsys.Crash(rand.New(rand.NewPCG(seed, 1)))
		s = open(t, "/store", store.Options{FS: fsys, NoBackground: true, SegmentSize: 4096})
		if r := put(t, s, message("young", 0, "x")); r.QueueOffset != 8 {
			t.Fatalf("seed %d: queue offset %d is given again", seed, r.QueueOffset)
		}
	}
}

// Who deletes while the store closes learns that, and never that a flush failed; and nothing is written into a directory that may be another's by then.
func TestDeletingWhileTheStoreClosesIsNoFailure(t *testing.T) {
	fsys := faultfs.New()
	asked, goOn := make(chan struct{}), make(chan struct{})
	var armed atomic.Bool
	s := open(t, "/store", store.Options{
		FS: fsys, SegmentSize: 4096, NoBackground: true,
		Events: store.Events{FlushFailed: func(err error) { t.Error(err) }},
		Now: func() time.Time {
			if armed.Swap(false) {
				close(asked)
				<-goOn
			}
			return time.Now()
		},
	})
	for range 8 {
		put(t, s, message("T", 0, strings.Repeat("b", 900)))
	}
	dispatchAll(t, s)
	if _, err := s.FlushStep(); err != nil {
		t.Fatal(err)
	}
	armed.Store(true)
	deleted := make(chan error)
	go func() {
		_, err := s.DeleteExpired(store.ExpireOptions{OlderThan: 1})
		deleted <- err
	}()
	<-asked // it knows no better than that the store is open
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	ops := fsys.Ops()
	close(goOn)
	if err := <-deleted; !errors.Is(err, store.ErrClosed) {
		t.Error(err)
	}
	if err := s.CheckpointStep(); !errors.Is(err, store.ErrClosed) {
		t.Error(err)
	}
	if n := fsys.Ops(); n != ops {
		t.Errorf("%d operations on files after Close", n-ops)
	}
}
