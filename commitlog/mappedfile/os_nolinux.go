//go:build darwin || freebsd

package mappedfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// callsAndMappingsAgree: what a call writes into a file is in its mapping when the call returns.
const callsAndMappingsAgree = false

// fallocate has no portable form: blocks are taken by writing zeros.
func fallocate(*os.File, int64, int64) error { return errors.ErrUnsupported }

// msync here hands the pages to the file system; the file's own sync carries them to the device.
func (m *osMapping) msync(b []byte) error {
	if err := again(func() error { return unix.Msync(b, unix.MS_SYNC) }); err != nil {
		return err
	}
	f, err := os.OpenFile(m.path, os.O_RDWR|openNonblock, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return f.Sync()
}

func populate([]byte) error { return nil }

func (m *osMapping) advise(a Advice, b []byte, _ int64) error {
	switch a {
	case AdviceRandom:
		return madvise(b, unix.MADV_RANDOM)
	case AdviceSequential:
		return madvise(b, unix.MADV_SEQUENTIAL)
	default:
		return nil
	}
}

func (m *osMapping) dataEnd(int64) int64 { return m.size }
