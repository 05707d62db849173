package store_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/golden"
	"github.com/mqstore/mqstore/store"
)

// TestReplayGivesTheOriginalsBytes: the messages of a manifest, put through our API with its clock, give the answers that the original gave, and the commit log and consume queue files that it wrote, byte for byte.
func TestReplayGivesTheOriginalsBytes(t *testing.T) {
	for _, name := range []string{"basic", "ipv6", "batch", "transaction", "compressed", "deleted-head"} {
		for _, mode := range []store.FlushMode{store.AsyncFlush, store.SyncFlush} {
			t.Run(name+"/"+mode.String(), func(t *testing.T) {
				m := golden.Load(t, name)
				original := filepath.Join(golden.Extract(t, name), "store")
				dir := filepath.Join(t.TempDir(), "store")
				var clock atomic.Int64
				s, err := store.Open(dir, store.Options{
					SegmentSize: m.Config.Int("mappedFileSizeCommitLog"), QueueFileSize: m.Config.Int("mappedFileSizeConsumeQueue"), MaxMessageSize: int(m.Config.Int("maxMessageSize")),
					FlushMode: mode, Now: func() time.Time { return time.UnixMilli(clock.Load()) },
				})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				for i, p := range m.Puts {
					clock.Store(p.After.StoreTimestamp)
					replay(t, s, i, p, original)
				}
				if m.BeforeDelete != nil {
					if s.MinPhyOffset() != m.BeforeDelete.MinPhyOffset || s.MaxPhyOffset() != m.BeforeDelete.MaxPhyOffset {
						t.Errorf("log [%d, %d), the original's was %+v", s.MinPhyOffset(), s.MaxPhyOffset(), m.BeforeDelete)
					}
					expireLike(t, s, m)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				sameFiles(t, dir, original, "commitlog")
				sameFiles(t, dir, original, "consumequeue")
			})
		}
	}
}

// replay puts p and compares the answer.
func replay(t *testing.T, s *store.DefaultMessageStore, i int, p golden.Put, original string) {
	t.Helper()
	in := p.Input
	msg := &record.Message{
		Topic: in.Topic, QueueID: in.QueueID, Flag: in.Flag, SysFlag: record.SysFlag(in.SysFlag), BornTimestamp: in.BornTimestamp, BornHost: parseHost(t, in.BornHost), StoreHost: parseHost(t, in.StoreHost),
		ReconsumeTimes: in.ReconsumeTimes, PreparedTransactionOffset: in.PreparedTransactionOffset, Body: in.Body, Properties: record.Properties(in.PropertiesString),
	}
	var r store.PutResult
	var err error
	if p.Op == "putMessages" {
		msg.Properties = record.Properties(in.BatchPropertiesString)
		var items []record.BatchItem
		for _, it := range in.Messages {
			items = append(items, record.BatchItem{Flag: it.Flag, Body: it.Body, Properties: record.Properties(it.PropertiesString)})
		}
		r, err = s.PutBatch(context.Background(), msg, items)
	} else {
		r, err = s.Put(context.Background(), msg)
	}
	want := p.Result
	if want.AppendMessageStatus == "END_OF_FILE" {
		// The original lost this message and blanked two segments for it. Ours refuses it: give the log those blanks, so that the rest lies where it lay.
		if store.StatusName(err) != "MESSAGE_ILLEGAL" {
			t.Fatalf("put %d: %v, want MESSAGE_ILLEGAL", i, err)
		}
		size := s.SegmentSize()
		for at := s.MaxPhyOffset(); at < want.WroteOffset+int64(want.WroteBytes); at = s.MaxPhyOffset() {
			b := segment(t, original, at-at%size)
			if err := s.AppendToCommitLog(at, b[at%size:]); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	if store.StatusName(err) != want.PutMessageStatus {
		t.Fatalf("put %d: %v, want %s", i, err, want.PutMessageStatus)
	}
	if err != nil {
		return
	}
	if r.PhyOffset != want.WroteOffset || r.Size != want.WroteBytes || r.QueueOffset != want.LogicsOffset || r.Messages != want.MsgNum || r.StoreTimestamp != want.StoreTimestamp || r.MessageID() != want.MsgID {
		t.Fatalf("put %d: %+v id %s, want %+v", i, r, r.MessageID(), want)
	}
	if p.After.SysFlag != nil && int32(msg.SysFlag) != *p.After.SysFlag {
		t.Errorf("put %d: sysFlag %#x, want %#x", i, msg.SysFlag, *p.After.SysFlag)
	}
	if p.After.BodyCRC != nil && p.Op == "putMessage" && msg.BodyCRC != *p.After.BodyCRC {
		t.Errorf("put %d: body CRC %d, want %d", i, msg.BodyCRC, *p.After.BodyCRC)
	}
}

func parseHost(t *testing.T, s string) record.Host {
	t.Helper()
	h, err := record.ParseHost(s)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func segment(t *testing.T, dir string, start int64) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", start)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// expireLike deletes by hand the segments that the original deleted.
func expireLike(t *testing.T, s *store.DefaultMessageStore, m *golden.Manifest) {
	t.Helper()
	if _, err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, q := range m.Queries.Queues {
		if q.MaxOffset > 0 {
			settle(t, s, q.Topic, q.QueueID, q.MaxOffset)
		}
	}
	n := int(m.Queries.MinPhyOffset / s.SegmentSize())
	r, err := s.DeleteExpired(store.ExpireOptions{Manual: true, Max: n})
	if err != nil || len(r.Segments) != n || r.MinPhyOffset != m.Queries.MinPhyOffset {
		t.Fatalf("%+v, %v", r, err)
	}
}

// sameFiles compares the files under sub of two store directories.
func sameFiles(t *testing.T, ours, original, sub string) {
	t.Helper()
	list := func(dir string) (names []string) {
		for name := range fingerprints(t, filepath.Join(dir, sub)) {
			names = append(names, name)
		}
		slices.Sort(names)
		return names
	}
	have, want := list(ours), list(original)
	if !slices.Equal(have, want) {
		t.Errorf("%s has %s, the original %s", sub, strings.Join(have, " "), strings.Join(want, " "))
	}
	for _, name := range want {
		a, err := os.ReadFile(filepath.Join(ours, sub, name))
		if err != nil {
			t.Error(err)
			continue
		}
		b, err := os.ReadFile(filepath.Join(original, sub, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			at := 0
			for at < len(a) && at < len(b) && a[at] == b[at] {
				at++
			}
			t.Errorf("%s/%s: %d and %d bytes, first difference at %d", sub, name, len(a), len(b), at)
		}
	}
}
