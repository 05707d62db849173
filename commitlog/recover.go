package commitlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/record"
)

// recovered is what recoverLog found: all that Open needs to open the sequence at the right end.
type recovered struct {
	tail    Tail
	size    int64           // of a segment
	files   int             // segments that the sequence will see
	hidden  map[string]bool // names that it must not see (read-only: in other cases they were removed)
	times   map[int64]int64 // last store time by segment start
	sure    int64           // where the scanned records end that a mark says to be durable
	cut     bool            // something lies, or may lie on the device, behind the end
	marker  bool            // a cut that was interrupted is finished with this one
	dataEnd int64           // where the segment that holds the end surely holds only zeros from
}

// segment is one file of the log on disk.
type segment struct {
	path  string
	start int64
}

// recoverLog finds the end of the log in o.Dir by reading it, judges what lies behind, and removes what the sequence could not be
// opened with: segments behind a missing one. It changes nothing else; Open makes the cut.
func recoverLog(o *Options, r *Recovery) (found recovered, err error) {
	segments, size, halfMade, err := listSegments(o)
	if err != nil {
		return found, err
	}
	found.size = size
	found.times = map[int64]int64{}
	if halfMade != "" {
		if err := hideOrRemove(o, &found, halfMade); err != nil {
			return found, err
		}
	}
	limit, err := readMarker(o)
	if err != nil {
		return found, err
	}
	found.marker = limit >= 0
	if r.Cut && (limit < 0 || limit > r.CutTo) {
		limit = r.CutTo
	}
	if limit >= 0 && r.FlushedTo > limit {
		r.FlushedTo = limit // what is beyond was given up
	}
	if len(segments) == 0 {
		return found, nil
	}
	s := scanner{o: o, r: r, size: size, segments: segments, limit: limit, times: found.times}
	if err := s.run(); err != nil {
		found.tail = s.tail
		return found, err
	}
	// What the sequence can not be opened with.
	kept := s.contiguous()
	for _, seg := range slices.Backward(segments[kept:]) {
		if err := s.setAside(&found, seg); err != nil {
			return found, err
		}
	}
	segments = segments[:kept]
	if kept < len(s.segments) && !o.ReadOnly {
		if err := o.FS.SyncDir(o.Dir); err != nil {
			return found, fmt.Errorf("recover %s: %w", o.Dir, err)
		}
	}
	found.files = len(segments)
	if o.ReadOnly {
		for _, seg := range segments {
			if seg.start > s.tail.End {
				found.hide(filepath.Base(seg.path))
				found.files--
			}
		}
	}
	last := segments[len(segments)-1].start
	found.cut = s.tail.DroppedBytes > 0 || last > s.tail.End || found.marker || !r.Clean
	found.tail, found.sure, found.dataEnd = s.tail, s.sure, s.dataEnd
	return found, nil
}

func (f *recovered) hide(name string) {
	if f.hidden == nil {
		f.hidden = map[string]bool{}
	}
	f.hidden[name] = true
}

// listSegments lists the directory without touching it. halfMade is the name of a last file that a crash interrupted while it was made: shorter than the others and all zeros.
func listSegments(o *Options) (segments []segment, size int64, halfMade string, err error) {
	entries, err := o.FS.ReadDir(o.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, 0, "", fmt.Errorf("recover commit log: %w", err)
	}
	size = o.SegmentSize
	var named []mappedfile.Info
	for _, e := range entries {
		if _, ok := parseName(e.Name); ok {
			named = append(named, e)
		}
	}
	slices.SortFunc(named, func(a, b mappedfile.Info) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	for i, e := range named {
		path := filepath.Join(o.Dir, e.Name)
		if !e.Regular {
			return nil, 0, "", &mappedfile.FileError{Path: path, Size: e.Size, Want: size, Err: mappedfile.ErrNotRegular}
		}
		if size == 0 && e.Size > 0 {
			if e.Size < minSegmentSize || e.Size > math.MaxInt32 {
				return nil, 0, "", fmt.Errorf("recover commit log: %s is %d bytes long, a segment has %d to %d: move it out of the directory", path, e.Size, minSegmentSize, math.MaxInt32)
			}
			size = e.Size
		}
		if e.Size != size || size == 0 {
			if i == len(named)-1 && e.Size < size || e.Size == 0 {
				zero, err := allZeros(o.FS, path, e.Size)
				if err != nil {
					return nil, 0, "", err
				}
				if zero && (i > 0 || e.Size == 0) && i == len(named)-1 {
					halfMade = e.Name
					continue
				}
			}
			if i == 0 {
				return nil, 0, "", &SegmentSizeError{Dir: o.Dir, Want: size, Have: e.Size}
			}
			return nil, 0, "", &mappedfile.FileError{Path: path, Size: e.Size, Want: size, Err: mappedfile.ErrWrongSize}
		}
		start, _ := parseName(e.Name)
		if start < 0 || start%size != 0 || start > math.MaxInt64-2*size {
			return nil, 0, "", &mappedfile.FileError{Path: path, Size: e.Size, Want: size, Err: mappedfile.ErrMisplaced}
		}
		segments = append(segments, segment{path, start})
	}
	if size == 0 {
		size = defaultSegmentSize
	}
	return segments, size, halfMade, nil
}

const nameDigits = 20

func segmentName(start int64) string { return fmt.Sprintf("%0*d", nameDigits, start) }

// parseName reads a segment's name; start is negative if it is beyond every offset.
func parseName(name string) (start int64, ok bool) {
	if len(name) != nameDigits {
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

func allZeros(fsys mappedfile.FS, path string, size int64) (bool, error) {
	if size == 0 {
		return true, nil
	}
	m, err := fsys.Map(path, 0, mappedfile.MapReadOnly)
	if err != nil {
		return false, fmt.Errorf("recover commit log: %w", err)
	}
	defer m.Close()
	return lastNonZero(m.Bytes()) == 0, nil
}

func hideOrRemove(o *Options, found *recovered, name string) error {
	if o.ReadOnly {
		found.hide(name)
		return nil
	}
	err := o.FS.Remove(filepath.Join(o.Dir, name))
	if err == nil {
		err = o.FS.SyncDir(o.Dir)
	}
	if err != nil {
		return fmt.Errorf("remove half-made segment: %w", err)
	}
	return nil
}

// scanner reads a log from a record boundary to its end, and then what lies behind.
type scanner struct {
	o        *Options
	r        *Recovery
	size     int64
	segments []segment
	limit    int64 // an interrupted cut's offset; -1 = none
	times    map[int64]int64
	parser   record.Parser // for Recovery.Each
	meta     record.Meta

	tail     Tail
	reason   error // what stopped the scan
	from     int64 // where the scan started
	sure     int64 // end of the last record of those that a mark says to be durable; a blank behind it is not
	doubting bool  // a record that no mark covers was seen
	endSeg   int   // index of the segment that holds the end; len(segments) = behind the last
	behind   remains
	dataEnd  int64 // see recovered

	progressed int64
}

// remains is what lies behind the log's end.
type remains struct {
	bytes   int64
	records int64
	live    int64 // records that are no leftovers of a truncation, and not to be cut by one
	first   int64 // phyOffset of the first live one
	time    int64 // its store time
}

const progressStep = 64 << 20

// contiguous is how many segments there are in front of the first hole.
func (s *scanner) contiguous() int {
	for i := 1; i < len(s.segments); i++ {
		if s.segments[i].start != s.segments[i-1].start+s.size {
			return i
		}
	}
	return len(s.segments)
}

func (s *scanner) run() error {
	s.parser.Delay = s.o.Delay
	whole := s.segments[:s.contiguous()]
	first, end := whole[0].start, whole[len(whole)-1].start+s.size
	s.from = max(s.r.From, first)
	if s.limit >= 0 && s.from > s.limit {
		// A mark of before the cut: the log may not end beyond it. The record in front of it lies in the segment of limit-1.
		at := max(s.limit-1, first)
		s.from = at - at%s.size
	}
	if s.from > end || s.from == end && len(whole) < len(s.segments) {
		s.from = end - s.size
	}
	if err := s.pass(); err != nil {
		return err
	}
	if start := s.from - s.from%s.size; s.tail.Records == 0 && s.tail.End == s.from && s.from != start && (s.behind.bytes > 0 || s.limit >= 0 && s.limit < s.from) {
		// Not even the first record is whole: perhaps From is no record boundary. A segment's start always is one.
		s.from = start
		s.tail, s.reason, s.behind = Tail{}, nil, remains{}
		if err := s.pass(); err != nil {
			return err
		}
	}
	s.tail.DroppedBytes, s.tail.DroppedRecords = s.behind.bytes, s.behind.records
	if s.r.FlushedTo > s.tail.End {
		s.tail.BelowFlushed = s.r.FlushedTo - s.tail.End
	}
	s.progress(end, true)
	return s.judge()
}

// pass scans from s.from to the end and looks behind it.
func (s *scanner) pass() error {
	s.tail.End, s.sure, s.doubting = s.from, s.from, false
	s.endSeg = len(s.segments)
	for i := int((s.from - s.segments[0].start) / s.size); i < len(s.segments); i++ {
		seg := s.segments[i]
		if seg.start != s.tail.End-s.tail.End%s.size || s.limit >= 0 && s.tail.End >= s.limit {
			s.endSeg = i // a hole, or the limit at a segment's start
			break
		}
		stopped, err := s.segment(seg, i == len(s.segments)-1)
		if err != nil {
			return err
		}
		if stopped {
			s.endSeg = i
			break
		}
	}
	if s.reason == nil && s.limit >= 0 && s.tail.End >= s.limit {
		s.reason = fmt.Errorf("%w to %d", ErrAnnounced, s.limit)
	}
	for i := s.endSeg; i < len(s.segments); i++ {
		if err := s.lookBehind(i); err != nil {
			return err
		}
	}
	if s.reason == nil && s.behind.bytes > 0 && s.endSeg < len(s.segments) && s.segments[s.endSeg].start > s.tail.End {
		s.reason = &mappedfile.CorruptError{Path: filepath.Join(s.o.Dir, segmentName(s.tail.End)), Off: s.tail.End,
			Err: fmt.Errorf("the segment file is missing, but %s exists", s.segments[s.endSeg].path)}
	}
	if s.behind.bytes > 0 || s.limit >= 0 {
		s.tail.Reason = s.reason
	}
	return nil
}

func (s *scanner) progress(off int64, done bool) {
	s.progressed = off
	if s.r.Progress == nil {
		return
	}
	total := s.segments[len(s.segments)-1].start + s.size - s.from
	if done {
		s.r.Progress(total, total)
		return
	}
	s.r.Progress(min(off-s.from, total), total)
}

// lookBehind reads what lies behind the end in segment i.
func (s *scanner) lookBehind(i int) error {
	seg := s.segments[i]
	m, err := s.o.FS.Map(seg.path, s.size, mappedfile.MapReadOnly)
	if err != nil {
		return fmt.Errorf("recover commit log: %w", err)
	}
	defer m.Close()
	b := m.Bytes()
	pos := max(s.tail.End-seg.start, 0)
	dataEnd := max(pos, mappedfile.DataEnd(m, pos))
	if i == s.endSeg {
		s.dataEnd = seg.start + dataEnd
	}
	end := pos + int64(lastNonZero(b[pos:dataEnd]))
	s.behind.bytes += end - pos
	s.progress(seg.start+pos, false)
	p := record.Parser{Delay: s.o.Delay, VerifyCRC: true}
	effort := s.size
	var meta record.Meta
	for pos < end {
		if pos = nextWhole(&p, b, seg.start, pos, end, &effort); pos < 0 {
			return nil
		}
		// From a whole record on its size leads to the next.
		for pos < s.size && p.Parse(b[pos:], seg.start+pos, &meta) == nil {
			if meta.IsBlank() {
				if int64(meta.Size) == s.size-pos {
					return nil
				}
				break
			}
			s.behind.add(&meta, s.tail.LastStoreTime, s.limit)
			pos += int64(meta.Size)
			if seg.start+pos-s.progressed >= progressStep {
				s.progress(seg.start+pos, false)
			}
		}
	}
	return nil
}

// add counts a whole record behind the end. One that was stored before the last record in front of the end was there before it: the
// original cuts by moving its write position, and leaves the old bytes to be overwritten. Such a one is no evidence of damage, nor
// is one that an interrupted truncation to limit (if not negative) was about to cut.
func (r *remains) add(m *record.Meta, lastStoreTime, limit int64) {
	r.records++
	if m.StoreTimestamp < lastStoreTime || limit >= 0 && m.PhyOffset >= limit {
		return
	}
	if r.live == 0 {
		r.first, r.time = m.PhyOffset, m.StoreTimestamp
	}
	r.live++
}

var (
	magicPrefix = []byte{0xDA, 0xA3, 0x20} // of both message magics
	messageEnds = [2]byte{0xA7, 0xAB}
)

// nextWhole is the position in [pos, end) of the first whole record of a segment b that starts at base, -1 if there is none. A false
// hit would have to carry its own place, add up, and match its CRC.
//
// effort is how many bytes of records that do add up but do not match may be looked at, and what is left of it. Bytes made for it can
// hold a beginning of a record every hundred bytes that reaches to the end of the segment: to verify each would take days. When the
// effort is spent the next one is believed. That errs on the side of refusing to cut.
func nextWhole(p *record.Parser, b []byte, base, pos, end int64, effort *int64) int64 {
	var meta record.Meta
	for {
		if pos+posMagic >= end {
			return -1
		}
		i := bytes.Index(b[pos+posMagic:end], magicPrefix)
		if i < 0 {
			return -1
		}
		pos += int64(i)
		if pos+minRecordSize > int64(len(b)) {
			return -1
		}
		c := b[pos:]
		if e := c[posMagic+len(magicPrefix)]; (e == messageEnds[0] || e == messageEnds[1]) && int64(binary.BigEndian.Uint64(c[posPhyOffset:])) == base+pos {
			p.VerifyCRC = *effort > 0
			err := p.Parse(c, base+pos, &meta)
			if err == nil {
				return pos
			}
			if size, _ := peekSize(c); errors.Is(err, record.ErrCRC) {
				*effort -= int64(size)
			}
		}
		pos++
	}
}

// judge applies the law of DamageError to what lies behind the end.
func (s *scanner) judge() error {
	if s.behind.live == 0 || s.o.OnDamage == DamageCut {
		return nil
	}
	durable := s.behind.time <= s.r.DurableTime
	if s.r.FlushedTo >= 0 {
		durable = s.behind.first < s.r.FlushedTo
	}
	if !durable && !s.r.Clean {
		return nil
	}
	e := &DamageError{RecordsBehind: s.behind.live, NextWhole: s.behind.first}
	e.CorruptError = mappedfile.CorruptError{Path: s.o.Dir, Off: s.tail.End, Err: record.ErrMalformed}
	var where *mappedfile.CorruptError
	if errors.As(s.reason, &where) {
		e.CorruptError = *where
	}
	return e
}

// setAside keeps and removes a segment behind a hole.
func (s *scanner) setAside(found *recovered, seg segment) error {
	name := filepath.Base(seg.path)
	if s.o.ReadOnly {
		found.hide(name)
		return nil
	}
	m, err := s.o.FS.Map(seg.path, s.size, mappedfile.MapReadOnly)
	if err != nil {
		return fmt.Errorf("recover commit log: %w", err)
	}
	b := m.Bytes()
	file := ""
	if n := lastNonZero(b[:mappedfile.DataEnd(m, 0)]); n > 0 {
		file, err = quarantine(s.o, seg.start, b[:n])
	}
	if err := errors.Join(err, m.Close()); err != nil {
		return err
	}
	if file != "" {
		s.tail.Quarantine = append(s.tail.Quarantine, file)
	}
	if err := s.o.FS.Remove(seg.path); err != nil {
		return fmt.Errorf("recover commit log: %w", err)
	}
	return nil
}

// hidingFS is a file system in which some names of a directory are not listed.
type hidingFS struct {
	mappedfile.FS
	names map[string]bool
}

func (h hidingFS) ReadDir(dir string) ([]mappedfile.Info, error) {
	infos, err := h.FS.ReadDir(dir)
	return slices.DeleteFunc(slices.Clone(infos), func(i mappedfile.Info) bool { return h.names[i.Name] }), err
}

var zeroPage [4096]byte

// lastNonZero is the length of b without the zeros at its end.
func lastNonZero(b []byte) int {
	n := len(b)
	for n >= len(zeroPage) && bytes.Equal(b[n-len(zeroPage):n], zeroPage[:]) {
		n -= len(zeroPage)
	}
	for n > 0 && b[n-1] == 0 {
		n--
	}
	return n
}
