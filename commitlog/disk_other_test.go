//go:build !linux

package commitlog

import "os"

func fdatasync(f *os.File) error { return f.Sync() }

func syncAll() {}
