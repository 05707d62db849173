package index

// Stats is the state of an index at one moment.
type Stats struct {
	NextPhyOffset    int64 // everything that starts below is in the index
	DurablePhyOffset int64 // and on disk
	Entries          int64 // keys; those of expired records count until their bucket goes
	Buckets          int
	TailEntries      int   // of them in memory only
	LastUpdateTime   int64 // ms: of the last record that had a key; 0 = none
	Flushes          int64 // tables written, since Open
	DiskBytes        int64 // of the database
	Compactions      int64
	CompactedBytes   int64 // written by compactions
	CacheHits        int64 // Pebble's block cache
	CacheMisses      int64
}

// Stats is the index's state now; after Close, without what Pebble knows.
func (x *Index) Stats() Stats {
	x.use.RLock()
	defer x.use.RUnlock()
	s := Stats{Flushes: x.flushes.Load()}
	x.mu.Lock()
	m := &x.mu
	s.NextPhyOffset, s.DurablePhyOffset = m.next, m.durable
	for i := range m.old {
		s.Entries += m.old[i].entries
	}
	s.Buckets = len(m.old)
	if m.some {
		s.Entries += m.now.entries
		s.Buckets++
	}
	s.TailEntries = len(m.active.entries)
	if m.sealed != nil {
		s.TailEntries += len(m.sealed.entries)
	}
	if m.now.keyed.phyOffset >= m.min {
		s.LastUpdateTime = m.now.keyed.storeTime
	}
	x.mu.Unlock()
	if x.closed.Load() || x.db.logger.err() != nil {
		return s
	}
	p := x.db.Metrics()
	s.DiskBytes = int64(p.DiskSpaceUsage())
	s.Compactions = p.Compact.Count
	total := p.Total()
	s.CompactedBytes = int64(total.TableBytesCompacted)
	s.CacheHits, s.CacheMisses = p.BlockCache.Hits, p.BlockCache.Misses
	return s
}
