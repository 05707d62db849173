package main

import (
	"time"

	"github.com/mqstore/mqstore/store/internal/repair"
)

type rebuildCmd struct {
	mendArgs
	Queues bool `name:"queues" help:"The consume queues."`
	Index  bool `name:"index" help:"The index."`
}

func (*rebuildCmd) Help() string {
	return "Makes the consume queues, the index, or (without a flag) both anew from the log. The old ones are moved to quarantine/, and serve until the new ones are whole: interrupted, it can be run again. " +
		"A torn tail of the log is cut as by mqstore recover. Queues of which every record has expired keep their numbers. Extensions of units (consumequeue_ext) are set aside: they hold filter bitmaps that only a running broker computes; new units carry plain tags codes, and a broker filters by the messages themselves. How many units had one is said, in --json as droppedBitmaps."
}

func (*rebuildCmd) Examples() string {
	return "  mqstore rebuild --queues --dry-run /data/store\n  mqstore rebuild --index /data/store"
}

func (c *rebuildCmd) Validate() error {
	if c.NoIndex && c.Index {
		return usage("--index and --no-index exclude each other")
	}
	return c.mendArgs.Validate()
}

func (c *rebuildCmd) Run(e *env) error {
	bar := e.progress(false)
	defer bar.end()
	begin := time.Now()
	r, err := repair.Rebuild(e.ctx, repair.RebuildOptions{Options: c.options(bar), Queues: c.Queues, Index: c.Index})
	bar.end()
	if err != nil {
		return explain(c.Dir, err)
	}
	queues, index := c.Queues || !c.Index, c.Index || !c.Queues && !c.NoIndex
	if c.JSON {
		j := newMadeJSON(r.Made, begin)
		if !queues {
			j.Units = nil
		}
		if !index {
			j.Keys = nil
		}
		return e.json(anewJSON{j, r.Bitmaps})
	}
	e.printf("%s of %s read\n", count(r.Records, "record", "records"), size(r.Bytes))
	if queues {
		e.printf("%s %s\n", count(r.Units, "queue unit", "queue units"), c.verb("written", "would be written"))
		e.printBitmaps(r.Bitmaps, c.verb("carry", "would carry"))
	}
	if index {
		e.printf("%s %s\n", count(r.Keys, "index key", "index keys"), c.verb("written", "would be written"))
	}
	e.printKept(&c.mendArgs, r.Quarantine)
	return nil
}

// anewJSON is the totals of a verb that makes queues anew, and what those lack.
type anewJSON struct {
	madeJSON
	Bitmaps int64 `json:"droppedBitmaps,omitempty"` // units that had a filter bitmap in consumequeue_ext
}

// printBitmaps says what of consumequeue_ext the new queues do not have.
func (e *env) printBitmaps(n int64, carry string) {
	if n > 0 {
		e.printf("%s had a filter bitmap (consumequeue_ext) and %s a plain tags code now: nothing is lost, a broker filters by the messages themselves\n", count(n, "unit", "units"), carry)
	}
}
