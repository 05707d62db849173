//go:build !(linux || darwin || freebsd)

package mappedfile

// Holder reports whether a process holds the lock file at path. Here nobody can ask: false.
func Holder(path string) (pid int, held bool, err error) { return 0, false, nil }
