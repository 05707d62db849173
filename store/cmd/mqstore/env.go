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

func (e *env) printf(format string, args ...any) { fmt.Fprintf(e.out, format, args...) }

// note says on stderr what a reader of the results should know.
func (e *env) note(format string, args ...any) {
	e.out.Flush() // in the order in which things were said
	fmt.Fprintf(e.stderr, "mqstore: "+format+"\n", args...)
}

// table prints rows as they come, so its column widths are given and not measured: a wider cell pushes its row only.
type table struct {
	e    *env
	cols []column
}

type column struct {
	name  string
	width int // negative: aligned to the right
}

func (e *env) table(cols ...column) *table {
	t := &table{e, cols}
	names := make([]string, len(cols))
	for i, c := range cols {
		names[i] = c.name
	}
	t.row(names...)
	return t
}

func (t *table) row(cells ...string) {
	var b strings.Builder
	for i, s := range cells {
		s = printable(s)
		if i > 0 {
			b.WriteString("  ")
		}
		w := t.cols[i].width
		pad := strings.Repeat(" ", max(0, max(w, -w)-utf8.RuneCountInString(s)))
		switch {
		case w < 0:
			b.WriteString(pad + s)
		case i == len(cells)-1:
			b.WriteString(s)
		default:
			b.WriteString(s + pad)
		}
	}
	fmt.Fprintln(t.e.out, strings.TrimRight(b.String(), " "))
}

// widest is the width of a column whose cells are known.
func widest(least int, cells ...string) int {
	for _, s := range cells {
		least = max(least, utf8.RuneCountInString(printable(s)))
	}
	return least
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
