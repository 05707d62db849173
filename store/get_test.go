package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// fill puts n messages of the given body size into T/0, tags a and b in turn, and waits until they can be read.
func fill(t testing.TB, s *store.DefaultMessageStore, n, size int) (all []store.PutResult) {
	t.Helper()
	body := strings.Repeat("b", size)
	before := s.MaxOffset("T", 0)
	for i := range n {
		all = append(all, put(t, s, message("T", 0, body, "TAGS", []string{"a", "b"}[i%2])))
	}
	settle(t, s, "T", 0, before+int64(n))
	return all
}

// Report 17 and spec 5.3: every status, with the offset to go on at, for a minimum of 0 and above 0.
func TestGetSaysWhereToGoOn(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{})
	fill(t, s, 200, 1000)
	check := func(offset int64, status store.GetStatus, next int64) {
		t.Helper()
		if g := get(t, s, "T", 0, offset); g.Status != status || g.NextBeginOffset != next || g.MaxOffset != s.MaxOffset("T", 0) || g.MinOffset != s.MinOffset("T", 0) {
			t.Errorf("get at %d: %v, next %d [%d, %d); want %v, %d", offset, g.Status, g.NextBeginOffset, g.MinOffset, g.MaxOffset, status, next)
		}
	}
	check(-1, store.OffsetTooSmall, 0)
	check(0, store.Found, 32)
	check(199, store.Found, 200)
	check(200, store.OffsetOverflowOne, 200)
	check(300, store.OffsetOverflowBadly, 200)
	if _, err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if r, err := s.DeleteExpired(store.ExpireOptions{Manual: true, Max: 1}); err != nil || len(r.Segments) != 1 {
		t.Fatal(r, err)
	}
	first := s.MinOffset("T", 0)
	if first == 0 || first >= 200 {
		t.Fatal(first)
	}
	check(0, store.OffsetTooSmall, first)
	check(first, store.Found, first+32)
	check(300, store.OffsetOverflowBadly, 200)
	for topic, queueID := range map[string]int32{"T": 7, "unknown": 0} {
		if g := get(t, s, topic, queueID, 5); g.Status != store.NoMessageInQueue || g.NextBeginOffset != 0 {
			t.Errorf("%s/%d: %v %d", topic, queueID, g.Status, g.NextBeginOffset)
		}
	}
}

func TestReadsOfUnknownQueuesCreateNothing(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, store.Options{})
	put(t, s, message("T", 0, "x"))
	settle(t, s, "T", 0, 1)
	get(t, s, "unknown", 3, 0)
	if s.MaxOffset("unknown", 3) != 0 || s.MinOffset("unknown", 3) != 0 || s.MessagesInQueue("unknown", 3) != 0 {
		t.Error("bounds of an unknown queue")
	}
	if n, err := s.OffsetByTime("unknown", 3, time.Now(), store.Nearest); n != 0 || err != nil {
		t.Error(n, err)
	}
	if _, err := s.StoreTime("unknown", 3, 0); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
	if _, err := s.PhyOffset("T", 0, 1); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
	for range s.Scan(bg, "unknown", 3, 0) {
		t.Error("a message of an unknown queue")
	}
	if qs := s.Queues(); len(qs) != 1 {
		t.Error(qs)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "consumequeue"))
	if err != nil || len(entries) != 1 {
		t.Error(entries, err)
	}
}

// Spec 5.3: the limits of one get, in memory and in disk, and the first match whatever its size.
func TestGetStopsAtItsLimits(t *testing.T) {
	type want struct {
		max, count int
	}
	cases := []struct {
		name   string
		memory int64
		size   int
		wants  []want
	}{
		// record overhead: 91 bytes, topic "T", TAGS property of 6
		{"in memory by count", 1 << 40, 10, []want{{0, 32}, {5, 5}, {100, 32}, {-1, 1}}},
		{"in memory by bytes", 1 << 40, 30000, []want{{0, 8}, {100, 8}}},
		{"in disk by count", 100, 10, []want{{0, 8}, {5, 5}, {100, 8}}},
		{"in disk by bytes", 100, 15000, []want{{0, 4}}},
		{"first match always", 100, 60000, []want{{1, 1}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, t.TempDir(), store.Options{MemorySize: c.memory, SegmentSize: 4 << 20})
			fill(t, s, 60, c.size)
			for _, w := range c.wants {
				g, err := s.Get(bg, store.GetRequest{Topic: "T", MaxMessages: w.max})
				if err != nil {
					t.Fatal(err)
				}
				if len(g.Records) != w.count || g.NextBeginOffset != int64(w.count) || len(g.QueueOffsets) != w.count || g.SuggestSlave != (c.memory == 100) {
					t.Errorf("max %d: %d records, next %d, suggest %v; want %d", w.max, len(g.Records), g.NextBeginOffset, g.SuggestSlave, w.count)
				}
				g.Release()
				g.Release() // harmless
			}
		})
	}
}

// Spec 5.3: max(16000, 20 n) bytes of units of one queue file are scanned.
func TestFilterScansABoundedStretchOfOneFile(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{QueueFileSize: 1000 * 20, SegmentSize: 1 << 20})
	fill(t, s, 1500, 1)
	none := store.TagFilter("no such tag")
	for _, c := range []struct {
		from int64
		max  int
		next int64
	}{{0, 32, 800}, {0, 900, 900}, {0, 2000, 1000}, {500, 32, 1000}, {1000, 32, 1500}, {1400, 1 << 40, 1500}} {
		g, err := s.Get(bg, store.GetRequest{Topic: "T", Offset: c.from, MaxMessages: c.max, Filter: none})
		if err != nil {
			t.Fatal(err)
		}
		if g.Status != store.NoMatchedMessage || g.NextBeginOffset != c.next {
			t.Errorf("from %d, max %d: %v, next %d, want %d", c.from, c.max, g.Status, g.NextBeginOffset, c.next)
		}
	}
}

type recordFilter func(rec []byte) bool

func (recordFilter) MatchUnit(int64, bool, *store.ExtUnit) bool { return true }
func (f recordFilter) MatchRecord(rec []byte) bool              { return f(rec) }

func TestFilters(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{})
	fill(t, s, 10, 1)
	for _, tags := range []string{"Aa", "BB"} { // one hash
		put(t, s, message("T", 0, "x", "TAGS", tags))
	}
	put(t, s, message("T", 0, "untagged"))
	settle(t, s, "T", 0, 13)
	third := 0
	for name, c := range map[string]struct {
		f    store.Filter
		want []int64
	}{
		"none":          {nil, []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
		"*":             {store.TagFilter("*"), []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
		"empty":         {store.TagFilter(""), []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
		"a":             {store.TagFilter("a"), []int64{0, 2, 4, 6, 8}},
		"a||b":          {store.TagFilter(" a||b "), []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
		"by hash":       {store.TagFilter("Aa"), []int64{10, 11}},
		"none matches":  {store.TagFilter("zz"), nil},
		"only bars":     {store.TagFilter("||"), nil},
		"by its record": {recordFilter(func([]byte) bool { third++; return third%3 == 0 }), []int64{2, 5, 8, 11}},
	} {
		g, err := s.Get(bg, store.GetRequest{Topic: "T", Filter: c.f})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(g.QueueOffsets, c.want) || g.NextBeginOffset != 13 || (g.Status == store.Found) != (c.want != nil) {
			t.Errorf("%s: %v %v next %d, want %v", name, g.Status, g.QueueOffsets, g.NextBeginOffset, c.want)
		}
		g.Release()
	}
}

type unitFilter func() bool

func (f unitFilter) MatchUnit(int64, bool, *store.ExtUnit) bool { return f() }
func (unitFilter) MatchRecord([]byte) bool                      { return true }

// Spec 5.3, step 7: what retention deletes during a get is passed over, segment by segment.
func TestDeletionDuringAGet(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{})
	rs := fill(t, s, 200, 1000)
	if _, err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	asked, first := 0, int64(0)
	deleting := unitFilter(func() bool {
		if asked++; asked == 1 {
			if r, err := s.DeleteExpired(store.ExpireOptions{Manual: true, Max: 1}); err != nil || len(r.Segments) != 1 {
				t.Error(r, err)
			}
			first = s.MinOffset("T", 0)
		}
		return true
	})
	g, err := s.Get(bg, store.GetRequest{Topic: "T", Filter: deleting})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Release()
	if g.Status != store.Found || g.QueueOffsets[0] != first || first == 0 || rs[first].PhyOffset != 64<<10 || len(g.Records) != 32 || asked != 33 {
		t.Fatalf("%v from %d, minimum %d, %d records, %d units asked for", g.Status, g.QueueOffsets[0], first, len(g.Records), asked)
	}
	// All that the scan reached is gone.
	asked = 0
	all := unitFilter(func() bool {
		if asked++; asked == 1 {
			if _, err := s.DeleteExpired(store.ExpireOptions{Manual: true, Max: 1}); err != nil {
				t.Error(err)
			}
		}
		return asked == 1
	})
	g, err = s.Get(bg, store.GetRequest{Topic: "T", Offset: first, Filter: all})
	if err != nil || g.Status != store.NoMatchedMessage || asked != int(200-s.MinOffset("T", 0))+1 {
		t.Fatal(g.Status, err, asked)
	}
}

func TestASlaveDoesNotCorrectOffsets(t *testing.T) {
	for _, check := range []bool{false, true} {
		dir := t.TempDir()
		s := open(t, dir, store.Options{})
		fill(t, s, 10, 1)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, dir, store.Options{Role: store.Slave, OffsetCheckInSlave: check})
		want := int64(99)
		if check {
			want = 10
		}
		if g := get(t, s, "T", 0, 99); g.Status != store.OffsetOverflowBadly || g.NextBeginOffset != want {
			t.Errorf("check %v: %v %d", check, g.Status, g.NextBeginOffset)
		}
		if g := get(t, s, "T", 0, 3); g.Status != store.Found || g.NextBeginOffset != 10 {
			t.Errorf("check %v: %v %d: what a scan found is never corrected", check, g.Status, g.NextBeginOffset)
		}
	}
}

// Views stay valid after their file was deleted and the store closed.
func TestViewsOutliveDeletionAndClose(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{})
	fill(t, s, 200, 1000)
	g, err := s.Get(bg, store.GetRequest{Topic: "T", Offset: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Release()
	v, err := s.CommitLogData(0, 100)
	if err != nil || len(v.Bytes) != 100 {
		t.Fatal(err)
	}
	defer v.Release()
	if _, err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if r, err := s.DeleteExpired(store.ExpireOptions{Manual: true}); err != nil || len(r.Segments) == 0 {
		t.Fatal(r, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	ms, err := g.Messages()
	if err != nil || len(ms) != 32 || ms[0].QueueOffset != 3 || string(ms[31].Body) != strings.Repeat("b", 1000) {
		t.Fatal(len(ms), err)
	}
	if m, err := record.Decode(append([]byte(nil), v.Bytes...)); !errors.Is(err, record.ErrIncomplete) {
		t.Fatal(m, err)
	}
}

// Damage under a unit is an error, not a message and not silence.
func TestDamageFoundByAGetIsAnError(t *testing.T) {
	for _, c := range []struct {
		name   string
		at     int64 // in the record
		verify bool
		found  bool // by Get; Lookup and Scan find all
	}{{"magic", 4, false, true}, {"position", 28, false, true}, {"size", 2, false, true}, {"body", 100, false, false}, {"body, verified", 100, true, true}} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, store.Options{VerifyReads: c.verify})
			rs := fill(t, s, 20, 100)
			flip(t, filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", 0)), rs[5].PhyOffset+c.at)
			g, err := s.Get(bg, store.GetRequest{Topic: "T"})
			var damage *store.CorruptError
			if c.found && (!errors.Is(err, store.ErrCorrupt) || !errors.As(err, &damage) || damage.Offset != rs[5].PhyOffset) {
				t.Errorf("get: %v", err)
			} else if !c.found && err != nil {
				t.Errorf("get: %v", err)
			}
			g.Release()
			if m, err := s.Lookup(rs[5].PhyOffset); !errors.Is(err, store.ErrCorrupt) && !errors.Is(err, store.ErrNotARecord) {
				t.Errorf("lookup: %v, %v", m, err)
			}
			n := 0
			for _, err := range s.Scan(bg, "T", 0, 0) {
				if n++; err != nil && n != 6 {
					t.Errorf("scan: %v after %d", err, n)
				}
			}
			if n != 6 {
				t.Errorf("scan went on past damage: %d", n)
			}
			flip(t, filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", 0)), rs[5].PhyOffset+c.at)
		})
	}
}

// flip changes a byte of a file in place.
func flip(t testing.TB, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x55
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

func TestLookupTellsWhatIsNotARecord(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{})
	rs := fill(t, s, 100, 1000)
	for offset, want := range map[int64]error{-1: store.ErrNotFound, s.MaxPhyOffset(): store.ErrNotFound, rs[3].PhyOffset + 1: store.ErrNotARecord, rs[3].PhyOffset + 50: store.ErrNotARecord} {
		if m, err := s.Lookup(offset); !errors.Is(err, want) {
			t.Errorf("lookup %d: %v, %v, want %v", offset, m, err, want)
		}
	}
	for _, id := range []string{"", "xyz", strings.Repeat("Z", 32), record.OffsetMessageID(producer, rs[3].PhyOffset)} {
		if m, err := s.LookupID(id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("lookup of id %q: %v, %v", id, m, err)
		}
	}
	m, err := s.LookupID(rs[3].MessageID())
	if err != nil || m.QueueOffset != 3 {
		t.Fatal(m, err)
	}
	m.Body[0] = 'x' // a copy
	if again, err := s.Lookup(rs[3].PhyOffset); err != nil || again.Body[0] != 'b' {
		t.Fatal(again, err)
	}
}

func TestScanLogIsTheLogInOrder(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{})
	rs := fill(t, s, 150, 1000) // three segments
	var at []int64
	for m, err := range s.ScanLog(bg, 0, s.MaxPhyOffset()) {
		if err != nil {
			t.Fatal(err)
		}
		at = append(at, m.PhyOffset)
	}
	if len(at) != len(rs) {
		t.Fatal(len(at))
	}
	for i, r := range rs {
		if at[i] != r.PhyOffset {
			t.Fatal(i, at[i], r.PhyOffset)
		}
	}
	n := 0
	for _, err := range s.ScanLog(bg, rs[10].PhyOffset, rs[20].PhyOffset) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != 10 {
		t.Error(n)
	}
	for _, err := range s.ScanLog(bg, rs[10].PhyOffset+1, s.MaxPhyOffset()) {
		if err == nil {
			t.Fatal("a record from the middle of one")
		}
	}
	ctx, cancel := context.WithCancel(bg)
	cancel()
	for _, err := range s.Scan(ctx, "T", 0, 0) {
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
}

func TestTimesOfMessages(t *testing.T) {
	var now int64 = 1_000_000
	s := open(t, t.TempDir(), store.Options{NoBackground: true, Now: func() time.Time { return time.UnixMilli(now) }})
	for range 5 {
		put(t, s, message("T", 0, "x"))
		now += 100
	}
	dispatchAll(t, s)
	for _, c := range []struct {
		at   int64
		rule store.TimeRule
		want int64
	}{
		{0, store.Nearest, 0}, {1_000_149, store.Nearest, 1}, {1_000_150, store.Nearest, 1}, {1_000_151, store.Nearest, 2}, {2_000_000, store.Nearest, 4},
		{1_000_101, store.Lower, 2}, {1_000_100, store.Lower, 1}, {1_000_199, store.Upper, 1}, {1_000_200, store.Upper, 2},
	} {
		if got, err := s.OffsetByTime("T", 0, time.UnixMilli(c.at), c.rule); err != nil || got != c.want {
			t.Errorf("offset at %d by rule %d: %d, %v, want %d", c.at, c.rule, got, err, c.want)
		}
	}
	if at, err := s.StoreTime("T", 0, 2); err != nil || at.UnixMilli() != 1_000_200 {
		t.Error(at, err)
	}
	if at, err := s.EarliestStoreTime("T", 0); err != nil || at.UnixMilli() != 1_000_000 {
		t.Error(at, err)
	}
	if at, err := s.FirstStoreTime(); err != nil || at.UnixMilli() != 1_000_000 {
		t.Error(at, err)
	}
}

func TestClosedStoreSaysSo(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{})
	fill(t, s, 3, 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := s.Get(bg, store.GetRequest{Topic: "T"})
	errs := map[string]error{"get": err, "close": s.Close(), "append": s.AppendToCommitLog(0, nil), "wait": s.WaitForMessages(bg, "T", 0, 99), "wait flushed": s.WaitFlushed(bg, 1<<40)}
	_, errs["lookup"] = s.Lookup(0)
	_, errs["flush"] = s.Flush()
	_, errs["data"] = s.CommitLogData(0, 0)
	_, errs["delete"] = s.DeleteExpired(store.ExpireOptions{})
	_, errs["put"] = s.Put(bg, message("T", 0, "x"))
	_, errs["dispatch"] = s.DispatchStep(1)
	_, errs["first time"] = s.FirstStoreTime()
	for _, err := range s.ScanLog(bg, 0, 1<<40) {
		errs["scan log"] = err
	}
	for what, err := range errs {
		if !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	s.Stats() // must not crash
	s.Queues()
}

// What a get answers fits together, also while the queue grows: a consumer that goes on at NextBeginOffset, and the end that it was told, are of one moment.
func TestAnAnswerNeverGoesBeyondTheEndThatItNames(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{SegmentSize: 16 << 20})
	put(t, s, message("T", 0, "x"))
	settle(t, s, "T", 0, 1)
	const n = 20_000
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range n {
			if _, err := s.Put(bg, message("T", 0, "x")); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		r, err := s.Get(bg, store.GetRequest{Topic: "T", Offset: s.MaxOffset("T", 0) - 1})
		if err != nil {
			t.Fatal(err)
		}
		if r.NextBeginOffset > r.MaxOffset {
			t.Fatalf("next %d, but the end is %d", r.NextBeginOffset, r.MaxOffset)
		}
		r.Release()
	}
	<-done
}
