package repair

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/golden"
)

func picture(t testing.TB, dir string) *Picture {
	t.Helper()
	f, err := Look(os.DirFS(dir), nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Draw(t.Context(), f, PictureOptions{Name: dir, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func svgOf(t testing.TB, p *Picture) string {
	t.Helper()
	var b bytes.Buffer
	if err := p.SVG(&b); err != nil {
		t.Fatal(err)
	}
	wellFormed(t, b.String())
	return b.String()
}

// wellFormed checks that s is XML, and names nothing that would run or be fetched.
func wellFormed(t testing.TB, s string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(s))
	d.Strict = true
	depth, elements := 0, map[string]int{}
	for {
		tok, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		switch x := tok.(type) {
		case xml.StartElement:
			depth++
			elements[x.Name.Local]++
			for _, a := range x.Attr {
				if strings.HasPrefix(a.Name.Local, "on") || strings.Contains(a.Name.Local, "href") {
					t.Errorf("attribute %s=%q", a.Name.Local, a.Value)
				}
				for _, bad := range []string{"NaN", "Inf", "%!"} {
					if strings.Contains(a.Value, bad) && a.Name.Local != "aria-label" {
						t.Errorf("%s %s=%.200q", x.Name.Local, a.Name.Local, a.Value)
					}
				}
			}
		case xml.EndElement:
			depth--
		}
	}
	for name := range elements {
		if !strings.Contains(" svg style defs pattern g rect line path text circle title ", " "+name+" ") {
			t.Errorf("an element %s", name)
		}
	}
	if depth != 0 || elements["svg"] != 1 {
		t.Errorf("%d elements open, %v", depth, elements)
	}
	if strings.Contains(s, "url(http") || strings.Contains(s, "@import") {
		t.Error("it fetches something")
	}
}

func TestPictureOfEachGoldenIsWellFormed(t *testing.T) {
	for _, name := range golden.Names() {
		root := golden.Extract(t, name)
		for dir, records := range stores(t, name) {
			t.Run(name+"/"+dir, func(t *testing.T) {
				p := picture(t, filepath.Join(root, dir))
				svg := svgOf(t, p)
				want := 0
				for _, r := range records {
					if !r.IsBlank() {
						want++
					}
				}
				if p.Records != int64(want) {
					t.Errorf("%d records, want %d", p.Records, want)
				}
				var size, queued float64
				for k := range classes {
					for _, b := range p.columns.bytes[k] {
						size += b
					}
				}
				for _, q := range p.Queues {
					queued += float64(q.Bytes)
				}
				if end := p.axis.used(p.LogEnd); int64(size) != end || queued > size {
					t.Errorf("columns hold %v bytes, queues %v, the log %d", size, queued, end)
				}
				if !strings.Contains(svg, "prefers-color-scheme:dark") {
					t.Error("no dark clothes")
				}
				var html bytes.Buffer
				if err := p.HTML(&html); err != nil || !strings.Contains(html.String(), "default-src 'none'") || strings.Contains(html.String(), "<script") {
					t.Errorf("page: %v", err)
				}
			})
		}
	}
}

// The damage of each kind is drawn where it is.
func TestPictureShowsDamageInItsPlace(t *testing.T) {
	dir := filepath.Join(golden.Extract(t, "basic"), "store")
	seg := filepath.Join(dir, "commitlog/00000000000000065536")
	b, err := os.ReadFile(seg)
	if err != nil {
		t.Fatal(err)
	}
	b[100]++
	if err := os.WriteFile(seg, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "consumequeue/TopicB/0")); err != nil {
		t.Fatal(err)
	}
	p := picture(t, dir)
	if p.Counts[BadCRC] != 1 || p.Counts[MissingQueue] != 1 {
		t.Errorf("findings: %v", p.Counts)
	}
	var damaged, waiting float64
	for i := range columnCount {
		if damaged += p.columns.bytes[classDamaged][i]; p.columns.bytes[classDamaged][i] > 0 && int64(i)*p.columns.width > 65536+10_000 {
			t.Errorf("column %d, of the log from %d on, is damaged", i, int64(i)*p.columns.width)
		}
		waiting += p.columns.bytes[classWaiting][i]
	}
	if damaged == 0 || waiting == 0 || p.Queues[0].Topic != "TopicB" || p.Queues[0].Waiting == 0 {
		t.Errorf("%v bytes damaged, %v not in a queue; first of all is %+v", damaged, waiting, p.Queues[0])
	}
	svg := svgOf(t, p)
	for _, want := range []string{"bad-crc at 65536", "mqstore salvage", "not in the queue", "missing-queue"} {
		if !strings.Contains(svg, want) {
			t.Errorf("the picture does not say %q", want)
		}
	}
}

func TestPictureOfNothingAndOfOneSegment(t *testing.T) {
	empty := t.TempDir()
	if err := os.Mkdir(filepath.Join(empty, "commitlog"), 0o755); err != nil {
		t.Fatal(err)
	}
	if s := svgOf(t, picture(t, empty)); !strings.Contains(s, "It is empty") {
		t.Error("an empty log is not called so")
	}
	for name, files := range map[string]map[int64][]byte{
		"zeros":       {0: make([]byte, 1000)},
		"one segment": {0: testSegment(t, 0, 1, false)},
		"full":        {0: testSegment(t, 0, 3, true)},
		"torn":        {0: append(testSegment(t, 0, 1, false)[:192:192], bytes.Repeat([]byte{7}, 808)...)},
		"only torn":   {0: bytes.Repeat([]byte{7}, 1000)},
		"far away":    {0: testSegment(t, 0, 3, true), 1 << 60: testSegment(t, 1<<60, 3, false)},
	} {
		f, err := Look(memStore(files), nil)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Draw(t.Context(), f, PictureOptions{Name: name})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		svgOf(t, p)
	}
}

// What a name on disk holds is text in a picture, and nothing else.
func TestPictureEscapesNames(t *testing.T) {
	dir := filepath.Join(golden.Extract(t, "basic"), "store")
	hostile := []string{"<script>alert(1)<", `"><svg onload=x`, "a\x1b[31m", "\xff\xfe", "]]>", "\u202eolleh", strings.Repeat("é", 100), "&amp;", "\x00"}
	for _, n := range hostile[:len(hostile)-1] {
		if strings.Contains(n, "/") {
			continue
		}
		if err := os.MkdirAll(filepath.Join(dir, "consumequeue", n, "0"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p := picture(t, dir)
	p.Name = strings.Join(hostile, " ")
	svg := svgOf(t, p)
	var html bytes.Buffer
	if err := p.HTML(&html); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{svg, html.String()} {
		for _, bad := range []string{"<script", "onload=x'", "<svg onload", "\x1b", "\x00", "\u202e", "\xff"} {
			if strings.Contains(s, bad) {
				t.Errorf("%q is in the picture as it is", bad)
			}
		}
	}
}

// 10,000 queues are the largest ones and a summary, and a picture that a browser still likes.
func TestPictureOfManyQueuesIsSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 10,000 queues")
	}
	var b []byte
	const n = 10_000
	size := int64(4 << 20)
	for i := range n {
		m := &record.Message{Topic: fmt.Sprintf("T%d", i/4), QueueID: int32(i % 4), PhyOffset: int64(len(b)), StoreTimestamp: 1795967098275 + int64(i), Body: make([]byte, 100+i%7)}
		var err error
		if b, err = record.AppendRecord(b, m, record.Limits{}); err != nil {
			t.Fatal(err)
		}
	}
	seg := make([]byte, size)
	copy(seg, b)
	f, err := Look(memStore(map[int64][]byte{0: seg}), nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Draw(t.Context(), f, PictureOptions{Name: "many"})
	if err != nil {
		t.Fatal(err)
	}
	svg := svgOf(t, p)
	if len(p.Queues) != n || !strings.Contains(svg, "and 9,960 more queues: 9,960 records") || len(svg) > 300_000 {
		t.Errorf("%d queues, %d bytes of SVG", len(p.Queues), len(svg))
	}
}

func TestPictureOfManySegmentsIsSmall(t *testing.T) {
	files := map[int64][]byte{}
	for i := range int64(3000) {
		files[i*1000] = testSegment(t, i*1000, 3, true)
	}
	for i := int64(100); i < 2900; i += 50 {
		delete(files, i*1000) // and holes
	}
	f, err := Look(memStore(files), nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Draw(t.Context(), f, PictureOptions{Name: "many"})
	if err != nil {
		t.Fatal(err)
	}
	if svg := svgOf(t, p); len(svg) > 300_000 || !strings.Contains(svg, "2,944 segments of 1000 B") {
		t.Errorf("%d bytes of SVG", len(svg))
	}
}

func TestPictureOfHostileDirectoriesIsDrawnOrRefused(t *testing.T) {
	for name, edit := range hostileEdits() {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(golden.Extract(t, "basic"), "store")
			edit(t, dir)
			f, err := Look(os.DirFS(dir), nil)
			if err != nil {
				return
			}
			p, err := Draw(t.Context(), f, PictureOptions{Name: name, Dir: dir})
			if err != nil {
				t.Log(err)
				return
			}
			svgOf(t, p)
		})
	}
}

func TestTimeBinsHoldEveryTimeWhateverItsOrder(t *testing.T) {
	var b timeBins
	var want float64
	for i := range int64(5000) {
		b.add(saneFrom+i*i*7919%(saneTo-saneFrom), 1)
		want++
	}
	b.add(-5, 1)
	b.add(1<<62, 1)
	var got float64
	for _, n := range b.bytes {
		got += n
	}
	if got != want || b.odd != 2 || b.first < b.begin || b.last >= b.begin+int64(len(b.bytes))*b.width {
		t.Errorf("%v of %v records in the bins, %d odd, [%d, %d] in bins from %d of %d ms", got, want, b.odd, b.first, b.last, b.begin, b.width)
	}
}

func TestPageStopsAtTheFirstErrorOfItsWriter(t *testing.T) {
	p := picture(t, filepath.Join(golden.Extract(t, "basic"), "store"))
	full := errors.New("full")
	for _, write := range []func(io.Writer) error{p.SVG, p.HTML} {
		if err := write(failing{full}); !errors.Is(err, full) {
			t.Errorf("%v, want %v", err, full)
		}
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
