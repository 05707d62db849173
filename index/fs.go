package index

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// guardFS keeps failed writes of the manifest from Pebble, which ends the process over them, or stops with its locks held; a full disk is not worth that for an index. The first write that fails, of whatever file, cuts the directory off: from then on
// changes of the manifest seem to succeed and do not happen, and all others fail. The directory stays as a loss of power at that moment would have left it, which Pebble recovers from; the database can
// still be read, since no file that it uses goes away, and be closed.
//
// Nothing is locked: the store's lock covers the directory.
type guardFS struct {
	vfs.FS
	failed atomic.Pointer[error] // of the first write that failed
	held   struct {
		sync.Mutex
		files map[*guardFile]struct{} // not closed yet
	}
}

// hold makes f a file of g.
func (g *guardFS) hold(f vfs.File, vital bool) vfs.File {
	h := &guardFile{f, g, vital}
	g.held.Lock()
	defer g.held.Unlock()
	if g.held.files == nil {
		g.held.files = map[*guardFile]struct{}{}
	}
	g.held.files[h] = struct{}{}
	return h
}

// closeLeft closes what a Pebble that failed left open: the manifest, a log.
func (g *guardFS) closeLeft() {
	g.held.Lock()
	left := slices.Collect(maps.Keys(g.held.files))
	g.held.Unlock()
	for _, f := range left {
		f.Close()
	}
}

var errCut = fmt.Errorf("an earlier write failed: %w", os.ErrPermission) // Pebble does not try another way then

// cut is the error that cut the directory off; nil while it is not.
func (g *guardFS) cut() error {
	if p := g.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// change does op unless the directory is cut off. An error of op cuts it off.
func (g *guardFS) change(op func() error) error {
	if g.failed.Load() != nil {
		return errCut
	}
	err := op()
	if err != nil {
		g.failed.CompareAndSwap(nil, &err)
	}
	return err
}

// vital reports whether Pebble cannot bear that a change of this file fails.
func (g *guardFS) vital(name string) bool {
	name = g.PathBase(name)
	return strings.HasPrefix(name, "MANIFEST-") || strings.HasPrefix(name, "marker.")
}

func (g *guardFS) file(name string, open func() (vfs.File, error)) (f vfs.File, err error) {
	vital := g.vital(name)
	err = g.change(func() (err error) {
		f, err = open()
		return err
	})
	switch {
	case err == nil:
		return g.hold(f, vital), nil
	case vital:
		return nowhere{}, nil
	}
	return nil, err
}

// Create opens a new file.
func (g *guardFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return g.file(name, func() (vfs.File, error) { return g.FS.Create(name, c) })
}

// ReuseForWrite is as Create.
func (g *guardFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return g.file(newname, func() (vfs.File, error) { return g.FS.ReuseForWrite(oldname, newname, c) })
}

// OpenReadWrite is as Create.
func (g *guardFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return g.file(name, func() (vfs.File, error) { return g.FS.OpenReadWrite(name, c, opts...) })
}

// OpenDir opens a directory for syncing, which is part of a change of the manifest.
func (g *guardFS) OpenDir(name string) (vfs.File, error) {
	f, err := g.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return g.hold(f, true), nil
}

// Rename moves a file.
func (g *guardFS) Rename(oldname, newname string) error {
	return g.change(func() error { return g.FS.Rename(oldname, newname) })
}

// Link may be impossible on this file system: Pebble copies then.
func (g *guardFS) Link(oldname, newname string) error {
	if g.failed.Load() != nil {
		return errCut
	}
	return g.FS.Link(oldname, newname)
}

// Remove deletes a file, which may be missing.
func (g *guardFS) Remove(name string) error {
	if g.failed.Load() != nil {
		return nil
	}
	return g.FS.Remove(name)
}

// RemoveAll is as Remove.
func (g *guardFS) RemoveAll(name string) error {
	if g.failed.Load() != nil {
		return nil
	}
	return g.FS.RemoveAll(name)
}

// MkdirAll makes a directory.
func (g *guardFS) MkdirAll(dir string, perm os.FileMode) error {
	return g.change(func() error { return g.FS.MkdirAll(dir, perm) })
}

// Lock locks nothing.
func (g *guardFS) Lock(string) (io.Closer, error) { return nopCloser{}, nil }

// Unwrap is the file system below.
func (g *guardFS) Unwrap() vfs.FS { return g.FS }

type nopCloser struct{}

func (nopCloser) Close() error { return nil }

// guardFile is a file of a guardFS that is written.
type guardFile struct {
	vfs.File
	g     *guardFS
	vital bool
}

func (f *guardFile) change(op func() error) error {
	err := f.g.change(op)
	if f.vital {
		return nil
	}
	return err
}

// Close may be called again, which does nothing.
func (f *guardFile) Close() error {
	f.g.held.Lock()
	_, open := f.g.held.files[f]
	delete(f.g.held.files, f)
	f.g.held.Unlock()
	if !open {
		return nil
	}
	return f.File.Close()
}

func (f *guardFile) Write(p []byte) (n int, err error) {
	err = f.change(func() error { n, err = f.File.Write(p); return err })
	if err == nil {
		n = len(p)
	}
	return n, err
}

func (f *guardFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.change(func() error { n, err = f.File.WriteAt(p, off); return err })
	if err == nil {
		n = len(p)
	}
	return n, err
}

func (f *guardFile) Preallocate(off, n int64) error {
	return f.change(func() error { return f.File.Preallocate(off, n) })
}

func (f *guardFile) Sync() error     { return f.change(f.File.Sync) }
func (f *guardFile) SyncData() error { return f.change(f.File.SyncData) }

func (f *guardFile) SyncTo(n int64) (full bool, err error) {
	err = f.change(func() error { full, err = f.File.SyncTo(n); return err })
	return full, err
}

// nowhere is a manifest whose creation failed.
type nowhere struct{}

func (nowhere) Read([]byte) (int, error)               { return 0, io.EOF }
func (nowhere) ReadAt([]byte, int64) (int, error)      { return 0, io.EOF }
func (nowhere) Write(p []byte) (int, error)            { return len(p), nil }
func (nowhere) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }
func (nowhere) Close() error                           { return nil }
func (nowhere) Preallocate(_, _ int64) error           { return nil }
func (nowhere) Stat() (vfs.FileInfo, error)            { return nil, os.ErrNotExist }
func (nowhere) Sync() error                            { return nil }
func (nowhere) SyncData() error                        { return nil }
func (nowhere) SyncTo(int64) (bool, error)             { return true, nil }
func (nowhere) Prefetch(_, _ int64) error              { return nil }
func (nowhere) Fd() uintptr                            { return vfs.InvalidFd }

var errReadOnly = errors.New("the index is open for reading only")

// readOnlyFS lets a database be read that another process may have open: it changes nothing, and does not look for the lock.
type readOnlyFS struct{ vfs.FS }

func (readOnlyFS) Create(string, vfs.DiskWriteCategory) (vfs.File, error) { return nil, errReadOnly }
func (readOnlyFS) ReuseForWrite(_, _ string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, errReadOnly
}
func (readOnlyFS) OpenReadWrite(string, vfs.DiskWriteCategory, ...vfs.OpenOption) (vfs.File, error) {
	return nil, errReadOnly
}
func (readOnlyFS) Rename(_, _ string) error           { return errReadOnly }
func (readOnlyFS) Link(_, _ string) error             { return errReadOnly }
func (readOnlyFS) Remove(string) error                { return errReadOnly }
func (readOnlyFS) RemoveAll(string) error             { return errReadOnly }
func (readOnlyFS) MkdirAll(string, os.FileMode) error { return errReadOnly }
func (readOnlyFS) Lock(string) (io.Closer, error)     { return nopCloser{}, nil }
func (f readOnlyFS) Unwrap() vfs.FS                   { return f.FS }
