//go:build unix

package main

import (
	"fmt"
	"os"
	"syscall"
)

// ownerOf says whose dir is, for a message.
func ownerOf(dir string) string {
	info, err := os.Stat(dir)
	if err != nil {
		return ""
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf(", %s belongs to %d with mode %v", dir, s.Uid, info.Mode().Perm())
}
