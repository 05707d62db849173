package indexfile

import (
	"math"
	"unicode/utf8"
)

// Hash is the hash of topic and key in the file: that of Java's String.hashCode of "topic#key", made positive; the one that cannot be made so is 0. spec/index.md 3.2.
func Hash(topic, key string) int32 {
	h := javaHash(javaHash(javaHash(0, topic), "#"), key)
	if int32(h) == math.MinInt32 {
		return 0
	}
	return max(int32(h), -int32(h))
}

// javaHash goes on from h over the UTF-16 code units of s.
func javaHash(h uint32, s string) uint32 {
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			h = 31*h + uint32(c)
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		i += size
		if r >= 0x10000 {
			r -= 0x10000
			h = 31*h + uint32(0xD800+r>>10)
			r = 0xDC00 + r&0x3FF
		}
		h = 31*h + uint32(r)
	}
	return h
}
