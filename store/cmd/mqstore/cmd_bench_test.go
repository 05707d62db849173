package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mqstore/mqstore/conformance/golden"
)

// tiny makes a run as short as it can be.
func tiny(args ...string) []string {
	return append([]string{"bench", "--duration", "2ms", "--size", "1", "--producers", "2", "--body", "100"}, args...)
}

// names is what lies below dir.
func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if err == nil {
			all = append(all, p)
		}
		return err
	}); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return all
}

// paths are the names of an object's fields, nested ones with a dot.
func paths(prefix string, v map[string]any) (all []string) {
	for name, v := range v {
		if m, ok := v.(map[string]any); ok {
			all = append(all, paths(prefix+name+".", m)...)
		} else {
			all = append(all, prefix+name)
		}
	}
	slices.Sort(all)
	return all
}

const (
	putFields    = "messages notOK seconds messagesPerSecond messagesPerSecondLeast messagesPerSecondMost bytesPerSecond p50Micros p99Micros endedBySize"
	memcpyFields = " memcpysPerSecond memcpyBytesPerSecond ratioToMemcpy"
)

// benchFields are those of a run with everything that scripts may rely on.
func benchFields() (all []string) {
	for prefix, fields := range map[string]string{
		"":          "directory freeBytes neededBytes cpus version bodyBytes recordBytes producers durationSeconds seconds",
		"disk.":     "verdict says fdatasyncs fdatasyncP50Micros fdatasyncP99Micros",
		"putAsync.": putFields + memcpyFields + " onDiskBytesPerSecond",
		"putSync.":  putFields + " fdatasyncsPerSecond fdatasyncBytes fdatasyncP50Micros fdatasyncP99Micros messagesPerFdatasync limitMessagesPerSecond ratioToFdatasync",
		"putHA.":    putFields + " roundTripsPerSecond roundTripBytes roundTripP50Micros roundTripP99Micros messagesPerRoundTrip limitMessagesPerSecond ratioToRoundTrip",
		"get.":      "messages seconds messagesPerSecond bytesPerSecond" + memcpyFields,
		"query.":    "queries seconds queriesPerSecond p50Micros p99Micros keys" + memcpyFields,
		"recovery.": "bytes messages seconds bytesPerSecond messagesPerSecond readCRCBytesPerSecond ratioToReadCRC",
	} {
		for _, f := range strings.Fields(fields) {
			all = append(all, prefix+f)
		}
	}
	slices.Sort(all)
	return all
}

func TestBenchsFieldsAreThoseThatScriptsRelyOnAndAddUp(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	code, out, errs := mqstore(t, tiny("--ha", "--json", dir)...)
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	if strings.Count(out, "\n") != 1 || !strings.HasPrefix(errs, "mqstore: about ") || strings.Count(errs, "\n") != 1 {
		t.Errorf("stdout %q, stderr %q: want one object there, and here where it works and what it needs", out, errs)
	}
	var all map[string]any
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatal(err)
	}
	system := []string{"fileSystem", "device", "mountPoint", "disk.writeCache", "disk.deviceFlushes"} // where it says so
	got := slices.DeleteFunc(paths("", all), func(f string) bool { return slices.Contains(system, f) })
	if d := cmp.Diff(benchFields(), got); d != "" {
		t.Errorf("fields (-want +got):\n%s", d)
	}
	var r benchJSON
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	same := func(what string, got, want float64) {
		t.Helper()
		if got <= 0 || math.Abs(got-want) > want/1000 {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	record := float64(r.RecordBytes)
	for name, p := range map[string]benchPutJSON{"putAsync": r.PutAsync.benchPutJSON, "putSync": r.PutSync.benchPutJSON, "putHA": r.PutHA.benchPutJSON} {
		same(name+".bytesPerSecond", p.BytesPerSecond, p.MessagesPerSecond*record)
		if p.MessagesPerSecondLeast > p.MessagesPerSecond || p.MessagesPerSecond > p.MessagesPerSecondMost || p.P50Micros > p.P99Micros || p.P50Micros <= 0 {
			t.Errorf("%s is not in order: %+v", name, p)
		}
		if mean := float64(p.Messages) / p.Seconds; p.NotOK == 0 && (mean < p.MessagesPerSecondLeast*0.999 || mean > p.MessagesPerSecondMost*1.001) {
			t.Errorf("%s: %d messages in %v s are not between the slowest and the fastest round: %+v", name, p.Messages, p.Seconds, p)
		}
	}
	for name, m := range map[string]struct {
		rate float64
		benchMemcpyJSON
	}{"putAsync": {r.PutAsync.MessagesPerSecond, r.PutAsync.benchMemcpyJSON}, "get": {r.Get.MessagesPerSecond, r.Get.benchMemcpyJSON}, "query": {r.Query.QueriesPerSecond, r.Query.benchMemcpyJSON}} {
		same(name+".ratioToMemcpy", m.RatioToMemcpy, m.rate/m.MemcpysPerSecond)
		same(name+".memcpyBytesPerSecond", m.MemcpyBytesPerSecond, m.MemcpysPerSecond*record)
	}
	same("putSync.limit", r.PutSync.LimitMessagesPerSecond, r.PutSync.FdatasyncsPerSecond*float64(r.PutSync.MessagesPerFdatasync))
	same("putSync.ratio", r.PutSync.RatioToFdatasync, r.PutSync.MessagesPerSecond/r.PutSync.LimitMessagesPerSecond)
	same("putSync.fdatasyncBytes", float64(r.PutSync.FdatasyncBytes), float64(r.PutSync.MessagesPerFdatasync)*record)
	same("putHA.limit", r.PutHA.LimitMessagesPerSecond, r.PutHA.RoundTripsPerSecond*float64(r.PutHA.MessagesPerRoundTrip))
	same("putHA.ratio", r.PutHA.RatioToRoundTrip, r.PutHA.MessagesPerSecond/r.PutHA.LimitMessagesPerSecond)
	same("get.bytesPerSecond", r.Get.BytesPerSecond, r.Get.MessagesPerSecond*record)
	same("recovery.seconds", r.Recovery.Seconds, float64(r.Recovery.Bytes)/r.Recovery.BytesPerSecond)
	same("recovery.messagesPerSecond", r.Recovery.MessagesPerSecond, float64(r.Recovery.Messages)/r.Recovery.Seconds)
	same("recovery.bytes", float64(r.Recovery.Bytes), float64(r.Recovery.Messages)*record)
	same("recovery.ratio", r.Recovery.RatioToReadCRC, r.Recovery.BytesPerSecond/r.Recovery.ReadCRCBytesPerSecond)
	if r.Recovery.Messages < r.PutAsync.Messages || r.Query.Keys < 1 || r.Disk.Fdatasyncs < 1 || r.NeededBytes < 1 {
		t.Errorf("%+v", r)
	}
	if left := names(t, dir); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

func TestBenchMeasuresWhatWasAskedFor(t *testing.T) {
	for _, c := range []struct {
		flush string
		want  []string
	}{{"sync", []string{"putSync"}}, {"async", []string{"putAsync"}}} {
		var all map[string]any
		if err := json.Unmarshal([]byte(must(t, tiny("--json", "--flush", c.flush, t.TempDir())...)), &all); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, name := range []string{"putAsync", "putSync", "putHA"} {
			if all[name] != nil {
				got = append(got, name)
			}
		}
		if !slices.Equal(got, c.want) || all["get"] == nil || all["query"] == nil || all["recovery"] == nil {
			t.Errorf("--flush %s: %v", c.flush, all)
		}
	}
}

// Whatever it is doing when the interrupt comes.
func TestInterruptedBenchLeavesTheDirectoryAsItWas(t *testing.T) {
	stages := []string{"fdatasync", "put sync", "put with a slave", "query", "put async", "get", "recovery"}
	for i, at := range stages {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "somebody's"), []byte("file"), 0o644); err != nil {
			t.Fatal(err)
		}
		before := names(t, dir)
		ctx, interrupt := context.WithCancel(t.Context())
		var (
			out, errs bytes.Buffer
			entered   []string
		)
		c := &benchCmd{Dir: &dir, Body: 100, Producers: 2, Duration: 2 * time.Millisecond, Size: 1, HA: true, entered: func(stage string) {
			if entered = append(entered, stage); stage == at {
				interrupt()
			}
		}}
		e := &env{ctx: ctx, out: bufio.NewWriter(&out), stdout: &out, stderr: &errs}
		err := c.Run(e)
		e.out.Flush()
		interrupt()
		if !errors.Is(err, context.Canceled) || !slices.Equal(entered, stages[:i+1]) || out.Len() > 0 {
			t.Errorf("interrupted at %s: %v after %v, %q", at, err, entered, out.String())
		}
		if d := cmp.Diff(before, names(t, dir)); d != "" {
			t.Errorf("interrupted at %s it left:\n%s", at, d)
		}
	}
}

func TestBenchRefusesAStoreAndWhatLiesInOne(t *testing.T) {
	dir := filepath.Join(golden.Extract(t, "basic"), "store")
	before := tree(t, dir)
	for _, in := range []string{dir, dir + "/", filepath.Join(dir, "commitlog"), filepath.Join(dir, "consumequeue"), filepath.Join(dir, "new")} {
		code, out, errs := mqstore(t, tiny(in)...)
		if code != exitFailed || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "message store") {
			t.Errorf("%s: exit code %d, %q, %q", in, code, out, errs)
		}
	}
	if d := cmp.Diff(before, tree(t, dir)); d != "" {
		t.Errorf("changed:\n%s", d)
	}
}

func TestBenchRefusesTooLittleRoom(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	code, out, errs := mqstore(t, "bench", "--size", itoa(int64(benchMaxSize)), "--json", dir)
	if code != exitFailed || out != "" || !strings.Contains(errs, " free, and this takes up to 1.4 PiB") {
		t.Errorf("exit code %d, %q, %q", code, out, errs)
	}
	if left := names(t, dir); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

// What is announced is enough for what is written.
func TestBenchNeedsNoMoreRoomThanItSays(t *testing.T) {
	dir := t.TempDir()
	most := int64(0)
	c := &benchCmd{Dir: &dir, Body: 1000, Producers: 3, Duration: 5 * time.Millisecond, Size: 4 << 20, HA: true, entered: func(string) {
		sum := int64(0)
		for _, name := range names(t, filepath.Join(dir)) {
			if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() && !strings.Contains(name, "consumequeue") { // whose files are sparse
				sum += info.Size()
			}
		}
		most = max(most, sum)
	}}
	var out, errs bytes.Buffer
	e := &env{ctx: t.Context(), out: bufio.NewWriter(&out), stdout: &out, stderr: &errs}
	if err := c.Run(e); err != nil {
		t.Fatal(err)
	}
	p, err := c.plan()
	if err != nil {
		t.Fatal(err)
	}
	if most == 0 || most > p.need {
		t.Errorf("%d bytes of files, %d were announced", most, p.need)
	}
}
