package record_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"

	"github.com/mqstore/mqstore/commitlog/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var codecs = []record.Compression{record.CompressionLZ4, record.CompressionZstd, record.CompressionZlib}

func random(n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func TestCompressionFollowsTheSystemFlag(t *testing.T) {
	for _, tt := range []struct {
		flag record.SysFlag
		want record.Compression
	}{
		{0, record.CompressionNone}, {0x700, record.CompressionNone}, {0x1, record.CompressionZlib}, {0x101, record.CompressionLZ4}, {0x201, record.CompressionZstd}, {0x301, record.CompressionZlib}, {0x401, 4}, {0x701, 7}, {-1, 7},
	} {
		if got := tt.flag.Compression(); got != tt.want {
			t.Errorf("%#x: %v, want %v", uint32(tt.flag), got, tt.want)
		}
	}
	for _, c := range append(codecs, record.CompressionNone) {
		for _, f := range []record.SysFlag{0, 0x3F, 0x701, 0xF3} {
			g := f.WithCompression(c)
			if g.Compression() != c || g&^0x701 != f&^0x701 {
				t.Errorf("%#x with %v: %#x", f, c, g)
			}
		}
	}
	m := &record.Message{Body: []byte("stored")}
	if got, err := m.DecodedBody(1); string(got) != "stored" || err != nil {
		t.Errorf("not compressed: %q, %v", got, err)
	}
	m.SysFlag = 0x501
	if _, err := m.DecodedBody(1); !errors.Is(err, record.ErrBody) || !strings.Contains(err.Error(), "compression(5)") {
		t.Errorf("unknown codec: %v", err)
	}
}

func TestBodiesComeBack(t *testing.T) {
	bodies := map[string][]byte{"empty": {}, "one": {7}, "text": bytes.Repeat([]byte("some text, "), 1000), "random": random(100_000), "zeros": make([]byte, 3<<20)}
	for _, c := range codecs {
		for name, body := range bodies {
			for _, level := range []int{0, 1, 5, 9} {
				t.Run(fmt.Sprintf("%s/%s/level=%d", c, name, level), func(t *testing.T) {
					z, err := record.CompressBody(c, level, body)
					if err != nil {
						t.Fatal(err)
					}
					for range 2 { // the second time from the pool
						got, err := record.DecompressBody(c, z, 0)
						if err != nil || !bytes.Equal(got, body) {
							t.Fatalf("%d bytes back of %d, %v", len(got), len(body), err)
						}
						m := record.Message{SysFlag: record.SysFlag(0).WithCompression(c), Body: z}
						if got, err := m.DecodedBody(max(1, len(body))); err != nil || !bytes.Equal(got, body) {
							t.Fatalf("%d bytes back of %d with just that bound, %v", len(got), len(body), err)
						}
					}
				})
			}
		}
	}
	if _, err := record.CompressBody(record.CompressionZlib, 10, nil); !errors.Is(err, record.ErrBody) {
		t.Errorf("level 10: %v", err)
	}
	if _, err := record.CompressBody(9, 0, nil); !errors.Is(err, record.ErrBody) {
		t.Errorf("codec 9: %v", err)
	}
	if z, err := record.CompressBody(record.CompressionNone, 0, []byte("x")); string(z) != "x" || err != nil {
		t.Errorf("no codec: %q, %v", z, err)
	}
}

func TestDecompressedSizeIsBounded(t *testing.T) {
	for _, c := range codecs {
		for _, n := range []int{1, 100, 4095, 4096, 4097, 100_000} {
			z, err := record.CompressBody(c, 0, make([]byte, n))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := record.DecompressBody(c, z, n); err != nil || len(got) != n || cap(got) > n+n/4+64 {
				t.Errorf("%v: %d bytes (capacity %d) of %d within the bound, %v", c, len(got), cap(got), n, err)
			}
			if n == 1 {
				continue
			}
			_, err = record.DecompressBody(c, z, n-1)
			if !errors.Is(err, record.ErrBody) || !strings.Contains(err.Error(), fmt.Sprintf("more than %d", n-1)) {
				t.Errorf("%v: %d bytes with a bound of %d: %v", c, n, n-1, err)
			}
		}
		z, err := record.CompressBody(c, 0, make([]byte, record.DefaultMaxDecodedSize+1))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := record.DecompressBody(c, z, 0); !errors.Is(err, record.ErrBody) || !strings.Contains(err.Error(), "more than 4194304") {
			t.Errorf("%v beyond the default bound: %v", c, err)
		}
	}
}

// A bomb costs no more than the bound and the codecs' own buffers.
func TestBombAllocatesWithinTheBound(t *testing.T) {
	const bound = 64 << 10
	const pooled = 10 << 20
	for _, c := range codecs {
		z, err := record.CompressBody(c, 0, make([]byte, 32<<20))
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = record.DecompressBody(c, z, bound)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, record.ErrBody) {
			t.Errorf("%v: %v", c, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 3*bound+pooled {
			t.Errorf("%v: %d bytes allocated for a bound of %d", c, n, bound)
		}
	}
}

// RocketMQ's producers write zstd as a stream: no content size in the frame, and a window larger than any bound that a reader may set.
func TestZstdWindowMayExceedTheBound(t *testing.T) {
	var z bytes.Buffer
	w, err := zstd.NewWriter(&z, zstd.WithWindowSize(8<<20), zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	body := bytes.Repeat([]byte("text "), 2000)
	if _, err := w.Write(body[:3]); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(body[3:]); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := record.DecompressBody(record.CompressionZstd, z.Bytes(), len(body)); err != nil || !bytes.Equal(got, body) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestDamagedBodiesAreErrors(t *testing.T) {
	for _, c := range codecs {
		z, err := record.CompressBody(c, 0, bytes.Repeat([]byte("some text, "), 100))
		if err != nil {
			t.Fatal(err)
		}
		for n := range z {
			if _, err := record.DecompressBody(c, z[:n], 0); !errors.Is(err, record.ErrBody) {
				t.Errorf("%v: first %d of %d bytes: %v", c, n, len(z), err)
			}
		}
		if _, err := record.DecompressBody(c, []byte("not compressed at all"), 0); !errors.Is(err, record.ErrBody) {
			t.Errorf("%v: %v", c, err)
		}
		if got, err := record.DecompressBody(c, z, 0); err != nil || len(got) != 1100 {
			t.Errorf("%v: after the errors: %d bytes, %v", c, len(got), err)
		}
	}
}

func TestCodecsAreSafeForConcurrentUse(t *testing.T) {
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			body := bytes.Repeat([]byte{byte(i), 1, 2}, 2000+i)
			for range 20 {
				for _, c := range codecs {
					z, err := record.CompressBody(c, 0, body)
					if err != nil {
						t.Error(err)
						return
					}
					if got, err := record.DecompressBody(c, z, 0); err != nil || !bytes.Equal(got, body) {
						t.Errorf("%v: %d bytes, %v", c, len(got), err)
					}
				}
			}
		})
	}
	wg.Wait()
}
