package remoting

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func commands() map[string]*Command {
	return map[string]*Command{
		"zero":    {},
		"request": NewRequest(43),
		"full": {
			Code: 103, Language: Go, Version: 409, Opaque: -7, Flag: 1 << 5, Remark: "größe <&> \"\\\n",
			ExtFields: map[string]string{"brokerName": "broker-a", "": "", "ключ": "значение"}, Body: []byte("{1:2}"),
		},
		"answer": NewResponse(&Command{Opaque: 12}, SystemError, "No topic"),
		"body":   {Code: 1<<15 - 1, Language: NodeJS, Body: bytes.Repeat([]byte{0, 255}, 100_000)},
	}
}

func TestWhatIsEncodedDecodesToTheSame(t *testing.T) {
	for name, c := range commands() {
		for _, s := range []Serialization{JSON, Binary} {
			c := *c
			c.Serialization = s
			b, err := c.AppendFrame([]byte("before"), 0)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if !bytes.HasPrefix(b, []byte("before")) {
				t.Errorf("%s: what dst held is gone", name)
			}
			b = b[len("before"):]
			got, err := Decode(b, 0)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if d := cmp.Diff(&c, got); d != "" {
				t.Errorf("%s, header type %d: %s", name, s, d)
			}
			r := bytes.NewReader(append(b, "next"...))
			got, err = ReadCommand(r, 0)
			if err != nil || cmp.Diff(&c, got) != "" || r.Len() != len("next") {
				t.Errorf("%s: ReadCommand: %v, %d bytes left; %s", name, err, r.Len(), cmp.Diff(&c, got))
			}
			for cut := range min(len(b), 300) {
				_, err := ReadCommand(bytes.NewReader(b[:cut]), 0)
				if want := map[bool]error{true: io.EOF, false: io.ErrUnexpectedEOF}[cut == 0]; !errors.Is(err, want) {
					t.Errorf("%s cut to %d bytes: %v, want %v", name, cut, err, want)
				}
			}
		}
	}
}

func frame(typ Serialization, header, body string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(4+len(header)+len(body)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(header))|uint32(typ)<<24)
	return append(append(b, header...), body...)
}

func TestFramesHaveTheOriginalsBytes(t *testing.T) {
	c := &Command{Code: 43, Language: Go, Version: 409, Opaque: 5, Flag: 1, Remark: "r", ExtFields: map[string]string{"k": "vw"}, Body: []byte("B")}
	for s, want := range map[Serialization]string{
		JSON: hex.EncodeToString(frame(JSON, `{"code":43,"language":"GO","version":409,"opaque":5,"flag":1,"remark":"r","extFields":{"k":"vw"}}`, "B")),
		Binary: "00000024" + "0100001f" + // lengths
			"002b" + "09" + "0199" + "00000005" + "00000001" + "00000001" + "72" +
			"00000009" + "0001" + "6b" + "00000002" + "7677" + "42",
	} {
		c.Serialization = s
		b, err := c.AppendFrame(nil, 0)
		if got := hex.EncodeToString(b); err != nil || got != want {
			t.Errorf("type %d: %v\n got %s\nwant %s", s, err, got, want)
		}
	}
}

func TestReadingIsAsTolerantAsTheOriginal(t *testing.T) {
	for header, want := range map[string]*Command{
		`{}`: {},
		`{"code":43,"flag":0,"language":"GO","opaque":1,"version":0,"extFields":{}}`:  {Code: 43, Language: Go, Opaque: 1},
		`{"code":43,"serializeTypeCurrentRPC":"JSON","extFields":null,"remark":null}`: {Code: 43},
		`{"code":"43","language":null,"opaque":null}`:                                 {Code: 43},
		`{"code":1,"language":"ESPERANTO","unknown":{"a":[1,{2:3}]}}`:                 {Code: 1, Language: Other},
		`{"code":1,"language":9}`:   {Code: 1, Language: Go},
		`{"code":1,"language":200}`: {Code: 1, Language: Other},
		"\t{ \"code\" :1 ,\n\"extFields\":{\"a\":1,\"b\":true,\"c\":null,\"d\":\"x\"} }": {Code: 1, ExtFields: map[string]string{"a": "1", "b": "true", "d": "x"}},
		`{"code":1,"extFields":{7:"x"}}`:                                                 {Code: 1, ExtFields: map[string]string{"7": "x"}},
	} {
		got, err := Decode(frame(JSON, header, ""), 0)
		if err != nil {
			t.Errorf("%s: %v", header, err)
		} else if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", header, d)
		}
	}
}

func TestWhatIsNoFrameIsRefusedByName(t *testing.T) {
	bin := func(remarkLen, extLen int32, tail string) string {
		b := make([]byte, posRemark)
		binary.BigEndian.PutUint32(b[posRemarkLen:], uint32(remarkLen))
		return string(binary.BigEndian.AppendUint32(b, uint32(extLen))) + tail
	}
	long := frame(JSON, "{}", "")
	binary.BigEndian.PutUint32(long, 1<<24-3)
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"short":                {[]byte{0, 0, 0}, ErrMalformed},
		"length 0":             {make([]byte, 8), ErrMalformed},
		"length negative":      {[]byte{255, 255, 255, 255, 0, 0, 0, 0}, ErrTooLarge},
		"one above the limit":  {long, ErrTooLarge},
		"header beyond frame":  {[]byte{0, 0, 0, 4, 0, 0, 0, 1}, ErrMalformed},
		"header type 2":        {frame(2, "{}", ""), ErrMalformed},
		"header no JSON":       {frame(JSON, "{", ""), ErrMalformed},
		"header empty":         {frame(JSON, "", "{}"), ErrMalformed},
		"code too large":       {frame(JSON, `{"code":2147483648}`, ""), ErrMalformed},
		"remark an object":     {frame(JSON, `{"remark":{}}`, ""), ErrMalformed},
		"argument an array":    {frame(JSON, `{"extFields":{"a":[]}}`, ""), ErrMalformed},
		"binary short":         {frame(Binary, strings.Repeat("\x00", 20), ""), ErrMalformed},
		"binary remark":        {frame(Binary, bin(5, 0, ""), ""), ErrMalformed},
		"binary remark neg":    {frame(Binary, bin(-1, 0, ""), ""), ErrMalformed},
		"binary ext":           {frame(Binary, bin(0, 1, ""), ""), ErrMalformed},
		"binary ext neg":       {frame(Binary, bin(0, -1, ""), ""), ErrMalformed},
		"binary key":           {frame(Binary, bin(0, 4, "\x7f\xff\x00\x00"), ""), ErrMalformed},
		"binary value":         {frame(Binary, bin(0, 7, "\x00\x01k\x00\x00\x00\x01"), ""), ErrMalformed},
		"binary half a length": {frame(Binary, bin(0, 1, "\x00"), ""), ErrMalformed},
	} {
		_, err := Decode(c.b, 0)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	for name, c := range map[string]*Command{
		"code":   {Code: 1 << 15, Serialization: Binary},
		"ver":    {Version: -1<<15 - 1, Serialization: Binary},
		"key":    {ExtFields: map[string]string{strings.Repeat("k", 1<<15): ""}, Serialization: Binary},
		"type":   {Serialization: 2},
		"size":   {Body: make([]byte, DefaultMaxFrame-8-2)},
		"header": {Remark: strings.Repeat("r", 1<<24), Serialization: Binary},
	} {
		if b, err := c.AppendFrame([]byte("kept"), 0); err == nil || string(b) != "kept" {
			t.Errorf("%s: encoded to %d bytes, %v", name, len(b), err)
		}
	}
}

func TestALengthAloneCostsNoMemory(t *testing.T) {
	b := []byte{0, 255, 255, 252, 0, 0, 0, 2, '{', '}'}
	var before, after runtime.MemStats
	const n = 100
	runtime.ReadMemStats(&before)
	for range n {
		if _, err := ReadCommand(bytes.NewReader(b), 0); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / n; each > 2*firstRead {
		t.Errorf("%d bytes allocated for a frame of which 10 came", each)
	}
}

func FuzzDecode(f *testing.F) {
	for _, c := range commands() {
		for _, s := range []Serialization{JSON, Binary} {
			c.Serialization = s
			b, _ := c.AppendFrame(nil, 0)
			f.Add(b[:min(len(b), 4000)])
		}
	}
	f.Add(frame(JSON, `{"code":"1","extFields":{"a":1,2:null}}`, "x"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := Decode(b, 1<<16)
		if err != nil {
			if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrTooLarge) {
				t.Fatalf("%v is neither sentinel", err)
			}
			return
		}
		again, err := c.AppendFrame(nil, 0)
		if err != nil {
			t.Fatalf("decoded, but encodes not: %v", err)
		}
		got, err := Decode(again, 0)
		if err != nil {
			t.Fatalf("encoded, but decodes not: %v", err)
		}
		if d := cmp.Diff(c, got); d != "" {
			t.Fatal(d)
		}
		twice, err := got.AppendFrame(nil, 0)
		if err != nil || !bytes.Equal(again, twice) {
			t.Fatalf("%v: encoding is not stable:\n%q\n%q", err, again, twice)
		}
	})
}

func ExampleCommand() {
	req := NewRequest(43) // GET_ALL_CONSUMER_OFFSET
	req.Opaque = 1
	frame, err := req.AppendFrame(nil, 0)
	if err != nil {
		fmt.Println(err)
	}
	got, err := ReadCommand(bytes.NewReader(frame), 0)
	fmt.Println(got.Code, got.Language, got.IsResponse(), err)
	// Output: 43 GO false <nil>
}
