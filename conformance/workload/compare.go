package workload

import (
	"context"
	"errors"
	"fmt"
)

// Follower is a reference that is told what the subject answered, before it does the operation itself: where a crash cut the log, how far retention went, what a clock said that cannot be set.
type Follower interface {
	Follow(o Op, subject Answer) error
}

// Comparison is two stores under the same workloads.
type Comparison struct {
	Subject   func(Setup) (Store, error) // opens an empty store
	Reference func(Setup) (Store, error) // and the one that is right

	Normalize func(o Op, a Answer) Answer                      // nil: answers are compared as they are. Called for both sides
	Excuse    func(o Op, subject, reference Answer) (why bool) // nil: no difference is excused. Called for answers that differ
	HideTimes bool                                             // see Runner
	Runs      int                                              // that Shrink may make at most; default 5000
}

// Difference is the first operation that two stores answered differently.
type Difference struct {
	Index              int // of the operation; that of the last one + 1 if it was closing
	Op                 Op
	Subject, Reference Answer
}

// Error is the operation and both answers.
func (d *Difference) Error() string {
	return fmt.Sprintf("operation %d: %s\n  answered: %s\n  expected: %s", d.Index+1, d.Op, d.Subject, d.Reference)
}

// Run runs w on both stores, in step, and returns the first difference; nil if there is none. An error is a store that could not be opened, or ctx's.
func (c *Comparison) Run(ctx context.Context, w Workload) (d *Difference, err error) {
	subject, err := c.Subject(w.Setup)
	if err != nil {
		return nil, fmt.Errorf("open the subject: %w", err)
	}
	reference, err := c.Reference(w.Setup)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the reference: %w", err), subject.Close())
	}
	defer func() {
		cerr := subject.Close()
		if d == nil && err == nil && cerr != nil {
			d = &Difference{Index: len(w.Ops), Op: Op{Kind: "close"}, Subject: failed(cerr), Reference: Answer{Status: OK}}
		}
		if cerr := reference.Close(); cerr != nil {
			err = errors.Join(err, fmt.Errorf("close the reference: %w", cerr))
		}
	}()
	a, b := NewRunner(subject, w.Setup), NewRunner(reference, w.Setup)
	a.HideTimes, b.HideTimes = c.HideTimes, c.HideTimes
	for i, o := range w.Ops {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		got := a.Do(ctx, o)
		if f, ok := reference.(Follower); ok {
			if err := f.Follow(o, got); err != nil {
				return &Difference{i, o, got, Answer{Status: "impossible", Note: err.Error()}}, nil
			}
		}
		want := b.Do(ctx, o)
		if d := c.compare(i, o, got, want); d != nil {
			return d, nil
		}
	}
	return nil, nil
}

func (c *Comparison) compare(i int, o Op, got, want Answer) *Difference {
	if c.Normalize != nil {
		got, want = c.Normalize(o, got), c.Normalize(o, want)
	}
	if Same(got, want) || c.Excuse != nil && c.Excuse(o, got, want) {
		return nil
	}
	return &Difference{i, o, got, want}
}

// Compare compares what two executions of w, anywhere and at any time, answered line by line. An answer that is missing is a difference.
func (c *Comparison) Compare(w Workload, subject, reference []Answer) *Difference {
	for i, o := range w.Ops {
		none := Answer{Status: "missing"}
		got, want := none, none
		if i < len(subject) {
			got = subject[i]
		}
		if i < len(reference) {
			want = reference[i]
		}
		if d := c.compare(i, o, got, want); d != nil || got.Status == none.Status {
			return d
		}
	}
	return nil
}

// Execute runs w on s, which was just opened for it and is empty, and returns its answers. It does not close s.
func Execute(ctx context.Context, s Store, w Workload) []Answer {
	r := NewRunner(s, w.Setup)
	answers := make([]Answer, 0, len(w.Ops))
	for _, o := range w.Ops {
		answers = append(answers, r.Do(ctx, o))
	}
	return answers
}
