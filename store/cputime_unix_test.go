//go:build unix

package store_test

import (
	"syscall"
	"time"
)

// processorTime is what this process has used; 0 if the system does not say.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
