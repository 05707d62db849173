package repair

import (
	"bytes"
	"encoding/binary"
	"io"
	"io/fs"
	"sort"

	"github.com/mqstore/mqstore/commitlog/record"
)

// prober says what lies at a place of the log that something points at.
type prober struct {
	c   *check
	log seen
	seg int
	f   fs.File
	buf []byte
	p   record.Parser
}

// lies is what lies at a physical offset: a record, or why there is none.
type lies struct {
	expired bool // in front of the log's first record
	behind  bool // at or behind the log's end
	lost    span // it lies in damage; to 0: it does not
	record  bool
	within  int64 // the record that it lies in the middle of; -1: none found

	topic       string
	queueID     int32
	queueOffset int64
	hasUnit     bool
	size        int
}

// at looks at a place.
func (p *prober) at(phyOffset int64) (out lies) {
	out.within = -1
	c := p.c
	if p.log.over && phyOffset >= p.log.upTo {
		out.behind = true
		return out
	}
	if len(c.segments) == 0 || phyOffset < c.segments[0].Start {
		out.expired = len(c.segments) > 0
		out.behind = !out.expired
		return out
	}
	i := sort.Search(len(c.segments), func(i int) bool { return c.segments[i].End() > phyOffset })
	if i == len(c.segments) {
		out.behind = true
		return out
	}
	if phyOffset < c.segments[i].Start {
		out.lost = span{c.segments[i-1].End(), c.segments[i].Start}
		return out
	}
	pos := phyOffset - c.segments[i].Start
	if m, ok := p.parse(i, pos); ok {
		out.record, out.topic, out.queueID, out.queueOffset, out.size = true, m.Topic, m.QueueID, m.QueueOffset, m.Size
		out.hasUnit = m.HasUnit()
		return out
	}
	if out.lost = p.log.lost(phyOffset); out.lost.to == 0 {
		out.within = p.around(i, pos)
	}
	return out
}

// read reads n bytes, or as many as the segment has; the bytes are valid until the next call.
func (p *prober) read(i int, pos int64, n int) ([]byte, error) {
	c := p.c
	if p.f == nil || p.seg != i {
		p.shut()
		f, err := c.log.Open(c.segments[i].Path)
		if err != nil {
			return nil, err
		}
		p.f, p.seg = f, i
	}
	at, ok := p.f.(io.ReaderAt)
	if !ok {
		return nil, fs.ErrInvalid
	}
	n = int(min(int64(n), c.segments[i].Size-pos))
	if cap(p.buf) < n {
		p.buf = make([]byte, n)
	}
	got, err := at.ReadAt(p.buf[:n], pos)
	if got < n {
		return nil, err
	}
	return p.buf[:n], nil
}

// maxProbe bounds the record that a probe reads whole.
const maxProbe = 16 << 20

// parse reads the record at pos of a segment.
func (p *prober) parse(i int, pos int64) (m record.Meta, ok bool) {
	b, err := p.read(i, pos, record.BlankHeaderSize)
	if err != nil || len(b) < record.BlankHeaderSize {
		return m, false
	}
	size, magic := int64(int32(binary.BigEndian.Uint32(b))), binary.BigEndian.Uint32(b[4:])
	if magic != record.MagicV1 && magic != record.MagicV2 || size <= record.BlankHeaderSize || size > min(p.c.segments[i].Size-pos, maxProbe) {
		return m, false
	}
	if b, err = p.read(i, pos, int(size)); err != nil {
		return m, false
	}
	return m, p.p.Parse(b, p.c.segments[i].Start+pos, &m) == nil
}

// around is the physical offset of the record that pos lies in the middle of; -1 if none is found near.
func (p *prober) around(i int, pos int64) int64 {
	magic := binary.BigEndian.AppendUint32(nil, record.MagicV1)[:3]
	const near = 128 << 10
	from := max(pos-near, 0)
	const behindMagic = 8
	b, err := p.read(i, from, int(pos-from)+behindMagic) // that of a record which begins just in front may lie behind pos
	if err != nil {
		return -1
	}
	window := bytes.Clone(b)
	for end := len(window); ; {
		at := bytes.LastIndex(window[:end], magic)
		if at < 0 {
			return -1
		}
		end = at + len(magic) - 1
		if at < 4 {
			continue
		}
		start := from + int64(at) - 4
		if start >= pos {
			continue
		}
		if m, ok := p.parse(i, start); ok {
			if start < pos && pos < start+int64(m.Size) {
				return p.c.segments[i].Start + start
			}
			return -1
		}
	}
}

func (p *prober) shut() {
	if p.f != nil {
		p.f.Close()
		p.f = nil
	}
}
