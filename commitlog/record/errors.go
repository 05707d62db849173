package record

import (
	"errors"
	"fmt"
)

// The ways in which bytes are not a record (Parser.Parse, Decode). All but ErrIncomplete are also ErrMalformed.
var (
	ErrIncomplete = errors.New("record: ends beyond the bytes at hand")
	ErrMalformed  = errors.New("record: malformed")
	ErrMagic      = errors.New("record: no magic code of a record")
	ErrSize       = errors.New("record: sizes do not add up")
	ErrCRC        = errors.New("record: wrong CRC")
	ErrPhyOffset  = errors.New("record: belongs to another physical offset")
)

// The limits of a record that is to be written (Message.Check, AppendRecord). The error that wraps one of them says the value and the limit.
var (
	ErrTopicEmpty        = errors.New("record: topic is empty")
	ErrTopicTooLong      = errors.New("record: topic is too long")
	ErrPropertiesTooLong = errors.New("record: properties are too long")
	ErrBodyTooLong       = errors.New("record: body is too long")
	ErrRecordTooLong     = errors.New("record: whole record is too long")
	ErrHost              = errors.New("record: host cannot be stored")
	ErrVersion           = errors.New("record: version cannot be written")
)

// What else is refused.
var (
	ErrBatch     = errors.New("record: malformed batch body")            // SplitBatch
	ErrBody      = errors.New("record: body cannot be coded or decoded") // CompressBody, DecompressBody, Message.DecodedBody
	ErrMessageID = errors.New("record: not an offset message id")        // ParseOffsetMessageID
	ErrDelay     = errors.New("record: malformed delay table")           // ParseDelayTable
)

// FormatError says which field of a record is wrong and how. errors.Is finds its kind (ErrMagic, ErrSize, ErrCRC, ErrPhyOffset) and ErrMalformed.
type FormatError struct {
	Kind  error  // ErrMagic, ErrSize, ErrCRC or ErrPhyOffset
	Field string // "total size", "body length" ...
	Value int64  // what the record says
	Want  int64  // what it had to be: the exact value, or for lengths the nearest one that fits
}

// formatError does not render anything: a scan over damaged bytes fails at every position.
func formatError(kind error, field string, value, want int64) error {
	return &FormatError{kind, field, value, want}
}

func (e *FormatError) Error() string {
	if e.Kind == ErrMagic || e.Kind == ErrCRC {
		return fmt.Sprintf("%v: %s is 0x%08X, want 0x%08X", e.Kind, e.Field, uint32(e.Value), uint32(e.Want))
	}
	return fmt.Sprintf("%v: %s is %d, want %d", e.Kind, e.Field, e.Value, e.Want)
}

func (e *FormatError) Is(target error) bool { return target == e.Kind || target == ErrMalformed }
