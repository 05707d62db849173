package commitlog

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/commitlog/record"
)

// FuzzOpenMutatedSegment writes over the second of three segments. Open opens or says why not, never panics, and what it opens can
// be read from end to end and appended to.
func FuzzOpenMutatedSegment(f *testing.F) {
	r := newRig(f)
	r.o.SegmentSize = 4096
	r.open(Recovery{})
	r.appendN(24, 300)
	r.close()
	whole := r.snapshot()
	f.Add(uint16(0), []byte{0}, uint8(0))
	f.Add(uint16(100), []byte("\xff\xff\xff\xff"), uint8(1))
	f.Add(uint16(4), []byte{0xCB, 0xD4, 0x31, 0x94}, uint8(2))
	f.Add(uint16(0), []byte{0, 0, 0x10, 0, 0xCB, 0xD4, 0x31, 0x94}, uint8(3))
	f.Add(uint16(84), []byte{0x7f, 0xff, 0xff, 0xff}, uint8(4))
	f.Add(uint16(0), make([]byte, 4096), uint8(5))
	f.Fuzz(func(t *testing.T, at uint16, b []byte, how uint8) {
		r := newRig(t)
		r.o.SegmentSize = 4096
		for p, c := range whole {
			r.fs.Plant(p, []byte(c))
		}
		path := filepath.Join(testDir, segmentName(4096))
		seg := []byte(whole[path])
		copy(seg[int(at)%len(seg):], b)
		r.fs.Plant(path, seg)
		if how&1 != 0 {
			r.o.OnDamage = DamageCut
		}
		r.o.ReadOnly = how&8 != 0
		err := r.tryOpen(Recovery{Clean: how&2 != 0, FlushedTo: -1, SkipCRC: how&4 != 0, From: int64(how) * 50})
		if err != nil {
			if !errors.Is(err, mappedfile.ErrCorrupt) {
				t.Fatalf("open: %v", err)
			}
			return
		}
		c := r.log.NewCursor(r.log.MinPhyOffset())
		defer c.Close()
		c.VerifyCRC(how&4 == 0)
		var m record.Meta
		for {
			err := c.Next(&m, r.log.MaxPhyOffset())
			if errors.Is(err, ErrNotYet) {
				break
			}
			if err != nil {
				if how != 0 { // a scan that began behind the damage does not see it
					return
				}
				t.Fatalf("read at %d of %+v: %v", c.Offset(), r.tail, err)
			}
			msg, v, err := r.log.Message(m.PhyOffset)
			if err == nil {
				_ = msg.Keys()
				v.Release()
			}
		}
		if !r.o.ReadOnly {
			r.append(10)
			r.flush()
		}
	})
}

// FuzzAppendRaw gives a slave whatever a master, or somebody else, may send.
func FuzzAppendRaw(f *testing.F) {
	r := newRig(f)
	r.o.SegmentSize = 4096
	r.open(Recovery{})
	r.appendN(5, 100)
	v, err := r.log.ViewRest(0)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append([]byte(nil), v.Bytes...), uint16(50))
	f.Add([]byte{0, 0, 0x10, 0, 0xCB, 0xD4, 0x31, 0x94}, uint16(3))
	f.Add(append(make([]byte, 4092), 0, 0, 0, 9, 9, 9), uint16(5000))
	v.Release()
	f.Fuzz(func(t *testing.T, b []byte, piece uint16) {
		if len(b) > 64<<10 {
			return
		}
		r := newRig(t)
		r.fs = faultfs.New()
		r.o.SegmentSize = 4096
		l := r.open(Recovery{})
		for off := 0; off < len(b); {
			n := min(int(piece)+1, len(b)-off)
			if err := l.AppendRaw(int64(off), b[off:off+n]); err != nil {
				t.Fatal(err)
			}
			off += n
		}
		if l.MaxPhyOffset() != int64(len(b)) || l.WholePhyOffset() > l.MaxPhyOffset() {
			t.Fatalf("appended %d bytes: end %d, whole to %d", len(b), l.MaxPhyOffset(), l.WholePhyOffset())
		}
		c := l.NewCursor(0)
		defer c.Close()
		var m record.Meta
		for c.Next(&m, l.MaxPhyOffset()) == nil {
		}
		for _, off := range []int64{0, 1, 91, 4096, 4097} {
			if _, v, err := l.Message(off); err == nil {
				v.Release()
			}
		}
		if _, err := l.Append(r.message(10), &r.count); err != nil && !errors.Is(err, ErrPartialTail) {
			t.Fatal(err)
		}
	})
}
