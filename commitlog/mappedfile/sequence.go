package mappedfile

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const defaultAllocWindow = 64 << 10

// SequenceOptions: the zero value of a field is the default.
type SequenceOptions struct {
	FS       FS
	Dir      string
	FileSize int64
	ReadOnly bool
	// Sparse: files are created at full length without blocks, which are allocated in AllocWindow steps ahead of the write position (queue files).
	// Otherwise every block of a file is allocated when it is created or first written after open (commit log).
	// The creation of such files is not durable: Flush makes their bytes and lengths durable, the names are the caller's to sync (see Made), before it says that anything is.
	Sparse bool
	// AfterCrash, for sequences whose bytes can be made again: no file made since the last flush need have survived whole. A file of length 0, or one that is missing, ends the sequence;
	// it and what lies behind is left alone until TruncateTo or the next new file removes it. Lengths that are neither 0 nor FileSize do not come from that, and are refused as always.
	AfterCrash bool
	// MakeDir makes Dir when the first file needs it; nil = FS.MkdirAll, durable.
	MakeDir     func() error
	Entries     []Info // what ReadDir(Dir) just said; nil = ask it
	AllocWindow int64  // default 64 KiB for sparse sequences
	Ahead       bool   // make the next file ahead, in one goroutine, once the current one is half full
	Populate    int64  // bytes at most faulted in ahead of the write position by the same goroutine; 0 = none. The window follows the writer's speed: what is populated long before it is written would be written twice
	Prewrite    bool   // synchronous flush: turn allocated blocks into written ones ahead (populate + sync), so that a small sync costs no journal commit
}

// Sequence is fixed-size files named by their start offset (20 digits) that together hold the bytes [Min, Max).
//
// One writer at a time: Reserve, Publish, Roll, SetMax, TruncateTo, Reset, Overwrite, Remove and Close are the caller's to serialise, and bytes from Reserve
// are not touched once Remove or Close began. Any number of readers, Flush and DropHead run beside it. Readers take no lock: Max is their fence, stored only after the bytes.
type Sequence struct {
	o       SequenceOptions
	strays  []string
	left    []string // paths of what a crash left behind the sequence's end, ascending; the writer's own after open
	made    atomic.Int64
	files   atomic.Pointer[[]*file] // ascending, contiguous, never changed in place; nil = closed
	max     atomic.Int64
	flushed atomic.Int64
	failure atomic.Pointer[error] // first failed sync

	// Taken in this order; the first two order operations, and are held while they wait for the disk.
	cutting  sync.Mutex // one DropHead, TruncateTo or Close at a time
	flushing sync.Mutex // one Flush at a time, and none beside a change of Max that is not the writer's progress
	swap     sync.Mutex // one change of files at a time

	// The writer's own.
	cur     *file // the file that contains Max, blocks ready; nil = look for it
	dirMade atomic.Bool
	pipe    *pipeline // nil = none
}

// OpenSequence lists the directory (a missing one is an empty sequence; it is created with the first file). Every file named by 20 digits must be regular,
// start at a multiple of FileSize and be FileSize long: else a *FileError that names it and says what to do. A hole in the sequence is a *CorruptError.
// Other names are ignored and reported by Strays. A last file of length 0, left by a crash while it was created, is removed (ignored if ReadOnly). SequenceOptions.AfterCrash forgives more.
// Max is Min (nothing readable) until SetMax.
func OpenSequence(o SequenceOptions) (_ *Sequence, err error) {
	if o.FS == nil {
		o.FS = OS()
	}
	if o.FileSize <= 0 || o.FileSize > math.MaxInt {
		return nil, fmt.Errorf("open %s: file size %d", o.Dir, o.FileSize)
	}
	if o.AllocWindow <= 0 {
		o.AllocWindow = defaultAllocWindow
	}
	s := &Sequence{o: o}
	entries := o.Entries
	s.o.Entries = nil
	if entries == nil {
		if entries, err = o.FS.ReadDir(o.Dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("open sequence: %w", err)
		}
	}
	s.dirMade.Store(err == nil)
	segments, err := s.segments(entries)
	if err != nil {
		return nil, err
	}
	var files []*file
	defer func() {
		if err != nil {
			for _, f := range files {
				f.release()
			}
		}
	}()
	mode := MapExisting
	if o.ReadOnly {
		mode = MapReadOnly
	}
	for _, e := range segments {
		start, _ := parseName(e.Name)
		path := s.path(start)
		if n := len(files); n > 0 && files[n-1].end != start {
			return nil, &CorruptError{Path: s.path(files[n-1].end), Off: files[n-1].end,
				Err: missingFile{behind: path}}
		}
		m, err := o.FS.Map(path, o.FileSize, mode)
		if err != nil {
			return nil, fmt.Errorf("open sequence: %w", err)
		}
		f := newFile(m, path, start)
		f.modTime = e.ModTime
		files = append(files, f)
	}
	s.files.Store(&files)
	if len(files) > 0 {
		s.max.Store(files[0].start)
		s.flushed.Store(files[0].start)
	}
	if (o.Ahead || o.Populate > 0 || o.Prewrite) && !o.ReadOnly {
		s.pipe = startPipeline(s)
	}
	return s, nil
}

// segments picks and checks the files of the sequence, and removes an empty last one unless it may lie there for a while.
func (s *Sequence) segments(entries []Info) ([]Info, error) {
	var segments []Info
	for _, e := range entries {
		start, ok := parseName(e.Name)
		if !ok {
			s.strays = append(s.strays, e.Name)
			continue
		}
		path := filepath.Join(s.o.Dir, e.Name)
		if !e.Regular {
			return nil, &FileError{Path: path, Size: e.Size, Want: s.o.FileSize, Err: ErrNotRegular}
		}
		if (start < 0 || start%s.o.FileSize != 0 || start > math.MaxInt64-s.o.FileSize) && !(s.o.AfterCrash && e.Size == 0) {
			return nil, &FileError{Path: path, Size: e.Size, Want: s.o.FileSize, Err: ErrMisplaced}
		}
		segments = append(segments, e)
	}
	slices.SortFunc(segments, func(a, b Info) int { return cmpString(a.Name, b.Name) })
	end := len(segments) // what counts
	for i, e := range segments {
		path := filepath.Join(s.o.Dir, e.Name)
		switch last := i == len(segments)-1; {
		case e.Size == 0 && (last || s.o.AfterCrash):
			end = min(end, i)
		case e.Size != s.o.FileSize:
			return nil, &FileError{Path: path, Size: e.Size, Want: s.o.FileSize, Err: ErrWrongSize}
		case s.o.AfterCrash && i > 0 && s.gap(segments[i-1], e):
			end = min(end, i)
		}
	}
	for _, e := range segments[end:] {
		s.left = append(s.left, filepath.Join(s.o.Dir, e.Name))
	}
	if !s.o.AfterCrash {
		if err := s.clearLeft(); err != nil {
			return nil, fmt.Errorf("remove empty file: %w", err)
		}
	}
	return segments[:end], nil
}

// gap reports whether a file is missing between two.
func (s *Sequence) gap(a, b Info) bool {
	x, _ := parseName(a.Name)
	y, _ := parseName(b.Name)
	return x+s.o.FileSize != y
}

// clearLeft removes what a crash left behind the sequence's end, the last file first and each durably.
func (s *Sequence) clearLeft() error {
	if s.o.ReadOnly {
		return nil
	}
	for n := len(s.left) - 1; n >= 0; n-- {
		if err := s.unlink(s.left[n]); err != nil {
			return err
		}
		s.left = s.left[:n]
	}
	return nil
}

func cmpString(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// FileInfo describes one file of a Sequence: it holds [Start, End) of the stream.
type FileInfo struct {
	Path       string
	Start, End int64 // End-Start == FileSize
	ModTime    time.Time
}

// FileSize is the length of each file.
func (s *Sequence) FileSize() int64 { return s.o.FileSize }

// Strays are the names in the directory, as it was opened, that are no segment's and were ignored.
func (s *Sequence) Strays() []string { return slices.Clone(s.strays) }

// Files is a snapshot, oldest first; nil when closed.
func (s *Sequence) Files() []FileInfo {
	infos := s.Extents()
	for i := range infos {
		if st, err := s.o.FS.Stat(infos[i].Path); err == nil {
			infos[i].ModTime = st.ModTime
		}
	}
	return infos
}

// Extents is Files without looking at the disk: each ModTime is that of when the file was opened or made.
func (s *Sequence) Extents() []FileInfo {
	var infos []FileInfo
	for _, f := range s.list() {
		infos = append(infos, FileInfo{Path: f.path, Start: f.start, End: f.end, ModTime: f.modTime})
	}
	return infos
}

func (s *Sequence) list() []*file {
	if l := s.files.Load(); l != nil {
		return *l
	}
	return nil
}

// Min is the start of the first file; 0 if there is none.
func (s *Sequence) Min() int64 {
	if l := s.list(); len(l) > 0 {
		return l[0].start
	}
	return 0
}

// Max is one past the last byte that readers may see.
func (s *Sequence) Max() int64 { return s.max.Load() }

// Flushed is how far the stream is durable: bytes below survive a power loss.
func (s *Sequence) Flushed() int64 { return s.flushed.Load() }

// Made counts the files that were made since the sequence was opened: the names of those of a sparse sequence are durable once Dir, and what holds its own name, was synced after.
func (s *Sequence) Made() int64 { return s.made.Load() }

// Err is the first failure of a sync, which every later Flush returns; nil if there was none.
func (s *Sequence) Err() error {
	if p := s.failure.Load(); p != nil {
		return *p
	}
	return nil
}

func (s *Sequence) fail(err error) error {
	s.failure.CompareAndSwap(nil, &err)
	return s.Err()
}

// find returns the file that holds off. The end of the last file is nowhere.
func find(files []*file, off int64) *file {
	if len(files) == 0 || off < files[0].start || off >= files[len(files)-1].end {
		return nil
	}
	return files[(off-files[0].start)/(files[0].end-files[0].start)]
}

// SetMax declares [.., end) valid and flushed, for recovery; Min <= end <= the end of the last file (ErrNotFound). What a killed process wrote is in the page cache and
// perhaps not on disk: call SetFlushed with a lower offset and Flush where that matters. Files wholly beyond end stay until TruncateTo.
func (s *Sequence) SetMax(end int64) error {
	l := s.files.Load()
	if l == nil {
		return fmt.Errorf("set end of %s: %w", s.o.Dir, ErrClosed)
	}
	files := *l
	if len(files) == 0 && end != s.max.Load() || len(files) > 0 && (end < files[0].start || end > files[len(files)-1].end) {
		return fmt.Errorf("set end of %s to %d: outside its files: %w", s.o.Dir, end, ErrNotFound)
	}
	s.flushing.Lock()
	defer s.flushing.Unlock()
	if err := s.setCurrent(nil); err != nil {
		return err
	}
	s.max.Store(end)
	s.flushed.Store(end)
	return nil
}

// SetFlushed lowers Flushed, so that the next Flush syncs from off. Raising it is not possible.
func (s *Sequence) SetFlushed(off int64) {
	s.flushing.Lock()
	defer s.flushing.Unlock()
	s.flushed.Store(min(s.flushed.Load(), max(off, s.Min())))
}

// Reserve returns n bytes of the current file at the write position, without publishing them, and their offset, which is Max; ErrEndOfFile if they do not fit (then fill Rest and Roll).
// An empty sequence creates the file that contains Max. The bytes are in allocated blocks: storing into them cannot fail. ErrDiskFull leaves everything as it was.
// A second Reserve before Publish returns the same position.
func (s *Sequence) Reserve(n int) (dst []byte, off int64, err error) {
	off = s.max.Load()
	if f := s.cur; f != nil && n >= 0 {
		pos := off - f.start
		end := pos + int64(n)
		if end <= f.allocated.Load() {
			return f.b[pos:end:end], off, nil
		}
		if end > int64(len(f.b)) && n <= len(f.b) {
			return nil, off, ErrEndOfFile
		}
	}
	return s.reserveSlow(n, off)
}

func (s *Sequence) reserveSlow(n int, off int64) ([]byte, int64, error) {
	if n < 0 || int64(n) > s.o.FileSize {
		return nil, off, fmt.Errorf("reserve %d bytes: a file of %s has %d", n, s.o.Dir, s.o.FileSize)
	}
	f := s.cur
	if f == nil {
		var err error
		if f, err = s.locate(off); err != nil {
			return nil, off, err
		}
	}
	pos := off - f.start
	end := pos + int64(n)
	if end > int64(len(f.b)) {
		return nil, off, ErrEndOfFile
	}
	if err := s.allocate(f, pos, end); err != nil {
		return nil, off, err
	}
	if s.cur != f {
		if err := s.setCurrent(f); err != nil {
			return nil, off, err
		}
	}
	return f.b[pos:end:end], off, nil
}

// locate finds or makes the file that contains Max.
func (s *Sequence) locate(off int64) (*file, error) {
	l := s.files.Load()
	if l == nil {
		return nil, fmt.Errorf("append to %s: %w", s.o.Dir, ErrClosed)
	}
	if s.o.ReadOnly {
		return nil, fmt.Errorf("append to %s: %w", s.o.Dir, ErrReadOnly)
	}
	files := *l
	if len(files) == 0 {
		f, err := s.create(off - off%s.o.FileSize)
		if err != nil {
			return nil, err
		}
		s.append(f)
		return f, nil
	}
	last := files[len(files)-1]
	if off < last.start {
		return nil, fmt.Errorf("append to %s at %d: files lie beyond, up to %s: TruncateTo first", s.o.Dir, off, last.path)
	}
	return last, nil
}

// allocate makes sure that [pos, end) of f, and what the options want beyond, has blocks.
func (s *Sequence) allocate(f *file, pos, end int64) error {
	have := f.allocated.Load()
	if end <= have {
		return nil
	}
	size := int64(len(f.b))
	from := have
	if have == 0 {
		from = pos &^ (pageSize - 1) // an existing file of which nothing is known, or a new sparse one
	}
	to := size
	if s.o.Sparse {
		to = min(size, (end+s.o.AllocWindow+pageSize-1)&^(pageSize-1))
	}
	if from < to {
		if err := f.m.Allocate(from, to-from); err != nil {
			return fmt.Errorf("append to %s: %w", s.o.Dir, err)
		}
	}
	if have == 0 && s.o.Prewrite {
		_ = f.m.Advise(AdviceDontNeed, pos, size-pos) // read or written by large calls before, the file lies in large folios: each small sync would write a whole one
	}
	f.allocated.Store(to)
	return nil
}

// create makes and maps the file at start, and its directory. The writer calls it, or the pipeline in its stead.
func (s *Sequence) create(start int64) (*file, error) {
	if start > math.MaxInt64-s.o.FileSize {
		return nil, fmt.Errorf("append to %s: offsets are used up: %w", s.o.Dir, ErrEndOfFile)
	}
	if !s.dirMade.Load() {
		makeDir := s.o.MakeDir
		if makeDir == nil {
			makeDir = func() error { return s.o.FS.MkdirAll(s.o.Dir) }
		}
		if err := makeDir(); err != nil {
			return nil, err
		}
		s.dirMade.Store(true)
	}
	if err := s.clearLeft(); err != nil {
		return nil, fmt.Errorf("remove what a crash left: %w", err)
	}
	mode := MapCreate
	if s.o.Sparse {
		mode = MapCreateSparse
	}
	path := s.path(start)
	m, err := s.o.FS.Map(path, s.o.FileSize, mode)
	if err != nil {
		return nil, fmt.Errorf("next file: %w", err)
	}
	s.made.Add(1)
	f := newFile(m, path, start)
	if !s.o.Sparse {
		f.allocated.Store(s.o.FileSize)
	}
	if st, err := s.o.FS.Stat(path); err == nil {
		f.modTime = st.ModTime
	}
	return f, nil
}

func (s *Sequence) append(f *file) {
	s.swap.Lock()
	defer s.swap.Unlock()
	files := append(slices.Clip(s.list()), f)
	s.files.Store(&files)
}

// Rest is how many bytes are left in the current file; 0 when there is none or it is full.
func (s *Sequence) Rest() int64 {
	off := s.max.Load()
	if f := find(s.list(), off); f != nil {
		return f.end - off
	}
	return 0
}

// Publish says that the bytes before end are complete: readers may see them. Max <= end <= the end of the current file.
func (s *Sequence) Publish(end int64) {
	f := s.cur
	if f == nil || end > f.end || end < s.max.Load() {
		if end == s.max.Load() {
			return
		}
		panic(fmt.Sprintf("mappedfile: publish %d: nothing reserved there", end))
	}
	s.max.Store(end)
	if p := s.pipe; p != nil {
		p.advance(f, end)
	}
}

// Roll makes the next file current: Max jumps to its start, past whatever was not published of the old one. ErrDiskFull leaves everything as it was and can be retried.
func (s *Sequence) Roll() error {
	f := s.cur
	if f == nil {
		var err error
		if f, err = s.locate(s.max.Load()); err != nil {
			return err
		}
	}
	var next *file
	var err error
	if s.pipe != nil {
		next = s.pipe.take(f.end)
	}
	if next == nil {
		if next, err = s.create(f.end); err != nil {
			return err
		}
	}
	s.append(next)
	s.max.Store(next.start)
	return s.setCurrent(next)
}

// setCurrent is the only place where cur changes. A nil f also discards what the pipeline made for the old one.
func (s *Sequence) setCurrent(f *file) error {
	if s.cur != nil && f == nil {
		s.cur.allocated.Store(0) // the next write may be before the place where ours began
	}
	s.cur = f
	if s.pipe == nil {
		return nil
	}
	if f == nil {
		if next := s.pipe.take(-1); next != nil {
			return s.discard(next)
		}
		return nil
	}
	s.pipe.follow(f)
	return nil
}

// discard removes a file that was made and never used.
func (s *Sequence) discard(f *file) error {
	err := s.unlink(f.path)
	f.release()
	return err
}

// unlink is durable when it returns, so that of several never a later one survives an earlier one.
func (s *Sequence) unlink(path string) error {
	if err := s.o.FS.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return s.o.FS.SyncDir(s.o.Dir)
}

// Reset moves an empty sequence: the next file is the one containing start, and Max = Flushed = start (a slave; a queue after its head expired). Files that hold nothing are removed, durably.
func (s *Sequence) Reset(start int64) error {
	l := s.files.Load()
	switch {
	case l == nil:
		return fmt.Errorf("reset %s: %w", s.o.Dir, ErrClosed)
	case s.o.ReadOnly:
		return fmt.Errorf("reset %s: %w", s.o.Dir, ErrReadOnly)
	case len(*l) > 0 && s.max.Load() != (*l)[0].start:
		return fmt.Errorf("reset %s to %d: it holds [%d, %d)", s.o.Dir, start, (*l)[0].start, s.max.Load())
	case start < 0 || start > math.MaxInt64-s.o.FileSize:
		return fmt.Errorf("reset %s to %d: %w", s.o.Dir, start, ErrNotFound)
	}
	s.cutting.Lock()
	defer s.cutting.Unlock()
	s.flushing.Lock()
	defer s.flushing.Unlock()
	if files := s.list(); len(files) > 0 {
		if err := s.setCurrent(nil); err != nil {
			return s.fail(fmt.Errorf("reset %s to %d: %w", s.o.Dir, start, err))
		}
		for _, f := range slices.Backward(files) {
			if err := s.unlink(f.path); err != nil {
				return s.fail(fmt.Errorf("reset %s to %d: %w", s.o.Dir, start, err))
			}
			s.drop(f)
		}
	}
	s.max.Store(start)
	s.flushed.Store(start)
	return nil
}

// Flush syncs [Flushed, Max), over as many files as that takes, and returns the new Flushed. It runs beside the writer.
// A failed sync is final: the kernel may have dropped the pages, so every later Flush returns the same error.
func (s *Sequence) Flush() (flushed int64, err error) {
	s.flushing.Lock()
	defer s.flushing.Unlock()
	if err := s.Err(); err != nil {
		return s.flushed.Load(), err
	}
	if s.files.Load() == nil {
		return s.flushed.Load(), fmt.Errorf("flush %s: %w", s.o.Dir, ErrClosed)
	}
	to := s.max.Load() // before the list: every file below it is there, or was dropped
	from := s.flushed.Load()
	for _, f := range s.list() {
		if f.end <= from || f.start >= to || from >= to {
			continue
		}
		if !f.acquire() {
			continue // dropped meanwhile
		}
		a, b := max(from, f.start), min(to, f.end)
		err := f.m.Sync(a-f.start, b-a)
		f.release()
		if err != nil {
			return s.flushed.Load(), s.fail(fmt.Errorf("flush %s: %w", s.o.Dir, err))
		}
		s.flushed.Store(b)
	}
	if s.flushed.Load() < to {
		s.flushed.Store(to) // the rest was dropped from the head
	}
	if err := s.Err(); err != nil { // the pipeline's sync failed beside ours, and may have taken the report of our pages
		return from, err
	}
	return to, nil
}

// Overwrite replaces bytes of one existing file, whatever Max says, and syncs them: recovery only.
func (s *Sequence) Overwrite(off int64, b []byte) error {
	if s.o.ReadOnly {
		return fmt.Errorf("overwrite %s at %d: %w", s.o.Dir, off, ErrReadOnly)
	}
	f := find(s.list(), off)
	if f == nil || int64(len(b)) > f.end-off {
		return fmt.Errorf("overwrite %s at %d, %d bytes: %w", s.o.Dir, off, len(b), ErrNotFound)
	}
	pos, n := off-f.start, int64(len(b))
	if err := f.m.Allocate(pos, n); err != nil {
		return fmt.Errorf("overwrite %s at %d: %w", s.o.Dir, off, err)
	}
	copy(f.b[pos:], b)
	if m, ok := f.m.(interface{ Stored(off, n int64) }); ok {
		m.Stored(pos, n) // a kernel sees by itself that a page was stored to, also with the bytes that it had
	}
	if err := f.m.Sync(pos, n); err != nil {
		return s.fail(fmt.Errorf("overwrite %s at %d: %w", s.o.Dir, off, err))
	}
	return nil
}

// Advise passes advice for [off, end) of the stream to the kernel, best effort.
func (s *Sequence) Advise(a Advice, off, end int64) {
	for _, f := range s.list() {
		from, to := max(off, f.start), min(end, f.end)
		if from < to && f.acquire() {
			_ = f.m.Advise(a, from-f.start, to-from)
			f.release()
		}
	}
}

// DropHead removes the first n files (never the last one), oldest first: each is unlinked, durably, and unmapped when its last View is released.
func (s *Sequence) DropHead(n int) (dropped int, err error) {
	if s.o.ReadOnly {
		return 0, fmt.Errorf("drop files of %s: %w", s.o.Dir, ErrReadOnly)
	}
	s.cutting.Lock()
	defer s.cutting.Unlock()
	for dropped < n {
		files := s.list()
		if len(files) < 2 || files[0].end > s.max.Load() {
			return dropped, nil
		}
		if err := s.unlink(files[0].path); err != nil {
			return dropped, fmt.Errorf("drop file: %w", err)
		}
		s.drop(files[0])
		dropped++
	}
	return dropped, nil
}

// drop takes one file off the list.
func (s *Sequence) drop(f *file) {
	s.swap.Lock()
	files := slices.DeleteFunc(slices.Clone(s.list()), func(g *file) bool { return g == f })
	s.files.Store(&files)
	s.swap.Unlock()
	f.release()
}

// Remove deletes all files, the last one first, and the directory unless strays lie in it, and closes the sequence. Views stay valid.
func (s *Sequence) Remove() error {
	if s.o.ReadOnly {
		return fmt.Errorf("remove %s: %w", s.o.Dir, ErrReadOnly)
	}
	if s.files.Load() == nil {
		return fmt.Errorf("remove %s: %w", s.o.Dir, ErrClosed)
	}
	files := s.list()
	if err := s.Close(); err != nil {
		return err
	}
	if err := s.clearLeft(); err != nil {
		return fmt.Errorf("remove what a crash left: %w", err)
	}
	for _, f := range slices.Backward(files) {
		if err := s.unlink(f.path); err != nil {
			return fmt.Errorf("remove file: %w", err)
		}
	}
	left, err := s.o.FS.ReadDir(s.o.Dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(left) > 0 {
		return nil
	}
	if err == nil {
		err = s.o.FS.RemoveDir(s.o.Dir)
	}
	if err == nil {
		err = s.o.FS.SyncDir(filepath.Dir(s.o.Dir))
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", s.o.Dir, err)
	}
	return nil
}

// Close stops the goroutine and unmaps what no View holds. It does not flush. A file that was made ahead and never used is removed.
func (s *Sequence) Close() error {
	var err error
	if s.pipe != nil && s.files.Load() != nil {
		err = s.setCurrent(nil)
		s.pipe.stop()
	}
	s.cutting.Lock()
	defer s.cutting.Unlock()
	s.flushing.Lock()
	defer s.flushing.Unlock()
	s.swap.Lock()
	l := s.files.Swap(nil)
	s.swap.Unlock()
	if l == nil {
		return fmt.Errorf("close %s: %w", s.o.Dir, ErrClosed)
	}
	s.cur = nil
	for _, f := range *l {
		f.release()
	}
	return err
}
