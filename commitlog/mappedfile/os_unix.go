//go:build linux || darwin || freebsd

package mappedfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	openNonblock = unix.O_NONBLOCK // a FIFO in a store directory must not hang us
	lockContent  = "lock"          // what RocketMQ writes into its lock file
)

func noSpace(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

// again repeats a system call that a signal interrupted.
func again(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	defer func() { _ = d.Close() }()
	err = d.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		return nil // a file system that has no such thing
	}
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}

func (osFS) Free(dir string) (free, total int64, err error) {
	var st unix.Statfs_t
	if err := again(func() error { return unix.Statfs(dir, &st) }); err != nil {
		return 0, 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	block := uint64(st.Bsize)
	return int64(uint64(st.Bavail) * block), int64(uint64(st.Blocks) * block), nil
}

// lockID is which file: a path has many spellings.
type lockID struct{ dev, ino uint64 }

// locks are the lock files that this process holds. POSIX locks do not exclude within a process, and are dropped as soon as any descriptor of the file is
// closed: so a held file must not even be opened again.
var locks struct {
	sync.Mutex
	held map[lockID]*osLock
}

type osLock struct {
	f  *os.File
	id lockID
}

func idOf(path string) (lockID, error) {
	var st unix.Stat_t
	if err := again(func() error { return unix.Stat(path, &st) }); err != nil {
		return lockID{}, err
	}
	return lockID{uint64(st.Dev), st.Ino}, nil
}

func heldHere(path string) bool {
	_, held, _ := held(path, nil)
	return held
}

// readHeld reads a lock file that this process holds through the descriptor that holds it.
func readHeld(path string) ([]byte, bool, error) {
	return held(path, func(f *os.File) ([]byte, error) {
		return io.ReadAll(io.NewSectionReader(f, 0, 1<<20))
	})
}

func held(path string, read func(*os.File) ([]byte, error)) ([]byte, bool, error) {
	locks.Lock()
	defer locks.Unlock()
	if len(locks.held) == 0 {
		return nil, false, nil
	}
	id, err := idOf(path)
	l := locks.held[id]
	if err != nil || l == nil {
		return nil, false, nil
	}
	if read == nil {
		return nil, true, nil
	}
	b, err := read(l.f)
	return b, true, err
}

// Lock takes the lock that RocketMQ takes: an exclusive fcntl lock of the first byte. The file then holds the word that RocketMQ writes there.
func (osFS) Lock(path string) (io.Closer, error) {
	locks.Lock()
	defer locks.Unlock()
	if id, err := idOf(path); err == nil && locks.held[id] != nil {
		return nil, &LockedError{Path: path, PID: os.Getpid()}
	}
	_, statErr := os.Lstat(path)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|openNonblock, filePerm)
	if err != nil {
		return nil, diskFull(fmt.Errorf("lock: %w", err), path, 0)
	}
	l, err := lockFile(f, path)
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	if statErr != nil {
		_ = syncDir(filepath.Dir(path)) // the name need not survive: a lock dies with the process
	}
	if locks.held == nil {
		locks.held = make(map[lockID]*osLock)
	}
	locks.held[l.id] = l
	return l, nil
}

func lockFile(f *os.File, path string) (*osLock, error) {
	for {
		lk := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: 0, Len: 1}
		err := again(func() error { return unix.FcntlFlock(f.Fd(), unix.F_SETLK, &lk) })
		if err == nil {
			break
		}
		if err != unix.EAGAIN && err != unix.EACCES {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		pid, held, err := lockHolder(f)
		if err == nil && !held {
			continue // released in between
		}
		return nil, &LockedError{Path: path, PID: pid}
	}
	var st unix.Stat_t
	if err := again(func() error { return unix.Fstat(int(f.Fd()), &st) }); err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	got := make([]byte, len(lockContent))
	if n, _ := f.ReadAt(got, 0); string(got[:n]) != lockContent {
		_, _ = f.WriteAt([]byte(lockContent), 0) // for the eye only: a full disk must not keep a store from opening
	}
	return &osLock{f: f, id: lockID{uint64(st.Dev), st.Ino}}, nil
}

// lockHolder asks who holds the lock of an open file; pid 0 = unknown.
func lockHolder(f *os.File) (pid int, held bool, err error) {
	lk := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: 0, Len: 1}
	if err := again(func() error { return unix.FcntlFlock(f.Fd(), unix.F_GETLK, &lk) }); err != nil {
		return 0, false, err
	}
	return max(int(lk.Pid), 0), lk.Type != unix.F_UNLCK, nil
}

// Close gives the lock up. The file stays, as the original's.
func (l *osLock) Close() error {
	locks.Lock()
	defer locks.Unlock()
	if locks.held[l.id] != l {
		return fmt.Errorf("unlock %s: %w", l.f.Name(), ErrClosed)
	}
	delete(locks.held, l.id)
	return l.f.Close()
}

// madvise is Advise's part that all Unix systems share.
func madvise(b []byte, how int) error {
	return again(func() error { return unix.Madvise(b, how) })
}
