package workload

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// ErrText: a text that is no workload, or no answer. The error says which line and what is wrong with it.
var ErrText = errors.New("workload: malformed text")

// MaxText bounds lengths in a text (bodies, filler, counts), so that a file cannot ask for all memory.
const MaxText = 64 << 20

// field is one field=value: its name, and where its value lies.
type field struct {
	name string
	p    any // a pointer
}

// properties are those with a name of their own in the text.
var properties = []Property{{"tags", record.PropertyTags}, {"keys", record.PropertyKeys}, {"uniq", record.PropertyUniqKey}, {"wait", record.PropertyWait}, {"delay", record.PropertyDelay}, {"lmq", record.PropertyMultiDispatch}}

const propertyPrefix = "prop:"

func itemFields(m *Message) []field {
	return []field{{"len", &m.Len}, {"seed", &m.Seed}, {"flag", &m.Flag}, {"pad", &m.Pad}, {propertyPrefix, &m.Props}}
}

func batchFields(m *Message) []field {
	return []field{{"flag", &m.Flag}, {"born", &m.Born}, {"reconsume", &m.Reconsume}, {"host", &m.Host}, {"bornhost", &m.BornHost}, {"tx", &m.Tx}, {"prepared", &m.Prepared}, {"v2", &m.V2}, {"pad", &m.Pad}, {propertyPrefix, &m.Props}}
}

func messageFields(m *Message) []field {
	return append([]field{{"len", &m.Len}, {"seed", &m.Seed}, {"codec", &m.Codec}}, batchFields(m)...)
}

// fields is what an operation of o's kind has, in the order of the text; nil if there is no such kind.
func (o *Op) fields() ([]field, bool) {
	queue := []field{{"topic", &o.Topic}, {"queue", &o.Queue}}
	switch o.Kind {
	case Put, Async:
		return append(queue, messageFields(&o.Message)...), true
	case Batch:
		return append(queue, batchFields(&o.Message)...), true
	case Append:
		return slices.Concat(queue, messageFields(&o.Message), []field{{"cut", &o.Cut}, {"rest", &o.Rest}, {"blank", &o.Blank}, {"skew", &o.Skew}}), true
	case Get:
		return append(queue, field{"at", &o.At}, field{"max", &o.Max}, field{"filter", &o.Filter}), true
	case Bounds:
		return queue, true
	case Unit, Scan:
		return append(queue, field{"at", &o.At}), true
	case ByTime:
		return append(queue, field{"time", &o.Time}, field{"rule", &o.Rule}), true
	case Lookup:
		return []field{{"phy", &o.Phy}}, true
	case LookupID:
		return []field{{"phy", &o.Phy}, {"host", &o.Message.Host}}, true
	case Query:
		return []field{{"topic", &o.Topic}, {"key", &o.Key}, {"max", &o.Max}, {"begin", &o.Begin}, {"end", &o.End}}, true
	case Log:
		return []field{{"phy", &o.Phy}, {"end", &o.End}}, true
	case Expire:
		return []field{{"segments", &o.Segments}}, true
	case Crash:
		return []field{{"how", &o.How}, {"seed", &o.Seed}}, true
	case SetClock:
		return []field{{"add", &o.Add}, {"set", &o.Set}}, true
	case Await, Whole, Flush, Reopen:
		return nil, true
	}
	return nil, false
}

func (s *Setup) fields() []field {
	return []field{
		{"segment", &s.SegmentSize}, {"queuefile", &s.QueueFileSize}, {"maxmessage", &s.MaxMessage}, {"v2", &s.V2}, {"role", &s.Role}, {"flush", &s.Flush}, {"memory", &s.Memory},
		{"membytes", &s.MemoryBytes}, {"diskbytes", &s.DiskBytes}, {"memcount", &s.MemoryCount}, {"diskcount", &s.DiskCount}, {"multidispatch", &s.MultiDispatch}, {"noindex", &s.NoIndex},
	}
}

var (
	roleNames  = []string{store.AsyncMaster: "async", store.SyncMaster: "sync", store.Slave: "slave"}
	flushNames = []string{store.AsyncFlush: "async", store.SyncFlush: "sync"}
	ruleNames  = []string{store.Nearest: "nearest", store.Lower: "lower", store.Upper: "upper"}
	codecNames = []string{record.CompressionNone: "none", record.CompressionLZ4: "lz4", record.CompressionZstd: "zstd", record.CompressionZlib: "zlib"}
	endNames   = []string{Kill: "kill", Power: "power"}
	txNames    = map[record.Transaction]string{record.TransactionPrepared: "prepared", record.TransactionCommit: "commit", record.TransactionRollback: "rollback"}
)

// quoted is s as a value.
func quoted(s string) string {
	if s == "" || strings.ContainsAny(s, " \"'`|#\\") || strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) || r == '\uFFFD' }) {
		return strconv.Quote(s)
	}
	return s
}

func nameOf(names []string, i int) string {
	if i >= 0 && i < len(names) {
		return names[i]
	}
	return strconv.Itoa(i)
}

// value is the text of a field; "" if it is zero.
func (f field) value() string {
	n := func(v int64) string {
		if v == 0 {
			return ""
		}
		return strconv.FormatInt(v, 10)
	}
	name := func(names []string, i int) string {
		if i == 0 {
			return ""
		}
		return nameOf(names, i)
	}
	switch p := f.p.(type) {
	case *string:
		if *p == "" {
			return ""
		}
		return quoted(*p)
	case *int:
		return n(int64(*p))
	case *int32:
		return n(int64(*p))
	case *int64:
		return n(*p)
	case *uint64:
		if *p == 0 {
			return ""
		}
		return strconv.FormatUint(*p, 10)
	case *bool:
		if *p {
			return "true"
		}
		return ""
	case *Ref:
		if *p == (Ref{}) {
			return ""
		}
		return p.String()
	case *record.Host:
		if !p.Addr.IsValid() {
			return ""
		}
		return p.String()
	case *record.Transaction:
		return txNames[*p]
	case *record.Compression:
		return name(codecNames, int(*p))
	case *store.TimeRule:
		return name(ruleNames, int(*p))
	case *store.Role:
		return name(roleNames, int(*p))
	case *store.FlushMode:
		return name(flushNames, int(*p))
	case *Ending:
		return name(endNames, int(*p))
	}
	panic(fmt.Sprintf("workload: field %s is a %T", f.name, f.p))
}

// set reads a value.
func (f field) set(s string) (err error) {
	signed := func(bits int) int64 {
		var v int64
		v, err = strconv.ParseInt(s, 10, bits)
		return v
	}
	name := func(names []string) int {
		i := slices.Index(names, s)
		if i < 0 {
			err = fmt.Errorf("%q is none of %s", s, strings.Join(names, ", "))
		}
		return max(i, 0)
	}
	switch p := f.p.(type) {
	case *string:
		*p = s
	case *int:
		v := signed(32)
		if err == nil && v > MaxText {
			return fmt.Errorf("%d is more than %d", v, MaxText)
		}
		*p = int(v)
	case *int32:
		*p = int32(signed(32))
	case *int64:
		*p = signed(64)
	case *uint64:
		*p, err = strconv.ParseUint(s, 10, 64)
	case *bool:
		if *p = s == "true"; s != "true" && s != "false" {
			return fmt.Errorf("%q is neither true nor false", s)
		}
	case *Ref:
		*p, err = ParseRef(s)
	case *record.Host:
		*p, err = record.ParseHost(s)
	case *record.Transaction:
		if s == "none" {
			*p = record.TransactionNone
			return nil
		}
		for t, name := range txNames {
			if name == s {
				*p = t
				return nil
			}
		}
		return fmt.Errorf("%q is none of none, prepared, commit, rollback", s)
	case *record.Compression:
		*p = record.Compression(name(codecNames))
	case *store.TimeRule:
		*p = store.TimeRule(name(ruleNames))
	case *store.Role:
		*p = store.Role(name(roleNames))
	case *store.FlushMode:
		*p = store.FlushMode(name(flushNames))
	case *Ending:
		*p = Ending(name(endNames))
	default:
		panic(fmt.Sprintf("workload: field %s is a %T", f.name, f.p))
	}
	if errors.Is(err, strconv.ErrSyntax) || errors.Is(err, strconv.ErrRange) {
		err = fmt.Errorf("%q is no number that fits", s)
	}
	return err
}

func writeFields(b *strings.Builder, fields []field) {
	for _, f := range fields {
		if ps, ok := f.p.(*[]Property); ok {
			for _, p := range *ps {
				name := propertyPrefix + p.Name
				for _, known := range properties {
					if known.Value == p.Name {
						name = known.Name
					}
				}
				fmt.Fprintf(b, " %s=%s", name, quoted(p.Value))
			}
			continue
		}
		if v := f.value(); v != "" {
			fmt.Fprintf(b, " %s=%s", f.name, v)
		}
	}
}

// String is the operation's line, without the line's end.
func (o Op) String() string {
	var b strings.Builder
	b.WriteString(string(o.Kind))
	fields, _ := o.fields()
	writeFields(&b, fields)
	for i := range o.Items {
		b.WriteString(" |")
		writeFields(&b, itemFields(&o.Items[i]))
	}
	return b.String()
}

// String is the line of the setup.
func (s Setup) String() string {
	var b strings.Builder
	b.WriteString("store")
	writeFields(&b, s.fields())
	return b.String()
}

// String is the text form.
func (w Workload) String() string {
	var b strings.Builder
	b.WriteString(w.Setup.String() + "\n")
	for _, o := range w.Ops {
		b.WriteString(o.String() + "\n")
	}
	return b.String()
}

// words takes a line apart: blanks separate, quotes hold together, "|" stands alone. A "#" at a word's beginning ends the line, and what follows it is returned as the comment.
func words(line string) (ws []string, comment string, err error) {
	if line = strings.TrimSuffix(line, "\n"); strings.Contains(line, "\n") {
		return nil, "", errors.New("more than one line")
	}
	for {
		line = strings.TrimLeft(line, " \t\r")
		switch {
		case line == "":
			return ws, "", nil
		case line[0] == '#':
			return ws, strings.TrimSpace(line[1:]), nil
		case line[0] == '|':
			ws, line = append(ws, "|"), line[1:]
			continue
		}
		i := strings.IndexAny(line, " \t\r|=")
		if i < 0 {
			i = len(line)
		}
		if i == len(line) || line[i] != '=' {
			ws, line = append(ws, line[:i]), line[i:]
			continue
		}
		name, rest := line[:i+1], line[i+1:]
		if strings.HasPrefix(rest, `"`) {
			q, err := strconv.QuotedPrefix(rest)
			if err != nil {
				return nil, "", fmt.Errorf("%sthe quote does not end, or is no Go string", name)
			}
			v, err := strconv.Unquote(q)
			if err != nil {
				return nil, "", fmt.Errorf("%s%s: %w", name, q, err)
			}
			ws, line = append(ws, name+v), rest[len(q):]
			continue
		}
		j := strings.IndexAny(rest, " \t\r|")
		if j < 0 {
			j = len(rest)
		}
		ws, line = append(ws, name+rest[:j]), rest[j:]
	}
}

// readFields gives fields the values of ws.
func readFields(ws []string, fields []field) error {
	seen := map[string]bool{}
	for _, w := range ws {
		name, v, ok := strings.Cut(w, "=")
		if !ok {
			return fmt.Errorf("%q is no field=value", w)
		}
		if i := slices.IndexFunc(fields, func(f field) bool { return f.name == propertyPrefix }); i >= 0 {
			prop, isProp := strings.CutPrefix(name, propertyPrefix)
			for _, known := range properties {
				if known.Name == name {
					prop, isProp = known.Value, true
				}
			}
			if isProp {
				ps := fields[i].p.(*[]Property)
				*ps = append(*ps, Property{prop, v})
				continue
			}
		}
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == name && name != propertyPrefix })
		if i < 0 {
			return fmt.Errorf("no field %q here", name)
		}
		if seen[name] {
			return fmt.Errorf("%s is given twice", name)
		}
		seen[name] = true
		if err := fields[i].set(v); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// ParseOp reads one operation's line.
func ParseOp(line string) (Op, error) {
	ws, _, err := words(line)
	if err != nil {
		return Op{}, fmt.Errorf("%w: %w", ErrText, err)
	}
	if len(ws) == 0 {
		return Op{}, fmt.Errorf("%w: no operation", ErrText)
	}
	o := Op{Kind: Kind(ws[0])}
	fields, ok := o.fields()
	if !ok {
		return Op{}, fmt.Errorf("%w: %q is no operation", ErrText, ws[0])
	}
	parts := [][]string{{}}
	for _, w := range ws[1:] {
		if w == "|" {
			parts = append(parts, nil)
			continue
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], w)
	}
	if len(parts) > 1 && o.Kind != Batch {
		return Op{}, fmt.Errorf("%w: %s has no items", ErrText, o.Kind)
	}
	if err := readFields(parts[0], fields); err != nil {
		return Op{}, fmt.Errorf("%w: %s: %w", ErrText, o.Kind, err)
	}
	for i, p := range parts[1:] {
		var m Message
		if err := readFields(p, itemFields(&m)); err != nil {
			return Op{}, fmt.Errorf("%w: item %d: %w", ErrText, i, err)
		}
		o.Items = append(o.Items, m)
	}
	return o, nil
}

// Parse reads the text form. Without a line for the store its setup is the default.
func Parse(text []byte) (Workload, error) {
	var w Workload
	first := true
	n := 0
	for line := range bytes.Lines(text) {
		n++
		ws, _, err := words(string(line))
		if err != nil {
			return Workload{}, fmt.Errorf("%w: line %d: %w", ErrText, n, err)
		}
		if len(ws) == 0 {
			continue
		}
		if ws[0] == "store" && first {
			if err := readFields(ws[1:], w.Setup.fields()); err != nil {
				return Workload{}, fmt.Errorf("%w: line %d: %w", ErrText, n, err)
			}
			first = false
			continue
		}
		first = false
		o, err := ParseOp(string(line))
		if err != nil {
			return Workload{}, fmt.Errorf("line %d: %w", n, err)
		}
		w.Ops = append(w.Ops, o)
	}
	return w, nil
}
