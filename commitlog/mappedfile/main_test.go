package mappedfile_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
)

// childEnv makes the test binary act as another process: its value names the part in children.
const childEnv = "MAPPEDFILE_TEST_CHILD"

var children = map[string]func(args []string) error{}

func TestMain(m *testing.M) {
	if part := os.Getenv(childEnv); part != "" {
		if err := children[part](os.Args[1:]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// orTenth is n, or under the race detector, which is slow, a tenth.
func orTenth(n int) int {
	if raceEnabled {
		return (n + 9) / 10
	}
	return n
}

// onEach runs a test on both file systems.
func onEach(t *testing.T, law func(t *testing.T, fsys mappedfile.FS, root string)) {
	t.Run("os", func(t *testing.T) { law(t, mappedfile.OS(), t.TempDir()) })
	t.Run("faultfs", func(t *testing.T) {
		fsys := faultfs.New()
		root := filepath.FromSlash("/store")
		if err := fsys.MkdirAll(root); err != nil {
			t.Fatal(err)
		}
		law(t, fsys, root)
	})
}
