package store_test

import (
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/mqstore/mqstore/store"
)

// pair is a master and its slave over loopback.
func pair(b testing.TB, mo, so store.Options) (master, slave *store.DefaultMessageStore) {
	mo.HA.ListenAddress = "127.0.0.1:0"
	mo.SegmentSize = 256 << 20
	mo.Index.Off = true
	master = open(b, b.TempDir(), mo)
	return master, follow(b, master, master.Stats().HA.ListenAddress, so)
}

// follow opens a slave that reaches the master at address, and waits until the master knows it.
func follow(b testing.TB, master *store.DefaultMessageStore, address string, so store.Options) *store.DefaultMessageStore {
	so.SegmentSize = 256 << 20
	so.Index.Off = true
	so.Role, so.HA.MasterAddress = store.Slave, address
	connected := make(chan struct{}, 100)
	so.Events.MasterConnected = func(string) { connected <- struct{}{} }
	slave := open(b, b.TempDir(), so)
	<-connected
	for r := put(b, master, message("T", 0, "first")); r.Status == store.SlaveNotAvailable; {
		r = put(b, master, message("T", 0, "first"))
	}
	return slave
}

// roundTrip is the median time of 8 bytes there and back over a loopback connection: what no acknowledgement can be faster than.
func roundTrip(b testing.TB) time.Duration {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go echo(l)
	return roundTripOf(b, l.Addr().String(), 2000)
}

// roundTripOf is the same of a number of times over a line of whoever sends back what it gets.
func roundTripOf(b testing.TB, address string, times int) time.Duration {
	c, err := net.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	var buf [8]byte
	took := make([]time.Duration, times)
	for i := range took {
		begin := time.Now()
		c.Write(buf[:])
		if _, err := io.ReadFull(c, buf[:]); err != nil {
			b.Fatal(err)
		}
		took[i] = time.Since(begin)
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// BenchmarkSyncMasterPut is puts of 128 B that a slave on the same machine acknowledges, beside the loopback round trip.
// x-rtt is the median latency in round trips; ratio is the rate as a part of producers ÷ that latency at one producer;
// cpu-ns/put is the processor time of both sides together, dispatch included; puts/frame is how many share a frame.
func BenchmarkSyncMasterPut(b *testing.B) {
	body := string(make([]byte, 128))
	var alone time.Duration // median latency of one producer
	for _, producers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("body=128/producers=%d", producers), func(b *testing.B) {
			rtt := roundTrip(b)
			master, slave := pair(b, store.Options{Role: store.SyncMaster}, store.Options{})
			frames := slave.Stats().HA.Following.Frames
			before := processorTime()
			took, rate := producing(b, master, body, producers)
			used := processorTime() - before
			p50 := took[len(took)/2]
			if producers == 1 {
				alone = p50
			}
			if used > 0 {
				b.ReportMetric(float64(used.Nanoseconds())/float64(b.N), "cpu-ns/put")
			}
			b.ReportMetric(float64(b.N)/float64(slave.Stats().HA.Following.Frames-frames), "puts/frame")
			b.ReportMetric(rate, "puts/s")
			b.ReportMetric(float64(rtt.Nanoseconds()), "rtt-ns")
			b.ReportMetric(float64(p50.Nanoseconds()), "p50-ns")
			b.ReportMetric(float64(p50)/float64(rtt), "x-rtt")
			if alone > 0 {
				b.ReportMetric(rate*alone.Seconds()/float64(producers), "ratio")
			}
		})
	}
	var without float64 // puts/s
	for _, slave := range []bool{false, true} {
		b.Run(fmt.Sprintf("body=128/inflight=1024/slave=%v", slave), func(b *testing.B) {
			var master *store.DefaultMessageStore
			if slave {
				master, _ = pair(b, store.Options{Role: store.SyncMaster}, store.Options{})
			} else {
				master = open(b, b.TempDir(), store.Options{SegmentSize: 256 << 20, Index: store.IndexOptions{Off: true}})
			}
			m := message("T", 0, body)
			var flying [1024]*store.Future
			b.ResetTimer()
			for i := range b.N {
				if f := flying[i%len(flying)]; f != nil {
					if r, err := f.Wait(bg); err != nil || r.Status != store.PutOK {
						b.Fatal(r.Status, err)
					}
				}
				flying[i%len(flying)] = master.PutAsync(m)
			}
			rate := float64(b.N) / b.Elapsed().Seconds()
			b.ReportMetric(rate, "puts/s")
			if !slave {
				without = rate
			} else if without > 0 {
				b.ReportMetric(rate/without, "x-without-slave")
			}
		})
	}
}

// BenchmarkReplicate is a log of 1 KiB messages that a slave catches up with, beside a raw loopback connection with writes of 256 KiB.
func BenchmarkReplicate(b *testing.B) {
	var raw float64 // bytes/s
	b.Run("raw-loopback", func(b *testing.B) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		defer l.Close()
		done := make(chan struct{})
		go func() {
			defer close(done)
			if c, err := l.Accept(); err == nil {
				buf := make([]byte, 256<<10)
				for err == nil {
					_, err = c.Read(buf)
				}
				c.Close()
			}
		}()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		buf := make([]byte, 256<<10)
		b.SetBytes(1 << 20)
		b.ResetTimer()
		for range b.N {
			for range 4 {
				if _, err := c.Write(buf); err != nil {
					b.Fatal(err)
				}
			}
		}
		c.Close()
		<-done
		raw = float64(b.N) * (1 << 20) / b.Elapsed().Seconds()
	})
	b.Run("body=1k", func(b *testing.B) {
		master, slave := pair(b, store.Options{}, store.Options{})
		if err := slave.UpdateHaMasterAddress(""); err != nil {
			b.Fatal(err)
		}
		m := message("T", 0, string(make([]byte, 1<<10)))
		for range b.N { // 1 MiB each, as the raw one
			for range 1 << 10 {
				put(b, master, m)
			}
		}
		b.SetBytes((master.MaxPhyOffset() - slave.MaxPhyOffset()) / int64(b.N))
		b.ResetTimer()
		if err := slave.UpdateHaMasterAddress(master.Stats().HA.ListenAddress); err != nil {
			b.Fatal(err)
		}
		behind := master.MaxPhyOffset() - slave.MaxPhyOffset()
		<-slave.Grown(master.MaxPhyOffset() - 1)
		if raw > 0 {
			b.ReportMetric(float64(behind)/b.Elapsed().Seconds()/raw, "x-raw")
		}
	})
}
