package workload_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/conformance/workload"
)

// engineAsModel is the engine under test and the model beside it.
var engineAsModel = workload.Comparison{Subject: openEngine, Reference: openModel}

const opsPerSeed = 500

// Whatever is put, asked, expired, closed and crashed in between: DefaultMessageStore answers as the model.
func TestTheEngineAnswersAsTheModel(t *testing.T) {
	var running sync.WaitGroup
	defer running.Wait()
	room := make(chan struct{}, runtime.GOMAXPROCS(0))
	for seed := range effort.Seeds(t, 40, 2000) {
		room <- struct{}{}
		running.Go(func() {
			defer func() { <-room }()
			t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
				w := workload.Generate(seed, workload.Options{Ops: opsPerSeed - 4})
				for _, k := range []workload.Kind{workload.Await, workload.Whole, workload.Reopen, workload.Whole} {
					w.Ops = append(w.Ops, workload.Op{Kind: k})
				}
				compare(t, &engineAsModel, seed, w)
			})
		})
	}
}

// compare runs w, and if it fails says how, how little is needed for it, and how to see it again.
func compare(t *testing.T, c *workload.Comparison, seed uint64, w workload.Workload) {
	t.Helper()
	d, err := c.Run(ctx, w)
	if err != nil {
		t.Fatal(err)
	}
	if d == nil {
		return
	}
	small, last := c.Shrink(ctx, w)
	f, err := os.CreateTemp("", "*.workload")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(small.String()); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	test, _, _ := strings.Cut(t.Name(), "/")
	t.Fatalf("%v\nmade small, from %d operations to %d:\n%v\n%s\nagain:\n  MQSTORE_SEED=%d go test ./conformance/workload -run '^%s$'\n  go test ./conformance/workload -run '^TestReplay$' -workload %s", d, len(w.Ops), len(small.Ops), last, small, seed, test, f.Name())
}
