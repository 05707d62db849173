package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
)

// The header of RocketMQ's index file, as far as it says which part of the log it is of (spec/index.md 3.1).
const (
	indexFilesDir      = "index"
	indexHeaderSize    = 40
	posIndexEndPhy     = 24
	posIndexNextNumber = 36 // of the next entry; the first is 1
)

// setIndexFilesAside moves RocketMQ's index files that know of records at or behind end, where the log ends, to quarantine/index. This engine does not write them, so they can only be ahead when the log was cut; what is put next would
// lie at the offsets that they hold, and RocketMQ, which does not compare a hit with its record, would answer with messages of other keys. It is done before anything can be put, and by the next opening if this one is interrupted.
func setIndexFilesAside(fsys mappedfile.FS, dir string, end int64) (kept []string, err error) {
	entries, err := fsys.ReadDir(filepath.Join(dir, indexFilesDir))
	if err != nil {
		return nil, nil // none, or no directory: whoever reads it says so
	}
	for _, e := range entries {
		if _, err := strconv.ParseUint(e.Name, 10, 63); err != nil || !e.Regular || e.Size < indexHeaderSize {
			continue
		}
		path := filepath.Join(dir, indexFilesDir, e.Name)
		last, err := indexedUpTo(fsys, path)
		if err != nil || last < end {
			continue // what cannot be read is no index to RocketMQ either
		}
		to, err := moveAside(fsys, path, filepath.Join(dir, "quarantine", indexFilesDir), e.Name)
		if err != nil {
			return kept, fmt.Errorf("set aside %s, which is of records that the log has no more: %w", path, err)
		}
		kept = append(kept, to)
	}
	if len(kept) == 0 {
		return nil, nil
	}
	return kept, errors.Join(fsys.SyncDir(filepath.Join(dir, "quarantine", indexFilesDir)), fsys.SyncDir(filepath.Join(dir, indexFilesDir)))
}

// indexedUpTo is the physical offset of the last record that the file has an entry of; -1: none.
func indexedUpTo(fsys mappedfile.FS, path string) (int64, error) {
	m, err := fsys.Map(path, 0, mappedfile.MapReadOnly)
	if err != nil {
		return -1, err
	}
	last := int64(-1)
	if b := m.Bytes(); len(b) >= indexHeaderSize && int32(binary.BigEndian.Uint32(b[posIndexNextNumber:])) > 1 {
		last = int64(binary.BigEndian.Uint64(b[posIndexEndPhy:]))
	}
	return last, m.Close()
}

// moveAside moves path into the directory to, under a name that is free there. Both directories are to be synced.
func moveAside(fsys mappedfile.FS, path, to, name string) (string, error) {
	if err := fsys.MkdirAll(to); err != nil {
		return "", err
	}
	free := filepath.Join(to, name)
	for n := 2; ; n++ {
		_, err := fsys.Stat(free)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return "", err
		}
		free = filepath.Join(to, fmt.Sprintf("%s-%d", name, n))
	}
	return free, fsys.Rename(path, free)
}
