package repair

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mqstore/mqstore/checkpoint"
	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/conformance/golden"
)

// numbered gives records with these offsets, one after the other of 100 bytes each with a gap of so many bytes before each, their new ones.
func numbered(offsets []int64, gapBefore func(i int) int64) (out []int64) {
	q, at := &numbering{}, int64(0)
	for i, o := range offsets {
		at += gapBefore(i)
		q.see(o, at, 100)
		at += 100
	}
	for _, o := range offsets {
		out = append(out, q.next(o))
	}
	return out
}

func TestSalvageNumbersDenselyAndNeverDown(t *testing.T) {
	const big = 1 << 40
	for _, c := range []struct {
		name      string
		was, want []int64
	}{
		{"whole", []int64{0, 1, 2, 3}, []int64{0, 1, 2, 3}},
		{"head expired", []int64{7, 8, 9}, []int64{7, 8, 9}},
		{"a hole", []int64{0, 1, 5, 6}, []int64{3, 4, 5, 6}},
		{"two holes", []int64{0, 3, 4, 9}, []int64{6, 7, 8, 9}},
		{"numbered anew", []int64{0, 1, 2, 0, 1}, []int64{0, 1, 2, 3, 4}},
		{"one used twice", []int64{0, 1, 1, 2}, []int64{0, 1, 2, 3}},
		{"a damaged number", []int64{0, 1, big, 3, 4}, []int64{0, 1, 2, 3, 4}},
		{"a small damaged number", []int64{0, 1, 5, 3, 4}, []int64{0, 1, 2, 3, 4}},
		{"the last number damaged", []int64{0, 1, 2, big}, []int64{0, 1, 2, 3}},
		{"the first number damaged", []int64{big, 1, 2}, []int64{0, 1, 2}},
		{"a negative number", []int64{0, -1, 2}, []int64{0, 1, 2}},
		{"beyond all bounds", []int64{0, 1<<63 - 1, 2}, []int64{0, 1, 2}},
		{"a jump that the next agrees with", []int64{0, 1, big, big + 1}, []int64{big - 2, big - 1, big, big + 1}},
	} {
		if d := cmp.Diff(c.want, numbered(c.was, func(i int) int64 { return int64(i) * 1000 })); d != "" {
			t.Errorf("%s %v (- want, + got):\n%s", c.name, c.was, d)
		}
	}
	for seed := range effort.Seeds(t, 200, 5000) {
		rng := rand.New(rand.NewPCG(seed, 3))
		var was []int64
		lost := map[int]int64{}
		for i, next := 0, rng.Int64N(5); i < 1+rng.IntN(40); i++ {
			if rng.IntN(5) == 0 {
				n := 1 + rng.Int64N(6)
				lost[len(was)], next = n, next+n
			}
			was = append(was, next)
			if next++; rng.IntN(20) == 0 {
				next = 0
			}
		}
		got := numbered(was, func(i int) int64 { return 100 * lost[i] })
		last, rising := 0, true                                  // behind the last hole
		doubted := len(was) > 1 && 0 < was[1] && was[1] < was[0] // as if the first one were damaged: two records cannot tell
		for i := range was {
			if i > 0 && got[i] != got[i-1]+1 {
				t.Fatalf("seed %d: %v became %v, which is not dense", seed, was, got)
			}
			if got[i] < was[i] && !(i == 0 && doubted) {
				t.Fatalf("seed %d: %v became %v: %d went down", seed, was, got, was[i])
			}
			if i > 0 && was[i] != was[i-1]+1 {
				last, rising = i, rising && was[i] > was[i-1]
			}
		}
		if rising && !slices.Equal(got[last:], was[last:]) {
			t.Fatalf("seed %d: %v became %v: behind the last hole, at %d, they had to stay", seed, was, got, last)
		}
	}
}

// What consumers may have committed of a queue whose last records are lost is not given again: the queue's own files say how far it was numbered.
func TestSalvageTakesALostEndFromTheQueue(t *testing.T) {
	clean := filepath.Join(golden.Extract(t, "basic"), "store")
	all := messages(t, clean)
	v := &victim{dir: filepath.Join(t.TempDir(), "damaged"), all: all, segment: look(t, clean).SegmentSize()}
	copyTree(t, clean, v.dir)
	ends := map[QueueName]int64{}
	for _, m := range all {
		ends[m.queue] = m.queueOffset + 1
	}
	// All of the log's end but its last record.
	for _, m := range all[len(all)-40 : len(all)-1] {
		if err := v.in(m, func(b []byte) { clear(b) }); err != nil {
			t.Fatal(err)
		}
	}
	dst := filepath.Join(t.TempDir(), "new")
	if _, err := salvageBoth(t, v.dir, dst); err != nil {
		t.Fatal(err)
	}
	got := map[QueueName]int64{}
	for _, m := range messages(t, dst) {
		got[m.queue] = m.queueOffset + 1
	}
	sum, err := checkpoint.ReadSummary(mappedfile.OS(), dst)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range sum.Queues { // of those that lost every record
		if q.LastPhy < 0 {
			got[QueueName{q.Topic, q.QueueID}] = q.Max
		}
	}
	if d := cmp.Diff(ends, got); d != "" {
		t.Errorf("where the queues end (- before, + salvaged):\n%s", d)
	}
	finds(t, dst, "never")
	served(t, dst)
}

// Commits and rollbacks point at where their prepared record went.
func TestSalvageKeepsTransactionsTogether(t *testing.T) {
	clean := filepath.Join(golden.Extract(t, "transaction"), "store")
	f := look(t, clean)
	body := map[int64]string{} // by physical offset
	var follow []*record.Message
	read := func(f *Files, see func(m *record.Message)) {
		r, err := f.ReadLog(0)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for {
			rec, err := r.Next()
			if err == io.EOF {
				return
			}
			if d := (*Damage)(nil); errors.As(err, &d) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if rec.CRC == nil {
				see(rec.Message.Clone())
			}
		}
	}
	var firstLost int64 = -1
	read(f, func(m *record.Message) {
		body[m.PhyOffset] = string(m.Body)
		if x := m.SysFlag.Transaction(); x == record.TransactionCommit || x == record.TransactionRollback {
			follow = append(follow, m)
		}
	})
	if len(follow) < 4 {
		t.Fatalf("%d commits and rollbacks", len(follow))
	}
	v := &victim{dir: filepath.Join(t.TempDir(), "damaged"), all: messages(t, clean), segment: f.SegmentSize()}
	copyTree(t, clean, v.dir)
	firstLost = follow[1].PreparedTransactionOffset
	for _, m := range v.all {
		if m.phyOffset == firstLost {
			if err := v.in(m, func(b []byte) { clear(b) }); err != nil {
				t.Fatal(err)
			}
		}
	}
	dst := filepath.Join(t.TempDir(), "new")
	if _, err := salvageBoth(t, v.dir, dst); err != nil {
		t.Fatal(err)
	}
	fresh := map[int64]string{}
	i, moved := 0, 0
	read(look(t, dst), func(m *record.Message) {
		fresh[m.PhyOffset] = string(m.Body)
		if x := m.SysFlag.Transaction(); x != record.TransactionCommit && x != record.TransactionRollback {
			return
		}
		was := follow[i].PreparedTransactionOffset
		i++
		switch at := m.PreparedTransactionOffset; {
		case was == firstLost:
			if at != 0 {
				t.Errorf("the record at %d points at %d, its prepared one is lost", m.PhyOffset, at)
			}
		case fresh[at] != body[was]:
			t.Errorf("the record at %d points at %d, which is not its prepared one", m.PhyOffset, at)
		case at != was:
			moved++
		}
	})
	if i != len(follow) || moved == 0 {
		t.Errorf("%d of %d commits and rollbacks, %d with a moved prepared record", i, len(follow), moved)
	}
}

// RocketMQ cuts the log in memory only: what it leaves behind is older than what it wrote since, and is not brought back to life.
func TestSalvageLeavesLeftoversOut(t *testing.T) {
	l := &leftovers{}
	rec := func(ms int64) *record.Meta { return &record.Meta{StoreTimestamp: ms} }
	for _, ms := range []int64{100, 110, 120} {
		if l.see(rec(ms)) {
			t.Fatal("in doubt without a hole")
		}
	}
	l.hole(500)
	if !l.see(rec(90)) || !l.see(rec(95)) || l.from != 500 {
		t.Fatalf("older records behind a hole are not in doubt: %+v", l)
	}
	l.hole(700)
	if l.from != 500 {
		t.Fatalf("they begin at %d, want 500", l.from)
	}
	if l.see(rec(130)) {
		t.Fatal("a newer record follows: it was damage after all")
	}
	l.hole(900)
	if l.see(rec(130)) {
		t.Fatal("a newer record behind a hole is in doubt")
	}
}

func TestSalvageRefusesDestinationsOfOthers(t *testing.T) {
	src := filepath.Join(golden.Extract(t, "ipv6"), "store")
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "letter"), []byte("to my mother"), 0o644); err != nil {
		t.Fatal(err)
	}
	for dst, want := range map[string]string{
		full: "is not empty (letter)", src: "lie in one another", filepath.Join(src, "new"): "lie in one another", filepath.Dir(src): "lie in one another",
	} {
		before := tree(t, filepath.Dir(src))
		if _, err := Salvage(t.Context(), SalvageOptions{Source: src, Dest: dst}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("into %s: %v, want %q", dst, err, want)
		}
		unchanged(t, "salvage", before, tree(t, filepath.Dir(src)))
	}
}

func TestSalvageCopiesOnlyWhatIsAskedFor(t *testing.T) {
	src := filepath.Join(golden.Extract(t, "basic"), "store")
	all := messages(t, src)
	from, to := all[50].phyOffset, all[250].phyOffset
	dst := filepath.Join(t.TempDir(), "new")
	r, err := Salvage(t.Context(), SalvageOptions{Source: src, Dest: dst, From: from, To: to, Topic: "TopicB"})
	if err != nil {
		t.Fatal(err)
	}
	var want []message
	for _, m := range all[50:250] {
		if m.queue.Topic == "TopicB" {
			want = append(want, m)
		}
	}
	got := messages(t, dst)
	if int64(len(got)) != r.Records || len(got) != len(want) {
		t.Fatalf("%d records, %d told, want %d", len(got), r.Records, len(want))
	}
	for i := range got {
		if got[i].rest != want[i].rest || got[i].queueOffset != want[i].queueOffset {
			t.Errorf("record %d: %d@%d, want %d", i, got[i].phyOffset, got[i].queueOffset, want[i].queueOffset)
		}
	}
	finds(t, dst, "never")
}

// The configuration comes along: consumers and delays go on where they were.
func TestSalvageCopiesTheConfiguration(t *testing.T) {
	src := filepath.Join(golden.Extract(t, "delay"), "store")
	want, err := os.ReadFile(filepath.Join(src, "config", "delayOffset.json"))
	if err != nil {
		t.Fatal(err)
	}
	dst := filepath.Join(t.TempDir(), "new")
	if _, err := salvageBoth(t, src, dst); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dst, "config", "delayOffset.json")); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%q %v, want %q", got, err, want)
	}
}

// Bytes made to look like beginnings of records are passed over in time and memory that the log bounds.
func TestSalvageOfHostileBytesEnds(t *testing.T) {
	const segment = 1 << 20
	b := make([]byte, segment)
	host := record.HostFrom(netip.MustParseAddrPort("10.0.0.1:10911"))
	var m record.Message
	m.Topic, m.BornHost, m.StoreHost, m.Body = "T", host, host, []byte("x")
	rec, err := record.AppendRecord(nil, &m, record.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at+2*len(rec) < segment; at += len(rec) {
		fake := bytes.Clone(rec)
		record.Patch(fake, 0, int64(at), 1)
		// All of the segment is its body, the fields add up, and the checksum is wrong.
		size := segment - at
		copy(fake, []byte{byte(size >> 24), byte(size >> 16), byte(size >> 8), byte(size)})
		copy(b[at:], fake)
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, commitLogDir), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, commitLogDir, fmt.Sprintf("%020d", 0)), b, 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := Salvage(ctx, SalvageOptions{Source: dir, Dest: filepath.Join(t.TempDir(), "new")})
	if err != nil || r.Records != 0 || r.Holes != 1 {
		t.Errorf("%+v %v", r, err)
	}
}

// FuzzHoleReader: whatever a segment holds, reading it ends, and what it gives are records that verify, at their places, in order, with the holes between them.
func FuzzHoleReader(f *testing.F) {
	host := record.HostFrom(netip.MustParseAddrPort("10.0.0.1:10911"))
	var seed []byte
	for i := range 4 {
		m := record.Message{Topic: "T", BornHost: host, StoreHost: host, Body: bytes.Repeat([]byte{'x'}, 30*i), PhyOffset: int64(len(seed)), StoreTimestamp: 1}
		seed, _ = record.AppendRecord(seed, &m, record.Limits{})
	}
	f.Add(seed, uint16(0), byte(0))
	f.Add(seed, uint16(100), byte(7))
	f.Add(append(bytes.Clone(seed), 0, 0, 1, 0, 0xCB, 0xD4, 0x31, 0x94), uint16(130), byte(1))
	f.Fuzz(func(t *testing.T, b []byte, at uint16, flip byte) {
		if len(b) > 1<<16 {
			return
		}
		b = append(bytes.Clone(b), make([]byte, 300)...)
		b[int(at)%len(b)] ^= flip
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%020d", 0)), b, 0o644); err != nil {
			t.Fatal(err)
		}
		files := &Files{log: os.DirFS(dir)}
		r, err := files.holes(int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		defer r.shut()
		next := int64(0)
		for {
			m, rec, hole, err := r.read()
			if hole != nil && (hole.From < next || hole.To <= hole.From) {
				t.Fatalf("hole [%d, %d) behind %d", hole.From, hole.To, next)
			}
			if err == io.EOF {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if hole != nil {
				next = hole.To
			}
			if m.PhyOffset != next || !bytes.Equal(rec, b[m.PhyOffset:][:m.Size]) {
				t.Fatalf("a record at %d, want one at %d", m.PhyOffset, next)
			}
			if _, err := record.Decode(rec); err != nil {
				t.Fatal(err)
			}
			next += int64(m.Size)
		}
	})
}
