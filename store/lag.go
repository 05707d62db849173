package store

import (
	"bytes"
	"encoding/binary"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
)

// lagTime is for how long the oldest message that a slave with the log up to ack lacks has been in the log.
func (s *DefaultMessageStore) lagTime(ack int64) time.Duration {
	end := s.log.MaxPhyOffset()
	if ack >= end {
		return 0
	}
	stored, ok := s.storedAfter(max(ack, s.log.MinPhyOffset()), end)
	if !ok {
		return 0 // nothing but a blank
	}
	return max(0, s.o.Now().Sub(stored))
}

// storedAfter is the store time of the first record that is not wholly below phyOffset, or nearly: where that lies inside a record, of the next one, and of the last one if there is none.
func (s *DefaultMessageStore) storedAfter(phyOffset, end int64) (time.Time, bool) {
	c := s.log.NewCursor(phyOffset)
	defer c.Close()
	var m record.Meta
	if c.Next(&m, end) == nil {
		return time.UnixMilli(m.StoreTimestamp), true
	}
	if at := s.recordAfter(phyOffset, end, &m); at >= 0 {
		return time.UnixMilli(m.StoreTimestamp), true
	}
	if at := s.lastRecord(end); at >= 0 && at < phyOffset {
		c.SeekTo(at)
		if c.Next(&m, end) == nil && m.PhyOffset+int64(m.Size) > phyOffset {
			return time.UnixMilli(m.StoreTimestamp), true
		}
	}
	return time.Time{}, false
}

// recordAfter looks for the first record that begins beyond phyOffset in its segment, not further away than one record reaches; -1 if there is none. That bytes look like one by chance is ruled out by the place that each record names.
func (s *DefaultMessageStore) recordAfter(phyOffset, end int64, m *record.Meta) int64 {
	const posMagic = 4
	v, err := s.log.ViewRest(phyOffset)
	if err != nil {
		return -1
	}
	defer v.Release()
	b := v.Bytes[:min(int64(len(v.Bytes)), end-phyOffset)]
	reach := min(len(b), s.o.MaxMessageSize+128<<10)
	var p record.Parser
	for _, magic := range []uint32{record.MagicV1, record.MagicV2} {
		word := binary.BigEndian.AppendUint32(nil, magic)
		for at := 0; ; at++ {
			next := bytes.Index(b[at:reach], word)
			if next < 0 {
				break
			}
			at += next
			if start := at - posMagic; start > 0 && p.Parse(b[start:], phyOffset+int64(start), m) == nil {
				return phyOffset + int64(start)
			}
		}
	}
	return -1
}
