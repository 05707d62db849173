package main

import (
	"strings"
	"time"

	"github.com/mqstore/mqstore/store/internal/repair"
)

// mendArgs are the flags of the verbs that change a store in place.
type mendArgs struct {
	storeArgs
	DryRun        bool  `name:"dry-run" help:"Tell what the run would do, and write nothing."`
	QueueFileSize int64 `name:"queue-file-size" placeholder:"BYTES" help:"Length of queue files that are made (mappedFileSizeConsumeQueue). Default: that of the ones there, else 6000000."`
	NoIndex       bool  `name:"no-index" help:"The store is run without an index (messageIndexEnable=false): none is made."`
	MultiDispatch bool  `name:"multi-dispatch" help:"Records have units in the queues that INNER_MULTI_DISPATCH names (enableMultiDispatch). Not needed where there are light queues (%LMQ%)."`
	jsonFlag
}

func (c *mendArgs) Validate() error {
	if c.QueueFileSize < 0 || c.QueueFileSize%20 != 0 {
		return usage("--queue-file-size: %d is no multiple of 20", c.QueueFileSize)
	}
	return nil
}

func (c *mendArgs) options(bar *progress) repair.Options {
	return repair.Options{Root: c.Dir, CommitLogDir: c.CommitLog, DryRun: c.DryRun, QueueFileSize: c.QueueFileSize, NoIndex: c.NoIndex, MultiDispatch: c.MultiDispatch, Progress: bar.at}
}

// madeJSON are the totals of a verb; what does not apply is left out.
type madeJSON struct {
	Records *int64  `json:"records,omitempty"`
	Units   *int64  `json:"units,omitempty"`
	Keys    *int64  `json:"keys,omitempty"`
	Bytes   *int64  `json:"bytes,omitempty"`
	Seconds float64 `json:"seconds"`
}

func newMadeJSON(m repair.Made, begin time.Time) madeJSON {
	return madeJSON{&m.Records, &m.Units, &m.Keys, &m.Bytes, time.Since(begin).Seconds()}
}

// verb is the word in the tense of a run or a dry run.
func (c *mendArgs) verb(did, would string) string {
	if c.DryRun {
		return would
	}
	return did
}

// printKept lists the files that hold what was cut or set aside.
func (e *env) printKept(c *mendArgs, files []string) {
	for _, f := range files {
		e.printf("%s in %s\n", c.verb("kept", "would be kept"), printable(f))
	}
}

type recoverCmd struct{ mendArgs }

func (*recoverCmd) Help() string {
	return "Does offline what opening the store does after a crash, and compares every record with its queue unit: cuts the torn tail, completes or rebuilds queues and index, resets the checkpoint, removes the abort file, and sets files aside that do not belong. What is cut is kept in quarantine/. " +
		"Damage with whole records behind it that were durable is refused, and nothing is changed: see mqstore salvage. Interrupted, it can be run again."
}

func (*recoverCmd) Examples() string {
	return "  mqstore recover --dry-run /data/store\n  mqstore recover --json /data/store | jq .droppedBytes"
}

func (c *recoverCmd) Run(e *env) error {
	bar := e.progress(false)
	defer bar.end()
	r, err := repair.Recover(e.ctx, c.options(bar))
	bar.end()
	if err != nil {
		return explain(c.Dir, err)
	}
	if c.JSON {
		return e.json(r)
	}
	switch {
	case r.DroppedBytes > 0 && repair.EndsAnnounced(r.Reason):
		e.printf("the log %s at %d, as an interrupted truncation had announced: behind lie %s\n", c.verb("was cut", "would be cut"), r.TruncatedTo, size(r.DroppedBytes))
	case r.DroppedBytes > 0:
		e.printf("the log %s at %d: behind lie %s that are no whole records in order (%s)\n", c.verb("was cut", "would be cut"), r.TruncatedTo, size(r.DroppedBytes), printable(reason(r.Reason)))
	default:
		e.printf("the log ends at %d: nothing of it %s cut\n", r.TruncatedTo, c.verb("had to be", "has to be"))
	}
	if r.Records > 0 {
		e.printf("%s among them\n", count(r.Records, "whole record", "whole records"))
	}
	if r.Lost > 0 {
		e.note("note: %s that had been on disk are lost or cut: if a copy of the log's files exists, restore it before anything is put", size(r.Lost))
	}
	if r.RebuiltUnits > 0 {
		e.printf("%s %s", count(r.RebuiltUnits, "queue unit", "queue units"), c.verb("rebuilt", "would be rebuilt"))
		if len(r.Queues) > 0 {
			e.printf(", for %s", printable(some(r.Queues, 5)))
		}
		e.printf("\n")
	}
	if r.RebuiltKeys > 0 {
		e.printf("%s %s\n", count(r.RebuiltKeys, "index key", "index keys"), c.verb("added", "would be added"))
	}
	e.printKept(&c.mendArgs, r.Quarantine)
	if !c.DryRun {
		e.printf("the store is as after a clean exit\n")
	}
	return nil
}

func reason(err error) string {
	if err == nil {
		return "nothing follows"
	}
	return strings.TrimSpace(err.Error())
}
