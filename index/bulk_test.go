package index_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/mqstore/mqstore/index"
)

// An index that was made in bulk, its tables written beside and left unmerged, is the index that is made otherwise: it says of each record how many entries it makes, and whoever opens it next finds all of them, once.
func TestIndexMadeInBulkIsAnyOther(t *testing.T) {
	var l fakeLog
	for i := range 600 {
		l.put(meta("T", int64(i), fmt.Sprint("u", i), "k", fmt.Sprint("k", i%7), "k"), 100+i%50)
	}
	o := l.options(t.TempDir())
	o.BucketSize, o.TailEntries = 64*fakeSegment, 100
	bulk := o
	bulk.NoBackground, bulk.NoCompaction, bulk.FlushEvery = false, true, math.MaxInt64
	x := open(t, bulk)
	ctx, stop := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	writer.Go(func() {
		if err := x.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	for i := range l.records {
		m := &l.records[i]
		n, err := x.Put(m)
		if err != nil || n != len(textsOf(m)) || n != index.Keys(m) {
			t.Fatalf("%d entries of %v, %v", n, textsOf(m), err)
		}
	}
	want := l.want("T", "k3", math.MinInt64, math.MaxInt64, 64)
	if got := query(t, x, "T", "k3"); !slices.Equal(got, want) {
		t.Errorf("found %v while it is made, want %v", got, want)
	}
	stop()
	writer.Wait()
	if err := x.Flush(); err != nil {
		t.Fatal(err)
	}
	if s := x.Stats(); s.Compactions > 0 || s.Flushes < 15 {
		t.Errorf("%d compactions of %d tables", s.Compactions, s.Flushes)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	x = open(t, o)
	l.holdsExactly(t, x, l.end)
	if got := query(t, x, "T", "k3"); !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}
