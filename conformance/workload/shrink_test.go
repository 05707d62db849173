package workload_test

import (
	"slices"
	"testing"

	"github.com/mqstore/mqstore/conformance/workload"
)

// Whatever decides a failure is what remains: nothing else, and nothing more of it than is needed.
func TestShrinkLeavesWhatDecides(t *testing.T) {
	bigPut := func(o workload.Op) bool { return o.Kind == workload.Put && o.Message.Len > 99 }
	for name, c := range map[string]struct {
		fails func(w workload.Workload) bool
		want  string
	}{
		"one operation": {func(w workload.Workload) bool { return slices.ContainsFunc(w.Ops, bigPut) }, "put topic=A len=100\n"},
		"a pair in order": {func(w workload.Workload) bool {
			i := slices.IndexFunc(w.Ops, bigPut)
			return i >= 0 && slices.ContainsFunc(w.Ops[i:], func(o workload.Op) bool { return o.Kind == workload.Reopen })
		}, "put topic=A len=100\nreopen\n"},
		"three of a kind": {func(w workload.Workload) bool {
			n := 0
			for _, o := range w.Ops {
				if o.Kind == workload.SetClock {
					n++
				}
			}
			return n >= 3
		}, "clock\nclock\nclock\n"},
		"an item of a batch": {func(w workload.Workload) bool {
			return slices.ContainsFunc(w.Ops, func(o workload.Op) bool {
				return slices.ContainsFunc(o.Items, func(m workload.Message) bool { return len(m.Props) > 1 })
			})
		}, "batch topic=A | keys=k4 delay=0\n"},
	} {
		t.Run(name, func(t *testing.T) {
			runs := 0
			var w workload.Workload
			for seed := uint64(0); !c.fails(w); seed++ {
				w = workload.Generate(seed, workload.Options{Ops: 300})
			}
			small := workload.Shrink(w, 5000, func(w workload.Workload) (int, bool) {
				runs++
				return len(w.Ops), c.fails(w)
			})
			t.Logf("%d runs:\n%s", runs, small)
			if !c.fails(small) {
				t.Fatal("what is left does not fail")
			}
			if text := (workload.Workload{Ops: small.Ops}).String(); text != "store\n"+c.want {
				t.Errorf("want\n%s", c.want)
			}
			if len(small.Ops) > 3 {
				t.Errorf("%d operations", len(small.Ops))
			}
		})
	}
}

// Runs are bounded, and a workload that does not fail is returned as it is.
func TestShrinkEnds(t *testing.T) {
	w := workload.Generate(1, workload.Options{})
	for _, most := range []int{0, 1, 7, 100} {
		runs := 0
		small := workload.Shrink(w, most, func(w workload.Workload) (int, bool) { runs++; return len(w.Ops), len(w.Ops) > 2 })
		if runs > most {
			t.Errorf("%d runs, at most %d are allowed", runs, most)
		}
		if len(small.Ops) <= 2 {
			t.Errorf("%d operations do not fail", len(small.Ops))
		}
	}
	if small := workload.Shrink(w, 100, func(workload.Workload) (int, bool) { return 0, false }); small.String() != w.String() {
		t.Error("a workload that does not fail was changed")
	}
}
