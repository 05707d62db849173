package repair

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"sort"
	"strconv"

	"github.com/mqstore/mqstore/checkpoint"
)

// The names in a store directory (RocketMQ 4.9.8, spec/commitlog-format.md 1.1).
const (
	commitLogDir  = "commitlog"
	queueDir      = "consumequeue"
	extDir        = "consumequeue_ext"
	indexDir      = "index"
	abortFile     = "abort"
	checkpointFle = "checkpoint"
)

// fileNameDigits is the length of a segment's name: its start offset in decimal.
const fileNameDigits = 20

// Files is a store directory as it lies. It is safe for concurrent use; what it lists is as of [Look].
type Files struct {
	root, log fs.FS
	segments  []Segment
}

// Segment is one file of the log or of a queue: the bytes [Start, Start+Size) of its stream.
type Segment struct {
	Path  string // within the file system that it was listed from
	Start int64
	Size  int64
}

// End is the offset behind the segment.
func (s Segment) End() int64 { return s.Start + s.Size }

// Look lists the store below root. log is the commit log's directory where it is not root's commitlog; else nil.
// A directory that is no store is a *NotAStoreError. An empty store has no segments and is no error.
func Look(root, log fs.FS) (*Files, error) {
	if err := isStore(root, log != nil); err != nil {
		return nil, err
	}
	if log == nil {
		sub, err := fs.Sub(root, commitLogDir)
		if err != nil {
			return nil, err
		}
		log = sub
	}
	segs, err := segments(log, ".")
	if err != nil {
		if pe := (*fs.PathError)(nil); errors.As(err, &pe) && pe.Path == "." {
			err = pe.Err // of a directory that the caller knows by name
		}
		return nil, fmt.Errorf("list the commit log's directory: %w: is %s/ the right one? (--commitlog, if it lies elsewhere)", err, commitLogDir)
	}
	return &Files{root: root, log: log, segments: segs}, nil
}

// NotAStoreError says what was looked for in a directory and what is there instead.
type NotAStoreError struct {
	Has    []string // the directory's entries, the first few
	More   int      // entries beyond them
	Within string   // a directory below that is a store, "" if none was seen
	Inside bool     // the directory looks like one of a store's own directories: the store is its parent, or above
}

func (e *NotAStoreError) Error() string {
	s := "no message store here: looked for commitlog/, consumequeue/ and checkpoint, found "
	switch {
	case len(e.Has) == 0:
		s += "an empty directory"
	default:
		for i, n := range e.Has {
			if i > 0 {
				s += " "
			}
			s += n
		}
		if e.More > 0 {
			s += fmt.Sprintf(" and %d more", e.More)
		}
	}
	switch {
	case e.Within != "":
		s += "; " + e.Within + "/ below it is one"
	case e.Inside:
		s += "; this looks like a directory inside a store: give the one above it"
	}
	return s
}

func isStore(root fs.FS, logElsewhere bool) error {
	list, err := fs.ReadDir(root, ".")
	if err != nil {
		return err
	}
	if looksLikeStore(list) || logElsewhere {
		return nil
	}
	e := &NotAStoreError{}
	for _, d := range list {
		name := d.Name()
		if len(e.Has) < 6 {
			if d.IsDir() {
				name += "/"
			}
			e.Has = append(e.Has, name)
		} else {
			e.More++
		}
		if _, ok := segmentStart(d.Name()); ok {
			e.Inside = true
		}
		if e.Within == "" && d.IsDir() {
			if below, err := fs.ReadDir(root, d.Name()); err == nil && looksLikeStore(below) {
				e.Within = d.Name()
			}
		}
	}
	return e
}

func looksLikeStore(list []fs.DirEntry) bool {
	for _, d := range list {
		switch d.Name() {
		case commitLogDir, queueDir:
			if d.IsDir() {
				return true
			}
		case checkpointFle, abortFile:
			if !d.IsDir() {
				return true
			}
		}
	}
	return false
}

// segmentStart is the start offset that a segment's name says; false for other names.
func segmentStart(name string) (int64, bool) {
	if len(name) != fileNameDigits {
		return 0, false
	}
	n, err := strconv.ParseInt(name, 10, 64)
	return n, err == nil && n >= 0
}

// segmentName is the name of the segment that starts at an offset.
func segmentName(start int64) string { return fmt.Sprintf("%0*d", fileNameDigits, start) }

// segments lists the segment files of dir in order; a missing directory has none.
func segments(fsys fs.FS, dir string) ([]Segment, error) {
	list, err := listSegments(fsys, dir)
	if err != nil || len(list) == 0 {
		return list, err
	}
	return askForMissing(fsys, dir, list, list[0].Size), nil
}

// maxAskedFor bounds how many files of a listing's holes are asked for by name.
const maxAskedFor = 10_000

// askForMissing asks by name for the files of size bytes that an ordered listing lacks between others, and adds those that are there: a listing beside a store that makes files may have a later one and miss an earlier one.
func askForMissing(fsys fs.FS, dir string, list []Segment, size int64) []Segment {
	if len(list) < 2 || size <= 0 {
		return list
	}
	asked := 0
	out := list[:1:1]
	for _, next := range list[1:] {
		for start := out[len(out)-1].Start + size; start > 0 && start < next.Start && asked < maxAskedFor; start += size {
			asked++
			name := path.Join(dir, segmentName(start))
			if info, err := fs.Stat(fsys, name); err == nil && info.Mode().IsRegular() {
				out = append(out, Segment{Path: name, Start: start, Size: info.Size()})
			}
		}
		out = append(out, next)
	}
	return out
}

func listSegments(fsys fs.FS, dir string) ([]Segment, error) {
	list, err := fs.ReadDir(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []Segment
	for _, d := range list {
		start, ok := segmentStart(d.Name())
		if !ok || !d.Type().IsRegular() {
			continue
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted since: a live store expires its head
		}
		if err != nil {
			return nil, err
		}
		out = append(out, Segment{Path: path.Join(dir, d.Name()), Start: start, Size: info.Size()})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Start < out[j].Start })
	return out, nil
}

// Segments are the log's files, oldest first.
func (f *Files) Segments() []Segment { return f.segments }

// SegmentSize is the length of the log's files, of the first one where they differ; 0 if there is none.
func (f *Files) SegmentSize() int64 {
	if len(f.segments) == 0 {
		return 0
	}
	return f.segments[0].Size
}

// CleanExit is whether the last process that had the store open closed it: there is no abort file. While one has it
// open there is.
func (f *Files) CleanExit() (bool, error) {
	_, err := fs.Stat(f.root, abortFile)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return false, err
}

// Checkpoint is the checkpoint page; a missing one is zeros.
func (f *Files) Checkpoint() (checkpoint.Page, error) {
	b, err := readHead(f.root, checkpointFle, checkpointFields)
	if errors.Is(err, fs.ErrNotExist) {
		return checkpoint.Page{}, nil
	}
	if err != nil {
		return checkpoint.Page{}, err
	}
	field := func(i int) int64 { return int64(binary.BigEndian.Uint64(b[8*i:])) }
	return checkpoint.Page{PhysicMsgTimestamp: field(0), LogicsMsgTimestamp: field(1), IndexMsgTimestamp: field(2),
		MasterFlushedOffset: field(3), ConfirmPhyOffset: field(4)}, nil
}

const checkpointFields = 5 * 8

// readHead reads the first n bytes of a file, all of them or an error.
func readHead(fsys fs.FS, name string, n int) ([]byte, error) {
	info, err := fs.Stat(fsys, name) // before it is opened: that of a named pipe waits for a writer
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file: move it away", name)
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, n)
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, fmt.Errorf("read the first %d bytes of %s: %w", n, name, err)
	}
	return b, nil
}

// Index says what message index a store has.
type Index struct {
	Kind              string // "indexfile", "none"
	Files             int
	ProgressPhyOffset int64 // of the newest record indexed; -1 none
	Entries           int64
}

// Index reads the headers of RocketMQ's index files (spec/index.md 3.1).
func (f *Files) Index() (Index, error) {
	none := Index{Kind: "none", ProgressPhyOffset: -1}
	list, err := fs.ReadDir(f.root, indexDir)
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return none, err
	}
	ix := none
	for _, d := range list { // by name: oldest first
		if _, err := strconv.ParseUint(d.Name(), 10, 64); err != nil || !d.Type().IsRegular() {
			continue
		}
		h, err := readHead(f.root, path.Join(indexDir, d.Name()), indexHeaderSize)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return none, err
		}
		ix.Kind = "indexfile"
		ix.Files++
		n := int64(int32(binary.BigEndian.Uint32(h[posIndexCount:]))) - 1 // it counts from 1
		if n <= 0 {
			continue
		}
		ix.Entries += n
		ix.ProgressPhyOffset = max(ix.ProgressPhyOffset, int64(binary.BigEndian.Uint64(h[posIndexEndPhy:])))
	}
	return ix, nil
}

const (
	indexHeaderSize = 40
	posIndexEndPhy  = 24
	posIndexCount   = 36
)
