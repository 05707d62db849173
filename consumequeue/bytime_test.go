package consumequeue_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/consumequeue"
)

// timed is a queue that begins at first, in which record i was stored at times[i-first].
func timed(t testing.TB, first int64, times ...int64) *consumequeue.Queue {
	t.Helper()
	o := small(faultfs.New())
	o.StoreTime = func(phyOffset int64, size int) (int64, error) {
		i := phyOffset/100 - first
		if phyOffset%100 != 0 || size != 100 || i < 0 || i >= int64(len(times)) {
			return 0, fmt.Errorf("no record at %d", phyOffset)
		}
		return times[i], nil
	}
	s := open(t, o)
	fill(t, s, first, first+int64(len(times)))
	q, err := s.Ensure(topic, 0)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// TestOffsetByTime: the rules and their corners (spec 2.8).
func TestOffsetByTime(t *testing.T) {
	const N, L, U = consumequeue.Nearest, consumequeue.Lower, consumequeue.Upper
	equals := []int64{10, 10, 10, 30, 30}
	for _, c := range []struct {
		what   string
		first  int64
		times  []int64
		minPhy int64
		ms     int64
		n      [3]int64 // nearest, lower, upper
	}{
		{"no unit", 0, nil, 0, 5, [3]int64{0, 0, 0}},
		{"between equals", 1, equals, 0, 20, [3]int64{3, 4, 3}}, // a tie goes left
		{"between equals, nearer to the right", 1, equals, 0, 21, [3]int64{4, 4, 3}},
		{"equals", 1, equals, 0, 10, [3]int64{3, 1, 3}}, // the middle of 1..5
		{"equals at the end", 1, equals, 0, 30, [3]int64{4, 4, 5}},
		{"before all", 1, equals, 0, 5, [3]int64{1, 1, 1}},
		{"after all", 1, equals, 0, 99, [3]int64{5, 6, 5}},
		{"one unit, before", 0, []int64{10}, 0, 5, [3]int64{0, 0, 0}},
		{"one unit, exactly", 0, []int64{10}, 0, 10, [3]int64{0, 0, 0}},
		{"one unit, after", 0, []int64{10}, 0, 15, [3]int64{0, 1, 0}},
		{"the first ones expired", 1, equals, 301, 10, [3]int64{4, 4, 4}},
		{"all but one expired", 1, equals, 500, 99, [3]int64{5, 6, 5}},
		{"all expired", 1, equals, 501, 10, [3]int64{6, 6, 6}},
		{"in the second file", 0, seq(0, 25), 0, 130, [3]int64{13, 13, 13}},
		{"between two files", 0, seq(0, 25), 0, 98, [3]int64{10, 10, 9}}, // nearest looks into the file that ends at or after
		{"between two files, nearer to the first", 0, seq(0, 25), 0, 91, [3]int64{10, 10, 9}},
		{"after all files", 0, seq(0, 25), 0, 1000, [3]int64{24, 25, 24}},
		{"before all files", 0, seq(0, 25), 0, -1, [3]int64{0, 0, 0}},
		{"expired up into the second file", 0, seq(0, 25), 1250, 5, [3]int64{13, 13, 13}},
		{"behind fillers", 17, seq(17, 12), 0, 5, [3]int64{17, 17, 17}},
		{"a far time", 0, seq(0, 25), 0, 1<<63 - 1, [3]int64{24, 25, 24}},
		{"a far past", 0, seq(0, 25), 0, -1 << 63, [3]int64{0, 0, 0}},
	} {
		q := timed(t, c.first, c.times...)
		for i, r := range []consumequeue.TimeRule{N, L, U} {
			if got, err := q.OffsetByTime(c.ms, r, c.minPhy); err != nil || got != c.n[i] {
				t.Errorf("%s, %v: %d, %v; want %d", c.what, r, got, err, c.n[i])
			}
		}
	}
}

// seq is n times, ten apart, the first one 10 × from.
func seq(from, n int64) (ms []int64) {
	for i := range n {
		ms = append(ms, 10*(from+i))
	}
	return ms
}

// TestOffsetByTimeIsWhatALinearSearchFinds, for random queues.
func TestOffsetByTimeIsWhatALinearSearchFinds(t *testing.T) {
	for seed := range effort.Seeds(t, 60, 2000) {
		rng := rand.New(rand.NewPCG(seed, 8))
		first := rng.Int64N(25)
		times := make([]int64, 1+rng.IntN(45))
		ms := int64(1000)
		for i := range times {
			times[i] = ms
			ms += max(0, rng.Int64N(12)-4)
		}
		q := timed(t, first, times...)
		end := first + int64(len(times))
		gone := first + rng.Int64N(int64(len(times))+1) // first with a record
		for ask := int64(998); ask <= ms+2; ask++ {
			lower, upper := end, gone
			for i := end - 1; i >= gone; i-- {
				if times[i-first] >= ask {
					lower = i
				}
			}
			for i := gone; i < end; i++ {
				if times[i-first] <= ask {
					upper = i
				}
			}
			if gone == end {
				upper = end
			}
			got, err := q.OffsetByTime(ask, consumequeue.Lower, 100*gone)
			if err != nil || got != lower {
				t.Fatalf("seed %d, lower %d of %v from %d, gone below %d: %d, %v; want %d", seed, ask, times, first, gone, got, err, lower)
			}
			got, err = q.OffsetByTime(ask, consumequeue.Upper, 100*gone)
			if err != nil || got != upper {
				t.Fatalf("seed %d, upper %d of %v from %d, gone below %d: %d, %v; want %d", seed, ask, times, first, gone, got, err, upper)
			}
			got, err = q.OffsetByTime(ask, consumequeue.Nearest, 100*gone)
			if err != nil || got < gone || got > end {
				t.Fatalf("seed %d: nearest %d: %d, %v", seed, ask, got, err)
			}
			if want := nearestInFile(times, first, gone, end, ask); got < end && distance(times[got-first], ask) != want {
				t.Fatalf("seed %d, nearest %d of %v from %d, gone below %d: %d, which is %d away and not %d", seed, ask, times, first, gone, got, distance(times[got-first], ask), want)
			}
		}
	}
}

func distance(a, b int64) int64 { return max(a-b, b-a) }

// nearestInFile is the smallest distance in the first file that does not end before ask, else in the last one.
func nearestInFile(times []int64, first, gone, end, ask int64) int64 {
	if gone == end {
		return 0
	}
	f := gone / perFile
	for f < (end-1)/perFile && times[(f+1)*perFile-1-first] < ask {
		f++
	}
	best := int64(1 << 62)
	for i := max(gone, f*perFile); i < min(end, (f+1)*perFile); i++ {
		best = min(best, distance(times[i-first], ask))
	}
	return best
}

// TestARecordWithoutTimeIsAnError, and not offset 0 as in the original.
func TestARecordWithoutTimeIsAnError(t *testing.T) {
	bad := errors.New("unreadable")
	o := small(faultfs.New())
	o.StoreTime = func(int64, int) (int64, error) { return 0, bad }
	s := open(t, o)
	fill(t, s, 0, 15)
	for _, r := range []consumequeue.TimeRule{consumequeue.Nearest, consumequeue.Lower, consumequeue.Upper} {
		if n, err := s.Queue(topic, 0).OffsetByTime(5, r, 0); !errors.Is(err, bad) {
			t.Errorf("%v: %d, %v", r, n, err)
		}
	}
}
