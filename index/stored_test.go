package index_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/index"
)

// stored and merged are the entries of an index read in both ways, in the same order.
func stored(x *index.Index) (list []index.Entry, err error) {
	err = x.EachStored(func(some []index.Entry) error {
		list = append(list, some...)
		return nil
	})
	sortEntries(list)
	return list, err
}

func merged(x *index.Index) (list []index.Entry, err error) {
	err = x.EachEntry(func(e index.Entry) error {
		list = append(list, e)
		return nil
	})
	sortEntries(list)
	return list, err
}

func sortEntries(list []index.Entry) {
	slices.SortFunc(list, func(a, b index.Entry) int {
		return cmp.Or(cmp.Compare(a.PhyOffset, b.PhyOffset), cmp.Compare(a.Hash, b.Hash), cmp.Compare(a.StoreTime, b.StoreTime))
	})
}

// reader opens an index for reading.
func reader(t testing.TB, o index.Options) *index.Index {
	t.Helper()
	x, err := index.OpenReader(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return x
}

// Whatever dispatch, expiry, truncation and reopening made of an index, its tables read one by one give what they give merged.
func TestTablesReadOneByOneGiveTheSameEntries(t *testing.T) {
	for seed := range effort.Seeds(t, 10, 60) {
		r := rand.New(rand.NewPCG(seed, 21))
		var l fakeLog
		dir := t.TempDir()
		for range 12 {
			x := open(t, l.options(dir))
			for i := range r.IntN(300) {
				l.put(meta(fmt.Sprint("T", i%3), r.Int64N(1000), fmt.Sprint("u", len(l.records)), fmt.Sprint("k", r.IntN(50))), 60+r.IntN(100))
			}
			if err := l.feed(x, r.IntN(500)); err != nil {
				t.Fatal(err)
			}
			if r.IntN(2) == 0 {
				if err := x.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			switch r.IntN(6) {
			case 0:
				l.expire(l.min + r.Int64N(l.end-l.min+1))
				if _, err := x.Expire(l.min); err != nil {
					t.Fatal(err)
				}
			case 1:
				l.cut(l.end - r.Int64N(min(l.end-l.min, 3*fakeSegment)+1))
			}
			if err := x.Close(); err != nil { // what it compacts, it deletes
				t.Fatal(err)
			}
			if names, _ := filepath.Glob(filepath.Join(dir, "*.sst")); len(names) == 0 {
				continue
			}
			look := reader(t, l.options(dir))
			got, err := stored(look)
			if err != nil {
				t.Fatal(err)
			}
			want, err := merged(look)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%d entries one by one, %d merged", len(got), len(want))
			}
			look.Close()
		}
	}
}

// A table with a bit flipped is met by who reads tables one by one if it is by who merges them.
func TestDamageIsMetInTablesThatAreReadOneByOne(t *testing.T) {
	var l fakeLog
	for i := range 2000 {
		l.put(meta("T", int64(i), fmt.Sprint("u", i), "k"), 100)
	}
	dir := t.TempDir()
	o := l.options(dir)
	o.BucketSize = 1 << 20 // whose head is not in each block
	x := open(t, o)
	if err := l.feed(x, 2000); err != nil {
		t.Fatal(err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	whole, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	met := 0
	for seed := range effort.Seeds(t, 16, 100) {
		r := rand.New(rand.NewPCG(seed, 22))
		b := slices.Clone(whole)
		b[r.IntN(len(b))] ^= 1 << r.IntN(8)
		if err := os.WriteFile(names[0], b, 0o644); err != nil {
			t.Fatal(err)
		}
		x, err := index.OpenReader(o)
		if err != nil {
			continue
		}
		got, err := stored(x)
		want, damage := merged(x)
		x.Close()
		if err == nil && (damage != nil || !slices.Equal(got, want)) {
			t.Errorf("seed %d: %d entries; merged %d, %v", seed, len(got), len(want), damage)
		}
		if damage != nil {
			met++
		}
	}
	if met == 0 {
		t.Error("no damage was met")
	}
}
