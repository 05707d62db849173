package mappedfile

import (
	"fmt"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"
)

const nameLen = 20

// file is one file of a Sequence. It stays mapped until refs is 0: the sequence holds one reference, each View and each running Flush or warm-up another.
type file struct {
	m          Mapping
	b          []byte
	path       string
	start, end int64 // of the stream
	modTime    time.Time
	refs       atomic.Int64
	allocated  atomic.Int64 // in-file: from where this process began to write, blocks are there up to here; stored by the writer only
	warm       int64        // in-file: written ahead up to here; the pipeline's own
	ready      int64        // in-file: while f is current, stores up to here need no preparation, see lay; the writer's own
}

func newFile(m Mapping, path string, start int64) *file {
	f := &file{m: m, b: m.Bytes(), path: path, start: start}
	f.end = start + int64(len(f.b))
	f.refs.Store(1)
	return f
}

// acquire takes a reference; false if the file is gone.
func (f *file) acquire() bool {
	for {
		n := f.refs.Load()
		if n <= 0 {
			return false
		}
		if f.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (f *file) release() {
	switch n := f.refs.Add(-1); {
	case n == 0:
		_ = f.m.Close() // nobody to tell: the bytes were synced or given up before
	case n < 0:
		panic("mappedfile: released more often than held: " + f.path)
	}
}

func fileName(start int64) string { return fmt.Sprintf("%0*d", nameLen, start) }

// parseName: ok says that the name has the form of a segment's; start is -1 if no offset is that large.
func parseName(name string) (start int64, ok bool) {
	if len(name) != nameLen {
		return 0, false
	}
	for _, c := range []byte(name) {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	start, err := strconv.ParseInt(name, 10, 64)
	if err != nil {
		return -1, true
	}
	return start, true
}

func (s *Sequence) path(start int64) string { return filepath.Join(s.o.Dir, fileName(start)) }
