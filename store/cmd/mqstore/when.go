package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// now is the clock that a duration ago counts from.
var now = time.Now

// when is a TIME argument: milliseconds, RFC 3339, or a duration ago (-2h).
type when struct{ time.Time }

// Decode is kong's way in.
func (w *when) Decode(ctx *kong.DecodeContext) error {
	t, err := ctx.Scan.PopValue("time")
	if err != nil {
		return err
	}
	w.Time, err = parseTime(t.String(), now())
	return err
}

// ms is the time in milliseconds, or otherwise if none was given.
func (w when) ms(otherwise int64) int64 {
	if w.IsZero() {
		return otherwise
	}
	return w.UnixMilli()
}

func parseTime(s string, now time.Time) (time.Time, error) {
	if d, ok := strings.CutPrefix(strings.TrimPrefix(s, "now"), "-"); ok {
		ago, err := parseDuration(d)
		if err != nil {
			return time.Time{}, fmt.Errorf("%q is not a duration ago: -90s, -2h, -1h30m and -3d are", "-"+d)
		}
		return now.Add(-ago), nil
	}
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil {
		return time.UnixMilli(ms), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is not a time: give milliseconds (1795967098275), RFC 3339 (2026-11-29T15:44:58Z) or a duration ago (-2h)", s)
	}
	return t, nil
}

// parseDuration is time.ParseDuration, and days.
func parseDuration(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * 24 * time.Hour, err
	}
	d, err := time.ParseDuration(s)
	if err == nil && d < 0 {
		err = fmt.Errorf("negative duration %s", s)
	}
	return d, err
}
