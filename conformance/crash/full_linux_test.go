package crash

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mqstore/mqstore/store"
)

// TestDiskFullOnARealFileSystem: a small file system fills up under a running store. No signal ends the process, puts are refused and go on when there is room.
func TestDiskFullOnARealFileSystem(t *testing.T) {
	mount := t.TempDir()
	if err := unix.Mount("tmpfs", mount, "tmpfs", 0, "size=3m"); err != nil {
		t.Skipf("mounting a small tmpfs needs root: %v", err)
	}
	defer func() {
		if err := unix.Unmount(mount, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	}()
	// Something else takes room, and will give it back.
	ballast := filepath.Join(mount, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	o := store.Options{SegmentSize: 256 << 10, QueueFileSize: 8000, FlushEvery: 5 * time.Millisecond, QueueFlushEvery: 5 * time.Millisecond, CheckpointEvery: 50 * time.Millisecond}
	for _, mode := range []store.FlushMode{store.AsyncFlush, store.SyncFlush} {
		t.Run(mode.String(), func(t *testing.T) {
			o.FlushMode = mode
			dir := filepath.Join(mount, mode.String())
			s, err := store.Open(dir, o)
			if err != nil {
				t.Fatal(err)
			}
			accepted := 0
			put := func() error {
				_, err := s.Put(ctx, plain("A", int32(accepted%40), fmt.Sprintf("%0700d", accepted)))
				if err == nil {
					accepted++
				}
				return err
			}
			for err = nil; err == nil && accepted < 10000; {
				err = put()
			}
			if !errors.Is(err, store.ErrDiskFull) {
				t.Fatalf("after %d messages: %v", accepted, err)
			}
			t.Logf("%d messages, then: %v", accepted, err)
			for i := range 40 {
				readAll(t, s, "A", int32(i))
			}
			if err := os.Remove(ballast); err != nil {
				t.Fatal(err)
			}
			for range 200 {
				if err := put(); err != nil {
					t.Fatalf("put with room: %v", err)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatalf("close: %v", err)
			}
			s, err = store.Open(dir, o)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for i := range 40 {
				n += len(readAll(t, s, "A", int32(i)))
			}
			if err := s.Close(); err != nil || n != accepted {
				t.Fatalf("%d messages of %d, %v", n, accepted, err)
			}
			if err := errors.Join(os.RemoveAll(dir), os.WriteFile(ballast, make([]byte, 1<<20), 0o600)); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestDiskTooSmallForOneSegment (a file system of 1 MiB, segments of 8 MiB): the first put says so, and the store stays readable.
func TestDiskTooSmallForOneSegment(t *testing.T) {
	mount := t.TempDir()
	if err := unix.Mount("tmpfs", mount, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("mounting a small tmpfs needs root: %v", err)
	}
	defer func() {
		if err := unix.Unmount(mount, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	}()
	s, err := store.Open(filepath.Join(mount, "store"), store.Options{SegmentSize: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := s.Put(ctx, plain("A", 0, "x")); !errors.Is(err, store.ErrDiskFull) {
			t.Fatalf("put: %v", err)
		}
	}
	if r, err := s.Get(ctx, store.GetRequest{Topic: "A"}); err != nil || r.Status != store.NoMessageInQueue {
		t.Fatalf("get: %v %v", r, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
