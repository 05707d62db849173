package conformance

import (
	"math"
	"strings"

	"github.com/mqstore/mqstore/store"
)

func init() { register(getLimitLaws...) }

// inMemory is how many bytes behind the log's end count as in memory, by limitsInDisk.
const inMemory = 4000

var (
	limitsInMemory = Config{MaxTransferMessagesInMemory: 5, MaxTransferBytesInMemory: 3000}
	limitsInDisk   = Config{MemorySize: inMemory * 100 / 40, MaxTransferMessagesInDisk: 2, MaxTransferBytesInDisk: 1000, SegmentSize: 64 << 10}
)

// behind puts messages of n bytes each to topic and then pads the log, until its end is exactly that many bytes behind the beginning of the last of them. The store must be new.
func behind(t *T, topic string, count, n, bytes int) {
	var last store.PutResult
	for range count {
		last = t.Put(t.Sized(topic, 0, n))
	}
	for left := last.PhyOffset + int64(bytes) - end(last); left > 0; {
		size := left
		if left > 2000 {
			size = 1000
		}
		left -= int64(t.Put(t.Sized(t.Topic("pad"), 0, int(size))).Size)
	}
	Equal(t, "the law's own arithmetic: bytes behind the end", t.Store().MaxPhyOffset()-last.PhyOffset, int64(bytes))
	t.Settle(topic, 0, int64(count))
}

var getLimitLaws = []Law{
	{
		ID:     "get-020",
		Says:   "A get returns as many messages as it was asked for, where there are as many, and the next offset is one past them.",
		Why:    "the client's pull batch size is a promise about its memory",
		Source: "dispatch-and-read.md 5.3",
		Tests:  []string{"DefaultMessageStoreTest.testPullSize"},
		Check: func(t *T) {
			topic := t.Topic("")
			t.PutN(topic, 0, 40)
			t.Settle(topic, 0, 40)
			for _, n := range []int{32, 20, 10, 1} {
				t.Answers("a pull", t.From(topic, 3, n, nil), store.Found, int64(3+n), n)
			}
		},
	},
	{
		ID:     "get-021",
		Says:   "Asked for more than there is, a get returns what there is, up to the end.",
		Why:    "consumers ask for full batches all the time",
		Source: "dispatch-and-read.md 5.3",
		Check: func(t *T) {
			topic := t.Topic("")
			t.PutN(topic, 0, 4)
			t.Settle(topic, 0, 4)
			t.Answers("a pull of 5", t.From(topic, 0, 5, nil), store.Found, 4, 4)
			t.Answers("a pull of 30 from 2", t.From(topic, 2, 30, nil), store.Found, 4, 2)
		},
	},
	{
		ID:     "get-022",
		Says:   "Asked for no number of messages, a get returns at most 32.",
		Why:    "it is the default of the original's clients and brokers",
		Source: "store.GetRequest",
		Config: Config{MaxTransferMessagesInMemory: 50},
		Check: func(t *T) {
			topic := t.Topic("")
			t.PutN(topic, 0, 40)
			t.Settle(topic, 0, 40)
			t.Answers("a pull of 0", t.From(topic, 0, 0, nil), store.Found, 32, 32)
			t.Answers("a pull of 35", t.From(topic, 0, 35, nil), store.Found, 35, 35)
		},
	},
	{
		ID:     "get-023",
		Says:   "Asked for a negative number of messages, a get returns the first match only.",
		Why:    "the original looks at the number only when it holds something already, and answers so to 0",
		Source: "dispatch-and-read.md 5.3 (scan, 4)",
		Check: func(t *T) {
			topic := t.Topic("")
			t.PutN(topic, 0, 4)
			t.Settle(topic, 0, 4)
			t.Answers("a pull of -1", t.From(topic, 1, -1, nil), store.Found, 2, 1)
			t.Answers("a pull of the least int", t.From(topic, 1, math.MinInt, nil), store.Found, 2, 1)
		},
	},
	{
		ID:     "get-024",
		Says:   "Asked for more messages than can be counted in bytes, a get returns what there is.",
		Why:    "the number times 20 bytes overflows, and it comes from a network",
		Source: "dispatch-and-read.md 5.3",
		Check: func(t *T) {
			topic := t.Topic("")
			t.PutN(topic, 0, 4)
			t.Settle(topic, 0, 4)
			t.Answers("a pull of the largest int", t.From(topic, 0, math.MaxInt, nil), store.Found, 4, 4)
			t.Answers("a pull of the largest int32", t.From(topic, 0, math.MaxInt32, nil), store.Found, 4, 4)
		},
	},
	{
		ID:     "get-025",
		Says:   "However many messages are asked for, a get returns at most maxTransferCountOnMessageInMemory of them.",
		Why:    "the broker's limit is stronger than what a client asks for",
		Source: "dispatch-and-read.md 5.3 (scan, 4)",
		Config: limitsInMemory,
		Check: func(t *T) {
			topic := t.Topic("")
			t.PutN(topic, 0, 8)
			t.Settle(topic, 0, 8)
			t.Answers("a pull of 6", t.From(topic, 0, 6, nil), store.Found, 5, 5)
			t.Answers("a pull of 5", t.From(topic, 1, 5, nil), store.Found, 6, 5)
		},
	},
	{
		ID:     "get-026",
		Says:   "The records of a get are together at most maxTransferBytesOnMessageInMemory bytes: exactly as many are allowed, one more is not.",
		Why:    "clients and connections have buffers",
		Source: "dispatch-and-read.md 5.3 (scan, 4)",
		Config: limitsInMemory,
		Check: func(t *T) {
			exact, more := t.Topic("exact"), t.Topic("more")
			for range 4 {
				t.Put(t.Sized(exact, 0, 1000))
			}
			t.Put(t.Sized(more, 0, 1000))
			t.Put(t.Sized(more, 0, 1000))
			t.Put(t.Sized(more, 0, 1001))
			t.Settle(exact, 0, 4)
			t.Visible(more, 0, 3)
			t.Answers("3 × 1,000 bytes of at most 3,000", t.From(exact, 0, 5, nil), store.Found, 3, 3)
			t.Answers("1,000 + 1,000 + 1,001 bytes of at most 3,000", t.From(more, 0, 5, nil), store.Found, 2, 2)
		},
	},
	{
		ID:     "get-027",
		Says:   "A message larger than a get may have is returned alone, and not left out.",
		Why:    "the consumer would stand before it for ever",
		Source: "dispatch-and-read.md 5.3 (scan, 4)",
		Config: limitsInMemory,
		Check: func(t *T) {
			topic := t.Topic("")
			t.Put(t.Message(topic, 0, "small"))
			t.Put(t.Sized(topic, 0, 3500))
			t.Put(t.Message(topic, 0, "small"))
			t.Settle(topic, 0, 3)
			t.Answers("before the large one", t.From(topic, 0, 5, nil), store.Found, 1, 1)
			t.Answers("at the large one", t.From(topic, 1, 5, nil), store.Found, 2, 1)
			t.Answers("behind the large one", t.From(topic, 2, 5, nil), store.Found, 3, 1)
		},
	},
	{
		ID:     "get-028",
		Says:   "Of messages that are likely not in memory a get returns at most maxTransferCountOnMessageInDisk: those further behind the log's end than 40 % of memory, and not those exactly so far.",
		Why:    "a consumer that is far behind must not make the disk the bottleneck of all others",
		Source: "dispatch-and-read.md 5.3 (scan, 3 and 4)",
		Config: limitsInDisk,
		Own:    true,
		Check: func(t *T) {
			near, far := t.Topic("near"), t.Topic("far")
			behind(t, near, 3, 200, inMemory)
			t.Answers("the third message is in memory", t.From(near, 0, 5, nil), store.Found, 3, 3)
			behind(t, far, 3, 200, inMemory+1)
			t.Answers("the third message is in disk", t.From(far, 0, 5, nil), store.Found, 2, 2)
		},
	},
	{
		ID:     "get-029",
		Says:   "Of messages that are likely not in memory a get returns at most maxTransferBytesOnMessageInDisk bytes, but one in any case.",
		Why:    "a consumer that is far behind must not make the disk the bottleneck of all others",
		Source: "dispatch-and-read.md 5.3 (scan, 3 and 4)",
		Config: limitsInDisk,
		Own:    true,
		Check: func(t *T) {
			exact, more, large := t.Topic("exact"), t.Topic("more"), t.Topic("large")
			behind(t, exact, 2, 500, inMemory+1)
			t.Answers("2 × 500 bytes of at most 1,000", t.From(exact, 0, 5, nil), store.Found, 2, 2)
			behind(t, more, 2, 501, inMemory+1)
			t.Answers("2 × 501 bytes of at most 1,000", t.From(more, 0, 5, nil), store.Found, 1, 1)
			behind(t, large, 2, 1500, inMemory+1)
			t.Answers("1,500 bytes of at most 1,000", t.From(large, 0, 5, nil), store.Found, 1, 1)
		},
	},
	{
		ID:     "get-030",
		Says:   "A slave is suggested when the last message looked at is further behind the log's end than 40 % of memory, and not when it is exactly so far.",
		Why:    "the broker sends consumers away by it, who would else read from a master's disk",
		Source: "dispatch-and-read.md 5.3",
		Config: limitsInDisk,
		Own:    true,
		Check: func(t *T) {
			near, far := t.Topic("near"), t.Topic("far")
			behind(t, near, 2, 200, inMemory)
			Equal(t, "the suggestion for a message in memory", t.From(near, 0, 5, nil).SuggestSlave, false)
			behind(t, far, 2, 200, inMemory+1)
			Equal(t, "the suggestion for a message in disk", t.From(far, 0, 5, nil).SuggestSlave, true)
		},
	},
	{
		ID:     "get-031",
		Says:   "A get ends at the end of its queue file, and goes on in the next one.",
		Why:    "the original reads one mapped file at a time, and clients see how many messages an answer has",
		Source: "dispatch-and-read.md 5.3",
		Config: Config{QueueFileSize: 200},
		Check: func(t *T) {
			topic := t.Topic("")
			t.PutN(topic, 0, 25)
			t.Settle(topic, 0, 25)
			t.Answers("from 7, to the first file's end", t.From(topic, 7, 20, nil), store.Found, 10, 3)
			t.Answers("from 10, the second file", t.From(topic, 10, 20, nil), store.Found, 20, 10)
			t.Answers("from 20, to the queue's end", t.From(topic, 20, 20, nil), store.Found, 25, 5)
		},
	},
	{
		ID:     "get-032",
		Says:   "A get looks at no more than 800 messages, or as many as it was asked for if that is more, and then says where to go on.",
		Why:    "a filter that matches nothing would else read a whole queue in one answer",
		Source: "dispatch-and-read.md 5.3",
		Config: Config{QueueFileSize: 20 * 1000, SegmentSize: 256 << 10},
		Own:    true,
		Check: func(t *T) {
			topic := t.Topic("")
			t.PutN(topic, 0, 830)
			t.Settle(topic, 0, 830)
			none := store.TagFilter("none")
			t.Answers("a pull of 10", t.From(topic, 0, 10, none), store.NoMatchedMessage, 800, 0)
			t.Answers("a pull of 820", t.From(topic, 0, 820, none), store.NoMatchedMessage, 820, 0)
			t.Answers("the rest", t.From(topic, 800, 10, none), store.NoMatchedMessage, 830, 0)
		},
	},
	{
		ID:     "get-033",
		Says:   "Messages that only differ in size come whole, whatever their sizes.",
		Why:    "the size in the unit and the size in the record are two numbers of one thing",
		Source: "consumequeue-format.md 2.1",
		Check: func(t *T) {
			topic := t.Topic("")
			sizes := []int{0, 1, 2, 100, 511, 512, 513, 1000, 3000}
			for _, n := range sizes {
				t.Put(t.Message(topic, 0, strings.Repeat("b", n)))
			}
			t.Settle(topic, 0, int64(len(sizes)))
			for i, m := range t.Read(topic, 0, 0, len(sizes)) {
				Equal(t, "a body's length", len(m.Body), sizes[i])
			}
		},
	},
}
