package sim

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/conformance/memnet"
	"github.com/mqstore/mqstore/store"
)

// TestReportFlushedWithHalfARecord: a slave that reports what is on its disk reports whole records when they are flushed, whatever beginning of another one it holds; when the connection ends it does not wait for that to be flushed, which it never will be;
// and it does wait for whole records before it connects again, since its first report acknowledges all.
func TestReportFlushedWithHalfARecord(t *testing.T) {
	const flush = 500 * time.Millisecond
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		n.Drive()
		master := start(t, n, "a:1", store.Options{Role: store.SyncMaster})
		slave := start(t, n, "b:1", store.Options{Role: store.Slave, FlushEvery: flush, HA: store.HAOptions{
			MasterAddress: "a:1", ReportFlushed: true, Jitter: func() float64 { return 0 }, // it waits 100 ms for its second connection, and 200 ms for the third: over the second no record came whole
		}})
		connect := func() *memnet.Conn {
			t.Helper()
			for range 100 {
				synctest.Wait()
				if calls := n.Calls(); len(calls) > 0 {
					calls[0].Connect()
					synctest.Wait()
					conns := n.Conns()
					return conns[len(conns)-1]
				}
				time.Sleep(100 * time.Millisecond)
			}
			t.Fatal("the slave does not dial")
			return nil
		}
		arrive := func(end *memnet.Conn, keep int) {
			t.Helper()
			synctest.Wait()
			k, _ := end.Pending()
			end.Deliver(k - keep)
			synctest.Wait()
		}
		reported := func() int64 { return slave.s.Stats().HA.Following.Reported }
		c := connect()
		arrive(c.Other(), 0)
		time.Sleep(time.Millisecond)

		first := master.s.PutAsync(message("T", 0, "first"))
		second := master.s.PutAsync(message("T", 0, "second"))
		arrive(c, 20)
		whole, held := slave.s.Stats().MaxPhyOffset, slave.s.MaxPhyOffset()
		if whole == 0 || held <= whole || held != master.s.MaxPhyOffset()-20 {
			t.Fatalf("the slave has %d, and %d with the beginning of a record", whole, held)
		}
		if got := reported(); got != 0 {
			t.Errorf("reported %d before anything was flushed", got)
		}
		time.Sleep(flush)
		synctest.Wait()
		if got := reported(); got != whole {
			t.Errorf("reported %d when the whole records were flushed, want %d", got, whole)
		}
		arrive(c.Other(), 0)
		select {
		case <-first.Done():
		default:
			t.Error("the first put is not answered")
		}
		select {
		case <-second.Done():
			t.Error("the second put is answered")
		default:
		}

		// The rest comes, and the next beginning, and the connection ends before they are flushed.
		third := master.s.PutAsync(message("T", 0, "third"))
		arrive(c, 20)
		whole = slave.s.Stats().MaxPhyOffset
		c.Reset()
		synctest.Wait()
		began := time.Now()
		c = connect()
		if slave.s.FlushedPhyOffset() != whole {
			t.Errorf("connected when only %d of %d was flushed", slave.s.FlushedPhyOffset(), whole)
		}
		if took := time.Since(began); took > flush+100*time.Millisecond {
			t.Errorf("connected after %v", took)
		}
		if got := reported(); got != whole {
			t.Errorf("reported %d at first, want the whole records' %d", got, whole)
		}
		arrive(c.Other(), 0)
		arrive(c, 20)
		select {
		case <-second.Done():
			t.Error("the second put is answered before the slave has shown that it follows")
		default:
		}

		// With nothing but a beginning to flush it connects at once.
		c.Reset()
		synctest.Wait()
		began = time.Now()
		c = connect()
		if took := time.Since(began); took > 300*time.Millisecond {
			t.Errorf("connected after %v", took)
		}
		arrive(c.Other(), 0)
		arrive(c, 0)
		time.Sleep(flush)
		arrive(c.Other(), 0)
		for i, put := range []*store.Future{second, third} {
			if r, err := put.Wait(t.Context()); err != nil || r.Status != store.PutOK {
				t.Errorf("put %d: %v %v", i+2, r.Status, err)
			}
		}
		same(t, master, slave)
	})
}

// TestASyncFlushSlaveWhoseDiskFailsAcknowledgesNothingMore: what its page cache holds is not on its disk, on this connection or the next; opened again on a disk that works it catches up.
func TestASyncFlushSlaveWhoseDiskFailsAcknowledgesNothingMore(t *testing.T) {
	for _, ext := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			n := memnet.New()
			mo := store.Options{Role: store.SyncMaster}
			so := store.Options{Role: store.Slave, FlushMode: store.SyncFlush, HA: store.HAOptions{MasterAddress: "a:1", ReportFlushed: true}}
			if ext {
				mo, so = extended(mo), extended(so)
				so.HA.MasterAddress = "a:1+"
			}
			master := start(t, n, "a:1", mo)
			slave := start(t, n, "b:1", so)
			time.Sleep(time.Second)
			if r := put(t, master.s, message("T", 0, "safe")); r.Status != store.PutOK {
				t.Fatal(r.Status)
			}
			safe := master.s.MaxPhyOffset()
			slave.fs.SetHook(func(op faultfs.Op) error {
				if op.Kind == faultfs.OpSync && strings.Contains(op.Path, "commitlog") {
					return errors.New("input/output error")
				}
				return nil
			})
			for i := range 5 {
				if r := put(t, master.s, message("T", 0, "unsafe")); r.Status != store.FlushSlaveTimeout && r.Status != store.SlaveNotAvailable {
					t.Errorf("put %d: %v", i, r.Status)
				}
				time.Sleep(10 * time.Second) // long enough to connect again
				for _, s := range master.s.Stats().HA.Slaves {
					if s.Ack > safe {
						t.Errorf("after put %d acknowledged up to %d, on its disk are %d", i, s.Ack, safe)
					}
				}
			}
			if slave.s.Stats().HA.Following.LastError == "" {
				t.Error("the slave does not say why it is behind")
			}
			if end := slave.s.MaxPhyOffset(); end <= safe {
				t.Errorf("the slave holds %d: nothing that it could acknowledge wrongly", end)
			}
			slave.kill(nil)
			slave.open()
			time.Sleep(10 * time.Second)
			if r := put(t, master.s, message("T", 0, "safe again")); r.Status != store.PutOK {
				t.Error(r.Status)
			}
			caughtUp(t, master, slave)
			same(t, master, slave)
		})
	}
}
