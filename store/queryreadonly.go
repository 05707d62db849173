package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sync"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/index"
	"github.com/mqstore/mqstore/index/indexfile"
)

// lookIndex is the index of a store that is only looked at, opened when it is first asked.
type lookIndex struct {
	sync.Mutex // held while it is used
	opened     bool
	pebble     *index.Index   // ours, if there is one
	files      *indexfile.Set // else RocketMQ's, if there is one
}

// Query finds messages by key without writing a byte, also beside a process that has the store open. Our index answers if there is one, else RocketMQ's own, whose hits are compared with their records; what was put since the index was last written is read from the log,
// and without an index the whole log is (Options.Progress, stage "query"). QueryResult.Source says which. Times, order and cap are as DefaultMessageStore.Query has them.
func (s *ReadOnlyStore) Query(ctx context.Context, r QueryRequest) (*QueryResult, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.index.Lock()
	defer s.index.Unlock()
	if s.readClosed.Load() {
		return nil, ErrClosed
	}
	limit := s.o.Index.MaxResults
	if limit == 0 {
		limit = 64
	}
	if r.Max > 0 {
		limit = min(limit, r.Max)
	}
	res, err := s.queryIndex(ctx, r, limit)
	if err != nil {
		return nil, fmt.Errorf("query %s %q: %w", r.Topic, r.Key, fromBelow(err))
	}
	return res, nil
}

// queryIndex asks the best source that there is, and the log from where that ends.
func (s *ReadOnlyStore) queryIndex(ctx context.Context, r QueryRequest, limit int) (*QueryResult, error) {
	found, source, from, err := s.indexed(ctx, r, limit)
	if err != nil {
		return nil, err
	}
	n := newest{found.Hits, limit}
	if err := s.scanFor(ctx, r, max(from, s.log.MinPhyOffset(), 0), s.log.MaxPhyOffset(), &n, &found); err != nil {
		return nil, err
	}
	found.Hits = n.hits
	res, err := s.result(found)
	if err != nil {
		return nil, err
	}
	res.Source, res.Complete = source, true
	return res, nil
}

// indexed is what the index says, and from where on the log must be read.
func (s *ReadOnlyStore) indexed(ctx context.Context, r QueryRequest, limit int) (found index.Result, source QuerySource, from int64, err error) {
	if err := s.openIndex(); err != nil {
		return found, "", 0, err
	}
	begin, end := bounds(r)
	const tries = 3 // the process that has the index open deletes files
	for range tries {
		if s.index.pebble == nil {
			break
		}
		found, err = s.index.pebble.Query(r.Topic, r.Key, begin, end, limit)
		if err == nil {
			return found, IndexPebble, found.NextPhyOffset, nil
		}
		if !errors.Is(err, index.ErrDamaged) {
			return found, "", 0, err
		}
		s.dropIndex()
		if err := s.openIndex(); err != nil {
			return found, "", 0, err
		}
	}
	if s.index.files == nil {
		return index.Result{}, LogScan, 0, nil
	}
	found, from, err = s.queryFiles(ctx, r, limit)
	return found, IndexFile, from, err
}

// openIndex opens what there is. A damaged index is as none.
func (s *ReadOnlyStore) openIndex() error {
	if s.index.opened {
		return nil
	}
	s.index.opened = true
	if s.o.FS != mappedfile.OS() {
		return nil
	}
	x, err := index.OpenReader(indexOptions(s.dir, &s.o, s.log))
	switch {
	case err == nil:
		s.index.pebble = x
		return nil
	case !errors.Is(err, index.ErrNoIndex):
		s.o.Logger.Warn("the index cannot be read", "dir", s.dir, "err", err)
	}
	set, warnings, err := indexfile.OpenSet(filepath.Join(s.dir, "index"), indexfile.Shape{Slots: s.o.Index.FileSlots, Entries: s.o.Index.FileEntries})
	if err != nil {
		return err
	}
	for _, w := range warnings {
		s.o.Logger.Warn("an index file cannot be read", "dir", s.dir, "err", w)
	}
	if len(warnings) > 0 || set.EndPhyOffset() < 0 { // with a file missing it would lie
		set.Close()
		return nil
	}
	s.index.files = set
	return nil
}

func (s *ReadOnlyStore) dropIndex() {
	s.index.opened = false
	if s.index.pebble != nil {
		s.index.pebble.Close()
		s.index.pebble = nil
	}
	if s.index.files != nil {
		s.index.files.Close()
		s.index.files = nil
	}
}

func (s *ReadOnlyStore) closeIndex() {
	s.index.Lock()
	defer s.index.Unlock()
	s.dropIndex()
}

// queryFiles asks RocketMQ's index files and compares each hit with its record. Their times are rounded, so the records' own decide.
func (s *ReadOnlyStore) queryFiles(ctx context.Context, r QueryRequest, limit int) (found index.Result, from int64, err error) {
	begin, end := bounds(r)
	early := begin
	if early > math.MinInt64+1000 {
		early -= 1000 // an entry's time is up to a second earlier than its record's
	}
	files := s.index.files.Files()
	last := files[len(files)-1].Header()
	found.LastUpdateTime, found.LastUpdatePhyOffset = last.EndTime, last.EndPhyOffset
	from = s.index.files.EndPhyOffset()
	show := indexedRecord(s.log)
	seen := map[int64]bool{} // RocketMQ indexes a doubled key twice
	for e, err := range s.index.files.Hits(r.Topic, r.Key, early, math.MaxInt64) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return found, 0, err
		}
		if seen[e.PhyOffset] || e.PhyOffset >= from { // the last record may be there in part only: it is read from the log
			continue
		}
		seen[e.PhyOffset] = true
		h := index.Hit{PhyOffset: e.PhyOffset}
		good := false
		if _, err := show(e.PhyOffset, func(m *record.Meta) {
			h.Size, h.StoreTime = m.Size, m.StoreTimestamp
			good = begin <= h.StoreTime && h.StoreTime <= end && index.Holds(m, r.Topic, r.Key)
		}); err != nil {
			return found, 0, err
		}
		if !good {
			continue
		}
		if found.Hits = append(found.Hits, h); len(found.Hits) == limit {
			break
		}
	}
	slices.Reverse(found.Hits)
	return found, from, nil
}

// indexStats is what the index is, as far as it can be opened.
func (s *ReadOnlyStore) indexStats() IndexStats {
	st := IndexStats{Kind: "none", ProgressPhyOffset: -1, DurablePhyOffset: -1}
	s.index.Lock()
	defer s.index.Unlock()
	if s.readClosed.Load() {
		return st
	}
	if err := s.openIndex(); err != nil {
		st.HeldUp = err.Error()
		return st
	}
	switch {
	case s.index.pebble != nil:
		st.Kind = string(IndexPebble)
		fillIndexStats(&st, s.index.pebble.Stats())
	case s.index.files != nil:
		st.Kind = string(IndexFile)
		st.ProgressPhyOffset = s.index.files.EndPhyOffset()
		st.DurablePhyOffset = st.ProgressPhyOffset
		for _, f := range s.index.files.Files() {
			st.Entries += int64(f.Header().Counter) - 1
		}
	}
	st.BehindBytes = max(s.log.MaxPhyOffset()-max(st.ProgressPhyOffset, s.log.MinPhyOffset(), 0), 0)
	return st
}
