package crash

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/store"
)

// TestSlaveLives: a slave gets its master's bytes in pieces of any size and dies in between, in any way. After each open its log is the master's up to some record,
// at least to what it had on disk, its queues are the master's up to there, and recovery read no more than what followed the last checkpoint.
func TestSlaveLives(t *testing.T) {
	for seed := range effort.Seeds(t, 60, 800) {
		l := newLife(t, seed)
		m := &life{t: t, seed: seed, rng: l.rng, fs: faultfs.New(), o: l.o, now: l.now, visible: map[queueKey]int64{}, next: map[queueKey]int64{}}
		m.o.Now = func() time.Time { return m.now }
		if err := m.fs.MkdirAll("/data"); err != nil {
			t.Fatal(err)
		}
		m.mustOpen()
		for range 60 + l.rng.IntN(200) {
			m.now = m.now.Add(time.Duration(l.rng.IntN(500)) * time.Millisecond)
			if l.rng.IntN(5) == 0 {
				m.putBatch()
			} else {
				m.put(false)
			}
		}
		if _, err := m.s.FlushStep(); err != nil {
			m.fatal("flush of the master: %v", err)
		}
		if _, err := m.s.DispatchStep(1 << 20); err != nil {
			m.fatal("dispatch of the master: %v", err)
		}
		l.o.Role = store.Slave
		s := &slave{life: l, master: m}
		l.mustOpen()
		for l.s.MaxPhyOffset() < m.s.MaxPhyOffset() {
			for range l.rng.IntN(40) {
				s.step()
			}
			s.end()
		}
		for _, st := range []*life{l, m} {
			if err := st.s.Close(); err != nil {
				l.fatal("close: %v", err)
			}
		}
	}
}

type slave struct {
	*life
	master     *life
	checkpoint int64 // dispatched and durable at the last checkpoint
}

func (s *slave) step() {
	s.now = s.now.Add(time.Millisecond)
	switch n := s.rng.IntN(20); {
	case n < 12:
		at := s.s.MaxPhyOffset()
		if at == s.master.s.MaxPhyOffset() {
			return
		}
		v, err := s.master.s.CommitLogData(at, 1+s.rng.IntN(1000))
		if err != nil {
			s.fatal("read the master at %d: %v", at, err)
		}
		err = s.s.AppendToCommitLog(at, v.Bytes)
		s.tell("append %d bytes at %d: %v", len(v.Bytes), at, err)
		v.Release()
		s.expect(err)
	case n < 16:
		n, err := s.s.DispatchStep(1 + s.rng.IntN(20))
		s.tell("dispatch %d", n)
		s.expect(err)
	case n < 18:
		flushed, err := s.s.FlushStep()
		s.tell("flush to %d: %v", flushed, err)
		s.expect(err)
	default:
		s.tell("checkpoint")
		dispatched := s.s.DispatchedPhyOffset()
		s.expect(s.s.CheckpointStep())
		s.checkpoint = dispatched
	}
	s.flushed()
}

func (s *slave) end() {
	killed := s.s.MaxPhyOffset()
	lost := false
	switch n := s.rng.IntN(6); {
	case n == 0:
		s.tell("close")
		if err := s.s.Close(); err != nil {
			s.fatal("close: %v", err)
		}
	case n < 3:
		s.tell("kill")
		s.fs = s.fs.Kill()
	default:
		s.tell("power lost, durable to %d", s.durable)
		s.fs, lost = s.fs.Crash(s.rng), true
	}
	s.mustOpen()
	end := s.s.MaxPhyOffset()
	rec := s.s.Stats().Recovery
	s.tell("reopened: log ends at %d, recovery %+v", end, rec)
	must := s.durable
	if !lost {
		must = killed
	}
	// The end of a whole record, and every whole record that must be there.
	log := s.master.log
	i, found := slices.BinarySearchFunc(log, end, func(m sent, at int64) int { return int(m.end - at) })
	if found {
		i++
	}
	if i < len(log) && log[i].end <= must || i < len(log) && log[i].phyOffset < end && log[i].end > end {
		s.fatal("the log ends at %d, whole records up to %d must be there, the next is %+v", end, must, log[i])
	}
	if rec.Start < s.checkpoint-s.o.SegmentSize-2000 {
		s.fatal("recovery began at %d, the checkpoint was at %d", rec.Start, s.checkpoint)
	}
	for at := int64(0); at < end; {
		v, err := s.s.CommitLogData(at, 0)
		if err != nil {
			s.fatal("read at %d: %v", at, err)
		}
		w, err := s.master.s.CommitLogData(at, len(v.Bytes))
		if err != nil || !bytes.Equal(v.Bytes, w.Bytes) {
			s.fatal("the log from %d is not the master's: %v", at, err)
		}
		at += int64(len(v.Bytes))
		v.Release()
		w.Release()
	}
	s.durable = min(s.durable, end)
	s.flushed()
	count := map[queueKey]int64{}
	for _, m := range log {
		if m.inQueue && m.end <= end {
			count[m.queue]++
		}
	}
	for _, q := range queues {
		if got := s.s.MaxOffset(q.topic, q.id); got != count[q] {
			s.fatal("queue %v ends at %d, the log has %d messages of it", q, got, count[q])
		}
		for i := range count[q] {
			a, err1 := s.s.PhyOffset(q.topic, q.id, i)
			b, err2 := s.master.s.PhyOffset(q.topic, q.id, i)
			if a != b || err1 != nil || err2 != nil {
				s.fatal("queue %v unit %d: %d %v, the master's %d %v", q, i, a, err1, b, err2)
			}
		}
	}
}
