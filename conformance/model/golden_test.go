package model_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/golden"
	"github.com/mqstore/mqstore/conformance/model"
	"github.com/mqstore/mqstore/store"
)

// replay is a model that is fed a golden's puts at their times.
type replay struct {
	*model.Store
	t    *testing.T
	log  []byte // of RocketMQ, from phyOffset 0 (or the first segment's start) on
	min  int64
	now  int64
	size int64 // of a segment
}

func options(c golden.Config) store.Options {
	o := store.Options{
		SegmentSize:    c.Int("mappedFileSizeCommitLog"),
		QueueFileSize:  c.Int("mappedFileSizeConsumeQueue"),
		MaxMessageSize: int(c.Int("maxMessageSize")),
		MultiDispatch:  c.Bool("enableMultiDispatch"),
		DelayLevels:    c.String("messageDelayLevel"),
	}
	if c.String("brokerRole") == "SLAVE" {
		o.Role = store.Slave
	}
	return o
}

func newReplay(t *testing.T, c golden.Config, dir string) *replay {
	r := &replay{t: t}
	o := options(c)
	r.size = o.SegmentSize
	o.Now = func() time.Time { return time.UnixMilli(r.now) }
	r.Store = model.New(o)
	files, err := os.ReadDir(filepath.Join(dir, "commitlog"))
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range files {
		if i == 0 {
			if _, err := fmt.Sscanf(f.Name(), "%d", &r.min); err != nil {
				t.Fatal(err)
			}
		}
		b, err := os.ReadFile(filepath.Join(dir, "commitlog", f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		r.log = append(r.log, b...)
	}
	return r
}

// raw feeds the original's bytes up to phyOffset.
func (r *replay) raw(phyOffset int64) {
	r.t.Helper()
	from := r.MaxPhyOffset()
	if r.MinPhyOffset() < 0 {
		from = r.min
	}
	if err := r.AppendToCommitLog(from, r.log[from-r.min:phyOffset-r.min]); err != nil {
		r.t.Fatal(err)
	}
}

func host(t *testing.T, s string) record.Host {
	t.Helper()
	h, err := record.ParseHost(s)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// sameBytes compares each record below end with the original's.
func (r *replay) sameBytes(end int64) {
	r.t.Helper()
	n := 0
	for m, err := range r.ScanLog(context.Background(), 0, end) {
		if err != nil {
			r.t.Fatal(err)
		}
		b, err := record.AppendRecord(nil, m, record.Limits{})
		if err != nil {
			r.t.Fatal(err)
		}
		at := m.PhyOffset - r.min
		if want := r.log[at : at+int64(m.Size)]; !bytes.Equal(b, want) {
			r.t.Fatalf("record at %d:\n%x\nwant\n%x", m.PhyOffset, b, want)
		}
		n++
	}
	if n == 0 {
		r.t.Error("no records")
	}
}

// put does what the original was asked to do, and compares the answer. What it stored by itself in between (delivered delayed messages, blanks of a message that ours refuses) is fed as its bytes.
func (r *replay) put(i int, p golden.Put) {
	t, in, want := r.t, p.Input, p.Result
	t.Helper()
	if want.OK() {
		if r.now = want.StoreTimestamp; r.now == 0 {
			t.Fatalf("put %d has no time", i)
		}
	}
	m := &record.Message{
		Topic: in.Topic, QueueID: in.QueueID, Flag: in.Flag, SysFlag: record.SysFlag(in.SysFlag), BornTimestamp: in.BornTimestamp,
		BornHost: host(t, in.BornHost), StoreHost: host(t, in.StoreHost), ReconsumeTimes: in.ReconsumeTimes, PreparedTransactionOffset: in.PreparedTransactionOffset,
		Body: in.Body, Properties: record.Properties(in.PropertiesString),
	}
	// What the delivery service and multi-dispatch make of a message is given as they left it.
	if p.After.Topic != nil {
		m.Topic = *p.After.Topic
	}
	if p.After.QueueID != nil {
		m.QueueID = *p.After.QueueID
	}
	if p.After.PropertiesString != nil {
		m.Properties = record.Properties(*p.After.PropertiesString)
	}
	if end := r.MaxPhyOffset(); want.OK() && end < want.WroteOffset && want.WroteOffset != end-end%r.size+r.size { // more than one blank
		r.raw(want.WroteOffset)
	}
	var got store.PutResult
	var err error
	if p.Op == "putMessages" {
		m.Properties = record.Properties(in.BatchPropertiesString)
		var items []record.BatchItem
		for _, it := range in.Messages {
			items = append(items, record.BatchItem{Flag: it.Flag, Body: it.Body, Properties: record.Properties(it.PropertiesString)})
		}
		got, err = r.PutBatch(context.Background(), m, items)
	} else {
		got, err = r.Put(context.Background(), m)
	}
	if !want.OK() {
		if err == nil || store.StatusName(err) != "MESSAGE_ILLEGAL" {
			t.Errorf("put %d: stored at %d, %v; the original answered %s %s", i, got.PhyOffset, err, want.PutMessageStatus, want.AppendMessageStatus)
		}
		return
	}
	if errors.Is(err, store.ErrUnsupported) && p.After.PropertiesString != nil { // multi-dispatch
		r.raw(want.WroteOffset + int64(want.WroteBytes))
		return
	}
	if err != nil || got.PhyOffset != want.WroteOffset || got.Size != want.WroteBytes || got.QueueOffset != want.LogicsOffset || got.Messages != want.MsgNum || got.StoreTimestamp != want.StoreTimestamp || got.MessageID() != want.MsgID {
		t.Fatalf("put %d: %+v %s, %v; want %+v", i, got, got.MessageID(), err, want)
	}
}

// difference is answers that may differ from the original's: of which store, how many, which, and why.
type difference struct {
	load   string
	n      int
	prefix string
	why    string
}

// Nothing else may differ.
var differences = []difference{
	{"basic/store", 2, `query TopicA "dupKey"`, "a key that stands in KEYS twice is one hit, not two"},
	{"basic/store", 1, `query TopicA "key3" max 32 [1795967099897, 1795967100079]`, "the original rounds store times down to whole seconds and misses the message"},
	{"clean-lostqueue/store-before", 5, "TopicA/0 offset by time", chosenByModification},
	{"clean-torntail/store-before", 6, "TopicA/0 offset by time", chosenByModification},
	{"clean-torntail/store-after", 6, "TopicA/0 offset by time", chosenByModification},
	{"clean-torntail/store-after", 8, "query ", "the original's index still ends at the record that recovery cut"},
	{"deleted-head/store", 1, "queue TopicOld/0", expired},
	{"deleted-head/store", 21, "get TopicOld/0", expired},
	{"deleted-head/store", 1, "TopicOld/0 at 0: stored", expired},
	{"deleted-head/store", 5, "TopicOld/0 offset by time", expired},
}

const (
	chosenByModification = "the original chose the queue file by its modification time"
	expired              = "all messages have expired: the original keeps [0, 1) for ever, ours is empty at the next offset"
)

func TestAnswersAreTheOriginals(t *testing.T) {
	type load struct {
		name  string
		dir   string
		build func(t *testing.T, m *golden.Manifest, dir string) *replay
		of    func(m *golden.Manifest) *golden.Queries
	}
	puts := func(t *testing.T, m *golden.Manifest, dir string) *replay {
		c := m.Config
		if c == nil {
			c = m.MasterConfig
		}
		r := newReplay(t, c, dir)
		for i, p := range m.Puts {
			r.put(i, p)
		}
		return r
	}
	fed := func(c func(m *golden.Manifest) golden.Config, of func(m *golden.Manifest) *golden.Queries) func(*testing.T, *golden.Manifest, string) *replay {
		return func(t *testing.T, m *golden.Manifest, dir string) *replay {
			r := newReplay(t, c(m), dir)
			r.raw(of(m).MaxPhyOffset)
			return r
		}
	}
	config := func(m *golden.Manifest) golden.Config { return m.Config }
	queries := func(m *golden.Manifest) *golden.Queries { return m.Queries }
	after := func(m *golden.Manifest) *golden.Queries { return m.After.Queries }
	before := func(m *golden.Manifest) *golden.Queries { return m.QueriesBeforeShutdown }
	slave := func(m *golden.Manifest) *golden.Queries { return m.SlaveQueries }
	for _, l := range []load{
		{"basic", "store", puts, queries},
		{"ipv6", "store", puts, queries},
		{"batch", "store", puts, queries},
		{"transaction", "store", puts, queries},
		{"compressed", "store", puts, queries},
		{"consumequeueext", "store", puts, queries},
		{"delay", "store", puts, queries},
		{"lmq", "store", puts, queries},
		{"deleted-head", "store", func(t *testing.T, m *golden.Manifest, dir string) *replay {
			r := newReplay(t, m.Config, dir)
			for i, p := range m.Puts {
				r.put(i, p)
			}
			r.Expire(m.Queries.MinPhyOffset)
			return r
		}, queries},
		{"clean-lostqueue", "store-before", puts, before},
		{"clean-torntail", "store-before", puts, before},
		{"clean-torntail", "store-after", fed(config, after), after},
		{"crash-torn", "store-after", fed(config, after), after},
		{"ha-capture", "master", puts, func(m *golden.Manifest) *golden.Queries { return m.MasterQueries }},
		{"ha-capture", "slave", fed(func(m *golden.Manifest) golden.Config { return m.SlaveConfig }, slave), slave},
	} {
		t.Run(l.name+"/"+l.dir, func(t *testing.T) {
			t.Parallel()
			m := golden.Load(t, l.name)
			r := l.build(t, m, filepath.Join(golden.Extract(t, l.name), l.dir))
			if end := l.of(m).MaxPhyOffset; r.MaxPhyOffset() < end {
				r.raw(end)
			}
			whole := r.MaxPhyOffset()
			if l.name == "clean-torntail" { // the last record's body was damaged afterwards
				whole = m.After.Queries.MaxPhyOffset
			}
			r.sameBytes(whole)
			explain(t, l.name+"/"+l.dir, compare(r.Store, l.of(m)))
		})
	}
}

// explain fails for each difference that the table does not have, and for each row of the table that is no difference.
func explain(t *testing.T, load string, found []string) {
	t.Helper()
	seen := make([]int, len(differences))
	for _, f := range found {
		i := slices.IndexFunc(differences, func(d difference) bool {
			return d.load == load && strings.HasPrefix(f, d.prefix)
		})
		if i < 0 {
			t.Error(f)
			continue
		}
		seen[i]++
	}
	for i, d := range differences {
		if d.load == load && seen[i] != d.n {
			t.Errorf("%d answers %q... differ (%s), want %d", seen[i], d.prefix, d.why, d.n)
		}
	}
}

// compare asks everything that the original was asked, and tells the answers that differ.
func compare(s *model.Store, q *golden.Queries) (different []string) {
	ctx := context.Background()
	differ := func(format string, args ...any) { different = append(different, fmt.Sprintf(format, args...)) }
	if s.MinPhyOffset() != q.MinPhyOffset || s.MaxPhyOffset() != q.MaxPhyOffset {
		differ("log [%d, %d), want [%d, %d)", s.MinPhyOffset(), s.MaxPhyOffset(), q.MinPhyOffset, q.MaxPhyOffset)
	}
	for _, w := range q.Queues {
		if s.MinOffset(w.Topic, w.QueueID) != w.MinOffset || s.MaxOffset(w.Topic, w.QueueID) != w.MaxOffset {
			differ("queue %s/%d: [%d, %d), want [%d, %d)", w.Topic, w.QueueID, s.MinOffset(w.Topic, w.QueueID), s.MaxOffset(w.Topic, w.QueueID), w.MinOffset, w.MaxOffset)
		}
		at, err := s.EarliestStoreTime(w.Topic, w.QueueID)
		if !sameTime(at, err, w.EarliestMessageTime) {
			differ("%s/%d: earliest %v, %v; want %d", w.Topic, w.QueueID, at, err, w.EarliestMessageTime)
		}
	}
	for _, w := range slices.Concat(q.GetMessage, q.Unknown.Gets) {
		req := store.GetRequest{Topic: w.Topic, QueueID: w.QueueID, Offset: w.Offset, MaxMessages: w.MaxMsgNums}
		if w.MaxMsgNums == 0 {
			req.MaxMessages = -1
		}
		filter := "none"
		if w.Filter != nil {
			filter = *w.Filter
			req.Filter = store.TagFilter(filter)
		}
		got, err := s.Get(ctx, req)
		if err != nil {
			differ("get %+v: %v", req, err)
			continue
		}
		var found golden.Ranges
		for _, v := range got.Records {
			found = append(found, golden.Range{PhyOffset: v.PhyOffset, Size: len(v.Bytes)})
		}
		if got.Status.String() != w.Status || got.NextBeginOffset != w.NextBeginOffset || got.MinOffset != w.MinOffset || got.MaxOffset != w.MaxOffset ||
			got.Bytes != w.BufferTotalSize || got.SuggestSlave != w.SuggestPullingFromSlave || !slices.Equal(found, w.Found) {
			differ("get %s/%d at %d, max %d, filter %s: %v next %d [%d, %d) %v; want %s next %d [%d, %d) %v", w.Topic, w.QueueID, w.Offset, w.MaxMsgNums, filter,
				got.Status, got.NextBeginOffset, got.MinOffset, got.MaxOffset, found, w.Status, w.NextBeginOffset, w.MinOffset, w.MaxOffset, w.Found)
		}
	}
	for _, w := range q.StoreTimeStamp {
		at, err := s.StoreTime(w.Topic, w.QueueID, w.Offset)
		phy, err2 := s.PhyOffset(w.Topic, w.QueueID, w.Offset)
		if !sameTime(at, err, w.StoreTimestamp) || phy != w.PhyOffset || (err2 != nil) != (w.StoreTimestamp == -1) {
			differ("%s/%d at %d: stored %v, %v at %d, %v; want %d at %d", w.Topic, w.QueueID, w.Offset, at, err, phy, err2, w.StoreTimestamp, w.PhyOffset)
		}
	}
	for _, w := range q.OffsetByTime {
		got, err := s.OffsetByTime(w.Topic, w.QueueID, time.UnixMilli(w.Timestamp), store.Nearest)
		if got != w.Offset || err != nil {
			differ("%s/%d offset by time %d: %d, %v; want %d", w.Topic, w.QueueID, w.Timestamp, got, err, w.Offset)
		}
	}
	for _, w := range q.QueryMessage {
		got, err := s.Query(ctx, store.QueryRequest{Topic: w.Topic, Key: w.Key, Max: w.MaxNum, Begin: time.UnixMilli(w.Begin), End: time.UnixMilli(w.End)})
		if err != nil {
			differ("query %s %q: %v", w.Topic, w.Key, err)
			continue
		}
		var found []int64
		for _, v := range got.Records {
			found = append(found, v.PhyOffset)
		}
		x := w.IndexQueryOffset
		if !slices.Equal(found, w.QueryMessageOffsets) || got.IndexLastUpdateTime != x.IndexLastUpdateTimestamp || got.IndexLastUpdatePhyOffset != x.IndexLastUpdatePhyoffset {
			differ("query %s %q max %d [%d, %d]: %v (index %d, %d), want %v (%d, %d)", w.Topic, w.Key, w.MaxNum, w.Begin, w.End, found, got.IndexLastUpdateTime, got.IndexLastUpdatePhyOffset,
				w.QueryMessageOffsets, x.IndexLastUpdateTimestamp, x.IndexLastUpdatePhyoffset)
		}
	}
	for _, w := range q.ByPhysicalOffset {
		m, err := s.Lookup(w.Offset)
		switch want := w.LookMessageByOffset; {
		case want == nil || want.Exception != "":
			if !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrNotARecord) {
				differ("lookup %d: %v, %v; want nothing", w.Offset, m, err)
			}
		case err != nil:
			differ("lookup %d: %v", w.Offset, err)
		default:
			if got := fmt.Sprintf("%s/%d/%d/%s", m.Topic, m.QueueID, m.QueueOffset, m.OffsetMessageID()); got != want.Text {
				differ("lookup %d: %s, want %s", w.Offset, got, want.Text)
			}
		}
	}
	for call, want := range q.Unknown.Calls {
		name, topic, _ := strings.Cut(call, "(")
		topic, _, _ = strings.Cut(topic, ",")
		var got int64
		var at time.Time
		var err error
		switch name {
		case "getMinOffsetInQueue":
			got = s.MinOffset(topic, 0)
		case "getMaxOffsetInQueue":
			got = s.MaxOffset(topic, 0)
		case "getMessageTotalInQueue":
			got = s.MaxOffset(topic, 0) - s.MinOffset(topic, 0)
		case "getOffsetInQueueByTime":
			got, err = s.OffsetByTime(topic, 0, time.UnixMilli(1), store.Nearest)
		case "getMessageStoreTimeStamp":
			if at, err = s.StoreTime(topic, 0, 0); sameTime(at, err, -1) {
				got, err = -1, nil
			}
		case "getEarliestMessageTime":
			if at, err = s.EarliestStoreTime(topic, 0); sameTime(at, err, -1) {
				got, err = -1, nil
			}
		default:
			differ("unknown call %s", call)
		}
		if got != want || err != nil {
			differ("%s: %d, %v; want %d", call, got, err, want)
		}
	}
	return different
}

// sameTime reports whether an answer is want (ms), or not found where want is -1.
func sameTime(at time.Time, err error, want int64) bool {
	if want == -1 {
		return errors.Is(err, store.ErrNotFound)
	}
	return err == nil && at.UnixMilli() == want
}
