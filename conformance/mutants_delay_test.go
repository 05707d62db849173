package conformance_test

import (
	"context"
	"strings"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// mutated is a fault of a store that delivers delayed messages and dispatches to several queues.
func mutated(mutate func(f *faulty)) func(f *faulty) {
	return func(f *faulty) {
		f.able = true
		mutate(f)
	}
}

// tapeCodes changes the tags codes of a slave's units in a topic.
func tapeCodes(topic string, how func(m *record.Message, code int64) int64) func(f *faulty) {
	return getRequest(func(f *faulty, r *store.GetRequest) {
		if r.Filter == nil || !isSlave(f) || topic != "" && r.Topic != topic || topic == "" && r.Topic == record.TopicSchedule {
			return
		}
		var ms []*record.Message // now: filters are asked with the model's lock held
		for m := range f.m.Scan(context.Background(), r.Topic, r.QueueID, r.Offset) {
			ms = append(ms, m)
		}
		r.Filter = filtering{Filter: r.Filter, unit: func(next store.Filter, code int64, ok bool, ext *store.ExtUnit) bool {
			if len(ms) > 0 {
				code, ms = how(ms[0], code), ms[1:]
			}
			return next.MatchUnit(code, ok, ext)
		}}
	})
}

func init() {
	mutants = append(mutants,
		mutant{"delay-001", "delayed messages are stored as ordinary ones", func(f *faulty) {
			f.put = func(ctx context.Context, m *record.Message, next putFunc) (store.PutResult, error) {
				if m != nil && m.Properties.DelayLevel() > 0 && m.Topic != record.TopicSchedule {
					c := *m
					c.Properties = m.Properties.Without(record.PropertyDelay)
					m = &c
				}
				return next(ctx, m)
			}
		}},
		mutant{"delay-002", "a negative level is a delay", func(f *faulty) {
			refuse(f, store.ErrUnsupported, func(m *record.Message) bool {
				v, _ := m.Properties.Get(record.PropertyDelay)
				return strings.HasPrefix(v, "-")
			})
		}},
		mutant{"delay-003", "a delayed batch is stored as an ordinary one", func(f *faulty) {
			f.putBatch = func(ctx context.Context, m *record.Message, items []record.BatchItem, next batchFunc) (store.PutResult, error) {
				c := *m
				c.Properties = m.Properties.Without(record.PropertyDelay)
				return next(ctx, &c, items)
			}
		}},
		mutant{"delay-004", "a prepared message loses its delay", func(f *faulty) {
			change(f, func(m *record.Message) {
				if m.SysFlag.Transaction() == record.TransactionPrepared {
					m.Properties = m.Properties.Without(record.PropertyDelay)
				}
			})
		}},
		mutant{"delay-010", "a waiting message does not know its queue", mutated(func(f *faulty) {
			f.real = func(m *record.Message) { m.Properties = m.Properties.Without(record.PropertyRealQueueID) }
		})},
		mutant{"delay-011", "a message is due a millisecond early", mutated(func(f *faulty) { f.early = time.Millisecond })},
		mutant{"delay-012", "a level beyond the table is its first one", mutated(func(f *faulty) {
			f.delayed = func(m *record.Message, level int) int {
				if m.Properties.DelayLevel() > level {
					return 1
				}
				return level
			}
		})},
		mutant{"delay-013", "a delivered message has no tags", mutated(func(f *faulty) {
			f.delivered = func(m *record.Message) { m.Properties = m.Properties.Without(record.PropertyTags) }
		})},
		mutant{"delay-020", "a waiting message has the code of its tags", tapeCodes(record.TopicSchedule, func(m *record.Message, code int64) int64 {
			if m.QueueID == 2 {
				return m.TagsCode()
			}
			return code
		})},
		mutant{"delay-021", "a level beyond the table waits a second", tapeCodes(record.TopicSchedule, func(m *record.Message, code int64) int64 {
			if m.Properties.DelayLevel() > 18 {
				return m.StoreTimestamp + 1000
			}
			return code
		})},
		mutant{"delay-022", "level 0 waits a second", tapeCodes(record.TopicSchedule, func(m *record.Message, code int64) int64 {
			if v, _ := m.Properties.Get(record.PropertyDelay); v == "0" {
				return m.StoreTimestamp + 1000
			}
			return code
		})},
		mutant{"delay-023", "a message with a level has a time for its tags code, whatever its topic", tapeCodes("", func(m *record.Message, code int64) int64 {
			if level := m.Properties.DelayLevel(); level > 0 {
				return record.DefaultDelayTable().DeliverTime(m.StoreTimestamp, level)
			}
			return code
		})},
	)
}
