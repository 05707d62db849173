package main

import (
	"errors"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

type queryCmd struct {
	storeArgs
	Topic  string `arg:"" name:"topic" help:"The topic, as stored: delayed messages wait in SCHEDULE_TOPIC_XXXX."`
	Key    string `arg:"" name:"key" help:"A key of the message, or its unique id (UNIQ_KEY)."`
	Begin  when   `name:"begin" placeholder:"TIME" help:"Stored at or after: milliseconds, RFC 3339, or a duration ago (-2h)."`
	End    when   `name:"end" placeholder:"TIME" help:"Stored at or before."`
	Max    int    `name:"max" placeholder:"N" default:"64" help:"At most so many messages, the newest (default ${default})."`
	Decode bool   `name:"decode" help:"Bodies decompressed."`
	jsonFlag
}

func (*queryCmd) Help() string {
	return "Asks the store's index (index_pebble) and reads from the log what is newer; without one it asks RocketMQ's own index and compares each hit with its record; without any it reads the whole log. A note says which."
}

func (*queryCmd) Examples() string {
	return "  mqstore query /data/store TopicA order-4711\n  mqstore query --json --begin -2h --max 1 /data/store TopicA 0A0102030001D590F74D0002 | jq -r .msgId"
}

func (c *queryCmd) Validate() error {
	switch {
	case c.Max < 1:
		return usage("--max: %d, but at least 1 message must be asked for", c.Max)
	case !c.Begin.IsZero() && !c.End.IsZero() && c.End.Before(c.Begin.Time):
		return usage("--end is before --begin")
	}
	return nil
}

func (c *queryCmd) Run(e *env) error {
	if c.Topic == "" || c.Key == "" {
		return usage("topic and key: neither can be empty")
	}
	l, err := e.look(c.storeArgs)
	if err != nil {
		return err
	}
	defer l.close()
	s, err := l.open()
	if err != nil {
		return err
	}
	defer l.bar.end()
	res, err := s.Query(e.ctx, store.QueryRequest{Topic: c.Topic, Key: c.Key, Begin: c.Begin.Time, End: c.End.Time, Max: c.Max})
	l.bar.end()
	if err != nil {
		return err
	}
	defer res.Release()
	switch res.Source {
	case store.IndexFile:
		e.note("note: there is no index_pebble: RocketMQ's own index answered, and the log for what that lacks")
	case store.LogScan:
		e.note("note: there is no index: the whole log was read")
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
	switch {
	case len(res.Records) == 0:
		return nothing("no message of topic %s has the key %s%s", c.Topic, c.Key, c.within())
	case damaged > 0:
		return nothing("%s", count(damaged, "damaged record", "damaged records"))
	case out.failed > 0:
		return nothing("%s would not decompress", count(out.failed, "body", "bodies"))
	}
	return nil
}

func (c *queryCmd) within() string {
	if c.Begin.IsZero() && c.End.IsZero() {
		return ""
	}
	return " and was stored in that time"
}
