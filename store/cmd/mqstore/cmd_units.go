package main

import (
	"encoding/hex"
	"errors"
	"io"
	"io/fs"

	"github.com/mqstore/mqstore/store/internal/repair"
)

type unitsCmd struct {
	storeArgs
	queueArgs
	From *int64 `name:"from" placeholder:"N" help:"First queue offset (default: the queue's first unit that the log still has)."`
	Max  int64  `name:"max" placeholder:"N" help:"At most so many units."`
	jsonFlag
}

func (*unitsCmd) Examples() string {
	return "  mqstore units /data/store TopicA 0\n  mqstore units --json --from 1000 --max 10 /data/store TopicA 0"
}

func (c *unitsCmd) Validate() error {
	if c.From != nil && *c.From < 0 {
		return usage("--from: queue offset %d is negative", *c.From)
	}
	if c.Max < 0 {
		return usage("--max: %d is negative", c.Max)
	}
	return c.queueArgs.Validate()
}

type unitJSON struct {
	QueueOffset int64    `json:"queueOffset"`
	PhyOffset   int64    `json:"phyOffset"`
	Size        int32    `json:"size"`
	TagsCode    int64    `json:"tagsCode"`
	Ext         *extJSON `json:"ext,omitempty"`
}

type extJSON struct {
	TagsCode       int64  `json:"tagsCode"`
	StoreTimestamp int64  `json:"storeTimestamp"`
	Bitmap         []byte `json:"bitmap"`
}

func (c *unitsCmd) Run(e *env) error {
	l, err := e.look(c.storeArgs)
	if err != nil {
		return err
	}
	defer l.close()
	from := int64(0)
	if c.From != nil {
		from = *c.From
	}
	r, err := l.files.ReadUnits(c.Topic, c.QueueID, from)
	if errors.Is(err, fs.ErrNotExist) {
		have, err := l.files.Queues()
		if err != nil {
			return err
		}
		return noQueue(have, c.Topic, c.QueueID)
	}
	if err != nil {
		return explain(c.Dir, err)
	}
	defer r.Close()
	minPhy := int64(0) // units below it point at what the log no longer has
	if segs := l.files.Segments(); c.From == nil && len(segs) > 0 {
		minPhy = segs[0].Start
	}
	var (
		t     *table
		n     int64
		stale int64
		bad   int64
	)
	for c.Max == 0 || n < c.Max {
		if err := e.ctx.Err(); err != nil {
			return err
		}
		u, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if n == 0 && u.PhyOffset < minPhy {
			stale++
			continue
		}
		n++
		if u.ExtErr != nil {
			bad++
			e.note("queue offset %d: %v", u.QueueOffset, u.ExtErr)
		}
		if c.JSON {
			j := unitJSON{QueueOffset: u.QueueOffset, PhyOffset: u.PhyOffset, Size: u.Size, TagsCode: u.TagsCode}
			if u.Ext != nil {
				j.Ext = &extJSON{u.Ext.TagsCode, u.Ext.StoreTime, u.Ext.Bitmap}
			}
			if err := e.json(j); err != nil {
				return err
			}
			continue
		}
		if t == nil {
			t = e.table(column{"QOFFSET", -20}, column{"PHYOFFSET", -20}, column{"SIZE", -11}, column{"TAGSCODE", -20}, column{"EXTENSION", 0})
		}
		t.row(itoa(u.QueueOffset), itoa(u.PhyOffset), itoa(u.Size), itoa(u.TagsCode), extension(u))
	}
	switch {
	case bad > 0:
		return nothing("%s cannot be read", count(bad, "extension unit", "extension units"))
	case n == 0 && stale > 0:
		e.note("note: the queue's %s all point below the log's first record at %d; --from 0 shows them", count(stale, "unit", "units"), minPhy)
	case n == 0:
		e.note("note: no units from queue offset %d on", from)
	}
	return nil
}

func extension(u repair.Unit) string {
	if u.Ext == nil {
		return ""
	}
	return "tagsCode " + itoa(u.Ext.TagsCode) + ", stored " + stamp(u.Ext.StoreTime) + ", bitmap " + orDash(hex.EncodeToString(u.Ext.Bitmap))
}
