package conformance

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

func init() { register(rawLaws...) }

// tape is a piece of a master's log.
type tape struct {
	t    *T
	from int64 // physical offset of its first byte
	b    []byte
	next map[string]int64 // queue offsets, by topic
}

const taped = 1_690_000_000_000 // store time of a tape's first record

func newTape(t *T, from int64) *tape { return &tape{t: t, from: from, next: map[string]int64{}} }

func (p *tape) end() int64 { return p.from + int64(len(p.b)) }

// add puts m at the tape's end, as the next one of its topic's queue, a millisecond after the one before, and returns its place.
func (p *tape) add(m *record.Message) int64 {
	at, queueOffset := p.end(), p.next[m.Topic]
	if m.SysFlag.Transaction().HasUnit() {
		p.next[m.Topic]++
	} else {
		queueOffset = 0
	}
	p.b = append(p.b, p.t.Raw(m, at, queueOffset, taped+at)...)
	return at
}

// blank fills the rest of a segment.
func (p *tape) blank(segment int64) {
	b := make([]byte, segment-p.end()%segment)
	binary.BigEndian.PutUint32(b, uint32(len(b)))
	binary.BigEndian.PutUint32(b[4:], record.MagicBlank)
	p.b = append(p.b, b...)
}

// play gives all of the tape to the store.
func (p *tape) play() { p.t.Append(p.from, p.b) }

var rawConfig = Config{Role: store.Slave, SegmentSize: smallSegment, QueueFileSize: 200}

// raw fills in what laws of a slave that takes raw bytes have in common.
func raw(laws ...Law) []Law {
	for i := range laws {
		if laws[i].Config.SegmentSize == 0 {
			laws[i].Config = rawConfig
		}
		laws[i].Own = true
		check := laws[i].Check
		laws[i].Check = func(t *T) {
			need[RawAppender](t)
			check(t)
		}
	}
	return laws
}

var rawLaws = raw(
	Law{
		ID:     "replication-020",
		Says:   "Records of a master's log become messages of the slave's queues, at the offsets that are in them.",
		Why:    "a slave builds its queues from the log alone",
		Source: "dispatch-and-read.md 5.1",
		Check: func(t *T) {
			topic := t.Topic("")
			p := newTape(t, 0)
			var at []int64
			for i := range 3 {
				at = append(at, p.add(t.Message(topic, 0, body(i))))
			}
			p.play()
			t.Visible(topic, 0, 3)
			g := t.From(topic, 0, 0, nil)
			t.Answers("a get", g, store.Found, 3, 3)
			for i, v := range g.Records {
				Equal(t, "a place", v.PhyOffset, at[i])
			}
			for i, m := range t.Read(topic, 0, 0, 3) {
				t.Same("a message", m, t.Message(topic, 0, body(i)))
			}
			Equal(t, "the log's end", t.Store().MaxPhyOffset(), p.end())
		},
	},
	Law{
		ID:     "replication-021",
		Says:   "Half a record is received, but nobody sees it; with the rest it is a message.",
		Why:    "frames end where they end, and the original with brokerId 0 loses each record that two of them share",
		Source: "dispatch-and-read.md 5.1, defects 10",
		Check: func(t *T) {
			topic := t.Topic("")
			p := newTape(t, 0)
			p.add(t.Message(topic, 0, body(0)))
			second := p.add(t.Message(topic, 0, body(1)))
			for _, cut := range []int64{1, 4, 7, 8, 40, p.end() - second - 1} {
				at := t.Store().MaxPhyOffset()
				t.Append(at, p.b[at:second+cut])
				Equal(t, "what was received", t.Store().MaxPhyOffset(), second+cut)
				t.Visible(topic, 0, 1)
				Equal(t, "the queue's end before the second record is whole", t.Store().MaxOffset(topic, 0), 1)
				if m, err := need[store.Looker](t).Lookup(second); err == nil || !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrNotARecord) {
					t.Errorf("lookup of %d bytes of a record: %v, %v", cut, m, err)
				}
			}
			t.Append(p.end()-1, p.b[len(p.b)-1:])
			t.Visible(topic, 0, 2)
			Equal(t, "the second body", string(t.Read(topic, 0, 1, 1)[0].Body), body(1))
		},
	},
	Law{
		ID:     "replication-022",
		Says:   "A log that comes byte by byte is the same log.",
		Why:    "a network may deliver so",
		Source: "ha-protocol.md",
		Check: func(t *T) {
			topic := t.Topic("")
			p := newTape(t, 0)
			for i := range 2 {
				p.add(t.Message(topic, 0, body(i)))
			}
			for i := range p.b {
				t.Append(int64(i), p.b[i:i+1])
			}
			t.Visible(topic, 0, 2)
			t.Read(topic, 0, 0, 2)
			Equal(t, "the log's end", t.Store().MaxPhyOffset(), p.end())
		},
	},
	Law{
		ID:     "replication-023",
		Says:   "Bytes for any place but the log's end are refused with ErrOffsetMismatch, and change nothing.",
		Why:    "the original appends them at the wrong place, or asks for the same ones for ever",
		Source: "store.OffsetMismatchError, architecture: damage",
		Check: func(t *T) {
			a := need[RawAppender](t)
			topic := t.Topic("")
			p := newTape(t, 0)
			p.add(t.Message(topic, 0, body(0)))
			p.play()
			q := newTape(t, p.end())
			q.next[topic] = 1
			q.add(t.Message(topic, 0, body(1)))
			for _, at := range []int64{p.end() + 1, p.end() - 1, 0, p.end() + smallSegment} {
				if err := a.AppendToCommitLog(at, q.b); !errors.Is(err, store.ErrOffsetMismatch) {
					t.Errorf("bytes for %d of a log that ends at %d: %v", at, p.end(), err)
				}
				Equal(t, "the log's end", t.Store().MaxPhyOffset(), p.end())
			}
			q.play()
			t.Visible(topic, 0, 2)
			t.Read(topic, 0, 0, 2)
		},
	},
	Law{
		ID:     "replication-024",
		Says:   "The refusal says both offsets: where the log ends, and for where the bytes were.",
		Why:    "an operator needs both to tell a slave that is ahead from one that is behind",
		Source: "store.OffsetMismatchError",
		Check: func(t *T) {
			p := newTape(t, 0)
			p.add(t.Message(t.Topic(""), 0, body(0)))
			p.play()
			err := need[RawAppender](t).AppendToCommitLog(p.end()+7, p.b)
			var mismatch *store.OffsetMismatchError
			if !errors.As(err, &mismatch) || mismatch.Want != p.end() || mismatch.Got != p.end()+7 {
				t.Errorf("bytes for %d of a log that ends at %d: %v", p.end()+7, p.end(), err)
			}
		},
	},
	Law{
		ID:     "replication-025",
		Says:   "An empty log begins with the segment of the first bytes that come.",
		Why:    "a slave may begin with its master's last segment, and offsets must be the master's",
		Source: "ha-protocol.md, reports 50",
		Check: func(t *T) {
			topic := t.Topic("")
			p := newTape(t, 3*smallSegment)
			at := p.add(t.Message(topic, 0, body(0)))
			p.play()
			t.Visible(topic, 0, 1)
			Equal(t, "the log's beginning", t.Store().MinPhyOffset(), 3*smallSegment)
			Equal(t, "the log's end", t.Store().MaxPhyOffset(), p.end())
			got, err := t.Store().PhyOffset(topic, 0, 0)
			if err != nil || got != at {
				t.Errorf("the message lies at %d, %v; want %d", got, err, at)
			}
		},
	},
	Law{
		ID:     "replication-026",
		Says:   "A queue begins with the first offset that its records have.",
		Why:    "the master deleted what was before; the slave must not number anew",
		Source: "consumequeue-format.md 2.3 (pre-blank)",
		Check: func(t *T) {
			topic := t.Topic("")
			p := newTape(t, 5*smallSegment)
			p.next[topic] = 17
			p.add(t.Message(topic, 0, body(0)))
			p.add(t.Message(topic, 0, body(1)))
			p.play()
			t.Visible(topic, 0, 19)
			Equal(t, "the minimum", t.Store().MinOffset(topic, 0), 17)
			Equal(t, "the maximum", t.Store().MaxOffset(topic, 0), 19)
			g := t.From(topic, 17, 0, nil)
			t.Answers("from the minimum", g, store.Found, 19, 2)
			t.Offsets("from the minimum", g, 17, 18)
			Equal(t, "the status below the minimum", t.From(topic, 16, 0, nil).Status, store.OffsetTooSmall)
		},
	},
	Law{
		ID:     "replication-027",
		Says:   "Records keep the store times that the master gave them.",
		Why:    "searches by time and retention must mean the same on both",
		Source: "ha-protocol.md",
		Check: func(t *T) {
			topic := t.Topic("")
			p := newTape(t, 0)
			var at []int64
			for i := range 3 {
				at = append(at, p.add(t.Message(topic, 0, body(i))))
			}
			p.play()
			t.Visible(topic, 0, 3)
			for i := range int64(3) {
				if got, err := t.Store().StoreTime(topic, 0, i); err != nil || got.UnixMilli() != taped+at[i] {
					t.Errorf("message %d was stored at %v, %v; want %d ms", i, got, err, taped+at[i])
				}
			}
		},
	},
	Law{
		ID:     "replication-028",
		Says:   "The log that a slave hands on is the one that it was given, byte for byte.",
		Why:    "a slave's slave, and a later master, serve from it",
		Source: "ha-protocol.md",
		Check: func(t *T) {
			l := need[LogReader](t)
			p := newTape(t, 0)
			for i := range 9 {
				p.add(t.Message(t.Topic(""), int32(i), strings.Repeat(body(i), i)))
			}
			p.play()
			for _, at := range []int64{0, 1, 100, p.end() - 1} {
				v, err := l.CommitLogData(at, 0)
				if err != nil {
					t.Fatalf("log data at %d: %v", at, err)
				}
				if !bytes.Equal(v.Bytes, p.b[at:]) {
					t.Errorf("the log's %d bytes from %d on are not those that were given: %d bytes", len(p.b[at:]), at, len(v.Bytes))
				}
				v.Release()
			}
			if v, err := l.CommitLogData(p.end(), 0); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("log data at the log's end: %d bytes, %v", len(v.Bytes), err)
			}
			v, err := l.CommitLogData(10, 20)
			if err != nil || !bytes.Equal(v.Bytes, p.b[10:30]) {
				t.Errorf("20 bytes of the log from 10 on: %d bytes, %v", len(v.Bytes), err)
			}
			v.Release()
		},
	},
	Law{
		ID:     "replication-029",
		Says:   "The blank at a segment's end is no message, and the next segment's records are.",
		Why:    "it is counted in bytes but in no queue",
		Source: "commitlog-format.md 1.4, dispatch-and-read.md 5.1",
		Check: func(t *T) {
			topic := t.Topic("")
			p := newTape(t, 0)
			p.add(t.Message(topic, 0, body(0)))
			blank := p.end()
			p.blank(smallSegment)
			p.play()
			q := newTape(t, p.end())
			q.next[topic] = 1
			at := q.add(t.Message(topic, 0, body(1)))
			q.play()
			t.Visible(topic, 0, 2)
			Equal(t, "the queue's end", t.Store().MaxOffset(topic, 0), 2)
			Equal(t, "the place of the next segment's first record", t.From(topic, 1, 0, nil).Records[0].PhyOffset, at)
			if m, err := need[store.Looker](t).Lookup(blank); !errors.Is(err, store.ErrNotARecord) {
				t.Errorf("lookup of the blank: %v, %v", m, err)
			}
		},
	},
	Law{
		ID:     "replication-030",
		Says:   "A slave does not correct offsets: outside of a queue, the next offset is the one that was asked for.",
		Why:    "a slave may be behind: a consumer must not be set back by it",
		Source: "dispatch-and-read.md 5.3 (corr)",
		Check: func(t *T) {
			topic := t.Topic("")
			p := newTape(t, 0)
			p.next[topic] = 5
			p.add(t.Message(topic, 0, body(0)))
			p.play()
			t.Visible(topic, 0, 6)
			t.Answers("below the minimum", t.From(topic, 2, 0, nil), store.OffsetTooSmall, 2, 0)
			t.Answers("beyond the end", t.From(topic, 9, 0, nil), store.OffsetOverflowBadly, 9, 0)
			t.Answers("an unknown queue", t.From(t.Topic("none"), 9, 0, nil), store.NoMessageInQueue, 9, 0)
			t.Answers("within", t.From(topic, 5, 0, nil), store.Found, 6, 1)
		},
	},
	Law{
		ID:     "replication-031",
		Says:   "With offsetCheckInSlave a slave corrects offsets as a master does.",
		Why:    "it is for those who consume from slaves for good",
		Source: "dispatch-and-read.md 5.3 (corr)",
		Config: Config{Role: store.Slave, OffsetCheckInSlave: true, SegmentSize: smallSegment},
		Check: func(t *T) {
			topic := t.Topic("")
			p := newTape(t, 0)
			p.next[topic] = 5
			p.add(t.Message(topic, 0, body(0)))
			p.play()
			t.Visible(topic, 0, 6)
			t.Answers("below the minimum", t.From(topic, 2, 0, nil), store.OffsetTooSmall, 5, 0)
			t.Answers("beyond the end", t.From(topic, 9, 0, nil), store.OffsetOverflowBadly, 6, 0)
			t.Answers("an unknown queue", t.From(t.Topic("none"), 9, 0, nil), store.NoMessageInQueue, 0, 0)
		},
	},
	Law{
		ID:     "replication-032",
		Says:   "A slave that becomes master behind half a record gives that up, and its first message follows the last whole record.",
		Why:    "half a record in the midst of a log would be damage",
		Source: "store: SetRole",
		Check: func(t *T) {
			promoter := need[Promoter](t)
			topic := t.Topic("")
			p := newTape(t, 0)
			p.add(t.Message(topic, 0, body(0)))
			whole := p.end()
			p.add(t.Message(topic, 0, body(1)))
			t.Append(0, p.b[:p.end()-9])
			if err := promoter.Promote(t.Ctx()); err != nil {
				t.Fatalf("promote: %v", err)
			}
			r := t.Put(t.Message(topic, 0, body(2)))
			Equal(t, "the place of the first put", r.PhyOffset, whole)
			Equal(t, "its queue offset", r.QueueOffset, 1)
			t.Visible(topic, 0, 2)
			Equal(t, "the queue's second body", string(t.Read(topic, 0, 1, 1)[0].Body), body(2))
		},
	},
	Law{
		ID:     "replication-033",
		Says:   "A promoted slave takes puts and corrects offsets, as any master.",
		Why:    "consumers and producers come to it",
		Source: "dispatch-and-read.md 5.3 (corr), 5.5",
		Check: func(t *T) {
			promoter := need[Promoter](t)
			topic := t.Topic("")
			p := newTape(t, 0)
			p.add(t.Message(topic, 0, body(0)))
			p.play()
			t.Visible(topic, 0, 1)
			t.Refuse("a put before", t.Message(topic, 0, "x"), store.ErrServiceNotAvailable, "SERVICE_NOT_AVAILABLE")
			if err := promoter.Promote(t.Ctx()); err != nil {
				t.Fatalf("promote: %v", err)
			}
			Equal(t, "the queue offset of the first put", t.Put(t.Message(topic, 0, body(1))).QueueOffset, 1)
			t.Visible(topic, 0, 2)
			t.Answers("beyond the end", t.From(topic, 9, 0, nil), store.OffsetOverflowBadly, 2, 0)
			t.Answers("below the minimum", t.From(topic, -1, 0, nil), store.OffsetTooSmall, 0, 0)
		},
	},
	Law{
		ID:     "replication-034",
		Says:   "A slave that is opened again goes on receiving where it says that its log ends.",
		Why:    "it asks its master for the rest from there",
		Source: "ha-protocol.md",
		Check: func(t *T) {
			need[Reopener](t)
			topic := t.Topic("")
			p := newTape(t, 0)
			for i := range 3 {
				p.add(t.Message(topic, 0, body(i)))
			}
			t.Append(0, p.b[:p.end()-9])
			reopen(t)
			at := t.Store().MaxPhyOffset()
			if at > p.end()-9 {
				t.Fatalf("the log ends at %d, and only %d bytes were received", at, p.end()-9)
			}
			t.Append(at, p.b[at:])
			t.Visible(topic, 0, 3)
			for i, m := range t.Read(topic, 0, 0, 3) {
				Equal(t, "a body", string(m.Body), body(i))
			}
		},
	},
	Law{
		ID:     "replication-035",
		Says:   "Prepared messages of a master's log are in no queue of the slave, and found by key.",
		Why:    "after a change of master the new one checks back with the producer",
		Source: "dispatch-and-read.md 5.2, index.md 3.3",
		Check: func(t *T) {
			topic := t.Topic("")
			p := newTape(t, 0)
			m := t.Message(topic, 0, body(0), record.PropertyKeys, "half")
			m.SysFlag = m.SysFlag.WithTransaction(record.TransactionPrepared)
			at := p.add(m)
			p.add(t.Message(topic, 0, body(1)))
			p.play()
			t.Visible(topic, 0, 1)
			Equal(t, "the queue's end", t.Store().MaxOffset(topic, 0), 1)
			Equal(t, "the first message's body", string(t.Read(topic, 0, 0, 1)[0].Body), body(1))
			t.Finds("the prepared message", of(topic, "half"), at)
		},
	},
	Law{
		ID:     "replication-036",
		Says:   "Bytes that come after Close are refused with ErrClosed.",
		Why:    "a connection may outlive its store by a moment",
		Source: "store.ErrClosed",
		Check: func(t *T) {
			a := need[RawAppender](t)
			p := newTape(t, 0)
			p.add(t.Message(t.Topic(""), 0, body(0)))
			p.play()
			if err := t.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			if err := a.AppendToCommitLog(p.end(), p.b); !errors.Is(err, store.ErrClosed) {
				t.Errorf("bytes for a closed store: %v", err)
			}
		},
	},
)
