package record

import (
	"bytes"
	"strings"
)

// A property is name, 0x01, value; 0x02 ends it or, in RocketMQ 4.9.8, stands between two. spec/commitlog-format.md 1.5.
const (
	nameEnd  = 0x01
	entryEnd = 0x02
)

// The properties that the store itself reads or writes.
const (
	PropertyKeys             = "KEYS"
	PropertyTags             = "TAGS"
	PropertyUniqKey          = "UNIQ_KEY"
	PropertyWait             = "WAIT"
	PropertyDelay            = "DELAY"
	PropertyRealTopic        = "REAL_TOPIC"
	PropertyRealQueueID      = "REAL_QID"
	PropertyMultiDispatch    = "INNER_MULTI_DISPATCH"
	PropertyMultiQueueOffset = "INNER_MULTI_QUEUE_OFFSET"
)

// TopicSchedule is the topic under which delayed messages wait; queue n holds level n+1.
const TopicSchedule = "SCHEDULE_TOPIC_XXXX"

// Properties is the properties string exactly as its writer made it, with or without a separator behind the last property, so that encoding a decoded record gives the same bytes.
//
// Reading follows the original: a property counts if its first 0x01 has at least one byte before and one behind it; others are passed over; of several with one name the last wins.
//
// Writing (NewProperties, With) copies names and values as they are, for the format has no escapes: use ValidProperty on what comes from outside.
type Properties []byte

// ValidProperty reports whether a property survives being written and read: neither part is empty, the name holds neither separator and the value no 0x02.
func ValidProperty(name, value string) bool {
	return name != "" && value != "" && !strings.ContainsAny(name, "\x01\x02") && strings.IndexByte(value, entryEnd) < 0
}

// NewProperties makes properties of names and values in turn, in the style of RocketMQ 4.9.8 (nothing behind the last). It panics if a value is missing.
func NewProperties(nameValue ...string) Properties {
	if len(nameValue)%2 != 0 {
		panic("record: NewProperties wants names and values in turn")
	}
	var p Properties
	for i := 0; i < len(nameValue); i += 2 {
		if i > 0 {
			p = append(p, entryEnd)
		}
		p = appendProperty(p, nameValue[i], nameValue[i+1])
	}
	return p
}

func appendProperty(p Properties, name, value string) Properties {
	p = append(p, name...)
	p = append(p, nameEnd)
	return append(p, value...)
}

// Get is the value of the last property of that name.
func (p Properties) Get(name string) (value string, ok bool) {
	v, ok := p.View(name)
	return string(v), ok
}

// View is Get without copying: the value is a part of p.
func (p Properties) View(name string) (value []byte, ok bool) {
	if name == "" || strings.IndexByte(name, nameEnd) >= 0 || strings.IndexByte(name, entryEnd) >= 0 {
		return nil, false // no property has such a name, though its bytes may be there
	}
	var buf [64]byte // longer names than this cost an allocation
	return p.find(append(append(buf[:0], name...), nameEnd))
}

// The names that are looked for in every record, each with its end. Constants are compared in place, where a variable costs a call.
const (
	tagsHead          = PropertyTags + "\x01"
	keysHead          = PropertyKeys + "\x01"
	uniqKeyHead       = PropertyUniqKey + "\x01"
	multiDispatchHead = PropertyMultiDispatch + "\x01"
)

var (
	findTags    = []byte(tagsHead)
	findKeys    = []byte(keysHead)
	findUniqKey = []byte(uniqKeyHead)
	findDelay   = []byte(PropertyDelay + "\x01")
)

// find is View of a name with its end. Looking for the text and then at what is before it is quicker than going from property to property.
func (p Properties) find(nameAndEnd []byte) (value []byte, ok bool) {
	for from := 0; ; {
		i := bytes.Index(p[from:], nameAndEnd)
		if i < 0 {
			return value, ok
		}
		i += from
		from = i + len(nameAndEnd)
		if i > 0 && p[i-1] != entryEnd {
			continue
		}
		end := len(p)
		if n := bytes.IndexByte(p[from:], entryEnd); n >= 0 {
			end = from + n
		}
		if end > from {
			value, ok = p[from:end:end], true
		}
		from = end
	}
}

// entries yields each part between separators, acceptable or not, with its name and value if it is; raw includes the separator behind it.
func (p Properties) entries(yield func(raw, name, value []byte) bool) {
	for len(p) > 0 {
		raw, entry := p, p
		if n := bytes.IndexByte(p, entryEnd); n >= 0 {
			raw, entry = p[:n+1:n+1], p[:n]
		}
		p = p[len(raw):]
		var name, value []byte
		if n := bytes.IndexByte(entry, nameEnd); n > 0 && n < len(entry)-1 {
			name, value = entry[:n], entry[n+1:]
		}
		if !yield(raw, name, value) {
			return
		}
	}
}

// All yields the properties in their writer's order, those that a later one overrides included.
func (p Properties) All() func(yield func(name, value string) bool) {
	return func(yield func(name, value string) bool) {
		p.entries(func(_, name, value []byte) bool {
			return name == nil || yield(string(name), string(value))
		})
	}
}

// Map is what Get finds, for all names.
func (p Properties) Map() map[string]string {
	m := make(map[string]string)
	for name, value := range p.All() {
		m[name] = value
	}
	return m
}

// With is new properties in which name has that value: in place of the first property of that name (others of the name go), else behind the last one, but before a property CRC. The separator style stays.
func (p Properties) With(name, value string) Properties {
	rest, slot := p.cutCRC()
	out := make(Properties, 0, len(p)+len(name)+len(value)+2)
	placed := false
	rest.entries(func(raw, n, _ []byte) bool {
		switch {
		case string(n) != name:
			out = append(out, raw...)
		case !placed:
			placed = true
			out = appendProperty(out, name, value)
			if raw[len(raw)-1] == entryEnd {
				out = append(out, entryEnd)
			}
		}
		return true
	})
	if !placed {
		trailing := len(out) > 0 && out[len(out)-1] == entryEnd
		if len(out) > 0 && !trailing {
			out = append(out, entryEnd)
		}
		out = appendProperty(out, name, value)
		if trailing {
			out = append(out, entryEnd)
		}
	}
	return out.withCRC(slot, rest)
}

// Without is new properties that lack name. The separator style stays.
func (p Properties) Without(name string) Properties {
	rest, slot := p.cutCRC()
	if name == PropertyCRC32 {
		slot = nil
	}
	out := make(Properties, 0, len(p))
	rest.entries(func(raw, n, _ []byte) bool {
		if string(n) != name {
			out = append(out, raw...)
		}
		return true
	})
	return out.withCRC(slot, rest)
}

// cutCRC parts the slot of the property CRC from the rest.
func (p Properties) cutCRC() (rest, slot Properties) {
	if i, ok := crcSlot(p); ok {
		return p[:i:i], p[i:]
	}
	return p, nil
}

// withCRC finishes what was made of the properties before: no separator at the end if those had none, and the CRC slot, if any, behind.
func (p Properties) withCRC(slot, before Properties) Properties {
	trailing := len(before) > 0 && before[len(before)-1] == entryEnd
	if n := len(p); n > 0 && !trailing && p[n-1] == entryEnd {
		p = p[:n-1]
	}
	if slot != nil && len(p) > 0 && p[len(p)-1] != entryEnd {
		p = append(p, entryEnd)
	}
	return append(p, slot...)
}

// MergeBatchProperties is what the record of a batch's item stores: the item's properties, then those of the whole batch, with a separator between where both exist and the first does not end in one.
// If either is empty the other is returned as it is. spec/commitlog-format.md 1.11.
func MergeBatchProperties(item, batch Properties) Properties {
	switch {
	case len(batch) == 0:
		return item
	case len(item) == 0:
		return batch
	}
	out := make(Properties, 0, len(item)+1+len(batch))
	out = append(out, item...)
	if item[len(item)-1] != entryEnd {
		out = append(out, entryEnd)
	}
	return append(out, batch...)
}
