package workload

import (
	"context"
	"slices"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

const defaultRuns = 5000

// Shrink makes a workload that fails as small as it can: fewer operations, then simpler ones. It returns the smallest one found, and its difference; nil if w does not fail. An error of opening a store, or of ctx, ends the search with what
// was found so far.
func (c *Comparison) Shrink(ctx context.Context, w Workload) (Workload, *Difference) {
	runs := c.Runs
	if runs <= 0 {
		runs = defaultRuns
	}
	var last *Difference
	small := Shrink(w, runs, func(w Workload) (upTo int, fails bool) {
		d, err := c.Run(ctx, w)
		if err != nil || d == nil {
			return 0, false
		}
		last = d
		return d.Index + 1, true
	})
	return small, last
}

// Shrink is the search alone: fails runs a workload and says whether it fails, and after how many operations. It is called at most runs times; its last call that failed was for the workload that is returned.
func Shrink(w Workload, runs int, fails func(w Workload) (upTo int, fails bool)) Workload {
	s := &shrinker{runs: runs, fails: fails}
	if !s.try(w) {
		return w
	}
	for {
		before := s.best.String()
		s.fewer()
		s.pairs()
		s.simpler()
		if s.best.String() == before || s.runs <= 0 {
			return s.best
		}
	}
}

type shrinker struct {
	runs  int
	fails func(Workload) (int, bool)
	best  Workload
}

// try keeps w, without what follows its failure, if it fails.
func (s *shrinker) try(w Workload) bool {
	if s.runs <= 0 {
		return false
	}
	s.runs--
	upTo, fails := s.fails(w)
	if fails {
		s.best = Workload{w.Setup, slices.Clone(w.Ops[:min(max(upTo, 0), len(w.Ops))])}
	}
	return fails
}

// fewer removes operations: halves, quarters, … single ones, from the end on, since those at the beginning are what others need.
func (s *shrinker) fewer() {
	for size := max(1, len(s.best.Ops)/2); size > 0 && s.runs > 0; {
		removed := false
		for end := len(s.best.Ops); end > 0 && s.runs > 0; {
			end = min(end, len(s.best.Ops))
			from := max(0, end-size)
			if s.try(Workload{s.best.Setup, slices.Concat(s.best.Ops[:from], s.best.Ops[end:])}) {
				removed = true
			}
			end = from
		}
		if size == 1 && !removed {
			return
		}
		if size > 1 {
			size /= 2
		}
	}
}

// pairs removes two operations at once, where a few are left that need each other.
func (s *shrinker) pairs() {
	const few = 16
	for i := 0; i < len(s.best.Ops) && len(s.best.Ops) <= few; i++ {
		for j := i + 1; j < len(s.best.Ops) && s.runs > 0; {
			ops := slices.Delete(slices.Clone(s.best.Ops), j, j+1)
			if !s.try(Workload{s.best.Setup, slices.Delete(ops, i, i+1)}) {
				j++
			}
		}
	}
}

// simpler simplifies each operation, and the setup.
func (s *shrinker) simpler() {
	for i := 0; i < len(s.best.Ops); i++ {
		for again := true; again && s.runs > 0; {
			again = false
			for _, o := range s.best.Ops[i].simpler() {
				ops := slices.Clone(s.best.Ops)
				ops[i] = o
				if again = s.try(Workload{s.best.Setup, ops}); again {
					break
				}
			}
			if i >= len(s.best.Ops) {
				return
			}
		}
	}
	for _, change := range []func(*Setup){
		func(u *Setup) { u.V2 = false }, func(u *Setup) { u.Role = store.AsyncMaster }, func(u *Setup) { u.Flush = store.AsyncFlush }, func(u *Setup) { u.MultiDispatch = false }, func(u *Setup) { u.NoIndex = true },
		func(u *Setup) { u.Memory, u.MemoryBytes, u.DiskBytes, u.MemoryCount, u.DiskCount = 0, 0, 0, 0, 0 },
	} {
		setup := s.best.Setup
		if change(&setup); setup != s.best.Setup {
			s.try(Workload{setup, s.best.Ops})
		}
	}
}

// clone shares nothing with o.
func (o Op) clone() Op {
	o.Message.Props = slices.Clone(o.Message.Props)
	o.Items = slices.Clone(o.Items)
	for i := range o.Items {
		o.Items[i].Props = slices.Clone(o.Items[i].Props)
	}
	return o
}

// simpler is operations like o that are simpler in one respect, the simplest first.
func (o Op) simpler() (ops []Op) {
	variants := func(of func(*Op) []field) {
		base := o.clone()
		for i, f := range of(&base) {
			for change := range f.changes() {
				v := o.clone()
				of(&v)[i].apply(change)
				ops = append(ops, v)
			}
		}
	}
	for i := range o.Items {
		v := o.clone()
		v.Items = slices.Delete(v.Items, i, i+1)
		ops = append(ops, v)
	}
	if o.Kind == Async {
		v := o.clone()
		v.Kind = Put
		ops = append(ops, v)
	}
	variants(func(o *Op) []field { f, _ := o.fields(); return f })
	for i := range o.Items {
		variants(func(o *Op) []field { return itemFields(&o.Items[i]) })
	}
	return ops
}

// changes yields simpler values of a field, each as something that apply understands.
func (f field) changes() func(yield func(any) bool) {
	ints := func(v int64, yield func(any) bool) {
		for _, n := range []int64{0, 1, v / 2, v - 1} {
			if v < 0 && n == v-1 {
				n = v + 1
			}
			if (n >= 0 && n < v || v < 0 && n > v && n <= 0) && !yield(n) {
				return
			}
		}
	}
	return func(yield func(any) bool) {
		switch p := f.p.(type) {
		case *string:
			for _, s := range []string{"A", "", "*"} {
				if (f.name == "topic") == (s == "A") && *p != s && (f.name == "filter" || s != "*") && (len(s) < len(*p) || s == "A") && !yield(s) {
					return
				}
			}
		case *int:
			ints(int64(*p), yield)
		case *int32:
			ints(int64(*p), yield)
		case *int64:
			ints(*p, yield)
		case *uint64:
			for _, n := range []uint64{0, 1} {
				if n < *p && !yield(n) {
					return
				}
			}
		case *bool:
			if *p {
				yield(false)
			}
		case *Ref:
			for _, r := range []Ref{{}, {Base: p.Base, Back: p.Back}, {Base: p.Base, Back: 1, Plus: p.Plus}, {Base: p.Base, Back: p.Back, Plus: p.Plus / 2}} {
				if p.Base != Back {
					r.Back = 0
				}
				if r != *p && !yield(r) {
					return
				}
				if r == *p {
					return
				}
			}
		case *record.Host:
			if p.Addr.IsValid() {
				yield(record.Host{})
			}
		case *record.Transaction:
			if *p != record.TransactionNone {
				yield(record.TransactionNone)
			}
		case *record.Compression:
			if *p != record.CompressionNone {
				yield(record.CompressionNone)
			}
		case *store.TimeRule:
			if *p != store.Nearest {
				yield(store.Nearest)
			}
		case *Ending:
			if *p != Kill {
				yield(Kill)
			}
		case *[]Property:
			if len(*p) > 1 && !yield([]Property{}) {
				return
			}
			for i := range *p {
				if !yield(slices.Delete(slices.Clone(*p), i, i+1)) {
					return
				}
			}
		}
	}
}

// apply gives the field a value of changes.
func (f field) apply(v any) {
	switch p := f.p.(type) {
	case *string:
		*p = v.(string)
	case *int:
		*p = int(v.(int64))
	case *int32:
		*p = int32(v.(int64))
	case *int64:
		*p = v.(int64)
	case *uint64:
		*p = v.(uint64)
	case *bool:
		*p = v.(bool)
	case *Ref:
		*p = v.(Ref)
	case *record.Host:
		*p = v.(record.Host)
	case *record.Transaction:
		*p = v.(record.Transaction)
	case *record.Compression:
		*p = v.(record.Compression)
	case *store.TimeRule:
		*p = v.(store.TimeRule)
	case *Ending:
		*p = v.(Ending)
	case *[]Property:
		*p = v.([]Property)
	}
}
