package consumequeue_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/conformance/golden"
	"github.com/mqstore/mqstore/consumequeue"
)

// TestOpenFindsTheEnd: the longest prefix that can be believed (spec 2.2, without its quirks).
func TestOpenFindsTheEnd(t *testing.T) {
	set := func(us []unit, i int, u unit) []unit {
		us = append([]unit(nil), us...)
		us[i] = u
		return us
	}
	for _, c := range []struct {
		what               string
		files              map[int64][]byte
		min, max, maxPhy   int64
		lastPhy, firstFile int64
	}{
		{what: "an empty file", files: map[int64][]byte{0: {}}, max: 0, maxPhy: -1, lastPhy: -1},
		{what: "zeros", files: map[int64][]byte{0: file()}, maxPhy: -1, lastPhy: -1},
		{what: "zeros that begin above 0", files: map[int64][]byte{30: file()}, min: 30, max: 30, maxPhy: -1, lastPhy: -1},
		{what: "three units", files: map[int64][]byte{0: file(run(0, 3)...)}, max: 3, maxPhy: 300, lastPhy: 200},
		{what: "a full file", files: map[int64][]byte{0: file(run(0, 10)...)}, max: 10, maxPhy: 1000, lastPhy: 900},
		{what: "a full file, then zeros", files: map[int64][]byte{0: file(run(0, 10)...), 10: file()}, max: 10, maxPhy: 1000, lastPhy: 900},
		{what: "a full file, then an empty one", files: map[int64][]byte{0: file(run(0, 10)...), 10: {}}, max: 10, maxPhy: 1000, lastPhy: 900},
		{what: "a queue whose first files expired", files: map[int64][]byte{20: file(run(20, 10)...), 30: file(run(30, 2)...)}, min: 20, max: 32, maxPhy: 3200, lastPhy: 3100},
		{what: "fillers", files: map[int64][]byte{10: file(append(fillers(4), run(14, 2)...)...)}, min: 14, max: 16, maxPhy: 1600, lastPhy: 1500},
		{what: "fillers only", files: map[int64][]byte{10: file(fillers(4)...)}, min: 14, max: 14, maxPhy: -1, lastPhy: -1},
		{what: "a filler among units", files: map[int64][]byte{0: file(set(run(0, 8), 4, unit{Size: 0x7FFFFFFF})...)}, max: 4, maxPhy: 400, lastPhy: 300},
		{what: "a hole", files: map[int64][]byte{0: file(set(run(0, 8), 4, unit{})...)}, max: 4, maxPhy: 400, lastPhy: 300},
		{what: "a bad first unit", files: map[int64][]byte{0: file(set(run(0, 8), 0, unit{PhyOffset: -1, Size: 5})...)}, maxPhy: -1, lastPhy: -1},
		{what: "a bad first unit of the second file", files: map[int64][]byte{0: file(run(0, 10)...), 10: file(set(run(10, 8), 0, unit{})...)}, max: 10, maxPhy: 1000, lastPhy: 900},
		{what: "a bad first unit of a file in the middle", files: map[int64][]byte{0: file(run(0, 10)...), 10: file(set(run(10, 10), 0, unit{})...), 20: file(run(20, 3)...)}, max: 10, maxPhy: 1000, lastPhy: 900},
		{what: "a bad last unit of a file in the middle", files: map[int64][]byte{0: file(run(0, 10)...), 10: file(run(10, 9)...), 20: file(run(20, 3)...)}, max: 19, maxPhy: 1900, lastPhy: 1800},
		{what: "units from before a crash behind the end", files: map[int64][]byte{0: file(set(run(0, 8), 5, unit{PhyOffset: 450, Size: 50})...)}, max: 5, maxPhy: 500, lastPhy: 400},
		{what: "the same record twice", files: map[int64][]byte{0: file(set(run(0, 8), 5, run(4, 1)[0])...)}, max: 5, maxPhy: 500, lastPhy: 400},
		{what: "a file from before a crash", files: map[int64][]byte{0: file(run(0, 10)...), 10: file(run(3, 4)...)}, max: 10, maxPhy: 1000, lastPhy: 900},
		{what: "a size without end", files: map[int64][]byte{0: file(append(run(0, 3), unit{PhyOffset: 1<<63 - 5, Size: 100})...)}, max: 3, maxPhy: 300, lastPhy: 200},
	} {
		t.Run(c.what, func(t *testing.T) {
			fs := faultfs.New()
			plant(fs, c.files)
			before := tree1(fs)
			for _, readOnly := range []bool{true, false} {
				o := small(fs)
				o.FileSize, o.ReadOnly = 0, readOnly
				s := open(t, o)
				wantBounds(t, s.Queue(topic, 0), c.min, c.max, c.maxPhy)
				want := []consumequeue.Known{{Topic: topic, Min: c.min, Max: c.max, LastPhy: c.lastPhy}}
				if d := cmp.Diff(want, s.Snapshot()); d != "" {
					t.Errorf("snapshot (-want +got):\n%s", d)
				}
				if s.MaxPhyOffset() != c.maxPhy {
					t.Errorf("set ends at %d", s.MaxPhyOffset())
				}
				held(t, s.Queue(topic, 0))
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				if readOnly {
					if d := cmp.Diff(before, tree1(fs)); d != "" {
						t.Errorf("read-only open changed files:\n%s", d)
					}
				}
			}
		})
	}
}

// TestReport2OldUnitsDoNotComeBack (apache/rocketmq#495): cut the log in the middle, append records of another size, crash: what was cut from the queue is gone.
func TestReport2OldUnitsDoNotComeBack(t *testing.T) {
	for seed := range effort.Seeds(t, 30, 300) {
		rng := rand.New(rand.NewPCG(seed, 2))
		fs := faultfs.New()
		o := small(fs)
		o.FileSize = 4000 // two hundred units: files that span pages
		s := open(t, o)
		fill(t, s, 0, 1000)
		if err := s.Flush(); err != nil {
			t.Fatal(err)
		}
		fs = fs.Kill()
		o.FS = fs
		s = open(t, o)
		if err := s.TruncateTo(50000); err != nil { // the log lost its second half
			t.Fatal(err)
		}
		wantBounds(t, s.Queue(topic, 0), 0, 500, 50000)
		fs = fs.Crash(rng) // a truncation is durable when it returns
		o.FS = fs
		s = open(t, o)
		wantBounds(t, s.Queue(topic, 0), 0, 500, 50000)
		want := run(0, 500)
		for i := int64(500); i < 600; i++ {
			m := meta(i, 50000+30*(i-500), 30)
			if err := s.Dispatch(m); err != nil {
				t.Fatal(err)
			}
			want = append(want, unit{PhyOffset: m.PhyOffset, Size: 30, TagsCode: m.TagsCode})
		}
		fs = fs.Crash(rng)
		o.FS = fs
		s = open(t, o)
		q := s.Queue(topic, 0)
		if q.MaxOffset() < 500 || q.MaxOffset() > 600 {
			t.Fatalf("seed %d: queue ends at %d", seed, q.MaxOffset())
		}
		if d := cmp.Diff(want[:q.MaxOffset()-1], held(t, q)[:q.MaxOffset()-1]); d != "" { // the last one may be torn
			t.Fatalf("seed %d: units (-want +got):\n%s", seed, d)
		}
		for i := int64(400); i < 600; i++ { // dispatched again from the checkpoint on
			if err := s.Dispatch(metaOf(want[i], i)); err != nil {
				t.Fatal(err)
			}
		}
		if d := cmp.Diff(want, held(t, q)); d != "" {
			t.Fatalf("seed %d: units after dispatching again (-want +got):\n%s", seed, d)
		}
		_ = s.Close()
	}
}

// TestReport27DamageOfAQueueFileIsNeverAPanic (nats-io/nats-server#4842 and others): every length, every byte flipped, of queue and extension files.
func TestReport27DamageOfAQueueFileIsNeverAPanic(t *testing.T) {
	fs := faultfs.New()
	s := open(t, small(fs))
	fill(t, s, 3, 25)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	files := make(map[string][]byte)
	for _, p := range fs.Paths() {
		b, err := fs.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		files[p] = b
	}
	const ext = "TopicX/0/00000000000000000000"
	files[path.Join("/store/consumequeue_ext", topic, "0", "00000000000000000000")] = golden.ReadFile(t, "consumequeueext", "store/consumequeue_ext/"+ext)[:512]
	n := 0
	for name, b := range files {
		damage := func(what string, bad []byte) {
			defer func() {
				if r := recover(); r != nil {
					t.Fatalf("%s, %s: panic: %v", name, what, r)
				}
			}()
			n++
			fs := faultfs.New()
			for p, whole := range files {
				fs.Plant(p, whole)
			}
			if err := fs.Remove(name); err != nil {
				t.Fatal(err)
			}
			fs.Plant(name, bad)
			for _, size := range []int64{0, perFile * consumequeue.UnitSize} {
				useDamaged(t, fs, size)
			}
		}
		stride := 1
		if effort.Current() == effort.Race {
			stride = 11
		}
		for l := 0; l < len(b); l += stride {
			damage(fmt.Sprintf("cut to %d", l), b[:l])
		}
		for i := 0; i < len(b); i += stride {
			bad := bytes.Clone(b)
			bit := (i + i/8) % 8
			bad[i] ^= 1 << bit
			damage(fmt.Sprintf("bit %d of byte %d flipped", bit, i), bad)
		}
	}
	t.Logf("%d damaged files", n)
}

// useDamaged opens, reads, truncates, and rebuilds. In the end the queue must be right.
func useDamaged(t *testing.T, fs *faultfs.FS, size int64) {
	t.Helper()
	o := small(fs)
	o.FileSize = size
	s, err := consumequeue.Open(o)
	if err != nil {
		if !errors.Is(err, consumequeue.ErrMalformed) && !errors.Is(err, mappedfile.ErrWrongSize) && !errors.Is(err, mappedfile.ErrMisplaced) && !errors.Is(err, mappedfile.ErrCorrupt) {
			t.Fatalf("open: %v", err)
		}
		o.Tolerant = true
		if s, err = consumequeue.Open(o); err != nil {
			t.Fatalf("tolerant open: %v", err)
		}
		if st := s.Strays(); len(st) != 1 || st[0].Err == nil || st[0].Topic != topic {
			t.Fatalf("strays %v", st)
		}
		if s.Queue(topic, 0) != nil {
			t.Fatal("a queue that was left out is there")
		}
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}()
	rebuild := s.Queue(topic, 0) == nil
	if q := s.Queue(topic, 0); q != nil {
		for at := q.MinOffset(); at < q.MaxOffset(); {
			v, err := q.View(at)
			if err != nil {
				t.Fatal(err)
			}
			at += int64(v.Len())
			v.Release()
		}
		for i := int64(-1); i < 31; i++ {
			_, _ = q.Unit(i)
			_, _ = q.Ext(-1<<63 + 24*i)
		}
	}
	if err := s.TruncateTo(2500); err != nil {
		t.Fatal(err)
	}
	if err := s.CorrectMin(300); err != nil {
		t.Fatal(err)
	}
	for i := int64(3); i < 26 && !rebuild; i++ {
		rebuild = s.Dispatch(meta(i, 100*i, 100)) != nil
	}
	if q := s.Queue(topic, 0); !rebuild && (q.Conflicts() > 0 || q.MinOffset() != 3) {
		rebuild = true
	}
	if rebuild {
		if _, err := s.ResetQueue(topic, 0); err != nil {
			t.Fatal(err)
		}
		fill(t, s, 3, 26)
	}
	if d := cmp.Diff(run(3, 23), held(t, s.Queue(topic, 0))); d != "" {
		t.Fatalf("rebuilt: %v, units (-want +got):\n%s", rebuild, d)
	}
}

func TestAFileOfAWrongLengthIsNamed(t *testing.T) {
	name := path.Join(cqDir, topic, "0", "00000000000000000000")
	for _, c := range []struct {
		have, option int64
	}{{19, 0}, {201, 0}, {200, 400}, {400, 200}, {1, 200}} {
		fs := faultfs.New()
		fs.Plant(name, make([]byte, c.have))
		o := small(fs)
		o.FileSize = c.option
		_, err := consumequeue.Open(o)
		if err == nil || !bytes.Contains([]byte(err.Error()), []byte(name)) {
			t.Errorf("%d bytes, option %d: %v", c.have, c.option, err)
		}
		o.Tolerant, o.ReadOnly = true, true
		s := open(t, o)
		if st := s.Strays(); len(st) != 1 || st[0].Err == nil {
			t.Errorf("%d bytes, option %d: strays %v", c.have, c.option, st)
		}
	}
}

func TestStraysAreReportedAndLeftAlone(t *testing.T) {
	fs := faultfs.New()
	plant(fs, map[int64][]byte{0: file(run(0, 2)...)})
	for _, p := range []string{"readme", "T/x/00000000000000000000", "T/-1/00000000000000000000", "T/007/00000000000000000000", "T/1", "T/0/backup.tmp", "T/2147483648/00000000000000000000"} {
		fs.Plant(path.Join(cqDir, p), file(run(0, 1)...))
	}
	before := tree1(fs)
	s := open(t, small(fs))
	var got []string
	for _, x := range s.Strays() {
		got = append(got, x.Path)
		if x.Err != nil {
			t.Errorf("%s: %v", x.Path, x.Err)
		}
	}
	want := []string{
		cqDir + "/T/-1", cqDir + "/T/0/backup.tmp", cqDir + "/T/007", cqDir + "/T/1", cqDir + "/T/2147483648", cqDir + "/T/x", cqDir + "/readme",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("strays (-want +got):\n%s", d)
	}
	if n := len(s.Snapshot()); n != 1 {
		t.Errorf("%d queues", n)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(before, tree1(fs)); d != "" {
		t.Errorf("files changed:\n%s", d)
	}
}

// TestTruncateToCutsEveryUnitBeyond, at every boundary, durably, with zeros behind.
func TestTruncateToCutsEveryUnitBeyond(t *testing.T) {
	const first, last = 13, 45
	for cut := int64(first); cut <= last+1; cut++ {
		for _, phy := range []int64{100 * cut, 100*cut + 60} {
			fs := faultfs.New()
			s := open(t, small(fs))
			fill(t, s, first, last+1)
			if err := s.Flush(); err != nil {
				t.Fatal(err)
			}
			if err := s.TruncateTo(phy); err != nil {
				t.Fatal(err)
			}
			maxPhy := 100 * cut
			if cut == first {
				maxPhy = -1
			}
			wantBounds(t, s.Queue(topic, 0), min(first, cut), cut, maxPhy)
			fs = fs.Crash(rand.New(rand.NewPCG(uint64(cut), 3)))
			for _, p := range fs.Paths() {
				b, err := fs.ReadFile(p)
				if err != nil {
					t.Fatal(err)
				}
				var start int64
				if _, err := fmt.Sscanf(path.Base(p), "%d", &start); err != nil {
					t.Fatal(err)
				}
				if tail := b[min(max(cut*consumequeue.UnitSize-start, 0), int64(len(b))):]; len(bytes.Trim(tail, "\x00")) > 0 {
					t.Fatalf("cut at %d: %s is not zero behind", cut, p)
				}
			}
			s = open(t, small(fs))
			wantBounds(t, s.Queue(topic, 0), min(first, cut), cut, maxPhy)
			fill(t, s, cut, last+5)
			if d := cmp.Diff(run(first, last+5-first), held(t, s.Queue(topic, 0))); d != "" {
				t.Fatalf("cut at %d: units (-want +got):\n%s", cut, d)
			}
		}
	}
}

// TestTruncateToClearsWhatLiesBehindAHole, without cutting anything.
func TestTruncateToClearsWhatLiesBehindAHole(t *testing.T) {
	fs := faultfs.New()
	us := run(0, 10)
	us[4], us[9] = unit{}, unit{} // the second one makes the first one looked for
	plant(fs, map[int64][]byte{0: file(us...), 10: file(run(10, 10)...)})
	s := open(t, small(fs))
	if err := s.TruncateTo(1 << 40); err != nil {
		t.Fatal(err)
	}
	wantBounds(t, s.Queue(topic, 0), 0, 4, 400)
	fs = fs.Crash(rand.New(rand.NewPCG(1, 1)))
	b, err := fs.ReadFile(path.Join(cqDir, topic, "0", "00000000000000000000"))
	if want := file(run(0, 4)...); err != nil || !bytes.Equal(b, want) || len(fs.Paths()) != 1 {
		t.Fatalf("%v, files %v, % x", err, fs.Paths(), b)
	}
}

// TestKnownIsBelievedOnlyWhereTheFilesAgree.
func TestKnownIsBelievedOnlyWhereTheFilesAgree(t *testing.T) {
	fs := faultfs.New()
	us := run(0, 25)
	us[12] = unit{} // a hole that only a scan sees, to tell the two ways apart
	plant(fs, map[int64][]byte{10: file(us[10:20]...)})
	for _, c := range []struct {
		what     string
		k        consumequeue.Known
		believed bool
	}{
		{"the truth", consumequeue.Known{Topic: topic, Min: 11, Max: 20, LastPhy: 1900}, true},
		{"another last record", consumequeue.Known{Topic: topic, Min: 11, Max: 20, LastPhy: 1800}, false},
		{"an end before the units'", consumequeue.Known{Topic: topic, Min: 11, Max: 19, LastPhy: 1800}, false},
		{"an end beyond the file", consumequeue.Known{Topic: topic, Min: 11, Max: 21, LastPhy: 1900}, false},
		{"a minimum before the file", consumequeue.Known{Topic: topic, Min: 9, Max: 20, LastPhy: 1900}, false},
		{"a minimum beyond the end", consumequeue.Known{Topic: topic, Min: 21, Max: 20, LastPhy: 1900}, false},
		{"nothing", consumequeue.Known{Topic: topic, LastPhy: -1}, false},
		{"nonsense", consumequeue.Known{Topic: topic, Min: -1 << 63, Max: 1<<63 - 1, LastPhy: 1900}, false},
		{"another queue", consumequeue.Known{Topic: topic, QueueID: 1, Min: 11, Max: 20, LastPhy: 1900}, false},
	} {
		o := small(fs)
		o.Known = []consumequeue.Known{c.k}
		s := open(t, o)
		want := bounds{10, 12, 1200}
		if c.believed {
			want = bounds{11, 20, 2000}
		}
		if d := cmp.Diff(want, boundsOf(s.Queue(topic, 0))); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.what, d)
		}
		_ = s.Close()
	}
}

// TestASnapshotGivesTheSameQueuesBack.
func TestASnapshotGivesTheSameQueuesBack(t *testing.T) {
	fs := faultfs.New()
	s := open(t, small(fs))
	for i := range int64(40) {
		m := meta(i, 1000*i, 100)
		m.Topic, m.QueueID, m.QueueOffset = fmt.Sprint("T", i%3), int32(i%2), 5+i/6
		if err := s.Dispatch(m); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.CorrectMin(9000); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	want := s.Snapshot()
	o := small(fs)
	o.Known, o.Clean = want, true
	if d := cmp.Diff(want, open(t, o).Snapshot()); d != "" {
		t.Error(d)
	}
}

// TestReadOnlyRefusesEveryChange and says so.
func TestReadOnlyRefusesEveryChange(t *testing.T) {
	fs := faultfs.New()
	plant(fs, map[int64][]byte{0: file(run(0, 10)...), 10: file(run(10, 2)...)})
	before := tree1(fs)
	o := small(fs)
	o.ReadOnly = true
	s := open(t, o)
	_, ensure := s.Ensure("new", 0)
	_, reset := s.ResetQueue(topic, 0)
	_, expire := s.Expire(1100)
	for what, err := range map[string]error{
		"dispatch": s.Dispatch(meta(12, 1200, 100)), "truncate": s.TruncateTo(500), "remove": s.Remove(topic, 0),
		"ensure": ensure, "reset": reset, "expire": expire,
	} {
		if !errors.Is(err, mappedfile.ErrReadOnly) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := s.CorrectMin(500); err != nil { // memory only
		t.Error(err)
	}
	wantBounds(t, s.Queue(topic, 0), 5, 12, 1200)
	if err := s.Flush(); err != nil {
		t.Error(err)
	}
	if d := cmp.Diff(before, tree1(fs)); d != "" {
		t.Errorf("files changed:\n%s", d)
	}
}
