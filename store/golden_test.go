package store_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/golden"
	"github.com/mqstore/mqstore/store"
)

// Where our answers differ from the original's on purpose. Nothing else may.
//
//	what                                        the original                        ours
//	earliestMessageTime of the whole log        -1 on a log of less than 8 MiB      the first record's store time (FirstStoreTime)
//	an expired queue (deleted-head, TopicOld)   min 0, max 1, MESSAGE_WAS_REMOVING  min = max = 1: OFFSET_TOO_SMALL, OFFSET_OVERFLOW_ONE
//	a lookup inside a record                    null, or an exception               ErrNotARecord
//	a lookup at an end-of-file blank            null, garbage or an exception       ErrNotARecord
//	offsetByTime                                picks the file by modification      picks it by message times: see byTimeDiffers
//	                                            time, which no copy keeps
//	maxMsgNums 0                                the first match                     MaxMessages -1 asks for that; 0 is the default, 32

// answering is what both kinds of stores answer.
type answering interface {
	store.Getter
	store.Looker
	store.OffsetReader
	store.Scanner
	Stats() store.Stats
	CommitLogData(phyOffset int64, max int) (store.View, error)
	MessagesInQueue(topic string, queueID int32) int64
	FirstStoreTime() (time.Time, error)
	Close() error
}

// goldenStore is one store directory and what the original answered in it.
type goldenStore struct {
	golden, dir string
	config      func(*golden.Manifest) golden.Config
	queries     func(*golden.Manifest) *golden.Queries
	records     func(*golden.Manifest) []golden.Record
}

func goldenStores() (all []goldenStore) {
	config := func(m *golden.Manifest) golden.Config { return m.Config }
	for _, name := range []string{"basic", "batch", "compressed", "consumequeueext", "delay", "deleted-head", "ipv6", "lmq", "transaction"} {
		all = append(all, goldenStore{name, "store", config, func(m *golden.Manifest) *golden.Queries { return m.Queries }, func(m *golden.Manifest) []golden.Record { return m.Records }})
	}
	for _, name := range []string{"crash-torn", "crash-lostqueue", "clean-lostqueue", "clean-torntail"} {
		all = append(all, goldenStore{name, "store-after", config, func(m *golden.Manifest) *golden.Queries { return m.After.Queries }, func(m *golden.Manifest) []golden.Record { return m.After.Records }})
	}
	return append(all,
		goldenStore{"ha-capture", "master", func(m *golden.Manifest) golden.Config { return m.MasterConfig }, func(m *golden.Manifest) *golden.Queries { return m.MasterQueries }, func(m *golden.Manifest) []golden.Record { return m.MasterRecords }},
		goldenStore{"ha-capture", "slave", func(m *golden.Manifest) golden.Config { return m.SlaveConfig }, func(m *golden.Manifest) *golden.Queries { return m.SlaveQueries }, func(m *golden.Manifest) []golden.Record { return m.SlaveRecords }},
	)
}

// TestGoldenAnswers: each store that RocketMQ wrote opens, for looking and for writing, and answers what the original answered.
func TestGoldenAnswers(t *testing.T) {
	for _, g := range goldenStores() {
		t.Run(g.golden+"/"+g.dir, func(t *testing.T) {
			m := golden.Load(t, g.golden)
			q := g.queries(m)
			role := store.AsyncMaster
			if g.config(m).String("brokerRole") == "SLAVE" {
				role = store.Slave
			}
			t.Run("looking", func(t *testing.T) {
				dir := filepath.Join(golden.Extract(t, g.golden), g.dir)
				before := fingerprints(t, dir)
				s, err := store.OpenReadOnly(dir, store.Options{Role: role})
				if err != nil {
					t.Fatal(err)
				}
				checkAnswers(t, g, s, q, g.records(m))
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(before, fingerprints(t, dir)); d != "" {
					t.Fatal("looking changed the directory:", d)
				}
			})
			t.Run("writing", func(t *testing.T) {
				dir := filepath.Join(golden.Extract(t, g.golden), g.dir)
				s, err := store.Open(dir, store.Options{Role: role})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				checkAnswers(t, g, s, q, g.records(m))
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				again, err := store.Open(dir, store.Options{Role: role})
				if err != nil {
					t.Fatal(err)
				}
				defer again.Close()
				if r := again.Stats().Recovery; !r.Clean || r.RebuiltUnits != 0 || r.DroppedBytes != 0 {
					t.Fatalf("second open: %+v", r)
				}
				checkAnswers(t, g, again, q, g.records(m))
			})
		})
	}
}

func fingerprints(t *testing.T, dir string) map[string]string {
	t.Helper()
	sums := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		sums[filepath.ToSlash(rel)] = fmt.Sprintf("%x", sha256.Sum256(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sums
}

// expired are the queues whose messages have all been deleted: the row "an expired queue" of the table.
var expired = map[string]bool{"deleted-head/TopicOld-0": true}

// lostByTheOriginal reports queues that the original did not rebuild, or rebuilt wrongly, in its own recovery; ours rebuilds them from the log, so that its answers cannot be the original's. The answers of ours are tested with recovery.
func lostByTheOriginal(g goldenStore, name string) bool { return g.golden == "crash-lostqueue" }

func checkAnswers(t *testing.T, g goldenStore, s answering, q *golden.Queries, records []golden.Record) {
	t.Helper()
	ctx := context.Background()
	eq := func(what string, got, want any) {
		t.Helper()
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: (-original +ours)\n%s", what, d)
		}
	}
	eq("minPhyOffset", s.MinPhyOffset(), q.MinPhyOffset)
	eq("maxPhyOffset", s.MaxPhyOffset(), q.MaxPhyOffset)
	if first, err := s.FirstStoreTime(); err != nil {
		t.Error(err)
	} else if q.EarliestMessageTime != -1 {
		eq("earliestMessageTime", first.UnixMilli(), q.EarliestMessageTime)
	}

	lost := map[string]bool{}
	for _, info := range q.Queues {
		name := fmt.Sprintf("%s-%d", info.Topic, info.QueueID)
		if lostByTheOriginal(g, name) {
			lost[name] = true
			continue
		}
		if expired[g.golden+"/"+name] {
			eq(name+" min", s.MinOffset(info.Topic, info.QueueID), info.MaxOffset)
			eq(name+" max", s.MaxOffset(info.Topic, info.QueueID), info.MaxOffset)
			continue
		}
		eq(name+" min", s.MinOffset(info.Topic, info.QueueID), info.MinOffset)
		eq(name+" max", s.MaxOffset(info.Topic, info.QueueID), info.MaxOffset)
		eq(name+" total", s.MessagesInQueue(info.Topic, info.QueueID), info.MessageTotalInQueue)
		eq(name+" earliest", ms(s.EarliestStoreTime(info.Topic, info.QueueID)), info.EarliestMessageTime)
	}

	for _, want := range append(append([]golden.GetMessage(nil), q.GetMessage...), q.Unknown.Gets...) {
		if !lost[fmt.Sprintf("%s-%d", want.Topic, want.QueueID)] {
			checkGet(t, g, s, want)
		}
	}
	for _, want := range q.StoreTimeStamp {
		name := fmt.Sprintf("%s-%d", want.Topic, want.QueueID)
		if lost[name] {
			continue
		}
		at := fmt.Sprintf("%s at %d", name, want.Offset)
		eq("store time of "+at, ms(s.StoreTime(want.Topic, want.QueueID, want.Offset)), want.StoreTimestamp)
		phy, err := s.PhyOffset(want.Topic, want.QueueID, want.Offset)
		if err != nil {
			phy = 0 // the original's "none"
			if !errors.Is(err, store.ErrNotFound) {
				t.Errorf("place of %s: %v", at, err)
			}
		}
		if !expired[g.golden+"/"+name] {
			eq("place of "+at, phy, want.PhyOffset)
		}
	}
	for _, want := range q.OffsetByTime {
		name := fmt.Sprintf("%s-%d", want.Topic, want.QueueID)
		if lost[name] || expired[g.golden+"/"+name] {
			continue
		}
		got, err := s.OffsetByTime(want.Topic, want.QueueID, time.UnixMilli(want.Timestamp), store.Nearest)
		if err != nil {
			t.Errorf("%s at time %d: %v", name, want.Timestamp, err)
			continue
		}
		if got != want.Offset && byTimeDiffers[fmt.Sprintf("%s %s@%d", g.golden, name, want.Timestamp)] {
			checkNearest(t, s, want, got)
			continue
		}
		eq(fmt.Sprintf("%s at time %d", name, want.Timestamp), got, want.Offset)
	}
	for _, want := range q.ByPhysicalOffset {
		checkPlace(t, s, want)
	}
	for call, want := range q.Unknown.Calls {
		name, args, _ := strings.Cut(strings.TrimSuffix(call, ")"), "(")
		topic := strings.Split(args, ",")[0]
		var got int64
		switch name {
		case "getMinOffsetInQueue":
			got = s.MinOffset(topic, 0)
		case "getMaxOffsetInQueue":
			got = s.MaxOffset(topic, 0)
		case "getOffsetInQueueByTime":
			var err error
			if got, err = s.OffsetByTime(topic, 0, time.UnixMilli(1), store.Nearest); err != nil {
				t.Error(err)
			}
		case "getMessageStoreTimeStamp":
			got = ms(s.StoreTime(topic, 0, 0))
		case "getMessageTotalInQueue":
			got = s.MessagesInQueue(topic, 0)
		case "getEarliestMessageTime":
			got = ms(s.EarliestStoreTime(topic, 0))
		default:
			t.Errorf("unknown call %s", call)
		}
		eq(call, got, want)
	}

	i := 0
	var whole []golden.Record
	for _, r := range records {
		if !r.IsBlank() {
			whole = append(whole, r)
		}
	}
	for m, err := range s.ScanLog(ctx, 0, s.MaxPhyOffset()) {
		if err != nil {
			t.Fatal(err)
		}
		if i == len(whole) {
			t.Fatalf("more records than the original's %d", i)
		}
		checkRecord(t, m, whole[i])
		i++
	}
	eq("records", i, len(whole))
}

// byTimeDiffers are the cases in which the original looked into the queue's second file, because the first one's modification time had passed: it is that of the last write (a thorough flush), not of a message. Ours are the nearest messages, which checkNearest proves.
var byTimeDiffers = map[string]bool{
	"clean-lostqueue TopicA-0@1795967845310": true,
	"clean-lostqueue TopicA-0@1795967845587": true,
	"clean-lostqueue TopicA-0@1795967845588": true,
	"clean-lostqueue TopicA-0@1795967845589": true,
	"clean-lostqueue TopicA-0@1795967845616": true,
	"clean-torntail TopicA-0@1795967868199":  true,
	"clean-torntail TopicA-0@1795967868259":  true,
	"clean-torntail TopicA-0@1795967868260":  true,
	"clean-torntail TopicA-0@1795967868261":  true,
	"clean-torntail TopicA-0@1795967868262":  true,
	"clean-torntail TopicA-0@1795967868263":  true,
}

// checkNearest checks that no message of the queue is nearer to the time than the one at queue offset got.
func checkNearest(t *testing.T, s answering, want golden.OffsetByTime, got int64) {
	t.Helper()
	distance := func(queueOffset int64) int64 {
		d := ms(s.StoreTime(want.Topic, want.QueueID, queueOffset)) - want.Timestamp
		return max(d, -d)
	}
	for i := s.MinOffset(want.Topic, want.QueueID); i < s.MaxOffset(want.Topic, want.QueueID); i++ {
		if distance(i) < distance(got) {
			t.Errorf("%s-%d at time %d: %d, but %d is nearer", want.Topic, want.QueueID, want.Timestamp, got, i)
		}
	}
}

func ms(t time.Time, err error) int64 {
	if err != nil {
		return -1
	}
	return t.UnixMilli()
}

func checkGet(t *testing.T, g goldenStore, s answering, want golden.GetMessage) {
	t.Helper()
	r := store.GetRequest{Group: "g", Topic: want.Topic, QueueID: want.QueueID, Offset: want.Offset, MaxMessages: want.MaxMsgNums}
	if want.MaxMsgNums == 0 {
		r.MaxMessages = -1
	}
	filter := "none"
	if want.Filter != nil {
		filter = *want.Filter
		r.Filter = store.TagFilter(filter)
	}
	what := fmt.Sprintf("get %s-%d at %d, max %d, filter %s", want.Topic, want.QueueID, want.Offset, want.MaxMsgNums, filter)
	got, err := s.Get(context.Background(), r)
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	defer got.Release()
	if expired[fmt.Sprintf("%s/%s-%d", g.golden, want.Topic, want.QueueID)] {
		status, next := store.OffsetTooSmall, want.MaxOffset
		switch {
		case want.Offset == want.MaxOffset:
			status = store.OffsetOverflowOne
		case want.Offset > want.MaxOffset:
			status = store.OffsetOverflowBadly
		}
		if got.Status != status || got.NextBeginOffset != next {
			t.Errorf("%s: %v next %d, want %v next %d", what, got.Status, got.NextBeginOffset, status, next)
		}
		return
	}
	var found golden.Ranges
	for _, v := range got.Records {
		found = append(found, golden.Range{PhyOffset: v.PhyOffset, Size: len(v.Bytes)})
	}
	ours := golden.GetMessage{
		Topic: want.Topic, QueueID: want.QueueID, Offset: want.Offset, MaxMsgNums: want.MaxMsgNums, Filter: want.Filter,
		Status: got.Status.String(), NextBeginOffset: got.NextBeginOffset, MinOffset: got.MinOffset, MaxOffset: got.MaxOffset, MessageCount: len(got.Records), BufferTotalSize: got.Bytes,
		MsgCount4Commercial: want.MsgCount4Commercial, SuggestPullingFromSlave: got.SuggestSlave, Found: found,
	}
	if d := cmp.Diff(want, ours); d != "" {
		t.Errorf("%s: (-original +ours)\n%s", what, d)
	}
	if _, err := got.Messages(); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

func checkPlace(t *testing.T, s answering, want golden.ByPhysical) {
	t.Helper()
	m, err := s.Lookup(want.Offset)
	switch a := want.LookMessageByOffset; {
	case a == nil || a.Exception != "":
		if !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrNotARecord) {
			t.Errorf("look up %d: %v, %v; the original: %+v", want.Offset, m, err, a)
		}
	case err != nil:
		t.Errorf("look up %d: %v, want %s", want.Offset, err, a.Text)
	default:
		if got := fmt.Sprintf("%s/%d/%d/%s", m.Topic, m.QueueID, m.QueueOffset, m.OffsetMessageID()); got != a.Text {
			t.Errorf("look up %d: %s, want %s", want.Offset, got, a.Text)
		}
		if byID, err := s.LookupID(m.OffsetMessageID()); err != nil || byID.PhyOffset != m.PhyOffset {
			t.Errorf("look up %s: %v, %v", m.OffsetMessageID(), byID, err)
		}
		if r, ok := want.SelectOneMessageByOffset.Range(); ok && (r.PhyOffset != m.PhyOffset || r.Size != m.Size) {
			t.Errorf("look up %d: %d:%d, want %v", want.Offset, m.PhyOffset, m.Size, r)
		}
	}
	v, err := s.CommitLogData(want.Offset, 0)
	r, ok := want.GetCommitLogData.Range()
	switch {
	case !ok && !errors.Is(err, store.ErrNotFound):
		t.Errorf("log data at %d: %v, want none", want.Offset, err)
	case ok && err != nil:
		t.Errorf("log data at %d: %v, want %v", want.Offset, err, r)
	case ok && (v.PhyOffset != r.PhyOffset || len(v.Bytes) != r.Size):
		t.Errorf("log data at %d: %d:%d, want %v", want.Offset, v.PhyOffset, len(v.Bytes), r)
	}
	v.Release()
}

func checkRecord(t *testing.T, m *record.Message, want golden.Record) {
	t.Helper()
	if m.PhyOffset != want.Offset || m.Size != want.TotalSize || m.Topic != want.Topic || m.QueueID != want.QueueID || m.QueueOffset != want.QueueOffset {
		t.Errorf("record %d:%d %s-%d@%d, want %d:%d %s-%d@%d", m.PhyOffset, m.Size, m.Topic, m.QueueID, m.QueueOffset, want.Offset, want.TotalSize, want.Topic, want.QueueID, want.QueueOffset)
	}
	w := want.Message
	if w == nil {
		return
	}
	got := golden.Message{
		Topic: m.Topic, QueueID: m.QueueID, StoreSize: m.Size, QueueOffset: m.QueueOffset, CommitLogOffset: m.PhyOffset, Flag: m.Flag, SysFlag: int32(m.SysFlag),
		BornTimestamp: m.BornTimestamp, BornHost: m.BornHost.String(), StoreTimestamp: m.StoreTimestamp, StoreHost: m.StoreHost.String(), ReconsumeTimes: m.ReconsumeTimes,
		PreparedTransactionOffset: m.PreparedTransactionOffset, BodyCRC: m.BodyCRC, BodyLength: len(m.Body), Properties: m.Properties.Map(), MsgID: m.OffsetMessageID(),
	}
	w.BornHost, w.StoreHost = host(t, w.BornHost), host(t, w.StoreHost)
	w.BodyLength = max(w.BodyLength, 0) // the original's decoder gives no body where the record has an empty one
	if len(w.Properties) == 0 {
		got.Properties, w.Properties = nil, nil
	}
	if d := cmp.Diff(*w, got); d != "" {
		t.Errorf("record at %d: (-original +ours)\n%s", m.PhyOffset, d)
	}
}

// TestGoldenCompressedBodiesDecode: what the original compressed, ours decompresses to the same bytes.
func TestGoldenCompressedBodiesDecode(t *testing.T) {
	m := golden.Load(t, "compressed")
	s, err := store.OpenReadOnly(filepath.Join(golden.Extract(t, "compressed"), "store"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, p := range m.Puts {
		got, err := s.Lookup(p.Result.WroteOffset)
		if err != nil {
			t.Fatal(err)
		}
		body, err := got.DecodedBody(1 << 20)
		if err != nil {
			t.Fatalf("%s body at %d: %v", p.Compression, got.PhyOffset, err)
		}
		if p.UncompressedLength > 0 && (len(body) != p.UncompressedLength || fmt.Sprintf("%x", sha256.Sum256(body)) != p.UncompressedSHA256) {
			t.Errorf("%s body at %d: %d bytes, want %d with sum %s", p.Compression, got.PhyOffset, len(body), p.UncompressedLength, p.UncompressedSHA256)
		}
	}
}

// host is the original's way of writing an address in ours.
func host(t *testing.T, s string) string {
	t.Helper()
	h, err := record.ParseHost(s)
	if err != nil {
		t.Fatal(err)
	}
	return h.String()
}
