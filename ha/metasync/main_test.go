package metasync

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// network is addresses in memory, for fake time. A peer that is not there refuses; one that is nil swallows packets.
type network struct {
	mu struct {
		sync.Mutex
		peers map[string]*fakePeer
		dials map[string]int
	}
	running sync.WaitGroup
}

func newNetwork(t *testing.T) *network {
	n := new(network)
	n.mu.peers, n.mu.dials = make(map[string]*fakePeer), make(map[string]int)
	t.Cleanup(n.running.Wait)
	return n
}

func (n *network) put(addr string, p *fakePeer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.peers[addr] = p
}

func (n *network) remove(addr string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.mu.peers, addr)
}

func (n *network) dials(addr string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.dials[addr]
}

func (n *network) Dial(ctx context.Context, addr string) (net.Conn, error) {
	n.mu.Lock()
	p, ok := n.mu.peers[addr]
	n.mu.dials[addr]++
	n.mu.Unlock()
	switch {
	case !ok:
		return nil, errors.New("connection refused")
	case p == nil:
		<-ctx.Done()
		return nil, ctx.Err()
	}
	a, b := net.Pipe()
	n.running.Go(func() { defer b.Close(); p.serve(addr, b) })
	return a, nil
}

// fakePeer is a RocketMQ broker or name server as spec/ha-protocol.md 6.16-6.19 describes it, written without this module's codec.
type fakePeer struct {
	// answers by request code; a code without one is answered with code 3. An answer of nil is silence.
	answers map[int]func(req request) *reply

	mu struct {
		sync.Mutex
		requests []request
	}
}

type request struct {
	At     time.Time
	Addr   string // that was dialled
	Code   int
	Ext    map[string]string
	Body   string
	header map[string]any
}

type reply struct {
	code   int
	remark string
	ext    map[string]string
	body   string
	after  time.Duration
}

func (p *fakePeer) requests() []request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.requests
}

// codes are the requests so far, as "port:code".
func (p *fakePeer) codes() (codes []string) {
	for _, r := range p.requests() {
		_, port, _ := net.SplitHostPort(r.Addr)
		codes = append(codes, port+":"+strconv.Itoa(r.Code))
	}
	return codes
}

func (p *fakePeer) serve(addr string, c net.Conn) {
	for {
		var lengths [8]byte
		if _, err := io.ReadFull(c, lengths[:]); err != nil {
			return
		}
		rest := make([]byte, binary.BigEndian.Uint32(lengths[:])-4)
		if _, err := io.ReadFull(c, rest); err != nil {
			return
		}
		n := binary.BigEndian.Uint32(lengths[4:]) // serialization 0: JSON
		r := request{At: time.Now(), Addr: addr, Body: string(rest[n:]), Ext: map[string]string{}}
		if err := json.Unmarshal(rest[:n], &r.header); err != nil {
			panic(err)
		}
		r.Code = int(r.header["code"].(float64))
		if ext, ok := r.header["extFields"].(map[string]any); ok {
			for k, v := range ext {
				r.Ext[k] = v.(string)
			}
		}
		p.mu.Lock()
		p.mu.requests = append(p.mu.requests, r)
		f := p.answers[r.Code]
		p.mu.Unlock()

		a := &reply{code: 3, remark: "not supported"}
		if f != nil {
			a = f(r)
		}
		if a == nil {
			continue
		}
		time.Sleep(a.after)
		h := map[string]any{"code": a.code, "flag": 1, "language": "JAVA", "opaque": r.header["opaque"], "serializeTypeCurrentRPC": "JSON", "version": 409}
		if a.remark != "" {
			h["remark"] = a.remark
		}
		if a.ext != nil {
			h["extFields"] = a.ext
		}
		hb, err := json.Marshal(h)
		if err != nil {
			panic(err)
		}
		b := binary.BigEndian.AppendUint32(nil, uint32(4+len(hb)+len(a.body)))
		b = binary.BigEndian.AppendUint32(b, uint32(len(hb)))
		b = append(append(b, hb...), a.body...)
		if _, err := c.Write(b); err != nil {
			return
		}
	}
}

func body(text string) func(request) *reply {
	return func(request) *reply { return &reply{body: text} }
}

// Bodies as fastjson writes them (spec/ha-protocol.md 6.17).
const (
	topicsBody = `{"dataVersion":{"counter":2,"timestamp":1700000000000},"topicConfigTable":{"TopicTest":{"order":false,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG","topicName":"TopicTest","topicSysFlag":0,"writeQueueNums":4}}}`
	offsetBody = `{"offsetTable":{"TopicTest@groupA":{0:10,1:8}}}`
	delayBody  = "{\n\t\"offsetTable\":{1:5,2:0\n\t}\n}"
	groupsBody = `{"dataVersion":{"counter":7,"timestamp":1700000000001},"subscriptionGroupTable":{"groupA":{"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,"consumeFromMinEnable":true,"groupName":"groupA","notifyConsumerIdsChangedEnable":true,"retryMaxTimes":16,"retryQueueNums":1,"whichBrokerWhenConsumeSlowly":1}}}`
)

func newFakeBroker() *fakePeer {
	return &fakePeer{answers: map[int]func(request) *reply{21: body(topicsBody), 43: body(offsetBody), 45: body(delayBody), 201: body(groupsBody)}}
}

// with is p with other answers.
func (p *fakePeer) with(answers map[int]func(request) *reply) *fakePeer {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.Copy(p.answers, answers)
	return p
}
