package recovery_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/mqstore/mqstore/commitlog"
	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/store/internal/recovery"
)

// damages are directories in need of recovery: everything that is there is durable, so that recovery has one right result.
var damages = map[string]func(w *world){
	"killed": func(w *world) {
		w.fill(20)
		w.checkpoint(false)
		w.fill(10)
		w.flush()
		w.kill()
	},
	"torn tail": func(w *world) {
		w.fill(20)
		w.checkpoint(false)
		w.fill(10)
		last := w.put("A", 0, 1, 300)
		w.flush()
		w.dispatch(-1)
		w.kill()
		w.editLog(last.PhyOffset+100, func(b []byte) { clear(b[:50]) })
	},
	"cut in the middle": func(w *world) {
		w.o.CommitLog.OnDamage = commitlog.DamageCut
		w.fill(10)
		bad := w.put("A", 0, 1, 300)
		w.fill(20)
		w.checkpoint(false)
		w.kill()
		w.forgetSummary()
		w.editLog(bad.PhyOffset+100, func(b []byte) { clear(b[:50]) })
	},
	"lost queues, clean": func(w *world) {
		w.fill(30)
		w.close()
		w.remove("consumequeue/A")
	},
	"lost queues, no summary": func(w *world) {
		w.fill(30)
		w.checkpoint(false)
		w.kill()
		w.forgetSummary()
		w.remove("consumequeue/B")
	},
	"units elsewhere": func(w *world) {
		w.fill(30)
		w.checkpoint(false)
		w.kill()
		w.forgetSummary()
		w.edit("consumequeue/A/0/00000000000000000600", func(b []byte) { b[67] ^= 1 })
	},
	"head and middle of queues gone": func(w *world) {
		w.fill(30)
		w.checkpoint(false)
		w.fill(3)
		w.flush()
		w.kill()
		w.remove("consumequeue/A/0/00000000000000000000")
		w.remove("consumequeue/B/1/00000000000000000200")
	},
}

// build makes the damaged directory on a disk that has seen a power loss: nothing of it is only in memory.
func build(t *testing.T, damage func(w *world)) *world {
	w := newWorld(t, 7)
	w.open()
	damage(w)
	for _, p := range w.files(".") {
		if i, err := w.fs.Stat(root + "/" + p); err == nil && i.Size > 0 {
			w.edit(p, func([]byte) {}) // syncs it
		}
	}
	w.crash()
	return w
}

// A crash at any step of recovery, and recovery again, ends in the same state as recovery at once; and the time after it is sound too.
func TestRecoveryInterruptedAnywhereEndsTheSame(t *testing.T) {
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			w := build(t, damage)
			r := w.open()
			want := w.dump()
			if r.DroppedBytes == 0 && r.RebuiltUnits == 0 {
				t.Logf("nothing to do: %+v", r)
			}
			step := int64(1)
			if effort.Current() == effort.Race {
				step = 7
			}
			for n := int64(1); ; n += step {
				ended := false
				for i, after := range []string{"killed", "power lost", "power lost once more"} {
					if effort.Current() != effort.Full && int(n)%3 != i {
						continue
					}
					w := build(t, damage)
					w.rng = rand.New(rand.NewPCG(uint64(n), uint64(i)))
					w.fs.FailFrom(w.fs.Ops()+n, nil)
					op, err := recovery.Open(w.o)
					ended = err == nil
					if ended {
						w.fs.FailFrom(0, nil)
					}
					if !ended && !errors.Is(err, faultfs.ErrInjected) {
						t.Fatalf("operation %d failed: %v", n, err)
					}
					if err == nil {
						w.use(op)
					}
					if after == "killed" {
						w.kill()
					} else {
						w.crash()
					}
					if _, err := recovery.Open(w.o); err != nil {
						t.Fatalf("operation %d failed, %s: the next open: %v", n, after, err)
					}
					w.crash()
					r := w.open()
					if got := w.dump(); got != want {
						t.Fatalf("operation %d failed, %s: got\n%swant\n%s%+v", n, after, got, want, r)
					}
					w.put("A", 0, 1, 10)
					w.dispatch(-1)
					w.opensTheSame()
				}
				if ended {
					t.Logf("%d operations", n-1)
					return
				}
			}
		})
	}
}

// Random lives: puts, dispatch, flushes and checkpoints in any order, then a kill, a power loss, or both in a row; what was flushed is there, and log and queues agree.
func TestWhatWasFlushedSurvivesAnyLife(t *testing.T) {
	for seed := range effort.Seeds(t, 150, 3000) {
		life(t, seed)
		if t.Failed() {
			return
		}
	}
}

func life(t *testing.T, seed uint64) {
	defer func() {
		if t.Failed() {
			t.Logf("seed %d: run with MQSTORE_SEED=%d", seed, seed)
		}
	}()
	w := newWorld(t, seed)
	w.open()
	topics := []recovery.QueueKey{{Topic: "A"}, {Topic: "A", QueueID: 1}, {Topic: "B"}}
	for range 3 + w.rng.IntN(4) {
		for range w.rng.IntN(60) {
			switch w.rng.IntN(10) {
			default:
				k := topics[w.rng.IntN(len(topics))]
				w.put(k.Topic, k.QueueID, 1+w.rng.IntN(3), w.rng.IntN(400))
			case 5, 6:
				w.dispatch(w.rng.IntN(20))
			case 7:
				w.flush()
			case 8:
				if err := w.op.Queues.Flush(); err != nil {
					t.Fatal(err)
				}
			case 9:
				w.checkpoint(false)
			}
		}
		flushed := w.op.Log.FlushedPhyOffset()
		switch w.rng.IntN(5) {
		case 0:
			w.close()
		case 1:
			flushed = w.op.Log.MaxPhyOffset()
			w.kill()
		case 2:
			w.fs.FailFrom(w.fs.Ops()+1+int64(w.rng.IntN(40)), nil)
			w.kill()
			w.fs.FailFrom(w.fs.Ops()+1+int64(w.rng.IntN(40)), nil)
			recovery.Open(w.o)
			w.crash()
		default:
			w.crash()
		}
		if w.rng.IntN(8) == 0 {
			w.forgetSummary()
		}
		r := w.open()
		if r.End < flushed {
			t.Fatalf("seed %d: flushed to %d, the log ends at %d: %+v", seed, flushed, r.End, r)
		}
		check(t, w.op)
		if t.Failed() {
			return
		}
	}
	w.opensTheSame()
}
