package record

import "unicode/utf8"

// JavaHash is Java's String.hashCode of a UTF-8 text: h = 31*h + c over its UTF-16 code units. Tags codes and index keys are made of it.
func JavaHash[T ~string | ~[]byte](s T) int32 {
	var h uint32
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			h = 31*h + uint32(c)
			i++
			continue
		}
		var buf [utf8.UTFMax]byte
		r, size := utf8.DecodeRune(buf[:copy(buf[:], s[i:])])
		i += size
		if r < 0x10000 {
			h = 31*h + uint32(r)
			continue
		}
		r -= 0x10000
		h = 31*h + uint32(0xD800+r>>10)
		h = 31*h + uint32(0xDC00+r&0x3FF)
	}
	return int32(h)
}

// TagsCode is the tags code of a TAGS property: 0 of none, else its JavaHash, sign-extended. Several tags ("a||b") are one text. spec/commitlog-format.md 1.8.
func TagsCode(tags string) int64 { return int64(JavaHash(tags)) }
