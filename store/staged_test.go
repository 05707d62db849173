package store_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/store"
)

// What a synchronous flush has not reached is staged in memory: an answer that did not wait for the flush must not be taken back by the end of the process all the same.
func TestWhatWasAnsweredWithoutAFlushOutlivesTheProcess(t *testing.T) {
	for _, c := range []struct {
		name string
		put  func(s *store.DefaultMessageStore) error
	}{
		{"Put, WAIT=false", func(s *store.DefaultMessageStore) error {
			_, err := s.Put(bg, message("T", 0, "x", "WAIT", "false"))
			return err
		}},
		{"PutAsync, WAIT=false", func(s *store.DefaultMessageStore) error {
			_, err := s.PutAsync(message("T", 0, "x", "WAIT", "false")).Wait(bg)
			return err
		}},
		{"AppendToCommitLog, whose slave reports what is written", func(s *store.DefaultMessageStore) error {
			from := open(t, "/other", store.Options{FS: faultfs.New(), NoBackground: true})
			put(t, from, message("T", 0, "x"))
			v, err := from.CommitLogData(0, 1<<20)
			if err != nil {
				return err
			}
			defer v.Release()
			return s.AppendToCommitLog(0, v.Bytes)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := faultfs.New()
			s := open(t, "/store", store.Options{FS: fsys, FlushMode: store.SyncFlush, NoBackground: true})
			if err := c.put(s); err != nil {
				t.Fatal(err)
			}
			s = open(t, "/store", store.Options{FS: fsys.Kill(), FlushMode: store.SyncFlush})
			if got := s.MaxOffset("T", 0); got != 1 {
				t.Errorf("%d messages after the kill, want 1", got)
			}
		})
	}
}

// A disk that cannot take what was appended, full or broken, ends the store's puts as a failed flush does: nobody is told to try again, and Close does not call the end clean.
func TestAFailedWriteOfWhatWasAppendedIsAFailedFlush(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("with synchronous flush, no log is staged on this system")
	}
	from := open(t, "/other", store.Options{FS: faultfs.New(), NoBackground: true, SegmentSize: 4 << 20})
	put(t, from, message("T", 0, "x"))
	put(t, from, message("T", 0, strings.Repeat("x", 1<<20)))
	v, err := from.CommitLogData(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Release()
	for _, c := range []struct {
		name string
		put  func(s *store.DefaultMessageStore) error
	}{
		{"Put", func(s *store.DefaultMessageStore) error {
			_, err := s.Put(bg, message("T", 0, "x"))
			return err
		}},
		{"Put of more than is collected", func(s *store.DefaultMessageStore) error {
			_, err := s.Put(bg, message("T", 0, strings.Repeat("x", 2<<20)))
			return err
		}},
		{"Put, WAIT=false", func(s *store.DefaultMessageStore) error {
			_, err := s.Put(bg, message("T", 0, "x", "WAIT", "false"))
			return err
		}},
		{"AppendToCommitLog", func(s *store.DefaultMessageStore) error {
			end := s.MaxPhyOffset()
			return s.AppendToCommitLog(end, v.Bytes[end:])
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := faultfs.New()
			s := open(t, "/store", store.Options{FS: fsys, FlushMode: store.SyncFlush, NoBackground: true, SegmentSize: 4 << 20})
			put(t, s, message("T", 0, "x"))
			durable := s.FlushedPhyOffset()
			fsys.SetHook(func(op faultfs.Op) error {
				if op.Kind == faultfs.OpWrite {
					return mappedfile.ErrDiskFull
				}
				return nil
			})
			if err := c.put(s); !errors.Is(err, store.ErrFlushFailed) || strings.Contains(err.Error(), "again at once") {
				t.Errorf("%v, want ErrFlushFailed", err)
			}
			fsys.SetHook(nil)
			if _, err := s.Put(bg, message("T", 0, "y")); !errors.Is(err, store.ErrServiceNotAvailable) || !errors.Is(err, store.ErrFlushFailed) {
				t.Errorf("the next put: %v", err)
			}
			if _, err := s.DispatchStep(100); err != nil {
				t.Errorf("dispatch of what is durable: %v", err)
			}
			if got := s.MaxOffset("T", 0); got != 1 {
				t.Errorf("%d messages to read, want the durable one", got)
			}
			if err := s.Close(); !errors.Is(err, store.ErrFlushFailed) {
				t.Errorf("close: %v", err)
			}
			if _, err := fsys.Stat("/store/abort"); err != nil {
				t.Errorf("it closed as if all were well: %v", err)
			}
			s = open(t, "/store", store.Options{FS: fsys, FlushMode: store.SyncFlush, SegmentSize: 4 << 20})
			if s.MaxPhyOffset() < durable {
				t.Errorf("the log ends at %d, %d was durable", s.MaxPhyOffset(), durable)
			}
			put(t, s, message("T", 0, "z"))
		})
	}
}
