package conformance_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// queryFound changes what queries answer.
func queryFound(how func(f *faulty, r store.QueryRequest, q *store.QueryResult)) func(f *faulty) {
	return func(f *faulty) {
		f.query = func(ctx context.Context, r store.QueryRequest, next queryFunc) (*store.QueryResult, error) {
			q, err := next(ctx, r)
			if err == nil {
				how(f, r, q)
			}
			return q, err
		}
	}
}

// queryAsked changes what queries are asked.
func queryAsked(how func(r *store.QueryRequest)) func(f *faulty) {
	return func(f *faulty) {
		f.query = func(ctx context.Context, r store.QueryRequest, next queryFunc) (*store.QueryResult, error) {
			how(&r)
			return next(ctx, r)
		}
	}
}

// queryLost drops the records of which some is true.
func queryLost(some func(r store.QueryRequest, m *record.Message) bool) func(f *faulty) {
	return queryFound(func(_ *faulty, r store.QueryRequest, q *store.QueryResult) {
		q.Records = slices.DeleteFunc(q.Records, func(v store.View) bool {
			m, err := record.Decode(v.Bytes)
			return err == nil && some(r, m)
		})
	})
}

// queryAlso adds what another query finds.
func queryAlso(other func(r store.QueryRequest) (store.QueryRequest, bool)) func(f *faulty) {
	return func(f *faulty) {
		f.query = func(ctx context.Context, r store.QueryRequest, next queryFunc) (*store.QueryResult, error) {
			q, err := next(ctx, r)
			o, ok := other(r)
			if err != nil || !ok {
				return q, err
			}
			more, err := next(ctx, o)
			if err == nil {
				q.Records = append(q.Records, more.Records...)
			}
			return q, err
		}
	}
}

// queryLimit is how many records a query may have.
func queryLimit(r store.QueryRequest) int {
	if r.Max <= 0 || r.Max > 64 {
		return 64
	}
	return r.Max
}

func init() {
	mutants = append(mutants,
		mutant{"query-001", "the first key that is indexed is lost", queryLost(func(r store.QueryRequest, m *record.Message) bool {
			return r.Key == "order1" && m.QueueOffset == 0
		})},
		mutant{"query-002", "unique keys are not indexed", queryLost(func(r store.QueryRequest, m *record.Message) bool {
			return r.Key == m.UniqKey() && !slices.Contains(m.Keys(), r.Key)
		})},
		mutant{"query-003", "the third of the keys is not indexed", queryLost(func(r store.QueryRequest, m *record.Message) bool {
			ks := m.Keys()
			return len(ks) == 3 && ks[2] == r.Key
		})},
		mutant{"query-004", "the keys together are a key", queryAlso(func(r store.QueryRequest) (store.QueryRequest, bool) {
			first, _, several := strings.Cut(r.Key, " ")
			r.Key = first
			return r, several && first != ""
		})},
		mutant{"query-005", "keys are compared by their hash", queryAlso(func(r store.QueryRequest) (store.QueryRequest, bool) {
			collides := r.Key == "Aa" || r.Key == "BB"
			r.Key = map[string]string{"Aa": "BB", "BB": "Aa"}[r.Key]
			return r, collides
		})},
		mutant{"query-006", "topic and key are joined with #", queryAlso(func(r store.QueryRequest) (store.QueryRequest, bool) {
			head, tail, ok := strings.Cut(r.Key, "#")
			r.Topic, r.Key = r.Topic+"#"+head, tail
			return r, ok
		})},
		mutant{"query-007", "a doubled key is indexed twice", queryFound(func(_ *faulty, r store.QueryRequest, q *store.QueryResult) {
			var out []store.View
			for _, v := range q.Records {
				m, err := record.Decode(v.Bytes)
				out = append(out, v)
				if n := 0; err == nil {
					for _, k := range m.Keys() {
						if k == r.Key {
							n++
						}
					}
					for ; n > 1; n-- {
						out = append(out, v)
					}
				}
			}
			q.Records = out
		})},
		mutant{"query-008", "a unique key among the keys is indexed twice", queryFound(func(_ *faulty, r store.QueryRequest, q *store.QueryResult) {
			for _, v := range slices.Clone(q.Records) {
				if m, err := record.Decode(v.Bytes); err == nil && m.UniqKey() == r.Key && slices.Contains(m.Keys(), r.Key) {
					q.Records = append(q.Records, v)
				}
			}
		})},
		mutant{"query-009", "answers are ordered by queue", queryFound(func(_ *faulty, _ store.QueryRequest, q *store.QueryResult) {
			slices.SortStableFunc(q.Records, func(a, b store.View) int {
				x, _ := record.Decode(a.Bytes)
				y, _ := record.Decode(b.Bytes)
				return int(x.QueueID - y.QueueID)
			})
		})},
		mutant{"query-010", "the oldest messages are chosen", func(f *faulty) {
			f.query = func(ctx context.Context, r store.QueryRequest, next queryFunc) (*store.QueryResult, error) {
				n := queryLimit(r)
				if !r.End.IsZero() || n == 64 {
					return next(ctx, r)
				}
				r.Max = 0
				q, err := next(ctx, r)
				if err == nil {
					q.Records = q.Records[:min(len(q.Records), n)]
				}
				return q, err
			}
		}},
		mutant{"query-011", "a query has 63 messages at most", queryFound(func(_ *faulty, _ store.QueryRequest, q *store.QueryResult) {
			if len(q.Records) > 63 {
				q.Records = q.Records[1:]
			}
		})},
		mutant{"query-012", "store times are rounded down to a tenth of a second", queryLost(func(r store.QueryRequest, m *record.Message) bool {
			return !r.Begin.IsZero() && r.Begin.Equal(r.End) && m.StoreTimestamp/100*100 < r.Begin.UnixMilli()
		})},
		mutant{"query-013", "begin is two milliseconds early", queryAsked(func(r *store.QueryRequest) {
			if !r.Begin.IsZero() && !r.End.IsZero() && r.End.After(r.Begin) {
				r.Begin = r.Begin.Add(-2 * time.Millisecond)
			}
		})},
		mutant{"query-014", "no end is the beginning of time", queryAsked(func(r *store.QueryRequest) {
			if r.End.IsZero() && !r.Begin.IsZero() {
				r.End = time.UnixMilli(0)
			}
		})},
		mutant{"query-015", "begin and end are put in order", queryAsked(func(r *store.QueryRequest) {
			if !r.End.IsZero() && r.End.Before(r.Begin) {
				r.Begin, r.End = r.End, r.Begin
			}
		})},
		mutant{"query-016", "far times wrap around", queryAsked(func(r *store.QueryRequest) {
			if r.End.Unix() == 1<<60 {
				r.End = time.UnixMilli(0)
			}
		})},
		mutant{"query-017", "the newest are chosen before the bounds are looked at", func(f *faulty) {
			f.query = func(ctx context.Context, r store.QueryRequest, next queryFunc) (*store.QueryResult, error) {
				all := r
				all.Begin, all.End = time.Time{}, time.Time{}
				q, err := next(ctx, all)
				if err != nil {
					return q, err
				}
				in, err := next(ctx, r)
				if err != nil {
					return in, err
				}
				in.Records = slices.DeleteFunc(in.Records, func(v store.View) bool {
					return !slices.ContainsFunc(q.Records, func(w store.View) bool { return w.PhyOffset == v.PhyOffset })
				})
				return in, err
			}
		}},
		mutant{"query-018", "an absent key is an error", func(f *faulty) {
			f.query = func(ctx context.Context, r store.QueryRequest, next queryFunc) (*store.QueryResult, error) {
				q, err := next(ctx, r)
				if err == nil && len(q.Records) == 0 && r.Key == "absent" {
					return nil, store.ErrNotFound
				}
				return q, err
			}
		}},
		mutant{"query-019", "the topic does not count", func(f *faulty) {
			var topics []string
			f.query = func(ctx context.Context, r store.QueryRequest, next queryFunc) (*store.QueryResult, error) {
				q, err := next(ctx, r)
				if err != nil || r.Key != "1" {
					return q, err
				}
				for _, topic := range topics {
					o := r
					if o.Topic = topic; topic != r.Topic {
						more, _ := next(ctx, o)
						q.Records = append(q.Records, more.Records...)
					}
				}
				topics = append(topics, r.Topic)
				return q, err
			}
		}},
		mutant{"query-020", "prepared messages are not indexed", queryLost(func(_ store.QueryRequest, m *record.Message) bool {
			return m.SysFlag.Transaction() == record.TransactionPrepared
		})},
		mutant{"query-021", "an empty part of the keys is a key", queryAlso(func(r store.QueryRequest) (store.QueryRequest, bool) {
			empty := r.Key == "" || r.Key == " "
			r.Key = "a"
			return r, empty
		})},
		mutant{"query-022", "keys are cut after 1,000 bytes", queryAlso(func(r store.QueryRequest) (store.QueryRequest, bool) {
			long := len(r.Key) == 1000
			r.Key += "k"
			return r, long
		})},
		mutant{"query-023", "views say nothing of their place", queryFound(func(_ *faulty, r store.QueryRequest, q *store.QueryResult) {
			for i, v := range q.Records {
				if m, err := record.Decode(v.Bytes); err == nil && m.QueueID > 1 {
					q.Records[i] = store.NewView(v.Bytes, 0, nil)
				}
			}
		})},
		mutant{"query-024", "the index says that it ends where the log does", queryFound(func(f *faulty, _ store.QueryRequest, q *store.QueryResult) {
			q.IndexLastUpdatePhyOffset = f.m.MaxPhyOffset()
		})},
		mutant{"query-025", "the bytes of a query are used again by the next one", func(f *faulty) {
			var last []byte
			f.query = func(ctx context.Context, r store.QueryRequest, next queryFunc) (*store.QueryResult, error) {
				q, err := next(ctx, r)
				if err != nil || f.c.SegmentSize != 8192 || len(q.Records) < 3 {
					return q, err
				}
				n := len(q.Records) - 1
				b := slices.Clone(q.Records[n].Bytes)
				copy(last, b)
				q.Records[n] = store.NewView(b, q.Records[n].PhyOffset, nil)
				last = b
				return q, err
			}
		}},
		mutant{"query-026", "queries take no notice of their context", func(f *faulty) {
			f.query = func(_ context.Context, r store.QueryRequest, next queryFunc) (*store.QueryResult, error) {
				return next(context.Background(), r)
			}
		}},
		mutant{"query-027", "a closed store finds nothing", func(f *faulty) {
			f.query = func(ctx context.Context, r store.QueryRequest, next queryFunc) (*store.QueryResult, error) {
				q, err := next(ctx, r)
				if errors.Is(err, store.ErrClosed) {
					return &store.QueryResult{Complete: true}, nil
				}
				return q, err
			}
		}},
		mutant{"query-028", "of a batch only the first message's keys are indexed", queryLost(func(r store.QueryRequest, m *record.Message) bool {
			return r.Key == "second" || r.Key == "both" && string(m.Body) == "1"
		})},
		mutant{"query-029", "the hundredth key of an index file is not found", queryLost(func(r store.QueryRequest, m *record.Message) bool {
			return strings.HasPrefix(r.Key, "own") && m.QueueOffset == 99
		})},
		mutant{"query-030", "tags are indexed, too", func(f *faulty) {
			f.query = func(ctx context.Context, r store.QueryRequest, next queryFunc) (*store.QueryResult, error) {
				q, err := next(ctx, r)
				for m := range f.m.Scan(ctx, r.Topic, 0, 0) {
					if err == nil && m != nil && r.Key != "" && m.Tags() == r.Key {
						q.Records = append(q.Records, store.NewView(nil, m.PhyOffset, nil))
					}
				}
				return q, err
			}
		}},
	)
}
