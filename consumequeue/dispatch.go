package consumequeue

import (
	"errors"
	"fmt"
	"math"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/record"
)

// Dispatch appends the unit of m's record to its queue, which is made if need be. Records without a unit (PREPARED,
// ROLLBACK, blanks) are ignored. One goroutine, log order, at least once:
//
//   - a record that ends at or below the queue's last one, or whose queue offset is held, is a duplicate: accepted, and
//     compared with the unit that is there. A unit that a crash tore or lost is mended, durably; another record's unit
//     stays and is counted (Queue.Conflicts);
//   - a record beyond the queue's end is a *GapError: nothing is written past a hole;
//   - a queue without any unit begins wherever its first record says; the file is filled up to there (spec 2.3, 2.4).
//
// Other errors: mappedfile.ErrDiskFull (nothing was written; call again when there is room), *NameError, ErrMalformed for
// a place that no unit can hold, mappedfile.ErrReadOnly, mappedfile.ErrClosed. Allocates only where a queue or file begins.
func (s *Set) Dispatch(m *record.Meta) error {
	if m.IsBlank() || !m.HasUnit() {
		return nil
	}
	u := Unit{PhyOffset: m.PhyOffset, Size: int32(m.Size), TagsCode: m.TagsCode}
	if !u.Valid() || int(u.Size) != m.Size {
		return fmt.Errorf("dispatch record at %d of %d bytes to %s-%d: %w", m.PhyOffset, m.Size, m.Topic, m.QueueID, ErrMalformed)
	}
	for {
		q, err := s.Ensure(m.Topic, m.QueueID)
		if err == nil {
			err = q.append(m.QueueOffset, u)
		}
		switch {
		case err == nil:
			return nil
		case err == errRemoved: // between Ensure and append: there is a new one to make
		default:
			return fmt.Errorf("dispatch record at %d: %w", m.PhyOffset, err)
		}
	}
}

// Begin says where a queue of which no record is left goes on: it gets min = max = queueOffset, as one whose records have all expired, and its first record may still begin it anywhere. Nothing happens to a
// queue that holds a unit, or that ends at queueOffset or beyond. It may be called beside Dispatch; errors are Dispatch's.
func (s *Set) Begin(topic string, queueID int32, queueOffset int64) error {
	for {
		q, err := s.Ensure(topic, queueID)
		if err == nil {
			err = q.beginEmpty(queueOffset)
		}
		switch {
		case err == nil:
			return nil
		case err == errRemoved: // as in Dispatch
		default:
			return fmt.Errorf("begin queue %s-%d at unit %d: %w", topic, queueID, queueOffset, err)
		}
	}
}

func (q *Queue) beginEmpty(at int64) error {
	q.writer.Lock()
	defer q.writer.Unlock()
	if err := q.writable(at); err != nil {
		return err
	}
	if q.maxPhy.Load() >= 0 || at <= q.max.Load() {
		return nil
	}
	return q.begin(at)
}

// writable prepares the queue for a unit at a queue offset. The caller holds writer.
func (q *Queue) writable(at int64) error {
	switch {
	case q.writer.gone != nil:
		return q.writer.gone
	case q.set.o.ReadOnly:
		return mappedfile.ErrReadOnly
	case at < 0 || at > (math.MaxInt64-q.fileSize())/UnitSize-1:
		return fmt.Errorf("%s unit %d: no such queue offset: %w", q, at, ErrMalformed)
	case !q.writer.clean:
		return q.cleanTail()
	}
	return nil
}

// append is Dispatch for one queue.
func (q *Queue) append(at int64, u Unit) error {
	q.writer.Lock()
	defer q.writer.Unlock()
	if err := q.writable(at); err != nil {
		return err
	}
	end := q.max.Load()
	if q.maxPhy.Load() < 0 {
		if at != end {
			if err := q.begin(at); err != nil {
				return err
			}
		}
	} else if u.end() <= q.maxPhy.Load() || at < end {
		return q.mend(at, u)
	} else if at > end {
		return &GapError{Topic: q.topic, QueueID: q.id, Want: end, Got: at}
	} else if u.PhyOffset < q.maxPhy.Load() {
		return &mappedfile.CorruptError{Path: q.dir, Off: (end - 1) * UnitSize,
			Err: fmt.Errorf("the record of unit %d ends at %d, beyond the start of the next one at %d: rebuild this queue from the log: %w", end-1, q.maxPhy.Load(), u.PhyOffset, ErrMalformed)}
	}
	return q.put(at, u)
}

// put writes the unit that comes next.
func (q *Queue) put(at int64, u Unit) error {
	seq := q.seq.Load()
	dst, err := reserve(seq, at*UnitSize, UnitSize)
	if err != nil {
		return fmt.Errorf("%s unit %d: %w", q, at, err)
	}
	PutUnit(dst, u)
	seq.Publish((at + 1) * UnitSize)
	if q.maxPhy.Load() < 0 {
		q.min.Store(at)
	}
	q.lastPhy.Store(u.PhyOffset)
	q.maxPhy.Store(u.end())
	q.max.Store(at + 1)
	q.set.markDirty(q)
	return nil
}

// reserve gives n bytes at off, which must be the write position, in the next file if the current one is full. A new file
// is read and written here and there: without the advice the first touch of each would fill the page cache with a hundred
// kilobytes of nothing, times the number of queues.
func reserve(seq *mappedfile.Sequence, off int64, n int) ([]byte, error) {
	dst, got, err := seq.Reserve(n)
	if errors.Is(err, mappedfile.ErrEndOfFile) {
		if err = seq.Roll(); err == nil {
			dst, got, err = seq.Reserve(n)
		}
	}
	if err != nil {
		return nil, err
	}
	if got != off {
		return nil, fmt.Errorf("consumequeue: write position %d, want %d", got, off)
	}
	if size := seq.FileSize(); off%size == 0 {
		seq.Advise(mappedfile.AdviceRandom, off, off+size)
	}
	return dst, nil
}

// begin makes at the first queue offset of a queue without units: in the file that holds it, behind fillers. What an
// earlier attempt left there goes on or goes away. The caller holds writer.
func (q *Queue) begin(at int64) error {
	pos := at * UnitSize
	start := pos - pos%q.fileSize()
	files := q.seq.Load().Extents()
	usable := len(files) == 0 || len(files) == 1 && files[0].Start == start && q.max.Load() < at
	if !usable || q.writer.stale {
		if err := q.renew(); err != nil {
			return fmt.Errorf("%s: begin at unit %d: %w", q, at, err)
		}
		files = nil
	}
	seq := q.seq.Load()
	if len(files) == 0 && seq.Max() != start {
		if err := seq.Reset(start); err != nil {
			return fmt.Errorf("%s: begin at unit %d: %w", q, at, err)
		}
	}
	// Readers find nothing all the while: min is never below max.
	q.min.Store(at)
	q.max.Store(seq.Max() / UnitSize)
	for off := seq.Max(); off < pos; off = seq.Max() {
		n := min(pos-off, 200*UnitSize)
		dst, err := reserve(seq, off, int(n))
		if err != nil {
			return fmt.Errorf("%s: fill up to unit %d: %w", q, at, err)
		}
		for i := int64(0); i < n; i += UnitSize {
			PutUnit(dst[i:], filler)
		}
		seq.Publish(off + n)
		q.max.Store((off + n) / UnitSize)
		q.set.markDirty(q)
	}
	q.max.Store(at)
	return nil
}

// renew replaces the queue's files, which hold no unit, by none. Until it succeeded once, writer.stale keeps its mark. The
// caller holds writer.
func (q *Queue) renew() error {
	q.flushing.Lock()
	defer q.flushing.Unlock()
	q.max.Store(0)
	q.min.Store(0)
	if !q.writer.stale {
		q.writer.stale = true
		if err := q.seq.Load().Close(); err != nil {
			return err
		}
	}
	if err := q.set.removeDir(q.dir); err != nil {
		return err
	}
	seq, err := q.set.openSequence(q.dir, q.fileSize(), nil)
	if err != nil {
		return err
	}
	q.seq.Store(seq)
	q.named = 0
	q.writer.stale = false
	return nil
}

// extended reports whether have is what the original makes of u with an extension unit: the same but for the tags code, which is an address that holds it.
func (q *Queue) extended(have, u Unit) bool {
	if !have.IsExtAddress() || q.set.o.ExtDir == "" {
		return have.IsExtAddress()
	}
	x, err := q.Ext(have.TagsCode)
	return err == nil && x.TagsCode == u.TagsCode
}

// mend compares a record that was dispatched again with the unit in its place. The caller holds writer.
func (q *Queue) mend(at int64, u Unit) error {
	if at < q.min.Load() || at >= q.max.Load() {
		return nil // expired, or of an earlier life of the topic
	}
	have, err := q.read(at)
	if errors.Is(err, ErrNoUnit) {
		return nil
	}
	if err != nil {
		return err
	}
	if have == u {
		return nil
	}
	if have.Valid() || have.IsFiller() {
		if have.PhyOffset != u.PhyOffset {
			q.conflicts.Add(1)
			return nil
		}
		if have.Size == u.Size && q.extended(have, u) {
			return nil
		}
	}
	// A lost page or a torn unit. Only the record that fits behind the unit before may fill it.
	if at > q.min.Load() {
		before, err := q.read(at - 1)
		if err != nil || before.Valid() && before.end() > u.PhyOffset || !before.Valid() && !before.IsFiller() {
			q.conflicts.Add(1)
			return nil
		}
	}
	var b [UnitSize]byte
	PutUnit(b[:], u)
	if err := q.seq.Load().Overwrite(at*UnitSize, b[:]); err != nil {
		return fmt.Errorf("mend %s unit %d: %w", q, at, err)
	}
	return nil
}
