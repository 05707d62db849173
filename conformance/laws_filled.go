package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

func init() { register(filledLaws...) }

// held is a message of a queue, as a get gave it.
type held struct {
	queueOffset int64
	phyOffset   int64
	m           *record.Message
	bytes       []byte
}

// walk reads a queue from its minimum to its maximum by next offsets, n messages at a time.
func (t *T) walk(q Queue, n int, f store.Filter) (hs []held) {
	for at, end := t.Store().MinOffset(q.Topic, q.ID), t.Store().MaxOffset(q.Topic, q.ID); at < end; {
		g := t.Get(store.GetRequest{Topic: q.Topic, QueueID: q.ID, Offset: at, MaxMessages: n, Filter: f})
		if g.NextBeginOffset <= at || g.Status != store.Found && g.Status != store.NoMatchedMessage {
			t.Fatalf("get %s/%d from %d of [%d, %d): %v, next offset %d", q.Topic, q.ID, at, g.MinOffset, end, g.Status, g.NextBeginOffset)
		}
		ms, err := g.Messages()
		if err != nil || len(ms) != len(g.QueueOffsets) {
			t.Fatalf("get %s/%d from %d: %d records, %d queue offsets, %v", q.Topic, q.ID, at, len(ms), len(g.QueueOffsets), err)
		}
		for i, m := range ms {
			hs = append(hs, held{g.QueueOffsets[i], g.Records[i].PhyOffset, m, g.Records[i].Bytes})
		}
		at = g.NextBeginOffset
	}
	return hs
}

// eachHeld calls f with each message of each queue.
func eachHeld(t *T, f func(q Queue, what string, h held)) {
	for _, q := range t.Filled() {
		for _, h := range t.walk(q, 0, nil) {
			f(q, fmt.Sprintf("%s/%d, message %d", q.Topic, q.ID, h.queueOffset), h)
		}
	}
}

// keysOf are the keys by which m is found, each once.
func keysOf(m *record.Message) []string {
	ks := m.Keys()
	if u := m.UniqKey(); u != "" {
		ks = append(ks, u)
	}
	slices.Sort(ks)
	return slices.Compact(ks)
}

// dispatchedTo reports whether m asks for a queue beside its own.
func dispatchedTo(m *record.Message, topic string) bool {
	names, _ := m.Properties.Get(record.PropertyMultiDispatch)
	return slices.Contains(strings.Split(names, ","), topic)
}

// filled fills in what laws of filled stores have in common.
func filled(laws ...Law) []Law {
	for i := range laws {
		laws[i].Config, laws[i].Clock = Config{SegmentSize: smallSegment, QueueFileSize: 200, RecordSize: 1000}, true
	}
	return laws
}

// filledLaws hold of any store that has messages, whoever put them. They put none: T.Filled does if nobody has.
var filledLaws = filled(
	Law{
		ID:     "filled-001",
		Says:   "A walk from minimum to maximum by next offsets visits each offset of a queue once, in order.",
		Why:    "this is what consuming a queue is",
		Source: "dispatch-and-read.md 5.3",
		Check: func(t *T) {
			for _, q := range t.Filled() {
				next := t.Store().MinOffset(q.Topic, q.ID)
				for _, h := range t.walk(q, 0, nil) {
					if h.queueOffset != next {
						t.Errorf("%s/%d: message %d comes where %d was to come", q.Topic, q.ID, h.queueOffset, next)
					}
					next = h.queueOffset + 1
				}
				Equal(t, fmt.Sprintf("the end of the walk through %s/%d", q.Topic, q.ID), next, t.Store().MaxOffset(q.Topic, q.ID))
			}
		},
	},
	Law{
		ID:     "filled-002",
		Says:   "A walk one message at a time gives the same.",
		Why:    "batch sizes are the client's choice",
		Source: "dispatch-and-read.md 5.3",
		Check: func(t *T) {
			for _, q := range t.Filled() {
				one := t.walk(q, 1, nil)
				all := t.walk(q, 0, nil)
				if !slices.EqualFunc(one, all, func(a, b held) bool { return a.queueOffset == b.queueOffset && a.phyOffset == b.phyOffset }) {
					t.Errorf("%s/%d: %d messages one at a time, %d in batches, or others", q.Topic, q.ID, len(one), len(all))
				}
			}
		},
	},
	Law{
		ID:     "filled-003",
		Says:   "The place of each message is that of its record, places ascend within a queue, and all lie within the log.",
		Why:    "the log is in order of arrival, and so is each queue",
		Source: "dispatch-and-read.md 5.4, reports 2",
		Check: func(t *T) {
			low, high := t.Store().MinPhyOffset(), t.Store().MaxPhyOffset()
			last := map[Queue]int64{}
			eachHeld(t, func(q Queue, what string, h held) {
				at, err := t.Store().PhyOffset(q.Topic, q.ID, h.queueOffset)
				if err != nil || at != h.phyOffset || h.m.PhyOffset != at {
					t.Errorf("%s: PhyOffset is %d, %v; the get found it at %d, the record says %d", what, at, err, h.phyOffset, h.m.PhyOffset)
				}
				if before, ok := last[q]; ok && at <= before || at < low || at+int64(h.m.Size) > high {
					t.Errorf("%s: at %d, the one before at %d, in a log [%d, %d)", what, at, before, low, high)
				}
				last[q] = at
			})
		},
	},
	Law{
		ID:     "filled-004",
		Says:   "The store time of each message is that of its record, and does not go back within a queue.",
		Why:    "searches by time halve the queue",
		Source: "dispatch-and-read.md 5.4",
		Check: func(t *T) {
			last := map[Queue]int64{}
			eachHeld(t, func(q Queue, what string, h held) {
				at, err := t.Store().StoreTime(q.Topic, q.ID, h.queueOffset)
				if err != nil || at.UnixMilli() != h.m.StoreTimestamp {
					t.Errorf("%s: StoreTime is %v, %v; the record says %v", what, at, err, time.UnixMilli(h.m.StoreTimestamp))
				}
				if h.m.StoreTimestamp < last[q] {
					t.Errorf("%s: stored at %d, the one before at %d", what, h.m.StoreTimestamp, last[q])
				}
				last[q] = h.m.StoreTimestamp
			})
		},
	},
	Law{
		ID:     "filled-005",
		Says:   "Each record is where it belongs: it names the queue and the offset at which it was found, or the queue among those that it was dispatched to, and is whole.",
		Why:    "a unit that points at another queue's record hands it to the wrong consumer",
		Source: "consumequeue-format.md 2.1, 2.7, reports 2",
		Check: func(t *T) {
			eachHeld(t, func(q Queue, what string, h held) {
				own := h.m.Topic == q.Topic && h.m.QueueID == q.ID && h.m.QueueOffset == h.queueOffset
				if !own && !dispatchedTo(h.m, q.Topic) || !h.m.SysFlag.Transaction().HasUnit() {
					t.Errorf("%s: the record at %d is of %s/%d, message %d, transaction %v", what, h.phyOffset, h.m.Topic, h.m.QueueID, h.m.QueueOffset, h.m.SysFlag.Transaction())
				}
				if _, err := record.Decode(h.bytes); err != nil {
					t.Errorf("%s: the record at %d: %v", what, h.phyOffset, err)
				}
			})
		},
	},
	Law{
		ID:     "filled-006",
		Says:   "The time of each message finds a message of that time: the first one by Lower, the last one by Upper.",
		Why:    "consumption is set back to a time by it",
		Source: "consumequeue-format.md 2.8",
		Check: func(t *T) {
			for _, q := range t.Filled() {
				first, last := map[int64]int64{}, map[int64]int64{}
				hs := t.walk(q, 0, nil)
				for _, h := range hs {
					if _, ok := first[h.m.StoreTimestamp]; !ok {
						first[h.m.StoreTimestamp] = h.queueOffset
					}
					last[h.m.StoreTimestamp] = h.queueOffset
				}
				for ms := range first {
					ask := func(rule store.TimeRule) int64 {
						n, err := t.Store().OffsetByTime(q.Topic, q.ID, time.UnixMilli(ms), rule)
						if err != nil {
							t.Errorf("%s/%d: time %d by rule %d: %v", q.Topic, q.ID, ms, rule, err)
						}
						return n
					}
					Equal(t, fmt.Sprintf("%s/%d: the first message of time %d", q.Topic, q.ID, ms), ask(store.Lower), first[ms])
					Equal(t, fmt.Sprintf("%s/%d: the last message of time %d", q.Topic, q.ID, ms), ask(store.Upper), last[ms])
					if n := ask(store.Nearest); n < first[ms] || n > last[ms] {
						t.Errorf("%s/%d: the message of time %d is %d, not of [%d, %d]", q.Topic, q.ID, ms, n, first[ms], last[ms])
					}
				}
			}
		},
	},
	Law{
		ID:     "filled-007",
		Says:   "A time before the first message finds the minimum; one after the last finds the maximum by Lower, and the last message by the other rules.",
		Why:    "\"from the beginning\" and \"from now on\" are times, too",
		Source: "store.TimeRule",
		Check: func(t *T) {
			for _, q := range t.Filled() {
				low, high := t.Store().MinOffset(q.Topic, q.ID), t.Store().MaxOffset(q.Topic, q.ID)
				if low == high {
					continue
				}
				hs := t.walk(q, 0, nil)
				before, after := time.UnixMilli(hs[0].m.StoreTimestamp-1), time.UnixMilli(hs[len(hs)-1].m.StoreTimestamp+1)
				for rule, want := range map[store.TimeRule]int64{store.Nearest: high - 1, store.Lower: high, store.Upper: high - 1} {
					if n, err := t.Store().OffsetByTime(q.Topic, q.ID, before, rule); n != low || err != nil {
						t.Errorf("%s/%d: before its first message by rule %d: %d, %v; want %d", q.Topic, q.ID, rule, n, err, low)
					}
					if n, err := t.Store().OffsetByTime(q.Topic, q.ID, after, rule); n != want || err != nil {
						t.Errorf("%s/%d: after its last message by rule %d: %d, %v; want %d", q.Topic, q.ID, rule, n, err, want)
					}
				}
			}
		},
	},
	Law{
		ID:     "filled-008",
		Says:   "The earliest store time of a queue is that of its first message held; an empty queue has none.",
		Why:    "consoles show how far back a topic goes",
		Source: "dispatch-and-read.md 5.4",
		Check: func(t *T) {
			for _, q := range t.Filled() {
				at, err := t.Store().EarliestStoreTime(q.Topic, q.ID)
				hs := t.walk(q, 0, nil)
				switch {
				case len(hs) == 0 && !errors.Is(err, store.ErrNotFound):
					t.Errorf("%s/%d is empty: %v, %v", q.Topic, q.ID, at, err)
				case len(hs) > 0 && (err != nil || at.UnixMilli() != hs[0].m.StoreTimestamp):
					t.Errorf("%s/%d: %v, %v; want %v", q.Topic, q.ID, at, err, time.UnixMilli(hs[0].m.StoreTimestamp))
				}
			}
		},
	},
	Law{
		ID:     "filled-009",
		Says:   "Outside of its bounds a queue answers where it begins or ends.",
		Why:    "consumers that are lost find their way back by it",
		Source: "dispatch-and-read.md 5.3",
		Check: func(t *T) {
			for _, q := range t.Filled() {
				low, high := t.Store().MinOffset(q.Topic, q.ID), t.Store().MaxOffset(q.Topic, q.ID)
				if high == 0 {
					continue
				}
				for _, c := range []struct {
					offset int64
					status store.GetStatus
					next   int64
				}{{low - 1, store.OffsetTooSmall, low}, {high, store.OffsetOverflowOne, high}, {high + 1, store.OffsetOverflowBadly, high}, {math.MaxInt64, store.OffsetOverflowBadly, high}} {
					g := t.Get(store.GetRequest{Topic: q.Topic, QueueID: q.ID, Offset: c.offset})
					if g.Status != c.status || g.NextBeginOffset != c.next && g.NextBeginOffset != c.offset || g.MinOffset != low || g.MaxOffset != high { // a slave does not correct the offset
						t.Errorf("%s/%d is [%d, %d): get from %d: %v, next offset %d, [%d, %d)", q.Topic, q.ID, low, high, c.offset, g.Status, g.NextBeginOffset, g.MinOffset, g.MaxOffset)
					}
				}
			}
		},
	},
	Law{
		ID:     "filled-010",
		Says:   "Each message can be looked up by its place and by its id, and is the one that a get gives.",
		Why:    "there is one record, whichever way leads to it",
		Source: "dispatch-and-read.md 5.4, commitlog-format.md 1.9",
		Check: func(t *T) {
			l := need[store.Looker](t)
			eachHeld(t, func(q Queue, what string, h held) {
				m, err := l.Lookup(h.phyOffset)
				if err != nil {
					t.Errorf("%s: lookup at %d: %v", what, h.phyOffset, err)
					return
				}
				if !bytes.Equal(m.Body, h.m.Body) || !bytes.Equal(m.Properties, h.m.Properties) || m.Topic != h.m.Topic || m.QueueOffset != h.m.QueueOffset || m.StoreTimestamp != h.m.StoreTimestamp || m.Size != h.m.Size {
					t.Errorf("%s: the record at %d is another one for a lookup than for a get", what, h.phyOffset)
				}
				if m, err := l.LookupID(h.m.OffsetMessageID()); err != nil || m.PhyOffset != h.phyOffset {
					t.Errorf("%s: lookup of its id %s: %v, %v", what, h.m.OffsetMessageID(), m, err)
				}
			})
		},
	},
	Law{
		ID:     "filled-011",
		Says:   "Each message is found by each of its keys, at its own time.",
		Why:    "an operator who has the key has the message",
		Source: "index.md 3.7",
		Check: func(t *T) {
			need[store.Querier](t)
			t.Indexed()
			eachHeld(t, func(q Queue, what string, h held) {
				at := time.UnixMilli(h.m.StoreTimestamp)
				for _, key := range keysOf(h.m) {
					got := places(t.Query(store.QueryRequest{Topic: h.m.Topic, Key: key, Begin: at, End: at, Max: 64}).Records)
					if !slices.Contains(got, h.phyOffset) && len(got) < 64 {
						t.Errorf("%s: the key %q finds the records at %v, and not the one at %d", what, key, got, h.phyOffset)
					}
				}
			})
		},
	},
	Law{
		ID:     "filled-012",
		Says:   "What a key finds has that topic and key, in order of the log, each once.",
		Why:    "a stranger's order in an answer is a leak",
		Source: "index.md 3.7, reports 14",
		Check: func(t *T) {
			need[store.Querier](t)
			asked := map[string]bool{}
			eachHeld(t, func(q Queue, _ string, h held) {
				for _, key := range keysOf(h.m) {
					if asked[h.m.Topic+"\x00"+key] {
						continue
					}
					asked[h.m.Topic+"\x00"+key] = true
					r := t.Query(of(h.m.Topic, key))
					ms, err := r.Messages()
					if err != nil {
						t.Fatalf("query %s %q: %v", h.m.Topic, key, err)
					}
					last := int64(-1)
					for i, m := range ms {
						if at := r.Records[i].PhyOffset; m.Topic != h.m.Topic || !slices.Contains(keysOf(m), key) || at <= last || at != m.PhyOffset {
							t.Errorf("query %s %q finds the record at %d: of %s with the keys %q; the one before is at %d", h.m.Topic, key, at, m.Topic, keysOf(m), last)
						}
						last = r.Records[i].PhyOffset
					}
				}
			})
		},
	},
	Law{
		ID:     "filled-013",
		Says:   "A walk through the log meets each message of each queue, in order of places, and as many for each queue as the queue holds.",
		Why:    "queues are nothing but the log, sorted",
		Source: "dispatch-and-read.md 5.1",
		Check: func(t *T) {
			s := need[store.Scanner](t)
			inLog, last := map[Queue]int64{}, int64(-1)
			for m, err := range s.ScanLog(t.ctx, max(t.Store().MinPhyOffset(), 0), t.Store().MaxPhyOffset()) {
				if err != nil {
					t.Fatalf("walk through the log behind %d: %v", last, err)
				}
				if m.PhyOffset <= last {
					t.Errorf("the record at %d comes behind that at %d", m.PhyOffset, last)
				}
				if last = m.PhyOffset; m.SysFlag.Transaction().HasUnit() {
					inLog[Queue{m.Topic, m.QueueID}]++
				}
			}
			for _, q := range t.Filled() {
				if n, units := inLog[q], t.Store().MaxOffset(q.Topic, q.ID)-t.Store().MinOffset(q.Topic, q.ID); n != units && !slices.ContainsFunc(t.walk(q, 0, nil), func(h held) bool { return dispatchedTo(h.m, q.Topic) }) {
					t.Errorf("%s/%d holds %d messages, the log has %d of it", q.Topic, q.ID, units, n)
				}
			}
		},
	},
	Law{
		ID:     "filled-014",
		Says:   "A walk through a queue with Scan meets what gets meet.",
		Why:    "exports use the one, consumers the other",
		Source: "store.Scanner",
		Check: func(t *T) {
			s := need[store.Scanner](t)
			for _, q := range t.Filled() {
				hs := t.walk(q, 0, nil)
				for m, err := range s.Scan(t.ctx, q.Topic, q.ID, 0) {
					if err != nil || len(hs) == 0 || m.PhyOffset != hs[0].phyOffset || !bytes.Equal(m.Body, hs[0].m.Body) {
						t.Fatalf("scan of %s/%d: %v, %v; gets have %d more messages", q.Topic, q.ID, m, err, len(hs))
					}
					hs = hs[1:]
				}
				Equal(t, fmt.Sprintf("messages of %s/%d that Scan leaves out", q.Topic, q.ID), len(hs), 0)
			}
		},
	},
	Law{
		ID:     "filled-015",
		Says:   "A walk with a filter by tag meets the messages whose tags have that hash, and no others.",
		Why:    "subscriptions are filters",
		Source: "dispatch-and-read.md 5.3 (filter interface)",
		Check: func(t *T) {
			for _, q := range t.Filled() {
				if q.Topic == record.TopicSchedule { // there the code is a time
					continue
				}
				hs := t.walk(q, 0, nil)
				tags := map[string]bool{}
				for _, h := range hs {
					if tag := h.m.Tags(); tag != "" && !strings.Contains(tag, "|") && strings.TrimSpace(tag) == tag && tag != "*" && len(tags) < 8 {
						tags[tag] = true
					}
				}
				for tag := range tags {
					var want, got []int64
					for _, h := range hs {
						if int32(h.m.TagsCode()) == int32(record.TagsCode(tag)) {
							want = append(want, h.queueOffset)
						}
					}
					for _, h := range t.walk(q, 0, store.TagFilter(tag)) {
						got = append(got, h.queueOffset)
					}
					if !slices.Equal(got, want) {
						t.Errorf("%s/%d, tag %q: %v, want %v", q.Topic, q.ID, tag, got, want)
					}
				}
			}
		},
	},
	Law{
		ID:     "filled-016",
		Says:   "The list of queues has each, with the bounds that it has.",
		Why:    "consoles list it, and rebuilds compare it",
		Source: "store.Scanner",
		Check: func(t *T) {
			s := need[store.Scanner](t)
			listed := map[Queue]store.QueueInfo{}
			for _, i := range s.Queues() {
				listed[Queue{i.Topic, i.QueueID}] = i
			}
			for _, q := range t.Filled() {
				i, ok := listed[q]
				low, high := t.Store().MinOffset(q.Topic, q.ID), t.Store().MaxOffset(q.Topic, q.ID)
				if !ok || i.MinOffset != low || i.MaxOffset != high || i.Units != high-low {
					t.Errorf("%s/%d is [%d, %d), listed (%v) as [%d, %d) with %d units", q.Topic, q.ID, low, high, ok, i.MinOffset, i.MaxOffset, i.Units)
				}
			}
		},
	},
)
