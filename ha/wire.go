package ha

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Classic frames (RocketMQ 4.9.8, spec/ha-protocol.md 6.2, 6.3). All integers are big-endian.
//
//	slave to master                  master to slave
//	+-----------------------+        +-----------------------+-----------+----------+
//	| 0 log end of the slave|        | 0 offset of body[0]   | 8 n       | 12 body  |
//	+-----------------------+        +-----------------------+-----------+----------+
//	 8 bytes                          8                       4           n; n = 0: heartbeat, offset = what comes next
const (
	reportSize = 8

	posFrameOffset  = 0
	posFrameLength  = 8
	frameHeaderSize = 12
)

func putReport(b []byte, phyOffset int64) { binary.BigEndian.PutUint64(b, uint64(phyOffset)) }

func putFrameHeader(b []byte, phyOffset int64, n int) {
	binary.BigEndian.PutUint64(b[posFrameOffset:], uint64(phyOffset))
	binary.BigEndian.PutUint32(b[posFrameLength:], uint32(n))
}

func parseFrameHeader(b []byte, maxBody int) (phyOffset int64, n int, err error) {
	phyOffset = int64(binary.BigEndian.Uint64(b[posFrameOffset:]))
	size := int32(binary.BigEndian.Uint32(b[posFrameLength:]))
	if size < 0 || int64(size) > int64(maxBody) {
		return 0, 0, &FrameSizeError{int64(size), int64(maxBody)}
	}
	if phyOffset < 0 || phyOffset+int64(size) < 0 {
		return 0, 0, fmt.Errorf("%w: frame of %d bytes at physical offset %d", ErrMalformed, size, phyOffset)
	}
	return phyOffset, int(size), nil
}

// reports takes a stream of 8-byte values apart: of what one read brought, the last complete value counts (spec/ha-protocol.md 6.5).
type reports struct {
	part [reportSize]byte
	n    int // bytes of part
}

// feed takes the bytes of one read; ok = a value became complete.
func (r *reports) feed(p []byte) (last int64, ok bool) {
	whole := (r.n + len(p)) / reportSize * reportSize // bytes up to the end of the last complete value, counted from the start of part
	if whole == 0 {
		r.n += copy(r.part[r.n:], p)
		return 0, false
	}
	end := whole - r.n // in p
	var v [reportSize]byte
	if from := end - reportSize; from >= 0 {
		copy(v[:], p[from:end])
	} else {
		copy(v[:], r.part[:r.n])
		copy(v[r.n:], p[:end])
	}
	r.n = copy(r.part[:], p[end:])
	return int64(binary.BigEndian.Uint64(v[:])), true
}

// piece is a part of a frame's body, or a heartbeat.
type piece struct {
	phyOffset int64
	body      []byte // valid until the next call
	first     bool   // the frame's header came with it, so phyOffset is the frame's; body may be empty, since it is not waited for
	last      bool   // the frame is complete with it
	heartbeat bool
}

// pieces reads a master's frames.
type pieces interface {
	next() (piece, error)
	drained() bool // the next piece must be read from the network
}

// frames decodes classic frames, whose bodies it hands out as they arrive, with one buffer whatever the lengths say.
type frames struct {
	r         io.Reader
	buf       []byte
	from, to  int // unread bytes of buf
	maxBody   int
	phyOffset int64 // of the next body byte
	rest      int   // body bytes of the current frame that are still to come
}

func newFrames(r io.Reader, bufSize, maxBody int) *frames {
	return &frames{r: r, buf: make([]byte, bufSize), maxBody: maxBody}
}

func (d *frames) drained() bool {
	return d.to == d.from || d.to-d.from < frameHeaderSize && d.rest == 0
}

func (d *frames) next() (piece, error) {
	if d.rest > 0 {
		if d.from == d.to {
			if err := d.fill(); err != nil {
				return piece{}, err
			}
		}
		return d.take(false), nil
	}
	for d.to-d.from < frameHeaderSize {
		if err := d.fill(); err != nil {
			return piece{}, err
		}
	}
	phyOffset, n, err := parseFrameHeader(d.buf[d.from:d.to], d.maxBody)
	if err != nil {
		return piece{}, err
	}
	d.from += frameHeaderSize
	d.phyOffset, d.rest = phyOffset, n
	p := d.take(true)
	p.heartbeat = n == 0
	return p, nil
}

// take hands out what is at hand of the current frame.
func (d *frames) take(first bool) piece {
	n := min(d.rest, d.to-d.from)
	p := piece{phyOffset: d.phyOffset, body: d.buf[d.from : d.from+n], first: first}
	d.from += n
	d.rest -= n
	d.phyOffset += int64(n)
	p.last = d.rest == 0
	return p
}

func (d *frames) fill() error {
	if d.from == d.to {
		d.from, d.to = 0, 0
	} else if d.from > 0 && len(d.buf)-d.from < frameHeaderSize {
		d.to = copy(d.buf, d.buf[d.from:d.to])
		d.from = 0
	}
	n, err := d.r.Read(d.buf[d.to:])
	d.to += n
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}
