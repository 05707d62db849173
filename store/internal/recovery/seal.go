package recovery

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/mqstore/mqstore/checkpoint"
	"github.com/mqstore/mqstore/commitlog/mappedfile"
)

// Seal leaves the directory as after a clean exit: log and queues durable, then a checkpoint and a summary that say so, both closed, and no abort file. It
// is for who recovers a directory without serving it. After an error log and queues are closed, and the directory is as after a crash.
func (o *Opened) Seal(fsys mappedfile.FS, root string) error {
	err := o.seal(fsys, root)
	if err = errors.Join(err, o.Close()); err != nil {
		return err
	}
	if err := checkpoint.RemoveAbort(fsys, root); err != nil {
		return fmt.Errorf("remove the abort file: %w", err)
	}
	return nil
}

// Close closes queues and log.
func (o *Opened) Close() error { return errors.Join(o.Queues.Close(), o.Log.Close()) }

func (o *Opened) seal(fsys mappedfile.FS, root string) error {
	if _, err := o.Log.Flush(); err != nil {
		return fmt.Errorf("flush the log: %w", err)
	}
	if err := o.Queues.Flush(); err != nil {
		return fmt.Errorf("flush the queues: %w", err)
	}
	if err := checkpoint.Write(fsys, checkpoint.Path(root), o.sealedPage()); err != nil {
		return fmt.Errorf("write the checkpoint: %w", err)
	}
	sum, err := Summarize(o.Log, o.Queues.Snapshot(), o.Report.End, !o.Report.QueuesUnchecked)
	if err != nil {
		return err
	}
	KeepNumbers(sum, o.NextOffsets)
	if o.Report.QueuesUnchecked {
		return nil
	}
	if err := checkpoint.WriteSummary(fsys, root, sum); err != nil {
		return fmt.Errorf("write the summary: %w", err)
	}
	return nil
}

// sealedPage says that everything up to the log's last record is durable, and nothing of what is not there.
func (o *Opened) sealedPage() checkpoint.Page {
	p := o.Page
	t := o.Log.LastStoreTimestamp()
	if o.Report.End <= max(0, o.Log.MinPhyOffset()) {
		return checkpoint.Page{}
	}
	if t = cmp.Or(t, min(p.PhysicMsgTimestamp, p.LogicsMsgTimestamp)); t > 0 {
		p.PhysicMsgTimestamp, p.LogicsMsgTimestamp = t, t
	}
	p.IndexMsgTimestamp = min(p.IndexMsgTimestamp, p.LogicsMsgTimestamp)
	p.MasterFlushedOffset, p.ConfirmPhyOffset = min(p.MasterFlushedOffset, o.Report.End), min(p.ConfirmPhyOffset, o.Report.End)
	return p
}
