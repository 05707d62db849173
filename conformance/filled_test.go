package conformance_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mqstore/mqstore/conformance"
	"github.com/mqstore/mqstore/conformance/golden"
	"github.com/mqstore/mqstore/store"
)

// Each directory that RocketMQ left keeps the laws of filled stores: looked at as it is, and opened for writing.
func TestStoresOfRocketMQKeepTheLawsOfFilledStores(t *testing.T) {
	for _, name := range golden.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, root := golden.Load(t, name), golden.Extract(t, name)
			for _, dir := range []string{"store", "store-after", "store-before", "master", "slave"} {
				path := filepath.Join(root, dir)
				if _, err := os.Stat(path); err != nil {
					continue
				}
				config := m.Config
				if dir == "slave" {
					config = m.SlaveConfig
				} else if config == nil {
					config = m.MasterConfig
				}
				o := store.Options{MultiDispatch: config.Bool("enableMultiDispatch"), DelayLevels: config.String("messageDelayLevel")}
				if config.String("brokerRole") == "SLAVE" {
					o.Role = store.Slave
				}
				if dir != "store-before" && name != "crash-lostqueue" && name != "clean-lostqueue" { // those lack units until they are opened for writing
					t.Run(dir+"/looked at", func(t *testing.T) {
						s, err := store.OpenReadOnly(path, o)
						if err != nil {
							t.Fatal(err)
						}
						defer s.Close()
						conformance.RunFilled(t, s)
					})
				}
				t.Run(dir+"/opened", func(t *testing.T) {
					s, err := store.Open(path, o)
					if err != nil {
						t.Fatal(err)
					}
					defer s.Close()
					conformance.RunFilled(t, s)
				})
			}
		})
	}
}

// CheckFilled tells of each law that is broken, and looks at the queues that it is given.
func TestCheckFilledTellsWhatIsBroken(t *testing.T) {
	f := newFaulty(conformance.Config{})
	for _, topic := range []string{"T", "filled-T"} {
		for range 20 {
			if _, err := f.Put(t.Context(), small(topic, 0)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := conformance.CheckFilled(t.Context(), f); err != nil {
		t.Errorf("a store with nothing wrong: %v", err)
	}
	getAnswer(func(_ *faulty, r store.GetRequest, g *store.GetResult) {
		if inFilled(r.Topic) && len(g.Records) > 8 {
			g.QueueOffsets[2] = g.QueueOffsets[1]
		}
	})(f)
	err := conformance.CheckFilled(t.Context(), f)
	var broken *conformance.BrokenError
	if !errors.As(err, &broken) || !strings.Contains(err.Error(), "filled-001 is broken") || strings.Contains(err.Error(), "filled-009") {
		t.Errorf("a message given twice: %v", err)
	}
	if err := conformance.CheckFilled(t.Context(), f, conformance.Queue{Topic: "T"}); err != nil {
		t.Errorf("the queue that nothing is wrong with: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := conformance.CheckFilled(ctx, f); !errors.Is(err, context.Canceled) {
		t.Errorf("a check that was given up: %v", err)
	}
}
