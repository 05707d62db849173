package conformance

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

func init() { register(batchLaws...) }

const itemHeader = 22 // of an item of a client's batch, beside body and properties

// items are n items with the bodies "0", "1", …
func items(n int) (is []record.BatchItem) {
	for i := range n {
		is = append(is, record.BatchItem{Body: []byte(strconv.Itoa(i))})
	}
	return is
}

// PutBatch stores a batch; a refusal ends the law.
func (t *T) PutBatch(m *record.Message, is []record.BatchItem) store.PutResult {
	r, err := need[store.BatchPutter](t).PutBatch(t.ctx, m, is)
	if err != nil {
		t.Fatalf("put a batch of %d to %s/%d: %v", len(is), m.Topic, m.QueueID, err)
	}
	return r
}

// RefuseBatch puts a batch and reports a fault unless it is refused by that sentinel with that status, and leaves nothing in the log.
func (t *T) RefuseBatch(what string, m *record.Message, is []record.BatchItem, sentinel error, status string) {
	p := need[store.BatchPutter](t)
	before := t.Store().MaxPhyOffset()
	_, err := p.PutBatch(t.ctx, m, is)
	t.Refused(what, err, sentinel, status)
	Equal(t, "the log's end after "+what, t.Store().MaxPhyOffset(), before)
}

// batchSize is what a batch of n items with the topic of m and bodies of size bytes takes in the log.
func batchSize(m *record.Message, n, size int) int { return n * (91 + len(m.Topic) + size) }

var batchLaws = []Law{
	{
		ID:     "batch-001",
		Says:   "The messages of a batch get queue offsets in a row, and the result names the first, their number and their size.",
		Why:    "the client hands out the offsets of its messages by these numbers",
		Source: "commitlog-format.md 1.11 Batch",
		Tests:  []string{"BatchPutMessageTest.testPutMessages", "AppendCallbackTest.testAppendMessageBatchSucc"},
		Check: func(t *T) {
			topic := t.Topic("")
			t.Put(t.Message(topic, 0, "before"))
			m := t.Message(topic, 0, "")
			r := t.PutBatch(m, items(10))
			Equal(t, "the queue offset", r.QueueOffset, 1)
			Equal(t, "the number of messages", r.Messages, 10)
			Equal(t, "the number of places", len(r.Offsets), 10)
			Equal(t, "the size", r.Size, batchSize(m, 10, 1))
			Equal(t, "the status", r.Status, store.PutOK)
			Equal(t, "the next queue offset", t.Put(t.Message(topic, 0, "after")).QueueOffset, 11)
			t.Settle(topic, 0, 12)
			for i, m := range t.Read(topic, 0, 1, 10) {
				Equal(t, "an item's queue offset", m.QueueOffset, int64(i+1))
				Equal(t, "an item's body", string(m.Body), strconv.Itoa(i))
			}
		},
	},
	{
		ID:     "batch-002",
		Says:   "The messages of a batch lie in the log one behind the other, where the result says.",
		Why:    "the client makes message ids of it",
		Source: "commitlog-format.md 1.11 Batch",
		Tests:  []string{"BatchPutMessageTest.testPutMessages"},
		Check: func(t *T) {
			topic := t.Topic("")
			r := t.PutBatch(t.Message(topic, 0, ""), items(5))
			at := r.PhyOffset
			t.Settle(topic, 0, 5)
			for i, m := range t.Read(topic, 0, 0, 5) {
				Equal(t, "an item's place in the result", r.Offsets[i], at)
				Equal(t, "an item's place", m.PhyOffset, at)
				at += int64(m.Size)
			}
			Equal(t, "the end of the batch", at, end(r))
		},
	},
	{
		ID:     "batch-003",
		Says:   "All messages of a batch have one store time.",
		Why:    "they are stored under one lock, and a search by time must not fall between them",
		Source: "commitlog-format.md 1.11 Batch 3",
		Clock:  true,
		Check: func(t *T) {
			topic := t.Topic("")
			r := t.PutBatch(t.Message(topic, 0, ""), items(5))
			t.Settle(topic, 0, 5)
			for _, m := range t.Read(topic, 0, 0, 5) {
				Equal(t, "an item's store time", m.StoreTimestamp, r.StoreTimestamp)
			}
		},
	},
	{
		ID:     "batch-004",
		Says:   "Flag, body and own properties of a message are its item's; queue, system flag, born time, hosts and reconsume times are the batch's.",
		Why:    "this is how clients build batches",
		Source: "commitlog-format.md 1.11 Batch 2",
		Tests:  []string{"AppendCallbackTest.testAppendMessageBatchSucc"},
		Check: func(t *T) {
			topic := t.Topic("")
			m := t.Message(topic, 2, "not stored")
			m.Flag, m.SysFlag, m.BornTimestamp, m.ReconsumeTimes, m.PreparedTransactionOffset = 1, record.FlagNeedUnwrap, 77, 5, 99
			is := []record.BatchItem{
				{Flag: 42, Body: []byte("a"), Properties: record.NewProperties("TAGS", "a")},
				{Flag: -1, Body: []byte("b")},
			}
			var want []*record.Message
			for _, it := range is {
				w := clone(m)
				w.Flag, w.Body, w.Properties, w.PreparedTransactionOffset = it.Flag, it.Body, it.Properties, 0
				want = append(want, w)
			}
			t.PutBatch(m, is)
			t.Settle(topic, 2, 2)
			for i, got := range t.Read(topic, 2, 0, 2) {
				t.Same("item "+strconv.Itoa(i), got, want[i])
			}
		},
	},
	{
		ID:     "batch-005",
		Says:   "The properties of a message are its item's and then the batch's, with a separator between them where there is none yet.",
		Why:    "the batch's properties are written once by the client, and each message must have them",
		Source: "commitlog-format.md 1.11 Batch 2",
		Check: func(t *T) {
			topic := t.Topic("")
			t.PutBatch(t.Message(topic, 0, "", "c", "3"), []record.BatchItem{
				{Properties: record.Properties("a\x011")},
				{Properties: record.Properties("b\x012\x02")},
				{},
			})
			t.PutBatch(t.Message(topic, 0, ""), []record.BatchItem{{Properties: record.Properties("a\x011")}})
			t.Settle(topic, 0, 4)
			for i, m := range t.Read(topic, 0, 0, 4) {
				Equal(t, "the properties of item "+strconv.Itoa(i), string(m.Properties), []string{"a\x011\x02c\x013", "b\x012\x02c\x013", "c\x013", "a\x011"}[i])
			}
		},
	},
	{
		ID:     "batch-006",
		Says:   "The message id of a batch is those of its messages, joined with commas, each of which finds its message.",
		Why:    "clients take it apart",
		Source: "commitlog-format.md 1.9",
		Tests:  []string{"AppendCallbackTest.testAppendMessageBatchSucc"},
		Check: func(t *T) {
			topic := t.Topic("")
			r := t.PutBatch(t.Message(topic, 0, ""), items(3))
			ids := strings.Split(r.MessageID(), ",")
			Equal(t, "the number of ids", len(ids), 3)
			t.Settle(topic, 0, 3)
			l := need[store.Looker](t)
			for i, id := range ids {
				Equal(t, "the length of an id", len(id), 32)
				m, err := l.LookupID(id)
				if err != nil || m.QueueOffset != int64(i) {
					t.Errorf("id %d, %s: %+v, %v", i, id, m, err)
				}
			}
		},
	},
	{
		ID:     "batch-007",
		Says:   "The ids of a batch of an IPv6 broker have 56 hexadecimal digits each.",
		Why:    "the family of the store host decides how long an id is",
		Source: "commitlog-format.md 1.9",
		Tests:  []string{"BatchPutMessageTest.testPutIPv6HostMessages", "AppendCallbackTest.testAppendIPv6HostMessageBatchSucc"},
		Check: func(t *T) {
			topic := t.Topic("")
			m := t.Message(topic, 0, "")
			m.BornHost, m.StoreHost = producer6, broker6
			r := t.PutBatch(m, items(2))
			for i, id := range strings.Split(r.MessageID(), ",") {
				Equal(t, "an id", id, record.OffsetMessageID(broker6, r.Offsets[i]))
				Equal(t, "the length of an id", len(id), 56)
			}
			t.Settle(topic, 0, 2)
			for _, m := range t.Read(topic, 0, 0, 2) {
				Equal(t, "the store host", m.StoreHost, broker6)
				Equal(t, "the born host", m.BornHost, producer6)
			}
		},
	},
	{
		ID:     "batch-008",
		Says:   "An empty batch is refused with MESSAGE_ILLEGAL.",
		Why:    "there is no offset to answer with",
		Source: "commitlog-format.md 1.11 Batch",
		Check: func(t *T) {
			t.RefuseBatch("an empty batch", t.Message(t.Topic(""), 0, ""), nil, store.ErrMessageIllegal, "MESSAGE_ILLEGAL")
		},
	},
	{
		ID:     "batch-009",
		Says:   "A batch of one is a batch.",
		Why:    "clients do not look how many messages they have collected",
		Source: "commitlog-format.md 1.11 Batch",
		Check: func(t *T) {
			topic := t.Topic("")
			r := t.PutBatch(t.Message(topic, 0, ""), items(1))
			Equal(t, "the number of messages", r.Messages, 1)
			Equal(t, "the queue offset", r.QueueOffset, 0)
			t.Settle(topic, 0, 1)
			Equal(t, "the body", string(t.Read(topic, 0, 0, 1)[0].Body), "0")
		},
	},
	{
		ID:     "batch-010",
		Says:   "A batch of the maximum message size as the client encodes it is stored, a byte more is refused with MESSAGE_ILLEGAL.",
		Why:    "for the client a batch is the body of one message",
		Source: "commitlog-format.md 1.11 Batch; dispatch-and-read.md 5.5 row 5b",
		Tests:  []string{"BatchPutMessageTest.testPutLongBatchMessage", "DefaultMessageStoreTest.testPutMsgBatchExceedsMaxLength"},
		Config: Config{MaxMessageSize: 6000, RecordSize: 8000},
		Check: func(t *T) {
			topic := t.Topic("")
			is := []record.BatchItem{{Body: make([]byte, 2000), Properties: record.NewProperties("k", "v")}, {}}
			is[1].Body = make([]byte, 6000-2*itemHeader-2000-3)
			t.PutBatch(t.Message(topic, 0, "", "batch", "property"), is)
			is[1].Body = append(is[1].Body, 0)
			t.RefuseBatch("a batch of a byte too many", t.Message(topic, 0, ""), is, store.ErrMessageIllegal, "MESSAGE_ILLEGAL")
		},
	},
	{
		ID:     "batch-011",
		Says:   "A batch in a transaction is refused with MESSAGE_ILLEGAL.",
		Why:    "a transaction commits one message",
		Source: "commitlog-format.md 1.11 Batch",
		Check: func(t *T) {
			for _, tx := range []record.Transaction{record.TransactionPrepared, record.TransactionCommit, record.TransactionRollback} {
				m := t.Message(t.Topic(""), 0, "")
				m.SysFlag = record.SysFlag(tx)
				t.RefuseBatch("a batch of type "+tx.String(), m, items(2), store.ErrMessageIllegal, "MESSAGE_ILLEGAL")
			}
		},
	},
	{
		ID:     "batch-012",
		Says:   "A delayed batch is refused with MESSAGE_ILLEGAL.",
		Why:    "clients do not build any, and no message of it could be delivered",
		Source: "commitlog-format.md 1.11 Batch",
		Check: func(t *T) {
			t.RefuseBatch("a delayed batch", t.Message(t.Topic(""), 0, "", record.PropertyDelay, "1"), items(2), store.ErrMessageIllegal, "MESSAGE_ILLEGAL")
		},
	},
	{
		ID:     "batch-013",
		Says:   "Properties of item and batch of 32,767 bytes together are stored; one byte more refuses the batch with PROPERTIES_SIZE_EXCEEDED.",
		Why:    "the original does not look, and writes a wrong length",
		Source: "commitlog-format.md 1.11 Batch 2; package record, Differences",
		Config: Config{RecordSize: 80 << 10},
		Check: func(t *T) {
			topic := t.Topic("")
			m := func() *record.Message { return t.Message(topic, 0, "", "b", strings.Repeat("v", 1998)) } // 2,000 bytes
			last := func(n int) []record.BatchItem {
				return append(items(1), record.BatchItem{Properties: record.NewProperties("i", strings.Repeat("v", n-2))})
			}
			t.PutBatch(m(), last(30766)) // and a separator
			t.RefuseBatch("a batch whose last message has too long properties", m(), last(30767), store.ErrPropertiesTooLarge, "PROPERTIES_SIZE_EXCEEDED")
			t.Settle(topic, 0, 2)
			Equal(t, "the length of the properties", len(t.Read(topic, 0, 1, 1)[0].Properties), 32767)
		},
	},
	{
		ID:     "batch-014",
		Says:   "A batch whose own properties exceed 32,767 bytes is refused with PROPERTIES_SIZE_EXCEEDED.",
		Why:    "each of its messages would have them",
		Source: "commitlog-format.md 1.11 Batch 1",
		Check: func(t *T) {
			t.RefuseBatch("a batch with too long properties", t.Message(t.Topic(""), 0, "", "k", strings.Repeat("v", 32766)), items(1), store.ErrPropertiesTooLarge, "PROPERTIES_SIZE_EXCEEDED")
		},
	},
	{
		ID:     "batch-015",
		Says:   "If one message of a batch is refused, none is stored, and no queue offset is used.",
		Why:    "the client sends all of it again",
		Source: "commitlog-format.md 1.11 Batch 4",
		Check: func(t *T) {
			topic := t.Topic("")
			t.Put(t.Message(topic, 0, "before"))
			bad := append(items(4), record.BatchItem{Properties: record.NewProperties("k", "v\x00")})
			t.RefuseBatch("a batch with a zero byte in its last properties", t.Message(topic, 0, ""), bad, store.ErrMessageIllegal, "MESSAGE_ILLEGAL")
			Equal(t, "the next queue offset", t.Put(t.Message(topic, 0, "after")).QueueOffset, 1)
		},
	},
	{
		ID:     "batch-016",
		Says:   "A batch for which there is just room, with 8 bytes behind it, is stored in the segment.",
		Why:    "two engines that open one directory must agree on where a segment ends",
		Source: "commitlog-format.md 1.11 Batch 4",
		Tests:  []string{"AppendCallbackTest.testAppendMessageBatchSucc"},
		Config: smallSegments,
		Check: func(t *T) {
			need[store.BatchPutter](t)
			m := t.Message(t.Topic(""), 0, "")
			t.Fill(t.Topic("f"), batchSize(m, 4, 1)+8)
			at := t.Store().MaxPhyOffset()
			Equal(t, "the place of a batch for which there is just room", t.PutBatch(m, items(4)).PhyOffset, at)
			t.Settle(t.Topic(""), 0, 4)
			t.Read(t.Topic(""), 0, 0, 4)
		},
	},
	{
		ID:     "batch-017",
		Says:   "A batch for which a byte is missing moves to the next segment as a whole.",
		Why:    "a batch is one put: it is found in one segment or lost with one",
		Source: "commitlog-format.md 1.11 Batch 4",
		Tests:  []string{"AppendCallbackTest.testAppendMessageBatchEndOfFile", "AppendCallbackTest.testAppendIPv6HostMessageBatchEndOfFile"},
		Config: smallSegments,
		Check: func(t *T) {
			need[store.BatchPutter](t)
			topic, left := t.Topic(""), 0
			for i, v6 := range []bool{false, true} {
				m := t.Message(topic, int32(i), "")
				left = batchSize(m, 4, 1) + 7
				if v6 {
					m.BornHost, m.StoreHost = producer6, broker6
					left += 4 * 24
				}
				t.Fill(t.Topic("f"), left)
				at := t.Store().MaxPhyOffset()
				r := t.PutBatch(m, items(4))
				Equal(t, "the place of a batch for which a byte is missing", r.PhyOffset, at+int64(left))
				Equal(t, "the place of its first message", r.Offsets[0], r.PhyOffset)
				t.Settle(topic, int32(i), 4)
				for n, m := range t.Read(topic, int32(i), 0, 4) {
					Equal(t, "the body of an item", string(m.Body), strconv.Itoa(n))
					Equal(t, "the place of an item", m.PhyOffset, r.Offsets[n])
				}
			}
		},
	},
	{
		ID:     "batch-018",
		Says:   "A batch that fits into no segment is refused with MESSAGE_ILLEGAL.",
		Why:    "the original blanks one segment after the other for it",
		Source: "defects 1",
		Config: smallSegments,
		Check: func(t *T) {
			is := []record.BatchItem{{Body: make([]byte, 4000)}, {Body: make([]byte, 4000)}}
			t.RefuseBatch("a batch that fits into no segment", t.Message(t.Topic(""), 0, "", "k", strings.Repeat("v", 100)), is, store.ErrMessageIllegal, "MESSAGE_ILLEGAL")
		},
	},
	{
		ID:     "batch-019",
		Says:   "Empty bodies are bodies in a batch, too.",
		Why:    "producers send messages of nothing but properties",
		Source: "commitlog-format.md 1.11 Batch",
		Check: func(t *T) {
			topic := t.Topic("")
			Equal(t, "the number of messages", t.PutBatch(t.Message(topic, 0, ""), make([]record.BatchItem, 3)).Messages, 3)
			t.Settle(topic, 0, 3)
			for _, m := range t.Read(topic, 0, 0, 3) {
				Equal(t, "the length of an empty body", len(m.Body), 0)
			}
		},
	},
	{
		ID:     "batch-020",
		Says:   "A batch keeps to the limits of topic and queue id.",
		Why:    "its messages are ordinary ones",
		Source: "dispatch-and-read.md 5.5 row 5b",
		Check: func(t *T) {
			for what, m := range map[string]*record.Message{
				"a batch to a topic of 128 bytes": t.Message(t.TopicOf(128, ""), 0, ""),
				"a batch to no topic":             t.Message("", 0, ""),
				"a batch to topic ..":             t.Message("..", 0, ""),
				"a batch to queue id -1":          t.Message(t.Topic(""), -1, ""),
			} {
				t.RefuseBatch(what, m, items(2), store.ErrMessageIllegal, "MESSAGE_ILLEGAL")
			}
			t.PutBatch(t.Message(t.TopicOf(127, ""), 0, ""), items(2))
		},
	},
	{
		ID:     "batch-021",
		Says:   "A slave refuses batches with SERVICE_NOT_AVAILABLE.",
		Why:    "its log is its master's",
		Source: "dispatch-and-read.md 5.5 row 2",
		Config: Config{Role: store.Slave},
		Check: func(t *T) {
			t.RefuseBatch("a batch to a slave", t.Message(t.Topic(""), 0, ""), items(2), store.ErrServiceNotAvailable, "SERVICE_NOT_AVAILABLE")
		},
	},
	{
		ID:     "batch-022",
		Says:   "No message at all, with items, is refused with MESSAGE_ILLEGAL.",
		Why:    "a broker that decodes requests gets there, and a panic would take all its queues along",
		Source: "dispatch-and-read.md 5.5",
		Check: func(t *T) {
			t.RefuseBatch("a batch without a message", nil, items(2), store.ErrMessageIllegal, "MESSAGE_ILLEGAL")
		},
	},
	{
		ID:     "batch-023",
		Says:   "Of a master that waits for slaves and has none a batch is answered SLAVE_NOT_AVAILABLE, unless its properties say WAIT=false.",
		Why:    "a batch is one put with one answer",
		Source: "ha-protocol.md 6.9",
		Config: Config{Role: store.SyncMaster},
		Check: func(t *T) {
			topic := t.Topic("")
			Equal(t, "the status", t.PutBatch(t.Message(topic, 0, ""), items(2)).Status, store.SlaveNotAvailable)
			Equal(t, "the status of WAIT=false", t.PutBatch(t.Message(topic, 0, "", "WAIT", "false"), items(2)).Status, store.PutOK)
		},
	},
	{
		ID:     "batch-024",
		Says:   "When a batch has been put, the items are the caller's again.",
		Why:    "brokers split batches as views of a request's buffer",
		Source: "package store, BatchPutter",
		Check: func(t *T) {
			topic := t.Topic("")
			is := []record.BatchItem{{Body: bytes.Repeat([]byte("b"), 50), Properties: record.NewProperties("k", "v")}}
			t.PutBatch(t.Message(topic, 0, ""), is)
			clear(is[0].Body)
			clear(is[0].Properties)
			t.Settle(topic, 0, 1)
			m := t.Read(topic, 0, 0, 1)[0]
			Equal(t, "the body", string(m.Body), strings.Repeat("b", 50))
			Equal(t, "the properties", string(m.Properties), "k\x01v")
		},
	},
	{
		ID:     "batch-025",
		Says:   "Where PutOK means on disk, the log is flushed up to the end of a batch when it is answered.",
		Why:    "all of its messages were acknowledged",
		Source: "package store, What an answer means",
		Config: Config{SyncFlush: true},
		Check: func(t *T) {
			r := t.PutBatch(t.Message(t.Topic(""), 0, ""), items(5))
			if flushed := need[store.Admin](t).Stats().FlushedPhyOffset; r.Status != store.PutOK || flushed < end(r) {
				t.Errorf("%v at flushed %d, the batch ends at %d", r.Status, flushed, end(r))
			}
		},
	},
}
