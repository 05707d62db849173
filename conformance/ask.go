package conformance

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// From is what Get answers about queue 0 of topic from queueOffset on, of at most n messages.
func (t *T) From(topic string, queueOffset int64, n int, filter store.Filter) *store.GetResult {
	return t.Get(store.GetRequest{Topic: topic, Offset: queueOffset, MaxMessages: n, Filter: filter})
}

// Answers reports a fault unless g has that status, next offset and number of records.
func (t *T) Answers(what string, g *store.GetResult, status store.GetStatus, next int64, n int) {
	if g.Status != status || g.NextBeginOffset != next || len(g.Records) != n || len(g.QueueOffsets) != n {
		t.Errorf("%s: %v, next offset %d, %d records with %d queue offsets; want %v, %d, %d", what, g.Status, g.NextBeginOffset, len(g.Records), len(g.QueueOffsets), status, next, n)
	}
}

// Offsets reports a fault unless g's records have these queue offsets.
func (t *T) Offsets(what string, g *store.GetResult, want ...int64) {
	if !slices.Equal(g.QueueOffsets, want) {
		t.Errorf("%s: messages %v, want %v", what, g.QueueOffsets, want)
	}
}

// places are where views lie.
func places(views []store.View) []int64 {
	at := make([]int64, len(views))
	for i, v := range views {
		at[i] = v.PhyOffset
	}
	return at
}

// Query asks for messages by key once everything stored so far can be found by it. Without store.Querier the law is skipped. The result is released at the law's end.
func (t *T) Query(r store.QueryRequest) *store.QueryResult {
	t.Indexed()
	q, err := need[store.Querier](t).Query(t.ctx, r)
	if err != nil || q == nil {
		t.Fatalf("query %s %q: %v, %v", r.Topic, r.Key, q, err)
	}
	t.held = append(t.held, q)
	return q
}

// Indexed waits until queries find everything that is stored; a store that does not say so is asked until it answers completely.
func (t *T) Indexed() {
	q := need[store.Querier](t)
	ctx, cancel := context.WithTimeout(t.ctx, t.patience)
	defer cancel()
	if w, ok := t.Store().(IndexWaiter); ok {
		if err := w.WaitIndexed(ctx, t.Store().MaxPhyOffset()); err != nil {
			t.Fatalf("the index does not catch up: %v", err)
		}
		return
	}
	t.until(ctx, func() bool {
		r, err := q.Query(ctx, store.QueryRequest{Topic: t.Topic(""), Key: "none"})
		if err != nil {
			return true // the law will meet it
		}
		defer r.Release()
		return r.Complete
	})
}

// Finds reports a fault unless a query finds the records at these places, in this order.
func (t *T) Finds(what string, r store.QueryRequest, want ...int64) {
	if got := places(t.Query(r).Records); !slices.Equal(got, want) {
		t.Errorf("%s: query of %s %q [%d, %d] max %d finds the records at %v, want %v", what, r.Topic, r.Key, r.Begin.UnixMilli(), r.End.UnixMilli(), r.Max, got, want)
	}
}

// With does f on another store: a slave.
func (t *T) With(s Store, f func()) {
	before := t.lent.s
	t.lent.s = s
	defer func() { t.lent.s = before }()
	f()
}

// copies are the bytes of views as they are now.
func copies(views []store.View) [][]byte {
	bs := make([][]byte, len(views))
	for i, v := range views {
		bs[i] = bytes.Clone(v.Bytes)
	}
	return bs
}

// Unchanged reports a fault unless views still hold the bytes that they once held.
func (t *T) Unchanged(what string, views []store.View, before [][]byte) {
	for i, v := range views {
		if !bytes.Equal(v.Bytes, before[i]) {
			t.Errorf("%s: the bytes of the view at %d are not what they were", what, v.PhyOffset)
		}
	}
}

// Raw is the record that a master's log has at phyOffset of m, as the queueOffset-th message of its queue, stored at storeTimestamp.
func (t *T) Raw(m *record.Message, phyOffset, queueOffset, storeTimestamp int64) []byte {
	c := clone(m)
	c.PhyOffset, c.QueueOffset, c.StoreTimestamp = phyOffset, queueOffset, storeTimestamp
	b, err := record.AppendRecord(nil, c, record.Limits{AllowV2: true})
	if err != nil {
		t.Fatalf("the law asks for a record that cannot be: %v", err)
	}
	return b
}

// Append gives a slave bytes of its master's log; a refusal ends the law. A store that takes none skips it.
func (t *T) Append(phyOffset int64, p []byte) {
	if err := need[RawAppender](t).AppendToCommitLog(phyOffset, p); err != nil {
		t.Fatalf("append %d bytes at %d: %v", len(p), phyOffset, err)
	}
}

// body is the body of message i in laws that put many.
func body(i int) string { return fmt.Sprint("body ", i) }

// probe is a filter that keeps what it was asked.
type probe struct {
	unit    func(tagsCode int64) bool // nil: every unit matches
	rec     func(b []byte) bool       // nil: every record matches
	codes   []int64
	unknown int   // units whose tags code was not known
	ext     int   // units with an extension unit
	records []int // sizes
	damaged int   // records that cannot be decoded
}

func (p *probe) MatchUnit(tagsCode int64, ok bool, ext *store.ExtUnit) bool {
	p.codes = append(p.codes, tagsCode)
	if !ok {
		p.unknown++
	}
	if ext != nil {
		p.ext++
	}
	return p.unit == nil || p.unit(tagsCode)
}

func (p *probe) MatchRecord(b []byte) bool {
	p.records = append(p.records, len(b))
	if _, err := record.Decode(b); err != nil {
		p.damaged++
	}
	return p.rec == nil || p.rec(b)
}
