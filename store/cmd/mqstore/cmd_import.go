package main

import (
	"io"
	"os"
	"time"

	"github.com/mqstore/mqstore/store/internal/repair"
)

type importCmd struct {
	File   string `arg:"" name:"file.zst" help:"An archive of mqstore export; - is stdin."`
	Dir    string `arg:"" name:"dir" help:"The new store's directory: an empty one, or one that does not exist."`
	DryRun bool   `name:"dry-run" help:"Read and check all of the archive, say what would be made, and write nothing."`
	jsonFlag
}

func (*importCmd) Help() string {
	return "Makes a store of an archive: the same records, byte for byte, with their queues, an index and a checkpoint, as after a clean exit. " +
		"Physical offsets stay what they were where the archive has every record from a segment's start on; from the first gap on, of a filter or of damage, records are laid behind each other, and message ids (which name an offset) change. Queues that damage left gaps in are numbered as by mqstore salvage. " +
		"An archive that was cut or changed, or has a line longer than that of a record of 32 MiB, is refused with the line, and the directory is left as it was. An import that was killed leaves a directory that is no store: run it again. " +
		"--json: the totals, and minPhyOffset maxPhyOffset (of the new log), moved (records with another physical offset), firstMoved (where the first of them lay), renumbered (queues with other queue offsets), dryRun."
}

func (*importCmd) Examples() string {
	return "  mqstore import store.zst /data/new\n  mqstore import --dry-run store.zst /data/new\n  zstd -dc store.zst | head -1    # what it is"
}

// importJSON is the totals, and what became of the physical offsets.
type importJSON struct {
	madeJSON
	MinPhyOffset int64 `json:"minPhyOffset"`
	MaxPhyOffset int64 `json:"maxPhyOffset"`
	Moved        int64 `json:"moved"`                // records whose physical offset is another one now
	FirstMoved   int64 `json:"firstMoved,omitempty"` // where the first of them lay
	Renumbered   int64 `json:"renumbered,omitempty"` // queues whose records have other queue offsets now
	DryRun       bool  `json:"dryRun,omitempty"`
}

func (c *importCmd) Run(e *env) error {
	in, total := io.Reader(os.Stdin), int64(0)
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return explain(c.File, err)
		}
		defer f.Close()
		if info, err := f.Stat(); err != nil {
			return err
		} else if info.IsDir() {
			return usage("%s is a directory: the archive comes first, then the new store's directory", c.File)
		} else {
			total = info.Size()
		}
		in = f
	}
	bar := e.progress(false)
	defer bar.end()
	began := time.Now()
	im, err := repair.Import(e.ctx, &counted{in: in, total: total, bar: bar}, c.Dir, repair.ImportOptions{DryRun: c.DryRun, Progress: bar.at})
	bar.end()
	if err != nil {
		return explain(c.Dir, err)
	}
	for _, n := range im.Notes {
		e.note("note: %s", printable(n))
	}
	seconds := time.Since(began).Seconds()
	if c.JSON {
		j := importJSON{madeJSON{&im.Records, &im.Units, &im.Keys, &im.Bytes, seconds}, im.Min, im.Max, im.Moved, 0, im.Renumbered, c.DryRun}
		if im.Moved > 0 {
			j.FirstMoved = im.FirstMoved
		}
		return e.json(j)
	}
	verb := "imported"
	if c.DryRun {
		verb = "dry run: nothing was written; it would import"
	}
	e.printf("%s %s (%s), %s and %s into %s in %s\n", verb, count(im.Records, "record", "records"), size(im.Bytes), count(im.Units, "unit", "units"), count(im.Keys, "key", "keys"), c.Dir, rounded(seconds))
	if im.Records > 0 {
		e.printf("physical offsets %d to %d, in segments of %s\n", im.Min, im.Max, size(im.SegmentSize))
	}
	if im.Moved > 0 {
		e.printf("%s behind the first gap of the archive lie at other physical offsets than before, beginning with the one that was at %d\n", count(im.Moved, "record", "records"), im.FirstMoved)
	}
	if im.Renumbered > 0 {
		e.printf("%s of which damage took records: their records before a gap got higher queue offsets, so that consumers get past it\n", count(im.Renumbered, "queue", "queues"))
	}
	return nil
}

// counted tells a bar what was read.
type counted struct {
	in          io.Reader
	done, total int64
	bar         *progress
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.done += int64(n)
	if c.total > 0 {
		c.bar.at("import", c.done, c.total)
	}
	return n, err
}
