package effort_test

import (
	"slices"
	"testing"

	"github.com/mqstore/mqstore/conformance/effort"
)

func TestModeDecidesTheCount(t *testing.T) {
	for _, c := range []struct {
		mode        string
		quick, full int
		want        int
	}{
		{"", 3, 100, 3},
		{"quick", 3, 100, 3},
		{"full", 3, 100, 100},
		{"race", 3, 100, 3},
		{"race", 30, 100, 10},
		{"race", 3, 5, 1},
		{"endless", 3, 100, 100},
	} {
		t.Setenv("MQSTORE_EFFORT", c.mode)
		if got := effort.N(c.quick, c.full); got != c.want {
			t.Errorf("%q: N(%d, %d) = %d, want %d", c.mode, c.quick, c.full, got, c.want)
		}
	}
}

func TestSeedsCountFromOne(t *testing.T) {
	t.Setenv("MQSTORE_EFFORT", "quick")
	t.Setenv("MQSTORE_SEED", "")
	if got := slices.Collect(effort.Seeds(t, 3, 100)); !slices.Equal(got, []uint64{1, 2, 3}) {
		t.Errorf("seeds %v", got)
	}
}

func TestOneSeedIsRepeatedAlone(t *testing.T) {
	t.Setenv("MQSTORE_SEED", "0x11")
	if got := slices.Collect(effort.Seeds(t, 3, 100)); !slices.Equal(got, []uint64{17}) {
		t.Errorf("seeds %v", got)
	}
}

func TestEndlessSeedsDiffer(t *testing.T) {
	t.Setenv("MQSTORE_EFFORT", "endless")
	t.Setenv("MQSTORE_SEED", "")
	seen := map[uint64]bool{}
	for seed := range effort.Seeds(t, 1, 1) {
		if seen[seed] = true; len(seen) == 5 {
			break
		}
	}
	if len(seen) != 5 && !effort.Over(t, 0) {
		t.Errorf("seeds %v", seen)
	}
}
