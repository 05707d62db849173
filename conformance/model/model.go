package model

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// Store is the model. All methods may be called by any goroutine.
type Store struct {
	mu sync.Mutex
	o  store.Options // with defaults

	began   bool   // the log has a first segment
	min     int64  // start of the first segment held
	end     int64  // of the log
	tail    []byte // raw bytes at end that are no whole record yet
	records []*rec // in order of the log
	queues  map[queueKey]*queue

	lastTime  int64 // ms; store times never go below
	closed    bool
	puts      int64
	failures  int64
	putBytes  int64
	gets      int64
	misses    int64
	unitBytes int64 // QueueFileSize, whole units
}

type queueKey struct {
	topic   string
	queueID int32
}

// rec is one record of the log.
type rec struct {
	phyOffset int64
	bytes     []byte
	m         *record.Message // views of bytes
	tagsCode  int64           // as in the queue's unit
}

func (r *rec) end() int64 { return r.phyOffset + int64(len(r.bytes)) }

// queue is [min, first+len(units)); units below min are held in a queue file but expired.
type queue struct {
	first int64 // queue offset of units[0]
	min   int64
	next  int64 // the highest that max has been
	units []*rec
}

func (q *queue) max() int64         { return q.first + int64(len(q.units)) }
func (q *queue) unit(i int64) *rec  { return q.units[i-q.first] }
func (q *queue) holds(i int64) bool { return i >= q.min && i < q.max() }

const (
	unitSize  = 20
	blankSize = 8 // what must stay free behind a record
)

var (
	_ store.MessageStore = (*Store)(nil)
	_ store.Scanner      = (*Store)(nil)
)

// New makes an empty store that answers as an engine with these options.
func New(o store.Options) *Store {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	if o.SegmentSize == 0 {
		o.SegmentSize = 1 << 30
	}
	if o.QueueFileSize == 0 {
		o.QueueFileSize = 6_000_000
	}
	if o.MemorySize == 0 {
		o.MemorySize = 24 << 30
	}
	def(&o.MaxMessageSize, 4<<20)
	def(&o.AccessInMemoryMaxRatio, 40)
	def(&o.MaxTransferBytesInMemory, 256<<10)
	def(&o.MaxTransferMessagesInMemory, 32)
	def(&o.MaxTransferBytesInDisk, 64<<10)
	def(&o.MaxTransferMessagesInDisk, 8)
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Store{o: o, queues: map[queueKey]*queue{}, unitBytes: (o.QueueFileSize + unitSize - 1) / unitSize * unitSize}
}

// perFile is how many units a queue file has.
func (s *Store) perFile() int64 { return s.unitBytes / unitSize }

// startOf is the start of the segment that holds phyOffset.
func (s *Store) startOf(phyOffset int64) int64 { return phyOffset - phyOffset%s.o.SegmentSize }

func (s *Store) queue(topic string, queueID int32) *queue { return s.queues[queueKey{topic, queueID}] }

// at is the record that starts at phyOffset, nil if none does.
func (s *Store) at(phyOffset int64) *rec {
	for _, r := range s.records {
		if r.phyOffset == phyOffset {
			return r
		}
	}
	return nil
}

// Close ends the store: puts and gets are refused afterwards. A second call does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// Flush has nothing to do.
func (s *Store) Flush() (flushed int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, store.ErrClosed
	}
	return s.end, nil
}

// Stats is offsets, counts and whether puts are accepted.
func (s *Store) Stats() store.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := store.Stats{
		MinPhyOffset: s.minPhyOffset(), MaxPhyOffset: s.end, FlushedPhyOffset: s.end, ConfirmPhyOffset: s.end, DispatchedPhyOffset: s.end, VisibleEnd: s.end,
		Puts: s.puts, PutFailures: s.failures, PutBytes: s.putBytes, Gets: s.gets, GetMisses: s.misses,
		Queues: len(s.queues), DiskFree: -1, DiskTotal: -1,
	}
	topics := map[string]bool{}
	for k := range s.queues {
		topics[k.topic] = true
	}
	st.Topics = len(topics)
	if s.began {
		st.Segments = int((s.end-s.min-1)/s.o.SegmentSize) + 1
	}
	err := s.writable(context.Background())
	if st.Writable = err == nil; err != nil {
		st.NotWritableReason = err.Error()
	}
	return st
}

// writable is the first three rows of spec/dispatch-and-read.md 5.5.
func (s *Store) writable(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case s.closed:
		return fmt.Errorf("%w: %w", store.ErrServiceNotAvailable, store.ErrClosed)
	case s.o.Role == store.Slave:
		return fmt.Errorf("%w: it is a slave", store.ErrServiceNotAvailable)
	}
	return nil
}

// sortedQueues is all queue keys by topic and queue id.
func (s *Store) sortedQueues() []queueKey {
	keys := make([]queueKey, 0, len(s.queues))
	for k := range s.queues {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b queueKey) int {
		if a.topic != b.topic {
			if a.topic < b.topic {
				return -1
			}
			return 1
		}
		return int(a.queueID) - int(b.queueID)
	})
	return keys
}
