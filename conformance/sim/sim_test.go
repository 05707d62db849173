package sim

import (
	"fmt"
	"iter"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/mqstore/mqstore/conformance/effort"
)

// outcome is what a seed came to.
type outcome struct {
	seed  uint64
	hash  uint64 // of the trace
	steps int
	fails []string
	tail  string
	trace []string
}

// simulate runs one seed, with a planted bug or none.
func simulate(t *testing.T, seed uint64, bug *plant) (o outcome) {
	t.Helper()
	bubble(t, func(t *testing.T) {
		w := newWorld(seed, bug)
		defer w.close()
		if len(w.failed) == 0 {
			w.run()
		}
		o = outcome{seed: seed, hash: w.trace.sum.Sum64(), steps: w.trace.steps, fails: w.failed, tail: w.tail(40), trace: w.trace.lines}
	})
	return o
}

// sharded runs f for each seed, on as many goroutines as there are processors.
func sharded(t *testing.T, seeds iter.Seq[uint64], f func(t *testing.T, seed uint64)) {
	next, stop := iter.Pull(seeds)
	turn := make(chan struct{}, 1)
	turn <- struct{}{}
	t.Cleanup(stop)
	t.Run("seeds", func(t *testing.T) {
		for shard := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(shard), func(t *testing.T) {
				t.Parallel()
				for !t.Failed() {
					<-turn
					seed, ok := next()
					turn <- struct{}{}
					if !ok {
						return
					}
					f(t, seed)
				}
			})
		}
	})
}

// TestSimulation: whatever a seed does to a master and its slaves, their network, disks and clocks, an acknowledged put is not lost, what consumers saw is not taken back, answers say what is so, and in the end all are equal, and as the model.
func TestSimulation(t *testing.T) {
	sharded(t, effort.Seeds(t, 100, 5000), func(t *testing.T, seed uint64) {
		if o := simulate(t, seed, nil); len(o.fails) > 0 {
			trace := o.tail
			if os.Getenv("MQSTORE_SEED") != "" {
				trace = strings.Join(o.trace, "\n")
			}
			again := ""
			if loose(seed) {
				again = " (a loose seed: it may take several times, -count 100)"
			}
			t.Errorf("%s\n\nbroken with seed %d, which this replays%s:\n\n\tMQSTORE_SEED=%d go test ./conformance/sim -run 'TestSimulation$'\n\n%s", trace, seed, again, seed, strings.Join(o.fails, "\n"))
		}
	})
}

// TestASeedIsARun: the same seed gives the same run, to the last offset and millisecond, whatever the scheduler does; but for the loose ones.
func TestASeedIsARun(t *testing.T) {
	sharded(t, effort.Seeds(t, 8, 300), func(t *testing.T, seed uint64) {
		if loose(seed) {
			return
		}
		first := simulate(t, seed, nil)
		for range 3 {
			o := simulate(t, seed, nil)
			if o.hash == first.hash {
				continue
			}
			for i := range min(len(o.trace), len(first.trace)) {
				if o.trace[i] != first.trace[i] {
					t.Errorf("seed %d parts ways at line %d:\n%s\n\n%s\n%s", seed, i, strings.Join(first.trace[max(0, i-8):i], "\n"), first.trace[i], o.trace[i])
					return
				}
			}
			t.Errorf("seed %d gives runs of %d and %d lines", seed, len(first.trace), len(o.trace))
		}
	})
}
