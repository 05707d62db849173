package metasync

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
)

var _ FS = (*faultfs.FS)(nil) // and with it every mappedfile.FS

// offsets is a table that tells n.
func offsets(n int64) ConsumerOffsets {
	return ConsumerOffsets{Offsets: map[string]map[int32]int64{"topic@group": {0: n}}}
}

func told(o ConsumerOffsets) int64 { return o.Offsets["topic@group"][0] }

func mustSave(t *testing.T, d *Dir, n int64) {
	t.Helper()
	if changed, err := d.SaveConsumerOffsets(offsets(n)); err != nil || !changed {
		t.Fatalf("save %d: changed %v, %v", n, changed, err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(b)
}

func TestWhatIsSavedIsLoadedAndThePreviousIsTheBak(t *testing.T) {
	root := filepath.Join(t.TempDir(), "new", "store")
	d := NewDir(root, DirOptions{Damaged: func(path string, err error) { t.Errorf("%s: %v", path, err) }})
	if _, found, err := d.LoadTopics(); found || err != nil {
		t.Errorf("nothing there: found %v, %v", found, err)
	}
	topics := TopicConfigTable{DataVersion: DataVersion{Counter: 1}, Topics: map[string]TopicConfig{"<T>": NewTopicConfig("<T>")}}
	groups := SubscriptionGroups{Groups: map[string]SubscriptionGroup{"g": NewSubscriptionGroup("g")}}
	delay := DelayOffsets{Offsets: map[int32]int64{3: 4}}
	for _, save := range []func() (bool, error){
		func() (bool, error) { return d.SaveTopics(topics) },
		func() (bool, error) { return d.SaveSubscriptionGroups(groups) },
		func() (bool, error) { return d.SaveDelayOffsets(delay) },
	} {
		if changed, err := save(); err != nil || !changed {
			t.Errorf("changed %v, %v", changed, err)
		}
		if changed, err := save(); err != nil || changed {
			t.Errorf("the same again: changed %v, %v", changed, err)
		}
	}
	gotTopics, found, err := d.LoadTopics()
	if diff := cmp.Diff(topics, gotTopics); diff != "" || !found || err != nil {
		t.Error(found, err, diff)
	}
	gotGroups, _, err := d.LoadSubscriptionGroups()
	if diff := cmp.Diff(groups, gotGroups); diff != "" || err != nil {
		t.Error(err, diff)
	}
	gotDelay, _, err := d.LoadDelayOffsets()
	if diff := cmp.Diff(delay, gotDelay); diff != "" || err != nil {
		t.Error(err, diff)
	}
	mustSave(t, d, 1)
	mustSave(t, d, 2)
	config := filepath.Join(root, "config")
	if got, want := read(t, filepath.Join(config, "consumerOffset.json")), "{\n\t\"offsetTable\": {\n\t\t\"topic@group\": {\n\t\t\t\"0\": 2\n\t\t}\n\t}\n}"; got != want {
		t.Errorf("%q", got)
	}
	if got := read(t, filepath.Join(config, "consumerOffset.json.bak")); !strings.Contains(got, `"0": 1`) {
		t.Errorf(".bak is %q", got)
	}
	if !strings.Contains(read(t, filepath.Join(config, "topics.json")), `"<T>"`) {
		t.Error("topics.json is not readable by eye")
	}
	names, err := filepath.Glob(filepath.Join(config, "*.tmp"))
	if len(names) > 0 || err != nil {
		t.Errorf("%v, %v", names, err)
	}
}

// apache/rocketmq#3401, #6096, #10518 and spec 6.16.
func TestATruncatedFileIsAnsweredFromItsBakAndSaid(t *testing.T) {
	root := t.TempDir()
	var said error
	d := NewDir(root, DirOptions{Damaged: func(_ string, err error) { said = err }})
	mustSave(t, d, 1)
	mustSave(t, d, 2)
	path := d.Path(KindConsumerOffsets)
	whole, bak := read(t, path), read(t, path+".bak")
	for n := range len(whole) {
		said = nil
		write(t, path, whole[:n])
		o, found, err := d.LoadConsumerOffsets()
		if err != nil || !found || told(o) != 1 || said == nil {
			t.Fatalf("cut to %d bytes: %v, found %v, %v; said %v", n, o, found, err, said)
		}
		// Saving keeps the whole .bak and puts the damaged bytes aside.
		os.Remove(path + ".damaged")
		mustSave(t, d, 3)
		if read(t, path+".bak") != bak || read(t, path+".damaged") != whole[:n] {
			t.Fatalf("cut to %d bytes: .bak %q, .damaged %q", n, read(t, path+".bak"), read(t, path+".damaged"))
		}
	}
	os.Remove(path)
	if o, found, err := d.LoadConsumerOffsets(); err != nil || !found || told(o) != 1 {
		t.Errorf("missing: %v, found %v, %v", o, found, err)
	}
}

func TestAByteWithItsHighBitFlippedIsDamage(t *testing.T) {
	said := 0
	d := NewDir(t.TempDir(), DirOptions{Damaged: func(string, error) { said++ }})
	mustSave(t, d, 1)
	mustSave(t, d, 2)
	path := d.Path(KindConsumerOffsets)
	whole := []byte(read(t, path))
	for i := range whole {
		whole[i] ^= 0x80
		write(t, path, string(whole))
		whole[i] ^= 0x80
		if o, _, err := d.LoadConsumerOffsets(); err != nil || told(o) != 1 || said != i+1 {
			t.Fatalf("byte %d: %v, %v, said %d times", i, o, err, said)
		}
	}
}

func TestNoWholeVersionLeftIsADamagedErrorThatSaysWhatToDo(t *testing.T) {
	for name, c := range map[string]struct {
		main, bak string // "-" = missing
		damaged   bool
		said      bool
	}{
		"both missing":            {"-", "-", false, false},
		"empty, no bak":           {"", "-", false, true}, // as the original: it starts
		"damaged, no bak":         {"{", "-", true, false},
		"both damaged":            {"[]", "{", true, false},
		"both empty":              {"", "", true, false},
		"missing, bak damaged":    {"-", "x", true, false},
		"damaged, bak whole":      {"{", offsetBody, false, true},
		"empty, bak whole":        {"", offsetBody, false, true},
		"missing, bak whole":      {"-", offsetBody, false, true},
		"whole, bak damaged":      {offsetBody, "{", false, false},
		"fastjson's, bak missing": {offsetBody, "-", false, false},
	} {
		said := false
		d := NewDir(t.TempDir(), DirOptions{Damaged: func(string, error) { said = true }})
		path := d.Path(KindConsumerOffsets)
		if c.main != "-" {
			write(t, path, c.main)
		}
		if c.bak != "-" {
			write(t, path+".bak", c.bak)
		}
		_, found, err := d.LoadConsumerOffsets()
		var de *DamagedError
		if errors.As(err, &de) != c.damaged || (err != nil) != c.damaged || said != c.said {
			t.Errorf("%s: found %v, %v, said %v", name, found, err, said)
		}
		if c.damaged && (!strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "copy")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAMergeOverNothingWholeKeepsTheDamagedBytesAside(t *testing.T) {
	d := NewDir(t.TempDir(), DirOptions{})
	path := d.Path(KindConsumerOffsets)
	write(t, path, "{damaged")
	merged, changed, err := d.MergeConsumerOffsets(offsets(5))
	if err != nil || !changed || told(merged) != 5 || read(t, path+".damaged") != "{damaged" {
		t.Errorf("%v, %v, %v, aside %q", merged, changed, err, read(t, path+".damaged"))
	}
}

func TestSavedOffsetsSurvivePowerLossAtAnyOperation(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	done := false
	for n := int64(1); !done; n++ {
		fsys := faultfs.New()
		d := NewDir("/store", DirOptions{FS: fsys})
		mustSave(t, d, 1)
		mustSave(t, d, 2)
		fsys.FailFrom(fsys.Ops()+n, nil)
		_, err := d.SaveConsumerOffsets(offsets(3))
		done = err == nil
		after := fsys.Crash(rng)
		o, found, err := NewDir("/store", DirOptions{FS: after, Damaged: func(string, error) {}}).LoadConsumerOffsets()
		got := told(o)
		if err != nil || !found || got != 2 && got != 3 || done && got != 3 {
			t.Fatalf("fault at operation %d, acknowledged %v: %d, found %v, %v", n, done, got, found, err)
		}
		if n > 100 {
			t.Fatal("a save never ends")
		}
	}
}

func TestAFailedSaveLeavesTheOldTableAndTheNextSucceeds(t *testing.T) {
	failed := true
	for n := int64(1); failed; n++ {
		fsys := faultfs.New()
		d := NewDir("/store", DirOptions{FS: fsys, Damaged: func(path string, err error) { t.Errorf("%s: %v", path, err) }})
		mustSave(t, d, 1)
		mustSave(t, d, 2)
		fsys.FailOnce(fsys.Ops()+n, nil)
		_, err := d.SaveConsumerOffsets(offsets(3))
		failed = err != nil
		if failed && (!errors.Is(err, faultfs.ErrInjected) || !strings.Contains(err.Error(), "save consumer offsets")) {
			t.Errorf("fault at operation %d: %v", n, err)
		}
		d = NewDir("/store", DirOptions{FS: fsys.Kill(), Damaged: d.o.Damaged}) // the process started again, without faults
		o, found, err := d.LoadConsumerOffsets()
		if got := told(o); err != nil || !found || got != 3 && (got != 2 || !failed) {
			t.Errorf("fault at operation %d: %v, found %v, %v", n, o, found, err)
		}
		if _, err := d.SaveConsumerOffsets(offsets(4)); err != nil {
			t.Errorf("after the fault at operation %d: %v", n, err)
		}
		if n > 100 {
			t.Fatal("a save never ends")
		}
	}
}

func TestAFileThatCannotBeReadIsNotReplaced(t *testing.T) {
	d := NewDir(t.TempDir(), DirOptions{})
	path := d.Path(KindConsumerOffsets)
	if err := os.MkdirAll(path, 0o755); err != nil { // a directory in its place
		t.Fatal(err)
	}
	if _, err := d.SaveConsumerOffsets(offsets(1)); err == nil || !strings.Contains(err.Error(), "consumer offsets") {
		t.Errorf("%v", err)
	}
	if _, _, err := d.MergeConsumerOffsets(offsets(1)); err == nil {
		t.Error("merged")
	}
}

func TestALeftoverTemporaryFileOrLinkIsNotWrittenThrough(t *testing.T) {
	d := NewDir(t.TempDir(), DirOptions{})
	tmp := d.Path(KindConsumerOffsets) + ".tmp"
	other := filepath.Join(t.TempDir(), "other")
	write(t, other, "mine")
	write(t, tmp, "half of an earlier save, longer than what is to come"+strings.Repeat(" ", 1000))
	mustSave(t, d, 1)
	if err := os.Symlink(other, tmp); err != nil {
		t.Fatal(err)
	}
	mustSave(t, d, 2)
	if o, _, err := d.LoadConsumerOffsets(); err != nil || told(o) != 2 || read(t, other) != "mine" {
		t.Errorf("%v, %v; the link's target: %q", o, err, read(t, other))
	}
}

func TestSavesSideBySideLeaveOneOfThem(t *testing.T) {
	d := NewDir(t.TempDir(), DirOptions{Damaged: func(path string, err error) { t.Errorf("%s: %v", path, err) }})
	mustSave(t, d, 100)
	var wg sync.WaitGroup
	for i := range int64(8) {
		wg.Go(func() {
			if _, err := d.SaveConsumerOffsets(offsets(i)); err != nil {
				t.Error(err)
			}
			if o, found, err := d.LoadConsumerOffsets(); err != nil || !found || told(o) >= 8 {
				t.Errorf("%v, %v, %v", o, found, err)
			}
		})
	}
	wg.Wait()
}
