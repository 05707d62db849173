package commitlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/effort"
)

// Whatever lies in a log, and wherever its spans begin, the scan by many goroutines finds what the scan of one record after the other finds.
func TestScanInSpansFindsWhatTheScanInOneFinds(t *testing.T) {
	for seed := range effort.Seeds(t, 200, 3000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		r := newRig(t)
		r.open(Recovery{FlushedTo: -1})
		var all []AppendResult
		for range rng.IntN(120) {
			all = append(all, r.append(rng.IntN(900)))
		}
		end := r.log.MaxPhyOffset()
		r.close()
		for range rng.IntN(3) {
			if len(all) == 0 {
				break
			}
			at := all[rng.IntN(len(all))]
			r.edit(at.PhyOffset+int64(rng.IntN(at.Size)), func(b []byte) { spoil(rng, b) })
		}
		for range rng.IntN(3) { // no checksum covers a store time: a later record may look older, and be covered by a mark
			if len(all) > 0 {
				r.edit(all[rng.IntN(len(all))].PhyOffset+storeTimeAt, func(b []byte) { binary.BigEndian.PutUint64(b, uint64(1+rng.IntN(1000))) })
			}
		}
		rec := Recovery{FlushedTo: -1, From: rng.Int64N(end + 1), SkipCRC: rng.IntN(4) == 0, Clean: rng.IntN(3) == 0}
		if rng.IntN(2) == 0 {
			rec.From = 0
		}
		switch rng.IntN(3) {
		case 0:
			rec.FlushedTo = rng.Int64N(end + 1)
		case 1:
			rec.DurableTime = r.clock.now.UnixMilli() - rng.Int64N(200)
		}
		if rng.IntN(5) == 0 {
			rec.Cut, rec.CutTo = true, rng.Int64N(end+1)
		}
		o := r.o
		o.FS, o.ReadOnly = r.fs, true
		o, err := o.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		scan := func(rec Recovery) string {
			found, err := recoverLog(&o, &rec)
			why := found.tail.Reason
			found.tail.Reason = nil
			return fmt.Sprintf("%+v %v %v", found, why, err)
		}
		want := scan(rec)
		for range 3 {
			rec.span = 1 + rng.Int64N(1<<rng.IntN(15))
			if got := scan(rec); got != want {
				t.Fatalf("seed %d, spans of %d bytes:\n%s\nin one:\n%s", seed, rec.span, got, want)
			}
		}
	}
}

// storeTimeAt is where the store time of a record of this rig lies.
const storeTimeAt = posBornHost + hostV4

// spoil damages what begins at b.
func spoil(rng *rand.Rand, b []byte) {
	switch n := min(len(b), 1+rng.IntN(600)); rng.IntN(4) {
	case 0:
		b[0] ^= 1 << rng.IntN(8)
	case 1:
		clear(b[:n])
	case 2:
		clear(b)
	case 3:
		if len(b) >= 8 { // a size that leads somewhere
			binary.BigEndian.PutUint32(b, uint32(rng.IntN(2*n)))
			if rng.IntN(2) == 0 {
				binary.BigEndian.PutUint32(b[4:], record.MagicBlank)
			}
		}
	}
}

// Stop ends a scan, with its own error, and no goroutine is left.
func TestStopEndsTheScan(t *testing.T) {
	r := newRig(t)
	r.open(Recovery{FlushedTo: -1})
	r.appendN(100, 400)
	r.close()
	stop, asked := errors.New("stop"), 0
	for _, span := range []int64{0, 1000} {
		asked = 0
		err := r.tryOpen(Recovery{FlushedTo: -1, span: span, Stop: func() error {
			if asked++; asked == 2 {
				return stop
			}
			return nil
		}})
		if !errors.Is(err, stop) || asked != 2 {
			t.Errorf("spans of %d: %v, asked %d times", span, err, asked)
		}
	}
}
