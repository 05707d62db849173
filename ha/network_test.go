package ha

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/conformance/memnet"
)

// Wherever a connection is cut, in either direction, the slave goes on from there and ends with the same log.
func TestConnectionCutAtEveryByte(t *testing.T) {
	for _, down := range []bool{true, false} {
		name := "slave to master"
		if down {
			name = "master to slave"
		}
		t.Run(name, func(t *testing.T) {
			last := int64(40)
			if down {
				last = 4 * (frameHeaderSize + 16)
			}
			for cut := int64(0); cut <= last; cut++ {
				bubble(t, func(t *testing.T) {
					n := memnet.New()
					src, target := newMemLogAt(64, 64, 0, 1), newMemLog(64)
					n.OnDial(func(dial int, client, server *memnet.Conn) {
						if from := client; dial == 1 {
							if down {
								from = server
							}
							from.CutAfter(cut)
						}
					})
					startMaster(t, n, "master:1", src, MasterOptions{SegmentSize: 64, BatchSize: 16, WriteSize: 16})
					src.append(randomBytes(1, 20))
					startSlave(t, n, target, SlaveOptions{})
					for range 6 {
						time.Sleep(time.Second)
						src.append(randomBytes(uint64(cut), 30))
					}
					time.Sleep(30 * time.Second)
					sameLog(t, src, target)
					if src.held.Load() != 0 {
						t.Errorf("cut at %d: %d views are not released", cut, src.held.Load())
					}
				})
			}
		})
	}
}

// On a bad network (1 % of writes reset the connection, reads return what they like, 200 ms delay, a partition of 30 s, a slave and a master that restart) what was
// acknowledged is on the slave at that moment, and in the end the logs are equal.
func TestReplicationOnABadNetwork(t *testing.T) {
	for seed := range effort.Seeds(t, 20, 300) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Logf("seed %d", seed)
			bubble(t, func(t *testing.T) { badNetwork(t, seed) })
		})
	}
}

func badNetwork(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 3))
	n := memnet.New()
	n.Seed(seed, 0.01)
	if rng.IntN(2) == 0 {
		n.SetLatency(200 * time.Millisecond)
	}
	segment := []int64{1000, 65536, 1 << 20}[rng.IntN(3)]
	src, target := newMemLog(segment), newMemLog(segment)
	mo := MasterOptions{SegmentSize: segment, BatchSize: 1 + rng.IntN(40000)}
	so := SlaveOptions{ReadBuffer: 4096 << rng.IntN(7), Jitter: rand.New(rand.NewPCG(seed, 5)).Float64}
	if extended := rng.IntN(4) == 0; extended {
		mo.Extended, so.Extended = extendedPair(t)
		so.Extended.Compress = rng.IntN(2) == 0
	}
	if rng.IntN(4) == 0 {
		so.ReportFlushed, so.FlushedPast = true, target.FlushedPast
		target.mu.lazyFlush = true
		flushing, stop := context.WithCancel(t.Context())
		defer stop()
		go func() {
			for flushing.Err() == nil {
				select {
				case <-flushing.Done():
				case <-time.After(300 * time.Millisecond):
					target.flush()
				}
			}
		}()
	}
	m := startMaster(t, n, "master:1", src, mo)
	_, stop := startSlave(t, n, target, so)
	acked := 0
	for range 60 {
		switch rng.IntN(20) {
		case 0:
			n.Part(30 * time.Second)
		case 1:
			stop()
			_, stop = startSlave(t, n, target, so)
		case 2:
			m.Close()
			synctest.Wait()
			m = startMaster(t, n, "master:1", src, mo)
		}
		var end int64
		for range 1 + rng.IntN(20) {
			end = src.append(randomBytes(rng.Uint64(), 1+rng.IntN(3000)))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		err := m.WaitAcked(ctx, end)
		cancel()
		if held := target.MaxPhyOffset(); err == nil && held < end {
			t.Fatalf("acknowledged up to %d, the slave holds %d", end, held)
		} else if held := target.FlushedPhyOffset(); err == nil && so.ReportFlushed && held < end {
			t.Fatalf("acknowledged up to %d, on the slave's disk is %d", end, held)
		}
		if err == nil {
			acked++
		}
		time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond)
	}
	n.Calm()
	deadline := time.Now().Add(10 * time.Minute)
	for target.MaxPhyOffset() != src.MaxPhyOffset() && time.Now().Before(deadline) {
		select {
		case <-target.Grown(src.MaxPhyOffset() - 1):
		case <-time.After(time.Minute):
		}
	}
	sameLog(t, src, target)
	end := src.append(randomBytes(seed, 100))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	if err := m.WaitAcked(ctx, end); err != nil {
		t.Errorf("nothing is acknowledged on a network that is calm again (%d were before): %v", acked, err)
	}
	cancel()
	m.Close()
	if src.held.Load() != 0 {
		t.Errorf("%d views are not released", src.held.Load())
	}
}

// Many masters' and slaves' lives in one process leave nothing behind (goleak), however they end.
func TestStopIsAtOnceInEveryState(t *testing.T) {
	for _, c := range []struct {
		name  string
		setup func(t *testing.T, n *memnet.Network) SlaveOptions
		state State
	}{
		{"idle", func(*testing.T, *memnet.Network) SlaveOptions { return SlaveOptions{} }, Idle},
		{"dialing", func(t *testing.T, n *memnet.Network) SlaveOptions {
			n.Part(time.Hour)
			return SlaveOptions{Master: "master:1"}
		}, Connecting},
		{"backing off", func(*testing.T, *memnet.Network) SlaveOptions {
			return SlaveOptions{Master: "master:1", RetryMin: time.Hour, RetryMax: time.Hour}
		}, BackingOff},
		{"silent master", func(t *testing.T, n *memnet.Network) SlaveOptions {
			n.Listen("master:1")
			return SlaveOptions{Master: "master:1"}
		}, Following},
		{"greeting a silent master", func(t *testing.T, n *memnet.Network) SlaveOptions {
			n.Listen("master:1")
			_, e := extendedPair(t)
			return SlaveOptions{Master: "master:1", Extended: e}
		}, Connecting},
		{"following", func(t *testing.T, n *memnet.Network) SlaveOptions {
			startMaster(t, n, "master:1", newMemLogAt(65536, 0, 1<<20, 1), MasterOptions{})
			return SlaveOptions{Master: "master:1"}
		}, Following},
		{"flushing", func(t *testing.T, n *memnet.Network) SlaveOptions {
			return SlaveOptions{Master: "master:1", ReportFlushed: true}
		}, Connecting},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := memnet.New()
				o := c.setup(t, n)
				o.Dial = n.Dial
				target := newMemLog(65536)
				if o.ReportFlushed {
					target.mu.lazyFlush = true
					target.append([]byte{1})
					o.FlushedPast = target.FlushedPast
				}
				s, err := NewSlave(target, o)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				var ran sync.WaitGroup
				ran.Go(func() {
					if err := s.Run(ctx); err != errTestOver {
						t.Errorf("Run: %v", err)
					}
				})
				time.Sleep(time.Second)
				if got := s.Stats().State; got != c.state {
					t.Errorf("%v, want %v", got, c.state)
				}
				if err := s.Run(ctx); err == nil {
					t.Error("two Runs at a time")
				}
				start := time.Now()
				cancel(errTestOver)
				ran.Wait()
				if took := time.Since(start); took > 0 {
					t.Errorf("stopped after %v", took)
				}
				if got := s.Stats().State; got != Stopped {
					t.Error(got)
				}
			})
		})
	}
}

var errTestOver = fmt.Errorf("over")

// A new address takes effect at once, whatever the slave is doing, and "" makes it idle.
func TestSetMasterAtRunTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		a, b := newMemLogAt(65536, 0, 1000, 1), newMemLog(65536)
		b.append(a.mu.b)
		b.append(randomBytes(5, 500))
		startMaster(t, n, "a:1", a, MasterOptions{SegmentSize: 65536})
		startMaster(t, n, "b:1", b, MasterOptions{SegmentSize: 65536})
		target := newMemLog(65536)
		s, _ := startSlave(t, n, target, SlaveOptions{Master: "nobody:1", RetryMin: time.Hour, RetryMax: time.Hour})
		synctest.Wait()
		for _, step := range []struct {
			address string
			state   State
			like    *memLog
		}{{"a:1", Following, a}, {"", Idle, a}, {"nobody:1", BackingOff, a}, {"b:1", Following, b}, {"b:1", Following, b}} {
			s.SetMaster(step.address)
			synctest.Wait()
			if st := s.Stats(); st.State != step.state || st.Master != step.address {
				t.Errorf("after SetMaster(%q): %+v", step.address, st)
			}
			sameLog(t, step.like, target)
		}
		if got := n.Dials(); got != 4 {
			t.Errorf("%d dials, not 4", got)
		}
	})
}

// Between failures a slave waits RetryMin, twice that … RetryMax, less at most half of it by jitter.
func TestRetriesBackOff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		var at []time.Time
		_, stop := startSlave(t, n, newMemLog(65536), SlaveOptions{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			at = append(at, time.Now())
			return n.Dial(ctx, network, address)
		}})
		time.Sleep(time.Minute)
		stop()
		want := 200 * time.Millisecond
		for i := 1; i < len(at); i++ {
			if d := at[i].Sub(at[i-1]); d < want/2 || d > want {
				t.Errorf("pause %d is %v, not %v to %v", i, d, want/2, want)
			}
			want = min(2*want, 5*time.Second)
		}
		if len(at) < 12 {
			t.Errorf("%d attempts in a minute", len(at))
		}
	})
}

// A whole GiB or a byte: how the log is cut into frames is the batch's and the segments' matter, and nothing is sent twice or left out.
func TestFramesNeverCrossASegmentNorExceedTheBatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		src := newMemLogAt(1000, 3000, 5500, 1)
		startMaster(t, n, "master:1", src, MasterOptions{SegmentSize: 1000, BatchSize: 300, WriteSize: 700})
		conn := rawDial(t, n)
		write(t, conn, report(4100))
		want := "4100:300 4400:300 4700:100 4800:200 5000:300 5300:300 5600:100 5700:300 6000:300 6300:300 6600:100 6700:300 7000:300 7300:300 7600:100 7700:300 8000:300 8300:200 [open]"
		if got := readFor(conn, time.Second); got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
	})
}

// Data goes out the moment it is there, without a poll; and an idle pair does next to nothing.
func TestSendsAtOnceAndIdlesQuietly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		src, target := newMemLog(65536), newMemLog(65536)
		startMaster(t, n, "master:1", src, MasterOptions{SegmentSize: 65536})
		startSlave(t, n, target, SlaveOptions{})
		synctest.Wait()
		for range 5 {
			start := time.Now()
			src.append(make([]byte, 10))
			<-target.Grown(src.MaxPhyOffset() - 1)
			if took := time.Since(start); took != 0 {
				t.Errorf("arrived after %v", took)
			}
			time.Sleep(1234 * time.Millisecond)
		}
		c := n.Conns()[0]
		reads := func() int { return c.Reads() + c.Other().Reads() }
		before := reads()
		time.Sleep(time.Hour)
		if got := reads() - before; got > 2*3600/5+2 {
			t.Errorf("an idle hour: %d reads, more than a heartbeat each 5 s and side", got)
		}
		if n.Dials() != 1 {
			t.Errorf("%d connections", n.Dials())
		}
	})
}

// As the original, a slave reports when a frame is complete, not for each piece that arrives; a piece is appended when it arrives.
func TestReportsFollowWholeFrames(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		l := n.Listen("master:1")
		t.Cleanup(func() { l.Close() })
		target := newMemLog(65536)
		s, stop := startSlave(t, n, target, SlaveOptions{})
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		frame := make([]byte, frameHeaderSize+1000)
		putFrameHeader(frame, 0, 1000)
		sent := int64(0)
		for _, step := range []struct{ to, held, reported int64 }{{5, 0, 0}, {12, 0, 0}, {112, 100, 0}, {1011, 999, 0}, {1012, 1000, 1000}} {
			write(t, c, frame[sent:step.to])
			sent = step.to
			synctest.Wait()
			if target.MaxPhyOffset() != step.held || s.Stats().Reported != step.reported {
				t.Errorf("after %d bytes: holds %d, reported %d; want %+v", step.to, target.MaxPhyOffset(), s.Stats().Reported, step)
			}
		}
		stop()
	})
}

// hollow is a Source that breaks its word: it has grown, but reads nothing.
type hollow struct{ *memLog }

func (hollow) Read(int64, int) ([]byte, func(), error) { return nil, nil, nil }

func TestASourceThatReadsNothingEndsTheConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		ev := &recorded{}
		startMaster(t, n, "master:1", hollow{newMemLogAt(65536, 0, 100, 1)}, MasterOptions{SegmentSize: 65536, Events: ev.events.events()})
		conn := rawDial(t, n)
		write(t, conn, report(50))
		if got := readFor(conn, time.Second); got != "[closed]" {
			t.Error(got)
		}
		synctest.Wait()
		if ev.count("disconnected") != 1 {
			t.Errorf("events:\n%s", ev)
		}
	})
}

// An address that swallows what is sent to it costs an attempt the time for connecting, not the system's minutes.
func TestAnAddressThatSwallowsPacketsIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		var took []time.Duration
		s, stop := startSlave(t, n, newMemLog(65536), SlaveOptions{Jitter: func() float64 { return 0 }, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			start := time.Now()
			<-ctx.Done()
			took = append(took, time.Since(start))
			return nil, context.Cause(ctx)
		}})
		time.Sleep(59 * time.Second)
		st := s.Stats()
		stop()
		if st.Failures < 6 || !errors.Is(st.LastError, context.DeadlineExceeded) || st.Connects != 0 {
			t.Errorf("%+v", st)
		}
		for _, d := range took[:st.Failures] {
			if d != defaultConnect {
				t.Errorf("gave up after %v", d)
			}
		}
	})
}
