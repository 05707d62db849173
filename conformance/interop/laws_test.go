package interop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance"
	"github.com/mqstore/mqstore/store"
)

// lawful is the original for the conformance suite.
type lawful struct{ *remote }

var (
	_ conformance.Store       = lawful{}
	_ store.BatchPutter       = lawful{}
	_ store.Looker            = lawful{}
	_ store.Querier           = lawful{}
	_ conformance.Reopener    = lawful{}
	_ conformance.Crasher     = lawful{}
	_ conformance.Expirer     = lawful{}
	_ conformance.RawAppender = lawful{}
	_ conformance.LogReader   = lawful{}
	_ conformance.IndexWaiter = lawful{}
	_ conformance.Delayer     = lawful{}
)

func (s lawful) Reopen(context.Context) (conformance.Store, error) { return s, s.reopen() }
func (s lawful) Crash(context.Context) (conformance.Store, error)  { return s, s.crash() }
func (s lawful) DelayLevels() string                               { return record.DefaultDelayTable().String() }
func (s lawful) DispatchesMulti()                                  {}

func (s lawful) Expire(_ context.Context, phyOffset int64) (int64, error) {
	if err := s.dispatched(); err != nil { // units of what is deleted before it is dispatched would never be
		return 0, err
	}
	return s.expire(phyOffset)
}

// makeLawful makes stores of 4.9.8 for the laws.
func makeLawful(t testing.TB) conformance.Maker {
	return func(_ context.Context, c conformance.Config) (conformance.Store, error) {
		switch {
		case c.AllowV2:
			return nil, fmt.Errorf("version 2 of records: %w", errors.ErrUnsupported)
		case c.MemorySize != 0:
			return nil, fmt.Errorf("a memory of another size than the machine's: %w", errors.ErrUnsupported)
		}
		o := c.TinyOptions()
		s := patient.with(settings{
			"haListenPort": freePort(t), "mappedFileSizeCommitLog": o.SegmentSize, "mappedFileSizeConsumeQueue": o.QueueFileSize, "maxHashSlotNum": 500, "maxIndexNum": 2000,
			"offsetCheckInSlave": c.OffsetCheckInSlave, "enableMultiDispatch": c.MultiDispatch, "enableLmq": c.MultiDispatch,
		})
		for name, v := range map[string]int{
			"maxMessageSize": o.MaxMessageSize, "maxTransferBytesOnMessageInMemory": o.MaxTransferBytesInMemory, "maxTransferCountOnMessageInMemory": o.MaxTransferMessagesInMemory,
			"maxTransferBytesOnMessageInDisk": o.MaxTransferBytesInDisk, "maxTransferCountOnMessageInDisk": o.MaxTransferMessagesInDisk,
		} {
			if v != 0 {
				s[name] = v
			}
		}
		if c.SyncFlush {
			s["flushDiskType"] = "SYNC_FLUSH"
		}
		if c.Role != store.AsyncMaster {
			s["brokerRole"] = c.Role.String()
		}
		r, err := newRemote(t, v4, s, c.Now)
		return lawful{r}, err
	}
}

// The suite tells the truth: on the original it finds what the original is known to do, and nothing else. brokenByOriginal has the laws, what it does and why ours keeps the law.
//
// A message that the original should have refused can leave a store behind that takes no more messages, so each law that is broken has a store to itself; the others share one, as they do in Run.
func TestTheOriginalKeepsTheLawsButThese(t *testing.T) {
	t.Parallel()
	classpath(t, v4)
	var shared []conformance.Law
	known := map[string]bool{}
	for _, l := range conformance.Laws() {
		known[l.ID] = true
		if _, listed := brokenByOriginal[l.ID]; !listed {
			shared = append(shared, l)
			continue
		}
		t.Run(l.ID, func(t *testing.T) {
			t.Parallel()
			judge(t, alone(t, l))
		})
	}
	for id := range brokenByOriginal {
		if !known[id] {
			t.Errorf("%s is in the list, but there is no such law", id)
		}
	}
	var kept, skipped atomic.Int64
	t.Cleanup(func() {
		t.Logf("of %d laws the original keeps %d and breaks %d; %d cannot be asked of it", len(known), kept.Load(), len(brokenByOriginal), skipped.Load())
	})
	// A few at a time: each share has stores of its own.
	for share := range slices.Chunk(shared, (len(shared)+3)/4) {
		t.Run("from-"+share[0].ID, func(t *testing.T) {
			t.Parallel()
			for v := range conformance.Examine(t.Context(), makeLawful(t), share) {
				if len(v.Faults) > 0 {
					v = alone(t, v.Law) // whatever another law left behind is not its fault
				}
				judge(t, v)
				if v.Skipped != "" {
					skipped.Add(1)
					t.Logf("cannot be asked of the original: %s: %s", v.Law.ID, v.Skipped)
				} else {
					kept.Add(1)
				}
			}
		})
	}
}

// alone examines one law on a store that nobody else had.
func alone(t *testing.T, l conformance.Law) (v conformance.Verdict) {
	for v = range conformance.Examine(t.Context(), makeLawful(t), []conformance.Law{l}) {
		continue
	}
	return v
}

func judge(t *testing.T, v conformance.Verdict) {
	t.Helper()
	b, listed := brokenByOriginal[v.Law.ID]
	switch {
	case listed && len(v.Faults) == 0 && v.Skipped != "":
		t.Errorf("%s is in the list, but cannot be checked: %s", v.Law.ID, v.Skipped)
	case listed && len(v.Faults) == 0:
		t.Errorf("%s is in the list, but the original keeps it.\n\tLaw: %s\n\tList: it %s", v.Law.ID, v.Law.Says, b.does)
	case listed:
		t.Logf("%s\n\tThe original %s.\n\tOurs keeps it: %s.\n\t%s", v.Law.Says, b.does, b.ours, strings.Join(v.Faults, "\n\t"))
	case len(v.Faults) > 0:
		t.Errorf("%s is broken by the original and not in the list: %s\n\t%s", v.Law.ID, v.Law.Says, strings.Join(v.Faults, "\n\t"))
	}
}
