package repair

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/conformance/golden"
)

func exportTo(t testing.TB, f *Files, o ExportOptions) ([]byte, Totals) {
	t.Helper()
	var b bytes.Buffer
	totals, err := Export(t.Context(), f, &b, o)
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), totals
}

func importFrom(t testing.TB, archive []byte, dir string) *Imported {
	t.Helper()
	im, err := Import(t.Context(), bytes.NewReader(archive), dir, ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return im
}

func text(t testing.TB, archive []byte) string {
	t.Helper()
	z, err := zstd.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func compressed(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(64<<10))
	if err == nil {
		_, err = z.Write([]byte(text))
	}
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// recordsOf are the bytes of every whole record, at the offsets that keep says or patched to 0.
func recordsOf(t testing.TB, f *Files, keepOffsets bool) (out []string) {
	t.Helper()
	r, err := f.ReadLog(0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		rec, err := r.Next()
		if err == io.EOF {
			return out
		}
		if d := (*Damage)(nil); errors.As(err, &d) || rec.CRC != nil {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		b := bytes.Clone(rec.Bytes)
		if !keepOffsets {
			record.Patch(b, rec.Message.QueueOffset, 0, rec.Message.StoreTimestamp)
		}
		out = append(out, string(b))
	}
}

func TestExportAndImportGiveTheSameRecords(t *testing.T) {
	for _, name := range golden.Names() {
		root := golden.Extract(t, name)
		for dir := range stores(t, name) {
			t.Run(name+"/"+dir, func(t *testing.T) {
				src := look(t, filepath.Join(root, dir))
				archive, totals := exportTo(t, src, ExportOptions{})
				dst := filepath.Join(t.TempDir(), "new")
				im := importFrom(t, archive, dst)
				if im.Records != totals.Records || im.Bytes != totals.Bytes || im.Moved != 0 || im.FirstMoved != -1 {
					t.Errorf("imported %+v, exported %+v", im, totals)
				}
				got := look(t, dst)
				if d := cmp.Diff(recordsOf(t, src, true), recordsOf(t, got, true)); d != "" {
					t.Errorf("records differ:\n%.2000s", d)
				}
				if totals.Damaged == 0 {
					d := diff(t, src, got)
					if d.First >= 0 || d.OnlyInA+d.OnlyInB > 0 {
						t.Errorf("%s", told(d))
					}
					if name != "crash-lostqueue" && name != "clean-lostqueue" && name != "consumequeueext" && len(d.Queues) > 0 {
						t.Errorf("queues: %+v", d.Queues)
					}
				}
				if names, err := os.ReadDir(dst); err != nil || !cmp.Equal(fileNames(names), []string{"checkpoint", "commitlog", "consumequeue", "index_pebble", "lock", "mqstore.summary"}) {
					t.Errorf("the new store holds %v %v", fileNames(names), err)
				}
				again, _ := exportTo(t, got, ExportOptions{})
				if x, y := bodyOf(text(t, archive)), bodyOf(text(t, again)); x != y {
					t.Error("the new store's archive has other records")
				}
			})
		}
	}
}

// bodyOf is an archive's records.
func bodyOf(text string) string {
	lines := strings.SplitAfter(text, "\n")
	return strings.Join(lines[1:len(lines)-2], "")
}

func fileNames(list []os.DirEntry) (names []string) {
	for _, d := range list {
		names = append(names, d.Name())
	}
	return names
}

// A part of a store, or one with holes, becomes a store of its own, whose records lie elsewhere and are else the same.
func TestImportLaysOutAnewWhatHasGaps(t *testing.T) {
	src := look(t, filepath.Join(golden.Extract(t, "basic"), "store"))
	queue := int32(2)
	for name, o := range map[string]ExportOptions{
		"a topic":        {Topic: "TopicB"},
		"a queue":        {Topic: "TopicA", Queue: &queue},
		"a part":         {From: 70_000, To: 200_000},
		"without a head": {From: 65_536},
		"nothing":        {Topic: "nobody"},
	} {
		t.Run(name, func(t *testing.T) {
			archive, totals := exportTo(t, src, o)
			dst := t.TempDir()
			im := importFrom(t, archive, dst)
			if im.Records != totals.Records {
				t.Errorf("%d records of %d", im.Records, totals.Records)
			}
			if kept := name == "without a head" || name == "nothing"; kept != (im.Moved == 0) {
				t.Errorf("%d records moved", im.Moved)
			}
			got := look(t, dst)
			again, _ := exportTo(t, got, ExportOptions{})
			var want []string
			for _, line := range strings.SplitAfter(bodyOf(text(t, archive)), "\n") {
				want = append(want, line[strings.Index(line, ",")+1:])
			}
			var have []string
			for _, line := range strings.SplitAfter(bodyOf(text(t, again)), "\n") {
				have = append(have, line[strings.Index(line, ",")+1:])
			}
			if d := cmp.Diff(want, have); d != "" {
				t.Errorf("records differ:\n%.2000s", d)
			}
			if n := unitsOf(t, got); n != im.Units {
				t.Errorf("%d units, told %d", n, im.Units)
			}
		})
	}
}

func unitsOf(t testing.TB, f *Files) (n int64) {
	t.Helper()
	all, err := f.Queues()
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range all {
		r, err := f.ReadUnits(q.Topic, q.QueueID, 0)
		if err != nil {
			t.Fatal(err)
		}
		for {
			_, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		r.Close()
	}
	return n
}

// Damage is left out, and said; the archive is sound.
func TestExportLeavesOutWhatDoesNotVerify(t *testing.T) {
	dir := filepath.Join(golden.Extract(t, "basic"), "store")
	seg := filepath.Join(dir, "commitlog/00000000000000065536")
	b, err := os.ReadFile(seg)
	if err != nil {
		t.Fatal(err)
	}
	b[100]++  // a body
	b[4000]++ // and somewhere else
	if err := os.WriteFile(seg, b, 0o644); err != nil {
		t.Fatal(err)
	}
	var said []string
	archive, totals := exportTo(t, look(t, dir), ExportOptions{Damaged: func(err error) { said = append(said, err.Error()) }})
	if totals.Damaged != 2 || len(said) != 2 || totals.Records != 304 {
		t.Errorf("%+v: %v", totals, said)
	}
	dst := t.TempDir()
	im := importFrom(t, archive, dst)
	if im.Records != 304 || im.Moved == 0 || im.FirstMoved < 65536 || len(im.Notes) == 0 {
		t.Errorf("%+v", im)
	}
	if im.Renumbered != 1 || im.Units != 304 {
		t.Errorf("%d queues got other offsets, %d units", im.Renumbered, im.Units)
	}
	var found []string
	if _, err := Check(t.Context(), os.DirFS(dst), nil, CheckOptions{Dir: dst}, func(f Finding) error {
		found = append(found, fmt.Sprintf("%s: %s", f.Kind, f.Detail))
		return nil
	}); err != nil || len(found) > 0 {
		t.Errorf("the new store has findings: %v %v", found, err)
	}
	was, is := recordsOf(t, look(t, dir), false), recordsOf(t, look(t, dst), false)
	if len(was) != len(is) {
		t.Fatalf("%d records, want %d", len(is), len(was))
	}
	moved := 0
	for i := range was {
		a, errA := record.Decode([]byte(was[i]))
		b, errB := record.Decode([]byte(is[i]))
		if err := errors.Join(errA, errB); err != nil {
			t.Fatal(err)
		}
		if b.QueueOffset < a.QueueOffset || b.QueueOffset > a.QueueOffset+2 {
			t.Errorf("%s-%d@%d is at %d now", a.Topic, a.QueueID, a.QueueOffset, b.QueueOffset)
		}
		moved += int(b.QueueOffset - a.QueueOffset)
		b.QueueOffset = a.QueueOffset
		if d := cmp.Diff(a, b, cmp.Comparer(func(x, y netip.Addr) bool { return x == y })); d != "" {
			t.Errorf("record %d differs:\n%s", i, d)
		}
	}
	if moved == 0 {
		t.Error("no record was moved up to close a gap")
	}
	plan, err := Import(t.Context(), bytes.NewReader(archive), filepath.Join(t.TempDir(), "new"), ImportOptions{DryRun: true})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(plan, im); d != "" {
		t.Errorf("planned and done differ:\n%s", d)
	}
}

func TestDryRunOfImportTellsWhatTheRunDoes(t *testing.T) {
	for _, name := range []string{"basic", "transaction", "lmq", "deleted-head"} {
		src := look(t, filepath.Join(golden.Extract(t, name), "store"))
		archive, _ := exportTo(t, src, ExportOptions{})
		dst := filepath.Join(t.TempDir(), "new")
		plan, err := Import(t.Context(), bytes.NewReader(archive), dst, ImportOptions{DryRun: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(dst); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: a dry run made the directory: %v", name, err)
		}
		if d := cmp.Diff(plan, importFrom(t, archive, dst)); d != "" && name != "lmq" { // whose further units only the queues know
			t.Errorf("%s: planned and done differ:\n%s", name, d)
		}
	}
}

// Whatever is wrong with an archive, it is refused with its line, and the directory is as it was.
func TestImportRefusesWhatIsNoWholeArchive(t *testing.T) {
	src := look(t, filepath.Join(golden.Extract(t, "basic"), "store"))
	archive, _ := exportTo(t, src, ExportOptions{})
	whole := text(t, archive)
	lines := strings.SplitAfter(whole, "\n")
	lines = lines[:len(lines)-1]
	n := len(lines)
	with := func(i int, line string) []byte {
		c := append([]string{}, lines...)
		c[i] = line
		return compressed(t, strings.Join(c, ""))
	}
	replace := func(i int, old, new string) []byte {
		if !strings.Contains(lines[i], old) {
			t.Fatalf("line %d has no %s: %.300s", i+1, old, lines[i])
		}
		return with(i, strings.Replace(lines[i], old, new, 1))
	}
	for name, c := range map[string]struct {
		archive []byte
		line    int
		says    string
	}{
		"empty":                 {nil, 1, "empty"},
		"not compressed":        {[]byte(whole), 1, "not compressed with zstd"},
		"another file":          {compressed(t, "hello\n"), 1, "header"},
		"another format":        {compressed(t, "{\"archive\":\"tar\"}\n"), 1, "does not say so"},
		"a later version":       {replace(0, `"version":1`, `"version":2`), 1, "version 2"},
		"segments of any size":  {replace(0, `"segmentSize":65536`, `"segmentSize":4611686018427387904`), 1, "segments of"},
		"small segments":        {replace(0, `"segmentSize":65536`, `"segmentSize":300`), 2, "does not fit"},
		"without the trailer":   {compressed(t, strings.Join(lines[:n-1], "")), n, "without its trailer"},
		"within a line":         {compressed(t, whole[:len(whole)/2]), -1, "within the line"},
		"cut":                   {archive[:len(archive)/2], -1, ""},
		"a line less":           {compressed(t, strings.Join(append(append([]string{}, lines[:5]...), lines[6:]...), "")), n - 1, "counts"},
		"a line twice":          {compressed(t, strings.Join(append(append(append([]string{}, lines[:5]...), lines[4]), lines[5:]...), "")), n + 1, "counts"},
		"two lines exchanged":   {compressed(t, lines[0]+lines[2]+lines[1]+strings.Join(lines[3:], "")), n, "CRC"},
		"something behind":      {compressed(t, whole+"{}\n"), n + 1, "follows the trailer"},
		"another topic":         {replace(3, `"topic":"`, `"topic":"X`), 4, "size"},
		"another body":          {replace(3, `"body":"`, `"body":"AAAA`), 4, "size"},
		"another flag":          {replace(3, `"flag":`, `"flag":1`), n, "CRC"},
		"a body's CRC":          {replace(3, `"bodyCRC":`, `"bodyCRC":1`), 4, "CRC"},
		"an unknown field":      {replace(3, `"flag":`, `"color":1,"flag":`), 4, "color"},
		"a host":                {replace(3, `"bornHost":"`, `"bornHost":"x`), 4, "bornHost"},
		"a host of IPv6":        {replace(3, `"sysFlag":0`, `"sysFlag":16`), 4, "host"},
		"a negative offset":     {replace(3, `"phyOffset":`, `"phyOffset":-`), 4, "physical offset"},
		"a number beyond":       {replace(3, `"phyOffset":`, `"phyOffset":99999999999999999999`), 4, ""},
		"another place":         {replace(3, `"phyOffset":`, `"phyOffset":5`), n, "CRC"},
		"an empty line":         {with(3, "\n"), 4, ""},
		"a list":                {with(3, "[]\n"), 4, ""},
		"two objects":           {with(3, strings.TrimSpace(lines[3])+"{}\n"), 4, "follows"},
		"another count":         {replace(n-1, `"records":`, `"records":1`), n, "counts"},
		"properties of numbers": {replace(3, `"properties":{`, `"properties":{"a":1,`), 4, ""},
		"no properties":         {replace(3, `"properties":{`, `"properties":7,"x":{`), 4, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, dry := range []bool{false, true} {
				dst := filepath.Join(t.TempDir(), "new")
				_, err := Import(t.Context(), bytes.NewReader(c.archive), dst, ImportOptions{DryRun: dry})
				var at *ArchiveError
				if !errors.As(err, &at) || c.line > 0 && at.Line != int64(c.line) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("dry %v: %v; want line %d and %q", dry, err, c.line, c.says)
				}
				if _, err := os.Stat(dst); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("dry %v: the directory is there: %v", dry, err)
				}
			}
		})
	}
}

func TestALineWithoutEndIsRefusedBeforeItIsHeld(t *testing.T) {
	head := `{"archive":"mqstore","version":1,"segmentSize":65536,"multiDispatch":false,"exported":1}` + "\n"
	long := io.MultiReader(strings.NewReader(head+`{"body":"`), io.LimitReader(zeros{}, 8<<30))
	pr, pw := io.Pipe()
	go func() {
		z, err := zstd.NewWriter(pw, zstd.WithEncoderLevel(zstd.SpeedFastest))
		if err == nil {
			_, err = io.Copy(z, long)
		}
		pw.CloseWithError(err)
	}()
	_, err := Import(t.Context(), pr, filepath.Join(t.TempDir(), "new"), ImportOptions{})
	pr.Close()
	if err == nil || !strings.Contains(err.Error(), "line 2") || !strings.Contains(err.Error(), "longer than any") {
		t.Errorf("%v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'A'
	}
	return len(p), nil
}

func TestImportRefusesADirectoryThatHoldsSomething(t *testing.T) {
	archive, _ := exportTo(t, look(t, filepath.Join(golden.Extract(t, "basic"), "store")), ExportOptions{})
	for _, dry := range []bool{true, false} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "precious"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Import(t.Context(), bytes.NewReader(archive), dir, ImportOptions{DryRun: dry}); !errors.Is(err, ErrNotEmpty) {
			t.Errorf("%v, want ErrNotEmpty", err)
		}
		store := filepath.Join(golden.Extract(t, "basic"), "store")
		if err := os.Mkdir(filepath.Join(store, importDir), 0o755); err != nil { // a store is one, whatever lies beside
			t.Fatal(err)
		}
		if _, err := Import(t.Context(), bytes.NewReader(archive), store, ImportOptions{DryRun: dry}); !errors.Is(err, ErrNotEmpty) {
			t.Errorf("%v, want ErrNotEmpty", err)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Import(t.Context(), bytes.NewReader(archive), file, ImportOptions{}); err == nil {
		t.Error("a file is a directory")
	}
}

func TestImportRefusesALiveDirectory(t *testing.T) {
	archive, _ := exportTo(t, look(t, filepath.Join(golden.Extract(t, "basic"), "store")), ExportOptions{})
	dir := t.TempDir()
	lock, err := mappedfile.OS().Lock(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Import(t.Context(), bytes.NewReader(archive), dir, ImportOptions{}); !errors.Is(err, mappedfile.ErrLocked) {
		t.Errorf("%v, want ErrLocked", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	importFrom(t, archive, dir)
}

// An import that ends between any two of its steps leaves no store, and the next one makes it.
func TestImportBeginsAnewWhereOneEnded(t *testing.T) {
	src := look(t, filepath.Join(golden.Extract(t, "basic"), "store"))
	archive, _ := exportTo(t, src, ExportOptions{})
	whole := filepath.Join(t.TempDir(), "whole")
	importFrom(t, archive, whole)
	for steps := range len(imports) {
		dir := t.TempDir()
		work := filepath.Join(dir, importDir)
		if err := os.CopyFS(work, os.DirFS(whole)); err != nil {
			t.Fatal(err)
		}
		for _, n := range imports[:steps] {
			if err := os.Rename(filepath.Join(work, n), filepath.Join(dir, n)); err != nil {
				t.Fatal(err)
			}
		}
		importFrom(t, archive, dir)
		if d := diff(t, src, look(t, dir)); !d.Equal() {
			t.Errorf("after %d steps: %s", steps, told(d))
		}
		if _, err := os.Stat(work); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("after %d steps: %v", steps, err)
		}
	}
	if _, err := Import(t.Context(), iotest.ErrReader(errors.New("gone")), filepath.Join(t.TempDir(), "x"), ImportOptions{}); err == nil {
		t.Error("an archive that cannot be read was imported")
	}
}

// Any message that has a record has a line, and the line makes the same record.
func TestLinesGiveTheSameBytes(t *testing.T) {
	for seed := range effort.Seeds(t, 300, 20000) {
		rng := rand.New(rand.NewPCG(seed, 7))
		m := randomMessage(rng)
		want, err := record.AppendRecord(nil, m, record.Limits{AllowV2: true})
		if err != nil {
			continue
		}
		m, err = record.Decode(want)
		if err != nil {
			t.Fatal(err)
		}
		line := appendArchived(nil, m)
		var a archiveRecord
		if err := a.decode(line); err != nil {
			t.Fatalf("seed %d: %v in %s", seed, err, line)
		}
		back, err := a.message()
		if err != nil {
			t.Fatalf("seed %d: %v in %s", seed, err, line)
		}
		got, err := record.AppendRecord(nil, back, record.Limits{AllowV2: true})
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("seed %d: %v; %s gives\n%q, want\n%q", seed, err, line, got, want)
		}
	}
}

func randomMessage(rng *rand.Rand) *record.Message {
	bytesOf := func(n int, alphabet string) []byte {
		b := make([]byte, rng.IntN(n+1))
		for i := range b {
			if b[i] = byte(rng.Uint32()); alphabet != "" {
				b[i] = alphabet[rng.IntN(len(alphabet))]
			}
		}
		return b
	}
	host := func(v6 bool) record.Host {
		h := record.Host{Addr: netip.AddrFrom4([4]byte(bytesOf4(rng))), Port: rng.Uint32()}
		if v6 {
			var a [16]byte
			switch rng.IntN(3) {
			case 0: // an IPv4 address in IPv6 clothes
				a[10], a[11] = 0xff, 0xff
				copy(a[12:], bytesOf4(rng))
			case 1:
				for i := range a {
					a[i] = byte(rng.Uint32())
				}
			}
			h.Addr = netip.AddrFrom16(a)
		}
		return h
	}
	born, store := rng.IntN(2) == 0, rng.IntN(2) == 0
	flag := record.SysFlag(rng.Uint32()) &^ (record.FlagBornHostV6 | record.FlagStoreHostV6)
	if born {
		flag |= record.FlagBornHostV6
	}
	if store {
		flag |= record.FlagStoreHostV6
	}
	m := &record.Message{Topic: "T" + string(bytesOf(20, "")), QueueID: int32(rng.Uint32()), Flag: int32(rng.Uint32()), SysFlag: flag,
		BornTimestamp: int64(rng.Uint64()), BornHost: host(born), StoreHost: host(store), ReconsumeTimes: int32(rng.Uint32()),
		PreparedTransactionOffset: int64(rng.Uint64()), Body: bytesOf(100, ""), StoreTimestamp: int64(rng.Uint64()), QueueOffset: int64(rng.Uint64()), PhyOffset: rng.Int64()}
	switch rng.IntN(3) {
	case 0:
		m.Properties = bytesOf(60, "")
	case 1:
		m.Properties = bytesOf(30, "ab\x01\x02\"\\\n<\x00\x7f")
	case 2:
		m.Properties = record.NewProperties("KEYS", "ключ \u2028", "TAGS", "<a>")
		if rng.IntN(2) == 0 {
			m.Properties = append(m.Properties, 2)
		}
	}
	if rng.IntN(4) == 0 {
		m.Version = record.V2
	}
	return m
}

func bytesOf4(rng *rand.Rand) []byte {
	return []byte{byte(rng.Uint32()), byte(rng.Uint32()), byte(rng.Uint32()), byte(rng.Uint32())}
}

// Whatever the text of an archive says, Import refuses it with a line or takes it. (A dry run: everything but writing, which would make this a test of the disk.)
func FuzzImport(f *testing.F) {
	for _, name := range []string{"transaction", "ipv6"} {
		src, err := Look(os.DirFS(filepath.Join(golden.Extract(f, name), "store")), nil)
		if err != nil {
			f.Fatal(err)
		}
		archive, _ := exportTo(f, src, ExportOptions{To: 3000})
		f.Add([]byte(text(f, archive)))
	}
	f.Add([]byte(`{"archive":"mqstore","version":1,"segmentSize":256}` + "\n" + `{"end":true}` + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := openLines(bytes.NewReader(text))
		if err == nil {
			_, err = importArchive(t.Context(), a, "nowhere", ImportOptions{DryRun: true})
			a.close()
		}
		if err != nil {
			if at := (*ArchiveError)(nil); !errors.As(err, &at) || at.Line < 1 {
				t.Fatalf("refused without a line: %v", err)
			}
		}
	})
}

// So it does with the compressed bytes.
func FuzzImportCompressed(f *testing.F) {
	src, err := Look(os.DirFS(filepath.Join(golden.Extract(f, "transaction"), "store")), nil)
	if err != nil {
		f.Fatal(err)
	}
	archive, _ := exportTo(f, src, ExportOptions{To: 3000})
	f.Add(archive)
	f.Fuzz(func(t *testing.T, archive []byte) {
		if _, err := Import(t.Context(), bytes.NewReader(archive), "nowhere", ImportOptions{DryRun: true}); err != nil {
			if at := (*ArchiveError)(nil); !errors.As(err, &at) {
				t.Fatalf("refused without a line: %v", err)
			}
		}
	})
}

func BenchmarkArchive(b *testing.B) {
	dir := b.TempDir()
	src := benchStore(b, dir, 20_000)
	var archive bytes.Buffer
	b.Run("export", func(b *testing.B) {
		for b.Loop() {
			archive.Reset()
			t, err := Export(b.Context(), src, &archive, ExportOptions{})
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(t.Bytes)
		}
	})
	b.Run("import", func(b *testing.B) {
		n := 0
		for b.Loop() {
			n++
			im, err := Import(b.Context(), bytes.NewReader(archive.Bytes()), filepath.Join(dir, fmt.Sprint("to", n)), ImportOptions{})
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(im.Bytes)
		}
	})
}

// benchStore is a log of n records of 1 KiB in segments of 16 MiB.
func benchStore(t testing.TB, dir string, n int) *Files {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, "commitlog"), 0o755); err != nil {
		t.Fatal(err)
	}
	l, w := layout{segment: 16 << 20}, &logWriter{dir: filepath.Join(dir, "commitlog"), segment: 16 << 20}
	rng := rand.New(rand.NewPCG(1, 1))
	var b []byte
	for i := range n {
		m := &record.Message{Topic: fmt.Sprint("Topic", i%10), QueueID: int32(i % 4), QueueOffset: int64(i / 20), StoreTimestamp: 1795967098275 + int64(i), BornTimestamp: 1795967098275,
			Body: make([]byte, 1024), Properties: record.NewProperties("KEYS", fmt.Sprint("key", i), "UNIQ_KEY", fmt.Sprintf("%032X", i), "TAGS", "t")}
		for j := range m.Body {
			m.Body[j] = "abcdefghijklmnop"[rng.IntN(16)]
		}
		size, err := m.EncodedSize(record.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if m.PhyOffset, err = l.place(1<<40+1, size); err != nil {
			t.Fatal(err)
		}
		if b, err = record.AppendRecord(b[:0], m, record.Limits{}); err != nil {
			t.Fatal(err)
		}
		if err := w.put(b, m.PhyOffset); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	f, err := Look(os.DirFS(dir), nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
