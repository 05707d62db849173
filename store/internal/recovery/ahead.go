package recovery

import (
	"io"

	"github.com/mqstore/mqstore/commitlog"
	"github.com/mqstore/mqstore/commitlog/record"
)

const (
	aheadBatch   = 512 // records
	aheadBatches = 4   // that are read and not compared yet
)

// reader reads the log's records in order, up to end: one by one, or ahead of who takes them, in a goroutine of its own. Then the records come without their properties, which are views.
type reader struct {
	cur *commitlog.Cursor
	end int64

	b          *batch
	taken      int         // of b
	full, free chan *batch // nil: one by one
	quit, done chan struct{}
}

// batch is a run of records and what ended it.
type batch struct {
	metas []record.Meta
	err   error // nil = full; io.EOF = the end; else what Cursor.Next said
	at    int64 // physical offset of what err speaks of
}

func newReader(l *commitlog.Log, from, end int64, ahead bool) *reader {
	r := &reader{cur: l.NewCursor(from), end: end}
	if !ahead {
		r.b = &batch{metas: make([]record.Meta, 0, 1)}
		return r
	}
	r.b = &batch{}
	r.full, r.free = make(chan *batch, aheadBatches), make(chan *batch, aheadBatches)
	r.quit, r.done = make(chan struct{}), make(chan struct{})
	for range aheadBatches {
		r.free <- &batch{metas: make([]record.Meta, 0, aheadBatch)}
	}
	go r.readAhead()
	return r
}

func (r *reader) readAhead() {
	defer close(r.done)
	for {
		select {
		case <-r.quit:
			return
		case b := <-r.free:
			r.fill(b)
			for i := range b.metas {
				b.metas[i].Properties = nil
			}
			r.full <- b // has room for all there are
			if b.err != nil {
				return
			}
		}
	}
}

func (r *reader) fill(b *batch) {
	b.metas, b.err = b.metas[:0], nil
	for len(b.metas) < cap(b.metas) {
		b.at = r.cur.Offset()
		if b.at >= r.end {
			b.err = io.EOF
			return
		}
		n := len(b.metas)
		b.metas = b.metas[:n+1]
		if b.err = r.cur.Next(&b.metas[n], r.end); b.err != nil {
			b.metas = b.metas[:n]
			return
		}
	}
}

// next is the next record, valid until the call after it; at is where it should lie, for an error. io.EOF at the end.
func (r *reader) next() (m *record.Meta, at int64, err error) {
	for r.taken == len(r.b.metas) {
		switch {
		case r.b.err != nil:
			return nil, r.b.at, r.b.err
		case r.full == nil:
			r.fill(r.b)
		default:
			if cap(r.b.metas) > 0 {
				r.free <- r.b
			}
			r.b = <-r.full
		}
		r.taken = 0
	}
	m = &r.b.metas[r.taken]
	r.taken++
	return m, m.PhyOffset, nil
}

func (r *reader) close() {
	if r.quit != nil {
		close(r.quit)
		<-r.done
	}
	r.cur.Close()
}
