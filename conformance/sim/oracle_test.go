package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/model"
	"github.com/mqstore/mqstore/store"
)

// oracle is what must stay true.
type oracle struct {
	expired int64 // below this the log may be gone
	visible int64 // of the master now
	near    bool  // as many slaves as puts wait for were near when we looked last
	kept    []kept
	keptEnd int64
}

// kept is a part of the log that consumers saw and nothing may take back.
type kept struct {
	from, to int64
	sum      uint32
}

// observe looks at everything while it is at rest, traces what it sees, and checks the laws of the moment.
func (w *world) observe() {
	w.trace.steps++
	for _, m := range w.ms {
		m.note()
	}
	if m := w.master; m.s != nil {
		end := m.s.MaxPhyOffset()
		for _, x := range w.ms {
			if x.s != nil && x != m && !w.plan.extended && x.s.MinPhyOffset() > max(m.s.MinPhyOffset(), 0) {
				x.partial = true // on the classic protocol an empty slave begins with the last segment
			}
			if x.owes && x.s != nil && x != m && !x.partial && end > 0 && x.s.MaxPhyOffset() >= end && x.held >= end {
				x.owes = false
				w.tracef("%s has all", x.address)
			}
		}
	}
	line := ""
	for _, m := range w.ms {
		line += m.String() + "; "
	}
	if n := len(w.trace.lines); n == 0 || !strings.HasSuffix(w.trace.lines[n-1], line) {
		w.tracef("%s", line)
	}
	w.answers()
	w.look()
}

// answers takes what producers were told since the last look.
func (w *world) answers() {
	for _, o := range w.ops {
		if o.taken {
			continue
		}
		o.mu.Lock()
		done, r, err, took := o.mu.done, o.mu.r, o.mu.err, o.mu.ended.Sub(o.began)
		o.mu.Unlock()
		if !done {
			continue
		}
		o.taken = true
		if err != nil {
			w.tracef("put %d: %s", o.id, store.StatusName(err))
			if !errors.Is(err, store.ErrServiceNotAvailable) && !errors.Is(err, store.ErrDiskFull) {
				w.fail("a put is answered, or refused with a reason that a producer can wait for", "put %d: %v", o.id, err)
			}
			continue
		}
		o.acked = r.Status == store.PutOK
		w.tracef("put %d: %v after %v, at %d, %s/%d/%d", o.id, r.Status, took, r.PhyOffset, o.topic, o.queue, r.QueueOffset)
		w.status(o, r, took)
	}
}

// status checks what an answer says.
func (w *world) status(o *op, r store.PutResult, took time.Duration) {
	end := r.PhyOffset + int64(r.Size)
	if !o.wait || o.m.s == nil || o.life != o.m.life {
		return
	}
	switch r.Status {
	case store.PutOK:
		if o.role == store.SyncMaster {
			holders := 0
			for _, m := range w.ms {
				if m != o.m && m.held >= end {
					holders++
				}
			}
			if holders < w.plan.required {
				w.fail("PutOK of a SyncMaster means that as many slaves as it says have the message", "put %d ends at %d: %d slaves have it, %d must; %v", o.id, end, holders, w.plan.required, w.ms)
			}
		}
		if w.plan.masterFlush == store.SyncFlush && o.m.s.FlushedPhyOffset() < end {
			w.fail("PutOK of a SyncFlush store means its disk", "put %d ends at %d, flushed is %d", o.id, end, o.m.s.FlushedPhyOffset())
		}
	case store.SlaveNotAvailable:
		if o.near >= w.plan.required && w.plan.fallBehind == 0 {
			w.fail("a slave that is near is waited for", "put %d was answered %v with %d near slaves", o.id, r.Status, o.near)
		}
	case store.FlushSlaveTimeout:
		if took < 3*time.Second && o.m.s.Role() == o.role {
			w.fail("a slave has its time", "put %d was answered %v after %v", o.id, r.Status, took)
		}
	case store.FlushDiskTimeout:
		if took < 5*time.Second {
			w.fail("the disk has its time", "put %d was answered %v after %v", o.id, r.Status, took)
		}
	}
	if took > 9*time.Second {
		w.fail("no put waits longer than it was promised", "put %d was answered %v after %v", o.id, r.Status, took)
	}
}

// look checks what consumers can see on the master.
func (w *world) look() {
	m, q := w.master, &w.oracle
	if m.s == nil {
		q.visible = 0
		return
	}
	st := m.s.Stats()
	near := 0
	for _, s := range st.HA.Slaves {
		if s.Reported && (w.plan.fallBehind == 0 || s.Lag < w.plan.fallBehind) {
			near++
		}
	}
	was := q.near && q.visible > 0
	q.near = near >= w.plan.required
	before := q.visible
	q.visible = st.DispatchedPhyOffset // what VisibleEnd allows beyond it ends inside a record, perhaps
	if q.visible <= before || m.s.Role() == store.Slave {
		return
	}
	if w.plan.role == store.SyncMaster {
		if !was || !q.near {
			return // nobody to wait for: what is visible may be lost with the master, as its puts were told
		}
		holders := 0
		for _, x := range w.ms {
			if x != m && x.held >= q.visible {
				holders++
			}
		}
		if holders < w.plan.required {
			w.fail("consumers see only what as many slaves have as a put waits for", "%v: visible up to %d, before %d, which %d slaves have; %v", m, q.visible, before, holders, w.ms)
			return
		}
	}
	w.keep(q.visible)
}

// keep notes the log up to end: nothing may change it any more.
func (w *world) keep(end int64) {
	m, q := w.master, &w.oracle
	from := max(q.keptEnd, m.s.MinPhyOffset())
	if from >= end {
		return
	}
	b, err := logBytes(m.s, from, end)
	if err != nil {
		w.fail("what is visible can be read", "[%d, %d) on %v: %v", from, end, m, err)
		return
	}
	q.kept = append(q.kept, kept{from, end, crc32.ChecksumIEEE(b)})
	q.keptEnd = end
}

// logBytes is a copy of the log.
func logBytes(s *store.DefaultMessageStore, from, to int64) (b []byte, err error) {
	for from < to {
		v, err := s.CommitLogData(from, 0)
		if err != nil {
			return nil, err
		}
		p := v.Bytes[:min(int64(len(v.Bytes)), to-from)]
		b = append(b, p...)
		v.Release()
		if len(p) == 0 {
			return nil, fmt.Errorf("nothing at %d", from)
		}
		from += int64(len(p))
	}
	return b, nil
}

// check is the end: everybody is equal, and has what was promised.
func (w *world) check() {
	m := w.master
	first, end := m.s.MinPhyOffset(), m.s.MaxPhyOffset()
	for _, k := range w.oracle.kept {
		if k.to <= first {
			continue
		}
		b, err := logBytes(m.s, max(k.from, first), min(k.to, end))
		if err != nil || k.from >= first && crc32.ChecksumIEEE(b) != k.sum || k.to > end {
			w.fail("what consumers saw is never taken back", "the log's [%d, %d) is not what it was, the log is [%d, %d) now: %v", k.from, k.to, first, end, err)
		}
	}
	w.checkPuts(first, end)
	if len(w.failed) > 0 {
		return
	}
	mine := m.files("commitlog")
	for _, x := range w.ms {
		if x == m {
			continue
		}
		theirs := x.files("commitlog")
		shared := 0
		for path, b := range theirs {
			if a, ok := mine[path]; ok {
				shared++
				if a != b {
					w.fail("master and slave are equal byte for byte", "%s differs on %s and %s", path, m.address, x.address)
				}
			}
		}
		if shared == 0 {
			w.fail("master and slave are equal byte for byte", "%s and %s have no file in common", m.address, x.address)
		}
		if x.s.MinPhyOffset() == first && w.oracle.expired == 0 {
			if a, b := m.files("consumequeue"), x.files("consumequeue"); !sameFiles(a, b) {
				w.fail("master's and slave's queues are equal byte for byte", "%s and %s", m.address, x.address)
			}
		}
		sameAnswers(w, m.s, x.s, max(first, x.s.MinPhyOffset()), fmt.Sprintf("%s and %s", m.address, x.address))
		sameKeyAnswers(w, m.s, x.s, max(first, x.s.MinPhyOffset()), fmt.Sprintf("%s and %s", m.address, x.address))
	}
}

func sameFiles(a, b map[string]string) bool {
	for path, x := range a {
		if b[path] != x {
			return false
		}
	}
	return len(a) == len(b)
}

func (m *machine) files(dir string) map[string]string {
	return (&node{fs: m.fs}).files(dir)
}

// checkPuts compares the log with what producers were told, and the master's answers with the model's, which gets the same puts in the log's order.
func (w *world) checkPuts(first, end int64) {
	m := w.master
	o := store.Options{SegmentSize: simSegment, QueueFileSize: 2000}
	var now time.Time
	o.Now = func() time.Time { return now }
	ref := model.New(o)
	defer ref.Close()
	seen := map[int]*record.Message{}
	var raw []*record.Message
	for msg, err := range m.s.ScanLog(context.Background(), first, end) {
		if err != nil {
			w.fail("the log can be read from end to end", "%v", err)
			return
		}
		raw = append(raw, msg)
	}
	for i := 0; i < len(raw); i++ {
		msg := raw[i]
		var id, item int
		fmt.Sscanf(string(msg.Body), "%d.%d.", &id, &item)
		if id < 0 || id >= len(w.ops) || item != 0 && i == 0 && first > 0 {
			continue // a batch whose beginning expired
		}
		p := w.ops[id]
		if seen[id] != nil {
			w.fail("no put is in the log twice", "put %d at %d and at %d", id, seen[id].PhyOffset, msg.PhyOffset)
			return
		}
		seen[id] = msg
		n := 0 // items that are there
		for ; n < len(p.bodies) && i+n < len(raw); n++ {
			if m := raw[i+n]; string(m.Body) != p.bodies[n] || m.QueueOffset != msg.QueueOffset+int64(n) || m.Topic != p.topic || m.QueueID != p.queue {
				break
			}
		}
		if n == 0 || n < len(p.bodies) && w.promised(p) {
			w.fail("a message is in the log as it was put, an acknowledged batch as a whole", "put %d at %d, %d of %d items", id, msg.PhyOffset, n, len(p.bodies))
			return
		}
		i += n - 1
		if first <= 0 {
			if err := w.leftBlank(ref, msg, p); err != nil {
				w.fail("the log is what the model makes of the same puts", "the blank before %d: %v", msg.PhyOffset, err)
				return
			}
			now = time.UnixMilli(msg.StoreTimestamp)
			r, err := p.to(context.Background(), ref)
			if err != nil || r.PhyOffset != msg.PhyOffset || r.QueueOffset != msg.QueueOffset || r.StoreTimestamp != msg.StoreTimestamp {
				w.fail("the log is what the model makes of the same puts", "put %d: %+v %v, but it is at %d, queue offset %d, time %d", id, r, err, msg.PhyOffset, msg.QueueOffset, msg.StoreTimestamp)
				return
			}
			if n < len(p.bodies) { // its end was lost with the master
				if err := ref.TruncateTo(raw[i].PhyOffset + int64(raw[i].Size)); err != nil {
					w.fail("the log is what the model makes of the same puts", "put %d: %v", id, err)
					return
				}
			}
		}
	}
	for _, p := range w.ops {
		p.mu.Lock()
		done, r, err := p.mu.done && !p.orphan, p.mu.r, p.mu.err
		p.mu.Unlock()
		msg := seen[p.id]
		switch {
		case !done:
		case err != nil:
			if msg != nil {
				w.fail("what was refused is not stored", "put %d is at %d: %v", p.id, msg.PhyOffset, err)
			}
		case msg != nil && (msg.PhyOffset != r.PhyOffset || msg.QueueOffset != r.QueueOffset):
			w.fail("a message stays where its producer was told", "put %d: %+v, but it is at %d, queue offset %d", p.id, r, msg.PhyOffset, msg.QueueOffset)
		case w.promised(p) && msg == nil && r.PhyOffset >= first:
			w.fail("an acknowledged put is never lost", "put %d, at %d: the log is [%d, %d)", p.id, r.PhyOffset, first, end)
		}
	}
	if len(w.failed) > 0 {
		return
	}
	if first > 0 {
		b, err := logBytes(m.s, first, end)
		if err == nil {
			for at := first; at < end && err == nil; {
				n := min(end-at, simSegment-at%simSegment)
				err = ref.AppendToCommitLog(at, b[at-first:at-first+n])
				at += n
			}
		}
		if err != nil {
			w.fail("the model takes the log", "%v", err)
			return
		}
	}
	sameAnswers(w, m.s, ref, first, "the engine and the model")
	sameKeyAnswers(w, m.s, ref, first, "the engine and the model")
}

// leftBlank gives the model the blank at a segment's end whose reason is gone: the put that did not fit there was lost with its machine, and what came instead would fit.
func (w *world) leftBlank(ref *model.Store, msg *record.Message, p *op) error {
	at := ref.MaxPhyOffset()
	gap := msg.PhyOffset - at
	if gap <= 0 || gap >= simSegment || msg.PhyOffset%simSegment != 0 {
		return nil
	}
	size := 0
	for _, body := range p.bodies {
		size += int(msg.Size) - len(p.bodies[0]) + len(body)
	}
	if int64(size)+record.BlankHeaderSize > gap {
		return nil // it does not fit, and the model will say so
	}
	b, err := logBytes(w.master.s, at, msg.PhyOffset)
	if err != nil {
		return err
	}
	return ref.AppendToCommitLog(at, b)
}

// promised reports whether p was answered that it is safe: PutOK for one that does not wait means only that it is in memory.
func (w *world) promised(p *op) bool {
	return p.acked && (p.wait || w.plan.role == store.AsyncMaster && w.plan.masterFlush == store.AsyncFlush)
}

// reader is what engine and model have in common.
type reader interface {
	Get(ctx context.Context, r store.GetRequest) (*store.GetResult, error)
	MinOffset(topic string, queueID int32) int64
	MaxOffset(topic string, queueID int32) int64
	PhyOffset(topic string, queueID int32, queueOffset int64) (int64, error)
	StoreTime(topic string, queueID int32, queueOffset int64) (time.Time, error)
	OffsetByTime(topic string, queueID int32, t time.Time, rule store.TimeRule) (int64, error)
}

// sameAnswers asks both the same about every message at or beyond first.
func sameAnswers(w *world, a, b reader, first int64, who string) {
	const law = "the same log gives the same answers"
	_, told := b.(*store.DefaultMessageStore)
	told = told && w.plan.extended // where queues go on of which it has no message
	for _, topic := range []string{"T0", "T1"} {
		for queue := range int32(2) {
			x, y := a.MaxOffset(topic, queue), b.MaxOffset(topic, queue)
			if phy, err := a.PhyOffset(topic, queue, x-1); y == 0 && first > 0 && !told && (err != nil || phy < first) {
				continue // all of it lies before what b has of the log
			}
			if x != y {
				w.fail(law, "%s: %s/%d ends at %d and at %d", who, topic, queue, x, y)
				return
			}
			from, end := max(a.MinOffset(topic, queue), b.MinOffset(topic, queue)), a.MaxOffset(topic, queue)
			whole := a.MinOffset(topic, queue) == b.MinOffset(topic, queue)
			for at := from; at < end; at++ {
				phy, errA := a.PhyOffset(topic, queue, at)
				other, errB := b.PhyOffset(topic, queue, at)
				if errA == nil && phy < first {
					continue
				}
				if phy != other || (errA == nil) != (errB == nil) {
					w.fail(law, "%s: %s/%d at %d: physical offset %d %v and %d %v", who, topic, queue, at, phy, errA, other, errB)
					return
				}
				if x, y := get(a, topic, queue, at, 3, whole), get(b, topic, queue, at, 3, whole); x != y {
					w.fail(law, "%s: get %s/%d at %d: %s and %s", who, topic, queue, at, x, y)
					return
				}
				if at%5 == 0 && whole {
					t, errA := a.StoreTime(topic, queue, at)
					u, errB := b.StoreTime(topic, queue, at)
					x, errC := a.OffsetByTime(topic, queue, t, store.TimeRule(at/5%2))
					y, errD := b.OffsetByTime(topic, queue, t, store.TimeRule(at/5%2))
					if !t.Equal(u) || x != y || errors.Join(errA, errB, errC, errD) != nil {
						w.fail(law, "%s: %s/%d at %d: time %v and %v, offset by time %d and %d: %v", who, topic, queue, at, t, u, x, y, errors.Join(errA, errB, errC, errD))
						return
					}
				}
			}
			for _, at := range []int64{-1, end, end + 1} {
				if at < 0 && !whole {
					continue
				}
				if x, y := get(a, topic, queue, at, 3, whole), get(b, topic, queue, at, 3, whole); x != y {
					w.fail(law, "%s: get %s/%d at %d, beside its %d: %s and %s", who, topic, queue, at, end, x, y)
					return
				}
			}
		}
	}
}

// sameKeyAnswers asks both the same about every key, as far as the messages lie at or beyond first.
func sameKeyAnswers(w *world, a, b store.Querier, first int64, who string) {
	if !w.plan.indexed {
		return
	}
	found := 0
	for _, topic := range []string{"T0", "T1"} {
		for key := range simKeys {
			x, y := query(a, topic, fmt.Sprint(key), first), query(b, topic, fmt.Sprint(key), first)
			if x != y {
				w.fail("the same log gives the same answers", "%s: query of key %d of %s: %s and %s", who, key, topic, x, y)
				return
			}
			found += len(x)
		}
	}
	if found == 0 {
		w.fail("a key finds its messages", "%s: of %d keys none finds any", who, simKeys)
	}
}

// query is the places of a key's messages.
func query(s store.Querier, topic, key string, first int64) string {
	if s, ok := s.(*store.DefaultMessageStore); ok {
		if err := s.WaitIndexed(context.Background(), s.MaxPhyOffset()); err != nil {
			return err.Error()
		}
	}
	r, err := s.Query(context.Background(), store.QueryRequest{Topic: topic, Key: key})
	if err != nil {
		return err.Error()
	}
	defer r.Release()
	var b strings.Builder
	for _, v := range r.Records {
		if v.PhyOffset >= first {
			fmt.Fprint(&b, v.PhyOffset, " ")
		}
	}
	return b.String()
}

func get(s reader, topic string, queue int32, at int64, n int, bounds bool) string {
	r, err := s.Get(context.Background(), store.GetRequest{Topic: topic, QueueID: queue, Offset: at, MaxMessages: n})
	if err != nil {
		return err.Error()
	}
	defer r.Release()
	var b bytes.Buffer
	fmt.Fprint(&b, r.Status)
	if bounds {
		fmt.Fprint(&b, " ", r.NextBeginOffset, r.MinOffset, r.MaxOffset)
	}
	for _, v := range r.Records {
		fmt.Fprintf(&b, " %d:%08x", v.PhyOffset, crc32.ChecksumIEEE(v.Bytes))
	}
	return b.String()
}

// tail is the end of the trace.
func (w *world) tail(n int) string {
	lines := w.trace.lines
	return strings.Join(slices.Clone(lines[max(0, len(lines)-n):]), "\n")
}
