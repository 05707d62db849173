package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/conformance/golden"
)

// goldens calls fn for each checkpoint that RocketMQ left.
func goldens(t testing.TB, fn func(name string, b []byte, want Page)) {
	page := func(c golden.Checkpoint) Page {
		return Page{PhysicMsgTimestamp: c.PhysicMsgTimestamp, LogicsMsgTimestamp: c.LogicsMsgTimestamp, IndexMsgTimestamp: c.IndexMsgTimestamp}
	}
	for _, name := range golden.Names() {
		m := golden.Load(t, name)
		for dir, c := range map[string]*golden.Checkpoint{"store": m.CheckpointOnDisk, "master": m.MasterCheckpoint, "slave": m.SlaveCheckpoint} {
			if c != nil {
				fn(name+"/"+dir, golden.ReadFile(t, name, dir+"/checkpoint"), page(*c))
			}
		}
		if m.Before != nil {
			fn(name+"/"+m.Before.StoreDir, golden.ReadFile(t, name, m.Before.StoreDir+"/checkpoint"), page(m.Before.CheckpointOnDisk))
			fn(name+"/"+m.After.StoreDir, golden.ReadFile(t, name, m.After.StoreDir+"/checkpoint"), page(m.After.CheckpointOnDiskAfter))
		}
	}
}

func TestGoldenCheckpointsReadAndWriteExactly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoint")
	n := 0
	goldens(t, func(name string, b []byte, want Page) {
		n++
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := Read(mappedfile.OS(), path)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
		}
		// What RocketMQ wrote is what we write.
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := Write(mappedfile.OS(), path, want); err != nil {
			t.Fatal(err)
		}
		if ours := readFile(t, path); !slices.Equal(ours, b) {
			t.Errorf("%s: our page differs", name)
		}
	})
	if n != 9+2+8 {
		t.Errorf("%d checkpoints", n)
	}
}

func TestBytesBeyondTheFieldsAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoint")
	old := make([]byte, pageSize)
	for i := endOfFields; i < pageSize; i++ {
		old[i] = byte(i*7 + 1)
	}
	if err := os.WriteFile(path, old, 0o644); err != nil {
		t.Fatal(err)
	}
	want := Page{1, 2, 3, 4, 5}
	if err := Write(mappedfile.OS(), path, want); err != nil {
		t.Fatal(err)
	}
	if got, err := Read(mappedfile.OS(), path); got != want || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if b := readFile(t, path); !slices.Equal(b[endOfFields:], old[endOfFields:]) || len(b) != pageSize {
		t.Error("bytes beyond the fields changed")
	}
}

func TestMinTimestampLeavesThreeSeconds(t *testing.T) {
	for _, c := range []struct{ physic, logics, want int64 }{
		{0, 0, 0},
		{2999, 5000, 0},
		{10_000, 20_000, 7000},
		{20_000, 10_000, 7000},
		{20_000, 0, 0},
	} {
		if got := (Page{PhysicMsgTimestamp: c.physic, LogicsMsgTimestamp: c.logics}).MinTimestamp(); got != c.want {
			t.Errorf("physic %d, logics %d: %d, want %d", c.physic, c.logics, got, c.want)
		}
	}
}

func TestMissingCheckpointIsZero(t *testing.T) {
	if p, err := Read(mappedfile.OS(), filepath.Join(t.TempDir(), "checkpoint")); p != (Page{}) || err != nil {
		t.Errorf("%+v, %v", p, err)
	}
}

// Reports apache/rocketmq#3401 and nats-io/nats-server#4842: a short or damaged state file must neither stop a store nor be believed.
func TestDamagedCheckpointIsATypedErrorAndHeals(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoint")
	whole := make([]byte, pageSize)
	Page{1795967102381, 1795967102382, 0, 0, -1}.encode(whole)
	damaged := map[string][]byte{
		"impossible time":   slices.Concat([]byte{0x7f}, whole[1:]),
		"negative time":     slices.Concat(whole[:8], []byte{0x80}, whole[9:]),
		"impossible offset": slices.Concat(whole[:32], []byte{0x80}, whole[33:]),
		"too long":          append(slices.Clone(whole), 0),
	}
	for _, n := range []int{0, 1, 10, 39, 40, 4095} {
		damaged[fmt.Sprintf("cut to %d bytes", n)] = whole[:n]
	}
	for name, b := range damaged {
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		p, err := Read(mappedfile.OS(), path)
		var ce *mappedfile.CorruptError
		if p != (Page{}) || !errors.As(err, &ce) || !errors.Is(err, mappedfile.ErrCorrupt) || ce.Path != path {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
		want := Page{PhysicMsgTimestamp: 5}
		if err := Write(mappedfile.OS(), path, want); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, err := Read(mappedfile.OS(), path); got != want || err != nil {
			t.Errorf("%s: after Write %+v, %v", name, got, err)
		}
	}
}

func TestAnEnormousFileIsNotReadIntoMemory(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{pageName, summaryName} {
		path := filepath.Join(root, name)
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, 1<<36); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Read(mappedfile.OS(), Path(root)); !errors.Is(err, mappedfile.ErrCorrupt) {
		t.Errorf("checkpoint: %v", err)
	}
	if _, err := ReadSummary(mappedfile.OS(), root); !errors.Is(err, mappedfile.ErrCorrupt) {
		t.Errorf("summary: %v", err)
	}
}

func TestADirectoryInTheWayIsAnErrorThatSaysWhatToDo(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(Path(root), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := Read(mappedfile.OS(), Path(root))
	if !errors.Is(err, mappedfile.ErrNotRegular) || !strings.Contains(err.Error(), "move it away") {
		t.Errorf("Read: %v", err)
	}
	if err := Write(mappedfile.OS(), Path(root), Page{}); !errors.Is(err, mappedfile.ErrNotRegular) {
		t.Errorf("Write: %v", err)
	}
}

func TestImpossiblePageIsNotWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoint")
	if err := Write(mappedfile.OS(), path, Page{LogicsMsgTimestamp: -1}); err == nil || !strings.Contains(err.Error(), "logicsMsgTimestamp") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is there: %v", err)
	}
}

func FuzzPage(f *testing.F) {
	goldens(f, func(_ string, b []byte, _ Page) { f.Add(b) })
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := decodePage(b)
		if err != nil {
			if p != (Page{}) {
				t.Errorf("%+v beside error %v", p, err)
			}
			return
		}
		again := slices.Clone(b)
		clear(again[:endOfFields])
		p.encode(again)
		if diff := cmp.Diff(b, again); diff != "" {
			t.Errorf("decoded and encoded: %s", diff)
		}
		if m := p.MinTimestamp(); m < 0 {
			t.Errorf("MinTimestamp %d", m)
		}
	})
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
