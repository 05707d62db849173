package conformance

import (
	"errors"
	"fmt"
	"time"

	"github.com/mqstore/mqstore/store"
)

func init() { register(timeLaws...) }

// byTime reports a fault unless the search for at by rule answers want.
func (t *T) byTime(topic string, at int64, rule store.TimeRule, want int64) {
	got, err := t.Store().OffsetByTime(topic, 0, time.UnixMilli(at), rule)
	if err != nil || got != want {
		t.Errorf("%s: offset %d, %v; want %d", ruleAt(at, rule), got, err, want)
	}
}

func ruleAt(at int64, rule store.TimeRule) string {
	return fmt.Sprintf("time %d by rule %s", at, [...]string{"Nearest", "Lower", "Upper"}[rule])
}

var timeRules = []store.TimeRule{store.Nearest, store.Lower, store.Upper}

// putApart stores n messages, gap or more apart, and returns their store times.
func (t *T) putApart(topic string, n int, gap time.Duration) (times []int64) {
	for range n {
		t.Advance(gap)
		times = append(times, t.Put(t.Message(topic, 0, "x")).StoreTimestamp)
	}
	return times
}

var timeLaws = []Law{
	{
		ID:     "time-001",
		Says:   "The store time of each message is the one that its put was answered with.",
		Why:    "consoles show it, and consumers reset to it",
		Source: "dispatch-and-read.md 5.4",
		Tests:  []string{"DefaultMessageStoreTest.testGetMessageStoreTimeStamp", "DefaultMessageStoreTest.testGetStoreTime_EverythingIsOk"},
		Clock:  true,
		Check: func(t *T) {
			topic := t.Topic("")
			times := t.putApart(topic, 4, 3*time.Millisecond)
			t.Settle(topic, 0, 4)
			for i, want := range times {
				got, err := t.Store().StoreTime(topic, 0, int64(i))
				if err != nil || got.UnixMilli() != want {
					t.Errorf("message %d was stored at %d, %v; want %d", i, got.UnixMilli(), err, want)
				}
			}
		},
	},
	{
		ID:     "time-002",
		Says:   "Where there is no message there is no store time: ErrNotFound.",
		Why:    "the original answers -1, which is a time to whoever does not look",
		Source: "dispatch-and-read.md 5.4",
		Tests:  []string{"DefaultMessageStoreTest.testGetOffsetInQueueByTime_ConsumeQueueNotFound2", "DefaultMessageStoreTest.testGetOffsetInQueueByTime_ConsumeQueueOffsetNotExist"},
		Check: func(t *T) {
			topic := t.Topic("")
			t.PutN(topic, 0, 2)
			t.Settle(topic, 0, 2)
			for _, i := range []int64{-1, 2, 1 << 40, -1 << 63, 1<<63 - 1} {
				if at, err := t.Store().StoreTime(topic, 0, i); !errors.Is(err, store.ErrNotFound) {
					t.Errorf("message %d of 2 was stored at %v, %v; want %v", i, at, err, store.ErrNotFound)
				}
			}
			if at, err := t.Store().StoreTime(topic, 1, 0); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("message 0 of an unknown queue was stored at %v, %v; want %v", at, err, store.ErrNotFound)
			}
		},
	},
	{
		ID:     "time-003",
		Says:   "The earliest store time of a queue is that of its first message, and of an unknown one ErrNotFound.",
		Why:    "it says how far back a consumer can go",
		Source: "dispatch-and-read.md 5.4",
		Clock:  true,
		Check: func(t *T) {
			topic := t.Topic("")
			t.Put(t.Message(t.Topic("before"), 0, "x"))
			times := t.putApart(topic, 3, 3*time.Millisecond)
			t.Settle(topic, 0, 3)
			got, err := t.Store().EarliestStoreTime(topic, 0)
			if err != nil || got.UnixMilli() != times[0] {
				t.Errorf("the first message was stored at %d, %v; want %d", got.UnixMilli(), err, times[0])
			}
			if got, err = t.Store().EarliestStoreTime(topic, 1); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("the first message of an unknown queue was stored at %v, %v; want %v", got, err, store.ErrNotFound)
			}
		},
	},
	{
		ID:     "time-004",
		Says:   "A time at which one message was stored finds it, by each rule.",
		Why:    "a consumer resets to the time of a message that it knows",
		Source: "consumequeue-format.md 2.8",
		Tests:  []string{"DefaultMessageStoreTest.testGetOffsetInQueueByTime", "RocksDBConsumeQueueTableTest.testBinarySearchInCQByTime"},
		Clock:  true,
		Check: func(t *T) {
			topic := t.Topic("")
			times := t.putApart(topic, 10, 10*time.Millisecond)
			t.Settle(topic, 0, 10)
			for i, at := range times {
				for _, rule := range timeRules {
					t.byTime(topic, at, rule, int64(i))
				}
			}
		},
	},
	{
		ID:     "time-005",
		Says:   "Between two messages Lower finds the later one.",
		Why:    "who begins to read at a time must miss nothing that was stored after it, and have nothing from before it",
		Source: "consumequeue-format.md 2.8",
		Tests:  []string{"RocksDBConsumeQueueTableTest.testBinarySearchInCQByTime"},
		Clock:  true,
		Check: func(t *T) {
			topic := t.Topic("")
			times := t.putApart(topic, 6, 10*time.Millisecond)
			t.Settle(topic, 0, 6)
			for i := range 5 {
				t.byTime(topic, times[i]+1, store.Lower, int64(i+1))
				t.byTime(topic, times[i+1]-1, store.Lower, int64(i+1))
			}
		},
	},
	{
		ID:     "time-006",
		Says:   "Between two messages Upper finds the earlier one.",
		Why:    "it is where a range of times ends",
		Source: "consumequeue-format.md 2.8",
		Tests:  []string{"RocksDBConsumeQueueTableTest.testBinarySearchInCQByTime"},
		Clock:  true,
		Check: func(t *T) {
			topic := t.Topic("")
			times := t.putApart(topic, 6, 10*time.Millisecond)
			t.Settle(topic, 0, 6)
			for i := range 5 {
				t.byTime(topic, times[i]+1, store.Upper, int64(i))
				t.byTime(topic, times[i+1]-1, store.Upper, int64(i))
			}
		},
	},
	{
		ID:     "time-007",
		Says:   "Between two messages Nearest finds the nearer one.",
		Why:    "clocks of broker and client differ a little: the original's consumers rely on it",
		Source: "consumequeue-format.md 2.8",
		Tests:  []string{"DefaultMessageStoreTest.testGetOffsetInQueueByTime_TimestampIsSkewing"},
		Clock:  true,
		Check: func(t *T) {
			topic := t.Topic("")
			times := t.putApart(topic, 6, 10*time.Millisecond)
			t.Settle(topic, 0, 6)
			for i, at := range times {
				t.byTime(topic, at+2, store.Nearest, int64(i))
				t.byTime(topic, at-2, store.Nearest, int64(i))
			}
			for i := range 5 {
				half := (times[i+1] - times[i] - 1) / 2
				t.byTime(topic, times[i]+half, store.Nearest, int64(i))
				t.byTime(topic, times[i+1]-half, store.Nearest, int64(i+1))
			}
		},
	},
	{
		ID:     "time-008",
		Says:   "As far from one message as from the next, Nearest finds the earlier one.",
		Why:    "to read a message twice is better than to miss one",
		Source: "consumequeue-format.md 2.8 step 4",
		Clock:  true,
		Check: func(t *T) {
			topic := t.Topic("")
			times := t.putApart(topic, 6, 10*time.Millisecond)
			t.Settle(topic, 0, 6)
			even := false
			for i := range 5 {
				if gap := times[i+1] - times[i]; gap%2 == 0 {
					even = true
					t.byTime(topic, times[i]+gap/2, store.Nearest, int64(i))
				}
			}
			if !even {
				t.Skip("no two messages are an even number of milliseconds apart, and the clock cannot be set")
			}
		},
	},
	{
		ID:     "time-009",
		Says:   "Before the first message each rule finds the queue's beginning.",
		Why:    "a consumer that asks for last year begins with the first message",
		Source: "consumequeue-format.md 2.8",
		Tests:  []string{"DefaultMessageStoreTest.testGetOffsetInQueueByTime_TimestampSkewingIsLarge", "RocksDBConsumeQueueTableTest.testBinarySearchInCQByTime"},
		Clock:  true,
		Check: func(t *T) {
			topic := t.Topic("")
			times := t.putApart(topic, 5, 5*time.Millisecond)
			t.Settle(topic, 0, 5)
			for _, rule := range timeRules {
				for _, at := range []int64{times[0] - 1, times[0] - 20_000, 0, -1, -1 << 40} {
					t.byTime(topic, at, rule, 0)
				}
			}
		},
	},
	{
		ID:     "time-010",
		Says:   "After the last message Lower finds the queue's end, the other rules the last message.",
		Why:    "who wants what was stored after now waits at the end",
		Source: "consumequeue-format.md 2.8",
		Tests:  []string{"DefaultMessageStoreTest.testGetOffsetInQueueByTime_TimestampSkewingIsLarge"},
		Clock:  true,
		Check: func(t *T) {
			topic := t.Topic("")
			times := t.putApart(topic, 5, 5*time.Millisecond)
			t.Settle(topic, 0, 5)
			for _, at := range []int64{times[4] + 1, times[4] + 20_000, 1 << 45} {
				t.byTime(topic, at, store.Lower, 5)
				t.byTime(topic, at, store.Upper, 4)
				t.byTime(topic, at, store.Nearest, 4)
			}
		},
	},
	{
		ID:     "time-011",
		Says:   "In an unknown queue each rule finds offset 0.",
		Why:    "a consumer begins there when the first message comes",
		Source: "consumequeue-format.md 2.8",
		Tests:  []string{"DefaultMessageStoreTest.testGetOffsetInQueueByTime_ConsumeQueueNotFound1"},
		Check: func(t *T) {
			for _, rule := range timeRules {
				t.byTime(t.Topic(""), t.Now().UnixMilli(), rule, 0)
			}
		},
	},
	{
		ID:     "time-012",
		Says:   "Of several messages of one time Lower finds the first.",
		Why:    "who begins to read at a time must miss none of it",
		Source: "consumequeue-format.md 2.8",
		Tests:  []string{"RocksDBConsumeQueueTableTest.testBinarySearchInCQByTime"},
		Clock:  true,
		Check: func(t *T) {
			topic, times := t.ties()
			for _, first := range []int64{0, 3, 4} {
				t.byTime(topic, times[first], store.Lower, first)
			}
			t.byTime(topic, times[0]+1, store.Lower, 3)
		},
	},
	{
		ID:     "time-013",
		Says:   "Of several messages of one time Upper finds the last.",
		Why:    "a range of times has all messages of its last millisecond",
		Source: "consumequeue-format.md 2.8",
		Tests:  []string{"RocksDBConsumeQueueTableTest.testBinarySearchInCQByTime"},
		Clock:  true,
		Check: func(t *T) {
			topic, times := t.ties()
			for _, last := range []int64{2, 3, 8} {
				t.byTime(topic, times[last], store.Upper, last)
			}
			t.byTime(topic, times[4]-1, store.Upper, 3)
		},
	},
	{
		ID:     "time-014",
		Says:   "Of several messages of one time Nearest finds one of them.",
		Why:    "the original answers the one that its search meets first",
		Source: "consumequeue-format.md 2.8 step 3",
		Clock:  true,
		Check: func(t *T) {
			topic, times := t.ties()
			for _, at := range []int64{times[0], times[3], times[4]} {
				got, err := t.Store().OffsetByTime(topic, 0, time.UnixMilli(at), store.Nearest)
				if err != nil || got < 0 || got >= int64(len(times)) || times[got] != at {
					t.Errorf("%s: offset %d, %v", ruleAt(at, store.Nearest), got, err)
				}
			}
		},
	},
	{
		ID:     "time-015",
		Says:   "A queue of one message has the same answers.",
		Why:    "a search by halves has nothing to halve there",
		Source: "consumequeue-format.md 2.8",
		Clock:  true,
		Check: func(t *T) {
			topic := t.Topic("")
			at := t.putApart(topic, 1, time.Millisecond)[0]
			t.Settle(topic, 0, 1)
			for _, rule := range timeRules {
				t.byTime(topic, at-1, rule, 0)
				t.byTime(topic, at, rule, 0)
			}
			t.byTime(topic, at+1, store.Lower, 1)
			t.byTime(topic, at+1, store.Upper, 0)
			t.byTime(topic, at+1, store.Nearest, 0)
		},
	},
	{
		ID:     "time-016",
		Says:   "Store times never go back, whatever the clock does.",
		Why:    "queues are searched by time as sorted ones, and retention goes by the last time of a segment",
		Source: "consumequeue-format.md 2.8; package store, Differences",
		Clock:  true,
		Own:    true,
		Check: func(t *T) {
			topic, c := t.Topic(""), t.Clock()
			first := t.Put(t.Message(topic, 0, "x")).StoreTimestamp
			c.Advance(-time.Hour)
			Equal(t, "the store time after the clock went back", t.Put(t.Message(topic, 0, "x")).StoreTimestamp, first)
			t.Settle(topic, 0, 2)
			at, err := t.Store().StoreTime(topic, 0, 1)
			if err != nil || at.UnixMilli() != first {
				t.Errorf("the stored store time is %d, %v; want %d", at.UnixMilli(), err, first)
			}
			c.Advance(2 * time.Hour)
			Equal(t, "the store time after the clock went on", t.Put(t.Message(topic, 0, "x")).StoreTimestamp, c.Now().UnixMilli())
		},
	},
	{
		ID:     "time-017",
		Says:   "Times are found across the ends of queue files: exact ones, gaps, and ties on both sides.",
		Why:    "the search chooses a file before it looks into it",
		Source: "consumequeue-format.md 2.8 step 1",
		Config: Config{QueueFileSize: 200}, // 10 units
		Clock:  true,
		Check: func(t *T) {
			topic := t.Topic("")
			times := t.putApart(topic, 35, 10*time.Millisecond)
			t.Settle(topic, 0, 35)
			for i, at := range times {
				for _, rule := range timeRules {
					t.byTime(topic, at, rule, int64(i))
				}
				t.byTime(topic, at-1, store.Lower, int64(i))
				t.byTime(topic, at+1, store.Upper, int64(i))
			}
		},
	},
	{
		ID:     "time-018",
		Says:   "Ties across the end of a queue file have their first and last, too.",
		Why:    "the first message of a time may be in the file before",
		Source: "consumequeue-format.md 2.8 [5.3.3]",
		Config: Config{QueueFileSize: 200}, // 10 units
		Clock:  true,
		Check: func(t *T) {
			t.Clock() // ties need one that stands still
			topic := t.Topic("")
			times := t.putApart(topic, 8, 10*time.Millisecond)
			t.Advance(10 * time.Millisecond)
			for range 15 { // 8 to 22, in three files
				times = append(times, t.Put(t.Message(topic, 0, "x")).StoreTimestamp)
			}
			times = append(times, t.putApart(topic, 3, 10*time.Millisecond)...)
			t.Settle(topic, 0, 26)
			t.byTime(topic, times[8], store.Lower, 8)
			t.byTime(topic, times[8], store.Upper, 22)
			t.byTime(topic, times[8]-1, store.Lower, 8)
			t.byTime(topic, times[8]-1, store.Upper, 7)
			t.byTime(topic, times[8]+1, store.Lower, 23)
			t.byTime(topic, times[8]+1, store.Upper, 22)
		},
	},
	{
		ID:     "time-019",
		Says:   "Times as early and late as there are find the queue's ends, and do not wrap round.",
		Why:    "0 and \"for ever\" are what people ask for",
		Source: "consumequeue-format.md 2.8",
		Clock:  true,
		Check: func(t *T) {
			topic := t.Topic("")
			t.putApart(topic, 3, time.Millisecond)
			t.Settle(topic, 0, 3)
			for _, at := range []time.Time{{}, time.Unix(-1<<40, 0), time.UnixMilli(-1 << 63)} {
				for _, rule := range timeRules {
					if got, err := t.Store().OffsetByTime(topic, 0, at, rule); err != nil || got != 0 {
						t.Errorf("%v by rule %d: offset %d, %v; want 0", at, rule, got, err)
					}
				}
			}
			for _, at := range []time.Time{time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), time.Unix(1<<40, 0), time.UnixMilli(1<<63 - 1)} {
				for rule, want := range map[store.TimeRule]int64{store.Nearest: 2, store.Lower: 3, store.Upper: 2} {
					if got, err := t.Store().OffsetByTime(topic, 0, at, rule); err != nil || got != want {
						t.Errorf("%v by rule %d: offset %d, %v; want %d", at, rule, got, err, want)
					}
				}
			}
		},
	},
	{
		ID:     "time-020",
		Says:   "What other queues got meanwhile does not count.",
		Why:    "the log has the messages of all queues, and a search in the log would find theirs",
		Source: "consumequeue-format.md 2.8",
		Clock:  true,
		Check: func(t *T) {
			topic, other := t.Topic(""), t.Topic("other")
			t.putApart(other, 2, 5*time.Millisecond)
			first := t.putApart(topic, 1, 5*time.Millisecond)[0]
			between := t.putApart(other, 3, 5*time.Millisecond)
			last := t.putApart(topic, 1, 5*time.Millisecond)[0]
			t.putApart(other, 2, 5*time.Millisecond)
			t.Settle(topic, 0, 2)
			for _, at := range between {
				t.byTime(topic, at, store.Lower, 1)
				t.byTime(topic, at, store.Upper, 0)
			}
			t.byTime(topic, first, store.Nearest, 0)
			t.byTime(topic, last, store.Nearest, 1)
			t.byTime(topic, last+1, store.Lower, 2)
		},
	},
	{
		ID:     "time-021",
		Says:   "A time finds the same as the store time of the message that it finds.",
		Why:    "a consumer that resets to a message's time gets that message, or one of the same time",
		Source: "consumequeue-format.md 2.8",
		Clock:  true,
		Check: func(t *T) {
			topic := t.Topic("")
			t.putApart(topic, 5, time.Millisecond)
			t.putApart(topic, 3, 0)
			t.putApart(topic, 5, 2*time.Millisecond)
			t.Settle(topic, 0, 13)
			for i := range int64(13) {
				at, err := t.Store().StoreTime(topic, 0, i)
				if err != nil {
					t.Fatalf("store time of message %d: %v", i, err)
				}
				for _, rule := range timeRules {
					found, err := t.Store().OffsetByTime(topic, 0, at, rule)
					if err != nil {
						t.Fatalf("%s: %v", ruleAt(at.UnixMilli(), rule), err)
					}
					if got, err := t.Store().StoreTime(topic, 0, found); err != nil || !got.Equal(at) {
						t.Errorf("%s finds message %d, which was stored at %d, %v", ruleAt(at.UnixMilli(), rule), found, got.UnixMilli(), err)
					}
				}
			}
		},
	},
}

// ties stores nine messages with the times a a a b c c c c c, and settles.
func (t *T) ties() (topic string, times []int64) {
	t.Clock() // one that stands still
	topic = t.Topic("")
	for _, n := range []int{3, 1, 5} {
		t.Advance(10 * time.Millisecond)
		for range n {
			times = append(times, t.Put(t.Message(topic, 0, "x")).StoreTimestamp)
		}
	}
	t.Settle(topic, 0, 9)
	return topic, times
}
