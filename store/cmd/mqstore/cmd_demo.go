package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

type demoCmd struct {
	Keep bool `name:"keep" help:"Leave the directory, to look at it with the other verbs."`
}

func (*demoCmd) Help() string {
	return "A process of its own puts messages, each flushed to disk before it is acknowledged, and is killed with kill -9 while it does. The log is then torn where a power failure would tear it, the store is opened again, and every message that was acknowledged is looked up. Exit code 0: all of it was there."
}

func (*demoCmd) Examples() string {
	return "  mqstore demo\n  mqstore demo --keep"
}

const (
	demoSegmentSize = 256 << 10
	demoQueueFile   = 20 * 500
	demoProducers   = 4
	demoQueues      = 4
	demoAcks        = 1500            // as many puts are acknowledged before the kill,
	demoPatience    = 3 * time.Second // or as many as there are after this
)

var demoTopics = []string{"orders", "payments"}

// ack is what the killed process said of one message after its put had returned.
type ack struct {
	Topic       string `json:"topic"`
	QueueID     int32  `json:"queueId"`
	QueueOffset int64  `json:"queueOffset"`
	PhyOffset   int64  `json:"phyOffset"`
	BodySum     uint32 `json:"bodySum"`
}

func demoOptions() store.Options {
	return store.Options{FlushMode: store.SyncFlush, SegmentSize: demoSegmentSize, QueueFileSize: demoQueueFile}
}

func (c *demoCmd) Run(e *env) (err error) {
	dir, err := os.MkdirTemp("", "mqstore-demo-")
	if err != nil {
		return err
	}
	d := &demo{e: e, dir: filepath.Join(dir, "store")}
	d.say("A message store in %s", d.dir)
	if c.Keep {
		defer d.say("\nLook at it: mqstore info %s", d.dir)
	} else {
		defer func() {
			if rerr := os.RemoveAll(dir); err == nil {
				err = rerr
			}
		}()
	}
	for _, step := range []func() error{d.putAndKill, d.tear, d.recover, d.prove, d.goOn, d.reopen} {
		if err := step(); err != nil {
			return err
		}
		if err := e.ctx.Err(); err != nil {
			return err
		}
	}
	d.say("\nProved: %s, none lost.", count(len(d.acks), "acknowledged message", "acknowledged messages"))
	return nil
}

// demo is one run; its steps are called in order.
type demo struct {
	e     *env
	dir   string
	acks  []ack
	torn  bool
	store *store.DefaultMessageStore
}

// say prints at once: the reader follows.
func (d *demo) say(format string, args ...any) {
	d.e.printf(format+"\n", args...)
	d.e.out.Flush()
}

// putAndKill runs the writer and kills it while it puts.
func (d *demo) putAndKill() error {
	d.say("\n1. Another process opens it and puts messages: %d producers, %d topics of %d queues, synchronous flush.", demoProducers, len(demoTopics), demoQueues)
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	child := exec.CommandContext(d.e.ctx, exe)
	child.Args = []string{os.Args[0], "demo-writer", d.dir}
	child.Stderr = d.e.stderr
	out, err := child.StdoutPipe()
	if err != nil {
		return err
	}
	if err := child.Start(); err != nil {
		return err
	}
	killed := false
	kill := func() {
		killed = true
		_ = child.Process.Kill()
	}
	start := time.Now()
	lines := bufio.NewReader(out)
	deadline := time.AfterFunc(demoPatience, kill)
	var took time.Duration
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break // a line cut short was not an acknowledgement that anybody got
		}
		var a ack
		if err := json.Unmarshal(line, &a); err != nil {
			kill()
			_ = child.Wait()
			return fmt.Errorf("the writing process said %q: %w", line, err)
		}
		d.acks = append(d.acks, a)
		if len(d.acks) == demoAcks {
			took = time.Since(start)
			kill() // what it still says was acknowledged, too
		}
	}
	deadline.Stop()
	if took == 0 {
		took = time.Since(start)
	}
	err = child.Wait()
	if cerr := d.e.ctx.Err(); cerr != nil {
		return cerr
	}
	if !killed && err != nil {
		return fmt.Errorf("the writing process: %w", err)
	}
	if len(d.acks) == 0 {
		return errors.New("the writing process acknowledged nothing")
	}
	d.say("   %s acknowledged in %s. Then, in the middle of it: kill -9.", count(len(d.acks), "put was", "puts were"), took.Round(time.Millisecond))
	return nil
}

// tear writes the first half of a record behind the log's end.
func (d *demo) tear() error {
	s, err := store.OpenReadOnly(d.dir, store.Options{})
	if err != nil {
		return err
	}
	end := s.MaxPhyOffset()
	if err := s.Close(); err != nil {
		return err
	}
	m := demoMessage(rand.New(rand.NewPCG(1, 2)), demoTopics[0], 0)
	m.PhyOffset = end
	rec, err := record.AppendRecord(nil, m, record.Limits{})
	if err != nil {
		return err
	}
	half := rec[:len(rec)/2]
	at := end % demoSegmentSize
	if at+int64(len(half)) > demoSegmentSize {
		return nil // no room for it in this segment
	}
	name := filepath.Join(d.dir, "commitlog", fmt.Sprintf("%020d", end-at))
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil // the log ended with its segment
	}
	if err != nil {
		return err
	}
	_, err = f.WriteAt(half, at)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	d.torn = true
	d.say("   And half a record of %d bytes is written at the log's end, %d, as a power failure leaves it.", len(half), end)
	return nil
}

// recover opens the store again.
func (d *demo) recover() error {
	d.say("\n2. The store is opened again, and recovers.")
	s, err := store.Open(d.dir, demoOptions())
	if err != nil {
		return err
	}
	d.store = s
	r := s.Stats().Recovery
	if r.Clean {
		return nothing("the store believes that it was closed cleanly, but its process was killed")
	}
	d.say("   The last exit was not clean: %s read back from physical offset %d to %d in %s, %s rebuilt.",
		count(r.ScannedRecords, "record", "records"), r.Start, r.End, r.Took.Round(time.Millisecond), count(r.RebuiltUnits, "queue unit", "queue units"))
	if d.torn && r.DroppedBytes == 0 {
		return nothing("half a record was written at the log's end, but recovery cut nothing")
	}
	if r.DroppedBytes > 0 {
		d.say("   %s of a torn tail were cut, and are kept in quarantine/ (%s).", count(r.DroppedBytes, "byte", "bytes"), count(len(r.Quarantine), "file", "files"))
	}
	return nil
}

// prove looks every acknowledged message up, by its place in the log and by its place in the queue, and checks that the queues have no gap.
func (d *demo) prove() error {
	d.say("\n3. Is everything there that was acknowledged?")
	for _, a := range d.acks {
		m, err := d.store.Lookup(a.PhyOffset)
		if err != nil {
			return nothing("LOST: %s/%d at queue offset %d: %w", a.Topic, a.QueueID, a.QueueOffset, err)
		}
		if m.Topic != a.Topic || m.QueueID != a.QueueID || m.QueueOffset != a.QueueOffset || crc32.ChecksumIEEE(m.Body) != a.BodySum {
			return nothing("CHANGED: the record at %d is not the message that was acknowledged: %+v", a.PhyOffset, a)
		}
		phy, err := d.store.PhyOffset(a.Topic, a.QueueID, a.QueueOffset)
		if err != nil || phy != a.PhyOffset {
			return nothing("LOST from its queue: %s/%d at %d points at %d (%v), acknowledged at %d", a.Topic, a.QueueID, a.QueueOffset, phy, err, a.PhyOffset)
		}
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

// goOn puts and gets on in the recovered store.
func (d *demo) goOn() error {
	d.say("\n4. Life goes on: more puts, and gets by tag, by time and by key.")
	rng := rand.New(rand.NewPCG(3, 4))
	first := int64(-1)
	var stored time.Time
	const more = 100
	for i := range more {
		m := demoMessage(rng, "orders", 0)
		m.Properties = record.NewProperties(record.PropertyTags, []string{"new", "paid"}[i%2], record.PropertyKeys, fmt.Sprintf("order-%d", i))
		r, err := d.store.Put(d.e.ctx, m)
		if err != nil {
			return err
		}
		if r.Status != store.PutOK {
			return nothing("put: %v", r.Status)
		}
		if first < 0 {
			first, stored = r.QueueOffset, time.UnixMilli(r.StoreTimestamp)
		}
		if want := first + int64(i); r.QueueOffset != want {
			return nothing("put got queue offset %d, not %d", r.QueueOffset, want)
		}
		d.acks = append(d.acks, ack{"orders", 0, r.QueueOffset, r.PhyOffset, crc32.ChecksumIEEE(m.Body)})
	}
	if err := d.store.WaitForMessages(d.e.ctx, "orders", 0, first+more-1); err != nil {
		return err
	}
	got := 0
	for next, end := first, d.store.MaxOffset("orders", 0); next < end; {
		r, err := d.get("orders", 0, next, "paid")
		if err != nil {
			return err
		}
		ms, err := r.Messages()
		if err != nil {
			return err
		}
		for _, m := range ms {
			if m.Tags() != "paid" {
				return nothing("asked for tag paid, got %q", m.Tags())
			}
		}
		got += len(ms)
		next = r.NextBeginOffset
		r.Release()
	}
	if got != more/2 {
		return nothing("%d messages with tag paid were put, %d found", more/2, got)
	}
	at, err := d.store.OffsetByTime("orders", 0, stored, store.Lower)
	if err != nil {
		return err
	}
	if at > first {
		return nothing("the message at queue offset %d was stored at %v, but the first one of that time is said to be %d", first, stored, at)
	}
	d.say("   %d put, %d found by tag; the first one since %s is queue offset %d.", more, got, stamp(stored.UnixMilli()), at)
	return d.query(fmt.Sprintf("order-%d", more-1), d.acks[len(d.acks)-1].PhyOffset)
}

// reopen closes the store properly, opens it once more and proves everything again.
func (d *demo) reopen() error {
	d.say("\n5. Closed properly, opened once more.")
	if err := d.store.Close(); err != nil {
		return err
	}
	s, err := store.Open(d.dir, demoOptions())
	if err != nil {
		return err
	}
	defer s.Close()
	d.store = s
	r := s.Stats().Recovery
	if !r.Clean || r.DroppedBytes > 0 {
		return nothing("the store was closed properly, but opening it recovered: clean %v, %d bytes cut", r.Clean, r.DroppedBytes)
	}
	for _, a := range d.acks {
		m, err := s.Lookup(a.PhyOffset)
		if err != nil {
			return nothing("LOST: %s/%d at queue offset %d: %w", a.Topic, a.QueueID, a.QueueOffset, err)
		}
		if crc32.ChecksumIEEE(m.Body) != a.BodySum || m.QueueOffset != a.QueueOffset {
			return nothing("CHANGED: the record at %d is not the message that was acknowledged", a.PhyOffset)
		}
	}
	d.say("   A clean exit: nothing to recover, all %d there.", len(d.acks))
	return s.Close()
}

func demoMessage(rng *rand.Rand, topic string, queueID int32) *record.Message {
	body := make([]byte, 100+rng.IntN(900))
	for i := range body {
		body[i] = byte(rng.Uint32())
	}
	host := record.HostFrom(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 10911))
	return &record.Message{Topic: topic, QueueID: queueID, BornTimestamp: time.Now().UnixMilli(), BornHost: host, StoreHost: host, Body: body}
}

// query finds the message that was put with the key.
func (d *demo) query(key string, phyOffset int64) error {
	if err := d.store.WaitIndexed(d.e.ctx, d.store.MaxPhyOffset()); err != nil {
		return err
	}
	r, err := d.store.Query(d.e.ctx, store.QueryRequest{Topic: "orders", Key: key})
	if err != nil {
		return err
	}
	defer r.Release()
	if len(r.Records) != 1 || r.Records[0].PhyOffset != phyOffset {
		return nothing("key %s is found in %d messages, put was the one at %d", key, len(r.Records), phyOffset)
	}
	d.say("   The key %s finds its message, at %d.", key, phyOffset)
	return nil
}

// demoWriterCmd is the process that demo kills: it puts for ever, and writes a line for each put that has returned.
type demoWriterCmd struct {
	Dir string `arg:""`
}

func (c *demoWriterCmd) Run(e *env) error {
	s, err := store.Open(c.Dir, demoOptions())
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(e.ctx)
	defer stop(nil)
	var (
		wg    sync.WaitGroup
		lines sync.Mutex
	)
	for p := range demoProducers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(p), uint64(time.Now().UnixNano())))
			for ctx.Err() == nil {
				m := demoMessage(rng, demoTopics[rng.IntN(len(demoTopics))], rng.Int32N(demoQueues))
				sum := crc32.ChecksumIEEE(m.Body)
				r, err := s.Put(ctx, m)
				if err != nil || r.Status != store.PutOK {
					stop(errors.Join(err, fmt.Errorf("put: %v", r.Status)))
					return
				}
				line, err := json.Marshal(ack{m.Topic, m.QueueID, r.QueueOffset, r.PhyOffset, sum})
				if err == nil {
					lines.Lock()
					_, err = e.stdout.Write(append(line, '\n'))
					lines.Unlock()
				}
				if err != nil {
					stop(err) // nobody listens any more
					return
				}
			}
		})
	}
	wg.Wait()
	err = context.Cause(ctx)
	if errors.Is(err, io.ErrClosedPipe) {
		err = nil
	}
	return errors.Join(err, s.Close())
}
