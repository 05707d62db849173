package ha

import (
	"errors"
	"io"

	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/conformance/memnet"
)

// withGoodSlave runs f against a master on which a slave of ours works, and checks that the slave noticed nothing.
func withGoodSlave(t *testing.T, o MasterOptions, f func(t *testing.T, n *memnet.Network, m *Master, src *memLog, ev *recorded)) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		src, target := newMemLogAt(65536, 0, 100000, 1), newMemLog(65536)
		ev := &recorded{}
		o.SegmentSize, o.Events = 65536, ev.events.events()
		m := startMaster(t, n, "master:1", src, o)
		s, _ := startSlave(t, n, target, SlaveOptions{})
		time.Sleep(7 * time.Second)
		f(t, n, m, src, ev)
		start := time.Now()
		if err := m.WaitAcked(t.Context(), src.append(randomBytes(5, 1000))); err != nil || time.Since(start) > 0 {
			t.Errorf("a put after it all: %v after %v", err, time.Since(start))
		}
		sameLog(t, src, target)
		if st := s.Stats(); st.Connects != 1 || st.Failures != 0 {
			t.Errorf("the good slave noticed: %+v", st)
		}
		time.Sleep(2 * defaultHousekeeping)
		synctest.Wait()
		if got := m.Stats(); len(got.Connections) != 1 {
			t.Errorf("%d connections are left: %+v", len(got.Connections), got.Connections)
		}
		m.Close()
		if src.held.Load() != 0 {
			t.Errorf("%d views are not released", src.held.Load())
		}
	})
}

func TestHostileReportsNeverCount(t *testing.T) {
	for name, peer := range map[string]struct {
		send   []byte
		reason error
	}{
		"far beyond the end":    {report(1 << 40), ErrSlaveAhead},
		"one beyond the end":    {report(100001), ErrSlaveAhead},
		"largest":               {report(1<<63 - 1), ErrSlaveAhead},
		"smallest":              {report(-1 << 63), ErrNegativeOffset},
		"-1":                    {report(-1), ErrNegativeOffset},
		"below the first byte":  {report(10), ErrDeletedOnMaster},
		"HTTP":                  {[]byte("GET / HTTP/1.1\r\nHost: master\r\n\r\n"), ErrSlaveAhead},
		"beyond what was sent":  {append(report(100000), report(100001)...), ErrSlaveAhead},
		"zeros, then a far end": {append(report(0), report(1<<50)...), ErrSlaveAhead},
	} {
		t.Run(name, func(t *testing.T) {
			withGoodSlave(t, MasterOptions{}, func(t *testing.T, n *memnet.Network, m *Master, src *memLog, ev *recorded) {
				src.expire(65536)
				conn := rawDial(t, n)
				conn.Write(peer.send)
				if got := readFor(conn, time.Second); got != "[closed]" {
					t.Errorf("answered %s", got)
				}
				synctest.Wait()
				if m.MaxAck() != 100000 || m.Acked(100001) || !ev.has(peer.reason) || m.Stats().Refused != 1 {
					t.Errorf("acked up to %d, refused %d\n%s", m.MaxAck(), m.Stats().Refused, ev)
				}
			})
		})
	}
}

// A peer that began well must not acknowledge what it was not sent.
func TestAnAcknowledgementBeyondWhatWasSentNeverCounts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		src := newMemLogAt(1<<20, 0, 1<<20, 1)
		ev := &recorded{}
		m := startMaster(t, n, "master:1", src, MasterOptions{SegmentSize: 1 << 20, Events: ev.events.events()})
		conn := rawDial(t, n)
		write(t, conn, report(1))
		synctest.Wait() // the pipe holds 256 KiB, which were sent, and no more
		write(t, conn, report(2))
		synctest.Wait()
		write(t, conn, report(1<<20))
		synctest.Wait()
		if m.MaxAck() != 2 || !ev.has(ErrAckBeyondSent) {
			t.Errorf("acked up to %d\n%s", m.MaxAck(), ev)
		}
	})
}

func TestRandomBytesHurtNobody(t *testing.T) {
	withGoodSlave(t, MasterOptions{}, func(t *testing.T, n *memnet.Network, m *Master, src *memLog, ev *recorded) {
		for seed := range effort.Seeds(t, 50, 1000) {
			rng := rand.New(rand.NewPCG(seed, 4))
			conn := rawDial(t, n)
			conn.Write(randomBytes(seed, rng.IntN(3000)))
			time.Sleep(time.Duration(rng.IntN(3)) * time.Second)
			if rng.IntN(2) == 0 {
				conn.Close()
			}
		}
		if m.MaxAck() > 100000 {
			t.Errorf("acked up to %d", m.MaxAck())
		}
	})
}

// Peers that never speak, speak a byte a second, or take a byte a second, are gone after the housekeeping interval.
func TestSilentAndSlowPeersAreDropped(t *testing.T) {
	withGoodSlave(t, MasterOptions{}, func(t *testing.T, n *memnet.Network, m *Master, src *memLog, ev *recorded) {
		silent := rawDial(t, n)
		half := rawDial(t, n)
		write(t, half, report(100000)[:5])
		greedy := rawDial(t, n) // wants all, takes a byte a second, and sends heartbeats
		write(t, greedy, report(0))
		start := time.Now()
		for range 70 {
			src.append(randomBytes(1, 10000))
			time.Sleep(time.Second)
			greedy.Write(report(65536))
			greedy.Read(make([]byte, 1))
		}
		if got := len(m.Stats().Connections); got != 1 {
			t.Errorf("%d connections %v later", got, time.Since(start))
		}
		if !ev.has(ErrSilent) || !ev.has(ErrSlow) {
			t.Errorf("events:\n%s", ev)
		}
		_ = silent
	})
	// A byte a second that completes a report each 8 s is a slave's right; it must be true all the same.
	withGoodSlave(t, MasterOptions{}, func(t *testing.T, n *memnet.Network, m *Master, src *memLog, ev *recorded) {
		conn := rawDial(t, n)
		go io.Copy(io.Discard, conn)
		for range 3 {
			for _, b := range report(65536) {
				time.Sleep(time.Second)
				if _, err := conn.Write([]byte{b}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := len(m.Stats().Connections); got != 2 {
			t.Errorf("%d connections", got)
		}
	})
}

// Thousands of connections cost the places that the limit gives, no memory once those are taken, and a slave that comes meanwhile gets in.
func TestThousandsOfConnections(t *testing.T) {
	count := effort.N(1500, 10000)
	withGoodSlave(t, MasterOptions{}, func(t *testing.T, n *memnet.Network, m *Master, src *memLog, ev *recorded) {
		goroutines := runtime.NumGoroutine()
		heap := func() int64 {
			synctest.Wait()
			runtime.GC()
			runtime.GC() // a pool gives back what it holds at the second
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		for range 200 {
			rawDial(t, n)
		}
		before := heap()
		for range count - 200 { // refused, and held by nobody
			conn, err := n.Dial(t.Context(), "", "master:1")
			if err != nil {
				t.Fatal(err)
			}
			if k, err := conn.Read(make([]byte, 1)); err == nil {
				t.Fatalf("%d bytes to a connection above the limit", k)
			}
			conn.Close()
		}
		more := heap() - before
		st := m.Stats()
		if len(st.Connections) != 128 || st.Refused < int64(count-128) {
			t.Errorf("%d connections, %d refused", len(st.Connections), st.Refused)
		}
		if got := ev.count("refused"); got > 2 {
			t.Errorf("%d events of the same kind within a second", got)
		}
		if got := runtime.NumGoroutine() - goroutines; got > 3*128 {
			t.Errorf("%d goroutines more", got)
		}
		if more > 512<<10 {
			t.Errorf("%d bytes more for %d connections that were refused", more, count-200)
		}
		time.Sleep(firstReportAfter + time.Second) // now those that say nothing make room
		late := newMemLog(65536)
		startLate, stop := startSlave(t, n, late, SlaveOptions{})
		synctest.Wait()
		if startLate.Stats().State != Following || late.MaxPhyOffset() != src.MaxPhyOffset() {
			t.Errorf("a slave that comes later: %+v", startLate.Stats())
		}
		stop()
	})
}

// A slave survives every master: garbage, huge and negative lengths, negative offsets, frames that do not continue the log. It never appends a byte of it, and never spins.
func TestHostileMasters(t *testing.T) {
	header := func(off uint64, n uint32) []byte {
		b := make([]byte, frameHeaderSize)
		putFrameHeader(b, int64(off), int(n))
		return b
	}
	for name, bytes := range map[string][]byte{
		"huge length":            header(5000, 1<<31-1),
		"just too long":          header(5000, maxFrame+1),
		"negative length":        header(5000, 0xffffffff),
		"negative offset":        header(1<<63, 0),
		"overflowing":            header(1<<63-1, 100),
		"heartbeat elsewhere":    header(4999, 0),
		"data elsewhere":         append(header(5001, 4), 1, 2, 3, 4),
		"data from the start":    append(header(0, 4), 1, 2, 3, 4),
		"text":                   []byte("HTTP/1.1 400 Bad Request\r\n\r\n"),
		"nothing, and the end":   nil,
		"half a header, the end": header(5000, 10)[:7],
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := memnet.New()
				l := n.Listen("master:1")
				accepted := 0
				t.Cleanup(func() { l.Close() })
				go func() {
					for {
						c, err := l.Accept()
						if err != nil {
							return
						}
						accepted++
						c.Write(bytes)
						c.Close()
					}
				}()
				target := newMemLogAt(65536, 0, 5000, 1)
				s, _ := startSlave(t, n, target, SlaveOptions{})
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				time.Sleep(time.Minute)
				runtime.ReadMemStats(&after)
				if target.MaxPhyOffset() != 5000 {
					t.Errorf("the slave's log ends at %d", target.MaxPhyOffset())
				}
				if st := s.Stats(); st.LastError == nil || st.State != BackingOff || accepted > 30 || int64(accepted) != st.Failures {
					t.Errorf("%d connections in a minute, %+v", accepted, st)
				}
				if got := after.TotalAlloc - before.TotalAlloc; got > uint64(accepted)*(1<<20) {
					t.Errorf("%d bytes allocated", got)
				}
			})
		})
	}
}

// failingListener fails to accept in the ways a busy machine does, then for good.
type failingListener struct {
	net.Listener
	errs []error
}

func (l *failingListener) Accept() (net.Conn, error) {
	if len(l.errs) == 0 {
		return l.Listener.Accept()
	}
	err := l.errs[0]
	l.errs = l.errs[1:]
	return nil, err
}

func TestAcceptSurvivesAMachineWithoutDescriptors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		ev := &recorded{}
		m, err := NewMaster(newMemLog(1000), MasterOptions{Events: ev.events.events()})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		emfile := &net.OpError{Op: "accept", Err: os.NewSyscallError("accept", syscall.EMFILE)}
		l := &failingListener{n.Listen("master:1"), []error{emfile, emfile, emfile}}
		served := make(chan error)
		go func() { served <- m.Serve(l) }()
		time.Sleep(time.Second)
		rawDial(t, n)
		synctest.Wait()
		if ev.count("warning") != 3 || len(m.Stats().Connections) != 1 {
			t.Errorf("%d connections\n%s", len(m.Stats().Connections), ev)
		}
		l.Close()
		if err := <-served; !errors.Is(err, net.ErrClosed) {
			t.Errorf("a listener that others closed: %v", err)
		}
	})
}

func TestClassicListenerBindsLoopbackUnlessToldOtherwise(t *testing.T) {
	for address, world := range map[string]bool{":0": false, "localhost:0": false, "0.0.0.0:0": true} {
		l, err := ListenClassic(address)
		if err != nil {
			t.Fatal(err)
		}
		ev := &recorded{}
		events := ev.events.events()
		connected := make(chan string, 1)
		events.Connected = func(peer string) { connected <- peer }
		m, err := NewMaster(newMemLog(1000), MasterOptions{Events: events})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() { done <- m.Serve(l) }()
		c, err := net.Dial("tcp", "127.0.0.1:"+l.Addr().String()[strings.LastIndex(l.Addr().String(), ":")+1:])
		if err != nil {
			t.Fatal(err)
		}
		<-connected
		m.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
		c.Close()
		if l.Addr().(*net.TCPAddr).IP.IsLoopback() == world || ev.has(ErrOpenToWorld) != world {
			t.Errorf("%q listens to %v, warned: %v", address, l.Addr(), ev.has(ErrOpenToWorld))
		}
	}
	if _, err := ListenClassic("no port"); err == nil {
		t.Error("an address without a port")
	}
	if _, err := ListenClassic("256.0.0.1:99999"); err == nil {
		t.Error("an impossible address")
	}
}
