package record_test

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"github.com/mqstore/mqstore/commitlog/record"
)

func TestBodyCRC(t *testing.T) {
	for _, tt := range []struct {
		body string
		want uint32
	}{{"", 0}, {"a", 1756872259}, {"Hello RocketMQ", 1774740973}, {"Once, there was a chance for me!", 151131488}} {
		if got := record.BodyCRC([]byte(tt.body)); got != tt.want {
			t.Errorf("%q: %d, want %d", tt.body, got, tt.want)
		}
		m := sample()
		m.Body, m.BodyCRC = []byte(tt.body), 12345 // what the caller says does not count
		if got, err := record.Decode(encode(t, m, record.Limits{})); err != nil || got.BodyCRC != tt.want || m.BodyCRC != tt.want {
			t.Errorf("%q: stored %d, %v", tt.body, got.BodyCRC, err)
		}
	}
}

func TestPropertyCRCDigits(t *testing.T) {
	for _, tt := range []struct {
		crc  uint32
		want string
	}{{123456789, "9876543210"}, {0, "0000000000"}, {7, "7000000000"}, {1<<31 - 1, "7463847412"}} {
		b := make([]byte, 10)
		if record.PutCRCDigits(b, tt.crc); string(b) != tt.want {
			t.Errorf("%d: %s, want %s", tt.crc, b, tt.want)
		}
	}
}

// crcProperty makes the slot of a whole record by the definition alone.
func crcProperty(rec []byte) string {
	digits := []byte(fmt.Sprintf("%010d", crc32.ChecksumIEEE(rec[:len(rec)-20])&0x7FFFFFFF))
	slices.Reverse(digits)
	return "__CRC32#\x01" + string(digits) + "\x02"
}

func TestPropertyCRCIsWrittenAndRefreshed(t *testing.T) {
	for _, tt := range []struct{ given, want string }{
		{"", ""}, {"A=b", "A=b;"}, {"A=b;", "A=b;"},
		{"A=b;__CRC32#=9999999999;", "A=b;"}, // what the client sent goes
		{"A=b;__CRC32#=x", "A=b;"}, {"__CRC32#=x;A=b", "A=b;"}, {"__CRC32#=;A=b", "A=b;"}, {"__CRC32#=0000000000;", ""},
		{"X__CRC32#=0000000000;", "X__CRC32#=0000000000;"},
	} {
		m := sample()
		m.Properties = props(tt.given)
		b := encode(t, m, record.Limits{PropertyCRC: true})
		check := func(what string) {
			t.Helper()
			got, err := record.Decode(b)
			if err != nil {
				t.Fatalf("%q %s: %v", tt.given, what, err)
			}
			if want := string(props(tt.want)) + crcProperty(b); string(got.Properties) != want {
				t.Errorf("%q %s: %q, want %q", tt.given, what, got.Properties, want)
			}
		}
		check("written")
		record.Patch(b, 1, 2, 3)
		check("patched")
		// Written again as it is, without the option.
		got, err := record.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		if again := encode(t, got, record.Limits{}); !bytes.Equal(again, b) {
			t.Errorf("%q encoded again:\n%q, want\n%q", tt.given, again, b)
		}
		got.QueueOffset = 77
		b = encode(t, got, record.Limits{})
		check("changed")
	}
}

func TestNoPropertyCRCUnlessAskedFor(t *testing.T) {
	m := sample()
	b := encode(t, m, record.Limits{})
	record.Patch(b, 1, 2, 3)
	if strings.Contains(string(b), record.PropertyCRC32) || !bytes.HasSuffix(b, m.Properties) {
		t.Errorf("%q", b)
	}
}

func TestPropertyCRCIsVerified(t *testing.T) {
	for _, v := range []record.Version{record.V1, record.V2} {
		m := sample()
		m.Version = v
		good := encode(t, m, record.Limits{PropertyCRC: true, AllowV2: true})
		p := record.Parser{VerifyCRC: true}
		for i := range good {
			b := bytes.Clone(good)
			b[i] ^= 4
			// The byte before the slot is what makes it one.
			if err := p.Parse(b, m.PhyOffset, new(record.Meta)); err == nil && i < len(b)-21 {
				t.Errorf("version %d: a changed byte %d of %d went unnoticed", v, i, len(b))
			}
		}
		b := bytes.Clone(good)
		b[12]++ // the queue id, which no other check covers
		err := p.Parse(b, m.PhyOffset, new(record.Meta))
		if !errors.Is(err, record.ErrCRC) || !strings.Contains(err.Error(), "property CRC") {
			t.Errorf("%v", err)
		}
	}
}

// Only a slot is a slot: a 4.9.8 record with a property of that name is no damage.
func TestPropertyThatOnlyLooksLikeACRC(t *testing.T) {
	for _, s := range []string{"__CRC32#=1234567890", "__CRC32#=123456789;", "__CRC32#=12345678901;", "__CRC32#=123456789x;", "X__CRC32#=1234567890;", "__CRC32#=1234567890;A=b"} {
		m := sample()
		m.Properties = props(s)
		b := encode(t, m, record.Limits{})
		record.Patch(b, 5, 6, 7)
		got, err := record.Decode(b)
		if err != nil || text(got.Properties) != s {
			t.Errorf("%q: %q, %v", s, text(got.Properties), err)
		}
	}
}
