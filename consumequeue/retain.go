package consumequeue

import (
	"errors"
	"fmt"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
)

// CorrectMin moves each queue's minimum to its first unit whose record lies at or above the log's minimum, minPhyOffset;
// never back. A queue without such a unit gets min = max, its next offset (the rule of RocketMQ 5.3.3; the original 4.9.8
// keeps the old minimum, spec/consumequeue-format.md 2.5). Nothing is written: minima live in memory.
func (s *Set) CorrectMin(minPhyOffset int64) error {
	var errs []error
	for _, q := range s.sorted() {
		q.writer.Lock()
		if q.writer.gone == nil {
			errs = append(errs, q.correctMin(minPhyOffset))
		}
		q.writer.Unlock()
	}
	return errors.Join(errs...)
}

// correctMin is CorrectMin for one queue. The caller holds writer.
func (q *Queue) correctMin(minPhyOffset int64) error {
	lo, hi := q.min.Load(), q.max.Load()
	if lo >= hi {
		return nil
	}
	if q.lastPhy.Load() < minPhyOffset {
		q.min.Store(hi)
		return nil
	}
	if u, err := q.read(lo); err == nil && u.Valid() && u.PhyOffset >= minPhyOffset {
		return nil
	}
	n, err := q.firstAt(lo, hi, minPhyOffset)
	if err != nil {
		return fmt.Errorf("correct minimum of %s: %w", q, err)
	}
	q.min.Store(n)
	return nil
}

// firstAt finds the first unit in [lo, hi) whose record lies at or above minPhyOffset; hi if none.
func (q *Queue) firstAt(lo, hi, minPhyOffset int64) (int64, error) {
	return search(lo, hi, func(i int64) (bool, error) {
		u, err := q.read(i)
		return u.Valid() && u.PhyOffset >= minPhyOffset, err
	})
}

// Expire raises the minima as CorrectMin does, and then removes the files whose last unit points below minPhyOffset: never
// a queue's last file, so that its numbering survives. It goes on past a queue that fails; files is how many went.
func (s *Set) Expire(minPhyOffset int64) (files int, err error) {
	if s.o.ReadOnly {
		return 0, fmt.Errorf("expire queue files: %w", mappedfile.ErrReadOnly)
	}
	var errs []error
	for _, q := range s.sorted() {
		n, err := q.expire(minPhyOffset)
		files += n
		errs = append(errs, err)
	}
	return files, errors.Join(errs...)
}

func (q *Queue) expire(minPhyOffset int64) (int, error) {
	q.writer.Lock()
	defer q.writer.Unlock()
	if q.writer.gone != nil {
		return 0, nil
	}
	if err := q.correctMin(minPhyOffset); err != nil {
		return 0, err
	}
	seq := q.seq.Load()
	files := seq.Extents()
	n := 0
	for ; n < len(files) && files[n].End < seq.Max(); n++ { // so there is always a later file, which stays
		u, err := q.read(files[n].End/UnitSize - 1)
		if err != nil {
			return 0, fmt.Errorf("expire files of %s: %w", q, err)
		}
		if u.Valid() && u.PhyOffset >= minPhyOffset {
			break
		}
	}
	if n == 0 {
		return 0, nil
	}
	// The files that stay carry the queue's numbering on: they must not be in memory only.
	if err := q.set.flushQueue(q); err != nil {
		return 0, fmt.Errorf("expire files of %s: %w", q, err)
	}
	q.flushing.Lock()
	defer q.flushing.Unlock()
	dropped, err := seq.DropHead(n)
	if err != nil {
		return dropped, fmt.Errorf("expire files of %s: %w", q, err)
	}
	return dropped, nil
}
