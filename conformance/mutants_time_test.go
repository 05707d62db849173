package conformance_test

import (
	"context"
	"errors"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// search is a search by time in a queue that has messages, and what the model answered.
type search struct {
	f     *faulty
	topic string
	id    int32
	ms    int64
	rule  store.TimeRule
	got   int64
	max   int64
	exact bool // a message was stored at ms
}

func (s search) by(rule store.TimeRule) int64 {
	got, _ := s.f.m.OffsetByTime(s.topic, s.id, time.UnixMilli(s.ms), rule)
	return got
}

func (s search) timeOf(queueOffset int64) int64 {
	t, _ := s.f.m.StoreTime(s.topic, s.id, queueOffset)
	return t.UnixMilli()
}

// searched changes what searches by time answer.
func searched(f *faulty, how func(s search) int64) {
	f.offsetByTime = func(topic string, queueID int32, t time.Time, rule store.TimeRule, next byTimeFunc) (int64, error) {
		got, err := next(topic, queueID, t, rule)
		s := search{f: f, topic: topic, id: queueID, ms: t.UnixMilli(), rule: rule, got: got, max: f.m.MaxOffset(topic, queueID)}
		if err != nil || s.max == 0 {
			return got, err
		}
		if lower := s.by(store.Lower); lower < s.max {
			s.exact = s.timeOf(lower) == s.ms
		}
		return how(s), nil
	}
}

func init() {
	mutants = append(mutants,
		mutant{"time-001", "the store time of a queue's last message is a millisecond late", func(f *faulty) {
			f.storeTime = func(topic string, queueID int32, queueOffset int64, next storeTimeFunc) (time.Time, error) {
				t, err := next(topic, queueID, queueOffset)
				if queueOffset == f.m.MaxOffset(topic, queueID)-1 && queueOffset == 3 {
					t = t.Add(time.Millisecond)
				}
				return t, err
			}
		}},
		mutant{"time-002", "a message that is not there was stored at -1", func(f *faulty) {
			f.storeTime = func(topic string, queueID int32, queueOffset int64, next storeTimeFunc) (time.Time, error) {
				t, err := next(topic, queueID, queueOffset)
				if errors.Is(err, store.ErrNotFound) {
					return time.UnixMilli(-1), nil
				}
				return t, err
			}
		}},
		mutant{"time-003", "the earliest store time is the latest", func(f *faulty) {
			f.earliest = func(topic string, queueID int32, next earliestFunc) (time.Time, error) {
				if max := f.m.MaxOffset(topic, queueID); max > 0 {
					return f.m.StoreTime(topic, queueID, max-1)
				}
				return next(topic, queueID)
			}
		}},
		mutant{"time-004", "the search never gets to the last of ten messages", func(f *faulty) {
			searched(f, func(s search) int64 {
				if s.exact && s.max == 10 && s.got == 9 {
					return 8
				}
				return s.got
			})
		}},
		mutant{"time-005", "between two messages Lower finds the earlier one", func(f *faulty) {
			searched(f, func(s search) int64 {
				if s.rule == store.Lower && !s.exact && s.got > 0 && s.got < s.max {
					return s.got - 1
				}
				return s.got
			})
		}},
		mutant{"time-006", "between two messages Upper finds the later one", func(f *faulty) {
			searched(f, func(s search) int64 {
				if s.rule == store.Upper && !s.exact && s.timeOf(s.got) < s.ms {
					return min(s.got+1, s.max-1)
				}
				return s.got
			})
		}},
		mutant{"time-007", "Nearest is Upper", func(f *faulty) {
			searched(f, func(s search) int64 {
				if s.rule == store.Nearest {
					return s.by(store.Upper)
				}
				return s.got
			})
		}},
		mutant{"time-008", "halfway between two messages Nearest finds the later one", func(f *faulty) {
			searched(f, func(s search) int64 {
				if s.rule == store.Nearest && !s.exact && s.got+1 < s.max && s.ms-s.timeOf(s.got) == s.timeOf(s.got+1)-s.ms {
					return s.got + 1
				}
				return s.got
			})
		}},
		mutant{"time-009", "before the first message Upper finds -1", func(f *faulty) {
			searched(f, func(s search) int64 {
				if s.rule == store.Upper && s.ms < s.timeOf(0) {
					return -1
				}
				return s.got
			})
		}},
		mutant{"time-010", "after the last message Lower finds it", func(f *faulty) {
			searched(f, func(s search) int64 { return min(s.got, s.max-1) })
		}},
		mutant{"time-011", "an unknown queue is an error", func(f *faulty) {
			f.offsetByTime = func(topic string, queueID int32, t time.Time, r store.TimeRule, next byTimeFunc) (int64, error) {
				if f.m.MaxOffset(topic, queueID) == 0 {
					return 0, store.ErrNotFound
				}
				return next(topic, queueID, t, r)
			}
		}},
		mutant{"time-012", "of one time Lower finds the last message", func(f *faulty) {
			searched(f, func(s search) int64 {
				if s.rule == store.Lower && s.exact {
					return s.by(store.Upper)
				}
				return s.got
			})
		}},
		mutant{"time-013", "of one time Upper finds the first message", func(f *faulty) {
			searched(f, func(s search) int64 {
				if s.rule == store.Upper && s.exact {
					return s.by(store.Lower)
				}
				return s.got
			})
		}},
		mutant{"time-014", "of one time Nearest finds the message before", func(f *faulty) {
			searched(f, func(s search) int64 {
				if s.rule == store.Nearest && s.exact && s.by(store.Lower) < s.by(store.Upper) {
					return max(s.by(store.Lower)-1, 0)
				}
				return s.got
			})
		}},
		mutant{"time-015", "in a queue of one message every time finds it", func(f *faulty) {
			searched(f, func(s search) int64 {
				if s.max == 1 {
					return 0
				}
				return s.got
			})
		}},
		mutant{"time-016", "store times go back with the clock", func(f *faulty) {
			answer(f, func(_ *record.Message, r *store.PutResult) {
				if f.c.Now != nil {
					r.StoreTimestamp = f.c.Now().UnixMilli()
				}
			})
		}},
		mutant{"time-017", "the last message of a queue file is not found", func(f *faulty) {
			searched(f, func(s search) int64 {
				if per := f.c.QueueFileSize / 20; per > 0 && s.exact && s.got%per == per-1 {
					return s.got + 1
				}
				return s.got
			})
		}},
		mutant{"time-018", "the first of a time is looked for in one queue file only", func(f *faulty) {
			searched(f, func(s search) int64 {
				if per := f.c.QueueFileSize / 20; per > 0 && s.exact && s.rule == store.Lower {
					return max(s.got, s.by(store.Upper)/per*per)
				}
				return s.got
			})
		}},
		mutant{"time-019", "times have 48 bits", func(f *faulty) {
			f.offsetByTime = func(topic string, queueID int32, t time.Time, r store.TimeRule, next byTimeFunc) (int64, error) {
				return next(topic, queueID, time.UnixMilli(t.UnixMilli()<<16>>16), r)
			}
		}},
		mutant{"time-020", "the log is searched, and not the queue", func(f *faulty) {
			searched(f, func(s search) int64 {
				if s.rule != store.Lower || s.ms < s.timeOf(0) || s.ms > s.timeOf(s.max-1) {
					return s.got
				}
				for m := range f.m.ScanLog(context.Background(), 0, f.m.MaxPhyOffset()) {
					if m.StoreTimestamp >= s.ms {
						return m.QueueOffset
					}
				}
				return s.got
			})
		}},
		mutant{"time-021", "in a queue of thirteen messages the search is one short", func(f *faulty) {
			searched(f, func(s search) int64 {
				if s.max == 13 && s.rule == store.Upper && s.got > 0 {
					return s.got - 1
				}
				return s.got
			})
		}},
	)
}
