//go:build linux || darwin || freebsd

package mappedfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Holder reports whether a process holds the lock file at path (see FS.Lock), and which: pid 0 is an unknown one. It takes
// no lock and writes nothing. A missing file is held by nobody.
func Holder(path string) (pid int, held bool, err error) {
	locks.Lock()
	defer locks.Unlock()
	if id, err := idOf(path); err == nil && locks.held[id] != nil {
		return os.Getpid(), true, nil // and opening and closing the file here would drop that lock
	}
	f, err := os.OpenFile(path, os.O_RDONLY|openNonblock, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	defer func() { _ = f.Close() }()
	if pid, held, err = lockHolder(f); err != nil {
		return 0, false, fmt.Errorf("who holds %s: %w", path, err)
	}
	return pid, held, nil
}
