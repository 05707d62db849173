package conformance

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// maxFaults bounds what one law reports.
const maxFaults = 10

// T is what a law works with: a store, topics of its own, helpers for what laws do again and again, and a collector of faults. All methods but Errorf and Go are for the law's own goroutine.
type T struct {
	law      Law
	ctx      context.Context
	lent     *lent
	patience time.Duration
	held     []interface{ Release() }
	group    sync.WaitGroup
	skipped  string
	broken   bool // the store must not be used again
	closed   bool // the law closed its store
	mu       struct {
		sync.Mutex
		faults []string
		sealed bool // the verdict is spoken
	}
}

// ended is the panic that ends a law early.
type ended struct{}

func (t *T) run(f func()) {
	defer func() {
		t.group.Wait()
		t.release()
	}()
	defer t.recover()
	f()
}

// release gives back what the law got.
func (t *T) release() {
	defer t.recover()
	for _, h := range t.held {
		h.Release()
	}
}

func (t *T) recover() {
	switch p := recover(); p {
	case nil, ended{}:
	default:
		t.broken = true
		t.Errorf("panic: %v\n%s", p, debug.Stack())
	}
}

// seal ends the collection of faults and returns them.
func (t *T) seal() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.sealed = true
	return t.mu.faults
}

// Errorf reports a fault; the law goes on. Any goroutine may call it.
func (t *T) Errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.sealed || len(t.mu.faults) > maxFaults {
		return
	}
	if len(t.mu.faults) == maxFaults {
		t.mu.faults = append(t.mu.faults, "and more")
		return
	}
	t.mu.faults = append(t.mu.faults, fmt.Sprintf(format, args...))
}

// Fatalf reports a fault and ends the law.
func (t *T) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	panic(ended{})
}

// Skip ends the law: it cannot be checked on this store, for that reason.
func (t *T) Skip(format string, args ...any) {
	t.skipped = fmt.Sprintf(format, args...)
	panic(ended{})
}

// Equal reports a fault unless got is want.
func Equal[V comparable](t *T, what string, got, want V) {
	if got != want {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// need is the store as an A; a store that is none skips the law.
func need[A any](t *T) A {
	var s any = t.lent.s
	if l, ok := s.(looked); ok {
		s = l.unwrap()
	}
	a, ok := s.(A)
	if !ok {
		t.Skip("engine has no %v", reflect.TypeFor[A]())
	}
	return a
}

// Go runs f beside the law, which does not end before f has. A panic of f is a fault.
func (t *T) Go(f func()) {
	t.group.Go(func() {
		defer func() {
			switch p := recover(); p {
			case nil, ended{}:
			default:
				t.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		f()
	})
}

// Wait waits for what Go started.
func (t *T) Wait() { t.group.Wait() }

// Ctx is done when the law's time is over.
func (t *T) Ctx() context.Context { return t.ctx }

// Store is the store. After Settle it may be another one.
func (t *T) Store() Store { return t.lent.s }

// runID keeps topics of one run apart from those of an earlier one in a store that keeps its data.
var runID = strconv.FormatInt(time.Now().UnixMilli()%(36*36*36*36*36), 36)

// Topic is a topic of this law; name tells several apart and may be "".
func (t *T) Topic(name string) string { return fmt.Sprintf("%s_%s%s", t.law.ID, runID, name) }

// TopicOf is a topic of this law with exactly n bytes, at least 24.
func (t *T) TopicOf(n int, name string) string {
	topic := t.Topic(name)
	return topic + strings.Repeat("t", n-len(topic))
}

var (
	producer = record.HostFrom(netip.MustParseAddrPort("10.1.2.3:54321"))
	broker   = record.HostFrom(netip.MustParseAddrPort("192.168.7.9:10911"))
)

const bornTimestamp = 1_600_000_000_000

// Message is a small message that any store accepts, with properties as names and values in turn.
func (t *T) Message(topic string, queueID int32, body string, properties ...string) *record.Message {
	return &record.Message{Topic: topic, QueueID: queueID, Body: []byte(body), BornTimestamp: bornTimestamp, BornHost: producer, StoreHost: broker, Properties: record.NewProperties(properties...)}
}

// Put stores m; a refusal ends the law.
func (t *T) Put(m *record.Message) store.PutResult {
	r, err := t.Store().Put(t.ctx, m)
	if err != nil {
		t.Fatalf("put to %s/%d: %v", m.Topic, m.QueueID, err)
	}
	return r
}

// PutN stores n small messages with the bodies "0", "1", … in a queue.
func (t *T) PutN(topic string, queueID int32, n int) []store.PutResult {
	rs := make([]store.PutResult, n)
	for i := range rs {
		rs[i] = t.Put(t.Message(topic, queueID, strconv.Itoa(i)))
	}
	return rs
}

// Refused reports a fault unless err is a refusal by that sentinel with that status of the broker.
func (t *T) Refused(what string, err, sentinel error, status string) {
	if !errors.Is(err, sentinel) || store.StatusName(err) != status {
		t.Errorf("%s: %v (%s), want %v (%s)", what, err, store.StatusName(err), sentinel, status)
	}
}

// Visible waits until the queue's end is max or beyond.
func (t *T) Visible(topic string, queueID int32, max int64) {
	s := t.Store()
	if s.MaxOffset(topic, queueID) >= max {
		return
	}
	ctx, cancel := context.WithTimeout(t.ctx, t.patience)
	defer cancel()
	if w, ok := s.(MessageWaiter); ok {
		_ = w.WaitForMessages(ctx, topic, queueID, max-1) // how the queue ends is looked at below
	}
	t.until(ctx, func() bool { return s.MaxOffset(topic, queueID) >= max })
	if got := s.MaxOffset(topic, queueID); got < max {
		t.Fatalf("%s/%d ends at %d and not at %d, %v after the puts were answered", topic, queueID, got, max, t.patience)
	}
}

// until asks again and again, less and less often, until ok or ctx is done.
func (t *T) until(ctx context.Context, ok func() bool) {
	for wait := 100 * time.Microsecond; !ok(); wait = min(2*wait, 20*time.Millisecond) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// pause lets others get on, in a loop that asks for something that they do.
func (t *T) pause() {
	select {
	case <-t.ctx.Done():
	case <-time.After(50 * time.Microsecond):
	}
}

// Settle says that the law has put what it puts and now asks: it waits until the queue's end is max or beyond, and lets happen what the maker wants to happen in between (Phaser). A law may put more, and settle again.
func (t *T) Settle(topic string, queueID int32, max int64) {
	t.Visible(topic, queueID, max)
	p, ok := t.Store().(Phaser)
	if !ok {
		return
	}
	s, err := p.NextPhase(t.ctx)
	if err != nil {
		t.broken = true
		t.Fatalf("between putting and asking: %v", err)
	}
	t.lent.s = s
	t.Visible(topic, queueID, max)
}

// Replace makes s the store, after a Reopen, Crash or the like by the law itself. An error ends the law.
func (t *T) Replace(s Store, err error) {
	if err != nil {
		t.broken = true
		t.Fatalf("open the store again: %v", err)
	}
	t.lent.s = s
}

// Close closes the store; only laws with Own may.
func (t *T) Close() error {
	t.closed = true
	return t.Store().Close()
}

// Now is the store's time, as far as the law can know it.
func (t *T) Now() time.Time {
	if c := t.lent.clock; c != nil {
		return c.Now()
	}
	return time.Now()
}

// Advance lets d pass. Without a clock that can be set it really passes: keep it short.
func (t *T) Advance(d time.Duration) {
	if c := t.lent.clock; c != nil {
		c.Advance(d)
		return
	}
	select {
	case <-t.ctx.Done():
	case <-time.After(d):
	}
}

// Clock is the store's clock; a store whose clock cannot be set skips the law.
func (t *T) Clock() *Clock {
	if t.lent.clock == nil {
		t.Skip("the maker cannot set the store's clock")
	}
	return t.lent.clock
}

// Get asks for messages; an error ends the law. The result is released at the law's end.
func (t *T) Get(r store.GetRequest) *store.GetResult {
	g, err := t.Store().Get(t.ctx, r)
	if err != nil || g == nil {
		t.Fatalf("get %s/%d from %d: %v, %v", r.Topic, r.QueueID, r.Offset, g, err)
	}
	t.held = append(t.held, g)
	return g
}

// Read is the n messages of a queue from queueOffset on, by as many gets as it takes; fewer end the law. The messages are valid until the law ends.
func (t *T) Read(topic string, queueID int32, queueOffset int64, n int) (ms []*record.Message) {
	for len(ms) < n {
		g := t.Get(store.GetRequest{Topic: topic, QueueID: queueID, Offset: queueOffset})
		got, err := g.Messages()
		if err != nil {
			t.Fatalf("get %s/%d from %d: %v", topic, queueID, queueOffset, err)
		}
		if g.Status != store.Found || len(got) == 0 || g.NextBeginOffset <= queueOffset {
			t.Fatalf("get %s/%d from %d: %v, %d records, next %d: %d messages are missing", topic, queueID, queueOffset, g.Status, len(got), g.NextBeginOffset, n-len(ms))
		}
		ms, queueOffset = append(ms, got...), g.NextBeginOffset
	}
	return ms[:n]
}
