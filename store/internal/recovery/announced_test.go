package recovery_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mqstore/mqstore/checkpoint"
	"github.com/mqstore/mqstore/commitlog"
	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/store/internal/recovery"
)

// exits are the states in which a truncation of a durable store can be interrupted.
var exits = map[string]struct {
	clean    bool
	truncate func(w *world, to int64) error
}{
	"cut while recovering": {true, func(w *world, to int64) error {
		o := w.o
		o.Cut, o.CutTo = true, to
		op, err := recovery.Open(o)
		if err == nil {
			w.use(op)
		}
		return err
	}},
	"log truncated, exit clean":   {true, truncateLog},
	"log truncated, exit unclean": {false, truncateLog},
}

// truncateLog is what a store does whose role changes.
func truncateLog(w *world, to int64) error { return w.op.Log.TruncateTo(to) }

// A truncation that failed at any operation of its own, or of the queues that follow it, is finished by the next open at the offset that was announced, or was
// not begun; in both cases nothing below is lost, what was cut is kept, and the queues agree.
func TestInterruptedTruncationIsFinishedWhateverTheSummarySays(t *testing.T) {
	for name, exit := range exits {
		t.Run(name, func(t *testing.T) {
			step := int64(1)
			if effort.Current() == effort.Race {
				step = 5
			}
			for _, cut := range []int{3, 20, 75} {
				for n := int64(1); ; n += step {
					w := newWorld(t, 7)
					w.open()
					w.fill(30)
					w.close()
					full, err := checkpoint.Read(w.fs, checkpoint.Path(root))
					if full.IndexMsgTimestamp = full.LogicsMsgTimestamp; err == nil {
						err = checkpoint.Write(w.fs, checkpoint.Path(root), full)
					}
					if err != nil {
						t.Fatal(err)
					}
					w.open()
					ends := recordEnds(w)
					end, to := ends[len(ends)-1], ends[cut]
					before := logBytes(w)
					switch {
					case name == "cut while recovering":
						w.shut()
						if err := checkpoint.RemoveAbort(w.fs, root); err != nil {
							t.Fatal(err)
						}
					case exit.clean:
						if err := checkpoint.RemoveAbort(w.fs, root); err != nil {
							t.Fatal(err)
						}
					}
					w.fs.FailFrom(w.fs.Ops()+n, nil)
					err = exit.truncate(w, to)
					if err != nil && !errors.Is(err, faultfs.ErrInjected) {
						t.Fatalf("cut at %d, operation %d: %v", to, n, err)
					}
					w.rng = rand.New(rand.NewPCG(uint64(n), 2))
					if n%2 == 0 {
						w.crash()
					} else {
						w.kill()
					}
					_, absent := w.fs.Stat(filepath.Join(root, "quarantine", "commitlog-truncate-to"))
					where := fmt.Sprintf("cut at %d, operation %d of %v", to, n, err)

					w.o.ReadOnly = true
					op, rerr := recovery.Open(w.o)
					if rerr != nil {
						t.Fatalf("%s: read only: %v", where, rerr)
					}
					seen := op.Report.End
					if err := op.Close(); err != nil {
						t.Fatal(err)
					}
					w.o.ReadOnly = false
					r := w.open()
					got := recordEnds(w)
					switch {
					case r.End != to && (r.End != end || err == nil || absent == nil), r.End != seen:
						t.Fatalf("%s: the log ends at %d, read only at %d: want %d (was %d)\n%+v", where, r.End, seen, to, end, r)
					case absent == nil && r.LostBytes != 0:
						t.Fatalf("%s: what was given up is reported as lost: %+v", where, r)
					case r.End == to && len(got) != cut+1, r.End == end && len(got) != len(ends):
						t.Fatalf("%s: %d records", where, len(got))
					case r.End == to:
						w.wantKept(where, before, to)
					}
					if page, err := checkpoint.Read(w.fs, checkpoint.Path(root)); err != nil || absent == nil && max(page.PhysicMsgTimestamp, page.LogicsMsgTimestamp, page.IndexMsgTimestamp) > r.LastStoreTime {
						t.Fatalf("%s: checkpoint %+v (%v), the last record is of %d", where, page, err, r.LastStoreTime)
					}
					if s, err := checkpoint.ReadSummary(w.fs, root); err != nil || s == nil || s.EndPhyOffset != r.End {
						t.Fatalf("%s: summary %+v (%v), the log ends at %d", where, s, err, r.End)
					}
					check(t, w.op)
					w.put("A", 0, 1, 10)
					w.dispatch(-1)
					w.opensTheSame()
					w.shut()
					if err == nil {
						t.Logf("cut at %d: %d operations", to, n-1)
						break
					}
				}
			}
		})
	}
}

// recordEnds are the ends of all records, in order.
func recordEnds(w *world) (ends []int64) {
	w.t.Helper()
	c := w.op.Log.NewCursor(max(0, w.op.Log.MinPhyOffset()))
	defer c.Close()
	for {
		var m record.Meta
		err := c.Next(&m, w.op.Log.MaxPhyOffset())
		if errors.Is(err, commitlog.ErrNotYet) {
			return ends
		}
		if err != nil {
			w.t.Fatal(err)
		}
		ends = append(ends, m.PhyOffset+int64(m.Size))
	}
}

// logBytes are the files of the log, by name.
func logBytes(w *world) map[string][]byte {
	w.t.Helper()
	files := map[string][]byte{}
	for _, p := range w.files("commitlog") {
		b, err := w.fs.ReadFile(filepath.Join(root, p))
		if err != nil {
			w.t.Fatal(err)
		}
		files[filepath.Base(p)] = bytes.Clone(b)
	}
	return files
}

// wantKept wants all of the log at and beyond to in quarantine.
func (w *world) wantKept(where string, before map[string][]byte, to int64) {
	w.t.Helper()
	kept := map[int64][]byte{} // by offset
	for _, p := range w.files("quarantine") {
		var from int64
		if _, err := fmt.Sscanf(filepath.Base(p), "commitlog-%d-", &from); err != nil || !strings.HasSuffix(p, ".bin") {
			continue
		}
		b, err := w.fs.ReadFile(filepath.Join(root, p))
		if err != nil {
			w.t.Fatal(err)
		}
		if len(b) > len(kept[from]) {
			kept[from] = bytes.Clone(b)
		}
	}
	for name, b := range before {
		var start int64
		if _, err := fmt.Sscanf(name, "%d", &start); err != nil {
			w.t.Fatal(err)
		}
		from := max(to-start, 0)
		if from >= int64(len(b)) {
			continue
		}
		if want := bytes.TrimRight(b[from:], "\x00"); !bytes.Equal(bytes.TrimRight(kept[start+from], "\x00"), want) {
			w.t.Fatalf("%s: %d bytes at %d are not in quarantine", where, len(want), start+from)
		}
	}
}
