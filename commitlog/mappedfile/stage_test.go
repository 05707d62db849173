package mappedfile_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
)

// staged opens a staged sequence in fsys, and returns the writes by call that it makes.
func staged(t *testing.T, fsys *faultfs.FS) (*mappedfile.Sequence, *[]faultfs.Op) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("sequences are staged on Linux only: elsewhere a write and a mapping of one file need not agree, and stores go straight into the mapping")
	}
	var calls []faultfs.Op
	fsys.SetHook(func(op faultfs.Op) error {
		if op.Kind == faultfs.OpWrite {
			calls = append(calls, op)
		}
		return nil
	})
	s, err := mappedfile.OpenSequence(mappedfile.SequenceOptions{FS: fsys, Dir: "/log", FileSize: fileSize, Staged: true})
	ok(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, mappedfile.ErrClosed) && !errors.Is(err, faultfs.ErrDead) && !errors.Is(err, faultfs.ErrInjected) {
			t.Error(err)
		}
	})
	return s, &calls
}

// write appends b to the current file, by Write.
func write(t *testing.T, s *mappedfile.Sequence, b []byte) int64 {
	t.Helper()
	_, off, err := s.Reserve(len(b))
	ok(t, err)
	ok(t, s.Write(off, b))
	s.Publish(off + int64(len(b)))
	return off
}

func TestAFlushWritesWhatIsStagedByOneCall(t *testing.T) {
	fsys := faultfs.New()
	s, calls := staged(t, fsys)
	var want []byte
	for i := range 100 {
		b := bytes.Repeat([]byte{byte(i + 1)}, 7)
		write(t, s, b)
		want = append(want, b...)
	}
	if len(*calls) != 0 {
		t.Errorf("%d calls before the flush", len(*calls))
	}
	if _, err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if len(*calls) != 1 || (*calls)[0].Len != 700 {
		t.Errorf("calls: %v, want one of 700 bytes", *calls)
	}
	after := fsys.Crash(rand.New(rand.NewPCG(1, 1)))
	b, err := after.ReadFile("/log/" + name(0))
	if err != nil || !bytes.Equal(b[:700], want) {
		t.Errorf("after a power loss: %v, %x", err, b[:20])
	}
}

func TestWhatIsStagedIsReadable(t *testing.T) {
	s, calls := staged(t, faultfs.New())
	a := write(t, s, []byte("first"))
	b := write(t, s, []byte("second"))
	v, err := s.View(a, 5)
	ok(t, err)
	if string(v.Bytes) != "first" {
		t.Errorf("%q", v.Bytes)
	}
	v.Release()
	c := write(t, s, []byte("third"))
	if v, err = s.ViewRest(a); err != nil || string(v.Bytes) != "firstsecond" { // what came later can wait: no call for it
		t.Fatalf("%v %q", err, v.Bytes)
	}
	v.Release()
	if v, err = s.ViewRest(c); err != nil || string(v.Bytes) != "third" {
		t.Fatalf("%v %q", err, v.Bytes)
	}
	v.Release()
	if v, err = s.View(b, 11); err != nil || string(v.Bytes) != "secondthird" {
		t.Fatalf("%v %q", err, v.Bytes)
	}
	v.Release()
	if len(*calls) != 2 {
		t.Errorf("calls: %v, want 2", *calls)
	}
}

func TestWhatIsWrittenOutOutlivesTheProcess(t *testing.T) {
	fsys := faultfs.New()
	s, _ := staged(t, fsys)
	write(t, s, []byte("kept"))
	ok(t, s.WriteOut())
	write(t, s, []byte("lost"))
	b, err := fsys.Kill().ReadFile("/log/" + name(0))
	if err != nil || string(b[:8]) != "kept\x00\x00\x00\x00" {
		t.Errorf("%v %q", err, b[:8])
	}
}

func TestAWriteThatWasNotPublishedIsReplaced(t *testing.T) {
	s, _ := staged(t, faultfs.New())
	write(t, s, []byte("a"))
	_, off, err := s.Reserve(8)
	ok(t, err)
	ok(t, s.Write(off, []byte("blankblk"))) // and then there was no next file
	write(t, s, []byte("small"))
	v, err := s.ViewRest(0)
	if err != nil || string(v.Bytes) != "asmall" {
		t.Fatalf("%v %q", err, v.Bytes)
	}
	v.Release()
	_, off, err = s.Reserve(8)
	ok(t, err)
	ok(t, s.Write(off, []byte("blankblk")))
	ok(t, s.WriteOut()) // also when it had got into the file
	write(t, s, []byte("c"))
	if v, err = s.View(0, 7); err != nil || string(v.Bytes) != "asmallc" {
		t.Fatalf("%v %q", err, v.Bytes)
	}
	v.Release()
}

func TestWhatIsStagedFollowsRollsCutsAndTheEnd(t *testing.T) {
	fsys := faultfs.New()
	s, _ := staged(t, fsys)
	write(t, s, bytes.Repeat([]byte{1}, fileSize-10))
	write(t, s, bytes.Repeat([]byte{2}, 10))
	ok(t, s.Roll())
	at := write(t, s, []byte("next"))
	if v, err := s.View(fileSize-1, 1); err != nil || v.Bytes[0] != 2 {
		t.Fatalf("the last byte of the file that was left: %v", err)
	} else {
		v.Release()
	}
	write(t, s, []byte("cut"))
	var kept []byte
	ok(t, s.TruncateTo(at+4, func(_ int64, b []byte) error { kept = slices.Clone(b); return nil }))
	if string(kept) != "cut" {
		t.Errorf("what is cut, and was staged, is kept as %q", kept)
	}
	write(t, s, []byte("!"))
	ok(t, s.Close())
	b, err := fsys.ReadFile("/log/" + name(fileSize))
	if err != nil || string(b[:8]) != "next!\x00\x00\x00" {
		t.Errorf("closed: %v %q", err, b[:8])
	}
}

func TestAWriteOfStagedBytesThatFailsIsFinal(t *testing.T) {
	fsys := faultfs.New()
	s, _ := staged(t, fsys)
	durable := write(t, s, []byte("durable"))
	if _, err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	lost := write(t, s, []byte("lost"))
	fsys.FailOnce(fsys.Ops()+1, nil)
	if _, err := s.Flush(); !errors.Is(err, faultfs.ErrInjected) {
		t.Errorf("flush: %v", err)
	}
	if flushed, err := s.Flush(); err == nil || flushed != lost {
		t.Errorf("a second flush: %d, %v", flushed, err)
	}
	if _, err := s.View(lost, 4); err == nil {
		t.Error("bytes that could not be written are read from the file")
	}
	v, err := s.ViewRest(durable)
	if err != nil || string(v.Bytes) != "durable" {
		t.Fatalf("what is durable is no longer readable: %v", err)
	}
	v.Release()
}

// TestWritersReadersAndFlushesOfStagedBytes is for the race detector, and for the order of a reader's fence and the bytes.
func TestWritersReadersAndFlushesOfStagedBytes(t *testing.T) {
	s, _ := staged(t, faultfs.New())
	write(t, s, []byte{1})
	done := make(chan struct{})
	errs := make(chan error, 2)
	go func() {
		for {
			select {
			case <-done:
				errs <- nil
				return
			default:
			}
			end := s.Max()
			v, err := s.View(end-1, 1)
			if err == nil && v.Bytes[0] != byte((end-1)%251)+1 {
				err = errors.New("a published byte is not there yet")
			}
			if err != nil {
				errs <- err
				return
			}
			v.Release()
		}
	}()
	go func() {
		for {
			select {
			case <-done:
				errs <- nil
				return
			default:
			}
			if _, err := s.Flush(); err != nil {
				errs <- err
				return
			}
		}
	}()
	for s.Max() < fileSize {
		write(t, s, []byte{byte(s.Max()%251) + 1})
	}
	close(done)
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func name(start int64) string { return fmt.Sprintf("%020d", start) }
