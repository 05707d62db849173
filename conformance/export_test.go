package conformance

import (
	"context"
	"iter"
	"time"
)

// ExamineQuickly is Examine of a store that answers at once: what is not visible after patience is lost, and a law that takes longer than limit hangs.
func ExamineQuickly(ctx context.Context, maker Maker, laws []Law, patience, limit time.Duration) iter.Seq[Verdict] {
	r := newRunner(maker, laws)
	r.patience, r.limit = patience, limit
	return r.all(ctx)
}
