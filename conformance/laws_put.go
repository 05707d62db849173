package conformance

import (
	"context"
	"errors"
	"math"
	"strings"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

func init() { register(putLaws...) }

// smallSegments lets laws meet the end of a segment.
var smallSegments = Config{SegmentSize: 8 << 10}

var putLaws = []Law{
	{
		ID:     "put-001",
		Says:   "The messages of a queue get the queue offsets 0, 1, 2, … in the order of their puts.",
		Why:    "consumers go on at the next offset: a gap is waited for for ever, an offset that is given twice hides a message",
		Source: "commitlog-format.md 1.11",
		Tests:  []string{"DefaultMessageStoreTest.testWriteAndRead"},
		Check: func(t *T) {
			topic := t.Topic("")
			for i := range int64(7) {
				Equal(t, "the queue offset of a put", t.Put(t.Message(topic, 0, "in order")).QueueOffset, i)
			}
		},
	},
	{
		ID:     "put-002",
		Says:   "A topic of 127 bytes is stored and one of 128 is refused with MESSAGE_ILLEGAL.",
		Why:    "version 1 of a record has one signed byte for the topic's length: a longer topic would corrupt the log",
		Source: "commitlog-format.md 1.13",
		Check: func(t *T) {
			topic := t.TopicOf(127, "")
			t.Put(t.Message(topic, 0, "x"))
			t.Illegal("a topic of 128 bytes", t.Message(topic+"t", 0, "x"))
			t.Settle(topic, 0, 1)
			Equal(t, "the stored topic", t.Read(topic, 0, 0, 1)[0].Topic, topic)
		},
	},
	{
		ID:     "put-003",
		Says:   "Properties of 32,767 bytes are stored; with a byte more in fewer characters the put is refused with PROPERTIES_SIZE_EXCEEDED.",
		Why:    "a record has two signed bytes for the length of its properties",
		Source: "commitlog-format.md 1.13",
		Tests:  []string{"DefaultMessageStoreTest.testPutLongMessage"},
		Config: Config{RecordSize: 40 << 10},
		Check: func(t *T) {
			topic := t.Topic("")
			m := t.Message(topic, 0, "x", "k", strings.Repeat("v", 32765))
			t.Put(clone(m))
			t.Refuse("properties of 32,768 bytes", t.Message(topic, 0, "x", "k", strings.Repeat("é", 16383)), store.ErrPropertiesTooLarge, "PROPERTIES_SIZE_EXCEEDED")
			t.Settle(topic, 0, 1)
			t.Same("properties of 32,767 bytes", t.Read(topic, 0, 0, 1)[0], m)
		},
	},
	{
		ID:     "put-004",
		Says:   "Properties of 32,768 characters are refused with MESSAGE_ILLEGAL, as too long a text and not as too many bytes.",
		Why:    "producers tell by the status whether to send less, and the original looks at characters before it looks at bytes",
		Source: "dispatch-and-read.md 5.5 row 5",
		Check: func(t *T) {
			t.Illegal("properties of 32,768 characters", t.Message(t.Topic(""), 0, "x", "k", strings.Repeat("v", 32766)))
		},
	},
	{
		ID:     "put-005",
		Says:   "A body of the maximum size is stored, one with a byte more is refused with MESSAGE_ILLEGAL.",
		Why:    "the limit is what a broker tells its producers",
		Source: "commitlog-format.md 1.13",
		Tests:  []string{"DefaultMessageStoreTest.testPutLongMessage"},
		Config: Config{MaxMessageSize: 6000, RecordSize: 7000},
		Check: func(t *T) {
			topic := t.Topic("")
			m := t.Message(topic, 0, strings.Repeat("b", 6000))
			t.Put(clone(m))
			t.Illegal("a body of a byte too many", t.Message(topic, 0, strings.Repeat("b", 6001)))
			t.Settle(topic, 0, 1)
			t.Same("a body of the maximum size", t.Read(topic, 0, 0, 1)[0], m)
		},
	},
	{
		ID:     "put-006",
		Says:   "By default the maximum is 4 MiB, and a body of 4 MiB and one byte is refused with MESSAGE_ILLEGAL.",
		Why:    "clients are built for this default",
		Source: "commitlog-format.md 1.13",
		Tests:  []string{"DefaultMessageStoreTest.testPutMsgExceedsMaxLength"},
		Config: Config{RecordSize: 4<<20 + 4<<10},
		Check: func(t *T) {
			topic := t.Topic("")
			m := t.Message(topic, 0, strings.Repeat("b", 4<<20))
			r := t.Put(m)
			t.Illegal("a body of 4 MiB and a byte", t.Message(topic, 0, strings.Repeat("b", 4<<20+1)))
			if r.Size < 4<<20 {
				t.Errorf("a record of %d bytes cannot hold a body of 4 MiB", r.Size)
			}
		},
	},
	{
		ID:     "put-007",
		Says:   "The limit of a body does not count topic and properties: with both at their limits the largest body is stored.",
		Why:    "the original allows the whole record 64 KiB more than the body",
		Source: "commitlog-format.md 1.13",
		Tests:  []string{"DefaultMessageStoreTest.testPutLongMessage"},
		Config: Config{MaxMessageSize: 6000, RecordSize: 40 << 10},
		Check: func(t *T) {
			topic := t.TopicOf(127, "")
			m := t.Message(topic, 0, strings.Repeat("b", 6000), "k", strings.Repeat("v", 32765))
			m.BornHost, m.StoreHost = producer6, broker6
			t.Put(clone(m))
			t.Settle(topic, 0, 1)
			t.Same("everything at its limit", t.Read(topic, 0, 0, 1)[0], m)
		},
	},
	{
		ID:     "put-008",
		Says:   "A record that fills a segment but for 8 bytes is stored, one with a byte more is refused with MESSAGE_ILLEGAL and leaves nothing.",
		Why:    "behind each record a segment keeps 8 bytes for its blank; the original answers PUT_OK to what does not fit, loses it, and blanks two files",
		Source: "commitlog-format.md 1.11; defects 1",
		Config: smallSegments,
		Check: func(t *T) {
			topic, segment := t.Topic(""), int(t.law.Config.SegmentSize)
			m := t.Sized(topic, 0, segment-8)
			r := t.Put(clone(m))
			Equal(t, "the place in its segment", r.PhyOffset%int64(segment), 0)
			end := t.Store().MaxPhyOffset()
			t.Illegal("a record that leaves 7 bytes", t.Sized(topic, 0, segment-7))
			Equal(t, "the log's end after the refusal", t.Store().MaxPhyOffset(), end)
			t.Settle(topic, 0, 1)
			t.Same("the largest record", t.Read(topic, 0, 0, 1)[0], m)
		},
	},
	{
		ID:     "put-009",
		Says:   "A record that leaves 8 bytes of its segment is stored there.",
		Why:    "two engines that open one directory, and a master and its slave, must agree on where a segment ends",
		Source: "commitlog-format.md 1.11",
		Config: smallSegments,
		Check: func(t *T) {
			topic := t.Topic("")
			t.Fill(t.Topic("f"), 308)
			end := t.Store().MaxPhyOffset()
			r := t.Put(t.Sized(topic, 0, 300))
			Equal(t, "the place of a record for which there is just room", r.PhyOffset, end)
			t.Settle(topic, 0, 1)
			Equal(t, "its size as read", t.Read(topic, 0, 0, 1)[0].Size, 300)
		},
	},
	{
		ID:     "put-010",
		Says:   "A record that would leave 7 bytes of its segment is stored at the beginning of the next one.",
		Why:    "two engines that open one directory, and a master and its slave, must agree on where a segment ends",
		Source: "commitlog-format.md 1.11",
		Config: smallSegments,
		Check: func(t *T) {
			topic, segment := t.Topic(""), t.law.Config.SegmentSize
			t.Fill(t.Topic("f"), 307)
			end := t.Store().MaxPhyOffset()
			r := t.Put(t.Sized(topic, 0, 300))
			Equal(t, "the place of a record for which a byte is missing", r.PhyOffset, end+307)
			Equal(t, "its place in the segment", r.PhyOffset%segment, 0)
			t.Settle(topic, 0, 1)
			Equal(t, "its size as read", t.Read(topic, 0, 0, 1)[0].Size, 300)
		},
	},
	{
		ID:     "put-011",
		Says:   "No record crosses the end of a segment, and behind the last of each at least 8 bytes stay free.",
		Why:    "readers find the end of a segment's records by the blank behind them",
		Source: "commitlog-format.md 1.11",
		Config: smallSegments,
		Check: func(t *T) {
			topic, segment := t.Topic(""), t.law.Config.SegmentSize
			for i := range 60 {
				r := t.Put(t.Sized(topic, 0, 200+i*37%900))
				if free := segment - r.PhyOffset%segment - int64(r.Size); free < 8 {
					t.Errorf("the record at %d of %d bytes leaves %d bytes of its segment", r.PhyOffset, r.Size, free)
				}
			}
			t.Settle(topic, 0, 60)
			for i, m := range t.Read(topic, 0, 0, 60) {
				Equal(t, "a record's size as read", m.Size, 200+i*37%900)
			}
		},
	},
	{
		ID:     "put-012",
		Says:   "An empty topic is refused with MESSAGE_ILLEGAL.",
		Why:    "a message without a topic can be in no queue",
		Source: "commitlog-format.md 1.13",
		Check:  func(t *T) { t.Illegal("an empty topic", t.Message("", 0, "x")) },
	},
	{
		ID:     "put-013",
		Says:   "A topic that cannot name a directory is refused with MESSAGE_ILLEGAL.",
		Why:    "queues are directories named for their topics: \"../x\" would be written outside of the store",
		Source: "consumequeue-format.md 2.1",
		Check: func(t *T) {
			for _, topic := range []string{".", "..", "/", "a/b", "../a", "a\x00b"} {
				t.Illegal("topic "+topic, t.Message(topic, 0, "x"))
			}
		},
	},
	{
		ID:     "put-014",
		Says:   "A topic of at most 127 characters but more than 127 bytes is refused with MESSAGE_ILLEGAL.",
		Why:    "the original counts characters, accepts it, and writes a record that nobody can read",
		Source: "commitlog-format.md 1.13; defects 14",
		Check: func(t *T) {
			t.Illegal("a topic of 64 characters and 128 bytes", t.Message(strings.Repeat("é", 64), 0, "x"))
		},
	},
	{
		ID:     "put-015",
		Says:   "A topic may have letters of any script, as long as it keeps to its bytes.",
		Why:    "topics are UTF-8 on disk",
		Source: "commitlog-format.md 1.2",
		Check: func(t *T) {
			topic := t.Topic("é漢字")
			t.Put(t.Message(topic, 0, "x"))
			t.Settle(topic, 0, 1)
			Equal(t, "the stored topic", t.Read(topic, 0, 0, 1)[0].Topic, topic)
		},
	},
	{
		ID:     "put-016",
		Says:   "A negative queue id is refused with MESSAGE_ILLEGAL, the largest is stored.",
		Why:    "queue ids name directories, and clients count them from 0",
		Source: "consumequeue-format.md 2.1",
		Check: func(t *T) {
			topic := t.Topic("")
			t.Illegal("queue id -1", t.Message(topic, -1, "x"))
			t.Illegal("the least queue id", t.Message(topic, math.MinInt32, "x"))
			t.Put(t.Message(topic, math.MaxInt32, "x"))
			t.Settle(topic, math.MaxInt32, 1)
			Equal(t, "the stored queue id", t.Read(topic, math.MaxInt32, 0, 1)[0].QueueID, math.MaxInt32)
		},
	},
	{
		ID:     "put-017",
		Says:   "No message at all is refused with MESSAGE_ILLEGAL.",
		Why:    "a broker that decodes requests gets there, and a panic would take all its queues along",
		Source: "dispatch-and-read.md 5.5",
		Check:  func(t *T) { t.Illegal("nil", nil) },
	},
	{
		ID:     "put-018",
		Says:   "Properties that hold a zero byte are refused with MESSAGE_ILLEGAL.",
		Why:    "after a crash they could not be told from a sector that was lost, for no checksum covers them",
		Source: "architecture 3, Damage; package store, Differences",
		Check: func(t *T) {
			t.Illegal("properties with a zero byte", t.Message(t.Topic(""), 0, "x", "k", "v\x00w"))
		},
	},
	{
		ID:     "put-019",
		Says:   "Where version 2 is allowed a topic of 255 bytes is stored and one of 256 is refused with MESSAGE_ILLEGAL.",
		Why:    "a directory's name has at most 255 bytes",
		Source: "commitlog-format.md 1.13",
		Config: Config{AllowV2: true},
		Check: func(t *T) {
			for _, n := range []int{128, 255} {
				topic := t.TopicOf(n, "")
				t.Put(t.Message(topic, 0, "x"))
				t.Settle(topic, 0, 1)
				m := t.Read(topic, 0, 0, 1)[0]
				Equal(t, "the stored topic", m.Topic, topic)
				Equal(t, "the version of a record with a long topic", m.Version, record.V2)
			}
			t.Illegal("a topic of 256 bytes", t.Message(t.TopicOf(256, ""), 0, "x"))
		},
	},
	{
		ID:     "put-020",
		Says:   "Where version 2 is allowed, short topics still are version 1.",
		Why:    "RocketMQ 4.9.8 cannot read version 2: what need not be is not",
		Source: "commitlog-format.md 1.10",
		Config: Config{AllowV2: true},
		Check: func(t *T) {
			topic := t.TopicOf(127, "")
			t.Put(t.Message(topic, 0, "x"))
			t.Settle(topic, 0, 1)
			Equal(t, "the version of a record with a topic of 127 bytes", t.Read(topic, 0, 0, 1)[0].Version, record.V1)
		},
	},
	{
		ID:     "put-021",
		Says:   "A message that asks for version 2 is refused with MESSAGE_ILLEGAL where that is not allowed.",
		Why:    "RocketMQ 4.9.8 takes a record of version 2 for damage, and cuts the log there",
		Source: "commitlog-format.md 1.3",
		Check: func(t *T) {
			m := t.Message(t.Topic(""), 0, "x")
			m.Version = record.V2
			t.Illegal("version 2", m)
		},
	},
	{
		ID:     "put-022",
		Says:   "A slave refuses puts with SERVICE_NOT_AVAILABLE.",
		Why:    "its log is its master's: a message of its own would make them two",
		Source: "dispatch-and-read.md 5.5 row 2",
		Config: Config{Role: store.Slave},
		Check: func(t *T) {
			t.Refuse("a put to a slave", t.Message(t.Topic(""), 0, "x"), store.ErrServiceNotAvailable, "SERVICE_NOT_AVAILABLE")
			Equal(t, "the log's end", t.Store().MaxPhyOffset(), 0)
		},
	},
	{
		ID:     "put-023",
		Says:   "Once a put's context is done it is refused with the context's error, and nothing is stored.",
		Why:    "the producer has gone: what it does not know of it will send again",
		Source: "package store, Putter",
		Check: func(t *T) {
			ctx, cancel := context.WithCancel(t.Ctx())
			cancel()
			end := t.Store().MaxPhyOffset()
			if _, err := t.Store().Put(ctx, t.Message(t.Topic(""), 0, "x")); !errors.Is(err, context.Canceled) {
				t.Errorf("put: %v, want %v", err, context.Canceled)
			}
			Equal(t, "the log's end", t.Store().MaxPhyOffset(), end)
		},
	},
	{
		ID:     "put-024",
		Says:   "A refusal uses no queue offset.",
		Why:    "consumers would wait for the message of that offset for ever",
		Source: "commitlog-format.md 1.11",
		Tests:  []string{"DefaultMessageStoreTest.testPutMessage_whenMessagePropertyIsTooLong"},
		Config: Config{MaxMessageSize: 6000},
		Check: func(t *T) {
			topic := t.Topic("")
			t.Put(t.Message(topic, 0, "x"))
			for i, m := range []*record.Message{
				t.Message(topic, 0, strings.Repeat("b", 6001)),
				t.Message(topic, 0, "x", "k", strings.Repeat("é", 16383)),
				t.Message(topic, 0, "x", "k", strings.Repeat("v", 32766)),
				t.Message(topic, 0, "x", "k", "\x00"),
			} {
				if _, err := t.Store().Put(t.Ctx(), m); err == nil {
					t.Errorf("not refused: %d bytes of body, %d of properties", len(m.Body), len(m.Properties))
				}
				Equal(t, "the queue offset after a refusal", t.Put(t.Message(topic, 0, "x")).QueueOffset, int64(i+1))
			}
		},
	},
	{
		ID:     "put-025",
		Says:   "A refusal leaves nothing in the log.",
		Why:    "slaves copy the log byte for byte, and recovery takes every record in it for a message",
		Source: "commitlog-format.md 1.10",
		Config: Config{MaxMessageSize: 6000},
		Check: func(t *T) {
			topic := t.Topic("")
			end := t.Store().MaxPhyOffset()
			for _, m := range []*record.Message{
				t.Message("", 0, "x"),
				t.Message(topic, -1, "x"),
				t.Message(topic, 0, strings.Repeat("b", 6001)),
				t.Message(topic, 0, "x", "k", strings.Repeat("é", 16383)),
			} {
				if _, err := t.Store().Put(t.Ctx(), m); err == nil {
					t.Errorf("not refused: topic %q, queue %d, %d bytes of body, %d of properties", m.Topic, m.QueueID, len(m.Body), len(m.Properties))
				}
				Equal(t, "the log's end after a refusal", t.Store().MaxPhyOffset(), end)
			}
		},
	},
	{
		ID:     "put-026",
		Says:   "A refused message is as it was.",
		Why:    "the producer's side puts it right and sends it again",
		Source: "package store, Putter",
		Check: func(t *T) {
			m := t.Message(t.Topic(""), 0, "x", "k", strings.Repeat("é", 16383))
			m.BornHost = producer6
			before := clone(m)
			_, _ = t.Store().Put(t.Ctx(), m)
			t.Same("the refused message", m, before)
			Equal(t, "its system flag", m.SysFlag, before.SysFlag)
			Equal(t, "its store time", m.StoreTimestamp, before.StoreTimestamp)
			Equal(t, "its size", m.Size, before.Size)
			Equal(t, "its queue offset", m.QueueOffset, before.QueueOffset)
			Equal(t, "its place", m.PhyOffset, before.PhyOffset)
		},
	},
}
