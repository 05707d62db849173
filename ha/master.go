package ha

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Master serves a Source to slaves and knows what they hold. Its methods may be called by many goroutines at the same time.
//
// Each connection has one goroutine that reads and one that writes; none waits for another connection's. Close ends them all.
type Master struct {
	o    MasterOptions
	src  Source
	acks ackTable

	storeID identity
	strays  strays

	wg sync.WaitGroup // a goroutine of each connection

	closed            chan struct{}
	accepted, refused atomic.Int64
	fullEvent         atomic.Int64 // when ErrTooManyConnections was last reported, ns

	mu struct {
		sync.Mutex
		closing   bool
		listeners map[net.Listener]bool
		conns     map[*conn]bool
	}
}

// NewMaster returns a master of src, without connections until Serve is called.
func NewMaster(src Source, o MasterOptions) (*Master, error) {
	o, err := o.check()
	if err != nil {
		return nil, err
	}
	m := &Master{o: o, src: src, closed: make(chan struct{})}
	if o.Extended != nil {
		m.storeID.set(o.Extended.StoreID)
	}
	m.acks.init(src, o.RequiredAcks, o.FallBehindMax)
	m.mu.listeners, m.mu.conns = make(map[net.Listener]bool), make(map[*conn]bool)
	return m, nil
}

// SetStoreID says which store this is, once that is known, for extended handshakes from now on.
func (m *Master) SetStoreID(id [16]byte) { m.storeID.set(id) }

// Copied says whether the log is itself a copy that grows by another master's bytes: then a slave that is ahead may only have got more of the same, and may follow later. On a master of its own, which is the default,
// what such a slave has beyond the log's end is nobody's: it is refused also when the log has grown past it, with ErrDiverged. (On the classic protocol; on the extended one sums tell.)
func (m *Master) Copied(on bool) { m.strays.copied(on) }

// Serve accepts slaves that speak the classic protocol until Close, then returns nil (also if Close was before); it returns early, and closes l, when l fails for good. An l that listens to more than
// loopback is reported as a Warning: whoever reaches it can read the log.
func (m *Master) Serve(l net.Listener) error {
	if a, ok := l.Addr().(*net.TCPAddr); ok && !a.IP.IsLoopback() {
		m.o.Events.Warning(a.String(), fmt.Errorf("%w: whoever reaches it can read the whole log and acknowledge what it does not keep", ErrOpenToWorld))
	}
	return m.serve(l, false)
}

// ServeExtended is Serve for the extended protocol, which MasterOptions.Extended describes.
func (m *Master) ServeExtended(l net.Listener) error {
	if m.o.Extended == nil {
		l.Close()
		return errors.New("ha master: Options.Extended is not set")
	}
	return m.serve(l, true)
}

func (m *Master) serve(l net.Listener, extended bool) error {
	defer l.Close()
	if !m.listening(l) {
		return nil
	}
	defer m.stopListening(l)
	var wait time.Duration
	for {
		nc, err := l.Accept()
		if err == nil {
			wait = 0
			m.admit(nc, extended)
			continue
		}
		select {
		case <-m.closed:
			return nil
		default:
		}
		if !passing(err) {
			return fmt.Errorf("accept on %v: %w", l.Addr(), err)
		}
		m.o.Events.Warning(l.Addr().String(), fmt.Errorf("accept: %w", err))
		wait = min(max(2*wait, 5*time.Millisecond), time.Second)
		select {
		case <-m.closed:
			return nil
		case <-time.After(wait):
		}
	}
}

// passing reports whether accept may work again later.
func passing(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.ECONNABORTED, syscall.EINTR} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (m *Master) listening(l net.Listener) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.mu.closing {
		m.mu.listeners[l] = true
	}
	return !m.mu.closing
}

func (m *Master) stopListening(l net.Listener) {
	m.mu.Lock()
	delete(m.mu.listeners, l)
	m.mu.Unlock()
}

// admit starts a connection, or closes nc when there are too many. A connection that has said nothing for longer than a slave needs for its first report makes room.
func (m *Master) admit(nc net.Conn, extended bool) {
	m.accepted.Add(1)
	c := newConn(m, nc, extended)
	var silent *conn
	m.mu.Lock()
	full := len(m.mu.conns) >= m.o.MaxConnections
	if full {
		silent = longestSilent(m.mu.conns, c.born)
	}
	admitted := !m.mu.closing && (!full || silent != nil)
	if silent != nil {
		delete(m.mu.conns, silent)
	}
	if admitted {
		m.mu.conns[c] = true
		m.wg.Add(1)
	}
	m.mu.Unlock()
	if full {
		m.tooMany(c.peer)
	}
	if silent != nil {
		silent.close(fmt.Errorf("it said nothing for %v and made room: %w", c.born.Sub(silent.born).Round(time.Second), ErrTooManyConnections))
	}
	if !admitted {
		nc.Close()
		return
	}
	go c.run()
}

func longestSilent(conns map[*conn]bool, now time.Time) (silent *conn) {
	for c := range conns {
		patience := firstReportAfter
		if c.extended {
			patience = greetedAfter
		}
		if !c.reported.Load() && now.Sub(c.born) > patience && (silent == nil || c.born.Before(silent.born)) {
			silent = c
		}
	}
	return silent
}

// tooMany counts, and reports at most once a second.
func (m *Master) tooMany(peer string) {
	m.refused.Add(1)
	now := time.Now().UnixNano()
	last := m.fullEvent.Load()
	if now-last >= int64(time.Second) && m.fullEvent.CompareAndSwap(last, now) {
		m.o.Events.Refused(peer, fmt.Errorf("%w: Options.MaxConnections is %d", ErrTooManyConnections, m.o.MaxConnections))
	}
}

func (m *Master) forget(c *conn) {
	m.mu.Lock()
	delete(m.mu.conns, c)
	m.mu.Unlock()
}

// Close ends all listeners and connections, wakes who waits with ErrClosed, and returns when no goroutine of the master is left but those in Serve, which return then.
func (m *Master) Close() error {
	m.mu.Lock()
	first := !m.mu.closing
	m.mu.closing = true
	var listeners []net.Listener
	for l := range m.mu.listeners {
		listeners = append(listeners, l)
	}
	var conns []*conn
	for c := range m.mu.conns {
		conns = append(conns, c)
	}
	m.mu.Unlock()
	if first {
		close(m.closed)
	}
	for _, l := range listeners {
		l.Close()
	}
	for _, c := range conns {
		c.close(ErrClosed)
	}
	m.acks.close(ErrClosed)
	m.wg.Wait()
	return nil
}

// WaitAcked returns nil once RequiredAcks slaves hold all below phyOffset; else the cause of ctx's end, or ErrClosed. Requests are served as acknowledgements
// arrive, whatever came first: one whose slave is stuck delays no other. It returns at once, without allocating, when the offset is acknowledged already.
func (m *Master) WaitAcked(ctx context.Context, phyOffset int64) error {
	return m.acks.wait(ctx, phyOffset)
}

// Acked reports whether WaitAcked would return nil at once.
func (m *Master) Acked(phyOffset int64) bool { return m.acks.acked(phyOffset) }

// MaxAck is the highest offset that any slave has acknowledged since the master was made, also if it is gone (push2SlaveMaxOffset).
func (m *Master) MaxAck() int64 { return m.acks.highest.Load() }

// SlaveOK reports whether a put that ends at phyOffset should wait for its acknowledgement (isSlaveOK, spec/ha-protocol.md 6.9): RequiredAcks slaves are connected and less than FallBehindMax behind it.
// If not, its status is SlaveNotAvailable. A connection that has not reported yet counts as a slave that holds nothing. Unlike the original's, the acknowledgements of slaves that are gone make none near.
func (m *Master) SlaveOK(phyOffset int64) bool { return m.acks.slaveOK(phyOffset) }

// SlaveFallBehind is how many bytes the connected slave that is furthest lacks; all of the log when there is none.
func (m *Master) SlaveFallBehind() int64 { return m.acks.behind() }

// ConfirmPhyOffset is the offset below which required slaves hold everything, or held it at one moment; it is what consumers may see. While fewer than required slaves
// have reported and are within FallBehindMax of the log's end, it is the log's end: puts do not wait then either. It can fall when such a slave appears.
func (m *Master) ConfirmPhyOffset(required int) int64 { return m.acks.confirm(required) }

// ConfirmedPast returns a channel that is closed when ConfirmPhyOffset(required) > past, and perhaps earlier: look, and ask again. It stays open when the master is closed without slaves.
func (m *Master) ConfirmedPast(required int, past int64) <-chan struct{} {
	return m.acks.confirmedPast(required, past)
}

// WakeConfirmed closes the channels of ConfirmedPast, so that those who wait look whether they still have to.
func (m *Master) WakeConfirmed() { m.acks.wakeConfirmed() }
