package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mqstore/mqstore/conformance"
	"github.com/mqstore/mqstore/store"
)

// law is a law for tests of the runner.
func law(id string, c conformance.Config, check func(t *conformance.T)) conformance.Law {
	return conformance.Law{ID: id, Says: "It is so.", Why: "else it is not", Source: "here", Config: c, Check: check}
}

// counting is modelMaker that counts the stores that it makes, and that are open.
type counting struct {
	made, open int
	configs    []conformance.Config
}

func (c *counting) make(_ context.Context, config conformance.Config) (conformance.Store, error) {
	c.made++
	c.open++
	c.configs = append(c.configs, config)
	f := newFaulty(config)
	f.close = func(next func() error) error {
		c.open--
		return next()
	}
	return f, nil
}

// verdicts is examined in fake time, which does not pass because the machine is slow.
func verdicts(t *testing.T, maker conformance.Maker, laws ...conformance.Law) (vs map[string]conformance.Verdict) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { vs = examined(t, maker, laws...) })
	return vs
}

func examined(t *testing.T, maker conformance.Maker, laws ...conformance.Law) map[string]conformance.Verdict {
	t.Helper()
	vs := map[string]conformance.Verdict{}
	for v := range conformance.ExamineQuickly(t.Context(), maker, laws, 20*time.Millisecond, 200*time.Millisecond) {
		vs[v.Law.ID] = v
	}
	if len(vs) != len(laws) {
		t.Errorf("%d verdicts of %d laws", len(vs), len(laws))
	}
	return vs
}

func TestEveryFaultOfABrokenLawIsReportedWithItsReason(t *testing.T) {
	vs := verdicts(t, modelMaker,
		law("t-001", conformance.Config{}, func(t *conformance.T) {
			t.Errorf("one %d", 1)
			t.Errorf("two")
			t.Fatalf("three")
		}),
		law("t-002", conformance.Config{}, func(t *conformance.T) {}),
		law("t-003", conformance.Config{}, func(t *conformance.T) {
			for i := range 100 {
				t.Errorf("fault %d", i)
			}
		}),
	)
	if got := vs["t-001"].Faults; !slices.Equal(got, []string{"one 1", "two", "three"}) {
		t.Errorf("faults %q", got)
	}
	text := vs["t-001"].Err().Error()
	for _, part := range []string{"t-001", "It is so.", "else it is not", "here", "one 1", "two", "three"} {
		if !strings.Contains(text, part) {
			t.Errorf("the error does not say %q:\n%s", part, text)
		}
	}
	if v := vs["t-002"]; v.Err() != nil || v.Skipped != "" {
		t.Errorf("%+v", v)
	}
	if n := len(vs["t-003"].Faults); n > 20 {
		t.Errorf("%d faults of one law are told", n)
	}
}

func TestAPanicIsAFaultOfItsLawAndNotOfTheNext(t *testing.T) {
	c := &counting{}
	vs := verdicts(t, c.make,
		law("t-001", conformance.Config{}, func(*conformance.T) { panic("mine") }),
		law("t-002", conformance.Config{}, func(t *conformance.T) {
			t.Go(func() { panic("beside") })
		}),
		law("t-003", conformance.Config{}, func(t *conformance.T) { t.Put(t.Message(t.Topic(""), 0, "x")) }),
	)
	if got := fmt.Sprint(vs["t-001"].Faults); !strings.Contains(got, "panic: mine") {
		t.Errorf("faults %s", got)
	}
	if got := fmt.Sprint(vs["t-002"].Faults); !strings.Contains(got, "panic: beside") {
		t.Errorf("faults %s", got)
	}
	if vs["t-003"].Err() != nil {
		t.Error(vs["t-003"].Err())
	}
	if c.made < 2 || c.open != 0 {
		t.Errorf("%d stores were made, %d are open: the one of a panic must not be used again", c.made, c.open)
	}
}

func TestALawThatHangsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		ended := make(chan struct{})
		vs := examined(t, modelMaker,
			law("t-001", conformance.Config{}, func(*conformance.T) {
				<-hang
				close(ended)
			}),
			law("t-002", conformance.Config{}, func(t *conformance.T) { t.Put(t.Message(t.Topic(""), 0, "x")) }),
		)
		if got := fmt.Sprint(vs["t-001"].Faults); !strings.Contains(got, "did not end within") {
			t.Errorf("faults %s", got)
		}
		if vs["t-002"].Err() != nil {
			t.Error(vs["t-002"].Err())
		}
		close(hang)
		<-ended
	})
}

func TestLawsShareStoresUnlessTheyMustBeAlone(t *testing.T) {
	c := &counting{}
	put := func(t *conformance.T) { t.Put(t.Message(t.Topic(""), 0, "x")) }
	small := conformance.Config{SegmentSize: 8192}
	laws := []conformance.Law{
		law("a-001", conformance.Config{RecordSize: 5000}, put), law("a-002", small, put), law("a-003", conformance.Config{RecordSize: 100_000}, put), law("a-004", small, put),
		law("a-005", conformance.Config{}, func(t *conformance.T) {
			if t.Store().MaxPhyOffset() != 0 {
				t.Errorf("the store is not new")
			}
		}),
		law("a-006", conformance.Config{}, put),
	}
	laws[4].Own = true
	for id, v := range verdicts(t, c.make, laws...) {
		if v.Err() != nil {
			t.Errorf("%s: %v", id, v.Err())
		}
	}
	if c.made != 3 || c.open != 0 {
		t.Errorf("%d stores were made, want 3; %d are still open", c.made, c.open)
	}
	if got := c.configs[0].RecordSize; got != 100_000 {
		t.Errorf("the store that three laws share takes records of %d bytes, want the largest, 100,000", got)
	}
}

func TestWhatAStoreDoesNotHaveIsSkippedAloud(t *testing.T) {
	leastMaker := func(_ context.Context, c conformance.Config) (conformance.Store, error) {
		return least{newFaulty(c)}, nil
	}
	skipped, checked := map[string]string{}, 0
	for v := range conformance.Examine(t.Context(), leastMaker, conformance.Laws()) {
		if v.Err() != nil {
			t.Errorf("a store that has only the least breaks %v", v.Err())
		}
		if v.Skipped != "" {
			skipped[v.Law.ID] = v.Skipped
		} else {
			checked++
		}
	}
	for id, want := range map[string]string{"batch-001": "engine has no store.BatchPutter", "async-001": "engine has no store.AsyncPutter", "lookup-001": "engine has no store.Looker"} {
		if skipped[id] != want {
			t.Errorf("%s is skipped for %q, want %q", id, skipped[id], want)
		}
	}
	if checked < 80 {
		t.Errorf("only %d laws are checked on a store that has the least", checked)
	}
}

// least hides all that a store can do beyond conformance.Store.
type least struct{ conformance.Store }

func TestAStoreWithoutAClockIsAskedByRelativeTimes(t *testing.T) {
	asked := 0
	maker := func(_ context.Context, c conformance.Config) (conformance.Store, error) {
		if c.Now != nil {
			return nil, fmt.Errorf("no clock: %w", errors.ErrUnsupported)
		}
		asked++
		return newFaulty(c), nil
	}
	var laws []conformance.Law
	for _, l := range conformance.Laws() {
		if l.Clock {
			laws = append(laws, l)
		}
	}
	skipped := 0
	for v := range conformance.Examine(t.Context(), maker, laws) {
		if v.Err() != nil {
			t.Error(v.Err())
		}
		if v.Skipped != "" {
			skipped++
		}
	}
	if asked == 0 || skipped > len(laws)/2 {
		t.Errorf("%d stores were made, %d of %d laws are skipped", asked, skipped, len(laws))
	}
}

func TestWhatAMakerCannotMakeIsSkippedAndWhatItFailsToMakeIsAFault(t *testing.T) {
	maker := func(_ context.Context, c conformance.Config) (conformance.Store, error) {
		switch {
		case c.Role == store.Slave:
			return nil, fmt.Errorf("slaves: %w", errors.ErrUnsupported)
		case c.SyncFlush:
			return nil, errors.New("no disk")
		case c.AllowV2:
			return nil, nil
		}
		return newFaulty(c), nil
	}
	none := func(*conformance.T) {}
	vs := verdicts(t, maker, law("t-001", conformance.Config{Role: store.Slave}, none), law("t-002", conformance.Config{SyncFlush: true}, none), law("t-003", conformance.Config{AllowV2: true}, none))
	if v := vs["t-001"]; v.Err() != nil || !strings.Contains(v.Skipped, "slaves") {
		t.Errorf("%+v", v)
	}
	if v := vs["t-002"]; v.Err() == nil || !strings.Contains(v.Err().Error(), "no disk") {
		t.Errorf("%+v", v)
	}
	if v := vs["t-003"]; v.Err() == nil {
		t.Errorf("%+v", v)
	}
}

func TestCheckJoinsWhatIsBroken(t *testing.T) {
	if err := conformance.Check(t.Context(), modelMaker); err != nil {
		t.Errorf("the model: %v", err)
	}
	err := conformance.Check(t.Context(), func(_ context.Context, c conformance.Config) (conformance.Store, error) {
		f := newFaulty(c)
		f.minPhy = func(next func() int64) int64 { return max(next(), 0) } // offset-006
		f.close = func(next func() error) error {
			_ = next()
			return errors.New("cannot close")
		}
		return f, nil
	})
	var broken *conformance.BrokenError
	if !errors.As(err, &broken) || !strings.Contains(err.Error(), "offset-006 is broken") || !strings.Contains(err.Error(), "Close afterwards: cannot close") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := conformance.Check(ctx, modelMaker); !errors.Is(err, context.Canceled) {
		t.Errorf("a check that was not made says %v", err)
	}
}

func TestWhatHappensBetweenPuttingAndAskingIsTheMakers(t *testing.T) {
	phases := 0
	maker := func(_ context.Context, c conformance.Config) (conformance.Store, error) {
		return &phased{newFaulty(c), &phases}, nil
	}
	vs := verdicts(t, maker, law("t-001", conformance.Config{}, func(t *conformance.T) {
		before := t.Store()
		t.Put(t.Message(t.Topic(""), 0, "x"))
		t.Settle(t.Topic(""), 0, 1)
		if t.Store() == before {
			t.Errorf("the store is the one from before")
		}
	}))
	if v := vs["t-001"]; v.Err() != nil || phases != 1 {
		t.Errorf("%d phases, %v", phases, v.Err())
	}
}

type phased struct {
	*faulty
	n *int
}

func (p *phased) NextPhase(context.Context) (conformance.Store, error) {
	*p.n++
	return &phased{p.faulty, p.n}, nil
}
