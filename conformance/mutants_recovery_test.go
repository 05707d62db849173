package conformance_test

import (
	"context"
	"slices"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// records are those of f's log.
func records(f *faulty) (ms []*record.Message) {
	for m := range f.m.ScanLog(context.Background(), 0, f.m.MaxPhyOffset()) {
		ms = append(ms, m)
	}
	return ms
}

// cutLast cuts the last n records off f's log.
func cutLast(f *faulty, n int) {
	if ms := records(f); len(ms) >= n {
		if err := f.m.TruncateTo(ms[len(ms)-n].PhyOffset); err != nil {
			panic(err)
		}
	}
}

// since makes hooks that do something only once an event has happened n times.
type since struct{ times int }

func (s *since) event() { s.times++ }

// putsGet makes the queue offsets of puts wrong while wrong says so.
func putsGet(f *faulty, wrong func(m *record.Message, queueOffset int64) int64) {
	f.put = func(ctx context.Context, m *record.Message, next putFunc) (store.PutResult, error) {
		r, err := next(ctx, m)
		if err == nil {
			r.QueueOffset = wrong(m, r.QueueOffset)
		}
		return r, err
	}
}

func init() {
	mutants = append(mutants,
		mutant{"recovery-001", "a restart loses the thirtieth record", func(f *faulty) {
			f.reopen = func() {
				if len(records(f)) == 30 {
					cutLast(f, 1)
				}
			}
		}},
		mutant{"recovery-002", "a queue begins at 0 again after a restart", func(f *faulty) {
			var s since
			f.reopen = s.event
			putsGet(f, func(_ *record.Message, queueOffset int64) int64 {
				if s.times > 0 && queueOffset > 5 {
					return 0
				}
				return queueOffset
			})
		}},
		mutant{"recovery-003", "the second restart loses the last record", func(f *faulty) {
			var s since
			f.reopen = func() {
				if s.event(); s.times == 2 && len(records(f)) == 12 {
					cutLast(f, 1)
				}
			}
		}},
		mutant{"recovery-004", "a restart loses the newest keys of the index", func(f *faulty) {
			var s since
			end := int64(0)
			f.reopen = func() {
				if end == 0 {
					end = f.m.MaxPhyOffset()
				}
				s.event()
			}
			f.query = func(ctx context.Context, r store.QueryRequest, next queryFunc) (*store.QueryResult, error) {
				q, err := next(ctx, r)
				if err == nil && s.times > 0 {
					q.Records = slices.DeleteFunc(q.Records, func(v store.View) bool { return v.PhyOffset+int64(len(v.Bytes)) == end })
				}
				return q, err
			}
		}},
		mutant{"recovery-005", "store times are read from the wrong record after a restart", func(f *faulty) {
			var s since
			f.reopen = s.event
			f.storeTime = func(topic string, queueID int32, queueOffset int64, next storeTimeFunc) (time.Time, error) {
				if s.times > 0 && queueOffset > 0 {
					queueOffset--
				}
				return next(topic, queueID, queueOffset)
			}
		}},
		mutant{"recovery-006", "a restart gives prepared messages a queue offset", func(f *faulty) {
			prepared := int64(0)
			restarted := false
			f.reopen = func() {
				restarted = true
				for _, m := range records(f) {
					if m.SysFlag.Transaction() == record.TransactionPrepared {
						prepared++
					}
				}
			}
			putsGet(f, func(_ *record.Message, queueOffset int64) int64 {
				if restarted {
					queueOffset += prepared
				}
				return queueOffset
			})
		}},
		mutant{"recovery-007", "a store that was opened again empty begins with its second segment", func(f *faulty) {
			empty := false
			f.reopen = func() { empty = f.m.MinPhyOffset() < 0 }
			f.put = func(ctx context.Context, m *record.Message, next putFunc) (store.PutResult, error) {
				r, err := next(ctx, m)
				if empty {
					r.PhyOffset += f.c.SegmentSize
				}
				return r, err
			}
		}},
		mutant{"recovery-008", "store times are the clock's after a restart", func(f *faulty) {
			var s since
			f.reopen = s.event
			f.put = func(ctx context.Context, m *record.Message, next putFunc) (store.PutResult, error) {
				r, err := next(ctx, m)
				if s.times > 0 && f.c.Now != nil {
					r.StoreTimestamp = f.c.Now().UnixMilli()
				}
				return r, err
			}
		}},
		mutant{"recovery-009", "ids are not found after a restart", func(f *faulty) {
			var s since
			f.reopen = s.event
			f.lookupID = func(id string, next func(string) (*record.Message, error)) (*record.Message, error) {
				if s.times > 0 {
					return nil, store.ErrNotFound
				}
				return next(id)
			}
		}},
		mutant{"recovery-010", "a crash loses the thirtieth record", func(f *faulty) {
			f.crash = func() {
				if len(records(f)) == 30 {
					cutLast(f, 1)
				}
			}
		}},
		mutant{"recovery-011", "the offset before the crash is used again", func(f *faulty) {
			var s since
			f.crash = s.event
			putsGet(f, func(m *record.Message, queueOffset int64) int64 {
				if s.times == 2 && m.QueueID == 1 {
					return queueOffset - 1
				}
				return queueOffset
			})
		}},
		mutant{"recovery-012", "the fourth crash in a row loses a record", func(f *faulty) {
			var s since
			f.crash = func() {
				if s.event(); s.times == 4 {
					cutLast(f, 1)
				}
			}
		}},
		mutant{"recovery-013", "a crash loses the newest keys of the index", func(f *faulty) {
			end := int64(0)
			f.crash = func() { end = f.m.MaxPhyOffset() }
			queryFound(func(f *faulty, _ store.QueryRequest, q *store.QueryResult) {
				q.Records = slices.DeleteFunc(q.Records, func(v store.View) bool { return v.PhyOffset+int64(len(v.Bytes)) == end })
			})(f)
		}},
		mutant{"recovery-014", "a crash gives prepared messages a queue offset", func(f *faulty) {
			prepared := int64(0)
			f.crash = func() {
				for _, m := range records(f) {
					if m.SysFlag.Transaction() == record.TransactionPrepared {
						prepared++
					}
				}
			}
			putsGet(f, func(_ *record.Message, queueOffset int64) int64 { return queueOffset + prepared })
		}},
		mutant{"recovery-015", "a crash loses the last message of a batch", func(f *faulty) {
			batches := 0
			f.putBatch = func(ctx context.Context, m *record.Message, items []record.BatchItem, next batchFunc) (store.PutResult, error) {
				batches++
				return next(ctx, m, items)
			}
			f.crash = func() { cutLast(f, min(batches, 1)) }
		}},
		mutant{"recovery-016", "an emptied queue begins at 0 again after a crash", func(f *faulty) {
			var s since
			f.crash = s.event
			f.put = func(ctx context.Context, m *record.Message, next putFunc) (store.PutResult, error) {
				again := s.times > 0 && emptied(f, m.Topic, m.QueueID)
				r, err := next(ctx, m)
				if again {
					r.QueueOffset = 0
				}
				return r, err
			}
		}},
		mutant{"recovery-017", "a crash loses a log of one record", func(f *faulty) {
			f.crash = func() {
				if len(records(f)) == 1 {
					cutLast(f, 1)
				}
			}
		}},
		mutant{"recovery-020", "a put is answered before it is on disk", func(f *faulty) {
			f.losePower = func() {
				if f.c.SyncFlush && len(records(f)) == 20 {
					cutLast(f, 1)
				}
			}
		}},
		mutant{"recovery-021", "Flush leaves the last page out", func(f *faulty) {
			flushed := false
			f.flush = func(next func() (int64, error)) (int64, error) {
				flushed = len(records(f)) == 20
				return next()
			}
			f.losePower = func() {
				if flushed {
					cutLast(f, 1)
				}
			}
		}},
		mutant{"recovery-022", "a power loss tears a hole into a queue", func(f *faulty) {
			var s since
			f.losePower = s.event
			getAnswer(func(f *faulty, r store.GetRequest, g *store.GetResult) {
				if s.times == 4 && r.Offset == 10 && g.Status == store.Found {
					dropRecord(g, 0)
					g.Status = store.MessageWasRemoving
				}
			})(f)
		}},
		mutant{"recovery-023", "after a power loss that took records a queue goes on behind those that were lost", func(f *faulty) {
			lost := map[int32]int64{}
			f.losePower = func() {
				if f.c.SyncFlush || len(records(f)) < 16 {
					return
				}
				clear(lost)
				ms := records(f)
				lost[ms[len(ms)-1].QueueID]++
				cutLast(f, 1)
			}
			f.put = func(ctx context.Context, m *record.Message, next putFunc) (store.PutResult, error) {
				r, err := next(ctx, m)
				if err == nil && string(m.Body) == "next" {
					r.QueueOffset += lost[m.QueueID]
				}
				return r, err
			}
		}},
		mutant{"recovery-024", "consumers see what is not flushed", func(f *faulty) {
			f.losePower = func() {
				ms := records(f)
				for n := 0; n < len(ms); n++ {
					if wait, ok := ms[len(ms)-1-n].Properties.Get(record.PropertyWait); !ok || wait != "false" {
						cutLast(f, n)
						return
					}
				}
				cutLast(f, min(len(ms), 1))
			}
		}},
		mutant{"recovery-025", "the index is ahead of the log after a power loss", func(f *faulty) {
			var gone []store.View
			f.losePower = func() {
				if ms := records(f); !f.c.SyncFlush && len(ms) == 6 {
					gone = append(gone, store.NewView(nil, ms[5].PhyOffset, nil))
					cutLast(f, 1)
				}
			}
			queryFound(func(_ *faulty, r store.QueryRequest, q *store.QueryResult) {
				if r.Key == "all" {
					q.Records = append(q.Records, gone...)
				}
			})(f)
		}},
		mutant{"recovery-026", "Close does not flush", func(f *faulty) {
			var s since
			f.reopen = s.event
			f.losePower = func() {
				if s.times > 0 {
					cutLast(f, 1)
				}
			}
		}},
		mutant{"recovery-027", "a deletion is not durable", func(f *faulty) {
			first, back := int64(0), false
			f.expire = func(phyOffset int64, next func(int64)) {
				next(phyOffset)
				first = f.m.MinPhyOffset()
			}
			f.losePower = func() { back = first > 0 }
			f.minPhy = func(next func() int64) int64 {
				if back {
					return next() - f.c.SegmentSize
				}
				return next()
			}
		}},
		mutant{"recovery-028", "what recovery wrote is lost by the next power loss", func(f *faulty) {
			last := int64(-1)
			f.losePower = func() {
				if end := f.m.MaxPhyOffset(); end == last {
					cutLast(f, 1)
				}
				last = f.m.MaxPhyOffset()
			}
		}},
	)
}
