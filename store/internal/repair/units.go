package repair

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"sort"
	"strconv"
	"syscall"

	"github.com/mqstore/mqstore/consumequeue"
)

// Unit is one unit of a consume queue as it lies.
type Unit struct {
	QueueOffset int64
	consumequeue.Unit
	// Ext is the extension unit that TagsCode is the address of; nil if it is no address.
	Ext *consumequeue.ExtUnit
	// ExtErr says why the extension unit cannot be read.
	ExtErr error
}

// QueueName names a queue that has a directory.
type QueueName struct {
	Topic   string
	QueueID int32
}

// Queues lists the queues that have a directory, sorted by topic and queue id.
func (f *Files) Queues() ([]QueueName, error) {
	topics, err := fs.ReadDir(f.root, queueDir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []QueueName
	for _, t := range topics {
		if !t.IsDir() || !fs.ValidPath(t.Name()) {
			continue
		}
		ids, err := fs.ReadDir(f.root, path.Join(queueDir, t.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, d := range ids {
			if n, err := strconv.ParseInt(d.Name(), 10, 32); err == nil && n >= 0 && d.IsDir() {
				out = append(out, QueueName{t.Name(), int32(n)})
			}
		}
	}
	sort.Slice(out, func(i, j int) bool {
		if out[i].Topic != out[j].Topic {
			return out[i].Topic < out[j].Topic
		}
		return out[i].QueueID < out[j].QueueID
	})
	return out, nil
}

// UnitReader reads a queue's units in order, fillers left out, up to the first one that is none. For one goroutine; Close it.
type UnitReader struct {
	fsys fs.FS
	segs []Segment
	next int
	seg  Segment
	f    fs.File
	pos  int64 // in the open file
	buf  []byte
	base int64
	done bool
	ext  *extReader
}

const unitWindow = 3200 * consumequeue.UnitSize

// ReadUnits reads a queue from queueOffset on. A queue that has no directory is fs.ErrNotExist.
func (f *Files) ReadUnits(topic string, queueID int32, queueOffset int64) (*UnitReader, error) {
	if !fs.ValidPath(topic) || path.Base(topic) != topic {
		return nil, fmt.Errorf("topic %q: %w", topic, fs.ErrNotExist)
	}
	dir := path.Join(queueDir, topic, strconv.Itoa(int(queueID)))
	if _, err := fs.Stat(f.root, dir); err != nil {
		return nil, err
	}
	segs, err := segments(f.root, dir)
	if err != nil {
		return nil, err
	}
	ext, err := openExt(f.root, path.Join(extDir, topic, strconv.Itoa(int(queueID))))
	if err != nil {
		return nil, err
	}
	r := &UnitReader{fsys: f.root, segs: segs, ext: ext}
	if queueOffset > math.MaxInt64/consumequeue.UnitSize {
		r.done = true
		return r, nil
	}
	at := queueOffset * consumequeue.UnitSize
	for r.next < len(segs) && segs[r.next].End() <= at {
		r.next++
	}
	if r.next < len(segs) && at > segs[r.next].Start {
		if err := r.open(); err != nil {
			return nil, err
		}
		r.pos = at - r.seg.Start
	}
	return r, nil
}

// Next is the next unit; io.EOF behind the last one.
func (r *UnitReader) Next() (Unit, error) {
	for {
		if r.done {
			return Unit{}, io.EOF
		}
		if r.f == nil {
			if err := r.open(); err != nil {
				return Unit{}, err
			}
			continue
		}
		if r.seg.Size-r.pos < consumequeue.UnitSize {
			end := r.seg.End()
			if err := r.shut(); err != nil {
				return Unit{}, err
			}
			if r.next < len(r.segs) && r.segs[r.next].Start != end {
				r.done = true // a hole ends the queue
			}
			continue
		}
		b, err := r.peek()
		if err != nil {
			return Unit{}, err
		}
		u := Unit{QueueOffset: (r.seg.Start + r.pos) / consumequeue.UnitSize}
		if u.Unit, err = consumequeue.ParseUnit(b); err != nil {
			return Unit{}, err
		}
		if u.IsFiller() {
			r.pos += consumequeue.UnitSize
			continue
		}
		if !u.Valid() {
			r.done = true
			continue
		}
		r.pos += consumequeue.UnitSize
		if u.IsExtAddress() {
			u.Ext, u.ExtErr = r.ext.at(u.TagsCode)
		}
		return u, nil
	}
}

func (r *UnitReader) open() error {
	if r.next == len(r.segs) {
		r.done = true
		return nil
	}
	seg := r.segs[r.next]
	r.next++
	f, err := r.fsys.Open(seg.Path)
	if errors.Is(err, fs.ErrNotExist) { // expired since it was listed
		return nil
	}
	if err != nil {
		return err
	}
	if _, ok := f.(io.ReaderAt); !ok {
		f.Close()
		return fmt.Errorf("%s: this file system cannot read at an offset", seg.Path)
	}
	r.seg, r.f, r.pos, r.base, r.buf = seg, f, 0, 0, r.buf[:0]
	return nil
}

func (r *UnitReader) peek() ([]byte, error) {
	if i := r.pos - r.base; i >= 0 && i+consumequeue.UnitSize <= int64(len(r.buf)) {
		return r.buf[i:][:consumequeue.UnitSize], nil
	}
	if r.buf == nil {
		r.buf = make([]byte, 0, unitWindow)
	}
	n, err := r.f.(io.ReaderAt).ReadAt(r.buf[:unitWindow], r.pos)
	r.buf, r.base = r.buf[:n], r.pos
	if n < consumequeue.UnitSize {
		return nil, fmt.Errorf("read %s at %d: %w", r.seg.Path, r.pos, errors.Join(io.ErrUnexpectedEOF, err))
	}
	return r.buf[:consumequeue.UnitSize], nil
}

func (r *UnitReader) shut() error {
	if r.f == nil {
		return nil
	}
	err := r.f.Close()
	r.f = nil
	return err
}

// Close frees the open files.
func (r *UnitReader) Close() error {
	r.done = true
	return errors.Join(r.shut(), r.ext.shut())
}

// extReader reads extension units (spec/consumequeue-format.md 2.6), mostly in rising order.
type extReader struct {
	fsys fs.FS
	segs []Segment
	cur  int // the open one
	f    fs.File
	buf  []byte
}

const maxExtSize = math.MaxInt16 // the size field is a short

func openExt(fsys fs.FS, dir string) (*extReader, error) {
	segs, err := segments(fsys, dir)
	return &extReader{fsys: fsys, segs: segs}, err
}

// at reads the unit at an address.
func (r *extReader) at(address int64) (*consumequeue.ExtUnit, error) {
	off, _ := consumequeue.ExtOffset(address)
	i := sort.Search(len(r.segs), func(i int) bool { return r.segs[i].End() > off })
	if off == 0 && len(r.segs) > 0 {
		i, off = 0, r.segs[0].Start // as the original reads
	}
	if i == len(r.segs) || r.segs[i].Start > off {
		return nil, fmt.Errorf("extension address %d: no file of consumequeue_ext holds offset %d", address, off)
	}
	if r.f == nil || r.cur != i {
		if err := r.shut(); err != nil {
			return nil, err
		}
		f, err := r.fsys.Open(r.segs[i].Path)
		if err != nil {
			return nil, err
		}
		r.f, r.cur = f, i
	}
	at, ok := r.f.(io.ReaderAt)
	if !ok {
		return nil, fmt.Errorf("%s: this file system cannot read at an offset", r.segs[i].Path)
	}
	if r.buf == nil {
		r.buf = make([]byte, maxExtSize)
	}
	pos := off - r.segs[i].Start
	n, err := at.ReadAt(r.buf, pos)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("read %s at %d: %w", r.segs[i].Path, pos, err)
	}
	u, err := consumequeue.ParseExtUnit(r.buf[:n])
	if err != nil {
		return nil, fmt.Errorf("%s at %d: %w", r.segs[i].Path, pos, err)
	}
	u.Bitmap = append([]byte{}, u.Bitmap...)
	return &u, nil
}

func (r *extReader) shut() error {
	if r.f == nil {
		return nil
	}
	err := r.f.Close()
	r.f = nil
	return err
}
