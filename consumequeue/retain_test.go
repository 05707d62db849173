package consumequeue_test

import (
	"errors"
	"fmt"
	"path"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/consumequeue"
)

// TestCorrectMinFollowsTheLog: the first unit that still has a record; none: min = max (defect 11, the 5.3.3 rule).
func TestCorrectMinFollowsTheLog(t *testing.T) {
	for _, c := range []struct{ first, minPhy, want int64 }{
		{0, 0, 0},
		{0, -1, 0},
		{0, 1, 1},
		{0, 100, 1},
		{0, 950, 10},
		{0, 1000, 10},
		{0, 2499, 25},
		{0, 2500, 25},
		{0, 2501, 26},
		{0, 1 << 60, 26},
		{7, 0, 7},
		{7, 700, 7},
		{7, 701, 8},
		{13, 0, 13},
		{13, 2600, 26},
	} {
		fs := faultfs.New()
		s := open(t, small(fs))
		fill(t, s, c.first, 26)
		q := s.Queue(topic, 0)
		if err := s.CorrectMin(c.minPhy); err != nil {
			t.Fatal(err)
		}
		wantBounds(t, q, c.want, 26, 2600)
		if err := s.CorrectMin(0); err != nil { // never back
			t.Fatal(err)
		}
		wantBounds(t, q, c.want, 26, 2600)
		fill(t, s, 26, 27)
		wantBounds(t, q, c.want, 27, 2700)
		if _, err := q.Unit(c.want - 1); !errors.Is(err, consumequeue.ErrNoUnit) {
			t.Errorf("below the minimum: %v", err)
		}
	}
}

// TestExpireRemovesFilesThatEndBelowTheLog, never the last one, and the numbering survives a restart.
func TestExpireRemovesFilesThatEndBelowTheLog(t *testing.T) {
	for _, c := range []struct {
		first, end, minPhy int64
		files              []int64 // starts that are left
		min                int64
	}{
		{0, 26, 0, []int64{0, 10, 20}, 0},
		{0, 26, 900, []int64{0, 10, 20}, 9},
		{0, 26, 901, []int64{10, 20}, 10},
		{0, 26, 1901, []int64{20}, 20},
		{0, 26, 2200, []int64{20}, 22},
		{0, 26, 1 << 60, []int64{20}, 26},
		{0, 30, 1 << 60, []int64{20}, 30},
		{13, 26, 1950, []int64{20}, 20},
		{0, 10, 1 << 60, []int64{0}, 10},
		{0, 1, 500, []int64{0}, 1},
	} {
		t.Run(fmt.Sprintf("%d..%d, log from %d", c.first, c.end, c.minPhy), func(t *testing.T) {
			fs := faultfs.New()
			s := open(t, small(fs))
			fill(t, s, c.first, c.end)
			before := len(s.Queue(topic, 0).Files())
			v, err := s.Queue(topic, 0).View(c.first)
			if err != nil {
				t.Fatal(err)
			}
			n, err := s.Expire(c.minPhy)
			if err != nil || n != before-len(c.files) {
				t.Fatalf("%d files went, %v", n, err)
			}
			var want []string
			for _, at := range c.files {
				want = append(want, path.Join(cqDir, topic, "0", fmt.Sprintf("%020d", at*consumequeue.UnitSize)))
			}
			if d := cmp.Diff(want, fs.Paths()); d != "" {
				t.Errorf("files (-want +got):\n%s", d)
			}
			wantBounds(t, s.Queue(topic, 0), c.min, c.end, 100*c.end)
			if u := v.At(0); u != run(c.first, 1)[0] {
				t.Errorf("a view of an expired file reads %+v", u)
			}
			v.Release()
			if n, err := s.Expire(c.minPhy); n != 0 || err != nil {
				t.Errorf("a second time: %d, %v", n, err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open(t, small(fs))
			if err := s.CorrectMin(c.minPhy); err != nil {
				t.Fatal(err)
			}
			wantBounds(t, s.Queue(topic, 0), c.min, c.end, 100*c.end)
			fill(t, s, c.end, c.end+1)
		})
	}
}

// TestExpireGoesOnPastAQueueThatFails, and can be repeated.
func TestExpireGoesOnPastAQueueThatFails(t *testing.T) {
	fs := faultfs.New()
	s := open(t, small(fs))
	for q := range int32(3) {
		for i := range int64(21) {
			m := meta(i, 100*i, 100)
			m.QueueID = q
			if err := s.Dispatch(m); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	fs.FailOnce(fs.Ops()+1, nil)
	n, err := s.Expire(1 << 40)
	if n != 4 || !errors.Is(err, faultfs.ErrInjected) {
		t.Fatalf("%d files, %v", n, err)
	}
	if n, err = s.Expire(1 << 40); n != 2 || err != nil {
		t.Fatalf("again: %d files, %v", n, err)
	}
}

// TestRemoveForgetsAQueue: files, extension files, numbering; and only that one.
func TestRemoveForgetsAQueue(t *testing.T) {
	fs := faultfs.New()
	s := open(t, small(fs))
	fill(t, s, 5, 26)
	other := meta(0, 1<<20, 100)
	other.QueueID = 1
	if err := s.Dispatch(other); err != nil {
		t.Fatal(err)
	}
	fs.Plant("/store/consumequeue_ext/T/0/00000000000000000000", make([]byte, 100))
	fs.Plant("/store/consumequeue_ext/T/1/00000000000000000000", make([]byte, 100))
	dead := s.Queue(topic, 0)
	v, err := dead.View(7)
	if err != nil {
		t.Fatal(err)
	}
	// Whatever operation fails, Remove can be repeated.
	for tries := int64(1); ; tries++ {
		fs.FailOnce(fs.Ops()+tries, nil)
		if err := s.Remove(topic, 0); err == nil {
			break
		} else if !errors.Is(err, faultfs.ErrInjected) || tries > 30 {
			t.Fatal(err)
		}
	}
	fs.FailOnce(0, nil)
	if s.Queue(topic, 0) != nil {
		t.Error("the queue is still there")
	}
	want := []string{cqDir + "/T/1/00000000000000000000", "/store/consumequeue_ext/T/1/00000000000000000000"}
	if d := cmp.Diff(want, fs.Paths()); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
	if u := v.At(0); u != run(7, 1)[0] {
		t.Errorf("a view reads %+v", u)
	}
	v.Release()
	if _, err := dead.Unit(7); !errors.Is(err, consumequeue.ErrNoUnit) {
		t.Errorf("the dead queue: %v", err)
	}
	if _, err := dead.View(7); !errors.Is(err, consumequeue.ErrNoUnit) {
		t.Errorf("the dead queue: %v", err)
	}
	if err := s.Flush(); err != nil {
		t.Error(err)
	}
	if err := s.Dispatch(meta(0, 2<<20, 100)); err != nil {
		t.Fatal(err)
	}
	wantBounds(t, s.Queue(topic, 0), 0, 1, 2<<20+100)
	if err := s.Remove("never", 3); err != nil {
		t.Error(err)
	}
	if err := s.Remove(topic, 0); err != nil {
		t.Error(err)
	}
	if err := s.Remove(topic, 1); err != nil {
		t.Error(err)
	}
	if infos, err := fs.ReadDir(cqDir); err != nil || len(infos) > 0 {
		t.Errorf("left behind: %v, %v", infos, err)
	}
}
