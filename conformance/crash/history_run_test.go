package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/store"
)

const (
	producers   = 8
	consumers   = 8
	perProducer = 12 // operations
	perConsumer = 14
)

// asked is what producers and consumers use of a store: what a broken one wraps.
type asked interface {
	PutAsync(m *record.Message) *store.Future
	Get(ctx context.Context, r store.GetRequest) (*store.GetResult, error)
	MaxOffset(topic string, queueID int32) int64
	WaitForMessages(ctx context.Context, topic string, queueID int32, offset int64) error
	Flush() (int64, error)
}

// historyOptions are one run.
type historyOptions struct {
	flush    store.FlushMode
	restarts int // between the operations
	crash    bool
	wrap     func(*store.DefaultMessageStore) asked // nil: the store itself
	reads    bool                                   // Options.ReadUncommitted
}

// world is a store under many hands.
//
// Crashes must not meet a store into a mapping (faultfs), so each operation that may write holds stop for reading, and a crash for writing. What is under way at a crash are puts that are appended and not answered. Nothing of the store runs by
// itself then: flush and dispatch are hands, too. Without crashes the store has its own goroutines.
type world struct {
	t      *testing.T
	o      historyOptions
	h      history
	queues []queueKey

	stop sync.RWMutex
	fs   *faultfs.FS
	s    *store.DefaultMessageStore
	a    asked
	dead chan struct{} // closed at the next restart
	last int64         // tick at which the dead one died

	puts   atomic.Int64 // appended so far
	used   atomic.Int64 // operations so far
	ends   []int64      // after so many a restart
	rng    *rand.Rand   // of restarts; held by stop
	failed atomic.Pointer[error]
	over   chan struct{} // closed when it failed: nobody flushes any more
}

func (w *world) fail(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	if w.failed.CompareAndSwap(nil, &err) {
		close(w.over)
	}
}

func (w *world) open() error {
	s, err := store.Open(root, store.Options{
		FS: w.fs, SegmentSize: 16 << 10, QueueFileSize: 20_000, FlushMode: w.o.flush, NoBackground: w.o.crash, ReadUncommitted: w.o.reads, Index: store.IndexOptions{Off: true},
		FlushEvery: time.Millisecond, QueueFlushEvery: time.Millisecond, MemorySize: 1 << 30, PutBusyAfter: time.Hour, SyncFlushTimeout: time.Hour,
	})
	if err != nil {
		return err
	}
	w.s, w.a = s, s
	if w.o.wrap != nil {
		w.a = w.o.wrap(s)
	}
	return nil
}

// runHistory lets 8 producers and 8 consumers at a store, with restarts in between, and returns what happened.
func runHistory(t *testing.T, seed uint64, o historyOptions) *world {
	t.Helper()
	w := &world{t: t, o: o, queues: []queueKey{{"A", 0}, {"A", 1}, {"B", 0}}, fs: faultfs.New(), dead: make(chan struct{}), over: make(chan struct{})}
	if err := w.fs.MkdirAll("/data"); err != nil {
		t.Fatal(err)
	}
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w.rng = rand.New(rand.NewPCG(seed, 1000))
	for n := range o.restarts {
		const all = producers*perProducer + consumers*perConsumer
		w.ends = append(w.ends, int64((n*all+w.rng.IntN(all))/o.restarts)+1)
	}
	var making, using, hands sync.WaitGroup
	rng := func(who int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(who))) }
	for i := range producers {
		making.Go(func() { w.produce(i, rng(i)) })
	}
	for i := range consumers {
		using.Go(func() { w.consume(ctx, producers+i, rng(producers+i)) })
	}
	if o.crash {
		hands.Go(func() { w.hand(ctx, func(s *store.DefaultMessageStore) error { _, err := s.FlushStep(); return err }) })
		hands.Go(func() {
			w.hand(ctx, func(s *store.DefaultMessageStore) error { _, err := s.DispatchStep(3); return err })
		})
	}
	making.Wait()
	w.restart()
	cancel() // who still waits for messages that nobody puts
	using.Wait()
	hands.Wait()
	if p := w.failed.Load(); p != nil {
		t.Fatalf("seed %d: %v", seed, *p)
	}
	if err := w.s.Close(); err != nil {
		t.Fatalf("seed %d: close: %v", seed, err)
	}
	return w
}

// hand does one of the store's loops by hand.
func (w *world) hand(ctx context.Context, step func(*store.DefaultMessageStore) error) {
	for ctx.Err() == nil && w.failed.Load() == nil {
		w.stop.RLock()
		if err := step(w.s); err != nil {
			w.fail("step: %w", err)
		}
		w.stop.RUnlock()
		runtime.Gosched()
	}
}

func (w *world) produce(client int, rng *rand.Rand) {
	for i := range perProducer {
		q := w.queues[rng.IntN(len(w.queues))]
		in := call{queue: q, kind: callPut, id: fmt.Sprintf("%d.%d", client, i)}
		m := &record.Message{Topic: q.topic, QueueID: q.id, Body: []byte(in.id)}
		w.stop.RLock()
		dead, called := w.dead, w.h.tick()
		f := w.a.PutAsync(m)
		told := false
		select {
		case <-f.Done():
			told = true
		default:
		}
		w.stop.RUnlock()
		w.puts.Add(1)
		w.step()
		if rng.IntN(4) == 0 { // some are in flight together
			runtime.Gosched()
		}
		select {
		case <-f.Done():
		case <-dead:
		case <-w.over:
			return
		}
		w.stop.RLock()
		var r store.PutResult
		var err error
		if w.dead == dead {
			r, err = f.Wait(context.Background())
		}
		if w.dead != dead {
			// It died with this put under way: appended, since PutAsync had returned, and perhaps not answered.
			w.h.add(client, in, reply{offset: m.QueueOffset, told: told}, called, w.last)
		} else if err != nil {
			w.fail("put %s: %w", in.id, err)
		} else {
			w.h.add(client, in, reply{offset: r.QueueOffset, told: true, durable: w.o.flush == store.SyncFlush && r.Status == store.PutOK}, called, w.h.tick())
		}
		w.stop.RUnlock()
		if w.failed.Load() != nil {
			return
		}
	}
}

func (w *world) consume(ctx context.Context, client int, rng *rand.Rand) {
	next := map[queueKey]int64{}
	for i := range perConsumer {
		// In step with the producers, more or less.
		for at := int64((i*producers*perProducer + rng.IntN(producers*perProducer)) / (perConsumer + 1)); w.puts.Load() < at; {
			if w.failed.Load() != nil {
				return
			}
			runtime.Gosched()
		}
		w.step()
		if w.o.crash && rng.IntN(2) == 0 { // or everything is flushed long before it is dispatched
			w.stop.RLock()
			if _, err := w.s.DispatchStep(1 + rng.IntN(30)); err != nil {
				w.fail("dispatch: %w", err)
			}
			w.stop.RUnlock()
		}
		q := w.queues[rng.IntN(len(w.queues))]
		switch k := rng.IntN(20); {
		case k < 10:
			at := next[q]
			if rng.IntN(4) == 0 {
				at = max(0, at+int64(rng.IntN(7)-3))
			}
			next[q] = w.get(client, q, at, 1+rng.IntN(6))
		case k < 15:
			w.stop.RLock()
			called := w.h.tick()
			end := w.a.MaxOffset(q.topic, q.id)
			w.h.add(client, call{queue: q, kind: callMax}, reply{end: end}, called, w.h.tick())
			w.stop.RUnlock()
		case k < 19:
			w.wait(ctx, client, q, next[q])
		default:
			w.stop.RLock()
			called := w.h.tick()
			_, err := w.a.Flush()
			returned := w.h.tick()
			if err != nil {
				w.fail("flush: %w", err)
			}
			for _, q := range w.queues {
				w.h.add(client, call{queue: q, kind: callFlush}, reply{}, called, returned)
			}
			w.stop.RUnlock()
		}
	}
}

// get reads and returns where to go on.
func (w *world) get(client int, q queueKey, at int64, most int) int64 {
	w.stop.RLock()
	defer w.stop.RUnlock()
	called := w.h.tick()
	r, err := w.a.Get(context.Background(), store.GetRequest{Topic: q.topic, QueueID: q.id, Offset: at, MaxMessages: most})
	returned := w.h.tick()
	if err != nil {
		w.fail("get %v at %d: %w", q, at, err)
		return at
	}
	defer r.Release()
	ids, err := bodies(r)
	if err != nil {
		w.fail("get %v at %d: %w", q, at, err)
	}
	for i, o := range r.QueueOffsets {
		if o != at+int64(i) {
			w.fail("get %v at %d: message %d is at %d", q, at, i, o)
		}
	}
	w.h.add(client, call{queue: q, kind: callGet, at: at, max: most}, reply{status: r.Status, next: r.NextBeginOffset, first: r.MinOffset, end: r.MaxOffset, ids: ids}, called, returned)
	return r.NextBeginOffset
}

// wait polls for a message. A store that ends meanwhile has promised nothing.
func (w *world) wait(ctx context.Context, client int, q queueKey, at int64) {
	w.stop.RLock()
	a, called := w.a, w.h.tick()
	w.stop.RUnlock()
	err := a.WaitForMessages(ctx, q.topic, q.id, at)
	w.stop.RLock()
	defer w.stop.RUnlock()
	if err == nil && w.a == a {
		w.h.add(client, call{queue: q, kind: callWait, at: at}, reply{}, called, w.h.tick())
	} else if err != nil && !errors.Is(err, store.ErrClosed) && ctx.Err() == nil {
		w.fail("wait for %v at %d: %w", q, at, err)
	}
}

func bodies(r *store.GetResult) (ids []string, err error) {
	ms, err := r.Messages()
	for _, m := range ms {
		ids = append(ids, string(m.Body))
	}
	return ids, err
}

// step counts an operation. Whoever does the one that is the last of a life ends it, in the midst of what the others do.
func (w *world) step() {
	if slices.Contains(w.ends, w.used.Add(1)) {
		w.restart()
	}
}

// restart ends the store in one of its ways, opens it again, and notes what each queue holds.
func (w *world) restart() {
	w.stop.Lock()
	defer w.stop.Unlock()
	rng := w.rng
	if w.failed.Load() != nil {
		return
	}
	w.last = w.h.tick()
	called := w.h.tick()
	how := closed
	old := w.s
	switch {
	case !w.o.crash:
		if err := old.Close(); err != nil {
			w.fail("close: %w", err)
			return
		}
	case rng.IntN(3) == 0:
		how = killed
		w.fs = w.fs.Kill()
		_ = old.Close() // only wakes who waits for it: its disk is gone
	default:
		how = powerLost
		w.fs = w.fs.Crash(rng)
		_ = old.Close() // the same
	}
	close(w.dead)
	w.dead = make(chan struct{})
	if err := w.open(); err != nil {
		w.fail("open: %w", err)
		return
	}
	outs := make([]reply, len(w.queues))
	for i, q := range w.queues {
		out := reply{first: w.s.MinOffset(q.topic, q.id), end: w.s.MaxOffset(q.topic, q.id)}
		for at := out.first; at < out.end; {
			r, err := w.s.Get(context.Background(), store.GetRequest{Topic: q.topic, QueueID: q.id, Offset: at})
			if err != nil || r.Status != store.Found {
				w.fail("get %v at %d of [%d, %d) after opening: %v, %v", q, at, out.first, out.end, r, err)
				return
			}
			ids, err := bodies(r)
			if err != nil {
				w.fail("get %v at %d after opening: %w", q, at, err)
			}
			out.ids, at = append(out.ids, ids...), r.NextBeginOffset
			r.Release()
		}
		outs[i] = out
	}
	returned := w.h.tick()
	for i, q := range w.queues {
		w.h.add(producers+consumers, call{queue: q, kind: callRestart, how: how}, outs[i], called, returned)
	}
}

func checkHistory(t *testing.T, seed uint64, o historyOptions) error {
	t.Helper()
	w := runHistory(t, seed, o)
	return w.h.check(o.flush == store.SyncFlush)
}

// TestConcurrentHistoriesAreThoseOfQueues: 8 producers and 8 consumers, with kills and power losses between, or with the store's own goroutines and closed between.
func TestConcurrentHistoriesAreThoseOfQueues(t *testing.T) {
	for seed := range effort.Seeds(t, 12, 300) {
		for _, o := range []historyOptions{
			{flush: store.SyncFlush, restarts: 3, crash: true},
			{flush: store.AsyncFlush, restarts: 3, crash: true},
			{flush: store.FlushMode(seed % 2), restarts: 1},
		} {
			if err := checkHistory(t, seed, o); err != nil {
				t.Fatalf("seed %d, %v, crashes %v: %v\nagain (goroutines run as they like: perhaps not the same): MQSTORE_SEED=%d go test ./conformance/crash -run '^%s$' -count 20", seed, o.flush, o.crash, err, seed, t.Name())
			}
		}
	}
}
