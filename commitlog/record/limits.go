package record

import (
	"fmt"
	"math"
)

const (
	// DefaultMaxMessageSize is the original's maxMessageSize: the longest body.
	DefaultMaxMessageSize = 4 << 20

	recordAllowance    = 64 << 10 // what a whole record may have over the longest body
	maxRecordSize      = math.MaxInt32
	maxPropertiesBytes = math.MaxInt16
	maxTopicBytesV1    = math.MaxInt8
	maxTopicBytesV2    = math.MaxUint8 // RocketMQ 5's own limit; the field would hold more
)

// Limits of a record that is to be written, and in which forms it may be. The zero value is RocketMQ 4.9.8's. Reading has no limits but the format's own.
type Limits struct {
	MaxMessageSize int  // body bytes, default 4 MiB; the whole record may have 64 KiB more
	AllowV2        bool // topics of 128..255 bytes are written as v2 instead of being refused. RocketMQ 4.9.8 cannot read such a record
	PropertyCRC    bool // every record ends in RocketMQ 5's property CRC: 20 bytes of its properties, and a CRC of the whole record with each Patch
}

func (l *Limits) maxBody() int64 {
	if l.MaxMessageSize <= 0 {
		return DefaultMaxMessageSize
	}
	return int64(l.MaxMessageSize)
}

func (l *Limits) maxRecord() int64 {
	if n := l.maxBody(); n < maxRecordSize-recordAllowance {
		return n + recordAllowance
	}
	return maxRecordSize
}

// plan is what has to be known of a message before its first byte is written.
type plan struct {
	size          int
	version       Version
	sysFlag       SysFlag // with the v6 bits
	propertiesLen int
	addCRC        bool // a property CRC slot is made behind the message's properties
}

// check finds the first limit that m breaks, or how m is written.
func (m *Message) check(l *Limits) (p plan, err error) {
	switch n := len(m.Topic); {
	case n == 0:
		return p, ErrTopicEmpty
	case n > maxTopicBytesV2:
		return p, fmt.Errorf("%w: %d bytes, at most %d even in version 2", ErrTopicTooLong, n, maxTopicBytesV2)
	case n > maxTopicBytesV1 && !l.AllowV2:
		return p, fmt.Errorf("%w: %d bytes of UTF-8, at most %d in version 1 (%d with AllowV2)", ErrTopicTooLong, n, maxTopicBytesV1, maxTopicBytesV2)
	case n > maxTopicBytesV1:
		p.version = V2
	default:
		p.version = V1
	}
	switch m.Version {
	case 0, V1:
	case V2:
		if !l.AllowV2 {
			return p, fmt.Errorf("%w: %d is asked for, at most %d without AllowV2", ErrVersion, m.Version, V1)
		}
		p.version = V2
	default:
		return p, fmt.Errorf("%w: %d is asked for, at most %d is known", ErrVersion, m.Version, V2)
	}
	p.propertiesLen = len(m.Properties)
	if l.PropertyCRC {
		p.addCRC = true
		p.propertiesLen = sizeWithCRC(m.Properties)
	}
	if p.propertiesLen > maxPropertiesBytes {
		return p, fmt.Errorf("%w: %d bytes, at most %d", ErrPropertiesTooLong, p.propertiesLen, maxPropertiesBytes)
	}
	if n := int64(len(m.Body)); n > l.maxBody() {
		return p, fmt.Errorf("%w: %d bytes, at most %d (MaxMessageSize)", ErrBodyTooLong, n, l.maxBody())
	}
	if p.sysFlag, err = hostFlag(m.BornHost, m.SysFlag, FlagBornHostV6, "born host"); err != nil {
		return p, err
	}
	if p.sysFlag, err = hostFlag(m.StoreHost, p.sysFlag, FlagStoreHostV6, "store host"); err != nil {
		return p, err
	}
	size := int64(afterStoreHost(p.sysFlag)+posBody+topicLenSize(p.version)+len(m.Topic)+propertiesLenSize+p.propertiesLen) + int64(len(m.Body))
	if err := l.checkSize(size); err != nil {
		return p, err
	}
	p.size = int(size)
	return p, nil
}

func (l *Limits) checkSize(size int64) error {
	if most := l.maxRecord(); size > most {
		return fmt.Errorf("%w: %d bytes, at most %d (MaxMessageSize and 64 KiB)", ErrRecordTooLong, size, most)
	}
	return nil
}

// Check reports the first limit that m breaks: ErrTopicEmpty, ErrTopicTooLong, ErrVersion, ErrPropertiesTooLong, ErrBodyTooLong, ErrHost (the system flag's bits and the addresses disagree, or an address has a zone) or ErrRecordTooLong.
// The error says the value and the limit.
func (m *Message) Check(l Limits) error {
	_, err := m.check(&l)
	return err
}

// EncodedSize is how many bytes AppendRecord will append for m, or the error that it will return.
func (m *Message) EncodedSize(l Limits) (int, error) {
	p, err := m.check(&l)
	return p.size, err
}
