package repair

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/effort"
)

// storeOf is a store without anything but a log of records with such bodies, in a segment that has room for all.
func storeOf(t testing.TB, bodies [][]byte) *Files {
	t.Helper()
	dir, segment := t.TempDir(), int64(1<<20)
	for _, b := range bodies {
		segment += int64(len(b)) + 1<<10
	}
	if err := os.MkdirAll(filepath.Join(dir, "commitlog"), 0o755); err != nil {
		t.Fatal(err)
	}
	w, at := &logWriter{dir: filepath.Join(dir, "commitlog"), segment: segment}, int64(0)
	for i, body := range bodies {
		b, err := record.AppendRecord(nil, &record.Message{Topic: "T", QueueOffset: int64(i), PhyOffset: at, StoreTimestamp: int64(i), Body: body}, record.Limits{MaxMessageSize: maxSegment})
		if err == nil {
			err = w.put(b, at)
		}
		if err != nil {
			t.Fatal(err)
		}
		at += int64(len(b))
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

// allocated is how many bytes f makes, those included that are freed meanwhile: no less than what it holds at a time.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

const mib = 1 << 20

// Records up to the longest that an archive has go through it, alone and between short ones, in memory that does not grow with their number.
func TestLongRecordsGoThroughAnArchive(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var bodies [][]byte
	sizes := []int{10, longLine / 4 * 3, 100, 5 * mib, maxArchived - 200, maxArchived - 300, 7, batchLines, 3}
	if effort.Current() == effort.Race { // which reads a byte in the time of ten
		sizes = []int{10, longLine / 4 * 3, 100, 3 * mib, 4 * mib, 7, batchLines, 3}
	}
	for _, size := range sizes {
		body := make([]byte, size)
		for i := 0; i < size; i += 997 {
			body[i] = byte(rng.Uint32())
		}
		bodies = append(bodies, body)
	}
	src := storeOf(t, bodies)
	var archive bytes.Buffer
	made := allocated(func() {
		totals, err := Export(t.Context(), src, &archive, ExportOptions{})
		if err != nil || totals.Records != int64(len(bodies)) || totals.Damaged != 0 {
			t.Fatalf("%+v, %v", totals, err)
		}
	})
	if most := uint64(250 * mib); made > most {
		t.Errorf("export allocates %d MiB in all, more than %d", made/mib, most/mib)
	}
	dst := filepath.Join(t.TempDir(), "new")
	made = allocated(func() { importFrom(t, archive.Bytes(), dst) })
	if most := uint64(250 * mib); made > most {
		t.Errorf("import allocates %d MiB in all, more than %d", made/mib, most/mib)
	}
	for i, b := range recordsOf(t, look(t, dst), true) {
		m, err := record.Decode([]byte(b))
		if err != nil || !bytes.Equal(m.Body, bodies[i]) {
			t.Errorf("record %d: a body of %d bytes is another one (%v)", i, len(bodies[i]), err)
		}
	}
}

// A record that is too long for an archive is named and left out, and never held.
func TestExportLeavesOutWhatNoArchiveHas(t *testing.T) {
	src := storeOf(t, [][]byte{{1}, make([]byte, 100*mib), {2}})
	var left []error
	var archive bytes.Buffer
	made := allocated(func() {
		totals, err := Export(t.Context(), src, &archive, ExportOptions{Damaged: func(err error) { left = append(left, err) }})
		if err != nil || totals.Records != 2 || totals.Damaged != 1 {
			t.Fatalf("%+v, %v", totals, err)
		}
	})
	if len(left) != 1 || !strings.Contains(left[0].Error(), "more than a record of an archive has") {
		t.Errorf("%v", left)
	}
	if most := uint64(60 * mib); made > most {
		t.Errorf("export allocates %d MiB in all, more than %d", made/mib, most/mib)
	}
	if im := importFrom(t, archive.Bytes(), filepath.Join(t.TempDir(), "new")); im.Records != 2 {
		t.Errorf("%+v", im)
	}
}

// Whatever a hostile line is long of, it is refused with its number before more is held than the longest line of a record.
func TestHostileLinesAreRefusedInBoundedMemory(t *testing.T) {
	head := `{"archive":"mqstore","version":1,"segmentSize":1073741824,"multiDispatch":false,"exported":1}` + "\n"
	line := strings.Replace(plainLine, `"size":130`, fmt.Sprintf(`"size":%d`, 31*mib), 1)
	long := func(old, new string) string { return head + strings.Replace(line, old, new, 1) + "\n" }
	for name, c := range map[string]struct{ text, says string }{
		"a line without end": {head + `{"body":"` + strings.Repeat("A", 100*mib), "longer than any can be, 45263528 bytes"},
		"a body":             {long("AQID", base64.StdEncoding.EncodeToString(make([]byte, 31*mib))), "size"},
		"many long bodies":   {strings.Repeat(long("AQID", strings.Repeat("A", 40*mib)), 3), "size"},
		"a property":         {long(`"a":"b"`, `"a":"`+strings.Repeat(`\u0061`, 7*mib)+`"`), "more than a record has"},
		"a host":             {long(`1.2.3.4`, strings.Repeat("1", 43*mib)), "bornHost"},
		"a name":             {long(`"flag"`, `"`+strings.Repeat("f", 43*mib)+`"`), "size"},
		"a header":           {`{"archive":` + strings.Repeat(" ", mib) + "}\n", "longer than any can be, 65536 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			if effort.Current() == effort.Race && len(c.text) > 64*mib {
				t.Skip("more bytes than the race detector reads in a reasonable time; the other efforts do")
			}
			var err error
			made := allocated(func() {
				var a *archiveReader
				if a, err = openLines(strings.NewReader(c.text)); err == nil {
					_, err = importArchive(t.Context(), a, "nowhere", ImportOptions{DryRun: true})
					a.close()
				}
			})
			at := (*ArchiveError)(nil)
			if !errors.As(err, &at) || at.Line > 2 || !strings.Contains(err.Error(), c.says) || len(err.Error()) > 400 {
				t.Errorf("%.500v; want line 1 or 2, and %q", err, c.says)
			}
			if most := uint64(400 * mib); made > most {
				t.Errorf("allocates %d MiB in all, more than %d", made/mib, most/mib)
			}
		})
	}
}
