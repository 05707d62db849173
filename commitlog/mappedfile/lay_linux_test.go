package mappedfile_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
)

const layPiece = 256 << 10

// laid collects the ranges of the stream that are written by calls.
type laid struct{ from, to []int64 }

func (l *laid) hook(fail *error) func(op faultfs.Op) error {
	return func(op faultfs.Op) error {
		if op.Kind != faultfs.OpWrite {
			return nil
		}
		var start int64
		if _, err := fmt.Sscanf(filepath.Base(op.Path), "%d", &start); err != nil {
			return err
		}
		l.from, l.to = append(l.from, start+op.Off), append(l.to, start+op.Off+op.Len)
		if fail != nil {
			return *fail
		}
		return nil
	}
}

// Whatever a writer does, and however often it changes its mind before it publishes, no byte that it stored becomes a zero, and none is laid where it was before.
func TestLaidZerosNeverReplaceBytes(t *testing.T) {
	const size = 5*layPiece/2 + 1000
	onEach(t, func(t *testing.T, fsys mappedfile.FS, root string) {
		for seed := range uint64(4) {
			r := rand.New(rand.NewPCG(seed, 7))
			o := mappedfile.SequenceOptions{FS: fsys, Dir: filepath.Join(root, fmt.Sprint(seed)), FileSize: size, Ahead: seed%2 == 0, Lay: true}
			var calls laid
			if f, is := fsys.(*faultfs.FS); is {
				f.SetHook(calls.hook(nil))
			}
			s := open(t, o)
			var stream []byte // what was published
			given := int64(0) // the end of what was reserved since the end moved last, other than by Publish
			seen := 0
			check := func(what string) {
				t.Helper()
				for ; seen < len(calls.from); seen++ {
					if calls.from[seen] < given {
						t.Fatalf("seed %d: %s: zeros are laid from %d on, and the writer was given all below %d", seed, what, calls.from[seen], given)
					}
				}
			}
			compare := func(what string) {
				t.Helper()
				for _, f := range s.Extents() {
					for at := f.Start; at < min(f.End, s.Max()); {
						v, err := s.View(at, int(min(f.End, s.Max())-at))
						ok(t, err)
						if !bytes.Equal(v.Bytes, stream[at:at+int64(len(v.Bytes))]) {
							t.Fatalf("seed %d: %s: other bytes in [%d, +%d)", seed, what, at, len(v.Bytes))
						}
						at += int64(len(v.Bytes))
						v.Release()
					}
				}
			}
			fill := func(b []byte, x byte) {
				for i := range b {
					b[i] = x | 1
				}
			}
			for range orTenth(80) {
				n := 1 + r.IntN([]int{200, 5000, layPiece, 3 * layPiece / 2}[r.IntN(4)])
				switch r.IntN(12) {
				case 0:
					end := s.Max() - r.Int64N(min(s.Max()-s.Min(), 2*size)+1)
					ok(t, s.TruncateTo(end, nil))
					stream, given = stream[:end], end
					compare("truncate")
				case 1:
					ok(t, s.SetMax(s.Max())) // the writer forgets what it knew
					given = s.Max()
				case 2:
					_, err := s.Flush()
					ok(t, err)
				case 3:
					ok(t, s.Close())
					s = open(t, o)
					ok(t, s.SetMax(int64(len(stream))))
					given = s.Max()
				default:
					dst, off, err := s.Reserve(n)
					if err != nil { // the end of the file
						rest := int(s.Rest())
						dst, off, err = s.Reserve(rest)
						ok(t, err)
						check("reserve the rest")
						fill(dst, 0xEE)
						given = off + int64(rest)
						s.Publish(given)
						stream = append(stream, dst...)
						ok(t, s.Roll())
						continue
					}
					check("reserve")
					fill(dst, byte(off))
					given = max(given, off+int64(n))
					if r.IntN(2) == 0 { // changed its mind: more, or less, at the same place
						again, at, err := s.Reserve(min(1+r.IntN(2*n), int(s.Rest())))
						ok(t, err)
						check("reserve again")
						if at != off || !bytes.Equal(again[:min(n, len(again))], dst[:min(n, len(again))]) {
							t.Fatalf("seed %d: what was stored at %d is gone before it was published", seed, off)
						}
						fill(again, byte(off))
						dst = again
						given = max(given, off+int64(len(again)))
					}
					stream = append(stream, dst...)
					s.Publish(off + int64(len(dst)))
				}
			}
			compare("at the end")
			if _, is := fsys.(*faultfs.FS); is && seen == 0 {
				t.Error("nothing was laid")
			}
			ok(t, s.Close())
		}
	})
}

// A writer that stops leaves no more than the rest of one piece behind it, and one that goes on lays each page once.
func TestNoMoreThanAPieceIsLaidAhead(t *testing.T) {
	fsys := faultfs.New()
	var calls laid
	fsys.SetHook(calls.hook(nil))
	s := open(t, mappedfile.SequenceOptions{FS: fsys, Dir: filepath.FromSlash("/q"), FileSize: 4 * layPiece, Lay: true})
	end := int64(0)
	for range 2000 {
		mustPut(t, s, block('x', 1000))
		if n := len(calls.to); n == 0 || calls.to[n-1] < s.Max() || calls.to[n-1] > s.Max()+layPiece {
			t.Fatalf("at %d: laid up to %v", s.Max(), calls.to)
		}
	}
	for i := range calls.from {
		if calls.from[i] != end {
			t.Errorf("piece %d begins at %d, the one before ends at %d", i, calls.from[i], end)
		}
		end = calls.to[i]
	}
	if want := 8; len(calls.from) != want {
		t.Errorf("%d pieces for %d bytes, want %d", len(calls.from), s.Max(), want)
	}
}

// Pages that cannot be laid, on a disk that is full or broken, are stored to all the same: their blocks are there. It is not tried again before the next file.
func TestLayingThatFailsIsNoFailure(t *testing.T) {
	fsys := faultfs.New()
	var calls laid
	fail := fmt.Errorf("a disk without room: %w", syscall.ENOSPC)
	fsys.SetHook(calls.hook(&fail))
	s := open(t, mappedfile.SequenceOptions{FS: fsys, Dir: filepath.FromSlash("/q"), FileSize: 4 * layPiece, Ahead: true, Lay: true})
	for range 4 {
		mustPut(t, s, block('x', layPiece))
	}
	if n, err := s.Flush(); err != nil || n != s.Max() || s.Err() != nil {
		t.Errorf("flushed %d of %d, %v, %v", n, s.Max(), err, s.Err())
	}
	if len(calls.from) != 1 {
		t.Errorf("tried %d times in one file", len(calls.from))
	}
	fail = nil
	mustPut(t, s, block('y', 2*layPiece))
	if len(calls.from) != 3 {
		t.Errorf("%d calls after the next file was begun, want 2 more than before", len(calls.from))
	}
	for at, c := range map[int64]byte{0: 'x', 3 * layPiece: 'x', 4 * layPiece: 'y'} {
		v, err := s.View(at, layPiece)
		ok(t, err)
		if !bytes.Equal(v.Bytes, block(c, layPiece)) {
			t.Errorf("other bytes at %d", at)
		}
		v.Release()
	}
}

// What an earlier process wrote is renewed by a Flush while the writer lays and stores behind it.
func TestRenewBesideLayingKeepsBothBytes(t *testing.T) {
	onEach(t, func(t *testing.T, fsys mappedfile.FS, root string) {
		o := mappedfile.SequenceOptions{FS: fsys, Dir: filepath.Join(root, "q"), FileSize: 4 * layPiece, Ahead: true, Lay: true}
		s := open(t, o)
		mustPut(t, s, block('a', 3*layPiece/2+10))
		end := s.Max()
		ok(t, s.Close())
		s = open(t, o)
		ok(t, s.SetMax(end))
		s.Doubt(0)
		flushed := make(chan error)
		go func() {
			_, err := s.Flush()
			flushed <- err
		}()
		for range 2 * layPiece / 1024 {
			mustPut(t, s, block('b', 1024))
		}
		ok(t, <-flushed)
		_, err := s.Flush()
		ok(t, err)
		v, err := s.View(0, int(end)+2*layPiece)
		ok(t, err)
		if !bytes.Equal(v.Bytes[:end], block('a', int(end))) || !bytes.Equal(v.Bytes[end:], block('b', 2*layPiece)) {
			t.Error("other bytes")
		}
		v.Release()
		ok(t, s.Close())
	})
}

// Power is lost while pages are laid and not stored to: what was flushed is there, and behind it is what was put, or zeros as in a file that was never written.
func TestLaidPagesAreZerosAfterPowerLoss(t *testing.T) {
	for seed := range uint64(orTenth(20)) {
		fsys, dir := faultfs.New(), filepath.FromSlash("/q")
		o := mappedfile.SequenceOptions{FS: fsys, Dir: dir, FileSize: 2 * layPiece, Lay: true}
		s, err := mappedfile.OpenSequence(o)
		ok(t, err)
		mustPut(t, s, block('a', 10_000))
		flushed, err := s.Flush()
		ok(t, err)
		mustPut(t, s, block('b', 10_000))
		after := fsys.Crash(rand.New(rand.NewPCG(seed, 1)))
		_ = s.Close()
		b, err := after.ReadFile(filepath.Join(dir, name(0)))
		ok(t, err)
		for i, c := range b {
			at := int64(i)
			if at < flushed && c != 'a' || at >= flushed && at < 20_000 && c != 'b' && c != 0 || at >= 20_000 && c != 0 {
				t.Fatalf("seed %d: %q at %d, flushed %d", seed, c, i, flushed)
			}
		}
	}
}

// A log of thousands of segments must not need thousands of descriptors: only what is laid in is open.
func TestOnlyTheFileThatIsLaidIsOpen(t *testing.T) {
	dir := t.TempDir()
	s, err := mappedfile.OpenSequence(mappedfile.SequenceOptions{Dir: dir, FileSize: fileSize, Lay: true})
	ok(t, err)
	for range 4 {
		mustPut(t, s, block('x', fileSize))
	}
	if got := opened(t, dir); len(got) != 1 || got[0] != name(3*fileSize) {
		t.Errorf("open: %v, want the last file alone", got)
	}
	ok(t, s.TruncateTo(5, nil))
	mustPut(t, s, block('y', 10))
	v, err := s.View(4, 2)
	ok(t, err)
	if string(v.Bytes) != "xy" {
		t.Errorf("%q", v.Bytes)
	}
	v.Release()
	ok(t, s.Close())
	if got := opened(t, dir); len(got) != 0 {
		t.Errorf("open after Close: %v", got)
	}
}
