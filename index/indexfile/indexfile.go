package indexfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
)

// Shape is how many slots and entries a file has room for. The zero value is the original's default.
type Shape struct {
	Slots   int // maxHashSlotNum, default 5,000,000
	Entries int // maxIndexNum, default 20,000,000; one less is used
}

func (s Shape) filled() Shape {
	if s.Slots == 0 {
		s.Slots = 5_000_000
	}
	if s.Entries == 0 {
		s.Entries = 20_000_000
	}
	return s
}

func (s Shape) check() error {
	if s.Slots < 1 || s.Slots > math.MaxInt32 || s.Entries < 2 || s.Entries > math.MaxInt32 {
		return fmt.Errorf("index file of %d slots and %d entries: must be 1 or more and 2 or more, and fit in 31 bits", s.Slots, s.Entries)
	}
	return nil
}

// Size is the size of a file of this shape, in bytes.
func (s Shape) Size() int64 {
	s = s.filled()
	return headerSize + slotSize*int64(s.Slots) + entrySize*int64(s.Entries)
}

func (s Shape) slotAt(slot int) int64 { return headerSize + slotSize*int64(slot) }
func (s Shape) entryAt(n uint32) int64 {
	return headerSize + slotSize*int64(s.Slots) + entrySize*int64(n)
}

const (
	posBeginTime   = 0
	posEndTime     = posBeginTime + 8
	posBeginOffset = posEndTime + 8
	posEndOffset   = posBeginOffset + 8
	posUsedSlots   = posEndOffset + 8
	posCounter     = posUsedSlots + 4
	headerSize     = posCounter + 4

	slotSize = 4

	posHash      = 0
	posPhyOffset = posHash + 4
	posSeconds   = posPhyOffset + 8
	posPrevious  = posSeconds + 4
	entrySize    = posPrevious + 4
)

var be = binary.BigEndian

// ErrShape: the file is not of that many slots and entries.
var ErrShape = errors.New("indexfile: the size is not that of the slots and entries")

// Header is the start of a file. Times are in ms.
type Header struct {
	BeginTime, EndTime           int64 // store time of the first and last entry
	BeginPhyOffset, EndPhyOffset int64
	UsedSlots                    int32
	Counter                      int32 // number of the next entry; the first is 1
}

func decodeHeader(b *[headerSize]byte) Header {
	h := Header{
		BeginTime: int64(be.Uint64(b[posBeginTime:])), EndTime: int64(be.Uint64(b[posEndTime:])),
		BeginPhyOffset: int64(be.Uint64(b[posBeginOffset:])), EndPhyOffset: int64(be.Uint64(b[posEndOffset:])),
		UsedSlots: int32(be.Uint32(b[posUsedSlots:])), Counter: int32(be.Uint32(b[posCounter:])),
	}
	if h.Counter <= 0 { // as the original
		h.Counter = 1
	}
	return h
}

func (h *Header) encode() (b [headerSize]byte) {
	be.PutUint64(b[posBeginTime:], uint64(h.BeginTime))
	be.PutUint64(b[posEndTime:], uint64(h.EndTime))
	be.PutUint64(b[posBeginOffset:], uint64(h.BeginPhyOffset))
	be.PutUint64(b[posEndOffset:], uint64(h.EndPhyOffset))
	be.PutUint32(b[posUsedSlots:], uint32(h.UsedSlots))
	be.PutUint32(b[posCounter:], uint32(h.Counter))
	return b
}

// Entry is one key of one record.
type Entry struct {
	Number    int32 // in its file, from 1
	Hash      int32 // see Hash
	PhyOffset int64
	Time      int64 // ms: the file's begin plus the entry's seconds
	Previous  int32 // the next older entry of the chain; 0 = none
}

func (f *File) decodeEntry(n uint32, b []byte) (e Entry, seconds int32) {
	seconds = int32(be.Uint32(b[posSeconds:]))
	return Entry{
		Number: int32(n), Hash: int32(be.Uint32(b[posHash:])), PhyOffset: int64(be.Uint64(b[posPhyOffset:])),
		Time: f.h.BeginTime + int64(seconds)*1000, Previous: int32(be.Uint32(b[posPrevious:])),
	}, seconds
}

// File is one index file, open for reading. What is in it is not trusted: numbers that lead nowhere end a chain.
type File struct {
	r     io.ReaderAt
	close io.Closer
	path  string
	shape Shape
	h     Header
}

// Open opens a file of that shape for reading. ErrShape.
func Open(path string, s Shape) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open index file: %w", err)
	}
	i, err := f.Stat()
	if err == nil {
		var x *File
		if x, err = NewFile(f, i.Size(), s); err == nil {
			x.close, x.path = f, path
			return x, nil
		}
	}
	f.Close()
	return nil, fmt.Errorf("open index file %s: %w", path, err)
}

// NewFile reads a file of size bytes through r.
func NewFile(r io.ReaderAt, size int64, s Shape) (*File, error) {
	s = s.filled()
	if err := s.check(); err != nil {
		return nil, err
	}
	if size != s.Size() {
		return nil, fmt.Errorf("%w: %d bytes, %d slots and %d entries are %d", ErrShape, size, s.Slots, s.Entries, s.Size())
	}
	f := &File{r: r, shape: s}
	var b [headerSize]byte
	if err := f.read(b[:], 0); err != nil {
		return nil, err
	}
	f.h = decodeHeader(&b)
	return f, nil
}

// ShapeOf finds the shape of a file of size bytes from what is in it: that of the default if the size is right, else the one in which the newest entry is the head of its chain and every slot leads to an entry. ok is false if none or several are possible (files with few entries).
// It reads at most the first 64 MiB of other files than those of the default shape.
func ShapeOf(r io.ReaderAt, size int64) (s Shape, ok bool) {
	if d := (Shape{}).filled(); size == d.Size() {
		return d, true
	}
	const most = 64 << 20
	if size < headerSize || size > most {
		return Shape{}, false
	}
	b := make([]byte, size)
	if n, _ := r.ReadAt(b, 0); int64(n) != size {
		return Shape{}, false
	}
	h := decodeHeader((*[headerSize]byte)(b))
	rest := (size - headerSize) / slotSize // slots, if there were no entries
	var used []int32                       // slots that lead to an entry; each shape's begin with those of the smaller ones, so that no slot is looked at for every shape
	counted := 0
	for slots := rest % (entrySize / slotSize); slots < rest; slots += entrySize / slotSize {
		c := Shape{int(slots), int((rest - slots) / (entrySize / slotSize))}
		for ; counted < c.Slots; counted++ {
			if be.Uint32(b[c.slotAt(counted):]) != 0 {
				used = append(used, int32(counted))
			}
		}
		if int64(len(used)) > int64(h.UsedSlots) { // and larger shapes have no fewer
			break
		}
		if c.check() != nil || c.Size() != size || len(used) < int(h.UsedSlots) || !c.fits(b, &h, used) {
			continue
		}
		if ok {
			return Shape{}, false
		}
		s, ok = c, true
	}
	return s, ok
}

// fits reports whether b makes sense as a file of shape s, of which these slots are used.
func (s Shape) fits(b []byte, h *Header, used []int32) bool {
	if h.Counter < 2 || int64(h.Counter) > int64(s.Entries) {
		return false
	}
	newest := uint32(h.Counter - 1)
	hash := int32(be.Uint32(b[s.entryAt(newest)+posHash:]))
	if hash < 0 || be.Uint32(b[s.slotAt(int(hash)%s.Slots):]) != newest {
		return false
	}
	for _, slot := range used {
		n := be.Uint32(b[s.slotAt(int(slot)):])
		if n > newest {
			return false
		}
		if e := int32(be.Uint32(b[s.entryAt(n)+posHash:])); e < 0 || int(e)%s.Slots != int(slot) {
			return false
		}
	}
	return true
}

func (f *File) read(b []byte, at int64) error {
	if n, err := f.r.ReadAt(b, at); n < len(b) {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("read %d bytes of index file at %d: %w", len(b), at, err)
	}
	return nil
}

// Header is the file's header.
func (f *File) Header() Header { return f.h }

// Path is the file's path; "" of one made by NewFile.
func (f *File) Path() string { return f.path }

// Close closes the file.
func (f *File) Close() error {
	if f.close == nil {
		return nil
	}
	return f.close.Close()
}

// entries is one past the number of the last entry.
func (f *File) entries() uint32 { return min(uint32(f.h.Counter), uint32(f.shape.Entries)) }

// Entries yields all entries in the order in which they were written. An error is the last thing yielded.
func (f *File) Entries() iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		b := make([]byte, 1024*entrySize)
		for n, end := uint32(1), f.entries(); n < end; {
			part := b[:entrySize*min(end-n, uint32(len(b)/entrySize))]
			if err := f.read(part, f.shape.entryAt(n)); err != nil {
				yield(Entry{}, err)
				return
			}
			for ; len(part) > 0; part = part[entrySize:] {
				e, _ := f.decodeEntry(n, part)
				if !yield(e, nil) {
					return
				}
				n++
			}
		}
	}
}

// holds reports whether the file may have entries of the times [begin, end].
func (h *Header) holds(begin, end int64) bool {
	return begin < h.BeginTime && end > h.EndTime || begin >= h.BeginTime && begin <= h.EndTime || end >= h.BeginTime && end <= h.EndTime
}

// chain yields the entries of that hash within the times, the newest first, as the original does: it ends where an older one is too early. spec/index.md 3.4.
func (f *File) chain(hash int32, begin, end int64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		var b [entrySize]byte
		if err := f.read(b[:slotSize], f.shape.slotAt(int(hash)%f.shape.Slots)); err != nil {
			yield(Entry{}, err)
			return
		}
		n := be.Uint32(b[:])
		if f.h.Counter <= 1 || n >= uint32(f.shape.Entries) || n > uint32(f.h.Counter) {
			return
		}
		for steps := f.entries(); n > 0 && steps > 0; steps-- {
			if err := f.read(b[:], f.shape.entryAt(n)); err != nil {
				yield(Entry{}, err)
				return
			}
			e, seconds := f.decodeEntry(n, b[:])
			if seconds < 0 {
				return
			}
			if e.Hash == hash && begin <= e.Time && e.Time <= end && !yield(e, nil) {
				return
			}
			p := e.Previous
			if p <= 0 || p > f.h.Counter || uint32(p) == n || int64(p) >= int64(f.shape.Entries) || e.Time < begin {
				return
			}
			n = uint32(p)
		}
	}
}
