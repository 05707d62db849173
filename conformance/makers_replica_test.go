package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/conformance"
	"github.com/mqstore/mqstore/store"
)

var (
	_ conformance.Replicator  = (*engine)(nil)
	_ conformance.Promoter    = (*engine)(nil)
	_ conformance.RawAppender = (*engine)(nil)
	_ conformance.LogReader   = (*engine)(nil)
)

// Slave is a store that follows e over a connection of this machine, from here on.
func (e *engine) Slave(ctx context.Context) (conformance.Store, error) {
	o := e.o
	o.Role, o.HA = store.Slave, store.HAOptions{MasterAddress: e.Stats().HA.ListenAddress}
	reported := func() (n int) {
		for _, s := range e.Stats().HA.Slaves {
			if s.Reported {
				n++
			}
		}
		return n
	}
	want := reported() + 1
	s, err := openEngine(filepath.Dir(e.dir), o)
	if err != nil {
		return nil, err
	}
	for reported() < want {
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), s.Close())
		case <-time.After(time.Millisecond):
		}
	}
	return s, nil
}

func (e *engine) Promote(ctx context.Context) error { return e.SetRole(ctx, store.AsyncMaster) }

// promoted ends a master, and has a slave that got its log, in pieces of any size, take its place.
func promoted(ctx context.Context, d *driven) (conformance.Store, error) {
	follower := *d
	follower.o.Role = store.Slave
	s, err := follower.open(faultfs.New())
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(uint64(d.MaxPhyOffset()), 1))
	for at := max(d.MinPhyOffset(), 0); at < d.MaxPhyOffset(); {
		v, err := d.CommitLogData(at, 1+rng.IntN(3000))
		if err != nil {
			return nil, err
		}
		if err := s.AppendToCommitLog(at, v.Bytes); err != nil {
			return nil, fmt.Errorf("append %d bytes at %d to the slave: %w", len(v.Bytes), at, err)
		}
		at += int64(len(v.Bytes))
		v.Release()
	}
	if err := d.Close(); err != nil {
		return nil, fmt.Errorf("close the master: %w", err)
	}
	s.o.Role = d.o.Role
	return s, s.settle(s.SetRole(ctx, d.o.Role))
}

// masters are stores that a slave can replace.
func masters(c conformance.Config) (store.Options, error) {
	if c.Role == store.Slave {
		return store.Options{}, fmt.Errorf("only stores that were promoted: %w", errors.ErrUnsupported)
	}
	return c.TinyOptions(), nil
}

func TestAPromotedSlaveKeepsTheLaws(t *testing.T) {
	conformance.Run(t, drivenMaker(masters, promoted))
}
