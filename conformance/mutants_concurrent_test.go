package conformance_test

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

func init() {
	mutants = append(mutants,
		mutant{"concurrent-001", "one offset of many is given twice", func(f *faulty) {
			answer(f, func(_ *record.Message, r *store.PutResult) {
				if r.QueueOffset == 250 {
					r.QueueOffset--
				}
			})
		}},
		mutant{"concurrent-002", "two offsets of many are mixed up", func(f *faulty) {
			answer(f, func(_ *record.Message, r *store.PutResult) {
				if r.QueueOffset == 80 || r.QueueOffset == 81 {
					r.QueueOffset = 161 - r.QueueOffset
				}
			})
		}},
		mutant{"concurrent-003", "store times are taken outside of the lock", func(f *faulty) {
			rewrite(f, func(m *record.Message) []byte {
				if m.QueueOffset != 200 {
					return nil
				}
				m.StoreTimestamp -= time.Hour.Milliseconds()
				return encoded(m)
			})
		}},
		mutant{"concurrent-004", "two records overlap", func(f *faulty) {
			answer(f, func(m *record.Message, r *store.PutResult) {
				if r.QueueOffset == 30 && m.QueueID == 3 {
					r.Size += 10
				}
			})
		}},
		mutant{"concurrent-005", "an offset is given out long before its turn", func(f *faulty) {
			answer(f, func(_ *record.Message, r *store.PutResult) {
				if r.QueueOffset == 100 || r.QueueOffset == 300 {
					r.QueueOffset = 400 - r.QueueOffset
				}
			})
		}},
		mutant{"concurrent-006", "the next offset beside producers is one too far", func(f *faulty) {
			f.get = func(ctx context.Context, r store.GetRequest, next getFunc) (*store.GetResult, error) {
				g, err := next(ctx, r)
				if err == nil && g.NextBeginOffset == g.MaxOffset && g.MaxOffset == 320 && g.Status == store.Found {
					g.NextBeginOffset++
				}
				return g, err
			}
		}},
		mutant{"concurrent-007", "a queue's end goes back now and then", func(f *faulty) {
			var calls atomic.Int64
			f.maxOffset = func(topic string, queueID int32, next boundFunc) int64 {
				end := next(topic, queueID)
				if end > 100 && calls.Add(1)%2 == 0 {
					return end - 50
				}
				return end
			}
		}},
		mutant{"concurrent-008", "two messages of a batch of five are swapped", func(f *faulty) {
			changeBatch(f, func(_ *record.Message, items []record.BatchItem) []record.BatchItem {
				if len(items) == 5 {
					items[1], items[2] = items[2], items[1]
				}
				return items
			})
		}},
		mutant{"concurrent-009", "puts beside Close are answered and dropped", func(f *faulty) {
			f.late = func() (store.PutResult, error) { return store.PutResult{Messages: 1}, nil }
		}},
		mutant{"concurrent-010", "the bytes that a get gave are used again", func(f *faulty) {
			var mu sync.Mutex
			var given [][]byte
			rewrite(f, func(m *record.Message) []byte {
				mu.Lock()
				defer mu.Unlock()
				b := encoded(m)
				given = append(given, b)
				return b
			})
			answer(f, func(_ *record.Message, r *store.PutResult) {
				if r.QueueOffset == 300 {
					mu.Lock()
					defer mu.Unlock()
					for _, b := range given {
						clear(b)
					}
				}
			})
		}},
		mutant{"concurrent-011", "the last message of a queue lies at the log's end", func(f *faulty) {
			place(f, func(topic string, queueID int32, queueOffset, phyOffset int64, err error) (int64, error) {
				if queueOffset == 19 && f.m.MaxOffset(topic, queueID) == 20 {
					return f.m.MaxPhyOffset(), nil
				}
				return phyOffset, err
			})
		}},
	)
}

func init() {
	mutants = append(mutants,
		mutant{"close-001", "a closed store answers PUT_OK", func(f *faulty) {
			f.put = func(ctx context.Context, m *record.Message, next putFunc) (store.PutResult, error) {
				r, err := next(ctx, m)
				if _, closed := f.m.Flush(); closed != nil && m != nil {
					return store.PutResult{Messages: 1}, nil
				}
				return r, err
			}
		}},
		mutant{"close-002", "a get from a closed store finds no message", func(f *faulty) {
			f.get = func(ctx context.Context, r store.GetRequest, next getFunc) (*store.GetResult, error) {
				g, err := next(ctx, r)
				if _, closed := f.m.Flush(); closed != nil {
					return &store.GetResult{Status: store.NoMessageInQueue}, nil
				}
				return g, err
			}
		}},
		mutant{"close-003", "a second Close panics", func(f *faulty) {
			closed := false
			f.close = func(next func() error) error {
				if closed {
					panic("close of a closed store")
				}
				closed = true
				return next()
			}
		}},
		mutant{"close-004", "a closed store takes batches", func(f *faulty) {
			acceptBatch(f, func(*record.Message, []record.BatchItem) bool {
				_, closed := f.m.Flush()
				return closed != nil
			})
		}},
		mutant{"close-005", "in a closed store nothing is found", func(f *faulty) {
			found(f, func(_ int64, m *record.Message, err error) (*record.Message, error) {
				if _, closed := f.m.Flush(); closed != nil {
					return nil, store.ErrNotFound
				}
				return m, err
			})
		}},
	)
}
