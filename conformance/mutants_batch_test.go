package conformance_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// encodedSize is that of a client's batch.
func encodedSize(items []record.BatchItem) (n int) {
	for _, it := range items {
		n += 22 + len(it.Body) + len(it.Properties)
	}
	return n
}

func init() {
	mutants = append(mutants,
		mutant{"batch-001", "the number of a batch's messages is one too small", func(f *faulty) {
			answerBatch(f, func(_ *record.Message, r *store.PutResult) { r.Messages = max(r.Messages-1, 1) })
		}},
		mutant{"batch-002", "the place of the fifth message is wrong in the answer", func(f *faulty) {
			answerBatch(f, func(_ *record.Message, r *store.PutResult) {
				if len(r.Offsets) == 5 {
					r.Offsets[4]++
				}
			})
		}},
		mutant{"batch-003", "a batch is answered with another store time than it has", func(f *faulty) {
			answerBatch(f, func(_ *record.Message, r *store.PutResult) { r.StoreTimestamp++ })
		}},
		mutant{"batch-004", "the items' flags are lost", func(f *faulty) {
			changeBatch(f, func(m *record.Message, items []record.BatchItem) []record.BatchItem {
				for i := range items {
					items[i].Flag = m.Flag
				}
				return items
			})
		}},
		mutant{"batch-005", "a separator that is there is written again", func(f *faulty) {
			changeBatch(f, func(_ *record.Message, items []record.BatchItem) []record.BatchItem {
				for i, it := range items {
					if bytes.HasSuffix(it.Properties, []byte{2}) {
						items[i].Properties = append(bytes.Clone(it.Properties), 2)
					}
				}
				return items
			})
		}},
		mutant{"batch-006", "all ids of a batch are that of its first message", func(f *faulty) {
			answerBatch(f, func(_ *record.Message, r *store.PutResult) {
				for i := range r.Offsets {
					r.Offsets[i] = r.PhyOffset
				}
			})
		}},
		mutant{"batch-007", "ids of an IPv6 broker's batch have no host", func(f *faulty) {
			answerBatch(f, func(_ *record.Message, r *store.PutResult) {
				if r.StoreHost.Addr.Is6() {
					r.StoreHost = record.Host{}
				}
			})
		}},
		mutant{"batch-008", "an empty batch is accepted", func(f *faulty) {
			acceptBatch(f, func(_ *record.Message, items []record.BatchItem) bool { return len(items) == 0 })
		}},
		mutant{"batch-009", "a batch of one is refused", func(f *faulty) {
			refuseBatch(f, store.ErrMessageIllegal, func(_ *record.Message, items []record.BatchItem) bool {
				return len(items) == 1 && len(items[0].Body) == 1
			})
		}},
		mutant{"batch-010", "a batch of the maximum size is refused", func(f *faulty) {
			refuseBatch(f, store.ErrMessageIllegal, func(_ *record.Message, items []record.BatchItem) bool {
				return encodedSize(items) == f.c.MaxMessageSize
			})
		}},
		mutant{"batch-010", "a batch of a byte too many is accepted", func(f *faulty) {
			acceptBatch(f, func(_ *record.Message, items []record.BatchItem) bool {
				return encodedSize(items) == f.c.MaxMessageSize+1
			})
		}},
		mutant{"batch-011", "a batch may commit a transaction", func(f *faulty) {
			acceptBatch(f, func(m *record.Message, _ []record.BatchItem) bool {
				return m.SysFlag.Transaction() == record.TransactionCommit
			})
		}},
		mutant{"batch-012", "a batch may be delayed", func(f *faulty) {
			acceptBatch(f, func(m *record.Message, _ []record.BatchItem) bool { return m.Properties.DelayLevel() > 0 })
		}},
		mutant{"batch-013", "the length of item's and batch's properties together is not looked at", func(f *faulty) {
			acceptBatch(f, func(m *record.Message, _ []record.BatchItem) bool { return len(m.Properties) == 2000 })
		}},
		mutant{"batch-014", "a batch's own too long properties are MESSAGE_ILLEGAL", func(f *faulty) {
			f.putBatch = func(ctx context.Context, m *record.Message, items []record.BatchItem, next batchFunc) (store.PutResult, error) {
				r, err := next(ctx, m, items)
				if errors.Is(err, store.ErrPropertiesTooLarge) && len(m.Properties) > 32767 {
					err = fmt.Errorf("%w: mutant", store.ErrMessageIllegal)
				}
				return r, err
			}
		}},
		mutant{"batch-015", "of a refused batch the messages before the bad one are stored", func(f *faulty) {
			f.putBatch = func(ctx context.Context, m *record.Message, items []record.BatchItem, next batchFunc) (store.PutResult, error) {
				r, err := next(ctx, m, items)
				if err != nil && len(items) > 3 {
					_, _ = next(ctx, m, items[:1])
				}
				return r, err
			}
		}},
		mutant{"batch-016", "a batch for which there is just room is said to lie in the next segment", func(f *faulty) {
			answerBatch(f, func(_ *record.Message, r *store.PutResult) {
				if seg := f.c.SegmentSize; seg > 0 && seg-r.PhyOffset%seg == int64(r.Size)+8 {
					r.PhyOffset += int64(r.Size) + 8
				}
			})
		}},
		mutant{"batch-017", "a batch for which a byte is missing is said to lie at the segment's end", func(f *faulty) {
			answerBatch(f, func(_ *record.Message, r *store.PutResult) {
				if seg := f.c.SegmentSize; seg > 0 && r.PhyOffset%seg == 0 && r.PhyOffset > 0 && r.Messages == 4 {
					r.PhyOffset -= int64(r.Size) + 7
				}
			})
		}},
		mutant{"batch-018", "a batch that fits into no segment is answered PUT_OK and lost", func(f *faulty) {
			acceptBatch(f, func(_ *record.Message, items []record.BatchItem) bool {
				return f.c.SegmentSize > 0 && int64(encodedSize(items)) > f.c.SegmentSize-500
			})
		}},
		mutant{"batch-019", "messages without a body are left out", func(f *faulty) {
			changeBatch(f, func(_ *record.Message, items []record.BatchItem) []record.BatchItem {
				var kept []record.BatchItem
				for i, it := range items {
					if i == 0 || len(it.Body)+len(it.Properties) > 0 {
						kept = append(kept, it)
					}
				}
				return kept
			})
		}},
		mutant{"batch-020", "a batch may go to a negative queue id", func(f *faulty) {
			acceptBatch(f, func(m *record.Message, _ []record.BatchItem) bool { return m.QueueID < 0 })
		}},
		mutant{"batch-021", "a slave takes batches", func(f *faulty) {
			acceptBatch(f, func(*record.Message, []record.BatchItem) bool { return f.c.Role == store.Slave })
		}},
		mutant{"batch-022", "a batch without a message makes the store panic", func(f *faulty) {
			f.putBatch = func(ctx context.Context, m *record.Message, items []record.BatchItem, next batchFunc) (store.PutResult, error) {
				_ = m.Topic
				return next(ctx, m, items)
			}
		}},
		mutant{"batch-023", "batches do not wait for slaves", func(f *faulty) {
			answerBatch(f, func(_ *record.Message, r *store.PutResult) { r.Status = store.PutOK })
		}},
		mutant{"batch-024", "the caller's items are kept", func(f *faulty) {
			kept := map[int64]record.BatchItem{}
			f.putBatch = func(ctx context.Context, m *record.Message, items []record.BatchItem, next batchFunc) (store.PutResult, error) {
				r, err := next(ctx, m, items)
				if err == nil && len(m.Properties) == 0 {
					for i, at := range r.Offsets {
						kept[at] = items[i]
					}
				}
				return r, err
			}
			rewrite(f, func(m *record.Message) []byte {
				it, ok := kept[m.PhyOffset]
				if !ok {
					return nil
				}
				m.Body, m.Properties = it.Body, it.Properties
				return encoded(m)
			})
		}},
		mutant{"batch-025", "batches are answered before they are flushed", func(f *faulty) {
			late := int64(0)
			answerBatch(f, func(_ *record.Message, r *store.PutResult) { late = int64(r.Size) })
			f.stats = func(next func() store.Stats) store.Stats {
				st := next()
				st.FlushedPhyOffset -= late
				return st
			}
		}},
	)
}
