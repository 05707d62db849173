// Package mappedfile keeps fixed-size files mapped into memory, and sequences of them.
package mappedfile
