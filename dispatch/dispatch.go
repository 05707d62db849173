package dispatch

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/mqstore/mqstore/commitlog/record"
)

// Log is what the dispatcher reads: one cursor in a log, and how far it may go. Only VisiblePast and VisibleEnd are called beside Next.
type Log interface {
	// Next parses the record at the cursor into m and moves behind it; blanks are skipped. A record that ends beyond end is not there yet.
	// m's views are valid until the next call.
	Next(m *record.Meta, end int64) error
	// NotYet reports whether err of Next means that nothing whole lies below its end, so that waiting helps.
	NotYet(err error) bool
	// Offset is the cursor's physical offset.
	Offset() int64
	// VisibleEnd is the physical offset up to which records may be dispatched. It only grows.
	VisibleEnd() int64
	// VisiblePast is closed once VisibleEnd() > past, at once if it is.
	VisiblePast(past int64) <-chan struct{}
}

// Sink takes records in log order, each at least once: again after its own error, and after a reopen.
// m and its views are valid until Dispatch returns: who keeps them copies. An earlier sink may set m.Bitmap for the later ones.
// An error stops the dispatcher before this record; the next Step offers it to this sink again.
type Sink interface{ Dispatch(m *record.Meta) error }

// SinkFunc is a function as a Sink.
type SinkFunc func(m *record.Meta) error

// Dispatch calls f.
func (f SinkFunc) Dispatch(m *record.Meta) error { return f(m) }

// SinkError is a sink's refusal of a record. The sinks before it have taken the record.
type SinkError struct {
	PhyOffset   int64 // of the record
	Topic       string
	QueueID     int32
	QueueOffset int64
	Err         error
}

func (e *SinkError) Error() string {
	return fmt.Sprintf("dispatch record at %d (%s queue %d offset %d): %v", e.PhyOffset, e.Topic, e.QueueID, e.QueueOffset, e.Err)
}

// Unwrap is the sink's error.
func (e *SinkError) Unwrap() error { return e.Err }

const (
	runBatch     = 1024 // records of a Step of Run: between two looks at its context
	publishEvery = 64   // records between two updates of Offset: an atomic store costs more than the rest of the loop
)

// Dispatcher carries the records of one log to its sinks. One goroutine calls Step or Run; Offset and Past are for any.
type Dispatcher struct {
	log   Log
	sinks []Sink

	m       record.Meta
	refused int   // sinks[refused] gave the error of the last Step for m, which it is offered again; -1 none
	end     int64 // the visible end that the last Step went to

	offset atomic.Int64
	wanted atomic.Int64 // no waiter waits for less: one load a publication while nobody waits
	wait   struct {
		sync.Mutex
		at map[int64]chan struct{}
	}
}

// New makes a dispatcher that starts where l's cursor stands. Each record goes to the sinks in their order.
func New(l Log, sinks ...Sink) *Dispatcher {
	d := &Dispatcher{log: l, sinks: sinks, refused: -1}
	d.offset.Store(l.Offset())
	d.wanted.Store(math.MaxInt64)
	d.wait.at = make(map[int64]chan struct{})
	return d
}

// Step dispatches at most max records and says how many. n < max and nil: there is nothing more yet.
// An error (damage of the log, a *SinkError) stops before that record, where Offset stays; the next Step tries it again.
func (d *Dispatcher) Step(max int) (n int, err error) {
	if max <= 0 {
		return 0, nil
	}
	if d.refused >= 0 {
		if err := d.deliver(d.refused); err != nil {
			return 0, err
		}
		n++
		d.publish(d.log.Offset())
	}
	d.end = d.log.VisibleEnd()
	for n < max && d.log.Offset() < d.end {
		if err = d.log.Next(&d.m, d.end); err != nil {
			if !d.log.NotYet(err) {
				err = fmt.Errorf("dispatch from %d: %w", d.log.Offset(), err)
				break
			}
			err = nil
			if end := d.log.VisibleEnd(); end > d.end {
				d.end = end
				continue
			}
			break
		}
		if err = d.deliver(0); err != nil {
			break
		}
		if n++; n%publishEvery == 0 {
			d.publish(d.log.Offset())
		}
	}
	if d.refused < 0 {
		d.publish(d.log.Offset())
	}
	return n, err
}

// deliver offers d.m to the sinks from the given one on.
func (d *Dispatcher) deliver(from int) error {
	for i, s := range d.sinks[from:] {
		if err := s.Dispatch(&d.m); err != nil {
			d.refused = from + i
			d.publish(d.m.PhyOffset)
			return &SinkError{PhyOffset: d.m.PhyOffset, Topic: d.m.Topic, QueueID: d.m.QueueID, QueueOffset: d.m.QueueOffset, Err: err}
		}
	}
	d.refused = -1
	return nil
}

// Run dispatches what there is and what comes, until ctx is done (nil) or Step gives an error, which it returns. It can be run again.
func (d *Dispatcher) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		n, err := d.Step(runBatch)
		if err != nil {
			return err
		}
		if n == runBatch {
			continue
		}
		select {
		case <-ctx.Done():
		case <-d.log.VisiblePast(d.end):
		}
	}
	return nil
}

// Offset is the physical offset below which every record is dispatched.
func (d *Dispatcher) Offset() int64 { return d.offset.Load() }

// Past is closed once Offset() >= phyOffset, at once if it is. It stays open if the dispatcher stops before.
func (d *Dispatcher) Past(phyOffset int64) <-chan struct{} {
	d.wait.Lock()
	defer d.wait.Unlock()
	c := d.wait.at[phyOffset]
	if c == nil {
		c = make(chan struct{})
		d.wait.at[phyOffset] = c
		d.wanted.Store(min(d.wanted.Load(), phyOffset))
	}
	d.wakeLocked(d.offset.Load()) // after wanted: whoever publishes from here on sees it
	return c
}

// publish says that everything below offset is dispatched.
func (d *Dispatcher) publish(offset int64) {
	d.offset.Store(offset)
	if offset >= d.wanted.Load() {
		d.wait.Lock()
		d.wakeLocked(offset)
		d.wait.Unlock()
	}
}

func (d *Dispatcher) wakeLocked(offset int64) {
	if offset < d.wanted.Load() {
		return
	}
	next := int64(math.MaxInt64)
	for at, c := range d.wait.at {
		if at <= offset {
			close(c)
			delete(d.wait.at, at)
		} else {
			next = min(next, at)
		}
	}
	d.wanted.Store(next)
}
