package crash

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/effort"
	"github.com/mqstore/mqstore/store"
)

func plain(topic string, id int32, body string) *record.Message {
	return &record.Message{Topic: topic, QueueID: id, BornHost: host, StoreHost: host, Body: []byte(body)}
}

// readAll reads a queue whole and returns its bodies.
func readAll(t *testing.T, s *store.DefaultMessageStore, topic string, id int32) (bodies []string) {
	t.Helper()
	for m, err := range s.Scan(context.Background(), topic, id, s.MinOffset(topic, id)) {
		if err != nil {
			t.Fatalf("scan %s-%d after %d messages: %v", topic, id, len(bodies), err)
		}
		if m.QueueOffset != s.MinOffset(topic, id)+int64(len(bodies)) {
			t.Fatalf("scan %s-%d: offset %d where %d comes next", topic, id, m.QueueOffset, len(bodies))
		}
		bodies = append(bodies, string(m.Body))
	}
	return bodies
}

// TestDiskFullRefusesPutsAndNothingElse: on a disk of any size the put that finds no room is refused with ErrDiskFull and uses no offset, reads go on, room makes puts go on at once,
// queues catch up, and a crash at the worst moment takes nothing that was durable.
func TestDiskFullRefusesPutsAndNothingElse(t *testing.T) {
	for seed := range effort.Seeds(t, 60, 600) {
		l := newLife(t, seed)
		ops := l.rng.IntN(3)
		limit := int64(40+l.rng.IntN(160)) << 10
		l.fs.SetLimit(limit)
		l.tell("a disk of %d", limit)
		l.mustOpen()
		var full, accepted int
		put := func() error {
			m := plain("A", int32(l.rng.IntN(12)), fmt.Sprintf("%d %0*d", accepted, l.rng.IntN(900), 0))
			r, err := l.s.Put(ctx, m)
			l.tell("put to %d: %d %v", m.QueueID, r.QueueOffset, err)
			if err == nil {
				l.note(l.sent(m, r.PhyOffset, r.Size, r.QueueOffset))
				l.outlive = max(l.outlive, r.PhyOffset+int64(r.Size))
				accepted++
			}
			return err
		}
		queues := make([]queueKey, 12)
		for i := range queues {
			queues[i] = queueKey{"A", int32(i)}
		}
		for full < 20 && accepted < 3000 {
			l.now = l.now.Add(time.Millisecond)
			err := put()
			switch {
			case errors.Is(err, store.ErrDiskFull):
				full++
			case err != nil:
				l.fatal("put: %v", err)
			}
			if l.rng.IntN(4) == 0 {
				if _, err := l.s.DispatchStep(100); err != nil && !errors.Is(err, store.ErrDiskFull) {
					l.fatal("dispatch: %v", err)
				}
			}
			if l.rng.IntN(8) == 0 {
				if _, err := l.s.FlushStep(); err != nil {
					l.fatal("flush: %v", err)
				}
			}
		}
		if full == 0 {
			l.fatal("%d puts and the disk is not full", accepted)
		}
		// Reads go on: whatever is visible is whole.
		for _, q := range queues {
			at := l.s.MinOffset(q.topic, q.id)
			for end := l.s.MaxOffset(q.topic, q.id); at < end; {
				r, err := l.s.Get(ctx, store.GetRequest{Topic: q.topic, QueueID: q.id, Offset: at})
				if err != nil || r.Status != store.Found {
					l.fatal("get %v at %d on a full disk: %v %v", q, at, r, err)
				}
				for i, v := range r.Records {
					l.same(v.Bytes, q, r.QueueOffsets[i])
				}
				at = r.NextBeginOffset
				r.Release()
			}
		}
		// A crash now, or not.
		switch ops {
		case 1:
			l.flushed()
			l.fs, l.s = l.fs.Kill(), nil
			l.tell("kill")
		case 2:
			l.flushed()
			l.fs, l.s = l.fs.Crash(l.rng), nil
			l.tell("power lost, durable to %d", l.durable)
		}
		l.fs.SetLimit(limit + 256<<10)
		l.tell("room")
		if l.s == nil {
			l.mustOpen()
			kept := l.durable
			if ops == 1 {
				kept = max(l.outlive, l.durable)
			}
			l.fullRecovered(queues, kept)
		}
		for range 50 {
			l.now = l.now.Add(time.Millisecond)
			// The first put may be what finds out that there is room for queues again.
			if _, err := l.s.DispatchStep(1000); err != nil {
				l.fatal("dispatch with room: %v", err)
			}
			if err := put(); err != nil {
				l.fatal("put with room: %v", err)
			}
		}
		if _, err := l.s.FlushStep(); err != nil {
			l.fatal("flush: %v", err)
		}
		if _, err := l.s.DispatchStep(1 << 20); err != nil {
			l.fatal("dispatch: %v", err)
		}
		for _, q := range queues {
			if got := int64(len(readAll(t, l.s, q.topic, q.id))); got != l.next[q] {
				l.fatal("queue %v holds %d of %d messages", q, got, l.next[q])
			}
		}
		if err := l.s.Close(); err != nil {
			l.fatal("close: %v", err)
		}
	}
}

// fullRecovered forgets what a power loss may have taken and checks that it took nothing else.
func (l *life) fullRecovered(queues []queueKey, kept int64) {
	l.t.Helper()
	end := l.s.MaxPhyOffset()
	for len(l.log) > 0 && l.log[len(l.log)-1].end > end {
		m := l.log[len(l.log)-1]
		if m.end <= kept {
			l.fatal("lost: %+v, to be kept to %d, the log ends at %d", m, kept, end)
		}
		l.next[m.queue] = m.queueOffset
		l.log = l.log[:len(l.log)-1]
	}
	for _, q := range queues {
		if got := l.s.MaxOffset(q.topic, q.id); got != l.next[q] {
			l.fatal("queue %v ends at %d, want %d", q, got, l.next[q])
		}
	}
}

// TestDiskFullWhileRecovering: no room for what recovery has to write is ErrDiskFull from Open, and the next Open with room finds everything.
func TestDiskFullWhileRecovering(t *testing.T) {
	for seed := range effort.Seeds(t, 20, 200) {
		l := newLife(t, seed)
		l.mustOpen()
		for range 80 {
			l.now = l.now.Add(time.Millisecond)
			l.put(false)
		}
		l.flushed()
		l.fs = l.fs.Kill()
		for room := int64(0); ; room += 4 << 10 {
			if room == 4<<20 {
				l.fatal("4 MiB are not enough")
			}
			l.fs.SetLimit(l.fs.Used() + room)
			err := l.open()
			if err == nil {
				break
			}
			if !errors.Is(err, store.ErrDiskFull) {
				l.fatal("open with %d bytes of room: %v", room, err)
			}
			l.fs = l.fs.Kill()
		}
		l.fs.SetLimit(0)
		l.queuesAgree()
		if err := l.s.Close(); err != nil {
			l.fatal("close: %v", err)
		}
	}
}
