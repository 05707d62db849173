package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mqstore/mqstore/checkpoint"
	"github.com/mqstore/mqstore/commitlog"
	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/consumequeue"
	"github.com/mqstore/mqstore/dispatch"
	"github.com/mqstore/mqstore/store/internal/recovery"
)

// DefaultMessageStore is a MessageStore over one directory. See the package's contract. It is made by Open and must be closed.
//
// Lock order: roleMu, then gate, then rawMu or retainMu, then checkMu, then dispatching.mu. No callback of the caller runs under one of them.
type DefaultMessageStore struct {
	reader
	dir  string
	lock io.Closer

	// gate is held by each put from its checks to its answer; Close passes it, once closing is set.
	gate    gate
	closing atomic.Bool

	counters    *counters
	dispatcher  *dispatch.Dispatcher
	cursor      *commitlog.Cursor
	index       *indexer // nil: off
	dispatching progress
	rawBegun    atomic.Int64 // raw bytes may be in the log up to here: set before they are, since dispatch sees them at once
	rawEnd      atomic.Int64 // raw bytes were received up to here
	rawPart     []byte       // the last of them, which are no whole record yet; guarded by rawMu
	rawMu       sync.Mutex   // one AppendToCommitLog at a time
	replication replication
	roleMu      sync.Mutex // one SetRole at a time
	trouble     trouble
	futures     futures
	arrivals    arrivals
	retainMu    sync.Mutex // one DeleteExpired at a time
	checkMu     sync.Mutex // one CheckpointStep at a time
	stepMu      struct {   // one step of a dispatcher at a time, whoever makes it: with NoBackground puts, DispatchStep, SetRole and Close all do
		queues, index sync.Mutex
	}
	sealed    bool // Close has written the last checkpoint; guarded by checkMu
	page      checkpoint.Page
	recovered int64                       // recovery gave every record below its unit
	next      map[recovery.QueueKey]int64 // queue offsets that recovery knew to come next, also of queues that are gone
	unsettled bool                        // recovery left the first checkpoint to us
	unchecked bool                        // SkipQueueCheck: queues may lack units, so no summary may vouch for them
	report    RecoveryReport
	warnings  []string

	counts struct {
		puts, putFailures, putBytes atomic.Int64
	}
	dispatchLoop, background struct {
		stop context.CancelFunc // nil = not running
		sync.WaitGroup
	}
}

// Open opens the store in dir, and creates it if dir is missing or empty. It recovers what an unclean exit left behind: on return everything in the log can be read.
// With SyncFlush, or NoBackground, it is also durable then; with AsyncFlush what had not been synced is so after the first flush, which comes by itself (FlushedPhyOffset tells), unless something was cut.
//
// Errors (errors.Is): ErrLocked (the message names the holder), ErrCorrupt (*CorruptError has the place; nothing was changed), ErrNotAStore, ErrUnsupported (a directory of a kind that this version must not write), ErrDiskFull, fs.ErrPermission.
func Open(dir string, o Options) (_ *DefaultMessageStore, err error) {
	defer func() {
		if err != nil {
			o.HA.closeListeners()
		}
	}()
	delay, err := o.fill(dir)
	if err != nil {
		return nil, err
	}
	if err := checkDirectory(o.FS, dir, o.CommitLogDir, false); err != nil {
		return nil, err
	}
	foreign, err := foreignFormats(o.FS, dir, false)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, fromBelow(err))
	}
	if err := o.FS.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("open store: create %s: %w", dir, fromBelow(err))
	}
	lock, err := checkpoint.Lock(o.FS, dir)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, fromBelow(err))
	}
	s := &DefaultMessageStore{dir: dir, lock: lock, gate: newGate()}
	defer func() {
		if err != nil {
			s.abandon()
		}
	}()
	if err := o.HA.listen(); err != nil { // before anything in the directory changes; connections wait until startReplication
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	begin := time.Now()
	opened, warnings, err := recoverDirectory(dir, &o, delay, false)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, fromBelow(err))
	}
	s.reader = reader{o: o, log: opened.Log, queues: opened.Queues}
	s.role.Store(uint32(o.Role))
	s.page, s.warnings = opened.Page, append(foreign, warnings...)
	s.report = reportOf(opened.Report, time.Since(begin))
	s.unsettled = opened.Unsettled
	s.recovered, s.unchecked, s.next = opened.Dispatched, opened.Report.QueuesUnchecked, opened.NextOffsets
	indexes, err := setIndexFilesAside(o.FS, dir, opened.Report.End)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, fromBelow(err))
	}
	if len(indexes) > 0 {
		s.warnings = append(s.warnings, fmt.Sprintf("RocketMQ's index files of what was cut at %d were set aside: %v; queries here do not need them, for RocketMQ mqstore index-export makes new ones", opened.Report.End, indexes))
	}
	for _, w := range s.warnings {
		o.Logger.Warn(w, "dir", dir)
	}
	s.counters = newCounters(func(k queueKey) int64 {
		next := s.next[recovery.QueueKey{Topic: k.topic, QueueID: k.queueID}]
		if q := s.queues.Queue(k.topic, k.queueID); q != nil {
			next = max(next, q.MaxOffset())
		}
		return next
	})
	if err := checkpoint.CreateAbort(o.FS, dir); err != nil {
		return nil, fmt.Errorf("open store %s: mark it as in use: %w", dir, fromBelow(err))
	}
	if err := s.startDispatch(opened); err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, fromBelow(err))
	}
	if !o.Index.Off {
		s.index = newIndexer(dir, &s.o, s.visible())
		s.index.start()
	}
	s.announceRecovery(opened.Report)
	if o.NoBackground {
		s.futures.init(s)
		return s, nil
	}
	if err := s.startReplication(); err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	s.futures.init(s)
	ctx, stop := context.WithCancel(context.Background())
	s.background.stop = stop
	s.resumeDispatch()
	s.background.Go(func() { s.runFlush(ctx) })
	if s.index != nil {
		s.background.Go(func() { s.index.run(ctx) })
	}
	s.futures.start(ctx)
	if s.warnOfRole(); o.Role == Slave {
		s.startFollowing()
	}
	return s, nil
}

// recoverDirectory opens log and queues of a directory that is locked, or only looked at.
func recoverDirectory(dir string, o *Options, delay record.DelayTable, readOnly bool) (*recovery.Opened, []string, error) {
	var warnings []string
	segmentSize, queueFileSize := o.SegmentSize, o.QueueFileSize
	if o.SizesFromFiles {
		var err error
		if segmentSize, queueFileSize, warnings, err = sizesOfFiles(o.FS, dir, o.CommitLogDir, segmentSize, queueFileSize); err != nil {
			return nil, nil, err
		}
	}
	flush := commitlog.AsyncFlush
	if o.FlushMode == SyncFlush {
		flush = commitlog.SyncFlush
	}
	damage := commitlog.DamageRefuse
	if o.OnDamage == DamageCut {
		damage = commitlog.DamageCut
	}
	opened, err := recovery.Open(recovery.Options{
		FS:           o.FS,
		Root:         dir,
		CommitLogDir: o.CommitLogDir,
		CommitLog: commitlog.Options{
			QuarantineDir: filepath.Join(dir, "quarantine"),
			SegmentSize:   segmentSize,
			FlushMode:     flush,
			FlushEvery:    o.FlushEvery,
			Limits:        record.Limits{MaxMessageSize: o.MaxMessageSize, AllowV2: o.AllowV2},
			Delay:         delay,
			OnDamage:      damage,
			Now:           o.Now,
			NoBackground:  o.NoBackground,
		},
		Queues: consumequeue.Options{
			Dir:          filepath.Join(dir, "consumequeue"),
			ExtDir:       filepath.Join(dir, "consumequeue_ext"),
			FileSize:     queueFileSize,
			NoBackground: o.NoBackground,
		},
		MultiDispatch:  o.MultiDispatch,
		SkipQueueCheck: o.SkipQueueCheck,
		ReadOnly:       readOnly,
		IgnoreSummary:  o.IgnoreSummary,
		Later:          o.FlushMode != SyncFlush && !o.NoBackground, // nobody waits for a flush, and one comes
		Progress:       o.Progress,
	})
	if err != nil {
		return nil, nil, err
	}
	return opened, append(warnings, warningsOf(opened.Report)...), nil
}

// abandon undoes what a failing Open has done so far.
func (s *DefaultMessageStore) abandon() {
	if s.index != nil {
		s.index.close()
	}
	if s.cursor != nil {
		s.cursor.Close()
	}
	if s.queues != nil {
		s.queues.Close()
	}
	if s.log != nil {
		s.log.Close()
	}
	s.lock.Close()
}

func reportOf(r recovery.Report, took time.Duration) RecoveryReport {
	return RecoveryReport{
		Clean: r.Clean, Start: r.Start, End: r.End, ScannedRecords: r.ScannedRecords, DroppedBytes: r.DroppedBytes,
		RebuiltUnits: r.RebuiltUnits, RebuiltQueues: r.RebuiltQueues, Quarantine: r.Quarantine, Took: took,
	}
}

func warningsOf(r recovery.Report) (w []string) {
	switch announced := errors.Is(r.DroppedReason, commitlog.ErrAnnounced); {
	case r.DroppedBytes > 0 && announced && len(r.Quarantine) == 0: // opened read-only
		w = append(w, fmt.Sprintf("the log is read up to %d only, where a truncation was announced and interrupted: Open finishes it, cuts the %d bytes with %d whole records behind, and keeps them in quarantine/", r.End, r.DroppedBytes, r.DroppedRecords))
	case r.DroppedBytes > 0 && announced:
		w = append(w, fmt.Sprintf("a truncation of the log to %d had been announced and interrupted, and was finished: the %d bytes behind, with %d whole records, are kept in %v", r.End, r.DroppedBytes, r.DroppedRecords, r.Quarantine))
	case r.DroppedBytes > 0 && r.DroppedRecords > 0 && len(r.Quarantine) == 0: // opened read-only, with DamageCut
		w = append(w, fmt.Sprintf("the log is read up to %d only, where it is damaged (%v): behind lie %d bytes with %d whole records, which Open would refuse to give up", r.End, r.DroppedReason, r.DroppedBytes, r.DroppedRecords))
	case r.DroppedBytes > 0 && len(r.Quarantine) == 0: // opened read-only
		w = append(w, fmt.Sprintf("the log ends at %d: the %d bytes behind are no whole records (%v); Open would cut them, and keep them in quarantine/", r.End, r.DroppedBytes, r.DroppedReason))
	case r.DroppedBytes > 0:
		w = append(w, fmt.Sprintf("the log's last %d bytes were no whole records and were cut at %d (%v); they are kept in %v", r.DroppedBytes, r.End, r.DroppedReason, r.Quarantine))
	}
	if r.LostBytes > 0 {
		w = append(w, fmt.Sprintf("%d bytes of the log that had been on disk are lost or cut: it ended at %d or beyond and ends at %d; %d queue units went with them, and their offsets are given again: if a copy of the log's files exists, restore it before anything is put", r.LostBytes, r.End+r.LostBytes, r.End, r.TruncatedUnits))
	}
	if r.SummaryDoubt != "" {
		w = append(w, "the summary of an earlier exit does not fit the log and was not used: "+r.SummaryDoubt)
	}
	if r.QueuesUnchecked {
		w = append(w, "queues were not compared with the log (SkipQueueCheck): they may lack messages")
	}
	if len(r.RebuiltQueues) > 0 {
		w = append(w, fmt.Sprintf("%d units of lost or damaged queues were rebuilt from the log: %v", r.RebuiltUnits, r.RebuiltQueues))
	}
	if len(r.LackingQueues) > 0 {
		w = append(w, fmt.Sprintf("queues that lack units of the log, which Open would rebuild: %v", r.LackingQueues))
	}
	if len(r.ReusedOffsets) > 0 {
		w = append(w, fmt.Sprintf("the log holds a queue offset more than once in these queues: %v", r.ReusedOffsets))
	}
	if len(r.LogGaps) > 0 {
		w = append(w, fmt.Sprintf("the log lacks messages of these queues: %v", r.LogGaps))
	}
	return w
}

func (s *DefaultMessageStore) announceRecovery(r recovery.Report) {
	s.o.Logger.Info("store open", "dir", s.dir, "clean", r.Clean, "minPhyOffset", s.log.MinPhyOffset(), "maxPhyOffset", s.log.MaxPhyOffset(), "scanned", r.ScannedRecords, "rebuiltUnits", r.RebuiltUnits, "took", s.report.Took)
	if len(r.RebuiltQueues) > 0 {
		rebuilt := make(map[string]bool, len(r.RebuiltQueues))
		for _, name := range r.RebuiltQueues {
			rebuilt[name] = true
		}
		for q := range s.queues.All() {
			if rebuilt[q.String()] {
				s.o.Events.QueueRebuilt(q.Topic(), q.ID(), q.MaxOffset()-q.MinOffset())
			}
		}
	}
	s.o.Events.Recovered(s.report)
}

// trouble is what keeps the store from being written, or dispatch from going on. The zero value is none.
type trouble struct {
	final    atomic.Pointer[error] // until the store is opened again
	dispatch atomic.Pointer[error] // until dispatch makes progress
	full     atomic.Pointer[error] // until an append succeeds
}

// fail makes err the reason why the store is not writable until it is reopened. Only the first one counts; it reports whether err was that.
func (t *trouble) fail(err error) bool { return t.final.CompareAndSwap(nil, &err) }

// flushFailed notes a failed sync, once. That what was to be flushed is closed, and so flushed, is none.
func (s *DefaultMessageStore) flushFailed(err error) {
	if closed(err) {
		return
	}
	err = fmt.Errorf("%w, the store takes no more puts until it is opened again: %w", ErrFlushFailed, err)
	if s.trouble.fail(err) {
		s.o.Logger.Error("flush failed", "dir", s.dir, "err", err)
		s.o.Events.FlushFailed(err)
	}
}

// closed reports whether err is that of a call that came after, or beside, a Close.
func closed(err error) bool {
	return errors.Is(err, commitlog.ErrClosed) || errors.Is(err, mappedfile.ErrClosed)
}

// writable is nil if puts may go on in role.
func (s *DefaultMessageStore) writable(role Role) error {
	if s.closing.Load() {
		return fmt.Errorf("%w: %w", ErrServiceNotAvailable, ErrClosed)
	}
	if role == Slave {
		return fmt.Errorf("%w: this store is a slave: put to its master", ErrServiceNotAvailable)
	}
	return s.healthy()
}

// healthy is nil if the log may be written at all, as far as is known: a flush that failed since on the log's own goroutine is noticed by the append itself.
func (s *DefaultMessageStore) healthy() error {
	if p := s.trouble.final.Load(); p != nil {
		return fmt.Errorf("%w: %w", ErrServiceNotAvailable, *p)
	}
	if p := s.trouble.dispatch.Load(); p != nil && errors.Is(*p, ErrDiskFull) {
		s.arrivals.poke()
		return fmt.Errorf("queues cannot grow: %w", *p)
	}
	return nil
}

// runFlush flushes queues and writes checkpoints, and notices a failed flush of the log's own goroutine.
func (s *DefaultMessageStore) runFlush(ctx context.Context) {
	queues := time.NewTicker(s.o.QueueFlushEvery)
	defer queues.Stop()
	check := time.NewTicker(s.o.CheckpointEvery)
	defer check.Stop()
	first := make(chan struct{})
	if s.unsettled {
		close(first)
	}
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-first:
			first = nil
			err = s.CheckpointStep()
		case <-queues.C:
			if err = s.log.Err(); err == nil {
				err = s.flushQueues()
			}
		case <-check.C:
			err = s.CheckpointStep()
		}
		if errors.Is(err, mappedfile.ErrDiskFull) { // the checkpoint's file: the next tick tries again
			s.diskFull(fmt.Errorf("checkpoint: %w", fromBelow(err)))
		} else if err != nil {
			s.flushFailed(err)
			return
		}
	}
}

func (s *DefaultMessageStore) flushQueues() error {
	s.checkMu.Lock()
	defer s.checkMu.Unlock()
	return s.queues.Flush()
}

// FlushStep flushes log and queues once and completes the futures that waited for it. It is for stores without background goroutines; in others it is Flush.
func (s *DefaultMessageStore) FlushStep() (flushed int64, err error) {
	flushed, err = s.log.FlushStep()
	if err != nil {
		s.flushFailed(err)
	}
	s.futures.step(s.futures.now())
	if err == nil {
		if err = s.flushQueues(); err != nil {
			s.flushFailed(err)
		}
	}
	return flushed, fromBelow(err)
}

// Flush makes everything appended so far durable, log and queues, and returns how far the log is on disk. An error is final (ErrFlushFailed).
func (s *DefaultMessageStore) Flush() (flushed int64, err error) {
	if s.closing.Load() {
		return s.log.FlushedPhyOffset(), ErrClosed
	}
	flushed, err = s.log.Flush()
	if err == nil {
		err = s.flushQueues()
	}
	switch {
	case closed(err):
		return flushed, ErrClosed
	case err != nil:
		s.flushFailed(err)
		return flushed, fmt.Errorf("%w: %w", ErrFlushFailed, err)
	}
	s.futures.step(s.futures.now())
	return flushed, nil
}

// WaitFlushed waits until the log is on disk up to phyOffset: PutResult.PhyOffset + Size for one message. It returns ErrFlushFailed, ErrClosed or ctx's error.
func (s *DefaultMessageStore) WaitFlushed(ctx context.Context, phyOffset int64) error {
	err := s.log.WaitFlushed(ctx, phyOffset)
	if err == nil || ctx.Err() != nil || errors.Is(err, commitlog.ErrClosed) {
		return fromBelow(err)
	}
	s.flushFailed(err)
	return fmt.Errorf("%w: %w", ErrFlushFailed, err)
}

// CheckpointStep makes log and queues durable, in this order, and then says so in the checkpoint page and the summary: what it writes is true at any later crash.
func (s *DefaultMessageStore) CheckpointStep() error { return s.checkpoint(false) }

// checkpoint is refused with ErrClosed once Close is past its own: the directory is about to be another's.
func (s *DefaultMessageStore) checkpoint(clean bool) error {
	s.checkMu.Lock()
	defer s.checkMu.Unlock()
	if s.sealed {
		return ErrClosed
	}
	minPhyOffset := max(s.log.MinPhyOffset(), 0) // before the queues, which follow it: what is deleted meanwhile is deleted after this checkpoint
	at := s.dispatching.snapshot(s.queues)
	if _, err := s.log.Flush(); err != nil {
		return err
	}
	if err := s.queues.Flush(); err != nil {
		return err
	}
	page := s.page
	flushed := s.log.LastStoreTimestamp() // bounds the other: no checksum covers the time in a record
	page.PhysicMsgTimestamp = max(page.PhysicMsgTimestamp, flushed)
	page.LogicsMsgTimestamp = max(page.LogicsMsgTimestamp, min(at.last.StoreTimestamp, flushed))
	if err := checkpoint.Write(s.o.FS, filepath.Join(s.dir, "checkpoint"), page); err != nil {
		return fmt.Errorf("write checkpoint: %w", err)
	}
	s.page = page
	if s.unchecked {
		return nil
	}
	summary := at.summary(minPhyOffset, clean)
	recovery.KeepNumbers(summary, s.next)
	if err := checkpoint.WriteSummary(s.o.FS, s.dir, summary); err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	return nil
}

// Close refuses new puts, waits for those under way, makes everything durable, finishes dispatch and leaves the directory as after a clean exit: with a summary and without the abort file,
// unless something could not be finished, which it returns. Views that are still held stay valid until they are released. A second call returns ErrClosed.
func (s *DefaultMessageStore) Close() error {
	if s.closing.Swap(true) {
		return ErrClosed
	}
	s.roleMu.Lock() // a SetRole under way ends first
	defer s.roleMu.Unlock()
	s.stopFollowing()
	// Puts under way hold the gate until they are answered; one flush is all that they can be waiting for, and slaves, which get their time. Later ones find the store closing: from here on nothing is appended,
	// and the gate can be left (a callback that puts must not wait for us while we wait for it).
	s.log.Flush()
	if s.Role() == SyncMaster {
		s.lastAcks()
	}
	s.futures.step(s.futures.now())
	s.replication.stopMaster() // from here on no slave counts: what none has acknowledged becomes visible, as on a master without slaves
	s.gate.pass()

	var errs []error
	flushed, err := s.log.Flush()
	if err != nil {
		s.flushFailed(err)
		errs = append(errs, fmt.Errorf("%w: %w", ErrFlushFailed, err))
	}
	s.futures.finish()
	s.arrivals.close()
	s.pauseDispatch()
	if s.background.stop != nil {
		s.background.stop()
		s.background.Wait()
	}
	clean := err == nil
	if clean {
		if err := s.dispatchRest(); err != nil {
			clean = false
			errs = append(errs, fmt.Errorf("finish dispatch: %w", fromBelow(err)))
		}
		if s.trouble.final.Load() != nil || s.dispatcher.Offset() < flushed {
			clean = false
		}
		if err := s.checkpoint(clean); err != nil {
			clean = false
			if errors.Is(err, mappedfile.ErrDiskFull) { // log and queues are on disk; only the next open has more to look at
				err = fmt.Errorf("last checkpoint: %w", fromBelow(err))
			} else {
				s.flushFailed(err)
				err = fmt.Errorf("%w: %w", ErrFlushFailed, err)
			}
			errs = append(errs, err)
		}
	}
	s.checkMu.Lock()
	s.sealed = true
	s.checkMu.Unlock()
	s.readClosed.Store(true)
	if s.index != nil {
		s.stepMu.index.Lock()
		s.index.close()
		s.stepMu.index.Unlock()
	}
	s.stepMu.queues.Lock() // a DispatchStep under way ends first; a later one finds the store closing
	s.cursor.Close()
	s.stepMu.queues.Unlock()
	if err := s.queues.Close(); err != nil {
		clean = false
		errs = append(errs, err)
	}
	if err := s.log.Close(); err != nil && flushedErr(errs) == nil {
		clean = false
		errs = append(errs, err)
	}
	if clean {
		if err := checkpoint.RemoveAbort(s.o.FS, s.dir); err != nil {
			errs = append(errs, fmt.Errorf("remove abort file: %w", err))
		}
	}
	if err := s.lock.Close(); err != nil {
		errs = append(errs, fmt.Errorf("release lock: %w", err))
	}
	err = errors.Join(errs...)
	s.o.Logger.Info("store closed", "dir", s.dir, "clean", clean, "flushed", flushed, "err", err)
	return err
}

func flushedErr(errs []error) error {
	for _, err := range errs {
		if errors.Is(err, ErrFlushFailed) {
			return err
		}
	}
	return nil
}
