//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/ha/metasync"
	"github.com/mqstore/mqstore/ha/remoting"
	"github.com/mqstore/mqstore/store"
)

// served is a process that runs mqstore serve.
type served struct {
	t     *testing.T
	cmd   *exec.Cmd
	admin string // URL
	said  string // on stdout, up to "ready"
	rest  *bufio.Reader
	errs  lockedBuffer
}

type lockedBuffer struct {
	sync.Mutex
	b bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.Lock()
	defer l.Unlock()
	return l.b.String()
}

func serveCommand(t *testing.T, config string, more ...string) *exec.Cmd {
	t.Helper()
	exe, err := exec.LookPath("mqstore")
	if err != nil {
		t.Fatal(err)
	}
	return exec.CommandContext(t.Context(), exe, append([]string{"serve", "--config", config}, more...)...)
}

// serve starts a node and returns when it is ready.
func serve(t *testing.T, config string) *served {
	t.Helper()
	s := &served{t: t, cmd: serveCommand(t, config, "--admin", "127.0.0.1:0")}
	s.cmd.Stderr = &s.errs
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // of one that has ended: nothing
		_ = s.cmd.Wait()
	})
	s.rest = bufio.NewReader(out)
	for !strings.HasSuffix(s.said, "ready\n") {
		line, err := s.rest.ReadString('\n')
		if err != nil {
			t.Fatalf("%s ended before it was ready: %s%s", config, s.said, s.errs.String())
		}
		s.said += line
		if _, url, ok := strings.Cut(line, "admin     "); ok {
			s.admin, _, _ = strings.Cut(url, "/healthz")
		}
	}
	return s
}

func (s *served) get(path string) (int, []byte) {
	s.t.Helper()
	r, err := http.Get(s.admin + path)
	if err != nil {
		s.t.Fatalf("%v\n%s", err, s.errs.String())
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return r.StatusCode, b
}

func (s *served) stats() (j statsJSON) {
	s.t.Helper()
	_, b := s.get("/stats")
	if err := json.Unmarshal(b, &j); err != nil {
		s.t.Fatalf("%v: %s", err, b)
	}
	return j
}

// until asks until the answer is as wanted.
func (s *served) until(what string, ok func(statsJSON) bool) {
	s.t.Helper()
	look, late := time.NewTicker(5*time.Millisecond), time.After(5*time.Minute)
	defer look.Stop()
	for {
		j := s.stats()
		if ok(j) {
			return
		}
		select {
		case <-look.C:
		case <-late:
			s.t.Fatalf("no %s: %+v\n%s", what, j, s.errs.String())
		}
	}
}

// stop asks the process to end, which it must do well.
func (s *served) stop(sig os.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("after %v: %v\n%s", sig, err, s.errs.String())
	}
}

func (s *served) kill() {
	s.t.Helper()
	if err := s.cmd.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := s.cmd.Wait(); !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
}

var givenPorts struct {
	sync.Mutex
	taken map[int]bool
}

// freePort has two free neighbours: two below it, and one above. It lies below those that systems give to connections, so that none of these takes it before it is used, and is not given twice.
func freePort(t *testing.T) int {
	t.Helper()
	givenPorts.Lock()
	defer givenPorts.Unlock()
	if givenPorts.taken == nil {
		givenPorts.taken = map[int]bool{}
	}
	for range 1000 {
		port := 8 * (10_000/8 + rand.IntN(20_000/8)) // the neighbours of two are no neighbours
		if givenPorts.taken[port] {
			continue
		}
		givenPorts.taken[port] = true
		main, vip, err := metasync.ListenPair(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		third, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port+1)))
		main.Close()
		vip.Close()
		if err == nil {
			third.Close()
			return port
		}
	}
	t.Fatal("no free ports")
	return 0
}

// writeConfig writes a file as an operator of RocketMQ has it.
func writeConfig(t *testing.T, dir, role string, brokerID, port int, more ...string) (path string) {
	t.Helper()
	text := fmt.Sprintf(`# 2m-2s
brokerClusterName=DefaultCluster
brokerName=broker-a
brokerId=%d
deleteWhen=04
fileReservedTime=48
cleanFileForciblyEnable=false
brokerRole=%s
flushDiskType=ASYNC_FLUSH
listenPort=%d
storePathRootDir=%s
mappedFileSizeCommitLog=65536
mappedFileSizeConsumeQueue=2000
%s
`, brokerID, role, port, dir, strings.Join(more, "\n"))
	path = dir + ".properties"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func putSome(t *testing.T, s *store.DefaultMessageStore, n int) {
	t.Helper()
	host, err := record.ParseHost("127.0.0.1:10911")
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		m := &record.Message{Topic: "T" + strconv.Itoa(i%3), QueueID: int32(i % 2), BornHost: host, StoreHost: host, Body: bytes.Repeat([]byte{byte(i)}, 100+i%500)}
		if _, err := s.Put(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
}

// putInto opens the store, puts n messages, and closes it.
func putInto(t *testing.T, dir string, n int) (end int64) {
	t.Helper()
	s, err := store.Open(dir, store.Options{SegmentSize: 64 << 10, QueueFileSize: 2000})
	if err != nil {
		t.Fatal(err)
	}
	putSome(t, s, n)
	end = s.MaxPhyOffset()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return end
}

// sameStores compares the logs up to end and the queues' files.
func sameStores(t *testing.T, a, b string, end int64) {
	t.Helper()
	d := &demo{e: &env{ctx: t.Context()}, dir: a, slaveDir: b}
	if n, total, err := d.sameFiles("commitlog", end); err != nil || total != end {
		t.Errorf("%d log files, %d bytes compared of %d: %v", n, total, end, err)
	}
	if n, _, err := d.sameFiles("consumequeue", -1); err != nil || n == 0 {
		t.Errorf("%d queue files: %v", n, err)
	}
}

// Two processes from two files: the slave copies log, queues and metadata, is killed and comes again, and both end well.
func TestTwoServedFilesAreAPair(t *testing.T) {
	root := t.TempDir()
	a, b := filepath.Join(root, "a"), filepath.Join(root, "b")
	half, end := putInto(t, a, 1000), int64(0)
	// A classic slave without a log is sent only the master's last segment, so this one begins with a copy, as an operator would make it.
	if err := os.CopyFS(b, os.DirFS(a)); err != nil {
		t.Fatal(err)
	}
	if end = putInto(t, a, 1000); end < half+(128<<10) {
		t.Fatalf("the master goes on from %d to %d only", half, end)
	}
	topics := metasync.TopicConfigTable{DataVersion: metasync.DataVersion{Counter: 7}, Topics: map[string]metasync.TopicConfig{"T0": metasync.NewTopicConfig("T0")}}
	if _, err := metasync.NewDir(a, metasync.DirOptions{}).SaveTopics(topics); err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	master := serve(t, writeConfig(t, a, "SYNC_MASTER", 0, port, "haHousekeepingIntervall=20000"))
	slaveConfig := writeConfig(t, b, "SLAVE", 1, freePort(t), fmt.Sprintf("haMasterAddress=127.0.0.1:%d", port+1))
	slave := serve(t, slaveConfig)
	caughtUp := func(j statsJSON) bool {
		return j.Healthy && j.MaxPhyOffset == end && len(j.HA.Slaves) == 1 && j.HA.Slaves[0].Reported && j.HA.Slaves[0].Lag == 0 && j.HA.Slaves[0].Ack == end
	}
	master.until("slave with lag 0", caughtUp)
	slave.until("copy of the metadata", func(j statsJSON) bool {
		return j.Metadata["topics.json"].Synced > 0 && j.Metadata["subscriptionGroup.json"].Synced > 0
	})
	if got, _, err := metasync.NewDir(b, metasync.DirOptions{}).LoadTopics(); err != nil || got.DataVersion.Counter != 7 || len(got.Topics) != 1 {
		t.Errorf("topics of the slave: %+v, %v", got, err)
	}
	slave.kill()
	master.until("goodbye of the slave", func(j statsJSON) bool { return len(j.HA.Slaves) == 0 })
	slave = serve(t, slaveConfig)
	master.until("slave with lag 0, again", caughtUp)
	for _, n := range []*served{master, slave} {
		if code, body := n.get("/healthz"); code != http.StatusOK || string(body) != "ok\n" {
			t.Errorf("healthz: %d %q", code, body)
		}
	}
	slave.until("slave that follows and has it all in its queues", func(j statsJSON) bool {
		return j.Role == "SLAVE" && j.HA.Following != nil && j.HA.Following.State == "following" && j.MaxPhyOffset == end && j.DispatchBehindBytes == 0
	})
	if !strings.Contains(master.errs.String(), "line 14: haHousekeepingIntervall=20000: unknown key") {
		t.Errorf("no word of the unknown key: %s", master.errs.String())
	}
	slave.stop(syscall.SIGTERM)
	master.stop(os.Interrupt)
	sameStores(t, a, b, end)
	for _, dir := range []string{a, b} {
		if _, err := os.Stat(filepath.Join(dir, "abort")); err == nil {
			t.Errorf("%s was not closed cleanly", dir)
		}
	}
}

// A slave is killed while its master, which goes on, puts; it comes again and has it all.
func TestServedSlaveIsKilledAndCatchesUp(t *testing.T) {
	root := t.TempDir()
	a, b := filepath.Join(root, "a"), filepath.Join(root, "b")
	master, err := store.Open(a, store.Options{SegmentSize: 64 << 10, QueueFileSize: 2000, Role: store.AsyncMaster, HA: store.HAOptions{ListenAddress: "127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	config := writeConfig(t, b, "SLAVE", 1, freePort(t), "haMasterAddress="+master.Stats().HA.ListenAddress)
	slave := serve(t, config)
	// A classic slave without a log is sent only the last segment of what is there when it comes.
	slave.until("slave that the master knows", func(statsJSON) bool {
		slaves := master.Stats().HA.Slaves
		return len(slaves) == 1 && slaves[0].Reported
	})
	putSome(t, master, 300)
	slave.until("beginning", func(j statsJSON) bool { return j.MaxPhyOffset > 0 })
	for range 3 {
		var putting sync.WaitGroup
		putting.Go(func() { putSome(t, master, 1000) })
		slave.kill()
		putting.Wait()
		slave = serve(t, config)
	}
	end := master.MaxPhyOffset()
	slave.until("end", func(j statsJSON) bool { return j.MaxPhyOffset == end && j.DispatchBehindBytes == 0 })
	slave.stop(syscall.SIGTERM)
	if err := master.Close(); err != nil {
		t.Fatal(err)
	}
	sameStores(t, a, b, end)
}

// nameServer is as much of one as brokers need: it tells a slave of the master of its name.
type nameServer struct {
	addr string
	mu   struct {
		sync.Mutex
		known map[string]map[string]string // broker id -> arguments of its registration
		gone  []string
	}
}

func newNameServer(t *testing.T) *nameServer {
	n := &nameServer{}
	n.mu.known = map[string]map[string]string{}
	s := remoting.NewServer(map[int32]remoting.Handler{
		103: func(_ context.Context, _ net.Addr, req *remoting.Command) (*remoting.Command, error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.mu.known[req.ExtFields["brokerId"]] = req.ExtFields
			answer := &remoting.Command{}
			if m := n.mu.known["0"]; m != nil && req.ExtFields["brokerId"] != "0" {
				answer.ExtFields = map[string]string{"haServerAddr": m["haServerAddr"], "masterAddr": m["brokerAddr"]}
			}
			return answer, nil
		},
		104: func(_ context.Context, _ net.Addr, req *remoting.Command) (*remoting.Command, error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.mu.gone = append(n.mu.gone, req.ExtFields["brokerId"])
			return nil, nil
		},
	}, remoting.ServerOptions{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), <-served); err != nil {
			t.Error(err)
		}
	})
	n.addr = l.Addr().String()
	return n
}

// A slave that is told of no master asks the name server, and follows; both say goodbye. A node that does not start says nothing.
func TestServedSlaveLearnsItsMasterFromANameServer(t *testing.T) {
	root := t.TempDir()
	a, b := filepath.Join(root, "a"), filepath.Join(root, "b")
	end := putInto(t, a, 50)
	names, port := newNameServer(t), freePort(t)
	master := serve(t, writeConfig(t, a, "ASYNC_MASTER", 0, port, "namesrvAddr="+names.addr))
	master.until("registration", func(j statsJSON) bool { return j.NameServers[names.addr].Answered > 0 })
	slave := serve(t, writeConfig(t, b, "SLAVE", 1, freePort(t), "namesrvAddr="+names.addr))
	slave.until("master's log", func(j statsJSON) bool { return j.MaxPhyOffset == end && j.DispatchBehindBytes == 0 })
	slave.until("copy of the metadata", func(j statsJSON) bool { return j.Metadata["topics.json"].Synced > 0 })
	if out, err := serveCommand(t, writeConfig(t, a, "ASYNC_MASTER", 0, freePort(t), "namesrvAddr="+names.addr)).CombinedOutput(); err == nil || !strings.Contains(string(out), "locked") {
		t.Errorf("two nodes with one store: %v, %s", err, out)
	}
	names.mu.Lock()
	m := names.mu.known["0"]
	if len(names.mu.gone) > 0 || m["brokerAddr"] != fmt.Sprintf("127.0.0.1:%d", port) || m["haServerAddr"] != fmt.Sprintf("127.0.0.1:%d", port+1) || m["brokerName"] != "broker-a" || m["clusterName"] != "DefaultCluster" {
		t.Errorf("registered: %v, gone: %v", m, names.mu.gone)
	}
	names.mu.Unlock()
	slave.stop(syscall.SIGTERM)
	master.stop(syscall.SIGTERM)
	if got := strings.Join(names.mu.gone, " "); got != "1 0" {
		t.Errorf("said goodbye: %q, want the slave's and the master's id", got)
	}
	sameStores(t, a, b, end)
}

// What goes wrong at the start is one line that says what to do, and exit code 2.
func TestServeRefusesInWords(t *testing.T) {
	root := t.TempDir()
	port := freePort(t)
	config := writeConfig(t, filepath.Join(root, "a"), "ASYNC_MASTER", 0, port)
	running := serve(t, config)
	other := func(old, new string) string {
		t.Helper()
		text, err := os.ReadFile(config)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), old) {
			t.Fatalf("%q is not in the configuration", old)
		}
		path := filepath.Join(t.TempDir(), "b.properties")
		if err := os.WriteFile(path, []byte(strings.Replace(string(text), old, new, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	listen := fmt.Sprintf("listenPort=%d", port)
	ownHA := func(haPort int) string {
		return writeConfig(t, filepath.Join(root, "b"), "ASYNC_MASTER", 0, freePort(t), fmt.Sprintf("haListenPort=%d", haPort))
	}
	for _, c := range []struct {
		name, config string
		more         []string
		says         []string
	}{
		{"missing", filepath.Join(root, "nowhere.properties"), nil, []string{"nowhere.properties: no such file", "--config"}},
		{"port in use", config, []string{"--admin", "127.0.0.1:0"}, []string{"address already in use", "ss -ltnp", "change listenPort"}},
		{"HA port in use", ownHA(port + 1), nil, []string{"listen for slaves", "address already in use", "change haListenPort"}},
		{"admin port in use", config, []string{"--admin", strings.TrimPrefix(running.admin, "http://")}, []string{"health and stats", "address already in use", "--admin"}},
		{"locked", other(listen, fmt.Sprintf("listenPort=%d", freePort(t))), nil, []string{"locked", fmt.Sprintf("process %d", running.cmd.Process.Pid)}},
		{"role", other("ASYNC_MASTER", "MASTER"), nil, []string{"b.properties", "line 8", "brokerRole=MASTER", "ASYNC_MASTER, SYNC_MASTER or SLAVE"}},
		{"slave with the master's id", other("ASYNC_MASTER", "SLAVE"), nil, []string{"b.properties", "set brokerId=1"}},
		{"foreign address", other(listen, listen+"\nbrokerIP1=203.0.113.1"), nil, []string{"203.0.113.1", "no address of this machine", "--bind"}},
		{"name server elsewhere", other(listen, listen+"\nnamesrvAddr=203.0.113.1:9876"), nil, []string{"namesrvAddr", "set brokerIP1"}},
		{"admin without a port", config, []string{"--admin", "here"}, []string{"--admin here: must be host:port"}},
	} {
		cmd := serveCommand(t, c.config, append(c.more, "--admin", "127.0.0.1:0")[:max(2, len(c.more))]...)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		err := cmd.Run()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != exitFailed {
			t.Errorf("%s: %v, want exit code 2", c.name, err)
		}
		lines := strings.Split(strings.TrimSpace(errs.String()), "\n")
		last := lines[len(lines)-1]
		for _, w := range c.says {
			if !strings.HasPrefix(last, "mqstore serve: ") || !strings.Contains(last, w) {
				t.Errorf("%s: %q does not say %q", c.name, errs.String(), w)
			}
		}
	}
	running.stop(syscall.SIGTERM)
}

// A listener for the world is said loudly.
func TestServeWarnsOfTheWorld(t *testing.T) {
	config := writeConfig(t, filepath.Join(t.TempDir(), "a"), "ASYNC_MASTER", 0, freePort(t))
	cmd := serveCommand(t, config, "--bind", "0.0.0.0", "--admin", "127.0.0.1:0")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "ready"; {
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, errs.String())
	}
	if n := strings.Count(errs.String(), "WARNING: whoever reaches"); n != 2 {
		t.Errorf("%d warnings: %s", n, errs.String())
	}
}
