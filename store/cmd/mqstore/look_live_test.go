package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store/internal/repair"
)

// growing is a log that is another one each time a file of it is opened to be read, up to the last.
type growing struct {
	fstest.MapFS // what is listed
	as           []fstest.MapFS
}

func (g *growing) Open(name string) (fs.File, error) {
	if !strings.HasPrefix(name, "0") || len(g.as) == 0 {
		return g.MapFS.Open(name)
	}
	f, err := g.as[0].Open(name)
	if len(g.as) > 1 {
		g.as = g.as[1:]
	}
	return f, err
}

// What was half there when it was read is no damage of a log that grows, and what stays half there ends it; damage with records behind it is damage there, too.
func TestALogThatGrowsIsNotDamaged(t *testing.T) {
	const size = 1000
	rec := func(at int64) []byte {
		m := &record.Message{Topic: "T", PhyOffset: at, Body: bytes.Repeat([]byte("body"), 25)}
		b, err := record.AppendRecord(nil, m, record.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		record.Patch(b, 0, at, 1)
		return b
	}
	n := int64(len(rec(0)))
	whole := map[int64][]byte{}
	for _, at := range []int64{0, n, 2 * n, size} {
		whole[at] = rec(at)
	}
	torn := append(bytes.Clone(whole[n][:30]), make([]byte, n-30)...)
	holed := bytes.Clone(whole[n]) // it parses but for its checksum
	clear(holed[n-60 : n-10])
	blank := make([]byte, record.BlankHeaderSize)
	record.PutBlank(blank, int(size-2*n))
	files := func(parts ...[]byte) fstest.MapFS { // the last one begins the second segment
		first, second := bytes.Join(parts[:len(parts)-1], nil), parts[len(parts)-1]
		return fstest.MapFS{
			fmt.Sprintf("%020d", 0):    {Data: append(first, make([]byte, size-len(first))...)},
			fmt.Sprintf("%020d", size): {Data: append(bytes.Clone(second), make([]byte, size-len(second))...)},
		}
	}
	a, b, c, next := whole[0], whole[n], whole[2*n], whole[size]
	for name, is := range map[string]struct {
		as   []fstest.MapFS
		want string
	}{
		"half there":                           {[]fstest.MapFS{files(a, torn, nil), files(a, b, nil)}, fmt.Sprint(0, n)},
		"half there, and one behind it":        {[]fstest.MapFS{files(a, torn, c, nil), files(a, b, c, nil)}, fmt.Sprint(0, n, 2*n)},
		"half a body":                          {[]fstest.MapFS{files(a, holed, nil), files(a, b, nil)}, fmt.Sprint(0, n)},
		"half a body, and one behind it":       {[]fstest.MapFS{files(a, holed, c, nil), files(a, b, c, nil)}, fmt.Sprint(0, n, 2*n)},
		"twice half a body":                    {[]fstest.MapFS{files(a, holed, nil), files(a, holed, c, nil), files(a, b, c, nil)}, fmt.Sprint(0, n, 2*n)},
		"not there, and the next segment is":   {[]fstest.MapFS{files(a, nil), files(a, next), files(a, b, blank, next)}, fmt.Sprint(0, n, size)},
		"for ever half there":                  {[]fstest.MapFS{files(a, torn, nil)}, fmt.Sprint(0)},
		"for ever half a body":                 {[]fstest.MapFS{files(a, holed, nil)}, fmt.Sprint(0)},
		"for ever half, and one behind it":     {[]fstest.MapFS{files(a, torn, c, nil)}, fmt.Sprint(0, " damage ", 2*n)},
		"for ever a body, and one behind it":   {[]fstest.MapFS{files(a, holed, c, nil)}, fmt.Sprint(0, n, " crc ", 2*n)},
		"for ever not there, but next segment": {[]fstest.MapFS{files(a, next)}, fmt.Sprint(0, " damage ", size)},
	} {
		listed := files(a, nil)
		log := &growing{MapFS: listed, as: is.as}
		root := fstest.MapFS{"commitlog/x": {}, "checkpoint": {Data: make([]byte, 4096)}}
		looked, err := repair.Look(root, log)
		if err != nil {
			t.Fatal(err)
		}
		r, err := (&look{files: looked, live: true}).readLog(0)
		if err != nil {
			t.Fatal(err)
		}
		var got []any
		for {
			rec, err := r.Next()
			if d := (*repair.Damage)(nil); errors.As(err, &d) {
				got = append(got, " damage ")
				continue
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got = append(got, rec.Meta.PhyOffset)
			if rec.CRC != nil {
				got = append(got, " crc ")
			}
		}
		if g := fmt.Sprint(got...); g != is.want {
			t.Errorf("%s: read %s, want %s", name, g, is.want)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
