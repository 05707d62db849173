package commitlog

import (
	"errors"
	"fmt"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
)

// Sentinels, found with errors.Is.
var (
	ErrNotYet     = errors.New("commitlog: nothing whole here yet")
	ErrNotARecord = errors.New("commitlog: not the start of a record")
	ErrTooBig     = errors.New("commitlog: record does not fit into a segment")
	ErrZeroByte   = errors.New("commitlog: zero byte in topic or properties")
	ErrClosed     = errors.New("commitlog: closed")
	ErrReadOnly   = errors.New("commitlog: read-only")

	// ErrPartialTail refuses an Append to a log whose last bytes (a slave's) are not a whole record: truncate to WholePhyOffset first.
	ErrPartialTail = errors.New("commitlog: log ends inside a record")
	// ErrAnnounced is the Tail.Reason of a log that ends where Recovery.CutTo, or a truncation that was interrupted, gave up what lies behind.
	ErrAnnounced = errors.New("it was being truncated")
	// ErrTruncated is the answer to who waited for the flush of bytes that TruncateTo cut.
	ErrTruncated = errors.New("commitlog: truncated")
)

// DamageError is damage of data that was durable, with whole records behind it. errors.Is(err, mappedfile.ErrCorrupt).
//
// The law (architecture 3, Damage), applied to the place at which the scan found no whole record:
//
//   - nothing whole lies behind it: a torn tail, cut;
//   - whole records lie behind it, the last exit was not clean, and the first of them starts at or beyond Recovery.FlushedTo
//     (or, if that is unknown, was stored after Recovery.DurableTime): an unsynced tail whose pages came out in any order, cut;
//   - otherwise it is a DamageError, unless Options.OnDamage is DamageCut.
//
// Whole records behind that were stored before the last record in front of the damage are no evidence of damage: they are left over
// from before a truncation by the original, which does not erase what it cuts.
type DamageError struct {
	mappedfile.CorruptError
	RecordsBehind int64
	NextWhole     int64 // phyOffset of the first whole record behind the damage
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("%s at offset %d: %v; behind it lie %d whole records that were durable, the first at %d; nothing was changed: "+
		"restore the files from a copy; or look at all that is readable (mqstore dump) and copy it into a new store, around the damage (mqstore salvage); "+
		"or give up everything from %d on, which keeps it in quarantine/ (mqstore truncate --to %d; a program opens with OnDamage: DamageCut); mqstore recover mends the rest of the store only once the log is whole",
		e.Path, e.Off, e.Err, e.RecordsBehind, e.NextWhole, e.Off, e.Off)
}

// OffsetMismatchError refuses bytes of a master that do not continue this log.
type OffsetMismatchError struct {
	Want int64 // where the log ends; for an empty log, the start of the segment that would contain Got
	Got  int64 // where the bytes claim to lie
}

func (e *OffsetMismatchError) Error() string {
	return fmt.Sprintf("commitlog: bytes of physical offset %d do not continue a log that expects %d", e.Got, e.Want)
}

// SegmentSizeError refuses to open segments of another size than the options ask for.
type SegmentSizeError struct {
	Dir        string
	Want, Have int64 // bytes
}

func (e *SegmentSizeError) Error() string {
	return fmt.Sprintf("commitlog: segments in %s are %d bytes long, not %d: set the segment size (mappedFileSizeCommitLog) to %d, or to 0 to take what is there",
		e.Dir, e.Have, e.Want, e.Have)
}
