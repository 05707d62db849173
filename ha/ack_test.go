package ha

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mqstore/mqstore/conformance/memnet"
)

// putStatus is what a store's handleHA answers (spec/ha-protocol.md 6.9) for a SYNC_MASTER.
func putStatus(m *Master, end int64, wait bool) (status string, took time.Duration) {
	start := time.Now()
	switch {
	case !wait:
		return "PUT_OK", 0
	case !m.SlaveOK(end):
		return "SLAVE_NOT_AVAILABLE", time.Since(start)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if err := m.WaitAcked(ctx, end); err != nil {
		return "FLUSH_SLAVE_TIMEOUT", time.Since(start)
	}
	return "PUT_OK", time.Since(start)
}

func TestStatusesOfPutsAreTheSpecs(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	for _, c := range []struct {
		name    string
		latency time.Duration
		peers   []int64 // reports of peers, counted from the end of the put back; 1 = none
		limit   int64   // 0 = 256 MiB
		hold    bool    // acknowledgements do not arrive
		slave   bool    // one of ours
		noWait  bool
		status  string
		took    time.Duration
	}{
		{name: "no slave", status: "SLAVE_NOT_AVAILABLE"},
		{name: "connected, has not reported", peers: []int64{1}, status: "FLUSH_SLAVE_TIMEOUT", took: 3 * s},
		{name: "stalled slave", slave: true, hold: true, status: "FLUSH_SLAVE_TIMEOUT", took: 3 * s},
		{name: "near slave", slave: true, status: "PUT_OK"},
		{name: "slow slave", slave: true, latency: 1 * s, status: "PUT_OK", took: 2 * s},
		{name: "too slow slave", slave: true, latency: 2 * s, status: "FLUSH_SLAVE_TIMEOUT", took: 3 * s},
		{name: "slave at the limit behind", peers: []int64{-4096}, limit: 4096, status: "SLAVE_NOT_AVAILABLE"},
		{name: "slave less than the limit behind", peers: []int64{-4095}, limit: 4096, status: "FLUSH_SLAVE_TIMEOUT", took: 3 * s},
		{name: "far slave and near silent slave", peers: []int64{-4096, -100}, limit: 4096, status: "FLUSH_SLAVE_TIMEOUT", took: 3 * s},
		{name: "no slave, WAIT=false", noWait: true, status: "PUT_OK"},
		{name: "stalled slave, WAIT=false", slave: true, hold: true, noWait: true, status: "PUT_OK"},
		{name: "two slaves, one dead", slave: true, peers: []int64{-5000}, status: "PUT_OK"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := memnet.New()
				n.SetLatency(c.latency)
				src := newMemLogAt(65536, 0, 10000, 3)
				m := startMaster(t, n, "master:1", src, MasterOptions{SegmentSize: 65536, FallBehindMax: c.limit})
				if c.slave {
					target := newMemLog(65536)
					startSlave(t, n, target, SlaveOptions{})
					time.Sleep(10 * c.latency)
					synctest.Wait()
					sameLog(t, src, target)
					if c.hold {
						n.Conns()[0].Hold(true)
					}
				}
				for _, behind := range c.peers {
					conn := rawDial(t, n)
					if behind <= 0 {
						write(t, conn, report(src.MaxPhyOffset()+100+behind))
					}
				}
				synctest.Wait()
				end := src.append(make([]byte, 100))
				status, took := putStatus(m, end, !c.noWait)
				if status != c.status || took < c.took || took > c.took+5*ms {
					t.Errorf("%s after %v, want %s after %v; %+v", status, took, c.status, c.took, m.Stats())
				}
			})
		})
	}
}

// One slave's death changes nothing for puts that the other acknowledges, at that moment and after the housekeeping has noticed.
func TestTwoSlavesOfWhichOneDies(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		src := newMemLog(65536)
		m := startMaster(t, n, "master:1", src, MasterOptions{SegmentSize: 65536})
		a, b := newMemLog(65536), newMemLog(65536)
		startSlave(t, n, a, SlaveOptions{})
		synctest.Wait()
		_, stop := startSlave(t, n, b, SlaveOptions{})
		put := func() {
			t.Helper()
			if status, took := putStatus(m, src.append(randomBytes(uint64(src.MaxPhyOffset()), 700)), true); status != "PUT_OK" || took > 0 {
				t.Errorf("%s after %v", status, took)
			}
			time.Sleep(time.Second)
		}
		for range 3 {
			put()
		}
		n.Conns()[1].Hold(true) // half-open: nothing of it arrives any more
		n.Conns()[1].Other().Hold(true)
		for range 30 {
			put()
		}
		if got := len(m.Stats().Connections); got < 1 || got > 2 {
			t.Errorf("%d connections", got)
		}
		stop()
		put()
		sameLog(t, src, a)
	})
}

func TestWaitersAreNotSerialised(t *testing.T) {
	const latency, waiters, rounds = 10 * time.Millisecond, 64, 10
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		n.SetLatency(latency)
		src := newMemLog(1 << 20)
		m := startMaster(t, n, "master:1", src, MasterOptions{SegmentSize: 1 << 20})
		startSlave(t, n, newMemLog(1<<20), SlaveOptions{})
		time.Sleep(time.Second)
		start := time.Now()
		var all sync.WaitGroup
		for range waiters {
			all.Go(func() {
				for range rounds {
					if err := m.WaitAcked(t.Context(), src.append(make([]byte, 50))); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if took := time.Since(start); took > rounds*2*latency*10/7 { // 70 % of waiters / round trip
			t.Errorf("%d waiters, %d rounds: %v with a round trip of %v", waiters, rounds, took, 2*latency)
		}
	})
}

func TestAStuckWaiterDelaysNoOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		src := newMemLogAt(65536, 0, 1000, 1)
		m := startMaster(t, n, "master:1", src, MasterOptions{SegmentSize: 65536})
		conn := rawDial(t, n)
		write(t, conn, report(100))
		synctest.Wait()
		start := time.Now()
		type end struct {
			phyOffset int64
			err       error
			took      time.Duration
		}
		ends := make(chan end, 3)
		for _, w := range []struct {
			phyOffset int64
			wait      time.Duration
		}{{1 << 40, 3 * time.Second}, {900, 3 * time.Second}, {500, 3 * time.Second}} {
			go func() {
				ctx, cancel := context.WithTimeoutCause(context.Background(), w.wait, fmt.Errorf("slave timeout"))
				defer cancel()
				err := m.WaitAcked(ctx, w.phyOffset)
				ends <- end{w.phyOffset, err, time.Since(start)}
			}()
			synctest.Wait()
		}
		time.Sleep(time.Second)
		write(t, conn, report(600))
		if e := <-ends; e.phyOffset != 500 || e.err != nil || e.took != time.Second {
			t.Errorf("%+v", e)
		}
		time.Sleep(time.Second)
		write(t, conn, report(900))
		if e := <-ends; e.phyOffset != 900 || e.err != nil || e.took != 2*time.Second {
			t.Errorf("%+v", e)
		}
		if e := <-ends; e.phyOffset != 1<<40 || e.err == nil || e.err.Error() != "slave timeout" || e.took != 3*time.Second {
			t.Errorf("%+v", e)
		}
	})
}

func TestWaitersAreServedInAckOrderAndCloseWakesTheRest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		src := newMemLogAt(65536, 0, 5000, 1)
		m, err := NewMaster(src, MasterOptions{})
		if err != nil {
			t.Fatal(err)
		}
		a := m.acks.add("")
		served := make(chan int64, 1024)
		closed := make(chan error, 1024)
		for i := range 1024 {
			go func() {
				off := int64((i*37)%1024 + 1)
				if err := m.WaitAcked(context.Background(), off); err == nil {
					served <- off
				} else {
					closed <- err
				}
			}()
		}
		synctest.Wait()
		for ack := int64(100); ack <= 1000; ack += 100 {
			m.acks.set(a, ack)
			synctest.Wait()
			for range 100 {
				if off := <-served; off > ack || off <= ack-100 {
					t.Fatalf("waiter for %d served by ack %d", off, ack)
				}
			}
			if len(served) != 0 {
				t.Fatalf("served beyond ack %d", ack)
			}
		}
		m.Close()
		for range 24 {
			if err := <-closed; !errors.Is(err, ErrClosed) {
				t.Fatal(err)
			}
		}
		if err := m.WaitAcked(context.Background(), 5000); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		if err := m.WaitAcked(context.Background(), 1000); err != nil {
			t.Errorf("an acknowledged offset after Close: %v", err)
		}
	})
}

func TestWaitAckedOfAnAcknowledgedOffsetDoesNotAllocate(t *testing.T) {
	m, err := NewMaster(newMemLogAt(65536, 0, 5000, 1), MasterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	m.acks.set(m.acks.add(""), 5000)
	if n := testing.AllocsPerRun(100, func() { m.WaitAcked(t.Context(), 5000) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Who shows messages to consumers is woken before the puts that waited for the same acknowledgement: a put that is answered has nothing of that before it, on a processor that runs first what was woken last.
func TestAPutIsAnsweredAfterItsMessagesWereConfirmed(t *testing.T) {
	src := newMemLogAt(65536, 0, 5000, 1)
	m, err := NewMaster(src, MasterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	a := m.acks.add("")
	m.acks.set(a, 1)
	var confirmed []<-chan struct{} // so many that closing them takes longer than waking somebody
	for past := range int64(2000) {
		confirmed = append(confirmed, m.ConfirmedPast(1, 1+past))
	}
	early := make(chan int, 1)
	go func() {
		if err := m.WaitAcked(context.Background(), 5000); err != nil {
			t.Error(err)
		}
		n := 0
		for _, ch := range confirmed {
			select {
			case <-ch:
			default:
				n++
			}
		}
		early <- n
	}()
	for waiting := false; !waiting; runtime.Gosched() {
		m.acks.mu.Lock()
		waiting = len(m.acks.mu.waits) > 0
		m.acks.mu.Unlock()
	}
	m.acks.set(a, 5000)
	if n := <-early; n != 0 {
		t.Errorf("%d of %d were still to be woken when the put was answered", n, len(confirmed))
	}
}

// The confirm offset is what puts wait for: what enough slaves hold; the log's end while there are not enough of them near.
func TestConfirmPhyOffsetIsWhatPutsWaitFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		src := newMemLogAt(65536, 0, 5000, 1)
		m, err := NewMaster(src, MasterOptions{FallBehindMax: 1000})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		want := func(one, two int64) {
			t.Helper()
			if a, b := m.ConfirmPhyOffset(1), m.ConfirmPhyOffset(2); a != one || b != two {
				t.Errorf("confirm offsets %d, %d, want %d, %d", a, b, one, two)
			}
		}
		open := func(ch <-chan struct{}) bool {
			synctest.Wait()
			select {
			case <-ch:
				return false
			default:
				return true
			}
		}
		want(5000, 5000)
		a := m.acks.add("")
		want(5000, 5000) // it has not reported
		m.acks.set(a, 4000)
		want(5000, 5000) // it is 1000 behind
		m.acks.set(a, 4500)
		want(4500, 5000)
		first, second := m.ConfirmedPast(1, 4500), m.ConfirmedPast(1, 4900)
		if !open(first) || !open(second) || m.ConfirmedPast(1, 4500) != first {
			t.Error("confirmed too early, or not shared")
		}
		m.acks.set(a, 4800)
		if open(first) || !open(second) {
			t.Error("4800 confirms what is past 4500, not past 4900")
		}
		b := m.acks.add("")
		m.acks.set(b, 4700)
		want(4800, 4700)
		m.acks.remove(a)
		want(4800, 5000) // a holds it, wherever it is
		m.acks.remove(b)
		if open(second) {
			t.Error("without slaves all is visible")
		}
		want(5000, 5000)
		grown := m.ConfirmedPast(1, 5000)
		if !open(grown) {
			t.Error("nothing is past the log's end")
		}
		src.append(make([]byte, 10))
		if open(grown) {
			t.Error("the log has grown")
		}
		m.acks.set(m.acks.add(""), 5000)
		far := m.ConfirmedPast(1, 5000)
		src.append(make([]byte, 2000)) // the slave is too far behind now
		if m.SlaveOK(src.MaxPhyOffset()) || open(far) {
			t.Error("a put that does not wait makes what it wrote visible")
		}
		if got := m.SlaveFallBehind(); got != 2010 {
			t.Errorf("%d bytes behind", got)
		}
	})
}

// A connection that says nothing, which anybody can make, hides no message.
func TestSilentConnectionsHideNothing(t *testing.T) {
	m, err := NewMaster(newMemLogAt(65536, 0, 5000, 1), MasterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	a := m.acks.add("")
	if got := m.ConfirmPhyOffset(1); got != 5000 || !m.SlaveOK(5000) {
		t.Errorf("confirmed up to %d, a put waits: %v", got, m.SlaveOK(5000))
	}
	m.acks.set(a, 10)
	if got := m.ConfirmPhyOffset(1); got != 10 {
		t.Errorf("confirmed up to %d", got)
	}
}

func TestRequiredAcksCountSlaves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		src := newMemLog(65536)
		n := memnet.New()
		m := startMaster(t, n, "master:1", src, MasterOptions{SegmentSize: 65536, RequiredAcks: 2})
		startSlave(t, n, newMemLog(65536), SlaveOptions{})
		synctest.Wait()
		if status, _ := putStatus(m, src.append(make([]byte, 10)), true); status != "SLAVE_NOT_AVAILABLE" {
			t.Error(status)
		}
		_, stop := startSlave(t, n, newMemLog(65536), SlaveOptions{})
		synctest.Wait()
		if status, _ := putStatus(m, src.append(make([]byte, 10)), true); status != "PUT_OK" {
			t.Error(status)
		}
		if !m.Acked(20) || m.MaxAck() != 20 {
			t.Errorf("acked up to %d", m.MaxAck())
		}
		stop()
		synctest.Wait()
		if status, _ := putStatus(m, src.append(make([]byte, 10)), true); status != "SLAVE_NOT_AVAILABLE" {
			t.Error(status)
		}
	})
}

// A slave that comes back while its dead connection still stands counts once: what it acknowledged on that says nothing of a second slave.
func TestASlaveThatConnectsAnewCountsOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		src := newMemLogAt(65536, 0, 1000, 1)
		n := memnet.New()
		m := startMaster(t, n, "master:1", src, MasterOptions{SegmentSize: 65536, RequiredAcks: 2})
		dial := func(from string) net.Conn {
			c, err := n.Dialer(from)(t.Context(), "tcp", "master:1")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			go io.Copy(io.Discard, c)
			return c
		}
		says := func(c net.Conn, phyOffset int64, acked, not int64) {
			t.Helper()
			write(t, c, report(phyOffset))
			synctest.Wait()
			if !m.Acked(acked) || m.Acked(not) {
				t.Errorf("after a report of %d: acked up to %d: %v, up to %d: %v", phyOffset, acked, m.Acked(acked), not, m.Acked(not))
			}
		}
		dead, other := dial("one:1"), dial("two:1")
		says(dead, 1000, 0, 1)
		says(other, 600, 0, 1) // it has not shown yet that it follows
		says(other, 610, 610, 611)
		again := dial("one:1") // its machine was switched off and on
		says(again, 1000, 610, 611)
		says(other, 700, 700, 701)
		says(other, 1000, 1000, 1001)

		// Two slaves on one host: the one that stays is counted again as soon as it reports.
		src.append(make([]byte, 1000))
		third := dial("two:2")
		synctest.Wait()
		says(other, 1500, 1000, 1001)
		says(third, 2000, 1000, 1001) // perhaps it is what other was
		says(other, 1600, 1600, 1601)
		says(again, 1900, 1900, 1901)
	})
}

// TestAFirstReportCountsOnceItsSlaveHasFollowed: on the classic protocol a slave whose log is not the master's is found out by the first bytes that follow, so what it says before it has taken some acknowledges nothing. It is
// near all the while, and when there is nothing to send its word must do, as must that of a slave on the extended protocol, whose bytes were compared.
func TestAFirstReportCountsOnceItsSlaveHasFollowed(t *testing.T) {
	for _, c := range []struct {
		name    string
		reports []int64
		acked   []int64
	}{
		{"one that follows", []int64{600, 601}, []int64{0, 601}},
		{"one that takes nothing", []int64{600, 600, 600}, []int64{0, 0, 0}},
		{"one that takes its time", []int64{600, 600, 900}, []int64{0, 0, 900}},
		{"one that goes back", []int64{600, 599, 600, 1000}, []int64{0, 0, 0, 1000}},
		{"one that has all", []int64{1000}, []int64{1000}},
		{"an empty one", []int64{0, 5}, []int64{0, 5}},
	} {
		bubble(t, func(t *testing.T) {
			n := memnet.New()
			m := startMaster(t, n, "master:1", newMemLogAt(65536, 0, 1000, 1), MasterOptions{SegmentSize: 65536, FallBehindMax: 700})
			conn := rawDial(t, n)
			go io.Copy(io.Discard, conn)
			for i, v := range c.reports {
				write(t, conn, report(v))
				synctest.Wait()
				if m.MaxAck() != c.acked[i] || !m.Acked(c.acked[i]) || m.Acked(c.acked[i]+1) {
					t.Errorf("%s: after its report of %d acked is %d", c.name, v, m.MaxAck())
				}
				if near := m.SlaveOK(1000); near != (v >= 599) || m.SlaveFallBehind() != 1000-max(c.reports[0], v) {
					t.Errorf("%s: after its report of %d near %v, behind %d", c.name, v, near, m.SlaveFallBehind())
				}
				if st := m.Stats().Connections; len(st) != 1 || !st[0].Reported {
					t.Errorf("%s: %+v", c.name, st)
				}
			}
			conn.Close()
		})
	}
	bubble(t, func(t *testing.T) { // one that is held up before it takes a byte
		n := memnet.New()
		mo, so := extendedPair(t)
		m := startMaster(t, n, "master:1", newMemLogAt(65536, 0, 1000, 1), MasterOptions{SegmentSize: 65536, Extended: mo})
		target := newMemLogAt(65536, 0, 600, 1)
		target.fail(errors.New("no room"))
		startSlave(t, n, target, SlaveOptions{Extended: so})
		synctest.Wait()
		if m.MaxAck() != 600 {
			t.Errorf("acked up to %d", m.MaxAck())
		}
	})
}
