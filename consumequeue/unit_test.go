package consumequeue

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"testing"
)

func TestAUnitIsTwentyBigEndianBytes(t *testing.T) {
	for _, c := range []struct {
		u                  Unit
		b                  string
		valid, filler, ext bool
	}{
		{Unit{0x0102030405060708, 0x0A0B0C0D, 0x1112131415161718}, "\x01\x02\x03\x04\x05\x06\x07\x08\x0a\x0b\x0c\x0d\x11\x12\x13\x14\x15\x16\x17\x18", true, false, false},
		{Unit{0, math.MaxInt32, 0}, "\x00\x00\x00\x00\x00\x00\x00\x00\x7f\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00", false, true, false},
		{Unit{}, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", false, false, false},
		{Unit{0, 1, math.MinInt32}, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\xff\xff\xff\xff\x80\x00\x00\x00", true, false, false},
		{Unit{0, 1, math.MinInt32 - 1}, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\xff\xff\xff\xff\x7f\xff\xff\xff", true, false, true},
		{Unit{5, -1, math.MinInt64}, "\x00\x00\x00\x00\x00\x00\x00\x05\xff\xff\xff\xff\x80\x00\x00\x00\x00\x00\x00\x00", false, false, true},
		{Unit{-1, 1, 0}, "\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00", false, false, false},
		{Unit{math.MaxInt64, 1, 0}, "\x7f\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00", false, false, false},
		{Unit{0, math.MaxInt32, 1}, "\x00\x00\x00\x00\x00\x00\x00\x00\x7f\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x01", true, false, false},
	} {
		b := make([]byte, UnitSize)
		PutUnit(b, c.u)
		if string(b) != c.b {
			t.Errorf("%+v: % x, want % x", c.u, b, c.b)
		}
		if got, err := ParseUnit(b); got != c.u || err != nil {
			t.Errorf("%+v came back as %+v, %v", c.u, got, err)
		}
		if c.u.Valid() != c.valid || c.u.IsFiller() != c.filler || c.u.IsExtAddress() != c.ext {
			t.Errorf("%+v: valid %v, filler %v, ext %v", c.u, c.u.Valid(), c.u.IsFiller(), c.u.IsExtAddress())
		}
	}
}

func FuzzParseUnit(f *testing.F) {
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0x7f}, UnitSize-1))
	f.Add(bytes.Repeat([]byte{0xff}, UnitSize+1))
	f.Fuzz(func(t *testing.T, b []byte) {
		u, err := ParseUnit(b)
		if len(b) < UnitSize {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("%d bytes: %v", len(b), err)
			}
			return
		}
		if u.Valid() && (u.end() <= u.PhyOffset || u.IsFiller()) {
			t.Fatalf("%+v is called valid", u)
		}
		back := make([]byte, UnitSize)
		if PutUnit(back, u); !bytes.Equal(back, b[:UnitSize]) {
			t.Fatalf("% x came back as % x", b[:UnitSize], back)
		}
	})
}

func FuzzParseExtUnit(f *testing.F) {
	f.Add([]byte{0, 20, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0})
	f.Add([]byte{0, 22, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 2, 7, 8})
	f.Add([]byte{0, 20, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0xff, 0xff})
	f.Add([]byte{0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		u, err := ParseExtUnit(b)
		if err != nil {
			if !errors.Is(err, ErrNoUnit) && !errors.Is(err, ErrMalformed) {
				t.Fatal(err)
			}
			return
		}
		if len(u.Bitmap) > len(b)-extHeaderSize {
			t.Fatalf("bitmap of %d bytes out of %d", len(u.Bitmap), len(b))
		}
	})
}

func FuzzQueueDirectoryName(f *testing.F) {
	for _, s := range []string{"0", "00", "+1", "-1", "7", "2147483647", "2147483648", "1e3", "", "٣", "99999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if id, ok := parseQueueID(name); ok && (id < 0 || strconv.Itoa(int(id)) != name) {
			t.Fatalf("%q is queue %d", name, id)
		}
		if isSegment(name) {
			if _, err := strconv.ParseUint(name[1:], 10, 64); err != nil || len(name) != 20 {
				t.Fatalf("%q is a segment", name)
			}
		}
	})
}

func TestExtAddressIsTheOffsetWithTheSignBit(t *testing.T) {
	for _, c := range []struct {
		address, off int64
		ok           bool
	}{
		{math.MinInt64, 0, true},
		{math.MinInt64 + 48<<20, 48 << 20, true},
		{-2147483649, 9223372034707292159, true},
		{-2147483648, 0, false},
		{0, 0, false},
		{1, 0, false},
	} {
		if off, ok := ExtOffset(c.address); ok != c.ok || ok && off != c.off {
			t.Errorf("%d: %d, %v", c.address, off, ok)
		}
	}
}
