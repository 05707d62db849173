package workload_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/workload"
	"github.com/mqstore/mqstore/store"
)

var compareHosts = cmp.Comparer(func(a, b record.Host) bool { return a == b })

func sameWorkload(t *testing.T, got, want workload.Workload) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read back:\n%s", cmp.Diff(want, got, compareHosts))
	}
}

// What is written reads back as it was.
func TestTheTextHasEverything(t *testing.T) {
	for seed := range uint64(60) {
		w := workload.Generate(seed, workload.Options{Ops: 400})
		got, err := workload.Parse([]byte(w.String()))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		// A batch without items, and properties that are none, are nil when they are read.
		for i := range w.Ops {
			if len(w.Ops[i].Items) == 0 {
				w.Ops[i].Items = nil
			}
		}
		if sameWorkload(t, got, w); t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// The text as the documentation shows it.
func TestTheTextIsAsDocumented(t *testing.T) {
	host, err := record.ParseHost("[2001:db8::1]:10911")
	if err != nil {
		t.Fatal(err)
	}
	props := func(kv ...string) (ps []workload.Property) {
		for i := 0; i < len(kv); i += 2 {
			ps = append(ps, workload.Property{Name: kv[i], Value: kv[i+1]})
		}
		return ps
	}
	for _, c := range []struct {
		line string
		want workload.Op
	}{
		{`put topic=A queue=1 len=100 seed=7 tags=red keys="k1 k2" uniq=u3`, workload.Op{Kind: workload.Put, Topic: "A", Queue: 1, Message: workload.Message{Len: 100, Seed: 7, Props: props("TAGS", "red", "KEYS", "k1 k2", "UNIQ_KEY", "u3")}}},
		{`put topic=A queue=1 len=40 seed=8 host=[2001:db8::1]:10911 tx=prepared`, workload.Op{Kind: workload.Put, Topic: "A", Queue: 1, Message: workload.Message{Len: 40, Seed: 8, Tx: record.TransactionPrepared, Host: host}}},
		{`async topic=B len=5 prop:COLOUR=blue`, workload.Op{Kind: workload.Async, Topic: "B", Message: workload.Message{Len: 5, Props: props("COLOUR", "blue")}}},
		{`await`, workload.Op{Kind: workload.Await}},
		{`batch topic=A wait=false | len=10 seed=1 tags=red | len=20 seed=2`, workload.Op{Kind: workload.Batch, Topic: "A", Message: workload.Message{Props: props("WAIT", "false")}, Items: []workload.Message{{Len: 10, Seed: 1, Props: props("TAGS", "red")}, {Len: 20, Seed: 2}}}},
		{`clock add=30`, workload.Op{Kind: workload.SetClock, Add: 30}},
		{`get topic=A queue=1 at=max-2 max=5 filter="red || green"`, workload.Op{Kind: workload.Get, Topic: "A", Queue: 1, At: workload.Ref{Base: workload.Max, Plus: -2}, Max: 5, Filter: "red || green"}},
		{`bytime topic=A queue=1 time=back2+1 rule=lower`, workload.Op{Kind: workload.ByTime, Topic: "A", Queue: 1, Time: workload.Ref{Base: workload.Back, Back: 2, Plus: 1}, Rule: store.Lower}},
		{`lookup phy=back1`, workload.Op{Kind: workload.Lookup, Phy: workload.Ref{Base: workload.Back, Back: 1}}},
		{`query topic=A key=k1 begin=now-100`, workload.Op{Kind: workload.Query, Topic: "A", Key: "k1", Begin: workload.Ref{Base: workload.Now, Plus: -100}}},
		{`expire segments=1`, workload.Op{Kind: workload.Expire, Segments: 1}},
		{`crash how=power seed=5`, workload.Op{Kind: workload.Crash, How: workload.Power, Seed: 5}},
		{`whole`, workload.Op{Kind: workload.Whole}},
	} {
		got, err := workload.ParseOp(c.line)
		if err != nil {
			t.Errorf("%s: %v", c.line, err)
			continue
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n%s", c.line, cmp.Diff(c.want, got, compareHosts))
		}
		if got.String() != c.line {
			t.Errorf("%s\nis written as\n%s", c.line, got)
		}
	}
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range workload.Kinds() {
		if !strings.Contains(string(doc), string(k)) {
			t.Errorf("the documentation does not know %q", k)
		}
	}
}

// A text that is none is refused, with the line and what is wrong.
func TestBadTextIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"put topic=A\nfly":                             "line 2",
		"put topic":                                    "no field=value",
		"put colour=blue":                              `no field "colour"`,
		"put topic=A topic=B":                          "twice",
		"put len=x":                                    "no number",
		"put len=99999999999999":                       "no number",
		"put len=1000000000":                           "more than",
		"put tx=maybe":                                 "prepared",
		"put host=nowhere":                             "host",
		`put topic="A`:                                 "quote",
		"get at=middle":                                "no place or time",
		"get at=back":                                  "no place or time",
		"get at=max+":                                  "no place or time",
		"put topic=A | len=3":                          "no items",
		"bytime rule=best":                             "nearest",
		"put topic=A\nstore segment=4096":              `"store" is no operation`,
		"store segment=4096\nstore segment=4096":       `"store" is no operation`,
		"crash how=gently":                             "kill",
		"batch topic=A | topic=B":                      "item 0",
		"append rest=perhaps":                          "neither true nor false",
		"store role=king":                              "async",
		"query max=-99999999999":                       "no number",
		"lookup phy=back99999999999999999999":          "no place or time",
		"put prop:":                                    "no field=value",
		"log phy=min-9223372036854775809":              "no place or time",
		"clock set=1e3":                                "no number",
		"reopen now=true":                              `no field "now"`,
		"get filter=\"a\"b":                            "no field=value",
		"unit topic=A queue=2147483648":                "no number",
		"bounds topic=A queue=0 at=1 # at is too much": `no field "at"`,
	} {
		_, err := workload.Parse([]byte(text))
		if !errors.Is(err, workload.ErrText) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.workload")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(workload.Generate(1, workload.Options{Ops: 6}).String()))
	f.Fuzz(func(t *testing.T, text []byte) {
		w, err := workload.Parse(text)
		if err != nil {
			return
		}
		again, err := workload.Parse([]byte(w.String()))
		if err != nil {
			t.Fatalf("what was written is not read:\n%s\n%v", w, err)
		}
		sameWorkload(t, again, w)
	})
}

func FuzzParseAnswer(f *testing.F) {
	f.Add("ok")
	f.Add("PUT_OK phy=0 size=92 at=0 time=1700000000000 n=1 id=0000000000000000000000000000005C # words")
	f.Add(`FOUND next=1 rec="a b" rec= # x  y`)
	f.Fuzz(func(t *testing.T, line string) {
		a, err := workload.ParseAnswer(line)
		if err != nil {
			return
		}
		again, err := workload.ParseAnswer(a.String())
		if err != nil {
			t.Fatalf("what was written is not read: %s: %v", a, err)
		}
		if !reflect.DeepEqual(a, again) {
			t.Errorf("%#v\nreads back as\n%#v", a, again)
		}
	})
}
