package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

func init() { register(queryLaws...) }

// keyed puts a message with KEYS and returns its place.
func keyed(t *T, topic string, queueID int32, keys string) store.PutResult {
	return t.Put(t.Message(topic, queueID, "x", record.PropertyKeys, keys))
}

// of asks for all messages of a topic with a key.
func of(topic, key string) store.QueryRequest { return store.QueryRequest{Topic: topic, Key: key} }

var queryLaws = []Law{
	{
		ID:     "query-001",
		Says:   "A message is found by its topic and a key of KEYS.",
		Why:    "this is how operators find an order's message",
		Source: "index.md 3.3",
		Tests:  []string{"IndexFileTest.testSelectPhyOffset"},
		Check: func(t *T) {
			need[store.Querier](t)
			topic := t.Topic("")
			r := keyed(t, topic, 0, "order1")
			keyed(t, topic, 0, "order2")
			t.Settle(topic, 0, 2)
			t.Finds("a key", of(topic, "order1"), r.PhyOffset)
		},
	},
	{
		ID:     "query-002",
		Says:   "A message is found by its UNIQ_KEY.",
		Why:    "it is the message id that producers see",
		Source: "index.md 3.3",
		Check: func(t *T) {
			need[store.Querier](t)
			topic := t.Topic("")
			r := t.Put(t.Message(topic, 0, "x", record.PropertyUniqKey, "C0A80001"))
			t.Put(t.Message(topic, 0, "x", record.PropertyUniqKey, "C0A80002"))
			t.Settle(topic, 0, 2)
			t.Finds("a unique key", of(topic, "C0A80001"), r.PhyOffset)
		},
	},
	{
		ID:     "query-003",
		Says:   "Each of several keys, separated by a space, finds the message.",
		Why:    "KEYS is a list",
		Source: "index.md 3.3",
		Check: func(t *T) {
			need[store.Querier](t)
			topic := t.Topic("")
			r := t.Put(t.Message(topic, 0, "x", record.PropertyKeys, "a b c", record.PropertyUniqKey, "u"))
			t.Settle(topic, 0, 1)
			for _, key := range []string{"a", "b", "c", "u"} {
				t.Finds("one of the keys", of(topic, key), r.PhyOffset)
			}
		},
	},
	{
		ID:     "query-004",
		Says:   "A part of a key, and the keys together, find nothing.",
		Why:    "a query is for a key, not for a text",
		Source: "index.md 3.3",
		Check: func(t *T) {
			need[store.Querier](t)
			topic := t.Topic("")
			keyed(t, topic, 0, "order1 order2")
			t.Settle(topic, 0, 1)
			for _, key := range []string{"order", "rder1", "order1 order2", "order1 ", "ORDER1", "order12"} {
				t.Finds("no key", of(topic, key))
			}
		},
	},
	{
		ID:     "query-005",
		Says:   "A key with the same hash as another one finds only its own messages.",
		Why:    "the original compares hashes, and shows who asks for \"Aa\" the messages of \"BB\"",
		Source: "index.md 3.7, reports 14",
		Check: func(t *T) {
			need[store.Querier](t)
			topic := t.Topic("")
			a, b := keyed(t, topic, 0, "Aa"), keyed(t, topic, 0, "BB")
			t.Settle(topic, 0, 2)
			t.Finds("Aa", of(topic, "Aa"), a.PhyOffset)
			t.Finds("BB", of(topic, "BB"), b.PhyOffset)
		},
	},
	{
		ID:     "query-006",
		Says:   "Topic and key are apart: a topic that goes on where another one's ends finds only its own messages.",
		Why:    "the original joins them with # and would mix topic \"a\", key \"b#c\" with topic \"a#b\", key \"c\"",
		Source: "index.md 3.2, 3.7",
		Check: func(t *T) {
			need[store.Querier](t)
			a, b := t.Topic("a"), t.Topic("a#b")
			x, y := keyed(t, a, 0, "b#c"), keyed(t, b, 0, "c")
			t.Settle(a, 0, 1)
			t.Visible(b, 0, 1)
			t.Finds("the shorter topic", of(a, "b#c"), x.PhyOffset)
			t.Finds("the longer topic", of(b, "c"), y.PhyOffset)
		},
	},
	{
		ID:     "query-007",
		Says:   "A key that stands in KEYS twice finds its message once.",
		Why:    "the original indexes it twice and shows it twice",
		Source: "index.md 3.7, defects 16",
		Check: func(t *T) {
			need[store.Querier](t)
			topic := t.Topic("")
			r := keyed(t, topic, 0, "k k other k")
			t.Settle(topic, 0, 1)
			t.Finds("a doubled key", of(topic, "k"), r.PhyOffset)
		},
	},
	{
		ID:     "query-008",
		Says:   "A key that is also the UNIQ_KEY finds its message once.",
		Why:    "the original indexes both and shows the message twice",
		Source: "index.md 3.7, defects 16",
		Check: func(t *T) {
			need[store.Querier](t)
			topic := t.Topic("")
			r := t.Put(t.Message(topic, 0, "x", record.PropertyKeys, "other id", record.PropertyUniqKey, "id"))
			t.Settle(topic, 0, 1)
			t.Finds("key and unique key", of(topic, "id"), r.PhyOffset)
		},
	},
	{
		ID:     "query-009",
		Says:   "All messages of a key are found, of all queues of the topic, oldest first.",
		Why:    "an order's history is read from the top",
		Source: "index.md 3.5",
		Check: func(t *T) {
			need[store.Querier](t)
			topic := t.Topic("")
			var want []int64
			for i := range 6 {
				want = append(want, keyed(t, topic, int32(i%2), "k").PhyOffset)
			}
			t.Settle(topic, 0, 3)
			t.Visible(topic, 1, 3)
			t.Finds("one key in two queues", of(topic, "k"), want...)
		},
	},
	{
		ID:     "query-010",
		Says:   "Of more messages than asked for the newest are chosen, and still answered oldest first.",
		Why:    "who asks for the last ones wants the last ones",
		Source: "index.md 3.4, 3.5",
		Check: func(t *T) {
			need[store.Querier](t)
			topic := t.Topic("")
			var all []int64
			for range 7 {
				all = append(all, keyed(t, topic, 0, "k").PhyOffset)
			}
			t.Settle(topic, 0, 7)
			for _, n := range []int{1, 3, 6, 7} {
				t.Finds("some of 7", store.QueryRequest{Topic: topic, Key: "k", Max: n}, all[7-n:]...)
			}
		},
	},
	{
		ID:     "query-011",
		Says:   "A query returns at most 64 messages, also when it asks for more or says nothing.",
		Why:    "maxMsgsNumBatch bounds what a console can make the store read",
		Source: "index.md 3.4",
		Tests:  []string{"IndexServiceTest.testQueryOffsetThrow"},
		Check: func(t *T) {
			need[store.Querier](t)
			topic := t.Topic("")
			var all []int64
			for range 70 {
				all = append(all, keyed(t, topic, 0, "k").PhyOffset)
			}
			t.Settle(topic, 0, 70)
			for _, n := range []int{0, 64, 65, 1 << 40} {
				t.Finds("more than there may be", store.QueryRequest{Topic: topic, Key: "k", Max: n}, all[6:]...)
			}
		},
	},
	{
		ID:     "query-012",
		Says:   "Begin and end are inclusive, to the millisecond: [t, t] finds what was stored at t.",
		Why:    "the original rounds store times down to seconds, and misses such a message",
		Source: "index.md 3.5, 3.7, reports 15",
		Clock:  true,
		Check: func(t *T) {
			need[store.Querier](t)
			topic := t.Topic("")
			var rs []store.PutResult
			for range 3 {
				rs = append(rs, keyed(t, topic, 0, "k"))
				t.Advance(7 * time.Millisecond)
			}
			t.Settle(topic, 0, 3)
			for _, r := range rs {
				at := time.UnixMilli(r.StoreTimestamp)
				t.Finds("the very time", store.QueryRequest{Topic: topic, Key: "k", Begin: at, End: at}, r.PhyOffset)
			}
		},
	},
	{
		ID:     "query-013",
		Says:   "What was stored a millisecond before begin or after end is not found.",
		Why:    "the other side of inclusive",
		Source: "index.md 3.5",
		Clock:  true,
		Check: func(t *T) {
			need[store.Querier](t)
			topic := t.Topic("")
			keyed(t, topic, 0, "k")
			t.Advance(5 * time.Millisecond)
			r := keyed(t, topic, 0, "k")
			t.Advance(5 * time.Millisecond)
			keyed(t, topic, 0, "k")
			t.Settle(topic, 0, 3)
			at := time.UnixMilli(r.StoreTimestamp)
			q := of(topic, "k")
			q.Begin, q.End = at.Add(-time.Millisecond), at.Add(time.Millisecond)
			t.Finds("a millisecond to either side", q, r.PhyOffset)
			q.Begin, q.End = at.Add(time.Millisecond), at.Add(2*time.Millisecond)
			t.Finds("from a millisecond after it", q)
			q.Begin, q.End = at.Add(-2*time.Millisecond), at.Add(-time.Millisecond)
			t.Finds("to a millisecond before it", q)
		},
	},
	{
		ID:     "query-014",
		Says:   "A zero begin or end is no bound.",
		Why:    "most queries are for all there is",
		Source: "store.QueryRequest",
		Clock:  true,
		Check: func(t *T) {
			need[store.Querier](t)
			topic := t.Topic("")
			a := keyed(t, topic, 0, "k")
			t.Advance(5 * time.Millisecond)
			b := keyed(t, topic, 0, "k")
			t.Settle(topic, 0, 2)
			t.Finds("no bounds", of(topic, "k"), a.PhyOffset, b.PhyOffset)
			t.Finds("no end", store.QueryRequest{Topic: topic, Key: "k", Begin: time.UnixMilli(b.StoreTimestamp)}, b.PhyOffset)
			t.Finds("no begin", store.QueryRequest{Topic: topic, Key: "k", End: time.UnixMilli(a.StoreTimestamp)}, a.PhyOffset)
		},
	},
	{
		ID:     "query-015",
		Says:   "An end before the begin finds nothing, and is no error.",
		Why:    "it is what a form that was filled in wrongly asks",
		Source: "index.md 3.4",
		Clock:  true,
		Check: func(t *T) {
			need[store.Querier](t)
			topic := t.Topic("")
			r := keyed(t, topic, 0, "k")
			t.Settle(topic, 0, 1)
			at := time.UnixMilli(r.StoreTimestamp)
			t.Finds("an end before the begin", store.QueryRequest{Topic: topic, Key: "k", Begin: at.Add(time.Millisecond), End: at.Add(-time.Millisecond)})
		},
	},
	{
		ID:     "query-016",
		Says:   "Times that milliseconds cannot hold are no bounds.",
		Why:    "consoles send the least and the largest number for \"always\"; wrapped around they would find nothing",
		Source: "store.Querier",
		Check: func(t *T) {
			need[store.Querier](t)
			topic := t.Topic("")
			r := keyed(t, topic, 0, "k")
			t.Settle(topic, 0, 1)
			t.Finds("the whole of time", store.QueryRequest{Topic: topic, Key: "k", Begin: time.Unix(-1<<60, 0), End: time.Unix(1<<60, 0)}, r.PhyOffset)
			t.Finds("after the end of time", store.QueryRequest{Topic: topic, Key: "k", Begin: time.Unix(1<<60, 0)})
		},
	},
	{
		ID:     "query-017",
		Says:   "The number of messages counts those within the bounds: the newest of them are chosen.",
		Why:    "newer messages outside of the bounds must not use the answer up",
		Source: "index.md 3.4",
		Clock:  true,
		Check: func(t *T) {
			need[store.Querier](t)
			topic := t.Topic("")
			var rs []store.PutResult
			for range 6 {
				rs = append(rs, keyed(t, topic, 0, "k"))
				t.Advance(2 * time.Millisecond)
			}
			t.Settle(topic, 0, 6)
			t.Finds("two up to the fourth", store.QueryRequest{Topic: topic, Key: "k", End: time.UnixMilli(rs[3].StoreTimestamp), Max: 2}, rs[2].PhyOffset, rs[3].PhyOffset)
		},
	},
	{
		ID:     "query-018",
		Says:   "A key that no message of the topic has finds nothing, and is no error.",
		Why:    "\"not found\" is an answer",
		Source: "index.md 3.5",
		Check: func(t *T) {
			need[store.Querier](t)
			topic := t.Topic("")
			keyed(t, topic, 0, "k")
			t.Settle(topic, 0, 1)
			t.Finds("an absent key", of(topic, "absent"))
			t.Finds("the empty key", of(topic, ""))
			t.Finds("an unknown topic", of(t.Topic("unknown"), "k"))
		},
	},
	{
		ID:     "query-019",
		Says:   "The same key in another topic is another key.",
		Why:    "two applications may number their orders from 1",
		Source: "index.md 3.2",
		Check: func(t *T) {
			need[store.Querier](t)
			a, b := t.Topic("a"), t.Topic("b")
			x, y := keyed(t, a, 0, "1"), keyed(t, b, 0, "1")
			t.Settle(a, 0, 1)
			t.Visible(b, 0, 1)
			t.Finds("the first topic", of(a, "1"), x.PhyOffset)
			t.Finds("the second topic", of(b, "1"), y.PhyOffset)
		},
	},
	{
		ID:     "query-020",
		Says:   "Prepared and committed messages of a transaction are found by key, a rollback is not.",
		Why:    "an operator looks for a half message whose producer never came back",
		Source: "index.md 3.3",
		Check: func(t *T) {
			need[store.Querier](t)
			topic := t.Topic("")
			var want []int64
			for _, tx := range []record.Transaction{record.TransactionPrepared, record.TransactionRollback, record.TransactionCommit, record.TransactionNone} {
				m := t.Message(topic, 0, "x", record.PropertyKeys, "k")
				m.SysFlag = m.SysFlag.WithTransaction(tx)
				if r := t.Put(m); tx != record.TransactionRollback {
					want = append(want, r.PhyOffset)
				}
			}
			t.Settle(topic, 0, 2)
			t.Finds("all kinds", of(topic, "k"), want...)
		},
	},
	{
		ID:     "query-021",
		Says:   "Spaces around and between keys are no keys.",
		Why:    "KEYS is put together by programs, with empty parts",
		Source: "index.md 3.3",
		Check: func(t *T) {
			need[store.Querier](t)
			topic := t.Topic("")
			r := keyed(t, topic, 0, "  a   b ")
			t.Settle(topic, 0, 1)
			t.Finds("a", of(topic, "a"), r.PhyOffset)
			t.Finds("b", of(topic, "b"), r.PhyOffset)
			t.Finds("nothing between them", of(topic, ""))
			t.Finds("a space", of(topic, " "))
		},
	},
	{
		ID:     "query-022",
		Says:   "Keys are bytes: any text, long or short, finds its message and no other one.",
		Why:    "keys are addresses, names and tokens in all languages",
		Source: "index.md 3.7",
		Check: func(t *T) {
			need[store.Querier](t)
			topic := t.Topic("")
			keys := []string{"k", "kk", strings.Repeat("k", 1000), strings.Repeat("k", 1001), "订单", "naïve", "naive", "a#b", "a\tb", "a/b", "%", "\xff\xfe"}
			var at []int64
			for _, key := range keys {
				at = append(at, keyed(t, topic, 0, key).PhyOffset)
			}
			t.Settle(topic, 0, int64(len(keys)))
			for i, key := range keys {
				t.Finds("a key of any bytes", of(topic, key), at[i])
			}
		},
	},
	{
		ID:     "query-023",
		Says:   "The records of a query are those that were put, at their places.",
		Why:    "brokers send the bytes as they are",
		Source: "index.md 3.5",
		Check: func(t *T) {
			need[store.Querier](t)
			topic := t.Topic("")
			var puts []*record.Message
			for i := range 3 {
				m := t.Message(topic, int32(i), body(i), record.PropertyKeys, "k", "n", fmt.Sprint(i))
				puts = append(puts, m)
				t.Put(m)
			}
			t.Settle(topic, 0, 1)
			q := t.Query(of(topic, "k"))
			ms, err := q.Messages()
			if err != nil || len(ms) != 3 {
				t.Fatalf("%d messages, %v", len(ms), err)
			}
			for i, m := range ms {
				t.Same("a message", m, puts[i])
				Equal(t, "its place", m.PhyOffset, puts[i].PhyOffset)
				Equal(t, "the view's place", q.Records[i].PhyOffset, puts[i].PhyOffset)
			}
		},
	},
	{
		ID:     "query-024",
		Says:   "A query says up to which record with a key the index has come: its time and place.",
		Why:    "clients of several brokers tell by it whether an answer can be complete",
		Source: "index.md 3.5, 3.7",
		Own:    true,
		Check: func(t *T) {
			need[store.Querier](t)
			topic := t.Topic("")
			keyed(t, topic, 0, "k")
			r := keyed(t, topic, 0, "other")
			t.PutN(topic, 0, 2)
			t.Settle(topic, 0, 4)
			q := t.Query(of(topic, "k"))
			Equal(t, "the time of the last record with a key", q.IndexLastUpdateTime, r.StoreTimestamp)
			Equal(t, "the place of the last record with a key", q.IndexLastUpdatePhyOffset, r.PhyOffset)
			Equal(t, "whether it is complete", q.Complete, true)
		},
	},
	{
		ID:     "query-025",
		Says:   "Views of a query stay as they are until they are released.",
		Why:    "brokers send a query's bytes while the store goes on",
		Source: "store.View",
		Config: Config{SegmentSize: 8192},
		Check: func(t *T) {
			need[store.Querier](t)
			topic := t.Topic("")
			for range 3 {
				keyed(t, topic, 0, "k")
			}
			t.Settle(topic, 0, 3)
			q := t.Query(of(topic, "k"))
			before := copies(q.Records)
			for i := range 20 {
				t.Put(t.Message(topic, 0, strings.Repeat(body(i), 200), record.PropertyKeys, "k"))
			}
			t.Visible(topic, 0, 23)
			t.Query(of(topic, "k"))
			t.Unchanged("after 20 more puts", q.Records, before)
		},
	},
	{
		ID:     "query-026",
		Says:   "A query whose context is done returns the context's error.",
		Why:    "who gave up does not read the answer",
		Source: "store.Querier",
		Check: func(t *T) {
			s := need[store.Querier](t)
			ctx, cancel := context.WithCancel(t.Ctx())
			cancel()
			q, err := s.Query(ctx, of(t.Topic(""), "k"))
			if !errors.Is(err, context.Canceled) {
				t.Errorf("a query with a cancelled context: %v, %v", q, err)
			}
			q.Release()
		},
	},
	{
		ID:     "query-027",
		Says:   "After Close a query is ErrClosed.",
		Why:    "nothing found would be a lie",
		Source: "store.Querier",
		Own:    true,
		Check: func(t *T) {
			s := need[store.Querier](t)
			topic := t.Topic("")
			keyed(t, topic, 0, "k")
			t.Visible(topic, 0, 1)
			if err := t.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			q, err := s.Query(t.Ctx(), of(topic, "k"))
			if !errors.Is(err, store.ErrClosed) {
				t.Errorf("a query to a closed store: %v, %v", q, err)
			}
			q.Release()
		},
	},
	{
		ID:     "query-028",
		Says:   "Each message of a batch is found by its own keys and by those of the batch.",
		Why:    "a batch is independent messages",
		Source: "commitlog-format.md 1.11",
		Check: func(t *T) {
			need[store.Querier](t)
			topic := t.Topic("")
			m := t.Message(topic, 0, "")
			m.Body = nil
			r, err := need[store.BatchPutter](t).PutBatch(t.Ctx(), m, []record.BatchItem{
				{Body: []byte("0"), Properties: record.NewProperties(record.PropertyKeys, "first both")},
				{Body: []byte("1"), Properties: record.NewProperties(record.PropertyKeys, "second both")},
			})
			if err != nil || len(r.Offsets) != 2 {
				t.Fatalf("put a batch: %+v, %v", r, err)
			}
			t.Settle(topic, 0, 2)
			t.Finds("the first one's key", of(topic, "first"), r.Offsets[0])
			t.Finds("the second one's key", of(topic, "second"), r.Offsets[1])
			t.Finds("a key of both", of(topic, "both"), r.Offsets...)
		},
	},
	{
		ID:     "query-029",
		Says:   "Many keys in many messages: each query finds exactly its own.",
		Why:    "an index is files, buckets and chains, and each has an end",
		Source: "index.md 3.1",
		Tests:  []string{"IndexFileTest.testPutKey"},
		Config: Config{SegmentSize: 8192},
		Check: func(t *T) {
			need[store.Querier](t)
			topic := t.Topic("")
			want := map[string][]int64{}
			for i := range 120 {
				keys := []string{fmt.Sprint("three", i%3), fmt.Sprint("ten", i%10), fmt.Sprint("own", i)}
				r := keyed(t, topic, 0, strings.Join(keys, " "))
				for _, k := range keys {
					want[k] = append(want[k], r.PhyOffset)
				}
			}
			t.Settle(topic, 0, 120)
			for key, at := range want {
				if got := places(t.Query(of(topic, key)).Records); !slices.Equal(got, at) {
					t.Errorf("key %q finds the records at %v, want %v", key, got, at)
				}
			}
		},
	},
	{
		ID:     "query-030",
		Says:   "A message without keys is found by none.",
		Why:    "tags, body and other properties are no keys",
		Source: "index.md 3.3",
		Check: func(t *T) {
			need[store.Querier](t)
			topic := t.Topic("")
			t.Put(t.Message(topic, 0, "body", "TAGS", "tag", "name", "value"))
			t.Put(t.Message(topic, 0, "body", record.PropertyKeys, "", record.PropertyUniqKey, ""))
			t.Settle(topic, 0, 2)
			for _, key := range []string{"", "body", "tag", "name", "value", topic} {
				t.Finds("no key", of(topic, key))
			}
		},
	},
}
