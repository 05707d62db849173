package index

import (
	"math"

	"github.com/mqstore/mqstore/commitlog/record"
)

// head is what the index knows of one bucket. The newest head is the index's progress.
type head struct {
	bucket           uint64
	entries          int64
	base             int64 // store time (ms) of the bucket's first record, to which entries' times are relative
	minTime, maxTime int64 // ms, of its entries; minTime > maxTime: there are none
	next             int64 // physical offset: everything that starts below is in the index
	last             mark  // the last record that starts in the bucket, with or without keys
	keyed            place // the last record of the log that had a key, up to here; phyOffset -1: none
}

// mark names a record well enough to know it again.
type mark struct {
	phyOffset int64
	size      int64
	storeTime int64 // ms
	bodyCRC   uint32
}

type place struct {
	phyOffset int64
	storeTime int64 // ms
}

// Layout of a head on disk.
const (
	posVersion    = 0
	posBucketSize = posVersion + 4
	posEntries    = posBucketSize + 8
	posBase       = posEntries + 8
	posMinTime    = posBase + 8
	posMaxTime    = posMinTime + 8
	posNext       = posMaxTime + 8
	posLastOffset = posNext + 8
	posLastSize   = posLastOffset + 8
	posLastTime   = posLastSize + 8
	posLastCRC    = posLastTime + 8
	posKeyedAt    = posLastCRC + 4
	posKeyedTime  = posKeyedAt + 8
	headSize      = posKeyedTime + 8

	formatVersion = 1
)

func (h *head) encode(bucketSize int64) []byte {
	b := make([]byte, headSize)
	be.PutUint32(b[posVersion:], formatVersion)
	put := func(pos int, v int64) { be.PutUint64(b[pos:], uint64(v)) }
	put(posBucketSize, bucketSize)
	put(posEntries, h.entries)
	put(posBase, h.base)
	put(posMinTime, h.minTime)
	put(posMaxTime, h.maxTime)
	put(posNext, h.next)
	put(posLastOffset, h.last.phyOffset)
	put(posLastSize, h.last.size)
	put(posLastTime, h.last.storeTime)
	be.PutUint32(b[posLastCRC:], h.last.bodyCRC)
	put(posKeyedAt, h.keyed.phyOffset)
	put(posKeyedTime, h.keyed.storeTime)
	return b
}

// decodeHead checks that the head is of this format and adds up.
func decodeHead(bucket uint64, b []byte) (h head, bucketSize int64, ok bool) {
	if len(b) != headSize || be.Uint32(b[posVersion:]) != formatVersion {
		return head{}, 0, false
	}
	get := func(pos int) int64 { return int64(be.Uint64(b[pos:])) }
	bucketSize = get(posBucketSize)
	h = head{
		bucket: bucket, entries: get(posEntries), base: get(posBase), minTime: get(posMinTime), maxTime: get(posMaxTime), next: get(posNext),
		last:  mark{get(posLastOffset), get(posLastSize), get(posLastTime), be.Uint32(b[posLastCRC:])},
		keyed: place{get(posKeyedAt), get(posKeyedTime)},
	}
	switch {
	case bucketSize < minBucketSize || bucketSize > maxBucketSize || bucket > uint64(math.MaxInt64/bucketSize):
	case h.entries < 0 || h.last.phyOffset < 0 || uint64(h.last.phyOffset/bucketSize) != bucket:
	case h.last.size <= 0 || h.last.size > math.MaxInt32 || h.next != h.last.phyOffset+h.last.size:
	case h.keyed.phyOffset < -1 || h.keyed.phyOffset > h.last.phyOffset:
	default:
		return h, bucketSize, true
	}
	return head{}, 0, false
}

// startHead is the head of a bucket whose first record is m.
func startHead(bucket uint64, m *record.Meta, keyed place) head {
	return head{bucket: bucket, base: m.StoreTimestamp, minTime: math.MaxInt64, maxTime: math.MinInt64, keyed: keyed}
}

// add notes that m, with n entries, is in the index.
func (h *head) add(m *record.Meta, n int) {
	h.last = markOf(m)
	h.next = m.PhyOffset + int64(m.Size)
	if n == 0 {
		return
	}
	h.entries += int64(n)
	h.minTime, h.maxTime = min(h.minTime, m.StoreTimestamp), max(h.maxTime, m.StoreTimestamp)
	h.keyed = place{m.PhyOffset, m.StoreTimestamp}
}

func markOf(m *record.Meta) mark {
	return mark{m.PhyOffset, int64(m.Size), m.StoreTimestamp, m.BodyCRC}
}
