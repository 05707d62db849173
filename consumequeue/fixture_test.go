package consumequeue_test

import (
	"fmt"
	"path"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/consumequeue"
)

const (
	cqDir   = "/store/consumequeue"
	topic   = "T"
	perFile = 10 // units a file, unless a test says otherwise
)

type unit = consumequeue.Unit

func meta(queueOffset, phyOffset int64, size int) *record.Meta {
	return &record.Meta{Magic: record.MagicV1, Topic: topic, QueueOffset: queueOffset, PhyOffset: phyOffset, Size: size, TagsCode: queueOffset + 7}
}

// small is options for a set of small files on fs.
func small(fs *faultfs.FS) consumequeue.Options {
	return consumequeue.Options{FS: fs, Dir: cqDir, ExtDir: "/store/consumequeue_ext", FileSize: perFile * consumequeue.UnitSize}
}

// fill dispatches records for the queue offsets [from, to), one hundred bytes each, at the physical offset 100 × queue offset.
func fill(t testing.TB, s *consumequeue.Set, from, to int64) {
	t.Helper()
	for i := from; i < to; i++ {
		if err := s.Dispatch(meta(i, 100*i, 100)); err != nil {
			t.Fatal(err)
		}
	}
}

// held lists the queue's units from MinOffset on, and checks the two ways of reading against each other.
func held(t testing.TB, q *consumequeue.Queue) (units []unit) {
	t.Helper()
	for at := q.MinOffset(); at < q.MaxOffset(); {
		v, err := q.View(at)
		if err != nil {
			t.Fatal(err)
		}
		if v.Len() == 0 || v.First != at {
			t.Fatalf("view at %d: %d units from %d", at, v.Len(), v.First)
		}
		for i := range v.Len() {
			u, err := q.Unit(at)
			if err != nil || u != v.At(i) {
				t.Fatalf("%s unit %d: %+v, %v; the view says %+v", q, at, u, err, v.At(i))
			}
			units = append(units, u)
			at++
		}
		v.Release()
	}
	return units
}

// bounds is what a queue says of itself.
type bounds struct{ Min, Max, MaxPhy int64 }

func boundsOf(q *consumequeue.Queue) bounds {
	if q == nil {
		return bounds{-1, -1, -1}
	}
	return bounds{q.MinOffset(), q.MaxOffset(), q.MaxPhyOffset()}
}

func wantBounds(t testing.TB, q *consumequeue.Queue, lo, hi, maxPhy int64) {
	t.Helper()
	if d := cmp.Diff(bounds{lo, hi, maxPhy}, boundsOf(q)); d != "" {
		t.Fatalf("bounds (-want +got):\n%s", d)
	}
}

// file is bytes of a queue file: the given units, then zeros.
func file(units ...unit) []byte {
	b := make([]byte, perFile*consumequeue.UnitSize)
	for i, u := range units {
		consumequeue.PutUnit(b[i*consumequeue.UnitSize:], u)
	}
	return b
}

// run is n units one behind the other: queue offsets from..from+n-1 as fill makes them.
func run(from, n int64) (us []unit) {
	for i := from; i < from+n; i++ {
		us = append(us, unit{PhyOffset: 100 * i, Size: 100, TagsCode: i + 7})
	}
	return us
}

func fillers(n int) []unit {
	us := make([]unit, n)
	for i := range us {
		us[i] = unit{Size: 0x7FFFFFFF}
	}
	return us
}

// plant puts files of queue 0 of the topic, by the queue offset that they begin at.
func plant(fs *faultfs.FS, files map[int64][]byte) {
	for at, b := range files {
		fs.Plant(path.Join(cqDir, topic, "0", fmt.Sprintf("%020d", at*consumequeue.UnitSize)), b)
	}
}

// metaOf is the record that u points at.
func metaOf(u unit, queueOffset int64) *record.Meta {
	m := meta(queueOffset, u.PhyOffset, int(u.Size))
	m.TagsCode = u.TagsCode
	return m
}
