package repair

import (
	"context"
	"errors"
)

// Recovered is what [Recover] did, or would do.
type Recovered struct {
	TruncatedTo  int64    `json:"truncatedTo"`  // where the log ends
	DroppedBytes int64    `json:"droppedBytes"` // cut from the log's end
	RebuiltUnits int64    `json:"rebuiltUnits"`
	RebuiltKeys  int64    `json:"rebuiltKeys"`
	Quarantine   []string `json:"quarantine"` // what holds that which was cut or set aside

	Queues  []string `json:"-"` // "topic-queueId" of those that lacked units or disagreed with the log
	Reason  error    `json:"-"` // why the log ends where it does; nil: nothing follows
	Records int64    `json:"-"` // whole ones that were cut
	Lost    int64    `json:"-"` // bytes that had been durable and are lost or cut
}

// Recover does offline what opening the store does after a crash, and more thoroughly: it finds the log's end, cuts the torn tail and keeps it in
// quarantine/, compares every record with its units and completes or rebuilds the queues, completes the index, and leaves the directory as after a clean
// exit. With Options.DryRun it tells exactly that and writes nothing.
//
// Damage of what was durable is refused with *commitlog.DamageError, and nothing is changed. A store that is in use is refused (mappedfile.ErrLocked). When
// it is interrupted (ctx, a crash), the next Recover goes on from what is there.
func Recover(ctx context.Context, o Options) (res Recovered, err error) {
	m, err := hold(ctx, o)
	if err != nil {
		return res, err
	}
	defer func() { err = m.end(err) }()
	return m.recover()
}

func (m *mender) recover() (res Recovered, err error) {
	if err := m.clearFresh(); err != nil {
		return res, err
	}
	o, err := m.obstacles()
	if err != nil {
		return res, err
	}
	if o.none() {
		return m.recoverCleared()
	}
	// Nothing is put out of the way if that alone does not help.
	dry := *m
	dry.DryRun, dry.fs = true, newOverlay(m.fs, o)
	if res, err = dry.recoverCleared(); err != nil {
		return res, err
	}
	kept, err := m.clear(o)
	if err == nil && !m.DryRun {
		res, err = m.recoverCleared()
	}
	res.DroppedBytes += o.excess
	res.Quarantine = append(kept, res.Quarantine...)
	return res, err
}

func (m *mender) recoverCleared() (res Recovered, err error) {
	op, err := openRecovered(m, m.recovery())
	if err != nil {
		return res, err
	}
	rep := op.Report
	res = Recovered{
		TruncatedTo: rep.End, DroppedBytes: rep.DroppedBytes, RebuiltUnits: rep.RebuiltUnits, Queues: rep.RebuiltQueues,
		Reason: rep.DroppedReason, Records: rep.DroppedRecords, Lost: rep.LostBytes,
	}
	if res.Quarantine, err = m.kept(op); err == nil {
		var aside []string
		res.RebuiltKeys, aside, err = m.completeIndex(op)
		res.Quarantine = append(res.Quarantine, aside...)
	}
	if err != nil {
		return res, errors.Join(err, op.Close())
	}
	if res.Quarantine == nil {
		res.Quarantine = []string{}
	}
	return res, m.finish(op)
}
