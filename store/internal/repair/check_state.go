package repair

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/mqstore/mqstore/checkpoint"
)

const (
	summaryFile = "mqstore.summary"
	maxSummary  = 64 << 20 // what a summary of a million queues has
)

// state looks at the small files that say in which state the big ones are.
func (c *check) state() {
	if !c.clean && !c.o.Live {
		f := inFile(UncleanExit, abortFile, MendRecover, "the process that had the store open did not close it: it crashed, was killed, or lost power; recover does what opening the store would do then")
		if h := c.halfMade; h.n > 0 {
			f.Detail += "; it was making " + h.first
			if h.n > 1 {
				f.Detail += fmt.Sprintf(" and %s", plural(int64(h.n-1), "more file", "more files"))
			}
			f.Detail += ", in which nothing is yet: recover removes it, RocketMQ does not start with it"
		}
		c.report(f)
	}
	c.checkpoint()
	c.summary()
}

// unfinished notes a file that the process was making when it ended, if it ended so: that is part of its unclean exit, and no finding of its own.
func (c *check) unfinished(file string) bool {
	if c.clean {
		return false
	}
	if c.halfMade.n++; c.halfMade.n == 1 {
		c.halfMade.first = file
	}
	return true
}

// small reads a small file. It tells what cannot be read; missing says that there is none.
func (c *check) small(name string, most int64) (b []byte, missing, ok bool) {
	info, err := fs.Stat(c.root, name) // before it is opened: that of a named pipe waits for a writer
	if errors.Is(err, fs.ErrNotExist) {
		return nil, true, false
	}
	if err == nil && !info.Mode().IsRegular() {
		c.report(inFile(BadCheckpoint, name, MendRecover, "it is not a file: no store opens with it"))
		return nil, false, false
	}
	var f fs.File
	if err == nil {
		f, err = c.root.Open(name)
	}
	if err == nil {
		defer f.Close()
		b, err = io.ReadAll(io.LimitReader(f, most))
	}
	if err != nil {
		c.unreadable(name, err)
		return nil, false, false
	}
	return b, false, true
}

func (c *check) checkpoint() {
	b, missing, ok := c.small(checkpointFle, 1<<16)
	switch {
	case missing && c.sum.Records > 0 && c.clean: // RocketMQ makes it when it opens a store, this engine at its first checkpoint
		c.report(inFile(BadCheckpoint, checkpointFle, MendRecover, "there is none: no message is lost by that, but after a crash the whole log would have to be read"))
		return
	case !ok:
		return
	}
	page, err := checkpoint.ParsePage(b)
	if err != nil {
		c.report(inFile(BadCheckpoint, checkpointFle, MendRecover, fmt.Sprintf("%v: no message is lost by that, but after a crash the log would be recovered from the wrong place", err)))
		return
	}
	c.page.Page, c.page.ok = page, true
	if c.o.Live {
		return // it moves
	}
	for _, f := range []struct {
		what string
		ms   int64
	}{{"the log", page.PhysicMsgTimestamp}, {"the queues", page.LogicsMsgTimestamp}, {"the index", page.IndexMsgTimestamp}} {
		if f.ms <= c.maxTime {
			continue
		}
		newest := "the log has none at all"
		if c.maxTime > 0 {
			newest = "the newest in the log is of " + stampMs(c.maxTime)
		}
		c.report(inFile(CheckpointAhead, checkpointFle, MendRecover, fmt.Sprintf("it says that %s up to %s: %s. Either the log lost its end, or the checkpoint is another store's; after a crash RocketMQ would trust what is not there",
			f.what+" held messages", stampMs(f.ms), newest)))
	}
	for _, f := range []struct {
		what string
		at   int64
	}{{"masterFlushedOffset", page.MasterFlushedOffset}, {"confirmPhyOffset", page.ConfirmPhyOffset}} {
		if f.what == "confirmPhyOffset" && f.at > c.end {
			c.report(at(CheckpointAhead, checkpointFle, f.at, MendRecover, fmt.Sprintf("its %s is %d, the log ends at %d: the log lost its end", f.what, f.at, c.end)))
		}
	}
}

func stampMs(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}

// summary looks at our own summary, which RocketMQ takes no notice of: it may be older than the log, but where it still fits, the log must hold what it says.
func (c *check) summary() {
	b, _, ok := c.small(summaryFile, maxSummary)
	if !ok || int64(len(b)) == maxSummary {
		return
	}
	s, err := checkpoint.ParseSummary(b)
	if err != nil {
		c.report(inFile(BadCheckpoint, summaryFile, MendRecover, fmt.Sprintf("%v: no message is lost by that, but opening the store reads the whole log once", err)))
		return
	}
	if c.o.Live || s.LastPhyOffset < 0 {
		return
	}
	switch {
	case s.LastPhyOffset >= c.end:
		c.report(at(CheckpointAhead, summaryFile, s.LastPhyOffset, MendRecover, fmt.Sprintf("when the store was last made durable its log had a record at %d; now it ends at %d: the log lost its end", s.LastPhyOffset, c.end)))
	case s.Clean && c.clean && c.page.ok && s.LastPhyOffset == c.last.phyOffset && s.LastStoreTime == c.last.storeTime && c.page.PhysicMsgTimestamp < s.LastStoreTime:
		c.report(inFile(BadCheckpoint, checkpointFle, MendRecover, fmt.Sprintf("it says that the log is on disk up to %s, the summary beside it was written at %s: an older copy of it; no message is lost by that, but after a crash more of the log would have to be read",
			stampMs(c.page.PhysicMsgTimestamp), stampMs(s.LastStoreTime))))
	}
}
