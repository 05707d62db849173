package commitlog

import (
	"encoding/binary"

	"github.com/mqstore/mqstore/commitlog/record"
)

// Positions in a record that are read without parsing it (spec/commitlog-format.md 1.3).
const (
	posSize       = 0
	posMagic      = 4
	posPhyOffset  = 28
	posSysFlag    = 36
	posBornHost   = 48
	hostV4        = 8
	hostV6        = 20
	headerPeek    = posBornHost + hostV6 + 8 // enough to read a store time whatever the host's family
	minRecordSize = 91                       // v1, two IPv4 hosts, nothing in it
)

// header is what the log reads of a record without parsing it. Nothing in it is verified.
type header struct {
	size      int
	magic     uint32
	phyOffset int64
	storeTime int64
}

func (h header) isMessage() bool { return h.magic == record.MagicV1 || h.magic == record.MagicV2 }
func (h header) isBlank() bool   { return h.magic == record.MagicBlank }

// peekSize reads totalSize and magic; b holds at least 8 bytes.
func peekSize(b []byte) (size int, magic uint32) {
	return int(int32(binary.BigEndian.Uint32(b[posSize:]))), binary.BigEndian.Uint32(b[posMagic:])
}

// peek reads the header of the record at the start of b; ok is false when b is too short for it. The fields behind magic are read for message records only.
func peek(b []byte) (h header, ok bool) {
	if len(b) < record.BlankHeaderSize {
		return h, false
	}
	h.size, h.magic = peekSize(b)
	if !h.isMessage() {
		return h, true
	}
	if len(b) < headerPeek {
		return h, false
	}
	host := hostV4
	if record.SysFlag(binary.BigEndian.Uint32(b[posSysFlag:]))&record.FlagBornHostV6 != 0 {
		host = hostV6
	}
	h.phyOffset = int64(binary.BigEndian.Uint64(b[posPhyOffset:]))
	h.storeTime = int64(binary.BigEndian.Uint64(b[posBornHost+host:]))
	return h, true
}

// walk jumps from header to header through b, which starts at a record boundary at phyOffset and reaches at most to the segment's
// end segEnd, and stops at upTo, at the first byte that no whole record covers, or behind a blank. It returns the boundary at which
// it stopped, the last store time seen (0 if none), and whether what stopped it can not be a record, however many bytes follow.
func walk(b []byte, phyOffset, segEnd, upTo int64) (boundary, storeTime int64, bad bool) {
	for phyOffset < upTo {
		h, ok := peek(b)
		rest := segEnd - phyOffset
		switch {
		case !ok:
			// What is there of the header can already be wrong.
			if len(b) >= record.BlankHeaderSize && (int64(h.size) > rest || h.size < minRecordSize) {
				return phyOffset, storeTime, true
			}
			return phyOffset, storeTime, false
		case h.isBlank():
			if int64(h.size) != rest {
				return phyOffset, storeTime, true
			}
			if int64(len(b)) < rest {
				return phyOffset, storeTime, false
			}
			return segEnd, storeTime, false
		case !h.isMessage() || h.size < minRecordSize || int64(h.size) > rest || h.phyOffset != phyOffset:
			return phyOffset, storeTime, true
		case h.size > len(b):
			return phyOffset, storeTime, false
		}
		storeTime = h.storeTime
		phyOffset += int64(h.size)
		b = b[h.size:]
	}
	return phyOffset, storeTime, false
}
