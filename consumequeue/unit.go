package consumequeue

import (
	"encoding/binary"
	"fmt"
	"math"
)

// UnitSize is the length of a unit on disk.
const UnitSize = 20

// Positions of a unit's fields (spec/consumequeue-format.md 2.1).
const (
	posPhyOffset = 0
	posSize      = 8
	posTagsCode  = 12
)

const (
	fillerSize    = math.MaxInt32
	maxExtAddress = math.MinInt32 - 1 // an ordinary tags code is a sign-extended int32 and so lies above
)

// Unit is one entry of a consume queue: where a record lies and what a filter may know of it without reading it.
type Unit struct {
	PhyOffset int64
	Size      int32 // of the record, bytes
	TagsCode  int64 // tags hash; or deliver time in ms (delay queues); or an extension address, see IsExtAddress
}

// filler fills a file up to the first queue offset when a queue does not begin at a file's start.
var filler = Unit{Size: fillerSize}

// IsFiller reports whether u is {0, 0x7FFFFFFF, 0}: place held, no record.
func (u Unit) IsFiller() bool { return u == filler }

// Valid reports whether u can point at a record: offset >= 0, size > 0, the end representable, not a filler.
func (u Unit) Valid() bool {
	return u.PhyOffset >= 0 && u.Size > 0 && u.PhyOffset <= math.MaxInt64-int64(u.Size) && !u.IsFiller()
}

// IsExtAddress reports whether TagsCode is the address of an extension unit (consumequeue_ext, spec 2.6).
func (u Unit) IsExtAddress() bool { return u.TagsCode <= maxExtAddress }

// end is where u's record ends. Only for valid units.
func (u Unit) end() int64 { return u.PhyOffset + int64(u.Size) }

// PutUnit writes u into the first UnitSize bytes of b, which must have them.
func PutUnit(b []byte, u Unit) {
	_ = b[UnitSize-1]
	binary.BigEndian.PutUint64(b[posPhyOffset:], uint64(u.PhyOffset))
	binary.BigEndian.PutUint32(b[posSize:], uint32(u.Size))
	binary.BigEndian.PutUint64(b[posTagsCode:], uint64(u.TagsCode))
}

// ParseUnit reads the unit at the start of b, which may be longer; ErrMalformed if b is shorter. Whether the unit can
// point at a record is another question: Valid.
func ParseUnit(b []byte) (Unit, error) {
	if len(b) < UnitSize {
		return Unit{}, fmt.Errorf("%d bytes for a unit of %d: %w", len(b), UnitSize, ErrMalformed)
	}
	return unitAt(b), nil
}

// unitAt is ParseUnit for bytes whose length is known.
func unitAt(b []byte) Unit {
	_ = b[UnitSize-1]
	return Unit{
		PhyOffset: int64(binary.BigEndian.Uint64(b[posPhyOffset:])),
		Size:      int32(binary.BigEndian.Uint32(b[posSize:])),
		TagsCode:  int64(binary.BigEndian.Uint64(b[posTagsCode:])),
	}
}
