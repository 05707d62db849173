package ha

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// conn is a slave's connection on the master: run reads its reports, write sends frames from the offset that the first report gave.
type conn struct {
	m        *Master
	nc       net.Conn // what is read and written: raw, or TLS over it
	raw      net.Conn
	peer     string
	host     string // of the peer, "" if that is not known
	extended bool
	born     time.Time

	start chan int64    // where to begin to send: the first report, once
	done  chan struct{} // closed by close
	sent  atomic.Int64  // end of what has been, or is being, sent; stored before the bytes leave
	ack   atomic.Int64
	bytes atomic.Int64

	greeted struct{ from, slaveEnd int64 } // by the extended handshake

	reported atomic.Bool
	unproved bool      // the first report does not count before the slave has taken bytes that follow; of the reading goroutine
	entry    *slaveAck // in the ack table
	wire     sender
	reports  reportReader

	end struct {
		sync.Mutex
		err error
	}
}

// sender writes frames of one protocol. The peer may have taken some of the bytes when it returns an error.
type sender interface {
	send(phyOffset int64, p []byte) error
	heartbeat(phyOffset int64) error
}

// reportReader takes the bytes of one read and returns the last report that became complete.
type reportReader interface {
	take(p []byte) (phyOffset int64, ok bool, err error)
}

func newConn(m *Master, nc net.Conn, extended bool) *conn {
	return &conn{m: m, nc: nc, raw: nc, peer: peerOf(nc), host: hostOf(nc), extended: extended, born: time.Now(), start: make(chan int64, 1), done: make(chan struct{})}
}

func peerOf(nc net.Conn) string {
	if a := nc.RemoteAddr(); a != nil {
		return a.String()
	}
	return "unknown peer"
}

// hostOf is the peer's address without its port; "" = there is none.
func hostOf(nc net.Conn) string {
	host, _, err := net.SplitHostPort(peerOf(nc))
	if err != nil {
		return ""
	}
	return host
}

// close ends the connection for the reason err, the first time.
func (c *conn) close(err error) {
	c.end.Lock()
	first := c.end.err == nil
	if first {
		c.end.err = err
	}
	c.end.Unlock()
	if first {
		close(c.done)
		c.raw.Close() // not TLS's Close, which waits for the peer
	}
}

func (c *conn) reason() error {
	c.end.Lock()
	defer c.end.Unlock()
	return c.end.err
}

func (c *conn) run() {
	defer c.m.wg.Done()
	defer c.m.forget(c)
	if err := c.greet(); err != nil {
		c.close(err)
		c.ended(false)
		return
	}
	c.entry = c.m.acks.add(c.host)
	c.m.o.Events.Connected(c.peer)
	if c.extended {
		c.begin(c.greeted.from, c.greeted.slaveEnd)
	}
	var writer sync.WaitGroup
	writer.Go(func() { c.close(c.write()) })
	c.close(c.read())
	c.m.acks.remove(c.entry)
	writer.Wait()
	c.ended(true)
}

// greet makes the connection ready for reports and frames.
func (c *conn) greet() error {
	if c.extended {
		return c.greetExtended()
	}
	c.wire = &classicSender{nc: c.nc, batch: c.m.o.BatchSize, timeout: c.m.o.WriteTimeout}
	c.reports = new(classicReports)
	return nil
}

func (c *conn) ended(connected bool) {
	err := c.reason()
	if refuses(err) {
		c.m.refused.Add(1)
		c.m.o.Events.Refused(c.peer, err)
	} else if !connected && !errors.Is(err, ErrClosed) {
		c.m.refused.Add(1)
		c.m.o.Events.Refused(c.peer, err)
		return
	}
	if connected {
		c.m.o.Events.Disconnected(c.peer, err)
	}
}

// refuses reports whether err says that the peer's words cannot be true.
func refuses(err error) bool {
	var p *PositionError
	return errors.As(err, &p) || errors.Is(err, ErrMalformed)
}

func (c *conn) read() error {
	var buf [512]byte
	for {
		// "More than" the interval, in whole ms.
		if err := c.nc.SetReadDeadline(time.Now().Add(c.m.o.Housekeeping + time.Millisecond)); err != nil {
			return fmt.Errorf("read from the slave: %w", err)
		}
		n, err := c.nc.Read(buf[:])
		if n > 0 {
			phyOffset, ok, err := c.reports.take(buf[:n])
			if err == nil && ok {
				err = c.report(phyOffset)
			}
			if err != nil {
				return err
			}
		}
		if err != nil {
			return readError("read from the slave", err, c.m.o.Housekeeping)
		}
	}
}

// report takes a slave's log end: the first one says where it begins, each one what it holds.
func (c *conn) report(phyOffset int64) error {
	if phyOffset < 0 {
		return c.impossible(ErrNegativeOffset, phyOffset)
	}
	if c.reported.Load() {
		if sent := c.sent.Load(); phyOffset > sent {
			err := c.impossible(ErrAckBeyondSent, phyOffset)
			err.Max = sent
			return err
		}
		if c.unproved && phyOffset <= c.ack.Load() {
			return nil
		}
		c.unproved = false
		c.hold(phyOffset)
		return nil
	}
	from, err := c.first(phyOffset)
	if err != nil {
		return err
	}
	c.begin(from, phyOffset)
	return nil
}

// begin starts the sending from from; the slave's log ends at phyOffset.
func (c *conn) begin(from, phyOffset int64) {
	c.sent.Store(from)
	if f := c.m.o.RecordStart; f != nil && from > 0 && from < c.m.src.MaxPhyOffset() && !f(from) {
		c.m.o.Events.Warning(c.peer, fmt.Errorf("%w, at physical offset %d: a frame was cut there, or its log is not ours", ErrMidRecord, from))
	}
	if !c.extended && phyOffset < c.m.src.MaxPhyOffset() {
		// Is its log ours below? What it does with the bytes that follow there is all that this protocol tells.
		c.unproved = true
		c.ack.Store(phyOffset)
		c.m.acks.says(c.entry, phyOffset)
	} else {
		c.hold(phyOffset)
	}
	c.reported.Store(true) // last: who sees it finds the slave's offsets, and puts that wait for it
	c.start <- from
}

func (c *conn) hold(phyOffset int64) {
	c.ack.Store(phyOffset)
	c.m.acks.set(c.entry, phyOffset)
}

// first is the rule of spec/ha-protocol.md 6.4 for where to begin, with a check.
func (c *conn) first(phyOffset int64) (from int64, err error) {
	end := c.m.src.MaxPhyOffset()
	if from, ok := c.m.strays.known(c.host, phyOffset); ok && !c.extended {
		return 0, c.impossible(ErrDiverged, from)
	}
	switch {
	case phyOffset > end:
		if c.host != "" && !c.m.acks.others(c.host) {
			c.m.strays.note(c.host, phyOffset, end)
		}
		return 0, c.impossible(ErrSlaveAhead, phyOffset)
	case phyOffset == 0:
		return end - end%c.m.o.SegmentSize, nil
	case phyOffset < c.m.src.MinPhyOffset():
		return 0, c.impossible(ErrDeletedOnMaster, phyOffset)
	}
	return phyOffset, nil
}

func (c *conn) impossible(reason error, phyOffset int64) *PositionError {
	return &PositionError{Reason: reason, PhyOffset: phyOffset, Min: max(0, c.m.src.MinPhyOffset()), Max: c.m.src.MaxPhyOffset()}
}

// write is the sending half: data as soon as there is some, in large pieces when there is much, and heartbeats.
func (c *conn) write() error {
	var next int64
	select {
	case <-c.done:
		return c.reason()
	case next = <-c.start:
	}
	lastWrite := c.born
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if time.Since(lastWrite) > c.m.o.Heartbeat {
			if err := c.wire.heartbeat(next); err != nil {
				return c.writeError(err)
			}
			lastWrite = time.Now()
		}
		n, err := c.sendFrom(next)
		if err != nil {
			return err
		}
		if n > 0 {
			next += int64(n)
			lastWrite = time.Now()
			continue
		}
		timer.Reset(time.Until(lastWrite.Add(c.m.o.Heartbeat + time.Millisecond)))
		select {
		case <-c.done:
			return c.reason()
		case <-c.m.src.Grown(next):
			runtime.Gosched() // whoever else is about to put does so first: one frame for all, one report for all, and the processor time of few
		case <-timer.C:
		}
	}
}

// sendFrom sends what the log holds from next on, at most WriteSize.
func (c *conn) sendFrom(next int64) (n int, err error) {
	end := c.m.src.MaxPhyOffset()
	p, release, err := c.m.src.Read(next, c.m.o.WriteSize)
	if release != nil {
		defer release()
	}
	if err != nil || len(p) == 0 {
		if next < c.m.src.MinPhyOffset() {
			return 0, c.impossible(ErrDeletedOnMaster, next)
		}
		if next > c.m.src.MaxPhyOffset() {
			return 0, c.impossible(ErrSlaveAhead, next)
		}
		if err != nil {
			return 0, fmt.Errorf("read the log at physical offset %d to send it: %w", next, err)
		}
		if next < end { // else this would spin: Grown does not wait
			return 0, fmt.Errorf("the log ends at %d, but holds nothing at %d to send", end, next)
		}
		return 0, nil
	}
	p = p[:min(len(p), c.m.o.WriteSize)]
	c.sent.Store(next + int64(len(p)))
	if err := c.wire.send(next, p); err != nil {
		return 0, c.writeError(err)
	}
	c.bytes.Add(int64(len(p)))
	return len(p), nil
}

func (c *conn) writeError(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("a write to the slave took longer than %v: %w", c.m.o.WriteTimeout, ErrSlow)
	}
	return fmt.Errorf("write to the slave: %w", err)
}

func (c *conn) stats(end int64) ConnectionStats {
	s := ConnectionStats{Peer: c.peer, Extended: c.extended, Since: c.born, Bytes: c.bytes.Load(), Lag: end}
	if c.reported.Load() {
		s.Reported, s.Ack, s.Sent = true, c.ack.Load(), c.sent.Load()
		s.Lag = max(0, end-s.Ack)
	}
	return s
}

// classicSender writes classic frames, many of them with one system call (writev) and straight from the log's mapping.
type classicSender struct {
	nc      net.Conn
	batch   int
	timeout time.Duration
	headers []byte
	parts   [][]byte
	left    net.Buffers // of parts: what WriteTo has still to write
}

func (s *classicSender) heartbeat(phyOffset int64) error { return s.send(phyOffset, nil) }

func (s *classicSender) send(phyOffset int64, p []byte) error {
	n := max(1, (len(p)+s.batch-1)/s.batch)
	if cap(s.headers) < n*frameHeaderSize {
		s.headers = make([]byte, n*frameHeaderSize)
	}
	s.parts = s.parts[:0]
	for i := range n {
		body := p[:min(len(p), s.batch)]
		p = p[len(body):]
		h := s.headers[i*frameHeaderSize : (i+1)*frameHeaderSize : (i+1)*frameHeaderSize]
		putFrameHeader(h, phyOffset, len(body))
		phyOffset += int64(len(body))
		s.parts = append(s.parts, h)
		if len(body) > 0 {
			s.parts = append(s.parts, body)
		}
	}
	if err := s.nc.SetWriteDeadline(time.Now().Add(s.timeout)); err != nil {
		return err
	}
	s.left = s.parts
	_, err := s.left.WriteTo(s.nc)
	return err
}

type classicReports struct{ reports }

func (r *classicReports) take(p []byte) (phyOffset int64, ok bool, err error) {
	phyOffset, ok = r.feed(p)
	return phyOffset, ok, nil
}

func readError(what string, err error, silence time.Duration) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%s: %w", what, silentFor(silence))
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s: %w", what, ErrEOF)
	}
	return fmt.Errorf("%s: %w", what, err)
}
