package repair

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/conformance/golden"
	"github.com/mqstore/mqstore/consumequeue"
)

// findings of a file system, as briefs.
func findings(t testing.TB, fsys fs.FS) (out []string) {
	t.Helper()
	_, err := Check(t.Context(), fsys, nil, CheckOptions{}, func(f Finding) error {
		out = append(out, brief(f))
		return nil
	})
	if n := (*NotAStoreError)(nil); err != nil && !errors.As(err, &n) {
		t.Fatal(err)
	}
	return out
}

// closed is a file system in which some names cannot be opened or listed.
type closed struct {
	fs.FS
	names []string
}

func (c closed) Open(name string) (fs.File, error) {
	if slices.Contains(c.names, name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return c.FS.Open(name)
}

func TestWhatCannotBeReadIsAFinding(t *testing.T) {
	dir := filepath.Join(golden.Extract(t, "consumequeueext"), "store")
	var names []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, p)
		rel = filepath.ToSlash(rel)
		if top, _, _ := strings.Cut(rel, "/"); rel != "." && top != "config" && top != "lock" {
			names = append(names, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		found := findings(t, closed{os.DirFS(dir), []string{name}})
		told := slices.ContainsFunc(found, func(b string) bool {
			return strings.HasPrefix(b, "unreadable "+name) || strings.HasPrefix(name, "consumequeue_ext") && (strings.HasPrefix(b, "bad-ext-address") || strings.HasPrefix(b, "unreadable"))
		})
		if !told {
			t.Errorf("%s: %q", name, found)
		}
	}
}

func TestHostileDirectoriesGiveFindings(t *testing.T) {
	segment := func(start int64) string { return "commitlog/" + segmentName(start) }
	for name, c := range map[string]struct {
		do   func(m fstest.MapFS)
		want string // the beginning of one finding; "" for none at all
	}{
		"nothing done":          {func(fstest.MapFS) {}, ""},
		"empty segment":         {func(m fstest.MapFS) { m[segment(4096)] = &fstest.MapFile{} }, "wrong-length " + segment(4096)},
		"directory as segment":  {func(m fstest.MapFS) { m[segment(4096)] = &fstest.MapFile{Mode: fs.ModeDir | 0o755} }, "stray-file " + segment(4096)},
		"device as segment":     {func(m fstest.MapFS) { m[segment(4096)] = &fstest.MapFile{Mode: fs.ModeDevice} }, "stray-file " + segment(4096)},
		"a name beyond numbers": {func(m fstest.MapFS) { m["commitlog/99999999999999999999"] = &fstest.MapFile{} }, "stray-file commitlog/99999999999999999999"},
		"the largest offset":    {func(m fstest.MapFS) { m["commitlog/09223372036854775807"] = &fstest.MapFile{Data: make([]byte, 4096)} }, "stray-file commitlog/09223372036854775807"},
		"a far segment":         {func(m fstest.MapFS) { m[segment(1<<50)] = &fstest.MapFile{Data: make([]byte, 4096)} }, "missing-segment"},
		"odd names": {func(m fstest.MapFS) {
			m["commitlog/\x1b[31m\n\xff"] = &fstest.MapFile{}
			m["consumequeue/\xff\xfe/0/x"] = &fstest.MapFile{}
			m["consumequeue/%20/-1/x"] = &fstest.MapFile{}
			m["consumequeue/T/99999999999/x"] = &fstest.MapFile{}
		}, "stray-file commitlog/\x1b[31m"},
		"a file as topics":    {func(m fstest.MapFS) { m["consumequeue"] = &fstest.MapFile{} }, "stray-file consumequeue"},
		"an empty queue file": {func(m fstest.MapFS) { m["consumequeue/X/0/"+segmentName(0)] = &fstest.MapFile{} }, "wrong-length consumequeue/X/0/"},
		"a far queue file": {func(m fstest.MapFS) {
			m["consumequeue/X/0/"+segmentName(math.MaxInt64-7)] = &fstest.MapFile{Data: make([]byte, 60)}
		}, "stray-file consumequeue/X/0/"},
		"a directory as unit":   {func(m fstest.MapFS) { m["consumequeue/X/0/"+segmentName(0)+"/x"] = &fstest.MapFile{} }, "stray-file consumequeue/X/0/"},
		"an index file of junk": {func(m fstest.MapFS) { m["index/20261129154458287"] = &fstest.MapFile{Data: []byte("junk")} }, "wrong-length index/20261129154458287"},
		"a directory as index":  {func(m fstest.MapFS) { m["index/20261129154458287/x"] = &fstest.MapFile{} }, "stray-file index/20261129154458287"},
		"a checkpoint of 1 TiB": {func(m fstest.MapFS) { m["checkpoint"] = &fstest.MapFile{Data: make([]byte, 1<<20)} }, "bad-checkpoint checkpoint"},
		"a summary of junk":     {func(m fstest.MapFS) { m["mqstore.summary"] = &fstest.MapFile{Data: make([]byte, 1<<16)} }, "bad-checkpoint mqstore.summary"},
		"a directory as abort":  {func(m fstest.MapFS) { m["abort/x"] = &fstest.MapFile{} }, "unclean-exit abort"},
		"a unit of everything": {func(m fstest.MapFS) {
			m["consumequeue/X/0/"+segmentName(0)] = &fstest.MapFile{Data: []byte(strings.Repeat("\x7f\xff", 30))}
		}, "dangling-unit consumequeue/X/0/"},
		"a batch queue of junk": {func(m fstest.MapFS) {
			m["batchconsumequeue/T/0/"+segmentName(0)] = &fstest.MapFile{Data: make([]byte, 46*3)}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := logOf(t, 4096, 20)
			delete(m, "abort")
			m["consumequeue/T/0/"+segmentName(0)] = &fstest.MapFile{Data: queueOfLog(t, m)}
			m["checkpoint"] = &fstest.MapFile{Data: make([]byte, 4096)}
			c.do(m)
			found := findings(t, m)
			if c.want == "" && len(found) > 0 || c.want != "" && !slices.ContainsFunc(found, func(b string) bool { return strings.HasPrefix(b, c.want) }) {
				t.Errorf("found %q, want %q", found, c.want)
			}
		})
	}
}

// A last file without content, of the log or of a queue, is what an unclean exit leaves while the file is made: it belongs to that finding. After a clean
// exit, or with a file behind it, nothing explains it.
func TestFileThatWasBeingMadeBelongsToTheUncleanExit(t *testing.T) {
	queueFile, next := "consumequeue/T/0/"+segmentName(6_000_000), "consumequeue/T/0/"+segmentName(12_000_000)
	for name, files := range map[string][]string{"segment": {"commitlog/" + segmentName(4096)}, "queue file": {queueFile}, "both": {"commitlog/" + segmentName(4096), queueFile}} {
		for _, clean := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,clean=%v", name, clean), func(t *testing.T) {
				m, _ := logOf(t, 4096, 20)
				m["consumequeue/T/0/"+segmentName(0)] = &fstest.MapFile{Data: queueOfLog(t, m)}
				m["checkpoint"] = &fstest.MapFile{Data: make([]byte, 4096)}
				before := findings(t, m)
				for _, f := range files {
					m[f] = &fstest.MapFile{}
				}
				if !clean {
					if found := findings(t, m); !slices.Equal(found, before) || !slices.Contains(found, "unclean-exit abort") {
						t.Errorf("found %q, without the files %q", found, before)
					}
					return
				}
				delete(m, "abort")
				found := findings(t, m)
				for _, f := range files {
					if !slices.ContainsFunc(found, func(b string) bool { return strings.HasPrefix(b, "wrong-length "+f) }) {
						t.Errorf("found %q, want %s among it", found, f)
					}
				}
			})
		}
	}
	m, _ := logOf(t, 4096, 20)
	units := queueOfLog(t, m)
	m["consumequeue/T/0/"+segmentName(0)], m[queueFile], m[next] = &fstest.MapFile{Data: units}, &fstest.MapFile{}, &fstest.MapFile{Data: make([]byte, len(units))}
	if found := findings(t, m); !slices.ContainsFunc(found, func(b string) bool { return strings.HasPrefix(b, "wrong-length "+queueFile) }) {
		t.Errorf("found %q, want the empty file in the middle among it", found)
	}
}

// queueOfLog is the units of a log whose records are all of one queue.
func queueOfLog(t testing.TB, fsys fs.FS) []byte {
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
	r.MetaOnly = true
	units := make([]byte, 6_000_000)
	for {
		rec, err := r.Next()
		if err != nil {
			return units
		}
		consumequeue.PutUnit(units[rec.Meta.QueueOffset*consumequeue.UnitSize:], consumequeue.Unit{PhyOffset: rec.Meta.PhyOffset, Size: int32(rec.Meta.Size), TagsCode: rec.Meta.TagsCode})
	}
}

func TestSymbolicLinksAreFindingsAndAreFollowed(t *testing.T) {
	b := &bases{TB: t}
	s := b.site(t, "basic")
	name := s.logName(s.middle().phyOffset)
	elsewhere := filepath.Join(t.TempDir(), "moved")
	s.must(os.Rename(s.path(name), elsewhere))
	if err := os.Symlink(elsewhere, s.path(name)); err != nil {
		t.Skip("this system makes no symbolic links: ", err)
	}
	s.must(os.Symlink("nowhere", s.path("commitlog/"+segmentName(1<<40))))
	s.must(os.Symlink(".", s.path("consumequeue/loop")))
	found, sum := checkDir(t, s.dir, CheckOptions{})
	for _, want := range []string{"stray-file " + name, "stray-file commitlog/" + segmentName(1<<40)} {
		if !slices.ContainsFunc(found, func(f Finding) bool { return strings.HasPrefix(brief(f), want) }) {
			t.Errorf("not found: %s", want)
		}
	}
	if sum.Records != int64(len(s.records)) {
		t.Errorf("%d records, want %d: the link is not followed", sum.Records, len(s.records))
	}
}

func TestCheckEndsWhenItsCallerHasEnough(t *testing.T) {
	dir := filepath.Join(golden.Extract(t, "crash-lostqueue"), "store-before")
	enough := errors.New("enough")
	n := 0
	_, err := Check(t.Context(), os.DirFS(dir), nil, CheckOptions{}, func(Finding) error {
		if n++; n == 3 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || n != 3 {
		t.Errorf("%v after %d findings", err, n)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Check(ctx, os.DirFS(dir), nil, CheckOptions{}, func(Finding) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// manyQueues is a log of n records in as many queues as q, with their units, and the file that each unit is in.
func manyQueues(t testing.TB, dir string, n, q int) {
	t.Helper()
	const segment = 16 << 20
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(dir, "commitlog"), 0o755))
	must(os.WriteFile(filepath.Join(dir, "checkpoint"), make([]byte, 4096), 0o644))
	files := make([][]byte, q)
	b, base := make([]byte, 0, segment), int64(0)
	var rec []byte
	for i := range n {
		k := i % q
		m := record.Message{Topic: fmt.Sprintf("topic-%d", k/8), QueueID: int32(k % 8), Body: []byte("some body"), QueueOffset: int64(i / q), StoreTimestamp: 1_700_000_000_000}
		var err error
		m.PhyOffset = base + int64(len(b))
		rec, err = record.AppendRecord(rec[:0], &m, record.Limits{})
		must(err)
		if len(b)+len(rec)+record.BlankHeaderSize > segment {
			at := len(b)
			b = b[:segment]
			record.PutBlank(b[at:], segment-at)
			must(os.WriteFile(filepath.Join(dir, "commitlog", segmentName(base)), b, 0o644))
			base += segment
			b = b[:0]
			clear(b[:segment])
			m.PhyOffset = base
			rec, err = record.AppendRecord(rec[:0], &m, record.Limits{})
			must(err)
		}
		b = append(b, rec...)
		u := make([]byte, consumequeue.UnitSize)
		consumequeue.PutUnit(u, consumequeue.Unit{PhyOffset: m.PhyOffset, Size: int32(len(rec))})
		files[k] = append(files[k], u...)
	}
	clear(b[len(b):segment])
	must(os.WriteFile(filepath.Join(dir, "commitlog", segmentName(base)), b[:segment], 0o644))
	for k, units := range files {
		d := filepath.Join(dir, "consumequeue", fmt.Sprintf("topic-%d", k/8), fmt.Sprint(k%8))
		must(os.MkdirAll(d, 0o755))
		p := filepath.Join(d, segmentName(0))
		must(os.WriteFile(p, units, 0o644))
		must(os.Truncate(p, 6_000_000))
	}
}

// A hundred thousand queues, each record in another one, take bounded memory and no more time than their files need to be opened.
func TestCheckOfVeryManyQueuesTakesBoundedMemory(t *testing.T) {
	q := effort.N(3_000, 100_000)
	dir := filepath.Join(t.TempDir(), "store")
	manyQueues(t, dir, 10*q, q)
	lost := filepath.Join(dir, "consumequeue", "topic-7", "3")
	if err := os.RemoveAll(lost); err != nil {
		t.Fatal(err)
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(MemoryLimit)) // as the command does
	debug.FreeOSMemory()
	stop, most := make(chan struct{}), make(chan uint64)
	go func() {
		var m runtime.MemStats
		high := uint64(0)
		for tick := time.NewTicker(20 * time.Millisecond); ; {
			select {
			case <-stop:
				tick.Stop()
				most <- high
				return
			case <-tick.C:
				runtime.ReadMemStats(&m)
				high = max(high, m.HeapInuse+m.StackInuse)
			}
		}
	}()
	begin := time.Now()
	found, sum := checkDir(t, dir, CheckOptions{})
	close(stop)
	high := <-most
	t.Logf("%d queues, %+v, %v, at most %d MiB", q, sum, time.Since(begin), high>>20)
	if len(found) != 1 || brief(found[0]) != queueBrief(MissingQueue, QueueName{"topic-7", 3}, found[0].PhyOffset) {
		for _, f := range found[:min(len(found), 10)] {
			t.Error(show(f))
		}
		t.Errorf("%d findings, want the queue that was deleted", len(found))
	}
	if high > 200<<20 {
		t.Errorf("it took %d MiB", high>>20)
	}
}

// A record that claims to fill its segment is read through a window, not held.
func TestCheckDoesNotHoldWhatARecordClaims(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "commitlog"), 0o755); err != nil {
		t.Fatal(err)
	}
	const segment = 512 << 20
	f, err := os.Create(filepath.Join(dir, "commitlog", segmentName(0)))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	head := make([]byte, 100)
	binary.BigEndian.PutUint32(head, segment-8)
	binary.BigEndian.PutUint32(head[4:], record.MagicV1)
	binary.BigEndian.PutUint32(head[84:], segment-8-91-1)
	if _, err := f.WriteAt(head, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(segment); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	findings(t, os.DirFS(dir))
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 200<<20 {
		t.Errorf("it allocated %d MiB", grown>>20)
	}
}

// Whatever the bytes, Check ends, without a panic, and says something of a store that changed in a byte that counts.
func FuzzCheck(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed, uint16(3))
	}
	base, _ := logOf(&testing.T{}, 2048, 30)
	delete(base, "abort")
	units := queueOfLog(f, base)[:2000]
	f.Fuzz(func(t *testing.T, seed uint64, edits uint16) {
		rng := rand.New(rand.NewPCG(seed, 0))
		m := fstest.MapFS{}
		for name, file := range base {
			m[name] = &fstest.MapFile{Data: slices.Clone(file.Data)}
		}
		m["consumequeue/T/0/"+segmentName(0)] = &fstest.MapFile{Data: slices.Clone(units)}
		m["checkpoint"] = &fstest.MapFile{Data: make([]byte, 4096)}
		m["index/20261129154458287"] = &fstest.MapFile{Data: make([]byte, 40+4*5+20*10)}
		names := make([]string, 0, len(m))
		for name := range m {
			names = append(names, name)
		}
		slices.Sort(names)
		for range edits % 64 {
			name := names[rng.IntN(len(names))]
			file := m[name]
			if file == nil {
				continue
			}
			b := file.Data
			switch rng.IntN(8) {
			case 0:
				file.Data = b[:rng.IntN(len(b)+1)]
			case 1:
				file.Data = append(b, make([]byte, rng.IntN(100))...)
			case 2:
				delete(m, name)
			case 3:
				if len(b) > 16 {
					at := rng.IntN(len(b) - 8)
					binary.BigEndian.PutUint64(b[at:], rng.Uint64()>>rng.IntN(64))
				}
			case 4:
				if len(b) > 64 {
					copy(b[rng.IntN(len(b)-32):], b[rng.IntN(len(b)-32):][:32])
				}
			case 5:
				m[filepath.Dir(name)+"/"+segmentName(rng.Int64()>>rng.IntN(63))] = &fstest.MapFile{Data: b}
			default:
				if len(b) > 0 {
					b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
				}
			}
		}
		found := findings(t, m)
		if edits%64 == 0 && len(found) != 1 { // the index of junk
			t.Errorf("%q", found)
		}
	})
}
