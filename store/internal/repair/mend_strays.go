package repair

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
)

// obstacles are what keeps a store from being opened, or has no business in it, and can be put out of the way.
type obstacles struct {
	strays []string // paths of entries that do not belong where they are

	// The log's last file, if it has another length than a segment: cut short, or grown.
	last       string
	start      int64
	have, want int64
	excess     int64 // bytes behind want, up to the last one that is not zero
}

func (o *obstacles) none() bool { return len(o.strays) == 0 && o.last == "" }

// obstacles finds them as Check does.
func (m *mender) obstacles() (o obstacles, err error) {
	ctx, cancel := context.WithCancelCause(m.ctx)
	defer cancel(nil)
	c := &check{ctx: ctx, cancel: cancel, root: m.files.root, log: m.files.log}
	c.tell.found = func(f Finding) error {
		if f.Kind == StrayFile && f.Mend == MendRecover {
			o.strays = append(o.strays, m.pathOf(f.File))
		}
		return nil
	}
	c.layout()
	for _, dir := range []string{indexDir, extDir} {
		if info, err := os.Stat(filepath.Join(m.Root, dir)); err == nil && !info.IsDir() {
			o.strays = append(o.strays, filepath.Join(m.Root, dir))
		}
	}
	list, _ := os.ReadDir(filepath.Join(m.Root, indexDir)) // who reads it says what is wrong
	for _, d := range list {
		if !isIndexFile(d) {
			o.strays = append(o.strays, filepath.Join(m.Root, indexDir, d.Name()))
		}
	}
	for _, name := range []string{checkpointFle, abortFile, summaryFile} {
		if info, err := os.Lstat(filepath.Join(m.Root, name)); err == nil && !info.Mode().IsRegular() {
			o.strays = append(o.strays, filepath.Join(m.Root, name))
		}
	}
	slices.Sort(o.strays)
	o.strays = slices.Compact(o.strays)
	return o, m.lastLength(&o, c.segmentSize)
}

// pathOf is a path for a finding's file.
func (m *mender) pathOf(file string) string {
	if rel, ok := cutDir(file, commitLogDir); ok {
		return filepath.Join(m.CommitLogDir, filepath.FromSlash(rel))
	}
	return filepath.Join(m.Root, filepath.FromSlash(file))
}

func cutDir(file, dir string) (string, bool) {
	if len(file) > len(dir) && file[:len(dir)] == dir && file[len(dir)] == '/' {
		return file[len(dir)+1:], true
	}
	return "", false
}

// lastLength notes a last segment of a wrong length, behind others of the right one.
func (m *mender) lastLength(o *obstacles, size int64) error {
	segs := m.files.segments
	if len(segs) < 2 {
		return nil
	}
	s := segs[len(segs)-1]
	if s.Size == size || s.Size == 0 || size <= 1 || s.Start%size != 0 {
		return nil
	}
	for _, other := range segs[:len(segs)-1] {
		if other.Size != size {
			return nil // recovery will say so
		}
	}
	o.last, o.start, o.have, o.want = filepath.Join(m.CommitLogDir, s.Path), s.Start, s.Size, size
	if s.Size < size {
		return nil
	}
	_, err := m.excess(o)
	return err
}

// excess reads what lies behind a segment's length in its file, up to the last byte that is not zero.
func (m *mender) excess(o *obstacles) ([]byte, error) {
	const most = 64 << 20 // more than any record
	if o.have-o.want > most {
		return nil, fmt.Errorf("%s is %d bytes longer than a segment of %d: cut it by hand", o.last, o.have-o.want, o.want)
	}
	f, err := os.Open(o.last)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, o.have-o.want)
	if _, err := f.ReadAt(b, o.want); err != nil && err != io.EOF {
		return nil, err
	}
	b = b[:dataLen(b)]
	o.excess = int64(len(b))
	return b, nil
}

// clear puts the obstacles out of the way, and says where they are. A dry run only says where.
func (m *mender) clear(o obstacles) (kept []string, err error) {
	for _, path := range o.strays {
		rel, err := filepath.Rel(m.Root, path)
		if err != nil || !filepath.IsLocal(rel) {
			rel = filepath.Join(commitLogDir, filepath.Base(path))
		}
		to, err := m.aside(path, filepath.Join("stray", rel))
		if err != nil {
			return kept, err
		}
		kept = append(kept, to)
	}
	if o.last == "" {
		return kept, nil
	}
	if o.excess > 0 {
		b, err := m.excess(&o)
		if err != nil {
			return kept, err
		}
		to := filepath.Join(m.quarantine(), fmt.Sprintf("commitlog-%020d-%08x.bin", o.start+o.want, crc32.ChecksumIEEE(b)))
		if !m.DryRun {
			err := m.fs.MkdirAll(m.quarantine())
			if err == nil {
				err = m.fs.WriteFileDurable(to, b)
			}
			if err != nil {
				return kept, err
			}
		}
		kept = append(kept, to)
	}
	if m.DryRun {
		return kept, nil
	}
	return kept, resize(o.last, o.want)
}

func resize(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Sync(), f.Close())
}

// overlay is the file system as it will be once the obstacles are out of the way. It is for reading.
type overlay struct {
	mappedfile.FS
	hidden       map[string]bool
	resized      string
	length, have int64
}

func newOverlay(fsys mappedfile.FS, o obstacles) *overlay {
	v := &overlay{FS: fsys, hidden: map[string]bool{}, resized: o.last, length: o.want, have: o.have}
	for _, p := range o.strays {
		v.hidden[p] = true
	}
	return v
}

func (v *overlay) gone(op, path string) error {
	if !v.hidden[filepath.Clean(path)] {
		return nil
	}
	return &fs.PathError{Op: op, Path: path, Err: fs.ErrNotExist}
}

func (v *overlay) ReadDir(dir string) ([]mappedfile.Info, error) {
	if err := v.gone("readdir", dir); err != nil {
		return nil, err
	}
	list, err := v.FS.ReadDir(dir)
	list = slices.DeleteFunc(slices.Clone(list), func(i mappedfile.Info) bool { return v.hidden[filepath.Join(dir, i.Name)] })
	for i := range list {
		if filepath.Join(dir, list[i].Name) == v.resized {
			list[i].Size = v.length
		}
	}
	return list, err
}

func (v *overlay) Stat(path string) (mappedfile.Info, error) {
	if err := v.gone("stat", path); err != nil {
		return mappedfile.Info{}, err
	}
	i, err := v.FS.Stat(path)
	if path == v.resized {
		i.Size = v.length
	}
	return i, err
}

func (v *overlay) ReadFile(path string) ([]byte, error) {
	if err := v.gone("read", path); err != nil {
		return nil, err
	}
	return v.FS.ReadFile(path)
}

func (v *overlay) Map(path string, size int64, mode mappedfile.MapMode) (mappedfile.Mapping, error) {
	if err := v.gone("map", path); err != nil {
		return nil, err
	}
	if path != v.resized {
		return v.FS.Map(path, size, mode)
	}
	m, err := v.FS.Map(path, v.have, mode)
	if err != nil {
		return nil, err
	}
	if v.have >= v.length {
		return &resizedMapping{Mapping: m, b: m.Bytes()[:v.length]}, nil
	}
	b := make([]byte, v.length) // zeros that nobody touches cost nothing
	copy(b, m.Bytes())
	return &resizedMapping{b: b}, m.Close()
}

// resizedMapping is a file with another length.
type resizedMapping struct {
	mappedfile.Mapping // nil: b is a copy
	b                  []byte
}

func (m *resizedMapping) Bytes() []byte                                { return m.b }
func (m *resizedMapping) Advise(mappedfile.Advice, int64, int64) error { return nil }
func (m *resizedMapping) Close() error {
	if m.Mapping == nil {
		return nil
	}
	return m.Mapping.Close()
}
