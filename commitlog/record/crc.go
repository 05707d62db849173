package record

import "hash/crc32"

// crcMask keeps a CRC positive in the original's signed fields.
const crcMask = 0x7FFFFFFF

// BodyCRC is the CRC that a record stores of its body: CRC-32 (IEEE) without its highest bit, 0 of no body. spec/commitlog-format.md 1.6.
func BodyCRC(body []byte) uint32 { return crc32.ChecksumIEEE(body) & crcMask }

// The property CRC of RocketMQ 5 (spec/commitlog-format.md 1.7) is the last property, in a slot of fixed size that the CRC does not cover:
//
//	... 02 | _ _ C R C 3 2 # | 01 | ten decimal digits, the lowest first | 02
const (
	PropertyCRC32 = "__CRC32#"

	crcSlotHead   = PropertyCRC32 + "\x01"
	crcSlotDigits = 10
	crcSlotSize   = len(crcSlotHead) + crcSlotDigits + 1
)

// crcSlot is where p's CRC slot starts; ok is false if p does not end in one.
func crcSlot(p []byte) (start int, ok bool) {
	if len(p) < crcSlotSize || p[len(p)-1] != entryEnd {
		return 0, false
	}
	start = len(p) - crcSlotSize
	if string(p[start:start+len(crcSlotHead)]) != crcSlotHead || start > 0 && p[start-1] != entryEnd {
		return 0, false
	}
	for _, c := range p[start+len(crcSlotHead) : len(p)-1] {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	return start, true
}

// putCRCSlot writes a whole slot over the last bytes of the record b.
func putCRCSlot(b []byte) {
	slot := b[len(b)-crcSlotSize:]
	crc := crc32.ChecksumIEEE(b[:len(b)-crcSlotSize]) & crcMask
	n := copy(slot, crcSlotHead)
	putCRCDigits(slot[n:n+crcSlotDigits], crc)
	slot[len(slot)-1] = entryEnd
}

// putCRCDigits writes crc in decimal, the lowest digit first, over all of b: 123456789 is 9876543210.
func putCRCDigits(b []byte, crc uint32) {
	for i := range b {
		b[i] = '0' + byte(crc%10)
		crc /= 10
	}
}

// getCRCDigits is the inverse; ten digits may be more than any CRC.
func getCRCDigits(b []byte) (crc uint64) {
	for i := len(b) - 1; i >= 0; i-- {
		crc = crc*10 + uint64(b[i]-'0')
	}
	return crc
}

// checkCRCs compares the CRCs of a located record with its bytes.
func checkCRCs(b []byte, l *layout) error {
	stored, crc := be.Uint32(b[posBodyCRC:]), BodyCRC(b[l.body:l.body+l.bodyLen])
	if stored != crc {
		return formatError(ErrCRC, "body CRC", int64(stored), int64(crc))
	}
	if start, ok := crcSlot(b[l.properties:l.size]); ok {
		stored := getCRCDigits(b[l.properties+start+len(crcSlotHead) : l.size-1])
		if crc := crc32.ChecksumIEEE(b[:l.size-crcSlotSize]) & crcMask; stored != uint64(crc) {
			return formatError(ErrCRC, "property CRC", int64(stored), int64(crc))
		}
	}
	return nil
}
