package store

import (
	"encoding/binary"

	"github.com/mqstore/mqstore/commitlog"
	"github.com/mqstore/mqstore/commitlog/record"
)

const (
	// maxHeldRecord bounds what is held back in memory of one record: a header that says more is passed on as it is.
	maxHeldRecord = 64 << 20
	// keptHold is how large the buffer of held bytes may stay when it is empty.
	keptHold = 1 << 20
)

// appendRaw passes whole records to the log and holds back the beginning of one that has not all come. In the log it could become durable by a flush that other records
// asked for, and a power loss in the midst of a later one could then leave the beginning of a page as it was and its successor as it became: a record with zeros in its
// header or properties, which no checksum covers. What is held counts as received (MaxPhyOffset) and is lost with the process, as unflushed bytes are with the machine.
//
// The caller holds rawMu.
func (s *DefaultMessageStore) appendRaw(phyOffset int64, p []byte) error {
	end := s.log.MaxPhyOffset()
	if held := len(s.rawPart); held > 0 {
		if phyOffset != end+int64(held) {
			return &commitlog.OffsetMismatchError{Want: end + int64(held), Got: phyOffset}
		}
		p = append(s.rawPart, p...)
		phyOffset = end
	}
	n := wholeRecords(p, phyOffset, s.log.SegmentSize())
	if err := s.log.AppendRaw(phyOffset, p[:n]); err != nil {
		if now := s.log.MaxPhyOffset(); now != end {
			s.rawPart = nil // it is behind what was not appended
			s.rawEnd.Store(now)
		}
		return err
	}
	s.rawPart = append(s.rawPart[:0], p[n:]...)
	if len(s.rawPart) == 0 && cap(s.rawPart) > keptHold {
		s.rawPart = nil
	}
	s.rawEnd.Store(s.log.MaxPhyOffset() + int64(len(s.rawPart)))
	return nil
}

// wholeRecords is the length of the whole records and end-of-file blanks at the start of p, which lies at phyOffset. Bytes that no record begins with are passed on:
// they are damage for whoever reads them.
func wholeRecords(p []byte, phyOffset, segmentSize int64) int {
	const posMagic = 4
	at := 0
	for len(p)-at >= record.BlankHeaderSize {
		size := int64(int32(binary.BigEndian.Uint32(p[at:])))
		rest := segmentSize - (phyOffset+int64(at))%segmentSize
		switch magic := binary.BigEndian.Uint32(p[at+posMagic:]); {
		case size < record.BlankHeaderSize || size > rest || size > maxHeldRecord:
			return len(p)
		case magic == record.MagicBlank && size != rest, magic != record.MagicBlank && magic != record.MagicV1 && magic != record.MagicV2:
			return len(p)
		case size > int64(len(p)-at):
			return at
		}
		at += int(size)
	}
	return at
}

// MaxPhyOffset is the log's end, and on a slave what it has received of its master: AppendToCommitLog goes on there. The beginning of a record that has not all come is
// counted, though nobody can read it yet.
func (s *DefaultMessageStore) MaxPhyOffset() int64 { return max(s.log.MaxPhyOffset(), s.rawEnd.Load()) }
