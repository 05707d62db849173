package workload_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/conformance/model"
	"github.com/mqstore/mqstore/conformance/workload"
	"github.com/mqstore/mqstore/store"
)

var ctx = context.Background()

// clock is set by hand.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) SetNow(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = t
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// engine is DefaultMessageStore on a file system in memory, without goroutines: what the workload does not ask for does not happen.
type engine struct {
	*store.DefaultMessageStore
	*clock
	fs    *faultfs.FS
	o     store.Options
	index bool
}

func openEngine(s workload.Setup) (workload.Store, error) { return newEngine(s) }

func newEngine(s workload.Setup) (*engine, error) {
	e := &engine{clock: &clock{now: time.UnixMilli(workload.StartTime)}, fs: faultfs.New(), o: s.Options(), index: !s.NoIndex}
	e.o.NoBackground, e.o.Now = true, e.Now
	e.o.SyncFlushTimeout, e.o.PutBusyAfter = time.Hour, time.Hour // the model does not know how long this process stood still
	return e, e.open()
}

func (e *engine) open() (err error) {
	o := e.o
	o.FS = e.fs
	s, err := store.Open("/store", o)
	if err == nil {
		e.DefaultMessageStore = s
	}
	return err
}

// Settle flushes where only that makes messages visible, and lets queues and index catch up.
func (e *engine) Settle(context.Context) error {
	if e.o.FlushMode == store.SyncFlush {
		if _, err := e.FlushStep(); err != nil {
			return err
		}
	}
	steps := []func(int) (int, error){e.DispatchStep}
	if e.index {
		steps = append(steps, e.IndexStep)
	}
	for _, step := range steps {
		for {
			n, err := step(1000)
			if err != nil {
				return err
			}
			if n == 0 {
				break
			}
		}
	}
	return nil
}

func (e *engine) Reopen() error {
	if err := e.Close(); err != nil {
		return err
	}
	return e.open()
}

func (e *engine) Crash(how workload.Ending, seed uint64) error {
	old := e.DefaultMessageStore
	if how == workload.Power {
		e.fs = e.fs.Crash(rand.New(rand.NewPCG(seed, 0)))
	} else {
		e.fs = e.fs.Kill()
	}
	// The dead process can do no harm any more: its file system refuses everything.
	if err := old.Close(); err != nil && !errors.Is(err, faultfs.ErrDead) {
		return fmt.Errorf("close what is dead: %w", err)
	}
	return e.open()
}

// oracle is the model, which follows what only the engine can decide.
type oracle struct {
	*model.Store
	*clock
}

func openModel(s workload.Setup) (workload.Store, error) {
	c := &clock{now: time.UnixMilli(workload.StartTime)}
	o := s.Options()
	o.Now = c.Now
	return &oracle{model.New(o), c}, nil
}

func (m *oracle) Follow(o workload.Op, a workload.Answer) error {
	switch o.Kind {
	case workload.Crash:
		if end, ok := a.Int("end"); ok && a.Status == workload.OK {
			if err := m.TruncateTo(end); err != nil {
				return err
			}
			return m.Renumber(emptyQueues(a))
		}
	case workload.Expire:
		if phy, ok := a.Int("min"); ok {
			m.Expire(phy)
		}
	}
	return nil
}

// emptyQueues reads the fields "empty" of a crash's answer.
func emptyQueues(a workload.Answer) func(topic string, queueID int32) int64 {
	next := map[string]int64{}
	for _, f := range a.Fields {
		if i := strings.LastIndexByte(f.Value, '@'); f.Name == "empty" && i >= 0 {
			next[f.Value[:i]], _ = strconv.ParseInt(f.Value[i+1:], 10, 64)
		}
	}
	return func(topic string, queueID int32) int64 { return next[fmt.Sprintf("%s/%d", topic, queueID)] }
}

// DeleteExpired has followed already.
func (m *oracle) DeleteExpired(store.ExpireOptions) (store.ExpireReport, error) {
	return store.ExpireReport{MinPhyOffset: m.MinPhyOffset()}, nil
}

// Reopen gives up the beginning of a record that has not all come.
func (m *oracle) Reopen() error {
	if end := m.Stats().MaxPhyOffset; end != m.MaxPhyOffset() {
		return m.TruncateTo(end)
	}
	return nil
}

func (m *oracle) Crash(workload.Ending, uint64) error { return nil }
