package store

import (
	"hash/maphash"
	"sync"

	"github.com/mqstore/mqstore/commitlog"
)

// queueKey names one queue.
type queueKey struct {
	topic   string
	queueID int32
}

const counterShards = 64

// counters hands out the queue-offset counter of each topic and queue. A counter is made at the first use: its first value is what first says.
// A queue has one counter for as long as the store is open, so that no offset is given twice.
type counters struct {
	first  func(k queueKey) int64
	seed   maphash.Seed
	shards [counterShards]struct {
		sync.RWMutex
		m map[queueKey]*commitlog.Counter
	}
}

func newCounters(first func(k queueKey) int64) *counters {
	return &counters{first: first, seed: maphash.MakeSeed()}
}

func (c *counters) get(topic string, queueID int32) *commitlog.Counter {
	k := queueKey{topic, queueID}
	sh := &c.shards[(maphash.String(c.seed, topic)+uint64(uint32(queueID)))%counterShards]
	sh.RLock()
	n := sh.m[k]
	sh.RUnlock()
	if n != nil {
		return n
	}
	sh.Lock()
	defer sh.Unlock()
	if n = sh.m[k]; n != nil {
		return n
	}
	if sh.m == nil {
		sh.m = make(map[queueKey]*commitlog.Counter)
	}
	n = new(commitlog.Counter)
	n.Set(c.first(k))
	sh.m[k] = n
	return n
}
