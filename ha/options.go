package ha

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"
)

// Defaults, those of RocketMQ 4.9.8 (spec/ha-protocol.md A, B) where it has the option.
const (
	defaultSegmentSize  = 1 << 30
	defaultBatchSize    = 32 << 10
	defaultWriteSize    = 256 << 10
	defaultHeartbeat    = 5 * time.Second
	defaultHousekeeping = 20 * time.Second
	defaultFallBehind   = 256 << 20
	defaultConnections  = 128
	defaultConnect      = 5 * time.Second
	defaultRetryMin     = 200 * time.Millisecond
	defaultRetryMax     = 5 * time.Second
	defaultHandshake    = 5 * time.Second
	slaveBuffer         = 4 << 20 // of an original slave: no frame may be larger, header included
	maxFrame            = slaveBuffer - frameHeaderSize
	minTokenSize        = 16
	firstReportAfter    = 6 * time.Second // by then an original slave has reported
	greetedAfter        = time.Second     // by then one of ours has
)

// MasterOptions say how a master serves. The zero value is a RocketMQ 4.9.8 master with the default configuration.
type MasterOptions struct {
	SegmentSize   int64         // of the Source, for slaves that report 0; 0 = 1 GiB
	BatchSize     int           // largest body of a classic frame (haTransferBatchSize); 0 = 32 KiB; at most 4 MiB - 12, what the buffer of an original slave takes
	WriteSize     int           // at most so many bytes of the log in one system call, as several classic frames or one extended frame; 0 = 256 KiB, not less than BatchSize
	Heartbeat     time.Duration // sent when nothing was sent for longer (haSendHeartbeatInterval); 0 = 5 s
	Housekeeping  time.Duration // a slave from which nothing was read for longer is dropped (haHousekeepingInterval); 0 = 20 s
	WriteTimeout  time.Duration // a slave that does not take one write (WriteSize bytes) within it is dropped; 0 = Housekeeping
	FallBehindMax int64         // a slave that is so many bytes behind is not waited for (haSlaveFallbehindMax); 0 = 256 MiB

	RequiredAcks   int // slaves that must hold a record for WaitAcked and Acked; 0 = 1
	MaxConnections int // of both protocols together; 0 = 128

	// RecordStart reports whether a record begins at an offset of the log. nil = nobody can tell. It is asked once per connection, for the Warning that a slave begins inside a record.
	RecordStart func(phyOffset int64) bool

	// Queues says where queues go on of which the log holds no record at or beyond phyOffset, for the slaves of the extended protocol that begin behind the log's beginning. What it says takes all records below upTo into account. nil = nobody can tell.
	Queues func(phyOffset int64) (queues []QueueNext, upTo int64)

	Extended *Extended // needed by ServeExtended
	Events   Events
}

func (o MasterOptions) check() (MasterOptions, error) {
	setDefault(&o.SegmentSize, defaultSegmentSize)
	setDefault(&o.BatchSize, defaultBatchSize)
	setDefault(&o.WriteSize, max(defaultWriteSize, o.BatchSize))
	setDefault(&o.Heartbeat, defaultHeartbeat)
	setDefault(&o.Housekeeping, defaultHousekeeping)
	setDefault(&o.WriteTimeout, o.Housekeeping)
	setDefault(&o.FallBehindMax, defaultFallBehind)
	setDefault(&o.RequiredAcks, 1)
	setDefault(&o.MaxConnections, defaultConnections)
	o.Events.fill()
	switch {
	case o.SegmentSize < 0:
		return o, fmt.Errorf("ha master: Options.SegmentSize %d is negative", o.SegmentSize)
	case o.BatchSize < 1 || o.BatchSize > maxFrame:
		return o, fmt.Errorf("ha master: Options.BatchSize %d is not in 1..%d", o.BatchSize, maxFrame)
	case o.WriteSize < o.BatchSize || o.WriteSize > 64<<20:
		return o, fmt.Errorf("ha master: Options.WriteSize %d is not in %d (BatchSize) .. 64 MiB", o.WriteSize, o.BatchSize)
	case o.Heartbeat < 0 || o.Housekeeping < 0 || o.WriteTimeout < 0:
		return o, errors.New("ha master: an interval of the options is negative")
	case o.FallBehindMax < 0 || o.RequiredAcks < 0 || o.MaxConnections < 0:
		return o, errors.New("ha master: a limit of the options is negative")
	}
	var err error
	o.Extended, err = o.Extended.check(true)
	return o, err
}

// SlaveOptions say how a slave follows. The zero value follows a RocketMQ 4.9.8 master with the default configuration, and does it better than an original slave.
type SlaveOptions struct {
	Master    string        // host:port at the start, see SetMaster; "" = idle
	Connect   time.Duration // timeout of a connection attempt; 0 = 5 s
	Heartbeat time.Duration // a report is sent when none was sent for longer (haSendHeartbeatInterval); 0 = 5 s
	Silence   time.Duration // a master from which nothing was read for longer is left; 0 = 20 s

	// After a failure the next attempt waits RetryMin, then twice that, and so on to RetryMax, each time between half of it and all of it, as Jitter says.
	// It begins anew once a frame was appended, or the connection lasted longer than a heartbeat.
	RetryMin, RetryMax time.Duration  // 0 = 200 ms, 5 s
	Jitter             func() float64 // in [0, 1); nil = math/rand

	MaxFrame   int // largest frame body that is accepted; 0 = 4 MiB - 12
	ReadBuffer int // bytes read at a time; 0 = 256 KiB

	// ReportFlushed reports what is on this slave's disk instead of what is written, so that an acknowledgement survives the slave's machine too.
	// A report then follows each advance of the Target's FlushedPhyOffset, which FlushedPast must announce: it returns a channel
	// that is closed once FlushedPhyOffset > past. What was written before a connection must be flushed before the first report; FlushWait is how long that may take (0 = 20 s).
	ReportFlushed bool
	FlushedPast   func(past int64) <-chan struct{}
	FlushWait     time.Duration

	// Begin is called by Run before each attempt to connect. What the Target counts in its MaxPhyOffset of a record that has not all come must go then: the next master may have written something else there. nil = nothing to do.
	Begin func()

	Queues *SlaveQueues // of the extended protocol; nil = not wanted

	Dial     func(ctx context.Context, network, address string) (net.Conn, error) // nil = net.Dialer
	Extended *Extended                                                            // speak the extended protocol; the master's address is that of its extended listener
	Events   Events
}

func (o SlaveOptions) check() (SlaveOptions, error) {
	setDefault(&o.Connect, defaultConnect)
	setDefault(&o.Heartbeat, defaultHeartbeat)
	setDefault(&o.Silence, defaultHousekeeping)
	setDefault(&o.RetryMin, defaultRetryMin)
	setDefault(&o.RetryMax, max(defaultRetryMax, o.RetryMin))
	setDefault(&o.MaxFrame, maxFrame)
	setDefault(&o.ReadBuffer, 256<<10)
	setDefault(&o.FlushWait, defaultHousekeeping)
	if o.Begin == nil {
		o.Begin = func() {}
	}
	o.Events.fill()
	switch {
	case o.Connect < 0 || o.Heartbeat < 0 || o.Silence < 0 || o.FlushWait < 0:
		return o, errors.New("ha slave: an interval of the options is negative")
	case o.RetryMin < 0 || o.RetryMax < o.RetryMin:
		return o, fmt.Errorf("ha slave: Options.RetryMin %v and RetryMax %v are not 0 < RetryMin <= RetryMax", o.RetryMin, o.RetryMax)
	case o.MaxFrame < 1 || o.MaxFrame > 1<<30:
		return o, fmt.Errorf("ha slave: Options.MaxFrame %d is not in 1..1 GiB", o.MaxFrame)
	case o.ReadBuffer < 4<<10 || o.ReadBuffer > 1<<30:
		return o, fmt.Errorf("ha slave: Options.ReadBuffer %d is not in 4 KiB..1 GiB", o.ReadBuffer)
	case o.Queues != nil && (o.Queues.Wanted == nil || o.Queues.Begin == nil):
		return o, errors.New("ha slave: Options.Queues needs Wanted and Begin")
	case o.ReportFlushed && o.FlushedPast == nil:
		return o, errors.New("ha slave: Options.ReportFlushed needs FlushedPast")
	}
	var err error
	o.Extended, err = o.Extended.check(false)
	return o, err
}

// ResyncFrom is where a slave with an empty log begins on the extended protocol. On the classic one it is the master's last segment, always.
type ResyncFrom int

// The zero value is the full copy.
const (
	FirstSegment ResyncFrom = iota
	LastSegment
)

// String is the option's value in words.
func (r ResyncFrom) String() string {
	if r == LastSegment {
		return "lastSegment"
	}
	return "firstSegment"
}

// Extended is what both sides of the extended protocol must know of each other.
type Extended struct {
	// TLS is mutual: a master's config must have ClientAuth RequireAndVerifyClientCert (with ClientCAs), a slave's a certificate, and RootCAs for the master's. Versions below 1.3 are not spoken.
	TLS *tls.Config

	// Token is a secret of at least 16 bytes that both sides share. It is never sent: each proves that it knows it, bound to this TLS connection.
	Token string

	StoreID    [16]byte      // identity of the replicated store at the start; zero = not known yet, not compared. SetStoreID tells it later
	Compress   bool          // zstd, if both sides want it
	ResyncFrom ResyncFrom    // of a slave with an empty log
	Handshake  time.Duration // TLS and the greeting must be done within; 0 = 5 s
}

func (e *Extended) check(master bool) (*Extended, error) {
	if e == nil {
		return nil, nil
	}
	o := *e
	setDefault(&o.Handshake, defaultHandshake)
	switch {
	case o.Handshake < 0:
		return nil, errors.New("ha extended: Handshake is negative")
	case len(o.Token) < minTokenSize:
		return nil, fmt.Errorf("ha extended: the token has %d bytes; it needs %d or more", len(o.Token), minTokenSize)
	case o.TLS == nil:
		return nil, errors.New("ha extended: TLS is not configured")
	case master && o.TLS.ClientAuth != tls.RequireAndVerifyClientCert:
		return nil, errors.New("ha extended: a master's TLS.ClientAuth must be RequireAndVerifyClientCert")
	case !master && o.TLS.InsecureSkipVerify && o.TLS.VerifyConnection == nil && o.TLS.VerifyPeerCertificate == nil:
		return nil, errors.New("ha extended: a slave must verify its master (TLS.InsecureSkipVerify is set)")
	case o.ResyncFrom != FirstSegment && o.ResyncFrom != LastSegment:
		return nil, fmt.Errorf("ha extended: ResyncFrom %d is neither FirstSegment nor LastSegment", o.ResyncFrom)
	}
	o.TLS = o.TLS.Clone()
	o.TLS.MinVersion = tls.VersionTLS13
	return &o, nil
}

func setDefault[T int | int64 | time.Duration](p *T, d T) {
	if *p == 0 {
		*p = d
	}
}
