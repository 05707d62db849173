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

	"github.com/mqstore/mqstore/conformance/memnet"
)

const envSlave = "MQSTORE_BENCH_SLAVE_OF" // a master's address: this process is a benchmark's slave

var benchSlave func(address string) error // where there are benchmarks

func TestMain(m *testing.M) {
	if address := os.Getenv(envSlave); address != "" {
		if err := benchSlave(address); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

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
func startMaster(t *testing.T, n *memnet.Network, address string, src Source, o MasterOptions) *Master {
	t.Helper()
	m, err := NewMaster(src, o)
	if err != nil {
		t.Fatal(err)
	}
	l := n.Listen(address)
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
func startSlave(t *testing.T, n *memnet.Network, target Target, o SlaveOptions) (s *Slave, stop func()) {
	t.Helper()
	if o.Master == "" {
		o.Master = "master:1"
	}
	if o.Dial == nil {
		o.Dial = n.Dial
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
func rawDial(t *testing.T, n *memnet.Network) *memnet.Conn {
	t.Helper()
	c, err := n.Dial(t.Context(), "", "master:1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.(*memnet.Conn)
}

func bubble(t *testing.T, f func(t *testing.T)) { t.Helper(); synctest.Test(t, f) }

// readFor reads what comes within d and returns it as frames "offset:length", then how the connection is: "[open]" or "[closed]".
func readFor(c *memnet.Conn, d time.Duration) string {
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
