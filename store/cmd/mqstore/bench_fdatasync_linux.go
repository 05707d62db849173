package main

import (
	"errors"
	"os"
	"syscall"
)

// fdatasync waits until the file's bytes are on the device.
func fdatasync(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if !errors.Is(err, syscall.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
