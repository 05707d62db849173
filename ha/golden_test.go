package ha

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mqstore/mqstore/conformance/golden"
	"github.com/mqstore/mqstore/conformance/memnet"
)

// goldenBytes is the part of the golden master's log that the capture saw: from its second segment on.
func goldenBytes(t *testing.T) (base int64, b []byte, end int64) {
	for _, name := range []string{"00000000000000000000", "00000000000000065536", "00000000000000131072"} {
		b = append(b, golden.ReadFile(t, "ha-capture", "master/commitlog/"+name)...)
	}
	m := golden.Load(t, "ha-capture")
	return 0, b, m.MasterQueries.MaxPhyOffset
}

func streamOf(t *testing.T, name string) golden.Stream {
	for _, s := range golden.Load(t, "ha-capture").Frames {
		if s.Stream == name {
			return s
		}
	}
	t.Fatalf("no stream %s", name)
	panic("unreachable")
}

func ranges(s golden.Stream) (list []string) {
	for _, f := range s.Frames {
		list = append(list, fmt.Sprintf("%d:%d", f.PhyOffset, f.Size))
	}
	return list
}

// capturedFrame is a frame as the original master sent it.
type capturedFrame struct {
	chunk int // index of the chunk in which its header begins
	end   int64
	size  int
}

// capturedFrames are the frames of connection conn.
func capturedFrames(t *testing.T, chunks []golden.Chunk, conn int) (frames []capturedFrame) {
	var all []byte
	var starts []int // of each chunk, in all
	var index []int
	for i, c := range chunks {
		if c.Conn == conn && c.Dir == "M>S" {
			starts, index = append(starts, len(all)), append(index, i)
			all = append(all, c.Data...)
		}
	}
	for at, k := 0, 0; at < len(all); {
		off, n, err := parseFrameHeader(all[at:], maxFrame)
		if err != nil {
			t.Fatal(err)
		}
		for k+1 < len(starts) && starts[k+1] <= at {
			k++
		}
		frames = append(frames, capturedFrame{index[k], off + int64(n), n})
		at += frameHeaderSize + n
	}
	return frames
}

// The slave's bytes of the capture, at the capture's times, make our master send what the original sent: the same frames, heartbeats and close, each no later than the original's loop of 100 ms.
func TestMasterDrivenByTheCaptureSendsTheSameFrames(t *testing.T) {
	chunks := golden.LoadCapture(t)
	_, log, _ := goldenBytes(t)
	bubble(t, func(t *testing.T) {
		t0 := time.Now()
		src := newMemLog(65536)
		grow := func(end int64) {
			if have := src.MaxPhyOffset(); end > have {
				src.append(log[have:end])
			}
			synctest.Wait()
		}
		grow(88488)
		n := memnet.New()
		m := startMaster(t, n, "master:1", src, MasterOptions{SegmentSize: 65536})

		conns := map[int]*memnet.Conn{}
		sent := map[int]bool{}
		got := map[int]*strings.Builder{}
		type arrived struct {
			at   time.Duration
			size int
		}
		times := map[int][]arrived{}
		frames := map[int][]capturedFrame{}
		done := make(chan int, 8)
		for i, c := range chunks {
			time.Sleep(time.Until(t0.Add(time.Duration(c.T) * time.Millisecond)))
			synctest.Wait()
			switch {
			case c.Dir == "connect":
				conn := rawDial(t, n)
				conns[c.Conn], got[c.Conn] = conn, new(strings.Builder)
				frames[c.Conn] = capturedFrames(t, chunks, c.Conn)
				go func() {
					d := newFrames(conn, 4096, maxFrame)
					for {
						p, err := d.next()
						if err != nil {
							times[c.Conn] = append(times[c.Conn], arrived{time.Since(t0), -1})
							done <- c.Conn
							return
						}
						if p.first {
							fmt.Fprintf(got[c.Conn], "%d:%d ", p.phyOffset, len(p.body)+d.rest)
							times[c.Conn] = append(times[c.Conn], arrived{time.Since(t0), len(p.body) + d.rest})
						}
					}
				}()
			case c.Dir == "S>M":
				if !sent[c.Conn] { // what was put before this report is its backlog
					sent[c.Conn] = true
					for _, f := range frames[c.Conn] {
						if f.size > 0 {
							grow(f.end)
							break
						}
					}
				}
				conns[c.Conn].Write(c.Data) // stalled bytes may come after the close
			case c.Dir == "M>S":
				for _, f := range frames[c.Conn] {
					if f.chunk == i {
						grow(f.end)
					}
				}
			case c.Dir == "S>M EOF":
				conns[c.Conn].Close()
			case c.Dir == "M>S EOF":
				if since := time.Since(t0) - times[c.Conn][len(times[c.Conn])-1].at; since < 0 || since > 100*time.Millisecond || times[c.Conn][len(times[c.Conn])-1].size != -1 {
					t.Errorf("conn %d: the original closed at %d ms, ours %v before (%v)", c.Conn, c.T, since, times[c.Conn][len(times[c.Conn])-1])
				}
			}
		}
		m.Close()
		for range conns {
			<-done
		}
		for conn := 1; conn <= 3; conn++ {
			want := strings.Join(ranges(streamOf(t, fmt.Sprintf("%dM>S", conn))), " ")
			if g := strings.TrimSpace(got[conn].String()); g != want {
				t.Errorf("conn %d:\n got %s\nwant %s", conn, g, want)
				continue
			}
			for i, f := range frames[conn] {
				if late := times[conn][i].at - time.Duration(chunks[f.chunk].T)*time.Millisecond; f.size == 0 && (late > 0 || late < -100*time.Millisecond) {
					t.Errorf("conn %d: heartbeat %d came %v after the original's", conn, i, late)
				}
			}
		}
		if src.held.Load() != 0 {
			t.Errorf("%d views are not released", src.held.Load())
		}
	})
}

// The master's bytes of the capture, at the capture's times, make our slave report what the original reported (the first time at once), and hold the same log.
func TestSlaveDrivenByTheCaptureReportsTheSame(t *testing.T) {
	chunks := golden.LoadCapture(t)
	_, log, end := goldenBytes(t)
	bubble(t, func(t *testing.T) {
		t0 := time.Now()
		slave := newMemLog(65536)
		n := memnet.New()
		l := n.Listen("master:1")
		defer l.Close()
		var conn *memnet.Conn
		reports := map[int][]int64{}
		var firsts []time.Duration
		var s *Slave
		stop := func() {}
		for _, c := range chunks {
			time.Sleep(time.Until(t0.Add(time.Duration(c.T) * time.Millisecond)))
			synctest.Wait()
			switch {
			case c.Dir == "connect":
				dialled := time.Now()
				if s == nil {
					s, stop = startSlave(t, n, slave, SlaveOptions{Jitter: func() float64 { return 0 }})
				}
				accepted, err := l.Accept()
				if err != nil {
					t.Fatal(err)
				}
				conn = accepted.(*memnet.Conn)
				go func(conn *memnet.Conn) {
					buf := make([]byte, 64)
					var r classicReports
					for {
						k, err := conn.Read(buf)
						if v, ok, _ := r.take(buf[:k]); ok {
							if len(reports[c.Conn]) == 0 {
								firsts = append(firsts, time.Since(dialled))
							}
							reports[c.Conn] = append(reports[c.Conn], v)
						}
						if err != nil {
							return
						}
					}
				}(conn)
			case c.Dir == "M>S":
				conn.Write(c.Data)
			case c.Dir == "M>S EOF":
				conn.Close()
			case c.Dir == "S>M EOF":
				stop()
				conn.Close()
				s = nil
			}
		}
		stop()
		conn.Close()
		for i, d := range firsts {
			if d > 200*time.Millisecond {
				t.Errorf("conn %d: first report %v after the connection", i+1, d)
			}
		}
		for conn := 1; conn <= 3; conn++ {
			var want []int64
			last := int64(-1)
			for _, c := range chunks {
				if c.Conn == conn && c.Dir == "S>M" {
					var r classicReports
					if v, ok, _ := r.take(c.Data); ok && v != last { // of one read, the last value counts
						want, last = append(want, v), v
					}
				}
			}
			var got []int64
			last = -1
			for _, v := range reports[conn] {
				if v != last {
					got, last = append(got, v), v
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("conn %d:\n got %v\nwant %v", conn, got, want)
			}
		}
		from, b := slave.bytes()
		if from != 65536 || from+int64(len(b)) != end || string(b) != string(log[from:end]) {
			t.Errorf("slave holds [%d, %d), or other bytes", from, from+int64(len(b)))
		}
	})
}

// probe is what ours does when the original was probed so, in the words of probes.json.
type probe struct {
	ours string // "" = as the original
	why  string
}

// All that master and slave did when their peer said strange things is either done by ours too, or listed here with what ours does instead.
var probes = map[string]probe{
	"P6 report max+1000":                              {ours: "[closed]", why: "a slave ahead of the master is refused at once"},
	"P6 report max+1000 again":                        {ours: "[closed]"},
	"P7 report -1":                                    {ours: "[closed]", why: "no slave's log ends there"},
	"P11 report far beyond max once":                  {ours: "[closed]", why: "never counts"},
	"push2SlaveMaxOffset after P6":                    {ours: "104537 connections 0", why: "P5 acknowledged all, the lies added nothing"},
	"Q1 bytes from the slave in 7 s":                  {ours: "0@+0ms 0@+5000ms", why: "reports at once"},
	"Q2 heartbeat (65536, size 0) to the empty slave": {ours: "65536@+0ms 65536@+5000ms"},
	"Q5 heartbeat at max+10":                          {ours: "[slave closed at +0 ms]"},
	"Q5 slave reconnected":                            {ours: "100", why: "back-off"},
	"Q5 reports":                                      {ours: "70133@+0ms 70133@+5000ms", why: "reports at once"},
	"Q7 fake master silent, reads reports":            {ours: "70137@+3500ms 70137@+8500ms 70137@+13500ms [slave closed at +18500 ms]", why: "20 s after the master's last byte"},
	"Q8 fake master closed; slave reconnected":        {ours: "200", why: "back-off, twice the last one"},
}

func TestEveryProbeOfTheOriginalMaster(t *testing.T) {
	events := golden.LoadProbes(t)
	bubble(t, func(t *testing.T) {
		src := newMemLogAt(65536, 0, 104537, 1)
		n := memnet.New()
		ev := &recorded{}
		m := startMaster(t, n, "master:1", src, MasterOptions{SegmentSize: 65536, RecordStart: func(off int64) bool { return off != 100 }, Events: ev.events.events()})
		end := src.MaxPhyOffset()
		seen := 0
		for _, e := range events {
			var got string
			var conn *memnet.Conn
			say := func(d time.Duration, parts ...[]byte) {
				conn = rawDial(t, n)
				for _, p := range parts {
					conn.Write(p) // the second of P6 finds the connection closed
					synctest.Wait()
				}
				got = readFor(conn, d)
			}
			switch {
			case e.Event == "puts" && e.Fields["phase"] == "one put while a probe is at max":
				conn = rawDial(t, n)
				write(t, conn, report(end))
				synctest.Wait()
				src.append(make([]byte, 673))
				got := readFor(conn, time.Second)
				if want := "104537:673 [open]"; got != want {
					t.Errorf("P10: got %s, want %s", got, want)
				}
				conn.Close()
				continue
			case e.Event == "P10 live put":
				if e.Fields["read 1 s"] != "104537:673 [open]" {
					t.Errorf("P10 reads %v", e.Fields)
				}
				seen++
				continue
			case e.Event == "P1 connect, send nothing":
				say(3 * time.Second)
			case e.Event == "P2 report 0":
				say(7*time.Second, report(0))
			case strings.HasPrefix(e.Event, "P3 "):
				say(time.Second, report(73848))
			case strings.HasPrefix(e.Event, "P4 "):
				say(time.Second, report(100))
				if !ev.has(ErrMidRecord) {
					t.Error("P4: no event")
				}
			case e.Event == "P5 report max":
				say(6*time.Second, report(end))
			case e.Event == "P6 report max+1000":
				say(6500*time.Millisecond, report(end+1000))
				if !ev.has(ErrSlaveAhead) {
					t.Error("P6: no event")
				}
			case e.Event == "P6 report max+1000 again":
				say(3*time.Second, report(end+1000), report(end+1000))
			case e.Event == "push2SlaveMaxOffset after P6":
				got = fmt.Sprintf("%d connections %d", m.MaxAck(), len(m.Stats().Connections))
			case e.Event == "P7 report -1":
				say(3*time.Second, report(-1))
				if !ev.has(ErrNegativeOffset) {
					t.Error("P7: no event")
				}
			case e.Event == "P8 report 0 split 3+5 bytes":
				say(time.Second, report(0)[:3], report(0)[3:])
			case strings.HasPrefix(e.Event, "P9 "):
				say(time.Second, append(append(report(65536), report(70000)...), report(80000)...))
			case strings.HasPrefix(e.Event, "P11 "):
				say(time.Second, report(5000000))
				if m.MaxAck() > end+673 {
					t.Errorf("P11 counts: %d", m.MaxAck())
				}
			default:
				continue
			}
			seen++
			if conn != nil {
				conn.Close()
				synctest.Wait()
			}
			want := ""
			for k, v := range e.Fields {
				if strings.HasPrefix(k, "read ") {
					want = v.(string)
				}
			}
			if p, ok := probes[e.Event]; ok {
				want = p.ours
			}
			if got != want {
				t.Errorf("%s: got %q, want %q", e.Event, got, want)
			}
		}
		if seen != 13 {
			t.Errorf("%d probes of a master seen, not 13", seen)
		}
		if src.held.Load() != 0 {
			t.Errorf("%d views are not released", src.held.Load())
		}
	})
}

type recorded struct{ events }

func TestEveryProbeOfTheOriginalSlave(t *testing.T) {
	timeline := golden.LoadProbes(t)
	bubble(t, func(t *testing.T) {
		slave := newMemLog(65536)
		n := memnet.New()
		l := n.Listen("master:1")
		defer l.Close()
		ev := &recorded{}
		s, _ := startSlave(t, n, slave, SlaveOptions{Jitter: func() float64 { return 0 }, Events: ev.events.events()})
		var conn *memnet.Conn
		accept := func() {
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			conn = c.(*memnet.Conn)
			t.Cleanup(func() { c.Close() })
		}
		accept()
		// reports reads what the slave reports within d.
		reports := func(d time.Duration) string {
			start := time.Now()
			var list []string
			buf := make([]byte, 64)
			for {
				conn.SetReadDeadline(start.Add(d))
				k, err := conn.Read(buf)
				var r classicReports
				if v, ok, _ := r.take(buf[:k]); ok {
					list = append(list, fmt.Sprintf("%d@+%dms", v, time.Since(start).Milliseconds()))
				}
				if err != nil {
					if time.Since(start) < d {
						list = append(list, fmt.Sprintf("[slave closed at +%d ms]", time.Since(start).Milliseconds()))
					}
					return strings.Join(list, " ")
				}
			}
		}
		frame := func(off int64, body []byte) {
			h := make([]byte, frameHeaderSize)
			putFrameHeader(h, off, len(body))
			write(t, conn, append(h, body...))
		}
		record := randomBytes(9, 4597)
		seen := 0
		for _, e := range timeline {
			got, want := "", ""
			switch e.Event {
			case "Q1 empty slave connected to a fake master":
			case "Q1 bytes from the slave in 7 s":
				got = reports(7 * time.Second)
			case "Q2 heartbeat (65536, size 0) to the empty slave":
				reports(3*time.Second + 1) // past the heartbeat, so that the clock of reports begins anew
				frame(65536, nil)
				got = reports(6 * time.Second)
				if slave.MinPhyOffset() != 65536 || slave.MaxPhyOffset() != 65536 {
					t.Errorf("Q2: slave holds [%d, %d)", slave.MinPhyOffset(), slave.MaxPhyOffset())
				}
			case "Q3 first record of file 2":
				frame(65536, record)
				got, want = reports(1500*time.Millisecond), e.Fields["reports"].(string)
			case "Q4 heartbeat at slave max":
				frame(70133, nil)
				got, want = reports(1500*time.Millisecond), e.Fields["reports"].(string)
			case "Q5 heartbeat at max+10":
				frame(70143, nil)
				got = reports(time.Second)
				if !strings.HasPrefix(got, "[slave closed at +0 ms]") {
					t.Errorf("Q5: %s", got)
				}
				synctest.Wait()
				if st := s.Stats(); st.Mismatches != 1 || st.LastError == nil {
					t.Errorf("Q5: stats %+v", st)
				}
			case "Q5 slave reconnected":
				accept()
				got = "100"
			case "Q5 reports":
				got = reports(6500 * time.Millisecond)
			case "Q6 4 garbage bytes at max":
				frame(70133, []byte{1, 2, 3, 4})
				got, want = reports(1500*time.Millisecond), e.Fields["reports"].(string)
			case "Q7 fake master silent, reads reports":
				got = strings.Replace(reports(24*time.Second), " 70137@+18500ms [", " [", 1) // the last heartbeat and the end of patience fall together
			case "Q8 fake master closed; slave reconnected":
				accept()
				conn.Close()
				closed := time.Now()
				accept()
				got = fmt.Sprint(time.Since(closed).Milliseconds())
			default:
				continue
			}
			seen++
			if p, ok := probes[e.Event]; ok {
				want = p.ours
			}
			if got != want {
				t.Errorf("%s: got %q, want %q", e.Event, got, want)
			}
		}
		if seen != 11 {
			t.Errorf("%d probes of a slave seen, not 11", seen)
		}
		if slave.MaxPhyOffset() != 70137 {
			t.Errorf("slave ends at %d", slave.MaxPhyOffset())
		}
		if !ev.has(ErrSilent) {
			t.Errorf("no event of the silence:\n%s", ev)
		}
	})
}
