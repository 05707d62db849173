package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// offset, phy and ms say what a Ref is: a queue offset, a physical offset, a time.
func (r *Runner) offset(o *Op, ref Ref) int64 {
	switch ref.Base {
	case Min:
		return r.s.MinOffset(o.Topic, o.Queue) + ref.Plus
	case Max:
		return r.s.MaxOffset(o.Topic, o.Queue) + ref.Plus
	case Now:
		return r.now + ref.Plus
	case Back:
		return r.back(ref.Back).at + ref.Plus
	}
	return ref.Plus
}

func (r *Runner) phy(ref Ref) int64 {
	switch ref.Base {
	case Min:
		return r.s.MinPhyOffset() + ref.Plus
	case Max:
		return r.s.MaxPhyOffset() + ref.Plus
	case Now:
		return r.now + ref.Plus
	case Back:
		return r.back(ref.Back).phy + ref.Plus
	}
	return ref.Plus
}

func (r *Runner) ms(ref Ref) int64 {
	switch ref.Base {
	case Now:
		return r.now + ref.Plus
	case Back:
		return r.back(ref.Back).time + ref.Plus
	}
	return ref.Plus
}

// timeOf is a time that may be open.
func (r *Runner) timeOf(ref Ref) time.Time {
	if ref == (Ref{}) {
		return time.Time{}
	}
	return time.UnixMilli(r.ms(ref))
}

// errAnswer is the answer of a question that may fail.
func (r *Runner) errAnswer(err error) (Answer, bool) {
	if err != nil {
		return failed(err), true
	}
	return Answer{Status: OK}, false
}

// ask does the operations that read, and those that need everything settled.
func (r *Runner) ask(ctx context.Context, o *Op) Answer {
	switch o.Kind {
	case Get:
		return r.get(ctx, o)
	case Bounds:
		a := Answer{Status: OK}
		a.add("min", r.s.MinOffset(o.Topic, o.Queue))
		a.add("max", r.s.MaxOffset(o.Topic, o.Queue))
		r.addStoreTime(&a, "earliest", func() (time.Time, error) { return r.s.EarliestStoreTime(o.Topic, o.Queue) })
		return a
	case Unit:
		at := r.offset(o, o.At)
		phy, err := r.s.PhyOffset(o.Topic, o.Queue, at)
		a, bad := r.errAnswer(err)
		if !bad {
			a.add("phy", phy)
		}
		r.addStoreTime(&a, "time", func() (time.Time, error) { return r.s.StoreTime(o.Topic, o.Queue, at) })
		return a
	case ByTime:
		at, err := r.s.OffsetByTime(o.Topic, o.Queue, time.UnixMilli(r.ms(o.Time)), o.Rule)
		a, bad := r.errAnswer(err)
		if !bad {
			a.add("at", at)
		}
		return a
	case Lookup:
		m, err := r.s.(store.Looker).Lookup(r.phy(o.Phy))
		return r.looked(m, err)
	case LookupID:
		host := o.Message.Host
		if !host.Addr.IsValid() && o.Phy.Base == Back {
			host = r.back(o.Phy.Back).host
		}
		m, err := r.s.(store.Looker).LookupID(record.OffsetMessageID(host, r.phy(o.Phy)))
		return r.looked(m, err)
	case Query:
		return r.query(ctx, o)
	case Scan:
		return r.scan(ctx, o)
	case Log:
		a := Answer{Status: OK}
		to := r.phy(o.End)
		if o.End == (Ref{}) {
			to = r.s.MaxPhyOffset()
		}
		r.walk(&a, "rec", r.s.(store.Scanner).ScanLog(ctx, r.phy(o.Phy), to))
		return a
	case Whole:
		return r.whole(ctx)
	case Expire:
		return r.expire(o)
	case Append:
		return r.append(ctx, o)
	}
	return unable("no such operation")
}

func (r *Runner) addStoreTime(a *Answer, name string, f func() (time.Time, error)) {
	t, err := f()
	if err != nil {
		a.add(name, ErrorName(err))
		return
	}
	if !r.HideTimes {
		a.add(name, t.UnixMilli())
	}
}

func (r *Runner) looked(m *record.Message, err error) Answer {
	a, bad := r.errAnswer(err)
	if bad {
		return a
	}
	a.add("rec", r.described(m))
	a.add("id", m.OffsetMessageID())
	return a
}

// described is a message as place+size:sum.
func (r *Runner) described(m *record.Message) string {
	return fmt.Sprintf("%d+%d:%s", m.PhyOffset, m.Size, r.messageSum(m))
}

func (r *Runner) get(ctx context.Context, o *Op) Answer {
	req := store.GetRequest{Group: "workload", Topic: o.Topic, QueueID: o.Queue, Offset: r.offset(o, o.At), MaxMessages: o.Max}
	if o.Filter != "" {
		req.Filter = store.TagFilter(o.Filter)
	}
	res, err := r.s.Get(ctx, req)
	if err != nil {
		return failed(err)
	}
	defer res.Release()
	a := Answer{Status: res.Status.String()}
	a.add("next", res.NextBeginOffset)
	a.add("min", res.MinOffset)
	a.add("max", res.MaxOffset)
	a.add("bytes", res.Bytes)
	if res.SuggestSlave {
		a.add("slave", true)
	}
	if len(res.QueueOffsets) != len(res.Records) {
		a.add("offsets", len(res.QueueOffsets))
		return a
	}
	for i, v := range res.Records {
		a.add("rec", fmt.Sprintf("%d@%d+%d:%s", res.QueueOffsets[i], v.PhyOffset, len(v.Bytes), r.sum(v.Bytes)))
	}
	return a
}

func (r *Runner) query(ctx context.Context, o *Op) Answer {
	res, err := r.s.(store.Querier).Query(ctx, store.QueryRequest{Topic: o.Topic, Key: o.Key, Max: o.Max, Begin: r.timeOf(o.Begin), End: r.timeOf(o.End)})
	if errors.Is(err, store.ErrNoIndex) {
		return unable("no index")
	}
	a, bad := r.errAnswer(err)
	if bad {
		return a
	}
	defer res.Release()
	r.addTime(&a, "last", res.IndexLastUpdateTime)
	a.add("lastphy", res.IndexLastUpdatePhyOffset)
	a.add("complete", res.Complete)
	for _, v := range res.Records {
		a.add("rec", fmt.Sprintf("%d+%d:%s", v.PhyOffset, len(v.Bytes), r.sum(v.Bytes)))
	}
	return a
}

// walk adds what a scanner yields: the messages, and the error that ends it.
func (r *Runner) walk(a *Answer, name string, seq func(func(*record.Message, error) bool)) {
	for m, err := range seq {
		if err != nil {
			a.Status, a.Note = Failed, err.Error()
			a.add("error", ErrorName(err))
			return
		}
		a.add(name, r.described(m))
	}
}

func (r *Runner) scan(ctx context.Context, o *Op) Answer {
	a := Answer{Status: OK}
	r.walk(&a, "rec", r.s.(store.Scanner).Scan(ctx, o.Topic, o.Queue, r.offset(o, o.At)))
	return a
}

// whole is everything. Queues that hold nothing are left out: a store may forget them when it is opened again.
func (r *Runner) whole(ctx context.Context) Answer {
	a := Answer{Status: OK}
	lo, hi := r.s.MinPhyOffset(), r.wholeEnd()
	a.add("log", fmt.Sprintf("%d..%d", lo, hi))
	s := r.s.(store.Scanner)
	for _, q := range s.Queues() {
		if q.Units == 0 {
			continue
		}
		a.add("queue", fmt.Sprintf("%s/%d[%d,%d)%d@%d..%d", q.Topic, q.QueueID, q.MinOffset, q.MaxOffset, q.Units, q.MinPhyOffset, q.MaxPhyOffset))
	}
	r.walk(&a, "rec", s.ScanLog(ctx, max(lo, 0), hi))
	return a
}
