package conformance

import (
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

func init() { register(txLaws...) }

// InTx is a message that is a part of a transaction.
func (t *T) InTx(tx record.Transaction, topic, body string, properties ...string) *record.Message {
	m := t.Message(topic, 0, body, properties...)
	m.SysFlag = m.SysFlag.WithTransaction(tx)
	return m
}

var txLaws = []Law{
	{
		ID:     "tx-001",
		Says:   "A prepared message is stored, and is in no queue.",
		Why:    "consumers must not see what may be rolled back",
		Source: "commitlog-format.md 1.11 Transaction types",
		Check: func(t *T) {
			topic := t.Topic("")
			at := t.Store().MaxPhyOffset()
			r := t.Put(t.InTx(record.TransactionPrepared, topic, "prepared"))
			if t.Store().MaxPhyOffset() != end(r) || end(r) <= at {
				t.Errorf("the log ends at %d, the message at %d", t.Store().MaxPhyOffset(), end(r))
			}
			t.Put(t.Message(topic, 0, "visible"))
			t.Settle(topic, 0, 1)
			Equal(t, "the queue's end", t.Store().MaxOffset(topic, 0), 1)
			Equal(t, "the queue's message", string(t.Read(topic, 0, 0, 1)[0].Body), "visible")
		},
	},
	{
		ID:     "tx-002",
		Says:   "A rollback is stored, and is in no queue.",
		Why:    "it is a mark in the log, and no message for anybody",
		Source: "commitlog-format.md 1.11 Transaction types",
		Check: func(t *T) {
			topic := t.Topic("")
			r := t.Put(t.InTx(record.TransactionRollback, topic, "rollback"))
			Equal(t, "the log's end", t.Store().MaxPhyOffset(), end(r))
			t.Put(t.Message(topic, 0, "visible"))
			t.Settle(topic, 0, 1)
			Equal(t, "the queue's end", t.Store().MaxOffset(topic, 0), 1)
			Equal(t, "the queue's message", string(t.Read(topic, 0, 0, 1)[0].Body), "visible")
		},
	},
	{
		ID:     "tx-003",
		Says:   "A commit is a message of its queue, with the next queue offset.",
		Why:    "it is what consumers were waiting for",
		Source: "commitlog-format.md 1.11 Transaction types",
		Check: func(t *T) {
			topic := t.Topic("")
			t.Put(t.Message(topic, 0, "first"))
			Equal(t, "the queue offset of a commit", t.Put(t.InTx(record.TransactionCommit, topic, "commit")).QueueOffset, 1)
			Equal(t, "the queue offset behind it", t.Put(t.Message(topic, 0, "last")).QueueOffset, 2)
			t.Settle(topic, 0, 3)
			Equal(t, "the message", string(t.Read(topic, 0, 1, 1)[0].Body), "commit")
		},
	},
	{
		ID:     "tx-004",
		Says:   "Prepared messages and rollbacks are answered with queue offset 0, and stored with it.",
		Why:    "the offset of another message there would be taken for a second one of it",
		Source: "commitlog-format.md 1.11 step 4",
		Check: func(t *T) {
			topic := t.Topic("")
			t.PutN(topic, 0, 3)
			for _, tx := range []record.Transaction{record.TransactionPrepared, record.TransactionRollback} {
				r := t.Put(t.InTx(tx, topic, "x"))
				Equal(t, "the answered queue offset of type "+tx.String(), r.QueueOffset, 0)
				m, err := need[store.Looker](t).Lookup(r.PhyOffset)
				if err != nil || m.QueueOffset != 0 {
					t.Errorf("type %v is stored with queue offset %+v, %v", tx, m, err)
				}
			}
		},
	},
	{
		ID:     "tx-005",
		Says:   "Prepared messages and rollbacks use no queue offsets: those around them are without a gap.",
		Why:    "consumers would wait for the message of that offset for ever",
		Source: "commitlog-format.md 1.11 step 7",
		Check: func(t *T) {
			topic := t.Topic("")
			for i := range int64(3) {
				Equal(t, "a queue offset", t.Put(t.Message(topic, 0, "x")).QueueOffset, 2*i)
				t.Put(t.InTx(record.TransactionPrepared, topic, "x"))
				t.Put(t.InTx(record.TransactionRollback, topic, "x"))
				Equal(t, "a commit's queue offset", t.Put(t.InTx(record.TransactionCommit, topic, "x")).QueueOffset, 2*i+1)
			}
			t.Settle(topic, 0, 6)
			for i, m := range t.Read(topic, 0, 0, 6) {
				Equal(t, "a read queue offset", m.QueueOffset, int64(i))
			}
		},
	},
	{
		ID:     "tx-006",
		Says:   "A prepared message is found by its place and id, as it was put.",
		Why:    "the broker checks back with the producer, and commits what it finds there",
		Source: "commitlog-format.md 1.11 Transaction types",
		Check: func(t *T) {
			topic := t.Topic("")
			m := t.InTx(record.TransactionPrepared, topic, "prepared", "PGROUP", "producers")
			want := clone(m)
			r := t.Put(m)
			t.Put(t.Message(topic, 0, "x"))
			t.Settle(topic, 0, 1)
			l := need[store.Looker](t)
			got, err := l.Lookup(r.PhyOffset)
			if err != nil {
				t.Fatalf("look up %d: %v", r.PhyOffset, err)
			}
			t.Same("by place", got, want)
			if got, err = l.LookupID(r.MessageID()); err != nil {
				t.Fatalf("look up %s: %v", r.MessageID(), err)
			}
			t.Same("by id", got, want)
		},
	},
	{
		ID:     "tx-007",
		Says:   "A commit keeps the place of its prepared message.",
		Why:    "by it a broker knows that the transaction is over",
		Source: "commitlog-format.md 1.2",
		Check: func(t *T) {
			topic := t.Topic("")
			prepared := t.Put(t.InTx(record.TransactionPrepared, topic, "prepared"))
			m := t.InTx(record.TransactionCommit, topic, "commit")
			m.PreparedTransactionOffset = prepared.PhyOffset + 1<<33 // beyond 32 bits, whatever the log is
			t.Put(m)
			t.Settle(topic, 0, 1)
			got := t.Read(topic, 0, 0, 1)[0]
			Equal(t, "the prepared message's place", got.PreparedTransactionOffset, prepared.PhyOffset+1<<33)
			Equal(t, "the type", got.SysFlag.Transaction(), record.TransactionCommit)
		},
	},
	{
		ID:     "tx-008",
		Says:   "A queue that got nothing but prepared messages and rollbacks is an empty one.",
		Why:    "a consumer that asks there must wait, not fail",
		Source: "dispatch-and-read.md 5.3",
		Check: func(t *T) {
			topic, after := t.Topic(""), t.Topic("after")
			t.Put(t.InTx(record.TransactionPrepared, topic, "x"))
			t.Put(t.InTx(record.TransactionRollback, topic, "x"))
			t.Put(t.Message(after, 0, "x")) // when this one is visible, so would the others be
			t.Settle(after, 0, 1)
			Equal(t, "the queue's end", t.Store().MaxOffset(topic, 0), 0)
			Equal(t, "the status of a get", t.Get(store.GetRequest{Topic: topic}).Status, store.NoMessageInQueue)
		},
	},
	{
		ID:     "tx-009",
		Says:   "Prepared messages and rollbacks keep to the limits of all messages.",
		Why:    "their records are like any others",
		Source: "commitlog-format.md 1.13",
		Check: func(t *T) {
			for _, tx := range []record.Transaction{record.TransactionPrepared, record.TransactionRollback, record.TransactionCommit} {
				t.Illegal("type "+tx.String()+" with a topic of 128 bytes", t.InTx(tx, t.TopicOf(128, ""), "x"))
				m := t.InTx(tx, t.Topic(""), "x")
				m.QueueID = -1
				t.Illegal("type "+tx.String()+" with queue id -1", m)
			}
		},
	},
	{
		ID:     "tx-010",
		Says:   "A prepared message or rollback that asks for a delay is stored as it is.",
		Why:    "it is the commit that is delayed",
		Source: "commitlog-format.md 1.10 step 2",
		Check: func(t *T) {
			topic := t.Topic("")
			for _, tx := range []record.Transaction{record.TransactionPrepared, record.TransactionRollback} {
				m := t.InTx(tx, topic, "x", record.PropertyDelay, "3")
				want := clone(m)
				r := t.Put(m)
				got, err := need[store.Looker](t).Lookup(r.PhyOffset)
				if err != nil {
					t.Fatalf("look up %d: %v", r.PhyOffset, err)
				}
				t.Same("type "+tx.String(), got, want)
			}
		},
	},
}
