package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestTimeIsMillisecondsOrRFC3339OrADurationAgo(t *testing.T) {
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for in, want := range map[string]time.Time{
		"1795967098275":             time.UnixMilli(1795967098275),
		"0":                         time.UnixMilli(0),
		"2026-11-29T15:44:58Z":      time.Date(2026, 11, 29, 15, 44, 58, 0, time.UTC),
		"2026-11-29T15:44:58.275Z":  time.Date(2026, 11, 29, 15, 44, 58, 275e6, time.UTC),
		"2026-11-29T17:44:58+02:00": time.Date(2026, 11, 29, 15, 44, 58, 0, time.UTC),
		"-2h":                       at.Add(-2 * time.Hour),
		"now-2h":                    at.Add(-2 * time.Hour),
		"-1h30m":                    at.Add(-90 * time.Minute),
		"-3d":                       at.Add(-72 * time.Hour),
		"-500ms":                    at.Add(-500 * time.Millisecond),
	} {
		if got, err := parseTime(in, at); err != nil || !got.Equal(want) {
			t.Errorf("%s is %v, %v; want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "-", "now", "now-", "--2h", "2h", "-2", "-2x", "-d", "-1.5d", "yesterday", "2026-11-29", "2026-11-29T15:44:58", "99999999999999999999"} {
		if got, err := parseTime(in, at); err == nil {
			t.Errorf("%q is %v, want an error", in, got)
		}
	}
}

func TestDurationAgoMayBeAnArgument(t *testing.T) {
	got := agoArgs([]string{"time", "-2h", "--since", "-3d", "-h", "-1", "--from=-2h", "--", "-2h"})
	want := "time now-2h --since now-3d -h -1 --from=-2h -- -2h"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
}

func TestPrintableObeysNothing(t *testing.T) {
	for in, want := range map[string]string{
		"TopicA":            "TopicA",
		"主题":                "主题",
		"a\x1b[31mb":        `a\x1b[31mb`,
		"a\nb\x00":          `a\nb\x00`,
		"a\xffb":            `a\xffb`,
		"\u202eab":          `\u202eab`,
		"replaced \ufffd":   "replaced \ufffd",
		"100%":              "100%",
		"%RETRY%group name": "%RETRY%group name",
	} {
		if got := printable(in); got != want {
			t.Errorf("%q prints as %q, want %q", in, got, want)
		}
	}
}

func TestNearestNames(t *testing.T) {
	names := []string{"TopicA", "TopicB", "TopicOld", "orders", "%RETRY%orders", "x"}
	for want, near := range map[string]string{
		"topica":   "TopicA TopicB",
		"TopicA ":  "TopicA TopicB",
		"order":    "%RETRY%orders orders",
		"Tpicold":  "TopicOld",
		"nonsense": "",
		"":         "x",
	} {
		if got := strings.Join(nearest(want, names, 2), " "); got != near {
			t.Errorf("nearest to %q: %q, want %q", want, got, near)
		}
	}
}

func TestProgressIsDrawnOnlyAfterASecond(t *testing.T) {
	var (
		b  bytes.Buffer
		at = time.Unix(1000, 0)
		p  = &progress{w: &b, now: func() time.Time { return at }}
	)
	p.at("recover", 0, 100)
	at = at.Add(progressAfter - time.Millisecond)
	p.at("recover", 50, 100)
	p.end()
	if b.Len() > 0 {
		t.Errorf("drawn within the first second: %q", b.String())
	}
	at = at.Add(time.Millisecond)
	p.at("recover", 60, 100)
	if !strings.Contains(b.String(), "recover") {
		t.Errorf("after a second: %q", b.String())
	}
	n := b.Len()
	p.at("count", 1, 100) // another stage has its own second
	if got := b.String()[n:]; strings.Contains(got, "count") {
		t.Errorf("drawn at once: %q", got)
	}
	var none *progress
	none.at("recover", 1, 2)
	none.end()
}

func TestNoProgressWithoutATerminal(t *testing.T) {
	var b bytes.Buffer
	if p := (&env{stdout: &b, stderr: &b}).progress(false); p != nil {
		t.Error("a bar for a buffer")
	}
}
