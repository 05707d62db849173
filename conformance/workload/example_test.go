package workload_test

import (
	"context"
	"fmt"

	"github.com/mqstore/mqstore/conformance/model"
	"github.com/mqstore/mqstore/conformance/workload"
	"github.com/mqstore/mqstore/store"
)

// careless takes no notice of filters. A store of another author would stand here.
type careless struct{ *model.Store }

func (c careless) Get(ctx context.Context, r store.GetRequest) (*store.GetResult, error) {
	r.Filter = nil
	return c.Store.Get(ctx, r)
}

// Two stores under the same operations, read from a text.
func ExampleComparison() {
	w, err := workload.Parse([]byte(`
		store segment=4096 queuefile=200
		put topic=A len=10 seed=1 tags=green
		put topic=A len=10 seed=2 tags=red
		get topic=A filter=red
		get topic=A filter=green
	`))
	if err != nil {
		panic(err)
	}
	c := workload.Comparison{
		Subject:   func(s workload.Setup) (workload.Store, error) { return careless{model.New(s.Options())}, nil },
		Reference: func(s workload.Setup) (workload.Store, error) { return model.New(s.Options()), nil },
		HideTimes: true, // neither of them lets its clock be set
	}
	small, d := c.Shrink(context.Background(), w)
	fmt.Println(d)
	fmt.Print(small)
	// Output:
	// operation 2: get topic=A filter=red
	//   answered: FOUND next=1 min=0 max=1 bytes=92 rec=0@0+92:5af16e00
	//   expected: NO_MATCHED_MESSAGE next=1 min=0 max=1 bytes=0
	// store segment=4096 queuefile=200 noindex=true
	// put topic=A
	// get topic=A filter=red
}
