package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Network is addresses, listeners and connections in memory. Its waiting is by conditions and timers, so that a synctest bubble's time drives it. It can delay, reset, part, and hold back one direction.
type Network struct {
	mu struct {
		sync.Mutex
		latency   time.Duration
		rng       *rand.Rand // nil: bytes arrive as they were written
		resetRate float64    // of writes
		parted    time.Time  // until then nothing arrives
		listeners map[string]*listener
		held      map[string]bool // addresses whose clients' bytes do not arrive
		conns     map[*conn]bool  // the clients' ends
		dials     int
	}
}

// NewNetwork returns a network on which nothing goes wrong. It belongs to the bubble that made it.
func NewNetwork() *Network {
	n := new(Network)
	n.mu.listeners, n.mu.held, n.mu.conns = map[string]*listener{}, map[string]bool{}, map[*conn]bool{}
	return n
}

// Seed makes reads short at random, and resets the connection at the given part of all writes.
func (n *Network) Seed(seed uint64, resetRate float64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.rng, n.mu.resetRate = rand.New(rand.NewPCG(seed, 2)), resetRate
}

// SetLatency delays everything written from now on.
func (n *Network) SetLatency(d time.Duration) { n.mu.Lock(); defer n.mu.Unlock(); n.mu.latency = d }

// Part lets nothing arrive for d; what is sent meanwhile arrives then.
func (n *Network) Part(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.parted = time.Now().Add(d)
}

// Hold keeps back what clients write to address, in connections that are and that come, or lets it go.
func (n *Network) Hold(address string, held bool) {
	n.mu.Lock()
	n.mu.held[address] = held
	n.mu.Unlock()
	for _, c := range n.to(address) {
		c.out.set(func() { c.out.held = held })
	}
}

// Reset breaks all connections to address.
func (n *Network) Reset(address string) {
	for _, c := range n.to(address) {
		c.reset()
	}
}

// to is the clients' ends of connections to address. A pipe's lock goes before the network's.
func (n *Network) to(address string) (conns []*conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.mu.conns {
		if c.remote == memAddr(address) {
			conns = append(conns, c)
		}
	}
	return conns
}

// Dials is how many connections were tried.
func (n *Network) Dials() int { n.mu.Lock(); defer n.mu.Unlock(); return n.mu.dials }

// arrival is when what is sent now arrives; reset: never, the connection breaks.
func (n *Network) arrival() (at time.Time, reset bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	if n.mu.parted.After(now) {
		now = n.mu.parted
	}
	return now.Add(n.mu.latency), n.mu.rng != nil && n.mu.rng.Float64() < n.mu.resetRate
}

// some is how many of k bytes a read returns.
func (n *Network) some(k int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.rng == nil || k < 2 || n.mu.rng.IntN(2) == 0 {
		return k
	}
	return 1 + n.mu.rng.IntN(k)
}

type memAddr string

func (a memAddr) Network() string { return "memory" }
func (a memAddr) String() string  { return string(a) }

type listener struct {
	n       *Network
	address string
	backlog chan *conn
	once    sync.Once
	closed  chan struct{}
}

// Listen takes an address, from whoever had it.
func (n *Network) Listen(address string) net.Listener {
	l := &listener{n: n, address: address, backlog: make(chan *conn, 1024), closed: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.listeners[address] = l
	return l
}

func (l *listener) Addr() net.Addr { return memAddr(l.address) }

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.backlog:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		l.n.mu.Lock()
		if l.n.mu.listeners[l.address] == l {
			delete(l.n.mu.listeners, l.address)
		}
		l.n.mu.Unlock()
		close(l.closed)
	})
	return nil
}

// Dial connects to address, as net.Dialer.DialContext.
func (n *Network) Dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	wait := max(0, time.Until(n.mu.parted)) + 2*n.mu.latency
	n.mu.dials++
	number := n.mu.dials
	n.mu.Unlock()
	if wait > 0 {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("dial %s: %w", address, ctx.Err())
		case <-time.After(wait):
		}
	}
	up, down := newPipe(), newPipe()
	client := &conn{n: n, in: down, out: up, remote: memAddr(address)}
	server := &conn{n: n, in: up, out: down, remote: memAddr(fmt.Sprintf("peer-%d", number))}
	client.drop = func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.mu.conns, client)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.mu.listeners[address]
	if l == nil {
		return nil, fmt.Errorf("dial %s: connection refused", address)
	}
	select {
	case l.backlog <- server:
	default:
		return nil, fmt.Errorf("dial %s: the listener's backlog is full", address)
	}
	up.held = n.mu.held[address]
	n.mu.conns[client] = true
	return client, nil
}

// pipeSize is how much one direction of a connection takes before the writer must wait.
const pipeSize = 256 << 10

var errReset = errors.New("connection reset by peer")

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
}

type part struct {
	at time.Time
	b  []byte
}

func newPipe() *pipe {
	p := new(pipe)
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

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func passed(deadline time.Time) bool { return !deadline.IsZero() && !time.Now().Before(deadline) }

type conn struct {
	n       *Network
	in, out *pipe
	remote  memAddr
	closed  atomic.Bool
	drop    func() // of the client's end
}

func (c *conn) Read(b []byte) (int, error) {
	p := c.in
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		arrived := len(p.parts) > 0 && !p.held && !time.Now().Before(p.parts[0].at)
		switch {
		case c.closed.Load():
			return 0, net.ErrClosed
		case p.broken != nil:
			return 0, p.broken
		case passed(p.readBy):
			return 0, os.ErrDeadlineExceeded
		case arrived:
			k := c.n.some(min(len(b), len(p.parts[0].b)))
			copy(b, p.parts[0].b[:k])
			if p.parts[0].b = p.parts[0].b[k:]; len(p.parts[0].b) == 0 {
				p.parts = p.parts[1:]
			}
			p.size -= k
			p.cond.Broadcast()
			return k, nil
		case len(p.parts) == 0 && p.eof:
			return 0, io.EOF
		}
		next := p.readBy
		if len(p.parts) > 0 && !p.held {
			next = earlier(next, p.parts[0].at)
		}
		p.waitLocked(next)
	}
}

func (c *conn) Write(b []byte) (n int, err error) {
	at, reset := c.n.arrival()
	if reset {
		c.reset()
		return 0, errReset
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
		if at.Before(p.last) {
			at = p.last
		}
		p.last = at
		p.parts = append(p.parts, part{at, append([]byte(nil), b[:k]...)})
		p.size += k
		n += k
		b = b[k:]
		p.cond.Broadcast()
	}
	return n, nil
}

func (c *conn) reset() {
	for _, p := range []*pipe{c.in, c.out} {
		p.set(func() { p.broken = errReset })
	}
}

// Close lets what was written arrive.
func (c *conn) Close() error {
	if c.closed.Swap(true) {
		return net.ErrClosed
	}
	c.in.set(func() { c.in.broken = errReset })
	c.out.set(func() { c.out.eof = true })
	if c.drop != nil {
		c.drop()
	}
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return memAddr("local") }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.set(func() { c.in.readBy = t })
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.out.set(func() { c.out.writeBy = t })
	return nil
}
