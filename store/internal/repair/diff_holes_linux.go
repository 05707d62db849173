package repair

import "golang.org/x/sys/unix"

// What Seek is asked for data and holes with; 0: this system does not tell.
const (
	seekData = unix.SEEK_DATA
	seekHole = unix.SEEK_HOLE
)
