// Package faultfs is mappedfile.FS in memory, able to fail any operation, to fill up, and to lose power.
//
// Each file has two images: what a process sees, and what is on the device. Sync copies exactly its range from the first to the second; names are durable only after SyncDir, the length
// of a file made by MapCreateSparse after a Sync of it, before that a crash may leave it empty. Kill ends the process: the first image survives. Crash cuts the power: of what was not synced, each 4 KiB
// page is kept, lost, or torn at 512-byte sectors, and each directory operation has happened or not. After either the old FS is dead and the returned one is what survived.
//
// A failed Sync behaves as the kernel's: some pages reached the device, the others are dropped, and a later Sync that succeeds does not write them.
// A store into a block that was never allocated, which on a full disk is a fatal signal, panics at the next Sync, Kill or Crash.
//
// Everything is deterministic: what a failed operation leaves follows from its number, what a crash leaves from the generator given to Crash.
package faultfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
)

const (
	pageSize   = 4096
	sectorSize = 512
)

// ErrInjected is what FailFrom and FailOnce return unless told otherwise.
var ErrInjected = fmt.Errorf("faultfs: injected fault: %w", syscall.EIO)

// ErrDead is returned by every use of a file system, or of a handle of it, after Kill or Crash.
var ErrDead = errors.New("faultfs: the process that used this is gone")

// FS is a file system in memory. All methods may be called by any goroutine; stores into mappings must not run beside Kill, Crash, or a Sync of the same range.
type FS struct {
	mu struct {
		sync.Mutex
		state
	}
}

type state struct {
	dead     bool
	readOnly bool
	limit    int64 // bytes of the device; 0 = none
	used     int64
	ops      int64
	failFrom int64
	failOnce map[int64]error
	failErr  error
	hook     func(Op) error
	now      func() time.Time
	seen     tree // what processes see
	durable  tree
	pending  []dirOp // applied to seen, not yet to durable; in order
	locked   map[string]*lock
}

type tree struct {
	files map[string]*node
	dirs  map[string]bool
}

func newTree() tree { return tree{files: map[string]*node{}, dirs: map[string]bool{}} }

type node struct {
	mem, dur  []byte
	allocated []bool         // by page
	dropped   map[int][]byte // pages that a failed sync gave up, as they were
	unsized   bool           // the length is not durable: until a Sync
	modTime   time.Time
	links     int
	maps      int
}

// New returns an empty file system; "/" and "." exist.
func New() *FS {
	f := &FS{}
	f.mu.state = newState()
	return f
}

func newState() state {
	return state{
		failFrom: math.MaxInt64, failOnce: map[int64]error{},
		seen: newTree(), durable: newTree(), locked: map[string]*lock{},
	}
}

// SetLimit makes the device so many bytes large; 0 = unlimited. What is there already stays.
func (f *FS) SetLimit(bytes int64) { f.mu.Lock(); defer f.mu.Unlock(); f.mu.limit = bytes }

// SetReadOnly makes every change fail with EROFS, as a device does that the kernel remounted.
func (f *FS) SetReadOnly(on bool) { f.mu.Lock(); defer f.mu.Unlock(); f.mu.readOnly = on }

// SetNow gives modification times a clock. Without one they count operations.
func (f *FS) SetNow(now func() time.Time) { f.mu.Lock(); defer f.mu.Unlock(); f.mu.now = now }

// Used is how many bytes of the device are taken.
func (f *FS) Used() int64 { f.mu.Lock(); defer f.mu.Unlock(); return f.mu.used }

// Plant puts a file, and its directories, there as if it had lain there for long. Pages of zeros become holes, as in the files of RocketMQ.
func (f *FS) Plant(path string, b []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	path = filepath.Clean(path)
	for d := filepath.Dir(path); !isRoot(d); d = filepath.Dir(d) {
		f.mu.seen.dirs[d], f.mu.durable.dirs[d] = true, true
	}
	n := f.newNode(int64(len(b)))
	copy(n.mem, b)
	n.dur = slices.Clone(n.mem)
	for p := range n.allocated {
		n.allocated[p] = !zero(n.mem[p*pageSize : min((p+1)*pageSize, len(n.mem))])
		if n.allocated[p] {
			f.mu.used += pageSize
		}
	}
	f.setLink(path, n)
	f.mu.durable.files[path] = n
}

// Paths lists the files that a process sees, sorted.
func (f *FS) Paths() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.mu.seen.files))
}

func (f *FS) newNode(size int64) *node {
	return &node{mem: make([]byte, size), dur: make([]byte, size), allocated: make([]bool, (size+pageSize-1)/pageSize), modTime: f.timeLocked()}
}

func (f *FS) timeLocked() time.Time {
	if f.mu.now != nil {
		return f.mu.now()
	}
	return time.Unix(1_700_000_000, 0).Add(time.Duration(f.mu.ops) * time.Millisecond)
}

// setLink makes path name n in what processes see.
func (f *FS) setLink(path string, n *node) {
	if old := f.mu.seen.files[path]; old != nil {
		f.unlinkNode(path, old)
	}
	n.links++
	f.mu.seen.files[path] = n
}

func (f *FS) unlinkNode(path string, n *node) {
	delete(f.mu.seen.files, path)
	n.links--
	f.reclaim(n)
}

// reclaim gives the blocks back once neither a name nor a mapping holds the file.
func (f *FS) reclaim(n *node) {
	if n.links > 0 || n.maps > 0 {
		return
	}
	for p, is := range n.allocated {
		if is {
			f.mu.used -= pageSize
			n.allocated[p] = false
		}
	}
}

// take allocates pages [from, to) of n, or nothing.
func (f *FS) take(n *node, path string, from, to int) error {
	var need int64
	for _, is := range n.allocated[from:to] {
		if !is {
			need += pageSize
		}
	}
	if f.mu.limit > 0 && need > 0 && f.mu.used+need > f.mu.limit {
		return fmt.Errorf("%w: %s: %w (%d bytes needed, %d free of %d)", mappedfile.ErrDiskFull, path, syscall.ENOSPC, need, max(f.mu.limit-f.mu.used, 0), f.mu.limit)
	}
	for p := from; p < to; p++ {
		n.allocated[p] = true
	}
	f.mu.used += need
	return nil
}

func isRoot(dir string) bool { return dir == filepath.Dir(dir) }

func (f *FS) isDir(dir string) bool { return isRoot(dir) || f.mu.seen.dirs[dir] }

func (f *FS) checkParent(what, path string) error {
	if dir := filepath.Dir(path); !f.isDir(dir) {
		return &fs.PathError{Op: what, Path: path, Err: syscall.ENOENT}
	}
	return nil
}

// Map is described at mappedfile.FS.
func (f *FS) Map(path string, size int64, mode mappedfile.MapMode) (mappedfile.Mapping, error) {
	path = filepath.Clean(path)
	create := mode == mappedfile.MapCreate || mode == mappedfile.MapCreateSparse
	if size < 0 || create && size == 0 {
		return nil, fmt.Errorf("map %s: %d bytes: %w", path, size, mappedfile.ErrWrongSize)
	}
	done, fault, err := f.begin(Op{Kind: OpMap, Path: path, Len: size}, mode != mappedfile.MapReadOnly)
	if err != nil {
		return nil, err
	}
	defer done()
	n := f.mu.seen.files[path]
	if !create {
		switch {
		case fault != nil:
			return nil, fault
		case f.isDir(path):
			return nil, fmt.Errorf("map %s: %w", path, mappedfile.ErrNotRegular)
		case n == nil:
			return nil, &fs.PathError{Op: "map", Path: path, Err: syscall.ENOENT}
		case len(n.mem) == 0 || size != 0 && int64(len(n.mem)) != size:
			return nil, &mappedfile.FileError{Path: path, Size: int64(len(n.mem)), Want: size, Err: mappedfile.ErrWrongSize}
		}
		return f.mapping(path, n, mode == mappedfile.MapReadOnly), nil
	}
	if n != nil || f.isDir(path) {
		return nil, &fs.PathError{Op: "create", Path: path, Err: syscall.EEXIST}
	}
	if err := f.checkParent("create", path); err != nil {
		return nil, err
	}
	n = f.newNode(size)
	if fault != nil {
		// The call removed what it had made, and neither is durable.
		if f.dice().IntN(2) == 0 {
			n.unsized = true
			f.mu.pending = append(f.mu.pending, dirOp{kind: dirCreate, path: path, n: n}, dirOp{kind: dirRemove, path: path, n: n})
		}
		return nil, fault
	}
	if mode == mappedfile.MapCreate {
		if err := f.take(n, path, 0, len(n.allocated)); err != nil {
			return nil, err
		}
	}
	f.setLink(path, n)
	f.change(dirOp{kind: dirCreate, path: path, n: n})
	if mode == mappedfile.MapCreate {
		f.syncDir(filepath.Dir(path))
	} else {
		n.unsized = true
	}
	return f.mapping(path, n, false), nil
}

// Stat is described at mappedfile.FS.
func (f *FS) Stat(path string) (mappedfile.Info, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	path = filepath.Clean(path)
	if f.mu.dead {
		return mappedfile.Info{}, ErrDead
	}
	return f.stat(path)
}

func (f *FS) stat(path string) (mappedfile.Info, error) {
	if n := f.mu.seen.files[path]; n != nil {
		return mappedfile.Info{Name: filepath.Base(path), Size: int64(len(n.mem)), Regular: true, ModTime: n.modTime}, nil
	}
	if f.isDir(path) {
		return mappedfile.Info{Name: filepath.Base(path), IsDir: true}, nil
	}
	return mappedfile.Info{}, &fs.PathError{Op: "stat", Path: path, Err: syscall.ENOENT}
}

// ReadFile is described at mappedfile.FS.
func (f *FS) ReadFile(path string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	path = filepath.Clean(path)
	if f.mu.dead {
		return nil, ErrDead
	}
	n := f.mu.seen.files[path]
	if n == nil {
		err := error(syscall.ENOENT)
		if f.isDir(path) {
			err = syscall.EISDIR
		}
		return nil, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return append([]byte{}, n.mem...), nil
}

// WriteFileDurable is described at mappedfile.FS.
func (f *FS) WriteFileDurable(path string, b []byte) error {
	path = filepath.Clean(path)
	done, fault, err := f.begin(Op{Kind: OpWriteFile, Path: path, Len: int64(len(b))}, true)
	if err != nil {
		return err
	}
	defer done()
	if err := f.checkParent("write", path); err != nil {
		return err
	}
	if f.isDir(path) {
		return &fs.PathError{Op: "write", Path: path, Err: syscall.EISDIR}
	}
	n := f.newNode(int64(len(b)))
	copy(n.mem, b)
	copy(n.dur, b)
	op := dirOp{kind: dirCreate, path: path, n: n}
	if fault != nil {
		leaves := f.dice().IntN(3)
		if leaves < 2 && f.take(n, path, 0, len(n.allocated)) != nil {
			return fault
		}
		switch leaves {
		case 0: // the error came after the rename
			f.setLink(path, n)
			f.change(op)
		case 1: // the temporary file could not be removed
			op.path += ".tmp"
			f.setLink(op.path, n)
			f.change(op)
		}
		return fault
	}
	if err := f.take(n, path, 0, len(n.allocated)); err != nil {
		return err
	}
	f.setLink(path, n)
	f.change(op)
	f.syncDir(filepath.Dir(path))
	return nil
}

// ReadDir is described at mappedfile.FS.
func (f *FS) ReadDir(dir string) ([]mappedfile.Info, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir = filepath.Clean(dir)
	if f.mu.dead {
		return nil, ErrDead
	}
	if !f.isDir(dir) {
		return nil, &fs.PathError{Op: "read directory", Path: dir, Err: syscall.ENOENT}
	}
	var infos []mappedfile.Info
	for _, path := range f.childrenLocked(dir) {
		fi, err := f.stat(path)
		if err != nil {
			return nil, err
		}
		infos = append(infos, fi)
	}
	return infos, nil
}

func (f *FS) childrenLocked(dir string) []string {
	var paths []string
	for p := range f.mu.seen.files {
		if filepath.Dir(p) == dir {
			paths = append(paths, p)
		}
	}
	for p := range f.mu.seen.dirs {
		if filepath.Dir(p) == dir {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	return paths
}

// MkdirAll is described at mappedfile.FS.
func (f *FS) MkdirAll(dir string) error {
	dir = filepath.Clean(dir)
	f.mu.Lock()
	there, dead := f.isDir(dir), f.mu.dead
	f.mu.Unlock()
	if there && !dead {
		return nil
	}
	done, fault, err := f.begin(Op{Kind: OpMkdir, Path: dir}, true)
	if err != nil {
		return err
	}
	defer done()
	var missing []string
	for d := dir; !f.isDir(d); d = filepath.Dir(d) {
		if f.mu.seen.files[d] != nil {
			return fmt.Errorf("make directory %s: %s is a file", dir, d)
		}
		missing = append(missing, d)
	}
	if fault != nil {
		missing = missing[f.dice().IntN(len(missing)+1):]
	}
	for _, d := range slices.Backward(missing) {
		f.mu.seen.dirs[d] = true
		f.change(dirOp{kind: dirMkdir, path: d})
		if fault == nil {
			f.syncDir(filepath.Dir(d))
		}
	}
	return fault
}

// Mkdir is described at mappedfile.FS.
func (f *FS) Mkdir(dir string) error {
	dir = filepath.Clean(dir)
	done, fault, err := f.begin(Op{Kind: OpMkdir, Path: dir}, true)
	if err != nil {
		return err
	}
	defer done()
	switch {
	case fault != nil:
		return fault
	case f.isDir(dir) || f.mu.seen.files[dir] != nil:
		return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.EEXIST}
	}
	if err := f.checkParent("mkdir", dir); err != nil {
		return err
	}
	f.mu.seen.dirs[dir] = true
	f.change(dirOp{kind: dirMkdir, path: dir})
	return nil
}

// Remove is described at mappedfile.FS.
func (f *FS) Remove(path string) error {
	path = filepath.Clean(path)
	done, fault, err := f.begin(Op{Kind: OpRemove, Path: path}, true)
	if err != nil {
		return err
	}
	defer done()
	n := f.mu.seen.files[path]
	switch {
	case fault != nil:
		return fault
	case f.isDir(path):
		return fmt.Errorf("remove %s: it is a directory", path)
	case n == nil:
		return &fs.PathError{Op: "remove", Path: path, Err: syscall.ENOENT}
	}
	f.unlinkNode(path, n)
	f.change(dirOp{kind: dirRemove, path: path, n: n})
	return nil
}

// RemoveDir is described at mappedfile.FS.
func (f *FS) RemoveDir(dir string) error {
	dir = filepath.Clean(dir)
	done, fault, err := f.begin(Op{Kind: OpRemove, Path: dir}, true)
	if err != nil {
		return err
	}
	defer done()
	switch {
	case fault != nil:
		return fault
	case f.mu.seen.files[dir] != nil:
		return fmt.Errorf("remove directory %s: it is a file", dir)
	case !f.mu.seen.dirs[dir]:
		return &fs.PathError{Op: "remove directory", Path: dir, Err: syscall.ENOENT}
	case len(f.childrenLocked(dir)) > 0:
		return &fs.PathError{Op: "remove directory", Path: dir, Err: syscall.ENOTEMPTY}
	}
	delete(f.mu.seen.dirs, dir)
	f.change(dirOp{kind: dirRmdir, path: dir})
	return nil
}

// Rename is described at mappedfile.FS. Directories move with what is in them.
func (f *FS) Rename(oldPath, newPath string) error {
	oldPath, newPath = filepath.Clean(oldPath), filepath.Clean(newPath)
	done, fault, err := f.begin(Op{Kind: OpRename, Path: oldPath}, true)
	if err != nil {
		return err
	}
	defer done()
	if fault != nil {
		return fault
	}
	if err := f.checkParent("rename", newPath); err != nil {
		return err
	}
	if f.mu.seen.dirs[oldPath] {
		if f.isDir(newPath) || f.mu.seen.files[newPath] != nil || newPath == oldPath || strings.HasPrefix(newPath, oldPath+string(filepath.Separator)) {
			return &fs.PathError{Op: "rename", Path: newPath, Err: syscall.EEXIST}
		}
		f.mu.seen.moveDir(oldPath, newPath)
		f.change(dirOp{kind: dirMoveDir, path: oldPath, to: newPath})
		return nil
	}
	n := f.mu.seen.files[oldPath]
	switch {
	case n == nil:
		return &fs.PathError{Op: "rename", Path: oldPath, Err: syscall.ENOENT}
	case f.isDir(newPath):
		return &fs.PathError{Op: "rename", Path: newPath, Err: syscall.EISDIR}
	case oldPath == newPath:
		return nil
	}
	n.links++ // across the move
	f.unlinkNode(oldPath, n)
	f.setLink(newPath, n)
	n.links--
	f.change(dirOp{kind: dirRename, path: oldPath, to: newPath, n: n})
	return nil
}

// SyncDir is described at mappedfile.FS.
func (f *FS) SyncDir(dir string) error {
	dir = filepath.Clean(dir)
	done, fault, err := f.begin(Op{Kind: OpSyncDir, Path: dir}, true)
	if err != nil {
		return err
	}
	defer done()
	if fault != nil {
		return fault
	}
	if !f.isDir(dir) {
		return &fs.PathError{Op: "sync directory", Path: dir, Err: syscall.ENOENT}
	}
	f.syncDir(dir)
	return nil
}

type lock struct {
	f    *FS
	path string
}

// Lock is described at mappedfile.FS. Kill and Crash release it.
func (f *FS) Lock(path string) (io.Closer, error) {
	path = filepath.Clean(path)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.mu.dead:
		return nil, ErrDead
	case f.mu.locked[path] != nil:
		return nil, &mappedfile.LockedError{Path: path, PID: os.Getpid()}
	case f.mu.readOnly:
		return nil, &fs.PathError{Op: "lock", Path: path, Err: syscall.EROFS}
	}
	if err := f.checkParent("lock", path); err != nil {
		return nil, err
	}
	if f.mu.seen.files[path] == nil {
		n := f.newNode(4)
		copy(n.mem, "lock")
		f.setLink(path, n)
		f.change(dirOp{kind: dirCreate, path: path, n: n})
		n.allocated[0] = true
		f.mu.used += pageSize
	}
	l := &lock{f, path}
	f.mu.locked[path] = l
	return l, nil
}

func (l *lock) Close() error {
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	if l.f.mu.dead {
		return ErrDead
	}
	if l.f.mu.locked[l.path] != l {
		return fmt.Errorf("unlock %s: %w", l.path, mappedfile.ErrClosed)
	}
	delete(l.f.mu.locked, l.path)
	return nil
}

// Free is described at mappedfile.FS.
func (f *FS) Free(string) (free, total int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.dead {
		return 0, 0, ErrDead
	}
	total = f.mu.limit
	if total == 0 {
		total = 1 << 40
	}
	return max(total-f.mu.used, 0), total, nil
}
