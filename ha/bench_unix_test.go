//go:build unix

package ha

import (
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// ring is a log whose bytes are a window of memory that comes again, so that benchmarks move much and hold little. It is mapped, as the engine's segments are.
type ring struct {
	window  []byte
	end     atomic.Int64
	segment int64
	mu      struct {
		sync.Mutex
		waits map[int64]chan struct{}
	}
}

func newRing(b *testing.B, size int) *ring {
	r, unmap, err := mapRing(b.TempDir(), size)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(unmap)
	return r
}

func mapRing(dir string, size int) (r *ring, unmap func(), err error) {
	f, err := os.CreateTemp(dir, "ring")
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if err := f.Truncate(int64(size)); err != nil {
		return nil, nil, err
	}
	w, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, nil, err
	}
	copy(w, randomBytes(1, size))
	r = &ring{window: w, segment: int64(size)}
	r.mu.waits = map[int64]chan struct{}{}
	return r, func() { syscall.Munmap(w) }, nil
}

func (r *ring) Read(off int64, max int) ([]byte, func(), error) {
	at := off % r.segment
	n := min(r.end.Load()-off, int64(max), r.segment-at)
	if n <= 0 {
		return nil, nil, nil
	}
	return r.window[at : at+n], func() {}, nil
}

func (r *ring) MinPhyOffset() int64                        { return 0 }
func (r *ring) MaxPhyOffset() int64                        { return r.end.Load() }
func (r *ring) FlushedPhyOffset() int64                    { return r.end.Load() }
func (r *ring) Tail() (phyOffset int64, n int, sum uint32) { return 0, 0, 0 }

func (r *ring) Grown(p int64) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return past(r.mu.waits, r.end.Load(), p)
}

func (r *ring) grow(n int64) int64 {
	end := r.end.Add(n)
	r.mu.Lock()
	fire(r.mu.waits, end)
	r.mu.Unlock()
	return end
}

func (r *ring) AppendToCommitLog(off int64, p []byte) error {
	at := off % r.segment
	copy(r.window[at:], p)
	r.grow(int64(len(p)))
	return nil
}

// pairOnLoopback is a master and a slave over TCP.
func pairOnLoopback(b *testing.B, mo MasterOptions, so SlaveOptions, src, target *ring) *Master {
	l, err := ListenClassic(":0")
	if err != nil {
		b.Fatal(err)
	}
	mo.SegmentSize = src.segment
	m, err := NewMaster(src, mo)
	if err != nil {
		b.Fatal(err)
	}
	so.Master = l.Addr().String()
	s, err := NewSlave(target, so)
	if err != nil {
		b.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		if mo.Extended != nil {
			m.ServeExtended(l)
		} else {
			m.Serve(l)
		}
	})
	ctx := b.Context()
	all.Go(func() { s.Run(ctx) })
	b.Cleanup(func() { m.Close(); all.Wait() })
	for !m.SlaveOK(m.src.MaxPhyOffset()) || !slices.ContainsFunc(m.Stats().Connections, func(c ConnectionStats) bool { return c.Reported }) {
		time.Sleep(time.Millisecond)
	}
	return m
}

func cpu() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func loopback(b *testing.B) (client, server net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		b.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

// BenchmarkReplicationThroughput moves 4 MiB an operation. "raw" is the limit of the machine: the same bytes written to a loopback connection from the same mapping, read with the same buffer;
// "raw+copy" also copies them into the reader's mapping, as a slave must.
func BenchmarkReplicationThroughput(b *testing.B) {
	const chunk, size = 4 << 20, 64 << 20
	var raw float64 // bytes/s with writes of 256 KiB
	for _, copied := range []bool{false, true} {
		for _, k := range []int{32 << 10, 256 << 10} {
			b.Run(fmt.Sprintf("raw/copy=%v/write=%dk", copied, k>>10), func(b *testing.B) {
				client, server := loopback(b)
				src, dst := newRing(b, size), newRing(b, size)
				b.SetBytes(chunk)
				start := cpu()
				b.ResetTimer()
				go func() {
					for off := 0; off < b.N*chunk; off += k {
						client.Write(src.window[off%size : off%size+k])
					}
				}()
				buf := make([]byte, 256<<10)
				for got := 0; got < b.N*chunk; {
					n, err := server.Read(buf)
					if err != nil {
						b.Fatal(err)
					}
					if copied {
						for p, at := buf[:n], got%size; len(p) > 0; at = 0 {
							c := copy(dst.window[at:], p)
							p = p[c:]
						}
					}
					got += n
				}
				b.ReportMetric((cpu()-start).Seconds()/(float64(b.N)*chunk/(1<<30)), "cpu-s/GiB")
				if !copied && k == 256<<10 {
					raw = float64(b.N) * chunk / b.Elapsed().Seconds()
				}
			})
		}
	}
	for _, c := range []struct {
		name     string
		batch    int
		extended bool
	}{{"classic/batch=32k", 32 << 10, false}, {"classic/batch=256k", 256 << 10, false}, {"classic/batch=1m", 1 << 20, false}, {"extended", 0, true}} {
		b.Run(c.name, func(b *testing.B) {
			src, target := newRing(b, size), newRing(b, size)
			mo, so := MasterOptions{BatchSize: c.batch}, SlaveOptions{}
			if c.extended {
				mo.Extended, so.Extended = extendedPairB(b)
			}
			m := pairOnLoopback(b, mo, so, src, target)
			b.SetBytes(chunk)
			start := cpu()
			b.ResetTimer()
			for range b.N {
				end := src.grow(chunk)
				if back := end - 8*chunk; back > 0 { // some way behind is where large pieces show
					m.WaitAcked(b.Context(), back)
				}
			}
			if err := m.WaitAcked(b.Context(), src.end.Load()); err != nil {
				b.Fatal(err)
			}
			if raw > 0 {
				b.ReportMetric(float64(b.N)*chunk/b.Elapsed().Seconds()/raw, "x-raw")
			}
			b.ReportMetric((cpu()-start).Seconds()/(float64(b.N)*chunk/(1<<30)), "cpu-s/GiB")
		})
	}
}

// BenchmarkAckRoundTrip is one record of 1 KiB and the wait for its acknowledgement; "raw" is 1 KiB there and 8 bytes back on a loopback connection.
func BenchmarkAckRoundTrip(b *testing.B) {
	percentiles := func(b *testing.B, took []time.Duration) {
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1000, "p50-µs")
		b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1000, "p99-µs")
	}
	b.Run("raw", func(b *testing.B) {
		client, server := loopback(b)
		go func() {
			buf := make([]byte, 1024)
			for {
				if _, err := io.ReadFull(server, buf); err != nil {
					return
				}
				server.Write(buf[:8])
			}
		}()
		took := make([]time.Duration, 0, b.N)
		buf := make([]byte, 1024)
		for b.Loop() {
			start := time.Now()
			client.Write(buf)
			if _, err := io.ReadFull(client, buf[:8]); err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(start))
		}
		percentiles(b, took)
	})
	for _, waiters := range []int{1, 64, 1024} {
		for _, extended := range []bool{false, true} {
			b.Run(fmt.Sprintf("waiters=%d/extended=%v", waiters, extended), func(b *testing.B) {
				src, target := newRing(b, 64<<20), newRing(b, 64<<20)
				var mo MasterOptions
				var so SlaveOptions
				if extended {
					mo.Extended, so.Extended = extendedPairB(b)
				}
				m := pairOnLoopback(b, mo, so, src, target)
				b.ReportAllocs()
				b.ResetTimer()
				var all sync.WaitGroup
				took := make([]time.Duration, b.N)
				var next atomic.Int64
				for range waiters {
					all.Go(func() {
						for i := next.Add(1) - 1; i < int64(b.N); i = next.Add(1) - 1 {
							start := time.Now()
							if err := m.WaitAcked(b.Context(), src.grow(1024)); err != nil {
								b.Error(err)
							}
							took[i] = time.Since(start)
						}
					})
				}
				all.Wait()
				percentiles(b, took)
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "acks/s")
			})
		}
	}
}

func extendedPairB(b *testing.B) (master, slave *Extended) {
	p := pki()
	m, s := pairOf(p)
	s.TLS.ServerName = "master"
	m.Compress = false // noise does not compress
	return m, s
}
