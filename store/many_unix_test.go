//go:build unix

package store_test

import (
	"io/fs"
	"syscall"
)

// occupied is how many bytes of blocks a file has: fewer than its length if it is sparse.
func occupied(fi fs.FileInfo) int64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512
	}
	return 0
}
