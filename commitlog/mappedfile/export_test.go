package mappedfile

import "os"

// What takes blocks on a file system that cannot allocate.
func FillHoles(f *os.File, off, n int64) error  { return fillHoles(f, off, n) }
func LastNonZero(b []byte) int                  { return lastNonZero(b) }
func WriteZeros(f *os.File, off, n int64) error { return writeZeros(f, off, n) }
