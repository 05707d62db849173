package remoting

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const (
	posLength       = 0 // of everything after this field
	posHeaderLength = 4 // high byte: Serialization
	posHeader       = 8

	maxHeader = 1<<24 - 1 // H has three bytes

	// DefaultMaxFrame is the original's limit on a whole frame, its length field included.
	DefaultMaxFrame = 16 << 20

	firstRead = 64 << 10 // a larger frame's memory grows as its bytes arrive
)

// AppendFrame appends c as a frame to dst. A frame above maxFrame bytes (0 = DefaultMaxFrame) is ErrTooLarge;
// a value that its header form cannot carry is an error too; dst is then returned as it was.
func (c *Command) AppendFrame(dst []byte, maxFrame int) ([]byte, error) {
	if maxFrame <= 0 {
		maxFrame = DefaultMaxFrame
	}
	start := len(dst)
	b := append(dst, make([]byte, posHeader)...)
	var err error
	switch c.Serialization {
	case JSON:
		b, err = c.appendJSON(b)
	case Binary:
		b, err = c.appendBinary(b)
	default:
		err = fmt.Errorf("header type %d is neither JSON nor binary", c.Serialization)
	}
	if err != nil {
		return dst, fmt.Errorf("encode command %d: %w", c.Code, err)
	}
	header := len(b) - start - posHeader
	size := len(b) - start + len(c.Body)
	if size > maxFrame || header > maxHeader {
		return dst, fmt.Errorf("encode command %d: %w: %d bytes with a header of %d, the limit is %d", c.Code, ErrTooLarge, size, header, maxFrame)
	}
	b = append(b, c.Body...)
	binary.BigEndian.PutUint32(b[start+posLength:], uint32(size-4))
	binary.BigEndian.PutUint32(b[start+posHeaderLength:], uint32(header)|uint32(c.Serialization)<<24)
	return b, nil
}

// prefix is the checked first eight bytes of a frame.
type prefix struct {
	typ    Serialization
	header int // bytes
	rest   int // bytes of header and body
}

func decodePrefix(b []byte, maxFrame int) (prefix, error) {
	if maxFrame <= 0 {
		maxFrame = DefaultMaxFrame
	}
	length := binary.BigEndian.Uint32(b[posLength:])
	h := binary.BigEndian.Uint32(b[posHeaderLength:])
	p := prefix{typ: Serialization(h >> 24), header: int(h & maxHeader)}
	switch {
	case length < 4:
		return prefix{}, fmt.Errorf("%w: length %d, at least 4 expected", ErrMalformed, int32(length))
	case int64(length)+4 > int64(maxFrame):
		return prefix{}, fmt.Errorf("%w: %d bytes, the limit is %d", ErrTooLarge, int64(length)+4, maxFrame)
	case p.header > int(length)-4:
		return prefix{}, fmt.Errorf("%w: header of %d bytes in %d", ErrMalformed, p.header, length-4)
	case p.typ != JSON && p.typ != Binary:
		return prefix{}, fmt.Errorf("%w: header type %d is neither JSON (0) nor binary (1)", ErrMalformed, p.typ)
	}
	p.rest = int(length) - 4
	return p, nil
}

// decode takes ownership of rest: the body stays a part of it.
func (p prefix) decode(rest []byte) (*Command, error) {
	c := &Command{Serialization: p.typ}
	var err error
	if p.typ == JSON {
		err = c.decodeJSON(rest[:p.header])
	} else {
		err = c.decodeBinary(rest[:p.header])
	}
	if err != nil {
		return nil, err
	}
	if p.header < len(rest) {
		c.Body = rest[p.header:]
	}
	return c, nil
}

// Decode decodes one whole frame, its length field included. The command's Body is a view into frame.
// What is not a frame of at most maxFrame bytes (0 = DefaultMaxFrame) is ErrMalformed or ErrTooLarge.
func Decode(frame []byte, maxFrame int) (*Command, error) {
	if len(frame) < posHeader {
		return nil, fmt.Errorf("%w: %d bytes, a frame has at least %d", ErrMalformed, len(frame), posHeader)
	}
	p, err := decodePrefix(frame, maxFrame)
	if err != nil {
		return nil, err
	}
	if p.rest != len(frame)-posHeader {
		return nil, fmt.Errorf("%w: %d bytes, its length says %d", ErrMalformed, len(frame), p.rest+posHeader)
	}
	return p.decode(frame[posHeader:])
}

// ReadCommand reads one frame of at most maxFrame bytes (0 = DefaultMaxFrame) from r; the command owns its bytes.
// The end of r before a frame is io.EOF, within one io.ErrUnexpectedEOF. After any error r is at no known place: close it.
func ReadCommand(r io.Reader, maxFrame int) (*Command, error) {
	var b [posHeader]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return nil, err
	}
	p, err := decodePrefix(b[:], maxFrame)
	if err != nil {
		return nil, err
	}
	rest, err := readGrowing(r, p.rest)
	if err != nil {
		return nil, err
	}
	return p.decode(rest)
}

// readGrowing reads n bytes. It never holds more than about three times what has arrived: a length alone costs nothing.
func readGrowing(r io.Reader, n int) ([]byte, error) {
	b := make([]byte, min(n, firstRead))
	for got := 0; ; {
		m, err := io.ReadFull(r, b[got:])
		got += m
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
		if got == n {
			return b, nil
		}
		b = append(b, make([]byte, min(n-got, got))...)
	}
}
