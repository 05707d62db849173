package repair

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mqstore/mqstore/conformance/golden"
)

func findingsOf(t *testing.T, dir string, o CheckOptions) (out []Finding) {
	t.Helper()
	o.Dir = dir
	if _, err := Check(t.Context(), os.DirFS(dir), nil, o, func(f Finding) error {
		out = append(out, f)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// A truncation that was announced and interrupted is one finding, with the place and the verb that finishes it; a file that announces nothing is one for the operator.
func TestCheckTellsAnAnnouncedTruncation(t *testing.T) {
	clean := filepath.Join(golden.Extract(t, "basic"), "store")
	all := messages(t, clean)
	to, end := all[len(all)/2].phyOffset, all[len(all)-1].phyOffset+int64(all[len(all)-1].size)
	for name, c := range map[string]struct {
		holds string
		phy   int64
		mend  string
		says  string
	}{
		"in the middle":   {fmt.Sprintf("%d\n", to), to, MendRecover, fmt.Sprintf("still ends at %d", end)},
		"at the end":      {fmt.Sprint(end), end, MendRecover, "already"},
		"of no number":    {"soon\n", -1, MendByHand, "holds no physical offset"},
		"below zero":      {"-1\n", -1, MendByHand, "holds no physical offset"},
		"without content": {"", -1, MendByHand, "holds no physical offset"},
		"too long":        {strings.Repeat("1", 1000), -1, MendByHand, "holds no physical offset"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			copyTree(t, clean, dir)
			file := filepath.Join(dir, "quarantine", announced)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(c.holds), 0o644); err != nil {
				t.Fatal(err)
			}
			got := findingsOf(t, dir, CheckOptions{})
			if len(got) != 1 || got[0].Kind != UncleanExit || got[0].File != "quarantine/commitlog-truncate-to" || got[0].PhyOffset != c.phy || got[0].Mend != c.mend || !strings.Contains(got[0].Detail, c.says) {
				t.Fatalf("%+v", got)
			}
			if live := findingsOf(t, dir, CheckOptions{Live: true}); len(live) > 0 {
				t.Errorf("live: %+v", live)
			}
			_, err := Recover(t.Context(), Options{Root: dir})
			if c.mend == MendByHand {
				if err == nil {
					t.Error("recovered without an offset")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if left := findingsOf(t, dir, CheckOptions{}); len(left) > 0 {
				t.Errorf("after recover: %+v", left)
			}
			if segs := messages(t, dir); segs[len(segs)-1].phyOffset+int64(segs[len(segs)-1].size) != c.phy {
				t.Errorf("the log does not end at %d", c.phy)
			}
		})
	}
}
