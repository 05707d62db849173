package index_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/index"
)

// randomRecord is one with few topics and keys, so that they meet again.
func randomRecord(rng *rand.Rand, n int) record.Meta {
	uniq := ""
	if rng.IntN(4) > 0 {
		uniq = fmt.Sprint("u", n)
	}
	var keys []string
	for range rng.IntN(4) {
		keys = append(keys, fmt.Sprint("k", rng.IntN(20)))
	}
	m := meta([]string{"T", "U", "topic with a longer name"}[rng.IntN(3)], int64(n)+rng.Int64N(50), uniq, keys...)
	if rng.IntN(10) == 0 {
		m.SysFlag = m.SysFlag.WithTransaction([]record.Transaction{record.TransactionPrepared, record.TransactionRollback}[rng.IntN(2)])
	}
	return m
}

// answersAsTheLog compares queries with what the log says of what is indexed.
func (l *fakeLog) answersAsTheLog(t *testing.T, x *index.Index, rng *rand.Rand) {
	t.Helper()
	seen := fakeLog{records: l.records[:l.at(x.Next())]}
	for range 10 {
		topic, key, n := []string{"T", "U", "topic with a longer name"}[rng.IntN(3)], fmt.Sprint("k", rng.IntN(22)), 1+rng.IntN(70)
		begin, end := int64(math.MinInt64), int64(math.MaxInt64)
		if rng.IntN(2) == 0 {
			begin = rng.Int64N(int64(len(l.records)) + 50)
			end = begin + rng.Int64N(100)
		}
		r, err := x.Query(topic, key, begin, end, n)
		if want := seen.want(topic, key, begin, end, min(n, 64)); err != nil || !slices.Equal(offsets(r.Hits), want) {
			t.Fatalf("query %s %s [%d, %d] max %d: %v %v, want %v", topic, key, begin, end, n, offsets(r.Hits), err, want)
		}
	}
}

// Through losses of power, kills, logs that lost their end or beginning: each key of the log is in the index exactly once, and queries answer as the log.
func TestIndexAgreesWithTheLogThroughCrashes(t *testing.T) {
	for seed := range effort.Seeds(t, 30, 2000) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			disk := vfs.NewCrashableMem()
			var l fakeLog
			number := 0
			options := func() index.Options {
				o := l.options("dir").WithFS(disk)
				o.TailEntries = 1 + rng.IntN(200)
				return o
			}
			x := open(t, options())
			reopen := func() {
				y, err := index.Open(options())
				if err != nil {
					t.Fatal(err)
				}
				x = y
				t.Cleanup(func() { y.Close() })
				if r := x.Report(); r.Rebuilt != nil {
					t.Fatalf("rebuilt: %v", r.Rebuilt)
				}
				for e, err := range x.Entries() {
					if err != nil || e.PhyOffset >= l.end {
						t.Fatalf("%+v %v; the log ends at %d", e, err, l.end)
					}
				}
				l.holdsExactly(t, x, x.Next())
			}
			for range 60 {
				switch op := rng.IntN(20); {
				case op < 8:
					for range rng.IntN(100) {
						l.put(randomRecord(rng, number), 80+rng.IntN(200))
						number++
					}
				case op < 13:
					if err := l.feed(x, rng.IntN(150)); err != nil {
						t.Fatal(err)
					}
				case op < 14:
					if err := x.Flush(); err != nil {
						t.Fatal(err)
					}
					l.holdsExactly(t, x, x.Next())
				case op < 15: // a clean exit
					if err := x.Close(); err != nil {
						t.Fatal(err)
					}
					reopen()
				case op < 18: // a loss of power, or a kill; the log may lose its end, too
					probability := []int{0, 50, 100}[rng.IntN(3)]
					crashed := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: probability, RNG: rng})
					x.Close()
					disk = crashed
					if n := len(l.records); n > 0 && rng.IntN(2) == 0 {
						l.cut(l.records[n-1-rng.IntN(min(n, 60))].PhyOffset)
						if rng.IntN(2) == 0 { // and grow again
							for range rng.IntN(50) {
								l.put(randomRecord(rng, number), 80+rng.IntN(200))
								number++
							}
						}
					}
					reopen()
				case op < 19:
					if n := len(l.records); n > 0 {
						l.expire(l.records[rng.IntN(n)].PhyOffset)
						if _, err := x.Expire(l.min); err != nil {
							t.Fatal(err)
						}
					}
				default:
					l.answersAsTheLog(t, x, rng)
				}
			}
			if err := l.feed(x, math.MaxInt); err != nil {
				t.Fatal(err)
			}
			if err := x.Flush(); err != nil {
				t.Fatal(err)
			}
			l.holdsExactly(t, x, l.end)
			l.answersAsTheLog(t, x, rng)
		})
	}
}

// From the n-th change of the directory on every write fails (a full disk), for n = 1, 2, …: the index says so, queries go on, and when there is room again the next Open continues from what is durable.
func TestFailedWriteEndsTheIndexAndNothingElse(t *testing.T) {
	full := errors.New("injected: " + syscall.ENOSPC.Error())
	for n := int64(1); ; n++ {
		var l fakeLog
		for i := range 300 {
			l.put(meta("T", int64(i), fmt.Sprint("u", i), "k"), 100)
		}
		mem := vfs.NewCrashableMem()
		var count atomic.Int64
		var on atomic.Bool
		on.Store(true)
		disk := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && on.Load() && count.Add(1) >= n {
				return &os.PathError{Op: "write", Path: op.Path, Err: full}
			}
			return nil
		}))
		o := l.options("dir").WithFS(disk)
		o.TailEntries = 100
		x, err := index.Open(o)
		if err != nil {
			if !errors.Is(err, full) || errors.Is(err, index.ErrDamaged) {
				t.Fatalf("n = %d: Open: %v", n, err)
			}
		} else {
			err = l.feed(x, 250)
			if err == nil {
				l.expire(3 * fakeSegment)
				_, err = x.Expire(l.min)
			}
			if err == nil {
				err = l.feed(x, 100)
			}
			if err == nil {
				err = x.Flush()
			}
			if err != nil && (!errors.Is(err, index.ErrFailed) || !errors.Is(err, full)) {
				t.Fatalf("n = %d: %v", n, err)
			}
			seen := fakeLog{records: l.records[:l.at(x.Next())]}
			if got, want := query(t, x, "T", "k"), seen.want("T", "k", 0, math.MaxInt64, 64); !slices.Equal(got, want) {
				t.Fatalf("n = %d: %v, want %v", n, got, want)
			}
			if cerr := x.Close(); err != nil && cerr == nil {
				t.Fatalf("n = %d: Close says all is well after %v", n, err)
			} else if err == nil && cerr == nil {
				if n < 50 {
					t.Fatalf("only %d changes were failed", n)
				}
				t.Logf("%d changes were failed", n-1)
				return
			}
		}
		on.Store(false)
		x, err = index.Open(l.options("dir").WithFS(disk))
		if err != nil {
			t.Fatalf("n = %d: Open with room again: %v", n, err)
		}
		if r := x.Report(); r.Rebuilt != nil {
			t.Fatalf("n = %d: what was durable is lost: %v", n, r.Rebuilt)
		}
		l.holdsExactly(t, x, x.Next())
		if err := l.feed(x, 1000); err != nil {
			t.Fatal(err)
		}
		if err := x.Flush(); err != nil {
			t.Fatal(err)
		}
		l.holdsExactly(t, x, l.end)
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Report 27: each file of the index cut to every length and with every byte flipped, or gone: Open does not fail, and the index ends up equal to the log.
func TestDamagedIndexIsRebuilt(t *testing.T) {
	var l fakeLog
	for i := range 60 {
		l.put(meta("T", int64(i), fmt.Sprint("u", i), "k"), 100)
	}
	whole := t.TempDir()
	x := open(t, l.options(whole))
	for range 3 {
		if err := l.feed(x, 15); err != nil {
			t.Fatal(err)
		}
		if err := x.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	entries, err := os.ReadDir(whole)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if files[e.Name()], err = os.ReadFile(filepath.Join(whole, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	rng := rand.New(rand.NewPCG(1, 0))
	rebuilt, kept := 0, 0
	check := func(what string, name string, content []byte) {
		disk := vfs.NewMem()
		if err := disk.MkdirAll("dir", 0o755); err != nil {
			t.Fatal(err)
		}
		for n, b := range files {
			if n == name {
				b = content
			}
			if n == name && content == nil {
				continue
			}
			f, err := disk.Create(disk.PathJoin("dir", n), vfs.WriteCategoryUnspecified)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Write(slices.Clone(b)); err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
		o := l.options("dir").WithFS(disk)
		x, err := index.Open(o)
		if err != nil {
			t.Fatalf("%s %s: %v", name, what, err)
		}
		if err := settle(&l, x); errors.Is(err, index.ErrFailed) || errors.Is(err, index.ErrDamaged) { // damage that is met later
			x.Close()
			if x, err = index.Open(o); err != nil {
				t.Fatalf("%s %s: again: %v", name, what, err)
			}
			if err := settle(&l, x); err != nil {
				t.Fatalf("%s %s: again: %v", name, what, err)
			}
		} else if err != nil {
			t.Fatalf("%s %s: %v", name, what, err)
		}
		if x.Report().Rebuilt != nil || x.Report().Created {
			rebuilt++
		} else {
			kept++
		}
		l.holdsExactly(t, x, l.end)
		if got, want := query(t, x, "T", "k"), l.want("T", "k", 0, math.MaxInt64, 64); !slices.Equal(got, want) {
			t.Fatalf("%s %s: %v, want %v", name, what, got, want)
		}
		x.Close()
	}
	for name, b := range files {
		check("gone", name, nil)
		step := max(1, len(b)/effort.N(12, 4000))
		for i := 0; i < len(b); i += step {
			at := min(i+rng.IntN(step), len(b)-1)
			check(fmt.Sprintf("cut at %d", at), name, b[:at:at])
			flipped := slices.Clone(b)
			flipped[at] ^= 1 << rng.IntN(8)
			check(fmt.Sprintf("flipped at %d", at), name, flipped)
		}
		check("followed by zeros", name, append(slices.Clone(b), make([]byte, 100)...))
	}
	t.Logf("%d rebuilt, %d not", rebuilt, kept)
}

// A table that says it has another format, which no checksum covers, makes Pebble panic when it is read, and when it is compacted: it is damage when the index is opened, and when it changes later it is damage to who asks.
func TestATableOfAnotherFormatIsDamage(t *testing.T) {
	var l fakeLog
	for i := range 60 {
		l.put(meta("T", int64(i), fmt.Sprint("u", i), "k"), 100)
	}
	for bit := range 32 {
		for _, open := range []bool{false, true} {
			disk := vfs.NewMem()
			o := l.options("dir").WithFS(disk)
			reopen := func() *index.Index {
				t.Helper()
				x, err := index.Open(o)
				if err != nil {
					t.Fatal(err)
				}
				return x
			}
			x := reopen()
			if err := errors.Join(l.feed(x, 60), x.Flush(), x.Close()); err != nil {
				t.Fatal(err)
			}
			damage := func() {
				names, err := disk.List("dir")
				if err != nil {
					t.Fatal(err)
				}
				for _, name := range names {
					if !strings.HasSuffix(name, ".sst") {
						continue
					}
					f, err := disk.OpenReadWrite(disk.PathJoin("dir", name), vfs.WriteCategoryUnspecified)
					if err != nil {
						t.Fatal(err)
					}
					info, err := f.Stat()
					if err != nil {
						t.Fatal(err)
					}
					b := make([]byte, 1)
					at := info.Size() - 12 + int64(bit/8)
					if _, err := f.ReadAt(b, at); err != nil {
						t.Fatal(err)
					}
					b[0] ^= 1 << (bit % 8)
					if _, err := f.WriteAt(b, at); err != nil {
						t.Fatal(err)
					}
					f.Close()
				}
			}
			if open {
				x = reopen()
				damage()
				_ = settle(&l, x) // an error, or none where the table was read before
				x.Close()
			} else {
				damage()
			}
			x = reopen()
			if x.Report().Rebuilt == nil {
				t.Errorf("bit %d: not found", bit)
			}
			if err := settle(&l, x); err != nil {
				t.Errorf("bit %d: %v", bit, err)
			}
			l.holdsExactly(t, x, l.end)
			x.Close()
		}
	}
}

// settle catches up and reads everything once.
func settle(l *fakeLog, x *index.Index) error {
	if err := l.feed(x, math.MaxInt); err != nil {
		return err
	}
	if err := x.Flush(); err != nil {
		return err
	}
	for _, err := range x.Entries() {
		if err != nil {
			return err
		}
	}
	if _, err := x.Query("T", "k", math.MinInt64, math.MaxInt64, 0); err != nil {
		return err
	}
	return x.Err()
}
