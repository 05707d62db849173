package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mqstore/mqstore/store"
	"github.com/mqstore/mqstore/store/internal/repair"
)

// benchDir makes the directory that the bench works in: one of its own below the one that was given, or below the system's directory for temporary files without one. remove leaves everything as it was found, dir itself too.
func benchDir(given *string) (own string, remove func() error, err error) {
	dir, made := os.TempDir(), ""
	if given != nil {
		if dir = *given; dir == "" {
			return "", nil, explain(dir, fs.ErrNotExist)
		}
		if err := refuseStore(dir); err != nil {
			return "", nil, err
		}
		switch err := os.Mkdir(dir, 0o755); {
		case err == nil:
			made = dir
		case errors.Is(err, fs.ErrExist):
			if info, err := os.Stat(dir); err != nil {
				return "", nil, explain(dir, err)
			} else if !info.IsDir() {
				return "", nil, usage("%s is a file: give a directory on the disk that is to be measured", dir)
			}
		default:
			return "", nil, explain(filepath.Dir(filepath.Clean(dir)), err)
		}
	}
	own, err = os.MkdirTemp(dir, "mqstore-bench-")
	if err != nil {
		if made != "" {
			_ = os.Remove(made)
		}
		return "", nil, explain(dir, err)
	}
	return own, func() error {
		err := os.RemoveAll(own)
		if made != "" && err == nil {
			err = os.Remove(made)
		}
		if err != nil {
			return fmt.Errorf("what the bench wrote could not be removed, delete %s by hand: %w", own, err)
		}
		return nil
	}, nil
}

// refuseStore refuses a message store, and what lies in one: nobody wants to measure there.
func refuseStore(dir string) error {
	for _, d := range []string{dir, filepath.Dir(filepath.Clean(dir))} {
		info, err := os.Stat(d)
		if err != nil || !info.IsDir() {
			continue
		}
		files, err := repair.Look(os.DirFS(d), nil)
		if err != nil || files == nil {
			continue
		}
		if d == dir {
			return usage("%s is a message store: nothing is measured in there; give an empty directory, or one that does not exist, on the same disk", dir)
		}
		return usage("%s lies in the message store %s: nothing is measured in there; give another directory on the same disk", dir, d)
	}
	return nil
}

// roomIn is how many bytes are free for files in dir, as a store there sees it; -1: unknown.
func roomIn(dir string) (int64, error) {
	probe := filepath.Join(dir, "probe")
	s, err := store.Open(probe, store.Options{SegmentSize: 1 << 20, Index: store.IndexOptions{Off: true}, NoBackground: true})
	if err != nil {
		return 0, err
	}
	free := s.Stats().DiskFree
	return free, errors.Join(s.Close(), os.RemoveAll(probe))
}
