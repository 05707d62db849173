package recovery_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mqstore/mqstore/checkpoint"
	"github.com/mqstore/mqstore/commitlog"
	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/conformance/golden"
	"github.com/mqstore/mqstore/consumequeue"
	"github.com/mqstore/mqstore/store/internal/recovery"
)

// inMemory is a golden directory on a file system in memory: what is compared are bytes, and a disk would have to sync them all the time.
func inMemory(t *testing.T, name string) (f *faultfs.FS, dirs []string) {
	t.Helper()
	f = faultfs.New()
	from := golden.Extract(t, name)
	err := filepath.Walk(from, func(p string, i os.FileInfo, err error) error {
		if err != nil || i.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		rel, _ := filepath.Rel(from, p)
		f.Plant("/"+rel, b)
		if dir, file, ok := strings.Cut(filepath.ToSlash(rel), "/commitlog/"); ok && file != "" && !slices.Contains(dirs, "/"+dir) {
			dirs = append(dirs, "/"+dir)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return f, dirs
}

func goldenOptions(f *faultfs.FS, dir string, c golden.Config) recovery.Options {
	return recovery.Options{
		FS: f, Root: dir,
		MultiDispatch: c.Bool("enableMultiDispatch"),
		CommitLog:     commitlog.Options{NoBackground: true},
		Queues:        consumequeue.Options{NoBackground: true, ExtDir: dir + "/consumequeue_ext"},
	}
}

func mustOpen(t *testing.T, o recovery.Options) *recovery.Opened {
	t.Helper()
	op, err := recovery.Open(o)
	if err != nil {
		t.Fatalf("open %s: %v", o.Root, err)
	}
	return op
}

func shut(t *testing.T, op *recovery.Opened) {
	t.Helper()
	if err := op.Queues.Close(); err != nil {
		t.Fatal(err)
	}
	if err := op.Log.Close(); err != nil {
		t.Fatal(err)
	}
}

// queuesOf is what the original answered about its queues, with units as of dump.
func queuesOf(t *testing.T, q *golden.Queries) map[string]string {
	t.Helper()
	m := map[string]string{}
	for _, q := range q.Queues {
		if q.MinOffset != q.MaxOffset {
			m[fmt.Sprintf("%s-%d", q.Topic, q.QueueID)] = fmt.Sprintf("[%d, %d) %d", q.MinOffset, q.MaxOffset, q.MaxPhysicOffset)
		}
	}
	return m
}

func queuesOfOurs(op *recovery.Opened) map[string]string {
	m := map[string]string{}
	for q := range op.Queues.All() {
		if q.MinOffset() != q.MaxOffset() {
			m[fmt.Sprintf("%s-%d", q.Topic(), q.ID())] = fmt.Sprintf("[%d, %d) %d", q.MinOffset(), q.MaxOffset(), q.MaxPhyOffset())
		}
	}
	return m
}

// purposeful are the queues for which we answer something else than the original, and why.
var purposeful = map[string]map[string]string{
	// Defect 3: the original rebuilds only what follows the checkpoint, and fills the rest up with units that point nowhere. It answers [0, max) like us; the units differ, see TestGoldenUnits.
	"crash-lostqueue": nil,
	// Defect 2: the original rebuilds nothing and has no TopicB queues any more.
	"clean-lostqueue": {"TopicB-0": "[0, 15) 31551", "TopicB-1": "[0, 24) 30877"},
	"crash-torn":      nil,
	"clean-torntail":  nil,
}

// Recovery of what the original left behind ends where the original's recovery ends, but for the purposeful differences.
func TestGoldenBeforeRecoversLikeTheOriginal(t *testing.T) {
	for name, extra := range purposeful {
		t.Run(name, func(t *testing.T) {
			m := golden.Load(t, name)
			f, _ := inMemory(t, name)
			op := mustOpen(t, goldenOptions(f, "/store-before", m.Config))
			defer shut(t, op)
			check(t, op)
			if got, want := op.Log.MaxPhyOffset(), m.After.Queries.MaxPhyOffset; got != want {
				t.Errorf("the log ends at %d, the original's at %d", got, want)
			}
			if got, want := max(op.Log.MinPhyOffset(), 0), m.After.Queries.MinPhyOffset; got != want {
				t.Errorf("the log begins at %d, the original's at %d", got, want)
			}
			want := queuesOf(t, m.After.Queries)
			for q, s := range extra {
				if _, ok := want[q]; ok {
					t.Errorf("the original has a queue %s after all: %s", q, want[q])
				}
				want[q] = s
			}
			if d := cmp.Diff(want, queuesOfOurs(op)); d != "" {
				t.Errorf("queues (- original, + ours):\n%s%+v", d, op.Report)
			}
			if op.Report.Clean != !m.Before.AbortFile {
				t.Errorf("clean %v, abort file %v", op.Report.Clean, m.Before.AbortFile)
			}
		})
	}
}

// Unit by unit: the queue files after our recovery are those after the original's, but for units that the original lost.
func TestGoldenUnitsAreTheOriginals(t *testing.T) {
	for name := range purposeful {
		t.Run(name, func(t *testing.T) {
			m := golden.Load(t, name)
			f, _ := inMemory(t, name)
			ours := mustOpen(t, goldenOptions(f, "/store-before", m.Config))
			defer shut(t, ours)
			o := consumequeue.Options{FS: f, Dir: "/store-after/consumequeue", ReadOnly: true}
			theirs, err := consumequeue.Open(o)
			if err != nil {
				t.Fatal(err)
			}
			defer theirs.Close()
			lost := 0
			for q := range ours.Queues.All() {
				p := theirs.Queue(q.Topic(), q.ID())
				for i := q.MinOffset(); i < q.MaxOffset(); i++ {
					if p == nil || i < p.MinOffset() { // fillers count as nothing
						lost++
						continue
					}
					a, err1 := q.Unit(i)
					b, err2 := p.Unit(i)
					if err1 != nil || err2 != nil || a != b {
						t.Errorf("%s-%d unit %d: %+v %v, the original's %+v %v", q.Topic(), q.ID(), i, a, err1, b, err2)
					}
				}
			}
			want := map[string]int{"clean-lostqueue": 15 + 24}[name]
			if name == "crash-lostqueue" && lost == 0 || name != "crash-lostqueue" && lost != want {
				t.Errorf("the original lacks %d of our units, want %d", lost, want)
			}
		})
	}
}

// Opening a directory of the original twice, by whatever exit, changes nothing the second time; nor does the first one change a clean directory's log and queues.
func TestGoldenDirectoriesOpenTwice(t *testing.T) {
	for _, name := range golden.Names() {
		c := golden.Config{"enableMultiDispatch": name == "lmq"} // reading a manifest takes longer than all the rest
		f, dirs := inMemory(t, name)
		for _, dir := range dirs {
			t.Run(name+dir, func(t *testing.T) {
				o := goldenOptions(f, dir, c)
				before := dataOf(t, f, dir)
				op := mustOpen(t, o)
				first := dump(op)
				shut(t, op)
				if dir != "/store-before" && dir != "/store-after" {
					if d := cmp.Diff(before, dataOf(t, f, dir)); d != "" {
						t.Errorf("the first open changed files: %s", d)
					}
					if r := op.Report; r.RebuiltUnits != 0 || r.DroppedBytes != 0 {
						t.Errorf("the first open found something to do: %+v", r)
					}
				}
				for _, how := range []string{"clean", "killed", "clean, no summary", "killed, no summary"} {
					o.IgnoreSummary = strings.Contains(how, "no summary")
					if strings.HasPrefix(how, "killed") {
						if err := checkpoint.CreateAbort(o.FS, dir); err != nil {
							t.Fatal(err)
						}
					} else if err := checkpoint.RemoveAbort(o.FS, dir); err != nil {
						t.Fatal(err)
					}
					before := dataOf(t, f, dir)
					op := mustOpen(t, o)
					if got := dump(op); got != first {
						t.Errorf("%s: an open changed\n%sto\n%s%+v", how, first, got, op.Report)
					}
					if r := op.Report; r.RebuiltUnits != 0 || r.DroppedBytes != 0 || r.TruncatedUnits != 0 {
						t.Errorf("%s: found something to do: %+v", how, r)
					}
					shut(t, op)
					if d := cmp.Diff(before, dataOf(t, f, dir)); d != "" {
						t.Errorf("%s: files changed: %s", how, d)
					}
				}
			})
		}
	}
}

// dataOf is the files of log and queues, a digest of each by its name.
func dataOf(t *testing.T, f *faultfs.FS, dir string) map[string]string {
	t.Helper()
	m := map[string]string{}
	for _, p := range f.Paths() {
		for _, sub := range []string{"/commitlog/", "/consumequeue/", "/consumequeue_ext/"} {
			if strings.HasPrefix(p, dir+sub) {
				b, err := f.ReadFile(p)
				if err != nil {
					t.Fatal(err)
				}
				m[p] = fmt.Sprintf("%d %x", len(b), digest(b))
			}
		}
	}
	return m
}

// Light queues and other queues of a multi-dispatch stay as they are when the option is off, and are rebuilt when it is on.
func TestGoldenMultiDispatchQueues(t *testing.T) {
	f, _ := inMemory(t, "lmq")
	o := goldenOptions(f, "/store", golden.Config{"enableMultiDispatch": true})
	o.MultiDispatch = false
	op := mustOpen(t, o)
	want := dump(op)
	if r := op.Report; r.RebuiltUnits != 0 || len(r.RebuiltQueues) != 0 || !strings.Contains(want, "%LMQ%one-0 [0, ") {
		t.Fatalf("%s%+v", want, r)
	}
	shut(t, op)
	for _, p := range f.Paths() {
		if strings.HasPrefix(p, "/store/consumequeue/%LMQ%") || strings.HasPrefix(p, "/store/consumequeue/plainTopic") {
			if err := f.Remove(p); err != nil {
				t.Fatal(err)
			}
		}
	}
	o.MultiDispatch, o.IgnoreSummary = true, true
	op = mustOpen(t, o)
	defer shut(t, op)
	if got := dump(op); got != want {
		t.Fatalf("got\n%swant\n%s%+v", got, want, op.Report)
	}
}
