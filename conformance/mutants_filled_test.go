package conformance_test

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// inFilled reports whether a topic is one that T.Filled fills: what is wrong with these queues alone shows in them, as damage of one queue would.
func inFilled(topic string) bool { return strings.HasPrefix(topic, "filled-") }

func init() {
	mutants = append(mutants,
		mutant{"filled-001", "the second message of a full get is given twice", getAnswer(func(_ *faulty, r store.GetRequest, g *store.GetResult) {
			if inFilled(r.Topic) && r.Filter == nil && len(g.Records) > 8 {
				g.QueueOffsets[2] = g.QueueOffsets[1]
			}
		})},
		mutant{"filled-002", "a get of one message does not find the last one", getAnswer(func(_ *faulty, r store.GetRequest, g *store.GetResult) {
			if inFilled(r.Topic) && r.MaxMessages == 1 && r.Filter == nil && len(g.Records) == 1 && r.Offset == g.MaxOffset-1 {
				dropRecord(g, 0)
				g.Status = store.NoMatchedMessage
			}
		})},
		mutant{"filled-003", "the place of a queue file's first message is that of the one before", func(f *faulty) {
			f.phyOffset = func(topic string, queueID int32, queueOffset int64, next phyOffsetFunc) (int64, error) {
				if inFilled(topic) && queueOffset%10 == 0 && queueOffset > f.m.MinOffset(topic, queueID) {
					queueOffset--
				}
				return next(topic, queueID, queueOffset)
			}
		}},
		mutant{"filled-004", "store times are whole seconds", func(f *faulty) {
			f.storeTime = func(topic string, queueID int32, queueOffset int64, next storeTimeFunc) (time.Time, error) {
				at, err := next(topic, queueID, queueOffset)
				if inFilled(topic) {
					at = at.Truncate(time.Second)
				}
				return at, err
			}
		}},
		mutant{"filled-005", "a unit points at another queue's record", getAnswer(func(f *faulty, r store.GetRequest, g *store.GetResult) {
			if inFilled(r.Topic) && strings.HasSuffix(r.Topic, "b") && r.Filter == nil && len(g.Records) > 3 {
				other := r.Topic[:len(r.Topic)-1] + "a"
				for m := range f.m.Scan(context.Background(), other, 0, 0) {
					if m.PhyOffset > g.Records[2].PhyOffset && m.PhyOffset < g.Records[3].PhyOffset {
						b, _ := record.AppendRecord(nil, m, record.Limits{})
						g.Records[2] = store.NewView(b, m.PhyOffset, nil)
						return
					}
				}
			}
		})},
		mutant{"filled-006", "of several messages of one time Lower finds the second", func(f *faulty) {
			f.offsetByTime = func(topic string, queueID int32, t time.Time, r store.TimeRule, next byTimeFunc) (int64, error) {
				n, err := next(topic, queueID, t, r)
				if again, err2 := f.m.StoreTime(topic, queueID, n+1); inFilled(topic) && r == store.Lower && err2 == nil && again.Equal(t) {
					n++
				}
				return n, err
			}
		}},
		mutant{"filled-007", "a time after the last message finds the maximum, by each rule", func(f *faulty) {
			f.offsetByTime = func(topic string, queueID int32, t time.Time, r store.TimeRule, next byTimeFunc) (int64, error) {
				end := f.m.MaxOffset(topic, queueID)
				if last, err := f.m.StoreTime(topic, queueID, end-1); inFilled(topic) && err == nil && t.After(last) {
					return end, nil
				}
				return next(topic, queueID, t, r)
			}
		}},
		mutant{"filled-008", "the earliest time is that of the log's first record", func(f *faulty) {
			f.earliest = func(topic string, queueID int32, next earliestFunc) (time.Time, error) {
				at, err := next(topic, queueID)
				if m, err2 := f.m.Lookup(0); inFilled(topic) && err == nil && err2 == nil {
					at = time.UnixMilli(m.StoreTimestamp)
				}
				return at, err
			}
		}},
		mutant{"filled-009", "far beyond the end a queue is empty", getAnswer(func(_ *faulty, r store.GetRequest, g *store.GetResult) {
			if inFilled(r.Topic) && g.Status == store.OffsetOverflowBadly && r.Offset > g.MaxOffset+1 {
				g.Status = store.NoMessageInQueue
			}
		})},
		mutant{"filled-010", "a lookup gives the batch's first message for each of its messages", func(f *faulty) {
			f.lookup = func(phyOffset int64, next func(int64) (*record.Message, error)) (*record.Message, error) {
				m, err := next(phyOffset)
				if err == nil && inFilled(m.Topic) && string(m.Body) == "1" {
					m.Body = []byte("0")
				}
				return m, err
			}
		}},
		mutant{"filled-011", "the keys of a segment's last message are lost", queryLost(func(r store.QueryRequest, m *record.Message) bool {
			return inFilled(r.Topic) && (m.PhyOffset+int64(m.Size)+600)/4096 > m.PhyOffset/4096
		})},
		mutant{"filled-012", "two keys share a hash, and are not compared", func(f *faulty) {
			f.query = func(ctx context.Context, r store.QueryRequest, next queryFunc) (*store.QueryResult, error) {
				q, err := next(ctx, r)
				if err != nil || !inFilled(r.Topic) || r.Key != "k1" || !r.Begin.IsZero() {
					return q, err
				}
				r.Key = "k2"
				more, err := next(ctx, r)
				if err == nil {
					q.Records = append(q.Records, more.Records...)
				}
				return q, err
			}
		}},
		mutant{"filled-013", "a walk through the log leaves out each segment's first record", func(f *faulty) {
			f.scanLog = func(ctx context.Context, from, to int64, next scanLogFunc) iter.Seq2[*record.Message, error] {
				return func(yield func(*record.Message, error) bool) {
					for m, err := range next(ctx, from, to) {
						if err == nil && inFilled(m.Topic) && m.PhyOffset%4096 == 0 {
							continue
						}
						if !yield(m, err) {
							return
						}
					}
				}
			}
		}},
		mutant{"filled-014", "Scan ends at a queue file's end", func(f *faulty) {
			f.scan = func(ctx context.Context, topic string, queueID int32, from int64, next scanFunc) iter.Seq2[*record.Message, error] {
				return func(yield func(*record.Message, error) bool) {
					for m, err := range next(ctx, topic, queueID, from) {
						if !yield(m, err) || inFilled(topic) && err == nil && m.QueueOffset%10 == 9 {
							return
						}
					}
				}
			}
		}},
		mutant{"filled-015", "a filter by tag misses the first match of a queue file", getAnswer(func(_ *faulty, r store.GetRequest, g *store.GetResult) {
			if inFilled(r.Topic) && r.Filter != nil && len(g.Records) > 1 && g.QueueOffsets[0]%10 < 2 {
				dropRecord(g, 0)
			}
		})},
		mutant{"filled-016", "the list of queues leaves out the last", func(f *faulty) {
			f.queues = func(next func() []store.QueueInfo) []store.QueueInfo {
				qs := next()
				if n := len(qs); n > 2 && inFilled(qs[n-1].Topic) {
					qs = slices.Delete(qs, n-1, n)
				}
				return qs
			}
		}},
	)
}
