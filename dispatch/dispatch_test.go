package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/dispatch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	errNotYet = errors.New("not yet")
	errDamage = errors.New("damage")
)

// fakeLog is records of given sizes one behind the other, and a cursor. Only visible is shared between goroutines.
type fakeLog struct {
	recs []record.Meta // PhyOffset, Size, QueueOffset; Magic MagicBlank: a blank
	next int
	bad  int // index of a damaged record; -1 none

	visible struct {
		sync.Mutex
		end     int64
		waiters map[int64]chan struct{}
	}
}

func newLog(sizes ...int) *fakeLog {
	l := &fakeLog{bad: -1}
	l.visible.waiters = map[int64]chan struct{}{}
	l.grow(sizes...)
	return l
}

// grow appends records that are not visible yet. A negative size is a blank.
func (l *fakeLog) grow(sizes ...int) {
	for _, size := range sizes {
		m := record.Meta{Magic: record.MagicV1, PhyOffset: l.end(), Size: size, Topic: "T", QueueOffset: int64(len(l.recs))}
		if size < 0 {
			m.Magic, m.Size = record.MagicBlank, -size
		}
		l.recs = append(l.recs, m)
	}
}

func (l *fakeLog) end() int64 {
	if len(l.recs) == 0 {
		return 0
	}
	last := l.recs[len(l.recs)-1]
	return last.PhyOffset + int64(last.Size)
}

func (l *fakeLog) Next(m *record.Meta, end int64) error {
	for {
		switch {
		case l.next == len(l.recs), l.recs[l.next].PhyOffset+int64(l.recs[l.next].Size) > end:
			return errNotYet
		case l.next == l.bad:
			return fmt.Errorf("record %d: %w", l.next, errDamage)
		}
		l.next++
		if r := l.recs[l.next-1]; !r.IsBlank() {
			*m = r
			return nil
		}
	}
}

func (l *fakeLog) NotYet(err error) bool { return errors.Is(err, errNotYet) }

func (l *fakeLog) Offset() int64 {
	if l.next == len(l.recs) {
		return l.end()
	}
	return l.recs[l.next].PhyOffset
}

func (l *fakeLog) VisibleEnd() int64 {
	l.visible.Lock()
	defer l.visible.Unlock()
	return l.visible.end
}

func (l *fakeLog) VisiblePast(past int64) <-chan struct{} {
	l.visible.Lock()
	defer l.visible.Unlock()
	c := l.visible.waiters[past]
	if c == nil {
		c = make(chan struct{})
		l.visible.waiters[past] = c
	}
	l.wakeLocked()
	return c
}

func (l *fakeLog) wakeLocked() {
	for past, c := range l.visible.waiters {
		if l.visible.end > past {
			close(c)
			delete(l.visible.waiters, past)
		}
	}
}

func (l *fakeLog) show(end int64) {
	l.visible.Lock()
	defer l.visible.Unlock()
	l.visible.end = end
	l.wakeLocked()
}

// collector is a sink that keeps the queue offsets it was given.
type collector struct {
	got    []int64
	refuse func(m *record.Meta) error
}

func (c *collector) Dispatch(m *record.Meta) error {
	if c.refuse != nil {
		if err := c.refuse(m); err != nil {
			return err
		}
	}
	c.got = append(c.got, m.QueueOffset)
	return nil
}

func (c *collector) want(t *testing.T, want ...int64) {
	t.Helper()
	if !slices.Equal(c.got, want) {
		t.Errorf("dispatched %v, want %v", c.got, want)
	}
}

func step(t *testing.T, d *dispatch.Dispatcher, max, wantN int, wantErr error, wantOffset int64) {
	t.Helper()
	n, err := d.Step(max)
	if n != wantN || !errors.Is(err, wantErr) || d.Offset() != wantOffset {
		t.Errorf("Step(%d) = %d, %v and offset %d; want %d, %v and %d", max, n, err, d.Offset(), wantN, wantErr, wantOffset)
	}
}

func TestRecordsGoToEverySinkInLogOrder(t *testing.T) {
	l := newLog(100, 50, -20, 70)
	var order []string
	sink := func(name string) dispatch.Sink {
		return dispatch.SinkFunc(func(m *record.Meta) error {
			order = append(order, fmt.Sprint(name, m.QueueOffset))
			return nil
		})
	}
	d := dispatch.New(l, sink("a"), sink("b"))
	l.show(l.end())
	step(t, d, 0, 0, nil, 0)
	step(t, d, 2, 2, nil, 150)
	step(t, d, 100, 1, nil, 240)
	if got := strings.Join(order, " "); got != "a0 b0 a1 b1 a3 b3" {
		t.Errorf("order %s", got)
	}
}

func TestNothingBeyondTheVisibleEndIsDispatched(t *testing.T) {
	l, c := newLog(100, 50), &collector{}
	d := dispatch.New(l, c)
	step(t, d, 10, 0, nil, 0)
	for _, end := range []int64{1, 99} { // an incomplete record is waited for, whoever we are
		l.show(end)
		step(t, d, 10, 0, nil, 0)
	}
	c.want(t)
	l.show(149)
	step(t, d, 10, 1, nil, 100)
	l.show(150)
	step(t, d, 10, 1, nil, 150)
	c.want(t, 0, 1)
}

// A trailing blank is passed as soon as it is visible, so that Offset reaches the log's end.
func TestATrailingBlankIsPassed(t *testing.T) {
	l, c := newLog(100, -28), &collector{}
	d := dispatch.New(l, c)
	l.show(128)
	step(t, d, 10, 1, nil, 128)
	c.want(t, 0)
}

func TestDamageStopsBeforeTheRecord(t *testing.T) {
	l, c := newLog(100, 50, 70), &collector{}
	l.bad = 1
	l.show(l.end())
	d := dispatch.New(l, c)
	for range 2 {
		n, err := d.Step(10)
		if !errors.Is(err, errDamage) || !strings.Contains(err.Error(), "dispatch from 100") || d.Offset() != 100 {
			t.Errorf("Step = %d, %v; offset %d", n, err, d.Offset())
		}
	}
	c.want(t, 0)
	l.bad = -1 // mended
	step(t, d, 10, 2, nil, 220)
	c.want(t, 0, 1, 2)
}

func TestARefusedRecordIsOfferedAgainToTheSinkThatRefused(t *testing.T) {
	full := errors.New("disk full")
	refuse := true
	l := newLog(100, 50, 70)
	first, last := &collector{}, &collector{}
	second := &collector{refuse: func(m *record.Meta) error {
		if refuse && m.QueueOffset == 1 {
			return full
		}
		return nil
	}}
	l.show(l.end())
	d := dispatch.New(l, first, second, last)
	n, err := d.Step(10)
	var se *dispatch.SinkError
	if n != 1 || !errors.Is(err, full) || !errors.As(err, &se) || se.PhyOffset != 100 || se.QueueOffset != 1 || se.Topic != "T" || d.Offset() != 100 {
		t.Errorf("Step = %d, %v; offset %d", n, err, d.Offset())
	}
	step(t, d, 10, 0, full, 100)
	refuse = false
	step(t, d, 1, 1, nil, 150)
	step(t, d, 10, 1, nil, 220)
	for _, c := range []*collector{first, second, last} {
		c.want(t, 0, 1, 2)
	}
}

func TestAnEarlierSinkSetsTheBitmapForLaterOnes(t *testing.T) {
	l := newLog(100)
	l.show(100)
	var got []byte
	tries := 0
	d := dispatch.New(l,
		dispatch.SinkFunc(func(m *record.Meta) error { m.Bitmap = []byte{7}; return nil }),
		dispatch.SinkFunc(func(m *record.Meta) error {
			if tries++; tries == 1 {
				return errors.New("later")
			}
			got = slices.Clone(m.Bitmap)
			return nil
		}))
	if _, err := d.Step(1); err == nil {
		t.Error("the refusal was not answered")
	}
	step(t, d, 1, 1, nil, 100)
	if !slices.Equal(got, []byte{7}) {
		t.Errorf("bitmap %v", got)
	}
}

func TestDispatchStartsAtTheCursor(t *testing.T) {
	l, c := newLog(100, 50), &collector{}
	l.next = 1
	l.show(150)
	d := dispatch.New(l, c)
	if d.Offset() != 100 {
		t.Errorf("offset %d", d.Offset())
	}
	step(t, d, 10, 1, nil, 150)
	c.want(t, 1)
}

func TestRunWaitsForWhatComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, c := newLog(100, 50), &collector{}
		d := dispatch.New(l, c)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx) }()
		for i, end := range []int64{0, 99, 100, 149, 150} {
			l.show(end)
			synctest.Wait()
			want := []int64{0, 0, 100, 100, 150}[i]
			if d.Offset() != want {
				t.Errorf("visible end %d: offset %d, want %d", end, d.Offset(), want)
			}
		}
		c.want(t, 0, 1)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func TestRunEndsWithTheErrorAndCanRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, c := newLog(100, 50), &collector{}
		l.bad = 1
		l.show(150)
		d := dispatch.New(l, c)
		if err := d.Run(t.Context()); !errors.Is(err, errDamage) {
			t.Errorf("Run: %v", err)
		}
		l.bad = -1
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx) }()
		<-d.Past(150)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run again: %v", err)
		}
		c.want(t, 0, 1)
	})
}

func TestRunOfADoneContextDispatchesNothing(t *testing.T) {
	l, c := newLog(100), &collector{}
	l.show(100)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := dispatch.New(l, c).Run(ctx); err != nil {
		t.Error(err)
	}
	c.want(t)
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestPastClosesWhenTheOffsetIsReached(t *testing.T) {
	l := newLog(100, 50, 70)
	d := dispatch.New(l, &collector{})
	at0, at100, at101, at150, again := d.Past(0), d.Past(100), d.Past(101), d.Past(150), d.Past(101)
	check := func(want ...bool) {
		t.Helper()
		got := []bool{closed(at0), closed(at100), closed(at101), closed(at150), closed(again)}
		if !slices.Equal(got, want) {
			t.Errorf("offset %d: closed %v, want %v", d.Offset(), got, want)
		}
	}
	check(true, false, false, false, false)
	l.show(100)
	step(t, d, 10, 1, nil, 100)
	check(true, true, false, false, false)
	l.show(220)
	step(t, d, 10, 2, nil, 220)
	check(true, true, true, true, true)
	if !closed(d.Past(-1)) || !closed(d.Past(220)) || closed(d.Past(221)) {
		t.Error("Past of what is there must be closed, of what is not open")
	}
}

// Waiters for what lies before a refused record must not wait for that record.
func TestPastClosesBeforeARefusedRecord(t *testing.T) {
	l := newLog(100, 50)
	l.show(150)
	d := dispatch.New(l, &collector{refuse: func(m *record.Meta) error {
		if m.QueueOffset == 1 {
			return errors.New("no")
		}
		return nil
	}})
	at100, at150 := d.Past(100), d.Past(150)
	if _, err := d.Step(10); err == nil {
		t.Error("no error")
	}
	if !closed(at100) || closed(at150) {
		t.Errorf("closed %v %v", closed(at100), closed(at150))
	}
}

// Whatever the log's growth, the sizes of the steps and the sink's refusals: each record once to the sink, in order.
func TestRandomStepsDispatchEachRecordOnceInOrder(t *testing.T) {
	for seed := range effort.Seeds(t, 200, 20000) {
		rng := rand.New(rand.NewPCG(seed, 0))
		l := newLog()
		taken := 0
		c := &collector{refuse: func(*record.Meta) error {
			if rng.IntN(5) == 0 {
				return errNotYet // even this one: it is the sink's, not the log's
			}
			return nil
		}}
		d := dispatch.New(l, c)
		for range 200 {
			switch rng.IntN(3) {
			case 0:
				size := 8 + rng.IntN(300)
				if rng.IntN(6) == 0 {
					size = -size
				}
				l.grow(size)
			case 1:
				if end := l.VisibleEnd(); l.end() > end {
					l.show(end + 1 + rng.Int64N(l.end()-end))
				}
			default:
				before := d.Offset()
				n, err := d.Step(rng.IntN(100))
				var se *dispatch.SinkError
				if err != nil && (!errors.As(err, &se) || se.PhyOffset != d.Offset()) {
					t.Fatalf("seed %d: %v at %d", seed, err, d.Offset())
				}
				if taken += n; d.Offset() < before || d.Offset() > l.VisibleEnd() {
					t.Fatalf("seed %d: offset %d after %d, visible end %d", seed, d.Offset(), before, l.VisibleEnd())
				}
			}
		}
		l.show(l.end())
		for d.Offset() < l.end() {
			n, _ := d.Step(50)
			taken += n
		}
		var want []int64
		for _, m := range l.recs {
			if !m.IsBlank() {
				want = append(want, m.QueueOffset)
			}
		}
		if !slices.Equal(c.got, want) || taken != len(want) {
			t.Fatalf("seed %d: dispatched %v (%d by Step), want %v", seed, c.got, taken, want)
		}
	}
}

// Run and waiters together, for the race detector.
func TestWaitersBesideRun(t *testing.T) {
	const records = 3000
	l := newLog()
	for range records {
		l.grow(10)
	}
	d := dispatch.New(l, &collector{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := w; i <= records; i += 7 {
				<-d.Past(int64(i) * 10)
				if d.Offset() < int64(i)*10 {
					t.Errorf("woken at %d, offset %d", i*10, d.Offset())
					return
				}
			}
		})
	}
	for i := int64(1); i <= records; i++ {
		l.show(i * 10)
	}
	wg.Wait()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// endless is a log of equal records without bytes: what remains is the loop's own cost.
type endless struct {
	at, end int64
}

func (l *endless) Next(m *record.Meta, end int64) error {
	if l.at+100 > end {
		return errNotYet
	}
	m.PhyOffset = l.at
	l.at += 100
	return nil
}
func (l *endless) NotYet(err error) bool             { return err == errNotYet }
func (l *endless) Offset() int64                     { return l.at }
func (l *endless) VisibleEnd() int64                 { return l.end }
func (l *endless) VisiblePast(int64) <-chan struct{} { return nil }

func TestDispatchAllocatesNothing(t *testing.T) {
	l := &endless{}
	d := dispatch.New(l, dispatch.SinkFunc(func(*record.Meta) error { return nil }))
	if n := testing.AllocsPerRun(100, func() {
		l.end += 100 * 1024
		if n, err := d.Step(2048); n != 1024 || err != nil {
			t.Fatal(n, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations in 1024 records", n)
	}
}

func BenchmarkStep(b *testing.B) {
	l := &endless{end: 1 << 62}
	var sum int64
	d := dispatch.New(l, dispatch.SinkFunc(func(m *record.Meta) error { sum += m.PhyOffset; return nil }))
	b.ReportAllocs()
	for n := 0; n < b.N; {
		k, err := d.Step(min(1024, b.N-n))
		if err != nil {
			b.Fatal(err)
		}
		n += k
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N), "ns/record")
}
