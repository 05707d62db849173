package store_test

import (
	"encoding/binary"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// A put that a SYNC_MASTER took is answered as one: that the store has become a slave meanwhile makes no slave have the message.
func TestAPutUnderWayIsAnsweredByTheRoleThatTookIt(t *testing.T) {
	for _, async := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			fsys := faultfs.New()
			s := open(t, "/store", store.Options{FS: fsys, NoBackground: true, Role: store.SyncMaster})
			put(t, s, message("T", 0, strings.Repeat("b", 60000)))
			gate := make(chan struct{})
			fsys.SetHook(func(op faultfs.Op) error {
				if op.Kind == faultfs.OpMap {
					<-gate
				}
				return nil
			})
			answers := make(chan store.PutResult, 1)
			go func() {
				m := message("T", 0, strings.Repeat("b", 60000)) // needs the next segment
				if async {
					r, err := s.PutAsync(m).Wait(bg)
					if err != nil {
						t.Error(err)
					}
					answers <- r
					return
				}
				answers <- put(t, s, m)
			}()
			synctest.Wait()
			changed := make(chan error, 1)
			go func() { changed <- s.SetRole(bg, store.Slave) }()
			synctest.Wait()
			if s.Role() != store.Slave || len(changed) != 0 {
				t.Fatal("the role has changed before the put was answered, or not at all")
			}
			close(gate)
			if r := <-answers; r.Status != store.SlaveNotAvailable {
				t.Errorf("async=%v: answered %v, and no slave has it", async, r.Status)
			}
			if err := <-changed; err != nil {
				t.Error(err)
			}
		})
	}
}

// A slave's log may end with the beginning of a record that is too large to be held back. Who becomes a master cuts it off, and takes puts there.
func TestWhatPromotionCutsHoldsUpNoPut(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{NoBackground: true, Role: store.Slave, SegmentSize: 80 << 20})
	begun := make([]byte, 100)
	binary.BigEndian.PutUint32(begun, 70<<20)
	binary.BigEndian.PutUint32(begun[4:], record.MagicV1)
	if err := s.AppendToCommitLog(0, begun); err != nil || s.MaxPhyOffset() != 100 {
		t.Fatal(s.MaxPhyOffset(), err)
	}
	if err := s.SetRole(bg, store.AsyncMaster); err != nil {
		t.Fatal(err)
	}
	if s.MaxPhyOffset() != 0 {
		t.Errorf("the log ends at %d", s.MaxPhyOffset())
	}
	if r := put(t, s, message("T", 0, "x")); r.PhyOffset != 0 || r.QueueOffset != 0 {
		t.Error(r)
	}
}
