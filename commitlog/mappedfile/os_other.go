//go:build !linux && !darwin && !freebsd

package mappedfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
)

const openNonblock = 0

// On systems without POSIX locks a store can be read (MapReadOnly) but not opened for writing: Lock refuses.

// callsAndMappingsAgree: what a call writes into a file is in its mapping when the call returns.
const callsAndMappingsAgree = false

func noSpace(error) bool                                { return false }
func syncDir(string) error                              { return nil }
func heldHere(string) bool                              { return false }
func readHeld(string) ([]byte, bool, error)             { return nil, false, nil }
func fallocate(*os.File, int64, int64) error            { return errors.ErrUnsupported }
func populate([]byte) error                             { return nil }
func (m *osMapping) advise(Advice, []byte, int64) error { return nil }
func (m *osMapping) msync([]byte) error                 { return m.b.Load().Flush() }

func (osFS) Lock(path string) (io.Closer, error) {
	return nil, fmt.Errorf("lock %s: not possible on %s, open the store read-only: %w", path, runtime.GOOS, errors.ErrUnsupported)
}

func (osFS) Free(dir string) (free, total int64, err error) {
	return 0, 0, fmt.Errorf("free space of %s: not known on %s: %w", dir, runtime.GOOS, errors.ErrUnsupported)
}

func (m *osMapping) dataEnd(int64) int64 { return m.size }
