package record

// Meta is what dispatch needs of a record. Properties is a view: valid as long as the bytes it was parsed from. Topic is an ordinary string.
type Meta struct {
	Magic          uint32 // MagicBlank: Size is what the blank says of the rest of the segment, PhyOffset where it lies, and every other field zero
	Size           int
	PhyOffset      int64 // where the record lies (given to Parse), equal to the stored one
	Topic          string
	QueueID        int32
	QueueOffset    int64
	TagsCode       int64 // tags hash, or the deliver time (ms) of a delayed record
	StoreTimestamp int64 // ms
	SysFlag        SysFlag
	BodyCRC        uint32
	Properties     Properties
	Bitmap         []byte // filter bitmap; an earlier sink may set it
}

// IsBlank reports whether this is the end-of-file blank of a segment and not a message.
func (m *Meta) IsBlank() bool { return m.Magic == MagicBlank }

// HasUnit reports whether the record has a unit in its consume queue: a message that is no part of a transaction, or a committed one.
func (m *Meta) HasUnit() bool { return !m.IsBlank() && m.SysFlag.Transaction().HasUnit() }

// UniqKey is a view of the UNIQ_KEY property.
func (m *Meta) UniqKey() (key []byte, ok bool) { return m.Properties.find(findUniqKey) }

// Keys yields views of the KEYS property's parts: split on single spaces, without empty parts.
func (m *Meta) Keys() func(yield func(key []byte) bool) {
	// A literal, not a method value: that one would cost its callers three allocations.
	return func(yield func(key []byte) bool) { m.Properties.keys(yield) }
}

// Parser parses records one after the other. It allocates nothing for topics that it has met lately. Not safe for concurrent use. The zero value is ready to use.
type Parser struct {
	Delay     DelayTable // nil: the default table
	VerifyCRC bool       // the body's CRC, and the property CRC where there is one

	lastTopic string
	recent    [16]string // of topics, by recentSlot
	topics    map[string]string
}

const (
	maxInternedTopics = 1 << 16
	maxInternedBytes  = maxTopicBytesV2 // longer topics only come from damage or malice
)

// Parse reads the record at the start of b, which lies at phyOffset; b may be longer. On success m is filled (all of it), else unchanged. Parse never looks beyond the record, and never allocates by a length that it read.
//
// A blank needs only its 8 bytes. Its Size (8 or more) is what the writer said; the caller compares it with what is left of the segment.
//
// Errors, found by errors.Is: ErrIncomplete (b ends before the record does, and what there is looks right), ErrMagic, ErrSize (fields do not add up), ErrPhyOffset (the stored offset is not phyOffset), ErrCRC; all but ErrIncomplete are also ErrMalformed and a *FormatError.
func (p *Parser) Parse(b []byte, phyOffset int64, m *Meta) error {
	return p.parse(b, phyOffset, m, nil)
}

// parse is Parse, and ParseKnown where k is not nil.
func (p *Parser) parse(b []byte, phyOffset int64, m *Meta, k *Known) error {
	var l layout
	if err := locate(b, phyOffset, &l); err != nil {
		return err
	}
	if l.magic == MagicBlank {
		*m = Meta{Magic: MagicBlank, Size: l.size, PhyOffset: phyOffset}
		if k != nil {
			*k = Known{}
		}
		return nil
	}
	if p.VerifyCRC {
		if err := checkCRCs(b, &l); err != nil {
			return err
		}
	}
	m.Magic = l.magic
	m.Size = l.size
	m.PhyOffset = phyOffset
	if topic := b[l.topic : l.topic+l.topicLen]; string(topic) == p.lastTopic {
		m.Topic = p.lastTopic
	} else {
		m.Topic = p.intern(topic)
	}
	m.QueueID = get32(b[posQueueID:])
	m.QueueOffset = get64(b[posQueueOffset:])
	m.StoreTimestamp = get64(b[l.afterBorn+posStoreTimestamp:])
	m.SysFlag = l.sysFlag
	m.BodyCRC = be.Uint32(b[posBodyCRC:])
	m.Properties = Properties(b[l.properties:l.size:l.size])
	m.Bitmap = nil
	switch {
	case k == nil:
		m.TagsCode = p.tagsCode(m)
	default:
		m.Properties.known(k)
		if m.Topic == TopicSchedule {
			m.TagsCode = p.tagsCode(m)
		} else {
			m.TagsCode = int64(JavaHash(k.Tags))
		}
	}
	return nil
}

// tagsCode is the deliver time of a delayed record, the tags hash of any other. spec/commitlog-format.md 1.8, 1.12.
func (p *Parser) tagsCode(m *Meta) int64 {
	if m.Topic == TopicSchedule {
		if level := m.Properties.DelayLevel(); level > 0 {
			t := p.Delay
			if t == nil {
				t = defaultDelays
			}
			return t.DeliverTime(m.StoreTimestamp, level)
		}
	}
	return m.Properties.tagsCode()
}

// recentSlot is where a topic, which is never empty, lies among the recent ones.
func recentSlot(topic []byte) int {
	n := len(topic)
	return (n + int(topic[n-1])*7 + int(topic[n/2])) & 15
}

func (p *Parser) intern(topic []byte) string {
	slot := recentSlot(topic)
	if t := p.recent[slot]; t == string(topic) {
		p.lastTopic = t
		return t
	}
	t, ok := p.topics[string(topic)]
	if !ok {
		t = string(topic)
		if len(t) > maxInternedBytes {
			return t
		}
		if p.topics == nil {
			p.topics = make(map[string]string)
		}
		if len(p.topics) >= maxInternedTopics {
			for old := range p.topics {
				delete(p.topics, old)
				break
			}
		}
		p.topics[t] = t
	}
	p.lastTopic, p.recent[slot] = t, t
	return t
}
