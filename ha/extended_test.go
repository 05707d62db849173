package ha

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mqstore/mqstore/conformance/memnet"
)

type keys struct {
	pool          *x509.CertPool
	master, slave tls.Certificate
	stranger      tls.Certificate // of another authority
	strangersPool *x509.CertPool
}

// pki is made once: certificates are valid in bubbles (2000) and outside.
var pki = sync.OnceValue(func() (p keys) {
	authority := func() (*x509.Certificate, *ecdsa.PrivateKey) {
		key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Unix(0, 0), NotAfter: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
			IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
		der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
		if err != nil {
			panic(err)
		}
		c, _ = x509.ParseCertificate(der)
		return c, key
	}
	issue := func(ca *x509.Certificate, key *ecdsa.PrivateKey, name string) tls.Certificate {
		mine, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		c := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotBefore: time.Unix(0, 0), NotAfter: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, KeyUsage: x509.KeyUsageDigitalSignature}
		der, err := x509.CreateCertificate(rand.Reader, c, ca, &mine.PublicKey, key)
		if err != nil {
			panic(err)
		}
		return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: mine}
	}
	ca, key := authority()
	p.pool = x509.NewCertPool()
	p.pool.AddCert(ca)
	p.master, p.slave = issue(ca, key, "master"), issue(ca, key, "slave")
	ca, key = authority()
	p.strangersPool = x509.NewCertPool()
	p.strangersPool.AddCert(ca)
	p.stranger = issue(ca, key, "stranger")
	return p
})

func extendedPair(t *testing.T) (master, slave *Extended) {
	t.Helper()
	return pairOf(pki())
}

func pairOf(p keys) (master, slave *Extended) {
	master = &Extended{Token: "a token of 24 characters", Compress: true, TLS: &tls.Config{Certificates: []tls.Certificate{p.master}, ClientCAs: p.pool, ClientAuth: tls.RequireAndVerifyClientCert}}
	slave = &Extended{Token: "a token of 24 characters", Compress: true, TLS: &tls.Config{Certificates: []tls.Certificate{p.slave}, RootCAs: p.pool}}
	return master, slave
}

func TestExtendedPairReplicates(t *testing.T) {
	for _, c := range []struct {
		name           string
		compress       bool
		from           ResyncFrom
		wantFrom       int64
		compressible   bool
		fewerThanBytes int64
	}{
		{name: "plain", wantFrom: 1000},
		{name: "zstd", compress: true, compressible: true, wantFrom: 1000},
		{name: "zstd of noise", compress: true, wantFrom: 1000},
		{name: "from the last segment", from: LastSegment, wantFrom: 5000},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := memnet.New()
				mo, so := extendedPair(t)
				so.Compress, so.ResyncFrom = c.compress, c.from
				mo.StoreID = [16]byte{7}
				src, target := newMemLogAt(1000, 1000, 4500, 1), newMemLog(1000)
				m := startMaster(t, n, "master:1", src, MasterOptions{SegmentSize: 1000, Extended: mo})
				_, stop := startSlave(t, n, target, SlaveOptions{Extended: so})
				synctest.Wait()
				for i := range 10 {
					p := randomBytes(uint64(i), 500)
					if c.compressible {
						p = bytes.Repeat([]byte("replication "), 40)
					}
					if err := m.WaitAcked(t.Context(), src.append(p)); err != nil {
						t.Fatal(err)
					}
				}
				sameLog(t, src, target)
				if from, _ := target.bytes(); from != c.wantFrom {
					t.Errorf("the slave begins at %d, not %d", from, c.wantFrom)
				}
				stop()
				src.append(randomBytes(99, 3000))
				s, _ := startSlave(t, n, target, SlaveOptions{Extended: so})
				time.Sleep(time.Minute) // heartbeats too
				sameLog(t, src, target)
				if st := s.Stats(); st.MasterStoreID != mo.StoreID || st.Connects != 1 || st.LastError != nil || st.Frames < 10 {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

// Whatever frames a slave takes, and however the sizes of bodies, buffers and zstd's window compare, the bytes arrive.
func TestFramesOfEverySizeArrive(t *testing.T) {
	for _, maxFrame := range []int{1, 100, 1000, 1024, 70000, 300000, 1<<20 + 1, 4 << 20} {
		bubble(t, func(t *testing.T) {
			n := memnet.New()
			mo, so := extendedPair(t)
			src, target := newMemLog(8<<20), newMemLog(8<<20)
			src.append(bytes.Repeat([]byte("abcdefghij"), min(maxFrame*30, 3<<20)/10))
			src.append(randomBytes(1, min(maxFrame*30, 3<<20)))
			startMaster(t, n, "master:1", src, MasterOptions{SegmentSize: 8 << 20, Extended: mo, WriteSize: 4 << 20})
			startSlave(t, n, target, SlaveOptions{Extended: so, MaxFrame: maxFrame, ReadBuffer: 4096})
			time.Sleep(time.Second)
			sameLog(t, src, target)
		})
	}
}

func TestCompressionSavesBytes(t *testing.T) {
	var plain, packed int64
	for _, compress := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			n := memnet.New()
			mo, so := extendedPair(t)
			so.Compress = compress
			src, target := newMemLog(1<<20), newMemLog(1<<20)
			src.append(bytes.Repeat([]byte("all work and no play "), 20000))
			startMaster(t, n, "master:1", src, MasterOptions{SegmentSize: 1 << 20, Extended: mo})
			startSlave(t, n, target, SlaveOptions{Extended: so})
			time.Sleep(time.Second)
			sameLog(t, src, target)
			plain, packed = packed, n.Conns()[0].Other().Sent()
		})
	}
	if packed > plain/20 {
		t.Errorf("%d bytes on the wire, %d without compression", packed, plain)
	}
}

// A slave whose log is not a beginning of the master's is told so, with the way out, and nothing of either log changes.
func TestDivergenceIsFoundInTheHandshake(t *testing.T) {
	shorter := newMemLogAt(1000, 0, 4000, 1)
	for _, c := range []struct {
		name   string
		target func() *memLog
		reason error
		hint   string
	}{
		{"ahead", func() *memLog { return newMemLogAt(1000, 0, 5001, 1) }, ErrSlaveAhead, "what the slave has from 5000 on is not its: stop the slave, cut that (mqstore truncate --to 5000"},
		{"deleted on the master", func() *memLog { return newMemLogAt(1000, 0, 1500, 1) }, ErrDeletedOnMaster, "move its directory aside"},
		{"other bytes", func() *memLog { return newMemLogAt(1000, 0, 4000, 2) }, ErrDiverged, "wrong from 3900 on, or before that (mqstore diff finds where): stop the slave, cut it there (mqstore truncate --to 3900"},
		{"same end, other bytes", func() *memLog { return newMemLogAt(1000, 0, 5000, 2) }, ErrDiverged, "move its directory aside"},
		{"a beginning", func() *memLog { return shorter }, nil, ""},
		{"the same", func() *memLog { return newMemLogAt(1000, 0, 5000, 1) }, nil, ""},
		{"empty", func() *memLog { return newMemLog(1000) }, nil, ""},
		{"the last record deleted on the master", func() *memLog { return newMemLogAt(1000, 0, 2000, 2) }, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := memnet.New()
				mo, so := extendedPair(t)
				src := newMemLogAt(1000, 0, 5000, 1)
				src.expire(2000)
				ev, sev := &recorded{}, &recorded{}
				startMaster(t, n, "master:1", src, MasterOptions{SegmentSize: 1000, Extended: mo, Events: ev.events.events()})
				target := c.target()
				_, before := target.bytes()
				s, _ := startSlave(t, n, target, SlaveOptions{Extended: so, Events: sev.events.events()})
				time.Sleep(time.Minute)
				_, after := target.bytes()
				st := s.Stats()
				if c.reason == nil {
					if st.State != Following || target.MaxPhyOffset() != 5000 {
						t.Errorf("%+v, log ends at %d", st, target.MaxPhyOffset())
					}
					return
				}
				var p *PositionError
				if !errors.Is(st.LastError, c.reason) || !errors.As(st.LastError, &p) || !strings.Contains(p.Error(), c.hint) {
					t.Errorf("the slave says %v", st.LastError)
				}
				if !ev.has(c.reason) || !sev.has(c.reason) || sev.count("refused") != 1 {
					t.Errorf("events of the master:\n%s\nof the slave:\n%s", ev, sev)
				}
				if !bytes.Equal(before, after) || n.Dials() > 30 {
					t.Errorf("the slave's log changed, or %d attempts in a minute", n.Dials())
				}
			})
		})
	}
}

func TestExtendedRefusesStrangers(t *testing.T) {
	p := pki()
	for _, c := range []struct {
		name          string
		change        func(m, s *Extended)
		master, slave error // nil: some TLS error
	}{
		{"other token", func(m, s *Extended) { s.Token = "another of 24 characters" }, ErrToken, ErrToken},
		{"no certificate", func(m, s *Extended) { s.TLS.Certificates = nil }, nil, nil},
		{"certificate of another authority", func(m, s *Extended) { s.TLS.Certificates = []tls.Certificate{p.stranger} }, nil, nil},
		{"master of another authority", func(m, s *Extended) { s.TLS.RootCAs = p.strangersPool }, nil, nil},
		{"other store", func(m, s *Extended) { m.StoreID, s.StoreID = [16]byte{1}, [16]byte{2} }, ErrStoreID, ErrStoreID},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := memnet.New()
				mo, so := extendedPair(t)
				c.change(mo, so)
				ev, sev := &recorded{}, &recorded{}
				src := newMemLogAt(1000, 0, 500, 1)
				m := startMaster(t, n, "master:1", src, MasterOptions{SegmentSize: 1000, Extended: mo, Events: ev.events.events()})
				target := newMemLog(1000)
				startSlave(t, n, target, SlaveOptions{Extended: so, Events: sev.events.events()})
				time.Sleep(10 * time.Second)
				if target.MaxPhyOffset() != 0 || m.MaxAck() != 0 || m.SlaveOK(500) || ev.count("connected") != 0 {
					t.Errorf("served:\n%s", ev)
				}
				if ev.count("refused") == 0 || sev.count("refused") == 0 || c.master != nil && !ev.has(c.master) || c.slave != nil && !sev.has(c.slave) {
					t.Errorf("events of the master:\n%s\nof the slave:\n%s", ev, sev)
				}
			})
		})
	}
}

// A proof holds on one connection only: one that is replayed, or taken from the other side, proves nothing.
func TestProofsAreBoundToTheConnectionAndTheSide(t *testing.T) {
	mo, so := extendedPair(t)
	a, _ := mo.check(true)
	b, _ := so.check(false)
	b.TLS.ServerName = "master"
	var seen [][32]byte
	for range 2 {
		c1, c2 := net.Pipe()
		server, client := tls.Server(c1, a.TLS), tls.Client(c2, b.TLS)
		var done sync.WaitGroup
		done.Go(func() { client.Handshake() })
		if err := server.Handshake(); err != nil {
			t.Fatal(err)
		}
		done.Wait()
		for _, side := range []string{"master", "slave"} {
			x, err := proof(server, "token", side)
			y, err2 := proof(client, "token", side)
			if err != nil || err2 != nil || x != y {
				t.Fatalf("both ends prove the same: %v %v", err, err2)
			}
			seen = append(seen, x)
		}
		c1.Close()
		c2.Close()
	}
	for i, x := range seen {
		for _, y := range seen[:i] {
			if x == y {
				t.Error("a proof came twice")
			}
		}
	}
}

func TestBadGreetingsAreRefused(t *testing.T) {
	good := hello{version: helloVersion, a: 500, maxFrame: 1000}
	for _, c := range []struct {
		name   string
		change func(h *hello)
	}{
		{"status", func(h *hello) { h.status = statusAhead }},
		{"unknown flag", func(h *hello) { h.flags = 1 << 20 }},
		{"a flag of version 2 in version 1", func(h *hello) { h.version, h.flags = 1, helloQueues }},
		{"frames of 0", func(h *hello) { h.maxFrame = 0 }},
		{"negative frames", func(h *hello) { h.maxFrame = -5 }},
		{"negative log end", func(h *hello) { h.a = -1 }},
		{"negative tail", func(h *hello) { h.b, h.c = -10, 5<<32 }},
		{"tail beyond the end", func(h *hello) { h.b, h.c = 450, 51<<32 }},
		{"tail of negative size", func(h *hello) { h.b, h.c = 450, -1<<32 }},
		{"huge tail", func(h *hello) { h.a, h.b, h.c = 1<<40, 0, (MaxTailSize+1)<<32 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			mo, _ := extendedPair(t)
			m, err := NewMaster(newMemLogAt(1000, 0, 500, 1), MasterOptions{Extended: mo})
			if err != nil {
				t.Fatal(err)
			}
			h := good
			c.change(&h)
			if from, err := (&conn{m: m}).welcome(&h); !errors.Is(err, ErrMalformed) {
				t.Errorf("from %d, %v", from, err)
			}
			if from, err := (&conn{m: m}).welcome(&good); err != nil || from != 500 {
				t.Errorf("a good one: from %d, %v", from, err)
			}
		})
	}
}

// A greeting of a later version is understood as far as this one goes, and answered with this version.
func TestLaterVersionsOfTheGreetingAreUnderstood(t *testing.T) {
	h := hello{version: helloVersion + 1, a: 77, maxFrame: 5, flags: 1 << 9}
	b := h.encode()
	b = append(b[:len(b)-4], make([]byte, 20)...) // sixteen more bytes
	b[posHelloLength+1] += 16
	b = seal(b)
	got, err := readHello(bytes.NewReader(b))
	if err != nil || got != h {
		t.Errorf("%+v, %v", got, err)
	}
	for h.version = 1; h.version <= helloVersion; h.version++ {
		b := append(h.encode()[:helloSize-4], make([]byte, 20)...)
		b[posHelloLength+1] += 16
		if _, err := readHello(bytes.NewReader(seal(b))); !errors.Is(err, ErrMalformed) {
			t.Errorf("version %d has one length: %v", h.version, err)
		}
	}
}

func TestOptionsThatCannotBeAreRefused(t *testing.T) {
	mo, so := extendedPair(t)
	weak := *mo
	weak.Token = "short"
	oneSided := *mo
	oneSided.TLS = oneSided.TLS.Clone()
	oneSided.TLS.ClientAuth = tls.RequestClientCert
	blind := *so
	blind.TLS = blind.TLS.Clone()
	blind.TLS.InsecureSkipVerify = true
	for i, o := range []MasterOptions{
		{BatchSize: maxFrame + 1}, {BatchSize: -1}, {BatchSize: 1 << 20, WriteSize: 1 << 19}, {SegmentSize: -1}, {Heartbeat: -1}, {FallBehindMax: -1},
		{RequiredAcks: -1}, {MaxConnections: -1}, {Extended: &weak}, {Extended: &oneSided}, {Extended: &Extended{Token: mo.Token}},
	} {
		if _, err := NewMaster(newMemLog(1000), o); err == nil {
			t.Errorf("master options %d are accepted", i)
		}
	}
	for i, o := range []SlaveOptions{
		{MaxFrame: -1}, {ReadBuffer: 10}, {RetryMin: time.Hour, RetryMax: time.Minute}, {RetryMin: -1}, {Silence: -1}, {ReportFlushed: true}, {Extended: &weak}, {Extended: &blind},
	} {
		if _, err := NewSlave(newMemLog(1000), o); err == nil {
			t.Errorf("slave options %d are accepted", i)
		}
	}
	m, err := NewMaster(newMemLog(1000), MasterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l := memnet.New().Listen("x:1")
	if err := m.ServeExtended(l); err == nil {
		t.Error("an extended listener without Extended")
	}
	m.Close()
	if err := m.Serve(l); err != nil {
		t.Error(err)
	}
}

// What has not proved anything may not cost much, nor for long.
func TestUnauthenticatedPeersOfTheExtendedPortAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := memnet.New()
		mo, so := extendedPair(t)
		src := newMemLogAt(1000, 0, 500, 1)
		m := startMaster(t, n, "master:1", src, MasterOptions{SegmentSize: 1000, Extended: mo, MaxConnections: 20})
		peers := make([]*memnet.Conn, 50)
		for i := range peers {
			peers[i] = rawDial(t, n)
			peers[i].Write(randomBytes(uint64(i), i*100))
		}
		synctest.Wait()
		if got := len(m.Stats().Connections); got > 20 {
			t.Errorf("%d connections", got)
		}
		time.Sleep(defaultHandshake + time.Millisecond)
		synctest.Wait()
		if got := len(m.Stats().Connections); got != 0 {
			t.Errorf("%d connections after the handshake's time", got)
		}
		// One that has the certificate but sends half a greeting.
		c, _ := so.check(false)
		c.TLS.ServerName = "master"
		half := tls.Client(rawDial(t, n), c.TLS)
		if err := half.HandshakeContext(context.Background()); err != nil {
			t.Fatal(err)
		}
		half.Write(make([]byte, 10))
		time.Sleep(defaultHandshake + time.Millisecond)
		synctest.Wait()
		if got := len(m.Stats().Connections); got != 0 {
			t.Errorf("%d connections after the handshake's time", got)
		}
	})
}
