package main

import (
	"bytes"
	"hash/crc32"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/mqstore/mqstore/store"
)

// until waits for a state of the pair.
func (d *demo) until(what string, reached func() bool) error {
	deadline := time.NewTimer(demoWait)
	defer deadline.Stop()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for !reached() {
		select {
		case <-look.C:
		case <-deadline.C:
			return nothing("waited %v for %s", demoWait, what)
		case <-d.e.ctx.Done():
			return d.e.ctx.Err()
		}
	}
	return nil
}

// proveSlave looks everything up where the master's crash cannot have reached.
func (d *demo) proveSlave() error {
	d.say("\n2. The master is gone. Does the slave have everything that was acknowledged?")
	last := int64(0)
	for _, a := range d.acks {
		last = max(last, a.PhyOffset)
	}
	if err := d.until("the slave's queues", func() bool { return d.slave.Stats().DispatchedPhyOffset > last }); err != nil {
		return err
	}
	if err := d.check(d.slave); err != nil {
		return err
	}
	d.say("   All %d, in its log and in its queues.", len(d.acks))
	return nil
}

// check looks every acknowledged message up in s, by its place in the log and by its place in the queue.
func (d *demo) check(s *store.DefaultMessageStore) error {
	for _, a := range d.acks {
		m, err := s.Lookup(a.PhyOffset)
		if err != nil {
			return nothing("LOST: %s/%d at queue offset %d: %w", a.Topic, a.QueueID, a.QueueOffset, err)
		}
		if m.Topic != a.Topic || m.QueueID != a.QueueID || m.QueueOffset != a.QueueOffset || crc32.ChecksumIEEE(m.Body) != a.BodySum {
			return nothing("CHANGED: the record at %d is not the message that was acknowledged: %+v", a.PhyOffset, a)
		}
		phy, err := s.PhyOffset(a.Topic, a.QueueID, a.QueueOffset)
		if err != nil || phy != a.PhyOffset {
			return nothing("LOST from its queue: %s/%d at %d points at %d (%v), acknowledged at %d", a.Topic, a.QueueID, a.QueueOffset, phy, err, a.PhyOffset)
		}
	}
	return nil
}

// prove checks every acknowledged message, and that the queues have no gap.
func (d *demo) prove() error {
	d.say("\n4. Is everything there that was acknowledged?")
	if err := d.check(d.store); err != nil {
		return err
	}
	n, err := d.scan()
	if err != nil {
		return err
	}
	if n < len(d.acks) {
		return nothing("LOST: the queues hold %d messages, %d were acknowledged", n, len(d.acks))
	}
	d.say("   All %d: at their physical offsets and in their queues, bodies unchanged. The queues have no gap;", len(d.acks))
	d.say("   %s in them had been put but not yet acknowledged.", count(n-len(d.acks), "message", "messages"))
	return nil
}

// level waits until the slave has all of the master's log, on its disk and in its queues, and the master knows it.
func (d *demo) level(master, slave *store.DefaultMessageStore) error {
	return d.until("the slave to catch up", func() bool {
		m, s := master.Stats(), slave.Stats()
		return s.MaxPhyOffset == m.MaxPhyOffset && s.DispatchBehindBytes == 0 && m.DispatchBehindBytes == 0 && m.HA.MaxAck == m.MaxPhyOffset && len(m.HA.Slaves) > 0
	})
}

// scan reads all queues as a consumer does and counts the messages.
func (d *demo) scan() (n int, err error) {
	for _, q := range d.store.Queues() {
		next := q.MinOffset
		for next < q.MaxOffset {
			m, err := d.get(q.Topic, q.QueueID, next, "*")
			if err != nil {
				return n, err
			}
			for i, off := range m.QueueOffsets {
				if off != next+int64(i) {
					m.Release()
					return n, nothing("GAP: queue %s/%d has %d where %d belongs", q.Topic, q.QueueID, off, next+int64(i))
				}
			}
			n += len(m.QueueOffsets)
			next = m.NextBeginOffset
			m.Release()
		}
	}
	return n, nil
}

func (d *demo) get(topic string, queueID int32, from int64, tags string) (*store.GetResult, error) {
	r, err := d.store.Get(d.e.ctx, store.GetRequest{Group: "demo", Topic: topic, QueueID: queueID, Offset: from, Filter: store.TagFilter(tags)})
	if err != nil {
		return nil, err
	}
	if r.Status != store.Found {
		r.Release()
		return nil, nothing("get of %s/%d at %d: %v, although the queue goes on", topic, queueID, from, r.Status)
	}
	return r, nil
}

// equal compares both stores: log and queues, byte for byte.
func (d *demo) equal() error {
	d.say("\n9. Are both stores equal?")
	from, end := d.store.MinPhyOffset(), d.store.MaxPhyOffset()
	if sf, se := d.slave.MinPhyOffset(), d.slave.MaxPhyOffset(); sf != from || se != end {
		return nothing("DIFFERENT: one log holds [%d, %d), the other [%d, %d)", from, end, sf, se)
	}
	for _, s := range []**store.DefaultMessageStore{&d.store, &d.slave} {
		if err := (*s).Close(); err != nil {
			return err
		}
		*s = nil
	}
	logs, _, err := d.sameFiles("commitlog", end)
	if err != nil {
		return err
	}
	files, bytes, err := d.sameFiles("consumequeue", -1)
	if err != nil {
		return err
	}
	d.say("   Yes: %s of log in %s, and %s of queues in %s.", size(end-from), count(logs, "file", "files"), size(bytes), count(files, "file", "files"))
	return nil
}

// sameFiles compares a directory of both stores, of the log what lies below end; -1: everything.
func (d *demo) sameFiles(sub string, end int64) (files int, total int64, err error) {
	err = filepath.WalkDir(filepath.Join(d.dir, sub), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if err := d.e.ctx.Err(); err != nil {
			return err
		}
		rel, err := filepath.Rel(d.dir, path)
		if err != nil {
			return err
		}
		n := int64(math.MaxInt64)
		if end >= 0 {
			start, err := strconv.ParseInt(entry.Name(), 10, 64)
			if err != nil {
				return err
			}
			if n = end - start; n <= 0 {
				return nil // made ahead
			}
		}
		a, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(filepath.Join(d.slaveDir, rel))
		if err != nil {
			return nothing("DIFFERENT: %w", err)
		}
		if !bytes.Equal(a[:min(n, int64(len(a)))], b[:min(n, int64(len(b)))]) {
			return nothing("DIFFERENT: %s", rel)
		}
		files++
		total += min(n, int64(len(a)))
		return nil
	})
	return files, total, err
}

// query finds the message that was put with the key.
func (d *demo) query(s *store.DefaultMessageStore, key string, phyOffset int64) error {
	if err := s.WaitIndexed(d.e.ctx, s.MaxPhyOffset()); err != nil {
		return err
	}
	r, err := s.Query(d.e.ctx, store.QueryRequest{Topic: "orders", Key: key})
	if err != nil {
		return err
	}
	defer r.Release()
	if len(r.Records) != 1 || r.Records[0].PhyOffset != phyOffset {
		return nothing("key %s is found in %d messages, put was the one at %d", key, len(r.Records), phyOffset)
	}
	return nil
}
