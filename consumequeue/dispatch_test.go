package consumequeue_test

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mqstore/mqstore/commitlog/invariant"
	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/golden"
	"github.com/mqstore/mqstore/consumequeue"
)

// TestGuards: what a queue that holds 3..5 makes of a record (spec 2.3).
func TestGuards(t *testing.T) {
	for _, c := range []struct {
		what      string
		m         *record.Meta
		gap       bool
		malformed bool
		grows     bool
		conflicts int64
	}{
		{what: "the next one", m: meta(6, 600, 100), grows: true},
		{what: "the next one, with room between", m: meta(6, 9000, 100), grows: true},
		{what: "the last one again", m: meta(5, 500, 100)},
		{what: "an older one again", m: meta(3, 300, 100)},
		{what: "one from before the queue begins", m: meta(1, 100, 100)},
		{what: "offset 0, later in the log", m: meta(0, 600, 100)},
		{what: "a held offset, later in the log", m: meta(4, 600, 100), conflicts: 1},
		{what: "a held offset, earlier in the log", m: meta(4, 100, 100), conflicts: 1},
		{what: "beyond the end", m: meta(7, 600, 100), gap: true},
		{what: "far beyond the end", m: meta(1<<40, 600, 100), gap: true},
		{what: "beyond the end, but from before", m: meta(7, 200, 100)},
		{what: "the next one, overlapping the last", m: meta(6, 550, 100), malformed: true},
		{what: "no queue offset", m: meta(-1, 600, 100), malformed: true},
		{what: "a queue offset that no file can have", m: meta(1<<62, 600, 100), malformed: true},
		{what: "no physical offset", m: meta(6, -1, 100), malformed: true},
		{what: "no size", m: meta(6, 600, 0), malformed: true},
		{what: "a size that no unit can have", m: meta(6, 600, 1<<40), malformed: true},
		{what: "prepared", m: with(meta(6, 600, 100), record.TransactionPrepared)},
		{what: "rolled back", m: with(meta(6, 600, 100), record.TransactionRollback)},
		{what: "committed", m: with(meta(6, 600, 100), record.TransactionCommit), grows: true},
		{what: "a blank", m: &record.Meta{Magic: record.MagicBlank, PhyOffset: 600, Size: 100}},
	} {
		t.Run(c.what, func(t *testing.T) {
			s := open(t, small(faultfs.New()))
			fill(t, s, 3, 6)
			q := s.Queue(topic, 0)
			before := held(t, q)
			err := s.Dispatch(c.m)
			var gap *consumequeue.GapError
			switch {
			case c.gap:
				if !errors.As(err, &gap) || !errors.Is(err, consumequeue.ErrGap) || gap.Want != 6 || gap.Got != c.m.QueueOffset || gap.Topic != topic {
					t.Fatalf("%v is not the gap", err)
				}
			case c.malformed:
				if !errors.Is(err, consumequeue.ErrMalformed) {
					t.Fatal(err)
				}
			case err != nil:
				t.Fatal(err)
			}
			if c.grows {
				before = append(before, unit{PhyOffset: c.m.PhyOffset, Size: int32(c.m.Size), TagsCode: c.m.TagsCode})
			}
			if d := cmp.Diff(before, held(t, q)); d != "" {
				t.Errorf("units (-want +got):\n%s", d)
			}
			if q.Conflicts() != c.conflicts {
				t.Errorf("%d conflicts", q.Conflicts())
			}
			if n := len(s.Snapshot()); n != 1 {
				t.Errorf("%d queues", n)
			}
		})
	}
}

func with(m *record.Meta, x record.Transaction) *record.Meta {
	m.SysFlag = record.SysFlag(x)
	return m
}

// TestAQueueBeginsAnywhere: fillers from the file's start up to the first queue offset (spec 2.3, 2.4), now and after reopening.
func TestAQueueBeginsAnywhere(t *testing.T) {
	for _, first := range []int64{0, 1, 9, 10, 11, 25, 1 << 40} {
		t.Run(fmt.Sprint(first), func(t *testing.T) {
			fs := faultfs.New()
			s := open(t, small(fs))
			if err := s.Dispatch(meta(first, 5, 100)); err != nil {
				t.Fatal(err)
			}
			wantBounds(t, s.Queue(topic, 0), first, first+1, 105)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			start := first / perFile * perFile
			want := file(append(fillers(int(first-start)), unit{PhyOffset: 5, Size: 100, TagsCode: first + 7})...)
			name := path.Join(cqDir, topic, "0", fmt.Sprintf("%020d", start*consumequeue.UnitSize))
			if got, err := fs.ReadFile(name); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s: %v\n% x\nwant\n% x", name, err, got, want)
			}
			if ps := fs.Paths(); len(ps) != 1 {
				t.Fatalf("files %v", ps)
			}
			s = open(t, small(fs))
			wantBounds(t, s.Queue(topic, 0), first, first+1, 105)
			if err := s.Dispatch(meta(first+1, 105, 9)); err != nil {
				t.Fatal(err)
			}
			wantBounds(t, s.Queue(topic, 0), first, first+2, 114)
		})
	}
}

// TestAQueueWithoutUnitsBeginsWhereItsFirstRecordSays, whatever a crash left of an earlier beginning.
func TestAQueueWithoutUnitsBeginsWhereItsFirstRecordSays(t *testing.T) {
	for what, files := range map[string]map[int64][]byte{
		"nothing":                 nil,
		"an empty file":           {20: {}},
		"zeros":                   {20: file()},
		"some fillers":            {20: file(fillers(3)...)},
		"more fillers":            {20: file(fillers(8)...)},
		"a whole file of fillers": {20: file(fillers(10)...)},
		"another file's zeros":    {30: file()},
		"two files of zeros":      {20: file(), 30: file()},
		"units behind a bad one":  {20: file(append([]unit{{}}, run(21, 9)...)...), 30: file(run(30, 4)...)},
	} {
		t.Run(what, func(t *testing.T) {
			fs := faultfs.New()
			plant(fs, files)
			s := open(t, small(fs))
			if err := s.Dispatch(meta(25, 2500, 100)); err != nil {
				t.Fatal(err)
			}
			wantBounds(t, s.Queue(topic, 0), 25, 26, 2600)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			got, err := fs.ReadFile(path.Join(cqDir, topic, "0", fmt.Sprintf("%020d", 20*consumequeue.UnitSize)))
			if want := file(append(fillers(5), run(25, 1)...)...); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%v\n% x\nwant\n% x", err, got, want)
			}
			if ps := fs.Paths(); len(ps) != 1 {
				t.Fatalf("files %v", ps)
			}
		})
	}
}

// TestReport5NothingIsWrittenPastAHole (apache/rocketmq#7355; defect 13): the newest file is lost; the records behind are refused, until a reset lets the queue be built anew.
func TestReport5NothingIsWrittenPastAHole(t *testing.T) {
	fs := faultfs.New()
	s := open(t, small(fs))
	fill(t, s, 0, 35)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := fs.Remove(path.Join(cqDir, topic, "0", fmt.Sprintf("%020d", 30*consumequeue.UnitSize))); err != nil {
		t.Fatal(err)
	}
	s = open(t, small(fs))
	wantBounds(t, s.Queue(topic, 0), 0, 30, 3000)
	before := tree1(fs)
	for _, at := range []int64{31, 35, 40} {
		if err := s.Dispatch(meta(at, 100*at, 100)); !errors.Is(err, consumequeue.ErrGap) {
			t.Fatalf("record %d: %v", at, err)
		}
	}
	if d := cmp.Diff(before, tree1(fs)); d != "" {
		t.Fatalf("a refused record changed files:\n%s", d)
	}
	q, err := s.ResetQueue(topic, 0)
	if err != nil {
		t.Fatal(err)
	}
	wantBounds(t, q, 0, 0, -1)
	fill(t, s, 0, 41)
	if d := cmp.Diff(run(0, 41), held(t, s.Queue(topic, 0))); d != "" {
		t.Errorf("rebuilt queue (-want +got):\n%s", d)
	}
}

func tree1(fs *faultfs.FS) map[string]string {
	files := make(map[string]string)
	for _, p := range fs.Paths() {
		b, err := fs.ReadFile(p)
		files[p] = fmt.Sprintf("%x %v", b, err)
	}
	return files
}

// TestReport42AFullDiskHasAWayBack (alibaba/rocketmq#331): a dispatch that finds the disk full changes nothing and can be repeated.
func TestReport42AFullDiskHasAWayBack(t *testing.T) {
	fs := faultfs.New()
	o := small(fs)
	o.FileSize = 8192 / consumequeue.UnitSize * consumequeue.UnitSize * 4
	s := open(t, o)
	fs.SetLimit(20 << 10)
	full := 0
	for i := int64(0); i < 5000; i++ {
		err := s.Dispatch(meta(i, 100*i, 100))
		if err == nil {
			continue
		}
		if !errors.Is(err, mappedfile.ErrDiskFull) {
			t.Fatal(err)
		}
		full++
		if q := s.Queue(topic, 0); q.MaxOffset() != i {
			t.Fatalf("after a refusal of unit %d the queue ends at %d", i, q.MaxOffset())
		}
		fs.SetLimit(0)
		if err := s.Dispatch(meta(i, 100*i, 100)); err != nil {
			t.Fatalf("with room again: %v", err)
		}
		fs.SetLimit(int64(full+1) * (30 << 10))
	}
	if full < 2 {
		t.Fatalf("the disk was full %d times: the test tests nothing", full)
	}
	if d := cmp.Diff(run(0, 5000), held(t, s.Queue(topic, 0))); d != "" {
		t.Error(d)
	}
}

// TestADispatchThatFailedCanBeRepeated whatever operation failed, with the same files in the end. A failed sync is final until the set is opened again.
func TestADispatchThatFailedCanBeRepeated(t *testing.T) {
	reopened := 0
	feed := func(fs *faultfs.FS) map[string]string {
		o := small(fs)
		s, err := consumequeue.Open(o)
		for ; err != nil; s, err = consumequeue.Open(o) {
		}
		tries := 0
		for i := int64(7); i < 25; {
			err := s.Dispatch(meta(i, 100*i, 100))
			switch {
			case err == nil:
				i, tries = i+1, 0
			case !errors.Is(err, faultfs.ErrInjected) || tries > 3:
				t.Fatalf("record %d: %v", i, err)
			case tries > 1:
				_ = s.Close()
				s = open(t, o)
				i = 7
				reopened++
			default:
				tries++
			}
		}
		if d := cmp.Diff(run(7, 18), held(t, s.Queue(topic, 0))); d != "" {
			t.Fatal(d)
		}
		_ = s.Close()
		return tree1(fs)
	}
	// It begins with what a crash left, so that the queue has to begin anew.
	fresh := func() *faultfs.FS {
		fs := faultfs.New()
		plant(fs, map[int64][]byte{20: file(fillers(2)...)})
		return fs
	}
	fs := fresh()
	want := feed(fs)
	ops := fs.Ops()
	if ops < 10 {
		t.Fatalf("only %d operations", ops)
	}
	for n := int64(1); n <= ops; n++ {
		fs := fresh()
		fs.FailOnce(n, nil)
		if d := cmp.Diff(want, feed(fs)); d != "" {
			t.Fatalf("operation %d failed: files differ:\n%s", n, d)
		}
	}
	if reopened > 3 {
		t.Errorf("%d of %d failures were final: only those of the clearing sync should be", reopened, ops)
	}
}

// TestDispatchDoesNotAllocate, once a queue and its file are there.
func TestDispatchDoesNotAllocate(t *testing.T) {
	s := open(t, consumequeue.Options{Dir: t.TempDir()})
	f := newFeed(16)
	for range 16 {
		if err := s.Dispatch(f.meta()); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(500, func() {
		if err := s.Dispatch(f.meta()); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if invariant.Enabled {
		return // views are checked then, which allocates
	}
	m := f.m[0]
	if n := testing.AllocsPerRun(500, func() { // a duplicate
		if err := s.Dispatch(&m); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations of a duplicate", n)
	}
}

// TestATornUnitIsMendedByItsRecord: what a crash tore or lost inside the queue comes back when its record is dispatched again.
func TestATornUnitIsMendedByItsRecord(t *testing.T) {
	units := run(0, 25)
	for what, bad := range map[string]unit{
		"lost":          {},
		"no tags":       {PhyOffset: 500, Size: 100},
		"half a size":   {PhyOffset: 500, Size: 64, TagsCode: 12},
		"only the tags": {TagsCode: 12},
	} {
		t.Run(what, func(t *testing.T) {
			fs := faultfs.New()
			torn := append([]unit(nil), units...)
			torn[5] = bad
			plant(fs, map[int64][]byte{0: file(torn[:10]...), 10: file(torn[10:20]...), 20: file(torn[20:]...)})
			s := open(t, small(fs))
			wantBounds(t, s.Queue(topic, 0), 0, 25, 2500)
			if _, err := s.Queue(topic, 0).Unit(5); !bad.Valid() && !errors.Is(err, mappedfile.ErrCorrupt) {
				t.Errorf("reading the bad unit: %v", err)
			}
			fill(t, s, 0, 26)
			if d := cmp.Diff(run(0, 26), held(t, s.Queue(topic, 0))); d != "" {
				t.Errorf("units (-want +got):\n%s", d)
			}
			if n := s.Queue(topic, 0).Conflicts(); n != 0 {
				t.Errorf("%d conflicts", n)
			}
		})
	}
	t.Run("only by its own", func(t *testing.T) {
		fs := faultfs.New()
		torn := append([]unit(nil), units...)
		torn[5] = unit{}
		plant(fs, map[int64][]byte{0: file(torn[:10]...), 10: file(torn[10:20]...)})
		s := open(t, small(fs))
		if err := s.Dispatch(meta(5, 300, 50)); err != nil { // of an earlier life of the topic
			t.Fatal(err)
		}
		if q := s.Queue(topic, 0); q.Conflicts() != 1 {
			t.Errorf("%d conflicts", q.Conflicts())
		} else if _, err := q.Unit(5); !errors.Is(err, mappedfile.ErrCorrupt) {
			t.Errorf("unit 5: %v", err)
		}
	})
}

// TestExtAddressesAreNotTornTags: a unit whose tags code is the address of an extension unit of its record is as it should be; one that leads nowhere is mended.
func TestExtAddressesAreNotTornTags(t *testing.T) {
	m := golden.Load(t, "consumequeueext")
	root := filepath.Join(golden.Extract(t, "consumequeueext"), "store")
	before := tree(t, root)
	dispatch := func(extDir string) {
		s := open(t, consumequeue.Options{Dir: filepath.Join(root, "consumequeue"), ExtDir: extDir, Clean: true})
		for _, r := range logRecords(t, filepath.Join(root, "commitlog"), delayOf(t, m.Config)) {
			if err := s.Dispatch(&r); err != nil {
				t.Fatal(err)
			}
		}
		for q := range s.All() {
			for i, u := range held(t, q) {
				if u.IsExtAddress() != (extDir != "elsewhere") {
					t.Fatalf("%s unit %d: %+v", q, i, u)
				}
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{filepath.Join(root, "consumequeue_ext"), ""} {
		dispatch(dir)
		if d := cmp.Diff(before, tree(t, root)); d != "" {
			t.Fatalf("files changed:\n%s", d)
		}
	}
	dispatch("elsewhere")
}

func TestNamesThatAreNoDirectoriesAreRefused(t *testing.T) {
	fs := faultfs.New()
	s := open(t, small(fs))
	for _, name := range []string{"", ".", "..", "a/b", "../x", "/", "nul\x00", strings.Repeat("x", 256)} {
		m := meta(0, 0, 100)
		m.Topic = name
		var bad *consumequeue.NameError
		if err := s.Dispatch(m); !errors.As(err, &bad) || !errors.Is(err, consumequeue.ErrName) || bad.Topic != name {
			t.Errorf("topic %q: %v", name, err)
		}
		if err := s.Remove(name, 0); !errors.Is(err, consumequeue.ErrName) {
			t.Errorf("remove %q: %v", name, err)
		}
	}
	m := meta(0, 0, 100)
	m.QueueID = -1
	if err := s.Dispatch(m); !errors.Is(err, consumequeue.ErrName) {
		t.Errorf("queue -1: %v", err)
	}
	for _, name := range []string{"%LMQ%x", "%RETRY%group", "日本", `a\b`, "...", strings.Repeat("x", 255)} {
		m := meta(0, 0, 100)
		m.Topic = name
		if err := s.Dispatch(m); err != nil {
			t.Errorf("topic %q: %v", name, err)
		}
	}
}
