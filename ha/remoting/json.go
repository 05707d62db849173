package remoting

import (
	"bytes"
	"encoding/json"
)

// Unmarshal is json.Unmarshal of what fastjson 1.x writes: see [NormalizeJSON].
func Unmarshal(text []byte, v any) error { return json.Unmarshal(NormalizeJSON(text), v) }

// Marshal is json.Marshal without escaping of <, > and &. Integer keys of maps come out quoted, which fastjson reads.
func Marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// NormalizeJSON quotes the integer keys that fastjson 1.x leaves bare, {0:12} (spec/ha-protocol.md 6.17), and changes nothing else: valid JSON is returned as it is,
// text itself and not a copy. It does not check the rest; what was no JSON stays none.
func NormalizeJSON(text []byte) []byte {
	var (
		out    []byte // nil until the first change
		copied int    // text[:copied] is in out
		before byte   // the last byte that is no space
	)
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case isJSONSpace(c):
			i++
			continue
		case c == '"':
			i = afterString(text, i)
		case (before == '{' || before == ',') && (c == '-' || isDigit(c)):
			end := i + 1
			for end < len(text) && isDigit(text[end]) {
				end++
			}
			if isBareKey(text, i, end) {
				out = append(out, text[copied:i]...)
				out = append(out, '"')
				out = append(out, text[i:end]...)
				out = append(out, '"')
				copied = end
			}
			i = end
		default:
			i++
		}
		before = c
	}
	if out == nil {
		return text
	}
	return append(out, text[copied:]...)
}

// isBareKey says whether text[i:end], digits with an optional sign, is followed by a colon: only a key is, since a number in JSON stands before a comma or a closing bracket.
func isBareKey(text []byte, i, end int) bool {
	if !isDigit(text[end-1]) {
		return false // a lone sign
	}
	for end < len(text) && isJSONSpace(text[end]) {
		end++
	}
	return end < len(text) && text[end] == ':'
}

// afterString is the index after the string that begins at text[i], or the end of text.
func afterString(text []byte, i int) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

func isDigit(c byte) bool     { return '0' <= c && c <= '9' }
func isJSONSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
