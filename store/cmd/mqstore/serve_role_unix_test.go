//go:build unix

package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
	"github.com/mqstore/mqstore/store"
)

// post changes something, as curl -X POST does.
func (s *served) post(path string) (int, string) {
	s.t.Helper()
	r, err := http.Post(s.admin+path, "", nil)
	if err != nil {
		s.t.Fatalf("%v\n%s", err, s.errs.String())
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

// keyFiles writes a certificate for 127.0.0.1 with its key, the authority that signed it, and a token, and returns the lines of a .properties file that name them.
func keyFiles(t *testing.T, token string) []string {
	t.Helper()
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		must(os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	must(err)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "node"}, NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	must(err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	must(err)
	tokenFile := filepath.Join(dir, "token")
	must(os.WriteFile(tokenFile, []byte(token+"\n"), 0o600))
	return []string{
		"mqstore.ha.cert=" + write("cert.pem", "CERTIFICATE", leafDER), "mqstore.ha.key=" + write("key.pem", "PRIVATE KEY", keyDER),
		"mqstore.ha.ca=" + write("ca.pem", "CERTIFICATE", caDER), "mqstore.ha.tokenFile=" + tokenFile, "mqstore.ha.compress=true",
	}
}

// Two processes over TLS: the slave gets the whole log, also what lies before the master's last segment, though its directory is empty; one without the token gets nothing.
func TestAServedPairSpeaksTLS(t *testing.T) {
	root := t.TempDir()
	a, b, c := filepath.Join(root, "a"), filepath.Join(root, "b"), filepath.Join(root, "c")
	end := putInto(t, a, 1000)
	keys := keyFiles(t, "a secret of more than 16 bytes")
	master := serve(t, writeConfig(t, a, "SYNC_MASTER", 0, freePort(t), append(keys, "mqstore.ha.listen=127.0.0.1:0", "mqstore.ha.classic=false")...))
	listen := master.stats().HA.ExtendedAddress
	if listen == "" || master.stats().HA.ListenAddress != "" || !strings.Contains(master.said, "with TLS  "+listen) {
		t.Fatalf("listening on %q: %s", listen, master.said)
	}
	slave := serve(t, writeConfig(t, b, "SLAVE", 1, freePort(t), append(keys, "mqstore.ha.master="+listen, "mqstore.ha.reportFlushed=true")...))
	master.until("slave with lag 0", func(j statsJSON) bool {
		return j.Healthy && len(j.HA.Slaves) == 1 && j.HA.Slaves[0].Extended && j.HA.Slaves[0].Reported && j.HA.Slaves[0].Ack == end && j.HA.Slaves[0].Lag == 0 && j.HA.Slaves[0].LagTime == 0
	})
	others := append([]string{}, keys...)
	wrong := filepath.Join(root, "wrong")
	if err := os.WriteFile(wrong, []byte("another secret of 16 bytes\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	others[3] = "mqstore.ha.tokenFile=" + wrong
	stranger := serve(t, writeConfig(t, c, "SLAVE", 2, freePort(t), append(others, "mqstore.ha.master="+listen)...))
	stranger.until("refusal", func(j statsJSON) bool {
		return j.HA.Following != nil && strings.Contains(j.HA.Following.LastError, "tokens differ") && j.MaxPhyOffset <= 0
	})
	if !strings.Contains(stranger.errs.String(), "can be read by others") {
		t.Errorf("no word of the token's mode: %s", stranger.errs.String())
	}
	for _, n := range []*served{stranger, slave, master} {
		n.stop(syscall.SIGTERM)
	}
	sameStores(t, a, b, end)
}

// A configuration of TLS that cannot be is refused before anything is opened, and says what to do.
func TestServedTLSConfigurationsThatCannotBe(t *testing.T) {
	keys := keyFiles(t, "short")
	missing := filepath.Join(t.TempDir(), "missing")
	for _, c := range []struct {
		name string
		role string
		more []string
		want string
	}{
		{"no key", "ASYNC_MASTER", []string{keys[0]}, "needs mqstore.ha.key, mqstore.ha.ca, mqstore.ha.tokenFile, too"},
		{"only a listener", "ASYNC_MASTER", []string{"mqstore.ha.listen=:0"}, "needs mqstore.ha.cert"},
		{"misspelt", "ASYNC_MASTER", []string{"mqstore.ha.certificate=x"}, "mqstore.ha.certificate: no such key; there are mqstore.ha.ca, mqstore.ha.cert"},
		{"a slave without a master", "SLAVE", keys, "set mqstore.ha.master"},
		{"a short token", "ASYNC_MASTER", append([]string{"mqstore.ha.listen=127.0.0.1:0"}, keys...), "the token has 5 bytes"},
		{"no such file", "ASYNC_MASTER", append(append([]string{}, keys...), "mqstore.ha.ca="+missing), missing},
		{"a key for a certificate", "ASYNC_MASTER", append(append([]string{}, keys...), "mqstore.ha.cert="+strings.TrimPrefix(keys[1], "mqstore.ha.key=")), "mqstore.ha.cert"},
		{"no address", "SLAVE", append(append([]string{}, keys...), "mqstore.ha.master=somewhere"), "must be host:port"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			cmd := serveCommand(t, writeConfig(t, dir, c.role, map[string]int{"SLAVE": 1}[c.role], freePort(t), c.more...), "--admin", "127.0.0.1:0")
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), c.want) {
				t.Errorf("%v: %s", err, out)
			}
			if _, err := os.Stat(dir); err == nil {
				t.Error("the store was opened")
			}
		})
	}
}

// A pair changes its roles while it runs: the master is killed, the slave is promoted by hand, serves metadata and a new slave; and is made a slave again.
func TestServedSlaveIsPromotedByHand(t *testing.T) {
	root := t.TempDir()
	a, b, c := filepath.Join(root, "a"), filepath.Join(root, "b"), filepath.Join(root, "c")
	end := putInto(t, a, 100)
	portA, portB := freePort(t), freePort(t)
	master := serve(t, writeConfig(t, a, "SYNC_MASTER", 0, portA))
	slave := serve(t, writeConfig(t, b, "SLAVE", 1, portB, fmt.Sprintf("haMasterAddress=127.0.0.1:%d", portA+1)))
	has := func(j statsJSON) bool { return j.MaxPhyOffset == end && j.DispatchBehindBytes == 0 }
	slave.until("copy", has)

	// What is not meant so changes nothing.
	for _, path := range []string{"/role", "/role?role=MASTER", "/role?role=SYNC_MASTER&force=1", "/role?role=SYNC_MASTER&role=SLAVE", "/role?role=SYNC_MASTER&master=127.0.0.1:1", "/role?rolle=SYNC_MASTER"} {
		if code, body := slave.post(path); code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if code, _ := slave.get("/role?role=SYNC_MASTER"); code != http.StatusMethodNotAllowed {
		t.Errorf("a GET is answered %d", code)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, slave.admin+"/role?role=SYNC_MASTER", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	if resp, err := http.DefaultClient.Do(r); err != nil || resp.StatusCode != http.StatusForbidden {
		t.Errorf("a web page's POST: %v %v", resp, err)
	} else {
		resp.Body.Close()
	}
	if code, body := slave.post("/master?address=nowhere"); code != http.StatusConflict {
		t.Errorf("an address that is none: %d %s", code, body)
	}
	if j := slave.stats(); j.Role != "SLAVE" || j.HA.Following.Master != fmt.Sprintf("127.0.0.1:%d", portA+1) {
		t.Errorf("%+v", j)
	}

	master.kill()
	code, body := slave.post("/role?role=SYNC_MASTER")
	var answer changeJSON
	if err := json.Unmarshal([]byte(body), &answer); err != nil || code != http.StatusOK || answer.Role != "SYNC_MASTER" {
		t.Fatalf("%d %s", code, body)
	}
	if j := slave.stats(); j.Role != "SYNC_MASTER" || j.BrokerID != 0 || !j.Writable || !j.Healthy || j.HA.Following != nil || j.Metadata != nil {
		t.Errorf("%+v", j)
	}
	third := serve(t, writeConfig(t, c, "SLAVE", 1, freePort(t), fmt.Sprintf("haMasterAddress=127.0.0.1:%d", portB+1)))
	third.until("copy of log and metadata", func(j statsJSON) bool { return has(j) && j.Metadata["topics.json"].Synced > 0 })
	slave.until("slave", func(j statsJSON) bool { return len(j.HA.Slaves) == 1 && j.HA.Slaves[0].Ack == end })

	// And back: the one that was promoted follows the third.
	if code, body := third.post("/role?role=ASYNC_MASTER"); code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	address := third.stats().HA.ListenAddress
	if code, body := slave.post("/role?role=SLAVE&master=" + address); code != http.StatusOK || !strings.Contains(body, address) {
		t.Fatalf("%d %s", code, body)
	}
	third.until("slave", func(j statsJSON) bool { return len(j.HA.Slaves) == 1 && j.HA.Slaves[0].Ack == end })
	if j := slave.stats(); j.Role != "SLAVE" || j.BrokerID != 1 || j.HA.Following.Master != address {
		t.Errorf("%+v", j)
	}
	slave.stop(syscall.SIGTERM)
	third.stop(syscall.SIGTERM)

	// What a broker of its own puts into the promoted store goes on where the old master ended.
	s, err := store.Open(b, store.Options{SegmentSize: 64 << 10, QueueFileSize: 2000})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if st := s.Stats(); !st.Recovery.Clean || st.MaxPhyOffset != end {
		t.Errorf("%+v", st)
	}
	before := s.MaxOffset("T0", 0)
	host, err := record.ParseHost("127.0.0.1:10911")
	if err != nil {
		t.Fatal(err)
	}
	r2, err := s.Put(t.Context(), &record.Message{Topic: "T0", BornHost: host, StoreHost: host, Body: []byte("x")})
	if err != nil || r2.QueueOffset != before || before == 0 || r2.PhyOffset != end {
		t.Errorf("T0/0 ended at %d, the log at %d; put: %+v %v", before, end, r2, err)
	}
}

// Changes are taken from this machine only, wherever the admin address is.
func TestChangesComeFromThisMachine(t *testing.T) {
	n := new(node)
	var errs bytes.Buffer
	for remote, want := range map[string]int{"127.0.0.1:5": http.StatusOK, "[::1]:5": http.StatusOK, "192.0.2.1:5": http.StatusForbidden, "[2001:db8::1]:5": http.StatusForbidden, "": http.StatusForbidden} {
		w := &answerOnly{header: http.Header{}, body: &errs, code: http.StatusOK}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x/role?role=SLAVE", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.RemoteAddr = remote
		if _, ok := n.parameters(w, r, "role"); ok != (want == http.StatusOK) || w.code != want {
			t.Errorf("from %q: %v %d", remote, ok, w.code)
		}
	}
}

type answerOnly struct {
	header http.Header
	body   io.Writer
	code   int
}

func (a *answerOnly) Header() http.Header         { return a.header }
func (a *answerOnly) Write(b []byte) (int, error) { return a.body.Write(b) }
func (a *answerOnly) WriteHeader(code int)        { a.code = code }
