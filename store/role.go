package store

import (
	"context"
	"errors"
	"fmt"
)

// Role is the store's role now: that of Options, or of the last SetRole.
func (s *reader) Role() Role { return Role(s.role.Load()) }

// SetRole changes the role while the store is open. nil means that the store has it; after an error it has the one before.
//
// A slave that becomes a master stops following, gives up the beginning of a record that has not all come, dispatches the rest of its log, goes on with the queue offsets where that ends, and takes puts. What its old master acknowledged
// with a slave's help is there; what that one had beyond is not. A store that is damaged, or whose dispatch does not get on, does not become a master.
//
// A master that becomes a slave refuses puts, answers those under way as the master that took them, and follows HA.MasterAddress, or that of UpdateHaMasterAddress. Its log may be ahead of the new master's: ErrDiverged, in Events.Diverged and Stats, then says so and what to do.
//
// Slaves that follow this store stay connected throughout. SetRole must not be called from a callback or sink.
func (s *DefaultMessageStore) SetRole(ctx context.Context, role Role) error {
	if role > Slave {
		return fmt.Errorf("set role: %v is none of AsyncMaster, SyncMaster, Slave", role)
	}
	s.roleMu.Lock()
	defer s.roleMu.Unlock()
	if s.closing.Load() {
		return ErrClosed
	}
	before := s.Role()
	if role == before {
		return nil
	}
	var err error
	switch {
	case before == Slave:
		err = s.promote(ctx, role)
	case role == Slave:
		s.demote(before)
	default:
		s.role.Store(uint32(role))
		s.replication.lookAgain()
	}
	if err != nil {
		return fmt.Errorf("%v becomes %v: %w", before, role, err)
	}
	s.warnOfRole()
	s.o.Logger.Info("role changed", "dir", s.dir, "from", before, "to", role, "phyOffset", s.log.MaxPhyOffset())
	s.o.Events.RoleChanged(before, role)
	return nil
}

func (s *DefaultMessageStore) promote(ctx context.Context, role Role) (err error) {
	s.stopFollowing()
	s.pauseDispatch()
	defer func() {
		s.resumeDispatch()
		if err != nil {
			s.startFollowing()
		}
	}()
	if p := s.trouble.final.Load(); p != nil {
		return fmt.Errorf("%w: %w", ErrServiceNotAvailable, *p)
	}
	if end, whole := s.log.MaxPhyOffset(), s.log.WholePhyOffset(); whole < end {
		if err := s.log.TruncateTo(whole); err != nil {
			return fmt.Errorf("cut the beginning of a record off the log: %w", fromBelow(err))
		}
		s.forgetPart()
		s.o.Logger.Warn("cut the beginning of a record off the log", "dir", s.dir, "from", whole, "to", end)
	}
	if _, err := s.log.Flush(); err != nil {
		s.flushFailed(err)
		return fmt.Errorf("%w: %w", ErrFlushFailed, err)
	}
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := s.stepDispatch(dispatchBatch)
		if err != nil {
			return s.dispatchFailed(err)
		}
		more = n > 0
	}
	if at, end := s.dispatcher.Offset(), s.log.MaxPhyOffset(); at < end {
		return fmt.Errorf("%w: dispatch stands at %d, the log ends at %d", ErrServiceNotAvailable, at, end)
	}
	for q := range s.queues.All() {
		s.counters.get(q.Topic(), q.ID()).Raise(q.MaxOffset())
	}
	if s.o.HA.Extended != nil {
		id, err := s.identify(role)
		if err != nil {
			return fmt.Errorf("identity of the store: %w", fromBelow(err))
		}
		s.known(id)
	}
	s.replication.copied(false)
	s.role.Store(uint32(role))
	return nil
}

func (s *DefaultMessageStore) demote(from Role) {
	s.role.Store(uint32(Slave))
	s.replication.copied(true)
	if from == SyncMaster {
		s.lastAcks()
	}
	s.gate.pass() // puts that saw the old role are answered
	s.replication.lookAgain()
	s.startFollowing()
}

// warnOfRole says what about the role will surprise.
func (s *DefaultMessageStore) warnOfRole() {
	if s.Role() == SyncMaster && s.replication.master == nil {
		s.o.Logger.Warn("a SYNC_MASTER without HA.ListenAddress: no slave can connect, every put is answered SLAVE_NOT_AVAILABLE", "dir", s.dir)
	}
}

// UpdateHaMasterAddress makes a slave follow the master at address ("host:port") from now on, and any other store when it becomes a slave. "" = none: a slave is idle.
func (s *DefaultMessageStore) UpdateHaMasterAddress(address string) error {
	if err := checkMasterAddress(address); err != nil {
		return fmt.Errorf("update the master's address: %w", err)
	}
	if s.replication.slave == nil {
		return errors.New("update the master's address: this store was opened with Options.NoBackground: it follows nobody")
	}
	s.replication.slave.SetMaster(address)
	return nil
}
