package model_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/conformance/model"
	"github.com/mqstore/mqstore/store"
)

var ctx = context.Background()

// clock is a store's time, a second at each look.
func clock() func() time.Time {
	ms := int64(1_700_000_000_000)
	return func() time.Time { ms += 1000; return time.UnixMilli(ms) }
}

func small(o store.Options) *model.Store {
	if o.SegmentSize == 0 {
		o.SegmentSize = 4096
	}
	if o.QueueFileSize == 0 {
		o.QueueFileSize = 200 // 10 units
	}
	if o.Now == nil {
		o.Now = clock()
	}
	return model.New(o)
}

// sized is a message whose record has size bytes.
func sized(topic string, size int, nameValue ...string) *record.Message {
	m := &record.Message{Topic: topic, Properties: record.NewProperties(nameValue...)}
	m.Body = make([]byte, size-91-len(topic)-len(m.Properties))
	return m
}

func mustPut(t *testing.T, s *model.Store, m *record.Message) store.PutResult {
	t.Helper()
	r, err := s.Put(ctx, m)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func get(t *testing.T, s *model.Store, r store.GetRequest) *store.GetResult {
	t.Helper()
	g, err := s.Get(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestAPutTakesItsPlaceInLogAndQueue(t *testing.T) {
	s := small(store.Options{})
	var got []string
	for _, m := range []*record.Message{
		sized("A", 1000), sized("A", 3088), // exactly fills the segment but for the 8 bytes of a blank
		sized("B", 2000), sized("A", 2089), // one byte more does not fit
	} {
		r := mustPut(t, s, m)
		if m.PhyOffset != r.PhyOffset || m.QueueOffset != r.QueueOffset || m.StoreTimestamp != r.StoreTimestamp || m.Size != r.Size {
			t.Errorf("message %+v, result %+v", m, r)
		}
		got = append(got, fmt.Sprintf("%s%d@%d", m.Topic, r.QueueOffset, r.PhyOffset))
	}
	if s := strings.Join(got, " "); s != "A0@0 A1@1000 B0@4096 A2@8192" {
		t.Error(s)
	}
	if _, err := s.Lookup(4088); !errors.Is(err, store.ErrNotARecord) {
		t.Errorf("blank: %v", err)
	}
}

func TestTransactionsAndQueues(t *testing.T) {
	s := small(store.Options{})
	for i, c := range []struct {
		tx   record.Transaction
		want int64
	}{{record.TransactionNone, 0}, {record.TransactionPrepared, 0}, {record.TransactionCommit, 1}, {record.TransactionRollback, 0}, {record.TransactionNone, 2}} {
		m := sized("T", 200, record.PropertyKeys, "k")
		m.SysFlag = record.SysFlag(c.tx)
		if r := mustPut(t, s, m); r.QueueOffset != c.want {
			t.Errorf("put %d (%v): queue offset %d, want %d", i, c.tx, r.QueueOffset, c.want)
		}
	}
	if n := s.MaxOffset("T", 0); n != 3 {
		t.Errorf("queue holds %d", n)
	}
	q, err := s.Query(ctx, store.QueryRequest{Topic: "T", Key: "k"})
	if err != nil || len(q.Records) != 4 { // prepared is indexed, rollback is not
		t.Errorf("%d hits, %v", len(q.Records), err)
	}
}

func TestRefusalsAndTheirNames(t *testing.T) {
	long := string(bytes.Repeat([]byte("t"), 128))
	props := func(n int, c string) record.Properties {
		return record.Properties("n\x01" + strings.Repeat(c, n-2))
	}
	with := func(m *record.Message, f func(*record.Message)) *record.Message { f(m); return m }
	v2 := store.Options{AllowV2: true, SegmentSize: 1 << 20, MaxMessageSize: 70_000}
	v1 := store.Options{SegmentSize: 1 << 20, MaxMessageSize: 70_000}
	for name, c := range map[string]struct {
		o    store.Options
		m    *record.Message
		want string
	}{
		"fits":                            {v1, sized("T", 1000), "PUT_OK"},
		"no topic":                        {v1, sized("", 1000), "MESSAGE_ILLEGAL"},
		"topic of 127 bytes":              {v1, sized(long[:127], 1000), "PUT_OK"},
		"topic of 128 bytes":              {v1, sized(long, 1000), "MESSAGE_ILLEGAL"},
		"topic of 128 bytes as v2":        {v2, sized(long, 1000), "PUT_OK"},
		"topic of 256 bytes as v2":        {v2, sized(long+long, 1000), "MESSAGE_ILLEGAL"},
		"topic of 43 characters":          {v1, sized(strings.Repeat("中", 43), 1000), "MESSAGE_ILLEGAL"}, // 129 bytes
		"topic that is no directory name": {v1, sized("a/b", 1000), "MESSAGE_ILLEGAL"},
		"negative queue":                  {v1, with(sized("T", 1000), func(m *record.Message) { m.QueueID = -1 }), "MESSAGE_ILLEGAL"},
		"properties of 32767 bytes":       {v1, &record.Message{Topic: "T", Properties: props(32767, "x")}, "PUT_OK"},
		"properties of 32768 characters":  {v1, &record.Message{Topic: "T", Properties: props(32768, "x")}, "MESSAGE_ILLEGAL"},
		"properties of 32769 bytes but not so many characters": {v1, &record.Message{Topic: "T", Properties: append(props(32766, "x"), "中"...)}, "PROPERTIES_SIZE_EXCEEDED"},
		"body of the longest":   {v1, &record.Message{Topic: "T", Body: make([]byte, 70_000)}, "PUT_OK"},
		"body too long":         {v1, &record.Message{Topic: "T", Body: make([]byte, 70_001)}, "MESSAGE_ILLEGAL"},
		"as big as a segment":   {store.Options{}, sized("T", 4088), "PUT_OK"},
		"bigger than a segment": {store.Options{}, sized("T", 4089), "MESSAGE_ILLEGAL"},
		"a slave":               {store.Options{Role: store.Slave}, sized("T", 1000), "SERVICE_NOT_AVAILABLE"},
		"delayed":               {v1, sized("T", 1000, record.PropertyDelay, "3"), "MESSAGE_ILLEGAL"},
		"delay level 0":         {v1, sized("T", 1000, record.PropertyDelay, "0"), "PUT_OK"},
		"no message":            {v1, nil, "MESSAGE_ILLEGAL"},
	} {
		s := small(c.o)
		var before record.Message
		if c.m != nil {
			before = *c.m
		}
		_, err := s.Put(ctx, c.m)
		if got := store.StatusName(err); got != c.want {
			t.Errorf("%s: %s (%v), want %s", name, got, err, c.want)
		}
		if err != nil {
			if c.m != nil && (c.m.StoreTimestamp != before.StoreTimestamp || c.m.Size != before.Size || c.m.SysFlag != before.SysFlag) {
				t.Errorf("%s: the refused message was changed", name)
			}
			if s.MaxPhyOffset() != 0 || s.MaxOffset("T", 0) != 0 {
				t.Errorf("%s: a refusal left %d bytes, queue end %d", name, s.MaxPhyOffset(), s.MaxOffset("T", 0))
			}
		}
	}
}

func TestABatchIsStoredWholeOrNotAtAll(t *testing.T) {
	s := small(store.Options{})
	mustPut(t, s, sized("T", 3000))
	items := []record.BatchItem{
		{Flag: 1, Body: make([]byte, 400), Properties: record.NewProperties("a", "1")},
		{Flag: 2, Body: make([]byte, 400), Properties: record.Properties("b\x012\x02")},
		{Flag: 3, Body: make([]byte, 400)},
	}
	m := &record.Message{Topic: "T", Properties: record.NewProperties("c", "3")}
	r, err := s.PutBatch(ctx, m, items)
	if err != nil || r.PhyOffset != 4096 || r.QueueOffset != 1 || r.Messages != 3 || len(r.Offsets) != 3 || s.MaxPhyOffset() != 4096+int64(r.Size) {
		t.Fatalf("%+v, %v", r, err)
	}
	g := get(t, s, store.GetRequest{Topic: "T", Offset: 1})
	ms, err := g.Messages()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"a\x011\x02c\x013", "b\x012\x02c\x013", "c\x013"}
	for i, m := range ms {
		if string(m.Properties) != want[i] || m.Flag != int32(i+1) || m.StoreTimestamp != r.StoreTimestamp || m.PhyOffset != r.Offsets[i] {
			t.Errorf("item %d: %q %+v", i, m.Properties, m)
		}
	}
	for name, c := range map[string]struct {
		m     *record.Message
		items []record.BatchItem
	}{
		"empty":                         {&record.Message{Topic: "T"}, nil},
		"in a transaction":              {&record.Message{Topic: "T", SysFlag: record.SysFlag(record.TransactionPrepared)}, items},
		"delayed":                       {&record.Message{Topic: "T", Properties: record.NewProperties(record.PropertyDelay, "1")}, items},
		"bigger than a segment":         {&record.Message{Topic: "T"}, slices.Repeat(items, 4)},
		"the last item breaks a limit":  {&record.Message{Topic: "T"}, append(slices.Clone(items), record.BatchItem{Properties: make(record.Properties, 40_000)})},
		"of a topic that is not a name": {&record.Message{Topic: ".."}, items},
	} {
		end := s.MaxPhyOffset()
		if _, err := s.PutBatch(ctx, c.m, c.items); err == nil || s.MaxPhyOffset() != end || s.MaxOffset("T", 0) != 4 {
			t.Errorf("%s: %v, log end %d", name, err, s.MaxPhyOffset())
		}
	}
}

func TestGetStopsWhereTheOriginalDoes(t *testing.T) {
	fill := func(o store.Options, n, size int) *model.Store {
		o.SegmentSize = 1 << 20
		s := small(o)
		for i := range n {
			tag := "even"
			if i%2 == 1 {
				tag = "odd"
			}
			mustPut(t, s, sized("T", size, record.PropertyTags, tag))
		}
		return s
	}
	big := store.Options{QueueFileSize: 20 * 2000}
	never := store.TagFilter("never")
	for name, c := range map[string]struct {
		s      *model.Store
		r      store.GetRequest
		found  int
		next   int64
		status store.GetStatus
	}{
		"at most 32 by default":           {fill(big, 100, 200), store.GetRequest{}, 32, 32, store.Found},
		"never more than 32":              {fill(big, 100, 200), store.GetRequest{MaxMessages: 50}, 32, 32, store.Found},
		"what was asked for":              {fill(big, 100, 200), store.GetRequest{MaxMessages: 5, Offset: 3}, 5, 8, store.Found},
		"a negative maximum is the first": {fill(big, 100, 200), store.GetRequest{MaxMessages: -1}, 1, 1, store.Found},
		"to the end of a queue file":      {fill(store.Options{}, 100, 200), store.GetRequest{Offset: 7}, 3, 10, store.Found},
		"by bytes":                        {fill(store.Options{QueueFileSize: 40000, MaxTransferBytesInMemory: 1000}, 100, 300), store.GetRequest{}, 3, 3, store.Found},
		"the first is always given":       {fill(store.Options{QueueFileSize: 40000, MaxTransferBytesInMemory: 100}, 100, 300), store.GetRequest{}, 1, 1, store.Found},
		"less when on disk":               {fill(store.Options{QueueFileSize: 40000, MemorySize: 1000}, 100, 200), store.GetRequest{}, 8, 8, store.Found},
		"more when at the end":            {fill(store.Options{QueueFileSize: 40000, MemorySize: 1000}, 100, 200), store.GetRequest{Offset: 98}, 2, 100, store.Found},
		"every second":                    {fill(big, 100, 200), store.GetRequest{Filter: store.TagFilter("odd")}, 32, 64, store.Found},
		"800 units are looked at":         {fill(big, 900, 200), store.GetRequest{Filter: never, Offset: 3}, 0, 803, store.NoMatchedMessage},
		"or as many as were asked for":    {fill(big, 1000, 200), store.GetRequest{Filter: never, MaxMessages: 900}, 0, 900, store.NoMatchedMessage},
		"an unknown queue":                {fill(big, 1, 200), store.GetRequest{Topic: "U", Offset: 7}, 0, 0, store.NoMessageInQueue},
		"below":                           {fill(big, 1, 200), store.GetRequest{Offset: -1}, 0, 0, store.OffsetTooSmall},
		"at the end":                      {fill(big, 1, 200), store.GetRequest{Offset: 1}, 0, 1, store.OffsetOverflowOne},
		"beyond":                          {fill(big, 1, 200), store.GetRequest{Offset: 9}, 0, 1, store.OffsetOverflowBadly},
	} {
		if c.r.Topic == "" {
			c.r.Topic = "T"
		}
		g := get(t, c.s, c.r)
		if g.Status != c.status || len(g.Records) != c.found || g.NextBeginOffset != c.next {
			t.Errorf("%s: %v, %d records, next %d; want %v, %d, %d", name, g.Status, len(g.Records), g.NextBeginOffset, c.status, c.found, c.next)
		}
	}
}

func TestASlaveDoesNotCorrectOffsets(t *testing.T) {
	for _, check := range []bool{false, true} {
		master := small(store.Options{})
		mustPut(t, master, sized("T", 200))
		s := small(store.Options{Role: store.Slave, OffsetCheckInSlave: check})
		feed(t, s, master, 0)
		want := map[bool][]int64{false: {9, -3}, true: {1, 0}}[check]
		if got := get(t, s, store.GetRequest{Topic: "T", Offset: 9}).NextBeginOffset; got != want[0] {
			t.Errorf("check %v: beyond: next %d, want %d", check, got, want[0])
		}
		if got := get(t, s, store.GetRequest{Topic: "T", Offset: -3}).NextBeginOffset; got != want[1] {
			t.Errorf("check %v: below: next %d, want %d", check, got, want[1])
		}
	}
}

// image is the master's log from phyOffset on, blanks included.
func image(t *testing.T, master *model.Store, segment, from int64) []byte {
	t.Helper()
	var b []byte
	for m, err := range master.ScanLog(ctx, from, master.MaxPhyOffset()) {
		if err != nil {
			t.Fatal(err)
		}
		if gap := m.PhyOffset - from - int64(len(b)); gap > 0 {
			blank := make([]byte, gap)
			record.PutBlank(blank, int(gap))
			b = append(b, blank...)
		}
		if b, err = record.AppendRecord(b, m, record.Limits{}); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func feed(t *testing.T, s, master *model.Store, from int64) {
	t.Helper()
	if err := s.AppendToCommitLog(from, image(t, master, 4096, from)); err != nil {
		t.Fatal(err)
	}
}

// A slave that is fed a master's bytes in pieces of any size answers as the master.
func TestBytesInAnyPiecesMakeTheSameStore(t *testing.T) {
	for seed := range effort.Seeds(t, 30, 1000) {
		rng := rand.New(rand.NewPCG(seed, 0))
		master := small(store.Options{})
		for range 60 {
			mustPut(t, master, sized(string(rune('A'+rng.IntN(3))), 150+rng.IntN(1500), record.PropertyKeys, fmt.Sprint("k", rng.IntN(5))))
		}
		slave := small(store.Options{Role: store.Slave})
		b := image(t, master, 4096, 0)
		for at := 0; at < len(b); {
			n := min(1+rng.IntN(900), len(b)-at)
			if err := slave.AppendToCommitLog(int64(at), b[at:at+n]); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if at += n; slave.MaxPhyOffset() != int64(at) {
				t.Fatalf("seed %d: log ends at %d after %d bytes", seed, slave.MaxPhyOffset(), at)
			}
		}
		if !slices.Equal(master.Queues(), slave.Queues()) {
			t.Fatalf("seed %d: %+v\n%+v", seed, master.Queues(), slave.Queues())
		}
		if !bytes.Equal(b, image(t, slave, 4096, 0)) {
			t.Fatalf("seed %d: the logs differ", seed)
		}
	}
}

func TestRawBytesMustStartAtTheEnd(t *testing.T) {
	master := small(store.Options{})
	r := mustPut(t, master, sized("T", 200))
	b := image(t, master, 4096, 0)
	s := small(store.Options{Role: store.Slave})
	if err := s.AppendToCommitLog(0, b[:50]); err != nil {
		t.Fatal(err)
	}
	for _, at := range []int64{0, 49, 51, 200} {
		var oe *store.OffsetMismatchError
		if err := s.AppendToCommitLog(at, b[50:]); !errors.As(err, &oe) || oe.Want != 50 || oe.Got != at {
			t.Errorf("at %d: %v", at, err)
		}
	}
	if err := s.AppendToCommitLog(50, b[50:]); err != nil || s.MaxPhyOffset() != int64(r.Size) {
		t.Errorf("%v, end %d", err, s.MaxPhyOffset())
	}
}

func TestOffsetByTimeHasThreeRules(t *testing.T) {
	var now int64
	s := small(store.Options{Now: func() time.Time { return time.UnixMilli(now) }})
	for _, now = range []int64{1000, 1000, 1000, 3000, 3000, 3101} {
		mustPut(t, s, sized("T", 200))
	}
	for _, c := range []struct{ at, nearest, lower, upper int64 }{
		{500, 0, 0, 0},
		{1000, 2, 0, 2},
		{1900, 2, 3, 2},
		{2000, 2, 3, 2}, // as near to both: the left one
		{2001, 3, 3, 2},
		{3000, 4, 3, 4},
		{3051, 5, 5, 4},
		{3101, 5, 5, 5},
		{9999, 5, 6, 5},
	} {
		for rule, want := range map[store.TimeRule]int64{store.Nearest: c.nearest, store.Lower: c.lower, store.Upper: c.upper} {
			if got, err := s.OffsetByTime("T", 0, time.UnixMilli(c.at), rule); got != want || err != nil {
				t.Errorf("time %d, rule %v: %d, %v; want %d", c.at, rule, got, err, want)
			}
		}
	}
}

func TestStoreTimesNeverGoBack(t *testing.T) {
	times := []int64{5000, 4000, 6000}
	i := 0
	s := small(store.Options{Now: func() time.Time { i++; return time.UnixMilli(times[i-1]) }})
	for _, want := range []int64{5000, 5000, 6000} {
		if r := mustPut(t, s, sized("T", 200)); r.StoreTimestamp != want {
			t.Errorf("stored at %d, want %d", r.StoreTimestamp, want)
		}
	}
}

func TestExpiryIsFollowedByTheQueues(t *testing.T) {
	s := small(store.Options{}) // 4 records of 1000 bytes a segment, 10 units a queue file
	mustPut(t, s, sized("old", 1000))
	for range 25 {
		mustPut(t, s, sized("T", 1000, record.PropertyKeys, "k"))
	}
	s.Expire(1 << 40)
	if s.MinPhyOffset() != 24576 || s.MaxPhyOffset() != 26576 {
		t.Errorf("log [%d, %d)", s.MinPhyOffset(), s.MaxPhyOffset())
	}
	want := []store.QueueInfo{
		{Topic: "T", MinOffset: 23, MaxOffset: 25, Units: 2, MinPhyOffset: 24576, MaxPhyOffset: 26576},
		{Topic: "old", MinOffset: 1, MaxOffset: 1, MinPhyOffset: -1, MaxPhyOffset: 1000},
	}
	if got := s.Queues(); !slices.Equal(got, want) {
		t.Errorf("queues %+v", got)
	}
	for offset, want := range map[int64]store.GetStatus{0: store.OffsetTooSmall, 22: store.OffsetTooSmall, 23: store.Found, 25: store.OffsetOverflowOne} {
		if g := get(t, s, store.GetRequest{Topic: "T", Offset: offset}); g.Status != want {
			t.Errorf("offset %d: %v, want %v", offset, g.Status, want)
		}
	}
	if g := get(t, s, store.GetRequest{Topic: "old"}); g.Status != store.OffsetTooSmall || g.NextBeginOffset != 1 {
		t.Errorf("%v next %d", g.Status, g.NextBeginOffset)
	}
	if m, err := s.Lookup(0); err != nil || m.PhyOffset != 24576 {
		t.Errorf("lookup of 0: %+v, %v", m, err)
	}
	if _, err := s.Lookup(1000); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("lookup of an expired record: %v", err)
	}
	if q, err := s.Query(ctx, store.QueryRequest{Topic: "T", Key: "k"}); err != nil || len(q.Records) != 2 {
		t.Errorf("%d hits, %v", len(q.Records), err)
	}
	if r := mustPut(t, s, sized("old", 1000)); r.QueueOffset != 1 {
		t.Errorf("queue offset %d is given again", r.QueueOffset)
	}
}

func TestTruncationGivesOffsetsAgain(t *testing.T) {
	s := small(store.Options{})
	var ends []int64
	for i := range 6 {
		r := mustPut(t, s, sized(string(rune('A'+i%2)), 1000))
		ends = append(ends, r.PhyOffset+int64(r.Size))
	}
	for _, bad := range []int64{ends[2] - 1, -1, ends[5] + 1} {
		if err := s.TruncateTo(bad); err == nil {
			t.Errorf("truncated to %d", bad)
		}
	}
	if err := s.TruncateTo(ends[2]); err != nil {
		t.Fatal(err)
	}
	if a, b := s.MaxOffset("A", 0), s.MaxOffset("B", 0); a != 2 || b != 1 || s.MaxPhyOffset() != ends[2] {
		t.Errorf("queues end at %d, %d, log at %d", a, b, s.MaxPhyOffset())
	}
	if r := mustPut(t, s, sized("B", 300)); r.QueueOffset != 1 || r.PhyOffset != ends[2] {
		t.Errorf("%+v", r)
	}
}

func TestQueryFindsEachMessageOnceNewestFirstChosenOldestFirstGiven(t *testing.T) {
	s := small(store.Options{SegmentSize: 1 << 20})
	var at []int64
	for range 70 {
		m := sized("T", 300, record.PropertyKeys, "k u k", record.PropertyUniqKey, "u")
		mustPut(t, s, m)
		at = append(at, m.StoreTimestamp)
	}
	mustPut(t, s, sized("T", 300)) // without keys: no news for the index
	q := func(r store.QueryRequest) (n int, first int64, res *store.QueryResult) {
		t.Helper()
		r.Topic = "T"
		res, err := s.Query(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		if len(res.Records) > 0 {
			first = res.Records[0].PhyOffset
		}
		return len(res.Records), first, res
	}
	if n, first, res := q(store.QueryRequest{Key: "k"}); n != 64 || first != 6*300 || res.IndexLastUpdateTime != at[69] || res.IndexLastUpdatePhyOffset != 69*300 || !res.Complete {
		t.Errorf("%d hits from %d, %+v", n, first, res)
	}
	if n, first, _ := q(store.QueryRequest{Key: "u", Max: 3}); n != 3 || first != 67*300 {
		t.Errorf("%d hits from %d", n, first)
	}
	exact := time.UnixMilli(at[10])
	if n, first, _ := q(store.QueryRequest{Key: "k", Begin: exact, End: exact}); n != 1 || first != 3000 {
		t.Errorf("%d hits from %d", n, first)
	}
	if n, _, _ := q(store.QueryRequest{Key: "k u"}); n != 0 {
		t.Errorf("%d hits of two keys at once", n)
	}
}

func TestAClosedStoreRefuses(t *testing.T) {
	s := small(store.Options{})
	mustPut(t, s, sized("T", 200))
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	_, err := s.Put(ctx, sized("T", 200))
	if !errors.Is(err, store.ErrClosed) || store.StatusName(err) != "SERVICE_NOT_AVAILABLE" {
		t.Errorf("put: %v", err)
	}
	if _, err := s.PutAsync(sized("T", 200)).Wait(ctx); !errors.Is(err, store.ErrClosed) {
		t.Errorf("async put: %v", err)
	}
	if _, err := s.Get(ctx, store.GetRequest{Topic: "T"}); !errors.Is(err, store.ErrClosed) {
		t.Errorf("get: %v", err)
	}
	if st := s.Stats(); st.Writable || st.Puts != 1 || st.PutFailures != 2 {
		t.Errorf("%+v", st)
	}
}

func TestScanGivesCopiesInOrder(t *testing.T) {
	s := small(store.Options{})
	for range 12 {
		mustPut(t, s, sized("T", 1000))
	}
	var got []int64
	for m, err := range s.Scan(ctx, "T", 0, 9) {
		if err != nil {
			t.Fatal(err)
		}
		clear(m.Body)
		m.Body[0] = 9
		got = append(got, m.QueueOffset)
	}
	if !slices.Equal(got, []int64{9, 10, 11}) {
		t.Errorf("scanned %v", got)
	}
	if m, err := s.Lookup(0); err != nil || m.Body[0] != 0 {
		t.Errorf("a copy was a view: %v, %v", m.Body[0], err)
	}
}
