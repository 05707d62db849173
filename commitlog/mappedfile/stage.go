package mappedfile

import (
	"fmt"
	"sync"
)

const (
	stageLimit = 1 << 20        // staged bytes at which the writer writes them out itself
	stageKeep  = 2 * stageLimit // a larger buffer is not kept
)

// stage holds what a sequence that is Staged was given and has not written to its file yet: one run of bytes of one file.
//
// Records of a group commit that are written by one call and synced take half the time of records that are stored into the mapping and synced: see the package's figures.
type stage struct {
	out sync.Mutex // one writeOut at a time; taken before buf's lock

	buf struct {
		sync.Mutex
		b     []byte
		start int64 // of b in the stream
		file  *file
	}
	spare []byte // guarded by out: the buffer to fill next
}

// Write puts b at off, which Reserve returned last: into the mapping, or, if the sequence is Staged, into memory of this process, from which it comes into the mapping before anybody reads it there,
// before a Flush, and by WriteOut. b may be written before Publish, and again at the same place if Publish did not follow.
// An error is final, as of Flush: it is that of an earlier WriteOut that became necessary.
func (s *Sequence) Write(off int64, b []byte) error {
	if !s.o.Staged {
		copy(s.cur.b[off-s.cur.start:], b)
		return nil
	}
	buf := &s.stage.buf
	buf.Lock()
	if at := off - buf.start; len(buf.b) == 0 || buf.file != s.cur || at < 0 || at > int64(len(buf.b)) {
		if len(buf.b) > 0 {
			buf.Unlock()
			if err := s.WriteOut(); err != nil {
				return err
			}
			buf.Lock()
		}
		buf.start, buf.file = off, s.cur
	} else {
		buf.b = buf.b[:at] // not published: written once more
	}
	buf.b = append(buf.b, b...)
	full := len(buf.b) >= stageLimit
	buf.Unlock()
	if full {
		return s.WriteOut()
	}
	return nil
}

// WriteOut brings everything that was given to Write into the files, where it survives the end of this process, though not of the machine. Any goroutine may call it. An error is final, as of Flush.
func (s *Sequence) WriteOut() error { return s.writeOut(0) }

// WriteThrough is Write and WriteOut of b, which nothing may replace: its Publish follows. So readers, who may begin in the middle of b, find all of it.
func (s *Sequence) WriteThrough(off int64, b []byte) error {
	if err := s.Write(off, b); err != nil {
		return err
	}
	return s.writeOut(off + int64(len(b)))
}

// writeOut is WriteOut. Bytes below final are as good as published.
func (s *Sequence) writeOut(final int64) error {
	if !s.o.Staged {
		return nil
	}
	s.stage.out.Lock()
	defer s.stage.out.Unlock()
	if err := s.Err(); err != nil {
		return err
	}
	buf := &s.stage.buf
	buf.Lock()
	b, start, f := buf.b, buf.start, buf.file
	end := max(final, s.max.Load()) // what is published is in b or in the files; what is not may be replaced
	buf.b = s.stage.spare[:0]
	held := len(b) > 0 && f.acquire()
	buf.Unlock()
	if s.stage.spare = b; cap(b) > stageKeep {
		s.stage.spare = nil
	}
	if len(b) > 0 {
		if !held {
			return fmt.Errorf("write %s: %w", f.path, ErrClosed)
		}
		defer f.release()
		if err := f.m.Write(start-f.start, b); err != nil {
			return s.fail(err)
		}
	}
	s.written.Store(max(end, s.written.Load())) // what was final before stays so
	return nil
}

// leave gives up what writing to f needed, once it is full: until it is dropped it is only read.
func (s *Sequence) leave(f *file) {
	if m, ok := f.m.(interface{ DoneWriting() }); ok {
		s.stage.out.Lock()
		defer s.stage.out.Unlock()
		m.DoneWriting()
	}
}

// unstage moves Max to end, forgets what is staged, and says that the files hold everything below end.
func (s *Sequence) unstage(end int64) {
	s.stage.out.Lock()
	defer s.stage.out.Unlock()
	s.stage.buf.Lock()
	defer s.stage.buf.Unlock()
	s.stage.buf.b = s.stage.buf.b[:0]
	s.written.Store(end)
	s.max.Store(end)
}

// readable makes sure that the mappings hold what is published below end.
func (s *Sequence) readable(end int64) error {
	if !s.o.Staged || end <= s.written.Load() {
		return nil
	}
	return s.WriteOut()
}
