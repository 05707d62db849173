package repair

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/mqstore/mqstore/checkpoint"
	"github.com/mqstore/mqstore/commitlog"
	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/consumequeue"
	"github.com/mqstore/mqstore/index"
)

// SalvageOptions say what is copied where.
type SalvageOptions struct {
	Source       string // the damaged store; never written, and no lock is taken there
	CommitLogDir string // its log, where that is not <Source>/commitlog
	Dest         string // the new store: missing, empty, or left behind by an interrupted Salvage

	DryRun        bool   // nothing is written: holes and totals are those of the run
	SegmentSize   int64  // of the log; 0 = that of most files of the source
	QueueFileSize int64  // 0 = that of most files of the source, else 6,000,000
	MultiDispatch bool   // as Options.MultiDispatch
	From, To      int64  // only records that begin in [From, To); To 0 = to the end
	Topic         string // only this topic; "" = all

	Progress func(stage string, done, total int64)
	Hole     func(Hole) error // told each hole, in order. May be nil
}

// Shift is a queue whose records got other queue offsets.
type Shift struct {
	Topic    string
	QueueID  int32
	Records  int64 // that it has
	Min, Max int64 // queue offsets now
	Moved    int64 // records whose queue offset changed
}

// Salvaged is what [Salvage] copied, or would copy.
type Salvaged struct {
	Made
	Holes     int64
	HoleBytes int64
	Bitmaps   int64   // copied units that had an extension with a filter bitmap, and have a plain tags code now
	Leftover  int64   // records of before a truncation by RocketMQ at the log's end: left out
	Shifts    []Shift // sorted
}

// Salvage copies every record that verifies into a new store, around the holes. A record verifies if its magic code, sizes and CRC are right and it says
// that it lies where it does. The new store is one as after a clean exit, complete with queues and index; both engines open it.
//
// Physical offsets: records are laid out without holes from the start of the source's first segment on, so they stay as they are up to the first hole, and
// become smaller behind it. The offset message ids of those, which contain it, change, and a slave has to start anew. Commits and rollbacks point at
// the new place of their prepared record, and at 0 if it was lost.
//
// Queue offsets: a consumer's committed offset never skips a message; at worst it gets some again. Records behind the last hole of a queue keep their
// offsets; those before are shifted up, so that the queue is dense and its minimum rises. A queue that used offsets twice is numbered on instead. If the lost
// records were a queue's last ones, its own files say how far it was numbered. The offsets of light queues, which lie in the records' properties,
// are treated alike.
//
// config/ is copied as it is. Extension units are not: they are what only the filters of a running broker compute; the new units carry plain tags codes, and Salvaged.Bitmaps counts those that had one. Queues of which every record has expired keep
// their number. Memory is some hundred bytes a queue and a window of the log.
//
// The new store is built in <Dest>/mqstore.salvage and moved into place when it is whole: until then no engine takes Dest for a store, and Salvage
// begins anew there. Source and Dest must not be in use.
func Salvage(ctx context.Context, o SalvageOptions) (res Salvaged, err error) {
	s, err := newSalvage(ctx, o)
	if err != nil {
		return res, err
	}
	if err := s.plan(); err != nil {
		return s.res, err
	}
	if s.res.Records == 0 {
		return s.res, nil
	}
	if o.DryRun {
		return s.res, nil
	}
	return s.res, s.write()
}

// salvageDir is where a salvage is built. Its presence marks a destination that is not finished.
const salvageDir = "mqstore.salvage"

type salvage struct {
	SalvageOptions
	ctx   context.Context
	fs    mappedfile.FS
	files *Files
	res   Salvaged

	start, size int64 // of the log: its first offset, and a segment's bytes
	end         int64 // what lies from here on is left out: leftovers of a truncation
	multi       bool  // records have units in light queues
	numbers     map[QueueName]*numbering
	places      placeMap
}

func newSalvage(ctx context.Context, o SalvageOptions) (*salvage, error) {
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	if o.Hole == nil {
		o.Hole = func(Hole) error { return nil }
	}
	if o.To == 0 {
		o.To = math.MaxInt64
	}
	src, err := realPath(o.Source)
	if err != nil {
		return nil, err
	}
	dst, err := realPath(o.Dest)
	if err != nil {
		return nil, err
	}
	if within(src, dst) || within(dst, src) {
		return nil, fmt.Errorf("%s and %s lie in one another: give another directory for the new store", o.Source, o.Dest)
	}
	s := &salvage{SalvageOptions: o, ctx: ctx, fs: mappedfile.OS(), numbers: map[QueueName]*numbering{}}
	var log fs.FS
	if o.CommitLogDir != "" {
		log = os.DirFS(o.CommitLogDir)
	}
	if s.files, err = Look(os.DirFS(o.Source), log); err != nil {
		return nil, err
	}
	if err := s.unused(); err != nil {
		return nil, err
	}
	if s.multi = o.MultiDispatch; !s.multi {
		queues, err := s.files.Queues()
		if err == nil {
			s.multi, err = s.files.manyDispatch(queues)
		}
		if err != nil {
			return nil, err
		}
	}
	return s, s.checkDest()
}

// realPath is where a path leads, links followed as far as there is something.
func realPath(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	for rest := ""; ; {
		if to, err := filepath.EvalSymlinks(path); err == nil {
			return filepath.Join(to, rest), nil
		}
		up := filepath.Dir(path)
		if up == path {
			return filepath.Join(path, rest), nil
		}
		path, rest = up, filepath.Join(filepath.Base(path), rest)
	}
}

func within(dir, of string) bool {
	rel, err := filepath.Rel(of, dir)
	return err == nil && (rel == "." || filepath.IsLocal(rel))
}

// unused refuses a source that a process writes: what it appends meanwhile would be there or not.
func (s *salvage) unused() error {
	pid, live, err := Holder(s.Source)
	if err == nil && live {
		return &mappedfile.LockedError{Path: filepath.Join(s.Source, "lock"), PID: pid}
	}
	return err
}

func (s *salvage) part() string { return filepath.Join(s.Dest, salvageDir) }

// checkDest refuses a destination that has something of others in it.
func (s *salvage) checkDest() error {
	list, err := os.ReadDir(s.Dest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Lstat(s.part()); err == nil {
		return nil // an interrupted salvage
	}
	for _, d := range list {
		if d.Name() != "lock" && d.Name() != "lost+found" {
			return fmt.Errorf("%s is not empty (%s): give a directory that is, or does not exist", s.Dest, d.Name())
		}
	}
	return nil
}

// plan reads the log once: it finds the holes, and how each queue is to be numbered.
func (s *salvage) plan() error {
	r, err := s.files.holes(s.SegmentSize)
	if err != nil {
		return err
	}
	defer r.shut()
	if len(r.segs) == 0 {
		return errors.New("there is no file of a commit log: nothing to salvage")
	}
	if r.size < 256 || r.size > math.MaxInt32 {
		return fmt.Errorf("the segments' size cannot be told from the files (%d bytes): give it (mappedFileSizeCommitLog)", r.size)
	}
	s.start, s.size, s.end = r.segs[0].Start, r.size, math.MaxInt64
	if s.start%s.size != 0 {
		return fmt.Errorf("%s begins at no multiple of the segment size %d: give the right one (mappedFileSizeCommitLog)", r.segs[0].Path, s.size)
	}
	l := &leftovers{}
	var held []func() // what records that may be leftovers would do
	total := r.segs[len(r.segs)-1].End() - s.start
	for n := 0; ; n++ {
		if n%1024 == 0 {
			if err := s.ctx.Err(); err != nil {
				return err
			}
			s.Progress("scan", r.offset()-s.start, total)
		}
		m, b, hole, err := r.read()
		if hole != nil {
			if err := s.hole(*hole); err != nil {
				return err
			}
			l.hole(hole.From)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if l.see(m) {
			if len(held) == maxHeld { // so many are no leftovers
				l.believe()
			} else {
				if s.wants(m) {
					slots, phy, size, keys := s.slotsOf(m), m.PhyOffset, int64(len(b)), int64(index.Keys(m))
					held = append(held, func() { s.count(slots, phy, size, keys) })
				}
				continue
			}
		}
		for _, f := range held {
			f()
		}
		held = held[:0]
		switch {
		case s.wants(m):
			s.count(s.slotsOf(m), m.PhyOffset, int64(len(b)), int64(index.Keys(m)))
		case !s.fits(m):
			if err := s.hole(Hole{m.PhyOffset, m.PhyOffset + int64(m.Size), commitLogDir + "/" + r.seg.Path, fmt.Sprintf("a record of %d bytes and a blank do not fit into a segment of %d", m.Size, s.size)}); err != nil {
				return err
			}
		}
	}
	s.res.Leftover = int64(len(held))
	if l.doubt {
		s.end = l.from
	}
	if err := s.countBitmaps(); err != nil {
		return err
	}
	if err := s.trustQueues(); err != nil {
		return err
	}
	s.shifts()
	return nil
}

// countBitmaps counts what the new queues will not have.
func (s *salvage) countBitmaps() (err error) {
	queues, err := s.files.Queues()
	if err != nil {
		return nil // trustQueues says what that means
	}
	s.res.Bitmaps, err = s.files.extended(s.ctx, queues, func(q QueueName, phy int64) bool {
		return (s.Topic == "" || q.Topic == s.Topic) && phy >= max(s.From, s.start) && phy < min(s.To, s.end)
	})
	return err
}

const maxHeld = 1 << 16

func (s *salvage) hole(h Hole) error {
	s.res.Holes++
	s.res.HoleBytes += h.To - h.From
	return s.Hole(h)
}

// wants reports whether a record is to be copied.
func (s *salvage) wants(m *record.Meta) bool {
	return m.PhyOffset >= s.From && m.PhyOffset < s.To && m.PhyOffset < s.end && (s.Topic == "" || m.Topic == s.Topic) && s.fits(m)
}

func (s *salvage) fits(m *record.Meta) bool { return int64(m.Size)+record.BlankHeaderSize <= s.size }

// slotsOf are the places of a record's units. A record that names a queue twice has one unit in it.
func (s *salvage) slotsOf(m *record.Meta) (out []consumequeue.Slot) {
	for u := range consumequeue.Slots(m, s.multi) {
		if consumequeue.CheckName(u.Topic, u.QueueID) != nil {
			continue
		}
		double := false
		for _, o := range out {
			double = double || o.Topic == u.Topic && o.QueueID == u.QueueID
		}
		if !double {
			out = append(out, u)
		}
	}
	return out
}

func (s *salvage) count(slots []consumequeue.Slot, phyOffset, size, keys int64) {
	s.res.Records++
	s.res.Bytes += size
	s.res.Keys += keys
	for _, u := range slots {
		s.res.Units++
		s.number(u).see(u.QueueOffset, phyOffset, size)
	}
}

func (s *salvage) number(u consumequeue.Slot) *numbering {
	name := QueueName{u.Topic, u.QueueID}
	n := s.numbers[name]
	if n == nil {
		n = &numbering{}
		s.numbers[name] = n
	}
	return n
}

// leftovers tells records that RocketMQ cut, by moving its write position only, from those that a hole parts from the others: they were stored before the
// record in front of the hole, and none that was stored after it follows.
type leftovers struct {
	last, before int64 // store times of the last two records
	limit        int64 // in doubt: records stored before this time stay so
	from         int64 // of the hole in front of the first doubtful one
	doubt        bool
	atHole       bool
}

func (l *leftovers) hole(from int64) {
	if !l.doubt {
		l.atHole, l.from = true, from
	}
}

// see reports whether the record may be a leftover.
func (l *leftovers) see(m *record.Meta) bool {
	if l.atHole && !l.doubt {
		l.limit = min(l.last, l.before)
		l.doubt = m.StoreTimestamp < l.limit
	}
	l.atHole = false
	if l.doubt && m.StoreTimestamp >= l.limit {
		l.doubt = false
	}
	if l.doubt {
		return true
	}
	l.before, l.last = l.last, m.StoreTimestamp
	return false
}

func (l *leftovers) believe() { l.doubt, l.before, l.last = false, 0, 0 }

// write builds the new store and moves it into place.
func (s *salvage) write() (err error) {
	if err := s.fs.MkdirAll(s.Dest); err != nil {
		return err
	}
	lock, err := checkpoint.Lock(s.fs, s.Dest)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := s.begin(); err != nil {
		return err
	}
	if err := s.copyLog(); err != nil {
		return err
	}
	if err := s.derive(); err != nil {
		return err
	}
	if err := s.copyConfig(); err != nil {
		return err
	}
	if err := s.unused(); err != nil {
		return err
	}
	return s.moveUp()
}

// begin clears away what an interrupted salvage left, and marks the destination.
func (s *salvage) begin() error {
	if err := s.checkDest(); err != nil { // now that nobody else writes there
		return err
	}
	if _, err := os.Lstat(s.part()); err == nil {
		for _, name := range []string{"commitlog", "consumequeue", "index_pebble", "config", "checkpoint", "mqstore.summary", "quarantine"} {
			if err := os.RemoveAll(filepath.Join(s.Dest, name)); err != nil {
				return err
			}
		}
	}
	// The mark goes last, and comes first.
	list, err := os.ReadDir(s.part())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, d := range list {
		if err := os.RemoveAll(filepath.Join(s.part(), d.Name())); err != nil {
			return err
		}
	}
	return s.fs.MkdirAll(s.part())
}

// moveUp moves the new store to where it belongs, the log last.
func (s *salvage) moveUp() error {
	list, err := os.ReadDir(s.part())
	if err != nil {
		return err
	}
	for _, d := range list {
		if name := d.Name(); name != commitLogDir && name != "lock" {
			if err := os.Rename(filepath.Join(s.part(), name), filepath.Join(s.Dest, name)); err != nil {
				return err
			}
		}
	}
	if err := s.fs.SyncDir(s.Dest); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(s.part(), commitLogDir), filepath.Join(s.Dest, commitLogDir)); err != nil {
		return err
	}
	if err := s.fs.SyncDir(s.Dest); err != nil {
		return err
	}
	if err := os.RemoveAll(s.part()); err != nil {
		return err
	}
	return s.fs.SyncDir(s.Dest)
}

// derive builds queues and index of the new log.
func (s *salvage) derive() error {
	size := s.QueueFileSize
	if size == 0 {
		queues, err := s.files.Queues()
		if err == nil {
			size, err = s.files.queueFileSize(queues)
		}
		if err != nil {
			return err
		}
	}
	m, err := hold(s.ctx, Options{Root: s.part(), QueueFileSize: size, MultiDispatch: s.multi, Progress: s.Progress})
	if err != nil {
		return err
	}
	defer m.release()
	op, err := openRecovered(m, m.recovery())
	if err != nil {
		return fmt.Errorf("build the queues of the new store: %w", err)
	}
	err = func() error {
		if got := op.Report.RebuiltUnits; got != s.res.Units || op.Report.LogRecords != s.res.Records || len(op.Report.ReusedOffsets)+len(op.Report.LogGaps) > 0 {
			return fmt.Errorf("the new store has %d records and %d units instead of %d and %d (queues used twice %v, with gaps %v): has the source changed meanwhile?",
				op.Report.LogRecords, got, s.res.Records, s.res.Units, op.Report.ReusedOffsets, op.Report.LogGaps)
		}
		queues, err := s.files.Queues()
		if err != nil {
			return err
		}
		if s.Topic == "" {
			if err := keepExpired(s.files, op, queues); err != nil {
				return err
			}
		}
		keys, err := m.completePebble(op)
		if err == nil && keys != s.res.Keys {
			err = fmt.Errorf("the new index has %d keys instead of %d: has the source changed meanwhile?", keys, s.res.Keys)
		}
		return err
	}()
	if err != nil {
		return errors.Join(err, op.Close())
	}
	return m.finish(op)
}

// openNewLog is the log of the new store, empty.
func (s *salvage) openNewLog() (*commitlog.Log, error) {
	dir := filepath.Join(s.part(), commitLogDir)
	if err := s.fs.MkdirAll(dir); err != nil {
		return nil, err
	}
	log, _, err := commitlog.Open(commitlog.Options{FS: s.fs, Dir: dir, SegmentSize: s.size, NoBackground: true, Frugal: true}, commitlog.Recovery{Clean: true})
	return log, err
}
