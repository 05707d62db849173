package store_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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

// Zeroed units amid a queue of a log whose head has expired point, if one believes them, at a deleted record. They are damage all the same: no consumer may pass over messages
// that are in the log. The error says how to get the queue back, and that is true.
func TestAHoleInAQueueIsNotTakenForDeletedMessages(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, store.Options{})
	fill(t, s, 700, 100)
	if _, err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if r, err := s.DeleteExpired(store.ExpireOptions{Manual: true, Max: 1}); err != nil || len(r.Segments) != 1 {
		t.Fatal(r, err)
	}
	first := s.MinOffset("T", 0)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	hole := first + 40
	zeros, err := os.OpenFile(filepath.Join(dir, "consumequeue", "T", "0", fmt.Sprintf("%020d", 0)), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := zeros.WriteAt(make([]byte, 10*20), hole*20); err != nil {
		t.Fatal(err)
	}
	if err := zeros.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, store.Options{})
	g, err := s.Get(bg, store.GetRequest{Topic: "T", Offset: hole - 20})
	var damage *store.CorruptError
	if !errors.As(err, &damage) || damage.Offset != hole*20 || !strings.Contains(err.Error(), "IgnoreSummary") {
		t.Errorf("%+v, %v", g, err)
	}
	g.Release()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, store.Options{IgnoreSummary: true})
	if g := get(t, s, "T", 0, hole-20); g.Status != store.Found || len(g.Records) != 32 {
		t.Errorf("%+v", g)
	}
}
