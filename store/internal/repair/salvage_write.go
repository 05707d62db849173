package repair

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mqstore/mqstore/commitlog"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/consumequeue"
)

// placeMap knows where records went: from is the old physical offset from which on they lie by less lower. It has an entry where that changes: at holes and segments' ends.
type placeMap []place

type place struct {
	from, end int64 // old: [from, end) was copied
	less      int64
}

func (p *placeMap) add(old, size, fresh int64) {
	if n := len(*p); n > 0 && (*p)[n-1].end == old && (*p)[n-1].less == old-fresh {
		(*p)[n-1].end += size
		return
	}
	*p = append(*p, place{old, old + size, old - fresh})
}

// find is the new offset of a record; ok is false if it was not copied.
func (p placeMap) find(old int64) (fresh int64, ok bool) {
	i, found := slices.BinarySearchFunc(p, old, func(e place, old int64) int {
		switch {
		case e.end <= old:
			return -1
		case e.from > old:
			return 1
		}
		return 0
	})
	if !found {
		return 0, false
	}
	return old - p[i].less, true
}

// copyLog reads the log again and writes it anew.
func (s *salvage) copyLog() (err error) {
	r, err := s.files.holes(s.SegmentSize)
	if err != nil {
		return err
	}
	defer r.shut()
	log, err := s.openNewLog()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	w := &salvageWriter{log: log, at: s.start, size: s.size}
	total := r.segs[len(r.segs)-1].End() - s.start
	var buf []byte
	for n := 0; ; n++ {
		if n%1024 == 0 {
			if err := s.ctx.Err(); err != nil {
				return err
			}
			s.Progress("copy", r.offset()-s.start, total)
		}
		m, b, _, err := r.read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if !s.wants(m) {
			continue
		}
		if buf, err = s.rewritten(buf[:0], m, b); err != nil {
			return fmt.Errorf("the record at %d: %w", m.PhyOffset, err)
		}
		if err := w.makeRoom(len(buf)); err != nil {
			return err
		}
		record.Patch(buf, s.offsetOf(m), w.at, m.StoreTimestamp)
		s.places.add(m.PhyOffset, int64(len(b)), w.at)
		if err := w.put(buf); err != nil {
			return err
		}
	}
	for i := range s.res.Shifts {
		q := &s.res.Shifts[i]
		q.Moved = s.numbers[QueueName{q.Topic, q.QueueID}].moved
	}
	s.res.Shifts = slices.DeleteFunc(s.res.Shifts, func(q Shift) bool { return q.Moved == 0 })
	return w.log.Err()
}

// offsetOf is the record's own queue offset in the new store.
func (s *salvage) offsetOf(m *record.Meta) int64 {
	if !m.HasUnit() || consumequeue.CheckName(m.Topic, m.QueueID) != nil {
		return m.QueueOffset
	}
	return s.numbers[QueueName{m.Topic, m.QueueID}].next(m.QueueOffset)
}

// rewritten is the record's bytes, with all that changes but place and queue offset: the offsets of light queues, and where its prepared record lies.
func (s *salvage) rewritten(dst []byte, m *record.Meta, b []byte) ([]byte, error) {
	t := m.SysFlag.Transaction()
	follows := t == record.TransactionCommit || t == record.TransactionRollback
	many := s.multi && isNumberedInMany(m) && m.HasUnit()
	if !follows && !many {
		return append(dst, b...), nil
	}
	msg, err := record.Decode(b)
	if err != nil {
		return dst, err
	}
	if p := msg.PreparedTransactionOffset; follows && p >= s.start {
		msg.PreparedTransactionOffset, _ = s.places.find(p)
	}
	if many {
		msg.Properties = s.renumbered(m, msg.Properties)
	}
	return record.AppendRecord(dst, msg, record.Limits{MaxMessageSize: math.MaxInt32 - 1<<20, AllowV2: true})
}

// renumbered gives the record its new offsets in the queues that it names.
func (s *salvage) renumbered(m *record.Meta, p record.Properties) record.Properties {
	offsets, _ := p.Get(record.PropertyMultiQueueOffset)
	names, _ := p.Get(record.PropertyMultiDispatch)
	list, queues := strings.Split(strings.TrimRight(offsets, ","), ","), strings.Split(strings.TrimRight(names, ","), ",")
	if len(list) != len(queues) {
		return p // in none of them
	}
	given := map[QueueName]int64{{m.Topic, m.QueueID}: -1}
	changed := false
	for i, name := range queues {
		n, err := strconv.ParseInt(list[i], 10, 64)
		key := QueueName{name, m.QueueID}
		if strings.HasPrefix(name, lightQueues) {
			key.QueueID = 0
		}
		q := s.numbers[key]
		if err != nil || n < 0 || q == nil || consumequeue.CheckName(key.Topic, key.QueueID) != nil {
			continue
		}
		at, again := given[key]
		if !again {
			at = q.next(n)
			given[key] = at
		}
		if at >= 0 && at != n {
			list[i], changed = strconv.FormatInt(at, 10), true
		}
	}
	if !changed {
		return p
	}
	return p.With(record.PropertyMultiQueueOffset, strings.Join(list, ","))
}

// salvageWriter lays records out one behind the other, in segments that end in a blank.
type salvageWriter struct {
	log   *commitlog.Log
	at    int64
	size  int64
	blank []byte
}

// makeRoom ends the segment if n bytes and a blank do not fit into it.
func (w *salvageWriter) makeRoom(n int) error {
	rest := w.size - w.at%w.size
	if int64(n)+record.BlankHeaderSize <= rest {
		return nil
	}
	if int64(n)+record.BlankHeaderSize > w.size {
		return fmt.Errorf("a record of %d bytes does not fit into a segment of %d", n, w.size)
	}
	if int64(len(w.blank)) < rest {
		w.blank = make([]byte, rest)
	}
	record.PutBlank(w.blank, int(rest))
	if err := w.put(w.blank[:rest]); err != nil {
		return err
	}
	_, err := w.log.Flush() // a segment at a time: what is dirty stays bounded
	return err
}

func (w *salvageWriter) put(b []byte) error {
	if err := w.log.AppendRaw(w.at, b); err != nil {
		return err
	}
	w.at += int64(len(b))
	return nil
}

// copyConfig copies the configuration directory, with the offsets of consumers and delays.
func (s *salvage) copyConfig() error {
	_, err := fs.Stat(s.files.root, "config")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return fs.WalkDir(s.files.root, "config", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(s.part(), filepath.FromSlash(path.Clean(name)))
		switch {
		case d.IsDir():
			return s.fs.MkdirAll(to)
		case !d.Type().IsRegular():
			return nil
		}
		return s.copyFile(name, to)
	})
}

func (s *salvage) copyFile(name, to string) (err error) {
	in, err := s.files.root.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return errors.Join(out.Sync(), s.fs.SyncDir(filepath.Dir(to)))
}
