package golden

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
)

// Put is one call of the original's putMessage or putMessages.
type Put struct {
	Op            string  `json:"op"` // putMessage, putMessages
	Input         Input   `json:"input"`
	Result        Result  `json:"result"`
	After         Changed `json:"after"`
	ElapsedMicros int64   `json:"elapsedMicros"`

	// compressed.
	Compression                  string `json:"compression"`
	UncompressedLength           int    `json:"uncompressedLength"`
	UncompressedSHA256           string `json:"uncompressedSha256"`
	JavaDecodeDecompressedEquals bool   `json:"javaDecodeDecompressedEquals"`

	// ha-capture.
	Phase string `json:"phase"`
	T     int64  `json:"t"` // ms since T0EpochMillis
}

// Input is what was given to the original.
type Input struct {
	Topic                     string            `json:"topic"`
	QueueID                   int32             `json:"queueId"`
	Tags                      *string           `json:"tags"` // nil = not set
	Keys                      *string           `json:"keys"` // nil = not set
	Properties                map[string]string `json:"properties"`
	PropertiesString          string            `json:"propertiesString"` // as written into the record, but for what the store adds (Changed.PropertiesString)
	Flag                      int32             `json:"flag"`
	SysFlag                   int32             `json:"sysFlag"`
	BornTimestamp             int64             `json:"bornTimestamp"`
	BornHost                  string            `json:"bornHost"`
	StoreHost                 string            `json:"storeHost"`
	ReconsumeTimes            int32             `json:"reconsumeTimes"`
	PreparedTransactionOffset int64             `json:"preparedTransactionOffset"`
	DelayTimeLevel            int               `json:"delayTimeLevel"`
	WaitStoreMsgOK            bool              `json:"waitStoreMsgOK"`
	TagsCode                  int64             `json:"tagsCode"`
	Body                      Body              `json:"body"`

	// putMessages.
	BatchPropertiesString string      `json:"batchPropertiesString"`
	EncodedBody           []byte      `json:"encodedBody"` // the client's batch body
	Messages              []BatchItem `json:"messages"`
}

// Body is a message body as given.
type Body []byte

// UnmarshalJSON reads base64, or "66000 bytes of 'z' (omitted)" and "4194305 zero bytes (omitted)".
func (o *Body) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	var n int
	var c byte
	if _, err := fmt.Sscanf(s, "%d bytes of '%c' (omitted)", &n, &c); err == nil && n < 1<<24 {
		*o = bytes.Repeat([]byte{c}, n)
		return nil
	}
	if _, err := fmt.Sscanf(s, "%d zero bytes (omitted)", &n); err == nil && n < 1<<24 {
		*o = make([]byte, n)
		return nil
	}
	var err error
	*o, err = base64.StdEncoding.DecodeString(s)
	return err
}

// BatchItem is one message of a batch.
type BatchItem struct {
	Topic            string            `json:"topic"`
	Flag             int32             `json:"flag"`
	Tags             *string           `json:"tags"`
	Keys             *string           `json:"keys"`
	Properties       map[string]string `json:"properties"`
	PropertiesString string            `json:"propertiesString"`
	Body             []byte            `json:"body"`
}

// Result is the original's answer. AppendMessageStatus is "" and the fields below it are zero if nothing was appended.
type Result struct {
	PutMessageStatus    string `json:"putMessageStatus"`
	AppendMessageResult any    `json:"appendMessageResult"` // written only as null, with no append result
	AppendMessageStatus string `json:"appendMessageStatus"`
	WroteOffset         int64  `json:"wroteOffset"`
	WroteBytes          int    `json:"wroteBytes"`
	MsgID               string `json:"msgId"` // joined with "," for a batch
	StoreTimestamp      int64  `json:"storeTimestamp"`
	LogicsOffset        int64  `json:"logicsOffset"`
	MsgNum              int    `json:"msgNum"`
}

// OK reports whether the message is in the log, whatever the status says about its safety.
func (r Result) OK() bool { return r.AppendMessageStatus == "PUT_OK" }

// Changed is the fields that the original set in what it was given; nil = as it was.
type Changed struct {
	BodyCRC          *uint32           `json:"bodyCRC"`
	StoreTimestamp   int64             `json:"storeTimestamp"`
	SysFlag          *int32            `json:"sysFlag"`
	Topic            *string           `json:"topic"`
	QueueID          *int32            `json:"queueId"`
	Properties       map[string]string `json:"properties"`
	PropertiesString *string           `json:"propertiesString"`
	DelayTimeLevel   *int              `json:"delayTimeLevel"`
}
