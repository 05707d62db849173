package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/mqstore/mqstore/commitlog"
	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/index"
)

// Query finds the newest r.Max messages (64 at most, unless Options.Index says otherwise) of a topic that have the key, as unique key or among KEYS, and were stored within [r.Begin, r.End]. Every message returned has exactly that topic and key. Call Release on the result.
//
// The index follows the log a moment behind, and far behind while it is built for a directory of RocketMQ: Complete says whether everything that consumers could see at the time of the call was in it. ErrNoIndex: there is none, or it could not be opened yet
// (the store tries again by itself; see Stats().Index). Other errors: *CorruptError, ErrClosed.
func (s *DefaultMessageStore) Query(ctx context.Context, r QueryRequest) (*QueryResult, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.readClosed.Load() {
		return nil, ErrClosed
	}
	if s.index == nil {
		return nil, ErrNoIndex
	}
	end := s.VisibleEnd()
	x, d := s.index.current()
	if x == nil {
		return nil, fmt.Errorf("%w yet: %s", ErrNoIndex, s.index.stats().HeldUp)
	}
	offset := max(x.Next(), d.Offset())
	begin, until := bounds(r)
	found, err := x.Query(r.Topic, r.Key, begin, until, r.Max)
	switch {
	case errors.Is(err, index.ErrDamaged):
		return nil, fmt.Errorf("%w: it is damaged and will be built anew: %w", ErrNoIndex, err)
	case errors.Is(err, index.ErrClosed):
		if now, _ := s.index.current(); now != x { // it failed, and was replaced meanwhile
			return s.Query(ctx, r)
		}
		return nil, ErrClosed
	case err != nil:
		return nil, fmt.Errorf("query %s %q: %w", r.Topic, r.Key, fromBelow(err))
	}
	res, err := s.result(found.Hits, index.Hit{PhyOffset: found.LastUpdatePhyOffset, StoreTime: found.LastUpdateTime})
	if err != nil {
		return nil, fmt.Errorf("query %s %q: %w", r.Topic, r.Key, fromBelow(err))
	}
	res.Source = IndexPebble
	res.Complete = offset >= end
	return res, nil
}

// bounds are the request's times in ms. Times that ms cannot hold are the bounds that they can.
func bounds(r QueryRequest) (begin, end int64) {
	begin, end = math.MinInt64, math.MaxInt64
	if !r.Begin.IsZero() {
		if begin = milli(r.Begin); begin < math.MaxInt64 && r.Begin.After(time.UnixMilli(begin)) {
			begin++ // the first millisecond that is not before
		}
	}
	if !r.End.IsZero() {
		end = milli(r.End)
	}
	return begin, end
}

func milli(t time.Time) int64 {
	const most = math.MaxInt64 / 1000 // seconds
	switch s := t.Unix(); {
	case s >= most:
		return math.MaxInt64
	case s <= -most:
		return math.MinInt64
	}
	return t.UnixMilli()
}

// result takes views of the hits. Those that expired meanwhile are left out.
func (s *reader) result(hits []index.Hit, lastUpdate index.Hit) (*QueryResult, error) {
	res := &QueryResult{IndexLastUpdateTime: lastUpdate.StoreTime, IndexLastUpdatePhyOffset: lastUpdate.PhyOffset}
	for _, h := range hits {
		v, err := s.log.View(h.PhyOffset, h.Size)
		if errors.Is(err, mappedfile.ErrNotFound) {
			continue
		}
		if err != nil {
			res.Release()
			return nil, err
		}
		res.Records = append(res.Records, View{v.Bytes, h.PhyOffset, v.Release})
	}
	return res, nil
}

// newest is the newest hits of a query that reads the log in order.
type newest struct {
	hits       []index.Hit // oldest first
	limit      int
	lastUpdate index.Hit // the last record with a key
	from, end  int64     // the part of the log that is asked for
}

func (n *newest) add(h index.Hit) {
	if len(n.hits) >= n.limit {
		n.hits = slices.Delete(n.hits, 0, 1)
	}
	n.hits = append(n.hits, h)
}

// scanFor reads the log in [from, end) for records of the topic with the key.
func (s *reader) scanFor(ctx context.Context, r QueryRequest, from, end int64, n *newest) error {
	const step = 4 << 20 // bytes between two reports of progress
	begin, until := bounds(r)
	c := s.log.NewCursor(from)
	defer c.Close()
	progress := s.o.Progress
	if progress == nil {
		progress = func(string, int64, int64) {}
	}
	told := from
	var m record.Meta
	for c.Offset() < end {
		if c.Offset()-told >= step {
			if err := ctx.Err(); err != nil {
				return err
			}
			told = c.Offset()
			progress("query", told-from, end-from)
		}
		if err := c.Next(&m, end); errors.Is(err, commitlog.ErrNotYet) {
			break
		} else if err != nil {
			return err
		}
		if index.HasKeys(&m) {
			n.lastUpdate = index.Hit{PhyOffset: m.PhyOffset, StoreTime: m.StoreTimestamp}
		}
		if t := m.StoreTimestamp; begin <= t && t <= until && index.Holds(&m, r.Topic, r.Key) {
			n.add(index.Hit{PhyOffset: m.PhyOffset, Size: m.Size, StoreTime: t})
		}
	}
	return nil
}
