package repair

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"runtime"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/mqstore/mqstore/commitlog/record"
)

const (
	// maxArchivedFields bounds a line without its body: properties of 32 KiB, each byte of which may be written as six, and the rest.
	maxArchivedFields = 512 << 10
	// maxArchivedLine is the longest line of a record: its body as base64, and the other fields.
	maxArchivedLine = maxArchived/3*4 + maxArchivedFields
	// maxArchivedEdge bounds the first line and the last.
	maxArchivedEdge = 64 << 10

	batchLines = 256 << 10 // bytes of lines that are parsed at a time
	longLine   = 2 << 20   // what is longer is parsed alone, in memory of its own
)

// archiveReader reads the lines and believes none of them. One goroutine decompresses, and checks where lines end; others parse them; its caller is given
// their records in order. Memory is some batches, and one line of the longest kind.
type archiveReader struct {
	z    *zstd.Decoder // nil: the text is not compressed
	head archiveHeader
	tail *archiveTrailer // once it was read and right

	text                lines
	sum                 uint32 // of all lines so far
	longText, longBytes []byte // for a batch with a long line

	ready chan *archiveBatch // in the archive's order, filled, perhaps still being parsed
	free  chan *archiveBatch
	work  chan *archiveBatch
	done  chan struct{} // closed when nobody reads any more
	wait  sync.WaitGroup

	// What read knows.
	batch *archiveBatch // nil: between two
	next  int           // its record
	line  int64         // of the record that it gave last
	count int64
	bytes int64
}

// archiveBatch is some lines that follow one another, and their records.
type archiveBatch struct {
	first int64 // number of the first line
	text  []byte
	ends  []int // of lines in text
	long  bool  // text and bytes are the reader's one pair for long lines

	bytes   []byte // the records, one behind the other
	records []archivedPlace
	parsed  chan struct{} // has one when the records are there

	// What comes behind these records: nothing yet, the trailer, or what is wrong.
	trailer []byte
	crc     uint32 // of all lines before the trailer
	behind  error  // of looking for what follows the trailer: io.EOF is right
	err     error
}

// archivedPlace is what a record says of its place, and where it ends among its batch's bytes.
type archivedPlace struct {
	end                                    int
	phyOffset, queueOffset, storeTimestamp int64
}

func openArchive(r io.Reader) (*archiveReader, error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(min(runtime.GOMAXPROCS(0), 4)), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(32<<20), zstd.WithDecoderMaxMemory(1<<40))
	if err != nil {
		return nil, err
	}
	a, err := openLines(z)
	if err != nil {
		z.Close()
		return nil, err
	}
	a.z = z
	return a, nil
}

// openLines reads the text of an archive. Close the reader.
func openLines(r io.Reader) (*archiveReader, error) {
	a := &archiveReader{text: lines{r: bufio.NewReaderSize(r, 256<<10)}}
	if err := a.readHeader(); err != nil {
		return nil, err
	}
	parsers := min(runtime.GOMAXPROCS(0), 4)
	batches := parsers + 2 // one is filled, one is read
	a.ready, a.free, a.work = make(chan *archiveBatch, batches), make(chan *archiveBatch, batches), make(chan *archiveBatch, batches)
	a.done = make(chan struct{})
	for range batches {
		a.free <- &archiveBatch{parsed: make(chan struct{}, 1)}
	}
	a.wait.Go(a.fill)
	for range parsers {
		a.wait.Go(a.parse)
	}
	return a, nil
}

// close ends the goroutines; the archive's own reader is not closed, and a read of it that has begun is waited for.
func (a *archiveReader) close() {
	close(a.done)
	a.wait.Wait()
	if a.z != nil {
		a.z.Close()
	}
}

func archiveErrorf(line int64, format string, args ...any) error {
	return &ArchiveError{max(line, 1), fmt.Errorf("%w: "+format, append([]any{ErrArchive}, args...)...)}
}

// fail is an error of the record that was read last.
func (a *archiveReader) fail(format string, args ...any) error {
	return archiveErrorf(a.line, format, args...)
}

// lines reads lines of a length that is bounded.
type lines struct {
	r *bufio.Reader
	n int64 // read, or begun
}

var errUnread = errors.New("the reader was closed")

// next appends a line to b, its newline included. grow gives b the room for n more bytes, or nil to end the reading; nil: as append does. io.EOF between two lines.
func (l *lines) next(b []byte, most int, grow func(b []byte, n int) []byte) ([]byte, error) {
	from := len(b)
	l.n++
	for {
		part, err := l.r.ReadSlice('\n')
		if len(b)-from+len(part) > most {
			return b[:from], archiveErrorf(l.n, "the line is longer than any can be, %d bytes: this is damage, or was not made by mqstore export; nothing behind it can be trusted: make the archive anew", most)
		}
		if grow != nil && len(b)+len(part) > cap(b) {
			more := grow(b, len(part))
			if more == nil {
				return b[:from], errUnread
			}
			b = more
		}
		b = append(b, part...)
		switch {
		case err == nil:
			return b, nil
		case err == bufio.ErrBufferFull:
		case err == io.EOF && len(b) == from:
			return b, io.EOF
		case err == io.EOF, errors.Is(err, io.ErrUnexpectedEOF):
			return b[:from], archiveErrorf(l.n, "it ends within the line: it was cut")
		default:
			return b[:from], &ArchiveError{l.n, fmt.Errorf("decompress: %w", err)}
		}
	}
}

func (a *archiveReader) readHeader() error {
	line, err := a.text.next(nil, maxArchivedEdge, nil)
	switch {
	case err == io.EOF:
		return archiveErrorf(1, "it is empty")
	case errors.Is(err, zstd.ErrMagicMismatch):
		return archiveErrorf(1, "it is not compressed with zstd")
	case err != nil:
		return err
	}
	if err := strict(line, &a.head); err != nil {
		return archiveErrorf(1, "header: %v", err)
	}
	h := &a.head
	switch {
	case h.Archive != archiveName:
		return archiveErrorf(1, "its header does not say so: mqstore export writes one that begins with {\"archive\":%q", archiveName)
	case h.Version != archiveVersion:
		return archiveErrorf(1, "version %d; this mqstore reads version %d", h.Version, archiveVersion)
	case h.SegmentSize != 0 && (h.SegmentSize < minSegment || h.SegmentSize > maxSegment):
		return archiveErrorf(1, "segments of %d bytes; %d to %d are possible", h.SegmentSize, minSegment, maxSegment)
	}
	a.sum = crc32.Update(a.sum, castagnoli, line)
	return nil
}

const (
	minSegment = 256 // as commitlog's
	maxSegment = 1<<31 - 1
)

// fill reads batches until the archive's end, or what is wrong with it.
func (a *archiveReader) fill() {
	defer close(a.work)
	defer close(a.ready)
	for {
		b := a.take()
		if b == nil {
			return
		}
		a.fillBatch(b)
		last := b.err != nil || b.trailer != nil
		a.ready <- b // has room for all there are
		a.work <- b
		if last {
			return
		}
	}
}

// take is a batch that nobody uses; nil: nobody will read it.
func (a *archiveReader) take() *archiveBatch {
	select {
	case <-a.done:
		return nil
	case b := <-a.free:
		if b.long {
			a.longText, a.longBytes = b.text, b.bytes
			b.text, b.bytes, b.long = nil, nil, false
		}
		return b
	}
}

func (a *archiveReader) fillBatch(b *archiveBatch) {
	b.first, b.text, b.ends, b.trailer, b.behind, b.err = a.text.n+1, b.text[:0], b.ends[:0], nil, nil, nil
	if cap(b.text) < batchLines {
		b.text = make([]byte, 0, batchLines+batchLines/4)
	}
	grow := func(text []byte, n int) []byte { return a.room(b, text, n) }
	for len(b.text) < batchLines {
		from := len(b.text)
		text, err := a.text.next(b.text, maxArchivedLine, grow)
		b.text = text
		if err == io.EOF {
			err = archiveErrorf(a.text.n, "it ends without its trailer: it was cut")
		}
		if err != nil {
			b.err = err
			return
		}
		if line := text[from:]; bytes.HasPrefix(line, []byte(`{"end":`)) {
			b.text, b.trailer, b.crc = text[:from], line, a.sum
			if _, b.behind = a.text.next(nil, maxArchivedEdge, nil); b.behind == nil {
				b.behind = archiveErrorf(a.text.n, "something follows the trailer")
			}
			return
		}
		a.sum = crc32.Update(a.sum, castagnoli, text[from:])
		b.ends = append(b.ends, len(text))
	}
}

// room is text with room for n more bytes; nil: nobody will read it. A batch with a long line waits until all before it are read, and gets the one pair of buffers for such.
func (a *archiveReader) room(b *archiveBatch, text []byte, n int) []byte {
	need := len(text) + n
	if !b.long && need > longLine {
		others := make([]*archiveBatch, 0, cap(a.free))
		for len(others) < cap(a.free)-1 {
			o := a.take()
			if o == nil {
				return nil
			}
			others = append(others, o)
		}
		for _, o := range others {
			a.free <- o
		}
		b.long, b.bytes = true, a.longBytes
		a.longBytes = nil
		if cap(a.longText) >= need {
			return append(a.longText[:0], text...)
		}
	}
	const most = maxArchivedLine + batchLines
	return append(make([]byte, 0, max(need, min(2*need, most))), text...)
}

// parse makes records of batches.
func (a *archiveReader) parse() {
	for b := range a.work {
		b.make()
		b.parsed <- struct{}{}
	}
}

// make makes the records of the batch's lines, up to one that is none.
func (b *archiveBatch) make() {
	b.bytes, b.records = b.bytes[:0], b.records[:0]
	from := 0
	var r archiveRecord
	for i, end := range b.ends {
		err := r.decode(b.text[from:end])
		if err == nil {
			from = end
			err = b.add(&r)
		}
		if err != nil {
			b.err, b.trailer = archiveErrorf(b.first+int64(i), "record: %w", err), nil
			return
		}
	}
}

// add appends the record's bytes.
func (b *archiveBatch) add(r *archiveRecord) error {
	m, err := r.message()
	if err != nil {
		return err
	}
	l := record.Limits{MaxMessageSize: maxArchived, AllowV2: true}
	size, err := m.EncodedSize(l)
	switch {
	case err != nil:
		return err
	case size > maxArchived:
		return fmt.Errorf("its %d bytes are more than a record of an archive has, %d", size, maxArchived)
	case size != r.Size:
		return fmt.Errorf("it says that its size is %d, its fields make %d", r.Size, size)
	}
	b.bytes = slices.Grow(b.bytes, size)
	if b.bytes, err = record.AppendRecord(b.bytes, m, l); err != nil {
		return err
	}
	if m.BodyCRC != r.BodyCRC {
		return fmt.Errorf("it says that its body's CRC is %d, its body makes %d", r.BodyCRC, m.BodyCRC)
	}
	b.records = append(b.records, archivedPlace{len(b.bytes), m.PhyOffset, m.QueueOffset, m.StoreTimestamp})
	return nil
}

// read is the next record, whose bytes are the caller's until the next read; io.EOF behind the last one, when the trailer confirmed them all. No read follows an error.
func (a *archiveReader) read() ([]byte, archivedPlace, error) {
	for {
		if a.batch == nil {
			a.batch, a.next = <-a.ready, 0
			<-a.batch.parsed
		}
		b := a.batch
		if a.next < len(b.records) {
			from := 0
			if a.next > 0 {
				from = b.records[a.next-1].end
			}
			r := b.records[a.next]
			a.line = b.first + int64(a.next)
			a.next++
			a.count++
			a.bytes += int64(r.end - from)
			return b.bytes[from:r.end:r.end], r, nil
		}
		switch {
		case b.err != nil:
			return nil, archivedPlace{}, b.err
		case b.trailer != nil:
			return nil, archivedPlace{}, a.trailer(b)
		}
		a.batch = nil
		a.free <- b
	}
}

// trailer checks the trailer that was read; io.EOF if everything is as it says.
func (a *archiveReader) trailer(b *archiveBatch) error {
	a.line = b.first + int64(len(b.ends))
	if len(b.trailer) > maxArchivedEdge {
		return a.fail("a trailer of %d bytes; none has more than %d", len(b.trailer), maxArchivedEdge)
	}
	var t archiveTrailer
	if err := strict(b.trailer, &t); err != nil {
		return a.fail("trailer: %v", err)
	}
	switch crc := fmt.Sprintf("%08x", b.crc); {
	case t.Records != a.count || t.Bytes != a.bytes:
		return a.fail("the trailer counts %d records of %d bytes, there were %d of %d", t.Records, t.Bytes, a.count, a.bytes)
	case t.CRC32C != crc:
		return a.fail("the trailer's CRC is %q, that of the lines is %q: they were changed", t.CRC32C, crc)
	case b.behind == io.EOF:
		a.tail = &t
	}
	return b.behind
}

// strict decodes a short line that must be exactly one object with known fields.
func strict(line []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if rest := bytes.TrimSpace(line[d.InputOffset():]); len(rest) > 0 {
		return errors.New("something follows the object")
	}
	return nil
}
