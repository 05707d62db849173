package repair

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mqstore/mqstore/checkpoint"
	"github.com/mqstore/mqstore/commitlog"
	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/consumequeue"
	"github.com/mqstore/mqstore/index"
	"github.com/mqstore/mqstore/store/internal/recovery"
)

// ImportOptions say how an archive becomes a store. The zero value is what production wants.
type ImportOptions struct {
	DryRun   bool                                  // read and check everything, write nothing
	Progress func(stage string, done, total int64) // of stages "queues" and others, in bytes of the log; what of the archive is read the caller sees. May be nil
}

// Imported is what an import made.
type Imported struct {
	Totals
	SegmentSize int64
	Min, Max    int64 // physical offsets of the log
	Moved       int64 // records that do not lie where they lay: the archive lacks what was before them
	FirstMoved  int64 // where the first of them lay; -1: none
	Renumbered  int64 // queues whose records got other queue offsets, since damage left some of them out
	Notes       []string
}

// importDir is where an import works, in the store's directory: what lies there is no store yet.
const importDir = "import.partial"

// imports are what an import makes, in the order in which it becomes the store's: with the log there is a store.
var imports = []string{queueDir, pebbleDir, "mqstore.summary", checkpointFle, commitLogDir}

// Import makes a store of an archive in dir, which must be empty or not exist: the same records, byte for byte, with their queues, an index and a checkpoint, as after a clean exit.
//
// Physical offsets stay what they were as long as the archive has every record from a segment's start on, or lacks whole segments (up to maxBlankSegments in a row, which become blank). From the first other gap on (a filter, or damage that was left out) the records are laid behind each other, the first ones from 0;
// then offsets that are stored elsewhere (message ids, PreparedTransactionOffset) name what lay in the old store.
//
// Queue offsets stay what they were, too, but in queues of which damage left records out of the archive: no consumer would get past the gap. As by [Salvage], records behind a queue's last gap keep their offsets, those before move
// up; the offsets of light queues (LMQ), which lie in the records' properties, are left alone.
//
// Nothing in the archive is believed: what cannot be is an *ArchiveError with its line, and leaves dir as it was. An import that was killed leaves a directory that is no store, and can be run again. A running process that has
// dir locked is a *mappedfile.LockedError. Memory does not grow with the archive.
func Import(ctx context.Context, r io.Reader, dir string, o ImportOptions) (*Imported, error) {
	a, err := openArchive(r)
	if err != nil {
		return nil, err
	}
	defer a.close()
	return importArchive(ctx, a, dir, o)
}

func importArchive(ctx context.Context, a *archiveReader, dir string, o ImportOptions) (*Imported, error) {
	if a.head.SegmentSize == 0 {
		a.head.SegmentSize = 1 << 30
	}
	im := &importer{ctx: ctx, a: a, o: o, dir: dir, work: filepath.Join(dir, importDir), lay: layout{segment: a.head.SegmentSize},
		out: &Imported{SegmentSize: a.head.SegmentSize, FirstMoved: -1}, numbers: map[QueueName]*numbering{}, uneven: map[QueueName]bool{}}
	if o.DryRun {
		if err := im.mayBegin(); err != nil {
			return nil, err
		}
		return im.out, im.records()
	}
	made, err := im.begin()
	if err != nil {
		return nil, err
	}
	if err := im.run(); err != nil {
		im.abandon(made)
		return nil, err
	}
	return im.out, im.lock.Close()
}

// ErrNotEmpty: the directory that a store is to be made in holds something.
var ErrNotEmpty = errors.New("the directory is not empty")

type importer struct {
	ctx  context.Context
	a    *archiveReader
	o    ImportOptions
	dir  string
	work string
	lock io.Closer
	lay  layout
	out  *Imported

	parser  record.Parser
	log     *logWriter
	index   *index.Index
	numbers map[QueueName]*numbering
	uneven  map[QueueName]bool // queues whose records do not follow one another
}

// mayBegin refuses a directory that holds anything but what an import was killed over.
func (im *importer) mayBegin() error {
	list, err := os.ReadDir(im.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var left []string
	partial := false
	for _, d := range list {
		switch n := d.Name(); n {
		case "lock", "lost+found":
		case importDir:
			partial = true
		default:
			left = append(left, n)
		}
	}
	if partial && !slices.Contains(left, commitLogDir) {
		left = slices.DeleteFunc(left, func(n string) bool { return slices.Contains(imports, n) })
	}
	if len(left) > 0 {
		return fmt.Errorf("%w: %s holds %s: give an empty directory or a new one", ErrNotEmpty, im.dir, strings.Join(left[:min(len(left), 5)], ", "))
	}
	return nil
}

// begin takes the directory and removes what a killed import left there.
func (im *importer) begin() (made bool, err error) {
	if err := im.mayBegin(); err != nil {
		return false, err
	}
	fsys := mappedfile.OS()
	if _, err := os.Stat(im.dir); errors.Is(err, fs.ErrNotExist) {
		made = true
	}
	if err := fsys.MkdirAll(im.dir); err != nil {
		return false, err
	}
	if im.lock, err = checkpoint.Lock(fsys, im.dir); err != nil {
		return false, err
	}
	err = im.mayBegin() // nobody came between
	for _, n := range append(slices.Clone(imports), importDir) {
		if err == nil {
			err = os.RemoveAll(filepath.Join(im.dir, n)) // importDir last: it says that the others may go
		}
	}
	if err == nil {
		err = fsys.MkdirAll(filepath.Join(im.work, commitLogDir))
	}
	if err != nil {
		im.lock.Close()
		return false, err
	}
	return made, nil
}

// abandon leaves the directory as it was.
func (im *importer) abandon(made bool) {
	if im.index != nil {
		im.index.Close()
	}
	if im.log != nil {
		im.log.abandon()
	}
	if os.RemoveAll(im.work) == nil && made {
		os.Remove(filepath.Join(im.dir, "lock"))
		os.Remove(im.dir)
	}
	im.lock.Close()
}

func (im *importer) run() error {
	im.log = &logWriter{dir: filepath.Join(im.work, commitLogDir), segment: im.lay.segment}
	if err := im.records(); err != nil {
		return err
	}
	if err := im.log.close(); err != nil {
		return err
	}
	if im.index != nil {
		err := errors.Join(im.index.Flush(), im.index.Close())
		im.index = nil
		if err != nil {
			return fmt.Errorf("write the index: %w", err)
		}
	}
	if im.out.Renumbered > 0 {
		if err := im.renumber(); err != nil {
			return err
		}
	}
	if err := im.queues(); err != nil {
		return err
	}
	return im.settle()
}

// records reads the archive, and writes the log and the index unless this is only to show what would be.
func (im *importer) records() error {
	var meta record.Meta
	for n := 0; ; n++ {
		if n%64 == 0 {
			if err := im.ctx.Err(); err != nil {
				return err
			}
		}
		b, r, err := im.a.read()
		if err == io.EOF {
			if im.a.tail.Damaged > 0 {
				im.out.Notes = append(im.out.Notes, plural(im.a.tail.Damaged, "damaged place was", "damaged places were")+" left out when the archive was made")
				im.out.Renumbered = int64(len(im.uneven))
			}
			return nil
		}
		if err != nil {
			return err
		}
		at, err := im.lay.place(r.phyOffset, len(b))
		if err != nil {
			return im.a.fail("%v", err)
		}
		if at != r.phyOffset {
			if im.out.Moved == 0 {
				im.out.FirstMoved = r.phyOffset
			}
			im.out.Moved++
			record.Patch(b, r.queueOffset, at, r.storeTimestamp)
		}
		if err := im.parser.Parse(b, at, &meta); err != nil {
			return im.a.fail("the record that its fields make cannot be read: %v", err)
		}
		im.count(&meta)
		if im.o.DryRun {
			continue
		}
		if err := im.log.put(b, at); err != nil {
			return err
		}
		if im.index == nil {
			if im.index, err = index.Open(newIndexOptions(filepath.Join(im.work, pebbleDir), im.lay.segment, at)); err != nil {
				return fmt.Errorf("make the index: %w", err)
			}
		}
		if err := im.index.Dispatch(&meta); err != nil {
			return fmt.Errorf("write the index: %w", err)
		}
	}
}

func (im *importer) count(m *record.Meta) {
	t := im.out
	if t.Records == 0 {
		t.Min = m.PhyOffset
	}
	t.Max = m.PhyOffset + int64(m.Size)
	t.Records++
	t.Bytes += int64(m.Size)
	t.Keys += int64(index.Keys(m))
	if !m.HasUnit() {
		return
	}
	t.Units++
	name := QueueName{m.Topic, m.QueueID}
	q := im.numbers[name]
	if q == nil {
		q = &numbering{}
		im.numbers[name] = q
	} else if m.QueueOffset != q.end {
		im.uneven[name] = true
	}
	q.see(m.QueueOffset, m.PhyOffset, int64(m.Size))
}

// renumber gives the records of uneven queues offsets that follow one another, in the log that was written.
func (im *importer) renumber() error {
	files, err := Look(os.DirFS(im.work), nil)
	if err != nil {
		return err
	}
	r, err := files.ReadLog(0)
	if err != nil {
		return err
	}
	defer r.Close()
	r.MetaOnly = true
	var (
		f   *os.File
		seg Segment
		buf []byte
	)
	shut := func() error {
		if f == nil {
			return nil
		}
		err := errors.Join(f.Sync(), f.Close())
		f = nil
		return err
	}
	defer shut()
	for n := 0; ; n++ {
		if n%64 == 0 {
			if err := im.ctx.Err(); err != nil {
				return err
			}
			im.progress("renumber", r.Offset()-im.out.Min, im.out.Max-im.out.Min)
		}
		rec, err := r.Next()
		if err == io.EOF {
			return shut()
		}
		if err != nil {
			return err
		}
		m := &rec.Meta
		name := QueueName{m.Topic, m.QueueID}
		if !m.HasUnit() || !im.uneven[name] {
			continue
		}
		at := im.numbers[name].next(m.QueueOffset)
		if at == m.QueueOffset {
			continue
		}
		buf = append(buf[:0], rec.Bytes...)
		record.Patch(buf, at, m.PhyOffset, m.StoreTimestamp)
		if f == nil || m.PhyOffset >= seg.End() {
			if err := shut(); err != nil {
				return err
			}
			seg = Segment{Start: m.PhyOffset / im.lay.segment * im.lay.segment, Size: im.lay.segment}
			if f, err = os.OpenFile(filepath.Join(im.work, commitLogDir, fmt.Sprintf("%0*d", fileNameDigits, seg.Start)), os.O_WRONLY, 0); err != nil {
				return err
			}
		}
		if _, err := f.WriteAt(buf, m.PhyOffset-seg.Start); err != nil {
			return err
		}
	}
}

// newIndexOptions are those of an index that is made of a whole log, whose first record is at min.
func newIndexOptions(dir string, segment, min int64) index.Options {
	return index.Options{Dir: dir, MinPhyOffset: min, MaxPhyOffset: min, BucketSize: bucketSize(segment), NoBackground: true,
		Record: func(int64, func(*record.Meta)) (bool, error) { return false, nil }} // asked about entries of before: there are none
}

// queues makes them of the log, by the recovery that every opening of a store begins with, and leaves everything as after a clean exit.
func (im *importer) queues() error {
	fsys := mappedfile.OS()
	op, err := recovery.Open(recovery.Options{FS: fsys, Root: im.work, MultiDispatch: im.a.head.MultiDispatch, Progress: im.progress,
		CommitLog: commitlog.Options{SegmentSize: im.lay.segment, NoBackground: true, Frugal: true},
		Queues:    consumequeue.Options{}})
	if err != nil {
		return fmt.Errorf("make the queues: %w", err)
	}
	if im.out.Records > 0 && op.Report.End != im.out.Max {
		op.Close()
		return fmt.Errorf("the log that was written ends at %d, not at %d", op.Report.End, im.out.Max)
	}
	im.out.Units = op.Report.RebuiltUnits
	if n := op.Report.UnqueuedRecords; n > 0 {
		im.out.Notes = append(im.out.Notes, fmt.Sprintf("%d records are of topics or queue offsets that no queue can have: they are in the log only", n))
	}
	for _, q := range [][]string{op.Report.ReusedOffsets, op.Report.LogGaps} {
		if len(q) > 0 {
			im.out.Notes = append(im.out.Notes, fmt.Sprintf("%d queues lack records or have an offset twice, %s among them", len(q), q[0]))
		}
	}
	return op.Seal(fsys, im.work)
}

func (im *importer) progress(stage string, done, total int64) {
	if im.o.Progress != nil {
		im.o.Progress(stage, done, total)
	}
}

// settle makes what was written the store. Until the log is in its place there is none, and the import can be run again.
func (im *importer) settle() error {
	fsys := mappedfile.OS()
	if err := im.ctx.Err(); err != nil {
		return err
	}
	for _, n := range imports {
		from := filepath.Join(im.work, n)
		if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if n == commitLogDir {
			if err := fsys.SyncDir(im.dir); err != nil {
				return err
			}
		}
		if err := fsys.Rename(from, filepath.Join(im.dir, n)); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(im.work); err != nil {
		return err
	}
	return fsys.SyncDir(im.dir)
}

// layout decides where records go in segments of one size.
type layout struct {
	segment int64
	begun   bool
	end     int64 // behind the last record
}

// maxBlankSegments is how many segments without a record may lie between two records. RocketMQ leaves one now and then; a lost one is as good, and later offsets stay what they were.
const maxBlankSegments = 16

// place is where a record of size bytes goes that lay at want: there, if it follows the last one, or its blank; else behind the last one.
func (l *layout) place(want int64, size int) (at int64, err error) {
	if int64(size) > l.segment {
		return 0, fmt.Errorf("a record of %d bytes does not fit a segment of %d", size, l.segment)
	}
	if want > 1<<62 {
		return 0, fmt.Errorf("physical offset %d", want)
	}
	if !l.begun {
		l.begun = true
		if want%l.segment == 0 {
			l.end = want
		}
	}
	in := l.end % l.segment
	room := l.segment - in
	switch {
	case want == l.end && int64(size) <= room:
		at = want
	case want > l.end && want%l.segment == 0 && (want-l.end)/l.segment <= maxBlankSegments:
		at = want
	case int64(size)+record.BlankHeaderSize <= room:
		at = l.end
	default:
		if at = l.end; in > 0 {
			at += room
		}
		if int64(size)+record.BlankHeaderSize > l.segment {
			return 0, fmt.Errorf("a record of %d bytes does not fit a segment of %d with the blank that must follow it", size, l.segment)
		}
	}
	l.end = at + int64(size)
	return at, nil
}

// logWriter writes the segments of a log, sparse behind its end, each durable when the next begins.
type logWriter struct {
	dir     string
	segment int64
	f       *os.File
	w       *bufio.Writer
	start   int64 // of the open segment
	end     int64
}

// put writes a record at an offset in the open segment or at the start of a later one.
func (l *logWriter) put(b []byte, at int64) error {
	if l.f == nil {
		if err := l.open(at); err != nil {
			return err
		}
	}
	for at >= l.start+l.segment {
		if room := l.start + l.segment - l.end; room >= record.BlankHeaderSize {
			var blank [record.BlankHeaderSize]byte
			record.PutBlank(blank[:], int(room))
			if _, err := l.w.Write(blank[:]); err != nil {
				return err
			}
		}
		next := l.start + l.segment
		if err := l.close(); err != nil {
			return err
		}
		if err := l.open(next); err != nil {
			return err
		}
	}
	n, err := l.w.Write(b)
	l.end += int64(n)
	return err
}

// open begins the segment at start.
func (l *logWriter) open(start int64) error {
	f, err := os.OpenFile(filepath.Join(l.dir, fmt.Sprintf("%0*d", fileNameDigits, start)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	l.f, l.start, l.end = f, start, start
	if l.w == nil {
		l.w = bufio.NewWriterSize(nil, 1<<20)
	}
	l.w.Reset(f)
	return nil
}

// close gives the open segment its length and makes it durable.
func (l *logWriter) close() error {
	if l.f == nil {
		return nil
	}
	f := l.f
	l.f = nil
	err := l.w.Flush()
	if err == nil {
		err = f.Truncate(l.segment)
	}
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return mappedfile.OS().SyncDir(l.dir)
}

func (l *logWriter) abandon() {
	if l.f != nil {
		l.f.Close()
		l.f = nil
	}
}
