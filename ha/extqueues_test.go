package ha

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mqstore/mqstore/conformance/memnet"
)

var someQueues = []QueueNext{{"T", 0, 1}, {"T", 7, 1 << 40}, {strings.Repeat("x", maxTopicSize), 1<<31 - 1, 1<<63 - 1}}

// queueTaker is a slave's side of the queues.
type queueTaker struct {
	target *memLog
	wanted bool
	fails  error
	mu     struct {
		sync.Mutex
		got  [][]QueueNext
		ends []int64 // of the target's log then
	}
}

func (q *queueTaker) queues() *SlaveQueues {
	return &SlaveQueues{Wanted: func() bool { return q.wanted }, Begin: func(_ context.Context, list []QueueNext) error {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.mu.got, q.mu.ends = append(q.mu.got, list), append(q.mu.ends, q.target.MaxPhyOffset())
		return q.fails
	}}
}

func (q *queueTaker) taken() (got [][]QueueNext, ends []int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mu.got, q.mu.ends
}

// TestASlaveBehindTheBeginningHearsWhereQueuesGoOn: before the first byte, and only if it wants to, and only where the log does not begin at 0.
func TestASlaveBehindTheBeginningHearsWhereQueuesGoOn(t *testing.T) {
	for _, c := range []struct {
		name   string
		min    int64 // of the master's log
		wanted bool
		heard  bool
	}{
		{"begins behind", 1000, true, true},
		{"begins behind, and does not ask", 1000, false, false},
		{"begins at 0", 0, true, false},
	} {
		bubble(t, func(t *testing.T) {
			n := memnet.New()
			mo, so := extendedPair(t)
			src, target := newMemLogAt(1000, c.min, 4500, 1), newMemLog(1000)
			asked := int64(-1)
			startMaster(t, n, "master:1", src, MasterOptions{SegmentSize: 1000, Extended: mo, Queues: func(phyOffset int64) ([]QueueNext, int64) {
				asked = phyOffset
				return someQueues, src.MaxPhyOffset()
			}})
			q := &queueTaker{target: target, wanted: c.wanted}
			ev := &recorded{}
			startSlave(t, n, target, SlaveOptions{Extended: so, Queues: q.queues(), Events: ev.events.events()})
			time.Sleep(time.Second)
			sameLog(t, src, target)
			got, ends := q.taken()
			if c.heard && (len(got) != 1 || !reflect.DeepEqual(got[0], someQueues) || ends[0] != 0 || asked != c.min) || !c.heard && (len(got) > 0 || asked != -1) {
				t.Errorf("%s: heard %v when the log ended at %v, the master was asked for %d", c.name, got, ends, asked)
			}
			if warned := ev.has(ErrQueuesUnknown); warned != (c.min > 0 && !c.heard) {
				t.Errorf("%s: warned %v\n%s", c.name, warned, ev)
			}
		})
	}
}

// TestNoByteComesBeforeTheQueues: a slave that cannot take them over, or whose master cannot say, has no log that nobody would ever ask about again; it tries again.
func TestNoByteComesBeforeTheQueues(t *testing.T) {
	for _, ofMaster := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			n := memnet.New()
			mo, so := extendedPair(t)
			src, target := newMemLogAt(1000, 1000, 4500, 1), newMemLog(1000)
			q := &queueTaker{target: target, wanted: true}
			var mu sync.Mutex
			upTo := src.MaxPhyOffset()
			if ofMaster {
				upTo = 999
			} else {
				q.fails = errors.New("no room")
			}
			startMaster(t, n, "master:1", src, MasterOptions{SegmentSize: 1000, Extended: mo, Queues: func(int64) ([]QueueNext, int64) {
				mu.Lock()
				defer mu.Unlock()
				return someQueues, upTo
			}})
			s, _ := startSlave(t, n, target, SlaveOptions{Extended: so, Queues: q.queues()})
			time.Sleep(time.Minute)
			if _, ends := q.taken(); target.MaxPhyOffset() != 0 || !ofMaster && len(ends) < 5 || ofMaster && len(ends) > 0 {
				t.Errorf("the log ends at %d, the queues came at %v", target.MaxPhyOffset(), ends)
			}
			if st := s.Stats(); st.LastError == nil || !ofMaster && !errors.Is(st.LastError, q.fails) || ofMaster && !errors.Is(st.LastError, errUnavailable) {
				t.Errorf("%+v", st)
			}
			mu.Lock()
			upTo = src.MaxPhyOffset()
			mu.Unlock()
			q.mu.Lock()
			q.fails = nil
			q.mu.Unlock()
			time.Sleep(time.Minute)
			sameLog(t, src, target)
		})
	}
}

// TestASlaveWithALogIsToldOfQueuesAsFarAsTheyAreKnown: what its master has not dispatched yet it dispatches itself.
func TestASlaveWithALogIsToldOfQueuesAsFarAsTheyAreKnown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		mo, so := extendedPair(t)
		src, target := newMemLogAt(1000, 1000, 4500, 1), newMemLogAt(1000, 1000, 4500, 1)
		startMaster(t, n, "master:1", src, MasterOptions{SegmentSize: 1000, Extended: mo, Queues: func(int64) ([]QueueNext, int64) { return someQueues, 1200 }})
		q := &queueTaker{target: target, wanted: true}
		startSlave(t, n, target, SlaveOptions{Extended: so, Queues: q.queues()})
		src.append(randomBytes(2, 100))
		time.Sleep(time.Second)
		sameLog(t, src, target)
		if got, _ := q.taken(); len(got) != 1 || !reflect.DeepEqual(got[0], someQueues) {
			t.Errorf("heard %v", got)
		}
	})
}

// TestOlderPeersOfTheExtendedProtocolAreServed: a slave and a master of version 1, which know nothing of queues.
func TestOlderPeersOfTheExtendedProtocolAreServed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		mo, so := extendedPair(t)
		src := newMemLogAt(1000, 1000, 500, 1)
		startMaster(t, n, "master:1", src, MasterOptions{SegmentSize: 1000, Extended: mo, Queues: func(int64) ([]QueueNext, int64) { return someQueues, 1 << 40 }})
		nc := dialTLS(t, n, so)
		h := hello{version: 1, maxFrame: 1000}
		var err error
		if h.proof, err = proof(nc, so.Token, "slave"); err != nil {
			t.Fatal(err)
		}
		write(t, nc, h.encode())
		in, err := readHello(nc)
		if err != nil || in.version != 1 || in.status != statusOK || in.flags != 0 || in.a != 1000 {
			t.Fatalf("%+v, %v", in, err)
		}
		b := make([]byte, extHeaderSize)
		if _, err := io.ReadFull(nc, b); err != nil {
			t.Fatal(err)
		}
		if f, err := parseExtHeader(b, 1000); err != nil || f.phyOffset != 1000 || f.body != 500 {
			t.Errorf("the first frame: %+v, %v", f, err)
		}
		nc.NetConn().Close()
	})
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		mo, so := extendedPair(t)
		mo, err := mo.check(true)
		if err != nil {
			t.Fatal(err)
		}
		src, target := newMemLogAt(1000, 1000, 500, 1), newMemLog(1000)
		l := n.Listen("master:1")
		var served sync.WaitGroup
		served.Go(func() {
			raw, err := l.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			nc := tls.Server(raw, mo.TLS)
			in, err := readHello(nc)
			if err != nil || in.version != helloVersion || in.flags&helloQueues == 0 {
				t.Errorf("%+v, %v", in, err)
			}
			out := hello{version: 1, a: 1000, b: 1000, c: 1500}
			out.proof, _ = proof(nc, mo.Token, "master")
			write(t, nc, out.encode())
			s, _ := newExtSender(nc, 1000, time.Second, false)
			p, _, _ := src.Read(1000, 500)
			if err := s.send(1000, p); err != nil {
				t.Error(err)
			}
			io.Copy(io.Discard, nc)
			raw.Close()
		})
		q := &queueTaker{target: target, wanted: true}
		ev := &recorded{}
		_, stop := startSlave(t, n, target, SlaveOptions{Master: "master:1", Extended: so, Queues: q.queues(), Events: ev.events.events()})
		synctest.Wait()
		sameLog(t, src, target)
		if got, _ := q.taken(); len(got) > 0 || !ev.has(ErrQueuesUnknown) {
			t.Errorf("heard %v\n%s", got, ev)
		}
		stop()
		l.Close()
		served.Wait()
	})
}

func dialTLS(t *testing.T, n *memnet.Network, so *Extended) *tls.Conn {
	t.Helper()
	checked, err := so.check(false)
	if err != nil {
		t.Fatal(err)
	}
	checked.TLS.ServerName = "master"
	nc := tls.Client(rawDial(t, n), checked.TLS)
	if err := nc.HandshakeContext(context.Background()); err != nil {
		t.Fatal(err)
	}
	return nc
}

// TestAClassicSlaveBehindTheBeginningIsWarned: the classic protocol has no word for queues.
func TestAClassicSlaveBehindTheBeginningIsWarned(t *testing.T) {
	for _, min := range []int64{0, 4000} {
		bubble(t, func(t *testing.T) {
			n := memnet.New()
			src, target := newMemLogAt(1000, min, 500, 1), newMemLog(1000)
			startMaster(t, n, "master:1", src, MasterOptions{SegmentSize: 1000})
			ev := &recorded{}
			startSlave(t, n, target, SlaveOptions{Events: ev.events.events()})
			time.Sleep(time.Minute)
			sameLog(t, src, target)
			if got := ev.count("warning"); got != map[bool]int{true: 1}[min > 0] || min > 0 != ev.has(ErrQueuesUnknown) {
				t.Errorf("begins at %d: %d warnings\n%s", min, got, ev)
			}
		})
	}
}

// TestQueuesThatCannotBeAreRefused, without memory for what their length says.
func TestQueuesThatCannotBeAreRefused(t *testing.T) {
	good, err := encodeQueues(someQueues)
	if err != nil {
		t.Fatal(err)
	}
	put := func(at int, v uint32) func(b []byte) { return func(b []byte) { binary.BigEndian.PutUint32(b[at:], v) } }
	for _, c := range []struct {
		name   string
		change func(b []byte)
		reason error
	}{
		{"as they are", func([]byte) {}, nil},
		{"magic", put(0, 7), ErrMalformed},
		{"more than there are", put(posQueuesNumber, 4), ErrMalformed},
		{"fewer than there are", put(posQueuesNumber, 2), ErrMalformed},
		{"as many as can be", put(posQueuesNumber, 1<<32-1), ErrMalformed},
		{"no length", put(posQueuesLength, 0), ErrMalformed},
		{"a length beyond the limit", put(posQueuesLength, maxQueuesSize+1), ErrMalformed},
		{"a length of nothing but promises", put(posQueuesLength, maxQueuesSize), io.ErrUnexpectedEOF},
		{"a topic without a name", func(b []byte) { b[queuesHeaderSize+1] = 0 }, ErrMalformed},
		{"a topic that is longer than all", func(b []byte) { b[queuesHeaderSize] = 0xff }, ErrMalformed},
		{"a negative queue", func(b []byte) { b[queuesHeaderSize+3] = 0xff }, ErrMalformed},
		{"a negative queue offset", func(b []byte) { b[queuesHeaderSize+7] = 0xff }, ErrMalformed},
		{"queue offset 0", func(b []byte) { clear(b[queuesHeaderSize+7 : queuesHeaderSize+15]) }, ErrMalformed},
	} {
		b := bytes.Clone(good)
		c.change(b)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := readQueues(bytes.NewReader(seal(b)))
		runtime.ReadMemStats(&after)
		if !errors.Is(err, c.reason) || err == nil && !reflect.DeepEqual(got, someQueues) {
			t.Errorf("%s: %v, %v", c.name, got, err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
			t.Errorf("%s: %d bytes allocated", c.name, used)
		}
	}
	for i := range good {
		b := bytes.Clone(good)
		b[i] ^= 4
		if _, err := readQueues(bytes.NewReader(b)); err == nil {
			t.Errorf("byte %d may change", i)
		}
		if _, err := readQueues(bytes.NewReader(good[:i])); err == nil {
			t.Errorf("%d bytes are enough", i)
		}
	}
	if _, err := encodeQueues([]QueueNext{{"", 0, 1}}); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
	if _, err := encodeQueues(make([]QueueNext, 0)); err != nil {
		t.Error(err)
	}
}

func FuzzQueues(f *testing.F) {
	for _, list := range [][]QueueNext{nil, someQueues, someQueues[:1]} {
		b, err := encodeQueues(list)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) >= queuesHeaderSize+4 {
			binary.BigEndian.PutUint32(in[posQueuesLength:], uint32(len(in)-queuesHeaderSize))
			in = seal(in)
		}
		list, err := readQueues(bytes.NewReader(in))
		if err != nil {
			return
		}
		if out, err := encodeQueues(list); err != nil || !bytes.Equal(out, in) {
			t.Fatalf("%v encodes to other bytes: %v", list, err)
		}
	})
}
