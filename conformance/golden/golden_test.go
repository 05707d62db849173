package golden_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mqstore/mqstore/conformance/golden"
)

// dirs names the store directories of a manifest and their listings.
func dirs(m *golden.Manifest) map[string][]golden.File {
	d := map[string][]golden.File{}
	if m.Files != nil {
		d["store"] = m.Files
	}
	if m.Before != nil {
		d[m.Before.StoreDir] = m.Before.Files
		d[m.After.StoreDir] = m.After.Files
	}
	if m.MasterFiles != nil {
		d["master"], d["slave"] = m.MasterFiles, m.SlaveFiles
	}
	return d
}

func TestExtractedFilesAreThoseOfTheManifest(t *testing.T) {
	for _, name := range golden.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := golden.Load(t, name)
			root, again := golden.Extract(t, name), golden.Extract(t, name)
			listed := dirs(m)
			if len(listed) == 0 {
				t.Fatal("the manifest lists no files")
			}
			for dir, files := range listed {
				if len(files) == 0 {
					t.Errorf("%s: no files listed", dir)
				}
				var want []string
				for _, f := range files {
					want = append(want, f.Path)
					b, err := os.ReadFile(filepath.Join(root, dir, filepath.FromSlash(f.Path)))
					if err != nil {
						t.Error(err)
						continue
					}
					if sum := sha256.Sum256(b); int64(len(b)) != f.Size || hex.EncodeToString(sum[:]) != f.SHA256 {
						t.Errorf("%s/%s: %d bytes, sha256 %x; manifest %d, %s", dir, f.Path, len(b), sum, f.Size, f.SHA256)
					}
				}
				var got []string
				err := filepath.WalkDir(filepath.Join(root, dir), func(p string, e fs.DirEntry, err error) error {
					if err != nil {
						return err
					}
					info, err := e.Info()
					if err != nil {
						return err
					}
					if info.Mode().Perm()&0o200 == 0 {
						t.Errorf("%s is not writable", p)
					}
					other, err := os.Stat(filepath.Join(again, strings.TrimPrefix(p, root)))
					if err != nil {
						return err
					}
					if !info.ModTime().Equal(other.ModTime()) { // two writes would differ
						t.Errorf("%s: modification time %v was not kept: %v", p, info.ModTime(), other.ModTime())
					}
					if e.Type().IsRegular() {
						rel, err := filepath.Rel(filepath.Join(root, dir), p)
						if err != nil {
							return err
						}
						got = append(got, filepath.ToSlash(rel))
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Errorf("%s holds %q, the manifest lists %q", dir, got, want)
				}
			}
		})
	}
}

// Load refuses a field that the types do not have, so that decoding at all is most of the test.
func TestEveryManifestDecodesCompletely(t *testing.T) {
	names := golden.Names()
	if len(names) != 14 {
		t.Errorf("%d golden directories: %v", len(names), names)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := golden.Load(t, name)
			if m.Scenario != name {
				t.Errorf("scenario %q", m.Scenario)
			}
			var all []*golden.Queries
			for _, q := range []*golden.Queries{m.Queries, m.QueriesBeforeShutdown, m.MasterQueries, m.SlaveQueries} {
				if q != nil {
					all = append(all, q)
				}
			}
			if m.Reopened != nil {
				all = append(all, m.Reopened.Queries)
			}
			if m.After != nil {
				all = append(all, m.After.Queries)
			}
			if len(all) == 0 {
				t.Error("no queries")
			}
			for i, q := range all {
				if len(q.GetMessage) == 0 || len(q.Queues) == 0 || len(q.StoreTimeStamp) == 0 || len(q.OffsetByTime) == 0 || len(q.QueryMessage) == 0 || len(q.ByPhysicalOffset) == 0 || len(q.Unknown.Gets) != 3 || len(q.Unknown.Calls) != 6 {
					// The two clean ones were asked for no keys before their shutdown.
					if !(q == m.QueriesBeforeShutdown && len(q.QueryMessage) == 0) {
						t.Errorf("queries %d are incomplete: %d gets, %d queues, %d unknown", i, len(q.GetMessage), len(q.Queues), len(q.Unknown.Gets))
					}
				}
				for _, g := range q.GetMessage {
					if size := total(g.Found); len(g.Found) != g.MessageCount || size != g.BufferTotalSize {
						t.Errorf("%s-%d@%d: %d found, %d bytes; counted %d, %d", g.Topic, g.QueueID, g.Offset, len(g.Found), size, g.MessageCount, g.BufferTotalSize)
					}
				}
			}
			records := slices.Concat(m.Records, m.MasterRecords)
			if m.After != nil {
				records = m.After.Records
			}
			if len(records) == 0 {
				t.Fatal("no records")
			}
			next := records[0].Offset
			for _, r := range records {
				if r.Offset != next || r.TotalSize < 8 || !r.IsBlank() && r.Topic == "" {
					t.Errorf("record %+v does not follow %d", r, next)
				}
				next = r.Offset + int64(r.TotalSize)
			}
			if len(m.Puts) == 0 {
				t.Error("no puts")
			}
			for i, p := range m.Puts {
				if p.Result.OK() != (p.Result.PutMessageStatus != "MESSAGE_ILLEGAL" && p.Result.AppendMessageStatus != "END_OF_FILE") {
					t.Errorf("put %d: %+v", i, p.Result)
				}
				if p.Op == "putMessages" && (len(p.Input.Messages) == 0 || len(p.Input.EncodedBody) == 0) {
					t.Errorf("put %d is an empty batch", i)
				}
			}
		})
	}
}

func total(r golden.Ranges) (n int) {
	for _, g := range r {
		n += g.Size
	}
	return n
}

// A section "same as …" is the section that it names.
func TestSameAsIsResolved(t *testing.T) {
	m := golden.Load(t, "deleted-head")
	if len(m.Reopened.Records) != len(m.Records) || len(m.Reopened.Queries.GetMessage) != len(m.Queries.GetMessage) {
		t.Errorf("reopened: %d records and %d gets; first open %d and %d", len(m.Reopened.Records), len(m.Reopened.Queries.GetMessage), len(m.Records), len(m.Queries.GetMessage))
	}
	if m.Records[0].Topic != "TopicA" && m.Records[0].Topic != "TopicB" || m.Records[0].Dispatch != nil {
		t.Errorf("first record %+v is not of the compact form", m.Records[0])
	}
}

func TestAnExceptionIsKept(t *testing.T) {
	m := golden.Load(t, "basic")
	var n int
	for _, b := range m.Queries.ByPhysicalOffset {
		if a := b.LookMessageByOffset; a != nil && a.Exception != "" {
			n++
			if !strings.Contains(a.Exception, "newLimit < 0") {
				t.Errorf("exception %q", a.Exception)
			}
		}
	}
	if n != 1 {
		t.Errorf("%d exceptions", n)
	}
}

func TestCaptureIsTheManifestsFrames(t *testing.T) {
	m := golden.Load(t, "ha-capture")
	got := map[string]int{}
	for _, c := range golden.LoadCapture(t) {
		got[string('0'+rune(c.Conn))+c.Dir] += len(c.Data)
	}
	for _, s := range m.Frames {
		want := 0
		for _, f := range s.Frames {
			want += 12 + f.Size
		}
		want += 8*len(s.Reports) + s.Trailing
		if got[s.Stream] != s.Bytes || want != s.Bytes {
			t.Errorf("stream %s: %d bytes captured, %d in its frames, %d noted", s.Stream, got[s.Stream], want, s.Bytes)
		}
	}
	if len(golden.LoadProbes(t)) < 20 {
		t.Error("probes are missing")
	}
}
