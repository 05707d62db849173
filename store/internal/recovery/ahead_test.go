package recovery_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/mqstore/mqstore/commitlog"
	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/consumequeue"
	"github.com/mqstore/mqstore/store/internal/recovery"
)

// On a real disk the log is read ahead of the comparison: queues that are lost come back whole, a stop ends it, and damage that only the comparison meets is told with its place.
func TestRecordsReadAheadAreThoseOfTheLog(t *testing.T) {
	const segment, queues, records = 1 << 20, 5, 3000
	dir := t.TempDir()
	o := recovery.Options{
		FS: mappedfile.OS(), Root: dir,
		CommitLog: commitlog.Options{SegmentSize: segment, NoBackground: true},
		Queues:    consumequeue.Options{FileSize: 20_000, NoBackground: true},
	}
	op, err := recovery.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	var at [queues][]int64 // physical offsets
	var counters [queues]commitlog.Counter
	for i := range records {
		q := i * i % queues
		r, err := op.Log.Append(&record.Message{Topic: "T", QueueID: int32(q), BornHost: host, StoreHost: host, Body: make([]byte, 3000)}, &counters[q])
		if err != nil {
			t.Fatal(err)
		}
		at[q] = append(at[q], r.PhyOffset)
	}
	if err := op.Seal(o.FS, dir); err != nil {
		t.Fatal(err)
	}
	forget := func(paths ...string) {
		t.Helper()
		for _, p := range paths {
			if err := os.RemoveAll(filepath.Join(dir, p)); err != nil {
				t.Fatal(err)
			}
		}
	}
	forget("consumequeue", "mqstore.summary")

	halt := errors.New("halt")
	asked := 0
	stopped := o
	stopped.Stop = func() error {
		if asked++; asked > 1 {
			return halt
		}
		return nil
	}
	if _, err := recovery.Open(stopped); !errors.Is(err, halt) {
		t.Fatalf("asked %d times to stop: %v", asked, err)
	}

	if op, err = recovery.Open(o); err != nil {
		t.Fatal(err)
	}
	for q := range at {
		k := op.Queues.Queue("T", int32(q))
		if len(at[q]) == 0 && k == nil {
			continue
		}
		if k.MinOffset() != 0 || k.MaxOffset() != int64(len(at[q])) {
			t.Fatalf("queue %d is [%d, %d), it had %d units", q, k.MinOffset(), k.MaxOffset(), len(at[q]))
		}
		for i, want := range at[q] {
			if u, err := k.Unit(int64(i)); err != nil || u.PhyOffset != want {
				t.Fatalf("queue %d unit %d: %+v %v, want %d", q, i, u, err, want)
			}
		}
	}
	if n := op.Report.LogRecords; n != records {
		t.Errorf("%d records were compared, of %d", n, records)
	}
	if err := op.Seal(o.FS, dir); err != nil {
		t.Fatal(err)
	}

	forget("mqstore.summary")
	bad := at[0][len(at[0])/2]
	f, err := os.OpenFile(filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", bad-bad%segment)), os.O_RDWR, 0)
	if err == nil {
		_, err = f.WriteAt([]byte{1, 2, 3, 4}, bad%segment+4) // the magic
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	var damage *commitlog.DamageError
	if _, err := recovery.Open(o); !errors.As(err, &damage) || damage.Off != bad {
		t.Fatalf("damage at %d: %v", bad, err)
	}
}
