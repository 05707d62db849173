package conformance

import (
	"errors"

	"github.com/mqstore/mqstore/store"
)

func init() { register(offsetLaws...) }

var offsetLaws = []Law{
	{
		ID:     "offset-001",
		Says:   "An unknown queue begins and ends at 0.",
		Why:    "consumers ask before the first message is there, and begin where they are told",
		Source: "dispatch-and-read.md 5.4",
		Check: func(t *T) {
			for _, id := range []int32{0, 1, -1, 1<<31 - 1} {
				Equal(t, "the beginning of an unknown queue", t.Store().MinOffset(t.Topic(""), id), 0)
				Equal(t, "the end of an unknown queue", t.Store().MaxOffset(t.Topic(""), id), 0)
			}
		},
	},
	{
		ID:     "offset-002",
		Says:   "A queue of n messages begins at 0 and ends at n.",
		Why:    "lag is counted by it, and consumers begin by it",
		Source: "dispatch-and-read.md 5.4",
		Tests:  []string{"DefaultMessageStoreTest.testMaxOffset"},
		Check: func(t *T) {
			topic := t.Topic("")
			for i := range int64(4) {
				t.Put(t.Message(topic, 5, "x"))
				t.Settle(topic, 5, i+1)
				Equal(t, "the queue's beginning", t.Store().MinOffset(topic, 5), 0)
				Equal(t, "the queue's end", t.Store().MaxOffset(topic, 5), i+1)
			}
		},
	},
	{
		ID:     "offset-003",
		Says:   "The queues of a topic have ends of their own.",
		Why:    "a consumer has some of the queues",
		Source: "dispatch-and-read.md 5.4",
		Check: func(t *T) {
			topic := t.Topic("")
			for id := range int32(4) {
				t.PutN(topic, id, int(id)+1)
				t.Visible(topic, id, int64(id)+1)
			}
			t.Settle(topic, 0, 1)
			for id := range int32(4) {
				Equal(t, "a queue's end", t.Store().MaxOffset(topic, id), int64(id)+1)
			}
			Equal(t, "the end of a queue that got nothing", t.Store().MaxOffset(topic, 4), 0)
		},
	},
	{
		ID:     "offset-004",
		Says:   "The place of each message is the one that its put was answered with.",
		Why:    "brokers look up messages by queue and offset",
		Source: "dispatch-and-read.md 5.4",
		Tests:  []string{"BatchPutMessageTest.testPutMessages"},
		Check: func(t *T) {
			topic := t.Topic("")
			rs := t.PutN(topic, 0, 5)
			t.Settle(topic, 0, 5)
			for i, r := range rs {
				at, err := t.Store().PhyOffset(topic, 0, int64(i))
				if err != nil || at != r.PhyOffset {
					t.Errorf("message %d lies at %d, %v; put at %d", i, at, err, r.PhyOffset)
				}
			}
		},
	},
	{
		ID:     "offset-005",
		Says:   "Before a queue's beginning, at its end, beyond, and in an unknown queue is no message: ErrNotFound.",
		Why:    "the original answers 0, which is the place of the first message of the log",
		Source: "dispatch-and-read.md 5.4",
		Check: func(t *T) {
			topic := t.Topic("")
			t.PutN(topic, 0, 3)
			t.Settle(topic, 0, 3)
			for _, i := range []int64{-1, 3, 4, 1 << 40, -1 << 63, 1<<63 - 1} {
				if at, err := t.Store().PhyOffset(topic, 0, i); !errors.Is(err, store.ErrNotFound) {
					t.Errorf("message %d of 3 lies at %d, %v; want %v", i, at, err, store.ErrNotFound)
				}
			}
			if at, err := t.Store().PhyOffset(topic, 1, 0); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("message 0 of an unknown queue lies at %d, %v; want %v", at, err, store.ErrNotFound)
			}
		},
	},
	{
		ID:     "offset-006",
		Says:   "An empty log begins at -1 and ends at 0.",
		Why:    "a slave asks its own log where it ends, and gets everything from there; a beginning of 0 would promise a record",
		Source: "dispatch-and-read.md 5.4",
		Own:    true,
		Check: func(t *T) {
			Equal(t, "the beginning of an empty log", t.Store().MinPhyOffset(), -1)
			Equal(t, "the end of an empty log", t.Store().MaxPhyOffset(), 0)
		},
	},
	{
		ID:     "offset-007",
		Says:   "The log begins at 0 and ends behind its last record.",
		Why:    "slaves copy what lies between",
		Source: "dispatch-and-read.md 5.4",
		Own:    true,
		Check: func(t *T) {
			topic := t.Topic("")
			r := t.Put(t.Message(topic, 0, "x"))
			Equal(t, "the first record's place", r.PhyOffset, 0)
			Equal(t, "the log's end", t.Store().MaxPhyOffset(), end(r))
			r = t.Put(t.Message(topic, 0, "y"))
			Equal(t, "the second record's place", r.PhyOffset, int64(r.Size))
			t.Settle(topic, 0, 2)
			Equal(t, "the log's beginning", t.Store().MinPhyOffset(), 0)
			Equal(t, "the log's end", t.Store().MaxPhyOffset(), end(r))
		},
	},
	{
		ID:     "offset-008",
		Says:   "The blank of a segment counts: places go on at the next segment's beginning.",
		Why:    "a place is a byte position in files of one size",
		Source: "commitlog-format.md 1.11",
		Config: smallSegments,
		Own:    true,
		Check: func(t *T) {
			topic := t.Topic("")
			r := t.Put(t.Sized(topic, 0, 5000))
			Equal(t, "the log's end", t.Store().MaxPhyOffset(), 5000)
			r = t.Put(t.Sized(topic, 0, 5000))
			Equal(t, "the second record's place", r.PhyOffset, 8192)
			t.Settle(topic, 0, 2)
			Equal(t, "the log's end", t.Store().MaxPhyOffset(), 8192+5000)
			Equal(t, "the log's beginning", t.Store().MinPhyOffset(), 0)
		},
	},
	{
		ID:     "offset-009",
		Says:   "To ask about a queue does not make it.",
		Why:    "the original creates a directory and a file for each queue that anybody asks about",
		Source: "package store, Differences",
		Check: func(t *T) {
			topic, after := t.Topic(""), t.Topic("after")
			t.Get(store.GetRequest{Topic: topic})
			t.Store().MaxOffset(topic, 0)
			t.Store().MinOffset(topic, 0)
			_, _ = t.Store().OffsetByTime(topic, 0, t.Now(), store.Nearest)
			_, _ = t.Store().StoreTime(topic, 0, 0)
			t.Put(t.Message(after, 0, "x"))
			t.Settle(after, 0, 1)
			found := false
			for _, q := range need[store.Scanner](t).Queues() {
				if q.Topic == topic {
					t.Errorf("there is a queue %s/%d now", q.Topic, q.QueueID)
				}
				found = found || q.Topic == after
			}
			Equal(t, "that the queue that was put to is listed", found, true)
		},
	},
	{
		ID:     "offset-010",
		Says:   "A refused put does not make a queue.",
		Why:    "clients with wrong settings would leave queues behind for ever",
		Source: "commitlog-format.md 1.10",
		Check: func(t *T) {
			topic, after := t.Topic(""), t.Topic("after")
			t.Illegal("a zero byte in the properties", t.Message(topic, 0, "x", "k", "\x00"))
			t.Put(t.Message(after, 0, "x"))
			t.Settle(after, 0, 1)
			Equal(t, "the end of a queue that got nothing", t.Store().MaxOffset(topic, 0), 0)
			for _, q := range need[store.Scanner](t).Queues() {
				if q.Topic == topic {
					t.Errorf("there is a queue %s/%d now", q.Topic, q.QueueID)
				}
			}
		},
	},
	{
		ID:     "offset-011",
		Says:   "Places rise with queue offsets.",
		Why:    "recovery, retention and the search by time all look through a queue for a place",
		Source: "consumequeue-format.md 2.5; reports 2",
		Config: smallSegments,
		Check: func(t *T) {
			topic := t.Topic("")
			for i := range 40 {
				t.Put(t.Sized(topic, 0, 200+i*70%1000))
				t.Put(t.Sized(t.Topic("other"), 0, 200))
			}
			t.Settle(topic, 0, 40)
			last := int64(-1)
			for i := range int64(40) {
				at, err := t.Store().PhyOffset(topic, 0, i)
				if err != nil || at <= last {
					t.Errorf("message %d lies at %d, %v; the one before it at %d", i, at, err, last)
				}
				last = at
			}
		},
	},
	{
		ID:     "offset-012",
		Says:   "The list of queues has each queue once, sorted by topic and id, with its bounds in queue and log.",
		Why:    "consoles and backups walk it",
		Source: "package store, Scanner",
		Check: func(t *T) {
			topic := t.Topic("")
			t.PutN(topic, 1, 2)
			rs := t.PutN(topic, 0, 3)
			t.Visible(topic, 1, 2)
			t.Settle(topic, 0, 3)
			var mine []store.QueueInfo
			last := store.QueueInfo{}
			for _, q := range need[store.Scanner](t).Queues() {
				if q.Topic < last.Topic || q.Topic == last.Topic && q.QueueID <= last.QueueID && last.Topic != "" {
					t.Errorf("%s/%d comes behind %s/%d", q.Topic, q.QueueID, last.Topic, last.QueueID)
				}
				if last = q; q.Topic == topic {
					mine = append(mine, q)
				}
			}
			if len(mine) != 2 {
				t.Fatalf("%d queues of %s are listed, want 2", len(mine), topic)
			}
			Equal(t, "queue 0", mine[0], store.QueueInfo{Topic: topic, QueueID: 0, MaxOffset: 3, Units: 3, MinPhyOffset: rs[0].PhyOffset, MaxPhyOffset: end(rs[2])})
			Equal(t, "the units of queue 1", mine[1].Units, 2)
		},
	},
	{
		ID:     "offset-013",
		Says:   "A walk through a queue meets each message once, in order, from where it begins to the end.",
		Why:    "it is for people who want all of them",
		Source: "package store, Scanner",
		Check: func(t *T) {
			topic := t.Topic("")
			rs := t.PutN(topic, 0, 12)
			t.Settle(topic, 0, 12)
			for _, from := range []int64{-5, 0, 7, 11, 12, 100} {
				next := max(from, 0)
				for m, err := range need[store.Scanner](t).Scan(t.ctx, topic, 0, from) {
					if err != nil {
						t.Fatalf("scan from %d: %v", from, err)
					}
					if m.QueueOffset != next || next < 12 && m.PhyOffset != rs[next].PhyOffset {
						t.Errorf("scan from %d: offset %d at %d, want offset %d", from, m.QueueOffset, m.PhyOffset, next)
					}
					next++
				}
				Equal(t, "where the walk ends", next, max(12, from))
			}
		},
	},
	{
		ID:     "offset-014",
		Says:   "A walk through the log meets each record that begins in the range, also those that are in no queue, and passes over blanks.",
		Why:    "exports and checks go through the log, whatever the queues say",
		Source: "package store, Scanner",
		Config: smallSegments,
		Check: func(t *T) {
			topic := t.Topic("")
			var want []int64
			for i := range 15 {
				m := t.Sized(topic, 0, 1500)
				if i%5 == 0 {
					m.SysFlag = 4 // prepared
				}
				want = append(want, t.Put(m).PhyOffset)
			}
			t.Settle(topic, 0, 12)
			i := 2
			for m, err := range need[store.Scanner](t).ScanLog(t.ctx, want[2], want[13]) {
				if err != nil {
					t.Fatalf("scan: %v", err)
				}
				if i >= 13 || m.PhyOffset != want[i] {
					t.Errorf("record %d lies at %d, want %d", i, m.PhyOffset, want[min(i, 13)])
				}
				i++
			}
			Equal(t, "the first record that was not met", i, 13)
		},
	},
}
