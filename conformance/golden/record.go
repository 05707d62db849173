package golden

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Magic codes as the manifests write them.
const (
	MagicMessage = "0xdaa320a7"
	MagicBlank   = "0xcbd43194"
)

// Record is one record of the log. Two forms exist in the manifests: the full one has Dispatch and Message; the compact one ("offset:size topic-queueId@queueOffset") only the fields above them.
type Record struct {
	Offset      int64  `json:"offset"` // physical
	TotalSize   int    `json:"totalSize"`
	Magic       string `json:"magic"`
	Topic       string `json:"-"` // "" for a blank
	QueueID     int32  `json:"-"`
	QueueOffset int64  `json:"-"`

	Dispatch *DispatchResult `json:"dispatch"` // nil in the compact form
	Message  *Message        `json:"message"`  // nil in the compact form and for a blank
}

// IsBlank reports an end-of-file blank.
func (r Record) IsBlank() bool { return r.Magic == MagicBlank }

// DispatchResult is what the original's dispatch parser said of a record. A blank has MsgSize 0.
type DispatchResult struct {
	Success            bool    `json:"success"`
	MsgSize            int     `json:"msgSize"`
	TagsCode           int64   `json:"tagsCode"`
	Keys               *string `json:"keys"`    // nil = no such property
	UniqKey            *string `json:"uniqKey"` // nil = no such property
	ConsumeQueueOffset int64   `json:"consumeQueueOffset"`
	StoreTimestamp     int64   `json:"storeTimestamp"`
	SysFlag            int32   `json:"sysFlag"`
}

// Message is a record as the original's decoder reads it.
type Message struct {
	Topic                     string            `json:"topic"`
	QueueID                   int32             `json:"queueId"`
	StoreSize                 int               `json:"storeSize"`
	QueueOffset               int64             `json:"queueOffset"`
	CommitLogOffset           int64             `json:"commitLogOffset"`
	Flag                      int32             `json:"flag"`
	SysFlag                   int32             `json:"sysFlag"`
	BornTimestamp             int64             `json:"bornTimestamp"`
	BornHost                  string            `json:"bornHost"`
	StoreTimestamp            int64             `json:"storeTimestamp"`
	StoreHost                 string            `json:"storeHost"`
	ReconsumeTimes            int32             `json:"reconsumeTimes"`
	PreparedTransactionOffset int64             `json:"preparedTransactionOffset"`
	BodyCRC                   uint32            `json:"bodyCRC"`
	BodyLength                int               `json:"bodyLength"` // as stored, so compressed if it is; -1 = there is no body
	Properties                map[string]string `json:"properties"`
	MsgID                     string            `json:"msgId"`
}

// UnmarshalJSON reads both forms.
func (r *Record) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		type object Record
		if err := strict(b, (*object)(r)); err != nil {
			return err
		}
		if m := r.Message; m != nil {
			r.Topic, r.QueueID, r.QueueOffset = m.Topic, m.QueueID, m.QueueOffset
		}
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	place, what, ok := strings.Cut(s, " ")
	if _, err := fmt.Sscanf(place, "%d:%d", &r.Offset, &r.TotalSize); err != nil || !ok {
		return fmt.Errorf("record %q is not offset:size and a queue or magic", s)
	}
	if magic, ok := strings.CutPrefix(what, "magic "); ok {
		r.Magic = magic
		return nil
	}
	r.Magic = MagicMessage
	at := strings.LastIndexByte(what, '@')
	dash := strings.LastIndexByte(what[:max(at, 0)], '-')
	if dash < 0 {
		return fmt.Errorf("record %q is not offset:size topic-queueId@queueOffset", s)
	}
	r.Topic = what[:dash]
	if _, err := fmt.Sscanf(what[dash+1:], "%d@%d", &r.QueueID, &r.QueueOffset); err != nil {
		return fmt.Errorf("record %q: %w", s, err)
	}
	return nil
}
