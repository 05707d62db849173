package record_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mqstore/mqstore/commitlog/record"
)

func TestTagsCodeIsJavasHashSignExtended(t *testing.T) {
	for _, tt := range []struct {
		s    string
		want int64
	}{
		{"", 0}, {"TagA", 2598919}, {"TAG1", 2567159}, {"Hello", 69609650}, {"TopicTest#key1", -1655984460}, {"FooBar#Hello", -101609924},
		{"中文", 646394}, {"😀", 1772899}, {"polygenelubricants", -2147483648}, {"a||b", 3012833}, {"Aa", 2112}, {"BB", 2112},
	} {
		if got := record.TagsCode(tt.s); got != tt.want {
			t.Errorf("%q: %d, want %d", tt.s, got, tt.want)
		}
		if a, b := record.JavaHash(tt.s), record.JavaHash([]byte(tt.s)); a != b || int64(a) != tt.want {
			t.Errorf("%q: %d as text, %d as bytes, want %d", tt.s, a, b, tt.want)
		}
	}
}

func TestDefaultDelayTable(t *testing.T) {
	want := []int64{1000, 5000, 10000, 30000, 60000, 120000, 180000, 240000, 300000, 360000, 420000, 480000, 540000, 600000, 1200000, 1800000, 3600000, 7200000}
	table := record.DefaultDelayTable()
	var got []int64
	for _, d := range table {
		got = append(got, d.Milliseconds())
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	const s = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
	parsed, err := record.ParseDelayTable(s)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(table, parsed); d != "" {
		t.Error(d)
	}
	if table.String() != s {
		t.Errorf("%q", table)
	}
	table[0] = time.Hour
	if record.DefaultDelayTable()[0] != time.Second {
		t.Error("the default table can be changed")
	}
}

func TestParseDelayTable(t *testing.T) {
	for _, tt := range []struct {
		s    string
		want record.DelayTable
	}{{"1d", record.DelayTable{24 * time.Hour}}, {"0s 7m", record.DelayTable{0, 7 * time.Minute}}, {"90s 48h", record.DelayTable{90 * time.Second, 48 * time.Hour}}} {
		got, err := record.ParseDelayTable(tt.s)
		if err != nil || !cmp.Equal(got, tt.want) {
			t.Errorf("%q: %v, %v", tt.s, got, err)
		}
		if again, err := record.ParseDelayTable(got.String()); err != nil || !cmp.Equal(again, got) {
			t.Errorf("%q written as %q: %v, %v", tt.s, got, again, err)
		}
	}
	for _, tt := range []struct{ s, says string }{
		{"", "level 1 is empty"}, {"1s  2s", "level 2 is empty"}, {"1s ", "level 2 is empty"}, {"1s 5", `level 2 is "5"`}, {"1s 5x", `level 2 is "5x"`}, {"s", `level 1 is "s"`},
		{"-1s", `level 1 is "-1s"`}, {"1.5s", `"1.5s"`}, {"99999999999999d", "at most"}, {"9223372036854775808s", "at most"}, {"1S", "1S"},
	} {
		if got, err := record.ParseDelayTable(tt.s); !errors.Is(err, record.ErrDelay) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%q: %v, %v, want an error that says %q", tt.s, got, err, tt.says)
		}
	}
}

func TestTagsCodeOfDelayedRecords(t *testing.T) {
	two := record.DelayTable{time.Second, 2 * time.Second}
	const stored = 1_000_000
	for _, tt := range []struct {
		topic, properties string
		table             record.DelayTable
		want              int64
	}{
		{record.TopicSchedule, "DELAY=1;TAGS=TagA", nil, stored + 1000},
		{record.TopicSchedule, "DELAY=18", nil, stored + 7200000},
		{record.TopicSchedule, "DELAY=19", nil, stored + 7200000}, // capped
		{record.TopicSchedule, "DELAY=2147483647", nil, stored + 7200000},
		{record.TopicSchedule, "DELAY=2", two, stored + 2000},
		{record.TopicSchedule, "DELAY=3", two, stored + 2000},
		{record.TopicSchedule, "DELAY=+2", two, stored + 2000},
		{record.TopicSchedule, "DELAY=1", record.DelayTable{}, stored + 1000}, // unknown level
		{record.TopicSchedule, "DELAY=0;TAGS=TagA", nil, 2598919},
		{record.TopicSchedule, "DELAY=-3;TAGS=TagA", nil, 2598919},
		{record.TopicSchedule, "DELAY=x;TAGS=TagA", nil, 2598919},
		{record.TopicSchedule, "DELAY=-;TAGS=TagA", nil, 2598919},
		{record.TopicSchedule, "DELAY=2147483648;TAGS=TagA", nil, 2598919},
		{record.TopicSchedule, "TAGS=TagA", nil, 2598919},
		{record.TopicSchedule, "", nil, 0},
		{"TopicA", "DELAY=3;TAGS=TagA", nil, 2598919}, // delivered already: the property stays
		{"TopicA", "TAGS=polygenelubricants", nil, -2147483648},
	} {
		m := &record.Message{Topic: tt.topic, Properties: props(tt.properties), StoreTimestamp: stored}
		p := record.Parser{Delay: tt.table}
		var meta record.Meta
		if err := p.Parse(encode(t, m, record.Limits{}), 0, &meta); err != nil || meta.TagsCode != tt.want {
			t.Errorf("%s %q: tags code %d, %v, want %d", tt.topic, tt.properties, meta.TagsCode, err, tt.want)
		}
	}
}

func TestDelayLevelsAreCapped(t *testing.T) {
	table := record.DelayTable{time.Second, time.Minute}
	for _, tt := range []struct {
		level, capped int
		delay         time.Duration
	}{{1, 1, time.Second}, {2, 2, time.Minute}, {3, 2, time.Minute}, {1 << 30, 2, time.Minute}, {0, 0, time.Second}, {-5, -5, time.Second}} {
		if table.Cap(tt.level) != tt.capped || table.Delay(tt.level) != tt.delay || table.DeliverTime(5, tt.level) != 5+tt.delay.Milliseconds() {
			t.Errorf("level %d: %d, %v", tt.level, table.Cap(tt.level), table.Delay(tt.level))
		}
	}
}
