package remoting

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
)

// jsonHeader is the JSON header. serializeTypeCurrentRPC, which Java adds, says what the frame's type says already.
type jsonHeader struct {
	Code      looseInt            `json:"code"`
	Language  jsonLanguage        `json:"language"`
	Version   looseInt            `json:"version"`
	Opaque    looseInt            `json:"opaque"`
	Flag      looseInt            `json:"flag"`
	Remark    looseText           `json:"remark,omitempty"`
	ExtFields map[string]*jsonAny `json:"extFields,omitempty"`
}

// jsonAny is a header argument; a nil *jsonAny is Java's null and counts as absent.
type jsonAny = looseText

// looseInt is a Java int: a number, a quoted number, or null.
type looseInt int32

func (n *looseInt) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	text := string(b)
	if b[0] == '"' {
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
	}
	v, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return fmt.Errorf("%.40q is no 32-bit number", text)
	}
	*n = looseInt(v)
	return nil
}

// looseText is a Java String: text, or a scalar's own letters.
type looseText string

func (s *looseText) UnmarshalJSON(b []byte) error {
	switch b[0] {
	case '"':
		return json.Unmarshal(b, (*string)(s))
	case 'n':
	case '{', '[':
		return fmt.Errorf("%.40q where text is expected", b)
	default:
		*s = looseText(b)
	}
	return nil
}

// jsonLanguage is a name, or its number.
type jsonLanguage Language

func (l jsonLanguage) MarshalJSON() ([]byte, error) { return json.Marshal(Language(l).String()) }

func (l *jsonLanguage) UnmarshalJSON(b []byte) error {
	var text looseText
	if err := text.UnmarshalJSON(b); err != nil {
		return err
	}
	if text == "" {
		return nil // null: the original's default is Java
	}
	*l = jsonLanguage(languageByName(string(text)))
	if n, err := strconv.ParseUint(string(text), 10, 8); err == nil && int(n) < len(languageNames) {
		*l = jsonLanguage(n)
	}
	return nil
}

func (c *Command) appendJSON(dst []byte) ([]byte, error) {
	h := jsonHeader{
		Code: looseInt(c.Code), Language: jsonLanguage(c.Language), Version: looseInt(c.Version), Opaque: looseInt(c.Opaque), Flag: looseInt(c.Flag),
		Remark: looseText(c.Remark),
	}
	if len(c.ExtFields) > 0 {
		h.ExtFields = make(map[string]*jsonAny, len(c.ExtFields))
		for k, v := range c.ExtFields {
			h.ExtFields[k] = (*jsonAny)(&v)
		}
	}
	b, err := Marshal(h)
	return append(dst, b...), err
}

func (c *Command) decodeJSON(b []byte) error {
	var h jsonHeader
	if err := Unmarshal(b, &h); err != nil {
		return fmt.Errorf("%w: JSON header: %w", ErrMalformed, err)
	}
	c.Code, c.Language, c.Version, c.Opaque, c.Flag, c.Remark = int32(h.Code), Language(h.Language), int32(h.Version), int32(h.Opaque), int32(h.Flag), string(h.Remark)
	for k, v := range h.ExtFields {
		if v != nil {
			c.setExt(k, string(*v))
		}
	}
	return nil
}

func (c *Command) setExt(k, v string) {
	if c.ExtFields == nil {
		c.ExtFields = make(map[string]string)
	}
	c.ExtFields[k] = v
}

// The binary header (RocketMQ 4.9.8):
//
//	0      2          3         5        9      13           17
//	+------+----------+---------+--------+------+------------+--------+------------+------------------------------+
//	| code | language | version | opaque | flag | remark len | remark | ext length | key len 2, key, value len 4, value, … |
//	+------+----------+---------+--------+------+------------+--------+------------+------------------------------+
const (
	posCode      = 0
	posLanguage  = 2
	posVersion   = 3
	posOpaque    = 5
	posFlag      = 9
	posRemarkLen = 13
	posRemark    = 17
)

func (c *Command) appendBinary(dst []byte) ([]byte, error) {
	if c.Code != int32(int16(c.Code)) || c.Version != int32(int16(c.Version)) {
		return dst, fmt.Errorf("code %d, version %d: a binary header holds 16 bits of each", c.Code, c.Version)
	}
	be := binary.BigEndian
	b := be.AppendUint16(dst, uint16(c.Code))
	b = append(b, byte(c.Language))
	b = be.AppendUint16(b, uint16(c.Version))
	b = be.AppendUint32(b, uint32(c.Opaque))
	b = be.AppendUint32(b, uint32(c.Flag))
	b = be.AppendUint32(b, uint32(len(c.Remark)))
	b = append(b, c.Remark...)
	ext := len(b)
	b = be.AppendUint32(b, 0)
	for _, k := range slices.Sorted(maps.Keys(c.ExtFields)) {
		if len(k) > math.MaxInt16 {
			return dst, fmt.Errorf("argument name of %d bytes: a binary header holds %d", len(k), math.MaxInt16)
		}
		v := c.ExtFields[k]
		b = be.AppendUint16(b, uint16(len(k)))
		b = append(b, k...)
		b = be.AppendUint32(b, uint32(len(v)))
		b = append(b, v...)
	}
	if n := len(b) - ext - 4; n <= maxHeader { // else AppendFrame refuses the header as a whole
		be.PutUint32(b[ext:], uint32(n))
	}
	return b, nil
}

// decodeBinary ignores bytes after the arguments, as the original.
func (c *Command) decodeBinary(b []byte) error {
	if len(b) < posRemark {
		return fmt.Errorf("%w: binary header of %d bytes", ErrMalformed, len(b))
	}
	be := binary.BigEndian
	c.Code = int32(int16(be.Uint16(b[posCode:])))
	c.Language = Language(b[posLanguage])
	if int(c.Language) >= len(languageNames) {
		c.Language = Other
	}
	c.Version = int32(int16(be.Uint16(b[posVersion:])))
	c.Opaque = int32(be.Uint32(b[posOpaque:]))
	c.Flag = int32(be.Uint32(b[posFlag:]))
	remark, b, ok := cut(b[posRemarkLen:], 4)
	if !ok {
		return fmt.Errorf("%w: binary header: remark does not fit", ErrMalformed)
	}
	c.Remark = string(remark)
	ext, _, ok := cut(b, 4)
	if !ok {
		return fmt.Errorf("%w: binary header: arguments do not fit", ErrMalformed)
	}
	for len(ext) > 0 {
		var k, v []byte
		if k, ext, ok = cut(ext, 2); ok {
			v, ext, ok = cut(ext, 4)
		}
		if !ok {
			return fmt.Errorf("%w: binary header: an argument does not fit", ErrMalformed)
		}
		c.setExt(string(k), string(v))
	}
	return nil
}

// cut takes a field that a signed big-endian length of width bytes (2 or 4) precedes.
func cut(b []byte, width int) (field, rest []byte, ok bool) {
	if len(b) < width {
		return nil, nil, false
	}
	n := int(int16(binary.BigEndian.Uint16(b)))
	if width == 4 {
		n = int(int32(binary.BigEndian.Uint32(b)))
	}
	b = b[width:]
	if n < 0 || n > len(b) {
		return nil, nil, false
	}
	return b[:n], b[n:], true
}
