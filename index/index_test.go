package index_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/index"
)

// eachWay runs check with everything in memory, then with everything in the database, then with the database opened again.
func eachWay(t *testing.T, l *fakeLog, check func(t *testing.T, x *index.Index)) {
	o := l.options(t.TempDir())
	x := open(t, o)
	if err := l.feed(x, math.MaxInt); err != nil {
		t.Fatal(err)
	}
	t.Run("tail", func(t *testing.T) { check(t, x) })
	if err := x.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Run("database", func(t *testing.T) { check(t, x) })
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	t.Run("reopened", func(t *testing.T) {
		x := open(t, o)
		if x.Next() != l.end {
			t.Errorf("goes on at %d, want %d", x.Next(), l.end)
		}
		check(t, x)
	})
	t.Run("reader", func(t *testing.T) {
		x, err := index.OpenReader(o)
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		check(t, x)
	})
}

func TestUniqueKeyAndEachKeyFindTheirRecord(t *testing.T) {
	var l fakeLog
	a := l.put(meta("T", 1000, "uniq-1", "k1", "k2"), 200).PhyOffset
	b := l.put(meta("T", 1001, "uniq-2", "k2"), 200).PhyOffset
	c := l.put(meta("U", 1002, "", "k1", "uniq-1"), 200).PhyOffset
	l.put(meta("T", 1003, ""), 200)
	eachWay(t, &l, func(t *testing.T, x *index.Index) {
		for _, q := range []struct {
			topic, key string
			want       []int64
		}{
			{"T", "uniq-1", []int64{a}}, {"T", "k1", []int64{a}}, {"T", "k2", []int64{a, b}}, {"T", "uniq-2", []int64{b}},
			{"U", "k1", []int64{c}}, {"U", "uniq-1", []int64{c}}, {"U", "k2", nil}, {"T", "", nil}, {"T", "k", nil}, {"", "k1", nil},
		} {
			if got := query(t, x, q.topic, q.key); !slices.Equal(got, q.want) {
				t.Errorf("%s %q: %v, want %v", q.topic, q.key, got, q.want)
			}
		}
		h, ok, err := x.LookupUniqKey("T", "uniq-1")
		if err != nil || !ok || h != (index.Hit{PhyOffset: a, Size: 200, StoreTime: 1000}) {
			t.Errorf("lookup: %+v %v %v", h, ok, err)
		}
		if _, ok, err := x.LookupUniqKey("U", "uniq-1"); ok || err != nil {
			t.Errorf("a key is no unique key: %v %v", ok, err)
		}
	})
}

// Report 14 (apache/rocketmq#3613): "Aa" and "BB" have one hash in Java.
func TestCollidingKeysOfTheOriginalDoNotAnswerForEachOther(t *testing.T) {
	var l fakeLog
	a := l.put(meta("AaTopic", 1, "", "Aa"), 200).PhyOffset
	b := l.put(meta("BBTopic", 2, "", "BB"), 200).PhyOffset
	c := l.put(meta("AaTopic", 3, "", "BB"), 200).PhyOffset
	eachWay(t, &l, func(t *testing.T, x *index.Index) {
		for _, q := range []struct {
			topic, key string
			want       []int64
		}{{"AaTopic", "Aa", []int64{a}}, {"BBTopic", "BB", []int64{b}}, {"AaTopic", "BB", []int64{c}}, {"BBTopic", "Aa", nil}} {
			if got := query(t, x, q.topic, q.key); !slices.Equal(got, q.want) {
				t.Errorf("%s %s: %v, want %v", q.topic, q.key, got, q.want)
			}
		}
	})
}

// Our own hash is filtered, too: an entry whose record has another text never answers.
func TestEntryIsComparedWithItsRecord(t *testing.T) {
	var l fakeLog
	l.put(meta("T", 1, "", "before"), 200)
	x := open(t, l.options(""))
	if err := l.feed(x, 1); err != nil {
		t.Fatal(err)
	}
	l.records[0].Properties = record.NewProperties(record.PropertyKeys, "behind")
	if got := query(t, x, "T", "before"); got != nil {
		t.Errorf("found %v", got)
	}
}

// Defect 16: the original indexes a doubled key twice.
func TestDoubledKeyIsIndexedOnce(t *testing.T) {
	var l fakeLog
	at := l.put(meta("T", 1, "same", "k", "k", "same"), 200).PhyOffset
	eachWay(t, &l, func(t *testing.T, x *index.Index) {
		for _, k := range []string{"same", "k"} {
			if got := query(t, x, "T", k); !slices.Equal(got, []int64{at}) {
				t.Errorf("%s: %v", k, got)
			}
		}
		if n := x.Progress().Entries; n != 2 {
			t.Errorf("%d entries, want 2", n)
		}
	})
}

func TestPreparedIsIndexedAndRollbackIsNot(t *testing.T) {
	var l fakeLog
	var want []int64
	for _, tx := range []record.Transaction{record.TransactionNone, record.TransactionPrepared, record.TransactionCommit, record.TransactionRollback} {
		m := meta("T", 1, "u", "k")
		m.SysFlag = m.SysFlag.WithTransaction(tx)
		if at := l.put(m, 200).PhyOffset; tx != record.TransactionRollback {
			want = append(want, at)
		}
	}
	eachWay(t, &l, func(t *testing.T, x *index.Index) {
		if got := query(t, x, "T", "u"); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		if r, _ := x.Query("T", "nothing", 0, 9, 1); r.LastUpdatePhyOffset != want[2] || r.LastUpdateTime != 1 {
			t.Errorf("last update %+v, want that of the commit: the rollback has no entry", r)
		}
	})
}

// Report 15 (apache/rocketmq#5174, #681): the original keeps whole seconds.
func TestTimeBoundsAreInclusiveMilliseconds(t *testing.T) {
	var l fakeLog
	const base = 1_700_000_000_123
	for i := range int64(5) {
		l.put(meta("T", base+i, "", "k"), 200)
	}
	early := l.put(meta("T", base-5000, "", "k"), 200).PhyOffset // a clock that was set back
	eachWay(t, &l, func(t *testing.T, x *index.Index) {
		for _, q := range [][2]int64{{base, base}, {base + 2, base + 2}, {base + 1, base + 3}, {base - 1, base - 1}, {base + 4, math.MaxInt64}, {math.MinInt64, base}, {base + 3, base + 1}} {
			r, err := x.Query("T", "k", q[0], q[1], 0)
			if want := l.want("T", "k", q[0], q[1], 64); err != nil || !slices.Equal(offsets(r.Hits), want) {
				t.Errorf("[%d, %d]: %v %v, want %v", q[0], q[1], offsets(r.Hits), err, want)
			}
		}
		if r, _ := x.Query("T", "k", 0, base-1, 0); !slices.Equal(offsets(r.Hits), []int64{early}) {
			t.Errorf("before a clock that was set back: %v", r.Hits)
		}
	})
}

func TestNewestAreChosenAndReturnedOldestFirst(t *testing.T) {
	var l fakeLog
	for i := range 300 { // over several buckets
		l.put(meta("T", int64(1000+i), fmt.Sprint("u", i), "k"), 100)
	}
	eachWay(t, &l, func(t *testing.T, x *index.Index) {
		for _, n := range []int{1, 3, 64, 0, 1000, -1} {
			r, err := x.Query("T", "k", 0, math.MaxInt64, n)
			capped := n
			if n <= 0 || n > 64 {
				capped = 64
			}
			if want := l.want("T", "k", 0, math.MaxInt64, capped); err != nil || !slices.Equal(offsets(r.Hits), want) {
				t.Errorf("max %d: %v %v, want %v", n, offsets(r.Hits), err, want)
			}
		}
		var all []int64
		for h, err := range x.All("T", "k", 0, math.MaxInt64) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, h.PhyOffset)
		}
		slices.Reverse(all)
		if want := l.want("T", "k", 0, math.MaxInt64, 1000); !slices.Equal(all, want) {
			t.Errorf("All: %d records, want %d", len(all), len(want))
		}
		r, err := x.Query("T", "k", 0, math.MaxInt64, 1)
		if last := l.records[299]; err != nil || r.LastUpdatePhyOffset != last.PhyOffset || r.LastUpdateTime != last.StoreTimestamp || r.NextPhyOffset != l.end {
			t.Errorf("%+v %v", r, err)
		}
	})
}

func TestDispatchedTwiceIsIndexedOnce(t *testing.T) {
	var l fakeLog
	for i := range 50 {
		l.put(meta("T", int64(i), fmt.Sprint(i), "k"), 100)
	}
	x := open(t, l.options(t.TempDir()))
	for range 3 {
		for i := range l.records {
			if err := x.Dispatch(&l.records[i]); err != nil {
				t.Fatal(err)
			}
		}
		if err := x.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	l.holdsExactly(t, x, l.end)
	if p := x.Progress(); p.Entries != 100 || p.NextPhyOffset != l.end || p.DurablePhyOffset != l.end {
		t.Errorf("%+v", p)
	}
}

func TestExpiredBucketsGoAndExpiredEntriesAreNotReturned(t *testing.T) {
	var l fakeLog
	for i := range 400 {
		l.put(meta("T", int64(i), "", "k"), 100)
	}
	o := l.options(t.TempDir())
	x := open(t, o)
	if err := l.feed(x, 300); err != nil { // the rest comes later
		t.Fatal(err)
	}
	if err := x.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := l.feed(x, 50); err != nil {
		t.Fatal(err)
	}
	l.expire(5*fakeSegment + 17)
	n, err := x.Expire(l.min)
	if n != 5 || err != nil {
		t.Fatalf("%d buckets, %v", n, err)
	}
	check := func(x *index.Index, want int) {
		t.Helper()
		got := 0
		for h, err := range x.All("T", "k", 0, math.MaxInt64) {
			if err != nil || h.PhyOffset < l.min {
				t.Fatal(h, err)
			}
			got++
		}
		if got != want {
			t.Errorf("%d hits, want %d", got, want)
		}
	}
	check(x, 350-5*40)
	if err := l.feed(x, 1000); err != nil {
		t.Fatal(err)
	}
	check(x, len(l.records))
	if err := x.Flush(); err != nil {
		t.Fatal(err)
	}
	l.holdsExactly(t, x, l.end)
	for e, err := range x.Entries() {
		if err != nil || e.PhyOffset < l.min {
			t.Fatalf("%+v %v is still there", e, err)
		}
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	// Expired while the index was closed, also beyond what is indexed.
	l.expire(7 * fakeSegment)
	o.MinPhyOffset = l.min
	x = open(t, o)
	check(x, len(l.records))
	x.Close()
	l.cut(l.min)
	l.min, l.end = 50*fakeSegment, 50*fakeSegment
	for i := range 10 {
		l.put(meta("T", int64(i), "", "k"), 100)
	}
	x = open(t, l.options(o.Dir))
	if x.Next() != l.min {
		t.Errorf("goes on at %d, want the log's minimum %d", x.Next(), l.min)
	}
	if err := l.feed(x, 100); err != nil {
		t.Fatal(err)
	}
	check(x, 10)
}

func TestIndexAheadOfTheLogDropsWhatLiesBeyond(t *testing.T) {
	var l fakeLog
	for i := range 200 {
		l.put(meta("T", int64(i), fmt.Sprint("u", i), "k"), 100)
	}
	for _, cut := range []int{0, 1, 39, 40, 41, 100, 199, 200} {
		for _, other := range []bool{false, true} { // the log grew again before the index was opened
			t.Run(fmt.Sprint(cut, other), func(t *testing.T) {
				l := fakeLog{records: slices.Clone(l.records), end: l.end}
				o := l.options(t.TempDir())
				x := open(t, o)
				if err := l.feed(x, 1000); err != nil {
					t.Fatal(err)
				}
				if err := x.Close(); err != nil {
					t.Fatal(err)
				}
				end := l.end
				if cut < len(l.records) {
					end = l.records[cut].PhyOffset
				}
				l.cut(end)
				if other {
					for i := range 150 {
						l.put(meta("T", int64(5000+i), fmt.Sprint("v", i), "k"), 130)
					}
				}
				x = open(t, l.options(o.Dir))
				for e, err := range x.Entries() {
					if err != nil || e.PhyOffset >= end {
						t.Fatalf("%+v %v is at or beyond the log's end %d", e, err, end)
					}
				}
				if from := x.Report().DroppedFrom; (from >= 0) != (cut < 200) || from > end {
					t.Errorf("dropped from %d; the log was cut at %d", from, end)
				}
				if r := x.Report(); r.Rebuilt != nil || r.Created {
					t.Errorf("%+v", r)
				}
				if err := l.feed(x, 1000); err != nil {
					t.Fatal(err)
				}
				if err := x.Flush(); err != nil {
					t.Fatal(err)
				}
				l.holdsExactly(t, x, l.end)
			})
		}
	}
}

// Segments that had gone and were put back hold keys that the index never saw, or dropped: it starts again from them.
func TestIndexThatLacksTheLogsBeginningIsMadeAnew(t *testing.T) {
	for _, keys := range [][]string{{"all"}, nil} { // of the first record
		for _, bucket := range []int64{fakeSegment, 4 * fakeSegment} {
			if keys == nil && bucket > fakeSegment {
				continue // only keys tell that a bucket is not whole
			}
			var l fakeLog
			l.put(meta("T", 1, "", keys...), 200)
			for i := range 200 {
				l.put(meta("T", int64(i), fmt.Sprint("uniq", i), "all"), 200)
			}
			whole := l
			l.expire(2 * fakeSegment)
			o := l.options(t.TempDir())
			o.BucketSize = bucket
			x := open(t, o)
			if err := l.feed(x, math.MaxInt); err != nil {
				t.Fatal(err)
			}
			if err := x.Close(); err != nil {
				t.Fatal(err)
			}
			o = whole.options(o.Dir)
			o.BucketSize = bucket
			x = open(t, o)
			if r := x.Report(); r.DroppedFrom != 0 || r.NextPhyOffset != 0 || r.Rebuilt != nil {
				t.Errorf("report %+v", r)
			}
			if err := whole.feed(x, math.MaxInt); err != nil {
				t.Fatal(err)
			}
			if err := x.Flush(); err != nil {
				t.Fatal(err)
			}
			whole.holdsExactly(t, x, whole.end)
		}
	}
}

func TestMissingIndexIsMadeAnew(t *testing.T) {
	var l fakeLog
	l.put(meta("T", 1, "u"), 100)
	x := open(t, l.options(t.TempDir()+"/a/b"))
	if r := x.Report(); !r.Created || r.Rebuilt != nil || r.NextPhyOffset != 0 {
		t.Errorf("%+v", r)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	var l fakeLog
	for _, o := range []index.Options{{}, {Record: l.record, BucketSize: 1}, {Record: l.record, BucketSize: 1 << 33}, {Record: l.record, TailEntries: -1}, {Record: l.record, FlushEvery: -1}, {Record: l.record, MaxResults: -1}, {Record: l.record, CacheSize: -1}} {
		if x, err := index.Open(o); err == nil {
			x.Close()
			t.Errorf("%+v is accepted", o)
		}
	}
}

func TestClosedIndexRefuses(t *testing.T) {
	var l fakeLog
	l.put(meta("T", 1, "u"), 100)
	x := open(t, l.options(""))
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.feed(x, 1); err == nil {
		t.Error("Dispatch")
	}
	if _, err := x.Query("T", "u", 0, 9, 1); err == nil {
		t.Error("Query")
	}
	if _, err := x.Expire(1); err == nil {
		t.Error("Expire")
	}
	if err := x.Flush(); err == nil {
		t.Error("Flush")
	}
	if err := x.Close(); err == nil {
		t.Error("Close")
	}
	x.Stats()
}
