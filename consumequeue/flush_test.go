package consumequeue_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
)

// TestFlushSyncsDirtyQueuesOnly: a queue that did not change costs no sync.
func TestFlushSyncsDirtyQueuesOnly(t *testing.T) {
	fs := faultfs.New()
	s := open(t, small(fs))
	put := func(queue int32, at int64) {
		t.Helper()
		m := meta(at, 100*at, 100)
		m.QueueID = queue
		if err := s.Dispatch(m); err != nil {
			t.Fatal(err)
		}
	}
	for q := range int32(5) {
		put(q, 0)
	}
	if n, err := s.FlushStep(2); n != 2 || err != nil {
		t.Fatalf("flushed %d, %v", n, err)
	}
	if n, err := s.FlushStep(0); n != 3 || err != nil {
		t.Fatalf("flushed %d, %v", n, err)
	}
	before := fs.Ops()
	if n, err := s.FlushStep(0); n != 0 || err != nil || fs.Ops() != before {
		t.Fatalf("flushed %d, %v, %d operations", n, err, fs.Ops()-before)
	}
	put(3, 1)
	put(3, 2)
	if n, err := s.FlushStep(0); n != 1 || err != nil || fs.Ops() != before+1 {
		t.Fatalf("flushed %d, %v, %d operations", n, err, fs.Ops()-before)
	}
}

// TestWhatFlushReportedSurvivesPowerLoss, whatever the crash takes.
func TestWhatFlushReportedSurvivesPowerLoss(t *testing.T) {
	for seed := range uint64(50) {
		fs := faultfs.New()
		s := open(t, small(fs))
		fill(t, s, 7, 33)
		if err := s.Flush(); err != nil {
			t.Fatal(err)
		}
		fill(t, s, 33, 47)
		fs = fs.Crash(rand.New(rand.NewPCG(seed, 1)))
		s = open(t, small(fs))
		if q := s.Queue(topic, 0); q.MaxOffset() < 33 || q.MinOffset() != 7 {
			t.Fatalf("seed %d: %+v", seed, boundsOf(q))
		}
	}
}

// TestAFailedFlushIsReportedForEver, by name, and does not keep other queues from being flushed.
func TestAFailedFlushIsReportedForEver(t *testing.T) {
	fs := faultfs.New()
	s := open(t, small(fs))
	for q := range int32(3) {
		m := meta(0, 0, 100)
		m.QueueID = q
		if err := s.Dispatch(m); err != nil {
			t.Fatal(err)
		}
	}
	failing := ""
	fs.SetHook(func(op faultfs.Op) error {
		if strings.Contains(op.Path, "/T/1/") {
			return faultfs.ErrInjected
		}
		return nil
	})
	for range 3 {
		err := s.Flush()
		if !errors.Is(err, faultfs.ErrInjected) || !strings.Contains(err.Error(), "T-1") {
			t.Fatalf("flush: %v", err)
		}
		if failing != "" && err.Error() != failing {
			t.Fatalf("first %q, then %q", failing, err)
		}
		failing = err.Error()
		fs.SetHook(nil) // the disk is well again: the pages are lost all the same
	}
	if n, err := s.FlushStep(0); n != 1 || err == nil {
		t.Errorf("%d queues are dirty, %v", n, err)
	}
	m := meta(1, 100, 100)
	m.QueueID = 1
	if err := s.Dispatch(m); err != nil { // the log has it, and readers may
		t.Error(err)
	}
	if err := s.Close(); err == nil {
		t.Error("Close says that all is well")
	}
}
