package checkpoint

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"path/filepath"
	"slices"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
)

// Summary is what a store leaves beside the checkpoint: how far everything was durable, and each queue's bounds, so that a lost queue is noticed and recovery is bounded.
// It holds only while the log still has the same record at LastPhyOffset: RocketMQ, which knows nothing of it, may have gone on with the directory.
type Summary struct {
	Clean         bool  // written by a clean close
	MinPhyOffset  int64 // the log's first offset; -1 if it was empty
	EndPhyOffset  int64 // queues hold every record below; the log is durable up to here
	LastPhyOffset int64 // the last record below EndPhyOffset, and what identifies it; -1 none
	LastSize      int
	LastStoreTime int64 // ms
	LastBodyCRC   uint32
	Queues        []QueueBounds // in any order; ReadSummary gives them sorted by topic and queue id
}

// QueueBounds is one queue's [Min, Max) and the physical offset of the record of its last unit (-1 none).
type QueueBounds struct {
	Topic    string
	QueueID  int32
	Min, Max int64 // queue offsets
	LastPhy  int64
}

// The summary file is big-endian, sorted by topic and queue id, without gaps or anything behind:
//
//	magic "mqsumry1" | CRC-32C of the rest (4) | flags (1) | min, end, last phyOffset (8 each) | last size (4) | last store time (8) | last body CRC (4) | queues (4)
//	then each queue: topic length (2) | topic | queue id (4) | min, max, last phyOffset (8 each)
const (
	summaryName  = "mqstore.summary"
	summaryMagic = "mqsumry1"

	posSumCRC        = 8
	posSumFlags      = 12 // what the CRC covers starts here
	posSumMin        = 13
	posSumEnd        = 21
	posSumLast       = 29
	posSumLastSize   = 37
	posSumLastTime   = 41
	posSumLastCRC    = 49
	posSumQueues     = 53
	summaryFixedSize = 57

	flagClean = 1

	boundsFixedSize = 2 + 4 + 3*8

	maxSummarySize = 1 << 28 // millions of queues
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ReadSummary reads the summary of the store in root. A missing one is nil, nil.
// One that is not exactly what WriteSummary wrote is a *mappedfile.CorruptError: callers go on without.
func ReadSummary(fsys mappedfile.FS, root string) (*Summary, error) {
	path := filepath.Join(root, summaryName)
	b, err := readSmall(fsys, path, maxSummarySize)
	if err != nil || b == nil {
		return nil, err
	}
	s, err := decodeSummary(b)
	if err != nil {
		return nil, &mappedfile.CorruptError{Path: path, Err: err}
	}
	return s, nil
}

// WriteSummary makes s the summary of the store in root, durably: after a crash it is the old one or this one. Log and queues must be durable as far as s says.
// A summary that cannot be (queues out of bounds, the same queue twice) is an error and nothing is written.
func WriteSummary(fsys mappedfile.FS, root string, s *Summary) error {
	path := filepath.Join(root, summaryName)
	b, err := s.encode()
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return fsys.WriteFileDurable(path, b)
}

// RemoveSummary removes the summary, durably, so that it cannot be believed after what follows. One that is not there is no error.
func RemoveSummary(fsys mappedfile.FS, root string) error {
	return removeDurable(fsys, root, summaryName)
}

func (s *Summary) encode() ([]byte, error) {
	queues := slices.Clone(s.Queues)
	slices.SortFunc(queues, compareBounds)
	size := summaryFixedSize
	for _, q := range queues {
		size += boundsFixedSize + len(q.Topic)
	}
	if size > maxSummarySize || len(queues) > math.MaxInt32 || s.LastSize < 0 || s.LastSize > math.MaxInt32 {
		return nil, fmt.Errorf("a summary of %d queues does not fit", len(queues))
	}
	b := make([]byte, posSumFlags, size)
	copy(b, summaryMagic)
	var flags byte
	if s.Clean {
		flags |= flagClean
	}
	b = append(b, flags)
	b = append64(b, s.MinPhyOffset, s.EndPhyOffset, s.LastPhyOffset)
	b = append32(b, uint32(s.LastSize))
	b = append64(b, s.LastStoreTime)
	b = append32(b, s.LastBodyCRC)
	b = append32(b, uint32(len(queues)))
	for _, q := range queues {
		if len(q.Topic) > math.MaxUint16 {
			return nil, fmt.Errorf("a topic of %d bytes", len(q.Topic))
		}
		b = binary.BigEndian.AppendUint16(b, uint16(len(q.Topic)))
		b = append(b, q.Topic...)
		b = append32(b, uint32(q.QueueID))
		b = append64(b, q.Min, q.Max, q.LastPhy)
	}
	sealSummary(b)
	if _, err := decodeSummary(b); err != nil { // what could not be read again must not be written
		return nil, err
	}
	return b, nil
}

// sealSummary sets the checksum.
func sealSummary(b []byte) {
	binary.BigEndian.PutUint32(b[posSumCRC:], crc32.Checksum(b[posSumFlags:], castagnoli))
}

// ParseSummary is ReadSummary for bytes that were read otherwise.
func ParseSummary(b []byte) (*Summary, error) { return decodeSummary(b) }

func decodeSummary(b []byte) (*Summary, error) {
	if len(b) < summaryFixedSize || string(b[:posSumCRC]) != summaryMagic {
		return nil, errors.New("not a summary of this version")
	}
	if sum := crc32.Checksum(b[posSumFlags:], castagnoli); sum != binary.BigEndian.Uint32(b[posSumCRC:]) {
		return nil, errors.New("the checksum does not fit")
	}
	flags := b[posSumFlags]
	s := &Summary{
		Clean:         flags&flagClean != 0,
		MinPhyOffset:  get64(b[posSumMin:]),
		EndPhyOffset:  get64(b[posSumEnd:]),
		LastPhyOffset: get64(b[posSumLast:]),
		LastSize:      int(int32(binary.BigEndian.Uint32(b[posSumLastSize:]))),
		LastStoreTime: get64(b[posSumLastTime:]),
		LastBodyCRC:   binary.BigEndian.Uint32(b[posSumLastCRC:]),
	}
	if flags&^flagClean != 0 {
		return nil, fmt.Errorf("flags %#x of a later version", flags)
	}
	n := int64(binary.BigEndian.Uint32(b[posSumQueues:]))
	b = b[summaryFixedSize:]
	if n > int64(len(b)/boundsFixedSize) {
		return nil, fmt.Errorf("%d queues do not fit into %d bytes", n, len(b))
	}
	if n > 0 {
		s.Queues = make([]QueueBounds, 0, n)
	}
	for range n {
		if len(b) < boundsFixedSize {
			return nil, errors.New("the file ends within a queue")
		}
		topicEnd := 2 + int(binary.BigEndian.Uint16(b))
		if len(b) < topicEnd+boundsFixedSize-2 {
			return nil, errors.New("the file ends within a queue")
		}
		rest := b[topicEnd:]
		s.Queues = append(s.Queues, QueueBounds{
			Topic:   string(b[2:topicEnd]),
			QueueID: int32(binary.BigEndian.Uint32(rest)),
			Min:     get64(rest[4:]),
			Max:     get64(rest[12:]),
			LastPhy: get64(rest[20:]),
		})
		b = rest[28:]
	}
	if len(b) > 0 {
		return nil, fmt.Errorf("%d bytes too many", len(b))
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	return s, nil
}

// check reports numbers that cannot be true together.
func (s *Summary) check() error {
	empty := s.MinPhyOffset == -1 && s.EndPhyOffset >= 0
	switch {
	case !empty && s.MinPhyOffset < 0, s.EndPhyOffset < s.MinPhyOffset, s.EndPhyOffset > maxOffset:
		return fmt.Errorf("log bounds [%d, %d) are impossible", s.MinPhyOffset, s.EndPhyOffset)
	case s.LastPhyOffset == -1:
		if s.LastSize != 0 || s.LastStoreTime != 0 || s.LastBodyCRC != 0 {
			return errors.New("a last record without a place")
		}
	case empty, s.LastPhyOffset < s.MinPhyOffset, s.LastPhyOffset >= s.EndPhyOffset, s.LastSize <= 0, int64(s.LastSize) > s.EndPhyOffset-s.LastPhyOffset:
		return fmt.Errorf("last record of %d bytes at %d is outside the log [%d, %d)", s.LastSize, s.LastPhyOffset, s.MinPhyOffset, s.EndPhyOffset)
	}
	for i, q := range s.Queues {
		switch {
		case i > 0 && compareBounds(s.Queues[i-1], q) >= 0:
			return fmt.Errorf("queue %q %d twice or out of order", q.Topic, q.QueueID)
		case q.Topic == "", q.QueueID < 0, q.Min < 0, q.Max < q.Min, q.Max > maxOffset, q.LastPhy < -1, q.LastPhy >= max(s.EndPhyOffset, 0):
			return fmt.Errorf("queue %q %d cannot hold [%d, %d) with its last record at %d", q.Topic, q.QueueID, q.Min, q.Max, q.LastPhy)
		}
	}
	return nil
}

func compareBounds(a, b QueueBounds) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.QueueID, b.QueueID))
}

func append32(b []byte, v uint32) []byte { return binary.BigEndian.AppendUint32(b, v) }

func append64(b []byte, vs ...int64) []byte {
	for _, v := range vs {
		b = binary.BigEndian.AppendUint64(b, uint64(v))
	}
	return b
}
