package record_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/mqstore/mqstore/commitlog/record"
)

// FuzzRecord: no bytes make Parse or Decode panic or read outside of them, both agree, and what decodes encodes to the same bytes.
func FuzzRecord(f *testing.F) {
	add := func(m *record.Message, l record.Limits) {
		b := encode(f, m, l)
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	add(sample(), record.Limits{})
	add(sample(), record.Limits{PropertyCRC: true})
	add(&record.Message{Topic: "T", BornHost: v6, StoreHost: v6, Version: record.V2}, record.Limits{AllowV2: true})
	add(&record.Message{Topic: record.TopicSchedule, Properties: props("DELAY=2;KEYS=a b"), SysFlag: 0x301}, record.Limits{})
	blank := make([]byte, 8)
	record.PutBlank(blank, 8)
	f.Add(blank)
	f.Fuzz(func(t *testing.T, in []byte) {
		in = in[:len(in):len(in)]
		phy := int64(0)
		if len(in) >= 36 {
			phy = int64(binary.BigEndian.Uint64(in[28:]))
		}
		plain, checked := record.Parser{}, record.Parser{VerifyCRC: true}
		var meta, meta2 record.Meta
		err, err2 := plain.Parse(in, phy, &meta), checked.Parse(in, phy, &meta2)
		if err2 == nil && err != nil || err == nil && err2 != nil && !errors.Is(err2, record.ErrCRC) {
			t.Fatalf("Parse: %v, with CRC: %v", err, err2)
		}
		for _, err := range []error{err, err2} {
			if err != nil && err != record.ErrIncomplete && !errors.Is(err, record.ErrMalformed) {
				t.Fatalf("%v is no kind of error that is promised", err)
			}
			if err != nil {
				_ = err.Error()
			}
		}
		for _, c := range []struct {
			crc  bool
			err  error
			meta *record.Meta
		}{{false, err, &meta}, {true, err2, &meta2}} {
			var o record.Outline
			err := record.Check(in, phy, c.crc, &o)
			if fmt.Sprint(err) != fmt.Sprint(c.err) {
				t.Fatalf("Check: %v, Parse: %v", err, c.err)
			}
			if want := (record.Outline{Magic: c.meta.Magic, Size: c.meta.Size, StoreTimestamp: c.meta.StoreTimestamp, TopicLen: len(c.meta.Topic), PropertiesLen: len(c.meta.Properties)}); err == nil && o != want {
				t.Fatalf("outline %+v of %+v", o, want)
			}
		}
		m, err3 := record.Decode(in)
		if meta2.IsBlank() {
			if !errors.Is(err3, record.ErrMagic) {
				t.Fatalf("blank: %v", err3)
			}
			return
		}
		if (err2 == nil) != (err3 == nil) {
			t.Fatalf("Parse: %v, Decode: %v", err2, err3)
		}
		if err3 != nil {
			return
		}
		if meta.Size > len(in) || m.Size != meta.Size || m.Topic != meta.Topic || m.QueueID != meta.QueueID || m.QueueOffset != meta.QueueOffset || m.StoreTimestamp != meta.StoreTimestamp ||
			m.SysFlag != meta.SysFlag || m.BodyCRC != meta.BodyCRC || !bytes.Equal(m.Properties, meta.Properties) || m.PhyOffset != phy {
			t.Fatalf("Parse: %+v, Decode: %+v", meta, m)
		}
		if s, err := record.StoreTimestamp(in); s != m.StoreTimestamp || err != nil {
			t.Fatalf("StoreTimestamp = %d, %v, want %d", s, err, m.StoreTimestamp)
		}
		m.Keys()
		m.UniqKey()
		m.OffsetMessageID()
		if _, err := m.DecodedBody(1 << 16); err != nil && !errors.Is(err, record.ErrBody) {
			t.Fatal(err)
		}
		l := record.Limits{AllowV2: true, MaxMessageSize: math.MaxInt32}
		b, err := record.AppendRecord(nil, m, l)
		if len(m.Topic) > 255 {
			if !errors.Is(err, record.ErrTopicTooLong) {
				t.Fatalf("topic of %d bytes: %v", len(m.Topic), err)
			}
			return
		}
		if err != nil || !bytes.Equal(b, in[:m.Size]) {
			t.Fatalf("%v\n%x encodes to\n%x", err, in[:m.Size], b)
		}
		record.Patch(b, 11, 22, 33)
		if err := checked.Parse(b, 22, &meta); err != nil || meta.QueueOffset != 11 || meta.StoreTimestamp != 33 {
			t.Fatalf("patched: %+v, %v", meta, err)
		}
	})
}

// FuzzProperties: every accessor reads as the definition does (readSlowly), and writing one property changes that one alone.
func FuzzProperties(f *testing.F) {
	for _, s := range []string{"", "A=b", "A=b;C=d;", "A=;=b;C;D=e=f;A=2", "__CRC32#=0123456789;", "A=b;__CRC32#=0123456789;", ";;=;", "TAGS=x;TAGS=;XTAGS=y;"} {
		f.Add([]byte(props(s)), "A", "v")
		f.Add([]byte(props(s)), "TAGS", "v\x01")
	}
	f.Fuzz(func(t *testing.T, in []byte, name, value string) {
		p := record.Properties(in[:len(in):len(in)])
		before := bytes.Clone(in)
		want := readSlowly(in)
		got := p.Map()
		if len(got) != len(want) {
			t.Fatalf("%q: %q, want %q", in, got, want)
		}
		for n, v := range want {
			if w, ok := p.Get(n); !ok || w != v || got[n] != v {
				t.Fatalf("%q: Get(%q) = %q, %v, Map %q, want %q", in, n, w, ok, got[n], v)
			}
		}
		if v, ok := p.Get(name); v != want[name] || ok != (want[name] != "") {
			t.Fatalf("%q: Get(%q) = %q, %v, want %q", in, name, v, ok, want[name])
		}
		p.DelayLevel()
		without := p.Without(name)
		if _, ok := without.Get(name); ok {
			t.Fatalf("%q without %q: %q", in, name, without)
		}
		// A property CRC is always kept last, so that name means nothing here.
		if record.ValidProperty(name, value) && name != record.PropertyCRC32 {
			with := p.With(name, value)
			if v, ok := with.Get(name); !ok || v != value {
				t.Fatalf("%q with %q = %q: %q", in, name, value, with)
			}
			for n, v := range want {
				if w, _ := with.Get(n); n != name && w != v {
					t.Fatalf("%q with %q = %q: %q has %q = %q, want %q", in, name, value, with, n, w, v)
				}
				if w, _ := without.Get(n); n != name && w != v {
					t.Fatalf("%q without %q: %q has %q = %q, want %q", in, name, without, n, w, v)
				}
			}
			if len(with.Map()) > len(want)+1 {
				t.Fatalf("%q with %q = %q: %q", in, name, value, with)
			}
		}
		if !bytes.Equal(in, before) {
			t.Fatalf("%q was changed to %q", before, in)
		}
		if len(in) > 32767 {
			return
		}
		for _, l := range []record.Limits{{}, {PropertyCRC: true}} {
			m := &record.Message{Topic: "T", Properties: p}
			b, err := record.AppendRecord(nil, m, l)
			if err != nil {
				if errors.Is(err, record.ErrPropertiesTooLong) {
					continue
				}
				t.Fatal(err)
			}
			d, err := record.Decode(b)
			if err != nil {
				t.Fatalf("%q, %+v: %v", in, l, err)
			}
			for n, v := range want {
				if w, _ := d.Properties.Get(n); n != record.PropertyCRC32 && w != v {
					t.Fatalf("%q, %+v: stored %q", in, l, d.Properties)
				}
			}
		}
	})
}

// readSlowly is the rule of spec/commitlog-format.md 1.5, word for word.
func readSlowly(in []byte) map[string]string {
	m := map[string]string{}
	for entry := range splitText(string(in)) {
		if i := strings.Index(entry, "\x01"); len(entry) >= 3 && i > 0 && i < len(entry)-1 {
			m[entry[:i]] = entry[i+1:]
		}
	}
	return m
}

func splitText(s string) iter.Seq[string] { return strings.SplitSeq(s, "\x02") }

// FuzzBatch: what splits is made of the bytes at hand, and encodes to the same bytes but for the three fields that do not count.
func FuzzBatch(f *testing.F) {
	one := record.AppendBatchItem(nil, record.BatchItem{Flag: 1, Body: []byte("b"), Properties: props("K=v")})
	f.Add([]byte{})
	f.Add(one)
	f.Add(append(bytes.Clone(one), one...))
	f.Add(make([]byte, 22*3))
	f.Fuzz(func(t *testing.T, in []byte) {
		in = in[:len(in):len(in)]
		items, err := record.SplitBatch(in)
		if err != nil {
			if !errors.Is(err, record.ErrBatch) || items != nil {
				t.Fatalf("%v, %v", items, err)
			}
			return
		}
		if len(items) == 0 || len(items) > len(in)/22 {
			t.Fatalf("%d items of %d bytes", len(items), len(in))
		}
		want, at := bytes.Clone(in), 0
		var out []byte
		for _, it := range items {
			size := 22 + len(it.Body) + len(it.Properties)
			binary.BigEndian.PutUint32(want[at:], uint32(size))
			clear(want[at+4 : at+12])
			at += size
			out = record.AppendBatchItem(out, it)
		}
		if !bytes.Equal(out, want) {
			t.Fatalf("%x encodes to\n%x", want, out)
		}
	})
}

// FuzzMessageID: what is read as an id is written as the same.
func FuzzMessageID(f *testing.F) {
	f.Add("C0A8000100002A9F0000000000001000")
	f.Add("20010DB8FFFF0000000000000000000900002A9F00000000000002E1")
	f.Add("00000000000000000000FFFF0102030400002a9f00000000000002e1")
	f.Fuzz(func(t *testing.T, s string) {
		h, off, err := record.ParseOffsetMessageID(s)
		if err != nil {
			if !errors.Is(err, record.ErrMessageID) {
				t.Fatal(err)
			}
			return
		}
		if got := record.OffsetMessageID(h, off); got != strings.ToUpper(s) {
			t.Fatalf("%q is %v @%d, which is %q", s, h, off, got)
		}
	})
}

// FuzzDecompress: no bytes make a codec panic, exceed the bound, or allocate beyond it; what decodes comes back through compression.
func FuzzDecompress(f *testing.F) {
	for _, c := range codecs {
		for _, body := range [][]byte{{}, []byte("some text, some text"), make([]byte, 10_000)} {
			z, err := record.CompressBody(c, 0, body)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(byte(c), z, uint16(5000))
		}
	}
	f.Fuzz(func(t *testing.T, codec byte, in []byte, bound uint16) {
		c := record.Compression(codec % 5)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		out, err := record.DecompressBody(c, in, int(bound))
		runtime.ReadMemStats(&after)
		// The first use of a codec fills its pools; the rest is small and known.
		if n := after.TotalAlloc - before.TotalAlloc; n > 32<<20 {
			t.Fatalf("%v: %d bytes allocated for a bound of %d", c, n, bound)
		}
		if err != nil {
			if !errors.Is(err, record.ErrBody) {
				t.Fatal(err)
			}
			return
		}
		if bound > 0 && len(out) > int(bound) && c != record.CompressionNone {
			t.Fatalf("%v: %d bytes with a bound of %d", c, len(out), bound)
		}
		z, err := record.CompressBody(c, 0, out)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := record.DecompressBody(c, z, len(out)); err != nil || !bytes.Equal(again, out) {
			t.Fatalf("%v: %d bytes of %d come back, %v", c, len(again), len(out), err)
		}
	})
}
