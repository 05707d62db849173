package crash

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/mqstore/mqstore/store"
)

// A history is what concurrent producers and consumers did with a store, and what it answered. It is checked queue by queue against a sequential queue (queueModel).
//
// What is promised (store's documentation, "What an answer means"):
//
//   - a put takes the next offset of its queue at some moment between its call and its answer: no offset twice, none left out;
//   - a message becomes visible when it is dispatched, which may be after its put was answered. So Get and MaxOffset are held to the dispatched prefix: at some moment between call and answer they see the first n messages of those that are
//     put, all of them and nothing else, and n never goes back. WaitForMessages makes it at least what was waited for;
//   - a kill loses nothing that was answered or seen. A power loss takes a tail of the queue, but nothing that was acknowledged as durable (SyncFlush), nothing from before a Flush that has returned, and in SyncFlush mode nothing that a consumer saw;
//   - after it was opened again everything that is there is visible, and offsets go on behind it.
type history struct {
	clock atomic.Int64
	mu    sync.Mutex
	ops   []porcupine.Operation
}

// call is one operation of a history. queue tells the partition.
type call struct {
	queue queueKey
	kind  callKind
	id    string // put: of the message
	at    int64  // get: from where; wait: for what
	max   int    // get
	how   ending // restart
}

type ending string

const (
	closed    ending = "closed"
	killed    ending = "killed"
	powerLost ending = "power lost"
)

type callKind uint8

const (
	callPut callKind = iota
	callGet
	callMax
	callWait
	callFlush
	callRestart // closed, killed or without power, and open again
)

// reply is what was answered.
type reply struct {
	offset  int64 // put
	told    bool  // put: answered before the store ended
	durable bool  // put: acknowledged as on disk
	status  store.GetStatus
	next    int64    // get
	end     int64    // get, max, restart: one past the last offset visible
	first   int64    // get, restart: the first one held
	ids     []string // get: from at on; restart: all
}

func (h *history) tick() int64 { return h.clock.Add(1) }

func (h *history) add(client int, in call, out reply, called, returned int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: in, Output: out, Call: called, Return: returned})
}

// queueState is a queue: messages base, base+1, …; below visible they can be read, below told they are answered, below durable no power loss takes them.
type queueState struct {
	base, visible, told, durable int64
	ids                          []string // never written to
	hash                         uint64   // of ids
}

func (s queueState) end() int64 { return s.base + int64(len(s.ids)) }

func hashOf(ids []string) uint64 {
	h := fnv.New64a()
	for _, id := range ids {
		h.Write(append([]byte(id), 0))
	}
	return h.Sum64()
}

// queueModel is the sequential queue. keepsVisible: what was seen survives a power loss.
func queueModel(keepsVisible bool) porcupine.Model {
	return porcupine.Model{
		Partition: func(ops []porcupine.Operation) (parts [][]porcupine.Operation) {
			by := map[queueKey][]porcupine.Operation{}
			for _, o := range ops {
				q := o.Input.(call).queue
				by[q] = append(by[q], o)
			}
			for _, part := range by {
				parts = append(parts, part)
			}
			return parts
		},
		Init:  func() any { return queueState{hash: hashOf(nil)} },
		Equal: func(a, b any) bool { return equalStates(a.(queueState), b.(queueState)) },
		Step: func(state, input, output any) (bool, any) {
			return step(state.(queueState), input.(call), output.(reply), keepsVisible)
		},
		DescribeOperation: func(input, output any) string { return describe(input.(call), output.(reply)) },
	}
}

func equalStates(a, b queueState) bool {
	return a.base == b.base && a.visible == b.visible && a.told == b.told && a.durable == b.durable && a.hash == b.hash && len(a.ids) == len(b.ids)
}

func step(s queueState, in call, out reply, keepsVisible bool) (bool, queueState) {
	switch in.kind {
	case callPut:
		if out.offset != s.end() {
			return false, s
		}
		s.ids = append(s.ids[:len(s.ids):len(s.ids)], in.id)
		s.hash = hashOf(s.ids)
		if out.told {
			s.told = max(s.told, s.end())
		}
		if out.durable {
			s.durable = max(s.durable, s.end())
		}
		return true, s
	case callFlush:
		s.durable = s.end()
		return true, s
	case callWait:
		if in.at >= s.end() {
			return false, s
		}
		s.visible = max(s.visible, in.at+1)
		return true, s
	case callMax:
		if out.end < s.visible || out.end > s.end() {
			return false, s
		}
		s.visible = out.end
		return true, s
	case callGet:
		if out.end < s.visible || out.end > s.end() {
			return false, s
		}
		s.visible = out.end
		return rightGet(s, in, out), s
	case callRestart:
		least := s.end() // closed
		switch in.how {
		case killed:
			least = max(s.told, s.visible)
		case powerLost:
			if least = s.durable; keepsVisible {
				least = max(least, s.visible)
			}
		}
		if out.end > s.end() {
			return false, s
		}
		if len(out.ids) == 0 { // a queue without a message goes on anywhere up to where it was
			if least > s.base && len(s.ids) > 0 {
				return false, s
			}
		} else if out.first != s.base || out.end < least || !slices.Equal(out.ids, s.ids[:min(len(out.ids), len(s.ids))]) {
			return false, s
		}
		return true, queueState{base: out.first, visible: out.end, told: min(s.told, out.end), durable: min(s.durable, out.end), ids: out.ids, hash: hashOf(out.ids)}
	}
	return false, s
}

// rightGet is what a get must answer of what is visible: small messages, one queue file.
func rightGet(s queueState, in call, out reply) bool {
	want := reply{status: store.Found, end: s.visible}
	switch {
	case s.visible == 0:
		want.status = store.NoMessageInQueue
	case in.at < s.base:
		want.status, want.next = store.OffsetTooSmall, s.base
	case in.at == s.visible:
		want.status, want.next = store.OffsetOverflowOne, s.visible
	case in.at > s.visible:
		want.status, want.next = store.OffsetOverflowBadly, s.visible
	default:
		n := min(int64(in.max), s.visible-in.at)
		want.next = in.at + n
		want.ids = s.ids[in.at-s.base : in.at-s.base+n]
	}
	return out.status == want.status && out.next == want.next && out.first == s.base && slices.Equal(out.ids, want.ids)
}

func describe(in call, out reply) string {
	q := fmt.Sprintf("%s/%d", in.queue.topic, in.queue.id)
	switch in.kind {
	case callPut:
		return fmt.Sprintf("put %s into %s: %d, answered %v, durable %v", in.id, q, out.offset, out.told, out.durable)
	case callGet:
		return fmt.Sprintf("get %s at %d, %d: %v, next %d, end %d, %v", q, in.at, in.max, out.status, out.next, out.end, out.ids)
	case callMax:
		return fmt.Sprintf("max of %s: %d", q, out.end)
	case callWait:
		return fmt.Sprintf("wait for %d of %s", in.at, q)
	case callFlush:
		return "flush"
	}
	return fmt.Sprintf("%s, and open again: %s is [%d, %d) %v", in.how, q, out.first, out.end, out.ids)
}

// checkTime is how long a history may take to check: it is small, so that more is a fault of the history.
const checkTime = 30 * time.Second

// check is nil if the history is one of a queue as promised; else what is wrong, with the operations of the queue up to the one that fits nowhere.
func (h *history) check(keepsVisible bool) error {
	m := queueModel(keepsVisible)
	for _, part := range m.Partition(h.ops) {
		one := m
		one.Partition = nil
		result, info := porcupine.CheckOperationsVerbose(one, part, checkTime)
		switch result {
		case porcupine.Ok:
			continue
		case porcupine.Unknown:
			return fmt.Errorf("the history of %v, of %d operations, could not be checked within %v", part[0].Input.(call).queue, len(part), checkTime)
		}
		return fmt.Errorf("the history of queue %v is none of a queue:\n%s", part[0].Input.(call).queue, explain(part, info))
	}
	return nil
}

// explain is the longest beginning that fits, and what comes after it.
func explain(part []porcupine.Operation, info porcupine.LinearizationInfo) string {
	var longest []porcupine.Operation
	for _, partial := range info.PartialLinearizationsOperations() {
		for _, ops := range partial {
			if len(ops) > len(longest) {
				longest = ops
			}
		}
	}
	line := func(o porcupine.Operation) string {
		return fmt.Sprintf("  [%d, %d] client %d: %s\n", o.Call, o.Return, o.ClientId, describe(o.Input.(call), o.Output.(reply)))
	}
	var b strings.Builder
	in := map[int64]bool{} // by call: no two are the same
	for _, o := range longest {
		in[o.Call] = true
	}
	fmt.Fprintf(&b, "%d of %d operations fit, the last ones:\n", len(longest), len(part))
	for _, o := range longest[max(0, len(longest)-15):] {
		b.WriteString(line(o))
	}
	b.WriteString("these do not:\n")
	rest := slices.DeleteFunc(slices.Clone(part), func(o porcupine.Operation) bool { return in[o.Call] })
	slices.SortFunc(rest, func(a, b porcupine.Operation) int { return int(a.Return - b.Return) })
	for _, o := range rest[:min(len(rest), 10)] {
		b.WriteString(line(o))
	}
	return b.String()
}
