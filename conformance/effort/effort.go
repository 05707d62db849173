package effort

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// Mode is how much work is asked for.
type Mode string

// The modes of MQSTORE_EFFORT.
const (
	Quick   Mode = "quick"
	Full    Mode = "full"
	Race    Mode = "race"
	Endless Mode = "endless"
)

// Current is the mode of MQSTORE_EFFORT; it panics on a word that is none.
func Current() Mode {
	switch m := Mode(os.Getenv("MQSTORE_EFFORT")); m {
	case "":
		return Quick
	case Quick, Full, Race, Endless:
		return m
	default:
		panic(fmt.Sprintf("MQSTORE_EFFORT=%q is none of quick, full, race, endless", m))
	}
}

// N is how often a loop without seeds runs: quick or full (also when endless), or between.
func N(quick, full int) int {
	switch Current() {
	case Full, Endless:
		return full
	case Race:
		return min(quick, max(1, full/10))
	}
	return quick
}

// Seeds yields the seeds of a random test: 1, 2, … N(quick, full). With MQSTORE_SEED it yields that one; when endless, random ones until a minute before the test's deadline.
func Seeds(t testing.TB, quick, full int) iter.Seq[uint64] {
	t.Helper()
	if s := os.Getenv("MQSTORE_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 0, 64)
		if err != nil {
			t.Fatalf("MQSTORE_SEED: %v", err)
		}
		return func(yield func(uint64) bool) { yield(seed) }
	}
	if Current() == Endless {
		return func(yield func(uint64) bool) {
			for !Over(t, time.Minute) && yield(rand.Uint64()) {
			}
		}
	}
	n := uint64(max(0, N(quick, full)))
	return func(yield func(uint64) bool) {
		for seed := uint64(1); seed <= n && yield(seed); seed++ {
		}
	}
}

// Over reports whether less than left remains until the test's -timeout.
func Over(t testing.TB, left time.Duration) bool {
	d, ok := t.(interface{ Deadline() (time.Time, bool) })
	if !ok {
		return false
	}
	at, ok := d.Deadline()
	return ok && time.Until(at) < left
}
