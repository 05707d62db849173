package main

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/golden"
	"github.com/mqstore/mqstore/store"
)

func TestEveryVerbsHelpHasAnExampleOfIt(t *testing.T) {
	var c cli
	k, err := kong.New(&c, kong.Name("mqstore"), kong.Writers(io.Discard, io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range k.Model.Children {
		if n.Hidden {
			continue
		}
		x, ok := n.Target.Addr().Interface().(interface{ Examples() string })
		if !ok || !strings.Contains(x.Examples(), "mqstore "+n.Name) {
			t.Errorf("%s has no example of itself", n.Name)
		}
		if out := must(t, n.Name, "--help"); !strings.Contains(out, "Examples:\n") || !strings.Contains(out, "Usage: mqstore "+n.Name) {
			t.Errorf("mqstore %s --help shows no example:\n%s", n.Name, out)
		}
	}
}

// Also those that read everything: they look, and no more.
func TestDiffExportAndPicturesLeaveEveryByteAndTimeAsTheyFoundIt(t *testing.T) {
	for _, name := range golden.Names() {
		root := golden.Extract(t, name)
		for _, sub := range goldenDirs(name) {
			dir := filepath.Join(root, sub)
			before := tree(t, dir)
			tmp := t.TempDir()
			for _, args := range [][]string{{"diff", dir, dir}, {"export", dir, filepath.Join(tmp, "a.zst")}, {"info", "--svg", filepath.Join(tmp, "a.svg"), "--html", filepath.Join(tmp, "a.html"), dir},
				{"import", "--dry-run", filepath.Join(tmp, "a.zst"), filepath.Join(tmp, "new")}, {"index-export", "--dry-run", dir}, {"index-import", "--dry-run", dir}} {
				if code, _, errs := mqstore(t, args...); code == exitFailed && !strings.HasPrefix(args[0], "index-") { // damaged goldens are refused by those
					t.Errorf("%v: %s", args, errs)
				}
			}
			if d := cmp.Diff(before, tree(t, dir)); d != "" {
				t.Errorf("%s/%s changed:\n%s", name, sub, d)
			}
		}
	}
}

// A store that is being written to is compared, archived and drawn as it is at that moment.
func TestLiveStoreIsComparedArchivedAndDrawn(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(dir, store.Options{SegmentSize: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	put := func(ctx context.Context) error {
		_, err := s.Put(ctx, &record.Message{Topic: "T", Body: make([]byte, 300)})
		return err
	}
	for range 200 {
		if err := put(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	rounds, done := make(chan struct{}), make(chan error, 1)
	go func() { // some hundred messages beside each verb, and no more: the verbs must end
		var err error
		for range rounds {
			for range 300 {
				if err == nil {
					err = put(context.Background())
				}
			}
		}
		done <- err
	}()
	for i := range 3 {
		rounds <- struct{}{}
		tmp := filepath.Join(t.TempDir(), itoa(i))
		if code, _, errs := mqstore(t, "export", dir, tmp+".zst"); code != exitOK {
			t.Fatalf("export: %s", errs)
		}
		if code, _, errs := mqstore(t, "import", tmp+".zst", tmp); code != exitOK {
			t.Fatalf("import: %s", errs)
		}
		rounds <- struct{}{}
		code, out, errs := mqstore(t, "diff", "--json", dir, tmp)
		if code == exitFailed || !strings.Contains(out, `"onlyInB":0`) || strings.Contains(out, `"kind":"differs"`) {
			t.Fatalf("diff: %s%s", out, errs)
		}
		if code, _, errs := mqstore(t, "info", "--svg", tmp+".svg", dir); code != exitOK {
			t.Fatalf("info --svg: %s", errs)
		}
	}
	for _, verb := range []string{"index-export", "index-import"} {
		if code, _, errs := mqstore(t, verb, dir); code != exitFailed {
			t.Errorf("%s of a store in use: exit code %d, %s", verb, code, errs)
		}
	}
	if code, _, errs := mqstore(t, "import", filepath.Join(t.TempDir(), "none"), dir); code != exitFailed {
		t.Errorf("import into a store in use: exit code %d, %s", code, errs)
	}
	close(rounds)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
