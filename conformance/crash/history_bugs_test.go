package crash

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// twice gives the offset of the message before to every 20th one.
type twice struct {
	*store.DefaultMessageStore
	n *atomic.Int64
}

func (s twice) PutAsync(m *record.Message) *store.Future {
	f := s.DefaultMessageStore.PutAsync(m)
	if s.n.Add(1)%20 != 0 || m.QueueOffset == 0 {
		return f
	}
	m.QueueOffset--
	return answered(f, func(r *store.PutResult) { r.QueueOffset-- })
}

// answered is f with another answer.
func answered(f *store.Future, change func(*store.PutResult)) *store.Future {
	g, resolve := store.NewFuture()
	go func() {
		r, err := f.Wait(context.Background())
		if err == nil {
			change(&r)
		}
		resolve(r, err)
	}()
	return g
}

// skips leaves out the second of three messages or more.
type skips struct{ *store.DefaultMessageStore }

func (s skips) Get(ctx context.Context, r store.GetRequest) (*store.GetResult, error) {
	g, err := s.DefaultMessageStore.Get(ctx, r)
	if err == nil && len(g.Records) > 2 {
		g.Records[1].Release()
		g.Records = append(g.Records[:1], g.Records[2:]...)
		g.QueueOffsets = g.QueueOffsets[:len(g.Records)]
		g.NextBeginOffset--
	}
	return g, err
}

// goesBack answers the end of a queue now and then as it was one message before.
type goesBack struct {
	*store.DefaultMessageStore
	n *atomic.Int64
}

func (s goesBack) MaxOffset(topic string, queueID int32) int64 {
	end := s.DefaultMessageStore.MaxOffset(topic, queueID)
	if s.n.Add(1)%3 == 0 && end > 0 {
		end--
	}
	return end
}

// early acknowledges before the disk has it.
type early struct{ *store.DefaultMessageStore }

func (s early) PutAsync(m *record.Message) *store.Future {
	f, resolve := store.NewFuture()
	s.DefaultMessageStore.PutAsync(m)
	resolve(store.PutResult{QueueOffset: m.QueueOffset, PhyOffset: m.PhyOffset, Size: m.Size, Messages: 1, StoreTimestamp: m.StoreTimestamp}, nil)
	return f
}

// idle flushes nothing.
type idle struct{ *store.DefaultMessageStore }

func (s idle) Flush() (int64, error) { return s.MaxPhyOffset(), nil }

// impatient does not wait for messages.
type impatient struct{ *store.DefaultMessageStore }

func (s impatient) WaitForMessages(context.Context, string, int32, int64) error { return nil }

// A store that breaks one of the promises is caught.
func TestBrokenStoresAreCaughtByTheirHistories(t *testing.T) {
	for name, o := range map[string]historyOptions{
		"an offset twice":                   {flush: store.AsyncFlush, crash: true, wrap: func(s *store.DefaultMessageStore) asked { return twice{s, new(atomic.Int64)} }},
		"a get that skips":                  {flush: store.AsyncFlush, crash: true, wrap: func(s *store.DefaultMessageStore) asked { return skips{s} }},
		"a queue's end that goes back":      {flush: store.AsyncFlush, crash: true, wrap: func(s *store.DefaultMessageStore) asked { return goesBack{s, new(atomic.Int64)} }},
		"acknowledged before it is on disk": {flush: store.SyncFlush, crash: true, restarts: 3, wrap: func(s *store.DefaultMessageStore) asked { return early{s} }},
		"a flush that flushes nothing":      {flush: store.AsyncFlush, crash: true, restarts: 3, wrap: func(s *store.DefaultMessageStore) asked { return idle{s} }},
		"a wait that does not wait":         {flush: store.AsyncFlush, crash: true, wrap: func(s *store.DefaultMessageStore) asked { return impatient{s} }},
		"shown before it is on disk":        {flush: store.SyncFlush, crash: true, restarts: 3, reads: true},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(200) {
				if err := checkHistory(t, seed, o); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Error("not caught in 200 histories")
		})
	}
}
