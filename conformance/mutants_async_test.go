package conformance_test

import (
	"context"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

func init() {
	mutants = append(mutants,
		mutant{"async-001", "a future's result has no size", func(f *faulty) {
			answerAsync(f, func(_ *record.Message, r *store.PutResult, err error) error {
				r.Size = 0
				return err
			})
		}},
		mutant{"async-002", "the 500th of many asynchronous puts gets the offset of the one before", func(f *faulty) {
			answerAsync(f, func(_ *record.Message, r *store.PutResult, err error) error {
				if r.QueueOffset == 500 {
					r.QueueOffset--
				}
				return err
			})
		}},
		mutant{"async-003", "a future does not tell of a refusal", func(f *faulty) {
			answerAsync(f, func(*record.Message, *store.PutResult, error) error { return nil })
		}},
		mutant{"async-004", "asynchronous puts count apart", func(f *faulty) {
			answerAsync(f, func(_ *record.Message, r *store.PutResult, err error) error {
				if r.QueueOffset == 6 {
					r.QueueOffset = 3
				}
				return err
			})
		}},
		mutant{"async-005", "futures of a master without slaves answer PUT_OK", func(f *faulty) {
			answerAsync(f, func(_ *record.Message, r *store.PutResult, err error) error {
				r.Status = store.PutOK
				return err
			})
		}},
		mutant{"async-006", "futures are answered before the flush", func(f *faulty) {
			late := int64(0)
			answerAsync(f, func(_ *record.Message, _ *store.PutResult, err error) error {
				late = 1
				return err
			})
			f.stats = func(next func() store.Stats) store.Stats {
				st := next()
				st.FlushedPhyOffset -= late
				return st
			}
		}},
		mutant{"async-007", "the last asynchronous put is lost when the store is closed", func(f *faulty) {
			last := false
			answerAsync(f, func(_ *record.Message, _ *store.PutResult, err error) error {
				last = true
				return err
			})
			f.reopen = func() {
				if last {
					forgetLast(f)
				}
			}
		}},
		mutant{"async-008", "a slave takes asynchronous puts", func(f *faulty) {
			answerAsync(f, func(_ *record.Message, _ *store.PutResult, err error) error {
				if f.c.Role == store.Slave {
					return nil
				}
				return err
			})
		}},
		mutant{"async-002", "asynchronous puts are stored in another order than they came", func(f *faulty) {
			var held *record.Message
			var resolve func(store.PutResult, error)
			f.putAsync = func(m *record.Message, next func(m *record.Message) *store.Future) *store.Future {
				if held == nil && m != nil && f.m.MaxOffset(m.Topic, m.QueueID) == 600 {
					var future *store.Future
					held = m
					future, resolve = store.NewFuture()
					return future
				}
				future := next(m)
				if resolve != nil {
					resolve(next(held).Wait(context.Background()))
					resolve = nil
				}
				return future
			}
		}},
	)
}
