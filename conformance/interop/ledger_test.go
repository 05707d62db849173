package interop

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// kept is a message that some engine acknowledged, and the record that it made of it.
type kept struct {
	m     *record.Message // as put, with what the store set
	bytes []byte
	by    string // the engine
}

type queueName struct {
	topic   string
	queueID int32
}

// ledger is what must be in a store: everything that was acknowledged, whoever wrote it.
type ledger struct {
	t      testing.TB
	rng    *rand.Rand
	n      int
	atRisk bool // puts may be answered with less than PUT_OK, as long as they are appended
	log    []kept
	queues map[queueName][]kept
	keys   map[[2]string][]kept // by topic and key
}

func newLedger(t testing.TB, seed uint64) *ledger {
	t.Logf("seed %d", seed)
	return &ledger{t: t, rng: rand.New(rand.NewPCG(seed, 7)), queues: map[queueName][]kept{}, keys: map[[2]string][]kept{}}
}

var (
	host4 = record.Host{Addr: netip.MustParseAddr("10.1.2.3"), Port: 10911}
	host6 = record.Host{Addr: netip.MustParseAddr("2001:db8::7"), Port: 65000}
)

// message makes the n-th message: all kinds in turn, so that few messages have them all.
func (l *ledger) message() *record.Message {
	n := l.n
	l.n++
	body := make([]byte, l.rng.IntN(700))
	for i := range body {
		body[i] = byte(l.rng.Uint32())
	}
	m := &record.Message{Topic: []string{"Orders", "Payments", "Thema-äöü-主题"}[l.rng.IntN(3)], QueueID: int32(l.rng.IntN(3)), BornTimestamp: 1_700_000_000_000 + int64(n), BornHost: host4, StoreHost: host4, Body: body}
	unique := fmt.Sprintf("0A010203%024d", n)
	switch n % 14 {
	case 0: // plain: no properties at all
	case 1:
		m.Properties = record.NewProperties("TAGS", "TagA")
	case 2:
		m.Properties = record.NewProperties("TAGS", "标签 with space", "a", "b=c")
	case 3:
		m.Properties = record.NewProperties("KEYS", fmt.Sprintf("key%d shared%d", n, n/100))
	case 4:
		m.Properties = record.NewProperties("UNIQ_KEY", unique, "WAIT", "true", "TAGS", "TagB")
	case 5:
		m.Properties = record.NewProperties("UNIQ_KEY", unique, "TRAN_MSG", "true")
		m.SysFlag = m.SysFlag.WithTransaction(record.TransactionPrepared)
	case 6:
		m.SysFlag = m.SysFlag.WithTransaction(record.TransactionCommit)
		m.PreparedTransactionOffset = int64(n)
		m.Properties = record.NewProperties("UNIQ_KEY", unique)
	case 7:
		m.SysFlag = m.SysFlag.WithTransaction(record.TransactionRollback)
		m.Properties = record.NewProperties("UNIQ_KEY", unique)
	case 8:
		b, err := record.CompressBody(record.CompressionZlib, 5, bytes.Repeat([]byte("compress me "), 40))
		if err != nil {
			l.t.Fatal(err)
		}
		m.Body, m.SysFlag = b, m.SysFlag.WithCompression(record.CompressionZlib)
	case 9:
		m.BornHost = host6
	case 10:
		m.StoreHost = host6
		m.Properties = record.NewProperties("KEYS", fmt.Sprintf("six%d", n))
	case 11:
		m.BornHost, m.StoreHost = host6, host6
		m.Flag, m.ReconsumeTimes = -7, 3
	case 12:
		m.Body = nil
		m.Properties = record.NewProperties("TAGS", "Empty", "KEYS", fmt.Sprintf("empty%d", n))
	case 13:
		m.Body = bytes.Repeat([]byte{byte(n)}, 9000)
	}
	return m
}

// put puts n messages, some of them in batches, and keeps what was acknowledged.
func (l *ledger) put(p *Peer, n int) {
	l.t.Helper()
	for range n {
		if l.rng.IntN(12) == 0 {
			l.putBatch(p)
			continue
		}
		m := l.message()
		a := p.put(m)
		if a.Status != "PUT_OK" && !l.atRisk || a.Append != "PUT_OK" || a.Messages != 1 {
			l.t.Fatalf("%s: put %d: %+v", p.version, l.n-1, a)
		}
		l.keep(p, m, a.PhyOffset, a.Size, a.QueueOffset, a.StoreTimestamp)
		if want := record.OffsetMessageID(m.StoreHost, a.PhyOffset); a.MsgID != want {
			l.t.Fatalf("%s: put %d: message id %s, want %s", p.version, l.n-1, a.MsgID, want)
		}
	}
}

func (l *ledger) putBatch(p *Peer) {
	l.t.Helper()
	m := l.message()
	m.SysFlag, m.Body, m.PreparedTransactionOffset = 0, nil, 0
	m.Properties = record.NewProperties("BATCH", "yes")
	var items []record.BatchItem
	for i := range 2 + l.rng.IntN(5) {
		items = append(items, record.BatchItem{Flag: int32(i), Body: fmt.Appendf(nil, "item %d of %d", i, l.n), Properties: record.NewProperties("UNIQ_KEY", fmt.Sprintf("batch%dx%d", l.n, i), "TAGS", "TagB")})
	}
	a := p.putBatch(m, items)
	if a.Status != "PUT_OK" && !l.atRisk || a.Append != "PUT_OK" || a.Messages != len(items) {
		l.t.Fatalf("%s: batch before %d: %+v", p.version, l.n, a)
	}
	at := a.PhyOffset
	for i, it := range items {
		one := m.Clone()
		one.Flag, one.Body, one.Properties = it.Flag, it.Body, record.MergeBatchProperties(it.Properties, m.Properties)
		if p.version == v5 {
			one.Properties = append(one.Properties, 0x02) // 5.x ends each property with the separator
		}
		at += int64(l.keep(p, one, at, 0, a.QueueOffset+int64(i), a.StoreTimestamp))
	}
	if at != a.PhyOffset+int64(a.Size) {
		l.t.Fatalf("%s: batch before %d: %d bytes, its records have %d", p.version, l.n, a.Size, at-a.PhyOffset)
	}
}

// keep compares the record that p made of m with what it must be, byte for byte, and writes it down. It returns the record's size.
func (l *ledger) keep(p *Peer, m *record.Message, phyOffset int64, size int, queueOffset, storeTimestamp int64) int {
	l.t.Helper()
	b := p.lookup(phyOffset)
	want, err := record.AppendRecord(nil, m, record.Limits{})
	if err != nil {
		l.t.Fatal(err)
	}
	record.Patch(want, queueOffset, phyOffset, storeTimestamp)
	if !bytes.Equal(b, want) {
		got, err := record.Decode(b)
		exp, _ := record.Decode(want)
		l.t.Fatalf("%s: the record at %d is not what was put (%v):\n%s\n got %x\nwant %x", p.version, phyOffset, err, cmp.Diff(exp, got, cmpopts.EquateComparable(netip.Addr{})), b, want)
	}
	if size != 0 && size != len(b) {
		l.t.Fatalf("%s: the record at %d has %d bytes, the put said %d", p.version, phyOffset, len(b), size)
	}
	k := kept{m.Clone(), b, p.version}
	k.m.PhyOffset, k.m.QueueOffset, k.m.StoreTimestamp = phyOffset, queueOffset, storeTimestamp
	if n := len(l.log); n > 0 && l.log[n-1].m.PhyOffset+int64(len(l.log[n-1].bytes)) > phyOffset {
		l.t.Fatalf("%s: put at %d, inside or before the record at %d", p.version, phyOffset, l.log[n-1].m.PhyOffset)
	}
	l.log = append(l.log, k)
	if tr := m.SysFlag.Transaction(); tr.HasUnit() {
		q := queueName{m.Topic, m.QueueID}
		if want := int64(len(l.queues[q])); queueOffset != want {
			l.t.Fatalf("%s: put in %v at queue offset %d, want %d", p.version, q, queueOffset, want)
		}
		l.queues[q] = append(l.queues[q], k)
	}
	if m.SysFlag.Transaction() != record.TransactionRollback {
		keys := m.Keys()
		if u := m.UniqKey(); u != "" {
			keys = append(keys, u)
		}
		for _, key := range keys {
			l.keys[[2]string{m.Topic, key}] = append(l.keys[[2]string{m.Topic, key}], k)
		}
	}
	return len(b)
}

// check asks p for everything that the ledger knows.
func (l *ledger) check(p *Peer) {
	l.t.Helper()
	p.dispatched()
	l.checkQueues(p)
	l.checkStatuses(p)
	l.checkTimes(p)
	lg := p.log()
	last := l.log[len(l.log)-1]
	if want := last.m.PhyOffset + int64(len(last.bytes)); lg.Max != want || lg.Min != l.log[0].m.PhyOffset {
		l.t.Fatalf("%s: the log is [%d, %d), want [%d, %d)", p.version, lg.Min, lg.Max, l.log[0].m.PhyOffset, want)
	}
	for range 50 {
		k := l.log[l.rng.IntN(len(l.log))]
		if b := p.lookup(k.m.PhyOffset); !bytes.Equal(b, k.bytes) {
			l.t.Fatalf("%s: lookup %d: other bytes than %s wrote", p.version, k.m.PhyOffset, k.by)
		}
	}
}

func (l *ledger) checkQueues(p *Peer) {
	l.t.Helper()
	for q, want := range l.queues {
		if a := p.queue(q.topic, q.queueID); a.Min != 0 || a.Max != int64(len(want)) || a.Earliest != want[0].m.StoreTimestamp {
			l.t.Fatalf("%s: queue %v is [%d, %d) from %d, want [0, %d) from %d", p.version, q, a.Min, a.Max, a.Earliest, len(want), want[0].m.StoreTimestamp)
		}
		for next := int64(0); next < int64(len(want)); {
			g := p.get(q.topic, q.queueID, next, 32)
			if g.Status != "FOUND" || len(g.Records) == 0 || g.Next <= next {
				l.t.Fatalf("%s: get %v at %d: %s, %d records, next %d", p.version, q, next, g.Status, len(g.Records), g.Next)
			}
			for _, r := range g.Records {
				if k := want[next]; r.PhyOffset != k.m.PhyOffset || !bytes.Equal(r.Bytes, k.bytes) {
					l.t.Fatalf("%s: get %v: at queue offset %d the record at %d, not the one that %s wrote at %d", p.version, q, next, r.PhyOffset, k.by, k.m.PhyOffset)
				}
				next++
			}
			if g.Next != next {
				l.t.Fatalf("%s: get %v: next %d after %d", p.version, q, g.Next, next-1)
			}
		}
	}
	for _, a := range p.queues() {
		if len(l.queues[queueName{a.Topic, a.QueueID}]) == 0 && a.Max != 0 {
			l.t.Fatalf("%s: a queue that nobody wrote: %+v", p.version, a)
		}
	}
}

func (l *ledger) checkStatuses(p *Peer) {
	l.t.Helper()
	for q, want := range l.queues {
		n := int64(len(want))
		for _, c := range []struct {
			offset int64
			status string
			next   int64
		}{{n, "OFFSET_OVERFLOW_ONE", n}, {n + 1, "OFFSET_OVERFLOW_BADLY", n}, {n + 1000, "OFFSET_OVERFLOW_BADLY", n}, {-1, "OFFSET_TOO_SMALL", 0}} {
			if g := p.get(q.topic, q.queueID, c.offset, 32); g.Status != c.status || g.Next != c.next || g.Min != 0 || g.Max != n {
				l.t.Fatalf("%s: get %v at %d of %d: %s, next %d, [%d, %d); want %s, next %d", p.version, q, c.offset, n, g.Status, g.Next, g.Min, g.Max, c.status, c.next)
			}
		}
		tags := store.TagFilter("TagB")
		g, err := p.tryGet(q.topic, q.queueID, 0, 32, tags)
		if err != nil {
			l.t.Fatal(err)
		}
		for _, r := range g.Records {
			if m, err := record.Decode(r.Bytes); err != nil || m.Tags() != "TagB" {
				l.t.Fatalf("%s: get %v by tag: the record at %d has tags %q, %v", p.version, q, r.PhyOffset, m.Tags(), err)
			}
		}
		tagged := slices.ContainsFunc(want[:min(n, 32)], func(k kept) bool { return k.m.Tags() == "TagB" })
		if tagged != (len(g.Records) > 0) {
			l.t.Fatalf("%s: get %v by tag: %s with %d records, but a TagB in the first 32 is %t", p.version, q, g.Status, len(g.Records), tagged)
		}
	}
	if g := p.get("Nobody", 0, 0, 32); g.Status != "NO_MESSAGE_IN_QUEUE" || g.Next != 0 {
		l.t.Fatalf("%s: get of an unknown queue: %+v", p.version, g)
	}
}

// checkTimes: a stored time finds a message of that time; a time in between the nearer one. The original of 4.9.8 chooses a queue's file by its modification time, so the check is for queues of one file.
func (l *ledger) checkTimes(p *Peer) {
	l.t.Helper()
	for q, want := range l.queues {
		for range 5 {
			k := want[l.rng.IntN(len(want))]
			if ms := p.storeTime(q.topic, q.queueID, k.m.QueueOffset); ms != k.m.StoreTimestamp {
				l.t.Fatalf("%s: store time of %v at %d: %d, want %d", p.version, q, k.m.QueueOffset, ms, k.m.StoreTimestamp)
			}
			o := p.byTime(q.topic, q.queueID, k.m.StoreTimestamp)
			if o < 0 || o >= int64(len(want)) || want[o].m.StoreTimestamp != k.m.StoreTimestamp {
				l.t.Fatalf("%s: %v by time %d: offset %d", p.version, q, k.m.StoreTimestamp, o)
			}
		}
	}
}

// checkKeys asks for every key of the messages that pick lets through.
func (l *ledger) checkKeys(p *Peer, pick func(kept) bool) {
	l.t.Helper()
	asked := 0
	for tk, all := range l.keys {
		var want [][]byte
		for _, k := range all {
			if pick(k) {
				want = append(want, k.bytes)
			}
		}
		if len(want) == 0 {
			continue
		}
		asked++
		got := p.query(tk[0], tk[1], 64)
		if !slices.EqualFunc(got, want, bytes.Equal) {
			l.t.Fatalf("%s: query %v: %d records, want %d (written by %s)", p.version, tk, len(got), len(want), all[0].by)
		}
	}
	l.t.Logf("%s: %d keys", p.version, asked)
}
