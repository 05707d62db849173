package main

import (
	"fmt"
	"time"

	"github.com/mqstore/mqstore/store/internal/repair"
)

type salvageCmd struct {
	Source        string `arg:"" name:"src" help:"The damaged store's directory. It is never written."`
	Dest          string `arg:"" name:"dst" help:"The new store's directory: missing or empty."`
	CommitLog     string `name:"commitlog" placeholder:"DIR" help:"The source's commit log, where it is not the store's commitlog (storePathCommitLog)."`
	DryRun        bool   `name:"dry-run" help:"Tell the holes and what would be copied, and write nothing."`
	Topic         string `name:"topic" placeholder:"T" help:"Only this topic."`
	From          int64  `name:"from" placeholder:"PHY" help:"Only records at or behind this physical offset."`
	To            int64  `name:"to" placeholder:"PHY" help:"Only records that begin below this physical offset."`
	SegmentSize   int64  `name:"segment-size" placeholder:"BYTES" help:"Length of the log's files (mappedFileSizeCommitLog), where most of the source's files have another."`
	QueueFileSize int64  `name:"queue-file-size" placeholder:"BYTES" help:"Length of the new queue files (mappedFileSizeConsumeQueue). Default: that of the source's, else 6000000."`
	MultiDispatch bool   `name:"multi-dispatch" help:"Records have units in the queues that INNER_MULTI_DISPATCH names (enableMultiDispatch). Not needed where there are light queues (%LMQ%)."`
	jsonFlag
}

func (*salvageCmd) Help() string {
	return "For damage in the middle of the log: copies every record that verifies (magic code, sizes, CRC, and that it says it lies where it does) into a new store, around the holes, and reports each hole. The new store is complete with queues and index. " +
		"Records keep their physical offsets up to the first hole, and move down behind it: offset message ids of those change, and slaves start anew. Queue offsets: records behind a queue's last hole keep theirs, those before move up, so that no consumer skips a message; at worst it gets some again. " +
		"config/ is copied. Extensions of queue units (consumequeue_ext) are not: they hold filter bitmaps that only a running broker computes; new units carry plain tags codes, and a broker filters by the messages themselves. How many units had one is said, in --json as droppedBitmaps of the last object. Interrupted, it can be run again, and begins anew."
}

func (*salvageCmd) Examples() string {
	return "  mqstore salvage --dry-run /data/store /data/store.new\n  mqstore salvage --json /data/store /data/store.new > holes.jsonl"
}

func (c *salvageCmd) Validate() error {
	switch {
	case c.From < 0:
		return usage("--from: physical offset %d is negative", c.From)
	case c.To < 0:
		return usage("--to: physical offset %d is negative", c.To)
	case c.To > 0 && c.To < c.From:
		return usage("--to %d is below --from %d", c.To, c.From)
	case c.SegmentSize != 0 && c.SegmentSize < 256:
		return usage("--segment-size: %d is too small", c.SegmentSize)
	case c.QueueFileSize < 0 || c.QueueFileSize%20 != 0:
		return usage("--queue-file-size: %d is no multiple of 20", c.QueueFileSize)
	}
	return nil
}

func (c *salvageCmd) Run(e *env) error {
	bar := e.progress(true)
	defer bar.end()
	begin := time.Now()
	var t *table
	r, err := repair.Salvage(e.ctx, repair.SalvageOptions{
		Source: c.Source, Dest: c.Dest, CommitLogDir: c.CommitLog, DryRun: c.DryRun, Topic: c.Topic, From: c.From, To: c.To,
		SegmentSize: c.SegmentSize, QueueFileSize: c.QueueFileSize, MultiDispatch: c.MultiDispatch, Progress: bar.at,
		Hole: func(h repair.Hole) error {
			if c.JSON {
				return e.json(h)
			}
			if t == nil {
				t = e.table(column{"HOLE FROM", -20}, column{"TO", -20}, column{"BYTES", -10}, column{"FILE", 40}, column{"CAUSE", 0})
			}
			t.row(itoa(h.From), itoa(h.To), size(h.To-h.From), h.File, h.Cause)
			return nil
		},
	})
	bar.end()
	if err != nil {
		return fmt.Errorf("%w; the source is untouched", explain(c.Source, err))
	}
	if r.Leftover > 0 {
		e.note("note: %s at the log's end are left over from before RocketMQ cut it there: left out", count(r.Leftover, "record", "records"))
	}
	for i, q := range r.Shifts {
		if i == 20 {
			e.note("note: and %s more", count(len(r.Shifts)-i, "queue", "queues"))
			break
		}
		if q.Moved > 0 {
			e.note("note: %s-%d now holds [%d, %d): %s moved up", printable(q.Topic), q.QueueID, q.Min, q.Max, count(q.Moved, "record", "records"))
		}
	}
	if c.JSON {
		if err := e.json(anewJSON{newMadeJSON(r.Made, begin), r.Bitmaps}); err != nil {
			return err
		}
	} else {
		e.printf("%s of %s %s, with %s and %s; %s lost %s\n", count(r.Records, "record", "records"), size(r.Bytes), map[bool]string{true: "would be copied", false: "copied"}[c.DryRun],
			count(r.Units, "unit", "units"), count(r.Keys, "key", "keys"), count(r.Holes, "hole", "holes"), size(r.HoleBytes))
		e.printBitmaps(r.Bitmaps, map[bool]string{true: "would carry", false: "carry"}[c.DryRun])
	}
	if r.Records == 0 {
		return nothing("no record of %s verifies: nothing was written", c.Source)
	}
	return nil
}
