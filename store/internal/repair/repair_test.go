package repair

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/golden"
	"github.com/mqstore/mqstore/consumequeue"
)

// stores are the golden store directories whose records a manifest lists, without what the original read back only after a recovery.
func stores(t *testing.T, name string) map[string][]golden.Record {
	t.Helper()
	m := golden.Load(t, name)
	switch {
	case name == "ha-capture":
		return map[string][]golden.Record{"master": m.MasterRecords, "slave": m.SlaveRecords}
	case m.After != nil:
		return map[string][]golden.Record{"store-before": m.After.Records, "store-after": m.After.Records}
	}
	return map[string][]golden.Record{"store": m.Records}
}

func look(t *testing.T, dir string) *Files {
	t.Helper()
	f, err := Look(os.DirFS(dir), nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// readAll reads the log from phyOffset: each record as offset:size, damage as its text.
func readAll(t *testing.T, f *Files, phyOffset int64) (out []string) {
	t.Helper()
	r, err := f.ReadLog(phyOffset)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		rec, err := r.Next()
		var d *Damage
		switch {
		case err == io.EOF:
			return out
		case errors.As(err, &d):
			out = append(out, fmt.Sprintf("damage %d %d", d.From, d.To))
		case err != nil:
			t.Fatal(err)
		case rec.CRC != nil:
			out = append(out, fmt.Sprintf("%d:%d bad crc", rec.Meta.PhyOffset, len(rec.Bytes)))
		default:
			out = append(out, fmt.Sprintf("%d:%d", rec.Meta.PhyOffset, len(rec.Bytes)))
		}
	}
}

func TestLogReaderReadsEachRecordOfEachGolden(t *testing.T) {
	for _, name := range golden.Names() {
		root := golden.Extract(t, name)
		for dir, records := range stores(t, name) {
			t.Run(name+"/"+dir, func(t *testing.T) {
				var want []string
				for _, r := range records {
					if !r.IsBlank() {
						want = append(want, fmt.Sprintf("%d:%d", r.Offset, r.TotalSize))
					}
				}
				got := readAll(t, look(t, filepath.Join(root, dir)), 0)
				if name == "crash-torn" || name == "clean-torntail" { // the original cuts the damaged record in memory, its bytes stay
					if last := got[len(got)-1]; !strings.HasSuffix(last, " bad crc") {
						t.Errorf("the last record reads as %s, its body was damaged", last)
					}
					got = got[:len(got)-1]
				}
				if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
					t.Errorf("records differ from the manifest: %s", firstDifference(got, want))
				}
			})
		}
	}
}

func TestLogReaderStartsAtTheFirstRecordAtOrBehindAnOffset(t *testing.T) {
	f := look(t, filepath.Join(golden.Extract(t, "basic"), "store"))
	all := readAll(t, f, 0)
	for i, place := range all {
		var off, size int64
		if _, err := fmt.Sscanf(place, "%d:%d", &off, &size); err != nil {
			t.Fatal(err)
		}
		if i%17 != 0 {
			continue
		}
		for _, from := range []int64{off, off - 1} {
			if from < 0 {
				continue
			}
			if got := readAll(t, f, from); len(got) == 0 || got[0] != place || len(got) != len(all)-i {
				t.Errorf("from %d: %d records, the first %s; want %d, %s", from, len(got), got[0], len(all)-i, place)
			}
		}
	}
	if got := readAll(t, f, 1<<40); len(got) != 0 {
		t.Errorf("behind the end: %v", got)
	}
}

func TestUnitsAreThoseOfTheManifest(t *testing.T) {
	m := golden.Load(t, "consumequeueext")
	f := look(t, filepath.Join(golden.Extract(t, "consumequeueext"), "store"))
	var r *UnitReader
	for _, w := range m.Ext {
		if w.Offset == 0 {
			var err error
			if r, err = f.ReadUnits("TopicX", w.QueueID, 0); err != nil {
				t.Fatal(err)
			}
			defer r.Close()
		}
		u, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if u.QueueOffset != w.Offset || u.PhyOffset != w.PhyOffset || u.Size != w.Size || u.TagsCode != w.TagsCodeField || (u.Ext != nil) != w.IsExtAddr || u.ExtErr != nil {
			t.Fatalf("unit %+v (%v), manifest %+v", u, u.ExtErr, w)
		}
		if u.Ext != nil && (u.Ext.TagsCode != w.ExtTagsCode || u.Ext.StoreTime != w.ExtMsgStoreTime || hex.EncodeToString(u.Ext.Bitmap) != w.ExtBitMap) {
			t.Fatalf("extension %+v, manifest %+v", u.Ext, w)
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("behind the last unit: %v", err)
	}
}

// Each queue of each golden that was closed cleanly ends where the original said, and each unit points at a record.
func TestUnitsOfEachGoldenPointAtRecords(t *testing.T) {
	for _, name := range []string{"basic", "ipv6", "batch", "transaction", "compressed", "delay", "lmq", "consumequeueext", "deleted-head"} {
		t.Run(name, func(t *testing.T) {
			m := golden.Load(t, name)
			f := look(t, filepath.Join(golden.Extract(t, name), "store"))
			at := map[int64]int{}
			for _, r := range m.Records {
				at[r.Offset] = r.TotalSize
			}
			for _, q := range m.Queries.Queues {
				r, err := f.ReadUnits(q.Topic, q.QueueID, q.MinOffset)
				if errors.Is(err, fs.ErrNotExist) && q.MaxOffset == 0 {
					continue // asked for, so that the original made it in memory
				}
				if err != nil {
					t.Fatal(err)
				}
				next := q.MinOffset
				for {
					u, err := r.Next()
					if err == io.EOF {
						break
					}
					if err != nil {
						t.Fatal(err)
					}
					if u.QueueOffset != next {
						t.Errorf("%s/%d: unit %d after %d", q.Topic, q.QueueID, u.QueueOffset, next-1)
					}
					next++
					if size, ok := at[u.PhyOffset]; u.PhyOffset >= m.Queries.MinPhyOffset && (!ok || size != int(u.Size)) {
						t.Errorf("%s/%d@%d points at %d:%d, the record there has %d bytes", q.Topic, q.QueueID, u.QueueOffset, u.PhyOffset, u.Size, size)
					}
				}
				if next != q.MaxOffset {
					t.Errorf("%s/%d ends at %d, the original says %d", q.Topic, q.QueueID, next, q.MaxOffset)
				}
				if err := r.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestUnitsEndAtAHoleAndLeaveFillersOut(t *testing.T) {
	unit := func(phy int64, size int32) []byte {
		b := make([]byte, consumequeue.UnitSize)
		consumequeue.PutUnit(b, consumequeue.Unit{PhyOffset: phy, Size: size})
		return b
	}
	filler := unit(0, math.MaxInt32)
	file := func(units ...[]byte) *fstest.MapFile { return &fstest.MapFile{Data: bytes.Join(units, nil)} }
	const dir = "consumequeue/T/0/"
	for name, c := range map[string]struct {
		files fstest.MapFS
		from  int64
		want  string
	}{
		"fillers":         {fstest.MapFS{dir + "00000000000000000040": file(filler, filler, unit(7, 1), unit(8, 1))}, 0, "4:7 5:8"},
		"from the middle": {fstest.MapFS{dir + "00000000000000000040": file(unit(5, 1), unit(6, 1), unit(7, 1), unit(8, 1))}, 4, "4:7 5:8"},
		"zeros end it":    {fstest.MapFS{dir + "00000000000000000000": file(unit(5, 1), unit(0, 0), unit(7, 1))}, 0, "0:5"},
		"record at 0":     {fstest.MapFS{dir + "00000000000000000000": file(unit(0, 1), unit(1, 1))}, 0, "0:0 1:1"},
		"two files":       {fstest.MapFS{dir + "00000000000000000000": file(unit(5, 1)), dir + "00000000000000000020": file(unit(6, 1))}, 0, "0:5 1:6"},
		"a missing file":  {fstest.MapFS{dir + "00000000000000000000": file(unit(5, 1)), dir + "00000000000000000040": file(unit(6, 1))}, 0, "0:5"},
		"half a unit":     {fstest.MapFS{dir + "00000000000000000000": {Data: unit(5, 1)[:19]}}, 0, ""},
		"far behind":      {fstest.MapFS{dir + "00000000000000000000": file(unit(5, 1))}, math.MaxInt64, ""},
	} {
		f, err := Look(c.files, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := f.ReadUnits("T", 0, c.from)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for {
			u, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprintf("%d:%d", u.QueueOffset, u.PhyOffset))
		}
		if g := strings.Join(got, " "); g != c.want {
			t.Errorf("%s: %s, want %s", name, g, c.want)
		}
	}
}

// memStore is a store directory in memory with segments of 1,000 bytes, as the map of their contents.
func memStore(segs map[int64][]byte) fstest.MapFS {
	m := fstest.MapFS{"checkpoint": {Data: make([]byte, 4096)}}
	for start, b := range segs {
		m[fmt.Sprintf("commitlog/%020d", start)] = &fstest.MapFile{Data: b}
	}
	return m
}

// testSegment is a segment of 1,000 bytes with n records of some 200 bytes and a blank if there is a next one.
func testSegment(t *testing.T, start int64, n int, full bool) []byte {
	t.Helper()
	b := make([]byte, 0, 1000)
	for i := range n {
		host, err := record.ParseHost("1.2.3.4:10911")
		if err != nil {
			t.Fatal(err)
		}
		m := &record.Message{Topic: "T", QueueOffset: int64(i), PhyOffset: start + int64(len(b)), StoreTimestamp: 1, BornHost: host, StoreHost: host, Body: bytes.Repeat([]byte{'b'}, 100)}
		if b, err = record.AppendRecord(b, m, record.Limits{}); err != nil {
			t.Fatal(err)
		}
	}
	out := make([]byte, 1000)
	copy(out, b)
	if full {
		record.PutBlank(out[len(b):], len(out)-len(b))
	}
	return out
}

func TestLogReaderGoesOnBehindDamage(t *testing.T) {
	segs := func() map[int64][]byte {
		return map[int64][]byte{0: testSegment(t, 0, 3, true), 1000: testSegment(t, 1000, 3, true), 2000: testSegment(t, 2000, 2, false), 3000: make([]byte, 1000)}
	}
	whole := readAllOf(t, segs())
	n := 192
	for i, place := range whole {
		if want := fmt.Sprintf("%d:%d", 1000*(i/3)+i%3*n, n); place != want {
			t.Fatalf("record %d is at %s, the cases below reckon with %s", i, place, want)
		}
	}
	cases := []struct {
		name   string
		damage func(s map[int64][]byte)
		want   string
	}{
		{"none", func(s map[int64][]byte) {}, "0:192 192:192 384:192 1000:192 1192:192 1384:192 2000:192 2192:192"},
		{"body", func(s map[int64][]byte) { s[0][192+100]++ }, "0:192 192:192 bad crc|384:192 1000:192 1192:192 1384:192 2000:192 2192:192"},
		{"magic", func(s map[int64][]byte) { s[0][192+5]++ }, "0:192 damage 192 384|384:192 1000:192 1192:192 1384:192 2000:192 2192:192"},
		{"size", func(s map[int64][]byte) { s[1000][0] = 0x7F }, "0:192 192:192 384:192 damage 1000 1192|1192:192 1384:192 2000:192 2192:192"},
		{"negative size", func(s map[int64][]byte) { s[1000][0] = 0xFF }, "0:192 192:192 384:192 damage 1000 1192|1192:192 1384:192 2000:192 2192:192"},
		{"small size", func(s map[int64][]byte) { binary.BigEndian.PutUint32(s[1000], 9) }, "0:192 192:192 384:192 damage 1000 1192|1192:192 1384:192 2000:192 2192:192"},
		{"stored offset", func(s map[int64][]byte) { s[0][192+35]++ }, "0:192 damage 192 384|384:192 1000:192 1192:192 1384:192 2000:192 2192:192"},
		{"last of a segment", func(s map[int64][]byte) { s[0][384+5]++ }, "0:192 192:192 damage 384 1000|1000:192 1192:192 1384:192 2000:192 2192:192"},
		{"torn tail", func(s map[int64][]byte) { clear(s[2000][2*192-100:]); s[2000][192+5]++ }, "0:192 192:192 384:192 1000:192 1192:192 1384:192 2000:192 damage 2192 -1"},
		{"half a record", func(s map[int64][]byte) { s[2000] = s[2000][:192+100] }, "0:192 192:192 384:192 1000:192 1192:192 1384:192 2000:192 damage 2192 -1"},
		{"zeros in the middle", func(s map[int64][]byte) { clear(s[1000][192:]) }, "0:192 192:192 384:192 1000:192 damage 1192 2000|2000:192 2192:192"},
		{"a segment of zeros", func(s map[int64][]byte) { clear(s[1000]) }, "0:192 192:192 384:192 damage 1000 2000|2000:192 2192:192"},
		{"a missing segment", func(s map[int64][]byte) { delete(s, 1000) }, "0:192 192:192 384:192 damage 1000 2000|2000:192 2192:192"},
		{"an empty segment", func(s map[int64][]byte) { s[1000] = nil }, "0:192 192:192 384:192 damage 1000 2000|2000:192 2192:192"},
		{"no head", func(s map[int64][]byte) { delete(s, 0) }, "1000:192 1192:192 1384:192 2000:192 2192:192"},
		{"empty", func(s map[int64][]byte) { clear(s) }, ""},
		{"only zeros", func(s map[int64][]byte) { clear(s); s[0] = make([]byte, 1000) }, ""},
		{"two bytes between records", func(s map[int64][]byte) {
			clear(s)
			s[0] = append(append(testSegment(t, 0, 1, false)[:192:192], 7, 7), testSegment(t, 194, 1, false)...)
		}, "0:192 damage 192 194|194:192"},
		{"only garbage", func(s map[int64][]byte) { clear(s); s[0] = bytes.Repeat([]byte{0xDA, 0xA3, 0x20, 0xA7}, 250) }, "damage 0 -1"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := segs()
			c.damage(s)
			want := strings.ReplaceAll(c.want, "|", " ")
			if got := strings.Join(readAllOf(t, s), " "); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func readAllOf(t *testing.T, segs map[int64][]byte) []string {
	t.Helper()
	f, err := Look(memStore(segs), nil)
	if err != nil {
		t.Fatal(err)
	}
	return readAll(t, f, 0)
}

func TestAtSaysWhatIsThere(t *testing.T) {
	f, err := Look(memStore(map[int64][]byte{0: testSegment(t, 0, 3, true), 1000: testSegment(t, 1000, 1, false)}), nil)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := f.At(192)
	if err != nil || rec.Message.QueueOffset != 1 || rec.CRC != nil {
		t.Errorf("At(192) = %+v, %v", rec.Message, err)
	}
	for _, off := range []int64{1, 100, 191, 575, 576, 999, 1192, 1999, 2000, 1 << 50} {
		if rec, err := f.At(off); !errors.Is(err, ErrNoRecord) {
			t.Errorf("At(%d) = %+v, %v; want ErrNoRecord", off, rec, err)
		}
	}
	for off, want := range map[int64]string{0: "0:192", 191: "0:192", 192: "192:192", 575: "384:192", 576: "0:0", 1100: "1000:192", 1192: "0:0"} {
		start, n, err := f.Around(t.Context(), off)
		if got := fmt.Sprintf("%d:%d", start, n); got != want || err != nil {
			t.Errorf("Around(%d) = %s, %v; want %s", off, got, err, want)
		}
	}
}

func TestLookSaysWhatIsThereInstead(t *testing.T) {
	for name, c := range map[string]struct {
		fsys fstest.MapFS
		want string
	}{
		"empty":    {fstest.MapFS{}, "found an empty directory"},
		"other":    {fstest.MapFS{"a.txt": {}, "etc/b": {}}, "found a.txt etc/"},
		"parent":   {fstest.MapFS{"store/commitlog/x": {}}, "store/ below it is one"},
		"segments": {fstest.MapFS{"00000000000000000000": {}}, "give the one above"},
		"many":     {fstest.MapFS{"a": {}, "b": {}, "c": {}, "d": {}, "e": {}, "f": {}, "g": {}, "h": {}}, "and 2 more"},
	} {
		_, err := Look(c.fsys, nil)
		var not *NotAStoreError
		if !errors.As(err, &not) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want it to say %q", name, err, c.want)
		}
	}
}

// Bytes of a disk are input: whatever they are, reading ends, in records that verify or in damage, and does not go back.
func FuzzLogReader(f *testing.F) {
	f.Add([]byte{}, []byte{})
	f.Add(bytes.Repeat([]byte{0, 0, 0, 91, 0xDA, 0xA3, 0x20, 0xA7}, 40), make([]byte, 16))
	host, err := record.ParseHost("1.2.3.4:10911")
	if err != nil {
		f.Fatal(err)
	}
	m := &record.Message{Topic: "T", BornHost: host, StoreHost: host, Body: []byte("hello")}
	rec, err := record.AppendRecord(nil, m, record.Limits{})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(rec, rec)
	f.Fuzz(func(t *testing.T, first, second []byte) {
		files, err := Look(memStore(map[int64][]byte{0: first, int64(len(first)): second}), nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := files.ReadLog(0)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for last := int64(-1); ; {
			rec, err := r.Next()
			var d *Damage
			if err == io.EOF {
				return
			}
			if errors.As(err, &d) {
				if d.To >= 0 && d.To <= d.From {
					t.Fatalf("damage [%d, %d)", d.From, d.To)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if rec.Meta.PhyOffset <= last {
				t.Fatalf("record at %d after %d", rec.Meta.PhyOffset, last)
			}
			last = rec.Meta.PhyOffset
		}
	})
}

func FuzzUnitReader(f *testing.F) {
	f.Add([]byte{}, []byte{})
	f.Add(bytes.Repeat([]byte{0x80, 0, 0, 0, 0}, 20), bytes.Repeat([]byte{0, 20}, 30))
	f.Fuzz(func(t *testing.T, units, ext []byte) {
		files, err := Look(fstest.MapFS{"consumequeue/T/0/00000000000000000000": {Data: units}, "consumequeue_ext/T/0/00000000000000000000": {Data: ext}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := files.ReadUnits("T", 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for i := range len(units)/20 + 1 {
			u, err := r.Next()
			if err == io.EOF {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if u.QueueOffset < int64(i) || !u.Valid() || u.IsExtAddress() != (u.Ext != nil || u.ExtErr != nil) {
				t.Fatalf("unit %d is %+v", i, u)
			}
		}
		t.Fatal("more units than the file has")
	})
}

func firstDifference(got, want []string) string {
	for i := range max(len(got), len(want)) {
		g, w := "nothing", "nothing"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			return fmt.Sprintf("number %d of %d is %s, want %s of %d", i, len(got), g, w, len(want))
		}
	}
	return "none"
}
