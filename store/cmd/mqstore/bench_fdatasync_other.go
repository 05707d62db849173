//go:build !linux

package main

import "os"

// fdatasync waits until the file is on the device, as far as the system promises that.
func fdatasync(f *os.File) error { return f.Sync() }
