package main

import (
	"fmt"
	"os"

	"github.com/mqstore/mqstore/store/internal/repair"
)

type diffCmd struct {
	A          string `arg:"" name:"a" help:"A store's directory: the master's, say."`
	B          string `arg:"" name:"b" help:"Another one: its slave's."`
	CommitLogA string `name:"commitlog-a" placeholder:"DIR" help:"A's commit log, where it is not A/commitlog."`
	CommitLogB string `name:"commitlog-b" placeholder:"DIR" help:"B's commit log, where it is not B/commitlog."`
	jsonFlag
}

func (*diffCmd) Help() string {
	return "Compares the records of both logs byte for byte, each at its physical offset, and the units of their queues for records that both have. What has no meaning is no difference: the rest of a segment behind its last record, and whatever lies behind a log's end; if files differ there, a note says so. " +
		"firstDifference is the lowest physical offset, from where both logs have begun, at which one has a byte that the other has not; -1 if there is none. A slave that lags is told by onlyInA; so is one that began at a later segment, whose firstDifference is -1. Holes of sparse files are not read. Exit code 1 if they differ."
}

func (*diffCmd) Examples() string {
	return "  mqstore diff /data/master /data/slave\n  mqstore diff --json /data/master /data/slave | jq .firstDifference"
}

// diffJSON begins with the fields of the contract; the others are there if there is a difference.
type diffJSON struct {
	Equal           bool            `json:"equal"`
	FirstDifference int64           `json:"firstDifference"`
	OnlyInA         int64           `json:"onlyInA"`
	OnlyInB         int64           `json:"onlyInB"`
	DifferentBytes  int64           `json:"differentBytes,omitempty"`
	Ranges          []diffRangeJSON `json:"ranges,omitempty"`
	MoreRanges      int64           `json:"moreRanges,omitempty"`
	Queues          []diffQueueJSON `json:"queues,omitempty"`
	MoreQueues      int64           `json:"moreQueues,omitempty"`
}

type diffRangeJSON struct {
	From int64  `json:"from"`
	To   int64  `json:"to"`
	Kind string `json:"kind"` // same, differs, onlyInA, onlyInB
}

type diffQueueJSON struct {
	Topic       string `json:"topic"`
	QueueID     int32  `json:"queueId"`
	QueueOffset int64  `json:"queueOffset"` // the first difference
	Different   int64  `json:"different"`
	OnlyInA     int64  `json:"onlyInA"`
	OnlyInB     int64  `json:"onlyInB"`
}

func (c *diffCmd) Run(e *env) error {
	a, err := e.look(storeArgs{Dir: c.A, CommitLog: c.CommitLogA})
	if err != nil {
		return err
	}
	defer a.close()
	b, err := e.look(storeArgs{Dir: c.B, CommitLog: c.CommitLogB})
	if err != nil {
		return err
	}
	defer b.close()
	if same(a, b) {
		e.note("note: A and B are the same directory")
	}
	bar := e.progress(false)
	defer bar.end()
	d, err := repair.Diff(e.ctx, a.files, b.files, repair.DiffOptions{LiveA: a.live, LiveB: b.live, Progress: bar.at})
	if err != nil {
		return explain(c.A+" or "+c.B, err)
	}
	bar.end()
	if c.JSON {
		err = e.json(newDiffJSON(d))
	} else {
		c.print(e, d)
	}
	if err != nil {
		return err
	}
	if d.Behind >= 0 {
		e.note("note: behind the records, where bytes have no meaning, the files differ from physical offset %d on", d.Behind)
	}
	for _, s := range []struct {
		name string
		ext  repair.LogExtent
	}{{c.A, d.A}, {c.B, d.B}} {
		if s.ext.Damaged > 0 {
			e.note("note: %s has %s in its log (mqstore verify %[1]s)", s.name, count(s.ext.Damaged, "damaged range", "damaged ranges"))
		}
		if s.ext.Torn {
			e.note("note: %s has a torn tail behind its log's end, %d (mqstore recover %[1]s cuts it)", s.name, s.ext.Max)
		}
	}
	if !d.Equal() {
		return quietError{exitFindings}
	}
	return nil
}

// same reports whether both are one directory.
func same(a, b *look) bool {
	x, errX := os.Stat(a.args.Dir)
	y, errY := os.Stat(b.args.Dir)
	return errX == nil && errY == nil && os.SameFile(x, y) && a.args.CommitLog == b.args.CommitLog
}

func newDiffJSON(d *repair.Difference) *diffJSON {
	j := &diffJSON{Equal: d.Equal(), FirstDifference: d.First, OnlyInA: d.OnlyInA, OnlyInB: d.OnlyInB}
	if j.Equal {
		return j
	}
	j.DifferentBytes, j.MoreRanges, j.MoreQueues = d.Differ, d.More, d.MoreQueues
	names := map[repair.DiffKind]string{repair.DiffSame: "same", repair.DiffBytes: "differs", repair.DiffOnlyInA: "onlyInA", repair.DiffOnlyInB: "onlyInB"}
	for _, r := range d.Ranges {
		j.Ranges = append(j.Ranges, diffRangeJSON{r.From, r.To, names[r.Kind]})
	}
	for _, q := range d.Queues {
		j.Queues = append(j.Queues, diffQueueJSON{q.Topic, q.QueueID, q.First, q.Differ, q.OnlyInA, q.OnlyInB})
	}
	return j
}

func (c *diffCmd) print(e *env, d *repair.Difference) {
	extent := func(name, dir string, x repair.LogExtent) {
		if x.Records == 0 {
			e.printf("%s  %s: no records\n", name, dir)
			return
		}
		e.printf("%s  %s: %s, physical offsets %d to %d (%s)\n", name, dir, count(x.Records, "record", "records"), x.Min, x.Max, size(x.Max-x.Min))
	}
	extent("A", c.A, d.A)
	extent("B", c.B, d.B)
	if d.Equal() {
		e.printf("equal\n")
		return
	}
	switch {
	case d.First >= 0:
		e.printf("first difference at physical offset %d\n", d.First)
		for _, p := range []struct {
			name  string
			place *repair.DiffPlace
		}{{"A", d.FirstInA}, {"B", d.FirstInB}} {
			e.printf("  in %s: %s\n", p.name, placeText(p.place))
		}
	case d.OnlyInA+d.OnlyInB > 0:
		e.printf("where both logs have begun they are the same\n")
	default:
		e.printf("the logs are the same\n")
	}
	if len(d.Unlike()) > 0 {
		e.printf("\n")
		t := e.table(column{"FROM", -20}, column{"TO", -20}, column{"SIZE", -10}, column{"LOG", 0})
		for _, r := range d.Ranges {
			t.row(itoa(r.From), itoa(r.To), size(r.To-r.From), string(r.Kind))
		}
		if d.More > 0 {
			e.printf("and %s\n", count(d.More, "more range", "more ranges"))
		}
	}
	if len(d.Queues) > 0 {
		e.printf("\n")
		t := e.table(column{"TOPIC", 40}, column{"QUEUE", -10}, column{"FROM", -20}, column{"DIFFERENT", -10}, column{"ONLY IN A", -10}, column{"ONLY IN B", -10})
		for _, q := range d.Queues {
			t.row(q.Topic, itoa(q.QueueID), itoa(q.First), itoa(q.Differ), itoa(q.OnlyInA), itoa(q.OnlyInB))
		}
		if d.MoreQueues > 0 {
			e.printf("and %s\n", count(d.MoreQueues, "more queue", "more queues"))
		}
	}
}

func placeText(p *repair.DiffPlace) string {
	switch {
	case p == nil:
		return "nothing"
	case p.Damaged:
		return fmt.Sprintf("damage, from %d on", p.PhyOffset)
	}
	return fmt.Sprintf("the %s of the record at %d (%s, queue %d, queue offset %d, %s)", p.Field, p.PhyOffset, printable(p.Topic), p.QueueID, p.QueueOffset, count(p.Size, "byte", "bytes"))
}
