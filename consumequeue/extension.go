package consumequeue

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
)

// Positions in an extension unit (spec/consumequeue-format.md 2.6).
const (
	posExtSize      = 0
	posExtTagsCode  = 2
	posExtStoreTime = 10
	posExtBitmapLen = 18
	posExtBitmap    = 20
	extHeaderSize   = 20
)

// ExtUnit is what the original keeps of a record beside its unit, for filters.
type ExtUnit struct {
	TagsCode  int64
	StoreTime int64  // ms
	Bitmap    []byte // filter bitmap; may be empty
}

// ParseExtUnit reads the extension unit at the start of b, which may be longer. The bitmap is a view of b. ErrNoUnit at an
// end-of-file marker or zeros, ErrMalformed where the lengths do not add up.
func ParseExtUnit(b []byte) (ExtUnit, error) {
	if len(b) < 2 {
		return ExtUnit{}, fmt.Errorf("%d bytes for an extension unit: %w", len(b), ErrMalformed)
	}
	size := int(int16(binary.BigEndian.Uint16(b[posExtSize:])))
	if size < 1 {
		return ExtUnit{}, fmt.Errorf("extension unit: %w", ErrNoUnit)
	}
	if size < extHeaderSize || size > len(b) {
		return ExtUnit{}, fmt.Errorf("extension unit of %d bytes in %d: %w", size, len(b), ErrMalformed)
	}
	if n := int(int16(binary.BigEndian.Uint16(b[posExtBitmapLen:]))); n != size-extHeaderSize {
		return ExtUnit{}, fmt.Errorf("extension unit of %d bytes with a bitmap of %d: %w", size, n, ErrMalformed)
	}
	return ExtUnit{
		TagsCode:  int64(binary.BigEndian.Uint64(b[posExtTagsCode:])),
		StoreTime: int64(binary.BigEndian.Uint64(b[posExtStoreTime:])),
		Bitmap:    b[posExtBitmap:size],
	}, nil
}

// ExtOffset is the place in the extension files that an address means; ok is false if it is an ordinary tags code.
func ExtOffset(address int64) (off int64, ok bool) {
	return address ^ math.MinInt64, address <= maxExtAddress
}

// extension is a queue's extension files, opened when first asked for.
type extension struct {
	mu struct {
		sync.Mutex
		opened bool
		first  int64
		seq    *mappedfile.Sequence // nil: no files
		err    error
	}
}

// Ext reads an extension unit by its address, a Unit's TagsCode for which IsExtAddress holds. ErrNoUnit if it is no
// address or nothing is there. The bitmap is the caller's.
func (q *Queue) Ext(address int64) (ExtUnit, error) {
	off, ok := ExtOffset(address)
	if !ok {
		return ExtUnit{}, fmt.Errorf("%s: %d is not an extension address: %w", q, address, ErrNoUnit)
	}
	seq, first, err := q.openExt()
	if err != nil {
		return ExtUnit{}, err
	}
	if seq == nil {
		return ExtUnit{}, fmt.Errorf("%s: extension unit at %d: no extension files: %w", q, off, ErrNoUnit)
	}
	if off == 0 {
		off = first // as the original reads
	}
	v, err := seq.ViewRest(off)
	if err != nil {
		if errors.Is(err, mappedfile.ErrNotFound) {
			err = ErrNoUnit
		}
		return ExtUnit{}, fmt.Errorf("%s: extension unit at %d: %w", q, off, err)
	}
	defer v.Release()
	u, err := ParseExtUnit(v.Bytes)
	if errors.Is(err, ErrMalformed) {
		return ExtUnit{}, &mappedfile.CorruptError{Path: q.extDir(), Off: off, Err: err}
	}
	if err != nil {
		return ExtUnit{}, fmt.Errorf("%s: %w at %d", q, err, off)
	}
	u.Bitmap = append([]byte(nil), u.Bitmap...)
	return u, nil
}

func (q *Queue) extDir() string {
	return filepath.Join(q.set.o.ExtDir, q.topic, strconv.Itoa(int(q.id)))
}

// openExt opens the extension files at the first call. System calls run under the lock, which only readers of extension
// units share.
func (q *Queue) openExt() (seq *mappedfile.Sequence, first int64, err error) {
	q.ext.mu.Lock()
	defer q.ext.mu.Unlock()
	e := &q.ext.mu
	if e.opened || q.set.o.ExtDir == "" {
		return e.seq, e.first, e.err
	}
	e.opened = true
	if e.seq, e.err = openExtFiles(q.set.o.FS, q.extDir()); e.err != nil {
		e.err = fmt.Errorf("open extension files of %s: %w", q, e.err)
	} else if e.seq != nil {
		e.first = e.seq.Min()
	}
	return e.seq, e.first, e.err
}

func openExtFiles(fsys mappedfile.FS, dir string) (*mappedfile.Sequence, error) {
	infos, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(infos) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if infos[0].Size == 0 {
		return nil, &SizeError{Path: filepath.Join(dir, infos[0].Name)}
	}
	seq, err := mappedfile.OpenSequence(mappedfile.SequenceOptions{FS: fsys, Dir: dir, FileSize: infos[0].Size, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	files := seq.Files()
	if len(files) == 0 {
		return nil, seq.Close()
	}
	if err := seq.SetMax(files[len(files)-1].End); err != nil {
		return nil, errors.Join(err, seq.Close())
	}
	return seq, nil
}

// close lets go of the files; a later Ext finds none.
func (e *extension) close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	seq := e.mu.seq
	e.mu.opened, e.mu.seq, e.mu.err = true, nil, nil
	if seq == nil {
		return nil
	}
	return seq.Close()
}
