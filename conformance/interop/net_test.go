package interop

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
)

// freePort is a port that nobody listens on. It lies below those that systems give to connections, so that none of these takes it before it is used.
func freePort(t testing.TB) int { return freePorts(t, 0) }

var givenPorts struct {
	sync.Mutex
	ports map[int]bool
}

// freePorts is a port that is free together with those that are so far from it.
func freePorts(t testing.TB, around ...int) int {
	t.Helper()
	givenPorts.Lock()
	defer givenPorts.Unlock()
	if givenPorts.ports == nil {
		givenPorts.ports = map[int]bool{}
	}
	for range 1000 {
		port := 10_000 + rand.IntN(20_000)
		if slices.ContainsFunc(around, func(d int) bool { return givenPorts.ports[port+d] || !isFree(port+d) }) {
			continue
		}
		for _, d := range around {
			givenPorts.ports[port+d] = true
		}
		return port
	}
	t.Fatalf("no free ports at %v around any", around)
	return 0
}

func isFree(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		return false
	}
	l.Close()
	return true
}

// portless gives each engine what keeps it out of the others' way where nobody replicates: the original listens always, ours does not.
func portless(t testing.TB, version string, s settings) settings {
	s = s.with(nil)
	delete(s, "haListenPort")
	if version != ours {
		s["haListenPort"] = freePort(t)
	}
	return s
}

// proxy is a network between two processes that can be cut.
type proxy struct {
	l      net.Listener
	target string
	wg     sync.WaitGroup

	mu struct {
		sync.Mutex
		conns  map[net.Conn]bool
		closed bool
		limits []int64 // the next connections die after so many bytes from the master, one each
	}
}

func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{l: l, target: target}
	p.mu.conns = map[net.Conn]bool{}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		p.mu.closed = true
		p.mu.Unlock()
		p.cut()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.l.Addr().String() }

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.mu.conns {
		c.Close()
	}
}

// cutAfter lets the connections of now end, and each of the next ones after so many bytes from the master: in the middle of a frame, of a record, of a header.
func (p *proxy) cutAfter(bytes ...int64) {
	p.mu.Lock()
	p.mu.limits = bytes
	p.mu.Unlock()
	p.cut()
}

// bad reports how many connections are still to be cut.
func (p *proxy) bad() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.mu.limits)
}

func (p *proxy) track(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed {
		c.Close()
		return false
	}
	p.mu.conns[c] = true
	return true
}

func (p *proxy) drop(c net.Conn) {
	c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.mu.conns, c)
}

func (p *proxy) accept() {
	for {
		slave, err := p.l.Accept()
		if err != nil {
			return
		}
		master, err := net.Dial("tcp", p.target)
		if err != nil {
			slave.Close()
			continue
		}
		if !p.track(slave) || !p.track(master) {
			slave.Close()
			master.Close()
			return
		}
		p.mu.Lock()
		limit := int64(1 << 62)
		if len(p.mu.limits) > 0 {
			limit, p.mu.limits = p.mu.limits[0], p.mu.limits[1:]
		}
		p.mu.Unlock()
		p.wg.Go(func() {
			defer p.drop(slave)
			defer p.drop(master)
			_, _ = io.CopyN(slave, master, limit)
		})
		p.wg.Go(func() {
			defer p.drop(slave)
			defer p.drop(master)
			_, _ = io.Copy(master, slave)
		})
	}
}
