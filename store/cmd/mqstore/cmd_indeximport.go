package main

import (
	"time"

	"github.com/mqstore/mqstore/store/internal/repair"
)

type indexImportCmd struct{ mendArgs }

func (*indexImportCmd) Help() string {
	return "Makes our index (index_pebble/) of RocketMQ's index/: each entry is compared with the record that it leads to. Entries that lead to none are left out, and keys that the files lack are added from the log, so that the new index is whole; both are counted. " +
		"index/ stays as it is; an index_pebble/ that is there is moved to quarantine/ when the new one is whole. A torn tail of the log is cut first, as by mqstore recover. Interrupted, it can be run again."
}

func (*indexImportCmd) Examples() string {
	return "  mqstore index-import --dry-run /data/store    # are the index files right?\n  mqstore index-import --json /data/store | jq .dangling"
}

type indexImportJSON struct {
	madeJSON
	Entries  int64 `json:"entries"`
	Verified int64 `json:"verified"`
	Dangling int64 `json:"dangling"`
	Missing  int64 `json:"missing"`
}

func (c *indexImportCmd) Run(e *env) error {
	bar := e.progress(false)
	defer bar.end()
	begin := time.Now()
	r, err := repair.IndexImport(e.ctx, c.options(bar))
	bar.end()
	if err != nil {
		return explain(c.Dir, err)
	}
	for _, u := range r.Unreadable {
		e.note("note: not read: %s", printable(u))
	}
	if c.JSON {
		j := indexImportJSON{newMadeJSON(r.Made, begin), r.Entries, r.Verified, r.Dangling, r.Missing}
		j.Units = nil
		return e.json(j)
	}
	e.printf("%s of %s read\n", count(r.Records, "record", "records"), size(r.Bytes))
	e.printf("%s in index/: %s lead to their record", count(r.Entries, "entry", "entries"), count(r.Verified, "entry", "entries"))
	if r.Dangling > 0 {
		e.printf(", %s to none and were left out", count(r.Dangling, "entry", "entries"))
	}
	e.printf("\n")
	if r.Missing > 0 {
		e.printf("%s that index/ lacks %s\n", count(r.Missing, "key", "keys"), c.verb("added from the log", "would be added from the log"))
	}
	e.printf("%s %s\n", count(r.Keys, "key", "keys"), c.verb("written", "would be written"))
	e.printKept(&c.mendArgs, r.Quarantine)
	return nil
}
