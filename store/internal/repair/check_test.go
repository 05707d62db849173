package repair

import (
	"context"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mqstore/mqstore/conformance/golden"
)

// checkDir is everything that Check finds in a store directory.
func checkDir(t testing.TB, dir string, o CheckOptions) ([]Finding, Checked) {
	t.Helper()
	o.Dir = dir
	var found []Finding
	sum, err := Check(context.Background(), os.DirFS(dir), nil, o, func(f Finding) error {
		found = append(found, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found, sum
}

func show(f Finding) string {
	return fmt.Sprintf("%s %s phy %d %s/%d@%d mend %q: %s", f.Kind, f.File, f.PhyOffset, f.Topic, f.QueueID, f.QueueOffset, f.Mend, f.Detail)
}

// brief is a finding as a line of a table: its kind, file and place.
func brief(f Finding) string {
	s := string(f.Kind) + " " + f.File
	if f.PhyOffset >= 0 {
		s += fmt.Sprintf(" phy %d", f.PhyOffset)
	}
	if f.Topic != "" {
		s += fmt.Sprintf(" %s/%d", f.Topic, f.QueueID)
	}
	if f.QueueOffset >= 0 {
		s += fmt.Sprintf("@%d", f.QueueOffset)
	}
	return s
}

// goldenFindings are those of the golden directories that were damaged, before and after the original had opened them again. All others have none.
var goldenFindings = map[string][]string{
	"clean-lostqueue/store-before": {
		"missing-queue consumequeue/TopicB/0 phy 944 TopicB/0",
		"missing-queue consumequeue/TopicB/1 phy 2464 TopicB/1",
	},
	"clean-lostqueue/store-after": { // the original does not notice
		"missing-queue consumequeue/TopicB/0 phy 944 TopicB/0",
		"missing-queue consumequeue/TopicB/1 phy 2464 TopicB/1",
	},
	"clean-torntail/store-before": {
		"torn-tail commitlog/00000000000000032768 phy 44990 TopicA/0@113",
		"index-dangling index/20261129155748244 phy 44990",
	},
	"clean-torntail/store-after": { // nor cuts
		"torn-tail commitlog/00000000000000032768 phy 44990 TopicA/0@113",
		"index-dangling index/20261129155748244 phy 44990",
	},
	"crash-torn/store-before": {
		"torn-tail commitlog/00000000000000032768 phy 39468 TopicA/0@13",
		"index-dangling index/20261129155717596 phy 39468",
		"unclean-exit abort",
	},
	"crash-torn/store-after": {
		"torn-tail commitlog/00000000000000032768 phy 39468 TopicA/0@13",
		"index-behind index phy 39468",
	},
	"crash-lostqueue/store-before": {
		"missing-queue consumequeue/TopicA/0 phy 2829 TopicA/0",
		"missing-queue consumequeue/TopicA/1 phy 2133 TopicA/1",
		"missing-queue consumequeue/TopicA/2 phy 18076 TopicA/2",
		"missing-queue consumequeue/TopicA/3 phy 297 TopicA/3",
		"missing-queue consumequeue/TopicB/0 phy 1015 TopicB/0",
		"missing-queue consumequeue/TopicB/1 phy 6640 TopicB/1",
		"missing-queue consumequeue/TopicC/0 phy 0 TopicC/0",
		"missing-queue consumequeue/TopicC/1 phy 631 TopicC/1",
		"missing-queue consumequeue/TopicC/2 phy 5614 TopicC/2",
		"index-missing index_pebble phy 0",
		"unclean-exit abort",
	},
	"crash-lostqueue/store-after": { // the original rebuilt what lies behind the checkpoint, and fills the places of the rest
		"missing-unit consumequeue/TopicA/0/00000000000000000000 phy 2829 TopicA/0@0",
		"missing-unit consumequeue/TopicA/1/00000000000000000000 phy 2133 TopicA/1@0",
		"missing-unit consumequeue/TopicA/2/00000000000000000000 phy 18076 TopicA/2@0",
		"missing-unit consumequeue/TopicA/3/00000000000000000000 phy 297 TopicA/3@0",
		"missing-unit consumequeue/TopicB/0/00000000000000000000 phy 1015 TopicB/0@0",
		"missing-unit consumequeue/TopicB/1/00000000000000000000 phy 6640 TopicB/1@0",
		"missing-unit consumequeue/TopicC/0/00000000000000000000 phy 0 TopicC/0@0",
		"missing-unit consumequeue/TopicC/1/00000000000000000000 phy 631 TopicC/1@0",
		"missing-unit consumequeue/TopicC/2/00000000000000000000 phy 5614 TopicC/2@0",
		"index-missing index/20261129155803170 phy 0 TopicC/0@0",
	},
}

func TestCheckFindsInEachGoldenWhatWasDoneToIt(t *testing.T) {
	for _, name := range golden.Names() {
		root := golden.Extract(t, name)
		for dir := range stores(t, name) {
			t.Run(name+"/"+dir, func(t *testing.T) {
				found, sum := checkDir(t, filepath.Join(root, dir), CheckOptions{})
				var got []string
				for _, f := range found {
					got = append(got, brief(f))
					if f.Detail == "" || !slices.Contains(Kinds, f.Kind) {
						t.Errorf("finding without detail, or of an unknown kind: %s", show(f))
					}
				}
				want := slices.Clone(goldenFindings[name+"/"+dir])
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Errorf("found\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
				}
				if sum.Findings != int64(len(found)) || sum.Records == 0 {
					t.Errorf("sum %+v of %d findings", sum, len(found))
				}
			})
		}
	}
}

func TestCheckLeavesEveryByteAndTimeAsItFoundThem(t *testing.T) {
	b := &bases{TB: t}
	for _, base := range []string{"ours", "basic", "consumequeueext", "lmq"} {
		for i, d := range damages {
			if d.base != base || i%7 != 0 {
				continue
			}
			s := b.site(t, base)
			d.do(s)
			before := everythingIn(t, s.dir)
			checkDir(t, s.dir, CheckOptions{})
			if after := everythingIn(t, s.dir); before != after {
				t.Errorf("%s: before\n%s\nafter\n%s", d.name, before, after)
			}
		}
	}
}

// everythingIn is names, modes, times and bytes of a tree.
func everythingIn(t *testing.T, dir string) string {
	var out strings.Builder
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		sum := uint32(0)
		if info.Mode().IsRegular() {
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			sum = crc32.ChecksumIEEE(b)
		}
		fmt.Fprintf(&out, "%s %v %v %d %08x\n", p, info.Mode(), info.ModTime(), info.Size(), sum)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}
