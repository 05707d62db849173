package consumequeue

import (
	"errors"
	"fmt"
)

var (
	// ErrNoUnit: the queue offset lies outside [MinOffset, MaxOffset), or its file expired meanwhile; or there is no such extension unit.
	ErrNoUnit = errors.New("consumequeue: no such unit")
	// ErrGap is what every *GapError is.
	ErrGap = errors.New("consumequeue: gap")
	// ErrName: a topic or queue id that cannot be a directory.
	ErrName = errors.New("consumequeue: not a queue name")
	// ErrMalformed: bytes that are not a unit, a record's place that no unit can hold, or a unit that points nowhere.
	ErrMalformed = errors.New("consumequeue: malformed unit")
)

// GapError refuses a record that does not come next in its queue: units before it are missing. The queue must be emptied
// (Set.ResetQueue) and its records dispatched again from the log. errors.Is(err, ErrGap).
type GapError struct {
	Topic     string
	QueueID   int32
	Want, Got int64 // queue offsets: the queue's end, and the record's
}

func (e *GapError) Error() string {
	return fmt.Sprintf("consumequeue: gap in %s-%d: queue ends at %d, record has queue offset %d; rebuild this queue from the log", e.Topic, e.QueueID, e.Want, e.Got)
}

// Is reports whether target is ErrGap.
func (e *GapError) Is(target error) bool { return target == ErrGap }

// NameError: a record of this topic and queue id has no directory that it could go to. errors.Is(err, ErrName).
type NameError struct {
	Topic   string
	QueueID int32
	Reason  string
}

func (e *NameError) Error() string {
	return fmt.Sprintf("consumequeue: topic %q queue %d: %s", e.Topic, e.QueueID, e.Reason)
}

// Is reports whether target is ErrName.
func (e *NameError) Is(target error) bool { return target == ErrName }

// SizeError: a queue file has a length that no queue file can have. errors.Is(err, ErrMalformed).
type SizeError struct {
	Path string
	Size int64
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("consumequeue: %s is %d bytes long, which is no positive multiple of %d: move its directory away and let the queue be rebuilt from the log", e.Path, e.Size, UnitSize)
}

// Is reports whether target is ErrMalformed.
func (e *SizeError) Is(target error) bool { return target == ErrMalformed }

// Stray is something in the directory that is not a queue, or a queue that was left out because Options.Tolerant is set.
type Stray struct {
	Path    string
	Topic   string // of a queue that was left out
	QueueID int32
	Err     error // why it was left out; nil = it is no queue directory or segment
}
