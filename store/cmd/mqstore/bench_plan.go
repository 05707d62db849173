package main

import (
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// benchPlan is how large and how long everything is, said before anything is written.
type benchPlan struct {
	record  int64 // bytes of a message in the log
	segment int64 // length of a log's file
	group   int64 // messages that one fdatasync can carry for the producers that there are

	// Bytes of log that each kind of work may write at most.
	async, sync, query, pair int64
	syncFile                 int64 // that of the fdatasync limits
	need                     int64 // all of it on disk at once
}

const (
	benchRounds     = 5       // of each kind of work, in turns with its limit
	benchMaxSegment = 1 << 27 // 128 MiB: the next one is always made ahead
	benchMaxGroup   = 1 << 26
	benchMaxBodies  = 256 << 20 // of all producers
	benchMaxSize    = 1 << 50
	benchSyncFile   = 16 << 20
	benchOverhead   = 16 << 20 // queues, index, checkpoints
	benchRecoveries = 3
)

func (c *benchCmd) plan() (p benchPlan, err error) {
	n, err := c.message(0).EncodedSize(record.Limits{})
	if err != nil {
		return p, err
	}
	p.record = int64(n)
	p.group = max(1, min(int64(c.Producers), benchMaxGroup/p.record))
	least := 2 * p.record * int64(c.Producers) * benchRounds // each producer must come to something in each round
	p.async, p.sync, p.query, p.pair = max(c.Size, least), max(c.Size/4, least), max(c.Size/8, least), max(c.Size/8, least)
	p.segment = min(benchMaxSegment, max(c.Size/8, 1<<20))
	p.segment = max(p.segment, 4*p.record+64<<10)
	p.syncFile = max(min(benchSyncFile, p.sync), 2*p.group*p.record)

	// A log takes whole segments, and one more that is made ahead.
	log := func(bytes int64) int64 { return (bytes+p.segment-1)/p.segment*p.segment + 2*p.segment + benchOverhead }
	p.need = p.syncFile + log(p.query)
	if c.has(store.AsyncFlush) {
		p.need += log(p.async)
	}
	if c.has(store.SyncFlush) {
		p.need += log(p.sync)
	}
	if c.HA {
		p.need += 2 * log(p.pair)
	}
	return p, nil
}

// has reports whether puts with this kind of flush are measured.
func (c *benchCmd) has(m store.FlushMode) bool {
	switch c.Flush {
	case "async":
		return m == store.AsyncFlush
	case "sync":
		return m == store.SyncFlush
	}
	return true
}

// about is how long all of it takes, roughly: what is measured, and a third of it to prepare that and to put it on disk.
func (c *benchCmd) about() time.Duration { return time.Duration(c.kinds()) * c.Duration * 4 / 3 }

func (c *benchCmd) kinds() int {
	n := 3 // get, query, recovery
	for _, yes := range []bool{c.has(store.AsyncFlush), c.has(store.SyncFlush), c.HA} {
		if yes {
			n++
		}
	}
	return n
}
