package mappedfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// callsAndMappingsAgree: what a call writes into a file is in its mapping when the call returns.
const callsAndMappingsAgree = true

// fallocate takes blocks for the range and leaves the file's length alone. errors.ErrUnsupported: the file system cannot.
func fallocate(f *os.File, off, n int64) error {
	err := again(func() error { return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, off, n) })
	if err == unix.ENOSYS || err == unix.EOPNOTSUPP {
		return errors.ErrUnsupported
	}
	return err
}

// msync waits until the pages are on the device: for Linux that is fdatasync of the range, device cache included.
func (m *osMapping) msync(b []byte) error {
	return again(func() error { return unix.Msync(b, unix.MS_SYNC) })
}

// populate needs Linux 5.14; older ones say EINVAL, and their first stores fault as they always did.
func populate(b []byte) error {
	err := again(func() error { return unix.Madvise(b, unix.MADV_POPULATE_WRITE) })
	if err == unix.EINVAL {
		return nil
	}
	return err
}

func (m *osMapping) advise(a Advice, b []byte, off int64) error {
	switch a {
	case AdviceRandom:
		return madvise(b, unix.MADV_RANDOM)
	case AdviceSequential:
		return madvise(b, unix.MADV_SEQUENTIAL)
	case AdviceRelease:
		return madvise(b, unix.MADV_DONTNEED)
	}
	// The kernel keeps pages that a mapping holds: they leave the mapping first.
	if err := madvise(b, unix.MADV_DONTNEED); err != nil {
		return err
	}
	f, err := os.OpenFile(m.path, os.O_RDONLY|openNonblock, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if fi, err := f.Stat(); err != nil || !os.SameFile(fi, m.id) {
		return err
	}
	return again(func() error { return unix.Fadvise(int(f.Fd()), off, int64(len(b)), unix.FADV_DONTNEED) })
}

// dataEnd is where the last data at or behind from ends, as the file system knows it: behind are only holes and blocks that were never written. The file's length if it cannot tell.
func (m *osMapping) dataEnd(from int64) int64 {
	// What sits in the page cache is handed over first: not every file system looks there.
	if m.Sync(from, m.size-from) != nil {
		return m.size
	}
	f, err := os.OpenFile(m.path, os.O_RDONLY|openNonblock, 0)
	if err != nil {
		return m.size
	}
	defer func() { _ = f.Close() }()
	if fi, err := f.Stat(); err != nil || !os.SameFile(fi, m.id) {
		return m.size
	}
	end := from
	for range 1 << 16 {
		data, err := unix.Seek(int(f.Fd()), end, unix.SEEK_DATA)
		if err == unix.ENXIO {
			return end
		}
		if err != nil {
			return m.size
		}
		if end, err = unix.Seek(int(f.Fd()), data, unix.SEEK_HOLE); err != nil || end <= data {
			return m.size
		}
		if end >= m.size {
			return m.size
		}
	}
	return m.size
}
