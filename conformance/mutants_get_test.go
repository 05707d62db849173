package conformance_test

import (
	"context"
	"math"
	"strings"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// getAnswer changes what gets answer.
func getAnswer(change func(f *faulty, r store.GetRequest, g *store.GetResult)) func(f *faulty) {
	return func(f *faulty) {
		f.get = func(ctx context.Context, r store.GetRequest, next getFunc) (*store.GetResult, error) {
			g, err := next(ctx, r)
			if err == nil {
				change(f, r, g)
			}
			return g, err
		}
	}
}

// getRequest changes what gets are asked.
func getRequest(change func(f *faulty, r *store.GetRequest)) func(f *faulty) {
	return func(f *faulty) {
		f.get = func(ctx context.Context, r store.GetRequest, next getFunc) (*store.GetResult, error) {
			change(f, &r)
			return next(ctx, r)
		}
	}
}

// dropRecord takes record i out of g.
func dropRecord(g *store.GetResult, i int) {
	g.Bytes -= len(g.Records[i].Bytes)
	g.Records = append(g.Records[:i:i], g.Records[i+1:]...)
	g.QueueOffsets = append(g.QueueOffsets[:i:i], g.QueueOffsets[i+1:]...)
}

// cutRecords ends g before record n.
func cutRecords(g *store.GetResult, n int) {
	g.NextBeginOffset = g.QueueOffsets[n]
	for len(g.Records) > n {
		dropRecord(g, n)
	}
}

// cutAt makes gets stop at a record where stop says so; the first is always kept.
func cutAt(stop func(f *faulty, r store.GetRequest, g *store.GetResult, n, bytes int) bool) func(f *faulty) {
	return getAnswer(func(f *faulty, r store.GetRequest, g *store.GetResult) {
		bytes := 0
		for n, v := range g.Records {
			if n > 0 && stop(f, r, g, n, bytes+len(v.Bytes)) {
				cutRecords(g, n)
				return
			}
			bytes += len(v.Bytes)
		}
	})
}

// filtering wraps the filters that gets are asked with.
type filtering struct {
	store.Filter
	unit func(next store.Filter, tagsCode int64, ok bool, ext *store.ExtUnit) bool
	rec  func(next store.Filter, b []byte) bool
}

func (x filtering) MatchUnit(tagsCode int64, ok bool, ext *store.ExtUnit) bool {
	if x.unit != nil {
		return x.unit(x.Filter, tagsCode, ok, ext)
	}
	return x.Filter.MatchUnit(tagsCode, ok, ext)
}

func (x filtering) MatchRecord(b []byte) bool {
	if x.rec != nil {
		return x.rec(x.Filter, b)
	}
	return x.Filter.MatchRecord(b)
}

func filterUnits(unit func(next store.Filter, tagsCode int64, ok bool, ext *store.ExtUnit) bool) func(f *faulty) {
	return getRequest(func(_ *faulty, r *store.GetRequest) {
		if r.Filter != nil {
			r.Filter = filtering{Filter: r.Filter, unit: unit}
		}
	})
}

func filterRecords(rec func(next store.Filter, b []byte) bool) func(f *faulty) {
	return getRequest(func(_ *faulty, r *store.GetRequest) {
		if r.Filter != nil {
			r.Filter = filtering{Filter: r.Filter, rec: rec}
		}
	})
}

func init() {
	mutants = append(mutants,
		mutant{"get-001", "an unknown queue is OFFSET_OVERFLOW_BADLY", getAnswer(func(f *faulty, r store.GetRequest, g *store.GetResult) {
			if g.Status == store.NoMessageInQueue && r.Offset > 0 {
				g.Status = store.OffsetOverflowBadly
			}
		})},
		mutant{"get-002", "an empty queue of a known topic sends consumers where they are", getAnswer(func(f *faulty, r store.GetRequest, g *store.GetResult) {
			if g.Status == store.NoMessageInQueue && f.m.MaxOffset(r.Topic, 0) > 0 {
				g.NextBeginOffset = r.Offset
			}
		})},
		mutant{"get-003", "the end of a queue is OFFSET_OVERFLOW_BADLY", getAnswer(func(_ *faulty, r store.GetRequest, g *store.GetResult) {
			if g.Status == store.OffsetOverflowOne {
				g.Status = store.OffsetOverflowBadly
			}
		})},
		mutant{"get-004", "consumers beyond the end of a queue that begins at 0 are sent to 0", getAnswer(func(_ *faulty, r store.GetRequest, g *store.GetResult) {
			if g.Status == store.OffsetOverflowBadly && g.MinOffset == 0 {
				g.NextBeginOffset = 0
			}
		})},
		mutant{"get-005", "offsets wrap around in bytes", getRequest(func(_ *faulty, r *store.GetRequest) {
			if r.Offset > math.MaxInt64/20 {
				r.Offset = r.Offset * 20 / 20
			}
		})},
		mutant{"get-006", "a negative offset is the queue's beginning", getRequest(func(_ *faulty, r *store.GetRequest) {
			r.Offset = max(r.Offset, 0)
		})},
		mutant{"get-007", "queue offsets of a queue that begins at 0 are counted from the request's", getAnswer(func(_ *faulty, r store.GetRequest, g *store.GetResult) {
			if g.MinOffset == 0 && r.Filter == nil && r.MaxMessages == 0 && r.Offset < 6 {
				for i := range g.QueueOffsets {
					g.QueueOffsets[i] -= r.Offset
				}
			}
		})},
		mutant{"get-008", "Bytes leaves the last record out", getAnswer(func(_ *faulty, r store.GetRequest, g *store.GetResult) {
			if n := len(g.Records); n > 1 {
				g.Bytes -= len(g.Records[n-1].Bytes)
			}
		})},
		mutant{"get-009", "an answer without messages has no bounds", getAnswer(func(_ *faulty, r store.GetRequest, g *store.GetResult) {
			if g.Status == store.NoMatchedMessage {
				g.MinOffset, g.MaxOffset = 0, 0
			}
		})},
		mutant{"get-010", "topic and queue id are joined with a dash", func(f *faulty) {
			f.put = func(ctx context.Context, m *record.Message, next putFunc) (store.PutResult, error) {
				r, err := next(ctx, m)
				if topic, ok := strings.CutSuffix(m.Topic, "-1"); ok && err == nil && f.m.MaxOffset(topic, m.QueueID) > 1 {
					c := *m
					c.Topic = topic
					next(ctx, &c)
				}
				return r, err
			}
		}},
		mutant{"get-011", "MaxOffset runs ahead of what can be read", func(f *faulty) {
			late := map[int64]bool{}
			f.get = func(ctx context.Context, r store.GetRequest, next getFunc) (*store.GetResult, error) {
				g, err := next(ctx, r)
				if err == nil && r.MaxMessages == -1 && r.Offset == g.MaxOffset-1 && !late[r.Offset] {
					late[r.Offset] = true
					return &store.GetResult{Status: store.OffsetOverflowOne, NextBeginOffset: r.Offset, MinOffset: g.MinOffset, MaxOffset: r.Offset}, nil
				}
				return g, err
			}
		}},
		mutant{"get-012", "the last message before the end of a queue file is passed over", getAnswer(func(f *faulty, r store.GetRequest, g *store.GetResult) {
			if per := f.c.QueueFileSize / 20; per > 0 && r.Filter == nil && len(g.Records) > 1 && g.NextBeginOffset%per == 0 {
				dropRecord(g, len(g.Records)-1)
			}
		})},
		mutant{"get-013", "what was read once is not read again", func(f *faulty) {
			read := map[store.GetRequest]bool{}
			f.get = func(ctx context.Context, r store.GetRequest, next getFunc) (*store.GetResult, error) {
				g, err := next(ctx, r)
				if err == nil && r.Filter == nil && r.MaxMessages == 3 {
					if read[r] {
						dropRecord(g, 0)
					}
					read[r] = true
				}
				return g, err
			}
		}},
		mutant{"get-014", "a get makes the queue", func(f *faulty) {
			made := map[string]bool{}
			f.get = func(ctx context.Context, r store.GetRequest, next getFunc) (*store.GetResult, error) {
				made[r.Topic] = true
				return next(ctx, r)
			}
			f.queues = func(next func() []store.QueueInfo) []store.QueueInfo {
				qs := next()
				for _, q := range qs {
					delete(made, q.Topic)
				}
				for topic := range made {
					qs = append(qs, store.QueueInfo{Topic: topic, MinPhyOffset: -1, MaxPhyOffset: -1})
				}
				return qs
			}
		}},
		mutant{"get-015", "gets take no notice of their context", func(f *faulty) {
			f.get = func(_ context.Context, r store.GetRequest, next getFunc) (*store.GetResult, error) {
				return next(context.Background(), r)
			}
		}},
		mutant{"get-016", "a closed store answers that there is nothing", func(f *faulty) {
			f.get = func(ctx context.Context, r store.GetRequest, next getFunc) (*store.GetResult, error) {
				g, err := next(ctx, r)
				if ctx.Err() == nil && err != nil {
					return &store.GetResult{Status: store.NoMessageInQueue}, nil
				}
				return g, err
			}
		}},
		mutant{"get-017", "the bytes of views are used again", func(f *faulty) {
			var last []byte
			f.get = func(ctx context.Context, r store.GetRequest, next getFunc) (*store.GetResult, error) {
				g, err := next(ctx, r)
				if n := len(g.Records) - 1; err == nil && f.c.SegmentSize == 8192 && n >= 4 {
					b := append([]byte(nil), g.Records[n].Bytes...)
					copy(last, b)
					g.Records[n] = store.NewView(b, g.Records[n].PhyOffset, nil)
					last = b
				}
				return g, err
			}
		}},
		mutant{"get-018", "Close unmaps what is still held", func(f *faulty) {
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
			f.close = func(next func() error) error {
				for _, b := range held {
					clear(b)
				}
				return next()
			}
		}},
		mutant{"get-020", "a get of as many messages as asked for has one less", getAnswer(func(_ *faulty, r store.GetRequest, g *store.GetResult) {
			if n := len(g.Records); n > 6 && n == r.MaxMessages {
				cutRecords(g, n-1)
			}
		})},
		mutant{"get-021", "a get that does not find as many as asked for goes on one too far", getAnswer(func(_ *faulty, r store.GetRequest, g *store.GetResult) {
			if n := len(g.Records); n > 0 && n < r.MaxMessages && r.Filter == nil && g.NextBeginOffset == g.MaxOffset && r.Offset > 0 {
				g.NextBeginOffset++
			}
		})},
		mutant{"get-022", "no number of messages is as many as there are", getRequest(func(_ *faulty, r *store.GetRequest) {
			if r.MaxMessages == 0 {
				r.MaxMessages = 1000
			}
		})},
		mutant{"get-023", "a negative number of messages is the default", getRequest(func(_ *faulty, r *store.GetRequest) {
			if r.MaxMessages < 0 {
				r.MaxMessages = 0
			}
		})},
		mutant{"get-024", "numbers of messages wrap around in bytes", getRequest(func(_ *faulty, r *store.GetRequest) {
			if n := r.MaxMessages * 20; n < r.MaxMessages && r.MaxMessages > 0 {
				r.MaxMessages = n
			}
			r.MaxMessages = int(int32(r.MaxMessages))
		})},
		mutant{"get-025", "the client's number of messages beats the store's by one", func(f *faulty) {
			f.get = func(ctx context.Context, r store.GetRequest, next getFunc) (*store.GetResult, error) {
				g, err := next(ctx, r)
				if limit := f.c.MaxTransferMessagesInMemory; err == nil && limit == 5 && len(g.Records) == limit && r.MaxMessages > limit {
					more := r
					more.Offset, more.MaxMessages = g.NextBeginOffset, 1
					one, _ := next(ctx, more)
					g.Records, g.QueueOffsets, g.NextBeginOffset = append(g.Records, one.Records...), append(g.QueueOffsets, one.QueueOffsets...), one.NextBeginOffset
				}
				return g, err
			}
		}},
		mutant{"get-026", "exactly as many bytes as allowed are too many", cutAt(func(f *faulty, _ store.GetRequest, _ *store.GetResult, _, bytes int) bool {
			return bytes == f.c.MaxTransferBytesInMemory
		})},
		mutant{"get-027", "a message larger than a get may have is left out", getAnswer(func(f *faulty, _ store.GetRequest, g *store.GetResult) {
			if limit := f.c.MaxTransferBytesInMemory; limit > 0 && g.Bytes > limit {
				dropRecord(g, 0)
				g.Status = store.NoMatchedMessage
			}
		})},
		mutant{"get-028", "a message exactly as far behind as memory reaches is in disk", cutAt(func(f *faulty, _ store.GetRequest, g *store.GetResult, n, _ int) bool {
			return f.c.MemorySize > 0 && n >= f.c.MaxTransferMessagesInDisk && f.m.MaxPhyOffset()-g.Records[n].PhyOffset >= f.c.MemorySize*40/100
		})},
		mutant{"get-029", "exactly as many bytes from disk as allowed are too many", cutAt(func(f *faulty, _ store.GetRequest, g *store.GetResult, n, bytes int) bool {
			return f.c.MemorySize > 0 && bytes == f.c.MaxTransferBytesInDisk && f.m.MaxPhyOffset()-g.Records[n].PhyOffset > f.c.MemorySize*40/100
		})},
		mutant{"get-030", "no slave is ever suggested", getAnswer(func(_ *faulty, _ store.GetRequest, g *store.GetResult) { g.SuggestSlave = false })},
		mutant{"get-031", "a get goes on beyond the end of its queue file", func(f *faulty) {
			f.get = func(ctx context.Context, r store.GetRequest, next getFunc) (*store.GetResult, error) {
				g, err := next(ctx, r)
				if err != nil || f.c.QueueFileSize != 200 || r.MaxMessages != 20 || g.NextBeginOffset%10 != 0 || r.Filter != nil {
					return g, err
				}
				r.Offset = g.NextBeginOffset
				more, err := next(ctx, r)
				if more.Status == store.Found {
					g.Records, g.QueueOffsets, g.NextBeginOffset = append(g.Records, more.Records...), append(g.QueueOffsets, more.QueueOffsets...), more.NextBeginOffset
				}
				return g, err
			}
		}},
		mutant{"get-032", "a get looks at 800 messages, whatever it is asked for", getAnswer(func(_ *faulty, r store.GetRequest, g *store.GetResult) {
			g.NextBeginOffset = min(g.NextBeginOffset, max(r.Offset, 0)+800)
		})},
		mutant{"get-033", "the end of a page cuts a body short", func(f *faulty) {
			f.put = func(ctx context.Context, m *record.Message, next putFunc) (store.PutResult, error) {
				if m != nil && len(m.Body) == 513 {
					c := *m
					c.Body = m.Body[:512]
					m = &c
				}
				return next(ctx, m)
			}
		}},
		mutant{"get-040", "a filtered get goes on behind its last match", getAnswer(func(_ *faulty, r store.GetRequest, g *store.GetResult) {
			if n := len(g.Records); n > 0 && r.Filter != nil {
				g.NextBeginOffset = g.QueueOffsets[n-1] + 1
			}
		})},
		mutant{"get-041", "a get without a match stays where it is", getAnswer(func(_ *faulty, r store.GetRequest, g *store.GetResult) {
			if g.Status == store.NoMatchedMessage && g.NextBeginOffset-r.Offset < 5 {
				g.NextBeginOffset = r.Offset
			}
		})},
		mutant{"get-042", "of several tags only the first counts", filterUnits(func(next store.Filter, code int64, ok bool, ext *store.ExtUnit) bool {
			first, second, none := record.TagsCode("a"), record.TagsCode("c"), record.TagsCode("none")
			return next.MatchUnit(code, ok, ext) && !(code == second && next.MatchUnit(first, true, nil) && !next.MatchUnit(none, true, nil))
		})},
		mutant{"get-043", "* does not match a message without tags", filterUnits(func(next store.Filter, code int64, ok bool, ext *store.ExtUnit) bool {
			return next.MatchUnit(code, ok, ext) && (code != 0 || !next.MatchUnit(12345, true, nil))
		})},
		mutant{"get-044", "a message without tags matches every tag", filterUnits(func(next store.Filter, code int64, ok bool, ext *store.ExtUnit) bool {
			return next.MatchUnit(code, ok, ext) || code == 0 && next.MatchUnit(record.TagsCode("a"), true, nil)
		})},
		mutant{"get-045", "the store compares tags, not their hashes", getRequest(func(_ *faulty, r *store.GetRequest) {
			if r.Filter != nil && r.Filter.MatchUnit(record.TagsCode("Aa"), true, nil) && !r.Filter.MatchUnit(record.TagsCode("x"), true, nil) {
				r.Filter = filtering{Filter: r.Filter, rec: func(next store.Filter, b []byte) bool {
					m, err := record.Decode(b)
					return err == nil && next.MatchRecord(b) && m.Tags() != "BB"
				}}
			}
		})},
		mutant{"get-046", "a full get passes over what does not match behind it", func(f *faulty) {
			f.get = func(ctx context.Context, r store.GetRequest, next getFunc) (*store.GetResult, error) {
				g, err := next(ctx, r)
				if err == nil && r.Filter != nil && r.MaxMessages == 2 && len(g.Records) == 2 {
					g.NextBeginOffset++
				}
				return g, err
			}
		}},
		mutant{"get-047", "the tags code has 64 bits of hash", filterUnits(func(next store.Filter, code int64, ok bool, ext *store.ExtUnit) bool {
			return next.MatchUnit(code|code<<33, ok, ext)
		})},
		mutant{"get-048", "filters are asked about every record", filterUnits(func(next store.Filter, code int64, ok bool, ext *store.ExtUnit) bool {
			matches := next.MatchUnit(code, ok, ext)
			if !matches {
				next.MatchRecord(nil)
			}
			return matches
		})},
		mutant{"get-049", "filters are not asked about records", filterRecords(func(store.Filter, []byte) bool { return true })},
		mutant{"get-050", "the first match behind the end of a queue file is lost", getAnswer(func(f *faulty, r store.GetRequest, g *store.GetResult) {
			if f.c.QueueFileSize > 0 && r.Filter != nil && len(g.Records) > 0 && r.Offset > 0 && r.Offset%(f.c.QueueFileSize/20) == 0 {
				dropRecord(g, 0)
				if len(g.Records) == 0 {
					g.Status = store.NoMatchedMessage
				}
			}
		})},
	)
}
