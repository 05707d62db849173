package conformance

import (
	"errors"
	"strings"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

func init() { register(asyncLaws...) }

// wait is what became of a put under way.
func (t *T) wait(f *store.Future) (store.PutResult, error) {
	if f == nil {
		t.Fatalf("PutAsync returned no future")
	}
	r, err := f.Wait(t.ctx)
	if err != nil && t.ctx.Err() != nil {
		t.Fatalf("a future is not resolved: %v", err)
	}
	return r, err
}

var asyncLaws = []Law{
	{
		ID:     "async-001",
		Says:   "A future answers as Put does: place, queue offset, store time, size, status.",
		Why:    "which of the two a broker uses is a matter of speed",
		Source: "dispatch-and-read.md 5.5",
		Tests:  []string{"FlushDiskWatcherTest.testWatcher"},
		Check: func(t *T) {
			topic := t.Topic("")
			m := t.Message(topic, 0, "a body")
			r, err := t.wait(need[store.AsyncPutter](t).PutAsync(m))
			if err != nil {
				t.Fatalf("put: %v", err)
			}
			Equal(t, "the status", r.Status, store.PutOK)
			Equal(t, "the queue offset", r.QueueOffset, 0)
			Equal(t, "the number of messages", r.Messages, 1)
			Equal(t, "the store host", r.StoreHost, broker)
			Equal(t, "the log's end", t.Store().MaxPhyOffset(), end(r))
			t.Settle(topic, 0, 1)
			got := t.Read(topic, 0, 0, 1)[0]
			Equal(t, "the message's body", string(got.Body), "a body")
			Equal(t, "its place", got.PhyOffset, r.PhyOffset)
			Equal(t, "its store time", got.StoreTimestamp, r.StoreTimestamp)
			Equal(t, "its size", got.Size, r.Size)
		},
	},
	{
		ID:     "async-002",
		Says:   "One producer may have a thousand puts under way; all are answered, with queue offsets in the order of the calls.",
		Why:    "this is what PutAsync is for, and the order of one producer is what consumers rely on",
		Source: "dispatch-and-read.md 5.5; reports 33",
		Check: func(t *T) {
			p := need[store.AsyncPutter](t)
			topic := t.Topic("")
			futures := make([]*store.Future, 1000)
			for i := range futures {
				futures[i] = p.PutAsync(t.Message(topic, 0, "x"))
			}
			var place int64 = -1
			for i, f := range futures {
				r, err := t.wait(f)
				if err != nil || r.QueueOffset != int64(i) || r.PhyOffset <= place {
					t.Errorf("put %d: queue offset %d at %d behind %d, %v", i, r.QueueOffset, r.PhyOffset, place, err)
				}
				place = r.PhyOffset
			}
			t.Settle(topic, 0, 1000)
			t.Read(topic, 0, 0, 1000)
		},
	},
	{
		ID:     "async-003",
		Says:   "A refusal comes through the future, and is Put's.",
		Why:    "a broker answers producers by it",
		Source: "dispatch-and-read.md 5.5",
		Config: Config{MaxMessageSize: 6000},
		Check: func(t *T) {
			p := need[store.AsyncPutter](t)
			topic := t.Topic("")
			for _, m := range []*record.Message{
				nil,
				t.Message("", 0, "x"),
				t.Message(topic, -1, "x"),
				t.Message(topic, 0, strings.Repeat("b", 6001)),
			} {
				_, err := t.wait(p.PutAsync(m))
				t.Refused("an asynchronous put", err, store.ErrMessageIllegal, "MESSAGE_ILLEGAL")
			}
			_, err := t.wait(p.PutAsync(t.Message(topic, 0, "x", "k", strings.Repeat("é", 16383))))
			t.Refused("an asynchronous put of too long properties", err, store.ErrPropertiesTooLarge, "PROPERTIES_SIZE_EXCEEDED")
			r, err := t.wait(p.PutAsync(t.Message(topic, 0, "x")))
			if err != nil || r.QueueOffset != 0 {
				t.Errorf("after the refusals: queue offset %d, %v", r.QueueOffset, err)
			}
		},
	},
	{
		ID:     "async-004",
		Says:   "Puts of both kinds share a queue's numbering.",
		Why:    "producers of both kinds write to one queue",
		Source: "commitlog-format.md 1.11",
		Check: func(t *T) {
			p := need[store.AsyncPutter](t)
			topic := t.Topic("")
			for i := range int64(4) {
				f := p.PutAsync(t.Message(topic, 0, "async"))
				Equal(t, "the queue offset of a put", t.Put(t.Message(topic, 0, "put")).QueueOffset, 2*i+1)
				if r, err := t.wait(f); err != nil || r.QueueOffset != 2*i {
					t.Errorf("the queue offset of an asynchronous put is %d, want %d; %v", r.QueueOffset, 2*i, err)
				}
			}
		},
	},
	{
		ID:     "async-005",
		Says:   "Of a master that waits for slaves and has none a future answers SLAVE_NOT_AVAILABLE.",
		Why:    "the producer decides whether that is good enough",
		Source: "ha-protocol.md 6.9",
		Config: Config{Role: store.SyncMaster},
		Check: func(t *T) {
			p := need[store.AsyncPutter](t)
			topic := t.Topic("")
			r, err := t.wait(p.PutAsync(t.Message(topic, 0, "x")))
			if err != nil || r.Status != store.SlaveNotAvailable {
				t.Errorf("%v, %v, want %v", r.Status, err, store.SlaveNotAvailable)
			}
			r, err = t.wait(p.PutAsync(t.Message(topic, 0, "x", "WAIT", "false")))
			if err != nil || r.Status != store.PutOK {
				t.Errorf("WAIT=false: %v, %v, want %v", r.Status, err, store.PutOK)
			}
		},
	},
	{
		ID:     "async-006",
		Says:   "Where PutOK means on disk, the log is flushed up to the message when its future answers so.",
		Why:    "this is what the producer relies on when the power fails",
		Source: "package store, What an answer means",
		Config: Config{SyncFlush: true},
		Check: func(t *T) {
			p, admin := need[store.AsyncPutter](t), need[store.Admin](t)
			var futures []*store.Future
			for range 20 {
				futures = append(futures, p.PutAsync(t.Message(t.Topic(""), 0, "x")))
			}
			for _, f := range futures {
				r, err := t.wait(f)
				if flushed := admin.Stats().FlushedPhyOffset; err != nil || r.Status != store.PutOK || flushed < end(r) {
					t.Errorf("%v, %v at flushed %d; the message ends at %d", r.Status, err, flushed, end(r))
				}
			}
		},
	},
	{
		ID:     "async-007",
		Says:   "Closing the store resolves all futures; what was answered without an error is there when it is opened again.",
		Why:    "a broker that stops must neither hang nor forget what it told its producers",
		Source: "reports 32",
		Own:    true,
		Check: func(t *T) {
			p := need[store.AsyncPutter](t)
			again := need[Reopener](t)
			topic := t.Topic("")
			var futures []*store.Future
			for range 200 {
				futures = append(futures, p.PutAsync(t.Message(topic, 0, "x")))
			}
			t.Replace(again.Reopen(t.ctx))
			for i, f := range futures {
				r, err := t.wait(f)
				switch {
				case errors.Is(err, store.ErrClosed):
				case err != nil:
					t.Errorf("put %d: %v", i, err)
				case t.Store().MaxOffset(topic, 0) <= r.QueueOffset:
					t.Errorf("put %d was answered %v with queue offset %d; the queue ends at %d", i, r.Status, r.QueueOffset, t.Store().MaxOffset(topic, 0))
				}
			}
		},
	},
	{
		ID:     "async-008",
		Says:   "A slave refuses asynchronous puts, too.",
		Why:    "its log is its master's",
		Source: "dispatch-and-read.md 5.5 row 2",
		Config: Config{Role: store.Slave},
		Check: func(t *T) {
			_, err := t.wait(need[store.AsyncPutter](t).PutAsync(t.Message(t.Topic(""), 0, "x")))
			t.Refused("an asynchronous put to a slave", err, store.ErrServiceNotAvailable, "SERVICE_NOT_AVAILABLE")
		},
	},
}
