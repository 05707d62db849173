package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/conformance/golden"
)

func TestAbortFileOfEitherVersionMeansUncleanExit(t *testing.T) {
	for name, content := range map[string]string{"4.9.8": "", "5.3.3": "12345"} {
		root := t.TempDir()
		if there, err := AbortExists(mappedfile.OS(), root); there || err != nil {
			t.Fatalf("%s: in an empty directory %v, %v", name, there, err)
		}
		if err := os.WriteFile(filepath.Join(root, "abort"), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if there, err := AbortExists(mappedfile.OS(), root); !there || err != nil {
			t.Errorf("%s: %v, %v", name, there, err)
		}
		if err := RemoveAbort(mappedfile.OS(), root); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if there, err := AbortExists(mappedfile.OS(), root); there || err != nil {
			t.Errorf("%s: after removal %v, %v", name, there, err)
		}
	}
}

func TestAbortFileOfGoldens(t *testing.T) {
	for _, name := range []string{"crash-torn", "clean-torntail"} {
		m, root := golden.Load(t, name), golden.Extract(t, name)
		for dir, want := range map[string]bool{m.Before.StoreDir: m.Before.AbortFile, m.After.StoreDir: m.After.AbortFileAfter} {
			if got, err := AbortExists(mappedfile.OS(), filepath.Join(root, dir)); got != want || err != nil {
				t.Errorf("%s/%s: %v, %v; want %v", name, dir, got, err, want)
			}
		}
	}
}

func TestAbortFileIsWrittenEmpty(t *testing.T) {
	root := t.TempDir()
	for range 2 { // also over one that is there
		if err := CreateAbort(mappedfile.OS(), root); err != nil {
			t.Fatal(err)
		}
		if b := readFile(t, filepath.Join(root, "abort")); len(b) != 0 {
			t.Errorf("it holds %q", b)
		}
	}
}

func TestRemovingWhatIsNotThereIsNoError(t *testing.T) {
	root := t.TempDir()
	if err := RemoveAbort(mappedfile.OS(), root); err != nil {
		t.Error(err)
	}
	if err := RemoveSummary(mappedfile.OS(), root); err != nil {
		t.Error(err)
	}
}

func TestSecondOpenerIsToldWhoHoldsTheLock(t *testing.T) {
	root := t.TempDir()
	l, err := Lock(mappedfile.OS(), root)
	if err != nil {
		t.Fatal(err)
	}
	var le *mappedfile.LockedError
	if _, err := Lock(mappedfile.OS(), root); !errors.As(err, &le) || le.PID != os.Getpid() {
		t.Errorf("%v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if b := readFile(t, filepath.Join(root, "lock")); string(b) != "lock" {
		t.Errorf("the lock file holds %q, RocketMQ's holds \"lock\"", b)
	}
	l, err = Lock(mappedfile.OS(), root)
	if err != nil {
		t.Fatalf("after Close: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func TestLockOfAGoldenStoreIsTakenAndLeftAsItWas(t *testing.T) {
	root := filepath.Join(golden.Extract(t, "basic"), "store")
	l, err := Lock(mappedfile.OS(), root)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if b := readFile(t, filepath.Join(root, "lock")); string(b) != string(golden.ReadFile(t, "basic", "store/lock")) {
		t.Errorf("the lock file holds %q", b)
	}
}
