package repair

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/mqstore/mqstore/store/internal/recovery"
)

// Truncated is what [Truncate] cut, or would cut.
type Truncated struct {
	Made             // records, units and bytes that were cut; keys that the index got on the way
	End        int64 // where the log ended
	Quarantine []string
}

// BoundaryError refuses a physical offset at which no record begins.
type BoundaryError struct {
	PhyOffset     int64
	Before, After int64  // the boundaries around it
	What          string // what it lies in
}

func (e *BoundaryError) Error() string {
	return fmt.Sprintf("%d is within %s: the boundaries around it are %d and %d", e.PhyOffset, e.What, e.Before, e.After)
}

// announced is the file in quarantine/ that says to where the log is being cut, while it is.
const announced = "commitlog-truncate-to"

// Truncate cuts the log at to, which must be a record boundary (else a *BoundaryError), and everything above it: the queues' units, the index, checkpoint
// and summary. What is cut of the log is kept in quarantine/. The directory is then as after a clean exit. Queue offsets that are cut are given again.
//
// What lies behind to may be damaged: this is how to give it up. Damage before it, in the same segment, is refused. Interrupted, it can be run again.
func Truncate(ctx context.Context, o Options, to int64) (res Truncated, err error) {
	m, err := hold(ctx, o)
	if err != nil {
		return res, err
	}
	defer func() { err = m.end(err) }()
	if err := m.boundary(to); err != nil {
		return res, err
	}
	ro := m.recovery()
	ro.Cut, ro.CutTo = true, to
	op, err := openRecovered(m, ro)
	if err != nil {
		if _, serr := os.Lstat(filepath.Join(m.quarantine(), announced)); serr == nil && !m.DryRun {
			err = fmt.Errorf("%w; the truncation stays announced, in %s, and an opening of the store would finish it: run this verb again first, once there is room", err, filepath.Join(m.quarantine(), announced))
		}
		return res, err
	}
	if res, err = m.truncated(op, to); err != nil {
		return res, errors.Join(err, op.Close())
	}
	return res, m.finish(op)
}

func (m *mender) truncated(op *recovery.Opened, to int64) (res Truncated, err error) {
	rep := op.Report
	if rep.End < to {
		return res, fmt.Errorf("the log ends at %d already (%v): nothing else was changed", rep.End, rep.DroppedReason)
	}
	res.Records, res.Units, res.Bytes, res.End = rep.DroppedRecords, rep.TruncatedUnits, rep.DroppedBytes, rep.End
	if res.Quarantine, err = m.kept(op); err != nil {
		return res, err
	}
	keys, aside, err := m.completeIndex(op)
	res.Keys, res.Quarantine = keys, append(res.Quarantine, aside...)
	return res, err
}

// boundary walks the records of the segment that holds to, and refuses what is no boundary of theirs.
func (m *mender) boundary(to int64) error {
	r, err := m.files.holes(0)
	if err != nil {
		return err
	}
	defer r.shut()
	if len(r.segs) == 0 {
		return errors.New("there is no commit log: nothing to cut")
	}
	if to < r.segs[0].Start {
		return fmt.Errorf("%d is below the log's start, %d", to, r.segs[0].Start)
	}
	for r.next+1 < len(r.segs) && r.segs[r.next+1].Start <= to {
		r.next++
	}
	if r.segs[r.next].Start == to {
		return nil
	}
	at := r.segs[r.next].Start // a boundary
	r.seg, r.pos = Segment{Start: at}, 0
	for {
		if err := m.ctx.Err(); err != nil {
			return err
		}
		rec, _, hole, err := r.read()
		if err != nil && err != io.EOF {
			return err
		}
		switch {
		case hole != nil && hole.From > at && to <= hole.From: // a blank lies before it
			return between(at, to, hole.From, "the blank at a segment's end")
		case hole != nil && hole.From == to:
			return nil
		case hole != nil && hole.From < to && (err == io.EOF || to < hole.To):
			return &BoundaryError{to, hole.From, hole.To, "damage"}
		case hole != nil && hole.From < to:
			return fmt.Errorf("damage lies before %d, in [%d, %d): truncate to %[2]d, or salvage the store", to, hole.From, hole.To)
		case err == io.EOF && to == at:
			return nil
		case err == io.EOF:
			return fmt.Errorf("%d is beyond the log's end, %d", to, at)
		case to == rec.PhyOffset, to == at:
			return nil
		case to < rec.PhyOffset:
			return between(at, to, rec.PhyOffset, "the blank at a segment's end")
		case to < rec.PhyOffset+int64(rec.Size):
			return &BoundaryError{to, rec.PhyOffset, rec.PhyOffset + int64(rec.Size), "a record"}
		}
		at = rec.PhyOffset + int64(rec.Size)
	}
}

func between(before, to, after int64, what string) error {
	if to == before || to == after {
		return nil
	}
	return &BoundaryError{to, before, after, what}
}
