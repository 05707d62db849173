package interop

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/conformance/workload"
	"github.com/mqstore/mqstore/store"
)

// handClock is set by hand.
type handClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *handClock) SetNow(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = t
}

func (c *handClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// worked is an engine under a workload. Both engines run in processes of their own, so that both can be killed.
type worked struct {
	*remote
	*handClock
	keep string // the directory is copied here before it is gone
}

var (
	_ workload.Reopener = (*worked)(nil)
	_ workload.Crasher  = (*worked)(nil)
	_ workload.Clock    = (*worked)(nil)
	_ workload.Settler  = (*worked)(nil)
	_ workload.Expirer  = (*worked)(nil)
	_ store.Scanner     = (*worked)(nil)
	_ store.BatchPutter = (*worked)(nil)
	_ store.Looker      = (*worked)(nil)
	_ store.Querier     = (*worked)(nil)
)

func (w *worked) Reopen() error                               { return w.reopen() }
func (w *worked) Crash(workload.Ending, uint64) error         { return w.crash() }
func (w *worked) Settle(context.Context) error                { return w.dispatched() }
func (w *worked) LookupID(id string) (*record.Message, error) { return w.remote.LookupID(id) }

func (w *worked) DeleteExpired(o store.ExpireOptions) (store.ExpireReport, error) {
	if err := w.dispatched(); err != nil {
		return store.ExpireReport{}, err
	}
	segment := w.set["mappedFileSizeCommitLog"].(int64)
	a := w.logEnds()
	min, err := w.expire(a.Min/segment*segment + int64(o.Max)*segment)
	return store.ExpireReport{MinPhyOffset: min}, err
}

// Queues leaves out those that hold nothing and never did: the original makes them for whoever asks.
func (w *worked) Queues() []store.QueueInfo {
	qs := slices.DeleteFunc(w.remote.Queues(), func(q store.QueueInfo) bool { return q.MaxOffset == 0 })
	slices.SortFunc(qs, func(a, b store.QueueInfo) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.QueueID, b.QueueID))
	})
	return qs
}

// Scan walks a queue by gets.
func (w *worked) Scan(ctx context.Context, topic string, queueID int32, from int64) iter.Seq2[*record.Message, error] {
	return func(yield func(*record.Message, error) bool) {
		for next := max(from, w.MinOffset(topic, queueID)); next < w.MaxOffset(topic, queueID); {
			g, err := w.Get(ctx, store.GetRequest{Topic: topic, QueueID: queueID, Offset: next})
			if err != nil {
				yield(nil, err)
				return
			}
			for _, v := range g.Records {
				if m, err := record.Decode(v.Bytes); !yield(m, err) || err != nil {
					return
				}
			}
			if g.NextBeginOffset <= next {
				yield(nil, fmt.Errorf("get at %d goes on at %d", next, g.NextBeginOffset))
				return
			}
			next = g.NextBeginOffset
		}
	}
}

// Close keeps the log beside, to be compared.
func (w *worked) Close() error {
	dir := w.dir
	w.remote.keep = func() error {
		err := os.CopyFS(filepath.Join(w.keep, "commitlog"), os.DirFS(filepath.Join(dir, "commitlog")))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
			return nil // nothing was put; or another run was before this one
		}
		return err
	}
	return w.remote.Close()
}

func openWorked(t testing.TB, version string, keep string) func(workload.Setup) (workload.Store, error) {
	return func(s workload.Setup) (workload.Store, error) {
		set := patient.with(settings{
			"mappedFileSizeCommitLog": s.SegmentSize, "mappedFileSizeConsumeQueue": s.QueueFileSize, "maxHashSlotNum": 500, "maxIndexNum": 2000, "maxMessageSize": s.MaxMessage,
			"flushIntervalCommitLog": 10,
		})
		if s.Flush == store.SyncFlush {
			set["flushDiskType"] = "SYNC_FLUSH"
		}
		if version != ours {
			set["haListenPort"] = freePort(t)
		}
		w := &worked{handClock: &handClock{now: time.UnixMilli(workload.StartTime)}, keep: keep}
		r, err := newRemote(t, version, set, w.Now)
		w.remote = r
		return w, err
	}
}

// Both engines answer the same random calls in the same way, and write the same bytes.
func TestBothEnginesAnswerTheSame(t *testing.T) {
	t.Parallel()
	classpath(t, v4)
	const ops = 500
	for seed := range effort.Seeds(t, 2, 21) { // full: more than 10,000 operations
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			// Every other workload deletes segments, which is where the original leaves old minimums behind.
			only := comparable
			if expires := seed%2 == 0; !expires {
				only = slices.DeleteFunc(slices.Clone(comparable), func(k workload.Kind) bool { return k == workload.Expire })
			}
			setup := workload.Setup{SegmentSize: 64 << 10, QueueFileSize: 20 * 4000, MaxMessage: 30_000, Flush: store.FlushMode(seed / 2 % 2)}
			w := workload.Generate(seed, workload.Options{Ops: ops - 3, Setup: &setup, Usual: true, Only: only})
			for _, k := range []workload.Kind{workload.Whole, workload.Reopen, workload.Whole} {
				w.Ops = append(w.Ops, workload.Op{Kind: k})
			}
			a, b := t.TempDir(), t.TempDir()
			subject, reference := execute(t, openWorked(t, ours, a), w), execute(t, openWorked(t, v4, b), w)
			differ, stale := 0, 0
			for i, o := range w.Ops {
				x, y := normal(o, subject[i]), normal(o, reference[i])
				if workload.Same(x, y) {
					continue
				}
				if staleMinimum(o, x, y) {
					stale++
					continue
				}
				if differ++; differ <= 10 {
					t.Errorf("operation %d: %v\n\tours     %v\n\toriginal %v", i, o, x, y)
				}
			}
			if differ > 0 {
				t.Fatalf("%d of %d answers differ. Again: MQSTORE_INTEROP=1 MQSTORE_SEED=%d go test -run TestBothEngines ./conformance/interop\n%s", differ, len(w.Ops), seed, w)
			}
			if seed%2 == 1 && stale > 0 || stale > len(w.Ops)/5 {
				t.Errorf("%d of %d answers differ by a stale minimum", stale, len(w.Ops))
			}
			t.Logf("%d operations, %d with a stale minimum of the original", len(w.Ops), stale)
			sameLogs(t, a, b)
		})
	}
}

// comparable are the operations that both can do in the same way.
var comparable = []workload.Kind{
	workload.Put, workload.Batch, workload.Get, workload.Bounds, workload.Unit, workload.ByTime, workload.Lookup, workload.LookupID, workload.Query, workload.Log, workload.Whole,
	workload.Expire, workload.Reopen, workload.Crash, workload.SetClock,
}

// execute runs w on an empty store, and closes it.
func execute(t *testing.T, open func(workload.Setup) (workload.Store, error), w workload.Workload) []workload.Answer {
	t.Helper()
	s, err := open(w.Setup)
	if err != nil {
		t.Fatal(err)
	}
	answers := workload.Execute(t.Context(), s, w)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return answers
}

// normal is an answer without what the original is known to answer differently.
func normal(o workload.Op, a workload.Answer) workload.Answer {
	if o.Kind == workload.Crash {
		return a.Without("empty") // it follows from the queues' minimums
	}
	if o.Kind != workload.Query || a.Status != workload.OK {
		return a
	}
	if o.Begin != (workload.Ref{}) || o.End != (workload.Ref{}) {
		return workload.Answer{Status: a.Status} // its index has the seconds that passed since its file's beginning
	}
	var recs []string
	n := 0
	for _, f := range a.Fields {
		if f.Name == "rec" {
			n++
			if !slices.Contains(recs, f.Value) { // a key that stands twice is found twice
				recs = append(recs, f.Value)
			}
		}
	}
	if n >= cmp.Or(o.Max, 64) {
		return workload.Answer{Status: a.Status} // and what is found twice counts twice
	}
	b := workload.Answer{Status: a.Status}
	for _, rec := range recs {
		b.Fields = append(b.Fields, workload.Field{Name: "rec", Value: rec})
	}
	return b
}

// staleMinimum reports whether two answers differ because a queue lost all its messages to retention: the original leaves its minimum where it was until more is deleted, so that it answers what is below ours.
func staleMinimum(o workload.Op, ours, original workload.Answer) bool {
	switch o.Kind {
	case workload.Get, workload.Bounds:
		a, _ := ours.Int("min")
		b, ok := original.Int("min")
		return ok && b < a
	case workload.Unit, workload.ByTime:
		return true
	case workload.Whole:
		return true // sameLogs compares what it would
	}
	return false
}

// sameLogs compares the segments that were left.
func sameLogs(t *testing.T, a, b string) {
	t.Helper()
	x, y := filesOf(t, filepath.Join(a, "commitlog")), filesOf(t, filepath.Join(b, "commitlog"))
	if len(x) == 0 {
		t.Fatal("no log was left")
	}
	first := slices.Min(slices.Collect(maps.Keys(x)))
	for name := range y {
		if name < first {
			continue // what the original deletes can stay on the disk while somebody reads it; that it is no part of the log the answers say
		}
		if !bytes.Equal(x[name], y[name]) {
			t.Errorf("segment %s: %d bytes of ours and %d of the original differ", name, len(x[name]), len(y[name]))
		}
	}
}
