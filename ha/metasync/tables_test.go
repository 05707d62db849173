package metasync

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mqstore/mqstore/conformance/golden"
	"github.com/mqstore/mqstore/ha/remoting"
)

func ptr[T any](v T) *T { return &v }

func TestTheOriginalsBodiesAreRead(t *testing.T) {
	topics, err := DecodeTopics([]byte(topicsBody))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(TopicConfigTable{
		DataVersion: DataVersion{Counter: 2, Timestamp: 1700000000000},
		Topics:      map[string]TopicConfig{"TopicTest": {Name: "TopicTest", ReadQueueNums: 4, WriteQueueNums: 4, Perm: 6, FilterType: "SINGLE_TAG"}},
	}, topics); d != "" {
		t.Error(d)
	}
	offsets, err := DecodeConsumerOffsets([]byte(offsetBody))
	if d := cmp.Diff(ConsumerOffsets{Offsets: map[string]map[int32]int64{"TopicTest@groupA": {0: 10, 1: 8}}}, offsets); err != nil || d != "" {
		t.Error(err, d)
	}
	delay, err := DecodeDelayOffsets([]byte(delayBody))
	if d := cmp.Diff(DelayOffsets{Offsets: map[int32]int64{1: 5, 2: 0}}, delay); err != nil || d != "" {
		t.Error(err, d)
	}
	groups, err := DecodeSubscriptionGroups([]byte(groupsBody))
	if d := cmp.Diff(SubscriptionGroups{
		DataVersion: DataVersion{Counter: 7, Timestamp: 1700000000001},
		Groups:      map[string]SubscriptionGroup{"groupA": NewSubscriptionGroup("groupA")},
	}, groups); err != nil || d != "" {
		t.Error(err, d)
	}
}

func TestGoldenDelayOffsetsAreRead(t *testing.T) {
	for name, want := range map[string]map[int32]int64{"delay": {1: 4}, "basic": {}} {
		b, err := os.ReadFile(filepath.Join(golden.Extract(t, name), "store", "config", "delayOffset.json"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeDelayOffsets(b)
		if d := cmp.Diff(DelayOffsets{Offsets: want}, got); err != nil || d != "" {
			t.Errorf("%s: %v %s", name, err, d)
		}
	}
}

func TestMissingMembersGetTheOriginalsDefaults(t *testing.T) {
	topics, err := DecodeTopics([]byte(`{"topicConfigTable":{"a":{},"b":null,"c":{"perm":null,"topicName":"c"}},"dataVersion":null}`))
	if d := cmp.Diff(map[string]TopicConfig{"a": NewTopicConfig(""), "c": NewTopicConfig("c")}, topics.Topics); err != nil || d != "" {
		t.Error(err, d)
	}
	groups, err := DecodeSubscriptionGroups([]byte(`{"subscriptionGroupTable":{"g":{"consumeEnable":false}}}`))
	want := NewSubscriptionGroup("")
	want.ConsumeEnable = false
	if d := cmp.Diff(map[string]SubscriptionGroup{"g": want}, groups.Groups); err != nil || d != "" {
		t.Error(err, d)
	}
	offsets, err := DecodeConsumerOffsets([]byte(`{"offsetTable":{"a@b":null,"c@d":{0:null,1:2}}}`))
	if d := cmp.Diff(map[string]map[int32]int64{"c@d": {1: 2}}, offsets.Offsets); err != nil || d != "" {
		t.Error(err, d)
	}
	for _, text := range []string{"{}", "null"} {
		if v, err := DecodeTopics([]byte(text)); err != nil || len(v.Topics) != 0 {
			t.Errorf("%s: %v, %v", text, v, err)
		}
	}
}

// As fastjson 1.2.69 writes two keys that share one map.
func TestAReferenceToAnotherKeyIsFollowed(t *testing.T) {
	text := `{"offsetTable":{"T@same":{0:10,-1:-1,11:9223372036854775807},"T@g":{"$ref":"$.offsetTable.T\\@same"}}}`
	got, err := DecodeConsumerOffsets([]byte(text))
	queues := map[int32]int64{0: 10, -1: -1, 11: 1<<63 - 1}
	if d := cmp.Diff(map[string]map[int32]int64{"T@same": queues, "T@g": queues}, got.Offsets); err != nil || d != "" {
		t.Error(err, d)
	}
	got.Offsets["T@g"][0] = 11
	if got.Offsets["T@same"][0] != 10 {
		t.Error("both keys share one map")
	}
	for _, ref := range []string{"$.offsetTable.gone", "$.offsetTable.T@g", "$.offsetTable.", "$", "..", ""} {
		if o, err := DecodeConsumerOffsets([]byte(`{"offsetTable":{"T@g":{"$ref":"` + ref + `"}}}`)); err == nil {
			t.Errorf("%s: %v", ref, o)
		}
	}
}

func TestReferencesDoNotMultiplyWithoutBound(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"offsetTable":{"big":{0:0`)
	for i := range 10_000 {
		fmt.Fprintf(&b, ",%d:0", i+1)
	}
	b.WriteString("}")
	for i := range 1000 {
		fmt.Fprintf(&b, `,"%d":{"$ref":"$.offsetTable.big"}`, i)
	}
	b.WriteString("}}")
	if o, err := DecodeConsumerOffsets([]byte(b.String())); err == nil {
		t.Errorf("%d bytes became %d keys of 10001 offsets", b.Len(), len(o.Offsets))
	}
}

func TestWhatIsNoTableIsRefused(t *testing.T) {
	for _, text := range []string{"", "[]", "{", "1", `{"offsetTable":[]}`, `{"offsetTable":{"a@b":{"x":1}}}`, `{"offsetTable":{"a@b":{2147483648:1}}}`,
		`{"offsetTable":{"a@b":{0:9223372036854775808}}}`, `{"offsetTable":{"a@b":{0:1.5}}}`, `{"dataVersion":7}`} {
		if v, err := DecodeConsumerOffsets([]byte(text)); err == nil {
			t.Errorf("%s: read as %v", text, v)
		}
	}
}

// v5 are tables of RocketMQ 5, with members that 4.9.8 has not.
var v5 = map[Kind]string{
	KindTopics: `{"dataVersion":{"counter":3,"stateVersion":4,"timestamp":5},"mappingDataVersion":{"counter":0,"stateVersion":0,"timestamp":1},"topicConfigTable":` +
		`{"T":{"attributes":{"+message.type":"FIFO"},"order":true,"perm":7,"readQueueNums":8,"topicFilterType":"MULTI_TAG","topicName":"T","topicSysFlag":2,"writeQueueNums":9}},` +
		`"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{"x":[1,{"2":3}]}}`,
	KindConsumerOffsets: `{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":2},"offsetTable":{"T@g":{"0":1}}}`,
	KindDelayOffsets:    `{"dataVersion":{"counter":1,"stateVersion":9223372036854775807,"timestamp":2},"offsetTable":{"18":1}}`,
	KindSubscriptionGroups: `{"dataVersion":{"counter":1,"timestamp":2},"forbiddenTable":{"g":{"T":1}},"subscriptionGroupTable":{"g":{"attributes":{},"brokerId":2,` +
		`"consumeBroadcastEnable":false,"consumeEnable":true,"consumeFromMinEnable":false,"consumeMessageOrderly":false,"consumeTimeoutMinute":15,"groupName":"g",` +
		`"groupRetryPolicy":{"type":"CUSTOMIZED"},"groupSysFlag":0,"notifyConsumerIdsChangedEnable":false,"retryMaxTimes":1,"retryQueueNums":2,"whichBrokerWhenConsumeSlowly":3}}}`,
}

// again decodes and encodes.
func again(k Kind, text []byte) ([]byte, error) {
	enc := func(v any, err error) ([]byte, error) {
		if err != nil {
			return nil, err
		}
		return remoting.Marshal(v)
	}
	switch k {
	case KindTopics:
		return enc(DecodeTopics(text))
	case KindConsumerOffsets:
		return enc(DecodeConsumerOffsets(text))
	case KindDelayOffsets:
		return enc(DecodeDelayOffsets(text))
	}
	return enc(DecodeSubscriptionGroups(text))
}

func TestUnknownMembersSurviveARoundTripAndNullsDoNot(t *testing.T) {
	for k, text := range v5 {
		got, err := again(k, []byte(text))
		if d := cmp.Diff(text, string(got)); err != nil || d != "" {
			t.Errorf("%s: %v %s", k, err, d)
		}
		withNull := strings.Replace(text, `{`, `{"future":null,`, 1)
		if got, err := again(k, []byte(withNull)); err != nil || string(got) != text {
			t.Errorf("%s with a null: %v, %s", k, err, got)
		}
	}
}

func TestDataVersionsAreEqualOnlyIfAllFieldsAre(t *testing.T) {
	v := DataVersion{Counter: 1, Timestamp: 2}
	for _, c := range []struct {
		text string
		want bool
	}{
		{`{"counter":1,"timestamp":2}`, true},
		{`{"counter":1,"timestamp":2,"stateVersion":0}`, true},
		{`{"counter":1,"timestamp":2,"stateVersion":null,"other":5}`, true},
		{`{"counter":1,"timestamp":2,"stateVersion":1}`, false},
		{`{"counter":0,"timestamp":2}`, false},
		{`{"counter":1,"timestamp":3}`, false},
		{`{}`, false},
	} {
		var w DataVersion
		if err := json.Unmarshal([]byte(c.text), &w); err != nil {
			t.Fatal(err)
		}
		if v.Equal(w) != c.want || w.Equal(v) != c.want {
			t.Errorf("%s equal: %v, want %v", c.text, !c.want, c.want)
		}
	}
	v.StateVersion = ptr(int64(9))
	n := v.Next(time.UnixMilli(77))
	if d := cmp.Diff(DataVersion{Counter: 2, Timestamp: 77, StateVersion: ptr(int64(9))}, n); d != "" || v.Counter != 1 {
		t.Error(d)
	}
}

func TestMergeTakesWholeKeysAndRemovesNone(t *testing.T) {
	o := ConsumerOffsets{Offsets: map[string]map[int32]int64{"a@g": {0: 1, 1: 1}, "b@g": {0: 9}}, Extra: Fields{"x": json.RawMessage("1")}}
	o.Merge(ConsumerOffsets{Offsets: map[string]map[int32]int64{"a@g": {0: 0}, "c@g": {5: 5}}, DataVersion: &DataVersion{Counter: 3}, Extra: Fields{"y": json.RawMessage("2")}})
	if d := cmp.Diff(ConsumerOffsets{
		Offsets:     map[string]map[int32]int64{"a@g": {0: 0}, "b@g": {0: 9}, "c@g": {5: 5}},
		DataVersion: &DataVersion{Counter: 3}, Extra: Fields{"x": json.RawMessage("1"), "y": json.RawMessage("2")},
	}, o); d != "" {
		t.Error(d)
	}
	var empty ConsumerOffsets
	empty.Merge(o)
	if d := cmp.Diff(o.Offsets, empty.Offsets); d != "" {
		t.Error(d)
	}
}

func FuzzTables(f *testing.F) {
	for k, text := range v5 {
		f.Add(uint8(k), []byte(text))
	}
	f.Add(uint8(KindConsumerOffsets), []byte(`{"offsetTable":{"T@same":{0:1},"T@g":{"$ref":"$.offsetTable.T\\@same"}}}`))
	for k, text := range []string{topicsBody, offsetBody, delayBody, groupsBody} {
		f.Add(uint8(k), []byte(text))
	}
	f.Fuzz(func(t *testing.T, k uint8, text []byte) {
		kind := Kind(k % kinds)
		once, err := again(kind, text)
		if (err == nil) != (check(kind, text) == nil) && check(kind, text) != nil {
			t.Fatalf("encoded what cannot be decoded: %s", once)
		}
		if err != nil {
			return
		}
		twice, err := again(kind, once)
		if err != nil || string(once) != string(twice) {
			t.Fatalf("%v: not stable:\n%s\n%s", err, once, twice)
		}
	})
}
