//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/store"
)

// newVictim makes a store of ours: some hundred messages with keys in three topics, segments of 64 KiB.
func newVictim(t *testing.T, dir string, messages int) {
	t.Helper()
	s, err := store.Open(dir, store.Options{SegmentSize: 64 << 10, QueueFileSize: 2000, Index: store.IndexOptions{BucketSize: 64 << 10}})
	if err != nil {
		t.Fatal(err)
	}
	host := record.HostFrom(netip.MustParseAddrPort("10.0.0.1:10911"))
	for i := range messages {
		m := &record.Message{
			Topic: fmt.Sprintf("Topic%c", 'A'+i%3), QueueID: int32(i % 2), BornHost: host, StoreHost: host, Body: bytes.Repeat([]byte{byte(i)}, 100+i%900),
			Properties: record.NewProperties(record.PropertyKeys, fmt.Sprintf("k%d", i), record.PropertyTags, "t"),
		}
		if _, err := s.Put(context.Background(), m); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.WaitIndexed(context.Background(), s.MaxPhyOffset()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// editFile changes a file in place.
func editFile(t *testing.T, path string, f func(b []byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, f(b), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func segmentFile(dir string, n int64) string {
	return filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", n*(64<<10)))
}

// mendCase is a verb, what it is to mend, and its arguments. With salvage the store to look at afterwards is another one.
type mendCase struct {
	damage func(t *testing.T, dir string)
	args   func(dir, other string) []string
	other  bool
}

func mendCases(boundary int64) map[string]mendCase {
	return map[string]mendCase{
		"recover": {
			damage: func(t *testing.T, dir string) {
				files, _ := filepath.Glob(filepath.Join(dir, "commitlog", "*"))
				editFile(t, files[len(files)-1], func(b []byte) []byte {
					end := len(bytes.TrimRight(b, "\x00"))
					copy(b[end:], "half a record that never came")
					return b
				})
				for _, p := range []string{"consumequeue/TopicB", "consumequeue/TopicC/1", "index_pebble"} {
					if err := os.RemoveAll(filepath.Join(dir, p)); err != nil {
						t.Fatal(err)
					}
				}
				if err := os.WriteFile(filepath.Join(dir, "abort"), nil, 0o644); err != nil {
					t.Fatal(err)
				}
			},
			args: func(dir, _ string) []string { return []string{"recover", dir} },
		},
		"salvage": {
			damage: func(t *testing.T, dir string) {
				for n := int64(0); n < 6; n += 2 {
					editFile(t, segmentFile(dir, n), func(b []byte) []byte { clear(b[20000:22000]); return b })
				}
			},
			args:  func(dir, other string) []string { return []string{"salvage", dir, other} },
			other: true,
		},
		"rebuild": {
			damage: func(t *testing.T, dir string) {
				files, _ := filepath.Glob(filepath.Join(dir, "consumequeue", "*", "*", "*"))
				for _, f := range files {
					editFile(t, f, func(b []byte) []byte { b[7] ^= 1; return b })
				}
			},
			args: func(dir, _ string) []string { return []string{"rebuild", dir} },
		},
		"truncate": {
			damage: func(*testing.T, string) {},
			args: func(dir, _ string) []string {
				return []string{"truncate", "--to", fmt.Sprint(boundary), dir}
			},
		},
	}
}

// inside runs the command in this process, and returns its output.
func inside(t *testing.T, want int, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if got := run(t.Context(), args, &out, &errs); got != want {
		t.Errorf("mqstore %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), got, want, out.String(), errs.String())
	}
	return out.String()
}

// state is what a store serves: its records and queues. It must verify.
func state(t *testing.T, dir string) string {
	t.Helper()
	inside(t, exitOK, "verify", dir)
	return inside(t, exitOK, "dump", "--json", dir) + inside(t, exitOK, "queues", "--json", dir)
}

// keptIn are the files in quarantine that hold what was cut from the log.
func keptIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "quarantine", "commitlog-0*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		names = append(names, filepath.Base(f))
	}
	return names
}

// A verb that writes, killed or interrupted at any moment, loses nothing and can be run again: the end is as if nothing had happened, and the source of a
// salvage is untouched.
func TestKilledVerbCanBeRunAgain(t *testing.T) {
	exe, err := exec.LookPath("mqstore")
	if err != nil {
		t.Fatal(err)
	}
	fresh := filepath.Join(t.TempDir(), "fresh")
	newVictim(t, fresh, 1200)
	var at struct{ PhyOffset int64 }
	if err := json.Unmarshal([]byte(strings.Split(inside(t, exitOK, "dump", "--json", "--from", "200000", "--max", "1", fresh), "\n")[0]), &at); err != nil {
		t.Fatal(err)
	}
	for name, c := range mendCases(at.PhyOffset) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
			root := t.TempDir()
			damaged := filepath.Join(root, "damaged")
			if err := os.CopyFS(damaged, os.DirFS(fresh)); err != nil {
				t.Fatal(err)
			}
			c.damage(t, damaged)

			// Undisturbed, and how long that takes.
			ref, refOther := filepath.Join(root, "ref"), filepath.Join(root, "ref.new")
			if err := os.CopyFS(ref, os.DirFS(damaged)); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			if b, err := exec.Command(exe, c.args(ref, refOther)...).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, b)
			}
			took := time.Since(begin)
			if c.other {
				ref = refOther
			}
			want, kept := state(t, ref), keptIn(t, ref)

			interrupted, finished := 0, 0
			for round := range effort.N(4, 50) {
				dir, other := filepath.Join(root, fmt.Sprint("dir", round)), filepath.Join(root, fmt.Sprint("new", round))
				if err := os.CopyFS(dir, os.DirFS(damaged)); err != nil {
					t.Fatal(err)
				}
				before := ""
				if c.other {
					before = tree(t, dir)
				}
				for range 1 + rng.IntN(2) {
					cmd := exec.Command(exe, c.args(dir, other)...)
					var errs bytes.Buffer
					cmd.Stderr = &errs
					signal := os.Signal(os.Kill)
					if rng.IntN(4) == 0 {
						signal = os.Interrupt
					}
					if err := cmd.Start(); err != nil {
						t.Fatal(err)
					}
					timer := time.AfterFunc(time.Duration(rng.Int64N(int64(took))), func() { cmd.Process.Signal(signal) })
					err := cmd.Wait()
					timer.Stop()
					switch code := cmd.ProcessState.ExitCode(); {
					case err == nil:
						finished++
					case code == -1 && cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled():
						interrupted++
					case code == exitFailed && strings.Contains(errs.String(), "interrupted"):
						interrupted++
					case code == exitFailed && c.other && strings.Contains(errs.String(), "is not empty"): // it was finished the time before
						finished++
					default:
						t.Fatalf("round %d: %v: %s", round, err, errs.String())
					}
				}
				if _, err := os.Stat(filepath.Join(other, "checkpoint")); !c.other || err != nil || isUnfinished(other) {
					if b, err := exec.Command(exe, c.args(dir, other)...).CombinedOutput(); err != nil {
						t.Fatalf("round %d: run again: %v\n%s", round, err, b)
					}
				}
				if c.other {
					if d := cmp.Diff(before, tree(t, dir)); d != "" {
						t.Fatalf("round %d: the source changed:\n%s", round, d)
					}
					dir = other
				}
				if got := state(t, dir); got != want {
					t.Fatalf("round %d: not as if nothing had happened:\n%s", round, cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")))
				}
				for _, k := range kept {
					if !slices.Contains(keptIn(t, dir), k) {
						t.Errorf("round %d: %s is not in quarantine: %v", round, k, keptIn(t, dir))
					}
				}
				if err := os.RemoveAll(dir); err != nil {
					t.Fatal(err)
				}
			}
			t.Logf("%d interrupted, %d finished", interrupted, finished)
		})
	}
}

func isUnfinished(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "mqstore.salvage"))
	return err == nil
}
