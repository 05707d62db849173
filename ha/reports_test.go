package ha

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mqstore/mqstore/conformance/memnet"
)

// What users of such engines reported about replication (apache/rocketmq and others), as far as it shows between a master and its slaves.

// rocketmq#3015, #1155: garbage or a too large acknowledgement from any TCP peer made sync puts succeed.
func TestGarbageAcknowledgementsMakeNoPutSucceed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		src := newMemLogAt(65536, 0, 5000, 1)
		m := startMaster(t, n, "master:1", src, MasterOptions{SegmentSize: 65536})
		for _, v := range []int64{1 << 40, 5001, -1} {
			write(t, rawDial(t, n), report(v))
		}
		synctest.Wait()
		if status, _ := putStatus(m, src.append(make([]byte, 10)), true); status != "SLAVE_NOT_AVAILABLE" || m.MaxAck() != 0 {
			t.Errorf("%s, acked up to %d", status, m.MaxAck())
		}
	})
}

// rocketmq#3388, #5579: a slave's end that the master does not know meant heartbeats for ever.
func TestASlaveThatTheMasterCannotServeIsToldSoAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		target *memLog
		reason error
	}{
		"ahead":  {newMemLogAt(65536, 0, 200000, 1), ErrSlaveAhead},
		"behind": {newMemLogAt(65536, 0, 100, 1), ErrDeletedOnMaster},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := memnet.New()
				src := newMemLogAt(65536, 0, 150000, 1)
				src.expire(65536)
				ev := &recorded{}
				startMaster(t, n, "master:1", src, MasterOptions{SegmentSize: 65536, Events: ev.events.events()})
				s, _ := startSlave(t, n, c.target, SlaveOptions{})
				time.Sleep(time.Second)
				if !ev.has(c.reason) {
					t.Errorf("the master's events:\n%s", ev)
				}
				if st := s.Stats(); !errors.Is(st.LastError, ErrEOF) || st.Bytes != 0 { // the classic protocol has no words for the reason
					t.Errorf("%+v", st)
				}
				time.Sleep(time.Minute)
				if got := n.Dials(); got > 30 {
					t.Errorf("%d attempts in a minute", got)
				}
			})
		})
	}
	// A slave that falls below the master's first byte while it is being served is told too.
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		src := newMemLogAt(65536, 0, 1<<20, 1)
		ev := &recorded{}
		startMaster(t, n, "master:1", src, MasterOptions{SegmentSize: 65536, Events: ev.events.events()})
		conn := rawDial(t, n)
		write(t, conn, report(1))
		synctest.Wait() // it sends as much as the connection holds
		src.expire(15 * 65536)
		readFor(conn, time.Second)
		synctest.Wait()
		if !ev.has(ErrDeletedOnMaster) {
			t.Errorf("events:\n%s", ev)
		}
	})
}

// rocketmq#323: one corrupt frame, and the slave's lag was shown as -8245006252570743168 for ever.
func TestOneCorruptFrameIsRecoveredFrom(t *testing.T) {
	for _, extended := range []bool{false, true} {
		for at := range int64(2 * frameHeaderSize) {
			if !extended && at%frameHeaderSize >= posFrameLength {
				continue // a classic frame has no checksum: a wrong length is found when the next header is read, too late for the bytes
			}
			t.Run(fmt.Sprintf("extended=%v/byte=%d", extended, at), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					n := memnet.New()
					src, target := newMemLogAt(65536, 0, 10, 1), newMemLogAt(65536, 0, 10, 1) // an empty log would believe any first offset
					src.append(randomBytes(3, 40))
					mo, so := MasterOptions{SegmentSize: 65536}, SlaveOptions{}
					if extended {
						mo.Extended, so.Extended = extendedPair(t)
					}
					n.OnDial(func(dial int, client, server *memnet.Conn) {
						if dial > 1 {
							return
						}
						first := at
						if at >= frameHeaderSize {
							first += 40 // in the second frame
						}
						server.Mangle(func(off int64, b []byte) {
							if i := first - off; i >= 0 && i < int64(len(b)) {
								b[i] ^= 0x81
							}
						})
					})
					m := startMaster(t, n, "master:1", src, mo)
					s, _ := startSlave(t, n, target, so)
					synctest.Wait()
					src.append(randomBytes(2, 60))
					time.Sleep(time.Minute)
					sameLog(t, src, target)
					st := m.Stats()
					if len(st.Connections) != 1 || st.Connections[0].Lag != 0 || st.SlaveFallBehind != 0 {
						t.Errorf("%+v", st)
					}
					if got := s.Stats(); got.Failures < 1 && !extended || // TLS ignores a byte of its records
						n.Dials() > 4 {
						t.Errorf("%d dials, %+v", n.Dials(), got)
					}
				})
			})
		}
	}
}

// rocketmq#3661, #9580, #362: a new or wiped slave got only the last file.
func TestAnEmptySlaveGetsAllFilesOfOneOfOurs(t *testing.T) {
	for _, c := range []struct {
		extended bool
		from     ResyncFrom
		begins   int64
	}{{true, FirstSegment, 1000}, {true, LastSegment, 5000}, {false, FirstSegment, 5000}} {
		bubble(t, func(t *testing.T) {
			n := memnet.New()
			src, target := newMemLogAt(1000, 1000, 4500, 1), newMemLog(1000)
			mo, so := MasterOptions{SegmentSize: 1000}, SlaveOptions{}
			if c.extended {
				mo.Extended, so.Extended = extendedPair(t)
				so.Extended.ResyncFrom = c.from
			}
			startMaster(t, n, "master:1", src, mo)
			startSlave(t, n, target, so)
			time.Sleep(time.Second)
			sameLog(t, src, target)
			if from, _ := target.bytes(); from != c.begins {
				t.Errorf("%+v: the slave begins at %d", c, from)
			}
		})
	}
}

// rocketmq#1082, #1118; alibaba/rocketmq#9: idle or even busy connections were dropped each 20 s.
func TestIdleAndOneWayConnectionsStay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		src, target := newMemLog(65536), newMemLog(65536)
		m := startMaster(t, n, "master:1", src, MasterOptions{SegmentSize: 65536})
		s, _ := startSlave(t, n, target, SlaveOptions{})
		time.Sleep(3 * defaultHousekeeping)
		for range 60 {
			time.Sleep(time.Second)
			src.append(randomBytes(1, 100))
		}
		target.fail(nil)
		time.Sleep(3 * defaultHousekeeping)
		sameLog(t, src, target)
		if st := s.Stats(); st.Connects != 1 || m.Stats().Accepted != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// rocketmq#3484: a slave whose disk is read-only took the master's throughput to 0.
func TestASlaveThatCannotWriteDoesNotHoldUpPuts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		src, target := newMemLog(65536), newMemLog(65536)
		ev := &recorded{}
		m := startMaster(t, n, "master:1", src, MasterOptions{SegmentSize: 65536})
		s, _ := startSlave(t, n, target, SlaveOptions{Events: ev.events.events()})
		put := func() string {
			status, took := putStatus(m, src.append(randomBytes(1, 100)), true)
			if took > 3*time.Second {
				t.Errorf("a put took %v", took)
			}
			return status
		}
		synctest.Wait()
		if got := put(); got != "PUT_OK" {
			t.Error(got)
		}
		full := errors.New("no space left on device")
		target.fail(full)
		counts := map[string]int{}
		start := time.Now()
		for range 50 {
			counts[put()]++
			time.Sleep(100 * time.Millisecond)
		}
		if counts["PUT_OK"] != 0 || counts["SLAVE_NOT_AVAILABLE"] < 40 || time.Since(start) > 30*time.Second {
			t.Errorf("%v in %v", counts, time.Since(start))
		}
		var a *AppendError
		if st := s.Stats(); !errors.Is(st.LastError, full) || !errors.As(st.LastError, &a) || st.State != BackingOff || !ev.has(full) {
			t.Errorf("%+v", st)
		}
		target.fail(nil)
		time.Sleep(6 * time.Second)
		if got := put(); got != "PUT_OK" || s.Stats().LastError != nil {
			t.Errorf("%s, %+v", got, s.Stats())
		}
		sameLog(t, src, target)
	})
}

// rocketmq#3484 once more, and the reason for ReportFlushed: an acknowledgement means the slave's disk if it is asked for.
func TestReportFlushedAcknowledgesWhatIsOnTheSlavesDisk(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		src, target := newMemLogAt(65536, 0, 1000, 1), newMemLog(65536)
		target.mu.lazyFlush = true
		m := startMaster(t, n, "master:1", src, MasterOptions{SegmentSize: 65536})
		_, stop := startSlave(t, n, target, SlaveOptions{ReportFlushed: true, FlushedPast: target.FlushedPast})
		time.Sleep(12 * time.Second)
		sameLog(t, src, target)
		if m.MaxAck() != 0 {
			t.Errorf("acked up to %d before the flush", m.MaxAck())
		}
		target.flush()
		synctest.Wait()
		if m.MaxAck() != 1000 {
			t.Errorf("acked up to %d after the flush", m.MaxAck())
		}
		src.append(make([]byte, 500))
		synctest.Wait()
		stop()
		// A new connection's first report is the written end: so it waits for the flush, too.
		s, _ := startSlave(t, n, target, SlaveOptions{ReportFlushed: true, FlushedPast: target.FlushedPast})
		time.Sleep(30 * time.Second)
		if m.MaxAck() != 1000 || s.Stats().Connects != 0 || s.Stats().LastError == nil {
			t.Errorf("acked up to %d, %+v", m.MaxAck(), s.Stats())
		}
		target.flush()
		time.Sleep(6 * time.Second)
		if m.MaxAck() != 1500 {
			t.Errorf("acked up to %d", m.MaxAck())
		}
	})
}

// A wrong frame of the classic protocol stops the slave with a typed error, an event and a back-off (the original loops for ever, at once).
func TestOffsetMismatchIsATypedErrorAndBacksOff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		l := n.Listen("master:1")
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				h := make([]byte, frameHeaderSize)
				putFrameHeader(h, 777, 0)
				c.Write(h)
				t.Cleanup(func() { c.Close() })
			}
		}()
		target := newMemLogAt(65536, 0, 5000, 1)
		ev := &recorded{}
		s, _ := startSlave(t, n, target, SlaveOptions{Events: ev.events.events()})
		time.Sleep(time.Minute)
		st := s.Stats()
		var mismatch *OffsetMismatchError
		if !errors.As(st.LastError, &mismatch) || mismatch.Want != 5000 || mismatch.Got != 777 || st.State != BackingOff || st.Mismatches != st.Failures || st.Mismatches > 30 || st.Mismatches < 10 {
			t.Errorf("%+v", st)
		}
		if ev.count("disconnected") != int(st.Mismatches) || !bytes.Contains([]byte(ev.String()), []byte("move its directory aside")) {
			t.Errorf("events:\n%s", ev)
		}
	})
}

// A slave that is ahead of a master that lost its end, as after a power failure, is not taken for one that follows when the master's log has grown past its end: what it has there are other bytes, and its acknowledgement would make puts succeed that it does not hold.
func TestASlaveThatWasAheadIsRemembered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		ev := &recorded{}
		src := newMemLogAt(65536, 0, 1000, 1)
		m := startMaster(t, n, "master:1", src, MasterOptions{SegmentSize: 65536, Events: ev.events.events()})
		dial := func(from string, phyOffset int64) (conn net.Conn, served bool) {
			c, err := n.Dialer(from)(t.Context(), "tcp", "master:1")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			write(t, c, report(phyOffset))
			served = readFor(c.(*memnet.Conn), time.Second) != "[closed]"
			synctest.Wait() // for the events
			return c, served
		}
		if _, served := dial("one:1", 1200); served || !ev.has(ErrSlaveAhead) {
			t.Errorf("a slave that is ahead is served\n%s", ev)
		}
		src.append(randomBytes(2, 1000))
		if _, served := dial("one:1", 1200); served || !ev.has(ErrDiverged) || m.MaxAck() != 0 {
			t.Errorf("the same slave is served later, acked up to %d\n%s", m.MaxAck(), ev)
		}
		if c, served := dial("two:1", 1200); !served {
			t.Error("another slave is refused")
		} else {
			c.Close()
		}
		c, served := dial("one:1", 1000) // was cut to where the master's log ended
		if !served {
			t.Error("the slave is refused when it is set right")
		}
		c.Close()
		synctest.Wait()
		if _, served := dial("one:1", 1200); !served {
			t.Error("the slave is refused when it has followed")
		}
		for i := range int64(2000) { // hosts that say anything cost nothing
			dial("three:1", 1<<40+i)
		}
		if got := len(m.strays.mu.seen); got > maxStrays {
			t.Errorf("%d are remembered", got)
		}

		// A master that is itself a slave has not got as far yet.
		m.Copied(true)
		if _, served := dial("four:1", 2500); served {
			t.Error("a slave that is ahead is served")
		}
		src.append(randomBytes(3, 1000))
		if _, served := dial("four:1", 2500); !served {
			t.Error("a slave that only got more of the same is refused for ever")
		}
	})
}

// Who waits until a slave has reported, and then looks at it, never finds offsets that it did not say.
func TestAConnectionThatHasReportedShowsWhatItSaid(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		var m *Master
		asked := 0
		m = startMaster(t, n, "master:1", newMemLogAt(65536, 0, 1000, 1), MasterOptions{SegmentSize: 65536, RecordStart: func(int64) bool { // it is asked in the midst of the first report
			asked++
			if c := m.Stats().Connections; len(c) != 1 || c[0].Reported && (c[0].Ack != 400 || c[0].Sent != 400 || c[0].Lag != 600) {
				t.Errorf("%+v", c)
			}
			return true
		}})
		write(t, rawDial(t, n), report(400))
		synctest.Wait()
		if c := m.Stats().Connections; asked != 1 || len(c) != 1 || !c[0].Reported || c[0].Ack != 400 {
			t.Errorf("asked %d times, %+v", asked, c)
		}
	})
}
