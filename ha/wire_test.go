package ha

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

// trickle returns the reader's bytes in reads whose sizes the pattern decides.
type trickle struct {
	b       []byte
	pattern []byte
	n       int
}

func (r *trickle) Read(p []byte) (int, error) {
	if len(r.b) == 0 {
		return 0, io.EOF
	}
	k := min(len(p), len(r.b))
	if len(r.pattern) > 0 {
		k = min(k, 1+int(r.pattern[r.n%len(r.pattern)]))
		r.n++
	}
	copy(p, r.b[:k])
	r.b = r.b[k:]
	return k, nil
}

func FuzzFrames(f *testing.F) {
	h := make([]byte, frameHeaderSize)
	putFrameHeader(h, 65536, 0)
	f.Add(h, []byte{3})
	putFrameHeader(h, 65536, 5)
	f.Add(append(append([]byte{}, h...), "hello and more"...), []byte{0})
	putFrameHeader(h, 1, -1)
	f.Add(h, []byte{})
	f.Fuzz(func(t *testing.T, in, pattern []byte) {
		const maxBody = 1000
		d := newFrames(&trickle{b: in, pattern: pattern}, 64, maxBody)
		var out []byte
		at := 0 // of the current frame's header in out
		for {
			p, err := d.next()
			if err != nil {
				if !bytes.HasPrefix(in, out) {
					t.Fatalf("decoded bytes encode to others")
				}
				if err == io.EOF && len(in)-len(out) >= frameHeaderSize && d.rest == 0 {
					t.Fatalf("%d bytes are left", len(in)-len(out))
				}
				return
			}
			if p.first {
				at = len(out)
				out = append(out, make([]byte, frameHeaderSize)...)
				putFrameHeader(out[at:], p.phyOffset, len(p.body)+d.rest)
			}
			if p.heartbeat != (p.first && p.last && len(p.body) == 0) || p.last != (d.rest == 0) || len(p.body) > maxBody {
				t.Fatalf("%+v", p)
			}
			out = append(out, p.body...)
		}
	})
}

// However reads cut the stream, the last complete value of each read counts.
func FuzzReports(f *testing.F) {
	f.Add(append(report(65536), report(70000)...), []byte{2, 9})
	f.Add([]byte{1, 2, 3}, []byte{})
	f.Fuzz(func(t *testing.T, in, pattern []byte) {
		r := &trickle{b: in, pattern: pattern}
		var d reports
		buf := make([]byte, 100)
		read := 0
		for {
			n, err := r.Read(buf)
			if err != nil {
				return
			}
			before := read / reportSize
			read += n
			v, ok := d.feed(buf[:n])
			if whole := read / reportSize; ok != (whole > before) || ok && !bytes.Equal(report(v), in[(whole-1)*reportSize:whole*reportSize]) {
				t.Fatalf("after %d bytes: %d, %v", read, v, ok)
			}
		}
	})
}

func FuzzExtendedFrames(f *testing.F) {
	for _, compress := range []bool{false, true} {
		var out bytes.Buffer
		s, err := newExtSender(&writeConn{w: &out}, 500, 1, compress)
		if err != nil {
			f.Fatal(err)
		}
		s.heartbeat(7)
		s.send(7, bytes.Repeat([]byte("abc"), 300))
		s.send(907, randomBytes(1, 20))
		f.Add(out.Bytes(), []byte{100})
		f.Add(out.Bytes()[:out.Len()-1], []byte{})
	}
	f.Fuzz(func(t *testing.T, in, pattern []byte) {
		const maxBody = 1000
		d, err := newExtFrames(&trickle{b: in, pattern: pattern}, 64, maxBody, true)
		if err != nil {
			t.Fatal(err)
		}
		defer d.close()
		for {
			p, err := d.next()
			if err != nil {
				return
			}
			if !p.first || !p.last || p.heartbeat != (len(p.body) == 0) || len(p.body) > maxBody || p.phyOffset < 0 {
				t.Fatalf("%+v", p)
			}
			if len(d.buf) > maxBody+extHeaderSize+64 {
				t.Fatalf("the buffer has %d bytes", len(d.buf))
			}
		}
	})
}

func FuzzExtendedReports(f *testing.F) {
	b := make([]byte, extReportSize)
	putExtReport(b, 65536)
	f.Add(b)
	f.Add(append(b, b[:3]...))
	f.Fuzz(func(t *testing.T, in []byte) {
		var r extReports
		v, ok, err := r.take(in)
		if ok && err == nil {
			whole := len(in) / extReportSize
			putExtReport(b, v)
			if !bytes.Equal(b, in[(whole-1)*extReportSize:whole*extReportSize]) {
				t.Fatalf("%d encodes to other bytes", v)
			}
		}
	})
}

func FuzzHello(f *testing.F) {
	h := hello{version: helloVersion, flags: helloZstd, a: 5, b: 3, c: 2<<32 | 77, maxFrame: 1000}
	f.Add(h.encode())
	f.Add(h.encode()[:50])
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) >= helloSize {
			n := min(len(in), max(helloSize, int(in[posHelloLength])<<8|int(in[posHelloLength+1])))
			in = seal(bytes.Clone(in[:n])) // else nothing would come past the checksum
		}
		h, err := readHello(bytes.NewReader(in))
		if err != nil {
			return
		}
		if out := h.encode(); h.version <= helloVersion && !bytes.Equal(out, in[:helloSize]) {
			t.Fatalf("decodes to %+v, which encodes to other bytes", h)
		}
	})
}

// Any changed or missing byte of an extended frame or report is found.
func TestEveryFlippedByteOfAnExtendedFrameIsFound(t *testing.T) {
	for _, compress := range []bool{false, true} {
		var out bytes.Buffer
		s, err := newExtSender(&writeConn{w: &out}, 4096, 1, compress)
		if err != nil {
			t.Fatal(err)
		}
		body := bytes.Repeat([]byte("0123456789"), 20)
		s.send(1<<40, body)
		read := func(b []byte) (piece, error) {
			d, err := newExtFrames(iotest.OneByteReader(bytes.NewReader(b)), 64, 4096, compress)
			if err != nil {
				t.Fatal(err)
			}
			defer d.close()
			return d.next()
		}
		if p, err := read(out.Bytes()); err != nil || p.phyOffset != 1<<40 || !bytes.Equal(p.body, body) {
			t.Fatalf("%+v, %v", p, err)
		}
		if compress == (out.Len() > len(body)) {
			t.Errorf("%d bytes on the wire", out.Len())
		}
		for i := range out.Len() {
			b := bytes.Clone(out.Bytes())
			b[i] ^= 1
			if _, err := read(b); err == nil {
				t.Errorf("byte %d is flipped", i)
			}
			if _, err := read(b[:i]); !errors.Is(err, io.EOF) {
				t.Errorf("cut at %d: %v", i, err)
			}
		}
	}
	b := make([]byte, extReportSize)
	putExtReport(b, 12345)
	for i := range b {
		b[i] ^= 1
		if _, err := parseExtReport(b); !errors.Is(err, ErrMalformed) {
			t.Errorf("report's byte %d is flipped: %v", i, err)
		}
		b[i] ^= 1
	}
}

// A length is checked before anything is allocated by it.
func TestLengthsAreCheckedBeforeUse(t *testing.T) {
	h := make([]byte, extHeaderSize)
	for _, n := range []int{-1, 1001, 1 << 30} {
		putFrameHeader(h, 5, n)
		var size *FrameSizeError
		if _, _, err := parseFrameHeader(h, 1000); !errors.As(err, &size) || size.Size != int64(n) || !errors.Is(err, ErrMalformed) {
			t.Errorf("%d: %v", n, err)
		}
		for _, e := range []extHeader{{length: n, body: 5}, {length: 5, body: n}, {length: 5, body: n, zstd: true}} {
			putExtHeader(h, e, nil)
			if _, err := parseExtHeader(h, 1000); !errors.As(err, &size) {
				t.Errorf("%+v: %v", e, err)
			}
		}
	}
}
