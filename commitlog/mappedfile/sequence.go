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
	Lay         bool   // asynchronous flush, commit log: the writer writes zeros ahead of itself, by calls of up to 256 KiB, before it stores into the mapping, so that its stores cost less. Ignored where calls and mappings do not see each other's bytes at once
	Staged      bool   // synchronous flush, commit log: Write collects in memory what a Flush then writes by one call, which makes small syncs cheaper. Ignored where calls and mappings do not see each other's bytes at once
	Prewrite    bool   // synchronous flush: turn allocated blocks into written ones ahead (populate + sync), so that a small sync costs no journal commit
}

// Sequence is fixed-size files named by their start offset (20 digits) that together hold the bytes [Min, Max).
//
// One writer at a time: Reserve, Publish, Roll, SetMax, TruncateTo, Reset, Overwrite, Remove and Close are the caller's to serialise, and bytes from Reserve
// are not touched once Remove or Close began. Any number of readers, Flush and DropHead run beside it. Readers take no lock, unless what they read is staged: Max is their fence, stored only after the bytes.
type Sequence struct {
	o       SequenceOptions
	strays  []string
	left    []string // paths of what a crash left behind the sequence's end, ascending; the writer's own after open
	made    atomic.Int64
	files   atomic.Pointer[[]*file] // ascending, contiguous, never changed in place; nil = closed
	max     atomic.Int64
	flushed atomic.Int64
	failure atomic.Pointer[error] // first failed sync
	written atomic.Int64          // of a staged sequence: the mappings hold what is below
	doubt   atomic.Int64          // what a Flush covers below is renewed, see Doubt; stored under flushing
	stage   stage                 // its locks are taken under the first two of those below, and never together with the third

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
	o.Staged = o.Staged && !o.ReadOnly && callsAndMappingsAgree
	o.Lay = o.Lay && callsAndMappingsAgree
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
		s.written.Store(files[0].start)
	}
	if (o.Ahead || o.Prewrite) && !o.ReadOnly {
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
	s.unstage(end)
	s.flushed.Store(end)
	s.doubt.Store(0)
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
