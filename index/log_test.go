package index_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/index"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeLog is a commit log of nothing but heads: records in order, with gaps where a segment ends.
type fakeLog struct {
	min, end int64
	records  []record.Meta
}

const fakeSegment = 4096

// put appends a record of at least size bytes.
func (l *fakeLog) put(m record.Meta, size int) *record.Meta {
	if rest := fakeSegment - l.end%fakeSegment; int64(size) > rest {
		l.end += rest
	}
	m.Magic, m.PhyOffset, m.Size = record.MagicV1, l.end, size
	m.BodyCRC = uint32(len(l.records)) * 2654435761
	l.end += int64(size)
	l.records = append(l.records, m)
	return &l.records[len(l.records)-1]
}

// at is the number of the first record at or beyond phyOffset.
func (l *fakeLog) at(phyOffset int64) int {
	return sort.Search(len(l.records), func(i int) bool { return l.records[i].PhyOffset >= phyOffset })
}

// cut truncates the log.
func (l *fakeLog) cut(phyOffset int64) {
	n := l.at(phyOffset)
	l.records = l.records[:n:n]
	l.end = max(l.min, phyOffset)
}

// expire deletes segments.
func (l *fakeLog) expire(phyOffset int64) {
	l.min = max(l.min, phyOffset-phyOffset%fakeSegment)
	l.records = l.records[l.at(l.min):]
}

func (l *fakeLog) record(phyOffset int64, look func(m *record.Meta)) (bool, error) {
	i := l.at(phyOffset)
	if i == len(l.records) || l.records[i].PhyOffset != phyOffset {
		return false, nil
	}
	look(&l.records[i])
	return true, nil
}

func (l *fakeLog) options(dir string) index.Options {
	return index.Options{Dir: dir, MinPhyOffset: l.min, MaxPhyOffset: l.end, Record: l.record, BucketSize: fakeSegment, NoBackground: true}
}

// feed dispatches everything from where x is, at most n records.
func (l *fakeLog) feed(x *index.Index, n int) error {
	for i := l.at(max(x.Next(), l.min)); i < len(l.records) && n > 0; i++ {
		if err := x.Dispatch(&l.records[i]); err != nil {
			return err
		}
		n--
	}
	return nil
}

func meta(topic string, at int64, uniq string, keys ...string) record.Meta {
	var nv []string
	if uniq != "" {
		nv = append(nv, record.PropertyUniqKey, uniq)
	}
	if len(keys) > 0 {
		nv = append(nv, record.PropertyKeys, strings.Join(keys, " "))
	}
	return record.Meta{Topic: topic, StoreTimestamp: at, Properties: record.NewProperties(nv...)}
}

// want is what the log says that a query should find.
func (l *fakeLog) want(topic, key string, begin, end int64, n int) (offsets []int64) {
	for _, m := range slices.Backward(l.records) {
		if len(offsets) < n && m.Topic == topic && begin <= m.StoreTimestamp && m.StoreTimestamp <= end && slices.Contains(textsOf(&m), key) {
			offsets = append(offsets, m.PhyOffset)
		}
	}
	slices.Reverse(offsets)
	return offsets
}

// textsOf is the keys of a record, each once.
func textsOf(m *record.Meta) (keys []string) {
	if m.SysFlag.Transaction() == record.TransactionRollback {
		return nil
	}
	if u, ok := m.UniqKey(); ok {
		keys = append(keys, string(u))
	}
	for k := range m.Keys() {
		if !slices.Contains(keys, string(k)) {
			keys = append(keys, string(k))
		}
	}
	return keys
}

func offsets(hits []index.Hit) (o []int64) {
	for _, h := range hits {
		o = append(o, h.PhyOffset)
	}
	return o
}

func query(t testing.TB, x *index.Index, topic, key string) []int64 {
	t.Helper()
	r, err := x.Query(topic, key, math.MinInt64, math.MaxInt64, 0)
	if err != nil {
		t.Fatalf("query %s %s: %v", topic, key, err)
	}
	return offsets(r.Hits)
}

func open(t testing.TB, o index.Options) *index.Index {
	t.Helper()
	x, err := index.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return x
}

// holdsExactly fails unless the database holds each key of the log below end once, and nothing else. The index must be flushed up to there.
func (l *fakeLog) holdsExactly(t testing.TB, x *index.Index, end int64) {
	t.Helper()
	type place struct {
		hash      uint64
		phyOffset int64
	}
	want := map[place]int64{}
	for i := range l.records {
		m := &l.records[i]
		if m.PhyOffset >= end {
			break
		}
		for _, k := range textsOf(m) {
			want[place{index.Hash(m.Topic, k), m.PhyOffset}] = m.StoreTimestamp
		}
	}
	got := map[place]int64{}
	for e, err := range x.Entries() {
		if err != nil {
			t.Fatal(err)
		}
		if e.PhyOffset < l.min { // its bucket goes with the others of it
			continue
		}
		p := place{e.Hash, e.PhyOffset}
		if _, twice := got[p]; twice {
			t.Fatalf("entry %+v twice", e)
		}
		got[p] = e.StoreTime
	}
	if !maps.Equal(got, want) {
		t.Fatalf("the database holds %d entries, the log below %d has %d keys: %s", len(got), end, len(want), firstDifference(got, want))
	}
}

func firstDifference[K comparable](got, want map[K]int64) string {
	for k, v := range want {
		if g, ok := got[k]; !ok || g != v {
			return fmt.Sprintf("%+v: %d (%v), want %d", k, g, ok, v)
		}
	}
	for k := range got {
		if _, ok := want[k]; !ok {
			return fmt.Sprintf("%+v is too much", k)
		}
	}
	return ""
}
