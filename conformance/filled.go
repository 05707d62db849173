package conformance

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"fmt"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// Reader is a store that can be looked at, and perhaps no more.
type Reader interface {
	store.Getter
	store.OffsetReader
}

// Queue names a queue.
type Queue struct {
	Topic string
	ID    int32
}

// RunFilled checks the laws that hold of any store with messages in it (area "filled"), whoever put them, on s: a directory that another engine left, a slave, a store behind a wire. Nothing is written, so that s may be open for looking only.
// It looks at the queues that it is given; at all of them if it is given none and s is a store.Scanner. Reports are those of Run.
func RunFilled(t *testing.T, s Reader, queues ...Queue) {
	t.Helper()
	for _, l := range filledLaws {
		t.Run(l.ID, func(t *testing.T) {
			v := examineFilled(t.Context(), l, s, queues)
			if err := v.Err(); err != nil {
				t.Error(err)
			}
			if v.Skipped != "" {
				t.Skipf("skipped: %s\n\t%s: %s", v.Skipped, l.ID, l.Says)
			}
		})
	}
}

// CheckFilled is RunFilled for those outside of go test: it joins what is broken; each part is a *BrokenError.
func CheckFilled(ctx context.Context, s Reader, queues ...Queue) error {
	var errs []error
	for _, l := range filledLaws {
		errs = append(errs, examineFilled(ctx, l, s, queues).Err())
	}
	return errors.Join(append(errs, ctx.Err())...)
}

func examineFilled(ctx context.Context, l Law, s Reader, queues []Queue) Verdict {
	t := &T{law: l, patience: lawPatience, lent: &lent{s: looked{s}, filled: queues}}
	var cancel context.CancelFunc
	t.ctx, cancel = context.WithTimeout(ctx, lawLimit)
	defer cancel()
	t.run(func() {
		if len(queues) == 0 {
			for _, q := range need[store.Scanner](t).Queues() {
				t.lent.filled = append(t.lent.filled, Queue{q.Topic, q.QueueID})
			}
		}
		l.Check(t)
	})
	return Verdict{Law: l, Faults: t.seal(), Skipped: t.skipped}
}

// looked is a Reader as a Store.
type looked struct{ Reader }

func (l looked) unwrap() any { return l.Reader }

func (l looked) Put(context.Context, *record.Message) (store.PutResult, error) {
	return store.PutResult{}, store.ErrReadOnly
}

func (l looked) Close() error { return nil }

// Filled is the queues to look at. A store of the suite's own is filled by the first law that asks.
func (t *T) Filled() []Queue {
	if t.lent.filled == nil {
		t.fill()
	}
	return t.lent.filled
}

// fill puts messages of all kinds and sizes into three queues, over many ends of files, and deletes the oldest if the store can.
func (t *T) fill() {
	a, b := t.Topic("a"), t.Topic("b")
	queues := []Queue{{a, 0}, {a, 1}, {b, 0}}
	ends := map[Queue]int64{}
	tags := []string{"red", "", "Aa", "BB"}
	for i := range 90 {
		q := queues[i*7%3]
		m := t.Message(q.Topic, q.ID, strings.Repeat("b", i*53%500), record.PropertyKeys, fmt.Sprintf("all k%d own%d all", i%7, i), record.PropertyUniqKey, fmt.Sprint("uniq", i))
		if tag := tags[i%len(tags)]; tag != "" {
			m.Properties = m.Properties.With(record.PropertyTags, tag)
		}
		if batch, ok := t.Store().(store.BatchPutter); ok && i%10 == 9 {
			m.Body = nil
			m.Properties = record.NewProperties(record.PropertyKeys, fmt.Sprint("batch", i))
			if _, err := batch.PutBatch(t.ctx, m, []record.BatchItem{{Body: []byte("0")}, {Body: []byte("1")}}); err != nil {
				t.Fatalf("put a batch: %v", err)
			}
			ends[q] += 2
			continue
		}
		tx := record.TransactionNone
		switch {
		case i%11 == 10:
			tx = record.TransactionPrepared
		case i%13 == 12:
			tx = record.TransactionRollback
		case i%17 == 16:
			tx = record.TransactionCommit
		}
		m.SysFlag = m.SysFlag.WithTransaction(tx)
		t.Put(m)
		if tx.HasUnit() {
			ends[q]++
		}
		if t.lent.clock != nil && i%4 != 0 {
			t.Advance(time.Duration(i%5) * time.Millisecond)
		}
	}
	for _, q := range queues {
		t.Visible(q.Topic, q.ID, ends[q])
	}
	t.Settle(a, 0, ends[queues[0]])
	for _, q := range queues {
		t.Visible(q.Topic, q.ID, ends[q])
	}
	if e, ok := t.Store().(Expirer); ok {
		if _, err := e.Expire(t.ctx, 2*smallSegment); err != nil {
			t.Fatalf("expire: %v", err)
		}
	}
	t.lent.filled = queues
}
