package repair

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"sync"

	"github.com/mqstore/mqstore/checkpoint"
)

// CheckOptions say how Check looks. The zero value looks at all that lies in the directory but for our own index.
type CheckOptions struct {
	// Live: a process has the store open. What it appends, expires and has not dispatched yet is no finding then.
	Live bool

	// Dir is the store's directory in the operating system, for our own index, whose files Pebble reads itself. "" leaves that index out.
	Dir string

	// NoIndex: the store is run without an index, so that it lacks nothing if it has none. What there is of one is not looked at.
	NoIndex bool

	// IndexSlack is how many bytes of the log our own index may be behind without a finding: it catches up when the store is opened, and until then
	// queries read the rest from the log. 0 = 64 MiB. RocketMQ's does not catch up.
	IndexSlack int64

	// IndexSlots and IndexEntries are the shape of RocketMQ's index files (maxHashSlotNum, maxIndexNum) where they are not of the default one and do not tell.
	IndexSlots, IndexEntries int

	workers int   // 0 = as many as there are processors; 1: the walker does it all
	chunk   int64 // what a worker takes at a time; 0 = by the number of queues
	plain   bool  // record by record

	// Progress reports how far a stage is, in bytes of what it reads. May be nil. Called by one goroutine at a time.
	Progress func(stage string, done, total int64)
}

// Check looks at a store as it lies and tells everything that is wrong with it: each record (checksums, lengths, stored offsets), each unit against its
// record and each record against its unit, extensions, checkpoint, both indexes, and the files themselves. root is the store's directory; log is the
// commit log's, where that is not root's commitlog, else nil.
//
// It maps nothing, writes nothing and takes no lock; its memory does not grow with the store, but for some hundred bytes a queue. Findings come one at a time, in no
// promised order, and not always from the calling goroutine; an error of found ends the check and is returned. Several neighbours with the same fault are one
// finding, which says how many. What cannot be read is a finding; an error is that of ctx, of found, or a directory that is no store (*NotAStoreError).
//
// An index is compared with the log by sums of 64-bit hashes of their entries, one sum for each 64 KiB of the log or more; only where sums differ entry by entry. Damage that happens to leave a sum as
// it was, which is not told, has a chance of 2^-64 a sum.
//
// The formats protect bodies and places, not everything: a changed producer's flag, born time, host or property without meaning to the store
// cannot be seen in a record of RocketMQ 4.
func Check(ctx context.Context, root, log fs.FS, o CheckOptions, found func(Finding) error) (Checked, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if o.IndexSlack == 0 {
		o.IndexSlack = 64 << 20
	}
	c := &check{ctx: ctx, cancel: cancel, o: o, root: root, log: log}
	c.tell.found = found
	err := c.run()
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	c.sum.Findings = c.tell.n
	return c.sum, err
}

// check is one run of Check.
type check struct {
	ctx    context.Context
	cancel context.CancelCauseFunc // by an error of found
	o      CheckOptions
	root   fs.FS
	log    fs.FS
	sum    Checked

	tell struct {
		sync.Mutex
		found func(Finding) error
		n     int64
	}

	segments    []Segment // of the log, as far as they can be read and are where they belong, none longer than a segment
	segmentSize int64
	listed      map[int64]bool // segments by start that are there, but not among segments
	oddLength   map[int64]bool // segments by start whose length is wrong
	lastFile    int64          // where the last listed file of the log ends
	queues      map[QueueName]*queueState
	order       []*queueState
	clean       bool // no abort file
	halfMade    struct {
		first string // the first of them
		n     int    // files without content that were being made when the process ended: an opening removes them
	}

	damage  []span // of the log, in order; the first maxSpans
	minPhy  int64  // the first record; math.MaxInt64: none
	end     int64  // where the log ends
	maxTime int64  // the newest store time (ms)
	last    lastRecord
	units   unitCheck
	indexes []*indexCheck
	keyed   int64 // the first record with a key; -1 none

	page struct {
		checkpoint.Page
		ok bool
	}

	noIndexTold bool // that there is no index to compare is told, or in order
}

// span is a range of the log.
type span struct{ from, to int64 }

// maxSpans bounds what is remembered of a log that is damaged everywhere.
const maxSpans = 100_000

// lastRecord is what a summary knows of the record that it names.
type lastRecord struct {
	phyOffset, size, storeTime int64
	bodyCRC                    uint32
}

func (c *check) run() error {
	if err := isStore(c.root, c.log != nil); err != nil {
		return err
	}
	c.minPhy, c.keyed, c.last.phyOffset = math.MaxInt64, -1, -1
	c.layout()
	if err := c.openIndexes(); err != nil {
		return err
	}
	defer c.closeIndexes()
	c.countEarly()
	c.units.init(c)
	if err := c.walk(); err != nil {
		return err
	}
	if err := c.units.finish(); err != nil {
		return err
	}
	if err := c.checkIndexes(); err != nil {
		return err
	}
	c.state()
	c.announced()
	return c.ctx.Err()
}

// report tells a finding. After an error of found nothing is told any more.
func (c *check) report(f Finding) {
	c.tell.Lock()
	defer c.tell.Unlock()
	if c.ctx.Err() != nil {
		return
	}
	c.tell.n++
	if err := c.tell.found(f); err != nil {
		c.cancel(err)
	}
}

func (c *check) progress(stage string, done, total int64) {
	if c.o.Progress == nil {
		return
	}
	c.tell.Lock()
	defer c.tell.Unlock()
	c.o.Progress(stage, min(done, total), total)
}

// logFile is the name of the segment that phyOffset lies in, below the store's root.
func (c *check) logFile(phyOffset int64) string {
	if c.segmentSize <= 0 || phyOffset < 0 {
		return commitLogDir
	}
	return commitLogDir + "/" + segmentName(phyOffset-phyOffset%c.segmentSize)
}

func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
