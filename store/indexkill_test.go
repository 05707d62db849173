package store_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/index"
	"github.com/mqstore/mqstore/store"
)

var killOptions = store.Options{SegmentSize: 256 << 10, Index: store.IndexOptions{TailEntries: 700, FlushEvery: 3 * time.Millisecond, BucketSize: 256 << 10}}

// putUntilKilled is the child of TestIndexSurvivesKills.
func putUntilKilled(dir string) {
	s, err := store.Open(dir, killOptions)
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	for i := 0; ; i++ {
		m := message("T", int32(i%4), strings.Repeat("x", i%300), record.PropertyUniqKey, fmt.Sprintf("%d-%d", os.Getpid(), i), record.PropertyKeys, fmt.Sprintf("k%d k%d all", i%50, i%7))
		if _, err := s.Put(bg, m); err != nil {
			fmt.Println("error:", err)
			return
		}
		if i%100 == 0 {
			fmt.Println("put", i)
		}
		if i%100 == 0 && s.MaxPhyOffset()-s.MinPhyOffset() > 4<<20 {
			if _, err := s.DeleteExpired(store.ExpireOptions{Manual: true, Max: 4}); err != nil {
				fmt.Println("error:", err)
				return
			}
		}
	}
}

// Killed at any moment, again and again on one directory: reopened, the index holds each key of the log up to its progress exactly once; then it catches up, and holds each key of the log exactly once.
func TestIndexSurvivesKills(t *testing.T) {
	if dir := os.Getenv("MQSTORE_TEST_PUT_UNTIL_KILLED"); dir != "" {
		putUntilKilled(dir)
		return
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	behind, keys := 0, 0
	for n := range effort.N(6, 50) {
		child := exec.Command(os.Args[0], "-test.run=^TestIndexSurvivesKills$", "-test.count=1")
		child.Env = append(os.Environ(), "MQSTORE_TEST_PUT_UNTIL_KILLED="+dir)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		until := rng.IntN(60) * 100
		if n == 0 {
			until = 3000
		}
		for lines.Scan() {
			if msg, bad := strings.CutPrefix(lines.Text(), "error:"); bad {
				t.Fatal(msg)
			}
			if i, err := strconv.Atoi(strings.TrimPrefix(lines.Text(), "put ")); err == nil && i >= until {
				break
			}
		}
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, out)
		child.Wait() // "killed"

		o := killOptions
		o.NoBackground = true // nothing is indexed before we looked
		o.Events.IndexRebuilt = func(err error) { t.Errorf("kill %d: rebuilt: %v", n, err) }
		s, err := store.Open(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		progress := s.Stats().Index.ProgressPhyOffset
		if progress < s.MaxPhyOffset() {
			behind++
		}
		indexHolds(t, s, progress)
		for {
			k, err := s.IndexStep(1000)
			if err != nil {
				t.Fatal(err)
			}
			if k == 0 {
				break
			}
		}
		if err := s.FlushIndex(); err != nil {
			t.Fatal(err)
		}
		keys = indexHolds(t, s, s.MaxPhyOffset())
		all := wholeLog(t, s)
		for _, m := range []*record.Message{all[0], all[len(all)/2], all[len(all)-1]} {
			if got := find(t, s, "T", m.UniqKey()); !slices.Equal(got, []int64{m.PhyOffset}) {
				t.Fatalf("%s: %v, want %d", m.UniqKey(), got, m.PhyOffset)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("the index was behind the log after %d kills; at the end it held %d keys", behind, keys)
}

// indexHolds fails unless the index holds each key of the log below end exactly once.
func indexHolds(t *testing.T, s *store.DefaultMessageStore, end int64) (keys int) {
	t.Helper()
	type place struct {
		hash      uint64
		phyOffset int64
	}
	want := map[place]bool{}
	for _, m := range wholeLog(t, s) {
		if m.PhyOffset >= end {
			break
		}
		for _, k := range keysOf(m) {
			want[place{index.Hash(m.Topic, k), m.PhyOffset}] = true
		}
	}
	keys = len(want)
	for e, err := range s.IndexEntries() {
		if err != nil {
			t.Fatal(err)
		}
		if e.PhyOffset < s.MinPhyOffset() {
			continue
		}
		p := place{e.Hash, e.PhyOffset}
		if !want[p] {
			t.Fatalf("%+v is there twice, or should not be; progress %d, log [%d, %d)", e, end, s.MinPhyOffset(), s.MaxPhyOffset())
		}
		delete(want, p)
	}
	if len(want) > 0 {
		t.Fatalf("%d of %d keys below %d are missing", len(want), keys, end)
	}
	return keys
}
