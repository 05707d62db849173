package workload_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/model"
	"github.com/mqstore/mqstore/conformance/workload"
	"github.com/mqstore/mqstore/store"
)

// A seed makes the same workload always, and the same answers.
func TestTheSameSeedIsTheSameRun(t *testing.T) {
	run := func(seed uint64) (text string) {
		w := workload.Generate(seed, workload.Options{Ops: 400})
		s, err := openEngine(w.Setup)
		if err != nil {
			t.Fatal(err)
		}
		text = w.String()
		for _, a := range workload.Execute(ctx, s, w) {
			text += a.String() + "\n"
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return text
	}
	for seed := range uint64(8) {
		if first, second := run(seed), run(seed); first != second {
			t.Errorf("seed %d: two runs differ", seed)
		}
	}
}

// The default weights reach every operation, status and refusal that a master has.
func TestEverythingIsReached(t *testing.T) {
	statuses, refusals, kinds := map[string]bool{}, map[string]bool{}, map[workload.Kind]bool{}
	for seed := range uint64(12) {
		w := workload.Generate(seed, workload.Options{Ops: 500})
		s, err := openEngine(w.Setup)
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range workload.Execute(ctx, s, w) {
			kinds[w.Ops[i].Kind] = true
			statuses[a.Status] = true
			if e, ok := a.Get("error"); ok {
				refusals[e] = true
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range workload.Kinds() {
		if !kinds[k] {
			t.Errorf("no %s", k)
		}
	}
	for _, s := range []string{workload.OK, workload.Failed, "PUT_OK", "SLAVE_NOT_AVAILABLE", "FOUND", "NO_MATCHED_MESSAGE", "OFFSET_TOO_SMALL", "OFFSET_OVERFLOW_ONE", "OFFSET_OVERFLOW_BADLY", "NO_MESSAGE_IN_QUEUE"} {
		if !statuses[s] {
			t.Errorf("no answer is %s", s)
		}
	}
	for _, s := range []string{"illegal", "properties-too-large", "not-found", "not-a-record", "unsupported", "offset-mismatch", "not-available"} {
		if !refusals[s] {
			t.Errorf("no refusal is %s", s)
		}
	}
}

// Usual values are refused by nobody.
func TestUsualOperationsAreAccepted(t *testing.T) {
	for seed := range uint64(6) {
		w := workload.Generate(seed, workload.Options{Ops: 300, Usual: true, Only: []workload.Kind{workload.Put, workload.Async, workload.Await, workload.Batch, workload.Get, workload.Bounds, workload.ByTime, workload.Query, workload.Whole}})
		s, err := openEngine(w.Setup)
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range workload.Execute(ctx, s, w) {
			// A body, or a batch, may still be too big for a small store.
			if e, _ := a.Get("error"); a.Status == workload.Failed && e != "illegal" || a.Status == workload.Lost || a.Status == workload.Panic {
				t.Errorf("seed %d: %s\n%s", seed, w.Ops[i], a)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// least is a store that can do what every store must, and nothing more. Its clock is the machine's.
type least struct{ s *model.Store }

func (l least) Put(ctx context.Context, m *record.Message) (store.PutResult, error) {
	return l.s.Put(ctx, m)
}
func (l least) Get(ctx context.Context, r store.GetRequest) (*store.GetResult, error) {
	return l.s.Get(ctx, r)
}
func (l least) Close() error { return l.s.Close() }

type leastStore struct {
	least
	store.OffsetReader
}

func openLeast(s workload.Setup) (workload.Store, error) {
	m := model.New(s.Options())
	return leastStore{least{m}, m}, nil
}

// What a store cannot do is no difference; and Abilities keeps it out.
func TestOnlyWhatAStoreCanDoIsAsked(t *testing.T) {
	s, err := openLeast(workload.Setup{})
	if err != nil {
		t.Fatal(err)
	}
	can := workload.Abilities(s)
	if want := []workload.Kind{workload.Put, workload.Get, workload.Bounds, workload.Unit, workload.ByTime}; !slices.Equal(can, want) {
		t.Errorf("it can %v, want %v", can, want)
	}
	for _, a := range workload.Execute(ctx, s, workload.Generate(1, workload.Options{Only: can})) {
		if a.Status == workload.Unable {
			t.Errorf("asked for what it cannot do: %s", a)
		}
	}
	unable := 0
	for _, a := range workload.Execute(ctx, s, workload.Generate(1, workload.Options{})) {
		if a.Status == workload.Unable {
			unable++
		}
	}
	if unable == 0 {
		t.Error("it did everything")
	}
}

// Stores with clocks of their own are compared without times.
func TestTimesCanBeHidden(t *testing.T) {
	setup := workload.Setup{SegmentSize: 4096, QueueFileSize: 200, MaxMessage: 5000, NoIndex: true}
	w := workload.Generate(1, workload.Options{Ops: 300, Setup: &setup, Only: []workload.Kind{workload.Put, workload.Get, workload.Bounds, workload.Unit}})
	c := workload.Comparison{Subject: openLeast, Reference: openModel}
	if d, err := c.Run(ctx, w); err != nil || d == nil {
		t.Errorf("times are the same: %v, %v", d, err)
	}
	c.HideTimes = true
	if d, err := c.Run(ctx, w); err != nil || d != nil {
		t.Errorf("%v, %v", d, err)
	}
}

// Differences that are known can be declared: normalised away, or excused.
func TestDifferencesCanBeDeclared(t *testing.T) {
	c := workload.Comparison{
		Subject: func(s workload.Setup) (workload.Store, error) {
			e, err := newEngine(s)
			return nextAfterFilter{e}, err
		},
		Reference: openModel,
	}
	w := workload.Generate(5, workload.Options{Ops: 400})
	d, err := c.Run(ctx, w)
	if err != nil || d == nil || d.Op.Kind != workload.Get || !strings.Contains(d.Error(), d.Op.String()) || !strings.Contains(d.Error(), d.Reference.String()) {
		t.Fatalf("%v, %v", d, err)
	}
	excused := 0
	c.Excuse = func(o workload.Op, subject, reference workload.Answer) bool {
		if o.Kind != workload.Get || o.Filter == "" {
			return false
		}
		excused++
		return workload.Same(subject.Without("next"), reference.Without("next"))
	}
	if d, err := c.Run(ctx, w); err != nil || d != nil || excused == 0 {
		t.Errorf("%v, %v, %d excused", d, err, excused)
	}
	c.Excuse = nil
	c.Normalize = func(o workload.Op, a workload.Answer) workload.Answer { return a.Without("next") }
	if d, err := c.Run(ctx, w); err != nil || d != nil {
		t.Errorf("%v, %v", d, err)
	}
}

// Answers that were written down are compared like those of stores that run.
func TestAnswersAreComparedAfterwards(t *testing.T) {
	w := workload.Generate(2, workload.Options{Ops: 200})
	s, err := openEngine(w.Setup)
	if err != nil {
		t.Fatal(err)
	}
	var a, b []workload.Answer
	for _, x := range workload.Execute(ctx, s, w) {
		a = append(a, x)
		y, err := workload.ParseAnswer(x.String())
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, y)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var c workload.Comparison
	if d := c.Compare(w, a, b); d != nil {
		t.Error(d)
	}
	b[150].Status = "else"
	if d := c.Compare(w, a, b); d == nil || d.Index != 150 || d.Op.String() != w.Ops[150].String() {
		t.Errorf("%v, want operation 151", d)
	}
	if d := c.Compare(w, a[:100], a); d == nil || d.Index != 100 {
		t.Errorf("%v, want operation 101", d)
	}
	if d := c.Compare(w, a[:100], a[:100]); d != nil && d.Index != 100 {
		t.Errorf("%v, want operation 101", d)
	}
}

// badClose cannot be closed.
type badClose struct{ *engine }

func (e badClose) Close() error {
	return errors.Join(e.engine.Close(), errors.New("it does not close"))
}

// A store that cannot be opened is an error; one that cannot be closed is a difference.
func TestOpeningAndClosingAreWatched(t *testing.T) {
	no := func(workload.Setup) (workload.Store, error) { return nil, fmt.Errorf("no: %w", store.ErrLocked) }
	for _, c := range []workload.Comparison{{Subject: no, Reference: openModel}, {Subject: openModel, Reference: no}} {
		if d, err := c.Run(ctx, workload.Workload{}); d != nil || !errors.Is(err, store.ErrLocked) {
			t.Errorf("%v, %v", d, err)
		}
	}
	c := workload.Comparison{Subject: func(s workload.Setup) (workload.Store, error) { e, err := newEngine(s); return badClose{e}, err }, Reference: openModel}
	d, err := c.Run(ctx, workload.Workload{Setup: workload.Setup{SegmentSize: 4096, NoIndex: true}})
	if err != nil || d == nil || !strings.Contains(d.Error(), "does not close") {
		t.Errorf("%v, %v", d, err)
	}
}
