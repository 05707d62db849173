package consumequeue

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
)

// atOnce is how many queues are opened, flushed or truncated at a time: that is waiting for the disk most of the time.
const atOnce = 8

// Open opens every queue below Options.Dir (a missing directory is an empty set) and finds its end: a bad unit ends it;
// records must follow one another; fillers before the first unit count as held. Nothing is written: what lies behind an end
// goes with TruncateTo, or before the next unit.
//
// A queue that cannot be opened fails Open with an error that names the file, unless Options.Tolerant is set.
func Open(o Options) (*Set, error) {
	o, err := o.check()
	if err != nil {
		return nil, err
	}
	s := &Set{o: o, fileSize: cmp.Or(o.FileSize, defaultFileSize)}
	s.mu.queues = make(map[key]*Queue)
	keys, err := s.list()
	if err != nil {
		return nil, fmt.Errorf("open consume queues: %w", err)
	}
	known := make(map[key]*Known, len(o.Known))
	for i := range o.Known {
		k := &o.Known[i]
		known[key{k.Topic, k.QueueID}] = k
	}
	if err := s.openAll(keys, known); err != nil {
		return nil, errors.Join(fmt.Errorf("open consume queues: %w", err), s.Close())
	}
	s.o.Known = nil
	if o.FileSize == 0 {
		s.fileSize = s.commonSize()
		if err := s.resizeEmpty(); err != nil {
			return nil, errors.Join(fmt.Errorf("open consume queues: %w", err), s.Close())
		}
	}
	slices.SortFunc(s.strays, func(a, b Stray) int { return strings.Compare(a.Path, b.Path) })
	return s, nil
}

// list finds the queue directories, and notes what is none.
func (s *Set) list() ([]key, error) {
	topics, err := s.o.FS.ReadDir(s.o.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var keys []key
	for _, t := range topics {
		dir := filepath.Join(s.o.Dir, t.Name)
		if !t.IsDir || CheckName(t.Name, 0) != nil {
			s.strays = append(s.strays, Stray{Path: dir})
			continue
		}
		queues, err := s.o.FS.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, c := range queues {
			id, ok := parseQueueID(c.Name)
			if !ok || !c.IsDir {
				s.strays = append(s.strays, Stray{Path: filepath.Join(dir, c.Name)})
				continue
			}
			keys = append(keys, key{t.Name, id})
		}
	}
	return keys, nil
}

func (s *Set) openAll(keys []key, known map[key]*Known) error {
	var failed atomic.Bool
	errs := make([]error, len(keys))
	s.parallel(len(keys), func(i int) {
		if failed.Load() {
			return
		}
		k := keys[i]
		q, err := s.openExisting(k, known[k])
		if err != nil {
			errs[i] = fmt.Errorf("queue %s-%d: %w", k.topic, k.id, err)
			failed.Store(!s.o.Tolerant)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.mu.queues[k] = q
		for _, name := range q.seq.Load().Strays() {
			s.strays = append(s.strays, Stray{Path: filepath.Join(q.dir, name)})
		}
	})
	if !s.o.Tolerant {
		return errors.Join(errs...)
	}
	for i, err := range errs {
		if k := keys[i]; err != nil {
			s.strays = append(s.strays, Stray{Path: s.queueDir(k.topic, k.id), Topic: k.topic, QueueID: k.id, Err: err})
		}
	}
	return nil
}

// commonSize is the file size that most queues have: a new queue gets it, as the original has one size for all.
func (s *Set) commonSize() int64 {
	count := make(map[int64]int)
	best := int64(defaultFileSize)
	for _, q := range s.mu.queues {
		if q.sized {
			count[q.fileSize()]++
		}
	}
	for size, n := range count {
		if n > count[best] || n == count[best] && size > best {
			best = size
		}
	}
	return best
}

// resizeEmpty gives the common size to queues whose files, if any, are empty: those say nothing of their own.
func (s *Set) resizeEmpty() error {
	for k, q := range s.mu.queues {
		if q.sized || q.fileSize() == s.fileSize {
			continue
		}
		_ = q.seq.Load().Close() // nothing is mapped
		q, err := s.openQueue(k.topic, k.id, s.fileSize, nil, nil)
		if err != nil {
			return fmt.Errorf("queue %s-%d: %w", k.topic, k.id, err)
		}
		s.mu.queues[k] = q
	}
	return nil
}

// openExisting opens a queue whose directory is there, with the file size that its files have.
func (s *Set) openExisting(k key, known *Known) (*Queue, error) {
	size, sized := s.o.FileSize, true
	var entries []mappedfile.Info
	if size == 0 {
		dir := s.queueDir(k.topic, k.id)
		var err error
		if entries, err = s.o.FS.ReadDir(dir); err != nil {
			return nil, err
		}
		var name string
		if name, size = sizeOf(entries); size%UnitSize != 0 {
			return nil, &SizeError{Path: filepath.Join(dir, name), Size: size}
		}
		sized = size > 0
		size = cmp.Or(size, defaultFileSize)
	}
	q, err := s.openQueue(k.topic, k.id, size, entries, known)
	if err == nil {
		q.sized = sized
	}
	return q, err
}

// sizeOf is the length that the files in a directory have, going by the first one; 0 if there is none, or none but empty
// ones, which a crash leaves. OpenSequence judges the others, and whatever has a segment's name and is no regular file.
func sizeOf(infos []mappedfile.Info) (name string, size int64) {
	for _, f := range infos {
		if f.Regular && f.Size > 0 && isSegment(f.Name) {
			return f.Name, f.Size
		}
	}
	return "", 0
}

// isSegment reports whether a file name is a start offset: 20 digits.
func isSegment(name string) bool {
	return len(name) == 20 && strings.Trim(name, "0123456789") == ""
}

func (s *Set) openSequence(dir string, size int64, entries []mappedfile.Info) (*mappedfile.Sequence, error) {
	return mappedfile.OpenSequence(mappedfile.SequenceOptions{
		FS: s.o.FS, Dir: dir, FileSize: size, ReadOnly: s.o.ReadOnly, Sparse: true, AllocWindow: allocWindow,
		AfterCrash: !s.o.Clean, MakeDir: func() error { return s.makeDir(dir) }, Entries: entries,
	})
}

// openQueue opens the files of one queue, if there are any, and finds its end. entries are those of its directory, nil = look.
func (s *Set) openQueue(topic string, id int32, size int64, entries []mappedfile.Info, known *Known) (*Queue, error) {
	q := &Queue{set: s, topic: topic, id: id, dir: filepath.Join(s.o.Dir, topic, strconv.Itoa(int(id))), perFile: size / UnitSize}
	seq, err := s.openSequence(q.dir, size, entries)
	if err != nil {
		return nil, err
	}
	q.seq.Store(seq)
	if !s.o.Clean {
		q.named = unknown
	}
	q.lastPhy.Store(-1)
	q.maxPhy.Store(-1)
	if files := seq.Extents(); len(files) > 0 {
		if err := q.findBounds(seq, files, known); err != nil {
			return nil, errors.Join(err, seq.Close())
		}
	} else {
		q.writer.clean = s.o.Clean
	}
	return q, nil
}

// tail is what a scan knows of the last unit that it accepted.
type tail struct {
	phy, end int64 // of its record; -1: none yet
}

// follows reports whether u may stand behind t, and moves t to it.
func (t *tail) follows(u Unit) bool {
	if u.IsFiller() {
		return t.end < 0
	}
	if !u.Valid() || u.PhyOffset < t.end {
		return false
	}
	t.phy, t.end = u.PhyOffset, u.end()
	return true
}

// scan returns how many units at the start of b follow one another.
func (t *tail) scan(b []byte) int64 {
	n := int64(0)
	for ; len(b) >= UnitSize && t.follows(unitAt(b)); b = b[UnitSize:] {
		n++
	}
	return n
}

// scanFile scans all of a file, with read-ahead if it is worth it.
func (t *tail) scanFile(seq *mappedfile.Sequence, f mappedfile.FileInfo, b []byte) int64 {
	head := min(len(b), scanFirst/UnitSize*UnitSize)
	n := t.scan(b[:head])
	if n < int64(head/UnitSize) || head == len(b) {
		return n
	}
	seq.Advise(mappedfile.AdviceSequential, f.Start, f.End)
	defer seq.Advise(mappedfile.AdviceRandom, f.Start, f.End)
	return n + t.scan(b[head:])
}

// full judges a file by its first and last unit, touching nothing else.
func (t *tail) full(b []byte) bool {
	u := *t
	if !u.follows(unitAt(b)) {
		return false
	}
	if last := unitAt(b[len(b)-UnitSize:]); last.IsFiller() || len(b) > UnitSize && !u.follows(last) {
		return false
	}
	*t = u
	return true
}

// findBounds sets the queue's bounds from its files.
func (q *Queue) findBounds(seq *mappedfile.Sequence, files []mappedfile.FileInfo, known *Known) error {
	first, last := files[0].Start, files[len(files)-1]
	seq.Advise(mappedfile.AdviceRandom, first, last.End)
	end, t, trusted := q.believe(seq, first, last, known)
	if !trusted {
		var err error
		if end, t, err = findEnd(seq, files); err != nil {
			return err
		}
	}
	if err := seq.SetMax(end); err != nil {
		return err
	}
	q.max.Store(end / UnitSize)
	q.lastPhy.Store(t.phy)
	q.maxPhy.Store(t.end)
	if trusted {
		q.min.Store(known.Min)
		q.writer.clean = true
		return nil
	}
	if !q.set.o.ReadOnly && !q.set.o.Clean && (q.set.o.Durable <= 0 || t.end < 0) {
		// What a killed process wrote may be in memory only: the first Flush makes sure.
		seq.SetFlushed(first)
		q.set.markDirty(q)
	}
	if t.end < 0 {
		q.min.Store(end / UnitSize)
		return nil
	}
	// Fillers are a prefix, so log n looks find where they end.
	n, err := search(first/UnitSize, end/UnitSize, func(i int64) (bool, error) {
		u, err := q.read(i)
		return !u.IsFiller(), err
	})
	q.min.Store(n)
	return err
}

// findEnd returns the byte offset behind the last unit that counts.
func findEnd(seq *mappedfile.Sequence, files []mappedfile.FileInfo) (end int64, t tail, err error) {
	t = tail{-1, -1}
	for i, f := range files {
		v, err := seq.ViewRaw(f.Start)
		if err != nil {
			return 0, t, err
		}
		end = f.End
		if i == len(files)-1 || !t.full(v.Bytes) {
			end = f.Start + t.scanFile(seq, f, v.Bytes)*UnitSize
		}
		v.Release()
		if end < f.End {
			break
		}
	}
	return end, t, nil
}

// believe checks what is known of a queue against its last file: the last unit is where it should be, and none behind it.
func (q *Queue) believe(seq *mappedfile.Sequence, first int64, last mappedfile.FileInfo, k *Known) (end int64, t tail, ok bool) {
	if k == nil || k.Max < 1 || k.Max > last.End/UnitSize || k.Max*UnitSize <= last.Start || k.Min < first/UnitSize || k.Min > k.Max {
		return 0, t, false
	}
	end = k.Max * UnitSize
	v, err := seq.ViewRaw(end - UnitSize)
	if err != nil {
		return 0, t, false
	}
	defer v.Release()
	u := unitAt(v.Bytes)
	if !u.Valid() || u.PhyOffset != k.LastPhy {
		return 0, t, false
	}
	if len(v.Bytes) >= 2*UnitSize && unitAt(v.Bytes[UnitSize:]) != (Unit{}) {
		return 0, t, false
	}
	return end, tail{u.PhyOffset, u.end()}, true
}

// search returns the first i in [lo, hi) for which is holds, hi if none; is must not hold again below where it holds.
func search(lo, hi int64, is func(i int64) (bool, error)) (int64, error) {
	for lo < hi {
		mid := lo + (hi-lo)/2
		ok, err := is(mid)
		if err != nil {
			return lo, err
		}
		if ok {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo, nil
}

// TruncateTo removes the units of records that lie at or end beyond phyOffset, and whatever lies behind the queues' ends.
// Cut units are zeroed up to the end of what was written, later files removed. Durable when it returns. For recovery:
// nothing reads meanwhile. A queue that loses all its units may begin anywhere afterwards.
func (s *Set) TruncateTo(phyOffset int64) error {
	if s.o.ReadOnly {
		return fmt.Errorf("truncate consume queues to %d: %w", phyOffset, mappedfile.ErrReadOnly)
	}
	qs := s.sorted()
	errs := make([]error, len(qs))
	s.parallel(len(qs), func(i int) {
		if err := qs[i].truncateTo(phyOffset); err != nil {
			errs[i] = fmt.Errorf("truncate queue %s to physical offset %d: %w", qs[i], phyOffset, err)
		}
	})
	return errors.Join(errs...)
}

// parallel calls f for 0..n-1, several at a time because f waits for the disk.
func (s *Set) parallel(n int, f func(i int)) {
	workers := atOnce
	if s.o.NoBackground {
		workers = 1
	}
	if workers = min(workers, n); workers <= 1 {
		for i := range n {
			f(i)
		}
		return
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	wg.Wait()
}

func (q *Queue) truncateTo(phyOffset int64) error {
	q.writer.Lock()
	defer q.writer.Unlock()
	q.flushing.Lock()
	defer q.flushing.Unlock()
	if q.writer.gone != nil {
		return nil
	}
	if q.maxPhy.Load() <= phyOffset {
		if q.writer.clean {
			return nil
		}
		return q.cleanTail()
	}
	seq := q.seq.Load()
	cut, err := search(seq.Min()/UnitSize, q.max.Load(), func(i int64) (bool, error) {
		u, err := q.read(i)
		return u.Valid() && u.end() > phyOffset, err
	})
	if err != nil {
		return err
	}
	t := tail{-1, -1}
	if cut > seq.Min()/UnitSize {
		u, err := q.read(cut - 1)
		if err != nil {
			return err
		}
		if u.Valid() {
			t = tail{u.PhyOffset, u.end()}
		}
	}
	// Readers lose sight first, then the bytes go.
	q.max.Store(cut)
	q.min.Store(min(q.min.Load(), cut))
	q.lastPhy.Store(t.phy)
	q.maxPhy.Store(t.end)
	q.writer.clean = false
	if err := seq.TruncateTo(cut*UnitSize, nil); err != nil {
		return err
	}
	q.writer.clean = true
	return nil
}

// cleanTail zeroes what lies behind the queue's end, and removes the files there: no unit may be written before it, or a
// crash could bring it back. The caller holds writer.
func (q *Queue) cleanTail() error {
	seq := q.seq.Load()
	if err := seq.TruncateTo(seq.Max(), nil); err != nil {
		return fmt.Errorf("%s: clear what lies behind unit %d: %w", q, q.max.Load(), err)
	}
	q.writer.clean = true
	return nil
}
