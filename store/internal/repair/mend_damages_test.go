package repair

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mqstore/mqstore/conformance/effort"
)

// For each damage of the table, what the findings name does not only make Check silent: every record that was whole is still there, in its place among the
// others, with nothing else; what was cut lies in quarantine; dry runs told the same and changed nothing; and the store serves what its log holds.
func TestEachMendedDamageKeepsWhatWasWhole(t *testing.T) {
	step := 4
	if effort.Current() == effort.Full || effort.Current() == effort.Endless {
		step = 1
	}
	for i, d := range damages {
		if d.mend == MendByHand || i%step != 0 {
			continue
		}
		t.Run(strings.ReplaceAll(d.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, d.base)
			root := t.TempDir()
			clean, damaged := filepath.Join(root, "clean"), filepath.Join(root, "damaged")
			copyTree(t, s.dir, clean)
			all := messages(t, clean)
			d.do(s)
			copyTree(t, s.dir, damaged)
			whole := wholeAfter(t, clean, damaged, all)
			known := map[string]bool{}
			for _, m := range append(slices.Clone(all), messages(t, damaged)...) { // a change that no checksum covers cannot be seen
				known[m.rest] = true
			}
			dir := s.dir
			switch {
			case finds(t, dir, MendSalvage):
				dir = filepath.Join(root, "new")
				if _, err := salvageBoth(t, damaged, dir); err != nil {
					t.Fatal(err)
				}
				neverSkips(t, dir, whole)
			default:
				if finds(t, dir, MendRecover) {
					r, err := recoverBoth(t, dir)
					if err != nil {
						t.Fatal(err)
					}
					inQuarantine(t, r, damaged, s.segment)
					whole = slices.DeleteFunc(whole, func(m message) bool { return m.phyOffset >= r.TruncatedTo })
				}
				if finds(t, dir, MendRebuild) {
					rebuildBoth(t, RebuildOptions{Options: Options{Root: dir}})
				}
			}
			keeps(t, dir, whole, known)
			served(t, dir)
			if _, err := os.Stat(filepath.Join(dir, abortFile)); err == nil {
				t.Error("the abort file is still there")
			}
		})
	}
}
