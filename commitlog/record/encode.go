package record

import (
	"bytes"
	"slices"
)

// AppendRecord appends the record of m, with its QueueOffset, PhyOffset and StoreTimestamp as they stand, to dst and sets m.BodyCRC, m.Size and the v6 bits of m.SysFlag. It does not allocate if dst has room.
//
// Properties are written as they are; a property CRC that they end in (Limits.PropertyCRC puts one there) is made right for this record. m.Body and m.Properties must not overlap the free part of dst.
//
// The errors are those of Check; dst and m are then unchanged.
func AppendRecord(dst []byte, m *Message, l Limits) ([]byte, error) {
	p, err := m.check(&l)
	if err != nil {
		return dst, err
	}
	n := len(dst)
	dst = slices.Grow(dst, p.size)[:n+p.size]
	b := dst[n:]
	m.SysFlag, m.Size, m.BodyCRC = p.sysFlag, p.size, BodyCRC(m.Body)

	magic := MagicV1
	if p.version == V2 {
		magic = MagicV2
	}
	put32(b[posTotalSize:], int32(p.size))
	be.PutUint32(b[posMagic:], magic)
	be.PutUint32(b[posBodyCRC:], m.BodyCRC)
	put32(b[posQueueID:], m.QueueID)
	put32(b[posFlag:], m.Flag)
	put64(b[posQueueOffset:], m.QueueOffset)
	put64(b[posPhyOffset:], m.PhyOffset)
	put32(b[posSysFlag:], int32(p.sysFlag))
	put64(b[posBornTimestamp:], m.BornTimestamp)
	born := afterBornHost(p.sysFlag)
	putHost(b[posBornHost:born], m.BornHost)
	put64(b[born+posStoreTimestamp:], m.StoreTimestamp)
	stored := afterStoreHost(p.sysFlag)
	putHost(b[born+posStoreHost:stored], m.StoreHost)
	put32(b[stored+posReconsumeTimes:], m.ReconsumeTimes)
	put64(b[stored+posPreparedTransaction:], m.PreparedTransactionOffset)
	put32(b[stored+posBodyLength:], int32(len(m.Body)))
	at := stored + posBody
	at += copy(b[at:], m.Body)
	if p.version == V2 {
		be.PutUint16(b[at:], uint16(len(m.Topic)))
	} else {
		b[at] = byte(len(m.Topic))
	}
	at += topicLenSize(p.version)
	at += copy(b[at:], m.Topic)
	be.PutUint16(b[at:], uint16(p.propertiesLen))
	at += propertiesLenSize
	if p.addCRC {
		putWithCRC(b, at, m.Properties)
	} else {
		copy(b[at:], m.Properties)
		if _, ok := crcSlot(b[at:]); ok {
			putCRCSlot(b)
		}
	}
	return dst, nil
}

// Patch writes the three fields that are known only under the append lock into the encoded record b (exactly one record, made by AppendRecord), and makes its property CRC right again if it has one.
func Patch(b []byte, queueOffset, phyOffset, storeTimestamp int64) {
	f := SysFlag(get32(b[posSysFlag:]))
	put64(b[posQueueOffset:], queueOffset)
	put64(b[posPhyOffset:], phyOffset)
	put64(b[afterBornHost(f)+posStoreTimestamp:], storeTimestamp)
	if hasCRCSlot(b, f) {
		putCRCSlot(b)
	}
}

// hasCRCSlot reports whether the properties of a record end in a property CRC. The style of 4.9.8 ends in no separator, so mostly one byte tells.
func hasCRCSlot(b []byte, f SysFlag) bool {
	if b[len(b)-1] != entryEnd {
		return false
	}
	stored := afterStoreHost(f)
	at := stored + posBody + int(get32(b[stored+posBodyLength:]))
	if be.Uint32(b[posMagic:]) == MagicV2 {
		at += 2 + int(be.Uint16(b[at:]))
	} else {
		at += 1 + int(b[at])
	}
	_, ok := crcSlot(b[at+propertiesLenSize:])
	return ok
}

// crcParts yields the pieces of p to keep in front of a new CRC slot: everything but property CRCs that are there already.
func crcParts(p Properties, yield func(piece []byte) bool) {
	if !bytes.Contains(p, []byte(crcSlotHead)) {
		if len(p) > 0 {
			yield(p)
		}
		return
	}
	p.entries(func(raw, _, _ []byte) bool {
		return bytes.HasPrefix(raw, []byte(crcSlotHead)) || yield(raw)
	})
}

// sizeWithCRC is how long p becomes when it gets a new CRC slot.
func sizeWithCRC(p Properties) int {
	n, last := 0, byte(entryEnd)
	crcParts(p, func(piece []byte) bool {
		n, last = n+len(piece), piece[len(piece)-1]
		return true
	})
	if last != entryEnd {
		n++
	}
	return n + crcSlotSize
}

// putWithCRC writes p and a CRC slot to b[at:], which they fill; b is a whole record but for them.
func putWithCRC(b []byte, at int, p Properties) {
	crcParts(p, func(piece []byte) bool {
		at += copy(b[at:], piece)
		return true
	})
	if at < len(b)-crcSlotSize {
		b[at] = entryEnd
	}
	putCRCSlot(b)
}
