package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
)

func someSummary() *Summary {
	return &Summary{
		Clean: true, MinPhyOffset: 98304, EndPhyOffset: 139559,
		LastPhyOffset: 139176, LastSize: 383, LastStoreTime: 1795967873715, LastBodyCRC: 0xdeadbeef,
		Queues: []QueueBounds{
			{"TopicA", 0, 124, 176, 138900},
			{"TopicA", 1, 125, 176, 139176},
			{"TopicOld", 0, 1, 1, -1},
			{"not UTF-8: \xff\x00", 7, 0, 0, -1},
		},
	}
}

func TestSummaryComesBackAsItWas(t *testing.T) {
	for name, s := range map[string]*Summary{
		"store":         someSummary(),
		"unclean":       {MinPhyOffset: 0, EndPhyOffset: 100, LastPhyOffset: 0, LastSize: 100},
		"empty":         {MinPhyOffset: -1, LastPhyOffset: -1},
		"only blanks":   {MinPhyOffset: 65536, EndPhyOffset: 65536, LastPhyOffset: -1},
		"blanks behind": {MinPhyOffset: 0, EndPhyOffset: 65536, LastPhyOffset: 0, LastSize: 91},
	} {
		root := t.TempDir()
		if err := WriteSummary(mappedfile.OS(), root, s); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := ReadSummary(mappedfile.OS(), root)
		if diff := cmp.Diff(s, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
		if err := RemoveSummary(mappedfile.OS(), root); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, err := ReadSummary(mappedfile.OS(), root); got != nil || err != nil {
			t.Errorf("%s: after removal %+v, %v", name, got, err)
		}
	}
}

func TestQueuesOfASummaryMayComeInAnyOrder(t *testing.T) {
	want := someSummary()
	shuffled := someSummary()
	slices.Reverse(shuffled.Queues)
	before := slices.Clone(shuffled.Queues)
	root := t.TempDir()
	if err := WriteSummary(mappedfile.OS(), root, shuffled); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(before, shuffled.Queues) {
		t.Error("WriteSummary changed its argument")
	}
	got, err := ReadSummary(mappedfile.OS(), root)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestImpossibleSummaryIsNotWritten(t *testing.T) {
	for name, spoil := range map[string]func(*Summary){
		"bounds swapped":             func(s *Summary) { s.EndPhyOffset = s.MinPhyOffset - 1 },
		"last record beyond the end": func(s *Summary) { s.LastSize = 384 },
		"last record of no size":     func(s *Summary) { s.LastSize = 0 },
		"last record expired":        func(s *Summary) { s.LastPhyOffset = 98303 },
		"a size without a record":    func(s *Summary) { s.LastPhyOffset = -1 },
		"a queue twice":              func(s *Summary) { s.Queues = append(s.Queues, s.Queues[0]) },
		"a queue without topic":      func(s *Summary) { s.Queues[0].Topic = "" },
		"a negative queue id":        func(s *Summary) { s.Queues[0].QueueID = -1 },
		"queue bounds swapped":       func(s *Summary) { s.Queues[0].Max = 3 },
		"a unit beyond the log":      func(s *Summary) { s.Queues[0].LastPhy = s.EndPhyOffset },
		"a topic too long":           func(s *Summary) { s.Queues[0].Topic = string(make([]byte, 1<<16)) },
		"a size too large":           func(s *Summary) { s.LastSize = 1 << 32 },
	} {
		root := t.TempDir()
		s := someSummary()
		spoil(s)
		if err := WriteSummary(mappedfile.OS(), root, s); err == nil {
			t.Errorf("%s: written", name)
		}
		if got, err := ReadSummary(mappedfile.OS(), root); got != nil || err != nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// Report nats-io/nats-server#4842: truncated to every length and with each byte changed, a derived file is refused, and never a panic.
func TestAnyDamageOfASummaryIsSeen(t *testing.T) {
	root := t.TempDir()
	if err := WriteSummary(mappedfile.OS(), root, someSummary()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, summaryName)
	whole := readFile(t, path)
	check := func(what string, b []byte) {
		t.Helper()
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		s, err := ReadSummary(mappedfile.OS(), root)
		var ce *mappedfile.CorruptError
		if s != nil || !errors.As(err, &ce) || ce.Path != path {
			t.Errorf("%s: %+v, %v", what, s, err)
		}
	}
	for n := range whole {
		check(fmt.Sprintf("cut to %d bytes", n), whole[:n])
		b := slices.Clone(whole)
		b[n] ^= 0x41
		check(fmt.Sprintf("byte %d changed", n), b)
	}
	check("a byte behind", append(slices.Clone(whole), 0))
	check("zeroed", make([]byte, len(whole)))
}

func FuzzSummary(f *testing.F) {
	for _, s := range []*Summary{someSummary(), {MinPhyOffset: -1, LastPhyOffset: -1}} {
		b, err := s.encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, false)
		f.Add(b[:len(b)-1], true)
	}
	f.Fuzz(func(t *testing.T, b []byte, seal bool) {
		if seal && len(b) >= posSumFlags { // with a checksum that fits, so that the fields are reached
			b = slices.Clone(b)
			copy(b, summaryMagic)
			sealSummary(b)
		}
		s, err := decodeSummary(b)
		if err != nil {
			return
		}
		again, err := s.encode()
		if diff := cmp.Diff(b, again); diff != "" || err != nil {
			t.Errorf("decoded and encoded: %v\n%s", err, diff)
		}
	})
}
