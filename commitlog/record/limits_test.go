package record_test

import (
	"bytes"
	"errors"
	"math"
	"net/netip"
	"strings"
	"testing"

	"github.com/mqstore/mqstore/commitlog/record"
)

// Each limit holds at its value and is broken one beyond, and the error says both numbers.
func TestLimits(t *testing.T) {
	const overhead = 91
	props := func(n int) record.Properties { return record.NewProperties("P", strings.Repeat("x", n-2)) }
	small := record.Limits{MaxMessageSize: 1000}
	for _, tt := range []struct {
		name   string
		change func(m *record.Message)
		l      record.Limits
		want   error
		says   []string
	}{
		{"topic empty", func(m *record.Message) { m.Topic = "" }, record.Limits{}, record.ErrTopicEmpty, nil},
		{"topic 127", func(m *record.Message) { m.Topic = strings.Repeat("t", 127) }, record.Limits{}, nil, nil},
		{"topic 128", func(m *record.Message) { m.Topic = strings.Repeat("t", 128) }, record.Limits{}, record.ErrTopicTooLong, []string{"128 bytes", "at most 127"}},
		{"topic 42 characters of 126 bytes", func(m *record.Message) { m.Topic = strings.Repeat("界", 42) }, record.Limits{}, nil, nil},
		{"topic 43 characters of 129 bytes", func(m *record.Message) { m.Topic = strings.Repeat("界", 43) }, record.Limits{}, record.ErrTopicTooLong, []string{"129 bytes", "at most 127"}},
		{"topic 128 with v2", func(m *record.Message) { m.Topic = strings.Repeat("t", 128) }, record.Limits{AllowV2: true}, nil, nil},
		{"topic 43 characters with v2", func(m *record.Message) { m.Topic = strings.Repeat("界", 43) }, record.Limits{AllowV2: true}, nil, nil},
		{"topic 255 with v2", func(m *record.Message) { m.Topic = strings.Repeat("t", 255) }, record.Limits{AllowV2: true}, nil, nil},
		{"topic 255 with v2, read as v1", func(m *record.Message) { m.Version = record.V1; m.Topic = strings.Repeat("t", 255) }, record.Limits{AllowV2: true}, nil, nil},
		{"topic 256 with v2", func(m *record.Message) { m.Topic = strings.Repeat("t", 256) }, record.Limits{AllowV2: true}, record.ErrTopicTooLong, []string{"256 bytes", "at most 255"}},
		{"v2 asked for", func(m *record.Message) { m.Version = record.V2 }, record.Limits{}, record.ErrVersion, []string{"2 is asked for", "at most 1"}},
		{"v3", func(m *record.Message) { m.Version = 3 }, record.Limits{AllowV2: true}, record.ErrVersion, []string{"3 is asked for", "at most 2"}},

		{"properties 32767", func(m *record.Message) { m.Properties = props(32767) }, record.Limits{}, nil, nil},
		{"properties 32768", func(m *record.Message) { m.Properties = props(32768) }, record.Limits{}, record.ErrPropertiesTooLong, []string{"32768 bytes", "at most 32767"}},
		{"properties 32746 and a CRC", func(m *record.Message) { m.Properties = props(32746) }, record.Limits{PropertyCRC: true}, nil, nil},
		{"properties 32747 and a CRC", func(m *record.Message) { m.Properties = props(32747) }, record.Limits{PropertyCRC: true}, record.ErrPropertiesTooLong, []string{"32768 bytes"}},

		{"body 4 MiB", func(m *record.Message) { m.Body = make([]byte, 4<<20) }, record.Limits{}, nil, nil},
		{"body 4 MiB and 1", func(m *record.Message) { m.Body = make([]byte, 4<<20+1) }, record.Limits{}, record.ErrBodyTooLong, []string{"4194305 bytes", "at most 4194304"}},
		{"body 1000", func(m *record.Message) { m.Body = make([]byte, 1000) }, small, nil, nil},
		{"body 1001", func(m *record.Message) { m.Body = make([]byte, 1001) }, small, record.ErrBodyTooLong, []string{"1001 bytes", "at most 1000"}},

		// Without the property limit no record could be 64 KiB longer than its body: the allowance is only reached with a limit that saturates.
		{"saturated limit", func(m *record.Message) { m.Body = make([]byte, 5<<20) }, record.Limits{MaxMessageSize: math.MaxInt}, nil, nil},

		{"host v4, bit v6", func(m *record.Message) { m.SysFlag = record.FlagBornHostV6 }, record.Limits{}, record.ErrHost, []string{"born host", "0x10", "192.168.0.1"}},
		{"store host v4, bit v6", func(m *record.Message) { m.SysFlag = record.FlagStoreHostV6 }, record.Limits{}, record.ErrHost, []string{"store host", "0x20", "192.168.0.1"}},
		{"zone", func(m *record.Message) { m.StoreHost.Addr = netip.MustParseAddr("fe80::1%eth0") }, record.Limits{}, record.ErrHost, []string{"fe80::1%eth0"}},
		{"no hosts", func(m *record.Message) { m.BornHost, m.StoreHost = record.Host{}, record.Host{} }, record.Limits{}, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := sample()
			tt.change(m)
			before := *m
			err := m.Check(tt.l)
			if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
				t.Fatalf("Check: %v, want %v", err, tt.want)
			}
			b, err2 := record.AppendRecord([]byte("dst"), m, tt.l)
			n, err3 := m.EncodedSize(tt.l)
			if tt.want == nil {
				if err2 != nil || err3 != nil || n != len(b)-3 {
					t.Fatalf("AppendRecord: %v; EncodedSize: %d, %v for %d bytes", err2, n, err3, len(b)-3)
				}
				if _, err := record.Decode(b[3:]); err != nil {
					t.Errorf("what was written does not decode: %v", err)
				}
				return
			}
			if !errors.Is(err2, tt.want) || !errors.Is(err3, tt.want) || string(b) != "dst" {
				t.Errorf("AppendRecord: %q, %v; EncodedSize: %v", b, err2, err3)
			}
			if m.Size != before.Size || m.SysFlag != before.SysFlag || m.BodyCRC != before.BodyCRC {
				t.Error("a refused message was changed")
			}
			for _, s := range tt.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%q does not say %q", err, s)
				}
			}
		})
	}
	if n, err := (&record.Message{Topic: "T"}).EncodedSize(record.Limits{}); n != overhead+1 || err != nil {
		t.Errorf("EncodedSize = %d, %v", n, err)
	}
}

// The limit of the whole record cannot be met with real bodies, so its arithmetic is checked alone.
func TestRecordLimitSaturates(t *testing.T) {
	for _, tt := range []struct{ body, want int64 }{
		{0, 4<<20 + 65536}, {-1, 4<<20 + 65536}, {1, 65537}, {1000, 66536},
		{math.MaxInt32 - 65536 - 1, math.MaxInt32 - 1}, {math.MaxInt32 - 65536, math.MaxInt32}, {math.MaxInt32 - 65535, math.MaxInt32}, {math.MaxInt32, math.MaxInt32},
	} {
		if got := record.MaxRecord(record.Limits{MaxMessageSize: int(tt.body)}); got != tt.want {
			t.Errorf("MaxMessageSize %d: records of at most %d bytes, want %d", tt.body, got, tt.want)
		}
	}
}

func TestRecordTooLong(t *testing.T) {
	// Topic, properties and hosts alone never reach 64 KiB; the check stands behind those limits for bodies near 2 GiB, which only 64-bit machines hold.
	err := record.CheckSize(record.Limits{MaxMessageSize: 100}, 100+65536+1)
	if !errors.Is(err, record.ErrRecordTooLong) || !strings.Contains(err.Error(), "65637 bytes") || !strings.Contains(err.Error(), "at most 65636") {
		t.Errorf("%v", err)
	}
	if err := record.CheckSize(record.Limits{MaxMessageSize: 100}, 100+65536); err != nil {
		t.Error(err)
	}
}

func TestUnknownHostIsStoredAsZeros(t *testing.T) {
	m := &record.Message{Topic: "T", SysFlag: record.FlagStoreHostV6, BornHost: record.Host{Port: 5}}
	dst := bytes.Repeat([]byte{0xFF}, 200)[:0]
	b, err := record.AppendRecord(dst, m, record.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := record.Decode(b)
	if err != nil || got.BornHost.String() != "0.0.0.0:5" || got.StoreHost.String() != "[::]:0" {
		t.Errorf("%v and %v, %v", got.BornHost, got.StoreHost, err)
	}
}
