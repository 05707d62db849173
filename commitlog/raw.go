package commitlog

import (
	"errors"
	"fmt"
	"math"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
)

// AppendRaw is the slave's way in: bytes as the master wrote them, which must start at MaxPhyOffset, else *OffsetMismatchError. An
// empty log starts with the segment that contains phyOffset, and takes only that segment's first byte for a start: with a hole in
// front, the next recovery could not tell it from damage. Records may be cut anywhere, also at a segment's end that p crosses;
// bytes that fill a segment up make the next ones go to a new one.
//
// After an error what lies below MaxPhyOffset is appended and the rest of p is not. Errors as Append.
func (l *Log) AppendRaw(phyOffset int64, p []byte) error {
	now := l.lock()
	end, err := l.appendRawLocked(phyOffset, p, now.Add(maxClockLead).UnixMilli())
	l.unlock()
	l.appended(end)
	return err
}

func (l *Log) appendRawLocked(phyOffset int64, p []byte, latest int64) (end int64, err error) {
	end = l.seq.Max()
	if l.mu.refuse != nil {
		return end, l.mu.refuse
	}
	if phyOffset < 0 || phyOffset > math.MaxInt64-2*l.size-int64(len(p)) {
		return end, &OffsetMismatchError{Want: end, Got: phyOffset}
	}
	if !l.hasFile.Load() || end == 0 { // a file without a byte is what a crash left of an empty log
		if start := phyOffset - phyOffset%l.size; phyOffset != start {
			return end, &OffsetMismatchError{Want: start, Got: phyOffset}
		}
		if phyOffset != end {
			l.hasFile.Store(false) // before its end is moved to where no file is
			if err := l.seq.Reset(phyOffset); err != nil {
				l.hasFile.Store(len(l.seq.Extents()) > 0)
				return end, fmt.Errorf("start an empty log at physical offset %d: %w", phyOffset, err)
			}
			l.mu.whole, end = phyOffset, phyOffset
		}
	}
	if phyOffset != end {
		return end, &OffsetMismatchError{Want: end, Got: phyOffset}
	}
	for len(p) > 0 {
		n := min(int64(len(p)), l.size-end%l.size)
		_, off, err := l.seq.Reserve(int(n))
		if errors.Is(err, mappedfile.ErrEndOfFile) {
			if err = l.rollSequenceLocked(); err == nil {
				_, off, err = l.seq.Reserve(int(n))
			}
		}
		if err != nil {
			return end, fmt.Errorf("append %d bytes of the master at physical offset %d: %w", len(p), end, err)
		}
		if err := l.seq.WriteThrough(off, p[:n]); err != nil { // the master will be told that it is here: the end of this process must not take it back
			return end, l.failLocked(err)
		}
		p = p[n:]
		end = off + n
		l.hasFile.Store(true) // before the end: who sees bytes sees where the log begins
		l.seq.Publish(end)
		l.trackLocked(end, latest)
		l.releaseLocked(end)
	}
	return end, nil
}

// trackLocked follows the record boundaries in bytes that a master sent, as far as whole records reach below end. It is what keeps
// store times for checkpoint and retention right on a slave, and what a slave that becomes master continues from.
func (l *Log) trackLocked(end, latest int64) {
	if l.mu.bad || l.mu.whole == end {
		return
	}
	v, err := l.seq.ViewRest(l.mu.whole)
	if err != nil {
		l.mu.bad = true
		return
	}
	segStart := l.mu.whole - l.mu.whole%l.size
	boundary, storeTime, bad := walk(v.Bytes, l.mu.whole, segStart+l.size, end)
	v.Release()
	l.mu.whole, l.mu.bad = boundary, bad
	if storeTime > l.mu.storeTime && storeTime <= latest {
		l.mu.storeTime = storeTime
	}
	if boundary == segStart+l.size {
		l.times.set(segStart, l.mu.storeTime)
	}
}
