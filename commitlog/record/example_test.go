package record_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/mqstore/mqstore/commitlog/record"
)

// A message becomes the bytes that the log holds, and those bytes a message again.
func ExampleAppendRecord() {
	host, err := record.ParseHost("192.168.7.9:10911")
	if err != nil {
		log.Fatal(err)
	}
	m := &record.Message{
		Topic: "orders", QueueID: 3, Body: []byte("two teas"), BornHost: host, StoreHost: host,
		Properties: record.NewProperties(record.PropertyTags, "drinks", record.PropertyKeys, "order-17 table-3"),
	}
	b, err := record.AppendRecord(nil, m, record.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	record.Patch(b, 42, 1073741824, 1796040000000) // queue offset, physical offset and store time: known when the record's place is

	got, err := record.Decode(b)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(b), "bytes:", got.Topic, got.QueueID, got.QueueOffset, got.Tags(), got.Keys())
	fmt.Println(got.OffsetMessageID())

	b[88]++ // the first byte of the body
	_, err = record.Decode(b)
	fmt.Println(errors.Is(err, record.ErrCRC))
	// Output:
	// 138 bytes: orders 3 42 drinks [order-17 table-3]
	// C0A8070900002A9F0000000040000000
	// true
}

// Properties keep their writer's bytes; a name given twice has its last value.
func ExampleProperties() {
	p := record.NewProperties("TAGS", "a", "color", "red")
	p = p.With("color", "blue").With("size", "2")
	color, ok := p.Get("color")
	fmt.Println(color, ok)
	for name, value := range p.All() {
		fmt.Println(name, value)
	}
	fmt.Println(record.ValidProperty("key", "with\x02separator"))
	// Output:
	// blue true
	// TAGS a
	// color blue
	// size 2
	// false
}

// What clients send in one go is taken apart into the items that a store's PutBatch takes.
func ExampleSplitBatch() {
	var body []byte
	for _, text := range []string{"one coffee", "two teas"} {
		body = record.AppendBatchItem(body, record.BatchItem{Body: []byte(text), Properties: record.NewProperties("KEYS", text[:3])})
	}
	items, err := record.SplitBatch(body)
	if err != nil {
		log.Fatal(err)
	}
	for _, it := range items {
		fmt.Printf("%s: %q\n", it.Body, it.Properties)
	}
	_, err = record.SplitBatch(body[:len(body)-1])
	fmt.Println(errors.Is(err, record.ErrBatch))
	// Output:
	// one coffee: "KEYS\x01one"
	// two teas: "KEYS\x01two"
	// true
}

// Bodies are stored as they come; whoever compresses sets the flag, whoever reads undoes it.
func ExampleCompressBody() {
	text := []byte("tea tea tea tea tea tea tea tea tea tea tea tea tea tea")
	body, err := record.CompressBody(record.CompressionZstd, 0, text)
	if err != nil {
		log.Fatal(err)
	}
	var flag record.SysFlag
	m := &record.Message{Topic: "orders", Body: body, SysFlag: flag.WithCompression(record.CompressionZstd)}
	decoded, err := m.DecodedBody(1 << 20)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(body) < len(text), string(decoded) == string(text))
	// Output:
	// true true
}
