package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// childEnv makes the test binary our engine's driver.
const childEnv = "MQSTORE_INTEROP_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		fmt.Fprintln(os.Stderr, runChild())
		os.Exit(3)
	}
	goleak.VerifyTestMain(m)
}

// child answers what driver/ answers, with our engine.
type child struct {
	s     *store.DefaultMessageStore
	clock atomic.Int64 // ms; 0 = the real one
	in    *bufio.Reader
	out   *bufio.Writer
}

func runChild() error {
	c := &child{in: bufio.NewReaderSize(os.Stdin, 1<<16), out: bufio.NewWriter(os.Stdout)}
	for {
		line, err := c.in.ReadBytes('\n')
		if err != nil {
			return err
		}
		a, err := c.call(line)
		if err != nil {
			a = map[string]string{"error": err.Error()}
		}
		if err := c.say(a); err != nil {
			return err
		}
	}
}

func (c *child) say(a any) error {
	if a == nil {
		a = struct{}{}
	}
	if err := json.NewEncoder(c.out).Encode(a); err != nil {
		return err
	}
	return c.out.Flush()
}

type question struct {
	Op             string
	where          at
	wire           wireMessage
	Dir            string
	Config         map[string]any
	Now, MS        int64
	Max, Producers int
	Filter         bool
	Key, Addr      string
	Begin, End     int64
	Below          int64
	Kind           string
	BodySize       int
}

func (c *child) call(line []byte) (any, error) {
	var q question
	var what struct{ Op string }
	if err := json.Unmarshal(line, &what); err != nil {
		return nil, err
	}
	// One line has the fields of all of them.
	for _, into := range []any{&q.where, &q.wire, &struct {
		Dir, Key, Addr, Kind *string
		Config               *map[string]any
		Now, MS, Begin, End  *int64
		Below                *int64
		Max, Producers       *int
		Filter               *bool
		BodySize             *int
	}{&q.Dir, &q.Key, &q.Addr, &q.Kind, &q.Config, &q.Now, &q.MS, &q.Begin, &q.End, &q.Below, &q.Max, &q.Producers, &q.Filter, &q.BodySize}} {
		if err := json.Unmarshal(line, into); err != nil {
			return nil, err
		}
	}
	topic, queueID := q.where.Topic, q.where.QueueID
	ctx := context.Background()
	if c.s == nil && what.Op != "open" && what.Op != "clock" && what.Op != "usage" {
		return nil, errors.New("no store is open")
	}
	switch what.Op {
	case "open":
		return c.open(q)
	case "clock":
		c.clock.Store(q.Now)
		return nil, nil
	case "put":
		m, err := fromWire(q.wire)
		if err != nil {
			return nil, err
		}
		r, err := c.s.Put(ctx, m)
		return putResult(r, err), nil
	case "putBatch":
		m, err := fromWire(q.wire)
		if err != nil {
			return nil, err
		}
		items, err := record.SplitBatch(m.Body)
		if err != nil {
			return nil, err
		}
		m.Body = nil
		r, err := c.s.PutBatch(ctx, m, items)
		return putResult(r, err), nil
	case "get":
		return c.get(ctx, q)
	case "query":
		return c.query(ctx, q)
	case "queue":
		a := queueAnswer{topic, queueID, c.s.MinOffset(topic, queueID), c.s.MaxOffset(topic, queueID), -1}
		if t, err := c.s.EarliestStoreTime(topic, queueID); err == nil {
			a.Earliest = t.UnixMilli()
		}
		return a, nil
	case "log":
		st := c.s.Stats()
		a := logAnswer{Min: st.MinPhyOffset, Max: st.MaxPhyOffset, Behind: st.DispatchBehindBytes, Earliest: -1, Slaves: int64(len(st.HA.Slaves)), Acked: st.HA.MaxAck}
		if t, err := c.s.FirstStoreTime(); err == nil {
			a.Earliest = t.UnixMilli()
		}
		return a, nil
	case "queues":
		var a struct{ Queues []queueAnswer }
		for _, i := range c.s.Queues() {
			a.Queues = append(a.Queues, queueAnswer{Topic: i.Topic, QueueID: i.QueueID, Min: i.MinOffset, Max: i.MaxOffset})
		}
		return a, nil
	case "time":
		o, err := c.s.OffsetByTime(topic, queueID, time.UnixMilli(q.where.Time), store.Nearest)
		return map[string]int64{"offset": o}, err
	case "storeTime":
		t, err := c.s.StoreTime(topic, queueID, q.where.Offset)
		if errors.Is(err, store.ErrNotFound) {
			return map[string]int64{"time": -1}, nil
		}
		return map[string]int64{"time": t.UnixMilli()}, err
	case "phyOffset":
		o, err := c.s.PhyOffset(topic, queueID, q.where.Offset)
		if errors.Is(err, store.ErrNotFound) {
			return map[string]int64{"offset": 0}, nil
		}
		return map[string]int64{"offset": o}, err
	case "lookup":
		m, err := c.s.Lookup(q.where.Offset)
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrNotARecord) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		v, err := c.s.CommitLogData(m.PhyOffset, m.Size)
		if err != nil {
			return nil, err
		}
		defer v.Release()
		return rawRecord{m.PhyOffset, bytes.Clone(v.Bytes)}, nil
	case "logData":
		v, err := c.s.CommitLogData(q.where.Offset, 0)
		if errors.Is(err, store.ErrNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		defer v.Release()
		return rawRecord{v.PhyOffset, bytes.Clone(v.Bytes)}, nil
	case "dispatched":
		late := time.After(time.Duration(q.MS) * time.Millisecond)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			behind := c.s.Stats().DispatchBehindBytes
			if behind == 0 {
				ictx, cancel := context.WithTimeout(ctx, time.Duration(q.MS)*time.Millisecond)
				err := c.s.WaitIndexed(ictx, c.s.MaxPhyOffset())
				cancel()
				if errors.Is(err, store.ErrNoIndex) {
					err = nil
				}
				return map[string]int64{"behind": 0}, err
			}
			select {
			case <-tick.C:
			case <-late:
				return map[string]int64{"behind": behind}, nil
			}
		}
	case "flush", "flushQueues":
		n, err := c.s.Flush()
		return map[string]int64{"flushed": n}, err
	case "deleteExpired":
		return c.deleteExpired(q.Below)
	case "look":
		m, err := c.s.Lookup(q.where.Offset)
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrNotARecord) {
			return map[string]any{"found": false}, nil
		}
		if err != nil {
			return nil, err
		}
		return map[string]any{"found": true, "phyOffset": m.PhyOffset}, nil
	case "haMaster":
		return nil, c.s.UpdateHaMasterAddress(q.Addr)
	case "bench":
		return c.bench(ctx, q)
	case "usage":
		return usage(), nil
	case "close":
		s := c.s
		c.s = nil
		return nil, s.Close()
	}
	return nil, fmt.Errorf("no such op: %s", what.Op)
}

// open reads the settings as a broker's .properties file, which is how an operator hands them over.
func (c *child) open(q question) (any, error) {
	if c.s != nil {
		return nil, errors.New("a store is open")
	}
	var text strings.Builder
	for _, k := range sortedKeys(q.Config) {
		fmt.Fprintf(&text, "%s=%v\n", k, plain(q.Config[k]))
	}
	o, b, _, err := store.ReadProperties(strings.NewReader(text.String()))
	if err != nil {
		return nil, err
	}
	if _, listens := q.Config["haListenPort"]; listens {
		o.HA.ListenAddress = fmt.Sprintf("127.0.0.1:%d", b.HAListenPort)
	}
	o.Now = func() time.Time {
		if ms := c.clock.Load(); ms != 0 {
			return time.UnixMilli(ms)
		}
		return time.Now()
	}
	o.Logger = hclog.New(&hclog.LoggerOptions{Output: os.Stderr, Level: hclog.Info})
	began := time.Now()
	if c.s, err = store.Open(q.Dir, o); err != nil {
		return nil, err
	}
	return opened{LoadMicros: time.Since(began).Microseconds()}, nil
}

func plain(v any) any {
	if f, ok := v.(float64); ok {
		return strconv.FormatInt(int64(f), 10)
	}
	return v
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

func fromWireHost(h wireHost) (record.Host, error) {
	a, ok := netip.AddrFromSlice(h.Addr)
	if !ok {
		return record.Host{}, fmt.Errorf("host of %d bytes", len(h.Addr))
	}
	return record.Host{Addr: a, Port: h.Port}, nil
}

func fromWire(w wireMessage) (*record.Message, error) {
	born, err := fromWireHost(w.BornHost)
	if err != nil {
		return nil, err
	}
	at, err := fromWireHost(w.StoreHost)
	if err != nil {
		return nil, err
	}
	return &record.Message{Topic: w.Topic, QueueID: w.QueueID, Flag: w.Flag, SysFlag: record.SysFlag(w.SysFlag), BornTimestamp: w.BornTimestamp, BornHost: born, StoreHost: at,
		ReconsumeTimes: w.ReconsumeTimes, PreparedTransactionOffset: w.PreparedTransactionOffset, Body: w.Body, Properties: w.Properties}, nil
}

func putResult(r store.PutResult, err error) putAnswer {
	if err != nil {
		fmt.Fprintln(os.Stderr, "put:", err)
		return putAnswer{Status: store.StatusName(err)}
	}
	return putAnswer{r.Status.String(), "PUT_OK", r.PhyOffset, r.Size, r.QueueOffset, r.StoreTimestamp, r.Messages, r.MessageID()}
}

// askingFilter asks the other side.
type askingFilter struct {
	c   *child
	err error
}

func (f *askingFilter) ask(q any) bool {
	if err := f.c.say(q); err != nil {
		f.err = err
		return false
	}
	line, err := f.c.in.ReadBytes('\n')
	if err != nil {
		f.err = err
		return false
	}
	var a struct{ Match bool }
	f.err = errors.Join(f.err, json.Unmarshal(line, &a))
	return a.Match
}

func (f *askingFilter) MatchUnit(tagsCode int64, ok bool, _ *store.ExtUnit) bool {
	return f.ask(map[string]any{"ask": "unit", "ok": ok, "tagsCode": tagsCode})
}

func (f *askingFilter) MatchRecord(rec []byte) bool {
	return f.ask(map[string]any{"ask": "record", "record": rec})
}

func (c *child) get(ctx context.Context, q question) (any, error) {
	r := store.GetRequest{Topic: q.where.Topic, QueueID: q.where.QueueID, Offset: q.where.Offset, MaxMessages: q.Max}
	f := &askingFilter{c: c}
	if q.Filter {
		r.Filter = f
	}
	g, err := c.s.Get(ctx, r)
	if err = errors.Join(err, f.err); err != nil {
		return nil, err
	}
	defer g.Release()
	a := getAnswer{Status: g.Status.String(), Next: g.NextBeginOffset, Min: g.MinOffset, Max: g.MaxOffset, Bytes: g.Bytes, SuggestSlave: g.SuggestSlave}
	for _, v := range g.Records {
		a.Records = append(a.Records, rawRecord{v.PhyOffset, bytes.Clone(v.Bytes)})
	}
	return a, nil
}

func (c *child) query(ctx context.Context, q question) (any, error) {
	r := store.QueryRequest{Topic: q.where.Topic, Key: q.Key, Max: q.Max}
	if q.Begin > 0 {
		r.Begin = time.UnixMilli(q.Begin)
	}
	if q.End < 1<<60 {
		r.End = time.UnixMilli(q.End)
	}
	f, err := c.s.Query(ctx, r)
	if err != nil {
		return nil, err
	}
	defer f.Release()
	var a struct {
		Records    [][]byte `json:"records"`
		LastTime   int64    `json:"lastTime"`
		LastOffset int64    `json:"lastOffset"`
	}
	a.LastTime, a.LastOffset = f.IndexLastUpdateTime, f.IndexLastUpdatePhyOffset
	for _, v := range f.Records {
		a.Records = append(a.Records, bytes.Clone(v.Bytes))
	}
	return a, nil
}

// deleteExpired deletes the segments that end at or below phyOffset.
func (c *child) deleteExpired(phyOffset int64) (any, error) {
	for {
		at := c.s.MinPhyOffset()
		if at < 0 || at/c.s.SegmentSize()*c.s.SegmentSize()+c.s.SegmentSize() > phyOffset {
			return map[string]int64{"min": at}, nil
		}
		r, err := c.s.DeleteExpired(store.ExpireOptions{Manual: true, Max: 1})
		if err != nil {
			return nil, err
		}
		if len(r.Segments) == 0 {
			return map[string]int64{"min": at}, nil
		}
	}
}

// bench does what Bench.java does.
func (c *child) bench(ctx context.Context, q question) (any, error) {
	var done, failed, sum atomic.Int64
	var wg sync.WaitGroup
	cpu, began := cpuNanos(), time.Now()
	until := began.Add(time.Duration(q.MS) * time.Millisecond)
	errs := make([]error, q.Producers)
	for id := range q.Producers {
		wg.Go(func() {
			if q.Kind == "put" {
				done.Add(c.benchPut(ctx, id, q.BodySize, until, &failed))
				return
			}
			var n int64
			n, errs[id] = c.benchGet(ctx, id, until, q.Kind == "getCopy", &sum)
			done.Add(n)
		})
	}
	wg.Wait()
	took := time.Since(began)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	u := usage()
	u["messages"], u["failed"], u["nanos"], u["cpuNanos"] = done.Load(), failed.Load(), took.Nanoseconds(), cpuNanos()-cpu
	return u, nil
}

func (c *child) benchPut(ctx context.Context, id, size int, until time.Time, failed *atomic.Int64) (n int64) {
	rng := rand.New(rand.NewPCG(uint64(id), 1))
	body := make([]byte, size)
	for i := range body {
		body[i] = byte(rng.Uint32())
	}
	host := record.Host{Addr: netip.MustParseAddr("127.0.0.1"), Port: 10911}
	properties := record.NewProperties("UNIQ_KEY", "7F00000100000000................", "TAGS", "TagA")
	for ; time.Now().Before(until); n++ {
		key := uint64(id)<<48 | uint64(n)
		for i := range 16 { // a key of its own for each message
			properties[40-i] = "0123456789ABCDEF"[key>>(4*i)&15]
		}
		m := &record.Message{Topic: "bench", QueueID: int32(id), BornTimestamp: 1, BornHost: host, StoreHost: host, Body: body, Properties: properties}
		if r, err := c.s.Put(ctx, m); err != nil || r.Status != store.PutOK {
			failed.Add(1)
		}
	}
	return n
}

func (c *child) benchGet(ctx context.Context, id int, until time.Time, copying bool, sum *atomic.Int64) (n int64, err error) {
	to := make([]byte, 4<<20)
	var offset int64
	for time.Now().Before(until) {
		g, err := c.s.Get(ctx, store.GetRequest{Topic: "bench", QueueID: int32(id), Offset: offset})
		if err != nil {
			return n, err
		}
		if g.Status != store.Found {
			if n == 0 {
				return 0, fmt.Errorf("nothing in queue %d: %v", id, g.Status)
			}
			offset = g.MinOffset
			g.Release()
			continue
		}
		for _, v := range g.Records {
			if copying {
				copy(to, v.Bytes)
				sum.Add(int64(to[len(v.Bytes)-1]))
			}
		}
		n += int64(len(g.Records))
		offset = g.NextBeginOffset
		g.Release()
	}
	return n, nil
}

// usage is the CPU time of this process so far and what the kernel says of its memory.
func usage() map[string]any {
	u := map[string]any{"cpuTotalNanos": cpuNanos()}
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		u["RssAnon"] = int64(m.Sys)
		return u
	}
	for line := range strings.Lines(string(b)) {
		var n int64
		if name, rest, ok := strings.Cut(line, ":"); ok && (name == "RssAnon" || name == "VmHWM") {
			if _, err := fmt.Sscanf(rest, "%d kB", &n); err == nil {
				u[name] = n << 10
			}
		}
	}
	return u
}
