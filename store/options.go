package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/record"
)

// Role of a store in replication.
type Role uint8

const (
	AsyncMaster Role = iota // puts do not wait for slaves
	SyncMaster              // puts wait for a slave's acknowledgement
	Slave                   // puts are refused; AppendToCommitLog is the way in
)

func (r Role) String() string {
	switch r {
	case AsyncMaster:
		return "ASYNC_MASTER"
	case SyncMaster:
		return "SYNC_MASTER"
	case Slave:
		return "SLAVE"
	}
	return fmt.Sprintf("Role(%d)", uint8(r))
}

// FlushMode says what PutOK means. See the package's durability table.
type FlushMode uint8

const (
	AsyncFlush FlushMode = iota // answered when in memory; on disk after FlushEvery at the latest, if the disk keeps up
	SyncFlush                   // answered when on disk
)

func (m FlushMode) String() string {
	switch m {
	case AsyncFlush:
		return "ASYNC_FLUSH"
	case SyncFlush:
		return "SYNC_FLUSH"
	}
	return fmt.Sprintf("FlushMode(%d)", uint8(m))
}

// DamagePolicy says what Open does about damage of data that was durable.
type DamagePolicy uint8

const (
	DamageRefuse DamagePolicy = iota // Open returns *CorruptError and changes nothing
	DamageCut                        // the original's way: everything behind the damage is cut, and kept in quarantine/
)

// Options: the zero value is the production default (RocketMQ 4.9.8's). Checked once, in Open.
type Options struct {
	FS           mappedfile.FS // default: the operating system's
	CommitLogDir string        // default <dir>/commitlog

	SegmentSize    int64 // bytes of a commit log file. Default: that of the existing files, else 1 GiB. Another size than the existing files have is an error, unless SizesFromFiles
	QueueFileSize  int64 // bytes of a consume queue file, rounded up to a multiple of 20. Default: that of the existing files, else 6,000,000
	SizesFromFiles bool  // SegmentSize and QueueFileSize are for new stores only: existing files' sizes win, and a disagreement is a warning in Stats
	MaxMessageSize int   // body bytes, default 4 MiB; the whole record may have 64 KiB more
	AllowV2        bool  // write topics of 128 to 255 bytes as v2 records (RocketMQ 5); 4.9.8 cannot read these

	FlushMode        FlushMode
	FlushEvery       time.Duration // of the log in AsyncFlush mode, default 500 ms
	SyncFlushTimeout time.Duration // after which a put answers FlushDiskTimeout, default 5 s
	QueueFlushEvery  time.Duration // default 1 s
	CheckpointEvery  time.Duration // default 60 s: how much of the log an unclean exit makes the next Open read again
	PutBusyAfter     time.Duration // puts are refused while an append has held the log's lock for longer, default 1 s (osPageCacheBusyTimeOutMills)

	Role               Role // SetRole changes it
	HA                 HAOptions
	OffsetCheckInSlave bool // correct NextBeginOffset on a slave, too
	ReadUncommitted    bool // show consumers what a crash can still take back (the original's way). Default: in SyncFlush mode only what is flushed, of a SyncMaster only what slaves have acknowledged, while there are any
	VerifyReads        bool // check the body CRC of each record that Get returns. Default: sizes, magic and position only, as the record's place is what queues can have wrong

	DelayLevels    string // messageDelayLevel, default "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
	MultiDispatch  bool   // enableMultiDispatch: records with INNER_MULTI_DISPATCH have units in the queues that it names (a slave's, a stored log's); puts with it are refused with ErrUnsupported instead of being stored in their own queue only
	OnDamage       DamagePolicy
	SkipQueueCheck bool // without a checkpoint of ours, do not read the log's headers to find queues that lost units
	IgnoreSummary  bool // check every queue against the whole log at Open

	Index IndexOptions

	NoBackground bool // no goroutines: DispatchStep, IndexStep, FlushStep and CheckpointStep are called by hand (simulation); in SyncFlush mode Put and PutBatch do their flush themselves

	MemorySize                  int64 // physical memory, for the reckoning of what is "in disk"; 0 = ask the machine
	AccessInMemoryMaxRatio      int   // percent of it that recent messages may fill, default 40
	MaxTransferBytesInMemory    int   // of one Get, default 256 KiB
	MaxTransferMessagesInMemory int   // default 32
	MaxTransferBytesInDisk      int   // default 64 KiB
	MaxTransferMessagesInDisk   int   // default 8

	Sinks    []Sink
	Arrival  func(a Arrival) // called on the dispatch goroutine (or in Open and Close) for each record, after its unit is visible
	Events   Events
	Logger   hclog.Logger // default: none
	Now      func() time.Time
	Progress func(stage string, done, total int64) // of recovery in Open: bytes of the log
}

// fill checks o and puts the defaults in.
func (o *Options) fill(dir string) (record.DelayTable, error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("options: "+format, args...)) }
	count := func(name string, v *int, def, least int) {
		if *v == 0 {
			*v = def
		}
		if *v < least {
			bad("%s is %d, must be 0 (default %d) or at least %d", name, *v, def, least)
		}
	}
	every := func(name string, v *time.Duration, def time.Duration) {
		if *v == 0 {
			*v = def
		}
		if *v < 0 {
			bad("%s is %v, must be 0 (default %v) or more", name, *v, def)
		}
	}
	if o.FS == nil {
		o.FS = mappedfile.OS()
	}
	if o.CommitLogDir == "" {
		o.CommitLogDir = filepath.Join(dir, "commitlog")
	}
	if o.SegmentSize < 0 {
		bad("SegmentSize is %d, must be 0 (default) or more", o.SegmentSize)
	}
	if o.QueueFileSize < 0 {
		bad("QueueFileSize is %d, must be 0 (default) or more", o.QueueFileSize)
	}
	if o.MemorySize < 0 {
		bad("MemorySize is %d, must be 0 (ask the machine) or more", o.MemorySize)
	}
	if o.MemorySize == 0 {
		o.MemorySize = machineMemory()
	}
	count("MaxMessageSize", &o.MaxMessageSize, 4<<20, 10)
	count("AccessInMemoryMaxRatio", &o.AccessInMemoryMaxRatio, 40, 0)
	if o.AccessInMemoryMaxRatio > 100 {
		bad("AccessInMemoryMaxRatio is %d, must be a percentage", o.AccessInMemoryMaxRatio)
	}
	count("MaxTransferBytesInMemory", &o.MaxTransferBytesInMemory, 256<<10, 0)
	count("MaxTransferMessagesInMemory", &o.MaxTransferMessagesInMemory, 32, 0)
	count("MaxTransferBytesInDisk", &o.MaxTransferBytesInDisk, 64<<10, 0)
	count("MaxTransferMessagesInDisk", &o.MaxTransferMessagesInDisk, 8, 0)
	every("FlushEvery", &o.FlushEvery, 500*time.Millisecond)
	every("SyncFlushTimeout", &o.SyncFlushTimeout, 5*time.Second)
	every("QueueFlushEvery", &o.QueueFlushEvery, time.Second)
	every("CheckpointEvery", &o.CheckpointEvery, time.Minute)
	count("Index.MaxResults", &o.Index.MaxResults, 64, 1)
	count("Index.TailEntries", &o.Index.TailEntries, 1<<19, 1)
	every("Index.FlushEvery", &o.Index.FlushEvery, 10*time.Second)
	if o.Index.CacheSize < 0 {
		bad("Index.CacheSize is %d, must be 0 (default) or more", o.Index.CacheSize)
	}
	if o.Index.BucketSize < 0 {
		bad("Index.BucketSize is %d, must be 0 (default) or more", o.Index.BucketSize)
	}
	every("PutBusyAfter", &o.PutBusyAfter, time.Second)
	if o.Role > Slave {
		bad("Role is %d, must be AsyncMaster, SyncMaster or Slave", o.Role)
	}
	if o.FlushMode > SyncFlush {
		bad("FlushMode is %d, must be AsyncFlush or SyncFlush", o.FlushMode)
	}
	if o.OnDamage > DamageCut {
		bad("OnDamage is %d, must be DamageRefuse or DamageCut", o.OnDamage)
	}
	if err := o.HA.fill(!o.NoBackground); err != nil {
		errs = append(errs, err)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	o.Events.fill()
	delay := record.DefaultDelayTable()
	if o.DelayLevels != "" {
		t, err := record.ParseDelayTable(o.DelayLevels)
		if err != nil {
			bad("DelayLevels %q: %w", o.DelayLevels, err)
		}
		delay = t
	}
	return delay, errors.Join(errs...)
}
