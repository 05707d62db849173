package repair

import (
	"errors"
	"io/fs"
	"math"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/index"
)

// pebbleSource is our own index.
type pebbleSource struct {
	c *check
	x *index.Index
}

func (c *check) pebbleOptions() index.Options {
	return index.Options{
		Dir:          c.o.Dir + "/" + pebbleDir,
		MaxPhyOffset: math.MaxInt64,
		TailEntries:  1,
		CacheSize:    4 << 20,
		// Whatever is in it is looked at: nothing that the log might not confirm is left out.
		Record: func(int64, func(*record.Meta)) (bool, error) { return false, errors.ErrUnsupported },
	}
}

// openPebble opens our own index. exists: there is one, whatever its state.
func (c *check) openPebble() (exists bool, err error) {
	info, err := fs.Stat(c.root, pebbleDir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		c.unreadable(pebbleDir, err)
		return true, nil
	case !info.IsDir():
		c.brokenIndex(pebbleDir, errors.New("it is not a directory"))
		c.noIndexTold = true
		return true, nil
	case c.o.Dir == "":
		c.noIndexTold = true
		return true, nil
	}
	x, err := index.OpenReader(c.pebbleOptions())
	switch {
	case errors.Is(err, index.ErrNoIndex):
		return false, nil
	case err != nil:
		c.noIndexTold = true
		if !c.o.Live {
			c.brokenIndex(pebbleDir, err)
		}
		return true, nil
	}
	c.addIndex(pebbleDir, &pebbleSource{c: c, x: x}, x.Progress().NextPhyOffset)
	return true, nil
}

func (p *pebbleSource) reopen() error {
	x, err := index.OpenReader(p.c.pebbleOptions())
	if err == nil {
		p.x.Close()
		p.x = x
	}
	return err
}

func (p *pebbleSource) keys() indexKeys { return &pebbleKeys{} }

type pebbleKeys struct{ h index.Hasher }

func (p *pebbleKeys) entriesOf(dst []indexEntry, m *record.Meta, k *record.Known) []indexEntry {
	for _, h := range p.h.Hashes(m, k) {
		dst = append(dst, indexEntry{m.PhyOffset, h, m.StoreTimestamp})
	}
	return dst
}

func (p *pebbleSource) entries(yield func(indexEntry) error) error {
	return p.x.EachEntry(func(e index.Entry) error {
		return yield(indexEntry{e.PhyOffset, e.Hash, e.StoreTime})
	})
}

func (p *pebbleSource) unordered(yield func([]indexEntry) error) error {
	var list []indexEntry
	return p.x.EachStored(func(entries []index.Entry) error {
		list = list[:0]
		for _, e := range entries {
			list = append(list, indexEntry{e.PhyOffset, e.Hash, e.StoreTime})
		}
		return yield(list)
	})
}

func (p *pebbleSource) file(int64) string { return pebbleDir }
func (p *pebbleSource) close()            { p.x.Close() }
