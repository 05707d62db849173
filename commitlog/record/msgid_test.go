package record_test

import (
	"errors"
	"math"
	"net/netip"
	"strings"
	"testing"

	"github.com/mqstore/mqstore/commitlog/record"
)

func TestOffsetMessageID(t *testing.T) {
	for _, tt := range []struct {
		host record.Host
		off  int64
		want string
	}{
		{v4, 4096, "C0A8000100002A9F0000000000001000"},
		{v6, 737, "20010DB800000000000000000000000100002A9F00000000000002E1"},
		{record.Host{Addr: netip.IPv4Unspecified()}, 0, "00000000000000000000000000000000"},
		{record.Host{Addr: v4.Addr, Port: math.MaxUint32}, math.MaxInt64, "C0A80001FFFFFFFF7FFFFFFFFFFFFFFF"},
	} {
		if got := record.OffsetMessageID(tt.host, tt.off); got != tt.want {
			t.Errorf("%v @%d: %s, want %s", tt.host, tt.off, got, tt.want)
		}
		for _, s := range []string{tt.want, strings.ToLower(tt.want)} {
			if h, off, err := record.ParseOffsetMessageID(s); h != tt.host || off != tt.off || err != nil {
				t.Errorf("%s: %v @%d, %v", s, h, off, err)
			}
		}
		m := &record.Message{StoreHost: tt.host, PhyOffset: tt.off}
		if got := m.OffsetMessageID(); got != tt.want {
			t.Errorf("of the message: %s, want %s", got, tt.want)
		}
	}
	// The family follows the record's flag, also where the host is not known.
	if got := (&record.Message{SysFlag: record.FlagStoreHostV6}).OffsetMessageID(); len(got) != 56 {
		t.Errorf("%s", got)
	}
	if got := record.OffsetMessageID(record.Host{}, 1); got != "00000000000000000000000000000001" {
		t.Errorf("%s", got)
	}
}

func TestBadOffsetMessageIDs(t *testing.T) {
	for _, s := range []string{"", "C0A8", strings.Repeat("0", 31), strings.Repeat("0", 33), strings.Repeat("0", 55), strings.Repeat("0", 57), "G" + strings.Repeat("0", 31), "C0A8000100002A9FFFFFFFFFFFFFFFFF", strings.Repeat("x", 1<<16)} {
		h, off, err := record.ParseOffsetMessageID(s)
		if !errors.Is(err, record.ErrMessageID) || h != (record.Host{}) || off != 0 {
			t.Errorf("%.60q: %v @%d, %v", s, h, off, err)
		}
		if len(err.Error()) > 300 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	}
}

func TestParseHost(t *testing.T) {
	for _, tt := range []struct{ s, want string }{
		{"1.2.3.4:10911", "1.2.3.4:10911"}, {"[2001:db8::1]:10911", "[2001:db8::1]:10911"}, {"[2001:db8:0:0:0:0:1:2]:40001", "[2001:db8::1:2]:40001"},
		{"[::ffff:1.2.3.4]:5", "1.2.3.4:5"}, {"[fe80::1%eth0]:5", "[fe80::1]:5"}, {"0.0.0.0:0", "0.0.0.0:0"},
	} {
		h, err := record.ParseHost(tt.s)
		if err != nil || h.String() != tt.want {
			t.Errorf("%q: %v, %v, want %s", tt.s, h, err, tt.want)
		}
		if again, err := record.ParseHost(h.String()); err != nil || again != h {
			t.Errorf("%q: %v, %v", h, again, err)
		}
	}
	for _, s := range []string{"", "1.2.3.4", "1.2.3.4:", "1.2.3.4:65536", "localhost:1", "2001:db8::1:5", "/1.2.3.4:5"} {
		if h, err := record.ParseHost(s); err == nil || !strings.Contains(err.Error(), "like 1.2.3.4:10911") {
			t.Errorf("%q: %v, %v", s, h, err)
		}
	}
	if got := (record.Host{}).String(); got != "0.0.0.0:0" {
		t.Errorf("zero Host is %s", got)
	}
}
