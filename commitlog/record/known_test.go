package record_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mqstore/mqstore/commitlog/record"
)

// FuzzKnown: one pass over any properties finds what a look for each of the names finds, and the tags code is that of the tags.
func FuzzKnown(f *testing.F) {
	for _, s := range []string{
		"", "TAGS=a", "TAGS=", "TAGS", "=TAGS=a", "X=TAGS=a", "TAGS=a;TAGS=b", "TAGS=a;TAGS=;", ";;KEYS=k1 k2;;UNIQ_KEY=u;", "KEYS==;KEYSX=1;XKEYS=2",
		"UNIQ_KEY=u;TAGS=t;KEYS=k;INNER_MULTI_DISPATCH=%LMQ%a,b;INNER_MULTI_QUEUE_OFFSET=1,2", "INNER_MULTI_DISPATCH=", "T=1;K=2;U=3;I=4", "TAGS=a=b;KEYS= ",
		"TAGS=a;" + strings.Repeat("NAME=value;", 12) + "TAGS=b",
	} {
		f.Add([]byte(props(s)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p := record.Properties(b)
		var want record.Known
		for name, value := range map[string]*[]byte{
			record.PropertyTags: &want.Tags, record.PropertyKeys: &want.Keys, record.PropertyUniqKey: &want.UniqKey, record.PropertyMultiDispatch: &want.MultiDispatch,
		} {
			*value, _ = p.View(name)
		}
		got := p.Known()
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("%q: %s", b, d)
		}
		if got, want := (&record.Message{Properties: p}).TagsCode(), record.TagsCode(string(want.Tags)); got != want {
			t.Fatalf("%q: tags code %d, want %d", b, got, want)
		}
	})
}

// What ParseKnown says of a record is what Parse says, and the errors are the same.
func TestParseKnownIsParse(t *testing.T) {
	for _, m := range []record.Message{
		{Topic: "T", Body: []byte("b")},
		{Topic: "T", Properties: record.NewProperties(record.PropertyTags, "中文", record.PropertyKeys, "a b", record.PropertyUniqKey, "u")},
		{Topic: record.TopicSchedule, QueueID: 2, StoreTimestamp: 1_700_000_000_000, Properties: record.NewProperties(record.PropertyDelay, "3", record.PropertyTags, "t")},
		{Topic: record.TopicSchedule, Properties: record.NewProperties(record.PropertyTags, "t")},
	} {
		b, err := record.AppendRecord(nil, &m, record.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range [][]byte{b, b[:len(b)-1], append(bytes.Clone(b[:4]), make([]byte, len(b))...)} {
			p, q := record.Parser{VerifyCRC: true}, record.Parser{VerifyCRC: true}
			var want, got record.Meta
			var k record.Known
			wantErr, gotErr := p.Parse(b, m.PhyOffset, &want), q.ParseKnown(b, m.PhyOffset, &got, &k)
			if d := cmp.Diff(want, got); d != "" || (wantErr == nil) != (gotErr == nil) || wantErr != nil && wantErr.Error() != gotErr.Error() {
				t.Errorf("%v, %v: %s", wantErr, gotErr, d)
			}
			if d := cmp.Diff(want.Properties.Known(), k, cmpopts.EquateEmpty()); d != "" {
				t.Error(d)
			}
		}
	}
	blank := make([]byte, record.BlankHeaderSize)
	record.PutBlank(blank, 100)
	var m record.Meta
	k := record.Known{Tags: []byte("of the record before")}
	if err := new(record.Parser).ParseKnown(blank, 0, &m, &k); err != nil || !m.IsBlank() || k.Tags != nil {
		t.Errorf("%+v %+v %v", m, k, err)
	}
}
