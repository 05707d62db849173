package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
)

// known are the names that a store's root directory can have; any of them makes a directory a store (spec/commitlog-format.md 1.1).
var known = []string{"commitlog", "consumequeue", "consumequeue_ext", "checkpoint", "abort", "lock", "index", "index_pebble", "config", "quarantine", "mqstore.summary", storeIDFile, "batchconsumequeue", "epochFileCheckpoint", "brokerIdentity"}

// checkDirectory refuses the directories that Open is given by mistake, and says which one it wants.
func checkDirectory(fsys mappedfile.FS, dir, commitLogDir string, mustExist bool) error {
	if dir == "" {
		return fmt.Errorf("%w: the directory's name is empty: give the store's root directory (storePathRootDir)", ErrNotAStore)
	}
	info, err := fsys.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if mustExist {
			return fmt.Errorf("%w: %s does not exist", ErrNotAStore, dir)
		}
		return nil
	case err != nil:
		return fmt.Errorf("open store: %w", fromBelow(err))
	case !isDirectory(fsys, dir, info):
		return fmt.Errorf("%w: %s is a file: give the store's root directory, which has commitlog/ in it", ErrNotAStore, dir)
	}
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("open store: list %s: %w", dir, fromBelow(err))
	}
	if info, err := fsys.Stat(commitLogDir); err == nil {
		if !isDirectory(fsys, commitLogDir, info) {
			return fmt.Errorf("%w: the commit log %s is a file, not a directory", ErrNotAStore, commitLogDir)
		}
		return nil
	}
	var strangers []string
	for _, e := range entries {
		switch {
		case slices.Contains(known, e.Name):
			return nil
		case isSegmentName(e.Name):
			return fmt.Errorf("%w: %s holds the files of a log or queue themselves (%s): give the store's root directory, %s", ErrNotAStore, dir, e.Name, filepath.Dir(filepath.Clean(dir)))
		case strings.HasPrefix(e.Name, "."), e.Name == "lost+found":
		default:
			strangers = append(strangers, e.Name)
		}
	}
	if parent := filepath.Dir(filepath.Clean(dir)); slices.Contains(known, filepath.Base(dir)) && len(strangers) > 0 {
		if info, err := fsys.Stat(filepath.Join(parent, "commitlog")); err == nil && info.IsDir {
			return fmt.Errorf("%w: %s is a part of the store %s: give that", ErrNotAStore, dir, parent)
		}
	}
	if len(strangers) > 0 {
		n := min(len(strangers), 3)
		return fmt.Errorf("%w: %s has no commitlog/ but %d other entries (%s): give the store's root directory, or an empty one for a new store", ErrNotAStore, dir, len(strangers), strings.Join(strangers[:n], ", "))
	}
	if mustExist {
		return fmt.Errorf("%w: %s is empty", ErrNotAStore, dir)
	}
	return nil
}

// isDirectory reports whether path is a directory, or a link to one: a disk that filled up is often left behind that way.
func isDirectory(fsys mappedfile.FS, path string, info mappedfile.Info) bool {
	if info.IsDir {
		return true
	}
	_, err := fsys.ReadDir(path)
	return !info.Regular && err == nil
}

// isSegmentName reports whether name is that of a fixed-size file: 20 digits.
func isSegmentName(name string) bool {
	return len(name) == 20 && strings.Trim(name, "0123456789") == ""
}

// foreignFormats looks for what RocketMQ keeps in other formats than files of this engine. To write beside them would leave them behind the log, so a writable open refuses; a read-only one warns.
func foreignFormats(fsys mappedfile.FS, dir string, readOnly bool) (warnings []string, err error) {
	entries, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	found := func(format string, args ...any) error {
		what := fmt.Sprintf(format, args...)
		if !readOnly {
			return fmt.Errorf("%w: %s: this version does not write it; OpenReadOnly reads what the commit log holds", ErrUnsupported, what)
		}
		warnings = append(warnings, what+": not read")
		return nil
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name)
		switch {
		case e.Name == "batchconsumequeue" && e.IsDir:
			if topics, err := fsys.ReadDir(path); err == nil && len(topics) > 0 {
				if err := found("batchconsumequeue/ has batch queues of RocketMQ 5 (topic %s)", topics[0].Name); err != nil {
					return nil, err
				}
			}
		case e.Name == "epochFileCheckpoint" && e.Size > 0:
			if err := found("epochFileCheckpoint has the epochs of RocketMQ 5's controller mode"); err != nil {
				return nil, err
			}
		case strings.HasPrefix(e.Name, "dledger-") && e.IsDir:
			if err := found("%s/ is a DLedger commit log", e.Name); err != nil {
				return nil, err
			}
		case e.IsDir && e.Name != "index_pebble" && e.Name != "quarantine" && isRocksDB(fsys, path):
			if err := found("%s/ is a RocksDB (consume queues of storeType=defaultRocksDB)", e.Name); err != nil {
				return nil, err
			}
		}
	}
	return warnings, nil
}

func isRocksDB(fsys mappedfile.FS, dir string) bool {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return false
	}
	var current, manifest bool
	for _, e := range entries {
		current = current || e.Name == "CURRENT"
		manifest = manifest || strings.HasPrefix(e.Name, "MANIFEST-")
	}
	return current && manifest
}

// sizesOfFiles replaces the configured sizes by those of existing files, and says where they disagree.
func sizesOfFiles(fsys mappedfile.FS, dir, commitLogDir string, segmentSize, queueFileSize int64) (int64, int64, []string, error) {
	var warnings []string
	disagree := func(what, path string, configured, have int64) int64 {
		if configured > 0 && configured != have {
			warnings = append(warnings, fmt.Sprintf("%s is configured as %d bytes but %s has %d: the files' size is used", what, configured, path, have))
		}
		return 0 // take the files' own
	}
	have, path, err := firstSegment(fsys, commitLogDir)
	if err != nil {
		return 0, 0, nil, err
	}
	if have > 0 {
		segmentSize = disagree("mappedFileSizeCommitLog", path, segmentSize, have)
	}
	queues := filepath.Join(dir, "consumequeue")
	topics, err := fsys.ReadDir(queues)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, 0, nil, err
	}
	for _, t := range topics {
		ids, err := fsys.ReadDir(filepath.Join(queues, t.Name))
		if err != nil {
			continue
		}
		for _, id := range ids {
			have, path, err := firstSegment(fsys, filepath.Join(queues, t.Name, id.Name))
			if err != nil || have == 0 {
				continue
			}
			disagree("mappedFileSizeConsumeQueue", path, (queueFileSize+19)/20*20, have)
			return segmentSize, have, warnings, nil
		}
	}
	return segmentSize, queueFileSize, warnings, nil
}

// firstSegment is the size of the first file of a sequence; 0 if there is none.
func firstSegment(fsys mappedfile.FS, dir string) (size int64, path string, err error) {
	entries, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, "", nil
	} else if err != nil {
		return 0, "", err
	}
	for _, e := range entries {
		if isSegmentName(e.Name) && e.Regular {
			return e.Size, filepath.Join(dir, e.Name), nil
		}
	}
	return 0, "", nil
}
