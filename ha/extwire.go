package ha

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Frames of the extended protocol, version 1. All integers are big-endian, all checksums CRC-32C. Zero where it says reserved: an epoch of
// RocketMQ 5's protocol can go there, in a later version.
//
//	slave to master: report
//	 0 8 log end of the slave    8 8 reserved    16 4 checksum of [0,16)
//
//	master to slave: frame
//	 0 8 offset of the first byte of the body, uncompressed    8 4 n, bytes that follow the header (0: heartbeat)    12 4 length of the body, uncompressed
//	16 4 flags (1: the n bytes are a zstd frame)              20 16 reserved    36 4 checksum of [0,36) and the n bytes
const (
	posExtReportSum = 16
	extReportSize   = 20

	posExtOffset   = 0
	posExtLength   = 8
	posExtBody     = 12
	posExtFlags    = 16
	posExtReserved = 20
	posExtSum      = 36
	extHeaderSize  = 40

	extFlagZstd = 1
	zstdWindow  = 1 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func putExtReport(b []byte, phyOffset int64) {
	clear(b[:extReportSize])
	binary.BigEndian.PutUint64(b, uint64(phyOffset))
	binary.BigEndian.PutUint32(b[posExtReportSum:], crc32.Checksum(b[:posExtReportSum], castagnoli))
}

func parseExtReport(b []byte) (phyOffset int64, err error) {
	if crc32.Checksum(b[:posExtReportSum], castagnoli) != binary.BigEndian.Uint32(b[posExtReportSum:]) {
		return 0, fmt.Errorf("%w: report: %w", ErrMalformed, ErrChecksum)
	}
	if !allZero(b[8:posExtReportSum]) {
		return 0, fmt.Errorf("%w: report with reserved bytes that are not zero", ErrMalformed)
	}
	return int64(binary.BigEndian.Uint64(b)), nil
}

// extReports checks each report, and the last of a read counts.
type extReports struct {
	part [extReportSize]byte
	n    int
}

func (r *extReports) take(p []byte) (phyOffset int64, ok bool, err error) {
	for len(p) > 0 {
		n := copy(r.part[r.n:], p)
		p = p[n:]
		if r.n += n; r.n < extReportSize {
			break
		}
		r.n = 0
		if phyOffset, err = parseExtReport(r.part[:]); err != nil {
			return 0, false, err
		}
		ok = true
	}
	return phyOffset, ok, nil
}

// extHeader is a frame's header.
type extHeader struct {
	phyOffset    int64
	length, body int
	zstd         bool
	sum          uint32
}

func putExtHeader(b []byte, h extHeader, payload []byte) {
	clear(b[:extHeaderSize])
	binary.BigEndian.PutUint64(b[posExtOffset:], uint64(h.phyOffset))
	binary.BigEndian.PutUint32(b[posExtLength:], uint32(h.length))
	binary.BigEndian.PutUint32(b[posExtBody:], uint32(h.body))
	if h.zstd {
		binary.BigEndian.PutUint32(b[posExtFlags:], extFlagZstd)
	}
	sum := crc32.Update(crc32.Checksum(b[:posExtSum], castagnoli), castagnoli, payload)
	binary.BigEndian.PutUint32(b[posExtSum:], sum)
}

// parseExtHeader checks everything but the checksum, for which the payload is needed, whose length it has bounded.
func parseExtHeader(b []byte, maxBody int) (h extHeader, err error) {
	length, body := int32(binary.BigEndian.Uint32(b[posExtLength:])), int32(binary.BigEndian.Uint32(b[posExtBody:]))
	flags := binary.BigEndian.Uint32(b[posExtFlags:])
	h = extHeader{phyOffset: int64(binary.BigEndian.Uint64(b[posExtOffset:])), zstd: flags == extFlagZstd, sum: binary.BigEndian.Uint32(b[posExtSum:])}
	for _, n := range []int32{length, body} {
		if n < 0 || int64(n) > int64(maxBody) {
			return h, &FrameSizeError{int64(n), int64(maxBody)}
		}
	}
	h.length, h.body = int(length), int(body)
	switch {
	case h.phyOffset < 0 || h.phyOffset+int64(body) < 0:
		return h, fmt.Errorf("%w: frame of %d bytes at physical offset %d", ErrMalformed, body, h.phyOffset)
	case flags&^extFlagZstd != 0:
		return h, fmt.Errorf("%w: frame with flags %#x", ErrMalformed, flags)
	case !h.zstd && length != body, h.zstd && length >= body:
		return h, fmt.Errorf("%w: frame with %d bytes for a body of %d (compressed: %v)", ErrMalformed, length, body, h.zstd)
	case !allZero(b[posExtReserved:posExtSum]):
		return h, fmt.Errorf("%w: frame with reserved bytes that are not zero", ErrMalformed)
	}
	return h, nil
}

func allZero(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}

// extSender writes frames of the extended protocol. TLS copies everything anyway, so a frame is put together in one buffer and becomes one Write.
type extSender struct {
	nc      net.Conn
	batch   int
	timeout time.Duration
	zstd    *zstd.Encoder // nil = not agreed
	buf     []byte
}

func newExtSender(nc net.Conn, batch int, timeout time.Duration, compress bool) (*extSender, error) {
	s := &extSender{nc: nc, batch: batch, timeout: timeout}
	if compress {
		var err error
		if s.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false), zstd.WithWindowSize(zstdWindow)); err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
	}
	return s, nil
}

func (s *extSender) heartbeat(phyOffset int64) error { return s.write(phyOffset, nil) }

func (s *extSender) send(phyOffset int64, p []byte) error {
	for len(p) > 0 {
		body := p[:min(len(p), s.batch)]
		if err := s.write(phyOffset, body); err != nil {
			return err
		}
		phyOffset += int64(len(body))
		p = p[len(body):]
	}
	return nil
}

func (s *extSender) write(phyOffset int64, body []byte) error {
	if cap(s.buf) < extHeaderSize+len(body) {
		s.buf = make([]byte, extHeaderSize, extHeaderSize+len(body))
	}
	s.buf = s.buf[:extHeaderSize]
	h := extHeader{phyOffset: phyOffset, body: len(body)}
	if s.zstd != nil && len(body) > 0 {
		s.buf = s.zstd.EncodeAll(body, s.buf)
		h.zstd = len(s.buf)-extHeaderSize < len(body)
	}
	if !h.zstd {
		s.buf = append(s.buf[:extHeaderSize], body...)
	}
	h.length = len(s.buf) - extHeaderSize
	putExtHeader(s.buf, h, s.buf[extHeaderSize:])
	if err := s.nc.SetWriteDeadline(time.Now().Add(s.timeout)); err != nil {
		return err
	}
	_, err := s.nc.Write(s.buf)
	return err
}

// extFrames decodes frames of the extended protocol. A body is handed out whole, once its checksum is right.
type extFrames struct {
	r        io.Reader
	buf      []byte // grows to the largest frame seen
	from, to int
	maxBody  int
	zstd     *zstd.Decoder // nil = not agreed
	body     []byte        // uncompressed
}

func newExtFrames(r io.Reader, bufSize, maxBody int, compress bool) (*extFrames, error) {
	d := &extFrames{r: r, buf: make([]byte, max(bufSize, extHeaderSize)), maxBody: maxBody}
	if compress {
		var err error
		if d.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxMemory(max(2*zstdWindow, uint64(maxBody))), zstd.WithDecoderMaxWindow(2*zstdWindow)); err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
	}
	return d, nil
}

func (d *extFrames) close() {
	if d.zstd != nil {
		d.zstd.Close()
	}
}

// drained is true while the rest of a frame must still come.
func (d *extFrames) drained() bool {
	if d.to-d.from < extHeaderSize {
		return true
	}
	n := int64(binary.BigEndian.Uint32(d.buf[d.from+posExtLength:]))
	return int64(d.to-d.from) < extHeaderSize+n
}

func (d *extFrames) next() (piece, error) {
	if err := d.need(extHeaderSize); err != nil {
		return piece{}, err
	}
	h, err := parseExtHeader(d.buf[d.from:d.to], d.maxBody)
	if err != nil {
		return piece{}, err
	}
	if err := d.need(extHeaderSize + h.length); err != nil {
		return piece{}, err
	}
	header, payload := d.buf[d.from:d.from+extHeaderSize], d.buf[d.from+extHeaderSize:d.from+extHeaderSize+h.length]
	d.from += extHeaderSize + h.length
	if crc32.Update(crc32.Checksum(header[:posExtSum], castagnoli), castagnoli, payload) != h.sum {
		return piece{}, fmt.Errorf("%w: frame at physical offset %d: %w", ErrMalformed, h.phyOffset, ErrChecksum)
	}
	p := piece{phyOffset: h.phyOffset, body: payload, first: true, last: true, heartbeat: h.body == 0}
	if h.zstd {
		if p.body, err = d.decompress(h, payload); err != nil {
			return piece{}, err
		}
	}
	return p, nil
}

func (d *extFrames) decompress(h extHeader, payload []byte) ([]byte, error) {
	if d.zstd == nil {
		return nil, fmt.Errorf("%w: compressed frame at physical offset %d, which was not agreed", ErrMalformed, h.phyOffset)
	}
	if cap(d.body) < h.body {
		d.body = make([]byte, 0, h.body)
	}
	body, err := d.zstd.DecodeAll(payload, d.body[:0:h.body])
	if err != nil || len(body) != h.body {
		return nil, fmt.Errorf("%w: compressed frame at physical offset %d has %d of %d bytes: %v", ErrMalformed, h.phyOffset, len(body), h.body, err)
	}
	return body, nil
}

// need reads until n unread bytes are there.
func (d *extFrames) need(n int) error {
	if d.from == d.to {
		d.from, d.to = 0, 0
	}
	if d.from+n > len(d.buf) {
		buf := d.buf
		if n > len(buf) {
			buf = make([]byte, n)
		}
		d.to = copy(buf, d.buf[d.from:d.to])
		d.from, d.buf = 0, buf
	}
	for d.to-d.from < n {
		k, err := d.r.Read(d.buf[d.to:])
		d.to += k
		if k == 0 {
			if err == nil {
				err = io.ErrNoProgress
			}
			return err
		}
	}
	return nil
}
