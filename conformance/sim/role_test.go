package sim

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mqstore/mqstore/conformance/memnet"
	"github.com/mqstore/mqstore/store"
)

// TestRolesSwap: master and slave change places, again and again, without losing a message, and end up equal.
func TestRolesSwap(t *testing.T) {
	for _, ext := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			n := memnet.New()
			rng := rand.New(rand.NewPCG(4, 1))
			o := store.Options{}
			suffix := ""
			if ext {
				o, suffix = extended(o), "+"
			}
			a := start(t, n, "a:1", o)
			o.Role, o.HA.MasterAddress = store.Slave, "a:1"+suffix
			b := start(t, n, "b:1", o)
			for i := range 6 {
				load(t, rng, a.s, 50)
				caughtUp(t, a, b)
				if err := a.s.SetRole(t.Context(), store.Slave); err != nil {
					t.Fatal(err)
				}
				if _, err := a.s.Put(t.Context(), message("T", 0, "x")); !errors.Is(err, store.ErrServiceNotAvailable) {
					t.Errorf("a put to a slave: %v", err)
				}
				role := store.AsyncMaster
				if i%2 == 1 {
					role = store.SyncMaster
				}
				if err := b.s.SetRole(t.Context(), role); err != nil {
					t.Fatal(err)
				}
				if err := a.s.UpdateHaMasterAddress(b.address + suffix); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				a, b = b, a
				if st := a.s.Stats(); !st.Writable || st.HA.Role != role || st.HA.Following != nil || len(st.HA.Slaves) != 1 {
					t.Fatalf("%+v", st)
				}
				if r := put(t, a.s, message("T", 0, "x")); r.Status != store.PutOK {
					t.Error(r.Status)
				}
			}
			caughtUp(t, a, b)
			same(t, a, b)
			if a.events.count("role ") != 6 || a.events.count("diverged")+b.events.count("diverged") != 0 {
				t.Errorf("%v\n%v", a.events, b.events)
			}
		})
	}
}

// TestAnOldMasterThatIsAheadSaysSo (report 48): a master that had more than its slave when that took over cannot follow it. It says what is wrong and what to do, tries again with back-off, and neither's log changes. Within a second where the protocol lets it.
func TestAnOldMasterThatIsAheadSaysSo(t *testing.T) {
	for _, ext := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			n := memnet.New()
			rng := rand.New(rand.NewPCG(5, 1))
			o, suffix := store.Options{}, ""
			if ext {
				o, suffix = extended(o), "+"
			}
			a := start(t, n, "a:1", o)
			so := o
			so.Role, so.HA.MasterAddress = store.Slave, "a:1"+suffix
			b := start(t, n, "b:1", so)
			load(t, rng, a.s, 50)
			caughtUp(t, a, b)
			b.stop()
			put(t, a.s, message("T", 0, "only here"))
			end := a.s.MaxPhyOffset()
			b.o.Role = store.AsyncMaster
			b.open()
			if err := a.s.SetRole(t.Context(), store.Slave); err != nil {
				t.Fatal(err)
			}
			if err := a.s.UpdateHaMasterAddress("b:1" + suffix); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			f := a.s.Stats().HA.Following
			if ext && (!strings.Contains(f.Diverged, "move its directory aside") || f.Divergences == 0 || !a.events.has(store.ErrDiverged)) || f.LastError == "" {
				t.Errorf("%+v\n%v", f, a.events)
			}
			if !b.events.has(store.ErrDiverged) {
				t.Errorf("the master: %v", b.events)
			}
			// The new master goes on: what was mere absence becomes other bytes.
			load(t, rng, b.s, 50)
			time.Sleep(time.Minute)
			if f := a.s.Stats().HA.Following; !strings.Contains(f.Diverged, "move its directory aside") || f.Divergences == 0 || !a.events.has(store.ErrDiverged) {
				t.Errorf("%+v\n%v", f, a.events)
			}
			if got := a.s.MaxPhyOffset(); got != end {
				t.Errorf("the slave's log ended at %d, now at %d", end, got)
			}
			if n.Dials() > 60 {
				t.Errorf("%d dials in a minute", n.Dials())
			}
			if a.events.count("diverged") > 4 {
				t.Errorf("%v", a.events)
			}
		})
	}
}

// TestDeletedOnTheMaster (report 48): a slave that was away for too long is told so.
func TestDeletedOnTheMaster(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		rng := rand.New(rand.NewPCG(6, 1))
		a := start(t, n, "a:1", extended(store.Options{}))
		so := extended(store.Options{Role: store.Slave})
		so.HA.MasterAddress = "a:1+"
		b := start(t, n, "b:1", so)
		load(t, rng, a.s, 20)
		caughtUp(t, a, b)
		b.stop()
		for a.s.MaxPhyOffset() < 4*segmentSize {
			load(t, rng, a.s, 20)
		}
		caughtUp(t, a, a)
		if r, err := a.s.DeleteExpired(store.ExpireOptions{Manual: true, Max: 2}); err != nil || len(r.Segments) != 2 {
			t.Fatal(r, err)
		}
		b.open()
		time.Sleep(900 * time.Millisecond)
		if f := b.s.Stats().HA.Following; !strings.Contains(f.Diverged, "deleted on the master") || !strings.Contains(f.Diverged, "move its directory aside") {
			t.Errorf("%+v", f)
		}
	})
}

// TestASlaveBecomesMasterBehindHalfARecord: the beginning of a record that never came whole is given up, and what follows is as on any master.
func TestASlaveBecomesMasterBehindHalfARecord(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		rng := rand.New(rand.NewPCG(7, 1))
		a := start(t, n, "a:1", store.Options{})
		load(t, rng, a.s, 30)
		caughtUp(t, a, a)
		b := start(t, n, "b:1", store.Options{Role: store.Slave})
		v, err := a.s.CommitLogData(0, 0)
		if err != nil {
			t.Fatal(err)
		}
		end := a.s.MaxPhyOffset()
		if err := b.s.AppendToCommitLog(0, v.Bytes[:end-20]); err != nil {
			t.Fatal(err)
		}
		v.Release()
		if b.s.MaxPhyOffset() != end-20 {
			t.Fatal(b.s.MaxPhyOffset(), end)
		}
		if err := b.s.SetRole(t.Context(), store.SyncMaster); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		whole := b.s.MaxPhyOffset()
		if whole >= end-20 || b.s.DispatchedPhyOffset() != whole {
			t.Errorf("the log ends at %d, dispatched up to %d", whole, b.s.DispatchedPhyOffset())
		}
		for _, q := range a.s.Queues() {
			next := b.s.MaxOffset(q.Topic, q.QueueID)
			if r := put(t, b.s, message(q.Topic, q.QueueID, "x")); r.QueueOffset != next || next > q.MaxOffset || next < q.MaxOffset-5 {
				t.Errorf("%s/%d: next offset %d, put at %d, the old master was at %d", q.Topic, q.QueueID, next, r.QueueOffset, q.MaxOffset)
			}
		}
		b.stop()
		b.o.Role = store.AsyncMaster
		b.open()
		if r := b.s.Stats().Recovery; !r.Clean {
			t.Errorf("%+v", r)
		}
	})
}

// TestASlaveThatHoldsNoWholeRecordBecomesMaster: its log began where its master's last segment does, and all that came is the beginning of a record.
func TestASlaveThatHoldsNoWholeRecordBecomesMaster(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		a := start(t, n, "a:1", store.Options{})
		load(t, rand.New(rand.NewPCG(8, 1)), a.s, 10)
		v, err := a.s.CommitLogData(0, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer v.Release()
		b := start(t, n, "b:1", store.Options{Role: store.Slave})
		if err := b.s.AppendToCommitLog(2*segmentSize, v.Bytes[:50]); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := b.s.SetRole(t.Context(), store.AsyncMaster); err != nil {
			t.Fatal(err)
		}
		if r := put(t, b.s, message("T", 0, "x")); r.PhyOffset != 2*segmentSize {
			t.Errorf("%+v", r)
		}
		synctest.Wait()
		if got := b.s.MaxOffset("T", 0); got != 1 {
			t.Errorf("%d messages can be read", got)
		}
	})
}

// TestAFullDiskIsNoReasonToStayASlave: dispatch that was held up by a full disk goes on with the promotion, if there is room again, instead of being a reason to refuse it until somebody has looked.
func TestAFullDiskIsNoReasonToStayASlave(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		a := start(t, n, "a:1", store.Options{})
		b := start(t, n, "b:1", store.Options{Role: store.Slave, HA: store.HAOptions{MasterAddress: "a:1"}})
		put(t, a.s, message("T", 0, "x"))
		caughtUp(t, a, b)
		b.fs.SetLimit(b.fs.Used())
		put(t, a.s, message("other", 0, "x"))
		time.Sleep(5 * time.Second)
		if st := b.s.Stats(); st.DispatchHeldUp == "" || st.MaxPhyOffset != a.s.MaxPhyOffset() {
			t.Fatalf("%+v", st)
		}
		if err := b.s.SetRole(t.Context(), store.AsyncMaster); !errors.Is(err, store.ErrDiskFull) || b.s.Role() != store.Slave {
			t.Errorf("with a full disk: %v, %v", err, b.s.Role())
		}
		b.fs.SetLimit(0)
		if err := b.s.SetRole(t.Context(), store.AsyncMaster); err != nil {
			t.Error(err)
		}
		if got := b.s.MaxOffset("other", 0); got != 1 {
			t.Errorf("%d messages can be read", got)
		}
		put(t, b.s, message("other", 0, "x"))
	})
}

// TestHalfARecordGoesWithItsMaster: a slave that holds the beginning of a record, and then follows another master, which wrote something else there, takes that as a whole instead of making one record of two.
func TestHalfARecordGoesWithItsMaster(t *testing.T) {
	for _, ext := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			n := memnet.New()
			o, suffix := store.Options{}, ""
			if ext {
				o, suffix = extended(o), "+"
			}
			a := start(t, n, "a:1", o)
			so := o
			so.Role, so.HA.MasterAddress = store.Slave, "a:1"+suffix
			b, c := start(t, n, "b:1", so), start(t, n, "c:1", so)
			put(t, a.s, message("T", 0, "both have it"))
			caughtUp(t, a, b)
			caughtUp(t, a, c)
			end := a.s.MaxPhyOffset()
			n.Part(time.Hour)
			put(t, a.s, message("T", 0, "of the old master"))
			v, err := a.s.CommitLogData(end, 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.s.AppendToCommitLog(end, v.Bytes[:60]); err != nil {
				t.Fatal(err)
			}
			v.Release()
			a.kill(nil)
			n.Part(0)
			if err := b.s.SetRole(t.Context(), store.AsyncMaster); err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				put(t, b.s, message("T", int32(i), "of the new master, and longer than it was"))
			}
			if err := c.s.UpdateHaMasterAddress("b:1" + suffix); err != nil {
				t.Fatal(err)
			}
			put(t, b.s, message("T", 0, "later"))
			caughtUp(t, b, c)
			same(t, b, c)
		})
	}
}

// TestMasterAddressAtRunTime: a slave follows the address that it is given, at once; none is idle.
func TestMasterAddressAtRunTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		a := start(t, n, "a:1", store.Options{})
		b := start(t, n, "b:1", store.Options{Role: store.Slave})
		put(t, a.s, message("T", 0, "x"))
		time.Sleep(time.Minute)
		if f := b.s.Stats().HA.Following; f.State != "idle" || n.Dials() != 0 {
			t.Errorf("%+v", f)
		}
		if err := b.s.UpdateHaMasterAddress("a"); err == nil {
			t.Error("an address without a port is taken")
		}
		if err := b.s.UpdateHaMasterAddress("a:1"); err != nil {
			t.Fatal(err)
		}
		caughtUp(t, a, b)
		if err := b.s.UpdateHaMasterAddress(""); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if st := a.s.Stats().HA; len(st.Slaves) != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// TestAsyncMasterHidesNothing: a SyncMaster that becomes an AsyncMaster shows at once what its slaves have not acknowledged, and hides again what they lack when it is one again.
func TestAsyncMasterHidesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		master := start(t, n, "a:1", store.Options{Role: store.SyncMaster})
		stalled(t, n, master)
		f := master.s.PutAsync(message("T", 0, "x"))
		synctest.Wait()
		if got := master.s.MaxOffset("T", 0); got != 1 {
			t.Errorf("%d messages are visible", got)
		}
		if err := master.s.SetRole(t.Context(), store.AsyncMaster); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := master.s.MaxOffset("T", 0); got != 2 {
			t.Errorf("%d messages are visible on an async master", got)
		}
		f.Wait(t.Context())
		if err := master.s.SetRole(t.Context(), store.SyncMaster); err != nil {
			t.Fatal(err)
		}
		f = master.s.PutAsync(message("T", 0, "x"))
		synctest.Wait()
		if got := master.s.MaxOffset("T", 0); got != 2 {
			t.Errorf("%d messages are visible", got)
		}
		f.Wait(t.Context())
		n.Hold("a:1", false)
	})
}

// TestTheIdentityIsHandedOn: a slave that has just learnt its master's identity hands it on when it becomes master itself, without having been opened again, so that no later generation is taken for another store.
func TestTheIdentityIsHandedOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		o := extended(store.Options{})
		a := start(t, n, "a:1", o)
		so := o
		so.Role, so.HA.MasterAddress = store.Slave, "a:1+"
		b := start(t, n, "b:1", so)
		put(t, a.s, message("T", 0, "x"))
		caughtUp(t, a, b)
		a.kill(nil)
		if err := b.s.SetRole(t.Context(), store.AsyncMaster); err != nil {
			t.Fatal(err)
		}
		so.HA.MasterAddress = "b:1+"
		c := start(t, n, "c:1", so)
		put(t, b.s, message("T", 0, "x"))
		caughtUp(t, b, c)
		c.stop()
		c.o.Role = store.AsyncMaster
		c.open() // as a master that must have an identity
		c.stop()
		c.o.Role = store.Slave
		c.open()
		put(t, b.s, message("T", 0, "x"))
		caughtUp(t, b, c)
		same(t, b, c)
		if id, err := b.fs.ReadFile("/store/mqstore.id"); err != nil {
			t.Error(err)
		} else if other, err := c.fs.ReadFile("/store/mqstore.id"); err != nil || string(other) != string(id) {
			t.Errorf("%q and %q: %v", id, other, err)
		}

		// One that never met a master makes an identity when it becomes one.
		d := start(t, n, "d:1", extended(store.Options{Role: store.Slave}))
		if err := d.s.SetRole(t.Context(), store.AsyncMaster); err != nil {
			t.Fatal(err)
		}
		if id, err := d.fs.ReadFile("/store/mqstore.id"); err != nil || len(id) != 33 {
			t.Errorf("%q %v", id, err)
		}
		so.HA.MasterAddress = "d:1+"
		e := start(t, n, "e:1", so)
		put(t, d.s, message("T", 0, "x"))
		caughtUp(t, d, e)
		if err := e.s.UpdateHaMasterAddress("b:1+"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if f := e.s.Stats().HA.Following; !strings.Contains(f.Diverged, "different stores") {
			t.Errorf("%+v", f)
		}
	})
}

// TestASlaveOfAnotherStoreIsRefused: a slave takes over its master's identity, also for when it is master itself, and follows no master of another store, whose log might fit by chance.
func TestASlaveOfAnotherStoreIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		a := start(t, n, "a:1", extended(store.Options{}))
		so := extended(store.Options{Role: store.Slave})
		so.HA.MasterAddress = "a:1+"
		b := start(t, n, "b:1", so)
		c := start(t, n, "c:1", extended(store.Options{}))
		put(t, a.s, message("T", 0, "x"))
		caughtUp(t, a, b)
		b.stop()
		b.o.HA.MasterAddress = "c:1+"
		b.open()
		time.Sleep(time.Second)
		if f := b.s.Stats().HA.Following; !strings.Contains(f.Diverged, "different stores") || !c.events.has(store.ErrDiverged) {
			t.Errorf("%+v\n%v", f, c.events)
		}
		if err := b.s.UpdateHaMasterAddress("a:1+"); err != nil {
			t.Fatal(err)
		}
		put(t, a.s, message("T", 0, "x"))
		caughtUp(t, a, b)
		same(t, a, b)
	})
}

// TestALargeLastRecordIsComparedToo: a slave whose last record is larger than what a handshake sums up is still found to hold another one than its master.
func TestALargeLastRecordIsComparedToo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const size = 5 << 20
		n := memnet.New()
		o := extended(store.Options{SegmentSize: 16 << 20, MaxMessageSize: 8 << 20, Index: store.IndexOptions{Off: true}})
		a := start(t, n, "a:1", o)
		so := o
		so.Role, so.HA.MasterAddress = store.Slave, "a:1+"
		b := start(t, n, "b:1", so)
		put(t, a.s, message("T", 0, "both have it"))
		caughtUp(t, a, b)
		a.stop()
		if err := b.s.SetRole(t.Context(), store.AsyncMaster); err != nil {
			t.Fatal(err)
		}
		put(t, b.s, message("T", 0, strings.Repeat("b", size)))
		a.open()
		put(t, a.s, message("T", 0, strings.Repeat("a", size)))
		put(t, a.s, message("T", 0, "more"))
		if err := b.s.SetRole(t.Context(), store.Slave); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if f := b.s.Stats().HA.Following; !strings.Contains(f.Diverged, "not the master's") || f.Bytes > 1000 {
			t.Errorf("%+v", f)
		}
	})
}
