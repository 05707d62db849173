package sim

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"hash/crc32"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mqstore/mqstore/commitlog/mappedfile/faultfs"
	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/conformance/memnet"
	"github.com/mqstore/mqstore/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const segmentSize = 64 << 10

var (
	producer = record.HostFrom(netip.MustParseAddrPort("10.1.2.3:54321"))
	broker   = record.HostFrom(netip.MustParseAddrPort("192.168.7.9:10911"))
)

// node is a store with a disk and an address of its own, which can be stopped, killed and opened again.
type node struct {
	t       *testing.T
	n       *memnet.Network
	address string
	fs      *faultfs.FS
	o       store.Options
	s       *store.DefaultMessageStore // nil = down
	events  *events
}

// bubble runs f in fake time.
func bubble(t *testing.T, f func(t *testing.T)) { t.Helper(); synctest.Test(t, f) }

// start opens a node with an empty disk. It is closed at the bubble's end.
func start(t *testing.T, n *memnet.Network, address string, o store.Options) *node {
	t.Helper()
	d := &node{t: t, n: n, address: address, fs: faultfs.New(), o: o, events: new(events)}
	d.open()
	t.Cleanup(func() {
		if d.s != nil {
			d.s.Close()
		}
	})
	return d
}

func (d *node) open() {
	d.t.Helper()
	o := d.o
	o.FS, o.HA.Dial, o.Events = d.fs, d.n.Dial, d.events.events()
	if o.SegmentSize == 0 {
		o.SegmentSize = segmentSize
	}
	if o.QueueFileSize == 0 {
		o.QueueFileSize = 2000
	}
	if o.HA.Extended != nil {
		e := *o.HA.Extended
		e.Listener = d.n.Listen(d.address + "+")
		o.HA.Extended = &e
	}
	o.HA.Listener = d.n.Listen(d.address)
	s, err := store.Open("/store", o)
	if err != nil {
		d.t.Fatalf("open %s: %v", d.address, err)
	}
	d.s = s
}

// stop is a clean exit.
func (d *node) stop() {
	d.t.Helper()
	if err := d.s.Close(); err != nil {
		d.t.Fatalf("close %s: %v", d.address, err)
	}
	d.s = nil
}

// kill ends the process, and with power also the machine: the disk is left as it was at this moment.
func (d *node) kill(power *rand.Rand) {
	d.t.Helper()
	synctest.Wait() // no store into a mapping is under way
	dead := d.fs
	if power != nil {
		d.fs = dead.Crash(power)
	} else {
		d.fs = dead.Kill()
	}
	d.n.Reset(d.address)
	d.n.Reset(d.address + "+")
	d.s.Close() // only its goroutines are left to end: its disk is dead
	d.s = nil
}

// files are the contents of all files below a directory, without trailing zeros; files of zeros only are left out, since files are made ahead.
func (d *node) files(dir string) map[string]string {
	synctest.Wait() // no store into a mapping is under way
	files := map[string]string{}
	for _, path := range d.fs.Paths() {
		if !strings.HasPrefix(path, "/store/"+dir+"/") {
			continue
		}
		b, err := d.fs.ReadFile(path)
		if err != nil {
			continue // a directory
		}
		if b = bytes.TrimRight(b, "\x00"); len(b) > 0 {
			files[path] = string(b)
		}
	}
	return files
}

// caughtUp waits until slave holds and both have dispatched all that master has.
func caughtUp(t *testing.T, master, slave *node) {
	t.Helper()
	end := master.s.MaxPhyOffset()
	for deadline := time.Now().Add(time.Hour); slave.s.DispatchedPhyOffset() < end || master.s.DispatchedPhyOffset() < end; {
		if time.Now().After(deadline) {
			t.Fatalf("the slave does not catch up: it holds %d and has dispatched %d of %d; %+v", slave.s.MaxPhyOffset(), slave.s.DispatchedPhyOffset(), end, slave.s.Stats().HA.Following)
		}
		select {
		case <-slave.s.Grown(max(slave.s.MaxPhyOffset(), end-1)):
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// same checks that both nodes hold the same log and queues, byte for byte, and that their queues answer the same.
func same(t *testing.T, a, b *node) {
	t.Helper()
	for _, dir := range []string{"commitlog", "consumequeue"} {
		x, y := a.files(dir), b.files(dir)
		if len(x) == 0 {
			t.Errorf("%s of %s is empty", dir, a.address)
		}
		for path := range x {
			if x[path] != y[path] {
				t.Errorf("%s is not the same on %s and %s: %d and %d bytes", path, a.address, b.address, len(x[path]), len(y[path]))
			}
		}
		for path := range y {
			if _, ok := x[path]; !ok {
				t.Errorf("%s is on %s only", path, b.address)
			}
		}
	}
	if a.s == nil || b.s == nil {
		return
	}
	for _, q := range a.s.Queues() {
		for offset := q.MinOffset; offset <= q.MaxOffset; offset++ {
			x, y := answer(t, a, q.Topic, q.QueueID, offset), answer(t, b, q.Topic, q.QueueID, offset)
			if x != y {
				t.Fatalf("get %s/%d at %d: %s answers %s, %s answers %s", q.Topic, q.QueueID, offset, a.address, x, b.address, y)
			}
		}
	}
}

// sameKeys checks that queries answer the same.
func sameKeys(t *testing.T, a, b *node) {
	t.Helper()
	ask := func(d *node, topic, key string) (s string) {
		if err := d.s.WaitIndexed(t.Context(), d.s.MaxPhyOffset()); err != nil {
			t.Fatal(err)
		}
		r, err := d.s.Query(t.Context(), store.QueryRequest{Topic: topic, Key: key})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Release()
		for _, v := range r.Records {
			s += fmt.Sprint(v.PhyOffset, " ")
		}
		return s
	}
	found := 0
	for key := range 100 {
		x, y := ask(a, "T1", fmt.Sprint(key)), ask(b, "T1", fmt.Sprint(key))
		if x != y {
			t.Errorf("query of key %d: %s answers %s, %s answers %s", key, a.address, x, b.address, y)
		}
		found += len(x)
	}
	if found == 0 {
		t.Error("no key was found at all")
	}
}

func answer(t *testing.T, d *node, topic string, queueID int32, offset int64) string {
	t.Helper()
	r, err := d.s.Get(t.Context(), store.GetRequest{Topic: topic, QueueID: queueID, Offset: offset, MaxMessages: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	s := fmt.Sprint(r.Status, r.NextBeginOffset, r.MinOffset, r.MaxOffset)
	for _, v := range r.Records {
		s += fmt.Sprintf(" %d:%x", v.PhyOffset, v.Bytes)
	}
	return fmt.Sprintf("%.300s (%08x)", s, crc32.ChecksumIEEE([]byte(s)))
}

func message(topic string, queueID int32, body string, properties ...string) *record.Message {
	return &record.Message{Topic: topic, QueueID: queueID, Body: []byte(body), BornTimestamp: 1, BornHost: producer, StoreHost: broker, Properties: record.NewProperties(properties...)}
}

func put(t *testing.T, s store.Putter, m *record.Message) store.PutResult {
	t.Helper()
	r, err := s.Put(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// load puts n messages of random sizes, singly and in batches, to random queues.
func load(t *testing.T, rng *rand.Rand, s *store.DefaultMessageStore, n int) {
	t.Helper()
	for range n {
		m := message(fmt.Sprintf("T%d", rng.IntN(3)), int32(rng.IntN(2)), strings.Repeat("x", rng.IntN(1500)), "TAGS", string(rune('A'+rng.IntN(3))), "KEYS", fmt.Sprint(rng.IntN(100)))
		var err error
		switch rng.IntN(6) {
		case 0:
			items := make([]record.BatchItem, 1+rng.IntN(5))
			for i := range items {
				items[i].Body = fmt.Append(nil, "item ", i)
			}
			_, err = s.PutBatch(t.Context(), m, items)
		case 1:
			m.SysFlag = record.SysFlag(record.TransactionPrepared)
			_, err = s.Put(t.Context(), m)
		default:
			_, err = s.Put(t.Context(), m)
		}
		if err != nil {
			t.Fatal(err)
		}
		if rng.IntN(10) == 0 {
			time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
		}
	}
}

// events keeps what was reported.
type events struct {
	mu struct {
		sync.Mutex
		lines []string
		errs  []error
	}
}

func (e *events) note(what, peer string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.lines = append(e.mu.lines, fmt.Sprintf("%s %s: %v", what, peer, err))
	if err != nil {
		e.mu.errs = append(e.mu.errs, err)
	}
}

func (e *events) events() store.Events {
	return store.Events{
		SlaveConnected:     func(peer string) { e.note("slave connected", peer, nil) },
		SlaveDisconnected:  func(peer string, err error) { e.note("slave disconnected", peer, err) },
		SlaveRefused:       func(peer string, err error) { e.note("slave refused", peer, err) },
		MasterConnected:    func(peer string) { e.note("master connected", peer, nil) },
		MasterLost:         func(peer string, err error) { e.note("master lost", peer, err) },
		Diverged:           func(err error) { e.note("diverged", "", err) },
		ReplicationWarning: func(peer string, err error) { e.note("warning", peer, err) },
		RoleChanged:        func(from, to store.Role) { e.note("role "+from.String()+" "+to.String(), "", nil) },
	}
}

func (e *events) has(target error) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, err := range e.mu.errs {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

func (e *events) count(what string) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range e.mu.lines {
		if strings.HasPrefix(l, what) {
			n++
		}
	}
	return n
}

func (e *events) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.mu.lines, "\n")
}

// pki is one authority and a certificate that serves both sides.
var pki = sync.OnceValue(func() *tls.Config {
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	certify := func(template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) []byte {
		der, err := x509.CreateCertificate(crand.Reader, template, parent, &key.PublicKey, parentKey)
		must(err)
		return der
	}
	newKey := func() *ecdsa.PrivateKey {
		key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
		must(err)
		return key
	}
	from, to := time.Unix(0, 0), time.Now().AddDate(200, 0, 0)
	caKey := newKey()
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: from, NotAfter: to, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	ca, err := x509.ParseCertificate(certify(ca, ca, caKey, caKey))
	must(err)
	key := newKey()
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "node"}, DNSNames: []string{"a", "b", "c", "d", "e"}, NotBefore: from, NotAfter: to,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{certify(leaf, ca, key, caKey)}, PrivateKey: key}},
		RootCAs:      pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}
})

// extended makes o speak the extended protocol.
func extended(o store.Options, change ...func(e *store.HAExtended)) store.Options {
	o.HA.Extended = &store.HAExtended{TLS: pki(), Token: "a token of 24 characters", Compress: true}
	for _, f := range change {
		f(o.HA.Extended)
	}
	return o
}
