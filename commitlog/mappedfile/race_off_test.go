//go:build !race

package mappedfile_test

const raceEnabled = false
