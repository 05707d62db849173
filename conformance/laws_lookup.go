package conformance

import (
	"errors"
	"strings"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

func init() { register(lookupLaws...) }

// finds looks up the record at phyOffset; an error ends the law.
func (t *T) finds(phyOffset int64) *record.Message {
	m, err := need[store.Looker](t).Lookup(phyOffset)
	if err != nil || m == nil {
		t.Fatalf("look up %d: %v, %v", phyOffset, m, err)
	}
	return m
}

// findsNot reports a fault unless there is no record at phyOffset, for that reason.
func (t *T) findsNot(what string, phyOffset int64, want error) {
	if m, err := need[store.Looker](t).Lookup(phyOffset); !errors.Is(err, want) {
		t.Errorf("look up %s, %d: %+v, %v; want %v", what, phyOffset, m, err, want)
	}
}

var lookupLaws = []Law{
	{
		ID:     "lookup-001",
		Says:   "A message is found by its place, as it was put.",
		Why:    "queues, indexes and consoles have nothing but places",
		Source: "dispatch-and-read.md 5.4",
		Tests:  []string{"BatchPutMessageTest.testPutMessages"},
		Check: func(t *T) {
			topic := t.Topic("")
			m := t.Message(topic, 3, "a body", "KEYS", "k")
			m.Flag, m.ReconsumeTimes = 42, 1
			want := clone(m)
			r := t.Put(m)
			t.Settle(topic, 3, 1)
			got := t.finds(r.PhyOffset)
			t.Same("the message", got, want)
			Equal(t, "its place", got.PhyOffset, r.PhyOffset)
			Equal(t, "its queue offset", got.QueueOffset, r.QueueOffset)
			Equal(t, "its store time", got.StoreTimestamp, r.StoreTimestamp)
			Equal(t, "its size", got.Size, r.Size)
		},
	},
	{
		ID:     "lookup-002",
		Says:   "A message is found by its id, in capital or small letters.",
		Why:    "the id is what clients are given, and people type",
		Source: "commitlog-format.md 1.9",
		Check: func(t *T) {
			topic := t.Topic("")
			r := t.Put(t.Message(topic, 0, "a body"))
			t.Settle(topic, 0, 1)
			for _, id := range []string{r.MessageID(), strings.ToLower(r.MessageID())} {
				m, err := need[store.Looker](t).LookupID(id)
				if err != nil || string(m.Body) != "a body" || m.PhyOffset != r.PhyOffset {
					t.Errorf("look up %s: %+v, %v", id, m, err)
				}
			}
		},
	},
	{
		ID:     "lookup-003",
		Says:   "A message of an IPv6 broker is found by its id.",
		Why:    "its id is longer",
		Source: "commitlog-format.md 1.9",
		Check: func(t *T) {
			topic := t.Topic("")
			m := t.Message(topic, 0, "a body")
			m.StoreHost = broker6
			r := t.Put(m)
			t.Settle(topic, 0, 1)
			got, err := need[store.Looker](t).LookupID(r.MessageID())
			if err != nil || string(got.Body) != "a body" || got.StoreHost != broker6 {
				t.Errorf("look up %s: %+v, %v", r.MessageID(), got, err)
			}
		},
	},
	{
		ID:     "lookup-004",
		Says:   "The first and the last record of a stretch of the log are found.",
		Why:    "an engine that looks at where records lie to find one easily forgets the outermost",
		Source: "dispatch-and-read.md 5.4",
		Tests:  []string{"DefaultMessageStoreTest.testLookMessageByOffset_OffsetIsFirst", "DefaultMessageStoreTest.testLookMessageByOffset_OffsetIsLast"},
		Check: func(t *T) {
			topic := t.Topic("")
			rs := t.PutN(topic, 0, 10)
			t.Settle(topic, 0, 10)
			Equal(t, "the first", string(t.finds(rs[0].PhyOffset).Body), "0")
			Equal(t, "the last", string(t.finds(rs[9].PhyOffset).Body), "9")
		},
	},
	{
		ID:     "lookup-005",
		Says:   "At the log's end, and beyond, is nothing.",
		Why:    "what lies there in a file is not a message yet, or no longer",
		Source: "dispatch-and-read.md 5.4",
		Tests:  []string{"DefaultMessageStoreTest.testLookMessageByOffset_OffsetIsOutOfBound"},
		Check: func(t *T) {
			topic := t.Topic("")
			t.Put(t.Message(topic, 0, "x"))
			t.Settle(topic, 0, 1)
			at := t.Store().MaxPhyOffset()
			t.findsNot("the log's end", at, store.ErrNotFound)
			t.findsNot("a byte behind it", at+1, store.ErrNotFound)
			t.findsNot("far beyond", at+1<<40, store.ErrNotFound)
			t.findsNot("as far as it goes", 1<<63-1, store.ErrNotFound)
		},
	},
	{
		ID:     "lookup-006",
		Says:   "A negative place is nowhere.",
		Why:    "clients send any number",
		Source: "dispatch-and-read.md 5.4",
		Check: func(t *T) {
			t.Put(t.Message(t.Topic(""), 0, "x"))
			t.findsNot("a negative place", -1, store.ErrNotFound)
			t.findsNot("the least place", -1<<63, store.ErrNotFound)
		},
	},
	{
		ID:     "lookup-007",
		Says:   "Within a record is none: an error that says so, not a message.",
		Why:    "the original throws or returns what it takes for a record there",
		Source: "defects 12",
		Check: func(t *T) {
			topic := t.Topic("")
			whole, err := record.AppendRecord(nil, t.Message(topic, 0, "inner"), record.Limits{})
			if err != nil {
				t.Fatalf("encode: %v", err)
			}
			m := t.Message(topic, 0, string(whole))
			r := t.Put(m)
			t.Put(t.Message(topic, 0, "x"))
			t.Settle(topic, 0, 2)
			for _, n := range []int64{1, 4, 84, int64(r.Size) - 1} { // 84: the body, which is a whole record of another place
				t.findsNot("within a record", r.PhyOffset+n, store.ErrNotARecord)
			}
		},
	},
	{
		ID:     "lookup-008",
		Says:   "The blank at a segment's end is no record, at its first byte and within.",
		Why:    "it is the one place in the log where a reader that walks by sizes gets to without a message",
		Source: "commitlog-format.md 1.11; defects 12",
		Config: smallSegments,
		Check: func(t *T) {
			topic := t.Topic("")
			t.Fill(topic, 500)
			blank := t.Store().MaxPhyOffset()
			t.Put(t.Sized(topic, 0, 600))
			t.Settle(topic, 0, t.Store().MaxOffset(topic, 0))
			t.findsNot("a blank", blank, store.ErrNotARecord)
			t.findsNot("within a blank", blank+100, store.ErrNotARecord)
			t.findsNot("the last byte of a segment", blank+499, store.ErrNotARecord)
			Equal(t, "the size of the record behind the blank", t.finds(blank+500).Size, 600)
		},
	},
	{
		ID:     "lookup-009",
		Says:   "Place 0 finds the first record of the log, whatever its place.",
		Why:    "the original looks there when it is asked for the beginning, also when retention deleted the first segments",
		Source: "dispatch-and-read.md 5.4",
		Check: func(t *T) {
			t.Put(t.Message(t.Topic(""), 0, "x"))
			Equal(t, "the place of the first record", t.finds(0).PhyOffset, t.Store().MinPhyOffset())
		},
	},
	{
		ID:     "lookup-010",
		Says:   "An id that is none is not found.",
		Why:    "people type ids, and clients send their own (UNIQ_KEY) where an id is asked for",
		Source: "commitlog-format.md 1.9",
		Check: func(t *T) {
			l := need[store.Looker](t)
			id := t.Put(t.Message(t.Topic(""), 0, "x")).MessageID()
			for _, bad := range []string{"", "x", id[1:], id + "0", id[:31] + "G", strings.Repeat("0", 31), strings.Repeat("é", 16), id + id} {
				if m, err := l.LookupID(bad); !errors.Is(err, store.ErrNotFound) {
					t.Errorf("look up id %q: %+v, %v; want %v", bad, m, err, store.ErrNotFound)
				}
			}
		},
	},
	{
		ID:     "lookup-011",
		Says:   "An id of another broker is not found, though something lies at its place.",
		Why:    "it is the id of another message",
		Source: "package store, Looker",
		Check: func(t *T) {
			r := t.Put(t.Message(t.Topic(""), 0, "x"))
			for _, other := range []record.Host{producer, broker6} {
				id := record.OffsetMessageID(other, r.PhyOffset)
				if m, err := need[store.Looker](t).LookupID(id); !errors.Is(err, store.ErrNotFound) {
					t.Errorf("look up id %s: %+v, %v; want %v", id, m, err, store.ErrNotFound)
				}
			}
		},
	},
	{
		ID:     "lookup-012",
		Says:   "An id whose place is beyond the log is not found.",
		Why:    "it may be of a message that was lost, or not stored yet",
		Source: "package store, Looker",
		Check: func(t *T) {
			t.Put(t.Message(t.Topic(""), 0, "x"))
			id := record.OffsetMessageID(broker, t.Store().MaxPhyOffset())
			if m, err := need[store.Looker](t).LookupID(id); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("look up id %s: %+v, %v; want %v", id, m, err, store.ErrNotFound)
			}
		},
	},
	{
		ID:     "lookup-013",
		Says:   "What was looked up is the caller's: to change it changes nothing in the store.",
		Why:    "brokers answer out of it, decompress in place, and keep it",
		Source: "package store, Looker",
		Check: func(t *T) {
			topic := t.Topic("")
			r := t.Put(t.Message(topic, 0, "the body", "k", "value"))
			t.Settle(topic, 0, 1)
			m := t.finds(r.PhyOffset)
			clear(m.Body)
			clear(m.Properties)
			m.Topic = "another"
			again := t.finds(r.PhyOffset)
			Equal(t, "the body", string(again.Body), "the body")
			Equal(t, "the properties", string(again.Properties), "k\x01value")
			Equal(t, "the topic", again.Topic, topic)
		},
	},
	{
		ID:     "lookup-014",
		Says:   "Each message of a queue is found at the place that the queue says.",
		Why:    "this is what a queue's unit is",
		Source: "consumequeue-format.md 2.2",
		Tests:  []string{"BatchPutMessageTest.testPutMessages"},
		Config: smallSegments,
		Check: func(t *T) {
			topic := t.Topic("")
			for i := range 30 {
				t.Put(t.Sized(topic, 0, 200+i*40))
			}
			t.Settle(topic, 0, 30)
			for i := range int64(30) {
				at, err := t.Store().PhyOffset(topic, 0, i)
				if err != nil {
					t.Fatalf("place of message %d: %v", i, err)
				}
				m := t.finds(at)
				Equal(t, "its queue offset", m.QueueOffset, i)
				Equal(t, "its size", m.Size, 200+int(i)*40)
			}
		},
	},
	{
		ID:     "lookup-015",
		Says:   "In an empty log nothing is found, at place 0 neither.",
		Why:    "a new broker is asked, too",
		Source: "dispatch-and-read.md 5.4",
		Own:    true,
		Check: func(t *T) {
			t.findsNot("the beginning of an empty log", 0, store.ErrNotFound)
			t.findsNot("place 1 of an empty log", 1, store.ErrNotFound)
		},
	},
}
