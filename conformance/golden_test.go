package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mqstore/mqstore/conformance"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/conformance/golden"
	"github.com/mqstore/mqstore/store"
)

// goldenMaker makes engines whose directories RocketMQ left: each store begins with its messages, and goes on with those of the laws.
func goldenMaker(t *testing.T, name, dir string) conformance.Maker {
	m := golden.Load(t, name)
	config := m.Config
	if config == nil {
		config = m.MasterConfig
	}
	segment, queueFile := config.Int("mappedFileSizeCommitLog"), config.Int("mappedFileSizeConsumeQueue")
	return func(_ context.Context, c conformance.Config) (conformance.Store, error) {
		if c.SegmentSize != 0 && c.SegmentSize != segment || int64(c.Record()) > segment-8 {
			return nil, fmt.Errorf("segments of anything but %d bytes: %w", segment, errors.ErrUnsupported)
		}
		if c.QueueFileSize != 0 && c.QueueFileSize != queueFile {
			return nil, fmt.Errorf("queue files of anything but %d bytes: %w", queueFile, errors.ErrUnsupported)
		}
		if c.Now != nil {
			return nil, fmt.Errorf("a clock: what is in the store has times: %w", errors.ErrUnsupported)
		}
		o := patient(c.Options())
		o.SegmentSize, o.QueueFileSize = segment, queueFile
		e := &engine{dir: filepath.Join(golden.Extract(t, name), dir), o: o}
		var err error
		if e.DefaultMessageStore, err = store.Open(e.dir, o); err != nil {
			return nil, err
		}
		return e, nil
	}
}

// A store that RocketMQ wrote, crashed or lost queues of keeps the laws like a new one.
func TestTheEngineKeepsTheLawsOnStoresOfRocketMQ(t *testing.T) {
	laws := slices.DeleteFunc(conformance.Laws(), func(l conformance.Law) bool { return l.Own || l.Config.Role == store.Slave }) // the store is not empty
	for i, name := range golden.Names() {
		if effort.Current() != effort.Full && effort.Current() != effort.Endless && i%4 != 0 {
			continue
		}
		root := golden.Extract(t, name)
		for _, dir := range []string{"store", "store-before", "store-after", "master", "slave"} {
			if _, err := os.Stat(filepath.Join(root, dir)); err != nil {
				continue
			}
			t.Run(name+"/"+dir, func(t *testing.T) {
				t.Parallel()
				checked := 0
				for v := range conformance.Examine(t.Context(), goldenMaker(t, name, dir), laws) {
					if err := v.Err(); err != nil {
						t.Error(err)
					}
					if v.Skipped == "" {
						checked++
					}
				}
				if checked < 120 {
					t.Errorf("only %d laws are checked", checked)
				}
			})
		}
	}
}
