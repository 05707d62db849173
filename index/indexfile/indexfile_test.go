package indexfile_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mqstore/mqstore/conformance/golden"
	"github.com/mqstore/mqstore/index/indexfile"
)

// rollback is the transaction type whose keys are not indexed.
const rollback = 0xC

func TestHashIsTheOriginals(t *testing.T) {
	for _, w := range []struct {
		topic, key string
		want       int32
	}{
		{"TopicTest", "key1", 1655984460},
		{"FooBar", "Hello", 101609924},
		{"Aa", "Aa", indexfile.Hash("BB", "BB")},
		{"polygenelubricants", "", indexfile.Hash("polygenelubricants", "")},
	} {
		if got := indexfile.Hash(w.topic, w.key); got != w.want || got < 0 {
			t.Errorf("%s#%s: %d, want %d", w.topic, w.key, got, w.want)
		}
	}
}

// The one hash code without an absolute value, -2^31, is stored as 0.
func TestHashOfTheSmallestCodeIsZero(t *testing.T) {
	for i := range 1 << 20 { // one topic in 80,000 has a key of one character with that code
		topic := fmt.Sprint("Topic", i*7919)
		h := uint32(0)
		for _, c := range topic + "#" {
			h = 31*h + uint32(c)
		}
		if b := 0x80000000 - 31*h; b > 0 && b < 0xD800 {
			if got := indexfile.Hash(topic, string(rune(b))); got != 0 {
				t.Errorf("hash of %s#%c is %d, want 0", topic, b, got)
			}
			return
		}
	}
	t.Fatal("no such key found")
}

// loads are the golden directories with an index, and what was asked of each.
var loads = []struct {
	name, dir string
	queries   func(m *golden.Manifest) *golden.Queries
	config    func(m *golden.Manifest) golden.Config
}{
	{"basic", "store", nil, nil}, {"batch", "store", nil, nil}, {"compressed", "store", nil, nil}, {"consumequeueext", "store", nil, nil}, {"delay", "store", nil, nil},
	{"deleted-head", "store", nil, nil}, {"ipv6", "store", nil, nil}, {"lmq", "store", nil, nil}, {"transaction", "store", nil, nil},
	{"clean-lostqueue", "store-before", func(m *golden.Manifest) *golden.Queries { return m.QueriesBeforeShutdown }, nil},
	{"clean-torntail", "store-before", func(m *golden.Manifest) *golden.Queries { return m.QueriesBeforeShutdown }, nil},
	{"ha-capture", "master", func(m *golden.Manifest) *golden.Queries { return m.MasterQueries }, func(m *golden.Manifest) golden.Config { return m.MasterConfig }},
	{"ha-capture", "slave", func(m *golden.Manifest) *golden.Queries { return m.SlaveQueries }, func(m *golden.Manifest) golden.Config { return m.SlaveConfig }},
}

func each(t *testing.T, check func(t *testing.T, m *golden.Manifest, q *golden.Queries, dir string, s indexfile.Shape)) {
	for _, l := range loads {
		t.Run(l.name+"/"+l.dir, func(t *testing.T) {
			m := golden.Load(t, l.name)
			q, c := m.Queries, m.Config
			if l.queries != nil {
				q = l.queries(m)
			}
			if l.config != nil {
				c = l.config(m)
			}
			check(t, m, q, filepath.Join(golden.Extract(t, l.name), l.dir, "index"), indexfile.Shape{Slots: int(c.Int("maxHashSlotNum")), Entries: int(c.Int("maxIndexNum"))})
		})
	}
}

// Hits of the hash included, as the original answers.
func TestQueriesAreAnsweredAsTheOriginalDid(t *testing.T) {
	each(t, func(t *testing.T, m *golden.Manifest, q *golden.Queries, dir string, s indexfile.Shape) {
		for _, shape := range []indexfile.Shape{s, {}} { // {}: found from the files
			x, warnings, err := indexfile.OpenSet(dir, shape)
			if err != nil || len(warnings) > 0 {
				t.Fatal(warnings, err)
			}
			defer x.Close()
			if len(x.Files()) == 0 {
				t.Skip("this directory has no index files")
			}
			for _, w := range q.QueryMessage {
				got, err := x.Query(w.Topic, w.Key, min(w.MaxNum, 64), w.Begin, w.End)
				if i := w.IndexQueryOffset; err != nil || !slices.Equal(got.PhyOffsets, i.PhyOffsets) || got.LastUpdateTime != i.IndexLastUpdateTimestamp || got.LastUpdatePhyOffset != i.IndexLastUpdatePhyoffset {
					t.Errorf("%s %q max %d [%d, %d]: %+v %v, want %+v", w.Topic, w.Key, w.MaxNum, w.Begin, w.End, got, err, i)
				}
			}
			t.Logf("%d queries", len(q.QueryMessage))
		}
	})
}

// From the log's records the writer makes the very bytes that the original made.
func TestWrittenFilesAreTheOriginals(t *testing.T) {
	each(t, func(t *testing.T, m *golden.Manifest, q *golden.Queries, dir string, s indexfile.Shape) {
		names, err := os.ReadDir(dir)
		if err != nil {
			t.Skip("this directory has no index files")
		}
		records := slices.Concat(m.Records, m.MasterRecords)
		if filepath.Base(filepath.Dir(dir)) == "slave" {
			records = m.SlaveRecords
		}
		if m.Before != nil {
			records = nil // of a log that was not whole any more
		}
		out := t.TempDir()
		w, err := indexfile.NewWriter(out, s, func() time.Time { return time.Date(2026, 11, 29, 15, 44, 58, 287e6, time.Local) })
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			if r.IsBlank() {
				continue
			}
			d := r.Dispatch
			if d == nil {
				t.Skip("the manifest does not tell the keys of this directory's records")
			}
			var keys []string
			if d.UniqKey != nil {
				keys = append(keys, *d.UniqKey)
			}
			if d.Keys != nil {
				for k := range strings.SplitSeq(*d.Keys, " ") {
					if k != "" {
						keys = append(keys, k)
					}
				}
			}
			if d.SysFlag&rollback == rollback {
				continue
			}
			if err := w.Put(r.Topic, r.Offset, d.StoreTimestamp, keys...); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if len(records) == 0 {
			t.Skip("the manifest does not tell the keys of this directory's records")
		}
		if len(names) != len(w.Files()) {
			t.Fatalf("%d files, want %d", len(w.Files()), len(names))
		}
		for i, p := range w.Files() {
			got, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(filepath.Join(dir, names[i].Name()))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				at := 0
				for at < len(got) && at < len(want) && got[at] == want[at] {
					at++
				}
				t.Errorf("file %d: %d bytes, want %d; they differ from %d on", i, len(got), len(want), at)
			}
		}
	})
}

func TestNamesAreCreationTimesAndNeverMeet(t *testing.T) {
	dir := t.TempDir()
	at := time.Date(2026, 1, 2, 3, 4, 5, 67e6, time.Local)
	w, err := indexfile.NewWriter(dir, indexfile.Shape{Slots: 2, Entries: 3}, func() time.Time { return at })
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(5) {
		if err := w.Put("T", i, i, "k"); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range w.Files() {
		names = append(names, filepath.Base(p))
	}
	if want := []string{"20260102030405067", "20260102030405068", "20260102030405069"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
	x, warnings, err := indexfile.OpenSet(dir, indexfile.Shape{Slots: 2, Entries: 3})
	if err != nil || warnings != nil {
		t.Fatal(err, warnings)
	}
	defer x.Close()
	if r, err := x.Query("T", "k", 64, 0, 10); err != nil || !slices.Equal(r.PhyOffsets, []int64{4, 3, 2, 1, 0}) {
		t.Errorf("%+v %v", r, err)
	}
	if x.EndPhyOffset() != 4 {
		t.Errorf("ends at %d", x.EndPhyOffset())
	}
	n := 0
	for _, f := range x.Files() {
		for e, err := range f.Entries() {
			if err != nil || e.PhyOffset != int64(n) || e.Hash != indexfile.Hash("T", "k") {
				t.Errorf("%+v %v", e, err)
			}
			n++
		}
	}
	if n != 5 {
		t.Errorf("%d entries", n)
	}
}

func TestStrangersAreNoIndexFiles(t *testing.T) {
	dir := t.TempDir()
	if x, w, err := indexfile.OpenSet(filepath.Join(dir, "missing"), indexfile.Shape{}); err != nil || w != nil || x.EndPhyOffset() != -1 {
		t.Error(w, err)
	}
	for _, n := range []string{"notes.txt", "20260102030405067"} {
		if err := os.WriteFile(filepath.Join(dir, n), []byte("no index"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	x, w, err := indexfile.OpenSet(dir, indexfile.Shape{})
	if err != nil || len(w) != 1 || len(x.Files()) != 0 {
		t.Errorf("%v %v %d files", w, err, len(x.Files()))
	}
	for _, s := range []indexfile.Shape{{Slots: -1}, {Entries: 1}, {Slots: 1 << 40}} {
		if _, err := indexfile.NewWriter(dir, s, nil); err == nil {
			t.Errorf("%+v is accepted", s)
		}
	}
}

// A file of zeros but for a few words may have been of any shape: each is dismissed without looking at all its slots. (Looked at, they are 8 million times 3 million.)
func TestShapeOfAHostileFileIsFoundOutInTime(t *testing.T) {
	b := make([]byte, 64<<20)
	binary.BigEndian.PutUint32(b[36:], 2) // counter: one entry
	binary.BigEndian.PutUint32(b[32:], 2) // of two used slots
	binary.BigEndian.PutUint32(b[40:], 1) // there is one
	if s, ok := indexfile.ShapeOf(bytes.NewReader(b), int64(len(b))); ok {
		t.Errorf("found %+v", s)
	}
	binary.BigEndian.PutUint32(b[40+4*8_000_000:], 1) // and another one, far off, whose entry is not its own
	if s, ok := indexfile.ShapeOf(bytes.NewReader(b), int64(len(b))); ok {
		t.Errorf("found %+v", s)
	}
}

// Whatever a file holds, reading it ends, and stays within it.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"basic", "transaction"} {
		dir := filepath.Join(golden.Extract(f, name), "store", "index")
		names, err := os.ReadDir(dir)
		if err != nil {
			f.Fatal(err)
		}
		for _, n := range names {
			b, err := os.ReadFile(filepath.Join(dir, n.Name()))
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b, uint16(50), uint16(200), "TopicA", int64(0), int64(1)<<62)
		}
	}
	f.Add(make([]byte, 88), uint16(2), uint16(2), "", int64(0), int64(0))
	f.Fuzz(func(t *testing.T, b []byte, slots, entries uint16, key string, begin, end int64) {
		indexfile.ShapeOf(bytes.NewReader(b), int64(len(b)))
		s := indexfile.Shape{Slots: int(slots), Entries: int(entries)}
		x, err := indexfile.NewFile(bytes.NewReader(b), int64(len(b)), s)
		if err != nil {
			return
		}
		n := 0
		for range x.Entries() {
			n++
		}
		if n >= int(entries) {
			t.Fatalf("%d entries in a file for %d", n, entries)
		}
		set := indexfile.SetOf(x)
		n = 0
		for range set.Hits("T", key, begin, end) {
			n++
		}
		if n >= int(entries) {
			t.Fatalf("%d hits in a file for %d", n, entries)
		}
	})
}
