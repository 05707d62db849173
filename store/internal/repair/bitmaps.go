package repair

import (
	"context"
	"io/fs"
)

// extended counts the units of queues that point at an extension (consumequeue_ext), as far as their queues can be read and want says so. A queue that is made anew has none: the extension holds the filter bitmap that a broker's filters computed when
// the message came, and no log has. Its units carry plain tags codes, which every reader knows (spec/consumequeue-format.md 2.6); a broker that misses a bitmap looks at the message itself.
func (f *Files) extended(ctx context.Context, queues []QueueName, want func(q QueueName, phyOffset int64) bool) (n int64, err error) {
	if _, err := fs.Stat(f.root, extDir); err != nil {
		return 0, nil
	}
	for _, q := range queues {
		r, err := f.ReadUnits(q.Topic, q.QueueID, 0)
		if err != nil {
			continue // nothing of it can be kept or lost
		}
		for i := 0; ; i++ {
			if i%1024 == 0 && ctx.Err() != nil {
				r.Close()
				return n, ctx.Err()
			}
			u, err := r.Next()
			if err != nil {
				break
			}
			if u.IsExtAddress() && want(q, u.PhyOffset) {
				n++
			}
		}
		r.Close()
	}
	return n, nil
}
