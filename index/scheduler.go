package index

import (
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// scheduler lets Pebble run one compaction at a time, and none once the directory is cut off: it would be tried again and again. Unlike Pebble's own it has no goroutine, which an Open that fails would leave behind.
type scheduler struct {
	guard *guardFS // nil: read-only, no compactions

	mu struct {
		sync.Mutex
		db      pebble.DBForCompaction
		running bool
		asked   bool // a compaction was refused meanwhile: it waits in db
		gone    bool
		granted sync.Cond // a call to db ended
		calling bool
	}
}

func newScheduler(g *guardFS) *scheduler {
	s := &scheduler{guard: g}
	s.mu.granted.L = &s.mu.Mutex
	return s
}

// Register is called by Open.
func (s *scheduler) Register(_ int, db pebble.DBForCompaction) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.db = db
}

// Unregister is called by Close. It waits for calls to the database.
func (s *scheduler) Unregister() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.gone = true
	for s.mu.calling {
		s.mu.granted.Wait()
	}
}

func (s *scheduler) stoppedLocked() bool {
	return s.mu.gone || s.guard == nil || s.guard.cut() != nil
}

// TrySchedule is the database's question whether it may start a compaction. If not now, Done will grant it.
func (s *scheduler) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.running || s.stoppedLocked() {
		s.mu.asked = true
		return false, nil
	}
	s.mu.running = true
	return true, s
}

// Done is the end of a compaction: the next one may run.
func (s *scheduler) Done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.mu.asked = true; s.mu.asked && !s.stoppedLocked(); {
		s.mu.asked = false
		s.mu.calling = true
		s.mu.Unlock()
		waiting, _ := s.mu.db.GetWaitingCompaction()
		accepted := waiting && s.mu.db.Schedule(s)
		s.mu.Lock()
		s.mu.calling = false
		s.mu.granted.Broadcast()
		if accepted {
			return
		}
	}
	s.mu.running = false
}

// Started, MeasureCPU, CumulativeStats and UpdateGetAllowedWithoutPermission are of no interest to it.
func (s *scheduler) Started() {}

// MeasureCPU does nothing.
func (s *scheduler) MeasureCPU(pebble.CompactionGoroutineKind) {}

// CumulativeStats does nothing.
func (s *scheduler) CumulativeStats(pebble.CompactionGrantHandleStats) {}

// UpdateGetAllowedWithoutPermission does nothing.
func (s *scheduler) UpdateGetAllowedWithoutPermission() {}
