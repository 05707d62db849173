package store_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	producer = record.HostFrom(netip.MustParseAddrPort("10.1.2.3:54321"))
	broker   = record.HostFrom(netip.MustParseAddrPort("192.168.7.9:10911"))
)

// message is a small message that any store accepts.
func message(topic string, queueID int32, body string, properties ...string) *record.Message {
	return &record.Message{Topic: topic, QueueID: queueID, Body: []byte(body), BornTimestamp: 1, BornHost: producer, StoreHost: broker, Properties: record.NewProperties(properties...)}
}

// open opens a store with small segments, on a machine that may be as slow as it likes.
func open(t testing.TB, dir string, o store.Options) *store.DefaultMessageStore {
	t.Helper()
	if o.SegmentSize == 0 {
		o.SegmentSize = 64 << 10
	}
	if o.PutBusyAfter == 0 {
		o.PutBusyAfter = time.Hour
	}
	if o.SyncFlushTimeout == 0 {
		o.SyncFlushTimeout = time.Hour
	}
	s, err := store.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func put(t testing.TB, s store.Putter, m *record.Message) store.PutResult {
	t.Helper()
	r, err := s.Put(context.Background(), m)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// settle waits until everything put so far can be read.
func settle(t testing.TB, s *store.DefaultMessageStore, topic string, queueID int32, messages int64) {
	t.Helper()
	if err := s.WaitForMessages(context.Background(), topic, queueID, messages-1); err != nil {
		t.Fatal(err)
	}
}

func get(t testing.TB, s store.Getter, topic string, queueID int32, offset int64) *store.GetResult {
	t.Helper()
	r, err := s.Get(context.Background(), store.GetRequest{Topic: topic, QueueID: queueID, Offset: offset})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Release)
	return r
}

func TestPutThenGetThenReopen(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, store.Options{})
	for i := range 500 {
		r := put(t, s, message("topic", int32(i%2), "body", "TAGS", "A"))
		if r.QueueOffset != int64(i/2) {
			t.Fatalf("message %d has queue offset %d", i, r.QueueOffset)
		}
	}
	settle(t, s, "topic", 1, 250)
	g := get(t, s, "topic", 1, 0)
	if g.Status != store.Found || len(g.Records) != 32 || g.NextBeginOffset != 32 || g.MaxOffset != 250 {
		t.Fatalf("%v %d %d %d", g.Status, len(g.Records), g.NextBeginOffset, g.MaxOffset)
	}
	ms, err := g.Messages()
	if err != nil || string(ms[0].Body) != "body" {
		t.Fatal(ms, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, store.Options{SegmentSize: 64 << 10})
	if got := s.Stats().Recovery; !got.Clean {
		t.Fatalf("%+v", got)
	}
	if max := s.MaxOffset("topic", 0); max != 250 {
		t.Fatal(max)
	}
	if r := put(t, s, message("topic", 0, "x")); r.QueueOffset != 250 {
		t.Fatal(r)
	}
}
