package main

import (
	"errors"

	"github.com/mqstore/mqstore/store"
)

type timeCmd struct {
	storeArgs
	queueArgs
	Time when   `arg:"" name:"time" help:"Store time: milliseconds, RFC 3339, or a duration ago (-2h)."`
	Rule string `name:"rule" enum:"nearest,lower,upper" default:"nearest" help:"nearest: RocketMQ 4.9's rule, ties to the earlier; lower: the first message at or after the time; upper: the last one at or before it."`
	jsonFlag
}

func (*timeCmd) Examples() string {
	return "  mqstore time /data/store TopicA 0 -2h\n  mqstore time --json --rule lower /data/store TopicA 0 2026-11-29T15:44:58Z"
}

// timeJSON has storeTimestamp -1 where no message has the offset: behind the queue's end, or an empty queue.
type timeJSON struct {
	QueueOffset    int64 `json:"queueOffset"`
	StoreTimestamp int64 `json:"storeTimestamp"`
}

func (c *timeCmd) Run(e *env) error {
	l, err := e.look(c.storeArgs)
	if err != nil {
		return err
	}
	defer l.close()
	s, err := l.open()
	if err != nil {
		return err
	}
	if _, err := l.queue(s, c.Topic, c.QueueID); err != nil {
		return err
	}
	rule := map[string]store.TimeRule{"nearest": store.Nearest, "lower": store.Lower, "upper": store.Upper}[c.Rule]
	off, err := s.OffsetByTime(c.Topic, c.QueueID, c.Time.Time, rule)
	if err != nil {
		return err
	}
	j := timeJSON{QueueOffset: off, StoreTimestamp: -1}
	switch t, err := s.StoreTime(c.Topic, c.QueueID, off); {
	case err == nil:
		j.StoreTimestamp = t.UnixMilli()
	case !errors.Is(err, store.ErrNotFound):
		return err
	}
	if c.JSON {
		return e.json(j)
	}
	if j.StoreTimestamp < 0 {
		e.printf("queue offset %d (no message has it)\n", j.QueueOffset)
		return nil
	}
	e.printf("queue offset %d, stored %s\n", j.QueueOffset, stamp(j.StoreTimestamp))
	return nil
}
