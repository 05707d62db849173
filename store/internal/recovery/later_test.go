package recovery_test

import (
	"testing"

	"github.com/mqstore/mqstore/checkpoint"
	"github.com/mqstore/mqstore/store/internal/recovery"
)

// What is left for later is there to read, is not said to be durable, and is durable after the first flush; a machine that fails before takes no more than it would have taken from the process before.
func TestWhatIsLeftForLaterIsNotSaidToBeDurable(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		w := newWorld(t, 7)
		w.open()
		w.fill(5)
		w.checkpoint(false)
		page, err := checkpoint.Read(w.fs, checkpoint.Path(root))
		if err != nil {
			t.Fatal(err)
		}
		durable := w.op.Log.FlushedPhyOffset()
		w.fill(10)
		want := w.dump()
		w.kill()
		w.o.Later = true
		w.open()
		if w.dump() != want {
			t.Fatalf("changed\n%sto\n%s", want, w.dump())
		}
		if got := w.op.Log.FlushedPhyOffset(); !w.op.Unsettled || got > durable {
			t.Fatalf("said to be durable up to %d, it is up to %d; unsettled %v", got, durable, w.op.Unsettled)
		}
		if now, err := checkpoint.Read(w.fs, checkpoint.Path(root)); err != nil || now != page || w.op.Log.LastStoreTimestamp() != 0 {
			t.Fatalf("the checkpoint is %+v, it was %+v, the log's time %d %v", now, page, w.op.Log.LastStoreTimestamp(), err)
		}
		if flushed {
			if _, err := w.op.Log.Flush(); err != nil {
				t.Fatal(err)
			}
			if err := w.op.Queues.Flush(); err != nil {
				t.Fatal(err)
			}
			durable = w.op.Log.MaxPhyOffset()
			if w.op.Log.FlushedPhyOffset() != durable {
				t.Fatal("flushed", w.op.Log.FlushedPhyOffset())
			}
		}
		w.crash()
		r := w.open()
		if r.End < durable || r.LostBytes > 0 || flushed && w.dump() != want {
			t.Fatalf("flushed %v: the log ended at %d at least and ends at %d: %+v", flushed, durable, r.End, r)
		}
	}
}

// What was cut, or is lost, is settled at once: the checkpoint must not speak of it any more.
func TestACutIsNotLeftForLater(t *testing.T) {
	w := newWorld(t, 7)
	w.open()
	w.fill(10)
	w.checkpoint(false)
	last := w.put("A", 0, 1, 100)
	w.kill()
	w.o.Later = true
	w.editLog(last.PhyOffset, func(b []byte) { clear(b[40:last.Size]) })
	op, err := recovery.Open(w.o)
	if err != nil {
		t.Fatal(err)
	}
	w.use(op)
	if op.Unsettled || op.Report.DroppedBytes == 0 || op.Log.FlushedPhyOffset() != op.Report.End {
		t.Fatalf("unsettled %v, flushed %d: %+v", op.Unsettled, op.Log.FlushedPhyOffset(), op.Report)
	}
}
