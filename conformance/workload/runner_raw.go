package workload

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/mqstore/mqstore/commitlog/record"
)

const blankSize = record.BlankHeaderSize

// append sends what a master would send: the message with the offsets that come next, with a blank before it where the segment is full.
func (r *Runner) append(ctx context.Context, o *Op) Answer {
	s := r.s.(RawAppender)
	end, skew := r.s.MaxPhyOffset(), o.Skew
	if r.s.MinPhyOffset() < 0 && r.rest == nil {
		end, skew = end+skew, 0 // an empty log begins where its master says
	}
	send := func(p []byte) error { return s.AppendToCommitLog(end+skew, p) }
	if o.Rest {
		p := r.rest
		err := send(p)
		if err == nil && r.rest != nil {
			r.rest, r.placed = nil, append(r.placed, r.resting)
		}
		return r.appended(ctx, end, err)
	}
	m := o.Message.record(o.Topic, o.Queue)
	m.PhyOffset, m.StoreTimestamp = end, r.now
	for _, p := range r.placed {
		m.StoreTimestamp = max(m.StoreTimestamp, p.time)
	}
	if m.SysFlag.Transaction().HasUnit() {
		m.QueueOffset = r.s.MaxOffset(o.Topic, o.Queue)
	}
	r.multiOffsets(m)
	b, err := record.AppendRecord(nil, m, record.Limits{MaxMessageSize: r.setup.MaxMessage, AllowV2: r.setup.V2})
	if err != nil {
		return Answer{Status: OK, Note: "no master can write this: " + err.Error()}
	}
	segment := r.setup.SegmentSize
	if segment <= 0 || int64(len(b)+blankSize) > segment || r.rest != nil || o.Queue < 0 || strings.ContainsAny(o.Topic, "/\x00") || o.Topic == "." || o.Topic == ".." || bytes.IndexByte(m.Properties, 0) >= 0 {
		return Answer{Status: OK, Note: "no master would send this now"}
	}
	if free := segment - end%segment; o.Blank || int64(len(b)+blankSize) > free {
		blank := make([]byte, free)
		record.PutBlank(blank, int(free))
		if err := send(blank); err != nil || o.Blank {
			return r.appended(ctx, end, err)
		}
		end += free
		m.PhyOffset = end
		if b, err = record.AppendRecord(nil, m, record.Limits{MaxMessageSize: r.setup.MaxMessage, AllowV2: r.setup.V2}); err != nil {
			return failed(err)
		}
	}
	p := b
	if o.Cut > 0 && o.Cut < len(b) {
		p, r.rest = b[:o.Cut], b[o.Cut:]
	}
	r.resting = placed{m.PhyOffset, m.PhyOffset + int64(len(b)), m.QueueOffset, m.StoreTimestamp, m.StoreHost}
	err = send(p)
	if err != nil {
		r.rest = nil
	} else if r.rest == nil {
		r.placed = append(r.placed, r.resting)
	}
	return r.appended(ctx, end, err)
}

func (r *Runner) appended(ctx context.Context, phy int64, err error) Answer {
	a, bad := r.errAnswer(err)
	if bad {
		return a
	}
	if s, ok := r.s.(Settler); ok {
		if err := s.Settle(ctx); err != nil {
			return failed(fmt.Errorf("settle: %w", err))
		}
	}
	r.told = max(r.told, r.wholeEnd())
	a.add("phy", phy)
	a.add("end", r.s.MaxPhyOffset())
	return a
}

// multiOffsets gives a message for several queues its offsets in them, as its master would have.
func (r *Runner) multiOffsets(m *record.Message) {
	names, ok := m.Properties.Get(record.PropertyMultiDispatch)
	if !ok || names == "" || !r.setup.MultiDispatch {
		return
	}
	var offsets []string
	for name := range strings.SplitSeq(names, ",") {
		queue := m.QueueID
		if strings.HasPrefix(name, "%LMQ%") {
			queue = 0
		}
		offsets = append(offsets, fmt.Sprint(r.s.MaxOffset(name, queue)))
	}
	m.Properties = m.Properties.With(record.PropertyMultiQueueOffset, strings.Join(offsets, ","))
}
