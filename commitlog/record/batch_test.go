package record_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mqstore/mqstore/commitlog/record"
)

func TestBatchBytes(t *testing.T) {
	b := record.AppendBatchItem(nil, record.BatchItem{Flag: 7, Body: []byte("ab"), Properties: props("K=v")})
	b = record.AppendBatchItem(b, record.BatchItem{})
	const want = "0000001b" + "00000000" + "00000000" + "00000007" + "00000002" + "6162" + "0003" + "4b0176" +
		"00000016" + "00000000" + "00000000" + "00000000" + "00000000" + "0000"
	if got := hex.EncodeToString(b); got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
	items, err := record.SplitBatch(b)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]record.BatchItem{{Flag: 7, Body: []byte("ab"), Properties: props("K=v")}, {Body: []byte{}, Properties: record.Properties{}}}, items); d != "" {
		t.Error(d)
	}
	// Total size, magic and CRC of an item do not count.
	copy(b, bytes.Repeat([]byte{0xFF}, 12))
	if again, err := record.SplitBatch(b); err != nil || !cmp.Equal(items, again) {
		t.Errorf("%v, %v", again, err)
	}
}

func TestSplitBatchChecksEachItem(t *testing.T) {
	good := record.AppendBatchItem(nil, record.BatchItem{Body: []byte("abc"), Properties: props("K=v")})
	for _, tt := range []struct {
		name   string
		change func(b []byte) []byte
		says   string
	}{
		{"empty", func([]byte) []byte { return nil }, "no item"},
		{"one byte more", func(b []byte) []byte { return append(b, 0) }, "item 2 at byte 56 of 57: 1 bytes left, at least 22 needed"},
		{"one byte less", func(b []byte) []byte { return b[:len(b)-1] }, "item 1 at byte 28 of 55: properties length is 3, at most 2"},
		{"body negative", func(b []byte) []byte { b[28+16] = 0x80; return b }, "item 1 at byte 28 of 56: body length is -"},
		{"body huge", func(b []byte) []byte { b[16] = 0x7F; return b }, "item 0 at byte 0 of 56: body length is 2130706435, at most 34"},
		{"properties negative", func(b []byte) []byte { b[28+23] = 0x80; return b }, "properties length is -32765"},
		{"properties long", func(b []byte) []byte { b[28+24] = 4; return b }, "properties length is 4, at most 3"},
	} {
		b := tt.change(append(bytes.Clone(good), good...))
		items, err := record.SplitBatch(b)
		if !errors.Is(err, record.ErrBatch) || items != nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, %v, want an error that says %q", tt.name, items, err, tt.says)
		}
	}
}

func TestAppendBatchItemPanicsOnImpossibleProperties(t *testing.T) {
	record.AppendBatchItem(nil, record.BatchItem{Properties: make([]byte, 32767)})
	defer func() {
		if recover() == nil {
			t.Error("properties of 32768 bytes were written")
		}
	}()
	record.AppendBatchItem(nil, record.BatchItem{Properties: make([]byte, 32768)})
}
