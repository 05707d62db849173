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
	for i := range crcSlotDigits {
		slot[n+i] = '0' + byte(crc%10)
		crc /= 10
	}
	slot[len(slot)-1] = entryEnd
}

// checkCRCs compares the CRCs of a located record with its bytes.
func checkCRCs(b []byte, l *layout) error {
	stored, crc := be.Uint32(b[posBodyCRC:]), BodyCRC(b[l.body:l.body+l.bodyLen])
	if stored != crc {
		return formatError(ErrCRC, "body CRC", int64(stored), int64(crc))
	}
	if start, ok := crcSlot(b[l.properties:l.size]); ok {
		var stored uint64
		digits := b[l.properties+start+len(crcSlotHead) : l.size-1]
		for i := len(digits) - 1; i >= 0; i-- {
			stored = stored*10 + uint64(digits[i]-'0')
		}
		if crc := crc32.ChecksumIEEE(b[:l.size-crcSlotSize]) & crcMask; stored != uint64(crc) {
			return formatError(ErrCRC, "property CRC", int64(stored), int64(crc))
		}
	}
	return nil
}
