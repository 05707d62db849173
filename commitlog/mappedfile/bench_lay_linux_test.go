package mappedfile_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
)

// BenchmarkPagesMadeReady stores records of 1,200 bytes into a new file, 4 MiB of whose pages at a time were made ready before in different ways: CPU of this process a page. The ways take turns.
// Files are removed at once, so that the next one gets the same memory, or kept to the end, so that each gets other memory: -benchtime=10x then takes 4 GiB of disk.
func BenchmarkPagesMadeReady(b *testing.B) {
	const (
		size, window = 32 << 20, 4 << 20
		record       = 1200
	)
	zeros, data := make([]byte, window), block('x', window)
	type mapping struct {
		mappedfile.Mapping
		b []byte
	}
	lay := func(step int64) func(m mapping, at int64) {
		return func(m mapping, at int64) {
			for off := at; off < at+window; off += step {
				must(b, m.Write(off, zeros[:step]))
			}
		}
	}
	populate := func(m mapping, at int64) {
		for off := at; off < at+window; off += 1 << 20 {
			must(b, m.Populate(off, 1<<20))
		}
	}
	stores := func(m mapping, at int64) {
		for off := int64(0); off < window; off += record {
			copy(m.b[at+off:at+window], data[:record])
		}
	}
	calls := func(step int64) func(m mapping, at int64) {
		return func(m mapping, at int64) {
			for off := int64(0); off < window; off += step {
				must(b, m.Write(at+off, data[:min(step, window-off)]))
			}
		}
	}
	ways := []struct {
		name        string
		ready, fill func(m mapping, at int64)
	}{
		{"faults", nil, stores},
		{"populate", populate, stores},
		{"huge", func(m mapping, at int64) {
			_ = unix.Madvise(m.b[at:at+window], unix.MADV_HUGEPAGE)
			must(b, m.Populate(at, window))
		}, stores},
		{"lay4k", lay(4 << 10), stores},
		{"lay16k", lay(16 << 10), stores},
		{"lay64k", lay(64 << 10), stores},
		{"lay256k", lay(256 << 10), stores},
		{"lay256k,populate", func(m mapping, at int64) { lay(256<<10)(m, at); populate(m, at) }, stores},
		{"lay1M", lay(1 << 20), stores},
		{"lay2M", lay(2 << 20), stores},
		{"calls", nil, calls(record)},
		{"calls64k", nil, calls(64 << 10)},
	}
	for _, keep := range []bool{false, true} {
		b.Run(fmt.Sprintf("keep=%v", keep), func(b *testing.B) {
			dir, fsys, n := b.TempDir(), mappedfile.OS(), 0
			used := make([][]int64, len(ways))
			for b.Loop() {
				for i, w := range ways {
					n++
					path := filepath.Join(dir, fmt.Sprint(n))
					f, err := fsys.Map(path, size, mappedfile.MapCreate)
					must(b, err)
					m, before := mapping{f, f.Bytes()}, cpuNanos(b)
					for at := int64(0); at < size; at += window {
						if w.ready != nil {
							w.ready(m, at)
						}
						w.fill(m, at)
						for off := at; off < at+window; off += record { // the dispatcher comes by
							zeros[0] &= m.b[off]
						}
					}
					used[i] = append(used[i], (cpuNanos(b)-before)/(size/4096))
					must(b, f.Close())
					if !keep {
						must(b, fsys.Remove(path))
					}
				}
			}
			for i, w := range ways {
				b.ReportMetric(float64(median(used[i]))/1000, w.name+"-us/page")
			}
		})
	}
}

// cpuNanos is the processor time of this process, its own and the kernel's for it.
func cpuNanos(b *testing.B) int64 {
	b.Helper()
	var r unix.Rusage
	must(b, unix.Getrusage(unix.RUSAGE_SELF, &r))
	return r.Utime.Nano() + r.Stime.Nano()
}
