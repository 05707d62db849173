package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mqstore/mqstore/store"
)

// Statuses that are no store's own.
const (
	OK     = "ok"
	Failed = "error"  // the field error names the sentinels
	Unable = "unable" // the store lacks the ability
	Panic  = "panic"
	Lost   = "lost" // a crash took what it must not take
)

// Field is one value of an answer. Names may be repeated.
type Field struct{ Name, Value string }

// Answer is what a store answered to one operation.
type Answer struct {
	Status string
	Fields []Field
	Note   string // words, which are not compared
}

func (a *Answer) add(name string, v any) { a.Fields = append(a.Fields, Field{name, fmt.Sprint(v)}) }

// Get is the value of the first field of that name.
func (a Answer) Get(name string) (value string, ok bool) {
	for _, f := range a.Fields {
		if f.Name == name {
			return f.Value, true
		}
	}
	return "", false
}

// Int is a field's number.
func (a Answer) Int(name string) (n int64, ok bool) {
	v, ok := a.Get(name)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(v, 10, 64)
	return n, err == nil
}

// Without is the answer without the fields of these names.
func (a Answer) Without(names ...string) Answer {
	a.Fields = slices.DeleteFunc(slices.Clone(a.Fields), func(f Field) bool { return slices.Contains(names, f.Name) })
	return a
}

// String is the answer's line, without the line's end.
func (a Answer) String() string {
	var b strings.Builder
	b.WriteString(a.Status)
	for _, f := range a.Fields {
		fmt.Fprintf(&b, " %s=%s", f.Name, quoted(f.Value))
	}
	if a.Note != "" {
		b.WriteString(" # " + strings.Join(strings.Fields(a.Note), " "))
	}
	return b.String()
}

// ParseAnswer reads what String writes. A line without "field=value" but its status is fine.
func ParseAnswer(line string) (Answer, error) {
	ws, note, err := words(line)
	switch {
	case err != nil:
		return Answer{}, fmt.Errorf("%w: %w", ErrText, err)
	case len(ws) == 0:
		return Answer{}, fmt.Errorf("%w: no status", ErrText)
	case strings.Contains(ws[0], "="):
		return Answer{}, fmt.Errorf("%w: an answer begins with its status, not with %q", ErrText, ws[0])
	}
	a := Answer{Status: ws[0], Note: strings.Join(strings.Fields(note), " ")}
	for _, w := range ws[1:] {
		name, v, ok := strings.Cut(w, "=")
		if !ok {
			return Answer{}, fmt.Errorf("%w: %q is no field=value", ErrText, w)
		}
		a.Fields = append(a.Fields, Field{name, v})
	}
	return a, nil
}

// Same reports whether two answers say the same: all but their notes. What one store is unable to do is no difference.
func Same(a, b Answer) bool {
	return a.Status == Unable || b.Status == Unable || a.Status == b.Status && slices.Equal(a.Fields, b.Fields)
}

var sentinels = []struct {
	name string
	err  error
}{
	{"illegal", store.ErrMessageIllegal}, {"properties-too-large", store.ErrPropertiesTooLarge}, {"not-available", store.ErrServiceNotAvailable}, {"busy", store.ErrOSPageCacheBusy}, {"disk-full", store.ErrDiskFull},
	{"flush-failed", store.ErrFlushFailed}, {"not-found", store.ErrNotFound}, {"not-a-record", store.ErrNotARecord}, {"no-index", store.ErrNoIndex}, {"corrupt", store.ErrCorrupt}, {"locked", store.ErrLocked},
	{"closed", store.ErrClosed}, {"unsupported", store.ErrUnsupported}, {"not-a-store", store.ErrNotAStore}, {"read-only", store.ErrReadOnly}, {"diverged", store.ErrDiverged}, {"offset-mismatch", store.ErrOffsetMismatch},
	{"canceled", context.Canceled}, {"deadline", context.DeadlineExceeded},
}

// ErrorName is the names of the sentinels that err wraps, with "+" between them; "other" if it wraps none.
func ErrorName(err error) string {
	var names []string
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			names = append(names, s.name)
		}
	}
	if names == nil {
		return "other"
	}
	return strings.Join(names, "+")
}

func failed(err error) Answer {
	return Answer{Status: Failed, Fields: []Field{{"error", ErrorName(err)}}, Note: err.Error()}
}

func unable(what string) Answer { return Answer{Status: Unable, Note: what} }
