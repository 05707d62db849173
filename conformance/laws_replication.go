package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

func init() { register(replicationLaws...) }

// follow is an empty slave of the store. The law closes it.
func follow(t *T) Store {
	s, err := need[Replicator](t).Slave(t.Ctx())
	if err != nil {
		t.Fatalf("make a slave: %v", err)
	}
	return s
}

// leave closes a slave.
func leave(t *T, s Store) {
	if err := s.Close(); err != nil && !errors.Is(err, store.ErrClosed) {
		t.Errorf("close the slave: %v", err)
	}
}

// Equals reports a fault unless slave answers about queue 0 and 1 of topic, and about each message there, what the store does.
func (t *T) Equals(slave Store, topic string) {
	master := t.Store()
	for id := range int32(2) {
		low, high := master.MinOffset(topic, id), master.MaxOffset(topic, id)
		t.With(slave, func() { t.Visible(topic, id, high) })
		what := fmt.Sprintf("on the slave, queue %d: ", id)
		Equal(t, what+"minimum", slave.MinOffset(topic, id), low)
		Equal(t, what+"maximum", slave.MaxOffset(topic, id), high)
		for i := low; i < high; i++ {
			r := store.GetRequest{Topic: topic, QueueID: id, Offset: i, MaxMessages: 1}
			m := t.Get(r)
			t.With(slave, func() {
				s := t.Get(r)
				if s.Status != m.Status || s.NextBeginOffset != m.NextBeginOffset || len(s.Records) != 1 || len(m.Records) != 1 || s.Records[0].PhyOffset != m.Records[0].PhyOffset || !bytes.Equal(s.Records[0].Bytes, m.Records[0].Bytes) {
					t.Errorf("%smessage %d: %v, next offset %d, %d records; the master has %v, %d, %d, or other bytes", what, i, s.Status, s.NextBeginOffset, len(s.Records), m.Status, m.NextBeginOffset, len(m.Records))
				}
			})
		}
	}
}

// replicated fills in what laws of master and slave have in common.
func replicated(laws ...Law) []Law {
	for i := range laws {
		laws[i].Own = true
	}
	return laws
}

var replicationLaws = replicated(
	Law{
		ID:     "replication-001",
		Says:   "A slave has each of its master's messages, at the same place, in the same queue at the same offset, byte for byte.",
		Why:    "consumers go over to the slave and go on where they were",
		Source: "ha-protocol.md",
		Tests:  []string{"HATest.testHandleHA"},
		Config: Config{SegmentSize: smallSegment, QueueFileSize: 200},
		Check: func(t *T) {
			slave := follow(t)
			defer leave(t, slave)
			topic := t.Topic("")
			ss := storeSome(t, topic, 0, 30)
			t.Visible(topic, 0, 15)
			t.Visible(topic, 1, 15)
			t.Equals(slave, topic)
			t.With(slave, func() { t.There("on the slave", topic, ss) })
			Equal(t, "the slave's log's end", slave.MaxPhyOffset(), t.Store().MaxPhyOffset())
		},
	},
	Law{
		ID:     "replication-002",
		Says:   "A slave refuses puts with SERVICE_NOT_AVAILABLE, single ones and batches.",
		Why:    "a message that only a slave has is in nobody's order",
		Source: "dispatch-and-read.md 5.5 row 2",
		Check: func(t *T) {
			slave := follow(t)
			defer leave(t, slave)
			t.With(slave, func() {
				t.Refuse("a put to a slave", t.Message(t.Topic(""), 0, "x"), store.ErrServiceNotAvailable, "SERVICE_NOT_AVAILABLE")
				if b, ok := slave.(store.BatchPutter); ok {
					_, err := b.PutBatch(t.Ctx(), t.Message(t.Topic(""), 0, ""), []record.BatchItem{{Body: []byte("x")}})
					t.Refused("a batch to a slave", err, store.ErrServiceNotAvailable, "SERVICE_NOT_AVAILABLE")
				}
			})
			Equal(t, "the slave's log's end", slave.MaxPhyOffset(), 0)
		},
	},
	Law{
		ID:     "replication-003",
		Says:   "Queries find on the slave what they find on the master.",
		Why:    "consoles ask slaves",
		Source: "index.md 3.3",
		Check: func(t *T) {
			need[store.Querier](t)
			slave := follow(t)
			defer leave(t, slave)
			topic := t.Topic("")
			ss := storeSome(t, topic, 0, 8)
			t.With(slave, func() {
				t.Visible(topic, 0, 4)
				t.Visible(topic, 1, 4)
				var all []int64
				for i, s := range ss {
					t.Finds("on the slave", of(topic, key(i)), s.r.PhyOffset)
					all = append(all, s.r.PhyOffset)
				}
				t.Finds("on the slave", of(topic, "all"), all...)
			})
		},
	},
	Law{
		ID:     "replication-004",
		Says:   "Store times on the slave are the master's, and times find the same offsets.",
		Why:    "\"consume from yesterday\" must mean the same on both",
		Source: "consumequeue-format.md 2.8",
		Clock:  true,
		Check: func(t *T) {
			slave := follow(t)
			defer leave(t, slave)
			topic := t.Topic("")
			ss := storeSome(t, topic, 0, 8)
			t.Visible(topic, 0, 4)
			t.Visible(topic, 1, 4)
			t.With(slave, func() {
				t.Visible(topic, 0, 4)
				t.Visible(topic, 1, 4)
			})
			for _, s := range ss {
				at := time.UnixMilli(s.r.StoreTimestamp)
				if got, err := slave.StoreTime(topic, s.m.QueueID, s.r.QueueOffset); err != nil || !got.Equal(at) {
					t.Errorf("on the slave message %d of queue %d was stored at %v, %v; want %v", s.r.QueueOffset, s.m.QueueID, got, err, at)
				}
				for _, rule := range []store.TimeRule{store.Nearest, store.Lower, store.Upper} {
					got, err := slave.OffsetByTime(topic, s.m.QueueID, at.Add(time.Millisecond), rule)
					want, err2 := t.Store().OffsetByTime(topic, s.m.QueueID, at.Add(time.Millisecond), rule)
					if got != want || err != nil || err2 != nil {
						t.Errorf("a time by rule %d: on the slave %d, %v, on the master %d, %v", rule, got, err, want, err2)
					}
				}
			}
		},
	},
	Law{
		ID:     "replication-005",
		Says:   "Prepared messages and rollbacks are on the slave, out of its queues.",
		Why:    "after a change of master the new one checks back with the producer",
		Source: "dispatch-and-read.md 5.2",
		Check: func(t *T) {
			slave := follow(t)
			defer leave(t, slave)
			topic := t.Topic("")
			var half []store.PutResult
			for _, tx := range []record.Transaction{record.TransactionPrepared, record.TransactionRollback, record.TransactionCommit, record.TransactionNone} {
				m := t.Message(topic, 0, "x")
				m.SysFlag = m.SysFlag.WithTransaction(tx)
				if r := t.Put(m); !tx.HasUnit() {
					half = append(half, r)
				}
			}
			t.With(slave, func() {
				t.Visible(topic, 0, 2)
				Equal(t, "the end of the slave's queue", slave.MaxOffset(topic, 0), 2)
				for _, r := range half {
					if m, err := need[store.Looker](t).Lookup(r.PhyOffset); err != nil || m.SysFlag.Transaction().HasUnit() {
						t.Errorf("lookup on the slave at %d: %v, %v", r.PhyOffset, m, err)
					}
				}
			})
		},
	},
	Law{
		ID:     "replication-006",
		Says:   "Batches arrive on the slave as the messages that they are.",
		Why:    "a batch is a form of putting, not of storing",
		Source: "commitlog-format.md 1.11",
		Check: func(t *T) {
			b := need[store.BatchPutter](t)
			slave := follow(t)
			defer leave(t, slave)
			topic := t.Topic("")
			m := t.Message(topic, 0, "")
			m.Body = nil
			if _, err := b.PutBatch(t.Ctx(), m, []record.BatchItem{{Body: []byte("0")}, {Body: []byte("1")}, {Body: []byte("2")}}); err != nil {
				t.Fatalf("put a batch: %v", err)
			}
			t.Visible(topic, 0, 3)
			t.Equals(slave, topic)
		},
	},
	Law{
		ID:     "replication-007",
		Says:   "A slave that comes later gets what the master's last segment has.",
		Why:    "slaves are added to masters that have messages; the classic protocol begins with the last segment",
		Source: "ha-protocol.md, reports 50",
		Check: func(t *T) {
			topic := t.Topic("")
			ss := storeSome(t, topic, 0, 6)
			slave := follow(t)
			defer leave(t, slave)
			ss = append(ss, storeSome(t, topic, 6, 4)...)
			t.With(slave, func() { t.There("on the slave", topic, ss) })
		},
	},
	Law{
		ID:     "replication-008",
		Says:   "PutOK of a SyncMaster means that a slave has the message when the put is answered.",
		Why:    "it is what synchronous replication is paid for: the loss of the whole machine loses nothing",
		Source: "ha-protocol.md, store: what an answer means",
		Tests:  []string{"HATest.testSemiSyncReplica"},
		Config: Config{Role: store.SyncMaster},
		Check: func(t *T) {
			slave := follow(t)
			defer leave(t, slave)
			for i := range 8 {
				r := t.Put(t.Message(t.Topic(""), 0, strings.Repeat(body(i), 1+i*i)))
				if r.Status != store.PutOK {
					t.Errorf("put %d: %v with a slave", i, r.Status)
				} else if slave.MaxPhyOffset() < end(r) {
					t.Errorf("put %d is answered PutOK, ends at %d, and the slave has %d", i, end(r), slave.MaxPhyOffset())
				}
			}
		},
	},
	Law{
		ID:     "replication-009",
		Says:   "A SyncMaster without a slave answers SLAVE_NOT_AVAILABLE; the message is stored and can be read.",
		Why:    "the broker decides what a producer is told; an error would have it sent again, and stored twice",
		Source: "dispatch-and-read.md 5.5",
		Config: Config{Role: store.SyncMaster},
		Check: func(t *T) {
			topic := t.Topic("")
			for i := range int64(3) {
				r := t.Put(t.Message(topic, 0, "x"))
				Equal(t, "the status", r.Status, store.SlaveNotAvailable)
				Equal(t, "the queue offset", r.QueueOffset, i)
			}
			t.Settle(topic, 0, 3)
			t.Read(topic, 0, 0, 3)
		},
	},
	Law{
		ID:     "replication-010",
		Says:   "A put that does not want to wait (WAIT=false) is PutOK on a SyncMaster without slaves.",
		Why:    "its producer said that it does not care",
		Source: "dispatch-and-read.md 5.5",
		Config: Config{Role: store.SyncMaster},
		Check: func(t *T) {
			topic := t.Topic("")
			Equal(t, "the status of a put with WAIT=false", t.Put(t.Message(topic, 0, "x", record.PropertyWait, "false")).Status, store.PutOK)
			Equal(t, "the status of a put with WAIT=true", t.Put(t.Message(topic, 0, "x", record.PropertyWait, "true")).Status, store.SlaveNotAvailable)
		},
	},
	Law{
		ID:     "replication-011",
		Says:   "When its slave is gone, a SyncMaster no longer answers PutOK.",
		Why:    "PutOK would be a lie",
		Source: "ha-protocol.md",
		Tests:  []string{"HATest.testSemiSyncReplica"},
		Config: Config{Role: store.SyncMaster},
		Check: func(t *T) {
			slave := follow(t)
			topic := t.Topic("")
			Equal(t, "the status with a slave", t.Put(t.Message(topic, 0, "x")).Status, store.PutOK)
			leave(t, slave)
			r := t.Put(t.Message(topic, 0, "x"))
			if r.Status != store.SlaveNotAvailable && r.Status != store.FlushSlaveTimeout {
				t.Errorf("the status without the slave is %v", r.Status)
			}
			Equal(t, "the queue offset", r.QueueOffset, 1)
		},
	},
	Law{
		ID:     "replication-012",
		Says:   "Two slaves have the same.",
		Why:    "any of them may become master",
		Source: "ha-protocol.md",
		Check: func(t *T) {
			a, b := follow(t), follow(t)
			defer leave(t, a)
			defer leave(t, b)
			topic := t.Topic("")
			storeSome(t, topic, 0, 10)
			t.Visible(topic, 0, 5)
			t.Visible(topic, 1, 5)
			t.Equals(a, topic)
			t.Equals(b, topic)
		},
	},
	Law{
		ID:     "replication-013",
		Says:   "A slave that becomes master has everything that it had, and goes on with the offsets of log and queues.",
		Why:    "a message that was acknowledged with its help must not be lost, nor its offset used again",
		Source: "reports 11",
		Check: func(t *T) {
			slave := follow(t)
			defer leave(t, slave)
			topic := t.Topic("")
			ss := storeSome(t, topic, 0, 10)
			t.With(slave, func() {
				p := need[Promoter](t)
				t.There("on the slave", topic, ss)
				if err := p.Promote(t.Ctx()); err != nil {
					t.Fatalf("promote the slave: %v", err)
				}
				ss = goesOn(t, topic, ss)
				t.There("on the new master", topic, ss)
			})
		},
	},
	Law{
		ID:     "replication-014",
		Says:   "What a SyncMaster answered with PutOK is on the slave that takes its place.",
		Why:    "this is the promise of a pair",
		Source: "ha-protocol.md, reports 11",
		Config: Config{Role: store.SyncMaster},
		Check: func(t *T) {
			slave := follow(t)
			defer leave(t, slave)
			topic := t.Topic("")
			ss := storeSome(t, topic, 0, 10)
			t.With(slave, func() {
				if err := need[Promoter](t).Promote(t.Ctx()); err != nil {
					t.Fatalf("promote the slave: %v", err)
				}
				for i, s := range ss {
					if s.r.Status != store.PutOK {
						t.Errorf("put %d: %v with a slave", i, s.r.Status)
					}
				}
				t.There("on the new master", topic, ss)
			})
		},
	},
	Law{
		ID:     "replication-015",
		Says:   "What the master deletes, the slave keeps until it deletes itself.",
		Why:    "each store has its own disk",
		Source: "dispatch-and-read.md 5.7",
		Config: retained,
		Check: func(t *T) {
			need[Expirer](t)
			slave := follow(t)
			defer leave(t, slave)
			topic := t.Topic("")
			segments(t, topic, 3)
			t.With(slave, func() { t.Visible(topic, 0, 3*perSegment) })
			expire(t, 2*smallSegment, 2*smallSegment)
			t.With(slave, func() {
				Equal(t, "the beginning of the slave's log", slave.MinPhyOffset(), 0)
				t.Read(topic, 0, 0, 3*perSegment)
			})
		},
	},
)
