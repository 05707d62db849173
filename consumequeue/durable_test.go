package consumequeue_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/consumequeue"
)

// count calls do and counts what it asked of the file system, by kind.
func count(t testing.TB, f *faultfs.FS, do func() error) map[faultfs.Kind]int {
	t.Helper()
	n := make(map[faultfs.Kind]int)
	var mu sync.Mutex // queues are flushed side by side
	f.SetHook(func(op faultfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		n[op.Kind]++
		return nil
	})
	defer f.SetHook(nil)
	if err := do(); err != nil {
		t.Fatal(err)
	}
	return n
}

// dispatchTo puts the first unit into each of n queues, eight to a topic.
func dispatchTo(s *consumequeue.Set, from, n int) error {
	for i := from; i < from+n; i++ {
		m := meta(0, int64(100*i), 100)
		m.Topic, m.QueueID = fmt.Sprintf("T%d", i/8), int32(i%8)
		if err := s.Dispatch(m); err != nil {
			return err
		}
	}
	return nil
}

// TestANewQueueCostsNoSync: dispatch waits for no device, whatever it has to make; Flush does, once for each file and directory.
func TestANewQueueCostsNoSync(t *testing.T) {
	f := faultfs.New()
	if err := f.MkdirAll("/store"); err != nil {
		t.Fatal(err)
	}
	s := open(t, small(f))
	n := count(t, f, func() error { return dispatchTo(s, 0, 24) })
	if d := cmp.Diff(map[faultfs.Kind]int{faultfs.OpMap: 24, faultfs.OpAllocate: 24, faultfs.OpMkdir: n[faultfs.OpMkdir]}, n); d != "" {
		t.Errorf("24 new queues (-want +got):\n%s", d)
	}
	n = count(t, f, s.Flush)
	if d := cmp.Diff(map[faultfs.Kind]int{faultfs.OpSync: 24, faultfs.OpSyncDir: 24 + 3 + 2}, n); d != "" {
		t.Errorf("flush of 24 new queues of 3 topics (-want +got):\n%s", d)
	}
	n = count(t, f, func() error {
		if err := dispatchTo(s, 24, 1); err != nil {
			return err
		}
		fill(t, s, 0, 1)
		return s.Flush()
	})
	if n[faultfs.OpSync] != 2 || n[faultfs.OpSyncDir] != 2+2+2 {
		t.Errorf("two more queues: %v", n)
	}
	n = count(t, f, func() error {
		fill(t, s, 1, perFile)
		if err := s.Flush(); err != nil {
			return err
		}
		return s.Flush()
	})
	if d := cmp.Diff(map[faultfs.Kind]int{faultfs.OpSync: 1}, n); d != "" {
		t.Errorf("more units of a queue that is durable (-want +got):\n%s", d)
	}
	if n = count(t, f, func() error { fill(t, s, perFile, perFile+1); return nil }); n[faultfs.OpSync]+n[faultfs.OpSyncDir] != 0 {
		t.Errorf("the next file: %v", n)
	}
}

// TestFlushMakesNewQueuesDurable, with every directory on the way; what was made after it may go.
func TestFlushMakesNewQueuesDurable(t *testing.T) {
	vanished := 0
	for seed := range effort.Seeds(t, 50, 500) {
		f := faultfs.New()
		s := open(t, small(f))
		if err := dispatchTo(s, 0, 10); err != nil {
			t.Fatal(err)
		}
		if err := s.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := dispatchTo(s, 10, 20); err != nil {
			t.Fatal(err)
		}
		if seed%3 == 0 {
			f = f.Kill()
			s = open(t, small(f)) // what it finds is in the page cache only
			if err := s.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		g := f.Crash(rand.New(rand.NewPCG(seed, 3)))
		s = open(t, small(g))
		for i := range 30 {
			q := s.Queue(fmt.Sprintf("T%d", i/8), int32(i%8))
			switch {
			case q != nil && q.MaxOffset() == 1:
			case i < 10 || seed%3 == 0:
				t.Fatalf("seed %d: queue %d was flushed and is gone: %+v", seed, i, boundsOf(q))
			default:
				vanished++
			}
		}
	}
	if vanished == 0 {
		t.Error("nothing ever vanished: the crash is too kind")
	}
}

// TestAQueueMadeSinceTheCheckpointMayVanish, wholly or in part, after an unclean exit: what is left is a shorter queue, which is dispatched again, and nothing is written before that.
func TestAQueueMadeSinceTheCheckpointMayVanish(t *testing.T) {
	whole := func() map[int64][]byte {
		return map[int64][]byte{0: file(run(0, 10)...), 10: file(run(10, 10)...), 20: file(run(20, 3)...)}
	}
	for _, c := range []struct {
		name string
		edit func(map[int64][]byte)
		max  int64
	}{
		{"the last file is empty", func(m map[int64][]byte) { m[20] = nil }, 20},
		{"a middle file is empty", func(m map[int64][]byte) { m[10] = nil }, 10},
		{"a middle file is missing", func(m map[int64][]byte) { delete(m, 10) }, 10},
		{"all but the last are empty", func(m map[int64][]byte) { m[0], m[10] = nil, nil }, 0},
		{"all are empty", func(m map[int64][]byte) { m[0], m[10], m[20] = nil, nil, nil }, 0},
		{"a page is lost", func(m map[int64][]byte) { m[10] = file() }, 10},
		{"an empty one is elsewhere", func(m map[int64][]byte) { delete(m, 20); m[500] = nil }, 20},
	} {
		for _, size := range []int64{0, perFile * consumequeue.UnitSize} {
			t.Run(fmt.Sprintf("%s/size=%d", c.name, size), func(t *testing.T) {
				f := faultfs.New()
				files := whole()
				c.edit(files)
				plant(f, files)
				f.Plant(path.Join(cqDir, "U", "0", fmt.Sprintf("%020d", 0)), file(run(0, 1)...)) // says what size files have
				o := small(f)
				o.FileSize = size
				before := f.Paths()
				for _, readOnly := range []bool{true, false} {
					o.ReadOnly = readOnly
					s, err := consumequeue.Open(o)
					if err != nil {
						t.Fatal(err)
					}
					if got := s.Queue(topic, 0).MaxOffset(); got != c.max {
						t.Errorf("read-only %v: the queue ends at %d, want %d", readOnly, got, c.max)
					}
					if !slices.Equal(before, f.Paths()) {
						t.Errorf("read-only %v: files are now %v", readOnly, f.Paths())
					}
					if !readOnly {
						fill(t, s, c.max, 23)
						if d := cmp.Diff(run(0, 23), held(t, s.Queue(topic, 0))); d != "" {
							t.Errorf("dispatched again (-want +got):\n%s", d)
						}
					}
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
				}
				o.FS = f.Crash(rand.New(rand.NewPCG(1, 2)))
				o.Clean, o.FileSize = true, perFile*consumequeue.UnitSize
				s := open(t, o)
				if d := cmp.Diff(run(0, 23), held(t, s.Queue(topic, 0))); d != "" {
					t.Errorf("after the power went (-want +got):\n%s", d)
				}
			})
		}
	}
}

// TestWhatACrashCannotLeaveIsRefused: another length at any time, and a gap or an empty file after a clean exit.
func TestWhatACrashCannotLeaveIsRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		clean bool
		edit  func(map[int64][]byte)
		want  error
	}{
		{"half a file", false, func(m map[int64][]byte) { m[10] = m[10][:100] }, mappedfile.ErrWrongSize},
		{"half a last file", false, func(m map[int64][]byte) { m[20] = m[20][:100] }, mappedfile.ErrWrongSize},
		{"half a file behind a gap", false, func(m map[int64][]byte) { delete(m, 10); m[20] = m[20][:100] }, mappedfile.ErrWrongSize},
		{"a gap after a clean exit", true, func(m map[int64][]byte) { delete(m, 10) }, mappedfile.ErrCorrupt},
		{"an empty file after a clean exit", true, func(m map[int64][]byte) { m[10] = nil }, mappedfile.ErrWrongSize},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := faultfs.New()
			files := map[int64][]byte{0: file(run(0, 10)...), 10: file(run(10, 10)...), 20: file(run(20, 3)...)}
			c.edit(files)
			plant(f, files)
			o := small(f)
			o.Clean = c.clean
			s, err := consumequeue.Open(o)
			if !errors.Is(err, c.want) {
				t.Errorf("opened: %v, want %v", err, c.want)
			}
			if s != nil {
				_ = s.Close()
			}
		})
	}
}

// TestAFailedSyncOfADirectoryIsReportedForEver: nothing is said to be durable that it holds, also when a later sync succeeds.
func TestAFailedSyncOfADirectoryIsReportedForEver(t *testing.T) {
	for _, dir := range []string{"/store/consumequeue/T0/3", "/store/consumequeue/T1", "/store/consumequeue", "/store"} {
		f := faultfs.New()
		s := open(t, small(f))
		if err := dispatchTo(s, 0, 16); err != nil {
			t.Fatal(err)
		}
		f.SetHook(func(op faultfs.Op) error {
			if op.Kind == faultfs.OpSyncDir && op.Path == dir {
				return faultfs.ErrInjected
			}
			return nil
		})
		first := ""
		for range 3 {
			err := s.Flush()
			if !errors.Is(err, faultfs.ErrInjected) || !strings.Contains(err.Error(), dir) {
				t.Fatalf("%s: flush: %v", dir, err)
			}
			if first == "" {
				first = err.Error()
			} else if first != err.Error() {
				t.Errorf("%s: first %q, then %q", dir, first, err)
			}
			f.SetHook(nil)
		}
		if err := s.Close(); err == nil {
			t.Errorf("%s: Close says that all is well", dir)
		}
	}
}

// TestFlushBesideRemoval: queues and topics come and go while they are flushed.
func TestFlushBesideRemoval(t *testing.T) {
	s := open(t, consumequeue.Options{Dir: path.Join(t.TempDir(), "consumequeue")})
	done := make(chan error, 1)
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if err := s.Flush(); err != nil {
				done <- err
				return
			}
		}
	}()
	next := [3]int64{}
	for i := range int64(effort.N(100, 2000)) {
		for n := range next {
			m := meta(next[n], 100*i, 100)
			m.Topic = fmt.Sprint("T", n)
			if err := s.Dispatch(m); err != nil {
				t.Fatal(err)
			}
			next[n]++
		}
		for n := range next {
			if int64(n) != i%3 && i%5 > 0 {
				continue
			}
			if err := s.Remove(fmt.Sprint("T", n), 0); err != nil {
				t.Fatal(err)
			}
			next[n] = i % 2 * 300005 // in the first file, or behind fillers in the second one
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
