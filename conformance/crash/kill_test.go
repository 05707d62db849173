package crash

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/store"
)

// Environment of a child: it is one if childDir is set.
const (
	childDir   = "MQSTORE_CRASH_DIR"
	childMode  = "MQSTORE_CRASH_FLUSH"
	childRound = "MQSTORE_CRASH_ROUND"
)

// childOptions make a store that rolls, flushes and checkpoints all the time, so that a kill meets all of it.
func childOptions(mode store.FlushMode) store.Options {
	return store.Options{
		SegmentSize: 64 << 10, QueueFileSize: 2000, FlushMode: mode,
		FlushEvery: 3 * time.Millisecond, QueueFlushEvery: 5 * time.Millisecond, CheckpointEvery: 20 * time.Millisecond,
		SyncFlushTimeout: time.Hour, PutBusyAfter: time.Hour, // the machine's disk may be as slow as it likes
	}
}

// putters of a child: each has a queue of its own and one that all share.
const putters = 4

// bodyOf makes the body that belongs to a key: what is read can be checked without having kept it.
func bodyOf(key string) []byte {
	h := crc32.ChecksumIEEE([]byte(key))
	return append([]byte(key+" "), bytes.Repeat([]byte{'a' + byte(h%26)}, int(h>>8)%900)...)
}

// child is a process that puts until it is killed, and says of each message that was acked where it is. Each line is one write, so that none is half there.
func child(dir string) error {
	mode, err := strconv.Atoi(os.Getenv(childMode))
	if err != nil {
		return err
	}
	round := os.Getenv(childRound)
	fmt.Println("start")
	s, err := store.Open(dir, childOptions(store.FlushMode(mode)))
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	fmt.Println("open")
	failed := make(chan error, putters)
	for p := range putters {
		go func() { failed <- putUntilKilled(s, round, p) }()
	}
	return <-failed
}

func putUntilKilled(s *store.DefaultMessageStore, round string, p int) error {
	type put struct {
		f   *store.Future
		m   *record.Message
		key string
	}
	var flying []put
	for n := 0; ; n++ {
		key := fmt.Sprintf("%s.%d.%d", round, p, n)
		m := &record.Message{Topic: "Shared", BornHost: host, StoreHost: host, Body: bodyOf(key)}
		if n%2 == 0 {
			m.Topic, m.QueueID = "Own", int32(p)
		}
		ack := func(m *record.Message, phyOffset, queueOffset int64, key string) {
			fmt.Printf("ack %s %d %d %d %s\n", m.Topic, m.QueueID, queueOffset, phyOffset, key)
		}
		switch {
		case p == 1 && n%5 == 0:
			m.Body = nil
			keys := []string{key + "x", key + "y", key + "z"}
			var items []record.BatchItem
			for _, k := range keys {
				items = append(items, record.BatchItem{Body: bodyOf(k)})
			}
			r, err := s.PutBatch(context.Background(), m, items)
			if err != nil || r.Status != store.PutOK {
				return fmt.Errorf("batch: %v %w", r.Status, err)
			}
			for i, k := range keys {
				ack(m, r.Offsets[i], r.QueueOffset+int64(i), k)
			}
		case p == 2:
			flying = append(flying, put{s.PutAsync(m), m, key})
			if len(flying) == 8 {
				for _, f := range flying {
					r, err := f.f.Wait(context.Background())
					if err != nil || r.Status != store.PutOK {
						return fmt.Errorf("async put: %v %w", r.Status, err)
					}
					ack(f.m, r.PhyOffset, r.QueueOffset, f.key)
				}
				flying = flying[:0]
			}
		default:
			r, err := s.Put(context.Background(), m)
			if err != nil || r.Status != store.PutOK {
				return fmt.Errorf("put: %v %w", r.Status, err)
			}
			ack(m, r.PhyOffset, r.QueueOffset, key)
		}
	}
}

type acked struct {
	queue                  queueKey
	queueOffset, phyOffset int64
	key                    string
}

// runChild starts a child, kills it after a random number of acks, and returns all that it said.
func runChild(t *testing.T, rng *rand.Rand, dir string, mode store.FlushMode, round int) []acked {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childDir+"="+dir, fmt.Sprintf("%s=%d", childMode, mode), fmt.Sprintf("%s=%d", childRound, round))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// Some die while they open, the others after some acks.
	killAfter := 0
	if rng.IntN(5) > 0 {
		killAfter = 2 + rng.IntN(1500)
	}
	var acks []acked
	var kill sync.Once
	in := bufio.NewReader(out)
	for lines := 0; ; lines++ {
		line, err := in.ReadString('\n')
		if lines >= killAfter || err != nil {
			kill.Do(func() { cmd.Process.Kill() })
		}
		if err != nil { // a line without its end was cut by the kill
			if !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			break
		}
		f := strings.Fields(line)
		if len(f) == 6 && f[0] == "ack" {
			var a acked
			a.queue.topic, a.key = f[1], f[5]
			if _, err := fmt.Sscan(strings.Join(f[2:5], " "), &a.queue.id, &a.queueOffset, &a.phyOffset); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			acks = append(acks, a)
		}
	}
	cmd.Wait()
	if stderr.Len() > 0 {
		t.Fatalf("round %d: the child gave up before it was killed:\n%s", round, stderr.String())
	}
	return acks
}

// TestKilledProcessLosesNothingAcked: kill -9 at any moment, in either flush mode, and each acked message is where its answer said; no queue has a gap or a double.
func TestKilledProcessLosesNothingAcked(t *testing.T) {
	for _, mode := range []store.FlushMode{store.AsyncFlush, store.SyncFlush} {
		t.Run(mode.String(), func(t *testing.T) {
			dir := t.TempDir() + "/store"
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 9))
			var acks []acked
			kills := effort.N(3, 30)
			for round := range kills {
				acks = append(acks, runChild(t, rng, dir, mode, round)...)
				if rng.IntN(2) == 0 {
					continue // the next child recovers
				}
				s, err := store.Open(dir, childOptions(mode))
				if err != nil {
					t.Fatalf("round %d: open: %v", round, err)
				}
				ackedAreThere(t, s, acks)
				if err := s.Close(); err != nil {
					t.Fatalf("round %d: close: %v", round, err)
				}
			}
			s, err := store.Open(dir, childOptions(mode))
			if err != nil {
				t.Fatalf("open: %v", err)
			}
			defer s.Close()
			ackedAreThere(t, s, acks)
			t.Logf("%d kills, %d messages acked, %d stored", kills, len(acks), queued(t, s))
		})
	}
}

func ackedAreThere(t *testing.T, s *store.DefaultMessageStore, acks []acked) {
	t.Helper()
	for _, a := range acks {
		m, err := s.Lookup(a.phyOffset)
		if err != nil {
			t.Fatalf("acked message %+v: %v", a, err)
		}
		if m.Topic != a.queue.topic || m.QueueID != a.queue.id || m.QueueOffset != a.queueOffset || !bytes.Equal(m.Body, bodyOf(a.key)) {
			t.Fatalf("acked message %+v: at its place is %s-%d@%d %.40q", a, m.Topic, m.QueueID, m.QueueOffset, m.Body)
		}
		phyOffset, err := s.PhyOffset(a.queue.topic, a.queue.id, a.queueOffset)
		if err != nil || phyOffset != a.phyOffset {
			t.Fatalf("acked message %+v: its queue says %d, %v", a, phyOffset, err)
		}
	}
}

// queued counts the messages in all queues and checks that each is whole and its own.
func queued(t *testing.T, s *store.DefaultMessageStore) (n int) {
	t.Helper()
	seen := map[string]bool{}
	for _, q := range s.Queues() {
		next := q.MinOffset
		for m, err := range s.Scan(context.Background(), q.Topic, q.QueueID, q.MinOffset) {
			if err != nil {
				t.Fatalf("scan %s-%d at %d: %v", q.Topic, q.QueueID, next, err)
			}
			key, _, _ := strings.Cut(string(m.Body), " ")
			if m.QueueOffset != next || m.Topic != q.Topic || m.QueueID != q.QueueID || !slices.Equal(m.Body, bodyOf(key)) || seen[key] {
				t.Fatalf("%s-%d@%d: got %s-%d@%d %.40q, seen before: %v", q.Topic, q.QueueID, next, m.Topic, m.QueueID, m.QueueOffset, m.Body, seen[key])
			}
			seen[key] = true
			next++
			n++
		}
		if next != q.MaxOffset {
			t.Fatalf("%s-%d: scanned up to %d of [%d, %d)", q.Topic, q.QueueID, next, q.MinOffset, q.MaxOffset)
		}
	}
	return n
}
