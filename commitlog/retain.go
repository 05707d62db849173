package commitlog

import (
	"maps"
	"sync"
	"time"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
)

// ExpireOptions say which segments Expire removes. A segment goes when it meets one of OlderThan, Below and Force.
type ExpireOptions struct {
	OlderThan time.Time   // segments whose last record was stored before (modification time if it cannot be read); zero = not by age
	Below     int64       // segments that end at or below this offset; 0 = not by offset
	Max       int         // at most so many; 0 = 10
	Stop      func() bool // asked before each: true ends it (disk use, pace)
	Force     bool        // whatever the age (disk use, by hand)
}

const defaultExpireMax = 10

// Expire removes segments from the head of the log until one does not meet o; never the last one, and none that is not flushed. It
// returns those removed, also beside an error, so that queues and index can follow: the log starts at the last one's End. Readers that hold a
// view of a removed segment keep it.
func (l *Log) Expire(o ExpireOptions) (removed []mappedfile.FileInfo, err error) {
	if l.closed.Load() {
		return nil, ErrClosed
	}
	if l.o.ReadOnly {
		return nil, ErrReadOnly
	}
	if o.Max <= 0 {
		o.Max = defaultExpireMax
	}
	segments := l.seq.Files()
	for i := 0; i < len(segments)-1 && len(removed) < o.Max; i++ {
		s := segments[i]
		if s.End > l.seq.Flushed() || !l.expired(s, o) || o.Stop != nil && o.Stop() {
			break
		}
		n, err := l.seq.DropHead(1)
		if err != nil || n == 0 {
			return removed, err
		}
		l.times.forget(s.Start)
		removed = append(removed, s)
	}
	return removed, nil
}

func (l *Log) expired(s mappedfile.FileInfo, o ExpireOptions) bool {
	if o.Force || o.Below > 0 && s.End <= o.Below {
		return true
	}
	if o.OlderThan.IsZero() {
		return false
	}
	if t, ok := l.lastStoreTime(s.Start); ok {
		return t < o.OlderThan.UnixMilli()
	}
	return s.ModTime.Before(o.OlderThan)
}

// lastStoreTime is the store time, in ms, of the last record in the segment at start: as remembered, else read from its headers.
func (l *Log) lastStoreTime(start int64) (int64, bool) {
	if t, ok := l.times.get(start); ok {
		return t, t > 0
	}
	v, err := l.seq.ViewRest(start)
	if err != nil {
		return 0, false
	}
	defer v.Release()
	at, t, _ := walk(v.Bytes, start, start+l.size, start+int64(len(v.Bytes)))
	if at != start+int64(len(v.Bytes)) {
		// The headers do not lead through: what was seen last may be anything but the last record.
		return t, false
	}
	if at == start+l.size {
		l.times.set(start, t)
	}
	return t, t > 0
}

// segmentTimes remembers the last store time of segments that were left.
type segmentTimes struct {
	mu sync.Mutex
	m  map[int64]int64 // by segment start; ms
}

func (s *segmentTimes) get(start int64) (t int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok = s.m[start]
	return t, ok
}

func (s *segmentTimes) set(start, t int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m[start] = t
}

func (s *segmentTimes) forget(start int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.m, start)
}

// cut forgets the segments that reach beyond end.
func (s *segmentTimes) cut(end int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.m, func(start, _ int64) bool { return start >= end })
}

// SegmentStoreTime is when the last record of the segment that begins at start was stored; ok is false if it cannot be read.
func (l *Log) SegmentStoreTime(start int64) (t time.Time, ok bool) {
	ms, ok := l.lastStoreTime(start)
	return time.UnixMilli(ms), ok
}
