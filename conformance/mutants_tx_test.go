package conformance_test

import (
	"context"
	"strings"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

func init() {
	mutants = append(mutants,
		mutant{"tx-001", "prepared messages are visible", func(f *faulty) {
			change(f, func(m *record.Message) {
				if m.SysFlag.Transaction() == record.TransactionPrepared && string(m.Body) == "prepared" {
					m.SysFlag = m.SysFlag.WithTransaction(record.TransactionNone)
				}
			})
		}},
		mutant{"tx-002", "rollbacks are visible", func(f *faulty) {
			change(f, func(m *record.Message) {
				if m.SysFlag.Transaction() == record.TransactionRollback && len(m.Properties) == 0 {
					m.SysFlag = m.SysFlag.WithTransaction(record.TransactionNone)
				}
			})
		}},
		mutant{"tx-003", "commits of six bytes are in no queue", func(f *faulty) {
			change(f, func(m *record.Message) {
				if m.SysFlag.Transaction() == record.TransactionCommit && len(m.Body) == 6 {
					m.SysFlag = m.SysFlag.WithTransaction(record.TransactionPrepared)
				}
			})
		}},
		mutant{"tx-004", "prepared messages are answered with the queue's end", func(f *faulty) {
			answer(f, func(m *record.Message, r *store.PutResult) {
				if !m.SysFlag.Transaction().HasUnit() {
					r.QueueOffset = f.m.MaxOffset(m.Topic, m.QueueID)
				}
			})
		}},
		mutant{"tx-005", "a rollback uses a queue offset", func(f *faulty) {
			f.put = func(ctx context.Context, m *record.Message, next putFunc) (store.PutResult, error) {
				r, err := next(ctx, m)
				if err == nil && m.SysFlag.Transaction() == record.TransactionRollback && f.m.MaxOffset(m.Topic, m.QueueID) > 0 {
					_, _ = next(ctx, small(m.Topic, m.QueueID))
				}
				return r, err
			}
		}},
		mutant{"tx-006", "a looked up message says nothing of its transaction", func(f *faulty) {
			f.lookup = func(phyOffset int64, next func(int64) (*record.Message, error)) (*record.Message, error) {
				m, err := next(phyOffset)
				if err == nil {
					m.SysFlag = m.SysFlag.WithTransaction(record.TransactionNone)
				}
				return m, err
			}
		}},
		mutant{"tx-007", "the place of the prepared message has 32 bits", func(f *faulty) {
			change(f, func(m *record.Message) { m.PreparedTransactionOffset = int64(int32(m.PreparedTransactionOffset)) })
		}},
		mutant{"tx-008", "a queue of nothing but prepared messages answers OFFSET_OVERFLOW_ONE", func(f *faulty) {
			prepared := map[string]bool{}
			answer(f, func(m *record.Message, _ *store.PutResult) {
				if !m.SysFlag.Transaction().HasUnit() {
					prepared[m.Topic] = true
				}
			})
			f.get = func(ctx context.Context, r store.GetRequest, next getFunc) (*store.GetResult, error) {
				g, err := next(ctx, r)
				if err == nil && g.Status == store.NoMessageInQueue && prepared[r.Topic] {
					g.Status = store.OffsetOverflowOne
				}
				return g, err
			}
		}},
		mutant{"tx-009", "prepared messages are not checked", func(f *faulty) {
			accept(f, func(m *record.Message) bool {
				return m != nil && m.SysFlag.Transaction() == record.TransactionPrepared && m.QueueID < 0
			})
		}},
		mutant{"tx-010", "a prepared message loses its delay", func(f *faulty) {
			change(f, func(m *record.Message) {
				if !m.SysFlag.Transaction().HasUnit() && strings.HasPrefix(string(m.Properties), record.PropertyDelay) {
					m.Properties = nil
				}
			})
		}},
	)
}
