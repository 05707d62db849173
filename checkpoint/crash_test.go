package checkpoint

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/conformance/effort"
)

// What a call of this package answered for is there after power loss; what it refused is as it was before or as it was to be. Nothing is ever torn. (report apache/rocketmq#3401)
func TestAnsweredWritesSurvivePowerLossAtEveryOperation(t *testing.T) {
	const root = "/store"
	for seed := range effort.Seeds(t, 40, 2000) {
		rng := rand.New(rand.NewPCG(seed, 0))
		for n, failed := int64(1), true; failed; n++ {
			failed = false
			fsys := faultfs.New()
			if err := fsys.MkdirAll(root); err != nil {
				t.Fatal(err)
			}
			fsys.FailFrom(fsys.Ops()+n, nil)

			// Each file's state that was answered for, and the one that a failed call may have made.
			page, pageTried := Page{}, Page{}
			var sum, sumTried *Summary
			abort, abortTried := false, false
			for i := range int64(6) {
				var err error
				switch rng.IntN(5) {
				case 0:
					abortTried = true
					if err = CreateAbort(fsys, root); err == nil {
						abort = true
					}
				case 1:
					abortTried = false
					if err = RemoveAbort(fsys, root); err == nil {
						abort = false
					}
				case 2:
					sumTried = nil
					if err = RemoveSummary(fsys, root); err == nil {
						sum = nil
					}
				case 3:
					s := &Summary{EndPhyOffset: 100 + i, LastPhyOffset: -1, Queues: make([]QueueBounds, 200)} // several pages
					for q := range s.Queues {
						s.Queues[q] = QueueBounds{Topic: "T", QueueID: int32(q), Max: i, LastPhy: -1}
					}
					sumTried = s
					if err = WriteSummary(fsys, root, s); err == nil {
						sum = s
					}
				default:
					pageTried = Page{PhysicMsgTimestamp: 10000 + i, LogicsMsgTimestamp: 20000 + i}
					if err = Write(fsys, Path(root), pageTried); err == nil {
						page = pageTried
					}
				}
				if err != nil {
					if !errors.Is(err, faultfs.ErrInjected) {
						t.Fatalf("seed %d, operation %d: %v", seed, n, err)
					}
					failed = true
					break
				}
				pageTried, sumTried, abortTried = page, sum, abort
			}

			after := fsys.Crash(rng)
			if got, err := Read(after, Path(root)); err != nil || got != page && got != pageTried {
				t.Fatalf("seed %d, operation %d: page %+v, %v; want %+v or %+v", seed, n, got, err, page, pageTried)
			}
			got, err := ReadSummary(after, root)
			if err != nil || cmp.Diff(got, sum) != "" && cmp.Diff(got, sumTried) != "" {
				t.Fatalf("seed %d, operation %d: summary %+v, %v; want %+v or %+v", seed, n, got, err, sum, sumTried)
			}
			if got, err := AbortExists(after, root); err != nil || got != abort && got != abortTried {
				t.Fatalf("seed %d, operation %d: abort file %v, %v; want %v or %v", seed, n, got, err, abort, abortTried)
			}
			if n > 1000 {
				t.Fatal("the operations do not end")
			}
		}
	}
}

// The original logs a failed flush of its checkpoint and goes on (defect 19); here it is the caller's to know.
func TestFailedWritesAreReturned(t *testing.T) {
	const root = "/store"
	fsys := faultfs.New()
	if err := fsys.MkdirAll(root); err != nil {
		t.Fatal(err)
	}
	old := Page{PhysicMsgTimestamp: 5}
	if err := errors.Join(Write(fsys, Path(root), old), CreateAbort(fsys, root), WriteSummary(fsys, root, someSummary())); err != nil {
		t.Fatal(err)
	}
	fsys.FailFrom(1, nil)
	for name, err := range map[string]error{
		"Write":         Write(fsys, Path(root), Page{PhysicMsgTimestamp: 6}),
		"CreateAbort":   CreateAbort(fsys, root),
		"RemoveAbort":   RemoveAbort(fsys, root),
		"WriteSummary":  WriteSummary(fsys, root, someSummary()),
		"RemoveSummary": RemoveSummary(fsys, root),
	} {
		if !errors.Is(err, faultfs.ErrInjected) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
