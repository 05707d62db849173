package mappedfile_test

import (
	"bytes"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
)

// A process whose sync failed is killed. For the one after it the bytes are there, and a sync of them succeeds and does nothing: only with Doubt they outlive the machine.
func TestDoubtMakesDurableWhatAFailedSyncDropped(t *testing.T) {
	const size, segment = 200_000, 64 << 10
	for _, doubt := range []bool{true, false} {
		fsys := faultfs.New()
		open := func() *mappedfile.Sequence {
			s, err := mappedfile.OpenSequence(mappedfile.SequenceOptions{FS: fsys, Dir: "/log", FileSize: segment})
			ok(t, err)
			return s
		}
		s := open()
		want := make([]byte, size)
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range want {
			want[i] = 1 + byte(rng.IntN(255))
		}
		for at := int64(0); at < size; at = s.Max() {
			n := min(size-at, 1000, segment-at%segment)
			dst, _, err := s.Reserve(int(n))
			if at > 0 && at%segment == 0 {
				ok(t, s.Roll())
				dst, _, err = s.Reserve(int(n))
			}
			ok(t, err)
			copy(dst, want[at:])
			s.Publish(at + n)
		}
		fsys.FailFrom(fsys.Ops()+1, nil)
		if _, err := s.Flush(); err == nil {
			t.Fatal("the sync did not fail")
		}
		fsys = fsys.Kill()

		s = open()
		ok(t, s.SetMax(size))
		if s.SetFlushed(0); doubt {
			s.Doubt(70_000) // what is flushed below stays so
			s.Doubt(0)
		}
		if s.Flushed() != 0 {
			t.Fatal("flushed", s.Flushed())
		}
		if flushed, err := s.Flush(); err != nil || flushed != size {
			t.Fatal(flushed, err)
		}
		fsys = fsys.Crash(rng)

		s = open()
		ok(t, s.SetMax(size))
		same := true
		for at := int64(0); at < size; at += segment {
			v, err := s.ViewRest(at)
			ok(t, err)
			same = same && bytes.Equal(v.Bytes, want[at:min(at+segment, size)])
			v.Release()
		}
		if same != doubt {
			t.Errorf("doubt %v: the bytes survived: %v", doubt, same)
		}
		ok(t, s.Close())
	}
}

// What is appended after Doubt is synced as always, and what is cut is in doubt no more.
func TestDoubtEndsWhereTheOldBytesEnd(t *testing.T) {
	fsys := faultfs.New()
	s, err := mappedfile.OpenSequence(mappedfile.SequenceOptions{FS: fsys, Dir: "/log", FileSize: 64 << 10})
	ok(t, err)
	put := func(n int) {
		dst, at, err := s.Reserve(n)
		ok(t, err)
		copy(dst, bytes.Repeat([]byte{7}, n))
		s.Publish(at + int64(n))
	}
	put(3000)
	_, err = s.Flush()
	ok(t, err)
	s.Doubt(1000)
	put(500)
	ok(t, s.TruncateTo(2000, nil))
	put(500)
	var synced []faultfs.Op
	fsys.SetHook(func(op faultfs.Op) error { synced = append(synced, op); return nil })
	if flushed, err := s.Flush(); err != nil || flushed != 2500 {
		t.Fatal(flushed, err)
	}
	if len(synced) != 2 || synced[0].Off != 1000 || synced[0].Len != 1000 || synced[1].Off != 2000 || synced[1].Len != 500 {
		t.Errorf("synced %v", synced)
	}
	ok(t, s.Close())
}

// Renew changes no byte, wherever it begins and ends, whether it can read the device or has to write everything again.
func TestRenewChangesNothing(t *testing.T) {
	for _, size := range []int64{1, 6000, 5<<20 + 20} {
		path := filepath.Join(t.TempDir(), "file")
		m, err := mappedfile.OS().Map(path, size, mappedfile.MapCreateSparse)
		ok(t, err)
		rng := rand.New(rand.NewPCG(uint64(size), 1))
		ok(t, m.Allocate(0, size))
		for i := int64(0); i < size; i += 100 {
			m.Bytes()[i] = byte(rng.Uint32())
		}
		want := bytes.Clone(m.Bytes())
		for _, r := range [][2]int64{{0, size}, {size / 3, size / 3}, {size - 1, 1}, {0, 0}} {
			ok(t, m.Renew(r[0], r[1]))
			ok(t, mappedfile.Rewrite(m, r[0], r[1]))
		}
		if !bytes.Equal(m.Bytes(), want) {
			t.Errorf("%d bytes: changed", size)
		}
		if err := m.Renew(0, size+1); err == nil {
			t.Error("renewed what is not there")
		}
		ok(t, m.Close())
		m, err = mappedfile.OS().Map(path, size, mappedfile.MapReadOnly)
		ok(t, err)
		ok(t, m.Renew(0, size)) // nothing of ours to write
		ok(t, m.Close())
	}
}
