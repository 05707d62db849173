package main

import (
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/mqstore/mqstore/store/internal/repair"
)

type verifyCmd struct {
	storeArgs
	NoIndex bool `name:"no-index" help:"The store is run without an index: nothing about it is checked."`
	Slots   int  `name:"slots" placeholder:"N" help:"Hash slots of RocketMQ's index files (maxHashSlotNum), where the files do not tell. Default 5000000."`
	Entries int  `name:"entries" placeholder:"N" help:"Entries that such a file has room for (maxIndexNum). Default 20000000."`
	jsonFlag
}

func (*verifyCmd) Help() string {
	kinds := make([]string, len(repair.Kinds))
	for i, k := range repair.Kinds {
		kinds[i] = string(k)
	}
	return "Reads all of it: every record (checksums, lengths, stored offsets), every unit against its record and every record against its unit, extensions, checkpoint, index. Tells all findings, each with the verb that mends it; neighbours with the same fault are one finding. Writes nothing, needs no lock; of a live store it tells what will not go away by itself. " +
		"Bytes that no checksum covers and that nothing else repeats (a producer's flag, born time and host, most properties) cannot be checked in RocketMQ's format.\n\n" +
		"Kinds of findings: " + strings.Join(kinds, " ") + "."
}

func (*verifyCmd) Examples() string {
	return "  mqstore verify /data/store\n  mqstore verify --json /data/store | jq -r 'select(.kind) | [.kind, .file, .phyOffset, .mend] | @tsv'"
}

func (c *verifyCmd) Validate() error {
	if c.Slots < 0 || c.Entries < 0 || c.Entries == 1 || c.Slots > 1<<31-1 || c.Entries > 1<<31-1 {
		return usage("--slots and --entries must be 1 and 2 or more, and fit in 31 bits")
	}
	return nil
}

// verifiedJSON is the last line.
type verifiedJSON struct {
	OK       bool  `json:"ok"`
	Records  int64 `json:"records"`
	Units    int64 `json:"units"`
	Findings int64 `json:"findings"`
}

func (c *verifyCmd) Run(e *env) error {
	info, err := os.Stat(c.Dir)
	if err != nil {
		return explain(c.Dir, err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is a file: give the store's directory", c.Dir)
	}
	var log fs.FS
	if c.CommitLog != "" {
		if _, err := os.Stat(c.CommitLog); err != nil {
			return explain(c.CommitLog, err)
		}
		log = os.DirFS(c.CommitLog)
	}
	pid, live, err := repair.Holder(c.Dir)
	if err != nil {
		return explain(c.Dir, err)
	}
	if live {
		e.noteLive(c.Dir, pid)
	}
	bar := e.progress(false)
	defer bar.end()
	mends, queues := map[string]int64{}, false
	sum, err := repair.Check(e.ctx, os.DirFS(c.Dir), log, repair.CheckOptions{
		Live: live, Dir: c.Dir, NoIndex: c.NoIndex, IndexSlots: c.Slots, IndexEntries: c.Entries, Progress: bar.at,
	}, func(f repair.Finding) error {
		bar.end()
		mends[f.Mend]++
		queues = queues || f.Mend == repair.MendRebuild && !strings.HasPrefix(string(f.Kind), "index-")
		if c.JSON {
			return e.json(f)
		}
		c.print(e, f)
		if isTerminal(e.stdout) {
			return e.flush()
		}
		return nil
	})
	bar.end()
	if err != nil {
		return explain(c.Dir, err)
	}
	if c.JSON {
		err = e.json(verifiedJSON{sum.Findings == 0, sum.Records, sum.Units, sum.Findings})
	} else {
		c.printSum(e, sum, mends, queues)
	}
	if err == nil && sum.Findings > 0 {
		err = nothing("%s", count(sum.Findings, "finding", "findings"))
	}
	return err
}

func (c *verifyCmd) print(e *env, f repair.Finding) {
	where := ""
	if f.PhyOffset >= 0 {
		where += fmt.Sprintf(", physical offset %d", f.PhyOffset)
	}
	if f.Topic != "" {
		where += ", " + f.Topic
		if f.QueueID >= 0 {
			where += fmt.Sprintf(" queue %d", f.QueueID)
		}
		if f.QueueOffset >= 0 {
			where += fmt.Sprintf(" at %d", f.QueueOffset)
		}
	}
	e.printf("%s: %s\n    %s\n", f.Kind, printable(f.File+where), printable(f.Detail))
	if f.Mend != repair.MendByHand {
		e.printf("    mended by: mqstore %s\n", f.Mend)
	}
}

// verbLines is how each verb is called, in the order in which they are to be tried. queues says whether they are among what is to be rebuilt.
func (c *verifyCmd) verbLines(mends map[string]int64, queues bool) []string {
	var out []string
	if n := mends[repair.MendByHand]; n > 0 {
		line := fmt.Sprintf("by hand, as it says there (%s)", count(n, "finding", "findings"))
		if len(mends) > 1 {
			line += ", then verify again: the rest may be gone"
		}
		out = append(out, line)
	}
	if n := mends[repair.MendSalvage]; n > 0 {
		out = append(out, fmt.Sprintf("mqstore salvage %s NEWDIR (%s; what the other verbs mend is right in the new store)", c.Dir, count(n, "finding", "findings")))
	}
	if n := mends[repair.MendRecover]; n > 0 {
		out = append(out, fmt.Sprintf("mqstore recover %s (%s)", c.Dir, count(n, "finding", "findings")))
	}
	if n := mends[repair.MendRebuild]; n > 0 {
		line := "mqstore rebuild "
		if !queues {
			line += "--index "
		}
		line += fmt.Sprintf("%s (%s", c.Dir, count(n, "finding", "findings"))
		if mends[repair.MendRecover] > 0 && mends[repair.MendSalvage] == 0 {
			line += "; verify again first: recover may have mended that, too"
		}
		out = append(out, line+")")
	}
	return out
}

func (c *verifyCmd) printSum(e *env, sum repair.Checked, mends map[string]int64, queues bool) {
	read := fmt.Sprintf("%s, %s and %s checked", count(sum.Records, "record", "records"), count(sum.Units, "queue unit", "queue units"), count(sum.Keys, "index entry", "index entries"))
	if sum.Findings == 0 {
		e.printf("ok: %s\n", read)
		return
	}
	e.printf("\n%s; %s\n", read, count(sum.Findings, "finding", "findings"))
	for _, line := range c.verbLines(mends, queues) {
		e.printf("  %s\n", printable(line))
	}
}
