package conformance_test

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// place changes where messages of queues lie.
func place(f *faulty, how func(topic string, queueID int32, queueOffset, phyOffset int64, err error) (int64, error)) {
	f.phyOffset = func(topic string, queueID int32, queueOffset int64, next phyOffsetFunc) (int64, error) {
		at, err := next(topic, queueID, queueOffset)
		return how(topic, queueID, queueOffset, at, err)
	}
}

// listed makes Queues show more queues: those of topics that what is called with.
func listed(f *faulty, what func(add func(topic string))) {
	var more []string
	f.queues = func(next func() []store.QueueInfo) []store.QueueInfo {
		qs := next()
		for _, topic := range more {
			if f.m.MaxOffset(topic, 0) == 0 {
				qs = append(qs, store.QueueInfo{Topic: topic, MinPhyOffset: -1, MaxPhyOffset: -1})
			}
		}
		return qs
	}
	what(func(topic string) { more = append(more, topic) })
}

func init() {
	mutants = append(mutants,
		mutant{"offset-001", "an unknown queue begins at -1", func(f *faulty) {
			f.minOffset = func(topic string, queueID int32, next boundFunc) int64 {
				if f.m.MaxOffset(topic, queueID) == 0 {
					return -1
				}
				return next(topic, queueID)
			}
		}},
		mutant{"offset-002", "a queue of three messages begins at 1", func(f *faulty) {
			f.minOffset = func(topic string, queueID int32, next boundFunc) int64 {
				if f.m.MaxOffset(topic, queueID) == 3 && queueID == 5 {
					return 1
				}
				return next(topic, queueID)
			}
		}},
		mutant{"offset-003", "the fifth queue of a topic ends where its first does", func(f *faulty) {
			f.maxOffset = func(topic string, queueID int32, next boundFunc) int64 {
				if queueID == 4 {
					queueID = 0
				}
				return next(topic, queueID)
			}
		}},
		mutant{"offset-004", "the fifth message of a queue of five lies where the fourth does", func(f *faulty) {
			f.phyOffset = func(topic string, queueID int32, queueOffset int64, next phyOffsetFunc) (int64, error) {
				if queueOffset == 4 && f.m.MaxOffset(topic, queueID) == 5 {
					queueOffset--
				}
				return next(topic, queueID, queueOffset)
			}
		}},
		mutant{"offset-005", "a message that is not there lies at 0", func(f *faulty) {
			place(f, func(_ string, _ int32, _, phyOffset int64, err error) (int64, error) {
				if errors.Is(err, store.ErrNotFound) {
					return 0, nil
				}
				return phyOffset, err
			})
		}},
		mutant{"offset-006", "an empty log begins at 0", func(f *faulty) {
			f.minPhy = func(next func() int64) int64 { return max(next(), 0) }
		}},
		mutant{"offset-007", "the log begins behind its first record", func(f *faulty) {
			f.minPhy = func(next func() int64) int64 {
				if min := next(); min != 0 || f.m.MaxPhyOffset() > 400 {
					return min
				}
				return 1
			}
		}},
		mutant{"offset-008", "the blank of a segment does not count", func(f *faulty) {
			f.maxPhy = func(next func() int64) int64 {
				if next() == 8192+5000 {
					return 5000 + 5000
				}
				return next()
			}
		}},
		mutant{"offset-009", "a get makes the queue that it asks", func(f *faulty) {
			listed(f, func(add func(topic string)) {
				f.get = func(ctx context.Context, r store.GetRequest, next getFunc) (*store.GetResult, error) {
					add(r.Topic)
					return next(ctx, r)
				}
			})
		}},
		mutant{"offset-010", "a refused put makes its queue", func(f *faulty) {
			listed(f, func(add func(topic string)) {
				failed(f, func(_ context.Context, m *record.Message, _ putFunc) { add(m.Topic) })
			})
		}},
		mutant{"offset-011", "the places of the 36th and 37th message of a queue are swapped", func(f *faulty) {
			f.phyOffset = func(topic string, queueID int32, queueOffset int64, next phyOffsetFunc) (int64, error) {
				if f.m.MaxOffset(topic, queueID) == 40 && (queueOffset == 35 || queueOffset == 36) {
					queueOffset = 71 - queueOffset
				}
				return next(topic, queueID, queueOffset)
			}
		}},
		mutant{"offset-012", "the list of queues is not sorted", func(f *faulty) {
			f.queues = func(next func() []store.QueueInfo) []store.QueueInfo {
				qs := next()
				slices.Reverse(qs)
				return qs
			}
		}},
		mutant{"offset-013", "a walk through a queue leaves out the last message", func(f *faulty) {
			f.scan = func(ctx context.Context, topic string, queueID int32, from int64, next scanFunc) iter.Seq2[*record.Message, error] {
				return func(yield func(*record.Message, error) bool) {
					for m, err := range next(ctx, topic, queueID, from) {
						if err == nil && m.QueueOffset == f.m.MaxOffset(topic, queueID)-1 || !yield(m, err) {
							return
						}
					}
				}
			}
		}},
		mutant{"offset-014", "a walk through the log passes over what is in no queue", func(f *faulty) {
			f.scanLog = func(ctx context.Context, from, to int64, next scanLogFunc) iter.Seq2[*record.Message, error] {
				return func(yield func(*record.Message, error) bool) {
					for m, err := range next(ctx, from, to) {
						if err == nil && !m.SysFlag.Transaction().HasUnit() {
							continue
						}
						if !yield(m, err) {
							return
						}
					}
				}
			}
		}},
	)
}
