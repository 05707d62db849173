package index

import (
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/mqstore/mqstore/commitlog/record"
)

// Hasher makes the hashes of many records, one after the other. For one goroutine. The zero value is ready to use.
type Hasher struct {
	text   []byte // topic, 0, key
	hashes []uint64
}

// Hashes is [Hashes] of a record that has the known properties k. Valid until the next call.
func (h *Hasher) Hashes(m *record.Meta, k *record.Known) []uint64 {
	h.hashes = h.hashes[:0]
	if k.UniqKey == nil && k.Keys == nil || !indexed(m) {
		return nil
	}
	h.text = append(append(h.text[:0], m.Topic...), 0)
	if k.UniqKey != nil {
		h.add(k.UniqKey)
	}
	for rest, start := k.Keys, 0; start < len(rest); {
		end := start
		for end < len(rest) && rest[end] != ' ' {
			end++
		}
		if end > start {
			h.add(rest[start:end])
		}
		start = end + 1
	}
	return h.hashes
}

func (h *Hasher) add(key []byte) {
	topic := len(h.text)
	h.text = append(h.text, key...)
	sum := xxhash.Sum64(h.text) >> (64 - hashBits)
	h.text = h.text[:topic]
	if !slices.Contains(h.hashes, sum) {
		h.hashes = append(h.hashes, sum)
	}
}
