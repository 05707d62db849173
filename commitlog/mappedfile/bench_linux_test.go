package mappedfile_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
)

// BenchmarkMemcpyLimit is the ceiling of an append: 1 KiB copied into a mapping, in different states of its pages.
func BenchmarkMemcpyLimit(b *testing.B) {
	const size = 256 << 20
	src := block('x', 1024)
	for _, c := range []struct {
		name    string
		mode    mappedfile.MapMode
		prepare func(b *testing.B, m mappedfile.Mapping)
	}{
		{"pages=sparse", mappedfile.MapCreateSparse, nil},
		{"pages=allocated", mappedfile.MapCreate, nil},
		{"pages=populated", mappedfile.MapCreate, func(b *testing.B, m mappedfile.Mapping) { must(b, m.Populate(0, size)) }},
		{"pages=prewritten", mappedfile.MapCreate, func(b *testing.B, m mappedfile.Mapping) {
			for off := int64(0); off < size; off += 1 << 20 {
				must(b, m.Prewrite(off, 1<<20))
			}
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			fsys := mappedfile.OS()
			path := filepath.Join(b.TempDir(), "f")
			b.SetBytes(1024)
			b.ReportAllocs()
			var m mappedfile.Mapping
			fresh := func() {
				b.StopTimer()
				if m != nil {
					must(b, m.Close())
					must(b, fsys.Remove(path))
				}
				var err error
				m, err = fsys.Map(path, size, c.mode)
				must(b, err)
				if c.prepare != nil {
					c.prepare(b, m)
				}
				b.StartTimer()
			}
			fresh()
			pos, dst := 0, m.Bytes()
			for b.Loop() {
				if pos == size {
					fresh()
					pos, dst = 0, m.Bytes()
				}
				copy(dst[pos:], src)
				pos += 1024
			}
			b.StopTimer()
			must(b, m.Close())
		})
	}
}

func median(v []int64) int64 {
	slices.Sort(v)
	return v[len(v)/2]
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkSyncAfterPreparation stores bytes, one piece behind the other, and syncs each, in files whose blocks were prepared in different ways:
// median time, and median bytes that the device wrote. Run it with -benchtime=1000x.
func BenchmarkSyncAfterPreparation(b *testing.B) {
	const size = 64 << 20
	zeros := func(step int) func(b *testing.B, path string, m mappedfile.Mapping) {
		return func(b *testing.B, path string, m mappedfile.Mapping) {
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			must(b, err)
			z := make([]byte, step)
			for off := 0; off < size; off += step {
				_, err := f.WriteAt(z, int64(off))
				must(b, err)
			}
			must(b, f.Sync())
			must(b, f.Close())
		}
	}
	prewrite := func(step int64) func(b *testing.B, path string, m mappedfile.Mapping) {
		return func(b *testing.B, path string, m mappedfile.Mapping) {
			for off := int64(0); off < size; off += step {
				must(b, m.Prewrite(off, step))
			}
		}
	}
	drop := func(before func(b *testing.B, path string, m mappedfile.Mapping)) func(b *testing.B, path string, m mappedfile.Mapping) {
		return func(b *testing.B, path string, m mappedfile.Mapping) {
			before(b, path, m)
			must(b, m.Advise(mappedfile.AdviceDontNeed, 0, size))
		}
	}
	scan := func(step int) func(b *testing.B, path string, m mappedfile.Mapping) {
		return func(b *testing.B, path string, m mappedfile.Mapping) {
			drop(prewrite(1<<20))(b, path, m)
			if step <= 0 { // through the mapping
				if step < 0 {
					must(b, m.Advise(mappedfile.AdviceSequential, 0, size))
				}
				var sum byte
				for _, c := range m.Bytes() {
					sum += c
				}
				if sum != 0 {
					b.Fatal("not zeros")
				}
				return
			}
			f, err := os.Open(path)
			must(b, err)
			p := make([]byte, step)
			for off := 0; off < size; off += step {
				_, err := f.ReadAt(p, int64(off))
				must(b, err)
			}
			must(b, f.Close())
		}
	}
	for _, c := range []struct {
		name    string
		mode    mappedfile.MapMode
		prepare func(b *testing.B, path string, m mappedfile.Mapping)
	}{
		{"allocated", mappedfile.MapCreate, nil},
		{"allocated,populated", mappedfile.MapCreate, func(b *testing.B, _ string, m mappedfile.Mapping) { must(b, m.Populate(0, size)) }},
		{"prewritten/step=64k", mappedfile.MapCreate, prewrite(64 << 10)},
		{"prewritten/step=1M", mappedfile.MapCreate, prewrite(1 << 20)},
		{"prewritten/step=8M", mappedfile.MapCreate, prewrite(8 << 20)},
		{"prewritten/step=64M", mappedfile.MapCreate, prewrite(64 << 20)},
		{"prewritten,dropped", mappedfile.MapCreate, drop(prewrite(1 << 20))},
		{"prewritten,dropped,scanned=mapping", mappedfile.MapCreate, scan(0)},
		{"prewritten,dropped,scanned=mapping,sequential", mappedfile.MapCreate, scan(-1)},
		{"prewritten,dropped,scanned=4k", mappedfile.MapCreate, scan(4096)},
		{"zeroed/step=4k", mappedfile.MapCreate, zeros(4096)},
		{"zeroed/step=1M", mappedfile.MapCreate, zeros(1 << 20)},
		{"zeroed/step=1M,dropped", mappedfile.MapCreate, drop(zeros(1 << 20))},
	} {
		for _, store := range []int{256, 4096} {
			b.Run(fmt.Sprintf("store=%d/%s", store, c.name), func(b *testing.B) {
				fsys := mappedfile.OS()
				dir := b.TempDir()
				path := filepath.Join(dir, "f")
				m, err := fsys.Map(path, size, c.mode)
				must(b, err)
				src := block('x', store)
				if c.prepare != nil {
					c.prepare(b, path, m)
				}
				unix.Sync()
				var times, written []int64
				pos := int64(0)
				for b.Loop() {
					if pos == size {
						pos = 0
					}
					copy(m.Bytes()[pos:], src)
					dev, start := deviceBytes(b, dir), time.Now()
					must(b, m.Sync(pos, int64(store)))
					times = append(times, time.Since(start).Microseconds())
					written = append(written, deviceBytes(b, dir)-dev)
					pos += int64(store)
				}
				b.ReportMetric(float64(median(times)), "p50-us")
				b.ReportMetric(float64(median(written)), "p50-B")
				must(b, m.Close())
			})
		}
	}
}

// BenchmarkSyncOfAGroup writes the records of a group commit into a prewritten file and syncs them: by stores, by a call for each record, by one call for all. The ways take turns, so that the disk is in the same mood for each.
func BenchmarkSyncOfAGroup(b *testing.B) {
	const (
		size    = 256 << 20
		each    = 1130
		records = 64
	)
	src := block('x', each*records)
	type way struct {
		name  string
		write func(m mappedfile.Mapping, pos int64) error
		m     mappedfile.Mapping
		warm  int64
		times []int64
	}
	ways := []*way{
		{name: "stores", write: func(m mappedfile.Mapping, pos int64) error { copy(m.Bytes()[pos:], src); return nil }},
		{name: "calls", write: func(m mappedfile.Mapping, pos int64) error {
			for i := int64(0); i < records; i++ {
				if err := m.Write(pos+i*each, src[i*each:(i+1)*each]); err != nil {
					return err
				}
			}
			return nil
		}},
		{name: "call", write: func(m mappedfile.Mapping, pos int64) error { return m.Write(pos, src) }},
	}
	dir := b.TempDir()
	for _, w := range ways {
		m, err := mappedfile.OS().Map(filepath.Join(dir, w.name), size, mappedfile.MapCreate)
		must(b, err)
		defer m.Close()
		w.m = m
	}
	unix.Sync()
	pos := int64(0)
	for b.Loop() {
		if pos+int64(len(src)) > size {
			b.Fatalf("at most %d rounds: -benchtime=1000x", size/len(src))
		}
		for _, w := range ways {
			for ; w.warm < min(size, pos+8<<20); w.warm += 1 << 20 {
				must(b, w.m.Prewrite(w.warm, 1<<20))
			}
			start := time.Now()
			must(b, w.write(w.m, pos))
			must(b, w.m.Sync(pos, int64(len(src))))
			w.times = append(w.times, time.Since(start).Microseconds())
		}
		pos += int64(len(src))
	}
	for _, w := range ways {
		b.ReportMetric(float64(median(w.times)), "p50-us-"+w.name)
	}
}

// BenchmarkSequenceFlush is a put of 256 bytes and its Flush, through a sequence.
func BenchmarkSequenceFlush(b *testing.B) {
	for _, prewrite := range []bool{false, true} {
		b.Run(fmt.Sprintf("prewrite=%v", prewrite), func(b *testing.B) {
			dir := b.TempDir()
			s, err := mappedfile.OpenSequence(mappedfile.SequenceOptions{Dir: filepath.Join(dir, "q"), FileSize: 64 << 20, Ahead: true, Prewrite: prewrite})
			must(b, err)
			src := block('x', 256)
			var times, written []int64
			for b.Loop() {
				_, err := put(s, src)
				must(b, err)
				dev, start := deviceBytes(b, dir), time.Now()
				_, err = s.Flush()
				must(b, err)
				times = append(times, time.Since(start).Microseconds())
				written = append(written, deviceBytes(b, dir)-dev)
			}
			b.ReportMetric(float64(median(times)), "p50-us")
			b.ReportMetric(float64(median(written)), "p50-B")
			must(b, s.Close())
		})
	}
}

// BenchmarkSequenceAppend is Reserve, copy, Publish of 128 bytes, rolling, with what the options cost or save.
func BenchmarkSequenceAppend(b *testing.B) {
	for _, c := range []struct {
		name string
		o    mappedfile.SequenceOptions
	}{
		{"plain", mappedfile.SequenceOptions{}},
		{"ahead", mappedfile.SequenceOptions{Ahead: true}},
		{"ahead,lay", mappedfile.SequenceOptions{Ahead: true, Lay: true}},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.o.Dir, c.o.FileSize = filepath.Join(b.TempDir(), "q"), 256<<20
			s, err := mappedfile.OpenSequence(c.o)
			must(b, err)
			src := block('x', 128)
			b.SetBytes(128)
			b.ReportAllocs()
			for b.Loop() {
				_, err := put(s, src)
				must(b, err)
				if s.Max()%(1<<30) == 0 {
					b.StopTimer()
					_, err := s.DropHead(100)
					must(b, err)
					b.StartTimer()
				}
			}
			must(b, s.Close())
		})
	}
}

func BenchmarkView(b *testing.B) {
	s, err := mappedfile.OpenSequence(mappedfile.SequenceOptions{Dir: filepath.Join(b.TempDir(), "q"), FileSize: 1 << 20})
	must(b, err)
	for range 2000 {
		_, err := put(s, block('x', 1024))
		must(b, err)
	}
	b.ReportAllocs()
	for b.Loop() {
		v, err := s.View(1<<20, 128)
		must(b, err)
		v.Release()
	}
	must(b, s.Close())
}

// BenchmarkHold takes 32 runs of bytes of one hold: what one get costs here. BenchmarkView is one of them by itself.
func BenchmarkHold(b *testing.B) {
	s, err := mappedfile.OpenSequence(mappedfile.SequenceOptions{Dir: filepath.Join(b.TempDir(), "q"), FileSize: 1 << 20})
	must(b, err)
	for range 2000 {
		_, err := put(s, block('x', 1024))
		must(b, err)
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		h, err := s.Hold(1<<20, 128)
		must(b, err)
		for i := range 32 {
			p, _ := h.Bytes(1<<20+int64(i)*128, 128)
			n += len(p)
		}
		h.Release()
	}
	if n%(32*128) != 0 {
		b.Fatal(n)
	}
	must(b, s.Close())
}
