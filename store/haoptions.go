package store

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/mqstore/mqstore/ha"
)

// HAOptions say how a store takes part in replication. The zero value takes no part: no listener, and a slave without a master's address is idle.
//
// Listeners are independent of the role, as the original's: a slave that has one can be followed too, and keeps it when it becomes master.
type HAOptions struct {
	// ListenAddress is where slaves connect that speak the classic protocol (RocketMQ's own, or ours): "host:port", the port 10912 by default. "" = no listener.
	// ":10912" is loopback only, since the classic protocol knows no authentication: to listen to the world, say so ("0.0.0.0:10912"), and expect the Warning event.
	ListenAddress string
	Listener      net.Listener // used instead of ListenAddress; Open takes it over, and closes it also when it fails

	// MasterAddress is what a slave follows, "host:port": the master's classic listener, or its extended one if Extended is set. UpdateHaMasterAddress changes it. "" = none yet.
	MasterAddress string

	// Extended is the protocol between two of this engine: mutual TLS, a shared token, a handshake that finds a log that is not the master's, checksums, compression. nil = a slave follows by the classic one.
	Extended *HAExtended

	SlaveTimeout  time.Duration // a SyncMaster's put is answered FlushSlaveTimeout if no slave has it after this (slaveTimeout); default 3 s
	FallBehindMax int64         // with no slave less than so many bytes behind it is answered SlaveNotAvailable at once (haSlaveFallbehindMax); default 256 MiB
	RequiredAcks  int           // slaves that must have a message; default 1, which is the original. A slave counts once, also while a dead connection of it is not found out yet (Housekeeping); of several slaves on one host, which then cannot be told apart, those count that have reported since the last of them connected

	BatchSize      int           // largest frame to a classic slave (haTransferBatchSize); default 32 KiB, at most 4 MiB - 12
	Heartbeat      time.Duration // sent when nothing else was for longer (haSendHeartbeatInterval); default 5 s
	Housekeeping   time.Duration // a peer that is silent for longer is dropped (haHousekeepingInterval); default 20 s
	MaxConnections int           // of slaves; default 128

	// ReportFlushed makes a slave acknowledge what is on its disk instead of what it has received: PutOK of a SyncMaster then means the slave's disk. The slave flushes by its own FlushMode:
	// with SyncFlush at once, with AsyncFlush every FlushEvery, which is how long the master's puts then take.
	ReportFlushed bool

	Dial   func(ctx context.Context, network, address string) (net.Conn, error) // how a slave connects; default net.Dialer
	Jitter func() float64                                                       // in [0, 1): spreads a slave's attempts to connect between half the back-off and all of it; default random
}

// HAExtended is what both sides of the extended protocol must know of each other.
type HAExtended struct {
	ListenAddress string       // where slaves connect, "host:port"; "" = no listener
	Listener      net.Listener // as HAOptions.Listener

	// TLS is mutual. To serve it needs a certificate, and ClientAuth RequireAndVerifyClientCert with ClientCAs; to follow a certificate, and RootCAs for the master's. Less than TLS 1.3 is not spoken.
	TLS        *tls.Config
	Token      string     // a secret of at least 16 bytes, the same on both sides. It is never sent
	Compress   bool       // zstd, if both sides want it
	ResyncFrom ResyncFrom // of a slave whose log is empty
}

// ResyncFrom is where a slave with an empty log begins on the extended protocol. On the classic one it is the master's last segment, always.
type ResyncFrom uint8

const (
	FirstSegment ResyncFrom = iota // a full copy
	LastSegment                    // only from the master's last segment on, as the original
)

func (r ResyncFrom) String() string {
	switch r {
	case FirstSegment:
		return "firstSegment"
	case LastSegment:
		return "lastSegment"
	}
	return fmt.Sprintf("ResyncFrom(%d)", uint8(r))
}

const defaultSlaveTimeout = 3 * time.Second

// listens reports whether slaves can connect.
func (o *HAOptions) listens() bool {
	return o.ListenAddress != "" || o.Listener != nil || o.Extended.listens()
}

func (e *HAExtended) listens() bool { return e != nil && (e.ListenAddress != "" || e.Listener != nil) }

// fill checks o and puts the defaults in, but for those that package ha checks.
func (o *HAOptions) fill(background bool) error {
	var errs []error
	if o.SlaveTimeout == 0 {
		o.SlaveTimeout = defaultSlaveTimeout
	}
	if o.RequiredAcks == 0 {
		o.RequiredAcks = 1
	}
	if o.SlaveTimeout < 0 {
		errs = append(errs, fmt.Errorf("options: HA.SlaveTimeout is %v, must be 0 (default %v) or more", o.SlaveTimeout, defaultSlaveTimeout))
	}
	if o.RequiredAcks < 0 {
		errs = append(errs, fmt.Errorf("options: HA.RequiredAcks is %d, must be 0 (default 1) or more", o.RequiredAcks))
	}
	if err := checkMasterAddress(o.MasterAddress); err != nil {
		errs = append(errs, fmt.Errorf("options: HA.MasterAddress: %w", err))
	}
	if !background && (o.listens() || o.MasterAddress != "") {
		errs = append(errs, errors.New("options: HA needs goroutines: it cannot be used with NoBackground"))
	}
	if len(errs) == 0 {
		// What package ha checks is checked now too, while nothing is changed yet.
		_, err := ha.NewMaster(nil, o.masterOptions(0, storeID{}))
		if err == nil {
			so := o.slaveOptions(storeID{})
			so.ReportFlushed = false
			_, err = ha.NewSlave(nil, so)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("options: HA: %w", err))
		}
	}
	return errors.Join(errs...)
}

func checkMasterAddress(address string) error {
	if address == "" {
		return nil
	}
	if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
		return fmt.Errorf("%q is not host:port", address)
	}
	return nil
}

// closeListeners is for an Open that fails.
func (o *HAOptions) closeListeners() {
	if o.Listener != nil {
		o.Listener.Close()
	}
	if o.Extended != nil && o.Extended.Listener != nil {
		o.Extended.Listener.Close()
	}
}

// listen opens the listeners that are configured, into Listener.
func (o *HAOptions) listen() (err error) {
	if o.Listener == nil && o.ListenAddress != "" {
		if o.Listener, err = ha.ListenClassic(withPort(o.ListenAddress)); err != nil {
			return fmt.Errorf("options: HA.ListenAddress: %w", err)
		}
	}
	if o.Extended == nil {
		return nil
	}
	e := *o.Extended // the caller's stays as it is
	o.Extended = &e
	if e.Listener == nil && e.ListenAddress != "" {
		if e.Listener, err = net.Listen("tcp", e.ListenAddress); err != nil {
			return fmt.Errorf("options: HA.Extended.ListenAddress: listen for slaves: %w", err)
		}
	}
	return nil
}

// withPort adds the default port to an address without one.
func withPort(address string) string {
	if _, _, err := net.SplitHostPort(address); err != nil && strings.Contains(err.Error(), "missing port") {
		return net.JoinHostPort(strings.Trim(address, "[]"), ha.DefaultPort)
	}
	return address
}

func (o *HAOptions) extended(id storeID) *ha.Extended {
	if o.Extended == nil {
		return nil
	}
	e := &ha.Extended{StoreID: id, TLS: o.Extended.TLS, Token: o.Extended.Token, Compress: o.Extended.Compress}
	if o.Extended.ResyncFrom == LastSegment {
		e.ResyncFrom = ha.LastSegment
	}
	return e
}

func (o *HAOptions) masterOptions(segmentSize int64, id storeID) ha.MasterOptions {
	m := ha.MasterOptions{
		SegmentSize: segmentSize, BatchSize: o.BatchSize, Heartbeat: o.Heartbeat, Housekeeping: o.Housekeeping,
		FallBehindMax: o.FallBehindMax, RequiredAcks: o.RequiredAcks, MaxConnections: o.MaxConnections,
	}
	if o.Extended.listens() {
		m.Extended = o.extended(id)
	}
	return m
}

func (o *HAOptions) slaveOptions(id storeID) ha.SlaveOptions {
	return ha.SlaveOptions{Master: o.MasterAddress, Heartbeat: o.Heartbeat, Silence: o.Housekeeping, ReportFlushed: o.ReportFlushed, Dial: o.Dial, Jitter: o.Jitter, Extended: o.extended(id)}
}
