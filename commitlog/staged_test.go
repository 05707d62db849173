package commitlog

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
)

func onlyWhereStaged(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("logs are staged on Linux only: elsewhere a write and a mapping of one file need not agree, and appends go straight into the mapping")
	}
}

// Whoever comes upon the failed write of staged bytes, and whatever the error: the log is read-only from then on, as after a failed flush, and what was durable is there.
func TestOneFailedWriteIsFinal(t *testing.T) {
	onlyWhereStaged(t)
	for _, c := range []struct {
		name string
		do   func(r *rig, errno error) error
	}{
		{"the append that fills the stage", func(r *rig, _ error) (err error) {
			for range 1000 {
				if _, err = r.log.Append(r.message(10_000), &r.count); err != nil {
					return err
				}
			}
			return nil
		}},
		{"the append that leaves the segment", func(r *rig, errno error) (err error) {
			for r.log.MaxPhyOffset() < r.o.SegmentSize {
				if _, err = r.log.Append(r.message(200_000), &r.count); err != nil {
					return err
				}
				if r.log.seq.Rest() > 250_000 {
					r.fs.SetHook(nil)
					err = r.log.WriteOut()
					r.failWrites(errno)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}},
		{"AppendRaw", func(r *rig, _ error) error {
			from := newRig(t)
			from.o.SegmentSize = r.o.SegmentSize
			from.open(Recovery{})
			for from.log.MaxPhyOffset() <= r.log.MaxPhyOffset() {
				from.append(100)
			}
			v, err := from.log.ViewRest(0)
			if err != nil {
				return err
			}
			defer v.Release()
			end := r.log.MaxPhyOffset()
			return r.log.AppendRaw(end, v.Bytes[end:])
		}},
		{"WriteOut", func(r *rig, _ error) error { return r.log.WriteOut() }},
		{"a read and the flush that it asks for", func(r *rig, _ error) error {
			end := r.log.MaxPhyOffset()
			v, err := r.log.View(end-10, 10)
			if err == nil {
				v.Release()
				t.Error("bytes that could not be written are read")
			}
			select {
			case <-r.log.flush.kick:
			default:
				t.Error("the flusher is not told")
			}
			_, err = r.log.FlushStep()
			return err
		}},
	} {
		for _, errno := range []error{syscall.EIO, mappedfile.ErrDiskFull} {
			t.Run(c.name+", "+errno.Error(), func(t *testing.T) {
				r := newRig(t)
				r.o.SegmentSize, r.o.FlushMode = 2<<20, SyncFlush
				l := r.open(Recovery{})
				durable := r.append(100)
				r.flush()
				lost := durable
				if c.name != "AppendRaw" {
					lost = r.append(100)
				}
				waiting := make(chan error, 1)
				go func() { waiting <- l.WaitFlushed(context.Background(), lost.End()+1<<30) }()
				for !l.flush.waited() {
					runtime.Gosched()
				}
				<-l.flush.kick
				r.failWrites(errno)
				if err := c.do(r, errno); !errors.Is(err, errno) {
					t.Fatalf("%v, want %v", err, errno)
				}
				r.fs.SetHook(nil) // it was one failure
				if err := <-waiting; !errors.Is(err, errno) {
					t.Errorf("waiter got %v", err)
				}
				if !errors.Is(l.Err(), errno) {
					t.Errorf("Err: %v", l.Err())
				}
				if _, err := l.Append(r.message(10), &r.count); !errors.Is(err, errno) || !errors.Is(err, ErrReadOnly) {
					t.Errorf("append: %v, want ErrReadOnly", err)
				}
				if err := l.AppendRaw(l.MaxPhyOffset(), []byte{1}); !errors.Is(err, ErrReadOnly) {
					t.Errorf("append raw: %v, want ErrReadOnly", err)
				}
				if _, v, err := l.Message(durable.PhyOffset); err != nil {
					t.Errorf("what is durable: %v", err)
				} else {
					v.Release()
				}
				if err := l.Close(); !errors.Is(err, errno) {
					t.Errorf("close: %v", err)
				}
				r.kill()
				r.open(Recovery{FlushedTo: durable.End()})
				if r.tail.End < durable.End() {
					t.Errorf("reopened to %d, %d was durable", r.tail.End, durable.End())
				}
				r.append(10)
				r.flush()
			})
		}
	}
}

// failWrites makes writes by call fail.
func (r *rig) failWrites(err error) {
	r.fs.SetHook(func(op faultfs.Op) error {
		if op.Kind == faultfs.OpWrite {
			return err
		}
		return nil
	})
}

func (f *flusher) waited() bool {
	f.waits.Lock()
	defer f.waits.Unlock()
	return len(f.waits.list) > 0
}

// The blank of a segment whose successor could not be made may have got into the file: the smaller record that takes its place is what is read, and what a flush makes durable.
func TestARecordInThePlaceOfABlankIsDurableOnceFlushed(t *testing.T) {
	r := newRig(t)
	r.o.FlushMode = SyncFlush
	l := r.open(Recovery{})
	for r.append(100); l.seq.Rest() > 2000; {
		r.append(1000)
	}
	r.fs.SetHook(func(op faultfs.Op) error {
		if op.Kind == faultfs.OpMap {
			return mappedfile.ErrDiskFull
		}
		return nil
	})
	if _, err := l.Append(r.message(3000), &r.count); !errors.Is(err, mappedfile.ErrDiskFull) {
		t.Fatalf("append: %v, want ErrDiskFull", err)
	}
	if err := l.WriteOut(); err != nil { // as a put that waits for no flush does
		t.Fatal(err)
	}
	small := r.append(200)
	r.flush()
	r.fs.SetHook(nil)
	if _, v, err := l.Message(small.PhyOffset); err != nil {
		t.Errorf("read: %v", err)
	} else {
		v.Release()
	}
	r.fs = r.fs.Crash(rand.New(rand.NewPCG(1, 1)))
	r.log = nil
	r.open(Recovery{FlushedTo: small.End()})
	if r.tail.End != small.End() {
		t.Errorf("after a power loss the log ends at %d, flushed to %d", r.tail.End, small.End())
	}
}

// A slave's reader that begins in the half of a record that came first finds the rest as soon as it is published.
func TestARecordThatCameInHalvesIsWhole(t *testing.T) {
	from := newRig(t)
	from.open(Recovery{})
	end := from.append(500).End()
	v, err := from.log.ViewRest(0)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Release()
	r := newRig(t)
	r.o.FlushMode = SyncFlush
	l := r.open(Recovery{})
	for _, p := range [][]byte{v.Bytes[:100], v.Bytes[100:end]} {
		if err := l.AppendRaw(l.MaxPhyOffset(), p); err != nil {
			t.Fatal(err)
		}
		got, err := l.ViewRest(0)
		if err != nil {
			t.Fatal(err)
		}
		if int64(len(got.Bytes)) != l.MaxPhyOffset() {
			t.Errorf("%d bytes of %d", len(got.Bytes), l.MaxPhyOffset())
		}
		got.Release()
	}
	if whole := l.WholePhyOffset(); whole != end {
		t.Errorf("whole to %d, want %d", whole, end)
	}
	if got := offsets(t, l); len(got) != 1 {
		t.Errorf("%d records", len(got))
	}
}
