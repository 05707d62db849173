package metasync

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/mqstore/mqstore/ha/remoting"
)

// SyncerOptions: the zero value is the original's behaviour.
type SyncerOptions struct {
	Self     string        // own address ("host:port"): a master of this address is not asked
	First    time.Duration // from Run to the first step; default 3 s
	Every    time.Duration // from step to step; default 10 s
	Timeout  time.Duration // of each request; default 3 s
	MaxFrame int           // bytes of an answer; default remoting.DefaultMaxFrame
	Dial     func(ctx context.Context, addr string) (net.Conn, error)
	Events   SyncEvents
}

// SyncEvents tell an embedding broker what has changed on disk, and what failed. Nil ones are fine. They are called on Step's goroutine and must not call Step or Close.
// The tables are the receiver's.
type SyncEvents struct {
	Topics             func(TopicConfigTable)   // replaced
	ConsumerOffsets    func(ConsumerOffsets)    // merged; the whole table
	DelayOffsets       func(DelayOffsets)       // replaced
	SubscriptionGroups func(SubscriptionGroups) // replaced
	Failed             func(k Kind, err error)
}

// Syncer copies its master's tables into a Dir. A table that fails does not hold up the others.
// Topics and subscription groups replace ours on any difference of their data version, older or newer; consumer offsets are merged; delay offsets are written as they came.
// While it runs it is the only one who should save into the Dir. Its methods may be called by any number of goroutines.
type Syncer struct {
	dir  *Dir
	o    SyncerOptions
	step chan struct{} // holds one token: who takes it runs a step, and owns the clients
	main *remoting.Client
	vip  *remoting.Client

	mu struct {
		sync.Mutex
		master string
		stats  SyncStats
	}
}

// SyncStats is a snapshot.
type SyncStats struct {
	Master  string // "" = none known
	Steps   int64  // that asked a master
	Skipped int64  // without a master, or with ourselves as the master
	Tables  [kinds]TableStats
}

// Table is the numbers of one table.
func (s SyncStats) Table(k Kind) TableStats { return s.Tables[k] }

// TableStats counts what became of one table.
type TableStats struct {
	Synced      int64 // answers that were taken, changed or not
	Changed     int64 // of these, whose file was replaced
	Failed      int64
	LastSync    time.Time // of the last answer taken
	LastErr     error     // of the last attempt; nil = it succeeded
	DataVersion DataVersion
}

// NewSyncer is a syncer into dir without a master: SetMaster names one.
func NewSyncer(dir *Dir, o SyncerOptions) *Syncer {
	if o.First <= 0 {
		o.First = 3 * time.Second
	}
	if o.Every <= 0 {
		o.Every = 10 * time.Second
	}
	if o.Timeout <= 0 {
		o.Timeout = 3 * time.Second
	}
	s := &Syncer{dir: dir, o: o, step: make(chan struct{}, 1)}
	s.step <- struct{}{}
	return s
}

// SetMaster names the broker to copy from ("host:port", its listen port); "" = none. It takes effect with the next step.
func (s *Syncer) SetMaster(addr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.master = addr
}

// Stats is a snapshot.
func (s *Syncer) Stats() SyncStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.mu.stats
	st.Master = s.mu.master
	return st
}

// Run steps until ctx ends, whose error it returns. Errors of steps go to Events and Stats. It closes the connections when it returns.
func (s *Syncer) Run(ctx context.Context) error {
	defer s.Close()
	t := time.NewTimer(s.o.First)
	defer t.Stop()
	next := time.Now().Add(s.o.First)
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		_, _ = s.Step(ctx) // told to Events and Stats
		// Like the original's timer: at a fixed rate, and at once if a step took longer.
		next = next.Add(s.o.Every)
		if now := time.Now(); next.Before(now) {
			next = now
		}
		t.Reset(time.Until(next))
	}
}

// StepResult says what a step did.
type StepResult struct {
	Master  string // that was asked; "" = the step was skipped
	Changed []Kind // whose file was replaced
}

// Step asks the master for the four tables, one after the other. The error joins those of the tables that failed.
func (s *Syncer) Step(ctx context.Context) (StepResult, error) {
	select {
	case <-s.step:
	case <-ctx.Done():
		return StepResult{}, ctx.Err()
	}
	defer func() { s.step <- struct{}{} }()

	s.mu.Lock()
	master := s.mu.master
	skip := master == "" || master == s.o.Self
	if skip {
		s.mu.stats.Skipped++
	} else {
		s.mu.stats.Steps++
	}
	s.mu.Unlock()
	if skip {
		s.closeClients()
		return StepResult{}, nil
	}

	r := StepResult{Master: master}
	var errs []error
	clientErr := s.useMaster(master)
	for k, sync := range [kinds]func(context.Context) (bool, DataVersion, error){
		KindTopics: s.syncTopics, KindConsumerOffsets: s.syncConsumerOffsets, KindDelayOffsets: s.syncDelayOffsets, KindSubscriptionGroups: s.syncSubscriptionGroups,
	} {
		k := Kind(k)
		changed, version, err := false, DataVersion{}, clientErr
		if err == nil {
			changed, version, err = sync(ctx)
		}
		if err != nil {
			err = fmt.Errorf("copy %s from master %s: %w", k, master, err)
			errs = append(errs, err)
		}
		if changed {
			r.Changed = append(r.Changed, k)
		}
		s.count(k, changed, version, err)
		if err != nil && s.o.Events.Failed != nil {
			s.o.Events.Failed(k, err)
		}
	}
	return r, errors.Join(errs...)
}

// Close ends the connections; a later step opens new ones. It waits for a step under way.
func (s *Syncer) Close() error {
	<-s.step
	defer func() { s.step <- struct{}{} }()
	s.closeClients()
	return nil
}

func (s *Syncer) closeClients() {
	if s.main != nil {
		s.main.Close()
		s.vip.Close()
		s.main, s.vip = nil, nil
	}
}

// useMaster makes the clients those of master.
func (s *Syncer) useMaster(master string) error {
	if s.main != nil && s.main.Addr() == master {
		return nil
	}
	s.closeClients()
	vip, err := vipAddr(master)
	if err != nil {
		return err
	}
	o := remoting.ClientOptions{Timeout: s.o.Timeout, MaxFrame: s.o.MaxFrame, Dial: s.o.Dial}
	s.main, s.vip = remoting.NewClient(master, o), remoting.NewClient(vip, o)
	return nil
}

func (s *Syncer) count(k Kind, changed bool, version DataVersion, err error) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &s.mu.stats.Tables[k]
	t.LastErr = err
	if err != nil {
		t.Failed++
		return
	}
	t.Synced++
	t.LastSync, t.DataVersion = now, version
	if changed {
		t.Changed++
	}
}

// fetch is the body of c's answer to the request for k.
func fetch(ctx context.Context, c *remoting.Client, k Kind) ([]byte, error) {
	resp, err := c.Call(ctx, remoting.NewRequest(k.Code()))
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// replaces says whether a table of version theirs replaces ours, given what loading ours said.
func replaces(ours, theirs DataVersion, found bool, loadErr error) bool {
	return loadErr != nil || !found || !ours.Equal(theirs)
}

func (s *Syncer) syncTopics(ctx context.Context) (changed bool, v DataVersion, err error) {
	body, err := fetch(ctx, s.vip, KindTopics)
	if err != nil {
		return false, v, err
	}
	t, err := DecodeTopics(body)
	if err != nil {
		return false, v, err
	}
	ours, found, loadErr := s.dir.LoadTopics()
	if !replaces(ours.DataVersion, t.DataVersion, found, loadErr) {
		return false, t.DataVersion, nil
	}
	changed, err = s.dir.SaveTopics(t)
	if changed && s.o.Events.Topics != nil {
		s.o.Events.Topics(t)
	}
	return changed, t.DataVersion, err
}

func (s *Syncer) syncConsumerOffsets(ctx context.Context) (changed bool, v DataVersion, err error) {
	body, err := fetch(ctx, s.main, KindConsumerOffsets)
	if err != nil {
		return false, v, err
	}
	o, err := DecodeConsumerOffsets(body)
	if err != nil {
		return false, v, err
	}
	merged, changed, err := s.dir.MergeConsumerOffsets(o)
	if changed && s.o.Events.ConsumerOffsets != nil {
		s.o.Events.ConsumerOffsets(merged)
	}
	return changed, orZero(o.DataVersion), err
}

func (s *Syncer) syncDelayOffsets(ctx context.Context) (changed bool, v DataVersion, err error) {
	body, err := fetch(ctx, s.main, KindDelayOffsets)
	if err != nil {
		return false, v, err
	}
	o, err := DecodeDelayOffsets(body)
	if err != nil {
		return false, v, err
	}
	changed, err = s.dir.saveDelayText(body)
	if changed && s.o.Events.DelayOffsets != nil {
		s.o.Events.DelayOffsets(o)
	}
	return changed, orZero(o.DataVersion), err
}

func (s *Syncer) syncSubscriptionGroups(ctx context.Context) (changed bool, v DataVersion, err error) {
	body, err := fetch(ctx, s.main, KindSubscriptionGroups)
	if err != nil {
		return false, v, err
	}
	g, err := DecodeSubscriptionGroups(body)
	if err != nil {
		return false, v, err
	}
	ours, found, loadErr := s.dir.LoadSubscriptionGroups()
	if !replaces(ours.DataVersion, g.DataVersion, found, loadErr) {
		return false, g.DataVersion, nil
	}
	changed, err = s.dir.SaveSubscriptionGroups(g)
	if changed && s.o.Events.SubscriptionGroups != nil {
		s.o.Events.SubscriptionGroups(g)
	}
	return changed, g.DataVersion, err
}

func orZero(v *DataVersion) DataVersion {
	if v == nil {
		return DataVersion{}
	}
	return *v
}
