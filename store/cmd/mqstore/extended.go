package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/mqstore/mqstore/store"
)

// maxSecretFile bounds the files that a configuration names.
const maxSecretFile = 1 << 20

// extendedOf is replication's extended protocol as a file's own keys want it; nil if they do not. warn is told of files that others can read.
func extendedOf(b *store.BrokerExtended, role store.Role, warn func(format string, args ...any)) (*store.HAExtended, error) {
	if !b.Configured() {
		return nil, nil
	}
	var missing []string
	for _, f := range []struct{ key, value string }{{"cert", b.Cert}, {"key", b.Key}, {"ca", b.CA}, {"tokenFile", b.TokenFile}} {
		if f.value == "" {
			missing = append(missing, "mqstore.ha."+f.key)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("replication with TLS and a token needs %s, too", strings.Join(missing, ", "))
	}
	if role == store.Slave && b.MasterAddress == "" {
		return nil, errors.New("brokerRole=SLAVE with TLS: set mqstore.ha.master to host:port of the master's mqstore.ha.listen; haMasterAddress is its listener without TLS")
	}
	for _, path := range []string{b.Key, b.TokenFile} {
		if info, err := os.Stat(path); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
			warn("%s can be read by others (mode %04o): chmod 600", path, info.Mode().Perm())
		}
	}
	cert, err := tls.LoadX509KeyPair(b.Cert, b.Key)
	if err != nil {
		return nil, fmt.Errorf("mqstore.ha.cert and mqstore.ha.key: %w", err)
	}
	pem, err := readSmall(b.CA)
	if err != nil {
		return nil, fmt.Errorf("mqstore.ha.ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("mqstore.ha.ca: %s holds no certificate in PEM form", b.CA)
	}
	token, err := readSmall(b.TokenFile)
	if err != nil {
		return nil, fmt.Errorf("mqstore.ha.tokenFile: %w", err)
	}
	line, _, _ := strings.Cut(string(token), "\n")
	return &store.HAExtended{
		ListenAddress: b.ListenAddress, Token: strings.TrimSpace(line), Compress: b.Compress, ResyncFrom: b.ResyncFrom,
		TLS: &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13},
	}, nil
}

func readSmall(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxSecretFile {
		return nil, fmt.Errorf("%s has %d bytes: is it the right file?", path, info.Size())
	}
	return os.ReadFile(path)
}
