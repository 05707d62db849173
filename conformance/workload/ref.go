package workload

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Base is what a Ref is relative to.
type Base uint8

// The bases of a Ref.
const (
	Absolute Base = iota
	Min           // the first that is held
	Max           // one past the last
	Now           // the clock
	Back          // a message stored before
)

// Ref is a queue offset, a physical offset or a time (ms), as a number or relative to something.
type Ref struct {
	Base Base
	Back int   // of base Back: 1 is the last message stored, 2 the one before
	Plus int64 // of base Absolute the number itself
}

// Abs is the number n.
func Abs(n int64) Ref { return Ref{Plus: n} }

var baseNames = map[Base]string{Min: "min", Max: "max", Now: "now", Back: "back"}

// String is the text form: 7, min+1, max, now-200, back3+1.
func (r Ref) String() string {
	if r.Base == Absolute {
		return strconv.FormatInt(r.Plus, 10)
	}
	s := baseNames[r.Base]
	if r.Base == Back {
		s += strconv.Itoa(r.Back)
	}
	if r.Plus != 0 {
		s += fmt.Sprintf("%+d", r.Plus)
	}
	return s
}

// ParseRef reads what String writes.
func ParseRef(s string) (Ref, error) {
	bad := fmt.Errorf("%q is no place or time: want a number, or min, max, now or backN with +N or -N", s)
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return Abs(n), nil
	}
	for b := Min; b <= Back; b++ {
		rest, ok := strings.CutPrefix(s, baseNames[b])
		if !ok {
			continue
		}
		r := Ref{Base: b}
		if b == Back {
			i := strings.IndexAny(rest, "+-")
			if i < 0 {
				i = len(rest)
			}
			n, err := strconv.ParseUint(rest[:i], 10, 31)
			if err != nil {
				return Ref{}, bad
			}
			r.Back, rest = int(n), rest[i:]
		}
		if rest == "" {
			return r, nil
		}
		n, err := strconv.ParseInt(rest, 10, 64)
		if err != nil || rest[0] != '+' && rest[0] != '-' || n == math.MinInt64 {
			return Ref{}, bad
		}
		r.Plus = n
		return r, nil
	}
	return Ref{}, bad
}
