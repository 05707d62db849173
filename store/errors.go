package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/mqstore/mqstore/commitlog"
	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/consumequeue"
	"github.com/mqstore/mqstore/store/internal/recovery"
)

// Sentinels, for errors.Is. What wraps one says what was tried on what, and what to do. StatusName gives the broker's name of a refused put.
var (
	// ErrMessageIllegal: the message breaks a limit (topic, body, whole record) or cannot be stored as it is.
	ErrMessageIllegal = errors.New("store: message illegal")
	// ErrPropertiesTooLarge: the properties string is longer than 32,767 bytes.
	ErrPropertiesTooLarge = errors.New("store: properties too large")
	// ErrServiceNotAvailable: the store takes no puts now: closed, a slave, or not writable after a failure; the error says which.
	ErrServiceNotAvailable = errors.New("store: service not available")
	// ErrOSPageCacheBusy: an append holds the log's lock for longer than Options.PutBusyAfter: back off and try again.
	ErrOSPageCacheBusy = errors.New("store: os page cache busy")
	// ErrDiskFull: no room for the next file. Nothing was stored; reads go on, and puts succeed again once there is room.
	ErrDiskFull = errors.New("store: disk full")
	// ErrFlushFailed: a sync of the log or of a queue failed. It is final until the store is opened again: the kernel may have dropped the pages.
	ErrFlushFailed = errors.New("store: flush failed")
	// ErrNotFound: nothing at this offset.
	ErrNotFound = errors.New("store: not found")
	// ErrNotARecord: the physical offset lies inside a record or in an end-of-file blank.
	ErrNotARecord = errors.New("store: not the start of a record")
	// ErrNoIndex: the store has no index to query.
	ErrNoIndex = errors.New("store: no index")
	// ErrCorrupt: damage. *CorruptError has the place.
	ErrCorrupt = errors.New("store: corrupt")
	// ErrLocked: another process, or another open store of this one, holds the directory.
	ErrLocked = errors.New("store: locked")
	// ErrClosed: the store is closed.
	ErrClosed = errors.New("store: closed")
	// ErrUnsupported: a kind of message or directory that this version does not write.
	ErrUnsupported = errors.New("store: not supported")
	// ErrNotAStore: the directory is not a store, or not the directory that Open wants.
	ErrNotAStore = errors.New("store: not a store directory")
	// ErrReadOnly: a write to a store that was opened read-only.
	ErrReadOnly = errors.New("store: read-only")
	// ErrDiverged: this slave's log does not continue its master's: it is ahead, behind what the master still has, or holds other bytes. The error says where, and the way out; nothing is appended meanwhile.
	ErrDiverged = errors.New("store: the slave's log is not the master's")
	// ErrOffsetMismatch: raw bytes that do not start where the log ends. *OffsetMismatchError has both offsets.
	ErrOffsetMismatch = errors.New("store: offset mismatch")
)

// CorruptError is damage with a place. errors.Is(err, ErrCorrupt).
type CorruptError struct {
	Path          string // the file
	Offset        int64  // physical offset in the log, or byte offset in a queue's stream
	RecordsBehind int64  // whole records behind the damage that opening would have to give up; 0 if not counted
	Err           error
}

func (e *CorruptError) Error() string {
	s := fmt.Sprintf("store: corrupt: %s at offset %d", e.Path, e.Offset)
	if d := (*commitlog.DamageError)(nil); errors.As(e.Err, &d) { // which says all of this, and what to do
		return "store: corrupt: " + d.Error()
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }
func (e *CorruptError) Unwrap() error        { return e.Err }

// OffsetMismatchError: raw bytes for the offset Got were offered to a log that ends at Want. errors.Is(err, ErrOffsetMismatch).
type OffsetMismatchError struct{ Want, Got int64 }

func (e *OffsetMismatchError) Error() string {
	return fmt.Sprintf("store: offset mismatch: the log ends at %d, the bytes start at %d", e.Want, e.Got)
}

func (e *OffsetMismatchError) Is(target error) bool { return target == ErrOffsetMismatch }

// StatusName is RocketMQ 4.9.8's PutMessageStatus of a put that returned err (spec/dispatch-and-read.md 5.5); PUT_OK for nil.
func StatusName(err error) string {
	switch {
	case err == nil:
		return PutOK.String()
	case errors.Is(err, ErrDiskFull):
		return "CREATE_MAPEDFILE_FAILED"
	case errors.Is(err, ErrServiceNotAvailable), errors.Is(err, ErrClosed), errors.Is(err, ErrReadOnly):
		return "SERVICE_NOT_AVAILABLE"
	case errors.Is(err, ErrOSPageCacheBusy):
		return "OS_PAGECACHE_BUSY"
	case errors.Is(err, ErrPropertiesTooLarge):
		return "PROPERTIES_SIZE_EXCEEDED"
	case errors.Is(err, ErrMessageIllegal), errors.Is(err, ErrUnsupported):
		return "MESSAGE_ILLEGAL"
	case errors.Is(err, ErrFlushFailed):
		return FlushDiskTimeout.String()
	}
	return "UNKNOWN_ERROR"
}

// said is an error whose own text has everything that the texts of what it wraps would say again.
type said struct {
	text  string
	wraps []error
}

func (e *said) Error() string   { return e.text }
func (e *said) Unwrap() []error { return e.wraps }

// refused turns what the log says about an append into the store's sentinel.
func refused(err error) error {
	var mismatch *commitlog.OffsetMismatchError
	switch {
	case errors.As(err, &mismatch):
		return &OffsetMismatchError{Want: mismatch.Want, Got: mismatch.Got}
	case errors.Is(err, mappedfile.ErrDiskFull):
		return fmt.Errorf("%w: %w", ErrDiskFull, err)
	case errors.Is(err, record.ErrPropertiesTooLong):
		return fmt.Errorf("%w: %w", ErrPropertiesTooLarge, err)
	case errors.Is(err, record.ErrTopicEmpty), errors.Is(err, record.ErrTopicTooLong), errors.Is(err, record.ErrBodyTooLong), errors.Is(err, record.ErrRecordTooLong),
		errors.Is(err, record.ErrHost), errors.Is(err, record.ErrVersion), errors.Is(err, record.ErrBatch), errors.Is(err, record.ErrBody), errors.Is(err, commitlog.ErrTooBig), errors.Is(err, commitlog.ErrZeroByte):
		return fmt.Errorf("%w: %w", ErrMessageIllegal, err)
	case errors.Is(err, commitlog.ErrPartialTail):
		return fmt.Errorf("%w: %w", ErrServiceNotAvailable, err)
	}
	return fromBelow(err)
}

// fromBelow gives errors of the packages below the store's sentinels.
func fromBelow(err error) error {
	var damage *commitlog.DamageError
	var corrupt *mappedfile.CorruptError
	var locked *mappedfile.LockedError
	var size *commitlog.SegmentSizeError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrCorrupt), errors.Is(err, ErrClosed), errors.Is(err, ErrNotFound), errors.Is(err, ErrDiskFull), errors.Is(err, ErrLocked):
		return err
	case errors.As(err, &damage):
		return &CorruptError{Path: damage.Path, Offset: damage.Off, RecordsBehind: damage.RecordsBehind, Err: err}
	case errors.As(err, &corrupt):
		return &CorruptError{Path: corrupt.Path, Offset: corrupt.Off, Err: corrupt.Err}
	case errors.As(err, &locked):
		holder, end := "another process", "stop it first"
		switch {
		case locked.PID == os.Getpid():
			holder, end = fmt.Sprintf("process %d, which is this one,", locked.PID), "use the store that is open, or close it first"
		case locked.PID > 0:
			holder = fmt.Sprintf("process %d", locked.PID)
		}
		return &said{fmt.Sprintf("%v: %s holds %s: %s, or look at the store with OpenReadOnly", ErrLocked, holder, locked.Path, end), []error{ErrLocked, err}}
	case errors.As(err, &size):
		return &said{fmt.Sprintf("the files in %s are %d bytes long, not %d: leave Options.SegmentSize at 0 to take the size of the files", size.Dir, size.Have, size.Want), []error{err}}
	case errors.Is(err, mappedfile.ErrDiskFull):
		return fmt.Errorf("%w: %w", ErrDiskFull, err)
	case errors.Is(err, recovery.ErrNoLog):
		return fmt.Errorf("%w: %w", ErrNotAStore, err)
	case errors.Is(err, commitlog.ErrNotYet):
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	case errors.Is(err, commitlog.ErrNotARecord):
		return fmt.Errorf("%w: %w", ErrNotARecord, err)
	case errors.Is(err, commitlog.ErrClosed), errors.Is(err, mappedfile.ErrClosed):
		return fmt.Errorf("%w: %w", ErrClosed, err)
	case errors.Is(err, mappedfile.ErrNotFound), errors.Is(err, consumequeue.ErrNoUnit):
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	case errors.Is(err, commitlog.ErrReadOnly), errors.Is(err, mappedfile.ErrReadOnly):
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w (run as the user that owns the store's files, or give this one read and write permission)", err)
	}
	return err
}
