package mappedfile_test

import (
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
)

// watched is a faultfs that tells when an operation on a path has begun, and holds it back until allowed.
func watched(fsys *faultfs.FS, kind faultfs.Kind, path string) (begun chan struct{}, allow chan struct{}) {
	begun, allow = make(chan struct{}), make(chan struct{})
	fsys.SetHook(func(op faultfs.Op) error {
		if op.Kind == kind && op.Path == path {
			close(begun)
			<-allow
		}
		return nil
	})
	return begun, allow
}

func TestNextFileIsMadeAheadWhileTheWriterGoesOn(t *testing.T) { synctest.Test(t, testAhead) }

func testAhead(t *testing.T) {
	fsys, dir := faultfs.New(), filepath.FromSlash("/q")
	next := filepath.Join(dir, "00000000000000008192")
	begun, allow := watched(fsys, faultfs.OpMap, next)
	s := open(t, mappedfile.SequenceOptions{FS: fsys, Dir: dir, Ahead: true})
	mustPut(t, s, block('a', fileSize/2-1))
	synctest.Wait()
	select {
	case <-begun:
		t.Error("the next file is made before the current one is half full")
	default:
	}
	mustPut(t, s, block('a', 1))
	<-begun
	mustPut(t, s, block('a', fileSize/2)) // not held up
	rolled := make(chan error)
	go func() { rolled <- s.Roll() }()
	close(allow)
	ok(t, <-rolled)
	var made int
	fsys.SetHook(func(op faultfs.Op) error {
		if op.Path == next && op.Kind == faultfs.OpMap {
			made++
		}
		return nil
	})
	mustPut(t, s, block('b', 10))
	if made != 0 || s.Max() != fileSize+10 {
		t.Errorf("made again %d times, max %d", made, s.Max())
	}
}

func TestFileMadeAheadAndNeverUsedIsRemoved(t *testing.T) {
	for what, act := range map[string]func(s *mappedfile.Sequence) error{
		"close":    func(s *mappedfile.Sequence) error { return s.Close() },
		"truncate": func(s *mappedfile.Sequence) error { return s.TruncateTo(10, nil) },
		"setmax":   func(s *mappedfile.Sequence) error { return s.SetMax(10) },
		"remove":   func(s *mappedfile.Sequence) error { return s.Remove() },
	} {
		t.Run(what, func(t *testing.T) {
			fsys, dir := faultfs.New(), filepath.FromSlash("/q")
			next := filepath.Join(dir, "00000000000000008192")
			begun, allow := watched(fsys, faultfs.OpMap, next)
			s := open(t, mappedfile.SequenceOptions{FS: fsys, Dir: dir, Ahead: true})
			mustPut(t, s, block('a', fileSize/2))
			<-begun
			close(allow)
			ok(t, act(s))
			fsys.SetHook(nil)
			want := 1
			if what == "remove" {
				want = 0
			}
			if got := fsys.Paths(); len(got) != want {
				t.Errorf("left: %q", got)
			}
			if what != "truncate" && what != "setmax" {
				return
			}
			for range 4 { // and the sequence goes on
				mustPut(t, s, block('b', fileSize/2))
			}
		})
	}
}

func TestFlushHoldsUpNeitherWriterNorReaders(t *testing.T) {
	fsys, dir := faultfs.New(), filepath.FromSlash("/q")
	s := open(t, mappedfile.SequenceOptions{FS: fsys, Dir: dir})
	mustPut(t, s, block('a', 100))
	begun, allow := watched(fsys, faultfs.OpSync, filepath.Join(dir, "00000000000000000000"))
	flushed := make(chan int64)
	go func() {
		n, err := s.Flush()
		if err != nil {
			t.Error(err)
		}
		flushed <- n
	}()
	<-begun
	mustPut(t, s, block('b', fileSize/2))
	ok(t, s.Roll())
	mustPut(t, s, block('b', 100))
	v, err := s.View(0, 100)
	ok(t, err)
	v.Release()
	if s.Flushed() != 0 {
		t.Errorf("flushed %d while the sync runs", s.Flushed())
	}
	close(allow)
	if n := <-flushed; n != 100 {
		t.Errorf("flushed %d: what came after it began was not in it", n)
	}
	fsys.SetHook(nil)
	if n, err := s.Flush(); err != nil || n != fileSize+100 {
		t.Errorf("flushed %d, %v", n, err)
	}
}

// A bubble of synctest waits for ever if the goroutine spins.
func TestIdlePipelineSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, o := range []mappedfile.SequenceOptions{
			{Prewrite: true}, {Prewrite: true, Ahead: true}, {Prewrite: true, Sparse: true, AllocWindow: 1}, {Prewrite: true, Sparse: true, AllocWindow: 4096}, {Ahead: true, Lay: true},
		} {
			o.FS, o.Dir, o.FileSize = faultfs.New(), filepath.FromSlash("/q"), 8<<20
			s := open(t, o)
			for _, n := range []int{1, 100, 5000, 1 << 20, 3 << 20} {
				mustPut(t, s, block('a', n))
				synctest.Wait()
			}
			ok(t, s.TruncateTo(50, nil))
			synctest.Wait()
			mustPut(t, s, block('a', 50))
			synctest.Wait()
			ok(t, s.Close())
		}
	})
}

func TestFailedWriteAheadIsAFailedFlush(t *testing.T) {
	fsys := faultfs.New()
	failed := make(chan struct{})
	once := sync.OnceFunc(func() { close(failed) }) // the writer's Publish may have it tried again
	fsys.SetHook(func(op faultfs.Op) error {
		if op.Kind == faultfs.OpPrewrite {
			once()
			return faultfs.ErrInjected
		}
		return nil
	})
	s := open(t, mappedfile.SequenceOptions{FS: fsys, Dir: filepath.FromSlash("/q"), Prewrite: true})
	mustPut(t, s, block('a', 100))
	<-failed
	ok(t, s.Close()) // waits for the goroutine
	wantErr(t, "the sequence's failure", s.Err(), faultfs.ErrInjected)
}

func TestAppendsAndViewsAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race build checks views by copying them")
	}
	s := open(t, mappedfile.SequenceOptions{FS: faultfs.New(), Dir: filepath.FromSlash("/q"), FileSize: 1 << 20})
	b := block('a', 100)
	n := testing.AllocsPerRun(1000, func() {
		dst, off, err := s.Reserve(len(b))
		if err != nil {
			t.Fatal(err)
		}
		copy(dst, b)
		s.Publish(off + int64(len(b)))
		v, err := s.View(off, len(b))
		if err != nil {
			t.Fatal(err)
		}
		v.Release()
	})
	if n != 0 {
		t.Errorf("%v allocations per append and view", n)
	}
}
