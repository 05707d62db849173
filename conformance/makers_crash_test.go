package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/store"
)

// driven is a DefaultMessageStore on a disk in memory that can lose power, without goroutines of its own: it dispatches when something was put, so that nothing runs beside a crash.
type driven struct {
	*store.DefaultMessageStore
	fs      *faultfs.FS
	o       store.Options
	step    *sync.Mutex
	crashes uint64
	phase   func(ctx context.Context, d *driven) (conformance.Store, error) // nil: nothing happens between putting and asking
}

var (
	_ conformance.MessageWaiter = (*driven)(nil)
	_ conformance.Reopener      = (*driven)(nil)
	_ conformance.Crasher       = (*driven)(nil)
	_ conformance.PowerLoser    = (*driven)(nil)
	_ conformance.Expirer       = (*driven)(nil)
	_ conformance.Promoter      = (*driven)(nil)
	_ conformance.RawAppender   = (*driven)(nil)
	_ conformance.LogReader     = (*driven)(nil)
	_ conformance.Phaser        = (*driven)(nil)
)

// drivenMaker makes stores that can crash, with the options that each law's config gives.
func drivenMaker(options func(c conformance.Config) (store.Options, error), phase func(ctx context.Context, d *driven) (conformance.Store, error)) conformance.Maker {
	return func(_ context.Context, c conformance.Config) (conformance.Store, error) {
		o, err := options(c)
		if err != nil {
			return nil, err
		}
		o = patient(o)
		o.NoBackground = true
		d := &driven{fs: faultfs.New(), o: o, phase: phase}
		return d.open(d.fs)
	}
}

func (d *driven) open(fs *faultfs.FS) (*driven, error) {
	o := d.o
	o.FS = fs
	s, err := store.Open("/store", o)
	if err != nil {
		return nil, err
	}
	again := *d
	again.DefaultMessageStore, again.fs, again.step = s, fs, new(sync.Mutex)
	return &again, again.settle(nil)
}

// settle dispatches and indexes all there is; err comes first.
func (d *driven) settle(err error) error {
	d.step.Lock()
	defer d.step.Unlock()
	for _, step := range []func(int) (int, error){d.DispatchStep, d.IndexStep} {
		for {
			n, stepErr := step(1000)
			if stepErr != nil && !errors.Is(stepErr, store.ErrClosed) {
				return errors.Join(err, stepErr)
			}
			if n == 0 {
				break
			}
		}
	}
	return err
}

func (d *driven) Put(ctx context.Context, m *record.Message) (store.PutResult, error) {
	r, err := d.DefaultMessageStore.Put(ctx, m)
	_ = d.settle(nil) // a failure is for who reads
	return r, err
}

func (d *driven) PutBatch(ctx context.Context, m *record.Message, items []record.BatchItem) (store.PutResult, error) {
	r, err := d.DefaultMessageStore.PutBatch(ctx, m, items)
	_ = d.settle(nil)
	return r, err
}

func (d *driven) PutAsync(m *record.Message) *store.Future {
	f := d.DefaultMessageStore.PutAsync(m)
	_, _ = d.FlushStep() // a failure is the future's
	_ = d.settle(nil)
	return f
}

func (d *driven) AppendToCommitLog(phyOffset int64, p []byte) error {
	return d.settle(d.DefaultMessageStore.AppendToCommitLog(phyOffset, p))
}

func (d *driven) Flush() (int64, error) {
	flushed, err := d.DefaultMessageStore.Flush()
	return flushed, d.settle(err)
}

// WaitForMessages does what a flush loop does in time: what did not wait for its flush becomes visible by it.
func (d *driven) WaitForMessages(_ context.Context, topic string, queueID int32, offset int64) error {
	if d.MaxOffset(topic, queueID) > offset {
		return nil
	}
	_, err := d.FlushStep()
	return d.settle(err)
}

func (d *driven) Promote(ctx context.Context) error {
	return d.settle(d.SetRole(ctx, store.AsyncMaster))
}

func (d *driven) Expire(_ context.Context, phyOffset int64) (int64, error) {
	return expire(d.DefaultMessageStore, phyOffset)
}

// Close dispatches the rest: no put does that meanwhile.
func (d *driven) Close() error {
	d.step.Lock()
	defer d.step.Unlock()
	return d.DefaultMessageStore.Close()
}

func (d *driven) Reopen(context.Context) (conformance.Store, error) {
	if err := d.Close(); err != nil {
		return nil, fmt.Errorf("close: %w", err)
	}
	return d.open(d.fs)
}

func (d *driven) Crash(context.Context) (conformance.Store, error) { return d.after(d.fs.Kill()) }

func (d *driven) LosePower(context.Context) (conformance.Store, error) {
	return d.after(d.fs.Crash(rand.New(rand.NewPCG(d.crashes, uint64(d.MaxPhyOffset())))))
}

// after opens what a crash left.
func (d *driven) after(fs *faultfs.FS) (conformance.Store, error) {
	d.crashes++
	_ = d.Close() // only memory is left to give back: its disk is dead
	return d.open(fs)
}

func (d *driven) NextPhase(ctx context.Context) (conformance.Store, error) {
	if d.phase == nil {
		return d, nil
	}
	return d.phase(ctx, d)
}

// crashed ends the process, and every other time the machine, which may lose nothing that was flushed.
func crashed(ctx context.Context, d *driven) (conformance.Store, error) {
	if d.crashes%2 == 0 {
		return d.Crash(ctx)
	}
	if _, err := d.Flush(); err != nil {
		return nil, err
	}
	return d.LosePower(ctx)
}

func TestTheEngineKeepsTheLawsAfterCrashes(t *testing.T) {
	t.Run("crashed", func(t *testing.T) { conformance.Run(t, drivenMaker(tiny, crashed)) })
	if effort.Current() == effort.Race {
		return // a tenth of the work: what runs beside what is the same in both
	}
	t.Run("sync", func(t *testing.T) { conformance.Run(t, drivenMaker(tinySync, crashed)) })
}
