package consumequeue

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
)

// Queue is one queue of one topic: units for the queue offsets [MinOffset, MaxOffset), in a sequence of files.
type Queue struct {
	set     *Set
	topic   string
	id      int32
	dir     string
	perFile int64 // units
	sized   bool  // its files, when the set was opened, had this size

	// seq is replaced when an empty queue has to begin in another file; never nil.
	seq atomic.Pointer[mappedfile.Sequence]

	// Bounds in queue offsets. Readers hold max as their fence: it is stored after the units are published.
	min, max atomic.Int64
	// Place and end of the last unit's record; -1 while no unit is held (fillers are none). Then the queue may begin anywhere.
	lastPhy, maxPhy atomic.Int64
	conflicts       atomic.Int64
	dirty           atomic.Bool // in Set.dirty, or being flushed now

	// writer serialises those who change the queue, their system calls included: this is its purpose. Readers never take it.
	writer struct {
		sync.Mutex
		clean bool // nothing but zeros behind the end
		stale bool // seq is closed and its files are being removed, see renew
		gone  error
	}
	flushing sync.Mutex // held across a flush, and by those who take files away
	named    int64      // under flushing: so many of the files that seq made have durable names, up to the root
	badName  error      // under flushing: the sync of dir failed, which is final
	ext      extension
}

// Topic is the topic's name, which is also its directory's.
func (q *Queue) Topic() string { return q.topic }

// ID is the queue's number within its topic.
func (q *Queue) ID() int32 { return q.id }

// Dir is the directory of the queue's files.
func (q *Queue) Dir() string { return q.dir }

// MinOffset is the first queue offset that has a record, as far as CorrectMin was told; MaxOffset if none has.
func (q *Queue) MinOffset() int64 { return min(q.min.Load(), q.max.Load()) }

// MaxOffset is the queue offset that comes next: one past the last unit; 0 for a queue without files.
func (q *Queue) MaxOffset() int64 { return q.max.Load() }

// MaxPhyOffset is where the record of the last unit ends in the log; -1 if no unit is held.
func (q *Queue) MaxPhyOffset() int64 { return q.maxPhy.Load() }

// UnitsPerFile is how many units one file of this queue holds.
func (q *Queue) UnitsPerFile() int64 { return q.perFile }

// Files lists the queue's files, oldest first; their Start and End are byte offsets in the queue's stream.
func (q *Queue) Files() []mappedfile.FileInfo { return q.seq.Load().Files() }

// Conflicts counts records that were dispatched since Open although another record's unit holds their queue offset: a
// topic that was deleted and made again, or offsets that were used twice. The first unit stays, as in the original.
func (q *Queue) Conflicts() int64 { return q.conflicts.Load() }

func (q *Queue) fileSize() int64 { return q.perFile * UnitSize }

func (q *Queue) String() string { return fmt.Sprintf("%s-%d", q.topic, q.id) }

// Unit reads one unit. ErrNoUnit outside [MinOffset, MaxOffset); a *mappedfile.CorruptError if the place holds neither a
// valid unit nor a filler.
func (q *Queue) Unit(queueOffset int64) (Unit, error) {
	if queueOffset < q.min.Load() || queueOffset >= q.max.Load() {
		return Unit{}, q.noUnit(queueOffset)
	}
	u, err := q.read(queueOffset)
	if err != nil {
		return Unit{}, err
	}
	if !u.Valid() && !u.IsFiller() {
		return Unit{}, q.corrupt(queueOffset)
	}
	return u, nil
}

// read gives the unit at queueOffset, whatever the bounds and the unit say.
func (q *Queue) read(queueOffset int64) (Unit, error) {
	v, err := q.seq.Load().View(queueOffset*UnitSize, UnitSize)
	if err != nil {
		return Unit{}, q.readError(queueOffset, err)
	}
	u := unitAt(v.Bytes)
	v.Release()
	return u, nil
}

func (q *Queue) noUnit(queueOffset int64) error {
	return fmt.Errorf("%s unit %d, held [%d, %d): %w", q, queueOffset, q.MinOffset(), q.MaxOffset(), ErrNoUnit)
}

func (q *Queue) corrupt(queueOffset int64) error {
	return &mappedfile.CorruptError{Path: q.dir, Off: queueOffset * UnitSize, Err: ErrMalformed}
}

// readError: a file that is gone has expired since the bounds were read.
func (q *Queue) readError(queueOffset int64, err error) error {
	if errors.Is(err, mappedfile.ErrNotFound) {
		return q.noUnit(queueOffset)
	}
	return fmt.Errorf("read %s unit %d: %w", q, queueOffset, err)
}

// View gives the units from queueOffset to the readable end of that queue file (spec/dispatch-and-read.md 5.3). ErrNoUnit
// outside [MinOffset, MaxOffset). The caller releases the view; until then it stays valid whatever becomes of the queue.
func (q *Queue) View(queueOffset int64) (Units, error) {
	end := q.max.Load()
	if queueOffset < q.min.Load() || queueOffset >= end {
		return Units{}, q.noUnit(queueOffset)
	}
	v, err := q.seq.Load().ViewRest(queueOffset * UnitSize)
	if err != nil {
		return Units{}, q.readError(queueOffset, err)
	}
	// The file may hold one more unit already, which MaxOffset does not count yet: who was shown it, and went on behind it, would be told that it is beyond the end.
	if n := (end - queueOffset) * UnitSize; n < int64(len(v.Bytes)) {
		v.Bytes = v.Bytes[:n:n]
	}
	return Units{First: queueOffset, view: v}, nil
}

// Units is a run of units of one file and a hold on it, until Release. Units are as they are on disk: check Valid.
type Units struct {
	First int64 // queue offset of At(0)
	view  mappedfile.View
}

// Len is the number of units.
func (u Units) Len() int { return len(u.view.Bytes) / UnitSize }

// At is the unit of queue offset First+i; i in [0, Len).
func (u Units) At(i int) Unit { return unitAt(u.view.Bytes[i*UnitSize:]) }

// Release gives up the hold; the units must not be read any more.
func (u Units) Release() { u.view.Release() }
