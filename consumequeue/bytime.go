package consumequeue

import (
	"errors"
	"fmt"
)

// TimeRule says which unit OffsetByTime means.
type TimeRule uint8

const (
	Nearest TimeRule = iota // RocketMQ 4.9.8: the unit nearest in time; an exact hit may be any of several
	Lower                   // 5.3.3: the first unit at or after the time
	Upper                   // 5.3.3: the last unit at or before the time
)

func (r TimeRule) String() string {
	switch r {
	case Nearest:
		return "nearest"
	case Lower:
		return "lower"
	case Upper:
		return "upper"
	}
	return fmt.Sprintf("TimeRule(%d)", uint8(r))
}

// OffsetByTime finds a queue offset by store time (ms), in the queue's bounds (spec/consumequeue-format.md 2.8).
// minPhyOffset is the log's minimum: units of records below it have no time. Store times are taken to rise in a queue.
//
//	times t1 t1 t1 t3 t3 at 1..5     t0: Nearest 1  Lower 1  Upper min
//	                                 t2: Nearest is the nearer of both sides, the left one of equals; Lower 4  Upper 3
//	                                 t9: Nearest 5  Lower 6 (max)  Upper 5
//
// Nearest looks into one file only, the first whose last message is not older (else the last file), and probes it as the
// original does, so that it hits the same one of equals. A queue without readable units answers its MaxOffset. An error is
// that of Options.StoreTime for a record that should be there.
func (q *Queue) OffsetByTime(ms int64, r TimeRule, minPhyOffset int64) (int64, error) {
	lo, hi := q.min.Load(), q.max.Load()
	first, err := q.firstAt(lo, hi, minPhyOffset)
	if err != nil {
		if errors.Is(err, ErrNoUnit) { // its file expired since
			return q.MinOffset(), nil
		}
		return 0, fmt.Errorf("offset by time of %s: %w", q, err)
	}
	if first >= hi {
		return hi, nil
	}
	var n int64
	switch r {
	case Lower:
		n, err = q.firstNotBefore(first, hi, ms)
	case Upper:
		n, err = search(first, hi, func(i int64) (bool, error) {
			t, err := q.storeTime(i)
			return t > ms, err
		})
		n = max(n-1, first)
	default:
		n, err = q.nearest(lo, hi, ms, minPhyOffset)
		n = min(max(n, first), hi)
	}
	if err != nil {
		return 0, fmt.Errorf("offset by time of %s: %w", q, err)
	}
	return n, nil
}

func (q *Queue) firstNotBefore(lo, hi, ms int64) (int64, error) {
	return search(lo, hi, func(i int64) (bool, error) {
		t, err := q.storeTime(i)
		return t >= ms, err
	})
}

func (q *Queue) storeTime(i int64) (int64, error) {
	u, err := q.read(i)
	if err != nil {
		return 0, err
	}
	return q.timeOf(i, u)
}

func (q *Queue) timeOf(i int64, u Unit) (int64, error) {
	if !u.Valid() {
		return 0, q.corrupt(i)
	}
	if q.set.o.StoreTime == nil {
		return 0, errors.New("consumequeue: Options.StoreTime is not set")
	}
	t, err := q.set.o.StoreTime(u.PhyOffset, int(u.Size))
	if err != nil {
		return 0, fmt.Errorf("store time of unit %d, record at %d: %w", i, u.PhyOffset, err)
	}
	return t, nil
}

// nearest is the 4.9.8 search in [lo, hi), which may begin with units below minPhyOffset. -1: none found.
func (q *Queue) nearest(lo, hi, ms, minPhyOffset int64) (int64, error) {
	lastFile := (hi - 1) / q.perFile
	file, err := search(lo/q.perFile, lastFile, func(f int64) (bool, error) {
		i := (f+1)*q.perFile - 1
		u, err := q.read(i)
		if err != nil || !u.Valid() || u.PhyOffset < minPhyOffset {
			return false, err
		}
		t, err := q.timeOf(i, u)
		return t >= ms, err
	})
	if err != nil {
		return 0, err
	}
	// The original halves byte positions within the file: so do we, in units.
	start := file * q.perFile
	low, high := max(lo, start)-start, min(hi, start+q.perFile)-start-1
	left, right := int64(-1), int64(-1)
	var leftTime, rightTime int64
	var leftTimed bool
	for low <= high {
		mid := (low + high) / 2
		u, err := q.read(start + mid)
		if err != nil {
			return 0, err
		}
		if u.IsFiller() || u.PhyOffset < minPhyOffset {
			low, left = mid+1, mid
			continue
		}
		t, err := q.timeOf(start+mid, u)
		switch {
		case err != nil:
			return 0, err
		case t == ms:
			return start + mid, nil
		case t > ms:
			high, right, rightTime = mid-1, mid, t
		default:
			low, left, leftTime, leftTimed = mid+1, mid, t, true
		}
	}
	switch {
	case right < 0:
		return start + left, nil
	case !leftTimed:
		return start + right, nil
	case ms-leftTime > rightTime-ms:
		return start + right, nil
	}
	return start + left, nil
}
