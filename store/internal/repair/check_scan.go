package repair

import (
	"bytes"
	"context"
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/index"
)

// Most of a log is whole, and what is whole can be looked at in any order: the log is cut into chunks, in each of which somebody finds the first record, goes from record to
// record as far as all is well, and keeps what the walker needs of them (a stretch). The walker, who goes through the log in order, takes a stretch over if it stands where
// that begins. Where it does not, or the stretch ends, the walker reads record by record: whatever is wrong is found there, and there only.

// scanned is what a check keeps of the chunks ahead of its walker.
type scanned struct {
	c       *check
	cancel  context.CancelFunc
	workers sync.WaitGroup
	jobs    chan *chunk // nil: there are no workers
	ahead   []*chunk    // handed out, in order
	seg     int         // what is handed out next
	pos     int64
	size    int64    // of a chunk
	own     *scanner // the walker's
}

// chunk is a part of a segment: the records that begin in [from, to).
type chunk struct {
	seg      int
	from, to int64 // in the file
	out      chan *stretch
	past     atomic.Bool // the walker is behind it

	// The walker's.
	got     *stretch // what a worker found; nil: not received yet
	used    bool     // got was taken over, or is of no use
	damaged bool     // the rest is read record by record
}

// stretch is whole records one behind the other.
type stretch struct {
	from, to int64 // physical offsets; to may be the end of the segment, behind a blank
	end      int64 // of the last record
	records  int64 // 0: there is at most a blank
	bytes    int64
	maxTime  int64
	last     lastRecord
	keyed    int64 // the first record with a key; -1 none
	more     bool  // it ends because that was enough
	zeros    span  // of the chunk, up to its end; where nobody looked it is empty
	units    *part
	indexes  []*indexTally
}

const (
	scanWindow = 256 << 10 // of a worker's log, which stays in its processor's cache until it is looked at

	smallChunk = 2 << 20 // what is kept of its records stays in a processor's cache
	largeChunk = 64 << 20
	perQueue   = 64 << 10  // bytes of a chunk for each queue, whose units are read once a chunk
	perFile    = 256 << 10 // and where there are too many to keep their files open

	maxUnitFiles = 256 // kept open, by all workers

	maxWorkers    = 4
	mostExpected  = mostBatch / 2 // units of a stretch
	maxScannedFor = 20_000        // queues; with more there is too little of each in a chunk, and too much to keep of them all
)

// parallel is how many work at a time.
func (c *check) parallel() int {
	if c.o.workers > 0 {
		return c.o.workers
	}
	return min(runtime.GOMAXPROCS(0), maxWorkers)
}

func (c *check) scan() *scanned {
	s := &scanned{c: c, size: c.o.chunk}
	if s.size == 0 {
		s.size = smallChunk
		each := int64(perQueue)
		if len(c.order) > maxUnitFiles/c.parallel() {
			each = perFile
		}
		for s.size < largeChunk && s.size < each*int64(len(c.order)) {
			s.size *= 2
		}
	}
	workers := c.parallel()
	ctx, cancel := context.WithCancel(c.ctx)
	s.cancel = cancel
	s.own = newScanner(ctx, c)
	if workers > 1 {
		s.jobs = make(chan *chunk, workers+1)
		for range workers {
			w := newScanner(ctx, c)
			s.workers.Go(func() {
				defer w.close()
				for j := range s.jobs {
					j.out <- w.chunk(j)
				}
			})
		}
	}
	return s
}

func (s *scanned) close() {
	s.cancel()
	if s.jobs != nil {
		close(s.jobs)
	}
	s.workers.Wait()
	s.own.close()
}

// from is the stretch that begins at a physical offset; nil: none does, the next record is to be read as such.
func (s *scanned) from(phyOffset int64) *stretch {
	j := s.at(phyOffset)
	if j == nil || j.damaged {
		return nil
	}
	var out *stretch
	if !j.used {
		j.used, out = true, s.wait(j)
	}
	if out == nil || out.records == 0 || out.from != phyOffset {
		out = s.own.stretch(j, phyOffset-s.c.segments[j.seg].Start)
	}
	seg := s.c.segments[j.seg]
	j.damaged = !out.more && out.to < seg.Start+j.to
	if out.to == out.from {
		return nil
	}
	return out
}

// wait is what a worker found in a chunk; nil if none looks.
func (s *scanned) wait(j *chunk) *stretch {
	if j.got == nil && s.jobs != nil {
		select {
		case j.got = <-j.out:
		case <-s.own.ctx.Done():
		}
	}
	return j.got
}

// zerosFrom is where the zeros end that lie at a physical offset, as far as workers have seen; phyOffset if they have not looked.
func (s *scanned) zerosFrom(phyOffset int64) int64 {
	if j := s.at(phyOffset); j != nil {
		if out := s.wait(j); out != nil && out.zeros.from <= phyOffset && phyOffset < out.zeros.to {
			return out.zeros.to
		}
	}
	return phyOffset
}

// refuse leaves the rest of a chunk to be read record by record.
func (s *scanned) refuse(phyOffset int64) {
	if j := s.at(phyOffset); j != nil {
		j.damaged = true
	}
}

// at is the chunk that a physical offset lies in; nil: none does. The walker does not come back to those before.
func (s *scanned) at(phyOffset int64) *chunk {
	segs := s.c.segments
	for len(s.ahead) > 0 && segs[s.ahead[0].seg].Start+s.ahead[0].to <= phyOffset {
		s.ahead[0].past.Store(true)
		s.ahead = s.ahead[1:]
	}
	for s.seg < len(segs) && len(s.ahead) < max(1, cap(s.jobs)) {
		seg := segs[s.seg]
		j := &chunk{seg: s.seg, from: s.pos, to: min(s.pos+s.size, seg.Size), out: make(chan *stretch, 1)}
		if s.pos = j.to; s.pos == seg.Size {
			s.seg, s.pos = s.seg+1, 0
		}
		if seg.Start+j.to <= phyOffset || j.from == j.to {
			continue
		}
		s.ahead = append(s.ahead, j)
		if s.jobs != nil {
			s.jobs <- j
		}
	}
	if len(s.ahead) == 0 {
		return nil
	}
	if j := s.ahead[0]; segs[j.seg].Start+j.from <= phyOffset {
		return j
	}
	return nil
}

// scanner looks at chunks. For one goroutine.
type scanner struct {
	c       *check
	ctx     context.Context
	r       *LogReader
	cur     *chunk
	units   *collector
	match   *matcher
	tallies []*indexTally
	m       record.Meta
	k       record.Known
}

func newScanner(ctx context.Context, c *check) *scanner {
	s := &scanner{c: c, ctx: ctx, match: newMatcher(c, maxUnitFiles/c.parallel())}
	s.units = newCollector(c.queues, s.match)
	s.r = &LogReader{files: &Files{root: c.root, log: c.log, segments: c.segments}, sumsOnly: true, tick: s.stop, window: scanWindow}
	for _, x := range c.indexes {
		s.tallies = append(s.tallies, x.tally())
	}
	return s
}

func (s *scanner) close() {
	s.r.Close()
	s.match.close()
}

// stop is why the chunk is not worth going on with.
func (s *scanner) stop() error {
	if s.cur.past.Load() {
		return context.Canceled
	}
	return s.ctx.Err()
}

// chunk is the stretch from the first record that begins in a chunk.
func (s *scanner) chunk(j *chunk) *stretch {
	s.cur = j
	none := &stretch{}
	if s.stop() != nil || s.open(j) != nil {
		return none
	}
	if j.from == 0 {
		return s.ahead(j, 0)
	}
	begin := s.zeros(j.from, j.to)
	if begin == j.to {
		none.zeros = span{s.r.seg.Start + j.from, s.r.seg.Start + j.to}
		return none
	}
	const sizeField = 4     // may begin with zeros
	effort := j.to - j.from // bytes of records that add up and do not match their checksums
	for pos := max(j.from, begin-sizeField); pos < j.to && effort > 0; pos++ {
		if pos = s.magic(pos, j.to); pos < 0 {
			break
		}
		s.r.pos = pos
		size, ok := s.r.quick(&s.m, &s.k)
		if ok {
			return s.ahead(j, pos)
		}
		effort -= size
	}
	return none
}

// ahead is a stretch, and the zeros behind it.
func (s *scanner) ahead(j *chunk, pos int64) *stretch {
	out := s.stretch(j, pos)
	at := max(pos, out.to-s.r.seg.Start)
	if b, err := s.r.some(record.BlankHeaderSize); err == nil && at < j.to && firstNonZero(b) == len(b) && s.zeros(at, j.to) == j.to {
		out.zeros = span{s.r.seg.Start + at, s.r.seg.Start + j.to}
	}
	return out
}

// zeros is where the zeros at pos end, at the latest at to.
func (s *scanner) zeros(pos, to int64) int64 {
	for pos < to && s.stop() == nil {
		if pos = min(dataFrom(s.r.f, pos, to), to); pos == to {
			return to
		}
		s.r.pos = pos
		b, err := s.r.some(int(min(scanWindow, to-pos)))
		if err != nil || len(b) == 0 {
			return pos
		}
		i := firstNonZero(b)
		if pos += int64(i); i < len(b) {
			return pos
		}
	}
	return pos
}

// open opens the chunk's segment.
func (s *scanner) open(j *chunk) error {
	if s.r.f != nil && s.r.next == j.seg+1 {
		return nil
	}
	if err := s.r.shut(); err != nil {
		return err
	}
	s.r.next, s.r.done = j.seg, false
	if err := s.r.open(); err != nil {
		return err
	}
	if s.r.f == nil {
		return errMissing // expired since it was listed
	}
	return nil
}

// magic is the first position in [pos, to) where a record may begin; -1 if there is none.
func (s *scanner) magic(pos, to int64) int64 {
	code := binary.BigEndian.AppendUint32(nil, record.MagicV1)[:3] // the fourth byte tells the versions apart
	const posMagic = 4
	for pos < to && s.stop() == nil {
		s.r.pos = pos + posMagic
		b, err := s.r.some(int(min(scanWindow, to-pos+int64(len(code)))))
		if err != nil || len(b) < len(code) {
			return -1
		}
		if i := bytes.Index(b, code); i >= 0 {
			if pos += int64(i); pos < to {
				return pos
			}
			return -1
		}
		pos += int64(len(b) - len(code) + 1)
	}
	return -1
}

// stretch goes from record to record, from pos of the chunk's segment on.
func (s *scanner) stretch(j *chunk, pos int64) *stretch {
	s.cur = j
	out := &stretch{keyed: -1}
	if s.open(j) != nil {
		return out
	}
	s.match.reset()
	s.units.reset()
	for _, t := range s.tallies {
		t.reset()
	}
	r := s.r
	r.pos = pos
	out.from = r.seg.Start + pos
	m, k := &s.m, &s.k
	var closed bool
	for r.pos < j.to {
		size, ok := r.quick(m, k)
		if !ok {
			closed = size < 0
			break
		}
		r.pos += size
		if out.records++; out.records&0x3ff == 0 && s.stop() != nil {
			return &stretch{}
		}
		out.maxTime = max(out.maxTime, m.StoreTimestamp)
		for _, t := range s.tallies {
			t.record(m, k)
		}
		if len(s.tallies) == 0 && out.keyed < 0 && (k.UniqKey != nil || k.Keys != nil) && index.HasKeys(m) {
			out.keyed = m.PhyOffset
		}
		s.units.record(m, k, -1)
		if s.units.part.n >= mostExpected && r.pos < j.to {
			out.more = true
			break
		}
	}
	out.end = r.seg.Start + r.pos
	out.to = out.end
	if closed {
		out.to = r.seg.End()
	}
	if out.bytes = out.end - out.from; out.records > 0 {
		out.last = lastRecord{m.PhyOffset, int64(m.Size), m.StoreTimestamp, m.BodyCRC}
	}
	out.units = s.units.copy()
	for _, t := range s.tallies {
		out.indexes = append(out.indexes, t.clone())
	}
	return out
}
