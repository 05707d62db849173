package recovery

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"

	"github.com/mqstore/mqstore/checkpoint"
	"github.com/mqstore/mqstore/commitlog"
	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/consumequeue"
)

// recovery is one run.
type recovery struct {
	o     Options
	start start
	log   *commitlog.Log
	set   *consumequeue.Set
	rep   Report
	next  map[QueueKey]int64

	broken   map[QueueKey]string // queues whose files cannot be opened
	flushing chan error          // nil = none: the log is being made durable meanwhile
	later    bool                // nothing is made durable here
	written  int64               // units that stay, of an attempt that met damage
	changed  bool                // queues or log differ from what they were: say so durably
}

func open(o Options) (*Opened, error) {
	if o.FS == nil {
		o.FS = mappedfile.OS()
	}
	o.CommitLogDir = cmp.Or(o.CommitLogDir, filepath.Join(o.Root, "commitlog"))
	o.QueueDir = cmp.Or(o.QueueDir, filepath.Join(o.Root, "consumequeue"))
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	if o.Stop == nil {
		o.Stop = func() error { return nil }
	}
	if err := o.announce(); err != nil {
		return nil, err
	}
	s, err := findStart(o)
	if err != nil {
		return nil, err
	}
	// Damage that only the comparison with the queues meets is judged by the log, like all damage: look again, from the last good record before it.
	written := int64(0)
	for again := 0; ; again++ {
		r := &recovery{o: o, start: s, next: map[QueueKey]int64{}}
		opened, damage, err := r.run()
		if opened != nil && !o.Plan {
			opened.Report.RebuiltUnits += written
		}
		if damage < 0 || again == 2 {
			return opened, err
		}
		s.scanFrom = damage
		written += r.written
	}
}

// run is one attempt. damage is the end of the last good record before damage that the comparison met, else -1.
func (r *recovery) run() (opened *Opened, damage int64, err error) {
	defer func() {
		if opened != nil {
			return
		}
		if r.flushing != nil {
			<-r.flushing // its error is the log's, which Close returns
		}
		if r.set != nil {
			err = errors.Join(err, r.set.Close())
		}
		if r.log != nil {
			err = errors.Join(err, r.log.Close())
		}
	}()
	if err := r.openLog(); err != nil {
		return nil, -1, err
	}
	r.harden()
	if err := r.openQueues(); err != nil {
		return nil, -1, err
	}
	if damage, err := r.completeQueues(); err != nil {
		return nil, damage, err
	}
	if err := r.set.CorrectMin(r.minPhy()); err != nil {
		return nil, -1, fmt.Errorf("correct minimum offsets: %w", err)
	}
	if err := r.settle(); err != nil {
		return nil, -1, err
	}
	return r.opened(), -1, nil
}

func (r *recovery) minPhy() int64 { return max(0, r.log.MinPhyOffset()) }

// log are the options of the commit log.
func (o *Options) log() commitlog.Options {
	lo := o.CommitLog
	lo.FS, lo.Dir, lo.ReadOnly = o.FS, o.CommitLogDir, o.ReadOnly
	lo.QuarantineDir = cmp.Or(lo.QuarantineDir, filepath.Join(o.Root, "quarantine"))
	return lo
}

// announce makes a truncation that was interrupted one of this opening: what the checkpoint and the summary say is from before it.
func (o *Options) announce() error {
	to, err := commitlog.Announced(o.log())
	if err != nil || to < 0 {
		return err
	}
	if !o.Cut || to < o.CutTo {
		o.Cut, o.CutTo = true, to
	}
	return nil
}

func (r *recovery) openLog() error {
	lo := r.o.log()
	var tail commitlog.Tail
	var err error
	r.log, tail, err = commitlog.Open(lo, commitlog.Recovery{
		From:        r.start.scanFrom,
		Clean:       r.start.clean,
		FlushedTo:   r.start.flushedTo,
		DurableTime: r.start.durableTime,
		Cut:         r.o.Cut,
		CutTo:       r.o.CutTo,
		Later:       true,
		Stop:        r.o.Stop,
		Progress:    func(done, total int64) { r.o.Progress("log", done, total) },
	})
	if err != nil {
		return err
	}
	r.changed = r.changed || tail.DroppedBytes > 0 || r.o.Cut
	r.rep = Report{
		Clean:          r.start.clean,
		SummaryUsed:    r.start.summary != nil,
		SummaryDoubt:   r.start.doubt,
		Start:          min(r.start.scanFrom, tail.End),
		End:            tail.End,
		ScannedRecords: tail.Records,
		DroppedBytes:   tail.DroppedBytes,
		DroppedRecords: tail.DroppedRecords,
		LostBytes:      tail.BelowFlushed,
		DroppedReason:  tail.Reason,
		Quarantine:     tail.Quarantine,
		LastStoreTime:  tail.LastStoreTime,
	}
	return nil
}

// harden begins to make durable what the log's scan accepted and no mark covers, or leaves it to the caller.
func (r *recovery) harden() {
	p, end := &r.start.page, r.rep.End
	r.later = r.o.Later && !r.start.clean && !r.o.ReadOnly && !r.o.Cut && r.rep.DroppedBytes == 0 && r.rep.LostBytes == 0 &&
		max(p.PhysicMsgTimestamp, p.LogicsMsgTimestamp, p.IndexMsgTimestamp) <= r.rep.LastStoreTime && max(p.ConfirmPhyOffset, p.MasterFlushedOffset) <= end // what was said stays true
	if r.later || r.o.ReadOnly || r.o.FS != mappedfile.OS() || r.log.FlushedPhyOffset() >= end { // only a device takes its time; who simulates one wants one thing after the other
		return
	}
	r.flushing = make(chan error, 1)
	go func() {
		_, err := r.log.Flush()
		r.flushing <- err
	}()
}

const stopEvery = 1024 // records

// openQueues opens the queues and cuts them to the log's end.
func (r *recovery) openQueues() error {
	qo := r.o.Queues
	qo.FS, qo.Dir, qo.ReadOnly = r.o.FS, r.o.QueueDir, r.o.ReadOnly
	qo.StoreTime = r.log.StoreTime
	if r.start.clean && r.start.summary != nil && r.start.summary.Clean && !r.o.CheckQueues {
		for _, b := range r.start.summary.Queues {
			qo.Known = append(qo.Known, consumequeue.Known(b))
		}
	}
	qo.Tolerant = true
	if qo.Clean = r.start.clean; !qo.Clean && r.start.summary != nil {
		qo.Durable = r.start.summary.EndPhyOffset
	}
	var err error
	if r.set, err = consumequeue.Open(qo); err != nil {
		return err
	}
	if err := r.findBroken(); err != nil {
		return err
	}
	before, units := int64(0), false // without any unit they are a slave's that was told where they go on, and had no log yet
	for q := range r.set.All() {
		before += q.MaxOffset()
		units = units || q.MaxPhyOffset() >= 0
	}
	if len(r.log.Segments()) == 0 && units && r.o.CommitLog.OnDamage != commitlog.DamageCut {
		return fmt.Errorf("%w: look whether %s is the right directory and mounted; if the log is really lost, move consumequeue/ away to begin anew (a program opens with OnDamage: DamageCut)", ErrNoLog, r.o.CommitLogDir)
	}
	if !r.start.clean && !r.o.ReadOnly {
		durable := r.start.scanFrom // by the checkpoint
		if r.start.summary != nil {
			durable = r.start.summary.EndPhyOffset
		}
		if err := r.set.Harden(durable); err != nil {
			return err
		}
	}
	end := r.set.MaxPhyOffset()
	if r.o.Cut {
		end = min(end, r.o.CutTo) // what is beyond is given up, not lost
	}
	if r.start.clean && end > r.rep.End { // units follow their records, and a clean exit leaves both on disk
		r.rep.LostBytes = max(r.rep.LostBytes, end-r.rep.End)
	}
	cut := r.set.TruncateTo
	if r.o.ReadOnly {
		cut = r.set.Hide
	}
	if err := cut(r.rep.End); err != nil {
		return fmt.Errorf("cut the queues to the log's end %d: %w", r.rep.End, err)
	}
	for q := range r.set.All() {
		before -= q.MaxOffset()
	}
	r.rep.TruncatedUnits = before
	r.changed = r.changed || before > 0
	if err := r.set.CorrectMin(r.minPhy()); err != nil {
		return fmt.Errorf("correct minimum offsets: %w", err)
	}
	return nil
}

// findBroken notes the queues whose files cannot be a queue (a file is missing in the middle, or was cut): they are derived data and can be made again. What is
// wrong with all queues alike is wrong with the options, and what is wrong with the file system is not for us to delete.
func (r *recovery) findBroken() error {
	r.broken = map[QueueKey]string{}
	var sizes []error
	for _, s := range r.set.Strays() {
		switch {
		case s.Err == nil:
			continue
		case errors.Is(s.Err, mappedfile.ErrCorrupt):
		case errors.Is(s.Err, mappedfile.ErrWrongSize), errors.Is(s.Err, consumequeue.ErrMalformed):
			sizes = append(sizes, s.Err)
		default:
			return s.Err
		}
		r.broken[QueueKey{s.Topic, s.QueueID}] = "cannot be opened"
	}
	if len(sizes) == 0 || r.o.RebuildBroken {
		return nil
	}
	for q := range r.set.All() {
		if len(q.Files()) > 0 {
			return nil
		}
	}
	if more := len(sizes) - 1; more > 0 { // all alike
		return fmt.Errorf("%w (and so in %d more queues)", sizes[0], more)
	}
	return sizes[0]
}

// completeQueues makes the queues hold every record below the log's end, and nothing else.
func (r *recovery) completeQueues() (damage int64, err error) {
	var faults map[QueueKey]string
	from := r.minPhy()
	switch sum := r.start.summary; {
	case sum != nil && r.o.CheckQueues:
		faults = map[QueueKey]string{}
		for _, k := range sum.Queues {
			if k.LastPhy < r.rep.End {
				r.next[QueueKey{k.Topic, k.QueueID}] = k.Max
			}
		}
	case sum != nil:
		if faults, from, err = compareKnown(r.set, sum, r.minPhy(), max(sum.EndPhyOffset, r.minPhy())); err != nil {
			return -1, err
		}
		for _, k := range sum.Queues {
			if k.LastPhy < r.rep.End {
				r.next[QueueKey{k.Topic, k.QueueID}] = k.Max
			}
		}
	case r.o.SkipQueueCheck:
		faults = map[QueueKey]string{}
		var p record.Parser
		for q := range r.set.All() {
			ok, err := lastUnitAgrees(r.log, q, &p)
			if err != nil {
				return -1, err
			}
			if !ok {
				faults[QueueKey{q.Topic(), q.ID()}] = "has a last unit that points elsewhere"
			}
		}
		from = max(from, r.start.scanFrom)
		r.rep.QueuesUnchecked = true
	default:
		faults = map[QueueKey]string{}
	}
	maps.Copy(faults, r.broken)

	c := newChecker(r.set, from)
	c.multi = r.o.MultiDispatch
	c.whole, c.readOnly, c.plan = from <= r.minPhy(), r.o.ReadOnly && !r.o.Plan, r.o.Plan
	c.skip = r.broken
	c.expected = maps.Clone(r.next)
	c.dispatched, c.dispatchedTime = r.rep.End, r.start.page.MinTimestamp()
	if !r.start.clean {
		c.dispatched = r.start.scanFrom
	}
	c.trusting = r.o.SkipQueueCheck && r.start.summary == nil
	if damage, err := r.pass("queues", c); err != nil {
		return damage, err
	}
	if c.whole {
		r.rep.LogRecords = c.records
	}
	if err := r.judge(c, faults); err != nil {
		return -1, err
	}
	if len(faults) == 0 {
		return -1, nil
	}
	if r.o.ReadOnly {
		r.rep.LackingQueues = names(faults)
		if r.o.Plan {
			return r.planRebuild(faults)
		}
		return -1, nil
	}
	return r.rebuild(faults)
}

// planRebuild counts what rebuild would write.
func (r *recovery) planRebuild(faults map[QueueKey]string) (damage int64, err error) {
	c := newChecker(r.set, r.minPhy())
	c.multi = r.o.MultiDispatch
	c.whole, c.plan, c.only = true, true, map[QueueKey]bool{}
	for k := range faults {
		c.only[k] = true
		r.rep.RebuiltQueues = insert(r.rep.RebuiltQueues, k)
	}
	if damage, err := r.pass("rebuild", c); err != nil {
		return damage, err
	}
	return -1, r.judge(c, map[QueueKey]string{})
}

// rebuild empties the queues with faults and fills them from the log's start.
func (r *recovery) rebuild(faults map[QueueKey]string) (damage int64, err error) {
	r.changed = true
	// From here on the summary knows more of a queue than there is; half a queue may even look whole. Without it, the next open compares everything.
	if err := checkpoint.RemoveSummary(r.o.FS, r.o.Root); err != nil {
		return -1, fmt.Errorf("rebuild queues: %w", err)
	}
	c := newChecker(r.set, r.minPhy())
	c.multi = r.o.MultiDispatch
	c.whole, c.only = true, map[QueueKey]bool{}
	for k := range faults {
		if _, err := r.set.ResetQueue(k.Topic, k.QueueID); err != nil {
			return -1, fmt.Errorf("rebuild queue %s-%d: %w", k.Topic, k.QueueID, err)
		}
		c.only[k] = true
	}
	if damage, err := r.pass("rebuild", c); err != nil {
		return damage, err
	}
	for k := range faults {
		r.rep.RebuiltQueues = insert(r.rep.RebuiltQueues, k)
	}
	left := map[QueueKey]string{}
	if err := r.judge(c, left); err != nil {
		return -1, err
	}
	for k, why := range left {
		return -1, fmt.Errorf("rebuild queue %s-%d: it still %s", k.Topic, k.QueueID, why)
	}
	return -1, nil
}

// pass shows every record from c.from to the log's end to c.
func (r *recovery) pass(stage string, c *checker) (damage int64, err error) {
	const step = 4 << 20 // bytes between two reports of progress
	end, told := r.rep.End, c.from
	// Slots looks at properties only for multi-dispatch. Who simulates a device wants one thing after the other.
	in := newReader(r.log, c.from, end, !c.multi && r.o.FS == mappedfile.OS() && end-c.from > step)
	defer in.close()
	defer c.letGo()
	for n := 1; ; n++ {
		if n%stopEvery == 0 {
			if err := r.o.Stop(); err != nil {
				return -1, err
			}
		}
		m, at, err := in.next()
		switch {
		case err == nil:
		case err == io.EOF, errors.Is(err, commitlog.ErrNotYet): // perhaps only blanks were left
			r.o.Progress(stage, end-c.from, end-c.from)
			return -1, nil
		case errors.Is(err, mappedfile.ErrCorrupt):
			r.written += c.appended
			return at, err
		default:
			return -1, err
		}
		if err := c.see(m); err != nil {
			return -1, err
		}
		r.rep.LastStoreTime = max(r.rep.LastStoreTime, m.StoreTimestamp)
		if behind := m.PhyOffset + int64(m.Size); behind-told >= step {
			told = behind
			r.o.Progress(stage, told-c.from, end-c.from)
		}
	}
}

// judge adds the queues that disagree with the log to faults, and what c learned to the report.
func (r *recovery) judge(c *checker, faults map[QueueKey]string) error {
	r.rep.CheckedRecords += c.records
	r.rep.RebuiltUnits += c.appended
	r.rep.UnqueuedRecords += c.unqueued
	r.changed = r.changed || c.appended > 0
	judged := map[QueueKey]bool{}
	one := func(k QueueKey, q *consumequeue.Queue) error {
		judged[k] = true
		t := c.tracks[k]
		why, err := "", error(nil)
		if !c.plan || c.only == nil { // what would be built anew is right
			why, err = c.verdict(q, t)
		}
		if err == nil && why != "" && t == nil && !c.multi {
			why, err = r.foreign(q, why)
		}
		if err != nil {
			return err
		}
		if why != "" && faults[k] == "" {
			faults[k] = why
		}
		if t != nil {
			if t.filled && c.only == nil {
				r.rep.RebuiltQueues = insert(r.rep.RebuiltQueues, k)
			}
			r.next[k] = max(r.next[k], t.next)
			if t.reused {
				r.rep.ReusedOffsets = insert(r.rep.ReusedOffsets, k)
			}
			if t.gap {
				r.rep.LogGaps = insert(r.rep.LogGaps, k)
			}
		}
		return nil
	}
	for q := range r.set.All() {
		k := QueueKey{q.Topic(), q.ID()}
		if c.only != nil && !c.only[k] {
			continue
		}
		if err := one(k, q); err != nil {
			return err
		}
	}
	for k := range c.tracks {
		if !judged[k] && !c.tracks[k].impossible {
			if err := one(k, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// foreign takes back the verdict on a queue that no record belongs to if its last record names it in INNER_MULTI_DISPATCH: it was filled with that on, and stays as it is.
func (r *recovery) foreign(q *consumequeue.Queue, why string) (string, error) {
	var p record.Parser
	ok, err := lastUnitAgrees(r.log, q, &p)
	if ok {
		why = ""
	}
	return why, err
}

// settle makes the result durable and leaves a checkpoint and a summary that say so.
func (r *recovery) settle() error {
	if r.flushing != nil {
		err := <-r.flushing
		if r.flushing = nil; err != nil {
			return fmt.Errorf("flush the log after recovery: %w", err)
		}
	}
	if r.o.ReadOnly || r.later || !r.changed && r.start.clean && r.start.summary != nil {
		return nil
	}
	if _, err := r.log.Flush(); err != nil {
		return fmt.Errorf("flush the log after recovery: %w", err)
	}
	if err := r.set.Flush(); err != nil {
		return fmt.Errorf("flush the queues after recovery: %w", err)
	}
	if r.rep.QueuesUnchecked {
		return nil
	}
	p := r.start.page
	// The log's own idea of the time, not any record's: no checksum covers a store time, and one that is damaged must not get into the checkpoint.
	if t := r.log.LastStoreTimestamp(); t > 0 && (r.changed || !r.start.clean) {
		p.PhysicMsgTimestamp, p.LogicsMsgTimestamp = t, t
		p.IndexMsgTimestamp = min(p.IndexMsgTimestamp, t)
		p.ConfirmPhyOffset = min(p.ConfirmPhyOffset, r.rep.End)
		p.MasterFlushedOffset = min(p.MasterFlushedOffset, r.rep.End)
		if err := checkpoint.Write(r.o.FS, checkpoint.Path(r.o.Root), p); err != nil {
			return fmt.Errorf("write the checkpoint after recovery: %w", err)
		}
		r.start.page = p
	}
	sum, err := Summarize(r.log, r.set.Snapshot(), r.rep.End, false)
	if err != nil {
		return err
	}
	KeepNumbers(sum, r.next)
	if err := checkpoint.WriteSummary(r.o.FS, r.o.Root, sum); err != nil {
		return fmt.Errorf("write the summary after recovery: %w", err)
	}
	r.start.summary = sum
	return nil
}

func (r *recovery) opened() *Opened {
	o := &Opened{
		Log: r.log, Queues: r.set, Page: r.start.page, Summary: r.start.summary, Report: r.rep,
		Unsettled: r.later, Dispatched: r.rep.End, DispatchFrom: r.rep.End, NextOffsets: r.next,
	}
	if !r.rep.Clean {
		o.DispatchFrom = max(r.rep.Start, r.minPhy())
	}
	return o
}

func (k QueueKey) String() string { return fmt.Sprintf("%s-%d", k.Topic, k.QueueID) }

func names(faults map[QueueKey]string) []string {
	var s []string
	for k := range maps.Keys(faults) {
		s = append(s, k.String())
	}
	slices.Sort(s)
	return s
}

// insert adds k to a sorted list of names.
func insert(s []string, k QueueKey) []string {
	i, found := slices.BinarySearch(s, k.String())
	if found {
		return s
	}
	return slices.Insert(s, i, k.String())
}
