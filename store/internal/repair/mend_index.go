package repair

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/mqstore/mqstore/commitlog"
	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/index"
	"github.com/mqstore/mqstore/index/indexfile"
	"github.com/mqstore/mqstore/store/internal/recovery"
)

// openRecovered opens the store, and names the verb for damage.
func openRecovered(m *mender, o recovery.Options) (*recovery.Opened, error) {
	op, err := recovery.Open(o)
	if err != nil && m.ctx.Err() != nil {
		return nil, m.ctx.Err()
	}
	return op, err
}

// completeIndex gives the index what it lacks: ours, which opening the store would make if there is none, or RocketMQ's where only that is there.
// aside is what was set aside of it.
func (m *mender) completeIndex(op *recovery.Opened) (keys int64, aside []string, err error) {
	if m.NoIndex {
		return 0, nil, nil
	}
	theirs, err := m.hasIndexFiles()
	if err != nil {
		return 0, nil, err
	}
	if _, err := os.Stat(filepath.Join(m.Root, pebbleDir)); errors.Is(err, fs.ErrNotExist) && theirs {
		return m.completeIndexFiles(op)
	}
	if keys, err = m.completePebble(op); err != nil || !theirs {
		return keys, nil, err
	}
	n, aside, err := m.cutIndexFiles(op)
	return keys + n, aside, err
}

// cutIndexFiles makes RocketMQ's index anew, beside ours, if it has entries of records that the log has no more: what is put next would lie where they point.
func (m *mender) cutIndexFiles(op *recovery.Opened) (keys int64, aside []string, err error) {
	dir := filepath.Join(m.Root, indexDir)
	shape, known := shapeOf(dir)
	if !known {
		return 0, nil, nil
	}
	set, _, err := indexfile.OpenSet(dir, shape)
	if err != nil {
		return 0, nil, err
	}
	end := set.EndPhyOffset()
	if err := set.Close(); err != nil || end < op.Report.End {
		return 0, nil, err
	}
	return m.rebuildIndexFiles(op)
}

// hasIndexFiles reports whether there is a file of RocketMQ's index.
func (m *mender) hasIndexFiles() (bool, error) {
	dir := filepath.Join(m.Root, indexDir)
	if info, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return false, nil
	}
	list, err := os.ReadDir(dir)
	for _, d := range list {
		if isIndexFile(d) {
			return true, nil
		}
	}
	return false, err
}

func isIndexFile(d fs.DirEntry) bool {
	_, err := strconv.ParseUint(d.Name(), 10, 63)
	return err == nil && d.Type().IsRegular()
}

// bucketSize is that of a new index, as the store chooses it: a multiple of the log's segments.
func bucketSize(segment int64) int64 {
	const least = 64 << 20
	return segment * ((least + segment - 1) / segment)
}

func (m *mender) indexOptions(log *commitlog.Log) index.Options {
	var p record.Parser
	return index.Options{
		Dir:          filepath.Join(m.Root, pebbleDir),
		MinPhyOffset: log.MinPhyOffset(), MaxPhyOffset: log.MaxPhyOffset(),
		BucketSize:   bucketSize(log.SegmentSize()),
		FlushEvery:   math.MaxInt64, // full tables only
		NoCompaction: true,
		Record: func(phyOffset int64, look func(m *record.Meta)) (bool, error) {
			v, err := log.ViewRest(phyOffset)
			if errors.Is(err, mappedfile.ErrNotFound) {
				return false, nil
			} else if err != nil {
				return false, err
			}
			defer v.Release()
			var m record.Meta
			if err := p.Parse(v.Bytes, phyOffset, &m); err != nil || m.IsBlank() {
				return false, nil
			}
			look(&m)
			return true, nil
		},
	}
}

func (m *mender) completePebble(op *recovery.Opened) (keys int64, err error) {
	o := m.indexOptions(op.Log)
	open := index.Open
	if m.DryRun {
		open = index.OpenReader
	}
	x, err := open(o)
	from := max(op.Log.MinPhyOffset(), 0)
	switch {
	case m.DryRun && (errors.Is(err, index.ErrNoIndex) || errors.Is(err, index.ErrDamaged)):
	case err != nil:
		return 0, err
	default:
		from = max(from, x.Next())
	}
	if m.DryRun {
		keys, err = m.countKeys(op, from)
		if x != nil {
			err = errors.Join(err, x.Close())
		}
		return keys, err
	}
	return m.fillPebble(op, x, from)
}

// countKeys is how many entries the records from phyOffset on make.
func (m *mender) countKeys(op *recovery.Opened, phyOffset int64) (keys int64, err error) {
	err = m.eachRecord(op, "index", phyOffset, func(r *record.Meta) error {
		keys += int64(index.Keys(r))
		return nil
	})
	return keys, err
}

// fillPebble gives x the keys of the records from phyOffset on, and closes it. Full tables are written beside the reading of the log.
func (m *mender) fillPebble(op *recovery.Opened, x *index.Index, phyOffset int64) (keys int64, err error) {
	ctx, stop := context.WithCancel(context.WithoutCancel(m.ctx))
	var writer sync.WaitGroup
	writer.Go(func() { _ = x.Run(ctx) }) // its error is that of the next Put, and of Close
	err = m.eachRecord(op, "index", phyOffset, func(r *record.Meta) error {
		n, err := x.Put(r)
		keys += int64(n)
		return err
	})
	stop()
	writer.Wait()
	return keys, errors.Join(err, x.Close())
}

// completeIndexFiles adds to RocketMQ's index, in a file of its own, the records behind the last one that has an entry. One that is ahead of the log, or
// cannot be read, is made anew.
func (m *mender) completeIndexFiles(op *recovery.Opened) (keys int64, aside []string, err error) {
	dir := filepath.Join(m.Root, indexDir)
	shape, known := shapeOf(dir)
	if !known { // how another file would have to look, only its broker knows: rebuild makes it anew
		return 0, nil, nil
	}
	set, warnings, err := indexfile.OpenSet(dir, shape)
	if err != nil {
		return 0, nil, err
	}
	end := set.EndPhyOffset()
	if err := set.Close(); err != nil {
		return 0, nil, err
	}
	if len(warnings) > 0 || end >= op.Report.End {
		return m.rebuildIndexFiles(op)
	}
	keys, err = m.writeIndexFiles(op, dir, shape, end+1)
	return keys, nil, err
}

// rebuildIndexFiles makes RocketMQ's index anew and sets the old one aside.
func (m *mender) rebuildIndexFiles(op *recovery.Opened) (keys int64, aside []string, err error) {
	dir, fresh := filepath.Join(m.Root, indexDir), filepath.Join(m.Root, indexDir+".rebuild")
	shape, _ := shapeOf(dir)
	if !m.DryRun {
		if err := os.RemoveAll(fresh); err != nil { // of an interrupted run
			return 0, nil, err
		}
		if err := m.fs.MkdirAll(fresh); err != nil {
			return 0, nil, err
		}
	}
	if keys, err = m.writeIndexFiles(op, fresh, shape, 0); err != nil {
		return keys, nil, err
	}
	to, err := m.aside(dir, indexDir)
	if err != nil || m.DryRun {
		return keys, []string{to}, err
	}
	if err := os.Rename(fresh, dir); err != nil {
		return keys, []string{to}, err
	}
	return keys, []string{to}, m.fs.SyncDir(m.Root)
}

// writeIndexFiles writes the keys of the records at or behind from.
func (m *mender) writeIndexFiles(op *recovery.Opened, dir string, shape indexfile.Shape, from int64) (keys int64, err error) {
	var w *indexfile.Writer
	first := max(op.Log.MinPhyOffset(), 0)
	if last := from - 1; last >= first {
		if _, v, err := op.Log.Message(last); err == nil { // else what the index says of it is wrong
			v.Release()
			first = last
		}
	}
	err = m.eachRecord(op, "index", first, func(r *record.Meta) error {
		if r.PhyOffset < from || !index.HasKeys(r) {
			return nil
		}
		texts := keysOf(r)
		if keys += int64(len(texts)); m.DryRun {
			return nil
		}
		if w == nil {
			var err error
			if w, err = indexfile.NewWriter(dir, shape, nil); err != nil {
				return err
			}
		}
		return w.Put(r.Topic, r.PhyOffset, r.StoreTimestamp, texts...)
	})
	if w != nil {
		err = errors.Join(err, w.Close())
	}
	return keys, err
}

// keysOf are the keys of a record as RocketMQ's index has them: the unique one, then KEYS.
func keysOf(m *record.Meta) (keys []string) {
	if u, ok := m.UniqKey(); ok {
		keys = append(keys, string(u))
	}
	for k := range m.Keys() {
		keys = append(keys, string(k))
	}
	return keys
}

// shapeOf is the shape of the newest index file that tells it. A file of few entries does not: then it is the one with four entries a slot, as by default, if that fits.
func shapeOf(dir string) (s indexfile.Shape, known bool) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return s, false
	}
	for i := len(list) - 1; i >= 0; i-- {
		info, err := list[i].Info()
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		f, err := os.Open(filepath.Join(dir, list[i].Name()))
		if err != nil {
			continue
		}
		told, ok := indexfile.ShapeOf(f, info.Size())
		f.Close()
		if ok {
			return told, true
		}
		const slots, entries = 4, 20 // bytes
		if n := (info.Size() - indexHeaderSize) / (slots + 4*entries); n > 0 && !known {
			s = indexfile.Shape{Slots: int(n), Entries: int(4 * n)}
			known = s.Size() == info.Size()
		}
	}
	if !known {
		s = indexfile.Shape{}
	}
	return s, known
}

// eachRecord reads the log's records from phyOffset, a boundary, to the end that recovery found.
func (m *mender) eachRecord(op *recovery.Opened, stage string, phyOffset int64, see func(*record.Meta) error) error {
	end := op.Report.End
	c := op.Log.NewCursor(phyOffset)
	defer c.Close()
	var r record.Meta
	for n := 0; c.Offset() < end; n++ {
		if n%1024 == 0 {
			if err := m.ctx.Err(); err != nil {
				return err
			}
			m.Progress(stage, c.Offset()-phyOffset, end-phyOffset)
		}
		switch err := c.Next(&r, end); {
		case errors.Is(err, commitlog.ErrNotYet):
			return nil
		case err != nil:
			return fmt.Errorf("read the log: %w", err)
		}
		if err := see(&r); err != nil {
			return err
		}
	}
	return nil
}
