package consumequeue

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
)

// Set is all queues of a store. See the package comment for who may call what when.
type Set struct {
	o        Options
	fileSize int64 // of queues that have no file yet
	strays   []Stray

	create sync.Mutex // held while a queue comes or goes, directory work included
	mu     struct {
		sync.RWMutex
		queues map[key]*Queue
		closed bool
	}
	dirty struct {
		sync.Mutex
		list []*Queue
	}
	flushing sync.Mutex
	badName  atomic.Pointer[error] // the sync of a directory above the queues' failed, which is final
}

type key struct {
	topic string
	id    int32
}

// Queue finds a queue; nil if there is none (reads do not create, unlike the original's).
func (s *Set) Queue(topic string, queueID int32) *Queue {
	s.mu.RLock()
	q := s.mu.queues[key{topic, queueID}]
	s.mu.RUnlock()
	return q
}

// Ensure finds or makes a queue. A new one exists in memory only: its directory and first file come with the first unit.
// *NameError if topic and id cannot be directories; mappedfile.ErrReadOnly if it would have to be made in a read-only set.
func (s *Set) Ensure(topic string, queueID int32) (*Queue, error) {
	if q := s.Queue(topic, queueID); q != nil {
		return q, nil
	}
	s.create.Lock()
	defer s.create.Unlock()
	if q := s.Queue(topic, queueID); q != nil {
		return q, nil
	}
	return s.makeLocked(topic, queueID)
}

// makeLocked opens the directory of a queue that is not in the map, which is normally not there, and adds the queue.
// The caller holds create.
func (s *Set) makeLocked(topic string, queueID int32) (*Queue, error) {
	if err := CheckName(topic, queueID); err != nil {
		return nil, err
	}
	if s.o.ReadOnly {
		return nil, fmt.Errorf("make queue %s-%d: %w", topic, queueID, mappedfile.ErrReadOnly)
	}
	q, err := s.openQueue(topic, queueID, s.fileSize, nil, nil)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return nil, errors.Join(mappedfile.ErrClosed, q.seq.Load().Close())
	}
	s.mu.queues[key{topic, queueID}] = q
	return q, nil
}

// CheckName reports, as a *NameError, a topic or queue id that cannot be a directory below the store: a record of it can
// be stored in the log but never be consumed. A store asks before it accepts a message.
func CheckName(topic string, queueID int32) error {
	reason := ""
	switch {
	case queueID < 0:
		reason = "queue ids are not negative"
	case topic == "":
		reason = "the topic is empty"
	case topic == "." || topic == "..":
		reason = "the topic is a directory of its own meaning"
	case strings.ContainsAny(topic, "/\x00") || strings.ContainsRune(topic, filepath.Separator):
		reason = "the topic contains a path separator or a zero byte"
	case len(topic) > 255:
		reason = "the topic is longer than a directory name of 255 bytes"
	default:
		return nil
	}
	return &NameError{Topic: topic, QueueID: queueID, Reason: reason}
}

// parseQueueID reads a queue directory's name: a canonical, non-negative decimal int32.
func parseQueueID(name string) (int32, bool) {
	n, err := strconv.ParseInt(name, 10, 32)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != name {
		return 0, false
	}
	return int32(n), true
}

func (s *Set) queueDir(topic string, queueID int32) string {
	return filepath.Join(s.o.Dir, topic, strconv.Itoa(int(queueID)))
}

// All yields every queue that exists when it is called, sorted by topic and queue id.
func (s *Set) All() iter.Seq[*Queue] {
	return slices.Values(s.sorted())
}

func (s *Set) sorted() []*Queue {
	s.mu.RLock()
	qs := make([]*Queue, 0, len(s.mu.queues))
	for _, q := range s.mu.queues {
		qs = append(qs, q)
	}
	s.mu.RUnlock()
	slices.SortFunc(qs, func(a, b *Queue) int {
		return cmp.Or(strings.Compare(a.topic, b.topic), cmp.Compare(a.id, b.id))
	})
	return qs
}

// Snapshot says of every queue what a later Open may believe without scanning, sorted as All. It tells the truth about
// the disk only if nothing was dispatched since the last Flush.
func (s *Set) Snapshot() []Known {
	qs := s.sorted()
	ks := make([]Known, len(qs))
	for i, q := range qs {
		ks[i] = Known{Topic: q.topic, QueueID: q.id, Min: q.MinOffset(), Max: q.MaxOffset(), LastPhy: q.lastPhy.Load()}
	}
	return ks
}

// MaxPhyOffset is the end of the last indexed record over all queues; -1 if no queue holds a unit.
func (s *Set) MaxPhyOffset() int64 {
	end := int64(-1)
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, q := range s.mu.queues {
		end = max(end, q.maxPhy.Load())
	}
	return end
}

// Strays lists what Open found in the directory and did not open, sorted by path.
func (s *Set) Strays() []Stray { return slices.Clone(s.strays) }

// Close flushes what is dirty and closes every queue. Views that exist stay valid until they are released.
func (s *Set) Close() error {
	err := s.Flush()
	s.create.Lock()
	defer s.create.Unlock()
	s.mu.Lock()
	qs := make([]*Queue, 0, len(s.mu.queues))
	for _, q := range s.mu.queues {
		qs = append(qs, q)
	}
	s.mu.closed = true
	s.mu.Unlock()
	for _, q := range qs {
		err = errors.Join(err, q.close(mappedfile.ErrClosed))
	}
	return err
}

// close ends the queue for writers with the error that they get, and lets go of its files. A queue that is gone already
// stays as it is.
func (q *Queue) close(gone error) error {
	q.writer.Lock()
	defer q.writer.Unlock()
	q.flushing.Lock()
	defer q.flushing.Unlock()
	if q.writer.gone != nil {
		return nil
	}
	q.writer.gone = gone
	if gone == errRemoved {
		q.max.Store(0)
		q.min.Store(0)
		q.lastPhy.Store(-1)
		q.maxPhy.Store(-1)
	}
	return errors.Join(q.seq.Load().Close(), q.ext.close())
}

// Remove deletes a queue and its files, extension units included; it need not exist, and may be one that Open left out.
// Its numbering restarts at 0. Durable when it returns. A failed Remove can be repeated.
func (s *Set) Remove(topic string, queueID int32) error {
	s.create.Lock()
	defer s.create.Unlock()
	return s.removeLocked(topic, queueID)
}

// errRemoved tells a writer that found the queue just before it went to look again.
var errRemoved = errors.New("consumequeue: queue was removed")

// removeLocked is Remove. The caller holds create, so that nobody opens the directory meanwhile.
func (s *Set) removeLocked(topic string, queueID int32) error {
	if err := CheckName(topic, queueID); err != nil {
		return err
	}
	if s.o.ReadOnly {
		return fmt.Errorf("remove queue %s-%d: %w", topic, queueID, mappedfile.ErrReadOnly)
	}
	var err error
	if q := s.Queue(topic, queueID); q != nil {
		err = q.close(errRemoved)
		s.mu.Lock()
		delete(s.mu.queues, key{topic, queueID})
		s.mu.Unlock()
	}
	err = errors.Join(err, s.removeDir(s.queueDir(topic, queueID)))
	if s.o.ExtDir != "" {
		err = errors.Join(err, s.removeDir(filepath.Join(s.o.ExtDir, topic, strconv.Itoa(int(queueID)))))
	}
	if err != nil {
		return fmt.Errorf("remove queue %s-%d: %w", topic, queueID, err)
	}
	return nil
}

// removeDir deletes a queue's directory with the files in it, the last one first and each durably, so that a crash leaves
// no hole; and the topic's directory if it is empty then. A directory that is not there is fine.
func (s *Set) removeDir(dir string) error {
	infos, err := s.o.FS.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, f := range slices.Backward(infos) {
		if err := s.o.FS.Remove(filepath.Join(dir, f.Name)); err != nil {
			return err
		}
		if err := s.o.FS.SyncDir(dir); err != nil {
			return err
		}
	}
	if err := s.o.FS.RemoveDir(dir); err != nil {
		return err
	}
	topic := filepath.Dir(dir)
	if s.o.FS.RemoveDir(topic) == nil { // else other queues live there
		return s.o.FS.SyncDir(filepath.Dir(topic))
	}
	return s.o.FS.SyncDir(topic)
}

// ResetQueue empties a queue, which need not exist, for a rebuild from the log, and returns the empty one: the old
// *Queue is dead. Durable when it returns.
func (s *Set) ResetQueue(topic string, queueID int32) (*Queue, error) {
	s.create.Lock()
	defer s.create.Unlock()
	if err := s.removeLocked(topic, queueID); err != nil {
		return nil, err
	}
	return s.makeLocked(topic, queueID)
}

// markDirty puts q on the list of those that Flush looks at. After Publish.
func (s *Set) markDirty(q *Queue) {
	if q.dirty.Load() || q.dirty.Swap(true) {
		return
	}
	s.dirty.Lock()
	s.dirty.list = append(s.dirty.list, q)
	s.dirty.Unlock()
}
