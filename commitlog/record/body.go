package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Compression is how a body is compressed. The values are those of the system flag's type bits; 0 there means zlib.
type Compression uint8

const (
	CompressionNone Compression = iota
	CompressionLZ4              // LZ4 frames
	CompressionZstd
	CompressionZlib
)

func (c Compression) String() string {
	switch c {
	case CompressionNone:
		return "none"
	case CompressionLZ4:
		return "lz4"
	case CompressionZstd:
		return "zstd"
	case CompressionZlib:
		return "zlib"
	}
	return "compression(" + strconv.Itoa(int(c)) + ")"
}

// DefaultMaxDecodedSize bounds a decompressed body where the caller names no bound: what producers accept by default, before they compress.
const DefaultMaxDecodedSize = DefaultMaxMessageSize

const (
	firstDecodeBuffer = 4 << 10 // what decompressing starts with at least, if the bound allows
	lz4FrameMagic     = "\x04\x22\x4D\x18"
)

// CompressBody compresses a body; CompressionNone returns it as it is. level 0 is the codec's default; else 1 (fast) to 9 (small), for zstd to 22. Safe for concurrent use. The error wraps ErrBody.
func CompressBody(c Compression, level int, body []byte) ([]byte, error) {
	most := 9
	if c == CompressionZstd {
		most = 22
	}
	if level < 0 || level > most {
		return nil, fmt.Errorf("%w: %s has no level %d, want 0 (default) to %d", ErrBody, c, level, most)
	}
	var out []byte
	var err error
	switch c {
	case CompressionNone:
		return body, nil
	case CompressionZlib:
		out, err = deflate(level, body)
	case CompressionLZ4:
		out, err = lz4Frame(level, body)
	case CompressionZstd:
		out, err = zstdFrame(level, body)
	default:
		return nil, fmt.Errorf("%w: unknown %s", ErrBody, c)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: compress %d bytes with %s: %w", ErrBody, len(body), c, err)
	}
	return out, nil
}

// DecompressBody is the inverse of CompressBody, for bytes that may be hostile: a body that decodes to more than maxSize bytes (0: DefaultMaxDecodedSize) is an error, whatever it claims, and what is allocated for it grows with what it really decodes to, up to
// that bound (the codecs' pooled buffers, at most a few MiB each, apart). CompressionNone returns body itself, whatever its size. What follows the compressed data is ignored by zlib and LZ4, as in the original. Safe for concurrent use. The error wraps ErrBody.
func DecompressBody(c Compression, body []byte, maxSize int) ([]byte, error) {
	if maxSize <= 0 {
		maxSize = DefaultMaxDecodedSize
	}
	var out []byte
	var err error
	switch c {
	case CompressionNone:
		return body, nil
	case CompressionZlib:
		out, err = inflate(body, maxSize)
	case CompressionLZ4:
		out, err = lz4Unframe(body, maxSize)
	case CompressionZstd:
		out, err = zstdUnframe(body, maxSize)
	default:
		return nil, fmt.Errorf("%w: unknown %s", ErrBody, c)
	}
	if err == errTooBig {
		return nil, fmt.Errorf("%w: %d bytes of %s decode to more than %d", ErrBody, len(body), c, maxSize)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: decompress %d bytes of %s: %w", ErrBody, len(body), c, err)
	}
	return out, nil
}

var errTooBig = errors.New("decodes to too much")

// readBounded reads all of r, at most maxSize bytes, into a buffer that starts near hint and only grows as bytes really come.
func readBounded(r io.Reader, hint, maxSize int) ([]byte, error) {
	out := make([]byte, 0, min(max(hint, firstDecodeBuffer), maxSize))
	for {
		if len(out) == cap(out) {
			if len(out) == maxSize {
				// Full: one byte more is one too many.
				var one [1]byte
				switch n, err := io.ReadFull(r, one[:]); {
				case n > 0:
					return nil, errTooBig
				case err == io.EOF:
					return out, nil
				default:
					return nil, err
				}
			}
			grown := make([]byte, len(out), min(2*cap(out), maxSize))
			copy(grown, out)
			out = grown
		}
		n, err := r.Read(out[len(out):cap(out)])
		out = out[:len(out)+n]
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// hint guesses what size bytes decode to.
func hint(size int) int { return 4 * min(size, 1<<28) }

// inflater is a zlib reader and the bytes it reads, pooled together.
type inflater struct {
	in bytes.Reader
	z  io.ReadCloser // nil before the first use: zlib readers are made on a valid header
}

var inflaters = sync.Pool{New: func() any { return new(inflater) }}

func inflate(body []byte, maxSize int) ([]byte, error) {
	f := inflaters.Get().(*inflater)
	defer func() {
		f.in.Reset(nil)
		inflaters.Put(f)
	}()
	f.in.Reset(body)
	var err error
	if f.z == nil {
		f.z, err = zlib.NewReader(&f.in)
	} else {
		err = f.z.(zlib.Resetter).Reset(&f.in, nil)
	}
	if err != nil {
		return nil, eofIsShort(err)
	}
	return readBounded(f.z, hint(len(body)), maxSize)
}

// eofIsShort: an EOF in a header is data that ends too early, not the end of data.
func eofIsShort(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

var deflaters [10]sync.Pool // by level

func deflate(level int, body []byte) ([]byte, error) {
	var out bytes.Buffer
	w, _ := deflaters[level].Get().(*zlib.Writer)
	if w == nil {
		l := level
		if l == 0 {
			l = zlib.DefaultCompression
		}
		var err error
		if w, err = zlib.NewWriterLevel(&out, l); err != nil {
			return nil, err
		}
	} else {
		w.Reset(&out)
	}
	defer func() {
		w.Reset(io.Discard) // so that the pool does not keep out
		deflaters[level].Put(w)
	}()
	if _, err := w.Write(body); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// unframer is an LZ4 reader and the bytes it reads.
type unframer struct {
	in bytes.Reader
	z  *lz4.Reader
}

var unframers = sync.Pool{New: func() any {
	u := new(unframer)
	u.z = lz4.NewReader(&u.in)
	return u
}}

func lz4Unframe(body []byte, maxSize int) ([]byte, error) {
	// The reader would also take the older format that RocketMQ never wrote.
	if !bytes.HasPrefix(body, []byte(lz4FrameMagic)) {
		return nil, errors.New("no LZ4 frame")
	}
	u := unframers.Get().(*unframer)
	defer func() {
		u.in.Reset(nil)
		unframers.Put(u)
	}()
	u.in.Reset(body)
	u.z.Reset(&u.in)
	if err := u.z.Apply(lz4.ConcurrencyOption(1)); err != nil {
		return nil, err
	}
	return readBounded(u.z, hint(len(body)), maxSize)
}

var lz4Levels = [...]lz4.CompressionLevel{lz4.Fast, lz4.Level1, lz4.Level2, lz4.Level3, lz4.Level4, lz4.Level5, lz4.Level6, lz4.Level7, lz4.Level8, lz4.Level9}

var framers = sync.Pool{New: func() any { return lz4.NewWriter(io.Discard) }}

func lz4Frame(level int, body []byte) ([]byte, error) {
	size := lz4.Block4Mb
	for _, s := range []lz4.BlockSize{lz4.Block1Mb, lz4.Block256Kb, lz4.Block64Kb} {
		if len(body) <= int(s) {
			size = s
		}
	}
	var out bytes.Buffer
	w := framers.Get().(*lz4.Writer)
	defer func() {
		w.Reset(io.Discard) // so that the pool does not keep out
		framers.Put(w)
	}()
	w.Reset(&out)
	if err := w.Apply(lz4.ConcurrencyOption(1), lz4.BlockSizeOption(size), lz4.CompressionLevelOption(lz4Levels[level])); err != nil {
		return nil, err
	}
	if _, err := w.Write(body); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// zstdDecoder decodes whole buffers, several at a time, and keeps no window: history is the output itself. How much it may put out is the capacity of what it is given.
var zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true), zstd.WithDecodeAllCapLimit(true))
})

const (
	zstdSlack     = 128<<10 + 16 // more than one block decodes to
	keptZstdSpace = 1 << 20
)

var zstdSpaces = sync.Pool{New: func() any {
	b := make([]byte, 0, 2*zstdSlack)
	return &b
}}

// zstdUnframe decodes into a space with room for one block more than is allowed. The decoder has no error of its own for a space that is too small, but when it runs out of one it has put out more than is allowed: what is missing is less than that block.
func zstdUnframe(body []byte, maxSize int) ([]byte, error) {
	d, err := zstdDecoder()
	if err != nil {
		return nil, err
	}
	if len(body) == 0 {
		return nil, io.ErrUnexpectedEOF
	}
	kept := zstdSpaces.Get().(*[]byte)
	defer zstdSpaces.Put(kept)
	space := *kept
	for {
		size := min(cap(space)-zstdSlack, maxSize)
		out, err := d.DecodeAll(body, space[:0:size+zstdSlack])
		switch {
		case len(out) <= size && err == nil:
			return bytes.Clone(out), nil
		case len(out) <= size && !errors.Is(err, zstd.ErrDecoderSizeExceeded): // that one tells of a size that the frame claims
			return nil, err
		case size == maxSize:
			return nil, errTooBig
		}
		space = make([]byte, 0, min(4*size, maxSize)+zstdSlack)
		if cap(space) <= keptZstdSpace {
			*kept = space
		}
	}
}

var zstdEncoders [5]struct { // by zstd.EncoderLevel
	once sync.Once
	enc  *zstd.Encoder
	err  error
}

func zstdFrame(level int, body []byte) ([]byte, error) {
	l := zstd.SpeedDefault
	if level > 0 {
		l = zstd.EncoderLevelFromZstd(level)
	}
	e := &zstdEncoders[l]
	e.once.Do(func() { e.enc, e.err = zstd.NewWriter(nil, zstd.WithEncoderLevel(l), zstd.WithEncoderConcurrency(0)) })
	if e.err != nil {
		return nil, e.err
	}
	return e.enc.EncodeAll(body, nil), nil
}
