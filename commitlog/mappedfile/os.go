package mappedfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/edsrzf/mmap-go"
)

const (
	filePerm = 0o644
	dirPerm  = 0o755
	tmpExt   = ".tmp" // of WriteFileDurable's temporary file
	zeroStep = 4096   // see writeZeros
)

var pageSize = int64(os.Getpagesize())

// OS is the operating system's file system.
func OS() FS { return osFS{} }

type osFS struct{}

// Map needs no descriptor after it returned: ten thousand queues are ten thousand mappings, but not as many open files.
func (osFS) Map(path string, size int64, mode MapMode) (Mapping, error) {
	if size < 0 || size > math.MaxInt || size == 0 && (mode == MapCreate || mode == MapCreateSparse) {
		return nil, fmt.Errorf("map %s: %d bytes: %w", path, size, ErrWrongSize)
	}
	switch mode {
	case MapCreate, MapCreateSparse:
		return createMapped(path, size, mode == MapCreate)
	case MapExisting, MapReadOnly:
		return openMapped(path, size, mode == MapReadOnly)
	default:
		return nil, fmt.Errorf("map %s: unknown mode %d", path, mode)
	}
}

func createMapped(path string, size int64, allocate bool) (_ *osMapping, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, filePerm)
	if err != nil {
		return nil, diskFull(fmt.Errorf("create mapped file: %w", err), path, size)
	}
	defer func() {
		_ = f.Close()
		if err != nil {
			_ = os.Remove(path)
		}
	}()
	// Blocks come before the length: a crash in between leaves an empty file, which OpenSequence removes, and never one of a wrong length.
	written := false
	if allocate {
		switch err = fallocate(f, 0, size); {
		case errors.Is(err, errors.ErrUnsupported):
			written = true
		case err != nil:
			return nil, diskFull(fmt.Errorf("allocate %s: %w", path, err), path, size)
		}
	}
	if err = f.Truncate(size); err != nil {
		return nil, diskFull(err, path, size)
	}
	if written {
		if err = writeZeros(f, 0, size); err != nil {
			return nil, diskFull(err, path, size)
		}
	}
	if allocate {
		if err = f.Sync(); err != nil {
			return nil, diskFull(err, path, size)
		}
		if err = syncDir(filepath.Dir(path)); err != nil {
			return nil, err
		}
	}
	fi, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("map file: %w", err)
	}
	return mapFile(f, fi, path, false)
}

func openMapped(path string, size int64, readOnly bool) (*osMapping, error) {
	flag := os.O_RDWR
	if readOnly {
		flag = os.O_RDONLY
	}
	if heldHere(path) { // closing any descriptor of the file would drop the lock
		return nil, fmt.Errorf("map %s: it is this process's lock file", path)
	}
	f, err := os.OpenFile(path, flag|openNonblock, 0)
	if err != nil {
		return nil, fmt.Errorf("map file: %w", err)
	}
	defer func() { _ = f.Close() }()
	fi, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("map file: %w", err)
	}
	if !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("map %s: %w", path, ErrNotRegular)
	}
	if fi.Size() == 0 || fi.Size() > math.MaxInt || size != 0 && fi.Size() != size {
		return nil, &FileError{Path: path, Size: fi.Size(), Want: size, Err: ErrWrongSize}
	}
	return mapFile(f, fi, path, readOnly)
}

func mapFile(f *os.File, fi fs.FileInfo, path string, readOnly bool) (*osMapping, error) {
	size := fi.Size()
	prot := mmap.RDWR
	if readOnly {
		prot = mmap.RDONLY
	}
	b, err := mmap.MapRegion(f, int(size), prot, 0, 0)
	if err != nil {
		return nil, fmt.Errorf("map %s: %d bytes: %w", path, size, err)
	}
	m := &osMapping{path: path, readOnly: readOnly, id: fi, size: size}
	m.b.Store(&b)
	return m, nil
}

// osMapping is one file mapped by mmap.
type osMapping struct {
	path     string
	readOnly bool
	id       fs.FileInfo // which file: Allocate opens path again and must find the same one
	size     int64
	b        atomic.Pointer[mmap.MMap]
	w        atomic.Pointer[os.File] // for Write, which opens it
}

func (m *osMapping) Bytes() []byte {
	if b := m.b.Load(); b != nil {
		return *b
	}
	return nil
}

// pages returns the whole pages around [off, off+n).
func (m *osMapping) pages(what string, off, n int64) ([]byte, error) {
	b := m.Bytes()
	if b == nil {
		return nil, fmt.Errorf("%s %s: %w", what, m.path, ErrClosed)
	}
	if off < 0 || n < 0 || off > m.size-n {
		return nil, fmt.Errorf("%s %s: range [%d, +%d) of a file of %d bytes: %w", what, m.path, off, n, m.size, ErrNotFound)
	}
	if n == 0 {
		return nil, nil
	}
	return b[off&^(pageSize-1) : min((off+n+pageSize-1)&^(pageSize-1), m.size)], nil
}

func (m *osMapping) Sync(off, n int64) error {
	b, err := m.pages("sync", off, n)
	if err != nil || len(b) == 0 || m.readOnly {
		return err
	}
	if err := m.msync(b); err != nil {
		return diskFull(fmt.Errorf("sync %s [%d, %d): %w", m.path, off, off+n, err), m.path, n)
	}
	return nil
}

func (m *osMapping) Allocate(off, n int64) error {
	b, err := m.pages("allocate", off, n)
	if err != nil || len(b) == 0 {
		return err
	}
	if m.readOnly {
		return fmt.Errorf("allocate %s: %w", m.path, ErrReadOnly)
	}
	f, err := m.open()
	if err != nil {
		return fmt.Errorf("allocate: %w", err)
	}
	defer func() { _ = f.Close() }()
	from := off &^ (pageSize - 1)
	err = fallocate(f, from, int64(len(b)))
	if errors.Is(err, errors.ErrUnsupported) {
		err = fillHoles(f, from, int64(len(b)))
	}
	if err != nil {
		return diskFull(fmt.Errorf("allocate %s [%d, %d): %w", m.path, off, off+n, err), m.path, n)
	}
	return nil
}

// open opens the mapped file once more, for calls that write.
func (m *osMapping) open() (*os.File, error) {
	f, err := os.OpenFile(m.path, os.O_RDWR|openNonblock, 0)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && !os.SameFile(fi, m.id) {
		err = fmt.Errorf("%s: another file has taken this name since it was mapped", m.path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (m *osMapping) Write(off int64, p []byte) error {
	if _, err := m.pages("write", off, int64(len(p))); err != nil {
		return err
	}
	if m.readOnly {
		return fmt.Errorf("write %s: %w", m.path, ErrReadOnly)
	}
	f := m.w.Load()
	if f == nil {
		var err error
		if f, err = m.open(); err != nil {
			copy(m.Bytes()[off:], p) // no descriptor is left, or the name is another file's: a store needs neither
			return nil
		}
		if !m.w.CompareAndSwap(nil, f) {
			_ = f.Close()
			f = m.w.Load()
		}
	}
	if _, err := f.WriteAt(p, off); err != nil {
		return diskFull(fmt.Errorf("write %s [%d, %d): %w", m.path, off, off+int64(len(p)), err), m.path, int64(len(p)))
	}
	return nil
}

// DoneWriting gives up the descriptor that Write opened, until the next one. Not beside a Write.
func (m *osMapping) DoneWriting() {
	if f := m.w.Swap(nil); f != nil {
		_ = f.Close() // what was written is in the page cache; whether it gets to the device is Sync's to say
	}
}

func (m *osMapping) Populate(off, n int64) error {
	b, err := m.pages("populate", off, n)
	if err != nil || len(b) == 0 || m.readOnly {
		return err
	}
	if err := populate(b); err != nil {
		return fmt.Errorf("populate %s [%d, %d): %w", m.path, off, off+n, err)
	}
	return nil
}

// Prewrite changes no byte. Small folios in the page cache are the point: see the package's figures.
func (m *osMapping) Prewrite(off, n int64) error {
	if m.Populate(off, n) != nil {
		return nil
	}
	return m.Sync(off, n)
}

func (m *osMapping) Advise(a Advice, off, n int64) error {
	b, err := m.pages("advise", off, n)
	if err != nil || len(b) == 0 {
		return err
	}
	if err := m.advise(a, b, off&^(pageSize-1)); err != nil {
		return fmt.Errorf("advise %s: %w", m.path, err)
	}
	return nil
}

func (m *osMapping) Close() error {
	b := m.b.Swap(nil)
	if b == nil {
		return fmt.Errorf("close %s: %w", m.path, ErrClosed)
	}
	var err error
	if f := m.w.Swap(nil); f != nil {
		err = f.Close()
	}
	if e := b.Unmap(); e != nil {
		err = errors.Join(err, fmt.Errorf("unmap %s: %w", m.path, e))
	}
	return err
}

// writeZeros takes blocks for [off, off+n) where the file system cannot allocate them. Page by page: larger writes build large folios in the page cache,
// and from then on each small sync writes a whole folio.
func writeZeros(f *os.File, off, n int64) error {
	var zeros [zeroStep]byte
	for end := off + n; off < end; off += zeroStep {
		if _, err := f.WriteAt(zeros[:min(zeroStep, end-off)], off); err != nil {
			return err
		}
	}
	return nil
}

// fillHoles is writeZeros that leaves pages with data alone: those have blocks.
func fillHoles(f *os.File, off, n int64) error {
	var page [zeroStep]byte
	for end := off + n; off < end; off += zeroStep {
		p := page[:min(zeroStep, end-off)]
		if _, err := f.ReadAt(p, off); err != nil && err != io.EOF {
			return err
		}
		if lastNonZero(p) > 0 {
			continue
		}
		if _, err := f.WriteAt(p, off); err != nil {
			return err
		}
	}
	return nil
}

func (osFS) Stat(path string) (Info, error) {
	fi, err := os.Lstat(path)
	if err != nil {
		return Info{}, err
	}
	return info(fi), nil
}

func info(fi fs.FileInfo) Info {
	return Info{Name: fi.Name(), Size: fi.Size(), IsDir: fi.IsDir(), Regular: fi.Mode().IsRegular(), ModTime: fi.ModTime()}
}

func (osFS) ReadFile(path string) ([]byte, error) {
	if b, held, err := readHeld(path); held {
		return b, err
	}
	return os.ReadFile(path)
}

func (osFS) WriteFileDurable(path string, b []byte) (err error) {
	if heldHere(path) {
		return fmt.Errorf("write %s: it is this process's lock file", path)
	}
	tmp := path + tmpExt
	_ = os.Remove(tmp) // of a crash, or whatever it is: to write through a link, or into a pipe, would be worse than an error
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, filePerm)
	if err != nil {
		return diskFull(fmt.Errorf("write file: %w", err), path, int64(len(b)))
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp)
			err = diskFull(fmt.Errorf("write file: %w", err), path, int64(len(b)))
		}
	}()
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	return err
}

func (osFS) ReadDir(dir string) ([]Info, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	infos := make([]Info, 0, len(entries))
	for _, e := range entries {
		fi, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		infos = append(infos, info(fi))
	}
	return infos, nil
}

func (osFS) MkdirAll(dir string) error {
	var missing []string // deepest first
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		fi, err := os.Stat(d)
		if err == nil && fi.IsDir() {
			break
		}
		if err == nil {
			return fmt.Errorf("make directory %s: %s is a file", dir, d)
		}
		if !errors.Is(err, fs.ErrNotExist) || d == filepath.Dir(d) {
			return fmt.Errorf("make directory: %w", err)
		}
		missing = append(missing, d)
	}
	for i := len(missing) - 1; i >= 0; i-- {
		if err := os.Mkdir(missing[i], dirPerm); err != nil && !errors.Is(err, fs.ErrExist) {
			return diskFull(fmt.Errorf("make directory: %w", err), missing[i], 0)
		}
		if err := syncDir(filepath.Dir(missing[i])); err != nil {
			return err
		}
	}
	return nil
}

func (osFS) Mkdir(dir string) error {
	if err := os.Mkdir(dir, dirPerm); err != nil {
		return diskFull(fmt.Errorf("make directory: %w", err), dir, 0)
	}
	return nil
}

func (osFS) Remove(path string) error {
	if fi, err := os.Lstat(path); err == nil && fi.IsDir() {
		return fmt.Errorf("remove %s: it is a directory", path)
	}
	return os.Remove(path)
}

func (osFS) RemoveDir(dir string) error {
	if fi, err := os.Lstat(dir); err == nil && !fi.IsDir() {
		return fmt.Errorf("remove directory %s: it is a file", dir)
	}
	return os.Remove(dir)
}

func (osFS) Rename(oldPath, newPath string) error { return os.Rename(oldPath, newPath) }
func (osFS) SyncDir(dir string) error             { return syncDir(dir) }

// diskFull gives err the meaning ErrDiskFull if the system said that there is no space, with the figures that an operator needs.
func diskFull(err error, path string, need int64) error {
	if err == nil || !noSpace(err) || errors.Is(err, ErrDiskFull) {
		return err
	}
	free, total, ferr := OS().Free(filepath.Dir(path))
	if ferr != nil {
		return fmt.Errorf("%w: %w (%d bytes needed)", ErrDiskFull, err, need)
	}
	return fmt.Errorf("%w: %w (%d bytes needed, %d free of %d)", ErrDiskFull, err, need, free, total)
}
