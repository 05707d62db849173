package repair

import (
	"encoding/binary"
	"io/fs"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/consumequeue"
)

// matcher compares units with records while these are read, so that nothing need be kept of what is in order. For one goroutine.
type matcher struct {
	fsys    fs.FS
	cursors map[*queueState]*cursor
	open    []*cursor // those that have a file open, and some that had
	oldest  int       // of open
	held    int       // bytes of units
}

const (
	leastMatched  = 16 // units that are read at a time
	mostMatched   = maxUnitBuffer / consumequeue.UnitSize
	mostCursors   = 4096
	mostUnitBytes = 4 << 20
)

// cursor goes along a queue's units.
type cursor struct {
	s     *queueState
	units []byte // at hand: from the queue offset next on
	next  int64  // -1: anywhere
	want  int64  // how many units to read next
	file  unitFile
}

// newMatcher is nil for a store whose files come and go: nothing is proved there. files is how many it may keep open.
func newMatcher(c *check, files int) *matcher {
	if c.o.Live {
		return nil
	}
	return &matcher{fsys: c.root, cursors: map[*queueState]*cursor{}, open: make([]*cursor, files)}
}

// reset forgets where the queues were, and gives memory back if it holds much.
func (v *matcher) reset() {
	if v != nil && (v.held > mostUnitBytes || len(v.cursors) > mostCursors) {
		v.close()
		clear(v.cursors)
		clear(v.open)
		v.held = 0
	}
}

func (v *matcher) close() {
	if v == nil {
		return
	}
	for _, c := range v.open {
		if c != nil {
			c.file.shut()
		}
	}
}

// cursor is that of a queue, ready to begin anywhere; nil if its units cannot be compared on the way.
func (v *matcher) cursor(s *queueState) *cursor {
	if v == nil || s == nil || len(s.files) == 0 || s.width != consumequeue.UnitSize {
		return nil
	}
	c := v.cursors[s]
	if c == nil {
		c = &cursor{s: s, want: leastMatched, file: unitFile{fsys: v.fsys}}
		v.cursors[s] = c
	}
	c.units, c.next = nil, -1
	return c
}

// likely says how many units of the queue the part had, as the next one may have.
func (c *cursor) likely(n int32) {
	c.want = min(max(int64(n)+int64(n)/8, leastMatched), mostMatched)
}

// next reports whether the queue's next unit is that of m, whose number follows the one before. What stands in the way of reading it is left to be told.
func (v *matcher) next(c *cursor, queueOffset int64, m *record.Meta) bool {
	if c.next != queueOffset {
		if c.next >= 0 {
			return false
		}
		c.next = queueOffset
	}
	if len(c.units) < consumequeue.UnitSize && !v.read(c) {
		return false
	}
	b := c.units[:consumequeue.UnitSize]
	u := consumequeue.Unit{ // as consumequeue.ParseUnit, whose call costs more than this
		PhyOffset: int64(binary.BigEndian.Uint64(b)),
		Size:      int32(binary.BigEndian.Uint32(b[8:])),
		TagsCode:  int64(binary.BigEndian.Uint64(b[12:])),
	}
	if u.PhyOffset != m.PhyOffset || u.Size != int32(m.Size) || u.TagsCode != m.TagsCode || !u.Valid() {
		return false
	}
	c.units = c.units[consumequeue.UnitSize:]
	c.next++
	return true
}

// read reads units from c.next on.
func (v *matcher) read(c *cursor) bool {
	f := &c.file
	if f.f == nil { // it opens one
		if old := v.open[v.oldest]; old != nil {
			old.file.shut()
		}
		v.open[v.oldest] = c
		v.oldest = (v.oldest + 1) % len(v.open)
	}
	n := c.want
	c.want = min(2*n, mostMatched)
	if size := int(n) * consumequeue.UnitSize; len(f.buf) < size {
		v.held += size - len(f.buf)
		f.buf = make([]byte, size)
	}
	f.n = 0 // nothing of it is read again
	c.units, _ = f.run(c.s, c.next, n)
	return len(c.units) >= consumequeue.UnitSize
}
