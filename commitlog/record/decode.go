package record

import "strings"

// Decode reads the record at the start of b, which may be longer, and checks all of it but where it lies: sizes, the body's CRC, and the property CRC where there is one. The message's Body and Properties are views of b; its PhyOffset is the stored one.
//
// Errors are those of Parser.Parse; a blank is ErrMagic. With ErrCRC the message is returned all the same, for those who want to look at the damage.
//
// AppendRecord of a decoded message gives the same bytes (for a v2 record, with Limits.AllowV2).
func Decode(b []byte) (*Message, error) {
	var l layout
	if err := locate(b, anyPhyOffset, &l); err != nil {
		return nil, err
	}
	if l.magic == MagicBlank {
		return nil, formatError(ErrMagic, "magic", int64(l.magic), int64(MagicV1))
	}
	m := &Message{
		Version:                   V1,
		Topic:                     string(b[l.topic : l.topic+l.topicLen]),
		QueueID:                   get32(b[posQueueID:]),
		Flag:                      get32(b[posFlag:]),
		SysFlag:                   l.sysFlag,
		BornTimestamp:             get64(b[posBornTimestamp:]),
		BornHost:                  getHost(b[posBornHost:l.afterBorn]),
		StoreHost:                 getHost(b[l.afterBorn+posStoreHost : l.afterStore]),
		ReconsumeTimes:            get32(b[l.afterStore+posReconsumeTimes:]),
		PreparedTransactionOffset: get64(b[l.afterStore+posPreparedTransaction:]),
		Body:                      b[l.body : l.body+l.bodyLen : l.body+l.bodyLen],
		Properties:                Properties(b[l.properties:l.size:l.size]),
		StoreTimestamp:            get64(b[l.afterBorn+posStoreTimestamp:]),
		QueueOffset:               get64(b[posQueueOffset:]),
		PhyOffset:                 get64(b[posPhyOffset:]),
		BodyCRC:                   be.Uint32(b[posBodyCRC:]),
		Size:                      l.size,
	}
	if l.magic == MagicV2 {
		m.Version = V2
	}
	return m, checkCRCs(b, &l)
}

// Clone is a copy of m that shares no bytes with it.
func (m *Message) Clone() *Message {
	c := *m
	c.Topic = strings.Clone(m.Topic)
	c.Body = append([]byte(nil), m.Body...)
	c.Properties = append(Properties(nil), m.Properties...)
	return &c
}
