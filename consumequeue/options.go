package consumequeue

import (
	"fmt"
	"math"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
)

const (
	defaultFileSize = 300000 * UnitSize
	allocWindow     = 16 << 10 // bytes of blocks allocated ahead in a queue's file: 819 units
	scanFirst       = 64 << 10 // bytes of a file that are looked at before it is read ahead
)

// Options say where the queues are and how they are kept. Only Dir must be set.
type Options struct {
	FS           mappedfile.FS // nil = mappedfile.OS()
	Dir          string        // consumequeue
	ExtDir       string        // consumequeue_ext, read only; "" = none
	FileSize     int64         // bytes of a queue file; 0 = that of the existing files (per queue), else 6,000,000; rounded up to a multiple of 20
	ReadOnly     bool          // nothing is written: every call that would answers mappedfile.ErrReadOnly
	Tolerant     bool          // for tools: a queue that cannot be opened is left out and reported by Strays, instead of failing Open
	NoBackground bool          // one queue after the other where several would be opened, flushed or truncated at a time: for simulations. No goroutine outlives a call anyway

	// Clean: the last exit was clean, so that every queue is on disk, whole. Otherwise a crash may have taken what was made
	// since the last Flush: a file of length 0, or one that is missing between others, ends its queue. And a killed process
	// may have left units in the page cache only: the first Flush syncs every file again, and every directory that it finds work in.
	Clean bool

	// Durable, when the last exit was not clean, is a physical offset below which units were on disk before: then only
	// those beyond need a sync, and Harden(Durable) must follow Open. 0 = none.
	Durable int64

	// Known is a Snapshot that was written durably at a clean exit, after the last Flush: where it agrees with the files
	// Open believes it instead of scanning. Leave it empty after an unclean one.
	Known []Known

	// StoreTime reads a record's store time (ms) from the log. Needed by OffsetByTime only.
	StoreTime func(phyOffset int64, size int) (int64, error)
}

// check fills in defaults and refuses what cannot be.
func (o Options) check() (Options, error) {
	if o.Dir == "" {
		return o, fmt.Errorf("open consume queues: Options.Dir is empty")
	}
	if o.FileSize < 0 || o.FileSize > math.MaxInt32 {
		return o, fmt.Errorf("open consume queues: Options.FileSize %d is not in 0..%d", o.FileSize, math.MaxInt32)
	}
	o.FileSize = (o.FileSize + UnitSize - 1) / UnitSize * UnitSize
	if o.FS == nil {
		o.FS = mappedfile.OS()
	}
	return o, nil
}

// Known is what an earlier, durable state says about a queue: see Set.Snapshot and Options.Known.
type Known struct {
	Topic    string
	QueueID  int32
	Min, Max int64 // queue offsets
	LastPhy  int64 // physical offset of the last unit; -1 none
}
