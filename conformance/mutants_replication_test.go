package conformance_test

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// ofSlave makes something wrong with the slaves of a master.
func ofSlave(mutate func(slave *faulty)) func(f *faulty) {
	return func(f *faulty) { f.slaveOf = mutate }
}

// received makes something wrong with bytes of a master's log.
func received(how func(f *faulty, phyOffset int64, p []byte, next func(int64, []byte) error) error) func(f *faulty) {
	return func(f *faulty) {
		f.appendRaw = func(phyOffset int64, p []byte, next func(int64, []byte) error) error {
			return how(f, phyOffset, p, next)
		}
	}
}

// isSlave reports whether f was made as a slave of its own, and not by a master.
func isSlave(f *faulty) bool { return f.c.Role == store.Slave && f.master == nil }

func init() {
	mutants = append(mutants,
		mutant{"replication-001", "the slave's queues lack the last message before a blank", ofSlave(func(f *faulty) {
			getAnswer(func(f *faulty, r store.GetRequest, g *store.GetResult) {
				if len(g.Records) == 1 && f.c.SegmentSize == 4096 && g.Records[0].PhyOffset < 4096 && g.Records[0].PhyOffset+int64(len(g.Records[0].Bytes)) > 3500 {
					dropRecord(g, 0)
					g.Status = store.MessageWasRemoving
				}
			})(f)
		})},
		mutant{"replication-002", "a slave takes batches", ofSlave(func(f *faulty) {
			f.putBatch = func(ctx context.Context, m *record.Message, items []record.BatchItem, next batchFunc) (store.PutResult, error) {
				r, err := next(ctx, m, items)
				if errors.Is(err, store.ErrServiceNotAvailable) {
					return store.PutResult{Messages: len(items)}, nil
				}
				return r, err
			}
		})},
		mutant{"replication-003", "a slave has no index", ofSlave(queryFound(func(_ *faulty, _ store.QueryRequest, q *store.QueryResult) { q.Records = nil }))},
		mutant{"replication-004", "a slave takes the time of arrival for the store time", ofSlave(func(f *faulty) {
			f.storeTime = func(topic string, queueID int32, queueOffset int64, next storeTimeFunc) (time.Time, error) {
				at, err := next(topic, queueID, queueOffset)
				return at.Add(time.Second), err
			}
		})},
		mutant{"replication-005", "prepared messages are in the slave's queues", ofSlave(func(f *faulty) {
			f.maxOffset = func(topic string, queueID int32, next boundFunc) int64 {
				n := next(topic, queueID)
				for _, m := range records(f) {
					if m.SysFlag.Transaction() == record.TransactionPrepared && m.Topic == topic {
						n++
					}
				}
				return n
			}
		})},
		mutant{"replication-006", "batches are not replicated", func(f *faulty) {
			batch := int64(-1)
			f.putBatch = func(ctx context.Context, m *record.Message, items []record.BatchItem, next batchFunc) (store.PutResult, error) {
				if len(f.slaves) > 0 {
					batch = f.m.MaxPhyOffset()
				}
				return next(ctx, m, items)
			}
			f.replicate = func(s *faulty, phyOffset int64, p []byte) error {
				if phyOffset == batch {
					return nil
				}
				return s.AppendToCommitLog(phyOffset, p)
			}
		}},
		mutant{"replication-007", "a new slave gets only what is put from then on", func(f *faulty) {
			f.slaveOf = func(s *faulty) {
				first := f.m.MaxPhyOffset()
				if first == 0 {
					return
				}
				getAnswer(func(_ *faulty, _ store.GetRequest, g *store.GetResult) {
					if len(g.Records) > 0 && g.Records[0].PhyOffset < first {
						*g = store.GetResult{Status: store.OffsetTooSmall}
					}
				})(s)
			}
		}},
		mutant{"replication-008", "a put is answered before the slave has it", func(f *faulty) {
			held := false
			f.replicate = func(s *faulty, phyOffset int64, p []byte) error {
				if f.c.Role == store.SyncMaster && !held && phyOffset > 500 {
					held = true // and with the next put
					return nil
				}
				return s.AppendToCommitLog(phyOffset, p)
			}
		}},
		mutant{"replication-009", "without a slave a put is PutOK", func(f *faulty) {
			f.put = func(ctx context.Context, m *record.Message, next putFunc) (store.PutResult, error) {
				r, err := next(ctx, m)
				if r.Status == store.SlaveNotAvailable {
					r.Status = store.PutOK
				}
				return r, err
			}
		}},
		mutant{"replication-010", "WAIT=false waits for slaves", func(f *faulty) {
			f.put = func(ctx context.Context, m *record.Message, next putFunc) (store.PutResult, error) {
				r, err := next(ctx, m)
				if err == nil && f.c.Role == store.SyncMaster && len(f.slaves) == 0 {
					r.Status = store.SlaveNotAvailable
				}
				return r, err
			}
		}},
		mutant{"replication-011", "a slave that is gone still counts", func(f *faulty) {
			had := false
			f.put = func(ctx context.Context, m *record.Message, next putFunc) (store.PutResult, error) {
				r, err := next(ctx, m)
				if r.Status == store.SlaveNotAvailable && had {
					r.Status = store.PutOK
				}
				had = had || len(f.slaves) > 0
				return r, err
			}
		}},
		mutant{"replication-012", "only the first slave is sent anything", func(f *faulty) {
			f.replicate = func(s *faulty, phyOffset int64, p []byte) error {
				if s != f.slaves[0] {
					return nil
				}
				return s.AppendToCommitLog(phyOffset, p)
			}
		}},
		mutant{"replication-013", "a promoted slave numbers its queues anew", ofSlave(func(f *faulty) {
			anew := map[string]int64{}
			f.promote = func(next func()) {
				next()
				anew["promoted"] = 1
			}
			putsGet(f, func(m *record.Message, queueOffset int64) int64 {
				if anew["promoted"] == 1 {
					return 0
				}
				return queueOffset
			})
		})},
		mutant{"replication-014", "a promoted slave gives up its last record", ofSlave(func(f *faulty) {
			f.promote = func(next func()) {
				next()
				cutLast(f, 1)
			}
		})},
		mutant{"replication-015", "a slave deletes with its master", func(f *faulty) {
			f.expire = func(phyOffset int64, next func(int64)) {
				next(phyOffset)
				for _, s := range f.slaves {
					s.m.Expire(phyOffset)
				}
			}
		}},
		mutant{"replication-020", "a slave numbers its queues by itself, from 1", getAnswer(func(f *faulty, _ store.GetRequest, g *store.GetResult) {
			if isSlave(f) && len(g.Records) == 3 {
				g.NextBeginOffset++
			}
		})},
		mutant{"replication-021", "half a record is not received", received(func(f *faulty, phyOffset int64, p []byte, next func(int64, []byte) error) error {
			if isSlave(f) && phyOffset == 0 && len(p) > 90 && len(records(f)) == 0 {
				if m, err := record.Decode(p); err == nil && m.Size < len(p) && len(p) < 2*m.Size {
					return next(phyOffset, p[:m.Size])
				}
			}
			return next(phyOffset, p)
		})},
		mutant{"replication-022", "a single byte is no beginning", received(func(f *faulty, phyOffset int64, p []byte, next func(int64, []byte) error) error {
			if isSlave(f) && phyOffset > 0 && len(p) == 1 && f.m.MaxPhyOffset() == phyOffset && phyOffset < 4 {
				return nil
			}
			return next(phyOffset, p)
		})},
		mutant{"replication-023", "bytes from before the end are taken for a repetition", received(func(f *faulty, phyOffset int64, p []byte, next func(int64, []byte) error) error {
			err := next(phyOffset, p)
			if errors.Is(err, store.ErrOffsetMismatch) && phyOffset < f.m.MaxPhyOffset() {
				return nil
			}
			return err
		})},
		mutant{"replication-024", "the refusal says the wrong end", received(func(_ *faulty, phyOffset int64, p []byte, next func(int64, []byte) error) error {
			err := next(phyOffset, p)
			if m := (*store.OffsetMismatchError)(nil); errors.As(err, &m) {
				return &store.OffsetMismatchError{Want: m.Got, Got: m.Want}
			}
			return err
		})},
		mutant{"replication-025", "an empty log begins at 0", func(f *faulty) {
			f.minPhy = func(next func() int64) int64 {
				if isSlave(f) {
					return min(next(), 0)
				}
				return next()
			}
		}},
		mutant{"replication-026", "a queue of a slave begins at 0", func(f *faulty) {
			f.minOffset = func(topic string, queueID int32, next boundFunc) int64 {
				if isSlave(f) {
					return 0
				}
				return next(topic, queueID)
			}
		}},
		mutant{"replication-027", "records are stored when they come", func(f *faulty) {
			f.storeTime = func(topic string, queueID int32, queueOffset int64, next storeTimeFunc) (time.Time, error) {
				at, err := next(topic, queueID, queueOffset)
				if isSlave(f) {
					at = time.Now()
				}
				return at, err
			}
		}},
		mutant{"replication-028", "log data has a byte more than asked for", func(f *faulty) {
			f.logData = func(phyOffset int64, max int, next func(int64, int) (store.View, error)) (store.View, error) {
				if max > 0 {
					max++
				}
				return next(phyOffset, max)
			}
		}},
		mutant{"replication-029", "a blank can be looked up", func(f *faulty) {
			f.lookup = func(phyOffset int64, next func(int64) (*record.Message, error)) (*record.Message, error) {
				m, err := next(phyOffset)
				if isSlave(f) && errors.Is(err, store.ErrNotARecord) {
					return &record.Message{PhyOffset: phyOffset}, nil
				}
				return m, err
			}
		}},
		mutant{"replication-030", "a slave corrects offsets beyond the end", getAnswer(func(f *faulty, _ store.GetRequest, g *store.GetResult) {
			if isSlave(f) && g.Status == store.OffsetOverflowBadly {
				g.NextBeginOffset = g.MaxOffset
			}
		})},
		mutant{"replication-031", "a slave never corrects offsets", getAnswer(func(f *faulty, r store.GetRequest, g *store.GetResult) {
			if isSlave(f) && f.c.OffsetCheckInSlave && g.Status != store.Found {
				g.NextBeginOffset = r.Offset
			}
		})},
		mutant{"replication-032", "the first put of a promoted slave follows half a record", func(f *faulty) {
			half := int64(0)
			f.promote = func(next func()) {
				half = f.m.MaxPhyOffset()
				next()
				half -= f.m.MaxPhyOffset()
			}
			f.put = func(ctx context.Context, m *record.Message, next putFunc) (store.PutResult, error) {
				r, err := next(ctx, m)
				r.PhyOffset += half
				return r, err
			}
		}},
		mutant{"replication-033", "a promoted slave still does not correct offsets", func(f *faulty) {
			promoted := false
			f.promote = func(next func()) {
				next()
				promoted = true
			}
			getAnswer(func(f *faulty, r store.GetRequest, g *store.GetResult) {
				if promoted && g.Status != store.Found {
					g.NextBeginOffset = r.Offset
				}
			})(f)
		}},
		mutant{"replication-034", "a slave that was opened again says that it has half a record, and does not", func(f *faulty) {
			lost := false
			f.reopen = func() {
				if isSlave(f) {
					end := int64(0)
					for _, m := range records(f) {
						end = m.PhyOffset + int64(m.Size)
					}
					lost = f.m.MaxPhyOffset() > end
				}
			}
			received(func(f *faulty, phyOffset int64, p []byte, next func(int64, []byte) error) error {
				if lost {
					p = bytes.Clone(p)
					p[0] ^= 0xff
				}
				return next(phyOffset, p)
			})(f)
		}},
		mutant{"replication-035", "prepared messages of a master's log are not indexed", queryFound(func(f *faulty, r store.QueryRequest, q *store.QueryResult) {
			if isSlave(f) && r.Key == "half" {
				q.Records = nil
			}
		})},
		mutant{"replication-036", "a closed store drops what comes in silence", received(func(_ *faulty, phyOffset int64, p []byte, next func(int64, []byte) error) error {
			err := next(phyOffset, p)
			if errors.Is(err, store.ErrClosed) {
				return nil
			}
			return err
		})},
	)
}
