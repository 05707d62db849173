package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mqstore/mqstore/conformance"
	"github.com/mqstore/mqstore/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// engine is a DefaultMessageStore with the abilities that the laws ask for.
type engine struct {
	*store.DefaultMessageStore
	dir   string
	o     store.Options
	phase func(ctx context.Context, e *engine) (conformance.Store, error) // nil: nothing happens between putting and asking
}

var (
	_ conformance.Reopener      = (*engine)(nil)
	_ conformance.Expirer       = (*engine)(nil)
	_ conformance.Phaser        = (*engine)(nil)
	_ conformance.MessageWaiter = (*engine)(nil)
	_ conformance.IndexWaiter   = (*engine)(nil)
)

// patient are options of a store on a disk that may be as slow as it likes, in a process that may stand still for seconds.
func patient(o store.Options) store.Options {
	o.PutBusyAfter = time.Hour
	if o.SyncFlushTimeout == 0 {
		o.SyncFlushTimeout = time.Hour
	}
	return o
}

// openEngine opens a store in a new directory below parent, which is gone when it is closed.
func openEngine(parent string, o store.Options) (*engine, error) {
	dir, err := os.MkdirTemp(parent, "store")
	if err != nil {
		return nil, err
	}
	o = patient(o)
	if o.Role != store.Slave {
		o.HA.ListenAddress = "127.0.0.1:0" // for slaves
		o.HA.SlaveTimeout = time.Minute    // a law that takes its slave away may have to wait for it
	}
	e := &engine{dir: dir, o: o}
	if e.DefaultMessageStore, err = store.Open(dir, o); err != nil {
		return nil, err
	}
	return e, nil
}

func (e *engine) Close() error {
	err := e.DefaultMessageStore.Close()
	return errors.Join(err, os.RemoveAll(e.dir)) // a default segment is 1 GiB
}

func (e *engine) Reopen(context.Context) (conformance.Store, error) {
	if err := e.DefaultMessageStore.Close(); err != nil {
		return nil, fmt.Errorf("close: %w", err)
	}
	s, err := store.Open(e.dir, e.o)
	if err != nil {
		return nil, err
	}
	again := *e
	again.DefaultMessageStore = s
	return &again, nil
}

func (e *engine) Expire(_ context.Context, phyOffset int64) (int64, error) {
	return expire(e.DefaultMessageStore, phyOffset)
}

// expire deletes the segments that end at or below phyOffset.
func expire(s *store.DefaultMessageStore, phyOffset int64) (int64, error) {
	for {
		min := s.MinPhyOffset()
		if min < 0 || min/s.SegmentSize()*s.SegmentSize()+s.SegmentSize() > phyOffset {
			return min, nil
		}
		if _, err := s.Flush(); err != nil {
			return min, err
		}
		r, err := s.DeleteExpired(store.ExpireOptions{Manual: true, Max: 1})
		if err != nil || len(r.Segments) == 0 {
			return r.MinPhyOffset, err
		}
	}
}

func (e *engine) NextPhase(ctx context.Context) (conformance.Store, error) {
	if e.phase == nil {
		return e, nil
	}
	return e.phase(ctx, e)
}

// engineMaker makes engines with the options that each law's config gives.
func engineMaker(t *testing.T, options func(c conformance.Config) (store.Options, error), phase func(ctx context.Context, e *engine) (conformance.Store, error)) conformance.Maker {
	parent := t.TempDir()
	return func(_ context.Context, c conformance.Config) (conformance.Store, error) {
		o, err := options(c)
		if err != nil {
			return nil, err
		}
		e, err := openEngine(parent, o)
		if err != nil {
			return nil, err
		}
		e.phase = phase
		return e, nil
	}
}
