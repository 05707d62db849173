package commitlog

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
)

// master fills a log and returns its bytes from the start on.
func master(t *testing.T, records, size int) (*rig, []byte) {
	t.Helper()
	r := newRig(t)
	l := r.open(Recovery{})
	r.appendN(records, size)
	var all []byte
	for off := int64(0); off < l.MaxPhyOffset(); {
		v, err := l.ViewRest(off)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v.Bytes...)
		off += int64(len(v.Bytes))
		v.Release()
	}
	return r, all
}

func TestSlaveBecomesTheSameLogWhateverThePieces(t *testing.T) {
	m, all := master(t, 120, 500)
	for _, seed := range []uint64{1, 2, 3} {
		t.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 0))
		s := newRig(t)
		l := s.open(Recovery{})
		for off := 0; off < len(all); {
			n := min(1+rng.IntN(6000), len(all)-off)
			if err := l.AppendRaw(int64(off), all[off:off+n]); err != nil {
				t.Fatal(err)
			}
			off += n
			if w := l.WholePhyOffset(); w > l.MaxPhyOffset() || w < int64(off)-testSegment {
				t.Fatalf("last whole record ends at %d of %d", w, off)
			}
		}
		s.flush()
		if l.MaxPhyOffset() != m.log.MaxPhyOffset() || l.WholePhyOffset() != l.MaxPhyOffset() {
			t.Errorf("slave ends at %d, whole to %d, master at %d", l.MaxPhyOffset(), l.WholePhyOffset(), m.log.MaxPhyOffset())
		}
		for _, seg := range m.log.Segments() {
			_, mine := s.file(seg.Start)
			_, theirs := m.file(seg.Start)
			if !bytes.Equal(mine, theirs) {
				t.Errorf("segment %d differs", seg.Start)
			}
		}
		// Reports 21: a slave knows store times too.
		s.clock.now = m.clock.now.Add(1000)
		if got, want := l.LastStoreTimestamp(), m.log.flush.lastMark().storeTime; want != 0 || got == 0 {
			m.flush()
			if want = m.log.LastStoreTimestamp(); got != want {
				t.Errorf("slave's last store time %d, master's %d", got, want)
			}
		}
	}
}

func TestBytesThatDoNotContinueTheLogAreRefused(t *testing.T) {
	_, all := master(t, 60, 500)
	s := newRig(t)
	l := s.open(Recovery{})
	if err := l.AppendRaw(100, all[100:200]); !errors.As(err, new(*OffsetMismatchError)) {
		t.Errorf("empty log, start inside a segment: %v", err)
	}
	if err := l.AppendRaw(testSegment, all[testSegment:testSegment+1000]); err != nil {
		t.Fatalf("an empty log starts anywhere: %v", err)
	}
	if min, max := l.MinPhyOffset(), l.MaxPhyOffset(); min != testSegment || max != testSegment+1000 {
		t.Errorf("log is [%d, %d)", min, max)
	}
	for _, off := range []int64{-1, 0, testSegment, testSegment + 999, testSegment + 1001, 1 << 62} {
		err := l.AppendRaw(off, all[:10])
		var mismatch *OffsetMismatchError
		if !errors.As(err, &mismatch) || mismatch.Want != testSegment+1000 || mismatch.Got != off {
			t.Errorf("append at %d: %v", off, err)
		}
	}
	if l.MaxPhyOffset() != testSegment+1000 {
		t.Errorf("refusals moved the end to %d", l.MaxPhyOffset())
	}
}

func TestMasterDoesNotAppendBehindHalfARecord(t *testing.T) {
	_, all := master(t, 3, 500)
	s := newRig(t)
	l := s.open(Recovery{})
	cut := int64(len(all) - 100)
	if err := l.AppendRaw(0, all[:cut]); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(s.message(10), &s.count); !errors.Is(err, ErrPartialTail) {
		t.Fatalf("append behind half a record: %v", err)
	}
	whole := l.WholePhyOffset()
	if err := l.TruncateTo(whole); err != nil {
		t.Fatal(err)
	}
	if res := s.append(10); res.PhyOffset != whole {
		t.Errorf("appended at %d, want %d", res.PhyOffset, whole)
	}
	if got := len(offsets(t, l)); got != 3 {
		t.Errorf("%d records, want 3", got)
	}
}

func TestHalfARecordIsNotThereYetOnASlave(t *testing.T) {
	_, all := master(t, 100, 500)
	s := newRig(t)
	l := s.open(Recovery{})
	c := l.NewCursor(0)
	defer c.Close()
	seen := map[int64]bool{}
	for off := 0; off < len(all); off += 64 {
		if err := l.AppendRaw(int64(off), all[off:min(off+64, len(all))]); err != nil {
			t.Fatal(err)
		}
		for _, o := range offsets(t, l) {
			seen[o] = true
		}
	}
	if len(seen) != 100 {
		t.Errorf("%d records seen, want 100", len(seen))
	}
}
