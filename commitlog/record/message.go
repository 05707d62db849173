package record

import "bytes"

// Version is a record's version: how long its topic may be.
type Version uint8

const (
	V1 Version = 1 // every RocketMQ reads it; topics of at most 127 bytes
	V2 Version = 2 // RocketMQ 5 and we
)

// Message is one message: what a producer gives, and what the store adds.
//
// Body and Properties belong to whoever made the message: AppendRecord copies them, Decode makes views of the bytes it was given.
type Message struct {
	Version                   Version // as read; when writing, V2 asks for version 2, and anything else is version 1 unless the topic needs 2
	Topic                     string
	QueueID                   int32
	Flag                      int32 // the producer's, with no meaning to the store
	SysFlag                   SysFlag
	BornTimestamp             int64  // ms, the producer's clock
	BornHost                  Host   // the producer's address; the zero Host is stored as 0.0.0.0:0
	StoreHost                 Host   // the broker's, a part of the message id
	ReconsumeTimes            int32  // how often it was given to consumers again
	PreparedTransactionOffset int64  // of a commit or rollback: the physical offset of its prepared message
	Body                      []byte // as stored (compressed if the flag says so)
	Properties                Properties

	// Set by the store.
	StoreTimestamp int64 // ms
	QueueOffset    int64
	PhyOffset      int64
	BodyCRC        uint32
	Size           int // record bytes; 0 before it was encoded
}

// Tags is the TAGS property, "" if there is none.
func (m *Message) Tags() string {
	v, _ := m.Properties.Get(PropertyTags)
	return v
}

// UniqKey is the producer's unique id of the message, "" if there is none.
func (m *Message) UniqKey() string {
	v, _ := m.Properties.Get(PropertyUniqKey)
	return v
}

// Keys is the KEYS property, split on single spaces, without empty parts.
func (m *Message) Keys() []string {
	var keys []string
	for k := range m.Properties.keys {
		keys = append(keys, string(k))
	}
	return keys
}

// TagsCode is the hash of the tags, also of a delayed message (Parser gives the deliver time of those).
func (m *Message) TagsCode() int64 { return m.Properties.tagsCode() }

// OffsetMessageID names the message by its store host and physical offset, as the original does: see the function of that name.
func (m *Message) OffsetMessageID() string {
	return offsetMessageID(m.StoreHost, m.StoreHost.Addr.Is6() || m.SysFlag&FlagStoreHostV6 != 0, m.PhyOffset)
}

// DecodedBody is the body as the producer had it: decompressed as the system flag says, the stored bytes themselves if they are not compressed. See DecompressBody for maxSize and errors.
func (m *Message) DecodedBody(maxSize int) ([]byte, error) {
	return DecompressBody(m.SysFlag.Compression(), m.Body, maxSize)
}

func (p Properties) tagsCode() int64 {
	return int64(JavaHash(p.tags()))
}

// tags is the value of TAGS.
func (p Properties) tags() (value []byte) {
	const few = 128 // bytes of properties, up to which it is quicker to go from one to the next than to look for the text
	if len(p) > few {
		value, _ = p.find(findTags)
		return value
	}
	for len(p) > len(tagsHead) {
		end := bytes.IndexByte(p, entryEnd)
		if end < 0 {
			end = len(p)
		}
		if end > len(tagsHead) && string(p[:len(tagsHead)]) == tagsHead {
			value = p[len(tagsHead):end:end]
		}
		p = p[min(end+1, len(p)):]
	}
	return value
}

// keys yields views of the parts of KEYS.
func (p Properties) keys(yield func(key []byte) bool) {
	v, _ := p.find(findKeys)
	for start := 0; start < len(v); {
		end := start
		for end < len(v) && v[end] != ' ' {
			end++
		}
		if end > start && !yield(v[start:end:end]) {
			return
		}
		start = end + 1
	}
}
