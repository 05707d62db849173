package repair

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/mqstore/mqstore/checkpoint"
	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/conformance/golden"
	"github.com/mqstore/mqstore/index/indexfile"
)

// indexBytes are the contents of the files in index/, in order.
func indexBytes(t *testing.T, dir string) (all [][]byte) {
	t.Helper()
	names, err := os.ReadDir(filepath.Join(dir, indexDir))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		b, err := os.ReadFile(filepath.Join(dir, indexDir, n.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	return all
}

func TestIndexExportWritesTheOriginalsBytes(t *testing.T) {
	for _, name := range []string{"basic", "batch", "compressed", "delay", "ipv6", "lmq", "transaction"} {
		t.Run(name, func(t *testing.T) {
			m := golden.Load(t, name)
			dir := filepath.Join(golden.Extract(t, name), "store")
			want := indexBytes(t, dir)
			o := IndexExportOptions{Options: Options{Root: dir}, Slots: int(m.Config.Int("maxHashSlotNum")), Entries: int(m.Config.Int("maxIndexNum"))}
			o.DryRun = true
			before := indexBytes(t, dir)
			plan, err := IndexExport(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if !sameBytes(before, indexBytes(t, dir)) {
				t.Error("a dry run changed the index")
			}
			o.DryRun = false
			did, err := IndexExport(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if plan.Made != did.Made || len(plan.Quarantine) != len(did.Quarantine) {
				t.Errorf("planned %+v, did %+v", plan, did)
			}
			if !sameBytes(indexBytes(t, dir), want) {
				t.Error("the files differ from the original's")
			}
			if len(did.Quarantine) != 1 || !sameBytes(indexBytes(t, filepath.Join(dir, quarantineDir)), want) {
				t.Errorf("the old files are not kept: %v", did.Quarantine)
			}
			page, err := checkpoint.Read(mappedfile.OS(), checkpoint.Path(dir))
			if err != nil || page.IndexMsgTimestamp == 0 || page.IndexMsgTimestamp > page.LogicsMsgTimestamp {
				t.Errorf("checkpoint %+v, %v", page, err)
			}
			if set, w, err := indexfile.OpenSet(filepath.Join(dir, indexDir), indexfile.Shape{}); err != nil || len(w) > 0 {
				t.Error(w, err)
			} else {
				set.Close()
			}
		})
	}
}

func sameBytes(a, b [][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

func TestIndexImportVerifiesEachEntry(t *testing.T) {
	dir := filepath.Join(golden.Extract(t, "basic"), "store")
	first, err := IndexImport(t.Context(), Options{Root: dir})
	if err != nil {
		t.Fatal(err)
	}
	if first.Entries != 683 || first.Verified != 683 || first.Dangling != 0 || first.Missing != 0 || first.Keys != 681 || first.Records != 306 || len(first.Quarantine) != 0 {
		t.Errorf("%+v", first)
	}
	files, err := filepath.Glob(filepath.Join(dir, indexDir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	shape, ok := indexfile.ShapeOf(bytes.NewReader(b), int64(len(b)))
	if !ok {
		t.Fatal("no shape")
	}
	entry := 40 + 4*shape.Slots
	b[entry+20*5+3]++  // the hash of an entry
	b[entry+20*9+10]++ // the offset of another
	if err := os.WriteFile(files[0], b, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(files[len(files)-1]); err != nil {
		t.Fatal(err)
	}
	o := Options{Root: dir, DryRun: true}
	plan, err := IndexImport(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	o.DryRun = false
	second, err := IndexImport(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if plan.Made != second.Made || plan.Dangling != second.Dangling {
		t.Errorf("planned %+v, did %+v", plan, second)
	}
	if second.Dangling != 2 || second.Missing != first.Entries-second.Entries+2 || second.Verified != second.Entries-2 || second.Keys != first.Keys || len(second.Quarantine) != 1 {
		t.Errorf("%+v", second)
	}
}

func TestIndexVerbsRefuseWhatTheyCannotDo(t *testing.T) {
	dir := filepath.Join(golden.Extract(t, "basic"), "store")
	lock, err := checkpoint.Lock(mappedfile.OS(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, dry := range []bool{false, true} {
		if _, err := IndexImport(t.Context(), Options{Root: dir, DryRun: dry}); !errors.Is(err, mappedfile.ErrLocked) && !dry { // a lock of our own process is seen only when taking it
			t.Errorf("%v, want ErrLocked", err)
		}
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, indexDir)); err != nil {
		t.Fatal(err)
	}
	if _, err := IndexImport(t.Context(), Options{Root: dir}); !errors.Is(err, ErrNoIndexFiles) {
		t.Errorf("%v, want ErrNoIndexFiles", err)
	}
	if _, err := IndexExport(t.Context(), IndexExportOptions{Options: Options{Root: t.TempDir()}}); err == nil {
		t.Error("an empty directory is a store")
	}
}

func TestIndexVerbsOnHostileDirectoriesEnd(t *testing.T) {
	for name, edit := range hostileEdits() {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(golden.Extract(t, "basic"), "store")
			edit(t, dir)
			_, errX := IndexExport(t.Context(), IndexExportOptions{Options: Options{Root: dir}, Slots: 100, Entries: 1000})
			_, errI := IndexImport(t.Context(), Options{Root: dir})
			t.Log(errX, errI)
		})
	}
}
