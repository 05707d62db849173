package conformance

import (
	"slices"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

func init() { register(delayLaws...) }

// cannot ends a law about stores that lack an ability where the store has it.
func cannot[A any](t *T, ability string) {
	if _, ok := t.Store().(A); ok {
		t.Skip("the store %s", ability)
	}
}

// levels is the delay table of a store that delivers delayed messages; others are skipped.
func levels(t *T) record.DelayTable {
	table, err := record.ParseDelayTable(need[Delayer](t).DelayLevels())
	if err != nil {
		t.Fatalf("the store's delay levels: %v", err)
	}
	return table
}

// codes are the tags codes of the messages of a queue.
func codes(t *T, topic string, queueID int32) []int64 {
	p := &probe{}
	t.Get(store.GetRequest{Topic: topic, QueueID: queueID, Offset: t.Store().MinOffset(topic, queueID), Filter: p})
	return p.codes
}

// delay fills in what laws about delayed messages have in common: they share a topic.
func delay(laws ...Law) []Law {
	for i := range laws {
		laws[i].Own = true
	}
	return laws
}

var delayLaws = delay(
	Law{
		ID:     "delay-001",
		Says:   "A store that does not deliver delayed messages refuses them with ErrUnsupported; nothing is stored, and no offset is used.",
		Why:    "stored as an ordinary message it would be consumed at once, and stored to wait it would wait for ever",
		Source: "store: differences",
		Check: func(t *T) {
			cannot[Delayer](t, "delivers delayed messages")
			topic := t.Topic("")
			t.Refuse("a delayed message", t.Message(topic, 0, "x", record.PropertyDelay, "3"), store.ErrUnsupported, "MESSAGE_ILLEGAL")
			Equal(t, "the log's end", t.Store().MaxPhyOffset(), 0)
			Equal(t, "the next message's queue offset", t.Put(t.Message(topic, 0, "x")).QueueOffset, 0)
		},
	},
	Law{
		ID:     "delay-002",
		Says:   "A DELAY of 0, less, or no number is none: the message is an ordinary one.",
		Why:    "clients set 0 for \"not delayed\"",
		Source: "commitlog-format.md 1.12",
		Check: func(t *T) {
			topic := t.Topic("")
			values := []string{"0", "-1", "soon", "99999999999"}
			for _, v := range values {
				t.Put(t.Message(topic, 0, "x", record.PropertyDelay, v))
			}
			t.Settle(topic, 0, int64(len(values)))
			for i, m := range t.Read(topic, 0, 0, len(values)) {
				t.Same("a message that is not delayed", m, t.Message(topic, 0, "x", record.PropertyDelay, values[i]))
			}
		},
	},
	Law{
		ID:     "delay-003",
		Says:   "A batch cannot be delayed: it is refused with MESSAGE_ILLEGAL.",
		Why:    "its messages would all have to be rewritten",
		Source: "commitlog-format.md 1.11",
		Check: func(t *T) {
			b := need[store.BatchPutter](t)
			m := t.Message(t.Topic(""), 0, "", record.PropertyDelay, "3")
			m.Body = nil
			_, err := b.PutBatch(t.Ctx(), m, []record.BatchItem{{Body: []byte("x")}})
			t.Refused("a delayed batch", err, store.ErrMessageIllegal, "MESSAGE_ILLEGAL")
			Equal(t, "the log's end", t.Store().MaxPhyOffset(), 0)
		},
	},
	Law{
		ID:     "delay-004",
		Says:   "A prepared message with DELAY is stored as it is: only what is to be consumed is delayed.",
		Why:    "the delay begins with the commit",
		Source: "commitlog-format.md 1.10",
		Check: func(t *T) {
			l := need[store.Looker](t)
			m := t.Message(t.Topic(""), 0, "x", record.PropertyDelay, "3")
			m.SysFlag = m.SysFlag.WithTransaction(record.TransactionPrepared)
			want := clone(m)
			got, err := l.Lookup(t.Put(m).PhyOffset)
			if err != nil {
				t.Fatalf("look the prepared message up: %v", err)
			}
			t.Same("the prepared message", got, want)
		},
	},
	Law{
		ID:     "delay-010",
		Says:   "A delayed message waits in the queue of its level, as SCHEDULE_TOPIC_XXXX queue level-1, and knows where it belongs: REAL_TOPIC, REAL_QID.",
		Why:    "it is there for a broker of RocketMQ to deliver that takes over the directory",
		Source: "commitlog-format.md 1.12",
		Tests:  []string{"ScheduleMessageServiceTest.otherTest"},
		Clock:  true,
		Check: func(t *T) {
			levels(t)
			topic := t.Topic("")
			for _, level := range []string{"2", "2", "5"} {
				t.Put(t.Message(topic, 3, "x", record.PropertyDelay, level))
			}
			t.Visible(record.TopicSchedule, 1, 2)
			t.Visible(record.TopicSchedule, 4, 1)
			for _, m := range append(t.Read(record.TopicSchedule, 1, 0, 2), t.Read(record.TopicSchedule, 4, 0, 1)...) {
				realTopic, _ := m.Properties.Get(record.PropertyRealTopic)
				realID, _ := m.Properties.Get(record.PropertyRealQueueID)
				Equal(t, "REAL_TOPIC", realTopic, topic)
				Equal(t, "REAL_QID", realID, "3")
				Equal(t, "the level that it waits with", m.Properties.DelayLevel(), int(m.QueueID)+1)
				Equal(t, "the body", string(m.Body), "x")
			}
		},
	},
	Law{
		ID:     "delay-011",
		Says:   "A delayed message is in its own queue when it is due, and not before, with the body and properties that the producer gave.",
		Why:    "that is what a delay is",
		Source: "commitlog-format.md 1.12",
		Tests:  []string{"ScheduleMessageServiceTest.deliverDelayedMessageTimerTaskTest"},
		Clock:  true,
		Check: func(t *T) {
			table, clock := levels(t), t.Clock()
			topic := t.Topic("")
			t.Put(t.Message(topic, 2, "x", "name", "value", record.PropertyKeys, "k", record.PropertyDelay, "1"))
			clock.Advance(table.Delay(1) - time.Millisecond)
			Equal(t, "the queue's end a millisecond before", t.Store().MaxOffset(topic, 2), 0)
			clock.Advance(time.Millisecond)
			t.Visible(topic, 2, 1)
			m := t.Get(store.GetRequest{Topic: topic, QueueID: 2})
			t.Answers("when it is due", m, store.Found, 1, 1)
			ms, err := m.Messages()
			if err != nil {
				t.Fatalf("records: %v", err)
			}
			value, _ := ms[0].Properties.Get("name")
			Equal(t, "a property", value, "value")
			Equal(t, "its keys", ms[0].Keys()[0], "k")
			Equal(t, "the body", string(ms[0].Body), "x")
		},
	},
	Law{
		ID:     "delay-012",
		Says:   "A level beyond the table is its last one.",
		Why:    "the table is the broker's, the level the client's",
		Source: "commitlog-format.md 1.12",
		Clock:  true,
		Check: func(t *T) {
			last := int32(len(levels(t)))
			t.Put(t.Message(t.Topic(""), 0, "x", record.PropertyDelay, "1000"))
			t.Visible(record.TopicSchedule, last-1, 1)
			t.Answers("the last level's queue", t.Get(store.GetRequest{Topic: record.TopicSchedule, QueueID: last - 1}), store.Found, 1, 1)
		},
	},
	Law{
		ID:     "delay-013",
		Says:   "Messages of one level are delivered in the order of their puts, each with a tags code by its tags again.",
		Why:    "while they wait the code is their time; consumers filter by tags",
		Source: "commitlog-format.md 1.8, 1.12",
		Clock:  true,
		Check: func(t *T) {
			table, clock := levels(t), t.Clock()
			topic := t.Topic("")
			for i, tag := range []string{"a", "b", "a"} {
				t.Put(t.Message(topic, 0, body(i), "TAGS", tag, record.PropertyDelay, "1"))
				clock.Advance(time.Millisecond)
			}
			clock.Advance(table.Delay(1))
			t.Visible(topic, 0, 3)
			for i, m := range t.Read(topic, 0, 0, 3) {
				Equal(t, "a body", string(m.Body), body(i))
			}
			t.Offsets("filter a", t.From(topic, 0, 0, store.TagFilter("a")), 0, 2)
		},
	},
)

// delayedRaw are about delayed messages of a master, on its slave: the slave builds their queues, whoever delivers them.
var delayedRaw = raw(
	Law{
		ID:     "delay-020",
		Says:   "In the queue of a level, a message's tags code is the time when it is due: its store time and the level's delay.",
		Why:    "the delivery service looks at units only, also that of a RocketMQ that takes over",
		Source: "commitlog-format.md 1.8, 1.12",
		Tests:  []string{"ScheduleMessageServiceTest.otherTest"},
		Check: func(t *T) {
			p := newTape(t, 0)
			var want []int64
			for _, tag := range []string{"a", ""} {
				m := t.Message(record.TopicSchedule, 2, "x", record.PropertyDelay, "3", record.PropertyRealTopic, "T", record.PropertyRealQueueID, "0")
				if tag != "" {
					m.Properties = m.Properties.With("TAGS", tag)
				}
				want = append(want, taped+p.add(m)+10_000)
			}
			p.play()
			t.Visible(record.TopicSchedule, 2, 2)
			if got := codes(t, record.TopicSchedule, 2); !slices.Equal(got, want) {
				t.Errorf("tags codes %v, want %v", got, want)
			}
		},
	},
	Law{
		ID:     "delay-021",
		Says:   "The due time of a level beyond the table is that of its last one.",
		Why:    "the master may have had a longer table",
		Source: "commitlog-format.md 1.12",
		Check: func(t *T) {
			p := newTape(t, 0)
			at := p.add(t.Message(record.TopicSchedule, 0, "x", record.PropertyDelay, "77"))
			p.play()
			t.Visible(record.TopicSchedule, 0, 1)
			if got, want := codes(t, record.TopicSchedule, 0), []int64{taped + at + 7_200_000}; !slices.Equal(got, want) {
				t.Errorf("tags codes %v, want %v", got, want)
			}
		},
	},
	Law{
		ID:     "delay-022",
		Says:   "A message of that topic without a level has the code of its tags.",
		Why:    "it waits for nothing",
		Source: "commitlog-format.md 1.8, 1.12",
		Check: func(t *T) {
			p := newTape(t, 0)
			p.add(t.Message(record.TopicSchedule, 0, "x", "TAGS", "a"))
			p.add(t.Message(record.TopicSchedule, 0, "x", "TAGS", "a", record.PropertyDelay, "0"))
			p.play()
			t.Visible(record.TopicSchedule, 0, 2)
			if got, want := codes(t, record.TopicSchedule, 0), []int64{record.TagsCode("a"), record.TagsCode("a")}; !slices.Equal(got, want) {
				t.Errorf("tags codes %v, want %v", got, want)
			}
		},
	},
	Law{
		ID:     "delay-023",
		Says:   "A delivered message, which still has its level, has the code of its tags.",
		Why:    "the original leaves DELAY in the stored properties, and consumers filter by tags",
		Source: "commitlog-format.md 1.12",
		Check: func(t *T) {
			topic := t.Topic("")
			p := newTape(t, 0)
			p.add(t.Message(topic, 0, "x", "TAGS", "a", record.PropertyDelay, "3", record.PropertyRealTopic, topic, record.PropertyRealQueueID, "0"))
			p.play()
			t.Visible(topic, 0, 1)
			t.Answers("filter a", t.From(topic, 0, 0, store.TagFilter("a")), store.Found, 1, 1)
			t.Answers("filter b", t.From(topic, 0, 0, store.TagFilter("b")), store.NoMatchedMessage, 1, 0)
		},
	},
)

func init() { register(delayedRaw...) }
