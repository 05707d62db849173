package commitlog

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/effort"
)

// Records collected for a synchronous flush are whole for whoever reads beside appends, rolls, flushes and retention: no reader finds zeros, or what lay there before, below the log's end.
func TestReadersBesideStagedAppendsFindWholeRecords(t *testing.T) {
	for _, c := range []struct {
		name string
		fs   func(r *rig)
	}{
		{"in memory", func(*rig) {}},
		{"on disk", func(r *rig) { r.fs, r.o.FS = nil, mappedfile.OS(); r.o.Dir = t.TempDir() + "/commitlog" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.o.NoBackground, r.o.Now, r.o.FlushMode, r.o.FS = false, nil, SyncFlush, r.fs
			c.fs(r)
			l, _, err := Open(r.o, Recovery{})
			if err != nil {
				t.Fatal(err)
			}
			records := effort.N(1000, 20000)
			done := make(chan struct{})
			var writers, readers sync.WaitGroup
			for w := range 4 {
				writers.Go(func() {
					rng := rand.New(rand.NewPCG(1, uint64(w)))
					var c Counter
					m := newRig(t)
					for i := range records / 4 {
						res, err := l.Append(m.message(rng.IntN(6000)), &c)
						if err == nil && i%8 == 0 {
							err = l.WaitFlushed(context.Background(), res.End())
						}
						if err == nil && i%8 == 4 {
							err = l.WriteOut()
						}
						if err != nil {
							t.Errorf("append: %v", err)
							return
						}
					}
				})
			}
			for range 2 {
				readers.Go(func() {
					c := l.NewCursor(0)
					c.VerifyCRC(true)
					defer c.Close()
					var m record.Meta
					for {
						grown := l.Grown(c.Offset())
						switch err := c.Next(&m, l.MaxPhyOffset()); {
						case err == nil:
							if _, v, err := l.Message(m.PhyOffset); err == nil {
								v.Release()
							} else if !errors.Is(err, mappedfile.ErrNotFound) {
								t.Errorf("record at %d: %v", m.PhyOffset, err)
							}
						case errors.Is(err, mappedfile.ErrNotFound) && c.Offset() < l.MinPhyOffset():
							c.SeekTo(l.MinPhyOffset())
						case !errors.Is(err, ErrNotYet):
							t.Errorf("read at %d: %v", c.Offset(), err)
							return
						default:
							select {
							case <-grown:
							case <-done:
								return
							}
						}
					}
				})
			}
			readers.Go(func() {
				for {
					select {
					case <-done:
						return
					case <-l.Grown(l.MinPhyOffset() + 4*testSegment):
					}
					if _, err := l.Expire(ExpireOptions{Force: true, Max: 1}); err != nil {
						t.Errorf("expire: %v", err)
						return
					}
				}
			})
			writers.Wait()
			close(done)
			readers.Wait()
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
