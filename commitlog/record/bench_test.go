package record_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/mqstore/mqstore/commitlog/record"
)

func sized(body int) *record.Message {
	m := sample()
	m.Body = bytes.Repeat([]byte{0xA5}, body)
	return m
}

func BenchmarkAppendRecord(b *testing.B) {
	for _, body := range []int{128, 1024, 16 << 10} {
		for _, l := range []record.Limits{{}, {PropertyCRC: true}} {
			b.Run(fmt.Sprintf("body=%d/propertyCRC=%v", body, l.PropertyCRC), func(b *testing.B) {
				m := sized(body)
				dst := encode(b, m, l)
				b.SetBytes(int64(len(dst)))
				b.ReportAllocs()
				for b.Loop() {
					dst, _ = record.AppendRecord(dst[:0], m, l)
				}
			})
		}
	}
}

func BenchmarkPatch(b *testing.B) {
	for _, l := range []record.Limits{{}, {PropertyCRC: true}} {
		b.Run(fmt.Sprintf("body=1024/propertyCRC=%v", l.PropertyCRC), func(b *testing.B) {
			rec := encode(b, sized(1024), l)
			b.SetBytes(int64(len(rec)))
			b.ReportAllocs()
			for b.Loop() {
				record.Patch(rec, 1, 2, 3)
			}
		})
	}
}

// BenchmarkParse is what dispatch and recovery do: records one behind the other, topics mixed.
func BenchmarkParse(b *testing.B) {
	for _, body := range []int{128, 1024} {
		for _, topics := range []int{1, 4} {
			for _, crc := range []bool{false, true} {
				b.Run(fmt.Sprintf("body=%d/topics=%d/crc=%v", body, topics, crc), func(b *testing.B) {
					var log []byte
					for i := range 64 {
						m := sized(body)
						m.Topic = fmt.Sprintf("Topic%d", i%topics)
						m.PhyOffset = int64(len(log))
						log = append(log, encode(b, m, record.Limits{})...)
					}
					p := record.Parser{VerifyCRC: crc}
					var m record.Meta
					b.SetBytes(int64(len(log) / 64))
					b.ReportAllocs()
					at := 0
					for b.Loop() {
						if at == len(log) {
							at = 0
						}
						if err := p.Parse(log[at:], int64(at), &m); err != nil {
							b.Fatal(err)
						}
						at += m.Size
					}
				})
			}
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	rec := encode(b, sized(1024), record.Limits{})
	b.SetBytes(int64(len(rec)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := record.Decode(rec); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBodyCRC(b *testing.B) {
	for _, n := range []int{128, 1024, 1 << 20} {
		b.Run(fmt.Sprintf("body=%d", n), func(b *testing.B) {
			body := make([]byte, n)
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				record.BodyCRC(body)
			}
		})
	}
}

func BenchmarkPropertiesView(b *testing.B) {
	p := sample().Properties
	for _, name := range []string{"KEYS", "TAGS", "DELAY"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.View(name)
			}
		})
	}
}

func BenchmarkDecompressBody(b *testing.B) {
	body := bytes.Repeat([]byte("a line of text that repeats, but not too soon, "), 40)
	for _, c := range []record.Compression{record.CompressionZlib, record.CompressionLZ4, record.CompressionZstd} {
		b.Run(fmt.Sprintf("codec=%s/body=%d", c, len(body)), func(b *testing.B) {
			z, err := record.CompressBody(c, 0, body)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := record.DecompressBody(c, z, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
