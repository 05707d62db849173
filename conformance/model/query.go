package model

import (
	"context"
	"slices"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

const maxQuery = 64

// keys is what the index holds of a record: unique key and keys, each once; nothing of a rollback. (spec/index.md 3.3)
func keys(m *record.Message) []string {
	if m.SysFlag.Transaction() == record.TransactionRollback {
		return nil
	}
	var ks []string
	if k := m.UniqKey(); k != "" {
		ks = append(ks, k)
	}
	for _, k := range m.Keys() {
		if !slices.Contains(ks, k) {
			ks = append(ks, k)
		}
	}
	return ks
}

// Query is the newest messages of a key within the times, oldest first. (spec/index.md 3.5, 3.7)
func (s *Store) Query(ctx context.Context, r store.QueryRequest) (*store.QueryResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.closed {
		return nil, store.ErrClosed
	}
	n := r.Max
	if n <= 0 || n > maxQuery {
		n = maxQuery
	}
	res := &store.QueryResult{Complete: true}
	for _, c := range slices.Backward(s.records) {
		ks := keys(c.m)
		if len(ks) > 0 && res.IndexLastUpdateTime == 0 {
			res.IndexLastUpdateTime, res.IndexLastUpdatePhyOffset = c.m.StoreTimestamp, c.phyOffset
		}
		at := c.m.StoreTimestamp
		if len(res.Records) == n || c.m.Topic != r.Topic || !slices.Contains(ks, r.Key) ||
			!r.Begin.IsZero() && time.UnixMilli(at).Before(r.Begin) || !r.End.IsZero() && time.UnixMilli(at).After(r.End) {
			continue
		}
		res.Records = append(res.Records, store.NewView(c.bytes, c.phyOffset, nil))
	}
	slices.Reverse(res.Records)
	return res, nil
}
