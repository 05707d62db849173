package store

import (
	"iter"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/index"
)

// Before calls f for each record before the index is given it; its error holds the index up.
func (o IndexOptions) Before(f func(m *record.Meta) error) IndexOptions {
	o.before = f
	return o
}

// IndexEntries is what the index holds on disk.
func (s *DefaultMessageStore) IndexEntries() iter.Seq2[index.Entry, error] {
	x, _ := s.index.current()
	return x.Entries()
}

// FlushIndex makes the index durable.
func (s *DefaultMessageStore) FlushIndex() error {
	x, _ := s.index.current()
	return x.Flush()
}

// ReopenIndex replaces the index by an empty one, as after a failure.
func (s *DefaultMessageStore) ReopenIndex() error {
	n := s.index
	n.open = func() (*index.Index, error) {
		o := indexOptions(n.dir, n.o, n.log.log)
		o.Dir = "" // two cannot be open in one directory
		return index.Open(o)
	}
	return n.reopen()
}
