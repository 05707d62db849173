package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

func init() { register(concurrentLaws...) }

const (
	producers   = 8
	perProducer = 40
)

// each runs f for 0 to n-1 at the same time, and waits.
func (t *T) each(n int, f func(i int)) {
	var start sync.WaitGroup
	start.Add(n)
	for i := range n {
		t.Go(func() {
			start.Done()
			start.Wait()
			f(i)
		})
	}
	t.Wait()
}

// putsOf lets producers put messages with the bodies "p n", p the producer, to queues as queue says.
func (t *T) putsOf(topic string, queue func(p int) int32) [][]store.PutResult {
	rs := make([][]store.PutResult, producers)
	t.each(producers, func(p int) {
		for n := range perProducer {
			r, err := t.Store().Put(t.ctx, t.Message(topic, queue(p), fmt.Sprint(p, " ", n)))
			if err != nil {
				t.Errorf("put of producer %d: %v", p, err)
				return
			}
			rs[p] = append(rs[p], r)
		}
	})
	return rs
}

var concurrentLaws = []Law{
	{
		ID:     "concurrent-001",
		Says:   "Of many producers to one queue each message gets an offset of its own, without gaps.",
		Why:    "an offset that is given twice hides a message",
		Source: "commitlog-format.md 1.11",
		Check: func(t *T) {
			topic := t.Topic("")
			seen := make([]bool, producers*perProducer)
			for _, rs := range t.putsOf(topic, func(int) int32 { return 0 }) {
				for _, r := range rs {
					if r.QueueOffset < 0 || r.QueueOffset >= int64(len(seen)) || seen[r.QueueOffset] {
						t.Errorf("queue offset %d is given twice, or is beyond the number of messages", r.QueueOffset)
						continue
					}
					seen[r.QueueOffset] = true
				}
			}
			t.Settle(topic, 0, int64(len(seen)))
			Equal(t, "the queue's end", t.Store().MaxOffset(topic, 0), int64(len(seen)))
		},
	},
	{
		ID:     "concurrent-002",
		Says:   "The offsets of one producer rise in the order of its puts, and lead to its messages.",
		Why:    "messages of one producer to one queue are in order: it is what ordered consumption is built on",
		Source: "commitlog-format.md 1.11",
		Check: func(t *T) {
			topic := t.Topic("")
			all := t.putsOf(topic, func(p int) int32 { return int32(p % 2) })
			const n = producers / 2 * perProducer
			t.Visible(topic, 1, n)
			t.Settle(topic, 0, n)
			queues := [2][]*record.Message{t.Read(topic, 0, 0, n), t.Read(topic, 1, 0, n)}
			for p, rs := range all {
				last := int64(-1)
				for i, r := range rs {
					if r.QueueOffset <= last || r.QueueOffset >= n {
						t.Errorf("producer %d: message %d has offset %d, the one before it %d", p, i, r.QueueOffset, last)
						continue
					}
					last = r.QueueOffset
					Equal(t, "the message at its offset", string(queues[p%2][r.QueueOffset].Body), fmt.Sprint(p, " ", i))
				}
			}
		},
	},
	{
		ID:     "concurrent-003",
		Says:   "In a queue, places and store times rise with the offsets, however many producers there are.",
		Why:    "recovery, retention and the search by time rely on it",
		Source: "commitlog-format.md 1.10 step 5; consumequeue-format.md 2.8",
		Check: func(t *T) {
			topic := t.Topic("")
			t.putsOf(topic, func(int) int32 { return 0 })
			t.Settle(topic, 0, producers*perProducer)
			place, at := int64(-1), int64(-1)
			for i, m := range t.Read(topic, 0, 0, producers*perProducer) {
				if m.QueueOffset != int64(i) || m.PhyOffset <= place || m.StoreTimestamp < at {
					t.Errorf("message %d has offset %d, lies at %d and was stored at %d; the one before it at %d and %d", i, m.QueueOffset, m.PhyOffset, m.StoreTimestamp, place, at)
				}
				place, at = m.PhyOffset, m.StoreTimestamp
			}
		},
	},
	{
		ID:     "concurrent-004",
		Says:   "No two records overlap.",
		Why:    "the one that is written later would destroy the other",
		Source: "commitlog-format.md 1.11",
		Check: func(t *T) {
			starts := map[int64]int64{}
			for _, rs := range t.putsOf(t.Topic(""), func(p int) int32 { return int32(p) }) {
				for _, r := range rs {
					if other, ok := starts[r.PhyOffset]; ok {
						t.Errorf("two records lie at %d, one to %d", r.PhyOffset, other)
					}
					starts[r.PhyOffset] = end(r)
				}
			}
			for at, to := range starts {
				for inside := at + 1; inside < to; inside++ {
					if _, ok := starts[inside]; ok {
						t.Errorf("a record begins at %d, within the one of %d to %d", inside, at, to)
					}
				}
			}
		},
	},
	{
		ID:     "concurrent-005",
		Says:   "A put that begins after another was answered has the larger offset, whoever puts.",
		Why:    "a program that puts the consequence of a message after it must find both in this order",
		Source: "commitlog-format.md 1.11",
		Check: func(t *T) {
			topic := t.Topic("")
			var answered atomic.Int64
			answered.Store(-1)
			t.each(producers, func(int) {
				for range perProducer {
					before := answered.Load()
					r, err := t.Store().Put(t.ctx, t.Message(topic, 0, "x"))
					if err != nil {
						t.Errorf("put: %v", err)
						return
					}
					if r.QueueOffset <= before {
						t.Errorf("offset %d was given after %d had been answered", r.QueueOffset, before)
					}
					for old := answered.Load(); r.QueueOffset > old && !answered.CompareAndSwap(old, r.QueueOffset); old = answered.Load() {
					}
				}
			})
		},
	},
	{
		ID:     "concurrent-006",
		Says:   "A consumer beside producers gets each message once, in order of the offsets, by going on at the next offset.",
		Why:    "this is consuming",
		Source: "dispatch-and-read.md 5.3",
		Check: func(t *T) {
			topic := t.Topic("")
			const n = producers * perProducer
			t.Go(func() {
				var next int64
				for next < n && t.ctx.Err() == nil {
					g, err := t.Store().Get(t.ctx, store.GetRequest{Topic: topic, Offset: next})
					if err != nil {
						t.Errorf("get from %d: %v", next, err)
						return
					}
					for i, o := range g.QueueOffsets {
						if o != next+int64(i) {
							t.Errorf("get from %d: message %d has offset %d", next, i, o)
						}
					}
					if got := g.NextBeginOffset; got != next+int64(len(g.Records)) && g.Status == store.Found {
						t.Errorf("get from %d: %d messages, the next offset is %d", next, len(g.Records), got)
					}
					switch g.Status {
					case store.Found:
						next = g.NextBeginOffset
					case store.NoMessageInQueue, store.OffsetOverflowOne:
						g.Release()
						t.pause()
						continue
					default:
						t.Errorf("get from %d: %v", next, g.Status)
						return
					}
					g.Release()
				}
				Equal(t, "how far the consumer got", next, n)
			})
			for p := range producers {
				t.Go(func() {
					for i := range perProducer {
						if _, err := t.Store().Put(t.ctx, t.Message(topic, 0, fmt.Sprint(p, i))); err != nil {
							t.Errorf("put: %v", err)
						}
					}
				})
			}
			t.Wait()
		},
	},
	{
		ID:     "concurrent-007",
		Says:   "A queue's end never goes back, and what lies below it can be read.",
		Why:    "a consumer that sees its offset beyond the end is sent back, and reads messages again",
		Source: "dispatch-and-read.md 5.3",
		Check: func(t *T) {
			topic := t.Topic("")
			const n = producers * perProducer
			var failed atomic.Bool
			t.Go(func() {
				for last := int64(0); last < n && t.ctx.Err() == nil && !failed.Load(); {
					now := t.Store().MaxOffset(topic, 0)
					if now < last {
						t.Errorf("the queue's end went from %d back to %d", last, now)
						return
					}
					if now == last {
						t.pause()
						continue
					}
					g, err := t.Store().Get(t.ctx, store.GetRequest{Topic: topic, Offset: now - 1, MaxMessages: 1})
					if err != nil || g.Status != store.Found {
						t.Errorf("the queue ends at %d, but a get from %d: %+v, %v", now, now-1, g, err)
						return
					}
					g.Release()
					if _, err := t.Store().PhyOffset(topic, 0, now-1); err != nil {
						t.Errorf("the queue ends at %d, but place of %d: %v", now, now-1, err)
					}
					last = now
				}
			})
			for range producers {
				t.Go(func() {
					for range perProducer {
						if _, err := t.Store().Put(t.ctx, t.Message(topic, 0, "x")); err != nil {
							t.Errorf("put: %v", err)
							failed.Store(true)
							return
						}
					}
				})
			}
			t.Wait()
			for range 4 {
				Equal(t, "the queue's end after all", t.Store().MaxOffset(topic, 0), n)
			}
		},
	},
	{
		ID:     "concurrent-008",
		Says:   "The messages of a batch stay together, whoever puts beside it.",
		Why:    "the client computes the offsets of all from that of the first",
		Source: "commitlog-format.md 1.11 Batch",
		Check: func(t *T) {
			b := need[store.BatchPutter](t)
			topic := t.Topic("")
			const each, size = 10, 5
			var total atomic.Int64
			t.each(producers, func(p int) {
				for n := range each {
					if p%2 == 0 {
						if _, err := t.Store().Put(t.ctx, t.Message(topic, 0, "single")); err != nil {
							t.Errorf("put: %v", err)
						}
						total.Add(1)
						continue
					}
					is := items(size)
					for i := range is {
						is[i].Body = fmt.Append(nil, p, " ", n, " ", i)
					}
					if _, err := b.PutBatch(t.ctx, t.Message(topic, 0, ""), is); err != nil {
						t.Errorf("put batch: %v", err)
					}
					total.Add(size)
				}
			})
			t.Settle(topic, 0, total.Load())
			ms := t.Read(topic, 0, 0, int(total.Load()))
			for i := 0; i < len(ms); i++ {
				batch, ok := bytes.CutSuffix(ms[i].Body, []byte(" 0"))
				if !ok {
					continue
				}
				for n := range size {
					if got, want := string(ms[min(i+n, len(ms)-1)].Body), string(batch)+" "+strconv.Itoa(n); got != want {
						t.Errorf("at offset %d is %q, want %q", i+n, got, want)
					}
				}
			}
		},
	},
	{
		ID:     "concurrent-009",
		Says:   "Puts beside Close are stored or refused: what was answered without an error is there when the store is opened again.",
		Why:    "a broker that stops must not forget what it told its producers",
		Source: "reports 32",
		Own:    true,
		Check: func(t *T) {
			again := need[Reopener](t)
			topic, s := t.Topic(""), t.Store()
			acked := make([][]store.PutResult, producers)
			var puts sync.WaitGroup
			var reopened atomic.Bool // however long who reopens it stands still, there are puts beside that
			underWay := make(chan struct{}, 2*producers)
			for p := range producers {
				puts.Add(1)
				t.Go(func() {
					defer puts.Done()
					defer func() { underWay <- struct{}{} }()
					for n, last := 0, false; !last && t.ctx.Err() == nil; n++ {
						last = reopened.Load() // a store that refuses nothing is asked once more
						r, err := s.Put(t.ctx, t.Message(topic, int32(p), "x"))
						if err != nil {
							if !errors.Is(err, store.ErrClosed) || store.StatusName(err) != "SERVICE_NOT_AVAILABLE" {
								t.Errorf("put beside Close: %v (%s)", err, store.StatusName(err))
							}
							return
						}
						if acked[p] = append(acked[p], r); n == 5 {
							underWay <- struct{}{}
						}
					}
				})
			}
			for range producers {
				select {
				case <-underWay:
				case <-t.ctx.Done():
				}
			}
			next, err := again.Reopen(t.ctx)
			reopened.Store(true)
			puts.Wait()
			t.Replace(next, err)
			for p, rs := range acked {
				t.Visible(topic, int32(p), int64(len(rs)))
				Equal(t, "the end of a queue", t.Store().MaxOffset(topic, int32(p)), int64(len(rs)))
				for i, r := range rs {
					if at, err := t.Store().PhyOffset(topic, int32(p), int64(i)); err != nil || at != r.PhyOffset {
						t.Errorf("message %d of queue %d lies at %d, %v; it was answered with %d", i, p, at, err, r.PhyOffset)
					}
				}
			}
		},
	},
	{
		ID:     "concurrent-010",
		Says:   "What a get gave stays as it is until it is released, whatever is put meanwhile, and when the store is closed.",
		Why:    "a broker writes it to a socket, which takes its time",
		Source: "package store, Concurrency; reports 46",
		Own:    true,
		Check: func(t *T) {
			topic := t.Topic("")
			t.PutN(topic, 0, 5)
			t.Visible(topic, 0, 5)
			g, err := t.Store().Get(t.ctx, store.GetRequest{Topic: topic})
			if err != nil || len(g.Records) != 5 {
				t.Fatalf("get: %+v, %v", g, err)
			}
			defer g.Release()
			var before [][]byte
			for _, v := range g.Records {
				before = append(before, bytes.Clone(v.Bytes))
			}
			check := func(when string) {
				for i, v := range g.Records {
					if !bytes.Equal(v.Bytes, before[i]) {
						t.Errorf("%s record %d is another", when, i)
					}
				}
			}
			t.PutN(topic, 0, 300)
			check("after more puts")
			if err := t.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			check("after the store was closed")
		},
	},
	{
		ID:     "concurrent-011",
		Says:   "Questions beside puts are answered as if alone.",
		Why:    "consoles ask while brokers work",
		Source: "package store, Concurrency",
		Clock:  true,
		Check: func(t *T) {
			topic, busy := t.Topic(""), t.Topic("busy")
			rs := t.PutN(topic, 0, 20)
			t.Settle(topic, 0, 20)
			var done atomic.Bool
			t.Go(func() {
				defer done.Store(true)
				for range 200 {
					if _, err := t.Store().Put(t.ctx, t.Message(busy, 0, "x")); err != nil {
						t.Errorf("put: %v", err)
						return
					}
				}
			})
			for range 3 {
				t.Go(func() {
					for i := 0; !done.Load() || i < 20; i++ {
						n := i % 20
						at, err := t.Store().PhyOffset(topic, 0, int64(n))
						if err != nil || at != rs[n].PhyOffset {
							t.Errorf("place of %d: %d, %v", n, at, err)
						}
						when, err := t.Store().StoreTime(topic, 0, int64(n))
						if err != nil || when.UnixMilli() != rs[n].StoreTimestamp {
							t.Errorf("store time of %d: %v, %v", n, when, err)
						}
						g, err := t.Store().Get(t.ctx, store.GetRequest{Topic: topic, Offset: int64(n), MaxMessages: 1})
						if err != nil || len(g.Records) != 1 || g.Records[0].PhyOffset != rs[n].PhyOffset || g.NextBeginOffset != int64(n+1) {
							t.Errorf("get from %d: %+v, %v", n, g, err)
						}
						g.Release()
						t.pause()
					}
				})
			}
			t.Wait()
			Equal(t, "the queue's end", t.Store().MaxOffset(topic, 0), 20)
		},
	},
}
