package conformance

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"
)

const (
	lawLimit      = 5 * time.Minute  // a law that takes longer hangs
	lawPatience   = 30 * time.Second // a message that is not visible by then is lost, and not only late on a busy machine
	runnerClosing = 2 * time.Minute  // as much for a store's Close
)

// runner holds the stores that laws share.
type runner struct {
	maker           Maker
	laws            []Law // laws that share a store follow each other
	limit, patience time.Duration
	open            map[string]*lent
	left            map[string]int // laws to come, by key
	record          map[string]int // largest record, by key
}

// lent is a store and its clock.
type lent struct {
	s      Store
	clock  *Clock  // nil: the machine's
	filled []Queue // what T.Filled answers; nil: nothing was filled yet
	size   int     // records of which it takes
}

func newRunner(maker Maker, laws []Law) *runner {
	r := &runner{maker: maker, limit: lawLimit, patience: lawPatience, open: map[string]*lent{}, left: map[string]int{}, record: map[string]int{}}
	first := map[string]int{}
	for _, l := range laws {
		k := keyOf(l)
		if _, ok := first[k]; !ok {
			first[k] = len(first)
		}
		r.left[k]++
		r.record[k] = max(r.record[k], l.Config.Record())
	}
	r.laws = slices.Clone(laws)
	slices.SortStableFunc(r.laws, func(a, b Law) int { return first[keyOf(a)] - first[keyOf(b)] })
	return r
}

// keyOf is equal for laws that share a store.
func keyOf(l Law) string {
	if l.Own {
		return l.ID
	}
	return l.Config.key(l.Clock)
}

func (r *runner) all(ctx context.Context) iter.Seq[Verdict] {
	return func(yield func(Verdict) bool) {
		defer r.close() // of a caller that stops early
		for _, l := range r.laws {
			if ctx.Err() != nil || !yield(r.examine(ctx, l)) {
				return
			}
		}
	}
}

// make asks the maker for a store that l can share: first for one that takes the largest record of those laws, then for one that is good enough for l; first with a clock, if l wants one, then without.
func (r *runner) make(ctx context.Context, l Law) (*lent, error) {
	var refused error
	for _, clock := range []*Clock{newClock(), nil} {
		if clock != nil && !l.Clock {
			continue
		}
		for _, size := range []int{r.record[keyOf(l)], l.Config.Record()} {
			c := l.Config
			c.RecordSize = size
			if clock != nil {
				c.Now = clock.Now
			}
			s, err := r.maker(ctx, c)
			switch {
			case err == nil && s != nil:
				return &lent{s: s, clock: clock, size: size}, nil
			case err == nil:
				return nil, errors.New("the maker returned neither a store nor an error")
			case !errors.Is(err, errors.ErrUnsupported):
				return nil, err
			}
			refused = err
		}
	}
	return nil, refused
}

// examine checks l. A law that panics or hangs has a fault, and its store is not used again.
func (r *runner) examine(ctx context.Context, l Law) (v Verdict) {
	v.Law = l
	k := keyOf(l)
	r.left[k]--
	t := &T{law: l, patience: r.patience, lent: r.open[k]}
	var cancel context.CancelFunc
	t.ctx, cancel = context.WithTimeout(ctx, r.limit)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.run(func() {
			if t.lent != nil && t.lent.size < l.Config.Record() {
				t.lent = nil // l needs another one
			}
			if t.lent == nil {
				b, err := r.make(t.ctx, l)
				if err != nil && errors.Is(err, errors.ErrUnsupported) {
					t.Skip("the maker cannot make such a store: %v", err)
				}
				if err != nil {
					t.Fatalf("the maker made no store: %v", err)
				}
				t.lent = b
			}
			l.Check(t)
		})
	}()
	select {
	case <-done:
	case <-time.After(r.limit + r.limit/4): // a law that heeds its context has ended
		// The goroutine is given up with its store; from here on nobody but it touches either.
		v.Faults = append(t.seal(), fmt.Sprintf("the law did not end within %v", r.limit))
		delete(r.open, k)
		return v
	}
	v.Faults, v.Skipped = t.seal(), t.skipped
	r.keep(&v, k, t)
	return v
}

// keep lets the laws to come share t's store, or closes it if there are none or something is wrong with it.
func (r *runner) keep(v *Verdict, k string, t *T) {
	before := r.open[k]
	if t.lent == nil { // the maker could not make one for this law
		t.lent = before
	} else if before != nil && before != t.lent {
		r.closed(v, before)
	}
	switch {
	case t.lent == nil:
	case !t.broken && r.left[k] > 0:
		r.open[k] = t.lent
	case t.broken || t.closed:
		delete(r.open, k)
		_ = closeStore(t.lent.s)
	default:
		delete(r.open, k)
		r.closed(v, t.lent)
	}
}

// closed closes b; if that fails it is a fault of v, the last law that used it.
func (r *runner) closed(v *Verdict, b *lent) {
	if err := closeStore(b.s); err != nil {
		v.Faults = append(v.Faults, fmt.Sprintf("Close afterwards: %v", err))
	}
}

// closeStore closes s, but does not wait for ever.
func closeStore(s Store) error {
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("panic: %v", p)
			}
		}()
		done <- s.Close()
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(runnerClosing):
		return fmt.Errorf("did not return within %v", runnerClosing)
	}
}

// close closes the stores whose laws were not all checked.
func (r *runner) close() error {
	var errs []error
	for k, b := range r.open {
		if err := closeStore(b.s); err != nil {
			errs = append(errs, fmt.Errorf("close the store of laws with %s: %w", k, err))
		}
	}
	r.open = map[string]*lent{}
	return errors.Join(errs...)
}
