package indexfile

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// Set is the index files of a store, open for reading.
type Set struct {
	files []*File // the oldest first
}

// OpenSet opens the index files in dir, which may be missing: an index without entries. A file whose size is not that of s gets the shape that ShapeOf finds. Names that are no number are passed over, as by the original; files that cannot be read
// are, too, with a warning each.
func OpenSet(dir string, s Shape) (x *Set, warnings []error, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return &Set{}, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("open index files: %w", err)
	}
	x = &Set{}
	for _, e := range entries { // sorted by name
		if _, err := strconv.ParseInt(e.Name(), 10, 64); err != nil || !e.Type().IsRegular() {
			continue
		}
		f, err := openAny(filepath.Join(dir, e.Name()), s)
		if err != nil {
			warnings = append(warnings, err)
			continue
		}
		x.files = append(x.files, f)
	}
	return x, warnings, nil
}

func openAny(path string, s Shape) (*File, error) {
	f, err := Open(path, s)
	if !errors.Is(err, ErrShape) {
		return f, err
	}
	r, oerr := os.Open(path)
	if oerr != nil {
		return nil, err
	}
	defer r.Close()
	i, serr := r.Stat()
	if serr != nil {
		return nil, err
	}
	found, ok := ShapeOf(r, i.Size())
	if !ok {
		return nil, err
	}
	return Open(path, found)
}

// Close closes the files.
func (x *Set) Close() error {
	var errs []error
	for _, f := range x.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// Files is the files, the oldest first.
func (x *Set) Files() []*File { return x.files }

// EndPhyOffset is the offset of the last record that has an entry; -1: there is none.
func (x *Set) EndPhyOffset() int64 {
	end := int64(-1)
	for _, f := range x.files {
		if f.h.Counter > 1 {
			end = max(end, f.h.EndPhyOffset)
		}
	}
	return end
}

// Result is what the original's index answers.
type Result struct {
	PhyOffsets          []int64 // the newest first; of the hash, not of the key
	LastUpdateTime      int64   // ms, of the newest file's last entry
	LastUpdatePhyOffset int64
}

// Query answers as the original does: at most max hits within [begin, end] (ms, inclusive). spec/index.md 3.4; the cap of maxMsgsNumBatch is the caller's.
func (x *Set) Query(topic, key string, max int, begin, end int64) (r Result, err error) {
	if n := len(x.files); n > 0 {
		r.LastUpdateTime, r.LastUpdatePhyOffset = x.files[n-1].h.EndTime, x.files[n-1].h.EndPhyOffset
	}
	for e, err := range x.Hits(topic, key, begin, end) {
		if err != nil {
			return r, err
		}
		if len(r.PhyOffsets) >= max {
			break
		}
		r.PhyOffsets = append(r.PhyOffsets, e.PhyOffset)
	}
	return r, nil
}

// Hits yields the entries of the hash of topic and key within the times, the newest first in each file and the newest file first. An error is the last thing yielded.
func (x *Set) Hits(topic, key string, begin, end int64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for _, f := range slices.Backward(x.files) {
			for e, err := range f.Hits(topic, key, begin, end) {
				if !yield(e, err) || err != nil {
					return
				}
			}
			if f.h.BeginTime < begin {
				return
			}
		}
	}
}

// Hits is Set.Hits of one file.
func (f *File) Hits(topic, key string, begin, end int64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if !f.h.holds(begin, end) {
			return
		}
		for e, err := range f.chain(Hash(topic, key), begin, end) {
			if err != nil {
				err = fmt.Errorf("index file %s: %w", f.path, err)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}
