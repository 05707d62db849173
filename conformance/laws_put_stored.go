package conformance

import (
	"bytes"
	"math"
	"strings"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

func init() { register(putStoredLaws...) }

// putStoredLaws are about what is stored, and how it is answered; putLaws about what is taken and what is refused.
var putStoredLaws = []Law{
	{
		ID:     "put-027",
		Says:   "A stored message carries its queue offset, place, store time, size and CRC, as the result does.",
		Why:    "brokers answer producers out of either",
		Source: "package store, Putter",
		Check: func(t *T) {
			m := t.Message(t.Topic(""), 0, "a body")
			r := t.Put(m)
			Equal(t, "the message's place", m.PhyOffset, r.PhyOffset)
			Equal(t, "the message's queue offset", m.QueueOffset, r.QueueOffset)
			Equal(t, "the message's store time", m.StoreTimestamp, r.StoreTimestamp)
			Equal(t, "the message's size", m.Size, r.Size)
			Equal(t, "the message's CRC", m.BodyCRC, record.BodyCRC([]byte("a body")))
			Equal(t, "the result's number of messages", r.Messages, 1)
			Equal(t, "the result's store host", r.StoreHost, broker)
			Equal(t, "the result's list of places", len(r.Offsets), 0)
			Equal(t, "the result's status", r.Status, store.PutOK)
		},
	},
	{
		ID:     "put-028",
		Says:   "A record is as long as its format says: 91 bytes with IPv4 hosts, and topic, body and properties.",
		Why:    "sizes are what slaves, limits and queue units go by",
		Source: "commitlog-format.md 1.2",
		Check: func(t *T) {
			topic := t.Topic("")
			Equal(t, "the size of a record", t.Put(t.Message(topic, 0, "body", "k", "v")).Size, 91+len(topic)+4+3)
		},
	},
	{
		ID:     "put-029",
		Says:   "Messages lie in the log one behind the other: each begins where the log ended, which then ends behind it.",
		Why:    "the log is one stream: a hole in it is the end of it for readers and slaves",
		Source: "commitlog-format.md 1.11",
		Check: func(t *T) {
			topic := t.Topic("")
			at := end(t.Put(t.Message(topic, 0, "x")))
			for i := range 4 {
				Equal(t, "the log's end", t.Store().MaxPhyOffset(), at)
				r := t.Put(t.Message(topic, int32(i), strings.Repeat("x", i)))
				if r.PhyOffset != at && r.PhyOffset < at+8 { // a segment may have ended
					t.Errorf("a record begins at %d, the one before it ends at %d", r.PhyOffset, at)
				}
				at = end(r)
			}
		},
	},
	{
		ID:     "put-030",
		Says:   "What a producer gave is what a consumer gets: queue, flag, system flag, born time, hosts, reconsume times, prepared offset, body and properties.",
		Why:    "the store is no place where messages change",
		Source: "commitlog-format.md 1.2",
		Tests:  []string{"DefaultMessageStoreTest.testWriteAndRead", "AppendCallbackTest.testAppendMessageBatchSucc"},
		Check: func(t *T) {
			topic := t.Topic("")
			m := t.Message(topic, 3, "a body", "TAGS", "a", "KEYS", "k1 k2", "x", "y")
			m.Flag, m.SysFlag, m.BornTimestamp, m.ReconsumeTimes, m.PreparedTransactionOffset = 42, record.FlagMultiTags, 1_234_567_890_123, 7, 99
			t.Put(clone(m))
			t.Settle(topic, 3, 1)
			t.Same("the message", t.Read(topic, 3, 0, 1)[0], m)
		},
	},
	{
		ID:     "put-031",
		Says:   "Numbers of a message that mean nothing to the store are kept, however large or negative.",
		Why:    "they are the producers' and consumers' own",
		Source: "commitlog-format.md 1.2",
		Check: func(t *T) {
			topic := t.Topic("")
			ms := []*record.Message{t.Message(topic, 0, "least"), t.Message(topic, 0, "largest")}
			ms[0].Flag, ms[0].BornTimestamp, ms[0].ReconsumeTimes, ms[0].PreparedTransactionOffset = math.MinInt32, math.MinInt64, math.MinInt32, math.MinInt64
			ms[1].Flag, ms[1].BornTimestamp, ms[1].ReconsumeTimes, ms[1].PreparedTransactionOffset = math.MaxInt32, math.MaxInt64, math.MaxInt32, math.MaxInt64
			for _, m := range ms {
				t.Put(clone(m))
			}
			t.Settle(topic, 0, 2)
			for i, m := range t.Read(topic, 0, 0, 2) {
				t.Same("the "+string(ms[i].Body), m, ms[i])
			}
		},
	},
	{
		ID:     "put-032",
		Says:   "An empty body is a body.",
		Why:    "producers send messages of nothing but properties",
		Source: "commitlog-format.md 1.13",
		Check: func(t *T) {
			topic := t.Topic("")
			nothing := t.Message(topic, 0, "")
			nothing.Body = nil
			t.Put(nothing)
			t.Put(t.Message(topic, 0, ""))
			t.Settle(topic, 0, 2)
			for _, m := range t.Read(topic, 0, 0, 2) {
				Equal(t, "the length of an empty body", len(m.Body), 0)
				Equal(t, "the CRC of an empty body", m.BodyCRC, 0)
			}
		},
	},
	{
		ID:     "put-033",
		Says:   "A body may be any bytes, those of a record, of a blank and zeros included.",
		Why:    "bodies are the producers' own; what looks for records in the log must not find them there",
		Source: "commitlog-format.md 1.2",
		Check: func(t *T) {
			topic := t.Topic("")
			every := make([]byte, 256)
			for i := range every {
				every[i] = byte(i)
			}
			blank := make([]byte, 16)
			record.PutBlank(blank, 16)
			whole, err := record.AppendRecord(nil, t.Message(topic, 0, "inner"), record.Limits{})
			if err != nil {
				t.Fatalf("encode: %v", err)
			}
			bodies := [][]byte{every, make([]byte, 512), blank, whole}
			for _, b := range bodies {
				t.Put(t.Message(topic, 0, string(b)))
			}
			t.Settle(topic, 0, int64(len(bodies)))
			for i, m := range t.Read(topic, 0, 0, len(bodies)) {
				if !bytes.Equal(m.Body, bodies[i]) {
					t.Errorf("body %d is %x, want %x", i, m.Body, bodies[i])
				}
			}
		},
	},
	{
		ID:     "put-034",
		Says:   "Born and store host may each be IPv4 or IPv6, in any combination.",
		Why:    "a broker serves producers of both, and the two bits of the system flag say how long a record is",
		Source: "commitlog-format.md 1.4",
		Tests:  []string{"DefaultMessageStoreTest.testWriteAndRead", "AppendCallbackTest.testAppendIPv6HostMessageBatchSucc"},
		Check: func(t *T) {
			topic := t.Topic("")
			var ms []*record.Message
			for _, born := range []record.Host{producer, producer6} {
				for _, stored := range []record.Host{broker, broker6} {
					m := t.Message(topic, 0, born.String()+" "+stored.String())
					m.BornHost, m.StoreHost = born, stored
					t.Put(clone(m))
					ms = append(ms, m)
				}
			}
			t.Settle(topic, 0, 4)
			for i, m := range t.Read(topic, 0, 0, 4) {
				t.Same(string(ms[i].Body), m, ms[i])
				Equal(t, "bit 4 of the system flag", m.SysFlag&record.FlagBornHostV6 != 0, ms[i].BornHost == producer6)
				Equal(t, "bit 5 of the system flag", m.SysFlag&record.FlagStoreHostV6 != 0, ms[i].StoreHost == broker6)
			}
		},
	},
	{
		ID:     "put-035",
		Says:   "A message id has 32 hexadecimal digits with an IPv4 store host and 56 with IPv6: address, port, place.",
		Why:    "clients and consoles find messages by it, and take it apart",
		Source: "commitlog-format.md 1.9",
		Check: func(t *T) {
			topic := t.Topic("")
			r := t.Put(t.Message(topic, 0, "x"))
			Equal(t, "the id", r.MessageID(), record.OffsetMessageID(broker, r.PhyOffset))
			Equal(t, "the length of an id of IPv4", len(r.MessageID()), 32)
			m := t.Message(topic, 0, "x")
			m.StoreHost = broker6
			r = t.Put(m)
			Equal(t, "the id", r.MessageID(), record.OffsetMessageID(broker6, r.PhyOffset))
			Equal(t, "the length of an id of IPv6", len(r.MessageID()), 56)
		},
	},
	{
		ID:     "put-036",
		Says:   "The store sets the system flag's two bits for hosts, whatever they were.",
		Why:    "a client may have copied them from a message of another network; a record whose bits lie cannot be read",
		Source: "commitlog-format.md 1.10 step 3",
		Check: func(t *T) {
			topic := t.Topic("")
			m := t.Message(topic, 0, "x")
			m.BornHost = producer6
			if _, err := t.Store().Put(t.Ctx(), m); err != nil {
				t.Fatalf("put: %v", err)
			}
			Equal(t, "the bits in the message", m.SysFlag, record.FlagBornHostV6)
			t.Settle(topic, 0, 1)
			Equal(t, "the bits in the record", t.Read(topic, 0, 0, 1)[0].SysFlag, record.FlagBornHostV6)
		},
	},
	{
		ID:     "put-037",
		Says:   "A compressed body is stored as it comes, with its flag.",
		Why:    "compression is between producer and consumer",
		Source: "commitlog-format.md 1.4",
		Check: func(t *T) {
			topic := t.Topic("")
			body, err := record.CompressBody(record.CompressionZstd, 0, bytes.Repeat([]byte("body "), 100))
			if err != nil {
				t.Fatalf("compress: %v", err)
			}
			m := t.Message(topic, 0, string(body))
			m.SysFlag = record.SysFlag(0).WithCompression(record.CompressionZstd)
			t.Put(clone(m))
			t.Settle(topic, 0, 1)
			t.Same("the compressed message", t.Read(topic, 0, 0, 1)[0], m)
		},
	},
	{
		ID:     "put-038",
		Says:   "Properties are kept byte for byte, whatever their style.",
		Why:    "RocketMQ 4 and 5 separate them differently, and slaves and signatures compare bytes",
		Source: "commitlog-format.md 1.7",
		Check: func(t *T) {
			topic := t.Topic("")
			styles := []string{"a\x011\x02b\x012", "a\x011\x02b\x012\x02", "\x02\x02a\x011", "a\x011\x02a\x012", "no separator", "a\x01", "é\x01漢"}
			for _, p := range styles {
				m := t.Message(topic, 0, "x")
				m.Properties = record.Properties(p)
				t.Put(m)
			}
			t.Settle(topic, 0, int64(len(styles)))
			for i, m := range t.Read(topic, 0, 0, len(styles)) {
				if string(m.Properties) != styles[i] {
					t.Errorf("properties are %q, want %q", m.Properties, styles[i])
				}
			}
		},
	},
	{
		ID:     "put-039",
		Says:   "Each queue of a topic counts for itself.",
		Why:    "a consumer has some of the queues, and knows nothing of the others",
		Source: "commitlog-format.md 1.11",
		Check: func(t *T) {
			topic := t.Topic("")
			for i := range int64(9) {
				Equal(t, "the queue offset", t.Put(t.Message(topic, int32(i%3), "x")).QueueOffset, i/3)
			}
		},
	},
	{
		ID:     "put-040",
		Says:   "Each topic counts for itself, also one whose name and queue id read like another's.",
		Why:    "the original's table has \"topic-queueId\" for a key",
		Source: "commitlog-format.md 1.11; consumequeue-format.md 2.10",
		Check: func(t *T) {
			for _, q := range []struct {
				name string
				id   int32
			}{{"a", 11}, {"a-1", 1}, {"a-11", 0}, {"a-", 11}, {"A", 11}} {
				t.Put(t.Message(t.Topic(q.name), q.id, q.name))
				t.Visible(t.Topic(q.name), q.id, 1)
			}
			t.Settle(t.Topic("a"), 11, 1)
			for _, name := range []string{"a-1", "a-11", "a-", "A"} {
				id := map[string]int32{"a-1": 1, "a-11": 0, "a-": 11, "A": 11}[name]
				Equal(t, "the end of queue "+name, t.Store().MaxOffset(t.Topic(name), id), 1)
				Equal(t, "the message of queue "+name, string(t.Read(t.Topic(name), id, 0, 1)[0].Body), name)
			}
		},
	},
	{
		ID:     "put-041",
		Says:   "The store time is the time of the put, to the millisecond.",
		Why:    "consumers ask for messages by it, and retention deletes by it",
		Source: "commitlog-format.md 1.10 step 5",
		Clock:  true,
		Check: func(t *T) {
			topic := t.Topic("")
			for range 3 {
				t.Advance(3 * time.Millisecond)
				before := t.Now()
				at := time.UnixMilli(t.Put(t.Message(topic, 0, "clock")).StoreTimestamp)
				if after := t.Now(); at.Before(before.Truncate(time.Millisecond)) || at.After(after) {
					t.Errorf("stored at %v, put between %v and %v", at, before, after)
				}
			}
		},
	},
	{
		ID:     "put-042",
		Says:   "The producer's store time, place, queue offset, CRC and size do not count.",
		Why:    "they may be those of an earlier put of the same message",
		Source: "commitlog-format.md 1.10",
		Clock:  true,
		Check: func(t *T) {
			topic := t.Topic("")
			m := t.Message(topic, 0, "x")
			m.StoreTimestamp, m.PhyOffset, m.QueueOffset, m.BodyCRC, m.Size = 1, 2, 3, 4, 5
			r := t.Put(m)
			Equal(t, "the queue offset", r.QueueOffset, 0)
			t.Settle(topic, 0, 1)
			got := t.Read(topic, 0, 0, 1)[0]
			Equal(t, "the stored queue offset", got.QueueOffset, 0)
			Equal(t, "the stored place", got.PhyOffset, r.PhyOffset)
			Equal(t, "the stored size", got.Size, r.Size)
			if got.StoreTimestamp < t.Now().Add(-time.Hour).UnixMilli() {
				t.Errorf("the stored store time is %d", got.StoreTimestamp)
			}
		},
	},
	{
		ID:     "put-043",
		Says:   "A message that was stored can be put again: it is a new one.",
		Why:    "producers resend",
		Source: "package store, Putter",
		Check: func(t *T) {
			topic := t.Topic("")
			m := t.Message(topic, 0, "again")
			first := t.Put(m)
			second := t.Put(m)
			Equal(t, "the second queue offset", second.QueueOffset, 1)
			if second.PhyOffset < end(first) {
				t.Errorf("the second lies at %d, the first at %d to %d", second.PhyOffset, first.PhyOffset, end(first))
			}
			t.Settle(topic, 0, 2)
			Equal(t, "the second message", string(t.Read(topic, 0, 1, 1)[0].Body), "again")
		},
	},
	{
		ID:     "put-044",
		Says:   "When a put has returned, the message is the caller's again: what becomes of its bytes does not touch what was stored.",
		Why:    "brokers put messages out of buffers that they use again",
		Source: "package store, Putter",
		Check: func(t *T) {
			topic := t.Topic("")
			m := t.Message(topic, 0, "the body", "k", "the value")
			want := clone(m)
			t.Put(m)
			clear(m.Body)
			clear(m.Properties)
			t.Settle(topic, 0, 1)
			t.Same("the message", t.Read(topic, 0, 0, 1)[0], want)
		},
	},
	{
		ID:     "put-045",
		Says:   "A master that waits for slaves and has none answers SLAVE_NOT_AVAILABLE; the message is stored and visible all the same.",
		Why:    "the producer decides whether that is good enough; without slaves nobody could see anything",
		Source: "ha-protocol.md 6.9; dispatch-and-read.md 5.5",
		Config: Config{Role: store.SyncMaster},
		Check: func(t *T) {
			topic := t.Topic("")
			Equal(t, "the status", t.Put(t.Message(topic, 0, "x")).Status, store.SlaveNotAvailable)
			t.Settle(topic, 0, 1)
			Equal(t, "the message", string(t.Read(topic, 0, 0, 1)[0].Body), "x")
		},
	},
	{
		ID:     "put-046",
		Says:   "With the property WAIT=false a put waits for no slave; \"true\" in any letters is as good as none.",
		Why:    "a producer that does not care must not be told of what it did not ask for",
		Source: "commitlog-format.md 1.10; ha-protocol.md 6.9",
		Config: Config{Role: store.SyncMaster},
		Check: func(t *T) {
			topic := t.Topic("")
			for wait, want := range map[string]store.PutStatus{"false": store.PutOK, "no": store.PutOK, "true": store.SlaveNotAvailable, "TRUE": store.SlaveNotAvailable} {
				Equal(t, "the status of WAIT="+wait, t.Put(t.Message(topic, 0, "x", "WAIT", wait)).Status, want)
			}
		},
	},
	{
		ID:     "put-047",
		Says:   "Where PutOK means on disk, the log is flushed up to the message when it is answered.",
		Why:    "this is what the producer relies on when the power fails",
		Source: "package store, What an answer means; reports 29",
		Config: Config{SyncFlush: true},
		Check: func(t *T) {
			admin := need[store.Admin](t)
			topic := t.Topic("")
			for range 5 {
				r := t.Put(t.Message(topic, 0, "x"))
				Equal(t, "the status", r.Status, store.PutOK)
				if st := admin.Stats(); st.FlushedPhyOffset < end(r) {
					t.Errorf("answered at flushed %d, the message ends at %d", st.FlushedPhyOffset, end(r))
				}
			}
		},
	},
	{
		ID:     "put-048",
		Says:   "Where PutOK means on disk, what was put can be read.",
		Why:    "group commit must not lose anybody who waits",
		Source: "reports 31, 33",
		Tests:  []string{"DefaultMessageStoreTest.testGroupCommit", "FlushDiskWatcherTest.testWatcher"},
		Config: Config{SyncFlush: true},
		Check: func(t *T) {
			topic := t.Topic("")
			for i := range 4 {
				m := t.Message(topic, 0, "x")
				if i%2 == 0 { // on disk with the next one, which waits
					m.Properties = record.NewProperties("WAIT", "false")
				}
				Equal(t, "the status", t.Put(m).Status, store.PutOK)
			}
			t.Settle(topic, 0, 4)
			t.Read(topic, 0, 0, 4)
		},
	},
	{
		ID:     "put-049",
		Says:   "What was flushed is on disk up to the log's end, and Flush says so.",
		Why:    "a broker that stops, or makes a snapshot, asks for it",
		Source: "package store, Admin",
		Check: func(t *T) {
			admin := need[store.Admin](t)
			r := t.Put(t.Message(t.Topic(""), 0, "x"))
			flushed, err := admin.Flush()
			if err != nil || flushed < end(r) {
				t.Errorf("flush: %d, %v; the log ends at %d", flushed, err, end(r))
			}
			if st := admin.Stats(); st.FlushedPhyOffset < end(r) || st.MaxPhyOffset < st.FlushedPhyOffset {
				t.Errorf("flushed up to %d of %d, the message ends at %d", st.FlushedPhyOffset, st.MaxPhyOffset, end(r))
			}
		},
	},
	{
		ID:     "put-050",
		Says:   "Stored messages and refusals are counted.",
		Why:    "operators see by it whether a broker is well",
		Source: "dispatch-and-read.md 5.5",
		Check: func(t *T) {
			admin := need[store.Admin](t)
			topic := t.Topic("")
			before := admin.Stats()
			size := 0
			for _, r := range t.PutN(topic, 0, 3) {
				size += r.Size
			}
			t.Illegal("queue id -1", t.Message(topic, -1, "x"))
			t.Illegal("an empty topic", t.Message("", 0, "x"))
			after := admin.Stats()
			Equal(t, "messages", after.Puts-before.Puts, 3)
			Equal(t, "bytes", after.PutBytes-before.PutBytes, int64(size))
			Equal(t, "refusals", after.PutFailures-before.PutFailures, 2)
		},
	},
}
