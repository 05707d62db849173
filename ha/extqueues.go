package ha

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"time"
)

// QueueNext says where a queue goes on of which the log holds no record: what its next record's queue offset will be.
type QueueNext struct {
	Topic       string // 1 to 255 bytes
	QueueID     int32  // 0 or more
	QueueOffset int64  // more than 0
}

// SlaveQueues is what a slave learns by the extended protocol beside the log. Queue offsets travel inside records, so a slave whose log does not begin at its master's first byte knows nothing of queues without a record in it.
type SlaveQueues struct {
	// Wanted reports whether the Target's log does not begin at physical offset 0, as an empty one's may not.
	Wanted func() bool

	// Begin makes each queue go on there, durably, before any byte of this connection is appended. Queues of which the Target holds a record, or has one still to dispatch, may be among them, and go on as that says. An error ends the connection.
	Begin func(ctx context.Context, queues []QueueNext) error
}

// The queues of a welcome whose flag says so follow it, in one piece, from version 2 of the greeting on:
//
//	0 4 magic "MQHQ"    4 4 number of queues    8 4 length of the rest
//	then each queue: 2 topic length | topic | 4 queue id | 8 queue offset
//	then 4 checksum (CRC-32C) of all before it
const (
	queuesMagic      = 0x4d514851
	queuesHeaderSize = 12
	queueFixedSize   = 2 + 4 + 8
	maxTopicSize     = 255
	maxQueuesSize    = 64 << 20 // of the rest: a million queues

	posQueuesNumber = 4
	posQueuesLength = 8
)

var errTooManyQueues = fmt.Errorf("ha: the queues do not fit into %d MiB", maxQueuesSize>>20)

func encodeQueues(queues []QueueNext) ([]byte, error) {
	b := make([]byte, queuesHeaderSize, queuesHeaderSize+len(queues)*(queueFixedSize+32)+4)
	for _, q := range queues {
		if err := q.check(); err != nil {
			return nil, err
		}
		b = binary.BigEndian.AppendUint16(b, uint16(len(q.Topic)))
		b = append(b, q.Topic...)
		b = binary.BigEndian.AppendUint32(b, uint32(q.QueueID))
		b = binary.BigEndian.AppendUint64(b, uint64(q.QueueOffset))
	}
	if len(b)-queuesHeaderSize+4 > maxQueuesSize {
		return nil, errTooManyQueues
	}
	binary.BigEndian.PutUint32(b, queuesMagic)
	binary.BigEndian.PutUint32(b[posQueuesNumber:], uint32(len(queues)))
	binary.BigEndian.PutUint32(b[posQueuesLength:], uint32(len(b)-queuesHeaderSize+4))
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli)), nil
}

func (q QueueNext) check() error {
	if len(q.Topic) < 1 || len(q.Topic) > maxTopicSize || q.QueueID < 0 || q.QueueOffset < 1 {
		return fmt.Errorf("%w: queue %d of topic %.300q goes on at %d", ErrMalformed, q.QueueID, q.Topic, q.QueueOffset)
	}
	return nil
}

// readQueues reads what encodeQueues wrote. Memory grows with what arrives, not with what the length says.
func readQueues(r io.Reader) ([]QueueNext, error) {
	var header [queuesHeaderSize]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return nil, fmt.Errorf("queues: %w", err)
	}
	number, length := binary.BigEndian.Uint32(header[posQueuesNumber:]), binary.BigEndian.Uint32(header[posQueuesLength:])
	switch magic := binary.BigEndian.Uint32(header[:]); {
	case magic != queuesMagic:
		return nil, fmt.Errorf("%w: queues with magic %#x", ErrMalformed, magic)
	case length < 4 || length > maxQueuesSize || int64(number) > int64(length)/(queueFixedSize+1):
		return nil, fmt.Errorf("%w: %d queues in %d bytes", ErrMalformed, number, length)
	}
	var rest bytes.Buffer
	if n, err := io.CopyN(&rest, r, int64(length)); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("queues: %d of %d bytes: %w", n, length, err)
	}
	b := rest.Bytes()
	end := len(b) - 4
	if crc32.Update(crc32.Checksum(header[:], castagnoli), castagnoli, b[:end]) != binary.BigEndian.Uint32(b[end:]) {
		return nil, fmt.Errorf("%w: queues: %w", ErrMalformed, ErrChecksum)
	}
	queues := make([]QueueNext, 0, number)
	for b = b[:end]; len(b) > 0; {
		if len(b) < queueFixedSize {
			return nil, fmt.Errorf("%w: %d bytes behind %d queues", ErrMalformed, len(b), len(queues))
		}
		n := int(binary.BigEndian.Uint16(b))
		if n > len(b)-queueFixedSize {
			return nil, fmt.Errorf("%w: a topic of %d bytes in %d", ErrMalformed, n, len(b)-queueFixedSize)
		}
		q := QueueNext{Topic: string(b[2 : 2+n])}
		b = b[2+n:]
		q.QueueID, q.QueueOffset = int32(binary.BigEndian.Uint32(b)), int64(binary.BigEndian.Uint64(b[4:]))
		b = b[12:]
		if err := q.check(); err != nil {
			return nil, err
		}
		queues = append(queues, q)
	}
	if len(queues) != int(number) {
		return nil, fmt.Errorf("%w: %d queues instead of %d", ErrMalformed, len(queues), number)
	}
	return queues, nil
}

// queues are those that a slave must be told of, nil = none, and how they are sent.
func (c *conn) queues(in *hello, from int64) ([]byte, error) {
	if c.m.o.Queues == nil || in.version < 2 || in.flags&helloQueues == 0 || from <= 0 {
		return nil, nil
	}
	queues, upTo := c.m.o.Queues(from)
	if in.a == 0 && upTo < from { // of records between, the slave would never hear
		return nil, fmt.Errorf("where queues go on at physical offset %d is known up to %d only, until more is dispatched: %w", from, upTo, errUnavailable)
	}
	return encodeQueues(queues)
}

// takeQueues reads the queues of a welcome, if they follow, and passes them on.
func (s *Slave) takeQueues(ctx context.Context, nc net.Conn, address string, welcome *hello) error {
	if welcome.flags&helloQueues == 0 {
		if s.target.MaxPhyOffset() == 0 {
			s.queuesUnknown(address, welcome.a)
		}
		return nil
	}
	if err := nc.SetDeadline(time.Now().Add(s.o.Silence)); err != nil {
		return err
	}
	queues, err := readQueues(nc)
	if err != nil {
		return readError("greet the master", err, s.o.Silence)
	}
	if err := s.o.Queues.Begin(ctx, queues); err != nil {
		return fmt.Errorf("take over where %d queues go on: %w", len(queues), err)
	}
	return nil
}

// queuesUnknown warns of an empty log that begins behind its master's first byte without a word of the queues.
func (s *Slave) queuesUnknown(address string, phyOffset int64) {
	if phyOffset > 0 {
		s.o.Events.Warning(address, fmt.Errorf("%w: the log begins at physical offset %d", ErrQueuesUnknown, phyOffset))
	}
}
