package store

import (
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
)

// Sink receives each dispatched record in log order, at least once, before its unit enters the queue: a message can be read by Get only when every sink has taken it.
// r's Properties and Bitmap are views: valid until Dispatch returns. An error holds dispatch at this record; it is tried again until it succeeds.
// A sink runs on the dispatch goroutine, or in Open and Close: it must not call Close or WaitForMessages.
type Sink interface{ Dispatch(r *record.Meta) error }

// SinkFunc is a func as a Sink.
type SinkFunc func(r *record.Meta) error

// Dispatch calls f.
func (f SinkFunc) Dispatch(r *record.Meta) error { return f(r) }

// Arrival tells long pollers of a message that can be read now (also for PREPARED and ROLLBACK, with offset 1, as the original).
type Arrival struct {
	Topic          string
	QueueID        int32
	NextOffset     int64 // queue offset + 1
	TagsCode       int64
	StoreTimestamp int64             // ms
	Properties     record.Properties // a view: valid during the call
}

// Events reports what happens on goroutines without a caller. Nil funcs are filled. They are called on those goroutines: return soon, and do not call Close.
type Events struct {
	Damage         func(err error) // dispatch stopped at damage: puts are refused, reads of what is dispatched go on
	FlushFailed    func(err error) // final: the store is read-only until it is opened again
	DiskFull       func(err error) // once per episode
	DispatchFailed func(err error) // a sink's or queue's refusal; dispatch tries again
	Recovered      func(r RecoveryReport)
	QueueRebuilt   func(topic string, queueID int32, units int64)
	IndexFailed    func(err error) // once per episode: the index lags and tries again, puts and queues go on
	IndexRebuilt   func(why error) // the index was damaged and is built anew from the log

	SlaveConnected     func(slave string)             // to this store; it may not have said yet how much it holds
	SlaveDisconnected  func(slave string, err error)  // and why
	SlaveRefused       func(peer string, err error)   // it said what cannot be true, or is not allowed to follow; it counts for no put. ErrDiverged if its log is not this one
	MasterConnected    func(master string)            // this slave follows
	MasterLost         func(master string, err error) // the connection ended (each time) or none came about (once per reason); it is tried again
	Diverged           func(err error)                // errors.Is(err, ErrDiverged): this slave cannot follow; once per reason, while it goes on trying
	ReplicationWarning func(peer string, err error)   // listening to the world without authentication, a slave that begins inside a record, a listener that failed
	RoleChanged        func(from, to Role)
}

func (e *Events) fill() {
	nop := func(error) {}
	if e.Damage == nil {
		e.Damage = nop
	}
	if e.FlushFailed == nil {
		e.FlushFailed = nop
	}
	if e.DiskFull == nil {
		e.DiskFull = nop
	}
	if e.DispatchFailed == nil {
		e.DispatchFailed = nop
	}
	if e.IndexFailed == nil {
		e.IndexFailed = nop
	}
	if e.IndexRebuilt == nil {
		e.IndexRebuilt = nop
	}
	if e.Recovered == nil {
		e.Recovered = func(RecoveryReport) {}
	}
	named := func(string, error) {}
	for _, f := range []*func(string, error){&e.SlaveDisconnected, &e.SlaveRefused, &e.MasterLost, &e.ReplicationWarning} {
		if *f == nil {
			*f = named
		}
	}
	for _, f := range []*func(string){&e.SlaveConnected, &e.MasterConnected} {
		if *f == nil {
			*f = func(string) {}
		}
	}
	if e.Diverged == nil {
		e.Diverged = nop
	}
	if e.RoleChanged == nil {
		e.RoleChanged = func(Role, Role) {}
	}
	if e.QueueRebuilt == nil {
		e.QueueRebuilt = func(string, int32, int64) {}
	}
}

// RecoveryReport is what opening a store found and did.
type RecoveryReport struct {
	Clean          bool  // the last exit was clean
	Start, End     int64 // the log was scanned from Start; it ends at End
	ScannedRecords int64
	DroppedBytes   int64 // cut from the log's end, and kept in Quarantine
	RebuiltUnits   int64
	RebuiltQueues  []string // "topic-queueId"
	Quarantine     []string // files that keep what was cut
	Took           time.Duration
}
