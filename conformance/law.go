package conformance

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mqstore/mqstore/store"
)

// Law is one law of a message store.
type Law struct {
	ID     string   // area and number, for ever: "put-003"
	Says   string   // the law, in one sentence
	Why    string   // why it is one: what goes wrong in a broker whose store breaks it
	Source string   // where it comes from: "commitlog-format.md 1.13", "defects 14", "reports 12"
	Tests  []string // tests of the original that check it: "DefaultMessageStoreTest.testPullSize"

	Config Config // of the store; Now is filled in if Clock is set
	Clock  bool   // the store's clock should be the law's, if it can be set: T.Advance then costs no time
	Own    bool   // the store must be new, and nobody else's: laws about the whole log, about closing, or about a clock that goes back

	Check func(t *T) // reports to t what is wrong; returns or ends itself (T.Fatalf, T.Skip)
}

// Area is the part of the ID before the number.
func (l *Law) Area() string {
	area, _, _ := strings.Cut(l.ID, "-")
	return area
}

// Config is the setting that a law needs. A zero field leaves the choice to the maker.
//
// A maker that cannot provide one returns an error that wraps errors.ErrUnsupported: the laws that need it are skipped. If it is only Now that it cannot provide, it is asked again without.
type Config struct {
	SegmentSize    int64 // bytes of a segment of the log, exactly. 0: whatever takes records of RecordSize bytes
	RecordSize     int   // the largest record that the law stores, in bytes; 0: 4 KiB
	QueueFileSize  int64 // bytes of a queue file of 20-byte units, exactly. 0: whatever has at least 100 units in its first file
	MaxMessageSize int   // the longest body, in bytes; 0: the engine's default, not below 4 KiB
	AllowV2        bool  // topics of 128 to 255 bytes are stored, as version 2
	MultiDispatch  bool  // messages for several queues are stored in all of them, or refused
	SyncFlush      bool  // PutOK means on disk. false: the maker's choice
	Role           store.Role

	SyncFlushTimeout time.Duration // with SyncFlush: after which a put that is not on disk is answered FlushDiskTimeout; 0: the engine's default

	OffsetCheckInSlave bool // a slave corrects NextBeginOffset, as a master

	// Of one Get; 0: those of store.Options.
	MemorySize                  int64 // physical memory, of which 40 % count as "in memory"
	MaxTransferBytesInMemory    int
	MaxTransferMessagesInMemory int
	MaxTransferBytesInDisk      int
	MaxTransferMessagesInDisk   int

	Now func() time.Time // the store's clock; nil: the machine's
}

const (
	defaultRecordSize = 4 << 10
	leastQueueUnits   = 100
)

// Record is RecordSize, or what 0 stands for.
func (c Config) Record() int { return cmp.Or(c.RecordSize, defaultRecordSize) }

// Options is c for makers of stores that take store.Options. Fields that c leaves open are zero, which is the production default: segments of 1 GiB.
func (c Config) Options() store.Options {
	o := store.Options{
		SegmentSize: c.SegmentSize, QueueFileSize: c.QueueFileSize, MaxMessageSize: c.MaxMessageSize, AllowV2: c.AllowV2, MultiDispatch: c.MultiDispatch, Role: c.Role, OffsetCheckInSlave: c.OffsetCheckInSlave,
		MemorySize: c.MemorySize, MaxTransferBytesInMemory: c.MaxTransferBytesInMemory, MaxTransferMessagesInMemory: c.MaxTransferMessagesInMemory,
		MaxTransferBytesInDisk: c.MaxTransferBytesInDisk, MaxTransferMessagesInDisk: c.MaxTransferMessagesInDisk, Now: c.Now,
	}
	if c.SyncFlush {
		o.FlushMode, o.SyncFlushTimeout = store.SyncFlush, c.SyncFlushTimeout
	}
	return o
}

// TinyOptions is Options with segments and queue files as small as c allows where it leaves them open, so that the laws meet many ends of files.
func (c Config) TinyOptions() store.Options {
	o := c.Options()
	if o.SegmentSize == 0 {
		o.SegmentSize = max(16<<10, (int64(c.Record())+8+4095)&^4095)
	}
	if o.QueueFileSize == 0 {
		o.QueueFileSize = leastQueueUnits * 20
	}
	return o
}

// key is equal for configs that can share a store. Records of any size can: the maker is asked for the largest.
func (c Config) key(clock bool) string {
	c.RecordSize, c.Now = 0, nil
	return fmt.Sprintf("%+v clock=%v", c, clock)
}

var registry []Law

// register is called by the init of each laws_<area>.go.
func register(laws ...Law) { registry = append(registry, laws...) }

// Laws is all laws, sorted by ID.
func Laws() []Law {
	laws := slices.Clone(registry)
	slices.SortFunc(laws, func(a, b Law) int { return strings.Compare(a.ID, b.ID) })
	return laws
}
