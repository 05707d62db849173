package repair

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/index"
	"github.com/mqstore/mqstore/index/indexfile"
	"github.com/mqstore/mqstore/store/internal/recovery"
)

// IndexExportOptions say what index files are written.
type IndexExportOptions struct {
	Options
	Slots, Entries int // of each file (maxHashSlotNum, maxIndexNum); 0 = those of the files there, else 5,000,000 and 20,000,000
}

// IndexExported is what [IndexExport] wrote, or would write.
type IndexExported struct {
	Made
	Quarantine []string // where the old files are, and what recovery cut from the log
}

// IndexExport writes RocketMQ's index/ anew from the log, the very bytes that RocketMQ would have written, and sets the old one aside in quarantine/. The new one is made beside it and takes its place when it is whole and durable: an
// interrupted IndexExport can be run again. It begins as [Recover] does: the log must be whole, or end in a torn tail, which is cut. The checkpoint says then that the files are durable, so that RocketMQ keeps them after a crash.
func IndexExport(ctx context.Context, o IndexExportOptions) (res IndexExported, err error) {
	err = withStore(ctx, o.Options, func(m *mender, op *recovery.Opened) error {
		if res.Quarantine, err = m.kept(op); err != nil {
			return err
		}
		dir, fresh := filepath.Join(m.Root, indexDir), filepath.Join(m.Root, indexDir+freshSuffix)
		shape, _ := shapeOf(dir)
		if o.Slots > 0 {
			shape.Slots = o.Slots
		}
		if o.Entries > 0 {
			shape.Entries = o.Entries
		}
		if !m.DryRun {
			if err := errors.Join(os.RemoveAll(fresh), m.fs.MkdirAll(fresh)); err != nil {
				return err
			}
		}
		if res.Keys, err = m.writeIndexFiles(op, fresh, shape, 0); err != nil {
			return err
		}
		res.Records, res.Bytes = op.Report.LogRecords, op.Report.End-max(0, op.Log.MinPhyOffset())
		if _, err := os.Lstat(dir); err == nil {
			to, err := m.aside(dir, indexDir)
			if err != nil {
				return err
			}
			res.Quarantine = append(res.Quarantine, to)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if m.DryRun {
			return nil
		}
		if err := errors.Join(os.Rename(fresh, dir), m.fs.SyncDir(m.Root)); err != nil {
			return err
		}
		set, _, err := indexfile.OpenSet(dir, shape)
		if err != nil {
			return err
		}
		if files := set.Files(); len(files) > 0 {
			op.Page.IndexMsgTimestamp = files[len(files)-1].Header().EndTime
		}
		return set.Close()
	})
	return res, err
}

// IndexImported is what [IndexImport] made, or would make, and what it met in RocketMQ's files.
type IndexImported struct {
	Made
	Entries    int64    // of the files
	Verified   int64    // lead to a record that has a key of that hash
	Dangling   int64    // lead to no such record: they are left out
	Missing    int64    // keys of records that the files lack: they are in the new index all the same
	Unreadable []string // files that are no index files
	Quarantine []string // where our old index is, and what recovery cut from the log
}

// ErrNoIndexFiles: there is no index/ to import.
var ErrNoIndexFiles = errors.New("no index files")

// IndexImport makes our index of RocketMQ's: each entry of its files is compared with the record that it leads to, and what holds is in the new index, under its exact key. So are keys that the files lack, since ours must not lack any. An
// old one is set aside. As [IndexExport], it begins as [Recover] does and can be run again.
func IndexImport(ctx context.Context, o Options) (res IndexImported, err error) {
	err = withStore(ctx, o, func(m *mender, op *recovery.Opened) error {
		if res.Quarantine, err = m.kept(op); err != nil {
			return err
		}
		set, warnings, err := indexfile.OpenSet(filepath.Join(m.Root, indexDir), indexfile.Shape{})
		if err != nil {
			return err
		}
		defer set.Close()
		for _, w := range warnings {
			res.Unreadable = append(res.Unreadable, w.Error())
		}
		if len(set.Files()) == 0 {
			return fmt.Errorf("%w in %s: mqstore rebuild --index makes an index from the log", ErrNoIndexFiles, filepath.Join(m.Root, indexDir))
		}
		if err := m.verifyEntries(op, set, &res); err != nil {
			return err
		}
		dir := filepath.Join(m.Root, pebbleDir)
		_, lerr := os.Lstat(dir)
		if !m.DryRun {
			if err := os.RemoveAll(dir + freshSuffix); err != nil {
				return err
			}
		}
		keys, aside, err := m.rebuildPebble(op, lerr == nil)
		res.Keys, res.Quarantine = keys, append(res.Quarantine, aside...)
		res.Records, res.Bytes = op.Report.LogRecords, op.Report.End-max(0, op.Log.MinPhyOffset())
		return err
	})
	return res, err
}

// withStore runs fn over the store, held and recovered, and leaves it as after a clean exit.
func withStore(ctx context.Context, o Options, fn func(m *mender, op *recovery.Opened) error) (err error) {
	m, err := hold(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = m.end(err) }()
	op, err := openRecovered(m, m.recovery())
	if err != nil {
		return err
	}
	if err := fn(m, op); err != nil {
		return errors.Join(err, op.Close())
	}
	return m.finish(op)
}

// verifyEntries walks over the entries and the records that they lead to, both in the log's order.
func (m *mender) verifyEntries(op *recovery.Opened, set *indexfile.Set, res *IndexImported) error {
	next, stop := iter.Pull2(entriesOf(set))
	defer stop()
	var (
		e      indexfile.Entry
		more   bool
		failed error
	)
	advance := func() {
		var err error
		if e, err, more = next(); err != nil {
			failed, more = errors.Join(failed, err), false
		} else if more {
			res.Entries++
		}
	}
	// behind judges an entry that leads to no record where the walk is: RocketMQ may have written it again, out of order.
	behind := func() {
		rec, err := m.files.At(e.PhyOffset)
		switch {
		case err == nil && slices.Contains(entryHashes(nil, &rec.Meta), e.Hash):
			res.Verified++
		case err == nil || errors.Is(err, ErrNoRecord):
			res.Dangling++
		default:
			failed = errors.Join(failed, err)
		}
	}
	var want []int32
	advance()
	if err := m.eachRecord(op, "verify", max(op.Log.MinPhyOffset(), 0), func(r *record.Meta) error {
		for more && e.PhyOffset < r.PhyOffset {
			behind()
			advance()
		}
		want = entryHashes(want[:0], r)
		for more && e.PhyOffset == r.PhyOffset {
			if i := slices.Index(want, e.Hash); i >= 0 {
				res.Verified++
				want = slices.Delete(want, i, i+1)
			} else if slices.Contains(entryHashes(nil, r), e.Hash) { // twice
				res.Verified++
			} else {
				res.Dangling++
			}
			advance()
		}
		res.Missing += int64(len(want))
		return failed
	}); err != nil {
		return err
	}
	for more {
		if err := m.ctx.Err(); err != nil {
			return err
		}
		behind()
		advance()
	}
	return failed
}

// entryHashes appends the hash of each entry that RocketMQ makes of the record.
func entryHashes(dst []int32, m *record.Meta) []int32 {
	if !index.HasKeys(m) {
		return dst
	}
	for _, k := range keysOf(m) {
		dst = append(dst, indexfile.Hash(m.Topic, k))
	}
	return dst
}

// entriesOf are all entries of the files, the oldest file first.
func entriesOf(set *indexfile.Set) iter.Seq2[indexfile.Entry, error] {
	return func(yield func(indexfile.Entry, error) bool) {
		for _, f := range set.Files() {
			for e, err := range f.Entries() {
				if err != nil {
					err = fmt.Errorf("index file %s: %w", f.Path(), err)
				}
				if !yield(e, err) || err != nil {
					return
				}
			}
		}
	}
}
