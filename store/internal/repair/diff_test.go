package repair

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/golden"
)

func diff(t *testing.T, a, b *Files) *Difference {
	t.Helper()
	d, err := Diff(t.Context(), a, b, DiffOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// told is a difference in one line.
func told(d *Difference) string {
	var b strings.Builder
	fmt.Fprintf(&b, "first %d onlyA %d onlyB %d differ %d behind %d:", d.First, d.OnlyInA, d.OnlyInB, d.Differ, d.Behind)
	for _, r := range d.Unlike() {
		fmt.Fprintf(&b, " [%d,%d) %s", r.From, r.To, r.Kind)
	}
	for _, q := range d.Queues {
		fmt.Fprintf(&b, " %s-%d from %d", q.Topic, q.QueueID, q.First)
	}
	return b.String()
}

func TestDiffOfAStoreWithItselfIsNone(t *testing.T) {
	for _, name := range golden.Names() {
		root := golden.Extract(t, name)
		for dir := range stores(t, name) {
			f := look(t, filepath.Join(root, dir))
			d := diff(t, f, look(t, filepath.Join(root, dir)))
			if !d.Equal() || d.Behind >= 0 {
				t.Errorf("%s/%s: %s", name, dir, told(d))
			}
			if d.A.Records == 0 || d.A != d.B {
				t.Errorf("%s/%s: %+v, %+v", name, dir, d.A, d.B)
			}
		}
	}
}

func TestDiffFindsWhatDistinguishesLogs(t *testing.T) {
	segs := func() map[int64][]byte {
		return map[int64][]byte{0: testSegment(t, 0, 3, true), 1000: testSegment(t, 1000, 3, true), 2000: testSegment(t, 2000, 2, false)}
	}
	for _, c := range []struct {
		name string
		edit func(s map[int64][]byte) // of B
		want string
	}{
		{"nothing", func(s map[int64][]byte) {}, "first -1 onlyA 0 onlyB 0 differ 0 behind -1:"},
		{"a byte of a body", func(s map[int64][]byte) { s[1000][192+100]++ }, "first 1292 onlyA 0 onlyB 0 differ 1 behind -1: [1292,1293) differs"},
		{"a magic code", func(s map[int64][]byte) { s[1000][192+5]++ }, "first 1197 onlyA 0 onlyB 0 differ 1 behind -1: [1197,1198) differs"},
		{"a size", func(s map[int64][]byte) { s[1000][3]++ }, "first 1003 onlyA 0 onlyB 0 differ 1 behind -1: [1003,1004) differs"},
		{"the blank's rest", func(s map[int64][]byte) { s[0][900]++ }, "first -1 onlyA 0 onlyB 0 differ 0 behind 900:"},
		{"behind the end", func(s map[int64][]byte) { s[2000][900]++ }, "first -1 onlyA 0 onlyB 0 differ 0 behind 2900:"},
		{"the last record", func(s map[int64][]byte) { clear(s[2000][192:]) }, "first 2192 onlyA 192 onlyB 0 differ 0 behind 2200: [2192,2384) only in A"},
		{"half of the last record", func(s map[int64][]byte) { s[2000] = s[2000][:300] }, "first 2192 onlyA 192 onlyB 0 differ 0 behind 2300: [2192,2384) only in A"},
		{"the last segment", func(s map[int64][]byte) { delete(s, 2000) }, "first 2000 onlyA 384 onlyB 0 differ 0 behind -1: [2000,2384) only in A"},
		{"the first segment", func(s map[int64][]byte) { delete(s, 0) }, "first -1 onlyA 576 onlyB 0 differ 0 behind -1: [0,576) only in A"},
		{"a segment between", func(s map[int64][]byte) { delete(s, 1000) }, "first 1000 onlyA 576 onlyB 0 differ 0 behind 1576: [1000,1576) only in A"},
		{"everything", func(s map[int64][]byte) { clear(s) }, "first 0 onlyA 1536 onlyB 0 differ 0 behind -1: [0,2384) only in A"},
		{"one more record", func(s map[int64][]byte) { s[2000] = testSegment(t, 2000, 3, false) }, "first 2384 onlyA 0 onlyB 192 differ 0 behind -1: [2384,2576) only in B"},
		{"segments of another size", func(s map[int64][]byte) {
			s[0] = append(s[0], make([]byte, 1000)...)
			binary.BigEndian.PutUint32(s[0][576:], 1424) // the blank reaches further
			delete(s, 1000)
		}, "first 1000 onlyA 576 onlyB 0 differ 0 behind -1: [1000,1576) only in A"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := segs()
			c.edit(s)
			a, err := Look(memStore(segs()), nil)
			if err != nil {
				t.Fatal(err)
			}
			b, err := Look(memStore(s), nil)
			if err != nil {
				t.Fatal(err)
			}
			got := told(diff(t, a, b))
			if c.name == "a segment between" || c.name == "everything" || c.name == "the last record" || c.name == "half of the last record" || c.name == "segments of another size" {
				got, c.want = got[:strings.Index(got, "behind")], c.want[:strings.Index(c.want, "behind")] // files that are missing differ in what has no meaning, too
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			mirrored := strings.NewReplacer("onlyA", "onlyB", "onlyB", "onlyA", "only in A", "only in B", "only in B", "only in A").Replace(told(diff(t, b, a)))
			order := func(s string) string { // onlyA and onlyB changed places
				var first, b, a, rest int64
				fmt.Sscanf(s, "first %d onlyB %d onlyA %d differ %d", &first, &b, &a, &rest)
				return fmt.Sprintf("first %d onlyA %d onlyB %d differ %d", first, a, b, rest)
			}
			if m := order(mirrored); !strings.HasPrefix(c.want, m) {
				t.Errorf("the other way round it is %s, want %s", m, c.want)
			}
		})
	}
}

// Without any record the bytes are all that there is to compare.
func TestDiffOfLogsWithoutRecordsIsThatOfTheirBytes(t *testing.T) {
	a, _ := Look(memStore(map[int64][]byte{0: make([]byte, 1000), 1000: make([]byte, 1000)}), nil)
	odd := make([]byte, 1000)
	odd[7] = 1
	b, _ := Look(memStore(map[int64][]byte{0: make([]byte, 1000), 1000: odd}), nil)
	if d := diff(t, a, b); d.Equal() || d.First != 1007 {
		t.Errorf("%s", told(d))
	}
	if d := diff(t, a, a); !d.Equal() {
		t.Errorf("%s", told(d))
	}
}

func TestDiffNamesTheFieldOfARecord(t *testing.T) {
	b := testSegment(t, 0, 1, false)[:192]
	for at, want := range map[int]string{0: "total size", 9: "body CRC", 20: "queue offset", 28: "physical offset", 45: "born time", 50: "born host", 57: "store time", 64: "store host",
		72: "reconsume times", 76: "prepared transaction offset", 84: "body length", 88: "body, its byte 0", 187: "body, its byte 99", 188: "topic length", 189: "topic", 190: "properties length"} {
		if got := fieldAt(b, at); got != want {
			t.Errorf("byte %d is of the %s, want %s", at, got, want)
		}
	}
}

func TestDiffOfAMasterAndItsSlave(t *testing.T) {
	root := golden.Extract(t, "ha-capture")
	d := diff(t, look(t, filepath.Join(root, "master")), look(t, filepath.Join(root, "slave")))
	if d.First >= 0 || d.OnlyInB > 0 || d.Differ > 0 {
		t.Errorf("the slave holds what its master has not: %s", told(d))
	}
	t.Log(told(d))
}

func TestDiffNamesQueues(t *testing.T) {
	a, b := filepath.Join(golden.Extract(t, "basic"), "store"), filepath.Join(golden.Extract(t, "basic"), "store")
	if err := os.RemoveAll(filepath.Join(b, "consumequeue/TopicA/2")); err != nil {
		t.Fatal(err)
	}
	q := filepath.Join(b, "consumequeue/TopicB/1/00000000000000000000")
	units, err := os.ReadFile(q)
	if err != nil {
		t.Fatal(err)
	}
	units[5*20+19]++ // the tags code of unit 5
	if err := os.WriteFile(q, units, 0o644); err != nil {
		t.Fatal(err)
	}
	d := diff(t, look(t, a), look(t, b))
	if got, want := told(d), "first -1 onlyA 0 onlyB 0 differ 0 behind -1: TopicA-2 from 0 TopicB-1 from 5"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if d.Equal() {
		t.Error("equal, without a queue")
	}
}

// countFS counts what is read, byte by byte of blocks.
type countFS struct {
	fs.FS
	bytes int64
	seen  map[string]bool // file and block
	twice []string
}

func (c *countFS) Open(name string) (fs.File, error) {
	f, err := c.FS.Open(name)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || info.IsDir() {
		return f, err
	}
	return &countFile{f.(*os.File), c, name}, nil
}

type countFile struct {
	*os.File
	c    *countFS
	name string
}

func (f *countFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	f.c.bytes += int64(n)
	const grain = 4096
	for at := off / grain; n > 0 && at <= (off+int64(n)-1)/grain; at++ {
		k := fmt.Sprint(f.name, " ", at)
		if f.c.seen[k] {
			f.c.twice = append(f.c.twice, k)
		}
		f.c.seen[k] = true
	}
	return n, err
}

func (f *countFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	f.c.bytes += int64(n)
	return n, err
}

// sparseStore is a store of n segments of 1 GiB, each with a few records, a blank and a hole.
func sparseStore(t *testing.T, n int) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "commitlog"), 0o755); err != nil {
		t.Fatal(err)
	}
	const size = 1 << 30
	for i := range int64(n) {
		start := i * size
		var b []byte
		for j := range 40 {
			m := &record.Message{Topic: "T", QueueOffset: i*40 + int64(j), PhyOffset: start + int64(len(b)), StoreTimestamp: 1, Body: make([]byte, 100_000)}
			m.Body[j] = byte(i)
			var err error
			if b, err = record.AppendRecord(b, m, record.Limits{}); err != nil {
				t.Fatal(err)
			}
		}
		blank := make([]byte, record.BlankHeaderSize)
		record.PutBlank(blank, size-len(b))
		path := filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", start))
		if err := os.WriteFile(path, append(b, blank...), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestDiffFindsOneByteInTenGiBReadingNothingTwice(t *testing.T) {
	if seekData == 0 {
		t.Skip("this system does not tell where the holes of a sparse file are, so that all 20 GiB would be read")
	}
	a, b := sparseStore(t, 10), sparseStore(t, 10)
	poke := func(at int64) {
		f, err := os.OpenFile(filepath.Join(b, "commitlog", fmt.Sprintf("%020d", at>>30<<30)), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte{77}, at&(1<<30-1)); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	run := func() (*Difference, *countFS, *countFS) {
		ca, cb := &countFS{FS: os.DirFS(a), seen: map[string]bool{}}, &countFS{FS: os.DirFS(b), seen: map[string]bool{}}
		logA, _ := fs.Sub(ca, "commitlog")
		logB, _ := fs.Sub(cb, "commitlog")
		fa, err := Look(os.DirFS(a), logA)
		if err != nil {
			t.Fatal(err)
		}
		fb, err := Look(os.DirFS(b), logB)
		if err != nil {
			t.Fatal(err)
		}
		return diff(t, fa, fb), ca, cb
	}
	const changed = 7<<30 + 2_000_123
	for _, c := range []struct {
		at            int64
		first, behind int64
	}{{-1, -1, -1}, {9<<30 + 800<<20 + 5, -1, 9<<30 + 800<<20 + 5}, {changed, changed, 9<<30 + 800<<20 + 5}} {
		if c.at >= 0 {
			poke(c.at)
		}
		d, ca, cb := run()
		if d.First != c.first || d.Behind != c.behind || d.OnlyInA != 0 || d.OnlyInB != 0 {
			t.Errorf("changed at %d: %s", c.at, told(d))
		}
		for _, s := range []*countFS{ca, cb} {
			if len(s.twice) > 0 {
				t.Errorf("read twice: %d pages, the first %s", len(s.twice), s.twice[0])
			}
			if s.bytes > 100<<20 {
				t.Errorf("read %d bytes of a log with 40 MB", s.bytes)
			}
		}
		t.Logf("changed at %d: read %d and %d bytes", c.at, ca.bytes, cb.bytes)
	}
}

// Whatever lies there, two directories are compared or the error says why not.
func TestDiffOfHostileDirectoriesEnds(t *testing.T) {
	a := filepath.Join(golden.Extract(t, "basic"), "store")
	for name, edit := range hostileEdits() {
		t.Run(name, func(t *testing.T) {
			b := filepath.Join(golden.Extract(t, "basic"), "store")
			edit(t, b)
			f, err := Look(os.DirFS(b), nil)
			if err != nil {
				return
			}
			d, err := Diff(t.Context(), look(t, a), f, DiffOptions{})
			if err == nil && d.Equal() && !strings.HasSuffix(name, "-harmless") {
				t.Error("equal")
			}
		})
	}
}

// hostileEdits make something that no engine leaves of a store's directory; those called harmless leave its log and queues.
func hostileEdits() map[string]func(t *testing.T, dir string) {
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const second = "commitlog/00000000000000065536"
	return map[string]func(t *testing.T, dir string){
		"empty segment": func(t *testing.T, dir string) { must(t, os.Truncate(filepath.Join(dir, second), 0)) },
		"directory as a segment": func(t *testing.T, dir string) {
			must(t, os.Remove(filepath.Join(dir, second)))
			must(t, os.Mkdir(filepath.Join(dir, second), 0o755))
		},
		"link as a segment": func(t *testing.T, dir string) {
			must(t, os.Remove(filepath.Join(dir, second)))
			must(t, os.Symlink("/dev/zero", filepath.Join(dir, second)))
		},
		"dangling link as the log": func(t *testing.T, dir string) {
			must(t, os.RemoveAll(filepath.Join(dir, "commitlog")))
			must(t, os.Symlink("nowhere", filepath.Join(dir, "commitlog")))
		},
		"file as the log": func(t *testing.T, dir string) {
			must(t, os.RemoveAll(filepath.Join(dir, "commitlog")))
			must(t, os.WriteFile(filepath.Join(dir, "commitlog"), nil, 0o644))
		},
		"file as the queues": func(t *testing.T, dir string) {
			must(t, os.RemoveAll(filepath.Join(dir, "consumequeue")))
			must(t, os.WriteFile(filepath.Join(dir, "consumequeue"), nil, 0o644))
		},
		"strange names-harmless": func(t *testing.T, dir string) {
			for _, n := range []string{"commitlog/99999999999999999999", "commitlog/-0000000000000000001", "commitlog/\x1b[31m", "consumequeue/<b>&\"'", "consumequeue/TopicA/x", "index/zz"} {
				must(t, os.MkdirAll(filepath.Join(dir, n), 0o755))
			}
		},
		"random log": func(t *testing.T, dir string) {
			b := make([]byte, 65536)
			for i := range b {
				b[i] = byte(i*i>>3 ^ i)
			}
			must(t, os.WriteFile(filepath.Join(dir, second), b, 0o644))
		},
		"segment far away": func(t *testing.T, dir string) {
			must(t, os.Rename(filepath.Join(dir, second), filepath.Join(dir, "commitlog/09223372036854775807")))
		},
	}
}

func TestDiffStopsWhenItIsToldTo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := look(t, filepath.Join(golden.Extract(t, "basic"), "store"))
	if _, err := Diff(ctx, f, f, DiffOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
}
