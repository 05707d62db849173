package mappedfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// device is a file as its file system has it on the device.
type device struct{ f *os.File }

// openDevice opens the mapped file for reads past the page cache. Not every file that can be opened so is read so: where the bytes are compressed, encrypted or journaled the kernel goes to the
// page cache after all, and only a file system that says how such reads are aligned really makes them (statx, Linux 6.1).
func (m *osMapping) openDevice() (device, error) {
	f, err := os.OpenFile(m.path, os.O_RDONLY|unix.O_DIRECT|openNonblock, 0)
	if err != nil {
		return device{}, err
	}
	fi, err := f.Stat()
	if err == nil && !os.SameFile(fi, m.id) {
		err = errors.ErrUnsupported
	}
	var st unix.Statx_t
	if err == nil {
		err = again(func() error { return unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_DIOALIGN, &st) })
	}
	align := int64(max(st.Dio_mem_align, st.Dio_offset_align))
	if err == nil && (st.Mask&unix.STATX_DIOALIGN == 0 || st.Dio_mem_align == 0 || st.Dio_offset_align == 0 || pageSize%align != 0) {
		err = errors.ErrUnsupported
	}
	if err != nil {
		_ = f.Close()
		return device{}, err
	}
	return device{f}, nil
}

// read reads at off, a multiple of the page size, into b, which begins at a page and is whole pages; less only at the file's end.
func (d device) read(b []byte, off int64) (n int, err error) {
	err = again(func() error { n, err = unix.Pread(int(d.f.Fd()), b, off); return err })
	return n, err
}

func (d device) close() { _ = d.f.Close() }
