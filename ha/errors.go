package ha

import (
	"errors"
	"fmt"
	"time"
)

// What ends a connection or refuses a peer. Test with errors.Is.
var (
	ErrClosed             = errors.New("ha: closed")
	ErrMalformed          = errors.New("ha: malformed bytes from the peer")
	ErrChecksum           = errors.New("ha: checksum mismatch") // also an ErrMalformed
	ErrSilent             = errors.New("ha: the peer is silent")
	ErrSlow               = errors.New("ha: the peer does not take what is sent")
	ErrEOF                = errors.New("ha: the peer closed the connection")
	ErrTooManyConnections = errors.New("ha: too many connections")
	ErrOpenToWorld        = errors.New("ha: listening without authentication on an address that is not loopback")
	ErrQueuesUnknown      = errors.New("ha: it is not known where queues go on of which no message is left: as a master this slave would number them from 0, until each had a message, or it is seeded with a copy of the master's consumequeue directory")
	ErrMidRecord          = errors.New("ha: the slave's log ends inside a record")

	// Reasons of a PositionError.
	ErrNegativeOffset  = errors.New("ha: negative offset")
	ErrAckBeyondSent   = errors.New("ha: acknowledgement beyond what was sent")
	ErrSlaveAhead      = errors.New("ha: the slave is ahead of the master")
	ErrDeletedOnMaster = errors.New("ha: what the slave needs next is deleted on the master")
	ErrDiverged        = errors.New("ha: the slave's log is not the master's")

	// Refusals of the extended handshake, beside the positions.
	ErrToken   = errors.New("ha: the shared tokens differ")
	ErrVersion = errors.New("ha: no common version of the extended protocol")
	ErrStoreID = errors.New("ha: master and slave are of different stores")
)

// wayOut is what to do about a slave whose log is not its master's.
const wayOut = "stop the slave, move its directory aside, and start it with an empty one, to resync, or with a copy of the master's"

// PositionError is a slave's position, or acknowledgement, that its master cannot serve or believe.
type PositionError struct {
	Reason    error // one of the sentinels above
	PhyOffset int64 // reported by the slave; for ErrDiverged where the record begins that differs
	Min, Max  int64 // what the master holds; for ErrAckBeyondSent Max is the end of what was sent
}

func (e *PositionError) Error() string {
	s := fmt.Sprintf("slave at physical offset %d, master holds [%d, %d): %v", e.PhyOffset, e.Min, e.Max, e.Reason)
	switch {
	case errors.Is(e.Reason, ErrSlaveAhead):
		return s + fmt.Sprintf("; if the master is right, what the slave has from %d on is not its: stop the slave, cut that (mqstore truncate --to %[1]d, which keeps it in quarantine/), and start it; or ", e.Max) + wayOut
	case errors.Is(e.Reason, ErrDeletedOnMaster):
		return s + "; " + wayOut
	case errors.Is(e.Reason, ErrDiverged):
		return s + fmt.Sprintf("; if the master is right, the slave's log is wrong from %d on, or before that (mqstore diff finds where): stop the slave, cut it there (mqstore truncate --to %[1]d, which keeps what it cuts in quarantine/), and start it; or ", e.PhyOffset) + wayOut
	}
	return s
}

// Unwrap returns the reason.
func (e *PositionError) Unwrap() error { return e.Reason }

// OffsetMismatchError is a frame that does not continue the slave's log.
type OffsetMismatchError struct {
	Want int64 // the slave's log end
	Got  int64 // the frame's offset
}

func (e *OffsetMismatchError) Error() string {
	return fmt.Sprintf("frame at physical offset %d does not continue the slave's log, which ends at %d; if it stays so, the logs are not of one store: %s", e.Got, e.Want, wayOut)
}

// FrameSizeError is a frame whose length is not in 0..Max. It is an ErrMalformed.
type FrameSizeError struct{ Size, Max int64 }

func (e *FrameSizeError) Error() string {
	return fmt.Sprintf("frame length %d is not in 0..%d", e.Size, e.Max)
}

// Is makes it an ErrMalformed.
func (e *FrameSizeError) Is(target error) bool { return target == ErrMalformed }

// AppendError is a Target that did not take the bytes.
type AppendError struct {
	PhyOffset int64
	Size      int
	Err       error
}

func (e *AppendError) Error() string {
	return fmt.Sprintf("append %d bytes of the master at physical offset %d: %v", e.Size, e.PhyOffset, e.Err)
}

// Unwrap returns the Target's error.
func (e *AppendError) Unwrap() error { return e.Err }

func silentFor(d time.Duration) error { return fmt.Errorf("nothing read for %v: %w", d, ErrSilent) }
