package repair

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mqstore/mqstore/checkpoint"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/consumequeue"
	"github.com/mqstore/mqstore/index"
	"github.com/mqstore/mqstore/store/internal/recovery"
)

// RebuildOptions say what is made anew.
type RebuildOptions struct {
	Options
	Queues, Index bool // neither: both
}

// Rebuilt is what [Rebuild] made, or would make.
type Rebuilt struct {
	Made
	Bitmaps    int64    // units that had an extension with a filter bitmap, and have a plain tags code now
	Quarantine []string // where the old ones are, and what recovery cut from the log
}

const freshSuffix = ".rebuild" // of what is not finished

// Rebuild makes queues, index, or both anew from the log, and sets the old ones aside in quarantine/. What is new is made beside the old one and takes its
// place when it is whole and durable: an interrupted Rebuild can be run again, and the old one serves until then. It begins as [Recover] does: the log must
// be whole, or end in a torn tail, which is cut.
//
// A queue of which every record has expired keeps its number: its last unit is taken over. Extension units (consumequeue_ext) hold what only the filters of
// a running broker compute; they are set aside, and the new units carry plain tags codes (Rebuilt.Bitmaps counts them). Both indexes are made if both are there; if none is, ours.
func Rebuild(ctx context.Context, o RebuildOptions) (res Rebuilt, err error) {
	m, err := hold(ctx, o.Options)
	if err != nil {
		return res, err
	}
	defer func() { err = m.end(err) }()
	if !o.Queues && !o.Index {
		o.Queues, o.Index = true, !o.NoIndex
	}
	queues, err := m.files.Queues()
	if err != nil {
		return res, err
	}
	if len(m.files.segments) == 0 && len(queues) > 0 {
		return res, fmt.Errorf("%w: look whether %s is the right directory and mounted", recovery.ErrNoLog, m.CommitLogDir)
	}
	if err := m.clearFresh(); err != nil {
		return res, err
	}
	ro := m.recovery()
	if o.Queues {
		ro.QueueDir = filepath.Join(m.Root, queueDir+freshSuffix)
	}
	op, err := openRecovered(m, ro)
	if err != nil {
		return res, err
	}
	if res, err = m.rebuild(op, o, queues); err != nil {
		return res, errors.Join(err, op.Close())
	}
	return res, m.finish(op)
}

// clearFresh removes what an interrupted run left unfinished.
func (m *mender) clearFresh() error {
	if m.DryRun {
		return nil
	}
	for _, name := range []string{queueDir, pebbleDir, indexDir} {
		if err := os.RemoveAll(filepath.Join(m.Root, name+freshSuffix)); err != nil {
			return err
		}
	}
	return nil
}

func (m *mender) rebuild(op *recovery.Opened, o RebuildOptions, queues []QueueName) (res Rebuilt, err error) {
	res.Records, res.Bytes = op.Report.LogRecords, op.Report.End-max(0, op.Log.MinPhyOffset())
	if res.Quarantine, err = m.kept(op); err != nil {
		return res, err
	}
	if o.Queues {
		res.Units = op.Report.RebuiltUnits
		min := max(op.Log.MinPhyOffset(), 0)
		if res.Bitmaps, err = m.files.extended(m.ctx, queues, func(_ QueueName, phy int64) bool { return phy >= min && phy < op.Report.End }); err != nil {
			return res, err
		}
		aside, err := m.replaceQueues(op, queues)
		if res.Quarantine = append(res.Quarantine, aside...); err != nil {
			return res, err
		}
	}
	if !o.Index {
		return res, nil
	}
	keys, aside, err := m.rebuildIndexes(op)
	res.Keys, res.Quarantine = keys, append(res.Quarantine, aside...)
	return res, err
}

// replaceQueues puts the queues that op has built in the place of the old ones.
func (m *mender) replaceQueues(op *recovery.Opened, old []QueueName) (aside []string, err error) {
	if !m.DryRun {
		// It speaks of the new queues and would be believed of the old ones.
		if err := checkpoint.RemoveSummary(m.fs, m.Root); err != nil {
			return nil, err
		}
		if err := keepExpired(m.files, op, old); err != nil {
			return nil, err
		}
		if err := op.Queues.Flush(); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{extDir, queueDir} {
		path := filepath.Join(m.Root, name)
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		to, err := m.aside(path, name)
		if err != nil {
			return aside, err
		}
		aside = append(aside, to)
	}
	if m.DryRun {
		return aside, nil
	}
	fresh := filepath.Join(m.Root, queueDir+freshSuffix)
	if _, err := os.Lstat(fresh); errors.Is(err, fs.ErrNotExist) {
		return aside, nil // the log has no record of any queue
	}
	if err := os.Rename(fresh, filepath.Join(m.Root, queueDir)); err != nil {
		return aside, err
	}
	return aside, m.fs.SyncDir(m.Root)
}

// keepExpired lets the numbering go on of queues that op has without any unit: the last unit that they had is taken over, if its record has expired. If it is lost, the summary remembers the number.
func keepExpired(from *Files, op *recovery.Opened, queues []QueueName) error {
	for _, name := range queues {
		if q := op.Queues.Queue(name.Topic, name.QueueID); q != nil && q.MaxOffset() > 0 || consumequeue.CheckName(name.Topic, name.QueueID) != nil {
			continue
		}
		u, err := from.lastUnit(name)
		if err != nil {
			return err
		}
		if u == nil || u.QueueOffset > (u.PhyOffset+int64(u.Size))/leastRecord { // more than the log ever had room for
			continue
		}
		if u.PhyOffset+int64(u.Size) > op.Log.MinPhyOffset() {
			k := recovery.QueueKey{Topic: name.Topic, QueueID: name.QueueID}
			op.NextOffsets[k] = max(op.NextOffsets[k], u.QueueOffset+1)
			continue
		}
		tags := u.TagsCode
		if u.IsExtAddress() {
			tags = 0
			if u.Ext != nil {
				tags = u.Ext.TagsCode
			}
		}
		at := consumequeue.Slot{Topic: name.Topic, QueueID: name.QueueID, QueueOffset: u.QueueOffset, TagsCode: tags}
		if err := op.Queues.Append(at, &record.Meta{PhyOffset: u.PhyOffset, Size: int(u.Size)}); err != nil {
			return err
		}
	}
	return op.Queues.CorrectMin(max(0, op.Log.MinPhyOffset()))
}

// lastUnit is the last unit of a queue; nil if it has none that can be read.
func (f *Files) lastUnit(q QueueName) (*Unit, error) {
	segs, err := segments(f.root, queuePath(q))
	if err != nil {
		return nil, err
	}
	for i := len(segs) - 1; i >= 0; i-- {
		r, err := f.ReadUnits(q.Topic, q.QueueID, segs[i].Start/consumequeue.UnitSize)
		if err != nil {
			return nil, err
		}
		var last *Unit
		for {
			var u Unit
			if u, err = r.Next(); err != nil {
				break
			}
			last = &u
		}
		if err = cmp.Or(err, r.Close()); err != io.EOF && last == nil {
			return nil, nil // what cannot be read has no number to keep
		}
		if last != nil {
			return last, nil
		}
	}
	return nil, nil
}

// rebuildIndexes makes the indexes anew that are there.
func (m *mender) rebuildIndexes(op *recovery.Opened) (keys int64, aside []string, err error) {
	theirs, err := m.hasIndexFiles()
	if err != nil {
		return 0, nil, err
	}
	_, err = os.Lstat(filepath.Join(m.Root, pebbleDir))
	if ours := err == nil; ours || !theirs {
		n, to, err := m.rebuildPebble(op, ours)
		keys, aside = n, append(aside, to...)
		if err != nil {
			return keys, aside, err
		}
	}
	if theirs {
		n, to, err := m.rebuildIndexFiles(op)
		keys, aside = keys+n, append(aside, to...)
		return keys, aside, err
	}
	return keys, aside, nil
}

func (m *mender) rebuildPebble(op *recovery.Opened, replaces bool) (keys int64, aside []string, err error) {
	o := m.indexOptions(op.Log)
	dir := o.Dir
	o.Dir += freshSuffix
	from := max(op.Log.MinPhyOffset(), 0)
	if m.DryRun {
		keys, err = m.countKeys(op, from)
	} else {
		var x *index.Index
		if x, err = index.Open(o); err != nil {
			return 0, nil, err
		}
		keys, err = m.fillPebble(op, x, from)
	}
	if err != nil {
		return keys, nil, err
	}
	if replaces {
		to, err := m.aside(dir, pebbleDir)
		if err != nil {
			return keys, nil, err
		}
		aside = append(aside, to)
	}
	if m.DryRun {
		return keys, aside, nil
	}
	if err := os.Rename(o.Dir, dir); err != nil {
		return keys, aside, err
	}
	return keys, aside, m.fs.SyncDir(m.Root)
}
