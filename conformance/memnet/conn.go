package memnet

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// pipeSize is how much one direction of a connection takes before the writer must wait.
const pipeSize = 256 << 10

// ErrReset is what both ends of a broken connection get.
var ErrReset = errors.New("connection reset by peer")

// pipe is one direction of a connection: what was written, and when each part arrives.
type pipe struct {
	mu      sync.Mutex
	cond    *sync.Cond
	parts   []part
	size    int
	eof     bool // no more will be written
	broken  error
	held    bool // nothing arrives
	readBy  time.Time
	writeBy time.Time
	last    time.Time // no part overtakes another
	cut     int64     // break after so many bytes; -1 = never
	passed  int64
	reads   int
	mangle  func(off int64, b []byte)

	driven  bool
	allowed int // of size, in a driven network
	seen    bool
}

type part struct {
	at time.Time
	b  []byte
}

func newPipe(driven bool) *pipe {
	p := &pipe{cut: -1, driven: driven}
	p.cond = sync.NewCond(&p.mu)
	return p
}

func (p *pipe) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	p.cond.Broadcast()
}

// waitLocked waits for a change, or until t.
func (p *pipe) waitLocked(t time.Time) {
	if !t.IsZero() {
		defer time.AfterFunc(time.Until(t), func() { p.set(func() {}) }).Stop()
	}
	p.cond.Wait()
}

// arrivedLocked is how many bytes of the first part may be read.
func (p *pipe) arrivedLocked() int {
	switch {
	case len(p.parts) == 0 || p.held:
		return 0
	case p.driven:
		return min(p.allowed, len(p.parts[0].b))
	case time.Now().Before(p.parts[0].at):
		return 0
	}
	return len(p.parts[0].b)
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func passed(deadline time.Time) bool { return !deadline.IsZero() && !time.Now().Before(deadline) }

// Conn is one end of a connection.
type Conn struct {
	Number   int    // of the dial, from 1
	From, To string // who dialed (Network.Dialer), and which address

	n       *Network
	in, out *pipe
	other   *Conn
	remote  addr
	closed  atomic.Bool
	drop    func() // of the client's end
}

// Other is the other end.
func (c *Conn) Other() *Conn { return c.other }

// Hold keeps back what this end writes, or lets it go.
func (c *Conn) Hold(held bool) { c.out.set(func() { c.out.held = held }) }

// CutAfter ends the connection when this end has written n bytes, all of which arrive.
func (c *Conn) CutAfter(n int64) { c.out.set(func() { c.out.cut = n }) }

// Mangle has f change what this end writes, on its way: off is how many bytes it wrote before.
func (c *Conn) Mangle(f func(off int64, b []byte)) { c.out.set(func() { c.out.mangle = f }) }

// Sent is how many bytes this end has written.
func (c *Conn) Sent() int64 { c.out.mu.Lock(); defer c.out.mu.Unlock(); return c.out.passed }

// Reads is how often this end was read from.
func (c *Conn) Reads() int { c.in.mu.Lock(); defer c.in.mu.Unlock(); return c.in.reads }

// Read is net.Conn's.
func (c *Conn) Read(b []byte) (int, error) {
	p := c.in
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reads++
	for {
		arrived := p.arrivedLocked()
		switch {
		case c.closed.Load():
			return 0, net.ErrClosed
		case p.broken != nil:
			return 0, p.broken
		case passed(p.readBy):
			return 0, os.ErrDeadlineExceeded
		case arrived > 0:
			k := c.n.some(min(len(b), arrived))
			copy(b, p.parts[0].b[:k])
			if p.parts[0].b = p.parts[0].b[k:]; len(p.parts[0].b) == 0 {
				p.parts = p.parts[1:]
			}
			p.size -= k
			p.allowed -= min(k, p.allowed)
			p.cond.Broadcast()
			return k, nil
		case len(p.parts) == 0 && p.eof && (!p.driven || p.seen):
			return 0, io.EOF
		}
		next := p.readBy
		if len(p.parts) > 0 && !p.held && !p.driven {
			next = earlier(next, p.parts[0].at)
		}
		p.waitLocked(next)
	}
}

// Write is net.Conn's.
func (c *Conn) Write(b []byte) (n int, err error) {
	at, reset := c.n.arrival()
	if reset {
		c.Reset()
		return 0, ErrReset
	}
	p := c.out
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(b) > 0 {
		switch {
		case c.closed.Load():
			return n, net.ErrClosed
		case p.broken != nil:
			return n, p.broken
		case passed(p.writeBy):
			return n, os.ErrDeadlineExceeded
		case p.size >= pipeSize:
			p.waitLocked(p.writeBy)
			continue
		}
		k := min(len(b), pipeSize-p.size)
		if p.cut >= 0 {
			k = int(min(int64(k), p.cut-p.passed))
		}
		if k > 0 {
			chunk := append([]byte(nil), b[:k]...)
			if p.mangle != nil {
				p.mangle(p.passed, chunk)
			}
			if at.Before(p.last) {
				at = p.last
			}
			p.last = at
			p.parts = append(p.parts, part{at, chunk})
		}
		p.size += k
		p.passed += int64(k)
		n += k
		b = b[k:]
		p.cond.Broadcast()
		if p.cut >= 0 && p.passed >= p.cut {
			p.cut, p.eof = -1, true
			go c.hangUp()
			return n, ErrReset
		}
	}
	return n, nil
}

// hangUp ends the connection so that what was written still arrives.
func (c *Conn) hangUp() {
	c.in.set(func() { c.in.broken = ErrReset })
	c.out.set(func() { c.out.eof = true })
}

// Reset breaks the connection; what has not arrived is lost.
func (c *Conn) Reset() {
	for _, p := range []*pipe{c.in, c.out} {
		p.set(func() { p.broken = ErrReset })
	}
}

// Close lets what was written arrive.
func (c *Conn) Close() error {
	if c.closed.Swap(true) {
		return net.ErrClosed
	}
	c.hangUp()
	if c.drop != nil {
		c.drop()
	}
	return nil
}

// LocalAddr is the same for all.
func (c *Conn) LocalAddr() net.Addr { return addr("local") }

// RemoteAddr is the address that was dialed; at the server's end the client's host with a port of the connection's own, or "peer-" and the number of the dial if the client has no address.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline is net.Conn's.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline is net.Conn's.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.in.set(func() { c.in.readBy = t })
	return nil
}

// SetWriteDeadline is net.Conn's.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.out.set(func() { c.out.writeBy = t })
	return nil
}
