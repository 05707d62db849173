package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mqstore/mqstore/commitlog"
	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/record"
)

// longestBusy: an append lock that seems held for longer than this says nothing (a stopped clock), as in the original.
const longestBusy = 10_000_000 * time.Millisecond

// maxPropertiesChars is the longest properties string in UTF-16 units (spec/dispatch-and-read.md 5.5, row 5).
const maxPropertiesChars = 32767

// Put stores m and answers when it is as safe as the store's mode promises. See Putter.
func (s *DefaultMessageStore) Put(ctx context.Context, m *record.Message) (PutResult, error) {
	role, err := s.enter(ctx)
	if err != nil {
		return PutResult{}, err
	}
	defer s.gate.leave()
	r, err := s.append(m)
	if err != nil {
		s.counts.putFailures.Add(1)
		return PutResult{}, err
	}
	return s.answer(ctx, r, m, role)
}

// enter lets a put in and says in which role: that is the one to answer it by, whatever the store has become meanwhile. Who was let in leaves the gate.
// It never waits at the gate: only Close and a master that becomes a slave hold it, and a callback that puts within a put must not wait for a Close that waits for that put.
func (s *DefaultMessageStore) enter(ctx context.Context) (role Role, err error) {
	switch {
	case s.gate.enter():
		if role, err = s.ready(ctx); err == nil {
			return role, nil
		}
		s.gate.leave()
	case s.closing.Load():
		err = fmt.Errorf("%w: %w", ErrServiceNotAvailable, ErrClosed)
	default:
		err = fmt.Errorf("%w: %w", ErrServiceNotAvailable, errChangingRole)
	}
	s.counts.putFailures.Add(1)
	return role, err
}

var errChangingRole = errors.New("this store is becoming a slave: put to its master")

// PutAsync appends m now, in this goroutine, and answers later. At most 65,536 puts wait for a flush or for slaves at a time: beyond that PutAsync waits for one of them.
func (s *DefaultMessageStore) PutAsync(m *record.Message) *Future {
	role, err := s.enter(context.Background())
	if err != nil {
		return &Future{done: closedChan, err: err}
	}
	defer s.gate.leave()
	r, err := s.append(m)
	if err != nil {
		s.counts.putFailures.Add(1)
		return &Future{done: closedChan, err: err}
	}
	w := s.waitsFor(&r, m, role)
	if !w.flush && !w.slaves {
		r, err := s.unawaited(r)
		return &Future{done: closedChan, res: r, err: err}
	}
	return s.futures.add(r, w)
}

// PutBatch stores all of items or none. See BatchPutter.
func (s *DefaultMessageStore) PutBatch(ctx context.Context, m *record.Message, items []record.BatchItem) (PutResult, error) {
	role, err := s.enter(ctx)
	if err != nil {
		return PutResult{}, err
	}
	defer s.gate.leave()
	r, err := s.appendBatch(m, items)
	if err != nil {
		s.counts.putFailures.Add(1)
		return PutResult{}, err
	}
	return s.answer(ctx, r, m, role)
}

// append checks m and puts it into the log, in the original's order (spec/dispatch-and-read.md 5.5).
func (s *DefaultMessageStore) append(m *record.Message) (PutResult, error) {
	if err := s.check(m); err != nil {
		return PutResult{}, err
	}
	if len(m.Properties) > maxPropertiesChars && utf16Len(m.Properties) > maxPropertiesChars {
		return PutResult{}, fmt.Errorf("%w: properties have %d characters, at most %d are allowed", ErrMessageIllegal, utf16Len(m.Properties), maxPropertiesChars)
	}
	if tx := m.SysFlag.Transaction(); (tx == record.TransactionNone || tx == record.TransactionCommit) && m.Topic != record.TopicSchedule && delayLevel(m.Properties) > 0 {
		return PutResult{}, fmt.Errorf("%w: a delayed message (property DELAY): this version has no delivery service that would deliver it; hold it back yourself and put it without DELAY when it is due", ErrUnsupported)
	}
	if s.o.MultiDispatch && len(m.Properties) > 0 {
		if v, ok := m.Properties.View(record.PropertyMultiDispatch); ok && len(v) > 0 {
			return PutResult{}, fmt.Errorf("%w: multi-dispatch into %s (property %s): this version reads such messages but does not write them", ErrUnsupported, v, record.PropertyMultiDispatch)
		}
	}
	a, err := s.log.Append(m, s.counters.get(m.Topic, m.QueueID))
	if err != nil {
		return PutResult{}, s.appendFailed(m, err)
	}
	s.appended(a)
	m.PhyOffset, m.QueueOffset, m.StoreTimestamp = a.PhyOffset, a.QueueOffset, a.StoreTimestamp
	return PutResult{PhyOffset: a.PhyOffset, Size: a.Size, QueueOffset: a.QueueOffset, StoreTimestamp: a.StoreTimestamp, Messages: 1, StoreHost: m.StoreHost}, nil
}

func (s *DefaultMessageStore) appendBatch(m *record.Message, items []record.BatchItem) (PutResult, error) {
	if err := s.check(m); err != nil {
		return PutResult{}, err
	}
	if len(items) == 0 {
		return PutResult{}, fmt.Errorf("%w: an empty batch", ErrMessageIllegal)
	}
	const itemHeader = 22 // sizes, magic, CRC, flag and lengths of an encoded item: spec/commitlog-format.md 1.11
	body := 0
	for _, it := range items {
		body += itemHeader + len(it.Body) + len(it.Properties)
	}
	if body > s.o.MaxMessageSize {
		return PutResult{}, fmt.Errorf("%w: the batch is %d bytes, at most %d are allowed", ErrMessageIllegal, body, s.o.MaxMessageSize)
	}
	if tx := m.SysFlag.Transaction(); tx != record.TransactionNone {
		return PutResult{}, fmt.Errorf("%w: a batch cannot be part of a transaction (type %#x)", ErrMessageIllegal, uint8(tx))
	}
	if delayLevel(m.Properties) > 0 {
		return PutResult{}, fmt.Errorf("%w: a batch cannot be delayed", ErrMessageIllegal)
	}
	if len(m.Properties) > maxPropertiesChars {
		return PutResult{}, fmt.Errorf("%w: the batch's own properties are %d bytes, at most %d are allowed", ErrPropertiesTooLarge, len(m.Properties), maxPropertiesChars)
	}
	ms := make([]record.Message, len(items))
	for i, it := range items {
		ms[i] = *m
		ms[i].Flag, ms[i].Body, ms[i].PreparedTransactionOffset = it.Flag, it.Body, 0
		ms[i].Properties = record.MergeBatchProperties(it.Properties, m.Properties)
		if s.o.MultiDispatch {
			if v, ok := ms[i].Properties.View(record.PropertyMultiDispatch); ok && len(v) > 0 {
				return PutResult{}, fmt.Errorf("%w: item %d: multi-dispatch (property %s): this version does not write it", ErrUnsupported, i, record.PropertyMultiDispatch)
			}
		}
	}
	a, err := s.log.AppendBatch(ms, s.counters.get(m.Topic, m.QueueID))
	if err != nil {
		return PutResult{}, s.appendFailed(m, err)
	}
	s.appended(a)
	m.PhyOffset, m.QueueOffset, m.StoreTimestamp, m.SysFlag = a.PhyOffset, a.QueueOffset, a.StoreTimestamp, ms[0].SysFlag
	r := PutResult{PhyOffset: a.PhyOffset, Size: a.Size, QueueOffset: a.QueueOffset, StoreTimestamp: a.StoreTimestamp, Messages: len(ms), StoreHost: m.StoreHost, Offsets: make([]int64, len(ms))}
	at := a.PhyOffset
	for i := range ms {
		r.Offsets[i] = at
		at += int64(ms[i].Size)
	}
	return r, nil
}

// ready is nil if a put may be tried at all in the role that the store has now: rows 1 to 4 of the table.
func (s *DefaultMessageStore) ready(ctx context.Context) (role Role, err error) {
	role = s.Role()
	if err := ctx.Err(); err != nil {
		return role, err
	}
	if err := s.writable(role); err != nil {
		return role, err
	}
	if held := s.log.LockedFor(); held > s.o.PutBusyAfter && held < longestBusy {
		return role, fmt.Errorf("%w: an append has held the log's lock for %v", ErrOSPageCacheBusy, held)
	}
	if end := s.rawEnd.Load(); end > s.dispatcher.Offset() {
		return role, s.awaitRaw(ctx, end)
	}
	return role, nil
}

// check is what single messages and batches have in common of row 5.
func (s *DefaultMessageStore) check(m *record.Message) error {
	if m == nil {
		return fmt.Errorf("%w: %w", ErrMessageIllegal, errNilMessage)
	}
	if m.QueueID < 0 {
		return fmt.Errorf("%w: queue id %d is negative", ErrMessageIllegal, m.QueueID)
	}
	if m.Topic == "." || m.Topic == ".." || strings.IndexByte(m.Topic, '/') >= 0 || strings.IndexByte(m.Topic, 0) >= 0 {
		return fmt.Errorf("%w: topic %q cannot be the name of a directory, as its queues need", ErrMessageIllegal, m.Topic)
	}
	if n := len(m.Topic); n == 0 || n > math.MaxInt8 { // refused here if the log will: a topic that is no topic must not get a counter, which is for ever
		topic := record.Message{Topic: m.Topic, Version: m.Version} // alone: what else is wrong with m has its own place in the order
		if err := topic.Check(record.Limits{AllowV2: s.o.AllowV2}); err != nil {
			return s.appendFailed(m, err)
		}
	}
	return nil
}

// appended counts a success, and ends an episode of a full disk.
func (s *DefaultMessageStore) appended(a commitlog.AppendResult) {
	s.counts.puts.Add(int64(a.Messages))
	s.counts.putBytes.Add(int64(a.Size))
	if s.trouble.full.Load() != nil {
		s.trouble.full.Store(nil)
		s.o.Logger.Info("disk has room again", "dir", s.dir)
	}
}

// appendFailed says what became of m.
func (s *DefaultMessageStore) appendFailed(m *record.Message, err error) error {
	if flushErr := s.log.Err(); flushErr != nil {
		s.flushFailed(flushErr)
		return fmt.Errorf("%w: %w: %w", ErrServiceNotAvailable, ErrFlushFailed, flushErr)
	}
	if errors.Is(err, mappedfile.ErrDiskFull) {
		err = fmt.Errorf("put to %s/%d: %w (free space, or Flush and DeleteExpired; puts succeed again at once)", m.Topic, m.QueueID, refused(err))
		s.diskFull(err)
		return err
	}
	if m.Topic == "" {
		return fmt.Errorf("put: %w", refused(err))
	}
	return fmt.Errorf("put to %s/%d: %w", m.Topic, m.QueueID, refused(err))
}

// diskFull notes and reports a full disk once per episode.
func (s *DefaultMessageStore) diskFull(err error) {
	if s.trouble.full.Swap(&err) == nil {
		s.o.Logger.Error("disk full", "dir", s.dir, "err", err)
		s.o.Events.DiskFull(err)
	}
}

// waiting is what an answer has to wait for.
type waiting struct{ flush, slaves bool }

// waitsFor says what m's mode promises beyond the log (spec/ha-protocol.md 6.9, and commitlog-format.md 1.10) in the role in which it was taken, and puts the status of a SyncMaster that has no slave near enough to wait for into r.
func (s *DefaultMessageStore) waitsFor(r *PutResult, m *record.Message, role Role) (w waiting) {
	if s.o.FlushMode == AsyncFlush && role != SyncMaster || !waits(m.Properties) {
		return waiting{}
	}
	w.flush = s.o.FlushMode == SyncFlush
	if role == SyncMaster {
		w.slaves = s.replication.master != nil && s.replication.master.SlaveOK(r.end())
		if !w.slaves {
			r.Status = SlaveNotAvailable
		}
	}
	return w
}

// answer waits until what m's mode promises is so, for disk and slaves side by side, and says in the status how far it is.
func (s *DefaultMessageStore) answer(ctx context.Context, r PutResult, m *record.Message, role Role) (PutResult, error) {
	w := s.waitsFor(&r, m, role)
	switch {
	case !w.slaves && !w.flush:
		return s.unawaited(r)
	case !w.slaves:
		return s.awaitFlush(ctx, r)
	}
	timed, cancel := context.WithTimeout(ctx, s.o.HA.SlaveTimeout) // from now on: while the flush is waited for, the slaves get on
	defer cancel()
	if w.flush {
		var err error
		if r, err = s.awaitFlush(ctx, r); err != nil {
			return r, err
		}
	}
	if err := s.replication.master.WaitAcked(timed, r.end()); err != nil {
		r.Status = FlushSlaveTimeout
		return r, ctx.Err()
	}
	return r, nil
}

// unawaited answers a put that waits for nothing: what the log has it keeps when this process ends.
func (s *DefaultMessageStore) unawaited(r PutResult) (PutResult, error) {
	if err := s.log.WriteOut(); err != nil {
		return r, s.putFlushFailed(&r, err)
	}
	return r, nil
}

// end is one past the last byte of the put.
func (r *PutResult) end() int64 { return r.PhyOffset + int64(r.Size) }

// late notes that r was not flushed in time, unless something worse is known of it: a slave's status goes before the disk's (spec/commitlog-format.md 1.10, step 9).
func (r *PutResult) late() {
	if r.Status == PutOK {
		r.Status = FlushDiskTimeout
	}
}

// awaitFlush answers a put of a SyncFlush store.
func (s *DefaultMessageStore) awaitFlush(ctx context.Context, r PutResult) (PutResult, error) {
	end := r.end()
	if s.o.NoBackground { // nobody else will flush
		if _, err := s.log.FlushStep(); err != nil {
			return r, s.putFlushFailed(&r, err)
		}
		if s.log.FlushedPhyOffset() < end {
			r.late()
		}
		return r, nil
	}
	timed, cancel := context.WithTimeout(ctx, s.o.SyncFlushTimeout)
	defer cancel()
	err := s.log.WaitFlushed(timed, end)
	switch {
	case err == nil:
		return r, nil
	case ctx.Err() != nil:
		r.late()
		return r, ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		r.late()
		return r, nil
	}
	return r, s.putFlushFailed(&r, err)
}

func (s *DefaultMessageStore) putFlushFailed(r *PutResult, err error) error {
	s.flushFailed(err)
	s.counts.putFailures.Add(1)
	r.late()
	return fmt.Errorf("%w, the message at %d may be lost: %w", ErrFlushFailed, r.PhyOffset, err)
}

// waits reports whether a put wants to wait for flush and slaves: property WAIT is absent or "true".
func waits(p record.Properties) bool {
	if len(p) == 0 {
		return true
	}
	v, ok := p.View(record.PropertyWait)
	return !ok || bytes.EqualFold(v, []byte("true"))
}

// delayLevel is the DELAY property as a number; 0 if absent or no number.
func delayLevel(p record.Properties) int {
	if !bytes.Contains(p, []byte(record.PropertyDelay)) {
		return 0
	}
	v, ok := p.View(record.PropertyDelay)
	if !ok {
		return 0
	}
	n, sign := 0, 1
	if len(v) > 1 && (v[0] == '-' || v[0] == '+') {
		if v[0] == '-' {
			sign = -1
		}
		v = v[1:]
	}
	if len(v) > 10 {
		return 0
	}
	for _, c := range v {
		if c < '0' || c > '9' {
			return 0
		}
		n = n*10 + int(c-'0')
	}
	return n * sign
}

// utf16Len counts UTF-16 units, as the original's String.length.
func utf16Len(b []byte) (n int) {
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		b = b[size:]
		n++
		if r > 0xFFFF {
			n++
		}
	}
	return n
}
