package store_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

func TestWaitersWakeForTheirQueueOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, "/store", store.Options{FS: faultfs.New()})
		var mu sync.Mutex
		woken := map[string]int{}
		wait := func(name string, queueID int32, offset int64) {
			go func() {
				if err := s.WaitForMessages(bg, "T", queueID, offset); err != nil {
					t.Error(name, err)
				}
				mu.Lock()
				defer mu.Unlock()
				woken[name]++
			}()
		}
		check := func(want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			var have []string
			for name := range woken {
				have = append(have, name)
			}
			slices.Sort(have)
			if !slices.Equal(have, want) {
				t.Fatalf("woken: %v, want %v", have, want)
			}
		}
		wait("first", 0, 0)
		wait("first too", 0, 0)
		wait("second", 0, 1)
		wait("other queue", 1, 0)
		check()
		put(t, s, message("T", 0, "x"))
		check("first", "first too")
		put(t, s, message("T", 0, "y"))
		check("first", "first too", "second")
		put(t, s, message("T", 1, "z"))
		check("first", "first too", "other queue", "second")

		ctx, cancel := context.WithCancel(bg)
		done := make(chan error)
		go func() { done <- s.WaitForMessages(ctx, "T", 0, 99) }()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		go func() { done <- s.WaitForMessages(bg, "T", 0, 99) }()
		synctest.Wait()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, store.ErrClosed) {
			t.Fatal(err)
		}
	})
}

func TestArrivalsAreToldOnceVisibleAndForTransactionsToo(t *testing.T) {
	type arrival struct {
		next, tags int64
		visible    bool
		key        string
	}
	var got []arrival
	var s *store.DefaultMessageStore
	o := store.Options{NoBackground: true}
	o.Arrival = func(a store.Arrival) {
		key, _ := a.Properties.Get("KEYS")
		got = append(got, arrival{a.NextOffset, a.TagsCode, s.MaxOffset(a.Topic, a.QueueID) >= a.NextOffset, key})
	}
	s = open(t, t.TempDir(), o)
	put(t, s, message("T", 0, "x", "TAGS", "TagA", "KEYS", "k"))
	for _, tx := range []record.Transaction{record.TransactionPrepared, record.TransactionRollback} {
		m := message("P", 0, "x")
		m.SysFlag = record.SysFlag(tx)
		put(t, s, m)
	}
	dispatchAll(t, s)
	want := []arrival{{1, record.TagsCode("TagA"), true, "k"}, {1, 0, false, ""}, {1, 0, false, ""}}
	if !slices.Equal(got, want) {
		t.Fatalf("%+v, want %+v", got, want)
	}
	if s.MaxOffset("P", 0) != 0 {
		t.Error("PREPARED and ROLLBACK are in no queue")
	}
}

// A callback may put; a close meanwhile refuses its put and waits for nobody who waits for it.
func TestACallbackMayPut(t *testing.T) {
	for range 20 {
		var s *store.DefaultMessageStore
		ready := make(chan struct{})
		o := store.Options{FS: faultfs.New(), Arrival: func(a store.Arrival) {
			<-ready
			if _, err := s.Put(bg, message("echo", 0, "x")); err != nil && !errors.Is(err, store.ErrClosed) {
				t.Error(err)
			}
		}}
		s = open(t, "/store", o)
		close(ready)
		put(t, s, message("T", 0, "x")) // and each echo has an echo
		settle(t, s, "echo", 0, 5)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A sink that refuses a record holds dispatch there, is offered it again, and sees all in log order; nothing is visible before it.
func TestSinksSeeEverythingInOrderAndHoldVisibility(t *testing.T) {
	var seen, second []int64
	refusals := 3
	refused := errors.New("not yet")
	o := store.Options{NoBackground: true, Sinks: []store.Sink{
		store.SinkFunc(func(r *record.Meta) error {
			if r.QueueOffset == 1 && refusals > 0 {
				refusals--
				return refused
			}
			seen = append(seen, r.PhyOffset)
			return nil
		}),
		store.SinkFunc(func(r *record.Meta) error { second = append(second, r.PhyOffset); return nil }),
	}}
	s := open(t, t.TempDir(), o)
	var want []int64
	for range 4 {
		want = append(want, put(t, s, message("T", 0, "x")).PhyOffset)
	}
	for range 3 {
		if _, err := s.DispatchStep(100); !errors.Is(err, refused) {
			t.Fatal(err)
		}
		if s.MaxOffset("T", 0) != 1 || s.Stats().DispatchHeldUp == "" {
			t.Fatal("visible before every sink took it")
		}
	}
	dispatchAll(t, s)
	if !slices.Equal(seen, want) || !slices.Equal(second, want) || s.MaxOffset("T", 0) != 4 || s.Stats().DispatchHeldUp != "" {
		t.Fatal(seen, second, want)
	}
}

func TestASinkOnTheGoroutineIsTriedAgain(t *testing.T) {
	var once sync.Once
	failures := make(chan error, 1)
	s := open(t, t.TempDir(), store.Options{
		Sinks: []store.Sink{store.SinkFunc(func(*record.Meta) (err error) {
			once.Do(func() { err = errors.New("once") })
			return err
		})},
		Events: store.Events{DispatchFailed: func(err error) { failures <- err }},
	})
	put(t, s, message("T", 0, "x"))
	settle(t, s, "T", 0, 1)
	<-failures
	put(t, s, message("T", 0, "y"))
	settle(t, s, "T", 0, 2)
}
