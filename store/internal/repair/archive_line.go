package repair

import (
	"encoding/base64"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mqstore/mqstore/commitlog/record"
)

const (
	nameSeparator     = "\x01"
	propertySeparator = "\x02"
)

// splitProperties takes properties apart so that joining them gives the same bytes; false if they are not of that kind.
func splitProperties(p record.Properties) (pairs [][2]string, end, ok bool) {
	s := string(p)
	if !utf8.ValidString(s) {
		return nil, false, false
	}
	s, end = strings.CutSuffix(s, propertySeparator)
	for part := range strings.SplitSeq(s, propertySeparator) {
		name, value, ok := strings.Cut(part, nameSeparator)
		if !ok {
			return nil, false, false
		}
		pairs = append(pairs, [2]string{name, value})
	}
	return pairs, end, true
}

// appendArchived appends m's line without its newline.
func appendArchived(b []byte, m *record.Message) []byte {
	number := func(name string, n int64) {
		b = append(append(append(b, `,"`...), name...), `":`...)
		b = strconv.AppendInt(b, n, 10)
	}
	text := func(name, s string) {
		b = append(append(append(b, `,"`...), name...), `":`...)
		b = appendString(b, s)
	}
	raw := func(name string, p []byte) {
		b = append(append(append(b, `,"`...), name...), `":"`...)
		b = append(base64.StdEncoding.AppendEncode(b, p), '"')
	}
	b = append(b, `{"phyOffset":`...)
	b = strconv.AppendInt(b, m.PhyOffset, 10)
	number("size", int64(m.Size))
	number("version", int64(m.Version))
	if utf8.ValidString(m.Topic) {
		text("topic", m.Topic)
	} else {
		raw("topicRaw", []byte(m.Topic))
	}
	number("queueId", int64(m.QueueID))
	number("queueOffset", m.QueueOffset)
	number("flag", int64(m.Flag))
	number("sysFlag", int64(m.SysFlag))
	number("bornTimestamp", m.BornTimestamp)
	text("bornHost", m.BornHost.String())
	number("storeTimestamp", m.StoreTimestamp)
	text("storeHost", m.StoreHost.String())
	number("reconsumeTimes", int64(m.ReconsumeTimes))
	number("preparedTransactionOffset", m.PreparedTransactionOffset)
	number("bodyCRC", int64(m.BodyCRC))
	if len(m.Properties) > 0 {
		if pairs, end, ok := splitProperties(m.Properties); ok {
			b = append(b, `,"properties":{`...)
			for i, p := range pairs {
				if i > 0 {
					b = append(b, ',')
				}
				b = append(appendString(b, p[0]), ':')
				b = appendString(b, p[1])
			}
			b = append(b, '}')
			if end {
				b = append(b, `,"propertiesEnd":true`...)
			}
		} else {
			raw("propertiesRaw", m.Properties)
		}
	}
	raw("body", m.Body)
	return append(b, '}')
}

// appendString appends s, which is UTF-8, as JSON.
func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	from := 0
	for i := range len(s) {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c != 0x7f {
			continue
		}
		b = append(b, s[from:i]...)
		from = i + 1
		if c == '"' || c == '\\' {
			b = append(b, '\\', c)
		} else {
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(append(b, s[from:]...), '"')
}
