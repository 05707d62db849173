package metasync

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	ns1 = "10.0.1.1:9876"
	ns2 = "10.0.1.2:9876"
)

// newNameServer answers as a 4.9.8 name server does (spec/ha-protocol.md 6.19) for a slave whose master is registered.
func newNameServer() *fakePeer {
	p := new(fakePeer)
	p.answers = map[int]func(request) *reply{
		103: func(r request) *reply {
			if r.header["version"].(float64) < 37 {
				return &reply{code: 1, remark: "old body form"}
			}
			if crc := crc32.ChecksumIEEE([]byte(r.Body)) & 0x7FFFFFFF; r.Ext["bodyCrc32"] != "0" && r.Ext["bodyCrc32"] != fmt.Sprint(crc) {
				return &reply{code: 1, remark: "crc32 not match"}
			}
			if r.Ext["brokerId"] == "0" {
				return &reply{}
			}
			return &reply{ext: map[string]string{"haServerAddr": "10.0.0.1:10912", "masterAddr": master}, body: `{"table":{"T":"broker-a:4"}}`}
		},
		104: func(request) *reply { return &reply{} },
		322: func(r request) *reply {
			return &reply{ext: map[string]string{"changed": "false"}, body: `{"counter":1,"timestamp":2}`}
		},
	}
	return p
}

func registerOptions(n *network) RegistrarOptions {
	return RegistrarOptions{
		NameServers: ns1 + "; " + ns2 + ";", BrokerName: "broker-a", BrokerAddr: "10.0.0.2:10911", ClusterName: "DefaultCluster", BrokerID: 1,
		HAServerAddr: "10.0.0.2:10912", Dial: n.Dial,
		Topics: func(context.Context) (TopicConfigTable, error) { return DecodeTopics([]byte(topicsBody)) },
	}
}

func newRegistrar(t *testing.T, o RegistrarOptions) *Registrar {
	t.Helper()
	r, err := NewRegistrar(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, c := range r.servers {
			c.Close()
		}
	})
	return r
}

func TestRegistrationSaysWhatANameServerNeeds(t *testing.T) {
	n, p, q := newNetwork(t), newNameServer(), newNameServer()
	n.put(ns1, p)
	n.put(ns2, q)
	r := newRegistrar(t, registerOptions(n))
	reg, err := r.Register(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if reg.NameServer != ns1 && reg.NameServer != ns2 {
		t.Errorf("answer of %q", reg.NameServer)
	}
	reg.NameServer = ""
	if d := cmp.Diff(Registration{HAServerAddr: "10.0.0.1:10912", MasterAddr: master, OrderTable: map[string]string{"T": "broker-a:4"}}, reg); d != "" {
		t.Error(d)
	}
	want := map[string]string{
		"brokerName": "broker-a", "brokerAddr": "10.0.0.2:10911", "clusterName": "DefaultCluster", "haServerAddr": "10.0.0.2:10912", "brokerId": "1", "compressed": "false",
	}
	wantBody := `{"filterServerList":[],"topicConfigSerializeWrapper":` + topicsBody + `}`
	for _, s := range []*fakePeer{p, q} {
		req := s.requests()[0]
		delete(req.Ext, "bodyCrc32") // the fake has checked it
		if d := cmp.Diff(want, req.Ext); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff(wantBody, req.Body); d != "" {
			t.Error(d)
		}
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	for _, s := range []*fakePeer{p, q} {
		last := s.requests()[1]
		delete(want, "haServerAddr")
		delete(want, "compressed")
		if d := cmp.Diff(want, last.Ext); last.Code != 104 || d != "" {
			t.Errorf("at the end %d: %s", last.Code, d)
		}
	}
	if n.dials(ns1) != 1 {
		t.Errorf("dialled %d times: a name server forgets a broker whose connection closes", n.dials(ns1))
	}
	if st := r.Stats(); st.Registered != 1 || st.Servers[ns1].Answered != 1 || st.Servers[ns2].Failed != 0 {
		t.Errorf("%+v", st)
	}
}

func TestTheCompressedFormIsTheOriginals(t *testing.T) {
	n, p := newNetwork(t), newNameServer()
	n.put(ns1, p)
	o := registerOptions(n)
	o.NameServers, o.Compressed = ns1, true
	topics := `{"dataVersion":{"counter":1,"timestamp":2},"topicConfigTable":{"b":{"topicName":"b"},"a":{"perm":2,"readQueueNums":3,"writeQueueNums":4,"topicFilterType":"MULTI_TAG"}}}`
	o.Topics = func(context.Context) (TopicConfigTable, error) { return DecodeTopics([]byte(topics)) }
	r := newRegistrar(t, o)
	defer r.Close()
	if _, err := r.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	req := p.requests()[0]
	z, err := zlib.NewReader(strings.NewReader(req.Body))
	if err != nil || req.Ext["compressed"] != "true" {
		t.Fatal(err, req.Ext)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	var want []byte
	for _, s := range []any{`{"counter":1,"timestamp":2}`, 2, "a 3 4 2 MULTI_TAG", "b 16 16 6 SINGLE_TAG", "[]"} {
		switch s := s.(type) {
		case int:
			want = binary.BigEndian.AppendUint32(want, uint32(s))
		case string:
			want = append(binary.BigEndian.AppendUint32(want, uint32(len(s))), s...)
		}
	}
	if !bytes.Equal(b, want) {
		t.Errorf("\n got %q\nwant %q", b, want)
	}

	topics = `{"topicConfigTable":{"with space":{}}}`
	if _, err := r.Register(t.Context()); err == nil || !strings.Contains(err.Error(), `"with space"`) {
		t.Error(err)
	}
}

func TestABrokerThatIsNotWritableRegistersItsTopicsSo(t *testing.T) {
	n, p := newNetwork(t), newNameServer()
	n.put(ns1, p)
	o := registerOptions(n)
	o.NameServers = ns1
	perm := int32(PermRead)
	o.Perm = func() int32 { return perm }
	r := newRegistrar(t, o)
	defer r.Close()
	for i, want := range []string{`"perm":4`, `"perm":6`} {
		if _, err := r.Register(t.Context()); err != nil {
			t.Fatal(err)
		}
		if req := p.requests()[i]; !strings.Contains(req.Body, want) {
			t.Errorf("want %s: %s", want, req.Body)
		}
		perm = PermRead | PermWrite
	}
}

func TestAMasterGetsNoAddresses(t *testing.T) {
	n := newNetwork(t)
	n.put(ns1, newNameServer())
	o := registerOptions(n)
	o.NameServers, o.BrokerID, o.Topics = ns1, 0, nil
	r := newRegistrar(t, o)
	defer r.Close()
	reg, err := r.Register(t.Context())
	if d := cmp.Diff(Registration{NameServer: ns1}, reg); err != nil || d != "" {
		t.Error(err, d)
	}
}

func TestTheFirstAnswerIsUsedAndDeadServersDoNotHoldItUp(t *testing.T) {
	for name, c := range map[string]struct {
		p    *fakePeer
		fail bool
		took time.Duration
	}{
		"slow": {newNameServer().with(map[int]func(request) *reply{103: func(request) *reply {
			return &reply{ext: map[string]string{"masterAddr": "10.9.9.9:1"}, after: time.Second}
		}}), false, time.Second},
		"silent":           {newNameServer().with(map[int]func(request) *reply{103: func(request) *reply { return nil }}), true, 6 * time.Second},
		"swallows packets": {nil, true, 6 * time.Second},
		"refuses":          {newNameServer().with(map[int]func(request) *reply{103: func(request) *reply { return &reply{code: 1, remark: "no"} }}), true, 0},
		"bad body":         {newNameServer().with(map[int]func(request) *reply{103: body("[")}), true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				n.put(ns1, c.p)
				n.put(ns2, newNameServer())
				began := time.Now()
				var told, failed int
				o := registerOptions(n)
				o.Registered = func(reg Registration) {
					told++
					if reg.MasterAddr != master || time.Since(began) != 0 {
						t.Errorf("%+v after %v", reg, time.Since(began))
					}
				}
				o.Failed = func(server string, err error) {
					failed++
					if server != ns1 || err == nil {
						t.Errorf("%s: %v", server, err)
					}
				}
				r := newRegistrar(t, o)
				reg, err := r.Register(t.Context())
				if err != nil || reg.MasterAddr != master || told != 1 || (failed == 1) != c.fail || time.Since(began) != c.took {
					t.Errorf("%+v, %v after %v; told %d, failed %d", reg, err, time.Since(began), told, failed)
				}
				began = time.Now()
				r.Close()
				if time.Since(began) > 3*time.Second {
					t.Errorf("Close took %v", time.Since(began))
				}
				synctest.Wait()
			})
		})
	}
}

func TestWithNoNameServerThereIsAnErrorOfEach(t *testing.T) {
	n := newNetwork(t)
	r := newRegistrar(t, registerOptions(n))
	_, err := r.Register(t.Context())
	if err == nil || !strings.Contains(err.Error(), ns1) || !strings.Contains(err.Error(), ns2) || r.Stats().Failed != 1 {
		t.Errorf("%v, %+v", err, r.Stats())
	}
	if err := r.Close(); err == nil || !strings.Contains(err.Error(), "unregister") {
		t.Errorf("Close: %v", err)
	}
}

func TestRunRegistersAtOnceThenAfter10sThenEveryPeriod(t *testing.T) {
	for every, want := range map[time.Duration][]float64{
		0:                {0, 10, 40, 70},
		5 * time.Second:  {0, 10, 20, 30, 40, 50, 60, 70},
		time.Hour:        {0, 10, 70},
		20 * time.Second: {0, 10, 30, 50, 70},
	} {
		synctest.Test(t, func(t *testing.T) {
			n, p := newNetwork(t), newNameServer()
			n.put(ns1, p)
			o := registerOptions(n)
			o.NameServers, o.Every = ns1, every
			r := newRegistrar(t, o)
			ctx, cancel := context.WithTimeout(t.Context(), 71*time.Second)
			defer cancel()
			began := time.Now()
			if err := r.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			r.Close()
			var at []float64
			for _, req := range p.requests() {
				if req.Code == 103 {
					at = append(at, req.At.Sub(began).Seconds())
				}
			}
			if d := cmp.Diff(want, at); d != "" {
				t.Errorf("every %v: %s", every, d)
			}
		})
	}
}

func TestOnlyChangedAsksFirst(t *testing.T) {
	unneeded := func(request) *reply { return &reply{ext: map[string]string{"changed": "false"}} }
	for name, c := range map[string]struct {
		answers []func(request) *reply // of 322, by server
		want    bool
	}{
		"no server needs it": {[]func(request) *reply{unneeded, unneeded}, false},
		"one needs it": {[]func(request) *reply{unneeded, func(request) *reply {
			return &reply{ext: map[string]string{"changed": "true"}}
		}}, true},
		"one fails":         {[]func(request) *reply{func(request) *reply { return &reply{code: 1} }, unneeded}, true},
		"one says nothing":  {[]func(request) *reply{func(request) *reply { return &reply{} }, unneeded}, true},
		"one is not heard":  {[]func(request) *reply{unneeded, func(request) *reply { return nil }}, true},
		"forced regardless": {nil, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork(t)
			servers := []*fakePeer{newNameServer(), newNameServer()}
			for i, a := range c.answers {
				servers[i].answers[322] = a
			}
			n.put(ns1, servers[0])
			n.put(ns2, servers[1])
			o := registerOptions(n)
			o.OnlyChanged = c.answers != nil
			r := newRegistrar(t, o)
			defer r.Close()
			_, done, err := r.Step(t.Context())
			if err != nil || done != c.want {
				t.Errorf("%s: registered %v, %v", name, done, err)
			}
			req := servers[0].requests()[0]
			if o.OnlyChanged && (req.Code != 322 || req.Ext["brokerName"] != "broker-a" || req.Body != `{"counter":2,"timestamp":1700000000000}`) {
				t.Errorf("%s: asked %+v", name, req)
			}
			if last := servers[0].requests(); (last[len(last)-1].Code == 103) != c.want {
				t.Errorf("%s: requests %v", name, servers[0].codes())
			}
			if !c.want && r.Stats().Unneeded != 1 {
				t.Errorf("%s: %+v", name, r.Stats())
			}
		})
	}
}

func TestWhoCannotBeRegisteredIsRefused(t *testing.T) {
	good := RegistrarOptions{NameServers: ns1, BrokerName: "b", BrokerAddr: "a:1", ClusterName: "c", HAServerAddr: "h:1"}
	for name, spoil := range map[string]func(*RegistrarOptions){
		"broker name":    func(o *RegistrarOptions) { o.BrokerName = "" },
		"broker address": func(o *RegistrarOptions) { o.BrokerAddr = "" },
		"cluster name":   func(o *RegistrarOptions) { o.ClusterName = "" },
		"HA address":     func(o *RegistrarOptions) { o.HAServerAddr = "" },
		"no name server": func(o *RegistrarOptions) { o.NameServers = " ; " },
		`"host"`:         func(o *RegistrarOptions) { o.NameServers = "a:1;host" },
	} {
		o := good
		spoil(&o)
		if _, err := NewRegistrar(o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	o := good
	o.Topics = func(context.Context) (TopicConfigTable, error) { return TopicConfigTable{}, errors.New("no table") }
	r := newRegistrar(t, o)
	if _, err := r.Register(t.Context()); err == nil || !strings.Contains(err.Error(), "topics to register: no table") {
		t.Error(err)
	}
}

// A slave learns its master from the name server and copies from it, all in fake time.
func TestTheNameServersAnswerFeedsTheSyncer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, d, _, n := slave(t, SyncerOptions{Self: "10.0.0.2:10911"})
		s.SetMaster("")
		n.put(ns1, newNameServer())
		o := registerOptions(n)
		o.NameServers = ns1
		var ha string
		o.Registered = func(r Registration) { s.SetMaster(r.MasterAddr); ha = r.HAServerAddr }
		r := newRegistrar(t, o)
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		ended := make(chan error, 2)
		go func() { ended <- r.Run(ctx) }()
		go func() { ended <- s.Run(ctx) }()
		<-ended
		<-ended
		r.Close()
		if tt, found, err := d.LoadTopics(); err != nil || !found || len(tt.Topics) != 1 || ha != "10.0.0.1:10912" {
			t.Errorf("%v, %v, %v, HA %q", tt, found, err, ha)
		}
	})
}
