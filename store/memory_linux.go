package store

import "golang.org/x/sys/unix"

// machineMemory is the physical memory in bytes; 24 GiB when unknown, as the original assumes.
func machineMemory() int64 {
	var si unix.Sysinfo_t
	if err := unix.Sysinfo(&si); err != nil {
		return 24 << 30
	}
	return int64(si.Totalram) * int64(si.Unit)
}
