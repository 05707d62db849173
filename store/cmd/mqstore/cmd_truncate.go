package main

import (
	"time"

	"github.com/mqstore/mqstore/store/internal/repair"
)

type truncateCmd struct {
	mendArgs
	To int64 `name:"to" required:"" placeholder:"PHY" help:"The physical offset that becomes the log's end: where a record begins."`
}

func (*truncateCmd) Help() string {
	return "Cuts the log at a record boundary, and everything above it: queue units, index entries, checkpoint. What is cut of the log is kept in quarantine/. An offset within a record is refused, and the boundaries around it are named. " +
		"What lies behind may be damaged: this is how to give it up. Queue offsets that are cut are given again. Interrupted, it can be run again. The totals are of what was cut."
}

func (*truncateCmd) Examples() string {
	return "  mqstore truncate --to 1073741824 --dry-run /data/slave\n  mqstore truncate --to 1073741824 /data/slave"
}

func (c *truncateCmd) Validate() error {
	if c.To < 0 {
		return usage("--to: physical offset %d is negative", c.To)
	}
	return c.mendArgs.Validate()
}

func (c *truncateCmd) Run(e *env) error {
	bar := e.progress(false)
	defer bar.end()
	begin := time.Now()
	r, err := repair.Truncate(e.ctx, c.options(bar), c.To)
	bar.end()
	if err != nil {
		return explain(c.Dir, err)
	}
	if c.JSON {
		j := newMadeJSON(r.Made, begin)
		j.Keys = nil
		return e.json(j)
	}
	if r.Bytes == 0 {
		e.printf("nothing lies behind %d: the log ends there\n", c.To)
	} else {
		e.printf("%s, %s and %s %s: the log ends at %d\n", size(r.Bytes), count(r.Records, "whole record", "whole records"), count(r.Units, "queue unit", "queue units"), c.verb("cut", "would be cut"), r.End)
	}
	e.printKept(&c.mendArgs, r.Quarantine)
	return nil
}
