package commitlog

import (
	"errors"
	"testing"
	"time"

	"github.com/mqstore/mqstore/commitlog/mappedfile"
	"github.com/mqstore/mqstore/commitlog/record"
)

// aged fills segments whose last records are an hour apart.
func aged(t *testing.T, r *rig) (last []time.Time) {
	t.Helper()
	l := r.open(Recovery{})
	for seg := range int64(5) {
		r.append(100)
		for testSegment*(seg+1)-l.MaxPhyOffset() > 1200 {
			last = append(last[:seg:seg], time.UnixMilli(r.append(1000).StoreTimestamp))
		}
		r.clock.now = r.clock.now.Add(time.Hour)
		if seg < 4 {
			r.append(1200)
		}
	}
	r.flush()
	if n := len(l.Segments()); n != 5 {
		t.Fatalf("%d segments", n)
	}
	return last
}

func TestSegmentsExpireByTheirLastRecord(t *testing.T) {
	for _, reopen := range []bool{false, true} {
		r := newRig(t)
		last := aged(t, r)
		if reopen { // then ages are read from the files
			end := r.log.MaxPhyOffset()
			r.close()
			r.open(Recovery{Clean: true, From: end, FlushedTo: end})
		}
		l := r.log
		if removed, err := l.Expire(ExpireOptions{OlderThan: last[0]}); err != nil || len(removed) != 0 {
			t.Errorf("reopened %v: older than the first segment's last record: %v, %v", reopen, removed, err)
		}
		removed, err := l.Expire(ExpireOptions{OlderThan: last[2].Add(time.Minute)})
		if err != nil || len(removed) != 3 || removed[2].End != 3*testSegment || l.MinPhyOffset() != 3*testSegment {
			t.Errorf("reopened %v: removed %v, %v; log starts at %d", reopen, removed, err, l.MinPhyOffset())
		}
		if removed, err := l.Expire(ExpireOptions{Force: true}); err != nil || len(removed) != 1 {
			t.Errorf("reopened %v: the last segment stays: removed %v, %v", reopen, removed, err)
		}
		if removed, err := l.Expire(ExpireOptions{Force: true}); err != nil || len(removed) != 0 {
			t.Errorf("reopened %v: removed the last one: %v, %v", reopen, removed, err)
		}
		c := l.NewCursor(0)
		if err := c.Next(new(record.Meta), l.MaxPhyOffset()); !errors.Is(err, mappedfile.ErrNotFound) {
			t.Errorf("reopened %v: reading what expired: %v", reopen, err)
		}
		if len(offsets(t, l)) == 0 {
			t.Errorf("reopened %v: nothing is left", reopen)
		}
		end := l.MaxPhyOffset()
		r.close()
		r.open(Recovery{FlushedTo: -1})
		if r.tail.End != end || r.log.MinPhyOffset() != 4*testSegment {
			t.Errorf("reopened %v: then %+v from %d", reopen, r.tail, r.log.MinPhyOffset())
		}
	}
}

func TestExpireIsBoundedAndCanBeStopped(t *testing.T) {
	r := newRig(t)
	aged(t, r)
	l := r.log
	if removed, err := l.Expire(ExpireOptions{Below: 2*testSegment - 1}); err != nil || len(removed) != 1 {
		t.Errorf("below the second segment's end: %v, %v", removed, err)
	}
	if removed, err := l.Expire(ExpireOptions{Force: true, Max: 1}); err != nil || len(removed) != 1 {
		t.Errorf("at most one: %v, %v", removed, err)
	}
	if removed, err := l.Expire(ExpireOptions{Force: true, Stop: func() bool { return true }}); err != nil || len(removed) != 0 {
		t.Errorf("stopped: %v, %v", removed, err)
	}
}

func TestWhatIsNotFlushedDoesNotExpire(t *testing.T) {
	r := newRig(t)
	l := r.open(Recovery{})
	r.appendN(100, 400)
	if removed, err := l.Expire(ExpireOptions{Force: true}); err != nil || len(removed) != 0 {
		t.Errorf("removed %v, %v", removed, err)
	}
}

// Whoever read bytes inside a record, and then asks what is wrong with them, may come too late: that is no damage.
func TestWhatIsDeletedOrClosedMeanwhileIsNoDamage(t *testing.T) {
	r := newRig(t)
	aged(t, r)
	l := r.log
	if err := l.explain(7, record.ErrMagic); !errors.Is(err, ErrNotARecord) {
		t.Errorf("inside a record: %v", err)
	}
	if _, err := l.Expire(ExpireOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	if err := l.explain(7, record.ErrMagic); !errors.Is(err, mappedfile.ErrNotFound) || errors.Is(err, mappedfile.ErrCorrupt) {
		t.Errorf("deleted meanwhile: %v", err)
	}
	r.close()
	if err := l.explain(4*testSegment+7, record.ErrMagic); !errors.Is(err, ErrClosed) || errors.Is(err, mappedfile.ErrCorrupt) {
		t.Errorf("closed meanwhile: %v", err)
	}
}
