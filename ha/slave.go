package ha

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Slave follows a master: it connects, reports how far its Target is, appends what comes, and begins again when a connection ends. Its methods may be called by many goroutines at the same time.
type Slave struct {
	o       SlaveOptions
	target  Target
	dialer  net.Dialer
	running atomic.Bool
	storeID identity

	state, lastRead, reported atomic.Int64
	bytes, frames             atomic.Int64

	mu struct {
		sync.Mutex
		master   string
		changed  chan struct{} // closed when master changes
		since    time.Time     // of state
		err      error
		storeID  [16]byte
		connects int64
		failures int64
		mismatch int64
	}
}

// NewSlave returns a slave that does nothing until Run.
func NewSlave(target Target, o SlaveOptions) (*Slave, error) {
	o, err := o.check()
	if err != nil {
		return nil, err
	}
	s := &Slave{o: o, target: target, dialer: net.Dialer{Timeout: o.Connect}}
	if s.o.Dial == nil {
		s.o.Dial = s.dialer.DialContext // TCP_NODELAY is on, linger off
	}
	if s.o.Jitter == nil {
		s.o.Jitter = rand.Float64
	}
	if o.Extended != nil {
		s.storeID.set(o.Extended.StoreID)
	}
	s.mu.changed = make(chan struct{})
	s.mu.master = o.Master
	return s, nil
}

// SetStoreID says which store this is, once that is known, for extended handshakes from now on.
func (s *Slave) SetStoreID(id [16]byte) { s.storeID.set(id) }

// SetMaster makes the slave follow address (host:port) from now on: a connection to another one is ended at once. "" = none, be idle.
func (s *Slave) SetMaster(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if address == s.mu.master {
		return
	}
	s.mu.master = address
	close(s.mu.changed)
	s.mu.changed = make(chan struct{})
}

func (s *Slave) master() (address string, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.master, s.mu.changed
}

// Stats is a snapshot.
func (s *Slave) Stats() SlaveStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := SlaveStats{
		State: State(s.state.Load()), Master: s.mu.master, MasterStoreID: s.mu.storeID, LastError: s.mu.err, Since: s.mu.since,
		Bytes: s.bytes.Load(), Frames: s.frames.Load(), Connects: s.mu.connects, Failures: s.mu.failures, Mismatches: s.mu.mismatch, Reported: s.reported.Load(),
	}
	if ns := s.lastRead.Load(); ns != 0 {
		st.LastRead = time.Unix(0, ns)
	}
	return st
}

func (s *Slave) setState(state State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Store(int64(state))
	s.mu.since = time.Now()
}

// Run follows masters until ctx is done, at once then, and returns the cause; nothing of it runs on. A failure never ends it: it is reported, and tried again after a back-off.
// It may be called again after it returned.
func (s *Slave) Run(ctx context.Context) error {
	if !s.running.CompareAndSwap(false, true) {
		return errors.New("ha slave: Run is running already")
	}
	defer s.running.Store(false)
	defer s.setState(Stopped)
	retry := s.o.RetryMin
	lastRefusal := ""
	for ctx.Err() == nil {
		address, changed := s.master()
		if address == "" {
			s.setState(Idle)
			select {
			case <-ctx.Done():
			case <-changed:
			}
			continue
		}
		a := s.attempt(ctx, address, changed)
		if ctx.Err() != nil {
			break
		}
		select {
		case <-changed:
			retry, lastRefusal = s.o.RetryMin, ""
			continue
		default:
		}
		s.failed(a)
		switch {
		case a.connected:
			lastRefusal = ""
			s.o.Events.Disconnected(address, a.err)
		case a.err.Error() != lastRefusal:
			lastRefusal = a.err.Error()
			s.o.Events.Refused(address, a.err)
		}
		if a.healthy.Load() {
			retry = s.o.RetryMin
		}
		s.setState(BackingOff)
		timer := time.NewTimer(retry/2 + time.Duration(s.o.Jitter()*float64(retry/2)))
		select {
		case <-ctx.Done():
		case <-changed:
			retry, lastRefusal = s.o.RetryMin, ""
		case <-timer.C:
			retry = min(2*retry, s.o.RetryMax)
		}
		timer.Stop()
	}
	return context.Cause(ctx)
}

func (s *Slave) failed(a *attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.err = a.err
	s.mu.failures++
	var mismatch *OffsetMismatchError
	if errors.As(a.err, &mismatch) {
		s.mu.mismatch++
	}
}

// attempt is one connection, from dialing to its end.
type attempt struct {
	s         *Slave
	address   string
	connected bool
	healthy   atomic.Bool // a frame was appended, or it outlived a heartbeat
	err       error       // why it ended

	nc    net.Conn // to read from and write to
	raw   net.Conn // below TLS, or the same
	born  time.Time
	input pieces

	write struct {
		sync.Mutex // held while a report is written: reports are whole and in order
		last       int64
		at         time.Time
		buf        [extReportSize]byte
	}
}

// attempt follows the master at address until ctx is done, changed is closed, or something fails.
func (s *Slave) attempt(parent context.Context, address string, changed <-chan struct{}) *attempt {
	ctx, cancel := context.WithCancel(parent)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-changed:
			cancel()
		case <-ctx.Done():
		}
	})
	defer watch.Wait()
	defer cancel()
	a := &attempt{s: s, address: address}
	s.setState(Connecting)
	a.err = a.run(ctx)
	return a
}

func (a *attempt) run(ctx context.Context) error {
	s, address := a.s, a.address
	s.o.Begin()
	if err := s.waitFlushed(ctx); err != nil {
		return err
	}
	dialing, cancel := context.WithTimeout(ctx, s.o.Connect)
	raw, err := s.o.Dial(dialing, "tcp", address)
	cancel()
	if err != nil {
		return fmt.Errorf("connect to the master: %w", err)
	}
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { raw.Close(); close(closed) })
	defer func() {
		if !stop() {
			<-closed
		}
	}()
	defer raw.Close()
	a.raw, a.nc = raw, raw
	a.born = time.Now()
	if err := a.greet(ctx, address); err != nil {
		return err
	}
	a.connected = true
	s.mu.Lock()
	s.mu.connects++
	s.mu.Unlock()
	s.setState(Following)
	s.o.Events.Connected(address)
	return a.follow()
}

// waitFlushed is for ReportFlushed: the first report says where to go on, which is the written end, so that must be flushed before.
func (s *Slave) waitFlushed(ctx context.Context) error {
	if !s.o.ReportFlushed {
		return nil
	}
	timer := time.NewTimer(s.o.FlushWait)
	defer timer.Stop()
	for {
		end, flushed := s.target.MaxPhyOffset(), s.target.FlushedPhyOffset()
		if flushed >= end {
			return nil
		}
		select {
		case <-s.o.FlushedPast(end - 1):
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			return fmt.Errorf("the log is written up to %d but still flushed only up to %d after %v: not connecting, since the first report would acknowledge it all", end, flushed, s.o.FlushWait)
		}
	}
}

func (a *attempt) greet(ctx context.Context, address string) error {
	s := a.s
	if s.o.Extended == nil {
		a.input = newFrames(a, s.o.ReadBuffer, s.o.MaxFrame)
		return nil
	}
	handshake, cancel := context.WithTimeout(ctx, s.o.Extended.Handshake)
	defer cancel()
	config := s.o.Extended.TLS
	if config.ServerName == "" && !config.InsecureSkipVerify {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return fmt.Errorf("master's address %q: %w", address, err)
		}
		config = config.Clone()
		config.ServerName = host
	}
	nc := tls.Client(a.raw, config)
	welcome, err := s.greetExtended(handshake, nc)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.mu.storeID = welcome.storeID
	s.mu.Unlock()
	if err := s.takeQueues(ctx, nc, address, &welcome); err != nil {
		return err
	}
	a.nc = nc
	a.input, err = newExtFrames(a, s.o.ReadBuffer, s.o.MaxFrame, welcome.flags&helloZstd != 0)
	return err
}

// Read reads from the master and minds the clock.
func (a *attempt) Read(p []byte) (int, error) {
	now := time.Now()
	if err := a.nc.SetReadDeadline(now.Add(a.s.o.Silence)); err != nil {
		return 0, err
	}
	n, err := a.nc.Read(p)
	if n > 0 {
		a.s.lastRead.Store(time.Now().UnixNano())
	}
	return n, err
}

// follow reports at once, then appends what comes and reports after each read; another goroutine sends heartbeats, and flushed offsets if those are reported.
func (a *attempt) follow() error {
	if x, ok := a.input.(*extFrames); ok {
		defer x.close()
	}
	if err := a.firstReport(); err != nil {
		return err
	}
	done := make(chan struct{})
	var reporter sync.WaitGroup
	var reportErr error
	reporter.Go(func() {
		if reportErr = a.heartbeats(done); reportErr != nil {
			a.raw.Close()
		}
	})
	err := a.receive()
	a.raw.Close()
	close(done)
	reporter.Wait()
	if reportErr != nil && errors.Is(err, net.ErrClosed) {
		return reportErr
	}
	return err
}

func (a *attempt) firstReport() error {
	if a.s.o.Extended == nil {
		return a.report(true)
	}
	a.write.Lock() // the greeting has told it
	defer a.write.Unlock()
	a.write.last, a.write.at = a.s.position(), time.Now()
	return nil
}

func (a *attempt) receive() error {
	complete, any := false, false // a frame since the last report, ever
	for {
		p, err := a.input.next()
		if err != nil {
			err = readError("read from the master", err, a.s.o.Silence)
			if !any && errors.Is(err, ErrEOF) {
				err = fmt.Errorf("%w before it sent anything: the address may be wrong, or the master refuses a slave whose log ends at %d", err, a.s.target.MaxPhyOffset())
			}
			return err
		}
		if err := a.take(p); err != nil {
			return err
		}
		complete, any = complete || p.last, true
		if complete && a.input.drained() {
			if err := a.report(false); err != nil {
				return err
			}
			complete = false
		}
	}
}

// take appends a piece, if it continues the log.
func (a *attempt) take(p piece) error {
	t := a.s.target
	end := t.MaxPhyOffset()
	if p.first {
		a.s.frames.Add(1)
		if end != 0 && end != p.phyOffset {
			return &OffsetMismatchError{Want: end, Got: p.phyOffset}
		}
	}
	begins := p.heartbeat && end == 0 && p.phyOffset > 0 // an empty log begins where the master says, even before there is data
	if len(p.body) > 0 || begins {
		if end == 0 && a.s.o.Extended == nil {
			a.s.queuesUnknown(a.address, p.phyOffset)
		}
		if err := t.AppendToCommitLog(p.phyOffset, p.body); err != nil {
			return &AppendError{p.phyOffset, len(p.body), err}
		}
		a.s.bytes.Add(int64(len(p.body)))
	}
	if !a.healthy.Load() && (len(p.body) > 0 && p.last || time.Since(a.born) > a.s.o.Heartbeat) {
		a.healthy.Store(true)
		a.s.mu.Lock()
		a.s.mu.err = nil
		a.s.mu.Unlock()
	}
	return nil
}

// position is what to report.
func (s *Slave) position() int64 {
	if s.o.ReportFlushed {
		return min(s.target.FlushedPhyOffset(), s.target.MaxPhyOffset())
	}
	return s.target.MaxPhyOffset()
}

// report sends the position if it is beyond the last one sent, or in any case.
func (a *attempt) report(always bool) error {
	a.write.Lock()
	defer a.write.Unlock()
	position := a.s.position()
	if position <= a.write.last && !always {
		return nil
	}
	n := reportSize
	if a.s.o.Extended != nil {
		n = extReportSize
		putExtReport(a.write.buf[:], position)
	} else {
		putReport(a.write.buf[:], position)
	}
	now := time.Now()
	if err := a.nc.SetWriteDeadline(now.Add(a.s.o.Silence)); err != nil {
		return fmt.Errorf("report to the master: %w", err)
	}
	if _, err := a.nc.Write(a.write.buf[:n]); err != nil {
		return fmt.Errorf("report to the master: %w", err)
	}
	a.write.last, a.write.at = position, now
	a.s.reported.Store(position)
	return nil
}

// heartbeats reports when nothing was reported for a while, and when more is flushed.
func (a *attempt) heartbeats(done <-chan struct{}) error {
	timer := time.NewTimer(a.s.o.Heartbeat)
	defer timer.Stop()
	var flushed <-chan struct{} // nil, never ready, unless ReportFlushed
	for {
		a.write.Lock()
		last, at := a.write.last, a.write.at
		a.write.Unlock()
		if a.s.o.ReportFlushed {
			flushed = a.s.o.FlushedPast(last)
		}
		timer.Reset(time.Until(at.Add(a.s.o.Heartbeat)))
		select {
		case <-done:
			return nil
		case <-flushed:
			if err := a.report(false); err != nil {
				return err
			}
		case <-timer.C:
			a.write.Lock()
			due := time.Since(a.write.at) >= a.s.o.Heartbeat
			a.write.Unlock()
			if due {
				if err := a.report(true); err != nil {
					return err
				}
			}
		}
	}
}
