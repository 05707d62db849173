package repair

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/conformance/golden"
	"github.com/mqstore/mqstore/consumequeue"
)

// waysOfReading are ways of going through the log; the first one reads record by record, in order.
var waysOfReading = []CheckOptions{
	{plain: true},
	{workers: 1},
	{workers: 1, chunk: 1000},
	{workers: 2, chunk: 5000},
	{workers: 4, chunk: 700},
	{workers: 3},
}

func (o *CheckOptions) read(how CheckOptions) {
	o.plain, o.workers, o.chunk = how.plain, how.workers, how.chunk
}

// whatIsTold is all that a check tells, in order.
func whatIsTold(t testing.TB, dir string, o CheckOptions) []string {
	found, sum := checkDir(t, dir, o)
	out := []string{fmt.Sprintf("%+v", sum)}
	for _, f := range found {
		out = append(out, show(f))
	}
	return out
}

// compareWays compares what is told of a store, whatever the way in which its log is read. some picks the ways that are gone where not all are.
func compareWays(t testing.TB, dir string, o CheckOptions, ordered bool, some int) {
	t.Helper()
	ways := waysOfReading
	if n := len(ways) - 1; effort.N(0, 1) == 0 {
		ways = []CheckOptions{ways[0], ways[1+some%n], ways[1+(some+2)%n]}
	}
	var want []string
	for i, way := range ways {
		o.read(way)
		got := whatIsTold(t, dir, o)
		if !ordered {
			slices.Sort(got)
		}
		if i == 0 {
			want = got
			continue
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d workers, chunks of %d:\n\t%s\nrecord by record:\n\t%s", way.workers, way.chunk, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
		}
	}
}

// Of each damage, alone and beside another one, the same is told in the same order, however the log is cut and by however many it is read.
func TestWhatIsToldDoesNotDependOnHowTheLogIsRead(t *testing.T) {
	b := &bases{TB: t}
	beside := len(damages) / effort.N(3, 18) // each so many
	for i, d := range damages {
		if effort.Current() == effort.Race && i%3 != 0 {
			continue
		}
		t.Run(strings.ReplaceAll(d.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			s := b.site(t, d.base)
			d.do(s)
			compareWays(t, s.dir, CheckOptions{IndexSlack: 1, Live: i%4 == 3 && effort.N(0, 1) == 0}, true, i)
			if effort.N(0, 1) == 1 {
				compareWays(t, s.dir, CheckOptions{IndexSlack: 1, Live: true}, true, i)
			}
			for k, other := range damages {
				if (i+k)%beside != 0 || k == i || other.base != d.base {
					continue
				}
				s := b.site(t, d.base)
				d.do(s)
				if doneAsWell(s, other) {
					compareWays(t, s.dir, CheckOptions{IndexSlack: 1}, true, i+k)
				}
			}
		})
	}
	for i, name := range golden.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := golden.Extract(t, name)
			for dir := range stores(t, name) {
				compareWays(t, filepath.Join(root, dir), CheckOptions{}, true, i)
			}
		})
	}
}

// doneAsWell does a second damage to a site; false if the first one took away what it needs.
func doneAsWell(s *site, d damage) (ok bool) {
	t := s.TB
	s.TB = &impossible{t}
	defer func() {
		s.TB = t
		if r := recover(); r != nil {
			ok = false
		}
	}()
	d.do(s)
	return true
}

// impossible panics where a test would fail.
type impossible struct{ testing.TB }

func (*impossible) Fatal(args ...any)            { panic(fmt.Sprint(args...)) }
func (*impossible) Fatalf(f string, args ...any) { panic(fmt.Sprintf(f, args...)) }

// A log of several batches and many chunks, with damage at random places of log and queues: the same is told.
func TestWhatIsToldOfALongLogDoesNotDependOnHowItIsRead(t *testing.T) {
	base := filepath.Join(t.TempDir(), "base")
	manyQueues(t, base, 30_000, 60)
	for seed := range effort.Seeds(t, 2, 12) {
		r := rand.New(rand.NewPCG(seed, 6))
		dir := filepath.Join(t.TempDir(), "store")
		copyStore(t, base, dir)
		damageAtRandom(t, r, dir)
		compareWays(t, dir, CheckOptions{}, false, int(seed))
	}
}

func damageAtRandom(t testing.TB, r *rand.Rand, dir string) {
	t.Helper()
	list := func(glob string) []string {
		l, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(glob)))
		if err != nil || len(l) == 0 {
			t.Fatal(glob, err)
		}
		return l
	}
	in := func(file string, below int64, f func(b []byte)) {
		t.Helper()
		out, err := os.OpenFile(file, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		b := make([]byte, 1+r.IntN(200))
		at := r.Int64N(below)
		n, _ := out.ReadAt(b, at)
		f(b[:n])
		if _, err := out.WriteAt(b[:n], at); err != nil {
			t.Fatal(err)
		}
	}
	zero := func(b []byte) { clear(b) }
	flip := func(b []byte) { b[0] ^= 1 << r.IntN(8) }
	logs, units := list("commitlog/*"), list("consumequeue/*/*/*")
	for range r.IntN(6) {
		in(logs[0], 3<<20, []func([]byte){zero, flip}[r.IntN(2)])
	}
	for range r.IntN(6) {
		in(units[r.IntN(len(units))], 500*consumequeue.UnitSize, []func([]byte){zero, flip}[r.IntN(2)])
	}
	if r.IntN(2) == 0 {
		if err := os.RemoveAll(filepath.Dir(units[r.IntN(len(units))])); err != nil {
			t.Fatal(err)
		}
	}
}

// A body that holds a record which says that it lies there does not lead a worker astray who looks for the first record of its chunk.
func TestRecordsWithinABodyAreNotTakenForTheLogs(t *testing.T) {
	const segment = 64 << 10
	dir := t.TempDir()
	b := make([]byte, 0, segment)
	var units []byte
	add := func(body []byte) {
		m := record.Message{Topic: "T", QueueOffset: int64(len(units) / consumequeue.UnitSize), PhyOffset: int64(len(b)), StoreTimestamp: 1_700_000_000_000, Body: body}
		rec, err := record.AppendRecord(nil, &m, record.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		units = append(units, make([]byte, consumequeue.UnitSize)...)
		consumequeue.PutUnit(units[len(units)-consumequeue.UnitSize:], consumequeue.Unit{PhyOffset: int64(len(b)), Size: int32(len(rec))})
		b = append(b, rec...)
	}
	for range 20 {
		body := make([]byte, 2000)
		const upToTheBody = 88
		for at := 100; at < 1800; {
			inner := record.Message{Topic: "X", PhyOffset: int64(len(b) + upToTheBody + at), StoreTimestamp: 1, Body: []byte("not of the log")}
			rec, err := record.AppendRecord(nil, &inner, record.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			at += copy(body[at:], rec)
		}
		add(body)
	}
	end := len(b)
	b = b[:segment]
	clear(b[end:])
	for name, content := range map[string][]byte{"commitlog/00000000000000000000": b, "consumequeue/T/0/00000000000000000000": units, "checkpoint": make([]byte, 4096)} {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, content, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	found, sum := checkDir(t, dir, CheckOptions{NoIndex: true, workers: 4, chunk: 300})
	if len(found) > 0 || sum.Records != 20 || sum.Units != 20 {
		t.Errorf("%+v %v", sum, found)
	}
	compareWays(t, dir, CheckOptions{NoIndex: true}, true, 2)
}

// stopping cancels when a file of the log has been read so often, and counts how often it is read after that.
type stopping struct {
	fs.FS
	left   atomic.Int64
	cancel func()
}

func (s *stopping) Open(name string) (fs.File, error) {
	f, err := s.FS.Open(name)
	if in, ok := f.(interface {
		fs.File
		ReadAt([]byte, int64) (int, error)
	}); ok && err == nil {
		return &stoppingFile{in, s}, nil
	}
	return f, err
}

type stoppingFile struct {
	in interface {
		fs.File
		ReadAt([]byte, int64) (int, error)
	}
	s *stopping
}

func (f *stoppingFile) Stat() (fs.FileInfo, error) { return f.in.Stat() }
func (f *stoppingFile) Read(b []byte) (int, error) { return f.in.Read(b) }
func (f *stoppingFile) Close() error               { return f.in.Close() }
func (f *stoppingFile) ReadAt(b []byte, at int64) (int, error) {
	if f.s.left.Add(-1) == 0 {
		f.s.cancel()
	}
	return f.in.ReadAt(b, at)
}

// Who cancels a check gets it back before much more is read, whatever it was doing.
func TestACancelledCheckReadsNoFurther(t *testing.T) {
	const segment, n = 1 << 20, 40
	files := fstest.MapFS{"checkpoint": {Data: make([]byte, 4096)}}
	for i := range n {
		b := make([]byte, segment)
		record.PutBlank(b, segment)
		files["commitlog/"+segmentName(int64(i)*segment)] = &fstest.MapFile{Data: b}
	}
	for _, way := range waysOfReading {
		for _, after := range []int64{1, 5, 9} {
			ctx, cancel := context.WithCancel(t.Context())
			s := &stopping{FS: files, cancel: cancel}
			s.left.Store(after)
			o := CheckOptions{}
			o.read(way)
			_, err := Check(ctx, s, nil, o, func(Finding) error { return nil })
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%+v: %v", way, err)
			}
			if over := -s.left.Load(); over > 2*n {
				t.Errorf("%+v: read %d times more", way, over)
			}
			cancel()
		}
	}
}
