package model

import (
	"context"

	"github.com/mqstore/mqstore/store"
)

const (
	minScanBytes       = 16000
	defaultMaxMessages = 32
)

// Get is spec/dispatch-and-read.md 5.3.
func (s *Store) Get(ctx context.Context, r store.GetRequest) (*store.GetResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.closed {
		return nil, store.ErrClosed
	}
	s.gets++
	res := s.get(r)
	if res.Status != store.Found {
		s.misses++
	}
	return res, nil
}

func (s *Store) get(r store.GetRequest) *store.GetResult {
	q := s.queue(r.Topic, r.QueueID)
	if q == nil {
		q = &queue{}
	}
	lo, hi := q.min, q.max()
	answer := func(status store.GetStatus, next int64) *store.GetResult {
		if s.o.Role == store.Slave && !s.o.OffsetCheckInSlave {
			next = r.Offset
		}
		return &store.GetResult{Status: status, NextBeginOffset: next, MinOffset: lo, MaxOffset: hi}
	}
	switch {
	case hi == 0:
		return answer(store.NoMessageInQueue, 0)
	case r.Offset < lo:
		return answer(store.OffsetTooSmall, lo)
	case r.Offset == hi:
		return answer(store.OffsetOverflowOne, hi)
	case r.Offset > hi:
		return answer(store.OffsetOverflowBadly, hi)
	}

	maxMessages := r.MaxMessages
	if maxMessages == 0 {
		maxMessages = defaultMaxMessages
	}
	scanBytes := int64(max(minScanBytes, min(maxMessages, 1<<40)*unitSize))
	fileEnd := (r.Offset/s.perFile() + 1) * s.perFile()
	memory := s.o.MemorySize * int64(s.o.AccessInMemoryMaxRatio) / 100

	res := &store.GetResult{Status: store.NoMatchedMessage, MinOffset: lo, MaxOffset: hi}
	var lastPhy int64
	i := r.Offset
	for ; i < hi && i < fileEnd && (i-r.Offset)*unitSize < scanBytes; i++ {
		u := q.unit(i)
		lastPhy = u.phyOffset
		inDisk := s.end-u.phyOffset > memory
		if n := len(res.Records); n > 0 {
			maxBytes, maxCount := s.o.MaxTransferBytesInMemory, s.o.MaxTransferMessagesInMemory
			if inDisk {
				maxBytes, maxCount = s.o.MaxTransferBytesInDisk, s.o.MaxTransferMessagesInDisk
			}
			if n >= maxMessages || n >= maxCount || res.Bytes+len(u.bytes) > maxBytes {
				break
			}
		}
		if r.Filter != nil && (!r.Filter.MatchUnit(u.tagsCode, true, nil) || !r.Filter.MatchRecord(u.bytes)) {
			continue
		}
		res.Records = append(res.Records, store.NewView(u.bytes, u.phyOffset, nil))
		res.QueueOffsets = append(res.QueueOffsets, i)
		res.Bytes += len(u.bytes)
		res.Status = store.Found
	}
	res.NextBeginOffset = i
	res.SuggestSlave = s.end-lastPhy > memory
	return res
}
