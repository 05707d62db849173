package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/consumequeue"
)

// batch is the memory of one answer's records and the holds on their segments, used again once the answer was released.
type batch struct {
	records []View
	holds   []mappedfile.Hold // the last one is asked first: units of neighbours point into one segment
}

const maxKeptRecords = 1024 // of a batch that is used again

var batches = sync.Pool{New: func() any {
	return &batch{records: make([]View, 0, defaultMaxMessages), holds: make([]mappedfile.Hold, 0, 2)}
}}

func (b *batch) release() {
	for i := range b.holds {
		b.holds[i].Release()
	}
	if cap(b.records) > maxKeptRecords {
		return
	}
	clear(b.records) // who kept the slice finds nothing, not what another get was answered
	clear(b.holds)
	b.records, b.holds = b.records[:0], b.holds[:0]
	batches.Put(b)
}

// scanner looks at units of one queue and collects the records of those that the filter lets through.
type scanner struct {
	s        *reader
	q        *consumequeue.Queue
	filter   Filter // nil: all
	units    consumequeue.Units
	scan     int   // units to look at
	maxPhy   int64 // end of the log
	inMemory int64 // bytes before it that are likely in memory
	memory   scanLimits
	disk     scanLimits

	*batch
	offsets []int64 // in the queue, of the batch's records
	bytes   int     // of all records
}

// scanLimits is when an answer that holds something is full.
type scanLimits struct{ bytes, messages int }

// scanUnits answers from units, which start at r.Offset and which it releases, of a queue with the bounds [first, end).
func (s *reader) scanUnits(r *GetRequest, q *consumequeue.Queue, units consumequeue.Units, maxPhy, first, end int64) (*GetResult, error) {
	maxMessages := r.MaxMessages
	if maxMessages == 0 {
		maxMessages = defaultMaxMessages
	}
	memory, ratio := s.o.MemorySize, int64(s.o.AccessInMemoryMaxRatio)
	c := scanner{s: s, q: q, filter: r.Filter, units: units, maxPhy: max(maxPhy, s.log.MaxPhyOffset()),
		inMemory: memory/100*ratio + memory%100*ratio/100, // memory*ratio/100 that cannot overflow
		memory:   scanLimits{s.o.MaxTransferBytesInMemory, min(maxMessages, s.o.MaxTransferMessagesInMemory)},
		disk:     scanLimits{s.o.MaxTransferBytesInDisk, min(maxMessages, s.o.MaxTransferMessagesInDisk)},
		// No further than the end that the answer names: the queue may have grown since.
		scan:  min(units.Len(), int(min(end-r.Offset, math.MaxInt32)), (max(minScanBytes, min(maxMessages, units.Len())*consumequeue.UnitSize)+consumequeue.UnitSize-1)/consumequeue.UnitSize),
		batch: batches.Get().(*batch)}
	res := &GetResult{MinOffset: first, MaxOffset: end}
	defer func() { // also when the filter panics
		units.Release()
		if res.batch == nil {
			c.batch.release()
		}
	}()
	c.offsets = make([]int64, 0, min(c.scan, max(c.memory.messages, 1)))
	if err := c.run(res, c.stretch()); err != nil {
		return nil, err
	}
	if len(c.records) > 0 {
		res.Status, res.Records, res.QueueOffsets, res.Bytes, res.batch = Found, c.records, c.offsets, c.bytes, c.batch
	}
	return res, nil
}

// stretch does for the first units what run does for all, where nothing is to be decided: all are wanted, all point into one segment that is likely in memory, and all fit in. It returns how many these are.
// Most gets are no more than this. The records are looked at when all are found, in a loop of its own that is short, so that the processor fetches many of them at once: they are rarely in its caches.
func (c *scanner) stretch() int {
	if f, byTags := c.filter.(tagFilter); c.filter != nil && (!byTags || f != nil) || c.s.o.VerifyReads || c.scan == 0 {
		return 0
	}
	u := c.units.At(0)
	if !u.Valid() {
		return 0
	}
	if _, err := c.s.record(c.q, u, c.batch); err != nil {
		return 0
	}
	n := min(c.scan, max(c.memory.messages, 1))
	records, offsets := slices.Grow(c.records, n)[:n], c.offsets[:n]
	held, units := &c.holds[0], c.units
	bytes, limit, memoryFrom := 0, c.memory.bytes, c.maxPhy-c.inMemory
	for i := range records {
		u := units.At(i)
		rec, ok := held.Bytes(u.PhyOffset, int(u.Size))
		if bytes += len(rec); !ok || (bytes > limit || u.PhyOffset < memoryFrom) && i > 0 {
			n = i
			break
		}
		v := &records[i]
		v.Bytes, v.PhyOffset, v.release = rec, u.PhyOffset, nil // by its fields: a View that is put together elsewhere first costs twice as much
		offsets[i] = units.First + int64(i)
	}
	for i := range records[:n] {
		v := &records[i]
		if !pointsAt(v.PhyOffset, v.Bytes) {
			n = i
			break
		}
		c.bytes += len(v.Bytes)
	}
	c.records, c.offsets = records[:n], offsets[:n]
	return n
}

// run looks at the units from the i-th on, and says in res what came of it all.
func (c *scanner) run(res *GetResult, i int) error {
	s, from := c.s, c.units.First
	res.Status = NoMatchedMessage
	var lastPhy int64
	if i > 0 {
		lastPhy = c.units.At(i - 1).PhyOffset
	}
	skipUntil := int64(-1)
	for ; i < c.scan; i++ {
		u := c.units.At(i)
		lastPhy = u.PhyOffset
		if !u.Valid() && !u.IsFiller() { // not to be taken for one of a deleted record
			return s.malformedUnit(c.q, from+int64(i), u)
		}
		if u.PhyOffset < skipUntil {
			continue
		}
		if n := len(c.records); n > 0 {
			limits := &c.memory
			if c.maxPhy-u.PhyOffset > c.inMemory {
				limits = &c.disk
			}
			if n >= limits.messages || c.bytes+int(u.Size) > limits.bytes {
				break
			}
		}
		if c.filter != nil && !s.matchUnit(c.filter, c.q, u) {
			if len(c.records) == 0 {
				res.Status = NoMatchedMessage
			}
			continue
		}
		rec, err := s.record(c.q, u, c.batch)
		if errors.Is(err, ErrNotFound) {
			if len(c.records) == 0 {
				res.Status = MessageWasRemoving
			}
			skipUntil = rollNext(u.PhyOffset, s.log.SegmentSize())
			continue
		} else if err != nil {
			return err
		}
		if c.filter != nil && !c.filter.MatchRecord(rec) {
			if len(c.records) == 0 {
				res.Status = NoMatchedMessage
			}
			continue
		}
		c.records = append(c.records, View{Bytes: rec, PhyOffset: u.PhyOffset})
		c.offsets = append(c.offsets, from+int64(i))
		c.bytes += int(u.Size)
		skipUntil = -1
	}
	res.NextBeginOffset = from + int64(i)
	res.SuggestSlave = c.maxPhy-lastPhy > c.inMemory
	return nil
}

// matchUnit asks the filter about u and its extension unit.
func (s *reader) matchUnit(f Filter, q *consumequeue.Queue, u consumequeue.Unit) bool {
	if !u.IsExtAddress() {
		return f.MatchUnit(u.TagsCode, true, nil)
	}
	x, err := q.Ext(u.TagsCode)
	if err != nil {
		return f.MatchUnit(0, false, nil)
	}
	return f.MatchUnit(x.TagsCode, true, &ExtUnit{TagsCode: x.TagsCode, StoreTimestamp: x.StoreTime, Bitmap: x.Bitmap})
}

// malformedUnit is damage of a queue's file.
func (s *reader) malformedUnit(q *consumequeue.Queue, queueOffset int64, u consumequeue.Unit) error {
	return &CorruptError{Path: q.Dir(), Offset: queueOffset * consumequeue.UnitSize, Err: fmt.Errorf("unit %d of %s/%d is none (physical offset %d, %d bytes); "+
		"the log may be whole: open the store with Options.IgnoreSummary to have the queue compared with it and built again", queueOffset, q.Topic(), q.ID(), u.PhyOffset, u.Size)}
}

// rollNext is the start of the segment behind the one that holds phyOffset.
func rollNext(phyOffset, segmentSize int64) int64 {
	return phyOffset + segmentSize - phyOffset%segmentSize
}

// Field positions of a record that tell whether it is the one a unit points at (spec/commitlog-format.md 1.3).
const (
	posTotalSize = 0
	posMagic     = 4
	posPhyOffset = 28
	minRecord    = 91
)

// pointsAt reports whether rec, the bytes that a unit names, is a record that says the same of itself: its size, its magic code and its place.
func pointsAt(phyOffset int64, rec []byte) bool {
	if len(rec) < minRecord {
		return false
	}
	sizeAndMagic := binary.BigEndian.Uint64(rec[posTotalSize:]) ^ uint64(len(rec))<<32
	return (sizeAndMagic == uint64(record.MagicV1) || sizeAndMagic == uint64(record.MagicV2)) && binary.BigEndian.Uint64(rec[posPhyOffset:]) == uint64(phyOffset)
}

// record is the record that u points at: ErrNotFound if retention removed it, damage if it is not there. The last of b's holds is on its segment then.
func (s *reader) record(q *consumequeue.Queue, u consumequeue.Unit, b *batch) ([]byte, error) {
	damage := func(why string) error {
		return &CorruptError{Path: s.o.CommitLogDir, Offset: u.PhyOffset, Err: fmt.Errorf("a unit of %s/%d points here, at %d bytes, but %s", q.Topic(), q.ID(), u.Size, why)}
	}
	if u.Size < minRecord {
		if u.IsFiller() || u.PhyOffset < s.log.MinPhyOffset() {
			return nil, ErrNotFound
		}
		return nil, damage("no record is that small")
	}
	var rec []byte
	ok := false
	if n := len(b.holds); n > 0 {
		rec, ok = b.holds[n-1].Bytes(u.PhyOffset, int(u.Size))
	}
	if !ok {
		h, err := s.log.Hold(u.PhyOffset, int(u.Size))
		switch {
		case errors.Is(err, mappedfile.ErrNotFound):
			if u.IsFiller() || u.PhyOffset < s.log.MinPhyOffset() {
				return nil, ErrNotFound
			}
			return nil, damage(fmt.Sprintf("the log holds [%d, %d)", s.log.MinPhyOffset(), s.log.MaxPhyOffset()))
		case err != nil:
			return nil, err
		}
		b.holds = append(b.holds, h)
		rec, _ = h.Bytes(u.PhyOffset, int(u.Size))
	}
	if !pointsAt(u.PhyOffset, rec) {
		magic, size, phyOffset := binary.BigEndian.Uint32(rec[posMagic:]), binary.BigEndian.Uint32(rec[posTotalSize:]), binary.BigEndian.Uint64(rec[posPhyOffset:])
		switch {
		case magic != record.MagicV1 && magic != record.MagicV2:
			return nil, damage(fmt.Sprintf("there is no record (magic %#x)", magic))
		case size != uint32(u.Size):
			return nil, damage(fmt.Sprintf("the record there has %d bytes", size))
		}
		return nil, damage(fmt.Sprintf("the record there says that it lies at %d", phyOffset))
	}
	if s.o.VerifyReads {
		if _, err := record.Decode(rec); err != nil {
			return nil, damage("it is damaged: " + err.Error())
		}
	}
	return rec, nil
}
