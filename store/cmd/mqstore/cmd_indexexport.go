package main

import (
	"time"

	"github.com/mqstore/mqstore/store/internal/repair"
)

type indexExportCmd struct {
	mendArgs
	Slots   int `name:"slots" placeholder:"N" help:"Hash slots of a file (maxHashSlotNum). Default: those of the files there, else 5000000."`
	Entries int `name:"entries" placeholder:"N" help:"Entries that a file has room for (maxIndexNum). Default: those of the files there, else 20000000."`
}

func (*indexExportCmd) Help() string {
	return "Writes RocketMQ's index/ from the log, the bytes that RocketMQ would have written, so that it answers queries by key in this directory. An old index/ is moved to quarantine/ when the new one is whole. " +
		"A torn tail of the log is cut first, as by mqstore recover. Interrupted, it can be run again."
}

func (*indexExportCmd) Examples() string {
	return "  mqstore index-export --dry-run /data/store\n  mqstore index-export /data/store"
}

func (c *indexExportCmd) Validate() error {
	if c.Slots < 0 || c.Entries < 0 || c.Entries == 1 || c.Slots > 1<<31-1 || c.Entries > 1<<31-1 {
		return usage("--slots and --entries must be 1 and 2 or more, and fit in 31 bits")
	}
	return c.mendArgs.Validate()
}

func (c *indexExportCmd) Run(e *env) error {
	bar := e.progress(false)
	defer bar.end()
	begin := time.Now()
	r, err := repair.IndexExport(e.ctx, repair.IndexExportOptions{Options: c.options(bar), Slots: c.Slots, Entries: c.Entries})
	bar.end()
	if err != nil {
		return explain(c.Dir, err)
	}
	if c.JSON {
		j := newMadeJSON(r.Made, begin)
		j.Units = nil
		return e.json(j)
	}
	e.printf("%s of %s read\n", count(r.Records, "record", "records"), size(r.Bytes))
	e.printf("%s of RocketMQ's %s\n", count(r.Keys, "index entry", "index entries"), c.verb("written", "would be written"))
	e.printKept(&c.mendArgs, r.Quarantine)
	return nil
}
