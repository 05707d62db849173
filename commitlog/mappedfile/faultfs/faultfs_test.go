package faultfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
)

var path = filepath.FromSlash("/f")

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, f *faultfs.FS, path string, size int64) mappedfile.Mapping {
	t.Helper()
	m, err := f.Map(path, size, mappedfile.MapCreate)
	ok(t, err)
	return m
}

func read(t *testing.T, f *faultfs.FS, path string) []byte {
	t.Helper()
	b, err := f.ReadFile(path)
	ok(t, err)
	return b
}

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func TestExactlyTheSyncedRangeSurvives(t *testing.T) {
	var kept, lost, torn, besideLost int
	for seed := range uint64(200) {
		f := faultfs.New()
		m := create(t, f, path, 3*4096)
		copy(m.Bytes(), bytes.Repeat([]byte{'x'}, 3*4096))
		ok(t, m.Sync(100, 200))
		b := read(t, f.Crash(rng(seed)), path)
		if !bytes.Equal(b[100:300], bytes.Repeat([]byte{'x'}, 200)) {
			t.Fatalf("seed %d: a synced byte is lost", seed)
		}
		if b[0] == 0 {
			besideLost++
		}
		for p := 4096; p < len(b); p += 4096 {
			page := b[p : p+4096]
			switch n := bytes.Count(page, []byte{'x'}); n {
			case 0:
				lost++
			case 4096:
				kept++
			default:
				torn++
				for s := 0; s < 4096; s += 512 {
					if c := bytes.Count(page[s:s+512], []byte{'x'}); c != 0 && c != 512 {
						t.Fatalf("seed %d: a sector is torn", seed)
					}
				}
			}
		}
	}
	if besideLost == 0 {
		t.Error("a Sync made durable what lies beside its range")
	}
	if kept == 0 || lost == 0 || torn == 0 {
		t.Errorf("of unsynced pages %d were kept, %d lost, %d torn: want some of each", kept, lost, torn)
	}
}

func TestNamesAreDurableAfterSyncDir(t *testing.T) {
	a, b := filepath.FromSlash("/a"), filepath.FromSlash("/b")
	for _, c := range []struct {
		name    string
		act     func(f *faultfs.FS) error
		want    []string // after SyncDir
		without []string // outcomes without
	}{
		{"remove", func(f *faultfs.FS) error { return f.Remove(a) }, []string{"[]"}, []string{"[]", "[/a=1]"}},
		{"rename", func(f *faultfs.FS) error { return f.Rename(a, b) }, []string{"[/b=1]"}, []string{"[/a=1]", "[/b=1]"}},
		{"replace", func(f *faultfs.FS) error {
			return errors.Join(f.WriteFileDurable(b, []byte("2")), f.Rename(b, a))
		}, []string{"[/a=2]"}, []string{"[/a=1 /b=2]", "[/a=2]"}},
		{"write", func(f *faultfs.FS) error { return f.WriteFileDurable(a, []byte("3")) }, []string{"[/a=3]"}, []string{"[/a=3]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, sync := range []bool{true, false} {
				got := map[string]bool{}
				for seed := range uint64(50) {
					f := faultfs.New()
					ok(t, f.WriteFileDurable(a, []byte("1")))
					ok(t, c.act(f))
					if sync {
						ok(t, f.SyncDir(filepath.FromSlash("/")))
					}
					g := f.Crash(rng(seed))
					var s []string
					for _, p := range g.Paths() {
						s = append(s, filepath.ToSlash(p)+"="+string(read(t, g, p)))
					}
					got[fmt.Sprint(s)] = true
				}
				want := c.without
				if sync {
					want = c.want
				}
				for _, w := range want {
					if !got[w] {
						t.Errorf("synced %v: %s never came out", sync, w)
					}
					delete(got, w)
				}
				if len(got) > 0 {
					t.Errorf("synced %v: these came out: %v", sync, got)
				}
			}
		})
	}
}

func TestRenamedDirectoryMovesWhole(t *testing.T) {
	var before, after int
	for seed := range uint64(50) {
		f := faultfs.New()
		ok(t, f.MkdirAll(filepath.FromSlash("/d/e")))
		ok(t, f.WriteFileDurable(filepath.FromSlash("/d/e/f"), []byte("1")))
		ok(t, f.Rename(filepath.FromSlash("/d/e"), filepath.FromSlash("/d/g")))
		switch p := f.Crash(rng(seed)).Paths(); filepath.ToSlash(p[0]) {
		case "/d/e/f":
			before++
		case "/d/g/f":
			after++
		default:
			t.Fatalf("seed %d: %q", seed, p)
		}
	}
	if before == 0 || after == 0 {
		t.Errorf("before %d, after %d: want some of each", before, after)
	}
}

func TestKillKeepsWhatProcessesSaw(t *testing.T) {
	f := faultfs.New()
	m := create(t, f, path, 4096)
	copy(m.Bytes(), "seen")
	_, err := f.Lock(filepath.FromSlash("/lock"))
	ok(t, err)
	f.FailFrom(1, nil)
	g := f.Kill()
	copy(m.Bytes(), "dead")
	if got := read(t, g, path)[:4]; string(got) != "seen" {
		t.Errorf("after the kill: %q", got)
	}
	for what, err := range map[string]error{
		"sync": m.Sync(0, 4), "close": m.Close(), "allocate": m.Allocate(0, 1), "syncdir": f.SyncDir("/"), "remove": f.Remove(path), "populate": m.Populate(0, 1),
	} {
		if !errors.Is(err, faultfs.ErrDead) {
			t.Errorf("%s by the dead process: %v", what, err)
		}
	}
	l, err := g.Lock(filepath.FromSlash("/lock"))
	ok(t, err) // the faults and the lock are gone with the process
	ok(t, l.Close())
}

func TestKilledProcessMadeNothingDurable(t *testing.T) {
	var lost int
	for seed := range uint64(20) {
		f := faultfs.New()
		m := create(t, f, path, 4096)
		copy(m.Bytes(), "seen")
		if b := read(t, f.Kill().Crash(rng(seed)), path); b[0] == 0 {
			lost++
		}
	}
	if lost == 0 || lost == 20 {
		t.Errorf("lost %d times of 20", lost)
	}
}

func TestFaultsComeWhenTold(t *testing.T) {
	f := faultfs.New()
	m := create(t, f, path, 4096) // 1
	boom := errors.New("boom")
	f.FailOnce(3, boom)
	f.FailFrom(5, nil)
	for n, want := range []error{nil, boom, nil, faultfs.ErrInjected, faultfs.ErrInjected} {
		if err := m.Sync(0, 1); !errors.Is(err, want) {
			t.Errorf("operation %d: %v, want %v", n+2, err, want)
		}
	}
	if f.Ops() != 6 {
		t.Errorf("%d operations", f.Ops())
	}
	f.FailFrom(0, nil)
	ok(t, m.Sync(0, 1))
	var seen []string
	f.SetHook(func(op faultfs.Op) error {
		seen = append(seen, op.String())
		if op.Kind == faultfs.OpRename {
			return boom
		}
		return nil
	})
	if err := f.Rename(path, path+"2"); !errors.Is(err, boom) {
		t.Errorf("rename: %v", err)
	}
	ok(t, m.Sync(7, 9))
	if want := []string{"8: rename " + path + " [0, +0)", "9: sync " + path + " [7, +9)"}; !slices.Equal(seen, want) {
		t.Errorf("the hook saw %q", seen)
	}
}

func TestEveryFailedOperationLeavesOldOrNew(t *testing.T) {
	for n := range int64(40) {
		f := faultfs.New()
		dir := filepath.FromSlash("/a/b")
		ok(t, f.MkdirAll(dir))
		file := filepath.Join(dir, "f")
		ok(t, f.WriteFileDurable(file, []byte("old")))
		f.FailFrom(f.Ops()+1+n%3, nil)
		err := f.WriteFileDurable(file, []byte("new"))
		g := f.Crash(rng(uint64(n)))
		got := string(read(t, g, file))
		if got != "new" && (got != "old" || err == nil) {
			t.Errorf("write %v, then %q", err, got)
		}
	}
}

func TestSyncAfterAFailedOneProvesNothing(t *testing.T) {
	var lost int
	for n := range int64(20) {
		f := faultfs.New()
		m := create(t, f, path, 4096)
		for range n {
			ok(t, f.SyncDir("/"))
		}
		copy(m.Bytes(), "x")
		f.FailOnce(f.Ops()+1, nil)
		if m.Sync(0, 4096) == nil {
			t.Fatal("no failure")
		}
		ok(t, m.Sync(0, 4096))
		if read(t, f.Crash(rng(0)), path)[0] == 0 {
			lost++
		}
	}
	if lost == 0 || lost == 20 {
		t.Errorf("lost %d times of 20: want some", lost)
	}
	f := faultfs.New()
	m := create(t, f, path, 4096)
	copy(m.Bytes(), "x")
	f.FailOnce(f.Ops()+1, nil)
	_ = m.Sync(0, 4096)
	copy(m.Bytes(), "y") // stored again: dirty again
	ok(t, m.Sync(0, 4096))
	if read(t, f.Crash(rng(0)), path)[0] != 'y' {
		t.Error("what was stored after the failure and synced is lost")
	}
}

func TestDeviceFillsAndEmpties(t *testing.T) {
	f := faultfs.New()
	f.SetLimit(10 * 4096)
	m := create(t, f, path, 6*4096)
	_, err := f.Map(path+"2", 6*4096, mappedfile.MapCreate)
	if !errors.Is(err, mappedfile.ErrDiskFull) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("create on a full device: %v", err)
	}
	if _, err := f.Stat(path + "2"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it left a file: %v", err)
	}
	s, err := f.Map(path+"3", 6*4096, mappedfile.MapCreateSparse)
	ok(t, err)
	ok(t, s.Allocate(1, 4096)) // two pages
	ok(t, s.Allocate(0, 8192)) // the same
	if f.Used() != 8*4096 {
		t.Errorf("used %d", f.Used())
	}
	if err := s.Allocate(0, 6*4096); !errors.Is(err, mappedfile.ErrDiskFull) {
		t.Errorf("allocate on a full device: %v", err)
	}
	ok(t, f.Remove(path))
	if f.Used() != 8*4096 {
		t.Errorf("a removed file that is mapped gave its blocks back: %d", f.Used())
	}
	ok(t, m.Close())
	if f.Used() != 2*4096 {
		t.Errorf("used %d after it was unmapped", f.Used())
	}
	ok(t, s.Allocate(0, 6*4096))
	if free, total, err := f.Free("/"); err != nil || free != 4*4096 || total != 10*4096 {
		t.Errorf("%d free of %d, %v", free, total, err)
	}
	if g := f.Kill(); g.Used() != 6*4096 {
		t.Errorf("used %d after a kill", g.Used())
	}
}

func TestStoreIntoAHolePanics(t *testing.T) {
	f := faultfs.New()
	m, err := f.Map(path, 8192, mappedfile.MapCreateSparse)
	ok(t, err)
	ok(t, m.Allocate(0, 1))
	m.Bytes()[4095] = 1
	ok(t, m.Sync(0, 8192))
	m.Bytes()[4096] = 1
	defer func() {
		if recover() == nil {
			t.Error("nobody noticed")
		}
	}()
	_ = m.Sync(0, 8192)
}

func TestPlantedFileIsDurableAndSparse(t *testing.T) {
	f := faultfs.New()
	b := make([]byte, 10*4096)
	b[5*4096] = 1
	deep := filepath.FromSlash("/x/y/z")
	f.Plant(deep, b)
	if f.Used() != 4096 {
		t.Errorf("used %d", f.Used())
	}
	if got := read(t, f.Crash(rng(1)), deep); !bytes.Equal(got, b) {
		t.Error("lost in a crash")
	}
}

func TestReadOnlyDeviceRefusesChanges(t *testing.T) {
	f := faultfs.New()
	m := create(t, f, path, 4096)
	f.SetReadOnly(true)
	_, mapErr := f.Map(path, 0, mappedfile.MapExisting)
	_, createErr := f.Map(path+"2", 1, mappedfile.MapCreate)
	_, lockErr := f.Lock(path + "3")
	for what, err := range map[string]error{
		"map": mapErr, "create": createErr, "lock": lockErr, "sync": m.Sync(0, 1), "write": f.WriteFileDurable(path, nil),
		"remove": f.Remove(path), "rename": f.Rename(path, path+"2"), "mkdir": f.MkdirAll(path + "4"),
	} {
		if !errors.Is(err, syscall.EROFS) {
			t.Errorf("%s: %v", what, err)
		}
	}
	r, err := f.Map(path, 0, mappedfile.MapReadOnly)
	ok(t, err)
	ok(t, r.Close())
}

func TestCrashRepeatsBySeed(t *testing.T) {
	run := func(seed uint64) string {
		f := faultfs.New()
		for i := range 5 {
			m := create(t, f, fmt.Sprintf("%s%d", path, i), 3*4096)
			copy(m.Bytes(), bytes.Repeat([]byte{byte(i + 1)}, 3*4096))
		}
		ok(t, f.Remove(path+"0"))
		ok(t, f.Rename(path+"1", path+"9"))
		f.FailOnce(f.Ops()+1, nil)
		_ = f.WriteFileDurable(path+"2", []byte("x"))
		g := f.Crash(rng(seed))
		var s string
		for _, p := range g.Paths() {
			s += fmt.Sprintf("%s %x\n", p, read(t, g, p))
		}
		return s
	}
	outcomes := map[string]bool{}
	for seed := range uint64(20) {
		a := run(seed)
		if a != run(seed) {
			t.Fatalf("seed %d: two outcomes", seed)
		}
		outcomes[a] = true
	}
	if len(outcomes) < 10 {
		t.Errorf("only %d outcomes of 20 seeds", len(outcomes))
	}
}
