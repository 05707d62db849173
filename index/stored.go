package index

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/virtual"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// errNotPlain: what is in the tables is not what the index has.
var errNotPlain = errors.New("the tables cannot be read one by one")

// storedAtOnce is how many entries EachStored hands over at a time.
const storedAtOnce = 256

// EachStored calls f with all entries, some at a time, in an order of its own, and ends at its first error, which it returns. The slice is valid until f returns. It reads one table after the other, where EachEntry merges them,
// in a third of the time. The entries are the same as long as no table deletes or replaces what is in another, which dispatch and Expire do not make: else, and at damage, there is an error in the end, behind any number of calls,
// that says no more than that EachEntry is to be asked.
//
// Only for an index that OpenReader opened.
func (x *Index) EachStored(f func([]Entry) error) error {
	x.use.RLock()
	defer x.use.RUnlock()
	switch {
	case x.closed.Load():
		return ErrClosed
	case !x.readOnly:
		return errNotPlain
	}
	s := storedReader{x: x, f: f, batch: make([]Entry, 0, storedAtOnce)}
	return s.all()
}

// storedReader reads table after table.
type storedReader struct {
	x     *Index
	f     func([]Entry) error
	heads []head
	size  int64 // of a bucket
	batch []Entry
	n     int64
}

func (s *storedReader) all() (err error) {
	if err := s.nothingLogged(); err != nil {
		return err
	}
	if s.heads, s.size, err = readHeads(s.x.db); err != nil {
		return err
	}
	levels, err := s.x.db.SSTables()
	if err != nil {
		return err
	}
	for _, tables := range levels {
		for i := range tables {
			if err := s.table(&tables[i]); err != nil {
				return err
			}
		}
	}
	for i := range s.heads {
		s.n -= s.heads[i].entries
	}
	if s.n != 0 { // one of two entries for the same counts
		return errNotPlain
	}
	return nil
}

// nothingLogged reports what may be in Pebble's log, which is not written to: it is no longer than its end mark then.
func (s *storedReader) nothingLogged() error {
	const endMark = 11
	o := &s.x.o
	names, err := o.fs.List(o.Dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ".log") {
			continue
		}
		info, err := o.fs.Stat(o.fs.PathJoin(o.Dir, name))
		if err != nil {
			return err
		}
		if info.Size() > endMark {
			return errNotPlain
		}
	}
	return nil
}

// table reads one table.
func (s *storedReader) table(info *pebble.SSTableInfo) (err error) {
	t := storedTable{heads: s.heads, size: s.size}
	defer func() {
		if cerr := s.x.db.do(t.close); err == nil {
			err = cerr
		}
	}()
	if err := s.x.db.do(func() error { return t.open(s.x, info) }); err != nil {
		return err
	}
	for more := true; more; {
		s.batch, more, err = t.read(s.batch[:0])
		if err != nil {
			return err
		}
		if s.n += int64(len(s.batch)); len(s.batch) > 0 {
			if err := s.f(s.batch); err != nil {
				return err
			}
		}
	}
	return nil
}

// storedTable is one table that is read.
type storedTable struct {
	heads []head // of all buckets
	size  int64  // of a bucket
	at    int    // the head of the bucket that is read
	r     *sstable.Reader
	it    sstable.Iterator
	begun bool
}

func (t *storedTable) open(x *Index, info *pebble.SSTableInfo) error {
	ctx := context.Background()
	f, err := x.o.fs.Open(x.o.fs.PathJoin(x.o.Dir, fmt.Sprintf("%06d.sst", uint64(info.BackingSSTNum))), vfs.SequentialReadsOption)
	if err != nil {
		return err
	}
	in, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if t.r, err = sstable.NewReader(ctx, in, x.db.opts.MakeReaderOptions()); err != nil {
		return errors.Join(err, in.Close())
	}
	o := sstable.IterOptions{FilterBlockSizeLimit: sstable.NeverUseFilterBlock, ReaderProvider: sstable.MakeTrivialReaderProvider(t.r)}
	if info.Virtual { // the rest of the table has expired
		o.Env.Virtual = &virtual.VirtualReaderParams{Lower: info.Smallest, Upper: info.Largest, FileNum: info.FileNum}
	}
	if ranges, err := t.r.NewRawRangeDelIter(ctx, sstable.NoFragmentTransforms, o.Env); err != nil || ranges != nil {
		return errors.Join(errNotPlain, err)
	}
	if ranges, err := t.r.NewRawRangeKeyIter(ctx, sstable.NoFragmentTransforms, o.Env); err != nil || ranges != nil {
		return errors.Join(errNotPlain, err)
	}
	t.it, err = t.r.NewPointIter(ctx, o)
	return err
}

// read fills batch as far as it has room. Pebble panics over some tables that make no sense.
func (t *storedTable) read(batch []Entry) (_ []Entry, more bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = damaged(fmt.Errorf("pebble: %v", r))
		}
	}()
	step := t.it.Next
	if !t.begun {
		step, t.begun = t.it.First, true
	}
	for kv := step(); kv != nil; kv = t.it.Next() {
		if kv.Kind() != pebble.InternalKeyKindSet {
			return nil, false, errNotPlain
		}
		k := kv.K.UserKey
		if len(k) == posHash {
			continue // of a bucket's heads the newest one counts, which t.heads has
		}
		v, _, err := kv.Value(nil)
		if err != nil {
			return nil, false, err
		}
		bucket, hash, offset, ok := parseKey(k)
		for t.at < len(t.heads) && t.heads[t.at].bucket < bucket {
			t.at++
		}
		if !ok || t.at == len(t.heads) || t.heads[t.at].bucket != bucket {
			return nil, false, errNotPlain
		}
		storeTime, ok := parseTime(v, t.heads[t.at].base)
		if !ok {
			return nil, false, errNotPlain
		}
		if batch = append(batch, Entry{hash, int64(bucket)*t.size + int64(offset), storeTime}); len(batch) == cap(batch) {
			return batch, true, nil
		}
	}
	return batch, false, t.it.Error()
}

func (t *storedTable) close() error {
	var err error
	if t.it != nil {
		err = t.it.Close()
	}
	if t.r != nil {
		err = errors.Join(err, t.r.Close())
	}
	return err
}
