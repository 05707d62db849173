package commitlog

import (
	"os"

	"golang.org/x/sys/unix"
)

func fdatasync(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }

// syncAll hands the disk everything that is dirty.
func syncAll() { unix.Sync() }
