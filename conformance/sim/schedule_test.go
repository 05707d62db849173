package sim

import (
	"time"

	"github.com/mqstore/mqstore/store"
)

// life is what goes on at all times: puts, deliveries, time.
func (w *world) life() {
	switch w.rng.IntN(4) {
	case 0:
		w.put(w.master)
	case 1:
		w.tick(time.Duration(1+w.rng.IntN(200)) * time.Millisecond)
	default:
		w.deliver(w.plan.mood == 0)
	}
}

// run lets happen what the seed decides, then heals everything and checks that all are equal.
func (w *world) run() {
	for range w.plan.steps {
		w.event()
		if len(w.failed) > 0 {
			return
		}
		switch w.plan.mood {
		case 0:
			w.pump(50)
		case 1:
			w.pump(w.rng.IntN(8))
		}
	}
	w.heal()
}

// event is one thing that happens.
func (w *world) event() {
	slave := w.ms[w.rng.IntN(len(w.ms))]
	if slave == w.master {
		slave = nil
	}
	up := slave != nil && slave.s != nil
	switch k := w.rng.IntN(100); {
	case k < 30:
		w.put(w.master)
	case k < 36:
		for range 2 + w.rng.IntN(5) {
			w.put(w.master)
		}
	case k < 50:
		for range 1 + w.rng.IntN(4) {
			w.deliver(false)
		}
	case k < 62:
		w.tick([]time.Duration{time.Millisecond, 20 * time.Millisecond, 300 * time.Millisecond, time.Second, 4 * time.Second, 25 * time.Second}[w.rng.IntN(6)] + time.Duration(w.rng.IntN(1e6)))
	case k < 65:
		if fs := w.flows(); len(fs) > 0 {
			c := fs[w.rng.IntN(len(fs))].to
			w.tracef("cut between %s and %s", c.From, c.To)
			c.Reset()
			w.settle()
		}
	case k < 68:
		a, b := w.ms[w.rng.IntN(len(w.ms))], w.ms[w.rng.IntN(len(w.ms))]
		if a != b {
			w.parted[[2]string{a.address, b.address}] = true
			w.tracef("part %s and %s", a.address, b.address)
		}
	case k < 72:
		clear(w.parted)
		w.tracef("join")
	case k < 76 && up: // a slave's process ends, perhaps its machine
		if w.rng.IntN(2) == 0 && (w.plan.reportFlushed || w.plan.role == store.AsyncMaster) {
			slave.end(w.rng)
		} else {
			slave.end(nil)
		}
		if w.rng.IntN(2) == 0 {
			w.revive(slave)
		}
		w.settle()
	case k < 80:
		if slave != nil && slave.s == nil {
			w.revive(slave)
		}
	case k < 83 && w.master.s != nil: // the master's process ends, or its machine
		m := w.master
		if w.plan.masterFlush != store.SyncFlush || w.rng.IntN(2) == 0 {
			m.end(nil)
			w.tick(time.Duration(w.rng.IntN(10_000)) * time.Millisecond)
			m.open(w.plan.role)
		} else {
			w.powerOffMaster()
		}
		w.settle()
	case k < 87:
		w.loseMaster()
	case k < 91:
		w.swap()
	case k < 92 && slave != nil:
		w.reseed(slave)
	case k < 93 && w.master.s != nil:
		w.expire()
	case k < 95 && w.master.s != nil:
		w.checkpoint(w.master)
		if up {
			w.checkpoint(slave)
		}
	case k < 97 && up && (w.plan.masterFlush == store.AsyncFlush || w.plan.loose): // of a SyncFlush slave, whether a report overtakes the failure is the scheduler's choice
		switch w.rng.IntN(3) {
		case 0:
			slave.fs.SetLimit(slave.fs.Used() + w.rng.Int64N(100_000))
			w.tracef("disk of %s is full", slave.address)
		case 1:
			slave.fs.SetReadOnly(true)
			slave.broken = true
			w.tracef("disk of %s is read-only", slave.address)
		case 2:
			slave.fs.SetLimit(0)
			w.tracef("disk of %s has room", slave.address)
		}
	case k < 99 && w.plan.slowDisks:
		m := w.ms[w.rng.IntN(len(w.ms))]
		slow := time.Duration(0)
		// A SyncFlush slave syncs as pieces arrive: where one sync ends and the next begins is the scheduler's choice.
		if !m.disk.isSlow() && (w.plan.masterFlush == store.AsyncFlush || m == w.master || w.plan.loose) {
			slow = time.Duration(1+w.rng.IntN(400)) * time.Millisecond
		}
		m.disk.setSlow(slow)
		w.tracef("syncs of %s take %v", m.address, slow)
		w.settle()
	case w.plan.clocks:
		m := w.ms[w.rng.IntN(len(w.ms))]
		m.skew = time.Duration(w.rng.IntN(7200)-3600) * time.Second
		w.tracef("clock of %s is %v off", m.address, m.skew)
	}
}

// powerOffMaster cuts the master's power and lets it come back. It may then lack what slaves have: those are given a new copy, as the documentation says, before they connect.
func (w *world) powerOffMaster() {
	m := w.master
	m.end(w.rng)
	m.open(w.plan.role)
	if m.s == nil {
		return
	}
	end := m.s.MaxPhyOffset()
	for _, x := range w.ms {
		switch {
		case x == m:
		case x.s == nil:
			x.wipe()
		case x.s.MaxPhyOffset() > end:
			w.reseed(x)
		}
	}
}

// expire deletes the master's first segment, if there are some.
func (w *world) expire() {
	m := w.master
	if m.s.Stats().Segments < 3 {
		return
	}
	w.quietly(m, func() {
		if _, err := m.s.DeleteExpired(store.ExpireOptions{Manual: true, Max: 1}); err != nil {
			w.fail("segments can be deleted at any time", "%s: %v", m.address, err)
		}
	})
	w.oracle.expired = max(w.oracle.expired, m.s.MinPhyOffset())
	w.tracef("expire up to %d on %s", m.s.MinPhyOffset(), m.address)
	for _, x := range w.ms {
		if x == m {
			continue
		}
		if x.s == nil || x.s.MaxPhyOffset() < m.s.MinPhyOffset() {
			w.reseed(x)
		}
	}
	w.settle()
}

func (w *world) checkpoint(m *machine) {
	if m.broken {
		return
	}
	w.quietly(m, func() {
		if err := m.s.CheckpointStep(); err != nil && m.fs.Used() > 0 && !w.full(m) {
			w.fail("a checkpoint of a healthy store succeeds", "%s: %v", m.address, err)
		}
	})
	w.tracef("checkpoint %s", m.address)
}

// quietly calls f while no sync of m waits.
func (w *world) quietly(m *machine, f func()) {
	m.disk.setSlow(0)
	w.settle()
	f()
	w.settle()
}

// full reports whether m's disk may be.
func (w *world) full(m *machine) bool { return m.s.Stats().NotWritableReason != "" && m != w.master }

// heal makes everything whole, and waits until all are equal.
func (w *world) heal() {
	w.tracef("heal")
	clear(w.parted)
	if w.master.s == nil || w.master.broken {
		if w.master.s != nil {
			w.master.end(nil)
		}
		w.master.open(w.plan.role)
	}
	if len(w.failed) > 0 {
		return
	}
	for _, m := range w.ms {
		m.disk.setSlow(0)
		m.fs.SetLimit(0)
		if m == w.master {
			continue
		}
		if m.s == nil || m.broken {
			w.revive(m)
		}
	}
	w.settle()
	for range 3 {
		w.put(w.master)
	}
	for deadline := time.Now().Add(10 * time.Minute); !w.level() && len(w.failed) == 0; {
		if time.Now().After(deadline) {
			for _, m := range w.ms {
				w.fail("whoever can reach its master gets all of its log", "%v: %+v", m, m.s.Stats().HA.Following)
			}
			return
		}
		w.pump(100)
		w.tick(500 * time.Millisecond)
	}
	if len(w.failed) == 0 {
		w.check()
	}
}

// level reports whether all have and have dispatched what the master has, and all puts are answered.
func (w *world) level() bool {
	end := w.master.s.MaxPhyOffset()
	for _, m := range w.ms {
		if m.s.MaxPhyOffset() != end || m.s.DispatchedPhyOffset() != end {
			return false
		}
	}
	for _, o := range w.ops {
		if !o.taken {
			return false
		}
	}
	return true
}
