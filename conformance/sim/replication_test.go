package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/conformance/memnet"
	"github.com/mqstore/mqstore/store"
)

// TestSlaveIsByteIdentical: whatever happened to master, slave and network meanwhile, in the end the slave's log and queues are the master's, byte for byte, and its queues answer the same.
func TestSlaveIsByteIdentical(t *testing.T) {
	type world struct {
		rng           *rand.Rand
		n             *memnet.Network
		master, slave *node
	}
	for _, c := range []struct {
		name      string
		sync      bool // the master flushes synchronously
		happening func(w *world)
	}{
		{name: "steady load", happening: func(*world) {}},
		{name: "slave restarts", happening: func(w *world) { w.slave.stop(); load(w.slave.t, w.rng, w.master.s, 40); w.slave.open() }},
		{name: "slave killed", happening: func(w *world) { w.slave.kill(nil); load(w.slave.t, w.rng, w.master.s, 40); w.slave.open() }},
		{name: "slave loses power", happening: func(w *world) {
			caughtUp(w.slave.t, w.master, w.slave)
			w.slave.s.Flush() // a slave that lost everything would begin at the last segment
			load(w.slave.t, w.rng, w.master.s, 20)
			w.slave.kill(w.rng)
			load(w.slave.t, w.rng, w.master.s, 20)
			w.slave.open()
		}},
		{name: "master restarts", happening: func(w *world) { w.master.stop(); time.Sleep(time.Second); w.master.open() }},
		{name: "master killed", happening: func(w *world) { w.master.kill(nil); time.Sleep(time.Minute); w.master.open() }},
		{name: "master loses power", sync: true, happening: func(w *world) { w.master.kill(w.rng); w.master.open() }},
		{name: "resets", happening: func(w *world) { w.n.Seed(w.rng.Uint64(), 0.01) }},
		{name: "200 ms", happening: func(w *world) { w.n.SetLatency(200 * time.Millisecond) }},
		{name: "partition of 30 s", happening: func(w *world) { w.n.Part(30 * time.Second) }},
	} {
		for seed := range effort.Seeds(t, 2, 20) {
			for _, ext := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/extended=%v/seed=%d", c.name, ext, seed), func(t *testing.T) {
					bubble(t, func(t *testing.T) {
						w := &world{rng: rand.New(rand.NewPCG(seed, 1)), n: memnet.New()}
						mo, so := store.Options{}, store.Options{Role: store.Slave}
						so.HA.MasterAddress = "a:1"
						if ext {
							mo, so = extended(mo), extended(so)
							so.HA.MasterAddress = "a:1+"
						}
						if c.sync {
							mo.FlushMode = store.SyncFlush
						}
						w.master, w.slave = start(t, w.n, "a:1", mo), start(t, w.n, "b:1", so)
						for range 3 {
							load(t, w.rng, w.master.s, 60)
							c.happening(w)
							load(t, w.rng, w.master.s, 60)
						}
						w.n.Seed(1, 0)
						caughtUp(t, w.master, w.slave)
						same(t, w.master, w.slave)
						sameKeys(t, w.master, w.slave)
						if f := w.slave.s.Stats().HA.Following; f.Divergences != 0 || f.Diverged != "" {
							t.Errorf("%+v", f)
						}
					})
				})
			}
		}
	}
}

// TestSlaveOfASlave: a slave with a listener can be followed, as the original's.
func TestSlaveOfASlave(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		rng := rand.New(rand.NewPCG(1, 1))
		a := start(t, n, "a:1", store.Options{})
		b := start(t, n, "b:1", store.Options{Role: store.Slave, HA: store.HAOptions{MasterAddress: "a:1"}})
		c := start(t, n, "c:1", store.Options{Role: store.Slave, HA: store.HAOptions{MasterAddress: "b:1"}})
		load(t, rng, a.s, 300)
		caughtUp(t, a, c)
		caughtUp(t, a, b)
		same(t, a, c)
		same(t, a, b)
		if st := b.s.Stats().HA; len(st.Slaves) != 1 || st.Slaves[0].Lag != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// TestNewSlaveGetsEverything (report 50): between two of us an empty slave gets the whole log, or from the last segment on if that is asked for; on the classic protocol, where 0 cannot say what is wanted, the last segment, as the original.
func TestNewSlaveGetsEverything(t *testing.T) {
	for _, c := range []struct {
		name string
		o    store.Options
		all  bool
	}{
		{"extended", extended(store.Options{}), true},
		{"extended from the last segment", extended(store.Options{}, func(e *store.HAExtended) { e.ResyncFrom = store.LastSegment }), false},
		{"classic", store.Options{}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := memnet.New()
				rng := rand.New(rand.NewPCG(2, 1))
				mo := extended(store.Options{})
				master := start(t, n, "a:1", mo)
				for len(master.s.Stats().NotWritableReason) == 0 && master.s.MaxPhyOffset() < 4*segmentSize+100 {
					load(t, rng, master.s, 10)
				}
				c.o.Role = store.Slave
				c.o.HA.MasterAddress = "a:1"
				if c.o.HA.Extended != nil {
					c.o.HA.MasterAddress = "a:1+"
				}
				slave := start(t, n, "b:1", c.o)
				caughtUp(t, master, slave)
				want := int64(0)
				if !c.all {
					want = master.s.MaxPhyOffset() - master.s.MaxPhyOffset()%segmentSize
				}
				if got := slave.s.MinPhyOffset(); got != want {
					t.Errorf("the slave begins at %d, not %d", got, want)
				}
				if c.all {
					same(t, master, slave)
				}
				// Its queues go on where the master's do, with or without their beginning.
				load(t, rng, master.s, 50)
				caughtUp(t, master, slave)
				for _, q := range master.s.Queues() {
					if got := slave.s.MaxOffset(q.Topic, q.QueueID); got != q.MaxOffset {
						t.Errorf("%s/%d ends at %d on the slave, at %d on the master", q.Topic, q.QueueID, got, q.MaxOffset)
					}
					if x, y := answer(t, master, q.Topic, q.QueueID, q.MaxOffset-1), answer(t, slave, q.Topic, q.QueueID, q.MaxOffset-1); c.all && x != y {
						t.Errorf("%s\n%s", x, y)
					}
				}
			})
		})
	}
}

// TestKilledSlaveScansLittle (report 21): what a slave received moves its checkpoint too, so that a kill makes it read only what came after the last one.
func TestKilledSlaveScansLittle(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		rng := rand.New(rand.NewPCG(3, 1))
		master := start(t, n, "a:1", store.Options{})
		slave := start(t, n, "b:1", store.Options{Role: store.Slave, HA: store.HAOptions{MasterAddress: "a:1"}})
		for master.s.MaxPhyOffset() < 20*segmentSize {
			load(t, rng, master.s, 50)
		}
		caughtUp(t, master, slave)
		time.Sleep(2 * time.Minute) // a checkpoint
		load(t, rng, master.s, 50)
		caughtUp(t, master, slave)
		slave.kill(nil)
		slave.open()
		r := slave.s.Stats().Recovery
		if r.Clean || r.End-r.Start > 3*segmentSize {
			t.Errorf("recovery read [%d, %d): %+v", r.Start, r.End, r)
		}
		caughtUp(t, master, slave)
		same(t, master, slave)
	})
}

// TestIdleSlaveIsIdle (report 55): a slave that is connected and gets nothing, has no master's address, or cannot reach its master, does next to nothing; and stays connected (report 52).
func TestIdleSlaveIsIdle(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		master := start(t, n, "a:1", store.Options{})
		put(t, master.s, message("T", 0, "x"))
		slave := start(t, n, "b:1", store.Options{Role: store.Slave, HA: store.HAOptions{MasterAddress: "a:1"}})
		start(t, n, "c:1", store.Options{Role: store.Slave})
		caughtUp(t, master, slave)
		time.Sleep(time.Hour)
		f := slave.s.Stats().HA.Following
		if f.Connects != 1 || f.Frames > 2+3600/5 || n.Dials() != 1 {
			t.Errorf("%d dials, %+v", n.Dials(), f)
		}
		master.stop()
		time.Sleep(time.Hour)
		if d := n.Dials(); d > 2+3600/2 {
			t.Errorf("%d dials in an hour", d)
		}
		if lost := slave.events.count("master lost"); lost > 3 {
			t.Errorf("%d events about the same thing:\n%v", lost, slave.events)
		}
		synctest.Wait()
	})
}
