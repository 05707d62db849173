package index

import "slices"

// Expire drops the buckets that lie wholly below minPhyOffset, the log's minimum, in one step however many entries they have, and makes queries pass over what is left below. Dispatch, if it is behind, may go on there.
func (x *Index) Expire(minPhyOffset int64) (buckets int, err error) {
	if err := x.usable(); err != nil {
		return 0, err
	}
	x.flushing.Lock()
	defer x.flushing.Unlock()
	if x.gone {
		return 0, ErrClosed
	}
	x.mu.Lock()
	x.mu.min = max(x.mu.min, minPhyOffset)
	n := 0
	for n < len(x.mu.old) && x.bucketEnd(x.mu.old[n].bucket) <= minPhyOffset {
		n++
	}
	to := x.mu.dropped
	if n > 0 {
		to = x.mu.now.bucket
		if n < len(x.mu.old) {
			to = x.mu.old[n].bucket
		}
	}
	x.mu.Unlock()
	if n == 0 {
		return 0, nil
	}
	if err := x.excise(0, to); err != nil {
		return 0, x.fail(err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.mu.old = slices.Clone(x.mu.old[n:])
	x.mu.dropped = to
	return n, nil
}
