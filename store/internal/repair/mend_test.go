package repair

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mqstore/mqstore/checkpoint"
	"github.com/mqstore/mqstore/commitlog"
	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/conformance/golden"
	"github.com/mqstore/mqstore/consumequeue"
	"github.com/mqstore/mqstore/store/internal/recovery"
)

// message is a record for comparison: all of it but where it lies.
type message struct {
	phyOffset, queueOffset int64
	size                   int
	queue                  QueueName
	rest                   string // what must never change
	many                   []manyOffset
	unit                   bool
}

// manyOffset is a place in a light queue.
type manyOffset struct {
	queue  QueueName
	offset int64
}

func messageOf(m *record.Message, size int) message {
	out := message{phyOffset: m.PhyOffset, queueOffset: m.QueueOffset, size: size, queue: QueueName{m.Topic, m.QueueID}, unit: m.SysFlag.Transaction().HasUnit()}
	p := m.Properties
	names, _ := p.Get(record.PropertyMultiDispatch)
	offsets, _ := p.Get(record.PropertyMultiQueueOffset)
	if names != "" && offsets != "" {
		list := strings.Split(offsets, ",")
		for i, n := range strings.Split(names, ",") {
			at, _ := strconv.ParseInt(list[i], 10, 64)
			q := QueueName{n, m.QueueID}
			if strings.HasPrefix(n, lightQueues) {
				q.QueueID = 0
			}
			out.many = append(out.many, manyOffset{q, at})
		}
		p = p.Without(record.PropertyMultiQueueOffset)
	}
	out.rest = fmt.Sprintf("%s-%d %d %d %d %s %d %s %d v%d %q %x", m.Topic, m.QueueID, m.Flag, m.SysFlag, m.BornTimestamp, m.BornHost, m.StoreTimestamp, m.StoreHost, m.ReconsumeTimes, m.Version, p, m.Body)
	return out
}

// messages are the records of a log that is whole, up to a torn tail.
func messages(t *testing.T, dir string) (out []message) {
	t.Helper()
	r, err := look(t, dir).ReadLog(0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		rec, err := r.Next()
		d := (*Damage)(nil)
		switch {
		case err == io.EOF:
			return out
		case errors.As(err, &d):
			continue
		case err != nil:
			t.Fatal(err)
		case rec.CRC != nil:
			continue
		}
		out = append(out, messageOf(rec.Message, len(rec.Bytes)))
	}
}

// logBytes reads [off, off+n) of the log as the files' names say; nil where there is no such file, or a part of it.
func logBytes(dir string, segment, off int64, n int) []byte {
	f, err := os.Open(filepath.Join(dir, commitLogDir, fmt.Sprintf("%020d", off-off%segment)))
	if err != nil {
		return nil
	}
	defer f.Close()
	b := make([]byte, n)
	if _, err := f.ReadAt(b, off%segment); err != nil {
		return nil
	}
	return b
}

// wholeAfter are the records of before whose bytes lie in the damaged directory as they did.
func wholeAfter(t *testing.T, clean, damaged string, before []message) (out []message) {
	t.Helper()
	segment := look(t, clean).SegmentSize()
	for _, m := range before {
		want := logBytes(clean, segment, m.phyOffset, m.size)
		if got := logBytes(damaged, segment, m.phyOffset, m.size); want != nil && bytes.Equal(got, want) {
			out = append(out, m)
		}
	}
	return out
}

func copyTree(t testing.TB, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(to, func(p string, d fs.DirEntry, err error) error {
		if err == nil {
			err = os.Chmod(p, map[bool]os.FileMode{true: 0o755, false: 0o644}[d.IsDir()])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// tree is each file with its bytes and time, to see that nothing changed.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		s := info.ModTime().String()
		if d.Type().IsRegular() {
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			s += " " + string(b)
		}
		out[p] = s
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func unchanged(t testing.TB, what string, before, after map[string]string) {
	t.Helper()
	for p, s := range before {
		if after[p] != s {
			t.Errorf("%s changed %s", what, p)
		}
	}
	for p := range after {
		if _, ok := before[p]; !ok {
			t.Errorf("%s made %s", what, p)
		}
	}
}

// recoverBoth recovers dir after a dry run of it, and compares what they tell.
func recoverBoth(t *testing.T, dir string) (Recovered, error) {
	t.Helper()
	before := tree(t, dir)
	dry, dryErr := Recover(t.Context(), Options{Root: dir, DryRun: true})
	unchanged(t, "the dry run", before, tree(t, dir))
	wet, err := Recover(t.Context(), Options{Root: dir})
	if fmt.Sprint(dryErr) != fmt.Sprint(err) {
		t.Errorf("the dry run said %v, the run %v", dryErr, err)
	}
	if err == nil {
		dry.Queues, wet.Queues = nil, nil
		if d := cmp.Diff(fmt.Sprintf("%+v", dry), fmt.Sprintf("%+v", wet)); d != "" {
			t.Errorf("recover (- dry run, + run):\n%s", d)
		}
	}
	return wet, err
}

// salvageBoth salvages src into dst after a dry run of it, and compares what they tell.
func salvageBoth(t *testing.T, src, dst string) (Salvaged, error) {
	t.Helper()
	var holes [2][]Hole
	run := func(i int, dry bool) (Salvaged, error) {
		return Salvage(t.Context(), SalvageOptions{Source: src, Dest: dst, DryRun: dry, Hole: func(h Hole) error { holes[i] = append(holes[i], h); return nil }})
	}
	before := tree(t, src)
	dry, dryErr := run(0, true)
	wet, err := run(1, false)
	unchanged(t, "salvage", before, tree(t, src))
	if fmt.Sprint(dryErr) != fmt.Sprint(err) {
		t.Errorf("the dry run said %v, the run %v", dryErr, err)
	}
	dry.Shifts, wet.Shifts = nil, wet.Shifts[:len(wet.Shifts):len(wet.Shifts)]
	shifts := wet.Shifts
	wet.Shifts = nil
	if d := cmp.Diff(fmt.Sprintf("%+v %v", dry, holes[0]), fmt.Sprintf("%+v %v", wet, holes[1])); d != "" {
		t.Errorf("salvage (- dry run, + run):\n%s", d)
	}
	wet.Shifts = shifts
	return wet, err
}

// served opens the store, and checks that every queue is dense and gives, in order, the records of the log that belong to it.
func served(t *testing.T, dir string) {
	t.Helper()
	many := false
	if list, err := os.ReadDir(filepath.Join(dir, queueDir)); err == nil {
		many = slices.ContainsFunc(list, func(d fs.DirEntry) bool { return strings.HasPrefix(d.Name(), lightQueues) })
	}
	op, err := recovery.Open(recovery.Options{
		FS: mappedfile.OS(), Root: dir, MultiDispatch: many, ReadOnly: true, CheckQueues: true,
		CommitLog: commitlog.Options{NoBackground: true}, Queues: consumequeue.Options{ExtDir: filepath.Join(dir, extDir)},
	})
	if err != nil {
		t.Errorf("%s does not open: %v", dir, err)
		return
	}
	defer op.Close()
	if r := op.Report; !r.Clean || r.DroppedBytes != 0 || r.LostBytes != 0 || r.SummaryDoubt != "" || !r.SummaryUsed || len(r.LackingQueues)+len(r.LogGaps) != 0 {
		t.Errorf("opening %s has something to do: %+v", dir, r)
	}
	want := map[QueueName]map[int64]int64{}
	put := func(q QueueName, at, phy int64) {
		if want[q] == nil {
			want[q] = map[int64]int64{}
		}
		if at == 0 && len(want[q]) > 0 { // numbered anew
			want[q] = map[int64]int64{}
		}
		if _, again := want[q][at]; !again {
			want[q][at] = phy
		}
	}
	for _, m := range messages(t, dir) {
		if !m.unit {
			continue
		}
		put(m.queue, m.queueOffset, m.phyOffset)
		for _, o := range m.many {
			if many {
				put(o.queue, o.offset, m.phyOffset)
			}
		}
	}
	for q := range op.Queues.All() {
		name := QueueName{q.Topic(), q.ID()}
		if q.MaxOffset()-q.MinOffset() != int64(len(want[name])) {
			t.Errorf("%v holds [%d, %d), the log has %d records of it", name, q.MinOffset(), q.MaxOffset(), len(want[name]))
			continue
		}
		for at := q.MinOffset(); at < q.MaxOffset(); at++ {
			if u, err := q.Unit(at); err != nil || u.PhyOffset != want[name][at] {
				t.Errorf("%v at %d: %v, it points at %d, want %d", name, at, err, u.PhyOffset, want[name][at])
				return
			}
		}
		delete(want, name)
	}
	for q := range want {
		t.Errorf("the log has records of %v, which is no queue", q)
	}
}

// keeps checks that every record of whole is in the store in dir, in the same order, and no other.
func keeps(t *testing.T, dir string, whole []message, known map[string]bool) {
	t.Helper()
	got := messages(t, dir)
	i := 0
	for _, m := range got {
		if !known[m.rest] {
			t.Errorf("the record at %d was in no store before", m.phyOffset)
		}
		if i < len(whole) && m.rest == whole[i].rest {
			i++
		}
	}
	if i < len(whole) {
		t.Errorf("the whole record at %d (%v@%d) is lost, or not in order: %d of %d are there", whole[i].phyOffset, whole[i].queue, whole[i].queueOffset, i, len(whole))
	}
}

// neverSkips checks that no record has a smaller queue offset than before, that nothing was numbered beyond what follows it, and that records behind the
// last hole kept theirs.
func neverSkips(t *testing.T, dir string, whole []message) {
	t.Helper()
	got := messages(t, dir)
	next := map[QueueName]int64{}
	i := 0
	for _, m := range got {
		for i < len(whole) && whole[i].rest != m.rest {
			i++
		}
		if i == len(whole) {
			return // said by keeps
		}
		if m.unit && m.queueOffset < whole[i].queueOffset {
			t.Errorf("%v: %d became %d", m.queue, whole[i].queueOffset, m.queueOffset)
		}
		for k, o := range m.many {
			if o.offset < whole[i].many[k].offset {
				t.Errorf("%v: %d became %d", o.queue, whole[i].many[k].offset, o.offset)
			}
		}
		if n, ok := next[m.queue]; m.unit && ok && n != m.queueOffset {
			t.Errorf("%v: %d follows %d", m.queue, m.queueOffset, n-1)
		}
		if m.unit {
			next[m.queue] = m.queueOffset + 1
		}
		i++
	}
}

// inQuarantine checks that what Recover says it kept is what lay there.
func inQuarantine(t *testing.T, r Recovered, damaged string, segment int64) {
	t.Helper()
	total := int64(0)
	for _, f := range r.Quarantine {
		name := filepath.Base(f)
		if !strings.HasPrefix(name, "commitlog-") {
			continue
		}
		b, err := os.ReadFile(f)
		if err != nil {
			t.Error(err)
			continue
		}
		off, _ := strconv.ParseInt(strings.Split(name, "-")[1], 10, 64)
		if !bytes.Equal(b, logBytes(damaged, segment, off, len(b))) {
			t.Errorf("%s does not hold what lay at %d", f, off)
		}
		total += int64(len(b))
	}
	if total != r.DroppedBytes {
		t.Errorf("%d bytes were cut, quarantine has %d", r.DroppedBytes, total)
	}
}

// victim is a store that is going to be damaged.
type victim struct {
	dir     string
	rng     *rand.Rand
	all     []message
	segment int64
}

func (v *victim) file(off int64) string {
	return filepath.Join(v.dir, commitLogDir, fmt.Sprintf("%020d", off-off%v.segment))
}

// some is a record of the log that is neither first nor last.
func (v *victim) some() message { return v.all[1+v.rng.IntN(len(v.all)-2)] }

func (v *victim) edit(path string, f func(b []byte) []byte) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, f(b), 0o644)
}

// in edits the record m.
func (v *victim) in(m message, f func(b []byte)) error {
	return v.edit(v.file(m.phyOffset), func(b []byte) []byte {
		f(b[m.phyOffset%v.segment:][:m.size])
		return b
	})
}

// queueFile is some file of some queue.
func (v *victim) queueFile() string {
	files, _ := filepath.Glob(filepath.Join(v.dir, queueDir, "*", "*", "*"))
	return files[v.rng.IntN(len(files))]
}

// ourDamages are a few of each kind.
var ourDamages = map[string]func(v *victim) error{
	"body flip":            func(v *victim) error { return v.in(v.some(), func(b []byte) { b[len(b)/2] ^= 0x40 }) },
	"magic flip":           func(v *victim) error { return v.in(v.some(), func(b []byte) { b[5] ^= 1 }) },
	"size flip":            func(v *victim) error { return v.in(v.some(), func(b []byte) { b[v.rng.IntN(4)] ^= 0x55 }) },
	"stored offset flip":   func(v *victim) error { return v.in(v.some(), func(b []byte) { b[35] ^= 1 }) },
	"record zeroed":        func(v *victim) error { return v.in(v.some(), func(b []byte) { clear(b) }) },
	"first record zeroed":  func(v *victim) error { return v.in(v.all[0], func(b []byte) { clear(b) }) },
	"last record torn":     func(v *victim) error { return v.in(v.all[len(v.all)-1], func(b []byte) { clear(b[len(b)/2:]) }) },
	"last record flipped":  func(v *victim) error { return v.in(v.all[len(v.all)-1], func(b []byte) { b[4] ^= 0xFF }) },
	"size and crc garbage": func(v *victim) error { return v.in(v.some(), func(b []byte) { copy(b[:12], "garbagegarba") }) },
	"pages punched": func(v *victim) error {
		m := v.some()
		return v.edit(v.file(m.phyOffset), func(b []byte) []byte {
			at := m.phyOffset % v.segment / 4096 * 4096
			clear(b[at:min(at+8192, v.segment)])
			return b
		})
	},
	"record duplicated": func(v *victim) error {
		i := 1 + v.rng.IntN(len(v.all)-2)
		var from []byte
		if err := v.in(v.all[i], func(b []byte) { from = bytes.Clone(b) }); err != nil {
			return err
		}
		return v.in(v.all[i+1], func(b []byte) { copy(b, from) })
	},
	"records swapped": func(v *victim) error {
		a, b := v.all[1], v.all[len(v.all)/2]
		var x, y []byte
		return errors.Join(v.in(a, func(c []byte) { x = bytes.Clone(c) }), v.in(b, func(c []byte) { y = bytes.Clone(c); copy(c, x) }), v.in(a, func(c []byte) { copy(c, y) }))
	},
	"segment deleted":      func(v *victim) error { return os.Remove(v.file(v.some().phyOffset)) },
	"last segment deleted": func(v *victim) error { return os.Remove(v.file(v.all[len(v.all)-1].phyOffset)) },
	"segment shortened":    func(v *victim) error { return os.Truncate(v.file(v.some().phyOffset), v.segment/3) },
	"segment emptied":      func(v *victim) error { return os.Truncate(v.file(v.some().phyOffset), 0) },
	"segment lengthened":   func(v *victim) error { return os.Truncate(v.file(v.some().phyOffset), v.segment+4096) },
	"segment renamed": func(v *victim) error {
		f := v.file(v.some().phyOffset)
		return os.Rename(f, f[:len(f)-1]+"7")
	},
	"segment copied": func(v *victim) error {
		f := v.file(v.some().phyOffset)
		b, err := os.ReadFile(f)
		return errors.Join(err, os.WriteFile(f+".bak", b, 0o644))
	},
	"unit flipped": func(v *victim) error {
		return v.edit(v.queueFile(), func(b []byte) []byte { b[7] ^= 1; return b })
	},
	"unit zeroed": func(v *victim) error {
		return v.edit(v.queueFile(), func(b []byte) []byte { clear(b[20:40]); return b })
	},
	"unit's tags code": func(v *victim) error {
		return v.edit(v.queueFile(), func(b []byte) []byte { b[19] ^= 1; return b })
	},
	"queue file shortened": func(v *victim) error { return os.Truncate(v.queueFile(), 30) },
	"queue file deleted":   func(v *victim) error { return os.Remove(v.queueFile()) },
	"queue deleted":        func(v *victim) error { return os.RemoveAll(filepath.Dir(v.queueFile())) },
	"queues deleted":       func(v *victim) error { return os.RemoveAll(filepath.Join(v.dir, queueDir)) },
	"checkpoint deleted":   func(v *victim) error { return os.Remove(filepath.Join(v.dir, checkpointFle)) },
	"checkpoint shortened": func(v *victim) error { return os.Truncate(filepath.Join(v.dir, checkpointFle), 100) },
	"checkpoint garbage": func(v *victim) error {
		return v.edit(filepath.Join(v.dir, checkpointFle), func(b []byte) []byte { copy(b, "garbage garbage garbage"); return b })
	},
	"index deleted": func(v *victim) error { return os.RemoveAll(filepath.Join(v.dir, indexDir)) },
	"stray files": func(v *victim) error {
		return errors.Join(os.WriteFile(filepath.Join(v.dir, commitLogDir, "core"), []byte("x"), 0o644), os.WriteFile(filepath.Join(v.dir, queueDir, "x"), []byte("x"), 0o644))
	},
	"nothing": func(*victim) error { return nil },
}

// mendBases are stores to damage: of RocketMQ, with several segments, transactions, light queues, batches, a deleted head.
var mendBases = []string{"basic", "deleted-head", "lmq", "transaction", "batch", "ipv6", "delay"}

// Whatever happened to a store, after recover, or after salvage where recover refuses, it serves each record that was whole, in order, and nothing else; the
// dry run said so; what was cut is in quarantine.
func TestRecoverOrSalvageMendsEachDamage(t *testing.T) {
	t.Parallel()
	for _, name := range slices.Sorted(maps.Keys(ourDamages)) {
		for seed := range effort.Seeds(t, 1, 4) {
			rng := rand.New(rand.NewPCG(seed, uint64(len(name))))
			base := mendBases[(int(seed)+len(name))%len(mendBases)]
			for _, crashed := range []bool{false, true} {
				if crashed != (seed%2 == 0) {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/crashed=%v/seed=%d", strings.ReplaceAll(name, " ", "-"), base, crashed, seed), func(t *testing.T) {
					mendOne(t, base, rng, crashed, ourDamages[name])
				})
			}
		}
	}
}

func mendOne(t *testing.T, base string, rng *rand.Rand, crashed bool, damage func(v *victim) error) {
	clean := filepath.Join(golden.Extract(t, base), "store")
	root := t.TempDir()
	v := &victim{dir: filepath.Join(root, "damaged"), rng: rng, all: messages(t, clean), segment: look(t, clean).SegmentSize()}
	copyTree(t, clean, v.dir)
	if err := damage(v); err != nil {
		t.Fatal(err)
	}
	if crashed {
		if err := os.WriteFile(filepath.Join(v.dir, abortFile), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	known := map[string]bool{}
	for _, m := range v.all {
		known[m.rest] = true
	}
	whole := wholeAfter(t, clean, v.dir, v.all)

	mended := filepath.Join(root, "mended")
	copyTree(t, v.dir, mended)
	r, err := recoverBoth(t, mended)
	if err == nil {
		inQuarantine(t, r, v.dir, v.segment)
		whole = slices.DeleteFunc(whole, func(m message) bool { return m.phyOffset >= r.TruncatedTo })
	}
	if err == nil && finds(t, mended, MendRebuild) && !finds(t, mended, MendSalvage) {
		rebuildBoth(t, RebuildOptions{Options: Options{Root: mended}})
	}
	if err != nil || finds(t, mended, MendSalvage) {
		t.Logf("recover: %v", err)
		from := v.dir
		if err == nil { // the tail is in quarantine, the rest not whole
			from = mended
		}
		mended = filepath.Join(root, "salvaged")
		res, err := salvageBoth(t, from, mended)
		if len(whole) == 0 && (err != nil || res.Records == 0) {
			return // nothing is left
		}
		if err != nil {
			t.Fatal(err)
		}
		neverSkips(t, mended, whole)
	}
	keeps(t, mended, whole, known)
	finds(t, mended, "never")
	if again, err := recoverBoth(t, mended); err != nil || again.DroppedBytes != 0 || again.RebuiltUnits != 0 || again.RebuiltKeys != 0 || len(again.Quarantine) != 0 {
		t.Errorf("a second recover had something to do: %+v %v", again, err)
	}
	served(t, mended)
}

// finds reports whether Check finds something that mend mends. For "never" there must be no finding.
func finds(t *testing.T, dir, mend string) (found bool) {
	t.Helper()
	_, err := Check(t.Context(), os.DirFS(dir), nil, CheckOptions{Dir: dir}, func(f Finding) error {
		found = found || f.Mend == mend
		if mend == "never" {
			t.Errorf("left to find: %+v", f)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// rebuildBoth rebuilds after a dry run, and compares what they tell.
func rebuildBoth(t *testing.T, o RebuildOptions) Rebuilt {
	t.Helper()
	before := tree(t, o.Root)
	o.DryRun = true
	dry, err := Rebuild(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	unchanged(t, "the dry run", before, tree(t, o.Root))
	o.DryRun = false
	wet, err := Rebuild(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(fmt.Sprintf("%+v", dry), fmt.Sprintf("%+v", wet)); d != "" {
		t.Errorf("rebuild (- dry run, + run):\n%s", d)
	}
	return wet
}

// A store that is in use is refused by every verb that writes, and left alone; so is a source in use.
func TestVerbsThatWriteRefuseAStoreInUse(t *testing.T) {
	dir := filepath.Join(golden.Extract(t, "basic"), "store")
	lock, err := checkpoint.Lock(mappedfile.OS(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	before := tree(t, dir)
	defer func() { unchanged(t, "a refusal", before, tree(t, dir)) }()
	for _, dry := range []bool{false, true} {
		o := Options{Root: dir, DryRun: dry}
		_, err1 := Recover(t.Context(), o)
		_, err2 := Rebuild(t.Context(), RebuildOptions{Options: o})
		_, err3 := Truncate(t.Context(), o, 0)
		_, err4 := Salvage(t.Context(), SalvageOptions{Source: dir, Dest: filepath.Join(t.TempDir(), "new"), DryRun: dry})
		for i, err := range []error{err1, err2, err3, err4} {
			if !errors.Is(err, mappedfile.ErrLocked) && !dry {
				t.Errorf("verb %d: %v", i, err)
			}
		}
	}
}
