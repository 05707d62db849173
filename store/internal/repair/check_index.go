package repair

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/mqstore/mqstore/commitlog/record"
)

// An index and the log's keys are compared without holding either. The log is cut into regions, and each has a sum of a hash of every entry: those that its
// records must have, and those that the index has for it, in whatever order they come. Where the sums are equal both sides have the same entries. The few
// regions where they are not are read again, and compared entry by entry. Entries that differ have the same sum with a chance of 2^-64.

// indexCheck compares one index with the log.
type indexCheck struct {
	*check
	name    string // its directory, and what findings call it
	source  indexSource
	from    int64 // it must know the records that begin in [from, to)
	to      int64
	shift   uint
	want    []uint64 // sums of regions, from from on: of the log
	have    []uint64 // of the index
	own     *indexTally
	early   earlyCount
	keys    int64 // entries that the log must have in it
	behind  int64 // records with keys that begin at or behind to
	next    int64 // the first of them; -1 none
	stray   int64 // entries of records outside the log
	strayAt int64 // the first of them
	stopped bool  // another index goes on where this one stopped
}

// indexSource is an index's own way of keeping entries.
type indexSource interface {
	// keys makes entries of records.
	keys() indexKeys
	// entries yields those that there are. It may be called again.
	entries(yield func(indexEntry) error) error
	// unordered yields the same as quickly as it can, some at a time, valid until yield returns. An error may mean no more than that entries is to be asked.
	unordered(yield func([]indexEntry) error) error
	// file is what the entries of a place of the log lie in.
	file(phyOffset int64) string
	close()
}

// indexKeys makes entries of records. For one goroutine.
type indexKeys interface {
	// entriesOf appends the entries that a record must have. Records come mostly in log order.
	entriesOf(dst []indexEntry, m *record.Meta, k *record.Known) []indexEntry
}

// indexEntry is one key of one record.
type indexEntry struct {
	phyOffset int64
	hash      uint64
	time      int64 // as the index keeps it
}

// sum is a hash of the entry: its fields times odd numbers of 64 bits, mixed.
func (e indexEntry) sum() uint64 {
	return mix(uint64(e.phyOffset)*0xD6E8FEB86659FD93 + e.hash*0xA0761D6478BD642F + uint64(e.time)*0xE7037ED1A0B428DB)
}

// mix is the finish of splitmix64: every bit of its argument moves half of the result's.
func mix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// openIndexes opens what there is, before the log is read: what the index knows now, the log has.
func (c *check) openIndexes() error {
	if c.o.NoIndex {
		return nil
	}
	own, err := c.openPebble()
	if err != nil {
		return err
	}
	return c.openIndexFiles(own)
}

func (c *check) closeIndexes() {
	for _, x := range c.indexes {
		x.early.stop()
		x.source.close()
	}
}

func (c *check) addIndex(name string, source indexSource, to int64) *indexCheck {
	const (
		smallest = 16 // bits of a region
		most     = 1 << 20
	)
	x := &indexCheck{check: c, name: name, source: source, to: to, shift: smallest, next: -1}
	if len(c.segments) > 0 {
		x.from = c.segments[0].Start
	}
	size := max(min(to, c.lastFile)-x.from, 0)
	for size>>x.shift >= most {
		x.shift++
	}
	n := size>>x.shift + 1
	x.want, x.have = make([]uint64, n), make([]uint64, n)
	x.own = x.tally()
	c.indexes = append(c.indexes, x)
	return x
}

// region is the region that a place lies in; -1: none.
func (x *indexCheck) region(phyOffset int64) int64 {
	if phyOffset < x.from || phyOffset >= x.to {
		return -1
	}
	if r := (phyOffset - x.from) >> x.shift; r < int64(len(x.want)) {
		return r
	}
	return -1
}

// record takes the log's next record, where records come one by one.
func (x *indexCheck) record(m *record.Meta, k *record.Known) {
	x.own.reset()
	x.own.record(m, k)
	x.merge(x.own)
}

// indexTally is what an index must have of a stretch of the log.
type indexTally struct {
	x       *indexCheck
	of      indexKeys
	scratch []indexEntry
	first   int64    // the region that sums begin with
	sums    []uint64 // of regions
	keys    int64
	behind  int64
	next    int64
}

func (x *indexCheck) tally() *indexTally { return &indexTally{x: x, of: x.source.keys(), next: -1} }

func (t *indexTally) reset() {
	t.sums, t.keys, t.behind, t.next = t.sums[:0], 0, 0, -1
}

// clone is a tally that does not change any more.
func (t *indexTally) clone() *indexTally {
	c := *t
	c.of, c.scratch, c.sums = nil, nil, slices.Clone(t.sums)
	return &c
}

// record takes the stretch's next record.
func (t *indexTally) record(m *record.Meta, k *record.Known) {
	if k.UniqKey == nil && k.Keys == nil {
		return
	}
	t.scratch = t.of.entriesOf(t.scratch[:0], m, k)
	if len(t.scratch) == 0 {
		return
	}
	r := t.x.region(m.PhyOffset)
	if r < 0 {
		if t.behind++; t.next < 0 {
			t.next = m.PhyOffset
		}
		return
	}
	if len(t.sums) == 0 {
		t.first = r
	}
	for int64(len(t.sums)) <= r-t.first {
		t.sums = append(t.sums, 0)
	}
	sum := uint64(0)
	for _, e := range t.scratch {
		sum += e.sum()
	}
	t.sums[r-t.first] += sum
	t.keys += int64(len(t.scratch))
}

// merge takes what was tallied of the log's next stretch.
func (x *indexCheck) merge(t *indexTally) {
	for i, s := range t.sums {
		x.want[t.first+int64(i)] += s
	}
	x.keys += t.keys
	if x.behind += t.behind; x.next < 0 {
		x.next = t.next
	}
}

// checkIndexes compares each index with what the log must have in it.
func (c *check) checkIndexes() error {
	for _, x := range c.indexes {
		if err := x.compare(); err != nil {
			return err
		}
	}
	if len(c.indexes) == 0 && !c.o.NoIndex && c.keyed >= 0 && !c.noIndexTold {
		c.report(at(IndexMissing, "index_pebble", c.keyed, MendRebuild, fmt.Sprintf("the log has messages with keys, the first at %d, and there is no index: a query by key reads the whole log. In order if the store is run without an index (--no-index)", c.keyed)))
	}
	return nil
}

func (x *indexCheck) compare() error {
	const tries = 3 // the process that has the index open deletes files
	var err error
	for range tries {
		if x.counted() {
			break
		}
		clear(x.have)
		x.stray = 0
		if err = x.count(); err == nil || x.ctx.Err() != nil || !x.o.Live {
			break
		}
		if again, ok := x.source.(interface{ reopen() error }); !ok || again.reopen() != nil {
			break
		}
	}
	if x.ctx.Err() != nil {
		return x.ctx.Err()
	}
	if err != nil {
		if x.o.Live {
			return nil // its process is rewriting it
		}
		x.broken(err)
		return nil
	}
	if _, own := x.source.(*pebbleSource); x.behind > 0 && !x.o.Live && !x.stopped && (!own || x.end-x.next >= x.o.IndexSlack) {
		x.report(at(IndexBehind, x.name, x.next, MendRecover, fmt.Sprintf("it ends before the log: %s with keys, from %d on, not in it; opening the store reads them again, until then queries do not find them by it", plural(x.behind, "record", "records"), x.next)))
	}
	if x.stray > 0 && !x.o.Live {
		x.report(at(IndexDangling, x.source.file(x.strayAt), x.strayAt, MendRebuild, fmt.Sprintf("%s of records behind the log's end, the first at %d: the log lost its end", plural(x.stray, "entry", "entries"), x.strayAt)))
	}
	if f, ok := x.source.(*fileSource); ok && !x.o.Live {
		for _, file := range f.files {
			if err := f.structure(file); err != nil {
				if x.ctx.Err() != nil {
					return x.ctx.Err()
				}
				x.broken(err)
			}
		}
	}
	return x.details()
}

// brokenIndex tells an index that cannot be read as one.
func (c *check) brokenIndex(name string, err error) {
	if p := (*fs.PathError)(nil); errors.As(err, &p) && errors.Is(err, fs.ErrPermission) {
		c.unreadable(name, err)
		return
	}
	c.report(inFile(IndexMissing, name, MendRebuild, fmt.Sprintf("it is damaged and cannot be used: %v; no message is lost by that, but queries by key read the log", err)))
}

func (x *indexCheck) broken(err error) { x.brokenIndex(x.name, err) }

// count sums up what the index has.
func (x *indexCheck) count() error {
	n := int64(0)
	end := x.end
	err := x.source.entries(func(e indexEntry) error {
		if n++; n&0xffff == 0 {
			x.progress("index", n, max(n, x.keys))
			if err := x.ctx.Err(); err != nil {
				return err
			}
		}
		switch r := x.region(e.phyOffset); {
		case e.phyOffset < x.minPhy: // expired
		case r < 0 || e.phyOffset >= end:
			if e.phyOffset >= end {
				if x.stray++; x.stray == 1 {
					x.strayAt = e.phyOffset
				}
			}
		default:
			x.have[r] += e.sum()
		}
		return nil
	})
	if err == nil {
		x.sum.Keys += n
	}
	return err
}

// maxDetails is how many entries of one side are compared one by one; of what is beyond only the ranges are told.
const maxDetails = 400_000

// details compares the regions that differ.
func (x *indexCheck) details() error {
	bad := map[int64]bool{}
	var order []int64
	for r := range x.want {
		if x.want[r] != x.have[r] && !x.expired(int64(r)) {
			order = append(order, int64(r))
		}
	}
	if len(order) == 0 {
		return nil
	}
	// As many regions as fit, the first ones.
	take := order
	for {
		clear(bad)
		for _, r := range take {
			bad[r] = true
		}
		d := details{x: x, bad: bad, records: map[int64]identity{}}
		err := d.collect()
		switch {
		case err == nil:
			d.tell()
		case x.ctx.Err() != nil:
			return x.ctx.Err()
		case err == errTooMany:
			take = take[:len(take)/8]
			if len(take) > 0 {
				continue
			}
		case x.o.Live: // its process is rewriting it
			return nil
		default:
			x.broken(err)
			return nil
		}
		break
	}
	if left := order[len(take):]; len(left) > 0 {
		x.report(at(IndexMissing, x.source.file(x.start(left[0])), x.start(left[0]), MendRebuild, fmt.Sprintf("%s of the log, the first from %d on, have other keys than the index has for them", plural(int64(len(left)), "more range", "more ranges"), x.start(left[0]))))
	}
	return nil
}

func (x *indexCheck) start(region int64) int64 { return x.from + region<<x.shift }

// expired reports whether a live store has dropped the region meanwhile.
func (x *indexCheck) expired(region int64) bool {
	if !x.o.Live {
		return false
	}
	segs, err := segments(x.log, ".")
	return err != nil || len(segs) == 0 || x.start(region) < segs[0].Start
}
