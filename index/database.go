package index

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// database is a Pebble instance that cannot take the process with it.
type database struct {
	*pebble.DB
	guard  *guardFS // nil if read-only
	opts   *pebble.Options
	logger *pebbleLogger
}

const pebbleFormat = pebble.FormatColumnarBlocks // of a new database

// openDatabase opens the database in dir, and creates it unless it is readOnly. errors.Is(err, ErrDamaged): its files make no sense; other errors are the file system's.
func openDatabase(o *Options, readOnly bool) (*database, error) {
	d := &database{logger: &pebbleLogger{to: o.Logger, fatal: make(chan struct{})}}
	d.opts = &pebble.Options{
		Comparer:                    comparer,
		FormatMajorVersion:          pebbleFormat,
		CacheSize:                   o.CacheSize,
		DisableWAL:                  true,
		DisableAutomaticCompactions: o.NoCompaction,
		DisableTableStats:           true, // they serve to find tombstones, of which there are none
		Logger:                      d.logger,
		ReadOnly:                    readOnly,

		// Tables are only ingested, already sorted and large; the first of each bucket overlaps nothing and goes to the bottom at once.
		MemTableSize:          64 << 10,
		L0CompactionThreshold: 4,
		MaxManifestFileSize:   4 << 20,
	}
	d.opts.EventListener = &pebble.EventListener{
		BackgroundError: d.logger.background,
		DataCorruption:  func(i pebble.DataCorruptionInfo) { d.logger.background(damaged(i.Details)) },
	}
	for i := range d.opts.Levels {
		d.opts.Levels[i].BlockSize = 16 << 10
		d.opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	d.opts.TargetFileSizes[0] = 16 << 20
	if readOnly {
		d.opts.Experimental.ReadSamplingMultiplier = -1 // samples of reads lead to compactions, which there are none of
	}
	var dir vfs.FS
	if readOnly {
		dir = readOnlyFS{o.fs}
	} else {
		d.guard = &guardFS{FS: o.fs}
		dir = d.guard
	}
	d.opts.FS = dir
	d.opts.Experimental.CompactionScheduler = newScheduler(d.guard)
	d.opts.EnsureDefaults()
	err := d.do(func() (err error) {
		d.DB, err = pebble.Open(o.Dir, d.opts)
		return err
	})
	if d.DB != nil {
		if err = d.cut(); err == nil {
			err = d.checkTables(dir, o.Dir)
		}
		if err == nil {
			return d, nil
		}
		d.close()
		return nil, err
	}
	if cut := d.cut(); cut != nil {
		err = cut
	}
	d.closeLeft()
	return nil, err
}

// closeLeft closes the files that Pebble did not, having failed, unless it gave up: its goroutines may still use them then.
func (d *database) closeLeft() {
	select {
	case <-d.logger.fatal:
	default:
		if d.guard != nil {
			d.guard.closeLeft()
		}
	}
}

// do runs f, which calls Pebble, on a goroutine of its own, so that neither a panic of it nor a fatal error that Pebble reports (to its logger, which must not return) reaches the caller. f may be left behind.
func (d *database) do(f func() error) error {
	done := make(chan error, 1)
	go func() {
		err := errors.New("pebble gave up") // what a Goexit leaves
		defer func() {
			if r := recover(); r != nil {
				err = damaged(fmt.Errorf("pebble: %v", r))
			}
			done <- err
		}()
		err = classify(f())
	}()
	select {
	case err := <-done:
		if fatal := d.logger.err(); fatal != nil {
			return fatal
		}
		return err
	case <-d.logger.fatal:
		return d.logger.err()
	}
}

// cut is the first failed write of this database.
func (d *database) cut() error {
	if d.guard == nil {
		return nil
	}
	return d.guard.cut()
}

// err is why this database is no good any more.
func (d *database) err() error {
	if err := d.cut(); err != nil {
		return err
	}
	return d.logger.err()
}

// close closes it, unless Pebble gave up: its goroutines may be stuck then.
func (d *database) close() error {
	select {
	case <-d.logger.fatal:
		return d.logger.err()
	default:
	}
	err := d.do(d.DB.Close)
	d.closeLeft()
	return err
}

// classify makes damage of what is not the file system's refusal.
func classify(err error) error {
	if err == nil {
		return nil
	}
	if p := new(fs.PathError); errors.As(err, &p) && !errors.Is(err, fs.ErrNotExist) && !pebble.IsCorruptionError(err) {
		return err
	}
	return damaged(err)
}

func damaged(err error) error {
	if err == nil || errors.Is(err, ErrDamaged) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

// pebbleLogger is where Pebble reports what it can do nothing about.
type pebbleLogger struct {
	to    Logger
	fatal chan struct{} // closed when Pebble gave up
	once  sync.Once     // closes it
	first atomic.Pointer[error]
}

func (l *pebbleLogger) Infof(format string, args ...any)  { l.to.Infof(format, args...) }
func (l *pebbleLogger) Errorf(format string, args ...any) { l.to.Errorf(format, args...) }

// Fatalf ends the goroutine: Pebble relies on it not to return.
func (l *pebbleLogger) Fatalf(format string, args ...any) {
	l.to.Errorf(format, args...)
	l.set(damaged(fmt.Errorf(format, args...)), true)
	runtime.Goexit()
}

// background notes damage that a flush or compaction met. Other errors of theirs are failed writes, which guardFS knows, or pass.
func (l *pebbleLogger) background(err error) {
	l.to.Errorf("%v", err)
	if errors.Is(err, ErrDamaged) || pebble.IsCorruptionError(err) {
		l.set(damaged(err), false)
	}
}

func (l *pebbleLogger) set(err error, gone bool) {
	l.first.CompareAndSwap(nil, &err)
	if gone {
		l.once.Do(func() { close(l.fatal) })
	}
}

func (l *pebbleLogger) err() error {
	if p := l.first.Load(); p != nil {
		return *p
	}
	return nil
}
