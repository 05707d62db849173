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

// queryIndex asks the best source that there is, and the log for what that does not know.
func (s *ReadOnlyStore) queryIndex(ctx context.Context, r QueryRequest, limit int) (*QueryResult, error) {
	if err := s.openIndex(); err != nil {
		return nil, err
	}
	n := newest{limit: limit, from: max(s.log.MinPhyOffset(), 0), end: s.log.MaxPhyOffset()}
	source, err := s.queryPebble(r, &n)
	if err != nil {
		return nil, err
	}
	if source == LogScan && s.index.files != nil {
		source = IndexFile
		err = s.queryFiles(ctx, r, &n)
	} else {
		err = s.scanFor(ctx, r, n.from, n.end, &n)
	}
	if err != nil {
		return nil, err
	}
	res, err := s.result(n.hits, n.lastUpdate)
	if err != nil {
		return nil, err
	}
	res.Source, res.Complete = source, true
	return res, nil
}

// queryPebble asks our index, and sets n.from to where it ends. LogScan: there is none.
func (s *ReadOnlyStore) queryPebble(r QueryRequest, n *newest) (QuerySource, error) {
	begin, end := bounds(r)
	const tries = 3 // the process that has the index open deletes files
	for range tries {
		if s.index.pebble == nil {
			break
		}
		found, err := s.index.pebble.Query(r.Topic, r.Key, begin, end, n.limit)
		if err == nil {
			n.hits, n.lastUpdate = found.Hits, index.Hit{PhyOffset: found.LastUpdatePhyOffset, StoreTime: found.LastUpdateTime}
			n.from = max(n.from, found.NextPhyOffset)
			return IndexPebble, nil
		}
		if !errors.Is(err, index.ErrDamaged) {
			return "", err
		}
		s.dropIndex()
		if err := s.openIndex(); err != nil {
			return "", err
		}
	}
	return LogScan, nil
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

// queryFiles asks RocketMQ's index files, the newest first, and compares each hit with its record. Their times are rounded, so the records' own decide. A file knows what lies between its first and last record; what lies outside (put since, or lost by a crash, which
// costs RocketMQ whole files) is read from the log.
func (s *ReadOnlyStore) queryFiles(ctx context.Context, r QueryRequest, n *newest) error {
	to := n.end
	seen := map[int64]bool{} // RocketMQ indexes a doubled key twice
	var newestFirst []index.Hit
	gap := func(from int64) error {
		part := newest{limit: n.limit - len(newestFirst)}
		if err := s.scanFor(ctx, r, max(from, n.from), to, &part); err != nil {
			return err
		}
		if n.lastUpdate == (index.Hit{}) {
			n.lastUpdate = part.lastUpdate
		}
		for _, h := range slices.Backward(part.hits) {
			if !seen[h.PhyOffset] {
				seen[h.PhyOffset] = true
				newestFirst = append(newestFirst, h)
			}
		}
		return nil
	}
	for _, f := range slices.Backward(s.index.files.Files()) {
		h := f.Header()
		if h.Counter <= 1 || h.BeginPhyOffset >= to { // of a part of the log that was cut
			continue
		}
		last, err := s.lastOf(f, to)
		if err != nil {
			return err
		}
		if last < 0 {
			continue
		}
		if err := gap(last); err != nil || len(newestFirst) >= n.limit {
			n.hits = reversed(newestFirst)
			return err
		}
		if err := s.queryFile(ctx, f, r, n, seen, &newestFirst); err != nil || len(newestFirst) >= n.limit {
			n.hits = reversed(newestFirst)
			return err
		}
		to = min(to, h.BeginPhyOffset)
	}
	err := gap(n.from)
	n.hits = reversed(newestFirst)
	return err
}

func reversed(hits []index.Hit) []index.Hit {
	slices.Reverse(hits)
	return hits
}

// lastOf is the offset of the file's last record below end; -1 if there is none.
func (s *ReadOnlyStore) lastOf(f *indexfile.File, end int64) (int64, error) {
	if last := f.Header().EndPhyOffset; last < end {
		return last, nil
	}
	last := int64(-1)
	for e, err := range f.Entries() {
		if err != nil {
			return -1, err
		}
		if e.PhyOffset < end {
			last = max(last, e.PhyOffset)
		}
	}
	return last, nil
}

// queryFile adds the hits of one file.
func (s *ReadOnlyStore) queryFile(ctx context.Context, f *indexfile.File, r QueryRequest, n *newest, seen map[int64]bool, hits *[]index.Hit) error {
	begin, end := bounds(r)
	early := begin
	if early > math.MinInt64+1000 {
		early -= 1000 // an entry's time is up to a second earlier than its record's
	}
	show := indexedRecord(s.log)
	for e, err := range f.Hits(r.Topic, r.Key, early, math.MaxInt64) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if seen[e.PhyOffset] || e.PhyOffset < n.from || e.PhyOffset >= n.end {
			continue
		}
		seen[e.PhyOffset] = true
		h := index.Hit{PhyOffset: e.PhyOffset}
		good := false
		if _, err := show(e.PhyOffset, func(m *record.Meta) {
			h.Size, h.StoreTime = m.Size, m.StoreTimestamp
			good = begin <= h.StoreTime && h.StoreTime <= end && index.Holds(m, r.Topic, r.Key)
		}); err != nil {
			return err
		}
		if !good {
			continue
		}
		if *hits = append(*hits, h); len(*hits) == n.limit {
			break
		}
	}
	return nil
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
