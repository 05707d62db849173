package main

import (
	"context"
	"slices"
	"time"

	"github.com/mqstore/mqstore/store"
)

const (
	tidyFirst    = time.Minute
	tidyEvery    = 10 * time.Second
	diskForcibly = 0.85 // of the file system used: the oldest segments go, whatever their age, if cleanFileForciblyEnable allows it
)

// tidy deletes expired segments as the configuration says, until ctx ends. Slaves delete by themselves, as masters do.
func (n *node) tidy(ctx context.Context, s *store.DefaultMessageStore) {
	t := time.NewTimer(tidyFirst)
	defer t.Stop()
	failed := ""
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		st := s.Stats()
		_, err := s.DeleteExpired(expiry(n.p.broker, time.Now(), st.DiskFree, st.DiskTotal)) // the store logs what it deletes
		if err != nil && err.Error() != failed {
			n.p.log.Error("deleting expired segments failed; it is tried again", "err", err)
		}
		failed = text(err)
		t.Reset(tidyEvery)
	}
}

// expiry is what may be deleted now (RocketMQ 4.9.8, spec/dispatch-and-read.md 5.7): what is older than fileReservedTime, in the hours of deleteWhen or while the disk is used by more than diskMaxUsedSpaceRatio.
func expiry(b store.Broker, now time.Time, free, total int64) (o store.ExpireOptions) {
	full := total > 0 && float64(total-free) > float64(total)*float64(b.MaxDiskRatio)/100
	if full || slices.Contains(b.DeleteWhen, now.Hour()) {
		o.OlderThan = b.FileReserved
	}
	if b.CleanForcibly {
		o.DiskRatio = diskForcibly
	}
	return o
}
