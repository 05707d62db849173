package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/mqstore/mqstore/conformance"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/store"
)

func tiny(c conformance.Config) (store.Options, error) { return c.TinyOptions(), nil }

func tinySync(c conformance.Config) (store.Options, error) {
	c.SyncFlush = true
	return c.TinyOptions(), nil
}

// production leaves segments and queue files at their defaults.
func production(c conformance.Config) (store.Options, error) {
	if c.SegmentSize != 0 || c.QueueFileSize != 0 {
		return store.Options{}, fmt.Errorf("only stores with default segments and queue files: %w", errors.ErrUnsupported)
	}
	return c.Options(), nil
}

func reopened(ctx context.Context, e *engine) (conformance.Store, error) { return e.Reopen(ctx) }

func TestTheModelKeepsTheLaws(t *testing.T) { conformance.Run(t, modelMaker) }

func TestTheEngineKeepsTheLaws(t *testing.T) {
	for name, maker := range map[string]func(t *testing.T) conformance.Maker{
		"async":    func(t *testing.T) conformance.Maker { return engineMaker(t, tiny, nil) },
		"sync":     func(t *testing.T) conformance.Maker { return engineMaker(t, tinySync, nil) },
		"default":  func(t *testing.T) conformance.Maker { return engineMaker(t, production, nil) },
		"reopened": func(t *testing.T) conformance.Maker { return engineMaker(t, tiny, reopened) },
	} {
		if effort.Current() == effort.Race && name != "async" {
			continue // a tenth of the work: what runs beside what is the same in all
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conformance.Run(t, maker(t))
		})
	}
}
