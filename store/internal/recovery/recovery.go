package recovery

import (
	"errors"

	"github.com/mqstore/mqstore/checkpoint"
	"github.com/mqstore/mqstore/commitlog"
	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/consumequeue"
)

// Options say where a store directory lies and how it is to be opened. The zero value of a field is the production default.
type Options struct {
	FS           mappedfile.FS // nil = mappedfile.OS()
	Root         string        // checkpoint, abort and summary lie here
	CommitLogDir string        // "" = <Root>/commitlog
	QueueDir     string        // "" = <Root>/consumequeue

	// CommitLog and Queues are passed on; FS, Dir, ReadOnly and StoreTime in them are set by Open.
	CommitLog commitlog.Options
	Queues    consumequeue.Options

	MultiDispatch  bool // records have units in the queues that their INNER_MULTI_DISPATCH names (the original's enableMultiDispatch); else such queues stay as they are
	SkipQueueCheck bool // without a valid summary, do not read the whole log to find queues that lack units
	ReadOnly       bool // nothing is written: ends are computed in memory, lacking queues are only reported
	IgnoreSummary  bool // as if there were no summary: everything is checked against the log
	CheckQueues    bool // compare every record with its unit, also those that the summary vouches for
	RebuildBroken  bool // rebuild queues that cannot be opened even if that are all of them: Queues.FileSize is known to be right
	Plan           bool // with ReadOnly: Report tells what a writable open would do, units that it would write included

	// UnsyncedMost is how much of the log may have been written and not yet synced when a process ended uncleanly, where neither checkpoint nor summary is
	// left to say: bytes, at least two segments. Damage with whole records behind it that lies deeper is damage of durable data. 0 = 1 GiB.
	UnsyncedMost int64

	// Cut gives up everything from CutTo on, a record boundary: the log ends there, what lies behind goes to quarantine, and the queues follow.
	Cut   bool
	CutTo int64

	// Later leaves it to the caller's first flush of log and queues to make durable what an unclean exit left in the page cache, and to its first checkpoint to say so (Opened.Unsettled), where
	// nothing was cut or lost. Else all that is done when Open returns.
	Later bool

	// Stop is asked now and then; its error ends Open, and the next one goes on from what is there. May be nil.
	Stop func() error

	// Progress reports bytes of the log: stages "log" (finding its end), "queues" (checking and completing them), "rebuild". May be nil.
	Progress func(stage string, done, total int64)
}

// QueueKey names one queue of one topic.
type QueueKey struct {
	Topic   string
	QueueID int32
}

// Opened is a store directory that agrees with itself: each unit of each queue points at a whole record of the log, and the queues hold every record below Dispatched.
type Opened struct {
	Log     *commitlog.Log
	Queues  *consumequeue.Set
	Page    checkpoint.Page     // as it is on disk now
	Summary *checkpoint.Summary // as it is on disk now, if it was believed or written; else nil
	Report  Report

	Unsettled bool // Options.Later: what the log holds from its FlushedPhyOffset on is not yet durable, nor are the queues, and the checkpoint is as the last process left it

	Dispatched   int64 // the queues hold every record that starts below; the log's end, unless ReadOnly
	DispatchFrom int64 // where sinks of the caller go on: <= Dispatched after an unclean exit (at least once). Queues need nothing below Dispatched.

	// NextOffsets holds the next queue offset of each queue for which the log is known to hold more than the queue (nothing is missing here when the check was not skipped). Use max(NextOffsets[k], Queue.MaxOffset()).
	NextOffsets map[QueueKey]int64
}

// Report tells what recovery found and did.
type Report struct {
	Clean           bool   // the last exit was clean: no abort file
	SummaryDoubt    string // why the summary was not used; "" = it was, or there was none
	SummaryUsed     bool
	Start, End      int64 // physical offsets: the log was scanned from Start, it ends at End
	ScannedRecords  int64 // with checksums, to find the log's end
	CheckedRecords  int64 // compared with their queue units
	LogRecords      int64 // of the whole log, if all of it was compared; else 0
	DroppedBytes    int64 // cut from the log's end
	DroppedRecords  int64 // whole records among them
	LostBytes       int64 // between End and what was known to be durable: data that is lost or cut although it had been on disk
	DroppedReason   error // why the log ends at End; nil = nothing follows
	Quarantine      []string
	TruncatedUnits  int64    // units that pointed at or beyond End
	RebuiltUnits    int64    // units written by recovery
	RebuiltQueues   []string // "topic-queueId" of the queues that lacked units or disagreed with the log
	LackingQueues   []string // ReadOnly: queues that a writable open would rebuild
	UnqueuedRecords int64    // records of topics or queue offsets that no queue can have: in the log only
	ReusedOffsets   []string // queues of which the log holds a queue offset more than once (the original reused it)
	LogGaps         []string // queues of which the log itself lacks records
	QueuesUnchecked bool     // SkipQueueCheck left queues uncompared: a summary (see Summarize) must not be written, since it would vouch for them
	LastStoreTime   int64    // ms, of the log's last record; 0 = none
}

// ErrNoLog: the queues have units, but there is no commit log at all (a volume that is not mounted, a wrong path). Nothing was changed.
var ErrNoLog = errors.New("recovery: the consume queues have units but the commit log has no segment")

// Open recovers the directory and opens its log and queues.
func Open(o Options) (*Opened, error) { return open(o) }
