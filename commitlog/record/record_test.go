package record_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mqstore/mqstore/commitlog/record"
)

var (
	v4 = record.Host{Addr: netip.MustParseAddr("192.168.0.1"), Port: 10911}
	v6 = record.Host{Addr: netip.MustParseAddr("2001:db8::1"), Port: 10911}

	compare = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
)

// sample is a message with every field set.
func sample() *record.Message {
	return &record.Message{
		Topic: "TopicTest", QueueID: 3, Flag: -7, SysFlag: record.FlagMultiTags, BornTimestamp: 1795967041974, BornHost: v4, StoreHost: v4,
		ReconsumeTimes: 2, PreparedTransactionOffset: 99, Body: []byte("Hello RocketMQ"),
		Properties:     record.NewProperties("KEYS", "key1 key2", "UNIQ_KEY", "U1", "WAIT", "true", "TAGS", "TagA"),
		StoreTimestamp: 1795967041977, QueueOffset: 12, PhyOffset: 4096,
	}
}

func encode(t testing.TB, m *record.Message, l record.Limits) []byte {
	t.Helper()
	b, err := record.AppendRecord(nil, m, l)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The layout is pinned as bytes, so that no change of a position on both sides goes unnoticed.
func TestRecordBytes(t *testing.T) {
	m := &record.Message{Topic: "T", QueueID: 1, Flag: 2, BornTimestamp: 3, BornHost: v4, StoreHost: v4, ReconsumeTimes: 4, PreparedTransactionOffset: 5, Body: []byte("a"), Properties: record.NewProperties("K", "v"), StoreTimestamp: 6, QueueOffset: 7, PhyOffset: 8}
	const fixed = "68b7be43" + "00000001" + "00000002" + "0000000000000007" + "0000000000000008"
	const hostV4, hostV6 = "c0a80001" + "00002a9f", "20010db8000000000000000000000001" + "00002a9f"
	const tail = "00000004" + "0000000000000005" + "00000001" + "61"
	for _, tt := range []struct {
		name        string
		version     record.Version
		born, store record.Host
		want        string
	}{
		{"v1", 0, v4, v4, "00000060" + "daa320a7" + fixed + "00000000" + "0000000000000003" + hostV4 + "0000000000000006" + hostV4 + tail + "01" + "54" + "0003" + "4b0176"},
		{"v1 born v6", 0, v6, v4, "0000006c" + "daa320a7" + fixed + "00000010" + "0000000000000003" + hostV6 + "0000000000000006" + hostV4 + tail + "01" + "54" + "0003" + "4b0176"},
		{"v1 store v6", 0, v4, v6, "0000006c" + "daa320a7" + fixed + "00000020" + "0000000000000003" + hostV4 + "0000000000000006" + hostV6 + tail + "01" + "54" + "0003" + "4b0176"},
		{"v2 both v6", record.V2, v6, v6, "00000079" + "daa320ab" + fixed + "00000030" + "0000000000000003" + hostV6 + "0000000000000006" + hostV6 + tail + "0001" + "54" + "0003" + "4b0176"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := *m
			m.Version, m.BornHost, m.StoreHost = tt.version, tt.born, tt.store
			b := encode(t, &m, record.Limits{AllowV2: true})
			if got := hex.EncodeToString(b); got != tt.want {
				t.Errorf("encoded\n%s, want\n%s", got, tt.want)
			}
			if m.Size != len(b) || m.BodyCRC != 0x68B7BE43 {
				t.Errorf("Size %d, BodyCRC %#x after encoding %d bytes", m.Size, m.BodyCRC, len(b))
			}
			if n, err := m.EncodedSize(record.Limits{AllowV2: true}); n != len(b) || err != nil {
				t.Errorf("EncodedSize = %d, %v, want %d", n, err, len(b))
			}
		})
	}
}

func TestFixedOverheadIs91Bytes(t *testing.T) {
	m := &record.Message{Topic: "T", BornHost: v4, StoreHost: v4}
	if b := encode(t, m, record.Limits{}); len(b) != 91+1 {
		t.Errorf("%d bytes with a topic of 1, want 92", len(b))
	}
}

func TestDecodeGivesTheMessageBack(t *testing.T) {
	for _, l := range []record.Limits{{}, {AllowV2: true}, {PropertyCRC: true}, {AllowV2: true, PropertyCRC: true}} {
		for name, change := range map[string]func(*record.Message){
			"plain":         func(*record.Message) {},
			"born v6":       func(m *record.Message) { m.BornHost = v6 },
			"store v6":      func(m *record.Message) { m.StoreHost = v6 },
			"v4 in v6":      func(m *record.Message) { m.StoreHost.Addr = netip.MustParseAddr("::ffff:1.2.3.4") },
			"empty body":    func(m *record.Message) { m.Body = nil },
			"no properties": func(m *record.Message) { m.Properties = nil },
			"trailing 02":   func(m *record.Message) { m.Properties = append(m.Properties, 2) },
			"big port":      func(m *record.Message) { m.BornHost.Port = 1<<32 - 1 },
			"negatives": func(m *record.Message) {
				m.QueueID, m.QueueOffset, m.BornTimestamp, m.ReconsumeTimes, m.SysFlag = -1, -2, -3, -4, -1^0x30
			},
			"v2": func(m *record.Message) {
				if l.AllowV2 {
					m.Version = record.V2
				}
			},
			"long topic": func(m *record.Message) {
				if l.AllowV2 {
					m.Topic = strings.Repeat("界", 85)
				}
			},
		} {
			t.Run(fmt.Sprintf("%s/%+v", name, l), func(t *testing.T) {
				m := sample()
				change(m)
				b := encode(t, m, l)
				got, err := record.Decode(append(bytes.Clone(b), "what follows"...))
				if err != nil {
					t.Fatal(err)
				}
				again, err := record.AppendRecord([]byte("before"), got, l)
				if err != nil || !bytes.Equal(again[len("before"):], b) {
					t.Errorf("encoded again, %v:\n%x, want\n%x", err, again, b)
				}
				if err := new(record.Parser).Parse(b, 4096, new(record.Meta)); err != nil {
					t.Error(err)
				}
				// What the writer chooses or adds is not part of the comparison.
				m.Version, got.Version = 0, 0
				if l.PropertyCRC {
					got.Properties = got.Properties.Without(record.PropertyCRC32)
				}
				if bytes.HasSuffix(got.Properties, []byte{2}) != bytes.HasSuffix(m.Properties, []byte{2}) {
					got.Properties = bytes.TrimSuffix(got.Properties, []byte{2})
				}
				if len(m.Body) == 0 {
					m.Body, got.Body = nil, nil
				}
				if len(m.Properties) == 0 {
					m.Properties, got.Properties = nil, nil
				}
				if d := cmp.Diff(m, got, compare); d != "" {
					t.Error(d)
				}
			})
		}
	}
}

func TestDecodedBytesCannotBeAppendedTo(t *testing.T) {
	b := encode(t, sample(), record.Limits{})
	want := bytes.Clone(b)
	m, err := record.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	var meta record.Meta
	if err := new(record.Parser).Parse(b, 4096, &meta); err != nil {
		t.Fatal(err)
	}
	_ = append(m.Body, 'x')
	_ = append(m.Properties, 'x')
	_ = append(meta.Properties, 'x')
	v, _ := m.Properties.View("KEYS")
	_ = append(v, 'x')
	for k := range meta.Keys() {
		_ = append(k, 'x')
	}
	if !bytes.Equal(b, want) {
		t.Error("appending to a view of the record changed the record")
	}
}

func TestCloneSharesNothing(t *testing.T) {
	b := encode(t, sample(), record.Limits{})
	m, err := record.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	c := m.Clone()
	clear(b)
	want := sample()
	if !bytes.Equal(c.Body, want.Body) || !bytes.Equal(c.Properties, want.Properties) || c.Topic != want.Topic {
		t.Errorf("clone %+v changed with the record", c)
	}
}

func TestParseGivesWhatDispatchNeeds(t *testing.T) {
	m := sample()
	m.SysFlag |= record.SysFlag(record.TransactionCommit)
	b := encode(t, m, record.Limits{})
	p := record.Parser{VerifyCRC: true}
	got := record.Meta{Bitmap: []byte("stale")}
	if err := p.Parse(append(bytes.Clone(b), 1, 2, 3), 4096, &got); err != nil {
		t.Fatal(err)
	}
	want := record.Meta{Magic: record.MagicV1, Size: len(b), PhyOffset: 4096, Topic: "TopicTest", QueueID: 3, QueueOffset: 12, TagsCode: 2598919, StoreTimestamp: 1795967041977, SysFlag: m.SysFlag, BodyCRC: 1774740973, Properties: m.Properties}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if u, ok := got.UniqKey(); string(u) != "U1" || !ok {
		t.Errorf("UniqKey = %q, %v", u, ok)
	}
	var keys []string
	for k := range got.Keys() {
		keys = append(keys, string(k))
	}
	if d := cmp.Diff([]string{"key1", "key2"}, keys); d != "" {
		t.Error(d)
	}
	for range got.Keys() {
		break // an iterator may be left
	}
}

func TestUnitsByTransaction(t *testing.T) {
	for _, tt := range []struct {
		tx   record.Transaction
		want bool
	}{{record.TransactionNone, true}, {record.TransactionPrepared, false}, {record.TransactionCommit, true}, {record.TransactionRollback, false}} {
		m := record.Meta{Magic: record.MagicV1, SysFlag: record.SysFlag(0x33).WithTransaction(tt.tx)}
		if m.HasUnit() != tt.want || m.SysFlag.Transaction() != tt.tx {
			t.Errorf("%v: HasUnit %v, transaction %v", tt.tx, m.HasUnit(), m.SysFlag.Transaction())
		}
	}
	if (&record.Meta{Magic: record.MagicBlank}).HasUnit() {
		t.Error("a blank has a unit")
	}
}

func TestPatchWritesThreeFields(t *testing.T) {
	for _, m := range []*record.Message{sample(), func() *record.Message { m := sample(); m.BornHost = v6; return m }()} {
		b := encode(t, m, record.Limits{})
		record.Patch(b, 100, 200, 300)
		got, err := record.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		m.QueueOffset, m.PhyOffset, m.StoreTimestamp = 100, 200, 300
		if want := encode(t, m, record.Limits{}); !bytes.Equal(b, want) {
			t.Errorf("patched\n%x, want\n%x", b, want)
		}
		if s, err := record.StoreTimestamp(b); s != 300 || err != nil || got.StoreTimestamp != 300 {
			t.Errorf("StoreTimestamp = %d, %v", s, err)
		}
	}
}

func TestBlank(t *testing.T) {
	b := []byte("xxxxxxxxxxxx")
	record.PutBlank(b, 12)
	if got := hex.EncodeToString(b); got != "0000000ccbd43194"+"78787878" {
		t.Errorf("blank is %s", got)
	}
	var p record.Parser
	m := record.Meta{Topic: "stale", Bitmap: []byte{1}}
	if err := p.Parse(b[:8], 500, &m); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(record.Meta{Magic: record.MagicBlank, Size: 12, PhyOffset: 500}, m); d != "" {
		t.Error(d)
	}
	if !m.IsBlank() {
		t.Error("IsBlank is false")
	}
	if _, err := record.Decode(b); !errors.Is(err, record.ErrMagic) {
		t.Errorf("Decode of a blank: %v", err)
	}
	if _, err := record.StoreTimestamp(b); !errors.Is(err, record.ErrMagic) {
		t.Errorf("StoreTimestamp of a blank: %v", err)
	}
	for _, size := range []int{7, 0, -1, -1 << 31} {
		record.PutBlank(b, size)
		if err := p.Parse(b, 0, &m); !errors.Is(err, record.ErrSize) || !errors.Is(err, record.ErrMalformed) {
			t.Errorf("blank of %d bytes: %v", size, err)
		}
	}
}

// Whatever part of a record is there, Parse waits for more, unless something in that part is wrong already.
func TestPartOfARecordIsIncomplete(t *testing.T) {
	for _, m := range []*record.Message{sample(), {Version: record.V2, Topic: "T", BornHost: v6, StoreHost: v6}} {
		b := encode(t, m, record.Limits{AllowV2: true})
		p := record.Parser{VerifyCRC: true}
		for n := range b {
			part := b[:n:n]
			if err := p.Parse(part, m.PhyOffset, new(record.Meta)); err != record.ErrIncomplete {
				t.Fatalf("first %d of %d bytes: %v", n, len(b), err)
			}
			if n < 36 {
				continue
			}
			if err := p.Parse(part, m.PhyOffset+1, new(record.Meta)); n >= 48 && !errors.Is(err, record.ErrPhyOffset) {
				t.Fatalf("first %d of %d bytes at the wrong offset: %v", n, len(b), err)
			}
		}
		for n := 8; n < len(b); n++ {
			s, err := record.StoreTimestamp(b[:n:n])
			if err == nil && s != m.StoreTimestamp || err != nil && err != record.ErrIncomplete {
				t.Fatalf("StoreTimestamp of %d bytes: %d, %v", n, s, err)
			}
		}
	}
}

func TestEachFieldIsChecked(t *testing.T) {
	const bodyLength, body = 84, 88
	topic := body + len("Hello RocketMQ")
	properties := topic + 1 + len("TopicTest")
	put32 := func(at int, v int64) func(b []byte) {
		return func(b []byte) { binary.BigEndian.PutUint32(b[at:], uint32(v)) }
	}
	size := int64(len(encode(t, sample(), record.Limits{})))
	for _, tt := range []struct {
		name   string
		change func(b []byte)
		want   error
		text   string
	}{
		{"magic", put32(4, 0xDAA320A8), record.ErrMagic, "magic is 0xDAA320A8, want 0xDAA320A7"},
		{"zeros", func(b []byte) { clear(b) }, record.ErrMagic, "magic is 0x00000000"},
		{"v2 magic on v1 bytes", put32(4, 0xDAA320AB), record.ErrSize, "topic length"},
		{"size 0", put32(0, 0), record.ErrSize, "total size is 0, want 92"},
		{"size negative", put32(0, -1), record.ErrSize, "total size is -1"},
		{"size 1 less", put32(0, size-1), record.ErrSize, "properties length"},
		{"size 1 more", put32(0, size+1), record.ErrSize, "properties length"},
		{"smallest size", put32(0, 92), record.ErrSize, "body length is 14, want 0"},
		{"offset", put32(32, 4097), record.ErrPhyOffset, "physical offset is 4097, want 4096"},
		{"body length 1 more", put32(bodyLength, 15), record.ErrSize, ""},
		{"body length 1 less", put32(bodyLength, 13), record.ErrSize, ""},
		{"body length negative", put32(bodyLength, -1), record.ErrSize, "body length is -1"},
		{"body length huge", put32(bodyLength, 1<<31-1), record.ErrSize, "body length is 2147483647"},
		{"topic length 0", func(b []byte) { b[topic] = 0 }, record.ErrSize, "topic length is 0"},
		{"topic length negative", func(b []byte) { b[topic] = 0x80 }, record.ErrSize, "topic length is -128"},
		{"topic length 127", func(b []byte) { b[topic] = 127 }, record.ErrSize, "topic length is 127"},
		{"properties length negative", func(b []byte) { b[properties] = 0x80 }, record.ErrSize, "properties length is -"},
		{"properties length 0", func(b []byte) { b[properties+1] = 0 }, record.ErrSize, "properties length is 0"},
		{"host bit", func(b []byte) { b[39] |= 0x10 }, record.ErrSize, ""},
		{"body", func(b []byte) { b[body]++ }, record.ErrCRC, "body CRC is 0x69C865ED, want 0x"},
		{"body CRC", put32(8, 0), record.ErrCRC, "body CRC is 0x00000000, want 0x69C865ED"},
		{"body CRC with its highest bit", put32(8, 0x69C865ED|1<<31), record.ErrCRC, "body CRC is 0xE9C865ED"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := encode(t, sample(), record.Limits{})
			tt.change(b)
			b = append(b, make([]byte, 200)...) // not incomplete, whatever it claims
			m := record.Meta{Topic: "as before"}
			err := (&record.Parser{VerifyCRC: true}).Parse(b, 4096, &m)
			var fe *record.FormatError
			if !errors.Is(err, tt.want) || !errors.Is(err, record.ErrMalformed) || errors.Is(err, record.ErrIncomplete) || !errors.As(err, &fe) || fe.Kind != tt.want {
				t.Fatalf("%v, want %v", err, tt.want)
			}
			if !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%q does not say %q", err, tt.text)
			}
			if m.Topic != "as before" {
				t.Error("the meta was changed")
			}
			_, err = record.Decode(b)
			if tt.want != record.ErrPhyOffset && !errors.Is(err, tt.want) {
				t.Errorf("Decode: %v, want %v", err, tt.want)
			}
			err = new(record.Parser).Parse(b, 4096, &m)
			if (err == nil) != (tt.want == record.ErrCRC) {
				t.Errorf("without VerifyCRC: %v", err)
			}
		})
	}
}

func TestDecodeShowsDamagedMessage(t *testing.T) {
	b := encode(t, sample(), record.Limits{})
	b[90]++
	m, err := record.Decode(b)
	if !errors.Is(err, record.ErrCRC) || m == nil || m.Topic != "TopicTest" {
		t.Errorf("Decode = %+v, %v", m, err)
	}
}

// The longest topic of a v2 record that someone may have written is read, though we write at most 255 bytes.
func TestReadingHasOnlyTheFormatsLimits(t *testing.T) {
	m := sample()
	m.Version, m.Body, m.Properties = record.V2, nil, nil
	m.Topic = "T"
	b := encode(t, m, record.Limits{AllowV2: true})
	topic := strings.Repeat("t", 32767)
	b = append(b[:88:88], 0x7F, 0xFF)
	b = append(append(b, topic...), 0, 0)
	binary.BigEndian.PutUint32(b, uint32(len(b)))
	got, err := record.Decode(b)
	if err != nil || got.Topic != topic {
		t.Fatalf("%v", err)
	}
	var p record.Parser
	if err := p.Parse(b, m.PhyOffset, new(record.Meta)); err != nil || p.Interned() != 0 {
		t.Errorf("%v, %d topics kept", err, p.Interned())
	}
	if err := got.Check(record.Limits{AllowV2: true}); !errors.Is(err, record.ErrTopicTooLong) {
		t.Errorf("Check: %v", err)
	}
}

func TestTopicsAreInternedWithinBounds(t *testing.T) {
	var p record.Parser
	b := encode(t, &record.Message{Topic: "0000000000"}, record.Limits{})
	var m record.Meta
	for i := range record.MaxInternedTopics + 100 {
		copy(b[len(b)-12:], fmt.Sprintf("%010d", i))
		if err := p.Parse(b, 0, &m); err != nil || m.Topic != fmt.Sprintf("%010d", i) {
			t.Fatalf("%v, topic %q", err, m.Topic)
		}
	}
	if n := p.Interned(); n != record.MaxInternedTopics {
		t.Errorf("%d topics kept, at most %d wanted", n, record.MaxInternedTopics)
	}
}

func TestPatchAllocatesNothing(t *testing.T) {
	b := encode(t, sample(), record.Limits{PropertyCRC: true})
	if n := testing.AllocsPerRun(100, func() { record.Patch(b, 1, 2, 3) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestEncodeAllocatesNothing(t *testing.T) {
	withSlot := sample()
	withSlot.Properties = record.NewProperties("A", "b", record.PropertyCRC32, "1", "C", "d")
	for name, m := range map[string]*record.Message{"v4": sample(), "v6": {Topic: "T", BornHost: v6, StoreHost: v6}, "stale CRC": withSlot} {
		for _, l := range []record.Limits{{}, {AllowV2: true, PropertyCRC: true}} {
			dst := make([]byte, 0, 4096)
			if n := testing.AllocsPerRun(100, func() {
				if _, err := record.AppendRecord(dst, m, l); err != nil {
					t.Fatal(err)
				}
			}); n != 0 {
				t.Errorf("%s, %+v: %v allocations", name, l, n)
			}
		}
	}
}

func TestParseAllocatesNothing(t *testing.T) {
	topics := []string{"TopicA", "TopicB", record.TopicSchedule}
	var records [][]byte
	for _, topic := range topics {
		m := sample()
		m.Topic = topic
		m.Properties = m.Properties.With("DELAY", "3").With("TAGS", "中文")
		records = append(records, encode(t, m, record.Limits{PropertyCRC: true}))
	}
	p := record.Parser{VerifyCRC: true}
	var m record.Meta
	if n := testing.AllocsPerRun(100, func() {
		for _, b := range records {
			if err := p.Parse(b, 4096, &m); err != nil {
				t.Fatal(err)
			}
			if _, ok := m.UniqKey(); !ok {
				t.Fatal("no UNIQ_KEY")
			}
			for range m.Keys() {
			}
			if _, ok := m.Properties.View("a name that is longer than thirty-two bytes"); ok {
				t.Fatal("found")
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
