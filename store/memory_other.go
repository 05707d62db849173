//go:build !linux

package store

// machineMemory is the physical memory in bytes; 24 GiB when unknown, as the original assumes.
func machineMemory() int64 { return 24 << 30 }
