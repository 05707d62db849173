package repair

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sort"
	"strconv"
	"syscall"

	"github.com/mqstore/mqstore/consumequeue"
)

const (
	batchQueueDir     = "batchconsumequeue" // RocketMQ 5
	batchUnitSize     = 46
	defaultQueueFile  = 6_000_000
	strayHint         = "RocketMQ 4 does not start with it; move it out of the directory"
	strayHintHarmless = "nobody reads it; move it out of the directory"
)

// layout lists the log and the queues, and tells what does not belong there.
func (c *check) layout() {
	switch _, err := fs.Stat(c.root, abortFile); {
	case errors.Is(err, fs.ErrNotExist):
		c.clean = true
	case err != nil:
		c.unreadable(abortFile, err)
	}
	c.layoutLog()
	c.queues = map[QueueName]*queueState{}
	c.layoutQueues(queueDir, false)
	c.layoutQueues(batchQueueDir, true)
	c.layoutExt()
}

func (c *check) unreadable(file string, err error) {
	mend, what := MendByHand, "let this user read it, or run as its owner"
	switch {
	case errors.Is(err, syscall.ELOOP):
		what = "put the directory or the file itself there"
	case !errors.Is(err, fs.ErrPermission):
		mend, what = MendSalvage, "the disk or the file system fails: look into its log, and copy what can be read"
	}
	c.report(inFile(Unreadable, file, mend, fmt.Sprintf("%v: nothing in it was checked; %s", err, what)))
}

// entry is one name of a directory, links followed.
type entry struct {
	name string
	size int64
	dir  bool
	odd  string // why it is neither a directory nor an ordinary file, as a phrase; "" = it is
	err  error  // it cannot be looked at
}

// noDirectory is why an entry is no directory of a topic or queue, "" if it is one. Links are not followed: what lies behind one is another's, and may be the store itself.
func (e *entry) noDirectory(of string) string {
	switch {
	case e.odd != "" && e.dir:
		return fmt.Sprintf("%s stands where a %s's directory must be: mqstore does not follow it, the queues are made anew from the log", e.odd, of)
	case !e.dir:
		return fmt.Sprintf("not a %s's directory: %s", of, strayHintHarmless)
	case !fs.ValidPath(e.name):
		return fmt.Sprintf("the name is no UTF-8, so that it is no %s's directory: %s", of, strayHintHarmless)
	}
	return ""
}

// list lists a directory; a missing one is empty.
func (c *check) list(fsys fs.FS, dir, as string) []entry {
	list, err := fs.ReadDir(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	switch {
	case errors.Is(err, syscall.ENOTDIR) && as != commitLogDir:
		c.report(inFile(StrayFile, as, MendRecover, "it stands where a directory must be"))
	case err != nil:
		c.unreadable(as, err) // what was listed before it failed is used
	}
	out := make([]entry, 0, len(list))
	for _, d := range list {
		e := entry{name: d.Name()}
		switch info, err := d.Info(); {
		case errors.Is(err, fs.ErrNotExist):
			continue // expired since
		case err != nil:
			e.err = err
		case d.IsDir():
			e.dir = true
		case d.Type().IsRegular():
			e.size = info.Size()
		case d.Type()&fs.ModeSymlink != 0:
			e.odd = "a symbolic link"
			if to, err := fs.Stat(fsys, path.Join(dir, e.name)); err != nil {
				e.odd = "a symbolic link that leads nowhere"
			} else if e.dir = to.IsDir(); to.Mode().IsRegular() {
				e.size = to.Size()
			}
		default:
			e.odd = "neither a file nor a directory"
		}
		out = append(out, e)
	}
	return out
}

func (c *check) layoutLog() {
	fsys := c.log
	if fsys == nil {
		info, err := fs.Stat(c.root, commitLogDir)
		switch {
		case err == nil && !info.IsDir():
			c.report(inFile(StrayFile, commitLogDir, MendByHand, "a file stands where the commit log's directory must be: the log is elsewhere (--commitlog), or lost"))
			return
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			c.unreadable(commitLogDir, err)
			return
		}
		if fsys, err = fs.Sub(c.root, commitLogDir); err != nil {
			c.unreadable(commitLogDir, err)
			return
		}
		c.log = fsys
	}
	c.listed, c.oddLength = map[int64]bool{}, map[int64]bool{}
	var all []Segment
	for _, e := range c.list(fsys, ".", commitLogDir) {
		file := commitLogDir + "/" + e.name
		start, named := segmentStart(e.name)
		switch {
		case e.err != nil:
			c.unreadable(file, e.err)
			if named {
				c.listed[start] = true
			}
			continue
		case !named:
			c.report(inFile(StrayFile, file, MendRecover, "not a segment of the log: "+strayHint))
			continue
		case e.dir:
			c.report(inFile(StrayFile, file, MendByHand, "a directory is named as a segment of the log: no store opens with it; move it out of the directory"))
			continue
		case e.odd != "":
			c.report(at(StrayFile, file, start, MendByHand, e.odd+" stands where a segment of the log must be: mqstore does not open such a store; put the file itself there"))
			if e.size == 0 {
				continue
			}
		}
		all = append(all, Segment{Path: e.name, Start: start, Size: e.size})
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Start < all[j].Start })
	if len(all) == 0 {
		return
	}
	c.segmentSize = logSegmentSize(all)
	all = askForMissing(fsys, ".", all, c.segmentSize)
	for i, s := range all {
		file := commitLogDir + "/" + s.Path
		switch {
		case s.Start%c.segmentSize != 0 || s.Start > 1<<62:
			c.listed[s.Start] = true
			f := at(StrayFile, file, s.Start, MendByHand, fmt.Sprintf("the name of a segment is where it begins in the log, a multiple of %d, and this is none: a renamed or foreign file, with which no store opens", c.segmentSize))
			if says, ok := c.firstSays(s); ok {
				f.Detail += fmt.Sprintf("; its first record says that it lies at %d: perhaps it was %s", says, segmentName(says-says%c.segmentSize))
			}
			c.report(f)
			continue
		case s.Size != c.segmentSize:
			c.oddLength[s.Start] = true
			empty := i == len(all)-1 && s.Size < c.segmentSize && c.allZeros(s)
			f := at(WrongLength, file, s.Start, MendSalvage, fmt.Sprintf("%s long, a segment here has %d: RocketMQ does not start with it, nor does mqstore", plural(s.Size, "byte", "bytes"), c.segmentSize))
			if empty {
				f.Mend = MendRecover
				f.Detail += "; nothing is in it: a crash while the next segment was made leaves such a one"
			}
			if (!c.o.Live || i < len(all)-1) && !(empty && c.unfinished(file)) {
				c.report(f)
			}
		}
		f, err := fsys.Open(s.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			c.unreadable(file, err)
			c.listed[s.Start] = true
			continue
		}
		f.Close()
		s.Size = min(s.Size, c.segmentSize)
		c.segments = append(c.segments, s)
		c.lastFile = s.End()
	}
}

// allZeros reports whether nothing was written into a segment.
func (c *check) allZeros(s Segment) bool {
	r := &LogReader{files: &Files{root: c.root, log: c.log, segments: []Segment{s}}, tick: c.ctx.Err}
	defer r.Close()
	if err := r.open(); err != nil || r.f == nil {
		return s.Size == 0
	}
	at, err := r.nonZero(0)
	return err == nil && at < 0
}

// firstSays is where the first record of a segment says that it lies.
func (c *check) firstSays(s Segment) (int64, bool) {
	const posPhyOffset = 28
	b, err := readHead(c.log, s.Path, posPhyOffset+8)
	if err != nil {
		return 0, false
	}
	return saysPhyOffset(b)
}

// logSegmentSize is what the segments' length must be: the one that most have, of those that fit the names.
func logSegmentSize(all []Segment) int64 {
	count := map[int64]int{}
	for _, s := range all {
		if s.Size > 0 {
			count[s.Size]++
		}
	}
	gap := int64(0)
	for i := 1; i < len(all); i++ {
		if g := all[i].Start - all[i-1].Start; g > 0 && (gap == 0 || g < gap) {
			gap = g
		}
	}
	if _, ok := count[gap]; gap > 0 && !ok && len(all) > 1 {
		count[gap] = 0 // all of them may be too long or too short
	}
	best, score := int64(0), -1
	for size, n := range count {
		fits := 0
		for _, s := range all {
			if s.Start%size == 0 {
				fits++
			}
		}
		points := 2*n + fits
		if size == gap {
			points++
		}
		if points > score || points == score && size > best {
			best, score = size, points
		}
	}
	return max(best, 1)
}

// layoutQueues lists the queues below dir.
func (c *check) layoutQueues(dir string, batch bool) {
	info, err := fs.Stat(c.root, dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case err != nil:
		c.unreadable(dir, err)
		return
	case !info.IsDir():
		c.report(inFile(StrayFile, dir, MendRecover, "a file stands where the queues' directory must be"))
		return
	}
	sizes := map[int64]int{}
	first := len(c.order)
	for _, t := range c.list(c.root, dir, dir) {
		in := dir + "/" + t.name
		if t.err != nil {
			c.unreadable(in, t.err)
			continue
		}
		if why := t.noDirectory("topic"); why != "" {
			c.report(inFile(StrayFile, in, MendRecover, why))
			continue
		}
		for _, d := range c.list(c.root, in, in) {
			file := in + "/" + d.name
			n, err := strconv.ParseInt(d.name, 10, 32)
			switch {
			case d.err != nil:
				c.unreadable(file, d.err)
			case d.noDirectory("queue") != "":
				f := inFile(StrayFile, file, MendRecover, d.noDirectory("queue"))
				f.Topic = t.name
				c.report(f)
			case err != nil || n < 0 || strconv.FormatInt(n, 10) != d.name:
				f := inFile(StrayFile, file, MendRecover, "the name of a queue's directory is a number from 0 on, and this is none: no consumer reads it")
				f.Topic = t.name
				c.report(f)
			default:
				s := &queueState{QueueName: QueueName{t.name, int32(n)}, width: consumequeue.UnitSize}
				if batch {
					s.width = batchUnitSize
				}
				c.queueFiles(s, file, sizes)
				if c.ctx.Err() != nil {
					return
				}
				if !batch || c.queues[s.QueueName] == nil {
					c.queues[s.QueueName] = s
				}
				c.order = append(c.order, s)
			}
		}
	}
	width := int64(consumequeue.UnitSize)
	if batch {
		width = batchUnitSize
	}
	usual := usualSize(sizes, width)
	for _, s := range c.order[first:] {
		c.queueLengths(s, usual)
	}
}

// queueDir is where the files of the queue lie, below the root.
func (s *queueState) dir() string {
	if s.width == batchUnitSize {
		return batchQueueDir + "/" + s.Topic + "/" + strconv.Itoa(int(s.QueueID))
	}
	return queueDir + "/" + s.Topic + "/" + strconv.Itoa(int(s.QueueID))
}

// about is a finding about a queue.
func (s *queueState) about(k Kind, file, mend, detail string) Finding {
	f := inFile(k, file, mend, detail)
	f.Topic, f.QueueID = s.Topic, s.QueueID
	return f
}

func (c *check) queueFiles(s *queueState, dir string, sizes map[int64]int) {
	for _, e := range c.list(c.root, dir, dir) {
		file := dir + "/" + e.name
		start, named := segmentStart(e.name)
		switch {
		case e.err != nil:
			c.unreadable(file, e.err)
			continue
		case !named:
			c.report(s.about(StrayFile, file, MendRecover, "not a file of a queue: "+strayHint))
			continue
		case e.dir:
			c.report(s.about(StrayFile, file, MendRecover, "a directory is named as a file of a queue: no store opens with it"))
			continue
		case e.odd != "":
			c.report(s.about(StrayFile, file, MendRecover, e.odd+" stands where a file of a queue must be: mqstore does not open it"))
			if e.size == 0 {
				continue
			}
		}
		s.files = append(s.files, queueFile{start, e.size})
		if len(sizes) < 1000 || sizes[e.size] > 0 {
			sizes[e.size]++
		}
	}
	sort.Slice(s.files, func(i, j int) bool { return s.files[i].start < s.files[j].start })
}

// usualSize is the length that most queue files have.
func usualSize(sizes map[int64]int, width int64) int64 {
	best, most := int64(defaultQueueFile)/consumequeue.UnitSize*width, 0
	for size, n := range sizes {
		if size > 0 && size%width == 0 && (n > most || n == most && (size == defaultQueueFile || best != defaultQueueFile && size > best)) {
			best, most = size, n
		}
	}
	return best
}

// queueLengths tells wrong lengths and missing files of a queue. Queues may have files of different lengths, a queue may not.
func (c *check) queueLengths(s *queueState, usual int64) {
	size := usual
	for i := 1; i < len(s.files); i++ {
		if gap := s.files[i].start - s.files[i-1].start; gap == s.files[i-1].size && gap%s.width == 0 && gap > 0 {
			size = gap
			break
		}
	}
	kept := s.files[:0]
	for i, f := range s.files {
		file := s.dir() + "/" + segmentName(f.start)
		if empty := i == len(s.files)-1 && f.size == 0; f.size != size && !c.o.Live && !(empty && c.unfinished(file)) {
			w := s.about(WrongLength, file, MendRecover, fmt.Sprintf("%s long, the files of this queue have %d: RocketMQ does not start with it", plural(f.size, "byte", "bytes"), size))
			if empty {
				w.Detail += "; a crash while the file was made leaves such a one"
			}
			c.report(w)
		}
		if f.start%size != 0 {
			c.report(s.about(StrayFile, file, MendRecover, fmt.Sprintf("the name of a queue's file is where it begins, a multiple of %d, and this is none: a renamed or foreign file", size)))
			continue
		}
		if n := len(kept); n > 0 && f.start > kept[n-1].start+size {
			from := kept[n-1].start + size
			m := s.about(MissingSegment, s.dir()+"/"+segmentName(from), MendRecover, fmt.Sprintf("%s of this queue missing between others: consumers stop before it",
				plural((f.start-from+size-1)/size, "file", "files")))
			m.QueueOffset = from / s.width
			c.report(m)
		}
		kept = append(kept, queueFile{f.start, min(f.size, size)})
	}
	s.files = kept
}

// layoutExt looks at the names below consumequeue_ext. Its files are read when a unit leads there.
func (c *check) layoutExt() {
	for _, t := range c.list(c.root, extDir, extDir) {
		in := extDir + "/" + t.name
		if t.err != nil {
			c.unreadable(in, t.err)
			continue
		}
		if why := t.noDirectory("topic"); why != "" {
			c.report(inFile(StrayFile, in, MendRecover, why))
			continue
		}
		for _, d := range c.list(c.root, in, in) {
			dir := in + "/" + d.name
			if d.err != nil {
				c.unreadable(dir, d.err)
				continue
			}
			if why := d.noDirectory("queue"); why != "" {
				c.report(inFile(StrayFile, dir, MendRecover, why))
				continue
			}
			var files []queueFile
			for _, e := range c.list(c.root, dir, dir) {
				file := dir + "/" + e.name
				start, named := segmentStart(e.name)
				switch {
				case e.err != nil:
					c.unreadable(file, e.err)
				case !named || e.dir:
					c.report(inFile(StrayFile, file, MendRecover, "not a file of extension units: "+strayHint))
				default:
					files = append(files, queueFile{start, e.size})
				}
			}
			sort.Slice(files, func(i, j int) bool { return files[i].start < files[j].start })
			for i := 1; i < len(files); i++ {
				if f, next := files[i-1], files[i]; f.start+f.size != next.start {
					c.report(inFile(WrongLength, dir+"/"+segmentName(f.start), MendRebuild,
						fmt.Sprintf("%s long, but the next file of extension units begins at %d", plural(f.size, "byte", "bytes"), next.start)))
				}
			}
		}
	}
}
