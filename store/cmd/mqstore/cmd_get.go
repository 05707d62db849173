package main

import (
	"errors"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

type getCmd struct {
	storeArgs
	queueArgs
	Offset int64  `arg:"" name:"offset" help:"Queue offset to begin at."`
	Max    int    `name:"max" placeholder:"N" default:"32" help:"At most so many messages (default ${default}; as a consumer's pull, 8 or 32 and 64 or 256 KiB at once)."`
	Tags   string `name:"tags" placeholder:"EXPR" default:"*" help:"Tags that a consumer subscribes to: TagA || TagB."`
	Decode bool   `name:"decode" help:"Bodies decompressed."`
	jsonFlag
}

func (*getCmd) Examples() string {
	return "  mqstore get /data/store TopicA 0 120\n  mqstore get --json --max 10 --tags 'TagA || TagB' /data/store TopicA 0 120"
}

func (c *getCmd) Validate() error {
	switch {
	case c.Offset < 0:
		return usage("offset: queue offset %d is negative", c.Offset)
	case c.Max < 1:
		return usage("--max: %d, but at least 1 message must be asked for", c.Max)
	}
	return c.queueArgs.Validate()
}

type getJSON struct {
	Status          string `json:"status"`
	NextBeginOffset int64  `json:"nextBeginOffset"`
	MinOffset       int64  `json:"minOffset"`
	MaxOffset       int64  `json:"maxOffset"`
}

func (c *getCmd) Run(e *env) error {
	l, err := e.look(c.storeArgs)
	if err != nil {
		return err
	}
	defer l.close()
	s, err := l.open()
	if err != nil {
		return err
	}
	res, err := s.Get(e.ctx, store.GetRequest{Group: "mqstore", Topic: c.Topic, QueueID: c.QueueID, Offset: c.Offset, MaxMessages: c.Max, Filter: store.TagFilter(c.Tags)})
	if err != nil {
		return err
	}
	defer res.Release()
	head := getJSON{res.Status.String(), res.NextBeginOffset, res.MinOffset, res.MaxOffset}
	if c.JSON {
		err = e.json(head)
	} else {
		e.printf("%s: next offset %d, the queue holds [%d, %d)\n", head.Status, head.NextBeginOffset, head.MinOffset, head.MaxOffset)
	}
	if err != nil {
		return err
	}
	if res.Status != store.Found {
		if _, err := l.queue(s, c.Topic, c.QueueID); err != nil {
			return err
		}
		return quietError{exitFindings}
	}
	out := messages{e: e, json: c.JSON, decode: c.Decode}
	damaged := 0
	for _, v := range res.Records {
		m, err := record.Decode(v.Bytes)
		bad := errors.Is(err, record.ErrCRC)
		if err != nil {
			damaged++
			e.note("damage at physical offset %d: %v", v.PhyOffset, err)
			if !bad {
				continue
			}
		}
		if err := out.print(m, !bad); err != nil {
			return err
		}
	}
	if damaged > 0 {
		return nothing("%s", count(damaged, "damaged record", "damaged records"))
	}
	if out.failed > 0 {
		return nothing("%s would not decompress", count(out.failed, "body", "bodies"))
	}
	return nil
}
