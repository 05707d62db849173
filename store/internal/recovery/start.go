package recovery

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/mqstore/mqstore/checkpoint"
	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/record"
)

// start is where recovery begins and what it may assume.
type start struct {
	clean   bool
	page    checkpoint.Page
	summary *checkpoint.Summary // believed; nil = none
	doubt   string              // why a summary that exists is not believed

	scanFrom    int64 // the log's end is looked for from here; a record boundary
	flushedTo   int64 // everything below was durable; -1 = unknown
	durableTime int64 // ms: as Recovery.DurableTime
}

func findStart(o Options) (start, error) {
	s := start{flushedTo: -1}
	dirty, err := checkpoint.AbortExists(o.FS, o.Root)
	if err != nil {
		return s, fmt.Errorf("look for the abort file in %s: %w", o.Root, err)
	}
	s.clean = !dirty
	if s.page, err = checkpoint.Read(o.FS, checkpoint.Path(o.Root)); err != nil && !errors.Is(err, mappedfile.ErrCorrupt) {
		return s, fmt.Errorf("read the checkpoint of %s: %w", o.Root, err)
	}
	s.durableTime = s.page.PhysicMsgTimestamp

	segs, err := listSegments(o.FS, o.CommitLogDir)
	if err != nil {
		return s, err
	}
	s.believe(o, segs)

	if o.Cut && s.summary != nil && s.summary.EndPhyOffset > o.CutTo {
		s.summary, s.doubt = nil, ""
	}
	switch {
	case s.summary != nil:
		s.flushedTo = s.summary.EndPhyOffset
	case !s.clean && s.durableTime == 0:
		s.flushedTo = segs.surelySynced(o.UnsyncedMost)
	}
	tail := segs.start(len(segs.starts) - 3) // the original's normal recovery (4.5)
	switch {
	case s.clean && s.summary != nil:
		s.scanFrom = max(tail, segs.of(s.summary.LastPhyOffset))
	case s.clean:
		s.scanFrom = max(tail, segs.byTime(s.page.MinTimestamp()))
	case s.summary != nil:
		s.scanFrom = max(s.summary.LastPhyOffset, segs.start(0))
	default:
		s.scanFrom = segs.byTime(s.page.MinTimestamp())
	}
	if o.Cut {
		s.scanFrom = min(s.scanFrom, segs.of(max(o.CutTo-1, 0)))
	}
	return s, nil
}

// believe reads the summary and keeps it if the log agrees with it.
func (s *start) believe(o Options, segs segments) {
	if o.IgnoreSummary {
		return
	}
	sum, err := checkpoint.ReadSummary(o.FS, o.Root)
	switch {
	case err != nil:
		s.doubt = err.Error()
	case sum != nil:
		if err := segs.agree(sum); err != nil {
			s.doubt = err.Error()
			return
		}
		s.summary = sum
	}
}

// segments are the files of a commit log before it is opened. Whatever is wrong with them is for commitlog.Open to say: here it only makes recovery begin earlier.
type segments struct {
	fs     mappedfile.FS
	dir    string
	size   int64
	starts []int64 // ascending
}

func listSegments(fsys mappedfile.FS, dir string) (segments, error) {
	s := segments{fs: fsys, dir: dir}
	infos, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("list the commit log: %w", err)
	}
	for _, i := range infos {
		start, err := strconv.ParseInt(i.Name, 10, 64)
		if err != nil || len(i.Name) != 20 || !i.Regular || i.Size == 0 {
			continue
		}
		if s.size == 0 {
			s.size = i.Size
		}
		s.starts = append(s.starts, start)
	}
	slices.Sort(s.starts)
	return s, nil
}

// start returns the start of segment i, of the first one for a negative i; 0 for an empty log.
func (s segments) start(i int) int64 {
	if len(s.starts) == 0 {
		return 0
	}
	return s.starts[max(i, 0)]
}

// of returns the start of the segment that holds phyOffset, of the first one if none does.
func (s segments) of(phyOffset int64) int64 {
	i, found := slices.BinarySearch(s.starts, phyOffset)
	if !found {
		i--
	}
	return s.start(i)
}

// byTime returns the start of the last segment whose first record was stored at or before ms, else of the first segment (RocketMQ's abnormal recovery, spec/checkpoint-abort-recovery.md 4.6).
func (s segments) byTime(ms int64) int64 {
	var p record.Parser
	for _, start := range slices.Backward(s.starts) {
		var m record.Meta
		if err := s.parse(&p, start, &m); err == nil && !m.IsBlank() && m.StoreTimestamp != 0 && m.StoreTimestamp <= ms {
			return start
		}
	}
	return s.start(0)
}

// surelySynced is the offset below which the log was synced although nobody says so: more than most bytes, and two segments, were written behind it. -1 = nothing is sure.
func (s segments) surelySynced(most int64) int64 {
	last := len(s.starts) - 1
	var p record.Parser
	var m record.Meta
	for ; last >= 2; last-- { // segments made ahead are empty
		if s.parse(&p, s.starts[last], &m) == nil {
			break
		}
	}
	if last < 2 {
		return -1
	}
	at := min(s.starts[last-1], s.starts[last]-cmp.Or(most, defaultUnsyncedMost))
	if at <= s.starts[0] {
		return -1
	}
	return at - at%s.size
}

const defaultUnsyncedMost = 1 << 30

// parse reads the record at phyOffset.
func (s segments) parse(p *record.Parser, phyOffset int64, m *record.Meta) error {
	base := s.of(phyOffset)
	if len(s.starts) == 0 || phyOffset < base || phyOffset >= base+s.size {
		return fmt.Errorf("the log has no offset %d: %w", phyOffset, mappedfile.ErrNotFound)
	}
	f, err := s.fs.Map(filepath.Join(s.dir, fmt.Sprintf("%020d", base)), 0, mappedfile.MapReadOnly)
	if err != nil {
		return err
	}
	b := f.Bytes()
	if pos := phyOffset - base; pos < int64(len(b)) {
		err = p.Parse(b[pos:], phyOffset, m)
	} else {
		err = fmt.Errorf("the segment at %d is too short for offset %d: %w", base, phyOffset, mappedfile.ErrNotFound)
	}
	m.Properties, m.Bitmap = nil, nil // views
	return errors.Join(err, f.Close())
}

// agree reports why the log is not the one that sum was written for.
func (s segments) agree(sum *checkpoint.Summary) error {
	if len(s.starts) > 0 && s.starts[0] < sum.MinPhyOffset {
		return fmt.Errorf("the log begins at %d, before the summary's %d", s.starts[0], sum.MinPhyOffset)
	}
	if sum.LastPhyOffset < 0 {
		if len(s.starts) == 0 || sum.EndPhyOffset == s.starts[0] {
			return nil // it says that nothing of this log was known to be durable
		}
		return errors.New("the summary names no record, but there is a commit log below its end")
	}
	p := record.Parser{VerifyCRC: true}
	var m record.Meta
	if err := s.parse(&p, sum.LastPhyOffset, &m); err != nil {
		return fmt.Errorf("the last record that the summary names, at %d: %w", sum.LastPhyOffset, err)
	}
	if m.IsBlank() || m.Size != sum.LastSize || m.StoreTimestamp != sum.LastStoreTime || m.BodyCRC != sum.LastBodyCRC {
		return fmt.Errorf("the record at %d is not the one that the summary names", sum.LastPhyOffset)
	}
	// Records without a unit may lie between the last one named and the summary's end, which must be a boundary.
	pos := sum.LastPhyOffset + int64(m.Size)
	for pos < sum.EndPhyOffset {
		if err := s.parse(&p, pos, &m); err != nil {
			return fmt.Errorf("a record below the summary's end, at %d: %w", pos, err)
		}
		pos += int64(m.Size)
	}
	if pos != sum.EndPhyOffset {
		return fmt.Errorf("the summary's end %d is inside the record that ends at %d", sum.EndPhyOffset, pos)
	}
	return nil
}
