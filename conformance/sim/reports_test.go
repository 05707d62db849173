package sim

import (
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/conformance/memnet"
	"github.com/mqstore/mqstore/store"
)

// TestNothingIsConfirmedInAMinority (report 57, as far as there are no epochs): cut off from as many slaves as a put waits for, a master confirms nothing and shows nothing, whatever it appends and however the partition ends; what it
// confirmed before is what each slave holds that may take over.
func TestNothingIsConfirmedInAMinority(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		a := start(t, n, "a:1", store.Options{Role: store.SyncMaster, HA: store.HAOptions{RequiredAcks: 2}})
		b, c := follower(t, n, "b:1"), follower(t, n, "c:1")
		synctest.Wait()
		for range 20 {
			if r := put(t, a.s, message("T", 0, "confirmed")); r.Status != store.PutOK {
				t.Fatal(r.Status)
			}
		}
		synctest.Wait()
		confirmed := a.s.MaxPhyOffset()
		if st := a.s.Stats(); st.ConfirmPhyOffset != confirmed || st.DispatchedPhyOffset != confirmed {
			t.Fatalf("%+v", st)
		}
		if err := c.s.UpdateHaMasterAddress(""); err != nil { // one slave is a minority of two
			t.Fatal(err)
		}
		n.Hold("a:1", true) // of b nothing is heard any more, though it gets all
		synctest.Wait()
		var futures []*store.Future
		for range 20 {
			futures = append(futures, a.s.PutAsync(message("T", 0, "in the minority", "WAIT", "true")))
		}
		synctest.Wait()
		st := a.s.Stats()
		if len(st.HA.Slaves) != 1 || st.ConfirmPhyOffset > st.MaxPhyOffset {
			t.Errorf("%+v", st)
		}
		for _, f := range futures {
			if r, err := f.Wait(t.Context()); err != nil || r.Status == store.PutOK {
				t.Errorf("in the minority: %v, %v", r.Status, err)
			}
		}
		// Each of the slaves could take over with all that was confirmed.
		for _, x := range []*node{b, c} {
			if x.s.MaxPhyOffset() < confirmed {
				t.Errorf("%s holds [%d, %d), confirmed is %d", x.address, x.s.MinPhyOffset(), x.s.MaxPhyOffset(), confirmed)
			}
		}
		n.Hold("a:1", false)
		if err := c.s.UpdateHaMasterAddress("a:1"); err != nil {
			t.Fatal(err)
		}
		caughtUp(t, a, b)
		caughtUp(t, a, c)
		if r := put(t, a.s, message("T", 0, "confirmed again")); r.Status != store.PutOK {
			t.Error(r.Status)
		}
		caughtUp(t, a, b)
		caughtUp(t, a, c)
		same(t, a, b)
		same(t, a, c)
	})
}

// TestUnequalTailsEndEqual (report 58, KIP-101): master and slave lose their power in turn, each with a tail that the other lacks. Who lacks something gets it; who has more than its master says so and changes nothing, and is equal after
// the way out that it names. Nothing that one of them put after the other's crash is lost or exposed twice.
func TestUnequalTailsEndEqual(t *testing.T) {
	seeds, diverged := 0, 0
	for seed := range effort.Seeds(t, 6, 100) {
		t.Logf("seed %d", seed)
		seeds++
		bubble(t, func(t *testing.T) {
			n := memnet.New()
			rng := rand.New(rand.NewPCG(seed, 58))
			o, suffix := store.Options{SegmentSize: 1 << 20}, "" // one segment: an empty slave gets no more than the last one by the classic protocol
			if seed%2 == 0 {
				o, suffix = extended(o), "+"
			}
			a := start(t, n, "a:1", o)
			o.Role, o.HA.MasterAddress = store.Slave, "a:1"+suffix
			b := start(t, n, "b:1", o)
			load(t, rng, a.s, 20)
			caughtUp(t, a, b)
			for range 4 {
				load(t, rng, a.s, 1+rng.IntN(20))
				if rng.IntN(2) == 0 {
					time.Sleep(time.Duration(rng.IntN(1000)) * time.Millisecond) // some of it is flushed
				}
				first, second := a, b
				if rng.IntN(2) == 0 {
					first, second = b, a
				}
				first.kill(rng)
				first.open()
				if rng.IntN(2) == 0 {
					load(t, rng, a.s, rng.IntN(10))
				}
				second.kill(rng)
				second.open()
				put(t, a.s, message("T0", 0, "later"))
				time.Sleep(30 * time.Second)
				f := b.s.Stats().HA.Following
				refused := suffix == "" && strings.Contains(f.LastError, "the master refuses a slave whose log ends at") // all that the classic protocol lets it know, while the master is not past its end
				if f.Diverged != "" || refused {
					if !refused && (!strings.Contains(f.Diverged, "move its directory aside") || !b.events.has(store.ErrDiverged)) {
						t.Errorf("%+v", f)
					}
					b.stop()
					b.fs = faultfs.New()
					b.open()
					diverged++
				}
				caughtUp(t, a, b)
				same(t, a, b)
			}
		})
	}
	if seeds >= 6 && diverged == 0 {
		t.Error("no slave was ever ahead of its master")
	}
}

// TestNoLogIsDeletedForWantOfMetadata (report 59): of a pair whose processes and metadata are gone, checkpoint, identity, abort file and queues, the logs stay as they are, on both sides and in both roles, and the pair goes on.
func TestNoLogIsDeletedForWantOfMetadata(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		rng := rand.New(rand.NewPCG(59, 1))
		o := extended(store.Options{})
		a := start(t, n, "a:1", o)
		o.Role, o.HA.MasterAddress = store.Slave, "a:1+"
		b := start(t, n, "b:1", o)
		for a.s.MaxPhyOffset() < 3*segmentSize {
			load(t, rng, a.s, 20)
		}
		caughtUp(t, a, b)
		for _, swap := range []bool{false, true} {
			before := a.files("commitlog")
			for _, x := range []*node{b, a} {
				x.kill(nil)
				for _, path := range x.fs.Paths() {
					if strings.HasPrefix(path, "/store/commitlog/") {
						continue
					}
					if _, err := x.fs.ReadFile(path); err != nil {
						continue // a directory
					}
					if err := x.fs.Remove(path); err != nil {
						t.Fatal(err)
					}
				}
			}
			if swap {
				a, b = b, a
				a.o.Role, b.o.Role = store.AsyncMaster, store.Slave
				a.o.HA.MasterAddress, b.o.HA.MasterAddress = "", a.address+"+"
			}
			a.open()
			b.open()
			for _, x := range []*node{a, b} {
				after := x.files("commitlog")
				for path, was := range before {
					if after[path] != was {
						t.Errorf("%s of %s is not what it was: %d and %d bytes", path, x.address, len(was), len(after[path]))
					}
				}
			}
			put(t, a.s, message("T0", 0, "later"))
			caughtUp(t, a, b)
			same(t, a, b)
		}
	})
}
