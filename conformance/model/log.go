package model

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// AppendToCommitLog takes bytes of a master's log: whole records and blanks, or parts of them. They must start where the log ends; an empty log starts with them.
func (s *Store) AppendToCommitLog(phyOffset int64, p []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return store.ErrClosed
	}
	if !s.began {
		s.began, s.min, s.end = true, s.startOf(phyOffset), phyOffset
	}
	if want := s.end + int64(len(s.tail)); phyOffset != want {
		return &store.OffsetMismatchError{Want: want, Got: phyOffset}
	}
	s.tail = append(s.tail, p...)
	for len(s.tail) > 0 {
		var m record.Meta
		var parser record.Parser
		err := parser.Parse(s.tail, s.end, &m)
		if errors.Is(err, record.ErrIncomplete) || err == nil && m.Size > len(s.tail) { // of a blank its header is enough to parse
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w at %d: %w", store.ErrCorrupt, s.end, err)
		}
		b := slices.Clone(s.tail[:m.Size])
		s.tail = s.tail[m.Size:]
		if m.IsBlank() {
			s.end += int64(m.Size)
			continue
		}
		if err := s.add(b); err != nil {
			return err
		}
	}
	return nil
}

// TruncateTo cuts the log at a record's boundary, as recovery does after a crash: later records and their units go, and their queue offsets are given again.
func (s *Store) TruncateTo(phyOffset int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, _ := slices.BinarySearchFunc(s.records, phyOffset, func(r *rec, o int64) int { return int(r.phyOffset - o) })
	if n > 0 && s.records[n-1].end() > phyOffset || phyOffset < s.min || phyOffset > s.end {
		return fmt.Errorf("truncate to %d: %w", phyOffset, store.ErrNotARecord)
	}
	s.records, s.end, s.tail = s.records[:n:n], phyOffset, nil
	s.lastTime = 0
	if n > 0 {
		s.lastTime = s.records[n-1].m.StoreTimestamp
	}
	for _, q := range s.queues {
		for len(q.units) > 0 && q.units[len(q.units)-1].phyOffset >= phyOffset {
			q.units = q.units[:len(q.units)-1]
		}
		q.min = min(q.min, q.max())
	}
	return nil
}

// Expire deletes the segments that end at or below phyOffset, never the last one, and lets the queues follow (spec/consumequeue-format.md 2.5): files whose last unit points below the log go, never the last one;
// a queue begins with its first unit that has a record, and one that has none is empty at its next offset.
func (s *Store) Expire(phyOffset int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.began && s.min+s.o.SegmentSize <= min(phyOffset, s.startOf(max(s.end-1, 0))) {
		s.min += s.o.SegmentSize
	}
	s.records = slices.DeleteFunc(s.records, func(r *rec) bool { return r.phyOffset < s.min })
	per := s.perFile()
	for _, q := range s.queues {
		for {
			n := (q.first/per+1)*per - q.first // units of the first file
			if n >= int64(len(q.units)) || q.units[n-1].phyOffset >= s.min {
				break
			}
			q.units, q.first = q.units[n:], q.first+n
		}
		q.min = max(q.min, q.first)
		for q.min < q.max() && q.unit(q.min).phyOffset < s.min {
			q.min++
		}
	}
}

// Scan yields copies of a queue's messages from a queue offset on.
func (s *Store) Scan(ctx context.Context, topic string, queueID int32, from int64) iter.Seq2[*record.Message, error] {
	return func(yield func(*record.Message, error) bool) {
		for i := max(from, s.MinOffset(topic, queueID)); ; i++ {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			s.mu.Lock()
			r, err := s.held(topic, queueID, i)
			s.mu.Unlock()
			if err != nil || !yield(r.copy(), nil) {
				return
			}
		}
	}
}

// ScanLog yields copies of the records that start in [fromPhy, toPhy).
func (s *Store) ScanLog(ctx context.Context, fromPhy, toPhy int64) iter.Seq2[*record.Message, error] {
	return func(yield func(*record.Message, error) bool) {
		s.mu.Lock()
		records := slices.Clone(s.records)
		s.mu.Unlock()
		for _, r := range records {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			if r.phyOffset >= fromPhy && r.phyOffset < toPhy && !yield(r.copy(), nil) {
				return
			}
		}
	}
}

// Queues lists all queues, sorted by topic and queue id.
func (s *Store) Queues() []store.QueueInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	var infos []store.QueueInfo
	for _, k := range s.sortedQueues() {
		q := s.queues[k]
		i := store.QueueInfo{Topic: k.topic, QueueID: k.queueID, MinOffset: q.min, MaxOffset: q.max(), Units: q.max() - q.min, MinPhyOffset: -1, MaxPhyOffset: -1}
		if i.Units > 0 {
			i.MinPhyOffset = q.unit(q.min).phyOffset
		}
		if len(q.units) > 0 {
			i.MaxPhyOffset = q.unit(q.max() - 1).end()
		}
		infos = append(infos, i)
	}
	return infos
}
