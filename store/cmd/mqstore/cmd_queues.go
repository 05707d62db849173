package main

import "strings"

type queuesCmd struct {
	storeArgs
	jsonFlag
}

func (*queuesCmd) Examples() string {
	return "  mqstore queues /data/store\n  mqstore queues --json /data/store | jq 'select(.units > 0)'"
}

type queueJSON struct {
	Topic        string `json:"topic"`
	QueueID      int32  `json:"queueId"`
	MinOffset    int64  `json:"minOffset"`
	MaxOffset    int64  `json:"maxOffset"`
	Units        int64  `json:"units"`
	MinPhyOffset int64  `json:"minPhyOffset"`
	MaxPhyOffset int64  `json:"maxPhyOffset"`
}

func (c *queuesCmd) Run(e *env) error {
	l, err := e.look(c.storeArgs)
	if err != nil {
		return err
	}
	defer l.close()
	s, err := l.open()
	if err != nil {
		return err
	}
	all := s.Queues()
	if len(all) == 0 {
		e.note("note: the store has no queues")
		return nil
	}
	var t *table
	if !c.JSON {
		t = e.table(column{"TOPIC", 40}, column{"QUEUE", -10}, column{"MIN", -20}, column{"MAX", -20}, column{"UNITS", -20},
			column{"MINPHY", -20}, column{"MAXPHY", -20})
	}
	for _, q := range all {
		if err := e.ctx.Err(); err != nil {
			return err
		}
		if c.JSON {
			if err := e.json(queueJSON(q)); err != nil {
				return err
			}
			continue
		}
		t.row(q.Topic, itoa(q.QueueID), itoa(q.MinOffset), itoa(q.MaxOffset), itoa(q.Units), itoa(q.MinPhyOffset), itoa(q.MaxPhyOffset))
	}
	return nil
}

// queueArgs names a queue.
type queueArgs struct {
	Topic   string `arg:"" name:"topic" help:"Topic, as stored (SCHEDULE_TOPIC_XXXX for messages that wait)."`
	QueueID int32  `arg:"" name:"queueid" help:"Queue id."`
}

func (q queueArgs) Validate() error {
	if q.QueueID < 0 {
		return usage("queueid: %d is negative", q.QueueID)
	}
	if strings.ContainsRune(q.Topic, '/') { // one that is missing is told so, an empty one by noQueue
		return usage("topic: %q cannot be a topic", q.Topic)
	}
	return nil
}
