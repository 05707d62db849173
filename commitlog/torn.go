package commitlog

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/mqstore/mqstore/commitlog/record"
)

// sectorSize is what a device writes as a whole: a page that is written back while the power goes is torn at sectors, and what did not arrive is zeros, as the segment was made.
const sectorSize = 512

// tornSector reports whether a record that parses nevertheless lost a sector: the checksum covers the body, and the lengths in its header betray every other loss but
// that of bytes of its topic or properties. Append lets no zeros in there, so that a sector's part of them that is nothing but zeros did not arrive: unless the same sector
// holds bytes of a later record, for it then arrived after both were in memory, and the zeros are those of another writer. b is the segment from the record on, which lies
// pos bytes from the segment's start.
func tornSector(b []byte, pos int64, m *record.Outline) error {
	const propertiesLength = 2
	properties := m.Size - m.PropertiesLen
	topicEnd := properties - propertiesLength
	topic := topicEnd - m.TopicLen
	if topic < 0 || len(b) < m.Size {
		return nil
	}
	for at := topic; at < m.Size; {
		end := at + int(sectorSize-(pos+int64(at))%sectorSize)
		next := min(m.Size, end)
		text := 0
		zero := true
		for i := at; i < next && zero; i++ {
			if i < topicEnd || i >= properties {
				text++
				zero = b[i] == 0
			}
		}
		if zero && text > 0 && lastNonZero(b[next:max(next, min(end, len(b)))]) == 0 {
			return fmt.Errorf("%w: bytes [%d, %d) of the record are zeros: a sector of it was never written", record.ErrMalformed, at, next)
		}
		at = next
	}
	return nil
}

// unfinished reports whether a record that parses, behind which there is nothing, may lack its last bytes: a slave gets records in pieces, and of one that came up to the
// middle of its topic or properties the rest reads as zeros, which fit. Append lets no zero in there. b is the segment from the record on.
func unfinished(b []byte, m *record.Outline) error {
	last := m.Size - 1
	if m.PropertiesLen == 0 {
		last -= 2 // the properties' length, which is zero, is the end of the record
	}
	if last < 0 || last >= len(b) || b[last] != 0 || lastNonZero(b[m.Size:min(len(b), m.Size+record.BlankHeaderSize)]) != 0 {
		return nil
	}
	return fmt.Errorf("%w: the log's last record ends in zeros where text belongs: it never came whole", record.ErrMalformed)
}

// zeroFree refuses text that recovery could take for bytes that never came: an acknowledged record would be cut after a crash.
func zeroFree(m *record.Message) error {
	if strings.IndexByte(m.Topic, 0) >= 0 {
		return fmt.Errorf("%w: topic %q", ErrZeroByte, m.Topic)
	}
	if i := bytes.IndexByte(m.Properties, 0); i >= 0 {
		return fmt.Errorf("%w: byte %d of the properties: encode binary values as text, or put them into the body", ErrZeroByte, i)
	}
	return nil
}

// Torn reports why a record that parses is not what was written: a sector of its topic or properties, which no checksum covers, is nothing but zeros. b is the record and
// what follows it, up to the sector's end at least; pos is where it begins in its segment.
func Torn(b []byte, pos int64, m *record.Meta) error {
	return tornSector(b, pos, &record.Outline{Size: m.Size, TopicLen: len(m.Topic), PropertiesLen: len(m.Properties)})
}

// doubtful reports whether the record that ends at end may be one that no flush covered.
func (r *Recovery) doubtful(end int64, m *record.Outline) bool {
	if r.Clean {
		return false
	}
	if r.FlushedTo >= 0 {
		return end > r.FlushedTo
	}
	return m.StoreTimestamp > r.DurableTime
}
