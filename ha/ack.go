package ha

import (
	"cmp"
	"container/heap"
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// ackTable knows what each connected slave holds, and wakes whoever waits for it.
//
// held[i] is the highest offset that i+1 slaves were connected and had acknowledged at one moment. It never falls: what is held by a slave stays there when its connection ends.
type ackTable struct {
	src      Source
	required int
	limit    int64 // FallBehindMax

	enough  atomic.Int64 // held[required-1]: what a put waits for
	highest atomic.Int64 // held[0]
	pool    sync.Pool    // *ackWaiter

	mu struct {
		sync.Mutex
		err    error // ErrClosed
		acks   []*slaveAck
		sorted []int64 // scratch
		held   []int64
		waits  ackHeap
		pasts  []confirmWait
	}
}

// slaveAck is one connection. ack is -1 until a report counts.
type slaveAck struct {
	ack  int64
	said int64  // by a first report, which does not count yet; -1 = nothing
	host string // of the peer; "" = not known
	old  bool   // another connection of the host has begun to report since this one's last report: they may be one slave's
}

type ackWaiter struct {
	phyOffset int64
	index     int // in the heap
	ch        chan error
}

type confirmWait struct {
	required int
	past     int64
	ch       chan struct{}
}

func (t *ackTable) init(src Source, required int, limit int64) {
	t.src, t.required, t.limit = src, required, limit
	t.pool.New = func() any { return &ackWaiter{ch: make(chan error, 1)} }
}

func (t *ackTable) add(host string) *slaveAck {
	a := &slaveAck{ack: -1, said: -1, host: host}
	t.mu.Lock()
	t.mu.acks = append(t.mu.acks, a)
	pasts := t.confirmedLocked()
	t.mu.Unlock()
	closeAll(pasts)
	return a
}

func (t *ackTable) remove(a *slaveAck) {
	t.mu.Lock()
	t.mu.acks = slices.DeleteFunc(t.mu.acks, func(x *slaveAck) bool { return x == a })
	pasts := t.confirmedLocked()
	t.mu.Unlock()
	closeAll(pasts)
}

// set notes what a slave reported and serves those who waited for it, lowest offset first.
//
// A slave whose connection broke without a word comes back by another one, while what it acknowledged by the first stands here. So that it does not count twice, a first report silences
// the other connections of its host until they report again, as a living one does with the next bytes that it gets, and every few seconds.
func (t *ackTable) set(a *slaveAck, phyOffset int64) {
	t.mu.Lock()
	t.silenceLocked(a)
	a.ack = phyOffset
	t.mu.sorted = t.mu.sorted[:0]
	for _, x := range t.mu.acks {
		if x.ack >= 0 && !x.old {
			t.mu.sorted = append(t.mu.sorted, x.ack)
		}
	}
	slices.SortFunc(t.mu.sorted, func(a, b int64) int { return cmp.Compare(b, a) })
	for i, v := range t.mu.sorted {
		if i == len(t.mu.held) {
			t.mu.held = append(t.mu.held, v)
		}
		t.mu.held[i] = max(t.mu.held[i], v)
	}
	t.highest.Store(t.heldLocked(1))
	enough := t.heldLocked(t.required)
	t.enough.Store(enough)
	var served []*ackWaiter
	for len(t.mu.waits) > 0 && t.mu.waits[0].phyOffset <= enough {
		served = append(served, heap.Pop(&t.mu.waits).(*ackWaiter))
	}
	pasts := t.confirmedLocked()
	t.mu.Unlock()
	closeAll(pasts)
	for _, w := range served { // last, so that the puts are what the processor runs next
		w.ch <- nil
	}
}

// says notes a first report that acknowledges nothing: it makes the slave near, no more.
func (t *ackTable) says(a *slaveAck, phyOffset int64) {
	t.mu.Lock()
	t.silenceLocked(a)
	a.said = phyOffset
	pasts := t.confirmedLocked()
	t.mu.Unlock()
	closeAll(pasts)
}

// silenceLocked is for each report of a, before it is noted.
func (t *ackTable) silenceLocked(a *slaveAck) {
	if a.end() < 0 && a.host != "" {
		for _, x := range t.mu.acks {
			x.old = x.old || x.host == a.host
		}
	}
	a.old = false
}

// end is where the slave's log ends by its own words; -1 = it has said nothing.
func (a *slaveAck) end() int64 { return max(a.ack, a.said) }

// others reports whether a slave of host follows.
func (t *ackTable) others(host string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.mu.acks, func(x *slaveAck) bool { return x.host == host && x.end() >= 0 })
}

func (t *ackTable) heldLocked(required int) int64 {
	if required > len(t.mu.held) {
		return 0
	}
	return t.mu.held[required-1]
}

func (t *ackTable) acked(phyOffset int64) bool { return t.enough.Load() >= phyOffset }

// wait returns nil once acked(phyOffset); else ctx's cause, or ErrClosed.
func (t *ackTable) wait(ctx context.Context, phyOffset int64) error {
	if t.acked(phyOffset) {
		return nil
	}
	w := t.pool.Get().(*ackWaiter)
	w.phyOffset = phyOffset
	t.mu.Lock()
	if err := t.mu.err; err != nil || t.acked(phyOffset) {
		acked := t.acked(phyOffset)
		t.mu.Unlock()
		t.pool.Put(w)
		if acked {
			return nil
		}
		return err
	}
	heap.Push(&t.mu.waits, w)
	t.mu.Unlock()
	select {
	case err := <-w.ch:
		t.pool.Put(w)
		return err
	case <-ctx.Done():
	}
	t.mu.Lock()
	waiting := w.index >= 0
	if waiting {
		heap.Remove(&t.mu.waits, w.index)
	}
	t.mu.Unlock()
	var err error
	if waiting {
		err = context.Cause(ctx)
	} else {
		err = <-w.ch // it was served meanwhile
	}
	t.pool.Put(w)
	return err
}

// near counts slaves that are less than the limit behind target. A connection that has not reported yet counts as one that holds nothing, or, if reported, not at all.
func (t *ackTable) nearLocked(target int64, reported bool) (n int) {
	for _, a := range t.mu.acks {
		if target-max(a.end(), 0) < t.limit && (a.end() >= 0 || !reported) {
			n++
		}
	}
	return n
}

// slaveOK reports whether a put that ends at target should wait.
func (t *ackTable) slaveOK(target int64) bool {
	t.mu.Lock()
	ok := t.nearLocked(target, false) >= t.required
	var pasts []chan struct{}
	if !ok {
		pasts = t.confirmedLocked()
	}
	t.mu.Unlock()
	closeAll(pasts)
	return ok
}

func (t *ackTable) behind() int64 {
	best := int64(0)
	t.mu.Lock()
	for _, a := range t.mu.acks {
		best = max(best, a.end())
	}
	t.mu.Unlock()
	return max(0, t.src.MaxPhyOffset()-best)
}

func (t *ackTable) confirm(required int) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.confirmLocked(required)
}

func (t *ackTable) confirmLocked(required int) int64 {
	end := t.src.MaxPhyOffset()
	if required < 1 || t.nearLocked(end, true) < required {
		return end
	}
	return min(end, t.heldLocked(required))
}

func (t *ackTable) confirmedPast(required int, past int64) <-chan struct{} {
	t.mu.Lock()
	if required < 1 || t.nearLocked(t.src.MaxPhyOffset(), true) < required {
		t.mu.Unlock()
		return t.src.Grown(past) // without slaves the log's end counts; when one comes, looking again early does no harm
	}
	defer t.mu.Unlock()
	for _, w := range t.mu.pasts {
		if w.required == required && w.past == past {
			return w.ch
		}
	}
	ch := make(chan struct{})
	if t.confirmLocked(required) > past {
		close(ch)
		return ch
	}
	t.mu.pasts = append(t.mu.pasts, confirmWait{required, past, ch})
	return ch
}

// wakeConfirmed closes all channels of confirmedPast.
func (t *ackTable) wakeConfirmed() {
	t.mu.Lock()
	pasts := t.mu.pasts
	t.mu.pasts = nil
	t.mu.Unlock()
	for _, w := range pasts {
		close(w.ch)
	}
}

// confirmedLocked takes out the channels to close: what they wait for is confirmed, or slaves do not count any more.
func (t *ackTable) confirmedLocked() (done []chan struct{}) {
	if len(t.mu.pasts) == 0 {
		return nil
	}
	end := t.src.MaxPhyOffset()
	t.mu.pasts = slices.DeleteFunc(t.mu.pasts, func(w confirmWait) bool {
		gone := t.mu.err != nil || t.nearLocked(end, true) < w.required || t.confirmLocked(w.required) > w.past
		if gone {
			done = append(done, w.ch)
		}
		return gone
	})
	return done
}

func closeAll(chs []chan struct{}) {
	for _, ch := range chs {
		close(ch)
	}
}

// close wakes all who wait, and who will, with err.
func (t *ackTable) close(err error) {
	t.mu.Lock()
	t.mu.err = err
	waits := t.mu.waits
	t.mu.waits = nil
	for _, w := range waits {
		w.index = -1
	}
	pasts := t.confirmedLocked()
	t.mu.Unlock()
	for _, w := range waits {
		w.ch <- err
	}
	closeAll(pasts)
}

// ackHeap is container/heap's: the lowest offset on top.
type ackHeap []*ackWaiter

func (h ackHeap) Len() int           { return len(h) }
func (h ackHeap) Less(i, j int) bool { return h[i].phyOffset < h[j].phyOffset }
func (h ackHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *ackHeap) Push(x any) {
	w := x.(*ackWaiter)
	w.index = len(*h)
	*h = append(*h, w)
}
func (h *ackHeap) Pop() any {
	w := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = nil
	*h = (*h)[:len(*h)-1]
	w.index = -1
	return w
}
