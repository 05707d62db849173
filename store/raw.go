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
	segment := s.log.SegmentSize()
	end := s.log.MaxPhyOffset()
	if held := len(s.rawPart); held > 0 {
		if phyOffset != end+int64(held) {
			return &commitlog.OffsetMismatchError{Want: end + int64(held), Got: phyOffset}
		}
		n := completing(s.rawPart, p)
		s.rawPart = append(s.rawPart, p[:n]...)
		if wholeRecords(s.rawPart, end, segment) == 0 {
			s.rawEnd.Store(end + int64(len(s.rawPart)))
			return nil
		}
		s.rawBegun.Store(end + int64(len(s.rawPart)))
		if err := s.log.AppendRaw(end, s.rawPart); err != nil {
			s.rawPart = s.rawPart[:held]
			return s.rawFailed(end, err)
		}
		s.rawPart = s.rawPart[:0]
		p = p[n:]
		end = s.log.MaxPhyOffset()
		s.rawEnd.Store(end)
		phyOffset = end
	}
	n := wholeRecords(p, phyOffset, segment)
	s.rawBegun.Store(phyOffset + int64(n))
	if err := s.log.AppendRaw(phyOffset, p[:n]); err != nil {
		return s.rawFailed(end, err)
	}
	s.rawPart = append(s.rawPart[:0], p[n:]...)
	if len(s.rawPart) == 0 && cap(s.rawPart) > keptHold {
		s.rawPart = nil
	}
	s.rawEnd.Store(s.log.MaxPhyOffset() + int64(len(s.rawPart)))
	return nil
}

// rawFailed keeps what is held in step with a log that ended at before, and perhaps took a part of what it was given.
func (s *DefaultMessageStore) rawFailed(before int64, err error) error {
	now := s.log.MaxPhyOffset()
	s.rawBegun.Store(now)
	if now != before {
		s.rawPart = nil // it is behind what was not appended
		s.rawEnd.Store(now)
	}
	return err
}

// completing is how many bytes of p belong to the record that part begins, all of them if that cannot be told.
func completing(part, p []byte) int {
	var size [4]byte
	if n := copy(size[:], part); copy(size[n:], p) < len(size)-n {
		return len(p)
	}
	n := int64(int32(binary.BigEndian.Uint32(size[:]))) - int64(len(part))
	if n <= 0 || len(part)+len(p) < record.BlankHeaderSize {
		return len(p)
	}
	return int(min(max(n, int64(record.BlankHeaderSize-len(part))), int64(len(p))))
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
