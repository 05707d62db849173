package index

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mqstore/mqstore/commitlog/record"
)

// Hit is a record that has the key that was asked for.
type Hit struct {
	PhyOffset int64
	Size      int
	StoreTime int64 // ms
}

// Result is the answer to a query.
type Result struct {
	Hits []Hit // oldest first

	// The last record that is indexed and had a key; 0 and 0: there is none, or it has expired.
	LastUpdateTime      int64 // ms
	LastUpdatePhyOffset int64

	NextPhyOffset int64 // the answer is complete for records below
}

// Query finds the newest max records (0, or more than MaxResults: MaxResults) of topic that have the key, as unique key or among KEYS, and were stored within [begin, end] (ms, both inclusive). ErrClosed, ErrDamaged, an error of Options.Record.
func (x *Index) Query(topic, key string, begin, end int64, max int) (Result, error) {
	if max <= 0 || max > x.o.MaxResults {
		max = x.o.MaxResults
	}
	x.mu.Lock()
	res := Result{NextPhyOffset: x.mu.next}
	if k := x.mu.now.keyed; k.phyOffset >= x.mu.min {
		res.LastUpdateTime, res.LastUpdatePhyOffset = k.storeTime, k.phyOffset
	}
	x.mu.Unlock()
	for h, err := range x.All(topic, key, begin, end) {
		if err != nil {
			return Result{}, err
		}
		res.Hits = append(res.Hits, h)
		if len(res.Hits) == max {
			break
		}
	}
	slices.Reverse(res.Hits)
	return res, nil
}

// LookupUniqKey finds the newest record of topic that has that unique key (UNIQ_KEY; KEYS do not count).
func (x *Index) LookupUniqKey(topic, key string) (h Hit, ok bool, err error) {
	is := func(m *record.Meta) bool {
		u, has := m.UniqKey()
		return has && string(u) == key && m.Topic == topic && indexed(m)
	}
	for h, err := range x.hits(topic, key, math.MinInt64, math.MaxInt64, is) {
		return h, err == nil, err
	}
	return Hit{}, false, nil
}

// All yields every record that Query would find without a cap, the newest first. An error is the last thing yielded.
// A loop over it must not query or close the index: Close waits for the loop, and queries wait for Close.
func (x *Index) All(topic, key string, begin, end int64) iter.Seq2[Hit, error] {
	return x.hits(topic, key, begin, end, func(m *record.Meta) bool { return Holds(m, topic, key) })
}

// snapshot is what one query looks at.
type snapshot struct {
	runs  []run // of the tails, the newer first
	heads []head
	now   head
	some  bool
	min   int64
	below int64 // what lies at or beyond is in runs
}

func (x *Index) snapshot(hash uint64) snapshot {
	x.mu.Lock()
	defer x.mu.Unlock()
	m := &x.mu
	s := snapshot{heads: m.old, now: m.now, some: m.some, min: m.min, below: m.active.from}
	s.runs = append(make([]run, 0, 2), m.active.run(hash))
	if m.sealed != nil {
		s.runs = append(s.runs, m.sealed.run(hash))
		s.below = m.sealed.from
	}
	return s
}

// hits yields the entries of topic and key within the times whose records are as is says, the newest first.
func (x *Index) hits(topic, key string, begin, end int64, is func(m *record.Meta) bool) iter.Seq2[Hit, error] {
	return func(yield func(Hit, error) bool) {
		x.use.RLock()
		defer x.use.RUnlock()
		if x.closed.Load() {
			yield(Hit{}, ErrClosed)
			return
		}
		if begin > end {
			return
		}
		hash := hashOf(topic, key)
		s := x.snapshot(hash)
		// verify yields the entry if its record is what was asked for; more says to go on.
		verify := func(phyOffset int64) (more bool) {
			h := Hit{PhyOffset: phyOffset}
			good := false
			_, err := x.o.Record(phyOffset, func(m *record.Meta) {
				h.Size, h.StoreTime = m.Size, m.StoreTimestamp
				good = m.PhyOffset == phyOffset && begin <= h.StoreTime && h.StoreTime <= end && is(m)
			})
			if err != nil {
				yield(Hit{}, fmt.Errorf("query: record at %d: %w", phyOffset, err))
				return false
			}
			return !good || yield(h, nil)
		}
		for i := range s.runs {
			for e, ok := s.runs[i].next(); ok; e, ok = s.runs[i].next() {
				if begin <= e.storeTime && e.storeTime <= end && e.phyOffset >= s.min && !verify(e.phyOffset) {
					return
				}
			}
		}
		if err := x.search(&s, hash, begin, end, verify); err != nil {
			yield(Hit{}, err)
		}
	}
}

// search asks the database's buckets, the newest first.
func (x *Index) search(s *snapshot, hash uint64, begin, end int64, verify func(phyOffset int64) bool) (err error) {
	if !s.some || s.below <= s.min {
		return nil
	}
	it, err := x.db.iterate(&pebble.IterOptions{UseL6Filters: true})
	if err != nil {
		return x.readError(err)
	}
	defer func() {
		if cerr := it.close(); err == nil && cerr != nil {
			err = x.readError(cerr)
		}
	}()
	var buf [keySize]byte
	newest := x.bucketOf(s.below - 1)
	for i := len(s.heads); i >= 0; i-- {
		h := &s.now
		if i < len(s.heads) {
			h = &s.heads[i]
		}
		if h.bucket > newest || h.minTime > end || h.maxTime < begin {
			continue
		}
		if x.bucketEnd(h.bucket) <= s.min {
			return nil
		}
		start := int64(h.bucket) * x.o.BucketSize
		from := min(s.below-1-start, x.o.BucketSize-1)
		key := appendKey(buf[:0], h.bucket, hash, uint32(from))
		for ok := it.seekPrefixGE(key); ok; ok = it.next() {
			_, _, offset, ok := parseKey(it.key())
			if !ok {
				return damaged(fmt.Errorf("index key of %d bytes", len(it.key())))
			}
			at := start + int64(offset)
			if at < s.min {
				break
			}
			v, err := it.value()
			if err != nil {
				return x.readError(err)
			}
			t, ok := parseTime(v, h.base)
			if !ok {
				return damaged(fmt.Errorf("index entry of %d without a time", at))
			}
			if begin <= t && t <= end && !verify(at) {
				return nil
			}
		}
		if err := it.error(); err != nil {
			return x.readError(err)
		}
	}
	return nil
}

// readError notes that the files are damaged.
func (x *Index) readError(err error) error {
	err = fmt.Errorf("read index %s: %w", x.o.Dir, classify(err))
	if errors.Is(err, ErrDamaged) {
		x.fail(err)
	}
	return err
}

// Entry is one key of one record, as the index has it: without its text.
type Entry struct {
	Hash      uint64 // 48 bits, see Hash
	PhyOffset int64
	StoreTime int64 // ms
}

// Hash is what the index keeps of topic and key.
func Hash(topic, key string) uint64 { return hashOf(topic, key) }

// Entries yields the whole index for tools and tests: by bucket of the log, then by hash, then the newest first; flush it before. An error is the last thing yielded. As with All, the loop must not query or close the index.
func (x *Index) Entries() iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		x.use.RLock()
		defer x.use.RUnlock()
		if x.closed.Load() {
			yield(Entry{}, ErrClosed)
			return
		}
		if err := entries(x.db, x.o.BucketSize, func(e Entry) bool { return yield(e, nil) }); err != nil {
			yield(Entry{}, x.readError(err))
		}
	}
}

// EachEntry calls f with each entry, in the order of Entries, and ends at its first error, which it returns.
func (x *Index) EachEntry(f func(Entry) error) error {
	x.use.RLock()
	defer x.use.RUnlock()
	if x.closed.Load() {
		return ErrClosed
	}
	var failed error
	err := entries(x.db, x.o.BucketSize, func(e Entry) bool {
		failed = f(e)
		return failed == nil
	})
	switch {
	case failed != nil:
		return failed
	case err != nil:
		return x.readError(err)
	}
	return nil
}

func entries(db *database, bucketSize int64, yield func(Entry) bool) (err error) {
	it, err := db.iterate(nil)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := it.close(); err == nil {
			err = cerr
		}
	}()
	var h head
	for ok := it.first(); ok; ok = it.next() {
		v, err := it.value()
		if err != nil {
			return err
		}
		k := it.key()
		if len(k) == posHash {
			if h, _, ok = decodeHead(be.Uint64(k), v); !ok {
				return damaged(fmt.Errorf("head of bucket %x", k))
			}
			continue
		}
		bucket, hash, offset, ok := parseKey(k)
		t, ok2 := parseTime(v, h.base)
		if !ok || !ok2 || bucket != h.bucket {
			return damaged(fmt.Errorf("index entry %x", k))
		}
		if !yield(Entry{hash, int64(bucket)*bucketSize + int64(offset), t}) {
			return nil
		}
	}
	return it.error()
}

// readHeads reads the heads of all buckets, oldest first, and checks that they follow one another. bucketSize is 0 if there are none.
func readHeads(db *database) (heads []head, bucketSize int64, err error) {
	it, err := db.iterate(nil)
	if err != nil {
		return nil, 0, classify(err)
	}
	defer func() {
		if cerr := it.close(); err == nil {
			err = classify(cerr)
		}
	}()
	for ok := it.first(); ok; {
		k := bytes.Clone(it.key())
		v, err := it.value()
		if err != nil {
			return nil, 0, classify(err)
		}
		if len(k) != posHash {
			return nil, 0, damaged(fmt.Errorf("index key %x where the head of a bucket should be", k))
		}
		h, size, good := decodeHead(be.Uint64(k), v)
		if !good || bucketSize != 0 && size != bucketSize || len(heads) > 0 && h.last.phyOffset < heads[len(heads)-1].next {
			return nil, 0, damaged(fmt.Errorf("head of bucket %x is of another format, or makes no sense", k))
		}
		heads, bucketSize = append(heads, h), size
		ok = it.seekGE(headKey(h.bucket + 1))
	}
	return heads, bucketSize, classify(it.error())
}
