package conformance_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance"
	"github.com/mqstore/mqstore/store"
)

// able is a model that also delivers delayed messages, and puts messages into several queues. Both are spec/commitlog-format.md 1.12 and spec/consumequeue-format.md 2.7, built the obvious way: a list of what is due, and records that are
// encoded here and appended as a master's.
type able struct {
	*faulty
	late *late
}

// late are the messages that wait for their time.
type late struct {
	mu struct {
		sync.Mutex
		waiting []waiting
	}
}

// waiting is a delayed message.
type waiting struct {
	due time.Time
	m   *record.Message // as it is to be delivered
}

var (
	_ conformance.Delayer         = able{}
	_ conformance.MultiDispatcher = able{}
)

func newAble(f *faulty) able { return able{f, new(late)} }

// ableMaker makes models that nothing is wrong with and that can do everything.
func ableMaker(_ context.Context, c conformance.Config) (conformance.Store, error) {
	return newAble(newFaulty(c)), nil
}

func TestAnAbleModelKeepsTheLaws(t *testing.T) { conformance.Run(t, ableMaker) }

func (a able) DelayLevels() string { return record.DefaultDelayTable().String() }
func (a able) DispatchesMulti()    {}

func (a able) Reopen(ctx context.Context) (conformance.Store, error) {
	s, err := a.faulty.Reopen(ctx)
	return able{s.(*faulty), a.late}, err
}

func (a able) Put(ctx context.Context, m *record.Message) (store.PutResult, error) {
	if m == nil {
		return a.faulty.Put(ctx, m)
	}
	level, hasUnit := m.Properties.DelayLevel(), m.SysFlag.Transaction().HasUnit()
	if level > 0 && hasUnit && m.Topic != record.TopicSchedule {
		return a.delay(ctx, m, level)
	}
	if names, ok := m.Properties.Get(record.PropertyMultiDispatch); ok && names != "" && a.c.MultiDispatch {
		return a.putMulti(m, strings.Split(strings.TrimRight(names, ","), ","))
	}
	return a.faulty.Put(ctx, m)
}

// delay stores m in the queue of its level.
func (a able) delay(ctx context.Context, m *record.Message, level int) (store.PutResult, error) {
	table := record.DefaultDelayTable()
	if level = table.Cap(level); a.delayed != nil {
		level = a.delayed(m, level)
	}
	wait := *m
	wait.Topic, wait.QueueID = record.TopicSchedule, int32(level-1)
	wait.Properties = m.Properties.With(record.PropertyDelay, strconv.Itoa(level)).With(record.PropertyRealTopic, m.Topic).With(record.PropertyRealQueueID, fmt.Sprint(m.QueueID))
	if a.real != nil {
		a.real(&wait)
	}
	r, err := a.faulty.Put(ctx, &wait)
	if err != nil {
		return r, err
	}
	deliver := wait
	deliver.Topic, deliver.QueueID, deliver.Properties = m.Topic, m.QueueID, wait.Properties.Without(record.PropertyDelay)
	a.late.mu.Lock()
	defer a.late.mu.Unlock()
	a.late.mu.waiting = append(a.late.mu.waiting, waiting{time.UnixMilli(r.StoreTimestamp).Add(table.Delay(level)), &deliver})
	return r, nil
}

// deliver puts what is due.
func (a able) deliver() {
	now := time.Now()
	if a.c.Now != nil {
		now = a.c.Now()
	}
	a.late.mu.Lock()
	defer a.late.mu.Unlock()
	var left []waiting
	for _, w := range a.late.mu.waiting {
		if early := a.early; w.due.After(now.Add(early)) {
			left = append(left, w)
			continue
		}
		if a.delivered != nil {
			a.delivered(w.m)
		}
		_, _ = a.faulty.Put(context.Background(), w.m)
	}
	a.late.mu.waiting = left
}

// putMulti stores m with a place in each of the queues that it names.
func (a able) putMulti(m *record.Message, names []string) (store.PutResult, error) {
	var offsets []string
	for _, name := range names {
		k := m.QueueID
		if strings.HasPrefix(name, "%LMQ%") {
			k = 0
		}
		offsets = append(offsets, strconv.FormatInt(a.m.MaxOffset(name, k), 10))
	}
	if a.multi != nil {
		a.multi(m, offsets)
	}
	m.Properties = m.Properties.Without(record.PropertyWait).With(record.PropertyMultiQueueOffset, strings.Join(offsets, ","))
	m.StoreTimestamp, m.QueueOffset = time.Now().UnixMilli(), 0
	if a.c.Now != nil {
		m.StoreTimestamp = a.c.Now().UnixMilli()
	}
	size, err := m.EncodedSize(record.Limits{})
	if err != nil {
		return store.PutResult{}, fmt.Errorf("%w: %w", store.ErrMessageIllegal, err)
	}
	segment := a.c.TinyOptions().SegmentSize
	if rest := segment - a.m.MaxPhyOffset()%segment; int64(size)+8 > rest {
		blank := make([]byte, rest)
		binary.BigEndian.PutUint32(blank, uint32(rest))
		binary.BigEndian.PutUint32(blank[4:], record.MagicBlank)
		if err := a.m.AppendToCommitLog(a.m.MaxPhyOffset(), blank); err != nil {
			return store.PutResult{}, err
		}
	}
	if m.SysFlag.Transaction().HasUnit() {
		m.QueueOffset = a.m.MaxOffset(m.Topic, m.QueueID)
	}
	m.PhyOffset = a.m.MaxPhyOffset()
	b, err := record.AppendRecord(nil, m, record.Limits{})
	if err != nil {
		return store.PutResult{}, err
	}
	if err := a.m.AppendToCommitLog(m.PhyOffset, b); err != nil {
		return store.PutResult{}, err
	}
	return store.PutResult{PhyOffset: m.PhyOffset, Size: len(b), QueueOffset: m.QueueOffset, StoreTimestamp: m.StoreTimestamp, Messages: 1, StoreHost: m.StoreHost}, nil
}

func (a able) Get(ctx context.Context, r store.GetRequest) (*store.GetResult, error) {
	a.deliver()
	return a.faulty.Get(ctx, r)
}

func (a able) MaxOffset(topic string, queueID int32) int64 {
	a.deliver()
	return a.faulty.MaxOffset(topic, queueID)
}
