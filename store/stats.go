package store

// Stats is the store's state at one moment. Offsets are physical, sizes in bytes, counts since Open.
type Stats struct {
	MinPhyOffset, MaxPhyOffset int64 // the log: [min, max); min is -1 if it is empty
	FlushedPhyOffset           int64 // on disk up to here
	ConfirmPhyOffset           int64 // what as many slaves hold as a put waits for; without slaves near enough, the log's end
	DispatchedPhyOffset        int64 // in the queues up to here
	VisibleEnd                 int64 // what consumers may see up to here
	DispatchBehindBytes        int64 // max - dispatched

	Puts, PutFailures, PutBytes int64
	Gets, GetMisses             int64 // misses: gets that found nothing

	Queues, Topics, Segments int
	DiskFree, DiskTotal      int64 // of the file system that holds the commit log; -1 if unknown

	Writable          bool   // puts are accepted now
	NotWritableReason string // why not; "" if they are
	DispatchHeldUp    string // why dispatch stands still and tries again; "" if it does not
	Index             IndexStats
	Recovery          RecoveryReport
	Warnings          []string // what Open found that somebody should know
	HA                HAStats
}

func (s *reader) stats(dir string) Stats {
	st := Stats{
		MinPhyOffset: s.log.MinPhyOffset(), MaxPhyOffset: s.log.MaxPhyOffset(),
		Gets: s.gets.Load(), GetMisses: s.miss.Load(), Segments: len(s.log.Segments()),
	}
	topic := ""
	for q := range s.queues.All() {
		st.Queues++
		if st.Queues == 1 || q.Topic() != topic {
			st.Topics++
			topic = q.Topic()
		}
	}
	var err error
	if st.DiskFree, st.DiskTotal, err = s.o.FS.Free(s.o.CommitLogDir); err != nil {
		if st.DiskFree, st.DiskTotal, err = s.o.FS.Free(dir); err != nil {
			st.DiskFree, st.DiskTotal = -1, -1
		}
	}
	return st
}

// Stats is the store's state now.
func (s *DefaultMessageStore) Stats() Stats {
	st := s.reader.stats(s.dir)
	st.FlushedPhyOffset, st.DispatchedPhyOffset, st.VisibleEnd = s.log.FlushedPhyOffset(), s.dispatcher.Offset(), s.VisibleEnd()
	st.ConfirmPhyOffset = st.MaxPhyOffset
	if m := s.replication.master; m != nil {
		st.ConfirmPhyOffset = m.ConfirmPhyOffset(s.o.HA.RequiredAcks)
	}
	st.HA = s.haStats()
	st.DispatchBehindBytes = max(st.MaxPhyOffset-st.DispatchedPhyOffset, 0)
	st.Puts, st.PutFailures, st.PutBytes = s.counts.puts.Load(), s.counts.putFailures.Load(), s.counts.putBytes.Load()
	st.Recovery, st.Warnings = s.report, s.warnings
	st.Index = IndexStats{Kind: "none", ProgressPhyOffset: -1}
	if s.index != nil {
		st.Index = s.index.stats()
	}
	if err := s.log.Err(); err != nil {
		s.flushFailed(err)
	}
	err := s.writable(s.Role())
	if p := s.trouble.full.Load(); err == nil && p != nil {
		err = *p
	}
	st.Writable = err == nil
	if err != nil {
		st.NotWritableReason = err.Error()
	}
	if p := s.trouble.dispatch.Load(); p != nil {
		st.DispatchHeldUp = (*p).Error()
	}
	return st
}
