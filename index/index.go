package index

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
)

// Index is an open index. One goroutine calls Dispatch; everything else may be called by any.
//
// Lock order: use, flushing, mu. Under mu no call goes out.
type Index struct {
	o      Options
	db     *database
	report Report
	hasher Hasher        // of who calls Dispatch
	poked  chan struct{} // Run has a tail to write
	dead   chan struct{} // closed once it failed

	use      sync.RWMutex // held for reading by whoever reads db; for writing by Close
	flushing sync.Mutex   // one writer of db at a time
	gone     bool         // db is closed; under flushing

	readOnly bool
	closed   atomic.Bool
	failed   atomic.Pointer[error]
	flushes  atomic.Int64

	mu struct {
		sync.Mutex
		min, next int64  // the log's minimum; everything that starts below next is in the index
		durable   int64  // next, as on disk
		old       []head // of the buckets before the current one, oldest first. Changed only by appending, or as a new slice
		now       head   // of the newest bucket
		some      bool   // there is one
		dropped   uint64 // buckets below are gone, whatever a tail holds of them
		active    *tail
		sealed    *tail // on its way to db; nil = none
	}
}

// Report tells what Open found.
type Report struct {
	Created       bool  // there was none
	Rebuilt       error // why an index that was there was thrown away; nil = it was not
	DroppedFrom   int64 // entries from this physical offset on were dropped, since the log ends before them or is another one than they were made from; -1 = none were
	NextPhyOffset int64 // where dispatch goes on
}

// Open opens the index in o.Dir, and creates it if there is none. What does not agree with the log is dropped before it returns; an index that is damaged is made anew (see Report). Dispatch goes on at Next.
//
// An error is the file system's (a full disk, permissions), or one of o.
func Open(o Options) (*Index, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	x := &Index{o: o, poked: make(chan struct{}, 1), dead: make(chan struct{})}
	x.report.DroppedFrom = -1
	if names, err := o.fs.List(o.Dir); err != nil || len(names) == 0 {
		x.report.Created = true
	}
	err := x.open()
	if errors.Is(err, ErrDamaged) {
		x.report.Rebuilt = err
		if err := o.fs.RemoveAll(o.Dir); err != nil {
			return nil, fmt.Errorf("open index %s: remove the damaged one: %w", o.Dir, err)
		}
		err = x.open()
	}
	if err != nil {
		return nil, fmt.Errorf("open index %s: %w", o.Dir, err)
	}
	x.report.NextPhyOffset = x.mu.next
	return x, nil
}

// open opens the database and drops what the log does not confirm.
func (x *Index) open() (err error) {
	if x.db, err = openDatabase(&x.o, false); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			x.db.close()
		}
	}()
	removeLeftover(x.o.fs, x.o.Dir)
	heads, err := x.loadHeads()
	if err != nil {
		return err
	}
	return x.reconcile(heads)
}

// loadHeads reads all buckets' heads.
func (x *Index) loadHeads() (heads []head, err error) {
	heads, size, err := readHeads(x.db)
	if err == nil && size > 0 {
		x.o.BucketSize = size
	}
	return heads, err
}

// reconcile keeps the buckets that the log confirms: those whose last record is in the log as it was. What follows a bucket that it does not confirm is dropped with it, and so are expired ones.
func (x *Index) reconcile(heads []head) error {
	first := 0
	for first < len(heads) && x.bucketEnd(heads[first].bucket) <= x.o.MinPhyOffset {
		first++
	}
	keep := len(heads)
	for keep > first {
		h := &heads[keep-1]
		if x.confirmed(h) {
			break
		}
		keep--
	}
	if first > 0 {
		if err := x.excise(0, heads[first-1].bucket+1); err != nil {
			return err
		}
	}
	if keep < len(heads) {
		if err := x.excise(heads[keep].bucket, math.MaxUint64); err != nil {
			return err
		}
	}
	if keep < len(heads) && heads[keep].next > x.o.MinPhyOffset {
		x.report.DroppedFrom = int64(heads[keep].bucket) * x.o.BucketSize
	}
	heads = heads[first:keep]
	if whole, err := x.begins(heads); err != nil {
		return err
	} else if !whole {
		if err := x.excise(heads[0].bucket, math.MaxUint64); err != nil {
			return err
		}
		x.report.DroppedFrom = x.o.MinPhyOffset
		heads = nil
	}
	m := &x.mu
	m.min = x.o.MinPhyOffset
	m.next, m.now, m.some, m.old = m.min, head{keyed: place{phyOffset: -1}}, false, nil
	if n := len(heads); n > 0 {
		m.old, m.now, m.some = slices.Clone(heads[:n-1]), heads[n-1], true
		m.next = max(m.next, m.now.next)
		m.dropped = heads[0].bucket
	}
	m.durable = m.next
	m.active, m.sealed = newTail(m.next, 0, x.o.NoCompaction), nil
	return nil
}

// begins reports whether the index, if it is beyond the log's first record, has it. It lacks it when segments that had gone came back: then it would never get their keys.
func (x *Index) begins(heads []head) (ok bool, err error) {
	at := x.o.MinPhyOffset
	if x.readOnly || len(heads) == 0 || heads[len(heads)-1].next <= at {
		return true, nil
	}
	var key []byte
	found, err := x.o.Record(at, func(m *record.Meta) {
		if hashes := keysOf(nil, m); len(hashes) > 0 {
			key = appendKey(nil, x.bucketOf(at), hashes[0], uint32(at%x.o.BucketSize))
		}
	})
	switch {
	case err != nil || !found: // no reason to doubt the index
		return true, nil
	case key == nil:
		return heads[0].bucket == x.bucketOf(at), nil
	}
	it, err := x.db.iterate(nil)
	if err != nil {
		return false, classify(err)
	}
	ok = it.seekGE(key) && bytes.Equal(it.key(), key)
	return ok, classify(errors.Join(it.error(), it.close()))
}

// confirmed reports whether the log holds the bucket's last record as it was indexed. If it cannot be read that is no reason to doubt the index: each hit is compared with its record.
func (x *Index) confirmed(h *head) (ok bool) {
	if h.next > x.o.MaxPhyOffset || h.last.phyOffset < x.o.MinPhyOffset {
		return false
	}
	found, err := x.o.Record(h.last.phyOffset, func(m *record.Meta) { ok = markOf(m) == h.last })
	return err != nil || found && ok
}

func (x *Index) bucketOf(phyOffset int64) uint64 { return uint64(phyOffset / x.o.BucketSize) }

// bucketEnd is one past the bucket's last physical offset.
func (x *Index) bucketEnd(bucket uint64) int64 {
	if bucket >= uint64(math.MaxInt64/x.o.BucketSize) {
		return math.MaxInt64
	}
	return int64(bucket+1) * x.o.BucketSize
}

// Dispatch puts the keys of m into the index: a dispatch.Sink. Records come in log order; what is in the index already is passed over. Queries see the keys when it returns.
//
// While two full tails wait to be written it waits for one of them. ErrFailed, ErrClosed.
func (x *Index) Dispatch(m *record.Meta) error {
	_, err := x.Put(m)
	return err
}

// Put is Dispatch, and says how many entries the record makes: one for each different key.
func (x *Index) Put(m *record.Meta) (keys int, err error) {
	if err := x.usable(); err != nil {
		return 0, err
	}
	if m.IsBlank() {
		return 0, nil
	}
	known := m.Properties.Known()
	hashes := x.hasher.Hashes(m, &known)
	x.mu.Lock()
	for n := len(x.mu.active.entries); n > 0 && n+len(hashes) > x.o.TailEntries; n = len(x.mu.active.entries) {
		write := x.o.NoBackground || x.mu.sealed != nil
		if x.mu.sealed == nil {
			x.sealLocked()
		}
		x.mu.Unlock()
		x.poke()
		if write { // or wait for Run, which is at it
			if err := x.flushSealed(); err != nil {
				return 0, err
			}
		}
		x.mu.Lock()
	}
	x.addLocked(m, hashes)
	x.mu.Unlock()
	return len(hashes), nil
}

// Hashes appends the Hash of each entry that the record makes to dst, those that dst has already left out.
func Hashes(dst []uint64, m *record.Meta) []uint64 { return keysOf(dst, m) }

// keysOf appends the hashes of m's keys, each once.
func keysOf(hashes []uint64, m *record.Meta) []uint64 {
	if !indexed(m) {
		return hashes
	}
	add := func(key []byte) bool {
		if h := hashOf(m.Topic, key); !slices.Contains(hashes, h) {
			hashes = append(hashes, h)
		}
		return true
	}
	if u, ok := m.UniqKey(); ok {
		add(u)
	}
	m.Keys()(add)
	return hashes
}

func (x *Index) addLocked(m *record.Meta, hashes []uint64) {
	if m.PhyOffset < x.mu.next {
		return
	}
	if b := x.bucketOf(m.PhyOffset); !x.mu.some || b != x.mu.now.bucket {
		keyed := place{phyOffset: -1}
		if x.mu.some {
			x.mu.old = append(x.mu.old, x.mu.now)
			x.mu.active.heads = append(x.mu.active.heads, x.mu.now)
			keyed = x.mu.now.keyed
		}
		x.mu.now, x.mu.some = startHead(b, m, keyed), true
	}
	for _, h := range hashes {
		x.mu.active.add(h, m.PhyOffset, m.StoreTimestamp)
	}
	x.mu.now.add(m, len(hashes))
	x.mu.next = x.mu.now.next
}

// sealLocked makes the active tail the one to be written.
func (x *Index) sealLocked() {
	t := x.mu.active
	if x.mu.some {
		t.heads = append(t.heads, x.mu.now)
	}
	size := 0
	if 2*len(t.entries) > x.o.TailEntries {
		size = x.o.TailEntries
	}
	x.mu.sealed, x.mu.active = t, newTail(x.mu.next, size, x.o.NoCompaction)
}

// Next is the physical offset of the record that Dispatch is to be given next.
func (x *Index) Next() int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.mu.next
}

// Report tells what Open found.
func (x *Index) Report() Report { return x.report }

// Err is why this Index writes no more, with ErrFailed; nil while it does.
func (x *Index) Err() error {
	if p := x.failed.Load(); p != nil {
		return *p
	}
	if err := x.db.err(); err != nil {
		x.fail(err)
		return *x.failed.Load()
	}
	return nil
}

func (x *Index) usable() error {
	if x.closed.Load() {
		return ErrClosed
	}
	if x.readOnly {
		return errReadOnly
	}
	return x.Err()
}

func (x *Index) fail(err error) error {
	if !errors.Is(err, ErrFailed) {
		err = fmt.Errorf("%w: %w", ErrFailed, err)
	}
	if x.db.guard != nil { // whoever opens it again is alone with the files
		x.db.guard.failed.CompareAndSwap(nil, &err)
	}
	if x.failed.CompareAndSwap(nil, &err) {
		close(x.dead)
	}
	return err
}

func (x *Index) poke() {
	select {
	case x.poked <- struct{}{}:
	default:
	}
}

// Run writes full tails as they come, and what there is every FlushEvery, until ctx is done (nil) or writing fails (ErrFailed).
func (x *Index) Run(ctx context.Context) error {
	tick := time.NewTicker(x.o.FlushEvery)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-x.dead:
			err = x.Err()
		case <-x.poked:
			err = x.flushSealed()
		case <-tick.C:
			err = x.Flush()
		}
		if err != nil && errors.Is(err, ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Close makes everything durable, if that is possible, and closes the index. It waits for queries under way. Of an index that turned out to be damaged it removes the files, so that the next Open makes it anew.
func (x *Index) Close() error {
	if x.closed.Swap(true) {
		return ErrClosed
	}
	var err error
	if !x.readOnly {
		if err = x.Err(); err == nil {
			err = x.flush()
		}
	}
	x.use.Lock()
	defer x.use.Unlock()
	x.flushing.Lock()
	defer x.flushing.Unlock()
	x.gone = true
	if cerr := x.db.close(); err == nil && cerr != nil {
		err = fmt.Errorf("close index %s: %w", x.o.Dir, cerr)
	}
	if errors.Is(err, ErrDamaged) && !x.readOnly {
		if rerr := x.o.fs.RemoveAll(x.o.Dir); rerr != nil {
			err = errors.Join(err, fmt.Errorf("remove it: %w", rerr))
		}
	}
	return err
}

// Progress is how far the index is.
type Progress struct {
	NextPhyOffset    int64 // everything that starts below is in the index
	DurablePhyOffset int64 // and on disk
	Entries          int64 // keys
}

// Progress is how far the index is now.
func (x *Index) Progress() Progress {
	x.mu.Lock()
	defer x.mu.Unlock()
	m := &x.mu
	p := Progress{NextPhyOffset: m.next, DurablePhyOffset: m.durable}
	for i := range m.old {
		p.Entries += m.old[i].entries
	}
	if m.some {
		p.Entries += m.now.entries
	}
	return p
}
