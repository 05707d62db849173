package model

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// AppendToCommitLog takes bytes of a master's log: whole records and blanks, or parts of them. They must start where the log ends; an empty log starts with them, if they begin a segment.
func (s *Store) AppendToCommitLog(phyOffset int64, p []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return store.ErrClosed
	}
	if !s.began && len(s.tail) == 0 && phyOffset >= 0 {
		if start := s.startOf(phyOffset); phyOffset != start {
			return &store.OffsetMismatchError{Want: start, Got: phyOffset}
		}
		s.min, s.end = phyOffset, phyOffset
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
		s.began = true
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

// CommitLogData is a copy of the log's bytes from phyOffset on, to the end of that segment and at most max (0: no bound); offset 0 finds the log's beginning. Bytes that are no whole record yet are left out.
func (s *Store) CommitLogData(phyOffset int64, max int) (store.View, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return store.View{}, store.ErrClosed
	}
	if phyOffset == 0 {
		phyOffset = s.min
	}
	if !s.began || phyOffset < s.min || phyOffset >= s.end {
		return store.View{}, fmt.Errorf("log data at %d: %w", phyOffset, store.ErrNotFound)
	}
	start := s.startOf(phyOffset)
	b := make([]byte, min(s.end-start, s.o.SegmentSize))
	end := start // of the last record in this segment
	for _, r := range s.records {
		if r.phyOffset >= start && r.end() <= start+s.o.SegmentSize {
			copy(b[r.phyOffset-start:], r.bytes)
			end = r.end()
		}
	}
	if rest := b[end-start:]; len(rest) >= blankSize {
		binary.BigEndian.PutUint32(rest, uint32(len(rest)))
		binary.BigEndian.PutUint32(rest[4:], record.MagicBlank)
	}
	b = b[phyOffset-start:]
	if max > 0 && len(b) > max {
		b = b[:max]
	}
	return store.NewView(b, phyOffset, nil), nil
}

// SetRole changes the role. A slave that becomes a master gives up the beginning of a record that has not all come.
func (s *Store) SetRole(role store.Role) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.o.Role, s.tail = role, nil
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

// Renumber says where the queues go on that have no message any more, after a crash: at next, or at 0 if they are not named. A queue that has messages cannot be renumbered, and none can go beyond what it was.
func (s *Store) Renumber(next func(topic string, queueID int32) int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, q := range s.queues {
		n := next(k.topic, k.queueID)
		switch {
		case q.min < q.max() && n != 0:
			return fmt.Errorf("%s/%d holds [%d, %d) and cannot be empty at %d", k.topic, k.queueID, q.min, q.max(), n)
		case q.min < q.max():
		case n > q.next:
			return fmt.Errorf("%s/%d was at %d and cannot go on at %d", k.topic, k.queueID, q.next, n)
		default:
			*q = queue{first: n, min: n, next: n}
		}
	}
	return nil
}

// Expire deletes the segments that end at or below phyOffset, never the one that is written, and lets the queues follow (spec/consumequeue-format.md 2.5): files whose last unit points below the log go, never the last one;
// a queue begins with its first unit that has a record, and one that has none is empty at its next offset.
func (s *Store) Expire(phyOffset int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.began && s.min+s.o.SegmentSize <= min(phyOffset, s.startOf(s.end)) {
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
