package commitlog

import (
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mqstore/mqstore/conformance/effort"
)

// Who reads the end, and then the beginning, of a log that its first raw bytes come into is never told of bytes without a beginning, nor of a beginning that lies where none are.
func TestWhoSeesBytesSeesWhereTheLogBegins(t *testing.T) {
	_, all := master(t, 3, 500)
	for _, emptyFile := range []bool{false, true} {
		var log atomic.Pointer[Log]
		var looking sync.Mutex // a log is closed when nobody looks at it
		var wg sync.WaitGroup
		stop, wrong := make(chan struct{}), make(chan [2]int64, 1)
		look := func() {
			looking.Lock()
			defer looking.Unlock()
			l := log.Load()
			for range 100 {
				if l == nil {
					return
				}
				end := l.MaxPhyOffset()
				if first := l.MinPhyOffset(); end > testSegment && first < 0 || end >= testSegment && first == 0 {
					select {
					case wrong <- [2]int64{first, end}:
					default:
					}
				}
			}
		}
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					look()
				}
			}
		})
		for range effort.N(500, 20000) {
			s := newRig(t)
			if emptyFile { // of a process that was killed before its first record
				s.fs.Plant(filepath.Join(testDir, segmentName(0)), make([]byte, testSegment))
			}
			l := s.open(Recovery{})
			log.Store(l)
			if err := l.AppendRaw(testSegment, all[:100]); err != nil {
				t.Fatal(err)
			}
			log.Store(nil)
			looking.Lock()
			s.close()
			looking.Unlock()
		}
		close(stop)
		wg.Wait()
		if len(wrong) > 0 {
			t.Errorf("empty file=%v: first and end of the log were seen as %d", emptyFile, <-wrong)
		}
	}
}

// A counter that is raised beside appends to its queue gives each of them an offset of its own.
func TestARaisedCounterGivesNoOffsetTwice(t *testing.T) {
	s := newRig(t)
	s.o.SegmentSize = 1 << 20
	l := s.open(Recovery{})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					s.count.Raise(s.count.Next() + 1)
				}
			}
		})
	}
	given := make([]int64, 0, effort.N(20000, 200000))
	for range cap(given) {
		r, err := l.Append(s.message(10), &s.count)
		if err != nil {
			t.Fatal(err)
		}
		given = append(given, r.QueueOffset)
	}
	close(stop)
	wg.Wait()
	if !slices.IsSorted(given) || len(slices.Compact(given)) != cap(given) {
		t.Error("an offset was given twice")
	}
}
