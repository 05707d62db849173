package ha

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memLog is a log in memory: a Source and a Target. An empty log has min = max = 0.
type memLog struct {
	segment int64
	held    atomic.Int64 // views that are not released
	mu      struct {
		sync.Mutex
		min, end, flushed int64
		base              int64 // offset of b[0]
		b                 []byte
		grown, flushedCh  map[int64]chan struct{}
		failAppend        error
		lazyFlush         bool // flush only when told
	}
}

func newMemLog(segment int64) *memLog {
	l := &memLog{segment: segment}
	l.mu.grown, l.mu.flushedCh = map[int64]chan struct{}{}, map[int64]chan struct{}{}
	return l
}

// newMemLogAt holds n random bytes from min on, without records.
func newMemLogAt(segment, min int64, n int, seed uint64) *memLog {
	l := newMemLog(segment)
	l.mu.min, l.mu.base, l.mu.end = min, min, min
	l.append(randomBytes(seed, n))
	return l
}

func randomBytes(seed uint64, n int) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// append adds a record and returns the log's end.
func (l *memLog) append(p []byte) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.appendLocked(p)
}

func (l *memLog) appendLocked(p []byte) int64 {
	l.mu.b = append(l.mu.b, p...)
	l.mu.end += int64(len(p))
	fire(l.mu.grown, l.mu.end)
	if !l.mu.lazyFlush {
		l.mu.flushed = l.mu.end
		fire(l.mu.flushedCh, l.mu.end)
	}
	return l.mu.end
}

func fire(waits map[int64]chan struct{}, v int64) {
	for past, ch := range waits {
		if v > past {
			close(ch)
			delete(waits, past)
		}
	}
}

func past(waits map[int64]chan struct{}, v, past int64) <-chan struct{} {
	ch := waits[past]
	if ch == nil {
		ch = make(chan struct{})
		waits[past] = ch
	}
	fire(waits, v)
	return ch
}

func (l *memLog) Grown(p int64) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return past(l.mu.grown, l.mu.end, p)
}

func (l *memLog) FlushedPast(p int64) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return past(l.mu.flushedCh, l.mu.flushed, p)
}

func (l *memLog) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.flushed = l.mu.end
	fire(l.mu.flushedCh, l.mu.end)
}

func (l *memLog) Read(phyOffset int64, max int) ([]byte, func(), error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if phyOffset < l.mu.min || phyOffset > l.mu.end {
		return nil, nil, fmt.Errorf("physical offset %d is not in [%d, %d)", phyOffset, l.mu.min, l.mu.end)
	}
	end := min(phyOffset+int64(max), l.mu.end, phyOffset-phyOffset%l.segment+l.segment)
	if end == phyOffset {
		return nil, nil, nil
	}
	l.held.Add(1)
	var once atomic.Bool
	return l.mu.b[phyOffset-l.mu.base : end-l.mu.base], func() {
		if once.Swap(true) {
			panic("view released twice")
		}
		l.held.Add(-1)
	}, nil
}

func (l *memLog) MinPhyOffset() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.min
}

func (l *memLog) MaxPhyOffset() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.end
}

func (l *memLog) FlushedPhyOffset() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.flushed
}

func (l *memLog) expire(min int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.min = min
}

func (l *memLog) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.failAppend = err
}

// AppendToCommitLog is as strict as the engine's: it continues, or an empty log begins at a segment's start.
func (l *memLog) AppendToCommitLog(phyOffset int64, p []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.mu.failAppend != nil:
		return l.mu.failAppend
	case len(l.mu.b) == 0 && phyOffset%l.segment == 0:
		l.mu.min, l.mu.base, l.mu.end = phyOffset, phyOffset, phyOffset
	case phyOffset != l.mu.end:
		return fmt.Errorf("append at %d, the log ends at %d", phyOffset, l.mu.end)
	}
	if len(p) > 0 && phyOffset/l.segment != (phyOffset+int64(len(p))-1)/l.segment {
		return fmt.Errorf("%d bytes at %d cross a segment's end", len(p), phyOffset)
	}
	l.appendLocked(p)
	return nil
}

// Tail sums the last 100 bytes: the log has no real records.
func (l *memLog) Tail() (phyOffset int64, size int, crc uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	size = min(100, len(l.mu.b))
	return l.mu.end - int64(size), size, crc32.Checksum(l.mu.b[len(l.mu.b)-size:], castagnoli)
}

func (l *memLog) bytes() (from int64, b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.base, l.mu.b[:len(l.mu.b):len(l.mu.b)]
}

// sameLog fails unless slave holds what master holds, from the slave's beginning on.
func sameLog(t *testing.T, master, slave *memLog) {
	t.Helper()
	mb, m := master.bytes()
	sb, s := slave.bytes()
	if len(s) == 0 && len(m) == 0 {
		return
	}
	if sb < mb || sb+int64(len(s)) != mb+int64(len(m)) {
		t.Fatalf("slave holds [%d, %d), master [%d, %d)", sb, sb+int64(len(s)), mb, mb+int64(len(m)))
	}
	if !bytes.Equal(m[sb-mb:], s) {
		t.Fatal("the slave's bytes are not the master's")
	}
}

// network is addresses, listeners and connections in memory, on which time is the bubble's. It can delay, reset and part.
type network struct {
	latency time.Duration
	mu      struct {
		sync.Mutex
		rng       *rand.Rand // nil = bytes arrive as they were written
		resetRate float64    // of writes
		parted    time.Time  // until then nothing arrives
		listeners map[string]*listener
		conns     []*memConn
		dials     int
		onDial    func(n int, client, server *memConn) // before the server sees it
	}
}

func newNetwork() *network {
	n := new(network)
	n.mu.listeners = map[string]*listener{}
	return n
}

func (n *network) seed(seed uint64, resetRate float64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.rng, n.mu.resetRate = rand.New(rand.NewPCG(seed, 2)), resetRate
}

func (n *network) calm() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.resetRate = 0
}

func (n *network) part(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.parted = time.Now().Add(d)
}

// arrival is when what is sent now arrives; reset: never, the connection breaks.
func (n *network) arrival() (at time.Time, reset bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	if n.mu.parted.After(now) {
		now = n.mu.parted
	}
	return now.Add(n.latency), n.mu.rng != nil && n.mu.rng.Float64() < n.mu.resetRate
}

// some is how many of n bytes a read returns.
func (n *network) some(k int) int {
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
	n       *network
	address string
	backlog chan *memConn
	once    sync.Once
	closed  chan struct{}
}

func (n *network) listen(address string) *listener {
	l := &listener{n: n, address: address, backlog: make(chan *memConn, 20000), closed: make(chan struct{})}
	n.mu.Lock()
	n.mu.listeners[address] = l
	n.mu.Unlock()
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

func (n *network) dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	wait := time.Until(n.mu.parted)
	l := n.mu.listeners[address]
	n.mu.dials++
	number, onDial := n.mu.dials, n.mu.onDial
	n.mu.Unlock()
	if wait > 0 || n.latency > 0 {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("dial %s: %w", address, ctx.Err())
		case <-time.After(max(0, wait) + 2*n.latency):
		}
	}
	if l == nil {
		return nil, fmt.Errorf("dial %s: connection refused", address)
	}
	up, down := newPipe(n), newPipe(n)
	client := &memConn{n: n, in: down, out: up, remote: memAddr(address)}
	server := &memConn{n: n, in: up, out: down, remote: memAddr(fmt.Sprintf("peer-%d", number))}
	client.other, server.other = server, client
	if onDial != nil {
		onDial(number, client, server)
	}
	n.mu.Lock()
	n.mu.conns = append(n.mu.conns, client)
	n.mu.Unlock()
	l.backlog <- server
	return client, nil
}

func (n *network) dialled() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.dials
}

const pipeSize = 256 << 10

var errReset = errors.New("connection reset by peer")

// pipe is one direction of a connection: what was written, and when each part arrives.
type pipe struct {
	mu       sync.Mutex
	cond     *sync.Cond
	parts    []part
	size     int
	eof      bool // no more will be written
	broken   error
	readBy   time.Time
	writeBy  time.Time
	cut      int64 // break after so many bytes; -1 = never
	passed   int64
	mangle   func(off int64, b []byte) // change bytes on their way
	held     bool                      // keep what is written back
	reads    int
	arrivals time.Time // no part overtakes another
}

type part struct {
	at time.Time
	b  []byte
}

func newPipe(n *network) *pipe {
	p := &pipe{cut: -1}
	p.cond = sync.NewCond(&p.mu)
	return p
}

func (p *pipe) wakeAt(t time.Time) *time.Timer {
	return time.AfterFunc(time.Until(t), func() {
		p.mu.Lock()
		p.cond.Broadcast()
		p.mu.Unlock()
	})
}

func (p *pipe) waitUntil(t time.Time) {
	if !t.IsZero() {
		defer p.wakeAt(t).Stop()
	}
	p.cond.Wait()
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

type memConn struct {
	n       *network
	in, out *pipe
	other   *memConn
	remote  net.Addr
	closed  atomic.Bool
}

func (c *memConn) Read(b []byte) (int, error) {
	p := c.in
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reads++
	for {
		now := time.Now()
		switch {
		case c.closed.Load():
			return 0, net.ErrClosed
		case p.broken != nil:
			return 0, p.broken
		case !p.readBy.IsZero() && !now.Before(p.readBy):
			return 0, os.ErrDeadlineExceeded
		case !p.held && len(p.parts) > 0 && !now.Before(p.parts[0].at):
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
		if !p.held && len(p.parts) > 0 {
			next = earlier(next, p.parts[0].at)
		}
		p.waitUntil(next)
	}
}

func (c *memConn) Write(b []byte) (n int, err error) {
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
		case !p.writeBy.IsZero() && !time.Now().Before(p.writeBy):
			return n, os.ErrDeadlineExceeded
		case p.size >= pipeSize:
			p.waitUntil(p.writeBy)
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
			if at.Before(p.arrivals) {
				at = p.arrivals
			}
			p.arrivals = at
			p.parts = append(p.parts, part{at, chunk})
		}
		p.size += k
		p.passed += int64(k)
		n += k
		b = b[k:]
		p.cond.Broadcast()
		if p.cut >= 0 && p.passed >= p.cut {
			p.eof = true
			p.cut = -1
			p.broken = nil
			go c.hangUp()
			return n, errReset
		}
	}
	return n, nil
}

// hangUp ends the connection so that what was written still arrives.
func (c *memConn) hangUp() {
	c.in.mu.Lock()
	c.in.broken = errReset
	c.in.cond.Broadcast()
	c.in.mu.Unlock()
	c.out.mu.Lock()
	c.out.eof = true
	c.out.cond.Broadcast()
	c.out.mu.Unlock()
}

func (c *memConn) reset() {
	for _, p := range []*pipe{c.in, c.out} {
		p.mu.Lock()
		p.broken = errReset
		p.cond.Broadcast()
		p.mu.Unlock()
	}
}

func (c *memConn) Close() error {
	if c.closed.Swap(true) {
		return net.ErrClosed
	}
	c.hangUp()
	return nil
}

func (c *memConn) hold(held bool) {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	c.out.held = held
	c.out.cond.Broadcast()
}

func (c *memConn) LocalAddr() net.Addr  { return memAddr("local") }
func (c *memConn) RemoteAddr() net.Addr { return c.remote }

func (c *memConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *memConn) SetReadDeadline(t time.Time) error {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	c.in.readBy = t
	c.in.cond.Broadcast()
	return nil
}

func (c *memConn) SetWriteDeadline(t time.Time) error {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	c.out.writeBy = t
	c.out.cond.Broadcast()
	return nil
}

// events keeps what was reported.
type events struct {
	mu struct {
		sync.Mutex
		lines []string
		errs  []error
	}
}

func (e *events) note(what, peer string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.lines = append(e.mu.lines, fmt.Sprintf("%s %s: %v", what, peer, err))
	if err != nil {
		e.mu.errs = append(e.mu.errs, err)
	}
}

func (e *events) events() Events {
	return Events{
		Connected:    func(peer string) { e.note("connected", peer, nil) },
		Disconnected: func(peer string, err error) { e.note("disconnected", peer, err) },
		Refused:      func(peer string, err error) { e.note("refused", peer, err) },
		Warning:      func(peer string, err error) { e.note("warning", peer, err) },
	}
}

func (e *events) has(target error) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, err := range e.mu.errs {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

func (e *events) count(what string) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range e.mu.lines {
		if strings.HasPrefix(l, what+" ") {
			n++
		}
	}
	return n
}

func (e *events) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.mu.lines, "\n")
}

// startMaster serves src at address "master" until the test's or bubble's end.
func startMaster(t *testing.T, n *network, address string, src Source, o MasterOptions) *Master {
	t.Helper()
	m, err := NewMaster(src, o)
	if err != nil {
		t.Fatal(err)
	}
	l := n.listen(address)
	var served sync.WaitGroup
	served.Go(func() {
		serve := m.Serve
		if o.Extended != nil {
			serve = m.ServeExtended
		}
		if err := serve(l); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(func() { m.Close(); served.Wait() })
	return m
}

// startSlave follows "master" (unless o says something else) until stop is called, or the test's or bubble's end.
func startSlave(t *testing.T, n *network, target Target, o SlaveOptions) (s *Slave, stop func()) {
	t.Helper()
	if o.Master == "" {
		o.Master = "master:1"
	}
	if o.Dial == nil {
		o.Dial = n.dial
	}
	s, err := NewSlave(target, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var ran sync.WaitGroup
	ran.Go(func() { s.Run(ctx) })
	stop = func() { cancel(); ran.Wait() }
	t.Cleanup(stop)
	return s, stop
}

// rawDial is a peer of the test's own making.
func rawDial(t *testing.T, n *network) *memConn {
	t.Helper()
	c, err := n.dial(t.Context(), "", "master:1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.(*memConn)
}

func bubble(t *testing.T, f func(t *testing.T)) { t.Helper(); synctest.Test(t, f) }

// readFor reads what comes within d and returns it as frames "offset:length", then how the connection is: "[open]" or "[closed]".
func readFor(c *memConn, d time.Duration) string {
	var all []byte
	buf := make([]byte, 64<<10)
	end := time.Now().Add(d)
	state := ""
	for state == "" {
		c.SetReadDeadline(end)
		k, err := c.Read(buf)
		all = append(all, buf[:k]...)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			state = "[open]"
		} else if err != nil {
			state = "[closed]"
		}
	}
	s, rest := frameList(all)
	if rest != 0 {
		s = append(s, fmt.Sprintf("+%d bytes", rest))
	}
	return strings.Join(append(s, state), " ")
}

func frameList(b []byte) (list []string, rest int) {
	for len(b) >= frameHeaderSize {
		off, n, err := parseFrameHeader(b, maxFrame)
		if err != nil || len(b) < frameHeaderSize+n {
			break
		}
		list = append(list, fmt.Sprintf("%d:%d", off, n))
		b = b[frameHeaderSize+n:]
	}
	return list, len(b)
}

func report(v int64) []byte {
	b := make([]byte, reportSize)
	putReport(b, v)
	return b
}

func write(t *testing.T, c net.Conn, b []byte) {
	t.Helper()
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
}

// seal makes the checksum at the end of b right.
func seal(b []byte) []byte {
	binary.BigEndian.PutUint32(b[len(b)-4:], crc32.Checksum(b[:len(b)-4], castagnoli))
	return b
}

// writeConn is a connection that only writes.
type writeConn struct {
	net.Conn
	w io.Writer
}

func (c *writeConn) Write(b []byte) (int, error)        { return c.w.Write(b) }
func (c *writeConn) SetWriteDeadline(t time.Time) error { return nil }
