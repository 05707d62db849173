package sim

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/conformance/memnet"
	"github.com/mqstore/mqstore/store"
)

// follower opens a slave of a:1 at address.
func follower(t *testing.T, n *memnet.Network, address string) *node {
	t.Helper()
	return start(t, n, address, store.Options{Role: store.Slave, HA: store.HAOptions{MasterAddress: "a:1"}})
}

// TestStatusesOfASyncMaster (spec/ha-protocol.md 6.9, report 54): what a put is answered, and when, by what the slaves do.
func TestStatusesOfASyncMaster(t *testing.T) {
	const big = 40 << 10
	for _, c := range []struct {
		name   string
		role   store.Role // default SyncMaster
		o      store.HAOptions
		before func(t *testing.T, n *memnet.Network, master *node)
		wait   string // property WAIT
		status store.PutStatus
		took   time.Duration
	}{
		{name: "no slave", status: store.SlaveNotAvailable},
		{name: "async master", role: store.AsyncMaster, status: store.PutOK},
		{name: "no slave, WAIT=false", wait: "false", status: store.PutOK},
		{name: "a slave", before: func(t *testing.T, n *memnet.Network, _ *node) { follower(t, n, "b:1") }, status: store.PutOK},
		{name: "two slaves", before: func(t *testing.T, n *memnet.Network, _ *node) { follower(t, n, "b:1"); follower(t, n, "c:1") }, status: store.PutOK},
		{name: "stalled slave", before: stalled, status: store.FlushSlaveTimeout, took: 3 * time.Second},
		{name: "stalled slave, another timeout", o: store.HAOptions{SlaveTimeout: 700 * time.Millisecond}, before: stalled, status: store.FlushSlaveTimeout, took: 700 * time.Millisecond},
		{name: "stalled slave, WAIT=false", before: stalled, wait: "false", status: store.PutOK},
		{name: "stalled slave, WAIT=TRUE", before: stalled, wait: "TRUE", status: store.FlushSlaveTimeout, took: 3 * time.Second},
		{name: "slow slave", before: func(t *testing.T, n *memnet.Network, _ *node) {
			n.SetLatency(400 * time.Millisecond)
			follower(t, n, "b:1")
		}, status: store.PutOK, took: 800 * time.Millisecond},
		{name: "slave that is too slow", before: func(t *testing.T, n *memnet.Network, _ *node) {
			n.SetLatency(1600 * time.Millisecond)
			follower(t, n, "b:1")
		}, status: store.FlushSlaveTimeout, took: 3 * time.Second},
		{name: "slave too far behind", o: store.HAOptions{FallBehindMax: big}, before: func(t *testing.T, n *memnet.Network, master *node) {
			stalled(t, n, master)
			put(t, master.s, message("T", 0, string(make([]byte, big)), "WAIT", "false"))
		}, status: store.SlaveNotAvailable},
		{name: "slave just near enough", o: store.HAOptions{FallBehindMax: big + 1000}, before: func(t *testing.T, n *memnet.Network, master *node) {
			stalled(t, n, master)
			put(t, master.s, message("T", 0, string(make([]byte, big)), "WAIT", "false"))
		}, status: store.FlushSlaveTimeout, took: 3 * time.Second},
		{name: "two slaves, one dead", before: func(t *testing.T, n *memnet.Network, master *node) {
			stalled(t, n, master)
			n.Hold("a:1", false)
			dead(t, n)
			follower(t, n, "c:1")
		}, status: store.PutOK},
		{name: "two of two, one dead", o: store.HAOptions{RequiredAcks: 2}, before: func(t *testing.T, n *memnet.Network, master *node) { dead(t, n); follower(t, n, "c:1") }, status: store.FlushSlaveTimeout, took: 3 * time.Second},
		{name: "two of two", o: store.HAOptions{RequiredAcks: 2}, before: func(t *testing.T, n *memnet.Network, _ *node) { follower(t, n, "b:1"); follower(t, n, "c:1") }, status: store.PutOK},
		{name: "slave that cannot write", before: func(t *testing.T, n *memnet.Network, _ *node) {
			b := follower(t, n, "b:1")
			b.fs.SetHook(func(op faultfs.Op) error {
				if op.Kind == faultfs.OpMap || op.Kind == faultfs.OpSync {
					return faultfs.ErrInjected
				}
				return nil
			})
		}, status: store.FlushSlaveTimeout, took: 3 * time.Second},
		{name: "slave gone", before: func(t *testing.T, n *memnet.Network, _ *node) { b := follower(t, n, "b:1"); synctest.Wait(); b.stop() }, status: store.SlaveNotAvailable},
	} {
		for _, mode := range []store.FlushMode{store.AsyncFlush, store.SyncFlush} {
			for _, async := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%v/async=%v", c.name, mode, async), func(t *testing.T) {
					bubble(t, func(t *testing.T) {
						n := memnet.New()
						role := c.role
						if role == 0 && c.name != "async master" {
							role = store.SyncMaster
						}
						master := start(t, n, "a:1", store.Options{Role: role, FlushMode: mode, HA: c.o})
						if c.before != nil {
							c.before(t, n, master)
						}
						time.Sleep(10 * time.Second) // everybody who comes is there
						synctest.Wait()
						m := message("T", 0, "x")
						if c.wait != "" {
							m = message("T", 0, "x", "WAIT", c.wait)
						}
						begin := time.Now()
						var r store.PutResult
						var err error
						if async {
							f := master.s.PutAsync(m)
							if since := time.Since(begin); since != 0 {
								t.Errorf("PutAsync waited %v", since)
							}
							r, err = f.Wait(t.Context())
						} else {
							r, err = master.s.Put(t.Context(), m)
						}
						if took := time.Since(begin); err != nil || r.Status != c.status || took != c.took {
							t.Errorf("answered %v %v after %v, want %v after %v", r.Status, err, took, c.status, c.took)
						}
						if mode == store.SyncFlush && c.wait != "false" && master.s.FlushedPhyOffset() < r.PhyOffset+int64(r.Size) {
							t.Errorf("answered at flushed %d", master.s.FlushedPhyOffset())
						}
						n.Hold("a:1", false)
					})
				})
			}
		}
	}
}

// stalled connects a slave whose reports do not arrive any more.
func stalled(t *testing.T, n *memnet.Network, master *node) {
	t.Helper()
	put(t, master.s, message("T", 0, "first", "WAIT", "false"))
	follower(t, n, "b:1")
	time.Sleep(time.Second)
	synctest.Wait()
	n.Hold("a:1", true)
}

// dead connects a peer that says that it holds nothing, and then nothing but that.
func dead(t *testing.T, n *memnet.Network) {
	t.Helper()
	c, err := n.Dial(t.Context(), "", "a:1")
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop); c.Close() })
	go func() {
		for {
			if _, err := c.Write(make([]byte, 8)); err != nil {
				return
			}
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Second):
			}
		}
	}()
	go func() {
		b := make([]byte, 64<<10)
		for {
			if _, err := c.Read(b); err != nil {
				return
			}
		}
	}()
}

// TestFlushAndSlavesAreWaitedForSideBySide: a slow disk and a slow slave together cost the slower of the two, not the sum; and the slaves' status wins over the disk's.
func TestFlushAndSlavesAreWaitedForSideBySide(t *testing.T) {
	const never = time.Hour
	for _, c := range []struct {
		disk, network time.Duration
		status        store.PutStatus
		took          time.Duration
	}{
		{0, 500 * time.Millisecond, store.PutOK, time.Second},
		{2 * time.Second, 500 * time.Millisecond, store.PutOK, 2 * time.Second},
		{2 * time.Second, 2 * time.Second, store.FlushSlaveTimeout, 3 * time.Second},
		{6 * time.Second, 500 * time.Millisecond, store.FlushDiskTimeout, 5 * time.Second},
		{6 * time.Second, 2 * time.Second, store.FlushDiskTimeout, 5 * time.Second}, // late, but there when it is answered
		{6 * time.Second, never, store.FlushSlaveTimeout, 5 * time.Second},
		{2 * time.Second, never, store.FlushSlaveTimeout, 3 * time.Second},
	} {
		for _, async := range []bool{false, true} {
			t.Run(fmt.Sprintf("disk=%v/network=%v/async=%v", c.disk, c.network, async), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					n := memnet.New()
					master := start(t, n, "a:1", store.Options{Role: store.SyncMaster, FlushMode: store.SyncFlush})
					if c.network == never {
						stalled(t, n, master)
					} else {
						n.SetLatency(c.network)
						follower(t, n, "b:1")
					}
					time.Sleep(15 * time.Second)
					var slow atomic.Bool
					slow.Store(true)
					master.fs.SetHook(func(op faultfs.Op) error {
						if op.Kind == faultfs.OpSync && strings.Contains(op.Path, "commitlog") && slow.Load() {
							time.Sleep(c.disk)
						}
						return nil
					})
					begin := time.Now()
					var r store.PutResult
					var err error
					if async {
						r, err = master.s.PutAsync(message("T", 0, "x")).Wait(t.Context())
					} else {
						r, err = master.s.Put(t.Context(), message("T", 0, "x"))
					}
					if took := time.Since(begin); err != nil || r.Status != c.status || took != c.took {
						t.Errorf("answered %v %v after %v, want %v after %v", r.Status, err, took, c.status, c.took)
					}
					slow.Store(false)
					n.Hold("a:1", false)
					n.SetLatency(0)
					time.Sleep(10 * time.Second) // who waits for the flush lock meanwhile would stop the bubble's clock
				})
			})
		}
	}
}

// TestAStuckPutDelaysNoOther (report 54): puts that wait for a slave that has gone quiet do not hold up those that need not wait, and each has a deadline of its own.
func TestAStuckPutDelaysNoOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		master := start(t, n, "a:1", store.Options{Role: store.SyncMaster, FlushMode: store.SyncFlush})
		stalled(t, n, master)
		begin := time.Now()
		var futures []*store.Future
		for i := range 20 {
			futures = append(futures, master.s.PutAsync(message("T", int32(i), "x")))
			time.Sleep(100 * time.Millisecond)
			if r := put(t, master.s, message("T", 0, "x", "WAIT", "false")); r.Status != store.PutOK {
				t.Error(r.Status)
			}
		}
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("puts that wait for nobody took %v", took-2*time.Second)
		}
		for i, f := range futures {
			r, err := f.Wait(t.Context())
			if at := time.Since(begin); r.Status != store.FlushSlaveTimeout || err != nil || at != time.Duration(i)*100*time.Millisecond+3*time.Second {
				t.Errorf("future %d: %v %v after %v", i, r.Status, err, at)
			}
		}
		n.Reset("a:1")
		n.Hold("a:1", false)
		time.Sleep(time.Second)
		if r := put(t, master.s, message("T", 0, "x")); r.Status != store.PutOK {
			t.Errorf("after the slave came back: %v", r.Status)
		}
	})
}

// TestALieIsNoAcknowledgement (report 47, the original's defect 6): a peer that acknowledges what it was never sent is sent away, and makes no put succeed.
func TestALieIsNoAcknowledgement(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		master := start(t, n, "a:1", store.Options{Role: store.SyncMaster})
		put(t, master.s, message("T", 0, "x"))
		for _, lie := range [][]byte{{0, 0, 1, 0, 0, 0, 0, 0}, {0xff, 0, 0, 0, 0, 0, 0, 0}, []byte("GET / HTTP/1.1\r\n")} {
			c, err := n.Dial(t.Context(), "", "a:1")
			if err != nil {
				t.Fatal(err)
			}
			c.Write(make([]byte, 8))
			synctest.Wait()
			c.Write(lie)
			if r := put(t, master.s, message("T", 0, "x")); r.Status == store.PutOK {
				t.Errorf("PutOK by the word of %q", lie)
			}
			c.Close()
			synctest.Wait()
		}
		if st := master.s.Stats().HA; st.Refused != 3 || master.events.count("slave refused") != 3 {
			t.Errorf("%+v\n%v", st, master.events)
		}
	})
}

// TestNobodySeesWhatIsNotAcknowledged (reports 11 and 12, the replica's half): of a SyncMaster consumers see a message when a slave has it, which is when its put is answered; all of them when there is no slave to wait for;
// and at once if that is asked for.
func TestNobodySeesWhatIsNotAcknowledged(t *testing.T) {
	for _, uncommitted := range []bool{false, true} {
		for _, mode := range []store.FlushMode{store.AsyncFlush, store.SyncFlush} {
			t.Run(fmt.Sprintf("ReadUncommitted=%v/%v", uncommitted, mode), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					n := memnet.New()
					master := start(t, n, "a:1", store.Options{Role: store.SyncMaster, FlushMode: mode, ReadUncommitted: uncommitted})
					stalled(t, n, master)
					var answered atomic.Bool
					go func() {
						if r := put(t, master.s, message("T", 0, "x")); r.Status != store.PutOK {
							t.Error(r.Status)
						}
						answered.Store(true)
					}()
					time.Sleep(2 * time.Second)
					want := int64(1)
					if uncommitted {
						want = 2
					}
					st := master.s.Stats()
					if got := master.s.MaxOffset("T", 0); answered.Load() || got != want {
						t.Fatalf("answered %v, %d messages are visible, want %d: %+v", answered.Load(), got, want, st)
					}
					if !uncommitted && (st.VisibleEnd != st.ConfirmPhyOffset || st.VisibleEnd >= st.MaxPhyOffset) {
						t.Errorf("%+v", st)
					}
					n.Hold("a:1", false)
					synctest.Wait()
					if got := master.s.MaxOffset("T", 0); !answered.Load() || got != 2 {
						t.Fatalf("answered %v, %d messages are visible", answered.Load(), got)
					}

					// The slave goes: nobody to wait for, and nothing to hide.
					n.Hold("a:1", true)
					f := master.s.PutAsync(message("T", 0, "y"))
					time.Sleep(time.Second)
					n.Reset("a:1")
					synctest.Wait()
					if got := master.s.MaxOffset("T", 0); got != 3 {
						t.Errorf("without a slave %d messages are visible", got)
					}
					f.Wait(t.Context())
					n.Hold("a:1", false)
				})
			})
		}
	}
}

// TestUnconfirmedMessagesKeepTheirOffsets (report 11): what no slave had when its master was killed is still in that master's log. After its restart it is there, and no offset is given twice.
func TestUnconfirmedMessagesKeepTheirOffsets(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		master := start(t, n, "a:1", store.Options{Role: store.SyncMaster})
		stalled(t, n, master)
		var futures []*store.Future
		for range 10 {
			futures = append(futures, master.s.PutAsync(message("T", 0, "unconfirmed")))
		}
		synctest.Wait()
		if got := master.s.MaxOffset("T", 0); got != 1 {
			t.Errorf("%d messages are visible", got)
		}
		master.kill(nil)
		for _, f := range futures {
			if r, err := f.Wait(t.Context()); err == nil && r.Status == store.PutOK {
				t.Errorf("%+v", r)
			}
		}
		n.Hold("a:1", false)
		master.open()
		offsets := map[int64]bool{}
		for range 10 {
			r := put(t, master.s, message("T", 0, "later"))
			offsets[r.QueueOffset] = true
		}
		if len(offsets) != 10 || offsets[10] || !offsets[11] || !offsets[20] {
			t.Errorf("offsets of later messages: %v", offsets)
		}
	})
}

// TestClosingWaitsForTheLastAcks: what was put just before Close is acknowledged, or said not to be, and the exit is clean.
func TestClosingWaitsForTheLastAcks(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		t.Run(fmt.Sprint("stalled=", quiet), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := memnet.New()
				n.SetLatency(200 * time.Millisecond)
				master := start(t, n, "a:1", store.Options{Role: store.SyncMaster})
				stalled(t, n, master)
				if !quiet {
					n.Hold("a:1", false)
				}
				want := store.PutOK
				if quiet {
					want = store.FlushSlaveTimeout
				}
				f := master.s.PutAsync(message("T", 0, "x"))
				begin := time.Now()
				master.stop()
				if took := time.Since(begin); took > 3*time.Second {
					t.Errorf("close took %v", took)
				}
				if r, err := f.Wait(t.Context()); r.Status != want || err != nil {
					t.Errorf("%v %v", r.Status, err)
				}
				n.Hold("a:1", false)
				master.open()
				if r := master.s.Stats().Recovery; !r.Clean {
					t.Errorf("%+v", r)
				}
				if _, err := master.s.Put(t.Context(), message("T", 0, "x")); errors.Is(err, store.ErrClosed) {
					t.Error(err)
				}
			})
		})
	}
}

// TestWaitingProducersAreNotSerialised: 64 producers that wait for a slave get as many answers in a round trip as they are, and so do 1,024 futures.
func TestWaitingProducersAreNotSerialised(t *testing.T) {
	const oneWay, each = 5 * time.Millisecond, 50
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		n.SetLatency(oneWay)
		master := start(t, n, "a:1", store.Options{Role: store.SyncMaster})
		follower(t, n, "b:1")
		time.Sleep(10 * time.Second)
		begin := time.Now()
		var producers sync.WaitGroup
		for id := range 64 {
			producers.Go(func() {
				for range each {
					if r := put(t, master.s, message("T", int32(id), "x")); r.Status != store.PutOK {
						t.Error(r.Status)
					}
				}
			})
		}
		producers.Wait()
		rate, limit := 64*each/time.Since(begin).Seconds(), 64/(2*oneWay).Seconds()
		t.Logf("%.0f puts/s, 64 ÷ round trip is %.0f/s", rate, limit)
		if rate < 0.7*limit {
			t.Errorf("%.0f puts/s are less than 70 %% of %.0f", rate, limit)
		}
		begin = time.Now()
		var futures []*store.Future
		for range 1024 {
			futures = append(futures, master.s.PutAsync(message("T", 0, "x")))
		}
		for _, f := range futures {
			if r, err := f.Wait(t.Context()); err != nil || r.Status != store.PutOK {
				t.Error(r.Status, err)
			}
		}
		if took := time.Since(begin); took > 4*oneWay {
			t.Errorf("1,024 futures took %v, a round trip is %v", took, 2*oneWay)
		}
	})
}
