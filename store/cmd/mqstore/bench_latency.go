package main

import (
	"math/bits"
	"time"
)

// latencySteps is how many steps there are between a duration and its double: a quantile is at most 1/64 too high.
const latencySteps = 64

// latencies counts durations, any number of them, in the same memory. One goroutine at a time.
type latencies struct {
	counts [(64 - 6) * latencySteps]int64
	n      int64
	most   time.Duration
}

func latencyStep(d time.Duration) int {
	v := uint64(max(d, 0))
	if v < 2*latencySteps {
		return int(v)
	}
	shift := bits.Len64(v) - 7 // leaves 7 bits, of which the first is 1
	return shift*latencySteps + int(v>>shift)
}

// latencyMost is the longest duration of a step.
func latencyMost(step int) time.Duration {
	if step < 2*latencySteps {
		return time.Duration(step)
	}
	shift := step/latencySteps - 1
	return time.Duration((uint64(step-shift*latencySteps)+1)<<shift - 1)
}

func (l *latencies) add(d time.Duration) {
	l.counts[latencyStep(d)]++
	l.n++
	l.most = max(l.most, d)
}

func (l *latencies) merge(o *latencies) {
	for i, n := range o.counts {
		l.counts[i] += n
	}
	l.n += o.n
	l.most = max(l.most, o.most)
}

// quantile is the duration that the part q of all did not exceed; 0 of none.
func (l *latencies) quantile(q float64) time.Duration {
	rank := int64(q * float64(l.n))
	for step, n := range l.counts {
		if rank -= n; rank < 0 {
			return min(latencyMost(step), l.most)
		}
	}
	return l.most
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
