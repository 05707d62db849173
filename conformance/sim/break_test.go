package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/conformance/memnet"
	"github.com/mqstore/mqstore/store"
)

// TestASlaveWithAFullDiskGoesOn: while its disk is full a slave takes what fits and its master's puts are answered that it lacks them; when there is room again it catches up by itself, and both are equal.
func TestASlaveWithAFullDiskGoesOn(t *testing.T) {
	for _, mode := range []store.FlushMode{store.AsyncFlush, store.SyncFlush} {
		for _, ext := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v/extended=%v", mode, ext), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					n := memnet.New()
					rng := rand.New(rand.NewPCG(9, 1))
					mo, so := store.Options{Role: store.SyncMaster}, store.Options{Role: store.Slave, FlushMode: mode}
					so.HA.MasterAddress, so.HA.ReportFlushed = "a:1", mode == store.SyncFlush
					if ext {
						mo, so = extended(mo), extended(so)
						so.HA.MasterAddress = "a:1+"
					}
					a, b := start(t, n, "a:1", mo), start(t, n, "b:1", so)
					load(t, rng, a.s, 50)
					caughtUp(t, a, b)
					for range 3 {
						b.fs.SetLimit(b.fs.Used() + 1)
						for a.s.MaxPhyOffset()-b.s.MaxPhyOffset() < 2*segmentSize {
							a.s.PutAsync(message("T0", 0, string(make([]byte, 5000))))
							time.Sleep(10 * time.Millisecond)
						}
						if r := put(t, a.s, message("T0", 0, "x")); r.Status == store.PutOK {
							t.Error("PutOK of what a full disk cannot have")
						}
						if f := b.s.Stats().HA.Following; f.LastError == "" || f.Diverged != "" {
							t.Errorf("%+v", f)
						}
						b.fs.SetLimit(0)
						caughtUp(t, a, b)
						time.Sleep(time.Second)
						if r := put(t, a.s, message("T0", 0, "x")); r.Status != store.PutOK {
							t.Error(r.Status)
						}
					}
					caughtUp(t, a, b)
					same(t, a, b)
				})
			})
		}
	}
}

// TestASlaveWithAReadOnlyDiskSaysSo: it does not acknowledge what it cannot keep, says what is wrong, and goes on where it was when it is opened on a disk that is well.
func TestASlaveWithAReadOnlyDiskSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		rng := rand.New(rand.NewPCG(10, 1))
		a := start(t, n, "a:1", store.Options{Role: store.SyncMaster})
		b := start(t, n, "b:1", store.Options{Role: store.Slave, FlushMode: store.SyncFlush, HA: store.HAOptions{MasterAddress: "a:1", ReportFlushed: true}})
		load(t, rng, a.s, 50)
		caughtUp(t, a, b)
		b.fs.SetReadOnly(true)
		if r := put(t, a.s, message("T0", 0, "x")); r.Status == store.PutOK {
			t.Error("PutOK of what is on no disk")
		}
		time.Sleep(30 * time.Second)
		if st := b.s.Stats(); st.HA.Following.LastError == "" || st.NotWritableReason == "" {
			t.Errorf("%+v", st)
		}
		if err := b.s.SetRole(t.Context(), store.AsyncMaster); err == nil {
			t.Error("it becomes master")
		}
		b.fs.SetReadOnly(false)
		b.kill(nil)
		b.open()
		load(t, rng, a.s, 10)
		caughtUp(t, a, b)
		same(t, a, b)
	})
}

// TestSegmentsThatASlaveIsBeingSentCanBeDeleted: what is on its way to a slave stays as it is, and when the slave needs what is gone it is told.
func TestSegmentsThatASlaveIsBeingSentCanBeDeleted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		rng := rand.New(rand.NewPCG(11, 1))
		a := start(t, n, "a:1", extended(store.Options{}))
		for a.s.MaxPhyOffset() < 12*segmentSize { // more than the connection takes
			load(t, rng, a.s, 20)
		}
		caughtUp(t, a, a)
		want, err := logBytes(a.s, 0, a.s.MaxPhyOffset())
		if err != nil {
			t.Fatal(err)
		}
		so := extended(store.Options{Role: store.Slave})
		so.HA.MasterAddress = "a:1+"
		n.SetLatency(time.Second)
		b := start(t, n, "b:1", so)
		for b.s.MaxPhyOffset() == 0 {
			time.Sleep(100 * time.Millisecond)
		}
		n.Part(10 * time.Second)
		for range 3 {
			if _, err := a.s.DeleteExpired(store.ExpireOptions{Manual: true, Max: 3}); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		end := b.s.MaxPhyOffset()
		got, err := logBytes(b.s, 0, end)
		if err != nil || string(got) != string(want[:end]) {
			t.Errorf("the slave's [0, %d) is not what the master's was: %v", end, err)
		}
		f := b.s.Stats().HA.Following
		if first := a.s.MinPhyOffset(); end < first && f.Diverged == "" || end >= first && end != a.s.MaxPhyOffset() {
			t.Errorf("the slave ends at %d, the master begins at %d: %+v", end, first, f)
		}
	})
}

// TestRolesSwapUnderPuts: producers go on while master and slave change places. Whatever was answered PutOK is there, at the place that was told, and both are equal.
func TestRolesSwapUnderPuts(t *testing.T) {
	for seed := range effort.Seeds(t, 4, 60) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Logf("seed %d", seed)
			bubble(t, func(t *testing.T) { swapUnderPuts(t, rand.New(rand.NewPCG(seed, 12))) })
		})
	}
}

func swapUnderPuts(t *testing.T, rng *rand.Rand) {
	n := memnet.New()
	n.SetLatency(time.Duration(rng.IntN(50)) * time.Millisecond)
	o := store.Options{Role: store.SyncMaster, FlushMode: store.FlushMode(rng.IntN(2))}
	suffix := ""
	if rng.IntN(3) == 0 {
		o, suffix = extended(o), "+"
	}
	m := start(t, n, "a:1", o)
	o.Role, o.HA.MasterAddress = store.Slave, "a:1"+suffix
	s := start(t, n, "b:1", o)
	a := new(acked)
	a.mu.bodies, a.mu.offsets = map[string]store.PutResult{}, map[string]string{}
	p := new(producers)
	p.to(m.s)
	for id := range 6 {
		seed := rng.Uint64()
		p.Go(func() { p.run(t, a, id, rand.New(rand.NewPCG(seed, 13))) })
	}
	for range 6 {
		time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
		if err := m.s.SetRole(t.Context(), store.Slave); err != nil {
			t.Fatal(err)
		}
		caughtUp(t, m, s)
		if err := s.s.SetRole(t.Context(), store.SyncMaster); err != nil {
			t.Fatal(err)
		}
		if err := m.s.UpdateHaMasterAddress(s.address + suffix); err != nil {
			t.Fatal(err)
		}
		m, s = s, m
		p.to(m.s)
	}
	time.Sleep(5 * time.Second)
	p.mu.Lock()
	p.mu.stop = true
	p.mu.Unlock()
	p.Wait()
	caughtUp(t, m, s)
	same(t, m, s)
	a.check(t, m.s)
	a.check(t, s.s)
	if len(a.mu.bodies) < 10 {
		t.Errorf("only %d of %d puts were acknowledged", len(a.mu.bodies), a.mu.total)
	}
	synctest.Wait()
}

// TestCloseDuringEverything: whatever goes on, a store can be closed, at once, and nothing runs on; and it opens again.
func TestCloseDuringEverything(t *testing.T) {
	for seed := range effort.Seeds(t, 8, 100) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Logf("seed %d", seed)
			closeDuringEverything(t, rand.New(rand.NewPCG(seed, 14)))
		})
	}
}

func closeDuringEverything(t *testing.T, rng *rand.Rand) {
	type side struct {
		fs *faultfs.FS
		o  store.Options
		s  *store.DefaultMessageStore
	}
	var sides [2]*side
	for i := range sides {
		d := &side{fs: faultfs.New(), o: store.Options{Role: store.Role(rng.IntN(3)), SegmentSize: segmentSize, QueueFileSize: 2000, FlushMode: store.FlushMode(rng.IntN(2)), FlushEvery: 20 * time.Millisecond, Index: store.IndexOptions{Off: true}}}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		d.o.FS, d.o.HA = d.fs, store.HAOptions{Listener: l, SlaveTimeout: 30 * time.Millisecond, Heartbeat: 20 * time.Millisecond, Housekeeping: 100 * time.Millisecond, ReportFlushed: rng.IntN(2) == 0}
		if d.s, err = store.Open("/store", d.o); err != nil {
			t.Fatal(err)
		}
		sides[i] = d
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var all sync.WaitGroup
	often := func(f func(d, other *side, rng *rand.Rand)) {
		seed := rng.Uint64()
		all.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 15))
			for ctx.Err() == nil {
				i := rng.IntN(2)
				f(sides[i], sides[1-i], rng)
			}
		})
	}
	for range 3 {
		often(func(d, _ *side, rng *rand.Rand) {
			d.s.Put(ctx, message("T", int32(rng.IntN(2)), string(make([]byte, rng.IntN(3000)))))
		})
		often(func(d, _ *side, rng *rand.Rand) { d.s.PutAsync(message("T", 0, "x")).Wait(ctx) })
	}
	often(func(d, other *side, rng *rand.Rand) {
		d.s.UpdateHaMasterAddress(other.s.Stats().HA.ListenAddress)
		d.s.SetRole(ctx, store.Role(rng.IntN(3)))
	})
	often(func(d, _ *side, rng *rand.Rand) {
		switch rng.IntN(4) {
		case 0:
			d.s.CheckpointStep()
		case 1:
			d.s.Flush()
		case 2:
			d.s.DeleteExpired(store.ExpireOptions{Manual: true, Max: 1})
		case 3:
			if r, err := d.s.Get(ctx, store.GetRequest{Topic: "T", Offset: rng.Int64N(10), MaxMessages: 5}); err == nil {
				r.Release()
			}
		}
	})
	timer := time.NewTimer(time.Duration(1+rng.IntN(150)) * time.Millisecond)
	<-timer.C
	for _, d := range sides {
		all.Go(func() {
			begin := time.Now()
			if err := d.s.Close(); err != nil && !errors.Is(err, store.ErrServiceNotAvailable) {
				t.Logf("close: %v", err) // two masters of one log make damage of each other's, which Close may say
			}
			if took := time.Since(begin); took > 20*time.Second {
				t.Errorf("close took %v", took)
			}
		})
	}
	timer.Reset(20 * time.Millisecond)
	<-timer.C
	stop()
	all.Wait()
	for _, d := range sides {
		if _, err := d.s.Put(t.Context(), message("T", 0, "x")); !errors.Is(err, store.ErrServiceNotAvailable) {
			t.Errorf("put to a closed store: %v", err)
		}
		if err := d.s.Close(); !errors.Is(err, store.ErrClosed) {
			t.Errorf("closed twice: %v", err)
		}
		d.o.HA = store.HAOptions{}
		d.o.OnDamage = store.DamageCut
		s, err := store.Open("/store", d.o)
		if err != nil {
			t.Errorf("open again: %v", err)
			continue
		}
		s.Close()
	}
}

// TestAPairOverIPv6: addresses with colons of their own work on both protocols.
func TestAPairOverIPv6(t *testing.T) {
	probe, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skipf("this machine has no IPv6 on loopback: %v", err)
	}
	probe.Close()
	open := func(o store.Options) *store.DefaultMessageStore {
		t.Helper()
		o.FS, o.SegmentSize, o.QueueFileSize, o.Index.Off = faultfs.New(), segmentSize, 2000, true
		s, err := store.Open("/store", o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	mo := extended(store.Options{Role: store.SyncMaster, HA: store.HAOptions{ListenAddress: "[::1]:0", SlaveTimeout: time.Minute}}, func(e *store.HAExtended) { e.ListenAddress = "[::1]:0" })
	master := open(mo)
	put(t, master, message("T", 0, "x"))
	st := master.Stats().HA
	for _, address := range []string{st.ListenAddress, st.ExtendedAddress} {
		so := store.Options{Role: store.Slave, HA: store.HAOptions{MasterAddress: address}}
		if address == st.ExtendedAddress {
			so = extended(so, func(e *store.HAExtended) { e.TLS = e.TLS.Clone(); e.TLS.ServerName = "a" })
		}
		slave := open(so)
		select {
		case <-slave.Grown(0):
		case <-time.After(time.Minute):
			t.Fatalf("nothing comes from %s: %+v", address, slave.Stats().HA.Following)
		}
		if r := put(t, master, message("T", 0, "x")); r.Status != store.PutOK {
			t.Error(r.Status)
		}
	}
}
