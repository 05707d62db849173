package ha

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync/atomic"
	"time"
)

// The handshake of the extended protocol: a slave's hello, a master's welcome, inside mutual TLS 1.3. Both have the same first 108 bytes and the checksum (CRC-32C) last:
//
//	  0  4 magic "MQHA"     4 2 version     6 2 length of all    8 4 status (hello: 0)    12 4 flags (1: zstd; hello: 2: resync from the last segment;
//	                                                                                              from version 2 on 4: hello: queues wanted; welcome: queues follow, extqueues.go)
//	 16 16 store identity, zero = not known
//	 32  8 hello: log end of the slave; welcome: where the master begins to send
//	 40  8 hello: where the slave's last record begins; welcome: the master's first byte
//	 48  8 hello: how many of its bytes were summed (4), their sum (4); welcome: the master's end
//	 56  4 hello: largest frame body the slave takes; welcome: reserved
//	 60 16 reserved: epoch
//	 76 32 proof: HMAC-SHA256 with the token as key of the side's name and 32 bytes of TLS exporter
//	108  4 checksum of what is before it
//
// A later version may make it longer: the length covers what follows, the checksum stays last. The master answers with the lower of both versions. In a welcome that refuses, the offsets say what the master holds.
const (
	helloMagic   = 0x4d514841
	helloVersion = 2

	posHelloMagic    = 0
	posHelloVersion  = 4
	posHelloLength   = 6
	posHelloStatus   = 8
	posHelloFlags    = 12
	posHelloStore    = 16
	posHelloA        = 32
	posHelloB        = 40
	posHelloC        = 48
	posHelloMaxFrame = 56
	posHelloReserved = 60
	posHelloProof    = 76
	posHelloSum      = 108
	helloSize        = 112
	maxHelloSize     = 4096

	helloZstd        = 1
	helloLastSegment = 2
	helloQueues      = 4

	exporterLabel = "EXPORTER-mqstore-ha"
)

// identity is a store's, which can come to be known while it runs.
type identity struct{ p atomic.Pointer[[16]byte] }

func (i *identity) set(id [16]byte) { i.p.Store(&id) }

func (i *identity) get() (id [16]byte) {
	if p := i.p.Load(); p != nil {
		id = *p
	}
	return id
}

// status is a welcome's answer.
type status uint32

const (
	statusOK status = iota
	statusToken
	statusVersion
	statusStoreID
	statusAhead
	statusDeleted
	statusDiverged
	statusMalformed
	statusUnavailable
)

var statusReasons = map[status]error{
	statusToken: ErrToken, statusVersion: ErrVersion, statusStoreID: ErrStoreID, statusMalformed: ErrMalformed, statusUnavailable: errUnavailable,
	statusAhead: ErrSlaveAhead, statusDeleted: ErrDeletedOnMaster, statusDiverged: ErrDiverged,
}

var errUnavailable = errors.New("ha: the master cannot read its log there")

func statusOf(err error) status {
	for s, reason := range statusReasons {
		if errors.Is(err, reason) {
			return s
		}
	}
	return statusUnavailable
}

// hello is either greeting; a, b, c are as the table says.
type hello struct {
	version  uint16
	status   status
	flags    uint32
	storeID  [16]byte
	a, b, c  int64
	maxFrame int32
	proof    [32]byte
}

func (h *hello) encode() []byte {
	b := make([]byte, helloSize)
	binary.BigEndian.PutUint32(b[posHelloMagic:], helloMagic)
	binary.BigEndian.PutUint16(b[posHelloVersion:], h.version)
	binary.BigEndian.PutUint16(b[posHelloLength:], helloSize)
	binary.BigEndian.PutUint32(b[posHelloStatus:], uint32(h.status))
	binary.BigEndian.PutUint32(b[posHelloFlags:], h.flags)
	copy(b[posHelloStore:], h.storeID[:])
	binary.BigEndian.PutUint64(b[posHelloA:], uint64(h.a))
	binary.BigEndian.PutUint64(b[posHelloB:], uint64(h.b))
	binary.BigEndian.PutUint64(b[posHelloC:], uint64(h.c))
	binary.BigEndian.PutUint32(b[posHelloMaxFrame:], uint32(h.maxFrame))
	copy(b[posHelloProof:], h.proof[:])
	binary.BigEndian.PutUint32(b[posHelloSum:], crc32.Checksum(b[:posHelloSum], castagnoli))
	return b
}

// readHello reads a greeting of this or a later version, of which it takes the part it knows.
func readHello(r io.Reader) (h hello, err error) {
	b := make([]byte, helloSize, maxHelloSize)
	if _, err := io.ReadFull(r, b); err != nil {
		return h, fmt.Errorf("greeting: %w", err)
	}
	if magic := binary.BigEndian.Uint32(b[posHelloMagic:]); magic != helloMagic {
		return h, fmt.Errorf("%w: greeting with magic %#x", ErrMalformed, magic)
	}
	h.version = binary.BigEndian.Uint16(b[posHelloVersion:])
	length := int(binary.BigEndian.Uint16(b[posHelloLength:]))
	if length < helloSize || length > maxHelloSize || h.version <= helloVersion && length != helloSize || h.version == 0 {
		return h, fmt.Errorf("%w: greeting of version %d with %d bytes", ErrMalformed, h.version, length)
	}
	b = b[:length]
	if _, err := io.ReadFull(r, b[helloSize:]); err != nil {
		return h, fmt.Errorf("greeting: %w", err)
	}
	if crc32.Checksum(b[:length-4], castagnoli) != binary.BigEndian.Uint32(b[length-4:]) {
		return h, fmt.Errorf("%w: greeting: %w", ErrMalformed, ErrChecksum)
	}
	if h.version <= helloVersion && !allZero(b[posHelloReserved:posHelloProof]) {
		return h, fmt.Errorf("%w: greeting with reserved bytes that are not zero", ErrMalformed)
	}
	h.status = status(binary.BigEndian.Uint32(b[posHelloStatus:]))
	h.flags = binary.BigEndian.Uint32(b[posHelloFlags:])
	copy(h.storeID[:], b[posHelloStore:])
	h.a, h.b, h.c = int64(binary.BigEndian.Uint64(b[posHelloA:])), int64(binary.BigEndian.Uint64(b[posHelloB:])), int64(binary.BigEndian.Uint64(b[posHelloC:]))
	h.maxFrame = int32(binary.BigEndian.Uint32(b[posHelloMaxFrame:]))
	copy(h.proof[:], b[posHelloProof:])
	return h, nil
}

// helloFlags are those that a version knows.
func helloFlags(version uint16) uint32 {
	if version < 2 {
		return helloZstd | helloLastSegment
	}
	return helloZstd | helloLastSegment | helloQueues
}

func (h *hello) tail() (phyOffset int64, size int64, crc uint32) {
	return h.b, int64(int32(h.c >> 32)), uint32(h.c)
}

// proof is what side ("master", "slave") must send to show that it knows the token, on this connection and no other.
func proof(nc *tls.Conn, token, side string) (p [32]byte, err error) {
	state := nc.ConnectionState()
	key, err := state.ExportKeyingMaterial(exporterLabel, nil, 32)
	if err != nil {
		return p, fmt.Errorf("TLS exporter: %w", err)
	}
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte(side))
	mac.Write(key)
	return [32]byte(mac.Sum(nil)), nil
}

// greetExtended is the master's half. Until the token is proved the peer costs two goroutines, TLS's buffers and one greeting, for at most Extended.Handshake.
func (c *conn) greetExtended() error {
	e := c.m.o.Extended
	nc := tls.Server(c.raw, e.TLS)
	ctx, cancel := context.WithTimeout(context.Background(), e.Handshake)
	defer cancel()
	if err := nc.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("TLS handshake: %w", err)
	}
	if err := nc.SetDeadline(time.Now().Add(e.Handshake)); err != nil {
		return err
	}
	in, err := readHello(nc)
	if err != nil {
		return readError("greet the slave", err, e.Handshake)
	}
	mine, err := proof(nc, e.Token, "master")
	if err != nil {
		return err
	}
	theirs, err := proof(nc, e.Token, "slave")
	if err != nil {
		return err
	}
	out := hello{version: min(in.version, helloVersion)}
	if !hmac.Equal(in.proof[:], theirs[:]) { // constant time
		out.status = statusToken
		nc.Write(out.encode()) // whoever does not know the token learns nothing else
		return ErrToken
	}
	out.proof, out.storeID = mine, c.m.storeID.get()
	out.b, out.c = max(0, c.m.src.MinPhyOffset()), c.m.src.MaxPhyOffset()
	var queues []byte
	from, err := c.welcome(&in)
	if err == nil {
		queues, err = c.queues(&in, from)
	}
	if err != nil {
		out.status = statusOf(err)
		var p *PositionError
		if errors.As(err, &p) {
			out.a, out.b, out.c = p.PhyOffset, p.Min, p.Max
		}
		nc.Write(out.encode()) // the slave hears why; if not, the reason is still ours to report
		return err
	}
	out.a = from
	compress := e.Compress && in.flags&helloZstd != 0
	if compress {
		out.flags = helloZstd
	}
	if queues != nil {
		out.flags |= helloQueues
		if err := nc.SetDeadline(time.Now().Add(c.m.o.WriteTimeout)); err != nil {
			return err
		}
	}
	if _, err := nc.Write(append(out.encode(), queues...)); err != nil {
		return fmt.Errorf("greet the slave: %w", err)
	}
	c.nc = nc
	c.reports = new(extReports)
	c.wire, err = newExtSender(nc, min(c.m.o.WriteSize, int(in.maxFrame)), c.m.o.WriteTimeout, compress)
	c.greeted.from, c.greeted.slaveEnd = from, in.a
	return err
}

// welcome decides whether and from where a slave is served.
func (c *conn) welcome(in *hello) (from int64, err error) {
	storeID := c.m.storeID.get()
	tail, size, crc := in.tail()
	switch {
	case in.status != statusOK || in.maxFrame < 1 || in.flags&^helloFlags(in.version) != 0 && in.version <= helloVersion:
		return 0, fmt.Errorf("%w: greeting with status %d, flags %#x, frames of %d", ErrMalformed, in.status, in.flags, in.maxFrame)
	case in.a < 0 || tail < 0 || size < 0 || size > MaxTailSize || size > in.a-tail && size > 0:
		return 0, fmt.Errorf("%w: greeting with log end %d, last record at %d, of which %d bytes", ErrMalformed, in.a, tail, size)
	case in.storeID != storeID && in.storeID != [16]byte{} && storeID != [16]byte{}:
		return 0, fmt.Errorf("%w: the slave's is %x, the master's %x", ErrStoreID, in.storeID, storeID)
	case in.a == 0 && in.flags&helloLastSegment == 0:
		return max(0, c.m.src.MinPhyOffset()), nil
	}
	if from, err = c.first(in.a); err != nil {
		return 0, err
	}
	if size > 0 {
		err = c.sameBytes(tail, size, crc)
	}
	return from, err
}

// sameBytes compares the sum of size bytes of a slave's log at phyOffset with ours.
func (c *conn) sameBytes(phyOffset, size int64, want uint32) error {
	if phyOffset < c.m.src.MinPhyOffset() {
		return nil // deleted here: nothing to compare with
	}
	sum := uint32(0)
	for at, end := phyOffset, phyOffset+size; at < end; {
		p, release, err := c.m.src.Read(at, int(min(end-at, 1<<20)))
		if err != nil || len(p) == 0 {
			if release != nil {
				release()
			}
			return fmt.Errorf("compare the slave's last record at physical offset %d: %w: %v", phyOffset, errUnavailable, err)
		}
		sum = crc32.Update(sum, castagnoli, p)
		at += int64(len(p))
		release()
	}
	if sum != want {
		return c.impossible(ErrDiverged, phyOffset)
	}
	return nil
}

// greetExtended is the slave's half; it returns what the master agreed to.
func (s *Slave) greetExtended(ctx context.Context, nc *tls.Conn) (welcome hello, err error) {
	e := s.o.Extended
	if err := nc.HandshakeContext(ctx); err != nil {
		return hello{}, fmt.Errorf("TLS handshake: %w", err)
	}
	if err := nc.SetDeadline(time.Now().Add(e.Handshake)); err != nil {
		return hello{}, err
	}
	out := hello{version: helloVersion, storeID: s.storeID.get(), a: s.target.MaxPhyOffset(), maxFrame: int32(s.o.MaxFrame)}
	if e.Compress {
		out.flags |= helloZstd
	}
	if e.ResyncFrom == LastSegment {
		out.flags |= helloLastSegment
	}
	if s.o.Queues != nil && s.o.Queues.Wanted() {
		out.flags |= helloQueues
	}
	if out.a > 0 {
		tail, size, crc := s.target.Tail()
		out.b, out.c = tail, int64(size)<<32|int64(crc)
	}
	if out.proof, err = proof(nc, e.Token, "slave"); err != nil {
		return hello{}, err
	}
	theirs, err := proof(nc, e.Token, "master")
	if err != nil {
		return hello{}, err
	}
	if _, err := nc.Write(out.encode()); err != nil {
		return hello{}, fmt.Errorf("greet the master: %w", err)
	}
	in, err := readHello(nc)
	if err != nil {
		return hello{}, readError("greet the master", err, e.Handshake)
	}
	if in.status == statusToken {
		return hello{}, ErrToken
	}
	if !hmac.Equal(in.proof[:], theirs[:]) { // constant time
		return hello{}, fmt.Errorf("the master does not know the token: %w", ErrToken)
	}
	return in, s.accept(&out, &in)
}

// accept checks a master's welcome.
func (s *Slave) accept(out, in *hello) error {
	switch reason := statusReasons[in.status]; in.status {
	case statusOK:
	case statusAhead, statusDeleted, statusDiverged:
		return &PositionError{Reason: reason, PhyOffset: in.a, Min: in.b, Max: in.c}
	default:
		if reason == nil {
			reason = fmt.Errorf("%w: greeting with status %d", ErrMalformed, in.status)
		}
		return fmt.Errorf("the master refuses: %w", reason)
	}
	switch {
	case in.version < 1 || in.version > helloVersion:
		return fmt.Errorf("%w: the master answers with version %d", ErrVersion, in.version)
	case in.storeID != out.storeID && in.storeID != [16]byte{} && out.storeID != [16]byte{}:
		return fmt.Errorf("%w: the slave's is %x, the master's %x", ErrStoreID, out.storeID, in.storeID)
	case in.flags&^out.flags&helloZstd != 0:
		return fmt.Errorf("%w: the master compresses, which was not offered", ErrMalformed)
	case in.flags&^out.flags&helloQueues != 0 || in.flags&helloQueues != 0 && in.version < 2:
		return fmt.Errorf("%w: the master tells of queues, which was not asked for", ErrMalformed)
	case out.a != 0 && in.a != out.a:
		return &OffsetMismatchError{Want: out.a, Got: in.a}
	}
	return nil
}
