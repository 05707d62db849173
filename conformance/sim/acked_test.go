package sim

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/conformance/memnet"
	"github.com/mqstore/mqstore/store"
)

// acked is what producers were answered PutOK for.
type acked struct {
	mu struct {
		sync.Mutex
		bodies  map[string]store.PutResult
		offsets map[string]string // topic, queue, offset: body
		total   int
		visible int64 // highest VisibleEnd of a master that was seen
	}
}

func (a *acked) note(t *testing.T, topic string, r store.PutResult, queueID int32, body string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.total++
	if r.Status != store.PutOK {
		return
	}
	place := fmt.Sprintf("%s/%d/%d", topic, queueID, r.QueueOffset)
	if before, ok := a.mu.offsets[place]; ok {
		t.Errorf("%s was given to %q and to %q", place, before, body)
	}
	a.mu.offsets[place] = body
	a.mu.bodies[body] = r
}

// check reads all that was acknowledged from s.
func (a *acked) check(t *testing.T, s *store.DefaultMessageStore) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for place, body := range a.mu.offsets {
		var topic string
		var queueID int32
		var offset int64
		fmt.Sscanf(place, "T%1s/%d/%d", &topic, &queueID, &offset)
		r, err := s.Get(t.Context(), store.GetRequest{Topic: "T" + topic, QueueID: queueID, Offset: offset, MaxMessages: 1})
		if err != nil {
			t.Fatalf("get of %s, which was acknowledged: %v", place, err)
		}
		ms, err := r.Messages()
		if r.Status != store.Found || err != nil || len(ms) != 1 || string(ms[0].Body) != body || ms[0].PhyOffset != a.mu.bodies[body].PhyOffset {
			t.Fatalf("%s at physical offset %d was acknowledged with %q and now is %v %v %v; the log ends at %d", place, a.mu.bodies[body].PhyOffset, body, r.Status, ms, err, s.MaxPhyOffset())
		}
		r.Release()
	}
}

// producers put to whatever store they are given, until stop.
type producers struct {
	sync.WaitGroup
	mu struct {
		sync.Mutex
		s    *store.DefaultMessageStore
		stop bool
	}
}

func (p *producers) to(s *store.DefaultMessageStore) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.s = s
}

func (p *producers) store() (s *store.DefaultMessageStore, stop bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.s, p.mu.stop
}

func (p *producers) run(t *testing.T, a *acked, id int, rng *rand.Rand) {
	for i := 0; ; i++ {
		s, stop := p.store()
		if stop {
			return
		}
		time.Sleep(time.Duration(1+rng.IntN(100)) * time.Millisecond)
		if s == nil {
			continue
		}
		topic, queueID := fmt.Sprintf("T%d", rng.IntN(2)), int32(rng.IntN(2))
		body := fmt.Sprintf("%d-%d-%x", id, i, rng.Uint64())
		m := message(topic, queueID, body)
		if rng.IntN(3) > 0 {
			if r, err := s.Put(t.Context(), m); err == nil {
				a.note(t, topic, r, queueID, body)
			}
			continue
		}
		f := s.PutAsync(m)
		if r, err := f.Wait(t.Context()); err == nil {
			a.note(t, topic, r, queueID, body)
		}
	}
}

// TestAckedPutSurvivesTheMastersDisk is synchronous double write: after PutOK the master's machine with its disk may vanish at any moment. Everything acknowledged is on the slave, and served from it after its promotion,
// at the offsets that producers were told; and the new master gives none of them again. If the slave acknowledges what is on its disk, its power may fail at the same moment.
func TestAckedPutSurvivesTheMastersDisk(t *testing.T) {
	for seed := range effort.Seeds(t, 20, 220) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Logf("seed %d", seed)
			bubble(t, func(t *testing.T) { loseTheMaster(t, rand.New(rand.NewPCG(seed, 7))) })
		})
	}
}

func loseTheMaster(t *testing.T, rng *rand.Rand) {
	n := memnet.New()
	if rng.IntN(2) == 0 {
		n.Seed(rng.Uint64(), 0.01)
	}
	if rng.IntN(3) == 0 {
		n.SetLatency(time.Duration(rng.IntN(300)) * time.Millisecond)
	}
	mo, so := store.Options{Role: store.SyncMaster}, store.Options{Role: store.Slave}
	mo.FlushMode, so.FlushMode = store.FlushMode(rng.IntN(2)), store.FlushMode(rng.IntN(2))
	so.HA.MasterAddress, so.HA.ReportFlushed = "a:1", rng.IntN(2) == 0
	if rng.IntN(4) == 0 {
		mo, so = extended(mo), extended(so)
		so.HA.MasterAddress = "a:1+"
	}
	master, slave := start(t, n, "a:1", mo), start(t, n, "b:1", so)
	a := new(acked)
	a.mu.bodies, a.mu.offsets = map[string]store.PutResult{}, map[string]string{}
	p := new(producers)
	p.to(master.s)
	for id := range 4 {
		seed := rng.Uint64()
		p.Go(func() { p.run(t, a, id, rand.New(rand.NewPCG(seed, 8))) })
	}
	for range rng.IntN(12) {
		time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
		switch rng.IntN(8) {
		case 0:
			slave.stop()
			slave.open()
		case 1:
			slave.kill(nil)
			slave.open()
		case 2:
			n.Part(time.Duration(rng.IntN(10)) * time.Second)
		case 3:
			n.Reset(master.address)
		}
	}
	time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond)

	p.to(nil)
	master.kill(nil) // and nobody looks at its disk again
	if so.HA.ReportFlushed && rng.IntN(2) == 0 {
		slave.kill(rng)
		slave.o.Role = store.SyncMaster
		slave.open()
	} else if err := slave.s.SetRole(t.Context(), store.SyncMaster); err != nil {
		t.Fatal(err)
	}
	a.check(t, slave.s)
	p.to(slave.s)
	other := start(t, n, "c:1", store.Options{Role: store.Slave, HA: store.HAOptions{MasterAddress: "b:1"}})
	time.Sleep(5 * time.Second)
	p.mu.Lock()
	p.mu.stop = true
	p.mu.Unlock()
	p.Wait()
	caughtUp(t, slave, other)
	a.check(t, slave.s)
	if len(a.mu.bodies) == 0 {
		t.Errorf("none of %d puts was acknowledged", a.mu.total)
	}
}
