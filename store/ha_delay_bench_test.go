package store_test

import (
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mqstore/mqstore/store"
)

// delay listens on loopback and passes on what it gets to address, each piece a time later, in both directions, however much is on its way.
func delay(b *testing.B, address string, d time.Duration) (listening string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var running sync.WaitGroup
	b.Cleanup(func() {
		l.Close()
		running.Wait()
	})
	running.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", address)
			if err != nil {
				near.Close()
				continue
			}
			running.Go(func() { later(far, near, d) })
			running.Go(func() { later(near, far, d) })
		}
	})
	return l.Addr().String()
}

// later copies until one side ends, then closes both.
func later(to, from net.Conn, d time.Duration) {
	type piece struct {
		due time.Time
		b   []byte
	}
	under := make(chan piece, 1<<14)
	var writing sync.WaitGroup
	writing.Go(func() {
		for p := range under {
			time.Sleep(time.Until(p.due))
			if _, err := to.Write(p.b); err != nil {
				break
			}
		}
		to.Close()
		from.Close()
		for range under {
		}
	})
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			under <- piece{time.Now().Add(d), slices.Clone(buf[:n])}
		}
		if err != nil {
			break
		}
	}
	close(under)
	writing.Wait()
}

// BenchmarkSyncMasterPutDelayed is puts of 128 B that a slave behind a slow line acknowledges, where the line, not the processor, is the limit: n producers reach nearly n ÷ round trip if none of
// them waits for another one's acknowledgement (at best: each waits for the one under way when it puts, and shares the next). x-limit is the part of that they reach, x-rtt the median latency in round trips; rtt-ns is
// measured over the same line in the same run. A part of much less than 0.7 with p50-ns near rtt-ns is the processor's limit.
func BenchmarkSyncMasterPutDelayed(b *testing.B) {
	body := string(make([]byte, 128))
	for _, oneWay := range []time.Duration{500 * time.Microsecond, 2500 * time.Microsecond} {
		for _, producers := range []int{1, 8, 64, 512} {
			b.Run(fmt.Sprintf("body=128/rtt=%v/producers=%d", 2*oneWay, producers), func(b *testing.B) {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					b.Fatal(err)
				}
				go echo(l)
				rtt := roundTripOf(b, delay(b, l.Addr().String(), oneWay), 200)
				l.Close()
				master := open(b, b.TempDir(), store.Options{Role: store.SyncMaster, SegmentSize: 256 << 20, Index: store.IndexOptions{Off: true}, HA: store.HAOptions{ListenAddress: "127.0.0.1:0"}})
				follow(b, master, delay(b, master.Stats().HA.ListenAddress, oneWay), store.Options{})
				took, rate := producing(b, master, body, producers)
				b.ReportMetric(rate, "puts/s")
				b.ReportMetric(float64(rtt.Nanoseconds()), "rtt-ns")
				b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
				b.ReportMetric(float64(took[len(took)/2])/float64(rtt), "x-rtt")
				b.ReportMetric(rate*rtt.Seconds()/float64(producers), "x-limit")
			})
		}
	}
}

// producing puts b.N messages, by so many producers at a time, and returns how long each put took, shortest first.
func producing(b *testing.B, master *store.DefaultMessageStore, body string, producers int) (took []time.Duration, rate float64) {
	took = make([]time.Duration, b.N)
	var group sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for id := range producers {
		group.Go(func() {
			m := message("T", int32(id%8), body) // not a queue each: to make 512 takes longer than the round trips
			for i := id; i < b.N; i += producers {
				start := time.Now()
				if r, err := master.Put(bg, m); err != nil || r.Status != store.PutOK {
					b.Error(r.Status, err)
				}
				took[i] = time.Since(start)
			}
		})
	}
	group.Wait()
	rate = float64(b.N) / b.Elapsed().Seconds()
	b.StopTimer()
	slices.Sort(took)
	return took, rate
}

// echo sends back what the first connection brings.
func echo(l net.Listener) {
	if c, err := l.Accept(); err == nil {
		io.Copy(struct{ io.Writer }{c}, c)
		c.Close()
	}
}
