package indexfile

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"
)

// Writer writes index files as the original would have: the same bytes but for the names. Records come in log order. Not safe for concurrent use. Close it: files are whole only then.
type Writer struct {
	dir   string
	shape Shape
	now   func() time.Time
	last  string // name

	f     *os.File
	out   *bufio.Writer // entries, from where f stands
	slots []byte
	h     Header
	paths []string
}

// NewWriter writes files of shape s into dir, which must exist. now names the files (local time); nil is time.Now.
func NewWriter(dir string, s Shape, now func() time.Time) (*Writer, error) {
	s = s.filled()
	if err := s.check(); err != nil {
		return nil, err
	}
	if now == nil {
		now = time.Now
	}
	return &Writer{dir: dir, shape: s, now: now, slots: make([]byte, slotSize*s.Slots)}, nil
}

// Name is the name of a file made at t.
func Name(t time.Time) string {
	return t.Format("20060102150405") + fmt.Sprintf("%03d", t.Nanosecond()/1e6)
}

// Put adds an entry for each of keys (the unique key first, then the parts of KEYS as they are, doubled ones too) of the record of topic at phyOffset, stored at storeTime (ms). A record before the last one of the current file is passed over, as by the original. spec/index.md 3.3.
func (w *Writer) Put(topic string, phyOffset, storeTime int64, keys ...string) error {
	if w.f == nil || w.full() {
		if err := w.next(); err != nil {
			return err
		}
	}
	if phyOffset < w.h.EndPhyOffset {
		return nil
	}
	for _, k := range keys {
		if w.full() {
			if err := w.next(); err != nil {
				return err
			}
		}
		if err := w.add(Hash(topic, k), phyOffset, storeTime); err != nil {
			return err
		}
	}
	return nil
}

func (w *Writer) full() bool { return int64(w.h.Counter) >= int64(w.shape.Entries) }

func (w *Writer) add(hash int32, phyOffset, storeTime int64) error {
	slot := w.slots[slotSize*(int(hash)%w.shape.Slots):]
	previous := be.Uint32(slot)
	seconds := int64(0)
	if w.h.BeginTime > 0 {
		seconds = min(max((storeTime-w.h.BeginTime)/1000, 0), math.MaxInt32)
	}
	var b [entrySize]byte
	be.PutUint32(b[posHash:], uint32(hash))
	be.PutUint64(b[posPhyOffset:], uint64(phyOffset))
	be.PutUint32(b[posSeconds:], uint32(seconds))
	be.PutUint32(b[posPrevious:], previous)
	if _, err := w.out.Write(b[:]); err != nil {
		return fmt.Errorf("write index file %s: %w", w.f.Name(), err)
	}
	be.PutUint32(slot, uint32(w.h.Counter))
	if w.h.Counter <= 1 {
		w.h.BeginTime, w.h.BeginPhyOffset = storeTime, phyOffset
	}
	if previous == 0 {
		w.h.UsedSlots++
	}
	w.h.Counter++
	w.h.EndTime, w.h.EndPhyOffset = storeTime, phyOffset
	return nil
}

// next finishes the current file and begins one.
func (w *Writer) next() error {
	before := w.h
	if err := w.finish(); err != nil {
		return err
	}
	t := w.now()
	for Name(t) <= w.last {
		t = t.Add(time.Millisecond)
	}
	path := filepath.Join(w.dir, Name(t))
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("create index file: %w", err)
	}
	w.last, w.f = Name(t), f
	w.paths = append(w.paths, path)
	if err := f.Truncate(w.shape.Size()); err != nil {
		return fmt.Errorf("create index file %s: %w", path, err)
	}
	if _, err := f.Seek(w.shape.entryAt(1), 0); err != nil {
		return fmt.Errorf("create index file %s: %w", path, err)
	}
	w.out = bufio.NewWriterSize(f, 1<<20)
	clear(w.slots)
	w.h = Header{Counter: 1}
	if before.Counter > 1 { // the first entry's seconds count from here
		w.h.BeginTime, w.h.EndTime, w.h.BeginPhyOffset, w.h.EndPhyOffset = before.EndTime, before.EndTime, before.EndPhyOffset, before.EndPhyOffset
	}
	return nil
}

// finish makes the current file whole and durable.
func (w *Writer) finish() (err error) {
	if w.f == nil {
		return nil
	}
	f := w.f
	w.f = nil
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			err = fmt.Errorf("write index file %s: %w", f.Name(), err)
		}
	}()
	if err := w.out.Flush(); err != nil {
		return err
	}
	if _, err := f.WriteAt(w.slots, headerSize); err != nil {
		return err
	}
	b := w.h.encode()
	if _, err := f.WriteAt(b[:], 0); err != nil {
		return err
	}
	return f.Sync()
}

// Files is the paths of the files written so far.
func (w *Writer) Files() []string { return w.paths }

// Close finishes the last file and makes the files' names durable.
func (w *Writer) Close() error {
	if err := w.finish(); err != nil {
		return err
	}
	d, err := os.Open(w.dir)
	if err != nil {
		return fmt.Errorf("sync %s: %w", w.dir, err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync %s: %w", w.dir, err)
	}
	return nil
}
