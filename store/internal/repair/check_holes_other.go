//go:build !linux

package repair

// whenceData is what Seek is asked for data with; 0: this system does not tell.
const whenceData = 0
