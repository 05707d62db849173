package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/store"
)

// machine is a node of a seeded run: a store with a disk, an address and a clock of its own.
type machine struct {
	w       *world
	address string
	fs      *faultfs.FS
	s       *store.DefaultMessageStore // nil = down
	master  string                     // whom it follows when it is a slave
	skew    time.Duration              // of its clock
	jitter  *rand.Rand
	disk    disk
	life    int // counts its opens

	// owes: its disk was emptied, and it has not had all of the log since, so that a master's loss would be one too many.
	owes bool
	// partial: it began behind the log's first byte, with empty queues, by the classic protocol, so it does not know where a queue goes on of which no message was left: it can never take over.
	partial bool
	broken  bool  // its disk fails: it must be opened again
	wrote   int64 // the end of what it put as a master: acknowledged by others' reports, not by its own disk's
	held    int64 // the most of the log that it was seen to hold, as safe as its reports say
}

// disk slows down syncs of the commit log. A slow one can be hurried, since whoever waits for the flush lock meanwhile would stop the bubble's clock.
type disk struct {
	mu struct {
		sync.Mutex
		rng   *rand.Rand
		slow  time.Duration // at most
		hurry chan struct{} // closed: nobody waits
	}
}

func (d *disk) wait() {
	d.mu.Lock()
	var wait time.Duration
	if d.mu.slow > 0 {
		wait = 1 + time.Duration(d.mu.rng.Int64N(int64(d.mu.slow)))
	}
	hurry := d.mu.hurry
	d.mu.Unlock()
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-hurry:
		}
	}
}

// setSlow makes syncs take up to d from now on; 0 ends those under way, too.
func (d *disk) setSlow(slow time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.slow = slow; slow == 0 {
		close(d.mu.hurry)
		d.mu.hurry = make(chan struct{})
	}
}

func (d *disk) isSlow() bool { d.mu.Lock(); defer d.mu.Unlock(); return d.mu.slow > 0 }

func newMachine(w *world, address string) *machine {
	m := &machine{w: w, address: address, fs: faultfs.New(), jitter: rand.New(rand.NewPCG(w.rng.Uint64(), 3))}
	m.disk.mu.rng, m.disk.mu.hurry = rand.New(rand.NewPCG(w.rng.Uint64(), 4)), make(chan struct{})
	return m
}

func (m *machine) open(role store.Role) {
	p := &m.w.plan
	o := store.Options{
		FS: m.fs, SegmentSize: simSegment, QueueFileSize: 2000, Index: store.IndexOptions{Off: !p.indexed}, Role: role, FlushMode: p.masterFlush, OffsetCheckInSlave: true,
		// No two of these are ever due at the same moment: which would be first is not the seed's to say.
		FlushEvery: 501 * time.Millisecond, QueueFlushEvery: 1009 * time.Millisecond, CheckpointEvery: 1000 * time.Hour,
		Now: func() time.Time { return time.Now().Add(m.skew) },
	}
	o.HA = store.HAOptions{
		Listener: m.w.n.Listen(m.address), MasterAddress: m.master, RequiredAcks: p.required, FallBehindMax: p.fallBehind, ReportFlushed: p.reportFlushed,
		Dial: m.w.n.Dialer(m.address), Jitter: m.jitter.Float64,
	}
	if p.plant != nil {
		p.plant.into(&o)
	}
	if p.extended {
		o = extended(o)
		o.HA.Extended.Listener = m.w.n.Listen(m.address + "+")
		if m.master != "" {
			o.HA.MasterAddress = m.master + "+"
		}
	}
	m.fs.SetHook(func(op faultfs.Op) error {
		if op.Kind == faultfs.OpSync && strings.Contains(op.Path, "commitlog") {
			m.disk.wait()
		}
		return nil
	})
	s, err := store.Open("/store", o)
	if err != nil {
		m.w.fail("a store opens after whatever happened", "open %s as %v: %v", m.address, role, err)
		return
	}
	m.s, m.broken = s, false
	m.life++
	m.w.tracef("open %s %v", m.address, role)
}

// end ends the process; with power also the machine, whose disk keeps what rng says of what was not synced.
func (m *machine) end(power *rand.Rand) {
	m.disk.setSlow(0)
	synctest.Wait()
	m.note()
	dead := m.fs
	if power != nil {
		m.fs = dead.Crash(power)
	} else {
		m.fs = dead.Kill()
	}
	m.w.n.Reset(m.address)
	m.w.n.Reset(m.address + "+")
	for _, c := range m.w.n.Conns() {
		if c.From == m.address {
			c.Reset()
		}
	}
	m.w.orphan(m)
	synctest.Wait() // or it would be the scheduler's choice whether Close still knows slaves
	m.s.Close()     // only its goroutines are left to end: its disk is dead
	m.s = nil
	synctest.Wait()
	m.w.tracef("end %s power=%v", m.address, power != nil)
}

// note samples what m holds.
func (m *machine) note() {
	if m.s == nil {
		return
	}
	held := m.s.MaxPhyOffset()
	if m.w.plan.reportFlushed {
		held = m.s.FlushedPhyOffset()
	}
	m.held = max(m.held, held)
}

// wipe empties the disk of a machine that is down.
func (m *machine) wipe() {
	m.fs = faultfs.New()
	m.held, m.wrote, m.owes, m.partial = 0, 0, true, false
	m.w.tracef("wipe %s", m.address)
}

// copyFrom fills the empty disk of a machine that is down with the log of another that is up, as an operator does; and with its queues, if the log has lost its beginning: only they know where a queue goes on of which no message is left.
func (m *machine) copyFrom(from *machine) {
	for _, path := range from.fs.Paths() {
		if !strings.HasPrefix(path, "/store/commitlog/") && (from.s.MinPhyOffset() <= 0 || !strings.HasPrefix(path, "/store/consumequeue/")) {
			continue
		}
		if b, err := from.fs.ReadFile(path); err == nil {
			m.fs.Plant(path, b)
		}
	}
	m.w.tracef("copy %s to %s", from.address, m.address)
}

func (m *machine) follow(master string) {
	m.master = master
	if m.s == nil {
		return
	}
	if m.w.plan.extended && master != "" {
		master += "+"
	}
	if err := m.s.UpdateHaMasterAddress(master); err != nil {
		m.w.fail("a slave takes its master's address", "%s: %v", m.address, err)
	}
}

func (m *machine) String() string {
	if m.s == nil {
		return m.address + " down"
	}
	st := m.s.Stats()
	replication := ""
	if f := st.HA.Following; f != nil {
		replication = fmt.Sprintf(" %s, reported %d", f.State, f.Reported)
	}
	acks := make([]int64, len(st.HA.Slaves))
	for i, s := range st.HA.Slaves {
		acks[i] = s.Ack
	}
	if slices.Sort(acks); len(acks) > 0 {
		replication += fmt.Sprintf(" acked %v", acks)
	}
	return fmt.Sprintf("%s %v [%d,%d) held %d flushed %d visible %d dispatched %d%s", m.address, st.HA.Role, st.MinPhyOffset, st.MaxPhyOffset, m.s.MaxPhyOffset(), st.FlushedPhyOffset, st.VisibleEnd, st.DispatchedPhyOffset, replication)
}
