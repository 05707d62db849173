package index

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// pendingName is the table under way, in the database's directory. Pebble does not know the name.
const pendingName = "pending-table"

// removeLeftover removes the table that a crash left.
func removeLeftover(fs vfs.FS, dir string) {
	fs.Remove(fs.PathJoin(dir, pendingName)) // it may not exist; if it stays, the next table replaces it
}

// Flush makes everything that was dispatched durable. ErrFailed, ErrClosed.
func (x *Index) Flush() error {
	if err := x.usable(); err != nil {
		return err
	}
	return x.flush()
}

func (x *Index) flush() error {
	if err := x.flushSealed(); err != nil {
		return err
	}
	x.flushing.Lock()
	defer x.flushing.Unlock()
	x.mu.Lock()
	if x.mu.sealed == nil && x.mu.next > x.mu.durable {
		x.sealLocked()
	}
	x.mu.Unlock()
	return x.flushSealedLocked()
}

// flushSealed writes the sealed tail, if there is one.
func (x *Index) flushSealed() error {
	x.flushing.Lock()
	defer x.flushing.Unlock()
	return x.flushSealedLocked()
}

func (x *Index) flushSealedLocked() error {
	x.mu.Lock()
	t, first := x.mu.sealed, x.mu.dropped
	x.mu.Unlock()
	switch {
	case t == nil:
		return nil
	case x.gone:
		return ErrClosed
	}
	if err := x.Err(); err != nil {
		return err
	}
	path := x.o.fs.PathJoin(x.o.Dir, pendingName)
	err := x.db.do(func() error {
		n, err := x.writeTable(path, t, first)
		if err != nil || n == 0 {
			return err
		}
		return x.db.Ingest(context.Background(), []string{path})
	})
	if cut := x.db.err(); cut != nil {
		err = cut
	}
	if err != nil {
		return x.fail(fmt.Errorf("write index %s: %w", x.o.Dir, err))
	}
	x.flushes.Add(1)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.mu.sealed = nil
	if n := len(t.heads); n > 0 {
		x.mu.durable = max(x.mu.durable, t.heads[n-1].next)
	}
	return nil
}

// writeTable writes t as one sorted table, without buckets below first, and returns how many rows it has.
func (x *Index) writeTable(path string, t *tail, first uint64) (rows int, err error) {
	f, err := x.db.guard.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return 0, err
	}
	w := sstable.NewWriter(objstorageprovider.NewFileWritable(f), x.db.opts.MakeWriterOptions(len(x.db.opts.Levels)-1, x.db.TableFormat()))
	defer func() {
		if cerr := w.Close(); err == nil {
			err = cerr
		}
	}()
	var (
		key, value []byte
		counts     []uint32
		sorted     []entry
	)
	rest := t.entries
	for i := range t.heads {
		h := &t.heads[i]
		n := len(rest)
		if i+1 < len(t.heads) {
			end := x.bucketEnd(h.bucket)
			for n = 0; n < len(rest) && rest[n].phyOffset < end; n++ {
			}
		}
		mine := rest[:n]
		rest = rest[n:]
		if h.bucket < first {
			continue
		}
		if err := w.Set(headKey(h.bucket), h.encode(x.o.BucketSize)); err != nil {
			return rows, err
		}
		rows++
		if cap(sorted) < n {
			sorted = make([]entry, n)
		}
		sorted = sorted[:n]
		counts = sortEntries(sorted, mine, counts)
		start := int64(h.bucket) * x.o.BucketSize
		for j := range sorted {
			e := &sorted[j]
			key = appendKey(key[:0], h.bucket, e.hash, uint32(e.phyOffset-start))
			value = appendTime(value[:0], e.storeTime, h.base)
			if err := w.Set(key, value); err != nil {
				return rows, err
			}
		}
		rows += n
	}
	return rows, nil
}

// excise removes the buckets [from, to) from the database, in one step that is durable.
func (x *Index) excise(from, to uint64) error {
	if from >= to || x.readOnly {
		return nil
	}
	err := x.db.do(func() error {
		return x.db.Excise(context.Background(), pebble.KeyRange{Start: headKey(from), End: headKey(to)})
	})
	if cut := x.db.err(); cut != nil {
		err = cut
	}
	if err != nil {
		return fmt.Errorf("drop buckets [%d, %d): %w", from, to, err)
	}
	return nil
}
