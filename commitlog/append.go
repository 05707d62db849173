package commitlog

import (
	"errors"
	"fmt"
	"time"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/record"
)

// AppendResult says where a message, or a batch, lies.
type AppendResult struct {
	PhyOffset      int64 // of the (first) record
	Size           int   // bytes, of all records
	QueueOffset    int64 // of the (first) message; 0 for PREPARED and ROLLBACK
	StoreTimestamp int64 // ms
	Messages       int
}

// End is the physical offset behind the last byte: what WaitFlushed takes.
func (r AppendResult) End() int64 { return r.PhyOffset + int64(r.Size) }

// Append encodes m outside the lock and appends it; m's store fields are set. c is its queue's counter: used and advanced for NONE
// and COMMIT, while 0 is stored for PREPARED and ROLLBACK (spec/commitlog-format.md 1.11). A refusal uses up no queue offset.
// No allocation.
//
// Errors: those of record.AppendRecord, ErrZeroByte, ErrTooBig, mappedfile.ErrDiskFull (the next segment could not be made; try again when
// there is room), ErrReadOnly (also after a failed flush, then with its error), ErrPartialTail, ErrClosed.
func (l *Log) Append(m *record.Message, c *Counter) (AppendResult, error) {
	buf := l.bufs.Get().(*[]byte)
	defer l.bufs.Put(buf)
	if err := zeroFree(m); err != nil {
		return AppendResult{}, err
	}
	b, err := record.AppendRecord((*buf)[:0], m, l.o.Limits)
	if err != nil {
		return AppendResult{}, err
	}
	*buf = b[:0]
	if err := l.fits(len(b)); err != nil {
		return AppendResult{}, err
	}

	now := l.lock()
	off, err := l.reserveLocked(len(b))
	if err != nil {
		l.unlock()
		return AppendResult{}, err
	}
	storeTime := l.storeTimeLocked(now)
	queueOffset := int64(0)
	counted := hasUnit(m)
	if counted {
		queueOffset = c.next.Load()
	}
	record.Patch(b, queueOffset, off, storeTime)
	if err := l.writeLocked(off, b); err != nil {
		l.unlock()
		return AppendResult{}, err
	}
	end := off + int64(len(b))
	l.publishLocked(end, storeTime)
	if counted {
		c.next.Store(queueOffset + 1)
	}
	l.unlock()

	l.appended(end)
	m.StoreTimestamp, m.QueueOffset, m.PhyOffset = storeTime, queueOffset, off
	return AppendResult{PhyOffset: off, Size: len(b), QueueOffset: queueOffset, StoreTimestamp: storeTime, Messages: 1}, nil
}

// WriteOut brings what was appended to where it survives the end of this process, though not of the machine: for who tells somebody of an append and does not wait for its flush.
// With asynchronous flush every append is there at once. An error is as of a failed flush, and final.
func (l *Log) WriteOut() error {
	if err := l.seq.WriteOut(); err != nil {
		return l.flushFailed(err)
	}
	return nil
}

// AppendBatch appends all of ms (same topic and queue, already split and with merged properties) one behind the other into one
// segment with one store time, or none of them. Errors as Append; ErrTooBig when they do not fit into one segment together.
func (l *Log) AppendBatch(ms []record.Message, c *Counter) (AppendResult, error) {
	if len(ms) == 0 {
		return AppendResult{}, fmt.Errorf("append batch: %w: it is empty", record.ErrBatch)
	}
	buf := l.bufs.Get().(*[]byte)
	defer l.bufs.Put(buf)
	b := (*buf)[:0]
	for i := range ms {
		err := zeroFree(&ms[i])
		if err == nil {
			b, err = record.AppendRecord(b, &ms[i], l.o.Limits)
		}
		if err != nil {
			return AppendResult{}, fmt.Errorf("append batch: message %d of %d: %w", i, len(ms), err)
		}
		if err := l.fits(len(b)); err != nil {
			return AppendResult{}, err
		}
	}
	*buf = b[:0]

	now := l.lock()
	off, err := l.reserveLocked(len(b))
	if err != nil {
		l.unlock()
		return AppendResult{}, err
	}
	storeTime := l.storeTimeLocked(now)
	first, next, used := int64(0), int64(0), false
	at := 0
	for i := range ms {
		m := &ms[i]
		m.StoreTimestamp, m.QueueOffset, m.PhyOffset = storeTime, 0, off+int64(at)
		if hasUnit(m) {
			if !used {
				first, used = c.next.Load(), true
				next = first
			}
			m.QueueOffset = next
			next++
		}
		record.Patch(b[at:at+m.Size], m.QueueOffset, m.PhyOffset, storeTime)
		at += m.Size
	}
	if err := l.writeLocked(off, b); err != nil {
		l.unlock()
		return AppendResult{}, err
	}
	end := off + int64(len(b))
	l.publishLocked(end, storeTime)
	if used {
		c.next.Store(next)
	}
	l.unlock()

	l.appended(end)
	return AppendResult{PhyOffset: off, Size: len(b), QueueOffset: first, StoreTimestamp: storeTime, Messages: len(ms)}, nil
}

// hasUnit: NONE and COMMIT messages are counted by their queue, PREPARED and ROLLBACK are not.
func hasUnit(m *record.Message) bool {
	t := m.SysFlag.Transaction()
	return t == record.TransactionNone || t == record.TransactionCommit
}

// fits refuses, before anything is written, what no segment can hold beside its closing blank.
func (l *Log) fits(n int) error {
	if int64(n)+record.BlankHeaderSize > l.size {
		return fmt.Errorf("%w: %d bytes and a closing blank of %d do not fit into %d", ErrTooBig, n, record.BlankHeaderSize, l.size)
	}
	return nil
}

// reserveLocked returns the write position, with room for n bytes, in a segment in which room for the closing blank is left behind them. The
// segment that is too full for that is closed with a blank and left. After an error the write position is where it was.
func (l *Log) reserveLocked(n int) (off int64, err error) {
	if l.mu.refuse != nil {
		return 0, l.mu.refuse
	}
	if l.mu.whole != l.seq.Max() {
		return 0, fmt.Errorf("%w: it ends at %d, its last whole record at %d: truncate it to there", ErrPartialTail, l.seq.Max(), l.mu.whole)
	}
	_, off, err = l.seq.Reserve(n + record.BlankHeaderSize)
	if errors.Is(err, mappedfile.ErrEndOfFile) {
		if err = l.rollLocked(); err == nil {
			_, off, err = l.seq.Reserve(n + record.BlankHeaderSize)
		}
	}
	if err != nil {
		return 0, fmt.Errorf("append %d bytes at physical offset %d: %w", n, l.seq.Max(), err)
	}
	l.hasFile.Store(true)
	return off, nil
}

// rollLocked closes the current segment with a blank, if it has room left, and makes the next one current. The blank is not
// published before the next segment exists: when that fails, smaller records may still go where the blank would have been.
func (l *Log) rollLocked() error {
	if rest := l.seq.Rest(); rest > 0 {
		if rest < record.BlankHeaderSize {
			return fmt.Errorf("%w: %d bytes are left in the segment, too few for a blank", ErrPartialTail, rest)
		}
		_, off, err := l.seq.Reserve(record.BlankHeaderSize)
		if err != nil {
			return err
		}
		var b [record.BlankHeaderSize]byte
		record.PutBlank(b[:], int(rest))
		if err := l.writeLocked(off, b[:]); err != nil {
			return err
		}
	}
	left := l.seq.Max()
	if err := l.rollSequenceLocked(); err != nil {
		return err
	}
	if left > 0 {
		// left is the blank's place, or the segment's end when it was exactly full.
		l.times.set(left-1-(left-1)%l.size, l.mu.storeTime)
	}
	l.mu.whole = l.seq.Max()
	return nil
}

// writeLocked puts b at off, which was reserved. An error is final.
func (l *Log) writeLocked(off int64, b []byte) error {
	if err := l.seq.Write(off, b); err != nil {
		return l.failLocked(err)
	}
	return nil
}

// rollSequenceLocked makes the next segment current. An error is final only if it is that of the bytes of the old one: a segment that could not be made can be tried again.
func (l *Log) rollSequenceLocked() error {
	err := l.seq.Roll()
	if err != nil && l.seq.Err() != nil {
		return l.failLocked(err)
	}
	return err
}

func (l *Log) storeTimeLocked(now time.Time) int64 { return max(now.UnixMilli(), l.mu.storeTime) }

func (l *Log) publishLocked(end, storeTime int64) {
	l.mu.storeTime = storeTime
	l.mu.whole = end
	l.seq.Publish(end)
	l.releaseLocked(end)
}

// releaseLocked: see Options.Frugal.
func (l *Log) releaseLocked(end int64) {
	if l.o.Frugal && end-l.mu.kept >= releaseStep {
		l.seq.Advise(mappedfile.AdviceRelease, l.mu.kept, end)
		l.mu.kept = end
	}
}

// appended tells those who wait that the log has grown to end.
func (l *Log) appended(end int64) {
	l.grown.advanced(end)
	if l.o.FlushMode == SyncFlush && l.flushed.waited(end) {
		l.flush.kickOff()
	}
}
