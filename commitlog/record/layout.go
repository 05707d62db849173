package record

import "encoding/binary"

// Magic codes: the second field of every record.
const (
	MagicV1    uint32 = 0xDAA320A7 // a message with a 1-byte topic length
	MagicV2    uint32 = 0xDAA320AB // a message with a 2-byte topic length (RocketMQ 5)
	MagicBlank uint32 = 0xCBD43194 // the rest of a segment file
)

// BlankHeaderSize is how many bytes of an end-of-file blank are written: its size and its magic. A segment keeps at least so many bytes free behind its last record.
const BlankHeaderSize = 8

// Positions in a record, for writing and for reading (see the picture in the package comment). Behind the born host they depend on the two host sizes, so three of them are counted from where a host ends.
const (
	posTotalSize     = 0
	posMagic         = 4
	posBodyCRC       = 8
	posQueueID       = 12
	posFlag          = 16
	posQueueOffset   = 20
	posPhyOffset     = 28
	posSysFlag       = 36
	posBornTimestamp = 40
	posBornHost      = 48

	// From the end of the born host.
	posStoreTimestamp = 0
	posStoreHost      = 8

	// From the end of the store host.
	posReconsumeTimes      = 0
	posPreparedTransaction = 4
	posBodyLength          = 12
	posBody                = 16
)

const (
	hostSizeV4        = 4 + 4  // address, port
	hostSizeV6        = 16 + 4 // address, port
	propertiesLenSize = 2

	// fixedEnd is where the fields end that every record has at the same place.
	fixedEnd = posBornHost
	// minRecordSize is a v1 record with two IPv4 hosts, a topic of one byte, no body and no properties.
	minRecordSize = posBornHost + hostSizeV4 + posStoreHost + hostSizeV4 + posBody + 1 + 1 + propertiesLenSize
)

var be = binary.BigEndian

func get32(b []byte) int32    { return int32(be.Uint32(b)) }
func get64(b []byte) int64    { return int64(be.Uint64(b)) }
func put32(b []byte, v int32) { be.PutUint32(b, uint32(v)) }
func put64(b []byte, v int64) { be.PutUint64(b, uint64(v)) }

// afterBornHost is where the born host ends; it depends on one bit of the system flag.
func afterBornHost(f SysFlag) int { return posBornHost + f.bornHostSize() }

// afterStoreHost is where the store host ends.
func afterStoreHost(f SysFlag) int { return afterBornHost(f) + posStoreHost + f.storeHostSize() }

// topicLenSize is the width of the topic's length: the one difference between the two versions.
func topicLenSize(v Version) int {
	if v == V2 {
		return 2
	}
	return 1
}

// layout is where the parts of one record lie, all of it checked against the record's size.
type layout struct {
	size       int
	magic      uint32
	sysFlag    SysFlag
	afterBorn  int
	afterStore int
	body       int
	bodyLen    int
	topic      int
	topicLen   int
	properties int // properties end where the record ends
}

// anyPhyOffset tells locate not to compare the stored physical offset.
const anyPhyOffset = -1

// locate checks the record at the start of b and fills l. Of a record that b holds only in part it checks what is there: ErrIncomplete means that nothing speaks against the record so far.
func locate(b []byte, phyOffset int64, l *layout) error {
	if len(b) < BlankHeaderSize {
		return ErrIncomplete
	}
	size := int(get32(b[posTotalSize:]))
	l.size = size
	l.magic = be.Uint32(b[posMagic:])
	lenSize := 1
	switch l.magic {
	case MagicV1:
	case MagicV2:
		lenSize = 2
	case MagicBlank:
		if size < BlankHeaderSize {
			return formatError(ErrSize, "size of a blank", int64(size), BlankHeaderSize)
		}
		return nil
	default:
		return formatError(ErrMagic, "magic", int64(l.magic), int64(MagicV1))
	}
	if size < minRecordSize+lenSize-1 {
		return formatError(ErrSize, "total size", int64(size), int64(minRecordSize+lenSize-1))
	}
	if len(b) < fixedEnd {
		return ErrIncomplete
	}
	if phyOffset != anyPhyOffset {
		if stored := get64(b[posPhyOffset:]); stored != phyOffset {
			return formatError(ErrPhyOffset, "physical offset", stored, phyOffset)
		}
	}
	l.sysFlag = SysFlag(get32(b[posSysFlag:]))
	l.afterBorn = afterBornHost(l.sysFlag)
	l.afterStore = afterStoreHost(l.sysFlag)
	l.body = l.afterStore + posBody
	// What the size leaves for body, topic and properties.
	rest := size - l.body - lenSize - propertiesLenSize
	if rest < 1 {
		return formatError(ErrSize, "total size", int64(size), int64(size-rest+1))
	}
	if len(b) < l.body {
		return ErrIncomplete
	}
	l.bodyLen = int(get32(b[l.afterStore+posBodyLength:]))
	rest -= l.bodyLen
	if l.bodyLen < 0 || rest < 1 {
		return formatError(ErrSize, "body length", int64(l.bodyLen), int64(rest+l.bodyLen-1))
	}
	at := l.body + l.bodyLen
	if len(b) < at+lenSize {
		return ErrIncomplete
	}
	if lenSize == 1 {
		l.topicLen = int(int8(b[at]))
	} else {
		l.topicLen = int(int16(be.Uint16(b[at:])))
	}
	l.topic = at + lenSize
	rest -= l.topicLen
	if l.topicLen < 1 || rest < 0 {
		return formatError(ErrSize, "topic length", int64(l.topicLen), int64(rest+l.topicLen))
	}
	at = l.topic + l.topicLen
	if len(b) < at+propertiesLenSize {
		return ErrIncomplete
	}
	if n := int(int16(be.Uint16(b[at:]))); n != rest {
		return formatError(ErrSize, "properties length", int64(n), int64(rest))
	}
	l.properties = at + propertiesLenSize
	if len(b) < size {
		return ErrIncomplete
	}
	return nil
}

// PutBlank writes the 8-byte header of an end-of-file blank to b; size bytes remain from there to the end of the file. What follows the header in the file has no meaning and stays as it is.
func PutBlank(b []byte, size int) {
	put32(b[posTotalSize:], int32(size))
	be.PutUint32(b[posMagic:], MagicBlank)
}

// StoreTimestamp reads the store time (ms) from the start of a record without checking the rest of it; b may be a part of the record.
// Errors: ErrMagic for anything but a message (a blank has no store time), ErrIncomplete if the field is not in b.
func StoreTimestamp(b []byte) (int64, error) {
	if len(b) < BlankHeaderSize {
		return 0, ErrIncomplete
	}
	if magic := be.Uint32(b[posMagic:]); magic != MagicV1 && magic != MagicV2 {
		return 0, formatError(ErrMagic, "magic", int64(magic), int64(MagicV1))
	}
	if len(b) < fixedEnd {
		return 0, ErrIncomplete
	}
	at := afterBornHost(SysFlag(get32(b[posSysFlag:]))) + posStoreTimestamp
	if len(b) < at+8 {
		return 0, ErrIncomplete
	}
	return get64(b[at:]), nil
}
