package record

import (
	"fmt"
	"math"
)

// An item of a client's batch body:
//
//	0  totalSize 4 | magic 4 | bodyCRC 4 | flag 4 | bodyLength 4 | body | propertiesLength 2 | properties
//
// The store reads only flag, body and properties; magic and CRC are 0 from every client.
const (
	posItemTotalSize  = 0
	posItemMagic      = 4
	posItemBodyCRC    = 8
	posItemFlag       = 12
	posItemBodyLength = 16
	posItemBody       = 20

	minItemSize = posItemBody + propertiesLenSize
)

// BatchItem is one message of a client's batch body. Topic, queue, hosts, system flag and times are those of the batch.
type BatchItem struct {
	Flag       int32
	Body       []byte
	Properties Properties // the item's own; MergeBatchProperties adds those of the batch
}

// AppendBatchItem appends it to a batch body as clients do. It panics if the properties are longer than 32767 bytes or the body than 2 GiB, which no store accepts.
func AppendBatchItem(dst []byte, it BatchItem) []byte {
	if len(it.Properties) > maxPropertiesBytes || len(it.Body) > math.MaxInt32-minItemSize-maxPropertiesBytes {
		panic(fmt.Sprintf("record: batch item with %d bytes of properties and %d of body", len(it.Properties), len(it.Body)))
	}
	var head [posItemBody]byte
	put32(head[posItemTotalSize:], int32(minItemSize+len(it.Body)+len(it.Properties)))
	put32(head[posItemMagic:], 0)
	put32(head[posItemBodyCRC:], 0)
	put32(head[posItemFlag:], it.Flag)
	put32(head[posItemBodyLength:], int32(len(it.Body)))
	dst = append(dst, head[:]...)
	dst = append(dst, it.Body...)
	dst = be.AppendUint16(dst, uint16(len(it.Properties)))
	return append(dst, it.Properties...)
}

// SplitBatch takes a batch body apart into at least one item; the items are views of body. As in the original, an item's total size, magic and CRC are not looked at. The error wraps ErrBatch and says which item is wrong.
func SplitBatch(body []byte) ([]BatchItem, error) {
	if len(body) == 0 {
		return nil, fmt.Errorf("%w: no item", ErrBatch)
	}
	n := 0
	for at := 0; at < len(body); n++ {
		_, size, err := splitItem(body[at:])
		if err != nil {
			return nil, fmt.Errorf("%w: item %d at byte %d of %d: %w", ErrBatch, n, at, len(body), err)
		}
		at += size
	}
	items := make([]BatchItem, n)
	for i, at := 0, 0; i < n; i++ {
		it, size, _ := splitItem(body[at:])
		items[i] = it
		at += size
	}
	return items, nil
}

func splitItem(b []byte) (it BatchItem, size int, err error) {
	if len(b) < minItemSize {
		return it, 0, fmt.Errorf("%d bytes left, at least %d needed", len(b), minItemSize)
	}
	bodyLen := int(get32(b[posItemBodyLength:]))
	if bodyLen < 0 || bodyLen > len(b)-minItemSize {
		return it, 0, fmt.Errorf("body length is %d, at most %d possible", bodyLen, len(b)-minItemSize)
	}
	at := posItemBody + bodyLen
	propertiesLen := int(int16(be.Uint16(b[at:])))
	end := at + propertiesLenSize + propertiesLen
	if propertiesLen < 0 || end > len(b) {
		return it, 0, fmt.Errorf("properties length is %d, at most %d possible", propertiesLen, min(len(b)-at-propertiesLenSize, maxPropertiesBytes))
	}
	return BatchItem{
		Flag:       get32(b[posItemFlag:]),
		Body:       b[posItemBody:at:at],
		Properties: Properties(b[at+propertiesLenSize : end : end]),
	}, end, nil
}
