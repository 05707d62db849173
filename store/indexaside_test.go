package store_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mqstore/mqstore/conformance/golden"
	"github.com/mqstore/mqstore/store"
)

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list {
		out = append(out, d.Name())
	}
	return out
}

// An opening that finishes an announced truncation leaves no index file of RocketMQ that names what was cut, and is itself finished by the next one; an opening that cuts nothing leaves them where they are.
func TestIndexFilesOfWhatWasCutAreSetAside(t *testing.T) {
	dir := filepath.Join(golden.Extract(t, "basic"), "store")
	index, kept := filepath.Join(dir, "index"), filepath.Join(dir, "quarantine", "index")
	before := names(t, index)
	if len(before) == 0 {
		t.Fatal("the golden store has no index")
	}
	open := func() (warned string, end int64) {
		t.Helper()
		s, err := store.Open(dir, store.Options{SizesFromFiles: true, NoBackground: true})
		if err != nil {
			t.Fatal(err)
		}
		st := s.Stats()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return strings.Join(st.Warnings, "\n"), st.MaxPhyOffset
	}
	if warned, _ := open(); warned != "" || !slices.Equal(names(t, index), before) {
		t.Fatalf("nothing was cut: %v, %q", names(t, index), warned)
	}
	to := golden.Load(t, "basic").Records[10].Offset
	announce := func() {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(dir, "quarantine"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "quarantine", "commitlog-truncate-to"), []byte(strconv.FormatInt(to, 10)+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	announce()
	warned, end := open()
	if end != to {
		t.Errorf("the log ends at %d, announced was %d", end, to)
	}
	if !strings.Contains(warned, "index files of what was cut") || !strings.Contains(warned, kept) {
		t.Errorf("warnings: %q", warned)
	}
	if left, aside := names(t, index), names(t, kept); len(left) > 0 || !slices.Equal(aside, before) {
		t.Errorf("left %v, set aside %v; were %v", left, aside, before)
	}
	if warned, _ := open(); strings.Contains(warned, "index files") {
		t.Errorf("again: %q", warned)
	}

	// One that ended between cutting and this: the log is short already. A name that is taken in quarantine stays what it is.
	from := filepath.Join(kept, before[0])
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(filepath.Join(index, before[0]), b, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, odd := range []string{"20260101000000000", "notes", "20260101000000001"} { // too short, no index file, no entries
		size := map[string]int{"20260101000000001": 100}[odd]
		if err := os.WriteFile(filepath.Join(index, odd), make([]byte, size), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	open()
	if left, aside := names(t, index), names(t, kept); len(left) != 3 || !slices.Equal(aside, slices.Insert(slices.Clone(before), 1, before[0]+"-2")) {
		t.Errorf("left %v, set aside %v", left, aside)
	}
	if _, err := os.Stat(filepath.Join(dir, "abort")); !os.IsNotExist(err) {
		t.Errorf("abort: %v, want %v", err, fs.ErrNotExist)
	}
}
