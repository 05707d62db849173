package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/conformance/memnet"
	"github.com/mqstore/mqstore/ha"
	"github.com/mqstore/mqstore/store"
)

// TestASlaveSeededBehindTheBeginningNumbersQueuesOn: a queue of which the slave has no message, since all of them had expired when it was seeded, or lie before the last segment, goes on as a master where its consumers are,
// whatever became of the slave's process in between. By the extended protocol.
func TestASlaveSeededBehindTheBeginningNumbersQueuesOn(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for _, from := range []store.ResyncFrom{store.FirstSegment, store.LastSegment} {
		for _, then := range []struct {
			name string
			do   func(slave *node)
		}{
			{"nothing", func(*node) {}},
			{"a restart", func(slave *node) { slave.stop(); slave.open() }},
			{"a kill", func(slave *node) { slave.kill(nil); slave.open() }},
			{"a power loss", func(slave *node) { slave.kill(rng); slave.open() }},
			{"a restart, a power loss and a kill", func(slave *node) {
				slave.stop()
				slave.open()
				slave.kill(rng)
				slave.open()
				slave.kill(nil)
				slave.open()
			}},
		} {
			for _, moments := range []int{-1, 0, 1, 2} { // the slave's end comes when it has all and its master is gone, when it has all, or in the midst of the seeding
				t.Run(fmt.Sprintf("from=%v/then=%s/moments=%d", from, then.name, moments), func(t *testing.T) {
					bubble(t, func(t *testing.T) {
						n := memnet.New()
						a := start(t, n, "a:1", extended(store.Options{}))
						for i := range 105 { // more than a queue file holds
							put(t, a.s, message("idle", 3, fmt.Sprint("long ago ", i)))
						}
						for a.s.MaxPhyOffset() < 5*segmentSize/2 {
							put(t, a.s, message("busy", 0, strings.Repeat("x", 2000)))
						}
						caughtUp(t, a, a)
						if from == store.FirstSegment {
							if _, err := a.s.Flush(); err != nil {
								t.Fatal(err)
							}
							if r, err := a.s.DeleteExpired(store.ExpireOptions{Manual: true, Max: 1}); err != nil || len(r.Segments) != 1 {
								t.Fatal(r, err)
							}
						}
						// SyncFlush, so that a power loss leaves the log.
						o := extended(store.Options{Role: store.Slave, FlushMode: store.SyncFlush}, func(e *store.HAExtended) { e.ResyncFrom = from })
						o.HA.MasterAddress = "a:1+"
						if moments > 0 {
							n.SetLatency(20 * time.Millisecond)
						}
						b := start(t, n, "b:1", o)
						if moments <= 0 {
							caughtUp(t, a, b)
						} else {
							for deadline := time.Now().Add(time.Minute); b.s.MaxOffset("idle", 3) == 0; time.Sleep(time.Millisecond) {
								if time.Now().After(deadline) {
									t.Fatal("the slave never hears of the queue")
								}
							}
							time.Sleep(time.Duration(moments-1) * 30 * time.Millisecond)
						}
						want := answer(t, a, "idle", 3, 105)
						if moments < 0 {
							a.stop()
						}
						then.do(b)
						if moments >= 0 {
							put(t, a.s, message("busy", 0, "last"))
							caughtUp(t, a, b)
						}
						if b.s.MinPhyOffset() == 0 || b.events.has(ha.ErrQueuesUnknown) {
							t.Fatalf("the slave begins at %d\n%v", b.s.MinPhyOffset(), b.events)
						}
						if got := answer(t, b, "idle", 3, 105); from == store.FirstSegment && got != want {
							t.Errorf("master and slave answer %s and %s", want, got)
						}
						if moments >= 0 {
							a.stop()
						}
						if err := b.s.SetRole(t.Context(), store.AsyncMaster); err != nil {
							t.Fatal(err)
						}
						if r := put(t, b.s, message("idle", 3, "again")); r.QueueOffset != 105 {
							t.Errorf("the next message got queue offset %d", r.QueueOffset)
						}
						if r := put(t, b.s, message("other", 0, "new")); r.QueueOffset != 0 {
							t.Errorf("the first message of a new queue got queue offset %d", r.QueueOffset)
						}
						caughtUp(t, b, b)
						r, err := b.s.Get(t.Context(), store.GetRequest{Topic: "idle", QueueID: 3, Offset: 105, MaxMessages: 5})
						if err != nil {
							t.Fatal(err)
						}
						defer r.Release()
						if len(r.Records) != 1 || r.MinOffset != 105 || r.NextBeginOffset != 106 {
							t.Errorf("%d messages, min %d, next %d", len(r.Records), r.MinOffset, r.NextBeginOffset)
						}
						b.stop()
						b.o.Role = store.AsyncMaster
						b.open()
						if rec := b.s.Stats().Recovery; !rec.Clean || b.s.MaxOffset("idle", 3) != 106 {
							t.Errorf("%+v, next %d", rec, b.s.MaxOffset("idle", 3))
						}
					})
				})
			}
		}
	}
}

// TestASlaveToldOfQueuesThatHasNoLogYetOpens: it ended between the two.
func TestASlaveToldOfQueuesThatHasNoLogYetOpens(t *testing.T) {
	for seed := range uint64(8) {
		bubble(t, func(t *testing.T) {
			n := memnet.New()
			a := start(t, n, "a:1", extended(store.Options{}))
			put(t, a.s, message("idle", 3, "long ago"))
			for a.s.MaxPhyOffset() < 5*segmentSize/2 {
				put(t, a.s, message("busy", 0, strings.Repeat("x", 2000)))
			}
			o := extended(store.Options{Role: store.Slave}, func(e *store.HAExtended) { e.ResyncFrom = store.LastSegment })
			b := start(t, n, "b:1", o)
			b.fs.SetHook(func(op faultfs.Op) error {
				if op.Kind == faultfs.OpMap && strings.Contains(op.Path, "commitlog") {
					return errors.New("no")
				}
				return nil
			})
			if err := b.s.UpdateHaMasterAddress("a:1+"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			if files := b.files("commitlog"); b.s.MaxOffset("idle", 3) != 1 || len(files) > 0 {
				t.Fatalf("the queue goes on at %d, the log has %d files; %+v", b.s.MaxOffset("idle", 3), len(files), b.s.Stats().HA.Following)
			}
			if seed == 0 {
				b.kill(nil)
			} else {
				b.kill(rand.New(rand.NewPCG(seed, 1)))
			}
			b.o.HA.MasterAddress = "a:1+"
			b.open()
			if got := b.s.MaxOffset("idle", 3); got != 1 {
				t.Errorf("the queue goes on at %d", got)
			}
			caughtUp(t, a, b)
			if got := b.s.MaxOffset("idle", 3); got != 1 {
				t.Errorf("the queue goes on at %d", got)
			}
		})
	}
}

// TestAClassicSlaveSeededBehindTheBeginningWarns: it cannot know where queues go on.
func TestAClassicSlaveSeededBehindTheBeginningWarns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		a := start(t, n, "a:1", store.Options{})
		for a.s.MaxPhyOffset() < 5*segmentSize/2 {
			put(t, a.s, message("busy", 0, strings.Repeat("x", 2000)))
		}
		o := store.Options{Role: store.Slave}
		o.HA.MasterAddress = "a:1"
		b := start(t, n, "b:1", o)
		caughtUp(t, a, b)
		if b.s.MinPhyOffset() != 2*segmentSize || !b.events.has(ha.ErrQueuesUnknown) {
			t.Errorf("the slave begins at %d\n%v", b.s.MinPhyOffset(), b.events)
		}
	})
}
