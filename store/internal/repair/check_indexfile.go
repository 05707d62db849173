package repair

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"sort"
	"strconv"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/index/indexfile"
)

// fileSource is RocketMQ's index files (spec/index.md).
type fileSource struct {
	c     *check
	files []*indexFile // oldest first
}

// indexFile is one of them.
type indexFile struct {
	name  string
	f     fs.File
	in    io.ReaderAt
	size  int64
	shape indexfile.Shape
	*indexfile.File
}

// excluded stands for the seconds of a file's first record, which are counted from the end of the file before.
const excluded = -1

// openIndexFiles opens RocketMQ's index, if there is one. own: ours is there, and RocketMQ's may have stopped at any time.
func (c *check) openIndexFiles(own bool) error {
	src := &fileSource{c: c}
	told := false
	for _, e := range c.list(c.root, indexDir, indexDir) {
		file := indexDir + "/" + e.name
		_, err := strconv.ParseUint(e.name, 10, 63)
		switch {
		case e.err != nil:
			c.unreadable(file, e.err)
			told = true
			continue
		case err != nil || e.dir || e.odd != "":
			c.report(inFile(StrayFile, file, MendRecover, "not a file of the index: "+strayHintHarmless))
			continue
		}
		f, err := c.root.Open(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			c.unreadable(file, err)
			told = true
			continue
		}
		in, ok := f.(io.ReaderAt)
		if !ok {
			f.Close()
			c.unreadable(file, errors.New("this file system cannot read at an offset"))
			continue
		}
		src.files = append(src.files, &indexFile{name: file, f: f, in: in, size: e.size})
	}
	if len(src.files) == 0 {
		c.noIndexTold = c.noIndexTold || told
		return nil
	}
	src.shapes()
	kept := src.files[:0]
	for _, x := range src.files {
		var err error
		if x.File, err = indexfile.NewFile(x.in, x.size, x.shape); err != nil {
			x.f.Close()
			c.report(inFile(WrongLength, x.name, MendRebuild, fmt.Sprintf("%s long, which is not the length of an index file here (%v): RocketMQ does not read it, and does not find what is in it", plural(x.size, "byte", "bytes"), err)))
			told = true
			continue
		}
		kept = append(kept, x)
	}
	src.files = kept
	to := int64(0)
	for _, x := range kept {
		if h := x.Header(); h.Counter > 1 {
			to = max(to, min(h.EndPhyOffset, math.MaxInt64-1)+1)
		}
	}
	if len(kept) == 0 {
		c.noIndexTold = c.noIndexTold || told
		return nil
	}
	if c.o.Live && to > 0 {
		to-- // of the last record some keys may be missing yet
	}
	x := c.addIndex(indexDir, src, to)
	x.stopped = own
	return nil
}

// shapes finds out how many slots and entries the files have. Those of one store are alike.
func (s *fileSource) shapes() {
	given := indexfile.Shape{Slots: s.c.o.IndexSlots, Entries: s.c.o.IndexEntries}
	known := map[int64]indexfile.Shape{given.Size(): given}
	for _, x := range s.files {
		if _, ok := known[x.size]; ok {
			continue
		}
		if shape, ok := indexfile.ShapeOf(x.in, x.size); ok {
			known[x.size] = shape
		} else if shape, ok := shapeByEnds(x.in, x.size); ok {
			known[x.size] = shape
		}
	}
	for _, x := range s.files {
		x.shape = known[x.size]
	}
}

// shapeByEnds is the shape in which the first and the newest entry are where the header says.
func shapeByEnds(in io.ReaderAt, size int64) (found indexfile.Shape, ok bool) {
	const most = 64 << 20
	if size < indexHeaderSize || size > most {
		return found, false
	}
	b := make([]byte, size)
	if n, _ := in.ReadAt(b, 0); int64(n) != size {
		return found, false
	}
	be := binary.BigEndian
	begin, end, counter := be.Uint64(b[16:]), be.Uint64(b[posIndexEndPhy:]), int64(int32(be.Uint32(b[posIndexCount:])))
	if counter < 2 {
		return found, false
	}
	const slot, entry, posPhy = 4, 20, 4
	rest := (size - indexHeaderSize) / slot
	for slots := rest % (entry / slot); slots < rest; slots += entry / slot {
		entries := (rest - slots) / (entry / slot)
		base := indexHeaderSize + slot*slots
		if slots < 1 || counter > entries {
			continue
		}
		if be.Uint64(b[base+entry+posPhy:]) != begin || be.Uint64(b[base+entry*(counter-1)+posPhy:]) != end {
			continue
		}
		if ok {
			return indexfile.Shape{}, false
		}
		found, ok = indexfile.Shape{Slots: int(slots), Entries: int(entries)}, true
	}
	return found, ok
}

func (s *fileSource) keys() indexKeys { return &fileKeys{files: s.files} }

// fileKeys makes the entries that such files have of records.
type fileKeys struct {
	files []*indexFile
	key   []byte
	cur   int // the file that covers the record last asked for
}

// covering is the number of the file that holds the entries of a record; -1: before the first.
func (s *fileKeys) covering(phyOffset int64) int {
	if i := s.cur; i < len(s.files) && s.files[i].Header().BeginPhyOffset <= phyOffset && (i+1 == len(s.files) || s.files[i+1].Header().BeginPhyOffset > phyOffset) {
		return i
	}
	s.cur = sort.Search(len(s.files), func(i int) bool { return s.files[i].Header().BeginPhyOffset > phyOffset }) - 1
	if s.cur < 0 {
		s.cur = 0
		return -1
	}
	return s.cur
}

func (s *fileKeys) entriesOf(dst []indexEntry, m *record.Meta, k *record.Known) []indexEntry {
	if k.UniqKey == nil && k.Keys == nil || m.IsBlank() || m.SysFlag.Transaction() == record.TransactionRollback {
		return dst
	}
	seconds, known := int64(excluded), false
	add := func(key []byte) bool {
		if !known {
			known = true
			if i := s.covering(m.PhyOffset); i >= 0 {
				if h := s.files[i].Header(); h.BeginPhyOffset != m.PhyOffset {
					seconds = min(max((m.StoreTimestamp-h.BeginTime)/1000, 0), math.MaxInt32)
				}
			}
		}
		s.key = append(append(append(s.key[:0], m.Topic...), '#'), key...)
		h := record.JavaHash(s.key)
		if h < 0 {
			h = -h // of the lowest number that is itself, and the original takes 0
			if h < 0 {
				h = 0
			}
		}
		dst = append(dst, indexEntry{m.PhyOffset, uint64(h), seconds})
		return true
	}
	if k.UniqKey != nil {
		add(k.UniqKey)
	}
	m.Keys()(add)
	return dst
}

func (s *fileSource) entries(yield func(indexEntry) error) error {
	for i, x := range s.files {
		h := x.Header()
		next := int64(-1)
		if i+1 < len(s.files) {
			next = s.files[i+1].Header().BeginPhyOffset
		}
		for e, err := range x.Entries() {
			if err != nil {
				return fmt.Errorf("%s: %w", x.name, err)
			}
			seconds := (e.Time - h.BeginTime) / 1000
			if e.PhyOffset == h.BeginPhyOffset || e.PhyOffset == next {
				seconds = excluded
			}
			if err := yield(indexEntry{e.PhyOffset, uint64(uint32(e.Hash)), seconds}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *fileSource) unordered(yield func([]indexEntry) error) error {
	var one [1]indexEntry
	return s.entries(func(e indexEntry) error {
		one[0] = e
		return yield(one[:])
	})
}

func (s *fileSource) file(phyOffset int64) string {
	return s.files[max((&fileKeys{files: s.files}).covering(phyOffset), 0)].name
}

func (s *fileSource) close() {
	for _, x := range s.files {
		x.f.Close()
	}
}

// structure looks at what leads to the entries of a file: header, slots and chains.
func (s *fileSource) structure(x *indexFile) error {
	c, h := s.c, x.Header()
	if h.Counter <= 1 {
		return nil
	}
	tell := func(what string) {
		c.report(at(IndexMissing, x.name, h.BeginPhyOffset, MendRebuild, what+": RocketMQ's queries by key do not find messages that are there"))
	}
	if int64(h.Counter) > int64(x.shape.Entries) {
		tell(fmt.Sprintf("its header counts %d entries, it has room for %d", h.Counter-1, x.shape.Entries-1))
		return nil
	}
	const maxSlots = 16 << 20
	if x.shape.Slots > maxSlots {
		return nil
	}
	// The chains as the entries make them, in the order in which they were written.
	heads := make([]int32, x.shape.Slots)
	var n, used, broken int64
	first, last := int64(-1), int64(-1)
	for e, err := range x.Entries() {
		if err != nil {
			return fmt.Errorf("%s: %w", x.name, err)
		}
		if n++; n&0xffff == 0 && c.ctx.Err() != nil {
			return c.ctx.Err()
		}
		if first < 0 {
			first = e.PhyOffset
		}
		last = e.PhyOffset
		if e.Hash < 0 {
			broken++
			continue
		}
		slot := int(e.Hash) % len(heads)
		if heads[slot] == 0 {
			used++
		}
		if e.Previous != heads[slot] {
			broken++
		}
		heads[slot] = e.Number
	}
	if broken > 0 {
		tell(fmt.Sprintf("the chains of its entries are broken in %s", plural(broken, "place", "places")))
	}
	b := make([]byte, 64<<10)
	wrong := int64(0)
	for at := 0; at < len(heads); {
		k := min(len(heads)-at, len(b)/4)
		if got, err := x.in.ReadAt(b[:4*k], indexHeaderSize+4*int64(at)); got < 4*k {
			return fmt.Errorf("%s: read its slots: %w", x.name, errors.Join(err, io.ErrUnexpectedEOF))
		}
		for i := range k {
			if v := int32(binary.BigEndian.Uint32(b[4*i:])); v != heads[at+i] && (heads[at+i] != 0 || v > 0 && v < h.Counter) {
				wrong++
			}
		}
		at += k
	}
	if wrong > 0 {
		tell(fmt.Sprintf("%s of it wrong", plural(wrong, "slot", "slots")))
	}
	if first != h.BeginPhyOffset || last != h.EndPhyOffset || used != int64(h.UsedSlots) || h.EndTime < h.BeginTime {
		tell(fmt.Sprintf("its header does not fit its entries (first %d, last %d, %s used; it says %d, %d, %d)", first, last, plural(used, "slot", "slots"), h.BeginPhyOffset, h.EndPhyOffset, h.UsedSlots))
	}
	return nil
}
