package metasync

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mqstore/mqstore/ha/remoting"
)

// The JSON of these types is RocketMQ's (spec/ha-protocol.md 6.17): json.Marshal writes what the original reads. To read what the original wrote use the Decode functions:
// they also take fastjson's bare integer keys and its references. Missing members get the original's defaults, unknown ones are kept in Extra, nulls count as missing.

// DataVersion tells two states of a table apart. It is not an order: a slave takes its master's table on any difference.
type DataVersion struct {
	Counter      int64
	Timestamp    int64  // ms
	StateVersion *int64 // RocketMQ 5; nil = not there, and not written. It counts as 0 in comparisons
	Extra        Fields
}

// Equal says whether both name the same state: counter, timestamp, and state version.
func (v DataVersion) Equal(w DataVersion) bool {
	state := func(p *int64) int64 {
		if p == nil {
			return 0
		}
		return *p
	}
	return v.Counter == w.Counter && v.Timestamp == w.Timestamp && state(v.StateVersion) == state(w.StateVersion)
}

// Next is the version after a change at now.
func (v DataVersion) Next(now time.Time) DataVersion {
	v.Counter++
	v.Timestamp = now.UnixMilli()
	return v
}

// MarshalJSON writes what the original reads.
func (v DataVersion) MarshalJSON() ([]byte, error) {
	m := []member{{"counter", v.Counter}, {"timestamp", v.Timestamp}}
	if v.StateVersion != nil {
		m = append(m, member{"stateVersion", *v.StateVersion})
	}
	return v.Extra.with(m...)
}

// UnmarshalJSON reads plain JSON: see the Decode functions for what the original writes. After an error the receiver is as it was.
func (v *DataVersion) UnmarshalJSON(b []byte) error {
	f, err := decodeObject(b)
	if err != nil {
		return err
	}
	var n DataVersion
	if err := f.takeAll(member{"counter", &n.Counter}, member{"timestamp", &n.Timestamp}, member{"stateVersion", &n.StateVersion}); err != nil {
		return err
	}
	n.Extra = f.rest()
	*v = n
	return nil
}

// Bits of TopicConfig.Perm.
const (
	PermInherit = 1 << 0
	PermWrite   = 1 << 1
	PermRead    = 1 << 2
)

// TopicConfig is one topic. RocketMQ 5's attributes are in Extra.
type TopicConfig struct {
	Name           string
	ReadQueueNums  int32
	WriteQueueNums int32
	Perm           int32
	FilterType     string // SINGLE_TAG or MULTI_TAG
	SysFlag        int32
	Order          bool
	Extra          Fields
}

// NewTopicConfig is a topic with the original's defaults: 16 queues, readable and writable.
func NewTopicConfig(name string) TopicConfig {
	return TopicConfig{Name: name, ReadQueueNums: 16, WriteQueueNums: 16, Perm: PermRead | PermWrite, FilterType: "SINGLE_TAG"}
}

// MarshalJSON writes what the original reads.
func (t TopicConfig) MarshalJSON() ([]byte, error) {
	return t.Extra.with(member{"topicName", t.Name}, member{"readQueueNums", t.ReadQueueNums}, member{"writeQueueNums", t.WriteQueueNums}, member{"perm", t.Perm},
		member{"topicFilterType", t.FilterType}, member{"topicSysFlag", t.SysFlag}, member{"order", t.Order})
}

// UnmarshalJSON reads plain JSON: see the Decode functions for what the original writes. After an error the receiver is as it was.
func (t *TopicConfig) UnmarshalJSON(b []byte) error {
	f, err := decodeObject(b)
	if err != nil {
		return err
	}
	n := NewTopicConfig("")
	if err := f.takeAll(member{"topicName", &n.Name}, member{"readQueueNums", &n.ReadQueueNums}, member{"writeQueueNums", &n.WriteQueueNums}, member{"perm", &n.Perm},
		member{"topicFilterType", &n.FilterType}, member{"topicSysFlag", &n.SysFlag}, member{"order", &n.Order}); err != nil {
		return err
	}
	n.Extra = f.rest()
	*t = n
	return nil
}

// TopicConfigTable is the topics of a broker: the answer to code 21 and config/topics.json.
type TopicConfigTable struct {
	DataVersion DataVersion
	Topics      map[string]TopicConfig // by name
	Extra       Fields                 // RocketMQ 5: queue mappings
}

// MarshalJSON writes what the original reads.
func (t TopicConfigTable) MarshalJSON() ([]byte, error) {
	return t.Extra.with(member{"dataVersion", t.DataVersion}, member{"topicConfigTable", orEmpty(t.Topics)})
}

// UnmarshalJSON reads plain JSON: see the Decode functions for what the original writes. After an error the receiver is as it was.
func (t *TopicConfigTable) UnmarshalJSON(b []byte) error {
	f, err := decodeObject(b)
	if err != nil {
		return err
	}
	var n TopicConfigTable
	var table map[string]*TopicConfig
	if err := f.takeAll(member{"dataVersion", &n.DataVersion}, member{"topicConfigTable", &table}); err != nil {
		return err
	}
	n.Topics, n.Extra = withoutNulls(table), f.rest()
	*t = n
	return nil
}

// SubscriptionGroup is one consumer group. RocketMQ 5's further fields are in Extra.
type SubscriptionGroup struct {
	Name                           string
	ConsumeEnable                  bool
	ConsumeFromMinEnable           bool
	ConsumeBroadcastEnable         bool
	RetryQueueNums                 int32
	RetryMaxTimes                  int32
	BrokerID                       int64
	WhichBrokerWhenConsumeSlowly   int64
	NotifyConsumerIDsChangedEnable bool
	Extra                          Fields
}

// NewSubscriptionGroup is a group with the original's defaults.
func NewSubscriptionGroup(name string) SubscriptionGroup {
	return SubscriptionGroup{
		Name: name, ConsumeEnable: true, ConsumeFromMinEnable: true, ConsumeBroadcastEnable: true, RetryQueueNums: 1, RetryMaxTimes: 16,
		WhichBrokerWhenConsumeSlowly: 1, NotifyConsumerIDsChangedEnable: true,
	}
}

// MarshalJSON writes what the original reads.
func (g SubscriptionGroup) MarshalJSON() ([]byte, error) {
	return g.Extra.with(member{"groupName", g.Name}, member{"consumeEnable", g.ConsumeEnable}, member{"consumeFromMinEnable", g.ConsumeFromMinEnable},
		member{"consumeBroadcastEnable", g.ConsumeBroadcastEnable}, member{"retryQueueNums", g.RetryQueueNums}, member{"retryMaxTimes", g.RetryMaxTimes},
		member{"brokerId", g.BrokerID}, member{"whichBrokerWhenConsumeSlowly", g.WhichBrokerWhenConsumeSlowly},
		member{"notifyConsumerIdsChangedEnable", g.NotifyConsumerIDsChangedEnable})
}

// UnmarshalJSON reads plain JSON: see the Decode functions for what the original writes. After an error the receiver is as it was.
func (g *SubscriptionGroup) UnmarshalJSON(b []byte) error {
	f, err := decodeObject(b)
	if err != nil {
		return err
	}
	n := NewSubscriptionGroup("")
	if err := f.takeAll(member{"groupName", &n.Name}, member{"consumeEnable", &n.ConsumeEnable}, member{"consumeFromMinEnable", &n.ConsumeFromMinEnable},
		member{"consumeBroadcastEnable", &n.ConsumeBroadcastEnable}, member{"retryQueueNums", &n.RetryQueueNums}, member{"retryMaxTimes", &n.RetryMaxTimes},
		member{"brokerId", &n.BrokerID}, member{"whichBrokerWhenConsumeSlowly", &n.WhichBrokerWhenConsumeSlowly},
		member{"notifyConsumerIdsChangedEnable", &n.NotifyConsumerIDsChangedEnable}); err != nil {
		return err
	}
	n.Extra = f.rest()
	*g = n
	return nil
}

// SubscriptionGroups is the consumer groups of a broker: the answer to code 201 and config/subscriptionGroup.json.
type SubscriptionGroups struct {
	DataVersion DataVersion
	Groups      map[string]SubscriptionGroup // by name
	Extra       Fields                       // RocketMQ 5: forbiddenTable
}

// MarshalJSON writes what the original reads.
func (g SubscriptionGroups) MarshalJSON() ([]byte, error) {
	return g.Extra.with(member{"dataVersion", g.DataVersion}, member{"subscriptionGroupTable", orEmpty(g.Groups)})
}

// UnmarshalJSON reads plain JSON: see the Decode functions for what the original writes. After an error the receiver is as it was.
func (g *SubscriptionGroups) UnmarshalJSON(b []byte) error {
	f, err := decodeObject(b)
	if err != nil {
		return err
	}
	var n SubscriptionGroups
	var table map[string]*SubscriptionGroup
	if err := f.takeAll(member{"dataVersion", &n.DataVersion}, member{"subscriptionGroupTable", &table}); err != nil {
		return err
	}
	n.Groups, n.Extra = withoutNulls(table), f.rest()
	*g = n
	return nil
}

// ConsumerOffsets says how far each group has consumed each queue: the answer to code 43 and config/consumerOffset.json.
type ConsumerOffsets struct {
	Offsets     map[string]map[int32]int64 // by "topic@group", then queue id: a queue offset
	DataVersion *DataVersion               // RocketMQ 5; nil = not there
	Extra       Fields
}

// Merge takes all of from, whole keys at a time, and removes nothing: what a slave does with its master's offsets. from's maps are shared afterwards.
func (o *ConsumerOffsets) Merge(from ConsumerOffsets) {
	if o.Offsets == nil {
		o.Offsets = make(map[string]map[int32]int64, len(from.Offsets))
	}
	maps.Copy(o.Offsets, from.Offsets)
	if from.DataVersion != nil {
		o.DataVersion = from.DataVersion
	}
	if len(from.Extra) > 0 {
		extra := make(Fields, len(o.Extra)+len(from.Extra))
		maps.Copy(extra, o.Extra)
		maps.Copy(extra, from.Extra)
		o.Extra = extra
	}
}

// MarshalJSON writes what the original reads.
func (o ConsumerOffsets) MarshalJSON() ([]byte, error) {
	return o.Extra.with(withVersion(o.DataVersion, member{"offsetTable", orEmpty(o.Offsets)})...)
}

// UnmarshalJSON reads plain JSON: see the Decode functions for what the original writes. After an error the receiver is as it was.
func (o *ConsumerOffsets) UnmarshalJSON(b []byte) error {
	f, err := decodeObject(b)
	if err != nil {
		return err
	}
	var n ConsumerOffsets
	var table map[string]*queueOffsets
	if err := f.takeAll(member{"offsetTable", &table}, member{"dataVersion", &n.DataVersion}); err != nil {
		return err
	}
	n.Offsets = make(map[string]map[int32]int64, len(table))
	referred := 0
	for k, q := range table {
		switch {
		case q == nil:
			continue
		case q.ref != "":
			to, ok := table[q.ref]
			if !ok || to == nil || to.ref != "" {
				return fmt.Errorf("offsetTable: %q refers to %q, which has no offsets", k, q.ref)
			}
			if referred += len(to.offsets); referred > maxReferred {
				return fmt.Errorf("offsetTable: references to more than %d offsets", maxReferred)
			}
			q = to
		}
		n.Offsets[k] = withoutNulls(q.offsets)
	}
	n.Extra = f.rest()
	*o = n
	return nil
}

// queueOffsets is one key's offsets by queue id; or, where two keys share one map in the original's memory, fastjson's reference to the other key.
type queueOffsets struct {
	offsets map[int32]*int64
	ref     string
}

// maxReferred bounds what references may add: a few bytes of text can refer to a large map again and again.
const maxReferred = 1 << 20

// refPrefix begins a reference: {"$ref":"$.offsetTable.TopicTest\\@groupA"}. In the key, a backslash stands before each special character.
const refPrefix = "$.offsetTable."

func (q *queueOffsets) UnmarshalJSON(b []byte) error {
	err := json.Unmarshal(b, &q.offsets)
	if err == nil {
		return nil
	}
	var r struct {
		Ref string `json:"$ref"`
	}
	if json.Unmarshal(b, &r) != nil || r.Ref == "" {
		return err
	}
	path, ok := strings.CutPrefix(r.Ref, refPrefix)
	if !ok || path == "" {
		return fmt.Errorf("reference %q is none to another key", r.Ref)
	}
	*q = queueOffsets{ref: unescape(path)}
	return nil
}

// unescape drops each backslash before a character.
func unescape(s string) string {
	var out []byte
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		out = append(out, s[i])
	}
	return string(out)
}

// DelayOffsets says how far each delay level has been delivered: the answer to code 45 and config/delayOffset.json.
type DelayOffsets struct {
	Offsets     map[int32]int64 // by delay level: a queue offset in SCHEDULE_TOPIC_XXXX
	DataVersion *DataVersion    // RocketMQ 5; nil = not there
	Extra       Fields
}

// MarshalJSON writes what the original reads.
func (o DelayOffsets) MarshalJSON() ([]byte, error) {
	return o.Extra.with(withVersion(o.DataVersion, member{"offsetTable", orEmpty(o.Offsets)})...)
}

// UnmarshalJSON reads plain JSON: see the Decode functions for what the original writes. After an error the receiver is as it was.
func (o *DelayOffsets) UnmarshalJSON(b []byte) error {
	f, err := decodeObject(b)
	if err != nil {
		return err
	}
	var n DelayOffsets
	var table map[int32]*int64
	if err := f.takeAll(member{"offsetTable", &table}, member{"dataVersion", &n.DataVersion}); err != nil {
		return err
	}
	n.Offsets, n.Extra = withoutNulls(table), f.rest()
	*o = n
	return nil
}

func withVersion(v *DataVersion, m ...member) []member {
	if v != nil {
		m = append(m, member{"dataVersion", *v})
	}
	return m
}

func orEmpty[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return map[K]V{}
	}
	return m
}

// DecodeTopics reads an answer to code 21 or a topics.json.
func DecodeTopics(text []byte) (TopicConfigTable, error) { return decode[TopicConfigTable](text) }

// DecodeConsumerOffsets reads an answer to code 43 or a consumerOffset.json.
func DecodeConsumerOffsets(text []byte) (ConsumerOffsets, error) {
	return decode[ConsumerOffsets](text)
}

// DecodeDelayOffsets reads an answer to code 45 or a delayOffset.json.
func DecodeDelayOffsets(text []byte) (DelayOffsets, error) { return decode[DelayOffsets](text) }

// DecodeSubscriptionGroups reads an answer to code 201 or a subscriptionGroup.json.
func DecodeSubscriptionGroups(text []byte) (SubscriptionGroups, error) {
	return decode[SubscriptionGroups](text)
}

func decode[T any](text []byte) (T, error) {
	var v, zero T
	if len(text) == 0 {
		return zero, errEmpty
	}
	if !utf8.Valid(text) { // encoding/json would change it in silence
		return zero, fmt.Errorf("no JSON of a %T: not UTF-8", v)
	}
	if err := remoting.Unmarshal(text, &v); err != nil {
		return zero, fmt.Errorf("no JSON of a %T: %w", v, err)
	}
	return v, nil
}
