package commitlog

import (
	"path/filepath"
	"testing"

	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
)

// Pages are laid ahead where nobody waits for the disk: a log with synchronous flush has its own way, and a tool that goes through a log once wants none.
func TestOnlyAnAsynchronousLogLaysAhead(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
		want bool
	}{
		{"asynchronous", Options{}, true},
		{"synchronous", Options{FlushMode: SyncFlush}, false},
		{"no background", Options{NoBackground: true}, false},
	} {
		fsys := faultfs.New()
		c.o.FS, c.o.Dir, c.o.SegmentSize = fsys, filepath.FromSlash("/store/commitlog"), 1<<20
		l, _, err := Open(c.o, Recovery{})
		if err != nil {
			t.Fatal(err)
		}
		laid := false
		fsys.SetHook(func(op faultfs.Op) error {
			laid = laid || op.Kind == faultfs.OpWrite && op.Off%4096 == 0 && op.Len >= 64<<10
			return nil
		})
		if _, err := l.Append(benchMessage(100), new(Counter)); err != nil {
			t.Fatal(err)
		}
		fsys.SetHook(nil)
		if laid != c.want {
			t.Errorf("%s: laid ahead: %v", c.name, laid)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
