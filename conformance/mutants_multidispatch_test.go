package conformance_test

import (
	"context"
	"strings"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// stripped takes a property out of puts.
func stripped(name string) func(f *faulty) {
	return func(f *faulty) {
		f.put = func(ctx context.Context, m *record.Message, next putFunc) (store.PutResult, error) {
			if m == nil {
				return next(ctx, m)
			}
			c := *m
			c.Properties = m.Properties.Without(name)
			return next(ctx, &c)
		}
	}
}

// rewritten changes whole records that a slave receives, one in each append or several.
func rewritten(how func(m *record.Message)) func(f *faulty) {
	return received(func(f *faulty, phyOffset int64, p []byte, next func(int64, []byte) error) error {
		if !isSlave(f) {
			return next(phyOffset, p)
		}
		for len(p) > 0 {
			m, err := record.Decode(p)
			if err != nil {
				return next(phyOffset, p)
			}
			size := m.Size
			how(m)
			b, err := record.AppendRecord(nil, m, record.Limits{})
			if err != nil {
				return err
			}
			if len(b) != size {
				panic("the mutant changes a record's size")
			}
			if err := next(phyOffset, b); err != nil {
				return err
			}
			phyOffset, p = phyOffset+int64(size), p[size:]
		}
		return nil
	})
}

// light is a light queue's name.
func light(topic string) bool { return strings.HasPrefix(topic, "%LMQ%") }

func init() {
	mutants = append(mutants,
		mutant{"multidispatch-001", "a message for several queues is stored in its own only", stripped(record.PropertyMultiDispatch)},
		mutant{"multidispatch-002", "messages for several queues are always refused", func(f *faulty) {
			refuse(f, store.ErrUnsupported, func(m *record.Message) bool {
				_, multi := m.Properties.Get(record.PropertyMultiDispatch)
				return multi && !f.c.MultiDispatch
			})
		}},
		mutant{"multidispatch-003", "only the first of the queues has the message", mutated(func(f *faulty) {
			getAnswer(func(f *faulty, r store.GetRequest, g *store.GetResult) {
				if light(r.Topic) && strings.HasSuffix(r.Topic, "b") && len(g.Records) > 1 {
					dropRecord(g, 0)
				}
			})(f)
		})},
		mutant{"multidispatch-004", "the stored offsets are in the order of the queues' names", mutated(func(f *faulty) {
			f.multi = func(m *record.Message, offsets []string) {
				names, _ := m.Properties.Get(record.PropertyMultiDispatch)
				if a, b, two := strings.Cut(names, ","); two && a > b {
					offsets[0], offsets[1] = offsets[1], offsets[0]
					m.Properties = m.Properties.With(record.PropertyMultiDispatch, b+","+a)
				}
			}
		})},
		mutant{"multidispatch-005", "light queues are divided", mutated(func(f *faulty) {
			f.maxOffset = func(topic string, queueID int32, next boundFunc) int64 {
				if light(topic) && queueID > 0 && !isSlave(f) {
					return next(topic, 0)
				}
				return next(topic, queueID)
			}
		})},
		mutant{"multidispatch-006", "a prepared message is in the queues that it names", mutated(func(f *faulty) {
			prepared := int64(0)
			f.multi = func(m *record.Message, _ []string) {
				if m.SysFlag.Transaction() == record.TransactionPrepared {
					prepared++
				}
			}
			f.maxOffset = func(topic string, queueID int32, next boundFunc) int64 {
				if light(topic) {
					return next(topic, queueID) + prepared
				}
				return next(topic, queueID)
			}
		})},
		mutant{"multidispatch-007", "light queues begin at 0 again after a restart", mutated(func(f *faulty) {
			restarted := false
			f.reopen = func() { restarted = true }
			f.multi = func(_ *record.Message, offsets []string) {
				if restarted {
					for i := range offsets {
						offsets[i] = "0"
					}
				}
			}
		})},
		mutant{"multidispatch-020", "a light queue answers with the offsets of the messages' own queue", getAnswer(func(f *faulty, r store.GetRequest, g *store.GetResult) {
			for i, v := range g.Records {
				if m, err := record.Decode(v.Bytes); err == nil && light(r.Topic) && isSlave(f) && f.m.MinOffset(r.Topic, 0) == 0 {
					g.QueueOffsets[i] = m.QueueOffset
				}
			}
		})},
		mutant{"multidispatch-021", "on a slave light queues are divided", func(f *faulty) {
			f.maxOffset = func(topic string, queueID int32, next boundFunc) int64 {
				if light(topic) && queueID > 0 && isSlave(f) {
					return next(topic, 0)
				}
				return next(topic, queueID)
			}
		}},
		mutant{"multidispatch-022", "missing offsets are 0", func(f *faulty) {
			f.maxOffset = func(topic string, queueID int32, next boundFunc) int64 {
				if n := next(topic, queueID); n > 0 || !light(topic) || !isSlave(f) || !f.c.MultiDispatch {
					return n
				}
				for _, m := range records(f) {
					names, _ := m.Properties.Get(record.PropertyMultiDispatch)
					if m.SysFlag.Transaction().HasUnit() && strings.Contains(names, topic) && queueID == 0 {
						return 1
					}
				}
				return 0
			}
		}},
		mutant{"multidispatch-023", "light queues have no tags", getRequest(func(f *faulty, r *store.GetRequest) {
			if light(r.Topic) && isSlave(f) && r.Filter != nil {
				r.Filter = filtering{Filter: r.Filter, unit: func(next store.Filter, _ int64, ok bool, ext *store.ExtUnit) bool { return next.MatchUnit(0, ok, ext) }}
			}
		})},
		mutant{"multidispatch-024", "a slave dispatches to several queues though it is not switched on", func(f *faulty) {
			f.maxOffset = func(topic string, queueID int32, next boundFunc) int64 {
				if light(topic) && isSlave(f) && !f.c.MultiDispatch {
					return 1
				}
				return next(topic, queueID)
			}
		}},
		mutant{"multidispatch-025", "a comma behind the last name is one more name", rewritten(func(m *record.Message) {
			if v, _ := m.Properties.Get(record.PropertyMultiQueueOffset); v == "1" {
				names, _ := m.Properties.Get(record.PropertyMultiDispatch)
				if trimmed, ok := strings.CutSuffix(names, ","); ok {
					m.Properties = record.NewProperties(record.PropertyMultiDispatch, trimmed+"x", record.PropertyMultiQueueOffset, "1")
				}
			}
		})},
		mutant{"multidispatch-026", "a master's prepared message is in the queues that it names", func(f *faulty) {
			f.maxOffset = func(topic string, queueID int32, next boundFunc) int64 {
				n := next(topic, queueID)
				for _, m := range records(f) {
					if light(topic) && isSlave(f) && m.SysFlag.Transaction() == record.TransactionPrepared {
						n++
					}
				}
				return n
			}
		}},
		mutant{"multidispatch-027", "a light queue of a slave begins at 0", func(f *faulty) {
			f.minOffset = func(topic string, queueID int32, next boundFunc) int64 {
				if light(topic) && isSlave(f) {
					return 0
				}
				return next(topic, queueID)
			}
		}},
	)
}
