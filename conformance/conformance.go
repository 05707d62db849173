package conformance

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
)

// Verdict is what became of one law.
type Verdict struct {
	Law     Law
	Faults  []string // what was wrong; none: the law holds, or was skipped
	Skipped string   // why the law was not checked; "" if it was
}

// Err is the faults as one error, with the law's statement and reason; nil if there are none.
func (v Verdict) Err() error {
	if len(v.Faults) == 0 {
		return nil
	}
	return &BrokenError{v.Law, v.Faults}
}

// BrokenError is a law that a store breaks.
type BrokenError struct {
	Law    Law
	Faults []string
}

func (e *BrokenError) Error() string {
	return fmt.Sprintf("%s is broken: %s\n\tWhy it is a law: %s (%s)\n\t%s", e.Law.ID, e.Law.Says, e.Law.Why, e.Law.Source, strings.ReplaceAll(strings.Join(e.Faults, "\n"), "\n", "\n\t"))
}

// Run checks all laws on maker's stores, each as a subtest named for its ID. A broken law fails with its statement, its reason and all faults; a law about something that the stores do not have is skipped and says what.
func Run(t *testing.T, maker Maker) {
	t.Helper()
	r := newRunner(maker, Laws())
	defer func() {
		if err := r.close(); err != nil { // laws that -run left out
			t.Error(err)
		}
	}()
	for _, l := range r.laws {
		t.Run(l.ID, func(t *testing.T) {
			v := r.examine(t.Context(), l)
			if err := v.Err(); err != nil {
				t.Error(err)
			}
			if v.Skipped != "" {
				t.Skipf("skipped: %s\n\t%s: %s", v.Skipped, l.ID, l.Says)
			}
		})
	}
}

// Check checks all laws on maker's stores and joins what is broken; each part is a *BrokenError. It is Run for those outside of go test.
func Check(ctx context.Context, maker Maker) error {
	var errs []error
	for v := range Examine(ctx, maker, Laws()) {
		errs = append(errs, v.Err())
	}
	return errors.Join(append(errs, ctx.Err())...)
}

// Examine checks laws, one at a time, and yields a verdict of each. It ends early when ctx is done.
func Examine(ctx context.Context, maker Maker, laws []Law) iter.Seq[Verdict] {
	return newRunner(maker, laws).all(ctx)
}
