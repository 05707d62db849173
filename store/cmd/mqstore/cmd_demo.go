package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
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
	return "A sync master in a process of its own puts messages, each on its disk and on its slave's before it is acknowledged, and is killed with kill -9 while it does. Every message that was acknowledged is looked up on the slave. The master's log is then torn where a power failure would tear it, it is opened again, and all is looked up there. The slave catches up; later it is promoted, and the old master follows it. Exit code 0: nothing acknowledged was lost, and both stores are equal, byte for byte."
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
	demoPatience    = 3 * time.Second // or as many as there are after this, but at least one
	demoWait        = 2 * time.Minute
)

var demoTopics = []string{"orders", "payments"}

// demoOptions are those of a store that puts, as a master whose puts wait for a slave's disk, or that follows one. Machine and disk may be as slow as they like.
func demoOptions(role store.Role, master string) store.Options {
	return store.Options{
		FlushMode: store.SyncFlush, SegmentSize: demoSegmentSize, QueueFileSize: demoQueueFile, SyncFlushTimeout: demoWait, PutBusyAfter: demoWait,
		Role: role, HA: store.HAOptions{ListenAddress: "127.0.0.1:0", MasterAddress: master, ReportFlushed: true, SlaveTimeout: demoWait},
	}
}

func (c *demoCmd) Run(e *env) (err error) {
	dir, err := os.MkdirTemp("", "mqstore-demo-")
	if err != nil {
		return err
	}
	d := &demo{e: e, dir: filepath.Join(dir, "store"), slaveDir: filepath.Join(dir, "slave")}
	d.say("A message store in %s,\nand its slave in %s", d.dir, d.slaveDir)
	if c.Keep {
		defer d.say("\nLook at it: mqstore info %s", d.dir)
	} else {
		defer func() {
			if rerr := os.RemoveAll(dir); err == nil {
				err = rerr
			}
		}()
	}
	defer func() {
		for _, s := range []*store.DefaultMessageStore{d.store, d.slave} {
			if s != nil {
				err = errors.Join(err, s.Close())
			}
		}
	}()
	for _, step := range []func() error{d.putAndKill, d.proveSlave, d.tear, d.recover, d.prove, d.catchUp, d.goOn, d.promote, d.reopen, d.equal} {
		if err := step(); err != nil {
			return err
		}
		if err := e.ctx.Err(); err != nil {
			return err
		}
	}
	d.say("\nProved: %s, none lost; master and slave are equal, byte for byte.", count(len(d.acks), "acknowledged message", "acknowledged messages"))
	return nil
}

// demo is one run; its steps are called in order.
type demo struct {
	e             *env
	dir, slaveDir string
	acks          []ack
	torn          bool
	store, slave  *store.DefaultMessageStore // nil while another process has it, or nobody
}

// say prints at once: the reader follows.
func (d *demo) say(format string, args ...any) {
	d.e.printf(format+"\n", args...)
	d.e.out.Flush()
}

// putAndKill runs the writer and kills it while it puts.
func (d *demo) putAndKill() error {
	d.say("\n1. Another process opens it as SYNC_MASTER and puts messages: %d producers, %d topics of %d queues.", demoProducers, len(demoTopics), demoQueues)
	d.say("   Each is acknowledged when it is on the disks of both.")
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	child := exec.CommandContext(d.e.ctx, exe)
	child.Args = []string{os.Args[0], "demo-writer", "--pair", d.dir}
	child.Stderr = d.e.stderr
	out, err := child.StdoutPipe()
	if err != nil {
		return err
	}
	if err := child.Start(); err != nil {
		return err
	}
	axe := axe{kill: func() { _ = child.Process.Kill() }}
	lines := bufio.NewReader(out)
	if d.slave, err = d.follow(lines); err != nil {
		axe.fall()
		_ = child.Wait()
		if cerr := d.e.ctx.Err(); cerr != nil {
			return cerr
		}
		return err
	}
	start := time.Now()
	deadline := time.AfterFunc(demoPatience, axe.late)
	var took time.Duration
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break // a line cut short was not an acknowledgement that anybody got
		}
		var a ack
		if err := json.Unmarshal(line, &a); err != nil {
			axe.fall()
			_ = child.Wait()
			return fmt.Errorf("the writing process said %q: %w", line, err)
		}
		d.acks = append(d.acks, a)
		axe.acked()
		if len(d.acks) == demoAcks {
			took = time.Since(start)
			axe.fall() // what it still says was acknowledged, too
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
	if !axe.fallen() && err != nil {
		return fmt.Errorf("the writing process: %w", err)
	}
	if len(d.acks) == 0 {
		return errors.New("the writing process acknowledged nothing")
	}
	d.say("   %s acknowledged in %s. Then, in the middle of it: kill -9.", count(len(d.acks), "put was", "puts were"), took.Round(time.Millisecond))
	return nil
}

// axe kills the writing process, once. When its time is over it does not, before it has acknowledged a put: there would be nothing to prove.
type axe struct {
	kill func()
	mu   struct {
		sync.Mutex
		late, acked, fallen bool
	}
}

func (a *axe) late()  { a.note(true, false, false) }
func (a *axe) acked() { a.note(false, true, false) }
func (a *axe) fall()  { a.note(false, false, true) }

func (a *axe) note(late, acked, now bool) {
	a.mu.Lock()
	a.mu.late, a.mu.acked = a.mu.late || late, a.mu.acked || acked
	falls := !a.mu.fallen && (now || a.mu.late && a.mu.acked)
	a.mu.fallen = a.mu.fallen || falls
	a.mu.Unlock()
	if falls {
		a.kill()
	}
}

func (a *axe) fallen() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mu.fallen
}

// follow opens the slave of the master that says its address first.
func (d *demo) follow(lines *bufio.Reader) (*store.DefaultMessageStore, error) {
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("the writing process did not say where it listens: %w", err)
	}
	var hello demoHello
	if err := json.Unmarshal(line, &hello); err != nil {
		return nil, fmt.Errorf("the writing process said %q: %w", line, err)
	}
	return store.Open(d.slaveDir, demoOptions(store.Slave, hello.Listen))
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
	d.say("   Half a record of %d bytes is written at the master's log end, %d, as a power failure leaves it.", len(half), end)
	return nil
}

// recover opens the store again.
func (d *demo) recover() error {
	d.say("\n3. The master is opened again, and recovers.")
	s, err := store.Open(d.dir, demoOptions(store.SyncMaster, ""))
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

// catchUp lets the slave follow the recovered master.
func (d *demo) catchUp() error {
	d.say("\n5. The slave follows the master again, and catches up with what it had not got.")
	lacks := d.store.MaxPhyOffset() - d.slave.MaxPhyOffset()
	if err := d.slave.UpdateHaMasterAddress(d.store.Stats().HA.ListenAddress); err != nil {
		return err
	}
	if err := d.level(d.store, d.slave); err != nil {
		return err
	}
	d.say("   %s came; both logs end at %d.", count(lacks, "byte", "bytes"), d.slave.MaxPhyOffset())
	return nil
}

// goOn puts and gets on in the recovered store.
func (d *demo) goOn() error {
	d.say("\n6. Life goes on: more puts, acknowledged by both, and gets by tag, by time and by key.")
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
	if err := d.level(d.store, d.slave); err != nil {
		return err
	}
	for _, s := range []*store.DefaultMessageStore{d.slave, d.store} {
		if err := d.query(s, fmt.Sprintf("order-%d", more-1), d.acks[len(d.acks)-1].PhyOffset); err != nil {
			return err
		}
	}
	d.say("   The key order-%d finds its message, on master and slave, at %d.", more-1, d.acks[len(d.acks)-1].PhyOffset)
	return nil
}

// promote takes the master away and makes the slave the master, which puts on.
func (d *demo) promote() error {
	d.say("\n7. The master is closed properly. The slave is promoted, and takes puts.")
	if err := d.store.Close(); err != nil {
		return err
	}
	d.store = nil
	if err := d.slave.SetRole(d.e.ctx, store.AsyncMaster); err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(5, 6))
	const more = 100
	for range more {
		m := demoMessage(rng, "payments", 0)
		want := d.slave.MaxOffset("payments", 0)
		sum := crc32.ChecksumIEEE(m.Body)
		r, err := d.slave.Put(d.e.ctx, m)
		if err != nil {
			return err
		}
		if r.Status != store.PutOK || r.QueueOffset < want {
			return nothing("put to the promoted slave: %v, queue offset %d, although the queue ends at %d", r.Status, r.QueueOffset, want)
		}
		d.acks = append(d.acks, ack{"payments", 0, r.QueueOffset, r.PhyOffset, sum})
	}
	d.say("   %d more; queue offsets go on where the old master's ended.", more)
	return nil
}

// reopen opens the old master once more, as the slave of the new one, and proves everything again.
func (d *demo) reopen() error {
	d.say("\n8. The old master is opened once more, as the slave of the new one.")
	s, err := store.Open(d.dir, demoOptions(store.Slave, d.slave.Stats().HA.ListenAddress))
	if err != nil {
		return err
	}
	d.store = s
	r := s.Stats().Recovery
	if !r.Clean || r.DroppedBytes > 0 {
		return nothing("the store was closed properly, but opening it recovered: clean %v, %d bytes cut", r.Clean, r.DroppedBytes)
	}
	if err := d.level(d.slave, d.store); err != nil {
		return err
	}
	if err := d.check(s); err != nil {
		return err
	}
	d.say("   A clean exit: nothing to recover. It has caught up, all %d are there.", len(d.acks))
	return nil
}
