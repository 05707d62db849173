package commitlog

import (
	"bytes"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/mqstore/mqstore/commitlog/record"
)

// A record that came up to any of its bytes is not taken for a whole one, but for one whose missing bytes are zeros anyway; and a whole one always is.
func TestRecordThatCameInPartIsKnown(t *testing.T) {
	host := record.HostFrom(netip.MustParseAddrPort("10.0.0.1:10911"))
	for _, properties := range []record.Properties{nil, record.NewProperties("K", "v"), record.NewProperties("KEYS", strings.Repeat("k", 300))} {
		for _, body := range []int{0, 1, 300} {
			m := &record.Message{Topic: "topic", BornHost: host, StoreHost: host, Body: bytes.Repeat([]byte{'b'}, body), Properties: properties}
			whole, err := record.AppendRecord(nil, m, record.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			record.Patch(whole, 7, 0, 1_700_000_000_000)
			for n := range len(whole) + 1 {
				b := make([]byte, len(whole)+100)
				copy(b, whole[:n])
				var meta record.Outline
				taken := record.Check(b, 0, true, &meta) == nil && tornSector(b, 0, &meta) == nil && unfinished(b, &meta) == nil
				if same := bytes.Equal(b[:len(whole)], whole); taken != same {
					t.Fatalf("properties of %d, body of %d: %d of %d bytes taken for a whole record: %v", len(properties), body, n, len(whole), taken)
				}
			}
		}
	}
}

// Whatever sectors of a record's bytes never reached the device, either the record does not parse or it is known as torn; a whole one never is.
func TestRecordThatLostASectorIsKnown(t *testing.T) {
	host := record.HostFrom(netip.MustParseAddrPort("10.0.0.1:10911"))
	for _, topic := range []string{"A", strings.Repeat("t", 127)} {
		for _, properties := range []record.Properties{nil, record.NewProperties("K", "v"), record.NewProperties("KEYS", strings.Repeat("k", 1500))} {
			for _, body := range []int{0, 1, 300, 1400} {
				m := &record.Message{Topic: topic, BornHost: host, StoreHost: host, Body: bytes.Repeat([]byte{'b'}, body), Properties: properties}
				b, err := record.AppendRecord(nil, m, record.Limits{})
				if err != nil {
					t.Fatal(err)
				}
				for pos := int64(0); pos < sectorSize; pos += 1 {
					record.Patch(b, 7, pos, 1_700_000_000_000)
					var meta record.Outline
					if err := record.Check(b, pos, true, &meta); err != nil {
						t.Fatal(err)
					}
					if err := tornSector(b, pos, &meta); err != nil {
						t.Fatalf("topic of %d, body of %d, at %d: a whole record: %v", len(topic), body, pos, err)
					}
					for at := -int(pos); at < len(b); at += sectorSize {
						torn := bytes.Clone(b)
						clear(torn[max(at, 0):min(at+sectorSize, len(b))])
						if bytes.Equal(torn, b) {
							continue
						}
						if record.Check(torn, pos, true, &meta) != nil {
							continue
						}
						if err := tornSector(torn, pos, &meta); !errors.Is(err, record.ErrMalformed) {
							t.Fatalf("topic of %d, body of %d, at %d: the loss of [%d, +512) goes unnoticed", len(topic), body, pos, at)
						}
					}
				}
			}
		}
	}
}

// What is durable must not be cut for looking torn: text that could is refused, and of another writer's it is accepted wherever bytes behind it prove that its sector came.
func TestZeroBytesInTextAreRefusedAndOfOthersAcceptedWherePossible(t *testing.T) {
	r := newRig(t)
	r.open(Recovery{FlushedTo: -1})
	binary := func() *record.Message {
		return &record.Message{Topic: "T", BornHost: testHost, StoreHost: testHost, Properties: record.Properties("k\x01v\x00\x00\x00")}
	}
	if _, err := r.log.Append(binary(), &r.count); !errors.Is(err, ErrZeroByte) {
		t.Fatal(err)
	}
	if _, err := r.log.AppendBatch([]record.Message{*binary()}, &r.count); !errors.Is(err, ErrZeroByte) {
		t.Fatal(err)
	}
	for pos := range int64(sectorSize) {
		var b []byte
		var at []int
		for range 2 {
			m := binary()
			m.PhyOffset = pos + int64(len(b))
			at = append(at, len(b))
			var err error
			if b, err = record.AppendRecord(b, m, record.Limits{}); err != nil {
				t.Fatal(err)
			}
		}
		var m record.Outline
		if err := record.Check(b, pos, false, &m); err != nil {
			t.Fatal(err)
		}
		if last := pos + int64(at[1]) + 8; tornSector(b, pos, &m) != nil && last%sectorSize >= 8 && last/sectorSize == (pos+int64(at[1])-1)/sectorSize {
			t.Fatalf("at %d: cut although the next record's header lies in the sector of the zeros: %v", pos, tornSector(b, pos, &m))
		}
	}
}
