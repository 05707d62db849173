package model

import (
	"fmt"
	"strings"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// MinOffset is the first queue offset held; 0 for an unknown queue.
func (s *Store) MinOffset(topic string, queueID int32) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.queue(topic, queueID); q != nil {
		return q.min
	}
	return 0
}

// MaxOffset is one past the last queue offset; 0 for an unknown queue.
func (s *Store) MaxOffset(topic string, queueID int32) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.queue(topic, queueID); q != nil {
		return q.max()
	}
	return 0
}

// held is the record of a queue offset.
func (s *Store) held(topic string, queueID int32, queueOffset int64) (*rec, error) {
	q := s.queue(topic, queueID)
	if q == nil || !q.holds(queueOffset) {
		return nil, fmt.Errorf("%s/%d at %d: %w", topic, queueID, queueOffset, store.ErrNotFound)
	}
	return q.unit(queueOffset), nil
}

// StoreTime is when the message at queueOffset was stored.
func (s *Store) StoreTime(topic string, queueID int32, queueOffset int64) (time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.held(topic, queueID, queueOffset)
	if err != nil {
		return time.Time{}, err
	}
	return time.UnixMilli(r.m.StoreTimestamp), nil
}

// PhyOffset is where the record of the message at queueOffset lies.
func (s *Store) PhyOffset(topic string, queueID int32, queueOffset int64) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.held(topic, queueID, queueOffset)
	if err != nil {
		return 0, err
	}
	return r.phyOffset, nil
}

// EarliestStoreTime is when the first message held by the queue was stored.
func (s *Store) EarliestStoreTime(topic string, queueID int32) (time.Time, error) {
	return s.StoreTime(topic, queueID, s.MinOffset(topic, queueID))
}

// MinPhyOffset is where the log begins; -1 if it is empty.
func (s *Store) MinPhyOffset() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.minPhyOffset()
}

func (s *Store) minPhyOffset() int64 {
	if !s.began {
		return -1
	}
	return s.min
}

// MaxPhyOffset is where the log ends.
func (s *Store) MaxPhyOffset() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end + int64(len(s.tail))
}

// OffsetByTime is spec/consumequeue-format.md 2.8.
func (s *Store) OffsetByTime(topic string, queueID int32, t time.Time, rule store.TimeRule) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queue(topic, queueID)
	if q == nil {
		return 0, nil
	}
	ms := t.UnixMilli()
	timeOf := func(i int64) int64 { return q.unit(i).m.StoreTimestamp }
	switch {
	case q.min == q.max():
		return q.max(), nil
	case rule == store.Lower: // the first at or after
		i := q.min
		for i < q.max() && timeOf(i) < ms {
			i++
		}
		return i, nil
	case rule == store.Upper: // the last at or before
		i := q.max() - 1
		for i > q.min && timeOf(i) > ms {
			i--
		}
		return i, nil
	}
	return s.nearest(q, ms, timeOf), nil
}

// nearest is 4.9.8's search in one file: of several messages of that very time it answers the one that its halving meets.
func (s *Store) nearest(q *queue, ms int64, timeOf func(int64) int64) int64 {
	per := s.perFile()
	// The first file whose last message is not older, else the last file.
	start := q.min / per * per
	for start+per < q.max() && timeOf(start+per-1) < ms {
		start += per
	}
	low, high := max(q.min, start), min(q.max(), start+per)-1
	left, right := int64(-1), int64(-1)
	for low <= high {
		mid := start + (low-start+high-start)/2
		switch t := timeOf(mid); {
		case t == ms:
			return mid
		case t > ms:
			high, right = mid-1, mid
		default:
			low, left = mid+1, mid
		}
	}
	switch {
	case left < 0:
		return right
	case right < 0:
		return left
	case ms-timeOf(left) <= timeOf(right)-ms:
		return left
	}
	return right
}

// Lookup is the record at phyOffset; 0 finds the first of the log.
func (s *Store) Lookup(phyOffset int64) (*record.Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, store.ErrClosed
	}
	if phyOffset == 0 && s.began {
		phyOffset = s.min
	}
	if !s.began || phyOffset < s.min || phyOffset >= s.end {
		return nil, fmt.Errorf("look up %d: %w", phyOffset, store.ErrNotFound)
	}
	r := s.at(phyOffset)
	if r == nil {
		return nil, fmt.Errorf("look up %d: %w", phyOffset, store.ErrNotARecord)
	}
	return r.copy(), nil
}

// copy decodes r's bytes again, from a copy.
func (r *rec) copy() *record.Message {
	m, err := record.Decode(append([]byte(nil), r.bytes...))
	if err != nil {
		panic(err) // it was decoded when it came
	}
	return m
}

// LookupID is Lookup by offset message id.
func (s *Store) LookupID(messageID string) (*record.Message, error) {
	_, phyOffset, err := record.ParseOffsetMessageID(messageID)
	if err != nil {
		return nil, fmt.Errorf("look up message id %q: %w: %w", messageID, store.ErrNotFound, err)
	}
	m, err := s.Lookup(phyOffset)
	if err == nil && !strings.EqualFold(m.OffsetMessageID(), messageID) {
		return nil, fmt.Errorf("look up message id %q: %w", messageID, store.ErrNotFound)
	}
	return m, err
}
