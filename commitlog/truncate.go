package commitlog

import (
	"errors"
	"fmt"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/record"
)

// TruncateTo cuts the log at phyOffset, which must be a record boundary in [MinPhyOffset, MaxPhyOffset]: ErrNotARecord if it is
// inside a record, mappedfile.ErrNotFound if it is outside the log. What is cut goes to quarantine and is erased; both are
// durable when it returns, and an interrupted truncation is finished by the next Open. Appends wait meanwhile. Whoever waits for
// the flush of what is cut gets ErrTruncated. A failure half-way is final as that of a flush.
//
// Cursors and queue counters beyond phyOffset are the caller's to move. So is a mark of what is durable that it gives to Recovery
// later: lower it before, or a crash behind the truncation can be taken for damage.
func (l *Log) TruncateTo(phyOffset int64) error {
	l.flush.Lock()
	defer l.flush.Unlock()
	l.lock()
	defer l.unlock()
	if l.mu.refuse != nil {
		return l.mu.refuse
	}
	end := l.seq.Max()
	if phyOffset == end {
		return nil
	}
	if phyOffset > end || phyOffset < l.MinPhyOffset() || !l.hasFile.Load() {
		return fmt.Errorf("truncate commit log [%d, %d) to %d: %w", l.MinPhyOffset(), end, phyOffset, mappedfile.ErrNotFound)
	}
	if phyOffset != l.mu.whole {
		if err := l.boundary(phyOffset); err != nil {
			return fmt.Errorf("truncate commit log to %d: %w", phyOffset, err)
		}
	}
	if err := writeMarker(&l.o, phyOffset); err != nil {
		return err
	}
	var kept []string
	err := l.seq.TruncateTo(phyOffset, keepIn(&l.o, &kept))
	if err == nil {
		l.mu.whole, l.mu.bad = phyOffset, false
		l.times.cut(phyOffset)
		l.flush.truncated(phyOffset, l.mu.storeTime)
		err = removeMarker(&l.o)
	}
	if err != nil {
		l.mu.refuse = errors.Join(ErrReadOnly, err)
		l.flush.fail(err)
		return err
	}
	return nil
}

// keepIn is the callback for Sequence.TruncateTo that quarantines what is cut.
func keepIn(o *Options, kept *[]string) func(off int64, b []byte) error {
	return func(off int64, b []byte) error {
		file, err := quarantine(o, off, b)
		if err == nil {
			*kept = append(*kept, file)
		}
		return err
	}
}

// boundary reports, as nil, that a record, a blank or a segment starts at phyOffset; else ErrNotARecord, or *mappedfile.CorruptError
// when the place is a record's but what lies there is not whole.
func (l *Log) boundary(phyOffset int64) error {
	if phyOffset%l.size == 0 {
		return nil
	}
	v, err := l.seq.ViewRest(phyOffset)
	if err != nil {
		return err
	}
	defer v.Release()
	p := record.Parser{VerifyCRC: true}
	var m record.Meta
	err = p.Parse(v.Bytes, phyOffset, &m)
	if err == nil && (!m.IsBlank() || int64(m.Size) == l.size-phyOffset%l.size) {
		return nil
	}
	return l.explain(phyOffset, err)
}

// explain says why no whole record starts at phyOffset, with which Parse failed with cause: ErrNotARecord if the headers in front of
// it lead past it, else damage.
func (l *Log) explain(phyOffset int64, cause error) error {
	start := phyOffset - phyOffset%l.size
	if cause == nil {
		cause = record.ErrMalformed
	}
	v, err := l.seq.ViewRest(start)
	switch {
	case err == nil:
		at, _, bad := walk(v.Bytes, start, start+l.size, phyOffset)
		v.Release()
		if at > phyOffset || at < phyOffset && !bad {
			return fmt.Errorf("%w: physical offset %d", ErrNotARecord, phyOffset)
		}
	case errors.Is(err, mappedfile.ErrNotFound): // deleted since the bytes were read
		return err
	case errors.Is(err, mappedfile.ErrClosed):
		return ErrClosed
	}
	return l.corrupt(phyOffset, cause)
}

// corrupt is damage at phyOffset, with the path of its segment.
func (l *Log) corrupt(phyOffset int64, cause error) error {
	return &mappedfile.CorruptError{Path: l.pathOf(phyOffset), Off: phyOffset, Err: cause}
}
