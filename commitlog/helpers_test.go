package commitlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/commitlog/record"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testSegment = 16 << 10
	testDir     = "/store/commitlog"
	quarantined = "/store/quarantine"
)

var testHost = record.HostFrom(netip.MustParseAddrPort("10.0.0.1:10911"))

// testClock goes on by step at each reading.
type testClock struct {
	now  time.Time
	step time.Duration
}

func newClock() *testClock {
	return &testClock{now: time.UnixMilli(1_700_000_000_000), step: time.Millisecond}
}

func (c *testClock) Now() time.Time {
	c.now = c.now.Add(c.step)
	return c.now
}

// rig is a log on a file system in memory, with a clock of its own and no goroutines.
type rig struct {
	t     testing.TB
	fs    *faultfs.FS
	clock *testClock
	o     Options
	log   *Log
	tail  Tail
	count Counter
	n     int // messages made
}

func newRig(t testing.TB) *rig {
	r := &rig{t: t, fs: faultfs.New(), clock: newClock()}
	r.o = Options{Dir: testDir, SegmentSize: testSegment, Now: r.clock.Now, NoBackground: true}
	t.Cleanup(func() {
		if r.log != nil {
			_ = r.log.Close()
		}
	})
	return r
}

func (r *rig) tryOpen(rec Recovery) error {
	r.t.Helper()
	r.o.FS = r.fs
	r.log = nil
	l, tail, err := Open(r.o, rec)
	r.tail = tail
	if err == nil {
		r.log = l
	}
	return err
}

func (r *rig) open(rec Recovery) *Log {
	r.t.Helper()
	if err := r.tryOpen(rec); err != nil {
		r.t.Fatalf("open: %v", err)
	}
	return r.log
}

func (r *rig) close() {
	r.t.Helper()
	if err := r.log.Close(); err != nil {
		r.t.Fatalf("close: %v", err)
	}
	r.log = nil
}

// kill ends the process: what it wrote is there, synced or not.
func (r *rig) kill() {
	r.fs = r.fs.Kill()
	if r.log != nil {
		_ = r.log.Close()
		r.log = nil
	}
}

func testBody(n, size int) []byte {
	return bytes.Repeat([]byte(fmt.Sprintf("%08d", n)), size/8+1)[:size]
}

func (r *rig) message(size int) *record.Message {
	r.n++
	return &record.Message{Topic: "TopicTest", QueueID: 1, BornTimestamp: 1, BornHost: testHost, StoreHost: testHost, Body: testBody(r.n, size),
		Properties: record.NewProperties(record.PropertyTags, "TagA")}
}

func (r *rig) append(size int) AppendResult {
	r.t.Helper()
	res, err := r.log.Append(r.message(size), &r.count)
	if err != nil {
		r.t.Fatalf("append: %v", err)
	}
	return res
}

func (r *rig) appendN(n, size int) (all []AppendResult) {
	r.t.Helper()
	for range n {
		all = append(all, r.append(size))
	}
	return all
}

func (r *rig) flush() {
	r.t.Helper()
	if _, err := r.log.FlushStep(); err != nil {
		r.t.Fatalf("flush: %v", err)
	}
}

// offsets are those of all records from the log's start on.
func offsets(t testing.TB, l *Log) (all []int64) {
	t.Helper()
	c := l.NewCursor(max(l.MinPhyOffset(), 0))
	defer c.Close()
	var m record.Meta
	for {
		switch err := c.Next(&m, l.MaxPhyOffset()); {
		case err == nil:
			all = append(all, m.PhyOffset)
		case errors.Is(err, ErrNotYet):
			return all
		default:
			t.Fatalf("read at %d: %v", c.Offset(), err)
		}
	}
}

// file is a segment's bytes, as an editor would see and change them.
func (r *rig) file(start int64) (string, []byte) {
	r.t.Helper()
	path := filepath.Join(testDir, segmentName(start))
	b, err := r.fs.ReadFile(path)
	if err != nil {
		r.t.Fatal(err)
	}
	return path, bytes.Clone(b)
}

// edit changes bytes of the closed log on the device.
func (r *rig) edit(phyOffset int64, change func(b []byte)) {
	r.t.Helper()
	start := phyOffset - phyOffset%r.o.SegmentSize
	path, b := r.file(start)
	change(b[phyOffset-start:])
	r.fs.Plant(path, b)
}

func flip(b []byte) { b[0] ^= 1 }

func zeroN(n int) func(b []byte) { return func(b []byte) { clear(b[:n]) } }

// bodyAt is where the body of a record of this rig starts.
const bodyAt = 88

func (r *rig) quarantine() (files map[string][]byte) {
	r.t.Helper()
	files = map[string][]byte{}
	for _, p := range r.fs.Paths() {
		if filepath.Dir(p) == quarantined {
			b, err := r.fs.ReadFile(p)
			if err != nil {
				r.t.Fatal(err)
			}
			files[p] = b
		}
	}
	return files
}

// snapshot is every file of the log.
func (r *rig) snapshot() map[string]string {
	r.t.Helper()
	files := map[string]string{}
	for _, p := range r.fs.Paths() {
		b, err := r.fs.ReadFile(p)
		if err != nil {
			r.t.Fatal(err)
		}
		files[p] = string(b)
	}
	return files
}

func wantDamage(t testing.TB, err error) *DamageError {
	t.Helper()
	var d *DamageError
	if !errors.As(err, &d) {
		t.Fatalf("open: %v, want *DamageError", err)
	}
	if !errors.Is(err, mappedfile.ErrCorrupt) {
		t.Errorf("%v is not ErrCorrupt", err)
	}
	return d
}

func storedQueueOffset(b []byte) int64 { return int64(binary.BigEndian.Uint64(b[20:])) }
