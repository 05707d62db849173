package index

import (
	"fmt"
	"os"
)

// OpenReader opens the index in o.Dir for queries only, without changing a byte, also while another process has it open: what that one has made durable so far is what is seen. Entries that the log does not confirm are left out.
//
// ErrNoIndex; ErrDamaged, also when the other process deleted a file meanwhile, here or in a query: open it again then.
func OpenReader(o Options) (*Index, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	if names, err := o.fs.List(o.Dir); os.IsNotExist(err) || err == nil && len(names) == 0 {
		return nil, fmt.Errorf("%w in %s", ErrNoIndex, o.Dir)
	}
	x := &Index{o: o, readOnly: true, poked: make(chan struct{}, 1), dead: make(chan struct{})}
	x.report.DroppedFrom = -1
	var err error
	const tries = 3 // a file that goes between reading the list of files and opening it is rare
	for range tries {
		if x.db, err = openDatabase(&x.o, true); err == nil {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open index %s for reading: %w", o.Dir, err)
	}
	heads, err := x.loadHeads()
	if err == nil {
		err = x.reconcile(heads)
	}
	if err != nil {
		x.db.close()
		return nil, fmt.Errorf("open index %s for reading: %w", o.Dir, err)
	}
	x.report.NextPhyOffset = x.mu.next
	return x, nil
}
