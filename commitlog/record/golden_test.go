package record_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/golden"
)

// forEachRecord parses the log in dir as a scan does and calls f with each whole record, blanks included, and where it lies. It stops at the end of what was written and returns why.
func forEachRecord(t *testing.T, dir string, f func(rec []byte, m *record.Meta)) (end int64, why error) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "commitlog", "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no log in %s: %v", dir, err)
	}
	p := record.Parser{VerifyCRC: true}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		base, err := strconv.ParseInt(filepath.Base(file), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at < len(b); {
			end = base + int64(at)
			var m record.Meta
			if err := p.Parse(b[at:], end, &m); err != nil {
				return end, err
			}
			if m.IsBlank() && at+m.Size != len(b) {
				t.Fatalf("blank at %d leaves %d bytes", end, len(b)-at-m.Size)
			}
			f(b[at:at+m.Size], &m)
			at += m.Size
			end = base + int64(at)
		}
	}
	return end, nil
}

func logDirs(t *testing.T, name string) []string {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(golden.Extract(t, name), "*", "commitlog"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("no logs: %v", err)
	}
	for i := range logs {
		logs[i] = filepath.Dir(logs[i])
	}
	return logs
}

// Every record that RocketMQ wrote parses, decodes, and encodes to the very same bytes, also when it is first written with other fields and then patched.
func TestGoldenRecordsEncodeToTheSameBytes(t *testing.T) {
	for _, name := range golden.Names() {
		t.Run(name, func(t *testing.T) {
			for _, dir := range logDirs(t, name) {
				n := 0
				end, why := forEachRecord(t, dir, func(rec []byte, meta *record.Meta) {
					if meta.IsBlank() {
						return
					}
					n++
					m, err := record.Decode(rec)
					if err != nil {
						t.Fatalf("record at %d: %v", meta.PhyOffset, err)
					}
					b, err := record.AppendRecord(nil, m, record.Limits{})
					if err != nil || !bytes.Equal(b, rec) {
						t.Fatalf("record at %d, %v:\n%x\nencodes to\n%x", meta.PhyOffset, err, rec, b)
					}
					queueOffset, phyOffset, stored := m.QueueOffset, m.PhyOffset, m.StoreTimestamp
					m.QueueOffset, m.PhyOffset, m.StoreTimestamp = -1, -1, -1
					if b, err = record.AppendRecord(b[:0], m, record.Limits{}); err != nil {
						t.Fatal(err)
					}
					if record.Patch(b, queueOffset, phyOffset, stored); !bytes.Equal(b, rec) {
						t.Fatalf("record at %d:\n%x\npatched is\n%x", phyOffset, rec, b)
					}
				})
				if n == 0 {
					t.Errorf("%s: no record", dir)
				}
				// Zeros, or the damage that the golden directory is about.
				if why != nil && !errors.Is(why, record.ErrMagic) && !errors.Is(why, record.ErrCRC) {
					t.Errorf("%s ends at %d: %v", dir, end, why)
				}
				t.Logf("%s: %d records, end %d: %v", filepath.Base(dir), n, end, why)
			}
		})
	}
}

// Fields, tags codes, keys and message ids are what the original's own decoder and dispatcher said.
func TestGoldenRecordsReadAsTheOriginalReadsThem(t *testing.T) {
	checked := 0
	for _, name := range golden.Names() {
		t.Run(name, func(t *testing.T) {
			manifest := golden.Load(t, name)
			want := map[int64]golden.Record{}
			for _, r := range append(append(manifest.Records, manifest.MasterRecords...), manifest.SlaveRecords...) {
				want[r.Offset] = r
			}
			for _, dir := range logDirs(t, name) {
				forEachRecord(t, dir, func(rec []byte, meta *record.Meta) {
					w, ok := want[meta.PhyOffset]
					if !ok {
						return // written after the manifest's list
					}
					if w.TotalSize != meta.Size || w.Magic != fmt.Sprintf("%#x", meta.Magic) {
						t.Fatalf("at %d: size %d, magic %#x, want %d, %s", meta.PhyOffset, meta.Size, meta.Magic, w.TotalSize, w.Magic)
					}
					if meta.IsBlank() {
						return
					}
					if meta.Topic != w.Topic || meta.QueueID != w.QueueID || meta.QueueOffset != w.QueueOffset {
						t.Errorf("at %d: %s-%d@%d, want %s-%d@%d", meta.PhyOffset, meta.Topic, meta.QueueID, meta.QueueOffset, w.Topic, w.QueueID, w.QueueOffset)
					}
					if d := w.Dispatch; d != nil {
						checked++
						got := golden.DispatchResult{Success: true, MsgSize: meta.Size, TagsCode: meta.TagsCode, ConsumeQueueOffset: meta.QueueOffset, StoreTimestamp: meta.StoreTimestamp, SysFlag: int32(meta.SysFlag)}
						if v, ok := meta.Properties.Get(record.PropertyKeys); ok {
							got.Keys = &v
						}
						if v, ok := meta.UniqKey(); ok {
							s := string(v)
							got.UniqKey = &s
						}
						if d.Keys != nil && *d.Keys == "" {
							d.Keys = nil // the original's word for a record without any properties
						}
						if d := cmp.Diff(*d, got); d != "" {
							t.Errorf("at %d: %s", meta.PhyOffset, d)
						}
					}
					if w.Message != nil {
						m, err := record.Decode(rec)
						if err != nil {
							t.Fatal(err)
						}
						host := func(s string) string {
							h, err := record.ParseHost(s)
							if err != nil {
								t.Fatal(err)
							}
							return h.String()
						}
						w.Message.BornHost, w.Message.StoreHost = host(w.Message.BornHost), host(w.Message.StoreHost)
						w.Message.BodyLength = max(0, w.Message.BodyLength) // -1: the original reads no body as null
						got := golden.Message{
							Topic: m.Topic, QueueID: m.QueueID, StoreSize: m.Size, QueueOffset: m.QueueOffset, CommitLogOffset: m.PhyOffset, Flag: m.Flag, SysFlag: int32(m.SysFlag), BornTimestamp: m.BornTimestamp, BornHost: m.BornHost.String(),
							StoreTimestamp: m.StoreTimestamp, StoreHost: m.StoreHost.String(), ReconsumeTimes: m.ReconsumeTimes, PreparedTransactionOffset: m.PreparedTransactionOffset, BodyCRC: m.BodyCRC, BodyLength: len(m.Body), Properties: m.Properties.Map(), MsgID: m.OffsetMessageID(),
						}
						if d := cmp.Diff(*w.Message, got); d != "" {
							t.Errorf("at %d: %s", m.PhyOffset, d)
						}
						if h, off, err := record.ParseOffsetMessageID(w.Message.MsgID); err != nil || h != m.StoreHost || off != m.PhyOffset {
							t.Errorf("id %s: %v @%d, %v", w.Message.MsgID, h, off, err)
						}
					}
				})
			}
		})
	}
	if checked < 500 {
		t.Errorf("only %d records compared with the original's dispatcher", checked)
	}
}

// What was put, encoded by us with the offsets that the original gave, is what the original wrote.
func TestGoldenPutsEncodeAsTheOriginalEncodedThem(t *testing.T) {
	singles, batches := 0, 0
	for _, name := range golden.Names() {
		t.Run(name, func(t *testing.T) {
			manifest := golden.Load(t, name)
			at := map[int64][]byte{}
			for _, dir := range logDirs(t, name) {
				forEachRecord(t, dir, func(rec []byte, meta *record.Meta) { at[meta.PhyOffset] = rec })
			}
			for _, put := range manifest.Puts {
				in, res := put.Input, put.Result
				if !res.OK() || at[res.WroteOffset] == nil {
					continue
				}
				born, err := record.ParseHost(in.BornHost)
				if err != nil {
					t.Fatal(err)
				}
				store, err := record.ParseHost(in.StoreHost)
				if err != nil {
					t.Fatal(err)
				}
				m := record.Message{
					Topic: in.Topic, QueueID: in.QueueID, Flag: in.Flag, SysFlag: record.SysFlag(in.SysFlag), BornTimestamp: in.BornTimestamp, BornHost: born, StoreHost: store, ReconsumeTimes: in.ReconsumeTimes, PreparedTransactionOffset: in.PreparedTransactionOffset,
					Body: in.Body, Properties: record.Properties(in.PropertiesString), StoreTimestamp: res.StoreTimestamp, QueueOffset: res.LogicsOffset, PhyOffset: res.WroteOffset,
				}
				if put.Op == "putMessages" {
					items, err := record.SplitBatch(in.EncodedBody)
					if err != nil || len(items) != len(in.Messages) {
						t.Fatalf("%d items of %d, %v", len(items), len(in.Messages), err)
					}
					var again []byte
					for i, it := range items {
						want := in.Messages[i]
						if it.Flag != want.Flag || !bytes.Equal(it.Body, want.Body) || string(it.Properties) != want.PropertiesString {
							t.Errorf("item %d is %+v", i, it)
						}
						again = record.AppendBatchItem(again, it)
						m.Flag, m.Body, m.Properties = it.Flag, it.Body, record.MergeBatchProperties(it.Properties, record.Properties(in.BatchPropertiesString))
						if b := encode(t, &m, record.Limits{}); !bytes.Equal(b, at[m.PhyOffset]) {
							t.Fatalf("item %d at %d:\n%x, want\n%x", i, m.PhyOffset, b, at[m.PhyOffset])
						}
						m.QueueOffset++
						m.PhyOffset += int64(m.Size)
					}
					if !bytes.Equal(again, in.EncodedBody) {
						t.Errorf("batch body\n%x, want\n%x", again, in.EncodedBody)
					}
					batches++
					continue
				}
				if rec := at[res.WroteOffset]; in.DelayTimeLevel == 0 && !bytes.Contains(rec, []byte(record.PropertyMultiQueueOffset)) {
					if b := encode(t, &m, record.Limits{}); !bytes.Equal(b, rec) {
						t.Fatalf("put at %d:\n%x, want\n%x", m.PhyOffset, b, rec)
					}
					singles++
				}
				if put.UncompressedSHA256 != "" {
					body, err := m.DecodedBody(0)
					if sum := sha256.Sum256(body); err != nil || len(body) != put.UncompressedLength || hex.EncodeToString(sum[:]) != put.UncompressedSHA256 {
						t.Errorf("%s at %d: %d bytes, %v", put.Compression, m.PhyOffset, len(body), err)
					}
				}
			}
		})
	}
	t.Logf("%d single puts, %d batches", singles, batches)
	if singles < 500 || batches < 10 {
		t.Errorf("only %d single puts and %d batches compared", singles, batches)
	}
}
