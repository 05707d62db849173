package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/mqstore/mqstore/commitlog"
	"github.com/mqstore/mqstore/commitlog/mappedfile"
)

// ExpireOptions say which messages DeleteExpired deletes: whole segments from the head of the log, each that meets one of the conditions. The zero value deletes nothing.
type ExpireOptions struct {
	OlderThan time.Duration // segments whose last message was stored longer ago; 0 = not by age
	DiskRatio float64       // the oldest segments, whatever their age, while the commit log's file system is used by more than this part (0.75); 0 = not by disk use
	Manual    bool          // the oldest segments, whatever their age
	Max       int           // at most so many segments, default 10
}

// ExpireReport is what DeleteExpired did, and why it did no more.
type ExpireReport struct {
	Segments     []string // paths of the deleted files
	Bytes        int64    // their size
	QueueFiles   int      // consume queue files that went with them
	MinPhyOffset int64    // where the log begins now; -1 if it is empty
	DiskUsed     float64  // part of the file system that is used now; -1 if unknown
	Kept         string   // why the segment that is the oldest now was kept
}

const defaultExpireMax = 10

// DeleteExpired deletes segments from the log's head as o says, then lets the queues' minimum offsets follow and deletes their files that hold nothing any more. Never deleted are the segment that is written,
// and what is not on disk or not in the queues yet. Readers that hold views keep them: a file's blocks are freed with its last view.
func (s *DefaultMessageStore) DeleteExpired(o ExpireOptions) (ExpireReport, error) {
	s.retainMu.Lock()
	defer s.retainMu.Unlock()
	r := ExpireReport{DiskUsed: s.diskUsed()}
	switch {
	case s.closing.Load():
		return r, ErrClosed
	case o.OlderThan < 0 || o.DiskRatio < 0 || o.DiskRatio > 1 || o.Max < 0:
		return r, fmt.Errorf("delete expired: OlderThan, DiskRatio and Max must not be negative, DiskRatio at most 1: %+v", o)
	}
	limit := o.Max
	if limit == 0 {
		limit = defaultExpireMax
	}
	var failed error
	covered := int64(-1) // the units of everything below are on disk
	for {
		segment, why := s.oldest(o, r.DiskUsed)
		if r.Kept = why; why == "" && len(r.Segments) == limit {
			r.Kept = fmt.Sprintf("%d segments are enough for one call (Max)", limit)
		}
		if r.Kept != "" {
			break
		}
		if segment > covered {
			covered = s.dispatcher.Offset()
			// The units of what goes must be on disk: a queue that is left without a message keeps its numbering in them alone. Where the checkpoint's own file finds no room, log and queues are flushed already.
			err := s.CheckpointStep()
			if errors.Is(err, ErrClosed) {
				return r, ErrClosed
			}
			if err != nil && !errors.Is(err, mappedfile.ErrDiskFull) {
				s.flushFailed(err)
				failed = fmt.Errorf("checkpoint before a deletion: %w", fromBelow(err))
				r.Kept = failed.Error()
				break
			}
		}
		removed, err := s.log.Expire(commitlog.ExpireOptions{Below: segment, Max: 1})
		for _, f := range removed {
			r.Segments = append(r.Segments, f.Path)
			r.Bytes += f.End - f.Start
		}
		if err != nil {
			failed = fmt.Errorf("delete segment: %w", fromBelow(err))
			r.Kept = failed.Error()
			break
		}
		if len(removed) == 0 {
			r.Kept = fmt.Sprintf("the segment that ends at %d could not be deleted: it is written or not flushed", segment)
			break
		}
		r.DiskUsed = s.diskUsed()
	}
	if len(r.Segments) > 0 {
		var err error
		r.QueueFiles, err = s.queues.Expire(max(s.log.MinPhyOffset(), 0))
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("delete queue files: %w", fromBelow(err)))
		}
		if s.index != nil {
			s.index.expire(max(s.log.MinPhyOffset(), 0))
		}
		s.o.Logger.Info("deleted expired segments", "dir", s.dir, "segments", len(r.Segments), "bytes", r.Bytes, "queueFiles", r.QueueFiles, "minPhyOffset", s.log.MinPhyOffset())
	}
	r.MinPhyOffset = s.log.MinPhyOffset()
	return r, failed
}

// oldest is the end of the oldest segment if o lets it go, else why it stays.
func (s *DefaultMessageStore) oldest(o ExpireOptions, used float64) (end int64, why string) {
	segments := s.log.Segments()
	switch len(segments) {
	case 0:
		return 0, "the log is empty"
	case 1:
		return 0, "only the segment that is being written is left"
	}
	f := segments[0]
	name := filepath.Base(f.Path)
	if d := s.dispatcher.Offset(); f.End > d {
		return 0, fmt.Sprintf("segment %s is not in the queues yet: dispatch is at %d", name, d)
	}
	if d := s.log.FlushedPhyOffset(); f.End > d {
		return 0, fmt.Sprintf("segment %s is not on disk yet: flushed up to %d", name, d)
	}
	if o.Manual {
		return f.End, ""
	}
	if o.DiskRatio > 0 && used > o.DiskRatio {
		return f.End, ""
	}
	if o.OlderThan > 0 {
		stored, ok := s.log.SegmentStoreTime(f.Start)
		if !ok {
			stored = f.ModTime
		}
		age := s.o.Now().Sub(stored)
		if age > o.OlderThan {
			return f.End, ""
		}
		why = fmt.Sprintf("the last message of segment %s is %v old, not older than %v", name, age.Round(time.Second), o.OlderThan)
	}
	if o.DiskRatio > 0 {
		if why != "" {
			why += "; "
		}
		if used < 0 {
			why += "the file system's use is unknown"
		} else {
			why += fmt.Sprintf("the file system is used by %.1f %%, not more than %.1f %%", used*100, o.DiskRatio*100)
		}
	}
	if why == "" {
		why = "no condition was given: set OlderThan, DiskRatio or Manual"
	}
	return 0, why
}

// diskUsed is the used part of the commit log's file system; -1 if unknown.
func (s *DefaultMessageStore) diskUsed() float64 {
	free, total, err := s.o.FS.Free(s.o.CommitLogDir)
	if err != nil || total <= 0 {
		return -1
	}
	return 1 - float64(free)/float64(total)
}
