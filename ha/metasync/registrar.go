package metasync

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mqstore/mqstore/ha/remoting"
)

// Request codes of a name server.
const (
	codeRegister         = 103
	codeUnregister       = 104
	codeQueryDataVersion = 322
)

// RegistrarOptions say who the broker is. The fields of the first group must be set; for the others the zero value is the original's behaviour.
type RegistrarOptions struct {
	NameServers  string // "host:port", separated by ";"
	BrokerName   string
	BrokerAddr   string // "ip:listenPort", by which clients and slaves reach the broker
	ClusterName  string
	BrokerID     int64  // 0 = master
	HAServerAddr string // "ip:haListenPort", by which slaves reach it

	// Topics are those to register; nil = none. It is called by each registration.
	Topics func(context.Context) (TopicConfigTable, error)
	// Perm is the broker's own permission (PermRead, PermWrite). While a bit is missing, every topic is registered with it instead of its own. nil = both.
	Perm func() int32

	Every       time.Duration // between registrations; default 30 s, at least 10 s, at most 60 s
	Timeout     time.Duration // of one registration with all servers; default 6 s
	Compressed  bool          // send the topics compressed
	OnlyChanged bool          // ask first (322), and register only if a server says that it does not have our topics' version
	MaxFrame    int           // bytes; default remoting.DefaultMaxFrame
	Dial        func(ctx context.Context, addr string) (net.Conn, error)

	// Registered is given the first answer of each registration. Failed is told of each server that did not answer well.
	// nil ones are fine. They are called on the goroutine of Register, Step or Run, and must not call these.
	Registered func(Registration)
	Failed     func(nameServer string, err error)
}

// Registration is a name server's answer.
type Registration struct {
	NameServer string
	// HAServerAddr is the HA address of the master of our broker name, for a slave's HA client; a slave whose configuration names a master keeps that one.
	// MasterAddr is its listen address, for Syncer.SetMaster. Both are "" for a master, and for a slave while no master is registered.
	HAServerAddr, MasterAddr string
	OrderTable               map[string]string // order configuration by topic; nil = none
}

// RegistrarStats is a snapshot.
type RegistrarStats struct {
	Registered int64 // registrations that at least one server took
	Unneeded   int64 // left out, since every server had our version
	Failed     int64 // that no server took
	Servers    map[string]ServerStats
}

// ServerStats is what became of registrations with one name server.
type ServerStats struct {
	Answered, Failed int64
	LastAnswer       time.Time
	LastErr          error // of the last attempt; nil = it succeeded
}

// Registrar makes a broker known to name servers and keeps it known: a server forgets a broker after 120 s, or when the connection closes, so it keeps one to each.
// Its methods may be called by any number of goroutines. Close it.
type Registrar struct {
	o       RegistrarOptions
	servers []*remoting.Client
	step    chan struct{} // holds one token: who takes it registers

	mu struct {
		sync.Mutex
		stats RegistrarStats
	}
}

const (
	firstRepeat       = 10 * time.Second
	leastEvery        = 10 * time.Second
	mostEvery         = 60 * time.Second
	unregisterTimeout = 3 * time.Second
)

// NewRegistrar checks o. It dials nobody yet.
func NewRegistrar(o RegistrarOptions) (*Registrar, error) {
	for _, f := range []struct{ name, v string }{{"broker name", o.BrokerName}, {"broker address", o.BrokerAddr}, {"cluster name", o.ClusterName}, {"HA address", o.HAServerAddr}} {
		if f.v == "" {
			return nil, fmt.Errorf("metasync: register a broker: its %s is not set", f.name)
		}
	}
	if o.Every <= 0 {
		o.Every = 30 * time.Second
	}
	o.Every = max(leastEvery, min(o.Every, mostEvery))
	if o.Timeout <= 0 {
		o.Timeout = 6 * time.Second
	}
	if o.Topics == nil {
		o.Topics = func(context.Context) (TopicConfigTable, error) { return TopicConfigTable{}, nil }
	}
	if o.Perm == nil {
		o.Perm = func() int32 { return PermRead | PermWrite }
	}
	if o.Registered == nil {
		o.Registered = func(Registration) {}
	}
	if o.Failed == nil {
		o.Failed = func(string, error) {}
	}
	r := &Registrar{o: o, step: make(chan struct{}, 1)}
	r.step <- struct{}{}
	r.mu.stats.Servers = make(map[string]ServerStats)
	for addr := range strings.SplitSeq(o.NameServers, ";") {
		addr = strings.TrimSpace(addr)
		if _, again := r.mu.stats.Servers[addr]; addr == "" || again {
			continue
		}
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return nil, fmt.Errorf("metasync: name server %q: %w", addr, err)
		}
		r.mu.stats.Servers[addr] = ServerStats{}
		r.servers = append(r.servers, remoting.NewClient(addr, remoting.ClientOptions{Timeout: o.Timeout, MaxFrame: o.MaxFrame, Dial: o.Dial}))
	}
	if len(r.servers) == 0 {
		return nil, fmt.Errorf("metasync: register a broker: no name server in %q", o.NameServers)
	}
	return r, nil
}

// Stats is a snapshot.
func (r *Registrar) Stats() RegistrarStats {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := r.mu.stats
	st.Servers = maps.Clone(st.Servers)
	return st
}

// Run registers at once, again after 10 s, and then every Every until ctx ends, whose error it returns. Failures go to the callbacks and Stats.
func (r *Registrar) Run(ctx context.Context) error {
	_, _ = r.Register(ctx)
	t := time.NewTimer(firstRepeat)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		t.Reset(r.o.Every)
		_, _, _ = r.Step(ctx)
	}
}

// Step is Register, unless OnlyChanged is set and every name server says that it has our version: then done is false.
func (r *Registrar) Step(ctx context.Context) (reg Registration, done bool, err error) {
	release, err := r.begin(ctx)
	if err != nil {
		return Registration{}, false, err
	}
	defer release()
	topics, err := r.topics(ctx)
	if err != nil {
		return Registration{}, false, err
	}
	if r.o.OnlyChanged && !r.changed(ctx, topics.DataVersion) {
		r.mu.Lock()
		r.mu.stats.Unneeded++
		r.mu.Unlock()
		return Registration{}, false, nil
	}
	reg, err = r.register(ctx, topics)
	return reg, err == nil, err
}

// Register registers with every name server side by side, waits for all, and returns the answer that came first. The error is nil if one of them took it, else it joins theirs.
// Call it when a topic has changed; Run does the rest.
func (r *Registrar) Register(ctx context.Context) (Registration, error) {
	release, err := r.begin(ctx)
	if err != nil {
		return Registration{}, err
	}
	defer release()
	topics, err := r.topics(ctx)
	if err != nil {
		return Registration{}, err
	}
	return r.register(ctx, topics)
}

// Close unregisters at every name server, for at most 3 s, and ends the connections. It waits for a registration under way; let Run return before, or it registers again.
// The error joins those of servers that could not be told: they forget the broker when the connection ends.
func (r *Registrar) Close() error {
	<-r.step
	defer func() { r.step <- struct{}{} }()
	ctx, cancel := context.WithTimeout(context.Background(), unregisterTimeout)
	defer cancel()
	var errs []error
	for _, a := range r.askAll(ctx, func() *remoting.Command { return r.request(codeUnregister) }) {
		if a.err != nil && !errors.Is(a.err, remoting.ErrClosed) {
			errs = append(errs, fmt.Errorf("unregister: %w", a.err))
		}
	}
	for _, c := range r.servers {
		c.Close()
	}
	return errors.Join(errs...)
}

// begin takes the turn.
func (r *Registrar) begin(ctx context.Context) (release func(), err error) {
	select {
	case <-r.step:
		return func() { r.step <- struct{}{} }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// topics are those to register, with the permissions to register.
func (r *Registrar) topics(ctx context.Context) (TopicConfigTable, error) {
	t, err := r.o.Topics(ctx)
	if err != nil {
		return TopicConfigTable{}, fmt.Errorf("topics to register: %w", err)
	}
	perm := r.o.Perm()
	if perm&PermRead != 0 && perm&PermWrite != 0 {
		return t, nil
	}
	own := make(map[string]TopicConfig, len(t.Topics))
	for name, c := range t.Topics {
		c.Perm = perm
		own[name] = c
	}
	t.Topics = own
	return t, nil
}

// request is a request with the arguments that all three have.
func (r *Registrar) request(code int32) *remoting.Command {
	req := remoting.NewRequest(code)
	req.ExtFields = map[string]string{
		"brokerName": r.o.BrokerName, "brokerAddr": r.o.BrokerAddr, "clusterName": r.o.ClusterName, "brokerId": strconv.FormatInt(r.o.BrokerID, 10),
	}
	return req
}

func (r *Registrar) register(ctx context.Context, topics TopicConfigTable) (first Registration, err error) {
	body, err := registerBody(topics, r.o.Compressed)
	if err != nil {
		return Registration{}, fmt.Errorf("encode topics to register: %w", err)
	}
	var (
		found bool
		errs  []error
	)
	for a := range r.ask(ctx, func() *remoting.Command {
		req := r.request(codeRegister)
		req.ExtFields["haServerAddr"] = r.o.HAServerAddr
		req.ExtFields["compressed"] = strconv.FormatBool(r.o.Compressed)
		req.ExtFields["bodyCrc32"] = strconv.FormatUint(uint64(crc32.ChecksumIEEE(body)&0x7FFFFFFF), 10)
		req.Body = body
		return req
	}) {
		var reg Registration
		if a.err == nil {
			reg, a.err = decodeRegistration(a.from, a.resp)
		}
		r.count(a)
		if a.err != nil {
			errs = append(errs, fmt.Errorf("register: %w", a.err))
			r.o.Failed(a.from, a.err)
			continue
		}
		if !found {
			first, found = reg, true
			r.o.Registered(reg)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !found {
		r.mu.stats.Failed++
		return Registration{}, errors.Join(errs...)
	}
	r.mu.stats.Registered++
	return first, nil
}

// changed says whether some name server does not have version v, or does not say.
func (r *Registrar) changed(ctx context.Context, v DataVersion) bool {
	body, err := remoting.Marshal(v)
	if err != nil {
		return true
	}
	changed := false
	for _, a := range r.askAll(ctx, func() *remoting.Command {
		req := r.request(codeQueryDataVersion)
		req.Body = body
		return req
	}) {
		if a.err != nil {
			r.o.Failed(a.from, a.err)
		}
		changed = changed || a.err != nil || a.resp.ExtFields["changed"] != "false"
	}
	return changed
}

// answer is what came of asking one name server.
type answer struct {
	from string
	resp *remoting.Command
	err  error
}

// ask sends each name server a request, side by side; the channel yields their answers as they come, and ends. No answer takes longer than Timeout.
func (r *Registrar) ask(ctx context.Context, request func() *remoting.Command) <-chan answer {
	out := make(chan answer, len(r.servers))
	var asking sync.WaitGroup
	for _, c := range r.servers {
		req := request()
		asking.Go(func() {
			resp, err := c.Call(ctx, req)
			out <- answer{c.Addr(), resp, err}
		})
	}
	go func() { asking.Wait(); close(out) }()
	return out
}

func (r *Registrar) askAll(ctx context.Context, request func() *remoting.Command) (all []answer) {
	for a := range r.ask(ctx, request) {
		all = append(all, a)
	}
	return all
}

func (r *Registrar) count(a answer) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.mu.stats.Servers[a.from]
	s.LastErr = a.err
	if a.err != nil {
		s.Failed++
	} else {
		s.Answered++
		s.LastAnswer = now
	}
	r.mu.stats.Servers[a.from] = s
}

func decodeRegistration(from string, resp *remoting.Command) (Registration, error) {
	reg := Registration{NameServer: from, HAServerAddr: resp.ExtFields["haServerAddr"], MasterAddr: resp.ExtFields["masterAddr"]}
	if len(resp.Body) == 0 {
		return reg, nil
	}
	var body struct {
		Table map[string]string `json:"table"`
	}
	if err := remoting.Unmarshal(resp.Body, &body); err != nil {
		return Registration{}, fmt.Errorf("answer of %s: order configuration: %w", from, err)
	}
	reg.OrderTable = body.Table
	return reg, nil
}

// registerBody is what a broker of 3.0.11 or later registers with (spec/ha-protocol.md 6.19).
func registerBody(t TopicConfigTable, compressed bool) ([]byte, error) {
	if !compressed {
		return remoting.Marshal(map[string]any{"filterServerList": []string{}, "topicConfigSerializeWrapper": t})
	}
	version, err := remoting.Marshal(t.DataVersion)
	if err != nil {
		return nil, err
	}
	b := appendSized(nil, version)
	b = binary.BigEndian.AppendUint32(b, uint32(len(t.Topics)))
	for _, key := range slices.Sorted(maps.Keys(t.Topics)) {
		c := t.Topics[key]
		if c.Name == "" {
			c.Name = key
		}
		if strings.Contains(c.Name, " ") || strings.Contains(c.FilterType, " ") {
			return nil, fmt.Errorf("topic %q, filter type %q: the compressed form separates by spaces; register uncompressed", c.Name, c.FilterType)
		}
		b = appendSized(b, fmt.Appendf(nil, "%s %d %d %d %s", c.Name, c.ReadQueueNums, c.WriteQueueNums, c.Perm, c.FilterType))
	}
	b = appendSized(b, []byte("[]"))
	var buf bytes.Buffer
	z := zlib.NewWriter(&buf)
	if _, err := z.Write(b); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

func appendSized(b, field []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(field))), field...)
}
