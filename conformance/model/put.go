package model

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

const (
	maxProperties   = 32767 // characters and bytes
	maxTopicV1      = 127   // bytes
	maxTopicV2      = 255
	recordAllowance = 64 << 10 // that a record may have over the longest body
	itemHeader      = 22       // of an item of an encoded batch, beside body and properties
	separator       = 0x02
)

// Put stores m.
func (s *Store) Put(ctx context.Context, m *record.Message) (store.PutResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count(s.put(ctx, m))
}

// PutAsync stores m and answers with a completed future.
func (s *Store) PutAsync(m *record.Message) *store.Future {
	f, resolve := store.NewFuture()
	resolve(s.Put(context.Background(), m))
	return f
}

// PutBatch stores all of items or none.
func (s *Store) PutBatch(ctx context.Context, m *record.Message, items []record.BatchItem) (store.PutResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count(s.putBatch(ctx, m, items))
}

func (s *Store) count(r store.PutResult, err error) (store.PutResult, error) {
	if err != nil {
		s.failures++
		return store.PutResult{}, err
	}
	s.puts += int64(r.Messages)
	s.putBytes += int64(r.Size)
	return r, nil
}

// status is how safe a stored message is: a SYNC_MASTER has no slaves here.
func (s *Store) status(m *record.Message) store.PutStatus {
	wait, ok := m.Properties.Get(record.PropertyWait)
	if s.o.Role == store.SyncMaster && (!ok || strings.EqualFold(wait, "true")) {
		return store.SlaveNotAvailable
	}
	return store.PutOK
}

func illegal(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{store.ErrMessageIllegal}, args...)...)
}

// checkBoth is what single messages and batches must both fulfil.
func (s *Store) checkBoth(ctx context.Context, m *record.Message) error {
	if err := s.writable(ctx); err != nil {
		return err
	}
	if len(s.tail) > 0 {
		return fmt.Errorf("%w: the log ends within a record of its master", store.ErrServiceNotAvailable)
	}
	if m == nil {
		return illegal("no message")
	}
	n := len(m.Topic)
	switch {
	case n == 0, m.Topic == ".", m.Topic == "..", strings.ContainsAny(m.Topic, "/\x00"):
		return illegal("topic %q", m.Topic)
	case m.QueueID < 0:
		return illegal("queue id %d", m.QueueID)
	case n > maxTopicV2, n > maxTopicV1 && (!s.o.AllowV2 || m.Version > record.V2):
		return illegal("topic of %d bytes, version %d", n, m.Version)
	}
	return nil
}

func (s *Store) put(ctx context.Context, m *record.Message) (store.PutResult, error) {
	if err := s.checkBoth(ctx, m); err != nil {
		return store.PutResult{}, err
	}
	if len(utf16.Encode([]rune(string(m.Properties)))) > maxProperties {
		return store.PutResult{}, illegal("too many characters of properties")
	}
	tx := m.SysFlag.Transaction()
	if (tx == record.TransactionNone || tx == record.TransactionCommit) && m.Topic != record.TopicSchedule && delayLevel(m.Properties) > 0 {
		return store.PutResult{}, fmt.Errorf("%w: a delayed message", store.ErrUnsupported)
	}
	if err := s.checkMultiDispatch(m.Properties); err != nil {
		return store.PutResult{}, err
	}
	if len(m.Body) > s.o.MaxMessageSize {
		return store.PutResult{}, illegal("body of %d bytes", len(m.Body))
	}
	ms, err := s.appendAll(m, []*record.Message{m})
	if err != nil {
		return store.PutResult{}, err
	}
	return store.PutResult{Status: s.status(m), PhyOffset: ms.PhyOffset, Size: m.Size, QueueOffset: ms.QueueOffset, StoreTimestamp: ms.StoreTimestamp, Messages: 1, StoreHost: m.StoreHost}, nil
}

func (s *Store) putBatch(ctx context.Context, m *record.Message, items []record.BatchItem) (store.PutResult, error) {
	if err := s.checkBoth(ctx, m); err != nil {
		return store.PutResult{}, err
	}
	encoded := 0
	for _, it := range items {
		encoded += itemHeader + len(it.Body) + len(it.Properties)
	}
	switch {
	case len(items) == 0:
		return store.PutResult{}, illegal("an empty batch")
	case encoded > s.o.MaxMessageSize:
		return store.PutResult{}, illegal("a batch of %d bytes", encoded)
	case m.SysFlag.Transaction() != record.TransactionNone:
		return store.PutResult{}, illegal("a batch in a transaction")
	case delayLevel(m.Properties) > 0:
		return store.PutResult{}, illegal("a delayed batch")
	case len(m.Properties) > maxProperties:
		return store.PutResult{}, fmt.Errorf("%w: of the batch", store.ErrPropertiesTooLarge)
	}
	ms := make([]*record.Message, len(items))
	for i, it := range items {
		c := *m
		c.Flag, c.Body, c.PreparedTransactionOffset = it.Flag, it.Body, 0
		c.Properties = nil
		c.Properties = append(c.Properties, it.Properties...)
		if len(it.Properties) > 0 && len(m.Properties) > 0 && it.Properties[len(it.Properties)-1] != separator {
			c.Properties = append(c.Properties, separator)
		}
		c.Properties = append(c.Properties, m.Properties...)
		if err := s.checkMultiDispatch(c.Properties); err != nil {
			return store.PutResult{}, err
		}
		ms[i] = &c
	}
	first, err := s.appendAll(m, ms)
	if err != nil {
		return store.PutResult{}, err
	}
	r := store.PutResult{Status: s.status(m), PhyOffset: first.PhyOffset, QueueOffset: first.QueueOffset, StoreTimestamp: first.StoreTimestamp, Messages: len(ms), StoreHost: m.StoreHost}
	for _, c := range ms {
		r.Offsets = append(r.Offsets, c.PhyOffset)
		r.Size += c.Size
	}
	m.PhyOffset, m.QueueOffset, m.StoreTimestamp, m.SysFlag = first.PhyOffset, first.QueueOffset, first.StoreTimestamp, first.SysFlag
	return r, nil
}

func (s *Store) checkMultiDispatch(p record.Properties) error {
	if v, ok := p.Get(record.PropertyMultiDispatch); ok && v != "" && s.o.MultiDispatch {
		return fmt.Errorf("%w: multi-dispatch", store.ErrUnsupported)
	}
	return nil
}

// appendAll appends the records of ms one behind the other into one segment, with one store time, or none of them. It returns the first.
// (spec/commitlog-format.md 1.11)
func (s *Store) appendAll(first *record.Message, ms []*record.Message) (*record.Message, error) {
	// Lengths first: encode copies, so that a refusal leaves ms as they were.
	size := 0
	for _, m := range ms {
		if bytes.IndexByte(m.Properties, 0) >= 0 {
			return nil, illegal("a zero byte in the properties")
		}
		c := *m
		b, err := record.AppendRecord(nil, &c, record.Limits{MaxMessageSize: s.o.MaxMessageSize, AllowV2: s.o.AllowV2})
		switch {
		case errors.Is(err, record.ErrPropertiesTooLong):
			return nil, fmt.Errorf("%w: %w", store.ErrPropertiesTooLarge, err)
		case err != nil:
			return nil, illegal("%w", err)
		case len(b) > s.o.MaxMessageSize+recordAllowance:
			return nil, illegal("a record of %d bytes", len(b))
		}
		if size += len(b); int64(size)+blankSize > s.o.SegmentSize {
			return nil, illegal("%d bytes do not fit into a segment", size)
		}
	}
	s.began = true
	if free := s.o.SegmentSize - s.end%s.o.SegmentSize; int64(size)+blankSize > free {
		s.end += free
	}
	s.lastTime = max(s.lastTime, s.o.Now().UnixMilli())
	q := s.queue(first.Topic, first.QueueID)
	next := int64(0)
	if q != nil {
		next = q.max()
	}
	for _, m := range ms {
		m.StoreTimestamp, m.PhyOffset, m.QueueOffset = s.lastTime, s.end, 0
		if m.SysFlag.Transaction().HasUnit() {
			m.QueueOffset = next
			next++
		}
		b, err := record.AppendRecord(nil, m, record.Limits{MaxMessageSize: s.o.MaxMessageSize, AllowV2: s.o.AllowV2})
		if err != nil {
			return nil, err
		}
		if err := s.add(b); err != nil {
			return nil, err
		}
	}
	return ms[0], nil
}

// add puts a whole record at the log's end, and its units into queues.
func (s *Store) add(b []byte) error {
	m, err := record.Decode(b)
	if err != nil {
		return err
	}
	r := &rec{phyOffset: s.end, bytes: b, m: m, tagsCode: m.TagsCode()}
	if level := delayLevel(m.Properties); m.Topic == record.TopicSchedule && level > 0 {
		t := record.DefaultDelayTable()
		if s.o.DelayLevels != "" {
			if t, err = record.ParseDelayTable(s.o.DelayLevels); err != nil {
				return err
			}
		}
		r.tagsCode = m.StoreTimestamp + t[min(level, len(t))-1].Milliseconds()
	}
	s.records = append(s.records, r)
	s.end += int64(len(b))
	s.lastTime = max(s.lastTime, m.StoreTimestamp)
	if !m.SysFlag.Transaction().HasUnit() {
		return nil
	}
	if err := s.addUnit(queueKey{m.Topic, m.QueueID}, m.QueueOffset, r); err != nil {
		return err
	}
	return s.addMultiDispatch(r)
}

// addUnit gives r its place in a queue. A queue begins with its first unit, wherever that is.
func (s *Store) addUnit(k queueKey, queueOffset int64, r *rec) error {
	q := s.queues[k]
	if q == nil {
		q = &queue{first: queueOffset, min: queueOffset}
		s.queues[k] = q
	}
	switch {
	case queueOffset < q.max(): // has it already
		return nil
	case queueOffset > q.max():
		return fmt.Errorf("%w: %s/%d holds [%d, %d), the record at %d is its number %d", store.ErrCorrupt, k.topic, k.queueID, q.min, q.max(), r.phyOffset, queueOffset)
	}
	q.units = append(q.units, r)
	q.next = max(q.next, q.max())
	return nil
}

// addMultiDispatch adds the units of spec/consumequeue-format.md 2.7.
func (s *Store) addMultiDispatch(r *rec) error {
	names, _ := r.m.Properties.Get(record.PropertyMultiDispatch)
	offsets, _ := r.m.Properties.Get(record.PropertyMultiQueueOffset)
	if !s.o.MultiDispatch || strings.TrimSpace(names) == "" || strings.TrimSpace(offsets) == "" {
		return nil
	}
	ns, os := strings.Split(strings.TrimRight(names, ","), ","), strings.Split(strings.TrimRight(offsets, ","), ",")
	if len(ns) != len(os) {
		return nil
	}
	for i, name := range ns {
		queueOffset, err := strconv.ParseInt(os[i], 10, 64)
		if err != nil {
			return fmt.Errorf("%w: %s %q", store.ErrCorrupt, record.PropertyMultiQueueOffset, offsets)
		}
		k := queueKey{name, r.m.QueueID}
		if strings.HasPrefix(name, "%LMQ%") {
			k.queueID = 0
		}
		if err := s.addUnit(k, queueOffset, r); err != nil {
			return err
		}
	}
	return nil
}

// delayLevel is the DELAY property as a number; 0 if it is none.
func delayLevel(p record.Properties) int {
	v, _ := p.Get(record.PropertyDelay)
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil {
		return 0
	}
	return int(n)
}
