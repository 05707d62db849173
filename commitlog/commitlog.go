package commitlog

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
)

// Log is an open commit log. See the package comment for its contract.
type Log struct {
	o    Options
	size int64 // of a segment
	seq  *mappedfile.Sequence
	bufs sync.Pool // *[]byte: encoded records on their way into the mapping

	grown, flushed notifier
	hasFile        atomic.Bool
	closed         atomic.Bool
	lockedAt       atomic.Int64 // Unix ns at which the append lock was taken; 0 = free

	mu struct { // the append lock
		sync.Mutex
		refuse    error // why appends are refused; nil = they are not
		whole     int64 // end of the last whole record: the log's end, but on a slave that holds half a record
		bad       bool  // what lies at whole can not be a record
		storeTime int64 // ms, of the last whole record; never goes backwards
		kept      int64 // Options.Frugal: what was appended from here on is in this process's memory
	}

	flush flusher
	times segmentTimes
}

// Counter hands out the queue offsets of one topic and queue. It is advanced under the append lock only.
type Counter struct{ next atomic.Int64 }

// Next is the queue offset that the next message will get.
func (c *Counter) Next() int64 { return c.next.Load() }

// Set makes n the next queue offset: for who recovers or truncates queues, while nobody appends to this one.
func (c *Counter) Set(n int64) { c.next.Store(n) }

// Raise makes the next queue offset n, unless it is more already: for who meets records of this queue that came without it. Appends beside it give no offset twice, and may go on below n.
func (c *Counter) Raise(n int64) {
	for at := c.next.Load(); at < n && !c.next.CompareAndSwap(at, n); {
		at = c.next.Load()
	}
}

// Open opens the log in o.Dir, recovers it as r says, and returns what it found at its end. A missing directory is an empty log.
//
// Errors: *DamageError, *SegmentSizeError, the error of r.Each or r.Stop, and those of the file system. After an error the bytes of the log
// are as they were, or cut as far as is right anyway; what was cut is in quarantine.
func Open(o Options, r Recovery) (*Log, Tail, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, Tail{}, err
	}
	found, err := recoverLog(&o, &r)
	if err != nil {
		return nil, found.tail, err
	}
	fsys := o.FS
	if len(found.hidden) > 0 {
		fsys = hidingFS{o.FS, found.hidden}
	}
	so := mappedfile.SequenceOptions{FS: fsys, Dir: o.Dir, FileSize: found.size, ReadOnly: o.ReadOnly}
	if !o.ReadOnly && !o.NoBackground {
		so.Ahead = true
		so.Prewrite = o.FlushMode == SyncFlush
		so.Lay = o.FlushMode == AsyncFlush
	}
	so.Staged = o.FlushMode == SyncFlush && !o.ReadOnly
	seq, err := mappedfile.OpenSequence(so)
	if err != nil {
		return nil, found.tail, fmt.Errorf("open commit log %s: %w", o.Dir, err)
	}
	if err := settle(&o, &r, seq, &found); err != nil {
		return nil, found.tail, errors.Join(fmt.Errorf("open commit log %s: %w", o.Dir, err), seq.Close())
	}
	l := &Log{o: o, size: found.size, seq: seq}
	l.bufs.New = func() any { b := make([]byte, 0, 4096); return &b }
	l.hasFile.Store(found.files > 0)
	l.grown.init(seq.Max)
	l.flushed.init(seq.Flushed)
	l.mu.whole, l.mu.kept = found.tail.End, found.tail.End
	l.times.m = found.times
	l.mu.storeTime = l.floor(found.tail.LastStoreTime, r.DurableTime)
	l.flush.mark = flushMark{end: found.tail.End, storeTime: l.mu.storeTime}
	if seq.Flushed() < found.tail.End { // Recovery.Later
		l.flush.mark = flushMark{end: seq.Flushed()}
	}
	if o.ReadOnly {
		l.mu.refuse = ErrReadOnly
	}
	l.flush.init()
	if !o.NoBackground && !o.ReadOnly {
		l.flush.running = true
		go l.flushLoop()
	}
	return l, found.tail, nil
}

// settle makes the recovered end the end of seq, durably: what lies behind it is kept and erased, and what lies before it may so far
// be in the page cache of a killed process only.
func settle(o *Options, r *Recovery, seq *mappedfile.Sequence, found *recovered) error {
	end := found.tail.End
	if found.files > 0 {
		if found.cut && !o.ReadOnly {
			again := found.marker
			if found.tail.DroppedBytes > 0 && !again {
				if err := writeMarker(o, end); err != nil {
					return err
				}
				found.marker = true
			}
			if err := seq.TruncateTo(end, keepIn(o, &found.tail.Quarantine)); err != nil {
				return err
			}
			if again {
				// The sync of the zeros may have failed before: the kernel then holds them for written, with the old bytes on the device.
				if err := overwrite(seq, end, found.dataEnd, func(v mappedfile.View, scratch []byte) int { return clearLen(scratch, len(v.Bytes)) }); err != nil {
					return err
				}
			}
		}
		if err := seq.SetMax(end); err != nil {
			return err
		}
		if !r.Clean && !o.ReadOnly {
			if err := harden(o, r, seq, found); err != nil {
				return err
			}
		}
	}
	switch {
	case o.ReadOnly:
		return nil
	case found.marker:
		return removeMarker(o)
	}
	// That there is no marker must be durable before anything is appended: one that a failed sync left to come back would cut it.
	if err := o.FS.SyncDir(o.QuarantineDir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// harden makes durable what recovery accepted and no mark covers. A sync alone would not do: if one failed in the process before, the
// kernel holds the pages for clean, with bytes that never reached the device.
func harden(o *Options, r *Recovery, seq *mappedfile.Sequence, found *recovered) error {
	end := found.tail.End
	from := min(found.sure, end)
	if r.FlushedTo >= 0 {
		from = min(r.FlushedTo, end)
	}
	seq.Doubt(from)
	if err := o.FS.SyncDir(o.Dir); err != nil || r.Later {
		return err
	}
	_, err := seq.Flush()
	return err
}

// overwrite stores to [from, end) of seq, piece by piece and durably, what fill puts into scratch for a view of what is there.
func overwrite(seq *mappedfile.Sequence, from, end int64, fill func(v mappedfile.View, scratch []byte) int) error {
	scratch := make([]byte, overwriteStep)
	for from < end {
		v, err := seq.ViewRaw(from)
		if err != nil {
			return err
		}
		n := fill(v, scratch[:min(end-from, overwriteStep)])
		v.Release()
		if err := seq.Overwrite(from, scratch[:n]); err != nil {
			return err
		}
		seq.Advise(mappedfile.AdviceRelease, from, from+int64(n))
		from += int64(n)
	}
	return nil
}

const overwriteStep = 1 << 20

// clearLen zeroes the first n bytes of b, or all it has, and returns how many.
func clearLen(b []byte, n int) int {
	n = min(n, len(b))
	clear(b[:n])
	return n
}

// maxClockLead bounds how far ahead of the clock a store time that was read from the log may push the times of later records: one
// damaged header must not put the rest of the log into the far future.
const maxClockLead = 24 * time.Hour

// floor is the time below which no store time may go: that of the last record, wherever it can be had.
func (l *Log) floor(last, durable int64) int64 {
	now := l.o.Now()
	limit := now.Add(maxClockLead).UnixMilli()
	if last == 0 && durable > 0 && durable <= now.UnixMilli() {
		last = durable
	}
	if end := l.seq.Max(); last == 0 && l.hasFile.Load() && end > l.seq.Min() {
		last, _ = l.lastStoreTime(end - 1 - (end-1)%l.size)
	}
	if last > limit {
		return 0
	}
	return last
}

// SegmentSize is the size of a segment file in bytes.
func (l *Log) SegmentSize() int64 { return l.size }

// MinPhyOffset is the start of the first segment, -1 if there is none.
func (l *Log) MinPhyOffset() int64 {
	if !l.hasFile.Load() {
		return -1
	}
	return l.seq.Min()
}

// MaxPhyOffset is the log's end: readers may see every byte below.
func (l *Log) MaxPhyOffset() int64 { return l.seq.Max() }

// WholePhyOffset is the end of the last whole record. It is MaxPhyOffset, but on a slave that holds a part of a record.
func (l *Log) WholePhyOffset() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.whole
}

// FlushedPhyOffset is how far the log is durable: what is below survives the machine.
func (l *Log) FlushedPhyOffset() int64 { return l.seq.Flushed() }

// Segments is a snapshot of the segment files, oldest first.
func (l *Log) Segments() []mappedfile.FileInfo { return l.seq.Files() }

// Grown returns a channel that is closed once MaxPhyOffset > past (at once if it is). It stays open when the log is closed first: select on more than it.
func (l *Log) Grown(past int64) <-chan struct{} { return l.grown.past(past) }

// FlushedPast is Grown for FlushedPhyOffset. With SyncFlush waiting here makes the flusher start as soon as there is something to flush; the channel stays open when a flush fails.
func (l *Log) FlushedPast(past int64) <-chan struct{} {
	ch := l.flushed.past(past)
	if l.o.FlushMode == SyncFlush && l.seq.Max() > l.seq.Flushed() {
		l.flush.kickOff()
	}
	return ch
}

// LockedFor is how long the append lock has been held now; 0 = it is free. It is what "page cache busy" is decided by.
func (l *Log) LockedFor() time.Duration {
	at := l.lockedAt.Load()
	if at == 0 {
		return 0
	}
	return max(0, time.Duration(l.o.Now().UnixNano()-at))
}

// LastStoreTimestamp is, in ms, a time such that every record of the log that was or will be stored no later is durable: the store
// time of the last flushed record, or one less while records of the same millisecond can follow. 0 = unknown. It is the
// checkpoint's physical time.
func (l *Log) LastStoreTimestamp() int64 {
	m := l.flush.lastMark()
	if m.storeTime == 0 {
		return 0
	}
	if l.seq.Max() == m.end && l.o.Now().UnixMilli() > m.storeTime {
		return m.storeTime
	}
	return m.storeTime - 1
}

// lock takes the append lock and reads the clock, the one time in an append.
func (l *Log) lock() time.Time {
	l.mu.Lock()
	now := l.o.Now()
	l.lockedAt.Store(max(1, now.UnixNano()))
	return now
}

func (l *Log) unlock() {
	l.lockedAt.Store(0)
	l.mu.Unlock()
}

// Close refuses further appends, waits for those in flight, flushes what is appended, and closes. Views that are still held stay
// valid. It returns the error of the last flush; a second Close returns ErrClosed.
func (l *Log) Close() error {
	if !l.closed.CompareAndSwap(false, true) {
		return ErrClosed
	}
	l.flush.stop()
	l.flush.Lock()
	defer l.flush.Unlock()
	l.mu.Lock()
	// An append is whole under the lock: once we hold it none is in flight.
	l.mu.refuse = ErrClosed
	l.mu.Unlock()
	var err error
	if !l.o.ReadOnly {
		_, err = l.flushLocked()
	}
	l.flush.fail(ErrClosed) // who waits for bytes that never came
	return errors.Join(err, l.seq.Close())
}
