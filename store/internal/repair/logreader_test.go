package repair

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/mqstore/mqstore/commitlog/record"
)

// logOf is a log of records of one queue in segments of that size, and where each record lies.
func logOf(t *testing.T, segment, n int) (fstest.MapFS, []int64) {
	t.Helper()
	fsys := fstest.MapFS{"abort": {}}
	var at []int64
	seg := make([]byte, segment)
	base, pos := int64(0), 0
	put := func() {
		fsys["commitlog/"+segmentName(base)] = &fstest.MapFile{Data: seg}
	}
	for i := range n {
		m := record.Message{Topic: "T", Body: []byte(strings.Repeat("x", 20+i%7)), QueueOffset: int64(i), PhyOffset: base + int64(pos), StoreTimestamp: 1_700_000_000_000 + int64(i)}
		b, err := record.AppendRecord(nil, &m, record.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if pos+len(b)+record.BlankHeaderSize > segment {
			record.PutBlank(seg[pos:], segment-pos)
			put()
			base, pos, seg = base+int64(segment), 0, make([]byte, segment)
			record.Patch(b, int64(i), base, m.StoreTimestamp)
		}
		at = append(at, base+int64(pos))
		pos += copy(seg[pos:], b)
	}
	put()
	return fsys, at
}

func starts(t *testing.T, fsys fs.FS, sums bool) (at []int64, damage []*Damage) {
	t.Helper()
	f, err := Look(fsys, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := f.ReadLog(0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.sumsOnly = sums
	for {
		rec, err := r.Next()
		var d *Damage
		switch {
		case err == io.EOF:
			return at, damage
		case errors.As(err, &d):
			damage = append(damage, d)
		case err != nil:
			t.Fatal(err)
		default:
			at = append(at, rec.Meta.PhyOffset)
		}
	}
}

func TestLogReaderLosesNoRecordBehindABlankThatLies(t *testing.T) {
	fsys, at := logOf(t, 1024, 20)
	record.PutBlank(fsys["commitlog/"+segmentName(0)].Data[at[2]:], 333)
	got, damage := starts(t, fsys, true)
	if want := slices.Delete(slices.Clone(at), 2, 3); !slices.Equal(got, want) {
		t.Errorf("records at %v, want %v", got, want)
	}
	if len(damage) != 1 || damage[0].From != at[2] || damage[0].To != at[3] || !errors.Is(damage[0], record.ErrSize) {
		t.Errorf("damage %v, want the blank at %d", damage, at[2])
	}
}

func TestLogReaderFindsRecordsBehindZerosOfTheLastSegment(t *testing.T) {
	fsys, at := logOf(t, 8192, 20)
	clear(fsys["commitlog/"+segmentName(0)].Data[at[5]:at[9]])
	got, damage := starts(t, fsys, true)
	if want := slices.Delete(slices.Clone(at), 5, 9); !slices.Equal(got, want) {
		t.Errorf("records at %v, want %v", got, want)
	}
	if len(damage) != 1 || damage[0].From != at[5] || damage[0].To != at[9] {
		t.Errorf("damage %v, want [%d, %d)", damage, at[5], at[9])
	}
}

func TestLogReaderBelievesBehindDamageOnlyRecordsThatVerify(t *testing.T) {
	for _, sums := range []bool{true, false} {
		fsys, at := logOf(t, 8192, 20)
		b := fsys["commitlog/"+segmentName(0)].Data
		b[at[5]+4] ^= 1  // no record any more
		b[at[6]+90] ^= 1 // the next one's body
		got, damage := starts(t, fsys, sums)
		if want := slices.Delete(slices.Clone(at), 5, 7); !slices.Equal(got, want) {
			t.Errorf("records at %v, want %v", got, want)
		}
		if len(damage) != 1 || damage[0].From != at[5] || damage[0].To != at[7] || !errors.Is(damage[0], record.ErrMagic) {
			t.Errorf("damage %v, want [%d, %d)", damage, at[5], at[7])
		}
	}
}

// badSectors is a file system in which a range of each file cannot be read.
type badSectors struct {
	fs.FS
	from, to int64
}

func (b badSectors) Open(name string) (fs.File, error) {
	f, err := b.FS.Open(name)
	if at, ok := f.(io.ReaderAt); ok {
		return &badFile{f, at, b.from, b.to}, err
	}
	return f, err
}

type badFile struct {
	fs.File
	at       io.ReaderAt
	from, to int64
}

func (f *badFile) ReadAt(p []byte, off int64) (int, error) {
	if off >= f.from && off < f.to {
		return 0, syscall.EIO
	}
	if off < f.from && off+int64(len(p)) > f.from {
		n, _ := f.at.ReadAt(p[:f.from-off], off)
		return n, syscall.EIO
	}
	return f.at.ReadAt(p, off)
}

func TestLogReaderReadsAroundBadSectors(t *testing.T) {
	const segment = 64 << 10
	fsys, at := logOf(t, segment, 500)
	got, damage := starts(t, badSectors{fsys, 4096, 12288}, true)
	if len(damage) != 1 || !errors.Is(damage[0], syscall.EIO) {
		t.Fatalf("damage %v, want the sectors", damage)
	}
	d := damage[0]
	if d.From > 4096 || d.From < 4096-200 || d.To < 12288 || d.To > 12288+200 {
		t.Errorf("damage [%d, %d), want just around [4096, 12288)", d.From, d.To)
	}
	want := slices.DeleteFunc(slices.Clone(at), func(a int64) bool { return a >= d.From && a < d.To })
	if !slices.Equal(got, want) {
		t.Errorf("%d records, want %d", len(got), len(want))
	}
}

func TestALongRecordIsReadThroughAWindow(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		m := record.Message{Topic: "long", Body: bytes.Repeat([]byte("0123456789"), 4<<20), QueueOffset: 3, StoreTimestamp: 5, Properties: record.NewProperties(record.PropertyTags, "a")}
		if v6 {
			m.SysFlag = record.FlagBornHostV6 | record.FlagStoreHostV6
		}
		b, err := record.AppendRecord(nil, &m, record.Limits{MaxMessageSize: 1 << 30})
		if err != nil {
			t.Fatal(err)
		}
		size := len(b)
		var want record.Meta
		if err := new(record.Parser).Parse(b, 0, &want); err != nil {
			t.Fatal(err)
		}
		b = append(b, make([]byte, 100)...)
		fsys := fstest.MapFS{"commitlog/" + segmentName(0): {Data: b}}
		for _, damaged := range []bool{false, true} {
			if damaged {
				b[30<<20] ^= 1
			}
			f, err := Look(fsys, nil)
			if err != nil {
				t.Fatal(err)
			}
			r, err := f.ReadLog(0)
			if err != nil {
				t.Fatal(err)
			}
			r.sumsOnly = true
			rec, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			if (rec.CRC != nil) != damaged || damaged && !errors.Is(rec.CRC, record.ErrCRC) {
				t.Errorf("damaged=%v: checksum %v", damaged, rec.CRC)
			}
			if got := rec.Meta; got.Size != size || got.Topic != want.Topic || got.TagsCode != want.TagsCode || got.BodyCRC != want.BodyCRC || got.QueueOffset != 3 {
				t.Errorf("%+v, want %+v", got, want)
			}
			if _, err := r.Next(); err != io.EOF {
				t.Error(err)
			}
			r.Close()
		}
	}
}
