package interop

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// ours is the version of a Peer that is this engine.
const ours = "ours"

// Peer is an engine in a process of its own: the original or ours. One goroutine may use it. A call that takes longer than its patience kills the process, and is an error with what the process said last.
type Peer struct {
	t        testing.TB
	version  string
	patience time.Duration

	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	said   *lastWords
	dead   sync.Once
	filter store.Filter // of the get under way
}

// lastWords keeps the end of what a process says on standard error.
type lastWords struct {
	sync.Mutex
	b []byte
}

func (w *lastWords) Write(p []byte) (int, error) {
	w.Lock()
	defer w.Unlock()
	w.b = append(w.b, p...)
	if len(w.b) > 64<<10 {
		w.b = append(w.b[:0], w.b[len(w.b)-32<<10:]...)
	}
	return len(p), nil
}

func (w *lastWords) String() string {
	w.Lock()
	defer w.Unlock()
	lines := strings.Split(string(w.b), "\n")
	lines = slices.DeleteFunc(lines, func(s string) bool { return strings.Contains(s, "|-INFO in ") }) // logback on itself
	return string(tail([]byte(strings.Join(lines, "\n")), 6000))
}

// javaFlags open what the original reaches into: the cleaner of direct buffers.
var javaFlags = []string{
	"--add-opens", "java.base/java.nio=ALL-UNNAMED", "--add-opens", "java.base/sun.nio.ch=ALL-UNNAMED", "--add-opens", "java.base/jdk.internal.ref=ALL-UNNAMED",
	"--add-opens", "java.base/java.lang=ALL-UNNAMED", "--add-opens", "java.base/jdk.internal.misc=ALL-UNNAMED",
	"--add-exports", "java.base/jdk.internal.ref=ALL-UNNAMED", "--add-exports", "java.base/sun.nio.ch=ALL-UNNAMED",
}

// quickJava starts soon and takes little; a measurement wants the defaults.
var quickJava = []string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m"}

// startPeer starts the engine: v4, v5 or ours. It ends with the test at the latest.
func startPeer(t testing.TB, version string, flags ...string) *Peer {
	t.Helper()
	p := &Peer{t: t, version: version, patience: 2 * time.Minute, said: &lastWords{}}
	if version == ours {
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		p.cmd = exec.Command(exe)
		p.cmd.Env = append(os.Environ(), childEnv+"=1")
	} else {
		cp := classpath(t, version)
		if flags == nil {
			flags = quickJava
		}
		args := append(append([]string{}, javaFlags...), flags...)
		args = append(args, "-Duser.home="+t.TempDir(), "-cp", cp, "mqstore.interop.Driver")
		p.cmd = exec.Command("java", args...)
	}
	p.cmd.Stderr = p.said
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.in, p.out = in, bufio.NewReaderSize(out, 1<<16)
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s said last:\n%s", version, p.said)
		}
	})
	return p
}

// kill is kill -9, and waits until the process is gone.
func (p *Peer) kill() {
	p.dead.Do(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait() // the pipes are closed with it
	})
}

// remoteError is what the engine itself answered.
type remoteError struct{ text string }

func (e *remoteError) Error() string { return e.text }

// try sends a question and reads its answer into a.
func (p *Peer) try(op string, q, a any) error {
	if q == nil {
		q = struct{}{}
	}
	b, err := json.Marshal(q)
	if err != nil {
		return err
	}
	line := fmt.Sprintf(`{"op":%q`, op)
	if len(b) > 2 {
		line += "," + string(b[1:len(b)-1])
	}
	late := time.AfterFunc(p.patience, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	broken := func(err error) error {
		return fmt.Errorf("%s %s: %w (patience %v)", p.version, op, err, p.patience)
	}
	if _, err := io.WriteString(p.in, line+"}\n"); err != nil {
		return broken(err)
	}
	for {
		answer, err := p.out.ReadBytes('\n')
		if err != nil {
			return broken(err)
		}
		var is struct {
			Error, Ask string
			TagsCode   int64
			OK         bool
			Record     []byte
		}
		if err := json.Unmarshal(answer, &is); err != nil {
			return broken(fmt.Errorf("%w in %s", err, tail(answer, 200)))
		}
		switch {
		case is.Error != "":
			return &remoteError{fmt.Sprintf("%s %s: %s", p.version, op, is.Error)}
		case is.Ask != "":
			match := false
			if is.Ask == "unit" {
				match = p.filter.MatchUnit(is.TagsCode, is.OK, nil)
			} else {
				match = p.filter.MatchRecord(is.Record)
			}
			if _, err := fmt.Fprintf(p.in, "{\"match\":%t}\n", match); err != nil {
				return broken(err)
			}
		case a == nil:
			return nil
		default:
			return json.Unmarshal(answer, a)
		}
	}
}

// call is try where nothing may go wrong.
func (p *Peer) call(op string, q, a any) {
	p.t.Helper()
	if err := p.try(op, q, a); err != nil {
		p.t.Fatalf("%v\n%s said last:\n%s", err, p.version, p.said)
	}
}

// settings are broker properties by RocketMQ's names; both engines take them.
type settings map[string]any

// patient lets no put time out because a machine stood still for seconds, or a disk was slow: the answers are compared.
var patient = settings{"syncFlushTimeout": 60_000, "slaveTimeout": 20_000, "osPageCacheBusyTimeOutMills": 60_000}

// with is s and more.
func (s settings) with(more settings) settings {
	all := settings{}
	for k, v := range s {
		all[k] = v
	}
	for k, v := range more {
		all[k] = v
	}
	return all
}

// opened is how long opening took.
type opened struct{ LoadMicros, StartMicros int64 }

// open opens a store with what the original calls MessageStoreConfig. A slave has brokerId 1: with 0 the original would skip records that are received in two halves.
func (p *Peer) open(dir string, s settings) opened {
	p.t.Helper()
	var o opened
	p.call("open", p.openArgs(dir, s), &o)
	return o
}

func (p *Peer) openArgs(dir string, s settings) any {
	broker := settings{}
	if s["brokerRole"] == "SLAVE" {
		broker["brokerId"] = 1
	}
	return map[string]any{"dir": dir, "config": s, "broker": broker}
}

func (p *Peer) close() {
	p.t.Helper()
	p.call("close", nil, nil)
	p.kill()
}

// end closes or kills.
func (p *Peer) end(kill bool) {
	p.t.Helper()
	if kill {
		p.kill()
		return
	}
	p.close()
}

type wireHost struct {
	Addr []byte `json:"addr"`
	Port uint32 `json:"port"`
}

type wireMessage struct {
	Topic                     string   `json:"topic"`
	QueueID                   int32    `json:"queueId"`
	Flag                      int32    `json:"flag"`
	SysFlag                   int32    `json:"sysFlag"`
	BornTimestamp             int64    `json:"bornTimestamp"`
	BornHost                  wireHost `json:"bornHost"`
	StoreHost                 wireHost `json:"storeHost"`
	ReconsumeTimes            int32    `json:"reconsumeTimes"`
	PreparedTransactionOffset int64    `json:"preparedTransactionOffset"`
	Body                      []byte   `json:"body"`
	Properties                []byte   `json:"properties"`
}

func toWireHost(h record.Host) wireHost {
	if !h.Addr.IsValid() {
		return wireHost{make([]byte, 4), h.Port}
	}
	return wireHost{h.Addr.AsSlice(), h.Port}
}

func toWire(m *record.Message, body []byte) wireMessage {
	if body == nil {
		body = []byte{}
	}
	p := []byte(m.Properties)
	if p == nil {
		p = []byte{}
	}
	return wireMessage{m.Topic, m.QueueID, m.Flag, int32(m.SysFlag), m.BornTimestamp, toWireHost(m.BornHost), toWireHost(m.StoreHost), m.ReconsumeTimes, m.PreparedTransactionOffset, body, p}
}

// putAnswer is a put's answer. Append is "" if nothing was appended.
type putAnswer struct {
	Status         string `json:"status"`
	Append         string `json:"append"`
	PhyOffset      int64  `json:"phyOffset"`
	Size           int    `json:"size"`
	QueueOffset    int64  `json:"queueOffset"`
	StoreTimestamp int64  `json:"storeTimestamp"`
	Messages       int    `json:"messages"`
	MsgID          string `json:"msgId"`
}

func (p *Peer) put(m *record.Message) putAnswer {
	p.t.Helper()
	var a putAnswer
	p.call("put", toWire(m, m.Body), &a)
	return a
}

func (p *Peer) putBatch(m *record.Message, items []record.BatchItem) putAnswer {
	p.t.Helper()
	var a putAnswer
	p.call("putBatch", toWire(m, batchBody(items)), &a)
	return a
}

func batchBody(items []record.BatchItem) (body []byte) {
	for _, it := range items {
		body = record.AppendBatchItem(body, it)
	}
	return body
}

type rawRecord struct {
	PhyOffset int64  `json:"phyOffset"`
	Bytes     []byte `json:"bytes"`
}

type getAnswer struct {
	Status       string      `json:"status"`
	Next         int64       `json:"next"`
	Min          int64       `json:"min"`
	Max          int64       `json:"max"`
	Bytes        int         `json:"bytes"`
	SuggestSlave bool        `json:"suggestSlave"`
	Records      []rawRecord `json:"records"`
}

type getArgs struct {
	Topic   string `json:"topic"`
	QueueID int32  `json:"queueId"`
	Offset  int64  `json:"offset"`
	Max     int    `json:"max"`
	Filter  bool   `json:"filter"`
}

func (p *Peer) tryGet(topic string, queueID int32, offset int64, most int, f store.Filter) (a getAnswer, err error) {
	p.filter = f
	err = p.try("get", getArgs{topic, queueID, offset, most, f != nil}, &a)
	return a, err
}

func (p *Peer) get(topic string, queueID int32, offset int64, most int) getAnswer {
	p.t.Helper()
	a, err := p.tryGet(topic, queueID, offset, most, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	return a
}

// at names a queue, and what else a question needs.
type at struct {
	Topic   string `json:"topic"`
	QueueID int32  `json:"queueId"`
	Offset  int64  `json:"offset"`
	Time    int64  `json:"time"`
}

type queueAnswer struct {
	Topic    string `json:"topic"`
	QueueID  int32  `json:"queueId"`
	Min      int64  `json:"min"`
	Max      int64  `json:"max"`
	Earliest int64  `json:"earliest"` // ms; -1 = none
}

func (p *Peer) queue(topic string, queueID int32) (a queueAnswer) {
	p.t.Helper()
	p.call("queue", at{Topic: topic, QueueID: queueID}, &a)
	return a
}

// queues are all queues that hold or held something.
func (p *Peer) queues() []queueAnswer {
	p.t.Helper()
	var a struct{ Queues []queueAnswer }
	p.call("queues", nil, &a)
	return a.Queues
}

type logAnswer struct{ Min, Max, Behind, Earliest, Slaves, Acked int64 }

func (p *Peer) log() (a logAnswer) {
	p.t.Helper()
	p.call("log", nil, &a)
	return a
}

func (p *Peer) byTime(topic string, queueID int32, ms int64) int64 {
	p.t.Helper()
	var a struct{ Offset int64 }
	p.call("time", at{Topic: topic, QueueID: queueID, Time: ms}, &a)
	return a.Offset
}

func (p *Peer) storeTime(topic string, queueID int32, offset int64) int64 {
	p.t.Helper()
	var a struct{ Time int64 }
	p.call("storeTime", at{Topic: topic, QueueID: queueID, Offset: offset}, &a)
	return a.Time
}

// lookup is the record's bytes; nil if there is none.
func (p *Peer) lookup(phyOffset int64) []byte {
	p.t.Helper()
	var a rawRecord
	p.call("lookup", at{Offset: phyOffset}, &a)
	return a.Bytes
}

type queryArgs struct {
	Topic string `json:"topic"`
	Key   string `json:"key"`
	Max   int    `json:"max"`
	Begin int64  `json:"begin"`
	End   int64  `json:"end"`
}

func (p *Peer) query(topic, key string, most int) [][]byte {
	p.t.Helper()
	var a struct{ Records [][]byte }
	p.call("query", queryArgs{topic, key, most, 0, 1 << 60}, &a)
	return a.Records
}

// dispatched waits until all that is in the log is in the queues.
func (p *Peer) dispatched() {
	p.t.Helper()
	var a struct{ Behind int64 }
	p.call("dispatched", map[string]any{"ms": 30_000}, &a)
	if a.Behind != 0 {
		p.t.Fatalf("%s: %d bytes of the log did not get into the queues", p.version, a.Behind)
	}
}

// until waits for something that only asking again can tell.
func until(t testing.TB, what string, patience time.Duration, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for !done() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("after %v still not: %s", patience, what)
		}
	}
}
