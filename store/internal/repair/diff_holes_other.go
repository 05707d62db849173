//go:build !linux

package repair

// What Seek is asked for data and holes with; 0: this system does not tell.
const (
	seekData = 0
	seekHole = 0
)
