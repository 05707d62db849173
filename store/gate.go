package store

import "sync/atomic"

// gate lets puts in without ever making them wait, and lets one who shuts it wait until those inside have left. It waits on a channel, not on a mutex, so that time of a test's bubble goes on meanwhile.
type gate struct {
	state atomic.Int64 // how many are inside, and shut
	empty chan struct{}
}

const gateShut = 1 << 62

func newGate() gate { return gate{empty: make(chan struct{}, 1)} }

// enter reports whether the gate is open; who is let in must leave.
func (g *gate) enter() bool {
	for {
		n := g.state.Load()
		if n >= gateShut {
			return false
		}
		if g.state.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (g *gate) leave() {
	if g.state.Add(-1) == gateShut {
		g.empty <- struct{}{} // the last one: never blocks
	}
}

// pass shuts the gate, waits until all have left, and opens it again. One at a time.
func (g *gate) pass() {
	if g.state.Add(gateShut) != gateShut {
		<-g.empty
	}
	g.state.Add(-gateShut)
}
