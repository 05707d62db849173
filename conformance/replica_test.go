package conformance_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance"
	"github.com/mqstore/mqstore/store"
)

// What the model can do beside its own methods: it is killed and loses power without losing anything, and is followed by models that have each record as soon as it is put.
var (
	_ conformance.Crasher     = (*faulty)(nil)
	_ conformance.PowerLoser  = (*faulty)(nil)
	_ conformance.Replicator  = (*faulty)(nil)
	_ conformance.Promoter    = (*faulty)(nil)
	_ conformance.RawAppender = (*faulty)(nil)
	_ conformance.LogReader   = (*faulty)(nil)
	_ store.Scanner           = (*faulty)(nil)
)

func (f *faulty) Crash(context.Context) (conformance.Store, error) {
	if f.crash != nil {
		f.crash()
	}
	return f, nil
}

func (f *faulty) LosePower(context.Context) (conformance.Store, error) {
	if f.losePower != nil {
		f.losePower()
	}
	return f, nil
}

func (f *faulty) Slave(context.Context) (conformance.Store, error) {
	c := f.c
	c.Role = store.Slave
	s := newFaulty(c)
	if f.slaveOf != nil {
		f.slaveOf(s)
	}
	f.slaves = append(f.slaves, s)
	s.master = f
	return s, f.feed(s)
}

func (f *faulty) Promote(context.Context) error {
	if m := f.master; m != nil {
		m.unfollow(f)
	}
	promote := func() { f.m.SetRole(store.AsyncMaster) }
	if f.promote != nil {
		f.promote(promote)
		return nil
	}
	promote()
	return nil
}

func (f *faulty) unfollow(s *faulty) {
	for i := range f.slaves {
		if f.slaves[i] == s {
			f.slaves = append(f.slaves[:i:i], f.slaves[i+1:]...)
			return
		}
	}
}

// feed gives a slave what it lacks.
func (f *faulty) feed(s *faulty) error {
	for {
		at := max(s.m.MaxPhyOffset(), f.m.MinPhyOffset(), 0)
		v, err := f.m.CommitLogData(at, 0)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		send := s.AppendToCommitLog
		if f.replicate != nil {
			send = func(phyOffset int64, p []byte) error { return f.replicate(s, phyOffset, p) }
		}
		before := s.m.MaxPhyOffset()
		if err := send(at, v.Bytes); err != nil {
			return fmt.Errorf("feed the slave: %w", err)
		}
		if s.m.MaxPhyOffset() == before {
			return nil
		}
	}
}

// replicated feeds the slaves what a put of m stored, and says so in its status.
func (f *faulty) replicated(m *record.Message, r store.PutResult, err error) (store.PutResult, error) {
	if err != nil || len(f.slaves) == 0 {
		return r, err
	}
	if r.Status == store.SlaveNotAvailable {
		r.Status = store.PutOK
	}
	for _, s := range f.slaves {
		if err := f.feed(s); err != nil {
			return r, err
		}
	}
	return r, err
}
