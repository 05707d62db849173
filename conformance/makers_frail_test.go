package conformance_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/conformance"
	"github.com/mqstore/mqstore/store"
)

// frail is a DefaultMessageStore on a disk in memory that can be slow, full and broken.
type frail struct {
	*store.DefaultMessageStore
	fs *faultfs.FS
}

var (
	_ conformance.DiskStaller = (*frail)(nil)
	_ conformance.DiskFiller  = (*frail)(nil)
	_ conformance.SyncFailer  = (*frail)(nil)
)

func frailMaker(_ context.Context, c conformance.Config) (conformance.Store, error) {
	f := &frail{fs: faultfs.New()}
	o := patient(c.TinyOptions())
	o.FS = f.fs
	var err error
	if f.DefaultMessageStore, err = store.Open("/store", o); err != nil {
		return nil, err
	}
	return f, nil
}

func syncsLog(op faultfs.Op) bool {
	return op.Kind == faultfs.OpSync && strings.Contains(op.Path, "commitlog")
}

func (f *frail) StallDisk() (resume func()) {
	gate := make(chan struct{})
	f.fs.SetHook(func(op faultfs.Op) error {
		if syncsLog(op) {
			<-gate
		}
		return nil
	})
	return sync.OnceFunc(func() {
		f.fs.SetHook(nil)
		close(gate)
	})
}

func (f *frail) FillDisk() (free func()) {
	f.fs.SetLimit(f.fs.Used())
	return func() { f.fs.SetLimit(0) }
}

func (f *frail) FailSync() {
	var failed atomic.Bool
	f.fs.SetHook(func(op faultfs.Op) error {
		if syncsLog(op) && !failed.Swap(true) {
			return syscall.EIO
		}
		return nil
	})
}

func TestTheEngineKeepsTheLawsOnAFrailDisk(t *testing.T) { conformance.Run(t, frailMaker) }
