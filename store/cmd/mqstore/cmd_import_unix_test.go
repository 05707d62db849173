//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/store"
)

// killedStore is a store whose import takes long enough to be killed anywhere: several thousand records in some dozens of queues.
func killedStore(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "source")
	s, err := store.Open(dir, store.Options{SegmentSize: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4000 {
		m := &record.Message{Topic: "T" + itoa(i%8), QueueID: int32(i % 3), Body: bytes.Repeat([]byte{byte(i)}, 500), Properties: record.NewProperties(record.PropertyKeys, itoa(i))}
		if _, err := s.Put(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// An import that is killed at any moment leaves its archive as it was and no store; run again it makes the whole one.
func TestKilledImportCanBeRunAgain(t *testing.T) {
	exe, err := exec.LookPath("mqstore")
	if err != nil {
		t.Fatal(err)
	}
	source := killedStore(t)
	archive := filepath.Join(t.TempDir(), "archive.zst")
	must(t, "export", source, archive)
	want, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	must(t, "import", archive, filepath.Join(t.TempDir(), "first"))
	whole := time.Since(began) + 20*time.Millisecond // and a process's start
	killed, finished := 0, 0
	for seed := range effort.Seeds(t, 4, 50) {
		rng := rand.New(rand.NewPCG(seed, 0))
		dir := filepath.Join(t.TempDir(), "new")
		for range 3 { // an import that was killed is killed again
			if out := killAfter(t, exe, time.Duration(rng.Int64N(int64(whole))), "import", archive, dir); out == nil {
				killed++
			} else {
				finished++
				break
			}
			if _, err := os.Stat(filepath.Join(dir, "commitlog")); err == nil {
				if _, _, errs := mqstore(t, "diff", source, dir); errs != "" {
					t.Fatalf("seed %d: there is a log, which is not whole: %s", seed, errs)
				}
				break // killed after its last step: a second run would refuse the store that it finds
			}
		}
		if _, err := os.Stat(filepath.Join(dir, "commitlog")); err != nil {
			must(t, "import", archive, dir)
		}
		if out := must(t, "diff", "--json", source, dir); !strings.Contains(out, `"equal":true`) {
			t.Errorf("seed %d: %s", seed, out)
		}
		var last struct {
			OK       bool  `json:"ok"`
			Findings int64 `json:"findings"`
		}
		_, out, _ := mqstore(t, "verify", "--json", dir)
		rows := lines(out)
		if err := json.Unmarshal([]byte(rows[len(rows)-1]), &last); err != nil {
			t.Fatal(err)
		}
		if !last.OK { // killed in its last step, it may have left an empty directory of its own
			for _, r := range rows[:len(rows)-1] {
				if !strings.Contains(r, "import.partial") {
					t.Errorf("seed %d: %s", seed, r)
				}
			}
		}
		if got, err := os.ReadFile(archive); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("seed %d: the archive changed (%v)", seed, err)
		}
	}
	t.Logf("%d killed, %d were done before", killed, finished)
}

// killAfter runs the command and kills it after d. nil: it was killed; else its output.
func killAfter(t *testing.T, exe string, d time.Duration, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, exe, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if err == nil {
		return append(out.Bytes(), '\n')
	}
	if ctx.Err() == nil {
		t.Fatalf("%v: %s", err, out.Bytes())
	}
	return nil
}
