package record_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mqstore/mqstore/commitlog/record"
)

// props reads properties written readably, = for 0x01 and ; for 0x02; text is the inverse.
func props(text string) record.Properties {
	return record.Properties(strings.NewReplacer("=", "\x01", ";", "\x02").Replace(text))
}

func text(p record.Properties) string {
	return strings.NewReplacer("\x01", "=", "\x02", ";").Replace(string(p))
}

// Acceptance as in RocketMQ: 3 bytes or more, the first 0x01 neither first nor last, the last of several wins.
func TestPropertiesAreReadByTheOriginalsRules(t *testing.T) {
	for _, tt := range []struct {
		text string
		want map[string]string
	}{
		{"", map[string]string{}},
		{"A=b", map[string]string{"A": "b"}},
		{"A=b;", map[string]string{"A": "b"}},
		{"A=b;C=d", map[string]string{"A": "b", "C": "d"}},
		{"A=b;C=d;", map[string]string{"A": "b", "C": "d"}},
		{"A=b;;C=d;;", map[string]string{"A": "b", "C": "d"}},
		{";A=b", map[string]string{"A": "b"}},
		{"A=;B=c", map[string]string{"B": "c"}},   // empty value
		{"=a;B=c", map[string]string{"B": "c"}},   // empty name
		{"=a=b;B=c", map[string]string{"B": "c"}}, // still an empty name
		{"A;B=c", map[string]string{"B": "c"}},    // no 0x01
		{"A", map[string]string{}},
		{"=", map[string]string{}},
		{"A=", map[string]string{}},
		{";", map[string]string{}},
		{"A=b=c", map[string]string{"A": "b=c"}}, // a value may hold 0x01
		{"A==", map[string]string{"A": "="}},
		{"A=1;B=2;A=3", map[string]string{"A": "3", "B": "2"}},
		{"A=1;A=", map[string]string{"A": "1"}}, // a malformed one overrides nothing
		{"AB=1;B=2", map[string]string{"AB": "1", "B": "2"}},
		{"X=A=1;", map[string]string{"X": "A=1"}},
		{"TAGS=中文;KEYS=a b", map[string]string{"TAGS": "中文", "KEYS": "a b"}},
	} {
		p := props(tt.text)
		want := map[string]string{}
		for k, v := range tt.want {
			want[k] = string(props(v))
		}
		if d := cmp.Diff(want, p.Map()); d != "" {
			t.Errorf("%q: %s", tt.text, d)
		}
		for _, name := range []string{"A", "B", "C", "X", "AB", "TAGS", "KEYS", "", "A\x01b", "b\x02C", "\x01"} {
			v, ok := p.Get(name)
			w, wok := want[name]
			if v != w || ok != wok {
				t.Errorf("%q: Get(%q) = %q, %v, want %q, %v", tt.text, name, v, ok, w, wok)
			}
		}
	}
}

func TestPropertiesKeepTheirWritersOrder(t *testing.T) {
	var got []string
	for n, v := range props("Z=1;A=2;=;M=3;A=4;").All() {
		got = append(got, n+v)
	}
	if d := cmp.Diff([]string{"Z1", "A2", "M3", "A4"}, got); d != "" {
		t.Error(d)
	}
	for range props("Z=1;A=2").All() {
		break
	}
}

func TestNewProperties(t *testing.T) {
	if got := text(record.NewProperties("A", "b", "C", "d")); got != "A=b;C=d" {
		t.Errorf("%q, want no separator at the end", got)
	}
	if got := record.NewProperties(); len(got) != 0 {
		t.Errorf("%q", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("a name without a value was taken")
		}
	}()
	record.NewProperties(strings.Fields("A")...)
}

func TestPropertiesWithAndWithout(t *testing.T) {
	const crc = "__CRC32#=0123456789;"
	for _, tt := range []struct{ text, with, without string }{
		{"", "N=v", ""},
		{"A=b", "A=b;N=v", "A=b"},
		{"A=b;", "A=b;N=v;", "A=b;"},
		{"N=1", "N=v", ""},
		{"N=1;", "N=v;", ""},
		{"N=1;A=b", "N=v;A=b", "A=b"},
		{"A=b;N=1", "A=b;N=v", "A=b"},
		{"A=b;N=1;", "A=b;N=v;", "A=b;"},
		{"N=1;A=b;N=2", "N=v;A=b", "A=b"},
		{"N=1;A=b;N=2;", "N=v;A=b;", "A=b;"},
		{"N=;A=b", "N=;A=b;N=v", "N=;A=b"},
		{"NN=1;XN=2", "NN=1;XN=2;N=v", "NN=1;XN=2"},
		{crc, "N=v;" + crc, crc},
		{"A=b;" + crc, "A=b;N=v;" + crc, "A=b;" + crc},
		{"N=1;" + crc, "N=v;" + crc, crc},
	} {
		p := props(tt.text)
		if got := text(p.With("N", "v")); got != tt.with {
			t.Errorf("%q with N: %q, want %q", tt.text, got, tt.with)
		}
		if got := text(p.Without("N")); got != tt.without {
			t.Errorf("%q without N: %q, want %q", tt.text, got, tt.without)
		}
		if text(p) != tt.text {
			t.Errorf("%q was changed to %q", tt.text, text(p))
		}
	}
	if got := text(props("A=b;" + crc).Without(record.PropertyCRC32)); got != "A=b;" {
		t.Errorf("without the CRC: %q", got)
	}
}

func TestValidProperty(t *testing.T) {
	for _, tt := range []struct {
		name, value string
		want        bool
	}{{"A", "b", true}, {"A", "b\x01c", true}, {"", "b", false}, {"A", "", false}, {"A\x01", "b", false}, {"A\x02", "b", false}, {"A", "\x02", false}} {
		if got := record.ValidProperty(tt.name, tt.value); got != tt.want {
			t.Errorf("ValidProperty(%q, %q) = %v", tt.name, tt.value, got)
		}
		v, ok := record.NewProperties("X", "y", tt.name, tt.value).Get(tt.name)
		if tt.want && (!ok || v != tt.value) {
			t.Errorf("%q: %q comes back as %q, %v", tt.name, tt.value, v, ok)
		}
	}
}

func TestMessageAccessors(t *testing.T) {
	m := &record.Message{Properties: props("KEYS= a  b c ;TAGS=TagA;UNIQ_KEY=u")}
	if d := cmp.Diff([]string{"a", "b", "c"}, m.Keys()); d != "" {
		t.Error(d)
	}
	if m.Tags() != "TagA" || m.UniqKey() != "u" || m.TagsCode() != 2598919 {
		t.Errorf("%q, %q, %d", m.Tags(), m.UniqKey(), m.TagsCode())
	}
	m = &record.Message{}
	if m.Tags() != "" || m.UniqKey() != "" || m.TagsCode() != 0 || m.Keys() != nil {
		t.Error("an empty message has properties")
	}
}

func TestMergeBatchProperties(t *testing.T) {
	for _, tt := range []struct{ item, batch, want string }{
		{"", "", ""}, {"A=b", "", "A=b"}, {"", "C=d", "C=d"}, {"A=b;", "", "A=b;"}, {"", "C=d;", "C=d;"},
		{"A=b", "C=d", "A=b;C=d"}, {"A=b;", "C=d", "A=b;C=d"}, {"A=b;", "C=d;", "A=b;C=d;"},
	} {
		if got := text(record.MergeBatchProperties(props(tt.item), props(tt.batch))); got != tt.want {
			t.Errorf("%q and %q: %q, want %q", tt.item, tt.batch, got, tt.want)
		}
	}
}
