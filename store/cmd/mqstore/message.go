package main

import (
	"fmt"
	"strings"

	"github.com/mqstore/mqstore/commitlog/record"
)

// maxDecodedBody bounds what --decode makes of one body: a compressed body can claim any size.
const maxDecodedBody = 64 << 20

// messageJSON is the message object of the contract.
type messageJSON struct {
	PhyOffset                 int64             `json:"phyOffset"`
	Size                      int               `json:"size"`
	QueueID                   int32             `json:"queueId"`
	QueueOffset               int64             `json:"queueOffset"`
	Topic                     string            `json:"topic"`
	Flag                      int32             `json:"flag"`
	SysFlag                   int32             `json:"sysFlag"`
	BornTimestamp             int64             `json:"bornTimestamp"`
	BornHost                  string            `json:"bornHost"`
	StoreTimestamp            int64             `json:"storeTimestamp"`
	StoreHost                 string            `json:"storeHost"`
	ReconsumeTimes            int32             `json:"reconsumeTimes"`
	PreparedTransactionOffset int64             `json:"preparedTransactionOffset"`
	BodyCRC                   uint32            `json:"bodyCRC"`
	BodySize                  int               `json:"bodySize"`
	Body                      []byte            `json:"body"`
	Properties                map[string]string `json:"properties"`
	Tags                      string            `json:"tags"`
	Keys                      []string          `json:"keys"`
	UniqKey                   string            `json:"uniqKey"`
	MsgID                     string            `json:"msgId"`
	Version                   uint8             `json:"version"`
	CRCOK                     bool              `json:"crcOK"`
	Transaction               string            `json:"transaction"`
	Compression               string            `json:"compression"`
}

// newMessageJSON makes the object of m. With decode its body is the decompressed one; if that fails the object carries
// the stored bytes and the error says why.
func newMessageJSON(m *record.Message, crcOK, decode bool) (*messageJSON, error) {
	j := &messageJSON{
		PhyOffset: m.PhyOffset, Size: m.Size, QueueID: m.QueueID, QueueOffset: m.QueueOffset, Topic: m.Topic,
		Flag: m.Flag, SysFlag: int32(m.SysFlag), BornTimestamp: m.BornTimestamp, BornHost: m.BornHost.String(),
		StoreTimestamp: m.StoreTimestamp, StoreHost: m.StoreHost.String(), ReconsumeTimes: m.ReconsumeTimes,
		PreparedTransactionOffset: m.PreparedTransactionOffset, BodyCRC: m.BodyCRC, BodySize: len(m.Body), Body: m.Body,
		Properties: m.Properties.Map(), Tags: m.Tags(), Keys: m.Keys(), UniqKey: m.UniqKey(), MsgID: m.OffsetMessageID(),
		Version: uint8(m.Version), CRCOK: crcOK, Transaction: transactionName(m.SysFlag), Compression: compressionName(m.SysFlag),
	}
	if j.Body == nil {
		j.Body = []byte{}
	}
	if j.Keys == nil {
		j.Keys = []string{}
	}
	if j.Properties == nil {
		j.Properties = map[string]string{}
	}
	if !decode || !m.SysFlag.Compressed() {
		return j, nil
	}
	body, err := m.DecodedBody(maxDecodedBody)
	if err != nil {
		return j, fmt.Errorf("decompress the body of the record at %d (%s): %w", m.PhyOffset, j.Compression, err)
	}
	j.Body = body
	return j, nil
}

func transactionName(f record.SysFlag) string {
	switch f.Transaction() {
	case record.TransactionPrepared:
		return "prepared"
	case record.TransactionCommit:
		return "commit"
	case record.TransactionRollback:
		return "rollback"
	default:
		return "none"
	}
}

func compressionName(f record.SysFlag) string {
	if !f.Compressed() {
		return "none"
	}
	switch f.Compression() {
	case record.CompressionZstd:
		return "zstd"
	case record.CompressionLZ4:
		return "lz4"
	default:
		return "zlib"
	}
}

// messages prints messages: JSON Lines, or a table that is started with the first row.
type messages struct {
	e      *env
	json   bool
	decode bool
	t      *table
	failed int // bodies that would not decompress
}

func (p *messages) print(m *record.Message, crcOK bool) error {
	j, err := newMessageJSON(m, crcOK, p.decode)
	if err != nil {
		p.failed++
		p.e.note("%v", err)
	}
	if p.json {
		return p.e.json(j)
	}
	if p.t == nil {
		p.t = p.e.table(column{"PHYOFFSET", -20}, column{"SIZE", -11}, column{"TOPIC", 24}, column{"QUEUE", -10}, column{"QOFFSET", -20},
			column{"STORED", 29}, column{"BODY", -9}, column{"TAGS", 12}, column{"KEYS", 16}, column{"NOTES", 0})
	}
	p.t.row(itoa(j.PhyOffset), itoa(j.Size), j.Topic, itoa(j.QueueID), itoa(j.QueueOffset), stamp(j.StoreTimestamp),
		size(int64(j.BodySize)), orDash(j.Tags), orDash(strings.Join(j.Keys, " ")), strings.Join(j.remarks(), ", "))
	return nil
}

// remarks is what is not ordinary about a message, for a human's eye.
func (j *messageJSON) remarks() []string {
	var r []string
	if !j.CRCOK {
		r = append(r, "BAD CRC")
	}
	if j.Transaction != "none" {
		r = append(r, j.Transaction)
	}
	if j.Compression != "none" {
		r = append(r, j.Compression)
	}
	if j.Version != 1 {
		r = append(r, "v"+itoa(int(j.Version)))
	}
	if j.ReconsumeTimes != 0 {
		r = append(r, "reconsumed "+itoa(j.ReconsumeTimes)+"x")
	}
	return r
}
