package commitlog

import (
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/record"
)

// FlushMode says who waits for a flush: with SyncFlush the flusher starts as soon as somebody waits, with AsyncFlush it also goes
// by the clock alone. WaitFlushed works in both.
type FlushMode uint8

const (
	AsyncFlush FlushMode = iota // flushed every FlushEvery
	SyncFlush                   // flushed for who waits; blocks ahead of the write position are prepared for small syncs
)

// DamagePolicy says what Open does with damage of durable data.
type DamagePolicy uint8

const (
	DamageRefuse DamagePolicy = iota // Open returns *DamageError and changes nothing
	DamageCut                        // the original's way: everything behind the damage is cut (and kept in quarantine)
)

const (
	defaultSegmentSize = 1 << 30
	minSegmentSize     = 256
	defaultFlushEvery  = 500 * time.Millisecond
)

// Options of a log. The zero value of every field but Dir is the production default.
type Options struct {
	FS            mappedfile.FS // nil = mappedfile.OS()
	Dir           string        // the commitlog directory
	QuarantineDir string        // where cut bytes are kept; "" = <Dir>/../quarantine
	SegmentSize   int64         // bytes; 0 = that of the existing files, else 1 GiB; another size than existing files have is a *SegmentSizeError
	FlushMode     FlushMode
	FlushEvery    time.Duration // interval of the flush loop, default 500 ms
	Limits        record.Limits
	Delay         record.DelayTable // for the tags code of delayed records; nil = the default levels
	OnDamage      DamagePolicy
	ReadOnly      bool             // nothing is written: ends are computed in memory
	Now           func() time.Time // nil = time.Now; called under the append lock, once per append
	NoBackground  bool             // no goroutines: the caller drives FlushStep (simulation, tests)
	Frugal        bool             // what a cursor or an append has passed leaves this process's memory (it stays in the page cache): for tools that go through a whole log once
}

// withDefaults fills zero fields and checks the rest, but for SegmentSize, which the existing files may decide.
func (o Options) withDefaults() (Options, error) {
	if o.Dir == "" {
		return o, fmt.Errorf("open commit log: Options.Dir is empty")
	}
	if o.SegmentSize != 0 && (o.SegmentSize < minSegmentSize || o.SegmentSize > math.MaxInt32) {
		return o, fmt.Errorf("open commit log %s: segment size %d is outside [%d, %d]", o.Dir, o.SegmentSize, minSegmentSize, math.MaxInt32)
	}
	if o.FS == nil {
		o.FS = mappedfile.OS()
	}
	if o.QuarantineDir == "" {
		o.QuarantineDir = filepath.Join(filepath.Dir(filepath.Clean(o.Dir)), "quarantine")
	}
	if o.FlushEvery <= 0 {
		o.FlushEvery = defaultFlushEvery
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o, nil
}

// Recovery says where the scan of Open starts and what it may assume. The zero value scans the whole log of an unclean exit about
// which nothing is known to be durable.
type Recovery struct {
	From        int64                      // a record boundary; below the log's start = the log's start
	Clean       bool                       // the last exit was clean: everything in the log was durable
	FlushedTo   int64                      // every byte below was durable; -1 = unknown
	DurableTime int64                      // ms: records stored no later were durable (the checkpoint's physical time); used when FlushedTo is unknown
	Cut         bool                       // give up everything from CutTo on, a record boundary, as an interrupted truncation to it is finished
	CutTo       int64                      // see Cut
	Later       bool                       // what no mark covers is made durable by the first flush, and not before Open returns: FlushedPhyOffset tells
	SkipCRC     bool                       // do not verify body CRCs (sizes and stored offsets are always verified)
	Each        func(m *record.Meta) error // every whole record from From on, in order (blanks not); its views are valid until it returns; an error ends Open. Open can still fail behind the last one
	Progress    func(done, total int64)    // bytes scanned of bytes that may have to be; called now and then
	Stop        func() error               // asked now and then; its error ends Open. Who needs no more than that leaves Each nil: then the scan uses all processors

	span int64 // tests: see scanSpan; 0 = that
}

// Tail is what Open found at the log's end.
type Tail struct {
	End            int64    // the log's end: MaxPhyOffset after Open
	Records        int64    // whole records scanned
	LastStoreTime  int64    // ms, of the last scanned record; 0 if none
	DroppedBytes   int64    // cut bytes, per segment up to the last non-zero one: blanks of preallocation are not counted
	DroppedRecords int64    // whole records among them
	BelowFlushed   int64    // bytes between End and Recovery.FlushedTo: data that was durable and is lost although nothing whole follows it; 0 = none
	Quarantine     []string // files that hold what was cut
	Reason         error    // why the log ends here; nil = zeros or end of file
}
