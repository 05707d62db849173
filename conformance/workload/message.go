package workload

import (
	"bytes"
	"math/rand/v2"

	"github.com/mqstore/mqstore/commitlog/record"
)

// body is n bytes that follow from seed: letters, so that they compress and can be read.
func body(n int, seed uint64) []byte {
	b := make([]byte, max(n, 0))
	if seed == 0 {
		return b
	}
	rng := rand.NewPCG(seed, 0x776f726b)
	for i := 0; i < len(b); {
		for v := rng.Uint64(); v > 0 && i < len(b); v >>= 5 {
			b[i] = "abcdefghijklmnopqrstuvwxyz012345"[v&31]
			i++
		}
	}
	return b
}

// properties is the properties string, filler behind it.
func (m *Message) properties() record.Properties {
	var p record.Properties
	for i, kv := range m.Props {
		if i > 0 {
			p = append(p, 0x02)
		}
		p = append(append(append(p, kv.Name...), 0x01), kv.Value...)
	}
	return append(p, bytes.Repeat([]byte("x"), max(m.Pad, 0))...)
}

// record is the message that m describes. Codecs that fail leave the body as it is: the flag alone is enough for a store.
func (m *Message) record(topic string, queue int32) *record.Message {
	r := &record.Message{
		Topic: topic, QueueID: queue, Flag: m.Flag, BornTimestamp: m.Born, BornHost: m.BornHost, StoreHost: m.Host, ReconsumeTimes: m.Reconsume,
		PreparedTransactionOffset: m.Prepared, Body: body(m.Len, m.Seed), Properties: m.properties(),
	}
	r.SysFlag = r.SysFlag.WithTransaction(m.Tx)
	if m.Codec != record.CompressionNone {
		if b, err := record.CompressBody(m.Codec, 0, r.Body); err == nil {
			r.Body = b
		}
		r.SysFlag = r.SysFlag.WithCompression(m.Codec)
	}
	if m.V2 {
		r.Version = record.V2
	}
	return r
}

// items is those of a batch.
func (o *Op) items() []record.BatchItem {
	items := make([]record.BatchItem, 0, len(o.Items))
	for i := range o.Items {
		it := &o.Items[i]
		items = append(items, record.BatchItem{Flag: it.Flag, Body: body(it.Len, it.Seed), Properties: it.properties()})
	}
	return items
}
