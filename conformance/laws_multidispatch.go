package conformance

import (
	"bytes"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

func init() {
	register(multiLaws...)
	register(multiRaw...)
}

var multiConfig = Config{MultiDispatch: true}

// multi is a message that asks for the queues that names says.
func multi(t *T, topic string, queueID int32, body, names string) *record.Message {
	return t.Message(topic, queueID, body, record.PropertyMultiDispatch, names)
}

var multiLaws = []Law{
	{
		ID:     "multidispatch-001",
		Says:   "A store that does not dispatch to several queues refuses such messages with ErrUnsupported, where it was asked to; nothing is stored, and no offset is used.",
		Why:    "stored in its own queue only, the message would be lost for the others in silence",
		Source: "store: differences",
		Config: multiConfig,
		Own:    true,
		Check: func(t *T) {
			cannot[MultiDispatcher](t, "dispatches to several queues")
			topic := t.Topic("")
			t.Refuse("a message for two queues", multi(t, topic, 0, "x", "%LMQ%a,%LMQ%b"), store.ErrUnsupported, "MESSAGE_ILLEGAL")
			Equal(t, "the log's end", t.Store().MaxPhyOffset(), 0)
			Equal(t, "the next message's queue offset", t.Put(t.Message(topic, 0, "x")).QueueOffset, 0)
		},
	},
	{
		ID:     "multidispatch-002",
		Says:   "Where it is not switched on, INNER_MULTI_DISPATCH is a property like any other.",
		Why:    "enableMultiDispatch is false by default",
		Source: "consumequeue-format.md 2.7",
		Check: func(t *T) {
			topic, other := t.Topic(""), "%LMQ%"+t.Topic("other")
			t.Put(multi(t, topic, 0, "x", other))
			t.Settle(topic, 0, 1)
			t.Same("the message", t.Read(topic, 0, 0, 1)[0], multi(t, topic, 0, "x", other))
			t.Answers("the queue that it names", t.From(other, 0, 0, nil), store.NoMessageInQueue, 0, 0)
		},
	},
	{
		ID:     "multidispatch-003",
		Says:   "A message for several queues is in its own and in each of those, each of which counts on its own.",
		Why:    "a light queue is a topic for one client, without a copy of the message",
		Source: "consumequeue-format.md 2.7",
		Tests:  []string{"ConsumeQueueTest.testPutMessagePositionInfoMultiQueue", "MultiDispatchTest.wrapMultiDispatch"},
		Config: multiConfig,
		Check: func(t *T) {
			need[MultiDispatcher](t)
			topic, a, b := t.Topic(""), "%LMQ%"+t.Topic("a"), "%LMQ%"+t.Topic("b")
			t.Put(t.Message(topic, 0, body(0)))
			both := t.Put(multi(t, topic, 0, body(1), a+","+b))
			onlyB := t.Put(multi(t, topic, 0, body(2), b))
			Equal(t, "the queue offset in its own queue", both.QueueOffset, 1)
			Equal(t, "the next queue offset in its own queue", onlyB.QueueOffset, 2)
			t.Visible(topic, 0, 3)
			t.Visible(a, 0, 1)
			t.Visible(b, 0, 2)
			for topic, want := range map[string][]int64{a: {both.PhyOffset}, b: {both.PhyOffset, onlyB.PhyOffset}} {
				g := t.From(topic, 0, 0, nil)
				t.Answers("a light queue", g, store.Found, int64(len(want)), len(want))
				for i, v := range g.Records {
					Equal(t, "a place", v.PhyOffset, want[i])
				}
			}
		},
	},
	{
		ID:     "multidispatch-004",
		Says:   "The record says which offset it has in each queue: INNER_MULTI_QUEUE_OFFSET, in the order of the names.",
		Why:    "slaves and recovery build the queues from it",
		Source: "consumequeue-format.md 2.7",
		Tests:  []string{"MultiDispatchTest.updateMultiQueueOffset"},
		Config: multiConfig,
		Check: func(t *T) {
			need[MultiDispatcher](t)
			topic, a, b := t.Topic(""), "%LMQ%"+t.Topic("a"), "%LMQ%"+t.Topic("b")
			t.Put(multi(t, topic, 0, body(0), a))
			t.Put(multi(t, topic, 0, body(1), a))
			t.Put(multi(t, topic, 0, body(2), b+","+a))
			t.Visible(topic, 0, 3)
			for i, m := range t.Read(topic, 0, 0, 3) {
				got, _ := m.Properties.Get(record.PropertyMultiQueueOffset)
				Equal(t, "the stored offsets", got, []string{"0", "1", "0,2"}[i])
			}
		},
	},
	{
		ID:     "multidispatch-005",
		Says:   "A light queue has id 0, whatever queue the message is put to; other names have the message's.",
		Why:    "a light queue is not divided",
		Source: "consumequeue-format.md 2.7",
		Tests:  []string{"MultiDispatchTest.queueKey"},
		Config: multiConfig,
		Check: func(t *T) {
			need[MultiDispatcher](t)
			topic, light, other := t.Topic(""), "%LMQ%"+t.Topic("light"), t.Topic("other")
			t.Put(multi(t, topic, 3, body(0), light+","+other))
			t.Visible(topic, 3, 1)
			t.Visible(light, 0, 1)
			t.Visible(other, 3, 1)
			Equal(t, "the end of the light queue's queue 3", t.Store().MaxOffset(light, 3), 0)
			Equal(t, "the end of the other one's queue 0", t.Store().MaxOffset(other, 0), 0)
		},
	},
	{
		ID:     "multidispatch-006",
		Says:   "A prepared message is in none of the queues that it names, and uses no offset there.",
		Why:    "it may be rolled back",
		Source: "consumequeue-format.md 2.7",
		Config: multiConfig,
		Check: func(t *T) {
			need[MultiDispatcher](t)
			topic, light := t.Topic(""), "%LMQ%"+t.Topic("light")
			half := multi(t, topic, 0, body(0), light)
			half.SysFlag = half.SysFlag.WithTransaction(record.TransactionPrepared)
			t.Put(half)
			r := t.Put(multi(t, topic, 0, body(1), light))
			t.Visible(light, 0, 1)
			Equal(t, "the light queue's end", t.Store().MaxOffset(light, 0), 1)
			Equal(t, "the place of its first message", t.From(light, 0, 0, nil).Records[0].PhyOffset, r.PhyOffset)
		},
	},
	{
		ID:     "multidispatch-007",
		Says:   "Light queues go on with their offsets after opening again.",
		Why:    "an offset that is used twice hides a message",
		Source: "consumequeue-format.md 2.10",
		Config: multiConfig,
		Own:    true,
		Check: func(t *T) {
			need[MultiDispatcher](t)
			need[Reopener](t)
			topic, light := t.Topic(""), "%LMQ%"+t.Topic("light")
			t.Put(multi(t, topic, 0, body(0), light))
			t.Put(multi(t, topic, 0, body(1), light))
			t.Visible(light, 0, 2)
			reopen(t)
			t.Put(multi(t, topic, 0, body(2), light))
			t.Visible(light, 0, 3)
			for i, m := range t.Read(light, 0, 0, 3) {
				Equal(t, "a body", string(m.Body), body(i))
			}
			got, _ := t.Read(light, 0, 2, 1)[0].Properties.Get(record.PropertyMultiQueueOffset)
			Equal(t, "the stored offset", got, "2")
		},
	},
}

var multiRawConfig = Config{Role: store.Slave, MultiDispatch: true, SegmentSize: smallSegment, QueueFileSize: 200}

// dispatched is a message as a master stored it: with the queues that it names, and its offsets there.
func dispatched(t *T, topic string, queueID int32, body, names, offsets string) *record.Message {
	return t.Message(topic, queueID, body, record.PropertyMultiDispatch, names, record.PropertyMultiQueueOffset, offsets)
}

var multiRaw = raw(
	Law{
		ID:     "multidispatch-020",
		Says:   "A stored message for several queues is in its own queue and in each of those, at the offsets that it has there: one record, byte for byte.",
		Why:    "a slave, and whoever opens a directory of RocketMQ, must show what the master showed",
		Source: "consumequeue-format.md 2.7",
		Tests:  []string{"ConsumeQueueTest.testPutMessagePositionInfoWrapper_MultiQueue"},
		Config: multiRawConfig,
		Check: func(t *T) {
			topic, a, b := t.Topic(""), "%LMQ%"+t.Topic("a"), "%LMQ%"+t.Topic("b")
			p := newTape(t, 0)
			p.add(t.Message(topic, 0, body(0)))
			at := p.add(dispatched(t, topic, 0, body(1), a+","+b, "0,0"))
			p.add(dispatched(t, topic, 0, body(2), b, "1"))
			p.play()
			t.Visible(topic, 0, 3)
			t.Visible(a, 0, 1)
			t.Visible(b, 0, 2)
			want := t.From(topic, 1, 1, nil).Records[0]
			for _, light := range []string{a, b} {
				g := t.From(light, 0, 1, nil)
				t.Answers("a light queue", g, store.Found, 1, 1)
				t.Offsets("a light queue", g, 0)
				Equal(t, "the record's place", g.Records[0].PhyOffset, at)
				Equal(t, "whether the bytes are the same", bytes.Equal(g.Records[0].Bytes, want.Bytes), true)
			}
			Equal(t, "the second body of b", string(t.Read(b, 0, 1, 1)[0].Body), body(2))
		},
	},
	Law{
		ID:     "multidispatch-021",
		Says:   "On the slave, too, a light queue has id 0, and other names have the message's.",
		Why:    "clients ask the slave for the queue that they asked the master for",
		Source: "consumequeue-format.md 2.7",
		Config: multiRawConfig,
		Check: func(t *T) {
			topic, light, other := t.Topic(""), "%LMQ%"+t.Topic("light"), t.Topic("other")
			p := newTape(t, 0)
			p.add(dispatched(t, topic, 3, body(0), light+","+other, "0,0"))
			p.play()
			t.Visible(topic, 3, 1)
			t.Visible(light, 0, 1)
			t.Visible(other, 3, 1)
			Equal(t, "the end of the light queue's queue 3", t.Store().MaxOffset(light, 3), 0)
			Equal(t, "the end of the other one's queue 0", t.Store().MaxOffset(other, 0), 0)
		},
	},
	Law{
		ID:     "multidispatch-022",
		Says:   "A message that has not as many offsets as names is in its own queue only.",
		Why:    "which offset belongs to which queue cannot be told",
		Source: "consumequeue-format.md 2.7 (4)",
		Config: multiRawConfig,
		Check: func(t *T) {
			topic, a, b := t.Topic(""), "%LMQ%"+t.Topic("a"), "%LMQ%"+t.Topic("b")
			p := newTape(t, 0)
			p.add(dispatched(t, topic, 0, body(0), a+","+b, "0"))
			p.add(t.Message(topic, 0, body(1), record.PropertyMultiDispatch, a))
			p.play()
			t.Visible(topic, 0, 2)
			Equal(t, "the end of a", t.Store().MaxOffset(a, 0), 0)
			Equal(t, "the end of b", t.Store().MaxOffset(b, 0), 0)
		},
	},
	Law{
		ID:     "multidispatch-023",
		Says:   "Filters by tags work in light queues.",
		Why:    "their units carry the tags code like any others",
		Source: "consumequeue-format.md 2.7 (4)",
		Config: multiRawConfig,
		Check: func(t *T) {
			topic, light := t.Topic(""), "%LMQ%"+t.Topic("light")
			p := newTape(t, 0)
			for i, tag := range []string{"a", "b", "a"} {
				m := dispatched(t, topic, 0, body(i), light, string(rune('0'+i)))
				m.Properties = m.Properties.With("TAGS", tag)
				p.add(m)
			}
			p.play()
			t.Visible(light, 0, 3)
			g := t.From(light, 0, 0, store.TagFilter("a"))
			t.Answers("filter a", g, store.Found, 3, 2)
			t.Offsets("filter a", g, 0, 2)
		},
	},
	Law{
		ID:     "multidispatch-024",
		Says:   "Where it is not switched on, stored messages are in their own queues only.",
		Why:    "enableMultiDispatch decides about dispatch, too",
		Source: "consumequeue-format.md 2.7 (4)",
		Check: func(t *T) {
			topic, light := t.Topic(""), "%LMQ%"+t.Topic("light")
			p := newTape(t, 0)
			p.add(dispatched(t, topic, 0, body(0), light, "0"))
			p.play()
			t.Visible(topic, 0, 1)
			Equal(t, "the end of the light queue", t.Store().MaxOffset(light, 0), 0)
		},
	},
	Law{
		ID:     "multidispatch-025",
		Says:   "A comma behind the last name or offset is nothing.",
		Why:    "lists are put together by programs; the original's split drops empty parts at the end",
		Source: "consumequeue-format.md 2.7",
		Config: multiRawConfig,
		Check: func(t *T) {
			topic, light := t.Topic(""), "%LMQ%"+t.Topic("light")
			p := newTape(t, 0)
			p.add(dispatched(t, topic, 0, body(0), light+",", "0,"))
			p.add(dispatched(t, topic, 0, body(1), light+",", "1"))
			p.play()
			t.Visible(light, 0, 2)
			t.Read(light, 0, 0, 2)
		},
	},
	Law{
		ID:     "multidispatch-026",
		Says:   "A prepared message of a master is in none of the queues that it names.",
		Why:    "it may be rolled back",
		Source: "consumequeue-format.md 2.7",
		Config: multiRawConfig,
		Check: func(t *T) {
			topic, light := t.Topic(""), "%LMQ%"+t.Topic("light")
			p := newTape(t, 0)
			m := dispatched(t, topic, 0, body(0), light, "0")
			m.SysFlag = m.SysFlag.WithTransaction(record.TransactionPrepared)
			p.add(m)
			p.add(t.Message(topic, 0, body(1)))
			p.play()
			t.Visible(topic, 0, 1)
			Equal(t, "the end of the light queue", t.Store().MaxOffset(light, 0), 0)
		},
	},
	Law{
		ID:     "multidispatch-027",
		Says:   "A light queue begins with the first offset that it is given.",
		Why:    "the master deleted what was before",
		Source: "consumequeue-format.md 2.3, 2.7",
		Config: multiRawConfig,
		Check: func(t *T) {
			topic, light := t.Topic(""), "%LMQ%"+t.Topic("light")
			p := newTape(t, 0)
			p.add(dispatched(t, topic, 0, body(0), light, "7"))
			p.play()
			t.Visible(light, 0, 8)
			Equal(t, "the minimum", t.Store().MinOffset(light, 0), 7)
			g := t.From(light, 7, 0, nil)
			t.Answers("from the minimum", g, store.Found, 8, 1)
			t.Offsets("from the minimum", g, 7)
		},
	},
)
