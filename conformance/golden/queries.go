package golden

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Queries is everything that was asked of a running store.
type Queries struct {
	Bounds
	DispatchBehindBytes  int64            `json:"dispatchBehindBytes"`
	ConfirmOffset        int64            `json:"confirmOffset"`
	EarliestMessageTime  int64            `json:"earliestMessageTime"`
	FlushedWhere         int64            `json:"flushedWhere"`
	CommittedWhere       int64            `json:"committedWhere"`
	CommitLogMappedFiles []MappedFile     `json:"commitLogMappedFiles"`
	TopicQueueTable      map[string]int64 `json:"topicQueueTable"`    // next queue offsets, key "topic-queueId"
	LmqTopicQueueTable   map[string]int64 `json:"lmqTopicQueueTable"` // the same of light queues
	CheckpointInMemory   Checkpoint       `json:"checkpointInMemory"`
	Queues               []Queue          `json:"queues"`
	GetMessage           []GetMessage     `json:"getMessage"`
	StoreTimeStamp       []StoreTimeStamp `json:"storeTimeStamp"`
	OffsetByTime         []OffsetByTime   `json:"offsetByTime"`
	QueryMessage         []QueryMessage   `json:"queryMessage"`
	ByPhysicalOffset     []ByPhysical     `json:"byPhysicalOffset"`
	Unknown              Unknown          `json:"unknown"`
}

// MappedFile is one commit log file and its write position.
type MappedFile struct{ Start, Wrote int64 }

// UnmarshalJSON reads "00000000000000131072 wrote=8487".
func (f *MappedFile) UnmarshalJSON(b []byte) error {
	return scan(b, "%d wrote=%d", &f.Start, &f.Wrote)
}

// Queue is one consume queue.
type Queue struct {
	Topic               string `json:"topic"`
	QueueID             int32  `json:"queueId"`
	MinOffset           int64  `json:"minOffset"`
	MaxOffset           int64  `json:"maxOffset"`
	MaxPhysicOffset     int64  `json:"maxPhysicOffset"` // end of the last indexed record
	LastOffset          int64  `json:"lastOffset"`
	MessageTotalInQueue int64  `json:"messageTotalInQueue"`
	EarliestMessageTime int64  `json:"earliestMessageTime"`
}

// GetMessage is one getMessage and its answer.
type GetMessage struct {
	Topic                   string  `json:"topic"`
	QueueID                 int32   `json:"queueId"`
	Offset                  int64   `json:"offset"`
	MaxMsgNums              int     `json:"maxMsgNums"`
	Filter                  *string `json:"filter"` // nil = no filter
	Status                  string  `json:"status"`
	NextBeginOffset         int64   `json:"nextBeginOffset"`
	MinOffset               int64   `json:"minOffset"`
	MaxOffset               int64   `json:"maxOffset"`
	MessageCount            int     `json:"messageCount"`
	BufferTotalSize         int     `json:"bufferTotalSize"`
	MsgCount4Commercial     int     `json:"msgCount4Commercial"`
	SuggestPullingFromSlave bool    `json:"suggestPullingFromSlave"`
	Found                   Ranges  `json:"found"`
}

// Range is a record's place in the log.
type Range struct {
	PhyOffset int64
	Size      int
}

// Ranges is a list of places.
type Ranges []Range

// UnmarshalJSON reads "phyOffset:size,phyOffset:size", commas or spaces between; "" is none.
func (r *Ranges) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	*r = nil
	for part := range strings.FieldsFuncSeq(s, func(c rune) bool { return c == ',' || c == ' ' }) {
		var g Range
		if _, err := fmt.Sscanf(part, "%d:%d", &g.PhyOffset, &g.Size); err != nil {
			return fmt.Errorf("%q is not phyOffset:size: %w", part, err)
		}
		*r = append(*r, g)
	}
	return nil
}

// StoreTimeStamp is one question for the time and place of a queue offset.
type StoreTimeStamp struct {
	Topic          string `json:"topic"`
	QueueID        int32  `json:"queueId"`
	Offset         int64  `json:"offset"`                    // queue offset
	StoreTimestamp int64  `json:"getMessageStoreTimeStamp"`  // -1: none
	PhyOffset      int64  `json:"getCommitLogOffsetInQueue"` // 0: none
}

// OffsetByTime is one question for the queue offset of a time.
type OffsetByTime struct {
	Topic     string `json:"topic"`
	QueueID   int32  `json:"queueId"`
	Timestamp int64  `json:"timestamp"`
	Offset    int64  `json:"getOffsetInQueueByTime"`
}

// QueryMessage is one query by key, to the index alone and to the whole store.
type QueryMessage struct {
	Topic            string `json:"topic"`
	Key              string `json:"key"`
	MaxNum           int    `json:"maxNum"`
	Begin            int64  `json:"begin"`
	End              int64  `json:"end"`
	IndexQueryOffset struct {
		PhyOffsets               []int64 `json:"phyOffsets"` // newest first; hits of the hash, perhaps of another key
		IndexLastUpdateTimestamp int64   `json:"indexLastUpdateTimestamp"`
		IndexLastUpdatePhyoffset int64   `json:"indexLastUpdatePhyoffset"`
	} `json:"indexQueryOffset"`
	QueryMessageOffsets           []int64 `json:"queryMessageOffsets"` // oldest first
	BufferTotalSize               int     `json:"bufferTotalSize"`
	QueryIndexLastUpdateTimestamp int64   `json:"queryIndexLastUpdateTimestamp"`
	QueryIndexLastUpdatePhyoffset int64   `json:"queryIndexLastUpdatePhyoffset"`
}

// ByPhysical is one question by physical offset. A nil answer is the original's null.
type ByPhysical struct {
	Offset                   int64   `json:"offset"`
	LookMessageByOffset      *Answer `json:"lookMessageByOffset"`      // topic/queueId/queueOffset/msgId
	SelectOneMessageByOffset *Answer `json:"selectOneMessageByOffset"` // phyOffset:size
	GetCommitLogData         *Answer `json:"getCommitLogData"`         // phyOffset:size
}

// Answer is a text, or the exception that the original threw: an error of ours is right there.
type Answer struct{ Text, Exception string }

// UnmarshalJSON reads a string or {"exception": …}.
func (a *Answer) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		var e struct {
			Exception string `json:"exception"`
		}
		err := strict(b, &e)
		a.Exception = e.Exception
		return err
	}
	return json.Unmarshal(b, &a.Text)
}

// Range is the text as a place in the log.
func (a *Answer) Range() (g Range, ok bool) {
	if a == nil {
		return g, false
	}
	n, err := fmt.Sscanf(a.Text, "%d:%d", &g.PhyOffset, &g.Size)
	return g, err == nil && n == 2
}

// Unknown is what was asked about topics and queues that do not exist.
type Unknown struct {
	Gets  []GetMessage
	Calls map[string]int64 // such as "getMinOffsetInQueue(NoSuchTopic2,0)"
}

// UnmarshalJSON reads a list of GetMessage objects and objects of calls.
func (u *Unknown) UnmarshalJSON(b []byte) error {
	*u = Unknown{Calls: map[string]int64{}}
	var list []json.RawMessage
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	for _, o := range list {
		var g GetMessage
		if err := strict(o, &g); err == nil {
			u.Gets = append(u.Gets, g)
			continue
		}
		if err := json.Unmarshal(o, &u.Calls); err != nil {
			return err
		}
	}
	return nil
}
