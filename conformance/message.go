package conformance

import (
	"bytes"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

var (
	producer6, _ = record.ParseHost("[2001:db8::7]:54321")
	broker6, _   = record.ParseHost("[2001:db8::1]:10911")
)

// clone is m as it is now: a store sets fields of what it is given.
func clone(m *record.Message) *record.Message {
	c := *m
	c.Body, c.Properties = bytes.Clone(m.Body), bytes.Clone(m.Properties)
	return &c
}

// Same reports a fault for each of the producer's fields that got and want do not have in common. Of the system flag the two bits are left out that say how hosts are stored.
func (t *T) Same(what string, got, want *record.Message) {
	const hosts = record.FlagBornHostV6 | record.FlagStoreHostV6
	Equal(t, what+": topic", got.Topic, want.Topic)
	Equal(t, what+": queue id", got.QueueID, want.QueueID)
	Equal(t, what+": flag", got.Flag, want.Flag)
	Equal(t, what+": system flag", got.SysFlag&^hosts, want.SysFlag&^hosts)
	Equal(t, what+": born time", got.BornTimestamp, want.BornTimestamp)
	Equal(t, what+": born host", got.BornHost, want.BornHost)
	Equal(t, what+": store host", got.StoreHost, want.StoreHost)
	Equal(t, what+": reconsume times", got.ReconsumeTimes, want.ReconsumeTimes)
	Equal(t, what+": prepared transaction offset", got.PreparedTransactionOffset, want.PreparedTransactionOffset)
	if !bytes.Equal(got.Body, want.Body) {
		t.Errorf("%s: body is %d bytes (%.40q), want %d (%.40q)", what, len(got.Body), got.Body, len(want.Body), want.Body)
	}
	if !bytes.Equal(got.Properties, want.Properties) {
		t.Errorf("%s: properties are %.80q, want %.80q", what, got.Properties, want.Properties)
	}
}

// Refuse puts m and reports a fault unless it is refused by that sentinel with that status of the broker.
func (t *T) Refuse(what string, m *record.Message, sentinel error, status string) {
	_, err := t.Store().Put(t.ctx, m)
	t.Refused(what, err, sentinel, status)
}

// Illegal is Refuse of a message that breaks a limit.
func (t *T) Illegal(what string, m *record.Message) {
	t.Refuse(what, m, store.ErrMessageIllegal, "MESSAGE_ILLEGAL")
}

// Sized is a message whose record is exactly n bytes long.
func (t *T) Sized(topic string, queueID int32, n int) *record.Message {
	m := t.Message(topic, queueID, "")
	least, err := m.EncodedSize(record.Limits{MaxMessageSize: n})
	if err != nil || n < least {
		t.Fatalf("the law asks for a record of %d bytes: the least is %d, %v", n, least, err)
	}
	m.Body = bytes.Repeat([]byte{'b'}, n-least)
	return m
}

// Fill puts messages to topic until exactly left bytes of the log's last segment are free; left is at least 8. The law's Config says how long segments are.
func (t *T) Fill(topic string, left int) {
	const least = 200
	segment := int(t.law.Config.SegmentSize)
	for range 4 {
		rest := segment - int(max(t.Store().MaxPhyOffset(), 0))%segment
		if need := rest - left; need >= least {
			t.Put(t.Sized(topic, 0, need))
			return
		}
		t.Put(t.Sized(topic, 0, least)) // and on to the next segment, sooner or later
	}
	t.Fatalf("the log ends at %d: no room for a record that leaves %d bytes of a segment of %d", t.Store().MaxPhyOffset(), left, segment)
}

// end is one past the last byte of what was put.
func end(r store.PutResult) int64 { return r.PhyOffset + int64(r.Size) }
