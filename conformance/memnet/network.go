package memnet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"
)

// Network is addresses and what connects them. It belongs to the bubble that made it. All methods may be called by many goroutines.
type Network struct {
	mu struct {
		sync.Mutex
		latency   time.Duration
		rng       *rand.Rand // nil: bytes arrive as they were written
		resetRate float64    // of writes
		parted    time.Time  // until then nothing arrives
		driven    bool
		listeners map[string]*listener
		held      map[string]bool // addresses whose clients' bytes do not arrive
		conns     []*Conn         // the clients' ends, until they are closed; in a driven network until both are
		calls     []*Call
		dials     int
		onDial    func(number int, client, server *Conn)
	}
}

// New returns a network on which nothing goes wrong.
func New() *Network {
	n := new(Network)
	n.mu.listeners, n.mu.held = map[string]*listener{}, map[string]bool{}
	return n
}

// Seed makes reads short at random, and resets the connection at the given part of all writes.
func (n *Network) Seed(seed uint64, resetRate float64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.rng, n.mu.resetRate = rand.New(rand.NewPCG(seed, 2)), resetRate
}

// Calm ends the resets.
func (n *Network) Calm() { n.mu.Lock(); defer n.mu.Unlock(); n.mu.resetRate = 0 }

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
		c.Hold(held)
	}
}

// Reset breaks all connections to address.
func (n *Network) Reset(address string) {
	for _, c := range n.to(address) {
		c.Reset()
	}
}

// OnDial has f called for each connection before the listener sees it; number counts the dials, from 1.
func (n *Network) OnDial(f func(number int, client, server *Conn)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.onDial = f
}

// Dials is how many connections were tried.
func (n *Network) Dials() int { n.mu.Lock(); defer n.mu.Unlock(); return n.mu.dials }

// Conns is the clients' ends of the connections that no client has closed, in a driven network of those that are not closed at both ends; in the order of their dials.
func (n *Network) Conns() []*Conn {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.mu.conns)
}

// to is the clients' ends of connections to address. A pipe's lock goes before the network's.
func (n *Network) to(address string) (conns []*Conn) {
	for _, c := range n.Conns() {
		if c.remote == addr(address) {
			conns = append(conns, c)
		}
	}
	return conns
}

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

type addr string

func (a addr) Network() string { return "memory" }
func (a addr) String() string  { return string(a) }

type listener struct {
	n       *Network
	address string
	backlog chan *Conn
	once    sync.Once
	closed  chan struct{}
}

// Listen takes an address, from whoever had it.
func (n *Network) Listen(address string) net.Listener {
	l := &listener{n: n, address: address, backlog: make(chan *Conn, 20000), closed: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.listeners[address] = l
	return l
}

func (l *listener) Addr() net.Addr { return addr(l.address) }

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
func (n *Network) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return n.Dialer("")(ctx, network, address)
}

// Dialer is Dial for one who has an address himself, which Conn.From and Call.From tell.
func (n *Network) Dialer(from string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		n.mu.Lock()
		n.mu.dials++
		number := n.mu.dials
		wait := max(0, time.Until(n.mu.parted)) + 2*n.mu.latency
		var call *Call
		if n.mu.driven {
			call = &Call{Number: number, From: from, To: address, n: n, answer: make(chan struct{})}
			n.mu.calls = append(n.mu.calls, call)
		}
		n.mu.Unlock()
		if call != nil {
			defer call.end()
			select {
			case <-ctx.Done():
				return nil, fmt.Errorf("dial %s: %w", address, ctx.Err())
			case <-call.answer:
			}
		} else if wait > 0 {
			select {
			case <-ctx.Done():
				return nil, fmt.Errorf("dial %s: %w", address, ctx.Err())
			case <-time.After(wait):
			}
		}
		c, err := n.connect(number, from, address)
		if err != nil {
			return nil, fmt.Errorf("dial %s: %w", address, err)
		}
		return c, nil
	}
}

var (
	errRefused = errors.New("connection refused")
	errBacklog = errors.New("the listener's backlog is full")
)

// peerAddr is what a server sees of a client: its host with a port of this connection.
func peerAddr(from string, number int) addr {
	host, _, err := net.SplitHostPort(from)
	if err != nil {
		return addr(fmt.Sprintf("peer-%d", number))
	}
	return addr(net.JoinHostPort(host, fmt.Sprint(20000+number)))
}

func (n *Network) connect(number int, from, address string) (*Conn, error) {
	n.mu.Lock()
	l, onDial, driven, held := n.mu.listeners[address], n.mu.onDial, n.mu.driven, n.mu.held[address]
	n.mu.Unlock()
	if l == nil {
		return nil, errRefused
	}
	up, down := newPipe(driven), newPipe(driven)
	client := &Conn{Number: number, From: from, To: address, n: n, in: down, out: up, remote: addr(address)}
	server := &Conn{Number: number, From: from, To: address, n: n, in: up, out: down, remote: peerAddr(from, number)}
	client.other, server.other = server, client
	client.drop = func() {
		if driven && !(client.closed.Load() && server.closed.Load()) {
			return // what it wrote has still to be delivered
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.mu.conns = slices.DeleteFunc(n.mu.conns, func(c *Conn) bool { return c == client })
	}
	if driven {
		server.drop = client.drop
	}
	up.held = held
	if onDial != nil {
		onDial(number, client, server)
	}
	n.mu.Lock()
	n.mu.conns = append(n.mu.conns, client)
	n.mu.Unlock()
	select {
	case l.backlog <- server:
		return client, nil
	default:
		server.Close()
		client.Close()
		return nil, errBacklog
	}
}
