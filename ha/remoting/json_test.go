package remoting

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBareIntegerKeysAreQuotedAndNothingElse(t *testing.T) {
	for in, want := range map[string]string{
		`{0:12,1:7}`:                 `{"0":12,"1":7}`,
		`{"a@b":{0:10,1:8}}`:         `{"a@b":{"0":10,"1":8}}`,
		"{\n\t\"t\":{1:4\n\t}\n}":    "{\n\t\"t\":{\"1\":4\n\t}\n}",
		`{ -3 : 5 }`:                 `{ "-3" : 5 }`,
		`{1:{2:{3:[4,{5:6}]}}}`:      `{"1":{"2":{"3":[4,{"5":6}]}}}`,
		`{"1":2,3:"{4:5}"}`:          `{"1":2,"3":"{4:5}"}`,
		`{"\"":1,2:"\\\"{3:4,5:6}"}`: `{"\"":1,"2":"\\\"{3:4,5:6}"}`,
		`{"\\":1,2:3}`:               `{"\\":1,"2":3}`,
		`[1,2,-3.5e4,{"a":5}]`:       `[1,2,-3.5e4,{"a":5}]`,
		`{-:1}`:                      `{-:1}`,
		`{1.5:1}`:                    `{1.5:1}`,
		`{a:1}`:                      `{a:1}`,
		`{"open`:                     `{"open`,
		`{"open\`:                    `{"open\`,
		`{1`:                         `{1`,
		``:                           ``,
	} {
		if got := string(NormalizeJSON([]byte(in))); got != want {
			t.Errorf("%s\n got %s\nwant %s", in, got, want)
		}
	}
}

func TestMarshalledMapsReadBackThroughUnmarshal(t *testing.T) {
	in := map[string]map[int32]int64{"<a>@&": {0: 1, -1: 1<<63 - 1}}
	b, err := Marshal(in)
	if err != nil || strings.Contains(string(b), `\u`) {
		t.Fatalf("%s, %v", b, err)
	}
	var out map[string]map[int32]int64
	if err := Unmarshal(b, &out); err != nil || cmp.Diff(in, out) != "" {
		t.Errorf("%v: %s", err, cmp.Diff(in, out))
	}
}

// fastjson writes v as fastjson 1.x does, with spaces thrown in; the same in valid JSON beside it.
func fastjson(rng *rand.Rand, depth int) (bare, valid string) {
	both := func(s string) (string, string) { return s, s }
	space := func() string { return []string{"", "", " ", "\n\t", "\r\n"}[rng.IntN(5)] }
	text := func() string {
		parts := []string{`{1:2}`, `"`, `\`, `,3:`, "ü", "\x01", " ", "0"}
		var s string
		for range rng.IntN(5) {
			s += parts[rng.IntN(len(parts))]
		}
		q, _ := json.Marshal(s)
		return string(q)
	}
	if depth == 0 {
		switch rng.IntN(4) {
		case 0:
			return both(text())
		case 1:
			return both(strconv.Itoa(rng.IntN(100) - 50))
		case 2:
			return both("-1.5e3")
		}
		return both("null")
	}
	open, end := "{", "}"
	kind := rng.IntN(3)
	if kind == 0 {
		open, end = "[", "]"
	}
	bare, valid = open, open
	for i := range rng.IntN(4) {
		if i > 0 {
			s := space() + "," + space()
			bare, valid = bare+s, valid+s
		}
		switch kind {
		case 1:
			k := strconv.Itoa(rng.IntN(1000) - 100)
			s := space() + ":" + space()
			bare, valid = bare+k+s, valid+`"`+k+`"`+s
		case 2:
			s := text() + space() + ":" + space()
			bare, valid = bare+s, valid+s
		}
		b, v := fastjson(rng, depth-1)
		bare, valid = bare+b, valid+v
	}
	s := space() + end
	return bare + s, valid + s
}

func TestFastjsonTextMeansTheSameAsItsJSON(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 3000 {
		bare, valid := fastjson(rng, rng.IntN(5))
		if !json.Valid([]byte(valid)) {
			t.Fatalf("the generator wrote %s", valid)
		}
		if got := string(NormalizeJSON([]byte(bare))); got != valid {
			t.Fatalf("%s\n got %s\nwant %s", bare, got, valid)
		}
	}
}

func FuzzNormalizeJSON(f *testing.F) {
	for _, s := range []string{`{0:1,"a":{-2 : "3:"}}`, `["\\",{1:"\"{2:3"}]`, `{1`, `{"a`, `{--1:2}`} {
		f.Add([]byte(s))
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		bare, _ := fastjson(rng, 3)
		f.Add([]byte(bare))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		before := string(text)
		got := NormalizeJSON(text)
		if string(text) != before {
			t.Fatal("the input was changed")
		}
		if json.Valid(text) && string(got) != before {
			t.Fatalf("valid JSON became %q", got)
		}
		if again := NormalizeJSON(got); string(again) != string(got) {
			t.Fatalf("not stable: %q, then %q", got, again)
		}
		if n := strings.ReplaceAll(string(got), `"`, ""); n != strings.ReplaceAll(before, `"`, "") {
			t.Fatalf("more than quotes changed: %q", got)
		}
	})
}

func ExampleNormalizeJSON() {
	fmt.Printf("%s\n", NormalizeJSON([]byte(`{"offsetTable":{"TopicTest@groupA":{0:10,1:8}}}`)))
	// Output: {"offsetTable":{"TopicTest@groupA":{"0":10,"1":8}}}
}
