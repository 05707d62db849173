package index

import (
	"cmp"
	"math/bits"
	"slices"
)

// entry is a key in memory.
type entry struct {
	hash      uint64
	phyOffset int64
	storeTime int64
	prev      uint32 // the entry before in its chain, plus one; 0 = none
}

// tail is the newest part of the index: everything from an offset of the log on. One goroutine adds; entries never change once added, so that readers only need the index's lock to take a run.
type tail struct {
	from    int64 // physical offset: entries at or beyond are here
	entries []entry
	slots   []uint32 // newest entry of each chain, plus one; nil: there is one chain, of all entries
	shift   int      // of a hash to its slot
	heads   []head   // of the buckets that it touches but the newest one, oldest first; complete once it is sealed
}

const minSlots = 1 << 10

// newTail is an empty tail. oneChain: it is filled more quickly, and queried by going through all of it.
func newTail(from int64, capacity int, oneChain bool) *tail {
	if oneChain {
		return &tail{from: from, entries: make([]entry, 0, capacity)}
	}
	n := max(minSlots, 1<<bits.Len(uint(max(capacity, 1)-1)))
	return &tail{from: from, entries: make([]entry, 0, capacity), slots: make([]uint32, n), shift: hashBits - bits.Len(uint(n)) + 1}
}

func (t *tail) add(hash uint64, phyOffset, storeTime int64) {
	if t.slots == nil {
		t.entries = append(t.entries, entry{hash, phyOffset, storeTime, uint32(len(t.entries))})
		return
	}
	if len(t.entries) == len(t.slots) {
		t.grow()
	}
	slot := &t.slots[hash>>t.shift]
	t.entries = append(t.entries, entry{hash, phyOffset, storeTime, *slot})
	*slot = uint32(len(t.entries))
}

// grow doubles the slots. Chains are built anew in a copy, since readers walk the old ones.
func (t *tail) grow() {
	old := t.entries
	bigger := newTail(t.from, 2*len(old), false)
	for _, e := range old {
		bigger.add(e.hash, e.phyOffset, e.storeTime)
	}
	t.entries, t.slots, t.shift = bigger.entries, bigger.slots, bigger.shift
}

// run is a chain of a tail at one moment, newest first. It stays valid when the tail grows.
type run struct {
	entries []entry
	at      uint32
	hash    uint64
}

func (t *tail) run(hash uint64) run {
	if t.slots == nil {
		return run{t.entries, uint32(len(t.entries)), hash}
	}
	return run{t.entries, t.slots[hash>>t.shift], hash}
}

// next is the next older entry of the run's hash.
func (r *run) next() (e *entry, ok bool) {
	for r.at != 0 {
		e = &r.entries[r.at-1]
		r.at = e.prev
		if e.hash == r.hash {
			return e, true
		}
	}
	return nil, false
}

// sortEntries puts those of src, which are in log order, into dst: by hash, the newest first. Hashes are uniform, so one pass that deals them out by their upper bits leaves little to do.
func sortEntries(dst, src []entry, counts []uint32) []uint32 {
	n := 1 << bits.Len(uint(len(src)/4))
	shift := hashBits - bits.Len(uint(n)) + 1
	if cap(counts) < n+1 {
		counts = make([]uint32, n+1)
	}
	counts = counts[:n+1]
	clear(counts)
	for i := range src {
		counts[src[i].hash>>shift+1]++
	}
	for i := 1; i < len(counts); i++ {
		counts[i] += counts[i-1]
	}
	for i := len(src) - 1; i >= 0; i-- {
		at := &counts[src[i].hash>>shift]
		dst[*at] = src[i]
		*at++
	}
	from := uint32(0)
	for _, to := range counts[:n] {
		sortPart(dst[from:to])
		from = to
	}
	return counts
}

// sortPart sorts by hash and keeps the order of equals.
func sortPart(part []entry) {
	if len(part) > 64 { // a key that many records have, or malice
		slices.SortStableFunc(part, func(a, b entry) int { return cmp.Compare(a.hash, b.hash) })
		return
	}
	for i := 1; i < len(part); i++ {
		e, j := part[i], i
		for ; j > 0 && part[j-1].hash > e.hash; j-- {
			part[j] = part[j-1]
		}
		part[j] = e
	}
}
