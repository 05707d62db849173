package main

import (
	"errors"
	"io"

	"github.com/mqstore/mqstore/store/internal/repair"
)

type dumpCmd struct {
	storeArgs
	From   int64  `name:"from" placeholder:"PHY" help:"From the first record at or behind this physical offset."`
	To     int64  `name:"to" placeholder:"PHY" default:"-1" help:"Records that begin below this physical offset."`
	Topic  string `name:"topic" placeholder:"T" help:"Only this topic."`
	Queue  *int32 `name:"queue" placeholder:"N" help:"Only this queue id."`
	Since  when   `name:"since" placeholder:"TIME" help:"Stored at or after: milliseconds, RFC 3339, or a duration ago (-2h)."`
	Until  when   `name:"until" placeholder:"TIME" help:"Stored before."`
	Max    int64  `name:"max" placeholder:"N" help:"At most so many records."`
	Decode bool   `name:"decode" help:"Bodies decompressed."`
	jsonFlag
}

func (*dumpCmd) Help() string {
	return "Reads the files as they lie, around damage: a record whose CRC is wrong is printed and marked, a range that holds no record is named on stderr; either gives exit code 1."
}

func (*dumpCmd) Examples() string {
	return "  mqstore dump --max 20 /data/store\n  mqstore dump --json --topic TopicA --since -2h /data/store | jq -r .msgId"
}

func (c *dumpCmd) Validate() error {
	switch {
	case c.From < 0:
		return usage("--from: physical offset %d is negative", c.From)
	case c.To < -1:
		return usage("--to: physical offset %d is negative", c.To)
	case c.To >= 0 && c.To < c.From:
		return usage("--to %d is below --from %d", c.To, c.From)
	case c.Max < 0:
		return usage("--max: %d is negative", c.Max)
	case c.Queue != nil && *c.Queue < 0:
		return usage("--queue: %d is negative", *c.Queue)
	case !c.Since.IsZero() && !c.Until.IsZero() && c.Until.Before(c.Since.Time):
		return usage("--until is before --since")
	}
	return nil
}

func (c *dumpCmd) Run(e *env) error {
	l, err := e.look(c.storeArgs)
	if err != nil {
		return err
	}
	defer l.close()
	segs := l.files.Segments()
	if len(segs) == 0 {
		queues, err := l.files.Queues()
		if err != nil {
			return explain(c.Dir, err)
		}
		if len(queues) > 0 {
			return nothing("the store has no log files, but %s: look whether commitlog/ is the right directory and mounted (--commitlog, if it lies elsewhere)", count(len(queues), "queue", "queues"))
		}
		e.note("note: the store has no log files: it is empty")
		return nil
	}
	end := segs[len(segs)-1].End()
	if c.To >= 0 {
		end = min(end, c.To)
	}
	if c.From >= segs[len(segs)-1].End() {
		return nothing("--from %d is behind the log's last file, which ends at %d", c.From, segs[len(segs)-1].End())
	}
	r, err := l.readLog(c.From)
	if err != nil {
		return explain(c.Dir, err)
	}
	defer r.Close()
	var (
		first    = r.Offset()
		since    = c.Since.ms(-1 << 63)
		until    = c.Until.ms(1<<63 - 1)
		out      = messages{e: e, json: c.JSON, decode: c.Decode}
		bar      = e.progress(true)
		n        int64
		findings int
	)
	defer bar.end()
	for c.Max == 0 || n < c.Max {
		if err := e.ctx.Err(); err != nil {
			return err
		}
		if r.Offset() >= end {
			break
		}
		bar.at("dump", r.Offset()-first, end-first)
		rec, err := r.Next()
		if d := (*repair.Damage)(nil); errors.As(err, &d) {
			findings++
			e.note("damage %v", d)
			continue
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return explain(c.Dir, err)
		}
		m := rec.Message
		if c.To >= 0 && m.PhyOffset >= c.To {
			break
		}
		if c.Topic != "" && m.Topic != c.Topic || c.Queue != nil && m.QueueID != *c.Queue || m.StoreTimestamp < since || m.StoreTimestamp >= until {
			continue
		}
		if rec.CRC != nil {
			findings++
			e.note("damage at physical offset %d: %v", m.PhyOffset, rec.CRC)
		}
		if err := out.print(m, rec.CRC == nil); err != nil {
			return err
		}
		n++
	}
	bar.end()
	switch {
	case findings > 0:
		return nothing("%s in the range read", count(findings, "damaged place", "damaged places"))
	case out.failed > 0:
		return nothing("%s would not decompress", count(out.failed, "body", "bodies"))
	case n == 0 && (c.Topic != "" || c.Queue != nil || !c.Since.IsZero() || !c.Until.IsZero()):
		e.note("note: no record matches")
	}
	return nil
}
