package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mqstore/mqstore/ha/remoting"
)

// process is a server that runs until the test ends it.
type process struct {
	t    testing.TB
	name string
	cmd  *exec.Cmd
	said *lastWords
	done chan error
}

func startProcess(t testing.TB, name string, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, name: name, cmd: cmd, said: &lastWords{}, done: make(chan error, 1)}
	cmd.Stdout, cmd.Stderr = p.said, p.said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.done <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		p.ended()
		if t.Failed() {
			t.Logf("%s said last:\n%s", name, p.said)
		}
	})
	return p
}

// ended waits until the process is gone.
func (p *process) ended() error {
	err := <-p.done
	p.done <- err
	return err
}

// terminate asks the process to end, and waits for it.
func (p *process) terminate() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	late := time.AfterFunc(time.Minute, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	_ = p.ended()
}

// javaServer starts a main class of RocketMQ with a .properties file.
func javaServer(t testing.TB, peer, class string, conf string) *process {
	t.Helper()
	cp := classpath(t, peer)
	home := t.TempDir()
	for _, name := range []string{"broker", "namesrv"} {
		file := filepath.Join(home, "conf", "logback_"+name+".xml")
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(`<configuration><appender name="out" class="ch.qos.logback.core.ConsoleAppender"><encoder><pattern>%m%n</pattern></encoder></appender><root level="WARN"><appender-ref ref="out"/></root></configuration>`), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	args := append(append([]string{}, javaFlags...), quickJava...)
	args = append(args, "-Duser.home="+home, "-cp", cp, class, "-c", writeFile(t, conf))
	cmd := exec.Command("java", args...)
	cmd.Env = append(os.Environ(), "ROCKETMQ_HOME="+home)
	return startProcess(t, class, cmd)
}

func writeFile(t testing.TB, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "node.properties")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// caller asks a broker or a name server.
type caller struct {
	t testing.TB
	c *remoting.Client
}

func newCaller(t testing.TB, port int) caller {
	c := remoting.NewClient(fmt.Sprintf("127.0.0.1:%d", port), remoting.ClientOptions{Timeout: 30 * time.Second})
	t.Cleanup(func() { c.Close() })
	return caller{t, c}
}

func (c caller) try(code int32, ext map[string]string, body []byte) (*remoting.Command, error) {
	q := remoting.NewRequest(code)
	q.Version, q.ExtFields, q.Body = remoting.Version409, ext, body
	return c.c.Call(context.Background(), q)
}

func (c caller) call(code int32, ext map[string]string, body []byte) *remoting.Command {
	c.t.Helper()
	a, err := c.try(code, ext, body)
	if err != nil {
		c.t.Fatalf("request %d: %v", code, err)
	}
	return a
}

// Request codes of RocketMQ.
const (
	sendMessage     = 10
	updateOffset    = 15
	createTopic     = 17
	allDelayOffsets = 45
	clusterInfo     = 106
	createGroup     = 200
)

func (c caller) send(topic string, queueID int, body, properties string) {
	c.t.Helper()
	c.call(sendMessage, map[string]string{
		"producerGroup": "producers", "topic": topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "queueId": fmt.Sprint(queueID), "sysFlag": "0",
		"bornTimestamp": fmt.Sprint(time.Now().UnixMilli()), "flag": "0", "properties": properties, "reconsumeTimes": "0", "unitMode": "false", "batch": "false",
	}, []byte(body))
}

// parsed is text as fastjson wrote it, as Go has it.
func parsed(t testing.TB, what string, text []byte) map[string]any {
	t.Helper()
	var v map[string]any
	if err := remoting.Unmarshal(text, &v); err != nil {
		t.Fatalf("%s: %v in %s", what, err, tail(text, 500))
	}
	return v
}

// buildCommand builds the tool once.
func buildCommand(t testing.TB) string {
	t.Helper()
	exe := filepath.Join(t.TempDir(), "mqstore")
	if out, err := exec.Command("go", "build", "-o", exe, "../../store/cmd/mqstore").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return exe
}

// A served store of ours is a slave of a real broker: a real name server knows it, and tells it its master's HA address and its master; log, queues and the four metadata files become the master's.
func TestAServedSlaveOfARealBroker(t *testing.T) {
	t.Parallel()
	for _, peer := range []string{broker4, broker5} {
		t.Run(peer, func(t *testing.T) {
			t.Parallel()
			classpath(t, peer)
			began := time.Now()
			exe := buildCommand(t)
			names, port, slavePort := freePort(t), freePorts(t, -2, -1, 0, 1), freePorts(t, -2, -1, 0, 1)
			masterDir, slaveDir := t.TempDir(), t.TempDir()
			common := fmt.Sprintf("brokerClusterName=c\nbrokerName=broker-a\nnamesrvAddr=127.0.0.1:%d\nbrokerIP1=127.0.0.1\nbrokerIP2=127.0.0.1\nmappedFileSizeCommitLog=131072\nmappedFileSizeConsumeQueue=80000\nmaxHashSlotNum=500\nmaxIndexNum=2000\n", names)

			javaServer(t, peer, "org.apache.rocketmq.namesrv.NamesrvStartup", fmt.Sprintf("listenPort=%d\n", names))
			ns := newCaller(t, names)
			until(t, "the name server answers", 2*time.Minute, func() bool { _, err := ns.try(clusterInfo, nil, nil); return err == nil })
			master := javaServer(t, peer, "org.apache.rocketmq.broker.BrokerStartup", common+fmt.Sprintf(
				"brokerId=0\nbrokerRole=ASYNC_MASTER\nlistenPort=%d\nhaListenPort=%d\nstorePathRootDir=%s\nstorePathCommitLog=%s/commitlog\nautoCreateTopicEnable=false\nflushConsumerOffsetInterval=500\nflushDelayOffsetInterval=500\ntimerWheelEnable=false\n", port, port+1, masterDir, masterDir))
			known := func(id string) string {
				a, err := ns.try(clusterInfo, nil, nil)
				if err != nil {
					return ""
				}
				var v struct {
					BrokerAddrTable map[string]struct{ BrokerAddrs map[string]string }
				}
				if err := remoting.Unmarshal(a.Body, &v); err != nil {
					t.Fatal(err)
				}
				return v.BrokerAddrTable["broker-a"].BrokerAddrs[id]
			}
			until(t, "the broker is known to its name server", 2*time.Minute, func() bool { return known("0") == fmt.Sprintf("127.0.0.1:%d", port) })

			b := newCaller(t, port)
			for i, topic := range []string{"Orders", "Payments"} {
				b.call(createTopic, map[string]string{"topic": topic, "defaultTopic": "TBW102", "readQueueNums": fmt.Sprint(2 + i), "writeQueueNums": fmt.Sprint(2 + i), "perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}, nil)
			}
			group := func(name string) {
				body, err := json.Marshal(map[string]any{"groupName": name, "consumeEnable": true, "consumeFromMinEnable": true, "consumeBroadcastEnable": true, "retryQueueNums": 1, "retryMaxTimes": 5, "brokerId": 0, "whichBrokerWhenConsumeSlowly": 1, "notifyConsumerIdsChangedEnable": true})
				if err != nil {
					t.Fatal(err)
				}
				b.call(createGroup, nil, body)
			}
			group("readers")
			sent := 0
			send := func(n int) {
				for range n {
					sent++
					b.send([]string{"Orders", "Payments"}[sent%2], sent%2, fmt.Sprintf("body %d %s", sent, strings.Repeat("x", sent%500)), fmt.Sprintf("KEYS\x01k%d\x02UNIQ_KEY\x01%032d\x02TAGS\x01TagA", sent, sent))
				}
			}
			commit := func(offset int) {
				b.call(updateOffset, map[string]string{"consumerGroup": "readers", "topic": "Orders", "queueId": "0", "commitOffset": fmt.Sprint(offset)}, nil)
			}
			send(50)
			commit(5)

			slave := startProcess(t, "mqstore serve", exec.Command(exe, "serve", "--admin", fmt.Sprintf("127.0.0.1:%d", slavePort-1), "--config", writeFile(t, common+fmt.Sprintf(
				"brokerId=1\nbrokerRole=SLAVE\nlistenPort=%d\nstorePathRootDir=%s\nstorePathCommitLog=%s/commitlog\n", slavePort, slaveDir, slaveDir))))
			end := func() (end struct{ Min, Max, Dispatched int64 }) {
				r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/stats", slavePort-1))
				if err != nil {
					return end
				}
				defer r.Body.Close()
				text, err := io.ReadAll(r.Body)
				if err != nil {
					return end
				}
				var st struct {
					MinPhyOffset, MaxPhyOffset, DispatchedPhyOffset int64
				}
				if err := json.Unmarshal(text, &st); err == nil {
					end.Min, end.Max, end.Dispatched = st.MinPhyOffset, st.MaxPhyOffset, st.DispatchedPhyOffset
				}
				return end
			}
			until(t, "the slave is known to the name server", 2*time.Minute, func() bool { return known("1") == fmt.Sprintf("127.0.0.1:%d", slavePort) })

			send(200)
			b.send("Orders", 1, "later", "DELAY\x011")
			commit(17)
			group("others")
			// A delayed message is delivered as one more record, and moves its level's offset.
			until(t, "the delayed message is delivered", 2*time.Minute, func() bool {
				v := parsed(t, "delay offsets", b.call(allDelayOffsets, nil, nil).Body)
				return fmt.Sprint(v["offsetTable"]) == "map[1:1]"
			})

			// While both run: going down, a broker makes topics of its own that nobody copies any more.
			for _, name := range []string{"topics.json", "consumerOffset.json", "delayOffset.json", "subscriptionGroup.json"} {
				until(t, name+" is the master's", 2*time.Minute, func() bool {
					want, err := os.ReadFile(filepath.Join(masterDir, "config", name))
					if err != nil {
						return false
					}
					text, err := os.ReadFile(filepath.Join(slaveDir, "config", name))
					if err != nil {
						return false
					}
					var m map[string]any
					if remoting.Unmarshal(want, &m) != nil {
						return false // the original writes its files in place: this one is half written
					}
					s := parsed(t, name, text)
					for member := range s {
						if _, kept := m[member]; !kept && peer == broker5 {
							delete(s, member) // 5.x sends more than it keeps in its own file, and ours keeps what was sent
						}
					}
					return cmp.Equal(m, s)
				})
				t.Logf("%v: %s is the master's", time.Since(began).Round(time.Millisecond), name)
			}

			master.terminate()
			logEnd := endOfLog(t, masterDir, 131072)
			until(t, "the slave has the master's log", 2*time.Minute, func() bool { e := end(); return e.Max == logEnd && e.Dispatched == logEnd })
			slave.terminate()

			for _, part := range []string{"commitlog", "consumequeue"} {
				a, s := filesOf(t, filepath.Join(masterDir, part)), filesOf(t, filepath.Join(slaveDir, part))
				for name, want := range a {
					if !bytes.Equal(want, s[name]) {
						t.Errorf("%s/%s: %d bytes of the master and %d of the slave differ", part, name, len(want), len(s[name]))
					}
				}
				if len(a) == 0 {
					t.Errorf("the master has no %s", part)
				}
			}
		})
	}
}

// endOfLog asks the tool's own eyes, without opening the store: where the log of a closed store ends.
func endOfLog(t testing.TB, dir string, segment int64) int64 {
	t.Helper()
	p := startPeer(t, ours)
	copied := t.TempDir()
	if err := os.CopyFS(filepath.Join(copied, "commitlog"), os.DirFS(filepath.Join(dir, "commitlog"))); err != nil {
		t.Fatal(err)
	}
	p.open(copied, settings{"mappedFileSizeCommitLog": segment})
	defer p.close()
	return p.log().Max
}
