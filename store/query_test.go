package store_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/golden"
	"github.com/mqstore/mqstore/store"
)

// keysOf is what is indexed of a message: unique key and keys, each once; nothing of a rollback.
func keysOf(m *record.Message) (keys []string) {
	if m.SysFlag.Transaction() == record.TransactionRollback {
		return nil
	}
	if k := m.UniqKey(); k != "" {
		keys = append(keys, k)
	}
	for _, k := range m.Keys() {
		if !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	return keys
}

// wholeLog is every message of a store.
func wholeLog(t testing.TB, s store.Scanner) (all []*record.Message) {
	t.Helper()
	for m, err := range s.ScanLog(bg, 0, math.MaxInt64) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

// wanted is what a query should find, by looking at every message.
func wanted(all []*record.Message, r store.QueryRequest) (offsets []int64) {
	n := r.Max
	if n <= 0 || n > 64 {
		n = 64
	}
	for _, m := range slices.Backward(all) {
		if len(offsets) < n && m.Topic == r.Topic && slices.Contains(keysOf(m), r.Key) &&
			(r.Begin.IsZero() || m.StoreTimestamp >= r.Begin.UnixMilli()) && (r.End.IsZero() || m.StoreTimestamp <= r.End.UnixMilli()) {
			offsets = append(offsets, m.PhyOffset)
		}
	}
	slices.Reverse(offsets)
	return offsets
}

func places(r *store.QueryResult) (offsets []int64) {
	for _, v := range r.Records {
		offsets = append(offsets, v.PhyOffset)
	}
	return offsets
}

func find(t testing.TB, s store.Querier, topic, key string) []int64 {
	t.Helper()
	r, err := s.Query(bg, store.QueryRequest{Topic: topic, Key: key})
	if err != nil {
		t.Fatalf("query %s %q: %v", topic, key, err)
	}
	defer r.Release()
	ms, err := r.Messages()
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range ms {
		if m.Topic != topic || !slices.Contains(keysOf(m), key) || m.PhyOffset != r.Records[i].PhyOffset {
			t.Fatalf("query %s %q gave %s with %q", topic, key, m.Topic, keysOf(m))
		}
	}
	return places(r)
}

func indexed(t testing.TB, s *store.DefaultMessageStore) {
	t.Helper()
	if err := s.WaitIndexed(bg, s.MaxPhyOffset()); err != nil {
		t.Fatal(err)
	}
}

// The original's answers that are not the same messages, of all manifests. Nothing else may differ.
var queryDifferences = []struct{ store, key, original, why string }{
	{"basic/store", "dupKey", "twice", "a key that stands in KEYS twice is one hit"},
	{"crash-lostqueue/store-after", "key1", "missed", "its index was lost, and it indexes anew only what it reads in recovery"},
	{"crash-lostqueue/store-after", "key2", "missed", "the same"},
	{"basic/store", "key3", "missed", "it rounds store times down to whole seconds: a message of the range's last second is missed"},
}

// Every queryMessage of every manifest: the original's true messages, in its order. Three ways: with its own index (or the log, where that is gone), with ours, and with none.
func TestGoldenQueries(t *testing.T) {
	collisions, queries := 0, 0
	for _, g := range goldenStores() {
		t.Run(g.golden+"/"+g.dir, func(t *testing.T) {
			m := golden.Load(t, g.golden)
			q := g.queries(m)
			check := func(s interface {
				store.Querier
				store.Scanner
			}, sources ...store.QuerySource) {
				t.Helper()
				all := wholeLog(t, s)
				byOffset := map[int64]*record.Message{}
				last := &record.Message{}
				for _, m := range all {
					byOffset[m.PhyOffset] = m
					if len(keysOf(m)) > 0 {
						last = m
					}
				}
				for _, w := range q.QueryMessage {
					req := store.QueryRequest{Topic: w.Topic, Key: w.Key, Max: w.MaxNum, Begin: time.UnixMilli(w.Begin), End: time.UnixMilli(w.End)}
					r, err := s.Query(bg, req)
					if err != nil {
						t.Fatalf("%+v: %v", w, err)
					}
					got := places(r)
					if want := wanted(all, req); !slices.Equal(got, want) {
						t.Errorf("%s %q: %v, the log has %v", w.Topic, w.Key, got, want)
					}
					if !slices.Contains(sources, r.Source) || !r.Complete {
						t.Errorf("answered by %s, complete %v", r.Source, r.Complete)
					}
					if r.IndexLastUpdatePhyOffset != last.PhyOffset || r.IndexLastUpdateTime != last.StoreTimestamp {
						t.Errorf("index ends at %d, %d; the last record with a key is at %d, %d", r.IndexLastUpdatePhyOffset, r.IndexLastUpdateTime, last.PhyOffset, last.StoreTimestamp)
					}
					r.Release()
					// The original's answer, without hits of other keys and with each message once.
					var original []int64
					twice := false
					for _, o := range w.QueryMessageOffsets {
						m := byOffset[o]
						switch {
						case m == nil || m.Topic != w.Topic || !slices.Contains(keysOf(m), w.Key):
							collisions++
						case slices.Contains(original, o):
							twice = true
						default:
							original = append(original, o)
						}
					}
					queries++
					kind := ""
					if missed := !slices.Equal(got, original); missed {
						kind = "missed"
					} else if twice {
						kind = "twice"
					}
					if twice && kind == "missed" { // the doubled hit used up a place of the cap
						kind = "twice"
					}
					if kind != "" && !slices.ContainsFunc(queryDifferences, func(d struct{ store, key, original, why string }) bool {
						return d.store == g.golden+"/"+g.dir && d.key == w.Key && d.original == kind
					}) {
						t.Errorf("%s %q max %d [%d, %d]: %v, the original's true ones are %v (%s)", w.Topic, w.Key, w.MaxNum, w.Begin, w.End, got, original, kind)
					}
				}
			}
			t.Run("looking", func(t *testing.T) {
				dir := filepath.Join(golden.Extract(t, g.golden), g.dir)
				s, err := store.OpenReadOnly(dir, store.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				source := store.IndexFile
				if kind := s.Stats().Index.Kind; kind == "none" {
					source = store.LogScan
				}
				check(s, source)
			})
			t.Run("looking without an index", func(t *testing.T) {
				dir := filepath.Join(golden.Extract(t, g.golden), g.dir)
				if err := os.RemoveAll(filepath.Join(dir, "index")); err != nil {
					t.Fatal(err)
				}
				s, err := store.OpenReadOnly(dir, store.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				check(s, store.LogScan)
			})
			t.Run("writing", func(t *testing.T) {
				dir := filepath.Join(golden.Extract(t, g.golden), g.dir)
				s, err := store.Open(dir, store.Options{})
				if err != nil {
					t.Fatal(err)
				}
				indexed(t, s)
				check(s, store.IndexPebble)
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				r, err := store.OpenReadOnly(dir, store.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				check(r, store.IndexPebble)
			})
		})
	}
	t.Logf("%d queries, %d hits of the original were of other keys", queries, collisions)
	if queries == 0 {
		t.Error("no queries were found in the manifests")
	}
}

// A directory of the original is indexed from its log; meanwhile queries say that they are not complete.
func TestIndexOfTheOriginalsDirectoryIsBuiltBehindQueries(t *testing.T) {
	m := golden.Load(t, "basic")
	s, err := store.Open(filepath.Join(golden.Extract(t, "basic"), "store"), store.Options{NoBackground: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w := m.Queries.QueryMessage[2]
	before := -1
	for {
		r, err := s.Query(bg, store.QueryRequest{Topic: w.Topic, Key: w.Key})
		if err != nil {
			t.Fatal(err)
		}
		n := len(r.Records)
		complete := r.Complete
		r.Release()
		if n < before {
			t.Fatalf("%d messages, %d before", n, before)
		}
		before = n
		if complete {
			break
		}
		if st := s.Stats().Index; st.BehindBytes <= 0 {
			t.Fatalf("not complete, but %+v", st)
		}
		if _, err := s.IndexStep(50); err != nil {
			t.Fatal(err)
		}
	}
	if before != 2 {
		t.Errorf("%d messages", before)
	}
	if st := s.Stats().Index; st.Kind != "pebble" || st.BehindBytes != 0 || st.HeldUp != "" || st.Entries == 0 {
		t.Errorf("%+v", st)
	}
}

func keyed(topic string, i int) *record.Message {
	return message(topic, int32(i%4), "body", record.PropertyUniqKey, fmt.Sprint("uniq", i), record.PropertyKeys, fmt.Sprintf("key%d all", i))
}

// Report 14 (apache/rocketmq#3613).
func TestQueryDoesNotMixUpKeysOfOneHash(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{})
	a := put(t, s, message("AaTopic", 0, "1", record.PropertyKeys, "Aa")).PhyOffset
	b := put(t, s, message("BBTopic", 0, "2", record.PropertyKeys, "BB")).PhyOffset
	indexed(t, s)
	if got := find(t, s, "AaTopic", "Aa"); !slices.Equal(got, []int64{a}) {
		t.Error(got)
	}
	if got := find(t, s, "BBTopic", "BB"); !slices.Equal(got, []int64{b}) {
		t.Error(got)
	}
	for _, q := range [][2]string{{"AaTopic", "BB"}, {"BBTopic", "Aa"}} {
		if got := find(t, s, q[0], q[1]); got != nil {
			t.Error(q, got)
		}
	}
}

// Report 15 (apache/rocketmq#5174, #681).
func TestQueryByTheMillisecond(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_999)
	s := open(t, t.TempDir(), store.Options{Now: func() time.Time { return at }})
	r := put(t, s, keyed("T", 1))
	indexed(t, s)
	for _, w := range []struct {
		begin, end time.Time
		found      bool
	}{
		{at, at, true}, {at.Add(-time.Millisecond), at, true}, {at, at.Add(time.Millisecond), true}, {time.Time{}, at, true}, {at, time.Time{}, true},
		{at.Add(time.Microsecond), time.Time{}, false}, {at.Add(time.Millisecond), time.Time{}, false}, {time.Time{}, at.Add(-time.Millisecond), false},
	} {
		q, err := s.Query(bg, store.QueryRequest{Topic: "T", Key: "key1", Begin: w.begin, End: w.end})
		if err != nil || (len(q.Records) == 1 && q.Records[0].PhyOffset == r.PhyOffset) != w.found {
			t.Errorf("[%v, %v]: %v, %v", w.begin, w.end, places(q), err)
		}
		q.Release()
	}
}

// Report 13 (apache/rocketmq#8007, #3868, #4463): after an exit without Close, and without the index's folder, every key is found.
func TestEveryKeyIsFoundAfterACrashAndWithoutTheIndexFolder(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, store.Options{Index: store.IndexOptions{TailEntries: 300}})
	var at []int64
	for i := range 1000 {
		at = append(at, put(t, s, keyed("T", i)).PhyOffset)
	}
	indexed(t, s)
	if _, err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	check := func(s *store.DefaultMessageStore) {
		t.Helper()
		indexed(t, s)
		for _, i := range []int{0, 1, 299, 300, 998, 999} {
			for _, k := range []string{fmt.Sprint("uniq", i), fmt.Sprint("key", i)} {
				if got := find(t, s, "T", k); !slices.Equal(got, at[i:i+1]) {
					t.Errorf("%s: %v, want %d", k, got, at[i])
				}
			}
		}
		if got := find(t, s, "T", "all"); !slices.Equal(got, at[1000-64:]) {
			t.Errorf("the newest 64: %v", got)
		}
	}
	crashed := copyDir(t, dir) // as a kill leaves it
	check(open(t, crashed, store.Options{}))
	for range 2 {
		gone := copyDir(t, dir)
		if err := os.RemoveAll(filepath.Join(gone, "index_pebble")); err != nil {
			t.Fatal(err)
		}
		check(open(t, gone, store.Options{}))
	}
}

// Report 27: a damaged index is rebuilt, with an event, and is no obstacle to Open.
func TestDamagedIndexIsNoObstacle(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, store.Options{})
	for i := range 100 {
		put(t, s, keyed("T", i))
	}
	indexed(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := os.ReadDir(filepath.Join(dir, "index_pebble"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		hurt := copyDir(t, dir)
		if err := os.WriteFile(filepath.Join(hurt, "index_pebble", n.Name()), []byte("damaged"), 0o644); err != nil {
			t.Fatal(err)
		}
		var rebuilt atomic.Int32
		s := open(t, hurt, store.Options{Index: store.IndexOptions{FlushEvery: time.Millisecond}, Events: store.Events{IndexRebuilt: func(error) { rebuilt.Add(1) }}})
		for i := range 100 {
			for { // a table's damage is noticed when it is read: queries say so until the index is built anew
				r, err := s.Query(bg, store.QueryRequest{Topic: "T", Key: fmt.Sprint("uniq", i)})
				if errors.Is(err, store.ErrNoIndex) {
					indexed(t, s)
					continue
				}
				if err != nil {
					t.Fatalf("%s: %v", n.Name(), err)
				}
				found, complete := len(r.Records), r.Complete
				r.Release()
				if !complete {
					indexed(t, s)
					continue
				}
				if found != 1 {
					t.Fatalf("%s: key %d is found %d times", n.Name(), i, found)
				}
				break
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Defect 15: the original's store is unwritable for ever after its index failed. With the index stalled, or failing, puts go on and everything put is visible; afterwards it catches up.
func TestIndexThatCannotWriteHoldsUpNothing(t *testing.T) {
	for _, how := range []string{"stalled", "failing"} {
		t.Run(how, func(t *testing.T) {
			var bad atomic.Bool
			gate := make(chan struct{})
			var failed atomic.Int32
			s := open(t, t.TempDir(), store.Options{
				Events: store.Events{IndexFailed: func(error) { failed.Add(1) }},
				Index: store.IndexOptions{}.Before(func(*record.Meta) error {
					if !bad.Load() {
						return nil
					}
					if how == "stalled" {
						<-gate
						return nil
					}
					return fmt.Errorf("injected: %w", syscall.ENOSPC)
				}),
			})
			latency := func() (p50, p99 time.Duration) {
				var took []time.Duration
				for i := range 2000 {
					m := keyed("T", i)
					m.QueueID = 0
					begin := time.Now()
					r := put(t, s, m)
					settle(t, s, "T", 0, r.QueueOffset+1)
					took = append(took, time.Since(begin))
				}
				slices.Sort(took)
				return took[len(took)/2], took[len(took)*99/100]
			}
			a50, a99 := latency()
			indexed(t, s)
			before := s.Stats().Index.ProgressPhyOffset
			bad.Store(true)
			b50, b99 := latency()
			t.Logf("put to visible: p50 %v, p99 %v with the index working; p50 %v, p99 %v with it %s", a50, a99, b50, b99, how)
			st := s.Stats()
			if st.Index.ProgressPhyOffset != before || st.Index.BehindBytes == 0 || !st.Writable || st.DispatchHeldUp != "" {
				t.Errorf("%+v", st)
			}
			if how == "failing" {
				if n := failed.Load(); n != 1 || !strings.Contains(st.Index.HeldUp, "injected") {
					t.Errorf("%d events, held up by %q", n, st.Index.HeldUp)
				}
			}
			bad.Store(false)
			close(gate)
			indexed(t, s)
			if got := find(t, s, "T", "uniq1999"); len(got) != 2 {
				t.Errorf("found %v", got)
			}
			if st := s.Stats().Index; st.BehindBytes != 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// A store that is only looked at answers beside the process that has it open, from that one's index and, for what is newer, from the log.
func TestQueryBesideALiveStore(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, store.Options{Index: store.IndexOptions{TailEntries: 100, FlushEvery: 2 * time.Millisecond}})
	var wg sync.WaitGroup
	turns := make(chan struct{}) // of a bounded number of puts each: a writer at full speed outruns who reads the whole log again and again
	wg.Go(func() {
		i := 0
		for range turns {
			for range 150 {
				put(t, s, keyed("T", i))
				i++
			}
		}
	})
	for range 20 {
		turns <- struct{}{}
		end := s.MaxPhyOffset()
		r, err := store.OpenReadOnly(dir, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		all := wholeLog(t, r)
		if r.MaxPhyOffset() < end {
			t.Fatalf("sees the log up to %d, it was at %d", r.MaxPhyOffset(), end)
		}
		for range 3 {
			q := store.QueryRequest{Topic: "T", Key: "all", Max: 10}
			res, err := r.Query(bg, q)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := places(res), wanted(all, q); !slices.Equal(got, want) {
				t.Fatalf("%v, want %v", got, want)
			}
			res.Release()
		}
		r.Close()
	}
	close(turns)
	wg.Wait()
}

func TestExpiredMessagesAreNotFound(t *testing.T) {
	dir := t.TempDir()
	o := store.Options{Index: store.IndexOptions{BucketSize: 64 << 10}}
	s := open(t, dir, o)
	var at []int64
	for i := range 2000 {
		at = append(at, put(t, s, keyed("T", i)).PhyOffset)
	}
	indexed(t, s)
	for q := range int32(4) { // the index may be ahead of the queues
		settle(t, s, "T", q, 500)
	}
	if _, err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	entries := s.Stats().Index.Entries
	r, err := s.DeleteExpired(store.ExpireOptions{Manual: true, Max: 3})
	if err != nil || len(r.Segments) != 3 {
		t.Fatalf("%+v %v", r, err)
	}
	check := func(s *store.DefaultMessageStore) {
		t.Helper()
		for i, phyOffset := range at {
			if got := find(t, s, "T", fmt.Sprint("uniq", i)); (len(got) == 1) != (phyOffset >= r.MinPhyOffset) {
				t.Fatalf("message %d at %d: %v; the log begins at %d", i, phyOffset, got, r.MinPhyOffset)
			}
		}
	}
	check(s)
	if st := s.Stats().Index; st.Entries >= entries {
		t.Errorf("%d entries, %d before", st.Entries, entries)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	check(open(t, dir, o))
}

// What held the index up is told, once, and no more when it is over.
func TestIndexThatGoesOnIsNotHeldUp(t *testing.T) {
	var calls, events atomic.Int32
	s := open(t, t.TempDir(), store.Options{
		Events: store.Events{IndexFailed: func(error) { events.Add(1) }},
		Index: store.IndexOptions{}.Before(func(*record.Meta) error {
			if n := calls.Add(1); n == 1 || n == 5 {
				return errors.New("injected")
			}
			return nil
		}),
	})
	for i := range 10 {
		put(t, s, keyed("T", i))
	}
	indexed(t, s)
	if held, n := s.Stats().Index.HeldUp, events.Load(); held != "" || n != 2 {
		t.Errorf("held up by %q, %d events; want none, and 2 of 2 episodes", held, n)
	}
}

// Times beyond what milliseconds can hold are as good as no bound.
func TestQueryBoundsMayLieBeyondMilliseconds(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{})
	at := put(t, s, keyed("T", 1)).PhyOffset
	indexed(t, s)
	early, late := time.Unix(-1<<60, 0), time.Unix(1<<63-62135596801, 999999999)
	for _, q := range []struct {
		begin, end time.Time
		want       []int64
	}{{early, late, []int64{at}}, {time.Time{}, late, []int64{at}}, {early, time.Time{}, []int64{at}}, {late, time.Time{}, nil}, {time.Time{}, early, nil}, {late, early, nil}} {
		r, err := s.Query(bg, store.QueryRequest{Topic: "T", Key: "uniq1", Begin: q.begin, End: q.end})
		if err != nil {
			t.Fatal(err)
		}
		if got := places(r); !slices.Equal(got, q.want) {
			t.Errorf("[%v, %v]: %v, want %v", q.begin, q.end, got, q.want)
		}
		r.Release()
	}
}

// Wrong options are refused, by who writes and by who only looks, and do not become an index that stands still.
func TestIndexOptionsAreChecked(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, store.Options{})
	put(t, s, keyed("T", 1))
	for _, o := range []store.IndexOptions{{MaxResults: -1}, {TailEntries: -1}, {FlushEvery: -1}, {CacheSize: -1}, {BucketSize: -1}} {
		if x, err := store.Open(t.TempDir(), store.Options{Index: o}); err == nil {
			x.Close()
			t.Errorf("opened with %+v", o)
		}
		if x, err := store.OpenReadOnly(dir, store.Options{Index: o}); err == nil {
			x.Close()
			t.Errorf("opened read-only with %+v", o)
		}
	}
}

// A query that meets the index while it is opened again is answered by the new one, and is complete only if that one has everything.
func TestQueryBesideAnIndexThatIsOpenedAgain(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{NoBackground: true})
	at := put(t, s, keyed("T", 1)).PhyOffset
	if _, err := s.DispatchStep(1 << 10); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				r, err := s.Query(bg, store.QueryRequest{Topic: "T", Key: "uniq1"})
				if err != nil {
					t.Errorf("query: %v", err)
					return
				}
				if got := places(r); r.Complete && !slices.Equal(got, []int64{at}) {
					t.Errorf("complete with %v", got)
				}
				r.Release()
			}
		})
	}
	for range 300 {
		if err := s.ReopenIndex(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.IndexStep(1 << 10); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	wg.Wait()
}

func TestStoreWithoutIndexSaysSo(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{Index: store.IndexOptions{Off: true}})
	if _, err := s.Query(bg, store.QueryRequest{Topic: "T", Key: "k"}); !errors.Is(err, store.ErrNoIndex) {
		t.Error(err)
	}
	if err := s.WaitIndexed(bg, 0); !errors.Is(err, store.ErrNoIndex) {
		t.Error(err)
	}
	if st := s.Stats().Index; st.Kind != "none" {
		t.Errorf("%+v", st)
	}
}

func TestQueryAfterClose(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Query(bg, store.QueryRequest{Topic: "T", Key: "k"}); !errors.Is(err, store.ErrClosed) {
		t.Error(err)
	}
	if err := s.WaitIndexed(bg, 0); !errors.Is(err, store.ErrClosed) {
		t.Error(err)
	}
}

// copyDir copies a store that may be open: what a kill at about this moment would leave.
func copyDir(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) { // deleted meanwhile
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		b, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), b, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}
