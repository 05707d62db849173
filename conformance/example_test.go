package conformance_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/mqstore/mqstore/conformance"
	"github.com/mqstore/mqstore/conformance/model"
	"github.com/mqstore/mqstore/store"
)

// An engine adopts the laws with one line in a test.
func ExampleRun() {
	_ = func(t *testing.T) {
		conformance.Run(t, func(_ context.Context, c conformance.Config) (conformance.Store, error) {
			return store.Open(t.TempDir(), c.TinyOptions())
		})
	}
}

// Outside of go test: a broker that looks at what it is given before it uses it.
func ExampleCheck() {
	err := conformance.Check(context.Background(), func(_ context.Context, c conformance.Config) (conformance.Store, error) {
		return model.New(c.Options()), nil
	})
	fmt.Println(err)
	// Output: <nil>
}

// Law by law, with what is skipped.
func ExampleExamine() {
	maker := func(_ context.Context, c conformance.Config) (conformance.Store, error) {
		return struct{ conformance.Store }{model.New(c.Options())}, nil // hides everything but the least
	}
	for v := range conformance.Examine(context.Background(), maker, conformance.Laws()) {
		if v.Law.ID == "put-001" || v.Law.ID == "batch-001" {
			fmt.Printf("%s %q %v\n", v.Law.ID, v.Skipped, v.Err())
		}
	}
	// Unordered output:
	// put-001 "" <nil>
	// batch-001 "engine has no store.BatchPutter" <nil>
}
