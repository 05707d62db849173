package store

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"sync"
	"sync/atomic"

	"github.com/mqstore/mqstore/commitlog"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/ha"
)

// replication is the store's part in ha: a master, if there is a listener, and a slave, which runs while that is the role.
type replication struct {
	master    *ha.Master // nil = no listener
	slave     *ha.Slave  // nil = NoBackground
	addresses struct{ classic, extended string }
	serving   sync.WaitGroup

	diverged    atomic.Pointer[error] // until bytes are appended again
	divergences atomic.Int64
	junction    junction

	follow struct { // guarded by roleMu
		stop context.CancelFunc // nil = not following
		sync.WaitGroup
	}
}

var (
	_ ha.Source = haSource{}
	_ ha.Target = haTarget{}
)

// haSource is the log as slaves get it: everything that is readable, flushed or not (spec/ha-protocol.md 6.3).
type haSource struct{ log *commitlog.Log }

func (h haSource) MinPhyOffset() int64              { return h.log.MinPhyOffset() }
func (h haSource) MaxPhyOffset() int64              { return h.log.MaxPhyOffset() }
func (h haSource) Grown(past int64) <-chan struct{} { return h.log.Grown(past) }

func (h haSource) Read(phyOffset int64, max int) (p []byte, release func(), err error) {
	if phyOffset == h.log.MaxPhyOffset() {
		return nil, nil, nil
	}
	v, err := h.log.ViewRest(phyOffset)
	if err != nil {
		return nil, nil, fromBelow(err)
	}
	return v.Bytes[:min(len(v.Bytes), max)], v.Release, nil
}

// recordStart reports whether a record or an end-of-file blank begins at phyOffset.
func (h haSource) recordStart(phyOffset int64) bool {
	if phyOffset%h.log.SegmentSize() == 0 {
		return true
	}
	v, err := h.log.ViewRest(phyOffset)
	if err != nil {
		return false
	}
	p := record.Parser{}
	var m record.Meta
	err = p.Parse(v.Bytes, phyOffset, &m)
	v.Release()
	return err == nil
}

// haTarget is the store as a slave's way in. Its end counts the beginning of a record that is held back.
type haTarget struct{ s *DefaultMessageStore }

func (h haTarget) MaxPhyOffset() int64 { return h.s.MaxPhyOffset() }

func (h haTarget) AppendToCommitLog(phyOffset int64, p []byte) error {
	r := &h.s.replication
	if err := r.junction.fits(phyOffset, p, h.s.log.SegmentSize()); err != nil {
		return err
	}
	err := h.s.AppendToCommitLog(phyOffset, p)
	if err == nil && len(p) > 0 && !r.junction.open && r.diverged.Load() != nil {
		r.diverged.Store(nil)
	}
	return err
}

// FlushedPhyOffset is where whole records end that are on disk. The held beginning of another one is on none, and goes before a connection begins (forgetPart).
func (h haTarget) FlushedPhyOffset() int64 {
	return min(h.s.log.FlushedPhyOffset(), h.s.log.MaxPhyOffset())
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Tail is the last whole record and what follows it, the beginning of another one; of what is too large for it the first part.
func (h haTarget) Tail() (phyOffset int64, size int, crc uint32) {
	h.s.rawMu.Lock()
	defer h.s.rawMu.Unlock()
	end := h.s.log.MaxPhyOffset()
	at := h.s.lastRecord(end)
	if at < 0 {
		return 0, 0, 0
	}
	end = min(end, at+ha.MaxTailSize)
	for from := at; from < end; {
		v, err := h.s.log.ViewRest(from)
		if err != nil {
			return 0, 0, 0
		}
		b := v.Bytes[:min(int64(len(v.Bytes)), end-from)]
		crc = crc32.Update(crc, castagnoli, b)
		from += int64(len(b))
		v.Release()
	}
	part := h.s.rawPart[:min(len(h.s.rawPart), int(ha.MaxTailSize-(end-at)))]
	return at, int(end-at) + len(part), crc32.Update(crc, castagnoli, part)
}

// lastRecord is where the last record below end begins; -1 if that is not known.
func (s *DefaultMessageStore) lastRecord(end int64) int64 {
	if s.log.MinPhyOffset() < 0 || end <= s.log.MinPhyOffset() {
		return -1
	}
	size := s.log.SegmentSize()
	from := max(s.log.MinPhyOffset(), (end-1)-(end-1)%size)
	s.dispatching.mu.Lock()
	if last := &s.dispatching.mu.last; last.Size > 0 && last.PhyOffset < end {
		from = max(from, last.PhyOffset)
	}
	s.dispatching.mu.Unlock()
	c := s.log.NewCursor(from)
	defer c.Close()
	at := int64(-1)
	var m record.Meta
	for {
		if err := c.Next(&m, end); err != nil {
			return at
		}
		at = m.PhyOffset
	}
}

// startReplication listens, and follows if that is the role. What it started ends in stopReplication.
func (s *DefaultMessageStore) startReplication() (err error) {
	r := &s.replication
	o := &s.o.HA
	var id storeID
	if o.Extended != nil {
		if id, err = s.identify(s.Role()); err != nil {
			return fmt.Errorf("identity of the store: %w", err)
		}
	}
	so := o.slaveOptions(id)
	target := haTarget{s}
	so.FlushedPast = s.log.FlushedPast
	so.Begin = s.beginFollowing
	so.Queues = &ha.SlaveQueues{Wanted: s.lacksBeginning, Begin: s.beginQueues}
	so.Events = s.slaveEvents()
	if r.slave, err = ha.NewSlave(target, so); err != nil {
		return fmt.Errorf("options: HA: %w", err)
	}
	source := haSource{s.log}
	mo := o.masterOptions(s.log.SegmentSize(), id)
	mo.RecordStart = source.recordStart
	mo.Queues = s.queuesAt
	mo.Events = s.masterEvents()
	master, err := ha.NewMaster(source, mo)
	if err != nil {
		return fmt.Errorf("options: HA: %w", err)
	}
	if !o.listens() {
		return nil
	}
	master.Copied(s.Role() == Slave)
	r.master = master
	if l := o.Listener; l != nil {
		r.addresses.classic = l.Addr().String()
		s.serve("classic", l, master.Serve)
	}
	if o.Extended != nil && o.Extended.Listener != nil {
		r.addresses.extended = o.Extended.Listener.Addr().String()
		s.serve("extended", o.Extended.Listener, master.ServeExtended)
	}
	return nil
}

func (s *DefaultMessageStore) serve(protocol string, l net.Listener, serve func(net.Listener) error) {
	address := l.Addr().String()
	s.o.Logger.Info("listening for slaves", "dir", s.dir, "protocol", protocol, "address", address)
	s.replication.serving.Go(func() {
		if err := serve(l); err != nil && !errors.Is(err, ha.ErrClosed) {
			err = fmt.Errorf("no more slaves can connect until the store is opened again: %w", err)
			s.o.Logger.Error("listener for slaves failed", "dir", s.dir, "address", address, "err", err)
			s.o.Events.ReplicationWarning(address, err)
		}
	})
}

// stopMaster ends listeners and connections.
func (r *replication) stopMaster() {
	if r.master != nil {
		r.master.Close()
		r.serving.Wait()
	}
}

// copied tells the master, if there is one, whether this store follows another one.
func (r *replication) copied(on bool) {
	if r.master != nil {
		r.master.Copied(on)
	}
}

// lookAgain wakes who waits for acknowledgements to show messages, after the role changed.
func (r *replication) lookAgain() {
	if r.master != nil {
		r.master.WakeConfirmed()
	}
}

// startFollowing runs the slave; the caller holds roleMu.
func (s *DefaultMessageStore) startFollowing() {
	r := &s.replication
	if r.slave == nil || r.follow.stop != nil {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	r.follow.stop = stop
	r.follow.Go(func() { r.slave.Run(ctx) })
}

// beginFollowing is for each connection to a master, before it.
func (s *DefaultMessageStore) beginFollowing() {
	s.forgetPart()
	end := s.log.MaxPhyOffset()
	s.replication.junction.begin(s.log.WholePhyOffset() == end)
}

// forgetPart drops the beginning of a record that has not all come: its master sends it again, another one may have something else there. Nothing raw is beyond the log's end then.
func (s *DefaultMessageStore) forgetPart() {
	s.rawMu.Lock()
	defer s.rawMu.Unlock()
	s.rawPart = nil
	end := s.log.MaxPhyOffset()
	s.rawBegun.Store(min(s.rawBegun.Load(), end))
	s.rawEnd.Store(min(s.rawEnd.Load(), end))
}

// stopFollowing ends the slave, if it runs, and forgets the beginning of a record that it held; the caller holds roleMu.
func (s *DefaultMessageStore) stopFollowing() {
	r := &s.replication
	if r.follow.stop != nil {
		r.follow.stop()
		r.follow.Wait()
		r.follow.stop = nil
	}
	s.forgetPart()
}

func (s *DefaultMessageStore) masterEvents() ha.Events {
	e, log := s.o.Events, s.o.Logger
	return ha.Events{
		Connected: func(peer string) {
			log.Info("slave connected", "dir", s.dir, "slave", peer)
			e.SlaveConnected(peer)
		},
		Disconnected: func(peer string, err error) {
			log.Info("slave disconnected", "dir", s.dir, "slave", peer, "err", err)
			e.SlaveDisconnected(peer, err)
		},
		Refused: func(peer string, err error) {
			log.Warn("peer refused", "dir", s.dir, "peer", peer, "err", err)
			e.SlaveRefused(peer, haError(err))
		},
		Warning: func(peer string, err error) {
			log.Warn("replication", "dir", s.dir, "peer", peer, "err", err)
			e.ReplicationWarning(peer, err)
		},
	}
}

func (s *DefaultMessageStore) slaveEvents() ha.Events {
	e, log := s.o.Events, s.o.Logger
	lost := func(master string, err error) {
		log.Warn("no connection to the master", "dir", s.dir, "master", master, "err", err)
		err = haError(err)
		s.noteDivergence(unframed(err))
		e.MasterLost(master, err)
	}
	return ha.Events{
		Connected: func(master string) {
			log.Info("following", "dir", s.dir, "master", master, "phyOffset", s.MaxPhyOffset())
			s.adopt(s.replication.slave.Stats().MasterStoreID)
			e.MasterConnected(master)
		},
		Disconnected: lost,
		Refused:      lost,
		Warning: func(master string, err error) {
			log.Warn("replication", "dir", s.dir, "master", master, "err", err)
			e.ReplicationWarning(master, err)
		},
	}
}

// haError gives errors of package ha the store's sentinels.
func haError(err error) error {
	var p *ha.PositionError
	var mismatch *ha.OffsetMismatchError
	if errors.As(err, &p) && (errors.Is(err, ha.ErrSlaveAhead) || errors.Is(err, ha.ErrDeletedOnMaster) || errors.Is(err, ha.ErrDiverged)) || errors.As(err, &mismatch) || errors.Is(err, ha.ErrStoreID) {
		return fmt.Errorf("%w: %w", ErrDiverged, err)
	}
	return err
}

// noteDivergence counts and reports that this slave's log does not continue its master's, once per reason.
func (s *DefaultMessageStore) noteDivergence(err error) {
	if !errors.Is(err, ErrDiverged) {
		return
	}
	s.replication.divergences.Add(1)
	before := s.replication.diverged.Swap(&err)
	if before == nil || (*before).Error() != err.Error() {
		s.o.Logger.Error("this slave's log does not continue its master's", "dir", s.dir, "err", err)
		s.o.Events.Diverged(err)
	}
}

// lastAcks gives the slaves that puts of a SyncMaster wait for time to get what was put last.
func (s *DefaultMessageStore) lastAcks() {
	end := s.log.MaxPhyOffset()
	if m := s.replication.master; m != nil && m.SlaveOK(end) {
		ctx, cancel := context.WithTimeout(context.Background(), s.o.HA.SlaveTimeout)
		defer cancel()
		m.WaitAcked(ctx, end) // late is late: who waits says so
	}
}
