package consumequeue_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/golden"
	"github.com/mqstore/mqstore/consumequeue"
)

// logRecords parses every record of a log directory, in order.
func logRecords(t *testing.T, dir string, delay record.DelayTable) []record.Meta {
	t.Helper()
	p := record.Parser{Delay: delay}
	var all []record.Meta
	files, err := filepath.Glob(filepath.Join(dir, strings.Repeat("[0-9]", 20)))
	if err != nil || len(files) == 0 {
		t.Fatalf("no log files in %s: %v", dir, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var start int64
		if _, err := fmt.Sscanf(filepath.Base(f), "%d", &start); err != nil {
			t.Fatal(err)
		}
		for off := 0; off < len(b); {
			var m record.Meta
			if err := p.Parse(b[off:], start+int64(off), &m); err != nil {
				break // the end of what was written
			}
			off += m.Size
			all = append(all, m)
		}
	}
	return all
}

// tree reads every file below a directory, by its path in it.
func tree(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := make(map[string][]byte)
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		files[rel], err = os.ReadFile(p)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return files
}

func open(t testing.TB, o consumequeue.Options) *consumequeue.Set {
	t.Helper()
	s, err := consumequeue.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// delayOf is the level table of a golden store.
func delayOf(t *testing.T, c golden.Config) record.DelayTable {
	t.Helper()
	d, err := record.ParseDelayTable(c.String("messageDelayLevel"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestFilesAreThoseOfTheOriginal feeds the records of the original's logs in order, and compares every queue file.
func TestFilesAreThoseOfTheOriginal(t *testing.T) {
	for _, name := range []string{"basic", "ipv6", "batch", "transaction", "compressed", "delay", "lmq", "crash-lostqueue"} {
		t.Run(name, func(t *testing.T) {
			m := golden.Load(t, name)
			root := filepath.Join(golden.Extract(t, name), "store")
			if name == "crash-lostqueue" {
				root += "-after" // queues that begin with fillers
			}
			want := tree(t, filepath.Join(root, "consumequeue"))
			dir := filepath.Join(t.TempDir(), "consumequeue")
			s := open(t, consumequeue.Options{Dir: dir, FileSize: m.Config.Int("mappedFileSizeConsumeQueue")})
			for _, r := range logRecords(t, filepath.Join(root, "commitlog"), delayOf(t, m.Config)) {
				b := want[filepath.Join(r.Topic, fmt.Sprint(r.QueueID), "00000000000000000000")]
				if i := int(r.QueueOffset) * consumequeue.UnitSize; r.HasUnit() && i < len(b) {
					if u, err := consumequeue.ParseUnit(b[i:]); err != nil || u.IsFiller() {
						continue // the original had lost this one
					}
				}
				if err := s.Dispatch(&r); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			got := tree(t, dir)
			for name := range want {
				if strings.HasPrefix(name, "%LMQ%") || strings.HasPrefix(name, "plainTopic") {
					delete(want, name) // the multi-dispatch queues are written by another rule
				}
			}
			if len(want) == 0 {
				t.Fatal("the golden store has no queue files")
			}
			for name := range want {
				if !bytes.Equal(got[name], want[name]) {
					t.Errorf("%s differs at byte %d", name, firstDifference(got[name], want[name]))
				}
			}
			if len(got) != len(want) {
				t.Errorf("%d files, want %d", len(got), len(want))
			}
		})
	}
}

func firstDifference(a, b []byte) int {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	return i
}

// storeTimes answers what a log would.
func storeTimes(metas []record.Meta) func(int64, int) (int64, error) {
	times := make(map[int64]int64)
	for _, m := range metas {
		times[m.PhyOffset] = m.StoreTimestamp
	}
	return func(phyOffset int64, size int) (int64, error) {
		ms, ok := times[phyOffset]
		if !ok {
			return 0, fmt.Errorf("no record at %d", phyOffset)
		}
		return ms, nil
	}
}

// TestOriginalsQueuesAnswerAsTheOriginal opens the original's directories and asks what the original was asked.
func TestOriginalsQueuesAnswerAsTheOriginal(t *testing.T) {
	for _, name := range []string{"basic", "ipv6", "batch", "transaction", "compressed", "delay", "lmq", "consumequeueext", "deleted-head"} {
		t.Run(name, func(t *testing.T) {
			m := golden.Load(t, name)
			root := filepath.Join(golden.Extract(t, name), "store")
			metas := logRecords(t, filepath.Join(root, "commitlog"), nil)
			before := tree(t, root)
			for _, readOnly := range []bool{true, false} {
				s := open(t, consumequeue.Options{
					Dir: filepath.Join(root, "consumequeue"), ExtDir: filepath.Join(root, "consumequeue_ext"),
					ReadOnly: readOnly, Clean: true, StoreTime: storeTimes(metas),
				})
				if err := s.CorrectMin(m.Queries.MinPhyOffset); err != nil {
					t.Fatal(err)
				}
				if len(s.Strays()) > 0 {
					t.Errorf("strays: %v", s.Strays())
				}
				compareQueues(t, s, m)
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(before, tree(t, root)); d != "" {
					t.Errorf("opening (read-only: %v) changed files:\n%s", readOnly, d)
				}
			}
		})
	}
}

func compareQueues(t *testing.T, s *consumequeue.Set, m *golden.Manifest) {
	t.Helper()
	for _, want := range m.Queries.Queues {
		q := s.Queue(want.Topic, want.QueueID)
		if q == nil {
			if want.MaxOffset != 0 {
				t.Errorf("no queue %s-%d", want.Topic, want.QueueID)
			}
			continue
		}
		lo := want.MinOffset
		if want.Topic == "TopicOld" {
			lo = want.MaxOffset // its only message expired: the original keeps min 0 (defect 11)
		}
		got := []int64{q.MinOffset(), q.MaxOffset(), q.MaxPhyOffset()}
		if d := cmp.Diff([]int64{lo, want.MaxOffset, want.MaxPhysicOffset}, got); d != "" {
			t.Errorf("%s: min, max, maxPhy (-original +ours):\n%s", q, d)
		}
	}
	for _, want := range m.Queries.StoreTimeStamp {
		q := s.Queue(want.Topic, want.QueueID)
		if q == nil || want.Offset < q.MinOffset() || want.Offset >= q.MaxOffset() {
			continue
		}
		if u, err := q.Unit(want.Offset); err != nil || u.PhyOffset != want.PhyOffset {
			t.Errorf("%s unit %d: %+v, %v; original: record at %d", q, want.Offset, u, err, want.PhyOffset)
		}
	}
	n := 0
	for _, ask := range m.Queries.OffsetByTime {
		q := s.Queue(ask.Topic, ask.QueueID)
		if q == nil {
			continue
		}
		got, err := q.OffsetByTime(ask.Timestamp, consumequeue.Nearest, m.Queries.MinPhyOffset)
		want := ask.Offset
		if ask.Topic == "TopicOld" {
			want = q.MaxOffset() // see above
		}
		if err != nil || got != want {
			t.Errorf("%s by time %d: %d, %v; original %d", q, ask.Timestamp, got, err, ask.Offset)
		}
		n++
	}
	if n == 0 {
		t.Error("no question by time")
	}
}

// TestExtensionUnitsAreFoundByAddress reads the original's extension units through the addresses in its queues.
func TestExtensionUnitsAreFoundByAddress(t *testing.T) {
	root := filepath.Join(golden.Extract(t, "consumequeueext"), "store")
	m := golden.Load(t, "consumequeueext")
	s := open(t, consumequeue.Options{Dir: filepath.Join(root, "consumequeue"), ExtDir: filepath.Join(root, "consumequeue_ext"), ReadOnly: true})
	records := make(map[int64]golden.Record)
	for _, r := range m.Records {
		records[r.Offset] = r
	}
	n := 0
	for q := range s.All() {
		for i := q.MinOffset(); i < q.MaxOffset(); i++ {
			u, err := q.Unit(i)
			if err != nil {
				t.Fatal(err)
			}
			if !u.IsExtAddress() {
				continue
			}
			n++
			r := records[u.PhyOffset]
			x, err := q.Ext(u.TagsCode)
			if err != nil {
				t.Fatal(err)
			}
			if x.TagsCode != r.Dispatch.TagsCode || x.StoreTime != r.Dispatch.StoreTimestamp {
				t.Errorf("%s unit %d: tags code %d at %d, record says %d at %d", q, i, x.TagsCode, x.StoreTime, r.Dispatch.TagsCode, r.Dispatch.StoreTimestamp)
			}
			if bm := r.Message.Properties["bm"]; fmt.Sprintf("%x", x.Bitmap) != bm {
				t.Errorf("%s unit %d: bitmap %x, record says %s", q, i, x.Bitmap, bm)
			}
		}
		for _, bad := range []int64{0, -5, -2147483648, -2147483649, -1 << 63, -1<<63 + 1<<40} {
			x, err := q.Ext(bad)
			if bad == -1<<63 && err == nil && len(x.Bitmap) > 0 {
				continue // address 0 is the first unit
			}
			if !errors.Is(err, consumequeue.ErrNoUnit) {
				t.Errorf("%s address %d: %+v, %v", q, bad, x, err)
			}
		}
	}
	if n == 0 {
		t.Fatal("no extension unit")
	}
	t.Logf("%d extension units", n)
}

// walkFiles describes every regular file below dir.
func walkFiles(t testing.TB, dir string) (infos []fs.FileInfo) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		fi, err := d.Info()
		infos = append(infos, fi)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return infos
}
