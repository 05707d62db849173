package conformance

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

func init() { register(recoveryLaws...) }

// stored is a message as it was put, and what the store answered.
type stored struct {
	m *record.Message
	r store.PutResult
}

// storeSome puts messages number from, from+1, … of a topic, n of them: in queues 0 and 1 in turn, of all sizes, each with the keys "all" and its body(i).
func storeSome(t *T, topic string, from, n int) []stored {
	var ss []stored
	for i := from; i < from+n; i++ {
		m := t.Message(topic, int32(i%2), fmt.Sprint(i, " ", strings.Repeat("b", i*37%700)), record.PropertyKeys, "all "+key(i))
		ss = append(ss, stored{clone(m), t.Put(m)})
		t.Advance(3 * time.Millisecond)
	}
	return ss
}

// key finds message i of storeSome.
func key(i int) string { return fmt.Sprint("key", i) }

// There reports a fault unless the queues of topic hold exactly ss: each where it was, as it was.
func (t *T) There(what, topic string, ss []stored) {
	next := map[int32]int64{}
	for _, s := range ss {
		next[s.m.QueueID] = s.r.QueueOffset + 1
	}
	for id, end := range next {
		t.Visible(topic, id, end)
		Equal(t, fmt.Sprintf("%s: the end of queue %d", what, id), t.Store().MaxOffset(topic, id), end)
	}
	for _, s := range ss {
		at := fmt.Sprintf("%s: message %d of queue %d", what, s.r.QueueOffset, s.m.QueueID)
		g := t.Get(store.GetRequest{Topic: topic, QueueID: s.m.QueueID, Offset: s.r.QueueOffset, MaxMessages: 1})
		ms, err := g.Messages()
		if g.Status != store.Found || err != nil || len(ms) != 1 {
			t.Errorf("%s: %v, %d records, %v", at, g.Status, len(ms), err)
			continue
		}
		t.Same(at, ms[0], s.m)
		Equal(t, at+": its place", g.Records[0].PhyOffset, s.r.PhyOffset)
		Equal(t, at+": its store time", ms[0].StoreTimestamp, s.r.StoreTimestamp)
	}
}

// reopen, crash and losePower do what happens to the store; the law goes on with what is opened then.
func reopen(t *T)    { t.Replace(need[Reopener](t).Reopen(t.Ctx())) }
func crash(t *T)     { t.Replace(need[Crasher](t).Crash(t.Ctx())) }
func losePower(t *T) { t.Replace(need[PowerLoser](t).LosePower(t.Ctx())) }

// goesOn puts one more message to each queue of topic, and reports a fault unless they get the offsets that come next.
func goesOn(t *T, topic string, ss []stored) []stored {
	last := ss[len(ss)-1].r
	for _, s := range storeSome(t, topic, len(ss), 2) {
		want := int64(0)
		for _, o := range ss {
			if o.m.QueueID == s.m.QueueID {
				want = o.r.QueueOffset + 1
			}
		}
		Equal(t, fmt.Sprintf("the next offset of queue %d", s.m.QueueID), s.r.QueueOffset, want)
		if s.r.PhyOffset < end(last) {
			t.Errorf("the next message lies at %d, but the last one ends at %d", s.r.PhyOffset, end(last))
		}
		last = s.r
		ss = append(ss, s)
	}
	return ss
}

// recovery fills in what laws of recovery have in common.
func recovery(laws ...Law) []Law {
	for i := range laws {
		laws[i].Config.SegmentSize, laws[i].Config.QueueFileSize, laws[i].Own, laws[i].Clock = smallSegment, 200, true, true
	}
	return laws
}

var recoveryLaws = recovery(
	Law{
		ID:     "recovery-001",
		Says:   "A store that is closed and opened again has every message, where it was and as it was.",
		Why:    "brokers are restarted",
		Source: "checkpoint-abort-recovery.md 4.5",
		Tests:  []string{"DefaultMessageStoreTest.testRecover"},
		Check: func(t *T) {
			need[Reopener](t)
			topic := t.Topic("")
			ss := storeSome(t, topic, 0, 30)
			end := t.Store().MaxPhyOffset()
			reopen(t)
			t.There("opened again", topic, ss)
			Equal(t, "the log's beginning", t.Store().MinPhyOffset(), 0)
			Equal(t, "the log's end", t.Store().MaxPhyOffset(), end)
		},
	},
	Law{
		ID:     "recovery-002",
		Says:   "Offsets of queues and log go on after opening again.",
		Why:    "an offset that is used twice hides a message",
		Source: "checkpoint-abort-recovery.md 4.8, consumequeue-format.md 2.10",
		Tests:  []string{"DefaultMessageStoreTest.testRecover"},
		Check: func(t *T) {
			need[Reopener](t)
			topic := t.Topic("")
			ss := storeSome(t, topic, 0, 12)
			for range 3 {
				reopen(t)
				ss = goesOn(t, topic, ss)
			}
			t.There("after three restarts", topic, ss)
		},
	},
	Law{
		ID:     "recovery-003",
		Says:   "Opening changes nothing: opened twice, a store is the same.",
		Why:    "an operator opens again and again when something is wrong; each time must not cost a message",
		Source: "checkpoint-abort-recovery.md 4.5",
		Check: func(t *T) {
			need[Reopener](t)
			topic := t.Topic("")
			storeSome(t, topic, 0, 12)
			t.Visible(topic, 0, 6)
			t.Visible(topic, 1, 6)
			bounds := func() string {
				s := t.Store()
				return fmt.Sprint(s.MinPhyOffset(), s.MaxPhyOffset(), s.MinOffset(topic, 0), s.MaxOffset(topic, 0), s.MinOffset(topic, 1), s.MaxOffset(topic, 1))
			}
			before := bounds()
			for range 3 {
				reopen(t)
				Equal(t, "bounds of log and queues", bounds(), before)
			}
		},
	},
	Law{
		ID:     "recovery-004",
		Says:   "Queries find after opening again what they found before.",
		Why:    "keys are asked for days later",
		Source: "index.md 3.6, reports 13",
		Check: func(t *T) {
			need[Reopener](t)
			need[store.Querier](t)
			topic := t.Topic("")
			ss := storeSome(t, topic, 0, 8)
			reopen(t)
			for i, s := range ss {
				t.Finds("opened again", of(topic, key(i)), s.r.PhyOffset)
			}
			ss = append(ss, storeSome(t, topic, 8, 1)...)
			t.Visible(topic, 0, 5)
			var all []int64
			for _, s := range ss {
				all = append(all, s.r.PhyOffset)
			}
			t.Finds("with one more", of(topic, "all"), all...)
		},
	},
	Law{
		ID:     "recovery-005",
		Says:   "Places, store times and offsets by time are after opening again what they were before.",
		Why:    "they are read from files that were mapped before",
		Source: "checkpoint-abort-recovery.md 4.5",
		Check: func(t *T) {
			need[Reopener](t)
			topic := t.Topic("")
			ss := storeSome(t, topic, 0, 12)
			reopen(t)
			t.Visible(topic, 0, 6)
			t.Visible(topic, 1, 6)
			for _, s := range ss {
				at, err := t.Store().PhyOffset(topic, s.m.QueueID, s.r.QueueOffset)
				stored, err2 := t.Store().StoreTime(topic, s.m.QueueID, s.r.QueueOffset)
				if err != nil || err2 != nil || at != s.r.PhyOffset || stored.UnixMilli() != s.r.StoreTimestamp {
					t.Errorf("message %d of queue %d: at %d, %v, stored %v, %v; want %d, %d", s.r.QueueOffset, s.m.QueueID, at, err, stored, err2, s.r.PhyOffset, s.r.StoreTimestamp)
				}
				// Without a clock of its own the store may have given several messages one time.
				got, err := t.Store().OffsetByTime(topic, s.m.QueueID, time.UnixMilli(s.r.StoreTimestamp), store.Lower)
				if first, err2 := t.Store().StoreTime(topic, s.m.QueueID, got); err != nil || err2 != nil || first.UnixMilli() != s.r.StoreTimestamp || got > s.r.QueueOffset {
					t.Errorf("the time of message %d of queue %d: offset %d, %v", s.r.QueueOffset, s.m.QueueID, got, err)
				}
			}
		},
	},
	Law{
		ID:     "recovery-006",
		Says:   "Prepared messages and rollbacks stay out of the queues after opening again, and can be looked up.",
		Why:    "a half message that became visible by a restart would be consumed without its transaction",
		Source: "checkpoint-abort-recovery.md 4.6, dispatch-and-read.md 5.2",
		Check: func(t *T) {
			need[Reopener](t)
			need[store.Looker](t)
			topic := t.Topic("")
			var half []store.PutResult
			for _, tx := range []record.Transaction{record.TransactionNone, record.TransactionPrepared, record.TransactionRollback, record.TransactionCommit, record.TransactionPrepared} {
				m := t.Message(topic, 0, "x")
				m.SysFlag = m.SysFlag.WithTransaction(tx)
				if r := t.Put(m); !tx.HasUnit() {
					half = append(half, r)
				}
			}
			t.Visible(topic, 0, 2)
			reopen(t)
			t.Visible(topic, 0, 2)
			Equal(t, "the queue's end", t.Store().MaxOffset(topic, 0), 2)
			l := need[store.Looker](t)
			for _, r := range half {
				if m, err := l.Lookup(r.PhyOffset); err != nil || m.SysFlag.Transaction().HasUnit() {
					t.Errorf("lookup of the prepared message or rollback at %d: %v, %v", r.PhyOffset, m, err)
				}
			}
			Equal(t, "the next queue offset", t.Put(t.Message(topic, 0, "x")).QueueOffset, 2)
		},
	},
	Law{
		ID:     "recovery-007",
		Says:   "A store without messages can be opened again, and begins at 0.",
		Why:    "a broker may be restarted before its first message",
		Source: "checkpoint-abort-recovery.md 4.5",
		Check: func(t *T) {
			reopen(t)
			reopen(t)
			topic := t.Topic("")
			t.Answers("an unknown topic", t.From(topic, 0, 0, nil), store.NoMessageInQueue, 0, 0)
			r := t.Put(t.Message(topic, 0, "x"))
			Equal(t, "the first message's place", r.PhyOffset, 0)
			Equal(t, "the first message's queue offset", r.QueueOffset, 0)
		},
	},
	Law{
		ID:     "recovery-008",
		Says:   "Store times do not go back over a restart, whatever the clock does.",
		Why:    "the search by time halves a queue: it needs times in order",
		Source: "commitlog-format.md 1.10, store.OffsetReader",
		Check: func(t *T) {
			need[Reopener](t)
			clock := t.Clock()
			topic := t.Topic("")
			r := t.Put(t.Message(topic, 0, "x"))
			t.Visible(topic, 0, 1)
			clock.Advance(-time.Hour)
			reopen(t)
			if again := t.Put(t.Message(topic, 0, "x")); again.StoreTimestamp < r.StoreTimestamp {
				t.Errorf("a message was stored at %d, the next one, by a clock that went back, at %d", r.StoreTimestamp, again.StoreTimestamp)
			}
		},
	},
	Law{
		ID:     "recovery-009",
		Says:   "Each record can be looked up by place and id after opening again.",
		Why:    "message ids are for ever",
		Source: "commitlog-format.md 1.9",
		Check: func(t *T) {
			need[Reopener](t)
			need[store.Looker](t)
			topic := t.Topic("")
			ss := storeSome(t, topic, 0, 12)
			reopen(t)
			l := need[store.Looker](t)
			for _, s := range ss {
				m, err := l.Lookup(s.r.PhyOffset)
				if err != nil {
					t.Fatalf("lookup at %d: %v", s.r.PhyOffset, err)
				}
				t.Same("looked up", m, s.m)
				if m, err = l.LookupID(s.r.MessageID()); err != nil || m.PhyOffset != s.r.PhyOffset {
					t.Errorf("lookup of %s: %v, %v", s.r.MessageID(), m, err)
				}
			}
		},
	},
	Law{
		ID:     "recovery-010",
		Says:   "A process that is killed loses nothing that it had answered, in any flush mode.",
		Why:    "what was written is the operating system's",
		Source: "store: what an answer means, checkpoint-abort-recovery.md 4.6",
		Check: func(t *T) {
			need[Crasher](t)
			topic := t.Topic("")
			ss := storeSome(t, topic, 0, 30)
			crash(t)
			t.There("after kill -9", topic, ss)
		},
	},
	Law{
		ID:     "recovery-011",
		Says:   "No offset is used twice after a process was killed.",
		Why:    "a consumer that had the first message never gets the second",
		Source: "reports 2, 11",
		Check: func(t *T) {
			need[Crasher](t)
			topic := t.Topic("")
			ss := storeSome(t, topic, 0, 12)
			for range 3 {
				crash(t)
				ss = goesOn(t, topic, ss)
			}
			t.There("after three crashes", topic, ss)
		},
	},
	Law{
		ID:     "recovery-012",
		Says:   "A process may be killed again right after it was opened, as often as it likes.",
		Why:    "a host that crashes often crashes again while it recovers",
		Source: "reports 2",
		Check: func(t *T) {
			need[Crasher](t)
			topic := t.Topic("")
			ss := storeSome(t, topic, 0, 20)
			for range 4 {
				crash(t)
			}
			t.There("after four crashes in a row", topic, ss)
			goesOn(t, topic, ss)
		},
	},
	Law{
		ID:     "recovery-013",
		Says:   "Queries find after a crash what is there.",
		Why:    "the original loses its newest index file then",
		Source: "reports 13",
		Check: func(t *T) {
			need[Crasher](t)
			need[store.Querier](t)
			topic := t.Topic("")
			ss := storeSome(t, topic, 0, 10)
			crash(t)
			for i, s := range ss {
				t.Finds("after a crash", of(topic, key(i)), s.r.PhyOffset)
			}
		},
	},
	Law{
		ID:     "recovery-014",
		Says:   "After a crash prepared messages are still out of the queues, and use no offsets.",
		Why:    "recovery dispatches the log again: what it skipped before it must skip now",
		Source: "checkpoint-abort-recovery.md 4.6",
		Check: func(t *T) {
			need[Crasher](t)
			topic := t.Topic("")
			for i := range 9 {
				m := t.Message(topic, 0, body(i))
				if i%3 == 1 {
					m.SysFlag = m.SysFlag.WithTransaction(record.TransactionPrepared)
				}
				t.Put(m)
			}
			crash(t)
			t.Visible(topic, 0, 6)
			Equal(t, "the queue's end", t.Store().MaxOffset(topic, 0), 6)
			var bodies []string
			for _, m := range t.Read(topic, 0, 0, 6) {
				bodies = append(bodies, string(m.Body))
			}
			Equal(t, "what the queue holds", strings.Join(bodies, ","), "body 0,body 2,body 3,body 5,body 6,body 8")
			Equal(t, "the next queue offset", t.Put(t.Message(topic, 0, "x")).QueueOffset, 6)
		},
	},
	Law{
		ID:     "recovery-015",
		Says:   "A batch is there as a whole after a process was killed.",
		Why:    "it was answered as one",
		Source: "commitlog-format.md 1.11",
		Check: func(t *T) {
			need[Crasher](t)
			topic := t.Topic("")
			var items []record.BatchItem
			for i := range 5 {
				items = append(items, record.BatchItem{Body: []byte(body(i))})
			}
			m := t.Message(topic, 0, "")
			m.Body = nil
			r, err := need[store.BatchPutter](t).PutBatch(t.Ctx(), m, items)
			if err != nil {
				t.Fatalf("put a batch: %v", err)
			}
			crash(t)
			t.Visible(topic, 0, 5)
			for i, m := range t.Read(topic, 0, 0, 5) {
				Equal(t, "a body", string(m.Body), body(i))
				Equal(t, "a place", m.PhyOffset, r.Offsets[i])
			}
		},
	},
	Law{
		ID:     "recovery-016",
		Says:   "What was deleted stays deleted after a crash, and an emptied queue keeps its next offset.",
		Why:    "the numbering of such a queue is in its files alone, since the log has no message of it any more",
		Source: "defects 2, 11",
		Check: func(t *T) {
			need[Crasher](t)
			need[Expirer](t)
			topic, old := t.Topic(""), t.Topic("old")
			t.Put(numbered(t, old, 0))
			for i := range 2 * perSegment {
				t.Put(numbered(t, topic, i))
			}
			t.Visible(old, 0, 1)
			t.Visible(topic, 0, 2*perSegment)
			expire(t, smallSegment, smallSegment)
			first := t.Store().MinOffset(topic, 0)
			crash(t)
			t.Visible(topic, 0, 2*perSegment)
			Equal(t, "the log's beginning", t.Store().MinPhyOffset(), smallSegment)
			Equal(t, "the minimum", t.Store().MinOffset(topic, 0), first)
			Equal(t, "the next offset of the emptied queue", t.Put(numbered(t, old, 1)).QueueOffset, 1)
		},
	},
	Law{
		ID:     "recovery-017",
		Says:   "A process may be killed before its first message.",
		Why:    "files are made ahead of messages, and are empty then",
		Source: "checkpoint-abort-recovery.md 4.6",
		Check: func(t *T) {
			crash(t)
			topic := t.Topic("")
			Equal(t, "the first message's place", t.Put(t.Message(topic, 0, "x")).PhyOffset, 0)
			crash(t)
			t.Visible(topic, 0, 1)
			Equal(t, "the next message's queue offset", t.Put(t.Message(topic, 0, "x")).QueueOffset, 1)
		},
	},
	Law{
		ID:     "recovery-020",
		Says:   "Where PutOK means on disk, a machine that loses power loses nothing that was answered so.",
		Why:    "it is what synchronous flush is paid for",
		Source: "store: what an answer means, reports 29, 30",
		Config: Config{SyncFlush: true},
		Check: func(t *T) {
			need[PowerLoser](t)
			topic := t.Topic("")
			ss := storeSome(t, topic, 0, 20)
			losePower(t)
			t.There("after a power loss", topic, ss)
			goesOn(t, topic, ss)
		},
	},
	Law{
		ID:     "recovery-021",
		Says:   "What was flushed survives a power loss.",
		Why:    "Flush is how a broker that acknowledges early makes sure",
		Source: "store.Admin",
		Check: func(t *T) {
			need[PowerLoser](t)
			topic := t.Topic("")
			ss := storeSome(t, topic, 0, 20)
			if _, err := need[store.Admin](t).Flush(); err != nil {
				t.Fatalf("flush: %v", err)
			}
			losePower(t)
			t.There("after a power loss", topic, ss)
		},
	},
	Law{
		ID:     "recovery-022",
		Says:   "What is left after a power loss is the log's beginning: messages are lost from its end on only, and what is left is whole.",
		Why:    "a gap, or half a record, would be in the queues for ever",
		Source: "reports 1, 23, 24",
		Check: func(t *T) {
			need[PowerLoser](t)
			topic := t.Topic("")
			var ss []stored
			for range 4 {
				ss = append(ss, storeSome(t, topic, len(ss), 8)...)
				losePower(t)
				ss = survivors(t, topic, ss)
			}
		},
	},
	Law{
		ID:     "recovery-023",
		Says:   "After a power loss queues and log go on behind what is left.",
		Why:    "a gap in a queue is waited for for ever, an offset that is given twice hides a message",
		Source: "reports 2, 5",
		Check: func(t *T) {
			need[PowerLoser](t)
			topic := t.Topic("")
			ss := storeSome(t, topic, 0, 8)
			if _, err := need[store.Admin](t).Flush(); err != nil {
				t.Fatalf("flush: %v", err)
			}
			for range 3 {
				ss = append(ss, storeSome(t, topic, len(ss), 8)...)
				losePower(t)
				ss = survivors(t, topic, ss)
				for id, next := range ends(ss) {
					Equal(t, fmt.Sprintf("the end of queue %d", id), t.Store().MaxOffset(topic, id), next)
					m := t.Message(topic, id, "next")
					r := t.Put(m)
					Equal(t, fmt.Sprintf("the next offset of queue %d", id), r.QueueOffset, next)
					ss = append(ss, stored{clone(m), r})
				}
			}
		},
	},
	Law{
		ID:     "recovery-024",
		Says:   "Where PutOK means on disk, a power loss takes back nothing that consumers could see, not even a message whose producer did not wait.",
		Why:    "its offset would be used again, and the consumer would never get the message that has it then",
		Source: "reports 12",
		Config: Config{SyncFlush: true},
		Check: func(t *T) {
			need[PowerLoser](t)
			topic := t.Topic("")
			for i := range 6 {
				t.Put(t.Message(topic, 0, body(i), record.PropertyWait, "false"))
				seen := t.Store().MaxOffset(topic, 0)
				if i%2 == 0 {
					continue
				}
				losePower(t)
				if now := t.Store().MaxOffset(topic, 0); now < seen {
					t.Errorf("consumers saw the queue up to %d; after a power loss it ends at %d", seen, now)
				}
			}
		},
	},
	Law{
		ID:     "recovery-025",
		Says:   "After a power loss queries find what is left, and nothing else.",
		Why:    "an index that got ahead of the log answers with places where other records lie then",
		Source: "index.md 3.7",
		Check: func(t *T) {
			need[PowerLoser](t)
			need[store.Querier](t)
			topic := t.Topic("")
			var ss []stored
			for range 3 {
				ss = append(ss, storeSome(t, topic, len(ss), 6)...)
				losePower(t)
				ss = survivors(t, topic, ss)
				var all []int64
				for _, s := range ss {
					all = append(all, s.r.PhyOffset)
				}
				t.Finds("after a power loss", of(topic, "all"), all...)
			}
		},
	},
	Law{
		ID:     "recovery-026",
		Says:   "A store that was closed has everything on disk: a power loss afterwards takes nothing.",
		Why:    "a host is switched off after its broker was stopped",
		Source: "checkpoint-abort-recovery.md 4.9",
		Check: func(t *T) {
			need[PowerLoser](t)
			need[Reopener](t)
			topic := t.Topic("")
			ss := storeSome(t, topic, 0, 20)
			reopen(t)
			losePower(t)
			t.There("after a power loss", topic, ss)
		},
	},
	Law{
		ID:     "recovery-027",
		Says:   "A power loss does not bring back what was deleted.",
		Why:    "a log that begins earlier than consumers were told gives them old messages again",
		Source: "reports 1",
		Check: func(t *T) {
			need[PowerLoser](t)
			topic := t.Topic("")
			segments(t, topic, 3)
			expire(t, 2*smallSegment, 2*smallSegment)
			losePower(t)
			if got := t.Store().MinPhyOffset(); got != 2*smallSegment {
				t.Errorf("the log begins at %d, it began at %d", got, 2*smallSegment)
			}
			if got := t.Store().MinOffset(topic, 0); got < 2*perSegment {
				t.Errorf("the queue begins at %d, it began at %d", got, 2*perSegment)
			}
		},
	},
	Law{
		ID:     "recovery-028",
		Says:   "The machine may lose power again and again: each time nothing more is lost than what was not on disk.",
		Why:    "recovery writes, too, and what it wrote may be lost",
		Source: "reports 1, 2",
		Config: Config{SyncFlush: true},
		Check: func(t *T) {
			need[PowerLoser](t)
			topic := t.Topic("")
			var ss []stored
			for range 3 {
				ss = append(ss, storeSome(t, topic, len(ss), 6)...)
				losePower(t)
				losePower(t)
			}
			t.There("after six power losses", topic, ss)
		},
	},
)

// ends are one past the last queue offset of ss, by queue.
func ends(ss []stored) map[int32]int64 {
	next := map[int32]int64{0: 0, 1: 0}
	for _, s := range ss {
		next[s.m.QueueID] = s.r.QueueOffset + 1
	}
	return next
}

// survivors are those of ss, in order of the log, that are still there. It reports a fault if one is lost that has a survivor behind it, and for what is there and was not put.
func survivors(t *T, topic string, ss []stored) []stored {
	n := 0
	for ; n < len(ss); n++ {
		s := ss[n]
		if s.r.PhyOffset >= t.Store().MaxPhyOffset() || t.Store().MaxOffset(topic, s.m.QueueID) <= s.r.QueueOffset {
			break
		}
	}
	for id, next := range ends(ss[:n]) {
		if got := t.Store().MaxOffset(topic, id); got != next {
			t.Errorf("queue %d ends at %d; of the messages that were put, in order, those up to %d are left", id, got, next)
		}
	}
	if n > 0 {
		t.There("after a power loss", topic, ss[:n])
	}
	if l, ok := t.Store().(store.Looker); ok {
		for _, s := range ss[n:] {
			if m, err := l.Lookup(s.r.PhyOffset); err == nil || !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrNotARecord) {
				t.Errorf("lookup of a lost record at %d: %v, %v", s.r.PhyOffset, m, err)
			}
		}
	}
	return ss[:n:n]
}
