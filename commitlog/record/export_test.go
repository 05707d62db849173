package record

// For tests of what has no name outside.
const (
	CRCSlotSize       = crcSlotSize
	MaxInternedTopics = maxInternedTopics
)

var PutCRCDigits = putCRCDigits

func (p *Parser) Interned() int { return len(p.topics) }

func MaxRecord(l Limits) int64             { return l.maxRecord() }
func CheckSize(l Limits, size int64) error { return l.checkSize(size) }
