package commitlog

import (
	"fmt"

	"github.com/mqstore/mqstore/commitlog/record"
)

// sectorSize is what a device writes as a whole: a page that is written back while the power goes is torn at sectors, and what did not arrive is zeros, as the segment was made.
const sectorSize = 512

// tornSector reports whether a record that parses nevertheless lost a sector: the checksum covers the body, and the lengths in its header betray every other loss but
// that of bytes of its topic or properties. No writer puts zeros there, so that a sector's part of them that is nothing but zeros did not arrive. b is the record, which
// lies pos bytes from its segment's start.
func tornSector(b []byte, pos int64, m *record.Meta) error {
	const propertiesLength = 2
	properties := m.Size - len(m.Properties)
	topicEnd := properties - propertiesLength
	topic := topicEnd - len(m.Topic)
	if topic < 0 || len(b) < m.Size {
		return nil
	}
	for at := topic; at < m.Size; {
		next := min(m.Size, at+int(sectorSize-(pos+int64(at))%sectorSize))
		text := 0
		zero := true
		for i := at; i < next && zero; i++ {
			if i < topicEnd || i >= properties {
				text++
				zero = b[i] == 0
			}
		}
		if zero && text > 0 {
			return fmt.Errorf("%w: bytes [%d, %d) of the record are zeros: a sector of it was never written", record.ErrMalformed, at, next)
		}
		at = next
	}
	return nil
}

// unfinished reports whether a record that parses, behind which there is nothing, may lack its last bytes: a slave gets records in pieces, and of one that came up to the
// middle of its topic or properties the rest reads as zeros, which fit. No writer ends them in a zero. b is the segment from the record on.
func unfinished(b []byte, m *record.Meta) error {
	last := m.Size - 1
	if len(m.Properties) == 0 {
		last -= 2 // the properties' length, which is zero, is the end of the record
	}
	if last < 0 || last >= len(b) || b[last] != 0 || lastNonZero(b[m.Size:min(len(b), m.Size+record.BlankHeaderSize)]) != 0 {
		return nil
	}
	return fmt.Errorf("%w: the log's last record ends in zeros where text belongs: it never came whole", record.ErrMalformed)
}

// doubtful reports whether the record that ends at end may be one that no flush covered.
func (r *Recovery) doubtful(end int64, m *record.Meta) bool {
	if r.Clean {
		return false
	}
	if r.FlushedTo >= 0 {
		return end > r.FlushedTo
	}
	return m.StoreTimestamp > r.DurableTime
}
