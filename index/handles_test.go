package index_test

import (
	"errors"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/mqstore/mqstore/index"
)

// handles counts what is open of each file.
type handles struct {
	vfs.FS
	mu   sync.Mutex
	open map[string]int
}

type handle struct {
	vfs.File
	closed func()
}

func (h handle) Close() error {
	h.closed()
	return h.File.Close()
}

func (h *handles) held(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open[name]++
	return handle{f, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.open[name]--; h.open[name] == 0 {
			delete(h.open, name)
		}
	}}, nil
}

func (h *handles) names() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.open))
}

func (h *handles) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := h.FS.Create(name, c)
	return h.held(name, f, err)
}

func (h *handles) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := h.FS.ReuseForWrite(oldname, newname, c)
	return h.held(newname, f, err)
}

func (h *handles) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := h.FS.Open(name, opts...)
	return h.held(name, f, err)
}

func (h *handles) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := h.FS.OpenReadWrite(name, c, opts...)
	return h.held(name, f, err)
}

func (h *handles) OpenDir(name string) (vfs.File, error) {
	f, err := h.FS.OpenDir(name)
	return h.held(name, f, err)
}

// An Open that a full disk fails is tried again and again, as long as the disk is full: it must not hold a file each time. From the n-th change of the directory on every write fails, for n = 1, 2, …
func TestFailedOpenHoldsNoFile(t *testing.T) {
	for _, what := range []string{"new", "existing"} {
		t.Run(what, func(t *testing.T) {
			for n := int64(1); ; n++ {
				var l fakeLog
				for i := range 50 {
					l.put(meta("T", int64(i), "u", "k"), 100)
				}
				var count atomic.Int64
				var on atomic.Bool
				disk := &handles{open: map[string]int{}, FS: errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
					if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && on.Load() && count.Add(1) >= n {
						return &os.PathError{Op: "write", Path: op.Path, Err: syscall.ENOSPC}
					}
					return nil
				}))}
				o := l.options("dir").WithFS(disk)
				if what == "existing" {
					x, err := index.Open(o)
					if err != nil {
						t.Fatal(err)
					}
					if err := l.feed(x, 1000); err != nil {
						t.Fatal(err)
					}
					if err := x.Flush(); err != nil {
						t.Fatal(err)
					}
					if err := x.Close(); err != nil {
						t.Fatal(err)
					}
				}
				on.Store(true)
				x, err := index.Open(o)
				if err == nil {
					x.Close()
					if left := disk.names(); len(left) > 0 {
						t.Fatalf("n = %d: open after Close: %q", n, left)
					}
					if n < 5 {
						t.Fatalf("only %d changes were failed", n-1)
					}
					return
				}
				if !errors.Is(err, syscall.ENOSPC) {
					t.Fatalf("n = %d: %v", n, err)
				}
				if left := disk.names(); len(left) > 0 {
					t.Fatalf("n = %d: open after %v: %q", n, err, left)
				}
			}
		})
	}
}
