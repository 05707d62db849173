package commitlog

import (
	"errors"
	"fmt"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/record"
)

// Cursor reads records in order and holds one segment at a time. It belongs to one goroutine. Close it.
type Cursor struct {
	l    *Log
	off  int64
	view mappedfile.View // bytes of the segment that contains off, or nothing
	p    record.Parser
	kept int64 // Options.Frugal: pages from here on are this process's
}

// NewCursor starts at phyOffset, a record boundary.
func (l *Log) NewCursor(phyOffset int64) *Cursor {
	return &Cursor{l: l, off: phyOffset, kept: phyOffset, p: record.Parser{Delay: l.o.Delay}}
}

// VerifyCRC says whether Next also verifies bodies: for readers of bytes that this process did not write.
func (c *Cursor) VerifyCRC(on bool) { c.p.VerifyCRC = on }

// Next parses the record at the cursor into m and moves behind it; blanks are skipped. end bounds what may be read: records that
// end beyond it are not there yet. m's views are valid until the next call or Close. No allocation.
//
// Errors, after which the cursor is where it was: ErrNotYet, nothing whole below end yet; mappedfile.ErrNotFound, the place expired;
// *mappedfile.CorruptError, damage; ErrClosed.
func (c *Cursor) Next(m *record.Meta, end int64) error {
	for {
		end = min(end, c.l.seq.Max())
		if c.off >= end {
			if c.l.closed.Load() {
				return ErrClosed
			}
			return ErrNotYet
		}
		segEnd := c.off - c.off%c.l.size + c.l.size
		limit := min(end, segEnd)
		if have := c.view.Off + int64(len(c.view.Bytes)); c.off < c.view.Off || have < limit {
			if err := c.refresh(); err != nil {
				return err
			}
			limit = min(limit, c.view.Off+int64(len(c.view.Bytes)))
		}
		err := c.p.Parse(c.view.Bytes[c.off-c.view.Off:limit-c.view.Off], c.off, m)
		switch {
		case err != nil:
			return c.explain(err, limit, segEnd)
		case !m.IsBlank():
			if c.l.o.Frugal && c.off-c.kept >= releaseStep { // not m itself, which is about to be looked at
				c.l.seq.Advise(mappedfile.AdviceRelease, c.kept, c.off)
				c.kept = c.off
			}
			c.off += int64(m.Size)
			return nil
		case int64(m.Size) != segEnd-c.off:
			return c.l.corrupt(c.off, fmt.Errorf("%w: a blank of %d bytes where %d are left of the segment", record.ErrSize, m.Size, segEnd-c.off))
		}
		c.off = segEnd
	}
}

// explain says what Parse's error means for a reader that may not look beyond limit.
func (c *Cursor) explain(err error, limit, segEnd int64) error {
	if !errors.Is(err, record.ErrIncomplete) {
		return c.l.corrupt(c.off, err)
	}
	if b := c.view.Bytes[c.off-c.view.Off : limit-c.view.Off]; len(b) >= record.BlankHeaderSize {
		if size, _ := peekSize(b); int64(size) > segEnd-c.off {
			return c.l.corrupt(c.off, fmt.Errorf("%w: a record of %d bytes where %d are left of the segment", record.ErrSize, size, segEnd-c.off))
		}
	}
	if limit == segEnd {
		return c.l.corrupt(c.off, fmt.Errorf("%w: too few bytes are left of the segment", record.ErrSize))
	}
	return ErrNotYet
}

// refresh takes a view of everything readable from the cursor on in its segment.
func (c *Cursor) refresh() error {
	c.drop()
	v, err := c.l.seq.ViewRest(c.off)
	if err != nil {
		return c.l.readError(err)
	}
	c.view = v
	return nil
}

func (c *Cursor) drop() {
	c.view.Release()
	c.view = mappedfile.View{}
}

// Offset is where the next record is read.
func (c *Cursor) Offset() int64 { return c.off }

// SeekTo moves the cursor to phyOffset, a record boundary.
func (c *Cursor) SeekTo(phyOffset int64) {
	c.drop()
	c.off, c.kept = phyOffset, phyOffset
}

// Close gives up the segment that the cursor holds.
func (c *Cursor) Close() { c.drop() }
