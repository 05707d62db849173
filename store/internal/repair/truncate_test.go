package repair

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/conformance/golden"
)

// truncateBoth truncates after a dry run, and compares what they tell.
func truncateBoth(t *testing.T, dir string, to int64) (Truncated, error) {
	t.Helper()
	before := tree(t, dir)
	dry, dryErr := Truncate(t.Context(), Options{Root: dir, DryRun: true}, to)
	unchanged(t, "the dry run", before, tree(t, dir))
	wet, err := Truncate(t.Context(), Options{Root: dir}, to)
	if d := cmp.Diff(fmt.Sprintf("%+v %v", dry, dryErr), fmt.Sprintf("%+v %v", wet, err)); d != "" {
		t.Errorf("truncate to %d (- dry run, + run):\n%s", to, d)
	}
	return wet, err
}

// Cut at any boundary, a store is as if the records behind had never been, and what they were lies in quarantine.
func TestTruncateCutsEverythingAboveABoundary(t *testing.T) {
	for _, base := range []string{"basic", "lmq", "deleted-head"} {
		clean := filepath.Join(golden.Extract(t, base), "store")
		all := messages(t, clean)
		segment := look(t, clean).SegmentSize()
		step := max(1, len(all)/effort.N(3, 20))
		for i := 0; i <= len(all); i += step {
			to := all[len(all)-1].phyOffset + int64(all[len(all)-1].size)
			if i < len(all) {
				to = all[i].phyOffset
			}
			t.Run(fmt.Sprintf("%s/%d", base, i), func(t *testing.T) {
				t.Parallel()
				dir := filepath.Join(t.TempDir(), "store")
				copyTree(t, clean, dir)
				r, err := truncateBoth(t, dir, to)
				if err != nil {
					t.Fatal(err)
				}
				if int(r.Records) != len(all)-i {
					t.Errorf("%d records cut, want %d", r.Records, len(all)-i)
				}
				inQuarantine(t, Recovered{Quarantine: r.Quarantine, DroppedBytes: r.Bytes}, clean, segment)
				known := map[string]bool{}
				for _, m := range all[:i] {
					known[m.rest] = true
				}
				keeps(t, dir, all[:i], known)
				finds(t, dir, "never")
				served(t, dir)
				if again, err := truncateBoth(t, dir, to); err != nil || again.Bytes != 0 || again.Units != 0 {
					t.Errorf("again: %+v %v", again, err)
				}
			})
		}
	}
}

// A place within a record, a blank or damage is refused, and the boundaries around it are named; nothing changes.
func TestTruncateNamesTheBoundariesAround(t *testing.T) {
	clean := filepath.Join(golden.Extract(t, "basic"), "store")
	dir := filepath.Join(t.TempDir(), "store")
	copyTree(t, clean, dir)
	all := messages(t, dir)
	segment := look(t, dir).SegmentSize()
	v := &victim{dir: dir, all: all, segment: segment}
	before, after := all[3], all[4]
	lost := all[len(all)-5]
	if err := v.in(lost, func(b []byte) { clear(b) }); err != nil {
		t.Fatal(err)
	}
	type refusal struct {
		to            int64
		before, after int64
		text          string
	}
	end := all[len(all)-1].phyOffset + int64(all[len(all)-1].size)
	cases := []refusal{
		{before.phyOffset + 1, before.phyOffset, after.phyOffset, "a record"},
		{after.phyOffset - 1, before.phyOffset, after.phyOffset, "a record"},
		{lost.phyOffset + 4, lost.phyOffset, lost.phyOffset + int64(lost.size), "damage"},
		{lost.phyOffset + int64(lost.size), 0, 0, "damage lies before"},
		{end + 1000, 0, 0, "beyond the log's end"},
		{1 << 40, 0, 0, "beyond the log's end"},
	}
	for i := 1; i < len(all); i++ {
		if e := all[i-1].phyOffset + int64(all[i-1].size); all[i].phyOffset > e+4 {
			cases = append(cases, refusal{e + 4, e, all[i].phyOffset, "the blank"})
			break
		}
	}
	state := tree(t, dir)
	for _, c := range cases {
		_, err := Truncate(t.Context(), Options{Root: dir}, c.to)
		var b *BoundaryError
		switch {
		case err == nil || !strings.Contains(err.Error(), c.text):
			t.Errorf("to %d: %v, want %q", c.to, err, c.text)
		case c.after > 0 && (!errors.As(err, &b) || b.Before != c.before || b.After != c.after):
			t.Errorf("to %d: %v, want %d and %d", c.to, err, c.before, c.after)
		}
	}
	now := tree(t, dir)
	for p := range now { // the lock file is made by the first that takes it
		if filepath.Base(p) == "lock" || p == dir {
			delete(now, p)
			delete(state, p)
		}
	}
	unchanged(t, "a refusal", state, now)
	// At the damage itself it is given up.
	if _, err := Truncate(t.Context(), Options{Root: dir}, lost.phyOffset); err != nil {
		t.Fatal(err)
	}
	finds(t, dir, "never")
}

// A queue of which everything has expired keeps its number when the queues are rebuilt, and when the store is salvaged.
func TestExpiredQueuesKeepTheirNumbers(t *testing.T) {
	dir := filepath.Join(golden.Extract(t, "deleted-head"), "store")
	all := messages(t, dir)
	last := all[len(all)-1]
	// Give a queue of its own to what lies before the log's head.
	from, name := filepath.Join(dir, queueDir, last.queue.Topic, fmt.Sprint(last.queue.QueueID)), QueueName{"Expired", 3}
	to := filepath.Join(dir, queueDir, name.Topic, fmt.Sprint(name.QueueID))
	copyTree(t, from, to)
	files, err := os.ReadDir(to)
	if err != nil {
		t.Fatal(err)
	}
	min := all[0].phyOffset
	want := int64(-1)
	for _, f := range files {
		path := filepath.Join(to, f.Name())
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		start, _ := segmentStart(f.Name())
		for i := 0; i+20 <= len(b); i += 20 {
			if phy := int64(b[4])<<24 | int64(b[i+4])<<24 | int64(b[i+5])<<16 | int64(b[i+6])<<8 | int64(b[i+7]); phy >= min || phy == 0 && b[i+8] == 0 && b[i+11] == 0 {
				clear(b[i:])
				break
			}
			want = (start + int64(i)) / 20
		}
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want < 0 {
		t.Fatal("nothing of that queue has expired")
	}
	salvaged := filepath.Join(t.TempDir(), "new")
	if _, err := salvageBoth(t, dir, salvaged); err != nil {
		t.Fatal(err)
	}
	rebuildBoth(t, RebuildOptions{Options: Options{Root: dir}, Queues: true})
	for _, d := range []string{dir, salvaged} {
		u, err := look(t, d).lastUnit(name)
		if err != nil || u == nil || u.QueueOffset != want {
			t.Errorf("%s: %+v %v, want the last unit to be %d", d, u, err, want)
		}
	}
}

// Each golden, rebuilt, has the units and keys that it had, and the old ones lie in quarantine.
func TestRebuildMakesWhatWasThere(t *testing.T) {
	for _, base := range []string{"basic", "batch", "lmq", "delay", "deleted-head", "consumequeueext"} {
		t.Run(base, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(golden.Extract(t, base), "store")
			old := tree(t, filepath.Join(dir, queueDir))
			all := messages(t, dir)
			r := rebuildBoth(t, RebuildOptions{Options: Options{Root: dir}})
			if int(r.Records) != len(all) || r.Keys == 0 {
				t.Errorf("%+v, the log has %d records", r, len(all))
			}
			kept := filepath.Join(dir, quarantineDir, queueDir)
			for p, s := range tree(t, kept) {
				rel, _ := filepath.Rel(kept, p)
				if was := old[filepath.Join(dir, queueDir, rel)]; !strings.Contains(was, strings.SplitN(s, " ", 5)[0]) {
					t.Errorf("%s is not what it was", p)
				}
			}
			finds(t, dir, "never")
			served(t, dir)
		})
	}
}

// A store without an index stays without one, if that is how it is run.
func TestRecoverMakesNoIndexWhereNoneIsWanted(t *testing.T) {
	dir := filepath.Join(golden.Extract(t, "basic"), "store")
	if err := os.RemoveAll(filepath.Join(dir, indexDir)); err != nil {
		t.Fatal(err)
	}
	r, err := Recover(t.Context(), Options{Root: dir, NoIndex: true})
	if err != nil || r.RebuiltKeys != 0 {
		t.Fatalf("%+v %v", r, err)
	}
	if _, err := os.Stat(filepath.Join(dir, pebbleDir)); err == nil {
		t.Error("it has an index now")
	}
}

// What this version cannot keep in step with the log is not written beside.
func TestVerbsThatWriteRefuseForeignFormats(t *testing.T) {
	for name, file := range map[string]string{"batch queues": "batchconsumequeue/T/0/00000000000000000000", "epochs": "epochFileCheckpoint", "DLedger": "dledger-n0/data/x", "RocksDB": "consumequeue_r/CURRENT"} {
		dir := filepath.Join(golden.Extract(t, "ipv6"), "store")
		path := filepath.Join(dir, file)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, []byte("x"), 0o644)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(filepath.Dir(path), "MANIFEST-000001"), nil, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		before := tree(t, dir)
		if _, err := Recover(t.Context(), Options{Root: dir}); err == nil || !strings.Contains(err.Error(), "does not write") {
			t.Errorf("%s: %v", name, err)
		}
		unchanged(t, "a refusal", before, tree(t, dir))
	}
}
