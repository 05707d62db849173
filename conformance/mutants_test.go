package conformance_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance"
	"github.com/mqstore/mqstore/conformance/effort"
)

// mutant is a store with one fault, and the law that is there to find it.
type mutant struct {
	law    string // the law that breaks, and which needs this mutant in order not to be idle
	fault  string // what is wrong, in a few words
	mutate func(f *faulty)
}

// mutants is filled by the init of each mutants_<area>_test.go.
var mutants []mutant

const mostBroken = 10 // laws that a mutant may break: one that breaks more is a wreck, and says nothing about any of them

// What a codec shares has channels: they must not belong to the bubble that needs them first.
var shareCodecs = sync.OnceValue(func() error {
	body, err := record.CompressBody(record.CompressionZstd, 0, []byte("body"))
	if err == nil {
		_, err = record.DecompressBody(record.CompressionZstd, body, 0)
	}
	return err
})

// examineMutant is the laws that m breaks: of all laws, or in short runs of those of the area of m.law.
func examineMutant(t *testing.T, m mutant) (broken []string) {
	laws := conformance.Laws()
	if mode := effort.Current(); mode == effort.Quick || mode == effort.Race {
		area, _, _ := strings.Cut(m.law, "-")
		laws = slices.DeleteFunc(laws, func(l conformance.Law) bool { return l.Area() != area })
	}
	maker := func(_ context.Context, c conformance.Config) (conformance.Store, error) {
		f := newFaulty(c)
		m.mutate(f)
		if !strings.HasPrefix(m.law, "concurrent-") {
			f.serialize()
		}
		if f.able {
			return newAble(f), nil
		}
		return frailModel{f}, nil
	}
	if err := shareCodecs(); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) { // in fake time, which does not pass because the machine is slow
		for v := range conformance.ExamineQuickly(t.Context(), maker, laws, 20*time.Millisecond, 5*time.Second) {
			if v.Err() != nil {
				broken = append(broken, v.Law.ID)
			}
		}
	})
	return broken
}

func TestEachMutantIsCaughtAndNoneIsAWreck(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.law+"/"+strings.ReplaceAll(m.fault, " ", "_"), func(t *testing.T) {
			t.Parallel()
			broken := examineMutant(t, m)
			if !slices.Contains(broken, m.law) {
				t.Errorf("%s does not notice: %s", m.law, m.fault)
			}
			if len(broken) > mostBroken {
				t.Errorf("%s: breaks %d laws, which is a wreck: %v", m.fault, len(broken), broken)
			}
		})
	}
}

func TestNoLawIsIdle(t *testing.T) {
	tried := map[string]bool{}
	for _, m := range mutants {
		tried[m.law] = true
	}
	known := map[string]bool{}
	for _, l := range conformance.Laws() {
		known[l.ID] = true
		if !tried[l.ID] {
			t.Errorf("%s has no mutant: %s", l.ID, l.Says)
		}
	}
	for law := range tried {
		if !known[law] {
			t.Errorf("a mutant is for %s, which is no law", law)
		}
	}
	if n := len(conformance.Laws()); n < 150 {
		t.Errorf("only %d laws", n)
	}
}
