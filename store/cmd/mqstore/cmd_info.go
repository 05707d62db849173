package main

import (
	"errors"
	"io"
	"io/fs"

	"github.com/mqstore/mqstore/store"
	"github.com/mqstore/mqstore/store/internal/repair"
)

type infoCmd struct {
	storeArgs
	SVG  string `name:"svg" placeholder:"FILE" help:"Draw the store as a picture: - is stdout."`
	HTML string `name:"html" placeholder:"FILE" help:"And as a page, with the numbers in tables: - is stdout."`
	jsonFlag
}

func (*infoCmd) Help() string {
	return "Counting the messages reads the log once. Damage met on the way or behind the log's end, queues that lack units, and whatever else opening the store would have to mend is said on stderr, and gives exit code 1. Bodies are not checked against their CRC: mqstore dump does that. Of a store that cannot be opened it says what the files tell. " +
		"In --json, announcedTruncation is there if a truncation was announced in quarantine/ and interrupted: the physical offset at which the next opening ends the log (-1: the file does not say). " +
		"--svg and --html draw the store: segments along the log, what its bytes are, the time in which it was stored, queues and how far they are behind, and the findings of mqstore verify in their places. They read the log twice more, and need neither network nor scripts to be looked at."
}

func (*infoCmd) Examples() string {
	return "  mqstore info /data/store\n  mqstore info --json /data/store | jq .maxPhyOffset\n  mqstore info --html store.html /data/store"
}

// infoJSON has -1 for what an empty store has none of.
type infoJSON struct {
	CleanExit           bool           `json:"cleanExit"`
	MinPhyOffset        int64          `json:"minPhyOffset"`
	MaxPhyOffset        int64          `json:"maxPhyOffset"`
	Segments            int            `json:"segments"`
	SegmentSize         int64          `json:"segmentSize"`
	Messages            int64          `json:"messages"`
	Topics              int            `json:"topics"`
	Queues              int            `json:"queues"`
	Checkpoint          checkpointJSON `json:"checkpoint"`
	FirstStoreTimestamp int64          `json:"firstStoreTimestamp"`
	LastStoreTimestamp  int64          `json:"lastStoreTimestamp"`
	Index               indexJSON      `json:"index"`
	Announced           *int64         `json:"announcedTruncation,omitempty"` // where an unfinished one ends the log; -1: the file does not say
}

type checkpointJSON struct {
	PhysicMsgTimestamp int64 `json:"physicMsgTimestamp"`
	LogicsMsgTimestamp int64 `json:"logicsMsgTimestamp"`
	IndexMsgTimestamp  int64 `json:"indexMsgTimestamp"`
}

type indexJSON struct {
	Kind              string `json:"kind"`
	ProgressPhyOffset int64  `json:"progressPhyOffset"`
	Entries           int64  `json:"entries"`
}

func (c *infoCmd) Run(e *env) error {
	l, err := e.look(c.storeArgs)
	if err != nil {
		return err
	}
	defer l.close()
	if c.SVG != "" || c.HTML != "" {
		if err := c.draw(l); err != nil || c.SVG == "-" || c.HTML == "-" {
			return err
		}
	}
	j := infoJSON{MinPhyOffset: -1, Segments: len(l.files.Segments()), SegmentSize: l.files.SegmentSize(), FirstStoreTimestamp: -1, LastStoreTimestamp: -1}
	findings := 0
	cannot := func(what string, err error) {
		e.note("note: %s: %s", what, printable(explain(c.Dir, err).Error()))
		findings++
	}
	var dropped int64
	queues := map[string]int{}
	s, err := l.open()
	switch {
	case err == nil:
		st := s.Stats()
		j.MinPhyOffset, j.MaxPhyOffset = st.MinPhyOffset, st.MaxPhyOffset
		dropped = s.Recovery().DroppedBytes
		for _, q := range s.Queues() {
			queues[q.Topic]++
			j.Queues++
		}
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist):
		return err
	default:
		cannot("the store cannot be opened as it is", err)
		if segs := l.files.Segments(); len(segs) > 0 {
			j.MinPhyOffset, j.MaxPhyOffset = segs[0].Start, segs[len(segs)-1].End()
		}
		all, err := l.files.Queues()
		if err != nil {
			return explain(c.Dir, err)
		}
		for _, q := range all {
			queues[q.Topic]++
			j.Queues++
		}
	}
	j.Topics = len(queues)
	if !l.live {
		switch a, err := l.files.Announced(); {
		case err != nil:
			cannot("whether a truncation was announced cannot be read", err)
		case a != nil:
			j.Announced = &a.To
			findings++
			if s != nil && dropped > 0 {
				break // which is noted
			}
			e.note("note: a truncation of the log to %d is announced in %s and was not finished: the next opening for writing, or mqstore recover, finishes it", a.To, a.File)
		}
	}
	if j.CleanExit, err = l.files.CleanExit(); err != nil {
		return explain(c.Dir, err)
	}
	page, err := l.files.Checkpoint()
	if err != nil {
		cannot("the checkpoint cannot be read, so that opening the store reads more of the log", err)
	}
	j.Checkpoint = checkpointJSON{page.PhysicMsgTimestamp, page.LogicsMsgTimestamp, page.IndexMsgTimestamp}
	ix, err := l.files.Index()
	if err != nil {
		cannot("the index cannot be read", err)
	}
	if s != nil {
		if own := s.Stats().Index; own.Kind == string(store.IndexPebble) {
			ix = repair.Index{Kind: own.Kind, ProgressPhyOffset: own.ProgressPhyOffset, Entries: own.Entries}
		}
	}
	j.Index = indexJSON{ix.Kind, ix.ProgressPhyOffset, ix.Entries}
	damage, behind, err := c.count(l, &j, dropped)
	if err != nil {
		return err
	}
	findings += l.noted
	if c.JSON {
		err = e.json(j)
	} else {
		c.print(l, &j, ix)
	}
	switch {
	case err != nil:
		return err
	case damage > 0:
		return nothing("%s in the log (mqstore dump names them)", count(damage, "damaged place", "damaged places"))
	case dropped > 0 && j.Announced != nil:
		return nothing("the log ends at %d, where an interrupted truncation announced it: the next opening cuts the %s behind, with %s", j.MaxPhyOffset,
			count(dropped, "byte", "bytes"), count(behind, "whole record", "whole records"))
	case dropped > 0 && !l.live:
		return nothing("the log is damaged at its end, %d: %s in the %s behind (mqstore dump shows them)", j.MaxPhyOffset,
			count(behind, "whole record", "whole records"), count(dropped, "byte", "bytes"))
	case findings > 0:
		return nothing("%s, noted above", count(findings, "finding", "findings"))
	}
	return nil
}

// count reads the log for what only its records know: up to the end that the store was opened with and, if damage is what
// ended it there, how many whole records lie behind.
func (c *infoCmd) count(l *look, j *infoJSON, dropped int64) (damage int, behind int64, err error) {
	r, err := l.files.ReadLog(0)
	if err != nil {
		return 0, 0, explain(c.Dir, err)
	}
	defer r.Close()
	r.MetaOnly = true
	bar := l.e.progress(false)
	defer bar.end()
	start, end, last := r.Offset(), j.MaxPhyOffset, r.Offset()
	total := end - start
	if segs := l.files.Segments(); dropped > 0 && len(segs) > 0 {
		total = segs[len(segs)-1].End() - start
	}
	for {
		if err := l.e.ctx.Err(); err != nil {
			return 0, 0, err
		}
		if r.Offset() >= end && l.store != nil {
			if l.live {
				return damage, 0, nil // what has come since
			}
			r.MetaOnly = false
		}
		bar.at("count messages", r.Offset()-start, total)
		rec, err := r.Next()
		if d := (*repair.Damage)(nil); errors.As(err, &d) {
			if d.From < end {
				damage++
			}
			continue
		}
		if err == io.EOF {
			if l.store == nil {
				j.MaxPhyOffset = last
			}
			return damage, behind, nil
		}
		if err != nil {
			return 0, 0, explain(c.Dir, err)
		}
		if rec.Meta.PhyOffset >= end {
			if rec.CRC == nil {
				behind++
			}
			continue
		}
		last = rec.Meta.PhyOffset + int64(rec.Meta.Size)
		j.Messages++
		if j.FirstStoreTimestamp < 0 {
			j.FirstStoreTimestamp = rec.Meta.StoreTimestamp
		}
		j.LastStoreTimestamp = rec.Meta.StoreTimestamp
	}
}

func (c *infoCmd) print(l *look, j *infoJSON, ix repair.Index) {
	e := l.e
	line := func(name, format string, args ...any) {
		e.printf("%-14s "+format+"\n", append([]any{name}, args...)...)
	}
	line("store", "%s", c.Dir)
	switch {
	case l.live:
		line("state", "in use by a running process")
	case j.CleanExit:
		line("state", "closed cleanly")
	default:
		line("state", "NOT closed cleanly: the abort file is there; the next opening recovers")
	}
	if j.Announced != nil {
		line("truncation", "ANNOUNCED to %d and not finished: the next opening cuts the log there", *j.Announced)
	}
	if j.Segments == 0 {
		line("log", "empty: no files")
	} else {
		line("log", "%s of %s, physical offsets %d to %d (%s)", count(j.Segments, "segment", "segments"), size(j.SegmentSize),
			j.MinPhyOffset, j.MaxPhyOffset, size(j.MaxPhyOffset-j.MinPhyOffset))
	}
	line("messages", "%s", count(j.Messages, "record", "records"))
	line("first stored", "%s", stamp(j.FirstStoreTimestamp))
	line("last stored", "%s", stamp(j.LastStoreTimestamp))
	line("queues", "%s in %s", count(j.Queues, "queue", "queues"), count(j.Topics, "topic", "topics"))
	line("checkpoint", "log up to    %s", stamp(j.Checkpoint.PhysicMsgTimestamp))
	line("", "queues up to %s", stamp(j.Checkpoint.LogicsMsgTimestamp))
	whose := ""
	if ix.Kind == string(store.IndexPebble) {
		whose = " (RocketMQ's index files; ours, below, keeps its own)"
	}
	line("", "index up to  %s%s", stamp(j.Checkpoint.IndexMsgTimestamp), whose)
	switch ix.Kind {
	case "none":
		line("index", "none")
	case string(store.IndexPebble):
		line("index", "%s, %s, up to physical offset %d", ix.Kind, count(ix.Entries, "entry", "entries"), ix.ProgressPhyOffset)
	default:
		line("index", "%s, %s, %s, up to physical offset %d", ix.Kind, count(ix.Files, "file", "files"), count(ix.Entries, "entry", "entries"), ix.ProgressPhyOffset)
	}
}
