package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
)

// env is what a verb runs in. Results go to out, which is buffered; notes and progress go to stderr.
type env struct {
	ctx    context.Context
	out    *bufio.Writer
	stdout io.Writer // below out: asked only whether it is a terminal
	stderr io.Writer
	enc    *json.Encoder // over out, once used
	open   *table        // whose rows may not all be in out yet; nil: none
}

// jsonFlag is the flag of every verb that has results.
type jsonFlag struct {
	JSON bool `name:"json" help:"For machines: one JSON object, or one a line."`
}

// json writes v as one line.
func (e *env) json(v any) error {
	if e.enc == nil {
		e.enc = json.NewEncoder(e.out)
		e.enc.SetEscapeHTML(false)
	}
	return e.enc.Encode(v)
}

func (e *env) printf(format string, args ...any) {
	e.settle()
	fmt.Fprintf(e.out, format, args...)
}

func (e *env) settle() {
	if e.open != nil {
		e.open.settle()
	}
}

// flush writes what was printed.
func (e *env) flush() error {
	e.settle()
	return e.out.Flush()
}

// note says on stderr what a reader of the results should know.
func (e *env) note(format string, args ...any) {
	e.flush() // in the order in which things were said
	fmt.Fprintf(e.stderr, "mqstore: "+format+"\n", args...)
}

// table prints rows with columns as wide as the first rows need, so that what is short fits a terminal; rows come as they
// are made after that. A cell that is wider pushes its own row only.
type table struct {
	e      *env
	cols   []column
	widths []int // nil: rows are still collected
	rows   [][]string
}

type column struct {
	name  string
	widen int // how wide it may become for its cells; negative: aligned to the right. 0: the last one, never padded
}

// measuredRows is how many rows are looked at before the widths are settled.
const measuredRows = 100

func (e *env) table(cols ...column) *table {
	e.flush() // of another table
	names := make([]string, len(cols))
	for i, c := range cols {
		names[i] = c.name
	}
	e.open = &table{e: e, cols: cols, rows: [][]string{names}}
	return e.open
}

func (t *table) row(cells ...string) {
	for i, s := range cells {
		cells[i] = printable(s)
	}
	if t.widths != nil {
		t.print(cells)
		return
	}
	if t.rows = append(t.rows, cells); len(t.rows) > measuredRows {
		t.settle()
	}
}

// settle chooses the widths and prints what was collected.
func (t *table) settle() {
	if t.widths != nil {
		return
	}
	t.widths = make([]int, len(t.cols))
	for i, c := range t.cols {
		t.widths[i] = utf8.RuneCountInString(c.name)
		for _, cells := range t.rows {
			if n := utf8.RuneCountInString(cells[i]); n <= max(c.widen, -c.widen) {
				t.widths[i] = max(t.widths[i], n)
			}
		}
	}
	for _, cells := range t.rows {
		t.print(cells)
	}
	t.rows = nil
}

func (t *table) print(cells []string) {
	var b strings.Builder
	for i, s := range cells {
		if i > 0 {
			b.WriteString("  ")
		}
		pad := strings.Repeat(" ", max(0, t.widths[i]-utf8.RuneCountInString(s)))
		if t.cols[i].widen < 0 {
			s, pad = pad, s
		}
		b.WriteString(s)
		b.WriteString(pad)
	}
	fmt.Fprintln(t.e.out, strings.TrimRight(b.String(), " "))
}

// printable is s with everything that a terminal would obey instead of show written as an escape: names come from disk.
func printable(s string) string {
	clean := true
	for _, r := range s {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			q := strconv.QuoteRune(r)
			b.WriteString(q[1 : len(q)-1])
		}
		s = s[n:]
	}
	return b.String()
}

func itoa[T ~int | ~int32 | ~int64](n T) string { return strconv.FormatInt(int64(n), 10) }

// size is 1.2 GiB.
func size(n int64) string {
	if n < 0 {
		return itoa(n)
	}
	return humanize.IBytes(uint64(n))
}

// count is 1,234,567 things.
func count[T ~int | ~int32 | ~int64](n T, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return humanize.Comma(int64(n)) + " " + many
}

// stamp is a store time, RFC 3339 with milliseconds and the zone.
func stamp(ms int64) string {
	if ms <= 0 {
		return "-"
	}
	return time.UnixMilli(ms).Format("2006-01-02T15:04:05.000Z07:00")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
