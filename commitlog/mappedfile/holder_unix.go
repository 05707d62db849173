//go:build linux || darwin || freebsd

package mappedfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
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
	defer f.Close()
	lk := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: 0, Len: 1}
	if err := again(func() error { return unix.FcntlFlock(f.Fd(), unix.F_GETLK, &lk) }); err != nil {
		return 0, false, fmt.Errorf("who holds %s: %w", path, err)
	}
	if lk.Type == unix.F_UNLCK {
		return 0, false, nil
	}
	return max(0, int(lk.Pid)), true, nil
}
