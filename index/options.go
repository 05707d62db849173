package index

import (
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mqstore/mqstore/commitlog/record"
)

// Logger takes what Pebble has to say.
type Logger interface {
	Infof(format string, args ...any)
	Errorf(format string, args ...any)
}

// Options: the zero value of a field is the production default; Record must be given.
type Options struct {
	// Dir is the index's own directory. "" keeps the index in memory: it is built anew by each Open. Who opens an index for writing must hold a lock on the directory (the store's): the index has none.
	Dir string

	// MinPhyOffset and MaxPhyOffset are the log's bounds. Entries outside are dropped by Open.
	MinPhyOffset, MaxPhyOffset int64

	// Record shows the record at phyOffset to look, whose argument is a view: valid during the call. found is false if no record starts there (or no more). It is called by queries, and by Open.
	Record func(phyOffset int64, look func(m *record.Meta)) (found bool, err error)

	BucketSize   int64         // of a new index: bytes of the log that expire together, at most 4 GiB. A multiple or a divisor of the log's segment size; default 1 GiB
	TailEntries  int           // keys that are kept in memory before they are written, default 524,288; twice as many while they are being written, 40 bytes each
	FlushEvery   time.Duration // how often Run makes fewer than TailEntries durable, default 10 s: what a crash makes the next Open dispatch again
	CacheSize    int64         // bytes of Pebble's block cache, default 32 MiB
	MaxResults   int           // cap of one Query, default 64
	NoBackground bool          // Run is not called: Dispatch itself writes the tail when it is full
	NoCompaction bool          // tables are left as they were written, for the next index without this to merge: for who makes an index in bulk and closes it: until it is written a query goes through all that is in memory

	Logger Logger // default: none

	fs vfs.FS // tests
}

const (
	minBucketSize = 1 << 10
	maxBucketSize = 1 << 32
)

func (o *Options) fill() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("index options: "+format, args...)) }
	if o.Record == nil {
		bad("Record is missing")
	}
	if o.BucketSize == 0 {
		o.BucketSize = 1 << 30
	}
	if o.BucketSize < minBucketSize || o.BucketSize > maxBucketSize {
		bad("BucketSize is %d, must be from %d to %d", o.BucketSize, minBucketSize, int64(maxBucketSize))
	}
	if o.TailEntries == 0 {
		o.TailEntries = 1 << 19
	}
	if o.TailEntries < 1 || o.TailEntries > 1<<30 {
		bad("TailEntries is %d, must be from 1 to 2^30", o.TailEntries)
	}
	if o.FlushEvery == 0 {
		o.FlushEvery = 10 * time.Second
	}
	if o.FlushEvery < 0 {
		bad("FlushEvery is %v, must be 0 (default 10 s) or more", o.FlushEvery)
	}
	if o.CacheSize == 0 {
		o.CacheSize = 32 << 20
	}
	if o.CacheSize < 0 {
		bad("CacheSize is %d, must be 0 (default 32 MiB) or more", o.CacheSize)
	}
	if o.MaxResults == 0 {
		o.MaxResults = 64
	}
	if o.MaxResults < 0 {
		bad("MaxResults is %d, must be 0 (default 64) or more", o.MaxResults)
	}
	o.MinPhyOffset = max(o.MinPhyOffset, 0)
	if o.Logger == nil {
		o.Logger = noLogger{}
	}
	switch {
	case o.fs != nil:
	case o.Dir == "":
		o.fs, o.Dir = vfs.NewMem(), "index"
	default:
		o.fs = vfs.Default
	}
	return errors.Join(errs...)
}

type noLogger struct{}

func (noLogger) Infof(string, ...any)  {}
func (noLogger) Errorf(string, ...any) {}
