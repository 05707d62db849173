package repair

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

var errTooMany = errors.New("more entries than are compared one by one")

// identity is what a finding says of a record.
type identity struct {
	topic       string
	queueID     int32
	queueOffset int64
	entries     int
}

// details are both sides of the regions that differ.
type details struct {
	x       *indexCheck
	bad     map[int64]bool
	records map[int64]identity
	want    []indexEntry
	have    []indexEntry
}

func (d *details) collect() error {
	x := d.x
	var segs []Segment
	for _, s := range x.segments {
		first, last := max(s.Start-x.from, 0)>>x.shift, max(s.End()-1-x.from, 0)>>x.shift
		for r := first; r <= last; r++ {
			if d.bad[r] {
				segs = append(segs, s)
				break
			}
		}
	}
	r := &LogReader{files: &Files{root: x.root, log: x.log, segments: segs}, sumsOnly: true, tick: x.ctx.Err}
	defer r.Close()
	keys := x.source.keys()
	for n := 0; ; n++ {
		if n&0x3ff == 0 && x.ctx.Err() != nil {
			return x.ctx.Err()
		}
		rec, err := r.Next()
		var damage *Damage
		if err == io.EOF {
			break
		}
		if errors.As(err, &damage) {
			continue
		}
		if err != nil {
			return err
		}
		m := &rec.Meta
		if m.PhyOffset >= x.end && m.PhyOffset > x.last.phyOffset {
			break
		}
		at := x.region(m.PhyOffset)
		if at < 0 || !d.bad[at] {
			continue
		}
		before := len(d.want)
		k := m.Properties.Known()
		d.want = keys.entriesOf(d.want, m, &k)
		if n := len(d.want) - before; n > 0 {
			d.records[m.PhyOffset] = identity{m.Topic, m.QueueID, m.QueueOffset, n}
		} else if len(d.records) < maxDetails {
			d.records[m.PhyOffset] = identity{m.Topic, m.QueueID, m.QueueOffset, 0}
		}
		if len(d.want) > maxDetails {
			return errTooMany
		}
	}
	err := x.source.entries(func(e indexEntry) error {
		if r := x.region(e.phyOffset); r < 0 || !d.bad[r] || e.phyOffset < x.minPhy || e.phyOffset >= x.end {
			return nil
		}
		if d.have = append(d.have, e); len(d.have) > maxDetails {
			return errTooMany
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, side := range [][]indexEntry{d.want, d.have} {
		slices.SortFunc(side, func(a, b indexEntry) int {
			return cmp.Or(cmp.Compare(a.phyOffset, b.phyOffset), cmp.Compare(a.hash, b.hash), cmp.Compare(a.time, b.time))
		})
	}
	return nil
}

// tell merges both sides, place by place.
func (d *details) tell() {
	var missing, dangling run
	i, j := 0, 0
	for (i < len(d.want) || j < len(d.have)) && d.x.ctx.Err() == nil {
		phy := int64(math.MaxInt64)
		if i < len(d.want) {
			phy = d.want[i].phyOffset
		}
		if j < len(d.have) {
			phy = min(phy, d.have[j].phyOffset)
		}
		w, h := i, j
		for i < len(d.want) && d.want[i].phyOffset == phy {
			i++
		}
		for j < len(d.have) && d.have[j].phyOffset == phy {
			j++
		}
		lacks, extra, late := difference(d.want[w:i], d.have[h:j])
		d.place(phy, lacks, extra, late, &missing, &dangling)
	}
	d.end(&missing)
	d.end(&dangling)
}

// difference counts the keys that only one side has, and those of which the times differ. A key twice is as once.
func difference(want, have []indexEntry) (lacks, extra, late int) {
	find := func(list []indexEntry, e indexEntry) (hash, time bool) {
		for _, o := range list {
			if o.hash == e.hash {
				hash = true
				time = time || o.time == e.time
			}
		}
		return hash, time
	}
	for i, e := range want {
		if i > 0 && want[i-1].hash == e.hash {
			continue
		}
		switch hash, time := find(have, e); {
		case !hash:
			lacks++
		case !time:
			late++
		}
	}
	for i, e := range have {
		if i > 0 && have[i-1].hash == e.hash {
			continue
		}
		if hash, _ := find(want, e); !hash {
			extra++
		}
	}
	return lacks, extra, late
}

func (d *details) place(phy int64, lacks, extra, late int, missing, dangling *run) {
	id, known := d.records[phy]
	finding := func(k Kind, detail string) Finding {
		f := at(k, d.x.source.file(phy), phy, MendRebuild, detail)
		if known {
			f.Topic, f.QueueID, f.QueueOffset = id.topic, id.queueID, id.queueOffset
		}
		return f
	}
	add := func(r *run, class string, f Finding, cont string) {
		if r.n > 0 && r.class == class {
			r.n++
			return
		}
		d.end(r)
		*r = run{Finding: f, n: 1, class: class, cont: cont}
	}
	if lacks > 0 {
		add(missing, "missing", finding(IndexMissing, fmt.Sprintf("%d of the %s of the record at %d not in the index: a query by it does not find the message", lacks, plural(int64(id.entries), "key", "keys"), phy)), "and so for the next %d records that have keys")
	} else {
		d.end(missing)
	}
	switch {
	case late > 0:
		add(dangling, "late", finding(IndexDangling, fmt.Sprintf("the entry for the record at %d has another store time than the record: a query by key and time does not find the message", phy)), "and %d more behind it")
	case extra > 0 && !known:
		what := "no record begins there"
		if s := (&seen{damage: d.x.damage}).lost(phy); s.to > 0 {
			what = fmt.Sprintf("that is damage of the log, from %d to %d", s.from, s.to)
		}
		add(dangling, "nothing", finding(IndexDangling, fmt.Sprintf("%s for a record at %d, but %s: queries pass over it, RocketMQ's may answer with other bytes", plural(int64(extra), "entry", "entries"), phy, what)), "and so for %d more places behind it")
	case extra > 0:
		add(dangling, "other", finding(IndexDangling, fmt.Sprintf("%s for keys that the record at %d does not have: RocketMQ's queries may answer with the wrong message", plural(int64(extra), "entry", "entries"), phy)), "and so for %d more records behind it")
	default:
		d.end(dangling)
	}
}

func (d *details) end(r *run) {
	if r.n == 0 {
		return
	}
	if r.n > 1 {
		r.Detail += "; " + fmt.Sprintf(r.cont, r.n-1)
	}
	d.x.report(r.Finding)
	*r = run{}
}
