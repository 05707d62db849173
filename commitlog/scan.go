package commitlog

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/record"
)

const (
	releaseStep = 16 << 20 // how much of a mapping a scan keeps resident
	scanSpan    = 1 << 20  // bytes of records that one processor checks at a time
)

// span is a run of records of one segment, and what came of checking it.
type span struct {
	from, to int64         // positions in the segment: the records that begin in between. from is a boundary if all that lies before it is whole
	done     chan struct{} // closed when it is checked

	end      int64 // where its whole records end: at or behind to, if all are
	why      error // what ended them before
	failed   error // of Recovery.Each
	blank    bool  // the last of them is the segment's blank
	records  int64 // without the blank
	lastTime int64 // store time of the last of them
	sure     int64 // end of the last of those in front of the first that no mark covers; -1: none
	doubting bool  // there is one that no mark covers
}

// segment scans the records of one file from the log's end so far, which lies in it. stopped: the end of the log is in it.
func (s *scanner) segment(seg segment, last bool) (stopped bool, err error) {
	m, err := s.o.FS.Map(seg.path, s.size, mappedfile.MapReadOnly)
	if err != nil {
		return false, fmt.Errorf("recover commit log: %w", err)
	}
	defer m.Close()
	if !last {
		// The last one will be written: read far ahead it would come in pieces so large that each small sync writes one of them.
		_ = m.Advise(mappedfile.AdviceSequential, 0, s.size)
	}
	spans := s.spans(seg, m.Bytes())
	defer spans.close() // before the mapping goes
	released := spans.next
	for j := spans.take(); j != nil; j = spans.take() {
		if s.r.Stop != nil {
			if err := s.r.Stop(); err != nil {
				return false, err
			}
		}
		if j.failed != nil {
			return false, j.failed
		}
		s.add(seg, j)
		switch {
		case j.why != nil:
			s.reason = &mappedfile.CorruptError{Path: seg.path, Off: s.tail.End, Err: j.why}
			return true, nil
		case j.blank:
			return false, nil
		}
		if j.end-released >= releaseStep {
			_ = m.Advise(mappedfile.AdviceRelease, released, j.end-released)
			released = j.end
		}
	}
	return s.tail.End-seg.start < s.size, nil
}

// add makes what came of a span, which begins at the log's end so far, the scan's.
func (s *scanner) add(seg segment, j *span) {
	s.tail.End = seg.start + j.end
	if !s.doubting && j.sure >= 0 {
		s.sure = seg.start + j.sure
	}
	s.doubting = s.doubting || j.doubting
	if j.records > 0 {
		s.tail.Records += j.records
		s.tail.LastStoreTime = j.lastTime
		s.times[seg.start] = j.lastTime
	}
	if s.tail.End-s.progressed >= progressStep {
		s.progress(s.tail.End, false)
	}
}

// spans are the records of one segment from its scan's start on, span by span.
//
// Whether a record is whole depends on nothing before it but where it begins. So the scan jumps from size to size, unverified, and hands the spans in between to as many goroutines as
// there are processors, which check them record by record. What comes of a span counts only if all before it turned out whole: it then begins where they end, and the outcome is that of
// a check of one record after the other.
type spans struct {
	s    *scanner
	seg  segment
	b    []byte
	next int64 // where the next span begins
	to   int64 // records at or behind it are not looked at
	step int64 // bytes of a span

	waiting []*span    // in order; some are checked
	jobs    chan *span // has room for all of them; nil: whoever takes a span checks it
	workers sync.WaitGroup
}

func (s *scanner) spans(seg segment, b []byte) *spans {
	p := &spans{s: s, seg: seg, b: b, next: s.tail.End - seg.start, to: s.size, step: cmp.Or(s.r.span, scanSpan)}
	if s.limit >= 0 {
		p.to = min(s.size, s.limit-seg.start)
	}
	n := runtime.GOMAXPROCS(0)
	if s.r.span != 0 {
		n = max(n, 2)
	}
	if s.r.Each == nil && n > 1 && p.to-p.next > p.step {
		p.jobs = make(chan *span, 2*n)
		for range n {
			p.workers.Go(func() {
				for j := range p.jobs {
					s.check(seg, b, j)
					close(j.done)
				}
			})
		}
	}
	return p
}

// take is the next span, checked; nil if there is none. It is called again only if all that it gave was whole.
func (p *spans) take() *span {
	if p.jobs == nil {
		if p.next >= p.to {
			return nil
		}
		j := &span{from: p.next, to: min(p.next+p.step, p.to)}
		p.s.check(p.seg, p.b, j)
		p.next = j.end
		return j
	}
	for p.next < p.to && len(p.waiting) < cap(p.jobs) {
		j := &span{from: p.next, to: jump(p.b, p.next, min(p.next+p.step, p.to)), done: make(chan struct{})}
		if p.next = j.to; j.to == j.from { // no record begins there: the check says why, and nothing follows
			j.to, p.next = j.from+1, p.to
		}
		p.waiting = append(p.waiting, j)
		p.jobs <- j
	}
	if len(p.waiting) == 0 {
		return nil
	}
	j := p.waiting[0]
	p.waiting = p.waiting[1:]
	<-j.done
	return j
}

// close ends the goroutines.
func (p *spans) close() {
	if p.jobs != nil {
		close(p.jobs)
		p.workers.Wait()
	}
}

// jump goes from pos, by what records say of their sizes, to the first place at or behind to; or as far as that makes sense.
func jump(b []byte, pos, to int64) int64 {
	for pos < to {
		rest := int64(len(b)) - pos
		if rest < record.BlankHeaderSize {
			return pos
		}
		size := int64(int32(binary.BigEndian.Uint32(b[pos+posSize:])))
		if size < record.BlankHeaderSize || size > rest {
			return pos
		}
		pos += size
	}
	return pos
}

// check looks at the records that begin in j. It reads nothing of s that changes, so that it runs beside itself; with Recovery.Each it does not.
func (s *scanner) check(seg segment, b []byte, j *span) {
	j.sure = -1
	verify := !s.r.SkipCRC
	var o record.Outline
	for j.end = j.from; j.end < j.to; {
		pos := j.end
		off := seg.start + pos
		err := record.Check(b[pos:], off, verify, &o)
		if err == nil && o.IsBlank() && int64(o.Size) != s.size-pos {
			err = fmt.Errorf("%w: a blank of %d bytes where %d are left of the segment", record.ErrSize, o.Size, s.size-pos)
		}
		if errors.Is(err, record.ErrIncomplete) {
			err = fmt.Errorf("%w: the record crosses the segment's end", record.ErrSize)
		}
		doubtful := err == nil && !o.IsBlank() && s.r.doubtful(off+int64(o.Size), &o)
		if doubtful {
			if err = tornSector(b[pos:], pos, &o); err == nil {
				err = unfinished(b[pos:], &o)
			}
		}
		if err != nil {
			j.why = err
			return
		}
		j.end = pos + int64(o.Size)
		j.doubting = j.doubting || doubtful
		if o.IsBlank() {
			j.blank = true
			return
		}
		if !j.doubting {
			j.sure = j.end
		}
		j.records++
		j.lastTime = o.StoreTimestamp
		if s.r.Each != nil && off >= s.r.From {
			if j.failed = s.each(b[pos:j.end], off); j.failed != nil {
				return
			}
		}
	}
}

// each shows a record that is whole to Recovery.Each.
func (s *scanner) each(b []byte, off int64) error {
	if err := s.parser.Parse(b, off, &s.meta); err != nil {
		return err
	}
	return s.r.Each(&s.meta)
}
