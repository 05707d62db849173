package store_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mqstore/mqstore/checkpoint"
	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// Each common mistake has an error that says what is wrong and what to do, and changes nothing.
func TestCommonMistakesAreExplained(t *testing.T) {
	root := t.TempDir()
	good := filepath.Join(root, "good")
	s := open(t, good, store.Options{})
	put(t, s, message("T", 0, "x"))
	settle(t, s, "T", 0, 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(root, "file")
	pictures := filepath.Join(root, "pictures")
	batch, epoch, dledger, rocks := filepath.Join(root, "batch"), filepath.Join(root, "epoch"), filepath.Join(root, "dledger"), filepath.Join(root, "rocks")
	lostLog := filepath.Join(root, "lostlog")
	for path, content := range map[string]string{
		file: "x", filepath.Join(pictures, "cat.jpg"): "x",
		filepath.Join(batch, "batchconsumequeue/topic/0/00000000000000000000"): "x",
		filepath.Join(epoch, "epochFileCheckpoint"):                            "1-0",
		filepath.Join(epoch, "commitlog/.keep"):                                "",
		filepath.Join(dledger, "dledger-n0/data/.keep"):                        "",
		filepath.Join(dledger, "checkpoint"):                                   "",
		filepath.Join(rocks, "consumequeue_r/CURRENT"):                         "x",
		filepath.Join(rocks, "consumequeue_r/MANIFEST-000001"):                 "x",
		filepath.Join(rocks, "lock"):                                           "",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(lostLog, os.DirFS(good)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(lostLog, "commitlog")); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name, dir string
		o         store.Options
		is        error
		says      string
	}{
		{"no name", "", store.Options{}, store.ErrNotAStore, "storePathRootDir"},
		{"a file", file, store.Options{}, store.ErrNotAStore, "is a file"},
		{"another directory", pictures, store.Options{}, store.ErrNotAStore, "cat.jpg"},
		{"the commit log itself", filepath.Join(good, "commitlog"), store.Options{}, store.ErrNotAStore, good},
		{"another segment size", good, store.Options{SegmentSize: 32 << 10}, nil, "/commitlog are 65536 bytes long, not 32768: leave Options.SegmentSize at 0"},
		{"the log is gone", lostLog, store.Options{SegmentSize: 64 << 10}, store.ErrNotAStore, "mounted"},
		{"batch queues", batch, store.Options{}, store.ErrUnsupported, "topic topic"},
		{"epochs", epoch, store.Options{}, store.ErrUnsupported, "epochs"},
		{"DLedger", dledger, store.Options{}, store.ErrUnsupported, "dledger-n0"},
		{"RocksDB queues", rocks, store.Options{}, store.ErrUnsupported, "RocksDB"},
		{"a negative time", filepath.Join(root, "new"), store.Options{FlushEvery: -1}, nil, "FlushEvery"},
		{"a negative size", filepath.Join(root, "new"), store.Options{SegmentSize: -1}, nil, "SegmentSize"},
		{"no such mode", filepath.Join(root, "new"), store.Options{FlushMode: 9}, nil, "FlushMode"},
		{"bad delay levels", filepath.Join(root, "new"), store.Options{DelayLevels: "1s 5x"}, nil, "DelayLevels"},
	}
	before := fingerprints(t, root)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s, err := store.Open(c.dir, c.o)
			if err == nil {
				s.Close()
			}
			if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%v\nwant %v with %q", err, c.is, c.says)
			}
		})
	}
	after := fingerprints(t, root)
	for name := range after {
		if _, ok := before[name]; !ok && filepath.Base(name) != "lock" {
			t.Errorf("a refused open made %s", name)
		}
	}
	for name, sum := range before {
		if after[name] != sum {
			t.Errorf("a refused open changed %s", name)
		}
	}
	if _, err := store.OpenReadOnly(filepath.Join(root, "missing"), store.Options{}); !errors.Is(err, store.ErrNotAStore) {
		t.Error(err)
	}
	for _, dir := range []string{batch, epoch} {
		r, err := store.OpenReadOnly(dir, store.Options{})
		if err != nil {
			t.Errorf("%s: %v", dir, err)
			continue
		}
		if len(r.Warnings()) == 0 {
			t.Errorf("%s: no warning", dir)
		}
		r.Close()
	}
}

func TestPermissionIsExplained(t *testing.T) {
	fsys := faultfs.New()
	fsys.SetHook(func(op faultfs.Op) error { return &fs.PathError{Op: "open", Path: op.Path, Err: fs.ErrPermission} })
	if _, err := store.Open("/store", store.Options{FS: fsys}); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "user that owns") {
		t.Fatal(err)
	}
}

func TestSizesOfFilesWinWhenAsked(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, store.Options{QueueFileSize: 2000})
	fill(t, s, 10, 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, store.Options{SegmentSize: 1 << 20, QueueFileSize: 4000, SizesFromFiles: true})
	if w := s.Stats().Warnings; s.SegmentSize() != 64<<10 || len(w) != 2 || !strings.Contains(w[0], "65536") || !strings.Contains(w[1], "2000") {
		t.Fatal(s.SegmentSize(), w)
	}
	fill(t, s, 200, 1)
	if _, err := os.Stat(filepath.Join(dir, "consumequeue/T/0", fmt.Sprintf("%020d", 2000))); err != nil {
		t.Fatal(err)
	}
	fresh := open(t, t.TempDir(), store.Options{SegmentSize: 128 << 10, SizesFromFiles: true})
	if fresh.SegmentSize() != 128<<10 {
		t.Fatal(fresh.SegmentSize())
	}
}

// A second opener is told who holds the store, be it this process or another.
func TestLockedStoreNamesItsHolder(t *testing.T) {
	if dir := os.Getenv("MQSTORE_TEST_LOCKED"); dir != "" { // the child
		_, err := store.Open(dir, store.Options{})
		fmt.Println(errors.Is(err, store.ErrLocked), err)
		return
	}
	dir := t.TempDir()
	s := open(t, dir, store.Options{})
	put(t, s, message("T", 0, "x"))
	pid := fmt.Sprintf("process %d", os.Getpid())
	if _, err := store.Open(dir, store.Options{}); !errors.Is(err, store.ErrLocked) || !strings.Contains(err.Error(), pid) || !strings.Contains(err.Error(), "OpenReadOnly") {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0], "-test.run=^TestLockedStoreNamesItsHolder$", "-test.count=1")
	child.Env = append(os.Environ(), "MQSTORE_TEST_LOCKED="+dir)
	out, err := child.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "true") || !strings.Contains(string(out), pid) {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, dir, store.Options{})
}

func TestReadOnlyLooksAtALiveStore(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, store.Options{})
	fill(t, s, 200, 1000)
	before := fingerprints(t, dir)
	r, err := store.OpenReadOnly(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if g := get(t, r, "T", 0, 100); g.Status != store.Found || g.MaxOffset != 200 {
		t.Fatal(g.Status, g.MaxOffset)
	}
	n := 0
	for _, err := range r.ScanLog(bg, 0, r.MaxPhyOffset()) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if st := r.Stats(); n != 200 || st.Writable || st.Recovery.Clean || st.Queues != 1 {
		t.Fatalf("%d records, %+v", n, st)
	}
	after := fingerprints(t, dir)
	for name, sum := range before {
		if after[name] != sum {
			t.Errorf("%s changed", name)
		}
	}
	fill(t, s, 100, 1000) // the live store goes on
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Get(bg, store.GetRequest{Topic: "T"}); !errors.Is(err, store.ErrClosed) {
		t.Fatal(err)
	}
	if err := r.Close(); !errors.Is(err, store.ErrClosed) {
		t.Fatal(err)
	}
}

// Report 6: what was stored but not dispatched is dispatched at the next open.
func TestUndispatchedMessagesAreVisibleAfterReopen(t *testing.T) {
	fsys := faultfs.New()
	s := open(t, "/store", store.Options{FS: fsys, NoBackground: true})
	for range 100 {
		put(t, s, message("T", 0, "x"))
	}
	if s.MaxOffset("T", 0) != 0 {
		t.Fatal("dispatched by itself")
	}
	var sunk int
	s = open(t, "/store", store.Options{FS: fsys.Kill(), Sinks: []store.Sink{store.SinkFunc(func(*record.Meta) error { sunk++; return nil })}})
	if s.MaxOffset("T", 0) != 100 || sunk != 100 {
		t.Fatal(s.MaxOffset("T", 0), sunk)
	}
	if r := put(t, s, message("T", 0, "x")); r.QueueOffset != 100 {
		t.Fatal(r)
	}
}

// Report 7: a checkpoint claims only what is on disk: whatever a power failure takes, the store opens with log and queues in agreement, and with all that was durable.
func TestACheckpointClaimsOnlyWhatIsDurable(t *testing.T) {
	for seed := range uint64(40) {
		fsys := faultfs.New()
		clock := int64(1_000_000)
		o := func(fsys *faultfs.FS) store.Options {
			return store.Options{FS: fsys, NoBackground: true, SegmentSize: 16 << 10, QueueFileSize: 400, Now: func() time.Time { return time.UnixMilli(clock) }}
		}
		s := open(t, "/store", o(fsys))
		rng := rand.New(rand.NewPCG(7, seed))
		var durable, total int64
		for range 1 + rng.IntN(5) {
			for range rng.IntN(80) {
				put(t, s, message("T", 0, strings.Repeat("b", rng.IntN(300))))
				clock += rng.Int64N(5000)
				total++
			}
			dispatchAll(t, s)
			if rng.IntN(2) == 0 {
				if err := s.CheckpointStep(); err != nil {
					t.Fatal(err)
				}
				durable = total
				page, err := checkpoint.Read(fsys, "/store/checkpoint")
				if err != nil {
					t.Fatal(err)
				}
				if last, err := s.StoreTime("T", 0, total-1); total > 0 && (err != nil || page.LogicsMsgTimestamp != last.UnixMilli() || page.PhysicMsgTimestamp > last.UnixMilli() || page.IndexMsgTimestamp != 0) {
					t.Fatalf("seed %d: %+v, last message %v, %v", seed, page, last, err)
				}
			}
		}
		fsys = fsys.Crash(rng)
		s, err := store.Open("/store", o(fsys))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		n := int64(0)
		for m, err := range s.Scan(bg, "T", 0, 0) {
			if err != nil || m.QueueOffset != n {
				t.Fatalf("seed %d: message %d: %v, %v", seed, n, m, err)
			}
			n++
		}
		if n < durable || n > total || s.MaxOffset("T", 0) != n {
			t.Fatalf("seed %d: %d messages, %d were durable of %d; queue ends at %d", seed, n, durable, total, s.MaxOffset("T", 0))
		}
		if r := put(t, s, message("T", 0, "x")); r.QueueOffset != n {
			t.Fatalf("seed %d: queue offset %d, want %d", seed, r.QueueOffset, n)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Report 7, the order: log, queues, and only then the page and the summary that speak of them.
func TestACheckpointIsWrittenLast(t *testing.T) {
	fsys := faultfs.New()
	s := open(t, "/store", store.Options{FS: fsys, NoBackground: true})
	put(t, s, message("T", 0, "x"))
	dispatchAll(t, s)
	var order []string
	fsys.SetHook(func(op faultfs.Op) error {
		for _, what := range []string{"commitlog", "consumequeue", "checkpoint", "summary"} {
			if strings.Contains(op.Path, what) && op.Kind != faultfs.OpMap && (len(order) == 0 || order[len(order)-1] != what) {
				order = append(order, what)
			}
		}
		return nil
	})
	if err := s.CheckpointStep(); err != nil {
		t.Fatal(err)
	}
	fsys.SetHook(nil)
	if got := strings.Join(order, " "); got != "commitlog consumequeue checkpoint summary" {
		t.Fatal(got)
	}
}

// abort is there while the store is open, and afterwards unless everything was finished.
func TestAbortFileTellsAnUncleanExit(t *testing.T) {
	fsys := faultfs.New()
	s := open(t, "/store", store.Options{FS: fsys, NoBackground: true})
	aborted := func(fsys *faultfs.FS) bool {
		there, err := checkpoint.AbortExists(fsys, "/store")
		if err != nil {
			t.Fatal(err)
		}
		return there
	}
	if !aborted(fsys) {
		t.Fatal("no abort file while open")
	}
	put(t, s, message("T", 0, "x"))
	if err := s.Close(); err != nil || aborted(fsys) {
		t.Fatal(err, "abort file after a clean exit that finished dispatch")
	}
	fsys = fsys.Kill()
	// A sink that never takes its record keeps the exit from being clean.
	s = open(t, "/store", store.Options{FS: fsys, NoBackground: true, Sinks: []store.Sink{store.SinkFunc(func(*record.Meta) error { return errors.New("never") })}})
	put(t, s, message("T", 0, "y"))
	if err := s.Close(); err == nil || !aborted(fsys) {
		t.Fatal(err)
	}
	// Half a record that a slave has received is not in the log yet: nothing is unfinished without it, and it is asked for again.
	master := open(t, "/master", store.Options{FS: fsys, NoBackground: true})
	put(t, master, message("T", 0, "whole"))
	slave := open(t, "/slave", store.Options{FS: fsys, NoBackground: true, Role: store.Slave})
	v, err := master.CommitLogData(0, 50)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Release()
	if err := slave.AppendToCommitLog(0, v.Bytes); err != nil {
		t.Fatal(err)
	}
	if slave.MaxPhyOffset() != 50 {
		t.Fatal(slave.MaxPhyOffset())
	}
	if err := slave.Close(); err != nil {
		t.Fatal(err)
	}
	if there, err := checkpoint.AbortExists(fsys, "/slave"); err != nil || there {
		t.Fatal(there, err)
	}
	slave = open(t, "/slave", store.Options{FS: fsys, Role: store.Slave})
	if slave.MaxPhyOffset() != 0 || slave.Stats().Recovery.DroppedBytes != 0 {
		t.Fatalf("%+v", slave.Stats())
	}
}

// Everything that fails while a store opens leaves it closed: the lock free, no goroutine behind, and the next open works.
func TestAFailedOpenCanBeTriedAgain(t *testing.T) {
	failed := 0
	for n := int64(1); ; n++ {
		fsys := faultfs.New()
		s := open(t, "/store", store.Options{FS: fsys, NoBackground: true})
		for range 50 {
			put(t, s, message("T", 0, strings.Repeat("b", 3000)))
		}
		fsys = fsys.Kill()
		fsys.FailOnce(n, nil)
		s, err := store.Open("/store", store.Options{FS: fsys, NoBackground: true})
		if over := fsys.Ops() < n; over {
			if err != nil || failed < 10 {
				t.Fatal(failed, err)
			}
			s.Close()
			return
		}
		if err != nil {
			failed++
			if !errors.Is(err, faultfs.ErrInjected) {
				t.Fatalf("operation %d: %v", n, err)
			}
			if s, err = store.Open("/store", store.Options{FS: fsys, NoBackground: true}); err != nil {
				t.Fatalf("operation %d: second open: %v", n, err)
			}
		}
		if s.MaxOffset("T", 0) != 50 {
			t.Fatalf("operation %d: %d messages", n, s.MaxOffset("T", 0))
		}
		if err := s.Close(); err != nil {
			t.Fatalf("operation %d: %v", n, err)
		}
	}
}
