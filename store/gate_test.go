package store

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestTheGateWaitsForThoseInside: who passes it waits until all who were let in before have left; nobody is let in meanwhile, nobody who tries waits, and afterwards it is open.
func TestTheGateWaitsForThoseInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		g.pass()
		var passed atomic.Bool
		for range 3 {
			for range 2 {
				if !g.enter() {
					t.Fatal("the gate is shut")
				}
			}
			passed.Store(false)
			go func() { g.pass(); passed.Store(true) }()
			synctest.Wait()
			if g.enter() {
				t.Error("let in while it is shut")
			}
			g.leave()
			time.Sleep(time.Second) // the bubble's clock goes on
			if passed.Load() {
				t.Error("passed before all had left")
			}
			g.leave()
			synctest.Wait()
			if !passed.Load() || !g.enter() {
				t.Errorf("passed=%v", passed.Load())
			}
			g.leave()
		}
	})
}

// TestTheGateUnderLoad: whoever passes finds nobody inside who was let in before.
func TestTheGateUnderLoad(t *testing.T) {
	g := newGate()
	var inside atomic.Int64 // of those let in before the pass
	var age atomic.Int64
	var users sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		users.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if g.enter() {
					mine := age.Load()
					inside.Add(1)
					if age.Load() > mine+1 {
						t.Error("passed over")
					}
					inside.Add(-1)
					g.leave()
				}
			}
		})
	}
	for range 1000 {
		g.pass()
		age.Add(1)
	}
	close(stop)
	users.Wait()
	if g.state.Load() != 0 || inside.Load() != 0 || len(g.empty) != 0 {
		t.Errorf("left with %d inside", g.state.Load())
	}
}
