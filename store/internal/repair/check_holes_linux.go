package repair

import "golang.org/x/sys/unix"

// whenceData is what Seek is asked for data with; 0: this system does not tell.
const whenceData = unix.SEEK_DATA
