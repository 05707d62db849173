package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
)

// PutStatus says how safe a stored message is (the broker's codes).
type PutStatus uint8

const (
	PutOK             PutStatus = iota // as safe as the store's mode promises
	FlushDiskTimeout                   // in the log and readable from this process, not known to be on disk in time
	FlushSlaveTimeout                  // no slave acknowledged it in time
	SlaveNotAvailable                  // no slave to acknowledge it
)

// String is the original's name: PUT_OK, FLUSH_DISK_TIMEOUT, FLUSH_SLAVE_TIMEOUT, SLAVE_NOT_AVAILABLE.
func (s PutStatus) String() string {
	switch s {
	case PutOK:
		return "PUT_OK"
	case FlushDiskTimeout:
		return "FLUSH_DISK_TIMEOUT"
	case FlushSlaveTimeout:
		return "FLUSH_SLAVE_TIMEOUT"
	case SlaveNotAvailable:
		return "SLAVE_NOT_AVAILABLE"
	}
	return fmt.Sprintf("PutStatus(%d)", uint8(s))
}

// PutResult is a message that is in the log.
type PutResult struct {
	Status         PutStatus
	PhyOffset      int64       // of the (first) record
	Size           int         // bytes of all records
	QueueOffset    int64       // of the (first) message; 0 for PREPARED and ROLLBACK, which are in no queue
	StoreTimestamp int64       // ms
	Messages       int         // 1, or the number of items of a batch
	StoreHost      record.Host // as in the message; part of the message id
	Offsets        []int64     // physical offset of each message of a batch; nil for a single one
}

// MessageID is the offset message id, in upper-case hex; of a batch all of them, joined with "," (spec/commitlog-format.md 1.9).
func (r PutResult) MessageID() string {
	if len(r.Offsets) == 0 {
		return record.OffsetMessageID(r.StoreHost, r.PhyOffset)
	}
	ids := make([]string, len(r.Offsets))
	for i, phyOffset := range r.Offsets {
		ids[i] = record.OffsetMessageID(r.StoreHost, phyOffset)
	}
	return strings.Join(ids, ",")
}

// Putter stores messages. It owns m until Put returns, and sets its StoreTimestamp, QueueOffset, PhyOffset, BodyCRC, Size and the two IPv6 bits of its SysFlag.
//
// err == nil: the message is in the log at PhyOffset, and Status says how safe it is. err != nil: do not assume that it is stored; StatusName(err) is the broker's name for the refusal. A done ctx ends the wait for a flush, not the put: the result then carries the offsets beside ctx's error.
type Putter interface {
	Put(ctx context.Context, m *record.Message) (PutResult, error)
}

// BatchPutter stores several messages in one go.
type BatchPutter interface {
	// PutBatch stores all of items as independent messages of one topic and queue, one behind the other in one segment and with one store time, or none of them. m gives topic, queue, hosts, sysFlag, born time and
	// batch-level properties, which are added to each item's own.
	PutBatch(ctx context.Context, m *record.Message, items []record.BatchItem) (PutResult, error)
}

// AsyncPutter appends now and lets the caller wait later, so that one producer can keep many messages in flight.
type AsyncPutter interface {
	PutAsync(m *record.Message) *Future
}

// Future is a put under way. Any goroutine may use it.
type Future struct {
	done chan struct{}
	res  PutResult
	err  error
}

var closedChan = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// NewFuture is for implementations of AsyncPutter: resolve, to be called once, completes the future.
func NewFuture() (f *Future, resolve func(PutResult, error)) {
	f = &Future{done: make(chan struct{})}
	return f, func(r PutResult, err error) {
		f.res, f.err = r, err
		close(f.done)
	}
}

// Done is closed once the result is there.
func (f *Future) Done() <-chan struct{} { return f.done }

// Wait returns the put's result, as Put would have, or ctx's error if that comes first: the put itself goes on.
func (f *Future) Wait(ctx context.Context) (PutResult, error) {
	select {
	case <-f.done:
		return f.res, f.err
	default:
	}
	select {
	case <-f.done:
		return f.res, f.err
	case <-ctx.Done():
		return PutResult{}, ctx.Err()
	}
}

// GetStatus says what a get found.
type GetStatus uint8

const (
	Found               GetStatus = iota
	NoMatchedMessage              // the filter let none of the scanned messages through: go on at NextBeginOffset
	MessageWasRemoving            // the units' records were deleted by retention: go on at NextBeginOffset
	OffsetFoundNull               // the queue's file of this offset cannot be read: NextBeginOffset is in the next one
	OffsetOverflowBadly           // beyond the queue's end: NextBeginOffset is the end
	OffsetOverflowOne             // exactly at the queue's end: nothing there yet
	OffsetTooSmall                // below the queue's minimum: NextBeginOffset is the minimum
	NoMatchedLogicQueue           // never answered by this store: an unknown queue is NoMessageInQueue, as in 4.9.8
	NoMessageInQueue              // the queue is empty or unknown
)

var getStatusNames = [...]string{"FOUND", "NO_MATCHED_MESSAGE", "MESSAGE_WAS_REMOVING", "OFFSET_FOUND_NULL", "OFFSET_OVERFLOW_BADLY", "OFFSET_OVERFLOW_ONE", "OFFSET_TOO_SMALL", "NO_MATCHED_LOGIC_QUEUE", "NO_MESSAGE_IN_QUEUE"}

// String is the original's name: FOUND, NO_MATCHED_MESSAGE, MESSAGE_WAS_REMOVING ...
func (s GetStatus) String() string {
	if int(s) < len(getStatusNames) {
		return getStatusNames[s]
	}
	return fmt.Sprintf("GetStatus(%d)", uint8(s))
}

// Filter decides which messages of a queue a consumer gets. MatchUnit sees the tags code before the log is read (ok false: unknown, must match) and the extension unit if there is one;
// MatchRecord sees the record's bytes, which are a view: valid during the call.
type Filter interface {
	MatchUnit(tagsCode int64, ok bool, ext *ExtUnit) bool
	MatchRecord(rec []byte) bool
}

// ExtUnit is a queue's extension unit: what a broker's filter wrote beside the tags code.
type ExtUnit struct {
	TagsCode       int64
	StoreTimestamp int64 // ms
	Bitmap         []byte
}

// TagFilter matches "*" and "" (everything) or "TagA || TagB" by tags code, as the original's default filter: by the 32-bit hash of the tag, so that a consumer
// compares the tag itself once more ("Aa" and "BB" have the same hash).
func TagFilter(expr string) Filter {
	if t := strings.TrimSpace(expr); t == "" || t == "*" {
		return tagFilter(nil)
	}
	f := tagFilter{}
	for tag := range strings.SplitSeq(expr, "||") {
		if tag = strings.TrimSpace(tag); tag != "" {
			f = append(f, int32(record.TagsCode(tag)))
		}
	}
	return f
}

// tagFilter is the 32-bit codes to let through; nil is everything.
type tagFilter []int32

func (f tagFilter) MatchUnit(tagsCode int64, ok bool, _ *ExtUnit) bool {
	return f == nil || !ok || slices.Contains(f, int32(tagsCode))
}

func (f tagFilter) MatchRecord([]byte) bool { return true }

// GetRequest asks for messages of one queue.
type GetRequest struct {
	Group       string // the consumer group, for those who wrap a store: this one takes no notice
	Topic       string
	QueueID     int32
	Offset      int64  // queue offset
	MaxMessages int    // default 32, and at most what Options.MaxTransfer… let one Get have; negative: only the first match, as the original answers to 0
	Filter      Filter // nil: every message
}

// GetResult holds views into the log: call Release when done.
type GetResult struct {
	Status               GetStatus
	NextBeginOffset      int64   // where to go on
	MinOffset, MaxOffset int64   // the queue's bounds: [MinOffset, MaxOffset)
	Records              []View  // whole records, valid until Release
	QueueOffsets         []int64 // of each record, in this queue
	Bytes                int     // of all records
	SuggestSlave         bool    // the consumer is so far behind that its data is likely not in memory: a slave should serve it

	batch *batch // nil: of another implementation, or without records
}

// Release gives the views back. The records, and messages decoded from them, must not be touched afterwards. A second call does nothing.
func (r *GetResult) Release() {
	if r == nil {
		return
	}
	releaseAll(r.Records)
	if b := r.batch; b != nil {
		b.release()
	}
	r.Records, r.batch = nil, nil
}

// Messages decodes the records. Their bodies and properties are views: valid until Release.
func (r *GetResult) Messages() ([]*record.Message, error) { return decodeAll(r.Records) }

func releaseAll(views []View) {
	for i := range views {
		if release := views[i].release; release != nil {
			release()
		}
	}
}

func decodeAll(views []View) ([]*record.Message, error) {
	ms := make([]*record.Message, len(views))
	for i, v := range views {
		m, err := record.Decode(v.Bytes)
		if err != nil {
			return nil, &CorruptError{Offset: v.PhyOffset, Err: err}
		}
		ms[i] = m
	}
	return ms, nil
}

// View is bytes of the store and a hold on them: valid until Release, also when retention deletes their file meanwhile.
type View struct {
	Bytes     []byte
	PhyOffset int64
	release   func()
}

// NewView is for implementations: release, called once, may be nil.
func NewView(b []byte, phyOffset int64, release func()) View { return View{b, phyOffset, release} }

// Release gives the bytes back. Records of a GetResult are released by the result.
func (v View) Release() {
	if v.release != nil {
		v.release()
	}
}

// Getter reads a queue as a consumer does. A get that finds nothing is a status with NextBeginOffset, not an error; an error is damage or I/O.
type Getter interface {
	Get(ctx context.Context, r GetRequest) (*GetResult, error)
}

// TimeRule says which queue offset answers a time that no message has. Before the first message each of them answers the queue's minimum; after the last one Lower answers the maximum, and the others the last message.
type TimeRule uint8

const (
	Nearest TimeRule = iota // the nearer message, ties to the earlier one (4.9.8)
	Lower                   // the first message stored at or after the time: where to begin reading
	Upper                   // the last message stored at or before the time
)

// OffsetReader answers where queues and log begin and end. Ranges are half-open: Min is the first held, Max is one past the last.
type OffsetReader interface {
	MinOffset(topic string, queueID int32) int64
	MaxOffset(topic string, queueID int32) int64                                      // the visible end; 0 for an unknown queue
	OffsetByTime(topic string, queueID int32, t time.Time, r TimeRule) (int64, error) // 0 for an unknown queue
	StoreTime(topic string, queueID int32, queueOffset int64) (time.Time, error)      // ErrNotFound
	PhyOffset(topic string, queueID int32, queueOffset int64) (int64, error)          // ErrNotFound
	EarliestStoreTime(topic string, queueID int32) (time.Time, error)                 // of the first message held; ErrNotFound
	MinPhyOffset() int64                                                              // -1 if the log is empty
	MaxPhyOffset() int64
}

// Looker reads one record by its place.
type Looker interface {
	Lookup(phyOffset int64) (*record.Message, error) // a copy; ErrNotFound, ErrNotARecord, *CorruptError. 0 finds the first record of the log, as the original
	LookupID(messageID string) (*record.Message, error)
}

// QueryRequest asks for messages by key.
type QueryRequest struct {
	Topic, Key string
	Begin, End time.Time // inclusive; zero = open
	Max        int       // default and cap 64
}

// QueryResult holds views into the log: call Release when done.
type QueryResult struct {
	Records                  []View // oldest first
	IndexLastUpdateTime      int64  // ms
	IndexLastUpdatePhyOffset int64
	Complete                 bool // false: the index was still behind what consumers could see
	Source                   QuerySource
}

// QuerySource says what answered a query.
type QuerySource string

const (
	IndexPebble QuerySource = "pebble"    // our index
	IndexFile   QuerySource = "indexfile" // RocketMQ's, each hit compared with its record; what lies before, between and behind its files is read from the log
	LogScan     QuerySource = "log"       // no index: the whole log was read
)

// Release gives the views back.
func (r *QueryResult) Release() {
	if r == nil {
		return
	}
	releaseAll(r.Records)
	r.Records = nil
}

// Messages decodes the records. Their bodies and properties are views: valid until Release.
func (r *QueryResult) Messages() ([]*record.Message, error) { return decodeAll(r.Records) }

// Querier finds messages by key or unique id.
type Querier interface {
	Query(ctx context.Context, r QueryRequest) (*QueryResult, error) // ErrNoIndex
}

// Admin looks at and after a store.
type Admin interface {
	Stats() Stats
	// Flush makes everything appended so far durable, log and queues, and returns how far the log is.
	Flush() (flushed int64, err error)
}

// MessageStore is everything that a broker needs of a store. All methods may be called by any goroutine.
type MessageStore interface {
	Putter
	BatchPutter
	AsyncPutter
	Getter
	Looker
	Querier
	OffsetReader
	Admin
	io.Closer
}

// Scanner walks a queue or the log in order. Each message is a copy that the caller may keep. An error is the last thing yielded.
type Scanner interface {
	Scan(ctx context.Context, topic string, queueID int32, from int64) iter.Seq2[*record.Message, error]
	ScanLog(ctx context.Context, fromPhy, toPhy int64) iter.Seq2[*record.Message, error]
	Queues() []QueueInfo
}

// QueueInfo is one queue at a glance.
type QueueInfo struct {
	Topic                      string
	QueueID                    int32
	MinOffset, MaxOffset       int64 // queue offsets [min, max)
	Units                      int64 // max - min
	MinPhyOffset, MaxPhyOffset int64 // start of the first record and end of the last one; -1 if there is none
}

var (
	_ MessageStore = (*DefaultMessageStore)(nil)
	_ Scanner      = (*DefaultMessageStore)(nil)
	_ Scanner      = (*ReadOnlyStore)(nil)
)

var errNilMessage = errors.New("message is nil")
