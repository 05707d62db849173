package record

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// DelayTable is messageDelayLevel: level n waits t[n-1]. spec/commitlog-format.md 1.12.
type DelayTable []time.Duration

// defaultDelays is the default of the original.
var defaultDelays = DelayTable{
	1 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second,
	1 * time.Minute, 2 * time.Minute, 3 * time.Minute, 4 * time.Minute, 5 * time.Minute, 6 * time.Minute, 7 * time.Minute, 8 * time.Minute, 9 * time.Minute, 10 * time.Minute,
	20 * time.Minute, 30 * time.Minute, 1 * time.Hour, 2 * time.Hour,
}

// unknownDelay is what a level waits for which there is no entry.
const unknownDelay = time.Second

// DefaultDelayTable is a copy of the table "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h".
func DefaultDelayTable() DelayTable { return append(DelayTable(nil), defaultDelays...) }

// ParseDelayTable reads a table as RocketMQ configures it: numbers with the unit s, m, h or d, one space between. The error wraps ErrDelay and says which level is wrong.
func ParseDelayTable(s string) (DelayTable, error) {
	units := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}
	var t DelayTable
	for i, part := range strings.Split(s, " ") {
		if part == "" {
			return nil, fmt.Errorf("%w: level %d is empty: want levels with one space between, like \"1s 5s 1m\"", ErrDelay, i+1)
		}
		unit, ok := units[part[len(part)-1]]
		if !ok {
			return nil, fmt.Errorf("%w: level %d is %q: want a number and s, m, h or d", ErrDelay, i+1, part)
		}
		n, err := strconv.ParseInt(part[:len(part)-1], 10, 64)
		if err != nil || n < 0 || n > int64(math.MaxInt64/unit) {
			return nil, fmt.Errorf("%w: level %d is %q: want a number of at most %d and a unit", ErrDelay, i+1, part, int64(math.MaxInt64/unit))
		}
		t = append(t, time.Duration(n)*unit)
	}
	return t, nil
}

// String is the table in RocketMQ's form, each delay in its largest whole unit; parts of a second are cut off.
func (t DelayTable) String() string {
	var b strings.Builder
	for i, d := range t {
		if i > 0 {
			b.WriteByte(' ')
		}
		switch s := int64(d / time.Second); {
		case s > 0 && s%86400 == 0:
			fmt.Fprintf(&b, "%dd", s/86400)
		case s > 0 && s%3600 == 0:
			fmt.Fprintf(&b, "%dh", s/3600)
		case s > 0 && s%60 == 0:
			fmt.Fprintf(&b, "%dm", s/60)
		default:
			fmt.Fprintf(&b, "%ds", s)
		}
	}
	return b.String()
}

// Cap is the level that counts where level was asked for: at most the table's last.
func (t DelayTable) Cap(level int) int { return min(level, len(t)) }

// Delay is how long a level waits. A level beyond the table is its last; one that is not in the table at all waits a second.
func (t DelayTable) Delay(level int) time.Duration {
	level = t.Cap(level)
	if level < 1 {
		return unknownDelay
	}
	return t[level-1]
}

// DeliverTime is when (ms) a message stored at storeTimestamp (ms) is due.
func (t DelayTable) DeliverTime(storeTimestamp int64, level int) int64 {
	return storeTimestamp + t.Delay(level).Milliseconds()
}

// DelayLevel is the level that the DELAY property asks for; 0 if there is none or it is not a number.
func (p Properties) DelayLevel() int {
	v, ok := p.find(findDelay)
	if !ok {
		return 0
	}
	return parseLevel(v)
}

// parseLevel reads a 32-bit decimal number, 0 for anything else.
func parseLevel(v []byte) int {
	negative := v[0] == '-'
	if negative || v[0] == '+' {
		v = v[1:]
	}
	if len(v) == 0 {
		return 0
	}
	n := int64(0)
	for _, c := range v {
		if c < '0' || c > '9' {
			return 0
		}
		if n = n*10 + int64(c-'0'); n > math.MaxInt32 {
			return 0
		}
	}
	if negative {
		n = -n
	}
	return int(n)
}
