//go:build unix

package ha

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

func init() { benchSlave = slaveProcess }

// slaveProcess follows the master at address until its stdin ends, then says how much processor time that took, in ns.
func slaveProcess(address string) error {
	dir, err := os.MkdirTemp("", "ring")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	target, unmap, err := mapRing(dir, 64<<20)
	if err != nil {
		return err
	}
	defer unmap()
	s, err := NewSlave(target, SlaveOptions{Master: address})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	start := cpu()
	go func() { defer close(ended); s.Run(ctx) }()
	io.Copy(io.Discard, os.Stdin)
	used := cpu() - start
	cancel()
	<-ended
	fmt.Printf("%d\n", used.Nanoseconds())
	return nil
}

// BenchmarkReplicationCPU moves 4 MiB an operation to a slave in a process of its own: what each side costs.
func BenchmarkReplicationCPU(b *testing.B) {
	const chunk, size = 4 << 20, 64 << 20
	for _, batch := range []int{32 << 10, 256 << 10} {
		b.Run(fmt.Sprintf("classic/batch=%dk", batch>>10), func(b *testing.B) {
			l, err := ListenClassic(":0")
			if err != nil {
				b.Fatal(err)
			}
			src := newRing(b, size)
			connected := make(chan string, 1)
			m, err := NewMaster(src, MasterOptions{SegmentSize: size, BatchSize: batch, Events: Events{Connected: func(peer string) { connected <- peer }}})
			if err != nil {
				b.Fatal(err)
			}
			served := make(chan error, 1)
			go func(l net.Listener) { served <- m.Serve(l) }(l)
			slave := exec.Command(os.Args[0])
			slave.Env = append(os.Environ(), envSlave+"="+l.Addr().String())
			slave.Stderr = os.Stderr
			in, err := slave.StdinPipe()
			if err != nil {
				b.Fatal(err)
			}
			out, err := slave.StdoutPipe()
			if err != nil {
				b.Fatal(err)
			}
			if err := slave.Start(); err != nil {
				b.Fatal(err)
			}
			<-connected
			b.SetBytes(chunk)
			start := cpu()
			b.ResetTimer()
			for range b.N {
				end := src.grow(chunk)
				if back := end - 8*chunk; back > 0 {
					m.WaitAcked(b.Context(), back)
				}
			}
			if err := m.WaitAcked(b.Context(), src.end.Load()); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			mine := cpu() - start
			in.Close()
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				b.Fatal(err)
			}
			ns, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			if err := slave.Wait(); err != nil {
				b.Fatal(err)
			}
			m.Close()
			if err := <-served; err != nil {
				b.Fatal(err)
			}
			gib := float64(b.N) * chunk / (1 << 30)
			b.ReportMetric(mine.Seconds()/gib, "master-cpu-s/GiB")
			b.ReportMetric(time.Duration(ns).Seconds()/gib, "slave-cpu-s/GiB")
		})
	}
}
