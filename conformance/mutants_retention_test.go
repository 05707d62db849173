package conformance_test

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// expired reports whether something was deleted from f's log.
func expired(f *faulty) bool { return f.m.MinPhyOffset() > 0 }

// getOfExpired changes what gets answer once something was deleted.
func getOfExpired(how func(f *faulty, r store.GetRequest, g *store.GetResult)) func(f *faulty) {
	return getAnswer(func(f *faulty, r store.GetRequest, g *store.GetResult) {
		if expired(f) {
			how(f, r, g)
		}
	})
}

// emptied reports whether all messages of a queue were deleted.
func emptied(f *faulty, topic string, queueID int32) bool {
	return f.m.MaxOffset(topic, queueID) > 0 && f.m.MinOffset(topic, queueID) == f.m.MaxOffset(topic, queueID)
}

func init() {
	mutants = append(mutants,
		mutant{"retention-001", "the segment that holds the offset goes, too", func(f *faulty) {
			f.expire = func(phyOffset int64, next func(int64)) {
				if phyOffset%f.c.SegmentSize == f.c.SegmentSize-1 {
					phyOffset++
				}
				next(phyOffset)
			}
		}},
		mutant{"retention-002", "the last segment goes, too", func(f *faulty) {
			gone := false
			f.expire = func(phyOffset int64, next func(int64)) {
				next(phyOffset)
				gone = gone || phyOffset > f.m.MaxPhyOffset()
			}
			f.minPhy = func(next func() int64) int64 {
				if gone {
					return f.m.MaxPhyOffset()
				}
				return next()
			}
		}},
		mutant{"retention-003", "a queue's minimum stays one behind what is held", func(f *faulty) {
			f.minOffset = func(topic string, queueID int32, next boundFunc) int64 {
				if n := next(topic, queueID); n != 12 || !expired(f) {
					return n
				}
				return 11
			}
		}},
		mutant{"retention-004", "consumers below the minimum are sent to the queue file's beginning", getOfExpired(func(f *faulty, r store.GetRequest, g *store.GetResult) {
			if g.Status == store.OffsetTooSmall && g.MinOffset > 10 {
				g.NextBeginOffset = g.NextBeginOffset / 10 * 10
			}
		})},
		mutant{"retention-005", "consumers beyond the end of a queue that does not begin at 0 are sent to its minimum", getOfExpired(func(f *faulty, r store.GetRequest, g *store.GetResult) {
			if g.Status == store.OffsetOverflowBadly && g.MinOffset > 0 {
				g.NextBeginOffset = g.MinOffset
			}
		})},
		mutant{"retention-006", "the place of the message before the minimum is answered", func(f *faulty) {
			f.phyOffset = func(topic string, queueID int32, queueOffset int64, next phyOffsetFunc) (int64, error) {
				if queueOffset >= 0 && queueOffset == f.m.MinOffset(topic, queueID)-1 {
					return 0, nil
				}
				return next(topic, queueID, queueOffset)
			}
		}},
		mutant{"retention-007", "the earliest time is that of the first message ever", func(f *faulty) {
			ever := map[string]time.Time{}
			f.earliest = func(topic string, queueID int32, next earliestFunc) (time.Time, error) {
				at, err := next(topic, queueID)
				if first, ok := ever[topic]; ok && err == nil && expired(f) {
					return first, nil
				}
				ever[topic] = at
				return at, err
			}
		}},
		mutant{"retention-008", "nothing is at offset 0 once it was deleted", func(f *faulty) {
			f.lookup = func(phyOffset int64, next func(int64) (*record.Message, error)) (*record.Message, error) {
				if phyOffset == 0 && expired(f) {
					return nil, store.ErrNotFound
				}
				return next(phyOffset)
			}
		}},
		mutant{"retention-009", "the id of a deleted message finds the first one that is held", func(f *faulty) {
			f.lookupID = func(id string, next func(string) (*record.Message, error)) (*record.Message, error) {
				m, err := next(id)
				if errors.Is(err, store.ErrNotFound) && expired(f) {
					return f.m.Lookup(0)
				}
				return m, err
			}
		}},
		mutant{"retention-010", "the index keeps what was deleted", func(f *faulty) {
			kept := map[string][]store.View{}
			keep := func(topic string) {
				for m := range f.m.Scan(context.Background(), topic, 0, 0) {
					for _, k := range m.Keys() {
						kept[topic+k] = append(kept[topic+k], store.NewView(nil, m.PhyOffset, nil))
					}
				}
			}
			f.expire = func(phyOffset int64, next func(int64)) {
				for _, q := range f.m.Queues() {
					keep(q.Topic)
				}
				next(phyOffset)
			}
			f.query = func(ctx context.Context, r store.QueryRequest, next queryFunc) (*store.QueryResult, error) {
				q, err := next(ctx, r)
				if vs := kept[r.Topic+r.Key]; err == nil && len(vs) > 0 && expired(f) {
					q.Records = vs
				}
				return q, err
			}
		}},
		mutant{"retention-011", "a time before what is held finds 0", func(f *faulty) {
			f.offsetByTime = func(topic string, queueID int32, t time.Time, r store.TimeRule, next byTimeFunc) (int64, error) {
				if first, err := f.m.EarliestStoreTime(topic, queueID); err == nil && t.Before(first) && expired(f) {
					return 0, nil
				}
				return next(topic, queueID, t, r)
			}
		}},
		mutant{"retention-012", "the search for a time counts from the first message held", func(f *faulty) {
			f.offsetByTime = func(topic string, queueID int32, t time.Time, r store.TimeRule, next byTimeFunc) (int64, error) {
				n, err := next(topic, queueID, t, r)
				if first := f.m.MinOffset(topic, queueID); expired(f) && n > first {
					n -= first
				}
				return n, err
			}
		}},
		mutant{"retention-013", "an emptied queue answers MESSAGE_WAS_REMOVING", getOfExpired(func(f *faulty, r store.GetRequest, g *store.GetResult) {
			if g.Status == store.OffsetTooSmall && emptied(f, r.Topic, r.QueueID) {
				g.Status = store.MessageWasRemoving
			}
		})},
		mutant{"retention-014", "an emptied queue begins at 0 again", func(f *faulty) {
			f.put = func(ctx context.Context, m *record.Message, next putFunc) (store.PutResult, error) {
				again := m != nil && emptied(f, m.Topic, m.QueueID)
				r, err := next(ctx, m)
				if again {
					r.QueueOffset = 0
				}
				return r, err
			}
		}},
		mutant{"retention-015", "a time in an emptied queue finds 0", func(f *faulty) {
			f.offsetByTime = func(topic string, queueID int32, t time.Time, r store.TimeRule, next byTimeFunc) (int64, error) {
				if emptied(f, topic, queueID) {
					return 0, nil
				}
				return next(topic, queueID, t, r)
			}
		}},
		mutant{"retention-016", "all queues lose as many messages", func(f *faulty) {
			f.minOffset = func(topic string, queueID int32, next boundFunc) int64 {
				n := next(topic, queueID)
				if n == 0 && expired(f) {
					return min(4, f.m.MaxOffset(topic, queueID))
				}
				return n
			}
		}},
		mutant{"retention-017", "the log's end moves with its beginning", func(f *faulty) {
			f.maxPhy = func(next func() int64) int64 {
				if expired(f) {
					return next() - f.m.MinPhyOffset()
				}
				return next()
			}
		}},
		mutant{"retention-018", "deleting unmaps what is still held by gets", func(f *faulty) {
			var held [][]byte
			f.get = func(ctx context.Context, r store.GetRequest, next getFunc) (*store.GetResult, error) {
				g, err := next(ctx, r)
				if err == nil {
					for i, v := range g.Records {
						b := append([]byte(nil), v.Bytes...)
						g.Records[i] = store.NewView(b, v.PhyOffset, nil)
						held = append(held, b)
					}
				}
				return g, err
			}
			f.expire = func(phyOffset int64, next func(int64)) {
				next(phyOffset)
				for _, b := range held {
					clear(b)
				}
			}
		}},
		mutant{"retention-019", "deleting unmaps what is still held by queries", func(f *faulty) {
			var held [][]byte
			f.query = func(ctx context.Context, r store.QueryRequest, next queryFunc) (*store.QueryResult, error) {
				q, err := next(ctx, r)
				if err == nil {
					for i, v := range q.Records {
						b := append([]byte(nil), v.Bytes...)
						q.Records[i] = store.NewView(b, v.PhyOffset, nil)
						held = append(held, b)
					}
				}
				return q, err
			}
			f.expire = func(phyOffset int64, next func(int64)) {
				next(phyOffset)
				for _, b := range held {
					clear(b)
				}
			}
		}},
		mutant{"retention-020", "each cleaning deletes a segment", func(f *faulty) {
			f.expire = func(phyOffset int64, next func(int64)) {
				if phyOffset == f.m.MinPhyOffset() && phyOffset > 0 {
					phyOffset += f.c.SegmentSize
				}
				next(phyOffset)
			}
		}},
		mutant{"retention-021", "a minimum that lies inside of a queue file is its beginning after opening again", func(f *faulty) {
			again := false
			f.reopen = func() { again = true }
			f.minOffset = func(topic string, queueID int32, next boundFunc) int64 {
				n := next(topic, queueID)
				if again && f.c.QueueFileSize > 0 {
					n -= n % (f.c.QueueFileSize / 20)
				}
				return n
			}
		}},
		mutant{"retention-022", "a walk through a queue from 0 is empty once 0 was deleted", func(f *faulty) {
			f.scan = func(ctx context.Context, topic string, queueID int32, from int64, next scanFunc) iter.Seq2[*record.Message, error] {
				if from < f.m.MinOffset(topic, queueID) {
					return func(func(*record.Message, error) bool) {}
				}
				return next(ctx, topic, queueID, from)
			}
		}},
		mutant{"retention-023", "a walk through the log passes its first record over", func(f *faulty) {
			f.scanLog = func(ctx context.Context, from, to int64, next scanLogFunc) iter.Seq2[*record.Message, error] {
				if first := f.m.MinPhyOffset(); expired(f) && from <= first {
					from = first + 1
				}
				return next(ctx, from, to)
			}
		}},
		mutant{"retention-024", "statistics say that the log begins at 0", func(f *faulty) {
			f.stats = func(next func() store.Stats) store.Stats {
				s := next()
				s.MinPhyOffset = min(s.MinPhyOffset, 0)
				return s
			}
		}},
	)
}
