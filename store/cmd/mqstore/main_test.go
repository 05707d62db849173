package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/golden"
	"github.com/mqstore/mqstore/store"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"mqstore": main})
}

// goldenDirs are the store directories of a golden, by what a manifest calls them.
func goldenDirs(name string) []string {
	switch name {
	case "ha-capture":
		return []string{"master", "slave"}
	case "clean-lostqueue", "clean-torntail", "crash-lostqueue", "crash-torn":
		return []string{"store-before", "store-after"}
	}
	return []string{"store"}
}

// The scripts see each golden directory under its name. They must not change it.
func TestScripts(t *testing.T) {
	roots := map[string]string{}
	for _, name := range golden.Names() {
		roots[name] = golden.Extract(t, name)
	}
	before := map[string]string{}
	for name, root := range roots {
		before[name] = tree(t, root)
	}
	t.Run("script", func(t *testing.T) {
		testscript.Run(t, testscript.Params{
			Dir: "testdata/script",
			Setup: func(e *testscript.Env) error {
				e.Setenv("TZ", "UTC")
				for name, root := range roots {
					if err := os.Symlink(root, filepath.Join(e.WorkDir, name)); err != nil {
						return err
					}
				}
				return nil
			},
			Cmds:                map[string]func(*testscript.TestScript, bool, []string){"poke": poke, "exitcode": exitcode},
			RequireExplicitExec: true,
			RequireUniqueNames:  true,
		})
	})
	for name, root := range roots {
		if d := cmp.Diff(before[name], tree(t, root)); d != "" {
			t.Errorf("the scripts changed %s:\n%s", name, d)
		}
	}
}

// poke FILE OFFSET HEX overwrites bytes of a file.
func poke(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: poke FILE OFFSET HEX")
	}
	at, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	var b []byte
	_, err = fmt.Sscanf(args[2], "%x", &b)
	ts.Check(err)
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_WRONLY, 0)
	ts.Check(err)
	_, err = f.WriteAt(b, at)
	ts.Check(err)
	ts.Check(f.Close())
}

// exitcode N COMMAND… runs a command, which must end with N. Its output is for stdout and stderr, as exec's.
func exitcode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exitcode N COMMAND...")
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := err.(*exec.ExitError)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if want, err := strconv.Atoi(args[0]); err != nil || got != want {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

// tree is everything about a directory that a looker could change.
func tree(t *testing.T, root string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %v %d %v", rel, info.Mode(), info.Size(), info.ModTime().UnixNano())
		if d.Type().IsRegular() {
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %x", sha256.Sum256(data))
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// mqstore runs the command in this process.
func mqstore(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// must runs the command, which must succeed.
func must(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errs := mqstore(t, args...)
	if code != exitOK {
		t.Fatalf("mqstore %s: exit code %d: %s", strings.Join(args, " "), code, errs)
	}
	return out
}

func lines(s string) []string {
	return slices.DeleteFunc(strings.Split(s, "\n"), func(l string) bool { return l == "" })
}

func TestLookersLeaveEveryByteAndTimeAsTheyFoundIt(t *testing.T) {
	for _, name := range golden.Names() {
		root := golden.Extract(t, name)
		for _, sub := range goldenDirs(name) {
			t.Run(name+"/"+sub, func(t *testing.T) {
				dir := filepath.Join(root, sub)
				before := tree(t, dir)
				rows := lines(must(t, "queues", "--json", dir))
				looks := [][]string{{"info"}, {"info", "--json"}, {"queues"}, {"dump"}, {"dump", "--json", "--decode"}, {"lookup", "--json"}}
				for _, args := range looks {
					args = append(args, dir)
					if args[0] == "lookup" {
						args = append(args, "0")
					}
					if code, _, errs := mqstore(t, args...); code == exitFailed {
						t.Errorf("%v: %s", args, errs)
					}
				}
				for _, row := range rows {
					var q queueJSON
					if err := json.Unmarshal([]byte(row), &q); err != nil {
						t.Fatal(err)
					}
					id := strconv.Itoa(int(q.QueueID))
					for _, args := range [][]string{{"units", dir, q.Topic, id}, {"get", "--json", dir, q.Topic, id, "0"}, {"time", dir, q.Topic, id, "-2h"}} {
						if code, _, errs := mqstore(t, args...); code == exitFailed {
							t.Errorf("%v: %s", args, errs)
						}
					}
				}
				if d := cmp.Diff(before, tree(t, dir)); d != "" {
					t.Errorf("changed:\n%s", d)
				}
			})
		}
	}
}

func TestDumpIsTheManifest(t *testing.T) {
	for _, name := range golden.Names() {
		m := golden.Load(t, name)
		root := golden.Extract(t, name)
		for _, sub := range goldenDirs(name) {
			t.Run(name+"/"+sub, func(t *testing.T) {
				want := m.Records
				switch {
				case sub == "master":
					want = m.MasterRecords
				case sub == "slave":
					want = m.SlaveRecords
				case m.After != nil:
					want = m.After.Records
				}
				torn := name == "crash-torn" || name == "clean-torntail" // whose bytes the original leaves behind the log's end
				code, out, errs := mqstore(t, "dump", "--json", filepath.Join(root, sub))
				if torn && code != exitFindings || !torn && code != exitOK {
					t.Fatalf("exit code %d: %s", code, errs)
				}
				got := lines(out)
				if torn {
					last := got[len(got)-1]
					if !strings.Contains(last, `"crcOK":false`) {
						t.Errorf("the damaged record is shown as %s", last)
					}
					got = got[:len(got)-1]
				}
				want = slices.DeleteFunc(slices.Clone(want), golden.Record.IsBlank)
				if len(got) != len(want) {
					t.Fatalf("%d records, the manifest has %d", len(got), len(want))
				}
				for i, r := range want {
					var j messageJSON
					if err := json.Unmarshal([]byte(got[i]), &j); err != nil {
						t.Fatal(err)
					}
					if w := manifestMessage(r, j); !reflect.DeepEqual(w, j) {
						t.Fatalf("record %d (-manifest +dump):\n%s", i, cmp.Diff(w, j))
					}
				}
			})
		}
	}
}

// manifestMessage is what dump must print of a manifest's record. What the manifest does not say is taken from got.
func manifestMessage(r golden.Record, got messageJSON) messageJSON {
	w := got
	w.PhyOffset, w.Size, w.Topic, w.QueueID, w.QueueOffset, w.CRCOK = r.Offset, r.TotalSize, r.Topic, r.QueueID, r.QueueOffset, true
	m := r.Message
	if m == nil {
		return w
	}
	w.Flag, w.SysFlag, w.BornTimestamp, w.StoreTimestamp, w.ReconsumeTimes = m.Flag, m.SysFlag, m.BornTimestamp, m.StoreTimestamp, m.ReconsumeTimes
	w.PreparedTransactionOffset, w.BodyCRC, w.Properties, w.MsgID = m.PreparedTransactionOffset, m.BodyCRC, m.Properties, m.MsgID
	for _, h := range []struct {
		mine  *string
		their string
	}{{&w.BornHost, m.BornHost}, {&w.StoreHost, m.StoreHost}} {
		if a, err := record.ParseHost(h.their); err == nil {
			*h.mine = a.String() // one spelling of an address
		} else {
			*h.mine = h.their
		}
	}
	w.Tags, w.UniqKey, w.Keys = m.Properties["TAGS"], m.Properties["UNIQ_KEY"], slices.DeleteFunc(strings.Split(m.Properties["KEYS"], " "), func(k string) bool { return k == "" })
	w.Transaction = map[int32]string{0: "none", 4: "prepared", 8: "commit", 12: "rollback"}[m.SysFlag&12]
	w.Compression = map[int32]string{0: "none", 0x001: "zlib", 0x101: "lz4", 0x201: "zstd", 0x301: "zlib"}[m.SysFlag&0x701]
	w.Version, w.BodySize = 1, max(0, m.BodyLength) // -1: no body
	return w
}

func TestDecodedBodiesAreWhatWasPut(t *testing.T) {
	m := golden.Load(t, "compressed")
	dir := filepath.Join(golden.Extract(t, "compressed"), "store")
	got := lines(must(t, "dump", "--json", "--decode", dir))
	if len(got) != len(m.Puts) {
		t.Fatalf("%d records, %d were put", len(got), len(m.Puts))
	}
	for i, line := range got {
		var j messageJSON
		if err := json.Unmarshal([]byte(line), &j); err != nil {
			t.Fatal(err)
		}
		if sum := fmt.Sprintf("%x", sha256.Sum256(j.Body)); sum != m.Puts[i].UncompressedSHA256 || j.BodySize != m.Records[i].Message.BodyLength {
			t.Errorf("record %d: body of %d bytes with sha256 %s, stored in %d; put: %s, stored in %d", i, len(j.Body), sum, j.BodySize, m.Puts[i].UncompressedSHA256, m.Records[i].Message.BodyLength)
		}
	}
}

// The names that others' scripts rely on.
func TestJSONFieldsAreTheContract(t *testing.T) {
	const message = "phyOffset size queueId queueOffset topic flag sysFlag bornTimestamp bornHost storeTimestamp storeHost reconsumeTimes preparedTransactionOffset bodyCRC bodySize body properties tags keys uniqKey msgId version crcOK transaction compression"
	ext := filepath.Join(golden.Extract(t, "consumequeueext"), "store")
	for _, c := range []struct {
		args string
		want []string // the fields of each line; the last of them of all that follow
	}{
		{"info DIR", []string{"cleanExit minPhyOffset maxPhyOffset segments segmentSize messages topics queues checkpoint firstStoreTimestamp lastStoreTimestamp index"}},
		{"queues DIR", []string{"topic queueId minOffset maxOffset units minPhyOffset maxPhyOffset"}},
		{"units DIR TopicX 0 --max 3", []string{"queueOffset phyOffset size tagsCode ext"}},
		{"dump DIR --max 3", []string{message}},
		{"get DIR TopicX 0 2", []string{"status nextBeginOffset minOffset maxOffset", message}},
		{"lookup DIR 0", []string{message}},
		{"query DIR TopicX xk0 --max 3", []string{message}},
		{"time DIR TopicX 0 -2h", []string{"queueOffset storeTimestamp"}},
	} {
		out := must(t, strings.Fields(strings.Replace(c.args, "DIR", ext+" --json", 1))...)
		for i, line := range lines(out) {
			d := json.NewDecoder(strings.NewReader(line))
			var o map[string]any
			if err := d.Decode(&o); err != nil || d.More() {
				t.Fatalf("%s: line %d is no object: %v: %s", c.args, i, err, line)
			}
			want := strings.Fields(c.want[min(i, len(c.want)-1)])
			slices.Sort(want)
			if d := cmp.Diff(want, slices.Sorted(maps.Keys(o))); d != "" {
				t.Errorf("%s: line %d (-contract +output):\n%s", c.args, i, d)
			}
			for name, fields := range map[string]string{"checkpoint": "physicMsgTimestamp logicsMsgTimestamp indexMsgTimestamp", "index": "kind progressPhyOffset entries", "ext": "tagsCode storeTimestamp bitmap"} {
				inner, ok := o[name].(map[string]any)
				if !ok {
					continue
				}
				want := strings.Fields(fields)
				slices.Sort(want)
				if d := cmp.Diff(want, slices.Sorted(maps.Keys(inner))); d != "" {
					t.Errorf("%s: %s (-contract +output):\n%s", c.args, name, d)
				}
			}
			if body, ok := o["body"].(string); ok {
				if b, err := base64.StdEncoding.DecodeString(body); err != nil || len(b) != int(o["bodySize"].(float64)) {
					t.Errorf("%s: body of %d bytes, bodySize %v: %v", c.args, len(b), o["bodySize"], err)
				}
			}
		}
	}
}

// A store that another process has open is looked at without its lock, and a note says whose it is.
func TestLiveStoreIsLookedAt(t *testing.T) {
	exe, err := exec.LookPath("mqstore")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "store")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	writer := exec.CommandContext(ctx, exe, "demo-writer", dir)
	out, err := writer.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := writer.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		stop()
		_ = writer.Wait() // killed
	}()
	acks := bufio.NewScanner(out)
	var a ack
	for first := ""; ; { // until the first message, acknowledged, is in its queue as well: that follows
		if !acks.Scan() {
			t.Fatal("the writer ended")
		}
		if first == "" {
			first = acks.Text()
			if err := json.Unmarshal(acks.Bytes(), &a); err != nil {
				t.Fatal(err)
			}
		}
		if code, _, _ := mqstore(t, "get", dir, a.Topic, strconv.Itoa(int(a.QueueID)), strconv.FormatInt(a.QueueOffset, 10)); code == exitOK {
			break
		}
	}
	id, off := strconv.Itoa(int(a.QueueID)), strconv.FormatInt(a.QueueOffset, 10)
	for _, args := range [][]string{
		{"info", dir}, {"queues", dir}, {"dump", dir}, {"units", dir, a.Topic, id}, {"get", dir, a.Topic, id, off},
		{"lookup", dir, strconv.FormatInt(a.PhyOffset, 10)}, {"time", dir, a.Topic, id, "-2h"},
	} {
		code, _, errs := mqstore(t, args...)
		if want := fmt.Sprintf("in use by process %d", writer.Process.Pid); code != exitOK || !strings.Contains(errs, want) {
			t.Errorf("%v: exit code %d, %q; want 0 and %q", args, code, errs, want)
		}
	}
}

// What the command says of a store of our own is what was put.
func TestLookersReadOurOwnStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s, err := store.Open(dir, store.Options{SegmentSize: 64 << 10, QueueFileSize: 2000})
	if err != nil {
		t.Fatal(err)
	}
	host, err := record.ParseHost("10.0.0.1:10911")
	if err != nil {
		t.Fatal(err)
	}
	const n = 300
	for i := range n {
		m := &record.Message{Topic: "T", QueueID: int32(i % 2), BornHost: host, StoreHost: host, Body: bytes.Repeat([]byte{byte(i)}, 500),
			Properties: record.NewProperties(record.PropertyTags, "a", record.PropertyKeys, fmt.Sprintf("k%d", i))}
		if _, err := s.Put(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var j infoJSON
	if err := json.Unmarshal([]byte(must(t, "info", "--json", dir)), &j); err != nil {
		t.Fatal(err)
	}
	if !j.CleanExit || j.Messages != n || j.Topics != 1 || j.Queues != 2 || j.SegmentSize != 64<<10 {
		t.Errorf("info: %+v", j)
	}
	if got := lines(must(t, "dump", "--json", dir)); len(got) != n {
		t.Errorf("dump has %d records, %d were put", len(got), n)
	}
	if got := lines(must(t, "units", "--json", dir, "T", "1")); len(got) != n/2 {
		t.Errorf("units has %d, want %d", len(got), n/2)
	}
}

// Version 2 records, which RocketMQ 5 writes for long topics, are read.
func TestLongTopicsAreRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s, err := store.Open(dir, store.Options{SegmentSize: 64 << 10, QueueFileSize: 2000, AllowV2: true})
	if err != nil {
		t.Fatal(err)
	}
	host, err := record.ParseHost("[2001:db8::1]:10911")
	if err != nil {
		t.Fatal(err)
	}
	topic := strings.Repeat("long-", 40)
	m := &record.Message{Topic: topic, BornHost: host, StoreHost: host, Body: []byte("hello")}
	if _, err := s.Put(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var j messageJSON
	if err := json.Unmarshal([]byte(must(t, "dump", "--json", dir)), &j); err != nil {
		t.Fatal(err)
	}
	if j.Version != 2 || j.Topic != topic || j.StoreHost != "[2001:db8::1]:10911" || string(j.Body) != "hello" {
		t.Errorf("%+v", j)
	}
	if got := lines(must(t, "get", "--json", dir, topic, "0", "0")); len(got) != 2 {
		t.Errorf("get: %v", got)
	}
}

func TestInterruptedVerbsSaySo(t *testing.T) {
	dir := filepath.Join(golden.Extract(t, "basic"), "store")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	for _, args := range [][]string{{"dump", dir}, {"units", dir, "TopicA", "0"}, {"info", dir}, {"queues", dir}} {
		var out, errs bytes.Buffer
		if code := run(ctx, args, &out, &errs); code != exitFailed || !strings.Contains(errs.String(), args[0]+": interrupted") {
			t.Errorf("%v: exit code %d, %q", args, code, errs.String())
		}
	}
}
