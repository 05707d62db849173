package conformance

import (
	"errors"
	"math"
	"strings"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

func init() { register(retentionLaws...) }

const (
	smallSegment  = 4096
	perSegment    = 4 // records of segmentRecord bytes in a small segment
	segmentRecord = 1000
)

// retained is what laws of retention need: four messages in a segment, ten units in a queue file.
var retained = Config{SegmentSize: smallSegment, QueueFileSize: 200}

// numbered is a message of segmentRecord bytes that is the n-th of its queue and can be found by the keys "all" and n.
func numbered(t *T, topic string, n int) *record.Message {
	m := t.Message(topic, 0, "", record.PropertyKeys, "all "+body(n))
	size, err := m.EncodedSize(record.Limits{})
	if err != nil {
		t.Fatalf("the law asks for a message that cannot be: %v", err)
	}
	m.Body = []byte(strings.Repeat("b", segmentRecord-size))
	return m
}

// segments puts n segments full of messages into queue 0 of topic: of the records that are returned those from perSegment*i on lie in segment i. The store must be new.
func segments(t *T, topic string, n int) []store.PutResult {
	need[Expirer](t)
	var rs []store.PutResult
	for i := range perSegment * n {
		rs = append(rs, t.Put(numbered(t, topic, i)))
		t.Advance(10 * time.Millisecond)
	}
	Equal(t, "the law's own arithmetic: the last message's segment", rs[len(rs)-1].PhyOffset/smallSegment, int64(n-1))
	t.Visible(topic, 0, int64(len(rs)))
	return rs
}

// expire deletes the segments below phyOffset, and reports a fault unless the log begins at want then.
func expire(t *T, phyOffset, want int64) {
	got, err := need[Expirer](t).Expire(t.Ctx(), phyOffset)
	if err != nil {
		t.Fatalf("expire to %d: %v", phyOffset, err)
	}
	if got != want || t.Store().MinPhyOffset() != want {
		t.Fatalf("expired to %d: the log begins at %d (MinPhyOffset %d), want %d", phyOffset, got, t.Store().MinPhyOffset(), want)
	}
}

// retention fills in what laws of retention have in common.
func retention(laws ...Law) []Law {
	for i := range laws {
		laws[i].Config, laws[i].Own, laws[i].Clock = retained, true, true
	}
	return laws
}

var retentionLaws = retention(
	Law{
		ID:     "retention-001",
		Says:   "Whole segments go: those that end at or below the offset, and the log begins at the next one.",
		Why:    "a segment is a file; half of one cannot be deleted, and a log that begins inside of one could not be read",
		Source: "dispatch-and-read.md 5.7",
		Tests:  []string{"DefaultMessageStoreCleanFilesTest.testDeleteExpiredFilesByTimeUp", "MappedFileQueueTest.testDeleteExpiredFileByOffset"},
		Check: func(t *T) {
			segments(t, t.Topic(""), 4)
			expire(t, smallSegment-1, 0)
			expire(t, smallSegment, smallSegment)
			expire(t, 3*smallSegment-1, 2*smallSegment)
		},
	},
	Law{
		ID:     "retention-002",
		Says:   "The last segment is never deleted.",
		Why:    "it is written to, and it has the offsets that come next",
		Source: "dispatch-and-read.md 5.7",
		Tests:  []string{"MappedFileQueueTest.testDeleteExpiredFileByTime"},
		Check: func(t *T) {
			topic := t.Topic("")
			segments(t, topic, 3)
			expire(t, math.MaxInt64, 2*smallSegment)
			t.Read(topic, 0, 2*perSegment, perSegment)
		},
	},
	Law{
		ID:     "retention-003",
		Says:   "A queue's minimum moves to its first message that is held, its maximum stays.",
		Why:    "consumers below the minimum are sent there; offsets are for ever",
		Source: "consumequeue-format.md 2.5",
		Tests:  []string{"ConsumeQueueTest.testCorrectMinOffset"},
		Check: func(t *T) {
			topic := t.Topic("")
			segments(t, topic, 4)
			for n := int64(1); n < 4; n++ {
				expire(t, n*smallSegment, n*smallSegment)
				Equal(t, "the minimum", t.Store().MinOffset(topic, 0), n*perSegment)
				Equal(t, "the maximum", t.Store().MaxOffset(topic, 0), 4*perSegment)
			}
		},
	},
	Law{
		ID:     "retention-004",
		Says:   "A get below the minimum is OFFSET_TOO_SMALL, and sends the consumer to the minimum.",
		Why:    "a consumer that was away for too long must get on",
		Source: "dispatch-and-read.md 5.3",
		Check: func(t *T) {
			topic := t.Topic("")
			segments(t, topic, 4)
			expire(t, 3*smallSegment, 3*smallSegment)
			for _, offset := range []int64{0, 1, 9, 10, 11} {
				g := t.From(topic, offset, 0, nil)
				t.Answers("below the minimum", g, store.OffsetTooSmall, 12, 0)
				Equal(t, "the minimum", g.MinOffset, 12)
			}
			t.Answers("at the minimum", t.From(topic, 12, 0, nil), store.Found, 16, 4)
		},
	},
	Law{
		ID:     "retention-005",
		Says:   "Beyond the end a get sends the consumer to the end, also when the queue does not begin at 0.",
		Why:    "older stores sent such consumers to the minimum, and everything held was consumed again",
		Source: "reports 17",
		Check: func(t *T) {
			topic := t.Topic("")
			segments(t, topic, 3)
			expire(t, 2*smallSegment, 2*smallSegment)
			t.Answers("far beyond the end", t.From(topic, 112, 0, nil), store.OffsetOverflowBadly, 12, 0)
			t.Answers("at the end", t.From(topic, 12, 0, nil), store.OffsetOverflowOne, 12, 0)
		},
	},
	Law{
		ID:     "retention-006",
		Says:   "Place and store time of a message that was deleted are not found.",
		Why:    "the place would be that of another message, or of none",
		Source: "dispatch-and-read.md 5.4",
		Tests:  []string{"DefaultMessageStoreTest.testGetStoreTime_PhyOffsetIsLessThanCommitLogMinOffset"},
		Check: func(t *T) {
			topic := t.Topic("")
			rs := segments(t, topic, 3)
			expire(t, 2*smallSegment, 2*smallSegment)
			for i := range int64(12) {
				at, err := t.Store().PhyOffset(topic, 0, i)
				stored, err2 := t.Store().StoreTime(topic, 0, i)
				switch held := i >= 8; {
				case held && (err != nil || err2 != nil || at != rs[i].PhyOffset || stored.UnixMilli() != rs[i].StoreTimestamp):
					t.Errorf("message %d is held: at %d, %v, stored %v, %v", i, at, err, stored, err2)
				case !held && (!errors.Is(err, store.ErrNotFound) || !errors.Is(err2, store.ErrNotFound)):
					t.Errorf("message %d is deleted: at %d, %v, stored %v, %v", i, at, err, stored, err2)
				}
			}
		},
	},
	Law{
		ID:     "retention-007",
		Says:   "The earliest store time of a queue is that of its first message held.",
		Why:    "consoles show how far back a topic goes",
		Source: "dispatch-and-read.md 5.4",
		Check: func(t *T) {
			topic := t.Topic("")
			rs := segments(t, topic, 3)
			for n := range int64(3) {
				expire(t, n*smallSegment, n*smallSegment)
				at, err := t.Store().EarliestStoreTime(topic, 0)
				if err != nil || at.UnixMilli() != rs[n*perSegment].StoreTimestamp {
					t.Errorf("the earliest message is of %v, %v; want %v", at, err, time.UnixMilli(rs[n*perSegment].StoreTimestamp))
				}
			}
		},
	},
	Law{
		ID:     "retention-008",
		Says:   "A lookup below the log's beginning is ErrNotFound, and one at 0 finds the first record that is held.",
		Why:    "the original finds the log's first file by offset 0, whatever it is named",
		Source: "dispatch-and-read.md 5.4, commitlog-format.md 1.1",
		Tests:  []string{"MappedFileQueueTest.testFindMappedFileByOffset_StartOffsetIsNonZero"},
		Check: func(t *T) {
			l := need[store.Looker](t)
			rs := segments(t, t.Topic(""), 3)
			expire(t, smallSegment, smallSegment)
			for _, r := range rs[1:perSegment] {
				if m, err := l.Lookup(r.PhyOffset); !errors.Is(err, store.ErrNotFound) {
					t.Errorf("lookup of the deleted record at %d: %v, %v", r.PhyOffset, m, err)
				}
			}
			if m, err := l.Lookup(0); err != nil || m.PhyOffset != smallSegment {
				t.Errorf("lookup at 0: %v, %v; want the record at %d", m, err, smallSegment)
			}
		},
	},
	Law{
		ID:     "retention-009",
		Says:   "The id of a message that was deleted is ErrNotFound.",
		Why:    "the place in it is nobody's any more",
		Source: "dispatch-and-read.md 5.4",
		Check: func(t *T) {
			l := need[store.Looker](t)
			rs := segments(t, t.Topic(""), 2)
			expire(t, smallSegment, smallSegment)
			if m, err := l.LookupID(rs[1].MessageID()); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("lookup of a deleted message by its id: %v, %v", m, err)
			}
			if m, err := l.LookupID(rs[5].MessageID()); err != nil || m.PhyOffset != rs[5].PhyOffset {
				t.Errorf("lookup of a message that is held by its id: %v, %v", m, err)
			}
		},
	},
	Law{
		ID:     "retention-010",
		Says:   "A query does not find what was deleted, and still finds the rest.",
		Why:    "an index that outlives its records answers with places that are gone",
		Source: "index.md 3.6, 3.7",
		Check: func(t *T) {
			need[store.Querier](t)
			topic := t.Topic("")
			rs := segments(t, topic, 3)
			t.Indexed()
			expire(t, 2*smallSegment, 2*smallSegment)
			t.Finds("the key of all", of(topic, "all"), rs[8].PhyOffset, rs[9].PhyOffset, rs[10].PhyOffset, rs[11].PhyOffset)
			t.Finds("the key of a deleted one", of(topic, "3"))
		},
	},
	Law{
		ID:     "retention-011",
		Says:   "A time before the first message that is held finds the minimum, by each rule.",
		Why:    "\"consume from last week\" begins at what there is",
		Source: "consumequeue-format.md 2.8",
		Check: func(t *T) {
			topic := t.Topic("")
			rs := segments(t, topic, 3)
			expire(t, smallSegment, smallSegment)
			for _, rule := range []store.TimeRule{store.Nearest, store.Lower, store.Upper} {
				for _, r := range rs[:4] {
					if got, err := t.Store().OffsetByTime(topic, 0, time.UnixMilli(r.StoreTimestamp), rule); got != 4 || err != nil {
						t.Errorf("the time of deleted message %d by rule %d: %d, %v; want the minimum 4", r.QueueOffset, rule, got, err)
					}
				}
			}
		},
	},
	Law{
		ID:     "retention-012",
		Says:   "A time within what is held finds what it found before.",
		Why:    "the search begins at the minimum, which may lie inside of a queue file",
		Source: "consumequeue-format.md 2.8",
		Check: func(t *T) {
			topic := t.Topic("")
			rs := segments(t, topic, 4)
			expire(t, 2*smallSegment, 2*smallSegment)
			for _, rule := range []store.TimeRule{store.Nearest, store.Lower, store.Upper} {
				for _, r := range rs[8:] {
					if got, err := t.Store().OffsetByTime(topic, 0, time.UnixMilli(r.StoreTimestamp), rule); got != r.QueueOffset || err != nil {
						t.Errorf("the time of message %d by rule %d: %d, %v", r.QueueOffset, rule, got, err)
					}
				}
			}
		},
	},
	Law{
		ID:     "retention-013",
		Says:   "A queue whose messages are all deleted is empty at its next offset: minimum and maximum are that, and below it a get is OFFSET_TOO_SMALL.",
		Why:    "the original keeps [0, 1) and answers MESSAGE_WAS_REMOVING for ever",
		Source: "defects 11, consumequeue-format.md 2.5",
		Check: func(t *T) {
			old := t.Topic("old")
			for i := range 3 {
				t.Put(numbered(t, old, i))
			}
			t.Visible(old, 0, 3)
			t.Put(numbered(t, t.Topic(""), 0))
			for i := range perSegment {
				t.Put(numbered(t, t.Topic(""), 1+i))
			}
			t.Visible(t.Topic(""), 0, 1+perSegment)
			expire(t, smallSegment, smallSegment)
			Equal(t, "the minimum", t.Store().MinOffset(old, 0), 3)
			Equal(t, "the maximum", t.Store().MaxOffset(old, 0), 3)
			t.Answers("at the end", t.From(old, 3, 0, nil), store.OffsetOverflowOne, 3, 0)
			t.Answers("below it", t.From(old, 0, 0, nil), store.OffsetTooSmall, 3, 0)
			t.Answers("beyond it", t.From(old, 9, 0, nil), store.OffsetOverflowBadly, 3, 0)
		},
	},
	Law{
		ID:     "retention-014",
		Says:   "A queue whose messages are all deleted goes on with the offset that comes next.",
		Why:    "an offset that is used twice hides its message from whoever consumed the first one",
		Source: "defects 2, 11",
		Check: func(t *T) {
			old := t.Topic("old")
			t.Put(numbered(t, old, 0))
			t.Put(numbered(t, old, 1))
			t.Visible(old, 0, 2)
			for i := range perSegment {
				t.Put(numbered(t, t.Topic(""), i))
			}
			t.Visible(t.Topic(""), 0, perSegment)
			expire(t, smallSegment, smallSegment)
			Equal(t, "the queue offset of the next message", t.Put(numbered(t, old, 2)).QueueOffset, 2)
			t.Visible(old, 0, 3)
			t.Answers("the next message", t.From(old, 2, 0, nil), store.Found, 3, 1)
			Equal(t, "the minimum", t.Store().MinOffset(old, 0), 2)
		},
	},
	Law{
		ID:     "retention-015",
		Says:   "A queue whose messages are all deleted has no earliest time, and any time finds its next offset.",
		Why:    "there is nothing to take a time from",
		Source: "store.OffsetReader",
		Check: func(t *T) {
			old := t.Topic("old")
			r := t.Put(numbered(t, old, 0))
			t.Visible(old, 0, 1)
			for i := range perSegment {
				t.Put(numbered(t, t.Topic(""), i))
			}
			t.Visible(t.Topic(""), 0, perSegment)
			expire(t, smallSegment, smallSegment)
			if at, err := t.Store().EarliestStoreTime(old, 0); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("the earliest time of an empty queue: %v, %v", at, err)
			}
			for _, rule := range []store.TimeRule{store.Nearest, store.Lower, store.Upper} {
				for _, d := range []time.Duration{-time.Hour, 0, time.Hour} {
					if got, err := t.Store().OffsetByTime(old, 0, time.UnixMilli(r.StoreTimestamp).Add(d), rule); got != 1 || err != nil {
						t.Errorf("a time by rule %d: %d, %v; want 1", rule, got, err)
					}
				}
			}
		},
	},
	Law{
		ID:     "retention-016",
		Says:   "Queues that have lost nothing stay as they are.",
		Why:    "retention is of the log; each queue follows by its own units",
		Source: "consumequeue-format.md 2.5",
		Check: func(t *T) {
			old, young := t.Topic("old"), t.Topic("young")
			for i := range perSegment {
				t.Put(numbered(t, old, i))
			}
			for i := range perSegment {
				t.Put(numbered(t, young, i))
			}
			t.Visible(old, 0, perSegment)
			t.Visible(young, 0, perSegment)
			expire(t, smallSegment, smallSegment)
			Equal(t, "the minimum", t.Store().MinOffset(young, 0), 0)
			Equal(t, "the maximum", t.Store().MaxOffset(young, 0), perSegment)
			t.Read(young, 0, 0, perSegment)
		},
	},
	Law{
		ID:     "retention-017",
		Says:   "The log's end stays, and puts go on there.",
		Why:    "physical offsets are places in files that are named for them",
		Source: "commitlog-format.md 1.1",
		Check: func(t *T) {
			topic := t.Topic("")
			rs := segments(t, topic, 3)
			last := rs[len(rs)-1]
			expire(t, 2*smallSegment, 2*smallSegment)
			Equal(t, "the log's end", t.Store().MaxPhyOffset(), end(last))
			r := t.Put(t.Message(topic, 0, "x"))
			Equal(t, "the next queue offset", r.QueueOffset, last.QueueOffset+1)
			if r.PhyOffset < end(last) {
				t.Errorf("the next message lies at %d, the last one ended at %d", r.PhyOffset, end(last))
			}
		},
	},
	Law{
		ID:     "retention-018",
		Says:   "Views of messages that are deleted meanwhile stay as they are until they are released.",
		Why:    "a slow consumer's connection still sends them; memory that is gone would end the process",
		Source: "store.View, reports 46",
		Tests:  []string{"MappedFileTest.testSelectMappedBuffer"},
		Check: func(t *T) {
			topic := t.Topic("")
			segments(t, topic, 3)
			g := t.From(topic, 0, 0, nil)
			before := copies(g.Records)
			expire(t, 2*smallSegment, 2*smallSegment)
			t.Put(numbered(t, topic, 12))
			t.Unchanged("after their segment was deleted", g.Records, before)
		},
	},
	Law{
		ID:     "retention-019",
		Says:   "Views of a query's messages that are deleted meanwhile stay as they are until they are released.",
		Why:    "a query's answer is sent like any other",
		Source: "store.View",
		Check: func(t *T) {
			need[store.Querier](t)
			topic := t.Topic("")
			segments(t, topic, 3)
			q := t.Query(of(topic, "all"))
			before := copies(q.Records)
			expire(t, 2*smallSegment, 2*smallSegment)
			t.Put(numbered(t, topic, 12))
			t.Unchanged("after their segment was deleted", q.Records, before)
		},
	},
	Law{
		ID:     "retention-020",
		Says:   "Deleting again what is deleted changes nothing.",
		Why:    "cleaning runs every ten seconds",
		Source: "dispatch-and-read.md 5.7",
		Check: func(t *T) {
			topic := t.Topic("")
			segments(t, topic, 3)
			for range 3 {
				expire(t, smallSegment, smallSegment)
				Equal(t, "the minimum", t.Store().MinOffset(topic, 0), perSegment)
			}
			expire(t, 0, smallSegment)
		},
	},
	Law{
		ID:     "retention-021",
		Says:   "A store that is opened again begins where it began.",
		Why:    "a minimum that goes back sends consumers to what is not there",
		Source: "consumequeue-format.md 2.4, 2.5",
		Check: func(t *T) {
			r := need[Reopener](t)
			topic, old := t.Topic(""), t.Topic("old")
			t.Put(numbered(t, old, 0))
			for i := range 3 * perSegment {
				t.Put(numbered(t, topic, i))
			}
			t.Visible(old, 0, 1)
			t.Visible(topic, 0, 3*perSegment)
			expire(t, 2*smallSegment, 2*smallSegment)
			first := t.Store().MinOffset(topic, 0)
			t.Replace(r.Reopen(t.Ctx()))
			Equal(t, "the log's beginning", t.Store().MinPhyOffset(), 2*smallSegment)
			Equal(t, "the minimum", t.Store().MinOffset(topic, 0), first)
			Equal(t, "the maximum", t.Store().MaxOffset(topic, 0), 3*perSegment)
			Equal(t, "the minimum of the empty queue", t.Store().MinOffset(old, 0), 1)
			Equal(t, "the maximum of the empty queue", t.Store().MaxOffset(old, 0), 1)
			Equal(t, "the next queue offset of the empty queue", t.Put(numbered(t, old, 1)).QueueOffset, 1)
		},
	},
	Law{
		ID:     "retention-022",
		Says:   "A walk through a queue begins at its first message that is held.",
		Why:    "exports and rebuilds walk from 0",
		Source: "store.Scanner",
		Check: func(t *T) {
			s := need[store.Scanner](t)
			topic := t.Topic("")
			segments(t, topic, 3)
			expire(t, 2*smallSegment, 2*smallSegment)
			next := int64(2 * perSegment)
			for m, err := range s.Scan(t.Ctx(), topic, 0, 0) {
				if err != nil || m.QueueOffset != next {
					t.Fatalf("walking: %v, %v; want message %d", m, err, next)
				}
				next++
			}
			Equal(t, "the end of the walk", next, 3*perSegment)
		},
	},
	Law{
		ID:     "retention-023",
		Says:   "A walk through the log begins at the first record that is held.",
		Why:    "recovery and export read the log from its beginning",
		Source: "store.Scanner",
		Check: func(t *T) {
			s := need[store.Scanner](t)
			rs := segments(t, t.Topic(""), 3)[perSegment:]
			expire(t, smallSegment, smallSegment)
			for m, err := range s.ScanLog(t.Ctx(), 0, t.Store().MaxPhyOffset()) {
				if err != nil || len(rs) == 0 || m.PhyOffset != rs[0].PhyOffset {
					t.Fatalf("walking: %v, %v; %d records to come", m, err, len(rs))
				}
				rs = rs[1:]
			}
			Equal(t, "records left out", len(rs), 0)
		},
	},
	Law{
		ID:     "retention-024",
		Says:   "Statistics say where the log begins.",
		Why:    "operators plan disks by it",
		Source: "dispatch-and-read.md 5.9",
		Check: func(t *T) {
			a := need[store.Admin](t)
			segments(t, t.Topic(""), 3)
			expire(t, 2*smallSegment, 2*smallSegment)
			Equal(t, "Stats().MinPhyOffset", a.Stats().MinPhyOffset, 2*smallSegment)
			Equal(t, "Stats().MaxPhyOffset", a.Stats().MaxPhyOffset, t.Store().MaxPhyOffset())
		},
	},
)
