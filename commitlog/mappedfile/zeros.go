package mappedfile

import "bytes"

var zeroPage [4096]byte

// lastNonZero returns the length of b without the zeros at its end.
func lastNonZero(b []byte) int {
	n := len(b)
	for n >= len(zeroPage) && bytes.Equal(b[n-len(zeroPage):n], zeroPage[:]) {
		n -= len(zeroPage)
	}
	for n > 0 && b[n-1] == 0 {
		n--
	}
	return n
}
