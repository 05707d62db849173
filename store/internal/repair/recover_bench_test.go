package repair

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/mqstore/mqstore/commitlog"
	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store/internal/recovery"
)

// bigStore is a store of about so many bytes, closed cleanly.
func bigStore(b *testing.B, dir string, size int64, body int) {
	b.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	op, err := recovery.Open(recovery.Options{FS: mappedfile.OS(), Root: dir, CommitLog: commitlog.Options{SegmentSize: 64 << 20, NoBackground: true}})
	if err != nil {
		b.Fatal(err)
	}
	host := record.HostFrom(netip.MustParseAddrPort("10.0.0.1:10911"))
	var counters [8]commitlog.Counter
	for i := 0; op.Log.MaxPhyOffset() < size; i++ {
		m := &record.Message{Topic: "T", QueueID: int32(i % len(counters)), BornHost: host, StoreHost: host, Body: bytes.Repeat([]byte{byte(i)}, body),
			Properties: record.NewProperties(record.PropertyUniqKey, fmt.Sprintf("%032d", i))}
		if _, err := op.Log.Append(m, &counters[m.QueueID]); err != nil {
			b.Fatal(err)
		}
	}
	if err := op.Close(); err != nil {
		b.Fatal(err)
	}
	if _, err := Recover(b.Context(), Options{Root: dir}); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkRecover recovers a store after a crash with a checkpoint and a summary, with a checkpoint only, with the queues lost, with the index lost as well, and with nothing that
// says what was synced: then all of the log is compared with the device. Cold is a machine that has just started and has nothing of the log in memory.
//
// Before each run the log is read and summed as fast as the machine does that in sequence: from the page cache, and once more from the device. The metrics are medians of
// such pairs: xlimit is how much of the former's speed is reached, xdevice of the latter's, xcpu compares the processors' time with the former's. B/s is of the log.
func BenchmarkRecover(b *testing.B) {
	const size = 512 << 20
	for _, body := range []int{100, 1 << 10, 4 << 10} {
		b.Run(fmt.Sprintf("body=%d", body), func(b *testing.B) {
			dir := filepath.Join(b.TempDir(), "store")
			bigStore(b, dir, size, body)
			for _, c := range []struct {
				name  string
				spoil []string
				cold  bool
			}{
				{name: "crashed"},
				{name: "crashed,no-summary", spoil: []string{"mqstore.summary"}}, // as RocketMQ leaves it
				{name: "crashed,no-summary,cold", spoil: []string{"mqstore.summary"}, cold: true},
				{name: "crashed,queues-lost", spoil: []string{"mqstore.summary", queueDir}},
				{name: "crashed,queues+index-lost", spoil: []string{"mqstore.summary", queueDir, pebbleDir}},
				{name: "crashed,nothing-known", spoil: []string{"mqstore.summary", "checkpoint"}},
				{name: "crashed,nothing-known,cold", spoil: []string{"mqstore.summary", "checkpoint"}, cold: true},
			} {
				b.Run(c.name, func(b *testing.B) { benchRecover(b, dir, size, c.spoil, c.cold) })
			}
		})
	}
}

func benchRecover(b *testing.B, dir string, size int64, spoil []string, cold bool) {
	b.SetBytes(size)
	var xlimit, xdevice, xcpu []float64
	for b.Loop() {
		b.StopTimer()
		for _, name := range spoil {
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				b.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, abortFile), nil, 0o644); err != nil {
			b.Fatal(err)
		}
		dropLog(b, dir)
		device, _ := readAndSum(b, dir)
		limit, limitCPU := readAndSum(b, dir)
		if cold {
			dropLog(b, dir)
		}
		start, cpu := time.Now(), processorTime()
		b.StartTimer()
		if _, err := Recover(b.Context(), Options{Root: dir}); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		took := time.Since(start)
		xlimit, xdevice = append(xlimit, float64(limit)/float64(took)), append(xdevice, float64(device)/float64(took))
		if cpu = processorTime() - cpu; cpu > 0 {
			xcpu = append(xcpu, float64(limitCPU)/float64(cpu))
		}
		b.StartTimer()
	}
	var after runtime.MemStats
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapSys)/(1<<20), "MiB-heap")
	b.ReportMetric(median(xlimit), "xlimit")
	b.ReportMetric(median(xdevice), "xdevice")
	b.ReportMetric(median(xcpu), "xcpu")
}

func median(of []float64) float64 {
	if len(of) == 0 {
		return 0
	}
	slices.Sort(of)
	return of[len(of)/2]
}

// dropLog drops the log from the page cache, where the system can do that.
func dropLog(b *testing.B, dir string) {
	b.Helper()
	for _, path := range logFiles(b, dir) {
		m, err := mappedfile.OS().Map(path, 0, mappedfile.MapReadOnly)
		if err == nil {
			_ = m.Advise(mappedfile.AdviceDontNeed, 0, int64(len(m.Bytes())))
			err = m.Close()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// readAndSum reads the log in sequence and sums it.
func readAndSum(b *testing.B, dir string) (took, cpu time.Duration) {
	b.Helper()
	buf := make([]byte, 1<<20)
	start, used := time.Now(), processorTime()
	for _, path := range logFiles(b, dir) {
		in, err := os.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		for sum := uint32(0); ; {
			n, err := in.Read(buf)
			sum = crc32.Update(sum, crc32.IEEETable, buf[:n])
			if err == io.EOF {
				break
			}
			if err != nil {
				b.Fatal(err)
			}
		}
		in.Close()
	}
	return time.Since(start), processorTime() - used
}

func logFiles(b *testing.B, dir string) []string {
	b.Helper()
	files, err := filepath.Glob(filepath.Join(dir, commitLogDir, "*"))
	if err != nil {
		b.Fatal(err)
	}
	return files
}
