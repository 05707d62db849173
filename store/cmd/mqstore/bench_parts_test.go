package main

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestLatenciesKeepQuantilesWithinASixtyFourth(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var l, a, b latencies
	var all []time.Duration
	for i := range 20000 {
		d := time.Duration(rng.Int64N(1 << rng.IntN(62)))
		all = append(all, d)
		l.add(d)
		[]*latencies{&a, &b}[i%2].add(d)
	}
	a.merge(&b)
	if a != l {
		t.Error("two halves together are not the whole")
	}
	slices.Sort(all)
	for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999, 1} {
		want := all[min(int(q*float64(len(all))), len(all)-1)]
		if got := l.quantile(q); got < want || float64(got) > float64(want)*(1+1.0/64)+1 {
			t.Errorf("quantile %v: %d, want %d", q, got, want)
		}
	}
	for _, d := range []time.Duration{-1, 0, 1, 127, 128, 129, math.MaxInt64} {
		step := latencyStep(d)
		if most := latencyMost(step); most < d || step > 0 && latencyMost(step-1) >= d {
			t.Errorf("%d is in step %d, which ends at %d", d, step, most)
		}
	}
	if got := (&latencies{}).quantile(0.5); got != 0 {
		t.Errorf("the median of nothing is %v", got)
	}
}

func TestMedianIsInTheMiddle(t *testing.T) {
	for _, c := range []struct {
		v    []int
		want int
	}{{[]int{7}, 7}, {[]int{9, 1}, 1}, {[]int{3, 1, 2}, 2}, {[]int{4, 1, 3, 2, 5}, 3}} {
		if got := median(c.v); got != c.want {
			t.Errorf("median of %v is %d, want %d", c.v, got, c.want)
		}
	}
}

func TestFiguresAreFive(t *testing.T) {
	for x, want := range map[float64]float64{0: 0, 1234567: 1234600, 0.000123456: 0.00012346, 1: 1, 99999.6: 100000, 12.3456: 12.346, math.Inf(1): 0} {
		if got := figures(x); math.Abs(got-want) > want*1e-9 {
			t.Errorf("figures(%v) = %v, want %v", x, got, want)
		}
	}
}

func TestTogetherEveryOneWorksOnceAndTheFirstErrorEndsAll(t *testing.T) {
	b := &bench{e: &env{ctx: t.Context()}}
	got, err := b.together(5, 0, func(int) (int64, bool, error) { return 2, false, nil })
	if err != nil || got.n != 10 || got.took <= 0 {
		t.Errorf("%+v, %v", got, err)
	}
	wrong := errors.New("wrong")
	if _, err := b.together(3, time.Hour, func(id int) (int64, bool, error) {
		if id == 1 {
			return 0, true, wrong
		}
		return 1, true, nil
	}); err != wrong {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	b.e.ctx = ctx
	if _, err := b.together(2, time.Hour, func(int) (int64, bool, error) {
		cancel()
		return 1, true, nil
	}); err != nil {
		t.Errorf("%v", err)
	}
}

func TestTurnsChangeTheOrderAndEndWithTheInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b := &bench{e: &env{ctx: ctx}}
	var order strings.Builder
	worker := func(name string) worker {
		return func(d time.Duration) (turn, error) {
			order.WriteString(name)
			if d != time.Second {
				t.Errorf("%v each", d)
			}
			return turn{n: int64(order.Len()), took: time.Second}, nil
		}
	}
	m, err := b.turns(6*time.Second, 3, worker("a"), worker("b"))
	if err != nil || order.String() != "abbaab" {
		t.Errorf("%s, %v", order.String(), err)
	}
	if m[0].rate() != 4 || m[1].rate() != 3 || m[0].sum() != (turn{n: 10, took: 3 * time.Second}) {
		t.Errorf("%+v", m)
	}
	cancel()
	if _, err := b.turns(6*time.Second, 3, worker("a"), worker("b")); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

const mountinfo = `22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,discard
30 22 8:17 / /data rw,noatime shared:2 master:1 - xfs /dev/sdb1 rw,nobarrier
31 30 0:50 / /data/nfs rw - nfs4 host:/export\040one rw,vers=4.2
32 22 0:51 / /tmp\040x rw - tmpfs tmpfs rw
33 22 8:33 / /over rw - ext4 /dev/sdc1 rw
34 22 8:34 / /over rw - btrfs /dev/sdc2 rw
garbage
35 22 8:35
36 22 - - - -
`

func TestMountOfIsTheDeepestAndTheLast(t *testing.T) {
	for dir, want := range map[string]string{
		"/":            "ext4 on /dev/sda1, mounted at /",
		"/database":    "ext4 on /dev/sda1, mounted at /",
		"/data":        "xfs on /dev/sdb1, mounted at /data",
		"/data/a/b":    "xfs on /dev/sdb1, mounted at /data",
		"/data/nfs/a":  "nfs4 on host:/export one, mounted at /data/nfs",
		"/tmp x/bench": "tmpfs on tmpfs, mounted at /tmp x",
		"/over/there":  "btrfs on /dev/sdc2, mounted at /over",
	} {
		if got := mountOf(mountinfo, dir).String(); got != want {
			t.Errorf("%s: %s, want %s", dir, got, want)
		}
	}
	if got := mountOf("", "/a"); got.fileSystem != "" || got.memory() || got.network() {
		t.Errorf("%+v", got)
	}
}

func FuzzMountOf(f *testing.F) {
	f.Add(mountinfo, "/data/nfs")
	f.Add("1 2 3:4 / \\04 a - \\", "/")
	f.Fuzz(func(t *testing.T, info, dir string) { _ = mountOf(info, dir).String() })
}

func TestVerdictNamesWhatCannotBeTrusted(t *testing.T) {
	ext4 := mounted{fileSystem: "ext4", device: "/dev/sda1"}
	for _, c := range []struct {
		m              mounted
		cache          string
		p50            time.Duration
		syncs, flushes int64
		want           string
	}{
		{ext4, "write back", 300 * time.Microsecond, 100, 101, "plausible"},
		{ext4, "", 300 * time.Microsecond, 100, -1, "plausible"},
		{ext4, "write through", 300 * time.Microsecond, 100, 0, "plausible"},
		{ext4, "write back", 300 * time.Microsecond, 100, 0, "lies"},
		{ext4, "write back", 300 * time.Microsecond, 3, 0, "plausible"}, // too few to tell
		{ext4, "write through", 30 * time.Microsecond, 100, 0, "fast"},
		{ext4, "", 2 * time.Microsecond, 100, -1, "lies"},
		{ext4, "write back", 9 * time.Millisecond, 100, 100, "slow"},
		{mounted{fileSystem: "tmpfs"}, "", time.Microsecond, 100, -1, "memory"},
		{mounted{fileSystem: "nfs4"}, "", time.Millisecond, 100, -1, "network"},
		{mounted{fileSystem: "fuse.sshfs"}, "", time.Millisecond, 100, -1, "network"},
		{mounted{fileSystem: "ext4", device: "/dev/rbd0"}, "", time.Millisecond, 100, -1, "network"},
		{mounted{fileSystem: "ext4", options: []string{"rw", "nobarrier"}}, "", time.Millisecond, 100, 100, "lies"},
	} {
		if word, text := verdict(c.m, c.cache, c.p50, c.syncs, c.flushes); word != c.want || text == "" {
			t.Errorf("%+v: %s: %s", c, word, text)
		}
	}
}
