package store_test

import (
	"errors"
	"testing"

	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/store"
)

// An event is told within the put that met it. A callback that puts there must get an answer also while Close waits for that first put.
func TestACallbackWithinAPutMayPutWhileTheStoreCloses(t *testing.T) {
	var s *store.DefaultMessageStore
	inCallback, closed := make(chan struct{}), make(chan error)
	fsys := faultfs.New()
	s = open(t, "/store", store.Options{FS: fsys, FlushMode: store.SyncFlush, Events: store.Events{FlushFailed: func(error) {
		close(inCallback)
		for {
			if _, err := s.Put(bg, message("T", 0, "again")); errors.Is(err, store.ErrClosed) {
				return
			}
		}
	}}})
	put(t, s, message("T", 0, "x"))
	fsys.FailFrom(fsys.Ops()+1, nil)
	go func() {
		<-inCallback
		closed <- s.Close()
	}()
	if _, err := s.Put(bg, message("T", 0, "x")); !errors.Is(err, store.ErrFlushFailed) {
		t.Error(err)
	}
	if err := <-closed; !errors.Is(err, store.ErrFlushFailed) {
		t.Error(err)
	}
}
