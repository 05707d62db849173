package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/conformance/golden"
	"github.com/mqstore/mqstore/store"
	"github.com/mqstore/mqstore/store/internal/repair"
)

// checkStore is everything that verify finds in a store directory.
func checkStore(t testing.TB, dir string, o repair.CheckOptions) (found []repair.Finding, sum repair.Checked) {
	t.Helper()
	o.Dir = dir
	sum, err := repair.Check(t.Context(), os.DirFS(dir), nil, o, func(f repair.Finding) error {
		found = append(found, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found, sum
}

// fillStore puts n messages into the store in dir, and closes it with its index complete.
func fillStore(t testing.TB, dir string, o store.Options, n int) {
	t.Helper()
	s, err := store.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	putMany(t, s, n)
	if _, err := s.IndexStep(math.MaxInt32); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func putMany(t testing.TB, s *store.DefaultMessageStore, n int) {
	t.Helper()
	for i := range n {
		m := &record.Message{Topic: fmt.Sprintf("Topic%c", 'A'+i%3), QueueID: int32(i % 4 / 2), Body: []byte(strings.Repeat("body ", 5+i%9)),
			Properties: record.NewProperties(record.PropertyTags, fmt.Sprintf("Tag%d", i%5), record.PropertyKeys, fmt.Sprintf("key%d other%d", i, i%7), record.PropertyUniqKey, fmt.Sprintf("uniq%d", i))}
		if _, err := s.Put(context.Background(), m); err != nil {
			t.Fatal(err)
		}
	}
}

// Stores that nothing happened to: those of RocketMQ that this engine went on with, and its own of every shape.
func TestVerifyFindsNothingInStoresThatAreWhole(t *testing.T) {
	clean := func(t *testing.T, dir string) {
		t.Helper()
		found, sum := checkStore(t, dir, repair.CheckOptions{IndexSlack: 1})
		for _, f := range found {
			t.Errorf("%+v", f)
		}
		if sum.Records == 0 {
			t.Errorf("%+v", sum)
		}
	}
	for i, name := range golden.Names() {
		if i%2 == 1 && effort.N(0, 1) == 0 {
			continue // half of them will do
		}
		if name == "ha-capture" || strings.HasPrefix(name, "clean-") || strings.HasPrefix(name, "crash-") {
			continue
		}
		t.Run("gone on with "+name, func(t *testing.T) {
			dir := filepath.Join(golden.Extract(t, name), "store")
			fillStore(t, dir, store.Options{NoBackground: true, MultiDispatch: name == "lmq"}, 100)
			clean(t, dir)
		})
	}
	for name, o := range map[string]store.Options{
		"tiny":         {SegmentSize: 4 << 10, QueueFileSize: 40},
		"small":        {SegmentSize: 64 << 10, QueueFileSize: 400},
		"sync":         {SegmentSize: 64 << 10, QueueFileSize: 400, FlushMode: store.SyncFlush},
		"long topics":  {SegmentSize: 64 << 10, AllowV2: true},
		"no index":     {SegmentSize: 64 << 10, Index: store.IndexOptions{Off: true}},
		"default size": {},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "default size" && effort.Current() == effort.Quick {
				o.SegmentSize = 256 << 20
			}
			dir := filepath.Join(t.TempDir(), "store")
			s, err := store.Open(dir, o)
			if err != nil {
				t.Fatal(err)
			}
			ctx := context.Background()
			putMany(t, s, 200)
			host := record.Host{Addr: netip.MustParseAddr("2001:db8::1"), Port: 10911}
			body, err := record.CompressBody(record.CompressionZstd, 0, []byte(strings.Repeat("long ", 100)))
			if err != nil {
				t.Fatal(err)
			}
			for i, m := range []*record.Message{
				{Topic: "six", BornHost: host, StoreHost: host, Body: []byte("6")},
				{Topic: "half", SysFlag: record.SysFlag(record.TransactionPrepared), Body: []byte("p"), Properties: record.NewProperties(record.PropertyKeys, "half")},
				{Topic: "half", SysFlag: record.SysFlag(record.TransactionCommit), Body: []byte("c"), Properties: record.NewProperties(record.PropertyKeys, "whole")},
				{Topic: "half", SysFlag: record.SysFlag(record.TransactionRollback), Properties: record.NewProperties(record.PropertyKeys, "none")},
				{Topic: "small", SysFlag: record.SysFlag(0).WithCompression(record.CompressionZstd), Body: body},
				{Topic: record.TopicSchedule, QueueID: 2, Body: []byte("later"), Properties: record.NewProperties(record.PropertyDelay, "3", record.PropertyTags, "x")},
				{Topic: "tagged", Properties: record.NewProperties(record.PropertyTags, "中文 😀", record.PropertyKeys, "a a b  a", record.PropertyUniqKey, "a")},
				{Topic: strings.Repeat("t", 100+40*len(name)%60), Body: nil},
			} {
				if _, err := s.Put(ctx, m); err != nil && len(m.Topic) < 127 {
					t.Fatal(i, err)
				}
			}
			if !o.Index.Off {
				if err := s.WaitIndexed(ctx, s.MaxPhyOffset()); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.WaitFlushed(ctx, s.MaxPhyOffset()); err != nil {
				t.Fatal(err)
			}
			if err := s.WaitForMessages(ctx, "TopicA", 0, 0); err != nil {
				t.Fatal(err)
			}
			killed := filepath.Join(t.TempDir(), "killed")
			copySparse(t, dir, killed)
			leaveHalfMade(t, filepath.Join(killed, "commitlog"))
			leaveHalfMade(t, filepath.Join(killed, "consumequeue", "TopicA", "0"))
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if o.Index.Off {
				found, _ := checkStore(t, dir, repair.CheckOptions{NoIndex: true})
				for _, f := range found {
					t.Errorf("%+v", f)
				}
				return
			}
			clean(t, dir)

			found, _ := checkStore(t, killed, repair.CheckOptions{})
			for _, f := range found {
				if f.Kind != repair.UncleanExit && f.Kind != repair.MissingQueue && f.Kind != repair.MissingUnit && f.Kind != repair.CheckpointAhead {
					t.Errorf("after a kill: %s", fmt.Sprintf("%+v", f))
				}
			}
			fillStore(t, killed, store.Options{SegmentSize: o.SegmentSize, QueueFileSize: o.QueueFileSize, NoBackground: true}, 10)
			clean(t, killed)
		})
	}
}

// leaveHalfMade puts the next file of a sequence there as a kill leaves it that comes while the file is made: empty. Perhaps one is there already.
func leaveHalfMade(t testing.TB, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) == 0 {
		t.Fatal(dir, err)
	}
	last, err := entries[len(entries)-1].Info()
	if err != nil {
		t.Fatal(err)
	}
	start, err := strconv.ParseInt(last.Name(), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%020d", start+last.Size())), nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

// copySparse copies a tree, without what is zeros.
func copySparse(t testing.TB, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(from, p)
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		in, err := os.Open(p)
		if err != nil {
			return err
		}
		defer in.Close()
		info, err := in.Stat()
		if err != nil {
			return err
		}
		out, err := os.Create(filepath.Join(to, rel))
		if err != nil {
			return err
		}
		defer out.Close()
		if err := out.Truncate(info.Size()); err != nil {
			return err
		}
		b := make([]byte, 1<<20)
		for at := int64(0); at < info.Size(); at += int64(len(b)) {
			n, err := in.ReadAt(b, at)
			if err != nil && err != io.EOF {
				return err
			}
			if len(bytes.Trim(b[:n], "\x00")) > 0 {
				if _, err := out.WriteAt(b[:n], at); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestVerifyOfALiveStoreDoesNotTellWhatIsUnderWay(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s, err := store.Open(dir, store.Options{SegmentSize: 64 << 10, QueueFileSize: 4000})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	putMany(t, s, 500)
	ctx, stop := context.WithCancel(context.Background())
	var (
		writer sync.WaitGroup
		target atomic.Int64 // a megabyte for each check: a writer that runs free makes each one longer than the one before
	)
	writer.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			if s.MaxPhyOffset() > target.Load() {
				runtime.Gosched()
				continue
			}
			m := &record.Message{Topic: fmt.Sprintf("Live%d", i%50), QueueID: int32(i % 3), Body: []byte(strings.Repeat("x", i%500)),
				Properties: record.NewProperties(record.PropertyKeys, fmt.Sprint("k", i))}
			if _, err := s.Put(context.Background(), m); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range effort.N(6, 100) {
		target.Add(1 << 20)
		found, _ := checkStore(t, dir, repair.CheckOptions{Live: true})
		for _, f := range found {
			t.Errorf("%+v", f)
		}
		if t.Failed() {
			break
		}
	}
	stop()
	writer.Wait()
}
