package conformance

import (
	"errors"

	"github.com/mqstore/mqstore/store"
)

func init() { register(closeLaws...) }

var closeLaws = []Law{
	{
		ID:     "close-001",
		Says:   "A closed store refuses puts with SERVICE_NOT_AVAILABLE.",
		Why:    "the producer goes to another broker",
		Source: "dispatch-and-read.md 5.5 row 1",
		Own:    true,
		Check: func(t *T) {
			if err := t.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			m := t.Message(t.Topic(""), 0, "x")
			t.Refuse("a put to a closed store", m, store.ErrClosed, "SERVICE_NOT_AVAILABLE")
			t.Refuse("a put to a closed store", m, store.ErrServiceNotAvailable, "SERVICE_NOT_AVAILABLE")
		},
	},
	{
		ID:     "close-002",
		Says:   "A closed store answers gets with ErrClosed, not with a status.",
		Why:    "a status would send the consumer to another offset",
		Source: "package store, Getter",
		Own:    true,
		Check: func(t *T) {
			topic := t.Topic("")
			t.Put(t.Message(topic, 0, "x"))
			t.Visible(topic, 0, 1)
			_ = t.Close()
			if g, err := t.Store().Get(t.ctx, store.GetRequest{Topic: topic}); !errors.Is(err, store.ErrClosed) {
				t.Errorf("get: %+v, %v; want %v", g, err, store.ErrClosed)
			}
		},
	},
	{
		ID:     "close-003",
		Says:   "A second Close does nothing: no panic, no hang, and no error but ErrClosed.",
		Why:    "brokers close on every way out",
		Source: "package store, Close",
		Own:    true,
		Check: func(t *T) {
			t.Put(t.Message(t.Topic(""), 0, "x"))
			if err := t.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			if err := t.Close(); err != nil && !errors.Is(err, store.ErrClosed) {
				t.Errorf("close again: %v", err)
			}
		},
	},
	{
		ID:     "close-004",
		Says:   "A closed store refuses batches and asynchronous puts, too.",
		Why:    "there is more than one way in",
		Source: "dispatch-and-read.md 5.5 row 1",
		Own:    true,
		Check: func(t *T) {
			b, a := need[store.BatchPutter](t), need[store.AsyncPutter](t)
			_ = t.Close()
			_, err := b.PutBatch(t.ctx, t.Message(t.Topic(""), 0, ""), items(2))
			t.Refused("a batch to a closed store", err, store.ErrClosed, "SERVICE_NOT_AVAILABLE")
			_, err = t.wait(a.PutAsync(t.Message(t.Topic(""), 0, "x")))
			t.Refused("an asynchronous put to a closed store", err, store.ErrClosed, "SERVICE_NOT_AVAILABLE")
		},
	},
	{
		ID:     "close-005",
		Says:   "A closed store answers lookups and flushes with ErrClosed.",
		Why:    "\"not found\" would be believed",
		Source: "package store, Looker, Admin",
		Own:    true,
		Check: func(t *T) {
			l, admin := need[store.Looker](t), need[store.Admin](t)
			r := t.Put(t.Message(t.Topic(""), 0, "x"))
			_ = t.Close()
			if m, err := l.Lookup(r.PhyOffset); !errors.Is(err, store.ErrClosed) {
				t.Errorf("lookup: %+v, %v; want %v", m, err, store.ErrClosed)
			}
			if flushed, err := admin.Flush(); !errors.Is(err, store.ErrClosed) {
				t.Errorf("flush: %d, %v; want %v", flushed, err, store.ErrClosed)
			}
		},
	},
}
