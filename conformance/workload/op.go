package workload

import (
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// Kind is an operation's name in the text form.
type Kind string

// The kinds of operations. See the package's documentation.
const (
	Put      Kind = "put"
	Async    Kind = "async"
	Await    Kind = "await"
	Batch    Kind = "batch"
	Append   Kind = "append"
	Get      Kind = "get"
	Bounds   Kind = "bounds"
	Unit     Kind = "unit"
	ByTime   Kind = "bytime"
	Lookup   Kind = "lookup"
	LookupID Kind = "lookupid"
	Query    Kind = "query"
	Scan     Kind = "scan"
	Log      Kind = "log"
	Whole    Kind = "whole"
	Flush    Kind = "flush"
	Expire   Kind = "expire"
	Reopen   Kind = "reopen"
	Crash    Kind = "crash"
	SetClock Kind = "clock"
)

// Kinds is all kinds of operations.
func Kinds() []Kind {
	return []Kind{Put, Async, Await, Batch, Append, Get, Bounds, Unit, ByTime, Lookup, LookupID, Query, Scan, Log, Whole, Flush, Expire, Reopen, Crash, SetClock}
}

// Property is one property of a message.
type Property struct{ Name, Value string }

// Message describes a message: what it is made of, not its bytes.
type Message struct {
	Len       int    // of the body, before compression
	Seed      uint64 // of the body; 0 is a body of zeros
	Codec     record.Compression
	Flag      int32
	Born      int64 // ms
	Reconsume int32
	Host      record.Host // the broker's
	BornHost  record.Host
	Tx        record.Transaction
	Prepared  int64 // physical offset of the prepared message
	V2        bool
	Props     []Property
	Pad       int // bytes of filler behind the properties
}

// Op is one operation. Which fields it has its Kind says.
type Op struct {
	Kind    Kind
	Topic   string
	Queue   int32
	Message Message
	Items   []Message // of a batch: body, flag, properties and filler

	At     Ref // queue offset
	Max    int
	Filter string
	Phy    Ref
	End    Ref // exclusive: physical offset of log; inclusive: time of query. Absolute 0 is "open" for both
	Time   Ref // of bytime
	Begin  Ref // of query
	Rule   store.TimeRule
	Key    string

	Cut   int // of append
	Rest  bool
	Blank bool
	Skew  int64

	Segments int
	How      Ending
	Seed     uint64 // of crash
	Add, Set int64  // of clock, ms
}

// Ending is how a process ends.
type Ending uint8

// The ways a process ends in a crash.
const (
	Kill  Ending = iota // the process alone: the machine's memory survives
	Power               // the machine: what was not synced is gone, or half of it
)

func (e Ending) String() string {
	if e == Power {
		return "power"
	}
	return "kill"
}

// Setup is how the store of a workload is set up. Zero fields are the store's defaults.
type Setup struct {
	SegmentSize   int64
	QueueFileSize int64
	MaxMessage    int
	V2            bool
	Role          store.Role
	Flush         store.FlushMode
	Memory        int64
	MemoryBytes   int // that one Get returns of recent messages
	DiskBytes     int
	MemoryCount   int
	DiskCount     int
	MultiDispatch bool
	NoIndex       bool
}

// Options is s as options of a store. File system, clock and goroutines are the caller's.
func (s Setup) Options() store.Options {
	return store.Options{
		SegmentSize: s.SegmentSize, QueueFileSize: s.QueueFileSize, MaxMessageSize: s.MaxMessage, AllowV2: s.V2, Role: s.Role, FlushMode: s.Flush,
		MemorySize: s.Memory, MaxTransferBytesInMemory: s.MemoryBytes, MaxTransferBytesInDisk: s.DiskBytes, MaxTransferMessagesInMemory: s.MemoryCount, MaxTransferMessagesInDisk: s.DiskCount,
		MultiDispatch: s.MultiDispatch, Index: store.IndexOptions{Off: s.NoIndex},
	}
}

// Workload is operations on a store.
type Workload struct {
	Setup Setup
	Ops   []Op
}
