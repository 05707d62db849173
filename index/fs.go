package index

import (
	"errors"
	"io"
	"os"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// guardFS keeps failed writes from Pebble. Pebble ends the process, or stops with its locks held, when a write to its manifest fails; a full disk is not worth that for an index. So the first write that fails cuts the directory off: this
// and every later change seems to succeed and does not happen. The directory stays as a loss of power at that moment would have left it, which Pebble recovers from, and the database can still be read and be closed.
//
// Nothing is locked: the store's lock covers the directory.
type guardFS struct {
	vfs.FS
	failed atomic.Pointer[error] // of the first write that failed
}

// cut is the error that cut the directory off; nil while it is not.
func (g *guardFS) cut() error {
	if p := g.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// change does op unless the directory is cut off.
func (g *guardFS) change(op func() error) error {
	if g.failed.Load() != nil {
		return nil
	}
	if err := op(); err != nil {
		g.failed.CompareAndSwap(nil, &err)
	}
	return nil
}

// attempt is change for operations whose failure Pebble knows how to take.
func (g *guardFS) attempt(op func() error) error {
	if g.failed.Load() != nil {
		return nil
	}
	return op()
}

func (g *guardFS) file(open func() (vfs.File, error)) (vfs.File, error) {
	var f vfs.File
	g.change(func() (err error) {
		f, err = open()
		return err
	})
	if f == nil {
		return nowhere{}, nil
	}
	return &guardFile{f, g}, nil
}

// Create opens a new file, or one that leads nowhere.
func (g *guardFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return g.file(func() (vfs.File, error) { return g.FS.Create(name, c) })
}

// ReuseForWrite is as Create.
func (g *guardFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return g.file(func() (vfs.File, error) { return g.FS.ReuseForWrite(oldname, newname, c) })
}

// OpenReadWrite is as Create.
func (g *guardFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return g.file(func() (vfs.File, error) { return g.FS.OpenReadWrite(name, c, opts...) })
}

// OpenDir opens a directory for syncing.
func (g *guardFS) OpenDir(name string) (vfs.File, error) {
	f, err := g.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &guardFile{f, g}, nil
}

// Rename moves a file.
func (g *guardFS) Rename(oldname, newname string) error {
	return g.change(func() error { return g.FS.Rename(oldname, newname) })
}

// Link may be impossible on this file system: Pebble copies then.
func (g *guardFS) Link(oldname, newname string) error {
	return g.attempt(func() error { return g.FS.Link(oldname, newname) })
}

// Remove deletes a file, which may be missing.
func (g *guardFS) Remove(name string) error {
	return g.attempt(func() error { return g.FS.Remove(name) })
}

// RemoveAll deletes a directory.
func (g *guardFS) RemoveAll(name string) error {
	return g.attempt(func() error { return g.FS.RemoveAll(name) })
}

// MkdirAll makes a directory.
func (g *guardFS) MkdirAll(dir string, perm os.FileMode) error {
	return g.attempt(func() error { return g.FS.MkdirAll(dir, perm) })
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
	g *guardFS
}

func (f *guardFile) Write(p []byte) (int, error) {
	f.g.change(func() error { _, err := f.File.Write(p); return err })
	return len(p), nil
}

func (f *guardFile) WriteAt(p []byte, off int64) (int, error) {
	f.g.change(func() error { _, err := f.File.WriteAt(p, off); return err })
	return len(p), nil
}

func (f *guardFile) Preallocate(off, n int64) error {
	return f.g.change(func() error { return f.File.Preallocate(off, n) })
}

func (f *guardFile) Sync() error     { return f.g.change(f.File.Sync) }
func (f *guardFile) SyncData() error { return f.g.change(f.File.SyncData) }

func (f *guardFile) SyncTo(n int64) (full bool, err error) {
	return full, f.g.change(func() error { full, err = f.File.SyncTo(n); return err })
}

// nowhere is a file whose creation failed.
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
