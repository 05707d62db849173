package mappedfile_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
)

var crashSeeds = flag.Int("crashseeds", 150, "how many random histories are crashed")

func seeded(t *testing.T, seed uint64) *rand.Rand {
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// report 1 of the field: a truncation that only moves positions lets the next recovery find the cut records whole.
func TestTruncationThenCrashNeverBringsBytesBack(t *testing.T) {
	for seed := range uint64(20) {
		fsys, dir := faultfs.New(), filepath.FromSlash("/q")
		o := mappedfile.SequenceOptions{FS: fsys, Dir: dir, FileSize: fileSize, Ahead: true}
		s := open(t, o)
		for i := range 100 {
			mustPut(t, s, block(byte(i)+1, 300))
		}
		_, err := s.Flush()
		ok(t, err)
		var kept bytes.Buffer
		end := int64(60 * 300 / fileSize * fileSize)
		end += 300 * 5
		ok(t, s.TruncateTo(end, func(off int64, b []byte) error {
			fmt.Fprintf(&kept, "%d+%d ", off, len(b))
			return nil
		}))
		if s.Max() != end || s.Flushed() != end {
			t.Errorf("max %d, flushed %d, want %d", s.Max(), s.Flushed(), end)
		}
		if kept.Len() == 0 {
			t.Error("nothing was kept")
		}
		ok(t, s.Close())
		o.FS = fsys.Crash(seeded(t, seed))
		s = open(t, o)
		for _, f := range s.Files() {
			from := max(f.Start, end)
			if from >= f.End {
				continue
			}
			v, err := s.ViewRaw(from)
			ok(t, err)
			if i := bytes.IndexFunc(v.Bytes, func(r rune) bool { return r != 0 }); i >= 0 {
				t.Fatalf("a cut byte at %d is back", from+int64(i))
			}
			v.Release()
		}
		ok(t, s.SetMax(end))
		v, err := s.View(0, fileSize)
		ok(t, err)
		if v.Bytes[0] != 1 {
			t.Error("the bytes before the cut changed")
		}
		v.Release()
		ok(t, s.Close())
	}
}

func TestTruncationKeepsNothingIfKeepFails(t *testing.T) {
	fsys := faultfs.New()
	s := open(t, mappedfile.SequenceOptions{FS: fsys, Dir: filepath.FromSlash("/q")})
	for range 3 {
		mustPut(t, s, block('a', fileSize))
	}
	boom := errors.New("boom")
	wantErr(t, "truncate", s.TruncateTo(10, func(int64, []byte) error { return boom }), boom)
	if s.Max() != 3*fileSize || len(s.Files()) != 3 {
		t.Errorf("max %d, %d files", s.Max(), len(s.Files()))
	}
	v, err := s.View(0, fileSize)
	ok(t, err)
	if !bytes.Equal(v.Bytes, block('a', fileSize)) {
		t.Error("bytes changed")
	}
	v.Release()
}

func TestCutBytesEndWithTheLastThatIsNotZero(t *testing.T) {
	for _, size := range []int{0, 1, 4095, 4096, 4097, 12288, 20000} {
		for _, last := range []int{-1, 0, 1, 4095, 4096, 8191, 12287, 19999} {
			if last >= size {
				continue
			}
			b := make([]byte, size)
			if last >= 0 {
				b[last], b[last/2] = 1, 1
			}
			if got := mappedfile.LastNonZero(b); got != last+1 {
				t.Errorf("%d bytes, the last at %d: %d", size, last, got)
			}
		}
	}
}

func TestLongTruncationClearsEverything(t *testing.T) {
	const size = 4 << 20
	fsys, dir := faultfs.New(), filepath.FromSlash("/q")
	s := open(t, mappedfile.SequenceOptions{FS: fsys, Dir: dir, FileSize: size})
	mustPut(t, s, block('a', size-100))
	_, err := s.Flush()
	ok(t, err)
	var ops []int64
	fsys.SetHook(func(op faultfs.Op) error { ops = append(ops, op.Off); return nil })
	ok(t, s.TruncateTo(100_000, nil))
	if !slices.Equal(ops, []int64{3 << 20, 2 << 20, 1 << 20, 100_000}) {
		t.Errorf("synced from %d: want from the back to the front", ops)
	}
	b, err := fsys.Crash(seeded(t, 3)).ReadFile(filepath.Join(dir, "00000000000000000000"))
	ok(t, err)
	if n := bytes.Count(b, []byte("a")); n != 100_000 || bytes.Count(b[:n], []byte("a")) != n {
		t.Errorf("%d bytes are left", n)
	}
}

// Zeros within data of the original may lie in holes: who writes there again has to allocate first.
func TestWritingBehindATruncationAllocates(t *testing.T) {
	for what, back := range map[string]func(s *mappedfile.Sequence) error{
		"truncate":         func(s *mappedfile.Sequence) error { return s.TruncateTo(9000, nil) },
		"truncate, rolled": func(s *mappedfile.Sequence) error { return errors.Join(s.Roll(), s.TruncateTo(9000, nil)) },
		"setmax":           func(s *mappedfile.Sequence) error { return s.SetMax(9000) },
	} {
		t.Run(what, func(t *testing.T) {
			fsys, dir := faultfs.New(), filepath.FromSlash("/q")
			b := make([]byte, 1<<16)
			copy(b, block('a', 9000))
			copy(b[40_000:], block('b', 1000)) // data with a hole before it
			fsys.Plant(filepath.Join(dir, "00000000000000000000"), b)
			s := open(t, mappedfile.SequenceOptions{FS: fsys, Dir: dir, FileSize: 1 << 16})
			ok(t, s.SetMax(41_000))
			mustPut(t, s, block('c', 1000))
			ok(t, back(s))
			mustPut(t, s, block('d', 20_000))
			_, err := s.Flush() // panics if that went into a hole
			ok(t, err)
		})
	}
}

func TestTruncationAtEveryPlace(t *testing.T) {
	onEach(t, func(t *testing.T, fsys mappedfile.FS, root string) {
		for _, end := range []int64{0, 1, 4096, fileSize - 1, fileSize, fileSize + 1, 3*fileSize - 10, 3 * fileSize} {
			for _, sparse := range []bool{false, true} {
				o := mappedfile.SequenceOptions{FS: fsys, Dir: filepath.Join(root, fmt.Sprint(end, sparse)), FileSize: fileSize, Sparse: sparse, AllocWindow: 1, Ahead: true}
				s := open(t, o)
				for i := range 3 {
					mustPut(t, s, block(byte('a'+i), fileSize))
				}
				held, err := s.View(2*fileSize, 100)
				ok(t, err)
				kept := map[int64]int{}
				ok(t, s.TruncateTo(end, func(off int64, b []byte) error { kept[off] = len(b); return nil }))
				var sum int64
				for _, n := range kept {
					sum += int64(n)
				}
				if sum != 3*fileSize-end {
					t.Errorf("cut at %d: kept %v", end, kept)
				}
				if wantFiles := min(int(end/fileSize)+1, 3); len(s.Files()) != wantFiles {
					t.Errorf("cut at %d: %d files, want %d", end, len(s.Files()), wantFiles)
				}
				if s.Max() != end {
					t.Errorf("max %d, want %d", s.Max(), end)
				}
				held.Release()
				off := mustPut(t, s, block('z', 50))
				if off < end || off > end+50 {
					t.Errorf("cut at %d, next put at %d", end, off)
				}
				v, err := s.ViewRaw(off)
				ok(t, err)
				if !bytes.Equal(v.Bytes[:50], block('z', 50)) || len(bytes.Trim(v.Bytes[50:], "\x00")) > 0 {
					t.Errorf("cut at %d: junk behind the new bytes", end)
				}
				v.Release()
				wantErr(t, "truncate beyond", s.TruncateTo(100*fileSize, nil), mappedfile.ErrNotFound)
				wantErr(t, "truncate before", s.TruncateTo(-1, nil), mappedfile.ErrNotFound)
				ok(t, s.Close())
			}
		}
	})
}

// history drives a sequence and knows, byte by byte, what may be on disk after a crash.
type history struct {
	s       *mappedfile.Sequence
	rng     *rand.Rand
	may     [][]byte // per stream offset: what it may hold beside 0; the last is what it holds now
	durable int64    // [min, durable) is exactly the last of may
	min     int64
	syncDir func() error // nil = creation is durable
}

func (h *history) write(off int64, b []byte) {
	for int64(len(h.may)) < off+int64(len(b)) {
		h.may = append(h.may, nil)
	}
	for i, c := range b {
		at := off + int64(i)
		h.may[at] = append(h.may[at], c)
	}
}

func (h *history) step() error {
	switch h.rng.IntN(12) {
	case 0, 1:
		flushed, err := h.s.Flush()
		if err == nil && h.syncDir != nil {
			err = h.syncDir()
		}
		if err == nil {
			h.durable = flushed
			for at := h.s.Min(); at < flushed; at++ {
				if m := h.may[at]; len(m) > 1 {
					h.may[at] = m[len(m)-1:]
				}
			}
		}
		return err
	case 2:
		if h.s.Max() == 0 {
			return nil
		}
		end := max(h.s.Min(), h.s.Max()-h.rng.Int64N(2*fileSize))
		h.durable = min(h.durable, end)
		err := h.s.TruncateTo(end, nil)
		if err == nil {
			for at := end; at < int64(len(h.may)); at++ {
				h.may[at] = nil
			}
		}
		return err
	case 3:
		if h.rng.IntN(3) > 0 {
			return nil
		}
		_, err := h.s.DropHead(1)
		return err
	default:
		n := 1 + h.rng.IntN(3000)
		b := block(byte(1+h.rng.IntN(250)), n)
		for {
			dst, off, err := h.s.Reserve(n)
			if errors.Is(err, mappedfile.ErrEndOfFile) {
				if rest := h.s.Rest(); rest > 0 {
					dst, off, err := h.s.Reserve(int(rest))
					if err != nil {
						return err
					}
					copy(dst, block(0xEE, int(rest)))
					h.write(off, dst)
					h.s.Publish(off + rest)
				}
				if err := h.s.Roll(); err != nil {
					return err
				}
				continue
			}
			if err != nil {
				return err
			}
			copy(dst, b)
			h.write(off, b)
			h.s.Publish(off + int64(n))
			return nil
		}
	}
}

func TestWhatWasFlushedSurvivesEveryCrash(t *testing.T) {
	for seed := range uint64(orTenth(*crashSeeds)) {
		rng := rand.New(rand.NewPCG(seed, 7))
		fsys, dir := faultfs.New(), filepath.FromSlash("/a/b/q")
		o := mappedfile.SequenceOptions{FS: fsys, Dir: dir, FileSize: fileSize, Sparse: seed%3 == 0, AllocWindow: 4096, Ahead: seed%2 == 0, Prewrite: seed%5 == 0}
		o.AfterCrash = o.Sparse
		s, err := mappedfile.OpenSequence(o)
		ok(t, err)
		h := &history{s: s, rng: rng}
		if o.Sparse {
			h.syncDir = func() error { return fsys.SyncDir(dir) }
		}
		fsys.FailFrom(1+rng.Int64N(120), nil)
		steps := 0
		for err = nil; err == nil && steps < 200; steps++ {
			h.min = s.Min()
			err = h.step()
		}
		_ = s.Close()
		crashed := fsys.Crash(rng)
		o.FS = crashed
		s, err = mappedfile.OpenSequence(o)
		if err != nil {
			t.Fatalf("seed %d, after %d steps: open: %v", seed, steps, err)
		}
		files := s.Files()
		if h.durable > h.min && (len(files) == 0 || files[0].Start > h.min+fileSize || files[len(files)-1].End < h.durable) {
			t.Fatalf("seed %d: files %v, want [%d, %d)", seed, files, h.min, h.durable)
		}
		for _, f := range files {
			v, err := s.ViewRaw(f.Start)
			ok(t, err)
			for i, c := range v.Bytes {
				at := f.Start + int64(i)
				var may []byte
				if at < int64(len(h.may)) {
					may = h.may[at]
				}
				switch {
				case at < h.durable && len(may) > 0 && c != may[len(may)-1]:
					t.Fatalf("seed %d, after %d steps: flushed byte at %d is %d, want %d (flushed %d)", seed, steps, at, c, may[len(may)-1], h.durable)
				case c != 0 && !slices.Contains(may, c):
					t.Fatalf("seed %d, after %d steps: byte at %d is %d, which was cut or never written (may be %v)", seed, steps, at, c, may)
				}
			}
			v.Release()
		}
		ok(t, s.Close())
	}
}
