package store_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/consumequeue"
	"github.com/mqstore/mqstore/store"
)

// What a get allocates is the answer, whatever the number of messages in it.
func TestAGetAllocatesForTheAnswerNotForItsMessages(t *testing.T) {
	if testing.CoverMode() != "" || raceEnabled {
		t.Skip("the race detector and coverage allocate themselves")
	}
	s := open(t, t.TempDir(), store.Options{SegmentSize: 1 << 20, MaxTransferMessagesInMemory: 512})
	fill(t, s, 600, 100)
	for _, max := range []int{1, 32, 500} {
		if n := testing.AllocsPerRun(1000, func() {
			g, err := s.Get(bg, store.GetRequest{Topic: "T", Offset: 3, MaxMessages: max})
			if err != nil || len(g.Records) != max {
				t.Fatal(len(g.Records), err)
			}
			g.Release()
		}); n > 2 {
			t.Errorf("%v allocations for a get of %d messages", n, max)
		}
	}
}

// Memory of an answer is used again after its Release and never before: answers that are held side by side stay what they were, across segments, while the queue grows and after retention took the files.
func TestAnAnswerIsItsOwnUntilItsRelease(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{})
	const n, readers = 600, 4
	body := func(i int64) string { return fmt.Sprintf("%d:%s", i, strings.Repeat("b", 300)) }
	add := func(from, to int64) {
		for i := from; i < to; i++ {
			if _, err := s.Put(bg, message("T", 0, body(i))); err != nil {
				t.Error(err)
				return
			}
		}
	}
	add(0, n)
	settle(t, s, "T", 0, n)
	check := func(g *store.GetResult) {
		ms, err := g.Messages()
		if err != nil {
			t.Error(err)
			return
		}
		for i, m := range ms {
			if m.QueueOffset != g.QueueOffsets[i] || string(m.Body) != body(m.QueueOffset) || m.PhyOffset != g.Records[i].PhyOffset {
				t.Errorf("message %d is %d at %d: %.20s", g.QueueOffsets[i], m.QueueOffset, m.PhyOffset, m.Body)
			}
		}
	}
	rounds := effort.N(10, 100)
	read, deleted := sync.WaitGroup{}, make(chan struct{})
	var wg sync.WaitGroup
	read.Add(readers)
	for r := range readers {
		wg.Go(func() {
			var last []*store.GetResult
			for round := range rounds {
				var held []*store.GetResult
				for at := int64(r); at < n; {
					g, err := s.Get(bg, store.GetRequest{Topic: "T", Offset: at, MaxMessages: 1 + (r+round)%32})
					if err != nil || g.Status != store.Found {
						t.Error(g, err)
						break
					}
					at = g.NextBeginOffset
					if held = append(held, g); len(held)%3 == 0 { // its memory is another's now
						check(g)
						g.Release()
						held = held[:len(held)-1]
					}
				}
				for _, g := range last {
					check(g)
					g.Release()
				}
				last = held
			}
			read.Done()
			<-deleted
			for _, g := range last {
				check(g)
				g.Release()
			}
		})
	}
	add(n, 2*n)
	read.Wait()
	if _, err := s.Flush(); err != nil {
		t.Error(err)
	}
	if r, err := s.DeleteExpired(store.ExpireOptions{Manual: true, Max: 3}); err != nil || len(r.Segments) != 3 {
		t.Error(r, err)
	}
	close(deleted)
	wg.Wait()
}

// A get whose answer spans segments holds each of them.
func TestAnAnswerHoldsEachOfItsSegments(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{})
	fill(t, s, 30, 30_000)
	g, err := s.Get(bg, store.GetRequest{Topic: "T"})
	if err != nil || len(g.Records) != 8 || g.Records[7].PhyOffset < 3*64<<10 {
		t.Fatal(len(g.Records), err)
	}
	if _, err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if r, err := s.DeleteExpired(store.ExpireOptions{Manual: true, Max: 10}); err != nil || len(r.Segments) != 10 {
		t.Fatal(r, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	ms, err := g.Messages()
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range ms {
		if m.QueueOffset != int64(i) || len(m.Body) != 30_000 {
			t.Errorf("message %d: %d, %d bytes", i, m.QueueOffset, len(m.Body))
		}
	}
	g.Release()
	g.Release() // harmless
	if len(g.Records) != 0 {
		t.Error("records after Release")
	}
}

// Units are input. Whatever one says amid good ones, a get answers with damage, or with nothing behind the good ones before it, but never with bytes that are not the record at the unit's place and of its size.
func TestAUnitThatPointsElsewhereIsNeverAnswered(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, store.Options{})
	rs := fill(t, s, 200, 1000)
	end := s.MaxPhyOffset()
	second := int64(0) // the first record of the second segment
	for _, r := range rs {
		if r.PhyOffset >= 64<<10 {
			second = r.PhyOffset
			break
		}
	}
	good := rs[20]
	path := filepath.Join(dir, "consumequeue", "T", "0", fmt.Sprintf("%020d", 0))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	set := func(i int, u consumequeue.Unit) {
		t.Helper()
		b := make([]byte, consumequeue.UnitSize)
		consumequeue.PutUnit(b, u)
		if _, err := f.WriteAt(b, int64(i)*consumequeue.UnitSize); err != nil {
			t.Fatal(err)
		}
	}
	size := int32(good.Size)
	units := map[string]consumequeue.Unit{
		"nothing":                           {},
		"one byte further":                  {PhyOffset: good.PhyOffset + 1, Size: size},
		"one byte before":                   {PhyOffset: good.PhyOffset - 1, Size: size},
		"a shorter record":                  {PhyOffset: good.PhyOffset, Size: size - 1},
		"a longer record":                   {PhyOffset: good.PhyOffset, Size: size + 1},
		"no more than a header":             {PhyOffset: good.PhyOffset, Size: 91},
		"less than a header":                {PhyOffset: good.PhyOffset, Size: 90},
		"one byte":                          {PhyOffset: good.PhyOffset, Size: 1},
		"no byte":                           {PhyOffset: good.PhyOffset},
		"less than none":                    {PhyOffset: good.PhyOffset, Size: -1},
		"the least size":                    {PhyOffset: good.PhyOffset, Size: math.MinInt32},
		"the greatest size":                 {PhyOffset: good.PhyOffset, Size: math.MaxInt32},
		"across the end of a segment":       {PhyOffset: second - 500, Size: 1000},
		"the blank before the next segment": {PhyOffset: second - 100, Size: 100},
		"another segment's middle":          {PhyOffset: second + 17, Size: size},
		"across the end of the log":         {PhyOffset: end - 100, Size: 101},
		"the end of the log":                {PhyOffset: end, Size: size},
		"behind the last segment":           {PhyOffset: 1 << 40, Size: size},
		"the end of the numbers":            {PhyOffset: math.MaxInt64 - int64(size), Size: size},
		"beyond the numbers":                {PhyOffset: math.MaxInt64, Size: size},
		"before the log":                    {PhyOffset: -1, Size: size},
		"the least number":                  {PhyOffset: math.MinInt64, Size: size},
	}
	for name, u := range units {
		for _, before := range []int{0, 1, 5} { // good ones
			set(20, u)
			g, err := s.Get(bg, store.GetRequest{Topic: "T", Offset: int64(20 - before), MaxMessages: 10})
			if err == nil {
				for i, v := range g.Records {
					if m, err := record.Decode(v.Bytes); err != nil || m.PhyOffset != v.PhyOffset || m.QueueOffset != g.QueueOffsets[i] || int(binary.BigEndian.Uint32(v.Bytes)) != len(v.Bytes) {
						t.Errorf("%s, after %d: answered with %v, %v", name, before, m, err)
					}
				}
			} else if damage := (*store.CorruptError)(nil); !errors.As(err, &damage) || damage.Offset != u.PhyOffset && damage.Offset != 20*consumequeue.UnitSize {
				t.Errorf("%s, after %d: %v", name, before, err)
			}
			if err == nil && (len(g.Records) != before || g.NextBeginOffset != 20) && u.Size != math.MaxInt32 {
				t.Errorf("%s, after %d: %d records, next %d: passed over", name, before, len(g.Records), g.NextBeginOffset)
			}
			g.Release()
		}
	}
	set(20, consumequeue.Unit{PhyOffset: good.PhyOffset, Size: size})
	if g := get(t, s, "T", 0, 0); len(g.Records) != 32 {
		t.Errorf("%d records after all is well again", len(g.Records))
	}
}

// A filter that panics is its owner's affair: the get holds nothing afterwards, and others find the store as it was.
func TestAFilterThatPanicsLeavesNothingHeld(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{})
	fill(t, s, 100, 1000)
	for i := range 50 {
		asked := 0
		func() {
			defer func() {
				if recover() != "enough" {
					t.Error("no panic")
				}
			}()
			g, err := s.Get(bg, store.GetRequest{Topic: "T", Filter: unitFilter(func() bool {
				if asked++; asked > i%30 {
					panic("enough")
				}
				return true
			})})
			g.Release()
			t.Error(g, err)
		}()
		g, err := s.Get(bg, store.GetRequest{Topic: "T"})
		if err != nil || len(g.Records) != 32 {
			t.Fatal(err)
		}
		if ms, err := g.Messages(); err != nil || ms[31].QueueOffset != 31 {
			t.Fatal(err)
		}
		g.Release()
	}
}

// What a get collects in one stretch is what it would have collected unit by unit, as it does for a filter: across segments, sizes, limits and both classes of memory, in a queue with units of every kind.
func TestAGetOfAllIsTheGetOfAFilterThatWantsAll(t *testing.T) {
	for seed := range effort.Seeds(t, 4, 40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		dir := t.TempDir()
		s := open(t, dir, store.Options{
			MemorySize:                  []int64{1 << 40, 100, 100_000, 300_000, 500_000}[seed%5],
			MaxTransferMessagesInDisk:   1 + rng.IntN(8),
			MaxTransferMessagesInMemory: 10 + rng.IntN(50),
			MaxTransferBytesInMemory:    20_000 + rng.IntN(100_000),
		})
		const n = 300
		for range n {
			put(t, s, message("T", 0, strings.Repeat("b", rng.IntN(10)*rng.IntN(10)*rng.IntN(60))))
		}
		settle(t, s, "T", 0, n)
		same := func() {
			t.Helper()
			for range 100 {
				r := store.GetRequest{Topic: "T", Offset: rng.Int64N(n), MaxMessages: rng.IntN(70) - 1}
				all, err := s.Get(bg, r)
				r.Filter = unitFilter(func() bool { return true })
				each, eachErr := s.Get(bg, r)
				if fmt.Sprint(err) != fmt.Sprint(eachErr) {
					t.Fatalf("seed %d, %+v: %v; unit by unit: %v", seed, r, err, eachErr)
				}
				if err == nil {
					a, b := *all, *each
					if len(a.Records) != len(b.Records) || a.Status != b.Status || a.NextBeginOffset != b.NextBeginOffset || a.Bytes != b.Bytes || a.SuggestSlave != b.SuggestSlave || !slices.Equal(a.QueueOffsets, b.QueueOffsets) {
						t.Fatalf("seed %d, %+v:\n%+v\nunit by unit:\n%+v", seed, r, a, b)
					}
					for i := range a.Records {
						if x, y := a.Records[i], b.Records[i]; x.PhyOffset != y.PhyOffset || !bytes.Equal(x.Bytes, y.Bytes) {
							t.Fatalf("seed %d, %+v: record %d lies at %d, unit by unit at %d", seed, r, i, x.PhyOffset, y.PhyOffset)
						}
					}
				}
				all.Release()
				each.Release()
			}
		}
		same()
		f, err := os.OpenFile(filepath.Join(dir, "consumequeue", "T", "0", fmt.Sprintf("%020d", 0)), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		unit := make([]byte, consumequeue.UnitSize)
		for range 20 {
			u := consumequeue.Unit{PhyOffset: rng.Int64N(2 * s.MaxPhyOffset()), Size: int32(rng.IntN(2000))}
			switch rng.IntN(4) {
			case 0:
				u = consumequeue.Unit{Size: math.MaxInt32} // a filler
			case 1:
				u.PhyOffset = -u.PhyOffset
			}
			consumequeue.PutUnit(unit, u)
			if _, err := f.WriteAt(unit, rng.Int64N(n)*consumequeue.UnitSize); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		same()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
