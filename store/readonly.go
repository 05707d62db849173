package store

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store/internal/recovery"
)

// ReadOnlyStore looks at a store directory without its lock and without writing a byte. It sees what was there when it was opened.
type ReadOnlyStore struct {
	reader
	dir      string
	report   RecoveryReport
	warnings []string
	index    lookIndex
}

var _ interface {
	Getter
	Looker
	Querier
	OffsetReader
} = (*ReadOnlyStore)(nil)

// OpenReadOnly opens dir for looking: a closed store, one that another process has open, or one of RocketMQ (4.x or 5.x; batch queues, epochs and RocksDB queues are named in Warnings and not read).
// The ends of log and queues are computed in memory; queues that lack units stay as they are, see Warnings. Options that are about writing have no effect.
func OpenReadOnly(dir string, o Options) (*ReadOnlyStore, error) {
	delay, err := o.fill(dir)
	if err != nil {
		return nil, err
	}
	if err := checkDirectory(o.FS, dir, o.CommitLogDir, true); err != nil {
		return nil, err
	}
	return openReadOnly(dir, o, delay)
}

// lookAgain is how often a live store is looked at before its files are taken for wrong.
const lookAgain = 4

func openReadOnly(dir string, o Options, delay record.DelayTable) (*ReadOnlyStore, error) {
	foreign, err := foreignFormats(o.FS, dir, true)
	if err != nil {
		return nil, fmt.Errorf("open %s read-only: %w", dir, fromBelow(err))
	}
	begin := time.Now()
	var opened *recovery.Opened
	var warnings []string
	for range lookAgain {
		opened, warnings, err = recoverDirectory(dir, &o, delay, true)
		var file *mappedfile.FileError
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, mappedfile.ErrMissingFile) && !errors.As(err, &file) {
			break
		}
		// A file came or went while the directory was listed, or before it was mapped: the store is live.
	}
	if err != nil {
		return nil, fmt.Errorf("open %s read-only: %w", dir, fromBelow(err))
	}
	s := &ReadOnlyStore{
		reader:   reader{o: o, log: opened.Log, queues: opened.Queues},
		dir:      dir,
		report:   reportOf(opened.Report, time.Since(begin)),
		warnings: append(foreign, warnings...),
	}
	s.role.Store(uint32(o.Role))
	return s, nil
}

// Recovery is what an Open for writing would start from. Clean says whether the last exit was.
func (s *ReadOnlyStore) Recovery() RecoveryReport { return s.report }

// Warnings says what was not read, and what an Open for writing would mend.
func (s *ReadOnlyStore) Warnings() []string { return s.warnings }

// Stats is what can be said without the store's process. Writable is false.
func (s *ReadOnlyStore) Stats() Stats {
	st := s.reader.stats(s.dir)
	st.FlushedPhyOffset, st.DispatchedPhyOffset, st.VisibleEnd = st.MaxPhyOffset, st.MaxPhyOffset, st.MaxPhyOffset
	st.ConfirmPhyOffset = st.MaxPhyOffset
	st.NotWritableReason = ErrReadOnly.Error()
	st.Recovery, st.Warnings = s.report, s.warnings
	st.Index = s.indexStats()
	return st
}

// Close gives the files back. Views that are still held stay valid until they are released.
func (s *ReadOnlyStore) Close() error {
	if s.readClosed.Swap(true) {
		return ErrClosed
	}
	s.closeIndex()
	err := s.queues.Close()
	if lerr := s.log.Close(); err == nil {
		err = lerr
	}
	return err
}
