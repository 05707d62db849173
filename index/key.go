package index

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2"

	"github.com/mqstore/mqstore/commitlog/record"
)

// Layout of an entry's key.
const (
	posBucket = 0
	posHash   = posBucket + 8
	posOffset = posHash + hashSize
	keySize   = posOffset + 4

	hashSize = 6
	hashBits = 8 * hashSize
)

var be = binary.BigEndian

// hashOf is the 48-bit hash of topic and key.
func hashOf[K ~string | ~[]byte](topic string, key K) uint64 {
	var buf [256]byte
	b := append(buf[:0], topic...)
	b = append(b, 0)
	b = append(b, key...)
	return xxhash.Sum64(b) >> (64 - hashBits)
}

// appendPrefix appends the part of a key that bloom filters are about.
func appendPrefix(b []byte, bucket, hash uint64) []byte {
	b = be.AppendUint64(b, bucket)
	return append(b, byte(hash>>40), byte(hash>>32), byte(hash>>24), byte(hash>>16), byte(hash>>8), byte(hash))
}

// appendKey appends a whole key; offset is that within the bucket.
func appendKey(b []byte, bucket, hash uint64, offset uint32) []byte {
	return be.AppendUint32(appendPrefix(b, bucket, hash), ^offset)
}

func headKey(bucket uint64) []byte { return be.AppendUint64(nil, bucket) }

// parseKey takes an entry's key apart.
func parseKey(k []byte) (bucket, hash uint64, offset uint32, ok bool) {
	if len(k) != keySize {
		return 0, 0, 0, false
	}
	hash = uint64(be.Uint32(k[posHash:]))<<16 | uint64(be.Uint16(k[posHash+4:]))
	return be.Uint64(k[posBucket:]), hash, ^be.Uint32(k[posOffset:]), true
}

// The value of an entry is its store time, relative to that of its bucket's first record.
func appendTime(b []byte, storeTime, base int64) []byte {
	return binary.AppendVarint(b, storeTime-base)
}

func parseTime(b []byte, base int64) (storeTime int64, ok bool) {
	d, n := binary.Varint(b)
	return base + d, n > 0 && n == len(b)
}

// comparer orders keys by their bytes; its name is on disk.
var comparer = func() *pebble.Comparer {
	c := *pebble.DefaultComparer
	c.Name = "mqstore.index.1"
	c.Split = func(k []byte) int { return min(len(k), posOffset) }
	return &c
}()

// indexed reports whether the keys of m are indexed: of all records but blanks and rollbacks. spec/index.md 3.3.
func indexed(m *record.Meta) bool {
	return !m.IsBlank() && m.SysFlag.Transaction() != record.TransactionRollback
}

// HasKeys reports whether the record has a key that is indexed.
func HasKeys(m *record.Meta) bool {
	if !indexed(m) {
		return false
	}
	if _, ok := m.UniqKey(); ok {
		return true
	}
	for range m.Keys() {
		return true
	}
	return false
}

// Holds reports whether m is of that topic and has that key, as unique key or among KEYS, and is a record whose keys are indexed.
func Holds(m *record.Meta, topic, key string) bool {
	if m.Topic != topic || !indexed(m) || key == "" {
		return false
	}
	if u, ok := m.UniqKey(); ok && string(u) == key {
		return true
	}
	for k := range m.Keys() {
		if string(k) == key {
			return true
		}
	}
	return false
}

// Keys is how many entries the record makes: one for each different key.
func Keys(m *record.Meta) int {
	var buf [8]uint64
	return len(keysOf(buf[:0], m))
}
