package sim

import (
	"cmp"
	"context"
	"fmt"
	"hash"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/memnet"
	"github.com/mqstore/mqstore/store"
)

const (
	simSegment = 32 << 10
	simKeys    = 17 // a query answers at most 64 messages
)

// world is one seeded run: machines, their network, producers, and what is known of them. One goroutine decides everything that happens; between two decisions all others come to rest, so that the order in which
// the scheduler runs them decides nothing.
type world struct {
	seed   uint64
	rng    *rand.Rand
	plan   plan
	n      *memnet.Network
	ms     []*machine
	master *machine
	began  time.Time
	parted map[[2]string]bool
	trace  struct {
		sum   hash.Hash64
		lines []string
		steps int
	}
	ops    []*op
	oracle oracle
	failed []string
}

// plan is what a seed decides once.
type plan struct {
	role          store.Role
	masterFlush   store.FlushMode
	slaves        int
	required      int
	fallBehind    int64
	reportFlushed bool
	extended      bool
	steps         int
	mood          int // of the network: how much of what is pending a step delivers
	slowDisks     bool
	clocks        bool
	loose         bool // disks of SyncFlush slaves are slow or fail, too: the scheduler decides some of what happens, so that the seed is not the run
	indexed       bool // messages have keys, which are asked for at the end: the index's goroutines are its own, not the seed's

	plant *plant // nil: none
}

func loose(seed uint64) bool { return seed%4 == 2 }

func newPlan(rng *rand.Rand) plan {
	p := plan{role: store.SyncMaster, slaves: 1, required: 1, steps: 20 + rng.IntN(60), mood: rng.IntN(3), slowDisks: rng.IntN(3) == 0, clocks: rng.IntN(3) == 0, extended: rng.IntN(6) == 0}
	switch rng.IntN(7) {
	case 0, 1: // memory of two machines
	case 2, 3: // disks of two machines
		p.masterFlush, p.reportFlushed = store.SyncFlush, true
	case 4: // the slave's disk
		p.reportFlushed = true
	case 5: // one disk
		p.role, p.masterFlush = store.AsyncMaster, store.SyncFlush
	case 6: // one process
		p.role = store.AsyncMaster
	}
	if rng.IntN(3) == 0 {
		p.slaves = 2
		p.required = 1 + rng.IntN(2)
	}
	if rng.IntN(5) == 0 {
		p.fallBehind = 10_000 + rng.Int64N(100_000)
	}
	return p
}

// op is one put.
type op struct {
	id     int
	m      *machine
	life   int
	role   store.Role
	near   int // slaves that it should wait for
	topic  string
	queue  int32
	wait   bool
	key    string // "" = none
	bodies []string
	batch  bool
	began  time.Time

	mu struct {
		sync.Mutex
		done  bool
		r     store.PutResult
		err   error
		ended time.Time
	}
	taken  bool // its answer was looked at
	orphan bool // the process ended before it was answered
	acked  bool
}

func newWorld(seed uint64, bug *plant) *world {
	w := &world{seed: seed, rng: rand.New(rand.NewPCG(seed, 11)), n: memnet.New(), began: time.Now(), parted: map[[2]string]bool{}}
	w.trace.sum = fnv.New64a()
	w.n.Drive()
	w.plan = newPlan(w.rng)
	w.plan.plant = bug
	w.plan.indexed = seed%4 == 1
	w.plan.loose = loose(seed)
	p := w.plan
	w.tracef("%v %v slaves=%d required=%d fallBehind=%d reportFlushed=%v extended=%v loose=%v steps=%d mood=%d", p.role, p.masterFlush, p.slaves, p.required, p.fallBehind, p.reportFlushed, p.extended, p.loose, p.steps, p.mood)
	for i := range 1 + p.slaves {
		w.ms = append(w.ms, newMachine(w, fmt.Sprintf("%c:1", 'a'+i)))
	}
	w.master = w.ms[0]
	w.master.open(p.role)
	for _, m := range w.ms[1:] {
		time.Sleep(time.Duration(1 + w.rng.IntN(1e6)))
		m.master, m.owes = w.master.address, true
		m.open(store.Slave)
	}
	w.settle()
	return w
}

func (w *world) tracef(format string, args ...any) {
	line := fmt.Sprintf("%8.3fs ", time.Since(w.began).Seconds()) + fmt.Sprintf(format, args...)
	fmt.Fprintln(w.trace.sum, line)
	w.trace.lines = append(w.trace.lines, line)
}

// fail notes that a law is broken. The run ends soon.
func (w *world) fail(law, format string, args ...any) {
	w.failed = append(w.failed, law+": "+fmt.Sprintf(format, args...))
}

// close ends all stores.
func (w *world) close() {
	for _, m := range w.ms {
		m.disk.setSlow(0)
		if m.s != nil {
			m.s.Close()
		}
	}
	for _, c := range w.n.Conns() {
		c.Close()
		c.Other().Close()
	}
}

// settle lets everybody come to rest, and looks.
func (w *world) settle() {
	synctest.Wait()
	w.observe()
}

// reachable reports whether two machines can talk.
func (w *world) reachable(from, to string) bool {
	if len(to) > 3 {
		to = to[:3] // the extended listener's address is the classic one and a +
	}
	return !w.parted[[2]string{from, to}] && !w.parted[[2]string{to, from}]
}

// flow is what waits on its way to one end of a connection.
type flow struct {
	to      *memnet.Conn
	pending int
	down    bool // from the listener to who dialed
}

func (w *world) flows() (fs []flow) {
	conns := w.n.Conns()
	slices.SortStableFunc(conns, func(a, b *memnet.Conn) int { return cmp.Compare(a.From, b.From) }) // who dialed first at the same moment is the scheduler's choice
	for _, c := range conns {
		if !w.reachable(c.From, c.To) {
			continue
		}
		for _, down := range []bool{false, true} {
			end := c.Other()
			if down {
				end = c
			}
			if n, eof := end.Pending(); n > 0 || eof {
				fs = append(fs, flow{end, n, down})
			}
		}
	}
	return fs
}

// deliver lets something arrive, or a dial succeed. It reports whether there was anything.
func (w *world) deliver(whole bool) bool {
	calls := w.n.Calls()
	slices.SortStableFunc(calls, func(a, b *memnet.Call) int { return cmp.Compare(a.From, b.From) })
	for _, c := range calls {
		if w.reachable(c.From, c.To) && (whole || w.rng.IntN(2) == 0) {
			c.Connect()
			w.tracef("connect %s to %s", c.From, c.To)
			w.settle()
			return true
		}
	}
	fs := w.flows()
	if len(fs) == 0 {
		return false
	}
	f := fs[w.rng.IntN(len(fs))]
	n := f.pending
	// Reports may come one by one or together, as the scheduler has it: they arrive whole. What TLS makes of the same bytes differs each time.
	if cut := f.down && !w.plan.extended && !whole && n > 1 && w.rng.IntN(3) > 0; cut {
		n = 1 + w.rng.IntN(n)
		w.tracef("deliver %d bytes from %s to %s", n, f.to.To, f.to.From)
	} else {
		w.tracef("deliver between %s and %s, down=%v", f.to.From, f.to.To, f.down)
	}
	f.to.Deliver(n)
	w.settle()
	return true
}

// pump delivers until nothing waits, or a number of times.
func (w *world) pump(times int) {
	for range times {
		if len(w.failed) > 0 || !w.deliver(true) {
			return
		}
	}
}

// tick lets time pass.
func (w *world) tick(d time.Duration) {
	time.Sleep(d)
	w.settle()
}

// put begins a put on m, or a batch.
func (w *world) put(m *machine) {
	if m.s == nil {
		return
	}
	o := &op{id: len(w.ops), m: m, life: m.life, role: m.s.Role(), topic: fmt.Sprintf("T%d", w.rng.IntN(2)), queue: int32(w.rng.IntN(2)), wait: w.rng.IntN(10) > 0, began: time.Now()}
	if st := m.s.Stats().HA; o.role == store.SyncMaster {
		for _, s := range st.Slaves {
			if (s.Reported || !s.Extended) && w.plan.fallBehind == 0 { // one that is still greeting is no slave yet
				o.near++
			}
		}
	}
	items := 1
	if w.rng.IntN(5) == 0 {
		o.batch, items = true, 1+w.rng.IntN(4)
	}
	size := 20 + w.rng.IntN(200)
	if w.rng.IntN(5) == 0 {
		size = w.rng.IntN(6000)
	}
	for i := range items {
		body := make([]byte, size)
		for k := range body {
			body[k] = byte('a' + (o.id+k)%26)
		}
		o.bodies = append(o.bodies, fmt.Sprintf("%d.%d.%s", o.id, i, body))
	}
	if w.plan.indexed {
		o.key = fmt.Sprint(o.id % simKeys)
	}
	w.ops = append(w.ops, o)
	w.tracef("put %d to %s: %s/%d, %d×%d bytes, batch=%v wait=%v", o.id, m.address, o.topic, o.queue, items, size, o.batch, o.wait)
	s := m.s
	go func() {
		r, err := o.to(context.Background(), s)
		o.mu.Lock()
		defer o.mu.Unlock()
		o.mu.done, o.mu.r, o.mu.err, o.mu.ended = true, r, err, time.Now()
	}()
	w.settle()
}

type putter interface {
	store.Putter
	store.BatchPutter
}

// to puts o, to an engine or to the model.
func (o *op) to(ctx context.Context, s putter) (store.PutResult, error) {
	var properties []string
	if !o.wait {
		properties = []string{"WAIT", "false"}
	}
	if o.key != "" {
		properties = append(properties, "KEYS", o.key)
	}
	if !o.batch {
		return s.Put(ctx, message(o.topic, o.queue, o.bodies[0], properties...))
	}
	items := make([]record.BatchItem, len(o.bodies))
	for i, b := range o.bodies {
		items[i].Body = []byte(b)
	}
	return s.PutBatch(ctx, message(o.topic, o.queue, "", properties...), items)
}

// orphan is what becomes of the puts of a process that ends: nobody hears their answers.
func (w *world) orphan(m *machine) {
	for _, o := range w.ops {
		if o.m == m && !o.taken {
			o.taken, o.orphan = true, true
		}
	}
}

// eligible is the machine to take over, if the master's disk may be lost now: the one that has most of the log, which someone who waits for acknowledgements knows to be enough. nil = it may not.
func (w *world) eligible() (best *machine) {
	if w.plan.role != store.SyncMaster {
		return nil
	}
	for _, m := range w.ms {
		switch {
		case m == w.master:
		case m.owes || m.partial:
			return nil
		}
	}
	for _, m := range w.ms {
		if m == w.master {
			continue
		}
		if m.s == nil || m.broken {
			w.revive(m)
			if m.s == nil {
				return nil
			}
		}
		if best == nil || m.s.MaxPhyOffset() > best.s.MaxPhyOffset() {
			best = m
		}
	}
	return best
}

// revive opens a slave that is down, or whose disk failed, after the process's end.
func (w *world) revive(m *machine) {
	m.fs.SetReadOnly(false)
	m.fs.SetLimit(0)
	if m.s != nil {
		m.end(nil)
	}
	m.master = w.master.address
	m.open(store.Slave)
	w.settle()
}

// reseed gives a machine a new copy of the master's log: by the master's own protocol, or from an operator's hand.
func (w *world) reseed(m *machine) {
	if m.s != nil {
		m.fs.SetReadOnly(false)
		m.end(nil)
	}
	m.wipe()
	if !w.plan.extended && w.rng.IntN(8) > 0 && w.master.s != nil {
		synctest.Wait()
		m.copyFrom(w.master)
	} else if w.oracle.expired > 0 && !w.plan.extended {
		m.partial = true
	}
	w.revive(m)
}

// promote makes m the master. The others follow it.
func (w *world) promote(m *machine) {
	m.disk.setSlow(0)
	m.fs.SetReadOnly(false)
	m.fs.SetLimit(0)
	if m.broken {
		m.end(nil)
		m.open(store.Slave)
		if m.s == nil {
			return
		}
	}
	synctest.Wait()
	if err := m.s.SetRole(context.Background(), w.plan.role); err != nil {
		w.fail("a healthy slave becomes master", "%s: %v", m.address, err)
		return
	}
	w.tracef("promoted %s", m.address)
	w.master = m
	m.owes = false
	w.oracle.visible = 0
	for _, x := range w.ms {
		if x != m {
			x.follow(m.address)
		}
	}
	w.settle()
}

// loseMaster destroys the master, disk and all, and promotes a slave.
func (w *world) loseMaster() {
	next := w.eligible()
	if next == nil || len(w.failed) > 0 {
		return
	}
	old := w.master
	if w.rng.IntN(2) == 0 && old.s != nil { // in the midst of it
		for range 1 + w.rng.IntN(3) {
			w.put(old)
		}
		for range w.rng.IntN(6) {
			w.deliver(false)
		}
		if next = w.eligible(); next == nil || len(w.failed) > 0 {
			return
		}
	}
	w.tracef("lose %s", old.address)
	if old.s != nil {
		old.end(nil)
	}
	if w.plan.reportFlushed && w.rng.IntN(2) == 0 && (next.wrote == 0 || next.s.FlushedPhyOffset() >= next.wrote) { // and the slave's power fails
		next.end(w.rng)
		next.fs.SetLimit(0)
		next.open(store.Slave)
		if next.s == nil {
			return
		}
		synctest.Wait()
		if next = w.eligible(); next == nil || len(w.failed) > 0 { // another one may have more now
			return
		}
	}
	w.promote(next)
	old.wipe()
	if w.rng.IntN(2) == 0 && len(w.failed) == 0 {
		w.reseed(old)
	}
}

// swap exchanges master and slave without losing anything, under concurrent puts.
func (w *world) swap() {
	old := w.master
	next := w.ms[w.rng.IntN(len(w.ms))]
	if next == old || next.s == nil || old.s == nil || next.partial || next.broken || next.owes || old.broken {
		return
	}
	w.tracef("swap %s for %s", old.address, next.address)
	for range w.rng.IntN(5) {
		w.put(old)
	}
	old.disk.setSlow(0)
	synctest.Wait()
	done := make(chan error, 1)
	s := old.s
	go func() { done <- s.SetRole(context.Background(), store.Slave) }()
	w.settle()
	for range 200 {
		if len(done) > 0 || len(w.failed) > 0 {
			break
		}
		w.life()
	}
	for len(done) == 0 {
		w.tick(100 * time.Millisecond)
	}
	if err := <-done; err != nil {
		w.fail("a master becomes a slave", "%s: %v", old.address, err)
		return
	}
	w.tracef("demoted %s", old.address)
	old.wrote = old.s.MaxPhyOffset()
	// The slave must have all: nobody puts meanwhile.
	for range 50 {
		if len(w.failed) > 0 || next.s.MaxPhyOffset() == old.s.MaxPhyOffset() {
			break
		}
		w.pump(20)
		w.tick(time.Duration(1+w.rng.IntN(300)) * time.Millisecond)
	}
	if len(w.failed) > 0 {
		return
	}
	if next.s.MaxPhyOffset() != old.s.MaxPhyOffset() || next.partial {
		w.tracef("no swap: %s is not level", next.address)
		w.promote(old)
		return
	}
	w.promote(next)
}
