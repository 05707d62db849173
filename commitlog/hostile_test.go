package commitlog

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
)

// Bytes made of beginnings of records, each of which adds up and reaches to the end but does not match its checksum, do not make the look behind the log's end take for ever,
// and they are not thrown away as nothing: that nothing is whole there could not be shown.
func TestGarbageFullOfHeadersIsJudgedInBoundedTime(t *testing.T) {
	const size, stride = 8 << 20, 92
	r := newRig(t)
	r.o.SegmentSize = size
	r.open(Recovery{FlushedTo: -1})
	r.append(100)
	r.close()
	r.edit(0, func(b []byte) {
		end := len(b) - 100
		copy(b[end:], "\x01T\x00\x00") // topic and properties of them all
		for p := 1000; p < end-stride; p += stride {
			c := b[p:]
			binary.BigEndian.PutUint32(c[posSize:], uint32(end+4-p))
			binary.BigEndian.PutUint32(c[posMagic:], record.MagicV1)
			binary.BigEndian.PutUint64(c[posPhyOffset:], uint64(p))
			binary.BigEndian.PutUint64(c[56:], 1_800_000_000_000) // store time
			binary.BigEndian.PutUint32(c[84:], uint32(end-p-88))  // length of the body
		}
	})
	begin := time.Now()
	err := r.tryOpen(Recovery{Clean: true, FlushedTo: -1})
	if took := time.Since(begin); took > 20*time.Second { // minutes, if each were verified
		t.Errorf("took %v", took)
	}
	var damage *DamageError
	if !errors.As(err, &damage) || damage.RecordsBehind != 1 {
		t.Error(err)
	}
}

// After a clean exit nothing behind the end goes unseen, also where the log was known to end: another writer may have gone on since, and have lost its first page.
func TestRecordsBehindTheKnownEndAreSeen(t *testing.T) {
	r := newRig(t)
	r.open(Recovery{FlushedTo: -1})
	known := r.appendN(5, 300)[4].End()
	behind := r.appendN(40, 200)
	r.close()
	r.edit(known, func(b []byte) { clear(b[:5000]) })
	var damage *DamageError
	if err := r.tryOpen(Recovery{Clean: true, FlushedTo: known}); !errors.As(err, &damage) || damage.Off != known || damage.NextWhole <= known+4096 || damage.NextWhole > behind[39].PhyOffset {
		t.Error(err)
	}
}
