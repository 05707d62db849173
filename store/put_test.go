package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mqstore/mqstore/checkpoint"
	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/store"
)

var bg = context.Background()

// with is message with changes.
func with(m *record.Message, change func(m *record.Message)) *record.Message {
	change(m)
	return m
}

func TestEveryRefusalHasItsStatusAndUsesNoOffset(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{MaxMessageSize: 40000, MultiDispatch: true})
	put(t, s, message("T", 0, "first"))
	wide := "é" // two bytes, one character
	cases := []struct {
		name   string
		m      *record.Message
		is     error
		status string
	}{
		{"nil", nil, store.ErrMessageIllegal, "MESSAGE_ILLEGAL"},
		{"empty topic", message("", 0, "x"), store.ErrMessageIllegal, "MESSAGE_ILLEGAL"},
		{"topic of 128 characters", message(strings.Repeat("t", 128), 0, "x"), store.ErrMessageIllegal, "MESSAGE_ILLEGAL"},
		{"topic of 64 characters and 128 bytes", message(strings.Repeat(wide, 64), 0, "x"), store.ErrMessageIllegal, "MESSAGE_ILLEGAL"},
		{"topic that leaves the directory", message("../T", 0, "x"), store.ErrMessageIllegal, "MESSAGE_ILLEGAL"},
		{"topic that is the directory", message("..", 0, "x"), store.ErrMessageIllegal, "MESSAGE_ILLEGAL"},
		{"negative queue id", message("T", -1, "x"), store.ErrMessageIllegal, "MESSAGE_ILLEGAL"},
		{"properties of 32,768 characters", message("T", 0, "x", "k", strings.Repeat("v", 32766)), store.ErrMessageIllegal, "MESSAGE_ILLEGAL"},
		{"properties of fewer characters and 32,768 bytes", message("T", 0, "x", "k", strings.Repeat(wide, 16383)), store.ErrPropertiesTooLarge, "PROPERTIES_SIZE_EXCEEDED"},
		{"body of a byte too many", message("T", 0, strings.Repeat("b", 40001)), store.ErrMessageIllegal, "MESSAGE_ILLEGAL"},
		{"record that does not fit into a segment", message("T", 0, strings.Repeat("b", 40000), "k", strings.Repeat("v", 30000)), store.ErrMessageIllegal, "MESSAGE_ILLEGAL"},
		{"properties with a zero byte", message("T", 0, "x", "k", "v\x00"), store.ErrMessageIllegal, "MESSAGE_ILLEGAL"},
		{"version 2 without AllowV2", with(message("T", 0, "x"), func(m *record.Message) { m.Version = record.V2 }), store.ErrMessageIllegal, "MESSAGE_ILLEGAL"},
		{"delayed", message("T", 0, "x", "DELAY", "3"), store.ErrUnsupported, "MESSAGE_ILLEGAL"},
		{"multi-dispatch", message("T", 0, "x", "INNER_MULTI_DISPATCH", "%LMQ%a"), store.ErrUnsupported, "MESSAGE_ILLEGAL"},
	}
	for _, c := range cases {
		_, err := s.Put(bg, c.m)
		if !errors.Is(err, c.is) || store.StatusName(err) != c.status {
			t.Errorf("%s: %v (%s), want %v (%s)", c.name, err, store.StatusName(err), c.is, c.status)
		}
		if _, ferr := s.PutAsync(c.m).Wait(bg); ferr == nil || ferr.Error() != err.Error() {
			t.Errorf("%s: PutAsync says %v, Put %v", c.name, ferr, err)
		}
	}
	if r := put(t, s, message("T", 0, "second")); r.QueueOffset != 1 {
		t.Fatalf("queue offset %d after refusals, want 1", r.QueueOffset)
	}
	// What looks like a refusal and is none.
	for _, m := range []*record.Message{
		message(strings.Repeat("t", 127), 0, ""),
		message("T", 0, "x", "DELAY", "0"),
		message("T", 0, "x", "DELAY", "soon"),
		message(record.TopicSchedule, 2, "x", "DELAY", "3"),
		with(message("T", 0, "x", "DELAY", "3"), func(m *record.Message) { m.SysFlag = record.SysFlag(record.TransactionPrepared) }),
		message("T", 0, strings.Repeat("b", 40000)),
	} {
		put(t, s, m)
	}
	if st := s.Stats(); st.PutFailures != 2*int64(len(cases)) || st.Puts != 8 {
		t.Errorf("%d puts, %d failures", st.Puts, st.PutFailures)
	}
}

func TestV2TopicsAreWrittenOnlyWhenAllowed(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, store.Options{AllowV2: true})
	topic := strings.Repeat("é", 100) // 200 bytes
	r := put(t, s, message(topic, 0, "v2"))
	settle(t, s, topic, 0, 1)
	m, err := s.Lookup(r.PhyOffset)
	if err != nil || m.Version != record.V2 || m.Topic != topic {
		t.Fatalf("%+v, %v", m, err)
	}
	if _, err := s.Put(bg, message(strings.Repeat("t", 256), 0, "")); store.StatusName(err) != "MESSAGE_ILLEGAL" {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, store.Options{})
	if g := get(t, s, topic, 0, 0); g.Status != store.Found {
		t.Fatal(g.Status)
	}
}

func TestBatchIsAllOrNothing(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{MaxMessageSize: 50000})
	item := func(n int, properties ...string) record.BatchItem {
		return record.BatchItem{Flag: 7, Body: bytes.Repeat([]byte{'i'}, n), Properties: record.NewProperties(properties...)}
	}
	m := func() *record.Message { return message("B", 1, "", "CLUSTER", "c") }
	bad := []struct {
		name  string
		m     *record.Message
		items []record.BatchItem
		want  error
	}{
		{"empty", m(), nil, store.ErrMessageIllegal},
		{"too large together", m(), []record.BatchItem{item(25000), item(25000)}, store.ErrMessageIllegal},
		{"in a transaction", with(m(), func(m *record.Message) { m.SysFlag = record.SysFlag(record.TransactionCommit) }), []record.BatchItem{item(1)}, store.ErrMessageIllegal},
		{"delayed", message("B", 1, "", "DELAY", "1"), []record.BatchItem{item(1)}, store.ErrMessageIllegal},
		{"combined properties too long", message("B", 1, "", "k", strings.Repeat("v", 20000)), []record.BatchItem{item(1), item(1, "k", strings.Repeat("v", 20000))}, store.ErrPropertiesTooLarge},
		{"topic", message(strings.Repeat("t", 128), 1, ""), []record.BatchItem{item(1)}, store.ErrMessageIllegal},
	}
	for _, c := range bad {
		if _, err := s.PutBatch(bg, c.m, c.items); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if s.MaxPhyOffset() != 0 {
		t.Fatalf("a refused batch left %d bytes", s.MaxPhyOffset())
	}
	put(t, s, message("B", 1, strings.Repeat("f", 40000)))
	r, err := s.PutBatch(bg, m(), []record.BatchItem{item(10000, "TAGS", "a"), item(10000), item(10000, "TAGS", "b")})
	if err != nil {
		t.Fatal(err)
	}
	if r.PhyOffset != 64<<10 || r.QueueOffset != 1 || r.Messages != 3 || len(r.Offsets) != 3 || strings.Count(r.MessageID(), ",") != 2 {
		t.Fatalf("a batch that does not fit must move to the next segment as a whole: %+v", r)
	}
	settle(t, s, "B", 1, 4)
	i := 0
	for m, err := range s.Scan(bg, "B", 1, 1) {
		if err != nil {
			t.Fatal(err)
		}
		cluster, _ := m.Properties.Get("CLUSTER")
		if m.PhyOffset != r.Offsets[i] || m.QueueOffset != int64(1+i) || m.StoreTimestamp != r.StoreTimestamp || cluster != "c" || m.Flag != 7 {
			t.Errorf("item %d: %+v", i, m)
		}
		if byID, err := s.LookupID(strings.Split(r.MessageID(), ",")[i]); err != nil || byID.QueueOffset != m.QueueOffset {
			t.Errorf("item %d by id: %v, %v", i, byID, err)
		}
		i++
	}
	if i != 3 {
		t.Fatal(i)
	}
}

// Report 31: one put in each mode.
func TestEveryFlushModeStoresAndAnswersOK(t *testing.T) {
	for _, mode := range []store.FlushMode{store.AsyncFlush, store.SyncFlush} {
		for _, background := range []bool{true, false} {
			for _, wait := range []string{"", "true", "TRUE", "false"} {
				t.Run(fmt.Sprintf("%v/background=%v/WAIT=%s", mode, background, wait), func(t *testing.T) {
					s := open(t, t.TempDir(), store.Options{FlushMode: mode, NoBackground: !background})
					m := func() *record.Message {
						if wait == "" {
							return message("T", 0, "x")
						}
						return message("T", 0, "x", "WAIT", wait)
					}
					if r := put(t, s, m()); r.Status != store.PutOK {
						t.Fatal(r)
					} else if end := r.PhyOffset + int64(r.Size); mode == store.SyncFlush && wait != "false" && s.FlushedPhyOffset() < end {
						t.Fatalf("PutOK at flushed %d, the message ends at %d", s.FlushedPhyOffset(), end)
					}
					f := s.PutAsync(m())
					r, err := s.PutBatch(bg, m(), []record.BatchItem{{Body: []byte("a")}, {Body: []byte("b")}})
					if err != nil || r.Status != store.PutOK {
						t.Fatal(r, err)
					}
					if !background {
						if _, err := s.FlushStep(); err != nil {
							t.Fatal(err)
						}
						if _, err := s.DispatchStep(100); err != nil {
							t.Fatal(err)
						}
					}
					if r, err := f.Wait(bg); err != nil || r.Status != store.PutOK || r.QueueOffset != 1 {
						t.Fatal(r, err)
					}
					settle(t, s, "T", 0, 4)
				})
			}
		}
	}
}

// blocked makes the syncs of the commit log wait until open is called.
func blocked(fsys *faultfs.FS) (open func()) {
	gate := make(chan struct{})
	var once sync.Once
	fsys.SetHook(func(op faultfs.Op) error {
		if op.Kind == faultfs.OpSync && strings.Contains(op.Path, "commitlog") {
			<-gate
		}
		return nil
	})
	return func() { once.Do(func() { close(gate) }) }
}

// Report 12: in SyncFlush mode nobody sees a message before it is on disk.
func TestConsumersSeeOnlyWhatIsFlushed(t *testing.T) {
	for _, uncommitted := range []bool{false, true} {
		t.Run(fmt.Sprintf("ReadUncommitted=%v", uncommitted), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fsys := faultfs.New()
				s := open(t, "/store", store.Options{FS: fsys, FlushMode: store.SyncFlush, ReadUncommitted: uncommitted})
				release := blocked(fsys)
				defer release()
				var answered atomic.Bool
				go func() {
					put(t, s, message("T", 0, "x"))
					answered.Store(true)
				}()
				synctest.Wait()
				visible := int64(0)
				if uncommitted {
					visible = 1
				}
				if answered.Load() || s.MaxOffset("T", 0) != visible || s.MaxPhyOffset() == 0 {
					t.Fatalf("answered %v, visible %d, want %d; log end %d", answered.Load(), s.MaxOffset("T", 0), visible, s.MaxPhyOffset())
				}
				if r, err := s.Get(bg, store.GetRequest{Topic: "T"}); err != nil || (r.Status == store.Found) != uncommitted {
					t.Fatal(r.Status, err)
				} else {
					r.Release()
				}
				release()
				synctest.Wait()
				if !answered.Load() || s.MaxOffset("T", 0) != 1 {
					t.Fatal(answered.Load(), s.MaxOffset("T", 0))
				}
			})
		})
	}
}

func TestSlowDiskAnswersFlushDiskTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := faultfs.New()
		s := open(t, "/store", store.Options{FS: fsys, FlushMode: store.SyncFlush, SyncFlushTimeout: 3 * time.Second})
		release := blocked(fsys)
		defer release()
		begin := time.Now()
		f := s.PutAsync(message("T", 0, "async"))
		r := put(t, s, message("T", 0, "x"))
		if r.Status != store.FlushDiskTimeout || time.Since(begin) != 3*time.Second {
			t.Fatal(r, time.Since(begin))
		}
		if r, err := f.Wait(bg); err != nil || r.Status != store.FlushDiskTimeout {
			t.Fatal(r, err)
		}
		// The caller's own patience is another thing.
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		if r, err := s.Put(ctx, message("T", 0, "y")); !errors.Is(err, context.DeadlineExceeded) || r.Status != store.FlushDiskTimeout || r.QueueOffset != 2 {
			t.Fatal(r, err)
		}
		release()
		synctest.Wait()
		if s.MaxOffset("T", 0) != 3 {
			t.Fatal("late messages must come out once they are flushed")
		}
	})
}

// Report 29: a failed sync fails that put and all later ones; what was acknowledged before survives.
func TestOneFailedFlushIsFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := faultfs.New()
		var events atomic.Int64
		s := open(t, "/store", store.Options{FS: fsys, FlushMode: store.SyncFlush, Events: store.Events{FlushFailed: func(error) { events.Add(1) }}})
		put(t, s, message("T", 0, "durable"))
		settle(t, s, "T", 0, 1)
		var failed atomic.Bool
		fsys.SetHook(func(op faultfs.Op) error {
			if op.Kind == faultfs.OpSync && strings.Contains(op.Path, "commitlog") && !failed.Swap(true) {
				return syscall.EIO
			}
			return nil
		})
		f := s.PutAsync(message("T", 0, "async"))
		_, err := s.Put(bg, message("T", 0, "lost"))
		if !errors.Is(err, store.ErrFlushFailed) || !errors.Is(err, syscall.EIO) {
			t.Fatal(err)
		}
		if r, err := f.Wait(bg); !errors.Is(err, store.ErrFlushFailed) || r.Status != store.FlushDiskTimeout {
			t.Fatal(r, err)
		}
		for range 2 {
			if _, err := s.Put(bg, message("T", 0, "later")); !errors.Is(err, store.ErrServiceNotAvailable) || store.StatusName(err) != "SERVICE_NOT_AVAILABLE" {
				t.Fatal(err)
			}
		}
		if st := s.Stats(); st.Writable || !strings.Contains(st.NotWritableReason, syscall.EIO.Error()) {
			t.Fatalf("%v %q", st.Writable, st.NotWritableReason)
		}
		if g := get(t, s, "T", 0, 0); len(g.Records) != 1 {
			t.Fatal("reads must go on, of what is durable: ", len(g.Records))
		}
		if err := s.Close(); !errors.Is(err, store.ErrFlushFailed) {
			t.Fatal(err)
		}
		if events.Load() != 1 {
			t.Fatalf("%d events", events.Load())
		}
		s = open(t, "/store", store.Options{FS: fsys.Kill(), FlushMode: store.SyncFlush})
		if s.Stats().Recovery.Clean || s.MaxOffset("T", 0) < 1 {
			t.Fatalf("%+v", s.Stats())
		}
		put(t, s, message("T", 0, "after"))
	})
}

// Report 30: how far the log is durable can be seen and waited for.
func TestAsyncPutIsDurableWhenItSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, "/store", store.Options{FS: faultfs.New()})
		r := put(t, s, message("T", 0, "x"))
		end := r.PhyOffset + int64(r.Size)
		if st := s.Stats(); st.FlushedPhyOffset >= end || st.MaxPhyOffset != end {
			t.Fatalf("flushed %d of %d right after an async put", st.FlushedPhyOffset, st.MaxPhyOffset)
		}
		if err := s.WaitFlushed(bg, end); err != nil || s.FlushedPhyOffset() != end {
			t.Fatal(err, s.FlushedPhyOffset())
		}
		r = put(t, s, message("T", 0, "y"))
		time.Sleep(500 * time.Millisecond) // FlushEvery, of fake time
		synctest.Wait()
		if s.FlushedPhyOffset() != r.PhyOffset+int64(r.Size) {
			t.Fatal("not flushed after FlushEvery")
		}
	})
}

// Report 33: many waiters, few syncs.
func TestOneSyncServesAllWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := faultfs.New()
		s := open(t, "/store", store.Options{FS: fsys, FlushMode: store.SyncFlush, SegmentSize: 1 << 20})
		put(t, s, message("T", 0, "first"))
		synctest.Wait()
		release := blocked(fsys)
		defer release()
		first := s.PutAsync(message("T", 0, "in flight"))
		synctest.Wait()
		var fs []*store.Future
		for range 100 {
			fs = append(fs, s.PutAsync(message("T", 0, "waiter")))
		}
		var syncs atomic.Int64
		release()
		fsys.SetHook(func(op faultfs.Op) error {
			if op.Kind == faultfs.OpSync && strings.Contains(op.Path, "commitlog") {
				syncs.Add(1)
			}
			return nil
		})
		for _, f := range append(fs, first) {
			if r, err := f.Wait(bg); err != nil || r.Status != store.PutOK {
				t.Fatal(r, err)
			}
		}
		if n := syncs.Load(); n > 2 {
			t.Fatalf("%d syncs for 100 waiters", n)
		}
	})
}

// Report 32: what was acknowledged while the store closed is there afterwards, after a power failure, too.
func TestEveryOKDuringCloseSurvives(t *testing.T) {
	for _, mode := range []store.FlushMode{store.AsyncFlush, store.SyncFlush} {
		t.Run(mode.String(), func(t *testing.T) {
			fsys := faultfs.New()
			s := open(t, "/store", store.Options{FS: fsys, FlushMode: mode, SegmentSize: 256 << 10})
			var acked [64][]int64
			var wg sync.WaitGroup
			running := make(chan struct{}, len(acked))
			for i := range acked {
				wg.Go(func() {
					for n := 0; ; n++ {
						r, err := s.Put(bg, message("T", int32(i), "x"))
						if n == 0 {
							running <- struct{}{}
						}
						if err != nil {
							if !errors.Is(err, store.ErrClosed) || store.StatusName(err) != "SERVICE_NOT_AVAILABLE" {
								t.Error(err)
							}
							return
						}
						if r.Status == store.PutOK {
							acked[i] = append(acked[i], r.QueueOffset)
						}
					}
				})
			}
			for range 8 {
				<-running
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			wg.Wait()
			s = open(t, "/store", store.Options{FS: fsys.Kill(), FlushMode: mode, SegmentSize: 256 << 10})
			if r := s.Stats().Recovery; !r.Clean || r.RebuiltUnits != 0 {
				t.Errorf("close was not clean, or not the last: %+v", r)
			}
			for i, offsets := range acked {
				for n, queueOffset := range offsets {
					if queueOffset != int64(n) {
						t.Fatalf("queue %d: put %d got offset %d", i, n, queueOffset)
					}
				}
				if max := s.MaxOffset("T", int32(i)); max != int64(len(offsets)) {
					t.Errorf("queue %d has %d messages, %d were acknowledged", i, max, len(offsets))
				}
			}
		})
	}
}

// Report 36: a full disk refuses puts; reads go on; with room, puts go on.
func TestDiskFullRefusesPutsUntilThereIsRoom(t *testing.T) {
	fsys := faultfs.New()
	var full atomic.Int64
	s := open(t, "/store", store.Options{FS: fsys, NoBackground: true, Events: store.Events{DiskFull: func(error) { full.Add(1) }}})
	put(t, s, message("T", 0, "first"))
	dispatchAll(t, s)
	fsys.SetLimit(fsys.Used() + 10<<10)
	body := strings.Repeat("b", 20000)
	n := int64(1)
	var err error
	for err == nil {
		if _, err = s.Put(bg, message("T", 0, body)); err == nil {
			n++
		}
	}
	if !errors.Is(err, store.ErrDiskFull) || store.StatusName(err) != "CREATE_MAPEDFILE_FAILED" {
		t.Fatal(err)
	}
	if st := s.Stats(); st.Writable || !strings.Contains(st.NotWritableReason, "disk full") {
		t.Errorf("%v %q", st.Writable, st.NotWritableReason)
	}
	dispatchAll(t, s)
	if g := get(t, s, "T", 0, 0); int64(len(g.Records)) != n {
		t.Fatalf("%d of %d messages can be read on a full disk", len(g.Records), n)
	}
	// What still fits into the segment is taken.
	if r := put(t, s, message("T", 0, "small")); r.QueueOffset != n {
		t.Fatal(r)
	}
	n++
	if _, err := s.Put(bg, message("T", 0, body)); !errors.Is(err, store.ErrDiskFull) {
		t.Fatal(err)
	}
	fsys.SetLimit(0)
	if r := put(t, s, message("T", 0, body)); r.QueueOffset != n {
		t.Fatalf("queue offset %d, want %d: a refusal used one up", r.QueueOffset, n)
	}
	dispatchAll(t, s)
	if s.MaxOffset("T", 0) != n+1 || !s.Stats().Writable || full.Load() != 2 {
		t.Fatal(s.MaxOffset("T", 0), s.Stats().NotWritableReason, full.Load())
	}
}

func dispatchAll(t testing.TB, s *store.DefaultMessageStore) {
	t.Helper()
	for {
		n, err := s.DispatchStep(1000)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return
		}
	}
}

// Report 42: queues that could not grow catch up, and the store is writable again.
func TestQueuesCatchUpAfterAFullDisk(t *testing.T) {
	fsys := faultfs.New()
	held := make(chan error, 1)
	s := open(t, "/store", store.Options{FS: fsys, SegmentSize: 8 << 20, Events: store.Events{DiskFull: func(err error) {
		select {
		case held <- err:
		default:
		}
	}}})
	put(t, s, message("T", 0, "first"))
	settle(t, s, "T", 0, 1)
	if _, err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	fsys.SetLimit(fsys.Used() + 100<<10)
	n := int32(1)
	for ; n < 1000; n++ { // a new queue each: the log has room, the queues have not
		if _, err := s.Put(bg, message("T", n, "x")); err != nil {
			if !errors.Is(err, store.ErrDiskFull) {
				t.Fatal(err)
			}
			break
		}
	}
	if err := <-held; !errors.Is(err, store.ErrDiskFull) {
		t.Fatal(err)
	}
	if _, err := s.Put(bg, message("T", 0, "refused")); !errors.Is(err, store.ErrDiskFull) {
		t.Fatal(err)
	}
	if st := s.Stats(); st.DispatchHeldUp == "" || st.Writable {
		t.Errorf("%q %v", st.DispatchHeldUp, st.Writable)
	}
	fsys.SetLimit(0)
	for i := range n {
		settle(t, s, "T", i, 1)
	}
	if r := put(t, s, message("T", 0, "again")); r.QueueOffset != 1 {
		t.Fatal(r)
	}
	if st := s.Stats(); st.DispatchHeldUp != "" || !st.Writable {
		t.Errorf("%q %q", st.DispatchHeldUp, st.NotWritableReason)
	}
}

// A SYNC_MASTER without a slave stores the message and says that no slave has it.
func TestSyncMasterWithoutASlaveSaysSo(t *testing.T) {
	for _, mode := range []store.FlushMode{store.AsyncFlush, store.SyncFlush} {
		s := open(t, t.TempDir(), store.Options{Role: store.SyncMaster, FlushMode: mode})
		if r := put(t, s, message("T", 0, "x")); r.Status != store.SlaveNotAvailable || mode == store.SyncFlush && s.FlushedPhyOffset() < int64(r.Size) {
			t.Error(mode, r, s.FlushedPhyOffset())
		}
		if r, err := s.PutAsync(message("T", 0, "x")).Wait(bg); err != nil || r.Status != store.SlaveNotAvailable {
			t.Error(mode, r, err)
		}
		if r := put(t, s, message("T", 0, "x", "WAIT", "false")); r.Status != store.PutOK {
			t.Error(mode, r)
		}
		settle(t, s, "T", 0, 3)
	}
}

// Report 38: while an append stands in the log's lock, puts are refused with an error of their own that says for how long.
func TestPutsAreRefusedWhileAnAppendHoldsTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := faultfs.New()
		s := open(t, "/store", store.Options{FS: fsys, NoBackground: true, PutBusyAfter: time.Second})
		put(t, s, message("T", 0, strings.Repeat("b", 60000)))
		gate := make(chan struct{})
		fsys.SetHook(func(op faultfs.Op) error {
			if op.Kind == faultfs.OpMap {
				<-gate
			}
			return nil
		})
		done := make(chan error)
		go func() {
			_, err := s.Put(bg, message("T", 0, strings.Repeat("b", 60000))) // needs the next segment
			done <- err
		}()
		synctest.Wait()
		time.Sleep(1001 * time.Millisecond) // of fake time
		if _, err := s.Put(bg, message("T", 0, "x")); !errors.Is(err, store.ErrOSPageCacheBusy) || store.StatusName(err) != "OS_PAGECACHE_BUSY" || !strings.Contains(err.Error(), "1.001s") {
			t.Fatal(err)
		}
		close(gate)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if r := put(t, s, message("T", 0, "x")); r.QueueOffset != 2 {
			t.Fatal(r)
		}
	})
}

// A checkpoint that finds no room is tried again, and is no reason to stop.
func TestACheckpointOnAFullDiskIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := faultfs.New()
		full := 0
		s := open(t, "/store", store.Options{FS: fsys, Events: store.Events{DiskFull: func(error) { full++ }}})
		put(t, s, message("T", 0, "x"))
		settle(t, s, "T", 0, 1)
		if _, err := s.Flush(); err != nil {
			t.Fatal(err)
		}
		fsys.SetLimit(1)
		time.Sleep(61 * time.Second) // CheckpointEvery, of fake time
		synctest.Wait()
		put(t, s, message("T", 0, "y"))
		if full != 1 || !s.Stats().Writable {
			t.Fatal(full, s.Stats().NotWritableReason)
		}
		fsys.SetLimit(0)
		time.Sleep(60 * time.Second)
		synctest.Wait()
		summary, err := checkpoint.ReadSummary(fsys, "/store")
		if err != nil || summary == nil || summary.EndPhyOffset != s.MaxPhyOffset() {
			t.Fatalf("%+v, %v", summary, err)
		}
		fsys.SetLimit(1)
		if err := s.Close(); !errors.Is(err, store.ErrDiskFull) {
			t.Fatal(err)
		}
	})
}

func TestASlaveTakesRawBytesAndNoPuts(t *testing.T) {
	master := open(t, t.TempDir(), store.Options{})
	slave := open(t, filepath.Join(t.TempDir(), "slave"), store.Options{Role: store.Slave})
	for i := range 300 {
		put(t, master, message("T", int32(i%3), strings.Repeat("b", 500)))
	}
	if _, err := slave.Put(bg, message("T", 0, "x")); !errors.Is(err, store.ErrServiceNotAvailable) || !strings.Contains(err.Error(), "slave") {
		t.Fatal(err)
	}
	copyLog(t, master, slave, 777) // pieces end inside records
	var mismatch *store.OffsetMismatchError
	if err := slave.AppendToCommitLog(5, []byte("x")); !errors.As(err, &mismatch) || mismatch.Want != master.MaxPhyOffset() || !errors.Is(err, store.ErrOffsetMismatch) {
		t.Fatal(err)
	}
	for q := range int32(3) {
		settle(t, master, "T", q, 100)
		settle(t, slave, "T", q, 100)
	}
	if a, b := fmt.Sprint(master.Queues()), fmt.Sprint(slave.Queues()); a != b {
		t.Fatalf("queues differ:\n%s\n%s", a, b)
	}
}

// copyLog sends master's log to slave in pieces of at most n bytes.
func copyLog(t testing.TB, master, slave *store.DefaultMessageStore, n int) {
	t.Helper()
	for at := max(slave.MaxPhyOffset(), 0); at < master.MaxPhyOffset(); at = slave.MaxPhyOffset() {
		v, err := master.CommitLogData(at, n)
		if err != nil {
			t.Fatal(err)
		}
		err = slave.AppendToCommitLog(v.PhyOffset, v.Bytes)
		v.Release()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Raw bytes on a master use queue offsets, too: the next put goes on behind them, also when they are dispatched before the call that appended them has returned.
func TestPutGoesOnBehindRawBytes(t *testing.T) {
	other, s := open(t, t.TempDir(), store.Options{}), open(t, t.TempDir(), store.Options{})
	for round := range effort.N(50, 300) {
		topic := fmt.Sprint("T", round)
		if _, err := s.Put(bg, message(topic, 0, strings.Repeat("b", 100_000))); !errors.Is(err, store.ErrMessageIllegal) {
			t.Fatal(err) // and the queue's counter stands at 0 from now on
		}
		for range 10 {
			put(t, other, message(topic, 0, "x"))
		}
		copyLog(t, other, s, 1<<20)
		if r := put(t, s, message(topic, 0, "y")); r.QueueOffset != 10 {
			t.Fatalf("round %d: queue offset %d was given twice", round, r.QueueOffset)
		}
		copyLog(t, s, other, 1<<20)
	}
}

func TestAsyncPutDoesNotAllocate(t *testing.T) {
	if testing.CoverMode() != "" || raceEnabled {
		t.Skip("the race detector and coverage allocate themselves")
	}
	s := open(t, t.TempDir(), store.Options{SegmentSize: 64 << 20})
	m := message("T", 0, strings.Repeat("b", 128), "TAGS", "a", "KEYS", "k1 k2")
	put(t, s, m)
	settle(t, s, "T", 0, 1)
	if n := testing.AllocsPerRun(2000, func() {
		if _, err := s.Put(bg, m); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for each put", n)
	}
}
