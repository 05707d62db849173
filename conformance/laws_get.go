package conformance

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/mqstore/mqstore/store"
)

func init() { register(getLaws...) }

// getLaws are about statuses, next offsets, bounds and order.
var getLaws = []Law{
	{
		ID:     "get-001",
		Says:   "A queue that nobody knows is NO_MESSAGE_IN_QUEUE, with bounds and next offset 0, whatever the offset.",
		Why:    "a consumer of a new topic asks before its first message is put, and begins at 0 then",
		Source: "dispatch-and-read.md 5.3",
		Check: func(t *T) {
			for _, offset := range []int64{0, 1, -1, 100} {
				g := t.From(t.Topic(""), offset, 0, nil)
				t.Answers("an unknown topic", g, store.NoMessageInQueue, 0, 0)
				Equal(t, "its minimum", g.MinOffset, 0)
				Equal(t, "its maximum", g.MaxOffset, 0)
			}
		},
	},
	{
		ID:     "get-002",
		Says:   "Another queue of a topic that has messages is NO_MESSAGE_IN_QUEUE.",
		Why:    "queues of a topic are numbered on their own: a consumer of an empty one must not be sent to another one's bounds",
		Source: "dispatch-and-read.md 5.3",
		Check: func(t *T) {
			topic := t.Topic("")
			t.PutN(topic, 0, 3)
			t.Settle(topic, 0, 3)
			t.Answers("queue 1", t.Get(store.GetRequest{Topic: topic, QueueID: 1, Offset: 2}), store.NoMessageInQueue, 0, 0)
		},
	},
	{
		ID:     "get-003",
		Says:   "At the queue's end a get is OFFSET_OVERFLOW_ONE, with the end as next offset.",
		Why:    "a consumer that has read everything waits there (long polling) and must not be moved",
		Source: "dispatch-and-read.md 5.3",
		Check: func(t *T) {
			topic := t.Topic("")
			t.PutN(topic, 0, 3)
			t.Settle(topic, 0, 3)
			t.Answers("at the end", t.From(topic, 3, 0, nil), store.OffsetOverflowOne, 3, 0)
		},
	},
	{
		ID:     "get-004",
		Says:   "Beyond the queue's end a get is OFFSET_OVERFLOW_BADLY, with the end as next offset, also when the queue begins at 0.",
		Why:    "older stores sent such consumers to 0, and days of messages were consumed again",
		Source: "dispatch-and-read.md 5.3, reports 17",
		Check: func(t *T) {
			topic := t.Topic("")
			t.PutN(topic, 0, 3)
			t.Settle(topic, 0, 3)
			t.Answers("one beyond the end", t.From(topic, 4, 0, nil), store.OffsetOverflowBadly, 3, 0)
			t.Answers("100 beyond the end", t.From(topic, 103, 0, nil), store.OffsetOverflowBadly, 3, 0)
		},
	},
	{
		ID:     "get-005",
		Says:   "The largest offset there is, is beyond the end as any other.",
		Why:    "offset times 20 bytes overflows there, and a consumer's offsets come from a network",
		Source: "dispatch-and-read.md 5.3",
		Check: func(t *T) {
			topic := t.Topic("")
			t.PutN(topic, 0, 2)
			t.Settle(topic, 0, 2)
			for _, offset := range []int64{math.MaxInt64, math.MaxInt64/20 + 1, math.MaxInt64 / 20, 1 << 40} {
				t.Answers("far beyond the end", t.From(topic, offset, 0, nil), store.OffsetOverflowBadly, 2, 0)
			}
		},
	},
	{
		ID:     "get-006",
		Says:   "A negative offset is OFFSET_TOO_SMALL, with the minimum as next offset.",
		Why:    "clients have -1 for \"nothing consumed yet\" and go on where they are told",
		Source: "dispatch-and-read.md 5.3",
		Check: func(t *T) {
			topic := t.Topic("")
			t.PutN(topic, 0, 2)
			t.Settle(topic, 0, 2)
			for _, offset := range []int64{-1, -20, math.MinInt64} {
				t.Answers("below the minimum", t.From(topic, offset, 0, nil), store.OffsetTooSmall, 0, 0)
			}
		},
	},
	{
		ID:     "get-007",
		Says:   "FOUND gives the messages from the offset on in the queue's order, each with its queue offset, and the next offset is one past the last.",
		Why:    "this is what consuming a queue is",
		Source: "dispatch-and-read.md 5.3",
		Tests:  []string{"DefaultMessageStoreTest.testWriteAndRead", "BatchPutMessageTest.testPutMessages"},
		Check: func(t *T) {
			topic := t.Topic("")
			t.PutN(topic, 0, 6)
			t.Settle(topic, 0, 6)
			for from := range int64(6) {
				g := t.From(topic, from, 0, nil)
				t.Answers("a get", g, store.Found, 6, int(6-from))
				t.Offsets("a get", g, []int64{0, 1, 2, 3, 4, 5}[from:]...)
				ms, err := g.Messages()
				if err != nil {
					t.Fatalf("records: %v", err)
				}
				for i, m := range ms {
					Equal(t, "a body", string(m.Body), string(rune('0'+from)+rune(i)))
				}
			}
		},
	},
	{
		ID:     "get-008",
		Says:   "The records of a get are those that were put: at their places, with all that the producer gave, and Bytes is the sum of their sizes.",
		Why:    "brokers send the bytes as they are, with Bytes as their length",
		Source: "dispatch-and-read.md 5.3",
		Tests:  []string{"BatchPutMessageTest.testPutMessages"},
		Check: func(t *T) {
			topic, total := t.Topic(""), 0
			var puts []store.PutResult
			for i := range 4 {
				m := t.Message(topic, 0, strings.Repeat("b", 10*i), "TAGS", "a", "KEYS", "k")
				m.Flag, m.ReconsumeTimes, m.BornTimestamp = int32(i), 3, 1234
				puts = append(puts, t.Put(m))
				total += puts[i].Size
			}
			t.Settle(topic, 0, 4)
			g := t.From(topic, 0, 0, nil)
			t.Answers("a get", g, store.Found, 4, 4)
			Equal(t, "the sum of sizes", g.Bytes, total)
			for i, v := range g.Records {
				Equal(t, "a record's place", v.PhyOffset, puts[i].PhyOffset)
				Equal(t, "a record's size", len(v.Bytes), puts[i].Size)
			}
			ms, err := g.Messages()
			if err != nil {
				t.Fatalf("records: %v", err)
			}
			for i, m := range ms {
				want := t.Message(topic, 0, strings.Repeat("b", 10*i), "TAGS", "a", "KEYS", "k")
				want.Flag, want.ReconsumeTimes, want.BornTimestamp = int32(i), 3, 1234
				t.Same("a message", m, want)
				Equal(t, "its queue offset", m.QueueOffset, int64(i))
				Equal(t, "its place", m.PhyOffset, puts[i].PhyOffset)
			}
		},
	},
	{
		ID:     "get-009",
		Says:   "Every answer carries the queue's bounds.",
		Why:    "clients compute their lag from them, and reset offsets that lie outside",
		Source: "dispatch-and-read.md 5.3",
		Check: func(t *T) {
			topic := t.Topic("")
			t.PutN(topic, 0, 5)
			t.Settle(topic, 0, 5)
			for _, offset := range []int64{-1, 0, 4, 5, 6} {
				for _, f := range []store.Filter{nil, store.TagFilter("none")} {
					g := t.From(topic, offset, 2, f)
					Equal(t, "the minimum with "+g.Status.String(), g.MinOffset, 0)
					Equal(t, "the maximum with "+g.Status.String(), g.MaxOffset, 5)
				}
			}
		},
	},
	{
		ID:     "get-010",
		Says:   "Queues are apart: a get sees messages of its topic and queue only.",
		Why:    "the log is one for all topics: a unit in the wrong queue hands a message to the wrong consumer",
		Source: "dispatch-and-read.md 5.2",
		Check: func(t *T) {
			// "a-1", queue 1 and "a", queue "1-1" would be one if names were joined.
			a, b := t.Topic("a"), t.Topic("a-1")
			for i := range 6 {
				for _, topic := range []string{a, b} {
					for id := range int32(3) {
						t.Put(t.Message(topic, id, topic+body(i)+string(rune('0'+id))))
					}
				}
			}
			for _, topic := range []string{a, b} {
				for id := range int32(3) {
					t.Settle(topic, id, 6)
					for i, m := range t.Read(topic, id, 0, 6) {
						Equal(t, "a body", string(m.Body), topic+body(i)+string(rune('0'+id)))
						Equal(t, "the queue's end", t.Store().MaxOffset(topic, id), 6)
					}
				}
			}
		},
	},
	{
		ID:     "get-011",
		Says:   "What MaxOffset says is there can be read at once.",
		Why:    "a consumer that is woken by the end of a queue reads there, and would wait again for a message that has come",
		Source: "dispatch-and-read.md 5.2",
		Check: func(t *T) {
			topic := t.Topic("")
			for range 20 {
				t.Put(t.Message(topic, 0, "x"))
				if end := t.Store().MaxOffset(topic, 0); end > 0 {
					t.Answers("the newest message", t.From(topic, end-1, -1, nil), store.Found, end, 1)
				}
			}
		},
	},
	{
		ID:     "get-012",
		Says:   "Going on at the next offset visits each message once and in order, to the end of the queue.",
		Why:    "a next offset that goes back is consumed for ever, one that jumps loses messages",
		Source: "dispatch-and-read.md 5.3",
		Config: Config{QueueFileSize: 200, SegmentSize: 8192, MaxTransferMessagesInMemory: 7},
		Check: func(t *T) {
			topic := t.Topic("")
			for i := range 60 {
				t.Put(t.Message(topic, 0, strings.Repeat("b", i*7)))
			}
			t.Settle(topic, 0, 60)
			var seen []int64
			for at := int64(0); at < 60; {
				g := t.From(topic, at, 0, nil)
				if g.Status != store.Found || g.NextBeginOffset <= at {
					t.Fatalf("at %d: %v, next offset %d", at, g.Status, g.NextBeginOffset)
				}
				seen, at = append(seen, g.QueueOffsets...), g.NextBeginOffset
			}
			want := make([]int64, 60)
			for i := range want {
				want[i] = int64(i)
			}
			if !slices.Equal(seen, want) {
				t.Errorf("visited %v", seen)
			}
		},
	},
	{
		ID:     "get-013",
		Says:   "Asking again gives the same answer.",
		Why:    "consumers retry what they could not process; reading takes nothing away",
		Source: "dispatch-and-read.md 5.3",
		Check: func(t *T) {
			topic := t.Topic("")
			t.PutN(topic, 0, 5)
			t.Settle(topic, 0, 5)
			first := t.From(topic, 1, 3, nil)
			for range 3 {
				again := t.From(topic, 1, 3, nil)
				t.Answers("asked again", again, first.Status, first.NextBeginOffset, len(first.Records))
				t.Offsets("asked again", again, 1, 2, 3)
			}
		},
	},
	{
		ID:     "get-014",
		Says:   "A get creates no queue.",
		Why:    "a consumer with a misspelt topic would leave directories behind, for ever and on every slave",
		Source: "store: differences",
		Check: func(t *T) {
			s := need[store.Scanner](t)
			topic := t.Topic("none")
			t.From(topic, 0, 0, nil)
			t.Store().MaxOffset(topic, 0)
			t.Store().MinOffset(topic, 7)
			for _, q := range s.Queues() {
				if q.Topic == topic {
					t.Errorf("queue %s/%d is there, though nobody put to it", q.Topic, q.QueueID)
				}
			}
		},
	},
	{
		ID:     "get-015",
		Says:   "A get whose context is done returns the context's error.",
		Why:    "who gave up does not read the answer",
		Source: "store.Getter",
		Check: func(t *T) {
			topic := t.Topic("")
			t.PutN(topic, 0, 1)
			t.Settle(topic, 0, 1)
			ctx, cancel := context.WithCancel(t.Ctx())
			cancel()
			g, err := t.Store().Get(ctx, store.GetRequest{Topic: topic})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("a get with a cancelled context: %v, %v", g, err)
			}
			g.Release()
		},
	},
	{
		ID:     "get-016",
		Says:   "After Close a get is ErrClosed.",
		Why:    "an empty answer instead would look like an empty queue, and the broker would reset its consumers",
		Source: "dispatch-and-read.md 5.3",
		Own:    true,
		Check: func(t *T) {
			topic := t.Topic("")
			t.PutN(topic, 0, 1)
			t.Visible(topic, 0, 1)
			if err := t.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			g, err := t.Store().Get(t.Ctx(), store.GetRequest{Topic: topic})
			if !errors.Is(err, store.ErrClosed) {
				t.Errorf("a get from a closed store: %v, %v", g, err)
			}
			g.Release()
		},
	},
	{
		ID:     "get-017",
		Says:   "Views stay as they are until they are released, whatever is put and read meanwhile.",
		Why:    "brokers send a get's bytes while the store goes on",
		Source: "store.View",
		Config: Config{SegmentSize: 8192},
		Check: func(t *T) {
			topic := t.Topic("")
			for i := range 5 {
				t.Put(t.Message(topic, 0, strings.Repeat(body(i), 20)))
			}
			t.Settle(topic, 0, 5)
			g := t.From(topic, 0, 0, nil)
			before := copies(g.Records)
			for i := range 20 {
				t.Put(t.Message(topic, 0, strings.Repeat(body(i), 200)))
			}
			t.Visible(topic, 0, 25)
			t.Read(topic, 0, 0, 25)
			t.Unchanged("after 20 more puts", g.Records, before)
		},
	},
	{
		ID:     "get-018",
		Says:   "Views stay as they are until they are released, also when the store is closed meanwhile.",
		Why:    "a connection may still be sending when the broker stops; memory that is gone would end the process",
		Source: "store.View, reports 46",
		Own:    true,
		Check: func(t *T) {
			topic := t.Topic("")
			t.PutN(topic, 0, 5)
			t.Visible(topic, 0, 5)
			g := t.From(topic, 0, 0, nil)
			before := copies(g.Records)
			if err := t.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			t.Unchanged("after Close", g.Records, before)
		},
	},
}
