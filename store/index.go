package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/mqstore/mqstore/commitlog"
	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/dispatch"
	"github.com/mqstore/mqstore/index"
)

// IndexOptions are about the index of keys in <dir>/index_pebble. The zero value is the production default.
type IndexOptions struct {
	Off         bool          // no index (messageIndexEnable=false): Query answers ErrNoIndex
	MaxResults  int           // cap of one Query, default 64 (maxMsgsNumBatch)
	FlushEvery  time.Duration // how often keys become durable, default 10 s: what a crash makes the next Open read again. Full tails are written at once
	TailEntries int           // keys kept in memory until they are written, default 524,288 (40 bytes each)
	BucketSize  int64         // of a new index: bytes of the log whose keys expire together, a multiple of SegmentSize. Default: the smallest one of at least 64 MiB
	CacheSize   int64         // bytes of the block cache, default 32 MiB

	// The shape of RocketMQ's own index files, for a store without an index of ours that is opened read-only. Defaults 5,000,000 and 20,000,000 (maxHashSlotNum, maxIndexNum); files of another size are looked through for theirs.
	FileSlots, FileEntries int

	before func(m *record.Meta) error // tests: called for each record before the index is
}

// IndexStats is the state of the index.
type IndexStats struct {
	Kind              string // "pebble" (ours), "indexfile" (RocketMQ's), "none"
	ProgressPhyOffset int64  // every record that starts below is in the index; -1 = none is
	DurablePhyOffset  int64  // and on disk
	BehindBytes       int64  // of what consumers may see, not in the index yet
	Entries           int64  // keys
	Buckets           int
	TailEntries       int // keys that are in memory only
	DiskBytes         int64
	Flushes           int64
	Compactions       int64
	CacheHits         int64
	CacheMisses       int64
	HeldUp            string // why the index stands still and tries again; "" if it does not
}

const (
	indexDir       = "index_pebble"
	minIndexBucket = 64 << 20
	indexRetryMin  = 100 * time.Millisecond
	indexRetryMax  = 10 * time.Second
)

// indexOptions are the options of an index over log.
func indexOptions(dir string, o *Options, log *commitlog.Log) index.Options {
	io := index.Options{
		Dir:          filepath.Join(dir, indexDir),
		MinPhyOffset: log.MinPhyOffset(),
		MaxPhyOffset: log.MaxPhyOffset(),
		Record:       indexedRecord(log),
		BucketSize:   o.Index.BucketSize,
		TailEntries:  o.Index.TailEntries,
		FlushEvery:   o.Index.FlushEvery,
		CacheSize:    o.Index.CacheSize,
		MaxResults:   o.Index.MaxResults,
		NoBackground: o.NoBackground,
		Logger:       indexLogger{o.Logger},
	}
	if io.BucketSize == 0 {
		segment := log.SegmentSize()
		io.BucketSize = segment * ((minIndexBucket + segment - 1) / segment)
	}
	if o.FS != mappedfile.OS() { // Pebble has files of its own
		io.Dir = ""
	}
	return io
}

// indexedRecord shows the index a record. A place where no record begins is one that it need not care about; damage is an error.
func indexedRecord(log *commitlog.Log) func(phyOffset int64, look func(m *record.Meta)) (bool, error) {
	parsers := sync.Pool{New: func() any { return new(record.Parser) }}
	return func(phyOffset int64, look func(m *record.Meta)) (bool, error) {
		v, err := log.ViewRest(phyOffset)
		if errors.Is(err, mappedfile.ErrNotFound) {
			return false, nil
		} else if err != nil {
			return false, err
		}
		defer v.Release()
		p := parsers.Get().(*record.Parser)
		defer parsers.Put(p)
		var m record.Meta
		if p.Parse(v.Bytes, phyOffset, &m) == nil {
			if m.IsBlank() {
				return false, nil
			}
			look(&m)
			return true, nil
		}
		_, whole, err := log.Message(phyOffset) // says what is wrong
		whole.Release()
		if errors.Is(err, commitlog.ErrNotARecord) || errors.Is(err, commitlog.ErrNotYet) || errors.Is(err, mappedfile.ErrNotFound) {
			err = nil
		}
		return false, err
	}
}

// indexLogger passes what Pebble says on.
type indexLogger struct{ to hclog.Logger }

func (l indexLogger) Infof(format string, args ...any) {
	if l.to.IsDebug() {
		l.to.Debug("index: " + fmt.Sprintf(format, args...))
	}
}

func (l indexLogger) Errorf(format string, args ...any) {
	l.to.Warn("index: " + fmt.Sprintf(format, args...))
}

// indexer keeps the index behind the log: from the index's own progress, with a dispatcher of its own, so that it never holds up the queues. When the index fails it is opened again, later and later; queries go on with the failed one meanwhile.
type indexer struct {
	log  visibleLog // without a cursor
	open func() (*index.Index, error)
	o    *Options
	dir  string

	mu struct {
		sync.RWMutex
		x          *index.Index // nil: could not be opened yet
		cursor     *commitlog.Cursor
		dispatcher *dispatch.Dispatcher
		replaced   chan struct{} // closed when dispatcher is another one
		min        int64         // the log's minimum, as far as was told
		trouble    error
		troubleAt  int64 // offset then: once the index is past it, the trouble is over
		closed     bool
	}
}

func newIndexer(dir string, o *Options, log visibleLog) *indexer {
	n := &indexer{log: log, o: o, dir: dir}
	n.open = func() (*index.Index, error) { return index.Open(indexOptions(dir, o, log.log)) }
	n.mu.replaced = make(chan struct{})
	return n
}

// start opens the index. What keeps it from opening is noted and no error: run tries again.
func (n *indexer) start() {
	if err := n.reopen(); err != nil {
		n.failed(err)
	}
}

// reopen replaces the index by one that works.
func (n *indexer) reopen() error {
	n.mu.RLock()
	old, cursor, min := n.mu.x, n.mu.cursor, n.mu.min
	n.mu.RUnlock()
	if old != nil && errors.Is(old.Err(), index.ErrDamaged) {
		n.replace(nil, nil)
		old.Close() // and removes it
		old = nil
	}
	x, err := n.open()
	if err != nil {
		return err
	}
	if _, err := x.Expire(min); err != nil {
		x.Close()
		return err
	}
	r := x.Report()
	if r.Rebuilt != nil {
		n.o.Logger.Warn("the index was damaged and is built anew", "dir", n.dir, "err", r.Rebuilt)
		n.o.Events.IndexRebuilt(r.Rebuilt)
	}
	if r.DroppedFrom >= 0 {
		n.o.Logger.Info("the index was of another log, or ahead of it, and is built anew from there", "dir", n.dir, "phyOffset", r.DroppedFrom)
	}
	n.replace(x, n.log.log.NewCursor(max(x.Next(), n.log.log.MinPhyOffset(), 0)))
	if cursor != nil {
		cursor.Close()
	}
	if old != nil {
		old.Close()
	}
	return nil
}

func (n *indexer) replace(x *index.Index, c *commitlog.Cursor) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.x, n.mu.cursor, n.mu.dispatcher = x, c, nil
	if x != nil {
		log := n.log
		log.Cursor = c
		n.mu.dispatcher = dispatch.New(log, n.sinks(x)...)
		n.mu.trouble = nil
	}
	close(n.mu.replaced)
	n.mu.replaced = make(chan struct{})
}

func (n *indexer) sinks(x *index.Index) []dispatch.Sink {
	if n.o.Index.before != nil {
		return []dispatch.Sink{dispatch.SinkFunc(n.o.Index.before), x}
	}
	return []dispatch.Sink{x}
}

// failed notes why the index stands still. The event comes once per episode.
func (n *indexer) failed(err error) {
	err = fmt.Errorf("index: %w", fromBelow(err))
	at := n.offset()
	n.mu.Lock()
	first := n.mu.trouble == nil || at > n.mu.troubleAt
	n.mu.trouble, n.mu.troubleAt = err, at
	n.mu.Unlock()
	if first {
		n.o.Logger.Warn("the index stands still; puts and queues go on", "dir", n.dir, "err", err)
		n.o.Events.IndexFailed(err)
	}
}

// run follows the log until ctx is done.
func (n *indexer) run(ctx context.Context) {
	for wait := indexRetryMin; ; {
		before := n.offset()
		err := n.follow(ctx)
		if ctx.Err() != nil || errors.Is(err, commitlog.ErrClosed) {
			return
		}
		if err != nil {
			n.failed(err)
		}
		if n.offset() > before { // whatever it was before, it is over
			wait = indexRetryMin
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		wait = min(2*wait, indexRetryMax)
		if x, _ := n.current(); x == nil || x.Err() != nil {
			if err := n.reopen(); err != nil {
				n.failed(err)
			}
		}
	}
}

// follow dispatches and writes until one of the two fails.
func (n *indexer) follow(ctx context.Context) error {
	x, d := n.current()
	if x == nil {
		return nil
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	written := make(chan error, 1)
	go func() {
		err := x.Run(ctx)
		stop()
		written <- err
	}()
	err := n.dispatch(func() error { return d.Run(ctx) })
	stop()
	if werr := <-written; werr != nil {
		err = werr
	}
	return err
}

// dispatch runs f, and once more from the log's minimum if what it wanted has expired.
func (n *indexer) dispatch(f func() error) error {
	err := f()
	n.mu.RLock()
	c := n.mu.cursor
	n.mu.RUnlock()
	if first := n.log.log.MinPhyOffset(); errors.Is(err, mappedfile.ErrNotFound) && c.Offset() < first {
		c.SeekTo(first)
		err = f()
	}
	return err
}

// step dispatches at most max records. It is for stores without background goroutines.
func (n *indexer) step(max int) (done int, err error) {
	if x, _ := n.current(); x == nil || x.Err() != nil {
		if err := n.reopen(); err != nil {
			n.failed(err)
			return 0, err
		}
	}
	_, d := n.current()
	err = n.dispatch(func() error {
		k, err := d.Step(max - done)
		done += k
		return err
	})
	if err != nil {
		n.failed(err)
		return done, err
	}
	n.mu.Lock()
	n.mu.trouble = nil
	n.mu.Unlock()
	return done, nil
}

func (n *indexer) current() (*index.Index, *dispatch.Dispatcher) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.mu.x, n.mu.dispatcher
}

// offset is how far the index is; -1 if it is not open.
func (n *indexer) offset() int64 {
	x, d := n.current()
	if x == nil {
		return -1
	}
	return max(x.Next(), d.Offset())
}

// wait waits until the index holds everything below phyOffset.
func (n *indexer) wait(ctx context.Context, phyOffset int64) error {
	for {
		n.mu.RLock()
		d, replaced, closed := n.mu.dispatcher, n.mu.replaced, n.mu.closed
		n.mu.RUnlock()
		if closed {
			return ErrClosed
		}
		var past <-chan struct{}
		if d != nil {
			past = d.Past(phyOffset)
		}
		select {
		case <-past:
			return nil
		case <-replaced:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// expire drops what lies below the log's minimum.
func (n *indexer) expire(minPhyOffset int64) {
	n.mu.Lock()
	n.mu.min = max(n.mu.min, minPhyOffset)
	x := n.mu.x
	n.mu.Unlock()
	if x == nil {
		return
	}
	if _, err := x.Expire(minPhyOffset); err != nil && !errors.Is(err, index.ErrClosed) {
		n.failed(err)
	}
}

// close makes what is in the index durable. run has ended.
func (n *indexer) close() {
	n.mu.Lock()
	x, c := n.mu.x, n.mu.cursor
	n.mu.closed = true
	close(n.mu.replaced)
	n.mu.Unlock()
	if x != nil {
		if err := x.Close(); err != nil {
			n.o.Logger.Warn("the index could not be closed; the next open builds on from what is on disk", "dir", n.dir, "err", err)
		}
	}
	if c != nil {
		c.Close()
	}
}

func (n *indexer) stats() IndexStats {
	n.mu.RLock()
	x, trouble, troubleAt := n.mu.x, n.mu.trouble, n.mu.troubleAt
	n.mu.RUnlock()
	st := IndexStats{Kind: "pebble", ProgressPhyOffset: -1}
	if x != nil {
		fillIndexStats(&st, x.Stats())
	}
	at := n.offset()
	st.BehindBytes = max(n.log.VisibleEnd()-max(at, n.log.log.MinPhyOffset(), 0), 0)
	if trouble != nil && at <= troubleAt {
		st.HeldUp = trouble.Error()
	}
	return st
}

func fillIndexStats(st *IndexStats, s index.Stats) {
	st.ProgressPhyOffset, st.DurablePhyOffset = s.NextPhyOffset, s.DurablePhyOffset
	st.Entries, st.Buckets, st.TailEntries = s.Entries, s.Buckets, s.TailEntries
	st.DiskBytes, st.Flushes, st.Compactions = s.DiskBytes, s.Flushes, s.Compactions
	st.CacheHits, st.CacheMisses = s.CacheHits, s.CacheMisses
}

// IndexStep puts the keys of at most max records into the index and returns how many; 0 and nil when there is nothing more yet. It is for stores without background goroutines.
func (s *DefaultMessageStore) IndexStep(max int) (n int, err error) {
	switch {
	case s.closing.Load():
		return 0, ErrClosed
	case s.index == nil:
		return 0, ErrNoIndex
	case !s.o.NoBackground:
		return 0, errors.New("store: IndexStep is for stores that were opened with Options.NoBackground: this one indexes by itself")
	}
	s.stepMu.index.Lock()
	defer s.stepMu.index.Unlock()
	if s.closing.Load() {
		return 0, ErrClosed
	}
	return s.index.step(max)
}

// WaitIndexed waits until queries find every message that starts below phyOffset (MaxPhyOffset: all of them). It returns ErrNoIndex, ErrClosed or ctx's error.
func (s *DefaultMessageStore) WaitIndexed(ctx context.Context, phyOffset int64) error {
	if s.index == nil {
		return ErrNoIndex
	}
	return s.index.wait(ctx, phyOffset)
}
