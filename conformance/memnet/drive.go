package memnet

import "slices"

// Drive makes the network do nothing by itself: each dial waits for Call.Connect, and of what is written nothing arrives before Conn.Deliver. Connections that are there already go on as they were.
func (n *Network) Drive() { n.mu.Lock(); defer n.mu.Unlock(); n.mu.driven = true }

// Call is a dial that waits, in a driven network.
type Call struct {
	Number   int
	From, To string
	n        *Network
	answer   chan struct{}
}

// Calls is the dials that wait, oldest first. They wait no longer than their context.
func (n *Network) Calls() []*Call { n.mu.Lock(); defer n.mu.Unlock(); return slices.Clone(n.mu.calls) }

// Connect lets the dial go on: it succeeds if somebody listens. Once.
func (c *Call) Connect() { close(c.answer) }

func (c *Call) end() {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	c.n.mu.calls = slices.DeleteFunc(c.n.mu.calls, func(x *Call) bool { return x == c })
}

// Pending is what the other end has written, in a driven network, and this one may not read yet: so many bytes, and whether the end of all comes after them.
func (c *Conn) Pending() (n int, eof bool) {
	p := c.in
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken != nil || c.closed.Load() {
		return 0, false
	}
	return p.size - p.allowed, p.eof && !p.seen
}

// Deliver lets n more bytes arrive at this end; when they are all, the end too, if there is one.
func (c *Conn) Deliver(n int) {
	p := c.in
	p.set(func() {
		p.allowed = min(p.size, p.allowed+n)
		p.seen = p.eof && p.allowed == p.size
	})
}
